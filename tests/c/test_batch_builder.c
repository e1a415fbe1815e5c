/* test_batch_builder.c - [format.md 10, 6.2, 4.5], Kafka MemoryRecordsBuilderTest, DefaultRecordBatchTest,
 * MemoryRecordsTest where named. */
#include "record/batch_builder.h"

#include <errno.h>
#include <string.h>

#include "memory_env.h"
#include "record/record_section.h"
#include "record_kit.h"
#include "test.h"

static sgs_error err;

typedef struct fixture {
    sgs_batch_builder builder;
    sgs_batch_options options;
    sgs_buffer out;
} fixture;

static void fixture_init(fixture *f)
{
    sgs_batch_builder_init(&f->builder, kit_memory(), kit_codecs());
    sgs_batch_options_default(&f->options);
    sgs_buffer_init(&f->out, kit_memory());
}

static void fixture_deinit(fixture *f)
{
    sgs_batch_builder_deinit(&f->builder);
    sgs_buffer_deinit(&f->out);
}

static sgs_status start(fixture *f) { return sgs_batch_builder_start(&f->builder, &f->options, &err); }

static sgs_status append(fixture *f, int64_t offset, int64_t timestamp, const char *key, const char *value)
{
    return sgs_batch_builder_append(&f->builder, offset, timestamp, kit_text(key), kit_text(value), NULL, 0, &err);
}

/* Finish, and compare all bytes with `hex`. */
static void expect_batch(fixture *f, const char *hex)
{
    const kit_bytes expected = kit_hex(hex);
    const size_t before = f->out.size;
    sgs_batch_header header, loaded;
    REQUIRE_OK(sgs_batch_builder_finish(&f->builder, &f->out, &header, &err), &err);
    REQUIRE_EQ_I64(f->out.size - before, expected.size);
    EXPECT_MEM(f->out.data + before, expected.data, expected.size);
    REQUIRE_OK(sgs_batch_header_load(f->out.data + before, expected.size, (int64_t)before, &loaded, &err), &err);
    EXPECT_MEM(&header, &loaded, sizeof header);
}

/* [format.md 19.1, 19.4] one builder makes many batches, one behind the other */
TEST(the_worked_examples_come_out_byte_for_byte)
{
    fixture f;
    fixture_init(&f);
    f.options.base_offset = 100;
    f.options.partition_leader_epoch = 5;
    f.options.producer_id = 4001;
    f.options.producer_epoch = 3;
    f.options.base_sequence = 10;
    const sgs_record_header first[] = { { kit_text("h1"), kit_text("x") } };
    const sgs_record_header second[] = { { kit_text("trace"), kit_text(NULL) }, { kit_text("ü"), kit_text("") } };
    REQUIRE_OK(start(&f), &err);
    REQUIRE_OK(sgs_batch_builder_append(&f.builder, 100, EXAMPLE_T, kit_text("k1"), kit_text("v1"), first, 1, &err),
               &err);
    REQUIRE_OK(
        sgs_batch_builder_append(&f.builder, 101, EXAMPLE_T + 5, kit_text(NULL), kit_text("hello"), second, 2, &err),
        &err);
    EXPECT_EQ_I64(sgs_batch_builder_uncompressed_size(&f.builder), 100); /* DefaultRecordBatchTest.testSizeInBytes */
    expect_batch(&f, EXAMPLE_TWO_RECORDS);

    sgs_batch_options_default(&f.options); /* MemoryRecordsBuilderTest.testRecordTimestampsWithDeleteHorizon */
    f.options.base_offset = 200;
    f.options.partition_leader_epoch = 5;
    f.options.delete_horizon_ms = EXAMPLE_T + 86400000;
    REQUIRE_OK(start(&f), &err);
    REQUIRE_OK(append(&f, 200, EXAMPLE_T, "a", NULL), &err);
    REQUIRE_OK(append(&f, 202, EXAMPLE_T + 9, "b", "2"), &err);
    f.builder.last_offset = 203; /* as compaction does: the original last offset */
    expect_batch(&f, EXAMPLE_DELETE_HORIZON);

    sgs_batch_options_default(&f.options); /* DefaultRecordBatchTest.buildDefaultRecordBatchWithSequenceWrapAround */
    f.options.producer_id = 23423;
    f.options.producer_epoch = 145;
    f.options.base_sequence = 2147483646;
    REQUIRE_OK(start(&f), &err);
    REQUIRE_OK(append(&f, 0, 1, "a", "v"), &err);
    REQUIRE_OK(append(&f, 1, 2, "b", "v"), &err);
    REQUIRE_OK(append(&f, 2, 3, "c", "v"), &err);
    expect_batch(&f, EXAMPLE_SEQUENCE_WRAP);

    sgs_batch_options_default(&f.options); /* MemoryRecordsBuilderTest.buildUsingLogAppendTime */
    f.options.log_append_time = true;
    f.options.log_append_timestamp = 15;
    REQUIRE_OK(start(&f), &err);
    REQUIRE_OK(append(&f, 0, 1, "a", "1"), &err);
    REQUIRE_OK(append(&f, 1, 2, "b", "2"), &err);
    expect_batch(&f, EXAMPLE_LOG_APPEND_TIME);
    fixture_deinit(&f);
}

/* [format.md 19.9] */
TEST(the_golden_checksum_comes_out)
{
    fixture f;
    fixture_init(&f);
    sgs_batch_header header;
    REQUIRE_OK(start(&f), &err);
    REQUIRE_OK(append(&f, 0, 283843, "key1", "value1"), &err);
    REQUIRE_OK(append(&f, 1, 1234, "key2", "value2"), &err);
    REQUIRE_OK(sgs_batch_builder_finish(&f.builder, &f.out, &header, &err), &err);
    EXPECT_EQ_U64(header.crc, 3851219455);
    EXPECT_EQ_I64(header.base_timestamp, 283843);
    EXPECT_EQ_I64(header.max_timestamp, 283843);
    fixture_deinit(&f);
}

/* [format.md 6.2, 19.2] MemoryRecordsTest.testBuildEndTxnMarker */
TEST(transaction_markers_come_out_byte_for_byte)
{
    sgs_buffer out;
    sgs_buffer_init(&out, kit_memory());
    REQUIRE_OK(sgs_batch_build_end_transaction_marker(102, EXAMPLE_T + 10, 5, 4001, 3, true, 7, &out, &err), &err);
    REQUIRE_OK(sgs_batch_build_end_transaction_marker(103, EXAMPLE_T + 11, 5, 4001, 3, false, 8, &out, &err), &err);
    const kit_bytes expected = kit_hex(EXAMPLE_COMMIT EXAMPLE_ABORT);
    REQUIRE_EQ_I64(out.size, expected.size);
    EXPECT_MEM(out.data, expected.data, expected.size);

    EXPECT_STATUS(sgs_batch_build_end_transaction_marker(0, 0, 0, -1, 0, true, 0, &out, &err), SGS_ILLEGAL_ARGUMENT);
    EXPECT_STATUS(sgs_batch_build_end_transaction_marker(0, 0, 0, 1, -1, true, 0, &out, &err), SGS_ILLEGAL_ARGUMENT);
    EXPECT_STATUS(sgs_batch_build_end_transaction_marker(-1, 0, 0, 1, 0, true, 0, &out, &err), SGS_ILLEGAL_ARGUMENT);
    EXPECT_STATUS(sgs_batch_build_end_transaction_marker(0, -2, 0, 1, 0, true, 0, &out, &err), SGS_ILLEGAL_ARGUMENT);
    EXPECT_EQ_I64(out.size, expected.size);
    sgs_buffer_deinit(&out);
}

/* [format.md 4.5, 19.4] */
TEST(an_empty_batch_keeps_what_it_must)
{
    sgs_buffer out;
    sgs_buffer_init(&out, kit_memory());
    const kit_bytes full = kit_hex(EXAMPLE_TWO_RECORDS), expected = kit_hex(EXAMPLE_EMPTY);
    sgs_batch_header header;
    REQUIRE_OK(sgs_batch_header_load(full.data, full.size, 0, &header, &err), &err);
    header.attributes = SGS_CODEC_ZSTD | SGS_ATTRIBUTE_DELETE_HORIZON; /* neither survives */
    REQUIRE_OK(sgs_batch_build_empty(&header, &out, &err), &err);
    REQUIRE_EQ_I64(out.size, expected.size);
    EXPECT_MEM(out.data, expected.data, expected.size);

    header.attributes = SGS_ATTRIBUTE_KNOWN_MASK;
    REQUIRE_OK(sgs_batch_build_empty(&header, &out, &err), &err);
    EXPECT_EQ_I64(out.data[expected.size + 22],
                  SGS_ATTRIBUTE_LOG_APPEND_TIME | SGS_ATTRIBUTE_TRANSACTIONAL | SGS_ATTRIBUTE_CONTROL);
    header.last_offset = header.base_offset - 1;
    EXPECT_STATUS(sgs_batch_build_empty(&header, &out, &err), SGS_ILLEGAL_ARGUMENT);
    sgs_buffer_deinit(&out);
}

/* MemoryRecordsBuilderTest.testWriteTransactionalWithInvalidPID, testWriteIdempotentWithInvalidEpoch,
 * testWriteIdempotentWithInvalidBaseSequence */
TEST(combinations_that_kafka_refuses_are_refused_at_the_start)
{
    fixture f;
    fixture_init(&f);
    sgs_batch_options good = f.options;
    good.producer_id = 9809;
    good.producer_epoch = 15;
    good.base_sequence = 2342;
    good.transactional = true;
    f.options = good;
    EXPECT_OK(start(&f), &err);
    f.options.producer_id = -1;
    EXPECT_STATUS(start(&f), SGS_ILLEGAL_ARGUMENT);
    f.options = good;
    f.options.producer_epoch = -1;
    EXPECT_STATUS(start(&f), SGS_ILLEGAL_ARGUMENT);
    f.options = good;
    f.options.base_sequence = -1;
    EXPECT_STATUS(start(&f), SGS_ILLEGAL_ARGUMENT);
    f.options.control = true; /* control batches are exempt */
    EXPECT_OK(start(&f), &err);
    f.options.codec = SGS_CODEC_LZ4; /* but not compressed [DUR-95] */
    EXPECT_STATUS(start(&f), SGS_ILLEGAL_ARGUMENT);
    f.options = good;
    f.options.codec = 5;
    EXPECT_STATUS(start(&f), SGS_ILLEGAL_ARGUMENT);
    f.options = good;
    f.options.base_offset = -1;
    EXPECT_STATUS(start(&f), SGS_ILLEGAL_ARGUMENT);
    f.options.base_offset = INT64_MAX; /* there would be no next offset */
    EXPECT_STATUS(start(&f), SGS_ILLEGAL_ARGUMENT);
    f.options.base_offset = INT64_MAX - 1;
    REQUIRE_OK(start(&f), &err);
    EXPECT_OK(append(&f, INT64_MAX - 1, 0, "a", "b"), &err);
    EXPECT_STATUS(append(&f, INT64_MAX, 0, "a", "b"), SGS_ILLEGAL_ARGUMENT);
    f.options = good;
    f.options.codec = SGS_CODEC_ZSTD;
    f.builder.codecs = NULL;
    EXPECT_STATUS(start(&f), SGS_CODEC_MISSING);
    fixture_deinit(&f);
}

/* MemoryRecordsBuilderTest.testAppendAtInvalidOffset, shouldThrowIllegalStateExceptionOnAppendWhenClosed */
TEST(records_that_kafka_refuses_are_refused)
{
    fixture f;
    fixture_init(&f);
    EXPECT_STATUS(append(&f, 0, 0, "a", "b"), SGS_ILLEGAL_STATE);
    f.options.base_offset = 10;
    REQUIRE_OK(start(&f), &err);
    EXPECT_STATUS(append(&f, -1, 0, "a", "b"), SGS_ILLEGAL_ARGUMENT);
    EXPECT_OK(append(&f, 10, -1, "a", "b"), &err);
    EXPECT_STATUS(append(&f, 10, 0, "a", "b"), SGS_ILLEGAL_ARGUMENT);
    EXPECT_STATUS(append(&f, 11, -2, "a", "b"), SGS_ILLEGAL_ARGUMENT);
    EXPECT_STATUS(append(&f, 10 + INT64_C(1) + INT32_MAX, 0, "a", "b"), SGS_ILLEGAL_ARGUMENT);
    EXPECT_STATUS(append(&f, 11, INT64_MAX, "a", "b"), SGS_ILLEGAL_ARGUMENT); /* 2^63 above the base timestamp -1 */
    const sgs_record_header header = { kit_text(NULL), kit_text("value") };
    EXPECT_STATUS(sgs_batch_builder_append(&f.builder, 11, 0, kit_text("a"), kit_text("b"), &header, 1, &err),
                  SGS_ILLEGAL_ARGUMENT);
    EXPECT_OK(append(&f, 10 + INT64_C(0) + INT32_MAX, 0, "a", "b"), &err);
    EXPECT_EQ_I64(f.builder.records_count, 2);
    REQUIRE_OK(sgs_batch_builder_finish(&f.builder, &f.out, NULL, &err), &err);
    EXPECT_STATUS(append(&f, 12, 0, "a", "b"), SGS_ILLEGAL_STATE);
    EXPECT_STATUS(sgs_batch_builder_finish(&f.builder, &f.out, NULL, &err), SGS_ILLEGAL_STATE);
    fixture_deinit(&f);
}

/* Kafka compares with the record before, not with the base. */
TEST(the_first_record_may_be_below_the_base_offset)
{
    fixture f;
    fixture_init(&f);
    f.options.base_offset = INT64_C(1) << 32;
    REQUIRE_OK(start(&f), &err);
    EXPECT_STATUS(append(&f, 5, 0, "a", "b"), SGS_ILLEGAL_ARGUMENT); /* too far for an offset delta */
    REQUIRE_OK(append(&f, f.options.base_offset - 1, 0, "a", "b"), &err);
    EXPECT_STATUS(append(&f, f.options.base_offset - 1, 0, "a", "b"), SGS_ILLEGAL_ARGUMENT);
    REQUIRE_OK(append(&f, f.options.base_offset + 1, 0, "a", "b"), &err);
    fixture_deinit(&f);
}

/* [format.md 6.1] DefaultRecordBatchTest.testReadAndWriteControlBatch */
TEST(control_batches_take_control_records_only)
{
    fixture f;
    fixture_init(&f);
    f.options.base_offset = 102;
    f.options.partition_leader_epoch = 5;
    f.options.producer_id = 4001;
    f.options.producer_epoch = 3;
    f.options.transactional = f.options.control = true;
    REQUIRE_OK(start(&f), &err);
    EXPECT_STATUS(append(&f, 102, 0, NULL, "value"), SGS_INVALID_RECORD);
    EXPECT_STATUS(append(&f, 102, 0, "key", "value"), SGS_INVALID_RECORD);
    const kit_bytes key = kit_hex("00000001"), value = kit_hex("000000000007");
    REQUIRE_OK(sgs_batch_builder_append(&f.builder, 102, EXAMPLE_T + 10, (sgs_bytes){ key.data, 4 },
                                        (sgs_bytes){ value.data, 6 }, NULL, 0, &err),
               &err);
    expect_batch(&f, EXAMPLE_COMMIT);
    fixture_deinit(&f);
}

/* MemoryRecordsBuilderTest.testWriteEmptyRecordSet */
TEST(no_records_make_no_bytes)
{
    fixture f;
    fixture_init(&f);
    sgs_batch_header header = { .size_bytes = 1 };
    REQUIRE_OK(start(&f), &err);
    EXPECT_EQ_I64(sgs_batch_builder_uncompressed_size(&f.builder), 0);
    REQUIRE_OK(sgs_batch_builder_finish(&f.builder, &f.out, &header, &err), &err);
    EXPECT_EQ_I64(f.out.size, 0);
    EXPECT_EQ_I64(header.size_bytes, 0);
    fixture_deinit(&f);
}

/* MemoryRecordsBuilderTest.testAppendedChecksumConsistency, DefaultRecordBatchTest.testStreamingIteratorConsistency */
TEST(every_codec_reads_back)
{
    for (int codec = SGS_CODEC_NONE; codec < SGS_CODEC_COUNT; ++codec) {
        fixture f;
        fixture_init(&f);
        f.options.codec = codec;
        REQUIRE_OK(start(&f), &err);
        for (int i = 0; i < 1000; ++i)
            REQUIRE_OK(append(&f, 2 * i, i, "key", i % 3 == 0 ? NULL : "value"), &err);
        sgs_batch_header header;
        REQUIRE_OK(sgs_batch_builder_finish(&f.builder, &f.out, &header, &err), &err);
        EXPECT_EQ_I64(sgs_batch_codec(&header), codec);
        EXPECT_EQ_I64(header.last_offset, 1998);
        EXPECT_EQ_I64(header.max_timestamp, 999);
        sgs_buffer scratch;
        sgs_buffer_init(&scratch, kit_memory());
        sgs_record_reader reader;
        REQUIRE_OK(sgs_record_section_open(f.out.data, f.out.size, true, kit_codecs(), &scratch, &reader, &err), &err);
        for (int i = 0; i <= 1000; ++i) {
            sgs_record record;
            bool found;
            REQUIRE_OK(sgs_record_reader_next(&reader, &record, &found, &err), &err);
            REQUIRE_EQ_I64(found, i < 1000);
            if (!found)
                break;
            EXPECT_EQ_I64(record.offset, 2 * i);
            EXPECT_EQ_I64(record.value.size, i % 3 == 0 ? -1 : 5);
        }
        sgs_buffer_deinit(&scratch);
        fixture_deinit(&f);
    }
}

/* Each allocation fails in turn: a status, nothing written, nothing lost, and the next try works. */
TEST(a_lack_of_memory_leaves_the_output_as_it_was)
{
    for (int nth = 1; nth < 12; ++nth) {
        memory_env memory;
        memory_env_init(&memory, sgs_env_posix());
        fixture f;
        fixture_init(&f);
        sgs_batch_builder_init(&f.builder, sgs_env_memory(&memory.env), kit_codecs());
        sgs_buffer_init(&f.out, sgs_env_memory(&memory.env));
        f.options.codec = SGS_CODEC_SNAPPY;
        REQUIRE_OK(start(&f), &err);
        memory_env_fail(&memory, "allocate", nth, ENOMEM);
        for (int i = 0; i < 100; ++i)
            if (append(&f, i, i, "key", "value") != SGS_OK) {
                EXPECT_STATUS(err.status, SGS_RESOURCE);
                REQUIRE_OK(append(&f, i, i, "key", "value"), &err);
            }
        if (sgs_batch_builder_finish(&f.builder, &f.out, NULL, &err) != SGS_OK) {
            EXPECT_STATUS(err.status, SGS_RESOURCE);
            EXPECT_EQ_I64(f.out.size, 0);
            memory_env_heal(&memory);
            REQUIRE_OK(sgs_batch_builder_finish(&f.builder, &f.out, NULL, &err), &err);
        }
        EXPECT_OK(sgs_batch_check(f.out.data, f.out.size, 0, &err), &err);
        fixture_deinit(&f);
        EXPECT_TRUE(memory_env_is_balanced(&memory));
    }
}

TEST_MAIN()
