/* test_segment_refusals.c - what a segment refuses: arguments that cannot be, states in which it takes nothing, files that are
 * none of its own. Nothing changes then. */
#define _XOPEN_SOURCE 700
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "segment/file_records.h"
#include "segment_kit.h"
#include "test.h"

static const char LOG[] = "00000000000000000000.log";

static void open_with_batches(segment_kit *kit, int count)
{
    segment_kit_open(kit);
    kit->context.index_interval_bytes = 0;
    REQUIRE_OK(segment_kit_segment(kit, 0, true), &kit->err);
    for (int i = 0; i < count; ++i)
        EXPECT_OK(segment_kit_append(kit, i, 1, 10 * i, 100), &kit->err);
}

/* Close it, and open it again as `writable` and `kafka_profile` say. */
static void reopen(segment_kit *kit, bool writable, bool kafka_profile)
{
    EXPECT_OK(sgs_log_segment_close(kit->segment, &kit->err), &kit->err);
    kit->segment = NULL;
    kit->context.writable = writable;
    kit->context.kafka_profile = kafka_profile;
    REQUIRE_OK(segment_kit_segment(kit, 0, false), &kit->err);
}

/* [DUR-71] */
TEST(a_reader_changes_nothing)
{
    segment_kit kit;
    bool poisoned;
    int32_t cut;
    open_with_batches(&kit, 10);
    reopen(&kit, false, false);
    EXPECT_STATUS(sgs_log_segment_change_suffix(kit.segment, SGS_SUFFIX_DELETED, &kit.err), SGS_ILLEGAL_STATE);
    EXPECT_STATUS(sgs_log_segment_delete_files(kit.segment, &kit.err), SGS_ILLEGAL_STATE);
    EXPECT_STATUS(sgs_log_segment_truncate_to(kit.segment, 5, &cut, &kit.err), SGS_ILLEGAL_STATE);
    EXPECT_STATUS(sgs_log_segment_prepare_for_appends(kit.segment, &kit.err), SGS_ILLEGAL_STATE);
    EXPECT_STATUS(sgs_log_segment_on_become_inactive(kit.segment, &kit.err), SGS_ILLEGAL_STATE);
    EXPECT_STATUS(segment_kit_flush(&kit, true), SGS_ILLEGAL_STATE);
    EXPECT_STATUS(sgs_log_segment_rewrite(kit.segment, 0, &kit.err), SGS_ILLEGAL_STATE);
    EXPECT_STATUS(sgs_log_segment_begin_recovery(kit.segment, &kit.err), SGS_ILLEGAL_STATE);
    EXPECT_STATUS(sgs_log_segment_end_recovery(kit.segment, 0, &cut, &kit.err), SGS_ILLEGAL_STATE);
    EXPECT_STATUS(sgs_log_segment_append(kit.segment, NULL, 0, NULL, 0, &poisoned, &kit.err), SGS_ILLEGAL_STATE);
    EXPECT_OK(sgs_log_segment_release(kit.segment, &kit.err), &kit.err); /* with nothing open, too */
    EXPECT_OK(sgs_log_segment_release(kit.segment, &kit.err), &kit.err);
    sgs_log_segment *segment;
    EXPECT_STATUS(sgs_log_segment_open(&kit.context, 7, SGS_SUFFIX_NONE, true, &segment, &kit.err), SGS_ILLEGAL_STATE);
    EXPECT_EQ_I64(segment_kit_file_size(&kit, SGS_FILE_LOG), 1000);
    segment_kit_close(&kit);
}

TEST(positions_and_sizes_that_cannot_be_are_refused)
{
    segment_kit kit;
    sgs_found_timestamp found;
    sgs_segment_fetch fetch;
    sgs_scan_options options;
    sgs_scan_result result;
    int32_t cut;
    bool poisoned;
    open_with_batches(&kit, 10);
    const int64_t beyond[] = { -1, 1001 };
    for (int i = 0; i < 2; ++i) {
        EXPECT_STATUS(sgs_log_segment_rewrite(kit.segment, beyond[i], &kit.err), SGS_ILLEGAL_ARGUMENT);
        EXPECT_STATUS(sgs_log_segment_end_recovery(kit.segment, (int32_t)beyond[i], &cut, &kit.err),
                      SGS_ILLEGAL_ARGUMENT);
    }
    EXPECT_STATUS(sgs_log_segment_search_for_timestamp(kit.segment, 0, -1, 0, &found, &kit.err), SGS_ILLEGAL_ARGUMENT);
    EXPECT_STATUS(sgs_log_segment_largest_timestamp_after(kit.segment, -1, &found, &kit.err), SGS_ILLEGAL_ARGUMENT);
    EXPECT_STATUS(sgs_log_segment_translate_offset(kit.segment, 5, 0, 300, &fetch, &kit.err), SGS_ILLEGAL_ARGUMENT);
    EXPECT_OK(sgs_log_segment_translate_offset(kit.segment, 5, 0, 500, &fetch, &kit.err), &kit.err);
    EXPECT_EQ_I64(fetch.position, 500);
    EXPECT_OK(sgs_log_segment_translate_offset(kit.segment, 99, 0, 500, &fetch, &kit.err), &kit.err);
    EXPECT_TRUE(!fetch.found);
    sgs_scan_options_default(&options, SGS_SCAN_FILE);
    EXPECT_STATUS(sgs_log_segment_scan(kit.segment, &options, 600, 500, NULL, &result, &kit.err), SGS_ILLEGAL_ARGUMENT);
    EXPECT_STATUS(sgs_log_segment_scan(kit.segment, &options, -1, 500, NULL, &result, &kit.err), SGS_ILLEGAL_ARGUMENT);
    EXPECT_STATUS(sgs_log_segment_scan(kit.segment, &options, 0, 5000, NULL, &result, &kit.err), SGS_ILLEGAL_ARGUMENT);
    /* sizes alone are looked at: there are no such bytes */
    const sgs_batch_header rows[] = { { .base_offset = 10, .last_offset = 10, .size_bytes = INT32_MAX },
                                      { .base_offset = 11, .last_offset = 11, .size_bytes = INT32_MAX } };
    const sgs_slice slices[] = { { (const uint8_t *)"", INT32_MAX }, { (const uint8_t *)"", INT32_MAX } };
    EXPECT_STATUS(sgs_log_segment_append(kit.segment, slices, 2, rows, 2, &poisoned, &kit.err), SGS_ILLEGAL_ARGUMENT);
    EXPECT_STATUS(sgs_log_segment_append(kit.segment, slices, 1, rows, 1, &poisoned, &kit.err), SGS_ILLEGAL_ARGUMENT);
    EXPECT_EQ_I64(segment_kit_file_size(&kit, SGS_FILE_LOG), 1000);
    segment_kit_close(&kit);
}

/* Any time will do: the first record is the answer. */
TEST(the_least_timestamp_finds_the_first_record)
{
    for (int kafka = 0; kafka < 2; ++kafka) {
        segment_kit kit;
        sgs_found_timestamp found = { .offset = -1 };
        open_with_batches(&kit, 10);
        reopen(&kit, true, kafka == 1);
        EXPECT_OK(sgs_log_segment_find_offset_by_timestamp(kit.segment, INT64_MIN, 0, -1, &found, &kit.err), &kit.err);
        EXPECT_EQ_I64(found.offset, 0);
        segment_kit_close(&kit);
    }
}

TEST(timestamps_that_fall_leave_the_first_as_the_largest)
{
    segment_kit kit;
    sgs_found_timestamp found = { .offset = -1 };
    segment_kit_open(&kit);
    REQUIRE_OK(segment_kit_segment(&kit, 0, true), &kit.err);
    for (int i = 0; i < 10; ++i)
        EXPECT_OK(segment_kit_append(&kit, i, 1, 1000 - i, 100), &kit.err);
    EXPECT_OK(sgs_log_segment_largest_timestamp_after(kit.segment, 0, &found, &kit.err), &kit.err);
    EXPECT_EQ_I64(found.offset, 0);
    EXPECT_OK(sgs_log_segment_largest_timestamp_after(kit.segment, 300, &found, &kit.err), &kit.err);
    EXPECT_EQ_I64(found.offset, 3);
    segment_kit_close(&kit);
}

/* [DUR-79] what is no batch would hide from every reader what is written behind it */
TEST(nothing_is_appended_behind_bytes_that_are_no_batch)
{
    segment_kit kit;
    uint8_t file[1040];
    open_with_batches(&kit, 10);
    EXPECT_OK(sgs_log_segment_close(kit.segment, &kit.err), &kit.err);
    kit.segment = NULL;
    memset(file, 0, sizeof file);
    EXPECT_EQ_I64(temporary_read(&kit.directory, LOG, file, sizeof file), 1000);
    temporary_write(&kit.directory, LOG, file, sizeof file);
    REQUIRE_OK(segment_kit_segment(&kit, 0, false), &kit.err);
    EXPECT_STATUS(segment_kit_append(&kit, 10, 1, 100, 100), SGS_CORRUPT_LOG);
    EXPECT_EQ_I64(segment_kit_file_size(&kit, SGS_FILE_LOG), 1040);
    segment_kit_close(&kit);
}

/* [DUR-99] */
TEST(a_log_that_is_no_regular_file_is_refused)
{
    segment_kit kit;
    sgs_log_segment *segment;
    segment_kit_open(&kit);
    REQUIRE_EQ_I64(symlinkat("elsewhere", kit.directory.fd, LOG), 0);
    EXPECT_STATUS(segment_kit_segment(&kit, 0, false), SGS_NOT_A_LOG);
    kit.segment = NULL;
    memory_env_fail(&kit.memory, "allocate", 1, ENOMEM);
    EXPECT_STATUS(sgs_log_segment_open_sized(&kit.context, 0, 100, 3, &segment, &kit.err), SGS_RESOURCE);
    segment_kit_close(&kit);
}

/* [SEG-54] to Kafka an index that it has loaded must have its file */
TEST(a_loaded_index_without_a_file_fails_a_rename_in_kafkas_profile_only)
{
    static const char *const names[] = { "00000000000000000000.index", "00000000000000000000.timeindex" };
    for (int kafka = 0; kafka < 2; ++kafka)
        for (int loaded = 0; loaded < 2; ++loaded)
            for (int missing = 0; missing < 2; ++missing) {
                segment_kit kit;
                bool full;
                open_with_batches(&kit, 10);
                reopen(&kit, true, kafka == 1);
                if (loaded == 1)
                    EXPECT_OK(sgs_log_segment_indexes_full(kit.segment, &full, &kit.err), &kit.err);
                EXPECT_EQ_I64(unlinkat(kit.directory.fd, names[missing], 0), 0);
                EXPECT_OK(sgs_log_segment_change_suffix(kit.segment, SGS_SUFFIX_NONE, &kit.err), &kit.err);
                EXPECT_STATUS(sgs_log_segment_change_suffix(kit.segment, SGS_SUFFIX_DELETED, &kit.err),
                              kafka == 1 && loaded == 1 ? SGS_NOT_FOUND : SGS_OK);
                sgs_log_segment_close_quietly(kit.segment);
                kit.segment = NULL;
                segment_kit_close(&kit);
            }
}

/* [IDX-9] what is used stays; Kafka cuts it off, and fails */
TEST(an_index_is_not_made_smaller_than_what_is_used)
{
    for (int kafka = 0; kafka < 2; ++kafka) {
        segment_kit kit;
        bool full = false;
        open_with_batches(&kit, 10);
        reopen(&kit, true, kafka == 1);
        kit.context.max_index_bytes = 24;
        EXPECT_STATUS(sgs_log_segment_prepare_for_appends(kit.segment, &kit.err),
                      kafka == 1 ? SGS_ILLEGAL_ARGUMENT : SGS_OK);
        if (kafka == 0) {
            EXPECT_OK(sgs_log_segment_indexes_full(kit.segment, &full, &kit.err), &kit.err);
            EXPECT_TRUE(full);
            EXPECT_OK(segment_kit_append(&kit, 10, 1, 100, 100), &kit.err);
        }
        sgs_log_segment_close_quietly(kit.segment);
        kit.segment = NULL;
        segment_kit_close(&kit);
    }
}

TEST(a_segment_with_something_to_write_is_not_released)
{
    segment_kit kit;
    open_with_batches(&kit, 10);
    EXPECT_STATUS(sgs_log_segment_release(kit.segment, &kit.err), SGS_ILLEGAL_STATE); /* not synced */
    memory_env_fail(&kit.memory, "sync_data", 1, EIO);
    EXPECT_STATUS(segment_kit_flush(&kit, false), SGS_FSYNC_FAILED);
    EXPECT_STATUS(sgs_log_segment_release(kit.segment, &kit.err), SGS_ILLEGAL_STATE); /* nor may it be */
    segment_kit_close(&kit);

    open_with_batches(&kit, 10);
    reopen(&kit, true, false);
    temporary_write(&kit.directory, "00000000000000000000.index", "\0\0\0\1\0\0\0\115", 8);
    EXPECT_EQ_I64(segment_kit_read_offset(&kit, 7), 7);
    EXPECT_TRUE(sgs_log_segment_index_damaged(kit.segment));
    EXPECT_STATUS(sgs_log_segment_release(kit.segment, &kit.err), SGS_ILLEGAL_STATE); /* it is to be made anew */
    segment_kit_close(&kit);
}

TEST(a_log_that_another_file_replaced_is_noticed)
{
    segment_kit kit;
    bool replaced = true;
    uint8_t file[1000];
    open_with_batches(&kit, 10);
    EXPECT_OK(sgs_log_segment_is_replaced(kit.segment, &replaced, &kit.err), &kit.err);
    EXPECT_TRUE(!replaced);
    EXPECT_EQ_I64(temporary_read(&kit.directory, LOG, file, sizeof file), 1000);
    EXPECT_EQ_I64(unlinkat(kit.directory.fd, LOG, 0), 0);
    EXPECT_STATUS(sgs_log_segment_is_replaced(kit.segment, &replaced, &kit.err), SGS_NOT_FOUND);
    temporary_write(&kit.directory, LOG, file, sizeof file);
    EXPECT_OK(sgs_log_segment_is_replaced(kit.segment, &replaced, &kit.err), &kit.err);
    EXPECT_TRUE(replaced);
    segment_kit_close(&kit);
}

/* ---- without what others have ---- */

/* Nothing is remembered of headers, and nothing preallocated where no size is set. */
TEST(a_segment_works_without_remembered_headers)
{
    segment_kit kit;
    int32_t cut;
    segment_kit_open(&kit);
    kit.context.headers = NULL;
    kit.context.preallocate = true;
    kit.context.segment_bytes = 0;
    REQUIRE_OK(segment_kit_segment(&kit, 0, true), &kit.err);
    for (int i = 0; i < 10; ++i)
        EXPECT_OK(segment_kit_append(&kit, i, 1, 10 * i, 9000), &kit.err);
    EXPECT_EQ_I64(segment_kit_read_offset(&kit, 7), 7);
    EXPECT_OK(sgs_log_segment_truncate_to(kit.segment, 5, &cut, &kit.err), &kit.err);
    EXPECT_EQ_I64(segment_kit_read_offset(&kit, 7), -1);
    EXPECT_EQ_I64(segment_kit_read_offset(&kit, 4), 4);
    segment_kit_close(&kit);
}

/* Damage is told to a reader and left where it is; so is what lies behind the last batch that was asked for. */
TEST(a_recovery_that_may_not_cut_changes_nothing)
{
    segment_kit kit;
    sgs_scan_options options;
    sgs_recovery recovery;
    open_with_batches(&kit, 10);
    reopen(&kit, false, false);
    sgs_scan_options_default(&options, SGS_SCAN_FILE);
    EXPECT_OK(sgs_log_segment_recover(kit.segment, &options, SGS_CUT_ANYWHERE, NULL, &recovery, &kit.err), &kit.err);
    EXPECT_TRUE(recovery.truncated_bytes == 0 && !recovery.indexes_written);
    kit.context.writable = true;
    reopen(&kit, true, false);
    options.max_batches = 5;
    EXPECT_OK(sgs_log_segment_recover(kit.segment, &options, SGS_CUT_ANYWHERE, NULL, &recovery, &kit.err), &kit.err);
    EXPECT_TRUE(recovery.scan.stop == SGS_SCAN_LIMIT && recovery.truncated_bytes == 0);
    EXPECT_EQ_I64(segment_kit_file_size(&kit, SGS_FILE_LOG), 1000);
    segment_kit_close(&kit);
}

/* ---- sending ---- */

static sgs_transfer told;

static sgs_status tell(const sgs_env *env, int fd, const char *name, int64_t position, size_t size, int destination,
                       sgs_transfer *transfer, sgs_error *err)
{
    (void)env;
    (void)fd;
    (void)name;
    (void)position;
    (void)size;
    (void)destination;
    (void)err;
    *transfer = told;
    return SGS_OK;
}

/* [DUR-77] nothing sent, and nobody who says why: the file is shorter than it was */
TEST(a_destination_that_takes_nothing_is_not_the_end_of_the_file)
{
    segment_kit kit;
    sgs_transfer transfer;
    open_with_batches(&kit, 10);
    sgs_env telling = *kit.memory.base;
    telling.send_file = tell;
    kit.memory.base = &telling;
    const sgs_transfer answers[] = { { .sent = 5 }, { .would_block = true }, { .interrupted = true }, { .sent = 0 } };
    for (int i = 0; i < 4; ++i) {
        told = answers[i];
        EXPECT_STATUS(sgs_file_records_write_to(kit.segment, 0, 100, 1, &transfer, &kit.err),
                      i == 3 ? SGS_LOG_TRUNCATED : SGS_OK);
    }
    EXPECT_OK(sgs_file_records_write_to(kit.segment, 0, 0, 1, &transfer, &kit.err), &kit.err); /* nothing to send */
    kit.memory.base = sgs_env_posix();
    segment_kit_close(&kit);
}

TEST_MAIN()
