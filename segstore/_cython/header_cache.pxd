"""csrc/segment/header_cache.h"""

from segstore._cython.buffer cimport sgs_memory


cdef extern from "segment/header_cache.h" nogil:
    ctypedef struct sgs_header_cache:
        pass

    ctypedef struct sgs_header_view:
        pass

    void sgs_header_cache_init(sgs_header_cache *cache, sgs_memory memory)
    void sgs_header_view_init(sgs_header_view *view, sgs_header_cache *cache)
