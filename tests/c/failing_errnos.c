/* failing_errnos.c - which errnos a call can have, by its manual page: those that come from the system and its devices, none
 * that only a mistake of ours brings. Also for those that only the floors above the core make: tests/crash/errno_table.py reads
 * this file. */
#include "failing_errnos.h"

#include <errno.h>

const int *failing_errnos(memory_env_call call)
{
    static const int allocate[] = { ENOMEM, 0 };
    static const int open_directory[] = { EIO, EACCES, ENOENT, ENOTDIR, ELOOP, EMFILE, ENFILE, ENOMEM, 0 };
    static const int list_directory[] = { EIO, ENOENT, ENOMEM, 0 };
    static const int file_info_at[] = { EIO, EACCES, ENOENT, ENOMEM, 0 };
    static const int names[] = { EIO, EACCES, EPERM, EROFS, ENOENT, ENOSPC, EDQUOT, ENOMEM, 0 };
    static const int open_file[] = { EIO, EACCES, EROFS, ENOSPC, EDQUOT, EMFILE, ENFILE, ENOMEM, ELOOP, ENXIO, 0 };
    static const int give_back[] = { EIO, ENOSPC, EDQUOT, 0 };
    static const int file_info[] = { EIO, ENOMEM, 0 };
    static const int read_at[] = { EIO, EISDIR, 0 };
    static const int write_at[] = { EIO, ENOSPC, EDQUOT, EFBIG, EPERM, 0 };
    static const int send_file[] = { EIO, EPIPE, ECONNRESET, ENOMEM, 0 };
    static const int truncate[] = { EIO, ENOSPC, EFBIG, EPERM, 0 };
    static const int allocate_space[] = { EIO, ENOSPC, EDQUOT, EFBIG, 0 };
    static const int sync[] = { EIO, ENOSPC, EDQUOT, EROFS, 0 };
    static const int map[] = { ENOMEM, EACCES, ENFILE, EPERM, 0 };
    static const int attributes[] = { EIO, EACCES, EPERM, EROFS, ENOENT, ENOMEM, 0 };
    static const int lock[] = { EIO, EAGAIN, ENOLCK, ENOMEM, 0 };
    static const int unlock[] = { EIO, ENOLCK, 0 };
    static const int is_network_file_system[] = { EIO, EACCES, ENOMEM, 0 };
    static const int none[] = { 0 };
    switch (call) {
    case MEMORY_ENV_allocate:
        return allocate;
    case MEMORY_ENV_open_directory:
        return open_directory;
    case MEMORY_ENV_list_directory:
        return list_directory;
    case MEMORY_ENV_file_info_at:
        return file_info_at;
    case MEMORY_ENV_make_directory:
    case MEMORY_ENV_remove_directory:
    case MEMORY_ENV_rename:
    case MEMORY_ENV_unlink:
        return names;
    case MEMORY_ENV_open_file:
        return open_file;
    case MEMORY_ENV_close:
        return give_back;
    case MEMORY_ENV_file_info:
        return file_info;
    case MEMORY_ENV_read_at:
        return read_at;
    case MEMORY_ENV_write_at:
        return write_at;
    case MEMORY_ENV_send_file:
        return send_file;
    case MEMORY_ENV_truncate:
        return truncate;
    case MEMORY_ENV_allocate_space:
        return allocate_space;
    case MEMORY_ENV_sync_directory:
    case MEMORY_ENV_sync_data:
    case MEMORY_ENV_sync_file:
    case MEMORY_ENV_sync_mapping:
        return sync;
    case MEMORY_ENV_map:
        return map;
    case MEMORY_ENV_set_modified_at:
    case MEMORY_ENV_make_read_only_at:
        return attributes;
    case MEMORY_ENV_lock:
        return lock;
    case MEMORY_ENV_unlock:
        return unlock;
    case MEMORY_ENV_is_network_file_system:
        return is_network_file_system;
    default:
        return none;
    }
}

const char *failing_errno_name(int os_error)
{
#define NAMED(name) \
    {               \
        name, #name \
    }
    static const struct {
        int os_error;
        const char *name;
    } names[] = { NAMED(EIO),    NAMED(EACCES), NAMED(EPERM),   NAMED(EROFS),     NAMED(ENOENT),
                  NAMED(ENOSPC), NAMED(EDQUOT), NAMED(ENOMEM),  NAMED(EMFILE),    NAMED(ENFILE),
                  NAMED(ELOOP),  NAMED(ENXIO),  NAMED(ENOTDIR), NAMED(EAGAIN),    NAMED(ENOLCK),
                  NAMED(EISDIR), NAMED(EFBIG),  NAMED(EPIPE),   NAMED(ECONNRESET) };
#undef NAMED
    for (size_t i = 0; i < sizeof names / sizeof names[0]; ++i)
        if (names[i].os_error == os_error)
            return names[i].name;
    return "?";
}
