/* failing_sync.c - for LD_PRELOAD: while $FAILING_SWITCH is there, a sync of the file whose path ends in $FAILING_SYNC fails. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool fails(int fd)
{
    const char *end = getenv("FAILING_SYNC"), *there = getenv("FAILING_SWITCH");
    char link[64], path[PATH_MAX];
    if (end == NULL || there == NULL || access(there, F_OK) != 0)
        return false;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    const ssize_t size = readlink(link, path, sizeof path - 1);
    if (size < (ssize_t)strlen(end))
        return false;
    path[size] = '\0';
    return strcmp(path + size - strlen(end), end) == 0;
}

/* As the kernel: it is told once. */
static int told(int fd, const char *name)
{
    if (fails(fd)) {
        unlink(getenv("FAILING_SWITCH"));
        errno = EIO;
        return -1;
    }
    return ((int (*)(int))dlsym(RTLD_NEXT, name))(fd);
}

int fsync(int fd) { return told(fd, "fsync"); }
int fdatasync(int fd) { return told(fd, "fdatasync"); }
