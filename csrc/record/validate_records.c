/* validate_records.c - the walk over the records of a batch under judgement [format.md 12.4]. */
#include <inttypes.h>

#include "record/record_parse.h"
#include "record/validate_rules.h"

sgs_status sgs_append_section_open(const sgs_append_batch *batch, sgs_append_section *section, sgs_error *err)
{
    const sgs_batch_header *const header = &batch->header;
    sgs_log_validator *const validator = batch->validator;
    const size_t size = (size_t)header->size_bytes;
    *section = (sgs_append_section){ .records_count = header->records_count,
                                     .max_record_bytes = INT64_MAX,
                                     .as_kafka = validator->options.kafka_limits };
    if (sgs_batch_codec(header) != SGS_CODEC_NONE && validator->codecs != NULL)
        section->max_record_bytes = (int64_t)validator->codecs->max_record_bytes;
    if (header->magic < 2)
        return sgs_legacy_reader_open(batch->data, size, validator->codecs, &validator->scratch, &section->legacy, err);
    if (header->records_count < 0)
        return sgs_fail(err, SGS_INVALID_RECORD, "batch %zu: a records count of %" PRId32, batch->index,
                        header->records_count);
    section->next = section->end = batch->data + SGS_BATCH_HEADER_BYTES;
    if (header->records_count == 0)
        return SGS_OK; /* nothing behind the header is looked at [format.md 4.5] */
    size_t section_size = size - SGS_BATCH_HEADER_BYTES;
    if (sgs_batch_codec(header) != SGS_CODEC_NONE) {
        if (sgs_batch_is_control(header) && !section->as_kafka) /* [DUR-95] */
            return sgs_fail(err, SGS_UNSUPPORTED_FORMAT, "batch %zu: control records compressed with %s", batch->index,
                            sgs_codec_name(sgs_batch_codec(header)));
        sgs_buffer_clear(&validator->scratch);
        SGS_TRY(sgs_codec_decompress(validator->codecs, sgs_batch_codec(header), section->next, section_size,
                                     &validator->scratch, err));
        section->next = validator->scratch.data;
        section_size = validator->scratch.size;
    }
    if ((size_t)header->records_count > section_size / SGS_RECORD_MIN_BYTES) /* [DUR-87] */
        return sgs_fail(err, SGS_INVALID_RECORD, "batch %zu: %" PRId32 " records in %zu bytes", batch->index,
                        header->records_count, section_size);
    section->end = section->next + section_size;
    return SGS_OK;
}

static sgs_status fail(const sgs_append_batch *batch, int64_t index, sgs_record_fault fault, sgs_error *err)
{
    return sgs_fail(err, SGS_INVALID_RECORD, "batch %zu, record %" PRId64 ": %s", batch->index, index, fault);
}

static sgs_status fail_size(const sgs_append_batch *batch, int64_t index, int64_t size_bytes,
                            const sgs_append_section *section, sgs_error *err)
{
    (void)sgs_record_fail_size(size_bytes, section->max_record_bytes, err);
    return sgs_say(err, "batch %zu, record %" PRId64 ": it is larger than a record may be", batch->index, index);
}

/* What is wrong with a record whose fields are known: the first that applies [format.md 12.4]. */
static sgs_status judge_record(const sgs_append_batch *batch, int64_t index, bool has_key, int64_t timestamp,
                               sgs_error *err)
{
    const sgs_validation_options *const options = &batch->validator->options;
    if (options->keys_required && !has_key)
        return sgs_append_note(batch, index, SGS_RECORD_HAS_NO_KEY, 0, err);
    if (!options->log_append_time && timestamp != SGS_NO_TIMESTAMP) {
        if (!sgs_append_timestamp_is_in_range(options, timestamp))
            return sgs_append_note(batch, index, SGS_RECORD_TIMESTAMP_OUT_OF_RANGE, timestamp, err);
    } else if (batch->header.magic > 0 && (batch->header.attributes & SGS_ATTRIBUTE_LOG_APPEND_TIME) != 0) {
        return sgs_append_note(batch, index, SGS_RECORD_TIMESTAMP_TYPE, timestamp, err);
    }
    return SGS_OK;
}

/* A size below 0 is null, whichever it is; what is written again says -1. */
static bool take_bytes(const uint8_t **at, const uint8_t *end, const uint8_t **start, int32_t *size)
{
    if (!sgs_parse_varint(at, end, size) || *size > end - *at)
        return false;
    if (*size < 0)
        *size = -1;
    *start = *size < 0 ? NULL : *at;
    *at += *size < 0 ? 0 : *size;
    return true;
}

/* Kafka DefaultRecord.readFrom, and with `partly` readPartiallyFrom: fields are taken one by one, and where they end the
 * next record begins; what the size says is not looked at then, not even whether it is negative. */
static sgs_record_fault parse_as_kafka(const uint8_t *at, const uint8_t *end, bool partly, sgs_record_fields *fields)
{
    const char *const beyond = "its fields reach beyond the section";
    int32_t size;
    if (!sgs_parse_varint(&at, end, &size) || (size < 0 && !partly) || at == end)
        return "its size is negative or not a number";
    const int64_t left = end - at;
    const uint8_t *const start = at;
    fields->attributes = (int8_t)*at++;
    if (!sgs_parse_varlong(&at, end, &fields->timestamp_delta) || !sgs_parse_varint(&at, end, &fields->offset_delta) ||
        !take_bytes(&at, end, &fields->key, &fields->key_size) ||
        !take_bytes(&at, end, &fields->value, &fields->value_size) ||
        !sgs_parse_varint(&at, end, &fields->headers_count) || fields->headers_count < 0)
        return beyond;
    fields->headers = at;
    for (int64_t i = 0; i < 2 * (int64_t)fields->headers_count; ++i) {
        const uint8_t *content;
        int32_t length;
        if (!take_bytes(&at, end, &content, &length))
            return beyond;
        if (i % 2 == 0 && length < 0)
            return "a header key is null";
    }
    fields->next = at;
    return partly || (size <= left && at - start == size) ? NULL : "it does not end at its declared size";
}

/* What a walk wants to know of a record. */
typedef struct short_fields {
    const uint8_t *next;
    int64_t timestamp_delta;
    int32_t offset_delta, key_size;
} short_fields;

enum { COMMON_HEAD_BYTES = 16 }; /* more than size, attributes, deltas and key size take below */

/* 1 to 3 bytes of a number that are known to be there; moves *at behind them. @return false for a longer one */
__attribute__((always_inline)) static inline bool take_short(const uint8_t **at, uint32_t *pattern)
{
    const uint8_t *const bytes = *at;
    *pattern = bytes[0];
    *at = bytes + 1;
    if (bytes[0] < 0x80)
        return true;
    *pattern = (bytes[0] & 0x7FU) | ((uint32_t)bytes[1] << 7);
    *at = bytes + 2;
    if (bytes[1] < 0x80)
        return true;
    *pattern = (bytes[0] & 0x7FU) | ((bytes[1] & 0x7FU) << 7) | ((uint32_t)bytes[2] << 14);
    *at = bytes + 3;
    return bytes[2] < 0x80;
}

/* The record that nearly all are: numbers of at most three bytes, a key of at most 63 or null, no headers. One look at
 * what is left serves all of its first numbers. @return false for any other, be it good or bad */
__attribute__((always_inline)) static inline bool parse_common(const uint8_t *at, const uint8_t *end,
                                                               short_fields *fields)
{
    uint32_t size, timestamp_delta, offset_delta, value_size;
    if (end - at < COMMON_HEAD_BYTES || !take_short(&at, &size) || (size & 1) != 0 || (int64_t)(size >> 1) > end - at)
        return false;
    const uint8_t *const next = at + (size >> 1);
    ++at; /* attributes */
    if (!take_short(&at, &timestamp_delta) || !take_short(&at, &offset_delta))
        return false;
    const uint32_t key = *at++;
    if (key >= 0x80 || ((key & 1) != 0 && key != 1))
        return false;
    int64_t left = (next - at) - (int64_t)(key >> 1);
    if (left < 4) /* a value size at its longest here, and the header count */
        return false;
    at += key >> 1;
    const uint8_t *const value = at;
    if (!take_short(&at, &value_size) || ((value_size & 1) != 0 && value_size != 1))
        return false;
    left -= (at - value) + (int64_t)(value_size >> 1);
    if (left != 1 || next[-1] != 0)
        return false;
    *fields = (short_fields){ .next = next,
                              .timestamp_delta = sgs_zigzag_decode32(timestamp_delta),
                              .offset_delta = sgs_zigzag_decode32(offset_delta),
                              .key_size = (key & 1) != 0 ? -1 : (int32_t)(key >> 1) };
    return true;
}

/* Any record. */
static sgs_record_fault parse(const sgs_append_section *section, const uint8_t *at, short_fields *fields)
{
    sgs_record_fields all;
    const sgs_record_fault fault = section->as_kafka ? parse_as_kafka(at, section->end, section->partly, &all)
                                                     : sgs_record_parse(at, section->end, &all);
    if (fault == NULL)
        *fields = (short_fields){ all.next, all.timestamp_delta, all.offset_delta, all.key_size };
    return fault;
}

/* What a record of a batch is expected to be: one that is needs no closer look. */
typedef struct expectation {
    uint64_t timestamp_shift, timestamp_span; /* timestamp + shift <= span, modulo 2^64: it is in range */
    int64_t offset_shift;                     /* the offset delta of record i is i + offset_shift */
    int32_t least_key_size;
    bool none; /* every record is looked at closer */
} expectation;

static expectation expect(const sgs_append_batch *batch, const sgs_append_walk *walk)
{
    const sgs_validation_options *const options = &batch->validator->options;
    const int64_t before = options->timestamp_before_max_ms, after = options->timestamp_after_max_ms;
    expectation expected = {
        .timestamp_shift = (uint64_t)before - (uint64_t)options->now_ms,
        .timestamp_span = (uint64_t)before + (uint64_t)after,
        .offset_shift = walk->offset_rule == SGS_OFFSETS_COUNT_FROM_ZERO ? -batch->header.base_offset : 0,
        .least_key_size = options->keys_required ? 0 : INT32_MIN,
        .none = (batch->header.attributes & SGS_ATTRIBUTE_LOG_APPEND_TIME) != 0 || before < 0 || after < 0 ||
                batch->header.base_offset < 0,
    };
    if (options->log_append_time) /* the topic takes any */
        expected.timestamp_span = UINT64_MAX;
    return expected;
}

static bool offset_is_good(const sgs_append_walk *walk, const sgs_append_batch *batch, int64_t index, int32_t delta)
{
    switch (walk->offset_rule) {
    case SGS_OFFSETS_COUNT_FROM_ZERO:
        return (uint64_t)batch->header.base_offset + (uint64_t)(int64_t)delta == (uint64_t)index;
    case SGS_OFFSETS_FILL_BATCH:
        return delta == index;
    case SGS_OFFSETS_AS_THEY_ARE:
        break;
    }
    return true;
}

static sgs_status look_closer(const sgs_append_batch *batch, int64_t index, int32_t offset_delta, bool has_key,
                              int64_t timestamp, sgs_append_walk *walk, sgs_error *err)
{
    if (walk->bad_offset_index < 0 && !offset_is_good(walk, batch, index, offset_delta)) {
        walk->bad_offset_index = index;
        walk->bad_offset = (int64_t)((uint64_t)batch->header.base_offset + (uint64_t)(int64_t)offset_delta);
    }
    return judge_record(batch, index, has_key, timestamp, err);
}

/* The loop that every record of every append goes through: a CreateTime topic with its defaults needs from a record
 * that it ends where it says, its offset delta and its timestamp. */
static sgs_status walk_current(const sgs_append_batch *batch, const sgs_append_section *section, sgs_append_walk *walk,
                               sgs_error *err)
{
    const expectation expected = expect(batch, walk); /* copies live in registers */
    const int64_t base_timestamp = batch->header.base_timestamp, append_time = batch->header.max_timestamp;
    const bool log_append_time = (batch->header.attributes & SGS_ATTRIBUTE_LOG_APPEND_TIME) != 0;
    const uint8_t *next = section->next, *const end = section->end;
    const int64_t count = section->records_count, max_record_bytes = section->max_record_bytes;
    int64_t max_timestamp = SGS_NO_TIMESTAMP;
    for (int64_t index = 0; index < count; ++index) {
        short_fields fields;
        if (!parse_common(next, end, &fields)) {
            short_fields any;
            const sgs_record_fault fault = parse(section, next, &any);
            if (fault != NULL)
                return fail(batch, index, fault, err);
            fields = any;
        }
        if (fields.next - next > max_record_bytes)
            return fail_size(batch, index, fields.next - next, section, err);
        next = fields.next;
        int64_t
            timestamp; /* also where an append time hides it: the batch may lose its bit, and must be readable then */
        if (__builtin_add_overflow(base_timestamp, fields.timestamp_delta, &timestamp) && !section->as_kafka)
            return fail(batch, index, "its timestamp does not fit 64 bits", err); /* [DUR-90] */
        if (log_append_time)
            timestamp = append_time;
        max_timestamp = timestamp > max_timestamp ? timestamp : max_timestamp;
        if (fields.offset_delta != index + expected.offset_shift || fields.key_size < expected.least_key_size ||
            (uint64_t)timestamp + expected.timestamp_shift > expected.timestamp_span || expected.none)
            SGS_TRY(look_closer(batch, index, fields.offset_delta, fields.key_size >= 0, timestamp, walk, err));
    }
    if (next != end)
        return fail(batch, count - 1, "bytes are left after the last record", err);
    walk->records_count = count;
    walk->max_timestamp = max_timestamp;
    return SGS_OK;
}

static sgs_status fail_checksum(const sgs_append_batch *batch, int64_t index, sgs_error *err)
{
    ++batch->validator->result.metrics.invalid_checksums;
    return sgs_fail(err, SGS_CORRUPT_RECORD, "batch %zu, record %" PRId64 ": its CRC is not that of its bytes",
                    batch->index, index);
}

/* A message inside a wrapper that cannot be read is damaged when its CRC says so; that none inside is compressed comes
 * before either. */
static sgs_status damage_comes_first(const sgs_append_batch *batch, const sgs_append_section *section,
                                     const uint8_t *entry, int64_t index, sgs_status status, sgs_error *err)
{
    sgs_error ignored;
    sgs_batch_header header;
    if (!section->legacy.is_wrapper || status != SGS_INVALID_RECORD ||
        sgs_batch_header_load(entry, (size_t)(section->legacy.end - entry), -1, &header, &ignored) != SGS_OK ||
        header.magic != batch->header.magic || sgs_batch_codec(&header) != SGS_CODEC_NONE ||
        sgs_batch_check(entry, (size_t)header.size_bytes, -1, &ignored) == SGS_OK)
        return status;
    return fail_checksum(batch, index, err);
}

/* Messages of magic 0 and 1. Those inside a wrapper have a CRC of their own, which nobody has looked at yet. */
static sgs_status walk_legacy(const sgs_append_batch *batch, sgs_append_section *section, sgs_append_walk *walk,
                              sgs_error *err)
{
    for (int64_t index = 0;; ++index) {
        sgs_legacy_message message;
        bool found;
        const uint8_t *const entry = section->legacy.next;
        const sgs_status status = sgs_legacy_reader_next(&section->legacy, &message, &found, err);
        if (status != SGS_OK)
            return damage_comes_first(batch, section, entry, index, status, err);
        if (!found)
            return SGS_OK;
        walk->records_count = index + 1;
        if (message.size_bytes > section->max_record_bytes && section->legacy.is_wrapper)
            return fail_size(batch, index, message.size_bytes, section, err);
        if (message.magic != batch->header.magic) {
            SGS_TRY(sgs_append_note(batch, index, SGS_RECORD_HAS_OTHER_MAGIC, message.magic, err));
            continue;
        }
        if (section->legacy.is_wrapper && !sgs_legacy_message_is_valid(&message)) {
            return fail_checksum(batch, index, err);
        }
        SGS_TRY(judge_record(batch, index, message.key.size >= 0, message.timestamp, err));
        if (message.timestamp > walk->max_timestamp)
            walk->max_timestamp = message.timestamp;
        if (walk->offset_rule == SGS_OFFSETS_COUNT_FROM_ZERO && message.offset != index && walk->bad_offset_index < 0) {
            walk->bad_offset_index = index;
            walk->bad_offset = message.offset;
        }
    }
}

sgs_status sgs_append_batch_walk(const sgs_append_batch *batch, sgs_append_section section, sgs_append_walk *walk,
                                 sgs_error *err)
{
    walk->records_count = 0;
    walk->max_timestamp = SGS_NO_TIMESTAMP;
    walk->bad_offset_index = -1;
    SGS_TRY(batch->header.magic < 2 ? walk_legacy(batch, &section, walk, err)
                                    : walk_current(batch, &section, walk, err));
    return sgs_append_judge(batch, err);
}

sgs_status sgs_append_section_next(sgs_append_section *section, const sgs_append_batch *batch, sgs_record *record,
                                   bool *found, sgs_error *err)
{
    if (batch->header.magic < 2) {
        sgs_legacy_message message;
        const sgs_status status = sgs_legacy_reader_next(&section->legacy, &message, found, err);
        if (status == SGS_OK && *found)
            *record = (sgs_record){
                .offset = message.offset, .timestamp = message.timestamp, .key = message.key, .value = message.value
            };
        return status;
    }
    *found = section->records_count > 0;
    if (!*found)
        return SGS_OK;
    sgs_record_fields fields;
    const sgs_record_fault fault = section->as_kafka
                                       ? parse_as_kafka(section->next, section->end, section->partly, &fields)
                                       : sgs_record_parse(section->next, section->end, &fields);
    if (fault != NULL)
        return fail(batch, (int64_t)batch->header.records_count - section->records_count, fault, err);
    int64_t timestamp = batch->header.max_timestamp;
    if ((batch->header.attributes & SGS_ATTRIBUTE_LOG_APPEND_TIME) == 0)
        timestamp = (int64_t)((uint64_t)batch->header.base_timestamp + (uint64_t)fields.timestamp_delta);
    *record = (sgs_record){
        .offset = (int64_t)((uint64_t)batch->header.base_offset + (uint64_t)(int64_t)fields.offset_delta),
        .timestamp = timestamp,
        .key = { fields.key, fields.key_size },
        .value = { fields.value, fields.value_size },
        .headers_count = fields.headers_count,
        .headers = { fields.headers, (int32_t)(fields.next - fields.headers) },
    };
    section->next = fields.next;
    --section->records_count;
    return SGS_OK;
}
