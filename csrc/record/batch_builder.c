/* batch_builder.c - Kafka MemoryRecordsBuilder for magic 2. */
#include "record/batch_builder.h"

#include <inttypes.h>
#include <limits.h>
#include <string.h>

#include "record/control_record.h"
#include "record/record_headers.h"

enum {
    NOT_STARTED = -1,
    RECORD_MAX_OVERHEAD = 21, /* size, deltas and attributes at their longest [format.md 17] */
    LENGTH_MAX_OVERHEAD = 5,  /* a key, value or header size at its longest */
    SECTION_MAX_BYTES = INT32_MAX - SGS_BATCH_HEADER_BYTES,
    END_TRANSACTION_BATCH_BYTES = 78,
};

void sgs_batch_options_default(sgs_batch_options *options)
{
    *options = (sgs_batch_options){
        .partition_leader_epoch = SGS_NO_PARTITION_LEADER_EPOCH,
        .codec = SGS_CODEC_NONE,
        .level = INT_MIN,
        .log_append_timestamp = SGS_NO_TIMESTAMP,
        .producer_id = SGS_NO_PRODUCER_ID,
        .producer_epoch = SGS_NO_PRODUCER_EPOCH,
        .base_sequence = SGS_NO_SEQUENCE,
        .delete_horizon_ms = SGS_NO_TIMESTAMP,
    };
}

void sgs_batch_builder_init(sgs_batch_builder *builder, sgs_memory memory, const sgs_codec_table *codecs)
{
    *builder = (sgs_batch_builder){ .codecs = codecs, .records_count = NOT_STARTED };
    sgs_batch_options_default(&builder->options);
    sgs_buffer_init(&builder->section, memory);
    sgs_buffer_init(&builder->headers, memory);
}

void sgs_batch_builder_deinit(sgs_batch_builder *builder)
{
    sgs_buffer_deinit(&builder->section);
    sgs_buffer_deinit(&builder->headers);
    builder->records_count = NOT_STARTED;
}

/* What Kafka checks in the constructor and at close [format.md 10], here before any work is done. */
static sgs_status check_options(const sgs_batch_options *options, const sgs_codec_table *codecs, sgs_error *err)
{
    if (options->base_offset < 0 || options->base_offset > SGS_MAX_OFFSET) /* the offset behind the last must exist */
        return sgs_fail(err, SGS_ILLEGAL_ARGUMENT, "base offset %" PRId64 ", expected 0 to 2^63-2",
                        options->base_offset);
    if (options->codec < 0 || options->codec >= SGS_CODEC_COUNT)
        return sgs_fail(err, SGS_ILLEGAL_ARGUMENT, "codec id %d, expected 0 to 4", options->codec);
    if (options->codec != SGS_CODEC_NONE && (codecs == NULL || codecs->providers[options->codec].name == NULL))
        return sgs_fail(err, SGS_CODEC_MISSING, "there is no provider for codec %s", sgs_codec_name(options->codec));
    if (options->codec != SGS_CODEC_NONE && options->control)
        return sgs_fail(err, SGS_ILLEGAL_ARGUMENT, "control batches are not compressed"); /* [DUR-95] */
    if (options->transactional && options->producer_id == SGS_NO_PRODUCER_ID)
        return sgs_fail(err, SGS_ILLEGAL_ARGUMENT, "a transactional batch needs a producer id");
    if (options->producer_id < SGS_NO_PRODUCER_ID)
        return sgs_fail(err, SGS_ILLEGAL_ARGUMENT, "producer id %" PRId64, options->producer_id);
    if (options->producer_id != SGS_NO_PRODUCER_ID && options->producer_epoch < 0)
        return sgs_fail(err, SGS_ILLEGAL_ARGUMENT, "producer epoch %d of producer id %" PRId64, options->producer_epoch,
                        options->producer_id);
    if (options->producer_id != SGS_NO_PRODUCER_ID && options->base_sequence < 0 && !options->control)
        return sgs_fail(err, SGS_ILLEGAL_ARGUMENT, "base sequence %" PRId32 " of producer id %" PRId64,
                        options->base_sequence, options->producer_id);
    if (options->log_append_timestamp < SGS_NO_TIMESTAMP || options->delete_horizon_ms < SGS_NO_TIMESTAMP)
        return sgs_fail(err, SGS_ILLEGAL_ARGUMENT, "a timestamp below -1");
    return SGS_OK;
}

sgs_status sgs_batch_builder_start(sgs_batch_builder *builder, const sgs_batch_options *options, sgs_error *err)
{
    const sgs_status status = check_options(options, builder->codecs, err);
    if (status != SGS_OK)
        return status;
    builder->options = *options;
    sgs_buffer_clear(&builder->section);
    builder->base_timestamp = options->delete_horizon_ms; /* -1: the first record's [format.md 4.4] */
    builder->max_timestamp = options->log_append_time ? options->log_append_timestamp : SGS_NO_TIMESTAMP;
    builder->last_offset = options->base_offset - 1;
    builder->records_count = 0;
    return SGS_OK;
}

static sgs_status check_append(const sgs_batch_builder *builder, int64_t offset, int64_t timestamp, sgs_error *err)
{
    const int64_t base_offset = builder->options.base_offset;
    if (builder->records_count == NOT_STARTED)
        return sgs_fail(err, SGS_ILLEGAL_STATE, "tried to append a record, but the batch builder is closed");
    /* the first may be below the base, as in Kafka: readers take any order [format.md 5] */
    if (offset < 0 || (builder->records_count > 0 && offset <= builder->last_offset))
        return sgs_fail(err, SGS_ILLEGAL_ARGUMENT, "offset %" PRId64 " is not above %" PRId64, offset,
                        builder->last_offset);
    if (offset - base_offset > INT32_MAX || offset - base_offset < INT32_MIN || offset > SGS_MAX_OFFSET)
        return sgs_fail(err, SGS_ILLEGAL_ARGUMENT, "offset %" PRId64 " is 2^63-1 or more than 2^31-1 from %" PRId64,
                        offset, base_offset);
    if (timestamp < SGS_NO_TIMESTAMP)
        return sgs_fail(err, SGS_ILLEGAL_ARGUMENT, "timestamp %" PRId64 " of offset %" PRId64, timestamp, offset);
    if (builder->records_count == INT32_MAX)
        return sgs_fail(err, SGS_ILLEGAL_ARGUMENT, "a batch cannot hold more than 2^31-1 records");
    return SGS_OK;
}

/* Kafka parses the key of each control record that it appends. */
static sgs_status check_control_key(int64_t offset, sgs_bytes key, sgs_error *err)
{
    const sgs_record record = { .offset = offset, .key = key };
    sgs_control_type type;
    const sgs_status status = sgs_control_record_type(&record, &type, NULL, err);
    if (status == SGS_OK)
        return SGS_OK;
    return sgs_fail(err, SGS_INVALID_RECORD, "the record of offset %" PRId64 " in a control batch has no control key",
                    offset);
}

/* An upper bound of the bytes of the headers, or -1 when a key is null. */
static int64_t bound_headers(const sgs_record_header *headers, int32_t headers_count)
{
    int64_t bound = 0;
    for (int32_t i = 0; i < headers_count; ++i) {
        if (headers[i].key.size < 0)
            return -1;
        bound += 2 * LENGTH_MAX_OVERHEAD + (int64_t)headers[i].key.size;
        bound += headers[i].value.size > 0 ? headers[i].value.size : 0;
    }
    return bound;
}

/* Check a record and make room for it.
 * @param headers_bound  bytes of its headers at most */
static sgs_status prepare(sgs_batch_builder *builder, int64_t offset, int64_t timestamp, sgs_bytes key, sgs_bytes value,
                          int64_t headers_bound, int64_t *base_timestamp, int64_t *timestamp_delta, sgs_error *err)
{
    if (builder->options.control)
        SGS_TRY(check_control_key(offset, key, err));
    const bool is_first = builder->records_count == 0;
    *base_timestamp =
        is_first && builder->options.delete_horizon_ms == SGS_NO_TIMESTAMP ? timestamp : builder->base_timestamp;
    if (__builtin_sub_overflow(timestamp, *base_timestamp, timestamp_delta))
        return sgs_fail(err, SGS_ILLEGAL_ARGUMENT,
                        "timestamp %" PRId64 " of offset %" PRId64 " is too far from %" PRId64, timestamp, offset,
                        *base_timestamp);
    const int64_t bound = RECORD_MAX_OVERHEAD + 3 * LENGTH_MAX_OVERHEAD + headers_bound +
                          (key.size > 0 ? (int64_t)key.size : 0) + (value.size > 0 ? (int64_t)value.size : 0);
    if (bound > SECTION_MAX_BYTES - (int64_t)builder->section.size)
        return sgs_fail(err, SGS_ILLEGAL_ARGUMENT, "a batch of more than 2^31-1 bytes at offset %" PRId64, offset);
    return sgs_buffer_reserve(&builder->section, (size_t)bound, err);
}

/* Count the record that was written up to `end`. */
static void count_record(sgs_batch_builder *builder, const uint8_t *end, int64_t offset, int64_t timestamp,
                         int64_t base_timestamp)
{
    builder->section.size = (size_t)(end - builder->section.data);
    builder->base_timestamp = base_timestamp;
    if (!builder->options.log_append_time && timestamp > builder->max_timestamp)
        builder->max_timestamp = timestamp;
    builder->last_offset = offset;
    ++builder->records_count;
}

sgs_status sgs_batch_builder_append(sgs_batch_builder *builder, int64_t offset, int64_t timestamp, sgs_bytes key,
                                    sgs_bytes value, const sgs_record_header *headers, int32_t headers_count,
                                    sgs_error *err)
{
    SGS_TRY(check_append(builder, offset, timestamp, err));
    const int64_t headers_bound = bound_headers(headers, headers_count);
    if (headers_bound < 0 || headers_count < 0)
        return sgs_fail(err, SGS_ILLEGAL_ARGUMENT, "a null header key in the record of offset %" PRId64, offset);
    int64_t base_timestamp, timestamp_delta;
    SGS_TRY(prepare(builder, offset, timestamp, key, value, headers_bound, &base_timestamp, &timestamp_delta, err));
    const uint8_t *const end =
        sgs_record_write(builder->section.data + builder->section.size, timestamp_delta,
                         (int32_t)(offset - builder->options.base_offset), key, value, headers, headers_count);
    count_record(builder, end, offset, timestamp, base_timestamp);
    return SGS_OK;
}

sgs_status sgs_batch_builder_append_again(sgs_batch_builder *builder, int64_t offset, const sgs_record *record,
                                          sgs_error *err)
{
    sgs_headers_rewrite headers = { .is_copy = true };
    if (record->headers_count > 0) { /* a copy: they are counted before they are written */
        sgs_buffer_clear(&builder->headers);
        SGS_TRY(sgs_buffer_append(&builder->headers, record->headers.data, (size_t)record->headers.size, err));
        const sgs_bytes kept = { builder->headers.data, record->headers.size };
        if (!sgs_record_headers_prepare(kept, record->headers_count, &headers))
            return sgs_record_fail_changed(err);
    }
    int64_t base_timestamp, timestamp_delta;
    SGS_TRY(check_append(builder, offset, record->timestamp, err));
    SGS_TRY(prepare(builder, offset, record->timestamp, record->key, record->value, headers.size_bytes, &base_timestamp,
                    &timestamp_delta, err));
    uint8_t *const end = sgs_record_write_fields(builder->section.data + builder->section.size, timestamp_delta,
                                                 (int32_t)(offset - builder->options.base_offset), record->key,
                                                 record->value, headers.count, headers.size_bytes);
    count_record(builder, sgs_record_headers_write(end, &headers), offset, record->timestamp, base_timestamp);
    return SGS_OK;
}

int64_t sgs_batch_builder_uncompressed_size(const sgs_batch_builder *builder)
{
    return builder->records_count > 0 ? SGS_BATCH_HEADER_BYTES + (int64_t)builder->section.size : 0;
}

static int16_t make_attributes(const sgs_batch_options *options)
{
    unsigned attributes = (unsigned)options->codec;
    attributes |= options->log_append_time ? SGS_ATTRIBUTE_LOG_APPEND_TIME : 0U;
    attributes |= options->transactional ? SGS_ATTRIBUTE_TRANSACTIONAL : 0U;
    attributes |= options->control ? SGS_ATTRIBUTE_CONTROL : 0U;
    attributes |= options->delete_horizon_ms != SGS_NO_TIMESTAMP ? SGS_ATTRIBUTE_DELETE_HORIZON : 0U;
    return (int16_t)attributes;
}

sgs_status sgs_batch_builder_seal(sgs_batch_builder *builder, sgs_buffer *out, size_t start, sgs_batch_header *header,
                                  sgs_error *err)
{
    const sgs_batch_options *const options = &builder->options;
    const size_t size = out->size - start;
    if (size > INT32_MAX)
        return sgs_fail(err, SGS_ILLEGAL_ARGUMENT, "a batch of %zu bytes at offset %" PRId64, size,
                        options->base_offset);
    sgs_batch_header row = {
        .position = (int64_t)start,
        .base_offset = options->base_offset,
        .last_offset = builder->last_offset,
        .base_timestamp = builder->base_timestamp,
        .max_timestamp = builder->max_timestamp,
        .producer_id = options->producer_id,
        .size_bytes = (int32_t)size,
        .partition_leader_epoch = options->partition_leader_epoch,
        .base_sequence = options->base_sequence,
        .records_count = builder->records_count,
        .attributes = make_attributes(options),
        .producer_epoch = options->producer_epoch,
        .magic = 2,
    };
    sgs_batch_header_store(&row, out->data + start);
    row.crc = sgs_batch_seal(out->data + start, size);
    builder->records_count = NOT_STARTED;
    if (header != NULL)
        *header = row;
    return SGS_OK;
}

/* A record that is compressed here must be good for the readers here [DUR-92]; for all of the batch the codec looks. */
static sgs_status check_record_size(const sgs_batch_builder *builder, sgs_error *err)
{
    if (builder->options.codec == SGS_CODEC_NONE || builder->records_count != 1)
        return SGS_OK;
    const size_t limit = builder->codecs->max_record_bytes;
    if (builder->section.size <= limit)
        return SGS_OK;
    (void)sgs_fail_too_large(err, SGS_LIMIT_EXCEEDED, builder->section.size, limit);
    return sgs_say(err, "a record to be compressed has %zu bytes, more than max_record_bytes = %zu",
                   builder->section.size, limit);
}

sgs_status sgs_batch_builder_finish(sgs_batch_builder *builder, sgs_buffer *out, sgs_batch_header *header,
                                    sgs_error *err)
{
    if (builder->records_count == NOT_STARTED)
        return sgs_fail(err, SGS_ILLEGAL_STATE, "tried to finish a batch, but the batch builder is closed");
    const size_t start = out->size;
    if (builder->records_count == 0) {
        builder->records_count = NOT_STARTED;
        if (header != NULL)
            *header = (sgs_batch_header){ .position = (int64_t)start };
        return SGS_OK;
    }
    SGS_TRY(check_record_size(builder, err));
    const int codec = builder->options.codec;
    const size_t wanted = SGS_BATCH_HEADER_BYTES + (codec == SGS_CODEC_NONE ? builder->section.size : 0);
    sgs_status status = sgs_buffer_reserve(out, wanted, err);
    if (status != SGS_OK)
        return status;
    out->size += SGS_BATCH_HEADER_BYTES;
    status = sgs_codec_compress(builder->codecs, codec, builder->options.level, builder->section.data,
                                builder->section.size, out, err);
    if (status == SGS_OK)
        status = sgs_batch_builder_seal(builder, out, start, header, err);
    if (status != SGS_OK)
        out->size = start;
    return status;
}

void sgs_batch_builder_abort(sgs_batch_builder *builder)
{
    sgs_buffer_clear(&builder->section);
    builder->records_count = NOT_STARTED;
}

void sgs_batch_builder_info(const sgs_batch_builder *builder, int64_t *max_timestamp, int64_t *offset)
{
    *max_timestamp = builder->max_timestamp;
    *offset = builder->max_timestamp == SGS_NO_TIMESTAMP ? -1 : builder->last_offset;
}

sgs_status sgs_batch_build_end_transaction_marker(int64_t offset, int64_t timestamp, int32_t partition_leader_epoch,
                                                  int64_t producer_id, int16_t producer_epoch, bool commit,
                                                  int32_t coordinator_epoch, sgs_buffer *out, sgs_error *err)
{
    sgs_batch_options options;
    sgs_batch_options_default(&options);
    options.base_offset = offset;
    options.partition_leader_epoch = partition_leader_epoch;
    options.transactional = true;
    options.control = true;
    options.producer_id = producer_id;
    options.producer_epoch = producer_epoch;
    sgs_status status = check_options(&options, NULL, err);
    if (status != SGS_OK)
        return status;
    if (timestamp < SGS_NO_TIMESTAMP)
        return sgs_fail(err, SGS_ILLEGAL_ARGUMENT, "timestamp %" PRId64 " of offset %" PRId64, timestamp, offset);
    status = sgs_buffer_reserve(out, END_TRANSACTION_BATCH_BYTES, err);
    if (status != SGS_OK)
        return status;

    uint8_t key[SGS_CONTROL_KEY_BYTES], value[SGS_END_TRANSACTION_VALUE_BYTES];
    sgs_control_record_store_key(commit ? SGS_CONTROL_COMMIT : SGS_CONTROL_ABORT, key);
    sgs_control_record_store_marker(coordinator_epoch, value);
    uint8_t *const batch = out->data + out->size;
    const uint8_t *const end =
        sgs_record_write(batch + SGS_BATCH_HEADER_BYTES, 0, 0, (sgs_bytes){ key, SGS_CONTROL_KEY_BYTES },
                         (sgs_bytes){ value, SGS_END_TRANSACTION_VALUE_BYTES }, NULL, 0);
    SGS_ASSERT(end - batch == END_TRANSACTION_BATCH_BYTES, err);
    const sgs_batch_header header = {
        .base_offset = offset,
        .last_offset = offset,
        .base_timestamp = timestamp,
        .max_timestamp = timestamp,
        .producer_id = producer_id,
        .size_bytes = (int32_t)(end - batch),
        .partition_leader_epoch = partition_leader_epoch,
        .base_sequence = SGS_NO_SEQUENCE,
        .records_count = 1,
        .attributes = make_attributes(&options),
        .producer_epoch = producer_epoch,
        .magic = 2,
    };
    sgs_batch_header_store(&header, batch);
    sgs_batch_seal(batch, END_TRANSACTION_BATCH_BYTES);
    out->size += END_TRANSACTION_BATCH_BYTES;
    return SGS_OK;
}

sgs_status sgs_batch_build_empty(const sgs_batch_header *header, sgs_buffer *out, sgs_error *err)
{
    int64_t delta;
    if (__builtin_sub_overflow(header->last_offset, header->base_offset, &delta) || delta < 0 || delta > INT32_MAX)
        return sgs_fail(err, SGS_ILLEGAL_ARGUMENT, "an empty batch from offset %" PRId64 " to %" PRId64,
                        header->base_offset, header->last_offset);
    const sgs_status status = sgs_buffer_reserve(out, SGS_BATCH_HEADER_BYTES, err);
    if (status != SGS_OK)
        return status;
    enum { KEPT = SGS_ATTRIBUTE_LOG_APPEND_TIME | SGS_ATTRIBUTE_TRANSACTIONAL | SGS_ATTRIBUTE_CONTROL };
    sgs_batch_header empty = *header;
    empty.base_timestamp = SGS_NO_TIMESTAMP;
    empty.size_bytes = SGS_BATCH_HEADER_BYTES;
    empty.records_count = 0;
    empty.attributes = (int16_t)((unsigned)header->attributes & KEPT);
    empty.magic = 2;
    sgs_batch_header_store(&empty, out->data + out->size);
    sgs_batch_seal(out->data + out->size, SGS_BATCH_HEADER_BYTES);
    out->size += SGS_BATCH_HEADER_BYTES;
    return SGS_OK;
}
