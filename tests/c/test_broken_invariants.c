/* A broken invariant of our own is told, also by the steps that lose nothing when anything else fails [DUR-44]: the indexes
 * come from the records, but who does not know what he does must not go on. */
#include <errno.h>

#include "segment_kit.h"
#include "test.h"

static void open_indexed(segment_kit *kit)
{
    segment_kit_open(kit);
    kit->context.index_interval_bytes = 0;
    REQUIRE_OK(segment_kit_segment(kit, 0, true), &kit->err);
    EXPECT_OK(segment_kit_append(kit, 0, 1, 0, 0), &kit->err);
}

static void expect_internal(const segment_kit *kit, sgs_status status, const char *message)
{
    EXPECT_STATUS(status, SGS_INTERNAL);
    EXPECT_TEXT(kit->err.message, message);
}

/* The bytes are in the file; the first entry of either index needs a block. */
TEST(an_append_tells_of_its_index_step)
{
    const char *const broken = "an invariant of segstore is broken in allocate_space: the test wants it";
    for (int nth = 1; nth <= 2; ++nth) {
        segment_kit kit;
        open_indexed(&kit);
        memory_env_fail(&kit.memory, "allocate_space", nth, MEMORY_ENV_BROKEN_INVARIANT);
        expect_internal(&kit, segment_kit_append(&kit, 1, 1, 1, 0), broken);
        EXPECT_EQ_I64(sgs_log_segment_size(kit.segment), (int64_t)2 * KIT_LEAST_BATCH_BYTES);
        EXPECT_EQ_I64(segment_kit_read_offset(&kit, 1), 1);
        segment_kit_close(&kit);
    }
}

/* A full disk ends the index alone [DUR-25]. */
TEST(a_full_disk_is_none)
{
    segment_kit kit;
    open_indexed(&kit);
    memory_env_fail_always(&kit.memory, "allocate_space", 1, ENOSPC);
    EXPECT_OK(segment_kit_append(&kit, 1, 1, 1, 0), &kit.err);
    EXPECT_OK(sgs_log_segment_on_become_inactive(kit.segment, &kit.err), &kit.err);
    memory_env_heal(&kit.memory);
    segment_kit_close(&kit);
}

/* The last entry of the time index; an index that is made anew; the cut to what is used. */
TEST(a_seal_tells_of_its_indexes)
{
    segment_kit kit;
    open_indexed(&kit);
    memory_env_fail(&kit.memory, "allocate_space", 1, MEMORY_ENV_BROKEN_INVARIANT);
    expect_internal(&kit, sgs_log_segment_on_become_inactive(kit.segment, &kit.err),
                    "an invariant of segstore is broken in allocate_space: the test wants it");
    EXPECT_OK(segment_kit_append(&kit, 1, 1, 1, 0), &kit.err);
    memory_env_fail(&kit.memory, "truncate", 1, MEMORY_ENV_BROKEN_INVARIANT);
    expect_internal(&kit, sgs_log_segment_on_become_inactive(kit.segment, &kit.err),
                    "an invariant of segstore is broken in truncate: the test wants it");
    segment_kit_close(&kit);

    open_indexed(&kit);
    memory_env_fail_always(&kit.memory, "allocate_space", 1, ENOSPC);
    EXPECT_OK(segment_kit_append(&kit, 1, 1, 1, 0), &kit.err);
    memory_env_heal(&kit.memory);
    memory_env_fail(&kit.memory, "allocate_space", 2, MEMORY_ENV_BROKEN_INVARIANT);
    expect_internal(&kit, sgs_log_segment_on_become_inactive(kit.segment, &kit.err),
                    "an invariant of segstore is broken in allocate_space: the test wants it");
    segment_kit_close(&kit);
}

TEST(a_flush_tells_of_its_indexes)
{
    segment_kit kit;
    open_indexed(&kit);
    EXPECT_OK(segment_kit_append(&kit, 1, 1, 1, 0), &kit.err);
    memory_env_fail(&kit.memory, "sync_mapping", 1, MEMORY_ENV_BROKEN_INVARIANT);
    expect_internal(&kit, segment_kit_flush(&kit, true),
                    "an invariant of segstore is broken in sync_mapping: the test wants it");
    segment_kit_close(&kit);
}

TEST(a_truncation_tells_of_its_indexes)
{
    segment_kit kit;
    int32_t bytes_cut;
    open_indexed(&kit);
    for (int i = 1; i < 9; ++i)
        EXPECT_OK(segment_kit_append(&kit, i, 1, i, 0), &kit.err);
    REQUIRE_OK(segment_kit_crash(&kit), &kit.err);
    EXPECT_EQ_I64(segment_kit_read_offset(&kit, 7), 7); /* the offset index is there, the other is not */
    memory_env_fail(&kit.memory, "map", 1, ENOMEM);
    EXPECT_OK(sgs_log_segment_truncate_to(kit.segment, 7, &bytes_cut, &kit.err), &kit.err); /* does without */
    EXPECT_EQ_I64(bytes_cut, (int64_t)2 * KIT_LEAST_BATCH_BYTES);
    memory_env_fail(&kit.memory, "map", 1, MEMORY_ENV_BROKEN_INVARIANT);
    expect_internal(&kit, sgs_log_segment_truncate_to(kit.segment, 5, &bytes_cut, &kit.err),
                    "an invariant of segstore is broken in map: the test wants it");
    segment_kit_close(&kit);
}

TEST_MAIN()
