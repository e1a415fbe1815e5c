/* The list of barriers [DUR-110]: every one says what it is for. */
#include "io/barrier.h"

#include <string.h>

#include "test.h"

TEST(every_barrier_says_what_it_is_for)
{
    for (int number = 0; number < SGS_BARRIER_COUNT; ++number) {
        const sgs_barrier_text text = sgs_barrier_describe((sgs_barrier)number);
        EXPECT_TRUE(strlen(text.name) > 0 && strlen(text.without) > 0);
        EXPECT_TRUE(strncmp(text.rules, "DUR-", 4) == 0);
    }
}

TEST(a_file_has_two_and_that_of_its_name_follows)
{
    EXPECT_EQ_I64(SGS_BARRIER(RECOVERY_POINT_NAME), SGS_BARRIER(RECOVERY_POINT_CONTENT) + 1);
    EXPECT_TEXT(sgs_barrier_describe(SGS_BARRIER(RECOVERY_POINT_CONTENT)).name, "RECOVERY_POINT_CONTENT");
    EXPECT_TEXT(sgs_barrier_describe(SGS_BARRIER(RECOVERY_POINT_NAME)).name, "RECOVERY_POINT_NAME");
    EXPECT_EQ_I64(sgs_barrier_describe(SGS_BARRIER(CLEAN_MARKER_CONTENT)).kind, SGS_BARRIER_IS_WORK);
    EXPECT_EQ_I64(sgs_barrier_describe(SGS_BARRIER(APPENDED_RECORDS)).kind, SGS_BARRIER_IS_PROMISE);
}

TEST_MAIN()
