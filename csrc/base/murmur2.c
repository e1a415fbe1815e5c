/* murmur2.c - MurmurHash2, 32 bits, as Kafka's Java computes it: the length is 32 bits wide and words are little-endian. */
#include "base/murmur2.h"

#include "base/bytes.h"

int32_t sgs_murmur2(const uint8_t *data, size_t size)
{
    const uint32_t seed = 0x9747B28C; /* Kafka's, for ever: it decides where keys live */
    const uint32_t multiplier = 0x5BD1E995;
    uint32_t hash = seed ^ (uint32_t)size;
    size_t left = size;
    for (; left >= 4; left -= 4, data += 4) {
        uint32_t word = sgs_load_le32(data);
        word *= multiplier;
        word ^= word >> 24;
        word *= multiplier;
        hash *= multiplier;
        hash ^= word;
    }
    if (left > 0) {
        if (left == 3)
            hash ^= (uint32_t)data[2] << 16;
        if (left >= 2)
            hash ^= (uint32_t)data[1] << 8;
        hash ^= data[0];
        hash *= multiplier;
    }
    hash ^= hash >> 13;
    hash *= multiplier;
    hash ^= hash >> 15;
    return (int32_t)hash;
}
