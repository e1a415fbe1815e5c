/* test_segment_truncate.c - what goes with a batch that is cut: all behind it, their index entries, what was known of them; and
 * what stays. */
#include <errno.h>

#include "segment_kit.h"
#include "test.h"

enum { SIZE = 100 };
static const char LOG[] = "00000000000000000000.log";
static const char INDEX[] = "00000000000000000000.index";
static const char TIMEINDEX[] = "00000000000000000000.timeindex";

/* Batches of one record, at times 0, 10, 20, ...; each but the first gets an entry in both indexes. */
static void open_with_batches(segment_kit *kit, bool kafka_profile, int count)
{
    segment_kit_open(kit);
    kit->context.kafka_profile = kafka_profile;
    kit->context.index_interval_bytes = 0;
    kit->context.max_index_bytes = 240;
    segment_kit_fill(kit, count, SIZE);
}

static void close_and_reopen(segment_kit *kit)
{
    EXPECT_OK(sgs_log_segment_close(kit->segment, &kit->err), &kit->err);
    kit->segment = NULL;
    REQUIRE_OK(segment_kit_segment(kit, 0, false), &kit->err);
}

/* ---- the .log ---- */

/* LogSegmentTest.testTruncate */
TEST(truncation_takes_the_batch_with_the_offset_and_all_behind)
{
    segment_kit kit;
    segment_kit_open(&kit);
    REQUIRE_OK(segment_kit_segment(&kit, 40, true), &kit.err);
    int64_t offset = 40;
    for (int i = 0; i < 30; ++i) {
        EXPECT_OK(segment_kit_append(&kit, offset, 1, -1, 0), &kit.err);
        EXPECT_OK(segment_kit_append(&kit, offset + 1, 1, -1, 0), &kit.err);
        EXPECT_EQ_I64(segment_kit_read_offset(&kit, offset), offset);
        EXPECT_EQ_I64(segment_kit_read_offset(&kit, offset + 1), offset + 1);
        EXPECT_EQ_I64(segment_kit_truncate_to(&kit, offset + 1), KIT_LEAST_BATCH_BYTES);
        EXPECT_EQ_I64(segment_kit_read_offset(&kit, offset), offset);
        EXPECT_EQ_I64(segment_kit_read_offset(&kit, offset + 1), -1);
        offset += 1;
    }
    segment_kit_close(&kit);
}

/* LogSegmentTest.shouldTruncateEvenIfOffsetPointsToAGapInTheLog [SEG-25] */
TEST(truncation_into_a_gap_takes_the_batch_behind_it)
{
    segment_kit kit;
    segment_kit_open(&kit);
    REQUIRE_OK(segment_kit_segment(&kit, 40, true), &kit.err);
    EXPECT_OK(segment_kit_append(&kit, 40, 1, -1, 0), &kit.err);
    EXPECT_OK(segment_kit_append(&kit, 43, 1, -1, 0), &kit.err);
    EXPECT_EQ_I64(segment_kit_truncate_to(&kit, 41), KIT_LEAST_BATCH_BYTES);
    EXPECT_EQ_I64(segment_kit_next_offset(&kit), 41);
    EXPECT_EQ_I64(segment_kit_read_offset(&kit, 40), 40);
    EXPECT_EQ_I64(segment_kit_read_offset(&kit, 41), -1);
    EXPECT_EQ_I64(segment_kit_truncate_to(&kit, 41), 0);
    segment_kit_close(&kit);
}

/* LogSegmentTest.testTruncateFull (the times of the roll decision are the caller's) */
TEST(truncation_of_everything_leaves_a_segment_like_a_new_one)
{
    segment_kit kit;
    bool full = true;
    int64_t timestamp = 0;
    segment_kit_open(&kit);
    REQUIRE_OK(segment_kit_segment(&kit, 40, true), &kit.err);
    kit.memory.wall_clock_ms = 1000500;
    EXPECT_OK(segment_kit_append(&kit, 40, 2, 1000, 0), &kit.err);
    EXPECT_OK(sgs_log_segment_first_batch_timestamp(kit.segment, &timestamp, &kit.err), &kit.err);
    EXPECT_EQ_I64(timestamp, 1001);
    EXPECT_TRUE(segment_kit_truncate_to(&kit, 0) > 0);
    EXPECT_EQ_I64(sgs_log_segment_created_ms(kit.segment), 1000500);
    EXPECT_OK(sgs_log_segment_first_batch_timestamp(kit.segment, &timestamp, &kit.err), &kit.err);
    EXPECT_EQ_I64(timestamp, -1);
    EXPECT_OK(sgs_log_segment_indexes_full(kit.segment, &full, &kit.err), &kit.err);
    EXPECT_TRUE(!full);
    EXPECT_EQ_I64(segment_kit_read_offset(&kit, 0), -1);
    EXPECT_EQ_I64(segment_kit_max_timestamp(&kit), -1);
    EXPECT_OK(segment_kit_append(&kit, 40, 2, 1000, 0), &kit.err);
    EXPECT_EQ_I64(segment_kit_read_offset(&kit, 40), 40);
    segment_kit_close(&kit);
}

/* LogSegmentTest.testTruncateEmptySegment */
TEST(a_segment_closed_empty_has_room_again_after_a_truncation)
{
    segment_kit kit;
    bool full = false;
    segment_kit_open(&kit);
    REQUIRE_OK(segment_kit_segment(&kit, 0, true), &kit.err);
    EXPECT_OK(sgs_log_segment_indexes_full(kit.segment, &full, &kit.err), &kit.err); /* loads them */
    EXPECT_TRUE(!full);
    EXPECT_OK(sgs_log_segment_close(kit.segment, &kit.err), &kit.err);
    REQUIRE_OK(segment_kit_segment(&kit, 0, false), &kit.err);
    EXPECT_EQ_I64(segment_kit_file_size(&kit, SGS_FILE_INDEX), 0);
    EXPECT_EQ_I64(segment_kit_file_size(&kit, SGS_FILE_TIMEINDEX), 0);
    EXPECT_OK(sgs_log_segment_indexes_full(kit.segment, &full, &kit.err), &kit.err);
    EXPECT_TRUE(full);
    EXPECT_EQ_I64(segment_kit_truncate_to(&kit, 57), 0);
    EXPECT_OK(sgs_log_segment_indexes_full(kit.segment, &full, &kit.err), &kit.err);
    EXPECT_TRUE(!full);
    segment_kit_close(&kit);
}

/* LogSegmentTest.testReloadLargestTimestampAndNextOffsetAfterTruncation */
TEST(the_largest_timestamp_follows_a_truncation)
{
    segment_kit kit;
    segment_kit_open(&kit);
    kit.context.index_interval_bytes = 2 * KIT_LEAST_BATCH_BYTES - 1;
    REQUIRE_OK(segment_kit_segment(&kit, 40, true), &kit.err);
    for (int i = 40; i < 70; ++i)
        EXPECT_OK(segment_kit_append(&kit, i, 1, i * 10, KIT_LEAST_BATCH_BYTES), &kit.err);
    EXPECT_EQ_I64(segment_kit_next_offset(&kit), 70);
    EXPECT_EQ_I64(segment_kit_time_entries(&kit), 14);
    segment_kit_truncate_to(&kit, 41);
    EXPECT_EQ_I64(segment_kit_time_entries(&kit), 0);
    EXPECT_EQ_I64(segment_kit_max_timestamp(&kit), 400);
    EXPECT_EQ_I64(segment_kit_next_offset(&kit), 41);
    segment_kit_close(&kit);
}

TEST(a_truncation_that_cannot_cut_changes_nothing)
{
    segment_kit kit;
    int32_t bytes_cut = -5;
    segment_kit_open(&kit);
    kit.context.index_interval_bytes = 0;
    REQUIRE_OK(segment_kit_segment(&kit, 0, true), &kit.err);
    for (int i = 0; i < 9; ++i)
        EXPECT_OK(segment_kit_append(&kit, i, 1, i, 0), &kit.err);
    memory_env_fail(&kit.memory, "truncate", 1, EIO);
    EXPECT_STATUS(sgs_log_segment_truncate_to(kit.segment, 4, &bytes_cut, &kit.err), SGS_WRITE_IO);
    EXPECT_TEXT(kit.err.file, LOG);
    EXPECT_EQ_I64(bytes_cut, -5);
    EXPECT_EQ_I64(sgs_log_segment_size(kit.segment), 9 * KIT_LEAST_BATCH_BYTES);
    EXPECT_EQ_I64(segment_kit_offset_entries(&kit), 8);
    EXPECT_OK(segment_kit_append(&kit, 9, 1, 9, 0), &kit.err);
    memory_env_fail(&kit.memory, "sync_file", 1, EIO); /* cut, but not on disk: nothing may be written behind it */
    EXPECT_STATUS(sgs_log_segment_truncate_to(kit.segment, 4, &bytes_cut, &kit.err), SGS_FSYNC_FAILED);
    EXPECT_STATUS(segment_kit_append(&kit, 4, 1, 9, 0), SGS_ILLEGAL_STATE);
    segment_kit_close(&kit);
}

/* Headers of large batches are remembered: those of what was cut must not be found where other batches are now. */
TEST(what_is_written_behind_a_cut_is_found_by_its_own_headers)
{
    segment_kit kit;
    sgs_segment_fetch fetch;
    segment_kit_open(&kit);
    REQUIRE_OK(segment_kit_segment(&kit, 0, true), &kit.err);
    for (int i = 0; i < 5; ++i)
        EXPECT_OK(segment_kit_append(&kit, i, 1, i, 9000), &kit.err);
    EXPECT_OK(sgs_log_segment_translate_offset(kit.segment, 3, 0, -1, &fetch, &kit.err), &kit.err);
    EXPECT_EQ_I64(fetch.position, 27000);
    EXPECT_EQ_I64(segment_kit_truncate_to(&kit, 3), 18000);
    EXPECT_OK(segment_kit_append(&kit, 3, 3, 3, 9500), &kit.err);
    EXPECT_OK(sgs_log_segment_translate_offset(kit.segment, 4, 0, -1, &fetch, &kit.err), &kit.err);
    EXPECT_EQ_I64(fetch.position, 27000);
    EXPECT_EQ_I64(fetch.base_offset, 3);
    EXPECT_EQ_I64(fetch.first_batch_size, 9500);
    segment_kit_close(&kit);
}

/* ---- the indexes ---- */

/* [SEG-24.2, OFX-5, TMX-7] */
TEST(the_entries_of_what_was_cut_go_and_the_others_stay)
{
    for (int kafka = 0; kafka < 2; ++kafka) {
        segment_kit kit;
        open_with_batches(&kit, kafka == 1, 10);
        EXPECT_EQ_I64(segment_kit_truncate_to(&kit, 6), 4 * SIZE);
        EXPECT_EQ_I64(segment_kit_offset_entries(&kit), 5);
        segment_kit_entry_is(&kit, 4, 5, 5 * SIZE);
        EXPECT_EQ_I64(segment_kit_time_entries(&kit), 5);
        segment_kit_time_entry_is(&kit, 4, 50, 5);
        EXPECT_TRUE(!sgs_log_segment_index_damaged(kit.segment));
        EXPECT_EQ_I64(segment_kit_next_offset(&kit), 6);
        segment_kit_close(&kit);
    }
}

/* [SEG-24.6] as if the segment had been opened: what lies behind the last entry is not counted */
TEST(the_cadence_of_entries_begins_anew)
{
    segment_kit kit;
    segment_kit_open(&kit);
    REQUIRE_OK(segment_kit_segment(&kit, 0, true), &kit.err);
    const size_t sizes[] = { 4096, 4096, SIZE };
    for (int i = 0; i < 3; ++i)
        EXPECT_OK(segment_kit_append(&kit, i, 1, i, sizes[i]), &kit.err);
    EXPECT_EQ_I64(segment_kit_offset_entries(&kit), 1);
    segment_kit_truncate_to(&kit, 2);
    EXPECT_EQ_I64(segment_kit_offset_entries(&kit), 0);
    for (int i = 2; i < 4; ++i) {
        EXPECT_OK(segment_kit_append(&kit, i, 1, i, 4096), &kit.err);
        EXPECT_EQ_I64(segment_kit_offset_entries(&kit), 0);
    }
    EXPECT_OK(segment_kit_append(&kit, 4, 1, 4, SIZE), &kit.err);
    EXPECT_EQ_I64(segment_kit_offset_entries(&kit), 1);
    segment_kit_entry_is(&kit, 0, 4, 4 * 4096);
    segment_kit_close(&kit);
}

/* [DUR-80] one slot of zeros could be an entry, to who opens the files beside us: such a slot goes. More of them are padding
 * to everybody, and stay, as does an entry that is one. */
TEST(an_emptied_slot_is_no_entry_to_a_reader)
{
    const struct {
        int batches, offset;
        int64_t slots_before, slots_after;
        uint32_t entries;
    } cases[] = { { 2, 0, 1, 0, 0 }, { 3, 0, 2, 2, 0 }, { 2, 5, 1, 1, 1 }, { 3, 2, 2, 2, 1 } };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        segment_kit kit;
        segment_kit reader;
        open_with_batches(&kit, false, cases[i].batches);
        close_and_reopen(&kit);
        EXPECT_EQ_I64(segment_kit_file_size(&kit, SGS_FILE_INDEX), 8 * cases[i].slots_before);
        EXPECT_EQ_I64(segment_kit_file_size(&kit, SGS_FILE_TIMEINDEX), 12 * cases[i].slots_before);
        segment_kit_truncate_to(&kit, cases[i].offset);
        EXPECT_EQ_I64(segment_kit_file_size(&kit, SGS_FILE_INDEX), 8 * cases[i].slots_after);
        EXPECT_EQ_I64(segment_kit_file_size(&kit, SGS_FILE_TIMEINDEX), 12 * cases[i].slots_after);

        segment_kit_open_on(&reader, sgs_env_posix(), kit.directory.fd);
        reader.context.writable = false;
        EXPECT_OK(segment_kit_segment(&reader, 0, false), &reader.err);
        EXPECT_EQ_I64(segment_kit_offset_entries(&reader), cases[i].entries);
        EXPECT_EQ_I64(segment_kit_time_entries(&reader), cases[i].entries);
        segment_kit_close(&reader);
        segment_kit_close(&kit);
    }
}

/* [OFX-5, SEG-24.3, DUR-62] Kafka forgets its entries and leaves their bytes, in files at their full size again */
TEST(a_kafka_truncation_leaves_the_bytes_of_entries)
{
    segment_kit kit;
    uint8_t before[24];
    uint8_t after[24];
    open_with_batches(&kit, true, 2);
    close_and_reopen(&kit);
    EXPECT_EQ_I64(temporary_read(&kit.directory, INDEX, before, 8), 8);
    EXPECT_EQ_I64(temporary_read(&kit.directory, TIMEINDEX, before + 8, 12), 12);
    EXPECT_EQ_I64(segment_kit_truncate_to(&kit, 0), 2 * SIZE);
    EXPECT_EQ_I64(segment_kit_offset_entries(&kit), 0);
    EXPECT_EQ_I64(segment_kit_time_entries(&kit), 0);
    EXPECT_EQ_I64(temporary_read(&kit.directory, INDEX, after, 8), 240);
    EXPECT_EQ_I64(temporary_read(&kit.directory, TIMEINDEX, after + 8, 12), 240);
    EXPECT_MEM(after, before, 20);
    segment_kit_close(&kit);
}

/* A segment, sealed and released or just opened, whose time index cannot be opened when its .log is cut already. */
static sgs_status truncate_without_time_index(segment_kit *kit, bool kafka_profile, bool sealed, int os_error)
{
    int32_t bytes_cut = -5;
    open_with_batches(kit, kafka_profile, 5);
    if (sealed) {
        EXPECT_OK(sgs_log_segment_on_become_inactive(kit->segment, &kit->err), &kit->err);
        EXPECT_OK(segment_kit_flush(kit, true), &kit->err);
        EXPECT_OK(sgs_log_segment_release(kit->segment, &kit->err), &kit->err);
    } else {
        close_and_reopen(kit);
    }
    memory_env_fail(&kit->memory, "open_file", 3, os_error);
    const sgs_status status = sgs_log_segment_truncate_to(kit->segment, 3, &bytes_cut, &kit->err);
    EXPECT_EQ_I64(bytes_cut, status == SGS_OK ? 2 * SIZE : -5);
    EXPECT_EQ_I64(segment_kit_file_size(kit, SGS_FILE_LOG), 3 * SIZE);
    return status;
}

/* [DUR-8, DUR-41] what was asked for is done: the segment goes on, and its indexes are made anew when it is closed */
TEST(an_index_that_fails_does_not_fail_a_truncation)
{
    for (int sealed = 0; sealed < 2; ++sealed) {
        segment_kit kit;
        EXPECT_OK(truncate_without_time_index(&kit, false, sealed == 1, EIO), &kit.err);
        EXPECT_TRUE(sgs_log_segment_index_damaged(kit.segment));
        EXPECT_EQ_I64(segment_kit_max_timestamp(&kit), 20);
        EXPECT_OK(segment_kit_append(&kit, 3, 1, 25, SIZE), &kit.err); /* it is sealed no more */
        close_and_reopen(&kit);
        EXPECT_EQ_I64(segment_kit_offset_entries(&kit), 3);
        EXPECT_EQ_I64(segment_kit_time_entries(&kit), 3);
        segment_kit_time_entry_is(&kit, 2, 25, 3);
        segment_kit_close(&kit);
    }
}

/* [DUR-62, DUR-44] Kafka's truncation fails with its index; a broken invariant is told in every profile */
TEST(a_kafka_truncation_fails_with_its_index)
{
    segment_kit kit;
    EXPECT_STATUS(truncate_without_time_index(&kit, true, true, EIO), SGS_WRITE_IO);
    EXPECT_TEXT(kit.err.file, TIMEINDEX);
    sgs_log_segment_close_quietly(kit.segment);
    kit.segment = NULL;
    segment_kit_close(&kit);

    EXPECT_STATUS(truncate_without_time_index(&kit, false, true, MEMORY_ENV_BROKEN_INVARIANT), SGS_INTERNAL);
    EXPECT_TRUE(!sgs_log_segment_index_damaged(kit.segment));
    segment_kit_close(&kit);
}

/* ---- the largest timestamp ---- */

/* [SEG-24.7] of the batches that are left, whatever the last entry says; also when nobody has asked before */
TEST(the_largest_timestamp_is_that_of_what_is_left)
{
    for (int kafka = 0; kafka < 2; ++kafka)
        for (int asked = 0; asked < 2; ++asked) {
            segment_kit kit;
            segment_kit_open(&kit);
            kit.context.kafka_profile = kafka == 1;
            kit.context.index_interval_bytes = 250; /* entries of batches 3, 6 and 9 */
            REQUIRE_OK(segment_kit_segment(&kit, 0, true), &kit.err);
            for (int i = 0; i < 10; ++i)
                EXPECT_OK(segment_kit_append(&kit, i, 1, 10 * i, SIZE), &kit.err);
            close_and_reopen(&kit);
            if (asked == 1)
                EXPECT_EQ_I64(segment_kit_max_timestamp(&kit), 90);
            segment_kit_truncate_to(&kit, 6);
            EXPECT_EQ_I64(segment_kit_time_entries(&kit), 1);
            EXPECT_EQ_I64(segment_kit_max_timestamp(&kit), 50);
            segment_kit_truncate_to(&kit, 1);
            EXPECT_EQ_I64(segment_kit_max_timestamp(&kit), 0);
            segment_kit_truncate_to(&kit, 0); /* a time of zero is one */
            EXPECT_EQ_I64(segment_kit_max_timestamp(&kit), -1);
            segment_kit_close(&kit);
        }
}

/* [SEG-24.7] there is nothing to look for then */
TEST(batches_without_timestamps_are_not_read_for_them)
{
    segment_kit kit;
    int32_t bytes_cut = 0;
    segment_kit_open(&kit);
    REQUIRE_OK(segment_kit_segment(&kit, 0, true), &kit.err);
    for (int i = 0; i < 10; ++i)
        EXPECT_OK(segment_kit_append(&kit, i, 1, -1, SIZE), &kit.err);
    memory_env_fail_always(&kit.memory, "read_at", 2, EIO); /* the first one finds the batch */
    EXPECT_OK(sgs_log_segment_truncate_to(kit.segment, 6, &bytes_cut, &kit.err), &kit.err);
    EXPECT_EQ_I64(bytes_cut, 4 * SIZE);
    EXPECT_EQ_I64(segment_kit_max_timestamp(&kit), -1);
    memory_env_heal(&kit.memory);
    segment_kit_close(&kit);
}

TEST_MAIN()
