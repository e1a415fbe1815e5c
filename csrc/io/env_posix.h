/* env_posix.h - what the env_posix*.c files share; nobody else includes it. */
#ifndef SGS_IO_ENV_POSIX_H
#define SGS_IO_ENV_POSIX_H

#include <errno.h>
#include <inttypes.h>
#include <sys/stat.h>

#include "io/env.h"
#include "io/os_error.h"

#define SGS_RETRY(result, call) \
    do {                        \
        (result) = (call);      \
    } while ((result) < 0 && errno == EINTR) /* [DUR-37] */

/* env_posix.c: the soft RLIMIT_NOFILE */
int64_t sgs_posix_descriptor_limit(void);

static inline sgs_status sgs_posix_fail(sgs_error *err, const char *doing, const char *name, sgs_status otherwise)
{
    const int os_error = errno;
    const sgs_status status = sgs_fail_os(err, sgs_os_error_status(os_error, otherwise), os_error, doing, name);
    if (os_error == EMFILE)
        return sgs_say(err,
                       "cannot %s: the process has as many open files as it may, %" PRId64
                       " (RLIMIT_NOFILE); raise the limit with `ulimit -n` (errno %d)",
                       doing, sgs_posix_descriptor_limit(), os_error);
    if (os_error == ENFILE)
        return sgs_say(err,
                       "cannot %s: the system has as many open files as it may (sysctl fs.file-max; this process may "
                       "have %" PRId64 ", `ulimit -n`) (errno %d)",
                       doing, sgs_posix_descriptor_limit(), os_error);
    return status;
}

/* A failed sync or close has one meaning, whatever errno says [DUR-34, DUR-35]. */
static inline sgs_status sgs_posix_fail_as(sgs_error *err, const char *doing, const char *name, sgs_status status)
{
    return sgs_fail_os(err, status, errno, doing, name);
}

static inline sgs_status sgs_posix_fail_at(sgs_error *err, const char *doing, const char *name, sgs_status otherwise,
                                           int64_t position)
{
    const sgs_status status = sgs_posix_fail(err, doing, name, otherwise);
    err->position = position;
    return status;
}

static inline sgs_file_info sgs_posix_info(const struct stat *found)
{
    return (sgs_file_info){
        .size = found->st_size,
        .modified_ms = (int64_t)found->st_mtim.tv_sec * 1000 + found->st_mtim.tv_nsec / 1000000,
        .changed_ns = (int64_t)found->st_ctim.tv_sec * 1000000000 + found->st_ctim.tv_nsec,
        .device = (uint64_t)found->st_dev,
        .inode = (uint64_t)found->st_ino,
        .is_directory = S_ISDIR(found->st_mode),
        .is_regular = S_ISREG(found->st_mode),
    };
}

/* env_posix_directory.c: directories, and names inside them */
sgs_status sgs_posix_open_directory(const sgs_env *env, int parent_fd, const char *path, int *fd, sgs_error *err);
sgs_status sgs_posix_make_directory(const sgs_env *env, int parent_fd, const char *path, sgs_error *err);
sgs_status sgs_posix_remove_directory(const sgs_env *env, int parent_fd, const char *path, sgs_error *err);
sgs_status sgs_posix_list_directory(const sgs_env *env, int fd, sgs_name_visitor visit, void *context, sgs_error *err);
sgs_status sgs_posix_sync_directory(const sgs_env *env, int fd, sgs_barrier barrier, sgs_error *err);
sgs_status sgs_posix_file_info_at(const sgs_env *env, int directory_fd, const char *name, sgs_file_info *info,
                                  sgs_error *err);
sgs_status sgs_posix_set_modified_at(const sgs_env *env, int directory_fd, const char *name, int64_t modified_ms,
                                     sgs_error *err);
sgs_status sgs_posix_make_read_only_at(const sgs_env *env, int directory_fd, const char *name, sgs_error *err);
sgs_status sgs_posix_rename(const sgs_env *env, int directory_fd, const char *from, const char *to, sgs_error *err);
sgs_status sgs_posix_unlink(const sgs_env *env, int directory_fd, const char *name, sgs_error *err);

/* env_posix_owner.c: give what was made just now the owner, group and mode of what it replaces, or of its directory [DUR-133] */
void sgs_posix_own_file(int directory_fd, const char *name, int fd, const struct stat *made);
void sgs_posix_own_directory(int parent_fd, const char *path);

/* env_posix_send.c: out of a file, into what is no file of ours */
sgs_status sgs_posix_send_file(const sgs_env *env, int fd, const char *name, int64_t position, size_t size,
                               int destination, sgs_transfer *transfer, sgs_error *err);

#endif
