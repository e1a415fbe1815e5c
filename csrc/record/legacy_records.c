/* legacy_records.c - Kafka AbstractLegacyRecordBatch.DeepRecordsIterator, in two passes over the decompressed bytes
 * instead of a list: the first counts and finds the last offset, the second hands out. */
#include "record/legacy_records.h"

#include <inttypes.h>
#include <string.h>

#include "base/bytes.h"
#include "base/varint.h"
#include "record/lz4_header.h"

enum {
    SIZE_AT = 8,
    /* a record of magic 2 at its longest, without key and value: size 5, attributes 1, timestamp 10, offset 5, two
     * sizes of 5, header count 1 */
    RECORD_MAX_OVERHEAD = 32,
};

/* The value of a wrapper, decompressed. At magic 0 the header byte of LZ4 frames may be wrong: providers verify it, so
 * they get a copy with the right one. */
static sgs_status decompress(const sgs_legacy_message *outer, int codec, const sgs_codec_table *codecs,
                             sgs_buffer *scratch, sgs_error *err)
{
    const size_t size = (size_t)outer->value.size;
    if (codec != SGS_CODEC_LZ4 || outer->magic != 0)
        return sgs_codec_decompress(codecs, codec, outer->value.data, size, scratch, err);
    sgs_buffer mended;
    sgs_buffer_init(&mended, scratch->memory);
    sgs_status status = sgs_buffer_append(&mended, outer->value.data, size, err);
    if (status == SGS_OK) {
        sgs_lz4_header_stamp(mended.data, mended.size, false);
        status = sgs_codec_decompress(codecs, codec, mended.data, mended.size, scratch, err);
    }
    sgs_buffer_deinit(&mended);
    return status;
}

static sgs_status fail_inside(const sgs_legacy_reader *reader, const char *what, sgs_error *err)
{
    return sgs_fail(err, SGS_INVALID_RECORD, "wrapper at offset %" PRId64 ": %s", reader->batch.last_offset, what);
}

/* Count the messages and find their offsets. A message that is cut short ends the run silently, as in Kafka. */
static sgs_status survey(sgs_legacy_reader *reader, const uint8_t *data, size_t size, sgs_error *err)
{
    const uint8_t *at = data;
    const uint8_t *const end = size > 0 ? data + size : data;
    int64_t first_offset = 0, last_offset = 0;
    int32_t count = 0;
    while (end - at >= SGS_LOG_OVERHEAD) {
        const int32_t length = sgs_load_be_i32(at + SIZE_AT);
        if (length < SGS_LEGACY_MESSAGE_MIN_BYTES)
            return sgs_fail(err, SGS_CORRUPT_RECORD,
                            "wrapper at offset %" PRId64 ": a message size of %" PRId32 ", expected 14 or more",
                            reader->batch.last_offset, length);
        if (length > end - at - SGS_LOG_OVERHEAD)
            break;
        last_offset = sgs_load_be_i64(at);
        if (count == 0)
            first_offset = last_offset;
        ++count; /* at most size / 26, which fits */
        at += SGS_LOG_OVERHEAD + length;
    }
    if (count == 0)
        return fail_inside(reader, "no message inside", err);
    if (reader->outer.magic == 1 && reader->outer.offset != 0) { /* some producers send 0: then offsets are absolute */
        if (reader->outer.offset < last_offset)
            return fail_inside(reader, "its offset is below that of the last message inside", err);
        reader->offset_shift = (int64_t)((uint64_t)reader->outer.offset - (uint64_t)last_offset);
    }
    reader->next = data;
    reader->end = at;
    reader->remaining_count = count;
    reader->batch.records_count = count;
    reader->batch.base_offset = (int64_t)((uint64_t)first_offset + (uint64_t)reader->offset_shift);
    return SGS_OK;
}

sgs_status sgs_legacy_reader_open(const uint8_t *batch, size_t size, const sgs_codec_table *codecs, sgs_buffer *scratch,
                                  sgs_legacy_reader *reader, sgs_error *err)
{
    sgs_legacy_reader made = { .remaining_count = 1 };
    sgs_status status = sgs_batch_header_load(batch, size, -1, &made.batch, err);
    if (status != SGS_OK)
        return status;
    const int codec = sgs_batch_codec(&made.batch);
    if (codec >= SGS_CODEC_COUNT)
        return sgs_fail(err, SGS_UNSUPPORTED_FORMAT, "message at offset %" PRId64 ": codec id %d is unknown",
                        made.batch.last_offset, codec);
    made.is_wrapper = codec != SGS_CODEC_NONE;
    if (made.is_wrapper && made.batch.magic != 0 && made.batch.magic != 1)
        return fail_inside(&made, "its magic is neither 0 nor 1", err);
    if (codec == SGS_CODEC_ZSTD)
        return fail_inside(&made, "zstd came with magic 2", err);
    status = sgs_legacy_message_parse(batch, (size_t)made.batch.size_bytes, &made.outer, err);
    if (status != SGS_OK)
        return status;
    if (made.is_wrapper) {
        if (made.outer.value.size < 0)
            return fail_inside(&made, "its value is null", err);
        sgs_buffer_clear(scratch);
        status = decompress(&made.outer, codec, codecs, scratch, err);
        if (status == SGS_OK)
            status = survey(&made, scratch->data, scratch->size, err);
        if (status != SGS_OK)
            return status;
    }
    *reader = made;
    return SGS_OK;
}

/* The message that is next inside the wrapper must not be compressed. */
static sgs_status check_inside(const sgs_legacy_reader *reader, sgs_error *err)
{
    const int codec = reader->next[SGS_BATCH_PREFIX_BYTES] & SGS_ATTRIBUTE_CODEC_MASK;
    if (codec >= SGS_CODEC_COUNT)
        return sgs_fail(err, SGS_UNSUPPORTED_FORMAT, "wrapper at offset %" PRId64 ": codec id %d inside is unknown",
                        reader->outer.offset, codec);
    return codec == SGS_CODEC_NONE ? SGS_OK : fail_inside(reader, "a message inside is compressed", err);
}

sgs_status sgs_legacy_reader_base_offset(const sgs_legacy_reader *reader, int64_t *offset, sgs_error *err)
{
    SGS_ASSERT(reader->remaining_count == reader->batch.records_count);
    const sgs_status status = reader->is_wrapper ? check_inside(reader, err) : SGS_OK;
    if (status == SGS_OK)
        *offset = reader->batch.base_offset;
    return status;
}

static sgs_status next_inside(sgs_legacy_reader *reader, sgs_legacy_message *message, sgs_error *err)
{
    const sgs_legacy_message *const outer = &reader->outer;
    const uint8_t *const at = reader->next;
    sgs_status status = check_inside(reader, err);
    if (status != SGS_OK)
        return status;
    reader->next += SGS_LOG_OVERHEAD + sgs_load_be_i32(at + SIZE_AT); /* within bounds: survey() */
    sgs_legacy_message parsed;
    status = sgs_legacy_message_parse(at, (size_t)(reader->next - at), &parsed, err);
    if (status != SGS_OK)
        return status;
    if (outer->magic == 1)
        parsed.offset = (int64_t)((uint64_t)parsed.offset + (uint64_t)reader->offset_shift);
    if (parsed.magic == 1) { /* a message of magic 0 in a wrapper of magic 1 has no timestamp all the same */
        parsed.timestamp_type = outer->timestamp_type;
        if (outer->timestamp_type == SGS_LOG_APPEND_TIME)
            parsed.timestamp = outer->timestamp;
    }
    *message = parsed;
    return SGS_OK;
}

sgs_status sgs_legacy_reader_next(sgs_legacy_reader *reader, sgs_legacy_message *message, bool *found, sgs_error *err)
{
    if (reader->remaining_count == 0) {
        *found = false;
        return SGS_OK;
    }
    if (reader->is_wrapper) {
        const sgs_status status = next_inside(reader, message, err);
        if (status != SGS_OK)
            return status;
    } else {
        *message = reader->outer;
    }
    --reader->remaining_count;
    *found = true;
    return SGS_OK;
}

/* ---- as a section of magic 2 ---- */

/* Append the message as a record. Room is there. */
static sgs_status rewrite(const sgs_batch_header *batch, const sgs_legacy_message *message, sgs_buffer *out,
                          sgs_error *err)
{
    int64_t delta;
    if (message->offset < 0 || message->offset == INT64_MAX ||
        __builtin_sub_overflow(message->offset, batch->base_offset, &delta) || delta < INT32_MIN || delta > INT32_MAX)
        return sgs_fail(err, SGS_INVALID_RECORD, "wrapper at offset %" PRId64 ": offset %" PRId64 " inside",
                        batch->last_offset, message->offset);
    const uint8_t *const end = sgs_record_write(out->data + out->size, message->timestamp, (int32_t)delta, message->key,
                                                message->value, NULL, 0);
    out->size = (size_t)(end - out->data);
    return SGS_OK;
}

sgs_status sgs_legacy_section_open(const uint8_t *batch, size_t size, const sgs_codec_table *codecs,
                                   sgs_buffer *scratch, sgs_record_reader *reader, sgs_error *err)
{
    sgs_legacy_reader messages;
    sgs_buffer_clear(scratch);
    sgs_status status = sgs_legacy_reader_open(batch, size, codecs, scratch, &messages, err);
    if (status != SGS_OK)
        return status;

    /* behind the decompressed messages, which stay where they are while they are read */
    const size_t start = scratch->size;
    const size_t present = messages.is_wrapper ? start : (size_t)messages.batch.size_bytes;
    const size_t overhead = (size_t)messages.batch.records_count * RECORD_MAX_OVERHEAD;
    const uint8_t *const before = scratch->data;
    status = sgs_buffer_reserve(scratch, present + overhead, err);
    if (status != SGS_OK)
        return status;
    if (messages.is_wrapper) {
        messages.next = scratch->data + (messages.next - before);
        messages.end = scratch->data + (messages.end - before);
    }
    messages.batch.base_timestamp = 0; /* so that deltas are the timestamps themselves */
    if (messages.batch.magic == 0)
        messages.batch.attributes &= (int16_t)~SGS_ATTRIBUTE_LOG_APPEND_TIME; /* means nothing there */
    for (bool found = true; found;) {
        sgs_legacy_message message = { .offset = 0 };
        status = sgs_legacy_reader_next(&messages, &message, &found, err);
        if (status == SGS_OK && found)
            status = rewrite(&messages.batch, &message, scratch, err);
        if (status != SGS_OK)
            return status;
    }
    sgs_record_reader_init(reader, &messages.batch, scratch->data + start, scratch->size - start);
    return SGS_OK;
}
