/* offset_index.c - see offset_index.h; the search is in index_search.c. */
#include "index/offset_index.h"

#include <inttypes.h>

/* Between enter and leave. */
static sgs_offset_position entry_at(const sgs_offset_index *index, uint32_t slot)
{
    return (sgs_offset_position){
        .offset = sgs_abstract_index_field(&index->base, slot, SGS_INDEX_KEY),
        .position = (int32_t)sgs_abstract_index_field(&index->base, slot, SGS_INDEX_VALUE),
    };
}

void sgs_offset_index_refresh(sgs_offset_index *index)
{
    const uint32_t entries = sgs_abstract_index_enter(&index->base);
    index->last_offset = entries == 0 ? index->base.base_offset : entry_at(index, entries - 1).offset;
    sgs_abstract_index_leave(&index->base);
}

sgs_status sgs_offset_index_open(sgs_offset_index *index, const sgs_env *env, int directory_fd, const char *name,
                                 int64_t base_offset, const sgs_index_options *options, sgs_error *err)
{
    const sgs_status status = sgs_abstract_index_open(&index->base, env, directory_fd, name, base_offset,
                                                      SGS_OFFSET_INDEX_ENTRY_BYTES, options, err);
    if (status == SGS_OK)
        sgs_offset_index_refresh(index);
    return status;
}

bool sgs_offset_index_is_full(const sgs_offset_index *index)
{
    return sgs_abstract_index_entries(&index->base) >= index->base.max_entries;
}

/* The file has no checksum: a torn page shows as an entry that cannot be [DUR-53]. */
static sgs_status check_entry(const sgs_offset_index *index, int64_t slot, sgs_offset_position entry, sgs_error *err)
{
    if (!index->base.grow_in_steps || (entry.offset >= index->base.base_offset && entry.position >= 0))
        return SGS_OK; /* Kafka believes every entry [IDX-2] */
    return sgs_fail_at(err, SGS_CORRUPT_INDEX, slot * SGS_OFFSET_INDEX_ENTRY_BYTES,
                       "an offset at or above the base and a position >= 0",
                       "offset %" PRId64 ", position %" PRId32 " in entry %" PRId64, entry.offset, entry.position,
                       slot);
}

/* The entry at `slot`, when there is one and it can be behind `below`. */
static sgs_offset_position entry_above(const sgs_offset_index *index, int64_t slot, uint32_t entries,
                                       sgs_offset_position below)
{
    if (slot < (int64_t)entries && sgs_abstract_index_is_readable(&index->base, (uint32_t)slot)) {
        const sgs_offset_position entry = entry_at(index, (uint32_t)slot);
        if (entry.offset > below.offset && entry.position > below.position)
            return entry;
    }
    return (sgs_offset_position){ .offset = index->base.base_offset, .position = -1 };
}

sgs_status sgs_offset_index_lookup(const sgs_offset_index *index, int64_t target, sgs_offset_position *out,
                                   sgs_error *err)
{
    sgs_offset_position ignored;
    return sgs_offset_index_lookup_between(index, target, out, &ignored, err);
}

sgs_status sgs_offset_index_lookup_between(const sgs_offset_index *index, int64_t target, sgs_offset_position *floor,
                                           sgs_offset_position *above, sgs_error *err)
{
    const sgs_offset_position none = { .offset = index->base.base_offset, .position = 0 };
    sgs_offset_position found, behind = none;
    int64_t slot;
    const uint32_t entries = sgs_abstract_index_enter(&index->base);
    sgs_status status;
    do {
        status = sgs_abstract_index_search(&index->base, entries, target, SGS_INDEX_KEY, SGS_LARGEST_LOWER_BOUND, &slot,
                                           err);
        found = status == SGS_OK && slot >= 0 ? entry_at(index, (uint32_t)slot) : none;
        /* above: after a cut another entry was put into the slot */
    } while (status == SGS_OK && slot >= 0 && found.offset > target);
    if (status == SGS_OK && slot >= 0)
        status = check_entry(index, slot, found, err);
    if (status == SGS_OK)
        behind = entry_above(index, slot + 1, entries, found);
    sgs_abstract_index_leave(&index->base);
    SGS_EXPECT(status != SGS_OK || behind.position == -1 || behind.position > found.position);
    if (status == SGS_OK) {
        *floor = found;
        *above = behind;
    }
    return status;
}

sgs_status sgs_offset_index_append(sgs_offset_index *index, const sgs_env *env, const char *name, int64_t offset,
                                   int32_t position, sgs_error *err)
{
    const uint32_t entries = sgs_abstract_index_entries(&index->base);
    int32_t relative_offset;
    if (!index->base.file.writable)
        sgs_fail(err, SGS_CLOSED, "the index takes no entries");
    else if (sgs_offset_index_is_full(index))
        sgs_fail(err, SGS_ILLEGAL_ARGUMENT, "the index is full (%" PRIu32 " entries)", entries);
    else if (entries > 0 && offset <= index->last_offset)
        sgs_fail_at(err, SGS_INVALID_OFFSET, (int64_t)entries * SGS_OFFSET_INDEX_ENTRY_BYTES,
                    "an offset above the last one", "%" PRId64 " after %" PRId64, offset, index->last_offset);
    else if (!sgs_relative_offset(index->base.base_offset, offset, &relative_offset))
        sgs_fail(err, SGS_INDEX_OFFSET_OVERFLOW, "offset %" PRId64 " does not fit an index with base offset %" PRId64,
                 offset, index->base.base_offset);
    else if (sgs_abstract_index_make_room(&index->base, env, name, err) == SGS_OK) {
        sgs_abstract_index_store(&index->base, index->base.next_slot, relative_offset, position);
        SGS_EXPECT(entry_at(index, index->base.next_slot).offset == offset);
        SGS_EXPECT(entry_at(index, index->base.next_slot).position == position);
        index->last_offset = offset;
        if (sgs_abstract_index_publish(&index->base))
            return sgs_abstract_index_write_piece(&index->base, env, name, err);
        sgs_fail(err, SGS_ILLEGAL_STATE, "%" PRIu32 " entries, but %" PRIu32 " lie before the next one", entries + 1,
                 index->base.next_slot);
    }
    return sgs_fail_in_file(err, name);
}

sgs_status sgs_offset_index_truncate_to(sgs_offset_index *index, int64_t offset, sgs_error *err)
{
    int64_t slot;
    const uint32_t entries = sgs_abstract_index_enter(&index->base);
    uint32_t kept = 0;
    const sgs_status status =
        sgs_abstract_index_search(&index->base, entries, offset, SGS_INDEX_KEY, SGS_LARGEST_LOWER_BOUND, &slot, err);
    if (status == SGS_OK && slot >= 0)
        kept = entry_at(index, (uint32_t)slot).offset == offset ? (uint32_t)slot : (uint32_t)slot + 1;
    sgs_abstract_index_leave(&index->base);
    SGS_EXPECT(kept <= entries);
    if (status != SGS_OK && !index->base.grow_in_steps)
        return status;
    /* out of order: everything goes, since an entry too few only makes a scan longer */
    sgs_abstract_index_keep(&index->base, kept);
    sgs_offset_index_refresh(index);
    SGS_EXPECT(sgs_abstract_index_entries(&index->base) == kept);
    return SGS_OK;
}

sgs_status sgs_offset_index_fetch_upper_bound_offset(const sgs_offset_index *index, sgs_offset_position fetch_start,
                                                     int32_t fetch_size, sgs_offset_position *out, bool *found,
                                                     sgs_error *err)
{
    int64_t slot;
    const uint32_t entries = sgs_abstract_index_enter(&index->base);
    const int64_t target = (int64_t)fetch_start.position + fetch_size;
    sgs_status status =
        sgs_abstract_index_search(&index->base, entries, target, SGS_INDEX_VALUE, SGS_SMALLEST_UPPER_BOUND, &slot, err);
    if (status == SGS_OK && slot >= 0) {
        const sgs_offset_position entry = entry_at(index, (uint32_t)slot);
        status = check_entry(index, slot, entry, err);
        if (status == SGS_OK)
            *out = entry;
    }
    sgs_abstract_index_leave(&index->base);
    if (status == SGS_OK)
        *found = slot >= 0;
    return status;
}

sgs_status sgs_offset_index_sanity_check(const sgs_offset_index *index, sgs_error *err)
{
    const uint32_t length = index->base.file.length;
    if (sgs_abstract_index_entries(&index->base) != 0 && index->last_offset < index->base.base_offset)
        return sgs_fail_at(err, SGS_CORRUPT_INDEX, -1, "a last offset at or above the base offset",
                           "%" PRId64 " below %" PRId64, index->last_offset, index->base.base_offset);
    if (length % SGS_OFFSET_INDEX_ENTRY_BYTES != 0)
        return sgs_fail_at(err, SGS_CORRUPT_INDEX, -1, "a length that is a multiple of 8", "%" PRIu32, length);
    return SGS_OK;
}

sgs_status sgs_offset_index_entry(const sgs_offset_index *index, uint32_t n, sgs_offset_position *out, sgs_error *err)
{
    sgs_status status = SGS_OK;
    const uint32_t entries = sgs_abstract_index_enter(&index->base);
    if (n < entries && !sgs_abstract_index_is_readable(&index->base, n))
        status = sgs_abstract_index_fail_cut_off(&index->base, n, err);
    else if (n < entries)
        *out = entry_at(index, n);
    else
        status = sgs_fail(err, SGS_ILLEGAL_ARGUMENT, "entry %" PRIu32 " of an index of %" PRIu32, n, entries);
    sgs_abstract_index_leave(&index->base);
    return status;
}
