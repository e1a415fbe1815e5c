/* lossy_disk.c - for LD_PRELOAD: what a process writes and does not sync can be taken back after its death (lossy_disk.py).
 *
 * Stands in front of the C library's calls that change files in directories below $LOSSY_ROOT. Before a change, what was there goes to
 * the journal $LOSSY_JOURNAL; behind a sync goes how far the journal had come when the sync began. Each record is appended
 * by one write, so that a SIGKILL leaves whole records and at most part of one whose change did not happen.
 *
 *     'W'  file   position, size before   old bytes from there on: of a write, or cut off
 *     'S'  file   journal's end when the sync began
 *     'C'  directory                      name that is made
 *     'R'  directory   backup or 0        old name, new name; what had the new one is kept as $LOSSY_JOURNAL.<backup>
 *     'D'  directory   journal's end when the sync began
 *
 * Stores into mappings are not seen. A name that is removed counts as synced with all before it in its directory. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

typedef struct record {
    uint64_t kind, inode, first, second;
    uint32_t size, second_size; /* of the bytes that follow */
} record;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int journal = -1;

/* The C library's own. */
#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static int open_journal(void)
{
    const char *path = getenv("LOSSY_JOURNAL");
    if (journal < 0 && path != NULL)
        journal = REAL(openat)(AT_FDCWD, path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    return journal;
}

/* The inode of what is open there, 0 when it is not below the root. */
static uint64_t inode_of(int fd, int64_t *size)
{
    char link[64], path[PATH_MAX];
    struct stat info;
    const char *root = getenv("LOSSY_ROOT");
    if (root == NULL || fd < 0)
        return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    const ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0)
        return 0;
    path[length] = '\0';
    if (strncmp(path, root, strlen(root)) != 0 || fstat(fd, &info) != 0 || open_journal() < 0)
        return 0;
    if (size != NULL)
        *size = info.st_size;
    return info.st_ino;
}

static void note(const record *head, const void *bytes, const void *more)
{
    const size_t total = sizeof *head + head->size + head->second_size;
    char *all = malloc(total);
    if (all == NULL)
        abort();
    memcpy(all, head, sizeof *head);
    if (head->size > 0)
        memcpy(all + sizeof *head, bytes, head->size);
    if (head->second_size > 0)
        memcpy(all + sizeof *head + head->size, more, head->second_size);
    if (write(journal, all, total) != (ssize_t)total)
        abort();
    free(all);
}

/* Keep what is in [position, position + size) now. */
static void note_old(int fd, int64_t position, int64_t size)
{
    int64_t before;
    const uint64_t inode = inode_of(fd, &before);
    if (inode == 0)
        return;
    int64_t there = before - position < size ? before - position : size;
    if (there < 0)
        there = 0;
    char *bytes = malloc((size_t)there + 1);
    if (bytes == NULL || pread(fd, bytes, (size_t)there, position) != there)
        abort();
    const record head = { 'W', inode, (uint64_t)position, (uint64_t)before, (uint32_t)there, 0 };
    note(&head, bytes, NULL);
    free(bytes);
}

static uint64_t journal_end(void) { return (uint64_t)lseek(journal, 0, SEEK_END); }

/* ---- what is written ---- */

ssize_t pwrite(int fd, const void *data, size_t size, off_t position)
{
    pthread_mutex_lock(&mutex);
    note_old(fd, position, (int64_t)size);
    const ssize_t done = REAL(pwrite)(fd, data, size, position);
    pthread_mutex_unlock(&mutex);
    return done;
}

ssize_t pwritev(int fd, const struct iovec *slices, int count, off_t position)
{
    int64_t size = 0;
    for (int i = 0; i < count; ++i)
        size += (int64_t)slices[i].iov_len;
    pthread_mutex_lock(&mutex);
    note_old(fd, position, size);
    const ssize_t done = REAL(pwritev)(fd, slices, count, position);
    pthread_mutex_unlock(&mutex);
    return done;
}

int ftruncate(int fd, off_t size)
{
    pthread_mutex_lock(&mutex);
    note_old(fd, size, INT32_MAX);
    const int done = REAL(ftruncate)(fd, size);
    pthread_mutex_unlock(&mutex);
    return done;
}

int fallocate(int fd, int mode, off_t position, off_t size)
{
    pthread_mutex_lock(&mutex);
    note_old(fd, position, 0); /* its size changes */
    const int done = REAL(fallocate)(fd, mode, position, size);
    pthread_mutex_unlock(&mutex);
    return done;
}

/* ---- what is synced: what had been changed when it began ---- */

typedef int (*sync_call)(int fd);

static int sync_and_note(int fd, sync_call sync)
{
    struct stat info;
    const uint64_t inode = inode_of(fd, NULL);
    if (inode == 0)
        return sync(fd);
    pthread_mutex_lock(&mutex);
    const uint64_t end = journal_end();
    pthread_mutex_unlock(&mutex);
    const int done = sync(fd);
    if (done == 0 && fstat(fd, &info) == 0) {
        const record head = { S_ISDIR(info.st_mode) ? 'D' : 'S', inode, end, 0, 0, 0 };
        pthread_mutex_lock(&mutex);
        note(&head, NULL, NULL);
        pthread_mutex_unlock(&mutex);
    }
    return done;
}

/* Whether that sync promises and does nothing: a test wants to see that somebody notices. */
static bool is_lie(const char *name)
{
    const char *liar = getenv("LOSSY_LIAR");
    return liar != NULL && strcmp(liar, name) == 0;
}

int fsync(int fd) { return is_lie("fsync") ? 0 : sync_and_note(fd, REAL(fsync)); }
int fdatasync(int fd) { return is_lie("fdatasync") ? 0 : sync_and_note(fd, REAL(fdatasync)); }

/* ---- names ---- */

int openat(int directory, const char *name, int flags, ...)
{
    va_list arguments;
    va_start(arguments, flags);
    const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(arguments, mode_t) : 0;
    va_end(arguments);
    if ((flags & O_CREAT) == 0)
        return REAL(openat)(directory, name, flags, mode);
    pthread_mutex_lock(&mutex);
    const uint64_t inode = inode_of(directory, NULL);
    if (inode != 0 && faccessat(directory, name, F_OK, AT_SYMLINK_NOFOLLOW) != 0) {
        const record head = { 'C', inode, 0, 0, (uint32_t)strlen(name), 0 };
        note(&head, name, NULL);
    }
    const int fd = REAL(openat)(directory, name, flags, mode);
    pthread_mutex_unlock(&mutex);
    return fd;
}

int renameat(int from, const char *old, int to, const char *new)
{
    pthread_mutex_lock(&mutex);
    const uint64_t inode = inode_of(to, NULL);
    if (inode != 0) {
        uint64_t backup = journal_end() + 1;
        char path[PATH_MAX];
        snprintf(path, sizeof path, "%s.%llu", getenv("LOSSY_JOURNAL"), (unsigned long long)backup);
        if (linkat(to, new, AT_FDCWD, path, 0) != 0)
            backup = 0; /* nothing had that name */
        const record head = { 'R', inode, backup, 0, (uint32_t)strlen(old), (uint32_t)strlen(new) };
        note(&head, old, new);
    }
    const int done = REAL(renameat)(from, old, to, new);
    pthread_mutex_unlock(&mutex);
    return done;
}

int unlinkat(int directory, const char *name, int flags)
{
    pthread_mutex_lock(&mutex);
    const uint64_t inode = inode_of(directory, NULL);
    const int done = REAL(unlinkat)(directory, name, flags);
    if (inode != 0 && done == 0) {
        const record head = { 'D', inode, journal_end(), 0, 0, 0 };
        note(&head, NULL, NULL);
    }
    pthread_mutex_unlock(&mutex);
    return done;
}
