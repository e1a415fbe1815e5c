/* Recovery of one segment: what is cut, what is rebuilt, what is left alone. */
#include <errno.h>
#include <stdlib.h>

#include "base/bytes.h"
#include "segment_kit.h"
#include "test.h"

static const char LOG[] = "00000000000000000000.log";
static const char INDEX[] = "00000000000000000000.index";
static const char TIMEINDEX[] = "00000000000000000000.timeindex";

static sgs_scan_options strict(void)
{
    sgs_scan_options options;
    sgs_scan_options_default(&options, SGS_SCAN_FILE);
    options.check_order = true;
    return options;
}

static sgs_recovery recover(segment_kit *kit, bool cut)
{
    const sgs_scan_options options = strict();
    sgs_recovery recovery = { .truncated_bytes = -1 };
    EXPECT_OK(sgs_log_segment_recover(kit->segment, &options, cut, NULL, &recovery, &kit->err), &kit->err);
    return recovery;
}

static void fill(segment_kit *kit, int count, size_t size)
{
    REQUIRE_OK(segment_kit_segment(kit, 0, true), &kit->err);
    for (int i = 0; i < count; ++i)
        EXPECT_OK(segment_kit_append(kit, i, 1, i * 10, size), &kit->err);
}

/* LogSegmentTest.testRecoveryFixesCorruptIndex */
TEST(recovery_repairs_a_damaged_offset_index)
{
    segment_kit kit;
    uint8_t noise[300];
    segment_kit_open(&kit);
    kit.context.index_interval_bytes = 200;
    fill(&kit, 100, 0);
    sgs_log_segment_close_quietly(kit.segment);
    memset(noise, 0xa7, sizeof noise);
    memset(noise, 0, 5);
    temporary_write(&kit.directory, INDEX, noise, sizeof noise);
    REQUIRE_OK(segment_kit_segment(&kit, 0, false), &kit.err);
    const sgs_recovery recovery = recover(&kit, true);
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
    fill(&kit, 100, 0);
    sgs_log_segment_close_quietly(kit.segment);
    memset(noise, 0xa7, sizeof noise);
    memset(noise, 0, 5);
    temporary_write(&kit.directory, TIMEINDEX, noise, sizeof noise);
    REQUIRE_OK(segment_kit_segment(&kit, 0, false), &kit.err);
    recover(&kit, true);
    for (int i = 0; i < 99; ++i) {
        sgs_found_timestamp found;
        EXPECT_OK(sgs_log_segment_find_offset_by_timestamp(kit.segment, i * 10, 0, -1, &found, &kit.err), &kit.err);
        EXPECT_EQ_I64(found.offset, i);
        EXPECT_OK(sgs_log_segment_find_offset_by_timestamp(kit.segment, i * 10 + 1, 0, -1, &found, &kit.err), &kit.err);
        EXPECT_EQ_I64(found.offset, i + 1);
    }
    segment_kit_close(&kit);
}

/* [DUR-50, DUR-1] a file that ends anywhere keeps its whole batches */
TEST(a_file_torn_at_any_byte_keeps_every_whole_batch)
{
    enum { BATCHES = 5, SIZE = 90 };
    uint8_t file[BATCHES * SIZE];
    segment_kit kit;
    segment_kit_open(&kit);
    fill(&kit, BATCHES, SIZE);
    EXPECT_EQ_I64(temporary_read(&kit.directory, LOG, file, sizeof file), sizeof file);
    for (size_t size = 0; size <= sizeof file; ++size) {
        sgs_log_segment_close_quietly(kit.segment);
        temporary_write(&kit.directory, LOG, file, size);
        REQUIRE_OK(segment_kit_segment(&kit, 0, false), &kit.err);
        const sgs_recovery recovery = recover(&kit, true);
        EXPECT_EQ_I64(recovery.scan.valid_bytes, size / SIZE * SIZE);
        EXPECT_EQ_I64(recovery.truncated_bytes, size % SIZE);
        EXPECT_EQ_I64(recovery.scan.next_offset, size / SIZE);
        EXPECT_EQ_I64(segment_kit_file_size(&kit, SGS_FILE_LOG), size / SIZE * SIZE);
    }
    segment_kit_close(&kit);
}

/* [DUR-50] whatever bit flips, what is kept is a prefix of what was there */
TEST(a_flipped_bit_cuts_at_its_batch)
{
    enum { BATCHES = 3, SIZE = 75 };
    uint8_t file[BATCHES * SIZE];
    segment_kit kit;
    segment_kit_open(&kit);
    fill(&kit, BATCHES, SIZE);
    EXPECT_EQ_I64(temporary_read(&kit.directory, LOG, file, sizeof file), sizeof file);
    for (size_t at = 0; at < sizeof file; ++at) {
        const bool outside_crc = at % SIZE < 8 || (at % SIZE >= 12 && at % SIZE < 16); /* offset and leader epoch */
        if (outside_crc)
            continue;
        sgs_log_segment_close_quietly(kit.segment);
        file[at] ^= 0x10;
        temporary_write(&kit.directory, LOG, file, sizeof file);
        file[at] ^= 0x10;
        REQUIRE_OK(segment_kit_segment(&kit, 0, false), &kit.err);
        const sgs_recovery recovery = recover(&kit, true);
        EXPECT_EQ_I64(recovery.scan.valid_bytes, at / SIZE * SIZE);
        EXPECT_EQ_I64(recovery.scan.next_offset, at / SIZE);
    }
    segment_kit_close(&kit);
}

TEST(without_leave_to_cut_nothing_on_disk_changes)
{
    uint8_t file[1050];
    uint8_t index[64] = { 1, 2, 3 };
    uint8_t found[2000];
    segment_kit kit;
    segment_kit_open(&kit);
    fill(&kit, 10, 100);
    EXPECT_EQ_I64(temporary_read(&kit.directory, LOG, file, sizeof file), 1000);
    sgs_log_segment_close_quietly(kit.segment);
    memset(file + 1000, 0x77, 50);
    temporary_write(&kit.directory, LOG, file, sizeof file);
    temporary_write(&kit.directory, INDEX, index, sizeof index);
    REQUIRE_OK(segment_kit_segment(&kit, 0, false), &kit.err);
    const sgs_recovery recovery = recover(&kit, false);
    EXPECT_EQ_I64(recovery.scan.valid_bytes, 1000);
    EXPECT_EQ_I64(recovery.truncated_bytes, 0);
    EXPECT_TRUE(!recovery.indexes_written);
    EXPECT_EQ_I64(temporary_read(&kit.directory, LOG, found, sizeof found), sizeof file);
    EXPECT_MEM(found, file, sizeof file);
    EXPECT_EQ_I64(temporary_read(&kit.directory, INDEX, found, sizeof found), sizeof index);
    EXPECT_MEM(found, index, sizeof index);
    sgs_log_segment_close_quietly(kit.segment);
    kit.segment = NULL;
    segment_kit_close(&kit);
}

/* [DUR-56] */
TEST(a_second_recovery_changes_nothing)
{
    uint8_t one[3][4096];
    uint8_t two[3][4096];
    const char *const names[] = { LOG, INDEX, TIMEINDEX };
    int64_t sizes[3];
    segment_kit kit;
    segment_kit_open(&kit);
    kit.context.index_interval_bytes = 100;
    fill(&kit, 30, 100);
    REQUIRE_OK(segment_kit_crash(&kit), &kit.err);
    recover(&kit, true);
    for (int i = 0; i < 3; ++i)
        sizes[i] = temporary_read(&kit.directory, names[i], one[i], sizeof one[i]);
    REQUIRE_OK(segment_kit_crash(&kit), &kit.err);
    const int64_t writes = memory_env_calls(&kit.memory, "write_at");
    recover(&kit, true);
    EXPECT_EQ_I64(memory_env_calls(&kit.memory, "write_at"), writes);
    for (int i = 0; i < 3; ++i) {
        EXPECT_EQ_I64(temporary_read(&kit.directory, names[i], two[i], sizeof two[i]), sizes[i]);
        EXPECT_MEM(two[i], one[i], (size_t)sizes[i]);
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
    recover(&kit, true);
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
    fill(&kit, 50, 0);
    REQUIRE_OK(segment_kit_crash(&kit), &kit.err);
    kit.context.max_index_bytes = 36;
    recover(&kit, true);
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
    } cases[] = {
        { INT64_C(2147483648), INT64_C(2147483649), SGS_SEGMENT_OFFSET_OVERFLOW },
        { 7, 6, SGS_INVALID_OFFSET },
        { 7, 8, SGS_OK },
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
        EXPECT_STATUS(sgs_log_segment_recover(kit.segment, &options, true, NULL, &recovery, &kit.err), cases[i].status);
        EXPECT_EQ_I64(segment_kit_file_size(&kit, SGS_FILE_LOG), 300);
        if (cases[i].status != SGS_OK)
            EXPECT_TEXT(kit.err.file, LOG);
        segment_kit_close(&kit);
    }
}

/* [DUR-50] under our rules a batch that jumps back ends the log like a torn one */
TEST(a_batch_out_of_order_ends_the_log)
{
    static uint8_t file[300];
    segment_kit kit;
    segment_kit_open(&kit);
    segment_kit_batch(file, 100, 0, 1, 0, 100);
    segment_kit_batch(file + 100, 100, 5, 1, 0, 100);
    segment_kit_batch(file + 200, 100, 5, 1, 0, 100);
    temporary_write(&kit.directory, LOG, file, sizeof file);
    REQUIRE_OK(segment_kit_segment(&kit, 0, false), &kit.err);
    const sgs_recovery recovery = recover(&kit, true);
    EXPECT_EQ_I64(recovery.scan.stop, SGS_SCAN_ORDER);
    EXPECT_TEXT(recovery.scan.why.file, LOG);
    EXPECT_EQ_I64(recovery.scan.why.position, 200);
    EXPECT_EQ_I64(recovery.truncated_bytes, 100);
    segment_kit_close(&kit);
}

/* [DUR-57] */
TEST(a_disk_without_room_loses_only_the_indexes)
{
    segment_kit kit;
    segment_kit_open(&kit);
    kit.context.index_interval_bytes = 0;
    fill(&kit, 40, 100);
    sgs_log_segment_close_quietly(kit.segment);
    temporary_write(&kit.directory, INDEX, "", 0);
    temporary_write(&kit.directory, TIMEINDEX, "", 0);
    REQUIRE_OK(segment_kit_segment(&kit, 0, false), &kit.err);
    memory_env_fail_always(&kit.memory, "allocate_space", 1, ENOSPC);
    const sgs_recovery recovery = recover(&kit, true);
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

/* [DUR-6, DUR-57] an environment that fails changes nothing, and a file that cannot be read is not taken for a short one */
TEST(a_recovery_that_fails_leaves_the_file_as_it_was)
{
    const struct {
        const char *call;
        int os_error;
        sgs_status status;
    } cases[] = {
        { "read_at", EIO, SGS_READ_IO },
        { "truncate", EIO, SGS_WRITE_IO },
        { "allocate", ENOMEM, SGS_RESOURCE },
        { "open_file", EMFILE, SGS_RESOURCE },
    };
    uint8_t file[550];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        segment_kit kit;
        const sgs_scan_options options = strict();
        sgs_recovery recovery;
        segment_kit_open(&kit);
        fill(&kit, 5, 100);
        temporary_read(&kit.directory, LOG, file, 500);
        sgs_log_segment_close_quietly(kit.segment);
        memset(file + 500, 9, 50);
        temporary_write(&kit.directory, LOG, file, sizeof file);
        REQUIRE_OK(segment_kit_segment(&kit, 0, false), &kit.err);
        memory_env_fail(&kit.memory, cases[i].call, 1, cases[i].os_error);
        EXPECT_STATUS(sgs_log_segment_recover(kit.segment, &options, true, NULL, &recovery, &kit.err), cases[i].status);
        if (cases[i].status != SGS_RESOURCE)
            EXPECT_TEXT(kit.err.file, LOG);
        EXPECT_EQ_I64(segment_kit_file_size(&kit, SGS_FILE_LOG), 550);
        memory_env_heal(&kit.memory);
        EXPECT_EQ_I64(recover(&kit, true).truncated_bytes, 50);
        segment_kit_close(&kit);
    }
}

/* [DUR-50, SEG-40] what was known of the file before goes with what is cut */
TEST(a_recovery_of_a_segment_in_use_knows_its_new_end)
{
    enum { BATCHES = 10, SIZE = 100 };
    static uint8_t file[BATCHES * SIZE];
    for (int kept = 0; kept < BATCHES; kept += 7) {
        int64_t next;
        int64_t first;
        bool ends_clean;
        sgs_timestamp_offset largest;
        segment_kit kit;
        segment_kit_open(&kit);
        fill(&kit, BATCHES, SIZE);
        EXPECT_EQ_I64(segment_kit_read_offset(&kit, BATCHES - 1), BATCHES - 1);
        EXPECT_OK(sgs_log_segment_read_next_offset(kit.segment, &next, &ends_clean, &kit.err), &kit.err);
        EXPECT_EQ_I64(next, BATCHES);
        EXPECT_OK(sgs_log_segment_first_batch_timestamp(kit.segment, &first, &kit.err), &kit.err);
        EXPECT_EQ_I64(first, 0);
        temporary_read(&kit.directory, LOG, file, sizeof file);
        file[kept * SIZE + 80] ^= 1;
        temporary_write(&kit.directory, LOG, file, sizeof file);

        EXPECT_EQ_I64(recover(&kit, true).truncated_bytes, (BATCHES - kept) * SIZE);
        EXPECT_EQ_I64(sgs_log_segment_size(kit.segment), kept * SIZE);
        EXPECT_OK(sgs_log_segment_read_next_offset(kit.segment, &next, &ends_clean, &kit.err), &kit.err);
        EXPECT_EQ_I64(next, kept);
        EXPECT_OK(sgs_log_segment_max_timestamp(kit.segment, &largest, &kit.err), &kit.err);
        EXPECT_EQ_I64(largest.timestamp, kept == 0 ? -1 : (kept - 1) * 10);
        EXPECT_OK(segment_kit_append(&kit, kept, 1, 777, SIZE - 20), &kit.err);
        EXPECT_OK(segment_kit_append(&kit, kept + 1, 1, 778, SIZE - 20), &kit.err);
        EXPECT_EQ_I64(segment_kit_read_offset(&kit, kept + 1), kept + 1);
        EXPECT_EQ_I64(segment_kit_read_offset(&kit, kept + 2), -1);
        EXPECT_OK(sgs_log_segment_first_batch_timestamp(kit.segment, &first, &kit.err), &kit.err);
        EXPECT_EQ_I64(first, kept == 0 ? 777 : 0);
        segment_kit_close(&kit);
    }
}

/* [DUR-35] */
TEST(a_segment_whose_sync_failed_is_not_recovered)
{
    segment_kit kit;
    const sgs_scan_options options = strict();
    sgs_recovery recovery;
    segment_kit_open(&kit);
    fill(&kit, 5, 100);
    memory_env_fail(&kit.memory, "sync_data", 1, EIO);
    EXPECT_STATUS(segment_kit_flush(&kit, false), SGS_FSYNC_FAILED);
    EXPECT_STATUS(sgs_log_segment_recover(kit.segment, &options, true, NULL, &recovery, &kit.err), SGS_ILLEGAL_STATE);
    EXPECT_STATUS(sgs_log_segment_rewrite(kit.segment, 0, &kit.err), SGS_ILLEGAL_STATE);
    sgs_log_segment_close_quietly(kit.segment);
    kit.segment = NULL;
    segment_kit_close(&kit);
}

TEST(recovery_hands_out_the_rows_of_all_good_batches)
{
    segment_kit kit;
    sgs_batch_table table;
    sgs_recovery recovery;
    const sgs_scan_options options = strict();
    segment_kit_open(&kit);
    fill(&kit, 20000, 100);
    sgs_batch_table_init(&table, sgs_env_memory(&kit.memory.env));
    EXPECT_OK(sgs_log_segment_recover(kit.segment, &options, true, &table, &recovery, &kit.err), &kit.err);
    REQUIRE_EQ_I64(sgs_batch_table_count(&table), 20000);
    for (int i = 0; i < 20000; i += 997)
        EXPECT_EQ_I64(sgs_batch_table_rows(&table)[i].base_offset, i);
    sgs_batch_table_deinit(&table);
    segment_kit_close(&kit);
}

TEST_MAIN()
