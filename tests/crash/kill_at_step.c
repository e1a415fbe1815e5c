/* kill_at_step.c - for LD_PRELOAD: kills the process before its call number `kill_at_step_left` that changes the disk. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

_Atomic long kill_at_step_left = 0; /* set by the test; 0 = never */

static void count(void)
{
    if (kill_at_step_left != 0 && --kill_at_step_left == 0)
        kill(getpid(), SIGKILL);
}

#define STEP(type, name, parameters, arguments)                        \
    type name parameters                                               \
    {                                                                  \
        count();                                                       \
        return ((type(*) parameters)dlsym(RTLD_NEXT, #name))arguments; \
    }

STEP(int, fsync, (int fd), (fd))
STEP(int, fdatasync, (int fd), (fd))
STEP(int, mkdirat, (int fd, const char *path, mode_t mode), (fd, path, mode))
STEP(int, unlinkat, (int fd, const char *path, int flags), (fd, path, flags))
STEP(int, renameat, (int from_fd, const char *from, int to_fd, const char *to), (from_fd, from, to_fd, to))
STEP(int, ftruncate, (int fd, off_t size), (fd, size))
STEP(int, fallocate, (int fd, int mode, off_t at, off_t size), (fd, mode, at, size))
STEP(ssize_t, pwrite, (int fd, const void *data, size_t size, off_t at), (fd, data, size, at))
STEP(ssize_t, pwritev, (int fd, const struct iovec *parts, int number, off_t at), (fd, parts, number, at))

int openat(int fd, const char *path, int flags, ...)
{
    va_list more;
    va_start(more, flags);
    const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(more, mode_t) : 0;
    va_end(more);
    if ((flags & O_CREAT) != 0)
        count();
    return ((int (*)(int, const char *, int, ...))dlsym(RTLD_NEXT, "openat"))(fd, path, flags, mode);
}
