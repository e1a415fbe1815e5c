/* env_sim_state.h - what the env_sim*.c files share; nobody else includes it.
 *
 * INVARIANT  the present state is what applying the log of effects from its beginning gives, except for stores through
 * mappings since the last effect: `shadow` is what the log knows of a mapped file. */
#ifndef SGS_IO_ENV_SIM_STATE_H
#define SGS_IO_ENV_SIM_STATE_H

#include <stdatomic.h>

#include "io/env_sim.h"

enum { SGS_SIM_ROOT = 0, SGS_SIM_NAME_BYTES = 256 };

typedef enum sgs_sim_kind {
    SGS_SIM_MAKE, /* `other` is a new file or directory, and gets a name in the directory `node` */
    SGS_SIM_REMOVE,
    SGS_SIM_MOVE, /* `other` goes from `name` to `to` in the directory `node` */
    SGS_SIM_WRITE,
    SGS_SIM_STORE, /* through a mapping; its number is that of the effect before it */
    SGS_SIM_RESIZE,
    SGS_SIM_SYNC, /* of the file or directory `node` */
    SGS_SIM_DROP, /* a sync of the file `node` failed; its number is that of the effect before it */
    SGS_SIM_NOTHING
} sgs_sim_kind;

typedef struct sgs_sim_effect {
    sgs_sim_kind kind;
    sgs_sim_call call;
    int64_t number; /* 0: the disk began with it */
    uint32_t node, other;
    bool is_directory;   /* of `other` */
    sgs_barrier barrier; /* of a sync */
    int64_t position;    /* of the bytes; of a resize, the new size */
    size_t bytes_at, bytes_count;
    size_t name_at, to_at; /* in `bytes` too, each with its NUL */
} sgs_sim_effect;

typedef struct sgs_sim_entry {
    char name[SGS_SIM_NAME_BYTES];
    uint32_t node;
} sgs_sim_entry;

typedef struct sgs_sim_node {
    bool is_directory, may_not_move, is_read_only;
    int64_t modified_ms;
    sgs_buffer entries;     /* of a directory: sgs_sim_entry */
    uint8_t *data, *shadow; /* of a file, `capacity` bytes each; no shadow before it is mapped for writing */
    int64_t size, capacity;
    uint64_t path_digest; /* while a digest is made */
} sgs_sim_node;

typedef struct sgs_sim_descriptor {
    uint32_t node;
    bool is_open, is_writable, is_locked;
    sgs_lock_kind lock;
} sgs_sim_descriptor;

typedef struct sgs_sim_plan {
    int64_t fail_at; /* fails when the count of calls reaches it; 0 = never */
    int os_error;
    bool for_ever;
} sgs_sim_plan;

struct sgs_sim_disk {
    sgs_env env;
    const sgs_env *base;
    uint64_t device;
    atomic_flag is_busy;    /* held for the length of a call */
    sgs_buffer nodes;       /* sgs_sim_node; [SGS_SIM_ROOT] is the root; none ever goes */
    sgs_buffer descriptors; /* sgs_sim_descriptor; no number is used twice */
    sgs_buffer log;         /* sgs_sim_effect */
    sgs_buffer bytes;       /* names and contents of the log */
    int64_t effects, cut_after;
    int64_t room; /* bytes that writes may add to files; -1 = no limit */
    bool is_off;
    int64_t calls[SGS_SIM_ANY_CALL + 1], failed_calls;
    sgs_sim_plan plans[SGS_SIM_ANY_CALL + 1];
    int64_t wall_clock_ms, monotonic_ns;
    sgs_sim_watcher watch; /* NULL = nobody */
    void *watch_context;
};

static inline sgs_sim_node *sgs_sim_node_at(const sgs_sim_disk *disk, uint32_t node)
{
    SGS_EXPECT(((size_t)node + 1) * sizeof(sgs_sim_node) <= disk->nodes.size);
    return (sgs_sim_node *)disk->nodes.data + node;
}

static inline uint32_t sgs_sim_node_count(const sgs_sim_disk *disk)
{
    return (uint32_t)(disk->nodes.size / sizeof(sgs_sim_node));
}

static inline const sgs_sim_effect *sgs_sim_log(const sgs_sim_disk *disk)
{
    return (const sgs_sim_effect *)disk->log.data;
}

static inline size_t sgs_sim_log_length(const sgs_sim_disk *disk) { return disk->log.size / sizeof(sgs_sim_effect); }

static inline const char *sgs_sim_text(const sgs_sim_disk *disk, size_t at)
{
    SGS_EXPECT(at < disk->bytes.size);
    return (const char *)disk->bytes.data + at;
}

static inline sgs_file_info sgs_sim_info(const sgs_sim_disk *disk, uint32_t node)
{
    const sgs_sim_node *found = sgs_sim_node_at(disk, node);
    SGS_EXPECT(found->size >= 0 && found->size <= found->capacity);
    return (sgs_file_info){ .size = found->size,
                            .modified_ms = found->modified_ms,
                            .changed_ns = found->modified_ms * 1000000 + node, /* no two files at once */
                            .device = disk->device,
                            .inode = node + 1,
                            .is_directory = found->is_directory,
                            .is_regular = !found->is_directory };
}

/* env_sim_log.c: the log of effects, and what applying one does */
sgs_status sgs_sim_add_node(sgs_sim_disk *disk, bool is_directory, uint32_t *node, sgs_error *err);
sgs_sim_entry *sgs_sim_find(const sgs_sim_node *directory, const char *name);
sgs_status sgs_sim_keep_bytes(sgs_sim_disk *disk, const void *data, size_t size, size_t *at, sgs_error *err);
/** Room for a file of `size` bytes, without changing it. */
sgs_status sgs_sim_make_room(sgs_sim_disk *disk, uint32_t node, int64_t size, sgs_error *err);
/** Room for what a mapping of a writable file stores: from now on its bytes do not move. */
sgs_status sgs_sim_pin(sgs_sim_disk *disk, uint32_t node, int64_t size, bool is_writable, sgs_error *err);
/** Log it, with the next number, and apply it. */
sgs_status sgs_sim_do(sgs_sim_disk *disk, sgs_sim_effect effect, sgs_error *err);
/** Log it as it is, and apply it. */
sgs_status sgs_sim_replay(sgs_sim_disk *disk, const sgs_sim_effect *effect, sgs_error *err);
/** Write stores through mappings into the log. */
sgs_status sgs_sim_notice_stores(sgs_sim_disk *disk, sgs_error *err);

/* env_sim_file.c and env_sim_directory.c: the table's functions */
sgs_status sgs_sim_open_directory(const sgs_env *env, int parent_fd, const char *path, int *fd, sgs_error *err);
sgs_status sgs_sim_make_directory(const sgs_env *env, int parent_fd, const char *path, sgs_error *err);
sgs_status sgs_sim_remove_directory(const sgs_env *env, int parent_fd, const char *path, sgs_error *err);
sgs_status sgs_sim_list_directory(const sgs_env *env, int fd, sgs_name_visitor visit, void *context, sgs_error *err);
sgs_status sgs_sim_sync_directory(const sgs_env *env, int fd, sgs_barrier barrier, sgs_error *err);
sgs_status sgs_sim_file_info_at(const sgs_env *env, int directory_fd, const char *name, sgs_file_info *info,
                                sgs_error *err);
sgs_status sgs_sim_make_read_only_at(const sgs_env *env, int directory_fd, const char *name, sgs_error *err);
sgs_status sgs_sim_set_modified_at(const sgs_env *env, int directory_fd, const char *name, int64_t modified_ms,
                                   sgs_error *err);
sgs_status sgs_sim_rename(const sgs_env *env, int directory_fd, const char *from, const char *to, sgs_error *err);
sgs_status sgs_sim_unlink(const sgs_env *env, int directory_fd, const char *name, sgs_error *err);
sgs_status sgs_sim_open_file(const sgs_env *env, int directory_fd, const char *name, sgs_open_mode mode, int *fd,
                             sgs_error *err);
sgs_status sgs_sim_read_at(const sgs_env *env, int fd, const char *name, void *data, size_t size, int64_t position,
                           size_t *got, sgs_error *err);
sgs_status sgs_sim_write_at(const sgs_env *env, int fd, const char *name, const sgs_slice *slices, size_t count,
                            int64_t position, int64_t *written, sgs_error *err);
sgs_status sgs_sim_truncate(const sgs_env *env, int fd, const char *name, int64_t size, sgs_error *err);
sgs_status sgs_sim_allocate_space(const sgs_env *env, int fd, const char *name, int64_t size, sgs_error *err);
sgs_status sgs_sim_sync_data(const sgs_env *env, int fd, const char *name, sgs_barrier barrier, sgs_error *err);
sgs_status sgs_sim_sync_file(const sgs_env *env, int fd, const char *name, sgs_barrier barrier, sgs_error *err);
sgs_status sgs_sim_map(const sgs_env *env, int fd, const char *name, size_t size, bool writable, void **address,
                       sgs_error *err);
void sgs_sim_unmap(const sgs_env *env, void *address, size_t size);
sgs_status sgs_sim_sync_mapping(const sgs_env *env, void *address, size_t size, const char *name, sgs_error *err);

/* env_sim.c: what every call begins and ends with */
sgs_sim_disk *sgs_sim_of(const sgs_env *env);
/** Nobody else changes the disk until sgs_sim_leave. */
void sgs_sim_take(sgs_sim_disk *disk);
/** Take the disk, count, and fail if this call is to fail; the disk is free again then. */
sgs_status sgs_sim_enter(sgs_sim_disk *disk, sgs_sim_call call, const char *name, sgs_error *err);
/** Before an effect: notice stores, and whether the power is gone. */
sgs_status sgs_sim_check_power(sgs_sim_disk *disk, sgs_sim_call call, const char *name, sgs_error *err);
/** sgs_sim_enter, then sgs_sim_check_power. */
sgs_status sgs_sim_enter_effect(sgs_sim_disk *disk, sgs_sim_call call, const char *name, sgs_error *err);
/** Let the disk go. @return `status`, with the name in `err` */
sgs_status sgs_sim_leave(sgs_sim_disk *disk, sgs_status status, const char *name, sgs_error *err);
/** What errno `os_error` means in that call. */
sgs_status sgs_sim_fail_call(sgs_sim_call call, int os_error, const char *name, sgs_error *err);
/** NULL, with `err` filled in, when it is not open. */
sgs_sim_descriptor *sgs_sim_descriptor_of(const sgs_sim_disk *disk, int fd, sgs_sim_call call, const char *name,
                                          sgs_error *err);
sgs_status sgs_sim_add_descriptor(sgs_sim_disk *disk, uint32_t node, bool is_writable, int *fd, sgs_error *err);

#endif
