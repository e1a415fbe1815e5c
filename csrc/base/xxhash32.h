/* xxhash32.h - xxHash32 with seed 0, the checksum of LZ4 frame headers and blocks [format.md 2.2, 8.3].
 *
 * For headers of a few bytes; nobody hashes megabytes with it. */
#ifndef SGS_BASE_XXHASH32_H
#define SGS_BASE_XXHASH32_H

#include <stddef.h>
#include <stdint.h>

/** @return xxHash32 of `size` bytes, seed 0; 0x02cc5d05 for none */
uint32_t sgs_xxhash32(const uint8_t *data, size_t size);

#endif
