/* test_index_builder.c - both indexes made anew from the batches: by a recovery, at a seal, at a close. */
#include <errno.h>
#include <string.h>

#include "segment_kit.h"
#include "test.h"

static const char LOG[] = "00000000000000000000.log";
static const char INDEX[] = "00000000000000000000.index";
static const char TIMEINDEX[] = "00000000000000000000.timeindex";

/* LogSegmentTest.testRecoveryFixesCorruptIndex */
TEST(recovery_repairs_a_damaged_offset_index)
{
    segment_kit kit;
    uint8_t noise[300];
    segment_kit_open(&kit);
    kit.context.index_interval_bytes = 200;
    segment_kit_fill(&kit, 100, 0);
    sgs_log_segment_close_quietly(kit.segment);
    memset(noise, 0xa7, sizeof noise);
    memset(noise, 0, 5);
    temporary_write(&kit.directory, INDEX, noise, sizeof noise);
    REQUIRE_OK(segment_kit_segment(&kit, 0, false), &kit.err);
    const sgs_recovery recovery = segment_kit_recover(&kit, SGS_CUT_ANYWHERE);
    EXPECT_EQ_I64(recovery.truncated_bytes, 0);
    EXPECT_EQ_I64(recovery.scan.next_offset, 100);
    EXPECT_TRUE(recovery.indexes_written);
    for (int i = 0; i < 100; ++i)
        EXPECT_EQ_I64(segment_kit_read_offset(&kit, i), i);
    EXPECT_EQ_I64(segment_kit_file_size(&kit, SGS_FILE_INDEX), 33 * 8);
    segment_kit_close(&kit);
}

/* LogSegmentTest.testRecoveryFixesCorruptTimeIndex */
TEST(recovery_repairs_a_damaged_time_index)
{
    segment_kit kit;
    uint8_t noise[300];
    segment_kit_open(&kit);
    kit.context.index_interval_bytes = 200;
    segment_kit_fill(&kit, 100, 0);
    sgs_log_segment_close_quietly(kit.segment);
    memset(noise, 0xa7, sizeof noise);
    memset(noise, 0, 5);
    temporary_write(&kit.directory, TIMEINDEX, noise, sizeof noise);
    REQUIRE_OK(segment_kit_segment(&kit, 0, false), &kit.err);
    segment_kit_recover(&kit, SGS_CUT_ANYWHERE);
    for (int i = 0; i < 99; ++i) {
        sgs_found_timestamp found;
        EXPECT_OK(sgs_log_segment_find_offset_by_timestamp(kit.segment, i * 10, 0, -1, &found, &kit.err), &kit.err);
        EXPECT_EQ_I64(found.offset, i);
        EXPECT_OK(sgs_log_segment_find_offset_by_timestamp(kit.segment, i * 10 + 1, 0, -1, &found, &kit.err), &kit.err);
        EXPECT_EQ_I64(found.offset, i + 1);
    }
    segment_kit_close(&kit);
}

/* [SEG-43, T-2] the same entries as the append made, and the final time entry */
TEST(rebuilt_indexes_equal_those_that_were_written_live)
{
    static uint8_t live[2][1 << 16];
    static uint8_t rebuilt[2][1 << 16];
    segment_kit kit;
    uint32_t state = 5;
    segment_kit_open(&kit);
    kit.context.index_interval_bytes = 1024;
    REQUIRE_OK(segment_kit_segment(&kit, 0, true), &kit.err);
    for (int i = 0; i < 2000; ++i) {
        state = state * 1103515245u + 12345u;
        EXPECT_OK(segment_kit_append(&kit, i, 1, i * 3 + (int64_t)(state >> 16) % 50, 70 + (state >> 8) % 3000),
                  &kit.err);
    }
    EXPECT_OK(sgs_log_segment_close(kit.segment, &kit.err), &kit.err);
    const int64_t offsets = temporary_read(&kit.directory, INDEX, live[0], sizeof live[0]);
    const int64_t times = temporary_read(&kit.directory, TIMEINDEX, live[1], sizeof live[1]);
    EXPECT_TRUE(offsets > 4000 && times > 4000);
    temporary_write(&kit.directory, INDEX, "", 0);
    temporary_write(&kit.directory, TIMEINDEX, "", 0);
    REQUIRE_OK(segment_kit_segment(&kit, 0, false), &kit.err);
    segment_kit_recover(&kit, SGS_CUT_ANYWHERE);
    EXPECT_EQ_I64(temporary_read(&kit.directory, INDEX, rebuilt[0], sizeof rebuilt[0]), offsets);
    EXPECT_EQ_I64(temporary_read(&kit.directory, TIMEINDEX, rebuilt[1], sizeof rebuilt[1]), times);
    EXPECT_MEM(rebuilt[0], live[0], (size_t)offsets);
    EXPECT_MEM(rebuilt[1], live[1], (size_t)times);
    segment_kit_close(&kit);
}

/* [SEG-41] port: a full index ends the entries where Kafka ends the load; one slot is kept for the final time entry */
TEST(an_index_that_is_too_small_takes_what_fits)
{
    segment_kit kit;
    sgs_time_index *times;
    sgs_timestamp_offset entry;
    segment_kit_open(&kit);
    kit.context.index_interval_bytes = 0;
    segment_kit_fill(&kit, 50, 0);
    REQUIRE_OK(segment_kit_crash(&kit), &kit.err);
    kit.context.max_index_bytes = 36;
    segment_kit_recover(&kit, SGS_CUT_ANYWHERE);
    EXPECT_EQ_I64(segment_kit_file_size(&kit, SGS_FILE_INDEX), 2 * 8);
    EXPECT_EQ_I64(segment_kit_file_size(&kit, SGS_FILE_TIMEINDEX), 3 * 12);
    EXPECT_OK(sgs_log_segment_time_index(kit.segment, &times, &kit.err), &kit.err);
    EXPECT_OK(sgs_time_index_entry(times, 2, &entry, &kit.err), &kit.err);
    EXPECT_EQ_I64(entry.timestamp, 490);
    for (int i = 0; i < 50; ++i)
        EXPECT_EQ_I64(segment_kit_read_offset(&kit, i), i);
    segment_kit_close(&kit);
}

/* [SEG-40.2, SEG-41] what Kafka lets through to its loader, under Kafka's rules only */
TEST(kafka_rules_report_overflow_and_offsets_that_go_back)
{
    static uint8_t file[300];
    const struct {
        int64_t second, third;
        sgs_status status;
        int64_t position;
        const char *found;
    } cases[] = {
        { INT64_C(2147483648), INT64_C(2147483649), SGS_SEGMENT_OFFSET_OVERFLOW, 100, "2147483648 at base 0" },
        { 7, 6, SGS_INVALID_OFFSET, 200, "6 after 7" },
        { 7, 7, SGS_INVALID_OFFSET, 200, "7 after 7" },
        { 7, 8, SGS_OK, -1, "" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        segment_kit kit;
        sgs_scan_options options;
        sgs_recovery recovery;
        segment_kit_open(&kit);
        kit.context.kafka_profile = true;
        kit.context.index_interval_bytes = 0;
        segment_kit_batch(file, 100, 0, 1, 0, 100);
        segment_kit_batch(file + 100, 100, cases[i].second, 1, 0, 100);
        segment_kit_batch(file + 200, 100, cases[i].third, 1, 0, 100);
        temporary_write(&kit.directory, LOG, file, sizeof file);
        REQUIRE_OK(segment_kit_segment(&kit, 0, false), &kit.err);
        sgs_scan_options_default(&options, SGS_SCAN_FILE);
        options.kafka_limits = true;
        EXPECT_STATUS(sgs_log_segment_recover(kit.segment, &options, SGS_CUT_ANYWHERE, NULL, &recovery, &kit.err),
                      cases[i].status);
        EXPECT_EQ_I64(segment_kit_file_size(&kit, SGS_FILE_LOG), 300);
        if (cases[i].status != SGS_OK) {
            EXPECT_TEXT(kit.err.file, LOG);
            EXPECT_EQ_I64(kit.err.position, cases[i].position);
            EXPECT_TEXT(kit.err.found, cases[i].found);
        }
        segment_kit_close(&kit);
    }
}

/* [DUR-57] */
TEST(a_disk_without_room_loses_only_the_indexes)
{
    segment_kit kit;
    segment_kit_open(&kit);
    kit.context.index_interval_bytes = 0;
    segment_kit_fill(&kit, 40, 100);
    sgs_log_segment_close_quietly(kit.segment);
    temporary_write(&kit.directory, INDEX, "", 0);
    temporary_write(&kit.directory, TIMEINDEX, "", 0);
    REQUIRE_OK(segment_kit_segment(&kit, 0, false), &kit.err);
    memory_env_fail_always(&kit.memory, "allocate_space", 1, ENOSPC);
    const sgs_recovery recovery = segment_kit_recover(&kit, SGS_CUT_ANYWHERE);
    EXPECT_TRUE(!recovery.indexes_written);
    EXPECT_EQ_I64(recovery.scan.next_offset, 40);
    for (int i = 0; i < 40; ++i)
        EXPECT_EQ_I64(segment_kit_read_offset(&kit, i), i);
    memory_env_heal(&kit.memory);
    EXPECT_OK(sgs_log_segment_close(kit.segment, &kit.err), &kit.err); /* tries again */
    kit.segment = NULL;
    EXPECT_EQ_I64(temporary_read(&kit.directory, INDEX, NULL, 0), 39 * 8);
    segment_kit_close(&kit);
}

/* [SEG-41] port: which of the two is full decides, and a time that is no greater takes no slot of the time index */
TEST(a_time_that_is_repeated_or_missing_takes_no_slot)
{
    const struct {
        int64_t timestamps[6];
        int64_t offset_entries, time_entries;
    } cases[] = {
        { { 7, 7, 7, 7, 7, 7 }, 4, 1 },      /* the offset index is full first */
        { { -1, -1, 10, 20, 30, 40 }, 3, 3 } /* two, and the last slot takes the final one */
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        segment_kit kit;
        segment_kit_open(&kit);
        kit.context.index_interval_bytes = 0;
        kit.context.max_index_bytes = 36; /* 4 offsets, 3 times */
        REQUIRE_OK(segment_kit_segment(&kit, 0, true), &kit.err);
        for (int batch = 0; batch < 6; ++batch)
            EXPECT_OK(segment_kit_append(&kit, batch, 1, cases[i].timestamps[batch], 0), &kit.err);
        REQUIRE_OK(segment_kit_crash(&kit), &kit.err);
        EXPECT_TRUE(segment_kit_recover(&kit, SGS_CUT_ANYWHERE).indexes_written);
        EXPECT_EQ_I64(segment_kit_file_size(&kit, SGS_FILE_INDEX), 8 * cases[i].offset_entries);
        EXPECT_EQ_I64(segment_kit_file_size(&kit, SGS_FILE_TIMEINDEX), 12 * cases[i].time_entries);
        segment_kit_close(&kit);
    }
}

/* [OFX-2] */
TEST(an_index_made_anew_without_entries_ends_at_the_base_offset)
{
    segment_kit kit;
    uint8_t file[500];
    sgs_offset_index *index;
    segment_kit_open(&kit);
    kit.context.index_interval_bytes = 0;
    segment_kit_fill(&kit, 5, 100);
    temporary_read(&kit.directory, LOG, file, sizeof file);
    file[180] ^= 1;
    temporary_write(&kit.directory, LOG, file, sizeof file);
    EXPECT_EQ_I64(segment_kit_recover(&kit, SGS_CUT_ANYWHERE).truncated_bytes, 400);
    EXPECT_OK(sgs_log_segment_offset_index(kit.segment, &index, &kit.err), &kit.err);
    EXPECT_EQ_I64(sgs_abstract_index_entries(&index->base), 0);
    EXPECT_EQ_I64(index->last_offset, 0);
    segment_kit_close(&kit);
}

static void make_long(segment_kit *kit, const char *name)
{
    const sgs_env *env = sgs_env_posix();
    int fd;
    REQUIRE_OK(env->open_file(env, kit->directory.fd, name, SGS_OPEN_WRITE, &fd, &kit->err), &kit->err);
    EXPECT_OK(env->truncate(env, fd, name, INT64_C(2147483648), &kit->err), &kit->err);
    EXPECT_OK(env->close(env, fd, name, &kit->err), &kit->err);
}

/* [DUR-97, DUR-8] a file that no index can be makes place for one */
TEST(an_index_file_that_is_too_long_is_replaced)
{
    for (int damaged = 1; damaged < 4; ++damaged) {
        segment_kit kit;
        segment_kit_open(&kit);
        kit.context.index_interval_bytes = 0;
        segment_kit_fill(&kit, 5, 100);
        EXPECT_OK(sgs_log_segment_close(kit.segment, &kit.err), &kit.err);
        kit.segment = NULL;
        if ((damaged & 1) != 0)
            make_long(&kit, INDEX);
        if ((damaged & 2) != 0)
            make_long(&kit, TIMEINDEX);
        REQUIRE_OK(segment_kit_segment(&kit, 0, false), &kit.err);
        EXPECT_TRUE(segment_kit_recover(&kit, SGS_CUT_ANYWHERE).indexes_written);
        EXPECT_EQ_I64(segment_kit_file_size(&kit, SGS_FILE_INDEX), 4 * 8);
        EXPECT_EQ_I64(segment_kit_file_size(&kit, SGS_FILE_TIMEINDEX), 4 * 12);
        segment_kit_entry_is(&kit, 3, 4, 400);
        segment_kit_time_entry_is(&kit, 3, 40, 4);
        segment_kit_close(&kit);
    }
}

/* [DUR-6, DUR-57] what only cannot be opened now stays where it is, and is known to be old until it is made anew */
TEST(an_index_that_cannot_be_opened_is_not_removed)
{
    segment_kit kit;
    segment_kit_open(&kit);
    kit.context.index_interval_bytes = 0;
    segment_kit_fill(&kit, 5, 100);
    EXPECT_OK(sgs_log_segment_close(kit.segment, &kit.err), &kit.err);
    REQUIRE_OK(segment_kit_segment(&kit, 0, false), &kit.err);
    memory_env_fail(&kit.memory, "open_file", 2, EMFILE); /* the first one is that of the .log */
    EXPECT_TRUE(!segment_kit_recover(&kit, SGS_CUT_ANYWHERE).indexes_written);
    EXPECT_TRUE(temporary_has(&kit.directory, INDEX));
    EXPECT_TRUE(temporary_has(&kit.directory, TIMEINDEX));
    EXPECT_TRUE(sgs_log_segment_index_damaged(kit.segment));
    EXPECT_TRUE(segment_kit_recover(&kit, SGS_CUT_ANYWHERE).indexes_written);
    EXPECT_TRUE(!sgs_log_segment_index_damaged(kit.segment));
    segment_kit_close(&kit);
}

/* [DUR-62] Kafka takes a batch of any magic from a file: what it believes is indexed, also when its indexes are made anew */
TEST(a_rebuild_judges_batches_as_its_profile_does)
{
    enum { SIZE = 100, MAGIC_AT = 16 };
    uint8_t file[4 * SIZE];
    const uint8_t entries[80] = { 0 }; /* of before, in blocks that a disk may not have */
    sgs_batch_header rows[3];
    int64_t last_indexed_position = 0;
    size_t taken;
    segment_kit kit;
    segment_kit_open(&kit);
    kit.context.kafka_profile = true;
    kit.context.index_interval_bytes = 0;
    kit.context.max_index_bytes = sizeof entries;
    for (int i = 0; i < 4; ++i)
        segment_kit_batch(file + i * SIZE, SIZE, i, 1, 10 * i, SIZE);
    for (int i = 0; i < 3; ++i)
        REQUIRE_OK(sgs_batch_header_load(file + i * SIZE, SIZE, i * SIZE, &rows[i], &kit.err), &kit.err);
    file[2 * SIZE + MAGIC_AT] = 3;
    temporary_write(&kit.directory, LOG, file, sizeof file);
    temporary_write(&kit.directory, INDEX, entries, sizeof entries);
    REQUIRE_OK(segment_kit_segment(&kit, 0, false), &kit.err);
    REQUIRE_OK(sgs_log_segment_begin_recovery(kit.segment, &kit.err), &kit.err);
    memory_env_fail(&kit.memory, "allocate_space", 1, ENOSPC);
    EXPECT_STATUS(sgs_log_segment_recover_batches(kit.segment, rows, 3, &last_indexed_position, &taken, &kit.err),
                  SGS_DISK_FULL);
    EXPECT_EQ_I64(taken, 1);
    EXPECT_OK(sgs_log_segment_on_become_inactive(kit.segment, &kit.err), &kit.err);
    EXPECT_EQ_I64(segment_kit_offset_entries(&kit), 3);
    segment_kit_entry_is(&kit, 2, 3, 3 * SIZE);
    segment_kit_close(&kit);
}

/* [DUR-44] any other failure is survived in silence: the records lose nothing */
TEST(a_broken_invariant_of_a_seal_is_told_with_its_file)
{
    const char *const files[] = { INDEX, TIMEINDEX };
    const uint8_t wrong[] = { 0, 0, 0, 1, 0, 0, 0, 77 };
    for (int nth = 1; nth <= 2; ++nth) {
        segment_kit kit;
        segment_kit_open(&kit);
        kit.context.index_interval_bytes = 0;
        segment_kit_fill(&kit, 5, 100);
        EXPECT_OK(sgs_log_segment_close(kit.segment, &kit.err), &kit.err);
        temporary_write(&kit.directory, INDEX, wrong, sizeof wrong);
        temporary_write(&kit.directory, TIMEINDEX, "", 0);
        REQUIRE_OK(segment_kit_segment(&kit, 0, false), &kit.err);
        EXPECT_EQ_I64(segment_kit_read_offset(&kit, 3), 3);
        EXPECT_TRUE(sgs_log_segment_index_damaged(kit.segment));
        memory_env_fail(&kit.memory, "allocate_space", nth, MEMORY_ENV_BROKEN_INVARIANT);
        EXPECT_STATUS(sgs_log_segment_on_become_inactive(kit.segment, &kit.err), SGS_INTERNAL);
        EXPECT_TEXT(kit.err.file, files[nth - 1]);
        EXPECT_OK(sgs_log_segment_on_become_inactive(kit.segment, &kit.err), &kit.err);
        EXPECT_TRUE(!sgs_log_segment_index_damaged(kit.segment));
        EXPECT_EQ_I64(segment_kit_offset_entries(&kit), 4);
        EXPECT_EQ_I64(segment_kit_time_entries(&kit), 4);
        segment_kit_close(&kit);
    }
}

TEST_MAIN()
