/* CRC-32 of legacy messages. */
#include "base/crc32.h"

#include "test.h"

static uint32_t by_definition(uint32_t crc, const uint8_t *at, size_t size)
{
    crc = ~crc;
    for (size_t i = 0; i < size; ++i) {
        crc ^= at[i];
        for (int bit = 0; bit < 8; ++bit)
            crc = (crc >> 1) ^ (0xEDB88320U & (0U - (crc & 1)));
    }
    return ~crc;
}

TEST(the_check_values_are_right)
{
    /* format.md 2.2 */
    EXPECT_EQ_U64(sgs_crc32(0, "123456789", 9), 0xCBF43926);
    EXPECT_EQ_U64(sgs_crc32(0, NULL, 0), 0);
}

TEST(the_tables_agree_with_the_definition_and_continue)
{
    uint8_t data[700];
    for (size_t i = 0; i < sizeof data; ++i)
        data[i] = (uint8_t)(i * 31 + (i >> 3));
    for (size_t size = 0; size < 600; ++size) {
        const uint8_t *at = data + size % 32;
        const uint32_t expected = by_definition(0x1234, at, size);
        EXPECT_EQ_U64(sgs_crc32(0x1234, at, size), expected);
        EXPECT_EQ_U64(sgs_crc32(sgs_crc32(0x1234, at, size / 3), at + size / 3, size - size / 3), expected);
    }
}

TEST_MAIN()
