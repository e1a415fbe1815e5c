/* utf8_java.c - the malformed-length rules of java.lang.String.decodeUTF8. */
#include "record/utf8_java.h"

#include <string.h>

static bool is_continuation(uint8_t byte) { return (byte & 0xC0) == 0x80; }

static size_t step_three(const uint8_t *at, size_t left, bool *valid)
{
    if (left > 1 && (!is_continuation(at[1]) || (at[0] == 0xE0 && at[1] < 0xA0)))
        return 1;
    if (left < 3)
        return left; /* valid so far, cut by the end: one replacement for all of it */
    if (!is_continuation(at[2]))
        return 2;
    *valid = !(at[0] == 0xED && at[1] >= 0xA0); /* a surrogate is replaced whole */
    return 3;
}

static size_t step_four(const uint8_t *at, size_t left, bool *valid)
{
    if (at[0] > 0xF4)
        return 1;
    if (left > 1 && (!is_continuation(at[1]) || (at[0] == 0xF0 && at[1] < 0x90) || (at[0] == 0xF4 && at[1] > 0x8F)))
        return 1;
    if (left > 2 && !is_continuation(at[2]))
        return 2;
    if (left < 4)
        return left;
    if (!is_continuation(at[3]))
        return 3;
    *valid = true;
    return 4;
}

size_t sgs_utf8_java_step(const uint8_t *at, const uint8_t *end, bool *valid)
{
    const size_t left = (size_t)(end - at);
    const uint8_t lead = at[0];
    *valid = false;
    if (lead < 0x80) {
        *valid = true;
        return 1;
    }
    if (lead >= 0xC2 && lead <= 0xDF) {
        *valid = left > 1 && is_continuation(at[1]);
        return *valid ? 2 : 1;
    }
    if (lead >= 0xE0 && lead <= 0xEF)
        return step_three(at, left, valid);
    if (lead >= 0xF0 && lead <= 0xF7)
        return step_four(at, left, valid);
    return 1; /* a lone continuation byte, C0, C1, F8 to FF */
}

/* @return the first byte from `at` on that is not ASCII, or `end` */
static const uint8_t *skip_ascii(const uint8_t *at, const uint8_t *end)
{
    for (; end - at >= 8; at += 8) {
        uint64_t word;
        memcpy(&word, at, sizeof word);
        if ((word & UINT64_C(0x8080808080808080)) != 0)
            break;
    }
    while (at < end && *at < 0x80)
        ++at;
    return at;
}

bool sgs_utf8_is_valid(const uint8_t *data, size_t size)
{
    if (size == 0)
        return true;
    const uint8_t *const end = data + size;
    for (const uint8_t *at = skip_ascii(data, end); at < end; at = skip_ascii(at, end)) {
        bool valid;
        at += sgs_utf8_java_step(at, end, &valid);
        if (!valid)
            return false;
    }
    return true;
}

size_t sgs_utf8_java_replaced_size(const uint8_t *data, size_t size)
{
    size_t written = 0;
    for (size_t at = 0; at < size;) {
        bool valid;
        const size_t step = sgs_utf8_java_step(data + at, data + size, &valid);
        written += valid ? step : (size_t)SGS_UTF8_REPLACEMENT_BYTES;
        at += step;
    }
    return written;
}

uint8_t *sgs_utf8_java_replace(uint8_t *out, const uint8_t *data, size_t size)
{
    static const uint8_t replacement[SGS_UTF8_REPLACEMENT_BYTES] = { 0xEF, 0xBF, 0xBD };
    if (size == 0)
        return out;
    const uint8_t *const end = data + size;
    for (const uint8_t *at = data; at < end;) {
        bool valid;
        const size_t step = sgs_utf8_java_step(at, end, &valid);
        const size_t written = valid ? step : sizeof replacement;
        memcpy(out, valid ? at : replacement, written);
        out += written;
        at += step;
    }
    return out;
}
