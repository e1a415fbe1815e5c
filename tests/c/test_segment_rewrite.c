/* What an unclean stop left is written again before anything builds on it [DUR-36]. */
#include <errno.h>

#include "segment_kit.h"
#include "test.h"

static const char LOG[] = "00000000000000000000.log";

TEST(a_rewrite_writes_the_same_bytes_again_and_syncs)
{
    static uint8_t before[1 << 18];
    static uint8_t after[1 << 18];
    segment_kit kit;
    segment_kit_open(&kit);
    segment_kit_fill(&kit, 2000, 100);
    EXPECT_EQ_I64(temporary_read(&kit.directory, LOG, before, sizeof before), 200000);
    const int64_t syncs = memory_env_calls(&kit.memory, "sync_data");
    EXPECT_OK(sgs_log_segment_rewrite(kit.segment, 100000, &kit.err), &kit.err);
    EXPECT_EQ_I64(memory_env_calls(&kit.memory, "sync_data"), syncs + 1);
    EXPECT_EQ_I64(temporary_read(&kit.directory, LOG, after, sizeof after), 200000);
    EXPECT_MEM(after, before, 200000);
    EXPECT_STATUS(sgs_log_segment_rewrite(kit.segment, 200001, &kit.err), SGS_ILLEGAL_ARGUMENT);
    const int64_t writes = memory_env_calls(&kit.memory, "write_at");
    EXPECT_OK(sgs_log_segment_rewrite(kit.segment, 200000, &kit.err), &kit.err);
    EXPECT_EQ_I64(memory_env_calls(&kit.memory, "write_at"), writes); /* there is nothing */
    memory_env_fail(&kit.memory, "write_at", 1, EIO);
    EXPECT_STATUS(sgs_log_segment_rewrite(kit.segment, 0, &kit.err), SGS_WRITE_IO);
    EXPECT_TEXT(kit.err.file, LOG);
    segment_kit_close(&kit);
}

/* [DUR-36] in windows of 1 MiB; the indexes are nobody's business here */
TEST(a_rewrite_of_a_large_segment_writes_each_byte_once)
{
    enum { BATCHES = 25, SIZE = 100 * 1024 };
    static uint8_t before[BATCHES * SIZE];
    static uint8_t after[BATCHES * SIZE];
    segment_kit kit;
    segment_kit_open(&kit);
    kit.context.segment_bytes = sizeof before;
    segment_kit_fill(&kit, BATCHES, SIZE);
    temporary_read(&kit.directory, LOG, before, sizeof before);
    const int64_t writes = memory_env_calls(&kit.memory, "write_at");
    const int64_t data_syncs = memory_env_calls(&kit.memory, "sync_data");
    const int64_t other_syncs =
        memory_env_calls(&kit.memory, "sync_mapping") + memory_env_calls(&kit.memory, "sync_file");
    EXPECT_OK(sgs_log_segment_rewrite(kit.segment, SIZE, &kit.err), &kit.err);
    EXPECT_EQ_I64(memory_env_calls(&kit.memory, "write_at"), writes + 3);
    EXPECT_EQ_I64(memory_env_calls(&kit.memory, "sync_data"), data_syncs + 1);
    EXPECT_EQ_I64(memory_env_calls(&kit.memory, "sync_mapping") + memory_env_calls(&kit.memory, "sync_file"),
                  other_syncs);
    EXPECT_EQ_I64(temporary_read(&kit.directory, LOG, after, sizeof after), (int64_t)sizeof before);
    EXPECT_MEM(after, before, sizeof before);
    segment_kit_close(&kit);
}

TEST_MAIN()
