/* index_search.c - entries as numbers, and the search among them [IDX-6..IDX-8, IDX-18]; see abstract_index.h. */
#include <inttypes.h>
#include <string.h>

#include "base/bytes.h"
#include "index/abstract_index.h"

enum {
    WARM_SECTION_BYTES = 8192 /* [IDX-6] */
};

/* An index is const to its readers, but they have to be counted. */
static _Atomic uint32_t *readers_of(const sgs_abstract_index *index)
{
    return &((sgs_abstract_index *)(uintptr_t)index)->readers;
}

uint32_t sgs_abstract_index_enter(const sgs_abstract_index *index)
{
    /* Sequentially consistent on both sides: either this look-up sees the lowered count, or whoever lowered it sees
     * this look-up (left_alone). */
    atomic_fetch_add_explicit(readers_of(index), 1, memory_order_seq_cst);
    return atomic_load_explicit(&((sgs_abstract_index *)(uintptr_t)index)->entries, memory_order_seq_cst);
}

void sgs_abstract_index_leave(const sgs_abstract_index *index)
{
    const uint32_t inside = atomic_fetch_sub_explicit(readers_of(index), 1, memory_order_release);
    SGS_EXPECT(inside > 0);
}

sgs_status sgs_abstract_index_fail_cut_off(const sgs_abstract_index *index, uint32_t slot, sgs_error *err)
{
    return sgs_fail_at(err, SGS_CORRUPT_INDEX, (int64_t)slot * index->entry_size, "an entry within the file",
                       "the file was cut before entry %" PRIu32, slot);
}

/* [IDX-7] lo and hi inclusive; answers the slot of the bound below, the caller makes the bound above of it. `exact` says
 * that the slot's field equals the target. Ends at an entry that was cut off. */
static bool bisect(const sgs_abstract_index *index, uint32_t lo, uint32_t hi, int64_t target, sgs_index_field field,
                   uint32_t *slot, bool *exact)
{
    int64_t below = INT64_MIN; /* the greatest field met so far that is below the target, and the least above */
    int64_t above = INT64_MAX;
    bool ordered = true;
    SGS_EXPECT(lo <= hi);
    *exact = false;
    while (lo < hi) {
        const uint32_t middle = lo + (hi - lo + 1) / 2;
        SGS_EXPECT(middle > lo && middle <= hi); /* both ends come closer */
        if (!sgs_abstract_index_is_readable(index, middle)) {
            lo = middle;
            break;
        }
        const int64_t found = sgs_abstract_index_field(index, middle, field);
        SGS_EXPECT(!ordered || below < above);
        if (found > target) {
            ordered = ordered && (found < above || above == INT64_MAX);
            above = found;
            hi = middle - 1;
        } else if (found < target) {
            ordered = ordered && (found > below || below == INT64_MIN);
            below = found;
            lo = middle;
        } else {
            *exact = true;
            lo = middle;
            break;
        }
    }
    *slot = lo;
    return ordered;
}

sgs_status sgs_abstract_index_search(const sgs_abstract_index *index, uint32_t entries, int64_t target,
                                     sgs_index_field field, sgs_search_mode mode, int64_t *slot, sgs_error *err)
{
    SGS_EXPECT(atomic_load_explicit(readers_of(index), memory_order_relaxed) > 0); /* the caller is inside */
    if (entries == 0) {
        *slot = SGS_INDEX_NO_SLOT;
        return SGS_OK;
    }
    const uint32_t warm = WARM_SECTION_BYTES / index->entry_size;
    const uint32_t first_hot = entries - 1 > warm ? entries - 1 - warm : 0;
    uint32_t lo = 0;
    uint32_t hi = first_hot;
    if (!sgs_abstract_index_is_readable(index, first_hot))
        return sgs_abstract_index_fail_cut_off(index, first_hot, err);
    if (sgs_abstract_index_field(index, first_hot, field) < target) {
        lo = first_hot;
        hi = entries - 1;
    } else if (sgs_abstract_index_field(index, 0, field) > target) {
        *slot = mode == SGS_LARGEST_LOWER_BOUND ? SGS_INDEX_NO_SLOT : 0;
        return SGS_OK;
    }

    uint32_t found;
    bool exact;
    const bool ordered = bisect(index, lo, hi, target, field, &found, &exact);
    /* Only keys must strictly increase; offsets in a time index may repeat [TMX-5], positions may do anything [OFX-4]. */
    if (!ordered && index->grow_in_steps && field == SGS_INDEX_KEY)
        return sgs_fail_at(err, SGS_CORRUPT_INDEX, (int64_t)found * index->entry_size, "keys that increase",
                           "a key out of order on the way to entry %" PRIu32, found);
    const bool is_readable = sgs_abstract_index_is_readable(index, found);
    if (is_readable && !exact && mode == SGS_SMALLEST_UPPER_BOUND) {
        if (found == entries - 1) {
            *slot = SGS_INDEX_NO_SLOT;
            return SGS_OK;
        }
        found += 1;
    }
    SGS_EXPECT(found < entries);
    if (!sgs_abstract_index_is_readable(index, found))
        return sgs_abstract_index_fail_cut_off(index, found, err);
    *slot = found;
    return SGS_OK;
}
