/* legacy_builder.c - Kafka MemoryRecordsBuilder for magic 0 and 1. */
#include "record/legacy_builder.h"

#include <inttypes.h>

#include "record/lz4_header.h"

enum { NOT_STARTED = -1 };

void sgs_legacy_builder_init(sgs_legacy_builder *builder, sgs_memory memory, const sgs_codec_table *codecs)
{
    *builder = (sgs_legacy_builder){ .codecs = codecs, .records_count = NOT_STARTED };
    sgs_buffer_init(&builder->messages, memory);
}

void sgs_legacy_builder_deinit(sgs_legacy_builder *builder)
{
    sgs_buffer_deinit(&builder->messages);
    builder->records_count = NOT_STARTED;
}

sgs_status sgs_legacy_builder_start(sgs_legacy_builder *builder, const sgs_legacy_options *options, sgs_error *err)
{
    const int codec = options->codec;
    if (options->magic != 0 && options->magic != 1)
        return sgs_fail(err, SGS_ILLEGAL_ARGUMENT, "magic %d, expected 0 or 1", options->magic);
    if (codec < 0 || codec >= SGS_CODEC_COUNT || codec == SGS_CODEC_ZSTD)
        return sgs_fail(err, SGS_ILLEGAL_ARGUMENT, "codec %s (%d) is not supported for magic %d", sgs_codec_name(codec),
                        codec, options->magic);
    if (codec != SGS_CODEC_NONE && (builder->codecs == NULL || builder->codecs->providers[codec].name == NULL))
        return sgs_fail(err, SGS_CODEC_MISSING, "there is no provider for codec %s", sgs_codec_name(codec));
    if (options->base_offset < 0 || options->base_offset > SGS_MAX_OFFSET)
        return sgs_fail(err, SGS_ILLEGAL_ARGUMENT, "base offset %" PRId64 ", expected 0 to 2^63-2",
                        options->base_offset);
    if (options->log_append_time && (options->magic == 0 || options->log_append_timestamp < SGS_NO_TIMESTAMP))
        return sgs_fail(err, SGS_ILLEGAL_ARGUMENT, "append time %" PRId64 " at magic %d", options->log_append_timestamp,
                        options->magic);
    builder->options = *options;
    sgs_buffer_clear(&builder->messages);
    builder->last_offset = options->base_offset - 1;
    builder->max_timestamp = SGS_NO_TIMESTAMP;
    builder->offset_of_max_timestamp = -1;
    builder->records_count = 0;
    return SGS_OK;
}

static unsigned type_attribute(const sgs_legacy_options *options)
{
    return options->log_append_time ? SGS_ATTRIBUTE_LOG_APPEND_TIME : 0;
}

sgs_status sgs_legacy_builder_append(sgs_legacy_builder *builder, int64_t offset, int64_t timestamp, sgs_bytes key,
                                     sgs_bytes value, sgs_error *err)
{
    const sgs_legacy_options *const options = &builder->options;
    if (builder->records_count == NOT_STARTED)
        return sgs_fail(err, SGS_ILLEGAL_STATE, "tried to append a message, but the builder is closed");
    /* the first may be below the base, as in Kafka */
    const bool ascends = builder->records_count == 0 || offset > builder->last_offset;
    if (offset < 0 || !ascends || offset > SGS_MAX_OFFSET || offset - options->base_offset > INT32_MAX)
        return sgs_fail(err, SGS_ILLEGAL_ARGUMENT, "offset %" PRId64 " after %" PRId64 " and base %" PRId64, offset,
                        builder->last_offset, options->base_offset);
    if (timestamp < SGS_NO_TIMESTAMP)
        return sgs_fail(err, SGS_ILLEGAL_ARGUMENT, "timestamp %" PRId64 " of offset %" PRId64, timestamp, offset);
    const int64_t size = sgs_legacy_message_size(options->magic, key, value);
    if (size > INT32_MAX - (int64_t)builder->messages.size)
        return sgs_fail(err, SGS_ILLEGAL_ARGUMENT, "messages of more than 2^31-1 bytes at offset %" PRId64, offset);
    const sgs_status status = sgs_buffer_reserve(&builder->messages, (size_t)size, err);
    if (status != SGS_OK)
        return status;

    if (options->log_append_time)
        timestamp = options->log_append_timestamp;
    const bool is_relative = options->magic == 1 && options->codec != SGS_CODEC_NONE;
    const int64_t stored_offset = is_relative ? offset - options->base_offset : offset;
    sgs_legacy_message_write(builder->messages.data + builder->messages.size, options->magic, stored_offset, timestamp,
                             type_attribute(options), key, value);
    builder->messages.size += (size_t)size;
    if (timestamp > builder->max_timestamp) {
        builder->max_timestamp = timestamp;
        builder->offset_of_max_timestamp = offset;
    }
    builder->last_offset = offset;
    ++builder->records_count; /* a message has 26 bytes at least: this fits */
    return SGS_OK;
}

/* The wrapper's head is known only when its value is: room is left for it. */
static sgs_status wrap(const sgs_legacy_builder *builder, sgs_buffer *out, sgs_error *err)
{
    const sgs_legacy_options *const options = &builder->options;
    const size_t start = out->size;
    const size_t overhead = options->magic == 0 ? SGS_LEGACY_V0_OVERHEAD : SGS_LEGACY_V1_OVERHEAD;
    sgs_status status = sgs_buffer_reserve(out, overhead, err);
    if (status != SGS_OK)
        return status;
    out->size += overhead;
    status = sgs_codec_compress(builder->codecs, options->codec, options->level, builder->messages.data,
                                builder->messages.size, out, err);
    if (status != SGS_OK)
        return status;
    const size_t value_size = out->size - start - overhead;
    if (value_size > INT32_MAX - overhead)
        return sgs_fail(err, SGS_ILLEGAL_ARGUMENT, "a wrapper of more than 2^31-1 bytes at offset %" PRId64,
                        builder->last_offset);
    uint8_t *const value = out->data + start + overhead;
    if (options->magic == 0 && options->codec == SGS_CODEC_LZ4)
        sgs_lz4_header_stamp(value, value_size, true);
    const int64_t timestamp = options->log_append_time ? options->log_append_timestamp : builder->max_timestamp;
    sgs_legacy_message_write(out->data + start, options->magic, builder->last_offset, timestamp,
                             (unsigned)options->codec | type_attribute(options), (sgs_bytes){ NULL, -1 },
                             (sgs_bytes){ value, (int32_t)value_size });
    return SGS_OK;
}

sgs_status sgs_legacy_builder_finish(sgs_legacy_builder *builder, sgs_buffer *out, sgs_error *err)
{
    if (builder->records_count == NOT_STARTED)
        return sgs_fail(err, SGS_ILLEGAL_STATE, "tried to finish messages, but the builder is closed");
    const size_t before = out->size;
    sgs_status status = SGS_OK;
    if (builder->records_count > 0 && builder->options.codec == SGS_CODEC_NONE)
        status = sgs_buffer_append(out, builder->messages.data, builder->messages.size, err);
    else if (builder->records_count > 0)
        status = wrap(builder, out, err);
    if (status != SGS_OK)
        out->size = before;
    else
        builder->records_count = NOT_STARTED;
    return status;
}

void sgs_legacy_builder_abort(sgs_legacy_builder *builder)
{
    sgs_buffer_clear(&builder->messages);
    builder->records_count = NOT_STARTED;
}

void sgs_legacy_builder_info(const sgs_legacy_builder *builder, int64_t *max_timestamp, int64_t *offset)
{
    const sgs_legacy_options *const options = &builder->options;
    const bool is_wrapped = options->codec != SGS_CODEC_NONE;
    *max_timestamp = options->magic == 0 ? SGS_NO_TIMESTAMP : builder->max_timestamp;
    *offset = builder->offset_of_max_timestamp;
    if (options->magic == 0 || builder->max_timestamp == SGS_NO_TIMESTAMP)
        *offset = -1;
    else if (is_wrapped)
        *offset = builder->last_offset;
    else if (options->log_append_time)
        *offset = options->base_offset;
}
