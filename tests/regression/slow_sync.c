/* slow_sync.c - for LD_PRELOAD: a sync sleeps so many milliseconds before it begins as slow_syncs was given last. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

void slow_syncs(int milliseconds);

static _Atomic int delay_ms;

void slow_syncs(int milliseconds) { delay_ms = milliseconds; }

static int delayed(int fd, const char *name)
{
    const int ms = delay_ms;
    const struct timespec delay = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L };
    (void)nanosleep(&delay, NULL);
    return ((int (*)(int))dlsym(RTLD_NEXT, name))(fd);
}

int fsync(int fd) { return delayed(fd, "fsync"); }
int fdatasync(int fd) { return delayed(fd, "fdatasync"); }
