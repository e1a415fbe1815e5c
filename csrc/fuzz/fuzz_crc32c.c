/* Every batch and every old message has a checksum: whichever way this machine computes it, in one call or in two, from
 * any address, it must be the polynomial's and read nothing outside the bytes. [format.md 2.2]
 * INPUT   4 bytes checksum of what came before, 2 bytes where to split, then the bytes.
 * ORACLE  the polynomials, a bit at a time; where that takes too long, one route for another. */
#include "base/crc32c.h"

#include "base/crc32.h"
#include "fuzz/fuzz_input.h"

/* The reflected polynomials. */
static const uint32_t castagnoli = 0x82F63B78U, zlib = 0xEDB88320U;

enum { BITWISE_BYTES = 256, USUAL_BYTES = 2048, LONG_ONES = 64 };

static uint32_t shifted(uint32_t polynomial, uint32_t crc) { return crc >> 1 ^ (polynomial & (0U - (crc & 1))); }

static uint32_t bit_by_bit(uint32_t polynomial, uint32_t crc, const uint8_t *data, size_t size)
{
    crc = ~crc;
    for (size_t i = 0; i < size; ++i) {
        crc ^= data[i];
        crc = shifted(polynomial, shifted(polynomial, shifted(polynomial, shifted(polynomial, crc))));
        crc = shifted(polynomial, shifted(polynomial, shifted(polynomial, shifted(polynomial, crc))));
    }
    return ~crc;
}

static void check_crc32c(uint32_t before, const uint8_t *data, size_t size, size_t split)
{
    const bool is_short = size <= BITWISE_BYTES;
    const uint32_t expected = is_short ? bit_by_bit(castagnoli, before, data, size)
                                       : sgs_crc32c_portable(before, data, size); /* right for all short ones */
    const sgs_crc32c_route *routes;
    const size_t count = sgs_crc32c_routes(&routes);
    FUZZ_CHECK(count > 0 && routes[count - 1].compute == sgs_crc32c_portable);
    for (size_t i = 0; i < count; ++i) {
        if (!routes[i].is_supported())
            continue;
        const sgs_crc32c_function compute = routes[i].compute;
        FUZZ_CHECK(compute(before, data, size) == expected);
        FUZZ_CHECK(compute(compute(before, data, split), data + split, size - split) == expected);
    }
    FUZZ_CHECK(sgs_crc32c(before, data, size) == expected);
}

static void check_crc32(uint32_t before, const uint8_t *data, size_t size, size_t split)
{
    const uint32_t found = sgs_crc32(before, data, size);
    FUZZ_CHECK(sgs_crc32(sgs_crc32(before, data, split), data + split, size - split) == found);
    if (size <= BITWISE_BYTES)
        FUZZ_CHECK(found == bit_by_bit(zlib, before, data, size));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_input input = { data, size };
    const uint32_t before = fuzz_take_u32(&input);
    const size_t where = fuzz_take_u16(&input);
    if (input.size > USUAL_BYTES && before % LONG_ONES != 0)
        input.size = USUAL_BYTES;
    static const uint8_t nothing[1];
    const uint8_t *const bytes = input.size > 0 ? input.bytes : nothing;
    const size_t split = where % (input.size + 1);
    check_crc32c(before, bytes, input.size, split);
    check_crc32(before, bytes, input.size, split);
    return 0;
}
