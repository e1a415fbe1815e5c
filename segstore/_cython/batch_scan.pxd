"""csrc/record/batch_scan.h"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

from segstore._cython.buffer cimport sgs_memory
from segstore._cython.record_batch cimport sgs_batch_header
from segstore._cython.status cimport sgs_error, sgs_status


cdef extern from "record/batch_scan.h" nogil:
    ctypedef enum sgs_scan_rules:
        SGS_SCAN_FILE
        SGS_SCAN_MEMORY

    ctypedef enum sgs_scan_stop:
        SGS_SCAN_COMPLETE
        SGS_SCAN_INCOMPLETE
        SGS_SCAN_CORRUPT
        SGS_SCAN_ORDER
        SGS_SCAN_LIMIT

    ctypedef struct sgs_scan_options:
        sgs_scan_rules rules
        bint check_crc
        bint check_order
        bint contiguous
        bint check_epochs
        bint kafka_limits
        int64_t segment_base_offset
        int64_t expected_offset
        int64_t next_segment_base_offset
        int32_t previous_epoch
        int32_t max_batch_bytes
        uint32_t max_batches

    ctypedef struct sgs_batch_table:
        pass

    ctypedef struct sgs_scan_result:
        sgs_scan_stop stop
        int64_t valid_bytes
        int64_t next_offset
        int64_t max_timestamp
        int64_t offset_of_max_timestamp
        int32_t last_epoch
        uint32_t batches_count
        sgs_error why

    void sgs_scan_options_default(sgs_scan_options *options, sgs_scan_rules rules)
    void sgs_batch_table_init(sgs_batch_table *table, sgs_memory memory)
    void sgs_batch_table_deinit(sgs_batch_table *table)
    size_t sgs_batch_table_count(const sgs_batch_table *table)
    const sgs_batch_header *sgs_batch_table_rows(const sgs_batch_table *table)

    ctypedef struct sgs_batch_scan:
        sgs_scan_options options
        sgs_scan_result result

    void sgs_batch_scan_start(sgs_batch_scan *scan, const sgs_scan_options *options, int64_t start_position)
    sgs_status sgs_batch_scan_feed(sgs_batch_scan *scan, const uint8_t *data, size_t size, int64_t end_position,
                                   sgs_batch_table *table, size_t *needed, sgs_error *err)
    sgs_status sgs_batch_scan_buffer(const uint8_t *data, size_t size, const sgs_scan_options *options,
                                     sgs_batch_table *table, sgs_scan_result *result, sgs_error *err)
