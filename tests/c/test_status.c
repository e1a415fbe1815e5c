#define _POSIX_C_SOURCE 200809L
/* The error struct: what is filled in, what is cut, what stays. */
#include "base/status.h"

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test.h"

TEST(a_failure_says_what_and_clears_what_was_there)
{
    sgs_error err;
    memset(&err, 'x', sizeof err);

    EXPECT_STATUS(sgs_fail(&err, SGS_ILLEGAL_ARGUMENT, "offset %d of %s", 7, "orders-0"), SGS_ILLEGAL_ARGUMENT);

    EXPECT_STATUS(err.status, SGS_ILLEGAL_ARGUMENT);
    EXPECT_TEXT(err.message, "offset 7 of orders-0");
    EXPECT_TEXT(err.file, "");
    EXPECT_TEXT(err.found, "");
    EXPECT_TEXT(err.expected, "");
    EXPECT_EQ_I64(err.position, -1);
    EXPECT_EQ_I64(err.os_error, 0);
}

TEST(bad_bytes_are_described_by_place_expectation_and_finding)
{
    sgs_error err;

    EXPECT_STATUS(sgs_fail_at(&err, SGS_CORRUPT_RECORD, 4096, "magic 0, 1 or 2", "magic %d", 9), SGS_CORRUPT_RECORD);

    EXPECT_EQ_I64(err.position, 4096);
    EXPECT_TEXT(err.expected, "magic 0, 1 or 2");
    EXPECT_TEXT(err.found, "magic 9");
    EXPECT_TEXT(err.message, "expected magic 0, 1 or 2, found magic 9");
    EXPECT_TEXT(err.file, "");
}

TEST(without_a_position_the_sentence_is_the_same)
{
    sgs_error err;

    (void)sgs_fail_at(&err, SGS_NOT_A_LOG, -1, "a regular file", "a directory");

    EXPECT_EQ_I64(err.position, -1);
    EXPECT_TEXT(err.message, "expected a regular file, found a directory");
}

TEST(texts_that_are_too_long_are_cut_and_ended)
{
    sgs_error err;
    char text[2 * SGS_ERROR_TEXT_BYTES];
    memset(text, 'a', sizeof text - 1);
    text[sizeof text - 1] = '\0';

    (void)sgs_fail(&err, SGS_INTERNAL, "%s", text);
    EXPECT_EQ_I64(strlen(err.message), SGS_ERROR_TEXT_BYTES - 1);
    EXPECT_EQ_I64(err.file[0], '\0');

    (void)sgs_fail_at(&err, SGS_INTERNAL, 1, text, "%s", text);
    EXPECT_EQ_I64(strlen(err.expected), SGS_ERROR_VALUE_BYTES - 1);
    EXPECT_EQ_I64(strlen(err.found), SGS_ERROR_VALUE_BYTES - 1);
    EXPECT_TRUE(strlen(err.message) < SGS_ERROR_TEXT_BYTES);
}

TEST(the_first_file_named_stays_and_the_status_is_handed_on)
{
    sgs_error err;
    (void)sgs_fail(&err, SGS_READ_IO, "cannot read");

    EXPECT_STATUS(sgs_fail_in_file(&err, "00000000000000000000.log"), SGS_READ_IO);
    EXPECT_STATUS(sgs_fail_in_file(&err, "other.log"), SGS_READ_IO);

    EXPECT_TEXT(err.file, "00000000000000000000.log");
}

TEST(a_long_file_name_keeps_its_end)
{
    sgs_error err;
    char name[400];
    memset(name, 'd', sizeof name);
    memcpy(name + sizeof name - 5, ".log", 5);
    (void)sgs_fail(&err, SGS_READ_IO, "cannot read");

    (void)sgs_fail_in_file(&err, name);

    EXPECT_EQ_I64(strlen(err.file), SGS_ERROR_FILE_BYTES - 1);
    EXPECT_TEXT(err.file + strlen(err.file) - 4, ".log");
}

TEST(every_status_has_a_name_and_a_text_of_its_own)
{
    for (int i = 0; i < SGS_STATUS_COUNT; ++i) {
        EXPECT_TRUE(strlen(sgs_status_name((sgs_status)i)) >= 2);
        EXPECT_TRUE(strlen(sgs_status_text((sgs_status)i)) >= 2);
        for (int j = 0; j < i; ++j)
            EXPECT_TRUE(strcmp(sgs_status_name((sgs_status)i), sgs_status_name((sgs_status)j)) != 0);
    }
    EXPECT_TEXT(sgs_status_name(SGS_OK), "OK");
    EXPECT_TEXT(sgs_status_name(SGS_CORRUPT_RECORD), "CORRUPT_RECORD");
    EXPECT_TEXT(sgs_status_text(SGS_DISK_FULL), "no space left");
}

TEST(a_value_outside_the_enum_has_a_name_too)
{
    EXPECT_TEXT(sgs_status_name(SGS_STATUS_COUNT), "?");
    EXPECT_TEXT(sgs_status_text((sgs_status)12345), "?");
}

static sgs_status check_number(int number, sgs_error *err)
{
    SGS_ASSERT(number == 7, err);
    return SGS_OK;
}

TEST(an_assertion_that_fails_ends_a_test_program)
{
    /* In a child: the frame of the tests must not be able to overlook one. */
    sgs_error err;
    EXPECT_STATUS(check_number(7, &err), SGS_OK);
    (void)fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        (void)close(STDERR_FILENO);
        (void)check_number(8, &err);
        _exit(0);
    }
    int status = 0;
    REQUIRE_EQ_I64(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFSIGNALED(status));
}

TEST_MAIN()
