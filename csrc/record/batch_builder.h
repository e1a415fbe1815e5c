/* batch_builder.h - writes batches of magic 2 [format.md 10], Kafka MemoryRecordsBuilder.
 *
 * Records are appended in offset order; finish() compresses the section, writes the header and the CRC. One builder
 * makes many batches one after the other and keeps its memory. Uncompressed batches equal Kafka's byte for byte. */
#ifndef SGS_RECORD_BATCH_BUILDER_H
#define SGS_RECORD_BATCH_BUILDER_H

#include "record/codec.h"
#include "record/record.h"

typedef struct sgs_batch_options { /* sgs_batch_options_default() first, then change what differs */
    int64_t base_offset;           /* producers send 0 */
    int32_t partition_leader_epoch;
    int codec, level; /* level: the codec's own numbering; INT_MIN = its default */
    bool log_append_time;
    int64_t log_append_timestamp; /* used when log_append_time */
    bool transactional, control;
    int64_t producer_id;
    int16_t producer_epoch;
    int32_t base_sequence;
    int64_t delete_horizon_ms; /* SGS_NO_TIMESTAMP = none */
} sgs_batch_options;

void sgs_batch_options_default(sgs_batch_options *options);

typedef struct sgs_batch_builder {
    sgs_batch_options options;
    const sgs_codec_table *codecs; /* borrowed; may be NULL when the codec is NONE */
    sgs_buffer section;            /* uncompressed records so far */
    sgs_buffer headers;            /* of one record: as they came, or each as an sgs_record_header */
    int64_t base_timestamp, max_timestamp, last_offset;
    int32_t records_count; /* -1 = no batch was begun */
} sgs_batch_builder;

void sgs_batch_builder_init(sgs_batch_builder *builder, sgs_memory memory, const sgs_codec_table *codecs);
void sgs_batch_builder_deinit(sgs_batch_builder *builder);
/** Begin a batch. @return SGS_ILLEGAL_ARGUMENT for combinations that Kafka refuses [format.md 10] */
sgs_status sgs_batch_builder_start(sgs_batch_builder *builder, const sgs_batch_options *options, sgs_error *err);
/** @return SGS_ILLEGAL_ARGUMENT: offset not above the last or more than INT32_MAX from base, timestamp < -1, too many
 *          records or bytes, a null header key; SGS_INVALID_RECORD: a control record without a control key;
 *          SGS_ILLEGAL_STATE before start and behind finish; SGS_RESOURCE */
sgs_status sgs_batch_builder_append(sgs_batch_builder *builder, int64_t offset, int64_t timestamp, sgs_bytes key,
                                    sgs_bytes value, const sgs_record_header *headers, int32_t headers_count,
                                    sgs_error *err);
/** The same for a record that a reader gave: its key, value and timestamp, and its headers as Kafka writes them again
 *  (record_headers.h), at another offset. */
sgs_status sgs_batch_builder_append_again(sgs_batch_builder *builder, int64_t offset, const sgs_record *record,
                                          sgs_error *err);
/** The same for a writer of many records at once (columns_encode.c), which puts them behind SGS_BATCH_HEADER_BYTES of
 *  `out` at `start`, uncompressed, and keeps the builder's counters: write the header and the CRC. */
sgs_status sgs_batch_builder_seal(sgs_batch_builder *builder, sgs_buffer *out, size_t start, sgs_batch_header *header,
                                  sgs_error *err);
/** Size of the batch if it were finished now without compression. */
int64_t sgs_batch_builder_uncompressed_size(const sgs_batch_builder *builder);
/** Append the finished batch to `out` and its row to `header` (position = where it starts in `out`). No records:
 *  nothing is written and header->size_bytes is 0. `header` may be NULL. After a failure `out` is as before.
 *  @return SGS_LIMIT_EXCEEDED for what is larger than the readers take when it was compressed [DUR-92] */
sgs_status sgs_batch_builder_finish(sgs_batch_builder *builder, sgs_buffer *out, sgs_batch_header *header,
                                    sgs_error *err);

/** Forget the batch at hand: nothing of it will be written, and nothing more goes in until the next start. */
void sgs_batch_builder_abort(sgs_batch_builder *builder);
/** The largest timestamp and the offset at which readers find it, for the time index, also of a batch that was
 *  finished [format.md 10]; (-1, -1) when no record has a timestamp. Kafka MemoryRecordsBuilder.info */
void sgs_batch_builder_info(const sgs_batch_builder *builder, int64_t *max_timestamp, int64_t *offset);

/** Append a COMMIT or ABORT marker batch (78 bytes) [format.md 6.2], Kafka MemoryRecords.withEndTransactionMarker. */
sgs_status sgs_batch_build_end_transaction_marker(int64_t offset, int64_t timestamp, int32_t partition_leader_epoch,
                                                  int64_t producer_id, int16_t producer_epoch, bool commit,
                                                  int32_t coordinator_epoch, sgs_buffer *out, sgs_error *err);
/** Append the 61 bytes of an empty batch as compaction leaves it [format.md 4.5]; fields from `header`. */
sgs_status sgs_batch_build_empty(const sgs_batch_header *header, sgs_buffer *out, sgs_error *err);

#endif
