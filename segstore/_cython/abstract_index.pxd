"""csrc/index/abstract_index.h"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

from segstore._cython.env cimport sgs_env
from segstore._cython.status cimport c_bool, sgs_error, sgs_status


cdef extern from "index/abstract_index.h" nogil:
    const int64_t SGS_INDEX_LIMIT_BYTES

    ctypedef struct sgs_mapped_file:
        uint32_t length
        int fd

    ctypedef struct sgs_index_options:
        uint32_t max_size_bytes
        bint writable
        bint heap
        bint grow_in_steps

    ctypedef struct sgs_abstract_index:
        sgs_mapped_file file
        int64_t base_offset
        uint32_t max_entries
        uint8_t entry_size

    uint32_t sgs_abstract_index_entries(const sgs_abstract_index *index)
    c_bool sgs_relative_offset(int64_t base_offset, int64_t offset, int32_t *relative)
    void sgs_abstract_index_keep(sgs_abstract_index *index, uint32_t entries)
    sgs_status sgs_abstract_index_resize(sgs_abstract_index *index, const sgs_env *env, const char *name, uint32_t size,
                                         c_bool *changed, sgs_error *err)
    sgs_status sgs_abstract_index_trim(sgs_abstract_index *index, const sgs_env *env, const char *name, sgs_error *err)
    sgs_status sgs_abstract_index_reset(sgs_abstract_index *index, const sgs_env *env, const char *name,
                                        uint32_t max_size, sgs_error *err)
    sgs_status sgs_abstract_index_flush(sgs_abstract_index *index, const sgs_env *env, const char *name,
                                        sgs_error *err)
    void sgs_abstract_index_close_handler(sgs_abstract_index *index, const sgs_env *env, const char *name)
