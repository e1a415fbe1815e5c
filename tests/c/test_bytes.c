/* Numbers on disk, at every alignment. */
#include "base/bytes.h"

#include "test.h"

static const uint8_t bytes[] = { 0x81, 0x02, 0x83, 0x04, 0x85, 0x06, 0x87, 0x08, 0x00 };

TEST(big_endian_numbers_are_read_most_significant_byte_first)
{
    EXPECT_EQ_U64(sgs_load_be16(bytes), 0x8102);
    EXPECT_EQ_U64(sgs_load_be32(bytes), 0x81028304);
    EXPECT_EQ_U64(sgs_load_be64(bytes), 0x8102830485068708);
}

TEST(little_endian_numbers_are_read_least_significant_byte_first)
{
    EXPECT_EQ_U64(sgs_load_le32(bytes), 0x04830281);
    EXPECT_EQ_U64(sgs_load_le64(bytes), 0x0887068504830281);
}

TEST(signed_numbers_keep_their_sign)
{
    EXPECT_EQ_I64(sgs_load_be_i16(bytes), (int16_t)0x8102);
    EXPECT_EQ_I64(sgs_load_be_i32(bytes), -2130541820);
    EXPECT_TRUE(sgs_load_be_i64(bytes) < 0);
    const uint8_t minus_one[] = { 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF };
    EXPECT_EQ_I64(sgs_load_be_i16(minus_one), -1);
    EXPECT_EQ_I64(sgs_load_be_i32(minus_one), -1);
    EXPECT_EQ_I64(sgs_load_be_i64(minus_one), -1);
}

TEST(what_is_stored_is_loaded_at_every_alignment_and_nothing_beside_it)
{
    const uint64_t values[] = { 0, 1, 0x7F, 0x80, 0x0123456789ABCDEF, INT64_MAX, (uint64_t)INT64_MIN, UINT64_MAX };
    for (size_t v = 0; v < sizeof values / sizeof values[0]; ++v) {
        for (size_t at = 1; at < 9; ++at) {
            uint8_t room[24];
            memset(room, 0xA5, sizeof room);

            sgs_store_be16(room + at, (uint16_t)values[v]);
            EXPECT_EQ_U64(sgs_load_be16(room + at), (uint16_t)values[v]);
            EXPECT_TRUE(room[at - 1] == 0xA5 && room[at + 2] == 0xA5);
            sgs_store_be32(room + at, (uint32_t)values[v]);
            EXPECT_EQ_U64(sgs_load_be32(room + at), (uint32_t)values[v]);
            EXPECT_TRUE(room[at - 1] == 0xA5 && room[at + 4] == 0xA5);
            sgs_store_le32(room + at, (uint32_t)values[v]);
            EXPECT_EQ_U64(sgs_load_le32(room + at), (uint32_t)values[v]);
            EXPECT_TRUE(room[at - 1] == 0xA5 && room[at + 4] == 0xA5);
            sgs_store_be64(room + at, values[v]);
            EXPECT_EQ_U64(sgs_load_be64(room + at), values[v]);
            EXPECT_TRUE(room[at - 1] == 0xA5 && room[at + 8] == 0xA5);
        }
    }
}

TEST(signed_stores_write_twos_complement)
{
    uint8_t room[8];
    sgs_store_be_i16(room, -2);
    EXPECT_MEM(room, "\xFF\xFE", 2);
    sgs_store_be_i32(room, -2);
    EXPECT_MEM(room, "\xFF\xFF\xFF\xFE", 4);
    sgs_store_be_i64(room, INT64_MIN);
    EXPECT_MEM(room, "\x80\0\0\0\0\0\0\0", 8);
}

/* ByteUtilsTest.testReadInt */
TEST(kafkas_numbers_are_read_one_behind_the_other)
{
    const int32_t values[] = { 0, 1, -1, 127, 32767, 65534, 1073741823, -1073741824, INT32_MAX, INT32_MIN, INT32_MAX };
    uint8_t room[sizeof values];
    for (size_t i = 0; i < sizeof values / sizeof values[0]; ++i)
        sgs_store_be_i32(room + 4 * i, values[i]);
    for (size_t i = 0; i < sizeof values / sizeof values[0]; ++i)
        EXPECT_EQ_I64(sgs_load_be_i32(room + 4 * i), values[i]);
}

/* ByteUtilsTest.testReadUnsignedIntLEFromArray */
TEST(kafkas_little_endian_numbers_are_read)
{
    const uint8_t low[] = { 0x01, 0x02, 0x03, 0x04, 0x05 };
    const uint8_t high[] = { 0xf1, 0xf2, 0xf3, 0xf4, 0xf5, 0xf6 };
    EXPECT_EQ_U64(sgs_load_le32(low), 0x04030201);
    EXPECT_EQ_U64(sgs_load_le32(low + 1), 0x05040302);
    EXPECT_EQ_U64(sgs_load_le32(high), 0xf4f3f2f1);
    EXPECT_EQ_U64(sgs_load_le32(high + 2), 0xf6f5f4f3);
}

/* ByteUtilsTest.testWriteUnsignedIntLEToArray, ByteUtilsTest.testWriteUnsignedIntLEToOutputStream */
TEST(kafkas_little_endian_numbers_are_written)
{
    uint8_t room[8] = { 0 };
    sgs_store_le32(room + 2, 0x04030201);
    EXPECT_MEM(room, "\0\0\1\2\3\4\0\0", 8);
    sgs_store_le32(room, 0x04030201);
    sgs_store_le32(room + 4, 0x04030201);
    EXPECT_MEM(room, "\1\2\3\4\1\2\3\4", 8);
    sgs_store_le32(room, 0xf4f3f2f1);
    EXPECT_MEM(room, "\xf1\xf2\xf3\xf4", 4);
}

TEST_MAIN()
