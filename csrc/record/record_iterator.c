/* record_iterator.c - Kafka DefaultRecordBatch.RecordIterator with its stream and buffer variants, and
 * AbstractLegacyRecordBatch.iterator. */
#include "record/record_iterator.h"

#include <inttypes.h>

#include "base/varint.h"
#include "record/record_parse.h"

/* Kafka's limit on one record of a compressed batch, max.decompressed.message.bytes [format.md 5]. */
enum { RECORD_MAX_BYTES = 2147483639 };

/* Kafka reads snappy streams in pieces; one that a broken chunk ends is lost, also what of it was good. */
enum { SNAPPY_READ_BYTES = 2048 };

static sgs_status open_section(sgs_record_iterator *iterator, sgs_iteration kind, const uint8_t *batch,
                               const sgs_codec_table *codecs, sgs_buffer *scratch, sgs_error *err)
{
    const int codec = sgs_batch_codec(&iterator->batch);
    iterator->next = batch + SGS_BATCH_HEADER_BYTES;
    iterator->end = batch + iterator->batch.size_bytes;
    if (codec == SGS_CODEC_NONE)
        return SGS_OK;
    iterator->is_compressed = true;
    iterator->skips = kind == SGS_ITERATE_SKIP_KEY_VALUE;
    sgs_buffer_clear(scratch);
    const sgs_status status =
        sgs_codec_decompress(codecs, codec, iterator->next, (size_t)(iterator->end - iterator->next), scratch, err);
    if (status != SGS_OK && (scratch->size == 0 || status == SGS_LIMIT_EXCEEDED))
        return status; /* a limit of ours is no break of the stream */
    if (status != SGS_OK) {
        iterator->break_ = *err;
        if (codec == SGS_CODEC_SNAPPY)
            scratch->size -= scratch->size % SNAPPY_READ_BYTES;
    }
    iterator->next = scratch->data;
    iterator->end = scratch->size > 0 ? scratch->data + scratch->size : scratch->data;
    return SGS_OK;
}

/* Whether the whole batch can be read: Kafka decompresses and parses all of it before it hands out a record. */
static sgs_status rehearse(const sgs_record_iterator *iterator, sgs_error *err)
{
    sgs_record_iterator copy = *iterator;
    sgs_iterated_record record;
    sgs_status status = SGS_OK;
    for (bool found = true; status == SGS_OK && found;)
        status = sgs_record_iterator_next(&copy, &record, &found, err);
    return status;
}

/* Kafka's streaming iterator opens the stream also where no record is to come, and there must be one, unless it is zstd,
 * which begins when it is read. */
static bool begins_a_stream(const sgs_record_iterator *iterator, sgs_iteration kind)
{
    const int codec = sgs_batch_codec(&iterator->batch);
    return kind == SGS_ITERATE_STREAMING && codec != SGS_CODEC_NONE && codec != SGS_CODEC_ZSTD &&
           iterator->batch.size_bytes == SGS_BATCH_HEADER_BYTES;
}

sgs_status sgs_record_iterator_open(const uint8_t *batch, size_t size, sgs_iteration kind,
                                    const sgs_codec_table *codecs, sgs_buffer *scratch, sgs_record_iterator *iterator,
                                    sgs_error *err)
{
    sgs_record_iterator *const made = iterator;
    *made = (sgs_record_iterator){ .break_ = { .status = SGS_OK } };
    sgs_status status = sgs_batch_header_load(batch, size, -1, &made->batch, err);
    if (status != SGS_OK)
        return status;
    if (made->batch.magic < 2) {
        status = sgs_legacy_reader_open(batch, size, codecs, scratch, &made->legacy, err);
        if (status == SGS_OK)
            made->batch = made->legacy.batch;
        return status;
    }
    const int codec = sgs_batch_codec(&made->batch);
    if (codec >= SGS_CODEC_COUNT && (made->batch.records_count != 0 || kind == SGS_ITERATE_STREAMING))
        return sgs_fail(err, SGS_UNSUPPORTED_FORMAT, "batch at offset %" PRId64 ": codec id %d is unknown",
                        made->batch.base_offset, codec);
    if (made->batch.records_count < 0)
        return sgs_record_fail(&made->batch, 0, "the batch counts fewer than no records", err);
    made->remaining_count = made->batch.records_count;
    if (made->remaining_count == 0 && !begins_a_stream(made, kind)) /* nothing is looked at [format.md 4.5] */
        return SGS_OK;
    status = open_section(made, kind, batch, codecs, scratch, err);
    if (status == SGS_OK && kind == SGS_ITERATE_WHOLE && made->is_compressed)
        status = rehearse(made, err);
    return status;
}

sgs_status sgs_record_iterator_base_offset(const sgs_record_iterator *iterator, int64_t *offset, sgs_error *err)
{
    if (iterator->batch.magic < 2)
        return sgs_legacy_reader_base_offset(&iterator->legacy, offset, err);
    *offset = iterator->batch.base_offset;
    return SGS_OK;
}

static sgs_status fail(const sgs_record_iterator *iterator, sgs_record_fault fault, sgs_error *err)
{
    return sgs_record_fail(&iterator->batch, iterator->batch.records_count - iterator->remaining_count, fault, err);
}

/* The section ended too early: because its stream broke, or because the batch is wrong. */
static sgs_status fail_at_end(const sgs_record_iterator *iterator, sgs_error *err)
{
    if (iterator->break_.status == SGS_OK)
        return fail(iterator, "the batch ends before its last record", err);
    *err = iterator->break_;
    return err->status;
}

/* Move over `size` bytes; a size below 0 is null. */
static bool skip_bytes(const uint8_t **at, const uint8_t *end, int32_t size)
{
    if (size > end - *at)
        return false;
    *at += size < 0 ? 0 : size;
    return true;
}

/* What is wrong with a record that is only walked over: nothing, the section ended, or its structure. */
typedef enum skip_verdict {
    SKIPPED,
    SKIP_ENDED,
    SKIP_NEGATIVE_COUNT,
    SKIP_NULL_HEADER_KEY,
    SKIP_NO_NUMBER
} skip_verdict;

/* A number that does not end in its bytes is too long, unless the section ended first. */
static skip_verdict no_number(const uint8_t *at, const uint8_t *end, int32_t max_bytes)
{
    return end - at < max_bytes ? SKIP_ENDED : SKIP_NO_NUMBER;
}

/* Behind the size: the deltas, and over key, value and headers. The size is not compared with what was consumed, as in
 * Kafka DefaultRecord.readPartiallyFrom [format.md 5]. */
static skip_verdict skip_record(const uint8_t *at, const uint8_t *end, sgs_record_fields *fields)
{
    if (at == end)
        return SKIP_ENDED;
    fields->attributes = (int8_t)*at++;
    if (!sgs_varlong_read(&at, end, &fields->timestamp_delta))
        return no_number(at, end, SGS_VARLONG_MAX_BYTES);
    if (!sgs_varint_read(&at, end, &fields->offset_delta))
        return no_number(at, end, SGS_VARINT_MAX_BYTES);
    for (int part = 0; part < 2; ++part) { /* key, value */
        int32_t size;
        if (!sgs_varint_read(&at, end, &size))
            return no_number(at, end, SGS_VARINT_MAX_BYTES);
        if (!skip_bytes(&at, end, size))
            return SKIP_ENDED;
    }
    int32_t headers_count;
    if (!sgs_varint_read(&at, end, &headers_count))
        return no_number(at, end, SGS_VARINT_MAX_BYTES);
    if (headers_count < 0)
        return SKIP_NEGATIVE_COUNT;
    for (int32_t i = 0; i < 2 * (int64_t)headers_count; ++i) { /* each takes a byte at least */
        int32_t size;
        if (!sgs_varint_read(&at, end, &size))
            return no_number(at, end, SGS_VARINT_MAX_BYTES);
        if (size < 0 && i % 2 == 0)
            return SKIP_NULL_HEADER_KEY;
        if (!skip_bytes(&at, end, size))
            return SKIP_ENDED;
    }
    fields->next = at;
    return SKIPPED;
}

static sgs_status next_fields(sgs_record_iterator *iterator, sgs_record_fields *fields, int32_t *size, sgs_error *err)
{
    static const sgs_record_fault faults[] = {
        [SKIP_NEGATIVE_COUNT] = "a record has a negative header count",
        [SKIP_NULL_HEADER_KEY] = "a header key is null",
        [SKIP_NO_NUMBER] = "a number is too long",
    };
    const uint8_t *at = iterator->next;
    const uint8_t *const end = iterator->end;
    if (!sgs_varint_read(&at, end, size))
        return end - at < SGS_VARINT_MAX_BYTES ? fail_at_end(iterator, err)
                                               : fail(iterator, "a record's size is too long a number", err);
    if (*size < 0 || *size > RECORD_MAX_BYTES)
        return fail(iterator, "a record has a size that cannot be", err);
    if (iterator->skips) {
        const skip_verdict verdict = skip_record(at, end, fields);
        if (verdict == SKIP_ENDED)
            return fail_at_end(iterator, err);
        return verdict == SKIPPED ? SGS_OK : fail(iterator, faults[verdict], err);
    }
    if (*size > end - at)
        return fail_at_end(iterator, err);
    const sgs_record_fault fault = sgs_record_parse_by(SGS_NULL_IS_NEGATIVE, iterator->next, end, fields);
    return fault == NULL ? SGS_OK : fail(iterator, fault, err);
}

static int64_t add_wrapping(int64_t a, int64_t b) { return (int64_t)((uint64_t)a + (uint64_t)b); }

static sgs_status next_v2(sgs_record_iterator *iterator, sgs_record *record, sgs_error *err)
{
    const sgs_batch_header *const batch = &iterator->batch;
    sgs_record_fields fields = { .key_size = -1, .value_size = -1 };
    int32_t size = 0;
    const sgs_status status = next_fields(iterator, &fields, &size, err);
    if (status != SGS_OK)
        return status;
    if (iterator->remaining_count == 1 && fields.next != iterator->end)
        return fail(iterator, "bytes are left after the last record", err);
    if (iterator->remaining_count == 1 && iterator->break_.status != SGS_OK)
        return fail_at_end(iterator, err); /* whether the batch ends here cannot be known */
    const bool log_append_time = (batch->attributes & SGS_ATTRIBUTE_LOG_APPEND_TIME) != 0;
    const int32_t headers_size = fields.headers == NULL ? 0 : (int32_t)(fields.next - fields.headers);
    *record = (sgs_record){
        .offset = add_wrapping(batch->base_offset, fields.offset_delta),
        .timestamp =
            log_append_time ? batch->max_timestamp : add_wrapping(batch->base_timestamp, fields.timestamp_delta),
        .sequence =
            batch->base_sequence < 0 ? SGS_NO_SEQUENCE : sgs_sequence_add(batch->base_sequence, fields.offset_delta),
        .size_bytes = size > INT32_MAX - SGS_VARINT_MAX_BYTES ? INT32_MAX : sgs_varint_size(size) + size,
        .key = { fields.key, fields.key_size },
        .value = { fields.value, fields.value_size },
        .headers_count = fields.headers_count,
        .headers = { fields.headers, headers_size },
        .attributes = fields.attributes,
    };
    iterator->next = fields.next;
    --iterator->remaining_count;
    return SGS_OK;
}

static sgs_status next_legacy(sgs_record_iterator *iterator, sgs_iterated_record *record, bool *found, sgs_error *err)
{
    sgs_legacy_message message;
    bool more = false;
    const sgs_status status = sgs_legacy_reader_next(&iterator->legacy, &message, &more, err);
    if (status != SGS_OK)
        return status;
    *found = more;
    if (!more)
        return SGS_OK;
    *record = (sgs_iterated_record){
        .record = {
            .offset = message.offset,
            .timestamp = message.timestamp,
            .sequence = SGS_NO_SEQUENCE,
            .size_bytes = message.size_bytes,
            .key = message.key,
            .value = message.value,
            .attributes = (int8_t)message.attributes,
        },
        .message = message,
    };
    return SGS_OK;
}

sgs_status sgs_record_iterator_next(sgs_record_iterator *iterator, sgs_iterated_record *record, bool *found,
                                    sgs_error *err)
{
    sgs_status status = SGS_OK;
    if (iterator->batch.magic < 2) {
        status = next_legacy(iterator, record, found, err);
    } else if (iterator->remaining_count == 0) {
        *found = false;
    } else {
        *record = (sgs_iterated_record){ .record = { .offset = 0 } };
        status = next_v2(iterator, &record->record, err);
        *found = status == SGS_OK;
    }
    if (status != SGS_OK) {
        iterator->remaining_count = 0;
        iterator->legacy.remaining_count = 0;
    }
    return status;
}
