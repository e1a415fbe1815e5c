"""csrc/io/env.h"""

from libc.stdint cimport int64_t, uint8_t, uint64_t

from segstore._cython.buffer cimport sgs_memory
from segstore._cython.status cimport c_bool, sgs_error, sgs_status


cdef extern from "io/barrier.h" nogil:
    ctypedef enum sgs_barrier:
        SGS_BARRIER_NEW_DIRECTORY
        SGS_BARRIER_CLOSED_RECORDS
        SGS_BARRIER_APPENDED_RECORDS
        SGS_BARRIER_COUNT

    ctypedef enum sgs_barrier_kind:
        SGS_BARRIER_IS_PROMISE
        SGS_BARRIER_IS_WORK

    ctypedef struct sgs_barrier_text:
        const char *name
        sgs_barrier_kind kind
        const char *rules
        const char *without

    sgs_barrier_text sgs_barrier_describe(sgs_barrier barrier)


cdef extern from "io/env.h" nogil:
    ctypedef struct sgs_slice:
        const uint8_t *data
        size_t size

    ctypedef enum sgs_open_mode:
        SGS_OPEN_READ
        SGS_OPEN_WRITE
        SGS_OPEN_CREATE
        SGS_OPEN_WRITE_OR_CREATE

    ctypedef struct sgs_file_info:
        int64_t size
        int64_t modified_ms
        int64_t changed_ns
        uint64_t device
        uint64_t inode
        bint is_directory
        bint is_regular

    ctypedef struct sgs_transfer:
        size_t sent
        c_bool would_block
        c_bool interrupted

    ctypedef enum sgs_lock_kind:
        SGS_LOCK_SHARED
        SGS_LOCK_EXCLUSIVE

    ctypedef sgs_status (*sgs_name_visitor)(void *context, const char *name, sgs_error *err) noexcept nogil

    ctypedef struct sgs_env:
        sgs_status (*open_directory)(const sgs_env *env, int parent_fd, const char *path, int *fd,
                                     sgs_error *err) noexcept nogil
        sgs_status (*make_directory)(const sgs_env *env, int parent_fd, const char *path,
                                     sgs_error *err) noexcept nogil
        sgs_status (*remove_directory)(const sgs_env *env, int parent_fd, const char *path,
                                       sgs_error *err) noexcept nogil
        sgs_status (*list_directory)(const sgs_env *env, int fd, sgs_name_visitor visit, void *context,
                                     sgs_error *err) noexcept nogil
        sgs_status (*sync_directory)(const sgs_env *env, int fd, sgs_barrier barrier, sgs_error *err) noexcept nogil
        sgs_status (*file_info_at)(const sgs_env *env, int directory_fd, const char *name, sgs_file_info *info,
                                   sgs_error *err) noexcept nogil
        sgs_status (*set_modified_at)(const sgs_env *env, int directory_fd, const char *name, int64_t modified_ms,
                                      sgs_error *err) noexcept nogil
        sgs_status (*make_read_only_at)(const sgs_env *env, int directory_fd, const char *name,
                                        sgs_error *err) noexcept nogil
        sgs_status (*rename)(const sgs_env *env, int directory_fd, const char *old, const char *new,
                             sgs_error *err) noexcept nogil
        sgs_status (*unlink)(const sgs_env *env, int directory_fd, const char *name, sgs_error *err) noexcept nogil
        sgs_status (*open_file)(const sgs_env *env, int directory_fd, const char *name, sgs_open_mode mode, int *fd,
                                sgs_error *err) noexcept nogil
        sgs_status (*close)(const sgs_env *env, int fd, const char *name, sgs_error *err) noexcept nogil
        sgs_status (*file_info)(const sgs_env *env, int fd, const char *name, sgs_file_info *info,
                                sgs_error *err) noexcept nogil
        sgs_status (*read_at)(const sgs_env *env, int fd, const char *name, void *data, size_t size,
                              int64_t position, size_t *got, sgs_error *err) noexcept nogil
        sgs_status (*write_at)(const sgs_env *env, int fd, const char *name, const sgs_slice *slices, size_t count,
                               int64_t position, int64_t *written, sgs_error *err) noexcept nogil
        sgs_status (*truncate)(const sgs_env *env, int fd, const char *name, int64_t size,
                               sgs_error *err) noexcept nogil
        sgs_status (*sync_file)(const sgs_env *env, int fd, const char *name, sgs_barrier barrier,
                                sgs_error *err) noexcept nogil
        sgs_status (*lock)(const sgs_env *env, int fd, const char *name, sgs_lock_kind kind,
                           sgs_error *err) noexcept nogil
        sgs_status (*unlock)(const sgs_env *env, int fd, const char *name, sgs_error *err) noexcept nogil
        int64_t (*wall_clock_ms)(const sgs_env *env) noexcept nogil
        int64_t (*monotonic_ns)(const sgs_env *env) noexcept nogil
        int64_t (*process_id)(const sgs_env *env) noexcept nogil
        sgs_status (*is_network_file_system)(const sgs_env *env, int fd, c_bool *is_network,
                                             sgs_error *err) noexcept nogil

    enum:
        SGS_CWD

    sgs_memory sgs_env_memory(const sgs_env *env)
    const sgs_env *sgs_env_posix()
