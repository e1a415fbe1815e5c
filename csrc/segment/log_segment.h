/* log_segment.h - one .log file with its offset and time index [SEG-*], Kafka LogSegment.
 *
 * The struct owns the .log descriptor (opened at first use), both indexes (mapped at first use, LZY-1) and the counters of
 * the append cadence, in at most 320 bytes; file names follow from base offset and suffix.
 * READS   are positional; the logical size is published after the bytes (release) and read first (acquire) [CON-4].
 * THREADS append, truncate, recover, seal and close need the partition lock; read, look-ups and flush may run beside an
 *         append [SEG-58]. Whoever closes makes sure that nobody is inside (the wrapper counts callers). */
#ifndef SGS_SEGMENT_LOG_SEGMENT_H
#define SGS_SEGMENT_LOG_SEGMENT_H

#include "index/offset_index.h"
#include "index/time_index.h"
#include "record/batch_scan.h"
#include "record/codec.h"
#include "segment/header_cache.h"

/* An empty file: a sync of a .log failed, and what is in the page cache may not be on the disk, whatever later syncs say,
 * until it is written again [DUR-35, DUR-36]. */
#define SGS_SYNC_FAILED_MARK ".segstore.sync-failed"

/* What the segments of one partition share; borrowed by each of them for its whole life. */
typedef struct sgs_segment_context {
    const sgs_env *env;
    int directory_fd;
    bool writable;
    /* [DUR-62] no Port note of the specification: indexes at full size at once and believed as they are found, a full one or
     * offsets that do not increase fail, order is not checked, damage behind the last batch fails the look for the end */
    bool kafka_profile;
    bool heap_indexes; /* [DUR-27] */
    bool preallocate;
    uint32_t index_interval_bytes; /* index.interval.bytes */
    uint32_t max_index_bytes;      /* segment.index.bytes */
    int32_t segment_bytes;         /* size of a preallocated .log */
    int32_t max_batch_bytes;       /* when reading [DUR-86] */
    const sgs_codec_table *codecs; /* for timestamp look-ups inside compressed batches */
    sgs_header_view *headers;      /* NULL = none are remembered; never of a log that somebody else may write */
    /* Set when a segment is poisoned, before anybody is told [DUR-35]; NULL = nobody looks. A segment that is still made
     * (.cleaned) is no log's yet, and sets nothing. */
    bool *writing_ended;
} sgs_segment_context;

typedef struct sgs_log_segment sgs_log_segment;

typedef enum sgs_segment_suffix {
    SGS_SUFFIX_NONE,
    SGS_SUFFIX_DELETED,
    SGS_SUFFIX_CLEANED,
    SGS_SUFFIX_SWAP
} sgs_segment_suffix;
typedef enum sgs_segment_file {
    SGS_FILE_LOG,
    SGS_FILE_INDEX,
    SGS_FILE_TIMEINDEX,
    SGS_FILE_TXNINDEX,
    SGS_FILE_COUNT
} sgs_segment_file;

enum { SGS_SEGMENT_NAME_BYTES = 48 };
/** "00000000000000000042.log", with ".deleted" and so on behind it. */
void sgs_segment_file_name(int64_t base_offset, sgs_segment_file kind, sgs_segment_suffix suffix,
                           char name[SGS_SEGMENT_NAME_BYTES]);

/** [SEG-2] Open an existing segment (its .log must exist; size taken from the file; index files are not touched), or
 *  create a new one (SGS_ALREADY_EXISTS when a .log of that name is there [DUR-11]).
 *  @return also SGS_LIMIT_EXCEEDED for a .log above 2^31 - 1 bytes [DUR-97] */
sgs_status sgs_log_segment_open(const sgs_segment_context *context, int64_t base_offset, sgs_segment_suffix suffix,
                                bool create, sgs_log_segment **segment, sgs_error *err);
/** The same for an existing .log whose size the caller has just looked up (segment_listing.h), and when: only memory is
 *  touched. @return SGS_OK, SGS_RESOURCE; SGS_ILLEGAL_ARGUMENT for a number below 0 */
sgs_status sgs_log_segment_open_sized(const sgs_segment_context *context, int64_t base_offset, int32_t size,
                                      int64_t created_ms, sgs_log_segment **segment, sgs_error *err);

/** [SEG-5, DUR-12] Write whole batches with one pwritev and move both indexes. `rows` are the batches' headers in order;
 *  sum of size_bytes must equal the slices' bytes. Index entries stop silently when an index is full or stale (SEG-27 port).
 *  Unflushed records are counted. On a failed write the file is cut back to its old end [DUR-32]; when that fails
 *  too, *poisoned is true and the segment refuses further appends.
 *  With kafka_profile offsets may go back, and an index that refuses an entry fails the append, whose bytes stay [SEG-10].
 *  @return SGS_OK; before anything is written: SGS_SEGMENT_OFFSET_OVERFLOW, SGS_INVALID_OFFSET (offsets that do not
 *          increase, from the last one of the segment on), SGS_CORRUPT_LOG (the segment ends in bytes that are no batch),
 *          SGS_ILLEGAL_ARGUMENT (size above 2^31 - 1), SGS_ILLEGAL_STATE (sealed, read-only, poisoned), and what loading
 *          the indexes failed with; then SGS_DISK_FULL, SGS_WRITE_IO.
 *          `*poisoned` is written in every case */
sgs_status sgs_log_segment_append(sgs_log_segment *segment, const sgs_slice *slices, size_t slices_count,
                                  const sgs_batch_header *rows, size_t rows_count, bool *poisoned, sgs_error *err);

/* Where a read begins and how far it may go [SEG-19, SEG-20]. */
typedef struct sgs_segment_read {
    int64_t start_offset;
    int32_t max_size;
    int64_t
        max_position; /* bytes at and beyond it are not visible; -1 = absent: no bytes at all. Below it there must be
                             whole batches [DUR-79]: the size of a sealed segment, the published end of the active one */
    bool min_one_message;
    /* Where a batch begins, all before it end below start_offset: a read goes on where the last one ended, without a
     * look-up. 0 = by the offset index */
    int32_t start_position;
} sgs_segment_read;

typedef struct sgs_segment_fetch {
    bool found;          /* false: nothing at or above start_offset here, try the next segment */
    int64_t base_offset; /* of the first batch returned (KAFKA-17803) */
    int32_t position;    /* of that batch; not found: where the batches end */
    int32_t size;        /* bytes from there on: appended to `out`, or left in the file */
    int32_t first_batch_size;
    int8_t first_batch_magic; /* below 2, base_offset may be that of its last message */
    bool first_entry_incomplete;
    bool ends_clean; /* not found: false when bytes that are no batch follow the last one */
} sgs_segment_fetch;

/** Index look-up, forward scan and positional read in one call; bytes are appended to `out`.
 *  An index entry that does not fit the file is bypassed by a scan from the start [DUR-53].
 *  @return also SGS_CORRUPT_LOG when nothing was found because the batches end before max_position: that is damage, never
 *          a reason to try the next segment [DUR-79] (not in the conformance profile: Kafka goes on) */
sgs_status sgs_log_segment_read(sgs_log_segment *segment, const sgs_segment_read *request, sgs_buffer *out,
                                sgs_segment_fetch *fetch, sgs_error *err);
/** [SEG-19] as read, without the bytes: `fetch->size` says how many file_records.h may send or read. */
sgs_status sgs_log_segment_slice(sgs_log_segment *segment, const sgs_segment_read *request, sgs_segment_fetch *fetch,
                                 sgs_error *err);
/** [SEG-18] where the batch with `offset` is.
 *  @param start_position  as in sgs_segment_read: Kafka's FileRecords.searchForOffsetFromPosition */
sgs_status sgs_log_segment_translate_offset(sgs_log_segment *segment, int64_t offset, int32_t start_position,
                                            int64_t max_position, sgs_segment_fetch *fetch, sgs_error *err);

/** [SEG-22] last offset + 1 by a scan from the last index entry; base offset when empty. `*ends_clean` is false when bytes
 *  that are no batch follow the last batch [DUR-51, LDR-34 port]. */
sgs_status sgs_log_segment_read_next_offset(sgs_log_segment *segment, int64_t *next_offset, bool *ends_clean,
                                            sgs_error *err);

typedef struct sgs_found_timestamp {
    bool found;
    int64_t timestamp, offset;
    int32_t leader_epoch; /* -1 = none */
} sgs_found_timestamp;
/** [SEG-23] first record with timestamp >= ts and offset >= starting_offset.
 *  @param max_position  as in sgs_segment_read: nothing found and an end before it is SGS_CORRUPT_LOG; -1 = any end will do */
sgs_status sgs_log_segment_find_offset_by_timestamp(sgs_log_segment *segment, int64_t timestamp,
                                                    int64_t starting_offset, int64_t max_position,
                                                    sgs_found_timestamp *out, sgs_error *err);
/** [SEG-23] the part behind the look-ups, Kafka's FileRecords.searchForTimestamp: from a batch start on.
 *  @return also SGS_ILLEGAL_ARGUMENT for a negative position */
sgs_status sgs_log_segment_search_for_timestamp(sgs_log_segment *segment, int64_t timestamp, int32_t start_position,
                                                int64_t starting_offset, sgs_found_timestamp *out, sgs_error *err);
/** [SEG-24.7] Kafka's FileRecords.largestTimestampAfter: the first batch with the largest timestamp from a batch start on,
 *  by its last offset; (-1, -1) when none has one. @return also SGS_ILLEGAL_ARGUMENT for a negative position */
sgs_status sgs_log_segment_largest_timestamp_after(sgs_log_segment *segment, int32_t start_position,
                                                   sgs_found_timestamp *out, sgs_error *err);
/** [TS-3] the first record that has the segment's largest timestamp. */
sgs_status sgs_log_segment_find_max_timestamp(sgs_log_segment *segment, sgs_found_timestamp *out, sgs_error *err);

/** Scan the whole file (or [start_position, end_position)) through a bounded window [DUR-61]; changes nothing.
 *  start_position must be a batch start; end_position -1 = the logical size. `table` may be NULL. */
sgs_status sgs_log_segment_scan(sgs_log_segment *segment, const sgs_scan_options *options, int64_t start_position,
                                int64_t end_position, sgs_batch_table *table, sgs_scan_result *result, sgs_error *err);

/** [DUR-60] Ask the system to forget what it has read of the .log, so that the next scan reads the disk. Advice: what is
 *  mapped, or not written back, stays. */
sgs_status sgs_log_segment_drop_cache(sgs_log_segment *segment, sgs_error *err);

#define SGS_CUT_ANYWHERE INT64_MAX
#define SGS_CUT_NOWHERE INT64_C(-1)

typedef struct sgs_recovery {
    sgs_scan_result scan;    /* where and why it ended */
    int32_t truncated_bytes; /* cut behind the last good batch */
    bool
        indexes_written; /* false: nothing may be written here, or they could not be (look-ups scan, close tries again) */
} sgs_recovery;
/** [SEG-40] One pass: check every batch, rebuild both indexes with Kafka's cadence, then - everything computed - cut the
 *  file behind the last good batch [DUR-57]. Rows of all good batches go to `table` (may be NULL).
 *  A full index stops taking entries (SEG-41 port).
 *  @param cut_at  where the batches must end for the rest to be cut, as who decided it has seen them, or one of the two
 *                 below; where they end elsewhere nothing on disk is changed [DUR-51] */
sgs_status sgs_log_segment_recover(sgs_log_segment *segment, const sgs_scan_options *options, int64_t cut_at,
                                   sgs_batch_table *table, sgs_recovery *recovery, sgs_error *err);
/** [SEG-40.1] Kafka's recovery in its own steps [DUR-62]: empty both indexes, at their full size. */
sgs_status sgs_log_segment_begin_recovery(sgs_log_segment *segment, sgs_error *err);
/** [SEG-40.2, SEG-41] Take the next good batches, in file order, into the indexes.
 *  @param last_indexed_position  of the last batch that got an entry, 0 at first; written in every case
 *  @param taken  how many of the rows were taken; written in every case
 *  @return SGS_SEGMENT_OFFSET_OVERFLOW; SGS_INVALID_OFFSET for offsets that do not increase; SGS_ILLEGAL_ARGUMENT for an
 *          index that is full; SGS_ILLEGAL_STATE */
sgs_status sgs_log_segment_recover_batches(sgs_log_segment *segment, const sgs_batch_header *rows, size_t rows_count,
                                           int64_t *last_indexed_position, size_t *taken, sgs_error *err);
/** [SEG-40.3] Cut the .log behind the last batch taken; final time entry; trim both indexes. */
sgs_status sgs_log_segment_end_recovery(sgs_log_segment *segment, int32_t valid_bytes, int32_t *truncated_bytes,
                                        sgs_error *err);
/** [DUR-36] Write bytes [position, size) again in place and fsync, since a clean page may not be on disk. */
sgs_status sgs_log_segment_rewrite(sgs_log_segment *segment, int64_t position, sgs_error *err);

/** [SEG-24, DUR-17] The batch that contains `offset`, or the next one, goes with everything behind it; indexes follow;
 *  the .log is fsynced after the shrink. */
sgs_status sgs_log_segment_truncate_to(sgs_log_segment *segment, int64_t offset, int32_t *bytes_cut, sgs_error *err);
/** [SEG-50] final time-index entry, trim indexes and .log; the segment takes no more appends. */
sgs_status sgs_log_segment_on_become_inactive(sgs_log_segment *segment, sgs_error *err);
/** Indexes to segment.index.bytes again, for the active segment after an open (LDR-8). */
sgs_status sgs_log_segment_prepare_for_appends(sgs_log_segment *segment, sgs_error *err);
/** fdatasync of the .log; with `indexes`, both index files too [SEG-53], which never
 *  fails: close makes them anew or removes them. Unflushed counters go to what came meanwhile. */
sgs_status sgs_log_segment_flush(sgs_log_segment *segment, bool indexes, sgs_barrier barrier, sgs_error *err);
/** Give descriptor and indexes of a segment back, so that a log may have more segments than a process has descriptors; the
 *  next use opens them again. Not for the active segment, and with nobody inside.
 *  @return SGS_ILLEGAL_STATE, and everything stays, when something is still to be written */
sgs_status sgs_log_segment_release(sgs_log_segment *segment, sgs_error *err);
/** Release, and unlink both indexes, which come from the records [DUR-8]: room on a full disk. Reads go on without them; they
 *  are made anew at close. Nobody may be inside, as for sgs_log_segment_release.
 *  @return as sgs_log_segment_release; also what an unlink said */
sgs_status sgs_log_segment_give_up_indexes(sgs_log_segment *segment, sgs_error *err);
/** [SEG-51] final time-index entry when the maximum is known, trim, sync, close; all steps are tried, the first error is
 *  returned. Frees the segment in every case. NULL is fine. */
sgs_status sgs_log_segment_close(sgs_log_segment *segment, sgs_error *err);
/** Close descriptors and mappings, write nothing (forked child, poisoned log, read-only). Frees the segment. */
void sgs_log_segment_close_quietly(sgs_log_segment *segment);
/** [SEG-54] rename the files to another suffix; missing index files are fine, but for Kafka those that were loaded. So is a
 *  missing .log on its way to .deleted, but for Kafka [DUR-132]. */
sgs_status sgs_log_segment_change_suffix(sgs_log_segment *segment, sgs_segment_suffix suffix, sgs_error *err);
/** [SEG-56] unlink all files; a missing file is no error. Does not free. */
sgs_status sgs_log_segment_delete_files(sgs_log_segment *segment, sgs_error *err);

/* answers from memory; those marked * load an index or read a header at the first call */
int64_t sgs_log_segment_base_offset(const sgs_log_segment *segment);
int32_t sgs_log_segment_size(const sgs_log_segment *segment); /* acquire */
int64_t sgs_log_segment_unflushed_records(const sgs_log_segment *segment);
int64_t sgs_log_segment_created_ms(const sgs_log_segment *segment);
/** Whether a look-up met an index entry that cannot be right [DUR-53]: seal and close make the indexes anew. */
bool sgs_log_segment_index_damaged(const sgs_log_segment *segment);
sgs_status sgs_log_segment_indexes_full(sgs_log_segment *segment, bool *full, sgs_error *err); /* * */
sgs_status sgs_log_segment_first_batch_timestamp(sgs_log_segment *segment, int64_t *timestamp,
                                                 sgs_error *err); /* * -1 none */
/** [SEG-3] The largest timestamp of the segment.
 *  @param is_partial  whether bytes that are no batch kept the look-up from the segment's end: records behind them may have
 *                     later times [DUR-79]. Such an answer is not remembered. */
sgs_status sgs_log_segment_max_timestamp(sgs_log_segment *segment, sgs_timestamp_offset *out, bool *is_partial,
                                         sgs_error *err);
sgs_status sgs_log_segment_modified_ms(sgs_log_segment *segment, int64_t *modified_ms, sgs_error *err);
/** Whether a writer has put another .log in the place of the one that this segment has open, or had open. A segment that
 *  never opened its .log answers no: the name decides at the first use. No other file gets the inode of an open file; one may
 *  get that of a closed file.
 *  @return SGS_NOT_FOUND when nothing has the name, SGS_READ_IO */
sgs_status sgs_log_segment_is_replaced(sgs_log_segment *segment, bool *replaced, sgs_error *err);
/** Borrow an index for inspection; loads it. */
sgs_status sgs_log_segment_offset_index(sgs_log_segment *segment, sgs_offset_index **index, sgs_error *err);
sgs_status sgs_log_segment_time_index(sgs_log_segment *segment, sgs_time_index **index, sgs_error *err);

#endif
