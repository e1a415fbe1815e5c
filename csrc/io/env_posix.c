/* env_posix.c - the real environment. No other file calls the operating system [DUR-10]; env_posix_directory.c,
 * env_posix_owner.c and env_posix_send.c are parts of it.
 *
 * Written for Linux: open-file-description locks, fallocate, O_NOATIME and file-system magic numbers. Another system is
 * another file beside this one.
 *
 * SIGNALS  none is touched [DUR-43]. Writing beyond RLIMIT_FSIZE gives EFBIG (SGS_DISK_FULL) where SIGXFSZ is ignored, as
 * Python does; a C program that sets such a limit must ignore that signal, or it is killed. */
#ifndef __linux__
#error "env_posix.c is written for Linux; another system needs its own implementation of io/env.h"
#endif
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "io/env_posix.h"

_Static_assert(SGS_CWD == AT_FDCWD, "SGS_CWD is handed to the system as it is");
_Static_assert(sizeof(off_t) == sizeof(int64_t), "positions are 64 bits wide");

enum {
    FILE_MODE = 0640,     /* less the umask [DUR-100] */
    SLICES_AT_ONCE = 256, /* below IOV_MAX, and 4 KiB of stack [DUR-104] */
    JOINED_BYTES = 4096,
    HUGE_PAGE_BYTES = 2 * 1024 * 1024,
    LARGE_BLOCK_BYTES = 8 * HUGE_PAGE_BYTES
};

int64_t sgs_posix_descriptor_limit(void)
{
    struct rlimit limit = { 0 };
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur > INT32_MAX)
        return INT32_MAX;
    return (int64_t)limit.rlim_cur;
}

/* ---- memory ---- */

static void *posix_allocate(const sgs_env *env, size_t size)
{
    (void)env;
    return malloc(size > 0 ? size : 1);
}

/* A map of keys is read here and there: with pages of 4 KiB each place costs a look into the page tables, too. It is a
 * wish; whether the system has such pages makes no other difference. */
static void wish_for_huge_pages(void *memory, size_t size)
{
    const size_t before = (size_t)(-(uintptr_t)memory % HUGE_PAGE_BYTES);
    (void)madvise((uint8_t *)memory + before, (size - before) / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES, MADV_HUGEPAGE);
}

static void *posix_reallocate(const sgs_env *env, void *memory, size_t size)
{
    (void)env;
    void *const moved = realloc(memory, size > 0 ? size : 1);
    if (memory == NULL && moved != NULL && size >= LARGE_BLOCK_BYTES)
        wish_for_huge_pages(moved, size);
    return moved;
}

static void posix_release(const sgs_env *env, void *memory)
{
    (void)env;
    free(memory);
}

/* ---- files ---- */

static int open_flags(sgs_open_mode mode)
{
    switch (mode) {
    case SGS_OPEN_READ:
        return O_RDONLY;
    case SGS_OPEN_CREATE:
        return O_RDWR | O_CREAT | O_EXCL;
    case SGS_OPEN_WRITE:
    case SGS_OPEN_WRITE_OR_CREATE: /* made when it is not there: `open_at` */
        break;
    }
    return O_RDWR;
}

/* Which of a file that is there and one that is made it is, the caller must know: `*is_new`. */
static int open_at(int directory_fd, const char *name, sgs_open_mode mode, bool *is_new)
{
    /* O_NONBLOCK: opening a pipe must not wait for its other end [DUR-99]. It means nothing to a regular file. */
    const int flags = open_flags(mode) | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | O_NOCTTY;
    int opened = -1;
    *is_new = mode == SGS_OPEN_CREATE;
    if (mode == SGS_OPEN_READ) /* readers leave no trace where they may [DUR-71]: owners only */
        SGS_RETRY(opened, openat(directory_fd, name, flags | O_NOATIME));
    if (opened < 0 && (mode != SGS_OPEN_READ || errno == EPERM))
        SGS_RETRY(opened, openat(directory_fd, name, flags, FILE_MODE));
    if (opened < 0 && mode == SGS_OPEN_WRITE_OR_CREATE && errno == ENOENT) {
        *is_new = true;
        SGS_RETRY(opened, openat(directory_fd, name, flags | O_CREAT | O_EXCL, FILE_MODE));
        if (opened < 0 && errno == EEXIST) { /* another one has made it meanwhile */
            *is_new = false;
            SGS_RETRY(opened, openat(directory_fd, name, flags | O_CREAT, FILE_MODE));
        }
    }
    return opened;
}

static sgs_status posix_open_file(const sgs_env *env, int directory_fd, const char *name, sgs_open_mode mode, int *fd,
                                  sgs_error *err)
{
    (void)env;
    bool is_new;
    const int opened = open_at(directory_fd, name, mode, &is_new);
    if (opened < 0)
        return sgs_posix_fail(err, "open the file", name, mode == SGS_OPEN_READ ? SGS_READ_IO : SGS_WRITE_IO);

    struct stat found;
    if (fstat(opened, &found) != 0) {
        const sgs_status status = sgs_posix_fail(err, "look at the file", name, SGS_READ_IO);
        (void)close(opened);
        return status;
    }
    if (!S_ISREG(found.st_mode)) {
        (void)close(opened);
        (void)sgs_fail_at(err, SGS_NOT_A_LOG, -1, "a regular file", "%s",
                          S_ISDIR(found.st_mode) ? "a directory" : "a pipe, socket or device");
        return sgs_fail_in_file(err, name);
    }
    SGS_EXPECT(found.st_size >= 0);
    if (is_new)
        sgs_posix_own_file(directory_fd, name, opened, &found);
    *fd = opened;
    return SGS_OK;
}

static sgs_status posix_close(const sgs_env *env, int fd, const char *name, sgs_error *err)
{
    (void)env;
    /* Never retried [DUR-37]: the descriptor is gone, after EINTR as well. */
    if (close(fd) != 0 && errno != EINTR)
        return sgs_posix_fail_as(err, "close the file", name, SGS_CLOSE_FAILED);
    return SGS_OK;
}

static sgs_status posix_file_info(const sgs_env *env, int fd, const char *name, sgs_file_info *info, sgs_error *err)
{
    (void)env;
    struct stat found;
    if (fstat(fd, &found) != 0)
        return sgs_posix_fail(err, "look at the file", name, SGS_READ_IO);
    *info = sgs_posix_info(&found);
    return SGS_OK;
}

static sgs_status posix_read_at(const sgs_env *env, int fd, const char *name, void *data, size_t size, int64_t position,
                                size_t *got, sgs_error *err)
{
    (void)env;
    size_t done = 0;
    while (done < size) {
        ssize_t result;
        SGS_RETRY(result, pread(fd, (uint8_t *)data + done, size - done, position + (int64_t)done));
        if (result < 0)
            return sgs_posix_fail_at(err, "read the file", name, SGS_READ_IO, position + (int64_t)done);
        if (result == 0)
            break; /* the end of the file */
        SGS_EXPECT((size_t)result <= size - done);
        done += (size_t)result;
    }
    *got = done;
    return SGS_OK;
}

/* What one pwritev takes: the slices from *slices on, less the first `skipped` bytes, as far as the array reaches. */
static int gather(const sgs_slice *slices, size_t count, size_t skipped, struct iovec *parts)
{
    int used = 0;
    for (size_t i = 0; i < count && used < SLICES_AT_ONCE; ++i, skipped = 0) {
        if (slices[i].size == skipped)
            continue;
        parts[used].iov_base = (void *)(uintptr_t)(slices[i].data + skipped); /* only read from */
        parts[used].iov_len = slices[i].size - skipped;
        ++used;
    }
    SGS_EXPECT(used >= 0 && used <= SLICES_AT_ONCE);
    return used;
}

/* The size of the parts that were copied to `to` one behind the other; 0 when they do not fit. */
static size_t join(const struct iovec *parts, int count, uint8_t to[JOINED_BYTES])
{
    size_t size = 0;
    for (int i = 0; i < count; ++i) {
        if (parts[i].iov_len > JOINED_BYTES - size)
            return 0;
        memcpy(to + size, parts[i].iov_base, parts[i].iov_len);
        size += parts[i].iov_len;
    }
    return size;
}

/* A second part costs a write 0.2 to 0.4 microseconds, more than a copy of 4 KB does. */
static ssize_t write_parts(int fd, const struct iovec *parts, int count, int64_t position)
{
    uint8_t joined[JOINED_BYTES];
    const size_t size = count > 1 ? join(parts, count, joined) : 0;
    ssize_t result;
    if (count == 1)
        SGS_RETRY(result, pwrite(fd, parts[0].iov_base, parts[0].iov_len, position));
    else if (size > 0)
        SGS_RETRY(result, pwrite(fd, joined, size, position));
    else
        SGS_RETRY(result, pwritev(fd, parts, count, position));
    return result;
}

static sgs_status posix_write_at(const sgs_env *env, int fd, const char *name, const sgs_slice *slices, size_t count,
                                 int64_t position, int64_t *written, sgs_error *err)
{
    (void)env;
    struct iovec parts[SLICES_AT_ONCE];
    size_t skipped = 0; /* of slices[0] */
    *written = 0;
    for (;;) {
        const int used = gather(slices, count, skipped, parts);
        if (used == 0)
            return SGS_OK;
        ssize_t result = write_parts(fd, parts, used, position + *written);
        if (result == 0) {
            errno = EIO; /* no progress, no reason [DUR-37] */
            result = -1;
        }
        if (result < 0)
            return sgs_posix_fail_at(err, "write the file", name, SGS_WRITE_IO, position + *written);
        *written += result;
        skipped += (size_t)result;
        while (count > 0 && skipped >= slices[0].size) {
            skipped -= slices[0].size;
            ++slices;
            --count;
        }
        SGS_EXPECT(skipped == 0 || count > 0); /* no more was written than there is */
    }
}

static sgs_status posix_truncate(const sgs_env *env, int fd, const char *name, int64_t size, sgs_error *err)
{
    (void)env;
    int result;
    SGS_RETRY(result, ftruncate(fd, size));
    if (result != 0)
        return sgs_posix_fail_at(err, "set the size of the file", name, SGS_WRITE_IO, size);
    return SGS_OK;
}

static const uint8_t zeros[4096];

/* For file systems without fallocate: zeros. A hole would do for the size, but not against SIGBUS. */
static sgs_status write_zeros(const sgs_env *env, int fd, const char *name, int64_t from, int64_t size, sgs_error *err)
{
    while (from < size) {
        const int64_t left = size - from;
        const sgs_slice piece = { zeros, left < (int64_t)sizeof zeros ? (size_t)left : sizeof zeros };
        int64_t written;
        const sgs_status status = posix_write_at(env, fd, name, &piece, 1, from, &written, err);
        if (status != SGS_OK)
            return status;
        SGS_EXPECT(written == (int64_t)piece.size);
        from += written;
    }
    return SGS_OK;
}

/* A page of zeros may be a hole: it is written. Any other page has its block. */
static sgs_status fill_holes(const sgs_env *env, int fd, const char *name, int64_t end, sgs_error *err)
{
    uint8_t page[sizeof zeros];
    for (int64_t at = 0; at < end; at += (int64_t)sizeof page) {
        const int64_t left = end - at;
        size_t got = 0;
        SGS_TRY(posix_read_at(env, fd, name, page, left < (int64_t)sizeof page ? (size_t)left : sizeof page, at, &got,
                              err));
        if (memcmp(page, zeros, got) == 0)
            SGS_TRY(write_zeros(env, fd, name, at, at + (int64_t)got, err));
    }
    return SGS_OK;
}

static sgs_status posix_allocate_space(const sgs_env *env, int fd, const char *name, int64_t size, sgs_error *err)
{
    struct stat before;
    if (fstat(fd, &before) != 0)
        return sgs_posix_fail(err, "look at the file", name, SGS_READ_IO);
    if (size == 0)
        return SGS_OK;
    int result;
    sgs_status status = SGS_OK;
    SGS_RETRY(result, fallocate(fd, 0, 0, size));
    if (result != 0 && (errno == EOPNOTSUPP || errno == ENOSYS)) {
        status = fill_holes(env, fd, name, size < before.st_size ? size : before.st_size, err);
        if (status == SGS_OK)
            status = write_zeros(env, fd, name, before.st_size, size, err);
    } else if (result != 0)
        status = sgs_posix_fail_at(err, "allocate space for the file", name, SGS_WRITE_IO, size);
    if (status != SGS_OK && size > before.st_size)
        SGS_RETRY(result, ftruncate(fd, before.st_size)); /* what was got on the way; a longer file does no harm */
    return status;
}

static sgs_status posix_sync_data(const sgs_env *env, int fd, const char *name, sgs_barrier barrier, sgs_error *err)
{
    (void)env;
    (void)barrier;
    int result;
    SGS_RETRY(result, fdatasync(fd));
    if (result != 0)
        return sgs_posix_fail_as(err, "sync the file", name, SGS_FSYNC_FAILED);
    return SGS_OK;
}

static sgs_status posix_sync_file(const sgs_env *env, int fd, const char *name, sgs_barrier barrier, sgs_error *err)
{
    (void)env;
    (void)barrier;
    int result;
    SGS_RETRY(result, fsync(fd));
    if (result != 0)
        return sgs_posix_fail_as(err, "sync the file", name, SGS_FSYNC_FAILED);
    return SGS_OK;
}

static void posix_drop_cache(const sgs_env *env, int fd, int64_t position, int64_t size)
{
    (void)env;
    (void)posix_fadvise(fd, position, size, POSIX_FADV_DONTNEED);
}

static void posix_read_ahead(const sgs_env *env, int fd, int64_t position, int64_t size)
{
    (void)env;
    (void)posix_fadvise(fd, position, size, POSIX_FADV_WILLNEED);
}

/* ---- mappings ---- */

static sgs_status posix_map(const sgs_env *env, int fd, const char *name, size_t size, bool writable, void **address,
                            sgs_error *err)
{
    (void)env;
    void *mapped = mmap(NULL, size, writable ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, fd, 0);
    if (mapped == MAP_FAILED)
        return sgs_posix_fail(err, "map the file", name, SGS_READ_IO);
    SGS_EXPECT((uintptr_t)mapped % sizeof(uint32_t) == 0); /* entries of an index are read as words */
    *address = mapped;
    return SGS_OK;
}

static void posix_unmap(const sgs_env *env, void *address, size_t size)
{
    (void)env;
    (void)munmap(address, size);
}

static sgs_status posix_sync_mapping(const sgs_env *env, void *address, size_t size, const char *name, sgs_error *err)
{
    (void)env;
    if (msync(address, size, MS_SYNC) != 0)
        return sgs_posix_fail_as(err, "sync the mapping", name, SGS_FSYNC_FAILED);
    return SGS_OK;
}

/* ---- locks ---- */

static sgs_status set_lock(int fd, short type, const char *name, sgs_error *err)
{
    struct flock whole_file = { .l_type = type, .l_whence = SEEK_SET }; /* length 0: to the end, wherever it is */
    int result;
    SGS_RETRY(result, fcntl(fd, F_OFD_SETLK, &whole_file));
    if (result == 0)
        return SGS_OK;
    if (errno == EAGAIN || errno == EACCES)
        return sgs_posix_fail_as(err, "lock the file", name, SGS_LOCKED);
    return sgs_posix_fail(err, "lock the file", name, SGS_WRITE_IO);
}

static sgs_status posix_lock(const sgs_env *env, int fd, const char *name, sgs_lock_kind kind, sgs_error *err)
{
    (void)env;
    return set_lock(fd, kind == SGS_LOCK_SHARED ? F_RDLCK : F_WRLCK, name, err);
}

static sgs_status posix_unlock(const sgs_env *env, int fd, const char *name, sgs_error *err)
{
    (void)env;
    return set_lock(fd, F_UNLCK, name, err);
}

/* ---- clocks, process, file system ---- */

static int64_t nanoseconds(clockid_t clock)
{
    struct timespec now = { 0, 0 };
    (void)clock_gettime(clock, &now); /* cannot fail for these clocks */
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static int64_t posix_wall_clock_ms(const sgs_env *env)
{
    (void)env;
    return nanoseconds(CLOCK_REALTIME) / 1000000;
}

static int64_t posix_monotonic_ns(const sgs_env *env)
{
    (void)env;
    return nanoseconds(CLOCK_MONOTONIC);
}

static int64_t posix_process_id(const sgs_env *env)
{
    (void)env;
    return getpid();
}

static int64_t posix_descriptor_limit(const sgs_env *env)
{
    (void)env;
    return sgs_posix_descriptor_limit();
}

static sgs_status posix_is_network_file_system(const sgs_env *env, int fd, bool *is_network, sgs_error *err)
{
    (void)env;
    static const uint32_t network_types[] = {
        0x00006969, /* NFS */ 0x0000517B,  /* SMB */ 0xFE534D42,    /* SMB2 */ 0xFF534D42, /* CIFS */
        0x65735546, /* FUSE */ 0x01021997, /* 9P */ 0x00C36400,     /* Ceph */ 0x5346414F, /* AFS */
        0x73757245, /* Coda */ 0x0BD00BD0, /* Lustre */ 0x47504653, /* GPFS */ 0x19830326, /* BeeGFS */
        0x01161970, /* GFS2 */ 0x7461636F, /* OCFS2 */ 0x786F4256, /* VirtualBox shared folder */
    };
    struct statfs found;
    int result;
    SGS_RETRY(result, fstatfs(fd, &found));
    if (result != 0)
        return sgs_posix_fail(err, "ask for the file system", ".", SGS_READ_IO);
    *is_network = false;
    for (size_t i = 0; i < sizeof network_types / sizeof network_types[0]; ++i)
        *is_network = *is_network || network_types[i] == (uint32_t)found.f_type;
    return SGS_OK;
}

/* Not where the time may change for one and the same file: a server or a FUSE daemon may make it up, and overlayfs copies a
 * file at its first write, which keeps its inode. */
static int64_t posix_birth_ns(const sgs_env *env, int fd)
{
#ifdef STATX_BTIME
    static const uint32_t overlayfs = 0x794C7630;
    struct statx found;
    struct statfs file_system;
    sgs_error ignored;
    bool is_network = true;
    if (statx(fd, "", AT_EMPTY_PATH, STATX_BTIME, &found) != 0 || (found.stx_mask & STATX_BTIME) == 0)
        return 0;
    if (posix_is_network_file_system(env, fd, &is_network, &ignored) != SGS_OK || is_network)
        return 0;
    if (fstatfs(fd, &file_system) != 0 || (uint32_t)file_system.f_type == overlayfs)
        return 0;
    return found.stx_btime.tv_sec * 1000000000 + found.stx_btime.tv_nsec;
#else
    (void)env;
    (void)fd;
    return 0;
#endif
}

static const sgs_env posix_env = {
    .context = NULL,
    .allocate = posix_allocate,
    .reallocate = posix_reallocate,
    .release = posix_release,
    .open_directory = sgs_posix_open_directory,
    .make_directory = sgs_posix_make_directory,
    .remove_directory = sgs_posix_remove_directory,
    .list_directory = sgs_posix_list_directory,
    .sync_directory = sgs_posix_sync_directory,
    .file_info_at = sgs_posix_file_info_at,
    .set_modified_at = sgs_posix_set_modified_at,
    .make_read_only_at = sgs_posix_make_read_only_at,
    .rename = sgs_posix_rename,
    .unlink = sgs_posix_unlink,
    .open_file = posix_open_file,
    .close = posix_close,
    .file_info = posix_file_info,
    .read_at = posix_read_at,
    .write_at = posix_write_at,
    .send_file = sgs_posix_send_file,
    .truncate = posix_truncate,
    .allocate_space = posix_allocate_space,
    .sync_data = posix_sync_data,
    .sync_file = posix_sync_file,
    .drop_cache = posix_drop_cache,
    .read_ahead = posix_read_ahead,
    .map = posix_map,
    .unmap = posix_unmap,
    .sync_mapping = posix_sync_mapping,
    .lock = posix_lock,
    .unlock = posix_unlock,
    .wall_clock_ms = posix_wall_clock_ms,
    .monotonic_ns = posix_monotonic_ns,
    .process_id = posix_process_id,
    .descriptor_limit = posix_descriptor_limit,
    .birth_ns = posix_birth_ns,
    .is_network_file_system = posix_is_network_file_system,
};

const sgs_env *sgs_env_posix(void) { return &posix_env; }
