/* env_posix_directory.c - directories, and the names inside them. */
#ifndef __linux__
#error "env_posix_directory.c is written for Linux; another system needs its own implementation of io/env.h"
#endif
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h> /* renameat */
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/env_posix.h"

_Static_assert(SGS_CWD == AT_FDCWD, "SGS_CWD is handed to the system as it is");

enum {
    DIRECTORY_MODE = 0750, /* less the umask [DUR-100] */
    ALL_BUT_WRITE_BITS = 07555,
    NAMES_LIMIT = 1000000 /* [DUR-98] */
};

sgs_status sgs_posix_open_directory(const sgs_env *env, int parent_fd, const char *path, int *fd, sgs_error *err)
{
    (void)env;
    /* A path that a user typed may lead through links; a name inside a directory that we hold may not [DUR-99]. */
    const int follow = parent_fd == SGS_CWD ? 0 : O_NOFOLLOW;
    int opened;
    SGS_RETRY(opened, openat(parent_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NONBLOCK | follow));
    if (opened < 0)
        return sgs_posix_fail(err, "open the directory", path, SGS_READ_IO);
    SGS_EXPECT(opened != parent_fd);
    *fd = opened;
    return SGS_OK;
}

sgs_status sgs_posix_make_directory(const sgs_env *env, int parent_fd, const char *path, sgs_error *err)
{
    (void)env;
    if (mkdirat(parent_fd, path, DIRECTORY_MODE) != 0)
        return sgs_posix_fail(err, "make the directory", path, SGS_WRITE_IO);
    sgs_posix_own_directory(parent_fd, path);
    return SGS_OK;
}

sgs_status sgs_posix_remove_directory(const sgs_env *env, int parent_fd, const char *path, sgs_error *err)
{
    (void)env;
    if (unlinkat(parent_fd, path, AT_REMOVEDIR) != 0)
        return sgs_posix_fail(err, "remove the directory", path, SGS_WRITE_IO);
    return SGS_OK;
}

static sgs_status visit_names(DIR *directory, sgs_name_visitor visit, void *context, sgs_error *err)
{
    for (int64_t count = 0;; ++count) {
        errno = 0;
        SGS_EXPECT(count <= NAMES_LIMIT + 2);
        const struct dirent *entry = readdir(directory);
        if (entry == NULL)
            return errno == 0 ? SGS_OK : sgs_posix_fail(err, "list the directory", ".", SGS_READ_IO);
        if (count == NAMES_LIMIT + 2)
            return sgs_fail(err, SGS_LIMIT_EXCEEDED, "the directory has more than %d names", (int)NAMES_LIMIT);
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        const sgs_status status = visit(context, entry->d_name, err);
        if (status != SGS_OK)
            return status;
    }
}

sgs_status sgs_posix_list_directory(const sgs_env *env, int fd, sgs_name_visitor visit, void *context, sgs_error *err)
{
    /* A descriptor of its own: the position of a directory stream belongs to the open file description. */
    int own = -1;
    const sgs_status opened = sgs_posix_open_directory(env, fd, ".", &own, err);
    if (opened != SGS_OK)
        return opened;
    SGS_EXPECT(own >= 0 && own != fd);
    DIR *directory = fdopendir(own);
    if (directory == NULL) {
        const sgs_status status = sgs_posix_fail(err, "list the directory", ".", SGS_READ_IO);
        (void)close(own);
        return status;
    }
    const sgs_status status = visit_names(directory, visit, context, err);
    (void)closedir(directory); /* was only read */
    return status;
}

sgs_status sgs_posix_sync_directory(const sgs_env *env, int fd, sgs_barrier barrier, sgs_error *err)
{
    (void)env;
    (void)barrier;
    int result;
    SGS_RETRY(result, fsync(fd));
    if (result != 0)
        return sgs_posix_fail_as(err, "sync the directory", ".", SGS_FSYNC_FAILED);
    return SGS_OK;
}

sgs_status sgs_posix_file_info_at(const sgs_env *env, int directory_fd, const char *name, sgs_file_info *info,
                                  sgs_error *err)
{
    (void)env;
    struct stat found;
    if (fstatat(directory_fd, name, &found, AT_SYMLINK_NOFOLLOW) != 0)
        return sgs_posix_fail(err, "look up the file", name, SGS_READ_IO);
    *info = sgs_posix_info(&found);
    return SGS_OK;
}

sgs_status sgs_posix_set_modified_at(const sgs_env *env, int directory_fd, const char *name, int64_t modified_ms,
                                     sgs_error *err)
{
    (void)env;
    const int64_t seconds = modified_ms / 1000 - (modified_ms % 1000 < 0);
    SGS_EXPECT(modified_ms - seconds * 1000 >= 0 && modified_ms - seconds * 1000 < 1000);
    const struct timespec times[] = { { .tv_nsec = UTIME_OMIT }, /* when it was read is no matter */
                                      { seconds, (modified_ms - seconds * 1000) * 1000000 } };
    if (utimensat(directory_fd, name, times, AT_SYMLINK_NOFOLLOW) != 0)
        return sgs_posix_fail(err, "set the time of the file", name, SGS_WRITE_IO);
    return SGS_OK;
}

sgs_status sgs_posix_make_read_only_at(const sgs_env *env, int directory_fd, const char *name, sgs_error *err)
{
    (void)env;
    struct stat found;
    int fd;
    SGS_RETRY(fd, openat(directory_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | O_NOCTTY));
    if (fd < 0)
        return sgs_posix_fail(err, "open the file", name, SGS_WRITE_IO);
    sgs_status status = SGS_OK;
    if (fstat(fd, &found) != 0 || fchmod(fd, found.st_mode & ALL_BUT_WRITE_BITS) != 0)
        status = sgs_posix_fail(err, "make the file read-only", name, SGS_WRITE_IO);
    (void)close(fd);
    return status;
}

sgs_status sgs_posix_rename(const sgs_env *env, int directory_fd, const char *from, const char *to, sgs_error *err)
{
    (void)env;
    if (renameat(directory_fd, from, directory_fd, to) == 0)
        return SGS_OK;
    if (errno == EISDIR) /* which only `to` can be */
        return sgs_posix_fail(err, "rename a file to this name", to, SGS_WRITE_IO);
    return sgs_posix_fail(err, "rename the file", from, SGS_WRITE_IO);
}

sgs_status sgs_posix_unlink(const sgs_env *env, int directory_fd, const char *name, sgs_error *err)
{
    (void)env;
    if (unlinkat(directory_fd, name, 0) != 0)
        return sgs_posix_fail(err, "remove the file", name, SGS_WRITE_IO);
    return SGS_OK;
}
