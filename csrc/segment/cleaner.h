/* cleaner.h - what the log cleaner does with the bytes of segments [CLN-55..CLN-105], Kafka Cleaner.
 *
 * A pass has two parts. The map: sources are the dirty segments, ascending, and the last offset of each key is put into the
 * offset map. The copy: sources are the segments up to where the map reaches, and what is to be kept of them goes to the
 * end of a segment that is made (.cleaned). Each call does one piece, of about read_bytes, so that whoever calls may stop
 * in between; batches are never cut. Which segments, their groups, and how the new ones take the place of the old ones is
 * the caller's business.
 * DAMAGE  every batch of a piece is checked before any of it is looked at, kept or left out: what cannot be checked ends the
 *         pass, and nothing is rewritten that is not what was written [DUR-125].
 * THREADS one at a time; sources may be read meanwhile, and are sealed. */
#ifndef SGS_SEGMENT_CLEANER_H
#define SGS_SEGMENT_CLEANER_H

#include "record/cleaned_transaction_metadata.h"
#include "record/offset_map.h"
#include "record/record_filter.h"
#include "segment/log_segment.h"

/* Up to where a producer wrote: that batch stays, if empty, so that its state can be rebuilt [CLN-83]. */
typedef struct sgs_last_record {
    int64_t producer_id;
    int64_t last_data_offset; /* -1 = none: only a marker is known */
    int16_t producer_epoch;
} sgs_last_record;

typedef struct sgs_cleaner_options {
    int64_t first_dirty_offset; /* records below are not put into the map */
    int32_t max_entries;        /* of the map: then it is full [CLN-57] */
    int64_t now_ms, delete_retention_ms;
    int64_t destination_bytes; /* of one destination, at most */
    size_t read_bytes;         /* of a piece, about */
    bool check;                /* CRCs and the order of offsets; false: as Kafka, which looks at neither [CLN-99] */
    const sgs_last_record *last_records; /* by producer, ascending; borrowed */
    size_t last_records_count;
    int64_t kept_last_offset;   /* the batch that ends there stays, if empty [CLN-82]; -1 = none */
    bool retain_legacy_deletes; /* of the source: tombstones of magic 0 and 1 stay [CLN-74] */
} sgs_cleaner_options;

typedef struct sgs_cleaner_stats { /* Kafka CleanerStats */
    int64_t map_bytes_read, map_messages_read;
    int64_t bytes_read, messages_read, invalid_messages_read;
    int64_t bytes_written, messages_written;
} sgs_cleaner_stats;

typedef struct sgs_cleaner {
    sgs_cleaner_options options;
    sgs_cleaner_stats stats;
    sgs_cleaned_transaction_metadata transactions;
    sgs_offset_map *map; /* borrowed */
    sgs_record_filter filter;
    sgs_buffer window, scratch;
    sgs_batch_table table; /* of the window */
    int64_t window_position;
    int64_t position, end; /* of the source */
    int64_t expected_offset, next_base_offset;
    size_t pending_row;   /* of filter.output_rows: what did not fit the last destination begins there */
    bool discard_records; /* of the batch that is filtered */
} sgs_cleaner;

void sgs_cleaner_init(sgs_cleaner *cleaner, sgs_memory memory, const sgs_codec_table *codecs, sgs_offset_map *map);
void sgs_cleaner_deinit(sgs_cleaner *cleaner);
/** Forget everything but the memory: the map, the transactions, the numbers of the last pass. Set `options` afterwards. */
void sgs_cleaner_begin_pass(sgs_cleaner *cleaner);
/** Go on with another segment.
 *  @param position          where a batch begins
 *  @param next_base_offset  where the next segment begins: no batch of the source may reach that far */
void sgs_cleaner_begin_source(sgs_cleaner *cleaner, const sgs_log_segment *source, int64_t position,
                              int64_t next_base_offset);
/** Whether all of the source was dealt with. */
bool sgs_cleaner_is_done(const sgs_cleaner *cleaner);
/** Put the keys of the next piece of the source into the map [CLN-57..CLN-61].
 *  @param full  the map was full before all of them were in it: it ends with the last that was put
 *  @return SGS_CORRUPT_RECORD, SGS_CORRUPT_LOG, SGS_INVALID_OFFSET ... for damage, with file and position */
sgs_status sgs_cleaner_map_piece(sgs_cleaner *cleaner, sgs_log_segment *source, bool *full, sgs_error *err);
/** Append what is to be kept of the next piece to `destination` [CLN-80..CLN-97].
 *  @param begins_at  -1, or the base offset of the first batch that `destination` cannot take: call again with another
 *                    one, and the same source
 *  @return as sgs_cleaner_map_piece; also as sgs_log_segment_append */
sgs_status sgs_cleaner_copy_piece(sgs_cleaner *cleaner, sgs_log_segment *source, sgs_log_segment *destination,
                                  int64_t *begins_at, sgs_error *err);

#endif
