/* test_md5.c - the suite of RFC 1321 A.5, and every length around the ends of a block. */
#include "base/md5.h"

#include "test.h"

static void expect(const char *text, const char *expected)
{
    uint8_t digest[SGS_MD5_BYTES];
    char hex[2 * SGS_MD5_BYTES + 1];
    sgs_md5((const uint8_t *)text, strlen(text), digest);
    for (int i = 0; i < SGS_MD5_BYTES; ++i)
        (void)snprintf(hex + 2 * i, 3, "%02x", digest[i]);
    EXPECT_TEXT(hex, expected);
}

TEST(digests_are_those_of_the_rfc)
{
    expect("", "d41d8cd98f00b204e9800998ecf8427e");
    expect("a", "0cc175b9c0f1b6a831c399e269772661");
    expect("abc", "900150983cd24fb0d6963f7d28e17f72");
    expect("message digest", "f96b697d7cb7938d525a2f31aaf161d0");
    expect("abcdefghijklmnopqrstuvwxyz", "c3fcd3d76192e4007dfb496cca67e13b");
    expect("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789", "d174ab98d277d9f5a5611c2c9f419d9f");
    expect("12345678901234567890123456789012345678901234567890123456789012345678901234567890",
           "57edf4a22be3c955ac49da2e2107b67a");
}

TEST(nothing_may_be_nowhere)
{
    uint8_t digest[SGS_MD5_BYTES];
    sgs_md5(NULL, 0, digest);
    EXPECT_EQ_I64(digest[0], 0xD4);
}

TEST(every_length_around_a_block_is_padded_rightly) /* the digests, hashed: by another implementation */
{
    uint8_t data[200], digests[200 * SGS_MD5_BYTES], digest[SGS_MD5_BYTES];
    for (size_t size = 0; size < sizeof data; ++size) {
        data[size] = (uint8_t)(size * 7);
        sgs_md5(data, size, digests + size * SGS_MD5_BYTES);
    }
    sgs_md5(digests, sizeof digests, digest);
    const uint8_t expected[SGS_MD5_BYTES] = { 0x89, 0xF2, 0x89, 0xDB, 0xA0, 0xCB, 0x92, 0xB4,
                                              0x50, 0xC0, 0x76, 0xA8, 0x95, 0x22, 0x37, 0xE2 };
    EXPECT_MEM(digest, expected, sizeof digest);
}

TEST_MAIN()
