"""csrc/index/time_index.h"""

from libc.stdint cimport int64_t, uint32_t

from segstore._cython.abstract_index cimport sgs_abstract_index, sgs_index_options
from segstore._cython.env cimport sgs_env
from segstore._cython.status cimport c_bool, sgs_error, sgs_status


cdef extern from "index/time_index.h" nogil:
    ctypedef struct sgs_timestamp_offset:
        int64_t timestamp
        int64_t offset

    ctypedef struct sgs_time_index:
        sgs_abstract_index base
        sgs_timestamp_offset last_entry

    sgs_status sgs_time_index_open(sgs_time_index *index, const sgs_env *env, int directory_fd, const char *name,
                                   int64_t base_offset, const sgs_index_options *options, sgs_error *err)
    sgs_status sgs_time_index_lookup(const sgs_time_index *index, int64_t timestamp, sgs_timestamp_offset *out,
                                     sgs_error *err)
    c_bool sgs_time_index_is_full(const sgs_time_index *index)
    sgs_status sgs_time_index_maybe_append(sgs_time_index *index, const sgs_env *env, const char *name,
                                           int64_t timestamp, int64_t offset, c_bool skip_full_check, sgs_error *err)
    sgs_status sgs_time_index_truncate_to(sgs_time_index *index, int64_t offset, sgs_error *err)
    sgs_status sgs_time_index_resize(sgs_time_index *index, const sgs_env *env, const char *name, uint32_t size,
                                     c_bool *changed, sgs_error *err)
    sgs_status sgs_time_index_trim(sgs_time_index *index, const sgs_env *env, const char *name, sgs_error *err)
    void sgs_time_index_refresh(sgs_time_index *index)
    sgs_status sgs_time_index_sanity_check(const sgs_time_index *index, sgs_error *err)
    sgs_status sgs_time_index_entry(const sgs_time_index *index, uint32_t n, sgs_timestamp_offset *out,
                                    sgs_error *err)
