/* Headers and offsets from a file say what they like of the rows beside them. Batches that are built again have the rows
 * that there are, at their offsets, under the headers that were given; or nothing is built. [DESIGN D7]
 * INPUT   flags, how many numbers are changed, each with its place and value, then a run of batches.
 * ORACLE  the rows themselves: the batches that were built are decoded again. */
#include "record/columns.h"

#include "arrow_reader.h"
#include "fuzz/fuzz_batch.h"
#include "fuzz/fuzz_input.h"
#include "record_kit.h"

enum { AS_IT_IS = 1, LESS_ROWS = 2, MORE_MODELS = 4, LESS_MODELS = 8 };
enum { BATCHES_MAX = 16, CHANGES_MAX = 8 };

typedef struct decoded {
    struct ArrowSchema schema;
    struct ArrowArray array;
} decoded;

typedef struct scene {
    sgs_batch_header models[BATCHES_MAX + 1];
    size_t models_count;
    int64_t *offsets;
    decoded rows;
} scene;

static sgs_columns *open_columns(void)
{
    sgs_columns_options options;
    sgs_columns *columns;
    sgs_error err;
    sgs_columns_options_default(&options);
    FUZZ_CHECK(sgs_columns_open(kit_memory(), &options, kit_codecs(), &columns, &err) == SGS_OK);
    return columns;
}

static decoded close_columns(sgs_columns *columns)
{
    sgs_columns_options options;
    decoded result;
    sgs_error err;
    sgs_columns_options_default(&options);
    FUZZ_CHECK(sgs_columns_finish(columns, &result.array, &err) == SGS_OK);
    FUZZ_CHECK(sgs_columns_export_schema(kit_memory(), &options, &result.schema, &err) == SGS_OK);
    sgs_columns_close(columns);
    return result;
}

static void release(decoded *rows)
{
    rows->array.release(&rows->array);
    rows->schema.release(&rows->schema);
}

/* The rows of the batches that have some, and their headers. */
static void read_run(scene *self, const uint8_t *data, size_t size)
{
    sgs_columns *const columns = open_columns();
    sgs_batch_header header;
    sgs_error err;
    while (self->models_count < BATCHES_MAX && sgs_batch_header_load(data, size, 0, &header, &err) == SGS_OK) {
        const int64_t before = sgs_columns_rows_count(columns);
        const size_t batch = (size_t)header.size_bytes;
        if (sgs_columns_append_batch(columns, data, batch, &err) == SGS_OK &&
            sgs_columns_rows_count(columns) > before) {
            header.records_count = (int32_t)(sgs_columns_rows_count(columns) - before);
            self->models[self->models_count++] = header;
        }
        data += batch;
        size -= batch;
    }
    self->rows = close_columns(columns);
    const size_t count = (size_t)self->rows.array.length;
    self->offsets = malloc(count * sizeof *self->offsets + 1);
    FUZZ_CHECK(self->offsets != NULL);
    for (size_t row = 0; row < count; ++row)
        self->offsets[row] = arrow_int64(arrow_child(&self->rows.schema, &self->rows.array, "offset"), (int64_t)row);
}

static void change(scene *self, uint8_t place, uint8_t index, int64_t value)
{
    sgs_batch_header *const model = &self->models[index % (self->models_count + 1)];
    switch (place % 12) {
    case 0:
        model->base_offset = value;
        break;
    case 1:
        model->last_offset = value;
        break;
    case 2:
        model->base_timestamp = value;
        break;
    case 3:
        model->max_timestamp = value;
        break;
    case 4:
        model->producer_id = value;
        break;
    case 5:
        model->producer_epoch = (int16_t)value;
        break;
    case 6:
        model->base_sequence = (int32_t)value;
        break;
    case 7:
        model->records_count = (int32_t)value;
        break;
    case 8:
        model->attributes = (int16_t)value;
        break;
    case 9:
        model->magic = (int8_t)value;
        break;
    case 10:
        model->size_bytes = (int32_t)value;
        model->position = value;
        break;
    default:
        if (self->rows.array.length > 0)
            self->offsets[index % self->rows.array.length] = value;
    }
}

static bool same_cell(const decoded *a, const decoded *b, const char *name, int64_t row)
{
    const sgs_bytes x = arrow_bytes(arrow_child(&a->schema, &a->array, name), row);
    const sgs_bytes y = arrow_bytes(arrow_child(&b->schema, &b->array, name), row);
    return x.size == y.size && (x.size <= 0 || memcmp(x.data, y.data, (size_t)x.size) == 0);
}

static void check_headers(const decoded *a, const decoded *b, int64_t row)
{
    const struct ArrowArray *const x = arrow_child(&a->schema, &a->array, "headers");
    const struct ArrowArray *const y = arrow_child(&b->schema, &b->array, "headers");
    int64_t start, end, other, other_end;
    arrow_list(x, row, &start, &end);
    arrow_list(y, row, &other, &other_end);
    FUZZ_CHECK(end - start == other_end - other);
    for (; start < end; ++start, ++other)
        for (int part = 0; part < 2; ++part) {
            const sgs_bytes one = arrow_bytes(x->children[0]->children[part], start);
            const sgs_bytes two = arrow_bytes(y->children[0]->children[part], other);
            FUZZ_CHECK(one.size == two.size && (one.size <= 0 || memcmp(one.data, two.data, (size_t)one.size) == 0));
        }
}

static void check_built(const scene *self, const sgs_buffer *out, const sgs_buffer *table_rows)
{
    const sgs_batch_header *const found = (const sgs_batch_header *)(const void *)table_rows->data;
    sgs_columns *const columns = open_columns();
    sgs_error err;
    size_t end = 0;
    FUZZ_CHECK(table_rows->size == self->models_count * sizeof *found);
    for (size_t i = 0; i < self->models_count; ++i) {
        const sgs_batch_header *const model = &self->models[i];
        FUZZ_CHECK(found[i].position == (int64_t)end && found[i].base_offset == model->base_offset);
        FUZZ_CHECK(found[i].last_offset == model->last_offset && found[i].base_timestamp == model->base_timestamp);
        FUZZ_CHECK(found[i].max_timestamp == model->max_timestamp && found[i].attributes == model->attributes);
        FUZZ_CHECK(found[i].producer_id == model->producer_id && found[i].producer_epoch == model->producer_epoch);
        FUZZ_CHECK(found[i].base_sequence == model->base_sequence && found[i].records_count == model->records_count);
        FUZZ_CHECK(found[i].partition_leader_epoch == model->partition_leader_epoch);
        FUZZ_CHECK(sgs_columns_append_batch(columns, out->data + end, out->size - end, &err) == SGS_OK);
        end += (size_t)found[i].size_bytes;
    }
    FUZZ_CHECK(end == out->size);
    decoded built = close_columns(columns);
    FUZZ_CHECK(built.array.length == self->rows.array.length);
    int64_t row = 0;
    for (size_t i = 0; i < self->models_count; ++i)
        for (int32_t j = 0; j < self->models[i].records_count; ++j, ++row) {
            const bool is_stamped = (self->models[i].attributes & SGS_ATTRIBUTE_LOG_APPEND_TIME) != 0;
            const int64_t sent = arrow_int64(arrow_child(&self->rows.schema, &self->rows.array, "timestamp"), row);
            FUZZ_CHECK(arrow_int64(arrow_child(&built.schema, &built.array, "offset"), row) == self->offsets[row]);
            FUZZ_CHECK(arrow_int64(arrow_child(&built.schema, &built.array, "timestamp"), row) ==
                       (is_stamped ? self->models[i].max_timestamp : sent));
            FUZZ_CHECK(same_cell(&self->rows, &built, "key", row) && same_cell(&self->rows, &built, "value", row));
            check_headers(&self->rows, &built, row);
        }
    release(&built);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint8_t before[] = "what was there";
    const sgs_record_places places = { SGS_COLUMN_KEY, SGS_COLUMN_VALUE, SGS_COLUMN_TIMESTAMP, SGS_COLUMN_HEADERS };
    fuzz_input input = { data, size };
    struct {
        uint8_t place, index;
        int64_t value;
    } changes[CHANGES_MAX];
    const uint8_t flags = fuzz_take_u8(&input);
    const unsigned changes_count = fuzz_take_u8(&input) % (CHANGES_MAX + 1);
    for (unsigned i = 0; i < changes_count; ++i) {
        changes[i].place = fuzz_take_u8(&input);
        changes[i].index = fuzz_take_u8(&input);
        changes[i].value = (int64_t)fuzz_take_u64(&input);
    }
    uint8_t *const run = malloc(input.size + 1);
    FUZZ_CHECK(run != NULL);
    if (input.size > 0)
        memcpy(run, input.bytes, input.size);
    if ((flags & AS_IT_IS) == 0)
        fuzz_mend_run(run, input.size);

    scene self = { .models_count = 0 };
    read_run(&self, run, input.size);
    for (unsigned i = 0; i < changes_count; ++i)
        change(&self, changes[i].place, changes[i].index, changes[i].value);
    if ((flags & LESS_ROWS) != 0 && self.rows.array.length > 0)
        --self.rows.array.length;
    if ((flags & MORE_MODELS) != 0)
        ++self.models_count;
    if ((flags & LESS_MODELS) != 0 && self.models_count > 0)
        --self.models_count;

    sgs_columns_source source;
    sgs_batch_builder builder;
    sgs_buffer out, table_rows;
    sgs_error err;
    sgs_batch_builder_init(&builder, kit_memory(), kit_codecs());
    sgs_buffer_init(&out, kit_memory());
    sgs_buffer_init(&table_rows, kit_memory());
    FUZZ_CHECK(sgs_columns_source_init(&source, &self.rows.schema, &self.rows.array, &places, 0, &err) == SGS_OK);
    sgs_status status =
        sgs_columns_rebuild(&source, self.offsets, self.models, self.models_count, &builder, &out, &table_rows, &err);
    FUZZ_CHECK(status == SGS_OK || status == SGS_INVALID_RECORD || status == SGS_ILLEGAL_ARGUMENT ||
               status == SGS_LIMIT_EXCEEDED);
    if (status == SGS_OK) {
        check_built(&self, &out, &table_rows);
    } else {
        FUZZ_CHECK(err.status == status && err.message[0] != '\0');
        FUZZ_CHECK(out.size == 0 && table_rows.size == 0);
        FUZZ_CHECK(sgs_buffer_append(&out, before, sizeof before, &err) == SGS_OK);
        FUZZ_CHECK(sgs_columns_rebuild(&source, self.offsets, self.models, self.models_count, &builder, &out,
                                       &table_rows, &err) == status);
        FUZZ_CHECK(out.size == sizeof before && memcmp(out.data, before, sizeof before) == 0);
    }
    sgs_buffer_deinit(&out);
    sgs_buffer_deinit(&table_rows);
    sgs_batch_builder_deinit(&builder);
    release(&self.rows);
    free(self.offsets);
    free(run);
    return 0;
}

/* Changes at the front are as they come; the batches behind them mostly keep their lengths and checksums. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    const size_t changes = size > 1 ? 2 + 10 * (size_t)(data[1] % (CHANGES_MAX + 1)) : 2;
    return fuzz_mutate_run(data, size, max_size, seed, changes);
}
