/* small_files.c - see small_files.h. */
#include "small_files.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_BYTES = 64, TEXT_BYTES = 64 };

#define SMALL_FILE(name, promise) { name, SGS_BARRIER(promise##_CONTENT), SGS_BARRIER(promise##_NAME) }
const small_file small_recovery_point = SMALL_FILE("recovery-point-offset-checkpoint", RECOVERY_POINT);
const small_file small_log_start = SMALL_FILE("log-start-offset-checkpoint", LOG_START);
const small_file small_contiguous_from = SMALL_FILE(".segstore", LOG_STATE);
const small_file small_emptied_at = SMALL_FILE(".segstore-emptied", LOG_STATE);
const small_file small_clean_end = SMALL_FILE(".kafka_cleanshutdown", CLEAN_MARKER);

static const char before[] = "0\n1\nlog 0 ";

static void temporary_name(const char *name, char text[NAME_BYTES])
{
    (void)snprintf(text, NAME_BYTES, "%s.tmp", name);
}

sgs_status small_file_prepare(const sgs_env *env, int directory_fd, const small_file *file, int64_t number,
                              sgs_error *err)
{
    char temporary[NAME_BYTES], text[TEXT_BYTES];
    int fd;
    int64_t written;
    temporary_name(file->name, temporary);
    const int size = snprintf(text, sizeof text, "%s%" PRId64 "\n", before, number);
    const sgs_slice slice = { (const uint8_t *)text, (size_t)size };
    sgs_status status = env->open_file(env, directory_fd, temporary, SGS_OPEN_CREATE, &fd, err);
    if (status == SGS_ALREADY_EXISTS) { /* of one that failed */
        SGS_TRY(small_file_remove(env, directory_fd, temporary, NULL, err));
        status = env->open_file(env, directory_fd, temporary, SGS_OPEN_CREATE, &fd, err);
    }
    if (status != SGS_OK)
        return status;
    status = env->write_at(env, fd, temporary, &slice, 1, 0, &written, err);
    if (status == SGS_OK)
        status = env->sync_file(env, fd, temporary, file->content_barrier, err);
    sgs_error ignored;
    (void)env->close(env, fd, temporary, &ignored);
    return status;
}

sgs_status small_file_put(const sgs_env *env, int directory_fd, const small_file *file, sgs_error *err)
{
    char temporary[NAME_BYTES];
    temporary_name(file->name, temporary);
    SGS_TRY(env->rename(env, directory_fd, temporary, file->name, err));
    return env->sync_directory(env, directory_fd, file->name_barrier, err);
}

sgs_status small_file_write(const sgs_env *env, int directory_fd, const small_file *file, int64_t number,
                            sgs_error *err)
{
    SGS_TRY(small_file_prepare(env, directory_fd, file, number, err));
    return small_file_put(env, directory_fd, file, err);
}

static int64_t number_in(const char *text, size_t size)
{
    if (size <= sizeof before - 1 || memcmp(text, before, sizeof before - 1) != 0 || text[size - 1] != '\n')
        return -1;
    char *end;
    const long long number = strtoll(text + sizeof before - 1, &end, 10);
    return end == text + size - 1 ? number : -1;
}

sgs_status small_file_read(const sgs_env *env, int directory_fd, const small_file *file, int64_t *number,
                           sgs_error *err)
{
    char text[TEXT_BYTES + 1];
    int fd;
    size_t got;
    *number = -1;
    sgs_status status = env->open_file(env, directory_fd, file->name, SGS_OPEN_READ, &fd, err);
    if (status == SGS_NOT_FOUND)
        return SGS_OK;
    if (status != SGS_OK)
        return status;
    status = env->read_at(env, fd, file->name, text, TEXT_BYTES, 0, &got, err);
    sgs_error ignored;
    (void)env->close(env, fd, file->name, &ignored);
    if (status == SGS_OK) {
        text[got] = '\0';
        *number = number_in(text, got);
    }
    return status;
}

sgs_status small_file_remove(const sgs_env *env, int directory_fd, const char *name, bool *was_there, sgs_error *err)
{
    const sgs_status status = env->unlink(env, directory_fd, name, err);
    if (was_there != NULL)
        *was_there = status == SGS_OK;
    return status == SGS_NOT_FOUND ? SGS_OK : status;
}
