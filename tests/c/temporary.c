/* temporary.c - plain POSIX, apart from the code under test. */
#define _XOPEN_SOURCE 700
#include "temporary.h"

#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static void give_up(const char *what)
{
    perror(what);
    exit(99);
}

temporary temporary_open(void)
{
    temporary directory;
    const char *parent = getenv("TMPDIR");
    const int size = snprintf(directory.path, sizeof directory.path, "%s/segstore-test-XXXXXX",
                              parent != NULL && parent[0] != '\0' ? parent : P_tmpdir);
    if (size < 0 || (size_t)size >= sizeof directory.path || mkdtemp(directory.path) == NULL)
        give_up("mkdtemp");
    directory.fd = open(directory.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (directory.fd < 0)
        give_up(directory.path);
    return directory;
}

static int remove_one(const char *path, const struct stat *found, int kind, struct FTW *where)
{
    (void)found;
    (void)kind;
    (void)where;
    return remove(path);
}

void temporary_close(temporary *directory)
{
    (void)close(directory->fd);
    directory->fd = -1;
    if (nftw(directory->path, remove_one, 8, FTW_DEPTH | FTW_PHYS) != 0)
        give_up(directory->path);
}

void temporary_write(const temporary *directory, const char *name, const void *data, size_t size)
{
    const int fd = openat(directory->fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size || close(fd) != 0)
        give_up(name);
}

int64_t temporary_read(const temporary *directory, const char *name, void *data, size_t room)
{
    const int fd = openat(directory->fd, name, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    struct stat found;
    if (fstat(fd, &found) != 0)
        give_up(name);
    const size_t wanted = (size_t)found.st_size < room ? (size_t)found.st_size : room;
    if (wanted > 0 && read(fd, data, wanted) != (ssize_t)wanted)
        give_up(name);
    (void)close(fd);
    return found.st_size;
}

bool temporary_has(const temporary *directory, const char *name)
{
    return faccessat(directory->fd, name, F_OK, 0) == 0;
}
