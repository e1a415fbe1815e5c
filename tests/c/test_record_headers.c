/* test_record_headers.c - headers of a record that is written again: their keys become UTF-8 as Java's are. */
#include "record/record_headers.h"

#include <errno.h>
#include <string.h>

#include "memory_env.h"
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

static void expect_key(sgs_bytes key, const char *expected)
{
    if (EXPECT_EQ_I64(key.size, strlen(expected)))
        EXPECT_MEM(key.data, expected, strlen(expected));
}

TEST(well_formed_keys_stay_where_they_are)
{
    uint8_t bytes[RECORD_BYTES];
    const sgs_record record = record_of(bytes, (const char *const[]){ "h", "", "ü€😀" }, 3);
    const sgs_record_header *headers = NULL;
    sgs_buffer scratch;
    sgs_error err;
    sgs_buffer_init(&scratch, kit_memory());

    REQUIRE_OK(sgs_record_headers_load(&record, &scratch, &headers, &err), &err);

    expect_key(headers[0].key, "h");
    expect_key(headers[1].key, "");
    expect_key(headers[2].key, "ü€😀");
    EXPECT_TRUE(headers[2].key.data > bytes && headers[2].key.data < bytes + RECORD_BYTES);
    EXPECT_EQ_I64(headers[0].value.size, 5);
    EXPECT_EQ_I64(headers[1].value.size, -1);
    sgs_buffer_deinit(&scratch);
}

TEST(malformed_keys_are_replaced_and_their_neighbours_kept)
{
    uint8_t bytes[RECORD_BYTES];
    const sgs_record record =
        record_of(bytes, (const char *const[]){ "\xff", "good", "a\xed\xa0\x80z", "\xe2\x82" }, 4);
    const sgs_record_header *headers = NULL;
    sgs_buffer scratch;
    sgs_error err;
    sgs_buffer_init(&scratch, kit_memory());

    REQUIRE_OK(sgs_record_headers_load(&record, &scratch, &headers, &err), &err);

    expect_key(headers[0].key, R);
    expect_key(headers[1].key, "good");
    expect_key(headers[2].key, "a" R "z");
    expect_key(headers[3].key, R);
    EXPECT_EQ_I64(headers[2].value.size, 5);
    sgs_buffer_deinit(&scratch);
}

TEST(a_record_without_headers_has_none)
{
    uint8_t bytes[RECORD_BYTES];
    const sgs_record record = record_of(bytes, NULL, 0);
    const sgs_record_header *headers = NULL;
    sgs_buffer scratch;
    sgs_error err;
    sgs_buffer_init(&scratch, kit_memory());
    EXPECT_OK(sgs_record_headers_load(&record, &scratch, &headers, &err), &err);
    sgs_buffer_deinit(&scratch);
}

TEST(no_memory_is_told) /* DUR-31 */
{
    uint8_t bytes[RECORD_BYTES];
    const sgs_record record = record_of(bytes, (const char *const[]){ "\xff" }, 1);
    const sgs_record_header *headers = NULL;
    memory_env memory;
    sgs_buffer scratch;
    sgs_error err;
    memory_env_init(&memory, sgs_env_posix());
    sgs_buffer_init(&scratch, sgs_env_memory(&memory.env));
    memory_env_fail_always(&memory, "allocate", 1, ENOMEM);
    EXPECT_STATUS(sgs_record_headers_load(&record, &scratch, &headers, &err), SGS_RESOURCE);
    EXPECT_TRUE(headers == NULL);
    sgs_buffer_deinit(&scratch);
}

TEST_MAIN()
