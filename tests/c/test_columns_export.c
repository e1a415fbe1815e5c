/* test_columns_export.c - the Arrow side of columns: schema, projection, ownership [DESIGN D7, D10; format.md 18.2]. */
#include "record/columns.h"

#include <string.h>

#include "arrow_reader.h"
#include "columns_kit.h"
#include "memory_env.h"
#include "record_kit.h"
#include "test.h"

static sgs_error err;

TEST(the_schema_is_that_of_sparks_kafka_source)
{
    columns_kit f = columns_kit_of(NULL, 0);
    f.options.timestamp_in_microseconds = true;
    columns_kit_decode(&f, NULL, 0);
    const struct {
        const char *name, *format;
    } expected[] = { { "key", "z" },           { "value", "z" },    { "topic", "u" },
                     { "partition", "i" },     { "offset", "l" },   { "timestamp", "tsu:UTC" },
                     { "timestampType", "i" }, { "headers", "+l" }, { "leaderEpoch", "i" } };
    EXPECT_TEXT(f.schema.format, "+s");
    REQUIRE_EQ_I64(f.schema.n_children, 9);
    for (int i = 0; i < 9; ++i) {
        EXPECT_TEXT(f.schema.children[i]->name, expected[i].name);
        EXPECT_TEXT(f.schema.children[i]->format, expected[i].format);
        EXPECT_EQ_I64(f.schema.children[i]->flags, ARROW_FLAG_NULLABLE);
        EXPECT_TEXT(sgs_column_name(i), expected[i].name);
    }
    const struct ArrowSchema *const element = f.schema.children[7]->children[0];
    EXPECT_TEXT(element->name, "element");
    EXPECT_TEXT(element->format, "+s");
    EXPECT_EQ_I64(element->flags, ARROW_FLAG_NULLABLE);
    EXPECT_TEXT(element->children[0]->name, "key");
    EXPECT_TEXT(element->children[0]->format, "u");
    EXPECT_TEXT(element->children[1]->name, "value");
    EXPECT_TEXT(element->children[1]->format, "z");
    EXPECT_EQ_I64(element->children[0]->flags, ARROW_FLAG_NULLABLE);
    EXPECT_EQ_I64(element->children[1]->flags, ARROW_FLAG_NULLABLE);
    EXPECT_TRUE(sgs_column_name(9) == NULL && sgs_column_name(-1) == NULL);
    EXPECT_EQ_I64(f.array.length, 0); /* an empty array is sound too, offsets buffers and all */
    columns_kit_close(&f);
}

/* Spark has null where a record has no headers, others an empty list. [DESIGN D10] */
TEST(missing_headers_are_null_or_an_empty_list)
{
    const uint8_t only[] = { SGS_COLUMN_HEADERS };
    const char *const batches[] = { EXAMPLE_LOG_APPEND_TIME, EXAMPLE_TWO_RECORDS };
    for (int as_null = 0; as_null <= 1; ++as_null) {
        columns_kit f = columns_kit_of(only, 1);
        f.options.null_headers_when_empty = as_null != 0;
        columns_kit_decode(&f, batches, 2);
        REQUIRE_EQ_I64(f.array.length, 4);
        EXPECT_EQ_I64(columns_kit_column(&f, "headers")->null_count, as_null != 0 ? 2 : 0);
        EXPECT_EQ_I64(arrow_is_null(columns_kit_column(&f, "headers"), 0), as_null);
        EXPECT_TRUE(!arrow_is_null(columns_kit_column(&f, "headers"), 2));
        columns_kit_close(&f);
    }
}

/* Rows in front of the first headers get their cells late: with that record, also after a batch that had headers was taken
 * back, or when the table is finished. */
TEST(rows_before_the_first_headers_have_cells_all_the_same)
{
    enum { PLAIN = 300 };
    const uint8_t only[] = { SGS_COLUMN_HEADERS };
    const kit_bytes plain = kit_hex(EXAMPLE_V1), with = kit_hex(EXAMPLE_TWO_RECORDS);
    sgs_buffer broken = columns_kit_batch(0, PLAIN, SGS_CODEC_NONE);
    broken.data[broken.size - 1] = 2; /* the last record announces a header: found when two chunks are in the table */
    for (int way = 0; way < 6; ++way) {
        const bool as_null = way % 2 != 0;
        columns_kit f = columns_kit_of(only, 1);
        f.options.null_headers_when_empty = as_null;
        f.options.check_crc = false;
        columns_kit_open(&f);
        for (int i = 0; i < PLAIN; ++i)
            REQUIRE_OK(sgs_columns_append_batch(f.columns, plain.data, plain.size, &err), &err);
        if (way >= 2)
            EXPECT_STATUS(sgs_columns_append_batch(f.columns, broken.data, broken.size, &err), SGS_INVALID_RECORD);
        EXPECT_EQ_I64(sgs_columns_rows_count(f.columns), PLAIN);
        if (way >= 4)
            REQUIRE_OK(sgs_columns_append_batch(f.columns, with.data, with.size, &err), &err);
        REQUIRE_OK(sgs_columns_finish(f.columns, &f.array, &err), &err);
        const struct ArrowArray *const headers = columns_kit_column(&f, "headers");
        EXPECT_EQ_I64(headers->length, PLAIN + (way >= 4 ? 2 : 0));
        EXPECT_EQ_I64(headers->null_count, as_null ? PLAIN : 0);
        for (int64_t row = 0; row < headers->length; ++row) {
            int64_t start, end;
            arrow_list(headers, row, &start, &end);
            EXPECT_EQ_I64(start, row <= PLAIN ? 0 : 1);
            EXPECT_EQ_I64(end, row < PLAIN ? 0 : row == PLAIN ? 1 : 3);
            EXPECT_EQ_I64(arrow_is_null(headers, row), as_null && row < PLAIN);
        }
        columns_kit_close(&f);
    }
    sgs_buffer_deinit(&broken);
}

TEST(a_projection_has_its_columns_in_its_order)
{
    const uint8_t some[] = { SGS_COLUMN_OFFSET, SGS_COLUMN_KEY };
    const char *const batches[] = { EXAMPLE_TWO_RECORDS };
    columns_kit f = columns_kit_of(some, 2);
    columns_kit_decode(&f, batches, 1);
    REQUIRE_EQ_I64(f.schema.n_children, 2);
    EXPECT_TEXT(f.schema.children[0]->name, "offset");
    EXPECT_TEXT(f.schema.children[1]->name, "key");
    EXPECT_EQ_I64(arrow_int64(f.array.children[0], 1), 101);
    columns_kit_close(&f);

    columns_kit none = columns_kit_of(some, 0); /* no columns: the number of rows is all that is asked */
    columns_kit_decode(&none, batches, 1);
    EXPECT_EQ_I64(none.array.length, 2);
    EXPECT_EQ_I64(none.array.n_children, 0);
    columns_kit_close(&none);

    const uint8_t twice[] = { SGS_COLUMN_KEY, SGS_COLUMN_KEY }, unknown[] = { SGS_COLUMN_COUNT };
    columns_kit bad = columns_kit_of(twice, 2);
    EXPECT_STATUS(sgs_columns_open(kit_memory(), &bad.options, NULL, &bad.columns, &err), SGS_ILLEGAL_ARGUMENT);
    bad = columns_kit_of(unknown, 1);
    EXPECT_STATUS(sgs_columns_open(kit_memory(), &bad.options, NULL, &bad.columns, &err), SGS_ILLEGAL_ARGUMENT);
    EXPECT_STATUS(sgs_columns_export_schema(kit_memory(), &bad.options, &bad.schema, &err), SGS_ILLEGAL_ARGUMENT);
    bad = columns_kit_of(NULL, 0);
    memset(bad.options.topic, 'x', sizeof bad.options.topic);
    EXPECT_STATUS(sgs_columns_open(kit_memory(), &bad.options, NULL, &bad.columns, &err), SGS_ILLEGAL_ARGUMENT);
}

/* Arrow C data interface: a child may be moved out of its parent and outlives it; a builder begins anew. */
TEST(children_can_be_moved_and_the_builder_goes_on)
{
    memory_env memory;
    memory_env_init(&memory, sgs_env_posix());
    columns_kit f = columns_kit_of(NULL, 0);
    REQUIRE_OK(sgs_columns_open(sgs_env_memory(&memory.env), &f.options, NULL, &f.columns, &err), &err);
    const kit_bytes batch = kit_hex(EXAMPLE_TWO_RECORDS);
    for (int round = 0; round < 3; ++round) {
        REQUIRE_OK(sgs_columns_append_batch(f.columns, batch.data, batch.size, &err), &err);
        EXPECT_EQ_I64(sgs_columns_rows_count(f.columns), 2);
        EXPECT_EQ_I64(sgs_columns_bytes_count(f.columns), 2 + 7 + 12 + 9 + 1);
        struct ArrowArray array;
        REQUIRE_OK(sgs_columns_finish(f.columns, &array, &err), &err);
        EXPECT_EQ_I64(sgs_columns_rows_count(f.columns), 0);
        struct ArrowArray value = *array.children[1];
        array.children[1]->release = NULL;
        struct ArrowArray header_keys = *array.children[7]->children[0]->children[0];
        array.children[7]->children[0]->children[0]->release = NULL;
        array.release(&array);
        EXPECT_TRUE(array.release == NULL);
        EXPECT_MEM(arrow_bytes(&value, 1).data, "hello", 5);
        EXPECT_MEM(arrow_bytes(&header_keys, 0).data, "h1", 2);
        value.release(&value);
        header_keys.release(&header_keys);
    }
    struct ArrowSchema schema;
    REQUIRE_OK(sgs_columns_export_schema(sgs_env_memory(&memory.env), &f.options, &schema, &err), &err);
    struct ArrowSchema moved = *schema.children[7];
    schema.children[7]->release = NULL;
    schema.release(&schema);
    EXPECT_TEXT(moved.children[0]->name, "element");
    moved.release(&moved);
    sgs_columns_close(f.columns);
    EXPECT_TRUE(memory_env_is_balanced(&memory));
}

/* [format.md 18.2] Arrow strings are valid UTF-8, whatever the producer wrote */
TEST(malformed_header_keys_are_repaired_as_java_reads_them)
{
    kit_bytes batch = kit_hex(EXAMPLE_TWO_RECORDS);
    batch.data[batch.size - 3] = 0xC0; /* "ü" becomes C0 BC: two malformed bytes */
    sgs_batch_seal(batch.data, batch.size);
    columns_kit f = columns_kit_of(NULL, 0);
    columns_kit_open(&f);
    REQUIRE_OK(sgs_columns_append_batch(f.columns, batch.data, batch.size, &err), &err);
    REQUIRE_OK(sgs_columns_finish(f.columns, &f.array, &err), &err);
    const sgs_bytes key = arrow_bytes(columns_kit_column(&f, "headers")->children[0]->children[0], 2);
    REQUIRE_EQ_I64(key.size, 6);
    EXPECT_MEM(key.data, "\xef\xbf\xbd\xef\xbf\xbd", 6);
    columns_kit_close(&f);
}

TEST_MAIN()
