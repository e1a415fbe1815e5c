/* header_cache.c - see header_cache.h. A table of sets, found by a hash; a set of four takes new ones in turn. */
#include "segment/header_cache.h"

enum { ENTRIES_OF_A_SET = 4, SETS = SGS_HEADER_CACHE_ENTRIES / ENTRIES_OF_A_SET };
_Static_assert((SETS & (SETS - 1)) == 0, "a hash is cut down by a mask");

typedef struct entry {
    uint64_t version; /* 0 = empty */
    int64_t base_offset;
    sgs_batch_header header;
    bool is_checked; /* the whole batch, not the header alone */
} entry;

typedef struct sgs_header_set {
    atomic_flag is_busy;
    uint8_t next; /* the entry to be replaced */
    entry entries[ENTRIES_OF_A_SET];
} sgs_header_set;

void sgs_header_cache_init(sgs_header_cache *cache, sgs_memory memory)
{
    cache->memory = memory;
    atomic_init(&cache->sets, NULL);
    atomic_init(&cache->last_version, 0);
}

void sgs_header_cache_deinit(sgs_header_cache *cache)
{
    sgs_header_set *const sets = atomic_load_explicit(&cache->sets, memory_order_relaxed);
    if (sets != NULL)
        cache->memory.release(cache->memory.context, sets);
    atomic_store_explicit(&cache->sets, NULL, memory_order_relaxed);
}

void sgs_header_view_init(sgs_header_view *view, sgs_header_cache *cache)
{
    view->cache = cache;
    atomic_init(&view->version, 0);
    sgs_header_view_renew(view);
}

void sgs_header_view_renew(sgs_header_view *view)
{
    const uint64_t version = atomic_fetch_add_explicit(&view->cache->last_version, 1, memory_order_relaxed) + 1;
    atomic_store_explicit(&view->version, version, memory_order_release);
}

uint64_t sgs_header_view_version(sgs_header_view *view)
{
    const uint64_t version = atomic_load_explicit(&view->version, memory_order_acquire);
    SGS_EXPECT(version != 0 && version <= atomic_load_explicit(&view->cache->last_version, memory_order_relaxed));
    return version;
}

/* splitmix64's last step */
static uint64_t mix(uint64_t bits)
{
    bits = (bits ^ (bits >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    bits = (bits ^ (bits >> 27)) * UINT64_C(0x94d049bb133111eb);
    return bits ^ (bits >> 31);
}

static sgs_header_set *set_of(sgs_header_set *sets, uint64_t version, int64_t base_offset, int64_t position)
{
    SGS_EXPECT(version != 0 && position >= 0); /* an empty entry is of version 0, and of no batch */
    const uint64_t place = mix((uint64_t)base_offset * UINT64_C(0x9e3779b97f4a7c15) + (uint64_t)position);
    return &sets[mix(place + version) & (SETS - 1)];
}

static bool is_at(const entry *one, uint64_t version, int64_t base_offset, int64_t position)
{
    return one->header.position == position && one->base_offset == base_offset && one->version == version;
}

/* The set with the entry, taken, and which it is; NULL when it is not there, or somebody else is at the set. */
static sgs_header_set *take_set(sgs_header_view *view, uint64_t version, int64_t base_offset, int64_t position,
                                entry **found)
{
    sgs_header_set *const sets = atomic_load_explicit(&view->cache->sets, memory_order_acquire);
    if (sets == NULL)
        return NULL;
    sgs_header_set *const set = set_of(sets, version, base_offset, position);
    if (atomic_flag_test_and_set_explicit(&set->is_busy, memory_order_acquire))
        return NULL;
    for (int i = 0; i < ENTRIES_OF_A_SET; ++i)
        if (is_at(&set->entries[i], version, base_offset, position)) {
            *found = &set->entries[i];
            return set;
        }
    atomic_flag_clear_explicit(&set->is_busy, memory_order_release);
    return NULL;
}

static void give_back(sgs_header_set *set)
{
    SGS_EXPECT(sgs_is_held(&set->is_busy));
    atomic_flag_clear_explicit(&set->is_busy, memory_order_release);
}

bool sgs_header_view_find(sgs_header_view *view, uint64_t version, int64_t base_offset, int64_t position,
                          sgs_batch_header *header)
{
    entry *found;
    sgs_header_set *const set = take_set(view, version, base_offset, position, &found);
    if (set == NULL)
        return false;
    SGS_EXPECT(found->version == version && found->header.position == position && found->header.size_bytes > 0);
    *header = found->header;
    give_back(set);
    return true;
}

void sgs_header_view_note_checked(sgs_header_view *view, uint64_t version, int64_t base_offset, int64_t position)
{
    entry *found;
    sgs_header_set *const set = take_set(view, version, base_offset, position, &found);
    if (set == NULL)
        return;
    found->is_checked = true;
    give_back(set);
}

bool sgs_header_view_is_checked(sgs_header_view *view, uint64_t version, int64_t base_offset, int64_t position)
{
    entry *found;
    sgs_header_set *const set = take_set(view, version, base_offset, position, &found);
    if (set == NULL)
        return false;
    const bool is_checked = found->is_checked;
    give_back(set);
    return is_checked;
}

/* The table, made by whoever is first; NULL when there is no memory. */
static sgs_header_set *make_sets(sgs_header_cache *cache)
{
    const sgs_memory memory = cache->memory;
    sgs_header_set *sets = atomic_load_explicit(&cache->sets, memory_order_acquire);
    if (sets != NULL)
        return sets;
    sgs_header_set *const made = memory.reallocate(memory.context, NULL, SETS * sizeof *made);
    if (made == NULL)
        return NULL;
    for (size_t i = 0; i < SETS; ++i) {
        made[i] = (sgs_header_set){ .next = 0 };
        atomic_flag_clear_explicit(&made[i].is_busy, memory_order_relaxed);
    }
    if (atomic_compare_exchange_strong_explicit(&cache->sets, &sets, made, memory_order_acq_rel, memory_order_acquire))
        return made;
    memory.release(memory.context, made); /* another thread's is there */
    return sets;
}

void sgs_header_view_put(sgs_header_view *view, uint64_t version, int64_t base_offset, const sgs_batch_header *header)
{
    sgs_header_set *const sets = make_sets(view->cache);
    if (sets == NULL)
        return;
    sgs_header_set *const set = set_of(sets, version, base_offset, header->position);
    if (atomic_flag_test_and_set_explicit(&set->is_busy, memory_order_acquire))
        return;
    SGS_EXPECT(header->size_bytes > 0 && set->next < ENTRIES_OF_A_SET);
    SGS_EXPECT(version <= atomic_load_explicit(&view->cache->last_version, memory_order_relaxed));
    bool is_there = false; /* two walks may have read the same */
    for (int i = 0; i < ENTRIES_OF_A_SET && !is_there; ++i)
        is_there = is_at(&set->entries[i], version, base_offset, header->position);
    if (!is_there) {
        set->entries[set->next] = (entry){ .version = version, .base_offset = base_offset, .header = *header };
        set->next = (uint8_t)((set->next + 1) % ENTRIES_OF_A_SET);
    }
    give_back(set);
}
