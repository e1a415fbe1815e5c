/* offset_map.h - the last offset of every key in a part of a log [CLN-45..CLN-52], Kafka SkimpyOffsetMap.
 *
 * One flat table in one allocation: an entry is the hash of a key and its offset, 24 bytes, so a log of any key sizes is
 * cleaned in memory that is known beforehand. Keys are compared by their hash alone. Nothing is ever removed: the map is
 * cleared as a whole. A map with a secret can grow, for a reader who does not know how many keys there are.
 *     0  hash    16 bytes
 *    16  offset  int64, big-endian
 * An entry of 24 zero bytes is an empty slot.
 * HASH    Kafka's is MD5, of which anybody can make two keys that collide: one of them would lose its last value. The
 *         other is SipHash with a secret, which nobody outside of the process knows; it is quicker too.
 * PROBES  of Kafka's attempts i = 0, 1, 2 ... the first 13 take four bytes of the hash each, later ones step on from the
 *         last of those. With a secret each attempt takes the next slot, which is mostly in the cache line of the last.
 * THREADS  one at a time. */
#ifndef SGS_RECORD_OFFSET_MAP_H
#define SGS_RECORD_OFFSET_MAP_H

#include <stdbool.h>

#include "base/buffer.h"
#include "base/md5.h"
#include "base/siphash.h"

enum { SGS_OFFSET_MAP_ENTRY_BYTES = SGS_MD5_BYTES + 8 };

typedef struct sgs_key_hash {
    uint8_t bytes[SGS_MD5_BYTES];
} sgs_key_hash;

typedef struct sgs_offset_map {
    sgs_memory memory;
    uint8_t *entries;
    int32_t slots, size;   /* how many entries there can be, and are */
    int64_t latest_offset; /* the last that was put or set, -1 = none */
    uint64_t secret[2];
    bool is_keyed; /* by the secret; false: Kafka's hash and probes */
} sgs_offset_map;

/** Take memory for memory_bytes / 24 slots.
 *  @param memory_bytes  24 to 2^31-1
 *  @return SGS_ILLEGAL_ARGUMENT, SGS_RESOURCE: the map is empty, and deinit may be called */
sgs_status sgs_offset_map_init(sgs_offset_map *map, sgs_memory memory, int64_t memory_bytes, sgs_error *err);
/** The same with a hash of its own.
 *  @param secret  SGS_SIPHASH_SECRET_BYTES that are drawn by chance, and told nobody */
sgs_status sgs_offset_map_init_keyed(sgs_offset_map *map, sgs_memory memory, int64_t memory_bytes,
                                     const uint8_t *secret, sgs_error *err);
void sgs_offset_map_deinit(sgs_offset_map *map);
/** Make room for `more` keys in a map with a secret: at most 4/5 of its slots are taken then, and it grows by a quarter, so
 *  a key takes 30 to 38 bytes. No second table stands beside it meanwhile. Offsets in it are not negative.
 *  @return SGS_RESOURCE, SGS_LIMIT_EXCEEDED (2^31-1 slots): the map is as it was */
sgs_status sgs_offset_map_reserve(sgs_offset_map *map, int32_t more, sgs_error *err);
/** Remember the offset of a key, also a smaller one than before [CLN-52]. An empty key is a key.
 *  @return SGS_ILLEGAL_ARGUMENT when no slot is free, even for a key that is there [CLN-48] */
sgs_status sgs_offset_map_put(sgs_offset_map *map, const uint8_t *key, size_t key_size, int64_t offset, sgs_error *err);
/** @return the offset of a key, -1 when it is not there */
int64_t sgs_offset_map_get(const sgs_offset_map *map, const uint8_t *key, size_t key_size);
/** Put and get in two steps: hash some keys first, then ask for them. A map is larger than the caches; hashing a key starts
 *  the read of its first slot from memory. */
void sgs_offset_map_hash(const sgs_offset_map *map, const uint8_t *key, size_t key_size, sgs_key_hash *hash);
sgs_status sgs_offset_map_put_hashed(sgs_offset_map *map, const sgs_key_hash *hash, int64_t offset, sgs_error *err);
int64_t sgs_offset_map_get_hashed(const sgs_offset_map *map, const sgs_key_hash *hash);
/** Forget everything; the memory stays. */
void sgs_offset_map_clear(sgs_offset_map *map);
/** How far the log was looked at: records without a key count too [CLN-48]. */
static inline void sgs_offset_map_update_latest_offset(sgs_offset_map *map, int64_t offset)
{
    map->latest_offset = offset;
}

#endif
