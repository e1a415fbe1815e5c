/* md5.c - RFC 1321: four rounds of sixteen steps over blocks of 64 bytes; words are little-endian. */
#include "base/md5.h"

#include <string.h>

#include "base/bytes.h"

enum { BLOCK_BYTES = 64, BLOCK_WORDS = 16, LENGTH_AT = 56 };

/* Rotations so many bits to the left; each step of a round names its words, so that they stay in registers. */
#define ROTATED(value, bits) (((value) << (bits)) | ((value) >> (32 - (bits))))
#define STEP(mix, a, b, c, d, word, bits, sine)      \
    do {                                             \
        (a) += mix((b), (c), (d)) + (word) + (sine); \
        (a) = ROTATED((a), (bits)) + (b);            \
    } while (0)
#define MIX_1(x, y, z) ((z) ^ ((x) & ((y) ^ (z))))
#define MIX_2(x, y, z) ((y) ^ ((z) & ((x) ^ (y))))
#define MIX_3(x, y, z) ((x) ^ (y) ^ (z))
#define MIX_4(x, y, z) ((y) ^ ((x) | ~(z)))

static void add_block(uint32_t state[4], const uint8_t *block)
{
    uint32_t w[BLOCK_WORDS];
    for (int i = 0; i < BLOCK_WORDS; ++i)
        w[i] = sgs_load_le32(block + 4 * i);
    uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
    STEP(MIX_1, a, b, c, d, w[0], 7, 0xD76AA478U);
    STEP(MIX_1, d, a, b, c, w[1], 12, 0xE8C7B756U);
    STEP(MIX_1, c, d, a, b, w[2], 17, 0x242070DBU);
    STEP(MIX_1, b, c, d, a, w[3], 22, 0xC1BDCEEEU);
    STEP(MIX_1, a, b, c, d, w[4], 7, 0xF57C0FAFU);
    STEP(MIX_1, d, a, b, c, w[5], 12, 0x4787C62AU);
    STEP(MIX_1, c, d, a, b, w[6], 17, 0xA8304613U);
    STEP(MIX_1, b, c, d, a, w[7], 22, 0xFD469501U);
    STEP(MIX_1, a, b, c, d, w[8], 7, 0x698098D8U);
    STEP(MIX_1, d, a, b, c, w[9], 12, 0x8B44F7AFU);
    STEP(MIX_1, c, d, a, b, w[10], 17, 0xFFFF5BB1U);
    STEP(MIX_1, b, c, d, a, w[11], 22, 0x895CD7BEU);
    STEP(MIX_1, a, b, c, d, w[12], 7, 0x6B901122U);
    STEP(MIX_1, d, a, b, c, w[13], 12, 0xFD987193U);
    STEP(MIX_1, c, d, a, b, w[14], 17, 0xA679438EU);
    STEP(MIX_1, b, c, d, a, w[15], 22, 0x49B40821U);

    STEP(MIX_2, a, b, c, d, w[1], 5, 0xF61E2562U);
    STEP(MIX_2, d, a, b, c, w[6], 9, 0xC040B340U);
    STEP(MIX_2, c, d, a, b, w[11], 14, 0x265E5A51U);
    STEP(MIX_2, b, c, d, a, w[0], 20, 0xE9B6C7AAU);
    STEP(MIX_2, a, b, c, d, w[5], 5, 0xD62F105DU);
    STEP(MIX_2, d, a, b, c, w[10], 9, 0x02441453U);
    STEP(MIX_2, c, d, a, b, w[15], 14, 0xD8A1E681U);
    STEP(MIX_2, b, c, d, a, w[4], 20, 0xE7D3FBC8U);
    STEP(MIX_2, a, b, c, d, w[9], 5, 0x21E1CDE6U);
    STEP(MIX_2, d, a, b, c, w[14], 9, 0xC33707D6U);
    STEP(MIX_2, c, d, a, b, w[3], 14, 0xF4D50D87U);
    STEP(MIX_2, b, c, d, a, w[8], 20, 0x455A14EDU);
    STEP(MIX_2, a, b, c, d, w[13], 5, 0xA9E3E905U);
    STEP(MIX_2, d, a, b, c, w[2], 9, 0xFCEFA3F8U);
    STEP(MIX_2, c, d, a, b, w[7], 14, 0x676F02D9U);
    STEP(MIX_2, b, c, d, a, w[12], 20, 0x8D2A4C8AU);

    STEP(MIX_3, a, b, c, d, w[5], 4, 0xFFFA3942U);
    STEP(MIX_3, d, a, b, c, w[8], 11, 0x8771F681U);
    STEP(MIX_3, c, d, a, b, w[11], 16, 0x6D9D6122U);
    STEP(MIX_3, b, c, d, a, w[14], 23, 0xFDE5380CU);
    STEP(MIX_3, a, b, c, d, w[1], 4, 0xA4BEEA44U);
    STEP(MIX_3, d, a, b, c, w[4], 11, 0x4BDECFA9U);
    STEP(MIX_3, c, d, a, b, w[7], 16, 0xF6BB4B60U);
    STEP(MIX_3, b, c, d, a, w[10], 23, 0xBEBFBC70U);
    STEP(MIX_3, a, b, c, d, w[13], 4, 0x289B7EC6U);
    STEP(MIX_3, d, a, b, c, w[0], 11, 0xEAA127FAU);
    STEP(MIX_3, c, d, a, b, w[3], 16, 0xD4EF3085U);
    STEP(MIX_3, b, c, d, a, w[6], 23, 0x04881D05U);
    STEP(MIX_3, a, b, c, d, w[9], 4, 0xD9D4D039U);
    STEP(MIX_3, d, a, b, c, w[12], 11, 0xE6DB99E5U);
    STEP(MIX_3, c, d, a, b, w[15], 16, 0x1FA27CF8U);
    STEP(MIX_3, b, c, d, a, w[2], 23, 0xC4AC5665U);

    STEP(MIX_4, a, b, c, d, w[0], 6, 0xF4292244U);
    STEP(MIX_4, d, a, b, c, w[7], 10, 0x432AFF97U);
    STEP(MIX_4, c, d, a, b, w[14], 15, 0xAB9423A7U);
    STEP(MIX_4, b, c, d, a, w[5], 21, 0xFC93A039U);
    STEP(MIX_4, a, b, c, d, w[12], 6, 0x655B59C3U);
    STEP(MIX_4, d, a, b, c, w[3], 10, 0x8F0CCC92U);
    STEP(MIX_4, c, d, a, b, w[10], 15, 0xFFEFF47DU);
    STEP(MIX_4, b, c, d, a, w[1], 21, 0x85845DD1U);
    STEP(MIX_4, a, b, c, d, w[8], 6, 0x6FA87E4FU);
    STEP(MIX_4, d, a, b, c, w[15], 10, 0xFE2CE6E0U);
    STEP(MIX_4, c, d, a, b, w[6], 15, 0xA3014314U);
    STEP(MIX_4, b, c, d, a, w[13], 21, 0x4E0811A1U);
    STEP(MIX_4, a, b, c, d, w[4], 6, 0xF7537E82U);
    STEP(MIX_4, d, a, b, c, w[11], 10, 0xBD3AF235U);
    STEP(MIX_4, c, d, a, b, w[2], 15, 0x2AD7D2BBU);
    STEP(MIX_4, b, c, d, a, w[9], 21, 0xEB86D391U);

    state[0] += a;
    state[1] += b;
    state[2] += c;
    state[3] += d;
}

void sgs_md5(const uint8_t *data, size_t size, uint8_t digest[SGS_MD5_BYTES])
{
    uint32_t state[4] = { 0x67452301U, 0xEFCDAB89U, 0x98BADCFEU, 0x10325476U };
    size_t left = size;
    for (; left >= BLOCK_BYTES; left -= BLOCK_BYTES, data += BLOCK_BYTES)
        add_block(state, data);

    uint8_t last[2 * BLOCK_BYTES] = { 0 }; /* the rest, a bit, zeros, and the length in bits at the end of a block */
    if (left > 0)
        memcpy(last, data, left);
    last[left] = 0x80;
    const size_t last_bytes = left < LENGTH_AT ? BLOCK_BYTES : 2 * BLOCK_BYTES;
    const uint64_t bits = (uint64_t)size << 3;
    sgs_store_le32(last + last_bytes - 8, (uint32_t)bits);
    sgs_store_le32(last + last_bytes - 4, (uint32_t)(bits >> 32));
    add_block(state, last);
    if (last_bytes > BLOCK_BYTES)
        add_block(state, last + BLOCK_BYTES);

    for (int i = 0; i < 4; ++i)
        sgs_store_le32(digest + 4 * i, state[i]);
}
