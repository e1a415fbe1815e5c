"""csrc/segment/log_segment.h"""

from libc.stdint cimport int8_t, int32_t, int64_t, uint32_t

from segstore._cython.batch_scan cimport sgs_batch_table, sgs_scan_options, sgs_scan_result
from segstore._cython.buffer cimport sgs_buffer
from segstore._cython.codec cimport sgs_codec_table
from segstore._cython.env cimport sgs_barrier, sgs_env, sgs_slice
from segstore._cython.header_cache cimport sgs_header_view
from segstore._cython.offset_index cimport sgs_offset_index
from segstore._cython.record_batch cimport sgs_batch_header
from segstore._cython.status cimport c_bool, sgs_error, sgs_status
from segstore._cython.time_index cimport sgs_time_index, sgs_timestamp_offset


cdef extern from "segment/log_segment.h" nogil:
    ctypedef struct sgs_segment_context:
        const sgs_env *env
        int directory_fd
        bint writable
        bint kafka_profile
        bint heap_indexes
        bint preallocate
        uint32_t index_interval_bytes
        uint32_t max_index_bytes
        int32_t segment_bytes
        int32_t max_batch_bytes
        const sgs_codec_table *codecs
        sgs_header_view *headers
        c_bool *writing_ended

    ctypedef struct sgs_log_segment:
        pass

    ctypedef enum sgs_segment_suffix:
        SGS_SUFFIX_NONE
        SGS_SUFFIX_DELETED
        SGS_SUFFIX_CLEANED
        SGS_SUFFIX_SWAP

    ctypedef enum sgs_segment_file:
        SGS_FILE_LOG

    enum:
        SGS_SEGMENT_NAME_BYTES

    void sgs_segment_file_name(int64_t base_offset, sgs_segment_file kind, sgs_segment_suffix suffix, char *name)
    sgs_status sgs_log_segment_open(const sgs_segment_context *context, int64_t base_offset,
                                    sgs_segment_suffix suffix, bint create, sgs_log_segment **segment, sgs_error *err)
    sgs_status sgs_log_segment_open_sized(const sgs_segment_context *context, int64_t base_offset, int32_t size,
                                          int64_t created_ms, sgs_log_segment **segment, sgs_error *err)
    sgs_status sgs_log_segment_append(sgs_log_segment *segment, const sgs_slice *slices, size_t slices_count,
                                      const sgs_batch_header *rows, size_t rows_count, c_bool *poisoned, sgs_error *err)

    ctypedef struct sgs_segment_read:
        int64_t start_offset
        int32_t max_size
        int64_t max_position
        bint min_one_message
        int32_t start_position

    ctypedef struct sgs_segment_fetch:
        bint found
        int64_t base_offset
        int32_t position
        int32_t size
        int32_t first_batch_size
        int8_t first_batch_magic
        bint first_entry_incomplete

    sgs_status sgs_log_segment_read(sgs_log_segment *segment, const sgs_segment_read *request, sgs_buffer *out,
                                    sgs_segment_fetch *fetch, sgs_error *err)
    sgs_status sgs_log_segment_slice(sgs_log_segment *segment, const sgs_segment_read *request,
                                     sgs_segment_fetch *fetch, sgs_error *err)
    sgs_status sgs_log_segment_translate_offset(sgs_log_segment *segment, int64_t offset, int32_t start_position,
                                                int64_t max_position, sgs_segment_fetch *fetch, sgs_error *err)
    sgs_status sgs_log_segment_read_next_offset(sgs_log_segment *segment, int64_t *next_offset, c_bool *ends_clean,
                                                sgs_error *err)

    ctypedef struct sgs_found_timestamp:
        bint found
        int64_t timestamp
        int64_t offset
        int32_t leader_epoch

    sgs_status sgs_log_segment_find_offset_by_timestamp(sgs_log_segment *segment, int64_t timestamp,
                                                        int64_t starting_offset, int64_t max_position,
                                                        sgs_found_timestamp *out, sgs_error *err)
    sgs_status sgs_log_segment_search_for_timestamp(sgs_log_segment *segment, int64_t timestamp,
                                                    int32_t start_position, int64_t starting_offset,
                                                    sgs_found_timestamp *out, sgs_error *err)
    sgs_status sgs_log_segment_largest_timestamp_after(sgs_log_segment *segment, int32_t start_position,
                                                       sgs_found_timestamp *out, sgs_error *err)
    sgs_status sgs_log_segment_find_max_timestamp(sgs_log_segment *segment, sgs_found_timestamp *out, sgs_error *err)
    sgs_status sgs_log_segment_scan(sgs_log_segment *segment, const sgs_scan_options *options, int64_t start_position,
                                    int64_t end_position, sgs_batch_table *table, sgs_scan_result *result,
                                    sgs_error *err)

    const int64_t SGS_CUT_ANYWHERE

    ctypedef struct sgs_recovery:
        sgs_scan_result scan
        int32_t truncated_bytes

    sgs_status sgs_log_segment_recover(sgs_log_segment *segment, const sgs_scan_options *options, int64_t cut_at,
                                       sgs_batch_table *table, sgs_recovery *recovery, sgs_error *err)
    sgs_status sgs_log_segment_begin_recovery(sgs_log_segment *segment, sgs_error *err)
    sgs_status sgs_log_segment_recover_batches(sgs_log_segment *segment, const sgs_batch_header *rows,
                                               size_t rows_count, int64_t *last_indexed_position, size_t *taken,
                                               sgs_error *err)
    sgs_status sgs_log_segment_end_recovery(sgs_log_segment *segment, int32_t valid_bytes, int32_t *truncated_bytes,
                                            sgs_error *err)
    sgs_status sgs_log_segment_drop_cache(sgs_log_segment *segment, sgs_error *err)
    sgs_status sgs_log_segment_rewrite(sgs_log_segment *segment, int64_t position, sgs_error *err)
    sgs_status sgs_log_segment_truncate_to(sgs_log_segment *segment, int64_t offset, int32_t *bytes_cut,
                                           sgs_error *err)
    sgs_status sgs_log_segment_on_become_inactive(sgs_log_segment *segment, sgs_error *err)
    sgs_status sgs_log_segment_prepare_for_appends(sgs_log_segment *segment, sgs_error *err)
    sgs_status sgs_log_segment_flush(sgs_log_segment *segment, bint indexes, sgs_barrier barrier, sgs_error *err)
    sgs_status sgs_log_segment_release(sgs_log_segment *segment, sgs_error *err)
    sgs_status sgs_log_segment_give_up_indexes(sgs_log_segment *segment, sgs_error *err)
    sgs_status sgs_log_segment_close(sgs_log_segment *segment, sgs_error *err)
    void sgs_log_segment_close_quietly(sgs_log_segment *segment)
    sgs_status sgs_log_segment_change_suffix(sgs_log_segment *segment, sgs_segment_suffix suffix, sgs_error *err)
    sgs_status sgs_log_segment_delete_files(sgs_log_segment *segment, sgs_error *err)

    int64_t sgs_log_segment_base_offset(const sgs_log_segment *segment)
    int32_t sgs_log_segment_size(const sgs_log_segment *segment)
    int64_t sgs_log_segment_unflushed_records(const sgs_log_segment *segment)
    int64_t sgs_log_segment_created_ms(const sgs_log_segment *segment)
    c_bool sgs_log_segment_index_damaged(const sgs_log_segment *segment)
    sgs_status sgs_log_segment_indexes_full(sgs_log_segment *segment, c_bool *full, sgs_error *err)
    sgs_status sgs_log_segment_first_batch_timestamp(sgs_log_segment *segment, int64_t *timestamp, sgs_error *err)
    sgs_status sgs_log_segment_max_timestamp(sgs_log_segment *segment, sgs_timestamp_offset *out,
                                             c_bool *is_partial, sgs_error *err)
    sgs_status sgs_log_segment_modified_ms(sgs_log_segment *segment, int64_t *modified_ms, sgs_error *err)
    sgs_status sgs_log_segment_is_replaced(sgs_log_segment *segment, c_bool *replaced, sgs_error *err)
    sgs_status sgs_log_segment_offset_index(sgs_log_segment *segment, sgs_offset_index **index, sgs_error *err)
    sgs_status sgs_log_segment_time_index(sgs_log_segment *segment, sgs_time_index **index, sgs_error *err)
