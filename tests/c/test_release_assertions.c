/* What an assertion is in a wheel, where nothing aborts: an error that ends writing [DUR-43, DUR-44]. */
#undef SGS_ASSERTIONS
#include "base/status.h"

#include "test.h"

static sgs_status check_number(int number, int *seen, sgs_error *err)
{
    SGS_ASSERT(number == 7, err);
    *seen = number;
    return SGS_OK;
}

TEST(an_assertion_that_fails_is_an_internal_error)
{
    sgs_error err;
    int seen = 0;

    EXPECT_STATUS(check_number(7, &seen, &err), SGS_OK);
    EXPECT_EQ_I64(seen, 7);
    EXPECT_STATUS(check_number(8, &seen, &err), SGS_INTERNAL);

    EXPECT_EQ_I64(seen, 7);
    EXPECT_STATUS(err.status, SGS_INTERNAL);
    EXPECT_TEXT(err.message, "an invariant of segstore is broken in check_number: number == 7");
    EXPECT_TEXT(err.file, "");
    EXPECT_EQ_I64(err.position, -1);
}

TEST(what_a_caller_has_checked_is_not_checked_again)
{
    int evaluated = 0;
    SGS_EXPECT(++evaluated > 1);
    EXPECT_EQ_I64(evaluated, 0);
}

TEST_MAIN()
