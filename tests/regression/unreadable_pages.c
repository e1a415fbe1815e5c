/* unreadable_pages.c - a disk with a bad sector: reads of a file fail with EIO between two bytes.
 *
 * EIO_FILE is the end of its path, EIO_FROM and EIO_TO the bytes; with EIO_INODE another file of that path can be read. With
 * EIO_LIST directories of that name cannot be listed. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

static int is_named(const char *path)
{
    const char *end = getenv("EIO_FILE");
    const size_t size = strlen(path);
    return end != NULL && size >= strlen(end) && strcmp(path + size - strlen(end), end) == 0;
}

static int is_bad(int fd, size_t size, off_t offset)
{
    char link[64];
    char path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    const ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0)
        return 0;
    path[length] = 0;
    const char *inode = getenv("EIO_INODE");
    struct stat found;
    if (inode != NULL && (fstat(fd, &found) != 0 || found.st_ino != (ino_t)atoll(inode)))
        return 0;
    const char *from = getenv("EIO_FROM");
    const char *to = getenv("EIO_TO");
    return is_named(path) && offset < (to == NULL ? 1L << 60 : atol(to)) &&
           offset + (off_t)size > (from == NULL ? 0 : atol(from));
}

ssize_t preadv(int fd, const struct iovec *pieces, int count, off_t offset)
{
    ssize_t (*real)(int, const struct iovec *, int, off_t);
    *(void **)&real = dlsym(RTLD_NEXT, "preadv");
    size_t size = 0;
    for (int i = 0; i < count; ++i)
        size += pieces[i].iov_len;
    errno = EIO;
    return is_bad(fd, size, offset) ? -1 : real(fd, pieces, count, offset);
}

ssize_t pread(int fd, void *data, size_t size, off_t offset)
{
    ssize_t (*real)(int, void *, size_t, off_t);
    *(void **)&real = dlsym(RTLD_NEXT, "pread");
    errno = EIO;
    return is_bad(fd, size, offset) ? -1 : real(fd, data, size, offset);
}

ssize_t pread64(int fd, void *data, size_t size, off_t offset) { return pread(fd, data, size, offset); }

DIR *fdopendir(int fd)
{
    DIR *(*real)(int);
    *(void **)&real = dlsym(RTLD_NEXT, "fdopendir");
    errno = EIO;
    return getenv("EIO_LIST") != NULL && is_bad(fd, 1, 0) ? NULL : real(fd);
}

DIR *opendir(const char *path)
{
    DIR *(*real)(const char *);
    *(void **)&real = dlsym(RTLD_NEXT, "opendir");
    errno = EIO;
    return getenv("EIO_LIST") != NULL && is_named(path) ? NULL : real(path);
}
