/* columns.h - records as columns: batches decode straight into Arrow buffers [DESIGN D7].
 *
 * A column builder takes whole batches, one after the other, keeps the records that its bounds let through, and is
 * finished into one ArrowArray (a struct array: a record batch) whose buffers are handed over, not copied.
 *
 * column           Arrow type                                   nullable
 * key, value       binary (z)                                   yes
 * topic            string (u), a constant                       yes
 * partition        int32 (i), a constant                        yes
 * offset           int64 (l)                                    yes
 * timestamp        timestamp[ms, UTC] (tsm:UTC) or [us] (tsu:UTC) yes
 * timestampType    int32 (i): -1, 0 CreateTime, 1 LogAppendTime yes
 * headers          list<element: struct<key: string, value: binary>>, null when the record has none   yes
 * leaderEpoch      int32 (i), -1 unknown                        yes
 * Names and nullability are those of Spark's Kafka connector. Control records have offsets but no rows. Header keys
 * that are not valid UTF-8 are repaired as Java decodes them. A timestamp that does not fit microseconds is
 * SGS_INVALID_RECORD.
 *
 * THE LAST VALUE OF EACH KEY takes two passes over the same batches: the first builder puts the offset of each key into a
 * map, the second one makes rows of the records that lie where the map says, but for those without a value. */
#ifndef SGS_RECORD_COLUMNS_H
#define SGS_RECORD_COLUMNS_H

#include "record/aborted_transactions.h"
#include "record/arrow_abi.h"
#include "record/batch_builder.h"
#include "record/codec.h"
#include "record/offset_map.h"
#include "record/record.h"

typedef enum sgs_column {
    SGS_COLUMN_KEY,
    SGS_COLUMN_VALUE,
    SGS_COLUMN_TOPIC,
    SGS_COLUMN_PARTITION,
    SGS_COLUMN_OFFSET,
    SGS_COLUMN_TIMESTAMP,
    SGS_COLUMN_TIMESTAMP_TYPE,
    SGS_COLUMN_HEADERS,
    SGS_COLUMN_LEADER_EPOCH,
    SGS_COLUMN_COUNT
} sgs_column;

enum { SGS_TOPIC_MAX_BYTES = 249 };

typedef struct sgs_columns_options {
    uint8_t columns[SGS_COLUMN_COUNT]; /* the projection: sgs_column values in output order, none twice */
    uint8_t columns_count;
    bool timestamp_in_microseconds;         /* else milliseconds */
    bool null_headers_when_empty;           /* Spark's convention; else an empty list */
    bool check_crc;                         /* [DUR-79] */
    int64_t start_offset, end_offset;       /* rows with start <= offset < end */
    int64_t start_timestamp, end_timestamp; /* rows with start <= timestamp < end; INT64_MIN, INT64_MAX = no bound */
    sgs_aborted_transactions aborted;       /* transactions without rows [TXX-*]; the rows must outlive the builder */
    char topic[SGS_TOPIC_MAX_BYTES + 1];
    int32_t partition;
    sgs_offset_map *last_offsets; /* borrowed, with a secret; NULL: every record is a row */
    bool notes_last_offsets; /* put the records into the map, and make no rows; after a failure it has some of them */
} sgs_columns_options;

typedef struct sgs_columns sgs_columns; /* owns its buffers */

void sgs_columns_options_default(sgs_columns_options *options); /* all columns of the table above in its order */
/** "key", "value", ... as in the table; NULL for a value outside the enum */
const char *sgs_column_name(int column);

sgs_status sgs_columns_open(sgs_memory memory, const sgs_columns_options *options, const sgs_codec_table *codecs,
                            sgs_columns **columns, sgs_error *err);
void sgs_columns_close(sgs_columns *columns);
/** Say that `bytes` of batches are about to be appended: the first one to an empty table makes room for all, so that
 *  columns do not move while they grow. A hint; the last table of the same builder is a better one. */
void sgs_columns_expect(sgs_columns *columns, size_t bytes);
/** Decode one complete batch and append its rows. On failure nothing of the batch is kept.
 *  With check_crc the CRC counts also for a batch that the bounds leave out; such a batch is not decompressed.
 *  @return SGS_OK, SGS_CORRUPT_RECORD, SGS_INVALID_RECORD, SGS_UNSUPPORTED_FORMAT, a codec status, or
 *          SGS_LIMIT_EXCEEDED when the batch would carry a variable-size column past 2 GiB (finish first, then again;
 *          with no rows before it, the batch is too large for one array) */
sgs_status sgs_columns_append_batch(sgs_columns *columns, const uint8_t *batch, size_t size, sgs_error *err);
int64_t sgs_columns_rows_count(const sgs_columns *columns);
int64_t sgs_columns_bytes_count(const sgs_columns *columns); /* of the variable-size columns */
/** Export what was gathered and begin anew, also after a failure (SGS_RESOURCE), which loses the rows. `array` owns its
 *  buffers and outlives the builder; `memory.context` of open must outlive both. */
sgs_status sgs_columns_finish(sgs_columns *columns, struct ArrowArray *array, sgs_error *err);
/** Export the schema of the projection: a struct with one child a column. */
sgs_status sgs_columns_export_schema(sgs_memory memory, const sgs_columns_options *options, struct ArrowSchema *schema,
                                     sgs_error *err);

/* ---- the other way: batches from Arrow columns (columns_encode.c) ---- */

/* Which children of a struct are the parts of a record; -1 = absent, two may be the same. Types: key and value binary or
 * string in any layout (32 or 64 bit offsets, views, fixed size, dictionaries of these) or null; timestamp any timestamp
 * unit or int64 (ms); headers list or large list of struct<key: string, value: binary>. The other children are not looked
 * at: the caller has looked at their names. */
typedef struct sgs_record_places {
    int key, value, timestamp, headers;
} sgs_record_places;

typedef struct sgs_columns_source {
    const struct ArrowSchema *schema; /* borrowed, of the struct */
    const struct ArrowArray *array;   /* borrowed, of the struct; may be sliced (offset > 0) */
    sgs_record_places places;
    int64_t first_row;
} sgs_columns_source;

/** Check that the schema is that of a struct, whose children are the columns.
 *  @return SGS_OK; SGS_ILLEGAL_ARGUMENT naming the type */
sgs_status sgs_columns_source_check(const struct ArrowSchema *schema, sgs_error *err);
/** Check the types of the columns, where there may be no rows.
 *  @param places  of this schema
 *  @return SGS_OK; SGS_ILLEGAL_ARGUMENT naming column, type and what is accepted */
sgs_status sgs_columns_source_check_types(const struct ArrowSchema *schema, const sgs_record_places *places,
                                          sgs_error *err);
/** Check the types and the layout of the columns.
 *  @param places  of a schema with these children
 *  @param first_row  the number of the first row in messages, where the array is a part of a table
 *  @return SGS_OK; SGS_ILLEGAL_ARGUMENT naming the column, its type and what is accepted */
sgs_status sgs_columns_source_init(sgs_columns_source *source, const struct ArrowSchema *schema,
                                   const struct ArrowArray *array, const sgs_record_places *places, int64_t first_row,
                                   sgs_error *err);
/** Build batches of rows [start, end) of the source, each at most `max_batch_bytes` uncompressed (one larger record
 *  makes a batch of its own), appended to `out` with a row each in `table`. Offsets count from options->base_offset per
 *  batch as a producer sends them; a record without timestamp (null or no column) gets `default_timestamp`. */
sgs_status sgs_columns_encode(const sgs_columns_source *source, int64_t start, int64_t end,
                              const sgs_batch_options *options, int64_t max_batch_bytes, int64_t default_timestamp,
                              sgs_batch_builder *builder, sgs_buffer *out, sgs_buffer *table_rows, sgs_error *err);
/** Build batches again that were read as rows: `models` are the headers that they had, as a batch table has them. Each
 *  takes as many rows as it counts records; all rows are used. Codec, offsets, epoch, timestamps and producer are those
 *  of the model, so that a batch equals what was read byte for byte where its writer encoded as Kafka does and the codec
 *  gives the same bytes. With LogAppendTime each record has the base timestamp, which no reader sees.
 *  @param offsets  of each row of the source
 *  @return SGS_OK; SGS_INVALID_RECORD: rows and models do not fit, a model of another magic or of a control batch, or
 *          offsets that do not ascend within it; else as sgs_columns_encode. After a failure `out` is as before. */
sgs_status sgs_columns_rebuild(const sgs_columns_source *source, const int64_t *offsets, const sgs_batch_header *models,
                               size_t models_count, sgs_batch_builder *builder, sgs_buffer *out, sgs_buffer *table_rows,
                               sgs_error *err);

#endif
