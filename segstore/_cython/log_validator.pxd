"""csrc/record/log_validator.h"""

from libc.stdint cimport int32_t, int64_t, uint8_t

from segstore._cython.buffer cimport sgs_buffer
from segstore._cython.codec cimport sgs_codec_table
from segstore._cython.record_batch cimport sgs_batch_header
from segstore._cython.status cimport sgs_error, sgs_status


cdef extern from "record/log_validator.h" nogil:
    ctypedef struct sgs_validation:
        int64_t next_offset
        int64_t now_ms
        int32_t partition_leader_epoch
        bint log_append_time
        bint keys_required
        bint records_are_trusted
        int64_t timestamp_before_max_ms
        int64_t timestamp_after_max_ms
        int64_t max_timestamp
        int64_t records_count
        int64_t invalid_timestamps_count

    sgs_status sgs_validate_and_assign_offsets(uint8_t *data, size_t size, sgs_batch_header *rows, size_t rows_count,
                                               const sgs_codec_table *codecs, sgs_buffer *scratch,
                                               sgs_validation *validation, sgs_error *err)
