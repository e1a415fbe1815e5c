"""csrc/record/append_analysis.h"""

from libc.stdint cimport int32_t, int64_t, uint8_t

from segstore._cython.batch_scan cimport sgs_batch_table
from segstore._cython.status cimport sgs_error, sgs_status
from segstore._cython.validation cimport sgs_append_origin


cdef extern from "record/append_analysis.h" nogil:
    enum:
        SGS_APPEND_TOO_LARGE
        SGS_APPEND_OUT_OF_ORDER

    ctypedef int sgs_append_refusal

    ctypedef struct sgs_append_rules:
        sgs_append_origin origin
        int32_t leader_epoch
        int32_t max_message_bytes

    ctypedef struct sgs_append_analysis:
        sgs_append_refusal refusal
        size_t batches_count
        int64_t valid_bytes
        int64_t first_offset
        int64_t last_offset
        int64_t max_timestamp
        int32_t last_leader_epoch
        int source_codec

    sgs_status sgs_analyze_append(const uint8_t *data, size_t size, const sgs_append_rules *rules,
                                  sgs_batch_table *table, sgs_append_analysis *analysis, sgs_error *err)
