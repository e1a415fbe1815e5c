"""csrc/index/abstract_index.h"""

from libc.stdint cimport int64_t, uint32_t

from segstore._cython.env cimport sgs_env
from segstore._cython.status cimport sgs_error, sgs_status


cdef extern from "index/abstract_index.h" nogil:
    ctypedef struct sgs_index_options:
        uint32_t max_size_bytes
        bint writable
        bint heap
        bint grow_in_steps

    ctypedef struct sgs_abstract_index:
        int64_t base_offset

    uint32_t sgs_abstract_index_entries(const sgs_abstract_index *index)
    sgs_status sgs_abstract_index_close(sgs_abstract_index *index, const sgs_env *env, const char *name,
                                        sgs_error *err)
