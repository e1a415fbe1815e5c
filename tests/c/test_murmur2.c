/* The partitioner's hash: the values of Kafka's UtilsTest.testMurmur2. */
#include "base/murmur2.h"

#include "test.h"

static int32_t hash(const char *text) { return sgs_murmur2((const uint8_t *)text, strlen(text)); }

TEST(hashes_are_those_of_kafka)
{
    EXPECT_EQ_I64(hash("21"), -973932308);
    EXPECT_EQ_I64(hash("foobar"), -790332482);
    EXPECT_EQ_I64(hash("a-little-bit-long-string"), -985981536);
    EXPECT_EQ_I64(hash("a-little-bit-longer-string"), -1486304829);
    EXPECT_EQ_I64(hash("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8"), -58897971);
    EXPECT_EQ_I64(hash("abc"), 479470107);
}

TEST(the_partition_is_never_negative)
{
    EXPECT_EQ_I64(sgs_murmur2_partition((const uint8_t *)"21", 2, 10), (-973932308 & INT32_MAX) % 10);
    for (int i = 0; i < 1000; ++i) {
        char key[16];
        const int size = snprintf(key, sizeof key, "key-%d", i);
        const int32_t partition = sgs_murmur2_partition((const uint8_t *)key, (size_t)size, 7);
        EXPECT_TRUE(partition >= 0 && partition < 7);
    }
    EXPECT_EQ_I64(sgs_murmur2_partition((const uint8_t *)"", 0, 1), 0);
}

TEST_MAIN()
