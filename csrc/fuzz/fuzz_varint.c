/* Any bytes may stand where a varint is expected. A reader must stay inside them, agree with the rule written out plainly,
 * and read back what a writer wrote. [DUR-88, format.md 2.1]
 * INPUT  the bytes of one number, and what follows.   ORACLE  the rule, bit by bit; the writers. */
#include "base/varint.h"

#include "fuzz/fuzz_input.h"

/* How many bytes the number takes, 0 when it is refused; the bits that fit are added to *pattern. */
static size_t by_the_rule(const uint8_t *data, size_t size, size_t max_bytes, unsigned width, uint64_t *pattern)
{
    *pattern = 0;
    for (size_t i = 0; i < size && i < max_bytes; ++i) {
        for (unsigned bit = 0; bit < 7; ++bit) {
            const unsigned at = 7 * (unsigned)i + bit;
            if (at < width && (data[i] >> bit & 1) != 0)
                *pattern |= UINT64_C(1) << at;
        }
        if ((data[i] & 0x80) == 0)
            return i + 1;
    }
    return 0;
}

static int64_t unzigzag(uint64_t pattern)
{
    return (int64_t)(pattern >> 1) * ((pattern & 1) != 0 ? -1 : 1) - (int64_t)(pattern & 1);
}

static void check_varint(const uint8_t *data, size_t size)
{
    uint64_t pattern;
    const size_t taken = by_the_rule(data, size, SGS_VARINT_MAX_BYTES, 32, &pattern);
    const uint8_t *next = data;
    int32_t value = 0;
    uint32_t unsigned_value = 0;
    FUZZ_CHECK(sgs_varint_read(&next, data + size, &value) == (taken > 0));
    FUZZ_CHECK(next == data + taken);
    next = data;
    FUZZ_CHECK(sgs_uvarint_read(&next, data + size, &unsigned_value) == (taken > 0));
    FUZZ_CHECK(next == data + taken);
    if (taken == 0)
        return;
    FUZZ_CHECK(unsigned_value == pattern);
    FUZZ_CHECK(value == unzigzag(pattern));

    uint8_t shortest[SGS_VARINT_MAX_BYTES];
    const size_t written = (size_t)(sgs_varint_write(shortest, value) - shortest);
    FUZZ_CHECK(written == (size_t)sgs_varint_size(value) && written <= taken);
    int32_t again = 0;
    next = shortest;
    FUZZ_CHECK(sgs_varint_read(&next, shortest + written, &again) && again == value && next == shortest + written);

    const uint8_t *const behind = sgs_uvarint_write(shortest, unsigned_value);
    FUZZ_CHECK(behind - shortest == sgs_uvarint_size(unsigned_value) && (size_t)(behind - shortest) <= taken);
    next = shortest;
    uint32_t unsigned_again = 0;
    FUZZ_CHECK(sgs_uvarint_read(&next, behind, &unsigned_again) && unsigned_again == unsigned_value && next == behind);
}

static void check_varlong(const uint8_t *data, size_t size)
{
    uint64_t pattern;
    const size_t taken = by_the_rule(data, size, SGS_VARLONG_MAX_BYTES, 64, &pattern);
    const uint8_t *next = data;
    int64_t value = 0;
    FUZZ_CHECK(sgs_varlong_read(&next, data + size, &value) == (taken > 0));
    FUZZ_CHECK(next == data + taken);
    uint64_t unsigned_value = 0;
    next = data;
    FUZZ_CHECK(sgs_uvarlong_read(&next, data + size, &unsigned_value) == (taken > 0));
    FUZZ_CHECK(next == data + taken);
    if (taken == 0)
        return;
    FUZZ_CHECK(unsigned_value == pattern);
    FUZZ_CHECK(value == unzigzag(pattern));

    uint8_t shortest[SGS_VARLONG_MAX_BYTES];
    const size_t written = (size_t)(sgs_varlong_write(shortest, value) - shortest);
    FUZZ_CHECK(written == (size_t)sgs_varlong_size(value) && written <= taken);
    int64_t again = 0;
    next = shortest;
    FUZZ_CHECK(sgs_varlong_read(&next, shortest + written, &again) && again == value && next == shortest + written);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    check_varint(data, size);
    check_varlong(data, size);
    return 0;
}
