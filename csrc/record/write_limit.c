/* write_limit.c - Kafka MemoryRecordsBuilder.estimatedBytesWritten, isFull and hasRoomFor. */
#include "record/write_limit.h"

static const float ESTIMATION_FACTOR = 1.05F; /* Kafka COMPRESSION_RATE_ESTIMATION_FACTOR */

static int64_t estimate(int64_t head_bytes, size_t records_bytes, int codec, float ratio)
{
    if (codec == SGS_CODEC_NONE)
        return head_bytes + (int64_t)records_bytes;
    const float guess = (float)records_bytes * ratio * ESTIMATION_FACTOR;
    /* a conversion of what is no number, or too large, has no result in C */
    return guess >= 0 && guess < (float)INT32_MAX ? head_bytes + (int64_t)guess : INT32_MAX;
}

int64_t sgs_batch_builder_estimated_size(const sgs_batch_builder *builder, float estimated_ratio)
{
    return estimate(SGS_BATCH_HEADER_BYTES, builder->section.size, builder->options.codec, estimated_ratio);
}

int64_t sgs_legacy_builder_estimated_size(const sgs_legacy_builder *builder, float estimated_ratio)
{
    const int64_t wrapper_bytes = builder->options.magic == 0 ? SGS_LEGACY_V0_OVERHEAD : SGS_LEGACY_V1_OVERHEAD;
    return estimate(builder->options.codec == SGS_CODEC_NONE ? 0 : wrapper_bytes, builder->messages.size,
                    builder->options.codec, estimated_ratio);
}

static bool is_full(int32_t records_count, int64_t estimated_size, sgs_write_limit limit)
{
    return records_count < 0 || (records_count > 0 && limit.bytes <= estimated_size);
}

bool sgs_batch_builder_is_full(const sgs_batch_builder *builder, sgs_write_limit limit)
{
    return is_full(builder->records_count, sgs_batch_builder_estimated_size(builder, limit.estimated_ratio), limit);
}

bool sgs_legacy_builder_is_full(const sgs_legacy_builder *builder, sgs_write_limit limit)
{
    return is_full(builder->records_count, sgs_legacy_builder_estimated_size(builder, limit.estimated_ratio), limit);
}

bool sgs_batch_builder_has_room_for(const sgs_batch_builder *builder, sgs_write_limit limit, int64_t timestamp,
                                    sgs_bytes key, sgs_bytes value, const sgs_record_header *headers,
                                    int32_t headers_count)
{
    if (sgs_batch_builder_is_full(builder, limit))
        return false;
    if (builder->records_count == 0)
        return true;
    /* what wraps is refused by append; its size does not matter */
    const int64_t timestamp_delta = (int64_t)((uint64_t)timestamp - (uint64_t)builder->base_timestamp);
    const int32_t offset_delta = (int32_t)(uint32_t)(uint64_t)(builder->last_offset - builder->options.base_offset + 1);
    const int64_t size = sgs_record_size(timestamp_delta, offset_delta, key, value, headers, headers_count);
    return limit.bytes >= sgs_batch_builder_estimated_size(builder, limit.estimated_ratio) + size;
}

bool sgs_legacy_builder_has_room_for(const sgs_legacy_builder *builder, sgs_write_limit limit, sgs_bytes key,
                                     sgs_bytes value)
{
    if (sgs_legacy_builder_is_full(builder, limit))
        return false;
    if (builder->records_count == 0)
        return true;
    const int64_t size = sgs_legacy_message_size(builder->options.magic, key, value);
    return limit.bytes >= sgs_legacy_builder_estimated_size(builder, limit.estimated_ratio) + size;
}
