/* descriptor_pool.c - handles whose descriptors come and go.
 *
 * WHO WINS  A use counts itself in `users`, then reads `fd`. An eviction takes `fd` away, then reads `users`. Both are in one
 *           order (seq_cst): either the use finds no descriptor and waits for the mutex, or the eviction finds a user and
 *           puts the descriptor back. In the same way a sync counts itself and then looks whether an eviction is busy: of two
 *           syncs of one descriptor side by side only one would hear of an error [DUR-35]. */
#include "io/descriptor_pool.h"

#include <errno.h>
#include <string.h>

enum {
    CHUNK_ENTRIES = 1024,
    LEAST_OPEN = 8, /* a call has at most two in use: a directory and a file */
    PATH_BYTES = 4096,
};

struct sgs_pooled {
    _Atomic int fd; /* -1 = closed for now */
    _Atomic uint32_t users;
    _Atomic bool was_used; /* since the eviction looked last */
    _Atomic bool is_dirty; /* written to since the last sync began */
    _Atomic bool is_busy;  /* being opened, or synced and closed */
    /* under the mutex from here on */
    bool is_visited; /* its owner is syncing it for the pool: its handle is not closed meanwhile */
    bool is_kept;    /* it has a lock, or its sync failed */
    bool is_unnamed; /* nothing finds it again */
    bool is_directory, is_closed;
    sgs_open_mode mode;
    int32_t sync_error; /* errno of a sync by the pool that failed; 0 = none did */
    uint32_t number;
    uint32_t references; /* of a directory: files that know it */
    uint64_t device, inode;
    int64_t born_ns;       /* asked before the pool closes it, or a failed sync is remembered; 0 = unknown */
    char *name;            /* of a directory its path */
    sgs_pooled *directory; /* of a file */
    sgs_pooled *first_file;
    sgs_pooled *next, *previous; /* files of a directory; directories of a bucket; free entries */
    sgs_pooled *newer, *older;   /* while it is open and not kept */
    sgs_status (*sync)(void *owner, int handle, sgs_error *err);
    void *owner;
};

typedef struct descriptor_use {
    sgs_pooled *entry; /* NULL = a descriptor that is no handle */
    int fd;
} descriptor_use;

static sgs_descriptor_pool *pool_of(const sgs_env *env) { return env->context; }
static const sgs_env *base_of(const sgs_env *env) { return pool_of(env)->base; }
static int handle_of(const sgs_pooled *entry) { return SGS_FIRST_POOLED_HANDLE + (int)entry->number; }

static sgs_pooled *entry_of(sgs_descriptor_pool *pool, int handle)
{
    const uint32_t number = (uint32_t)(handle - SGS_FIRST_POOLED_HANDLE);
    SGS_EXPECT(number < (uint32_t)SGS_POOL_CHUNKS * CHUNK_ENTRIES);
    sgs_pooled *chunk = atomic_load_explicit(&pool->chunks[number / CHUNK_ENTRIES], memory_order_acquire);
    SGS_EXPECT(chunk != NULL);
    return &chunk[number % CHUNK_ENTRIES];
}

static void lock(sgs_descriptor_pool *pool) { (void)pthread_mutex_lock(&pool->mutex); }
static void unlock(sgs_descriptor_pool *pool) { (void)pthread_mutex_unlock(&pool->mutex); }

/* For assertions: the caller must have the mutex; this tells whether any thread has it. */
static inline bool is_locked(sgs_descriptor_pool *pool) { return pthread_mutex_trylock(&pool->mutex) != 0; }

static bool is_settled(const sgs_pooled *entry) { return !atomic_load(&entry->is_busy) && !entry->is_visited; }

static void wait_until_settled(sgs_descriptor_pool *pool, const sgs_pooled *entry)
{
    SGS_EXPECT(is_locked(pool));
    while (!is_settled(entry))
        (void)pthread_cond_wait(&pool->settled, &pool->mutex);
}

static void settle(sgs_descriptor_pool *pool, sgs_pooled *entry)
{
    SGS_EXPECT(is_locked(pool) && !is_settled(entry));
    entry->is_visited = false;
    atomic_store(&entry->is_busy, false);
    (void)pthread_cond_broadcast(&pool->settled);
}

/* ---- the list of what is open ---- */

static void unlist(sgs_descriptor_pool *pool, sgs_pooled *entry)
{
    SGS_EXPECT(is_locked(pool) && (pool->newest == NULL) == (pool->oldest == NULL));
    if (entry->newer == NULL && pool->newest != entry)
        return;
    *(entry->newer != NULL ? &entry->newer->older : &pool->newest) = entry->older;
    *(entry->older != NULL ? &entry->older->newer : &pool->oldest) = entry->newer;
    entry->newer = entry->older = NULL;
    SGS_EXPECT(pool->open_count > 0);
    pool->open_count -= 1;
}

static void list_as_newest(sgs_descriptor_pool *pool, sgs_pooled *entry)
{
    unlist(pool, entry);
    entry->older = pool->newest;
    *(pool->newest != NULL ? &pool->newest->newer : &pool->oldest) = entry;
    SGS_EXPECT(entry->newer == NULL && entry->older != entry);
    pool->newest = entry;
    pool->open_count += 1;
}

static bool may_be_evicted(const sgs_pooled *entry) { return !entry->is_kept && !entry->is_unnamed; }

static void keep_open(sgs_descriptor_pool *pool, sgs_pooled *entry)
{
    entry->is_kept = true;
    unlist(pool, entry);
}

/* ---- eviction ---- */

/* Most files are closed by their owner, and never opened again: their time of birth is not asked for. */
static int64_t birth_of(const sgs_env *base, const sgs_pooled *entry, int fd)
{
    return entry->born_ns != 0 ? entry->born_ns : base->birth_ns(base, fd);
}

static sgs_status sync_entry(const sgs_env *base, const sgs_pooled *entry, int fd, sgs_error *err)
{
    return entry->is_directory ? base->sync_directory(base, fd, SGS_BARRIER(CLOSED_NAMES), err)
                               : base->sync_data(base, fd, "", SGS_BARRIER(CLOSED_RECORDS), err);
}

struct sgs_pool_sync {
    pthread_t thread;
    sgs_pool_sync *next;
};

/* Under the mutex: whether this thread is in a sync for the pool. A sync that fails opens a file for its mark, and makes room
 * for it without another sync. */
static bool syncs_for_pool(const sgs_descriptor_pool *pool)
{
    const sgs_pool_sync *one = pool->syncs;
    while (one != NULL && !pthread_equal(one->thread, pthread_self()))
        one = one->next;
    return one != NULL;
}

static void end_sync(sgs_descriptor_pool *pool, const sgs_pool_sync *ended)
{
    sgs_pool_sync **place = &pool->syncs;
    while (*place != ended)
        place = &(*place)->next;
    *place = ended->next;
}

/* Under the mutex, which is let go of meanwhile. The owner's sync goes through this environment, as any other of his. */
static void let_owner_sync(sgs_descriptor_pool *pool, sgs_pooled *entry)
{
    sgs_error told; /* the owner notes a failure himself */
    sgs_pool_sync own = { .thread = pthread_self(), .next = pool->syncs };
    SGS_EXPECT(!syncs_for_pool(pool));
    /* cppcheck-suppress autoVariables ; end_sync takes it out again */
    pool->syncs = &own;
    entry->is_visited = true;
    unlock(pool);
    const sgs_status status = entry->sync(entry->owner, handle_of(entry), &told);
    lock(pool);
    end_sync(pool, &own);
    if (status != SGS_OK && status != SGS_LOCKED) /* he syncs it himself this moment */
        keep_open(pool, entry);
    settle(pool, entry);
}

/* Under the mutex, which is let go of for I/O. @return whether the descriptor was given back */
static bool evict(sgs_descriptor_pool *pool, sgs_pooled *entry)
{
    sgs_error told;
    if (atomic_load(&entry->is_busy) || entry->is_visited || atomic_load(&entry->users) != 0)
        return false;
    if (atomic_load(&entry->is_dirty) && syncs_for_pool(pool))
        return false;
    if (entry->sync != NULL && atomic_load(&entry->is_dirty)) {
        let_owner_sync(pool, entry);
        if (!may_be_evicted(entry) || atomic_load(&entry->is_busy) || atomic_load(&entry->is_dirty))
            return false;
    }
    int fd = atomic_load(&entry->fd);
    SGS_EXPECT(is_locked(pool) && is_settled(entry));
    atomic_store(&entry->is_busy, true);
    bool may_go = atomic_load(&entry->users) == 0 && fd >= 0;
    if (may_go && atomic_exchange(&entry->is_dirty, false)) {
        unlock(pool);
        const sgs_status status = sync_entry(pool->base, entry, fd, &told);
        lock(pool);
        if (status != SGS_OK) {
            SGS_EXPECT(told.status == status && entry->sync_error == 0);
            entry->sync_error = told.os_error != 0 ? told.os_error : EIO;
            entry->born_ns = birth_of(pool->base, entry, fd);
            keep_open(pool, entry);
        }
        may_go = may_be_evicted(entry);
    }
    if (may_go && entry->born_ns == 0) {
        unlock(pool);
        const int64_t born_ns = birth_of(pool->base, entry, fd);
        lock(pool);
        entry->born_ns = born_ns;
        may_go = may_be_evicted(entry);
    }
    if (may_go) {
        fd = atomic_exchange(&entry->fd, -1);
        may_go = atomic_load(&entry->users) == 0 && !atomic_load(&entry->is_dirty);
        if (!may_go)
            atomic_store(&entry->fd, fd);
        else
            unlist(pool, entry);
    }
    settle(pool, entry);
    if (!may_go)
        return false;
    SGS_EXPECT(fd >= 0 && atomic_load(&entry->fd) < 0);
    pool->evictions += 1;
    unlock(pool);
    (void)pool->base->close(pool->base, fd, "", &told); /* all of it is on the disk */
    lock(pool);
    return true;
}

/* Close the one that was not used for longest; what has to be synced first only when there is nothing else. Under the mutex,
 * which is let go of for I/O. @return false when nothing can be closed */
static bool evict_one(sgs_descriptor_pool *pool)
{
    for (int round = 0; round < 2; ++round)
        for (uint32_t left = 2 * pool->open_count; left > 0 && pool->oldest != NULL; --left) {
            sgs_pooled *entry = pool->oldest;
            list_as_newest(pool, entry);
            if (atomic_exchange_explicit(&entry->was_used, false, memory_order_relaxed) ||
                (round == 0 && atomic_load(&entry->is_dirty)))
                continue;
            if (evict(pool, entry))
                return true;
        }
    return false;
}

static int64_t limit_of(const sgs_descriptor_pool *pool)
{
    if (pool->fixed_limit > 0)
        return pool->fixed_limit;
    const int64_t half = pool->base->descriptor_limit(pool->base) / 2;
    return half > LEAST_OPEN ? half : LEAST_OPEN;
}

/* Under the mutex, which is let go of for I/O: room for `wanted` more. While all are in use, more than the limit are open. */
static void make_room(sgs_descriptor_pool *pool, int64_t wanted)
{
    if (pool->open_count + wanted <= LEAST_OPEN && pool->fixed_limit == 0)
        return; /* whatever the limit is */
    const int64_t limit = limit_of(pool);
    while (pool->open_count + wanted > limit && evict_one(pool))
        continue;
}

static bool found_no_descriptor(sgs_status status, const sgs_error *err)
{
    return status == SGS_RESOURCE && (err->os_error == EMFILE || err->os_error == ENFILE);
}

/* The process has descriptors outside of this pool too: a call that found none left may be tried again once one of the pool
 * was closed. */
static bool found_room(sgs_descriptor_pool *pool, sgs_status status, const sgs_error *err)
{
    if (!found_no_descriptor(status, err))
        return false;
    lock(pool);
    const bool found = evict_one(pool);
    unlock(pool);
    return found;
}

/* ---- use ---- */

static void give_back(const descriptor_use *use)
{
    SGS_EXPECT(use->entry == NULL || atomic_load(&use->entry->users) > 0);
    if (use->entry != NULL)
        atomic_fetch_sub(&use->entry->users, 1);
}

static sgs_status open_again(sgs_descriptor_pool *pool, sgs_pooled *entry, int parent, int *fd, sgs_error *err);

static inline bool take_open(sgs_pooled *entry, descriptor_use *use)
{
    use->entry = entry;
    atomic_fetch_add(&entry->users, 1);
    use->fd = atomic_load(&entry->fd);
    if (!atomic_load_explicit(&entry->was_used, memory_order_relaxed))
        atomic_store_explicit(&entry->was_used, true, memory_order_relaxed);
    return use->fd >= 0;
}

/* The directory of a file comes first: a thread opens one entry at a time. */
static sgs_status take_closed(sgs_descriptor_pool *pool, descriptor_use *use, sgs_error *err)
{
    descriptor_use parent = { .entry = NULL, .fd = SGS_CWD };
    sgs_pooled *entry = use->entry, *directory = entry->directory;
    sgs_status status = SGS_OK;
    if (directory != NULL && !take_open(directory, &parent)) {
        status = open_again(pool, directory, SGS_CWD, &parent.fd, err);
        if (status != SGS_OK)
            give_back(&parent);
    }
    if (status == SGS_OK) {
        status = open_again(pool, entry, parent.fd, &use->fd, err);
        give_back(&parent);
    }
    if (status != SGS_OK)
        give_back(use);
    return status;
}

static inline sgs_status take(const sgs_env *env, int handle, descriptor_use *use, sgs_error *err)
{
    if (handle < SGS_FIRST_POOLED_HANDLE) {
        *use = (descriptor_use){ .entry = NULL, .fd = handle };
        return SGS_OK;
    }
    sgs_descriptor_pool *pool = pool_of(env);
    return take_open(entry_of(pool, handle), use) ? SGS_OK : take_closed(pool, use, err);
}

/* After a write, before it is given back: a sync that began before may not cover it. The flag is always stored: a sync that
 * takes it away covers the write then. Skipping the store where the flag is set already would race with such a sync. */
static void note_written(const descriptor_use *use)
{
    if (use->entry != NULL)
        atomic_store_explicit(&use->entry->is_dirty, true, memory_order_release);
}

/* A file system may give the inode of a removed file to the next one that is made, which has a later time of birth. */
static bool is_the_same(const sgs_env *base, const sgs_pooled *entry, int fd, const sgs_file_info *info)
{
    if (info->device != entry->device || info->inode != entry->inode)
        return false;
    const int64_t born_ns = entry->born_ns != 0 ? base->birth_ns(base, fd) : 0;
    return born_ns == 0 || born_ns == entry->born_ns;
}

static sgs_status fail_replaced(const sgs_pooled *entry, const char *name, sgs_error *err)
{
    if (entry->is_directory)
        (void)sgs_fail(err, SGS_DIRECTORY_REPLACED,
                       "the directory at this path is not the one that was opened, which was moved or removed");
    else
        (void)sgs_fail(err, SGS_NOT_FOUND, "the file was removed since it was opened, and another one has its name");
    return sgs_fail_in_file(err, name);
}

/* A directory by its path, a file by its name in its directory. */
static sgs_status open_by_name(const sgs_env *base, const sgs_pooled *entry, int parent, const char *name, int *fd,
                               sgs_error *err)
{
    sgs_file_info info;
    sgs_error ignored;
    SGS_TRY(entry->is_directory ? base->open_directory(base, SGS_CWD, name, fd, err)
                                : base->open_file(base, parent, name, entry->mode, fd, err));
    sgs_status status = base->file_info(base, *fd, name, &info, err);
    if (status == SGS_OK && !is_the_same(base, entry, *fd, &info))
        status = fail_replaced(entry, name, err);
    if (status != SGS_OK)
        (void)base->close(base, *fd, name, &ignored);
    return status;
}

/* The caller counts as a user. No other entry is closed while this one is busy: the sync before that may need this very one,
 * for its mark. */
static sgs_status open_again(sgs_descriptor_pool *pool, sgs_pooled *entry, int parent, int *fd, sgs_error *err)
{
    char name[PATH_BYTES];
    sgs_status status;
    bool again;
    lock(pool);
    do {
        wait_until_settled(pool, entry);
        *fd = atomic_load(&entry->fd);
        if (*fd >= 0) {
            status = SGS_OK;
            break;
        }
        atomic_store(&entry->is_busy, true);
        SGS_EXPECT(strlen(entry->name) < sizeof name && atomic_load(&entry->users) > 0);
        memcpy(name, entry->name, strlen(entry->name) + 1);
        unlock(pool);
        status = open_by_name(pool->base, entry, parent, name, fd, err);
        const bool may_be_renamed = status == SGS_NOT_FOUND || status == SGS_DIRECTORY_REPLACED;
        if (may_be_renamed) { /* let the rename end that may be under way */
            (void)pthread_mutex_lock(&pool->renames);
            (void)pthread_mutex_unlock(&pool->renames);
        }
        lock(pool);
        if (status == SGS_OK) {
            atomic_store(&entry->fd, *fd);
            if (may_be_evicted(entry))
                list_as_newest(pool, entry);
        }
        settle(pool, entry);
        if (status == SGS_OK)
            make_room(pool, 0);
        if (may_be_renamed)
            again = strcmp(name, entry->name) != 0;
        else /* a sync that made room may have opened this entry for its mark */
            again = found_no_descriptor(status, err) && (evict_one(pool) || atomic_load(&entry->fd) >= 0);
    } while (again);
    unlock(pool);
    return status;
}

/* ---- making and forgetting handles ---- */

static sgs_pooled **bucket_of(sgs_descriptor_pool *pool, uint64_t inode)
{
    return &pool->directories[(inode ^ (inode >> 12)) % SGS_POOL_BUCKETS];
}

static void put_first(sgs_pooled **first, sgs_pooled *entry)
{
    entry->previous = NULL;
    entry->next = *first;
    if (*first != NULL)
        (*first)->previous = entry;
    *first = entry;
}

static void take_out(sgs_pooled **first, const sgs_pooled *entry)
{
    SGS_EXPECT(entry->previous != NULL || *first == entry);
    *(entry->previous != NULL ? &entry->previous->next : first) = entry->next;
    if (entry->next != NULL)
        entry->next->previous = entry->previous;
}

static char *copy_of(const sgs_env *base, const char *text)
{
    const size_t size = strlen(text) + 1;
    char *copy = size <= PATH_BYTES ? base->allocate(base, size) : NULL;
    return copy != NULL ? memcpy(copy, text, size) : NULL;
}

static sgs_pooled *free_entry(sgs_descriptor_pool *pool)
{
    if (pool->first_free == NULL && pool->made_count < (uint32_t)SGS_POOL_CHUNKS * CHUNK_ENTRIES) {
        sgs_pooled *chunk = pool->base->allocate(pool->base, CHUNK_ENTRIES * sizeof *chunk);
        if (chunk == NULL)
            return NULL;
        memset(chunk, 0, CHUNK_ENTRIES * sizeof *chunk);
        for (uint32_t i = CHUNK_ENTRIES; i > 0; --i) {
            chunk[i - 1].number = pool->made_count + i - 1;
            chunk[i - 1].is_closed = true;
            chunk[i - 1].next = pool->first_free;
            pool->first_free = &chunk[i - 1];
        }
        atomic_store_explicit(&pool->chunks[pool->made_count / CHUNK_ENTRIES], chunk, memory_order_release);
        pool->made_count += CHUNK_ENTRIES;
    }
    sgs_pooled *entry = pool->first_free;
    if (entry != NULL)
        pool->first_free = entry->next;
    return entry;
}

static void put_on_top(sgs_pooled **list, sgs_pooled *entry)
{
    entry->next = *list;
    *list = entry;
}

/* Under the mutex: where the file of an entry is among those that were closed after a failed sync, or the end of them. */
static sgs_pooled **place_among_failed(sgs_descriptor_pool *pool, const sgs_pooled *entry)
{
    sgs_pooled **place = &pool->first_failed;
    while (*place != NULL && ((*place)->device != entry->device || (*place)->inode != entry->inode ||
                              (*place)->born_ns != entry->born_ns))
        place = &(*place)->next;
    return place;
}

/* Under the mutex. The kernel reports a failed sync once, and it has told the pool. The pool remembers the failure when the
 * file is closed, until another file is in its place [DUR-35]. */
static void take_over_failure(sgs_descriptor_pool *pool, sgs_pooled *entry, sgs_open_mode mode)
{
    if (pool->first_failed == NULL)
        return;
    entry->born_ns = birth_of(pool->base, entry, atomic_load(&entry->fd));
    sgs_pooled **place = place_among_failed(pool, entry), *failed = *place;
    if (failed == NULL || mode == SGS_OPEN_READ)
        return;
    if (mode == SGS_OPEN_CREATE) { /* it got the inode */
        *place = failed->next;
        put_on_top(&pool->first_free, failed);
        return;
    }
    SGS_EXPECT(failed->is_closed && failed->sync_error != 0);
    entry->sync_error = failed->sync_error;
    keep_open(pool, entry);
}

/* A handle for `fd`, which is closed when there is none. */
static sgs_status make_handle(sgs_descriptor_pool *pool, sgs_pooled *directory, const char *name, sgs_open_mode mode,
                              int fd, int *handle, sgs_error *err)
{
    const sgs_env *base = pool->base;
    sgs_file_info info;
    sgs_error ignored;
    char *copy = NULL;
    sgs_status status = base->file_info(base, fd, name, &info, err);
    if (status == SGS_OK) {
        copy = copy_of(base, name);
        if (copy == NULL)
            status = sgs_fail(err, SGS_RESOURCE, "no memory for another open file");
    }
    lock(pool);
    make_room(pool, 1);
    sgs_pooled *entry = status == SGS_OK ? free_entry(pool) : NULL;
    if (entry == NULL) {
        unlock(pool);
        if (status == SGS_OK)
            status = sgs_fail(err, SGS_RESOURCE, "no memory for another open file");
        if (copy != NULL)
            base->release(base, copy);
        (void)base->close(base, fd, name, &ignored);
        return status;
    }
    const uint32_t number = entry->number;
    SGS_EXPECT(entry->is_closed && number < pool->made_count);
    memset(entry, 0, sizeof *entry);
    entry->number = number;
    entry->is_directory = directory == NULL;
    entry->mode = mode == SGS_OPEN_READ ? SGS_OPEN_READ : SGS_OPEN_WRITE;
    entry->device = info.device;
    entry->inode = info.inode;
    entry->name = copy;
    entry->directory = directory;
    atomic_store(&entry->was_used, true);
    atomic_store(&entry->fd, fd);
    if (directory != NULL)
        directory->references += 1;
    put_first(directory != NULL ? &directory->first_file : bucket_of(pool, info.inode), entry);
    list_as_newest(pool, entry);
    if (directory != NULL)
        take_over_failure(pool, entry, mode);
    unlock(pool);
    *handle = handle_of(entry);
    return SGS_OK;
}

/* Under the mutex. The failure of a directory is not remembered: the next open of its log syncs its names again. */
static void free_or_remember(sgs_descriptor_pool *pool, sgs_pooled *entry)
{
    const bool has_failed = !entry->is_directory && entry->sync_error != 0 && *place_among_failed(pool, entry) == NULL;
    SGS_EXPECT(is_locked(pool) && entry->is_closed && entry->name == NULL);
    put_on_top(has_failed ? &pool->first_failed : &pool->first_free, entry);
}

/* Under the mutex: an entry that nobody knows any more, and its directory, once that is closed and has no other file.
 * @return a descriptor that is to be closed, or -1 */
static int forget(sgs_descriptor_pool *pool, sgs_pooled *entry)
{
    int fd = -1;
    while (entry != NULL && entry->is_closed && entry->references == 0) {
        sgs_pooled *directory = entry->directory;
        SGS_EXPECT(is_settled(entry) && fd == -1);
        SGS_EXPECT(atomic_load(&entry->users) == 0);
        fd = atomic_exchange(&entry->fd, -1); /* of a directory that a file of it has needed once more */
        unlist(pool, entry);
        take_out(directory != NULL ? &directory->first_file : bucket_of(pool, entry->inode), entry);
        pool->base->release(pool->base, entry->name);
        entry->name = NULL;
        free_or_remember(pool, entry);
        SGS_EXPECT(directory == NULL || directory->references > 0);
        if (directory != NULL)
            directory->references -= 1;
        entry = directory;
    }
    return fd;
}

static bool is_last_of_closed_directory(const sgs_pooled *entry)
{
    return entry->directory != NULL && entry->directory->is_closed && entry->directory->references == 1;
}

static sgs_status pooled_close(const sgs_env *env, int handle, const char *name, sgs_error *err)
{
    sgs_descriptor_pool *pool = pool_of(env);
    const sgs_env *base = pool->base;
    if (handle < SGS_FIRST_POOLED_HANDLE)
        return base->close(base, handle, name, err);
    sgs_pooled *entry = entry_of(pool, handle);
    sgs_error ignored;
    int fd = -1;
    lock(pool);
    while (!is_settled(entry) || (is_last_of_closed_directory(entry) && !is_settled(entry->directory)))
        (void)pthread_cond_wait(&pool->settled, &pool->mutex);
    SGS_EXPECT(!entry->is_closed);
    entry->is_closed = true;
    entry->sync = NULL;
    if (entry->references == 0) {
        fd = atomic_exchange(&entry->fd, -1);
        unlist(pool, entry);
    } else { /* another thread may be opening a file in it: the descriptor goes by an eviction, or with the last file */
        atomic_store(&entry->is_dirty, false);
    }
    const int fd_of_directory = forget(pool, entry);
    unlock(pool);
    if (fd_of_directory >= 0)
        (void)base->close(base, fd_of_directory, ".", &ignored);
    return fd >= 0 ? base->close(base, fd, name, err) : SGS_OK;
}

/* ---- directories ---- */

static sgs_status pooled_open_directory(const sgs_env *env, int parent, const char *path, int *handle, sgs_error *err)
{
    sgs_descriptor_pool *pool = pool_of(env);
    descriptor_use use;
    int fd = -1;
    sgs_status status;
    SGS_TRY(take(env, parent, &use, err));
    do {
        status = pool->base->open_directory(pool->base, use.fd, path, &fd, err);
    } while (found_room(pool, status, err));
    give_back(&use);
    if (status != SGS_OK || parent != SGS_CWD || path[0] != '/') { /* another one may be meant by the path next time */
        if (status == SGS_OK)
            *handle = fd;
        return status;
    }
    return make_handle(pool, NULL, path, SGS_OPEN_READ, fd, handle, err);
}

static sgs_status pooled_make_directory(const sgs_env *env, int parent, const char *path, sgs_error *err)
{
    descriptor_use use;
    SGS_TRY(take(env, parent, &use, err));
    const sgs_status status = base_of(env)->make_directory(base_of(env), use.fd, path, err);
    note_written(&use);
    give_back(&use);
    return status;
}

static sgs_status pooled_remove_directory(const sgs_env *env, int parent, const char *path, sgs_error *err)
{
    descriptor_use use;
    SGS_TRY(take(env, parent, &use, err));
    const sgs_status status = base_of(env)->remove_directory(base_of(env), use.fd, path, err);
    note_written(&use);
    give_back(&use);
    return status;
}

static sgs_status pooled_list_directory(const sgs_env *env, int handle, sgs_name_visitor visit, void *context,
                                        sgs_error *err)
{
    descriptor_use use;
    sgs_status status;
    SGS_TRY(take(env, handle, &use, err));
    do { /* it fails for want of a descriptor before it has visited anything */
        status = base_of(env)->list_directory(base_of(env), use.fd, visit, context, err);
    } while (found_room(pool_of(env), status, err));
    give_back(&use);
    return status;
}

static sgs_status pooled_file_info_at(const sgs_env *env, int directory, const char *name, sgs_file_info *info,
                                      sgs_error *err)
{
    descriptor_use use;
    SGS_TRY(take(env, directory, &use, err));
    const sgs_status status = base_of(env)->file_info_at(base_of(env), use.fd, name, info, err);
    give_back(&use);
    return status;
}

static sgs_status pooled_set_modified_at(const sgs_env *env, int directory, const char *name, int64_t modified_ms,
                                         sgs_error *err)
{
    descriptor_use use;
    SGS_TRY(take(env, directory, &use, err));
    const sgs_status status = base_of(env)->set_modified_at(base_of(env), use.fd, name, modified_ms, err);
    give_back(&use);
    return status;
}

static sgs_status pooled_make_read_only_at(const sgs_env *env, int directory, const char *name, sgs_error *err)
{
    descriptor_use use;
    SGS_TRY(take(env, directory, &use, err));
    const sgs_status status = base_of(env)->make_read_only_at(base_of(env), use.fd, name, err);
    give_back(&use);
    return status;
}

/* ---- names that change ---- */

/* The next of all handles of one directory: several may have opened it. */
static sgs_pooled *same_directory(sgs_pooled *entry, uint64_t device, uint64_t inode)
{
    while (entry != NULL && (entry->device != device || entry->inode != inode))
        entry = entry->next;
    return entry;
}

static void rename_entry(sgs_descriptor_pool *pool, sgs_pooled *entry, char *name)
{
    if (name == NULL) { /* no memory: it must not have to be found again */
        entry->is_unnamed = true;
        unlist(pool, entry);
        return;
    }
    pool->base->release(pool->base, entry->name);
    entry->name = name;
}

/* Under the mutex: keep the files of that name in a directory open, or not any more. */
static void note_unnamed(sgs_descriptor_pool *pool, const sgs_pooled *directory, const char *name, bool is_unnamed)
{
    const uint64_t device = directory->device, inode = directory->inode;
    for (sgs_pooled *same = same_directory(*bucket_of(pool, inode), device, inode); same != NULL;
         same = same_directory(same->next, device, inode))
        for (sgs_pooled *file = same->first_file; file != NULL; file = file->next)
            if (strcmp(file->name, name) == 0 && atomic_load(&file->fd) >= 0) {
                file->is_unnamed = is_unnamed;
                if (is_unnamed)
                    unlist(pool, file);
                else if (may_be_evicted(file))
                    list_as_newest(pool, file);
            }
}

static void note_renamed_files(sgs_descriptor_pool *pool, const sgs_pooled *directory, const char *from, const char *to)
{
    SGS_EXPECT(is_locked(pool) && directory->is_directory);
    const uint64_t device = directory->device, inode = directory->inode;
    note_unnamed(pool, directory, to, true);
    for (sgs_pooled *same = same_directory(*bucket_of(pool, inode), device, inode); same != NULL;
         same = same_directory(same->next, device, inode))
        for (sgs_pooled *file = same->first_file; file != NULL; file = file->next)
            if (strcmp(file->name, from) == 0)
                rename_entry(pool, file, copy_of(pool->base, to));
}

static void note_renamed_directory(sgs_descriptor_pool *pool, const sgs_pooled *parent, const char *to,
                                   const sgs_file_info *info)
{
    char path[PATH_BYTES];
    const size_t above = strlen(parent->name), size = strlen(to) + 1;
    if (above + 1 + size > sizeof path)
        return; /* its next use finds no directory there, and says so */
    memcpy(path, parent->name, above);
    path[above] = '/';
    memcpy(path + above + 1, to, size);
    for (sgs_pooled *same = same_directory(*bucket_of(pool, info->inode), info->device, info->inode); same != NULL;
         same = same_directory(same->next, info->device, info->inode))
        rename_entry(pool, same, copy_of(pool->base, path));
}

static sgs_status pooled_rename(const sgs_env *env, int directory, const char *from, const char *to, sgs_error *err)
{
    sgs_descriptor_pool *pool = pool_of(env);
    const sgs_env *base = pool->base;
    sgs_file_info info = { 0 };
    sgs_error ignored;
    descriptor_use use;
    SGS_TRY(take(env, directory, &use, err));
    (void)pthread_mutex_lock(&pool->renames);
    const sgs_status status = base->rename(base, use.fd, from, to, err);
    if (status == SGS_OK && use.entry != NULL) {
        const bool is_there = base->file_info_at(base, use.fd, to, &info, &ignored) == SGS_OK;
        lock(pool);
        if (is_there && info.is_directory)
            note_renamed_directory(pool, use.entry, to, &info);
        else
            note_renamed_files(pool, use.entry, from, to);
        unlock(pool);
    }
    (void)pthread_mutex_unlock(&pool->renames);
    note_written(&use);
    give_back(&use);
    return status;
}

static sgs_status pooled_unlink(const sgs_env *env, int directory, const char *name, sgs_error *err)
{
    sgs_descriptor_pool *pool = pool_of(env);
    descriptor_use use;
    SGS_TRY(take(env, directory, &use, err));
    if (use.entry != NULL) { /* before: nothing takes the descriptor of a reader in between */
        lock(pool);
        note_unnamed(pool, use.entry, name, true);
        unlock(pool);
    }
    const sgs_status status = pool->base->unlink(pool->base, use.fd, name, err);
    if (use.entry != NULL && status != SGS_OK && status != SGS_NOT_FOUND) {
        lock(pool);
        note_unnamed(pool, use.entry, name, false);
        unlock(pool);
    }
    note_written(&use);
    give_back(&use);
    return status;
}

/* ---- files ---- */

static sgs_status pooled_open_file(const sgs_env *env, int directory, const char *name, sgs_open_mode mode, int *handle,
                                   sgs_error *err)
{
    sgs_descriptor_pool *pool = pool_of(env);
    descriptor_use use;
    int fd = -1;
    sgs_status status;
    SGS_TRY(take(env, directory, &use, err));
    do {
        status = pool->base->open_file(pool->base, use.fd, name, mode, &fd, err);
    } while (found_room(pool, status, err));
    if (mode == SGS_OPEN_CREATE || mode == SGS_OPEN_WRITE_OR_CREATE)
        note_written(&use);
    if (status == SGS_OK && use.entry != NULL)
        status = make_handle(pool, use.entry, name, mode, fd, handle, err);
    else if (status == SGS_OK)
        *handle = fd;
    give_back(&use);
    return status;
}

static void pooled_note_owner(const sgs_env *env, int handle, sgs_status (*sync)(void *owner, int fd, sgs_error *err),
                              void *owner)
{
    if (handle < SGS_FIRST_POOLED_HANDLE)
        return;
    sgs_descriptor_pool *pool = pool_of(env);
    sgs_pooled *entry = entry_of(pool, handle);
    lock(pool);
    SGS_EXPECT(!entry->is_directory);
    entry->owner = owner;
    entry->sync = sync;
    unlock(pool);
}

static sgs_status pooled_file_info(const sgs_env *env, int handle, const char *name, sgs_file_info *info,
                                   sgs_error *err)
{
    descriptor_use use;
    SGS_TRY(take(env, handle, &use, err));
    const sgs_status status = base_of(env)->file_info(base_of(env), use.fd, name, info, err);
    give_back(&use);
    return status;
}

static sgs_status pooled_read_at(const sgs_env *env, int handle, const char *name, void *data, size_t size,
                                 int64_t position, size_t *got, sgs_error *err)
{
    descriptor_use use;
    SGS_TRY(take(env, handle, &use, err));
    const sgs_status status = base_of(env)->read_at(base_of(env), use.fd, name, data, size, position, got, err);
    give_back(&use);
    return status;
}

static sgs_status pooled_write_at(const sgs_env *env, int handle, const char *name, const sgs_slice *slices,
                                  size_t count, int64_t position, int64_t *written, sgs_error *err)
{
    descriptor_use use;
    *written = 0;
    SGS_TRY(take(env, handle, &use, err));
    const sgs_status status = base_of(env)->write_at(base_of(env), use.fd, name, slices, count, position, written, err);
    note_written(&use);
    give_back(&use);
    return status;
}

static sgs_status pooled_send_file(const sgs_env *env, int handle, const char *name, int64_t position, size_t size,
                                   int destination, sgs_transfer *transfer, sgs_error *err)
{
    descriptor_use use;
    SGS_TRY(take(env, handle, &use, err));
    const sgs_status status =
        base_of(env)->send_file(base_of(env), use.fd, name, position, size, destination, transfer, err);
    give_back(&use);
    return status;
}

static sgs_status pooled_truncate(const sgs_env *env, int handle, const char *name, int64_t size, sgs_error *err)
{
    descriptor_use use;
    SGS_TRY(take(env, handle, &use, err));
    const sgs_status status = base_of(env)->truncate(base_of(env), use.fd, name, size, err);
    note_written(&use);
    give_back(&use);
    return status;
}

static sgs_status pooled_allocate_space(const sgs_env *env, int handle, const char *name, int64_t size, sgs_error *err)
{
    descriptor_use use;
    SGS_TRY(take(env, handle, &use, err));
    const sgs_status status = base_of(env)->allocate_space(base_of(env), use.fd, name, size, err);
    note_written(&use);
    give_back(&use);
    return status;
}

typedef sgs_status (*sync_call)(const sgs_env *env, int fd, const char *name, sgs_barrier barrier, sgs_error *err);

/* Not beside the pool's own sync, and not as if that had gone well. */
static sgs_status pooled_sync(const sgs_env *env, int handle, const char *name, sgs_barrier barrier, sync_call call,
                              sgs_error *err)
{
    sgs_descriptor_pool *pool = pool_of(env);
    descriptor_use use;
    SGS_TRY(take(env, handle, &use, err));
    sgs_pooled *entry = use.entry;
    int32_t failed_before = 0;
    if (entry != NULL) {
        lock(pool);
        while (atomic_load(&entry->is_busy))
            (void)pthread_cond_wait(&pool->settled, &pool->mutex);
        failed_before = entry->sync_error;
        unlock(pool);
        /* an exchange reads the flag that a write has stored, so that the write comes before the sync */
        (void)atomic_exchange(&entry->is_dirty, false);
    }
    sgs_status status;
    if (failed_before != 0) {
        (void)sgs_fail(err, SGS_FSYNC_FAILED, "a sync failed before and is not tried again (errno %d)",
                       (int)failed_before);
        err->os_error = failed_before;
        status = sgs_fail_in_file(err, name);
    } else {
        status = call(pool->base, use.fd, name, barrier, err);
    }
    if (status != SGS_OK)
        note_written(&use);
    give_back(&use);
    return status;
}

static sgs_status pooled_sync_data(const sgs_env *env, int handle, const char *name, sgs_barrier barrier,
                                   sgs_error *err)
{
    return pooled_sync(env, handle, name, barrier, base_of(env)->sync_data, err);
}

static sgs_status pooled_sync_file(const sgs_env *env, int handle, const char *name, sgs_barrier barrier,
                                   sgs_error *err)
{
    return pooled_sync(env, handle, name, barrier, base_of(env)->sync_file, err);
}

static sgs_status sync_names(const sgs_env *base, int fd, const char *name, sgs_barrier barrier, sgs_error *err)
{
    (void)name;
    return base->sync_directory(base, fd, barrier, err);
}

static sgs_status pooled_sync_directory(const sgs_env *env, int handle, sgs_barrier barrier, sgs_error *err)
{
    return pooled_sync(env, handle, ".", barrier, sync_names, err);
}

static void pooled_drop_cache(const sgs_env *env, int handle, int64_t position, int64_t size)
{
    descriptor_use use;
    sgs_error ignored;
    if (take(env, handle, &use, &ignored) != SGS_OK)
        return;
    base_of(env)->drop_cache(base_of(env), use.fd, position, size);
    give_back(&use);
}

static void pooled_read_ahead(const sgs_env *env, int handle, int64_t position, int64_t size)
{
    descriptor_use use;
    sgs_error ignored;
    if (take(env, handle, &use, &ignored) != SGS_OK)
        return;
    base_of(env)->read_ahead(base_of(env), use.fd, position, size);
    give_back(&use);
}

static sgs_status pooled_map(const sgs_env *env, int handle, const char *name, size_t size, bool writable,
                             void **address, sgs_error *err)
{
    descriptor_use use;
    SGS_TRY(take(env, handle, &use, err));
    const sgs_status status = base_of(env)->map(base_of(env), use.fd, name, size, writable, address, err);
    give_back(&use);
    return status;
}

/* A lock ends with its descriptor [DUR-66]. */
static sgs_status pooled_lock(const sgs_env *env, int handle, const char *name, sgs_lock_kind kind, sgs_error *err)
{
    sgs_descriptor_pool *pool = pool_of(env);
    descriptor_use use;
    SGS_TRY(take(env, handle, &use, err));
    const sgs_status status = pool->base->lock(pool->base, use.fd, name, kind, err);
    if (status == SGS_OK && use.entry != NULL) {
        lock(pool);
        keep_open(pool, use.entry);
        unlock(pool);
    }
    give_back(&use);
    return status;
}

static sgs_status pooled_unlock(const sgs_env *env, int handle, const char *name, sgs_error *err)
{
    descriptor_use use;
    SGS_TRY(take(env, handle, &use, err));
    const sgs_status status = base_of(env)->unlock(base_of(env), use.fd, name, err);
    give_back(&use);
    return status;
}

static sgs_status pooled_is_network_file_system(const sgs_env *env, int handle, bool *is_network, sgs_error *err)
{
    descriptor_use use;
    SGS_TRY(take(env, handle, &use, err));
    const sgs_status status = base_of(env)->is_network_file_system(base_of(env), use.fd, is_network, err);
    give_back(&use);
    return status;
}

/* ---- the pool ---- */

void sgs_descriptor_pool_init(sgs_descriptor_pool *pool, const sgs_env *base)
{
    memset(pool, 0, sizeof *pool);
    pool->base = base;
    pool->env = *base; /* memory, mappings and clocks are the base's: its functions look at no context */
    pool->env.context = pool;
    pool->env.open_directory = pooled_open_directory;
    pool->env.make_directory = pooled_make_directory;
    pool->env.remove_directory = pooled_remove_directory;
    pool->env.list_directory = pooled_list_directory;
    pool->env.sync_directory = pooled_sync_directory;
    pool->env.file_info_at = pooled_file_info_at;
    pool->env.set_modified_at = pooled_set_modified_at;
    pool->env.make_read_only_at = pooled_make_read_only_at;
    pool->env.rename = pooled_rename;
    pool->env.unlink = pooled_unlink;
    pool->env.open_file = pooled_open_file;
    pool->env.note_owner = pooled_note_owner;
    pool->env.close = pooled_close;
    pool->env.file_info = pooled_file_info;
    pool->env.read_at = pooled_read_at;
    pool->env.write_at = pooled_write_at;
    pool->env.send_file = pooled_send_file;
    pool->env.truncate = pooled_truncate;
    pool->env.allocate_space = pooled_allocate_space;
    pool->env.sync_data = pooled_sync_data;
    pool->env.sync_file = pooled_sync_file;
    pool->env.drop_cache = pooled_drop_cache;
    pool->env.read_ahead = pooled_read_ahead;
    pool->env.map = pooled_map;
    pool->env.lock = pooled_lock;
    pool->env.unlock = pooled_unlock;
    pool->env.is_network_file_system = pooled_is_network_file_system;
    (void)pthread_mutex_init(&pool->mutex, NULL);
    (void)pthread_mutex_init(&pool->renames, NULL);
    (void)pthread_cond_init(&pool->settled, NULL);
}

void sgs_descriptor_pool_limit(sgs_descriptor_pool *pool, int64_t limit)
{
    lock(pool);
    pool->fixed_limit = limit;
    make_room(pool, 1);
    unlock(pool);
}

void sgs_descriptor_pool_count(sgs_descriptor_pool *pool, uint32_t *open_count, uint64_t *evictions)
{
    lock(pool);
    *open_count = pool->open_count;
    *evictions = pool->evictions;
    unlock(pool);
}

void sgs_descriptor_pool_before_fork(sgs_descriptor_pool *pool)
{
    (void)pthread_mutex_lock(&pool->renames);
    lock(pool);
}

void sgs_descriptor_pool_in_parent(sgs_descriptor_pool *pool)
{
    unlock(pool);
    (void)pthread_mutex_unlock(&pool->renames);
}

void sgs_descriptor_pool_in_child(sgs_descriptor_pool *pool)
{
    (void)pthread_mutex_init(&pool->mutex, NULL);
    (void)pthread_mutex_init(&pool->renames, NULL);
    (void)pthread_cond_init(&pool->settled, NULL);
    pool->syncs = NULL;
    for (uint32_t number = 0; number < pool->made_count; ++number) {
        sgs_pooled *entry = entry_of(pool, SGS_FIRST_POOLED_HANDLE + (int)number);
        atomic_store(&entry->users, 0);
        atomic_store(&entry->is_dirty, false);
        atomic_store(&entry->is_busy, false);
        entry->is_visited = false;
    }
}
