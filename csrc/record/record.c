/* record.c - reading and writing of single records. */
#include "record/record.h"

#include <inttypes.h>
#include <string.h>

#include "record/record_parse.h"

void sgs_record_reader_init(sgs_record_reader *reader, const sgs_batch_header *batch, const uint8_t *section,
                            size_t size)
{
    *reader = (sgs_record_reader){
        .batch = *batch,
        .next = section,
        .end = size > 0 ? section + size : section,
        .remaining_count = batch->records_count,
        .max_record_bytes = INT64_MAX,
    };
}

static sgs_status fail(const sgs_record_reader *reader, sgs_record_fault fault, sgs_error *err)
{
    return sgs_record_fail(&reader->batch, reader->batch.records_count - reader->remaining_count, fault, err);
}

sgs_status sgs_record_reader_next(sgs_record_reader *reader, sgs_record *record, bool *found, sgs_error *err)
{
    if (reader->remaining_count == 0) {
        *found = false;
        return SGS_OK;
    }
    if (reader->remaining_count < 0)
        return sgs_fail(err, SGS_INVALID_RECORD, "batch at offset %" PRId64 ": a records count of %" PRId32,
                        reader->batch.base_offset, reader->batch.records_count);
    sgs_record_fields fields;
    const sgs_record_fault fault = sgs_record_parse(reader->next, reader->end, &fields);
    if (fault != NULL)
        return fail(reader, fault, err);

    int64_t offset;
    if (__builtin_add_overflow(reader->batch.base_offset, fields.offset_delta, &offset) || !sgs_is_offset(offset))
        return fail(reader, "its offset is negative or above 2^63-2", err); /* [DUR-89] */
    int64_t timestamp = reader->batch.max_timestamp;
    if ((reader->batch.attributes & SGS_ATTRIBUTE_LOG_APPEND_TIME) == 0 &&
        __builtin_add_overflow(reader->batch.base_timestamp, fields.timestamp_delta, &timestamp)) /* [DUR-90] */
        return fail(reader, "its timestamp does not fit 64 bits", err);
    if (reader->remaining_count == 1 && fields.next != reader->end)
        return fail(reader, "bytes are left after the last record", err);
    if (fields.next - reader->next > reader->max_record_bytes) {
        (void)sgs_record_fail_size(fields.next - reader->next, reader->max_record_bytes, err);
        return sgs_say(err,
                       "batch at offset %" PRId64 ": the record of offset %" PRId64 " is larger than a record may be",
                       reader->batch.base_offset, offset);
    }

    const int32_t base_sequence = reader->batch.base_sequence;
    *record = (sgs_record){
        .offset = offset,
        .timestamp = timestamp,
        .sequence = base_sequence < 0 ? SGS_NO_SEQUENCE : sgs_sequence_add(base_sequence, fields.offset_delta),
        .size_bytes = (int32_t)(fields.next - reader->next),
        .key = { fields.key, fields.key_size },
        .value = { fields.value, fields.value_size },
        .headers_count = fields.headers_count,
        .headers = { fields.headers, (int32_t)(fields.next - fields.headers) },
        .attributes = fields.attributes,
    };
    reader->next = fields.next;
    --reader->remaining_count;
    *found = true;
    return SGS_OK;
}

sgs_status sgs_record_reader_next_some(sgs_record_reader *reader, sgs_record *records, size_t capacity, size_t *count,
                                       sgs_error *err)
{
    size_t read = 0;
    for (bool found = true; read < capacity; ++read) {
        SGS_TRY(sgs_record_reader_next(reader, &records[read], &found, err));
        if (!found)
            break;
    }
    *count = read;
    return SGS_OK;
}

bool sgs_record_next_header(sgs_bytes *headers, sgs_record_header *header)
{
    const uint8_t *at = headers->data;
    const uint8_t *const end = at + headers->size;
    int32_t key_size, value_size;
    if (!sgs_parse_varint(&at, end, &key_size) || key_size < 0 || key_size > end - at)
        return false;
    const uint8_t *const key = at;
    at += key_size;
    if (!sgs_parse_varint(&at, end, &value_size) || value_size > end - at)
        return false;
    header->key = (sgs_bytes){ key, key_size };
    header->value = (sgs_bytes){ value_size < 0 ? NULL : at, value_size < 0 ? -1 : value_size };
    at += value_size < 0 ? 0 : value_size;
    *headers = (sgs_bytes){ at, (int32_t)(end - at) };
    return true;
}

sgs_status sgs_record_fail_changed(sgs_error *err)
{
    return sgs_fail(err, SGS_INVALID_RECORD, "the bytes of a record changed while it was read");
}

static int64_t bytes_size(sgs_bytes bytes)
{
    return sgs_varint_size(bytes.size) + (bytes.size < 0 ? 0 : (int64_t)bytes.size);
}

static inline int64_t headers_size(const sgs_record_header *headers, int32_t headers_count)
{
    int64_t size = 0;
    for (int32_t i = 0; i < headers_count; ++i)
        size += bytes_size(headers[i].key) + bytes_size(headers[i].value);
    return size;
}

/* the Size field: all bytes behind it */
static inline int64_t body_size(int64_t timestamp_delta, int32_t offset_delta, sgs_bytes key, sgs_bytes value,
                                int32_t headers_count, int64_t headers_bytes)
{
    return 1 + sgs_varlong_size(timestamp_delta) + sgs_varint_size(offset_delta) + bytes_size(key) + bytes_size(value) +
           sgs_varint_size(headers_count) + headers_bytes;
}

static inline int64_t size_with_prefix(int64_t body)
{
    /* beyond INT32_MAX the record cannot be written, but its size must still compare as too large */
    return body + sgs_varint_size(body > INT32_MAX ? INT32_MAX : (int32_t)body);
}

int64_t sgs_record_size(int64_t timestamp_delta, int32_t offset_delta, sgs_bytes key, sgs_bytes value,
                        const sgs_record_header *headers, int32_t headers_count)
{
    return size_with_prefix(
        body_size(timestamp_delta, offset_delta, key, value, headers_count, headers_size(headers, headers_count)));
}

uint8_t *sgs_record_write_bytes(uint8_t *out, sgs_bytes bytes)
{
    out = sgs_varint_write(out, bytes.size < 0 ? -1 : bytes.size);
    if (bytes.size <= 0)
        return out;
    memmove(out, bytes.data, (size_t)bytes.size);
    return out + bytes.size;
}

static inline uint8_t *write_fields(uint8_t *out, int64_t timestamp_delta, int32_t offset_delta, sgs_bytes key,
                                    sgs_bytes value, int32_t headers_count, int64_t headers_bytes)
{
    const int64_t size = body_size(timestamp_delta, offset_delta, key, value, headers_count, headers_bytes);
    SGS_EXPECT(size <= INT32_MAX);
    out = sgs_varint_write(out, (int32_t)size);
    *out++ = 0; /* attributes: none are defined */
    out = sgs_varlong_write(out, timestamp_delta);
    out = sgs_varint_write(out, offset_delta);
    out = sgs_record_write_bytes(out, key);
    out = sgs_record_write_bytes(out, value);
    return sgs_varint_write(out, headers_count);
}

uint8_t *sgs_record_write(uint8_t *out, int64_t timestamp_delta, int32_t offset_delta, sgs_bytes key, sgs_bytes value,
                          const sgs_record_header *headers, int32_t headers_count)
{
    if (headers_count == 0) /* inlined twice: most records have no headers, and are written without a look at them */
        return write_fields(out, timestamp_delta, offset_delta, key, value, 0, 0);
    out = write_fields(out, timestamp_delta, offset_delta, key, value, headers_count,
                       headers_size(headers, headers_count));
    for (int32_t i = 0; i < headers_count; ++i) {
        SGS_EXPECT(headers[i].key.size >= 0);
        out = sgs_record_write_bytes(out, headers[i].key);
        out = sgs_record_write_bytes(out, headers[i].value);
    }
    return out;
}

uint8_t *sgs_record_write_fields(uint8_t *out, int64_t timestamp_delta, int32_t offset_delta, sgs_bytes key,
                                 sgs_bytes value, int32_t headers_count, int64_t headers_bytes)
{
    return write_fields(out, timestamp_delta, offset_delta, key, value, headers_count, headers_bytes);
}
