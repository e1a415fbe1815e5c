/* columns_state.h - the inside of sgs_columns, shared by columns.c, columns_latest.c, columns_fill.c (decode)
 * and columns_export.c. */
#ifndef SGS_RECORD_COLUMNS_STATE_H
#define SGS_RECORD_COLUMNS_STATE_H

#include "record/binary_column.h"
#include "record/columns.h"

/* Records are parsed in chunks that fit the first-level cache together with their bytes, then each wanted column copies
 * what it needs of the chunk: a column that is not wanted costs nothing, and no loop mixes parsing and copying. */
enum { SGS_CHUNK_ROWS = 128 };

typedef struct sgs_chunk {
    int64_t rows;
    size_t key_bytes, value_bytes;
    int64_t key_nulls, value_nulls, headers_count, headerless_rows;
    const uint8_t *readable_end; /* of the section the pointers lead into */
    const uint8_t *keys[SGS_CHUNK_ROWS], *values[SGS_CHUNK_ROWS], *headers[SGS_CHUNK_ROWS];
    int64_t offsets[SGS_CHUNK_ROWS], timestamps[SGS_CHUNK_ROWS];
    int32_t key_sizes[SGS_CHUNK_ROWS], value_sizes[SGS_CHUNK_ROWS], headers_sizes[SGS_CHUNK_ROWS];
    int32_t header_counts[SGS_CHUNK_ROWS];
} sgs_chunk;

/* list<element: struct<key, value>> */
typedef struct sgs_headers_column {
    sgs_buffer offsets; /* int32 into the entries, as in sgs_binary_column; empty until a record has headers */
    sgs_validity validity;
    int64_t entries_count;
    sgs_binary_column key, value;
} sgs_headers_column;

struct sgs_columns {
    sgs_memory memory;
    sgs_columns_options options;
    const sgs_codec_table *codecs; /* borrowed */
    bool wanted[SGS_COLUMN_COUNT];
    bool times_are_bounded; /* start_timestamp or end_timestamp is set */
    size_t topic_size;
    sgs_buffer scratch; /* a decompressed section */
    int64_t rows_count;
    size_t coming_bytes;   /* of batches, the next one and those behind it */
    int64_t expected_rows; /* what the last table had: the next is likely to have as much */
    size_t expected_key_bytes, expected_value_bytes;
    sgs_binary_column key, value;
    sgs_headers_column headers;
    sgs_buffer offset, timestamp;            /* int64 */
    sgs_buffer timestamp_type, leader_epoch; /* int32; topic and partition are made at the end */
    sgs_chunk chunk;
};

/** Put the records of columns->chunk into options.last_offsets, and leave no row; or leave those rows that are the last
 *  ones of their keys, with a value. */
sgs_status sgs_columns_latest(sgs_columns *columns, sgs_error *err);
/** Append the wanted columns of columns->chunk, whose rows are those of `batch`. The caller rewinds after a failure. */
sgs_status sgs_columns_fill(sgs_columns *columns, const sgs_batch_header *batch, sgs_error *err);
/** Make the first `rows` cells of the headers column, which has none yet: no record in them has headers. */
sgs_status sgs_headers_make_empty_rows(sgs_columns *columns, int64_t rows, sgs_error *err);
/** Forget all rows; memory that was not handed over is kept. */
void sgs_columns_clear(sgs_columns *columns);

#endif
