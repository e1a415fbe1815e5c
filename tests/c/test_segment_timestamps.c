/* Look-ups by timestamp in a segment: the first record at or after a time, the largest, the first batch. */
#include "base/bytes.h"
#include "record/record.h"
#include "segment_kit.h"
#include "test.h"
#include <stdlib.h>

static void finds(segment_kit *kit, int64_t timestamp, int64_t starting_offset, int64_t found_timestamp, int64_t offset)
{
    sgs_found_timestamp found = { .offset = -9 };
    EXPECT_OK(sgs_log_segment_find_offset_by_timestamp(kit->segment, timestamp, starting_offset, -1, &found, &kit->err),
              &kit->err);
    EXPECT_EQ_I64(found.found ? found.offset : -1, offset);
    EXPECT_EQ_I64(found.found ? found.timestamp : -1, found_timestamp);
    EXPECT_EQ_I64(found.leader_epoch, found.found ? 3 : -1);
}

/* [SEG-23] against a list of all records */
TEST(look_ups_by_timestamp_agree_with_a_linear_search)
{
    enum { BATCHES = 300, RECORDS = 4 };
    static int64_t timestamps[BATCHES * RECORDS];
    segment_kit kit;
    uint32_t state = 12345;
    segment_kit_open(&kit);
    kit.context.index_interval_bytes = 300;
    REQUIRE_OK(segment_kit_segment(&kit, 0, true), &kit.err);
    for (int i = 0; i < BATCHES; ++i) {
        state = state * 1103515245u + 12345u;
        const int64_t timestamp = i * 10 + (int64_t)(state >> 16) % 400;
        EXPECT_OK(segment_kit_append(&kit, i * RECORDS, RECORDS, timestamp, 0), &kit.err);
        for (int j = 0; j < RECORDS; ++j)
            timestamps[i * RECORDS + j] = timestamp + j;
    }
    for (int64_t target = 0; target < 3500; target += 17) {
        for (int64_t start = 0; start < BATCHES * RECORDS; start += 331) {
            int64_t expected = start;
            while (expected < BATCHES * RECORDS && timestamps[expected] < target)
                ++expected;
            const bool none = expected == BATCHES * RECORDS;
            finds(&kit, target, start, none ? -1 : timestamps[expected], none ? -1 : expected);
        }
    }
    segment_kit_close(&kit);
}

/* [TS-3, TS-6] */
TEST(the_first_record_with_the_largest_timestamp_is_found)
{
    segment_kit kit;
    sgs_found_timestamp found;
    segment_kit_open(&kit);
    REQUIRE_OK(segment_kit_segment(&kit, 5, true), &kit.err);
    EXPECT_OK(sgs_log_segment_find_max_timestamp(kit.segment, &found, &kit.err), &kit.err);
    EXPECT_TRUE(!found.found);
    EXPECT_OK(segment_kit_append(&kit, 5, 3, 100, 0), &kit.err);
    EXPECT_OK(segment_kit_append(&kit, 8, 3, 500, 0), &kit.err);
    EXPECT_OK(segment_kit_append(&kit, 11, 3, 500, 0), &kit.err); /* a tie: the earlier batch wins */
    EXPECT_OK(segment_kit_append(&kit, 14, 3, 7, 0), &kit.err);
    EXPECT_OK(sgs_log_segment_find_max_timestamp(kit.segment, &found, &kit.err), &kit.err);
    EXPECT_TRUE(found.found);
    EXPECT_EQ_I64(found.timestamp, 502);
    EXPECT_EQ_I64(found.offset, 10);
    EXPECT_EQ_I64(found.leader_epoch, 3);
    segment_kit_close(&kit);
}

/* LogSegmentTest.testGetFirstBatchTimestamp: the first batch's, -1 when there is none (Kafka says 2^63-1 there [SEG-16]) */
TEST(the_first_batch_gives_the_time_of_the_roll)
{
    segment_kit kit;
    int64_t timestamp = 0;
    segment_kit_open(&kit);
    REQUIRE_OK(segment_kit_segment(&kit, 1, true), &kit.err);
    EXPECT_OK(sgs_log_segment_first_batch_timestamp(kit.segment, &timestamp, &kit.err), &kit.err);
    EXPECT_EQ_I64(timestamp, -1);
    EXPECT_OK(segment_kit_append(&kit, 1, 1, 1000, 0), &kit.err);
    EXPECT_OK(segment_kit_append(&kit, 2, 1, 2000, 0), &kit.err);
    EXPECT_OK(sgs_log_segment_first_batch_timestamp(kit.segment, &timestamp, &kit.err), &kit.err);
    EXPECT_EQ_I64(timestamp, 1000);
    segment_kit_close(&kit);
}

/* A codec that stores: decompressed records are searched like plain ones. */
static sgs_status stored(void *context, const uint8_t *data, size_t size, size_t limit, sgs_buffer *out, sgs_error *err)
{
    (void)context;
    if (size > limit)
        return sgs_fail(err, SGS_LIMIT_EXCEEDED, "too much");
    return sgs_buffer_append(out, data, size, err);
}

TEST(records_of_compressed_batches_are_searched)
{
    enum { GZIP_ATTRIBUTE_AT = 22 };
    static uint8_t file[300];
    segment_kit kit;
    sgs_found_timestamp found;
    segment_kit_open(&kit);
    const size_t size = segment_kit_batch(file, sizeof file, 0, 5, 100, 0);
    file[GZIP_ATTRIBUTE_AT] = SGS_CODEC_GZIP;
    (void)sgs_batch_seal(file, size);
    temporary_write(&kit.directory, "00000000000000000000.log", file, size);
    REQUIRE_OK(segment_kit_segment(&kit, 0, false), &kit.err);
    EXPECT_STATUS(sgs_log_segment_find_offset_by_timestamp(kit.segment, 103, 0, -1, &found, &kit.err),
                  SGS_CODEC_MISSING);
    kit.codecs.providers[SGS_CODEC_GZIP] = (sgs_codec_provider){ .name = "stored", .decompress = stored };
    finds(&kit, 103, 0, 103, 3);
    finds(&kit, 101, 4, 104, 4);
    finds(&kit, 105, 0, -1, -1);
    file[size - 1] ^= 1; /* a record is handed out only from a batch whose CRC is right [DUR-79] */
    temporary_write(&kit.directory, "00000000000000000000.log", file, size);
    EXPECT_STATUS(sgs_log_segment_find_offset_by_timestamp(kit.segment, 103, 0, -1, &found, &kit.err),
                  SGS_CORRUPT_RECORD);
    sgs_log_segment_close_quietly(kit.segment);
    kit.segment = NULL;
    segment_kit_close(&kit);
}

TEST_MAIN()
