/* crc_tables.h - reflected 32-bit CRCs by tables, eight bytes a step ("slicing"): for machines without better, and for
 * CRC-32, which only legacy messages use. */
#ifndef SGS_BASE_CRC_TABLES_H
#define SGS_BASE_CRC_TABLES_H

#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"

/** Advance the register (the checksum without its final inversion) over `data`. */
static inline uint32_t sgs_crc_by_tables(const uint32_t tables[8][256], uint32_t crc, const uint8_t *data, size_t size)
{
    for (; size >= 8; size -= 8, data += 8) {
        const uint64_t word = sgs_load_le64(data) ^ crc;
        crc = tables[7][word & 0xFF] ^ tables[6][(word >> 8) & 0xFF] ^ tables[5][(word >> 16) & 0xFF] ^
              tables[4][(word >> 24) & 0xFF] ^ tables[3][(word >> 32) & 0xFF] ^ tables[2][(word >> 40) & 0xFF] ^
              tables[1][(word >> 48) & 0xFF] ^ tables[0][word >> 56];
    }
    for (; size > 0; --size, ++data)
        crc = (crc >> 8) ^ tables[0][(crc ^ *data) & 0xFF];
    return crc;
}

#endif
