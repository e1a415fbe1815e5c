/* What a segment holds, and how it does without: descriptors given back, indexes that cannot be created. */
#include <errno.h>

#include "segment_kit.h"
#include "test.h"

static int64_t max_timestamp(segment_kit *kit)
{
    sgs_timestamp_offset found = { -7, -7 };
    bool is_partial = false;
    EXPECT_OK(sgs_log_segment_max_timestamp(kit->segment, &found, &is_partial, &kit->err), &kit->err);
    return found.timestamp;
}

static uint32_t offset_entries(segment_kit *kit)
{
    sgs_offset_index *index;
    EXPECT_OK(sgs_log_segment_offset_index(kit->segment, &index, &kit->err), &kit->err);
    return sgs_abstract_index_entries(&index->base);
}

static int32_t truncate_to(segment_kit *kit, int64_t offset)
{
    int32_t bytes_cut = -1;
    EXPECT_OK(sgs_log_segment_truncate_to(kit->segment, offset, &bytes_cut, &kit->err), &kit->err);
    return bytes_cut;
}

/* More segments than descriptors: what is given back comes again at the next use. */
TEST(a_released_segment_holds_nothing_and_opens_again)
{
    segment_kit kit;
    segment_kit_open(&kit);
    REQUIRE_OK(segment_kit_segment(&kit, 0, true), &kit.err);
    for (int i = 0; i < 100; ++i)
        EXPECT_OK(segment_kit_append(&kit, i, 1, i, 100), &kit.err);
    EXPECT_STATUS(sgs_log_segment_release(kit.segment, &kit.err), SGS_ILLEGAL_STATE);
    EXPECT_OK(sgs_log_segment_on_become_inactive(kit.segment, &kit.err), &kit.err);
    EXPECT_OK(segment_kit_flush(&kit, true), &kit.err);
    EXPECT_EQ_I64(kit.memory.live_descriptors, 3);
    EXPECT_OK(sgs_log_segment_release(kit.segment, &kit.err), &kit.err);
    EXPECT_EQ_I64(kit.memory.live_descriptors, 0);
    EXPECT_EQ_I64(kit.memory.live_mappings, 0);
    EXPECT_EQ_I64(max_timestamp(&kit), 99);
    EXPECT_EQ_I64(kit.memory.live_descriptors, 0);
    EXPECT_EQ_I64(segment_kit_read_offset(&kit, 77), 77);
    EXPECT_EQ_I64(offset_entries(&kit), 2);
    EXPECT_OK(sgs_log_segment_release(kit.segment, &kit.err), &kit.err);
    EXPECT_EQ_I64(truncate_to(&kit, 50), 5000);
    EXPECT_OK(segment_kit_append(&kit, 50, 1, 500, 100), &kit.err);
    segment_kit_close(&kit);
}

/* [DUR-30] an index that would have to be created where nothing can be */
TEST(a_full_disk_keeps_no_reader_from_a_segment_without_indexes)
{
    segment_kit kit;
    sgs_found_timestamp found;
    segment_kit_open(&kit);
    REQUIRE_OK(segment_kit_segment(&kit, 0, true), &kit.err);
    for (int i = 0; i < 100; ++i)
        EXPECT_OK(segment_kit_append(&kit, i, 1, i, 100), &kit.err);
    sgs_log_segment_close_quietly(kit.segment);
    const char *const names[] = { "00000000000000000000.index", "00000000000000000000.timeindex" };
    for (int i = 0; i < 2; ++i)
        EXPECT_OK(sgs_env_posix()->unlink(sgs_env_posix(), kit.directory.fd, names[i], &kit.err), &kit.err);
    REQUIRE_OK(segment_kit_segment(&kit, 0, false), &kit.err);
    EXPECT_EQ_I64(segment_kit_file_size(&kit, SGS_FILE_LOG), 10000);
    memory_env_fail_always(&kit.memory, "open_file", 2, ENOSPC); /* the first is the .log's */
    int64_t created = sgs_log_segment_created_ms(kit.segment);
    EXPECT_OK(sgs_log_segment_first_batch_timestamp(kit.segment, &created, &kit.err), &kit.err);
    EXPECT_EQ_I64(segment_kit_read_offset(&kit, 77), 77);
    EXPECT_OK(sgs_log_segment_find_offset_by_timestamp(kit.segment, 33, 0, -1, &found, &kit.err), &kit.err);
    EXPECT_EQ_I64(found.offset, 33);
    memory_env_heal(&kit.memory);
    segment_kit_close(&kit);
}

/* [DUR-25, DUR-35, DUR-41] the records are on disk, and that is what was asked for */
TEST(a_sync_of_an_index_that_failed_ends_no_writing)
{
    segment_kit kit;
    segment_kit_open(&kit);
    REQUIRE_OK(segment_kit_segment(&kit, 0, true), &kit.err);
    for (int i = 0; i < 100; ++i)
        EXPECT_OK(segment_kit_append(&kit, i, 1, i, 100), &kit.err);
    memory_env_fail(&kit.memory, "sync_file", 1, EIO);
    EXPECT_OK(segment_kit_flush(&kit, true), &kit.err);
    EXPECT_OK(segment_kit_append(&kit, 100, 1, 100, 100), &kit.err);
    memory_env_fail_always(&kit.memory, "sync_file", 1, EIO);
    EXPECT_OK(sgs_log_segment_close(kit.segment, &kit.err), &kit.err);
    kit.segment = NULL;
    EXPECT_TRUE(!temporary_has(&kit.directory, "00000000000000000000.index")); /* nobody may believe them */
    EXPECT_TRUE(!temporary_has(&kit.directory, "00000000000000000000.timeindex"));
    segment_kit_close(&kit);
}

/* [DUR-8, DUR-25] The records are closed whatever becomes of the indexes: what cannot be written goes away. So it is also when
 * an index file was removed while its descriptor was closed. */
TEST(an_index_that_cannot_be_ended_keeps_no_segment_from_its_close)
{
    static const char *const calls[] = { "file_info", "truncate", "close" };
    for (int i = 0; i < 3; ++i) {
        segment_kit kit;
        segment_kit_open(&kit);
        kit.context.heap_indexes = i == 0;
        REQUIRE_OK(segment_kit_segment(&kit, 0, true), &kit.err);
        for (int offset = 0; offset < 100; ++offset)
            EXPECT_OK(segment_kit_append(&kit, offset, 1, offset, 100), &kit.err);
        if (i == 2)
            memory_env_fail(&kit.memory, calls[i], 1, EIO); /* the offset index's */
        else
            memory_env_fail_always(&kit.memory, calls[i], 1, EIO);
        EXPECT_OK(sgs_log_segment_close(kit.segment, &kit.err), &kit.err);
        kit.segment = NULL;
        memory_env_heal(&kit.memory);
        EXPECT_TRUE(!temporary_has(&kit.directory, "00000000000000000000.index"));
        EXPECT_TRUE(!temporary_has(&kit.directory, "00000000000000000000.timeindex"));
        EXPECT_EQ_I64(temporary_read(&kit.directory, "00000000000000000000.log", NULL, 0), 10000);
        segment_kit_close(&kit);
    }
}

/* [DUR-8] and made anew at the close */
TEST(an_index_that_cannot_be_released_is_damaged)
{
    static const char *const calls[] = { "file_info", "close" };
    for (int i = 0; i < 2; ++i) {
        segment_kit kit;
        segment_kit_open(&kit);
        kit.context.heap_indexes = true;
        REQUIRE_OK(segment_kit_segment(&kit, 0, true), &kit.err);
        for (int offset = 0; offset < 100; ++offset)
            EXPECT_OK(segment_kit_append(&kit, offset, 1, offset, 100), &kit.err);
        EXPECT_OK(sgs_log_segment_on_become_inactive(kit.segment, &kit.err), &kit.err);
        EXPECT_OK(segment_kit_flush(&kit, true), &kit.err);
        memory_env_fail(&kit.memory, calls[i], 1, EIO);
        EXPECT_OK(sgs_log_segment_release(kit.segment, &kit.err), &kit.err);
        EXPECT_EQ_I64(kit.memory.live_descriptors, 0);
        EXPECT_TRUE(sgs_log_segment_index_damaged(kit.segment));
        memory_env_heal(&kit.memory);
        EXPECT_OK(sgs_log_segment_close(kit.segment, &kit.err), &kit.err);
        REQUIRE_OK(segment_kit_segment(&kit, 0, false), &kit.err);
        EXPECT_EQ_I64(offset_entries(&kit), 2);
        EXPECT_EQ_I64(segment_kit_read_offset(&kit, 77), 77);
        segment_kit_close(&kit);
    }
}

/* A seal that failed has not happened: the segment takes appends, and can be sealed later. */
TEST(a_seal_that_failed_may_be_tried_again)
{
    segment_kit kit;
    segment_kit_open(&kit);
    kit.context.preallocate = true;
    kit.context.segment_bytes = 100000;
    REQUIRE_OK(segment_kit_segment(&kit, 0, true), &kit.err);
    EXPECT_OK(segment_kit_append(&kit, 0, 1, 7, 100), &kit.err);
    memory_env_fail(&kit.memory, "file_info", 1, EIO);
    EXPECT_TRUE(sgs_log_segment_on_become_inactive(kit.segment, &kit.err) != SGS_OK);
    EXPECT_OK(segment_kit_append(&kit, 1, 1, 8, 100), &kit.err);
    EXPECT_OK(sgs_log_segment_on_become_inactive(kit.segment, &kit.err), &kit.err);
    EXPECT_STATUS(segment_kit_append(&kit, 2, 1, 9, 100), SGS_ILLEGAL_STATE);
    EXPECT_EQ_I64(segment_kit_file_size(&kit, SGS_FILE_LOG), 200);
    segment_kit_close(&kit);
}

/* By the last batch, not by the last index entry: two batches of the same offsets would be two truths. */
TEST(offsets_that_the_segment_has_are_refused)
{
    segment_kit kit;
    segment_kit_open(&kit);
    REQUIRE_OK(segment_kit_segment(&kit, 0, true), &kit.err);
    EXPECT_OK(segment_kit_append(&kit, 0, 3, 7, 100), &kit.err);
    EXPECT_STATUS(segment_kit_append(&kit, 0, 3, 7, 100), SGS_INVALID_OFFSET);
    EXPECT_STATUS(segment_kit_append(&kit, 2, 3, 7, 100), SGS_INVALID_OFFSET);
    EXPECT_OK(sgs_log_segment_close(kit.segment, &kit.err), &kit.err);
    REQUIRE_OK(segment_kit_segment(&kit, 0, false), &kit.err);
    EXPECT_STATUS(segment_kit_append(&kit, 2, 1, 7, 100), SGS_INVALID_OFFSET);
    EXPECT_OK(segment_kit_append(&kit, 3, 1, 7, 100), &kit.err);
    EXPECT_EQ_I64(truncate_to(&kit, 3), 100);
    EXPECT_STATUS(segment_kit_append(&kit, 2, 1, 7, 100), SGS_INVALID_OFFSET);
    EXPECT_OK(segment_kit_append(&kit, 3, 1, 7, 100), &kit.err);
    segment_kit_close(&kit);
}

/* [DUR-8] they come from the records: the next open makes those anew that no close has */
TEST(indexes_are_given_up_for_their_room)
{
    segment_kit kit;
    segment_kit_open(&kit);
    REQUIRE_OK(segment_kit_segment(&kit, 0, true), &kit.err);
    for (int i = 0; i < 100; ++i)
        EXPECT_OK(segment_kit_append(&kit, i, 1, i, 100), &kit.err);
    EXPECT_STATUS(sgs_log_segment_give_up_indexes(kit.segment, &kit.err), SGS_ILLEGAL_STATE); /* not synced yet */
    EXPECT_TRUE(segment_kit_file_size(&kit, SGS_FILE_INDEX) > 0);
    EXPECT_OK(sgs_log_segment_on_become_inactive(kit.segment, &kit.err), &kit.err);
    EXPECT_OK(segment_kit_flush(&kit, true), &kit.err);
    memory_env_fail(&kit.memory, "unlink", 1, EIO);
    EXPECT_STATUS(sgs_log_segment_give_up_indexes(kit.segment, &kit.err), SGS_WRITE_IO);
    EXPECT_EQ_I64(segment_kit_read_offset(&kit, 77), 77);
    EXPECT_OK(sgs_log_segment_close(kit.segment, &kit.err), &kit.err);
    REQUIRE_OK(segment_kit_segment(&kit, 0, false), &kit.err);
    EXPECT_EQ_I64(offset_entries(&kit), 2);
    segment_kit_close(&kit);

    segment_kit_open(&kit);
    REQUIRE_OK(segment_kit_segment(&kit, 0, true), &kit.err);
    for (int i = 0; i < 100; ++i)
        EXPECT_OK(segment_kit_append(&kit, i, 1, i, 100), &kit.err);
    EXPECT_OK(sgs_log_segment_on_become_inactive(kit.segment, &kit.err), &kit.err);
    EXPECT_OK(segment_kit_flush(&kit, true), &kit.err);
    EXPECT_OK(sgs_log_segment_give_up_indexes(kit.segment, &kit.err), &kit.err);
    EXPECT_EQ_I64(segment_kit_file_size(&kit, SGS_FILE_INDEX), -1);
    EXPECT_EQ_I64(segment_kit_file_size(&kit, SGS_FILE_TIMEINDEX), -1);
    EXPECT_EQ_I64(segment_kit_file_size(&kit, SGS_FILE_LOG), 10000);
    EXPECT_EQ_I64(segment_kit_read_offset(&kit, 77), 77);
    EXPECT_EQ_I64(max_timestamp(&kit), 99);
    segment_kit_close(&kit);
}

TEST_MAIN()
