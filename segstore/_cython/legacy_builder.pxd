"""csrc/record/legacy_builder.h"""

from libc.stdint cimport int8_t, int32_t, int64_t

from segstore._cython.buffer cimport sgs_buffer, sgs_memory
from segstore._cython.codec cimport sgs_codec_table
from segstore._cython.record cimport sgs_bytes
from segstore._cython.status cimport sgs_error, sgs_status


cdef extern from "record/legacy_builder.h" nogil:
    ctypedef struct sgs_legacy_options:
        int64_t base_offset
        int64_t log_append_timestamp
        int codec
        int level
        bint log_append_time
        int8_t magic

    ctypedef struct sgs_legacy_builder:
        int32_t records_count

    void sgs_legacy_builder_init(sgs_legacy_builder *builder, sgs_memory memory, const sgs_codec_table *codecs)
    void sgs_legacy_builder_deinit(sgs_legacy_builder *builder)
    sgs_status sgs_legacy_builder_start(sgs_legacy_builder *builder, const sgs_legacy_options *options,
                                        sgs_error *err)
    sgs_status sgs_legacy_builder_append(sgs_legacy_builder *builder, int64_t offset, int64_t timestamp,
                                         sgs_bytes key, sgs_bytes value, sgs_error *err)
    sgs_status sgs_legacy_builder_finish(sgs_legacy_builder *builder, sgs_buffer *out, sgs_error *err)
    void sgs_legacy_builder_abort(sgs_legacy_builder *builder)
    void sgs_legacy_builder_info(const sgs_legacy_builder *builder, int64_t *max_timestamp, int64_t *offset)
