"""csrc/record/write_limit.h"""

from libc.stdint cimport int32_t, int64_t

from segstore._cython.batch_builder cimport sgs_batch_builder
from segstore._cython.legacy_builder cimport sgs_legacy_builder
from segstore._cython.record cimport sgs_bytes, sgs_record_header


cdef extern from "record/write_limit.h" nogil:
    ctypedef struct sgs_write_limit:
        int64_t bytes
        float estimated_ratio

    int64_t sgs_batch_builder_estimated_size(const sgs_batch_builder *builder, float estimated_ratio)
    int64_t sgs_legacy_builder_estimated_size(const sgs_legacy_builder *builder, float estimated_ratio)
    bint sgs_batch_builder_is_full(const sgs_batch_builder *builder, sgs_write_limit limit)
    bint sgs_legacy_builder_is_full(const sgs_legacy_builder *builder, sgs_write_limit limit)
    bint sgs_batch_builder_has_room_for(const sgs_batch_builder *builder, sgs_write_limit limit, int64_t timestamp,
                                        sgs_bytes key, sgs_bytes value, const sgs_record_header *headers,
                                        int32_t headers_count)
    bint sgs_legacy_builder_has_room_for(const sgs_legacy_builder *builder, sgs_write_limit limit, sgs_bytes key,
                                         sgs_bytes value)
