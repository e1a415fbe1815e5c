"""csrc/segment/segment_listing.h"""

from libc.stdint cimport int32_t, int64_t, uint32_t

from segstore._cython.buffer cimport sgs_buffer, sgs_memory
from segstore._cython.env cimport sgs_env
from segstore._cython.status cimport c_bool, sgs_error, sgs_status


cdef extern from "segment/segment_listing.h" nogil:
    ctypedef struct sgs_listed_segment:
        int64_t base_offset
        uint32_t kinds

    ctypedef struct sgs_segment_listing:
        sgs_buffer others

    void sgs_segment_listing_init(sgs_segment_listing *listing, sgs_memory memory)
    void sgs_segment_listing_deinit(sgs_segment_listing *listing)
    sgs_status sgs_segment_listing_add(sgs_segment_listing *listing, const char *name, sgs_error *err)
    sgs_status sgs_segment_listing_sort(sgs_segment_listing *listing, sgs_error *err)
    sgs_status sgs_segment_listing_read(sgs_segment_listing *listing, const sgs_env *env, int directory_fd,
                                        sgs_error *err)
    const sgs_listed_segment *sgs_segment_listing_rows(const sgs_segment_listing *listing, size_t *count)
    sgs_status sgs_segment_listing_has_log(const sgs_env *env, int directory_fd, c_bool *has_log, sgs_error *err)
    sgs_status sgs_segment_log_sizes(const sgs_env *env, int directory_fd, const int64_t *base_offsets, size_t count,
                                     int32_t *sizes, sgs_error *err)
