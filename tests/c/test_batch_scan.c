/* test_batch_scan.c - [format.md 9.1, 9.2, DUR-50, DUR-86], Kafka ByteBufferLogInputStreamTest, FileLogInputStreamTest
 * where named. */
#include "record/batch_scan.h"

#include <errno.h>
#include <string.h>

#include "base/bytes.h"
#include "memory_env.h"
#include "record/batch_builder.h"
#include "record_kit.h"
#include "test.h"

static sgs_error err;

/* One good batch of 100 bytes and what comes behind it. */
typedef struct run {
    uint8_t data[1024];
    size_t size;
} run;

static void add(run *to, const void *bytes, size_t size)
{
    memcpy(to->data + to->size, bytes, size);
    to->size += size;
}

static void add_hex(run *to, const char *hex)
{
    const kit_bytes bytes = kit_hex(hex);
    add(to, bytes.data, bytes.size);
}

static run two_records_then(const void *tail, size_t size)
{
    run made = { .size = 0 };
    add_hex(&made, EXAMPLE_TWO_RECORDS);
    add(&made, tail, size);
    return made;
}

static sgs_scan_result scan(const run *bytes, const sgs_scan_options *options)
{
    sgs_scan_result result = { .stop = SGS_SCAN_LIMIT };
    EXPECT_OK(sgs_batch_scan_buffer(bytes->data, bytes->size, options, NULL, &result, &err), &err);
    return result;
}

static sgs_scan_result scan_by(const run *bytes, sgs_scan_rules rules)
{
    sgs_scan_options options;
    sgs_scan_options_default(&options, rules);
    return scan(bytes, &options);
}

static void expect_tail(const char *what, const void *tail, size_t size, sgs_scan_stop file, sgs_scan_stop memory)
{
    const run bytes = two_records_then(tail, size);
    const sgs_scan_result by_file = scan_by(&bytes, SGS_SCAN_FILE);
    const sgs_scan_result by_memory = scan_by(&bytes, SGS_SCAN_MEMORY);
    const bool same = EXPECT_EQ_I64(by_file.stop, file) & EXPECT_EQ_I64(by_memory.stop, memory) &
                      EXPECT_EQ_I64(by_file.valid_bytes, 100) & EXPECT_EQ_I64(by_memory.valid_bytes, 100);
    if (!same)
        printf("    for %s (%zu bytes)\n", what, size);
}

/* The table of format.md 9.1. */
TEST(tails_end_as_in_kafkas_two_scanners)
{
    static const uint8_t zeros[64];
    const kit_bytes batch = kit_hex(EXAMPLE_COMMIT);
    for (size_t size = 1; size <= 11; ++size) {
        expect_tail("zeros", zeros, size, SGS_SCAN_INCOMPLETE, SGS_SCAN_INCOMPLETE);
        expect_tail("a batch", batch.data, size, SGS_SCAN_INCOMPLETE, SGS_SCAN_INCOMPLETE);
    }
    for (size_t size = 12; size <= 17; ++size) {
        expect_tail("zeros", zeros, size, SGS_SCAN_INCOMPLETE, SGS_SCAN_CORRUPT);
        expect_tail("a batch", batch.data, size, SGS_SCAN_INCOMPLETE, SGS_SCAN_INCOMPLETE);
    }
    for (size_t size = 18; size <= 64; ++size)
        expect_tail("zeros", zeros, size, SGS_SCAN_CORRUPT, SGS_SCAN_CORRUPT);
    for (size_t size = 18; size < batch.size; ++size) /* FileLogInputStreamTest.testBatchIterationIncompleteBatch */
        expect_tail("a batch", batch.data, size, SGS_SCAN_INCOMPLETE, SGS_SCAN_INCOMPLETE);

    kit_bytes bad = batch;
    sgs_store_be_i32(bad.data + 8, 13);
    expect_tail("length 13", bad.data, bad.size, SGS_SCAN_CORRUPT, SGS_SCAN_CORRUPT);
    sgs_store_be_i32(bad.data + 8, -1);
    expect_tail("length -1", bad.data, bad.size, SGS_SCAN_CORRUPT, SGS_SCAN_CORRUPT);
    sgs_store_be_i32(bad.data + 8, INT32_MAX);
    expect_tail("length INT32_MAX", bad.data, bad.size, SGS_SCAN_INCOMPLETE, SGS_SCAN_INCOMPLETE);
    sgs_store_be_i32(bad.data + 8, 1000);
    expect_tail("a length beyond the end", bad.data, bad.size, SGS_SCAN_INCOMPLETE, SGS_SCAN_INCOMPLETE);
    bad.data[16] = 3;
    expect_tail("the same, magic 3", bad.data, bad.size, SGS_SCAN_INCOMPLETE, SGS_SCAN_CORRUPT);
    bad = batch;
    bad.data[16] = 37; /* ByteBufferLogInputStreamTest.iteratorRaisesOnInvalidMagic */
    expect_tail("magic 37", bad.data, bad.size, SGS_SCAN_CORRUPT, SGS_SCAN_CORRUPT);
    bad = batch;
    bad.data[70] ^= 1;
    expect_tail("a wrong CRC", bad.data, bad.size, SGS_SCAN_CORRUPT, SGS_SCAN_CORRUPT);
    bad = batch;
    bad.data[0] = 0x80;
    expect_tail("a negative offset", bad.data, bad.size, SGS_SCAN_CORRUPT, SGS_SCAN_CORRUPT);
    bad = batch;
    sgs_store_be_i32(bad.data + 8, 48);
    expect_tail("length 48 at magic 2", bad.data, bad.size, SGS_SCAN_CORRUPT, SGS_SCAN_CORRUPT);
    expect_tail("nothing", zeros, 0, SGS_SCAN_COMPLETE, SGS_SCAN_COMPLETE);
}

TEST(a_stop_says_where_and_what)
{
    kit_bytes bad = kit_hex(EXAMPLE_COMMIT);
    bad.data[70] ^= 1;
    const run bytes = two_records_then(bad.data, bad.size);
    const sgs_scan_result result = scan_by(&bytes, SGS_SCAN_FILE);
    EXPECT_STATUS(result.why.status, SGS_CORRUPT_RECORD);
    EXPECT_EQ_I64(result.why.position, 100);
    EXPECT_TRUE(strstr(result.why.found, "1549162310") != NULL);
}

/* ByteBufferLogInputStreamTest.iteratorRaisesOnTooLargeRecords [DUR-86] */
TEST(the_size_limit_is_on_the_length_field)
{
    const kit_bytes batch = kit_hex(EXAMPLE_TWO_RECORDS);
    run bytes = { .size = 0 };
    add(&bytes, batch.data, batch.size);
    sgs_scan_options options;
    for (int rules = SGS_SCAN_FILE; rules <= SGS_SCAN_MEMORY; ++rules) {
        sgs_scan_options_default(&options, (sgs_scan_rules)rules);
        options.max_batch_bytes = 88;
        EXPECT_EQ_I64(scan(&bytes, &options).stop, SGS_SCAN_COMPLETE);
        options.max_batch_bytes = 87;
        EXPECT_EQ_I64(scan(&bytes, &options).stop, SGS_SCAN_CORRUPT);
    }
}

TEST(the_table_and_the_result_describe_what_was_seen)
{
    run bytes = { .size = 0 };
    add_hex(&bytes, EXAMPLE_V1);
    add_hex(&bytes, EXAMPLE_TWO_RECORDS);
    add_hex(&bytes, EXAMPLE_COMMIT);
    add_hex(&bytes, EXAMPLE_ABORT);
    sgs_batch_table table;
    sgs_batch_table_init(&table, kit_memory());
    sgs_scan_options options;
    sgs_scan_options_default(&options, SGS_SCAN_FILE);
    options.check_order = options.check_epochs = true;
    options.expected_offset = 40;
    options.previous_epoch = 4;
    sgs_scan_result result;
    REQUIRE_OK(sgs_batch_scan_buffer(bytes.data, bytes.size, &options, &table, &result, &err), &err);
    EXPECT_EQ_I64(result.stop, SGS_SCAN_COMPLETE);
    EXPECT_EQ_I64(result.valid_bytes, bytes.size);
    EXPECT_EQ_I64(result.next_offset, 104);
    EXPECT_EQ_I64(result.max_timestamp, EXAMPLE_T + 11);
    EXPECT_EQ_I64(result.offset_of_max_timestamp, 103);
    EXPECT_EQ_I64(result.last_epoch, 5);
    REQUIRE_EQ_I64(result.batches_count, 4);
    REQUIRE_EQ_I64(sgs_batch_table_count(&table), 4);
    const sgs_batch_header *const rows = sgs_batch_table_rows(&table);
    int64_t position = 0;
    for (int i = 0; i < 4; ++i) {
        sgs_batch_header loaded;
        REQUIRE_OK(sgs_batch_header_load(bytes.data + position, bytes.size - (size_t)position, position, &loaded, &err),
                   &err);
        EXPECT_MEM(&rows[i], &loaded, sizeof loaded);
        position += loaded.size_bytes;
    }
    options.max_batches = 2;
    EXPECT_EQ_I64(scan(&bytes, &options).stop, SGS_SCAN_LIMIT);
    EXPECT_EQ_I64(scan(&bytes, &options).valid_bytes, 136);
    options.max_batches = 4;
    EXPECT_EQ_I64(scan(&bytes, &options).stop, SGS_SCAN_COMPLETE);
    sgs_batch_table_deinit(&table);
}

/* [format.md 9.4] ties keep the earliest batch; -1 never wins */
TEST(the_earliest_batch_has_the_largest_timestamp)
{
    run bytes = { .size = 0 };
    sgs_buffer out;
    sgs_buffer_init(&out, kit_memory());
    const int64_t timestamps[] = { -1, 5, 5 };
    for (int i = 0; i < 3; ++i)
        REQUIRE_OK(sgs_batch_build_end_transaction_marker(i, timestamps[i], 0, 1, 0, true, 0, &out, &err), &err);
    add(&bytes, out.data, out.size);
    const sgs_scan_result all = scan_by(&bytes, SGS_SCAN_FILE);
    EXPECT_EQ_I64(all.offset_of_max_timestamp, 1);
    bytes.size = 78;
    const sgs_scan_result first = scan_by(&bytes, SGS_SCAN_FILE);
    EXPECT_EQ_I64(first.max_timestamp, -1);
    EXPECT_EQ_I64(first.offset_of_max_timestamp, -1);
    sgs_buffer_deinit(&out);
}

/* [DUR-50, APP-10] a message of magic 1 has ended all epochs before it; a batch whose epoch is negative says nothing */
TEST(an_epoch_behind_an_old_message_may_be_lower)
{
    run bytes = { .size = 0 };
    add_hex(&bytes, EXAMPLE_V1);
    sgs_scan_options options;
    sgs_scan_options_default(&options, SGS_SCAN_FILE);
    options.check_order = options.check_epochs = true;
    options.expected_offset = 40;
    options.previous_epoch = 9;
    sgs_scan_result result = scan(&bytes, &options);
    EXPECT_EQ_I64(result.stop, SGS_SCAN_COMPLETE);
    EXPECT_EQ_I64(result.last_epoch, -1);

    add_hex(&bytes, EXAMPLE_TWO_RECORDS);
    result = scan(&bytes, &options);
    EXPECT_EQ_I64(result.stop, SGS_SCAN_COMPLETE);
    EXPECT_EQ_I64(result.last_epoch, 5);

    bytes.size = 0;
    EXPECT_EQ_I64(scan(&bytes, &options).last_epoch, 9);
    add_hex(&bytes, EXAMPLE_TWO_RECORDS);
    EXPECT_EQ_I64(scan(&bytes, &options).stop, SGS_SCAN_ORDER);
    bytes.data[12] |= 0x80; /* the sign of the epoch, which no CRC covers */
    EXPECT_EQ_I64(scan(&bytes, &options).stop, SGS_SCAN_COMPLETE);
    EXPECT_EQ_I64(scan(&bytes, &options).last_epoch, 9);
}

/* [DUR-50] */
TEST(batches_that_do_not_follow_end_the_scan)
{
    run bytes = { .size = 0 };
    add_hex(&bytes, EXAMPLE_TWO_RECORDS); /* 100..101 */
    add_hex(&bytes, EXAMPLE_ABORT);       /* 103 */
    sgs_scan_options good;
    sgs_scan_options_default(&good, SGS_SCAN_FILE);
    good.check_order = good.check_epochs = true;
    good.expected_offset = 100;
    good.segment_base_offset = 100;
    EXPECT_EQ_I64(scan(&bytes, &good).stop, SGS_SCAN_COMPLETE);

    sgs_scan_options options = good;
    options.contiguous = true;
    sgs_scan_result result = scan(&bytes, &options);
    EXPECT_EQ_I64(result.stop, SGS_SCAN_ORDER);
    EXPECT_EQ_I64(result.valid_bytes, 100);
    EXPECT_EQ_I64(result.next_offset, 102);
    EXPECT_STATUS(result.why.status, SGS_INVALID_OFFSET);
    EXPECT_EQ_I64(result.why.position, 100);

    options = good;
    options.expected_offset = 101;
    EXPECT_EQ_I64(scan(&bytes, &options).stop, SGS_SCAN_ORDER);
    options = good;
    options.next_segment_base_offset = 103;
    EXPECT_EQ_I64(scan(&bytes, &options).valid_bytes, 100);
    options.next_segment_base_offset = 104;
    EXPECT_EQ_I64(scan(&bytes, &options).stop, SGS_SCAN_COMPLETE);
    options = good;
    options.previous_epoch = 6;
    result = scan(&bytes, &options);
    EXPECT_EQ_I64(result.stop, SGS_SCAN_ORDER);
    EXPECT_STATUS(result.why.status, SGS_INVALID_RECORD);
    options.check_epochs = false;
    EXPECT_EQ_I64(scan(&bytes, &options).stop, SGS_SCAN_COMPLETE);

    options = good;
    options.segment_base_offset = 102; /* the last offset is below the base */
    result = scan(&bytes, &options);
    EXPECT_EQ_I64(result.stop, SGS_SCAN_ORDER);
    EXPECT_STATUS(result.why.status, SGS_SEGMENT_OFFSET_OVERFLOW);
    options.segment_base_offset = 0;
    options.expected_offset = 0;
    sgs_batch_set_last_offset(bytes.data + 100, INT32_MAX);
    EXPECT_EQ_I64(scan(&bytes, &options).stop, SGS_SCAN_COMPLETE);
    sgs_batch_set_last_offset(bytes.data + 100, INT64_C(1) + INT32_MAX);
    result = scan(&bytes, &options);
    EXPECT_EQ_I64(result.stop, SGS_SCAN_ORDER);
    EXPECT_STATUS(result.why.status, SGS_SEGMENT_OFFSET_OVERFLOW);
    options.check_order = false;
    EXPECT_EQ_I64(scan(&bytes, &options).stop, SGS_SCAN_COMPLETE);
}

/* [DUR-62, format.md 9.1] what Kafka's file scanner lets through */
TEST(kafkas_limits_accept_what_kafka_accepts)
{
    sgs_scan_options options;
    sgs_scan_options_default(&options, SGS_SCAN_FILE);
    options.kafka_limits = true;
    run bytes = { .size = 0 };
    add_hex(&bytes, EXAMPLE_TWO_RECORDS);
    bytes.data[16] = 127; /* the magic is outside the CRC */
    EXPECT_EQ_I64(scan(&bytes, &options).stop, SGS_SCAN_COMPLETE);
    bytes.data[16] = 2;
    bytes.data[0] = 0xFF;
    EXPECT_EQ_I64(scan(&bytes, &options).stop, SGS_SCAN_COMPLETE);

    bytes.size = 26;
    sgs_store_be_i32(bytes.data + 8, 14);
    EXPECT_EQ_I64(scan(&bytes, &options).stop, SGS_SCAN_CORRUPT); /* "ensure valid" wants 61 bytes */
    options.check_crc = false;
    sgs_batch_table table;
    sgs_batch_table_init(&table, kit_memory());
    sgs_scan_result result;
    REQUIRE_OK(sgs_batch_scan_buffer(bytes.data, bytes.size, &options, &table, &result, &err), &err);
    EXPECT_EQ_I64(result.stop, SGS_SCAN_COMPLETE);
    REQUIRE_EQ_I64(sgs_batch_table_count(&table), 1);
    EXPECT_EQ_I64(sgs_batch_table_rows(&table)->size_bytes, 26);
    EXPECT_EQ_I64(sgs_batch_table_rows(&table)->records_count, 0);
    bytes.data[16] = 0x80; /* a negative magic is a legacy message */
    EXPECT_EQ_I64(scan(&bytes, &options).stop, SGS_SCAN_COMPLETE);
    options.rules = SGS_SCAN_MEMORY;
    EXPECT_EQ_I64(scan(&bytes, &options).stop, SGS_SCAN_CORRUPT);
    sgs_batch_table_deinit(&table);
}

/* Feeding any piece that is asked for gives what one call gives. */
TEST(a_scan_in_pieces_sees_the_same)
{
    run bytes = { .size = 0 };
    add_hex(&bytes, EXAMPLE_TWO_RECORDS);
    add_hex(&bytes, EXAMPLE_COMMIT);
    add_hex(&bytes, EXAMPLE_V0);
    add_hex(&bytes, EXAMPLE_ABORT);
    for (size_t size = 0; size <= bytes.size; ++size) {
        run cut = bytes;
        cut.size = size;
        for (int rules = SGS_SCAN_FILE; rules <= SGS_SCAN_MEMORY; ++rules) {
            sgs_scan_options options;
            sgs_scan_options_default(&options, (sgs_scan_rules)rules);
            const sgs_scan_result whole = scan(&cut, &options);
            sgs_batch_scan pieces;
            sgs_batch_scan_start(&pieces, &options, 1000);
            size_t needed = 0;
            do {
                const size_t at = (size_t)pieces.result.valid_bytes - 1000;
                REQUIRE_TRUE(needed <= size - at);
                REQUIRE_OK(
                    sgs_batch_scan_feed(&pieces, cut.data + at, needed, 1000 + (int64_t)size, NULL, &needed, &err),
                    &err);
            } while (needed > 0);
            EXPECT_TRUE(pieces.over);
            EXPECT_EQ_I64(pieces.result.stop, whole.stop);
            EXPECT_EQ_I64(pieces.result.valid_bytes - 1000, whole.valid_bytes);
            EXPECT_EQ_I64(pieces.result.batches_count, whole.batches_count);
        }
    }
}

TEST(a_table_that_cannot_grow_loses_nothing)
{
    memory_env memory;
    memory_env_init(&memory, sgs_env_posix());
    run bytes = { .size = 0 };
    add_hex(&bytes, EXAMPLE_TWO_RECORDS);
    add_hex(&bytes, EXAMPLE_COMMIT);
    sgs_batch_table table;
    sgs_batch_table_init(&table, sgs_env_memory(&memory.env));
    sgs_scan_options options;
    sgs_scan_options_default(&options, SGS_SCAN_FILE);
    sgs_batch_scan pieces;
    sgs_batch_scan_start(&pieces, &options, 0);
    size_t needed;
    memory_env_fail_always(&memory, "allocate", 1, ENOMEM);
    EXPECT_STATUS(sgs_batch_scan_feed(&pieces, bytes.data, bytes.size, (int64_t)bytes.size, &table, &needed, &err),
                  SGS_RESOURCE);
    memory_env_heal(&memory);
    const size_t at = (size_t)pieces.result.valid_bytes;
    REQUIRE_OK(
        sgs_batch_scan_feed(&pieces, bytes.data + at, bytes.size - at, (int64_t)bytes.size, &table, &needed, &err),
        &err);
    EXPECT_EQ_I64(pieces.result.stop, SGS_SCAN_COMPLETE);
    EXPECT_EQ_I64(sgs_batch_table_count(&table), 2);
    sgs_batch_table_deinit(&table);
    EXPECT_TRUE(memory_env_is_balanced(&memory));
}

TEST_MAIN()
