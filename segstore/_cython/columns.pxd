"""csrc/record/columns.h"""

from libc.stdint cimport int32_t, int64_t, uint8_t

from segstore._cython.aborted_transactions cimport sgs_aborted_transactions
from segstore._cython.arrow_abi cimport ArrowArray, ArrowSchema
from segstore._cython.batch_builder cimport sgs_batch_builder, sgs_batch_options
from segstore._cython.buffer cimport sgs_buffer, sgs_memory
from segstore._cython.codec cimport sgs_codec_table
from segstore._cython.offset_map cimport sgs_offset_map
from segstore._cython.record_batch cimport sgs_batch_header
from segstore._cython.status cimport c_bool, sgs_error, sgs_status


cdef extern from "record/columns.h" nogil:
    enum:
        SGS_COLUMN_COUNT
        SGS_TOPIC_MAX_BYTES

    ctypedef struct sgs_columns_options:
        uint8_t columns[9]
        uint8_t columns_count
        bint timestamp_in_microseconds
        bint null_headers_when_empty
        bint check_crc
        int64_t start_offset
        int64_t end_offset
        int64_t start_timestamp
        int64_t end_timestamp
        sgs_aborted_transactions aborted
        char topic[250]
        int32_t partition
        sgs_offset_map *last_offsets
        bint notes_last_offsets

    ctypedef struct sgs_columns:
        pass

    void sgs_columns_options_default(sgs_columns_options *options)
    const char *sgs_column_name(int column)
    sgs_status sgs_columns_open(sgs_memory memory, const sgs_columns_options *options, const sgs_codec_table *codecs,
                                sgs_columns **columns, sgs_error *err)
    void sgs_columns_close(sgs_columns *columns)
    void sgs_columns_expect(sgs_columns *columns, size_t bytes)
    sgs_status sgs_columns_append_batch(sgs_columns *columns, const uint8_t *batch, size_t size, sgs_error *err)
    int64_t sgs_columns_rows_count(const sgs_columns *columns)
    int64_t sgs_columns_bytes_count(const sgs_columns *columns)
    sgs_status sgs_columns_finish(sgs_columns *columns, ArrowArray *array, sgs_error *err)
    sgs_status sgs_columns_export_schema(sgs_memory memory, const sgs_columns_options *options, ArrowSchema *schema,
                                         sgs_error *err)

    ctypedef struct sgs_columns_source:
        pass

    ctypedef struct sgs_record_places:
        int key, value, timestamp, headers

    sgs_status sgs_columns_source_check(const ArrowSchema *schema, sgs_error *err)
    sgs_status sgs_columns_source_check_types(const ArrowSchema *schema, const sgs_record_places *places,
                                              sgs_error *err)
    sgs_status sgs_columns_source_init(sgs_columns_source *source, const ArrowSchema *schema,
                                       const ArrowArray *array, const sgs_record_places *places,
                                       int64_t first_row, sgs_error *err)
    sgs_status sgs_columns_encode(const sgs_columns_source *source, int64_t start, int64_t end,
                                  const sgs_batch_options *options, int64_t max_batch_bytes,
                                  int64_t default_timestamp, sgs_batch_builder *builder, sgs_buffer *out,
                                  sgs_buffer *table_rows, sgs_error *err)
    sgs_status sgs_columns_rebuild(const sgs_columns_source *source, const int64_t *offsets,
                                   const sgs_batch_header *models, size_t models_count, sgs_batch_builder *builder,
                                   sgs_buffer *out, sgs_buffer *table_rows, sgs_error *err)
