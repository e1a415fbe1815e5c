/* The real environment with a clock that is set by hand. */
#include "io/env_manual_clock.h"

#include "test.h"

TEST(the_wall_clock_stands_still_until_it_is_set)
{
    sgs_manual_clock clock;
    sgs_manual_clock_init(&clock, sgs_env_posix(), 1000);
    const sgs_env *env = &clock.env;
    EXPECT_EQ_I64(env->wall_clock_ms(env), 1000);

    sgs_manual_clock_set(&clock, -5);
    EXPECT_EQ_I64(env->wall_clock_ms(env), -5);
}

TEST(all_else_is_the_system_s)
{
    sgs_manual_clock clock;
    sgs_manual_clock_init(&clock, sgs_env_posix(), 0);
    const sgs_env *env = &clock.env;
    const int64_t before = sgs_env_posix()->monotonic_ns(sgs_env_posix());

    EXPECT_TRUE(env->monotonic_ns(env) >= before);
    EXPECT_TRUE(env->open_file == sgs_env_posix()->open_file);
    EXPECT_EQ_I64(env->process_id(env), sgs_env_posix()->process_id(sgs_env_posix()));
}

TEST_MAIN()
