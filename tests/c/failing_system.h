/* failing_system.h - the calls of the C library that env_posix makes, in front of the real ones: the next of one name fail with
 * an errno, or take fewer bytes than asked. For one source of a program: the functions are defined here, and make the
 * system's call themselves. */
#ifndef SGS_TEST_FAILING_SYSTEM_H
#define SGS_TEST_FAILING_SYSTEM_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "test.h"

enum { FOR_EVER = 1 << 30, ZERO = -1 /* in place of an errno: nothing is done, and no error told */ };

static struct {
    const char *call; /* that fails; NULL = none */
    int os_error, left, seen;
    int skipped; /* calls that work before it */
    bool half_writes;
    size_t at_most;   /* bytes that a call takes; 0 = all */
    int64_t names;    /* that readdir makes up */
    long file_system; /* what fstatfs says; 0 = the truth */
    int cannot_send;  /* the errno of every sendfile; 0 = it can */
} plan;

static bool strikes(const char *call)
{
    if (plan.call == NULL || strcmp(plan.call, call) != 0 || plan.left == 0)
        return false;
    if (plan.skipped > 0 && plan.skipped-- > 0)
        return false;
    --plan.left;
    ++plan.seen;
    if (plan.os_error != ZERO)
        errno = plan.os_error;
    return true;
}

static size_t taken(size_t size) { return plan.at_most > 0 && plan.at_most < size ? plan.at_most : size; }
static long answer(void) { return plan.os_error == ZERO ? 0 : -1; }

static void heal(void) { memset(&plan, 0, sizeof plan); }

static void fail(const char *call, int os_error, int times)
{
    heal();
    plan.call = call;
    plan.os_error = os_error;
    plan.left = times;
}

/* ---- in place of the library's ---- */

int openat(int parent, const char *path, int flags, ...)
{
    va_list rest;
    va_start(rest, flags);
    const int mode = (flags & O_CREAT) != 0 ? va_arg(rest, int) : 0;
    va_end(rest);
    return strikes("openat") ? -1 : (int)syscall(SYS_openat, parent, path, flags, mode);
}

/* NOLINTBEGIN: names and parameters are the library's */
int close(int fd)
{
    const int closed = (int)syscall(SYS_close, fd);
    return strikes("close") ? -1 : closed;
}

int fstat(int fd, struct stat *found) { return strikes("fstat") ? -1 : (int)syscall(SYS_fstat, fd, found); }

ssize_t pread(int fd, void *data, size_t size, off_t position)
{
    return strikes("pread") ? answer() : syscall(SYS_pread64, fd, data, taken(size), position);
}

ssize_t pwrite(int fd, const void *data, size_t size, off_t position)
{
    return strikes("pwrite") ? answer() : syscall(SYS_pwrite64, fd, data, taken(size), position);
}

ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t position)
{
    if (strikes("pwritev"))
        return answer();
    return plan.at_most > 0 ? syscall(SYS_pwrite64, fd, parts[0].iov_base, taken(parts[0].iov_len), position)
                            : syscall(SYS_pwritev, fd, parts, count, position, 0L);
}

ssize_t write(int fd, const void *data, size_t size)
{
    return strikes("write") ? answer() : syscall(SYS_write, fd, data, plan.half_writes ? size / 2 : taken(size));
}

int ftruncate(int fd, off_t size) { return strikes("ftruncate") ? -1 : (int)syscall(SYS_ftruncate, fd, size); }

int fallocate(int fd, int mode, off_t from, off_t size)
{
    return strikes("fallocate") ? -1 : (int)syscall(SYS_fallocate, fd, mode, from, size);
}

int fdatasync(int fd) { return strikes("fdatasync") ? -1 : (int)syscall(SYS_fdatasync, fd); }
int fsync(int fd) { return strikes("fsync") ? -1 : (int)syscall(SYS_fsync, fd); }

int msync(void *address, size_t size, int flags)
{
    return strikes("msync") ? -1 : (int)syscall(SYS_msync, address, size, flags);
}

int fcntl(int fd, int command, ...)
{
    va_list rest;
    va_start(rest, command);
    void *const argument = va_arg(rest, void *);
    va_end(rest);
    return strikes("fcntl") ? -1 : (int)syscall(SYS_fcntl, fd, command, argument);
}

ssize_t sendfile(int to, int from, off_t *position, size_t size)
{
    if (plan.cannot_send != 0)
        errno = plan.cannot_send;
    return plan.cannot_send != 0 || strikes("sendfile") ? -1 : syscall(SYS_sendfile, to, from, position, size);
}

int fstatfs(int fd, struct statfs *found)
{
    if (strikes("fstatfs"))
        return -1;
    const int result = (int)syscall(SYS_fstatfs, fd, found);
    if (plan.file_system != 0)
        found->f_type = plan.file_system;
    return result;
}

int statx(int fd, const char *path, int flags, unsigned mask, struct statx *found)
{
    if (strikes("statx"))
        return answer() == 0 ? (memset(found, 0, sizeof *found), 0) : -1;
    return (int)syscall(SYS_statx, fd, path, flags, mask, found);
}

int renameat(int from_fd, const char *from, int to_fd, const char *to)
{
    return strikes("renameat") ? -1 : (int)syscall(SYS_renameat2, from_fd, from, to_fd, to, 0);
}

int unlinkat(int fd, const char *name, int flags)
{
    return strikes("unlinkat") ? -1 : (int)syscall(SYS_unlinkat, fd, name, flags);
}

DIR *fdopendir(int fd)
{
    static DIR *(*real)(int);
    void *const found = dlsym(RTLD_NEXT, "fdopendir");
    memcpy(&real, &found, sizeof real);
    return strikes("fdopendir") ? NULL : real(fd);
}

struct dirent *readdir(DIR *directory)
{
    static struct dirent *(*real)(DIR *);
    static struct dirent made_up = { .d_name = "00000000000000000000.log" };
    void *const found = dlsym(RTLD_NEXT, "readdir");
    memcpy(&real, &found, sizeof real);
    if (strikes("readdir"))
        return NULL;
    return plan.names > 0 && plan.names-- > 0 ? &made_up : real(directory);
}
/* NOLINTEND */

#endif
