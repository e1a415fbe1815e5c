/* A segment from its opening to its end: preallocated, read-only, sealed, flushed, closed, and each call failing once. */
#include <errno.h>

#include "segment_kit.h"
#include "test.h"

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
