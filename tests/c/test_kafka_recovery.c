/* Kafka's recovery of one segment in its own steps: what a recovery leaves that fails in the middle. */
#include <errno.h>
#include <string.h>

#include "segment_kit.h"
#include "test.h"

static const char LOG[] = "00000000000000000000.log";
static const char INDEX[] = "00000000000000000000.index";
static const char TIMEINDEX[] = "00000000000000000000.timeindex";

enum { BATCH_BYTES = 100, INDEX_BYTES = 80 };

/* Batches of one record each, with these offsets; each but the first gets an index entry. */
static void open_log(segment_kit *kit, const int64_t *offsets, int count, const char *tail)
{
    static uint8_t file[2000];
    segment_kit_open(kit);
    kit->context.kafka_profile = true;
    kit->context.index_interval_bytes = 0;
    kit->context.max_index_bytes = INDEX_BYTES;
    for (int i = 0; i < count; ++i)
        segment_kit_batch(file + BATCH_BYTES * i, BATCH_BYTES, offsets[i], 1, 10 * i, BATCH_BYTES);
    const size_t size = (size_t)(BATCH_BYTES * count);
    memcpy(file + size, tail, strlen(tail));
    temporary_write(&kit->directory, LOG, file, size + strlen(tail));
    REQUIRE_OK(segment_kit_segment(kit, 0, false), &kit->err);
}

/* Begin, and take what a scan finds. */
static sgs_status take_all(segment_kit *kit, sgs_batch_table *table, size_t *taken)
{
    sgs_scan_options options;
    sgs_scan_result result;
    int64_t last_indexed_position = 0;
    sgs_scan_options_default(&options, SGS_SCAN_FILE);
    options.kafka_limits = true;
    sgs_batch_table_init(table, sgs_env_memory(kit->context.env));
    EXPECT_OK(sgs_log_segment_scan(kit->segment, &options, 0, -1, table, &result, &kit->err), &kit->err);
    EXPECT_OK(sgs_log_segment_begin_recovery(kit->segment, &kit->err), &kit->err);
    return sgs_log_segment_recover_batches(kit->segment, sgs_batch_table_rows(table), sgs_batch_table_count(table),
                                           &last_indexed_position, taken, &kit->err);
}

/* [SEG-40] damaged indexes are made anew, and what is no batch is cut */
TEST(a_recovery_leaves_trimmed_indexes_and_whole_batches)
{
    const int64_t offsets[] = { 0, 1, 2, 3 };
    segment_kit kit;
    sgs_batch_table table;
    size_t taken;
    int32_t cut = -1;
    open_log(&kit, offsets, 4, "no batch");
    temporary_write(&kit.directory, INDEX, "seven b", 7);
    temporary_write(&kit.directory, TIMEINDEX, "", 0);
    EXPECT_OK(take_all(&kit, &table, &taken), &kit.err);
    EXPECT_EQ_I64((int64_t)taken, 4);
    EXPECT_EQ_I64(segment_kit_file_size(&kit, SGS_FILE_INDEX), INDEX_BYTES);
    EXPECT_OK(sgs_log_segment_end_recovery(kit.segment, 4 * BATCH_BYTES, &cut, &kit.err), &kit.err);
    EXPECT_EQ_I64(cut, 8);
    EXPECT_EQ_I64(segment_kit_file_size(&kit, SGS_FILE_LOG), 4 * BATCH_BYTES);
    EXPECT_EQ_I64(segment_kit_file_size(&kit, SGS_FILE_INDEX), 3 * 8);
    EXPECT_EQ_I64(segment_kit_file_size(&kit, SGS_FILE_TIMEINDEX), 3 * 12);
    sgs_timestamp_offset largest;
    bool is_partial = false;
    EXPECT_OK(sgs_log_segment_max_timestamp(kit.segment, &largest, &is_partial, &kit.err), &kit.err);
    EXPECT_EQ_I64(largest.timestamp, 30);
    EXPECT_EQ_I64(largest.offset, 3);
    sgs_batch_table_deinit(&table);
    segment_kit_close(&kit);
}

/* [SEG-41, LDR-24] the entries so far stay, in files of full size */
TEST(what_fails_leaves_the_entries_so_far)
{
    const struct {
        int64_t offsets[3];
        sgs_status status;
        const char *file;
    } cases[] = {
        { { 0, 1, INT64_C(2147483648) }, SGS_SEGMENT_OFFSET_OVERFLOW, LOG },
        { { 0, 7, 7 }, SGS_INVALID_OFFSET, INDEX },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        segment_kit kit;
        sgs_batch_table table;
        size_t taken;
        open_log(&kit, cases[i].offsets, 3, "");
        EXPECT_STATUS(take_all(&kit, &table, &taken), cases[i].status);
        EXPECT_TEXT(kit.err.file, cases[i].file);
        EXPECT_EQ_I64((int64_t)taken, 2);
        EXPECT_EQ_I64(segment_kit_file_size(&kit, SGS_FILE_INDEX), INDEX_BYTES);
        sgs_offset_index *index;
        EXPECT_OK(sgs_log_segment_offset_index(kit.segment, &index, &kit.err), &kit.err);
        EXPECT_EQ_I64(sgs_abstract_index_entries(&index->base), 1);
        EXPECT_EQ_I64(segment_kit_file_size(&kit, SGS_FILE_LOG), 3 * BATCH_BYTES);
        sgs_batch_table_deinit(&table);
        segment_kit_close(&kit);
    }
}

/* [SEG-41, LDR-24] segment.index.bytes was lowered since the segment was written */
TEST(an_index_without_room_fails)
{
    const int64_t offsets[] = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11 };
    segment_kit kit;
    sgs_batch_table table;
    size_t taken;
    open_log(&kit, offsets, 12, "");
    EXPECT_STATUS(take_all(&kit, &table, &taken), SGS_ILLEGAL_ARGUMENT); /* the time index: 6 slots, one reserved */
    EXPECT_TEXT(kit.err.file, TIMEINDEX);
    EXPECT_EQ_I64((int64_t)taken, 6);
    sgs_batch_table_deinit(&table);
    segment_kit_close(&kit);
}

/* [SEG-40] the first batch with the largest timestamp is the one that counts, and none does before there is one */
TEST(the_first_of_the_largest_timestamps_counts)
{
    const int64_t offsets[] = { 0, 1, 2, 3 };
    const int64_t timestamps[][4] = { { 50, 90, 90, 70 }, { 90, 90, 10, 20 } };
    static uint8_t file[4 * BATCH_BYTES];
    for (int first = 1; first >= 0; --first) {
        segment_kit kit;
        sgs_batch_table table;
        sgs_timestamp_offset largest;
        bool is_partial = false;
        size_t taken;
        int32_t cut;
        open_log(&kit, offsets, 4, "");
        sgs_log_segment_close_quietly(kit.segment);
        for (int i = 0; i < 4; ++i)
            segment_kit_batch(file + BATCH_BYTES * i, BATCH_BYTES, i, 1, timestamps[1 - first][i], BATCH_BYTES);
        temporary_write(&kit.directory, LOG, file, sizeof file);
        REQUIRE_OK(segment_kit_segment(&kit, 0, false), &kit.err);
        EXPECT_OK(sgs_log_segment_max_timestamp(kit.segment, &largest, &is_partial, &kit.err), &kit.err);
        EXPECT_OK(take_all(&kit, &table, &taken), &kit.err);
        EXPECT_OK(sgs_log_segment_end_recovery(kit.segment, sizeof file, &cut, &kit.err), &kit.err);
        EXPECT_OK(sgs_log_segment_max_timestamp(kit.segment, &largest, &is_partial, &kit.err), &kit.err);
        EXPECT_EQ_I64(largest.timestamp, 90);
        EXPECT_EQ_I64(largest.offset, first);
        EXPECT_OK(sgs_log_segment_begin_recovery(kit.segment, &kit.err), &kit.err);
        EXPECT_OK(sgs_log_segment_max_timestamp(kit.segment, &largest, &is_partial, &kit.err), &kit.err);
        EXPECT_EQ_I64(largest.timestamp, -1);
        EXPECT_EQ_I64(largest.offset, 0);
        sgs_batch_table_deinit(&table);
        segment_kit_close(&kit);
    }
}

/* [DUR-52] what cannot be written is told with its file */
TEST(an_error_names_the_file_that_could_not_be_written)
{
    const struct {
        const char *call;
        int nth;
        const char *file;
    } cases[] = {
        { "map", 1, INDEX },      { "map", 2, TIMEINDEX },      { "truncate", 1, INDEX },
        { "truncate", 3, INDEX }, { "truncate", 4, TIMEINDEX }, { "truncate", 2, TIMEINDEX },
    };
    const int64_t offsets[] = { 0, 1, 2 };
    const uint8_t entries[12] = { 0 };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        segment_kit kit;
        int32_t cut;
        open_log(&kit, offsets, 3, "");
        temporary_write(&kit.directory, INDEX, entries, 8);
        temporary_write(&kit.directory, TIMEINDEX, entries, 12);
        memory_env_fail(&kit.memory, cases[i].call, cases[i].nth, EIO);
        sgs_status status = sgs_log_segment_begin_recovery(kit.segment, &kit.err);
        if (status == SGS_OK)
            status = sgs_log_segment_end_recovery(kit.segment, 3 * BATCH_BYTES, &cut, &kit.err);
        EXPECT_TRUE(status != SGS_OK);
        EXPECT_TEXT(kit.err.file, cases[i].file);
        memory_env_heal(&kit.memory);
        sgs_log_segment_close_quietly(kit.segment);
        kit.segment = NULL;
        segment_kit_close(&kit);
    }
}

/* [SEG-40.1, OFX-2, TMX-2] nothing that they said counts any more */
TEST(what_the_old_indexes_said_is_forgotten)
{
    const uint8_t beyond[] = { 0, 0, 0, 99, 0, 0, 0, 100 };
    const uint8_t later[] = { 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 99 };
    const int64_t offsets[] = { 0, 1, 2, 3 };
    for (int count = 1; count <= 4; count += 3) {
        segment_kit kit;
        sgs_batch_table table;
        size_t taken;
        int32_t cut;
        open_log(&kit, offsets, count, "");
        temporary_write(&kit.directory, INDEX, beyond, sizeof beyond);
        temporary_write(&kit.directory, TIMEINDEX, later, sizeof later);
        EXPECT_OK(take_all(&kit, &table, &taken), &kit.err);
        EXPECT_EQ_I64(segment_kit_next_offset(&kit), count);
        EXPECT_EQ_I64(segment_kit_time_entries(&kit), count - 1);
        EXPECT_OK(sgs_log_segment_end_recovery(kit.segment, count * BATCH_BYTES, &cut, &kit.err), &kit.err);
        EXPECT_EQ_I64(segment_kit_time_entries(&kit), count == 1 ? 1 : count - 1);
        sgs_batch_table_deinit(&table);
        segment_kit_close(&kit);
    }
}

/* [SEG-40.2] entries lie more than the interval apart, the first of them from the beginning */
TEST(an_interval_is_counted_from_the_last_entry)
{
    const int64_t offsets[] = { 0, 1, 2, 3, 4, 5 };
    segment_kit kit;
    sgs_batch_table table;
    size_t taken;
    open_log(&kit, offsets, 6, "");
    kit.context.index_interval_bytes = BATCH_BYTES;
    EXPECT_OK(take_all(&kit, &table, &taken), &kit.err);
    EXPECT_EQ_I64(segment_kit_offset_entries(&kit), 2);
    segment_kit_entry_is(&kit, 0, 2, 2 * BATCH_BYTES);
    segment_kit_entry_is(&kit, 1, 4, 4 * BATCH_BYTES);
    sgs_batch_table_deinit(&table);
    segment_kit_close(&kit);
}

/* [SEG-40.3, TMX-4] it goes into the slot that is kept for it */
TEST(the_final_time_entry_needs_no_interval)
{
    const int64_t offsets[] = { 0, 1, 2 };
    segment_kit kit;
    sgs_batch_table table;
    size_t taken;
    int32_t cut;
    open_log(&kit, offsets, 3, "");
    kit.context.index_interval_bytes = 4096;
    kit.context.max_index_bytes = 12;
    EXPECT_OK(take_all(&kit, &table, &taken), &kit.err);
    EXPECT_EQ_I64(segment_kit_time_entries(&kit), 0);
    EXPECT_OK(sgs_log_segment_end_recovery(kit.segment, 3 * BATCH_BYTES, &cut, &kit.err), &kit.err);
    EXPECT_EQ_I64(segment_kit_file_size(&kit, SGS_FILE_TIMEINDEX), 12);
    segment_kit_time_entry_is(&kit, 0, 20, 2);
    sgs_batch_table_deinit(&table);
    segment_kit_close(&kit);
}

/* [SEG-40.3] */
TEST(a_log_without_a_good_batch_becomes_empty)
{
    const int64_t offsets[] = { 0 };
    segment_kit kit;
    int32_t cut = -1;
    open_log(&kit, offsets, 1, "");
    REQUIRE_OK(sgs_log_segment_begin_recovery(kit.segment, &kit.err), &kit.err);
    EXPECT_OK(sgs_log_segment_end_recovery(kit.segment, 0, &cut, &kit.err), &kit.err);
    EXPECT_EQ_I64(cut, BATCH_BYTES);
    EXPECT_EQ_I64(segment_kit_file_size(&kit, SGS_FILE_LOG), 0);
    EXPECT_EQ_I64(segment_kit_file_size(&kit, SGS_FILE_TIMEINDEX), 0);
    segment_kit_close(&kit);
}

TEST(no_end_outside_of_the_file)
{
    const int64_t offsets[] = { 0 };
    segment_kit kit;
    int32_t cut;
    open_log(&kit, offsets, 1, "");
    REQUIRE_OK(sgs_log_segment_begin_recovery(kit.segment, &kit.err), &kit.err);
    EXPECT_STATUS(sgs_log_segment_end_recovery(kit.segment, BATCH_BYTES + 1, &cut, &kit.err), SGS_ILLEGAL_ARGUMENT);
    EXPECT_STATUS(sgs_log_segment_end_recovery(kit.segment, -1, &cut, &kit.err), SGS_ILLEGAL_ARGUMENT);
    EXPECT_EQ_I64(segment_kit_file_size(&kit, SGS_FILE_LOG), BATCH_BYTES);
    segment_kit_close(&kit);
}

/* [LDR-29, LDR-34, IDX-2] what Kafka makes of an index that lies, and of bytes behind the last batch */
TEST(kafka_believes_an_index_and_fails_at_zeros)
{
    const int64_t offsets[] = { 0, 1, 2 };
    const uint8_t beyond[] = { 0, 0, 0, 99, 0, 0, 0, 100 };
    segment_kit kit;
    int64_t next;
    bool ends_clean;
    open_log(&kit, offsets, 3, "seventeen bytes !");
    temporary_write(&kit.directory, INDEX, beyond, sizeof beyond);
    EXPECT_OK(sgs_log_segment_read_next_offset(kit.segment, &next, &ends_clean, &kit.err), &kit.err);
    EXPECT_EQ_I64(next, 0);
    segment_kit_close(&kit);

    open_log(&kit, offsets, 3, "");
    uint8_t zeros[3 * BATCH_BYTES + 18] = { 0 };
    const size_t whole = 3 * BATCH_BYTES;
    for (int i = 0; i < 3; ++i)
        segment_kit_batch(zeros + BATCH_BYTES * i, BATCH_BYTES, offsets[i], 1, 10 * i, BATCH_BYTES);
    sgs_log_segment_close_quietly(kit.segment);
    for (size_t more = 17; more <= 18; ++more) {
        temporary_write(&kit.directory, LOG, zeros, whole + more);
        REQUIRE_OK(segment_kit_segment(&kit, 0, false), &kit.err);
        const sgs_status status = sgs_log_segment_read_next_offset(kit.segment, &next, &ends_clean, &kit.err);
        EXPECT_STATUS(status, more == 17 ? SGS_OK : SGS_CORRUPT_RECORD);
        if (more == 17) {
            EXPECT_EQ_I64(next, 3);
            sgs_log_segment_close_quietly(kit.segment);
        }
    }
    segment_kit_close(&kit);
}

TEST_MAIN()
