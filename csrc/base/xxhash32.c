/* xxhash32.c - four lanes over stripes of 16 bytes, then what is left, then an avalanche. */
#include "base/xxhash32.h"

#include "base/bytes.h"

enum { STRIPE_BYTES = 16, LANES = 4 };

static const uint32_t PRIME_1 = 0x9E3779B1U, PRIME_2 = 0x85EBCA77U, PRIME_3 = 0xC2B2AE3DU, PRIME_4 = 0x27D4EB2FU,
                      PRIME_5 = 0x165667B1U;

static uint32_t rotate(uint32_t value, unsigned bits) { return (value << bits) | (value >> (32 - bits)); }

uint32_t sgs_xxhash32(const uint8_t *data, size_t size)
{
    const uint32_t total = (uint32_t)size;
    uint32_t hash = PRIME_5;
    if (size >= STRIPE_BYTES) {
        uint32_t lanes[LANES] = { PRIME_1 + PRIME_2, PRIME_2, 0, 0U - PRIME_1 };
        for (; size >= STRIPE_BYTES; size -= STRIPE_BYTES)
            for (unsigned lane = 0; lane < LANES; ++lane, data += 4)
                lanes[lane] = rotate(lanes[lane] + sgs_load_le32(data) * PRIME_2, 13) * PRIME_1;
        hash = rotate(lanes[0], 1) + rotate(lanes[1], 7) + rotate(lanes[2], 12) + rotate(lanes[3], 18);
    }
    hash += total;
    for (; size >= 4; size -= 4, data += 4)
        hash = rotate(hash + sgs_load_le32(data) * PRIME_3, 17) * PRIME_4;
    for (; size > 0; --size, ++data)
        hash = rotate(hash + *data * PRIME_5, 11) * PRIME_1;
    hash = (hash ^ (hash >> 15)) * PRIME_2;
    hash = (hash ^ (hash >> 13)) * PRIME_3;
    return hash ^ (hash >> 16);
}
