"""csrc/segment/cleaner.h"""

from libc.stdint cimport int16_t, int32_t, int64_t

from segstore._cython.buffer cimport sgs_buffer, sgs_memory
from segstore._cython.codec cimport sgs_codec_table
from segstore._cython.log_segment cimport sgs_log_segment
from segstore._cython.offset_map cimport sgs_offset_map
from segstore._cython.status cimport c_bool, sgs_error, sgs_status


cdef extern from "record/cleaned_transaction_metadata.h" nogil:
    ctypedef struct sgs_aborted_txn:
        int64_t producer_id
        int64_t first_offset
        int64_t last_offset
        int64_t last_stable_offset

    ctypedef struct sgs_cleaned_transaction_metadata:
        sgs_buffer cleaned

    void sgs_cleaned_transaction_metadata_clear(sgs_cleaned_transaction_metadata *metadata)
    sgs_status sgs_cleaned_transaction_metadata_add(sgs_cleaned_transaction_metadata *metadata,
                                                    const sgs_aborted_txn *txns, size_t count, sgs_error *err)


cdef extern from "segment/cleaner.h" nogil:
    ctypedef struct sgs_last_record:
        int64_t producer_id
        int64_t last_data_offset
        int16_t producer_epoch

    ctypedef struct sgs_cleaner_options:
        int64_t first_dirty_offset
        int32_t max_entries
        int64_t now_ms
        int64_t delete_retention_ms
        int64_t destination_bytes
        size_t read_bytes
        bint check
        const sgs_last_record *last_records
        size_t last_records_count
        int64_t kept_last_offset
        bint retain_legacy_deletes

    ctypedef struct sgs_cleaner_stats:
        int64_t map_bytes_read
        int64_t map_messages_read
        int64_t bytes_read
        int64_t messages_read
        int64_t invalid_messages_read
        int64_t bytes_written
        int64_t messages_written

    ctypedef struct sgs_cleaner:
        sgs_cleaner_options options
        sgs_cleaner_stats stats
        sgs_cleaned_transaction_metadata transactions

    void sgs_cleaner_init(sgs_cleaner *cleaner, sgs_memory memory, const sgs_codec_table *codecs, sgs_offset_map *map)
    void sgs_cleaner_deinit(sgs_cleaner *cleaner)
    void sgs_cleaner_begin_pass(sgs_cleaner *cleaner)
    void sgs_cleaner_begin_source(sgs_cleaner *cleaner, const sgs_log_segment *source, int64_t position,
                                  int64_t next_base_offset)
    bint sgs_cleaner_is_done(const sgs_cleaner *cleaner)
    sgs_status sgs_cleaner_map_piece(sgs_cleaner *cleaner, sgs_log_segment *source, c_bool *full, sgs_error *err)
    sgs_status sgs_cleaner_copy_piece(sgs_cleaner *cleaner, sgs_log_segment *source, sgs_log_segment *destination,
                                      int64_t *begins_at, sgs_error *err)
