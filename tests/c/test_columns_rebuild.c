/* test_columns_rebuild.c - batches built again from their rows and headers, which a file says and nobody believes. */
#include "record/columns.h"

#include <errno.h>
#include <string.h>

#include "arrow_reader.h"
#include "arrow_table.h"
#include "memory_env.h"
#include "record_kit.h"
#include "test.h"

enum { ROWS = 5, MODELS = 3 };

static sgs_error err;

typedef struct fixture {
    arrow_table t;
    sgs_columns_source source;
    int64_t offsets[ROWS];
    sgs_batch_header models[MODELS];
    size_t models_count;
    sgs_batch_builder builder;
    sgs_buffer out, rows;
} fixture;

static sgs_batch_header model_of(int64_t base_offset, int64_t last_offset, int32_t records_count)
{
    return (sgs_batch_header){
        .base_offset = base_offset,
        .last_offset = last_offset,
        .base_timestamp = 1000,
        .max_timestamp = 9000,
        .producer_id = SGS_NO_PRODUCER_ID,
        .producer_epoch = SGS_NO_PRODUCER_EPOCH,
        .base_sequence = SGS_NO_SEQUENCE,
        .partition_leader_epoch = 3,
        .records_count = records_count,
        .magic = 2,
    };
}

static void use_memory(fixture *f, sgs_memory memory)
{
    sgs_batch_builder_init(&f->builder, memory, kit_codecs());
    sgs_buffer_init(&f->out, memory);
    sgs_buffer_init(&f->rows, memory);
}

/* Rows of the table in three batches, with gaps in them and between them. */
static void fixture_init(fixture *f)
{
    static const int64_t offsets[ROWS] = { 10, 12, 40, 50, INT64_C(50) + INT32_MAX };
    const sgs_record_places places = { 0, 1, 2, 3 };
    arrow_table_make(&f->t);
    memcpy(f->offsets, offsets, sizeof offsets);
    f->models[0] = model_of(9, 20, 2);
    f->models[1] = model_of(40, 40, 1);
    f->models[2] = model_of(50, INT64_C(50) + INT32_MAX, 2);
    f->models_count = MODELS;
    use_memory(f, kit_memory());
    REQUIRE_OK(sgs_columns_source_init(&f->source, &f->t.schema, &f->t.array, &places, 0, &err), &err);
}

static void fixture_deinit(fixture *f)
{
    sgs_batch_builder_deinit(&f->builder);
    sgs_buffer_deinit(&f->out);
    sgs_buffer_deinit(&f->rows);
}

static sgs_status rebuild(fixture *f)
{
    return sgs_columns_rebuild(&f->source, f->offsets, f->models, f->models_count, &f->builder, &f->out, &f->rows,
                               &err);
}

static void expect_same_model(const sgs_batch_header *found, const sgs_batch_header *model)
{
    EXPECT_EQ_I64(found->base_offset, model->base_offset);
    EXPECT_EQ_I64(found->last_offset, model->last_offset);
    EXPECT_EQ_I64(found->base_timestamp, model->base_timestamp);
    EXPECT_EQ_I64(found->max_timestamp, model->max_timestamp);
    EXPECT_EQ_I64(found->producer_id, model->producer_id);
    EXPECT_EQ_I64(found->producer_epoch, model->producer_epoch);
    EXPECT_EQ_I64(found->base_sequence, model->base_sequence);
    EXPECT_EQ_I64(found->partition_leader_epoch, model->partition_leader_epoch);
    EXPECT_EQ_I64(found->records_count, model->records_count);
    EXPECT_EQ_I64(found->attributes, model->attributes);
    EXPECT_EQ_I64(found->magic, 2);
}

/* The batches have the headers that they had, and their records are the rows. */
static void expect_rebuilt(fixture *f)
{
    const sgs_batch_header *const found = (const sgs_batch_header *)(const void *)f->rows.data;
    sgs_columns_options options;
    sgs_columns *columns;
    struct ArrowSchema schema;
    struct ArrowArray array;
    REQUIRE_EQ_I64(f->rows.size, f->models_count * sizeof *found);
    sgs_columns_options_default(&options);
    REQUIRE_OK(sgs_columns_open(kit_memory(), &options, kit_codecs(), &columns, &err), &err);
    size_t end = 0;
    for (size_t i = 0; i < f->models_count; ++i) {
        EXPECT_EQ_I64(found[i].position, end);
        expect_same_model(&found[i], &f->models[i]);
        REQUIRE_OK(sgs_columns_append_batch(columns, f->out.data + end, (size_t)found[i].size_bytes, &err), &err);
        end += (size_t)found[i].size_bytes;
    }
    EXPECT_EQ_I64(end, f->out.size);
    REQUIRE_OK(sgs_columns_finish(columns, &array, &err), &err);
    REQUIRE_OK(sgs_columns_export_schema(kit_memory(), &options, &schema, &err), &err);
    REQUIRE_EQ_I64(array.length, ROWS);
    int64_t row = 0;
    for (size_t i = 0; i < f->models_count; ++i) {
        const bool is_stamped = (f->models[i].attributes & SGS_ATTRIBUTE_LOG_APPEND_TIME) != 0;
        for (int32_t j = 0; j < f->models[i].records_count; ++j, ++row) {
            const sgs_bytes key = arrow_bytes(arrow_child(&schema, &array, "key"), row);
            const sgs_bytes value = arrow_bytes(arrow_child(&schema, &array, "value"), row);
            const sgs_bytes key_of_table = kit_text(arrow_table_keys[row]);
            int64_t first_header, end_header;
            EXPECT_EQ_I64(arrow_int64(arrow_child(&schema, &array, "offset"), row), f->offsets[row]);
            EXPECT_EQ_I64(arrow_int64(arrow_child(&schema, &array, "timestamp"), row),
                          is_stamped ? f->models[i].max_timestamp : 1000 * (row + 1));
            EXPECT_EQ_I64(key.size, key_of_table.size);
            if (key.size > 0)
                EXPECT_MEM(key.data, key_of_table.data, (size_t)key.size);
            EXPECT_EQ_I64(value.size, 2);
            EXPECT_MEM(value.data, arrow_table_values[row], 2);
            arrow_list(arrow_child(&schema, &array, "headers"), row, &first_header, &end_header);
            EXPECT_EQ_I64(end_header - first_header, row == 1 ? 1 : row == 3 ? 2 : 0);
        }
    }
    array.release(&array);
    schema.release(&schema);
    sgs_columns_close(columns);
}

TEST(batches_are_built_as_their_headers_were)
{
    for (int codec = 0; codec < SGS_CODEC_COUNT; ++codec) {
        fixture f;
        fixture_init(&f);
        f.models[0].attributes = (int16_t)(codec | SGS_ATTRIBUTE_TRANSACTIONAL);
        f.models[0].producer_id = 7;
        f.models[0].producer_epoch = 2;
        f.models[0].base_sequence = INT32_MAX;
        f.models[1].attributes = (int16_t)(codec | SGS_ATTRIBUTE_LOG_APPEND_TIME);
        f.models[1].base_timestamp = -1; /* of a record that was sent without a time */
        f.models[2].attributes = (int16_t)(codec | SGS_ATTRIBUTE_DELETE_HORIZON);
        f.models[2].base_timestamp = 77777;
        REQUIRE_OK(rebuild(&f), &err);
        expect_rebuilt(&f);
        fixture_deinit(&f);
    }
}

/* What was in the output before stays in front. */
TEST(batches_are_appended_and_none_of_them_is_nothing)
{
    fixture f;
    fixture_init(&f);
    REQUIRE_OK(rebuild(&f), &err);
    const size_t size = f.out.size;
    REQUIRE_OK(rebuild(&f), &err);
    EXPECT_EQ_I64(f.out.size, 2 * size);
    EXPECT_MEM(f.out.data + size, f.out.data, size);
    EXPECT_EQ_I64(f.rows.size, 2 * MODELS * sizeof(sgs_batch_header));
    f.t.array.length = 0;
    f.models_count = 0;
    REQUIRE_OK(sgs_columns_rebuild(&f.source, NULL, NULL, 0, &f.builder, &f.out, &f.rows, &err), &err);
    EXPECT_EQ_I64(f.out.size, 2 * size);
    fixture_deinit(&f);
}

/* The batch in front of the refused one is taken back too. */
static void expect_refused(fixture *f, sgs_status status, const char *why)
{
    REQUIRE_OK(sgs_buffer_append(&f->out, "before", 6, &err), &err);
    REQUIRE_OK(sgs_buffer_append(&f->rows, "row", 3, &err), &err);
    EXPECT_STATUS(rebuild(f), status);
    if (!EXPECT_TRUE(strstr(err.message, why) != NULL))
        printf("    '%s' in '%s'\n", why, err.message);
    EXPECT_EQ_I64(f->out.size, 6);
    EXPECT_EQ_I64(f->rows.size, 3);
    fixture_deinit(f);
    fixture_init(f);
}

TEST(a_header_that_no_rows_make_is_refused)
{
    static const int16_t attributes[] = { SGS_ATTRIBUTE_CONTROL, 0x80, 0x4000, INT16_MIN };
    fixture f;
    fixture_init(&f);
    for (int magic = -128; magic < 128; magic += magic == 1 ? 2 : 1) {
        f.models[1].magic = (int8_t)magic;
        expect_refused(&f, SGS_INVALID_RECORD, "is not built from rows");
    }
    for (size_t i = 0; i < sizeof attributes / sizeof *attributes; ++i) {
        f.models[1].attributes = attributes[i];
        expect_refused(&f, SGS_INVALID_RECORD, "is not built from rows");
    }
    f.models[1].attributes = SGS_ATTRIBUTE_DELETE_HORIZON; /* and none is there */
    f.models[1].base_timestamp = -1;
    expect_refused(&f, SGS_INVALID_RECORD, "a delete horizon of -1 ms");
    f.models[1].attributes = SGS_ATTRIBUTE_DELETE_HORIZON;
    f.models[1].base_timestamp = INT64_MIN;
    expect_refused(&f, SGS_INVALID_RECORD, "a delete horizon of");
    f.models[1].attributes = 5;
    expect_refused(&f, SGS_ILLEGAL_ARGUMENT, "codec id 5");
    f.models[1].attributes = SGS_ATTRIBUTE_TRANSACTIONAL;
    expect_refused(&f, SGS_ILLEGAL_ARGUMENT, "needs a producer id");
    f.models[1].producer_id = INT64_MIN;
    expect_refused(&f, SGS_ILLEGAL_ARGUMENT, "producer id");
    f.models[1].producer_id = 1;
    expect_refused(&f, SGS_ILLEGAL_ARGUMENT, "producer epoch");
    f.models[1].attributes = SGS_ATTRIBUTE_LOG_APPEND_TIME;
    f.models[1].max_timestamp = -2;
    expect_refused(&f, SGS_ILLEGAL_ARGUMENT, "a timestamp below -1");
    fixture_deinit(&f);
}

TEST(counts_that_are_not_there_are_refused)
{
    static const int32_t counts[] = { 0, -1, INT32_MIN };
    static const int32_t too_many[] = { 4, INT32_MAX };
    fixture f;
    fixture_init(&f);
    for (size_t i = 0; i < sizeof counts / sizeof *counts; ++i) {
        f.models[1].records_count = counts[i];
        expect_refused(&f, SGS_INVALID_RECORD, "is not built from rows");
    }
    for (size_t i = 0; i < sizeof too_many / sizeof *too_many; ++i) {
        f.models[1].records_count = too_many[i];
        expect_refused(&f, SGS_INVALID_RECORD, "records, and 3 rows are left");
    }
    f.models_count = 2;
    expect_refused(&f, SGS_INVALID_RECORD, "5 rows for batches of 3 records");
    f.models_count = 0;
    expect_refused(&f, SGS_INVALID_RECORD, "5 rows for batches of 0 records");
    f.models_count = MODELS;
    f.t.array.length = 4;
    expect_refused(&f, SGS_INVALID_RECORD, "has 2 records, and 1 rows are left");
    f.t.array.length = 0;
    expect_refused(&f, SGS_INVALID_RECORD, "has 2 records, and 0 rows are left");
    fixture_deinit(&f);
}

TEST(offsets_that_the_batch_does_not_have_are_refused)
{
    static const struct {
        int64_t base, last;
        const char *why;
    } ranges[] = {
        { 40, 39, "a batch from offset 40 to 39" },
        { 40, INT64_C(41) + INT32_MAX, "a batch from offset 40" },
        { INT64_MIN, INT64_MAX, "a batch from offset" },
        { INT64_MAX, INT64_MIN, "a batch from offset" },
        { INT64_MAX - 1, INT64_MAX, "a batch from offset" },
        { 41, 50, "row 2: offset 40 is not the next one of a batch from 41 to 50" },
        { 30, 39, "row 2: offset 40 is not the next one of a batch from 30 to 39" },
    };
    fixture f;
    fixture_init(&f);
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; ++i) {
        f.models[1].base_offset = ranges[i].base;
        f.models[1].last_offset = ranges[i].last;
        expect_refused(&f, SGS_INVALID_RECORD, ranges[i].why);
    }
    f.models[0].base_offset = -5;
    expect_refused(&f, SGS_ILLEGAL_ARGUMENT, "base offset -5");
    f.models[0].base_offset = 9;
    f.offsets[1] = f.offsets[0];
    expect_refused(&f, SGS_INVALID_RECORD, "row 1: offset 10 is not the next one");
    f.offsets[1] = INT64_MIN;
    expect_refused(&f, SGS_INVALID_RECORD, "row 1: offset");
    f.offsets[4] = INT64_MAX;
    expect_refused(&f, SGS_INVALID_RECORD, "row 4: offset");
    f.models[0].base_offset = 20 - INT32_MAX; /* the last offset is as far as it can be, and the base below 0 */
    expect_refused(&f, SGS_ILLEGAL_ARGUMENT, "base offset -");
    fixture_deinit(&f);
}

TEST(the_last_offset_of_all_can_be_that_of_a_batch)
{
    fixture f;
    fixture_init(&f);
    f.models[2].base_offset = f.offsets[3] = SGS_MAX_OFFSET - 1;
    f.models[2].last_offset = f.offsets[4] = SGS_MAX_OFFSET;
    REQUIRE_OK(rebuild(&f), &err);
    expect_rebuilt(&f);
    fixture_deinit(&f);
}

TEST(times_too_far_from_the_base_are_refused)
{
    fixture f;
    fixture_init(&f);
    f.models[1].base_timestamp = INT64_MIN;
    expect_refused(&f, SGS_ILLEGAL_ARGUMENT, "row 2: timestamp 3000 is too far from");
    f.models[1].base_timestamp = 3000 - INT64_MAX; /* as far as a delta reaches */
    EXPECT_OK(rebuild(&f), &err);
    expect_rebuilt(&f);
    fixture_deinit(&f);
}

/* The bytes that offsets promise are not read: the record does not fit. */
TEST(a_batch_that_grows_too_large_is_refused)
{
    static const int32_t large[] = { 0, 2, INT32_MAX, INT32_MAX, INT32_MAX, INT32_MAX };
    static const int32_t large_first[] = { 0, INT32_MAX, INT32_MAX, INT32_MAX, INT32_MAX, INT32_MAX };
    fixture f;
    fixture_init(&f);
    f.t.buffers[1][1] = large;
    expect_refused(&f, SGS_INVALID_RECORD, "the batch of offset 9 has more than 2^31-1 bytes");
    f.t.buffers[1][1] = large_first;
    expect_refused(&f, SGS_ILLEGAL_ARGUMENT, "row 0: a record of more than 2^31-1 bytes");
    fixture_deinit(&f);
}

/* Columns may change between the check of the source and the build. */
TEST(columns_that_are_no_longer_what_they_were_are_refused)
{
    static const int32_t descending[] = { 0, 5, 4, 5, 5, 5 };
    fixture f;
    fixture_init(&f);
    f.t.columns[0].format = "i";
    expect_refused(&f, SGS_ILLEGAL_ARGUMENT, "column key has the Arrow type int32");
    f.t.buffers[1][1] = descending;
    expect_refused(&f, SGS_ILLEGAL_ARGUMENT, "row 1: broken offsets");
    f.t.arrays[2].length = 4;
    expect_refused(&f, SGS_ILLEGAL_ARGUMENT, "has 4 cells for 5 rows");
    fixture_deinit(&f);
}

TEST(a_lack_of_memory_leaves_the_output_as_it_was)
{
    for (int codec = SGS_CODEC_NONE; codec <= SGS_CODEC_SNAPPY; codec += SGS_CODEC_SNAPPY) {
        int failures = 0;
        for (int nth = 1; nth < 14; ++nth) {
            memory_env memory;
            memory_env_init(&memory, sgs_env_posix());
            fixture f;
            fixture_init(&f);
            use_memory(&f, sgs_env_memory(&memory.env));
            for (int i = 0; i < MODELS; ++i)
                f.models[i].attributes = (int16_t)codec;
            memory_env_fail(&memory, "allocate", nth, ENOMEM);
            if (rebuild(&f) != SGS_OK) {
                ++failures;
                EXPECT_STATUS(err.status, SGS_RESOURCE);
                EXPECT_EQ_I64(f.out.size, 0);
                EXPECT_EQ_I64(f.rows.size, 0);
                memory_env_heal(&memory);
                REQUIRE_OK(rebuild(&f), &err);
            }
            expect_rebuilt(&f);
            fixture_deinit(&f);
            EXPECT_TRUE(memory_env_is_balanced(&memory));
        }
        EXPECT_TRUE(failures >= 3);
    }
}

TEST_MAIN()
