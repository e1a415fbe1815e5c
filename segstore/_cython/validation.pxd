"""csrc/record/validation.h"""

from libc.stdint cimport int8_t, int32_t, int64_t

from segstore._cython.buffer cimport sgs_buffer, sgs_memory
from segstore._cython.codec cimport sgs_codec_table
from segstore._cython.status cimport sgs_error, sgs_status


cdef extern from "record/validation.h" nogil:
    enum:
        SGS_ORIGIN_REPLICATION
        SGS_ORIGIN_RAFT_LEADER

    ctypedef int sgs_append_origin

    ctypedef struct sgs_validation_options:
        int64_t now_ms
        int64_t timestamp_before_max_ms
        int64_t timestamp_after_max_ms
        int32_t partition_leader_epoch
        sgs_append_origin origin
        int target_codec
        int level
        int8_t target_magic
        bint log_append_time
        bint keys_required
        bint one_request
        bint kafka_limits
        bint records_are_trusted
        bint records_are_checked

    ctypedef struct sgs_record_error:
        int32_t record_index

    ctypedef struct sgs_validator_metrics:
        int64_t invalid_magic
        int64_t invalid_offset
        int64_t invalid_sequence
        int64_t invalid_checksums
        int64_t no_key_compacted_topic

    ctypedef struct sgs_validation:
        int64_t next_offset
        int64_t max_timestamp
        int64_t records_count
        int64_t converted_count
        bint sizes_may_have_changed
        bint is_rebuilt
        size_t failed_batch
        int64_t record_errors_count
        bint has_invalid_timestamp
        sgs_validator_metrics metrics

    ctypedef struct sgs_log_validator:
        sgs_validation_options options
        sgs_validation result
        sgs_buffer output
        sgs_buffer output_rows

    void sgs_log_validator_init(sgs_log_validator *validator, sgs_memory memory, const sgs_codec_table *codecs)
    void sgs_log_validator_deinit(sgs_log_validator *validator)
    void sgs_log_validator_trim(sgs_log_validator *validator, size_t kept_bytes)
    size_t sgs_log_validator_errors_count(const sgs_log_validator *validator)
    const sgs_record_error *sgs_log_validator_errors(const sgs_log_validator *validator)
    sgs_status sgs_record_error_describe(const sgs_log_validator *validator, const sgs_record_error *record_error,
                                         sgs_error *err)
