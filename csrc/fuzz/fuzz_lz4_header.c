/* The payload of an old message claims to be an LZ4 frame. The checksum byte of its header is stamped in place: only that
 * byte may change, and only where the header is complete. [format.md 8.3]
 * INPUT   the frame.   ORACLE  xxHash32 written out from its specification, a byte at a time. */
#include "record/lz4_header.h"

#include <string.h>

#include "base/xxhash32.h"
#include "fuzz/fuzz_input.h"

static uint32_t rotated(uint32_t value, unsigned bits) { return value << bits | value >> (32 - bits); }

static uint32_t word(const uint8_t *at) /* little-endian */
{
    uint32_t value = 0;
    for (unsigned i = 4; i > 0; --i)
        value = value * 256 + at[i - 1];
    return value;
}

/* The primes in decimal, as the specification has them. */
static uint32_t plain_hash(const uint8_t *data, size_t size)
{
    const uint32_t first = 2654435761U, second = 2246822519U, third = 3266489917U, fourth = 668265263U,
                   fifth = 374761393U;
    size_t at = 0;
    uint32_t hash = fifth;
    if (size >= 16) {
        uint32_t a = first + second, b = second, c = 0, d = 0U - first;
        while (size - at >= 16) {
            a = rotated(a + word(data + at) * second, 13) * first;
            b = rotated(b + word(data + at + 4) * second, 13) * first;
            c = rotated(c + word(data + at + 8) * second, 13) * first;
            d = rotated(d + word(data + at + 12) * second, 13) * first;
            at += 16;
        }
        hash = rotated(a, 1) + rotated(b, 7) + rotated(c, 12) + rotated(d, 18);
    }
    hash += (uint32_t)size;
    for (; size - at >= 4; at += 4)
        hash = rotated(hash + word(data + at) * third, 17) * fourth;
    for (; at < size; ++at)
        hash = rotated(hash + data[at] * fifth, 11) * first;
    hash ^= hash >> 15;
    hash *= second;
    hash ^= hash >> 13;
    hash *= third;
    return hash ^ hash >> 16;
}

/* Where the checksum byte of the frame is, 0 when the bytes are no complete header. */
static size_t checksum_place(const uint8_t *frame, size_t size)
{
    static const uint8_t frame_magic[4] = { 0x04, 0x22, 0x4D, 0x18 };
    if (size < 7 || memcmp(frame, frame_magic, sizeof frame_magic) != 0)
        return 0;
    const size_t place = (frame[4] >> 3 & 1) != 0 ? 14 : 6;
    return place < size ? place : 0;
}

static void check_stamp(uint8_t *frame, const uint8_t *before, size_t size, bool historic)
{
    const size_t place = checksum_place(before, size);
    sgs_lz4_header_stamp(frame, size, historic);
    for (size_t i = 0; i < size; ++i)
        FUZZ_CHECK(frame[i] == before[i] || (i == place && place > 0));
    if (place == 0)
        return;
    const uint32_t hash = historic ? plain_hash(before, place) : plain_hash(before + 4, place - 4);
    FUZZ_CHECK(frame[place] == (uint8_t)(hash >> 8));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    FUZZ_CHECK(sgs_xxhash32(data, size) == plain_hash(data, size));
    uint8_t *const frame = malloc(size + 1);
    FUZZ_CHECK(frame != NULL);
    if (size > 0)
        memcpy(frame + 1, data, size);
    check_stamp(frame + 1, data, size, true);
    check_stamp(frame + 1, data, size, false); /* whatever stood there before */
    free(frame);
    return 0;
}
