/* test_record.c - [format.md 5, DUR-88..DUR-91], Kafka DefaultRecordTest where named. */
#include "record/record.h"

#include <string.h>

#include "record/record_section.h"
#include "record_kit.h"
#include "test.h"

static sgs_error err;

static sgs_batch_header batch_of(int32_t records_count, int32_t last_offset_delta)
{
    return (sgs_batch_header){
        .base_offset = 37,
        .last_offset = 37 + last_offset_delta,
        .base_timestamp = EXAMPLE_T,
        .max_timestamp = EXAMPLE_T + 1000,
        .producer_id = -1,
        .base_sequence = -1,
        .producer_epoch = -1,
        .records_count = records_count,
        .magic = 2,
    };
}

/* Read the records of `hex` in a batch of `count` and last offset delta 10. @return the first status that is not OK */
static sgs_status read_all(const char *hex, int32_t count, sgs_record *last)
{
    const kit_bytes section = kit_hex(hex);
    const sgs_batch_header batch = batch_of(count, 10);
    sgs_record_reader reader;
    sgs_record_reader_init(&reader, &batch, section.data, section.size);
    for (bool found = true; found;) {
        sgs_record record;
        const sgs_status status = sgs_record_reader_next(&reader, &record, &found, &err);
        if (status != SGS_OK)
            return status;
        if (found && last != NULL)
            *last = record;
    }
    return SGS_OK;
}

static void expect_invalid(const char *hex, int32_t count)
{
    if (!EXPECT_STATUS(read_all(hex, count, NULL), SGS_INVALID_RECORD))
        printf("    for %s\n", hex);
}

TEST(the_worked_example_reads_record_by_record)
{
    const kit_bytes batch = kit_hex(EXAMPLE_TWO_RECORDS); /* [format.md 19.1] */
    sgs_buffer scratch;
    sgs_buffer_init(&scratch, kit_memory());
    sgs_record_reader reader;
    sgs_record record;
    sgs_record_header header;
    bool found;
    REQUIRE_OK(sgs_record_section_open(batch.data, batch.size, true, NULL, &scratch, &reader, &err), &err);

    REQUIRE_OK(sgs_record_reader_next(&reader, &record, &found, &err), &err);
    REQUIRE_TRUE(found);
    EXPECT_EQ_I64(record.offset, 100);
    EXPECT_EQ_I64(record.timestamp, EXAMPLE_T);
    EXPECT_EQ_I64(record.sequence, 10);
    EXPECT_EQ_I64(record.size_bytes, 16);
    EXPECT_EQ_I64(record.key.size, 2);
    EXPECT_MEM(record.key.data, "k1", 2);
    EXPECT_MEM(record.value.data, "v1", 2);
    REQUIRE_EQ_I64(record.headers_count, 1);
    EXPECT_TRUE(sgs_record_next_header(&record.headers, &header));
    EXPECT_MEM(header.key.data, "h1", 2);
    EXPECT_MEM(header.value.data, "x", 1);
    EXPECT_EQ_I64(record.headers.size, 0);

    REQUIRE_OK(sgs_record_reader_next(&reader, &record, &found, &err), &err);
    REQUIRE_TRUE(found);
    EXPECT_EQ_I64(record.offset, 101);
    EXPECT_EQ_I64(record.timestamp, EXAMPLE_T + 5);
    EXPECT_EQ_I64(record.sequence, 11);
    EXPECT_EQ_I64(record.key.size, -1);
    EXPECT_TRUE(record.key.data == NULL);
    EXPECT_MEM(record.value.data, "hello", 5);
    REQUIRE_EQ_I64(record.headers_count, 2);
    EXPECT_TRUE(sgs_record_next_header(&record.headers, &header));
    EXPECT_EQ_I64(header.value.size, -1);
    EXPECT_TRUE(sgs_record_next_header(&record.headers, &header));
    EXPECT_MEM(header.key.data, "\xc3\xbc", 2);
    EXPECT_EQ_I64(header.value.size, 0);
    EXPECT_TRUE(header.value.data != NULL);

    REQUIRE_OK(sgs_record_reader_next(&reader, &record, &found, &err), &err);
    EXPECT_TRUE(!found);
    sgs_buffer_deinit(&scratch);
}

static void expect_times_and_sequences(const char *hex, const sgs_record *expected, int count)
{
    const kit_bytes batch = kit_hex(hex);
    sgs_buffer scratch;
    sgs_buffer_init(&scratch, kit_memory());
    sgs_record_reader reader;
    REQUIRE_OK(sgs_record_section_open(batch.data, batch.size, true, kit_codecs(), &scratch, &reader, &err), &err);
    for (int i = 0; i <= count; ++i) {
        sgs_record record;
        bool found;
        REQUIRE_OK(sgs_record_reader_next(&reader, &record, &found, &err), &err);
        REQUIRE_EQ_I64(found, i < count);
        if (!found)
            break;
        EXPECT_EQ_I64(record.offset, expected[i].offset);
        EXPECT_EQ_I64(record.timestamp, expected[i].timestamp);
        EXPECT_EQ_I64(record.sequence, expected[i].sequence);
    }
    sgs_buffer_deinit(&scratch);
}

TEST(offsets_timestamps_and_sequences_follow_the_batch)
{
    /* [format.md 4.4, 19.4] the delete horizon; MemoryRecordsBuilderTest.testRecordTimestampsWithDeleteHorizon */
    expect_times_and_sequences(EXAMPLE_DELETE_HORIZON,
                               (const sgs_record[]){ { .offset = 200, .timestamp = EXAMPLE_T, .sequence = -1 },
                                                     { .offset = 202, .timestamp = EXAMPLE_T + 9, .sequence = -1 } },
                               2);
    /* DefaultRecordBatchTest.buildDefaultRecordBatchWithSequenceWrapAround */
    expect_times_and_sequences(EXAMPLE_SEQUENCE_WRAP,
                               (const sgs_record[]){ { .offset = 0, .timestamp = 1, .sequence = 2147483646 },
                                                     { .offset = 1, .timestamp = 2, .sequence = 2147483647 },
                                                     { .offset = 2, .timestamp = 3, .sequence = 0 } },
                               3);
    expect_times_and_sequences(EXAMPLE_LOG_APPEND_TIME,
                               (const sgs_record[]){ { .offset = 0, .timestamp = 15, .sequence = -1 },
                                                     { .offset = 1, .timestamp = 15, .sequence = -1 } },
                               2);
    expect_times_and_sequences(EXAMPLE_EMPTY, NULL, 0);
    expect_times_and_sequences(EXAMPLE_SNAPPY,
                               (const sgs_record[]){ { .offset = 0, .timestamp = EXAMPLE_T, .sequence = -1 } }, 1);
}

/* [format.md 4.5] nothing behind the header of an empty batch is looked at, whatever its codec */
TEST(an_empty_batch_is_not_looked_into)
{
    kit_bytes batch = kit_hex(EXAMPLE_EMPTY "ffffffff");
    batch.data[11] = 53; /* the length */
    batch.data[22] = 4;  /* zstd */
    sgs_batch_seal(batch.data, batch.size);
    sgs_buffer scratch;
    sgs_buffer_init(&scratch, kit_memory());
    sgs_record_reader reader;
    sgs_record record;
    bool found = true;
    REQUIRE_OK(sgs_record_section_open(batch.data, batch.size, true, NULL, &scratch, &reader, &err), &err);
    REQUIRE_OK(sgs_record_reader_next(&reader, &record, &found, &err), &err);
    EXPECT_TRUE(!found);
    sgs_buffer_deinit(&scratch);
}

/* DefaultRecordTest.testInvalidKeySize, testInvalidValueSize, testInvalidHeaderKey, testInvalidHeaderValue,
 * testInvalidNumHeadersPartial, testUnderflowReadingTimestamp, testInvalidVarlong, testInvalidSizeOfBodyInBytes,
 * testBasicSerdeInvalidHeaderCountTooLow: a size of 100, `body` and zeros */
TEST(lengths_beyond_the_record_are_invalid)
{
    const char *const bodies[] = {
        "00 04 02 d201",                /* key of 105 bytes */
        "00 04 02 01 d201",             /* value of 105 bytes */
        "00 04 02 01 01 01",            /* header count -1 */
        "00 04 02 01 01 02 d201",       /* header key of 105 bytes */
        "00 04 02 01 01 02 02 01 d201", /* header value of 105 bytes */
        "00 04 02 01 01 02 01",         /* null header key */
        "00 04 02 01 01 fe01",          /* 127 headers */
        "00 04 02 0d 01 00",            /* key size -7: only -1 is null here [DUR-91] */
        "00 04 02 01 0d 00",
        "00 04 02 01 01 02 02 01 0d",
        "00 feffffffffffffffff80", /* an over-long varlong */
        "00 04 8080808080",        /* an over-long varint */
    };
    for (size_t i = 0; i < sizeof bodies / sizeof bodies[0]; ++i) {
        kit_bytes body = kit_hex(bodies[i]);
        char hex[2 * 102 + 1] = "c801"; /* 100 */
        for (size_t at = 0; at < 100; ++at)
            (void)snprintf(hex + 4 + 2 * at, 3, "%02x", (unsigned)(at < body.size ? body.data[at] : 0));
        expect_invalid(hex, 1);
    }
    expect_invalid("02 00", 1);
    expect_invalid("14", 1);
    expect_invalid("", 1);
    expect_invalid("8080808080", 1);
    expect_invalid("01", 1);                /* size -1 */
    expect_invalid("0a 00 00 00 01 01", 1); /* smaller than its fields */
    expect_invalid("feffffff0f", 1);        /* size INT32_MAX */
}

TEST(a_record_ends_at_its_declared_size)
{
    EXPECT_OK(read_all("0c 00 00 00 01 01 00", 1, NULL), &err);
    EXPECT_OK(read_all("8c 80 80 80 00 00 00 00 01 01 00", 1, NULL), &err); /* longer forms are read [DUR-88] */
    expect_invalid("0e 00 00 00 01 01 00 00", 1);                           /* one byte too many inside */
    expect_invalid("0e 00 00 00 01 01 00", 1);                              /* one too few */
    expect_invalid("0c 00 00 00 01 02 00", 1);    /* the value takes the header count's byte */
    expect_invalid("0c 00 00 00 01 01 00 00", 1); /* bytes are left behind the last record */
    expect_invalid("0e 00 00 80 00 01 01 00", 2);
}

/* DefaultRecordBatchTest.testInvalidRecordCountTooManyNonCompressedV2, testInvalidRecordCountTooLittleCompressedV2 */
TEST(the_records_count_must_be_right)
{
#define ONE "0c 00 00 00 01 01 00"
#define TWO "0c 00 00 02 01 01 00"
    EXPECT_OK(read_all(ONE TWO, 2, NULL), &err);
    expect_invalid(ONE TWO, 1);
    expect_invalid(ONE TWO, 3);
    expect_invalid(ONE, -1);
    EXPECT_OK(read_all(ONE, 0, NULL), &err); /* nothing is checked in an empty batch */
}

/* [DUR-89]; gaps are what compaction leaves */
/* [format.md 5, 12.5]: what brokers accept can be read, whatever the order; offsets that do not exist cannot [DUR-89] */
TEST(any_order_of_offsets_is_read_but_no_impossible_offset)
{
    sgs_record last;
    EXPECT_OK(read_all("0c 00 00 04 01 01 00"
                       "0c 00 00 14 01 01 00",
                       2, &last),
              &err);
    EXPECT_EQ_I64(last.offset, 47);
    EXPECT_OK(read_all("0c 00 00 02 01 01 00"
                       "0c 00 00 02 01 01 00",
                       2, &last),
              &err);
    EXPECT_EQ_I64(last.offset, 38);
    EXPECT_OK(read_all("0c 00 00 16 01 01 00"  /* 11 of 10 */
                       "0c 00 00 01 01 01 00", /* -1 */
                       2, &last),
              &err);
    EXPECT_EQ_I64(last.offset, 36);
    expect_invalid("0c 00 00 4b 01 01 00", 1); /* 37 - 38 */

    const kit_bytes section = kit_hex("0c 00 00 02 01 01 00");
    sgs_batch_header batch = batch_of(1, 0);
    sgs_record_reader reader;
    bool found;
    batch.base_offset = INT64_MAX;
    sgs_record_reader_init(&reader, &batch, section.data, section.size);
    EXPECT_STATUS(sgs_record_reader_next(&reader, &last, &found, &err), SGS_INVALID_RECORD);
}

/* [DUR-90] */
TEST(timestamps_that_overflow_are_invalid)
{
    const kit_bytes section = kit_hex("0c 00 02 00 01 01 00");
    sgs_batch_header batch = batch_of(1, 0);
    sgs_record_reader reader;
    sgs_record record;
    bool found;
    batch.base_timestamp = INT64_MAX;
    sgs_record_reader_init(&reader, &batch, section.data, section.size);
    EXPECT_STATUS(sgs_record_reader_next(&reader, &record, &found, &err), SGS_INVALID_RECORD);
    batch.attributes = SGS_ATTRIBUTE_LOG_APPEND_TIME; /* deltas are ignored then */
    sgs_record_reader_init(&reader, &batch, section.data, section.size);
    REQUIRE_OK(sgs_record_reader_next(&reader, &record, &found, &err), &err);
    EXPECT_EQ_I64(record.timestamp, EXAMPLE_T + 1000);
}

/* DefaultRecordTest.testBasicSerde, testSerdeNoSequence */
TEST(what_is_written_reads_back)
{
    const sgs_record_header headers[] = { { kit_text("foo"), kit_text("value") },
                                          { kit_text("bar"), kit_text(NULL) },
                                          { kit_text("\"A\\u00ea\\u00f1\\u00fcC\""), kit_text("") } };
    const char *const texts[] = { NULL, "", "hi",
                                  "a text that is longer than sixty-three bytes, so that its size takes two" };
    const int64_t deltas[] = { 0, 323, -1, -86400000, INT64_MAX - EXAMPLE_T };
    for (size_t k = 0; k < 4; ++k) {
        for (size_t v = 0; v < 4; ++v) {
            for (int32_t h = 0; h <= 3; ++h) {
                const int64_t delta = deltas[(k + v + (size_t)h) % 5];
                uint8_t bytes[512];
                const int64_t size = sgs_record_size(delta, 10, kit_text(texts[k]), kit_text(texts[v]), headers, h);
                const uint8_t *const end =
                    sgs_record_write(bytes, delta, 10, kit_text(texts[k]), kit_text(texts[v]), headers, h);
                REQUIRE_EQ_I64(end - bytes, size);
                sgs_batch_header batch = batch_of(1, 10);
                batch.base_sequence = h == 0 ? -1 : 5;
                sgs_record_reader reader;
                sgs_record record;
                bool found;
                sgs_record_reader_init(&reader, &batch, bytes, (size_t)size);
                REQUIRE_OK(sgs_record_reader_next(&reader, &record, &found, &err), &err);
                EXPECT_EQ_I64(record.offset, 47);
                EXPECT_EQ_I64(record.timestamp, EXAMPLE_T + delta);
                EXPECT_EQ_I64(record.sequence, h == 0 ? -1 : 15);
                EXPECT_EQ_I64(record.size_bytes, size);
                EXPECT_EQ_I64(record.key.size, kit_text(texts[k]).size);
                EXPECT_EQ_I64(record.value.size, kit_text(texts[v]).size);
                if (record.value.size > 0)
                    EXPECT_MEM(record.value.data, texts[v], (size_t)record.value.size);
                REQUIRE_EQ_I64(record.headers_count, h);
                for (int32_t i = 0; i < h; ++i) {
                    sgs_record_header header;
                    EXPECT_TRUE(sgs_record_next_header(&record.headers, &header));
                    EXPECT_EQ_I64(header.key.size, headers[i].key.size);
                    EXPECT_MEM(header.key.data, headers[i].key.data, (size_t)header.key.size);
                    EXPECT_EQ_I64(header.value.size, headers[i].value.size);
                }
            }
        }
    }
}

/* [DUR-87, DUR-89, DUR-95, format.md 7] */
TEST(a_section_is_opened_only_when_its_header_makes_sense)
{
    sgs_buffer scratch;
    sgs_buffer_init(&scratch, kit_memory());
    const struct {
        size_t at;
        uint8_t byte;
        sgs_status expected;
    } edits[] = {
        { 16, 3, SGS_UNSUPPORTED_FORMAT },    /* magic */
        { 0, 0x80, SGS_INVALID_RECORD },      /* base offset */
        { 23, 0x80, SGS_INVALID_RECORD },     /* last offset delta */
        { 57, 0x80, SGS_INVALID_RECORD },     /* records count */
        { 60, 6, SGS_INVALID_RECORD },        /* six records in 39 bytes */
        { 22, 5, SGS_UNSUPPORTED_FORMAT },    /* codec */
        { 22, 0x22, SGS_UNSUPPORTED_FORMAT }, /* compressed control records */
        { 22, 1, SGS_CODEC },                 /* not a stream of that codec */
        { 11, 0x59, SGS_CORRUPT_RECORD },     /* length */
    };
    for (size_t i = 0; i < sizeof edits / sizeof edits[0]; ++i) {
        kit_bytes batch = kit_hex(EXAMPLE_TWO_RECORDS);
        batch.data[edits[i].at] = edits[i].byte;
        sgs_batch_seal(batch.data, batch.size);
        sgs_record_reader reader;
        EXPECT_STATUS(sgs_record_section_open(batch.data, batch.size, true, kit_codecs(), &scratch, &reader, &err),
                      edits[i].expected);
    }
    kit_bytes legacy = kit_hex(EXAMPLE_V1);
    sgs_record_reader reader;
    EXPECT_OK(sgs_record_section_open(legacy.data, legacy.size, true, NULL, &scratch, &reader, &err), &err);
    legacy.data[35] ^= 1;
    EXPECT_STATUS(sgs_record_section_open(legacy.data, legacy.size, true, NULL, &scratch, &reader, &err),
                  SGS_CORRUPT_RECORD);
    kit_bytes damaged = kit_hex(EXAMPLE_TWO_RECORDS);
    damaged.data[70] ^= 1;
    EXPECT_STATUS(sgs_record_section_open(damaged.data, damaged.size, true, NULL, &scratch, &reader, &err),
                  SGS_CORRUPT_RECORD);
    EXPECT_OK(sgs_record_section_open(damaged.data, damaged.size, false, NULL, &scratch, &reader, &err), &err);
    const kit_bytes snappy = kit_hex(EXAMPLE_SNAPPY);
    sgs_codec_table small = *kit_codecs();
    small.max_decompressed_batch_bytes = 47; /* of 48 [DUR-92] */
    EXPECT_STATUS(sgs_record_section_open(snappy.data, snappy.size, true, &small, &scratch, &reader, &err),
                  SGS_LIMIT_EXCEEDED);
    sgs_buffer_deinit(&scratch);
}

TEST_MAIN()
