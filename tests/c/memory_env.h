/* memory_env.h - an environment for tests around another one (the real one): it counts every call by name, fails the n-th
 * call of one name once or for ever, lets the disk fill up after so many bytes, and knows what was not given back.
 *
 *     memory_env memory;
 *     memory_env_init(&memory, sgs_env_posix());
 *     memory_env_fail(&memory, "write_at", 2, ENOSPC);          the second write from here on fails once
 *     EXPECT_STATUS(do_it(&memory.env, &err), SGS_DISK_FULL);
 *     EXPECT_TRUE(memory_env_is_balanced(&memory));             memory, descriptors and mappings are given back
 *
 * Names are those of the members of sgs_env; "allocate" stands for reallocate as well. One thread. */
#ifndef SGS_TEST_MEMORY_ENV_H
#define SGS_TEST_MEMORY_ENV_H

#include "io/env.h"

/* In place of an errno: the call fails as an assertion does in a wheel, where tests abort [DUR-44]. */
enum { MEMORY_ENV_BROKEN_INVARIANT = -1 };

/* Every call that can fail, in the order of sgs_env, and those that only give back. */
/* clang-format off */
#define MEMORY_ENV_CALLS(X) \
    X(allocate) X(release) \
    X(open_directory) X(make_directory) X(remove_directory) X(list_directory) X(sync_directory) \
    X(file_info_at) X(set_modified_at) X(make_read_only_at) X(rename) X(unlink) X(open_file) X(close) X(file_info) X(read_at) X(write_at) \
    X(send_file) X(truncate) X(allocate_space) X(sync_data) X(sync_file) X(drop_cache) X(read_ahead) X(map) X(unmap) X(sync_mapping) \
    X(lock) X(unlock) X(is_network_file_system)
/* clang-format on */

#define MEMORY_ENV_ENUM(name) MEMORY_ENV_##name,
typedef enum memory_env_call { MEMORY_ENV_CALLS(MEMORY_ENV_ENUM) MEMORY_ENV_CALL_COUNT } memory_env_call;
#undef MEMORY_ENV_ENUM

typedef struct memory_env {
    sgs_env env; /* what the code under test gets: &memory.env */
    const sgs_env *base;
    int64_t calls[MEMORY_ENV_CALL_COUNT];
    int64_t fail_at[MEMORY_ENV_CALL_COUNT]; /* fails when calls reaches it; 0 = never */
    int os_error[MEMORY_ENV_CALL_COUNT];
    bool for_ever[MEMORY_ENV_CALL_COUNT];
    int64_t until_all_fail; /* calls but for memory; 0 = they do not */
    bool writes_half;       /* a write that fails has written half of the first slice */
    int64_t space_left;     /* bytes that write_at may still write, -1 = no limit; then ENOSPC after a short write */
    int64_t live_allocations, live_descriptors, live_mappings;
    int64_t wall_clock_ms, monotonic_ns; /* -1 = the base's */
    /* told of every call before it is made, with the address behind it in the code under test; NULL = nobody */
    void (*on_call)(void *context, memory_env_call call, const void *site);
    void *on_call_context;
} memory_env;

void memory_env_init(memory_env *memory, const sgs_env *base);
/** The n-th call of `name` from now on (1 = the next) fails with the status that errno `os_error` means there. */
void memory_env_fail(memory_env *memory, const char *name, int64_t nth, int os_error);
/** As memory_env_fail, and so do all that follow. */
void memory_env_fail_always(memory_env *memory, const char *name, int64_t nth, int os_error);
/** From the n-th call on, of whatever name, all fail but those for memory: the device is gone. */
void memory_env_fail_all(memory_env *memory, int64_t nth, int os_error);
/** Let everything work again. The counts stay. */
void memory_env_heal(memory_env *memory);
/** Calls of `name` so far, failed ones included. */
int64_t memory_env_calls(const memory_env *memory, const char *name);
/** Whether all memory, descriptors and mappings that came from here were given back. */
bool memory_env_is_balanced(const memory_env *memory);
/** What errno `os_error` means where `call` is made. */
sgs_status memory_env_status(memory_env_call call, int os_error);
/** Names in the order of the enum, for tests that fail each call in turn. */
const char *memory_env_name(memory_env_call call);

#endif
