/* test_xerial_stream.c - [format.md 8.2, DUR-92, DUR-94]. */
#include "record/xerial_stream.h"

#include <string.h>

#include "record_kit.h"
#include "test.h"

static sgs_error err;

static sgs_status decompress(const char *hex, size_t limit, sgs_buffer *out)
{
    const kit_bytes stream = kit_hex(hex);
    sgs_buffer_init(out, kit_memory());
    return sgs_xerial_decompress(&kit_codecs()->providers[SGS_CODEC_SNAPPY], stream.data, stream.size, limit, out,
                                 &err);
}

static void expect_status(const char *hex, sgs_status expected)
{
    sgs_buffer out;
    if (!EXPECT_STATUS(decompress(hex, 1000, &out), expected))
        printf("    for %s\n", hex);
    sgs_buffer_deinit(&out);
}

static void expect_text(const char *hex, const char *expected)
{
    sgs_buffer out;
    if (EXPECT_OK(decompress(hex, 1000, &out), &err) && EXPECT_EQ_I64(out.size, strlen(expected)))
        EXPECT_MEM(out.data, expected, out.size);
    sgs_buffer_deinit(&out);
}

#define HEADER "82534e4150505900 00000001 00000001"
#define CHUNK_AB "00000004 02 04 6162" /* length 2, a literal of 2 */

TEST(chunks_are_decompressed_one_after_the_other)
{
    expect_text(HEADER, "");
    expect_text(HEADER CHUNK_AB, "ab");
    expect_text(HEADER CHUNK_AB CHUNK_AB, "abab");
    expect_text(HEADER CHUNK_AB "000000", "ab");                      /* one to three bytes more are ignored */
    expect_text("82534e4150505900 00000000 00000000" CHUNK_AB, "ab"); /* the first versions are not checked */
}

TEST(an_embedded_header_goes_on_with_chunks)
{
    expect_text(HEADER CHUNK_AB HEADER CHUNK_AB, "abab");
    expect_text(HEADER HEADER HEADER, "");
    expect_text(HEADER "82534e4150505900 7fffffff 00000000" CHUNK_AB, "ab");
    expect_status(HEADER "82534e4150505900 00000000 00000001" CHUNK_AB, SGS_CODEC);
    expect_status(HEADER "82534e4150505901 00000001 00000001" CHUNK_AB, SGS_CODEC);
    expect_status(HEADER "82534e41505059", SGS_CODEC);
}

TEST(a_payload_without_the_header_is_one_raw_block)
{
    expect_text("02 04 6162", "ab");
    expect_text("1e 74 616161616161616161616161616161616161616161616161616161616161", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa");
    expect_status("82534e4150505900 00000001 000000", SGS_LIMIT_EXCEEDED); /* 15 bytes: a block that claims 10626 */
    expect_status("", SGS_CODEC);
}

TEST(broken_chunk_sizes_are_errors)
{
    expect_status(HEADER "00000000", SGS_CODEC); /* a raw block has at least one byte */
    expect_status(HEADER "ffffffff 00", SGS_CODEC);
    expect_status(HEADER "80000000 00", SGS_CODEC);
    expect_status(HEADER "20000001 00", SGS_CODEC);
    expect_status(HEADER "00000005 02 04 6162", SGS_CODEC); /* cut short */
    expect_status(HEADER CHUNK_AB "00000001", SGS_CODEC);
}

TEST(the_limit_holds_over_all_chunks)
{
    sgs_buffer out;
    EXPECT_OK(decompress(HEADER CHUNK_AB CHUNK_AB, 4, &out), &err);
    sgs_buffer_deinit(&out);
    EXPECT_STATUS(decompress(HEADER CHUNK_AB CHUNK_AB, 3, &out), SGS_LIMIT_EXCEEDED);
    EXPECT_TRUE(out.size <= 3);
    sgs_buffer_deinit(&out);
}

TEST(what_is_compressed_reads_back)
{
    static uint8_t data[3 * SGS_XERIAL_BLOCK_BYTES + 1];
    for (size_t i = 0; i < sizeof data; ++i)
        data[i] = (uint8_t)(i * 7 + i / 251);
    const size_t sizes[] = { 0, 1, 59, 60, 61, SGS_XERIAL_BLOCK_BYTES, SGS_XERIAL_BLOCK_BYTES + 1, sizeof data };
    const sgs_codec_provider *const snappy = &kit_codecs()->providers[SGS_CODEC_SNAPPY];
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; ++i) {
        sgs_buffer stream, plain;
        sgs_buffer_init(&stream, kit_memory());
        sgs_buffer_init(&plain, kit_memory());
        REQUIRE_OK(sgs_xerial_compress(snappy, data, sizes[i], &stream, &err), &err);
        const kit_bytes header = kit_hex(HEADER);
        EXPECT_MEM(stream.data, header.data, header.size);
        EXPECT_TRUE(sizes[i] > 0 || stream.size == SGS_XERIAL_HEADER_BYTES);
        REQUIRE_OK(sgs_xerial_decompress(snappy, stream.data, stream.size, sizes[i], &plain, &err), &err);
        EXPECT_EQ_I64(plain.size, sizes[i]);
        EXPECT_MEM(plain.data, data, plain.size);
        sgs_buffer_deinit(&stream);
        sgs_buffer_deinit(&plain);
    }
}

TEST(providers_and_levels_are_checked_by_the_table)
{
    const sgs_codec_table none = { .max_decompressed_batch_bytes = 1000 };
    const uint8_t byte = 'S';
    sgs_buffer out;
    sgs_buffer_init(&out, kit_memory());
    EXPECT_STATUS(sgs_codec_decompress(&none, SGS_CODEC_ZSTD, &byte, 1, &out, &err), SGS_CODEC_MISSING);
    EXPECT_STATUS(sgs_codec_decompress(NULL, SGS_CODEC_GZIP, &byte, 1, &out, &err), SGS_CODEC_MISSING);
    EXPECT_STATUS(sgs_codec_compress(NULL, SGS_CODEC_GZIP, -1, &byte, 1, &out, &err), SGS_CODEC_MISSING);
    for (int id = 5; id <= 7; ++id) /* [DUR-95] */
        EXPECT_STATUS(sgs_codec_decompress(kit_codecs(), id, &byte, 1, &out, &err), SGS_UNSUPPORTED_FORMAT);
    /* GzipCompressionTest.testLevelValidator, Lz4CompressionTest.testCompressionLevels */
    EXPECT_STATUS(sgs_codec_compress(kit_codecs(), SGS_CODEC_GZIP, 0, &byte, 1, &out, &err), SGS_ILLEGAL_ARGUMENT);
    EXPECT_STATUS(sgs_codec_compress(kit_codecs(), SGS_CODEC_GZIP, 10, &byte, 1, &out, &err), SGS_ILLEGAL_ARGUMENT);
    EXPECT_STATUS(sgs_codec_compress(kit_codecs(), SGS_CODEC_LZ4, 0, &byte, 1, &out, &err), SGS_ILLEGAL_ARGUMENT);
    EXPECT_STATUS(sgs_codec_compress(kit_codecs(), SGS_CODEC_LZ4, 18, &byte, 1, &out, &err), SGS_ILLEGAL_ARGUMENT);
    EXPECT_STATUS(sgs_codec_compress(kit_codecs(), SGS_CODEC_ZSTD, 23, &byte, 1, &out, &err), SGS_ILLEGAL_ARGUMENT);
    EXPECT_STATUS(sgs_codec_compress(kit_codecs(), 5, 0, &byte, 1, &out, &err), SGS_ILLEGAL_ARGUMENT);
    EXPECT_OK(sgs_codec_compress(kit_codecs(), SGS_CODEC_GZIP, -1, &byte, 1, &out, &err), &err);
    EXPECT_OK(sgs_codec_compress(kit_codecs(), SGS_CODEC_ZSTD, -131072, &byte, 1, &out, &err), &err);
    EXPECT_TEXT(sgs_codec_name(SGS_CODEC_ZSTD), "zstd");
    EXPECT_TEXT(sgs_codec_name(5), "?");
    EXPECT_TEXT(sgs_codec_name(-1), "?");
    sgs_buffer_deinit(&out);
}

TEST_MAIN()
