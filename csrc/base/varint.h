/* varint.h - variable-length integers [format.md 2.1], Kafka ByteUtils.
 *
 * FORMAT  base-128 groups, least significant first; the high bit of a byte says that another follows.
 *     uvarint  a 32-bit pattern, 1-5 bytes
 *     varint   int32 in zig-zag order (0, -1, 1, -2, ...), then as uvarint
 *     varlong  int64 in zig-zag order, 1-10 bytes
 * Writers emit the shortest form. Readers take longer forms too, and drop the bits of the last byte (the 5th or the 10th)
 * that do not fit, as Kafka does; a continuation bit in the last byte is refused [DUR-88].
 *
 * Reading is the hot path of decoding: lengths and deltas of neighbouring records take the same number of bytes, so the
 * branches on one and two bytes are predicted, and the next record does not wait for this one. */
#ifndef SGS_BASE_VARINT_H
#define SGS_BASE_VARINT_H

#include <stdbool.h>
#include <stdint.h>

enum { SGS_VARINT_MAX_BYTES = 5, SGS_VARLONG_MAX_BYTES = 10 };

/* The general cases of the readers below. */
bool sgs_uvarint_read_long(const uint8_t **next, const uint8_t *end, uint32_t *value);
bool sgs_uvarlong_read_long(const uint8_t **next, const uint8_t *end, uint64_t *value);
uint8_t *sgs_uvarint_write_long(uint8_t *out, uint32_t value);
uint8_t *sgs_uvarlong_write_long(uint8_t *out, uint64_t value);

static inline uint32_t sgs_zigzag_encode32(int32_t value)
{
    return ((uint32_t)value << 1) ^ (value < 0 ? UINT32_MAX : 0);
}

static inline int32_t sgs_zigzag_decode32(uint32_t pattern) { return (int32_t)((pattern >> 1) ^ (0U - (pattern & 1))); }

static inline uint64_t sgs_zigzag_encode64(int64_t value)
{
    return ((uint64_t)value << 1) ^ (value < 0 ? UINT64_MAX : 0);
}

static inline int64_t sgs_zigzag_decode64(uint64_t pattern)
{
    return (int64_t)((pattern >> 1) ^ (UINT64_C(0) - (pattern & 1)));
}

/** Read from [*next, end) and move *next behind the number.
 *  @return false when the input ends within the number or the number is too long; *next and *value are untouched then */
static inline bool sgs_uvarint_read(const uint8_t **next, const uint8_t *end, uint32_t *value)
{
    const uint8_t *at = *next;
    if (end - at >= 2) {
        if (at[0] < 0x80) {
            *value = at[0];
            *next = at + 1;
            return true;
        }
        if (at[1] < 0x80) {
            *value = ((uint32_t)at[0] & 0x7F) | ((uint32_t)at[1] << 7);
            *next = at + 2;
            return true;
        }
    }
    return sgs_uvarint_read_long(next, end, value);
}

/** As sgs_uvarint_read. Kafka has no such number on its own: it is the pattern below a varlong. */
static inline bool sgs_uvarlong_read(const uint8_t **next, const uint8_t *end, uint64_t *value)
{
    const uint8_t *at = *next;
    if (end - at >= 2) {
        if (at[0] < 0x80) {
            *value = at[0];
            *next = at + 1;
            return true;
        }
        if (at[1] < 0x80) {
            *value = ((uint64_t)at[0] & 0x7F) | ((uint64_t)at[1] << 7);
            *next = at + 2;
            return true;
        }
    }
    return sgs_uvarlong_read_long(next, end, value);
}

/** As sgs_uvarint_read. */
static inline bool sgs_varint_read(const uint8_t **next, const uint8_t *end, int32_t *value)
{
    uint32_t pattern;
    if (!sgs_uvarint_read(next, end, &pattern))
        return false;
    *value = sgs_zigzag_decode32(pattern);
    return true;
}

/** As sgs_uvarint_read. */
static inline bool sgs_varlong_read(const uint8_t **next, const uint8_t *end, int64_t *value)
{
    uint64_t pattern;
    if (!sgs_uvarlong_read(next, end, &pattern))
        return false;
    *value = sgs_zigzag_decode64(pattern);
    return true;
}

/** Write at `out`, which has room for the number's size (at most SGS_VARINT_MAX_BYTES). @return the byte behind it */
static inline uint8_t *sgs_uvarint_write(uint8_t *out, uint32_t value)
{
    if (value < 0x80) {
        *out = (uint8_t)value;
        return out + 1;
    }
    if (value < 0x4000) {
        out[0] = (uint8_t)(value | 0x80);
        out[1] = (uint8_t)(value >> 7);
        return out + 2;
    }
    return sgs_uvarint_write_long(out, value);
}

/** Write at `out`, which has room for the number's size (at most SGS_VARLONG_MAX_BYTES). @return the byte behind it */
static inline uint8_t *sgs_uvarlong_write(uint8_t *out, uint64_t value)
{
    if (value < 0x80) {
        *out = (uint8_t)value;
        return out + 1;
    }
    if (value < 0x4000) {
        out[0] = (uint8_t)(value | 0x80);
        out[1] = (uint8_t)(value >> 7);
        return out + 2;
    }
    return sgs_uvarlong_write_long(out, value);
}

static inline uint8_t *sgs_varint_write(uint8_t *out, int32_t value)
{
    return sgs_uvarint_write(out, sgs_zigzag_encode32(value));
}

static inline uint8_t *sgs_varlong_write(uint8_t *out, int64_t value)
{
    return sgs_uvarlong_write(out, sgs_zigzag_encode64(value));
}

/** @return bytes that the shortest form takes, 1 to 5. Zero still takes one byte, hence the `| 1`. */
static inline int32_t sgs_uvarint_size(uint32_t value) { return (38 - __builtin_clz(value | 1)) / 7; }
static inline int32_t sgs_varint_size(int32_t value) { return sgs_uvarint_size(sgs_zigzag_encode32(value)); }
/** @return bytes that the shortest form takes, 1 to 10. */
static inline int32_t sgs_uvarlong_size(uint64_t value) { return (70 - __builtin_clzll(value | 1)) / 7; }
static inline int32_t sgs_varlong_size(int64_t value) { return sgs_uvarlong_size(sgs_zigzag_encode64(value)); }

#endif
