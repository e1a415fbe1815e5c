"""csrc/record/record_batch.h"""

from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint32_t

from segstore._cython.status cimport c_bool, sgs_error, sgs_status


cdef extern from "record/record_batch.h" nogil:
    enum:
        SGS_BATCH_HEADER_BYTES
        SGS_ATTRIBUTE_LOG_APPEND_TIME
        SGS_BATCH_PREFIX_BYTES

    ctypedef struct sgs_batch_header:
        int64_t position
        int64_t base_offset
        int64_t last_offset
        int64_t base_timestamp
        int64_t max_timestamp
        int64_t producer_id
        int32_t size_bytes
        int32_t partition_leader_epoch
        int32_t base_sequence
        int32_t records_count
        uint32_t crc
        int16_t attributes
        int16_t producer_epoch
        int8_t magic
        uint8_t padding[7]

    sgs_status sgs_batch_header_load(const uint8_t *batch, size_t size, int64_t position, sgs_batch_header *header,
                                     sgs_error *err)
    sgs_status sgs_batch_check(const uint8_t *batch, size_t size, int64_t position, sgs_error *err)
    sgs_status sgs_batch_first_size(const uint8_t *prefix, int32_t *size, sgs_error *err)
    void sgs_batch_set_last_offset(uint8_t *batch, int64_t last_offset)
    void sgs_batch_set_leader_epoch(uint8_t *batch, int32_t epoch)
    void sgs_batch_set_max_timestamp(uint8_t *batch, size_t size, bint log_append_time, int64_t timestamp)
    void sgs_batch_set_producer_state(
        uint8_t *batch, size_t size, int64_t producer_id, int16_t producer_epoch, int32_t base_sequence
    )
    bint sgs_batch_is_control(const sgs_batch_header *header)
    int sgs_batch_codec(const sgs_batch_header *header)
    int sgs_batch_timestamp_type(const sgs_batch_header *header)
    int64_t sgs_batch_least_offset(const sgs_batch_header *header)
    c_bool sgs_batch_lies_below(const sgs_batch_header *header, int64_t offset)
    c_bool sgs_batches_are_without_gap(const sgs_batch_header *rows, size_t count)
    c_bool sgs_batches_have_one_epoch(const sgs_batch_header *rows, size_t count)
    int32_t sgs_sequence_add(int32_t sequence, int32_t n)
    int32_t sgs_sequence_subtract(int32_t sequence, int32_t n)
