/* mapped_file.c - one file, one mapping; or one file, one block of memory. */
#include "io/mapped_file.h"

#include <inttypes.h>
#include <string.h>

static sgs_status fail_in(sgs_error *err, const char *name, sgs_status status, const char *sentence)
{
    (void)sgs_fail(err, status, "%s", sentence);
    return sgs_fail_in_file(err, name);
}

static sgs_status checked_size(const sgs_mapped_file *file, const sgs_env *env, const char *name, uint32_t max_size,
                               uint32_t *size, sgs_error *err)
{
    sgs_file_info info;
    const sgs_status status = env->file_info(env, file->fd, name, &info, err);
    if (status != SGS_OK)
        return status;
    int64_t limit = INT32_MAX;
    if (file->heap)
        limit = max_size > SGS_INDEX_LIMIT_BYTES ? max_size : SGS_INDEX_LIMIT_BYTES;
    if (info.size > limit) {
        (void)sgs_fail(err, SGS_LIMIT_EXCEEDED, "the file has %" PRId64 " bytes, the limit is %" PRId64, info.size,
                       limit);
        return sgs_fail_in_file(err, name);
    }
    *size = (uint32_t)info.size;
    return SGS_OK;
}

/* [DUR-27] A file that became shorter since its size was asked for is simply shorter. */
static sgs_status read_into_heap(sgs_mapped_file *file, const sgs_env *env, const char *name, sgs_error *err)
{
    size_t got;
    const sgs_status status = env->read_at(env, file->fd, name, file->data, file->length, 0, &got, err);
    if (status == SGS_OK)
        file->length = (uint32_t)got;
    return status;
}

/* Address space or memory for `size` bytes in place of what there is; heap contents move along. */
static sgs_status reserve(sgs_mapped_file *file, const sgs_env *env, const char *name, uint32_t size, sgs_error *err)
{
    void *address;
    if (file->heap) {
        address = env->reallocate(env, file->data, size);
        if (address == NULL) {
            (void)sgs_fail(err, SGS_RESOURCE, "no memory for %" PRIu32 " bytes", size);
            return sgs_fail_in_file(err, name);
        }
    } else {
        const sgs_status status = env->map(env, file->fd, name, size, file->writable, &address, err);
        if (status != SGS_OK)
            return status;
        if (file->data != NULL)
            env->unmap(env, file->data, file->reserved_length);
    }
    file->data = address;
    file->reserved_length = size;
    return SGS_OK;
}

static void release(sgs_mapped_file *file, const sgs_env *env)
{
    if (file->data != NULL && file->heap)
        env->release(env, file->data);
    else if (file->data != NULL)
        env->unmap(env, file->data, file->reserved_length);
    *file = (sgs_mapped_file){ .fd = -1, .heap = file->heap };
}

sgs_status sgs_mapped_file_open(sgs_mapped_file *file, const sgs_env *env, int fd, const char *name, uint32_t max_size,
                                bool writable, bool heap, sgs_error *err)
{
    *file = (sgs_mapped_file){ .fd = fd, .writable = writable, .heap = heap };
    uint32_t length = 0;
    sgs_status status = checked_size(file, env, name, max_size, &length, err);
    file->length = length;
    const uint32_t reserved = writable && max_size > length ? max_size : length;
    if (status == SGS_OK && reserved > 0)
        status = reserve(file, env, name, reserved, err);
    if (status == SGS_OK && heap && file->length > 0)
        status = read_into_heap(file, env, name, err);
    if (status != SGS_OK)
        release(file, env);
    return status;
}

/* Within the reserved range: more bytes, all zero. */
static sgs_status extend(sgs_mapped_file *file, const sgs_env *env, const char *name, uint32_t length, sgs_error *err)
{
    SGS_ASSERT(length > file->length && length <= file->reserved_length, err);
    if (file->heap) {
        memset(file->data + file->length, 0, length - file->length);
    } else {
        const sgs_status status = env->allocate_space(env, file->fd, name, length, err);
        if (status != SGS_OK)
            return status;
    }
    file->length = length;
    return SGS_OK;
}

static sgs_status check_may_change(const sgs_mapped_file *file, const char *name, sgs_error *err)
{
    if (file->fd < 0)
        return fail_in(err, name, SGS_CLOSED, "the mapped file is closed");
    if (!file->writable)
        return fail_in(err, name, SGS_ILLEGAL_STATE, "the mapped file is read-only");
    return SGS_OK;
}

sgs_status sgs_mapped_file_grow(sgs_mapped_file *file, const sgs_env *env, const char *name, uint32_t length,
                                sgs_error *err)
{
    const sgs_status status = check_may_change(file, name, err);
    if (status != SGS_OK)
        return status;
    if (length <= file->length)
        return SGS_OK;
    if (length > file->reserved_length)
        return fail_in(err, name, SGS_ILLEGAL_ARGUMENT, "the mapped file cannot grow beyond its reserved range");
    return extend(file, env, name, length, err);
}

sgs_status sgs_mapped_file_resize(sgs_mapped_file *file, const sgs_env *env, const char *name, uint32_t length,
                                  sgs_error *err)
{
    sgs_status status = check_may_change(file, name, err);
    if (status != SGS_OK)
        return status;
    if (length > INT32_MAX)
        return fail_in(err, name, SGS_ILLEGAL_ARGUMENT, "a mapped file has at most 2147483647 bytes");
    if (length > file->length) {
        if (length > file->reserved_length)
            status = reserve(file, env, name, length, err);
        return status == SGS_OK ? extend(file, env, name, length, err) : status;
    }
    if (length == file->length)
        return SGS_OK;
    sgs_file_info info = { .size = file->length };
    if (file->heap) /* the file may be shorter than the memory: it follows at flush and close */
        status = env->file_info(env, file->fd, name, &info, err);
    if (status == SGS_OK && info.size > length)
        status = env->truncate(env, file->fd, name, length, err);
    if (status == SGS_OK)
        file->length = length;
    return status;
}

static sgs_status write_back(const sgs_mapped_file *file, const sgs_env *env, const char *name, uint32_t size,
                             sgs_error *err)
{
    const sgs_slice bytes = { file->data, size };
    int64_t written;
    return size > 0 ? env->write_at(env, file->fd, name, &bytes, 1, 0, &written, err) : SGS_OK;
}

sgs_status sgs_mapped_file_flush(sgs_mapped_file *file, const sgs_env *env, const char *name, uint32_t used,
                                 sgs_barrier barrier, sgs_error *err)
{
    if (file->fd < 0)
        return fail_in(err, name, SGS_CLOSED, "the mapped file is closed");
    if (!file->writable)
        return SGS_OK;
    if (used > file->length)
        return fail_in(err, name, SGS_ILLEGAL_ARGUMENT, "a flush beyond the end of the mapped file");
    sgs_status status = SGS_OK;
    if (file->heap)
        status = write_back(file, env, name, used, err);
    else if (used > 0)
        status = env->sync_mapping(env, file->data, used, name, err);
    return status == SGS_OK ? env->sync_file(env, file->fd, name, barrier, err) : status;
}

sgs_status sgs_mapped_file_close(sgs_mapped_file *file, const sgs_env *env, const char *name, sgs_error *err)
{
    if (file->fd < 0)
        return SGS_OK;
    sgs_error later;
    const int fd = file->fd;
    const sgs_status written = file->heap && file->writable ? write_back(file, env, name, file->length, err) : SGS_OK;
    release(file, env);
    const sgs_status closed = env->close(env, fd, name, written == SGS_OK ? err : &later);
    return written != SGS_OK ? written : closed;
}
