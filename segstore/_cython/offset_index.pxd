"""csrc/index/offset_index.h"""

from libc.stdint cimport int32_t, int64_t, uint32_t

from segstore._cython.abstract_index cimport sgs_abstract_index, sgs_index_options
from segstore._cython.env cimport sgs_env
from segstore._cython.status cimport sgs_error, sgs_status


cdef extern from "index/offset_index.h" nogil:
    ctypedef struct sgs_offset_position:
        int64_t offset
        int32_t position

    ctypedef struct sgs_offset_index:
        sgs_abstract_index base

    sgs_status sgs_offset_index_open(sgs_offset_index *index, const sgs_env *env, int directory_fd, const char *name,
                                     int64_t base_offset, const sgs_index_options *options, sgs_error *err)
    sgs_status sgs_offset_index_lookup(const sgs_offset_index *index, int64_t target, sgs_offset_position *out,
                                       sgs_error *err)
    sgs_status sgs_offset_index_sanity_check(const sgs_offset_index *index, sgs_error *err)
    sgs_status sgs_offset_index_entry(const sgs_offset_index *index, uint32_t n, sgs_offset_position *out,
                                      sgs_error *err)
