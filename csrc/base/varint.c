/* varint.c - the general cases; one and two bytes are read in the header. */
#include "base/varint.h"

bool sgs_uvarint_read_long(const uint8_t **next, const uint8_t *end, uint32_t *value)
{
    uint32_t result = 0;
    const uint8_t *at = *next;
    for (unsigned shift = 0; shift < 7 * SGS_VARINT_MAX_BYTES; shift += 7) {
        if (at == end)
            return false;
        const uint8_t byte = *at++;
        result |= ((uint32_t)byte & 0x7F) << shift; /* the 5th byte loses bits 4 to 6 here, as in Kafka */
        if (byte < 0x80) {
            *value = result;
            *next = at;
            return true;
        }
    }
    return false;
}

bool sgs_uvarlong_read_long(const uint8_t **next, const uint8_t *end, uint64_t *value)
{
    uint64_t result = 0;
    const uint8_t *at = *next;
    for (unsigned shift = 0; shift < 7 * SGS_VARLONG_MAX_BYTES; shift += 7) {
        if (at == end)
            return false;
        const uint8_t byte = *at++;
        result |= ((uint64_t)byte & 0x7F) << shift; /* the 10th byte keeps its lowest bit only, as in Kafka */
        if (byte < 0x80) {
            *value = result;
            *next = at;
            return true;
        }
    }
    return false;
}

uint8_t *sgs_uvarint_write_long(uint8_t *out, uint32_t value)
{
    while (value >= 0x80) {
        *out++ = (uint8_t)(value | 0x80);
        value >>= 7;
    }
    *out++ = (uint8_t)value;
    return out;
}

uint8_t *sgs_uvarlong_write_long(uint8_t *out, uint64_t value)
{
    while (value >= 0x80) {
        *out++ = (uint8_t)(value | 0x80);
        value >>= 7;
    }
    *out++ = (uint8_t)value;
    return out;
}
