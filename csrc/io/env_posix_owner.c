/* env_posix_owner.c - owner, group and mode of what is made: the part of env_posix that keeps a directory its owner's.
 *
 * A program with root's rights (`sudo segstore recover`) must leave no file behind that the owner of the directory, a
 * broker, cannot open [DUR-133]. What cannot be changed stays as it was made: that keeps no log from working. */
#ifndef __linux__
#error "env_posix_owner.c is written for Linux; another system needs its own implementation of io/env.h"
#endif
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "io/env_posix.h"

enum {
    LONGEST_NAME = 255,
    PERMISSION_BITS = 0777,
    READ_AND_WRITE_BITS = 0666, /* what is executable of a directory is not so of a file */
};

/* The file that `name`, "X.tmp", will take the place of [DUR-21]: false where it is no such name, or there is no X yet. */
static bool find_replaced(int directory_fd, const char *name, struct stat *found)
{
    static const char ending[] = ".tmp";
    const size_t size = strlen(name), ending_size = sizeof ending - 1;
    char replaced[LONGEST_NAME + 1];
    if (size <= ending_size || size > LONGEST_NAME || strcmp(name + size - ending_size, ending) != 0)
        return false;
    memcpy(replaced, name, size - ending_size);
    replaced[size - ending_size] = '\0';
    return fstatat(directory_fd, replaced, found, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(found->st_mode);
}

static void hand_over(int fd, const struct stat *made, uid_t owner, gid_t group, mode_t mode)
{
    const bool is_same = made->st_uid == owner && made->st_gid == group;
    SGS_EXPECT((mode & ~(mode_t)(S_ISGID | PERMISSION_BITS)) == 0);
    if (!is_same && (geteuid() != 0 || fchown(fd, owner, group) != 0))
        return; /* the mode of another owner's file would shut this process out, or let others in */
    if ((made->st_mode & (S_ISGID | PERMISSION_BITS)) != mode)
        (void)fchmod(fd, mode);
}

void sgs_posix_own_file(int directory_fd, const char *name, int fd, const struct stat *made)
{
    struct stat model;
    SGS_EXPECT(S_ISREG(made->st_mode));
    if (find_replaced(directory_fd, name, &model))
        hand_over(fd, made, model.st_uid, model.st_gid, model.st_mode & PERMISSION_BITS);
    else if (geteuid() == 0 && fstatat(directory_fd, ".", &model, 0) == 0 &&
             (model.st_uid != made->st_uid || model.st_gid != made->st_gid))
        hand_over(fd, made, model.st_uid, model.st_gid, model.st_mode & READ_AND_WRITE_BITS);
}

void sgs_posix_own_directory(int parent_fd, const char *path)
{
    struct stat parent, made;
    if (geteuid() != 0)
        return;
    int fd;
    SGS_RETRY(fd, openat(parent_fd, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (fd < 0)
        return;
    if (fstat(fd, &made) == 0 && fstatat(fd, "..", &parent, 0) == 0 &&
        (parent.st_uid != made.st_uid || parent.st_gid != made.st_gid))
        hand_over(fd, &made, parent.st_uid, parent.st_gid, parent.st_mode & (S_ISGID | PERMISSION_BITS));
    (void)close(fd);
}
