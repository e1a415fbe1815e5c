/* siphash.h - a keyed hash of 128 bits, SipHash-1-3-128: whoever does not know the secret cannot choose bytes that
 * collide. The log cleaner tells keys apart by it in the safe profile; quick for short keys. */
#ifndef SGS_BASE_SIPHASH_H
#define SGS_BASE_SIPHASH_H

#include <stddef.h>
#include <stdint.h>

enum { SGS_SIPHASH_BYTES = 16, SGS_SIPHASH_SECRET_BYTES = 16 };

/** Write the hash of `data` to `hash`. `data` may be NULL when the size is 0.
 *  @param secret  two little-endian numbers of the 16 bytes that the reference calls the key */
void sgs_siphash128(const uint64_t secret[2], const uint8_t *data, size_t size, uint8_t hash[SGS_SIPHASH_BYTES]);

#endif
