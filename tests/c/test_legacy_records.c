/* test_legacy_records.c - entries of magic 0 and 1: built, opened, their messages read, and read as records of magic 2
 * [format.md 7.2, 10]. */
#include "record/legacy_records.h"

#include <limits.h>
#include <string.h>

#include "base/bytes.h"
#include "record/legacy_builder.h"
#include "record/record_section.h"
#include "record_kit.h"
#include "test.h"

static sgs_error err;

enum { MESSAGES = 3 };

/* MESSAGES messages "k" = "v" at T, T+1, ... with these offsets, as one entry; for codec NONE as many entries. */
static sgs_buffer build(int8_t magic, int codec, bool log_append_time, const int64_t *offsets)
{
    sgs_legacy_builder builder;
    sgs_buffer out;
    sgs_legacy_builder_init(&builder, kit_memory(), kit_codecs());
    sgs_buffer_init(&out, kit_memory());
    const sgs_legacy_options options = {
        .base_offset = offsets[0],
        .log_append_time = log_append_time,
        .log_append_timestamp = EXAMPLE_T + 99,
        .codec = codec,
        .level = INT_MIN,
        .magic = magic,
    };
    bool is_good = EXPECT_OK(sgs_legacy_builder_start(&builder, &options, &err), &err);
    for (int64_t i = 0; is_good && i < MESSAGES; ++i)
        is_good = EXPECT_OK(
            sgs_legacy_builder_append(&builder, offsets[i], EXAMPLE_T + i, kit_text("k"), kit_text("v"), &err), &err);
    if (is_good)
        EXPECT_OK(sgs_legacy_builder_finish(&builder, &out, &err), &err);
    EXPECT_STATUS(sgs_legacy_builder_finish(&builder, &out, &err), SGS_ILLEGAL_STATE);
    sgs_legacy_builder_deinit(&builder);
    return out;
}

static void expect_messages(const sgs_buffer *entry, int8_t magic, bool log_append_time, const int64_t *offsets)
{
    sgs_buffer scratch;
    sgs_legacy_reader reader;
    sgs_legacy_message message;
    bool found;
    sgs_buffer_init(&scratch, kit_memory());
    if (EXPECT_OK(sgs_legacy_reader_open(entry->data, entry->size, kit_codecs(), &scratch, &reader, &err), &err)) {
        EXPECT_EQ_I64(reader.batch.base_offset, offsets[0]);
        EXPECT_EQ_I64(reader.batch.last_offset, offsets[MESSAGES - 1]);
        EXPECT_EQ_I64(reader.batch.records_count, MESSAGES);
        for (int64_t i = 0; i < MESSAGES; ++i) {
            const int64_t timestamp = log_append_time ? EXAMPLE_T + 99 : EXAMPLE_T + i;
            if (!EXPECT_OK(sgs_legacy_reader_next(&reader, &message, &found, &err), &err) || !EXPECT_TRUE(found))
                break;
            EXPECT_EQ_I64(message.offset, offsets[i]);
            EXPECT_EQ_I64(message.timestamp, magic == 0 ? -1 : timestamp);
            EXPECT_EQ_I64(message.timestamp_type, magic == 0 ? -1 : log_append_time);
            EXPECT_TRUE(sgs_legacy_message_is_valid(&message));
        }
        EXPECT_OK(sgs_legacy_reader_next(&reader, &message, &found, &err), &err);
        EXPECT_TRUE(!found);
    }
    sgs_record_reader records;
    if (EXPECT_OK(sgs_record_section_open(entry->data, entry->size, true, kit_codecs(), &scratch, &records, &err),
                  &err)) {
        EXPECT_EQ_I64(sgs_batch_timestamp_type(&records.batch), magic == 0 ? -1 : log_append_time);
        for (int64_t i = 0; i < MESSAGES; ++i) {
            sgs_record record;
            if (!EXPECT_OK(sgs_record_reader_next(&records, &record, &found, &err), &err) || !EXPECT_TRUE(found))
                break;
            EXPECT_EQ_I64(record.offset, offsets[i]);
            EXPECT_EQ_I64(record.timestamp, magic == 0 ? -1 : log_append_time ? EXAMPLE_T + 99 : EXAMPLE_T + i);
            EXPECT_EQ_I64(record.sequence, -1);
            EXPECT_EQ_I64(record.headers_count, 0);
            EXPECT_TRUE(record.key.size == 1 && record.key.data[0] == 'k' && record.value.data[0] == 'v');
        }
    }
    sgs_buffer_deinit(&scratch);
}

/* MemoryRecordsBuilderTest.testCompressionRateV0, testCompressionRateV1: what they build, read back */
TEST(wrappers_give_the_offsets_and_times_that_went_in)
{
    static const int64_t runs[][MESSAGES] = { { 0, 1, 2 }, { 500, 501, 502 }, { 7, 100, 4000000000 - 2147483647 } };
    static const int codecs[] = { SGS_CODEC_GZIP, SGS_CODEC_SNAPPY, SGS_CODEC_LZ4 };
    for (int8_t magic = 0; magic <= 1; ++magic)
        for (size_t codec = 0; codec < sizeof codecs / sizeof codecs[0]; ++codec)
            for (size_t run = 0; run < sizeof runs / sizeof runs[0]; ++run)
                for (int log_append_time = 0; log_append_time <= magic; ++log_append_time) {
                    sgs_buffer entry = build(magic, codecs[codec], log_append_time, runs[run]);
                    EXPECT_EQ_I64(sgs_load_be_i64(entry.data), runs[run][MESSAGES - 1]);
                    expect_messages(&entry, magic, log_append_time, runs[run]);
                    sgs_buffer_deinit(&entry);
                }
}

TEST(without_a_codec_each_message_is_an_entry)
{
    const int64_t offsets[MESSAGES] = { 42, 50, 51 };
    sgs_buffer entries = build(1, SGS_CODEC_NONE, false, offsets);
    const uint8_t *at = entries.data;
    sgs_buffer scratch;
    sgs_buffer_init(&scratch, kit_memory());
    for (int64_t i = 0; i < MESSAGES; ++i, at += 36) {
        sgs_record_reader reader;
        sgs_record record;
        bool found;
        REQUIRE_OK(sgs_record_section_open(at, 36, true, NULL, &scratch, &reader, &err), &err);
        REQUIRE_OK(sgs_record_reader_next(&reader, &record, &found, &err), &err);
        EXPECT_EQ_I64(record.offset, offsets[i]);
        EXPECT_EQ_I64(record.timestamp, EXAMPLE_T + i);
        REQUIRE_OK(sgs_record_reader_next(&reader, &record, &found, &err), &err);
        EXPECT_TRUE(!found);
    }
    EXPECT_EQ_I64(at - entries.data, entries.size);
    sgs_buffer_deinit(&scratch);
    sgs_buffer_deinit(&entries);
}

/* A wrapper of `magic` around `inside`, stored with 'S' as "gzip". */
static sgs_buffer wrap(int8_t magic, int64_t offset, int codec, const uint8_t *inside, size_t size)
{
    uint8_t value[512] = { 'S' };
    sgs_buffer out;
    if (size > 0)
        memcpy(value + 1, inside, size);
    const sgs_bytes bytes = { inside == NULL ? NULL : value, inside == NULL ? -1 : (int32_t)size + 1 };
    sgs_buffer_init(&out, kit_memory());
    if (EXPECT_OK(sgs_buffer_reserve(&out, sizeof value + SGS_LEGACY_V1_OVERHEAD, &err), &err))
        out.size = (size_t)(sgs_legacy_message_write(out.data, magic, offset, EXAMPLE_T, (unsigned)codec,
                                                     kit_text(NULL), bytes) -
                            out.data);
    return out;
}

static sgs_status read_all(const sgs_buffer *entry, int64_t *first_offset)
{
    sgs_buffer scratch;
    sgs_legacy_reader reader;
    sgs_buffer_init(&scratch, kit_memory());
    sgs_status status = sgs_legacy_reader_open(entry->data, entry->size, kit_codecs(), &scratch, &reader, &err);
    if (status == SGS_OK)
        status = sgs_legacy_reader_base_offset(&reader, first_offset, &err);
    for (bool found = true; status == SGS_OK && found;) {
        sgs_legacy_message message;
        status = sgs_legacy_reader_next(&reader, &message, &found, &err);
    }
    sgs_buffer_deinit(&scratch);
    return status;
}

/* [format.md 7.2] AbstractLegacyRecordBatchTest.testSetLastOffsetCompressed, and the errors of DeepRecordsIterator */
TEST(wrappers_that_are_none_are_refused)
{
    const kit_bytes inside = kit_hex(EXAMPLE_V1); /* offset 42 */
    kit_bytes compressed = inside, short_size = inside;
    compressed.data[17] = SGS_CODEC_GZIP;
    short_size.data[11] = 13;
    const struct {
        int64_t offset;
        const uint8_t *inside;
        size_t size;
        int codec;
        sgs_status expected;
    } cases[] = {
        { 42, inside.data, inside.size, SGS_CODEC_GZIP, SGS_OK },
        { 0, inside.data, inside.size, SGS_CODEC_GZIP, SGS_OK }, /* some producers send 0: inner offsets as they are */
        { 41, inside.data, inside.size, SGS_CODEC_GZIP, SGS_INVALID_RECORD },
        { 42, inside.data, inside.size, SGS_CODEC_ZSTD, SGS_INVALID_RECORD },
        { 42, inside.data, inside.size, 5, SGS_UNSUPPORTED_FORMAT },
        { 42, NULL, 0, SGS_CODEC_GZIP, SGS_INVALID_RECORD },
        { 42, inside.data, 0, SGS_CODEC_GZIP, SGS_INVALID_RECORD },
        { 42, inside.data, inside.size - 1, SGS_CODEC_GZIP, SGS_INVALID_RECORD }, /* cut short: none is left */
        { 42, compressed.data, compressed.size, SGS_CODEC_GZIP, SGS_INVALID_RECORD },
        { 42, short_size.data, short_size.size, SGS_CODEC_GZIP, SGS_CORRUPT_RECORD },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        int64_t first_offset = -1;
        sgs_buffer entry = wrap(1, cases[i].offset, cases[i].codec, cases[i].inside, cases[i].size);
        EXPECT_STATUS(read_all(&entry, &first_offset), cases[i].expected);
        if (cases[i].expected == SGS_OK)
            EXPECT_EQ_I64(first_offset, 42);
        sgs_buffer_deinit(&entry);
    }
}

/* KAFKA-4298: old brokers left messages of magic 0 in wrappers of magic 1. */
TEST(a_message_of_magic_0_in_a_wrapper_of_magic_1_is_read)
{
    const kit_bytes inside = kit_hex(EXAMPLE_V0);
    int64_t first_offset = -1;
    sgs_buffer entry = wrap(1, 142, SGS_CODEC_GZIP, inside.data, inside.size);
    EXPECT_OK(read_all(&entry, &first_offset), &err);
    EXPECT_EQ_I64(first_offset, 142);
    sgs_buffer_deinit(&entry);
}

/* [DUR-89] Kafka would hand them out; nobody above could hold them. */
TEST(offsets_below_zero_and_too_far_apart_are_no_records)
{
    for (int round = 0; round < 2; ++round) {
        kit_bytes inside = kit_hex(EXAMPLE_V0);
        memcpy(inside.data + inside.size, inside.data, inside.size);
        sgs_store_be_i64(inside.data, round == 0 ? -1 : 0);
        sgs_store_be_i64(inside.data + inside.size, INT64_C(1) << 31);
        sgs_buffer entry = wrap(0, INT64_C(1) << 31, SGS_CODEC_GZIP, inside.data, 2 * inside.size);
        int64_t first_offset;
        EXPECT_OK(read_all(&entry, &first_offset), &err);
        sgs_buffer scratch;
        sgs_record_reader reader;
        sgs_buffer_init(&scratch, kit_memory());
        EXPECT_STATUS(sgs_record_section_open(entry.data, entry.size, true, kit_codecs(), &scratch, &reader, &err),
                      SGS_INVALID_RECORD);
        sgs_buffer_deinit(&scratch);
        sgs_buffer_deinit(&entry);
    }
}

/* Messages of both magics in one wrapper that has the append time. */
TEST(a_message_of_magic_0_has_no_append_time) /* format.md 7.2 */
{
    uint8_t inside[200];
    uint8_t *end = sgs_legacy_message_write(inside, 0, 0, 0, 0, kit_text("k"), kit_text("old"));
    end = sgs_legacy_message_write(end, 1, 1, EXAMPLE_T + 5, 0, kit_text(NULL), kit_text("new"));
    sgs_buffer entry = wrap(1, 1, SGS_CODEC_GZIP | SGS_ATTRIBUTE_LOG_APPEND_TIME, inside, (size_t)(end - inside));
    sgs_buffer scratch;
    sgs_record_reader reader;
    sgs_record record;
    bool found;
    sgs_buffer_init(&scratch, kit_memory());
    REQUIRE_OK(sgs_record_section_open(entry.data, entry.size, false, kit_codecs(), &scratch, &reader, &err), &err);
    REQUIRE_OK(sgs_record_reader_next(&reader, &record, &found, &err), &err);
    EXPECT_EQ_I64(record.timestamp, -1);
    EXPECT_TRUE(record.key.size == 1 && record.value.size == 3 && memcmp(record.value.data, "old", 3) == 0);
    REQUIRE_OK(sgs_record_reader_next(&reader, &record, &found, &err), &err);
    EXPECT_EQ_I64(record.timestamp, EXAMPLE_T); /* the wrapper's */
    EXPECT_TRUE(record.key.size == -1 && record.value.size == 3 && memcmp(record.value.data, "new", 3) == 0);
    sgs_buffer_deinit(&scratch);
    sgs_buffer_deinit(&entry);
}

/* Records go where their messages were: what was decompressed is all that is kept [DUR-92, DUR-102]. */
TEST(the_records_of_a_wrapper_take_no_memory_beside_its_messages)
{
    enum { COUNT = 20000 };
    for (int8_t magic = 0; magic <= 1; ++magic) {
        sgs_legacy_builder builder;
        const sgs_legacy_options options = {
            .base_offset = INT32_MAX, .codec = SGS_CODEC_GZIP, .level = INT_MIN, .magic = magic
        };
        sgs_buffer entry, scratch;
        sgs_record_reader reader;
        sgs_legacy_builder_init(&builder, kit_memory(), kit_codecs());
        sgs_buffer_init(&entry, kit_memory());
        sgs_buffer_init(&scratch, kit_memory());
        REQUIRE_OK(sgs_legacy_builder_start(&builder, &options, &err), &err);
        for (int64_t i = 0; i < COUNT; ++i)
            REQUIRE_OK(sgs_legacy_builder_append(&builder, INT32_MAX + i * 100000, INT64_MAX - i, kit_text(NULL),
                                                 kit_text(i % 2 == 0 ? NULL : "v"), &err),
                       &err);
        REQUIRE_OK(sgs_legacy_builder_finish(&builder, &entry, &err), &err);

        sgs_codec_table codecs = *kit_codecs();
        codecs.max_decompressed_batch_bytes = entry.size; /* "gzip" stores */
        REQUIRE_OK(sgs_record_section_open(entry.data, entry.size, true, &codecs, &scratch, &reader, &err), &err);
        EXPECT_TRUE(scratch.capacity <= 2 * entry.size);
        for (int64_t i = 0; i < COUNT; ++i) {
            sgs_record record;
            bool found;
            REQUIRE_OK(sgs_record_reader_next(&reader, &record, &found, &err), &err);
            if (!EXPECT_EQ_I64(record.offset, INT32_MAX + i * 100000) ||
                !EXPECT_EQ_I64(record.timestamp, magic == 0 ? -1 : INT64_MAX - i) ||
                !EXPECT_EQ_I64(record.value.size, i % 2 == 0 ? -1 : 1))
                break;
        }
        sgs_buffer_deinit(&scratch);
        sgs_buffer_deinit(&entry);
        sgs_legacy_builder_deinit(&builder);
    }
}

TEST(a_message_above_the_limit_is_named) /* DUR-92 */
{
    uint8_t inside[200];
    const uint8_t *const end = sgs_legacy_message_write(inside, 1, 0, EXAMPLE_T, 0, kit_text("k"), kit_text("value"));
    const size_t size = (size_t)(end - inside);
    sgs_buffer entry = wrap(1, 7, SGS_CODEC_GZIP, inside, size);
    sgs_codec_table codecs = *kit_codecs();
    sgs_buffer scratch;
    sgs_record_reader reader;
    sgs_buffer_init(&scratch, kit_memory());
    codecs.max_record_bytes = size;
    EXPECT_OK(sgs_record_section_open(entry.data, entry.size, false, &codecs, &scratch, &reader, &err), &err);
    codecs.max_record_bytes = size - 1;
    EXPECT_STATUS(sgs_record_section_open(entry.data, entry.size, false, &codecs, &scratch, &reader, &err),
                  SGS_LIMIT_EXCEEDED);
    EXPECT_TRUE(strstr(err.message, "the message of offset 7 ") != NULL);
    sgs_buffer_deinit(&scratch);
    sgs_buffer_deinit(&entry);
}

TEST_MAIN()
