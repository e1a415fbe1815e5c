/* The simulated disk when something is wrong: no memory of its own, descriptors that are closed or of the other kind, calls that
 * are planned to fail, no power. What is told is what env_posix tells, and nothing leaks. */
#include <errno.h>
#include <stdio.h>

#include "io/env_sim.h"
#include "memory_env.h"
#include "test.h"

static sgs_error err;

static sgs_status no_name(void *context, const char *name, sgs_error *ignored)
{
    (void)context;
    (void)name;
    (void)ignored;
    return SGS_OK;
}

/* Every call once, in an order that works. */
static sgs_status use_all(const sgs_env *env)
{
    static const uint8_t bytes[] = "some bytes of a file";
    const sgs_slice slice = { bytes, sizeof bytes };
    sgs_file_info info;
    int64_t written;
    size_t got;
    uint8_t back[8];
    bool is_network;
    void *address;
    int root = -1;
    int file = -1;
    SGS_TRY(env->open_directory(env, SGS_CWD, "/", &root, &err));
    sgs_status status = env->make_directory(env, root, "inside", &err);
    if (status == SGS_OK)
        status = env->make_directory(env, root, "inside/deep", &err);
    if (status == SGS_OK)
        status = env->open_file(env, root, "inside/file", SGS_OPEN_CREATE, &file, &err);
    for (int i = 0; i < 40 && status == SGS_OK; ++i)
        status = env->write_at(env, file, "file", &slice, 1, 300 * i, &written, &err);
    if (status == SGS_OK)
        status = env->truncate(env, file, "file", 9000, &err);
    if (status == SGS_OK)
        status = env->allocate_space(env, file, "file", 20000, &err);
    if (status == SGS_OK)
        status = env->sync_data(env, file, "file", SGS_BARRIER(APPENDED_RECORDS), &err);
    if (status == SGS_OK)
        status = env->map(env, file, "file", 8192, true, &address, &err);
    if (status == SGS_OK) {
        ((uint8_t *)address)[5000] = 7;
        status = env->sync_mapping(env, address, 8192, "file", &err);
        env->unmap(env, address, 8192);
    }
    if (status == SGS_OK)
        status = env->sync_file(env, file, "file", SGS_BARRIER(APPENDED_RECORDS), &err);
    if (status == SGS_OK)
        status = env->read_at(env, file, "file", back, sizeof back, 5000, &got, &err);
    EXPECT_TRUE(status != SGS_OK || (got == 8 && back[0] == 7));
    if (status == SGS_OK)
        status = env->file_info(env, file, "file", &info, &err);
    if (status == SGS_OK)
        status = env->file_info_at(env, root, "inside/file", &info, &err);
    if (status == SGS_OK)
        status = env->set_modified_at(env, root, "inside/file", 77, &err);
    if (status == SGS_OK)
        status = env->make_read_only_at(env, root, "inside/file", &err);
    if (status == SGS_OK)
        status = env->lock(env, file, "file", SGS_LOCK_EXCLUSIVE, &err);
    if (status == SGS_OK)
        status = env->unlock(env, file, "file", &err);
    if (status == SGS_OK)
        status = env->is_network_file_system(env, file, &is_network, &err);
    if (status == SGS_OK)
        status = env->rename(env, root, "inside/file", "inside/other", &err);
    if (status == SGS_OK)
        status = env->sync_directory(env, root, SGS_BARRIER(APPENDED_NAMES), &err);
    if (status == SGS_OK)
        status = env->list_directory(env, root, no_name, NULL, &err);
    if (status == SGS_OK)
        status = env->write_at(env, file, "file", &slice, 1, 30000, &written, &err);
    if (status == SGS_OK)
        status = env->unlink(env, root, "inside/other", &err);
    if (status == SGS_OK)
        status = env->remove_directory(env, root, "inside/deep", &err);
    sgs_error unused;
    if (file >= 0)
        (void)env->close(env, file, "file", &unused);
    (void)env->close(env, root, "/", &unused);
    return status;
}

/* What the next process finds, after the power was cut at any moment. */
static sgs_status look_at_images(sgs_sim_disk *disk)
{
    for (int fate = SGS_SIM_ALL_LOST; fate <= SGS_SIM_KILLED; ++fate)
        for (int64_t effects = -1; effects <= sgs_sim_effects(disk) + 1; effects += 3) {
            const sgs_sim_crash crash = { effects, (sgs_sim_fate)fate, 5, NULL, 0 };
            sgs_sim_disk *image;
            SGS_TRY(sgs_sim_crash_image(disk, &crash, 8, &image, &err));
            sgs_sim_close(image);
        }
    return SGS_OK;
}

static sgs_status use_and_crash(const sgs_env *base)
{
    sgs_sim_disk *disk;
    SGS_TRY(sgs_sim_open(base, 7, &disk, &err));
    sgs_status status = use_all(sgs_sim_env(disk));
    if (status == SGS_OK)
        status = look_at_images(disk);
    sgs_sim_close(disk);
    return status;
}

TEST(a_disk_without_memory_says_so)
{
    for (int for_ever = 0; for_ever < 2; ++for_ever)
        for (int64_t nth = 1;; nth += nth < 200 ? 1 : 13) {
            memory_env memory;
            memory_env_init(&memory, sgs_env_posix());
            if (for_ever == 1)
                memory_env_fail_always(&memory, "allocate", nth, ENOMEM);
            else
                memory_env_fail(&memory, "allocate", nth, ENOMEM);
            const sgs_status status = use_and_crash(&memory.env);
            const bool reached = memory_env_calls(&memory, "allocate") >= nth;
            const bool is_reported = status == SGS_RESOURCE || status == SGS_FSYNC_FAILED;
            /* once: a buffer that cannot double takes what it needs */
            if (!EXPECT_TRUE(reached ? is_reported || (status == SGS_OK && for_ever == 0) : status == SGS_OK))
                printf("    allocation %d: %s\n", (int)nth, sgs_status_name(status));
            EXPECT_TRUE(memory_env_is_balanced(&memory));
            if (!reached)
                break;
        }
}

/* Each call of the script fails, by its place among all and by its name. */
TEST(planned_failures_come_when_they_are_planned)
{
    for (int64_t nth = 1;; ++nth) {
        sgs_sim_disk *disk;
        REQUIRE_OK(sgs_sim_open(sgs_env_posix(), 7, &disk, &err), &err);
        sgs_sim_fail(disk, SGS_SIM_ANY_CALL, nth, EIO, false);
        const sgs_status status = use_all(sgs_sim_env(disk));
        const bool reached = sgs_sim_calls(disk, SGS_SIM_ANY_CALL) >= nth;
        EXPECT_TRUE(status != SGS_OK || !reached || nth >= sgs_sim_calls(disk, SGS_SIM_ANY_CALL) - 1);
        EXPECT_EQ_I64(sgs_sim_failed_calls(disk), reached);
        EXPECT_EQ_I64(sgs_sim_open_descriptors(disk), 0);
        EXPECT_OK(look_at_images(disk), &err);
        sgs_sim_close(disk);
        if (!reached)
            break;
    }
    for (int call = 0; call < SGS_SIM_ANY_CALL; ++call) {
        sgs_sim_disk *disk;
        REQUIRE_OK(sgs_sim_open(sgs_env_posix(), 7, &disk, &err), &err);
        sgs_sim_fail(disk, (sgs_sim_call)call, 1, call == SGS_SIM_lock ? EBADF : ENOSPC, true);
        const sgs_status status = use_all(sgs_sim_env(disk));
        EXPECT_TRUE(status != SGS_OK || call == SGS_SIM_close || call == SGS_SIM_send_file);
        sgs_sim_close(disk);
    }
}

TEST(a_full_disk_counts_as_a_failed_call)
{
    sgs_sim_disk *disk;
    REQUIRE_OK(sgs_sim_open(sgs_env_posix(), 7, &disk, &err), &err);
    const sgs_env *env = sgs_sim_env(disk);
    const sgs_slice slice = { (const uint8_t *)"0123456789", 10 };
    int64_t written = -1;
    int fd = -1;
    sgs_sim_set_room(disk, 15);
    EXPECT_OK(env->open_file(env, SGS_CWD, "file", SGS_OPEN_CREATE, &fd, &err), &err);
    EXPECT_OK(env->write_at(env, fd, "file", &slice, 1, 0, &written, &err), &err);
    EXPECT_EQ_I64(sgs_sim_failed_calls(disk), 0);
    EXPECT_STATUS(env->write_at(env, fd, "file", &slice, 1, 10, &written, &err), SGS_DISK_FULL);
    EXPECT_EQ_I64(written, 5);
    EXPECT_EQ_I64(sgs_sim_failed_calls(disk), 1);
    EXPECT_EQ_I64(sgs_sim_open_descriptors(disk), 1);
    EXPECT_OK(env->close(env, fd, "file", &err), &err);
    EXPECT_EQ_I64(sgs_sim_open_descriptors(disk), 0);
    sgs_sim_close(disk);
}

/* A failed open is one of what it was for: of a read, or of a write. */
TEST(an_open_that_fails_says_what_it_was_for_as_env_posix_does)
{
    static const struct {
        sgs_open_mode mode;
        sgs_status expected;
    } modes[] = { { SGS_OPEN_READ, SGS_READ_IO },
                  { SGS_OPEN_WRITE, SGS_WRITE_IO },
                  { SGS_OPEN_CREATE, SGS_WRITE_IO },
                  { SGS_OPEN_WRITE_OR_CREATE, SGS_WRITE_IO } };
    sgs_sim_disk *disk;
    REQUIRE_OK(sgs_sim_open(sgs_env_posix(), 7, &disk, &err), &err);
    const sgs_env *env = sgs_sim_env(disk);
    const sgs_env *posix = sgs_env_posix();
    int fd = -1;
    for (size_t n = 0; n < sizeof modes / sizeof modes[0]; ++n) {
        EXPECT_STATUS(posix->open_file(posix, 1 << 30, "a", modes[n].mode, &fd, &err), modes[n].expected); /* EBADF */
        EXPECT_STATUS(env->open_file(env, 1 << 30, "a", modes[n].mode, &fd, &err), modes[n].expected);
        sgs_sim_fail(disk, SGS_SIM_open_file, 1, EIO, true);
        EXPECT_STATUS(env->open_file(env, SGS_CWD, "a", modes[n].mode, &fd, &err), modes[n].expected);
        EXPECT_EQ_I64(err.os_error, EIO);
        sgs_sim_fail(disk, SGS_SIM_open_file, 1, ENOSPC, true);
        EXPECT_STATUS(env->open_file(env, SGS_CWD, "a", modes[n].mode, &fd, &err), SGS_DISK_FULL);
        sgs_sim_fail(disk, SGS_SIM_open_file, 0, 0, false);
    }
    sgs_sim_close(disk);
}

/* The power goes after each effect: all calls fail from then on. */
TEST(without_power_everything_fails)
{
    for (int64_t effects = 0;; ++effects) {
        sgs_sim_disk *disk;
        REQUIRE_OK(sgs_sim_open(sgs_env_posix(), 7, &disk, &err), &err);
        sgs_sim_cut_power_after(disk, effects);
        const sgs_status status = use_all(sgs_sim_env(disk));
        const bool is_off = sgs_sim_is_off(disk);
        EXPECT_EQ_I64(status == SGS_OK, !is_off);
        EXPECT_EQ_I64(sgs_sim_failed_calls(disk) > 0, is_off);
        EXPECT_OK(look_at_images(disk), &err);
        sgs_sim_close(disk);
        if (!is_off)
            break;
    }
}

TEST(closed_descriptors_are_refused_by_every_call)
{
    sgs_sim_disk *disk;
    REQUIRE_OK(sgs_sim_open(sgs_env_posix(), 7, &disk, &err), &err);
    const sgs_env *env = sgs_sim_env(disk);
    const int closed[] = { -1, 3, 1000 };
    int fd = -1;
    EXPECT_OK(env->open_directory(env, SGS_CWD, "/", &fd, &err), &err);
    EXPECT_OK(env->close(env, fd, "/", &err), &err);
    for (int i = 0; i < 3; ++i) {
        const int bad = i == 1 ? fd : closed[i];
        const sgs_slice slice = { (const uint8_t *)"x", 1 };
        sgs_file_info info;
        int64_t written;
        size_t got;
        char byte;
        void *address;
        int other;
        EXPECT_TRUE(env->open_directory(env, bad, "x", &other, &err) != SGS_OK);
        EXPECT_TRUE(env->make_directory(env, bad, "x", &err) != SGS_OK);
        EXPECT_TRUE(env->remove_directory(env, bad, "x", &err) != SGS_OK);
        EXPECT_TRUE(env->list_directory(env, bad, no_name, NULL, &err) != SGS_OK);
        EXPECT_TRUE(env->sync_directory(env, bad, SGS_BARRIER(APPENDED_NAMES), &err) != SGS_OK);
        EXPECT_TRUE(env->file_info_at(env, bad, "x", &info, &err) != SGS_OK);
        EXPECT_TRUE(env->set_modified_at(env, bad, "x", 1, &err) != SGS_OK);
        EXPECT_TRUE(env->make_read_only_at(env, bad, "x", &err) != SGS_OK);
        EXPECT_TRUE(env->rename(env, bad, "x", "y", &err) != SGS_OK);
        EXPECT_TRUE(env->unlink(env, bad, "x", &err) != SGS_OK);
        EXPECT_TRUE(env->open_file(env, bad, "x", SGS_OPEN_CREATE, &other, &err) != SGS_OK);
        EXPECT_TRUE(env->close(env, bad, "x", &err) == SGS_CLOSE_FAILED);
        EXPECT_TRUE(env->file_info(env, bad, "x", &info, &err) != SGS_OK);
        EXPECT_TRUE(env->read_at(env, bad, "x", &byte, 1, 0, &got, &err) != SGS_OK);
        EXPECT_TRUE(env->write_at(env, bad, "x", &slice, 1, 0, &written, &err) != SGS_OK);
        EXPECT_TRUE(env->truncate(env, bad, "x", 0, &err) != SGS_OK);
        EXPECT_TRUE(env->allocate_space(env, bad, "x", 1, &err) != SGS_OK);
        EXPECT_TRUE(env->sync_data(env, bad, "x", SGS_BARRIER(APPENDED_RECORDS), &err) == SGS_FSYNC_FAILED);
        EXPECT_TRUE(env->sync_file(env, bad, "x", SGS_BARRIER(APPENDED_RECORDS), &err) == SGS_FSYNC_FAILED);
        EXPECT_TRUE(env->map(env, bad, "x", 1, false, &address, &err) != SGS_OK);
        EXPECT_TRUE(env->lock(env, bad, "x", SGS_LOCK_SHARED, &err) != SGS_OK);
        EXPECT_TRUE(env->unlock(env, bad, "x", &err) != SGS_OK);
    }
    sgs_sim_close(disk);
}

TEST(names_and_kinds_that_do_not_fit_are_refused)
{
    sgs_sim_disk *disk;
    sgs_transfer transfer;
    REQUIRE_OK(sgs_sim_open(sgs_env_posix(), 7, &disk, &err), &err);
    const sgs_env *env = sgs_sim_env(disk);
    char long_name[400];
    char byte = 0;
    size_t got;
    int root = -1;
    int file = -1;
    int other = -1;
    void *address;
    memset(long_name, 'x', sizeof long_name);
    long_name[sizeof long_name - 1] = '\0';
    EXPECT_OK(env->open_directory(env, SGS_CWD, "/", &root, &err), &err);
    EXPECT_OK(env->make_directory(env, root, "a", &err), &err);
    EXPECT_OK(env->make_directory(env, root, "b", &err), &err);
    EXPECT_OK(env->make_directory(env, root, "b/c", &err), &err);
    EXPECT_OK(env->open_file(env, root, "file", SGS_OPEN_CREATE, &file, &err), &err);
    EXPECT_STATUS(env->open_directory(env, root, "", &other, &err), SGS_NOT_FOUND);
    EXPECT_STATUS(env->open_directory(env, root, "file", &other, &err), SGS_NOT_A_LOG);
    EXPECT_STATUS(env->open_directory(env, root, "file/below", &other, &err), SGS_NOT_A_LOG);
    EXPECT_STATUS(env->open_directory(env, root, "none/below", &other, &err), SGS_NOT_FOUND);
    EXPECT_STATUS(env->open_directory(env, root, long_name, &other, &err), SGS_ILLEGAL_ARGUMENT);
    EXPECT_STATUS(env->open_file(env, root, "a", SGS_OPEN_WRITE, &other, &err), SGS_NOT_A_LOG);
    EXPECT_STATUS(env->remove_directory(env, root, "file", &err), SGS_NOT_A_LOG);
    EXPECT_TRUE(env->remove_directory(env, root, "/", &err) != SGS_OK);
    EXPECT_STATUS(env->remove_directory(env, root, "b", &err), SGS_ILLEGAL_STATE);
    EXPECT_STATUS(env->unlink(env, root, "a", &err), SGS_NOT_A_LOG);
    EXPECT_STATUS(env->rename(env, root, "file", "a", &err), SGS_NOT_A_LOG);
    EXPECT_STATUS(env->rename(env, root, "a", "file", &err), SGS_NOT_A_LOG);
    EXPECT_STATUS(env->rename(env, root, "a", "b", &err), SGS_ILLEGAL_STATE);
    EXPECT_STATUS(env->rename(env, root, "a", "b/a", &err), SGS_WRITE_IO);
    EXPECT_OK(env->rename(env, root, "a", "a", &err), &err);
    EXPECT_STATUS(env->send_file(env, file, "file", 0, 1, 1, &transfer, &err), SGS_SEND_FAILED);
    EXPECT_TRUE(env->read_at(env, root, "/", &byte, 1, 0, &got, &err) != SGS_OK);
    EXPECT_TRUE(env->map(env, file, "file", (size_t)INT32_MAX + 1, true, &address, &err) != SGS_OK);
    EXPECT_OK(env->open_file(env, root, "file", SGS_OPEN_READ, &other, &err), &err);
    EXPECT_TRUE(env->lock(env, other, "file", SGS_LOCK_EXCLUSIVE, &err) != SGS_OK);
    EXPECT_OK(env->lock(env, other, "file", SGS_LOCK_SHARED, &err), &err);
    EXPECT_STATUS(env->lock(env, file, "file", SGS_LOCK_EXCLUSIVE, &err), SGS_LOCKED);
    EXPECT_OK(env->lock(env, file, "file", SGS_LOCK_SHARED, &err), &err);
    sgs_sim_set_wall_clock(disk, 1000);
    sgs_sim_set_wall_clock(disk, 500); /* back: the monotonic clock does not follow */
    EXPECT_EQ_I64(env->wall_clock_ms(env), 500);
    sgs_sim_close(disk);
}

TEST_MAIN()
