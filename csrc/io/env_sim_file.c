/* env_sim_file.c - files of the simulated disk: their bytes, sizes, syncs and mappings. */
#include <errno.h>
#include <string.h>

#include "io/env_sim_state.h"

/* The file behind a descriptor that a call of this kind may use; with the disk taken. */
static sgs_status file_of(const sgs_sim_disk *disk, int fd, sgs_sim_call call, bool writes, const char *name,
                          uint32_t *node, sgs_error *err)
{
    const sgs_sim_descriptor *descriptor = sgs_sim_descriptor_of(disk, fd, call, name, err);
    if (descriptor == NULL)
        return err->status;
    if (sgs_sim_node_at(disk, descriptor->node)->is_directory)
        return sgs_sim_fail_call(call, EISDIR, name, err);
    if (writes && !descriptor->is_writable)
        return sgs_sim_fail_call(call, EBADF, name, err);
    SGS_EXPECT(descriptor->is_open);
    *node = descriptor->node;
    return SGS_OK;
}

static sgs_status do_named(sgs_sim_disk *disk, sgs_sim_effect effect, const char *name, sgs_error *err)
{
    const sgs_status status = sgs_sim_keep_bytes(disk, name, strlen(name) + 1, &effect.name_at, err);
    return status == SGS_OK ? sgs_sim_do(disk, effect, err) : status;
}

sgs_status sgs_sim_read_at(const sgs_env *env, int fd, const char *name, void *data, size_t size, int64_t position,
                           size_t *got, sgs_error *err)
{
    sgs_sim_disk *disk = sgs_sim_of(env);
    uint32_t node = 0;
    sgs_status status = sgs_sim_enter(disk, SGS_SIM_read_at, name, err);
    if (status != SGS_OK)
        return status;
    status = file_of(disk, fd, SGS_SIM_read_at, false, name, &node, err);
    if (status == SGS_OK) {
        const sgs_sim_node *file = sgs_sim_node_at(disk, node);
        const int64_t left = file->size > position ? file->size - position : 0;
        SGS_EXPECT(position >= 0 && file->size <= file->capacity);
        *got = left < (int64_t)size ? (size_t)left : size;
        if (*got > 0)
            memcpy(data, file->data + position, *got);
    }
    return sgs_sim_leave(disk, status, name, err);
}

static sgs_status keep_slices(sgs_sim_disk *disk, const sgs_slice *slices, size_t count, sgs_sim_effect *effect,
                              sgs_error *err)
{
    sgs_status status = SGS_OK;
    SGS_EXPECT(effect->bytes_count == 0);
    effect->bytes_at = disk->bytes.size;
    for (size_t i = 0; status == SGS_OK && i < count; ++i) {
        status = sgs_buffer_append(&disk->bytes, slices[i].data, slices[i].size, err);
        effect->bytes_count += slices[i].size;
    }
    return status;
}

/* Leave out what a full disk has no room for. */
static void fit_into_room(sgs_sim_disk *disk, sgs_sim_effect *effect)
{
    const int64_t size = sgs_sim_node_at(disk, effect->node)->size;
    SGS_EXPECT(effect->kind == SGS_SIM_WRITE && effect->position >= 0);
    const int64_t end = effect->position + (int64_t)effect->bytes_count;
    if (disk->room < 0 || end <= size)
        return;
    const int64_t growth = end - size < disk->room ? end - size : disk->room;
    const int64_t fits = size + growth > effect->position ? size + growth - effect->position : 0;
    effect->bytes_count = (size_t)fits;
    SGS_EXPECT(growth >= 0 && growth <= disk->room && fits <= (int64_t)effect->bytes_count);
    disk->room -= growth;
}

sgs_status sgs_sim_write_at(const sgs_env *env, int fd, const char *name, const sgs_slice *slices, size_t count,
                            int64_t position, int64_t *written, sgs_error *err)
{
    sgs_sim_disk *disk = sgs_sim_of(env);
    sgs_sim_effect effect = { .kind = SGS_SIM_WRITE, .call = SGS_SIM_write_at, .position = position };
    *written = 0;
    sgs_status status = sgs_sim_enter_effect(disk, SGS_SIM_write_at, name, err);
    if (status != SGS_OK)
        return status;
    status = file_of(disk, fd, SGS_SIM_write_at, true, name, &effect.node, err);
    if (status == SGS_OK)
        status = keep_slices(disk, slices, count, &effect, err);
    const size_t wanted = effect.bytes_count;
    if (status == SGS_OK)
        fit_into_room(disk, &effect);
    SGS_EXPECT(status != SGS_OK || effect.bytes_count <= wanted);
    if (status == SGS_OK)
        status = do_named(disk, effect, name, err);
    if (status == SGS_OK)
        *written = (int64_t)effect.bytes_count;
    if (status == SGS_OK && effect.bytes_count < wanted) {
        ++disk->failed_calls;
        status = sgs_sim_fail_call(SGS_SIM_write_at, ENOSPC, name, err);
    }
    return sgs_sim_leave(disk, status, name, err);
}

sgs_status sgs_sim_truncate(const sgs_env *env, int fd, const char *name, int64_t size, sgs_error *err)
{
    sgs_sim_disk *disk = sgs_sim_of(env);
    sgs_sim_effect effect = { .kind = SGS_SIM_RESIZE, .call = SGS_SIM_truncate, .position = size };
    sgs_status status = sgs_sim_enter_effect(disk, SGS_SIM_truncate, name, err);
    if (status != SGS_OK)
        return status;
    status = file_of(disk, fd, SGS_SIM_truncate, true, name, &effect.node, err);
    if (status == SGS_OK && size < 0)
        status = sgs_sim_fail_call(SGS_SIM_truncate, EINVAL, name, err);
    if (status == SGS_OK)
        status = do_named(disk, effect, name, err);
    return sgs_sim_leave(disk, status, name, err);
}

sgs_status sgs_sim_allocate_space(const sgs_env *env, int fd, const char *name, int64_t size, sgs_error *err)
{
    sgs_sim_disk *disk = sgs_sim_of(env);
    sgs_sim_effect effect = { .kind = SGS_SIM_RESIZE, .call = SGS_SIM_allocate_space, .position = size };
    sgs_status status = sgs_sim_enter_effect(disk, SGS_SIM_allocate_space, name, err);
    if (status != SGS_OK)
        return status;
    status = file_of(disk, fd, SGS_SIM_allocate_space, true, name, &effect.node, err);
    if (status == SGS_OK) {
        SGS_EXPECT(size >= 0);
        if (size <= sgs_sim_node_at(disk, effect.node)->size)
            effect.kind = SGS_SIM_NOTHING;
        status = do_named(disk, effect, name, err);
    }
    return sgs_sim_leave(disk, status, name, err);
}

/* ---- syncs ---- */

/* What was written is clean now, as the kernel sees it, and is not on the disk: no later sync brings it there. */
static sgs_status fail_sync(sgs_sim_disk *disk, int fd, sgs_sim_call call, const char *name, sgs_error *err)
{
    sgs_error unused;
    sgs_sim_take(disk);
    const sgs_sim_descriptor *descriptor = sgs_sim_descriptor_of(disk, fd, call, name, &unused);
    if (descriptor != NULL && !disk->is_off && sgs_sim_notice_stores(disk, &unused) == SGS_OK) {
        SGS_EXPECT(descriptor->node < sgs_sim_node_count(disk));
        const sgs_sim_effect drop = { .kind = SGS_SIM_DROP, .number = disk->effects, .node = descriptor->node };
        (void)sgs_sim_replay(disk, &drop, &unused);
    }
    return sgs_sim_leave(disk, SGS_FSYNC_FAILED, name, err);
}

static sgs_status sync_descriptor(const sgs_env *env, int fd, sgs_sim_call call, const char *name, sgs_barrier barrier,
                                  sgs_error *err)
{
    sgs_sim_disk *disk = sgs_sim_of(env);
    SGS_EXPECT((unsigned)barrier < SGS_BARRIER_COUNT);
    sgs_sim_effect effect = { .kind = SGS_SIM_SYNC, .call = call, .barrier = barrier };
    sgs_status status = sgs_sim_enter_effect(disk, call, name, err);
    if (status != SGS_OK)
        return fail_sync(disk, fd, call, name, err);
    const sgs_sim_descriptor *descriptor = sgs_sim_descriptor_of(disk, fd, call, name, err);
    if (descriptor == NULL) {
        status = SGS_FSYNC_FAILED;
    } else {
        effect.node = descriptor->node;
        status = do_named(disk, effect, name, err);
    }
    return sgs_sim_leave(disk, status, name, err);
}

sgs_status sgs_sim_sync_directory(const sgs_env *env, int fd, sgs_barrier barrier, sgs_error *err)
{
    return sync_descriptor(env, fd, SGS_SIM_sync_directory, ".", barrier, err);
}

sgs_status sgs_sim_sync_data(const sgs_env *env, int fd, const char *name, sgs_barrier barrier, sgs_error *err)
{
    return sync_descriptor(env, fd, SGS_SIM_sync_data, name, barrier,
                           err); /* with the size: the bytes are not found without it */
}

sgs_status sgs_sim_sync_file(const sgs_env *env, int fd, const char *name, sgs_barrier barrier, sgs_error *err)
{
    return sync_descriptor(env, fd, SGS_SIM_sync_file, name, barrier, err);
}

/* ---- mappings: the memory of the file itself ---- */

sgs_status sgs_sim_map(const sgs_env *env, int fd, const char *name, size_t size, bool writable, void **address,
                       sgs_error *err)
{
    sgs_sim_disk *disk = sgs_sim_of(env);
    uint32_t node = 0;
    sgs_status status = sgs_sim_enter(disk, SGS_SIM_map, name, err);
    if (status != SGS_OK)
        return status;
    status = file_of(disk, fd, SGS_SIM_map, writable, name, &node, err);
    if (status == SGS_OK && size > INT32_MAX)
        status = sgs_sim_fail_call(SGS_SIM_map, ENOMEM, name, err);
    if (status == SGS_OK)
        status = sgs_sim_pin(disk, node, (int64_t)size, writable, err);
    if (status == SGS_OK)
        *address = sgs_sim_node_at(disk, node)->data;
    SGS_EXPECT(status != SGS_OK || sgs_sim_node_at(disk, node)->may_not_move);
    return sgs_sim_leave(disk, status, name, err);
}

void sgs_sim_unmap(const sgs_env *env, void *address, size_t size)
{
    (void)env; /* the file's memory stays where it is; what was stored is noticed before the next effect */
    (void)address;
    (void)size;
}

sgs_status sgs_sim_sync_mapping(const sgs_env *env, void *address, size_t size, const char *name, sgs_error *err)
{
    (void)address;
    (void)size;
    sgs_sim_disk *disk = sgs_sim_of(env);
    const sgs_sim_effect effect = { .kind = SGS_SIM_NOTHING, .call = SGS_SIM_sync_mapping };
    sgs_status status = sgs_sim_enter_effect(disk, SGS_SIM_sync_mapping, name, err);
    if (status != SGS_OK)
        return status;
    status = do_named(disk, effect, name, err);
    return sgs_sim_leave(disk, status, name, err);
}
