/* The simulated disk as an environment: what env_posix does with files, names and locks, it does too. */
#include "io/env_sim.h"

#include <errno.h>

#include "memory_env.h"
#include "test.h"

static sgs_sim_disk *disk;
static const sgs_env *env;
static int directory;
static sgs_error err;

static void begin(void)
{
    memset(&err, 0, sizeof err);
    REQUIRE_OK(sgs_sim_open(sgs_env_posix(), 7, &disk, &err), &err);
    env = sgs_sim_env(disk);
    REQUIRE_OK(env->open_directory(env, SGS_CWD, "/", &directory, &err), &err);
}

static void end(void) { sgs_sim_close(disk); }

static int open_as(const char *name, sgs_open_mode mode)
{
    int fd = -1;
    EXPECT_OK(env->open_file(env, directory, name, mode, &fd, &err), &err);
    return fd;
}

static void write_text(int fd, const char *text, int64_t position)
{
    const sgs_slice slices[2] = { { (const uint8_t *)text, 1 }, { (const uint8_t *)text + 1, strlen(text) - 1 } };
    int64_t written = -1;
    REQUIRE_OK(env->write_at(env, fd, "file", slices, 2, position, &written, &err), &err);
    EXPECT_EQ_I64(written, (int64_t)strlen(text));
}

static const char *read_text(int fd, int64_t position)
{
    static char text[64];
    size_t got = 0;
    EXPECT_OK(env->read_at(env, fd, "file", text, sizeof text - 1, position, &got, &err), &err);
    text[got] = '\0';
    return text;
}

TEST(bytes_and_sizes_of_a_file)
{
    begin();
    const int fd = open_as("file", SGS_OPEN_CREATE);
    write_text(fd, "0123456789", 0);
    write_text(fd, "ab", 4);
    EXPECT_TEXT(read_text(fd, 0), "0123ab6789");
    EXPECT_TEXT(read_text(fd, 8), "89");
    EXPECT_TEXT(read_text(fd, 100), "");

    sgs_file_info info;
    EXPECT_OK(env->truncate(env, fd, "file", 3, &err), &err);
    EXPECT_OK(env->allocate_space(env, fd, "file", 6, &err), &err);
    EXPECT_OK(env->allocate_space(env, fd, "file", 2, &err), &err);
    EXPECT_OK(env->file_info(env, fd, "file", &info, &err), &err);
    EXPECT_EQ_I64(info.size, 6);
    EXPECT_EQ_I64((int64_t)info.device, 7);
    EXPECT_TRUE(info.is_regular && !info.is_directory);
    write_text(fd, "xy", 5); /* what lay behind the end is not seen again */
    char bytes[7];
    size_t got;
    EXPECT_OK(env->read_at(env, fd, "file", bytes, 7, 0, &got, &err), &err);
    EXPECT_TRUE(got == 7 && memcmp(bytes, "012\0\0xy", 7) == 0);
    EXPECT_STATUS(env->truncate(env, fd, "file", -1, &err), SGS_WRITE_IO);
    end();
}

TEST(modes_of_opening)
{
    begin();
    int fd = -1;
    EXPECT_STATUS(env->open_file(env, directory, "file", SGS_OPEN_READ, &fd, &err), SGS_NOT_FOUND);
    EXPECT_STATUS(env->open_file(env, directory, "file", SGS_OPEN_WRITE, &fd, &err), SGS_NOT_FOUND);
    EXPECT_TEXT(err.file, "file");
    const int made = open_as("file", SGS_OPEN_WRITE_OR_CREATE);
    write_text(made, "kept", 0);
    EXPECT_STATUS(env->open_file(env, directory, "file", SGS_OPEN_CREATE, &fd, &err), SGS_ALREADY_EXISTS);
    EXPECT_TEXT(read_text(open_as("file", SGS_OPEN_WRITE_OR_CREATE), 0), "kept");

    const int reading = open_as("file", SGS_OPEN_READ);
    const sgs_slice piece = { (const uint8_t *)"x", 1 };
    int64_t written;
    EXPECT_STATUS(env->write_at(env, reading, "file", &piece, 1, 0, &written, &err), SGS_WRITE_IO);
    EXPECT_OK(env->close(env, reading, "file", &err), &err);
    EXPECT_STATUS(env->close(env, reading, "file", &err), SGS_CLOSE_FAILED);
    EXPECT_STATUS(env->sync_file(env, reading, "file", SGS_BARRIER(APPENDED_RECORDS), &err), SGS_FSYNC_FAILED);
    EXPECT_OK(env->make_directory(env, directory, "inner", &err), &err);
    EXPECT_STATUS(env->open_file(env, directory, "inner", SGS_OPEN_READ, &fd, &err), SGS_NOT_A_LOG);
    EXPECT_EQ_I64(fd, -1);
    end();
}

TEST(an_unlinked_file_lives_on_under_its_descriptor)
{
    begin();
    const int fd = open_as("file", SGS_OPEN_CREATE);
    EXPECT_OK(env->unlink(env, directory, "file", &err), &err);
    write_text(fd, "text", 0);
    EXPECT_TEXT(read_text(fd, 0), "text");
    sgs_file_info info;
    EXPECT_STATUS(env->file_info_at(env, directory, "file", &info, &err), SGS_NOT_FOUND);
    EXPECT_STATUS(env->unlink(env, directory, "file", &err), SGS_NOT_FOUND);
    end();
}

TEST(a_rename_replaces_what_had_the_name)
{
    begin();
    const int old = open_as("to", SGS_OPEN_CREATE);
    write_text(old, "old", 0);
    write_text(open_as("from", SGS_OPEN_CREATE), "new", 0);
    EXPECT_OK(env->rename(env, directory, "from", "to", &err), &err);

    EXPECT_TEXT(read_text(open_as("to", SGS_OPEN_READ), 0), "new");
    EXPECT_TEXT(read_text(old, 0), "old");
    EXPECT_STATUS(env->rename(env, directory, "from", "to", &err), SGS_NOT_FOUND);
    EXPECT_OK(env->rename(env, directory, "to", "to", &err), &err);
    EXPECT_TEXT(read_text(open_as("to", SGS_OPEN_READ), 0), "new");
    end();
}

static sgs_status count_names(void *context, const char *name, sgs_error *unused)
{
    (void)unused;
    int *count = context;
    *count += name[0] == 'n' ? 1 : 100;
    return SGS_OK;
}

TEST(directories_and_paths)
{
    begin();
    int fd = -1, count = 0;
    EXPECT_STATUS(env->make_directory(env, SGS_CWD, "/a/b", &err), SGS_NOT_FOUND);
    EXPECT_OK(env->make_directory(env, SGS_CWD, "/a", &err), &err);
    EXPECT_OK(env->make_directory(env, SGS_CWD, "a//b/", &err), &err);
    EXPECT_STATUS(env->make_directory(env, SGS_CWD, "/a/./b", &err), SGS_ALREADY_EXISTS);
    REQUIRE_OK(env->open_directory(env, SGS_CWD, "/a/b", &fd, &err), &err);
    int file = -1;
    EXPECT_OK(env->open_file(env, fd, "n1", SGS_OPEN_CREATE, &file, &err), &err);
    EXPECT_OK(env->open_file(env, fd, "n2", SGS_OPEN_CREATE, &file, &err), &err);
    EXPECT_OK(env->list_directory(env, fd, count_names, &count, &err), &err);
    EXPECT_EQ_I64(count, 2);
    EXPECT_STATUS(env->open_directory(env, fd, "n1", &file, &err), SGS_NOT_A_LOG);
    EXPECT_STATUS(env->remove_directory(env, SGS_CWD, "/a/b", &err), SGS_ILLEGAL_STATE);
    EXPECT_STATUS(env->unlink(env, SGS_CWD, "/a/b", &err), SGS_NOT_A_LOG);
    EXPECT_OK(env->unlink(env, fd, "n1", &err), &err);
    EXPECT_OK(env->unlink(env, fd, "n2", &err), &err);
    EXPECT_OK(env->remove_directory(env, SGS_CWD, "/a/b", &err), &err);
    EXPECT_STATUS(env->remove_directory(env, SGS_CWD, "/a/b", &err), SGS_NOT_FOUND);
    char long_name[300];
    memset(long_name, 'x', sizeof long_name);
    long_name[299] = '\0';
    EXPECT_STATUS(env->make_directory(env, directory, long_name, &err), SGS_ILLEGAL_ARGUMENT);
    end();
}

TEST(locks_belong_to_descriptors)
{
    /* [DUR-65] */
    begin();
    const int first = open_as("lock", SGS_OPEN_WRITE_OR_CREATE), second = open_as("lock", SGS_OPEN_WRITE);
    EXPECT_OK(env->lock(env, first, "lock", SGS_LOCK_SHARED, &err), &err);
    EXPECT_OK(env->lock(env, second, "lock", SGS_LOCK_SHARED, &err), &err);
    EXPECT_STATUS(env->lock(env, first, "lock", SGS_LOCK_EXCLUSIVE, &err), SGS_LOCKED);
    EXPECT_OK(env->unlock(env, second, "lock", &err), &err);
    EXPECT_OK(env->lock(env, first, "lock", SGS_LOCK_EXCLUSIVE, &err), &err);
    EXPECT_STATUS(env->lock(env, second, "lock", SGS_LOCK_SHARED, &err), SGS_LOCKED);
    EXPECT_OK(env->close(env, first, "lock", &err), &err);
    EXPECT_OK(env->lock(env, second, "lock", SGS_LOCK_EXCLUSIVE, &err), &err);
    end();
}

TEST(a_mapping_is_the_memory_of_the_file)
{
    begin();
    const int fd = open_as("file", SGS_OPEN_CREATE);
    void *first, *second;
    REQUIRE_OK(env->map(env, fd, "file", 100, true, &first, &err), &err);
    REQUIRE_OK(env->map(env, fd, "file", 2000, false, &second, &err), &err);
    EXPECT_OK(env->allocate_space(env, fd, "file", 10, &err), &err);
    memcpy(first, "stored", 6);
    EXPECT_TEXT((const char *)second, "stored");
    EXPECT_TEXT(read_text(fd, 0), "stored");
    write_text(fd, "written", 0);
    EXPECT_TEXT((const char *)first, "written");
    EXPECT_OK(env->sync_mapping(env, first, 10, "file", &err), &err);
    env->unmap(env, first, 100);
    env->unmap(env, second, 2000);
    EXPECT_STATUS(env->truncate(env, fd, "file", 1 << 20, &err), SGS_RESOURCE); /* it may not move any more */
    end();
}

TEST(a_planned_failure_changes_nothing)
{
    begin();
    const int fd = open_as("file", SGS_OPEN_CREATE);
    const int64_t before = sgs_sim_effects(disk);
    const sgs_slice piece = { (const uint8_t *)"x", 1 };
    int64_t written;
    sgs_sim_fail(disk, SGS_SIM_write_at, 2, ENOSPC, false);
    EXPECT_OK(env->write_at(env, fd, "file", &piece, 1, 0, &written, &err), &err);
    EXPECT_STATUS(env->write_at(env, fd, "file", &piece, 1, 1, &written, &err), SGS_DISK_FULL);
    EXPECT_EQ_I64(written, 0);
    EXPECT_TEXT(err.file, "file");
    EXPECT_EQ_I64(err.os_error, ENOSPC);
    EXPECT_OK(env->write_at(env, fd, "file", &piece, 1, 1, &written, &err), &err);
    EXPECT_EQ_I64(sgs_sim_effects(disk), before + 2);
    EXPECT_EQ_I64(sgs_sim_calls(disk, SGS_SIM_write_at), 3);

    sgs_sim_fail(disk, SGS_SIM_ANY_CALL, 1, EIO, true);
    sgs_file_info info;
    EXPECT_STATUS(env->file_info(env, fd, "file", &info, &err), SGS_READ_IO);
    EXPECT_STATUS(env->sync_data(env, fd, "file", SGS_BARRIER(APPENDED_RECORDS), &err), SGS_FSYNC_FAILED);
    sgs_sim_fail(disk, SGS_SIM_ANY_CALL, 0, 0, false);
    EXPECT_OK(env->sync_data(env, fd, "file", SGS_BARRIER(APPENDED_RECORDS), &err), &err);
    end();
}

static void fail_the_second_write(void *context, sgs_sim_call call, const char *name)
{
    int *const writes = context;
    if (call == SGS_SIM_write_at && strcmp(name, "file") == 0 && ++*writes == 2)
        sgs_sim_fail(disk, SGS_SIM_write_at, 1, ENOSPC, false);
}

TEST(who_watches_is_told_before_a_call_and_may_let_it_fail)
{
    begin();
    const int fd = open_as("file", SGS_OPEN_CREATE);
    const sgs_slice piece = { (const uint8_t *)"x", 1 };
    int64_t written;
    int writes = 0;
    sgs_sim_watch(disk, fail_the_second_write, &writes);
    EXPECT_OK(env->write_at(env, fd, "file", &piece, 1, 0, &written, &err), &err);
    EXPECT_STATUS(env->write_at(env, fd, "file", &piece, 1, 1, &written, &err), SGS_DISK_FULL);
    EXPECT_OK(env->write_at(env, fd, "file", &piece, 1, 1, &written, &err), &err);
    sgs_sim_watch(disk, NULL, NULL);
    EXPECT_OK(env->write_at(env, fd, "file", &piece, 1, 2, &written, &err), &err);
    EXPECT_EQ_I64(writes, 3);
    end();
}

TEST(a_full_disk_takes_what_fits)
{
    begin();
    const int fd = open_as("file", SGS_OPEN_CREATE);
    const sgs_slice slices[] = { { (const uint8_t *)"12345", 5 }, { (const uint8_t *)"678", 3 } };
    int64_t written;
    sgs_sim_set_room(disk, 15);
    EXPECT_OK(env->write_at(env, fd, "file", slices, 2, 0, &written, &err), &err);
    EXPECT_STATUS(env->write_at(env, fd, "file", slices, 2, 8, &written, &err), SGS_DISK_FULL);
    EXPECT_EQ_I64(written, 7);
    EXPECT_OK(env->write_at(env, fd, "file", slices, 2, 0, &written, &err), &err); /* in place */
    EXPECT_STATUS(env->write_at(env, fd, "file", slices, 2, 14, &written, &err), SGS_DISK_FULL);
    EXPECT_EQ_I64(written, 1);
    sgs_sim_set_room(disk, -1);
    EXPECT_OK(env->write_at(env, fd, "file", slices, 2, 14, &written, &err), &err);

    sgs_file_info info;
    EXPECT_OK(env->file_info(env, fd, "file", &info, &err), &err);
    EXPECT_EQ_I64(info.size, 22);
    end();
}

TEST(nothing_is_sent_from_it)
{
    begin();
    sgs_transfer transfer;
    EXPECT_STATUS(env->send_file(env, open_as("file", SGS_OPEN_CREATE), "file", 0, 10, 1, &transfer, &err),
                  SGS_SEND_FAILED);
    EXPECT_EQ_U64(transfer.sent, 0);
    end();
}

TEST(the_time_of_a_file_is_set)
{
    begin();
    (void)open_as("file", SGS_OPEN_CREATE);
    EXPECT_OK(env->set_modified_at(env, directory, "file", 4321, &err), &err);
    sgs_file_info info;
    REQUIRE_OK(env->file_info_at(env, directory, "file", &info, &err), &err);
    EXPECT_EQ_I64(info.modified_ms, 4321);
    EXPECT_STATUS(env->set_modified_at(env, directory, "none", 0, &err), SGS_NOT_FOUND);
    EXPECT_EQ_I64(sgs_sim_effects(disk), 1); /* the file; nothing that a crash could split */
    end();
}

TEST(a_read_only_file_is_opened_for_reading_alone)
{
    begin();
    const int fd = open_as("file", SGS_OPEN_CREATE);
    const int64_t effects = sgs_sim_effects(disk);
    EXPECT_OK(env->make_read_only_at(env, directory, "file", &err), &err);
    EXPECT_EQ_I64(sgs_sim_effects(disk), effects);
    write_text(fd, "text", 0); /* who has it open may */
    EXPECT_TEXT(read_text(open_as("file", SGS_OPEN_READ), 0), "text");
    int other;
    EXPECT_STATUS(env->open_file(env, directory, "file", SGS_OPEN_WRITE, &other, &err), SGS_PERMISSION);
    EXPECT_EQ_I64(err.os_error, EACCES);
    EXPECT_STATUS(env->open_file(env, directory, "file", SGS_OPEN_WRITE_OR_CREATE, &other, &err), SGS_PERMISSION);
    EXPECT_STATUS(env->make_read_only_at(env, directory, "none", &err), SGS_NOT_FOUND);
    end();
}

TEST(without_power_every_call_fails)
{
    begin();
    const int fd = open_as("file", SGS_OPEN_CREATE);
    sgs_sim_cut_power_after(disk, sgs_sim_effects(disk) + 1);
    write_text(fd, "text", 0);
    EXPECT_TEXT(read_text(fd, 0), "text");
    EXPECT_TRUE(!sgs_sim_is_off(disk));
    EXPECT_STATUS(env->sync_data(env, fd, "file", SGS_BARRIER(APPENDED_RECORDS), &err), SGS_FSYNC_FAILED);
    EXPECT_TRUE(sgs_sim_is_off(disk));
    int other;
    sgs_file_info info;
    EXPECT_STATUS(env->open_file(env, directory, "file", SGS_OPEN_READ, &other, &err), SGS_READ_IO);
    EXPECT_STATUS(env->file_info_at(env, directory, "file", &info, &err), SGS_READ_IO);
    EXPECT_STATUS(env->close(env, fd, "file", &err), SGS_CLOSE_FAILED);
    EXPECT_EQ_I64(sgs_sim_effects(disk), 2);
    end();
}

TEST(clocks_stand_still_until_they_are_set)
{
    begin();
    const int64_t before = env->monotonic_ns(env);
    EXPECT_TRUE(env->monotonic_ns(env) > before);
    sgs_sim_set_wall_clock(disk, 5000);
    EXPECT_EQ_I64(env->wall_clock_ms(env), 5000);
    EXPECT_TRUE(env->monotonic_ns(env) - before > 5000LL * 1000000);
    const int fd = open_as("file", SGS_OPEN_CREATE);
    sgs_file_info info;
    EXPECT_OK(env->file_info(env, fd, "file", &info, &err), &err);
    EXPECT_EQ_I64(info.modified_ms, 5000);
    end();
}

TEST(a_disk_without_memory_says_so_and_leaks_nothing)
{
    memory_env memory;
    for (int64_t nth = 1; nth < 60; ++nth) {
        memory_env_init(&memory, sgs_env_posix());
        memory_env_fail_always(&memory, "allocate", nth, ENOMEM);
        sgs_sim_disk *made = NULL, *image = NULL;
        sgs_status status = sgs_sim_open(&memory.env, 1, &made, &err);
        if (status == SGS_OK) {
            const sgs_env *inner = sgs_sim_env(made);
            int root = -1, fd = -1;
            int64_t written;
            const sgs_slice piece = { (const uint8_t *)"text", 4 };
            void *address;
            status = inner->open_directory(inner, SGS_CWD, "/", &root, &err);
            if (status == SGS_OK)
                status = inner->open_file(inner, root, "file", SGS_OPEN_CREATE, &fd, &err);
            if (status == SGS_OK)
                status = inner->write_at(inner, fd, "file", &piece, 1, 0, &written, &err);
            if (status == SGS_OK)
                status = inner->map(inner, fd, "file", 10, true, &address, &err);
            if (status == SGS_OK)
                status = sgs_sim_crash_image(made, &(sgs_sim_crash){ .effects = -1, .fate = SGS_SIM_BY_SEED }, 2,
                                             &image, &err);
        }
        EXPECT_TRUE(status == SGS_OK || status == SGS_RESOURCE);
        sgs_sim_close(image);
        sgs_sim_close(made);
        EXPECT_TRUE(memory_env_is_balanced(&memory));
        if (status == SGS_OK)
            return;
    }
    EXPECT_TRUE(false); /* never enough */
}

TEST_MAIN()
