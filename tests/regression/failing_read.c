/* failing_read.c - for LD_PRELOAD: a read of the file whose path ends in $FAILING_READ fails with EIO where it reaches
 * into bytes $FAILING_FROM to $FAILING_TO, as of one bad sector. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

static bool fails(int fd, size_t size, off_t position)
{
    const char *end = getenv("FAILING_READ"), *from = getenv("FAILING_FROM"), *to = getenv("FAILING_TO");
    char link[64], path[PATH_MAX];
    if (end == NULL || from == NULL || to == NULL)
        return false;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    const ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < (ssize_t)strlen(end))
        return false;
    path[length] = '\0';
    if (strcmp(path + length - strlen(end), end) != 0 || position >= atoll(to) || position + (off_t)size <= atoll(from))
        return false;
    errno = EIO;
    return true;
}

ssize_t pread64(int fd, void *buffer, size_t size, off_t position)
{
    if (fails(fd, size, position))
        return -1;
    return ((ssize_t (*)(int, void *, size_t, off_t))dlsym(RTLD_NEXT, "pread64"))(fd, buffer, size, position);
}

ssize_t pread(int fd, void *buffer, size_t size, off_t position) { return pread64(fd, buffer, size, position); }

ssize_t preadv64(int fd, const struct iovec *parts, int count, off_t position)
{
    size_t size = 0;
    for (int part = 0; part < count; part++)
        size += parts[part].iov_len;
    if (fails(fd, size, position))
        return -1;
    return ((ssize_t (*)(int, const struct iovec *, int, off_t))dlsym(RTLD_NEXT, "preadv64"))(fd, parts, count,
                                                                                              position);
}

ssize_t preadv(int fd, const struct iovec *parts, int count, off_t position)
{
    return preadv64(fd, parts, count, position);
}
