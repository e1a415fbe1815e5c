/* test_columns.c - batches decoded into Arrow columns [DESIGN D7, D10; DUR-79; format.md 4.4, 4.5, 6, 18.2]. */
#include "record/columns.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "arrow_reader.h"
#include "base/bytes.h"
#include "memory_env.h"
#include "record_kit.h"
#include "test.h"

static sgs_error err;

typedef struct fixture {
    sgs_columns_options options;
    sgs_columns *columns;
    struct ArrowSchema schema;
    struct ArrowArray array;
} fixture;

static void open_columns(fixture *f)
{
    EXPECT_OK(sgs_columns_open(kit_memory(), &f->options, kit_codecs(), &f->columns, &err), &err);
    EXPECT_OK(sgs_columns_export_schema(kit_memory(), &f->options, &f->schema, &err), &err);
}

/* Decode one batch after the other and finish. */
static void decode(fixture *f, const char *const *batches, int count)
{
    open_columns(f);
    for (int i = 0; i < count; ++i) {
        const kit_bytes bytes = kit_hex(batches[i]);
        uint8_t *const exact = malloc(bytes.size); /* so that sanitizers see a read beyond it */
        memcpy(exact, bytes.data, bytes.size);
        EXPECT_OK(sgs_columns_append_batch(f->columns, exact, bytes.size, &err), &err);
        free(exact);
    }
    EXPECT_OK(sgs_columns_finish(f->columns, &f->array, &err), &err);
    EXPECT_TRUE(arrow_is_sound(&f->schema, &f->array));
}

static void close_columns(fixture *f)
{
    sgs_columns_close(f->columns);
    if (f->array.release != NULL)
        f->array.release(&f->array);
    if (f->schema.release != NULL)
        f->schema.release(&f->schema);
}

static fixture fixture_of(const uint8_t *columns, uint8_t count)
{
    fixture f = { .columns = NULL };
    sgs_columns_options_default(&f.options);
    if (columns != NULL) {
        memcpy(f.options.columns, columns, count);
        f.options.columns_count = count;
    }
    (void)strcpy(f.options.topic, "orders");
    f.options.partition = 3;
    return f;
}

static const struct ArrowArray *column(const fixture *f, const char *name)
{
    return arrow_child(&f->schema, &f->array, name);
}

static void expect_cell(const fixture *f, const char *name, int64_t row, const char *expected)
{
    const sgs_bytes found = arrow_bytes(column(f, name), row), wanted = kit_text(expected);
    if (EXPECT_EQ_I64(found.size, wanted.size) && wanted.size > 0)
        EXPECT_MEM(found.data, wanted.data, (size_t)wanted.size);
}

TEST(the_schema_is_that_of_sparks_kafka_source)
{
    fixture f = fixture_of(NULL, 0);
    f.options.timestamp_in_microseconds = true;
    decode(&f, NULL, 0);
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
    close_columns(&f);
}

TEST(the_worked_example_becomes_two_rows)
{
    fixture f = fixture_of(NULL, 0);
    const char *const batches[] = { EXAMPLE_TWO_RECORDS, EXAMPLE_COMMIT, EXAMPLE_EMPTY };
    decode(&f, batches, 3); /* control records have offsets but no rows; an empty batch has none */
    REQUIRE_EQ_I64(f.array.length, 2);
    expect_cell(&f, "key", 0, "k1");
    expect_cell(&f, "key", 1, NULL);
    expect_cell(&f, "value", 0, "v1");
    expect_cell(&f, "value", 1, "hello");
    expect_cell(&f, "topic", 0, "orders");
    expect_cell(&f, "topic", 1, "orders");
    for (int64_t row = 0; row < 2; ++row) {
        EXPECT_EQ_I64(arrow_int32(column(&f, "partition"), row), 3);
        EXPECT_EQ_I64(arrow_int64(column(&f, "offset"), row), 100 + row);
        EXPECT_EQ_I64(arrow_int64(column(&f, "timestamp"), row), EXAMPLE_T + 5 * row);
        EXPECT_EQ_I64(arrow_int32(column(&f, "timestampType"), row), 0);
        EXPECT_EQ_I64(arrow_int32(column(&f, "leaderEpoch"), row), 5);
    }
    const struct ArrowArray *const headers = column(&f, "headers");
    const struct ArrowArray *const keys = headers->children[0]->children[0];
    const struct ArrowArray *const values = headers->children[0]->children[1];
    int64_t start, end;
    arrow_list(headers, 1, &start, &end);
    REQUIRE_EQ_I64(start, 1);
    REQUIRE_EQ_I64(end, 3);
    EXPECT_MEM(arrow_bytes(keys, 0).data, "h1", 2);
    EXPECT_MEM(arrow_bytes(keys, 2).data, "ü", 2);
    EXPECT_EQ_I64(arrow_bytes(values, 0).size, 1);
    EXPECT_EQ_I64(arrow_bytes(values, 1).size, -1);
    EXPECT_EQ_I64(arrow_bytes(values, 2).size, 0);
    EXPECT_EQ_I64(column(&f, "key")->null_count, 1);
    EXPECT_TRUE(column(&f, "value")->buffers[0] == NULL); /* no null, no bitmap */
    close_columns(&f);
}

TEST(times_are_those_of_the_batchs_timestamp_type)
{
    fixture f = fixture_of(NULL, 0);
    f.options.timestamp_in_microseconds = true;
    const char *const batches[] = { EXAMPLE_LOG_APPEND_TIME, EXAMPLE_DELETE_HORIZON, EXAMPLE_SNAPPY };
    decode(&f, batches, 3);
    REQUIRE_EQ_I64(f.array.length, 5);
    const int64_t ms[] = { 15, 15, EXAMPLE_T, EXAMPLE_T + 9, EXAMPLE_T };
    const int32_t types[] = { 1, 1, 0, 0, 0 };
    const int64_t offsets[] = { 0, 1, 200, 202, 0 };
    for (int64_t row = 0; row < 5; ++row) {
        EXPECT_EQ_I64(arrow_int64(column(&f, "timestamp"), row), ms[row] * 1000);
        EXPECT_EQ_I64(arrow_int32(column(&f, "timestampType"), row), types[row]);
        EXPECT_EQ_I64(arrow_int64(column(&f, "offset"), row), offsets[row]);
    }
    expect_cell(&f, "value", 2, NULL);
    expect_cell(&f, "value", 4, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa");
    close_columns(&f);
}

/* Spark has null where a record has no headers, others an empty list. [DESIGN D10] */
TEST(missing_headers_are_null_or_an_empty_list)
{
    const uint8_t only[] = { SGS_COLUMN_HEADERS };
    const char *const batches[] = { EXAMPLE_LOG_APPEND_TIME, EXAMPLE_TWO_RECORDS };
    for (int as_null = 0; as_null <= 1; ++as_null) {
        fixture f = fixture_of(only, 1);
        f.options.null_headers_when_empty = as_null != 0;
        decode(&f, batches, 2);
        REQUIRE_EQ_I64(f.array.length, 4);
        EXPECT_EQ_I64(column(&f, "headers")->null_count, as_null != 0 ? 2 : 0);
        EXPECT_EQ_I64(arrow_is_null(column(&f, "headers"), 0), as_null);
        EXPECT_TRUE(!arrow_is_null(column(&f, "headers"), 2));
        close_columns(&f);
    }
}

TEST(a_projection_has_its_columns_in_its_order)
{
    const uint8_t some[] = { SGS_COLUMN_OFFSET, SGS_COLUMN_KEY };
    const char *const batches[] = { EXAMPLE_TWO_RECORDS };
    fixture f = fixture_of(some, 2);
    decode(&f, batches, 1);
    REQUIRE_EQ_I64(f.schema.n_children, 2);
    EXPECT_TEXT(f.schema.children[0]->name, "offset");
    EXPECT_TEXT(f.schema.children[1]->name, "key");
    EXPECT_EQ_I64(arrow_int64(f.array.children[0], 1), 101);
    close_columns(&f);

    fixture none = fixture_of(some, 0); /* no columns: the number of rows is all that is asked */
    decode(&none, batches, 1);
    EXPECT_EQ_I64(none.array.length, 2);
    EXPECT_EQ_I64(none.array.n_children, 0);
    close_columns(&none);

    const uint8_t twice[] = { SGS_COLUMN_KEY, SGS_COLUMN_KEY }, unknown[] = { SGS_COLUMN_COUNT };
    fixture bad = fixture_of(twice, 2);
    EXPECT_STATUS(sgs_columns_open(kit_memory(), &bad.options, NULL, &bad.columns, &err), SGS_ILLEGAL_ARGUMENT);
    bad = fixture_of(unknown, 1);
    EXPECT_STATUS(sgs_columns_open(kit_memory(), &bad.options, NULL, &bad.columns, &err), SGS_ILLEGAL_ARGUMENT);
    EXPECT_STATUS(sgs_columns_export_schema(kit_memory(), &bad.options, &bad.schema, &err), SGS_ILLEGAL_ARGUMENT);
    bad = fixture_of(NULL, 0);
    memset(bad.options.topic, 'x', sizeof bad.options.topic);
    EXPECT_STATUS(sgs_columns_open(kit_memory(), &bad.options, NULL, &bad.columns, &err), SGS_ILLEGAL_ARGUMENT);
}

/* A batch of `count` records: offset base + 2 i, timestamp 1000 + i, key "k<i>" or null, value of i bytes. */
static sgs_buffer build(int64_t base_offset, int count, int codec)
{
    static const char filler[400] = "";
    sgs_batch_builder builder;
    sgs_batch_options options;
    sgs_buffer out;
    sgs_batch_builder_init(&builder, kit_memory(), kit_codecs());
    sgs_batch_options_default(&options);
    sgs_buffer_init(&out, kit_memory());
    options.base_offset = base_offset;
    options.codec = codec;
    EXPECT_OK(sgs_batch_builder_start(&builder, &options, &err), &err);
    for (int i = 0; i < count; ++i) {
        char key[16];
        (void)snprintf(key, sizeof key, "k%d", i);
        const sgs_record_header header = { kit_text(key), kit_text(i % 2 == 0 ? NULL : key) };
        EXPECT_OK(sgs_batch_builder_append(&builder, base_offset + 2 * i, 1000 + i, kit_text(i % 7 == 3 ? NULL : key),
                                           (sgs_bytes){ (const uint8_t *)filler, i % 400 }, &header, i % 5 == 0, &err),
                  &err);
    }
    EXPECT_OK(sgs_batch_builder_finish(&builder, &out, NULL, &err), &err);
    sgs_batch_builder_deinit(&builder);
    return out;
}

/* Bounds on offset and time, against the same rows counted by hand; batches longer than a chunk. */
TEST(bounds_let_through_exactly_the_rows_between_them)
{
    enum { COUNT = 1000 };
    const int64_t lows[] = { 0, 1, 500, 501, 5000 }, highs[] = { INT64_MAX, 2, 777, 1500, 500 };
    for (int codec = 0; codec <= SGS_CODEC_SNAPPY; ++codec) {
        sgs_buffer batch = build(0, COUNT, codec);
        for (int o = 0; o < 5; ++o) {
            for (int t = 0; t < 5; ++t) {
                fixture f = fixture_of(NULL, 0);
                f.options.start_offset = lows[o];
                f.options.end_offset = highs[4 - o];
                f.options.start_timestamp = t == 0 ? INT64_MIN : 1000 + lows[t];
                f.options.end_timestamp = highs[t] == INT64_MAX ? INT64_MAX : 1000 + highs[t];
                open_columns(&f);
                REQUIRE_OK(sgs_columns_append_batch(f.columns, batch.data, batch.size, &err), &err);
                REQUIRE_OK(sgs_columns_finish(f.columns, &f.array, &err), &err);
                EXPECT_TRUE(arrow_is_sound(&f.schema, &f.array));
                int64_t row = 0;
                for (int i = 0; i < COUNT; ++i) {
                    if (2 * i < f.options.start_offset || 2 * i >= f.options.end_offset ||
                        1000 + i < f.options.start_timestamp || 1000 + i >= f.options.end_timestamp)
                        continue;
                    REQUIRE_TRUE(row < f.array.length);
                    EXPECT_EQ_I64(arrow_int64(column(&f, "offset"), row), 2 * i);
                    EXPECT_EQ_I64(arrow_int64(column(&f, "timestamp"), row), 1000 + i);
                    EXPECT_EQ_I64(arrow_is_null(column(&f, "key"), row), i % 7 == 3);
                    EXPECT_EQ_I64(arrow_bytes(column(&f, "value"), row).size, i % 400);
                    ++row;
                }
                EXPECT_EQ_I64(f.array.length, row);
                close_columns(&f);
            }
        }
        sgs_buffer_deinit(&batch);
    }
}

/* [DUR-79] a batch whose header alone excludes it is still checked, but not opened */
TEST(batches_outside_the_bounds_are_checked_but_not_opened)
{
    kit_bytes batch = kit_hex(EXAMPLE_TWO_RECORDS);
    batch.data[61] = 0xFF; /* no record */
    sgs_batch_seal(batch.data, batch.size);
    fixture f = fixture_of(NULL, 0);
    f.options.start_timestamp = EXAMPLE_T + 6;
    open_columns(&f);
    EXPECT_OK(sgs_columns_append_batch(f.columns, batch.data, batch.size, &err), &err);
    batch.data[61] = 0xFE;
    EXPECT_STATUS(sgs_columns_append_batch(f.columns, batch.data, batch.size, &err), SGS_CORRUPT_RECORD);
    EXPECT_EQ_I64(sgs_columns_rows_count(f.columns), 0);
    close_columns(&f);
}

/* Nothing of a bad batch is kept, whatever columns came before the bad place; what was there before stays. */
TEST(a_bad_batch_leaves_no_trace)
{
    sgs_buffer good = build(0, 300, SGS_CODEC_NONE);
    sgs_buffer bad = build(1000, 300, SGS_CODEC_NONE);
    bad.data[bad.size - 1] = 0x02; /* the last record counts a header that is not there */
    sgs_batch_seal(bad.data, bad.size);
    fixture f = fixture_of(NULL, 0);
    open_columns(&f);
    REQUIRE_OK(sgs_columns_append_batch(f.columns, good.data, good.size, &err), &err);
    const int64_t bytes_count = sgs_columns_bytes_count(f.columns);
    EXPECT_STATUS(sgs_columns_append_batch(f.columns, bad.data, bad.size, &err), SGS_INVALID_RECORD);
    EXPECT_TRUE(strstr(err.message, "offset 1000, record 299") != NULL);
    EXPECT_EQ_I64(sgs_columns_rows_count(f.columns), 300);
    EXPECT_EQ_I64(sgs_columns_bytes_count(f.columns), bytes_count);
    const kit_bytes legacy = kit_hex(EXAMPLE_V1);
    EXPECT_STATUS(sgs_columns_append_batch(f.columns, legacy.data, legacy.size, &err), SGS_UNSUPPORTED_FORMAT);
    REQUIRE_OK(sgs_columns_append_batch(f.columns, good.data, good.size, &err), &err);
    REQUIRE_OK(sgs_columns_finish(f.columns, &f.array, &err), &err);
    EXPECT_TRUE(arrow_is_sound(&f.schema, &f.array));
    REQUIRE_EQ_I64(f.array.length, 600);
    for (int64_t row = 0; row < 600; ++row) {
        EXPECT_EQ_I64(arrow_int64(column(&f, "offset"), row), 2 * (row % 300));
        EXPECT_EQ_I64(arrow_is_null(column(&f, "key"), row), row % 300 % 7 == 3);
    }
    close_columns(&f);
    sgs_buffer_deinit(&good);
    sgs_buffer_deinit(&bad);
}

TEST(a_timestamp_beyond_microseconds_is_an_error)
{
    sgs_batch_builder builder;
    sgs_batch_options options;
    sgs_buffer out;
    sgs_batch_builder_init(&builder, kit_memory(), NULL);
    sgs_batch_options_default(&options);
    sgs_buffer_init(&out, kit_memory());
    REQUIRE_OK(sgs_batch_builder_start(&builder, &options, &err), &err);
    REQUIRE_OK(
        sgs_batch_builder_append(&builder, 0, INT64_MAX / 1000 + 1, kit_text(NULL), kit_text(NULL), NULL, 0, &err),
        &err);
    REQUIRE_OK(sgs_batch_builder_finish(&builder, &out, NULL, &err), &err);
    for (int in_us = 0; in_us <= 1; ++in_us) {
        fixture f = fixture_of(NULL, 0);
        f.options.timestamp_in_microseconds = in_us != 0;
        open_columns(&f);
        EXPECT_STATUS(sgs_columns_append_batch(f.columns, out.data, out.size, &err),
                      in_us ? SGS_INVALID_RECORD : SGS_OK);
        EXPECT_EQ_I64(sgs_columns_rows_count(f.columns), !in_us);
        close_columns(&f);
    }
    sgs_batch_builder_deinit(&builder);
    sgs_buffer_deinit(&out);
}

/* [format.md 18.2] Arrow strings are valid UTF-8, whatever the producer wrote */
TEST(malformed_header_keys_are_repaired_as_java_reads_them)
{
    kit_bytes batch = kit_hex(EXAMPLE_TWO_RECORDS);
    batch.data[batch.size - 3] = 0xC0; /* "ü" becomes C0 BC: two malformed bytes */
    sgs_batch_seal(batch.data, batch.size);
    fixture f = fixture_of(NULL, 0);
    open_columns(&f);
    REQUIRE_OK(sgs_columns_append_batch(f.columns, batch.data, batch.size, &err), &err);
    REQUIRE_OK(sgs_columns_finish(f.columns, &f.array, &err), &err);
    const sgs_bytes key = arrow_bytes(column(&f, "headers")->children[0]->children[0], 2);
    REQUIRE_EQ_I64(key.size, 6);
    EXPECT_MEM(key.data, "\xef\xbf\xbd\xef\xbf\xbd", 6);
    close_columns(&f);
}

/* Arrow C data interface: a child may be moved out of its parent and outlives it; a builder begins anew. */
TEST(children_can_be_moved_and_the_builder_goes_on)
{
    memory_env memory;
    memory_env_init(&memory, sgs_env_posix());
    fixture f = fixture_of(NULL, 0);
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

/* Each allocation fails in turn: a status, everything given back, and rows stay where appending fails. */
TEST(a_lack_of_memory_is_a_status)
{
    sgs_buffer batch = build(0, 300, SGS_CODEC_SNAPPY);
    int failures = 0;
    for (int nth = 1; nth < 120; ++nth) {
        memory_env memory;
        memory_env_init(&memory, sgs_env_posix());
        memory_env_fail(&memory, "allocate", nth, ENOMEM);
        fixture f = fixture_of(NULL, 0);
        f.options.null_headers_when_empty = true;
        sgs_status status = sgs_columns_open(sgs_env_memory(&memory.env), &f.options, kit_codecs(), &f.columns, &err);
        if (status == SGS_OK) {
            status = sgs_columns_append_batch(f.columns, batch.data, batch.size, &err);
            if (status != SGS_OK) {
                EXPECT_EQ_I64(sgs_columns_rows_count(f.columns), 0);
                EXPECT_OK(sgs_columns_append_batch(f.columns, batch.data, batch.size, &err), &err);
                err.status = SGS_RESOURCE;
            }
            EXPECT_EQ_I64(sgs_columns_rows_count(f.columns), 300);
            if (sgs_columns_finish(f.columns, &f.array, &err) != SGS_OK)
                status = err.status;
            EXPECT_EQ_I64(sgs_columns_rows_count(f.columns), 0);
        }
        if (sgs_columns_export_schema(sgs_env_memory(&memory.env), &f.options, &f.schema, &err) != SGS_OK)
            status = err.status;
        EXPECT_TRUE(status == SGS_OK || status == SGS_RESOURCE);
        failures += status != SGS_OK;
        close_columns(&f);
        EXPECT_TRUE(memory_env_is_balanced(&memory));
    }
    EXPECT_TRUE(failures > 40 && failures < 119); /* every allocation was reached */
    sgs_buffer_deinit(&batch);
}

/* The topic's column is the only one that a test can carry past 2 GiB by rows alone: 8,624,026 rows of 249 bytes. */
TEST(a_column_stops_before_its_offsets_overflow)
{
    enum { COUNT = 100000 };
    const uint8_t only[] = { SGS_COLUMN_TOPIC };
    fixture f = fixture_of(only, 1);
    memset(f.options.topic, 't', SGS_TOPIC_MAX_BYTES);
    sgs_buffer batch = { .data = NULL };
    sgs_buffer_init(&batch, kit_memory());
    REQUIRE_OK(sgs_buffer_reserve(&batch, SGS_BATCH_HEADER_BYTES + 10 * COUNT, &err), &err);
    uint8_t *end = batch.data + SGS_BATCH_HEADER_BYTES;
    for (int32_t i = 0; i < COUNT; ++i)
        end = sgs_record_write(end, 0, i, kit_text(NULL), kit_text(NULL), NULL, 0);
    const sgs_batch_header header = { .base_offset = 0,
                                      .last_offset = COUNT - 1,
                                      .records_count = COUNT,
                                      .magic = 2,
                                      .size_bytes = (int32_t)(end - batch.data) };
    sgs_batch_header_store(&header, batch.data);
    sgs_batch_seal(batch.data, (size_t)header.size_bytes);
    open_columns(&f);
    sgs_status status = SGS_OK;
    while (status == SGS_OK)
        status = sgs_columns_append_batch(f.columns, batch.data, (size_t)header.size_bytes, &err);
    EXPECT_STATUS(status, SGS_LIMIT_EXCEEDED);
    EXPECT_EQ_I64(sgs_columns_rows_count(f.columns), 8600000);
    close_columns(&f);
    sgs_buffer_deinit(&batch);
}

TEST_MAIN()
