/* mutate.c - bits, bytes, numbers at the edge of their range, blocks, and pieces of other inputs. */
#include "fuzz/mutate.h"

#include <string.h>

/* splitmix64: one multiplication chain, any seed is good */
static uint64_t next_random(fuzz_random *random)
{
    uint64_t value = (random->state += 0x9E3779B97F4A7C15U);
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9U;
    value = (value ^ (value >> 27)) * 0x94D049BB133111EBU;
    return value ^ (value >> 31);
}

size_t fuzz_random_below(fuzz_random *random, size_t limit) { return (size_t)(next_random(random) % limit); }

/* Where lengths, counts, offsets and varints change their mind. */
static uint64_t edge_number(fuzz_random *random)
{
    static const uint64_t edges[] = { 0,
                                      1,
                                      2,
                                      14,
                                      17,
                                      49,
                                      61,
                                      0x3F,
                                      0x40,
                                      0x7F,
                                      0x80,
                                      0xFF,
                                      0x100,
                                      0x7FFF,
                                      0x8000,
                                      0xFFFF,
                                      0x7FFFFFFF,
                                      0x80000000U,
                                      0xFFFFFFFFU,
                                      0x7FFFFFFFFFFFFFFF,
                                      0x8000000000000000U,
                                      UINT64_MAX };
    const uint64_t edge = edges[fuzz_random_below(random, sizeof edges / sizeof edges[0])];
    return edge + fuzz_random_below(random, 3) - 1;
}

static void put_number(fuzz_random *random, uint8_t *at, size_t width)
{
    const uint64_t number = edge_number(random);
    const int little_endian = fuzz_random_below(random, 8) == 0; /* Kafka's numbers are big-endian */
    for (size_t i = 0; i < width; ++i)
        at[i] = (uint8_t)(number >> 8 * (little_endian ? i : width - 1 - i));
}

static size_t remove_block(fuzz_random *random, uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    const size_t at = fuzz_random_below(random, size);
    const size_t count = 1 + fuzz_random_below(random, fuzz_random_below(random, 2) == 0 ? size - at : 1);
    memmove(data + at, data + at + count, size - at - count);
    return size - count;
}

/* Put `count` bytes of `from` into the input, over what is there or between. */
static size_t put_block(fuzz_random *random, uint8_t *data, size_t size, size_t max_size, const uint8_t *from,
                        size_t count)
{
    const size_t at = fuzz_random_below(random, size + 1);
    if (fuzz_random_below(random, 2) == 0) { /* over */
        if (count > max_size - at)
            count = max_size - at;
        memmove(data + at, from, count);
        return at + count > size ? at + count : size;
    }
    if (count > max_size - size)
        count = max_size - size;
    const int is_inside = from >= data && from < data + size;
    const size_t moved_from = is_inside && (size_t)(from - data) >= at ? (size_t)(from - data) + count : 0;
    memmove(data + at + count, data + at, size - at);
    if (moved_from > 0 && moved_from + count <= size + count)
        memmove(data + at, data + moved_from, count); /* the source has moved along */
    else
        memmove(data + at, from, count);
    return size + count;
}

static size_t mutate_once(fuzz_random *random, uint8_t *data, size_t size, size_t max_size, const uint8_t *other,
                          size_t other_size)
{
    static const uint8_t fillers[2][64] = { { 0 }, { 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF } };
    const size_t at = size > 0 ? fuzz_random_below(random, size) : 0;
    switch (fuzz_random_below(random, 10)) {
    case 0:
    case 1:
        if (size > 0)
            data[at] ^= (uint8_t)(1U << fuzz_random_below(random, 8));
        return size;
    case 2:
        if (size > 0)
            data[at] = (uint8_t)next_random(random);
        return size;
    case 3:
        if (size > 0)
            data[at] = (uint8_t)(data[at] + fuzz_random_below(random, 33) - 16);
        return size;
    case 4: {
        const size_t width = (size_t)1 << fuzz_random_below(random, 4);
        if (size >= width)
            put_number(random, data + fuzz_random_below(random, size - width + 1), width);
        return size;
    }
    case 5:
        return remove_block(random, data, size);
    case 6: { /* a new number between */
        uint8_t number[8];
        const size_t width = (size_t)1 << fuzz_random_below(random, 4);
        put_number(random, number, width);
        return put_block(random, data, size, max_size, number, width);
    }
    case 7: /* a run of zeros or ones, as after a crash */
        return put_block(random, data, size, max_size, fillers[fuzz_random_below(random, 2)],
                         1 + fuzz_random_below(random, 64));
    case 8: /* a piece of itself */
        return size == 0 ? 0
                         : put_block(random, data, size, max_size, data + at, 1 + fuzz_random_below(random, size - at));
    default: { /* a piece of another */
        if (other_size == 0)
            return size;
        const size_t from = fuzz_random_below(random, other_size);
        return put_block(random, data, size, max_size, other + from, 1 + fuzz_random_below(random, other_size - from));
    }
    }
}

size_t fuzz_mutate(fuzz_random *random, uint8_t *data, size_t size, size_t max_size, const uint8_t *other,
                   size_t other_size)
{
    const size_t times = (size_t)1 << fuzz_random_below(random, 5);
    for (size_t i = 0; i < times; ++i)
        size = mutate_once(random, data, size, max_size, other, other_size);
    return size;
}
