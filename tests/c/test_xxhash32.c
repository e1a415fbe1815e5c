/* test_xxhash32.c - the hash of LZ4 frames [format.md 2.2]. */
#include "base/xxhash32.h"

#include "test.h"

/* The values of the reference implementation's own test, seed 0. */
TEST(xxhash32_is_the_reference_one)
{
    EXPECT_EQ_U64(sgs_xxhash32(NULL, 0), 0x02CC5D05);
    EXPECT_EQ_U64(sgs_xxhash32((const uint8_t *)"a", 1), 0x550D7456);
    EXPECT_EQ_U64(sgs_xxhash32((const uint8_t *)"abc", 3), 0x32D153FF);
    EXPECT_EQ_U64(sgs_xxhash32((const uint8_t *)"Nobody inspects the spammish repetition", 39), 0xE2293B2F);
}

TEST_MAIN()
