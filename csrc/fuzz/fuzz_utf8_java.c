/* Header keys, topics and the text of a dump may be any bytes. They become valid UTF-8 as Java makes it, within three
 * times their size, and what is valid stays. [format.md 18.2]
 * INPUT   the bytes.   ORACLE  the decoder of java.lang.String, branch by branch, to code points and back. */
#include "record/utf8_java.h"

#include <string.h>

#include "fuzz/fuzz_input.h"

enum { REPLACEMENT = 0xFFFD, LONGEST = 96 };

typedef struct java_source { /* Java's src, sp and sl */
    const uint8_t *bytes;
    size_t at, size;
} java_source;

static bool no_continuation(uint8_t byte) { return (byte & 0xC0) != 0x80; }

static bool is_malformed_3_2(uint8_t first, uint8_t second)
{
    return (first == 0xE0 && (second & 0xE0) == 0x80) || no_continuation(second);
}

static bool is_malformed_4_2(uint8_t first, uint8_t second)
{
    return (first == 0xF0 && (second < 0x90 || second > 0xBF)) || (first == 0xF4 && (second & 0xF0) != 0x80) ||
           no_continuation(second);
}

/* Java's loop body for a lead E0 to EF, which has been taken. */
static uint32_t decode_three(java_source *source, uint8_t first)
{
    const uint8_t *const bytes = source->bytes;
    if (source->size - source->at >= 2) {
        const uint8_t second = bytes[source->at], third = bytes[source->at + 1];
        if (is_malformed_3_2(first, second))
            return REPLACEMENT;
        if (no_continuation(third)) {
            source->at += 1;
            return REPLACEMENT;
        }
        source->at += 2;
        const uint32_t point = (first & 0x0FU) << 12 | (second & 0x3FU) << 6 | (third & 0x3FU);
        return point >= 0xD800 && point <= 0xDFFF ? REPLACEMENT : point;
    }
    if (source->at < source->size && is_malformed_3_2(first, bytes[source->at]))
        return REPLACEMENT;
    source->at = source->size; /* Java leaves the loop */
    return REPLACEMENT;
}

/* The same for a lead F0 to F7. */
static uint32_t decode_four(java_source *source, uint8_t first)
{
    const uint8_t *const bytes = source->bytes;
    if (source->size - source->at >= 3) {
        const uint8_t second = bytes[source->at], third = bytes[source->at + 1], fourth = bytes[source->at + 2];
        const uint32_t point = (first & 0x07U) << 18 | (second & 0x3FU) << 12 | (third & 0x3FU) << 6 | (fourth & 0x3FU);
        if (no_continuation(second) || no_continuation(third) || no_continuation(fourth) || point < 0x10000 ||
            point > 0x10FFFF) {
            if (first > 0xF4 || is_malformed_4_2(first, second))
                return REPLACEMENT;
            source->at += no_continuation(third) ? 1 : 2;
            return REPLACEMENT;
        }
        source->at += 3;
        return point;
    }
    if (first > 0xF4 || (source->at < source->size && is_malformed_4_2(first, bytes[source->at])))
        return REPLACEMENT;
    source->at += 1;
    if (source->at < source->size && no_continuation(bytes[source->at]))
        return REPLACEMENT;
    source->at = source->size;
    return REPLACEMENT;
}

static uint32_t decode_one(java_source *source)
{
    const uint8_t first = source->bytes[source->at++];
    if (first < 0x80)
        return first;
    if (first >> 5 == 6 && (first & 0x1E) != 0) {
        if (source->at == source->size || no_continuation(source->bytes[source->at]))
            return REPLACEMENT;
        return (first & 0x1FU) << 6 | (source->bytes[source->at++] & 0x3FU);
    }
    if (first >> 4 == 14)
        return decode_three(source, first);
    return first >> 3 == 30 ? decode_four(source, first) : REPLACEMENT;
}

static size_t encode(uint8_t *out, uint32_t point)
{
    if (point < 0x80) {
        out[0] = (uint8_t)point;
        return 1;
    }
    const size_t count = point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
    for (size_t i = count - 1; i > 0; --i) {
        out[i] = (uint8_t)(0x80 | (point & 0x3F));
        point >>= 6;
    }
    out[0] = (uint8_t)(0xF00U >> count | point);
    return count;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > LONGEST) /* a sequence has 4 bytes, a word 8: more of the same takes time and finds nothing */
        size = LONGEST;
    uint8_t *const expected = malloc(3 * size + 1);
    uint8_t *const out = malloc(3 * size + 1);
    uint8_t *const again = malloc(3 * size + 1);
    FUZZ_CHECK(expected != NULL && out != NULL && again != NULL);
    java_source source = { data, 0, size };
    size_t expected_size = 0;
    while (source.at < size)
        expected_size += encode(expected + expected_size, decode_one(&source));

    const size_t out_size = (size_t)(sgs_utf8_java_replace(out, data, size) - out);
    FUZZ_CHECK(out_size == expected_size && out_size <= 3 * size);
    FUZZ_CHECK(size == 0 || memcmp(out, expected, out_size) == 0);
    const bool is_same = out_size == size && (size == 0 || memcmp(out, data, size) == 0);
    FUZZ_CHECK(sgs_utf8_is_valid(data, size) == is_same);
    FUZZ_CHECK(sgs_utf8_is_valid(out, out_size));
    if (out_size <= size) { /* room for three times as much */
        FUZZ_CHECK((size_t)(sgs_utf8_java_replace(again, out, out_size) - again) == out_size);
        FUZZ_CHECK(size == 0 || memcmp(again, out, out_size) == 0);
    }
    free(expected);
    free(out);
    free(again);
    return 0;
}
