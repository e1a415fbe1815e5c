/* memory_directory.c - see memory_directory.h. A descriptor is the number of its file, from 1. */
#include "fuzz/memory_directory.h"

#include <stdlib.h>
#include <string.h>

#include "fuzz/fuzz_input.h"

static memory_directory *of(const sgs_env *env) { return env->context; }

static memory_file *by_name(memory_directory *directory, const char *name)
{
    for (int i = 0; i < MEMORY_FILES_MAX; ++i)
        if (strcmp(directory->files[i].name, name) == 0)
            return &directory->files[i];
    return NULL;
}

static memory_file *by_descriptor(const sgs_env *env, int fd)
{
    FUZZ_CHECK(fd >= 1 && fd <= MEMORY_FILES_MAX && of(env)->files[fd - 1].open_count > 0);
    return &of(env)->files[fd - 1];
}

/* Bytes up to `size` are there, new ones are zero. */
static void set_size(memory_file *file, size_t size)
{
    FUZZ_CHECK(size <= MEMORY_FILE_ROOM);
    if (size > file->room) {
        file->bytes = realloc(file->bytes, size);
        file->room = size;
        FUZZ_CHECK(file->bytes != NULL);
    }
    if (size > file->size)
        memset(file->bytes + file->size, 0, size - file->size);
    file->size = size;
}

/* ---- memory ---- */

static void *reallocate(const sgs_env *env, void *memory, size_t size)
{
    of(env)->live_allocations += memory == NULL;
    void *const grown = realloc(memory, size);
    FUZZ_CHECK(grown != NULL);
    return grown;
}

static void *allocate(const sgs_env *env, size_t size) { return reallocate(env, NULL, size); }

static void release(const sgs_env *env, void *memory)
{
    of(env)->live_allocations -= memory != NULL;
    free(memory);
}

/* ---- names ---- */

static sgs_status file_info_at(const sgs_env *env, int directory_fd, const char *name, sgs_file_info *info,
                               sgs_error *err)
{
    (void)directory_fd;
    const memory_file *const file = by_name(of(env), name);
    if (file == NULL)
        return sgs_fail(err, SGS_NOT_FOUND, "%s", name);
    *info = (sgs_file_info){ .size = (int64_t)file->size, .is_regular = true };
    return SGS_OK;
}

static sgs_status open_file(const sgs_env *env, int directory_fd, const char *name, sgs_open_mode mode, int *fd,
                            sgs_error *err)
{
    (void)directory_fd;
    memory_file *file = by_name(of(env), name);
    if (file != NULL && mode == SGS_OPEN_CREATE)
        return sgs_fail(err, SGS_ALREADY_EXISTS, "%s", name);
    if (file == NULL && mode != SGS_OPEN_CREATE && mode != SGS_OPEN_WRITE_OR_CREATE)
        return sgs_fail(err, SGS_NOT_FOUND, "%s", name);
    if (file == NULL) {
        file = by_name(of(env), "");
        FUZZ_CHECK(file != NULL && strlen(name) < MEMORY_NAME_BYTES);
        (void)strcpy(file->name, name);
    }
    ++file->open_count;
    *fd = (int)(file - of(env)->files) + 1;
    return SGS_OK;
}

static sgs_status unlink_file(const sgs_env *env, int directory_fd, const char *name, sgs_error *err)
{
    (void)directory_fd;
    memory_file *const file = by_name(of(env), name);
    if (file == NULL)
        return sgs_fail(err, SGS_NOT_FOUND, "%s", name);
    FUZZ_CHECK(file->open_count == 0); /* nobody here removes what is open */
    set_size(file, 0);
    file->name[0] = '\0';
    return SGS_OK;
}

/* ---- files ---- */

static sgs_status close_file(const sgs_env *env, int fd, const char *name, sgs_error *err)
{
    (void)name;
    (void)err;
    --by_descriptor(env, fd)->open_count;
    return SGS_OK;
}

static sgs_status file_info(const sgs_env *env, int fd, const char *name, sgs_file_info *info, sgs_error *err)
{
    (void)name;
    (void)err;
    *info = (sgs_file_info){ .size = (int64_t)by_descriptor(env, fd)->size, .is_regular = true };
    return SGS_OK;
}

static sgs_status read_at(const sgs_env *env, int fd, const char *name, void *data, size_t size, int64_t position,
                          size_t *got, sgs_error *err)
{
    const memory_file *const file = by_descriptor(env, fd);
    (void)name;
    (void)err;
    FUZZ_CHECK(position >= 0);
    const size_t left = (size_t)position < file->size ? file->size - (size_t)position : 0;
    *got = left < size ? left : size;
    const size_t there = (size_t)position < file->room ? file->room - (size_t)position : 0;
    const size_t copied = *got < there ? *got : there;
    if (copied > 0)
        memcpy(data, file->bytes + position, copied);
    if (*got > copied)
        memset((uint8_t *)data + copied, 0, *got - copied);
    return SGS_OK;
}

static sgs_status write_at(const sgs_env *env, int fd, const char *name, const sgs_slice *slices, size_t count,
                           int64_t position, int64_t *written, sgs_error *err)
{
    memory_file *const file = by_descriptor(env, fd);
    (void)name;
    (void)err;
    *written = 0;
    for (size_t i = 0; i < count; ++i) {
        const size_t at = (size_t)(position + *written);
        if (at + slices[i].size > file->size)
            set_size(file, at + slices[i].size);
        FUZZ_CHECK(file->size <= MEMORY_FILE_ROOM); /* not a hole */
        if (slices[i].size > 0)
            memcpy(file->bytes + at, slices[i].data, slices[i].size);
        *written += (int64_t)slices[i].size;
    }
    return SGS_OK;
}

static sgs_status truncate_file(const sgs_env *env, int fd, const char *name, int64_t size, sgs_error *err)
{
    (void)name;
    (void)err;
    FUZZ_CHECK(size >= 0);
    set_size(by_descriptor(env, fd), (size_t)size);
    return SGS_OK;
}

static sgs_status allocate_space(const sgs_env *env, int fd, const char *name, int64_t size, sgs_error *err)
{
    const bool is_longer = size > (int64_t)by_descriptor(env, fd)->size;
    return is_longer ? truncate_file(env, fd, name, size, err) : SGS_OK;
}

static sgs_status sync_file(const sgs_env *env, int fd, const char *name, sgs_barrier barrier, sgs_error *err)
{
    (void)by_descriptor(env, fd);
    (void)name;
    (void)barrier;
    (void)err;
    return SGS_OK;
}

static int64_t wall_clock_ms(const sgs_env *env)
{
    (void)env;
    return INT64_C(1700000000000);
}

void memory_directory_init(memory_directory *directory)
{
    *directory = (memory_directory){
        .env = {
            .context = directory,
            .allocate = allocate,
            .reallocate = reallocate,
            .release = release,
            .file_info_at = file_info_at,
            .unlink = unlink_file,
            .open_file = open_file,
            .close = close_file,
            .file_info = file_info,
            .read_at = read_at,
            .write_at = write_at,
            .truncate = truncate_file,
            .allocate_space = allocate_space,
            .sync_data = sync_file,
            .sync_file = sync_file,
            .wall_clock_ms = wall_clock_ms,
        },
    };
}

void memory_directory_deinit(memory_directory *directory)
{
    for (int i = 0; i < MEMORY_FILES_MAX; ++i)
        free(directory->files[i].bytes);
}

void memory_directory_put(memory_directory *directory, const char *name, const uint8_t *bytes, size_t size)
{
    memory_file *file = by_name(directory, name);
    if (file == NULL)
        file = by_name(directory, "");
    FUZZ_CHECK(file != NULL && name[0] != '\0' && strlen(name) < MEMORY_NAME_BYTES);
    (void)strcpy(file->name, name);
    set_size(file, size);
    if (size > 0)
        memcpy(file->bytes, bytes, size);
}

void memory_directory_put_hole(memory_directory *directory, const char *name, size_t size)
{
    memory_directory_put(directory, name, NULL, 0);
    by_name(directory, name)->size = size;
}

const memory_file *memory_directory_find(const memory_directory *directory, const char *name)
{
    return by_name((memory_directory *)(uintptr_t)directory, name);
}

bool memory_directory_is_balanced(const memory_directory *directory)
{
    for (int i = 0; i < MEMORY_FILES_MAX; ++i)
        if (directory->files[i].open_count != 0)
            return false;
    return directory->live_allocations == 0;
}
