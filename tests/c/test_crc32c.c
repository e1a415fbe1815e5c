/* CRC-32C: known answers, Kafka's answers, and every route of this machine against the definition. */
#include "base/crc32c.h"

#include <stdlib.h>

#include "kafka_primitives.h"
#include "test.h"

/* Longer than the largest block of any route, three times over. */
enum { LONGEST = 3 * 4096 + 700 };

static uint8_t data[LONGEST + 64];

static void fill(void)
{
    uint32_t state = 12345;
    for (size_t i = 0; i < sizeof data; ++i) {
        state = state * 1664525U + 1013904223U;
        data[i] = (uint8_t)(state >> 24);
    }
}

static uint32_t by_definition(uint32_t crc, const uint8_t *at, size_t size)
{
    crc = ~crc;
    for (size_t i = 0; i < size; ++i) {
        crc ^= at[i];
        for (int bit = 0; bit < 8; ++bit)
            crc = (crc >> 1) ^ (0x82F63B78U & (0U - (crc & 1)));
    }
    return ~crc;
}

TEST(the_check_values_are_right)
{
    /* format.md 2.2. Kafka: Crc32CTest.testValue. */
    EXPECT_EQ_U64(sgs_crc32c(0, "123456789", 9), 0xE3069283);
    EXPECT_EQ_U64(sgs_crc32c(0, "Some String", 11), 608512271);
    EXPECT_EQ_U64(sgs_crc32c(0, NULL, 0), 0);
    EXPECT_EQ_U64(sgs_crc32c_portable(0, "123456789", 9), 0xE3069283);
}

TEST(kafkas_answers_are_ours)
{
    for (size_t i = 0; i < sizeof kafka_checksums / sizeof kafka_checksums[0]; ++i) {
        const char *hex = kafka_checksums[i].bytes;
        uint8_t bytes[64];
        const size_t size = strlen(hex) / 2;
        for (size_t k = 0; k < size; ++k) {
            const char two[3] = { hex[2 * k], hex[2 * k + 1], '\0' };
            bytes[k] = (uint8_t)strtoul(two, NULL, 16);
        }
        EXPECT_EQ_U64(sgs_crc32c(0, bytes, size), kafka_checksums[i].crc32c);
    }
}

TEST(the_tables_agree_with_the_definition)
{
    fill();
    for (size_t size = 0; size < 600; ++size)
        EXPECT_EQ_U64(sgs_crc32c_portable((uint32_t)size * 77, data + size % 16, size),
                      by_definition((uint32_t)size * 77, data + size % 16, size));
}

TEST(every_route_agrees_with_the_tables_at_every_length)
{
    fill();
    const sgs_crc32c_route *routes;
    const size_t count = sgs_crc32c_routes(&routes);
    for (size_t r = 0; r < count; ++r) {
        if (!routes[r].is_supported())
            continue;
        for (size_t size = 0; size <= LONGEST; size += size < 1100 ? 1 : 37) {
            const uint8_t *at = data + size % 64; /* every alignment */
            const uint32_t start = (uint32_t)size * 2654435761U;
            const uint32_t found = routes[r].compute(start, at, size);
            if (found != sgs_crc32c_portable(start, at, size)) {
                EXPECT_TEXT(routes[r].name, "a route that is right");
                EXPECT_EQ_I64(size, -1);
                break;
            }
        }
    }
}

TEST(a_checksum_continues_where_another_ended)
{
    fill();
    const uint32_t whole = sgs_crc32c(0, data, 9000);
    for (size_t cut = 0; cut <= 9000; cut += 111)
        EXPECT_EQ_U64(sgs_crc32c(sgs_crc32c(0, data, cut), data + cut, 9000 - cut), whole);
}

TEST(one_wrong_bit_anywhere_is_seen)
{
    fill();
    const uint32_t right = sgs_crc32c(0, data, 5000);
    for (size_t bit = 0; bit < 5000 * 8; bit += 13) {
        data[bit / 8] ^= (uint8_t)(1 << bit % 8);
        EXPECT_TRUE(sgs_crc32c(0, data, 5000) != right);
        data[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
}

TEST(the_best_supported_route_is_the_one_taken)
{
    const sgs_crc32c_route *routes;
    const size_t count = sgs_crc32c_routes(&routes);
    REQUIRE_TRUE(count >= 1);
    EXPECT_TEXT(routes[count - 1].name, "portable");
    EXPECT_TRUE(routes[count - 1].is_supported());
    size_t best = 0;
    while (!routes[best].is_supported())
        ++best;
    EXPECT_TEXT(sgs_crc32c_implementation(), routes[best].name);
}

TEST_MAIN()
