/* test_codec.c - the table of codecs: ids and levels, limits, and providers that break their word [format.md 8; DUR-92, DUR-95]. */
#include "record/codec.h"

#include <limits.h>
#include <string.h>

#include "record/batch_builder.h"
#include "record/legacy_builder.h"
#include "record_kit.h"
#include "test.h"

static sgs_error err;
static const uint8_t text[] = "some text";

static sgs_status fail_to_compress(void *context, int level, const uint8_t *data, size_t size, sgs_buffer *out,
                                   sgs_error *error)
{
    (void)level;
    (void)data;
    (void)size;
    static const uint8_t filler[100000];
    const int *const bytes = context; /* below 0: an error; else so many bytes, whatever was given */
    return *bytes < 0 ? sgs_fail(error, SGS_CODEC, "no") : sgs_buffer_append(out, filler, (size_t)*bytes, error);
}

static sgs_status decompress_too_much(void *context, const uint8_t *data, size_t size, size_t limit, sgs_buffer *out,
                                      sgs_error *error)
{
    (void)limit;
    return fail_to_compress(context, 0, data, size, out, error);
}

static sgs_codec_table table_of(int *bytes)
{
    sgs_codec_table table = *kit_codecs();
    for (int codec = SGS_CODEC_GZIP; codec < SGS_CODEC_COUNT; ++codec)
        table.providers[codec] = (sgs_codec_provider){ "a broken one", bytes, fail_to_compress, decompress_too_much };
    return table;
}

static sgs_status compress(const sgs_codec_table *table, int codec, int level)
{
    sgs_buffer out;
    sgs_buffer_init(&out, kit_memory());
    const sgs_status status = sgs_codec_compress(table, codec, level, text, sizeof text, &out, &err);
    sgs_buffer_deinit(&out);
    return status;
}

static sgs_status decompress(const sgs_codec_table *table, int codec)
{
    sgs_buffer out;
    sgs_buffer_init(&out, kit_memory());
    const sgs_status status = sgs_codec_decompress(table, codec, text, sizeof text, &out, &err);
    sgs_buffer_deinit(&out);
    return status;
}

TEST(ids_and_levels_that_are_none_are_refused)
{
    for (int codec = -1; codec <= SGS_CODEC_COUNT; codec += SGS_CODEC_COUNT + 1) {
        EXPECT_STATUS(compress(kit_codecs(), codec, INT_MIN), SGS_ILLEGAL_ARGUMENT);
        EXPECT_STATUS(decompress(kit_codecs(), codec), SGS_UNSUPPORTED_FORMAT);
    }
    EXPECT_OK(compress(kit_codecs(), SGS_CODEC_NONE, INT_MIN), &err);
    EXPECT_OK(decompress(kit_codecs(), SGS_CODEC_NONE), &err);
    EXPECT_OK(compress(kit_codecs(), SGS_CODEC_SNAPPY, 7), &err); /* which has no levels */
    EXPECT_STATUS(compress(kit_codecs(), SGS_CODEC_GZIP, 10), SGS_ILLEGAL_ARGUMENT);
    EXPECT_STATUS(compress(kit_codecs(), SGS_CODEC_GZIP, -2), SGS_ILLEGAL_ARGUMENT);
    EXPECT_STATUS(compress(NULL, SGS_CODEC_GZIP, INT_MIN), SGS_CODEC_MISSING);
    EXPECT_STATUS(decompress(NULL, SGS_CODEC_GZIP), SGS_CODEC_MISSING);
}

TEST(what_could_not_be_read_again_is_not_compressed)
{
    sgs_codec_table table = *kit_codecs();
    table.max_decompressed_batch_bytes = sizeof text - 1;
    EXPECT_STATUS(compress(&table, SGS_CODEC_LZ4, INT_MIN), SGS_LIMIT_EXCEEDED);
    table.max_decompressed_batch_bytes = sizeof text;
    EXPECT_OK(compress(&table, SGS_CODEC_LZ4, INT_MIN), &err);
}

TEST(a_provider_that_breaks_its_word_is_caught)
{
    int bytes = -1;
    sgs_codec_table table = table_of(&bytes);
    table.max_decompressed_batch_bytes = 1000;
    EXPECT_STATUS(compress(&table, SGS_CODEC_SNAPPY, INT_MIN), SGS_CODEC);
    EXPECT_STATUS(compress(&table, SGS_CODEC_ZSTD, INT_MIN), SGS_CODEC);
    EXPECT_STATUS(decompress(&table, SGS_CODEC_SNAPPY), SGS_CODEC);
    EXPECT_STATUS(decompress(&table, SGS_CODEC_ZSTD), SGS_CODEC);
    bytes = 0; /* nothing for something */
    EXPECT_STATUS(compress(&table, SGS_CODEC_SNAPPY, INT_MIN), SGS_CODEC);
    bytes = 100000; /* more than the limit */
    EXPECT_STATUS(decompress(&table, SGS_CODEC_SNAPPY), SGS_LIMIT_EXCEEDED);
    EXPECT_STATUS(decompress(&table, SGS_CODEC_ZSTD), SGS_LIMIT_EXCEEDED);
}

/* ---- the builders, which ask the table ---- */

static sgs_status start(const sgs_codec_table *codecs, sgs_batch_options options)
{
    sgs_batch_builder builder;
    sgs_batch_builder_init(&builder, kit_memory(), codecs);
    const sgs_status status = sgs_batch_builder_start(&builder, &options, &err);
    sgs_batch_builder_deinit(&builder);
    return status;
}

TEST(a_batch_that_cannot_be_is_not_begun)
{
    sgs_batch_options defaults;
    sgs_batch_options_default(&defaults);
    EXPECT_OK(start(NULL, defaults), &err);
    sgs_batch_options options = defaults;
    options.codec = -1;
    EXPECT_STATUS(start(kit_codecs(), options), SGS_ILLEGAL_ARGUMENT);
    options.codec = SGS_CODEC_GZIP;
    EXPECT_STATUS(start(NULL, options), SGS_CODEC_MISSING);
    options = defaults;
    options.log_append_timestamp = -2;
    EXPECT_STATUS(start(NULL, options), SGS_ILLEGAL_ARGUMENT);
    options = defaults;
    options.delete_horizon_ms = -2;
    EXPECT_STATUS(start(NULL, options), SGS_ILLEGAL_ARGUMENT);
}

static sgs_status start_legacy(const sgs_codec_table *codecs, sgs_legacy_options options)
{
    sgs_legacy_builder builder;
    sgs_legacy_builder_init(&builder, kit_memory(), codecs);
    const sgs_status status = sgs_legacy_builder_start(&builder, &options, &err);
    sgs_legacy_builder_deinit(&builder);
    return status;
}

TEST(messages_that_cannot_be_are_not_begun)
{
    const sgs_legacy_options defaults = { .level = INT_MIN, .magic = 1 };
    EXPECT_OK(start_legacy(NULL, defaults), &err);
    for (int i = 0; i < 7; ++i) {
        sgs_legacy_options options = defaults;
        options.codec = i == 0 ? -1 : i == 1 ? (int)SGS_CODEC_COUNT : i == 2 ? (int)SGS_CODEC_GZIP : 0;
        options.base_offset = i == 3 ? -1 : i == 4 ? INT64_MAX : 0;
        options.log_append_time = i >= 5;
        options.log_append_timestamp = i == 5 ? -2 : 7;
        options.magic = i == 6 ? 0 : 1;
        EXPECT_STATUS(start_legacy(NULL, options), i == 2 ? SGS_CODEC_MISSING : SGS_ILLEGAL_ARGUMENT);
    }
    sgs_legacy_builder builder;
    sgs_legacy_builder_init(&builder, kit_memory(), NULL);
    EXPECT_OK(sgs_legacy_builder_start(&builder, &defaults, &err), &err);
    const sgs_bytes none = { NULL, -1 };
    EXPECT_STATUS(sgs_legacy_builder_append(&builder, INT64_MAX, 0, none, none, &err), SGS_ILLEGAL_ARGUMENT);
    EXPECT_STATUS(sgs_legacy_builder_append(&builder, -1, 0, none, none, &err), SGS_ILLEGAL_ARGUMENT);
    EXPECT_STATUS(sgs_legacy_builder_append(&builder, (int64_t)INT32_MAX + 1, 0, none, none, &err),
                  SGS_ILLEGAL_ARGUMENT);
    sgs_legacy_builder_deinit(&builder);
}

TEST(a_record_that_could_not_be_read_again_is_not_compressed)
{
    sgs_codec_table table = *kit_codecs();
    const sgs_bytes value = { text, sizeof text };
    const sgs_bytes none = { NULL, -1 };
    const sgs_record_header header = { .key = { text, 3 }, .value = { text, 3 } };
    sgs_batch_builder builder;
    sgs_batch_options options;
    sgs_buffer out;
    sgs_batch_options_default(&options);
    options.codec = SGS_CODEC_GZIP;
    sgs_buffer_init(&out, kit_memory());
    for (size_t limit = 1; limit < 100; limit += 98) {
        table.max_record_bytes = limit;
        sgs_batch_builder_init(&builder, kit_memory(), &table);
        int64_t max_timestamp, offset;
        EXPECT_OK(sgs_batch_builder_start(&builder, &options, &err), &err);
        sgs_batch_builder_info(&builder, &max_timestamp, &offset);
        EXPECT_EQ_I64(offset, -1);
        EXPECT_STATUS(sgs_batch_builder_append(&builder, 0, 0, none, value, &header, -1, &err), SGS_ILLEGAL_ARGUMENT);
        EXPECT_OK(sgs_batch_builder_append(&builder, 0, 7, none, value, NULL, 0, &err), &err);
        sgs_batch_builder_info(&builder, &max_timestamp, &offset);
        EXPECT_TRUE(max_timestamp == 7 && offset == 0);
        EXPECT_STATUS(sgs_batch_builder_finish(&builder, &out, NULL, &err), limit == 1 ? SGS_LIMIT_EXCEEDED : SGS_OK);
        sgs_batch_builder_deinit(&builder);
    }
    sgs_batch_header header_row = { .base_offset = 5, .last_offset = 4 };
    EXPECT_STATUS(sgs_batch_build_empty(&header_row, &out, &err), SGS_ILLEGAL_ARGUMENT);
    header_row.last_offset = (int64_t)INT32_MAX + 6;
    EXPECT_STATUS(sgs_batch_build_empty(&header_row, &out, &err), SGS_ILLEGAL_ARGUMENT);
    header_row.base_offset = INT64_MIN;
    header_row.last_offset = INT64_MAX;
    EXPECT_STATUS(sgs_batch_build_empty(&header_row, &out, &err), SGS_ILLEGAL_ARGUMENT);
    sgs_buffer_deinit(&out);
}

TEST_MAIN()
