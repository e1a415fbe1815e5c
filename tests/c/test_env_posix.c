/* Files, mappings and locks of the real environment, on a real file system. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
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

static int opened(const char *name, sgs_open_mode mode)
{
    int fd = -1;
    EXPECT_OK(env->open_file(env, directory.fd, name, mode, &fd, &err), &err);
    return fd;
}

TEST(each_mode_opens_what_it_says)
{
    begin();
    int fd = -7;
    EXPECT_STATUS(env->open_file(env, directory.fd, "a", SGS_OPEN_READ, &fd, &err), SGS_NOT_FOUND);
    EXPECT_TEXT(err.file, "a");
    EXPECT_EQ_I64(err.os_error, ENOENT);
    EXPECT_STATUS(env->open_file(env, directory.fd, "a", SGS_OPEN_WRITE, &fd, &err), SGS_NOT_FOUND);
    EXPECT_EQ_I64(fd, -7); /* results are written on success only */
    (void)env->close(env, opened("a", SGS_OPEN_CREATE), "a", &err);
    EXPECT_STATUS(env->open_file(env, directory.fd, "a", SGS_OPEN_CREATE, &fd, &err),
                  SGS_ALREADY_EXISTS); /* [DUR-11] */
    (void)env->close(env, opened("a", SGS_OPEN_READ), "a", &err);
    (void)env->close(env, opened("a", SGS_OPEN_WRITE), "a", &err);
    (void)env->close(env, opened("a", SGS_OPEN_WRITE_OR_CREATE), "a", &err);
    (void)env->close(env, opened("b", SGS_OPEN_WRITE_OR_CREATE), "b", &err);
    EXPECT_TRUE(temporary_has(&directory, "b"));
    end();
}

TEST(new_files_are_private_and_descriptors_are_not_inherited)
{
    /* [DUR-99, DUR-100] */
    begin();
    const mode_t before = umask(0);
    const int fd = opened("a", SGS_OPEN_CREATE);
    (void)umask(before);
    struct stat found;
    REQUIRE_EQ_I64(fstat(fd, &found), 0);
    EXPECT_EQ_I64(found.st_mode & 0777, 0640);
    EXPECT_TRUE((fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0);
    EXPECT_OK(env->close(env, fd, "a", &err), &err);
    end();
}

TEST(only_regular_files_are_opened_and_no_link_is_followed)
{
    /* [DUR-99] */
    begin();
    temporary_write(&directory, "file", "x", 1);
    REQUIRE_EQ_I64(symlinkat("file", directory.fd, "link"), 0);
    REQUIRE_EQ_I64(symlinkat("nowhere", directory.fd, "dangling"), 0);
    REQUIRE_EQ_I64(mkfifoat(directory.fd, "pipe", 0600), 0);
    REQUIRE_EQ_I64(mkdirat(directory.fd, "directory", 0700), 0);
    const int listener = socket(AF_UNIX, SOCK_STREAM, 0);
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    const int size = snprintf(address.sun_path, sizeof address.sun_path, "%s/socket", directory.path);
    if (size > 0 && (size_t)size < sizeof address.sun_path)
        REQUIRE_EQ_I64(bind(listener, (struct sockaddr *)&address, sizeof address), 0);
    const char *const names[] = { "link", "dangling", "pipe", "directory", "socket" };
    const sgs_open_mode modes[] = { SGS_OPEN_READ, SGS_OPEN_WRITE, SGS_OPEN_WRITE_OR_CREATE };
    for (size_t n = 0; n < sizeof names / sizeof names[0]; ++n) {
        for (size_t m = 0; m < sizeof modes / sizeof modes[0]; ++m) {
            int fd = -1;
            EXPECT_STATUS(env->open_file(env, directory.fd, names[n], modes[m], &fd, &err), SGS_NOT_A_LOG);
            EXPECT_TEXT(err.file, names[n]);
            EXPECT_EQ_I64(fd, -1);
        }
    }
    EXPECT_TRUE(!temporary_has(&directory, "nowhere"));
    (void)close(listener);
    end();
}

TEST(what_is_written_in_slices_is_read_back_as_one)
{
    begin();
    const int fd = opened("a", SGS_OPEN_CREATE);
    const sgs_slice slices[] = {
        { (const uint8_t *)"one ", 4 }, { NULL, 0 }, { (const uint8_t *)"two ", 4 }, { (const uint8_t *)"three", 5 }
    };
    int64_t written = -1;
    EXPECT_OK(env->write_at(env, fd, "a", slices, 4, 100, &written, &err), &err);
    EXPECT_EQ_I64(written, 13);

    uint8_t data[64];
    size_t got = 0;
    EXPECT_OK(env->read_at(env, fd, "a", data, 13, 100, &got, &err), &err);
    EXPECT_EQ_I64(got, 13);
    EXPECT_MEM(data, "one two three", 13);
    EXPECT_OK(env->read_at(env, fd, "a", data, sizeof data, 109, &got, &err), &err);
    EXPECT_EQ_I64(got, 4); /* shorter only at the end */
    EXPECT_OK(env->read_at(env, fd, "a", data, sizeof data, 113, &got, &err), &err);
    EXPECT_EQ_I64(got, 0);
    sgs_file_info info;
    EXPECT_OK(env->file_info(env, fd, "a", &info, &err), &err);
    EXPECT_EQ_I64(info.size, 113);
    EXPECT_OK(env->close(env, fd, "a", &err), &err);
    end();
}

/* Few bytes are joined for one pwrite, more are written by pwritev: nobody can tell. */
TEST(slices_of_any_size_are_written_the_same_way)
{
    begin();
    static uint8_t bytes[3 * 4096], back[sizeof bytes];
    for (size_t i = 0; i < sizeof bytes; ++i)
        bytes[i] = (uint8_t)(i * 7 + i / 256);
    static const size_t sizes[][2] = { { 1, 1 },    { 61, 4034 },   { 61, 4035 },   { 61, 4036 },
                                       { 4095, 1 }, { 4096, 1 },    { 1, 4096 },    { 4096, 4096 },
                                       { 0, 4097 }, { 8000, 4000 }, { 4000, 8000 }, { 4096, 0 } };
    const int fd = opened("a", SGS_OPEN_CREATE);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; ++i) {
        const size_t first = sizes[i][0], size = first + sizes[i][1];
        const sgs_slice slices[] = { { bytes, first }, { bytes + first, sizes[i][1] } };
        int64_t written = -1;
        size_t got = 0;
        EXPECT_OK(env->truncate(env, fd, "a", 0, &err), &err);
        EXPECT_OK(env->write_at(env, fd, "a", slices, 2, 3, &written, &err), &err);
        EXPECT_EQ_I64(written, size);
        EXPECT_OK(env->read_at(env, fd, "a", back, sizeof back, 3, &got, &err), &err);
        EXPECT_EQ_I64(got, size);
        EXPECT_MEM(back, bytes, size);
    }
    EXPECT_OK(env->close(env, fd, "a", &err), &err);
    end();
}

TEST(more_slices_than_the_system_takes_at_once_are_all_written)
{
    /* [DUR-37] */
    begin();
    enum { SLICES = 3001, LARGEST = 31 };
    static uint8_t bytes[SLICES * LARGEST];
    static sgs_slice slices[SLICES];
    size_t total = 0;
    for (size_t i = 0; i < sizeof bytes; ++i)
        bytes[i] = (uint8_t)(i * 7 + i / 256);
    for (size_t i = 0; i < SLICES; ++i) {
        slices[i] = (sgs_slice){ bytes + total, i % (LARGEST + 1) };
        total += i % (LARGEST + 1);
    }
    const int fd = opened("a", SGS_OPEN_CREATE);
    int64_t written;
    EXPECT_OK(env->write_at(env, fd, "a", slices, SLICES, 5, &written, &err), &err);
    EXPECT_EQ_I64(written, total);
    static uint8_t back[sizeof bytes];
    size_t got;
    EXPECT_OK(env->read_at(env, fd, "a", back, total, 5, &got, &err), &err);
    EXPECT_EQ_I64(got, total);
    EXPECT_MEM(back, bytes, total);
    EXPECT_OK(env->close(env, fd, "a", &err), &err);
    end();
}

/* In a child process with a file size limit, as a disk that fills up: what, how far, and still usable? */
static void with_file_limit(rlim_t limit, void (*run)(void))
{
    (void)fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        (void)signal(SIGXFSZ, SIG_IGN);
        const struct rlimit limits = { limit, limit };
        if (setrlimit(RLIMIT_FSIZE, &limits) != 0)
            _exit(2);
        test_failures = 0;
        run();
        (void)fflush(stdout);
        _exit(test_failures == 0 ? 0 : 1);
    }
    int status = -1;
    REQUIRE_EQ_I64(waitpid(child, &status, 0), child);
    EXPECT_EQ_I64(status, 0);
}

static void write_beyond_the_limit(void)
{
    const int fd = opened("a", SGS_OPEN_CREATE);
    static const uint8_t bytes[6000];
    const sgs_slice slices[] = { { bytes, 6000 }, { bytes, 6000 } };
    int64_t written = -1;
    EXPECT_STATUS(env->write_at(env, fd, "a", slices, 2, 0, &written, &err), SGS_DISK_FULL);
    EXPECT_EQ_I64(written, 8192);
    EXPECT_EQ_I64(err.position, 8192);
    EXPECT_EQ_I64(err.os_error, EFBIG);
    EXPECT_TEXT(err.file, "a");
    EXPECT_OK(env->truncate(env, fd, "a", 100, &err), &err);
    EXPECT_OK(env->write_at(env, fd, "a", slices, 1, 100, &written, &err), &err);
    EXPECT_STATUS(env->truncate(env, fd, "a", 10000, &err), SGS_DISK_FULL);
    EXPECT_STATUS(env->allocate_space(env, fd, "a", 10000, &err), SGS_DISK_FULL);
    sgs_file_info info;
    EXPECT_OK(env->file_info(env, fd, "a", &info, &err), &err);
    EXPECT_EQ_I64(info.size, 6100); /* a refused allocation leaves the size alone */
    EXPECT_OK(env->close(env, fd, "a", &err), &err);
}

TEST(a_full_disk_is_an_error_that_says_how_far_it_got_and_goes_away_with_its_cause)
{
    /* [DUR-30, DUR-32] */
    begin();
    with_file_limit(8192, write_beyond_the_limit);
    end();
}

TEST(allocated_space_is_zero_and_there)
{
    /* [DUR-25] */
    begin();
    temporary_write(&directory, "a", "abc", 3);
    const int fd = opened("a", SGS_OPEN_WRITE);
    EXPECT_OK(env->allocate_space(env, fd, "a", 100000, &err), &err);
    struct stat found;
    REQUIRE_EQ_I64(fstat(fd, &found), 0);
    EXPECT_EQ_I64(found.st_size, 100000);
    EXPECT_TRUE(found.st_blocks * 512 >= 100000);
    uint8_t data[8];
    size_t got;
    EXPECT_OK(env->read_at(env, fd, "a", data, 8, 0, &got, &err), &err);
    EXPECT_MEM(data, "abc\0\0\0\0\0", 8);
    EXPECT_OK(env->allocate_space(env, fd, "a", 10, &err), &err); /* never shorter */
    EXPECT_OK(env->allocate_space(env, fd, "a", 0, &err), &err);
    EXPECT_STATUS(env->allocate_space(env, fd, "a", -1, &err), SGS_WRITE_IO);
    REQUIRE_EQ_I64(fstat(fd, &found), 0);
    EXPECT_EQ_I64(found.st_size, 100000);
    EXPECT_OK(env->close(env, fd, "a", &err), &err);
    end();
}

TEST(errors_carry_file_position_and_errno)
{
    begin();
    temporary_write(&directory, "a", "abc", 3);
    const int fd = opened("a", SGS_OPEN_READ);
    const sgs_slice slice = { (const uint8_t *)"x", 1 };
    int64_t written;
    EXPECT_STATUS(env->write_at(env, fd, "a", &slice, 1, 7, &written, &err), SGS_WRITE_IO); /* opened for reading */
    EXPECT_EQ_I64(err.position, 7);
    EXPECT_EQ_I64(err.os_error, EBADF);
    uint8_t byte;
    size_t got;
    EXPECT_STATUS(env->read_at(env, fd, "a", &byte, 1, -5, &got, &err), SGS_READ_IO);
    EXPECT_EQ_I64(err.position, -5);
    EXPECT_STATUS(env->truncate(env, fd, "a", 1, &err), SGS_WRITE_IO);
    EXPECT_OK(env->close(env, fd, "a", &err), &err);
    EXPECT_STATUS(env->close(env, fd, "a", &err), SGS_CLOSE_FAILED);                                    /* [DUR-34] */
    EXPECT_STATUS(env->sync_data(env, fd, "a", SGS_BARRIER(APPENDED_RECORDS), &err), SGS_FSYNC_FAILED); /* [DUR-35] */
    EXPECT_STATUS(env->sync_file(env, fd, "a", SGS_BARRIER(APPENDED_RECORDS), &err), SGS_FSYNC_FAILED);
    sgs_file_info info;
    EXPECT_STATUS(env->file_info(env, fd, "a", &info, &err), SGS_READ_IO);
    EXPECT_TEXT(err.file, "a");
    end();
}

TEST(without_descriptors_nothing_opens_and_nothing_is_lost)
{
    /* [DUR-31] */
    begin();
    temporary_write(&directory, "a", "abc", 3);
    struct rlimit before;
    REQUIRE_EQ_I64(getrlimit(RLIMIT_NOFILE, &before), 0);
    const struct rlimit none = { (rlim_t)directory.fd + 1, before.rlim_max };
    REQUIRE_EQ_I64(setrlimit(RLIMIT_NOFILE, &none), 0);
    int fd = -1;
    EXPECT_STATUS(env->open_file(env, directory.fd, "a", SGS_OPEN_READ, &fd, &err), SGS_RESOURCE);
    EXPECT_STATUS(env->open_directory(env, directory.fd, ".", &fd, &err), SGS_RESOURCE);
    REQUIRE_EQ_I64(setrlimit(RLIMIT_NOFILE, &before), 0);
    end();
}

TEST(a_mapping_is_the_file)
{
    begin();
    temporary_write(&directory, "a", "abcdef", 6);
    const int fd = opened("a", SGS_OPEN_WRITE);
    void *address = NULL;
    REQUIRE_OK(env->map(env, fd, "a", 1 << 20, true, &address, &err), &err); /* beyond the end, to grow into */
    uint8_t *bytes = address;
    EXPECT_MEM(bytes, "abcdef", 6);
    bytes[0] = 'X';
    EXPECT_OK(env->allocate_space(env, fd, "a", 8192, &err), &err);
    bytes[8191] = 'Z';
    EXPECT_OK(env->sync_mapping(env, address, 8192, "a", &err), &err);
    uint8_t data[8192];
    EXPECT_EQ_I64(temporary_read(&directory, "a", data, sizeof data), 8192);
    EXPECT_TRUE(data[0] == 'X' && data[8191] == 'Z');
    env->unmap(env, address, 1 << 20);
    EXPECT_STATUS(env->map(env, fd, "a", 0, true, &address, &err), SGS_READ_IO);
    EXPECT_OK(env->close(env, fd, "a", &err), &err);
    const int reader = opened("a", SGS_OPEN_READ);
    EXPECT_STATUS(env->map(env, reader, "a", 4096, true, &address, &err), SGS_PERMISSION);
    EXPECT_OK(env->close(env, reader, "a", &err), &err);
    end();
}

TEST(two_descriptors_of_one_process_shut_each_other_out)
{
    /* [DUR-65] open-file-description locks; closing another descriptor of the file does not release them */
    begin();
    const int first = opened(".lock", SGS_OPEN_WRITE_OR_CREATE);
    const int second = opened(".lock", SGS_OPEN_WRITE_OR_CREATE);
    const int third = opened(".lock", SGS_OPEN_READ);
    EXPECT_OK(env->lock(env, first, ".lock", SGS_LOCK_EXCLUSIVE, &err), &err);
    EXPECT_STATUS(env->lock(env, second, ".lock", SGS_LOCK_EXCLUSIVE, &err), SGS_LOCKED);
    EXPECT_TEXT(err.file, ".lock");
    EXPECT_STATUS(env->lock(env, third, ".lock", SGS_LOCK_SHARED, &err), SGS_LOCKED);
    EXPECT_OK(env->close(env, second, ".lock", &err), &err);
    EXPECT_STATUS(env->lock(env, third, ".lock", SGS_LOCK_SHARED, &err), SGS_LOCKED);
    EXPECT_OK(env->unlock(env, first, ".lock", &err), &err);
    EXPECT_OK(env->lock(env, third, ".lock", SGS_LOCK_SHARED, &err), &err);
    EXPECT_OK(env->lock(env, first, ".lock", SGS_LOCK_SHARED, &err), &err);
    EXPECT_STATUS(env->lock(env, first, ".lock", SGS_LOCK_EXCLUSIVE, &err), SGS_LOCKED);
    EXPECT_STATUS(env->lock(env, third, ".lock", SGS_LOCK_EXCLUSIVE, &err), SGS_WRITE_IO); /* opened for reading */
    EXPECT_OK(env->close(env, first, ".lock", &err), &err);
    EXPECT_OK(env->close(env, third, ".lock", &err), &err);
    end();
}

static void expect_locked(void)
{
    const int fd = opened(".lock", SGS_OPEN_WRITE);
    EXPECT_STATUS(env->lock(env, fd, ".lock", SGS_LOCK_EXCLUSIVE, &err), SGS_LOCKED);
    EXPECT_OK(env->close(env, fd, ".lock", &err), &err);
}

TEST(another_process_is_shut_out_until_the_holder_dies)
{
    begin();
    const int fd = opened(".lock", SGS_OPEN_WRITE_OR_CREATE);
    EXPECT_OK(env->lock(env, fd, ".lock", SGS_LOCK_EXCLUSIVE, &err), &err);
    with_file_limit(RLIM_INFINITY, expect_locked);
    EXPECT_OK(env->close(env, fd, ".lock", &err), &err);
    const int again = opened(".lock", SGS_OPEN_WRITE);
    EXPECT_OK(env->lock(env, again, ".lock", SGS_LOCK_EXCLUSIVE, &err), &err);
    EXPECT_OK(env->close(env, again, ".lock", &err), &err);
    end();
}

TEST(syncs_and_advice_work_on_a_file)
{
    begin();
    const int fd = opened("a", SGS_OPEN_CREATE);
    EXPECT_OK(env->truncate(env, fd, "a", 12345, &err), &err);
    EXPECT_OK(env->sync_data(env, fd, "a", SGS_BARRIER(APPENDED_RECORDS), &err), &err);
    EXPECT_OK(env->sync_file(env, fd, "a", SGS_BARRIER(APPENDED_RECORDS), &err), &err);
    env->drop_cache(env, fd, 0, 0);
    env->read_ahead(env, fd, 0, 4096);
    EXPECT_EQ_I64(lseek(fd, 0, SEEK_END), 12345);
    EXPECT_OK(env->close(env, fd, "a", &err), &err);
    end();
}

TEST(clocks_run_and_the_process_has_a_number)
{
    begin();
    const int64_t start = env->monotonic_ns(env);
    EXPECT_TRUE(env->wall_clock_ms(env) > INT64_C(1577836800000)); /* 2020 */
    while (env->monotonic_ns(env) == start)
        ;
    EXPECT_TRUE(env->monotonic_ns(env) > start);
    EXPECT_EQ_I64(env->process_id(env), getpid());
    bool is_network = true;
    EXPECT_OK(env->is_network_file_system(env, directory.fd, &is_network, &err), &err);
    EXPECT_STATUS(env->is_network_file_system(env, -1, &is_network, &err), SGS_READ_IO);
    end();
}

static void on_alarm(int number) { (void)number; }

TEST(an_interrupting_signal_changes_nothing)
{
    /* [DUR-37] A timer fires all the time while files are written, read, synced and closed. */
    begin();
    const struct sigaction action = { .sa_handler = on_alarm }; /* no SA_RESTART */
    struct sigaction before;
    REQUIRE_EQ_I64(sigaction(SIGALRM, &action, &before), 0);
    const struct itimerval often = { { 0, 200 }, { 0, 200 } };
    REQUIRE_EQ_I64(setitimer(ITIMER_REAL, &often, NULL), 0);
    static uint8_t bytes[1 << 16];
    memset(bytes, 'x', sizeof bytes);
    const sgs_slice slices[] = { { bytes, sizeof bytes }, { bytes, 77 } };
    for (int i = 0; i < 50; ++i) {
        const int fd = opened("a", SGS_OPEN_WRITE_OR_CREATE);
        int64_t written = 0;
        size_t got = 0;
        EXPECT_OK(env->write_at(env, fd, "a", slices, 2, i, &written, &err), &err);
        EXPECT_EQ_I64(written, sizeof bytes + 77);
        EXPECT_OK(env->allocate_space(env, fd, "a", 200000 + i, &err), &err);
        EXPECT_OK(env->sync_data(env, fd, "a", SGS_BARRIER(APPENDED_RECORDS), &err), &err);
        EXPECT_OK(env->read_at(env, fd, "a", bytes, sizeof bytes, i, &got, &err), &err);
        EXPECT_EQ_I64(got, sizeof bytes);
        EXPECT_OK(env->close(env, fd, "a", &err), &err);
    }
    const struct itimerval never = { { 0, 0 }, { 0, 0 } };
    REQUIRE_EQ_I64(setitimer(ITIMER_REAL, &never, NULL), 0);
    REQUIRE_EQ_I64(sigaction(SIGALRM, &before, NULL), 0);
    end();
}

TEST_MAIN()
