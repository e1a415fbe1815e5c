/* crc32c_arm: the ends of its blocks, where constants and lengths could be off by one. */
#include "base/crc32c_routes.h"
#include "test.h"

#ifdef SGS_CRC32C_ARM

static const sgs_crc32c_route routes[] = {
    { "armv8", sgs_crc32c_has_armv8, sgs_crc32c_armv8 },
};
static const size_t block_bytes[] = { 4080 };

TEST(whole_blocks_and_their_neighbours_agree_with_the_tables)
{
    static uint8_t data[3 * 4080 + 2];
    for (size_t i = 0; i < sizeof data; ++i)
        data[i] = (uint8_t)(i * i >> 3);
    for (size_t r = 0; r < sizeof routes / sizeof routes[0]; ++r) {
        for (size_t b = 0; routes[r].is_supported() && b < sizeof block_bytes / sizeof block_bytes[0]; ++b) {
            for (size_t blocks = 1; blocks <= 3; ++blocks) {
                const size_t size = blocks * block_bytes[b];
                for (size_t near = size - 1; near <= size + 1; ++near)
                    EXPECT_EQ_U64(routes[r].compute(0xDEADBEEF, data + 1, near),
                                  sgs_crc32c_portable(0xDEADBEEF, data + 1, near));
            }
        }
    }
}

TEST(a_better_route_needs_what_the_one_below_needs)
{
    for (size_t r = 1; r < sizeof routes / sizeof routes[0]; ++r)
        EXPECT_TRUE(!routes[r - 1].is_supported() || routes[r].is_supported());
    EXPECT_TRUE(routes[0].name[0] != '\0');
}

#else

TEST(elsewhere_the_list_of_routes_does_not_name_this_one)
{
    const sgs_crc32c_route *all;
    const size_t count = sgs_crc32c_routes(&all);
    for (size_t i = 0; i < count; ++i)
        EXPECT_TRUE(strcmp(all[i].name, "armv8") != 0);
}

#endif

TEST(polynomials_are_multiplied_modulo_p)
{
    const uint32_t one = 0x80000000U; /* x^0 */
    const uint32_t x = 0x40000000U;
    uint32_t power = one;
    for (int i = 0; i < 8 * 1360; ++i)
        power = sgs_crc32c_multiply(power, x);
    EXPECT_EQ_U64(power, 0xD6A79573U); /* x^(8*1360), the constant of the long chains */
    EXPECT_EQ_U64(sgs_crc32c_multiply(power, one), power);
    EXPECT_EQ_U64(sgs_crc32c_multiply(power, power), 0x4672C7F2U);
}

TEST_MAIN()
