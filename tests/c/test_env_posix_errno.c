/* test_env_posix_errno.c - each call of the system that env_posix makes fails with each errno: EINTR is tried again, a short
 * one goes on, anything else becomes the status of section 3 of the durability rules [DUR-30..DUR-40, DUR-111]. */
#include "failing_system.h"
#include "io/env.h"
#include "temporary.h"

/* ---- what is asked of env_posix ---- */

static const sgs_barrier any = SGS_BARRIER(APPENDED_RECORDS);
typedef struct fixture {
    temporary directory;
    const sgs_env *env;
    int fd; /* of "file", twelve bytes */
    sgs_error err;
} fixture;

static void begin(fixture *f)
{
    heal();
    f->directory = temporary_open();
    f->env = sgs_env_posix();
    temporary_write(&f->directory, "file", "twelve bytes", 12);
    REQUIRE_OK(f->env->open_file(f->env, f->directory.fd, "file", SGS_OPEN_WRITE, &f->fd, &f->err), &f->err);
}

static void end(fixture *f)
{
    heal();
    EXPECT_OK(f->env->close(f->env, f->fd, "file", &f->err), &f->err);
    temporary_close(&f->directory);
}

static sgs_status no_name(void *context, const char *name, sgs_error *err)
{
    (void)name;
    (void)err;
    ++*(int64_t *)context;
    return SGS_OK;
}

static sgs_status open_one(fixture *f)
{
    int fd = -1;
    SGS_TRY(f->env->open_file(f->env, f->directory.fd, "file", SGS_OPEN_READ, &fd, &f->err));
    return f->env->close(f->env, fd, "file", &f->err);
}

static sgs_status create_one(fixture *f)
{
    int fd = -1;
    SGS_TRY(f->env->open_file(f->env, f->directory.fd, "new", SGS_OPEN_WRITE_OR_CREATE, &fd, &f->err));
    return f->env->close(f->env, fd, "new", &f->err);
}

static sgs_status close_one(fixture *f) { return f->env->close(f->env, dup(f->fd), "file", &f->err); }

static sgs_status look(fixture *f)
{
    sgs_file_info info;
    return f->env->file_info(f->env, f->fd, "file", &info, &f->err);
}

static sgs_status read_all(fixture *f)
{
    char bytes[20];
    size_t got = 0;
    SGS_TRY(f->env->read_at(f->env, f->fd, "file", bytes, sizeof bytes, 0, &got, &f->err));
    EXPECT_TRUE(got == 12 && memcmp(bytes, "twelve bytes", 12) == 0);
    return SGS_OK;
}

static sgs_status write_slices(fixture *f, size_t count)
{
    const uint8_t *const text = (const uint8_t *)"twelve bytes";
    const sgs_slice slices[] = { { text, 5 }, { text + 5, 0 }, { text + 5, 7 } };
    const sgs_slice one = { text, 12 };
    int64_t written = 0;
    SGS_TRY(f->env->write_at(f->env, f->fd, "file", count == 1 ? &one : slices, count, 0, &written, &f->err));
    EXPECT_EQ_I64(written, 12);
    return read_all(f);
}

static sgs_status write_one(fixture *f) { return write_slices(f, 1); }
static sgs_status write_some(fixture *f) { return write_slices(f, 3); } /* so few bytes are joined */

static sgs_status write_large(fixture *f)
{
    static uint8_t bytes[6000], back[sizeof bytes];
    for (size_t i = 0; i < sizeof bytes; ++i)
        bytes[i] = (uint8_t)(i * 7 + i / 256);
    const sgs_slice slices[] = { { bytes, 61 }, { bytes + 61, sizeof bytes - 61 } };
    int64_t written = 0;
    size_t got = 0;
    SGS_TRY(f->env->write_at(f->env, f->fd, "file", slices, 2, 0, &written, &f->err));
    EXPECT_EQ_I64(written, sizeof bytes);
    SGS_TRY(f->env->read_at(f->env, f->fd, "file", back, sizeof back, 0, &got, &f->err));
    EXPECT_TRUE(got == sizeof back && memcmp(back, bytes, sizeof back) == 0);
    return SGS_OK;
}

static sgs_status set_size(fixture *f) { return f->env->truncate(f->env, f->fd, "file", 12, &f->err); }
static sgs_status get_space(fixture *f) { return f->env->allocate_space(f->env, f->fd, "file", 9000, &f->err); }
static sgs_status sync_data(fixture *f) { return f->env->sync_data(f->env, f->fd, "file", any, &f->err); }
static sgs_status sync_file(fixture *f) { return f->env->sync_file(f->env, f->fd, "file", any, &f->err); }
static sgs_status sync_names(fixture *f) { return f->env->sync_directory(f->env, f->directory.fd, any, &f->err); }
static sgs_status lock(fixture *f) { return f->env->lock(f->env, f->fd, "file", SGS_LOCK_EXCLUSIVE, &f->err); }
static sgs_status rename_one(fixture *f) { return f->env->rename(f->env, f->directory.fd, "file", "file", &f->err); }
static sgs_status unlink_one(fixture *f) { return f->env->unlink(f->env, f->directory.fd, "file", &f->err); }

static sgs_status sync_mapping(fixture *f)
{
    void *address;
    SGS_TRY(f->env->map(f->env, f->fd, "file", 4096, true, &address, &f->err));
    const sgs_status status = f->env->sync_mapping(f->env, address, 4096, "file", &f->err);
    f->env->unmap(f->env, address, 4096);
    return status;
}

static sgs_status list(fixture *f)
{
    int64_t names = 0;
    SGS_TRY(f->env->list_directory(f->env, f->directory.fd, no_name, &names, &f->err));
    EXPECT_EQ_I64(names, 1);
    return SGS_OK;
}

static sgs_status open_names(fixture *f)
{
    int fd = -1;
    SGS_TRY(f->env->open_directory(f->env, f->directory.fd, ".", &fd, &f->err));
    return f->env->close(f->env, fd, ".", &f->err);
}

static sgs_status ask_file_system(fixture *f)
{
    bool is_network;
    SGS_TRY(f->env->is_network_file_system(f->env, f->fd, &is_network, &f->err));
    EXPECT_TRUE(!is_network);
    return SGS_OK;
}

typedef struct errno_row {
    const char *call;
    sgs_status (*use)(fixture *f);
    sgs_status otherwise; /* what an errno without a status of its own is there */
    bool has_one_meaning; /* whatever errno says */
} errno_row;

static const errno_row rows[] = {
    { "openat", open_one, SGS_READ_IO, false },
    { "openat", create_one, SGS_WRITE_IO, false },
    { "openat", open_names, SGS_READ_IO, false },
    { "fstat", open_one, SGS_READ_IO, false },
    { "fstat", look, SGS_READ_IO, false },
    { "fstat", get_space, SGS_READ_IO, false },
    { "close", close_one, SGS_CLOSE_FAILED, true },
    { "pread", read_all, SGS_READ_IO, false },
    { "pwrite", write_one, SGS_WRITE_IO, false },
    { "pwrite", write_some, SGS_WRITE_IO, false },
    { "pwritev", write_large, SGS_WRITE_IO, false },
    { "ftruncate", set_size, SGS_WRITE_IO, false },
    { "fallocate", get_space, SGS_WRITE_IO, false },
    { "fdatasync", sync_data, SGS_FSYNC_FAILED, true },
    { "fsync", sync_file, SGS_FSYNC_FAILED, true },
    { "fsync", sync_names, SGS_FSYNC_FAILED, true },
    { "msync", sync_mapping, SGS_FSYNC_FAILED, true },
    { "fcntl", lock, SGS_WRITE_IO, false },
    { "fstatfs", ask_file_system, SGS_READ_IO, false },
    { "renameat", rename_one, SGS_WRITE_IO, false },
    { "unlinkat", unlink_one, SGS_WRITE_IO, false },
    { "fdopendir", list, SGS_READ_IO, false },
    { "readdir", list, SGS_READ_IO, false },
};

static const struct {
    int os_error;
    sgs_status status; /* OK: the row says it */
} errnos[] = { { EIO, SGS_OK },          { ENOSPC, SGS_DISK_FULL }, { EDQUOT, SGS_DISK_FULL },
               { EFBIG, SGS_DISK_FULL }, { EMFILE, SGS_RESOURCE },  { ENFILE, SGS_RESOURCE },
               { ENOMEM, SGS_RESOURCE }, { EROFS, SGS_PERMISSION }, { ENOENT, SGS_NOT_FOUND },
               { ELOOP, SGS_NOT_A_LOG }, { EISDIR, SGS_NOT_A_LOG } };

TEST(every_errno_has_its_status)
{
    for (size_t at = 0; at < sizeof rows / sizeof rows[0]; ++at)
        for (size_t i = 0; i < sizeof errnos / sizeof errnos[0]; ++i) {
            fixture f;
            begin(&f);
            fail(rows[at].call, errnos[i].os_error, FOR_EVER);
            const sgs_status status = rows[at].use(&f);
            const int seen = plan.seen;
            heal();
            const bool is_own = errnos[i].status == SGS_OK || rows[at].has_one_meaning;
            if (!EXPECT_STATUS(status, is_own ? rows[at].otherwise : errnos[i].status) || !EXPECT_TRUE(seen > 0))
                printf("    for %s, errno %d\n", rows[at].call, errnos[i].os_error);
            EXPECT_EQ_I64(f.err.os_error, errnos[i].os_error);
            end(&f);
        }
}

/* [DUR-37] */
TEST(what_a_signal_interrupts_is_tried_again)
{
    static const char *const not_retried[] = { "fstat", "renameat", "unlinkat", "fdopendir", "readdir", "msync" };
    for (size_t at = 0; at < sizeof rows / sizeof rows[0]; ++at) {
        bool is_retried = true;
        for (size_t i = 0; i < sizeof not_retried / sizeof not_retried[0]; ++i)
            is_retried = is_retried && strcmp(rows[at].call, not_retried[i]) != 0; /* which know no EINTR */
        if (!is_retried)
            continue;
        fixture f;
        begin(&f);
        fail(rows[at].call, EINTR, 3);
        EXPECT_OK(rows[at].use(&f), &f.err);
        EXPECT_EQ_I64(plan.seen, strcmp(rows[at].call, "close") == 0 ? 1 : 3); /* close() is not, and is no error */
        end(&f);
    }
}

TEST(short_reads_and_writes_go_on)
{
    fixture f;
    for (size_t bytes = 1; bytes < 8; ++bytes) {
        begin(&f);
        plan.at_most = bytes;
        EXPECT_OK(read_all(&f), &f.err);
        EXPECT_OK(write_one(&f), &f.err);
        EXPECT_OK(write_some(&f), &f.err);
        EXPECT_OK(write_large(&f), &f.err);
        end(&f);
    }
    begin(&f);
    fail("pwrite", ZERO, FOR_EVER); /* no progress, no reason */
    EXPECT_STATUS(write_one(&f), SGS_WRITE_IO);
    EXPECT_STATUS(write_some(&f), SGS_WRITE_IO);
    fail("pwritev", ZERO, FOR_EVER);
    EXPECT_STATUS(write_large(&f), SGS_WRITE_IO);
    fail("pread", ZERO, FOR_EVER); /* that is the end of the file */
    size_t got = 9;
    char bytes[4];
    EXPECT_OK(f.env->read_at(f.env, f.fd, "file", bytes, 4, 0, &got, &f.err), &f.err);
    EXPECT_EQ_I64(got, 0);
    end(&f);
}

/* A file system without fallocate gets zeros; where they do not fit, the file is as long as before [DUR-25]. */
TEST(space_without_fallocate_is_zeros)
{
    static const int reasons[] = { EOPNOTSUPP, ENOSYS };
    for (int i = 0; i < 2; ++i) {
        fixture f;
        sgs_file_info info;
        begin(&f);
        fail("fallocate", reasons[i], FOR_EVER);
        EXPECT_OK(get_space(&f), &f.err);
        EXPECT_OK(f.env->file_info(f.env, f.fd, "file", &info, &f.err), &f.err);
        EXPECT_EQ_I64(info.size, 9000);
        EXPECT_OK(f.env->truncate(f.env, f.fd, "file", 12, &f.err), &f.err);
        EXPECT_OK(read_all(&f), &f.err);
        end(&f);
    }
    fixture f;
    begin(&f);
    fail("fallocate", ENOSPC, FOR_EVER);
    EXPECT_STATUS(get_space(&f), SGS_DISK_FULL);
    EXPECT_OK(read_all(&f), &f.err);
    EXPECT_STATUS(f.env->allocate_space(f.env, f.fd, "file", 5, &f.err), SGS_DISK_FULL); /* and none is cut off */
    EXPECT_OK(read_all(&f), &f.err);
    end(&f);
}

/* A sparse file, as Kafka's indexes are, gets its blocks: a store into a hole of a full disk would be a SIGBUS [DUR-25]. */
TEST(holes_of_a_longer_file_are_filled_without_fallocate)
{
    fixture f;
    struct stat info;
    uint8_t bytes[16];
    begin(&f);
    EXPECT_OK(f.env->truncate(f.env, f.fd, "file", 1000000, &f.err), &f.err);
    EXPECT_TRUE(fstat(f.fd, &info) == 0 && info.st_blocks * 512 <= 8192);
    fail("fallocate", EOPNOTSUPP, FOR_EVER);
    EXPECT_OK(f.env->allocate_space(f.env, f.fd, "file", 65536, &f.err), &f.err);
    EXPECT_TRUE(fstat(f.fd, &info) == 0 && info.st_blocks * 512 >= 65536 && info.st_blocks * 512 < 200000);
    EXPECT_EQ_I64(info.st_size, 1000000);
    EXPECT_EQ_I64(temporary_read(&f.directory, "file", bytes, sizeof bytes), 1000000);
    EXPECT_MEM(bytes, "twelve bytes", 12);
    end(&f);
}

/* [DUR-72] */
TEST(network_file_systems_are_known)
{
    fixture f;
    bool is_network = false;
    begin(&f);
    plan.file_system = 0x6969;
    EXPECT_OK(f.env->is_network_file_system(f.env, f.fd, &is_network, &f.err), &f.err);
    EXPECT_TRUE(is_network);
    end(&f);
}

/* [DUR-10] Not told: the kernel or the file system has no such time, or overlayfs, where a file that is written to for the
 * first time becomes another one with the inode that it had. */
TEST(when_a_file_was_made_is_told_where_it_is_known)
{
    fixture f;
    begin(&f);
    const int64_t born = f.env->birth_ns(f.env, f.fd);
    EXPECT_TRUE(born >= 0); /* the file system of the test may not have it */
    EXPECT_OK(f.env->truncate(f.env, f.fd, "file", 5, &f.err), &f.err);
    EXPECT_EQ_I64(f.env->birth_ns(f.env, f.fd), born);
    fail("statx", ENOSYS, 1);
    EXPECT_EQ_I64(f.env->birth_ns(f.env, f.fd), 0);
    fail("statx", ZERO, 1);
    EXPECT_EQ_I64(f.env->birth_ns(f.env, f.fd), 0);
    fail("fstatfs", EIO, 1);
    EXPECT_EQ_I64(f.env->birth_ns(f.env, f.fd), 0);
    heal();
    plan.file_system = 0x794c7630;
    EXPECT_EQ_I64(f.env->birth_ns(f.env, f.fd), 0);
    end(&f);
}

TEST(a_lock_of_somebody_else_is_told_by_either_errno)
{
    fixture f;
    begin(&f);
    fail("fcntl", EAGAIN, 1);
    EXPECT_STATUS(lock(&f), SGS_LOCKED);
    fail("fcntl", EACCES, 1);
    EXPECT_STATUS(lock(&f), SGS_LOCKED);
    end(&f);
}

/* [DUR-71] only who owns a file may read it without a trace; others read it all the same */
TEST(a_file_of_somebody_else_is_opened_with_a_trace)
{
    fixture f;
    begin(&f);
    fail("openat", EPERM, 1);
    EXPECT_OK(open_one(&f), &f.err);
    EXPECT_EQ_I64(plan.seen, 1);
    fail("openat", EPERM, FOR_EVER);
    EXPECT_STATUS(open_one(&f), SGS_PERMISSION);
    end(&f);
}

/* [DUR-98] */
TEST(a_directory_has_a_million_names_at_most)
{
    fixture f;
    int64_t names = 0;
    begin(&f);
    plan.names = 1000002;
    EXPECT_STATUS(f.env->list_directory(f.env, f.directory.fd, no_name, &names, &f.err), SGS_LIMIT_EXCEEDED);
    EXPECT_EQ_I64(names, 1000002);
    end(&f);
}

/* ---- sending ---- */

static sgs_status send_to(fixture *f, int destination, sgs_transfer *transfer)
{
    return f->env->send_file(f->env, f->fd, "file", 2, 10, destination, transfer, &f->err);
}

TEST(what_a_destination_says_is_told)
{
    fixture f;
    sgs_transfer transfer;
    int pair[2];
    begin(&f);
    REQUIRE_EQ_I64(pipe(pair), 0);
    fail("sendfile", EAGAIN, 1);
    EXPECT_OK(send_to(&f, pair[1], &transfer), &f.err);
    EXPECT_TRUE(transfer.would_block && !transfer.interrupted && transfer.sent == 0);
    fail("sendfile", EINTR, 1);
    EXPECT_OK(send_to(&f, pair[1], &transfer), &f.err);
    EXPECT_TRUE(transfer.interrupted && !transfer.would_block && transfer.sent == 0);
    fail("sendfile", ENOMEM, 1);
    EXPECT_STATUS(send_to(&f, pair[1], &transfer), SGS_RESOURCE);
    fail("sendfile", EIO, 1);
    EXPECT_STATUS(send_to(&f, pair[1], &transfer), SGS_READ_IO);
    fail("sendfile", EPIPE, 1);
    EXPECT_STATUS(send_to(&f, pair[1], &transfer), SGS_SEND_FAILED);
    EXPECT_EQ_I64(f.err.position, 2);
    (void)close(pair[0]);
    (void)close(pair[1]);
    end(&f);
}

static sgs_status copy_to(fixture *f, int destination, int reason, sgs_transfer *transfer)
{
    plan.cannot_send = reason;
    return send_to(f, destination, transfer);
}

TEST(where_the_system_cannot_send_bytes_are_copied)
{
    static const int reasons[] = { EINVAL, ENOSYS, EOPNOTSUPP };
    fixture f;
    sgs_transfer transfer;
    int pair[2];
    char bytes[10];
    begin(&f);
    REQUIRE_EQ_I64(pipe(pair), 0);
    for (int i = 0; i < 3; ++i) {
        heal();
        EXPECT_OK(copy_to(&f, pair[1], reasons[i], &transfer), &f.err);
        EXPECT_EQ_I64(transfer.sent, 10);
        EXPECT_EQ_I64(read(pair[0], bytes, 10), 10);
        EXPECT_MEM(bytes, "elve bytes", 10);
    }
    fail("pread", EINTR, 2);
    EXPECT_OK(copy_to(&f, pair[1], EINVAL, &transfer), &f.err);
    EXPECT_EQ_I64(transfer.sent, 10);
    fail("pread", EIO, 1);
    EXPECT_STATUS(copy_to(&f, pair[1], EINVAL, &transfer), SGS_READ_IO);
    fail("write", EPIPE, 1);
    EXPECT_STATUS(copy_to(&f, pair[1], EINVAL, &transfer), SGS_SEND_FAILED);
    fail("write", EAGAIN, 1);
    EXPECT_OK(copy_to(&f, pair[1], EINVAL, &transfer), &f.err);
    EXPECT_TRUE(transfer.would_block && transfer.sent == 0);
    heal();
    plan.at_most = 4; /* what reads, and what writes; the file has ten bytes */
    EXPECT_OK(copy_to(&f, pair[1], EINVAL, &transfer), &f.err);
    EXPECT_EQ_I64(transfer.sent, 10);
    (void)close(pair[0]);
    (void)close(pair[1]);
    end(&f);
}

/* What went out counts: the next step meets the error again. */
TEST(a_copy_that_breaks_off_tells_how_far_it_came)
{
    enum { PIECE_BYTES = 8192 };
    fixture f;
    sgs_transfer transfer;
    int pair[2];
    begin(&f);
    REQUIRE_EQ_I64(pipe(pair), 0);
    EXPECT_OK(f.env->truncate(f.env, f.fd, "file", 3 * PIECE_BYTES, &f.err), &f.err);
    plan.cannot_send = EINVAL;
    plan.call = "write";
    plan.os_error = EPIPE;
    plan.left = 1;
    plan.skipped = 1;
    EXPECT_OK(f.env->send_file(f.env, f.fd, "file", 0, 3 * PIECE_BYTES, pair[1], &transfer, &f.err), &f.err);
    EXPECT_EQ_I64(transfer.sent, PIECE_BYTES);
    plan.at_most = 0;
    plan.half_writes = true; /* a destination that is nearly full takes a part */
    EXPECT_OK(f.env->send_file(f.env, f.fd, "file", 0, 3 * PIECE_BYTES, pair[1], &transfer, &f.err), &f.err);
    EXPECT_EQ_I64(transfer.sent, PIECE_BYTES / 2);
    (void)close(pair[0]);
    (void)close(pair[1]);
    end(&f);
}

TEST_MAIN()
