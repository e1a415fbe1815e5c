/* A batch may be right by its CRC and still hold any bytes as its records. Opening it and reading its records must work
 * or say why, agree with the format written out plainly, and never read outside the batch. What was read, written again
 * by the builder, reads the same. [format.md 5, DUR-85..DUR-95]
 * INPUT   one byte of flags, then the batch.   ORACLE  the parser below; the builder. */
#include "record/record_section.h"

#include "fuzz/fuzz_batch.h"
#include "fuzz/fuzz_input.h"
#include "record/batch_builder.h"
#include "record/control_record.h"
#include "record_kit.h"

enum { AS_IT_IS = 1, WITHOUT_CRC = 2, SMALL_LIMIT = 4, LIMIT_BYTES = 256 };

/* A number by the rule, bit by bit; false when it does not end in time. */
static bool plain_number(const uint8_t **at, const uint8_t *end, unsigned max_bytes, unsigned width, int64_t *value)
{
    uint64_t pattern = 0;
    for (unsigned i = 0; i < max_bytes; ++i) {
        if (*at == end)
            return false;
        const uint8_t byte = *(*at)++;
        for (unsigned bit = 7 * i; bit < 7 * i + 7 && bit < width; ++bit)
            pattern |= (uint64_t)(byte >> (bit - 7 * i) & 1) << bit;
        if (byte < 0x80) {
            *value = (int64_t)(pattern >> 1) * ((pattern & 1) != 0 ? -1 : 1) - (int64_t)(pattern & 1);
            return true;
        }
    }
    return false;
}

/* A size and as many bytes, all before `end`. */
static bool plain_bytes(const uint8_t **at, const uint8_t *end, bool may_be_null, sgs_bytes *bytes)
{
    int64_t size;
    if (!plain_number(at, end, 5, 32, &size) || size < (may_be_null ? -1 : 0) || size > end - *at)
        return false;
    *bytes = (sgs_bytes){ size < 0 ? NULL : *at, (int32_t)size };
    *at += size < 0 ? 0 : size;
    return true;
}

/* One record at *at by the text of format.md 5, without a thought for speed. */
static bool plain_record(const sgs_batch_header *batch, const uint8_t **at, const uint8_t *section_end,
                         sgs_record *record)
{
    const uint8_t *const start = *at;
    int64_t size, timestamp_delta, offset_delta, headers_count;
    if (!plain_number(at, section_end, 5, 32, &size) || size < 1 || size > section_end - *at)
        return false;
    const uint8_t *const end = *at + size;
    record->attributes = (int8_t)*(*at)++;
    if (!plain_number(at, end, 10, 64, &timestamp_delta) || !plain_number(at, end, 5, 32, &offset_delta) ||
        !plain_bytes(at, end, true, &record->key) || !plain_bytes(at, end, true, &record->value) ||
        !plain_number(at, end, 5, 32, &headers_count) || headers_count < 0 || headers_count > end - *at)
        return false;
    record->headers_count = (int32_t)headers_count;
    record->headers = (sgs_bytes){ *at, (int32_t)(end - *at) };
    for (int64_t i = 0; i < headers_count; ++i) {
        sgs_bytes key, value;
        if (!plain_bytes(at, end, false, &key) || !plain_bytes(at, end, true, &value))
            return false;
    }
    if (*at != end || __builtin_add_overflow(batch->base_offset, offset_delta, &record->offset) || record->offset < 0 ||
        record->offset == INT64_MAX)
        return false;
    record->timestamp = batch->max_timestamp;
    if ((batch->attributes & SGS_ATTRIBUTE_LOG_APPEND_TIME) == 0 &&
        __builtin_add_overflow(batch->base_timestamp, timestamp_delta, &record->timestamp))
        return false;
    /* a negative delta takes 2^31 off, in Java's 32 bits */
    const int64_t sum = (int64_t)batch->base_sequence + offset_delta;
    const int64_t wrapped = offset_delta < 0 || sum > INT32_MAX ? sum - (INT64_C(1) << 31) : sum;
    record->sequence = batch->base_sequence < 0 ? -1 : (int32_t)(uint32_t)(uint64_t)wrapped;
    record->size_bytes = (int32_t)(end - start);
    return true;
}

static bool same_bytes(sgs_bytes a, sgs_bytes b)
{
    return a.size == b.size && (a.data == NULL) == (b.data == NULL) &&
           (a.size <= 0 || memcmp(a.data, b.data, (size_t)a.size) == 0);
}

static void check_same(const sgs_record *found, const sgs_record *expected)
{
    FUZZ_CHECK(found->offset == expected->offset && found->timestamp == expected->timestamp);
    FUZZ_CHECK(same_bytes(found->key, expected->key) && same_bytes(found->value, expected->value));
    FUZZ_CHECK(found->headers_count == expected->headers_count);
}

/* Write the record with the builder; timestamps that Kafka would not write end the attempt. */
static bool rebuild(sgs_batch_builder *builder, const sgs_record *record)
{
    enum { HEADERS_MAX = 64 };
    sgs_record_header headers[HEADERS_MAX];
    sgs_bytes encoded = record->headers;
    sgs_error err;
    if (record->headers_count > HEADERS_MAX)
        return false;
    for (int32_t i = 0; i < record->headers_count; ++i)
        FUZZ_CHECK(sgs_record_next_header(&encoded, &headers[i]));
    FUZZ_CHECK(record->headers_count == 0 || encoded.size == 0);
    const sgs_status status = sgs_batch_builder_append(builder, record->offset, record->timestamp, record->key,
                                                       record->value, headers, record->headers_count, &err);
    FUZZ_CHECK(status == SGS_OK || status == SGS_ILLEGAL_ARGUMENT);
    return status == SGS_OK;
}

static void check_rebuilt(sgs_batch_builder *builder, sgs_record_reader original)
{
    sgs_buffer out, scratch;
    sgs_batch_header header;
    sgs_record_reader reader;
    sgs_error err;
    sgs_buffer_init(&out, kit_memory());
    sgs_buffer_init(&scratch, kit_memory());
    FUZZ_CHECK(sgs_batch_builder_finish(builder, &out, &header, &err) == SGS_OK);
    FUZZ_CHECK(header.size_bytes == (int32_t)out.size);
    if (out.size > 0) {
        FUZZ_CHECK(sgs_record_section_open(out.data, out.size, true, kit_codecs(), &scratch, &reader, &err) == SGS_OK);
        for (bool found = true; found;) {
            sgs_record before, after;
            bool has_before;
            FUZZ_CHECK(sgs_record_reader_next(&original, &before, &has_before, &err) == SGS_OK);
            FUZZ_CHECK(sgs_record_reader_next(&reader, &after, &found, &err) == SGS_OK);
            FUZZ_CHECK(found == has_before);
            if (found)
                check_same(&after, &before);
        }
    }
    sgs_buffer_deinit(&out);
    sgs_buffer_deinit(&scratch);
}

/* Read all records and compare each with the plain parser. @return whether the builder took all of them */
static bool read_all(sgs_record_reader *reader, sgs_batch_builder *builder, bool *is_good)
{
    const uint8_t *at = reader->next;
    int64_t previous = reader->batch.base_offset - 1;
    bool is_rebuilt = true;
    sgs_error err;
    *is_good = true;
    for (int32_t count = 0;; ++count) {
        sgs_record record, plain;
        bool found = false;
        const int32_t remaining = reader->remaining_count;
        const sgs_status status = sgs_record_reader_next(reader, &record, &found, &err);
        FUZZ_CHECK(status == SGS_OK || status == SGS_INVALID_RECORD);
        const bool expected = remaining > 0 && plain_record(&reader->batch, &at, reader->end, &plain) &&
                              (remaining > 1 || at == reader->end);
        FUZZ_CHECK((status == SGS_OK && found) == expected);
        *is_good = status == SGS_OK;
        if (status != SGS_OK || !found)
            return is_rebuilt && *is_good;
        FUZZ_CHECK(count < reader->batch.records_count);
        check_same(&record, &plain);
        FUZZ_CHECK(record.sequence == plain.sequence && record.size_bytes == plain.size_bytes);
        FUZZ_CHECK(record.attributes == plain.attributes);
        sgs_control_type type;
        sgs_end_transaction_marker marker;
        (void)sgs_control_record_type(&record, &type, NULL, &err);
        (void)sgs_control_record_end_transaction(&record, &marker, &err);
        is_rebuilt = is_rebuilt && record.offset > previous && rebuild(builder, &record);
        previous = record.offset;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_input input = { data, size };
    const uint8_t flags = fuzz_take_u8(&input);
    uint8_t *const batch = malloc(input.size + 1); /* exact, but for the byte before it that malloc(0) may lack */
    FUZZ_CHECK(batch != NULL);
    if (input.size > 0)
        memcpy(batch + 1, input.bytes, input.size);
    if ((flags & AS_IT_IS) == 0)
        fuzz_mend_batch(batch + 1, input.size);
    sgs_codec_table codecs = *kit_codecs();
    if ((flags & SMALL_LIMIT) != 0)
        codecs.max_decompressed_batch_bytes = LIMIT_BYTES;
    const bool is_legacy = input.size > 16 && (int8_t)batch[1 + 16] < 2;
    sgs_buffer scratch;
    sgs_record_reader reader;
    sgs_error err;
    sgs_buffer_init(&scratch, kit_memory());
    const sgs_status status =
        sgs_record_section_open(batch + 1, input.size, (flags & WITHOUT_CRC) == 0, &codecs, &scratch, &reader, &err);
    FUZZ_CHECK(status == SGS_OK || status == SGS_CORRUPT_RECORD || status == SGS_INVALID_RECORD ||
               status == SGS_UNSUPPORTED_FORMAT || status == SGS_CODEC || status == SGS_LIMIT_EXCEEDED);
    FUZZ_CHECK(status == SGS_OK || (err.status == status && err.message[0] != '\0'));
    /* messages of magic 0 and 1 are written again, a plain one too, over what was decompressed */
    FUZZ_CHECK((flags & SMALL_LIMIT) == 0 || scratch.size <= LIMIT_BYTES || (is_legacy && scratch.size <= input.size));
    if (status == SGS_OK) {
        sgs_batch_builder builder;
        sgs_batch_options options;
        sgs_batch_builder_init(&builder, kit_memory(), kit_codecs());
        sgs_batch_options_default(&options);
        options.base_offset = reader.batch.base_offset;
        options.codec = (int)(reader.batch.crc % SGS_CODEC_COUNT); /* any */
        FUZZ_CHECK(sgs_batch_builder_start(&builder, &options, &err) == SGS_OK);
        const sgs_record_reader start = reader;
        bool is_good;
        if (read_all(&reader, &builder, &is_good))
            check_rebuilt(&builder, start);
        sgs_batch_builder_deinit(&builder);
    }
    sgs_buffer_deinit(&scratch);
    free(batch);
    return 0;
}
