/* columns_fill.c - from a chunk of parsed records to the columns. */
#include <inttypes.h>

#include "record/columns_state.h"
#include "record/utf8_java.h"

static sgs_status fill_int32(sgs_buffer *column, int32_t value, int64_t count, sgs_error *err)
{
    SGS_TRY(sgs_buffer_reserve(column, (size_t)count * sizeof value, err));
    int32_t *const cells = (int32_t *)(void *)(column->data + column->size);
    for (int64_t i = 0; i < count; ++i)
        cells[i] = value;
    column->size += (size_t)count * sizeof value;
    return SGS_OK;
}

static sgs_status fill_timestamps(sgs_columns *columns, const sgs_chunk *chunk, sgs_error *err)
{
    sgs_buffer *const column = &columns->timestamp;
    if (!columns->options.timestamp_in_microseconds)
        return sgs_buffer_append(column, chunk->timestamps, (size_t)chunk->rows * sizeof(int64_t), err);
    SGS_TRY(sgs_buffer_reserve(column, (size_t)chunk->rows * sizeof(int64_t), err));
    int64_t *const cells = (int64_t *)(void *)(column->data + column->size);
    for (int64_t i = 0; i < chunk->rows; ++i)
        if (__builtin_mul_overflow(chunk->timestamps[i], 1000, &cells[i]))
            return sgs_fail(err, SGS_INVALID_RECORD,
                            "timestamp %" PRId64 " ms of offset %" PRId64 " does not fit microseconds",
                            chunk->timestamps[i], chunk->offsets[i]);
    column->size += (size_t)chunk->rows * sizeof(int64_t);
    return SGS_OK;
}

/* Header keys become Arrow strings, which must be valid UTF-8; Kafka's are whatever the producer wrote. It is the copy that is
 * judged: the bytes may be a caller's, and a reader of Arrow trusts its strings. */
static sgs_status append_header_key(sgs_headers_column *headers, sgs_bytes key, const uint8_t *readable_end,
                                    sgs_error *err)
{
    enum { REPLACED = SGS_UTF8_REPLACEMENT_BYTES };
    sgs_binary_column *const column = &headers->key;
    size_t size = (size_t)key.size;
    SGS_TRY(sgs_binary_column_reserve(column, 1, size, err));
    uint8_t *out = column->data.data + column->data.size;
    sgs_copy_wide(out, key.data, size, readable_end);
    if (!sgs_utf8_is_valid(out, size)) { /* the copy makes room for what it becomes */
        SGS_TRY(sgs_binary_column_reserve(column, 1, size * (REPLACED + 1), err));
        out = column->data.data + column->data.size;
        memmove(out + REPLACED * size, out, size);
        size = (size_t)(sgs_utf8_java_replace(out, out + REPLACED * size, size) - out);
    }
    column->data.size += size;
    const int32_t end = (int32_t)column->data.size;
    memcpy(column->offsets.data + column->offsets.size, &end, sizeof end);
    column->offsets.size += sizeof end;
    return SGS_OK;
}

static sgs_status append_record_headers(sgs_headers_column *headers, sgs_bytes encoded, int32_t count,
                                        const uint8_t *readable_end, sgs_error *err)
{
    for (int32_t i = 0; i < count; ++i) {
        sgs_record_header header;
        if (!sgs_record_next_header(&encoded, &header))
            return sgs_record_fail_changed(err);
        SGS_TRY(append_header_key(headers, header.key, readable_end, err));
        const bool is_null = header.value.size < 0;
        SGS_TRY(sgs_binary_column_append(&headers->value, headers->entries_count, &header.value.data,
                                         &header.value.size, 1, is_null ? 0 : (size_t)header.value.size, is_null,
                                         readable_end, err));
        ++headers->entries_count;
    }
    return SGS_OK;
}

/* Rows in front of the first record with headers cost nothing: their cells are made with that record, or by the export.
 * Each is null, or empty. */
sgs_status sgs_headers_make_empty_rows(sgs_columns *columns, int64_t rows, sgs_error *err)
{
    sgs_headers_column *const headers = &columns->headers;
    const size_t bytes = ((size_t)rows + 1) * sizeof(int32_t);
    SGS_TRY(sgs_buffer_reserve(&headers->offsets, bytes, err));
    if (columns->options.null_headers_when_empty && rows > 0)
        SGS_TRY(sgs_validity_append(&headers->validity, 0, NULL, rows, rows, err));
    memset(headers->offsets.data, 0, bytes);
    headers->offsets.size = bytes;
    return SGS_OK;
}

static sgs_status fill_headers(sgs_columns *columns, const sgs_chunk *chunk, sgs_error *err)
{
    sgs_headers_column *const headers = &columns->headers;
    if (headers->offsets.size == 0) {
        if (chunk->headers_count == 0)
            return SGS_OK;
        SGS_TRY(sgs_headers_make_empty_rows(columns, columns->rows_count, err));
    }
    if (chunk->headers_count > INT32_MAX - headers->entries_count)
        return sgs_fail(err, SGS_LIMIT_EXCEEDED, "a headers column of more than 2^31-1 headers");
    SGS_TRY(sgs_buffer_reserve(&headers->offsets, (size_t)chunk->rows * sizeof(int32_t), err));
    if (columns->options.null_headers_when_empty) {
        int32_t signs[SGS_CHUNK_ROWS]; /* negative = null, as sgs_validity_append wants it */
        for (int64_t i = 0; i < chunk->rows; ++i)
            signs[i] = chunk->header_counts[i] - 1;
        /* cppcheck-suppress uninitvar ; as many are read as were written */
        SGS_TRY(sgs_validity_append(&headers->validity, columns->rows_count, signs, chunk->rows, chunk->headerless_rows,
                                    err));
    }
    int32_t *const offsets = (int32_t *)(void *)(headers->offsets.data + headers->offsets.size);
    for (int64_t i = 0; i < chunk->rows; ++i) {
        if (chunk->header_counts[i] > 0)
            SGS_TRY(append_record_headers(headers, (sgs_bytes){ chunk->headers[i], chunk->headers_sizes[i] },
                                          chunk->header_counts[i], chunk->readable_end, err));
        offsets[i] = (int32_t)headers->entries_count;
    }
    headers->offsets.size += (size_t)chunk->rows * sizeof(int32_t);
    return SGS_OK;
}

/* Room for a table as large as the last one, so that columns do not move while they grow. Where there is no memory for
 * that, they grow as they need: nothing is lost. */
static void reserve_expected(sgs_columns *columns)
{
    const bool *const wanted = columns->wanted;
    const int64_t rows = columns->expected_rows + columns->expected_rows / 8;
    const size_t long_cells = (size_t)rows * sizeof(int64_t);
    const size_t int_cells = (size_t)rows * sizeof(int32_t);
    sgs_error ignored;
    if (wanted[SGS_COLUMN_KEY])
        (void)sgs_binary_column_reserve(&columns->key, rows, columns->expected_key_bytes, &ignored);
    if (wanted[SGS_COLUMN_VALUE])
        (void)sgs_binary_column_reserve(&columns->value, rows, columns->expected_value_bytes, &ignored);
    if (wanted[SGS_COLUMN_OFFSET])
        (void)sgs_buffer_reserve(&columns->offset, long_cells, &ignored);
    if (wanted[SGS_COLUMN_TIMESTAMP])
        (void)sgs_buffer_reserve(&columns->timestamp, long_cells, &ignored);
    if (wanted[SGS_COLUMN_TIMESTAMP_TYPE])
        (void)sgs_buffer_reserve(&columns->timestamp_type, int_cells, &ignored);
    if (wanted[SGS_COLUMN_LEADER_EPOCH])
        (void)sgs_buffer_reserve(&columns->leader_epoch, int_cells, &ignored);
}

sgs_status sgs_columns_fill(sgs_columns *columns, const sgs_batch_header *batch, sgs_error *err)
{
    const sgs_chunk *const chunk = &columns->chunk;
    const bool *const wanted = columns->wanted;
    const int64_t row = columns->rows_count;
    if (row == 0 && columns->expected_rows > 0)
        reserve_expected(columns);
    if (wanted[SGS_COLUMN_KEY])
        SGS_TRY(sgs_binary_column_append(&columns->key, row, chunk->keys, chunk->key_sizes, chunk->rows,
                                         chunk->key_bytes, chunk->key_nulls, chunk->readable_end, err));
    if (wanted[SGS_COLUMN_VALUE])
        SGS_TRY(sgs_binary_column_append(&columns->value, row, chunk->values, chunk->value_sizes, chunk->rows,
                                         chunk->value_bytes, chunk->value_nulls, chunk->readable_end, err));
    if (wanted[SGS_COLUMN_TOPIC] && columns->topic_size > 0 &&
        (row + chunk->rows) > (int64_t)(INT32_MAX / columns->topic_size))
        return sgs_fail(err, SGS_LIMIT_EXCEEDED, "a topic column of more than 2^31-1 bytes");
    if (wanted[SGS_COLUMN_OFFSET])
        SGS_TRY(sgs_buffer_append(&columns->offset, chunk->offsets, (size_t)chunk->rows * sizeof(int64_t), err));
    if (wanted[SGS_COLUMN_TIMESTAMP])
        SGS_TRY(fill_timestamps(columns, chunk, err));
    if (wanted[SGS_COLUMN_TIMESTAMP_TYPE])
        SGS_TRY(fill_int32(&columns->timestamp_type, sgs_batch_timestamp_type(batch), chunk->rows, err));
    if (wanted[SGS_COLUMN_HEADERS])
        SGS_TRY(fill_headers(columns, chunk, err));
    if (wanted[SGS_COLUMN_LEADER_EPOCH])
        SGS_TRY(fill_int32(&columns->leader_epoch, batch->partition_leader_epoch, chunk->rows, err));
    columns->rows_count += chunk->rows;
    return SGS_OK;
}
