/* mapped_file.c - one file, one mapping; or one file, one block of memory. */
#include "io/mapped_file.h"

#include <inttypes.h>
#include <stddef.h>
#include <string.h>

/* Memory of a file in heap mode. Readers may be inside older blocks, whose bytes were copied from. */
typedef struct heap_block {
    struct heap_block *older;
    size_t size;
    uint8_t bytes[];
} heap_block;

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
    SGS_EXPECT(info.size >= 0);
    *size = (uint32_t)info.size;
    return SGS_OK;
}

/* ---- memory ---- */

static heap_block *block_of(const sgs_mapped_file *file)
{
    uint8_t *const data = ((sgs_mapped_file *)(uintptr_t)file)->data;
    return data == NULL || !file->heap ? NULL : (heap_block *)(void *)(data - offsetof(heap_block, bytes));
}

static void release_blocks(const sgs_env *env, heap_block *block)
{
    while (block != NULL) {
        heap_block *const older = block->older;
        env->release(env, block);
        block = older;
    }
}

uint32_t sgs_mapped_file_memory(const sgs_mapped_file *file)
{
    const heap_block *const block = block_of(file);
    return block == NULL ? 0 : (uint32_t)block->size;
}

sgs_status sgs_mapped_file_set_memory(sgs_mapped_file *file, const sgs_env *env, const char *name, uint32_t length,
                                      sgs_error *err)
{
    heap_block *const old = block_of(file);
    SGS_EXPECT(file->heap && length <= INT32_MAX);
    heap_block *const block = env->allocate(env, sizeof *block + length);
    if (block == NULL) {
        (void)sgs_fail(err, SGS_RESOURCE, "no memory for %" PRIu32 " bytes", length);
        return sgs_fail_in_file(err, name);
    }
    *block = (heap_block){ .older = old, .size = length };
    const size_t kept = old == NULL ? 0 : old->size < length ? old->size : length;
    if (kept > 0)
        memcpy(block->bytes, old->bytes, kept);
    SGS_EXPECT(kept <= length && (old == NULL || kept <= old->size));
    memset(block->bytes + kept, 0, length - kept);
    file->data = block->bytes;
    SGS_EXPECT(sgs_mapped_file_memory(file) == length);
    return SGS_OK;
}

void sgs_mapped_file_release_old(sgs_mapped_file *file, const sgs_env *env)
{
    heap_block *const block = block_of(file);
    if (block == NULL)
        return;
    release_blocks(env, block->older);
    block->older = NULL;
}

/* [DUR-27] A file that became shorter since its size was asked for is simply shorter. */
static sgs_status read_into_memory(sgs_mapped_file *file, const sgs_env *env, const char *name, sgs_error *err)
{
    size_t got;
    SGS_TRY(sgs_mapped_file_set_memory(file, env, name, file->length, err));
    SGS_TRY(env->read_at(env, file->fd, name, file->data, file->length, 0, &got, err));
    SGS_EXPECT(got <= file->length);
    file->length = (uint32_t)got;
    file->written_length = (uint32_t)got;
    return SGS_OK;
}

/* ---- mapping ---- */

/* Address space for `size` bytes in place of what there is. */
static sgs_status reserve(sgs_mapped_file *file, const sgs_env *env, const char *name, uint32_t size, sgs_error *err)
{
    void *address;
    SGS_EXPECT(!file->heap && size > 0);
    SGS_TRY(env->map(env, file->fd, name, size, file->writable, &address, err));
    SGS_EXPECT(address != NULL && file->length <= size); /* what the file has is in the mapping */
    if (file->data != NULL)
        env->unmap(env, file->data, file->reserved_length);
    file->data = address;
    file->reserved_length = size;
    return SGS_OK;
}

static void release(sgs_mapped_file *file, const sgs_env *env)
{
    if (file->data != NULL && file->heap)
        release_blocks(env, block_of(file));
    else if (file->data != NULL)
        env->unmap(env, file->data, file->reserved_length);
    *file = (sgs_mapped_file){ .fd = -1, .heap = file->heap };
}

/* ---- both ---- */

sgs_status sgs_mapped_file_open(sgs_mapped_file *file, const sgs_env *env, int fd, const char *name, uint32_t max_size,
                                bool writable, bool heap, sgs_error *err)
{
    SGS_EXPECT(fd >= 0);
    *file = (sgs_mapped_file){ .fd = fd, .writable = writable, .heap = heap };
    uint32_t length = 0;
    sgs_status status = checked_size(file, env, name, max_size, &length, err);
    file->length = length;
    const uint32_t reserved = writable && max_size > length ? max_size : length;
    if (status == SGS_OK && heap && length > 0)
        status = read_into_memory(file, env, name, err);
    else if (status == SGS_OK && !heap && reserved > 0)
        status = reserve(file, env, name, reserved, err);
    if (status != SGS_OK)
        release(file, env);
    else
        file->reserved_length = reserved;
    SGS_EXPECT(status != SGS_OK || file->length <= file->reserved_length);
    SGS_EXPECT(status != SGS_OK || file->length == 0 || file->data != NULL);
    SGS_EXPECT(status == SGS_OK || file->fd < 0); /* the caller's again */
    return status;
}

/* Zeros from the present length on, as far as there is memory. Byte by byte: look-ups of before a cut may read there. */
static void clear_up_to(sgs_mapped_file *file, uint32_t end)
{
    const uint32_t memory = sgs_mapped_file_memory(file);
    uint8_t *const data = file->data;
    for (uint32_t at = file->length; at < end && at < memory; ++at)
        __atomic_store_n(&data[at], 0, __ATOMIC_RELAXED);
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
    if (file->heap) {
        if (length > sgs_mapped_file_memory(file)) /* what was cut may have left more than that */
            SGS_TRY(sgs_mapped_file_set_memory(file, env, name, length, err));
        clear_up_to(file, length);
    } else
        SGS_TRY(env->allocate_space(env, file->fd, name, length, err));
    file->length = length;
    SGS_EXPECT(file->written_length <= length);
    return SGS_OK;
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
        if (length > file->reserved_length && file->heap)
            file->reserved_length = length;
        else if (length > file->reserved_length)
            SGS_TRY(reserve(file, env, name, length, err));
        SGS_TRY(env->truncate(env, file->fd, name, length, err));
        if (file->heap)
            clear_up_to(file, length);
        file->length = length;
        return SGS_OK;
    }
    if (length == file->length)
        return SGS_OK;
    sgs_file_info info = { .size = file->length };
    if (file->heap) /* the file may be shorter than the memory */
        status = env->file_info(env, file->fd, name, &info, err);
    if (status == SGS_OK && info.size > length)
        status = env->truncate(env, file->fd, name, length, err);
    if (status != SGS_OK)
        return status;
    SGS_EXPECT(length < file->length);
    file->length = length;
    sgs_mapped_file_forget_written(file, length);
    return SGS_OK;
}

void sgs_mapped_file_forget_written(sgs_mapped_file *file, uint32_t length)
{
    if (file->written_length > length)
        file->written_length = length;
}

sgs_status sgs_mapped_file_write(sgs_mapped_file *file, const sgs_env *env, const char *name, uint32_t used,
                                 bool exactly, sgs_error *err)
{
    sgs_file_info info = { .size = 0 };
    int64_t written;
    SGS_ASSERT(used <= sgs_mapped_file_memory(file), err);
    SGS_EXPECT(file->heap && file->writable && used <= file->length);
    if (used == file->written_length && !exactly)
        return SGS_OK;
    SGS_TRY(env->file_info(env, file->fd, name, &info, err));
    if (info.size < file->written_length) /* another process has cut the file */
        file->written_length = (uint32_t)info.size;
    const uint32_t from = file->written_length;
    if (used > from) {
        const sgs_slice bytes = { file->data + from, used - from };
        SGS_TRY(env->write_at(env, file->fd, name, &bytes, 1, from, &written, err));
        SGS_EXPECT(written == (int64_t)(used - from));
        file->written_length = used;
    }
    SGS_EXPECT(file->written_length >= used);
    return exactly && info.size > used ? env->truncate(env, file->fd, name, used, err) : SGS_OK;
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
    if (file->heap && used > 0)
        status = sgs_mapped_file_write(file, env, name, used, false, err);
    else if (used > 0)
        status = env->sync_mapping(env, file->data, used, name, err);
    return status == SGS_OK ? env->sync_file(env, file->fd, name, barrier, err) : status;
}

sgs_status sgs_mapped_file_close(sgs_mapped_file *file, const sgs_env *env, const char *name, sgs_error *err)
{
    if (file->fd < 0)
        return SGS_OK;
    const int fd = file->fd;
    release(file, env);
    SGS_EXPECT(file->fd < 0 && file->data == NULL && file->length == 0);
    return env->close(env, fd, name, err);
}
