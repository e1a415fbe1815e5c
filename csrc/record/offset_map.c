/* offset_map.c - Kafka SkimpyOffsetMap: open addressing with the bytes of the hash as the first steps. */
#include "record/offset_map.h"

#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

#include "base/bytes.h"

enum {
    LAST_WORD_AT = SGS_MD5_BYTES - 4, /* of the hash: where attempt 12 and all later ones look */
};
_Static_assert((int)SGS_MD5_BYTES == (int)SGS_SIPHASH_BYTES, "an entry has room for either");

sgs_status sgs_offset_map_init(sgs_offset_map *map, sgs_memory memory, int64_t memory_bytes, sgs_error *err)
{
    *map = (sgs_offset_map){ .memory = memory, .latest_offset = -1 };
    if (memory_bytes < SGS_OFFSET_MAP_ENTRY_BYTES || memory_bytes > INT32_MAX)
        return sgs_fail(err, SGS_ILLEGAL_ARGUMENT, "an offset map of %" PRId64 " bytes, expected %d to 2^31-1",
                        memory_bytes, (int)SGS_OFFSET_MAP_ENTRY_BYTES);
    const int32_t slots = (int32_t)(memory_bytes / SGS_OFFSET_MAP_ENTRY_BYTES);
    map->entries = memory.reallocate(memory.context, NULL, (size_t)slots * SGS_OFFSET_MAP_ENTRY_BYTES);
    if (map->entries == NULL)
        return sgs_fail(err, SGS_RESOURCE, "no memory for an offset map of %" PRId64 " bytes", memory_bytes);
    map->slots = slots;
    sgs_offset_map_clear(map);
    return SGS_OK;
}

sgs_status sgs_offset_map_init_keyed(sgs_offset_map *map, sgs_memory memory, int64_t memory_bytes,
                                     const uint8_t *secret, sgs_error *err)
{
    SGS_TRY(sgs_offset_map_init(map, memory, memory_bytes, err));
    map->is_keyed = true;
    map->secret[0] = sgs_load_le64(secret);
    map->secret[1] = sgs_load_le64(secret + 8);
    return SGS_OK;
}

void sgs_offset_map_deinit(sgs_offset_map *map)
{
    if (map->entries != NULL)
        map->memory.release(map->memory.context, map->entries);
    *map = (sgs_offset_map){ .memory = map->memory, .latest_offset = -1 };
}

void sgs_offset_map_clear(sgs_offset_map *map)
{
    if (map->entries != NULL)
        memset(map->entries, 0, (size_t)map->slots * SGS_OFFSET_MAP_ENTRY_BYTES);
    map->size = 0;
    map->latest_offset = -1;
}

/* The slots as parts of all numbers of 32 bits, then one after the other. */
static uint8_t *entry_in_a_row(const sgs_offset_map *map, const uint8_t *hash, int64_t attempt)
{
    const int64_t first = (int64_t)(((uint64_t)sgs_load_be32(hash) * (uint32_t)map->slots) >> 32);
    int64_t slot = first + attempt;
    while (slot >= map->slots) /* rarely; a division takes longer than all else here */
        slot -= map->slots;
    return map->entries + (size_t)slot * SGS_OFFSET_MAP_ENTRY_BYTES;
}

/* The entry that attempt `attempt` looks at [CLN-46]; sums wrap as Java's do, and the smallest number counts as 0. */
static uint8_t *entry_of(const sgs_offset_map *map, const uint8_t *hash, int64_t attempt)
{
    if (map->is_keyed)
        return entry_in_a_row(map, hash, attempt);
    const int64_t word_at = attempt < LAST_WORD_AT ? attempt : LAST_WORD_AT;
    const int32_t probe = (int32_t)(sgs_load_be32(hash + word_at) + (uint32_t)(attempt - word_at));
    const int32_t distance = probe == INT32_MIN ? 0 : probe < 0 ? -probe : probe;
    SGS_EXPECT(attempt >= 0 && distance >= 0 && map->slots > 0);
    return map->entries + (size_t)(distance % map->slots) * SGS_OFFSET_MAP_ENTRY_BYTES;
}

/* Words, not memcmp: a call of it takes longer than the comparison. */
static bool is_empty(const uint8_t *entry)
{
    uint64_t words[3];
    memcpy(words, entry, sizeof words);
    return (words[0] | words[1] | words[2]) == 0;
}

static bool has_hash(const uint8_t *entry, const uint8_t *hash)
{
    uint64_t words[2], expected[2];
    memcpy(words, entry, sizeof words);
    memcpy(expected, hash, sizeof expected);
    return words[0] == expected[0] && words[1] == expected[1];
}

/* ---- growth ---- */

/* An entry as words, which live in registers. */
typedef struct entry_words {
    uint64_t hash[2], offset; /* in the order of their bytes, whatever that of the processor is */
} entry_words;
_Static_assert(sizeof(entry_words) == SGS_OFFSET_MAP_ENTRY_BYTES, "an entry");

static entry_words load_entry(const uint8_t *from)
{
    entry_words entry;
    memcpy(&entry, from, sizeof entry);
    return entry;
}

static void store_entry(uint8_t *to, entry_words entry) { memcpy(to, &entry, sizeof entry); }

static bool is_nothing(entry_words entry) { return (entry.hash[0] | entry.hash[1] | entry.offset) == 0; }

/* The entry lies where it did before: the sign of an offset, which is not negative. */
static uint64_t out_of_place(void)
{
    static const uint8_t sign[8] = { 0x80 };
    uint64_t word;
    memcpy(&word, sign, sizeof word);
    return word;
}

/* Put an entry into the slot where a look for it comes now. What is out of place there is returned, to be put elsewhere: an
 * entry that is in place never moves again, so no gap opens between another one and the first slot that is looked at. */
static entry_words put_in_place(const sgs_offset_map *map, entry_words moving)
{
    moving.offset &= ~out_of_place();
    for (int64_t attempt = 0;; ++attempt) {
        SGS_EXPECT(attempt < map->slots);
        uint8_t *const slot = entry_in_a_row(map, (const uint8_t *)moving.hash, attempt);
        entry_words found = load_entry(slot);
        if (is_nothing(found) || (found.offset & out_of_place()) != 0) {
            store_entry(slot, moving);
            return found;
        }
    }
}

/* From the last slot on: what lies behind is in place already, and a larger table takes an entry there, mostly. */
static void spread_out(const sgs_offset_map *map, int32_t slots_before)
{
    static const entry_words nothing = { .offset = 0 };
    uint8_t *const entries = map->entries;
    const size_t end = (size_t)slots_before * SGS_OFFSET_MAP_ENTRY_BYTES;
    for (size_t at = 0; at < end; at += SGS_OFFSET_MAP_ENTRY_BYTES) {
        entry_words entry = load_entry(entries + at);
        if (is_nothing(entry))
            continue;
        entry.offset |= out_of_place();
        store_entry(entries + at, entry);
    }
    for (size_t at = end; at > 0; at -= SGS_OFFSET_MAP_ENTRY_BYTES) {
        uint8_t *const slot = entries + at - SGS_OFFSET_MAP_ENTRY_BYTES;
        entry_words moving = load_entry(slot);
        if ((moving.offset & out_of_place()) == 0)
            continue;
        store_entry(slot, nothing);
        while (!is_nothing(moving))
            moving = put_in_place(map, moving);
    }
}

sgs_status sgs_offset_map_reserve(sgs_offset_map *map, int32_t more, sgs_error *err)
{
    const int32_t before = map->slots;
    const int64_t needed = (int64_t)map->size + more;
    int64_t slots = before;
    SGS_EXPECT(map->is_keyed && more >= 0);
    while (needed > slots - slots / 5)
        slots += slots / 4 + 1;
    if (slots == before)
        return SGS_OK;
    if (slots > INT32_MAX)
        return sgs_fail(err, SGS_LIMIT_EXCEEDED, "an offset map of more than 2^31-1 slots");
    const size_t bytes = (size_t)slots * SGS_OFFSET_MAP_ENTRY_BYTES;
    const size_t bytes_before = (size_t)before * SGS_OFFSET_MAP_ENTRY_BYTES;
    uint8_t *const entries = map->memory.reallocate(map->memory.context, map->entries, bytes);
    if (entries == NULL)
        return sgs_fail(err, SGS_RESOURCE, "no memory for an offset map of %zu bytes", bytes);
    memset(entries + bytes_before, 0, bytes - bytes_before);
    map->entries = entries;
    map->slots = (int32_t)slots;
    spread_out(map, before);
    return SGS_OK;
}

/* ---- put and get ---- */

void sgs_offset_map_hash(const sgs_offset_map *map, const uint8_t *key, size_t key_size, sgs_key_hash *hash)
{
    if (map->is_keyed)
        sgs_siphash128(map->secret, key, key_size, hash->bytes);
    else
        sgs_md5(key, key_size, hash->bytes);
    if (map->slots == 0) /* one without memory */
        return;
    const uint8_t *const entry = entry_of(map, hash->bytes, 0);
    __builtin_prefetch(entry);
    __builtin_prefetch(entry + SGS_OFFSET_MAP_ENTRY_BYTES - 1); /* it may lie in two cache lines */
}

sgs_status sgs_offset_map_put_hashed(sgs_offset_map *map, const sgs_key_hash *key, int64_t offset, sgs_error *err)
{
    const uint8_t *const hash = key->bytes;
    if (map->size >= map->slots)
        return sgs_fail(err, SGS_ILLEGAL_ARGUMENT,
                        "a new entry for a full offset map: %" PRId32 " in %" PRId32 " slots", map->size, map->slots);
    uint8_t *entry = entry_of(map, hash, 0);
    /* the later attempts go through every slot, and one is empty */
    for (int64_t attempt = 1; !is_empty(entry) && !has_hash(entry, hash); ++attempt) {
        SGS_EXPECT(attempt < (int64_t)map->slots + LAST_WORD_AT);
        entry = entry_of(map, hash, attempt);
    }
    if (is_empty(entry))
        ++map->size;
    memcpy(entry, hash, sizeof key->bytes);
    sgs_store_be_i64(entry + sizeof key->bytes, offset);
    SGS_EXPECT(map->size > 0 && map->size <= map->slots);
    map->latest_offset = offset;
    return SGS_OK;
}

sgs_status sgs_offset_map_put(sgs_offset_map *map, const uint8_t *key, size_t key_size, int64_t offset, sgs_error *err)
{
    sgs_key_hash hash;
    sgs_offset_map_hash(map, key, key_size, &hash);
    return sgs_offset_map_put_hashed(map, &hash, offset, err);
}

int64_t sgs_offset_map_get_hashed(const sgs_offset_map *map, const sgs_key_hash *key)
{
    const uint8_t *const hash = key->bytes;
    SGS_EXPECT(map->size >= 0 && map->size <= map->slots);
    if (map->size == 0)
        return -1;
    for (int64_t attempt = 0; attempt < (int64_t)map->slots + LAST_WORD_AT; ++attempt) {
        const uint8_t *const entry = entry_of(map, hash, attempt);
        if (is_empty(entry))
            return -1;
        if (has_hash(entry, hash))
            return sgs_load_be_i64(entry + sizeof key->bytes);
    }
    return -1;
}

int64_t sgs_offset_map_get(const sgs_offset_map *map, const uint8_t *key, size_t key_size)
{
    sgs_key_hash hash;
    sgs_offset_map_hash(map, key, key_size, &hash);
    return sgs_offset_map_get_hashed(map, &hash);
}
