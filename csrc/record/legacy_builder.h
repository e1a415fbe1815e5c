/* legacy_builder.h - writes message sets of magic 0 and 1 [format.md 7, 10], Kafka MemoryRecordsBuilder.
 *
 * Brokers of today write none; they are built for tests, tools, and logs that old brokers read. Without a codec each
 * record is an entry of its own; with one, finish() wraps them all into one entry. */
#ifndef SGS_RECORD_LEGACY_BUILDER_H
#define SGS_RECORD_LEGACY_BUILDER_H

#include "record/codec.h"
#include "record/legacy_message.h"

typedef struct sgs_legacy_options {
    int64_t base_offset;
    int64_t log_append_timestamp; /* used when log_append_time */
    int codec, level;             /* level: the codec's own numbering; INT_MIN = its default */
    bool log_append_time;         /* magic 1 */
    int8_t magic;                 /* 0 or 1 */
} sgs_legacy_options;

typedef struct sgs_legacy_builder {
    sgs_legacy_options options;
    const sgs_codec_table *codecs; /* borrowed; may be NULL when the codec is NONE */
    sgs_buffer messages;           /* so far, not compressed */
    int64_t last_offset, max_timestamp, offset_of_max_timestamp;
    int32_t records_count; /* -1 = nothing was begun */
} sgs_legacy_builder;

void sgs_legacy_builder_init(sgs_legacy_builder *builder, sgs_memory memory, const sgs_codec_table *codecs);
void sgs_legacy_builder_deinit(sgs_legacy_builder *builder);
/** @return SGS_ILLEGAL_ARGUMENT: another magic, codec zstd, a codec id that is none, LogAppendTime at magic 0, a
 *          timestamp below -1; SGS_CODEC_MISSING */
sgs_status sgs_legacy_builder_start(sgs_legacy_builder *builder, const sgs_legacy_options *options, sgs_error *err);
/** @return SGS_ILLEGAL_ARGUMENT: an offset that is not above the last or more than INT32_MAX above the base, a timestamp
 *          below -1, too many records or bytes; SGS_ILLEGAL_STATE before start and behind finish; SGS_RESOURCE */
sgs_status sgs_legacy_builder_append(sgs_legacy_builder *builder, int64_t offset, int64_t timestamp, sgs_bytes key,
                                     sgs_bytes value, sgs_error *err);
/** Append the messages, or the wrapper around them, to `out`; no records write nothing. After a failure `out` is as
 *  before. */
sgs_status sgs_legacy_builder_finish(sgs_legacy_builder *builder, sgs_buffer *out, sgs_error *err);
/** Forget the messages: nothing of them will be written, and nothing more goes in until the next start. */
void sgs_legacy_builder_abort(sgs_legacy_builder *builder);
/** The largest timestamp and its offset, that of the wrapper where there is one; (-1, -1) without timestamps [format.md
 *  10]. Kafka MemoryRecordsBuilder.info */
void sgs_legacy_builder_info(const sgs_legacy_builder *builder, int64_t *max_timestamp, int64_t *offset);

#endif
