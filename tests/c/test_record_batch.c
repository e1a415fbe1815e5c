/* test_record_batch.c - [format.md 4, 7.1, 9.2, 19], Kafka DefaultRecordBatchTest where named. */
#include "record/record_batch.h"

#include <string.h>

#include "record_kit.h"
#include "test.h"

static sgs_error err;

TEST(a_header_is_loaded_field_by_field)
{
    const kit_bytes batch = kit_hex(EXAMPLE_TWO_RECORDS); /* [format.md 19.1] */
    sgs_batch_header header;
    REQUIRE_OK(sgs_batch_header_load(batch.data, batch.size, 4096, &header, &err), &err);

    EXPECT_EQ_I64(header.position, 4096);
    EXPECT_EQ_I64(header.base_offset, 100);
    EXPECT_EQ_I64(header.last_offset, 101);
    EXPECT_EQ_I64(header.base_timestamp, EXAMPLE_T);
    EXPECT_EQ_I64(header.max_timestamp, EXAMPLE_T + 5);
    EXPECT_EQ_I64(header.producer_id, 4001);
    EXPECT_EQ_I64(header.size_bytes, 100);
    EXPECT_EQ_I64(header.partition_leader_epoch, 5);
    EXPECT_EQ_I64(header.base_sequence, 10);
    EXPECT_EQ_I64(header.records_count, 2);
    EXPECT_EQ_U64(header.crc, 2100011704);
    EXPECT_EQ_I64(header.attributes, 0);
    EXPECT_EQ_I64(header.producer_epoch, 3);
    EXPECT_EQ_I64(header.magic, 2);
    EXPECT_TRUE(sgs_batch_has_producer(&header));
    EXPECT_TRUE(!sgs_batch_is_control(&header));
}

TEST(storing_a_loaded_header_gives_the_same_bytes)
{
    const char *const examples[] = { EXAMPLE_TWO_RECORDS, EXAMPLE_COMMIT,        EXAMPLE_ABORT,
                                     EXAMPLE_EMPTY,       EXAMPLE_SEQUENCE_WRAP, EXAMPLE_DELETE_HORIZON,
                                     EXAMPLE_SNAPPY,      EXAMPLE_LEADER_CHANGE };
    for (size_t i = 0; i < sizeof examples / sizeof examples[0]; ++i) {
        const kit_bytes batch = kit_hex(examples[i]);
        sgs_batch_header header;
        REQUIRE_OK(sgs_batch_header_load(batch.data, batch.size, 0, &header, &err), &err);
        uint8_t stored[SGS_BATCH_HEADER_BYTES];
        sgs_batch_header_store(&header, stored);
        EXPECT_MEM(stored, batch.data, sizeof stored);
        EXPECT_OK(sgs_batch_check(batch.data, batch.size, 0, &err), &err);
        EXPECT_EQ_U64(sgs_batch_compute_crc(batch.data, batch.size), header.crc);
    }
}

TEST(a_header_needs_its_bytes_and_the_declared_length)
{
    kit_bytes batch = kit_hex(EXAMPLE_TWO_RECORDS);
    sgs_batch_header header;
    for (size_t size = 0; size < batch.size; ++size) {
        EXPECT_STATUS(sgs_batch_header_load(batch.data, size, 7, &header, &err), SGS_CORRUPT_RECORD);
        EXPECT_EQ_I64(err.position, 7);
        EXPECT_STATUS(sgs_batch_header_peek(batch.data, size, 7, &header, &err),
                      size < SGS_BATCH_HEADER_BYTES ? SGS_CORRUPT_RECORD : SGS_OK);
    }
    const uint8_t lengths[][4] = {
        { 0, 0, 0, 48 }, { 0xFF, 0xFF, 0xFF, 0xFF }, { 0x80, 0, 0, 0 }, { 0x7F, 0xFF, 0xFF, 0xFF }
    };
    for (size_t i = 0; i < 4; ++i) {
        memcpy(batch.data + 8, lengths[i], 4);
        EXPECT_STATUS(sgs_batch_header_peek(batch.data, batch.size, 0, &header, &err), SGS_CORRUPT_RECORD);
    }
}

TEST(the_last_offset_saturates)
{
    kit_bytes batch = kit_hex(EXAMPLE_TWO_RECORDS);
    sgs_batch_header header;
    memcpy(batch.data, "\x7f\xff\xff\xff\xff\xff\xff\xff", 8);
    REQUIRE_OK(sgs_batch_header_load(batch.data, batch.size, 0, &header, &err), &err);
    EXPECT_EQ_I64(header.last_offset, INT64_MAX);
    memcpy(batch.data, "\x80\x00\x00\x00\x00\x00\x00\x00", 8);
    memcpy(batch.data + 23, "\xff\xff\xff\xff", 4);
    REQUIRE_OK(sgs_batch_header_load(batch.data, batch.size, 0, &header, &err), &err);
    EXPECT_EQ_I64(header.last_offset, INT64_MIN);
}

TEST(legacy_messages_give_what_they_have)
{
    const kit_bytes v1 = kit_hex(EXAMPLE_V1); /* [format.md 7.1, 19.3] */
    sgs_batch_header header;
    REQUIRE_OK(sgs_batch_header_load(v1.data, v1.size, 0, &header, &err), &err);
    EXPECT_EQ_I64(header.base_offset, 42);
    EXPECT_EQ_I64(header.last_offset, 42);
    EXPECT_EQ_I64(header.max_timestamp, EXAMPLE_T);
    EXPECT_EQ_I64(header.magic, 1);
    EXPECT_EQ_U64(header.crc, 958827571);
    EXPECT_EQ_I64(header.size_bytes, 36);
    EXPECT_EQ_I64(header.records_count, 1);
    EXPECT_EQ_I64(header.producer_id, -1);
    EXPECT_EQ_I64(header.producer_epoch, -1);
    EXPECT_EQ_I64(header.base_sequence, -1);
    EXPECT_EQ_I64(header.partition_leader_epoch, -1);
    EXPECT_OK(sgs_batch_check(v1.data, v1.size, 0, &err), &err);

    const kit_bytes v0 = kit_hex(EXAMPLE_V0);
    REQUIRE_OK(sgs_batch_header_load(v0.data, v0.size, 0, &header, &err), &err);
    EXPECT_EQ_I64(header.magic, 0);
    EXPECT_EQ_I64(header.max_timestamp, -1);
    EXPECT_OK(sgs_batch_check(v0.data, v0.size, 0, &err), &err);

    const kit_bytes appended = kit_hex(EXAMPLE_V1_LOG_APPEND_TIME);
    REQUIRE_OK(sgs_batch_header_load(appended.data, appended.size, 0, &header, &err), &err);
    EXPECT_EQ_I64(header.attributes, SGS_ATTRIBUTE_LOG_APPEND_TIME);
    EXPECT_OK(sgs_batch_check(appended.data, appended.size, 0, &err), &err);
}

/* Every single-bit flip under the checksum is found. [format.md 4] DefaultRecordBatchTest.testInvalidCrc */
TEST(the_crc_covers_all_bytes_from_the_attributes_on)
{
    kit_bytes batch = kit_hex(EXAMPLE_TWO_RECORDS);
    for (size_t at = 17; at < batch.size; ++at) {
        for (unsigned bit = 0; bit < 8; ++bit) {
            batch.data[at] ^= (uint8_t)(1U << bit);
            EXPECT_STATUS(sgs_batch_check(batch.data, batch.size, 0, &err), SGS_CORRUPT_RECORD);
            batch.data[at] ^= (uint8_t)(1U << bit);
        }
    }
    kit_bytes v1 = kit_hex(EXAMPLE_V1);
    for (size_t at = 12; at < v1.size; ++at) { /* SimpleLegacyRecordTest.testIsValidWithChecksumMismatch */
        if (at == 16)
            continue; /* the magic says where the CRC is */
        v1.data[at] ^= 0x10;
        EXPECT_STATUS(sgs_batch_check(v1.data, v1.size, 0, &err), SGS_CORRUPT_RECORD);
        v1.data[at] ^= 0x10;
    }
}

/* DefaultRecordBatchTest.testInvalidRecordSize, SimpleLegacyRecordTest.testIsValidWithTooSmallBuffer */
TEST(a_batch_below_its_overhead_is_corrupt)
{
    const kit_bytes batch = kit_hex(EXAMPLE_TWO_RECORDS);
    for (size_t size = 0; size < SGS_BATCH_HEADER_BYTES; ++size)
        EXPECT_STATUS(sgs_batch_check(batch.data, size, 0, &err), SGS_CORRUPT_RECORD);
    const kit_bytes v0 = kit_hex(EXAMPLE_V0);
    for (size_t size = 0; size < v0.size; ++size)
        EXPECT_STATUS(sgs_batch_check(v0.data, size, 0, &err), SGS_CORRUPT_RECORD);
}

/* [format.md 4.6, 19.1] DefaultRecordBatchTest.testSetLastOffset */
TEST(offset_and_epoch_are_stamped_without_a_new_crc)
{
    kit_bytes batch = kit_hex(EXAMPLE_TWO_RECORDS);
    const kit_bytes before = batch;
    sgs_batch_set_last_offset(batch.data, 501);
    sgs_batch_set_leader_epoch(batch.data, 6);

    const kit_bytes stamped = kit_hex("00000000000001f4 00000058 00000006");
    EXPECT_MEM(batch.data, stamped.data, stamped.size);
    EXPECT_MEM(batch.data + 16, before.data + 16, batch.size - 16);
    EXPECT_OK(sgs_batch_check(batch.data, batch.size, 0, &err), &err);
}

/* [format.md 4.6] DefaultRecordBatchTest.testSetLogAppendTime */
TEST(setting_the_max_timestamp_rewrites_attributes_and_crc)
{
    kit_bytes batch = kit_hex(EXAMPLE_TWO_RECORDS);
    batch.data[21] = 0xFF; /* unknown attribute bits, in both bytes */
    batch.data[22] = 0x90; /* and "transactional" */
    sgs_batch_seal(batch.data, batch.size);
    const kit_bytes before = batch;

    sgs_batch_set_max_timestamp(batch.data, batch.size, false, EXAMPLE_T + 5); /* as it is: nothing at all changes */
    EXPECT_MEM(batch.data, before.data, batch.size);

    sgs_batch_set_max_timestamp(batch.data, batch.size, true, 15);
    sgs_batch_header header;
    REQUIRE_OK(sgs_batch_header_load(batch.data, batch.size, 0, &header, &err), &err);
    EXPECT_EQ_I64(header.attributes, SGS_ATTRIBUTE_LOG_APPEND_TIME | SGS_ATTRIBUTE_TRANSACTIONAL);
    EXPECT_EQ_I64(header.max_timestamp, 15);
    EXPECT_EQ_I64(header.base_timestamp, EXAMPLE_T);
    EXPECT_OK(sgs_batch_check(batch.data, batch.size, 0, &err), &err);
}

/* [format.md 4.6] */
TEST(setting_the_producer_rewrites_its_fields_and_the_crc)
{
    kit_bytes batch = kit_hex(EXAMPLE_TWO_RECORDS);

    sgs_batch_set_producer_state(batch.data, batch.size, INT64_C(0x1122334455667788), 7, 2147483646);

    sgs_batch_header header;
    REQUIRE_OK(sgs_batch_header_load(batch.data, batch.size, 0, &header, &err), &err);
    EXPECT_EQ_I64(header.producer_id, INT64_C(0x1122334455667788));
    EXPECT_EQ_I64(header.producer_epoch, 7);
    EXPECT_EQ_I64(header.base_sequence, 2147483646);
    EXPECT_EQ_I64(header.records_count, 2);
    EXPECT_OK(sgs_batch_check(batch.data, batch.size, 0, &err), &err);
}

/* [DUR-79] */
TEST(batches_are_without_gap_where_each_begins_behind_the_one_before)
{
    sgs_batch_header rows[3] = {
        { .base_offset = 5, .last_offset = 7, .magic = 2 },
        { .base_offset = 8, .last_offset = 8, .magic = 2 },
        { .base_offset = 9, .last_offset = 20, .magic = 2 },
    };
    EXPECT_TRUE(sgs_batches_are_without_gap(rows, 3));
    EXPECT_TRUE(sgs_batches_are_without_gap(rows, 0));

    rows[2].base_offset = 10; /* a gap */
    EXPECT_TRUE(!sgs_batches_are_without_gap(rows, 3));
    EXPECT_TRUE(sgs_batches_are_without_gap(rows, 2));
    rows[2].base_offset = 8; /* an overlap */
    EXPECT_TRUE(!sgs_batches_are_without_gap(rows, 3));
    rows[2].base_offset = INT64_MIN;
    EXPECT_TRUE(!sgs_batches_are_without_gap(rows, 3));
    rows[2].base_offset = 9;
    rows[2].last_offset = 8; /* it ends before it begins */
    EXPECT_TRUE(!sgs_batches_are_without_gap(rows, 3));
    rows[2].last_offset = 20;
    rows[1].magic = 1; /* a wrapper has only its last offset */
    EXPECT_TRUE(!sgs_batches_are_without_gap(rows, 3));
}

TEST(batches_have_one_epoch_where_all_have_the_same)
{
    sgs_batch_header rows[2] = {
        { .partition_leader_epoch = 4, .magic = 2 },
        { .partition_leader_epoch = 4, .magic = 2 },
    };
    EXPECT_TRUE(sgs_batches_have_one_epoch(rows, 2));
    EXPECT_TRUE(!sgs_batches_have_one_epoch(rows, 0));

    rows[1].partition_leader_epoch = -1;
    EXPECT_TRUE(!sgs_batches_have_one_epoch(rows, 2));
    rows[0].magic = 1; /* it has none */
    EXPECT_TRUE(!sgs_batches_have_one_epoch(rows, 1));
}

TEST_MAIN()
