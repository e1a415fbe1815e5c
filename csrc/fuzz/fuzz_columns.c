/* A batch decoded into columns has the rows that the record reader finds, or neither finds any; a bad batch leaves no
 * trace among good ones; and columns encoded again hold the same records. [DESIGN D7, DUR-79, format.md 18.2]
 * A foreign column whose views or dictionary indices are arbitrary is read within its buffers, or refused.
 * INPUT   flags, a mask of columns, bounds, then the batch; or with FOREIGN the type, sizes, and bytes of a column.
 * ORACLE  sgs_record_reader_next, and utf8_java for header keys. */
#include "record/columns.h"

#include "arrow_reader.h"
#include "fuzz/fuzz_batch.h"
#include "fuzz/fuzz_input.h"
#include "record/arrow_source.h"
#include "record/record_section.h"
#include "record/utf8_java.h"
#include "record_kit.h"

enum {
    BOUND_OFFSETS = 1,
    BOUND_TIMES = 2,
    MICROSECONDS = 4,
    NULL_HEADERS = 8,
    GOOD_FIRST = 16,
    ENCODE = 32,
    FOREIGN = 64,
    CHANGES = 128
};

static bool same_bytes(sgs_bytes a, sgs_bytes b)
{
    return a.size == b.size && (a.size <= 0 || memcmp(a.data, b.data, (size_t)a.size) == 0);
}

static sgs_columns_options take_options(fuzz_input *input, uint8_t *flags)
{
    sgs_columns_options options;
    sgs_columns_options_default(&options);
    *flags = fuzz_take_u8(input);
    const uint16_t mask = fuzz_take_u16(input);
    options.columns_count = 0;
    for (unsigned column = 0; column < SGS_COLUMN_COUNT; ++column)
        if ((mask >> column & 1) == 0)
            options.columns[options.columns_count++] = (uint8_t)column;
    if ((*flags & BOUND_OFFSETS) != 0) {
        options.start_offset = fuzz_take_u16(input);
        options.end_offset = options.start_offset + fuzz_take_u8(input);
    }
    if ((*flags & BOUND_TIMES) != 0) {
        options.start_timestamp = EXAMPLE_T + (int16_t)fuzz_take_u16(input);
        options.end_timestamp = options.start_timestamp + fuzz_take_u8(input);
    }
    options.timestamp_in_microseconds = (*flags & MICROSECONDS) != 0;
    options.null_headers_when_empty = (*flags & NULL_HEADERS) != 0;
    (void)strcpy(options.topic, "topic");
    options.partition = 7;
    return options;
}

static void check_headers(const struct ArrowArray *column, int64_t row, sgs_record record, bool null_when_empty)
{
    int64_t start, end;
    arrow_list(column, row, &start, &end);
    FUZZ_CHECK(end - start == record.headers_count);
    FUZZ_CHECK(arrow_is_null(column, row) == (null_when_empty && record.headers_count == 0));
    for (int64_t i = start; i < end; ++i) {
        sgs_record_header header;
        FUZZ_CHECK(sgs_record_next_header(&record.headers, &header));
        const sgs_bytes key = arrow_bytes(column->children[0]->children[0], i);
        uint8_t *const repaired = malloc(3 * (size_t)header.key.size + 1);
        FUZZ_CHECK(repaired != NULL);
        const size_t size =
            (size_t)(sgs_utf8_java_replace(repaired, header.key.data, (size_t)header.key.size) - repaired);
        FUZZ_CHECK((size_t)key.size == size && (size == 0 || memcmp(key.data, repaired, size) == 0));
        FUZZ_CHECK(sgs_utf8_is_valid(key.data, (size_t)key.size));
        FUZZ_CHECK(same_bytes(arrow_bytes(column->children[0]->children[1], i), header.value));
        free(repaired);
    }
}

static void check_row(const struct ArrowSchema *schema, const struct ArrowArray *array, int64_t row,
                      const sgs_columns_options *options, const sgs_batch_header *batch, const sgs_record *record)
{
    const struct ArrowArray *column;
    if ((column = arrow_child(schema, array, "key")) != NULL)
        FUZZ_CHECK(same_bytes(arrow_bytes(column, row), record->key));
    if ((column = arrow_child(schema, array, "value")) != NULL)
        FUZZ_CHECK(same_bytes(arrow_bytes(column, row), record->value));
    if ((column = arrow_child(schema, array, "topic")) != NULL)
        FUZZ_CHECK(same_bytes(arrow_bytes(column, row), kit_text("topic")));
    if ((column = arrow_child(schema, array, "partition")) != NULL)
        FUZZ_CHECK(arrow_int32(column, row) == 7);
    if ((column = arrow_child(schema, array, "offset")) != NULL)
        FUZZ_CHECK(arrow_int64(column, row) == record->offset);
    if ((column = arrow_child(schema, array, "timestamp")) != NULL)
        FUZZ_CHECK(arrow_int64(column, row) == record->timestamp * (options->timestamp_in_microseconds ? 1000 : 1));
    if ((column = arrow_child(schema, array, "timestampType")) != NULL)
        FUZZ_CHECK(arrow_int32(column, row) == ((batch->attributes & SGS_ATTRIBUTE_LOG_APPEND_TIME) != 0));
    if ((column = arrow_child(schema, array, "headers")) != NULL)
        check_headers(column, row, *record, options->null_headers_when_empty);
    if ((column = arrow_child(schema, array, "leaderEpoch")) != NULL)
        FUZZ_CHECK(arrow_int32(column, row) == batch->partition_leader_epoch);
}

static bool has_wanted_offset(const sgs_columns_options *options, const sgs_record *record)
{
    return record->offset >= options->start_offset &&
           (options->end_offset == INT64_MAX || record->offset < options->end_offset);
}

static bool has_wanted_timestamp(const sgs_columns_options *options, const sgs_record *record)
{
    return record->timestamp >= options->start_timestamp &&
           (options->end_timestamp == INT64_MAX || record->timestamp < options->end_timestamp);
}

/* Rows from `row` on are those of the batch. @return SGS_OK and the row behind them, or why the batch has none */
static sgs_status check_rows(const uint8_t *batch, size_t size, const sgs_columns_options *options,
                             const struct ArrowSchema *schema, const struct ArrowArray *array, int64_t *row)
{
    sgs_batch_header header;
    sgs_record_reader reader;
    sgs_buffer scratch;
    sgs_error err;
    sgs_status status = sgs_batch_header_load(batch, size, -1, &header, &err);
    if (status != SGS_OK)
        return status;
    /* what the header alone leaves out is not opened */
    if (sgs_batch_is_control(&header) || header.max_timestamp < options->start_timestamp ||
        (header.base_offset <= header.last_offset && header.last_offset < options->start_offset) ||
        (options->end_offset != INT64_MAX && sgs_batch_least_offset(&header) >= options->end_offset))
        return sgs_record_section_check_crc(&header, batch, &err);
    sgs_buffer_init(&scratch, kit_memory());
    status = sgs_record_section_open(batch, size, true, kit_codecs(), &scratch, &reader, &err);
    int64_t latest = -1; /* each offset is shown once, in order */
    for (bool found = true; status == SGS_OK && found;) {
        sgs_record record;
        status = sgs_record_reader_next(&reader, &record, &found, &err);
        if (status != SGS_OK || !found || record.offset <= latest || !has_wanted_offset(options, &record))
            continue;
        latest = record.offset;
        if (!has_wanted_timestamp(options, &record))
            continue;
        int64_t microseconds;
        if (options->timestamp_in_microseconds && arrow_child(schema, array, "timestamp") != NULL &&
            __builtin_mul_overflow(record.timestamp, 1000, &microseconds))
            status = SGS_INVALID_RECORD;
        else if (*row < array->length)
            check_row(schema, array, (*row)++, options, &header, &record);
        else
            ++*row; /* the caller sees that the batch has more rows than the array */
    }
    sgs_buffer_deinit(&scratch);
    return status;
}

/* All columns, encoded again without bounds, give the same records. */
static void check_encoded(const struct ArrowSchema *schema, const struct ArrowArray *array)
{
    sgs_columns_source source;
    sgs_batch_builder builder;
    sgs_batch_options options;
    sgs_buffer out, rows, scratch;
    sgs_error err;
    sgs_batch_options_default(&options);
    sgs_batch_builder_init(&builder, kit_memory(), kit_codecs());
    sgs_buffer_init(&out, kit_memory());
    sgs_buffer_init(&rows, kit_memory());
    sgs_buffer_init(&scratch, kit_memory());
    const sgs_record_places places = { SGS_COLUMN_KEY, SGS_COLUMN_VALUE, SGS_COLUMN_TIMESTAMP, SGS_COLUMN_HEADERS };
    FUZZ_CHECK(sgs_columns_source_init(&source, schema, array, &places, 0, &err) == SGS_OK);
    options.codec = (int)(array->length % SGS_CODEC_COUNT);
    const sgs_status status =
        sgs_columns_encode(&source, 0, array->length, &options, 300, 42, &builder, &out, &rows, &err);
    FUZZ_CHECK(status == SGS_OK || status == SGS_ILLEGAL_ARGUMENT); /* timestamps that Kafka does not write */
    int64_t row = 0;
    const sgs_batch_header *const headers = (const sgs_batch_header *)(const void *)rows.data;
    for (size_t i = 0; i < rows.size / sizeof *headers; ++i) {
        sgs_record_reader reader;
        FUZZ_CHECK(sgs_record_section_open(out.data + headers[i].position, (size_t)headers[i].size_bytes, true,
                                           kit_codecs(), &scratch, &reader, &err) == SGS_OK);
        for (bool found = true;; ++row) {
            sgs_record record;
            FUZZ_CHECK(sgs_record_reader_next(&reader, &record, &found, &err) == SGS_OK);
            if (!found)
                break;
            FUZZ_CHECK(row < array->length);
            FUZZ_CHECK(same_bytes(arrow_bytes(arrow_child(schema, array, "key"), row), record.key));
            FUZZ_CHECK(same_bytes(arrow_bytes(arrow_child(schema, array, "value"), row), record.value));
            FUZZ_CHECK(arrow_int64(arrow_child(schema, array, "timestamp"), row) == record.timestamp);
            check_headers(arrow_child(schema, array, "headers"), row, record,
                          arrow_is_null(arrow_child(schema, array, "headers"), row));
        }
    }
    FUZZ_CHECK(status != SGS_OK || row == array->length);
    sgs_batch_builder_deinit(&builder);
    sgs_buffer_deinit(&out);
    sgs_buffer_deinit(&rows);
    sgs_buffer_deinit(&scratch);
}

static void release_nothing(struct ArrowArray *array) { array->release = NULL; }
static void release_no_schema(struct ArrowSchema *schema) { schema->release = NULL; }

/* Memory of its own, so that one byte beyond is caught; zeros where the input ends. */
static void *take_bytes(fuzz_input *input, size_t size)
{
    uint8_t *const bytes = malloc(size + 1);
    FUZZ_CHECK(bytes != NULL);
    for (size_t i = 0; i < size; ++i)
        bytes[i] = fuzz_take_u8(input);
    return bytes;
}

/* Views over a buffer, or over it as the dictionary of arbitrary indices: each cell is inside, or is refused. */
static void check_foreign(fuzz_input *input)
{
    static const char *const index_formats[] = { "c", "C", "s", "S", "i", "I", "l", "L" };
    const unsigned kind = fuzz_take_u8(input);
    const size_t rows = fuzz_take_u8(input) % 32, choices = fuzz_take_u8(input) % 16;
    const bool is_dictionary = (kind & 8) != 0;
    const size_t cells = is_dictionary ? choices : rows;
    int64_t sizes[1] = { fuzz_take_u8(input) };
    void *const data = take_bytes(input, (size_t)sizes[0]);
    void *const views = take_bytes(input, cells * SGS_ARROW_VIEW_BYTES);
    void *const indices = take_bytes(input, rows << (kind % 8 / 2));
    const void *buffers[] = { NULL, views, data, sizes }, *index_buffers[] = { NULL, indices };
    struct ArrowSchema type = { .format = "vz", .release = release_no_schema };
    struct ArrowSchema index_type = { .format = index_formats[kind % 8], .dictionary = &type };
    struct ArrowArray array = {
        .length = (int64_t)cells, .n_buffers = 4, .buffers = buffers, .release = release_nothing
    };
    const struct ArrowArray index_array = { .length = (int64_t)rows,
                                            .n_buffers = 2,
                                            .buffers = index_buffers,
                                            .dictionary = &array,
                                            .release = release_nothing };
    sgs_arrow_binary column;
    sgs_error err;
    FUZZ_CHECK(sgs_arrow_binary_init(&column, "key", is_dictionary ? &index_type : &type,
                                     is_dictionary ? &index_array : &array, 0, (int64_t)rows, &err) == SGS_OK);
    unsigned sum = 0;
    for (size_t row = 0; row < rows; ++row) {
        sgs_bytes bytes;
        if (!sgs_arrow_binary_cell(&column, (int64_t)row, &bytes))
            continue;
        FUZZ_CHECK(bytes.size >= 0 && bytes.size <= 255); /* no null, and nothing longer than the buffer */
        for (int32_t i = 0; i < bytes.size; ++i)
            sum += bytes.data[i];
    }
    FUZZ_CHECK(sum <= 32 * 255 * 255);
    free(data);
    free(views);
    free(indices);
}

/* A caller's bytes that change while they are read: at an allocation, so that a second look sees others than the first. */
typedef struct changing {
    uint8_t *bytes;
    size_t size, place;
    uint8_t value, countdown;
} changing;

static void *change_and_reallocate(void *context, void *data, size_t size)
{
    changing *const self = context;
    if (self->countdown > 0 && --self->countdown == 0 && self->place < self->size)
        self->bytes[self->place] = self->value;
    return kit_memory().reallocate(kit_memory().context, data, size);
}

static void release(void *context, void *data)
{
    (void)context;
    kit_memory().release(kit_memory().context, data);
}

/* Whatever is answered, it is sound and nothing else was touched; a batch that is good is read by the next. */
static void check_changing(fuzz_input *input, const sgs_columns_options *options)
{
    changing self = { .countdown = fuzz_take_u8(input), .place = fuzz_take_u8(input), .value = fuzz_take_u8(input) };
    const sgs_memory memory = { .context = &self, .reallocate = change_and_reallocate, .release = release };
    const kit_bytes good = kit_hex(EXAMPLE_TWO_RECORDS);
    sgs_columns *columns;
    struct ArrowSchema schema;
    struct ArrowArray array;
    sgs_error err;
    self.bytes = malloc(input->size + 1);
    FUZZ_CHECK(self.bytes != NULL);
    self.size = input->size;
    if (input->size > 0)
        memcpy(self.bytes, input->bytes, input->size);
    fuzz_mend_batch(self.bytes, self.size);
    FUZZ_CHECK(sgs_columns_open(memory, options, kit_codecs(), &columns, &err) == SGS_OK);
    FUZZ_CHECK(sgs_columns_export_schema(kit_memory(), options, &schema, &err) == SGS_OK);
    (void)sgs_columns_append_batch(columns, self.bytes, self.size, &err);
    FUZZ_CHECK(sgs_columns_append_batch(columns, good.data, good.size, &err) == SGS_OK);
    FUZZ_CHECK(sgs_columns_finish(columns, &array, &err) == SGS_OK);
    FUZZ_CHECK(arrow_is_sound(&schema, &array));
    array.release(&array);
    schema.release(&schema);
    sgs_columns_close(columns);
    free(self.bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_input input = { data, size };
    uint8_t flags;
    const sgs_columns_options options = take_options(&input, &flags);
    if ((flags & FOREIGN) != 0) {
        check_foreign(&input);
        return 0;
    }
    if ((flags & CHANGES) != 0) {
        check_changing(&input, &options);
        return 0;
    }
    uint8_t *const batch = malloc(input.size + 1);
    FUZZ_CHECK(batch != NULL);
    if (input.size > 0)
        memcpy(batch + 1, input.bytes, input.size);
    fuzz_mend_batch(batch + 1, input.size);
    const kit_bytes good = kit_hex(EXAMPLE_TWO_RECORDS);

    sgs_columns *columns;
    struct ArrowSchema schema;
    struct ArrowArray array;
    sgs_error err;
    FUZZ_CHECK(sgs_columns_open(kit_memory(), &options, kit_codecs(), &columns, &err) == SGS_OK);
    FUZZ_CHECK(sgs_columns_export_schema(kit_memory(), &options, &schema, &err) == SGS_OK);
    const int good_ones = (flags & GOOD_FIRST) != 0 ? 3 : 0;
    for (int i = 0; i < good_ones; ++i)
        FUZZ_CHECK(sgs_columns_append_batch(columns, good.data, good.size, &err) == SGS_OK);
    const sgs_status status = sgs_columns_append_batch(columns, batch + 1, input.size, &err);
    FUZZ_CHECK(sgs_columns_append_batch(columns, good.data, good.size, &err) == SGS_OK);
    FUZZ_CHECK(sgs_columns_finish(columns, &array, &err) == SGS_OK);
    FUZZ_CHECK(arrow_is_sound(&schema, &array));

    int64_t row = 0;
    for (int i = 0; i < good_ones; ++i)
        FUZZ_CHECK(check_rows(good.data, good.size, &options, &schema, &array, &row) == SGS_OK);
    if (status == SGS_OK) {
        FUZZ_CHECK(check_rows(batch + 1, input.size, &options, &schema, &array, &row) == SGS_OK);
    } else { /* the same answer without any row to compare with */
        const struct ArrowArray nothing = { .length = 0, .n_children = array.n_children, .children = array.children };
        int64_t rows = 0;
        FUZZ_CHECK(check_rows(batch + 1, input.size, &options, &schema, &nothing, &rows) == status);
    }
    FUZZ_CHECK(check_rows(good.data, good.size, &options, &schema, &array, &row) == SGS_OK);
    FUZZ_CHECK(row == array.length);
    if ((flags & ENCODE) != 0 && options.columns_count == SGS_COLUMN_COUNT && !options.timestamp_in_microseconds)
        check_encoded(&schema, &array);
    array.release(&array);
    schema.release(&schema);
    sgs_columns_close(columns);
    free(batch);
    return 0;
}
