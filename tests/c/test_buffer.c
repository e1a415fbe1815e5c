/* The growable buffer, with and without memory. */
#include "base/buffer.h"

#include <errno.h>

#include "memory_env.h"
#include "test.h"

typedef struct fixture {
    memory_env memory;
    sgs_buffer buffer;
    sgs_error err;
} fixture;

static void begin(fixture *f)
{
    memory_env_init(&f->memory, sgs_env_posix());
    sgs_buffer_init(&f->buffer, sgs_env_memory(&f->memory.env));
}

static void end(fixture *f)
{
    sgs_buffer_deinit(&f->buffer);
    EXPECT_TRUE(memory_env_is_balanced(&f->memory));
    EXPECT_TRUE(f->buffer.data == NULL && f->buffer.size == 0 && f->buffer.capacity == 0);
}

TEST(what_was_appended_is_there)
{
    fixture f;
    begin(&f);
    for (unsigned i = 0; i < 1000; ++i) {
        const uint8_t byte = (uint8_t)i;
        REQUIRE_OK(sgs_buffer_append(&f.buffer, &byte, 1, &f.err), &f.err);
    }
    REQUIRE_OK(sgs_buffer_append(&f.buffer, "tail", 4, &f.err), &f.err);
    EXPECT_EQ_I64(f.buffer.size, 1004);
    for (unsigned i = 0; i < 1000; ++i)
        EXPECT_EQ_I64(f.buffer.data[i], (uint8_t)i);
    EXPECT_MEM(f.buffer.data + 1000, "tail", 4);
    end(&f);
}

TEST(growing_doubles_so_that_appends_are_cheap)
{
    fixture f;
    begin(&f);
    for (int i = 0; i < 100000; ++i)
        REQUIRE_OK(sgs_buffer_append(&f.buffer, "x", 1, &f.err), &f.err);
    EXPECT_TRUE(memory_env_calls(&f.memory, "allocate") < 20);
    end(&f);
}

TEST(nothing_is_appended_from_nowhere)
{
    fixture f;
    begin(&f);
    EXPECT_OK(sgs_buffer_append(&f.buffer, NULL, 0, &f.err), &f.err);
    EXPECT_OK(sgs_buffer_reserve(&f.buffer, 0, &f.err), &f.err);
    EXPECT_EQ_I64(memory_env_calls(&f.memory, "allocate"), 0);
    end(&f);
}

TEST(reserved_room_is_used_without_another_allocation)
{
    fixture f;
    begin(&f);
    REQUIRE_OK(sgs_buffer_reserve(&f.buffer, 1000, &f.err), &f.err);
    const uint8_t *before = f.buffer.data;
    const uint8_t bytes[1000] = { 1 };
    EXPECT_OK(sgs_buffer_append(&f.buffer, bytes, sizeof bytes, &f.err), &f.err);
    EXPECT_TRUE(f.buffer.data == before);
    sgs_buffer_clear(&f.buffer);
    EXPECT_OK(sgs_buffer_append(&f.buffer, bytes, sizeof bytes, &f.err), &f.err);
    EXPECT_TRUE(f.buffer.data == before && f.buffer.size == 1000);
    EXPECT_EQ_I64(memory_env_calls(&f.memory, "allocate"), 1);
    end(&f);
}

TEST(without_memory_the_contents_stay)
{
    /* [DUR-31] */
    fixture f;
    begin(&f);
    REQUIRE_OK(sgs_buffer_append(&f.buffer, "kept", 4, &f.err), &f.err);
    memory_env_fail_always(&f.memory, "allocate", 1, ENOMEM);
    EXPECT_STATUS(sgs_buffer_reserve(&f.buffer, 1 << 20, &f.err), SGS_RESOURCE);
    EXPECT_STATUS(f.err.status, SGS_RESOURCE);
    EXPECT_EQ_I64(f.buffer.size, 4);
    EXPECT_MEM(f.buffer.data, "kept", 4);
    end(&f);
}

TEST(when_doubling_fails_the_exact_size_is_tried)
{
    fixture f;
    begin(&f);
    REQUIRE_OK(sgs_buffer_reserve(&f.buffer, 1000, &f.err), &f.err);
    memory_env_fail(&f.memory, "allocate", 1, ENOMEM);
    EXPECT_OK(sgs_buffer_reserve(&f.buffer, 1001, &f.err), &f.err);
    EXPECT_EQ_I64(f.buffer.capacity, 1001);
    end(&f);
}

TEST(sizes_do_not_overflow)
{
    fixture f;
    begin(&f);
    REQUIRE_OK(sgs_buffer_append(&f.buffer, "1234", 4, &f.err), &f.err);
    const int64_t calls = memory_env_calls(&f.memory, "allocate");
    EXPECT_STATUS(sgs_buffer_reserve(&f.buffer, SIZE_MAX, &f.err), SGS_RESOURCE);
    EXPECT_STATUS(sgs_buffer_reserve(&f.buffer, SIZE_MAX - 3, &f.err), SGS_RESOURCE);
    EXPECT_EQ_I64(memory_env_calls(&f.memory, "allocate"), calls);
    EXPECT_EQ_I64(f.buffer.size, 4);
    end(&f);
}

TEST(taken_memory_belongs_to_the_taker)
{
    fixture f;
    begin(&f);
    REQUIRE_OK(sgs_buffer_append(&f.buffer, "mine", 4, &f.err), &f.err);
    uint8_t *taken = sgs_buffer_take(&f.buffer);
    EXPECT_MEM(taken, "mine", 4);
    EXPECT_TRUE(f.buffer.data == NULL && f.buffer.size == 0 && f.buffer.capacity == 0);
    EXPECT_OK(sgs_buffer_append(&f.buffer, "new", 3, &f.err), &f.err);
    f.buffer.memory.release(f.buffer.memory.context, taken);
    end(&f);
}

/* BufferSupplierTest.testGrowableBuffer: the scratch buffers of readers and validators are used again and again. */
TEST(a_cleared_buffer_gives_its_memory_again_until_more_is_wanted)
{
    fixture f;
    begin(&f);
    REQUIRE_OK(sgs_buffer_reserve(&f.buffer, 1024, &f.err), &f.err);
    const uint8_t *const memory = f.buffer.data;
    f.buffer.size = 1024;
    EXPECT_EQ_I64(f.buffer.capacity, 1024);

    sgs_buffer_clear(&f.buffer);
    REQUIRE_OK(sgs_buffer_reserve(&f.buffer, 512, &f.err), &f.err);
    EXPECT_TRUE(f.buffer.data == memory && f.buffer.size == 0);
    EXPECT_EQ_I64(memory_env_calls(&f.memory, "allocate"), 1);

    sgs_buffer_clear(&f.buffer);
    REQUIRE_OK(sgs_buffer_reserve(&f.buffer, 2048, &f.err), &f.err);
    EXPECT_EQ_I64(f.buffer.capacity, 2048);
    EXPECT_EQ_I64(f.buffer.size, 0);
    EXPECT_EQ_I64(memory_env_calls(&f.memory, "allocate"), 2);
    end(&f);
}

TEST_MAIN()
