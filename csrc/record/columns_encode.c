/* columns_encode.c - batches from Arrow columns: records are written straight to where the batch will be. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/varint.h"
#include "record/arrow_source.h"
#include "record/arrow_type.h"
#include "record/binary_column.h"
#include "record/columns.h"

enum {
    RECORD_OVERHEAD = 21 + 3 * 5, /* all numbers of a record at their longest, and then some */
    HEADER_OVERHEAD = 10,
    ROOM_STEP = 64 * 1024, /* at least this much is reserved at a time, as far as rows are left */
};

sgs_status sgs_columns_source_check(const struct ArrowSchema *schema, sgs_error *err)
{
    if (schema->release == NULL)
        return sgs_fail(err, SGS_ILLEGAL_ARGUMENT, "a released Arrow schema or array");
    if (sgs_arrow_type_is(schema, "+s"))
        return SGS_OK;
    char found[SGS_ARROW_TYPE_BYTES];
    sgs_arrow_type_name(schema, found);
    (void)sgs_fail(err, SGS_ILLEGAL_ARGUMENT, "the Arrow type %s, expected a struct of columns", found);
    (void)snprintf(err->found, sizeof err->found, "%s", found);
    (void)snprintf(err->expected, sizeof err->expected, "struct");
    return SGS_ILLEGAL_ARGUMENT;
}

/* The four columns, ready to be read; one that is absent reads as null. */
typedef struct cells {
    sgs_arrow_binary key, value;
    sgs_arrow_times timestamp;
    sgs_arrow_headers headers;
    int64_t first_row; /* of the array, as messages count them */
} cells;

/* What messages call it. */
static const char *name_of(const struct ArrowSchema *column) { return column->name != NULL ? column->name : ""; }

sgs_status sgs_columns_source_check_types(const struct ArrowSchema *schema, const sgs_record_places *places,
                                          sgs_error *err)
{
    const struct ArrowSchema *const *const columns = (const struct ArrowSchema *const *)schema->children;
    if (places->key >= 0)
        SGS_TRY(sgs_arrow_binary_check(name_of(columns[places->key]), columns[places->key], err));
    if (places->value >= 0)
        SGS_TRY(sgs_arrow_binary_check(name_of(columns[places->value]), columns[places->value], err));
    if (places->timestamp >= 0)
        SGS_TRY(sgs_arrow_times_check(name_of(columns[places->timestamp]), columns[places->timestamp], err));
    if (places->headers >= 0)
        SGS_TRY(sgs_arrow_headers_check(name_of(columns[places->headers]), columns[places->headers], err));
    return SGS_OK;
}

static sgs_status init_binary(const sgs_columns_source *source, int place, sgs_arrow_binary *column, sgs_error *err)
{
    if (place < 0)
        return SGS_OK;
    const struct ArrowSchema *const schema = source->schema->children[place];
    return sgs_arrow_binary_init(column, name_of(schema), schema, source->array->children[place], source->array->offset,
                                 source->array->length, err);
}

static sgs_status init_cells(const sgs_columns_source *source, cells *all, sgs_error *err)
{
    const struct ArrowSchema *const *const schemas = (const struct ArrowSchema *const *)source->schema->children;
    const struct ArrowArray *const array = source->array;
    const int timestamp = source->places.timestamp, headers = source->places.headers;
    *all = (cells){ .timestamp = { .per_ms = 1 }, .first_row = source->first_row };
    SGS_TRY(init_binary(source, source->places.key, &all->key, err));
    SGS_TRY(init_binary(source, source->places.value, &all->value, err));
    if (timestamp >= 0)
        SGS_TRY(sgs_arrow_times_init(&all->timestamp, name_of(schemas[timestamp]), schemas[timestamp],
                                     array->children[timestamp], array->offset, array->length, err));
    if (headers >= 0)
        SGS_TRY(sgs_arrow_headers_init(&all->headers, name_of(schemas[headers]), schemas[headers],
                                       array->children[headers], array->offset, array->length, err));
    return SGS_OK;
}

sgs_status sgs_columns_source_init(sgs_columns_source *source, const struct ArrowSchema *schema,
                                   const struct ArrowArray *array, const sgs_record_places *places, int64_t first_row,
                                   sgs_error *err)
{
    const sgs_columns_source found = { .schema = schema, .array = array, .places = *places, .first_row = first_row };
    SGS_TRY(sgs_columns_source_check(schema, err));
    SGS_ASSERT(places->key < schema->n_children && places->value < schema->n_children, err);
    SGS_ASSERT(places->timestamp < schema->n_children && places->headers < schema->n_children, err);
    if (array->release == NULL)
        return sgs_fail(err, SGS_ILLEGAL_ARGUMENT, "a released Arrow schema or array");
    if (array->n_children != schema->n_children || array->length < 0 || array->offset < 0 ||
        array->offset > INT64_MAX - array->length)
        return sgs_fail(err, SGS_ILLEGAL_ARGUMENT, "an Arrow struct of %lld columns whose schema has %lld",
                        (long long)array->n_children, (long long)schema->n_children);
    if (array->n_buffers > 0 && array->buffers[0] != NULL && array->null_count != 0)
        for (int64_t row = 0; row < array->length; ++row)
            if (!sgs_arrow_is_valid(array->buffers[0], array->offset + row))
                return sgs_fail(err, SGS_ILLEGAL_ARGUMENT, "row %lld of the Arrow struct is null",
                                (long long)(first_row + row));
    cells all;
    SGS_TRY(init_cells(&found, &all, err));
    *source = found;
    return SGS_OK;
}

/* One row and an upper bound of its bytes as a record. What Arrow says of a cell is read once: sizes that are counted are
 * those that are written, also where a caller changes offsets meanwhile. */
typedef struct row_cells {
    sgs_bytes key, value;
    const sgs_record_header *headers; /* in the builder's buffer */
    int64_t timestamp, bound;
    int32_t headers_count;
} row_cells;

static sgs_status load_headers(const cells *all, int64_t row, sgs_buffer *kept, row_cells *cell, sgs_error *err)
{
    int64_t start, end;
    if (!sgs_arrow_headers_cell(&all->headers, row, &start, &end))
        return sgs_fail(err, SGS_ILLEGAL_ARGUMENT, "row %" PRId64 ": broken offsets in column headers",
                        all->first_row + row);
    sgs_buffer_clear(kept);
    for (int64_t i = start; i < end; ++i) {
        sgs_record_header header;
        if (!sgs_arrow_header(&all->headers, i, &header))
            return sgs_fail(err, SGS_ILLEGAL_ARGUMENT, "row %" PRId64 ": broken offsets or indices in a header",
                            all->first_row + row);
        if (header.key.size < 0)
            return sgs_fail(err, SGS_ILLEGAL_ARGUMENT, "row %" PRId64 ": a null header key", all->first_row + row);
        cell->bound += HEADER_OVERHEAD + (int64_t)header.key.size + (header.value.size > 0 ? header.value.size : 0);
        SGS_TRY(sgs_buffer_append(kept, &header, sizeof header, err));
    }
    cell->headers = (const sgs_record_header *)(const void *)kept->data;
    cell->headers_count = (int32_t)(end - start);
    return SGS_OK;
}

static inline sgs_status load_row(const cells *all, int64_t row, int64_t default_timestamp, sgs_buffer *headers,
                                  row_cells *cell, sgs_error *err)
{
    if (!sgs_arrow_binary_cell(&all->key, row, &cell->key) || !sgs_arrow_binary_cell(&all->value, row, &cell->value))
        return sgs_fail(err, SGS_ILLEGAL_ARGUMENT, "row %" PRId64 ": broken offsets or indices in column key or value",
                        all->first_row + row);
    bool is_null;
    if (!sgs_arrow_times_cell(&all->timestamp, row, &cell->timestamp, &is_null))
        return sgs_fail(err, SGS_ILLEGAL_ARGUMENT, "row %" PRId64 ": a timestamp that does not fit milliseconds",
                        all->first_row + row);
    if (is_null)
        cell->timestamp = default_timestamp;
    if (cell->timestamp < SGS_NO_TIMESTAMP)
        return sgs_fail(err, SGS_ILLEGAL_ARGUMENT, "row %" PRId64 ": timestamp %" PRId64 " ms is before 1970",
                        all->first_row + row, cell->timestamp);
    cell->bound = RECORD_OVERHEAD + (int64_t)(cell->key.size > 0 ? cell->key.size : 0) +
                  (int64_t)(cell->value.size > 0 ? cell->value.size : 0);
    cell->headers_count = 0;
    if (all->headers.offsets != NULL || all->headers.large_offsets != NULL)
        return load_headers(all, row, headers, cell, err);
    return SGS_OK;
}

static inline int64_t bytes_size(sgs_bytes bytes)
{
    return sgs_varint_size(bytes.size) + (bytes.size > 0 ? (int64_t)bytes.size : 0);
}

static inline uint8_t *put_bytes(uint8_t *out, sgs_bytes bytes)
{
    out = sgs_varint_write(out, bytes.size);
    if (bytes.size > 0) {
        memcpy(out, bytes.data, (size_t)bytes.size);
        out += bytes.size;
    }
    return out;
}

/* Bytes of the record of `cell`, its size number left out; `cell->bound` keeps it in range of 64 bits. */
static inline int64_t body_size(const row_cells *cell, int64_t timestamp_delta, int32_t offset_delta)
{
    int64_t size = 1 + sgs_varlong_size(timestamp_delta) + sgs_varint_size(offset_delta) + bytes_size(cell->key) +
                   bytes_size(cell->value) + sgs_varint_size(cell->headers_count);
    for (int32_t i = 0; i < cell->headers_count; ++i)
        size += bytes_size(cell->headers[i].key) + bytes_size(cell->headers[i].value);
    return size;
}

static inline uint8_t *put_record(uint8_t *out, const row_cells *cell, int64_t body, int64_t timestamp_delta,
                                  int32_t offset_delta)
{
    out = sgs_varint_write(out, (int32_t)body);
    *out++ = 0; /* attributes */
    out = sgs_varlong_write(out, timestamp_delta);
    out = sgs_varint_write(out, offset_delta);
    out = put_bytes(out, cell->key);
    out = put_bytes(out, cell->value);
    out = sgs_varint_write(out, cell->headers_count);
    for (int32_t i = 0; i < cell->headers_count; ++i) {
        out = put_bytes(out, cell->headers[i].key);
        out = put_bytes(out, cell->headers[i].value);
    }
    return out;
}

/* What one batch is filled from and into. */
typedef struct fill {
    const cells *all;
    int64_t end_row, default_timestamp, max_batch_bytes;
    const int64_t *offsets;        /* of each row; NULL = they count from the base offset */
    const sgs_batch_header *model; /* of the batch that is built again; NULL = a new batch */
    sgs_batch_builder *builder;
    sgs_buffer *target; /* `out`, or the builder's section when a codec comes behind it */
    size_t start;       /* of the records in it */
} fill;

/* The offset of a row, from the base offset. */
static inline sgs_status offset_delta_of(const fill *fill_, int64_t row, int32_t count, int32_t *delta, sgs_error *err)
{
    *delta = count;
    if (fill_->offsets == NULL)
        return SGS_OK;
    const int64_t offset = fill_->offsets[row], base = fill_->model->base_offset;
    if (offset < base || offset > fill_->model->last_offset || (count > 0 && offset <= fill_->offsets[row - 1]))
        return sgs_fail(err, SGS_INVALID_RECORD,
                        "row %" PRId64 ": offset %" PRId64 " is not the next one of a batch from %" PRId64
                        " to %" PRId64,
                        row, offset, base, fill_->model->last_offset);
    *delta = (int32_t)(offset - base); /* that of the last one fits, see check_model */
    return SGS_OK;
}

/* Room for a record of `bound` bytes, and for more of its kind as far as rows are left. */
static sgs_status make_room(const fill *fill_, int64_t row, size_t used, int64_t bound, sgs_error *err)
{
    const int64_t left = fill_->end_row - row;
    int64_t more = bound;
    if (left > 1 && bound < ROOM_STEP)
        more = left > ROOM_STEP / bound ? ROOM_STEP : left * bound;
    fill_->target->size = used;
    return sgs_buffer_reserve(fill_->target, (size_t)(more > bound ? more : bound), err);
}

/* Write rows from `*row` on until the batch is full; `*row` is the first that did not fit. */
static sgs_status fill_batch(const fill *fill_, int64_t *row, sgs_error *err)
{
    sgs_batch_builder *const builder = fill_->builder;
    sgs_buffer *const target = fill_->target;
    const bool has_horizon = builder->options.delete_horizon_ms != SGS_NO_TIMESTAMP;
    const bool log_append_time = builder->options.log_append_time;
    int64_t base_timestamp = builder->base_timestamp, max_timestamp = builder->max_timestamp;
    size_t used = fill_->start;
    int32_t count = 0;
    int64_t at = *row;
    for (; at < fill_->end_row && count < INT32_MAX; ++at) {
        row_cells cell = { .bound = RECORD_OVERHEAD };
        SGS_TRY(load_row(fill_->all, at, fill_->default_timestamp, &builder->headers, &cell, err));
        if (fill_->model != NULL && log_append_time)
            cell.timestamp = base_timestamp; /* what the record was sent with is not known, and no reader sees it */
        else if (fill_->model == NULL && count == 0 && !has_horizon)
            base_timestamp = cell.timestamp;
        int32_t offset_delta;
        SGS_TRY(offset_delta_of(fill_, at, count, &offset_delta, err));
        int64_t timestamp_delta;
        if (__builtin_sub_overflow(cell.timestamp, base_timestamp, &timestamp_delta))
            return sgs_fail(err, SGS_ILLEGAL_ARGUMENT,
                            "row %" PRId64 ": timestamp %" PRId64 " is too far from %" PRId64,
                            fill_->all->first_row + at, cell.timestamp, base_timestamp);
        const int64_t body = body_size(&cell, timestamp_delta, offset_delta);
        const int64_t batch_bytes =
            SGS_BATCH_HEADER_BYTES + (int64_t)(used - fill_->start) + SGS_VARINT_MAX_BYTES + body;
        if (batch_bytes > INT32_MAX && count == 0)
            return sgs_fail(err, SGS_ILLEGAL_ARGUMENT, "row %" PRId64 ": a record of more than 2^31-1 bytes",
                            fill_->all->first_row + at);
        if (count > 0) { /* the first record goes in whatever its size */
            const int64_t exact =
                body > INT32_MAX ? batch_bytes : batch_bytes - SGS_VARINT_MAX_BYTES + sgs_varint_size((int32_t)body);
            if (exact > fill_->max_batch_bytes)
                break;
        }
        if ((int64_t)(target->capacity - used) < cell.bound)
            SGS_TRY(make_room(fill_, at, used, cell.bound, err));
        const uint8_t *const behind = put_record(target->data + used, &cell, body, timestamp_delta, offset_delta);
        used = (size_t)(behind - target->data);
        if (!log_append_time && cell.timestamp > max_timestamp)
            max_timestamp = cell.timestamp;
        ++count;
    }
    int64_t next_offset; /* the offset behind the last must exist too */
    if (__builtin_add_overflow(builder->options.base_offset, count, &next_offset))
        return sgs_fail(err, SGS_ILLEGAL_ARGUMENT,
                        "no offsets are left for %" PRId32 " records from base offset %" PRId64, count,
                        builder->options.base_offset);
    target->size = used;
    builder->base_timestamp = base_timestamp;
    builder->max_timestamp = max_timestamp;
    builder->records_count = count;
    builder->last_offset = next_offset - 1;
    if (fill_->model != NULL) { /* compaction takes records away, and leaves these as they were */
        builder->last_offset = fill_->model->last_offset;
        builder->max_timestamp = fill_->model->max_timestamp;
    }
    *row = at;
    return SGS_OK;
}

static sgs_status encode_batch(fill *fill_, const sgs_batch_options *options, int64_t *row, sgs_buffer *out,
                               sgs_batch_header *header, sgs_error *err)
{
    sgs_batch_builder *const builder = fill_->builder;
    const size_t start = out->size;
    SGS_TRY(sgs_batch_builder_start(builder, options, err));
    if (fill_->model != NULL)
        builder->base_timestamp = fill_->model->base_timestamp;
    if (options->codec != SGS_CODEC_NONE) {
        fill_->target = &builder->section;
        fill_->start = 0;
        SGS_TRY(fill_batch(fill_, row, err));
        return sgs_batch_builder_finish(builder, out, header, err);
    }
    SGS_TRY(sgs_buffer_reserve(out, SGS_BATCH_HEADER_BYTES, err));
    fill_->target = out;
    fill_->start = start + SGS_BATCH_HEADER_BYTES;
    SGS_TRY(fill_batch(fill_, row, err));
    return sgs_batch_builder_seal(builder, out, start, header, err);
}

/* Sequences wrap to 0 behind INT32_MAX [format.md 4.2]. */
static void advance_sequence(sgs_batch_options *options, int32_t count)
{
    if (options->base_sequence >= 0)
        options->base_sequence = (int32_t)(((int64_t)options->base_sequence + count) & INT32_MAX);
}

sgs_status sgs_columns_encode(const sgs_columns_source *source, int64_t start, int64_t end,
                              const sgs_batch_options *options, int64_t max_batch_bytes, int64_t default_timestamp,
                              sgs_batch_builder *builder, sgs_buffer *out, sgs_buffer *table_rows, sgs_error *err)
{
    if (start < 0 || end < start || end > source->array->length)
        return sgs_fail(err, SGS_ILLEGAL_ARGUMENT, "rows %" PRId64 " to %" PRId64 " of %lld", start, end,
                        (long long)source->array->length);
    cells all;
    SGS_TRY(init_cells(source, &all, err));
    fill fill_ = {
        .all = &all,
        .end_row = end,
        .default_timestamp = default_timestamp,
        .max_batch_bytes = max_batch_bytes < INT32_MAX ? max_batch_bytes : INT32_MAX,
        .builder = builder,
    };
    sgs_batch_options next = *options;
    const size_t out_size = out->size;
    const size_t table_size = table_rows->size;
    sgs_status status = SGS_OK;
    for (int64_t row = start; status == SGS_OK && row < end;) {
        sgs_batch_header header;
        status = encode_batch(&fill_, &next, &row, out, &header, err);
        if (status == SGS_OK)
            status = sgs_buffer_append(table_rows, &header, sizeof header, err);
        if (status == SGS_OK)
            advance_sequence(&next, header.records_count);
    }
    if (status != SGS_OK) {
        out->size = out_size;
        table_rows->size = table_size;
    }
    return status;
}

/* What a header from a file may say: the builder checks the rest. */
static sgs_status check_model(const sgs_batch_header *model, int64_t rows_left, sgs_error *err)
{
    enum { BUILT = SGS_ATTRIBUTE_KNOWN_MASK & ~SGS_ATTRIBUTE_CONTROL };
    const unsigned attributes = (unsigned)(uint16_t)model->attributes;
    int64_t delta;
    if (model->magic != 2 || (attributes & ~(unsigned)BUILT) != 0 || model->records_count <= 0)
        return sgs_fail(err, SGS_INVALID_RECORD,
                        "a batch of magic %d with attributes 0x%x and %" PRId32 " records is not built from rows",
                        model->magic, attributes, model->records_count);
    if ((attributes & SGS_ATTRIBUTE_DELETE_HORIZON) != 0 && model->base_timestamp < 0)
        return sgs_fail(err, SGS_INVALID_RECORD,
                        "the batch of offset %" PRId64 " has a delete horizon of %" PRId64 " ms", model->base_offset,
                        model->base_timestamp);
    if (__builtin_sub_overflow(model->last_offset, model->base_offset, &delta) || delta < 0 || delta > INT32_MAX ||
        model->last_offset > SGS_MAX_OFFSET)
        return sgs_fail(err, SGS_INVALID_RECORD, "a batch from offset %" PRId64 " to %" PRId64, model->base_offset,
                        model->last_offset);
    if (model->records_count > rows_left)
        return sgs_fail(err, SGS_INVALID_RECORD,
                        "the batch of offset %" PRId64 " has %" PRId32 " records, and %" PRId64 " rows are left",
                        model->base_offset, model->records_count, rows_left);
    return SGS_OK;
}

static sgs_batch_options options_of_model(const sgs_batch_header *model)
{
    const unsigned attributes = (unsigned)(uint16_t)model->attributes;
    sgs_batch_options options;
    sgs_batch_options_default(&options);
    options.base_offset = model->base_offset;
    options.partition_leader_epoch = model->partition_leader_epoch;
    options.codec = (int)(attributes & SGS_ATTRIBUTE_CODEC_MASK);
    options.log_append_time = (attributes & SGS_ATTRIBUTE_LOG_APPEND_TIME) != 0;
    options.log_append_timestamp = options.log_append_time ? model->max_timestamp : SGS_NO_TIMESTAMP;
    options.transactional = (attributes & SGS_ATTRIBUTE_TRANSACTIONAL) != 0;
    options.producer_id = model->producer_id;
    options.producer_epoch = model->producer_epoch;
    options.base_sequence = model->base_sequence;
    if ((attributes & SGS_ATTRIBUTE_DELETE_HORIZON) != 0)
        options.delete_horizon_ms = model->base_timestamp;
    return options;
}

sgs_status sgs_columns_rebuild(const sgs_columns_source *source, const int64_t *offsets, const sgs_batch_header *models,
                               size_t models_count, sgs_batch_builder *builder, sgs_buffer *out, sgs_buffer *table_rows,
                               sgs_error *err)
{
    cells all;
    SGS_TRY(init_cells(source, &all, err));
    fill fill_ = {
        .all = &all,
        .default_timestamp = SGS_NO_TIMESTAMP,
        .max_batch_bytes = INT32_MAX,
        .offsets = offsets,
        .builder = builder,
    };
    const int64_t rows = source->array->length;
    const size_t out_size = out->size;
    const size_t table_size = table_rows->size;
    int64_t row = 0;
    sgs_status status = SGS_OK;
    for (size_t i = 0; status == SGS_OK && i < models_count; ++i) {
        sgs_batch_header header;
        status = check_model(&models[i], rows - row, err);
        if (status != SGS_OK)
            break;
        const sgs_batch_options options = options_of_model(&models[i]);
        fill_.model = &models[i];
        fill_.end_row = row + models[i].records_count;
        status = encode_batch(&fill_, &options, &row, out, &header, err);
        if (status == SGS_OK && row != fill_.end_row)
            status = sgs_fail(err, SGS_INVALID_RECORD, "the batch of offset %" PRId64 " has more than 2^31-1 bytes",
                              models[i].base_offset);
        if (status == SGS_OK)
            status = sgs_buffer_append(table_rows, &header, sizeof header, err);
    }
    if (status == SGS_OK && row != rows)
        status = sgs_fail(err, SGS_INVALID_RECORD, "%" PRId64 " rows for batches of %" PRId64 " records", rows, row);
    if (status != SGS_OK) {
        out->size = out_size;
        table_rows->size = table_size;
    }
    return status;
}
