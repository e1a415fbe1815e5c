/* What a crash leaves of a simulated disk: what was synced, and of the rest any pieces. */
#include "io/env_sim.h"

#include "test.h"

enum { SEEDS = 2000 };

static sgs_sim_disk *disk, *image;
static const sgs_env *env;
static int directory;
static sgs_error err;

static void begin(void)
{
    memset(&err, 0, sizeof err);
    image = NULL;
    REQUIRE_OK(sgs_sim_open(sgs_env_posix(), 1, &disk, &err), &err);
    env = sgs_sim_env(disk);
    REQUIRE_OK(env->open_directory(env, SGS_CWD, "/", &directory, &err), &err);
}

static void end(void)
{
    sgs_sim_close(image);
    sgs_sim_close(disk);
}

static int make_file(const char *name)
{
    int fd = -1;
    EXPECT_OK(env->open_file(env, directory, name, SGS_OPEN_CREATE, &fd, &err), &err);
    return fd;
}

static void write_byte(int fd, char byte, int64_t position, size_t count)
{
    uint8_t bytes[20000];
    memset(bytes, byte, sizeof bytes);
    const sgs_slice piece = { bytes, count };
    int64_t written;
    EXPECT_OK(env->write_at(env, fd, "file", &piece, 1, position, &written, &err), &err);
}

static void crash(int64_t effects, sgs_sim_fate fate, uint64_t seed)
{
    sgs_sim_close(image);
    image = NULL;
    const sgs_sim_crash how = { .effects = effects, .fate = fate, .seed = seed };
    REQUIRE_OK(sgs_sim_crash_image(disk, &how, 2, &image, &err), &err);
}

/* The file of the image; its size, or -1 when there is none. */
static int64_t left_of(const char *name, uint8_t *bytes, size_t room)
{
    const sgs_env *after = sgs_sim_env(image);
    int root = -1, fd = -1;
    size_t got = 0;
    EXPECT_OK(after->open_directory(after, SGS_CWD, "/", &root, &err), &err);
    if (after->open_file(after, root, name, SGS_OPEN_READ, &fd, &err) != SGS_OK)
        return -1;
    EXPECT_OK(after->read_at(after, fd, name, bytes, room, 0, &got, &err), &err);
    return (int64_t)got;
}

TEST(only_what_was_synced_outlives_the_worst_crash)
{
    begin();
    uint8_t bytes[100];
    const int fd = make_file("file");
    write_byte(fd, 'a', 0, 10);
    EXPECT_OK(env->sync_data(env, fd, "file", SGS_BARRIER(APPENDED_RECORDS), &err), &err);
    crash(-1, SGS_SIM_ALL_LOST, 0);
    EXPECT_EQ_I64(left_of("file", bytes, sizeof bytes), -1); /* the name was not */

    EXPECT_OK(env->sync_directory(env, directory, SGS_BARRIER(APPENDED_NAMES), &err), &err);
    write_byte(fd, 'b', 5, 10);
    crash(-1, SGS_SIM_ALL_LOST, 0);
    EXPECT_EQ_I64(left_of("file", bytes, sizeof bytes), 10);
    EXPECT_MEM(bytes, "aaaaaaaaaa", 10);
    crash(-1, SGS_SIM_ALL_KEPT, 0);
    EXPECT_EQ_I64(left_of("file", bytes, sizeof bytes), 15);
    EXPECT_MEM(bytes, "aaaaabbbbbbbbbb", 15);
    EXPECT_EQ_I64(sgs_sim_effects(image), 0);
    end();
}

TEST(the_power_may_be_cut_after_any_effect)
{
    begin();
    uint8_t bytes[100];
    const int fd = make_file("file");
    write_byte(fd, 'a', 0, 1);
    write_byte(fd, 'b', 1, 1);
    EXPECT_OK(env->truncate(env, fd, "file", 1, &err), &err);
    EXPECT_OK(env->unlink(env, directory, "file", &err), &err);
    static const int64_t sizes[] = { -1, 0, 1, 2, 1, -1 };
    for (int64_t effects = 0; effects <= 5; ++effects) {
        crash(effects, SGS_SIM_ALL_KEPT, 0);
        EXPECT_EQ_I64(left_of("file", bytes, sizeof bytes), sizes[effects]);
    }
    end();
}

TEST(each_block_and_the_size_go_their_own_ways)
{
    begin();
    static uint8_t bytes[20000];
    const int fd = make_file("file");
    EXPECT_OK(env->sync_directory(env, directory, SGS_BARRIER(APPENDED_NAMES), &err), &err);
    write_byte(fd, 'a', 0, 8192);
    EXPECT_OK(env->sync_data(env, fd, "file", SGS_BARRIER(APPENDED_RECORDS), &err), &err);
    write_byte(fd, 'b', 0, 8192);
    write_byte(fd, 'c', 4000, 8192);
    int sizes[2] = { 0, 0 }, mixed = 0, torn = 0, holes = 0;
    for (uint64_t seed = 0; seed < SEEDS; ++seed) {
        crash(-1, SGS_SIM_BY_SEED, seed);
        const int64_t size = left_of("file", bytes, sizeof bytes);
        REQUIRE_TRUE(size == 8192 || size == 12192);
        ++sizes[size == 12192];
        for (int64_t i = 0; i < 8192; ++i) /* a block is one of its three states */
            REQUIRE_TRUE(bytes[i] == 'a' || bytes[i] == 'b' || (bytes[i] == 'c' && i >= 4000));
        for (int64_t i = 512; i < 8192; i += 512)
            torn += bytes[i] != bytes[i - 512];
        mixed += bytes[0] != bytes[8191];
        holes += size == 12192 && bytes[12191] == '\0';
    }
    EXPECT_TRUE(sizes[0] > SEEDS / 10 && sizes[1] > SEEDS / 10);
    EXPECT_TRUE(mixed > SEEDS / 10 && torn > SEEDS / 10 && holes > SEEDS / 50);
    end();
}

TEST(old_bytes_may_come_back_behind_a_shrink_that_was_not_synced)
{
    /* [DUR-17] */
    begin();
    static uint8_t bytes[20000];
    const int fd = make_file("file");
    EXPECT_OK(env->sync_directory(env, directory, SGS_BARRIER(APPENDED_NAMES), &err), &err);
    write_byte(fd, 'a', 0, 8192);
    EXPECT_OK(env->sync_data(env, fd, "file", SGS_BARRIER(APPENDED_RECORDS), &err), &err);
    EXPECT_OK(env->truncate(env, fd, "file", 4096, &err), &err);
    write_byte(fd, 'b', 4096, 512);
    int behind_new = 0;
    for (uint64_t seed = 0; seed < SEEDS; ++seed) {
        crash(-1, SGS_SIM_BY_SEED, seed);
        const int64_t size = left_of("file", bytes, sizeof bytes);
        behind_new += size == 8192 && bytes[4096] == 'b' && bytes[8191] == 'a';
    }
    EXPECT_TRUE(behind_new > 0);

    EXPECT_OK(env->truncate(env, fd, "file", 4096, &err), &err);
    EXPECT_OK(env->sync_file(env, fd, "file", SGS_BARRIER(APPENDED_RECORDS), &err), &err);
    write_byte(fd, 'b', 4096, 512);
    for (uint64_t seed = 0; seed < SEEDS; ++seed) {
        crash(-1, SGS_SIM_BY_SEED, seed);
        EXPECT_TRUE(left_of("file", bytes, sizeof bytes) <= 4608);
    }
    end();
}

TEST(names_go_their_own_ways_and_a_rename_is_one_change)
{
    begin();
    uint8_t bytes[10];
    (void)make_file("old");
    (void)make_file("kept");
    EXPECT_OK(env->sync_directory(env, directory, SGS_BARRIER(APPENDED_NAMES), &err), &err);
    (void)make_file("made");
    EXPECT_OK(env->rename(env, directory, "old", "new", &err), &err);
    EXPECT_OK(env->unlink(env, directory, "kept", &err), &err);
    int states[2][2][2] = { 0 };
    for (uint64_t seed = 0; seed < SEEDS; ++seed) {
        crash(-1, SGS_SIM_BY_SEED, seed);
        const bool is_made = left_of("made", bytes, 1) >= 0, is_new = left_of("new", bytes, 1) >= 0;
        EXPECT_TRUE(is_new != (left_of("old", bytes, 1) >= 0));
        ++states[is_made][is_new][left_of("kept", bytes, 1) >= 0];
    }
    for (int i = 0; i < 8; ++i)
        EXPECT_TRUE(states[i & 1][i >> 1 & 1][i >> 2] > 0);

    EXPECT_OK(env->sync_directory(env, directory, SGS_BARRIER(APPENDED_NAMES), &err), &err);
    crash(-1, SGS_SIM_ALL_LOST, 0);
    EXPECT_TRUE(left_of("made", bytes, 1) == 0 && left_of("new", bytes, 1) == 0 && left_of("kept", bytes, 1) < 0);
    end();
}

TEST(stores_through_a_mapping_are_there_only_after_a_sync_of_the_file)
{
    begin();
    uint8_t bytes[16];
    const int fd = make_file("file");
    EXPECT_OK(env->sync_directory(env, directory, SGS_BARRIER(APPENDED_NAMES), &err), &err);
    void *address;
    EXPECT_OK(env->allocate_space(env, fd, "file", 10, &err), &err);
    EXPECT_OK(env->sync_file(env, fd, "file", SGS_BARRIER(APPENDED_RECORDS), &err), &err);
    REQUIRE_OK(env->map(env, fd, "file", 10, true, &address, &err), &err);
    memcpy(address, "ab", 2);
    EXPECT_OK(env->sync_mapping(env, address, 10, "file", &err), &err);
    crash(-1, SGS_SIM_ALL_LOST, 0);
    EXPECT_EQ_I64(left_of("file", bytes, sizeof bytes), 10);
    EXPECT_MEM(bytes, "\0\0", 2);
    const int64_t before = sgs_sim_effects(disk);
    memcpy((uint8_t *)address + 5, "cd", 2);
    EXPECT_OK(env->sync_file(env, fd, "file", SGS_BARRIER(APPENDED_RECORDS), &err), &err);
    memcpy(address, "xy", 2);

    crash(before, SGS_SIM_ALL_KEPT, 0); /* stored before the next effect */
    EXPECT_EQ_I64(left_of("file", bytes, sizeof bytes), 10);
    EXPECT_MEM(bytes, "ab\0\0\0cd", 7);
    crash(-1, SGS_SIM_ALL_LOST, 0);
    EXPECT_EQ_I64(left_of("file", bytes, sizeof bytes), 10);
    EXPECT_MEM(bytes, "ab\0\0\0cd", 7);
    crash(-1, SGS_SIM_ALL_KEPT, 0);
    EXPECT_EQ_I64(left_of("file", bytes, sizeof bytes), 10);
    EXPECT_MEM(bytes, "xy\0\0\0cd", 7);
    end();
}

TEST(a_killed_process_leaves_everything_and_nothing_more_synced)
{
    begin();
    uint8_t bytes[16];
    const int fd = make_file("file");
    write_byte(fd, 'a', 0, 4);
    EXPECT_OK(env->lock(env, fd, "file", SGS_LOCK_EXCLUSIVE, &err), &err);
    crash(-1, SGS_SIM_KILLED, 0);
    EXPECT_EQ_I64(left_of("file", bytes, sizeof bytes), 4);
    EXPECT_EQ_I64(sgs_sim_effects(image), 2);
    EXPECT_OK(env->lock(env, fd, "file", SGS_LOCK_EXCLUSIVE, &err), &err);

    sgs_sim_disk *killed = image;
    image = NULL;
    const sgs_env *after = sgs_sim_env(killed);
    int root, again;
    EXPECT_OK(after->open_directory(after, SGS_CWD, "/", &root, &err), &err);
    EXPECT_OK(after->open_file(after, root, "file", SGS_OPEN_WRITE, &again, &err), &err);
    EXPECT_OK(after->lock(after, again, "file", SGS_LOCK_EXCLUSIVE, &err), &err); /* the lock died with its holder */
    EXPECT_OK(after->sync_directory(after, root, SGS_BARRIER(APPENDED_NAMES), &err), &err);
    REQUIRE_OK(
        sgs_sim_crash_image(killed, &(sgs_sim_crash){ .effects = -1, .fate = SGS_SIM_ALL_LOST }, 3, &image, &err),
        &err);
    EXPECT_EQ_I64(left_of("file", bytes, sizeof bytes), 0);
    sgs_sim_close(killed);
    end();
}

/* [DUR-35] */
TEST(a_sync_that_fails_loses_what_it_should_have_written)
{
    begin();
    uint8_t bytes[100];
    const int fd = make_file("file");
    EXPECT_OK(env->sync_directory(env, directory, SGS_BARRIER(APPENDED_NAMES), &err), &err);
    write_byte(fd, 'a', 0, 10);
    sgs_sim_fail(disk, SGS_SIM_sync_data, 1, 5, false);
    const int64_t effects = sgs_sim_effects(disk);
    EXPECT_STATUS(env->sync_data(env, fd, "file", SGS_BARRIER(APPENDED_RECORDS), &err), SGS_FSYNC_FAILED);
    EXPECT_EQ_I64(sgs_sim_effects(disk), effects);
    size_t got = 0;
    EXPECT_OK(env->read_at(env, fd, "file", bytes, sizeof bytes, 0, &got, &err), &err);
    EXPECT_EQ_I64(got, 10); /* whoever reads sees it */

    write_byte(fd, 'b', 10, 5);
    EXPECT_OK(env->sync_data(env, fd, "file", SGS_BARRIER(APPENDED_RECORDS), &err), &err);
    crash(-1, SGS_SIM_ALL_KEPT, 0);
    EXPECT_EQ_I64(left_of("file", bytes, sizeof bytes), 15);
    EXPECT_MEM(bytes, "\0\0\0\0\0\0\0\0\0\0bbbbb", 15);

    write_byte(fd, 'a', 0, 10);
    EXPECT_OK(env->sync_data(env, fd, "file", SGS_BARRIER(APPENDED_RECORDS), &err), &err);
    crash(-1, SGS_SIM_ALL_LOST, 0);
    EXPECT_EQ_I64(left_of("file", bytes, sizeof bytes), 15);
    EXPECT_MEM(bytes, "aaaaaaaaaabbbbb", 15);
    end();
}

TEST(a_sync_that_is_ignored_did_nothing)
{
    /* [DUR-110] */
    begin();
    uint8_t bytes[16];
    const int fd = make_file("file");
    EXPECT_OK(env->sync_directory(env, directory, SGS_BARRIER(APPENDED_NAMES), &err), &err);
    write_byte(fd, 'a', 0, 4);
    EXPECT_OK(env->sync_data(env, fd, "file", SGS_BARRIER(APPENDED_RECORDS), &err), &err);
    const int64_t ignored[] = { sgs_sim_effects(disk) };
    const sgs_sim_crash how = { .effects = -1, .fate = SGS_SIM_ALL_LOST, .ignored = ignored, .ignored_count = 1 };
    REQUIRE_OK(sgs_sim_crash_image(disk, &how, 2, &image, &err), &err);
    EXPECT_EQ_I64(left_of("file", bytes, sizeof bytes), 0);
    end();
}

TEST(effects_have_names)
{
    begin();
    const int fd = make_file("from");
    write_byte(fd, 'a', 3, 4);
    EXPECT_OK(env->rename(env, directory, "from", "to", &err), &err);
    EXPECT_OK(env->sync_directory(env, directory, SGS_BARRIER(APPENDED_NAMES), &err), &err);
    EXPECT_EQ_I64(sgs_sim_effects(disk), 4);
    EXPECT_TEXT(sgs_sim_event_of(disk, 1).name, "from");
    const sgs_sim_event write = sgs_sim_event_of(disk, 2);
    EXPECT_TEXT(sgs_sim_call_name(write.call), "write_at");
    EXPECT_TRUE(write.position == 3 && write.bytes_count == 4);
    EXPECT_TEXT(sgs_sim_event_of(disk, 3).to, "to");
    EXPECT_TEXT(sgs_sim_call_name(sgs_sim_event_of(disk, 4).call), "sync_directory");
    end();
}

TEST(disks_that_hold_the_same_have_one_digest)
{
    begin();
    const uint64_t empty = sgs_sim_digest(disk);
    const int fd = make_file("one");
    write_byte(fd, 'a', 0, 20);
    (void)make_file("other");
    const uint64_t before = sgs_sim_digest(disk);
    EXPECT_TRUE(empty != before);
    crash(-1, SGS_SIM_ALL_KEPT, 0);
    EXPECT_EQ_U64(sgs_sim_digest(image), before);
    crash(-1, SGS_SIM_KILLED, 0);
    EXPECT_EQ_U64(sgs_sim_digest(image), before);
    crash(-1, SGS_SIM_ALL_LOST, 0); /* files without a name do not count */
    EXPECT_EQ_U64(sgs_sim_digest(image), empty);
    write_byte(fd, 'b', 19, 1);
    const uint64_t changed = sgs_sim_digest(disk);
    EXPECT_TRUE(changed != before);
    write_byte(fd, 'a', 19, 1);
    EXPECT_EQ_U64(sgs_sim_digest(disk), before);
    EXPECT_OK(env->rename(env, directory, "one", "two", &err), &err);
    EXPECT_TRUE(sgs_sim_digest(disk) != before);
    EXPECT_OK(env->rename(env, directory, "two", "one", &err), &err);
    EXPECT_OK(env->truncate(env, fd, "one", 19, &err), &err);
    EXPECT_TRUE(sgs_sim_digest(disk) != before);
    end();
}

TEST(a_digest_counts_directories_and_what_is_in_them)
{
    begin();
    const uint64_t empty = sgs_sim_digest(disk);
    int inner = -1, fd = -1;
    EXPECT_OK(env->make_directory(env, SGS_CWD, "inner", &err), &err);
    const uint64_t with_directory = sgs_sim_digest(disk);
    EXPECT_OK(env->open_directory(env, SGS_CWD, "inner", &inner, &err), &err);
    EXPECT_OK(env->open_file(env, inner, "file", SGS_OPEN_CREATE, &fd, &err), &err);
    const uint64_t with_file = sgs_sim_digest(disk);
    EXPECT_OK(env->rename(env, directory, "inner", "moved", &err), &err);
    const uint64_t moved = sgs_sim_digest(disk);
    EXPECT_TRUE(empty != with_directory && with_directory != with_file && with_file != moved && moved != empty);
    end();
}

TEST_MAIN()
