"""csrc/index/offset_index.h"""

from libc.stdint cimport int32_t, int64_t, uint32_t

from segstore._cython.abstract_index cimport sgs_abstract_index, sgs_index_options
from segstore._cython.env cimport sgs_env
from segstore._cython.status cimport c_bool, sgs_error, sgs_status


cdef extern from "index/offset_index.h" nogil:
    ctypedef struct sgs_offset_position:
        int64_t offset
        int32_t position

    ctypedef struct sgs_offset_index:
        sgs_abstract_index base
        int64_t last_offset

    sgs_status sgs_offset_index_open(sgs_offset_index *index, const sgs_env *env, int directory_fd, const char *name,
                                     int64_t base_offset, const sgs_index_options *options, sgs_error *err)
    sgs_status sgs_offset_index_lookup(const sgs_offset_index *index, int64_t target, sgs_offset_position *out,
                                       sgs_error *err)
    c_bool sgs_offset_index_is_full(const sgs_offset_index *index)
    sgs_status sgs_offset_index_append(sgs_offset_index *index, const sgs_env *env, const char *name, int64_t offset,
                                       int32_t position, sgs_error *err)
    sgs_status sgs_offset_index_truncate_to(sgs_offset_index *index, int64_t offset, sgs_error *err)
    sgs_status sgs_offset_index_fetch_upper_bound_offset(const sgs_offset_index *index, sgs_offset_position fetch_start,
                                                         int32_t fetch_size, sgs_offset_position *out, c_bool *found,
                                                         sgs_error *err)
    void sgs_offset_index_refresh(sgs_offset_index *index)
    sgs_status sgs_offset_index_sanity_check(const sgs_offset_index *index, sgs_error *err)
    sgs_status sgs_offset_index_entry(const sgs_offset_index *index, uint32_t n, sgs_offset_position *out,
                                      sgs_error *err)
