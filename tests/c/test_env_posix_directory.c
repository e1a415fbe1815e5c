/* Directories and names of the real environment. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/env.h"
#include "temporary.h"
#include "test.h"

static const sgs_env *env;
static temporary directory;
static sgs_error err;

static void begin(void)
{
    env = sgs_env_posix();
    directory = temporary_open();
    memset(&err, 0, sizeof err);
}

static void end(void) { temporary_close(&directory); }

TEST(directories_are_made_opened_and_removed)
{
    begin();
    const mode_t before = umask(0);
    EXPECT_OK(env->make_directory(env, directory.fd, "orders-0", &err), &err);
    (void)umask(before);
    struct stat found;
    REQUIRE_EQ_I64(fstatat(directory.fd, "orders-0", &found, 0), 0);
    EXPECT_EQ_I64(found.st_mode & 0777, 0750); /* [DUR-100] */
    EXPECT_STATUS(env->make_directory(env, directory.fd, "orders-0", &err), SGS_ALREADY_EXISTS);
    EXPECT_STATUS(env->make_directory(env, directory.fd, "none/orders-0", &err), SGS_NOT_FOUND);
    int fd = -1;
    REQUIRE_OK(env->open_directory(env, directory.fd, "orders-0", &fd, &err), &err);
    EXPECT_TRUE((fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0);
    EXPECT_OK(env->sync_directory(env, fd, SGS_BARRIER(APPENDED_NAMES), &err), &err);
    EXPECT_OK(env->close(env, fd, "orders-0", &err), &err);
    EXPECT_STATUS(env->sync_directory(env, fd, SGS_BARRIER(APPENDED_NAMES), &err), SGS_FSYNC_FAILED);
    temporary_write(&directory, "orders-0/file", "", 0);
    EXPECT_STATUS(env->remove_directory(env, directory.fd, "orders-0", &err), SGS_ILLEGAL_STATE);
    EXPECT_OK(env->unlink(env, directory.fd, "orders-0/file", &err), &err);
    EXPECT_OK(env->remove_directory(env, directory.fd, "orders-0", &err), &err);
    EXPECT_STATUS(env->remove_directory(env, directory.fd, "orders-0", &err), SGS_NOT_FOUND);
    end();
}

TEST(what_is_no_directory_is_not_a_log)
{
    begin();
    temporary_write(&directory, "file", "x", 1);
    int fd = -1;
    EXPECT_STATUS(env->open_directory(env, directory.fd, "file", &fd, &err), SGS_NOT_A_LOG);
    EXPECT_TEXT(err.file, "file");
    EXPECT_STATUS(env->open_directory(env, directory.fd, "file/x", &fd, &err), SGS_NOT_A_LOG);
    EXPECT_STATUS(env->open_directory(env, directory.fd, "none", &fd, &err), SGS_NOT_FOUND);
    EXPECT_EQ_I64(fd, -1);
    end();
}

TEST(links_are_followed_in_a_users_path_but_not_below_a_directory_we_hold)
{
    /* [DUR-99] */
    begin();
    REQUIRE_EQ_I64(mkdirat(directory.fd, "real", 0700), 0);
    REQUIRE_EQ_I64(symlinkat("real", directory.fd, "link"), 0);
    char path[400];
    (void)snprintf(path, sizeof path, "%s/link", directory.path);
    int fd = -1;
    REQUIRE_OK(env->open_directory(env, SGS_CWD, path, &fd, &err), &err);
    EXPECT_OK(env->close(env, fd, path, &err), &err);
    fd = -1;
    EXPECT_STATUS(env->open_directory(env, directory.fd, "link", &fd, &err), SGS_NOT_A_LOG);
    EXPECT_EQ_I64(fd, -1);
    end();
}

typedef struct listing {
    int count, stop_at;
    unsigned seen; /* bit i: name i */
} listing;

static sgs_status note_name(void *context, const char *name, sgs_error *error)
{
    listing *names = context;
    ++names->count;
    if (names->count == names->stop_at)
        return sgs_fail(error, SGS_CALLBACK, "enough");
    if (name[0] >= 'a' && name[0] <= 'e' && name[1] == '\0')
        names->seen |= 1U << (name[0] - 'a');
    else
        EXPECT_TEXT(name, "one of the names");
    return SGS_OK;
}

TEST(every_name_is_visited_once_and_each_time_anew)
{
    begin();
    for (char name[2] = "a"; name[0] <= 'e'; ++name[0])
        temporary_write(&directory, name, "", 0);
    for (int round = 0; round < 2; ++round) {
        listing names = { 0 };
        EXPECT_OK(env->list_directory(env, directory.fd, note_name, &names, &err), &err);
        EXPECT_EQ_I64(names.count, 5);
        EXPECT_EQ_I64(names.seen, 31);
    }
    end();
}

TEST(a_visitor_that_fails_ends_the_listing_with_its_own_error)
{
    begin();
    for (char name[2] = "a"; name[0] <= 'e'; ++name[0])
        temporary_write(&directory, name, "", 0);
    listing names = { .stop_at = 3 };
    const int before = open("/dev/null", O_RDONLY | O_CLOEXEC);
    EXPECT_STATUS(env->list_directory(env, directory.fd, note_name, &names, &err), SGS_CALLBACK);
    EXPECT_TEXT(err.message, "enough");
    EXPECT_EQ_I64(names.count, 3);
    const int after = open("/dev/null", O_RDONLY | O_CLOEXEC);
    EXPECT_EQ_I64(after, before + 1); /* no descriptor is left behind */
    (void)close(after);
    (void)close(before);
    EXPECT_STATUS(env->list_directory(env, -1, note_name, &names, &err), SGS_READ_IO);
    end();
}

TEST(names_are_looked_up_renamed_and_removed)
{
    begin();
    temporary_write(&directory, "0.log", "12345", 5);
    REQUIRE_EQ_I64(symlinkat("0.log", directory.fd, "link"), 0);
    sgs_file_info info;
    REQUIRE_OK(env->file_info_at(env, directory.fd, "0.log", &info, &err), &err);
    EXPECT_EQ_I64(info.size, 5);
    EXPECT_TRUE(info.is_regular && !info.is_directory);
    const int64_t now = env->wall_clock_ms(env);
    EXPECT_TRUE(info.modified_ms > now - 60000 && info.modified_ms < now + 60000);
    const uint64_t inode = info.inode;
    REQUIRE_OK(env->file_info_at(env, directory.fd, "link", &info, &err), &err);
    EXPECT_TRUE(!info.is_regular && info.inode != inode);
    REQUIRE_OK(env->file_info_at(env, directory.fd, ".", &info, &err), &err);
    EXPECT_TRUE(info.is_directory);

    const int64_t times[] = { 1700000000123, 0, -1, -1999 }; /* [SEG-57] to the millisecond, before 1970 too */
    for (size_t i = 0; i < sizeof times / sizeof *times; ++i) {
        EXPECT_OK(env->set_modified_at(env, directory.fd, "0.log", times[i], &err), &err);
        REQUIRE_OK(env->file_info_at(env, directory.fd, "0.log", &info, &err), &err);
        EXPECT_EQ_I64(info.modified_ms, times[i]);
    }
    EXPECT_OK(env->set_modified_at(env, directory.fd, "link", 5000, &err), &err); /* the link, not the file */
    REQUIRE_OK(env->file_info_at(env, directory.fd, "0.log", &info, &err), &err);
    EXPECT_EQ_I64(info.modified_ms, -1999);
    EXPECT_STATUS(env->set_modified_at(env, directory.fd, "none", 0, &err), SGS_NOT_FOUND);
    EXPECT_TEXT(err.file, "none");

    EXPECT_OK(env->rename(env, directory.fd, "0.log", "0.log.deleted", &err), &err);
    EXPECT_TRUE(!temporary_has(&directory, "0.log") && temporary_has(&directory, "0.log.deleted"));
    EXPECT_STATUS(env->rename(env, directory.fd, "0.log", "x", &err), SGS_NOT_FOUND);
    EXPECT_TEXT(err.file, "0.log");
    EXPECT_OK(env->unlink(env, directory.fd, "0.log.deleted", &err), &err);
    EXPECT_STATUS(env->unlink(env, directory.fd, "0.log.deleted", &err), SGS_NOT_FOUND);
    EXPECT_STATUS(env->file_info_at(env, directory.fd, "0.log.deleted", &info, &err), SGS_NOT_FOUND);
    EXPECT_EQ_I64(err.os_error, ENOENT);
    end();
}

TEST(a_file_is_made_read_only)
{
    begin();
    struct stat found;
    temporary_write(&directory, "file", "12345", 5);
    REQUIRE_EQ_I64(fchmodat(directory.fd, "file", 0664, 0), 0);
    REQUIRE_EQ_I64(symlinkat("file", directory.fd, "link"), 0);
    EXPECT_STATUS(env->make_read_only_at(env, directory.fd, "link", &err), SGS_NOT_A_LOG); /* as at every open */
    REQUIRE_EQ_I64(fstatat(directory.fd, "file", &found, 0), 0);
    EXPECT_EQ_I64(found.st_mode & 07777, 0664);
    EXPECT_OK(env->make_read_only_at(env, directory.fd, "file", &err), &err);
    EXPECT_OK(env->make_read_only_at(env, directory.fd, "file", &err), &err);
    REQUIRE_EQ_I64(fstatat(directory.fd, "file", &found, 0), 0);
    EXPECT_EQ_I64(found.st_mode & 07777, 0444);
    EXPECT_STATUS(env->make_read_only_at(env, directory.fd, "none", &err), SGS_NOT_FOUND);
    EXPECT_TEXT(err.file, "none");
    EXPECT_OK(env->unlink(env, directory.fd, "file", &err), &err);
    end();
}

TEST(a_name_that_is_too_long_is_the_callers_mistake)
{
    begin();
    char name[300];
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    sgs_file_info info;
    EXPECT_STATUS(env->file_info_at(env, directory.fd, name, &info, &err), SGS_ILLEGAL_ARGUMENT);
    EXPECT_EQ_I64(strlen(err.file), SGS_ERROR_FILE_BYTES - 1);
    end();
}

TEST_MAIN()
