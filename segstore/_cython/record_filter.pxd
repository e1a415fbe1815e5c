"""csrc/record/record_filter.h"""

from libc.stdint cimport int64_t, uint8_t

from segstore._cython.buffer cimport sgs_buffer, sgs_memory
from segstore._cython.codec cimport sgs_codec_table
from segstore._cython.record cimport sgs_record
from segstore._cython.record_batch cimport sgs_batch_header
from segstore._cython.status cimport c_bool, sgs_error, sgs_status


cdef extern from "record/record_filter.h" nogil:
    ctypedef struct sgs_filter_options:
        int64_t now_ms
        int64_t delete_retention_ms
        size_t destination_capacity
        bint check_crc
        void *context
        void (*should_retain)(void *context, const sgs_batch_header *batch, const sgs_record *records, size_t count,
                              c_bool *retained) noexcept nogil

    ctypedef struct sgs_filter_result:
        int64_t messages_read
        int64_t messages_retained
        int64_t bytes_read
        int64_t bytes_retained
        int64_t max_offset
        int64_t max_timestamp
        int64_t shallow_offset_of_max_timestamp
        size_t batches_read
        bint output_grew

    ctypedef struct sgs_record_filter:
        sgs_filter_options options
        sgs_filter_result result
        sgs_buffer output
        sgs_buffer output_rows

    ctypedef struct sgs_offsets_to_keep:
        const int64_t *offsets
        size_t count

    void sgs_record_filter_init(sgs_record_filter *filter, sgs_memory memory, const sgs_codec_table *codecs)
    void sgs_record_filter_deinit(sgs_record_filter *filter)
    sgs_status sgs_record_filter_run(sgs_record_filter *filter, const uint8_t *data, size_t size,
                                     const sgs_batch_header *rows, const uint8_t *decisions, size_t rows_count,
                                     sgs_error *err)
    void sgs_offsets_to_keep_have(void *context, const sgs_batch_header *batch, const sgs_record *records, size_t count,
                                  c_bool *retained)
