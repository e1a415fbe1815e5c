/* descriptor_pool.h - an environment whose handles outlive their descriptors: a bounded number is open at a time.
 *
 * A log directory may have more partitions than a process may have descriptors. So a directory that was opened by an
 * absolute path, and a file in it, is a handle here: a number from SGS_FIRST_POOLED_HANDLE on. Above half of the soft
 * limit of open files (RLIMIT_NOFILE, asked at every open) the one not used for longest is closed; its next use opens it
 * again by its path and compares device, inode and time of birth with those that were kept. All files count: directories,
 * segments, indexes, small files.
 *
 * NOT EVICTED  what is in use, what holds a lock, and what has no name any more (unlinked or replaced through this
 *              environment): readers inside go on [DUR-78]. Renames through this environment are followed.
 * SYNCED       what was written through a descriptor is synced before it is closed here, since Linux reports a failed
 *              writeback only to descriptors that were open [DUR-35]. A .log is synced by its owner (note_owner of io/env.h),
 *              who poisons the log; of anything else the failure is kept, and is the answer to every later sync; of a file
 *              also when it was closed and opened anew.
 * MAPPINGS     hold the file, not the descriptor: they stay when it goes.
 * THREADS      all functions, from any thread. A use takes no lock while the descriptor is open. The mutex is held over no
 *              I/O; who needs a descriptor that is just being opened, synced or closed waits for that. */
#ifndef SGS_IO_DESCRIPTOR_POOL_H
#define SGS_IO_DESCRIPTOR_POOL_H

#include <pthread.h>
#include <stdatomic.h>

#include "io/env.h"

enum {
    SGS_FIRST_POOLED_HANDLE = 1 << 28, /* no process has so many descriptors */
    SGS_POOL_CHUNKS = 4096,            /* of 1,024 handles each */
    SGS_POOL_BUCKETS = 4096
};

typedef struct sgs_pooled sgs_pooled;
typedef struct sgs_pool_sync sgs_pool_sync;

typedef struct sgs_descriptor_pool { /* must not move */
    sgs_env env;                     /* the environment of who uses the pool */
    const sgs_env *base;
    pthread_mutex_t mutex; /* of all below, and of the names and lists in the entries */
    pthread_mutex_t
        renames; /* held over a rename, taken before `mutex`: who finds no file waits for it, and looks again */
    pthread_cond_t settled; /* an entry is not busy any more */
    _Atomic(sgs_pooled *) chunks[SGS_POOL_CHUNKS];
    sgs_pooled *directories[SGS_POOL_BUCKETS]; /* by inode */
    sgs_pooled *first_free;
    sgs_pooled *first_failed;    /* closed files whose sync for the pool failed */
    sgs_pooled *oldest, *newest; /* those that are open and may be closed, by their last use */
    sgs_pool_sync *syncs;        /* that owners do for the pool at this moment */
    uint32_t made_count, open_count;
    int64_t fixed_limit; /* 0 = by RLIMIT_NOFILE */
    uint64_t evictions;
} sgs_descriptor_pool;

/** Over `base`, which has descriptor_limit and birth_ns. */
void sgs_descriptor_pool_init(sgs_descriptor_pool *pool, const sgs_env *base);
/** Close at most `limit` at a time from now on; 0 = half of RLIMIT_NOFILE again. */
void sgs_descriptor_pool_limit(sgs_descriptor_pool *pool, int64_t limit);
/** How many are open that may be closed, and how often one was. */
void sgs_descriptor_pool_count(sgs_descriptor_pool *pool, uint32_t *open_count, uint64_t *evictions);

/* Around a fork. The child has no thread that was inside: nothing is in use there, and nothing is for it to sync. */
void sgs_descriptor_pool_before_fork(sgs_descriptor_pool *pool);
void sgs_descriptor_pool_in_parent(sgs_descriptor_pool *pool);
void sgs_descriptor_pool_in_child(sgs_descriptor_pool *pool);

#endif
