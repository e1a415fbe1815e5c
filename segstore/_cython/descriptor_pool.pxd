"""csrc/io/descriptor_pool.h"""

from libc.stdint cimport int64_t, uint32_t, uint64_t

from segstore._cython.env cimport sgs_env


cdef extern from "io/descriptor_pool.h" nogil:
    ctypedef struct sgs_descriptor_pool:
        sgs_env env

    void sgs_descriptor_pool_init(sgs_descriptor_pool *pool, const sgs_env *base)
    void sgs_descriptor_pool_limit(sgs_descriptor_pool *pool, int64_t limit)
    void sgs_descriptor_pool_count(sgs_descriptor_pool *pool, uint32_t *open_count, uint64_t *evictions)
    void sgs_descriptor_pool_before_fork(sgs_descriptor_pool *pool)
    void sgs_descriptor_pool_in_parent(sgs_descriptor_pool *pool)
    void sgs_descriptor_pool_in_child(sgs_descriptor_pool *pool)
