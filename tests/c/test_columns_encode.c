/* test_columns_encode.c - batches from Arrow columns [format.md 10, DESIGN D7]. */
#include "record/columns.h"

#include <errno.h>
#include <string.h>

#include "arrow_table.h"
#include "memory_env.h"
#include "record/record_section.h"
#include "record_kit.h"
#include "test.h"

static sgs_error err;

static void expect_bytes(sgs_bytes found, const char *expected)
{
    const sgs_bytes wanted = kit_text(expected);
    if (EXPECT_EQ_I64(found.size, wanted.size) && wanted.size > 0)
        EXPECT_MEM(found.data, wanted.data, (size_t)wanted.size);
}

static void expect_headers(sgs_record record, const char *const expected[3])
{
    for (int32_t i = 0; i < record.headers_count; ++i) {
        sgs_record_header header;
        EXPECT_TRUE(sgs_record_next_header(&record.headers, &header));
        REQUIRE_TRUE(i < 3 && expected[i] != NULL);
        const char *const sign = strchr(expected[i], '=');
        EXPECT_EQ_I64(header.key.size, 1);
        EXPECT_EQ_I64(header.key.data[0], expected[i][0]);
        expect_bytes(header.value, sign == NULL ? NULL : sign + 1);
    }
}

typedef struct fixture {
    arrow_table t;
    sgs_record_places places;
    int64_t first_row;
    sgs_columns_source source;
    sgs_batch_builder builder;
    sgs_batch_options options;
    sgs_buffer out, rows, scratch;
} fixture;

static void fixture_init(fixture *f)
{
    arrow_table_make(&f->t);
    f->places = (sgs_record_places){ 0, 1, 2, 3 };
    f->first_row = 0;
    sgs_batch_builder_init(&f->builder, kit_memory(), kit_codecs());
    sgs_batch_options_default(&f->options);
    sgs_buffer_init(&f->out, kit_memory());
    sgs_buffer_init(&f->rows, kit_memory());
    sgs_buffer_init(&f->scratch, kit_memory());
}

static void fixture_deinit(fixture *f)
{
    sgs_batch_builder_deinit(&f->builder);
    sgs_buffer_deinit(&f->out);
    sgs_buffer_deinit(&f->rows);
    sgs_buffer_deinit(&f->scratch);
}

static sgs_status find(fixture *f)
{
    return sgs_columns_source_init(&f->source, &f->t.schema, &f->t.array, &f->places, f->first_row, &err);
}

static sgs_status encode(fixture *f, int64_t start, int64_t end, int64_t max_batch_bytes)
{
    return sgs_columns_encode(&f->source, start, end, &f->options, max_batch_bytes, 99, &f->builder, &f->out, &f->rows,
                              &err);
}

/* The records of all batches of `out` are rows first, first + 1, ... of the table. @return how many there are */
static int64_t expect_rows(fixture *f, int64_t first)
{
    int64_t row = first;
    const size_t batches = f->rows.size / sizeof(sgs_batch_header);
    const sgs_batch_header *const headers = (const sgs_batch_header *)(const void *)f->rows.data;
    for (size_t i = 0; i < batches; ++i) {
        sgs_record_reader reader;
        sgs_batch_header loaded;
        const uint8_t *const batch = f->out.data + headers[i].position;
        const size_t left = f->out.size - (size_t)headers[i].position;
        EXPECT_OK(sgs_batch_header_load(batch, left, headers[i].position, &loaded, &err), &err);
        EXPECT_MEM(&loaded, &headers[i], sizeof loaded);
        if (!EXPECT_OK(sgs_record_section_open(batch, left, true, kit_codecs(), &f->scratch, &reader, &err), &err))
            return -1;
        for (int64_t offset = f->options.base_offset;; ++offset, ++row) {
            sgs_record record;
            bool found;
            if (!EXPECT_OK(sgs_record_reader_next(&reader, &record, &found, &err), &err) || !found)
                break;
            EXPECT_EQ_I64(record.offset, offset);
            EXPECT_EQ_I64(record.timestamp, 1000 * (row + 1));
            expect_bytes(record.key, arrow_table_keys[row]);
            expect_bytes(record.value, arrow_table_values[row]);
            expect_headers(record, arrow_table_headers[row]);
        }
    }
    return row - first;
}

TEST(columns_become_the_records_they_hold)
{
    for (int codec = 0; codec < SGS_CODEC_COUNT; ++codec) {
        fixture f;
        fixture_init(&f);
        f.options.codec = codec;
        f.options.base_offset = 10;
        REQUIRE_OK(find(&f), &err);
        REQUIRE_OK(encode(&f, 0, 5, 1000000), &err);
        EXPECT_EQ_I64(f.rows.size, sizeof(sgs_batch_header));
        EXPECT_EQ_I64(expect_rows(&f, 0), 5);
        f.out.size = f.rows.size = 0;
        REQUIRE_OK(encode(&f, 1, 4, 1000000), &err);
        EXPECT_EQ_I64(expect_rows(&f, 1), 3);
        f.out.size = f.rows.size = 0;
        REQUIRE_OK(encode(&f, 2, 2, 1000000), &err);
        EXPECT_EQ_I64(f.out.size, 0);
        fixture_deinit(&f);
    }
}

/* The same bytes as the builder's, whatever the way in. */
TEST(columns_and_records_give_the_same_bytes)
{
    fixture f;
    fixture_init(&f);
    f.options.partition_leader_epoch = 4;
    REQUIRE_OK(find(&f), &err);
    REQUIRE_OK(encode(&f, 0, 2, 1000000), &err);
    sgs_buffer other;
    sgs_buffer_init(&other, kit_memory());
    const sgs_record_header header = { kit_text("x"), kit_text("1") };
    REQUIRE_OK(sgs_batch_builder_start(&f.builder, &f.options, &err), &err);
    REQUIRE_OK(sgs_batch_builder_append(&f.builder, 0, 1000, kit_text("a"), kit_text("v0"), NULL, 0, &err), &err);
    REQUIRE_OK(sgs_batch_builder_append(&f.builder, 1, 2000, kit_text(NULL), kit_text("v1"), &header, 1, &err), &err);
    REQUIRE_OK(sgs_batch_builder_finish(&f.builder, &other, NULL, &err), &err);
    REQUIRE_EQ_I64(f.out.size, other.size);
    EXPECT_MEM(f.out.data, other.data, other.size);
    sgs_buffer_deinit(&other);
    fixture_deinit(&f);
}

TEST(batches_are_cut_at_their_size_and_sequences_go_on)
{
    for (int64_t limit = 0; limit < 200; ++limit) {
        fixture f;
        fixture_init(&f);
        f.options.producer_id = 1;
        f.options.producer_epoch = 0;
        f.options.base_sequence = INT32_MAX - 1;
        REQUIRE_OK(find(&f), &err);
        REQUIRE_OK(encode(&f, 0, 5, limit), &err);
        EXPECT_EQ_I64(expect_rows(&f, 0), 5);
        const sgs_batch_header *const rows = (const sgs_batch_header *)(const void *)f.rows.data;
        int64_t sequence = INT32_MAX - 1;
        for (size_t i = 0; i < f.rows.size / sizeof *rows; ++i) {
            EXPECT_TRUE(rows[i].size_bytes <= limit || rows[i].records_count == 1);
            EXPECT_EQ_I64(rows[i].base_sequence, sequence & INT32_MAX); /* they wrap to 0 [format.md 4.2] */
            sequence += rows[i].records_count;
        }
        fixture_deinit(&f);
    }
}

TEST(other_types_of_the_same_columns_are_read)
{
    static const int64_t large_keys[] = { 0, 1, 1, 4, 4, 6 }, large_lists[] = { 0, 0, 1, 1, 3, 3 };
    static const int64_t seconds[] = { 1, 2, 3, 4, 5 }, ms[] = { 1000, 2000, 3000, 4000, 5000 };
    static const int64_t ns[] = { 1000000000, 2000999999, 3000000000, 4000000000, 5000000000 };
    const struct {
        const char *format;
        const int64_t *values;
    } times[] = { { "tss:", seconds }, { "tsm:Europe/Paris", ms }, { "l", ms }, { "tsn:UTC", ns } };
    for (int i = 0; i < 4; ++i) {
        fixture f;
        fixture_init(&f);
        f.t.columns[0].format = i % 2 == 0 ? "Z" : "U";
        f.t.buffers[0][1] = large_keys;
        f.t.columns[3].format = "+L";
        f.t.buffers[3][1] = large_lists;
        f.t.columns[2].format = times[i].format;
        f.t.buffers[2][1] = times[i].values;
        REQUIRE_OK(find(&f), &err);
        REQUIRE_OK(encode(&f, 0, 5, 1000000), &err);
        EXPECT_EQ_I64(expect_rows(&f, 0), 5);
        fixture_deinit(&f);
    }
}

/* Slices at each level: the struct's offset counts for its children, and theirs is added. */
TEST(slices_are_honoured_at_every_level)
{
    fixture f;
    fixture_init(&f);
    f.t.array.offset = 1;
    f.t.array.length = 2;
    REQUIRE_OK(find(&f), &err);
    REQUIRE_OK(encode(&f, 0, 2, 1000000), &err);
    EXPECT_EQ_I64(expect_rows(&f, 1), 2);
    for (int i = 0; i < ARROW_TABLE_COLUMNS; ++i) {
        f.t.arrays[i].offset = 2;
        f.t.arrays[i].length = 3;
    }
    f.out.size = f.rows.size = 0;
    REQUIRE_OK(find(&f), &err);
    REQUIRE_OK(encode(&f, 0, 2, 1000000), &err);
    EXPECT_EQ_I64(expect_rows(&f, 3), 2);

    static const int32_t shifted[] = { 0, 0, 0, 0, 2, 2 }; /* entries begin at 1, their columns too */
    arrow_table_make(&f.t);
    f.t.buffers[3][1] = shifted;
    f.t.entries.offset = 1;
    f.t.entries.length = 2;
    f.out.size = f.rows.size = 0;
    REQUIRE_OK(find(&f), &err);
    REQUIRE_OK(encode(&f, 3, 4, 1000000), &err);
    EXPECT_EQ_I64(expect_rows(&f, 3), 1);
    fixture_deinit(&f);
}

TEST(absent_and_null_columns_read_as_null)
{
    fixture f;
    fixture_init(&f);
    f.t.columns[0].format = "n";
    f.t.arrays[0].n_buffers = 0;
    f.places.timestamp = -1;
    f.t.columns[3].format = "n";
    f.t.columns[3].n_children = f.t.arrays[3].n_children = 0;
    f.t.arrays[3].n_buffers = 0;
    REQUIRE_OK(find(&f), &err);
    EXPECT_EQ_I64(f.source.places.timestamp, -1);
    EXPECT_EQ_I64(f.source.places.key, 0);
    REQUIRE_OK(encode(&f, 0, 5, 1000000), &err);
    sgs_record_reader reader;
    sgs_record record;
    bool found;
    REQUIRE_OK(sgs_record_section_open(f.out.data, f.out.size, true, NULL, &f.scratch, &reader, &err), &err);
    REQUIRE_OK(sgs_record_reader_next(&reader, &record, &found, &err), &err);
    EXPECT_EQ_I64(record.key.size, -1);
    EXPECT_EQ_I64(record.headers_count, 0);
    EXPECT_EQ_I64(record.timestamp, 99); /* the default timestamp */
    fixture_deinit(&f);
}

static void expect_refused(fixture *f, const char *why)
{
    sgs_status status = find(f);
    if (status == SGS_OK)
        status = encode(f, 0, f->t.array.length, 1000000);
    EXPECT_STATUS(status, SGS_ILLEGAL_ARGUMENT);
    if (!EXPECT_TRUE(strstr(err.message, why) != NULL))
        printf("    '%s' in '%s'\n", why, err.message);
    EXPECT_EQ_I64(f->out.size, 0);
    EXPECT_EQ_I64(f->rows.size, 0);
    arrow_table_make(&f->t);
}

TEST(what_cannot_be_read_is_refused_by_name)
{
    static const int32_t descending[] = { 0, 5, 4, 5, 5, 5 }, too_far[] = { 0, 9, 1, 1, 3, 3 };
    static const int32_t backwards[] = { 1, 0, 0, 0, 0, 0 };
    static const int64_t early[] = { -2000, 0, 0, 0, 0 }, late[] = { INT64_MAX, 0, 0, 0, 0 };
    static const uint8_t no_bits[] = { 0 };
    fixture f;
    fixture_init(&f);
    f.t.columns[0].format = "i";
    expect_refused(&f, "column key has the Arrow type int32, expected binary");
    f.t.columns[0].dictionary = &f.t.columns[1];
    expect_refused(&f, "dictionary");
    f.t.columns[1].format = "+vl";
    expect_refused(&f, "column value has the Arrow type list_view");
    EXPECT_TEXT(err.found, "list_view");
    EXPECT_TRUE(strstr(err.expected, "binary or string") != NULL);
    f.t.columns[2].format = "tdD";
    expect_refused(&f, "column timestamp has the Arrow type date32[day], expected timestamp");
    f.t.columns[2].format = "ts";
    expect_refused(&f, "column timestamp");
    f.t.columns[3].format = "+m";
    expect_refused(&f, "column headers has the Arrow type map, expected list");
    f.t.element.format = "z";
    expect_refused(&f, "column headers");
    f.t.element_columns[0].name = "name";
    expect_refused(&f, "without a key or value");
    f.t.schema.format = "z";
    expect_refused(&f, "expected a struct");
    f.t.array.length = 6;
    expect_refused(&f, "has 5 cells for 6 rows");
    f.t.array.offset = 1;
    expect_refused(&f, "cells for");
    f.t.entries.length = 2;
    expect_refused(&f, "has 2 elements where its offsets want 3");
    f.t.buffers[0][1] = NULL;
    expect_refused(&f, "column key lacks an Arrow buffer");
    f.t.buffers[0][2] = NULL;
    expect_refused(&f, "column key lacks an Arrow buffer");
    f.t.arrays[1].n_buffers = 2;
    expect_refused(&f, "column value has 2 Arrow buffers, expected 3");
    f.t.arrays[1].release = NULL;
    expect_refused(&f, "released");
    f.t.array.release = NULL;
    expect_refused(&f, "released");
    f.t.root_buffers[0] = no_bits;
    expect_refused(&f, "row 0 of the Arrow struct is null");
    f.t.buffers[1][1] = descending;
    expect_refused(&f, "row 1: broken offsets");
    f.t.buffers[3][1] = too_far;
    expect_refused(&f, "row 0: broken offsets in column headers");
    f.t.buffers[2][1] = early;
    expect_refused(&f, "row 0: timestamp -2 ms");
    f.first_row = 1000; /* the array is a part of a table */
    f.t.buffers[2][1] = early;
    expect_refused(&f, "row 1000: timestamp -2 ms");
    f.first_row = 0;
    f.t.columns[2].format = "tss:";
    f.t.buffers[2][1] = late;
    expect_refused(&f, "does not fit milliseconds");
    f.t.entries_buffers[0] = no_bits;
    expect_refused(&f, "row 1: a null header key");
    f.t.entry_buffers[0][0] = no_bits;
    expect_refused(&f, "row 1: a null header key");
    f.t.entry_buffers[0][1] = backwards;
    expect_refused(&f, "broken offsets or indices in a header");
    REQUIRE_OK(find(&f), &err);
    EXPECT_STATUS(encode(&f, 0, 6, 1000), SGS_ILLEGAL_ARGUMENT);
    EXPECT_STATUS(encode(&f, -1, 2, 1000), SGS_ILLEGAL_ARGUMENT);
    EXPECT_STATUS(encode(&f, 3, 2, 1000), SGS_ILLEGAL_ARGUMENT);
    f.options.base_offset = INT64_MAX - 4;
    EXPECT_STATUS(encode(&f, 0, 5, 1000), SGS_ILLEGAL_ARGUMENT); /* five rows have no next offset, four have */
    EXPECT_OK(encode(&f, 0, 4, 1000), &err);
    f.options.base_offset = 0;
    f.options.producer_id = 5; /* without an epoch */
    EXPECT_STATUS(encode(&f, 0, 5, 1000), SGS_ILLEGAL_ARGUMENT);
    fixture_deinit(&f);
}

/* Batches out, columns in, batches out: nothing changes on the way. */
TEST(decoded_columns_encode_to_the_same_batch)
{
    fixture f;
    fixture_init(&f);
    REQUIRE_OK(find(&f), &err);
    REQUIRE_OK(encode(&f, 0, 5, 1000000), &err);
    const sgs_record_places of_a_log = { SGS_COLUMN_KEY, SGS_COLUMN_VALUE, SGS_COLUMN_TIMESTAMP, SGS_COLUMN_HEADERS };
    sgs_columns_options options;
    sgs_columns *columns;
    struct ArrowSchema schema;
    struct ArrowArray array;
    sgs_columns_options_default(&options);
    options.null_headers_when_empty = true;
    REQUIRE_OK(sgs_columns_open(kit_memory(), &options, NULL, &columns, &err), &err);
    REQUIRE_OK(sgs_columns_append_batch(columns, f.out.data, f.out.size, &err), &err);
    REQUIRE_OK(sgs_columns_finish(columns, &array, &err), &err);
    REQUIRE_OK(sgs_columns_export_schema(kit_memory(), &options, &schema, &err), &err);
    REQUIRE_OK(sgs_columns_source_init(&f.source, &schema, &array, &of_a_log, 0, &err), &err);
    const size_t size = f.out.size;
    REQUIRE_OK(encode(&f, 0, 5, 1000000), &err);
    REQUIRE_EQ_I64(f.out.size, 2 * size);
    EXPECT_MEM(f.out.data + size, f.out.data, size);
    array.release(&array);
    schema.release(&schema);
    sgs_columns_close(columns);
    fixture_deinit(&f);
}

TEST(a_lack_of_memory_leaves_the_output_as_it_was)
{
    for (int codec = SGS_CODEC_NONE; codec <= SGS_CODEC_SNAPPY; codec += SGS_CODEC_SNAPPY) {
        for (int nth = 1; nth < 12; ++nth) {
            memory_env memory;
            memory_env_init(&memory, sgs_env_posix());
            fixture f;
            fixture_init(&f);
            sgs_batch_builder_init(&f.builder, sgs_env_memory(&memory.env), kit_codecs());
            sgs_buffer_init(&f.out, sgs_env_memory(&memory.env));
            sgs_buffer_init(&f.rows, sgs_env_memory(&memory.env));
            f.options.codec = codec;
            REQUIRE_OK(find(&f), &err);
            memory_env_fail(&memory, "allocate", nth, ENOMEM);
            if (encode(&f, 0, 5, 90) != SGS_OK) {
                EXPECT_STATUS(err.status, SGS_RESOURCE);
                EXPECT_EQ_I64(f.out.size, 0);
                EXPECT_EQ_I64(f.rows.size, 0);
                memory_env_heal(&memory);
                REQUIRE_OK(encode(&f, 0, 5, 90), &err);
            }
            EXPECT_EQ_I64(expect_rows(&f, 0), 5);
            fixture_deinit(&f);
            EXPECT_TRUE(memory_env_is_balanced(&memory));
        }
    }
}

TEST_MAIN()
