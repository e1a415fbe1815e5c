/* Owner, group and mode of what is made [DUR-133]. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/env.h"
#include "temporary.h"
#include "test.h"

enum { OWNER = 65534, GROUP = 65533, ANOTHER = 65532 };

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

static struct stat made_file(const char *name, sgs_open_mode mode)
{
    struct stat found = { 0 };
    int fd = -1;
    const mode_t before = umask(0);
    EXPECT_OK(env->open_file(env, directory.fd, name, mode, &fd, &err), &err);
    (void)umask(before);
    EXPECT_EQ_I64(fstat(fd, &found), 0);
    EXPECT_OK(env->close(env, fd, name, &err), &err);
    return found;
}

TEST(a_new_file_has_the_mode_of_ours)
{
    begin();
    EXPECT_EQ_I64(made_file("0.log", SGS_OPEN_CREATE).st_mode & 0777, 0640); /* [DUR-100] */
    EXPECT_EQ_I64(made_file(".lock", SGS_OPEN_WRITE_OR_CREATE).st_mode & 0777, 0640);
    EXPECT_EQ_I64(made_file(".tmp", SGS_OPEN_CREATE).st_mode & 0777, 0640);
    EXPECT_EQ_I64(made_file("none.tmp", SGS_OPEN_CREATE).st_mode & 0777, 0640);
    end();
}

TEST(what_replaces_a_file_has_its_mode)
{
    begin();
    temporary_write(&directory, "name", "x", 1);
    REQUIRE_EQ_I64(fchmodat(directory.fd, "name", 0604, 0), 0);
    EXPECT_EQ_I64(made_file("name.tmp", SGS_OPEN_WRITE_OR_CREATE).st_mode & 0777, 0604);
    REQUIRE_EQ_I64(fchmodat(directory.fd, "name.tmp", 0600, 0), 0);
    EXPECT_EQ_I64(made_file("name.tmp", SGS_OPEN_WRITE_OR_CREATE).st_mode & 0777, 0600); /* it was there */
    REQUIRE_EQ_I64(mkdirat(directory.fd, "folder", 0700), 0);
    EXPECT_EQ_I64(made_file("folder.tmp", SGS_OPEN_CREATE).st_mode & 0777, 0640);
    end();
}

/* A file of another owner is replaced: one who is not root cannot hand over what he made, and keeps it closed. */
TEST(who_is_not_root_hands_nothing_over)
{
    begin();
    if (geteuid() == 0) {
        struct stat made;
        temporary_write(&directory, "name", "x", 1);
        REQUIRE_EQ_I64(fchmodat(directory.fd, "name", 0666, 0), 0);
        REQUIRE_EQ_I64(fchownat(directory.fd, "name", ANOTHER, ANOTHER, 0), 0);
        REQUIRE_EQ_I64(fchmod(directory.fd, 0777), 0);
        REQUIRE_EQ_I64(seteuid(OWNER), 0);
        const struct stat replacing = made_file("name.tmp", SGS_OPEN_CREATE);
        const struct stat alone = made_file("0.log", SGS_OPEN_CREATE);
        EXPECT_OK(env->make_directory(env, directory.fd, "orders-0", &err), &err);
        EXPECT_EQ_I64(fstatat(directory.fd, "orders-0", &made, 0), 0);
        REQUIRE_EQ_I64(seteuid(0), 0);
        EXPECT_EQ_I64(replacing.st_uid, OWNER);
        EXPECT_EQ_I64(replacing.st_mode & 0777, 0640);
        EXPECT_EQ_I64(alone.st_uid, OWNER);
        EXPECT_EQ_I64(alone.st_mode & 0777, 0640);
        EXPECT_EQ_I64(made.st_uid, OWNER);
    }
    end();
}

/* Only the group is another one; and a mode that is as it should be is left. */
TEST(what_root_makes_has_the_group_of_its_directory)
{
    begin();
    if (geteuid() == 0) {
        struct stat made;
        REQUIRE_EQ_I64(fchown(directory.fd, geteuid(), GROUP), 0);
        REQUIRE_EQ_I64(fchmod(directory.fd, 0640), 0);
        const struct stat file = made_file("0.log", SGS_OPEN_CREATE);
        EXPECT_EQ_I64(file.st_uid, geteuid());
        EXPECT_EQ_I64(file.st_gid, GROUP);
        EXPECT_EQ_I64(file.st_mode & 0777, 0640);
        EXPECT_OK(env->make_directory(env, directory.fd, "orders-0", &err), &err);
        REQUIRE_EQ_I64(fstatat(directory.fd, "orders-0", &made, 0), 0);
        EXPECT_EQ_I64(made.st_gid, GROUP);
        temporary_write(&directory, "name", "x", 1);
        REQUIRE_EQ_I64(fchownat(directory.fd, "name", geteuid(), ANOTHER, 0), 0);
        EXPECT_EQ_I64(made_file("name.tmp", SGS_OPEN_CREATE).st_gid, ANOTHER);
    }
    end();
}

TEST(what_root_makes_is_its_directorys)
{
    begin();
    if (geteuid() == 0) {
        REQUIRE_EQ_I64(fchown(directory.fd, OWNER, GROUP), 0);
        REQUIRE_EQ_I64(fchmod(directory.fd, 02775), 0);
        const struct stat file = made_file("0.log", SGS_OPEN_CREATE);
        EXPECT_EQ_I64(file.st_uid, OWNER);
        EXPECT_EQ_I64(file.st_gid, GROUP);
        EXPECT_EQ_I64(file.st_mode & 07777, 0664);
        struct stat made;
        EXPECT_OK(env->make_directory(env, directory.fd, "orders-0", &err), &err);
        REQUIRE_EQ_I64(fstatat(directory.fd, "orders-0", &made, 0), 0);
        EXPECT_EQ_I64(made.st_uid, OWNER);
        EXPECT_EQ_I64(made.st_gid, GROUP);
        EXPECT_EQ_I64(made.st_mode & 07777, 02775);
    }
    end();
}

TEST_MAIN()
