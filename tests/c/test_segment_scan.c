/* A scan without checksums reads headers alone where batches are large, and sees what a scan with them sees [DUR-61]. */
#include <errno.h>

#include "segment_kit.h"
#include "test.h"

static sgs_scan_options in_order(void)
{
    sgs_scan_options options;
    sgs_scan_options_default(&options, SGS_SCAN_FILE);
    options.check_order = true;
    return options;
}

static sgs_scan_options order_only(void)
{
    sgs_scan_options options = in_order();
    options.check_crc = false;
    return options;
}

/* Both ways, and the calls that the one without checksums took. */
static int64_t scan_both_ways(segment_kit *kit, sgs_scan_stop stop)
{
    sgs_scan_options options = order_only();
    sgs_batch_table with, without;
    sgs_scan_result checked, unchecked;
    sgs_batch_table_init(&with, sgs_env_memory(&kit->memory.env));
    sgs_batch_table_init(&without, sgs_env_memory(&kit->memory.env));
    const int64_t calls = memory_env_calls(&kit->memory, "read_at");
    EXPECT_OK(sgs_log_segment_scan(kit->segment, &options, 0, -1, &without, &unchecked, &kit->err), &kit->err);
    const int64_t taken = memory_env_calls(&kit->memory, "read_at") - calls;
    options.check_crc = true;
    EXPECT_OK(sgs_log_segment_scan(kit->segment, &options, 0, -1, &with, &checked, &kit->err), &kit->err);
    EXPECT_EQ_I64(unchecked.stop, stop);
    EXPECT_EQ_I64(checked.stop, stop);
    EXPECT_EQ_I64(unchecked.valid_bytes, checked.valid_bytes);
    EXPECT_EQ_I64(unchecked.next_offset, checked.next_offset);
    EXPECT_EQ_I64(unchecked.max_timestamp, checked.max_timestamp);
    EXPECT_EQ_I64(sgs_batch_table_count(&without), sgs_batch_table_count(&with));
    if (sgs_batch_table_count(&without) == sgs_batch_table_count(&with))
        EXPECT_MEM(sgs_batch_table_rows(&without), sgs_batch_table_rows(&with),
                   sgs_batch_table_count(&with) * sizeof(sgs_batch_header));
    sgs_batch_table_deinit(&with);
    sgs_batch_table_deinit(&without);
    return taken;
}

static void fill(segment_kit *kit, const size_t *sizes, int sizes_count, int count)
{
    segment_kit_open(kit);
    REQUIRE_OK(segment_kit_segment(kit, 0, true), &kit->err);
    for (int i = 0; i < count; ++i)
        EXPECT_OK(segment_kit_append(kit, i, 1, i * 10, sizes[i % sizes_count]), &kit->err);
}

TEST(headers_of_large_batches_are_read_one_by_one)
{
    static const size_t sizes[] = { 20000 };
    segment_kit kit;
    fill(&kit, sizes, 1, 100);
    const int64_t calls = scan_both_ways(&kit, SGS_SCAN_COMPLETE);
    EXPECT_TRUE(calls > 90 && calls <= 100);
    segment_kit_close(&kit);
}

TEST(small_batches_are_read_together)
{
    static const size_t sizes[] = { 100, 0, 3000 };
    segment_kit kit;
    fill(&kit, sizes, 3, 3000); /* 3 MB */
    EXPECT_TRUE(scan_both_ways(&kit, SGS_SCAN_COMPLETE) <= 60);
    segment_kit_close(&kit);
}

TEST(batches_of_all_sizes_are_told_alike)
{
    static const size_t sizes[] = { 0, 100, 70000, 4096, 4157, 4158, 0, 65536, 65475, 200000, 100, 100, 9000 };
    for (int count = 1; count < 200; count = count * 2 + 1) {
        segment_kit kit;
        fill(&kit, sizes, 13, count);
        (void)scan_both_ways(&kit, SGS_SCAN_COMPLETE);
        segment_kit_close(&kit);
    }
}

TEST(a_batch_whose_end_is_missing_is_incomplete)
{
    static const size_t sizes[] = { 20000 };
    segment_kit kit;
    fill(&kit, sizes, 1, 10);
    sgs_scan_options options = order_only();
    sgs_scan_result result;
    EXPECT_OK(sgs_log_segment_scan(kit.segment, &options, 0, 199999, NULL, &result, &kit.err), &kit.err);
    EXPECT_EQ_I64(result.stop, SGS_SCAN_INCOMPLETE);
    EXPECT_EQ_I64(result.valid_bytes, 180000);
    segment_kit_close(&kit);
}

/* [DUR-60] advice to the system, of an open file */
TEST(the_cache_is_dropped_of_the_whole_file)
{
    static const size_t sizes[] = { 200 };
    segment_kit kit;
    fill(&kit, sizes, 1, 3);
    EXPECT_OK(sgs_log_segment_drop_cache(kit.segment, &kit.err), &kit.err);
    EXPECT_EQ_I64(memory_env_calls(&kit.memory, "drop_cache"), 1);
    EXPECT_EQ_I64(segment_kit_read_offset(&kit, 2), 2);
    sgs_log_segment_close_quietly(kit.segment);
    REQUIRE_OK(segment_kit_segment(&kit, 0, false), &kit.err);
    memory_env_fail(&kit.memory, "open_file", 1, EMFILE); /* the first use opens it */
    EXPECT_STATUS(sgs_log_segment_drop_cache(kit.segment, &kit.err), SGS_RESOURCE);
    EXPECT_EQ_I64(memory_env_calls(&kit.memory, "drop_cache"), 1);
    segment_kit_close(&kit);
}

/* [DUR-61] batches around and above the window, and the rows of all of them */
TEST(a_scan_takes_batches_of_any_size_through_a_bounded_window)
{
    const size_t sizes[] = { 100, 1 << 20, (1 << 20) - 1, 3 << 20, 5000, (2 << 20) + 7, 70, 900000, 900000, 900000 };
    enum { COUNT = sizeof sizes / sizeof sizes[0] };
    segment_kit kit;
    sgs_batch_table table;
    sgs_scan_result result;
    const sgs_scan_options options = in_order();
    segment_kit_open(&kit);
    REQUIRE_OK(segment_kit_segment(&kit, 0, true), &kit.err);
    int64_t total = 0;
    for (int i = 0; i < COUNT; ++i) {
        EXPECT_OK(segment_kit_append(&kit, i * 10, 10, i * 100, sizes[i] < 200 ? 0 : sizes[i]), &kit.err);
        total = sgs_log_segment_size(kit.segment);
    }
    sgs_batch_table_init(&table, sgs_env_memory(&kit.memory.env));
    EXPECT_OK(sgs_log_segment_scan(kit.segment, &options, 0, -1, &table, &result, &kit.err), &kit.err);
    EXPECT_EQ_I64(result.stop, SGS_SCAN_COMPLETE);
    EXPECT_EQ_I64(result.valid_bytes, total);
    EXPECT_EQ_I64(result.max_timestamp, (COUNT - 1) * 100 + 9);
    REQUIRE_EQ_I64(sgs_batch_table_count(&table), COUNT);
    const sgs_batch_header *rows = sgs_batch_table_rows(&table);
    for (int i = 1; i < COUNT; ++i)
        EXPECT_EQ_I64(rows[i].position, rows[i - 1].position + rows[i - 1].size_bytes);

    sgs_scan_options from_third = in_order();
    from_third.expected_offset = 20;
    EXPECT_OK(
        sgs_log_segment_scan(kit.segment, &from_third, rows[2].position, rows[5].position, NULL, &result, &kit.err),
        &kit.err);
    EXPECT_EQ_I64(result.batches_count, 3);
    EXPECT_EQ_I64(result.next_offset, 50);
    EXPECT_STATUS(sgs_log_segment_scan(kit.segment, &options, -1, -1, NULL, &result, &kit.err), SGS_ILLEGAL_ARGUMENT);
    EXPECT_STATUS(sgs_log_segment_scan(kit.segment, &options, 0, total + 1, NULL, &result, &kit.err),
                  SGS_ILLEGAL_ARGUMENT);
    sgs_batch_table_deinit(&table);
    segment_kit_close(&kit);
}

TEST_MAIN()
