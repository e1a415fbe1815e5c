"""csrc/segment/append_lane.h"""

from libc.stdint cimport int32_t, int64_t, uint8_t

from segstore._cython.buffer cimport sgs_memory
from segstore._cython.log_segment cimport sgs_log_segment
from segstore._cython.record_batch cimport sgs_batch_header
from segstore._cython.status cimport c_bool, sgs_error, sgs_status
from segstore._cython.validation cimport sgs_log_validator


cdef extern from "segment/append_lane.h" nogil:
    ctypedef struct sgs_append_lane:
        int64_t next_offset
        int32_t position
        int64_t max_segment_ms
        int32_t max_segment_bytes
        int32_t max_batch_bytes
        int32_t leader_epoch

    ctypedef struct sgs_lane_append:
        c_bool taken
        c_bool poisoned
        int64_t first_offset
        int64_t last_offset
        int64_t max_timestamp
        int64_t records_count

    void sgs_append_lane_init(sgs_append_lane *lane, sgs_memory memory)
    void sgs_append_lane_deinit(sgs_append_lane *lane)
    sgs_status sgs_append_lane_leader(sgs_append_lane *lane, sgs_log_segment *segment, sgs_log_validator *validator,
                                      const uint8_t *data, size_t size, int64_t now_ms, sgs_lane_append *answer,
                                      sgs_error *err)
    sgs_status sgs_append_lane_own(sgs_append_lane *lane, sgs_log_segment *segment, sgs_log_validator *validator,
                                   uint8_t *data, size_t size, sgs_batch_header *row, int64_t now_ms,
                                   sgs_lane_append *answer, sgs_error *err)
    sgs_status sgs_append_lane_follower(sgs_append_lane *lane, sgs_log_segment *segment, const uint8_t *data,
                                        size_t size, int32_t leader_epoch, int64_t now_ms, sgs_lane_append *answer,
                                        sgs_error *err)
