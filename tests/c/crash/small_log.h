/* small_log.h - a log over the core's segments, without Python: what a crash is asked about.
 *
 * segstore/log decides what a log does, and in which order it syncs; the core does it. So that the core can be crashed
 * without an interpreter, millions of times, this is the same order of effects once more, as small as it can be: segments,
 * log start, recovery point, from where on no offset is missing, the mark of a clean stop. No producers, no transactions, no
 * leader-epoch checkpoint: tests/crash has the whole of it.
 * SOURCE  segstore/log/local/local_log.py, flusher.py, log_truncator.py [DUR-11..DUR-29]; small_log_open.c: recovery/
 *         log_loader.py, small_log_recovery.c: recovery/log_recovery.py [DUR-50..DUR-57]. What changes there changes here.
 * THREADS one. */
#ifndef SGS_TEST_CRASH_SMALL_LOG_H
#define SGS_TEST_CRASH_SMALL_LOG_H

#include "segment/log_segment.h"

enum { SMALL_LOG_SEGMENTS_MAX = 64 };

typedef struct small_log_settings {
    bool sync; /* an append returns when it is on the disk */
    bool heap_indexes, preallocate;
    uint32_t segment_bytes, index_bytes, interval_bytes;
} small_log_settings;

typedef struct small_log {
    const sgs_env *env;
    const small_log_settings *settings;
    sgs_segment_context context;
    sgs_log_segment *segments[SMALL_LOG_SEGMENTS_MAX]; /* ascending, never none; the last one is active */
    size_t segments_count;
    sgs_log_segment *doomed[SMALL_LOG_SEGMENTS_MAX]; /* with the suffix .deleted, to be unlinked */
    size_t doomed_count;
    int64_t log_start, log_end;
    int64_t durable; /* below it everything is on the disk [DUR-4] */
    int64_t recovery_point, contiguous_from;
    int64_t hole_start, hole_end; /* a truncation took a whole batch: between is nothing */
    int64_t rolling_to;           /* a roll failed: the .log that it made may be there; -1 = none */
    bool is_poisoned;             /* an append failed and could not be taken back: no more changes [DUR-32] */
    bool has_new_names;           /* since the last sync of the directory */
    bool is_settled;              /* what an unclean stop left has been written again [DUR-36] */
    bool was_clean;               /* nothing had to be recovered */
    bool is_marked;               /* a sync has failed: what can be read may not be on the disk [DUR-35] */
} small_log;

/** Open the log of a disk, or make it; recover it unless it was closed. A log that cannot be opened leaves nothing open.
 *  @return also SGS_CORRUPT_LOG: something that had been synced is not there */
sgs_status small_log_open(small_log *log, const sgs_env *env, const small_log_settings *settings, sgs_error *err);
/** One batch, whose base offset is the log end. */
sgs_status small_log_append(small_log *log, const uint8_t *batch, size_t size, sgs_error *err);
sgs_status small_log_flush(small_log *log, sgs_error *err);
sgs_status small_log_roll(small_log *log, sgs_error *err);
sgs_status small_log_truncate_to(small_log *log, int64_t offset, sgs_error *err);
sgs_status small_log_truncate_fully(small_log *log, int64_t offset, sgs_error *err);
sgs_status small_log_delete_records(small_log *log, int64_t before_offset, sgs_error *err);
/** What the background thread does: sync what was sealed, write the recovery point, unlink what was deleted. */
sgs_status small_log_background(small_log *log, sgs_error *err);
/** Cleanly: the next open reads next to nothing. Everything is let go of in any case. */
sgs_status small_log_close(small_log *log, sgs_error *err);
/** Let go of everything, write nothing. */
void small_log_abandon(small_log *log);

/* ---- what the small_log*.c files share ---- */

static inline sgs_log_segment *small_log_active(const small_log *log) { return log->segments[log->segments_count - 1]; }
sgs_status small_log_sync_directory(const small_log *log, sgs_barrier barrier, sgs_error *err);
/** Index of the last segment that begins at or below `offset`; 0 when none does. */
size_t small_log_floor(const small_log *log, int64_t offset);
/** Make the files of a segment; index files without a log at that base go. */
sgs_status small_log_create_segment(small_log *log, int64_t base_offset, sgs_log_segment **created, sgs_error *err);
/** Where the batch with `offset` begins in a segment, or its end. */
sgs_status small_log_position_of(sgs_log_segment *segment, int64_t offset, int32_t *position, sgs_error *err);
/** Unlink its files, and forget it. */
sgs_status small_log_delete_segment(sgs_log_segment *segment, sgs_error *err);
/** The lowest offset of which no checkpoint says that it is on the disk. */
int64_t small_log_safe_below(const small_log *log);
/** Whether a log that ends there has lost records that had been synced. */
bool small_log_lacks_records_from(const small_log *log, int64_t end);
/** Find the end of a log that was not closed, and make it good. */
sgs_status small_log_recover(small_log *log, sgs_error *err);

#endif
