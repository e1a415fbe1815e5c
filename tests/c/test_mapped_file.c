/* The mapped file, in both of its modes, and with everything failing behind it. */
#define _GNU_SOURCE
#include "io/mapped_file.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "memory_env.h"
#include "temporary.h"
#include "test.h"

#define NAME "00000000000000000000.index"

static temporary directory;
static memory_env memory;
static const sgs_env *env;
static sgs_mapped_file file;
static sgs_error err;

static void begin(void)
{
    directory = temporary_open();
    memory_env_init(&memory, sgs_env_posix());
    env = &memory.env;
    memset(&err, 0, sizeof err);
}

static void end(void)
{
    EXPECT_TRUE(memory_env_is_balanced(&memory));
    temporary_close(&directory);
}

static sgs_status open_it(uint32_t max_size, bool writable, bool heap)
{
    int fd;
    const sgs_status status =
        env->open_file(env, directory.fd, NAME, writable ? SGS_OPEN_WRITE_OR_CREATE : SGS_OPEN_READ, &fd, &err);
    if (status != SGS_OK)
        return status;
    const sgs_status opened = sgs_mapped_file_open(&file, env, fd, NAME, max_size, writable, heap, &err);
    if (opened != SGS_OK) {
        sgs_error ignored;
        (void)env->close(env, fd, NAME, &ignored); /* still ours */
    }
    return opened;
}

static int64_t size_on_disk(void)
{
    struct stat found;
    return fstatat(directory.fd, NAME, &found, 0) == 0 ? found.st_size : -1;
}

static sgs_status close_it(void) { return sgs_mapped_file_close(&file, env, NAME, &err); }

TEST(it_grows_in_place_and_what_was_written_is_in_the_file)
{
    for (int heap = 0; heap < 2; ++heap) {
        begin();
        REQUIRE_OK(open_it(1 << 20, true, heap == 1), &err);
        EXPECT_EQ_I64(file.length, 0);
        EXPECT_EQ_I64(file.reserved_length, 1 << 20);
        const uint8_t *address = file.data;
        for (uint32_t length = 4096; length <= 1 << 20; length *= 2) {
            REQUIRE_OK(sgs_mapped_file_grow(&file, env, NAME, length, &err), &err);
            EXPECT_EQ_I64(file.data[length - 1], 0);
            file.data[length - 1] = (uint8_t)(length >> 12);
        }
        EXPECT_TRUE(heap == 1 || file.data == address); /* readers never see it move, or keep the old block */
        sgs_mapped_file_release_old(&file, env);
        EXPECT_OK(sgs_mapped_file_grow(&file, env, NAME, 10, &err), &err);
        EXPECT_EQ_I64(file.length, 1 << 20);
        EXPECT_OK(sgs_mapped_file_flush(&file, env, NAME, file.length, SGS_BARRIER(INDEXES), &err), &err);
        EXPECT_EQ_I64(memory_env_calls(&memory, "sync_file"), 1);
        EXPECT_EQ_I64(memory_env_calls(&memory, "sync_mapping"), heap == 1 ? 0 : 1);
        EXPECT_OK(close_it(), &err);
        static uint8_t back[1 << 20];
        EXPECT_EQ_I64(temporary_read(&directory, NAME, back, sizeof back), 1 << 20);
        EXPECT_TRUE(back[4095] == 1 && back[8191] == 2 && back[(1 << 20) - 1] == 0);
        end();
    }
}

TEST(growth_is_bounded_by_the_reserved_range)
{
    for (int heap = 0; heap < 2; ++heap) {
        begin();
        REQUIRE_OK(open_it(8192, true, heap == 1), &err);
        EXPECT_STATUS(sgs_mapped_file_grow(&file, env, NAME, 8193, &err), SGS_ILLEGAL_ARGUMENT);
        EXPECT_TEXT(err.file, NAME);
        EXPECT_OK(sgs_mapped_file_grow(&file, env, NAME, 8192, &err), &err);
        EXPECT_OK(close_it(), &err);
        end();
    }
}

TEST(a_file_that_exists_is_there_whole_even_above_the_maximum)
{
    for (int heap = 0; heap < 2; ++heap) {
        begin();
        temporary_write(&directory, NAME, "0123456789", 10);
        REQUIRE_OK(open_it(4, true, heap == 1), &err);
        EXPECT_EQ_I64(file.length, 10);
        EXPECT_EQ_I64(file.reserved_length, 10);
        EXPECT_MEM(file.data, "0123456789", 10);
        EXPECT_OK(close_it(), &err);
        EXPECT_EQ_I64(size_on_disk(), 10);
        end();
    }
}

TEST(cut_and_extended_again_it_holds_zeros)
{
    for (int heap = 0; heap < 2; ++heap) {
        begin();
        temporary_write(&directory, NAME, "0123456789", 10);
        REQUIRE_OK(open_it(100, true, heap == 1), &err);
        EXPECT_OK(sgs_mapped_file_resize(&file, env, NAME, 4, &err), &err);
        EXPECT_EQ_I64(file.length, 4);
        EXPECT_EQ_I64(size_on_disk(), 4);
        EXPECT_OK(sgs_mapped_file_resize(&file, env, NAME, 8, &err), &err);
        EXPECT_MEM(file.data, "0123\0\0\0\0", 8);
        EXPECT_OK(sgs_mapped_file_resize(&file, env, NAME, 8, &err), &err);
        EXPECT_OK(close_it(), &err);
        uint8_t back[16];
        EXPECT_EQ_I64(temporary_read(&directory, NAME, back, sizeof back), 8);
        EXPECT_MEM(back, "0123\0\0\0\0", 8);
        end();
    }
}

TEST(cut_and_grown_again_it_holds_zeros)
{
    for (int heap = 0; heap < 2; ++heap)
        for (uint32_t length = 8; length <= 16; length += 8) { /* within the memory that there is, and beyond */
            begin();
            temporary_write(&directory, NAME, "0123456789", 10);
            REQUIRE_OK(open_it(100, true, heap == 1), &err);
            EXPECT_OK(sgs_mapped_file_resize(&file, env, NAME, 4, &err), &err);
            EXPECT_OK(sgs_mapped_file_grow(&file, env, NAME, length, &err), &err);
            EXPECT_EQ_I64(file.length, length);
            EXPECT_MEM(file.data, "0123\0\0\0\0\0\0\0\0\0\0\0", length);
            EXPECT_TRUE(heap == 0 || sgs_mapped_file_memory(&file) >= 10);
            EXPECT_OK(close_it(), &err);
            end();
        }
}

TEST(a_size_above_the_reserved_range_moves_it_with_its_contents)
{
    for (int heap = 0; heap < 2; ++heap) {
        begin();
        REQUIRE_OK(open_it(0, true, heap == 1), &err);
        EXPECT_TRUE(file.data == NULL && file.length == 0);
        EXPECT_OK(sgs_mapped_file_resize(&file, env, NAME, 4096, &err), &err);
        EXPECT_TRUE(heap == 0 || sgs_mapped_file_memory(&file) == 0); /* a full size costs no memory [DUR-62] */
        if (heap == 1)
            EXPECT_OK(sgs_mapped_file_set_memory(&file, env, NAME, 8192, &err), &err);
        file.data[4095] = 'x';
        EXPECT_OK(sgs_mapped_file_resize(&file, env, NAME, 1 << 20, &err), &err);
        EXPECT_EQ_I64(file.reserved_length, 1 << 20);
        EXPECT_EQ_I64(file.data[4095], 'x');
        EXPECT_EQ_I64(file.data[4096], 0);
        EXPECT_STATUS(sgs_mapped_file_resize(&file, env, NAME, UINT32_MAX, &err), SGS_ILLEGAL_ARGUMENT);
        EXPECT_OK(close_it(), &err);
        EXPECT_EQ_I64(size_on_disk(), 1 << 20);
        end();
    }
}

TEST(read_only_nothing_changes)
{
    for (int heap = 0; heap < 2; ++heap) {
        begin();
        temporary_write(&directory, NAME, "0123456789", 10);
        REQUIRE_OK(open_it(1 << 20, false, heap == 1), &err);
        EXPECT_EQ_I64(file.reserved_length, 10);
        EXPECT_STATUS(sgs_mapped_file_grow(&file, env, NAME, 20, &err), SGS_ILLEGAL_STATE);
        EXPECT_STATUS(sgs_mapped_file_resize(&file, env, NAME, 5, &err), SGS_ILLEGAL_STATE);
        EXPECT_OK(sgs_mapped_file_flush(&file, env, NAME, 10, SGS_BARRIER(INDEXES), &err), &err);
        EXPECT_EQ_I64(memory_env_calls(&memory, "sync_file"), 0);
        EXPECT_MEM(file.data, "0123456789", 10);
        EXPECT_OK(close_it(), &err);
        EXPECT_EQ_I64(memory_env_calls(&memory, "write_at"), 0);
        end();
    }
}

TEST(an_empty_file_has_no_mapping_and_closing_twice_is_harmless)
{
    begin();
    temporary_write(&directory, NAME, "", 0);
    REQUIRE_OK(open_it(1 << 20, false, false), &err);
    EXPECT_TRUE(file.data == NULL && file.length == 0);
    EXPECT_OK(close_it(), &err);
    EXPECT_EQ_I64(file.fd, -1);
    EXPECT_OK(close_it(), &err);
    EXPECT_STATUS(sgs_mapped_file_flush(&file, env, NAME, 0, SGS_BARRIER(INDEXES), &err), SGS_CLOSED);
    EXPECT_STATUS(sgs_mapped_file_grow(&file, env, NAME, 1, &err), SGS_CLOSED);
    end();
}

TEST(a_flush_reaches_no_further_than_the_file)
{
    begin();
    REQUIRE_OK(open_it(100, true, false), &err);
    EXPECT_STATUS(sgs_mapped_file_flush(&file, env, NAME, 1, SGS_BARRIER(INDEXES), &err), SGS_ILLEGAL_ARGUMENT);
    EXPECT_OK(sgs_mapped_file_flush(&file, env, NAME, 0, SGS_BARRIER(INDEXES), &err), &err);
    EXPECT_EQ_I64(memory_env_calls(&memory, "sync_file"), 1);
    EXPECT_OK(close_it(), &err);
    end();
}

TEST(a_giant_file_is_refused_before_anything_is_sized_by_it)
{
    /* [DUR-97, DUR-102] sparse: it takes no space */
    begin();
    temporary_write(&directory, NAME, "", 0);
    char path[400];
    (void)snprintf(path, sizeof path, "%s/%s", directory.path, NAME);
    REQUIRE_EQ_I64(truncate(path, INT64_C(1) << 31), 0);
    EXPECT_STATUS(open_it(100, false, false), SGS_LIMIT_EXCEEDED);
    EXPECT_STATUS(open_it(100, false, true), SGS_LIMIT_EXCEEDED);
    EXPECT_TEXT(err.file, NAME);
    REQUIRE_EQ_I64(truncate(path, (64 << 20) + 1), 0);
    EXPECT_STATUS(open_it(100, false, true), SGS_LIMIT_EXCEEDED);
    EXPECT_EQ_I64(memory_env_calls(&memory, "allocate"), 0);
    EXPECT_OK(open_it(100, false, false), &err);
    EXPECT_OK(close_it(), &err);
    end();
}

TEST(a_heap_reader_is_safe_from_a_file_that_shrinks)
{
    /* [DUR-27] */
    begin();
    static uint8_t bytes[100000];
    memset(bytes, 7, sizeof bytes);
    temporary_write(&directory, NAME, bytes, sizeof bytes);
    REQUIRE_OK(open_it(0, false, true), &err);
    temporary_write(&directory, NAME, "", 0);
    EXPECT_EQ_I64(file.length, sizeof bytes);
    EXPECT_MEM(file.data, bytes, sizeof bytes);
    EXPECT_OK(close_it(), &err);
    end();
}

/* A run through everything, stopping at the first error; what was opened is closed. */
static sgs_status whole_life(bool heap)
{
    (void)unlinkat(directory.fd, NAME, 0); /* each life begins with a new file */
    sgs_status status = open_it(8192, true, heap);
    if (status != SGS_OK)
        return status;
    status = sgs_mapped_file_grow(&file, env, NAME, 4096, &err);
    if (status == SGS_OK) {
        memset(file.data, 'x', 4096);
        status = sgs_mapped_file_flush(&file, env, NAME, 4096, SGS_BARRIER(INDEXES), &err);
    }
    if (status == SGS_OK)
        status = sgs_mapped_file_resize(&file, env, NAME, 16384, &err);
    if (status == SGS_OK)
        status = sgs_mapped_file_resize(&file, env, NAME, 100, &err);
    sgs_error later;
    const sgs_status closed = sgs_mapped_file_close(&file, env, NAME, status == SGS_OK ? &err : &later);
    return status == SGS_OK ? closed : status;
}

TEST(every_call_may_fail_and_everything_is_given_back)
{
    /* [DUR-111] each env call of a whole life fails once, with each errno that fits */
    const int os_errors[] = { EIO, ENOSPC, ENOMEM };
    for (int heap = 0; heap < 2; ++heap) {
        begin();
        REQUIRE_OK(whole_life(heap == 1), &err);
        int64_t needed[MEMORY_ENV_CALL_COUNT];
        memcpy(needed, memory.calls, sizeof needed);
        for (int call = 0; call < MEMORY_ENV_CALL_COUNT; ++call) {
            if (call == MEMORY_ENV_release || call == MEMORY_ENV_unmap)
                continue; /* cannot fail */
            for (int64_t nth = 1; nth <= needed[call]; ++nth) {
                for (size_t e = 0; e < sizeof os_errors / sizeof os_errors[0]; ++e) {
                    memory_env_heal(&memory);
                    memory_env_fail(&memory, memory_env_name((memory_env_call)call), nth, os_errors[e]);
                    memset(&err, 0, sizeof err);
                    const sgs_status status = whole_life(heap == 1);
                    EXPECT_TRUE(status != SGS_OK);
                    EXPECT_STATUS(err.status, status);
                    EXPECT_TEXT(err.file, NAME);
                    EXPECT_TRUE(memory_env_is_balanced(&memory));
                    EXPECT_EQ_I64(file.fd, -1);
                }
            }
        }
        end();
    }
}

TEST(a_failed_step_leaves_the_file_as_it_was)
{
    begin();
    REQUIRE_OK(open_it(1 << 20, true, false), &err);
    REQUIRE_OK(sgs_mapped_file_grow(&file, env, NAME, 4096, &err), &err);
    memset(file.data, 'x', 4096);
    memory_env_fail(&memory, "allocate_space", 1, ENOSPC);
    EXPECT_STATUS(sgs_mapped_file_grow(&file, env, NAME, 8192, &err), SGS_DISK_FULL);
    EXPECT_EQ_I64(file.length, 4096);
    EXPECT_EQ_I64(file.data[4095], 'x');
    EXPECT_OK(sgs_mapped_file_grow(&file, env, NAME, 8192, &err), &err); /* space has returned [DUR-30] */
    file.data[8191] = 'y';
    EXPECT_OK(close_it(), &err);
    end();
}

TEST(growth_beyond_a_real_limit_is_an_error_and_never_a_signal)
{
    /* [DUR-25] in a child, for the limit's sake */
    begin();
    (void)fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        (void)signal(SIGXFSZ, SIG_IGN);
        const struct rlimit limits = { 65536, 65536 };
        if (setrlimit(RLIMIT_FSIZE, &limits) != 0 || open_it(1 << 20, true, false) != SGS_OK)
            _exit(2);
        uint32_t length = 4096;
        sgs_status status = SGS_OK;
        for (; status == SGS_OK; length += 4096) {
            status = sgs_mapped_file_grow(&file, env, NAME, length, &err);
            memset(file.data, 'x', file.length);
        }
        _exit(status == SGS_DISK_FULL && file.length == 65536 && close_it() == SGS_OK ? 0 : 1);
    }
    int status = -1;
    REQUIRE_EQ_I64(waitpid(child, &status, 0), child);
    EXPECT_EQ_I64(status, 0);
    EXPECT_EQ_I64(size_on_disk(), 65536);
    end();
}

TEST_MAIN()
