/* test_columns.c - batches decoded into Arrow columns: which rows, with what in them [DESIGN D7; DUR-79; format.md 4.4,
 * 4.5, 6]. */
#include "record/columns.h"

#include <errno.h>
#include <string.h>

#include "arrow_reader.h"
#include "columns_kit.h"
#include "memory_env.h"
#include "record_kit.h"
#include "test.h"

static sgs_error err;

TEST(the_worked_example_becomes_two_rows)
{
    columns_kit f = columns_kit_of(NULL, 0);
    const char *const batches[] = { EXAMPLE_TWO_RECORDS, EXAMPLE_COMMIT, EXAMPLE_EMPTY };
    columns_kit_decode(&f, batches, 3); /* control records have offsets but no rows; an empty batch has none */
    REQUIRE_EQ_I64(f.array.length, 2);
    EXPECT_TRUE(columns_kit_cell_is(&f, "key", 0, "k1"));
    EXPECT_TRUE(columns_kit_cell_is(&f, "key", 1, NULL));
    EXPECT_TRUE(columns_kit_cell_is(&f, "value", 0, "v1"));
    EXPECT_TRUE(columns_kit_cell_is(&f, "value", 1, "hello"));
    EXPECT_TRUE(columns_kit_cell_is(&f, "topic", 0, "orders"));
    EXPECT_TRUE(columns_kit_cell_is(&f, "topic", 1, "orders"));
    for (int64_t row = 0; row < 2; ++row) {
        EXPECT_EQ_I64(arrow_int32(columns_kit_column(&f, "partition"), row), 3);
        EXPECT_EQ_I64(arrow_int64(columns_kit_column(&f, "offset"), row), 100 + row);
        EXPECT_EQ_I64(arrow_int64(columns_kit_column(&f, "timestamp"), row), EXAMPLE_T + 5 * row);
        EXPECT_EQ_I64(arrow_int32(columns_kit_column(&f, "timestampType"), row), 0);
        EXPECT_EQ_I64(arrow_int32(columns_kit_column(&f, "leaderEpoch"), row), 5);
    }
    const struct ArrowArray *const headers = columns_kit_column(&f, "headers");
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
    EXPECT_EQ_I64(columns_kit_column(&f, "key")->null_count, 1);
    EXPECT_TRUE(columns_kit_column(&f, "value")->buffers[0] == NULL); /* no null, no bitmap */
    columns_kit_close(&f);
}

TEST(times_are_those_of_the_batchs_timestamp_type)
{
    columns_kit f = columns_kit_of(NULL, 0);
    f.options.timestamp_in_microseconds = true;
    const char *const batches[] = { EXAMPLE_LOG_APPEND_TIME, EXAMPLE_DELETE_HORIZON, EXAMPLE_SNAPPY };
    columns_kit_decode(&f, batches, 3);
    REQUIRE_EQ_I64(f.array.length, 5);
    const int64_t ms[] = { 15, 15, EXAMPLE_T, EXAMPLE_T + 9, EXAMPLE_T };
    const int32_t types[] = { 1, 1, 0, 0, 0 };
    const int64_t offsets[] = { 0, 1, 200, 202, 0 };
    for (int64_t row = 0; row < 5; ++row) {
        EXPECT_EQ_I64(arrow_int64(columns_kit_column(&f, "timestamp"), row), ms[row] * 1000);
        EXPECT_EQ_I64(arrow_int32(columns_kit_column(&f, "timestampType"), row), types[row]);
        EXPECT_EQ_I64(arrow_int64(columns_kit_column(&f, "offset"), row), offsets[row]);
    }
    EXPECT_TRUE(columns_kit_cell_is(&f, "value", 2, NULL));
    EXPECT_TRUE(columns_kit_cell_is(&f, "value", 4, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"));
    columns_kit_close(&f);
}

/* Bounds on offset and time, against the same rows counted by hand; batches longer than a chunk. */
TEST(bounds_let_through_exactly_the_rows_between_them)
{
    enum { COUNT = 1000 };
    const int64_t lows[] = { 0, 1, 500, 501, 5000 }, highs[] = { INT64_MAX, 2, 777, 1500, 500 };
    for (int codec = 0; codec <= SGS_CODEC_SNAPPY; ++codec) {
        sgs_buffer batch = columns_kit_batch(0, COUNT, codec);
        for (int o = 0; o < 5; ++o) {
            for (int t = 0; t < 5; ++t) {
                columns_kit f = columns_kit_of(NULL, 0);
                f.options.start_offset = lows[o];
                f.options.end_offset = highs[4 - o];
                f.options.start_timestamp = t == 0 ? INT64_MIN : 1000 + lows[t];
                f.options.end_timestamp = highs[t] == INT64_MAX ? INT64_MAX : 1000 + highs[t];
                columns_kit_open(&f);
                REQUIRE_OK(sgs_columns_append_batch(f.columns, batch.data, batch.size, &err), &err);
                REQUIRE_OK(sgs_columns_finish(f.columns, &f.array, &err), &err);
                EXPECT_TRUE(arrow_is_sound(&f.schema, &f.array));
                int64_t row = 0;
                for (int i = 0; i < COUNT; ++i) {
                    if (2 * i < f.options.start_offset || 2 * i >= f.options.end_offset ||
                        1000 + i < f.options.start_timestamp || 1000 + i >= f.options.end_timestamp)
                        continue;
                    REQUIRE_TRUE(row < f.array.length);
                    EXPECT_EQ_I64(arrow_int64(columns_kit_column(&f, "offset"), row), 2 * i);
                    EXPECT_EQ_I64(arrow_int64(columns_kit_column(&f, "timestamp"), row), 1000 + i);
                    EXPECT_EQ_I64(arrow_is_null(columns_kit_column(&f, "key"), row), i % 7 == 3);
                    EXPECT_EQ_I64(arrow_bytes(columns_kit_column(&f, "value"), row).size, i % 400);
                    ++row;
                }
                EXPECT_EQ_I64(f.array.length, row);
                columns_kit_close(&f);
            }
        }
        sgs_buffer_deinit(&batch);
    }
}

/* Brokers accept such a batch [format.md 12.5]; a consumer shows each offset once, in order, and so do columns. */
TEST(a_record_that_does_not_follow_the_one_before_is_left_out)
{
    enum { DELTAS_COUNT = 3 };
    const struct {
        uint8_t zigzag[DELTAS_COUNT];
        int64_t start_offset, rows_count, offsets[DELTAS_COUNT];
    } cases[] = { { { 0, 4, 4 }, 0, 2, { 0, 2 } },
                  { { 4, 0, 2 }, 0, 1, { 2 } },
                  { { 4, 0, 2 }, 1, 1, { 2 } },
                  { { 0, 8, 10 }, 1, 2, { 4, 5 } } };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        sgs_buffer batch = columns_kit_batch(0, DELTAS_COUNT, SGS_CODEC_NONE);
        uint8_t *record = batch.data + 61;
        for (int k = 0; k < DELTAS_COUNT; record += 1 + record[0] / 2, ++k)
            record[3] = cases[i].zigzag[k];
        sgs_batch_seal(batch.data, batch.size);
        columns_kit f = columns_kit_of(NULL, 0);
        f.options.start_offset = cases[i].start_offset;
        columns_kit_open(&f);
        REQUIRE_OK(sgs_columns_append_batch(f.columns, batch.data, batch.size, &err), &err);
        REQUIRE_OK(sgs_columns_finish(f.columns, &f.array, &err), &err);
        REQUIRE_EQ_I64(f.array.length, cases[i].rows_count);
        for (int64_t row = 0; row < f.array.length; ++row)
            EXPECT_EQ_I64(arrow_int64(columns_kit_column(&f, "offset"), row), cases[i].offsets[row]);
        columns_kit_close(&f);
        sgs_buffer_deinit(&batch);
    }
}

/* [DUR-79] a batch whose header alone excludes it is still checked, but not opened */
TEST(batches_outside_the_bounds_are_checked_but_not_opened)
{
    kit_bytes batch = kit_hex(EXAMPLE_TWO_RECORDS);
    batch.data[61] = 0xFF; /* no record */
    sgs_batch_seal(batch.data, batch.size);
    columns_kit f = columns_kit_of(NULL, 0);
    f.options.start_timestamp = EXAMPLE_T + 6;
    columns_kit_open(&f);
    EXPECT_OK(sgs_columns_append_batch(f.columns, batch.data, batch.size, &err), &err);
    batch.data[61] = 0xFE;
    EXPECT_STATUS(sgs_columns_append_batch(f.columns, batch.data, batch.size, &err), SGS_CORRUPT_RECORD);
    EXPECT_EQ_I64(sgs_columns_rows_count(f.columns), 0);
    columns_kit_close(&f);
}

/* Nothing of a bad batch is kept, whatever columns came before the bad place; what was there before stays. */
TEST(a_bad_batch_leaves_no_trace)
{
    sgs_buffer good = columns_kit_batch(0, 300, SGS_CODEC_NONE);
    sgs_buffer bad = columns_kit_batch(1000, 300, SGS_CODEC_NONE);
    bad.data[bad.size - 1] = 0x02; /* the last record counts a header that is not there */
    sgs_batch_seal(bad.data, bad.size);
    columns_kit f = columns_kit_of(NULL, 0);
    columns_kit_open(&f);
    REQUIRE_OK(sgs_columns_append_batch(f.columns, good.data, good.size, &err), &err);
    const int64_t bytes_count = sgs_columns_bytes_count(f.columns);
    EXPECT_STATUS(sgs_columns_append_batch(f.columns, bad.data, bad.size, &err), SGS_INVALID_RECORD);
    EXPECT_TRUE(strstr(err.message, "offset 1000, record 299") != NULL);
    EXPECT_EQ_I64(sgs_columns_rows_count(f.columns), 300);
    EXPECT_EQ_I64(sgs_columns_bytes_count(f.columns), bytes_count);
    REQUIRE_OK(sgs_columns_append_batch(f.columns, good.data, good.size, &err), &err);
    REQUIRE_OK(sgs_columns_finish(f.columns, &f.array, &err), &err);
    EXPECT_TRUE(arrow_is_sound(&f.schema, &f.array));
    REQUIRE_EQ_I64(f.array.length, 600);
    for (int64_t row = 0; row < 600; ++row) {
        EXPECT_EQ_I64(arrow_int64(columns_kit_column(&f, "offset"), row), 2 * (row % 300));
        EXPECT_EQ_I64(arrow_is_null(columns_kit_column(&f, "key"), row), row % 300 % 7 == 3);
    }
    columns_kit_close(&f);
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
        columns_kit f = columns_kit_of(NULL, 0);
        f.options.timestamp_in_microseconds = in_us != 0;
        columns_kit_open(&f);
        EXPECT_STATUS(sgs_columns_append_batch(f.columns, out.data, out.size, &err),
                      in_us ? SGS_INVALID_RECORD : SGS_OK);
        EXPECT_EQ_I64(sgs_columns_rows_count(f.columns), !in_us);
        columns_kit_close(&f);
    }
    sgs_batch_builder_deinit(&builder);
    sgs_buffer_deinit(&out);
}

/* Each allocation fails in turn: a status, everything given back, and rows stay where appending fails. */
TEST(a_lack_of_memory_is_a_status)
{
    sgs_buffer batch = columns_kit_batch(0, 300, SGS_CODEC_SNAPPY);
    int failures = 0;
    for (int nth = 1; nth < 120; ++nth) {
        memory_env memory;
        memory_env_init(&memory, sgs_env_posix());
        memory_env_fail(&memory, "allocate", nth, ENOMEM);
        columns_kit f = columns_kit_of(NULL, 0);
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
        columns_kit_close(&f);
        EXPECT_TRUE(memory_env_is_balanced(&memory));
    }
    EXPECT_TRUE(failures > 25 && failures < 119); /* every allocation was reached; hints may fail */
    sgs_buffer_deinit(&batch);
}

/* The topic's column is the only one that a test can carry past 2 GiB by rows alone: 8,624,026 rows of 249 bytes. */
TEST(a_column_stops_before_its_offsets_overflow)
{
    enum { COUNT = 100000 };
    const uint8_t only[] = { SGS_COLUMN_TOPIC };
    columns_kit f = columns_kit_of(only, 1);
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
    columns_kit_open(&f);
    sgs_status status = SGS_OK;
    while (status == SGS_OK)
        status = sgs_columns_append_batch(f.columns, batch.data, (size_t)header.size_bytes, &err);
    EXPECT_STATUS(status, SGS_LIMIT_EXCEEDED);
    EXPECT_EQ_I64(sgs_columns_rows_count(f.columns), 8600000);
    columns_kit_close(&f);
    sgs_buffer_deinit(&batch);
}

/* [format.md 7.1] Magic 0 has no timestamps, and its records say so. */
TEST(messages_of_magic_0_and_1_become_rows)
{
    columns_kit f = columns_kit_of(NULL, 0);
    const char *const messages[] = { EXAMPLE_V0, EXAMPLE_V1, EXAMPLE_V1_LOG_APPEND_TIME };
    columns_kit_decode(&f, messages, 3);
    REQUIRE_EQ_I64(f.array.length, 3);
    static const int64_t offsets[] = { 42, 42, 43 }, timestamps[] = { -1, EXAMPLE_T, EXAMPLE_T };
    for (int64_t row = 0; row < 3; ++row) {
        EXPECT_EQ_I64(arrow_int64(columns_kit_column(&f, "offset"), row), offsets[row]);
        EXPECT_EQ_I64(arrow_int64(columns_kit_column(&f, "timestamp"), row), timestamps[row]);
        EXPECT_EQ_I64(arrow_int32(columns_kit_column(&f, "timestampType"), row), row - 1);
        EXPECT_EQ_I64(arrow_int32(columns_kit_column(&f, "leaderEpoch"), row), -1);
        EXPECT_TRUE(columns_kit_cell_is(&f, "key", row, row < 2 ? "k" : NULL));
        EXPECT_TRUE(columns_kit_cell_is(&f, "value", row, row < 2 ? "v" : NULL));
    }
    columns_kit_close(&f);
}

/* A table that cannot be is refused; one whose rows nobody wants is empty. */
TEST(options_that_cannot_be_are_refused)
{
    sgs_columns_options options;
    sgs_columns *columns = NULL;
    struct ArrowSchema schema;
    sgs_columns_options_default(&options);
    options.columns_count = SGS_COLUMN_COUNT + 1;
    EXPECT_STATUS(sgs_columns_open(kit_memory(), &options, kit_codecs(), &columns, &err), SGS_ILLEGAL_ARGUMENT);
    EXPECT_STATUS(sgs_columns_export_schema(kit_memory(), &options, &schema, &err), SGS_ILLEGAL_ARGUMENT);
}

TEST(a_bound_of_time_on_either_side_leaves_rows_out)
{
    for (int i = 0; i < 6; ++i) {
        columns_kit f = columns_kit_of(NULL, 0);
        sgs_buffer batch = columns_kit_batch(0, 10, SGS_CODEC_NONE); /* timestamps 1000 to 1009 */
        f.options.start_timestamp = i == 0 ? 1005 : i == 1 ? 2000 : INT64_MIN;
        f.options.end_timestamp = i == 2 ? 1005 : i == 3 ? 500 : INT64_MAX;
        f.options.end_offset = i == 4 ? 0 : INT64_MAX;
        f.options.check_crc = i % 2 == 0;
        columns_kit_open(&f);
        EXPECT_OK(sgs_columns_append_batch(f.columns, batch.data, batch.size, &err), &err);
        EXPECT_EQ_I64(sgs_columns_rows_count(f.columns), i == 0 || i == 2 ? 5 : i == 5 ? 10 : 0);
        EXPECT_OK(sgs_columns_finish(f.columns, &f.array, &err), &err);
        columns_kit_close(&f);
        sgs_buffer_deinit(&batch);
    }
}

TEST(bytes_without_a_topic_are_those_of_the_cells)
{
    columns_kit f = columns_kit_of((const uint8_t[]){ SGS_COLUMN_KEY }, 1);
    sgs_buffer batch = columns_kit_batch(0, 3, SGS_CODEC_NONE);
    columns_kit_open(&f);
    EXPECT_OK(sgs_columns_append_batch(f.columns, batch.data, batch.size, &err), &err);
    EXPECT_EQ_I64(sgs_columns_bytes_count(f.columns), 6); /* k0 k1 k2 */
    EXPECT_OK(sgs_columns_finish(f.columns, &f.array, &err), &err);
    columns_kit_close(&f);
    sgs_buffer_deinit(&batch);
}

TEST_MAIN()
