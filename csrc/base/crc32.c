/* crc32.c - CRC-32 by tables. */
#include "base/crc32.h"

#include "base/crc_tables.h"

uint32_t sgs_crc32(uint32_t crc, const void *data, size_t size)
{
    return ~sgs_crc_by_tables(sgs_crc32_tables, ~crc, data, size);
}
