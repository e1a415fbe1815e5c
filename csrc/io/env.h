/* env.h - the one seam to the outside: files, mappings, locks, clocks and memory [DUR-10].
 *
 * Every effect on the operating system goes through one `const sgs_env *` that is handed in at open. env_posix is the
 * real one; a simulated disk can stand in its place, so that a crash at any instant, any failing call and a full disk can
 * be tested. No other object file imports a libc I/O symbol (tests/tidy checks it).
 *
 * Files are named relative to a directory that was opened once. All functions but send_file retry
 * EINTR and loop on short reads and writes [DUR-37]; all translate errno into a status [DUR-30..DUR-40] with the file name in `err`.
 * THREADS  an env is immutable; its functions may be called from any thread. */
#ifndef SGS_IO_ENV_H
#define SGS_IO_ENV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/status.h"
#include "io/barrier.h"

typedef struct sgs_env sgs_env;

typedef struct sgs_slice { /* borrowed bytes */
    const uint8_t *data;
    size_t size;
} sgs_slice;

typedef enum sgs_open_mode {
    SGS_OPEN_READ,           /* the file must exist */
    SGS_OPEN_WRITE,          /* read and write, the file must exist */
    SGS_OPEN_CREATE,         /* read and write, the file must not exist (O_EXCL) [DUR-11] */
    SGS_OPEN_WRITE_OR_CREATE /* read and write; for locks and indexes */
} sgs_open_mode;

typedef struct sgs_file_info {
    int64_t size;
    int64_t modified_ms; /* wall clock of the last modification */
    int64_t changed_ns;  /* of the last change of anything, st_ctim: nobody can set it, so a copy has another */
    uint64_t device, inode;
    bool is_directory, is_regular;
} sgs_file_info;

/* What one step of send_file came to. */
typedef struct sgs_transfer {
    size_t sent;      /* bytes that the destination took */
    bool would_block; /* it does not wait, and takes no more for now */
    bool interrupted; /* by a signal: the caller has a look at it, and may go on */
} sgs_transfer;

typedef enum sgs_lock_kind { SGS_LOCK_SHARED, SGS_LOCK_EXCLUSIVE } sgs_lock_kind;

/* Called once per name ("." and ".." left out); a status other than SGS_OK ends the listing. */
typedef sgs_status (*sgs_name_visitor)(void *context, const char *name, sgs_error *err);

struct sgs_env {
    void *context; /* owned by whoever made the env */

    /* memory: NULL when there is none, never aborts */
    void *(*allocate)(const sgs_env *env, size_t size);
    void *(*reallocate)(const sgs_env *env, void *memory, size_t size);
    void (*release)(const sgs_env *env, void *memory);

    /* directories. `path` is resolved against parent_fd, SGS_CWD for the working directory */
    sgs_status (*open_directory)(const sgs_env *env, int parent_fd, const char *path, int *fd, sgs_error *err);
    sgs_status (*make_directory)(const sgs_env *env, int parent_fd, const char *path, sgs_error *err);
    sgs_status (*remove_directory)(const sgs_env *env, int parent_fd, const char *path, sgs_error *err);
    sgs_status (*list_directory)(const sgs_env *env, int fd, sgs_name_visitor visit, void *context, sgs_error *err);
    sgs_status (*sync_directory)(const sgs_env *env, int fd, sgs_barrier barrier, sgs_error *err);

    /* names inside a directory */
    sgs_status (*file_info_at)(const sgs_env *env, int directory_fd, const char *name, sgs_file_info *info,
                               sgs_error *err); /* does not follow links */
    sgs_status (*set_modified_at)(const sgs_env *env, int directory_fd, const char *name, int64_t modified_ms,
                                  sgs_error *err); /* not of what a link leads to */
    /* take the permission to write from everybody; who has the file open for writing keeps it */
    sgs_status (*make_read_only_at)(const sgs_env *env, int directory_fd, const char *name, sgs_error *err);
    sgs_status (*rename)(const sgs_env *env, int directory_fd, const char *from, const char *to, sgs_error *err);
    sgs_status (*unlink)(const sgs_env *env, int directory_fd, const char *name, sgs_error *err);

    /* files. Opening refuses links and anything but a regular file [DUR-99]; `name` is only for messages from here on */
    sgs_status (*open_file)(const sgs_env *env, int directory_fd, const char *name, sgs_open_mode mode, int *fd,
                            sgs_error *err);
    /* Who has to hear of a failed sync of the file [DUR-35]: an environment that closes descriptors of its own accord
     * (descriptor_pool.h) has it synced by `sync` before, as long as it is open. SGS_LOCKED = not now. NULL = it never does */
    void (*note_owner)(const sgs_env *env, int fd, sgs_status (*sync)(void *owner, int fd, sgs_error *err),
                       void *owner);
    sgs_status (*close)(const sgs_env *env, int fd, const char *name, sgs_error *err);
    sgs_status (*file_info)(const sgs_env *env, int fd, const char *name, sgs_file_info *info, sgs_error *err);
    /* read up to `size` bytes; `*got` is smaller only at the end of the file */
    sgs_status (*read_at)(const sgs_env *env, int fd, const char *name, void *data, size_t size, int64_t position,
                          size_t *got, sgs_error *err);
    /* write all slices, one pwritev where the system takes them at once; on failure `*written` says how far it got */
    sgs_status (*write_at)(const sgs_env *env, int fd, const char *name, const sgs_slice *slices, size_t count,
                           int64_t position, int64_t *written, sgs_error *err);
    /* One step of handing bytes [position, position + size) to the descriptor of a socket, a pipe or another file, without
     * taking them through this process where the system can: as many as the destination takes at once. Not even EINTR is
     * retried: a peer may keep it waiting for ever. Nothing sent and no flag set: the file has nothing at `position`.
     * @return SGS_SEND_FAILED when the destination takes nothing any more, SGS_READ_IO for the file */
    sgs_status (*send_file)(const sgs_env *env, int fd, const char *name, int64_t position, size_t size,
                            int destination, sgs_transfer *transfer, sgs_error *err);
    sgs_status (*truncate)(const sgs_env *env, int fd, const char *name, int64_t size, sgs_error *err);
    /* give disk blocks to [0, size) and make the file at least that long */
    sgs_status (*allocate_space)(const sgs_env *env, int fd, const char *name, int64_t size, sgs_error *err);
    /* fdatasync and fsync; what they are for is for who tests it [DUR-110] */
    sgs_status (*sync_data)(const sgs_env *env, int fd, const char *name, sgs_barrier barrier, sgs_error *err);
    sgs_status (*sync_file)(const sgs_env *env, int fd, const char *name, sgs_barrier barrier, sgs_error *err);
    /* advice only, errors are ignored */
    void (*drop_cache)(const sgs_env *env, int fd, int64_t position, int64_t size);
    void (*read_ahead)(const sgs_env *env, int fd, int64_t position, int64_t size);

    /* mappings: shared, may reach beyond the end of the file; touching bytes beyond it is the caller's mistake */
    sgs_status (*map)(const sgs_env *env, int fd, const char *name, size_t size, bool writable, void **address,
                      sgs_error *err);
    void (*unmap)(const sgs_env *env, void *address, size_t size);
    sgs_status (*sync_mapping)(const sgs_env *env, void *address, size_t size, const char *name, sgs_error *err);

    /* open-file-description lock on the whole file, not waiting: SGS_LOCKED when another holder is in the way [DUR-65] */
    sgs_status (*lock)(const sgs_env *env, int fd, const char *name, sgs_lock_kind kind, sgs_error *err);
    sgs_status (*unlock)(const sgs_env *env, int fd, const char *name, sgs_error *err);

    int64_t (*wall_clock_ms)(const sgs_env *env);
    int64_t (*monotonic_ns)(const sgs_env *env);
    int64_t (*process_id)(const sgs_env *env);
    /* Both belong to the environment of the system only: how many descriptors the process may have (RLIMIT_NOFILE); when a
     * file or directory was made (0 = unknown), which never changes, and differs for a later one that got its inode. */
    int64_t (*descriptor_limit)(const sgs_env *env);
    int64_t (*birth_ns)(const sgs_env *env, int fd);
    /* true for NFS, CIFS, FUSE and their like [DUR-72] */
    sgs_status (*is_network_file_system)(const sgs_env *env, int fd, bool *is_network, sgs_error *err);
};

enum { SGS_CWD = -100 }; /* AT_FDCWD */

/** The env's allocator in the form that base/ and record/ take. */
sgs_memory sgs_env_memory(const sgs_env *env);

/** The real environment (env_posix.c). Lives for ever. */
const sgs_env *sgs_env_posix(void);

#endif
