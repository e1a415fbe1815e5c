/* test_columns_latest.c - the last value of each key in two passes, against a table of all keys filled by hand [CLN-52, CLN-84]. */
#include <string.h>

#include "arrow_reader.h"
#include "columns_kit.h"
#include "record/columns.h"
#include "record_kit.h"
#include "test.h"

enum { BATCHES = 12, RECORDS = 300, KEYS = 97, ALL = BATCHES * RECORDS };

static const uint8_t secret[SGS_SIPHASH_SECRET_BYTES] = { 3, 1, 4 };

/* What record `offset` has: every 11th no key, every 5th no value, every 3rd a header. */
static int key_of(int offset) { return offset % 11 == 0 ? -1 : offset * 31 % KEYS; }
static bool has_value(int offset) { return offset % 5 != 0; }

static sgs_buffer batch_of(int base_offset, int codec)
{
    sgs_batch_builder builder;
    sgs_batch_options options;
    sgs_buffer out;
    sgs_error err;
    sgs_batch_builder_init(&builder, kit_memory(), kit_codecs());
    sgs_batch_options_default(&options);
    sgs_buffer_init(&out, kit_memory());
    options.base_offset = base_offset;
    options.codec = codec;
    EXPECT_OK(sgs_batch_builder_start(&builder, &options, &err), &err);
    for (int offset = base_offset; offset < base_offset + RECORDS; ++offset) {
        char key[32], value[32];
        (void)snprintf(key, sizeof key, "key %d", key_of(offset));
        (void)snprintf(value, sizeof value, "value %d", offset);
        const sgs_record_header header = { kit_text("h"), kit_text(value) };
        EXPECT_OK(sgs_batch_builder_append(&builder, offset, 1000 + offset, kit_text(key_of(offset) < 0 ? NULL : key),
                                           kit_text(has_value(offset) ? value : NULL), &header, offset % 3 == 0, &err),
                  &err);
    }
    EXPECT_OK(sgs_batch_builder_finish(&builder, &out, NULL, &err), &err);
    sgs_batch_builder_deinit(&builder);
    return out;
}

/* Offsets [start, end) of the batches through one builder. */
static void pass(columns_kit *f, sgs_offset_map *map, bool notes, const sgs_buffer *batches, int start, int end)
{
    f->options.last_offsets = map;
    f->options.notes_last_offsets = notes;
    f->options.null_headers_when_empty = true;
    f->options.start_offset = start;
    f->options.end_offset = end;
    columns_kit_open(f);
    for (int i = 0; i < BATCHES; ++i)
        EXPECT_OK(sgs_columns_append_batch(f->columns, batches[i].data, batches[i].size, &f->err), &f->err);
}

static void check_row(const columns_kit *f, int64_t row, int offset)
{
    char text[32];
    (void)snprintf(text, sizeof text, "key %d", key_of(offset));
    EXPECT_TRUE(columns_kit_cell_is(f, "key", row, text));
    (void)snprintf(text, sizeof text, "value %d", offset);
    EXPECT_TRUE(columns_kit_cell_is(f, "value", row, text));
    EXPECT_EQ_I64(arrow_int64(columns_kit_column(f, "timestamp"), row), 1000 + offset);
    const struct ArrowArray *const headers = columns_kit_column(f, "headers");
    EXPECT_TRUE(arrow_is_null(headers, row) == (offset % 3 != 0));
    if (offset % 3 != 0)
        return;
    int64_t start, end;
    arrow_list(headers, row, &start, &end);
    REQUIRE_EQ_I64(end - start, 1);
    EXPECT_MEM(arrow_bytes(headers->children[0]->children[1], start).data, text, strlen(text));
}

TEST(each_key_has_its_last_value_unless_that_is_none)
{
    const int starts[] = { 0, 0, 700, 5 }, ends[] = { ALL, 1234, ALL, 6 };
    for (int codec = SGS_CODEC_NONE; codec <= SGS_CODEC_SNAPPY; codec += SGS_CODEC_SNAPPY) {
        sgs_buffer batches[BATCHES];
        for (int i = 0; i < BATCHES; ++i)
            batches[i] = batch_of(i * RECORDS, codec);
        for (int range = 0; range < 4; ++range) {
            int last[KEYS];
            int64_t keys_count = 0;
            memset(last, -1, sizeof last);
            for (int offset = starts[range]; offset < ends[range]; ++offset)
                if (key_of(offset) >= 0)
                    last[key_of(offset)] = offset;
            for (int key = 0; key < KEYS; ++key)
                keys_count += last[key] >= 0;

            columns_kit first = columns_kit_of(NULL, 0), second = columns_kit_of(NULL, 0);
            sgs_offset_map map;
            REQUIRE_OK(sgs_offset_map_init_keyed(&map, kit_memory(), 24, secret, &first.err), &first.err);
            pass(&first, &map, true, batches, starts[range], ends[range]);
            EXPECT_EQ_I64(sgs_columns_rows_count(first.columns), 0);
            EXPECT_EQ_I64(map.size, keys_count);
            pass(&second, &map, false, batches, starts[range], ends[range]);
            EXPECT_OK(sgs_columns_finish(second.columns, &second.array, &second.err), &second.err);
            EXPECT_TRUE(arrow_is_sound(&second.schema, &second.array));
            int64_t row = 0;
            for (int offset = starts[range]; offset < ends[range]; ++offset) {
                if (key_of(offset) < 0 || last[key_of(offset)] != offset || !has_value(offset))
                    continue;
                REQUIRE_TRUE(row < second.array.length);
                EXPECT_EQ_I64(arrow_int64(columns_kit_column(&second, "offset"), row), offset);
                check_row(&second, row++, offset);
            }
            EXPECT_EQ_I64(second.array.length, row);
            sgs_offset_map_deinit(&map);
            columns_kit_close(&second);
            columns_kit_close(&first);
        }
        for (int i = 0; i < BATCHES; ++i)
            sgs_buffer_deinit(&batches[i]);
    }
}

TEST(a_damaged_batch_has_no_rows_and_those_before_it_stay)
{
    columns_kit f = columns_kit_of(NULL, 0);
    sgs_offset_map map;
    sgs_buffer good = batch_of(0, SGS_CODEC_NONE), bad = batch_of(RECORDS, SGS_CODEC_NONE);
    REQUIRE_OK(sgs_offset_map_init_keyed(&map, kit_memory(), 24, secret, &f.err), &f.err);
    f.options.last_offsets = &map;
    f.options.notes_last_offsets = true;
    f.options.check_crc = false;
    columns_kit_open(&f);
    EXPECT_OK(sgs_columns_append_batch(f.columns, good.data, good.size, &f.err), &f.err);
    bad.data[bad.size - 1] = 0x7F; /* the last record seems to have more headers */
    EXPECT_STATUS(sgs_columns_append_batch(f.columns, bad.data, bad.size, &f.err), SGS_INVALID_RECORD);
    EXPECT_EQ_I64(sgs_columns_rows_count(f.columns), 0);
    sgs_columns_close(f.columns);
    f.schema.release(&f.schema);

    f.options.notes_last_offsets = false;
    sgs_offset_map_clear(&map);
    EXPECT_OK(sgs_offset_map_put(&map, (const uint8_t *)"key 31", 6, 1, &f.err), &f.err);
    columns_kit_open(&f);
    EXPECT_OK(sgs_columns_append_batch(f.columns, good.data, good.size, &f.err), &f.err);
    EXPECT_EQ_I64(sgs_columns_rows_count(f.columns), 1);
    EXPECT_STATUS(sgs_columns_append_batch(f.columns, bad.data, bad.size, &f.err), SGS_INVALID_RECORD);
    EXPECT_EQ_I64(sgs_columns_rows_count(f.columns), 1);
    sgs_offset_map_deinit(&map);
    sgs_buffer_deinit(&bad);
    sgs_buffer_deinit(&good);
    columns_kit_close(&f);
}

TEST_MAIN()
