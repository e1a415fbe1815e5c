/* test_record_headers.c - headers of a record that is written again: their keys become UTF-8 as Java's are. */
#include "record/record_headers.h"

#include <string.h>

#include "record_kit.h"
#include "test.h"

#define R "\xef\xbf\xbd"

enum { RECORD_BYTES = 256 };

/* A record with the keys given and a value each, as a reader gives it. */
static sgs_record record_of(uint8_t *bytes, const char *const *keys, int32_t count)
{
    sgs_record_header headers[4];
    for (int32_t i = 0; i < count; ++i)
        headers[i] = (sgs_record_header){ kit_text(keys[i]), kit_text(i % 2 == 0 ? "value" : NULL) };
    const uint8_t *const end = sgs_record_write(bytes, 0, 0, kit_text("k"), kit_text("v"), headers, count);
    const sgs_batch_header batch = { .records_count = 1, .magic = 2 };
    sgs_record_reader reader;
    sgs_record record = { .headers_count = -1 };
    sgs_error err;
    bool found;
    sgs_record_reader_init(&reader, &batch, bytes, (size_t)(end - bytes));
    EXPECT_OK(sgs_record_reader_next(&reader, &record, &found, &err), &err);
    return record;
}

/* Write the headers again and look for each key in turn, its value behind it. */
static void expect_keys(const sgs_record *record, bool is_copy, const char *const *keys)
{
    uint8_t bytes[RECORD_BYTES];
    sgs_headers_rewrite rewrite;
    REQUIRE_TRUE(sgs_record_headers_prepare(record->headers, record->headers_count, &rewrite));
    EXPECT_EQ_I64(rewrite.is_copy, is_copy);
    EXPECT_EQ_I64(sgs_record_headers_write(bytes, &rewrite) - bytes, rewrite.size_bytes);
    sgs_bytes left = { bytes, (int32_t)rewrite.size_bytes };
    for (int32_t i = 0; i < rewrite.count; ++i) {
        sgs_record_header header;
        EXPECT_TRUE(sgs_record_next_header(&left, &header));
        if (EXPECT_EQ_I64(header.key.size, strlen(keys[i])))
            EXPECT_MEM(header.key.data, keys[i], strlen(keys[i]));
        EXPECT_EQ_I64(header.value.size, i % 2 == 0 ? 5 : -1);
    }
    EXPECT_EQ_I64(left.size, 0);
}

TEST(well_formed_keys_are_copied)
{
    uint8_t bytes[RECORD_BYTES];
    const char *const keys[] = { "h", "", "ü€😀" };
    const sgs_record record = record_of(bytes, keys, 3);
    expect_keys(&record, true, keys);
}

TEST(malformed_keys_are_replaced_and_their_neighbours_kept)
{
    uint8_t bytes[RECORD_BYTES];
    const sgs_record record =
        record_of(bytes, (const char *const[]){ "\xff", "good", "a\xed\xa0\x80z", "\xe2\x82" }, 4);
    expect_keys(&record, false, (const char *const[]){ R, "good", "a" R "z", R });
}

TEST(a_replaced_surrogate_is_no_copy_though_as_long)
{
    uint8_t bytes[RECORD_BYTES];
    const sgs_record record = record_of(bytes, (const char *const[]){ "\xed\xa0\x80" }, 1);
    expect_keys(&record, false, (const char *const[]){ R });
}

TEST(a_record_without_headers_has_none)
{
    uint8_t bytes[RECORD_BYTES];
    const sgs_record record = record_of(bytes, NULL, 0);
    expect_keys(&record, true, NULL);
}

/* Sizes as Kafka writes them: the shortest form [DUR-88], and -1 for null, which any size below 0 is to its readers. */
TEST(other_forms_of_sizes_become_kafkas)
{
    static const struct {
        uint8_t encoded[8];
        int32_t size, expected_size;
    } cases[] = {
        { { 0x82, 0x00, 'h', 0x01 }, 4, 3 },      /* a key size in two bytes */
        { { 0x02, 'h', 0x82, 0x00, 'v' }, 5, 4 }, /* a value size in two bytes */
        { { 0x02, 'h', 0x03 }, 3, 3 },            /* a value size of -2 */
        { { 0x02, 'h', 0x81, 0x01 }, 4, 3 },      /* of -65 */
        { { 0x02, 'h', 0x81, 0x00 }, 4, 3 },      /* of -1, in two bytes */
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        const sgs_bytes encoded = { cases[i].encoded, cases[i].size };
        sgs_headers_rewrite rewrite;
        EXPECT_TRUE(!sgs_record_headers_prepare(encoded, 2, &rewrite)); /* there is one */
        REQUIRE_TRUE(sgs_record_headers_prepare(encoded, 1, &rewrite));
        uint8_t bytes[RECORD_BYTES];
        EXPECT_TRUE(!rewrite.is_copy);
        EXPECT_EQ_I64(rewrite.size_bytes, cases[i].expected_size);
        EXPECT_EQ_I64(sgs_record_headers_write(bytes, &rewrite) - bytes, cases[i].expected_size);
        EXPECT_MEM(bytes, "\x02h", 2);
        EXPECT_EQ_I64(bytes[2], cases[i].encoded[cases[i].size - 1] == 'v' ? 2 : 1);
    }
}

TEST_MAIN()
