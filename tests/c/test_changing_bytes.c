/* Bytes of a caller that change while they are read [DUR-85]: each byte of a batch, at each allocation, where a second look would
 * see another one than the first. The answer may be anything; what is touched lies within bounds (ASan and UBSan look), and
 * what is handed out is sound.
 *
 * Looked for besides: the two passes over headers of decoder and builder, sizes that are summed before cells are copied, header
 * keys that are judged before they are copied, Arrow cells that are counted before they are written, the header of a batch
 * that is loaded by scan, section and decoder in turn, messages of magic 0 and 1. Compressed batches and the validator work on
 * copies of their own. */
#include <stdlib.h>

#include "arrow_reader.h"
#include "record/batch_builder.h"
#include "record/record_filter.h"
#include "record_kit.h"
#include "test.h"

enum { MOST_CALLS = 24, MOST_BYTES = 512 };

typedef struct changing {
    uint8_t bytes[MOST_BYTES];
    size_t size, place;
    int countdown;
    uint8_t value;
} changing;

static void change(changing *self)
{
    if (self->countdown > 0 && --self->countdown == 0)
        self->bytes[self->place] = self->value;
}

static void *change_and_reallocate(void *context, void *data, size_t size)
{
    change(context);
    return kit_memory().reallocate(kit_memory().context, data, size);
}

static void release(void *context, void *data)
{
    (void)context;
    kit_memory().release(kit_memory().context, data);
}

static sgs_memory memory_of(changing *self)
{
    return (sgs_memory){ .context = self, .reallocate = change_and_reallocate, .release = release };
}

/* Two records with headers: text, text that is not UTF-8, null. */
static size_t make_batch(uint8_t *out)
{
    const sgs_record_header headers[] = {
        { kit_text("key"), kit_text("value") },
        { { (const uint8_t *)"\xc3(\xe2\x82", 4 }, { NULL, -1 } },
        { kit_text("\xdf\xbf\x7f"), kit_text("") },
    };
    sgs_batch_builder builder;
    sgs_batch_options options;
    sgs_buffer made;
    sgs_error err;
    sgs_batch_options_default(&options);
    sgs_batch_builder_init(&builder, kit_memory(), NULL);
    sgs_buffer_init(&made, kit_memory());
    EXPECT_OK(sgs_batch_builder_start(&builder, &options, &err), &err);
    EXPECT_OK(sgs_batch_builder_append(&builder, 0, 1, kit_text("k"), kit_text("v"), headers, 3, &err), &err);
    EXPECT_OK(sgs_batch_builder_append(&builder, 1, 2, kit_text("kk"), kit_text("vv"), headers, 2, &err), &err);
    EXPECT_OK(sgs_batch_builder_finish(&builder, &made, NULL, &err), &err);
    const size_t size = made.size;
    EXPECT_TRUE(size <= MOST_BYTES);
    memcpy(out, made.data, size);
    sgs_buffer_deinit(&made);
    sgs_batch_builder_deinit(&builder);
    return size;
}

/* Run for each byte, at each allocation. @return how often the answer was an error */
static int64_t for_each_change(const uint8_t *bytes, size_t size, sgs_status (*run)(changing *self, sgs_error *err))
{
    const uint8_t masks[] = { 0x01, 0x80, 0xFE };
    int64_t refused = 0;
    for (size_t place = 0; place < size; ++place)
        for (int countdown = 1; countdown <= MOST_CALLS; ++countdown)
            for (size_t m = 0; m < sizeof masks; ++m) {
                changing self = {
                    .size = size, .place = place, .countdown = countdown, .value = bytes[place] ^ masks[m]
                };
                sgs_error err;
                memcpy(self.bytes, bytes, size);
                const sgs_status status = run(&self, &err);
                EXPECT_TRUE(status != SGS_INTERNAL);
                refused += status != SGS_OK;
            }
    return refused;
}

static sgs_status decode(changing *self, sgs_error *err)
{
    sgs_columns_options options;
    sgs_columns *columns;
    struct ArrowSchema schema;
    struct ArrowArray array;
    sgs_columns_options_default(&options);
    options.check_crc = false;
    SGS_TRY(sgs_columns_open(memory_of(self), &options, NULL, &columns, err));
    sgs_status status = sgs_columns_append_batch(columns, self->bytes, self->size, err);
    if (status == SGS_OK) {
        EXPECT_OK(sgs_columns_export_schema(kit_memory(), &options, &schema, err), err);
        status = sgs_columns_finish(columns, &array, err);
        if (status == SGS_OK) {
            EXPECT_TRUE(arrow_is_sound(&schema, &array));
            array.release(&array);
        }
        schema.release(&schema);
    }
    sgs_columns_close(columns);
    return status;
}

TEST(a_decoder_reads_headers_twice_within_their_bounds)
{
    uint8_t bytes[MOST_BYTES];
    const size_t size = make_batch(bytes);
    EXPECT_TRUE(for_each_change(bytes, size, decode) > 0);
}

static void keep_first(void *context, const sgs_batch_header *batch, const sgs_record *records, size_t count,
                       bool *retained)
{
    (void)batch;
    for (size_t i = 0; i < count; ++i) {
        change(context); /* between the choice of the records and their writing, too */
        retained[i] = records[i].offset == 0;
    }
}

static sgs_status filter(changing *self, sgs_error *err)
{
    const uint8_t decision = SGS_BATCH_RETAIN_EMPTY;
    sgs_batch_header row;
    sgs_record_filter made;
    SGS_TRY(sgs_batch_header_load(self->bytes, self->size, 0, &row, err));
    sgs_record_filter_init(&made, memory_of(self), NULL);
    made.options.destination_capacity = SIZE_MAX;
    made.options.context = self;
    made.options.should_retain = keep_first;
    const sgs_status status = sgs_record_filter_run(&made, self->bytes, self->size, &row, &decision, 1, err);
    sgs_record_filter_deinit(&made);
    return status;
}

TEST(a_filter_writes_the_headers_that_it_counted)
{
    uint8_t bytes[MOST_BYTES];
    const size_t size = make_batch(bytes);
    EXPECT_TRUE(for_each_change(bytes, size, filter) > 0);
}

/* Headers as Arrow has them, their offsets in the bytes that change. */
static sgs_status encode(changing *self, sgs_error *err)
{
    struct ArrowSchema schema;
    struct ArrowArray array;
    sgs_columns_options columns_options;
    sgs_columns *columns;
    sgs_columns_source source;
    sgs_batch_options options;
    sgs_batch_builder builder;
    sgs_buffer out, rows;
    uint8_t batch[MOST_BYTES];
    const size_t size = make_batch(batch);
    sgs_columns_options_default(&columns_options);
    SGS_TRY(sgs_columns_open(kit_memory(), &columns_options, NULL, &columns, err));
    EXPECT_OK(sgs_columns_append_batch(columns, batch, size, err), err);
    EXPECT_OK(sgs_columns_export_schema(kit_memory(), &columns_options, &schema, err), err);
    EXPECT_OK(sgs_columns_finish(columns, &array, err), err);
    struct ArrowArray *const headers = array.children[SGS_COLUMN_HEADERS];
    struct ArrowArray *const keys = headers->children[0]->children[0];
    const void *const kept[] = { headers->buffers[1], keys->buffers[1] };
    memcpy(self->bytes, kept[0], 3 * sizeof(int32_t)); /* of two rows */
    memcpy(self->bytes + 3 * sizeof(int32_t), kept[1], 6 * sizeof(int32_t));
    headers->buffers[1] = self->bytes;
    keys->buffers[1] = self->bytes + 3 * sizeof(int32_t);
    sgs_batch_options_default(&options);
    sgs_batch_builder_init(&builder, memory_of(self), NULL);
    sgs_buffer_init(&out, memory_of(self));
    sgs_buffer_init(&rows, memory_of(self));
    const sgs_record_places places = { SGS_COLUMN_KEY, SGS_COLUMN_VALUE, SGS_COLUMN_TIMESTAMP, SGS_COLUMN_HEADERS };
    sgs_status status = sgs_columns_source_init(&source, &schema, &array, &places, 0, err);
    if (status == SGS_OK)
        status = sgs_columns_encode(&source, 0, array.length, &options, 10000, 42, &builder, &out, &rows, err);
    sgs_buffer_deinit(&out);
    sgs_buffer_deinit(&rows);
    sgs_batch_builder_deinit(&builder);
    headers->buffers[1] = kept[0];
    keys->buffers[1] = kept[1];
    array.release(&array);
    schema.release(&schema);
    sgs_columns_close(columns);
    return status;
}

TEST(an_encoder_writes_the_arrow_cells_that_it_counted)
{
    _Alignas(8) uint8_t bytes[MOST_BYTES];
    const size_t size = 9 * sizeof(int32_t);
    const int32_t offsets[] = { 0, 3, 5, 0, 3, 7, 10, 13, 17 };
    memcpy(bytes, offsets, sizeof offsets);
    (void)for_each_change(bytes, size, encode);
}

TEST(headers_that_changed_end_where_their_bytes_do)
{
    const struct {
        const char *bytes;
        int32_t size;
    } cases[] = { { "", 0 }, { "\x01", 1 }, { "\x80", 1 }, { "\x04k", 2 }, { "\x02k", 2 }, { "\x02k\x04v", 4 } };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        sgs_bytes left = { (const uint8_t *)cases[i].bytes, cases[i].size };
        sgs_record_header header;
        EXPECT_TRUE(!sgs_record_next_header(&left, &header));
        EXPECT_EQ_I64(left.size, cases[i].size);
    }
}

TEST_MAIN()
