/* crc32.h - CRC-32 as in zlib: the checksum of magic-0 and magic-1 messages [format.md 2.2]. */
#ifndef SGS_BASE_CRC32_H
#define SGS_BASE_CRC32_H

#include <stddef.h>
#include <stdint.h>

/** Checksum of what `crc` covers followed by `data`.
 *  @param crc  checksum of the bytes before, 0 at the start
 *  sgs_crc32(0, "123456789", 9) == 0xCBF43926 */
uint32_t sgs_crc32(uint32_t crc, const void *data, size_t size);

#endif
