/* test_siphash.c - the keyed hash of the cleaner's map. */
#include "base/siphash.h"

#include "record_kit.h"
#include "test.h"

/* The secret and the bytes 0, 1, 2 ... of the reference's own test. The values come from a program that gives the
 * reference's 128-bit values for two and four rounds, with one and three. */
TEST(siphash_is_the_reference_one_with_one_and_three_rounds)
{
    static const struct {
        size_t size;
        const char *hash;
    } cases[] = {
        { 0, "e77ebcb22788a5befd62db6add303001" },  { 1, "fc6f370460d3eda85e0573cc2b2ff063" },
        { 7, "1084b923f2aae0c3a62f2ec80848ab77" },  { 8, "aa12fee1d5e3dab4724f16ab35f9c799" },
        { 15, "c17e5505b2bd526c2921cdec1e7e0109" }, { 16, "d0a8d95715518eebb513b0f83d9e1793" },
        { 33, "c5f57bae1320fcf4b4e868e71d56c66b" },
    };
    const uint64_t secret[2] = { UINT64_C(0x0706050403020100), UINT64_C(0x0f0e0d0c0b0a0908) };
    uint8_t data[33], hash[SGS_SIPHASH_BYTES];
    for (uint8_t i = 0; i < sizeof data; ++i)
        data[i] = i;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        sgs_siphash128(secret, cases[i].size == 0 ? NULL : data, cases[i].size, hash);
        EXPECT_MEM(hash, kit_hex(cases[i].hash).data, sizeof hash);
    }
}

TEST(another_secret_gives_another_hash)
{
    uint8_t one[SGS_SIPHASH_BYTES], other[SGS_SIPHASH_BYTES];
    sgs_siphash128((const uint64_t[2]){ 1, 2 }, (const uint8_t *)"k", 1, one);
    sgs_siphash128((const uint64_t[2]){ 1, 3 }, (const uint8_t *)"k", 1, other);
    EXPECT_TRUE(memcmp(one, other, sizeof one) != 0);
}

TEST_MAIN()
