/* A sync of a .log that fails tells the next open [DUR-35, DUR-36]. */
#include <errno.h>

#include "segment_kit.h"
#include "test.h"

/* [DUR-36] whichever sync of the .log it was; not in the conformance profile [DUR-62] */
TEST(a_sync_that_failed_leaves_a_mark)
{
    for (int i = 0; i < 4; ++i) {
        segment_kit kit;
        int32_t bytes_cut;
        segment_kit_open(&kit);
        kit.context.kafka_profile = i == 3;
        REQUIRE_OK(segment_kit_segment(&kit, 0, true), &kit.err);
        EXPECT_OK(segment_kit_append(&kit, 0, 3, 7, 0), &kit.err);
        EXPECT_TRUE(!temporary_has(&kit.directory, SGS_SYNC_FAILED_MARK));
        memory_env_fail(&kit.memory, i == 1 ? "sync_file" : "sync_data", 1, EIO);
        if (i == 1)
            EXPECT_STATUS(sgs_log_segment_truncate_to(kit.segment, 0, &bytes_cut, &kit.err), SGS_FSYNC_FAILED);
        else if (i == 2)
            EXPECT_STATUS(sgs_log_segment_rewrite(kit.segment, 0, &kit.err), SGS_FSYNC_FAILED);
        else
            EXPECT_STATUS(segment_kit_flush(&kit, false), SGS_FSYNC_FAILED);
        EXPECT_TRUE(temporary_has(&kit.directory, SGS_SYNC_FAILED_MARK) == (i != 3));
        segment_kit_close(&kit);
    }
}

TEST_MAIN()
