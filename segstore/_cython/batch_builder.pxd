"""csrc/record/batch_builder.h"""

from libc.stdint cimport int16_t, int32_t, int64_t

from segstore._cython.buffer cimport sgs_buffer, sgs_memory
from segstore._cython.codec cimport sgs_codec_table
from segstore._cython.record cimport sgs_bytes, sgs_record_header
from segstore._cython.record_batch cimport sgs_batch_header
from segstore._cython.status cimport sgs_error, sgs_status


cdef extern from "record/batch_builder.h" nogil:
    ctypedef struct sgs_batch_options:
        int64_t base_offset
        int32_t partition_leader_epoch
        int codec
        int level
        bint log_append_time
        int64_t log_append_timestamp
        bint transactional
        bint control
        int64_t producer_id
        int16_t producer_epoch
        int32_t base_sequence
        int64_t delete_horizon_ms

    void sgs_batch_options_default(sgs_batch_options *options)

    ctypedef struct sgs_batch_builder:
        sgs_batch_options options
        sgs_buffer section
        int64_t base_timestamp
        int64_t max_timestamp
        int64_t last_offset
        int32_t records_count

    void sgs_batch_builder_init(sgs_batch_builder *builder, sgs_memory memory, const sgs_codec_table *codecs)
    void sgs_batch_builder_deinit(sgs_batch_builder *builder)
    sgs_status sgs_batch_builder_start(sgs_batch_builder *builder, const sgs_batch_options *options, sgs_error *err)
    sgs_status sgs_batch_builder_append(sgs_batch_builder *builder, int64_t offset, int64_t timestamp, sgs_bytes key,
                                        sgs_bytes value, const sgs_record_header *headers, int32_t headers_count,
                                        sgs_error *err)
    sgs_status sgs_batch_builder_seal(sgs_batch_builder *builder, sgs_buffer *out, size_t start,
                                      sgs_batch_header *header, sgs_error *err)
    sgs_status sgs_batch_builder_finish(sgs_batch_builder *builder, sgs_buffer *out, sgs_batch_header *header,
                                        sgs_error *err)
    void sgs_batch_builder_abort(sgs_batch_builder *builder)
    void sgs_batch_builder_info(const sgs_batch_builder *builder, int64_t *max_timestamp, int64_t *offset)
    sgs_status sgs_batch_build_end_transaction_marker(int64_t offset, int64_t timestamp,
                                                      int32_t partition_leader_epoch, int64_t producer_id,
                                                      int16_t producer_epoch, bint commit, int32_t coordinator_epoch,
                                                      sgs_buffer *out, sgs_error *err)
    sgs_status sgs_batch_build_empty(const sgs_batch_header *header, sgs_buffer *out, sgs_error *err)
