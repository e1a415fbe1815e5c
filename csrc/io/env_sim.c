/* env_sim.c - the simulated disk as an environment: its table, descriptors, locks, clocks, and failing on request. */
#include "io/env_sim.h"

#include <errno.h>
#include <string.h>
#include <threads.h>

#include "io/env_sim_state.h"
#include "io/os_error.h"

enum {
    FIRST_DESCRIPTOR = 1 << 24, /* the system has no such descriptor, should one get there by mistake */
    TICK_NS = 1000              /* how much later it is each time the monotonic clock is read */
};

#define CALL_NAME(name) #name,
static const char *const call_names[] = { SGS_SIM_CALLS(CALL_NAME) "any_call" };
#undef CALL_NAME

const char *sgs_sim_call_name(sgs_sim_call call)
{
    SGS_EXPECT((unsigned)call <= SGS_SIM_ANY_CALL);
    return call_names[call];
}

sgs_sim_disk *sgs_sim_of(const sgs_env *env)
{
    sgs_sim_disk *const disk = env->context;
    SGS_EXPECT(disk->base != env); /* else a call would never end */
    return disk;
}

/* ---- beginning and end of a call ---- */

void sgs_sim_take(sgs_sim_disk *disk)
{
    while (atomic_flag_test_and_set_explicit(&disk->is_busy, memory_order_acquire))
        thrd_yield();
}

/* Before the disk is taken. */
static void tell(const sgs_sim_disk *disk, sgs_sim_call call, const char *name)
{
    if (disk->watch != NULL)
        disk->watch(disk->watch_context, call, name);
}

static void let_go(sgs_sim_disk *disk)
{
    SGS_EXPECT(sgs_is_held(&disk->is_busy));
    atomic_flag_clear_explicit(&disk->is_busy, memory_order_release);
}

static sgs_status status_otherwise(sgs_sim_call call)
{
    switch (call) {
    case SGS_SIM_open_directory:
    case SGS_SIM_list_directory:
    case SGS_SIM_file_info_at:
    case SGS_SIM_file_info:
    case SGS_SIM_read_at:
    case SGS_SIM_map:
    case SGS_SIM_is_network_file_system:
        return SGS_READ_IO;
    default:
        return SGS_WRITE_IO;
    }
}

sgs_status sgs_sim_fail_call(sgs_sim_call call, int os_error, const char *name, sgs_error *err)
{
    sgs_status status = sgs_os_error_status(os_error, status_otherwise(call));
    switch (call) { /* what has one meaning, whatever errno says [DUR-34, DUR-35, DUR-65] */
    case SGS_SIM_sync_data:
    case SGS_SIM_sync_file:
    case SGS_SIM_sync_directory:
    case SGS_SIM_sync_mapping:
        status = SGS_FSYNC_FAILED;
        break;
    case SGS_SIM_close:
        status = SGS_CLOSE_FAILED;
        break;
    case SGS_SIM_send_file:
        status = SGS_SEND_FAILED;
        break;
    case SGS_SIM_lock:
        if (os_error == EAGAIN)
            status = SGS_LOCKED;
        break;
    default:
        break;
    }
    return sgs_fail_os(err, status, os_error, call_names[call], name);
}

/* Count; the errno with which this call fails, or 0. */
static int planned_error(sgs_sim_disk *disk, sgs_sim_call call)
{
    SGS_EXPECT(sgs_is_held(&disk->is_busy));
    const int64_t count = ++disk->calls[call];
    const sgs_sim_plan *plan = &disk->plans[call];
    const bool fails = plan->fail_at > 0 && (plan->for_ever ? count >= plan->fail_at : count == plan->fail_at);
    return fails ? plan->os_error : 0;
}

static sgs_status fail_if_planned(sgs_sim_disk *disk, sgs_sim_call call, const char *name, sgs_error *err)
{
    const int by_kind = planned_error(disk, call);
    const int by_count = planned_error(disk, SGS_SIM_ANY_CALL);
    int os_error = by_kind != 0 ? by_kind : by_count;
    SGS_EXPECT(disk->failed_calls <= disk->calls[SGS_SIM_ANY_CALL]);
    if (disk->is_off)
        os_error = EIO;
    disk->failed_calls += os_error != 0;
    return os_error != 0 ? sgs_sim_fail_call(call, os_error, name, err) : SGS_OK;
}

sgs_status sgs_sim_enter(sgs_sim_disk *disk, sgs_sim_call call, const char *name, sgs_error *err)
{
    tell(disk, call, name);
    sgs_sim_take(disk);
    const sgs_status status = fail_if_planned(disk, call, name, err);
    return status != SGS_OK ? sgs_sim_leave(disk, status, name, err) : SGS_OK;
}

sgs_status sgs_sim_check_power(sgs_sim_disk *disk, sgs_sim_call call, const char *name, sgs_error *err)
{
    SGS_EXPECT(sgs_is_held(&disk->is_busy));
    const sgs_status status = disk->is_off ? SGS_OK : sgs_sim_notice_stores(disk, err);
    disk->is_off = disk->is_off || (disk->cut_after >= 0 && disk->effects >= disk->cut_after);
    if (status != SGS_OK || !disk->is_off)
        return status;
    ++disk->failed_calls;
    return sgs_sim_fail_call(call, EIO, name, err);
}

sgs_status sgs_sim_enter_effect(sgs_sim_disk *disk, sgs_sim_call call, const char *name, sgs_error *err)
{
    tell(disk, call, name);
    sgs_sim_take(disk);
    sgs_status status = fail_if_planned(disk, call, name, err);
    if (status == SGS_OK)
        status = sgs_sim_check_power(disk, call, name, err);
    return status != SGS_OK ? sgs_sim_leave(disk, status, name, err) : SGS_OK;
}

sgs_status sgs_sim_leave(sgs_sim_disk *disk, sgs_status status, const char *name, sgs_error *err)
{
    SGS_EXPECT(status == SGS_OK || err->status == status);
    let_go(disk);
    return status == SGS_OK ? SGS_OK : sgs_fail_in_file(err, name);
}

/* ---- descriptors and locks ---- */

static sgs_sim_descriptor *descriptors(const sgs_sim_disk *disk)
{
    return (sgs_sim_descriptor *)disk->descriptors.data;
}

static size_t descriptor_count(const sgs_sim_disk *disk) { return disk->descriptors.size / sizeof(sgs_sim_descriptor); }

sgs_sim_descriptor *sgs_sim_descriptor_of(const sgs_sim_disk *disk, int fd, sgs_sim_call call, const char *name,
                                          sgs_error *err)
{
    const size_t number = (size_t)fd - FIRST_DESCRIPTOR; /* a small or negative one becomes very large */
    if (number < descriptor_count(disk) && descriptors(disk)[number].is_open)
        return &descriptors(disk)[number];
    (void)sgs_sim_fail_call(call, EBADF, name, err);
    return NULL;
}

sgs_status sgs_sim_add_descriptor(sgs_sim_disk *disk, uint32_t node, bool is_writable, int *fd, sgs_error *err)
{
    const sgs_sim_descriptor made = { .node = node, .is_open = true, .is_writable = is_writable };
    const size_t number = descriptor_count(disk);
    SGS_EXPECT(number < INT32_MAX - FIRST_DESCRIPTOR && node < sgs_sim_node_count(disk));
    const sgs_status status = sgs_buffer_append(&disk->descriptors, &made, sizeof made, err);
    if (status == SGS_OK)
        *fd = FIRST_DESCRIPTOR + (int)number;
    return status;
}

static sgs_status sim_close(const sgs_env *env, int fd, const char *name, sgs_error *err)
{
    sgs_sim_disk *disk = sgs_sim_of(env);
    tell(disk, SGS_SIM_close, name);
    sgs_sim_take(disk);
    sgs_status status = fail_if_planned(disk, SGS_SIM_close, name, err);
    sgs_error unused; /* the descriptor is gone in any case [DUR-34] */
    sgs_sim_descriptor *descriptor =
        sgs_sim_descriptor_of(disk, fd, SGS_SIM_close, name, status == SGS_OK ? err : &unused);
    if (descriptor != NULL)
        descriptor->is_open = descriptor->is_locked = false;
    else if (status == SGS_OK)
        status = SGS_CLOSE_FAILED;
    return sgs_sim_leave(disk, status, name, err);
}

static sgs_status sim_file_info(const sgs_env *env, int fd, const char *name, sgs_file_info *info, sgs_error *err)
{
    sgs_sim_disk *disk = sgs_sim_of(env);
    sgs_status status = sgs_sim_enter(disk, SGS_SIM_file_info, name, err);
    if (status != SGS_OK)
        return status;
    const sgs_sim_descriptor *descriptor = sgs_sim_descriptor_of(disk, fd, SGS_SIM_file_info, name, err);
    if (descriptor == NULL)
        status = SGS_READ_IO;
    else
        *info = sgs_sim_info(disk, descriptor->node);
    return sgs_sim_leave(disk, status, name, err);
}

/* Whether somebody else's lock is in the way [DUR-65]: locks belong to open file descriptions, one a descriptor here. */
static bool is_in_the_way(const sgs_sim_descriptor *other, const sgs_sim_descriptor *own, sgs_lock_kind kind)
{
    return other != own && other->is_locked && other->node == own->node &&
           (kind == SGS_LOCK_EXCLUSIVE || other->lock == SGS_LOCK_EXCLUSIVE);
}

static sgs_status sim_lock(const sgs_env *env, int fd, const char *name, sgs_lock_kind kind, sgs_error *err)
{
    sgs_sim_disk *disk = sgs_sim_of(env);
    sgs_status status = sgs_sim_enter(disk, SGS_SIM_lock, name, err);
    if (status != SGS_OK)
        return status;
    sgs_sim_descriptor *own = sgs_sim_descriptor_of(disk, fd, SGS_SIM_lock, name, err);
    if (own == NULL || (kind == SGS_LOCK_EXCLUSIVE && !own->is_writable))
        status = sgs_sim_fail_call(SGS_SIM_lock, EBADF, name, err);
    for (size_t i = 0; status == SGS_OK && i < descriptor_count(disk); ++i)
        if (is_in_the_way(&descriptors(disk)[i], own, kind))
            status = sgs_sim_fail_call(SGS_SIM_lock, EAGAIN, name, err);
    if (status == SGS_OK) {
        SGS_EXPECT(own->is_open && !sgs_sim_node_at(disk, own->node)->is_directory);
        own->is_locked = true;
        own->lock = kind;
    }
    return sgs_sim_leave(disk, status, name, err);
}

static sgs_status sim_unlock(const sgs_env *env, int fd, const char *name, sgs_error *err)
{
    sgs_sim_disk *disk = sgs_sim_of(env);
    sgs_status status = sgs_sim_enter(disk, SGS_SIM_unlock, name, err);
    if (status != SGS_OK)
        return status;
    sgs_sim_descriptor *own = sgs_sim_descriptor_of(disk, fd, SGS_SIM_unlock, name, err);
    if (own == NULL)
        status = SGS_WRITE_IO;
    else
        own->is_locked = false;
    return sgs_sim_leave(disk, status, name, err);
}

/* ---- memory, advice, clocks, process ---- */

static void *sim_allocate(const sgs_env *env, size_t size)
{
    const sgs_env *base = sgs_sim_of(env)->base;
    return base->allocate(base, size);
}

static void *sim_reallocate(const sgs_env *env, void *memory, size_t size)
{
    const sgs_env *base = sgs_sim_of(env)->base;
    return base->reallocate(base, memory, size);
}

static void sim_release(const sgs_env *env, void *memory)
{
    const sgs_env *base = sgs_sim_of(env)->base;
    base->release(base, memory);
}

static void sim_advice(const sgs_env *env, int fd, int64_t position, int64_t size)
{
    (void)env;
    (void)fd;
    (void)position;
    (void)size;
}

static int64_t sim_wall_clock_ms(const sgs_env *env)
{
    sgs_sim_disk *disk = sgs_sim_of(env);
    sgs_sim_take(disk);
    const int64_t now_ms = disk->wall_clock_ms;
    let_go(disk);
    return now_ms;
}

static int64_t sim_monotonic_ns(const sgs_env *env)
{
    sgs_sim_disk *disk = sgs_sim_of(env);
    sgs_sim_take(disk);
    const int64_t now_ns = disk->monotonic_ns += TICK_NS;
    let_go(disk);
    return now_ns;
}

static int64_t sim_process_id(const sgs_env *env)
{
    const sgs_env *base = sgs_sim_of(env)->base;
    return base->process_id(base);
}

static sgs_status sim_send_file(const sgs_env *env, int fd, const char *name, int64_t position, size_t size,
                                int destination, sgs_transfer *transfer, sgs_error *err)
{
    (void)fd;
    (void)position;
    (void)size;
    (void)destination; /* of the system: nothing from here gets there */
    *transfer = (sgs_transfer){ .sent = 0 };
    const sgs_status status = sgs_sim_enter(sgs_sim_of(env), SGS_SIM_send_file, name, err);
    if (status != SGS_OK)
        return status;
    return sgs_sim_leave(sgs_sim_of(env), sgs_sim_fail_call(SGS_SIM_send_file, EBADF, name, err), name, err);
}

static sgs_status sim_is_network_file_system(const sgs_env *env, int fd, bool *is_network, sgs_error *err)
{
    (void)fd;
    sgs_sim_disk *disk = sgs_sim_of(env);
    const sgs_status status = sgs_sim_enter(disk, SGS_SIM_is_network_file_system, ".", err);
    if (status != SGS_OK)
        return status;
    *is_network = false;
    return sgs_sim_leave(disk, SGS_OK, ".", err);
}

static const sgs_env table = {
    .allocate = sim_allocate,
    .reallocate = sim_reallocate,
    .release = sim_release,
    .open_directory = sgs_sim_open_directory,
    .make_directory = sgs_sim_make_directory,
    .remove_directory = sgs_sim_remove_directory,
    .list_directory = sgs_sim_list_directory,
    .sync_directory = sgs_sim_sync_directory,
    .file_info_at = sgs_sim_file_info_at,
    .set_modified_at = sgs_sim_set_modified_at,
    .make_read_only_at = sgs_sim_make_read_only_at,
    .rename = sgs_sim_rename,
    .unlink = sgs_sim_unlink,
    .open_file = sgs_sim_open_file,
    .close = sim_close,
    .file_info = sim_file_info,
    .read_at = sgs_sim_read_at,
    .write_at = sgs_sim_write_at,
    .send_file = sim_send_file,
    .truncate = sgs_sim_truncate,
    .allocate_space = sgs_sim_allocate_space,
    .sync_data = sgs_sim_sync_data,
    .sync_file = sgs_sim_sync_file,
    .drop_cache = sim_advice,
    .read_ahead = sim_advice,
    .map = sgs_sim_map,
    .unmap = sgs_sim_unmap,
    .sync_mapping = sgs_sim_sync_mapping,
    .lock = sim_lock,
    .unlock = sim_unlock,
    .wall_clock_ms = sim_wall_clock_ms,
    .monotonic_ns = sim_monotonic_ns,
    .process_id = sim_process_id,
    .is_network_file_system = sim_is_network_file_system,
};

/* ---- the disk ---- */

sgs_status sgs_sim_open(const sgs_env *base, uint64_t device, sgs_sim_disk **disk, sgs_error *err)
{
    sgs_sim_disk *made = base->allocate(base, sizeof *made);
    if (made == NULL)
        return sgs_fail(err, SGS_RESOURCE, "no memory for a simulated disk");
    memset(made, 0, sizeof *made);
    atomic_flag_clear(&made->is_busy);
    made->env = table;
    made->env.context = made;
    made->base = base;
    made->device = device;
    made->cut_after = made->room = -1;
    const sgs_memory memory = sgs_env_memory(base);
    sgs_buffer_init(&made->nodes, memory);
    sgs_buffer_init(&made->descriptors, memory);
    sgs_buffer_init(&made->log, memory);
    sgs_buffer_init(&made->bytes, memory);
    uint32_t root = 0;
    size_t no_name = 0;
    sgs_status status = sgs_sim_add_node(made, true, &root, err);
    if (status == SGS_OK)
        status = sgs_sim_keep_bytes(made, "", 1, &no_name, err); /* what an effect without a name has */
    SGS_EXPECT(status != SGS_OK || (root == SGS_SIM_ROOT && no_name == 0));
    if (status != SGS_OK) {
        sgs_sim_close(made);
        return status;
    }
    *disk = made;
    return SGS_OK;
}

void sgs_sim_close(sgs_sim_disk *disk)
{
    if (disk == NULL)
        return;
    SGS_EXPECT(!sgs_is_held(&disk->is_busy)); /* no call is inside */
    const sgs_env *base = disk->base;
    for (uint32_t i = 0; i < sgs_sim_node_count(disk); ++i) {
        sgs_sim_node *node = sgs_sim_node_at(disk, i);
        SGS_EXPECT(node->shadow == NULL || node->may_not_move);
        sgs_buffer_deinit(&node->entries);
        base->release(base, node->data);
        base->release(base, node->shadow);
    }
    sgs_buffer_deinit(&disk->nodes);
    sgs_buffer_deinit(&disk->descriptors);
    sgs_buffer_deinit(&disk->log);
    sgs_buffer_deinit(&disk->bytes);
    base->release(base, disk);
}
