/* log_segment_internal.h - the private struct of a segment and what the files of this folder share.
 *
 * TURNS   `files_turn` is for what is made at first use (descriptor, both indexes) and for the names while files are renamed. It is
 *         held over I/O and over a scan of a whole index, so that whoever waits for it sleeps. After the first use nobody takes
 *         it: `fd` and the two `*_loaded` flags are published with release and read with acquire. An append that has its
 *         files takes no turn. `sync_turn` is held over a sync (segment_sync.c). Nobody waits for one turn while it has the other.
 * GUARD   `guard` is for the greatest timestamp, which each append may raise, and for the counter of cuts. It is held for a few
 *         stores, never over a call.
 * SIZE    `size` is the logical size; bytes below it never change while it stands. It is published after the bytes
 *         (release) and read before them (acquire) [CON-4].
 * CUTS    Whatever takes bytes or index entries away counts itself in `cuts`, when it begins and when it ends. A look-up
 *         takes the counter before it looks at anything, and remembers what it found only where no cut came meanwhile. */
#ifndef SGS_SEGMENT_LOG_SEGMENT_INTERNAL_H
#define SGS_SEGMENT_LOG_SEGMENT_INTERNAL_H

#include <stdatomic.h>

#include "segment/log_segment.h"

enum { SGS_NEXT_OFFSET_UNKNOWN = -1 }; /* the next append looks it up */

struct sgs_log_segment {
    const sgs_segment_context *context;
    int64_t base_offset;
    sgs_offset_index offset_index;
    sgs_time_index time_index;
    sgs_timestamp_offset max_timestamp; /* [SEG-3] valid when has_max_timestamp; read and written under the guard */
    _Atomic int64_t created_ms;
    _Atomic int64_t first_batch_timestamp; /* [SEG-14] INT64_MIN = not read yet */
    _Atomic int64_t unflushed_records;
    uint64_t device, inode; /* of the .log as a reader opened it first, 0 before: under the turn of the files */
    int64_t next_offset;    /* what an append may begin with, at least. For who holds the lock */
    _Atomic int32_t size;
    _Atomic uint32_t cuts; /* odd while bytes or index entries go; written by who holds the lock, under the guard */
    _Atomic int fd;        /* of the .log, -1 until first use */
    uint32_t bytes_since_last_index_entry; /* 0 at open, never restored from disk [SEG-1] */
    atomic_flag guard;
    atomic_flag files_turn, sync_turn;
    _Atomic bool offset_index_loaded, time_index_loaded;
    _Atomic bool has_max_timestamp; /* written under the guard */
    _Atomic bool needs_sync;        /* bytes may not be on disk: so it is until the first sync by this handle */
    _Atomic bool index_damaged;     /* a look-up met an impossible entry [DUR-53]: rebuild at seal or close */
    _Atomic bool poisoned;          /* a cut or a sync failed [DUR-32, DUR-35] */
    _Atomic bool deleted;
    bool sealed;
    bool max_is_hidden;     /* damage hid the largest timestamp from an append; written under the lock and the guard */
    _Atomic uint8_t suffix; /* sgs_segment_suffix; changed in a turn of the files */
};
_Static_assert(sizeof(struct sgs_log_segment) <= 320, "10,000 segments are 10,000 small objects");

/* ---- log_segment.c ---- */

/** Sleep until the turn is free, and take it. */
void sgs_segment_take_turn(atomic_flag *turn);
void sgs_segment_end_turn(atomic_flag *turn);
/** For a few loads and stores: whoever waits spins. */
void sgs_segment_lock_guard(sgs_log_segment *segment);
void sgs_segment_unlock_guard(sgs_log_segment *segment);
/** Present name of one of the files. */
void sgs_segment_name(const sgs_log_segment *segment, sgs_segment_file kind, char name[SGS_SEGMENT_NAME_BYTES]);
/** Size of a .log by its name. @return also SGS_NOT_A_LOG, SGS_LIMIT_EXCEEDED [DUR-97] */
sgs_status sgs_segment_log_size(const sgs_env *env, int directory_fd, const char *name, int32_t *size, sgs_error *err);
/** The .log descriptor, opened at first use. */
sgs_status sgs_segment_descriptor(sgs_log_segment *segment, int *fd, sgs_error *err);
/** Both indexes, loaded (and created) at first use [LZY-1]. */
sgs_status sgs_segment_load_indexes(sgs_log_segment *segment, sgs_error *err);
/** SGS_ILLEGAL_STATE for a read-only, poisoned or deleted segment. */
sgs_status sgs_segment_check_writable(const sgs_log_segment *segment, sgs_error *err);
/** Note the segment's .log in `err`. @return err->status */
sgs_status sgs_segment_fail_in_log(const sgs_log_segment *segment, sgs_error *err);
/** Whether entries count as they are found, as in Kafka [DUR-62]. Its indexes are those that this handle wrote or loaded.
 *  Who only reads may meet those of a live writer, with entries in them that a truncation cut off [OFX-5], and
 *  preallocated bytes behind the last batch: he compares them with the log in every profile [DUR-53, DUR-76]. */
bool sgs_segment_believes_indexes(const sgs_log_segment *segment);
/** Whether a look-up that failed to load or search an index may go on without it: it is damaged, which is noted, or it would
 *  have to be created where nothing can be [DUR-30: reads are unaffected by a full disk]. */
bool sgs_segment_goes_without_index(sgs_log_segment *segment, uint32_t seen_cuts, sgs_status status);
/** Bytes of the .log went, or its name: no header that was read before is remembered any more. */
void sgs_segment_forget_headers(const sgs_log_segment *segment);

/* ---- segment_cuts.c: what a look-up remembers ---- */

/** Take the counter of cuts, before anything else is looked at. */
uint32_t sgs_segment_see_cuts(sgs_log_segment *segment);
/** For who holds the lock: from here to the end bytes or index entries may go. The two do not nest. */
void sgs_segment_begin_cut(sgs_log_segment *segment);
void sgs_segment_end_cut(sgs_log_segment *segment);
/** Note that an index is damaged: look-ups go around it, seal or close rebuilds it. For who holds the lock. */
void sgs_segment_note_damage(sgs_log_segment *segment);
/** The same for a look-up, unless a cut came since `seen_cuts`: then what seemed damaged may be what was cut. */
void sgs_segment_suspect_damage(sgs_log_segment *segment, uint32_t seen_cuts);
/** Remember the timestamp of the first batch, unless a cut came since. */
void sgs_segment_remember_first_timestamp(sgs_log_segment *segment, uint32_t seen_cuts, int64_t timestamp);
/** @return whether the largest timestamp is known */
bool sgs_segment_recall_max_timestamp(sgs_log_segment *segment, sgs_timestamp_offset *max_timestamp);
/** Remember the largest timestamp that a look-up has found, unless a cut came since. Where it is known already the one that
 *  is known counts, and is given back: an append may have raised it meanwhile. */
void sgs_segment_remember_max_timestamp(sgs_log_segment *segment, uint32_t seen_cuts,
                                        sgs_timestamp_offset *max_timestamp);
/** For who holds the lock. */
void sgs_segment_set_max_timestamp(sgs_log_segment *segment, sgs_timestamp_offset max_timestamp);
void sgs_segment_forget_max_timestamp(sgs_log_segment *segment);
/** No look-up remembers one until the segment is cut or recovered: appends do not raise it. */
void sgs_segment_hide_max_timestamp(sgs_log_segment *segment);

/* ---- segment_walk.c: batch headers one after the other, by Kafka's file rules [SEG-17] ---- */

typedef struct sgs_segment_walk {
    sgs_log_segment *segment;
    sgs_buffer *window; /* the walk reads into the space behind `window_start`; `size` grows and shrinks with it */
    size_t window_start;
    int64_t window_position; /* of the byte at window_start */
    int64_t position;        /* of the next header */
    int64_t end;             /* logical size when the walk began */
    int64_t expected_offset; /* of the next batch, at least; INT64_MIN = unknown [DUR-79] */
    uint64_t version;        /* of the headers that may be remembered, 0 = none: they come from the file, with bytes */
    size_t read_bytes;       /* how much to read when the next header is not in the window; the walk adapts it */
} sgs_segment_walk;

typedef enum sgs_walk_kind {
    SGS_WALK_FOR_BYTES,  /* what the headers belong to is wanted too: they are read together */
    SGS_WALK_FOR_HEADERS /* those of large batches are remembered, and need not be read */
} sgs_walk_kind;

/** Start at a batch start. The window may hold bytes before `window->size`: they stay. */
void sgs_segment_walk_start(sgs_segment_walk *walk, sgs_log_segment *segment, sgs_walk_kind kind, sgs_buffer *window,
                            int64_t position, size_t read_bytes);
/** The header at walk->position, which moves behind the batch.
 *  @param found  false at the end: walk->position == walk->end when it was clean, less when bytes follow that are no batch
 *  @return SGS_CORRUPT_RECORD for a declared size that cannot be, or offsets that go back */
sgs_status sgs_segment_walk_next(sgs_segment_walk *walk, sgs_batch_header *header, bool *found, sgs_error *err);
/** Stand behind a batch that this walk has found before. */
void sgs_segment_walk_go_back(sgs_segment_walk *walk, const sgs_batch_header *header);
/** Make window[window_start ..] exactly the bytes [position, position + size); they must lie below the logical size. */
sgs_status sgs_segment_walk_take(sgs_segment_walk *walk, int64_t position, size_t size, sgs_error *err);
/** Nothing was found: whether the walk ended before `max_position`, in bytes that are no batch [DUR-79].
 *  @return SGS_CORRUPT_LOG then */
sgs_status sgs_segment_walk_check_end(const sgs_segment_walk *walk, int64_t max_position, sgs_error *err);
/** Read exactly [position, position + size) of the .log into `data`.
 *  @return SGS_CORRUPT_LOG when the file is shorter than its logical size */
sgs_status sgs_segment_read_exactly(sgs_log_segment *segment, void *data, size_t size, int64_t position,
                                    sgs_error *err);

/* ---- segment_read.c ---- */

/** Start a walk at the greatest index entry at or below `offset`, or at 0, and take the first header. The entry is verified
 *  on use: one that does not lead to its batch is bypassed by a walk from the start [DUR-53]. */
sgs_status sgs_segment_walk_from(sgs_segment_walk *walk, sgs_log_segment *segment, sgs_walk_kind kind, int64_t offset,
                                 sgs_buffer *window, size_t read_bytes, sgs_batch_header *header, bool *found,
                                 sgs_error *err);

/* ---- batch_search.c ---- */

/** The first record of the batch with timestamp >= `timestamp` and offset >= `starting_offset`; without one `out` stays as
 *  it is. The walk has found the batch; its window holds other bytes afterwards. `scratch` takes what is decompressed. */
sgs_status sgs_segment_search_batch(sgs_segment_walk *walk, const sgs_batch_header *header, int64_t timestamp,
                                    int64_t starting_offset, sgs_buffer *scratch, sgs_found_timestamp *out,
                                    sgs_error *err);

/* ---- segment_timestamps.c ---- */

/** The greatest timestamp and the last offset of a batch that has it: the last entry of the time index that can be believed,
 *  and the headers behind it [SEG-24.7, DUR-53]. (-1, base offset) when no record has one.
 *  @param is_partial  as for sgs_log_segment_max_timestamp */
sgs_status sgs_segment_find_largest_timestamp(sgs_log_segment *segment, sgs_timestamp_offset *max_timestamp,
                                              bool *is_partial, sgs_error *err);

/* ---- index_builder.c: the entries of both indexes, computed before anything is written [SEG-40, DUR-57] ---- */

typedef struct sgs_index_builder {
    sgs_buffer offset_entries; /* sgs_offset_position each */
    sgs_buffer time_entries;   /* sgs_timestamp_offset each */
    int64_t base_offset;
    int64_t last_indexed_position;
    sgs_timestamp_offset max_timestamp;
    uint32_t interval_bytes;
    uint32_t max_offset_entries, max_time_entries;
} sgs_index_builder;

void sgs_index_builder_init(sgs_index_builder *builder, const sgs_log_segment *segment);
void sgs_index_builder_deinit(sgs_index_builder *builder);
/** The next good batch. @return SGS_SEGMENT_OFFSET_OVERFLOW, SGS_INVALID_OFFSET [SEG-41], SGS_RESOURCE */
sgs_status sgs_index_builder_add(sgs_index_builder *builder, const sgs_batch_header *row, sgs_error *err);
/** Scan the whole segment and add its good batches. */
sgs_status sgs_index_builder_scan(sgs_index_builder *builder, sgs_log_segment *segment, const sgs_scan_options *options,
                                  sgs_batch_table *table, sgs_scan_result *result, sgs_error *err);
/** Write both indexes, the final time entry included, and trim them [SEG-40.3]. */
sgs_status sgs_index_builder_write(const sgs_index_builder *builder, sgs_log_segment *segment, sgs_error *err);
/** Scan the segment and make both indexes anew: for stale or damaged ones [DUR-25]. */
sgs_status sgs_segment_rebuild_indexes(sgs_log_segment *segment, sgs_error *err);

/* ---- recovery.c ---- */

/** Cut the .log behind the last good batch, and sync it [DUR-17]. */
sgs_status sgs_segment_cut_tail(sgs_log_segment *segment, int32_t valid_bytes, sgs_error *err);

/* ---- segment_sync.c ---- */

/** Take no more writes, nor does the handle. */
void sgs_segment_poison(sgs_log_segment *segment);
/** Sync what was appended to the .log, and take it off `unflushed_records`. One sync at a time: the next waits, and hears
 *  of a failure. That poisons the segment, and leaves SGS_SYNC_FAILED_MARK but in the conformance profile.
 *  @return also SGS_FSYNC_FAILED where one has failed before: nothing is synced then */
sgs_status sgs_segment_sync_data(sgs_log_segment *segment, int fd, const char *name, sgs_barrier barrier,
                                 sgs_error *err);
/** Have the environment sync the .log by this segment, when it closes the descriptor of its own accord. */
void sgs_segment_own_descriptor(sgs_log_segment *segment, int fd);
/** As sgs_segment_sync_data, of a .log that was cut: all of the file [DUR-17]. */
sgs_status sgs_segment_sync_cut(sgs_log_segment *segment, int fd, const char *name, sgs_barrier barrier,
                                sgs_error *err);

/* ---- segment_scan.c ---- */

/* Called with the rows of each window. */
typedef sgs_status (*sgs_rows_visitor)(void *context, const sgs_batch_header *rows, size_t count, sgs_error *err);
/** As sgs_log_segment_scan; `visit` may be NULL. */
sgs_status sgs_segment_scan_rows(sgs_log_segment *segment, const sgs_scan_options *options, int64_t start_position,
                                 int64_t end_position, sgs_batch_table *table, sgs_rows_visitor visit, void *context,
                                 sgs_scan_result *result, sgs_error *err);

#endif
