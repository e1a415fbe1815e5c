/* header_cache.h - headers of batches that a walk has met lately, so that the next one need not read them again.
 *
 * A look-up walks over one or two headers, and each is a system call, which costs more than all the rest of it. A mapping of
 * the .log would spare it, but a file that somebody else cuts then ends the process by a signal, and so does a bad sector.
 *
 * WHOSE    One table serves all logs of a process; each looks at it through a view of its own. Only who may write a log has
 *          one: it knows when the bytes change, and nobody else changes them while the partition's lock is held [DUR-65].
 * STALE    An entry belongs to a version of its log. Whoever cuts a .log, or gives its name away, begins a new version
 *          *behind* that and before the next append: what was read of older bytes is never found by a walk that began later.
 * THREADS  any; a set of entries that somebody else is at counts as empty, so nobody waits, and a fork is no danger. */
#ifndef SGS_SEGMENT_HEADER_CACHE_H
#define SGS_SEGMENT_HEADER_CACHE_H

#include <stdatomic.h>

#include "base/buffer.h"
#include "record/record_batch.h"

enum { SGS_HEADER_CACHE_ENTRIES = 8192 };

typedef struct sgs_header_cache {
    sgs_memory memory;
    _Atomic(struct sgs_header_set *) sets; /* NULL until the first entry: who only opens logs pays nothing */
    _Atomic uint64_t last_version;
} sgs_header_cache;

typedef struct sgs_header_view {
    sgs_header_cache *cache;
    _Atomic uint64_t version;
} sgs_header_view;

void sgs_header_cache_init(sgs_header_cache *cache, sgs_memory memory);
/** Nobody may be inside. */
void sgs_header_cache_deinit(sgs_header_cache *cache);

/** The view of a log that was just opened, on what is in the cache of none. */
void sgs_header_view_init(sgs_header_view *view, sgs_header_cache *cache);
/** Forget all: bytes that were there are there no more. */
void sgs_header_view_renew(sgs_header_view *view);
/** What a walk begins with, before it looks at anything else. */
uint64_t sgs_header_view_version(sgs_header_view *view);

/** @return whether the header of the batch at `position` was there */
bool sgs_header_view_find(sgs_header_view *view, uint64_t version, int64_t base_offset, int64_t position,
                          sgs_batch_header *header);
/** Remember a header, as long as nothing newer takes its place; where there is no memory, nothing. */
void sgs_header_view_put(sgs_header_view *view, uint64_t version, int64_t base_offset, const sgs_batch_header *header);

/** The batch at `position`, whose bytes were read under `version`, has passed the checks of who opens one for its records: the
 *  next one need not check it again [DUR-79]. Nothing when its header is not there. */
void sgs_header_view_note_checked(sgs_header_view *view, uint64_t version, int64_t base_offset, int64_t position);
bool sgs_header_view_is_checked(sgs_header_view *view, uint64_t version, int64_t base_offset, int64_t position);

#endif
