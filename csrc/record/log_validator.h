/* log_validator.h - checks the batches of a leader append and stamps offsets, epoch and timestamps into them in place
 * [format.md 12.3-12.5, 12.7; APP-30..APP-34], Kafka LogValidator. One pass, no allocation per record.
 *
 * The input was scanned before: `rows` are its batch headers, and are updated with what is stamped. Rebuilding (another
 * magic or codec) is not done here. */
#ifndef SGS_RECORD_LOG_VALIDATOR_H
#define SGS_RECORD_LOG_VALIDATOR_H

#include "record/codec.h"
#include "record/record.h"

typedef struct sgs_validation {
    int64_t next_offset; /* in: offset of the first record; out: the offset behind the last */
    int64_t now_ms;
    int32_t partition_leader_epoch;
    bool log_append_time; /* message.timestamp.type */
    bool keys_required;   /* compacted topic */
    bool
        records_are_trusted; /* built by our own builder in this call: headers are right, records need no second walk */
    int64_t timestamp_before_max_ms, timestamp_after_max_ms;
    int64_t max_timestamp;            /* out: -1 when no record has one */
    int64_t records_count;            /* out */
    int64_t invalid_timestamps_count; /* out on failure: > 0 makes it Kafka's InvalidTimestampException */
} sgs_validation;

/** @param rows  positions count from `data`; base_offset, last_offset, max_timestamp, attributes, crc and
 *               partition_leader_epoch are brought up to date
 *  @return SGS_OK; SGS_INVALID_RECORD naming batch and record, SGS_UNSUPPORTED_FORMAT (magic 0/1), codec statuses.
 *          On failure some batches may be stamped: the caller throws the buffer away. */
sgs_status sgs_validate_and_assign_offsets(uint8_t *data, size_t size, sgs_batch_header *rows, size_t rows_count,
                                           const sgs_codec_table *codecs, sgs_buffer *scratch,
                                           sgs_validation *validation, sgs_error *err);

#endif
