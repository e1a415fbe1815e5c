/* validate_records.c - the walk over the records of a batch under judgement [format.md 12.4]. */
#include <inttypes.h>

#include "record/record_parse.h"
#include "record/validate_rules.h"

#define TRY(call)                          \
    do {                                   \
        const sgs_status status_ = (call); \
        if (status_ != SGS_OK)             \
            return status_;                \
    } while (0)

sgs_status sgs_append_section_open(const sgs_append_batch *batch, sgs_append_section *section, sgs_error *err)
{
    const sgs_batch_header *const header = &batch->header;
    sgs_log_validator *const validator = batch->validator;
    const size_t size = (size_t)header->size_bytes;
    *section =
        (sgs_append_section){ .records_count = header->records_count, .as_kafka = validator->options.kafka_limits };
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
        TRY(sgs_codec_decompress(validator->codecs, sgs_batch_codec(header), section->next, section_size,
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

/* A size below 0 is null, whichever it is. */
static bool take_bytes(const uint8_t **at, const uint8_t *end, const uint8_t **start, int32_t *size)
{
    if (!sgs_parse_varint(at, end, size) || *size > end - *at)
        return false;
    *start = *size < 0 ? NULL : *at;
    *at += *size < 0 ? 0 : *size;
    return true;
}

/* Kafka DefaultRecord.readFrom, and with `partly` readPartiallyFrom: fields are taken one by one, and where they end the
 * next record begins. */
static sgs_record_fault parse_as_kafka(const uint8_t *at, const uint8_t *end, bool partly, sgs_record_fields *fields)
{
    const char *const beyond = "its fields reach beyond the section";
    int32_t size;
    if (!sgs_parse_varint(&at, end, &size) || size < 0 || at == end)
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

static sgs_record_fault parse(const sgs_append_section *section, const uint8_t *at, sgs_record_fields *fields)
{
    if (section->as_kafka)
        return parse_as_kafka(at, section->end, section->partly, fields);
    return sgs_record_parse(at, section->end, fields);
}

static bool offset_is_good(const sgs_append_walk *walk, const sgs_append_batch *batch, int64_t index,
                           int64_t previous_delta, int32_t delta)
{
    switch (walk->offset_rule) {
    case SGS_OFFSETS_COUNT_FROM_ZERO:
        return (uint64_t)batch->header.base_offset + (uint64_t)(int64_t)delta == (uint64_t)index;
    case SGS_OFFSETS_ASCEND:
        return delta > previous_delta && delta <= batch->last_offset_delta;
    case SGS_OFFSETS_AS_THEY_ARE:
        break;
    }
    return true;
}

/* The loop that every record of every append goes through. A CreateTime topic with its defaults needs from each record
 * that it ends where it says, the order of the offsets and the largest timestamp. */
static sgs_status walk_current(const sgs_append_batch *batch, const sgs_append_section *section, sgs_append_walk *walk,
                               sgs_error *err)
{
    const sgs_batch_header header = batch->header; /* copies: nothing in the loop can change them */
    const sgs_validation_options options = batch->validator->options;
    const bool log_append_time = (header.attributes & SGS_ATTRIBUTE_LOG_APPEND_TIME) != 0;
    const uint8_t *next = section->next;
    int64_t max_timestamp = SGS_NO_TIMESTAMP, previous_delta = -1;
    for (int32_t index = 0; index < section->records_count; ++index) {
        sgs_record_fields fields;
        const sgs_record_fault fault = parse(section, next, &fields);
        if (fault != NULL)
            return fail(batch, index, fault, err);
        next = fields.next;
        int64_t timestamp = header.max_timestamp;
        if (!log_append_time && __builtin_add_overflow(header.base_timestamp, fields.timestamp_delta, &timestamp) &&
            !options.kafka_limits)
            return fail(batch, index, "its timestamp does not fit 64 bits", err); /* [DUR-90] */
        if (timestamp > max_timestamp)
            max_timestamp = timestamp;
        if (log_append_time || options.log_append_time || (options.keys_required && fields.key_size < 0) ||
            !sgs_append_timestamp_is_in_range(&options, timestamp)) /* -1 among them */
            TRY(judge_record(batch, index, fields.key_size >= 0, timestamp, err));
        if (!offset_is_good(walk, batch, index, previous_delta, fields.offset_delta) && walk->bad_offset_index < 0) {
            walk->bad_offset_index = index;
            walk->bad_offset = (int64_t)((uint64_t)header.base_offset + (uint64_t)(int64_t)fields.offset_delta);
        }
        previous_delta = fields.offset_delta;
    }
    if (next != section->end)
        return fail(batch, (int64_t)section->records_count - 1, "bytes are left behind the last record", err);
    walk->records_count = section->records_count;
    walk->max_timestamp = max_timestamp;
    return SGS_OK;
}

static sgs_status fail_checksum(const sgs_append_batch *batch, int64_t index, sgs_error *err)
{
    ++batch->validator->result.metrics.invalid_checksums;
    return sgs_fail(err, SGS_CORRUPT_RECORD, "batch %zu, record %" PRId64 ": its CRC is not that of its bytes",
                    batch->index, index);
}

/* A message inside a wrapper that cannot be read is damaged when its CRC says so. */
static sgs_status damage_comes_first(const sgs_append_batch *batch, const sgs_append_section *section,
                                     const uint8_t *entry, int64_t index, sgs_status status, sgs_error *err)
{
    sgs_error ignored;
    sgs_batch_header header;
    if (!section->legacy.is_wrapper || status != SGS_INVALID_RECORD ||
        sgs_batch_header_load(entry, (size_t)(section->legacy.end - entry), -1, &header, &ignored) != SGS_OK ||
        header.magic != batch->header.magic ||
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
        if (message.magic != batch->header.magic) {
            TRY(sgs_append_note(batch, index, SGS_RECORD_HAS_OTHER_MAGIC, message.magic, err));
            continue;
        }
        if (section->legacy.is_wrapper && !sgs_legacy_message_is_valid(&message)) {
            return fail_checksum(batch, index, err);
        }
        TRY(judge_record(batch, index, message.key.size >= 0, message.timestamp, err));
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
    TRY(batch->header.magic < 2 ? walk_legacy(batch, &section, walk, err) : walk_current(batch, &section, walk, err));
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
    const sgs_record_fault fault = parse(section, section->next, &fields);
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
