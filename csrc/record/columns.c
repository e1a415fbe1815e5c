/* columns.c - batches into columns: which rows, and where each record's parts are. */
#include "record/columns.h"

#include <inttypes.h>

#include "record/columns_state.h"
#include "record/record_parse.h"
#include "record/record_section.h"

enum { USUAL_KEY_BYTES = 16, EXPECTED_ROWS_MAX = 64 * 1024, EXPECTED_VALUE_BYTES_MAX = 8 * 1024 * 1024 };

static const char *const column_names[SGS_COLUMN_COUNT] = {
    [SGS_COLUMN_KEY] = "key",
    [SGS_COLUMN_VALUE] = "value",
    [SGS_COLUMN_TOPIC] = "topic",
    [SGS_COLUMN_PARTITION] = "partition",
    [SGS_COLUMN_OFFSET] = "offset",
    [SGS_COLUMN_TIMESTAMP] = "timestamp",
    [SGS_COLUMN_TIMESTAMP_TYPE] = "timestampType",
    [SGS_COLUMN_HEADERS] = "headers",
    [SGS_COLUMN_LEADER_EPOCH] = "leaderEpoch",
};

const char *sgs_column_name(int column)
{
    return column >= 0 && column < SGS_COLUMN_COUNT ? column_names[column] : NULL;
}

void sgs_columns_options_default(sgs_columns_options *options)
{
    *options = (sgs_columns_options){
        .columns_count = SGS_COLUMN_COUNT,
        .check_crc = true,
        .start_offset = 0,
        .end_offset = INT64_MAX,
        .start_timestamp = INT64_MIN,
        .end_timestamp = INT64_MAX,
    };
    for (uint8_t i = 0; i < SGS_COLUMN_COUNT; ++i)
        options->columns[i] = i;
}

sgs_status sgs_columns_open(sgs_memory memory, const sgs_columns_options *options, const sgs_codec_table *codecs,
                            sgs_columns **columns, sgs_error *err)
{
    bool wanted[SGS_COLUMN_COUNT] = { false };
    if (options->columns_count > SGS_COLUMN_COUNT)
        return sgs_fail(err, SGS_ILLEGAL_ARGUMENT, "%u columns of %d", options->columns_count, SGS_COLUMN_COUNT);
    for (unsigned i = 0; i < options->columns_count; ++i) {
        const unsigned column = options->columns[i];
        if (column >= SGS_COLUMN_COUNT || wanted[column])
            return sgs_fail(err, SGS_ILLEGAL_ARGUMENT, "column %u is unknown or asked for twice", column);
        wanted[column] = true;
    }
    const char *const topic_end = memchr(options->topic, '\0', sizeof options->topic);
    if (topic_end == NULL)
        return sgs_fail(err, SGS_ILLEGAL_ARGUMENT, "a topic of more than %d bytes", SGS_TOPIC_MAX_BYTES);
    sgs_columns *const made = memory.reallocate(memory.context, NULL, sizeof *made);
    if (made == NULL)
        return sgs_fail(err, SGS_RESOURCE, "no memory for a column builder");

    memset(made, 0, sizeof *made);
    made->memory = memory;
    made->options = *options;
    made->codecs = codecs;
    memcpy(made->wanted, wanted, sizeof wanted);
    made->times_are_bounded = options->start_timestamp != INT64_MIN || options->end_timestamp != INT64_MAX;
    made->topic_size = (size_t)(topic_end - options->topic);
    sgs_buffer *const plain[] = { &made->scratch,        &made->offset,       &made->timestamp,
                                  &made->timestamp_type, &made->leader_epoch, &made->headers.offsets };
    for (size_t i = 0; i < sizeof plain / sizeof plain[0]; ++i)
        sgs_buffer_init(plain[i], memory);
    sgs_binary_column_init(&made->key, memory);
    sgs_binary_column_init(&made->value, memory);
    sgs_binary_column_init(&made->headers.key, memory);
    sgs_binary_column_init(&made->headers.value, memory);
    sgs_validity_init(&made->headers.validity, memory);
    *columns = made;
    return SGS_OK;
}

void sgs_columns_close(sgs_columns *columns)
{
    if (columns == NULL)
        return;
    sgs_buffer *const plain[] = { &columns->scratch,
                                  &columns->offset,
                                  &columns->timestamp,
                                  &columns->timestamp_type,
                                  &columns->leader_epoch,
                                  &columns->headers.offsets,
                                  &columns->headers.validity.bits };
    for (size_t i = 0; i < sizeof plain / sizeof plain[0]; ++i)
        sgs_buffer_deinit(plain[i]);
    sgs_binary_column_deinit(&columns->key);
    sgs_binary_column_deinit(&columns->value);
    sgs_binary_column_deinit(&columns->headers.key);
    sgs_binary_column_deinit(&columns->headers.value);
    const sgs_memory memory = columns->memory;
    memory.release(memory.context, columns);
}

int64_t sgs_columns_rows_count(const sgs_columns *columns) { return columns->rows_count; }

int64_t sgs_columns_bytes_count(const sgs_columns *columns)
{
    const int64_t topics = columns->wanted[SGS_COLUMN_TOPIC] ? columns->rows_count * (int64_t)columns->topic_size : 0;
    return topics + (int64_t)(columns->key.data.size + columns->value.data.size + columns->headers.key.data.size +
                              columns->headers.value.data.size);
}

/* ---- one batch ---- */

/* A point to go back to when a batch turns out to be bad in its middle. */
typedef struct columns_mark {
    int64_t rows_count, entries_count, headers_null_count;
    size_t offset_bytes, timestamp_bytes, timestamp_type_bytes, leader_epoch_bytes, headers_offsets_bytes;
    sgs_binary_mark key, value, header_key, header_value;
} columns_mark;

static columns_mark mark(const sgs_columns *columns)
{
    return (columns_mark){
        .rows_count = columns->rows_count,
        .entries_count = columns->headers.entries_count,
        .headers_null_count = columns->headers.validity.null_count,
        .offset_bytes = columns->offset.size,
        .timestamp_bytes = columns->timestamp.size,
        .timestamp_type_bytes = columns->timestamp_type.size,
        .leader_epoch_bytes = columns->leader_epoch.size,
        .headers_offsets_bytes = columns->headers.offsets.size,
        .key = sgs_binary_column_mark(&columns->key),
        .value = sgs_binary_column_mark(&columns->value),
        .header_key = sgs_binary_column_mark(&columns->headers.key),
        .header_value = sgs_binary_column_mark(&columns->headers.value),
    };
}

static void rewind_to(sgs_columns *columns, const columns_mark *to)
{
    columns->rows_count = to->rows_count;
    columns->headers.entries_count = to->entries_count;
    columns->headers.validity.null_count = to->headers_null_count;
    columns->offset.size = to->offset_bytes;
    columns->timestamp.size = to->timestamp_bytes;
    columns->timestamp_type.size = to->timestamp_type_bytes;
    columns->leader_epoch.size = to->leader_epoch_bytes;
    columns->headers.offsets.size = to->headers_offsets_bytes;
    sgs_binary_column_rewind(&columns->key, to->key);
    sgs_binary_column_rewind(&columns->value, to->value);
    sgs_binary_column_rewind(&columns->headers.key, to->header_key);
    sgs_binary_column_rewind(&columns->headers.value, to->header_value);
}

void sgs_columns_clear(sgs_columns *columns)
{
    const columns_mark nothing = { .rows_count = 0 };
    rewind_to(columns, &nothing);
}

/* The walk over one section. The rules are those of sgs_record_reader_next: a batch is good for both or for neither. */
typedef struct walk {
    const sgs_batch_header *batch;
    const uint8_t *at, *end;
    int64_t remaining_count, next_delta; /* a record below next_delta comes too late: consumers leave it out */
    int64_t start_offset, end_offset;
    int64_t max_record_bytes, too_large_offset, too_large_bytes; /* the record that is above the limit, when one is */
    bool log_append_time, times_are_bounded;
} walk;

static bool is_outside_timestamps(const sgs_columns_options *options, int64_t timestamp)
{
    return timestamp < options->start_timestamp ||
           (timestamp >= options->end_timestamp && options->end_timestamp != INT64_MAX);
}

/* Parse records into the chunk until it is full or the batch ends. */
static sgs_record_fault walk_chunk(walk *walk_, const sgs_columns_options *options, sgs_chunk *chunk)
{
    walk state = *walk_; /* a copy that lives in registers */
    int64_t rows = 0, key_bytes = 0, value_bytes = 0, key_nulls = 0, value_nulls = 0;
    int64_t headers_count = 0, headerless_rows = 0;
    while (rows < SGS_CHUNK_ROWS && state.remaining_count > 0) {
        sgs_record_fields fields;
        const sgs_record_fault fault = sgs_record_parse(state.at, state.end, &fields);
        if (fault != NULL)
            return fault;
        int64_t offset;
        if (__builtin_add_overflow(state.batch->base_offset, fields.offset_delta, &offset) || !sgs_is_offset(offset))
            return "its offset is negative or above 2^63-2";
        int64_t timestamp = state.batch->max_timestamp;
        if (!state.log_append_time &&
            __builtin_add_overflow(state.batch->base_timestamp, fields.timestamp_delta, &timestamp))
            return "its timestamp does not fit 64 bits";
        if (fields.next - state.at > state.max_record_bytes) {
            walk_->too_large_offset = offset;
            walk_->too_large_bytes = fields.next - state.at;
            return "it is larger than a record may be";
        }
        state.at = fields.next;
        --state.remaining_count;
        walk_->remaining_count = state.remaining_count; /* for the message */
        if (fields.offset_delta < state.next_delta || offset < state.start_offset || offset >= state.end_offset)
            continue;
        state.next_delta = (int64_t)fields.offset_delta + 1;
        if (state.times_are_bounded && is_outside_timestamps(options, timestamp))
            continue;
        chunk->offsets[rows] = offset;
        chunk->timestamps[rows] = timestamp;
        chunk->keys[rows] = fields.key;
        chunk->key_sizes[rows] = fields.key_size;
        chunk->values[rows] = fields.value;
        chunk->value_sizes[rows] = fields.value_size;
        chunk->headers[rows] = fields.headers;
        chunk->headers_sizes[rows] = (int32_t)(fields.next - fields.headers);
        chunk->header_counts[rows] = fields.headers_count;
        key_nulls += fields.key_size < 0;
        value_nulls += fields.value_size < 0;
        headerless_rows += fields.headers_count == 0;
        key_bytes += fields.key_size;
        value_bytes += fields.value_size;
        headers_count += fields.headers_count;
        ++rows;
    }
    if (state.remaining_count == 0 && state.at != state.end)
        return "bytes are left after the last record";
    *walk_ = state;
    chunk->rows = rows;
    chunk->key_bytes = (size_t)(key_bytes + key_nulls); /* a null added -1 */
    chunk->value_bytes = (size_t)(value_bytes + value_nulls);
    chunk->key_nulls = key_nulls;
    chunk->value_nulls = value_nulls;
    chunk->headers_count = headers_count;
    chunk->headerless_rows = headerless_rows;
    return NULL;
}

static sgs_status append_records(sgs_columns *columns, const sgs_record_reader *reader, sgs_error *err)
{
    const sgs_batch_header *const batch = &reader->batch;
    walk state = {
        .batch = batch,
        .at = reader->next,
        .end = reader->end,
        .remaining_count = batch->records_count,
        .next_delta = INT64_MIN,
        .max_record_bytes = reader->max_record_bytes,
        .log_append_time = (batch->attributes & SGS_ATTRIBUTE_LOG_APPEND_TIME) != 0,
        .start_offset = columns->options.start_offset,
        .end_offset = columns->options.end_offset,
        .times_are_bounded = columns->times_are_bounded,
    };
    columns->chunk.readable_end = reader->end;
    while (state.remaining_count > 0) {
        const sgs_record_fault fault = walk_chunk(&state, &columns->options, &columns->chunk);
        if (state.too_large_bytes > 0) {
            (void)sgs_record_fail_size(state.too_large_bytes, state.max_record_bytes, err);
            return sgs_say(
                err, "batch at offset %" PRId64 ": the record of offset %" PRId64 " is larger than a record may be",
                batch->base_offset, state.too_large_offset);
        }
        if (fault != NULL)
            return sgs_record_fail(batch, (int32_t)(batch->records_count - state.remaining_count), fault, err);
        if (columns->options.last_offsets != NULL)
            SGS_TRY(sgs_columns_latest(columns, err));
        if (columns->chunk.rows == 0)
            continue;
        const sgs_status status = sgs_columns_fill(columns, batch, err);
        if (status != SGS_OK)
            return status;
    }
    return SGS_OK;
}

/* Whether the header alone says that no row of the batch is wanted: no record is later than max_timestamp. */
static bool is_unwanted(const sgs_columns_options *options, const sgs_batch_header *batch)
{
    return sgs_batch_is_control(batch) || sgs_batch_lies_below(batch, options->start_offset) ||
           (sgs_batch_least_offset(batch) >= options->end_offset && options->end_offset != INT64_MAX) ||
           batch->max_timestamp < options->start_timestamp ||
           sgs_aborted_transactions_contain(&options->aborted, batch);
}

void sgs_columns_expect(sgs_columns *columns, size_t bytes) { columns->coming_bytes = bytes; }

static size_t at_most(size_t value, size_t limit) { return value < limit ? value : limit; }

/* Before the first table is filled: those that come are taken to be like this batch. Bounded by bytes that are there, and
 * by what a table has: a small batch that is large when it is decompressed says nothing about the others. */
static void expect_more_like(sgs_columns *columns, const sgs_record_reader *reader)
{
    const size_t section_bytes = (size_t)(reader->end - reader->next);
    const size_t batch_bytes = (size_t)reader->batch.size_bytes;
    const size_t batches = columns->coming_bytes > batch_bytes ? columns->coming_bytes / batch_bytes : 1;
    const size_t rows = at_most((size_t)reader->batch.records_count, section_bytes / SGS_RECORD_MIN_BYTES);
    columns->expected_rows = (int64_t)at_most(rows * batches, EXPECTED_ROWS_MAX);
    columns->expected_key_bytes = (size_t)columns->expected_rows * USUAL_KEY_BYTES;
    columns->expected_value_bytes = at_most(section_bytes * batches, EXPECTED_VALUE_BYTES_MAX);
}

sgs_status sgs_columns_append_batch(sgs_columns *columns, const uint8_t *batch, size_t size, sgs_error *err)
{
    const sgs_columns_options *const options = &columns->options;
    sgs_batch_header header;
    sgs_status status = sgs_batch_header_load(batch, size, -1, &header, err);
    if (status != SGS_OK)
        return status;
    if (is_unwanted(options, &header)) /* checked, but neither decompressed nor parsed */
        return options->check_crc ? sgs_record_section_check_crc(&header, batch, err) : SGS_OK;
    sgs_record_reader reader;
    status = sgs_record_section_open(batch, size, options->check_crc, columns->codecs, &columns->scratch, &reader, err);
    if (status != SGS_OK)
        return status;
    const columns_mark before = mark(columns);
    if (columns->rows_count == 0 && columns->expected_rows == 0)
        expect_more_like(columns, &reader);
    status = append_records(columns, &reader, err);
    if (status != SGS_OK)
        rewind_to(columns, &before);
    return status;
}
