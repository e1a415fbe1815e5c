/* test_legacy_builder.c - what the builder of magic 0 and 1 writes and refuses [format.md 7, 10, 19.9]; that its wrappers
 * can be read is in test_legacy_records.c. */
#include "record/legacy_builder.h"

#include <limits.h>

#include "base/bytes.h"
#include "record_kit.h"
#include "test.h"

static sgs_error err;

static sgs_buffer build_golden(int8_t magic)
{
    sgs_legacy_builder builder;
    sgs_buffer out;
    sgs_legacy_builder_init(&builder, kit_memory(), NULL);
    sgs_buffer_init(&out, kit_memory());
    const sgs_legacy_options options = { .magic = magic, .level = INT_MIN };
    if (EXPECT_OK(sgs_legacy_builder_start(&builder, &options, &err), &err)) {
        EXPECT_OK(sgs_legacy_builder_append(&builder, 0, 283843, kit_text("key1"), kit_text("value1"), &err), &err);
        EXPECT_OK(sgs_legacy_builder_append(&builder, 1, 1234, kit_text("key2"), kit_text("value2"), &err), &err);
        EXPECT_OK(sgs_legacy_builder_finish(&builder, &out, &err), &err);
    }
    sgs_legacy_builder_deinit(&builder);
    return out;
}

/* [format.md 19.9] MemoryRecordsBuilder's checksums; MemoryRecordsTest.testChecksum */
TEST(the_golden_checksums_come_out)
{
    static const uint32_t checksums[] = { 1978725405, 109425508 };
    for (int8_t magic = 0; magic <= 1; ++magic) {
        sgs_buffer out = build_golden(magic);
        REQUIRE_TRUE(out.size > 16);
        EXPECT_EQ_U64(sgs_load_be32(out.data + 12), checksums[magic]);
        EXPECT_EQ_I64(out.size, 2 * (magic == 0 ? 36 : 44));
        sgs_buffer_deinit(&out);
    }
}

TEST(nothing_appended_writes_nothing)
{
    sgs_legacy_builder builder;
    sgs_buffer out;
    sgs_legacy_builder_init(&builder, kit_memory(), kit_codecs());
    sgs_buffer_init(&out, kit_memory());
    const sgs_legacy_options options = { .magic = 1, .codec = SGS_CODEC_GZIP, .level = INT_MIN };
    REQUIRE_OK(sgs_legacy_builder_start(&builder, &options, &err), &err);
    REQUIRE_OK(sgs_legacy_builder_finish(&builder, &out, &err), &err);
    EXPECT_EQ_I64(out.size, 0);
    sgs_buffer_deinit(&out);
    sgs_legacy_builder_deinit(&builder);
}

TEST(a_codec_without_a_provider_is_refused)
{
    sgs_legacy_builder builder;
    sgs_legacy_builder_init(&builder, kit_memory(), NULL);
    const sgs_legacy_options options = { .magic = 1, .codec = SGS_CODEC_LZ4, .level = INT_MIN };
    EXPECT_STATUS(sgs_legacy_builder_start(&builder, &options, &err), SGS_CODEC_MISSING);
    sgs_legacy_builder_deinit(&builder);
}

/* [format.md 10] MemoryRecordsBuilderTest.shouldThrowIllegalArgumentExceptionForMagic... */
TEST(the_builder_refuses_what_kafkas_does)
{
    sgs_legacy_builder builder;
    sgs_legacy_builder_init(&builder, kit_memory(), kit_codecs());
    const sgs_legacy_options good = { .magic = 1, .codec = SGS_CODEC_NONE, .base_offset = 5 };
    sgs_legacy_options bad = good;
    bad.magic = 2;
    EXPECT_STATUS(sgs_legacy_builder_start(&builder, &bad, &err), SGS_ILLEGAL_ARGUMENT);
    bad = good;
    bad.codec = SGS_CODEC_ZSTD;
    EXPECT_STATUS(sgs_legacy_builder_start(&builder, &bad, &err), SGS_ILLEGAL_ARGUMENT);
    bad = good;
    bad.magic = 0;
    bad.log_append_time = true;
    EXPECT_STATUS(sgs_legacy_builder_start(&builder, &bad, &err), SGS_ILLEGAL_ARGUMENT);
    const sgs_bytes text = kit_text("x");
    EXPECT_STATUS(sgs_legacy_builder_append(&builder, 5, 1, text, text, &err), SGS_ILLEGAL_STATE);
    REQUIRE_OK(sgs_legacy_builder_start(&builder, &good, &err), &err);
    EXPECT_STATUS(sgs_legacy_builder_append(&builder, -1, 1, text, text, &err), SGS_ILLEGAL_ARGUMENT);
    EXPECT_STATUS(sgs_legacy_builder_append(&builder, 5, -2, text, text, &err), SGS_ILLEGAL_ARGUMENT);
    EXPECT_STATUS(sgs_legacy_builder_append(&builder, INT64_C(6) + INT32_MAX, 1, text, text, &err),
                  SGS_ILLEGAL_ARGUMENT);
    REQUIRE_OK(sgs_legacy_builder_append(&builder, INT64_C(5) + INT32_MAX, 1, text, text, &err), &err);
    EXPECT_STATUS(sgs_legacy_builder_append(&builder, INT64_C(5) + INT32_MAX, 1, text, text, &err),
                  SGS_ILLEGAL_ARGUMENT);
    sgs_legacy_builder_deinit(&builder);
}

TEST_MAIN()
