/* test_legacy_message.c - messages of magic 0 and 1, one at a time [format.md 7.1, 19.3]. */
#include "record/legacy_message.h"

#include "base/bytes.h"
#include "record_kit.h"
#include "test.h"

static sgs_error err;

static bool is_text(sgs_bytes bytes, const char *text)
{
    const sgs_bytes wanted = kit_text(text);
    return bytes.size == wanted.size && (text == NULL || memcmp(bytes.data, text, (size_t)bytes.size) == 0);
}

TEST(the_worked_examples_are_parsed)
{
    sgs_legacy_message message;
    const kit_bytes v1 = kit_hex(EXAMPLE_V1);
    REQUIRE_OK(sgs_legacy_message_parse(v1.data, v1.size, &message, &err), &err);
    EXPECT_EQ_I64(message.offset, 42);
    EXPECT_EQ_I64(message.timestamp, EXAMPLE_T);
    EXPECT_EQ_I64(message.timestamp_type, SGS_CREATE_TIME);
    EXPECT_EQ_U64(message.crc, 958827571);
    EXPECT_EQ_I64(message.size_bytes, 36);
    EXPECT_TRUE(is_text(message.key, "k") && is_text(message.value, "v"));
    EXPECT_TRUE(sgs_legacy_message_is_valid(&message));

    const kit_bytes v0 = kit_hex(EXAMPLE_V0);
    REQUIRE_OK(sgs_legacy_message_parse(v0.data, v0.size, &message, &err), &err);
    EXPECT_EQ_I64(message.timestamp, -1);
    EXPECT_EQ_I64(message.timestamp_type, SGS_NO_TIMESTAMP_TYPE);
    EXPECT_TRUE(is_text(message.key, "k") && is_text(message.value, "v"));
    EXPECT_TRUE(sgs_legacy_message_is_valid(&message));

    const kit_bytes nulls = kit_hex(EXAMPLE_V1_LOG_APPEND_TIME);
    REQUIRE_OK(sgs_legacy_message_parse(nulls.data, nulls.size, &message, &err), &err);
    EXPECT_EQ_I64(message.timestamp_type, SGS_LOG_APPEND_TIME);
    EXPECT_TRUE(is_text(message.key, NULL) && is_text(message.value, NULL));
}

TEST(what_is_written_are_the_worked_examples)
{
    uint8_t out[64];
    const kit_bytes v1 = kit_hex(EXAMPLE_V1), v0 = kit_hex(EXAMPLE_V0);
    REQUIRE_EQ_I64(sgs_legacy_message_size(1, kit_text("k"), kit_text("v")), v1.size);
    sgs_legacy_message_write(out, 1, 42, EXAMPLE_T, 0, kit_text("k"), kit_text("v"));
    EXPECT_MEM(out, v1.data, v1.size);
    REQUIRE_EQ_I64(sgs_legacy_message_size(0, kit_text("k"), kit_text("v")), v0.size);
    sgs_legacy_message_write(out, 0, 42, EXAMPLE_T, 0, kit_text("k"), kit_text("v"));
    EXPECT_MEM(out, v0.data, v0.size);
    const kit_bytes nulls = kit_hex(EXAMPLE_V1_LOG_APPEND_TIME);
    sgs_legacy_message_write(out, 1, 43, EXAMPLE_T, SGS_ATTRIBUTE_LOG_APPEND_TIME, kit_text(NULL), kit_text(NULL));
    EXPECT_MEM(out, nulls.data, nulls.size);
}

/* [format.md 7.1] LegacyRecordTest.testChecksum: every flipped bit under the CRC is found. */
TEST(the_crc_covers_all_bytes_from_the_magic_on)
{
    kit_bytes v1 = kit_hex(EXAMPLE_V1);
    for (size_t at = 17; at < v1.size; ++at) { /* the magic decides the layout */
        sgs_legacy_message message;
        v1.data[at] ^= 0x04;
        if (sgs_legacy_message_parse(v1.data, v1.size, &message, &err) == SGS_OK)
            EXPECT_TRUE(!sgs_legacy_message_is_valid(&message));
        v1.data[at] ^= 0x04;
    }
}

/* [DUR-85] */
TEST(sizes_that_reach_beyond_are_refused)
{
    static const struct {
        size_t at;
        uint32_t value;
        sgs_status expected;
    } edits[] = {
        { 8, 13, SGS_CORRUPT_RECORD },
        { 8, 25, SGS_CORRUPT_RECORD },
        { 8, 0x80000000, SGS_CORRUPT_RECORD },
        { 8, 21, SGS_INVALID_RECORD },
        { 8, 23, SGS_INVALID_RECORD },
        { 26, 7, SGS_INVALID_RECORD },
        { 26, 0x7FFFFFFF, SGS_INVALID_RECORD },
        { 31, 2, SGS_INVALID_RECORD },
        { 31, 0x7FFFFFFF, SGS_INVALID_RECORD },
        { 31, 0xFFFFFFFF, SGS_OK },
        { 31, 0x80000000, SGS_OK },
    };
    for (size_t i = 0; i < sizeof edits / sizeof edits[0]; ++i) {
        kit_bytes v1 = kit_hex(EXAMPLE_V1);
        sgs_legacy_message message;
        sgs_store_be32(v1.data + edits[i].at, edits[i].value);
        EXPECT_STATUS(sgs_legacy_message_parse(v1.data, v1.size, &message, &err), edits[i].expected);
    }
}

/* [format.md 7.2] ByteBufferLogInputStreamTest, setMaxTimestamp: nothing at all changes when nothing differs. */
TEST(a_timestamp_is_set_in_place)
{
    kit_bytes v1 = kit_hex(EXAMPLE_V1);
    sgs_legacy_message message;
    EXPECT_OK(sgs_legacy_message_set_timestamp(v1.data, v1.size, false, EXAMPLE_T, &err), &err);
    EXPECT_MEM(v1.data, kit_hex(EXAMPLE_V1).data, v1.size);
    REQUIRE_OK(sgs_legacy_message_set_timestamp(v1.data, v1.size, true, 5, &err), &err);
    REQUIRE_OK(sgs_legacy_message_parse(v1.data, v1.size, &message, &err), &err);
    EXPECT_EQ_I64(message.timestamp, 5);
    EXPECT_EQ_I64(message.timestamp_type, SGS_LOG_APPEND_TIME);
    EXPECT_TRUE(sgs_legacy_message_is_valid(&message));
    kit_bytes v0 = kit_hex(EXAMPLE_V0);
    EXPECT_STATUS(sgs_legacy_message_set_timestamp(v0.data, v0.size, true, 5, &err), SGS_ILLEGAL_ARGUMENT);
}

TEST_MAIN()
