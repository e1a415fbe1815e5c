/* errno and what it means for the caller [DUR-30..DUR-40]. */
#include "io/os_error.h"

#include <errno.h>

#include "test.h"

TEST(each_kind_of_trouble_has_its_status_whatever_the_call)
{
    const struct {
        int os_error;
        sgs_status status;
    } rows[] = {
        { ENOSPC, SGS_DISK_FULL },   { EDQUOT, SGS_DISK_FULL },      { EFBIG, SGS_DISK_FULL },
        { EMFILE, SGS_RESOURCE },    { ENFILE, SGS_RESOURCE },       { ENOMEM, SGS_RESOURCE },
        { EROFS, SGS_PERMISSION },   { EACCES, SGS_PERMISSION },     { EPERM, SGS_PERMISSION },
        { ENOENT, SGS_NOT_FOUND },   { EEXIST, SGS_ALREADY_EXISTS }, { ENOTDIR, SGS_NOT_A_LOG },
        { ELOOP, SGS_NOT_A_LOG },    { EISDIR, SGS_NOT_A_LOG },      { ENOTEMPTY, SGS_ILLEGAL_STATE },
        { ENXIO, SGS_NOT_A_LOG },    { ENOLCK, SGS_RESOURCE },       { ENAMETOOLONG, SGS_ILLEGAL_ARGUMENT },
        { ETXTBSY, SGS_PERMISSION },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; ++i) {
        EXPECT_STATUS(sgs_os_error_status(rows[i].os_error, SGS_READ_IO), rows[i].status);
        EXPECT_STATUS(sgs_os_error_status(rows[i].os_error, SGS_WRITE_IO), rows[i].status);
    }
}

TEST(anything_else_is_the_operations_own)
{
    EXPECT_STATUS(sgs_os_error_status(EIO, SGS_READ_IO), SGS_READ_IO);
    EXPECT_STATUS(sgs_os_error_status(EIO, SGS_WRITE_IO), SGS_WRITE_IO);
    EXPECT_STATUS(sgs_os_error_status(EINVAL, SGS_WRITE_IO), SGS_WRITE_IO);
}

TEST(the_error_says_what_was_tried_why_it_failed_and_where)
{
    sgs_error err;

    EXPECT_STATUS(sgs_fail_os(&err, SGS_DISK_FULL, 28, "write the file", "0.log"), SGS_DISK_FULL);

    EXPECT_TEXT(err.message, "cannot write the file: no space left (errno 28)");
    EXPECT_TEXT(err.file, "0.log");
    EXPECT_EQ_I64(err.os_error, 28);
    EXPECT_EQ_I64(err.position, -1);
    EXPECT_STATUS(sgs_fail_os(&err, SGS_DISK_FULL, EFBIG, "write the file", "0.log"), SGS_DISK_FULL);
    EXPECT_TEXT(err.message,
                "cannot write the file: the file would be larger than this process, or the file system, allows "
                "(errno 27)");
    EXPECT_STATUS(sgs_fail_os(&err, SGS_DISK_FULL, EDQUOT, "write the file", "0.log"), SGS_DISK_FULL);
    EXPECT_TEXT(err.message, "cannot write the file: the disk quota is used up (errno 122)");
}

/* "not a log directory" is what somebody hears who named the wrong directory, not who has one where a file should be. */
TEST(another_kind_of_file_is_named)
{
    sgs_error err;

    EXPECT_STATUS(sgs_fail_os(&err, SGS_NOT_A_LOG, EISDIR, "open the file", "0.log"), SGS_NOT_A_LOG);
    EXPECT_TEXT(err.message, "cannot open the file: it is a directory, expected a regular file (errno 21)");
    EXPECT_TEXT(err.file, "0.log");
    EXPECT_TEXT(err.found, "a directory");
    EXPECT_TEXT(err.expected, "a regular file");
    EXPECT_EQ_I64(err.os_error, 21);
    EXPECT_STATUS(sgs_fail_os(&err, SGS_NOT_A_LOG, ELOOP, "open the file", "0.log"), SGS_NOT_A_LOG);
    EXPECT_TEXT(err.message,
                "cannot open the file: a loop of symbolic links, or one where none is followed (errno 40)");
    EXPECT_TEXT(err.found, "");
    EXPECT_STATUS(sgs_fail_os(&err, SGS_NOT_A_LOG, ENXIO, "open the file", "0.log"), SGS_NOT_A_LOG);
    EXPECT_TEXT(err.message, "cannot open the file: it is a socket or device, expected a regular file (errno 6)");
    EXPECT_STATUS(sgs_fail_os(&err, SGS_NOT_A_LOG, ENOTDIR, "open the directory", "t-0"), SGS_NOT_A_LOG);
    EXPECT_TEXT(err.message, "cannot open the directory: not a log directory (errno 20)");
    EXPECT_TEXT(err.found, "");
}

TEST_MAIN()
