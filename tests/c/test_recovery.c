/* Recovery of one segment: what is cut, what is rebuilt, what is left alone. */
#include <errno.h>

#include "segment_kit.h"
#include "test.h"

static const char LOG[] = "00000000000000000000.log";
static const char INDEX[] = "00000000000000000000.index";
static const char TIMEINDEX[] = "00000000000000000000.timeindex";

/* [DUR-50, DUR-1] a file that ends anywhere keeps its whole batches */
TEST(a_file_torn_at_any_byte_keeps_every_whole_batch)
{
    enum { BATCHES = 5, SIZE = 90 };
    uint8_t file[BATCHES * SIZE];
    segment_kit kit;
    segment_kit_open(&kit);
    segment_kit_fill(&kit, BATCHES, SIZE);
    EXPECT_EQ_I64(temporary_read(&kit.directory, LOG, file, sizeof file), sizeof file);
    for (size_t size = 0; size <= sizeof file; ++size) {
        sgs_log_segment_close_quietly(kit.segment);
        temporary_write(&kit.directory, LOG, file, size);
        REQUIRE_OK(segment_kit_segment(&kit, 0, false), &kit.err);
        const sgs_recovery recovery = segment_kit_recover(&kit, SGS_CUT_ANYWHERE);
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
    segment_kit_fill(&kit, BATCHES, SIZE);
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
        const sgs_recovery recovery = segment_kit_recover(&kit, SGS_CUT_ANYWHERE);
        EXPECT_EQ_I64(recovery.scan.valid_bytes, at / SIZE * SIZE);
        EXPECT_EQ_I64(recovery.scan.next_offset, at / SIZE);
    }
    segment_kit_close(&kit);
}

/* [DUR-51, DUR-57] also where who decided has seen the batches end elsewhere */
TEST(without_leave_to_cut_there_nothing_on_disk_changes)
{
    static const int64_t elsewhere[] = { SGS_CUT_NOWHERE, 0, 900, 999, 1001, 1050 };
    uint8_t file[1050];
    uint8_t index[64] = { 1, 2, 3 };
    uint8_t found[2000];
    segment_kit kit;
    segment_kit_open(&kit);
    segment_kit_fill(&kit, 10, 100);
    EXPECT_EQ_I64(temporary_read(&kit.directory, LOG, file, sizeof file), 1000);
    sgs_log_segment_close_quietly(kit.segment);
    memset(file + 1000, 0x77, 50);
    temporary_write(&kit.directory, LOG, file, sizeof file);
    temporary_write(&kit.directory, INDEX, index, sizeof index);
    REQUIRE_OK(segment_kit_segment(&kit, 0, false), &kit.err);
    for (size_t i = 0; i < sizeof elsewhere / sizeof *elsewhere; ++i) {
        const sgs_recovery recovery = segment_kit_recover(&kit, elsewhere[i]);
        EXPECT_EQ_I64(recovery.scan.valid_bytes, 1000);
        EXPECT_EQ_I64(recovery.truncated_bytes, 0);
        EXPECT_TRUE(!recovery.indexes_written);
        EXPECT_EQ_I64(temporary_read(&kit.directory, LOG, found, sizeof found), sizeof file);
        EXPECT_MEM(found, file, sizeof file);
        EXPECT_EQ_I64(temporary_read(&kit.directory, INDEX, found, sizeof found), sizeof index);
        EXPECT_MEM(found, index, sizeof index);
    }
    EXPECT_EQ_I64(segment_kit_recover(&kit, 1000).truncated_bytes, 50);
    EXPECT_EQ_I64(segment_kit_file_size(&kit, SGS_FILE_LOG), 1000);
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
    segment_kit_fill(&kit, 30, 100);
    REQUIRE_OK(segment_kit_crash(&kit), &kit.err);
    segment_kit_recover(&kit, SGS_CUT_ANYWHERE);
    for (int i = 0; i < 3; ++i)
        sizes[i] = temporary_read(&kit.directory, names[i], one[i], sizeof one[i]);
    REQUIRE_OK(segment_kit_crash(&kit), &kit.err);
    const int64_t writes = memory_env_calls(&kit.memory, "write_at");
    segment_kit_recover(&kit, SGS_CUT_ANYWHERE);
    EXPECT_EQ_I64(memory_env_calls(&kit.memory, "write_at"), writes);
    for (int i = 0; i < 3; ++i) {
        EXPECT_EQ_I64(temporary_read(&kit.directory, names[i], two[i], sizeof two[i]), sizes[i]);
        EXPECT_MEM(two[i], one[i], (size_t)sizes[i]);
    }
    segment_kit_close(&kit);
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
    const sgs_recovery recovery = segment_kit_recover(&kit, SGS_CUT_ANYWHERE);
    EXPECT_EQ_I64(recovery.scan.stop, SGS_SCAN_ORDER);
    EXPECT_TEXT(recovery.scan.why.file, LOG);
    EXPECT_EQ_I64(recovery.scan.why.position, 200);
    EXPECT_EQ_I64(recovery.truncated_bytes, 100);
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
        const sgs_scan_options options = segment_kit_strict_scan();
        sgs_recovery recovery;
        segment_kit_open(&kit);
        segment_kit_fill(&kit, 5, 100);
        temporary_read(&kit.directory, LOG, file, 500);
        sgs_log_segment_close_quietly(kit.segment);
        memset(file + 500, 9, 50);
        temporary_write(&kit.directory, LOG, file, sizeof file);
        REQUIRE_OK(segment_kit_segment(&kit, 0, false), &kit.err);
        memory_env_fail(&kit.memory, cases[i].call, 1, cases[i].os_error);
        EXPECT_STATUS(sgs_log_segment_recover(kit.segment, &options, SGS_CUT_ANYWHERE, NULL, &recovery, &kit.err),
                      cases[i].status);
        if (cases[i].status != SGS_RESOURCE)
            EXPECT_TEXT(kit.err.file, LOG);
        EXPECT_EQ_I64(segment_kit_file_size(&kit, SGS_FILE_LOG), 550);
        memory_env_heal(&kit.memory);
        EXPECT_EQ_I64(segment_kit_recover(&kit, SGS_CUT_ANYWHERE).truncated_bytes, 50);
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
        bool is_partial = false;
        segment_kit kit;
        segment_kit_open(&kit);
        segment_kit_fill(&kit, BATCHES, SIZE);
        EXPECT_EQ_I64(segment_kit_read_offset(&kit, BATCHES - 1), BATCHES - 1);
        EXPECT_OK(sgs_log_segment_read_next_offset(kit.segment, &next, &ends_clean, &kit.err), &kit.err);
        EXPECT_EQ_I64(next, BATCHES);
        EXPECT_OK(sgs_log_segment_first_batch_timestamp(kit.segment, &first, &kit.err), &kit.err);
        EXPECT_EQ_I64(first, 0);
        temporary_read(&kit.directory, LOG, file, sizeof file);
        file[kept * SIZE + 80] ^= 1;
        temporary_write(&kit.directory, LOG, file, sizeof file);

        EXPECT_EQ_I64(segment_kit_recover(&kit, SGS_CUT_ANYWHERE).truncated_bytes, (BATCHES - kept) * SIZE);
        EXPECT_EQ_I64(sgs_log_segment_size(kit.segment), kept * SIZE);
        EXPECT_OK(sgs_log_segment_read_next_offset(kit.segment, &next, &ends_clean, &kit.err), &kit.err);
        EXPECT_EQ_I64(next, kept);
        EXPECT_OK(sgs_log_segment_max_timestamp(kit.segment, &largest, &is_partial, &kit.err), &kit.err);
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

/* Headers of large batches are remembered: those of what was cut must not be found where other batches are now. */
TEST(what_is_written_behind_a_recovery_is_found_by_its_own_headers)
{
    static uint8_t file[5 * 9000];
    segment_kit kit;
    sgs_segment_fetch fetch;
    segment_kit_open(&kit);
    segment_kit_fill(&kit, 5, 9000);
    EXPECT_OK(sgs_log_segment_translate_offset(kit.segment, 3, 0, -1, &fetch, &kit.err), &kit.err);
    temporary_read(&kit.directory, LOG, file, sizeof file);
    file[3 * 9000 + 80] ^= 1;
    temporary_write(&kit.directory, LOG, file, sizeof file);
    EXPECT_EQ_I64(segment_kit_recover(&kit, SGS_CUT_ANYWHERE).truncated_bytes, 2 * 9000);
    EXPECT_OK(segment_kit_append(&kit, 3, 3, 3, 9500), &kit.err);
    EXPECT_OK(sgs_log_segment_translate_offset(kit.segment, 4, 0, -1, &fetch, &kit.err), &kit.err);
    EXPECT_EQ_I64(fetch.position, 3 * 9000);
    EXPECT_EQ_I64(fetch.first_batch_size, 9500);
    segment_kit_close(&kit);
}

/* [DUR-17] the sync of a shrink is one that a log without a torn tail does not pay */
TEST(a_recovery_that_cuts_nothing_does_not_sync)
{
    segment_kit kit;
    segment_kit_open(&kit);
    segment_kit_fill(&kit, 5, 100);
    REQUIRE_OK(segment_kit_crash(&kit), &kit.err);
    EXPECT_EQ_I64(segment_kit_recover(&kit, SGS_CUT_ANYWHERE).truncated_bytes, 0);
    EXPECT_EQ_I64(memory_env_calls(&kit.memory, "sync_file"), 0);
    segment_kit_close(&kit);
}

/* [DUR-35] */
TEST(a_segment_whose_sync_failed_is_not_recovered)
{
    segment_kit kit;
    const sgs_scan_options options = segment_kit_strict_scan();
    sgs_recovery recovery;
    segment_kit_open(&kit);
    segment_kit_fill(&kit, 5, 100);
    memory_env_fail(&kit.memory, "sync_data", 1, EIO);
    EXPECT_STATUS(segment_kit_flush(&kit, false), SGS_FSYNC_FAILED);
    EXPECT_STATUS(sgs_log_segment_recover(kit.segment, &options, SGS_CUT_ANYWHERE, NULL, &recovery, &kit.err),
                  SGS_ILLEGAL_STATE);
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
    const sgs_scan_options options = segment_kit_strict_scan();
    segment_kit_open(&kit);
    segment_kit_fill(&kit, 20000, 100);
    sgs_batch_table_init(&table, sgs_env_memory(&kit.memory.env));
    EXPECT_OK(sgs_log_segment_recover(kit.segment, &options, SGS_CUT_ANYWHERE, &table, &recovery, &kit.err), &kit.err);
    REQUIRE_EQ_I64(sgs_batch_table_count(&table), 20000);
    for (int i = 0; i < 20000; i += 997)
        EXPECT_EQ_I64(sgs_batch_table_rows(&table)[i].base_offset, i);
    sgs_batch_table_deinit(&table);
    segment_kit_close(&kit);
}

TEST_MAIN()
