/* memory_env.c - counting and failing in front of another environment. */
#include "memory_env.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/os_error.h"

#define CALL_NAME(name) #name,
static const char *const call_names[] = { MEMORY_ENV_CALLS(CALL_NAME) };
#undef CALL_NAME

static memory_env *of(const sgs_env *env) { return env->context; }

/* Count; say whether this one fails. */
static bool fails_at(memory_env *memory, memory_env_call call, const void *site)
{
    const int64_t count = ++memory->calls[call];
    if (memory->on_call != NULL)
        memory->on_call(memory->on_call_context, call, site);
    if (memory->until_all_fail > 0 && call != MEMORY_ENV_allocate && --memory->until_all_fail == 0)
        for (int i = 0; i < MEMORY_ENV_CALL_COUNT; ++i) {
            memory->fail_at[i] = i != MEMORY_ENV_allocate;
            memory->for_ever[i] = true;
        }
    const int64_t fail_at = memory->fail_at[call];
    return fail_at > 0 && (memory->for_ever[call] ? count >= fail_at : count == fail_at);
}

/* The site is where the member of the environment that this stands in was called. */
#define FAILS(memory, call) fails_at((memory), MEMORY_ENV_##call, __builtin_return_address(0))

sgs_status memory_env_status(memory_env_call call, int os_error)
{
    switch (call) {
    case MEMORY_ENV_sync_data:
    case MEMORY_ENV_sync_file:
    case MEMORY_ENV_sync_directory:
    case MEMORY_ENV_sync_mapping:
        return SGS_FSYNC_FAILED;
    case MEMORY_ENV_allocate:
        return SGS_RESOURCE;
    case MEMORY_ENV_close:
        return SGS_CLOSE_FAILED;
    case MEMORY_ENV_send_file:
        return SGS_SEND_FAILED;
    case MEMORY_ENV_lock:
        return os_error == EAGAIN ? SGS_LOCKED : sgs_os_error_status(os_error, SGS_WRITE_IO);
    case MEMORY_ENV_open_directory:
    case MEMORY_ENV_list_directory:
    case MEMORY_ENV_file_info_at:
    case MEMORY_ENV_file_info:
    case MEMORY_ENV_read_at:
    case MEMORY_ENV_map:
    case MEMORY_ENV_is_network_file_system:
        return sgs_os_error_status(os_error, SGS_READ_IO);
    default:
        return sgs_os_error_status(os_error, SGS_WRITE_IO);
    }
}

static sgs_status fail(const memory_env *memory, memory_env_call call, const char *name, sgs_error *err)
{
    const int os_error = memory->os_error[call];
    if (os_error == MEMORY_ENV_BROKEN_INVARIANT)
        return sgs_fail_assertion(err, "the test wants it", call_names[call]);
    return sgs_fail_os(err, memory_env_status(call, os_error), os_error, call_names[call], name);
}

#define FAIL_HERE(call, name)                                     \
    do {                                                          \
        if (FAILS(of(env), call))                                 \
            return fail(of(env), MEMORY_ENV_##call, (name), err); \
    } while (0)

/* ---- memory ---- */

static void *memory_allocate(const sgs_env *env, size_t size)
{
    memory_env *memory = of(env);
    if (FAILS(memory, allocate))
        return NULL;
    void *allocated = memory->base->allocate(memory->base, size);
    memory->live_allocations += allocated != NULL;
    return allocated;
}

static void *memory_reallocate(const sgs_env *env, void *old, size_t size)
{
    memory_env *memory = of(env);
    if (FAILS(memory, allocate))
        return NULL;
    const bool is_new = old == NULL;
    void *moved = memory->base->reallocate(memory->base, old, size);
    memory->live_allocations += is_new && moved != NULL;
    return moved;
}

static void memory_release(const sgs_env *env, void *old)
{
    memory_env *memory = of(env);
    ++memory->calls[MEMORY_ENV_release];
    memory->live_allocations -= old != NULL;
    memory->base->release(memory->base, old);
}

/* ---- directories and names ---- */

static sgs_status memory_open_directory(const sgs_env *env, int parent_fd, const char *path, int *fd, sgs_error *err)
{
    FAIL_HERE(open_directory, path);
    const sgs_status status = of(env)->base->open_directory(of(env)->base, parent_fd, path, fd, err);
    of(env)->live_descriptors += status == SGS_OK;
    return status;
}

static sgs_status memory_make_directory(const sgs_env *env, int parent_fd, const char *path, sgs_error *err)
{
    FAIL_HERE(make_directory, path);
    return of(env)->base->make_directory(of(env)->base, parent_fd, path, err);
}

static sgs_status memory_remove_directory(const sgs_env *env, int parent_fd, const char *path, sgs_error *err)
{
    FAIL_HERE(remove_directory, path);
    return of(env)->base->remove_directory(of(env)->base, parent_fd, path, err);
}

static sgs_status memory_list_directory(const sgs_env *env, int fd, sgs_name_visitor visit, void *context,
                                        sgs_error *err)
{
    FAIL_HERE(list_directory, ".");
    return of(env)->base->list_directory(of(env)->base, fd, visit, context, err);
}

static sgs_status memory_sync_directory(const sgs_env *env, int fd, sgs_barrier barrier, sgs_error *err)
{
    FAIL_HERE(sync_directory, ".");
    return of(env)->base->sync_directory(of(env)->base, fd, barrier, err);
}

static sgs_status memory_file_info_at(const sgs_env *env, int directory_fd, const char *name, sgs_file_info *info,
                                      sgs_error *err)
{
    FAIL_HERE(file_info_at, name);
    return of(env)->base->file_info_at(of(env)->base, directory_fd, name, info, err);
}

static sgs_status memory_set_modified_at(const sgs_env *env, int directory_fd, const char *name, int64_t modified_ms,
                                         sgs_error *err)
{
    FAIL_HERE(set_modified_at, name);
    return of(env)->base->set_modified_at(of(env)->base, directory_fd, name, modified_ms, err);
}

static sgs_status memory_make_read_only_at(const sgs_env *env, int directory_fd, const char *name, sgs_error *err)
{
    FAIL_HERE(make_read_only_at, name);
    return of(env)->base->make_read_only_at(of(env)->base, directory_fd, name, err);
}

static sgs_status memory_rename(const sgs_env *env, int directory_fd, const char *from, const char *to, sgs_error *err)
{
    FAIL_HERE(rename, from);
    return of(env)->base->rename(of(env)->base, directory_fd, from, to, err);
}

static sgs_status memory_unlink(const sgs_env *env, int directory_fd, const char *name, sgs_error *err)
{
    FAIL_HERE(unlink, name);
    return of(env)->base->unlink(of(env)->base, directory_fd, name, err);
}

/* ---- files ---- */

static sgs_status memory_open_file(const sgs_env *env, int directory_fd, const char *name, sgs_open_mode mode, int *fd,
                                   sgs_error *err)
{
    FAIL_HERE(open_file, name);
    const sgs_status status = of(env)->base->open_file(of(env)->base, directory_fd, name, mode, fd, err);
    of(env)->live_descriptors += status == SGS_OK;
    return status;
}

/* As with the real one, the descriptor is gone whatever the answer is [DUR-34]. */
static sgs_status memory_close(const sgs_env *env, int fd, const char *name, sgs_error *err)
{
    memory_env *memory = of(env);
    --memory->live_descriptors;
    const sgs_status status = memory->base->close(memory->base, fd, name, err);
    if (FAILS(memory, close))
        return fail(memory, MEMORY_ENV_close, name, err);
    return status;
}

static sgs_status memory_file_info(const sgs_env *env, int fd, const char *name, sgs_file_info *info, sgs_error *err)
{
    FAIL_HERE(file_info, name);
    return of(env)->base->file_info(of(env)->base, fd, name, info, err);
}

static sgs_status memory_read_at(const sgs_env *env, int fd, const char *name, void *data, size_t size,
                                 int64_t position, size_t *got, sgs_error *err)
{
    FAIL_HERE(read_at, name);
    return of(env)->base->read_at(of(env)->base, fd, name, data, size, position, got, err);
}

/* The disk takes what it has room for, slice by slice, and then none. */
static sgs_status memory_write_at(const sgs_env *env, int fd, const char *name, const sgs_slice *slices, size_t count,
                                  int64_t position, int64_t *written, sgs_error *err)
{
    memory_env *memory = of(env);
    *written = 0;
    if (FAILS(memory, write_at)) { /* in the middle, as a disk that becomes full does it */
        const sgs_slice half = { count > 0 ? slices[0].data : NULL, count > 0 ? slices[0].size / 2 : 0 };
        if (memory->writes_half && half.size > 0)
            (void)memory->base->write_at(memory->base, fd, name, &half, 1, position, written, err);
        return fail(memory, MEMORY_ENV_write_at, name, err);
    }
    if (memory->space_left < 0)
        return memory->base->write_at(memory->base, fd, name, slices, count, position, written, err);
    for (size_t i = 0; i < count; ++i) {
        sgs_slice piece = slices[i];
        const bool fits = piece.size <= (size_t)memory->space_left;
        if (!fits)
            piece.size = (size_t)memory->space_left;
        int64_t done;
        const sgs_status status =
            memory->base->write_at(memory->base, fd, name, &piece, 1, position + *written, &done, err);
        *written += done;
        memory->space_left -= done;
        if (status != SGS_OK)
            return status;
        if (!fits)
            return sgs_fail_os(err, SGS_DISK_FULL, ENOSPC, "write the file", name);
    }
    return SGS_OK;
}

static sgs_status memory_send_file(const sgs_env *env, int fd, const char *name, int64_t position, size_t size,
                                   int destination, sgs_transfer *transfer, sgs_error *err)
{
    *transfer = (sgs_transfer){ .sent = 0 };
    FAIL_HERE(send_file, name);
    return of(env)->base->send_file(of(env)->base, fd, name, position, size, destination, transfer, err);
}

static sgs_status memory_truncate(const sgs_env *env, int fd, const char *name, int64_t size, sgs_error *err)
{
    FAIL_HERE(truncate, name);
    return of(env)->base->truncate(of(env)->base, fd, name, size, err);
}

static sgs_status memory_allocate_space(const sgs_env *env, int fd, const char *name, int64_t size, sgs_error *err)
{
    FAIL_HERE(allocate_space, name);
    return of(env)->base->allocate_space(of(env)->base, fd, name, size, err);
}

static sgs_status memory_sync_data(const sgs_env *env, int fd, const char *name, sgs_barrier barrier, sgs_error *err)
{
    FAIL_HERE(sync_data, name);
    return of(env)->base->sync_data(of(env)->base, fd, name, barrier, err);
}

static sgs_status memory_sync_file(const sgs_env *env, int fd, const char *name, sgs_barrier barrier, sgs_error *err)
{
    FAIL_HERE(sync_file, name);
    return of(env)->base->sync_file(of(env)->base, fd, name, barrier, err);
}

static void memory_drop_cache(const sgs_env *env, int fd, int64_t position, int64_t size)
{
    ++of(env)->calls[MEMORY_ENV_drop_cache];
    of(env)->base->drop_cache(of(env)->base, fd, position, size);
}

static void memory_read_ahead(const sgs_env *env, int fd, int64_t position, int64_t size)
{
    ++of(env)->calls[MEMORY_ENV_read_ahead];
    of(env)->base->read_ahead(of(env)->base, fd, position, size);
}

/* ---- mappings, locks, clocks ---- */

static sgs_status memory_map(const sgs_env *env, int fd, const char *name, size_t size, bool writable, void **address,
                             sgs_error *err)
{
    FAIL_HERE(map, name);
    const sgs_status status = of(env)->base->map(of(env)->base, fd, name, size, writable, address, err);
    of(env)->live_mappings += status == SGS_OK;
    return status;
}

static void memory_unmap(const sgs_env *env, void *address, size_t size)
{
    ++of(env)->calls[MEMORY_ENV_unmap];
    --of(env)->live_mappings;
    of(env)->base->unmap(of(env)->base, address, size);
}

static sgs_status memory_sync_mapping(const sgs_env *env, void *address, size_t size, const char *name, sgs_error *err)
{
    FAIL_HERE(sync_mapping, name);
    return of(env)->base->sync_mapping(of(env)->base, address, size, name, err);
}

static sgs_status memory_lock(const sgs_env *env, int fd, const char *name, sgs_lock_kind kind, sgs_error *err)
{
    FAIL_HERE(lock, name);
    return of(env)->base->lock(of(env)->base, fd, name, kind, err);
}

static sgs_status memory_unlock(const sgs_env *env, int fd, const char *name, sgs_error *err)
{
    FAIL_HERE(unlock, name);
    return of(env)->base->unlock(of(env)->base, fd, name, err);
}

static int64_t memory_wall_clock_ms(const sgs_env *env)
{
    const memory_env *memory = of(env);
    return memory->wall_clock_ms >= 0 ? memory->wall_clock_ms : memory->base->wall_clock_ms(memory->base);
}

static int64_t memory_monotonic_ns(const sgs_env *env)
{
    const memory_env *memory = of(env);
    return memory->monotonic_ns >= 0 ? memory->monotonic_ns : memory->base->monotonic_ns(memory->base);
}

static int64_t memory_process_id(const sgs_env *env) { return of(env)->base->process_id(of(env)->base); }

static sgs_status memory_is_network_file_system(const sgs_env *env, int fd, bool *is_network, sgs_error *err)
{
    FAIL_HERE(is_network_file_system, ".");
    return of(env)->base->is_network_file_system(of(env)->base, fd, is_network, err);
}

void memory_env_init(memory_env *memory, const sgs_env *base)
{
#define MEMBER(name) .name = memory_##name,
    *memory = (memory_env){
        .env = { .context = memory,
                 .reallocate = memory_reallocate,
                 .wall_clock_ms = memory_wall_clock_ms,
                 .monotonic_ns = memory_monotonic_ns,
                 .process_id = memory_process_id,
                 MEMORY_ENV_CALLS(MEMBER) },
        .base = base,
        .space_left = -1,
        .wall_clock_ms = -1,
        .monotonic_ns = -1,
    };
#undef MEMBER
}

static memory_env_call call_of(const char *name)
{
    for (int i = 0; i < MEMORY_ENV_CALL_COUNT; ++i)
        if (strcmp(name, call_names[i]) == 0)
            return (memory_env_call)i;
    (void)fprintf(stderr, "memory_env: no call is named '%s'\n", name); /* a misspelt name must not pass a test */
    abort();
}

void memory_env_fail(memory_env *memory, const char *name, int64_t nth, int os_error)
{
    const memory_env_call call = call_of(name);
    memory->fail_at[call] = memory->calls[call] + nth;
    memory->os_error[call] = os_error;
    memory->for_ever[call] = false;
}

void memory_env_fail_always(memory_env *memory, const char *name, int64_t nth, int os_error)
{
    memory_env_fail(memory, name, nth, os_error);
    memory->for_ever[call_of(name)] = true;
}

void memory_env_fail_all(memory_env *memory, int64_t nth, int os_error)
{
    memory->until_all_fail = nth;
    for (int i = 0; i < MEMORY_ENV_CALL_COUNT; ++i)
        memory->os_error[i] = os_error;
}

void memory_env_heal(memory_env *memory)
{
    memset(memory->fail_at, 0, sizeof memory->fail_at);
    memory->until_all_fail = 0;
    memory->space_left = -1;
}

int64_t memory_env_calls(const memory_env *memory, const char *name) { return memory->calls[call_of(name)]; }

bool memory_env_is_balanced(const memory_env *memory)
{
    return memory->live_allocations == 0 && memory->live_descriptors == 0 && memory->live_mappings == 0;
}

const char *memory_env_name(memory_env_call call) { return call_names[call]; }
