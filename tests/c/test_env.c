/* What every environment shares: its allocator as base/ and record/ take it. */
#include "io/env.h"

#include <errno.h>

#include "memory_env.h"
#include "test.h"

TEST(the_allocator_of_an_environment_is_its_own)
{
    memory_env memory;
    memory_env_init(&memory, sgs_env_posix());
    const sgs_memory allocator = sgs_env_memory(&memory.env);

    uint8_t *block = allocator.reallocate(allocator.context, NULL, 10);
    REQUIRE_TRUE(block != NULL);
    block[9] = 7;
    block = allocator.reallocate(allocator.context, block, 100000);
    REQUIRE_TRUE(block != NULL);
    EXPECT_EQ_I64(block[9], 7);
    EXPECT_EQ_I64(memory.live_allocations, 1);
    memory_env_fail(&memory, "allocate", 1, ENOMEM);
    EXPECT_TRUE(allocator.reallocate(allocator.context, block, 200000) == NULL);
    allocator.release(allocator.context, block);

    EXPECT_EQ_I64(memory_env_calls(&memory, "allocate"), 3);
    EXPECT_TRUE(memory_env_is_balanced(&memory));
}

TEST(an_empty_block_is_a_block)
{
    const sgs_env *env = sgs_env_posix();
    void *block = env->allocate(env, 0);
    EXPECT_TRUE(block != NULL);
    block = env->reallocate(env, block, 0);
    EXPECT_TRUE(block != NULL);
    env->release(env, block);
    env->release(env, NULL);
}

TEST_MAIN()
