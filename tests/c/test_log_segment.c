/* A segment as Kafka's LogSegmentTest uses it: append, cadence, truncate, seal, close, names; and on disks that fail. */
#include <errno.h>
#include <stdlib.h>

#include "segment_kit.h"
#include "test.h"

/* ---- names ---- */

TEST(names_have_twenty_digits)
{
    char name[SGS_SEGMENT_NAME_BYTES];
    sgs_segment_file_name(42, SGS_FILE_LOG, SGS_SUFFIX_NONE, name);
    EXPECT_TEXT(name, "00000000000000000042.log");
    sgs_segment_file_name(INT64_MAX, SGS_FILE_TIMEINDEX, SGS_SUFFIX_DELETED, name);
    EXPECT_TEXT(name, "09223372036854775807.timeindex.deleted");
    sgs_segment_file_name(0, SGS_FILE_INDEX, SGS_SUFFIX_CLEANED, name);
    EXPECT_TEXT(name, "00000000000000000000.index.cleaned");
    sgs_segment_file_name(7, SGS_FILE_TXNINDEX, SGS_SUFFIX_SWAP, name);
    EXPECT_TEXT(name, "00000000000000000007.txnindex.swap");
}

/* LogSegmentTest.testChangeFileSuffixes [SEG-54, LZY-3] */
TEST(changing_the_suffix_renames_what_is_there_and_creates_nothing)
{
    segment_kit kit;
    segment_kit_open(&kit);
    REQUIRE_OK(segment_kit_segment(&kit, 40, true), &kit.err);
    EXPECT_TRUE(!temporary_has(&kit.directory, "00000000000000000040.index"));
    EXPECT_OK(sgs_log_segment_change_suffix(kit.segment, SGS_SUFFIX_DELETED, &kit.err), &kit.err);
    EXPECT_TRUE(temporary_has(&kit.directory, "00000000000000000040.log.deleted"));
    EXPECT_TRUE(!temporary_has(&kit.directory, "00000000000000000040.log"));
    EXPECT_TRUE(!temporary_has(&kit.directory, "00000000000000000040.index.deleted"));
    EXPECT_EQ_I64(segment_kit_offset_entries(&kit), 0);
    EXPECT_EQ_I64(segment_kit_time_entries(&kit), 0);
    EXPECT_TRUE(temporary_has(&kit.directory, "00000000000000000040.index.deleted"));
    EXPECT_TRUE(temporary_has(&kit.directory, "00000000000000000040.timeindex.deleted"));
    EXPECT_OK(sgs_log_segment_change_suffix(kit.segment, SGS_SUFFIX_SWAP, &kit.err), &kit.err);
    EXPECT_OK(sgs_log_segment_change_suffix(kit.segment, SGS_SUFFIX_NONE, &kit.err), &kit.err);
    EXPECT_TRUE(temporary_has(&kit.directory, "00000000000000000040.timeindex"));
    EXPECT_OK(segment_kit_append(&kit, 40, 1, 5, 0), &kit.err);
    EXPECT_OK(sgs_log_segment_delete_files(kit.segment, &kit.err), &kit.err);
    EXPECT_TRUE(!temporary_has(&kit.directory, "00000000000000000040.log"));
    EXPECT_TRUE(!temporary_has(&kit.directory, "00000000000000000040.index"));
    EXPECT_OK(sgs_log_segment_delete_files(kit.segment, &kit.err), &kit.err); /* [SEG-56] missing is no error */
    EXPECT_EQ_I64(segment_kit_read_offset(&kit, 40), 40);                     /* an open descriptor goes on [CON-7] */
    EXPECT_STATUS(segment_kit_append(&kit, 41, 1, 5, 0), SGS_ILLEGAL_STATE);
    segment_kit_close(&kit);
}

/* ---- opening ---- */

TEST(opening_tells_missing_existing_and_oversized_files_apart)
{
    segment_kit kit;
    sgs_log_segment *other;
    segment_kit_open(&kit);
    EXPECT_STATUS(segment_kit_segment(&kit, 0, false), SGS_NOT_FOUND);
    EXPECT_TEXT(kit.err.file, "00000000000000000000.log");
    REQUIRE_OK(segment_kit_segment(&kit, 0, true), &kit.err);
    EXPECT_STATUS(sgs_log_segment_open(&kit.context, 0, SGS_SUFFIX_NONE, true, &other, &kit.err), SGS_ALREADY_EXISTS);
    EXPECT_STATUS(sgs_log_segment_open(&kit.context, -1, SGS_SUFFIX_NONE, true, &other, &kit.err),
                  SGS_ILLEGAL_ARGUMENT);
    const sgs_env *env = sgs_env_posix();
    int fd;
    REQUIRE_OK(env->open_file(env, kit.directory.fd, "00000000000000000007.log", SGS_OPEN_CREATE, &fd, &kit.err),
               &kit.err);
    EXPECT_OK(env->truncate(env, fd, "", INT64_C(2147483648), &kit.err), &kit.err);
    EXPECT_STATUS(sgs_log_segment_open(&kit.context, 7, SGS_SUFFIX_NONE, false, &other, &kit.err), SGS_LIMIT_EXCEEDED);
    EXPECT_OK(env->close(env, fd, "", &kit.err), &kit.err);
    REQUIRE_OK(env->make_directory(env, kit.directory.fd, "00000000000000000008.log", &kit.err), &kit.err);
    EXPECT_STATUS(sgs_log_segment_open(&kit.context, 8, SGS_SUFFIX_NONE, false, &other, &kit.err), SGS_NOT_A_LOG);
    segment_kit_close(&kit);
}

/* LogSegmentTest.testCreateWithInitFileSizeAppendMessage [SEG-2, SEG-26] */
TEST(a_preallocated_segment_starts_empty_and_is_cut_at_close)
{
    segment_kit kit;
    segment_kit_open(&kit);
    kit.context.preallocate = true;
    REQUIRE_OK(segment_kit_segment(&kit, 40, true), &kit.err);
    EXPECT_EQ_I64(segment_kit_file_size(&kit, SGS_FILE_LOG), 1 << 20);
    EXPECT_EQ_I64(sgs_log_segment_size(kit.segment), 0);
    EXPECT_OK(segment_kit_append(&kit, 50, 2, -1, 0), &kit.err);
    EXPECT_OK(segment_kit_append(&kit, 60, 2, -1, 0), &kit.err);
    EXPECT_EQ_I64(segment_kit_read_offset(&kit, 55), 60);
    EXPECT_EQ_I64(segment_kit_file_size(&kit, SGS_FILE_LOG), 1 << 20);
    const int32_t size = sgs_log_segment_size(kit.segment);
    EXPECT_OK(sgs_log_segment_close(kit.segment, &kit.err), &kit.err);
    REQUIRE_OK(segment_kit_segment(&kit, 40, false), &kit.err);
    EXPECT_EQ_I64(sgs_log_segment_size(kit.segment), size);
    EXPECT_EQ_I64(segment_kit_file_size(&kit, SGS_FILE_LOG), size);
    segment_kit_close(&kit);

    segment_kit_open(&kit);
    kit.context.preallocate = true;
    memory_env_fail(&kit.memory, "allocate_space", 1, ENOSPC);
    EXPECT_STATUS(segment_kit_segment(&kit, 40, true), SGS_DISK_FULL);
    EXPECT_TRUE(!temporary_has(&kit.directory, "00000000000000000040.log"));
    segment_kit_close(&kit);
}

/* [DUR-71] */
TEST(a_reader_creates_nothing_and_may_change_nothing)
{
    segment_kit kit;
    segment_kit_open(&kit);
    REQUIRE_OK(segment_kit_segment(&kit, 0, true), &kit.err);
    for (int i = 0; i < 100; ++i)
        EXPECT_OK(segment_kit_append(&kit, i, 1, i, 100), &kit.err);
    sgs_log_segment_close_quietly(kit.segment); /* the indexes are as a live writer has them: padded */
    kit.segment = NULL;
    kit.context.writable = false;
    kit.context.heap_indexes = true;
    const char *const names[] = { "00000000000000000000.index", "00000000000000000000.timeindex" };
    sgs_error err;
    for (int missing = 0; missing < 2; ++missing) {
        const int64_t calls = memory_env_calls(&kit.memory, "write_at") + memory_env_calls(&kit.memory, "truncate");
        for (int i = 0; i < 2 && missing == 1; ++i)
            EXPECT_OK(sgs_env_posix()->unlink(sgs_env_posix(), kit.directory.fd, names[i], &err), &err);
        REQUIRE_OK(segment_kit_segment(&kit, 0, false), &kit.err);
        EXPECT_EQ_I64(segment_kit_offset_entries(&kit), missing == 1 ? 0 : 2);
        for (int i = 0; i < 100; ++i)
            EXPECT_EQ_I64(segment_kit_read_offset(&kit, i), i);
        EXPECT_EQ_I64(segment_kit_next_offset(&kit), 100);
        EXPECT_EQ_I64(segment_kit_max_timestamp(&kit), 99); /* the time index lags: the headers know */
        int32_t bytes_cut;
        EXPECT_STATUS(segment_kit_append(&kit, 100, 1, 0, 0), SGS_ILLEGAL_STATE);
        EXPECT_STATUS(sgs_log_segment_truncate_to(kit.segment, 5, &bytes_cut, &kit.err), SGS_ILLEGAL_STATE);
        EXPECT_STATUS(segment_kit_flush(&kit, true), SGS_ILLEGAL_STATE);
        EXPECT_STATUS(sgs_log_segment_delete_files(kit.segment, &kit.err), SGS_ILLEGAL_STATE);
        EXPECT_OK(sgs_log_segment_close(kit.segment, &kit.err), &kit.err);
        kit.segment = NULL;
        EXPECT_EQ_I64(memory_env_calls(&kit.memory, "write_at") + memory_env_calls(&kit.memory, "truncate"), calls);
        EXPECT_TRUE(temporary_has(&kit.directory, names[0]) == (missing == 0));
    }
    segment_kit_close(&kit);
}

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

/* ---- sealed, flushed, closed ---- */

/* [SEG-50] */
TEST(a_sealed_segment_is_trimmed_and_takes_no_appends)
{
    segment_kit kit;
    segment_kit_open(&kit);
    REQUIRE_OK(segment_kit_segment(&kit, 0, true), &kit.err);
    for (int i = 0; i < 100; ++i)
        EXPECT_OK(segment_kit_append(&kit, i, 1, i == 60 ? 5000 : i, 100), &kit.err);
    EXPECT_OK(sgs_log_segment_on_become_inactive(kit.segment, &kit.err), &kit.err);
    EXPECT_EQ_I64(segment_kit_file_size(&kit, SGS_FILE_INDEX), 2 * 8);
    EXPECT_EQ_I64(segment_kit_file_size(&kit, SGS_FILE_TIMEINDEX), 2 * 12);
    segment_kit_time_entry_is(&kit, 0, 41, 41);
    segment_kit_time_entry_is(&kit, 1, 5000, 60);
    EXPECT_STATUS(segment_kit_append(&kit, 100, 1, 0, 0), SGS_ILLEGAL_STATE);
    segment_kit_truncate_to(&kit, 50); /* active again, when the log was cut here */
    EXPECT_EQ_I64(segment_kit_max_timestamp(&kit), 49);
    EXPECT_OK(segment_kit_append(&kit, 50, 1, 0, 0), &kit.err);
    segment_kit_close(&kit);
}

/* [SEG-53] */
TEST(a_flush_counts_down_what_it_covered)
{
    segment_kit kit;
    segment_kit_open(&kit);
    REQUIRE_OK(segment_kit_segment(&kit, 0, true), &kit.err);
    EXPECT_OK(segment_kit_append(&kit, 0, 3, 0, 0), &kit.err);
    EXPECT_OK(segment_kit_append(&kit, 3, 4, 0, 0), &kit.err);
    EXPECT_EQ_I64(sgs_log_segment_unflushed_records(kit.segment), 7);
    EXPECT_OK(segment_kit_flush(&kit, false), &kit.err);
    EXPECT_EQ_I64(sgs_log_segment_unflushed_records(kit.segment), 0);
    EXPECT_EQ_I64(memory_env_calls(&kit.memory, "sync_data"), 1);
    EXPECT_EQ_I64(memory_env_calls(&kit.memory, "sync_file"), 0);
    EXPECT_OK(segment_kit_flush(&kit, true), &kit.err);
    EXPECT_EQ_I64(memory_env_calls(&kit.memory, "sync_file"), 2); /* both indexes */
    segment_kit_close(&kit);
}

/* [SEG-51] */
TEST(a_segment_that_nobody_touched_closes_without_indexes)
{
    segment_kit kit;
    segment_kit_open(&kit);
    REQUIRE_OK(segment_kit_segment(&kit, 0, true), &kit.err);
    EXPECT_OK(sgs_log_segment_close(kit.segment, &kit.err), &kit.err);
    kit.segment = NULL;
    EXPECT_TRUE(!temporary_has(&kit.directory, "00000000000000000000.index"));
    EXPECT_TRUE(!temporary_has(&kit.directory, "00000000000000000000.timeindex"));
    EXPECT_OK(sgs_log_segment_close(NULL, &kit.err), &kit.err);
    segment_kit_close(&kit);
}

TEST(a_clean_close_leaves_the_final_time_entry_and_trimmed_files)
{
    for (int kafka = 0; kafka < 2; ++kafka) {
        segment_kit kit;
        segment_kit_open(&kit);
        kit.context.kafka_profile = kafka == 1;
        REQUIRE_OK(segment_kit_segment(&kit, 0, true), &kit.err);
        EXPECT_OK(segment_kit_append(&kit, 0, 5, 70, 0), &kit.err);
        EXPECT_EQ_I64(segment_kit_file_size(&kit, SGS_FILE_INDEX), kafka == 1 ? 10485760 : 0);
        EXPECT_OK(sgs_log_segment_close(kit.segment, &kit.err), &kit.err);
        REQUIRE_OK(segment_kit_segment(&kit, 0, false), &kit.err);
        EXPECT_EQ_I64(segment_kit_file_size(&kit, SGS_FILE_INDEX), 0);
        EXPECT_EQ_I64(segment_kit_file_size(&kit, SGS_FILE_TIMEINDEX), 12);
        EXPECT_EQ_I64(segment_kit_max_timestamp(&kit), 74);
        EXPECT_OK(sgs_log_segment_prepare_for_appends(kit.segment, &kit.err), &kit.err); /* LDR-8 */
        bool full = true;
        EXPECT_OK(sgs_log_segment_indexes_full(kit.segment, &full, &kit.err), &kit.err);
        EXPECT_TRUE(!full);
        EXPECT_OK(segment_kit_append(&kit, 5, 1, 0, 0), &kit.err);
        segment_kit_close(&kit);
    }
}

/* Every call fails once, at every place: nothing leaks, nothing acknowledged is lost, the error is told [DUR-111, DUR-6]. */
static int64_t use_segment(segment_kit *kit, bool *failed)
{
    int64_t acked = 0;
    sgs_status status = segment_kit_segment(kit, 0, true);
    if (status != SGS_OK) {
        kit->segment = NULL;
        *failed = true;
        return 0;
    }
    for (int i = 0; i < 60 && status == SGS_OK; ++i) {
        status = segment_kit_append(kit, i, 1, i, 300);
        acked += status == SGS_OK;
    }
    if (status == SGS_OK)
        status = segment_kit_flush(kit, true);
    sgs_segment_fetch fetch;
    if (status == SGS_OK)
        status = sgs_log_segment_translate_offset(kit->segment, 33, 0, -1, &fetch, &kit->err);
    sgs_found_timestamp found;
    if (status == SGS_OK)
        status = sgs_log_segment_find_offset_by_timestamp(kit->segment, 40, 0, -1, &found, &kit->err);
    if (status == SGS_OK)
        status = sgs_log_segment_on_become_inactive(kit->segment, &kit->err);
    const sgs_status closed = sgs_log_segment_close(kit->segment, &kit->err);
    kit->segment = NULL;
    *failed = status != SGS_OK || closed != SGS_OK;
    return acked;
}

TEST(no_failing_call_loses_what_was_acknowledged)
{
    int64_t quiet = 0;
    for (int call = 0; call < MEMORY_ENV_CALL_COUNT; ++call) {
        for (int64_t nth = 1;; ++nth) {
            segment_kit kit;
            bool failed = false;
            segment_kit_open(&kit);
            kit.context.index_interval_bytes = 512;
            memory_env_fail(&kit.memory, memory_env_name((memory_env_call)call), nth, EIO);
            const int64_t acked = use_segment(&kit, &failed);
            const bool reached = memory_env_calls(&kit.memory, memory_env_name((memory_env_call)call)) >= nth;
            memory_env_heal(&kit.memory);
            quiet += reached && !failed;
            if (acked > 0) {
                REQUIRE_OK(segment_kit_segment(&kit, 0, false), &kit.err);
                sgs_scan_options options;
                sgs_recovery recovery;
                sgs_scan_options_default(&options, SGS_SCAN_FILE);
                options.check_order = options.contiguous = true;
                REQUIRE_OK(sgs_log_segment_recover(kit.segment, &options, SGS_CUT_ANYWHERE, NULL, &recovery, &kit.err),
                           &kit.err);
                EXPECT_TRUE(recovery.scan.next_offset >= acked);
                EXPECT_EQ_I64(recovery.truncated_bytes, 0);
            }
            segment_kit_close(&kit);
            if (!reached)
                break;
        }
    }
    EXPECT_TRUE(quiet > 0); /* failures of derived files are survived in silence [DUR-41] */
}

TEST_MAIN()
