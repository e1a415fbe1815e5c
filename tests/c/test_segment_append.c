/* Appends to a segment: what is indexed, what overflows, and disks that fail. */
#define _POSIX_C_SOURCE 200809L

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "segment_kit.h"
#include "test.h"

/* ---- append ---- */

/* Table T-2 [SEG-5, SEG-8]: one batch a call, or many; recovery gives the same. */
TEST(index_entries_come_where_table_t2_says)
{
    enum { BATCHES = 130, SIZE = 100 };
    static uint8_t bytes[BATCHES * SIZE];
    static sgs_batch_header rows[BATCHES];
    for (int at_once = 0; at_once < 2; ++at_once) {
        segment_kit kit;
        segment_kit_open(&kit);
        REQUIRE_OK(segment_kit_segment(&kit, 0, true), &kit.err);
        for (int i = 0; i < BATCHES; ++i) {
            segment_kit_batch(bytes + i * SIZE, SIZE, i, 1, 10 + 10 * (i % 42), SIZE);
            REQUIRE_OK(sgs_batch_header_load(bytes + i * SIZE, SIZE, 0, &rows[i], &kit.err), &kit.err);
        }
        const sgs_slice all[2] = { { bytes, 40 * SIZE }, { bytes + 40 * SIZE, (BATCHES - 40) * SIZE } };
        if (at_once == 1)
            EXPECT_OK(sgs_log_segment_append(kit.segment, all, 2, rows, BATCHES, &kit.poisoned, &kit.err), &kit.err);
        for (int i = 0; i < BATCHES && at_once == 0; ++i) {
            const sgs_slice one = { bytes + i * SIZE, SIZE };
            EXPECT_OK(sgs_log_segment_append(kit.segment, &one, 1, &rows[i], 1, &kit.poisoned, &kit.err), &kit.err);
        }
        EXPECT_EQ_I64(sgs_log_segment_size(kit.segment), BATCHES * SIZE);
        EXPECT_EQ_I64(sgs_log_segment_unflushed_records(kit.segment), BATCHES);
        for (int recovered = 0; recovered < 2; ++recovered) {
            EXPECT_EQ_I64(segment_kit_offset_entries(&kit), 3);
            segment_kit_entry_is(&kit, 0, 41, 4100);
            segment_kit_entry_is(&kit, 1, 82, 8200);
            segment_kit_entry_is(&kit, 2, 123, 12300);
            /* batches 41 and 83 have the maximum of 420: the second repeats it and adds nothing */
            EXPECT_EQ_I64(segment_kit_time_entries(&kit), 1);
            segment_kit_time_entry_is(&kit, 0, 420, 41);
            EXPECT_TRUE(segment_kit_recover(&kit, SGS_CUT_ANYWHERE).indexes_written);
        }
        segment_kit_close(&kit);
    }
}

TEST(batches_of_exactly_the_interval_are_indexed_every_second_time)
{
    segment_kit kit;
    segment_kit_open(&kit);
    REQUIRE_OK(segment_kit_segment(&kit, 0, true), &kit.err);
    for (int i = 0; i < 7; ++i)
        EXPECT_OK(segment_kit_append(&kit, i, 1, i, 4096), &kit.err);
    EXPECT_EQ_I64(segment_kit_offset_entries(&kit), 3);
    segment_kit_entry_is(&kit, 0, 2, 8192);
    segment_kit_entry_is(&kit, 1, 4, 16384);
    segment_kit_entry_is(&kit, 2, 6, 24576);
    segment_kit_close(&kit);
}

/* [SEG-8] the test is strict: with interval 0 the first batch is not indexed, all others are */
TEST(with_interval_zero_every_batch_but_the_first_is_indexed)
{
    segment_kit kit;
    segment_kit_open(&kit);
    kit.context.index_interval_bytes = 0;
    REQUIRE_OK(segment_kit_segment(&kit, 0, true), &kit.err);
    for (int i = 0; i < 5; ++i)
        EXPECT_OK(segment_kit_append(&kit, 2 * i, 2, 7, 0), &kit.err);
    EXPECT_EQ_I64(segment_kit_offset_entries(&kit), 4);
    segment_kit_entry_is(&kit, 0, 3, sgs_log_segment_size(kit.segment) / 5);
    EXPECT_EQ_I64(segment_kit_time_entries(&kit), 1);
    segment_kit_time_entry_is(&kit, 0, 8, 1); /* the last offset of the first batch that carries the maximum [SEG-3] */
    segment_kit_close(&kit);
}

/* [DUR-89] whoever assigned it, and in both profiles: the log end behind it is no number */
TEST(the_last_offset_of_all_is_refused)
{
    for (int kafka = 0; kafka < 2; ++kafka) {
        segment_kit kit;
        segment_kit_open(&kit);
        kit.context.kafka_profile = kafka == 1;
        REQUIRE_OK(segment_kit_segment(&kit, INT64_MAX - 5, true), &kit.err);
        EXPECT_OK(segment_kit_append(&kit, INT64_MAX - 5, 3, 0, 0), &kit.err);
        const int32_t size = sgs_log_segment_size(kit.segment);
        EXPECT_STATUS(segment_kit_append(&kit, INT64_MAX - 2, 3, 0, 0), SGS_INVALID_OFFSET);
        EXPECT_STATUS(segment_kit_append(&kit, INT64_MAX, 1, 0, 0), SGS_INVALID_OFFSET);
        EXPECT_EQ_I64(sgs_log_segment_size(kit.segment), size);
        EXPECT_OK(segment_kit_append(&kit, INT64_MAX - 2, 2, 0, 0), &kit.err);
        EXPECT_EQ_I64(segment_kit_next_offset(&kit), INT64_MAX);
        segment_kit_close(&kit);
    }
}

/* LogSegmentTest.testAppendForLogSegmentOffsetOverflowException (bases that no file name can have are left out), T-7 */
TEST(offsets_that_do_not_fit_are_refused_before_anything_is_written)
{
    const struct {
        int64_t base, offset;
        sgs_status status;
    } cases[] = {
        { 0, INT64_C(-2147483648), SGS_SEGMENT_OFFSET_OVERFLOW },
        { 0, INT64_C(2147483648), SGS_SEGMENT_OFFSET_OVERFLOW },
        { 1, 0, SGS_SEGMENT_OFFSET_OVERFLOW },
        { 100, 10, SGS_SEGMENT_OFFSET_OVERFLOW },
        { 100, 99, SGS_SEGMENT_OFFSET_OVERFLOW },
        { INT64_C(2147483648), 0, SGS_SEGMENT_OFFSET_OVERFLOW },
        { INT64_C(2147483648), INT64_C(4294967296), SGS_SEGMENT_OFFSET_OVERFLOW },
        { INT64_C(2147483648), INT64_C(4294967295), SGS_OK },
        { 0, INT64_C(2147483647), SGS_OK },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        segment_kit kit;
        segment_kit_open(&kit);
        REQUIRE_OK(segment_kit_segment(&kit, cases[i].base, true), &kit.err);
        EXPECT_STATUS(segment_kit_append(&kit, cases[i].offset, 1, 0, 0), cases[i].status);
        EXPECT_EQ_I64(sgs_log_segment_size(kit.segment), cases[i].status == SGS_OK ? KIT_LEAST_BATCH_BYTES : 0);
        EXPECT_EQ_I64(segment_kit_file_size(&kit, SGS_FILE_LOG), sgs_log_segment_size(kit.segment));
        segment_kit_close(&kit);
    }
}

TEST(an_append_that_contradicts_itself_is_refused)
{
    uint8_t bytes[200];
    sgs_batch_header rows[2];
    segment_kit kit;
    segment_kit_open(&kit);
    REQUIRE_OK(segment_kit_segment(&kit, 0, true), &kit.err);
    segment_kit_batch(bytes, 100, 5, 1, 0, 100);
    segment_kit_batch(bytes + 100, 100, 4, 1, 0, 100);
    REQUIRE_OK(sgs_batch_header_load(bytes, 100, 0, &rows[0], &kit.err), &kit.err);
    REQUIRE_OK(sgs_batch_header_load(bytes + 100, 100, 100, &rows[1], &kit.err), &kit.err);
    const sgs_slice slice = { bytes, 200 };
    sgs_log_segment *segment = kit.segment;
    EXPECT_STATUS(sgs_log_segment_append(segment, &slice, 1, rows, 1, &kit.poisoned, &kit.err), SGS_ILLEGAL_ARGUMENT);
    EXPECT_STATUS(sgs_log_segment_append(segment, &slice, 1, rows, 2, &kit.poisoned, &kit.err), SGS_INVALID_OFFSET);
    EXPECT_OK(sgs_log_segment_append(segment, NULL, 0, NULL, 0, &kit.poisoned, &kit.err), &kit.err); /* [SEG-5.1] */
    rows[0].size_bytes = INT32_MAX;
    EXPECT_STATUS(sgs_log_segment_append(segment, &slice, 1, rows, 1, &kit.poisoned, &kit.err), SGS_ILLEGAL_ARGUMENT);
    rows[0].size_bytes = -100;
    EXPECT_STATUS(sgs_log_segment_append(segment, &slice, 1, rows, 1, &kit.poisoned, &kit.err), SGS_ILLEGAL_ARGUMENT);
    EXPECT_EQ_I64(sgs_log_segment_size(segment), 0);
    EXPECT_EQ_I64(memory_env_calls(&kit.memory, "write_at"), 0);
    EXPECT_TRUE(!kit.poisoned);
    segment_kit_close(&kit);
}

static int64_t all_calls(const memory_env *memory)
{
    int64_t calls = 0;
    for (int i = 0; i < MEMORY_ENV_CALL_COUNT; ++i)
        calls += memory->calls[i];
    return calls;
}

TEST(an_append_is_one_call)
{
    segment_kit kit;
    segment_kit_open(&kit);
    REQUIRE_OK(segment_kit_segment(&kit, 0, true), &kit.err);
    for (int i = 0; i < 50; ++i) /* the first index entries need their first blocks */
        EXPECT_OK(segment_kit_append(&kit, i, 1, i, 1000), &kit.err);
    const int64_t before = all_calls(&kit.memory);
    for (int i = 50; i < 150; ++i)
        EXPECT_OK(segment_kit_append(&kit, i, 1, i, 1000), &kit.err);
    EXPECT_EQ_I64(all_calls(&kit.memory) - before, 100);
    EXPECT_TRUE(segment_kit_offset_entries(&kit) > 25);
    segment_kit_close(&kit);
}

/* [SEG-27] port: full indexes end the entries, not the append; T-1: with room for one time entry none is ever taken. */
TEST(full_indexes_take_no_entries_and_fail_nothing)
{
    segment_kit kit;
    bool full = false;
    segment_kit_open(&kit);
    kit.context.max_index_bytes = 36; /* 4 offsets, 3 times: full at 2 */
    kit.context.index_interval_bytes = 0;
    REQUIRE_OK(segment_kit_segment(&kit, 0, true), &kit.err);
    for (int i = 0; i < 10; ++i)
        EXPECT_OK(segment_kit_append(&kit, i, 1, i, 0), &kit.err);
    EXPECT_EQ_I64(segment_kit_offset_entries(&kit), 2);
    EXPECT_EQ_I64(segment_kit_time_entries(&kit), 2);
    EXPECT_OK(sgs_log_segment_indexes_full(kit.segment, &full, &kit.err), &kit.err);
    EXPECT_TRUE(full);
    for (int i = 0; i < 10; ++i)
        EXPECT_EQ_I64(segment_kit_read_offset(&kit, i), i);
    EXPECT_OK(sgs_log_segment_on_become_inactive(kit.segment, &kit.err), &kit.err);
    EXPECT_EQ_I64(segment_kit_time_entries(&kit), 3);
    segment_kit_time_entry_is(&kit, 2, 9, 9);
    segment_kit_close(&kit);
}

/* ---- failing disks ---- */

/* [DUR-30, DUR-32] */
TEST(a_full_disk_cuts_back_to_the_old_end_and_the_log_goes_on_when_space_returns)
{
    segment_kit kit;
    segment_kit_open(&kit);
    REQUIRE_OK(segment_kit_segment(&kit, 0, true), &kit.err);
    EXPECT_OK(segment_kit_append(&kit, 0, 1, 7, 500), &kit.err);
    kit.memory.space_left = 120; /* a short write, then ENOSPC */
    EXPECT_STATUS(segment_kit_append(&kit, 1, 1, 99, 500), SGS_DISK_FULL);
    EXPECT_TRUE(!kit.poisoned);
    EXPECT_EQ_I64(segment_kit_file_size(&kit, SGS_FILE_LOG), 500);
    EXPECT_EQ_I64(sgs_log_segment_size(kit.segment), 500);
    EXPECT_EQ_I64(segment_kit_max_timestamp(&kit), 7);
    EXPECT_EQ_I64(sgs_log_segment_unflushed_records(kit.segment), 1);
    EXPECT_EQ_I64(segment_kit_read_offset(&kit, 0), 0);
    EXPECT_EQ_I64(segment_kit_read_offset(&kit, 1), -1);
    EXPECT_EQ_I64(memory_env_calls(&kit.memory, "sync_file"), 1); /* the shrink is on disk before the next write */
    memory_env_heal(&kit.memory);
    EXPECT_OK(segment_kit_append(&kit, 1, 1, 99, 500), &kit.err);
    EXPECT_EQ_I64(segment_kit_next_offset(&kit), 2);
    segment_kit_close(&kit);
}

TEST(when_the_cut_or_its_sync_fails_the_segment_takes_no_more_writes)
{
    const char *const calls[] = { "truncate", "sync_file" };
    for (int i = 0; i < 2; ++i) {
        segment_kit kit;
        int32_t bytes_cut;
        segment_kit_open(&kit);
        REQUIRE_OK(segment_kit_segment(&kit, 0, true), &kit.err);
        EXPECT_OK(segment_kit_append(&kit, 0, 1, 7, 500), &kit.err);
        memory_env_fail(&kit.memory, "write_at", 1, EIO);
        memory_env_fail(&kit.memory, calls[i], 1, EIO);
        EXPECT_STATUS(segment_kit_append(&kit, 1, 1, 99, 500), SGS_WRITE_IO); /* the first cause is what is told */
        EXPECT_TRUE(kit.poisoned);
        memory_env_heal(&kit.memory);
        EXPECT_STATUS(segment_kit_append(&kit, 1, 1, 99, 500), SGS_ILLEGAL_STATE);
        EXPECT_TRUE(kit.poisoned);
        EXPECT_STATUS(sgs_log_segment_truncate_to(kit.segment, 0, &bytes_cut, &kit.err), SGS_ILLEGAL_STATE);
        EXPECT_STATUS(segment_kit_flush(&kit, false), SGS_ILLEGAL_STATE);
        EXPECT_EQ_I64(segment_kit_read_offset(&kit, 0), 0); /* reads go on */
        segment_kit_close(&kit);
    }
}

/* [DUR-35] */
TEST(a_sync_that_failed_is_not_tried_again)
{
    segment_kit kit;
    segment_kit_open(&kit);
    REQUIRE_OK(segment_kit_segment(&kit, 0, true), &kit.err);
    EXPECT_OK(segment_kit_append(&kit, 0, 3, 7, 0), &kit.err);
    memory_env_fail(&kit.memory, "sync_data", 1, EIO);
    EXPECT_STATUS(segment_kit_flush(&kit, false), SGS_FSYNC_FAILED);
    EXPECT_EQ_I64(sgs_log_segment_unflushed_records(kit.segment), 3);
    EXPECT_STATUS(segment_kit_flush(&kit, false), SGS_ILLEGAL_STATE);
    EXPECT_STATUS(segment_kit_append(&kit, 3, 1, 7, 0), SGS_ILLEGAL_STATE);
    EXPECT_EQ_I64(memory_env_calls(&kit.memory, "sync_data"), 1);
    segment_kit_close(&kit);
}

static void fill_until_stale(segment_kit *kit)
{
    kit->context.index_interval_bytes = 0;
    REQUIRE_OK(segment_kit_segment(kit, 0, true), &kit->err);
    EXPECT_OK(segment_kit_append(kit, 0, 1, 0, 0), &kit->err);
    memory_env_fail_always(&kit->memory, "allocate_space", 1, ENOSPC);
    for (int i = 1; i < 300; ++i)
        EXPECT_OK(segment_kit_append(kit, i, 1, i, 0), &kit->err); /* [DUR-25] */
    EXPECT_EQ_I64(segment_kit_offset_entries(kit), 0);
    for (int i = 0; i < 300; i += 7)
        EXPECT_EQ_I64(segment_kit_read_offset(kit, i), i);
}

TEST(a_stale_index_is_made_anew_when_the_segment_is_sealed)
{
    segment_kit kit;
    segment_kit_open(&kit);
    fill_until_stale(&kit);
    memory_env_heal(&kit.memory);
    EXPECT_OK(sgs_log_segment_on_become_inactive(kit.segment, &kit.err), &kit.err);
    EXPECT_EQ_I64(segment_kit_offset_entries(&kit), 299);
    EXPECT_EQ_I64(segment_kit_time_entries(&kit), 299);
    EXPECT_EQ_I64(segment_kit_file_size(&kit, SGS_FILE_INDEX), 299 * 8);
    segment_kit_close(&kit);
}

TEST(a_stale_index_is_made_anew_at_close)
{
    segment_kit kit;
    segment_kit_open(&kit);
    fill_until_stale(&kit);
    memory_env_heal(&kit.memory);
    EXPECT_OK(sgs_log_segment_close(kit.segment, &kit.err), &kit.err);
    REQUIRE_OK(segment_kit_segment(&kit, 0, false), &kit.err);
    EXPECT_EQ_I64(segment_kit_offset_entries(&kit), 299);
    segment_kit_close(&kit);
}

TEST(a_stale_index_that_cannot_be_made_anew_is_removed)
{
    segment_kit kit;
    segment_kit_open(&kit);
    fill_until_stale(&kit);
    EXPECT_OK(sgs_log_segment_on_become_inactive(kit.segment, &kit.err), &kit.err);
    EXPECT_OK(sgs_log_segment_close(kit.segment, &kit.err), &kit.err);
    kit.segment = NULL;
    EXPECT_TRUE(temporary_has(&kit.directory, "00000000000000000000.log"));
    EXPECT_TRUE(!temporary_has(&kit.directory, "00000000000000000000.index"));
    EXPECT_TRUE(!temporary_has(&kit.directory, "00000000000000000000.timeindex"));
    segment_kit_close(&kit);
}

TEST(an_index_file_that_is_none_is_replaced_and_made_anew)
{
    /* [DUR-8, DUR-97] sparse: it takes no space. Whatever asks for the index first works, and close writes it. */
    static const sgs_segment_file kinds[] = { SGS_FILE_INDEX, SGS_FILE_TIMEINDEX };
    for (int i = 0; i < 8; ++i) {
        char path[400], name[SGS_SEGMENT_NAME_BYTES];
        segment_kit kit;
        int64_t found = -1;
        bool ends_clean, full;
        segment_kit_open(&kit);
        kit.context.heap_indexes = i % 2 == 1;
        kit.context.index_interval_bytes = 1;
        segment_kit_fill(&kit, 20, 0);
        EXPECT_OK(sgs_log_segment_close(kit.segment, &kit.err), &kit.err);
        sgs_segment_file_name(0, kinds[i / 4], SGS_SUFFIX_NONE, name);
        (void)snprintf(path, sizeof path, "%s/%s", kit.directory.path, name);
        REQUIRE_EQ_I64(truncate(path, INT64_C(3) << 30), 0);
        REQUIRE_OK(segment_kit_segment(&kit, 0, false), &kit.err);
        if (i / 2 % 2 == 0) {
            EXPECT_OK(sgs_log_segment_read_next_offset(kit.segment, &found, &ends_clean, &kit.err), &kit.err);
            EXPECT_EQ_I64(found, 20);
            EXPECT_EQ_I64(segment_kit_max_timestamp(&kit), 190);
        }
        EXPECT_OK(sgs_log_segment_prepare_for_appends(kit.segment, &kit.err), &kit.err);
        EXPECT_OK(sgs_log_segment_indexes_full(kit.segment, &full, &kit.err), &kit.err);
        EXPECT_OK(segment_kit_append(&kit, 20, 1, 200, 0), &kit.err);
        EXPECT_TRUE(sgs_log_segment_index_damaged(kit.segment));
        EXPECT_OK(sgs_log_segment_close(kit.segment, &kit.err), &kit.err);
        REQUIRE_OK(segment_kit_segment(&kit, 0, false), &kit.err);
        EXPECT_EQ_I64(segment_kit_file_size(&kit, SGS_FILE_INDEX), 20 * 8);
        EXPECT_EQ_I64(segment_kit_file_size(&kit, SGS_FILE_TIMEINDEX), 20 * 12);
        segment_kit_close(&kit);
    }
}

/* [DUR-7, DUR-59] it may be the only proof that records are missing; the second time under the next number */
TEST(an_index_that_cannot_be_read_is_kept_and_made_anew)
{
    segment_kit kit;
    segment_kit_open(&kit);
    kit.context.heap_indexes = true;
    kit.context.index_interval_bytes = 1;
    segment_kit_fill(&kit, 20, 0);
    EXPECT_OK(sgs_log_segment_close(kit.segment, &kit.err), &kit.err);
    for (int time = 1; time <= 2; ++time) {
        char kept[SGS_SEGMENT_NAME_BYTES + 20];
        uint8_t first[8] = { 0 };
        REQUIRE_OK(segment_kit_segment(&kit, 0, false), &kit.err);
        memory_env_fail(&kit.memory, "read_at", 1, time == 1 ? EIO : EACCES);
        EXPECT_EQ_I64(segment_kit_read_offset(&kit, 15), 15);
        EXPECT_OK(sgs_log_segment_prepare_for_appends(kit.segment, &kit.err), &kit.err);
        EXPECT_OK(segment_kit_append(&kit, 19 + time, 1, 200, 0), &kit.err);
        EXPECT_TRUE(sgs_log_segment_index_damaged(kit.segment));
        EXPECT_OK(sgs_log_segment_close(kit.segment, &kit.err), &kit.err);
        (void)snprintf(kept, sizeof kept, "00000000000000000000.index.quarantine-%d", time);
        EXPECT_EQ_I64(temporary_read(&kit.directory, kept, first, sizeof first), (18 + time) * 8);
        REQUIRE_OK(segment_kit_segment(&kit, 0, false), &kit.err);
        EXPECT_EQ_I64(segment_kit_file_size(&kit, SGS_FILE_INDEX), (19 + time) * 8);
        EXPECT_OK(sgs_log_segment_close(kit.segment, &kit.err), &kit.err);
    }
    kit.segment = NULL;
    segment_kit_close(&kit);
}

/* [DUR-8, DUR-59] Nothing is replaced where it cannot be kept: reads go without the index, appends fail. */
TEST(an_index_that_cannot_be_kept_stays)
{
    segment_kit kit;
    segment_kit_open(&kit);
    kit.context.heap_indexes = true;
    kit.context.index_interval_bytes = 1;
    segment_kit_fill(&kit, 20, 0);
    EXPECT_OK(sgs_log_segment_close(kit.segment, &kit.err), &kit.err);
    for (int number = 1; number <= 999; ++number) {
        char kept[SGS_SEGMENT_NAME_BYTES + 20];
        (void)snprintf(kept, sizeof kept, "00000000000000000000.index.quarantine-%d", number);
        temporary_write(&kit.directory, kept, "", 0);
    }
    REQUIRE_OK(segment_kit_segment(&kit, 0, false), &kit.err);
    memory_env_fail(&kit.memory, "read_at", 1, EIO);
    EXPECT_EQ_I64(segment_kit_read_offset(&kit, 15), 15);
    memory_env_fail(&kit.memory, "read_at", 1, EIO);
    EXPECT_STATUS(sgs_log_segment_prepare_for_appends(kit.segment, &kit.err), SGS_READ_IO);
    EXPECT_TRUE(temporary_has(&kit.directory, "00000000000000000000.index"));
    segment_kit_close(&kit);
}

/* [DUR-7, DUR-8] They are the way to the batches behind damage; a rebuild would end at it. */
static void expect_indexes_stay(int64_t milliseconds, int times)
{
    static const uint8_t zeros[200];
    segment_kit kit;
    uint8_t log[20 * 200];
    segment_kit_open(&kit);
    kit.context.index_interval_bytes = 1;
    REQUIRE_OK(segment_kit_segment(&kit, 0, true), &kit.err);
    for (int i = 0; i < 20; ++i)
        EXPECT_OK(segment_kit_append(&kit, i, 1, 1000 + i * milliseconds, 200), &kit.err);
    EXPECT_OK(sgs_log_segment_close(kit.segment, &kit.err), &kit.err);
    const int64_t size = temporary_read(&kit.directory, "00000000000000000000.log", log, sizeof log);
    REQUIRE_TRUE(size > 0 && size <= (int64_t)sizeof log);
    memcpy(log + size / 2 / 200 * 200, zeros, sizeof zeros);
    temporary_write(&kit.directory, "00000000000000000000.log", log, (size_t)size - 400);
    for (int time = 0; time < 2; ++time) {
        REQUIRE_OK(segment_kit_segment(&kit, 0, false), &kit.err);
        EXPECT_EQ_I64(segment_kit_read_offset(&kit, 16), 16);
        (void)segment_kit_read_offset(&kit, 19); /* its entry points behind the end of the .log */
        EXPECT_TRUE(sgs_log_segment_index_damaged(kit.segment));
        EXPECT_OK(sgs_log_segment_close(kit.segment, &kit.err), &kit.err);
        kit.segment = NULL;
        EXPECT_TRUE(temporary_read(&kit.directory, "00000000000000000000.index", NULL, 0) >= 19 * 8);
        EXPECT_TRUE(temporary_read(&kit.directory, "00000000000000000000.timeindex", NULL, 0) >= times * 12);
    }
    segment_kit_close(&kit);
}

TEST(indexes_that_lead_behind_damage_stay)
{
    expect_indexes_stay(10, 19);
    expect_indexes_stay(0, 1); /* all of one time: a rebuild has as many entries of times */
}

/* [DUR-8, DUR-50] No CRC covers a base offset. The rebuild failed at an entry that did not ascend, and both were removed. */
TEST(indexes_stay_beside_a_batch_whose_offset_jumped)
{
    segment_kit kit;
    uint8_t log[20 * 200];
    segment_kit_open(&kit);
    kit.context.index_interval_bytes = 1;
    segment_kit_fill(&kit, 20, 200);
    EXPECT_OK(sgs_log_segment_close(kit.segment, &kit.err), &kit.err);
    const int64_t size = temporary_read(&kit.directory, "00000000000000000000.log", log, sizeof log);
    const int64_t index_size = temporary_read(&kit.directory, "00000000000000000000.index", NULL, 0);
    REQUIRE_TRUE(size > 0 && size <= (int64_t)sizeof log);
    log[size / 2 + 5] ^= 2;
    temporary_write(&kit.directory, "00000000000000000000.log", log, (size_t)size);
    REQUIRE_OK(segment_kit_segment(&kit, 0, false), &kit.err);
    (void)segment_kit_read_offset(&kit, 10);
    EXPECT_TRUE(sgs_log_segment_index_damaged(kit.segment));
    EXPECT_OK(sgs_log_segment_close(kit.segment, &kit.err), &kit.err);
    kit.segment = NULL;
    EXPECT_EQ_I64(temporary_read(&kit.directory, "00000000000000000000.index", NULL, 0), index_size);
    EXPECT_TRUE(temporary_has(&kit.directory, "00000000000000000000.timeindex"));
    segment_kit_close(&kit);
}

/* [DUR-7, DUR-8] Without its indexes an open for writing would refuse the segment. */
TEST(indexes_of_a_log_that_cannot_be_read_stay)
{
    segment_kit kit;
    uint8_t index[20 * 8];
    segment_kit_open(&kit);
    kit.context.index_interval_bytes = 1;
    segment_kit_fill(&kit, 20, 200);
    EXPECT_OK(sgs_log_segment_close(kit.segment, &kit.err), &kit.err);
    const int64_t size = temporary_read(&kit.directory, "00000000000000000000.index", index, sizeof index);
    REQUIRE_TRUE(size > 10 * 8 && size <= (int64_t)sizeof index);
    index[10 * 8 + 7] ^= 0x40;
    temporary_write(&kit.directory, "00000000000000000000.index", index, (size_t)size);
    REQUIRE_OK(segment_kit_segment(&kit, 0, false), &kit.err);
    EXPECT_EQ_I64(segment_kit_read_offset(&kit, 11), 11); /* goes without its wrong entry */
    EXPECT_TRUE(sgs_log_segment_index_damaged(kit.segment));
    memory_env_fail_always(&kit.memory, "read_at", 1, EIO);
    EXPECT_OK(sgs_log_segment_close(kit.segment, &kit.err), &kit.err);
    kit.segment = NULL;
    memory_env_heal(&kit.memory);
    EXPECT_EQ_I64(temporary_read(&kit.directory, "00000000000000000000.index", NULL, 0), size);
    EXPECT_TRUE(temporary_has(&kit.directory, "00000000000000000000.timeindex"));
    segment_kit_close(&kit);
}

TEST_MAIN()
