/* legacy_records.c - Kafka AbstractLegacyRecordBatch.DeepRecordsIterator, in two passes over the decompressed bytes
 * instead of a list: the first counts and finds the last offset, the second hands out. */
#include "record/legacy_records.h"

#include <inttypes.h>
#include <string.h>

#include "base/bytes.h"
#include "base/varint.h"
#include "record/lz4_header.h"
#include "record/record_parse.h"

enum {
    SIZE_AT = 8,
    /* A record of magic 2 at its longest: what is before its key, and all but key and value. At magic 0, whose timestamp
     * is -1, the timestamp takes one byte of the ten. */
    BEFORE_KEY_MAX = 5 + 1 + 10 + 5 + 5,          /* size, attributes, timestamp, offset, key size */
    RECORD_MAX_OVERHEAD = BEFORE_KEY_MAX + 5 + 1, /* value size, header count */
    V0_TIMESTAMP_SAVING = 9,
};
/* So a record fits where its message was, and each part of it is written before the place where the same part of the
 * message begins, or at it: nothing is written over before it was read. */
_Static_assert(BEFORE_KEY_MAX <= SGS_LEGACY_V1_OVERHEAD - 4, "the key of magic 1 is not written over");
_Static_assert(BEFORE_KEY_MAX - V0_TIMESTAMP_SAVING <= SGS_LEGACY_V0_OVERHEAD - 4, "nor that of magic 0");
_Static_assert(RECORD_MAX_OVERHEAD <= (int)SGS_LEGACY_V1_OVERHEAD, "a record is no larger than its message of magic 1");
_Static_assert(RECORD_MAX_OVERHEAD - V0_TIMESTAMP_SAVING <= (int)SGS_LEGACY_V0_OVERHEAD, "nor than one of magic 0");

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
    SGS_ASSERT(reader->remaining_count == reader->batch.records_count, err);
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

/* Write the message as a record to `*out` and move it behind. Room is there. */
static sgs_status rewrite(const sgs_batch_header *batch, const sgs_legacy_message *message, uint8_t **out,
                          sgs_error *err)
{
    int64_t delta;
    if (!sgs_is_offset(message->offset) || __builtin_sub_overflow(message->offset, batch->base_offset, &delta) ||
        delta < INT32_MIN || delta > INT32_MAX)
        return sgs_fail(err, SGS_INVALID_RECORD, "wrapper at offset %" PRId64 ": offset %" PRId64 " inside",
                        batch->last_offset, message->offset);
    *out = sgs_record_write_fields(*out, message->timestamp, (int32_t)delta, message->key, message->value, 0, 0);
    return SGS_OK;
}

static sgs_status check_size(const sgs_legacy_reader *messages, const sgs_legacy_message *message, int64_t limit,
                             sgs_error *err)
{
    if (message->size_bytes <= limit)
        return SGS_OK;
    (void)sgs_record_fail_size(message->size_bytes, limit, err);
    return sgs_say(err,
                   "wrapper at offset %" PRId64 ": the message of offset %" PRId64 " is larger than a record may be",
                   messages->batch.last_offset, message->offset);
}

/* Write all messages again, at `out`. `*are_stamped`: all of them have the append time of the entry. */
static sgs_status rewrite_all(sgs_legacy_reader *messages, int64_t limit, uint8_t **out, bool *are_stamped,
                              sgs_error *err)
{
    *are_stamped = true;
    for (;;) {
        sgs_legacy_message message;
        bool found;
        SGS_TRY(sgs_legacy_reader_next(messages, &message, &found, err));
        if (!found)
            return SGS_OK;
        SGS_TRY(check_size(messages, &message, limit, err));
        SGS_TRY(rewrite(&messages->batch, &message, out, err));
        SGS_ASSERT(!messages->is_wrapper || *out <= messages->next, err);
        *are_stamped = *are_stamped && message.timestamp_type == SGS_LOG_APPEND_TIME &&
                       message.timestamp == messages->batch.max_timestamp;
    }
}

sgs_status sgs_legacy_section_open(const uint8_t *batch, size_t size, const sgs_codec_table *codecs,
                                   sgs_buffer *scratch, sgs_record_reader *reader, sgs_error *err)
{
    sgs_legacy_reader messages;
    sgs_buffer_clear(scratch);
    SGS_TRY(sgs_legacy_reader_open(batch, size, codecs, scratch, &messages, err));
    const int64_t limit = messages.is_wrapper ? (int64_t)codecs->max_record_bytes : INT64_MAX;
    if (!messages.is_wrapper)
        SGS_TRY(sgs_buffer_reserve(scratch, (size_t)messages.batch.size_bytes, err));
    messages.batch.base_timestamp = 0; /* so that deltas are the timestamps themselves */
    uint8_t *out = scratch->data;      /* over the decompressed messages: memory is what the limit counts [DUR-92] */
    bool are_stamped;
    SGS_TRY(rewrite_all(&messages, limit, &out, &are_stamped, err));
    scratch->size = (size_t)(out - scratch->data);
    if (!are_stamped) /* a message of magic 0 has no timestamp, whatever is around it; at magic 0 the bit means nothing */
        messages.batch.attributes &= (int16_t)~SGS_ATTRIBUTE_LOG_APPEND_TIME;
    sgs_record_reader_init(reader, &messages.batch, scratch->data, scratch->size);
    return SGS_OK;
}
