/* fuzz_index.h - what both index targets share: an environment with one file, in memory, so that a run touches no disk. */
#ifndef SGS_FUZZ_FUZZ_INDEX_H
#define SGS_FUZZ_FUZZ_INDEX_H

#include <stdlib.h>
#include <string.h>

#include "fuzz/fuzz_input.h"
#include "io/env.h"

enum { FUZZ_FILE_ROOM = 1 << 16, FUZZ_INDEX_MAX_BYTES = 1 << 12 };

typedef struct fuzz_file {
    sgs_env env;
    uint8_t bytes[FUZZ_FILE_ROOM];
    int64_t size;
} fuzz_file;

static inline fuzz_file *fuzz_file_of(const sgs_env *env) { return env->context; }

static inline void *fuzz_allocate(const sgs_env *env, size_t size)
{
    (void)env;
    return malloc(size);
}

static inline void *fuzz_reallocate(const sgs_env *env, void *memory, size_t size)
{
    (void)env;
    return realloc(memory, size);
}

static inline void fuzz_release(const sgs_env *env, void *memory)
{
    (void)env;
    free(memory);
}

static inline sgs_status fuzz_open_file(const sgs_env *env, int directory_fd, const char *name, sgs_open_mode mode,
                                        int *fd, sgs_error *err)
{
    (void)directory_fd;
    (void)mode;
    if (fuzz_file_of(env)->size < 0)
        return sgs_fail(err, SGS_NOT_FOUND, "%s", name);
    *fd = 3;
    return SGS_OK;
}

static inline sgs_status fuzz_close(const sgs_env *env, int fd, const char *name, sgs_error *err)
{
    (void)env;
    (void)fd;
    (void)name;
    (void)err;
    return SGS_OK;
}

static inline sgs_status fuzz_file_info(const sgs_env *env, int fd, const char *name, sgs_file_info *info,
                                        sgs_error *err)
{
    (void)fd;
    (void)name;
    (void)err;
    *info = (sgs_file_info){ .size = fuzz_file_of(env)->size, .is_regular = true };
    return SGS_OK;
}

static inline sgs_status fuzz_read_at(const sgs_env *env, int fd, const char *name, void *data, size_t size,
                                      int64_t position, size_t *got, sgs_error *err)
{
    const fuzz_file *file = fuzz_file_of(env);
    (void)fd;
    (void)name;
    (void)err;
    *got = position >= file->size ? 0 : (size_t)(file->size - position);
    if (*got > size)
        *got = size;
    memcpy(data, file->bytes + position, *got);
    return SGS_OK;
}

static inline sgs_status fuzz_write_at(const sgs_env *env, int fd, const char *name, const sgs_slice *slices,
                                       size_t count, int64_t position, int64_t *written, sgs_error *err)
{
    fuzz_file *file = fuzz_file_of(env);
    (void)fd;
    (void)name;
    (void)err;
    *written = 0;
    for (size_t i = 0; i < count; ++i) {
        FUZZ_CHECK(position + (int64_t)slices[i].size <= FUZZ_FILE_ROOM);
        memcpy(file->bytes + position, slices[i].data, slices[i].size);
        position += (int64_t)slices[i].size;
        *written += (int64_t)slices[i].size;
    }
    if (position > file->size)
        file->size = position;
    return SGS_OK;
}

static inline sgs_status fuzz_truncate(const sgs_env *env, int fd, const char *name, int64_t size, sgs_error *err)
{
    fuzz_file *file = fuzz_file_of(env);
    (void)fd;
    (void)name;
    (void)err;
    FUZZ_CHECK(size >= 0 && size <= FUZZ_FILE_ROOM);
    if (size > file->size)
        memset(file->bytes + file->size, 0, (size_t)(size - file->size));
    file->size = size;
    return SGS_OK;
}

static inline sgs_status fuzz_allocate_space(const sgs_env *env, int fd, const char *name, int64_t size, sgs_error *err)
{
    return size > fuzz_file_of(env)->size ? fuzz_truncate(env, fd, name, size, err) : SGS_OK;
}

static inline sgs_status fuzz_sync(const sgs_env *env, int fd, const char *name, sgs_barrier barrier, sgs_error *err)
{
    (void)barrier;
    return fuzz_close(env, fd, name, err);
}

/** The file holds what is left of the input. */
static inline void fuzz_file_init(fuzz_file *file, const fuzz_input *input)
{
    memset(&file->env, 0, sizeof file->env);
    file->env.context = file;
    file->env.allocate = fuzz_allocate;
    file->env.reallocate = fuzz_reallocate;
    file->env.release = fuzz_release;
    file->env.open_file = fuzz_open_file;
    file->env.close = fuzz_close;
    file->env.file_info = fuzz_file_info;
    file->env.read_at = fuzz_read_at;
    file->env.write_at = fuzz_write_at;
    file->env.truncate = fuzz_truncate;
    file->env.allocate_space = fuzz_allocate_space;
    file->env.sync_data = fuzz_sync;
    file->env.sync_file = fuzz_sync;
    file->size = (int64_t)(input->size < FUZZ_FILE_ROOM / 2 ? input->size : FUZZ_FILE_ROOM / 2);
    if (file->size > 0)
        memcpy(file->bytes, input->bytes, (size_t)file->size);
}

/* The first byte of an input chooses how the index is opened. */
enum { FUZZ_KAFKA = 1, FUZZ_WRITABLE = 2 };

/** [DUR-80] How many of `whole` keys count: the strictly increasing prefix, none when a first entry of zeros is followed
 *  by disorder. A writable index believes in a last key above the first. */
static inline uint32_t fuzz_expected_entries(const int64_t *keys, uint32_t whole, unsigned mode, bool first_is_zero)
{
    if ((mode & FUZZ_KAFKA) != 0 || whole <= 1 || ((mode & FUZZ_WRITABLE) != 0 && keys[whole - 1] > keys[0]))
        return whole;
    uint32_t count = 1;
    while (count < whole && keys[count] > keys[count - 1])
        ++count;
    return count == 1 && first_is_zero ? 0 : count;
}

static inline bool fuzz_ascends(const int64_t *keys, uint32_t count)
{
    for (uint32_t i = 1; i < count; ++i)
        if (keys[i] <= keys[i - 1])
            return false;
    return true;
}

/** The last key at or below the target, -1 when there is none. */
static inline int64_t fuzz_linear_floor(const int64_t *keys, uint32_t count, int64_t target)
{
    int64_t slot = -1;
    for (uint32_t i = 0; i < count && keys[i] <= target; ++i)
        slot = (int64_t)i;
    return slot;
}

#endif
