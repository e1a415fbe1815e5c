/* Files whose bytes come from elsewhere, beside those of another environment. */
#include "io/env_fetched.h"

#include <string.h>

#include "test.h"

static const char *const elsewhere = "far.log"; /* holds "0123456789" */

static sgs_status read_digits(void *context, const char *name, void *data, size_t size, int64_t position, size_t *got,
                              bool *is_fetched, sgs_error *err)
{
    int *calls = context;
    ++*calls;
    *is_fetched = strcmp(name, elsewhere) == 0;
    if (!*is_fetched)
        return SGS_OK;
    if (position > 10)
        return sgs_fail(err, SGS_READ_IO, "nothing is there");
    *got = (size_t)(10 - position) < size ? (size_t)(10 - position) : size;
    memcpy(data, &"0123456789"[position], *got);
    return SGS_OK;
}

static sgs_status send_digits(void *context, const char *name, int64_t position, size_t size, int destination,
                              sgs_transfer *transfer, bool *is_fetched, sgs_error *err)
{
    (void)context, (void)position, (void)destination, (void)err;
    *is_fetched = strcmp(name, elsewhere) == 0;
    if (*is_fetched)
        *transfer = (sgs_transfer){ .sent = size };
    return SGS_OK;
}

static sgs_status read_zeros(const sgs_env *env, int fd, const char *name, void *data, size_t size, int64_t position,
                             size_t *got, sgs_error *err)
{
    (void)env, (void)fd, (void)name, (void)position, (void)err;
    memset(data, 0, size);
    *got = size;
    return SGS_OK;
}

static sgs_status send_one(const sgs_env *env, int fd, const char *name, int64_t position, size_t size, int destination,
                           sgs_transfer *transfer, sgs_error *err)
{
    (void)env, (void)fd, (void)name, (void)position, (void)size, (void)destination, (void)err;
    *transfer = (sgs_transfer){ .sent = 1 };
    return SGS_OK;
}

static int calls;

static void init(sgs_fetched_files *files, sgs_env *base)
{
    *base = *sgs_env_posix();
    base->read_at = read_zeros;
    base->send_file = send_one;
    calls = 0;
    sgs_fetched_files_init(files, base,
                           (sgs_fetched_source){ .context = &calls, .read = read_digits, .send = send_digits });
}

TEST(a_file_of_the_source_has_its_bytes_from_there)
{
    sgs_env base;
    sgs_fetched_files files;
    init(&files, &base);
    const sgs_env *env = &files.env;
    char data[4] = "xxx";
    size_t got = 0;
    sgs_error err;

    EXPECT_TRUE(env->read_at(env, -1, elsewhere, data, sizeof data, 3, &got, &err) == SGS_OK);
    EXPECT_EQ_I64(got, 4);
    EXPECT_TRUE(memcmp(data, "3456", 4) == 0);
    EXPECT_TRUE(env->read_at(env, -1, elsewhere, data, sizeof data, 9, &got, &err) == SGS_OK);
    EXPECT_EQ_I64(got, 1);
    EXPECT_TRUE(env->read_at(env, -1, elsewhere, data, sizeof data, 11, &got, &err) == SGS_READ_IO);
    sgs_transfer transfer = { .sent = 0 };
    EXPECT_TRUE(env->send_file(env, -1, elsewhere, 0, 7, -1, &transfer, &err) == SGS_OK);
    EXPECT_EQ_I64(transfer.sent, 7);
}

TEST(any_other_file_is_read_as_before)
{
    sgs_env base;
    sgs_fetched_files files;
    init(&files, &base);
    const sgs_env *env = &files.env;
    char data[4] = "xxx";
    size_t got = 0;
    sgs_error err;

    EXPECT_TRUE(env->read_at(env, -1, "near", data, sizeof data, 0, &got, &err) == SGS_OK);
    EXPECT_EQ_I64(got, 4);
    EXPECT_EQ_I64(data[0], 0);
    EXPECT_EQ_I64(calls, 1);
    sgs_transfer transfer = { .sent = 0 };
    EXPECT_TRUE(env->send_file(env, -1, "near", 0, 7, -1, &transfer, &err) == SGS_OK);
    EXPECT_EQ_I64(transfer.sent, 1);
    EXPECT_TRUE(env->open_file == base.open_file);
}

TEST_MAIN()
