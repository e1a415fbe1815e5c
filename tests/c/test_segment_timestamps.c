/* Look-ups by timestamp in a segment: the first record at or after a time, the largest, the first batch. */
#include "base/bytes.h"
#include "record/record.h"
#include "segment_kit.h"
#include "test.h"
#include <stdlib.h>
#include <string.h>

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

/* Many batches share a time, with peaks between: an offset that moved from one of them to another shows nowhere else. */
enum { MANY = 200, LEAST_ENTRIES = 6, INDEX_BYTES = 4096 };
static const char TIME_INDEX[] = "00000000000000000000.timeindex";

static int64_t time_of(int i)
{
    const int64_t dip = i % 5 == 1 ? 24 : 0;
    if (i < MANY / 2)
        return 1000 + i / 12 * 8 + (i % 7 == 3 ? 16 : 0) - dip;
    return 1080 + (i - MANY / 2) / 24 * 16 + (i % 4 == 3 ? 16 : 0) - dip;
}

static void answers_are_right(segment_kit *kit)
{
    sgs_found_timestamp found = { .found = false };
    sgs_timestamp_offset largest = { 0, 0 };
    bool is_partial = false;
    int first_of_largest = 0;
    for (int64_t target = 970; target < 1170; target += 3) {
        int expected = 0;
        while (expected < MANY && time_of(expected) < target)
            ++expected;
        if (expected < MANY)
            finds(kit, target, 0, time_of(expected), expected);
        else
            finds(kit, target, 0, -1, -1);
    }
    for (int i = 1; i < MANY; ++i)
        if (time_of(i) > time_of(first_of_largest))
            first_of_largest = i;
    EXPECT_OK(sgs_log_segment_max_timestamp(kit->segment, &largest, &is_partial, &kit->err), &kit->err);
    EXPECT_EQ_I64(largest.timestamp, time_of(first_of_largest));
    EXPECT_TRUE(!is_partial);
    EXPECT_OK(sgs_log_segment_find_max_timestamp(kit->segment, &found, &kit->err), &kit->err);
    EXPECT_EQ_I64(found.offset, first_of_largest);
}

static void reopen_with(segment_kit *kit, const uint8_t *time_index, size_t size)
{
    sgs_log_segment_close_quietly(kit->segment);
    kit->segment = NULL;
    temporary_write(&kit->directory, TIME_INDEX, time_index, size);
    REQUIRE_OK(segment_kit_segment(kit, 0, false), &kit->err);
}

static size_t make_segment_with_times(segment_kit *kit, uint8_t entries[INDEX_BYTES])
{
    segment_kit_open(kit);
    kit->context.index_interval_bytes = 150;
    if (segment_kit_segment(kit, 0, true) != SGS_OK)
        return 0;
    for (int i = 0; i < MANY; ++i)
        EXPECT_OK(segment_kit_append(kit, i, 1, time_of(i), 0), &kit->err);
    EXPECT_OK(sgs_log_segment_close(kit->segment, &kit->err), &kit->err);
    kit->segment = NULL;
    const int64_t size = temporary_read(&kit->directory, TIME_INDEX, entries, INDEX_BYTES);
    EXPECT_TRUE(size >= LEAST_ENTRIES * 12 && size <= INDEX_BYTES);
    return (size_t)size;
}

/* [DUR-53] the index has no checksum: every entry that is used is compared with the log */
TEST(a_flipped_bit_of_the_time_index_changes_no_answer)
{
    segment_kit kit;
    uint8_t entries[INDEX_BYTES];
    const size_t size = make_segment_with_times(&kit, entries);
    for (int writable = 0; writable < 2; ++writable) {
        kit.context.writable = writable == 1;
        for (size_t bit = 0; bit < 8 * size; ++bit) {
            entries[bit / 8] ^= (uint8_t)(1u << bit % 8);
            reopen_with(&kit, entries, size);
            entries[bit / 8] ^= (uint8_t)(1u << bit % 8);
            answers_are_right(&kit);
        }
    }
    segment_kit_close(&kit);
}

/* [DUR-8, DUR-53] entries that were lost, or are zeros, or are there twice */
TEST(lost_entries_of_the_time_index_change_no_answer)
{
    segment_kit kit;
    uint8_t entries[INDEX_BYTES];
    uint8_t changed[INDEX_BYTES];
    const size_t size = make_segment_with_times(&kit, entries);
    for (size_t first = 0; first < size; first += 12) {
        reopen_with(&kit, entries, first);
        answers_are_right(&kit);
        for (size_t end = first + 12; end <= size; end += 12) {
            memcpy(changed, entries, size);
            memset(changed + first, 0, end - first);
            reopen_with(&kit, changed, size);
            answers_are_right(&kit);
            memcpy(changed + first, entries, end - first);
            reopen_with(&kit, changed, size);
            answers_are_right(&kit);
        }
    }
    segment_kit_close(&kit);
}

/* [DUR-79] Behind damage there may be a later time: the answer says so, and is not kept. */
TEST(a_largest_timestamp_in_front_of_damage_is_partial)
{
    enum { DAMAGED = 20 };
    static const uint8_t nonsense[50];
    segment_kit kit;
    sgs_segment_fetch batch;
    sgs_timestamp_offset largest = { 0, 0 };
    uint8_t entries[INDEX_BYTES];
    const size_t size = make_segment_with_times(&kit, entries);
    reopen_with(&kit, entries, size);
    EXPECT_OK(sgs_log_segment_translate_offset(kit.segment, DAMAGED, 0, -1, &batch, &kit.err), &kit.err);
    const sgs_slice slice = { nonsense, sizeof nonsense };
    const sgs_env *const env = sgs_env_posix();
    int64_t written;
    int fd;
    REQUIRE_OK(env->open_file(env, kit.directory.fd, "00000000000000000000.log", SGS_OPEN_WRITE, &fd, &kit.err),
               &kit.err);
    EXPECT_OK(env->write_at(env, fd, "", &slice, 1, batch.position, &written, &kit.err), &kit.err);
    EXPECT_OK(env->close(env, fd, "", &kit.err), &kit.err);
    for (int has_index = 0; has_index < 2; ++has_index) {
        reopen_with(&kit, entries, has_index ? size : 0);
        for (int again = 0; again < 2; ++again) {
            bool is_partial = has_index;
            EXPECT_OK(sgs_log_segment_max_timestamp(kit.segment, &largest, &is_partial, &kit.err), &kit.err);
            EXPECT_EQ_I64(is_partial, !has_index); /* the last entry shows what is behind the damage */
            EXPECT_TRUE(has_index ? largest.offset > DAMAGED : largest.offset < DAMAGED);
        }
    }
    segment_kit_close(&kit);
}

/* [DUR-62] Kafka believes its index: a wrong last entry is the largest timestamp. */
TEST(the_conformance_profile_believes_the_time_index)
{
    segment_kit kit;
    sgs_timestamp_offset largest = { 0, 0 };
    bool is_partial = false;
    uint8_t entries[INDEX_BYTES];
    const size_t size = make_segment_with_times(&kit, entries);
    kit.context.kafka_profile = true;
    sgs_store_be64(entries + size - 12, 77777);
    reopen_with(&kit, entries, size);
    EXPECT_OK(sgs_log_segment_max_timestamp(kit.segment, &largest, &is_partial, &kit.err), &kit.err);
    EXPECT_EQ_I64(largest.timestamp, 77777);
    EXPECT_TRUE(!sgs_log_segment_index_damaged(kit.segment));
    kit.context.kafka_profile = false;
    reopen_with(&kit, entries, size);
    answers_are_right(&kit);
    EXPECT_TRUE(sgs_log_segment_index_damaged(kit.segment));
    segment_kit_close(&kit);
}

TEST_MAIN()
