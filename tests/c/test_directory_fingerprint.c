/* One number for a directory: another one when anything of it changes, whatever the clock says. */
#include "io/directory_fingerprint.h"

#include <errno.h>

#include "io/env_sim.h"
#include "memory_env.h"
#include "test.h"

enum { WALL_CLOCK_MS = 1000, LARGE = SGS_FINGERPRINT_CONTENT_BYTES + 1 };

static sgs_sim_disk *disk;
static memory_env memory;
static const sgs_env *env;
static int directory;
static sgs_error err;

static void begin(void)
{
    REQUIRE_OK(sgs_sim_open(sgs_env_posix(), 7, &disk, &err), &err);
    sgs_sim_set_wall_clock(disk, WALL_CLOCK_MS);
    memory_env_init(&memory, sgs_sim_env(disk));
    env = &memory.env;
    REQUIRE_OK(env->open_directory(env, SGS_CWD, "/", &directory, &err), &err);
}

static void end(void)
{
    EXPECT_OK(env->close(env, directory, "/", &err), &err);
    EXPECT_TRUE(memory_env_is_balanced(&memory));
    sgs_sim_close(disk);
}

static void put(const char *name, uint8_t first, size_t size)
{
    static uint8_t content[LARGE];
    const sgs_slice slice = { content, size };
    int64_t written = 0;
    int fd = -1;
    content[0] = first;
    REQUIRE_OK(env->open_file(env, directory, name, SGS_OPEN_WRITE_OR_CREATE, &fd, &err), &err);
    REQUIRE_OK(env->write_at(env, fd, name, &slice, 1, 0, &written, &err), &err);
    REQUIRE_OK(env->close(env, fd, name, &err), &err);
}

static int64_t fingerprint(void)
{
    int64_t found = -1;
    EXPECT_OK(sgs_directory_fingerprint(env, directory, "marker", &found, &err), &err);
    EXPECT_TRUE(found >= 0);
    return found;
}

TEST(each_name_counts_but_the_one_that_is_left_out)
{
    begin();
    EXPECT_EQ_I64(fingerprint(), 0);
    put("marker", 'm', 3);
    EXPECT_EQ_I64(fingerprint(), 0);
    put("a", 'a', 3);
    const int64_t one = fingerprint();
    put("b", 'b', 3);
    const int64_t both = fingerprint();
    EXPECT_TRUE(one != 0 && both != one);
    EXPECT_OK(env->rename(env, directory, "b", "c", &err), &err);
    EXPECT_TRUE(fingerprint() != both && fingerprint() != one);
    EXPECT_OK(env->rename(env, directory, "c", "b", &err), &err);
    EXPECT_EQ_I64(fingerprint(), both);
    EXPECT_OK(env->unlink(env, directory, "b", &err), &err);
    EXPECT_EQ_I64(fingerprint(), one);
    EXPECT_OK(env->make_directory(env, directory, "d", &err), &err);
    EXPECT_TRUE(fingerprint() != one);
    end();
}

TEST(a_small_file_that_changes_while_the_clock_stands_still_shows)
{
    begin();
    put("a", 'a', SGS_FINGERPRINT_CONTENT_BYTES);
    const int64_t before = fingerprint();
    put("a", 'b', SGS_FINGERPRINT_CONTENT_BYTES);
    EXPECT_TRUE(fingerprint() != before);
    put("a", 'a', SGS_FINGERPRINT_CONTENT_BYTES);
    EXPECT_EQ_I64(fingerprint(), before);
    put("a", 'a', LARGE);
    EXPECT_TRUE(fingerprint() != before);
    end();
}

TEST(of_a_large_file_the_time_counts_and_not_the_bytes)
{
    begin();
    put("a", 'a', LARGE);
    const int64_t before = fingerprint();
    const int64_t reads = memory_env_calls(&memory, "read_at");
    put("a", 'b', LARGE);
    EXPECT_EQ_I64(fingerprint(), before);
    EXPECT_EQ_I64(memory_env_calls(&memory, "read_at"), reads);
    sgs_sim_set_wall_clock(disk, WALL_CLOCK_MS + 1);
    put("a", 'a', LARGE);
    EXPECT_TRUE(fingerprint() != before);
    end();
}

TEST(a_call_that_fails_is_an_error_and_leaves_nothing_open)
{
    static const char *const calls[] = { "list_directory", "allocate", "file_info_at", "open_file", "read_at" };
    begin();
    put("a", 'a', 3);
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; ++i) {
        int64_t found = -7;
        memory_env_fail_always(&memory, calls[i], 1, EIO);
        const sgs_status status = sgs_directory_fingerprint(env, directory, "marker", &found, &err);
        EXPECT_TRUE(status != SGS_OK && found == -7);
        memory_env_heal(&memory);
    }
    end();
}

TEST_MAIN()
