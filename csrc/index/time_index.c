/* time_index.c - see time_index.h; the search is in index_search.c. */
#include "index/time_index.h"

#include <inttypes.h>

/* Between enter and leave. */
static sgs_timestamp_offset entry_at(const sgs_time_index *index, uint32_t slot)
{
    return (sgs_timestamp_offset){
        .timestamp = sgs_abstract_index_field(&index->base, slot, SGS_INDEX_KEY),
        .offset = sgs_abstract_index_field(&index->base, slot, SGS_INDEX_VALUE),
    };
}

static sgs_timestamp_offset no_entry(const sgs_time_index *index) /* [TMX-2] */
{
    return (sgs_timestamp_offset){ .timestamp = -1, .offset = index->base.base_offset };
}

void sgs_time_index_refresh(sgs_time_index *index)
{
    const uint32_t entries = sgs_abstract_index_enter(&index->base);
    index->last_entry = entries == 0 ? no_entry(index) : entry_at(index, entries - 1);
    sgs_abstract_index_leave(&index->base);
}

sgs_status sgs_time_index_open(sgs_time_index *index, const sgs_env *env, int directory_fd, const char *name,
                               int64_t base_offset, const sgs_index_options *options, sgs_error *err)
{
    const sgs_status status = sgs_abstract_index_open(&index->base, env, directory_fd, name, base_offset,
                                                      SGS_TIME_INDEX_ENTRY_BYTES, options, err);
    if (status == SGS_OK)
        sgs_time_index_refresh(index);
    return status;
}

bool sgs_time_index_is_full(const sgs_time_index *index)
{
    return (int64_t)sgs_abstract_index_entries(&index->base) >= (int64_t)index->base.max_entries - 1;
}

/* Both fields ascend [TMX-5], unless the entry is damaged, or the next one, which may be no more: a truncation lowers the
 * number of entries before it touches their bytes. */
static sgs_status check_next(const sgs_time_index *index, uint32_t slot, sgs_timestamp_offset found, sgs_error *err)
{
    if (slot + 1 >= sgs_abstract_index_entries(&index->base))
        return SGS_OK;
    const sgs_timestamp_offset next = entry_at(index, slot + 1);
    if ((next.timestamp > found.timestamp && next.offset >= found.offset) ||
        slot + 1 >= sgs_abstract_index_entries(&index->base))
        return SGS_OK;
    return sgs_fail_at(err, SGS_CORRUPT_INDEX, ((int64_t)slot + 1) * SGS_TIME_INDEX_ENTRY_BYTES,
                       "an entry above the one before it",
                       "(%" PRId64 ", %" PRId64 ") after (%" PRId64 ", %" PRId64 ")", next.timestamp, next.offset,
                       found.timestamp, found.offset);
}

sgs_status sgs_time_index_lookup(const sgs_time_index *index, int64_t timestamp, sgs_timestamp_offset *out,
                                 sgs_error *err)
{
    sgs_timestamp_offset found;
    int64_t slot;
    const uint32_t entries = sgs_abstract_index_enter(&index->base);
    sgs_status status;
    do {
        status = sgs_abstract_index_search(&index->base, entries, timestamp, SGS_INDEX_KEY, SGS_LARGEST_LOWER_BOUND,
                                           &slot, err);
        found = status == SGS_OK && slot >= 0 ? entry_at(index, (uint32_t)slot) : no_entry(index);
        /* above: after a cut another entry was put into the slot */
    } while (status == SGS_OK && slot >= 0 && found.timestamp > timestamp);
    if (status == SGS_OK && slot >= 0) {
        if (index->base.grow_in_steps && found.offset < index->base.base_offset) /* no checksum: an impossible entry is
                                                                                  * all that shows [DUR-53] */
            status = sgs_fail_at(err, SGS_CORRUPT_INDEX, slot * SGS_TIME_INDEX_ENTRY_BYTES,
                                 "an offset at or above the base offset", "%" PRId64 " in entry %" PRId64, found.offset,
                                 slot);
        else if (index->base.grow_in_steps)
            status = check_next(index, (uint32_t)slot, found, err);
    }
    sgs_abstract_index_leave(&index->base);
    if (status == SGS_OK)
        *out = found;
    return status;
}

sgs_status sgs_time_index_maybe_append(sgs_time_index *index, const sgs_env *env, const char *name, int64_t timestamp,
                                       int64_t offset, bool skip_full_check, sgs_error *err)
{
    const uint32_t entries = sgs_abstract_index_entries(&index->base);
    const int64_t position = (int64_t)entries * SGS_TIME_INDEX_ENTRY_BYTES;
    int32_t relative_offset;
    if (!index->base.file.writable)
        sgs_fail(err, SGS_CLOSED, "the index takes no entries");
    else if (!skip_full_check && sgs_time_index_is_full(index))
        sgs_fail(err, SGS_ILLEGAL_ARGUMENT, "the time index is full (%" PRIu32 " entries)", entries);
    else if (entries > 0 && offset < index->last_entry.offset)
        sgs_fail_at(err, SGS_INVALID_OFFSET, position, "an offset not below the last one", "%" PRId64 " after %" PRId64,
                    offset, index->last_entry.offset);
    else if (entries > 0 && timestamp < index->last_entry.timestamp)
        sgs_fail_at(err, SGS_ILLEGAL_STATE, position, "a timestamp not below the last one",
                    "%" PRId64 " after %" PRId64, timestamp, index->last_entry.timestamp);
    else if (timestamp <= index->last_entry.timestamp)
        return SGS_OK;
    else if (!sgs_relative_offset(index->base.base_offset, offset,
                                  &relative_offset)) /* before a byte changes [TMX-6] */
        sgs_fail(err, SGS_INDEX_OFFSET_OVERFLOW, "offset %" PRId64 " does not fit an index with base offset %" PRId64,
                 offset, index->base.base_offset);
    else if (index->base.next_slot >= index->base.max_entries)
        sgs_fail(err, SGS_ILLEGAL_ARGUMENT, "the time index has no slot left (%" PRIu32 " entries)", entries);
    else if (sgs_abstract_index_make_room(&index->base, env, name, err) == SGS_OK) {
        sgs_abstract_index_store(&index->base, index->base.next_slot, timestamp, relative_offset);
        SGS_EXPECT(entry_at(index, index->base.next_slot).timestamp == timestamp);
        SGS_EXPECT(entry_at(index, index->base.next_slot).offset == offset);
        index->last_entry = (sgs_timestamp_offset){ .timestamp = timestamp, .offset = offset };
        if (sgs_abstract_index_publish(&index->base))
            return sgs_abstract_index_write_piece(&index->base, env, name, err);
        sgs_fail(err, SGS_ILLEGAL_STATE, "%" PRIu32 " entries, but %" PRIu32 " lie before the next one", entries + 1,
                 index->base.next_slot);
    }
    return sgs_fail_in_file(err, name);
}

sgs_status sgs_time_index_truncate_to(sgs_time_index *index, int64_t offset, sgs_error *err)
{
    int64_t slot;
    const uint32_t entries = sgs_abstract_index_enter(&index->base);
    uint32_t kept = 0;
    const sgs_status status =
        sgs_abstract_index_search(&index->base, entries, offset, SGS_INDEX_VALUE, SGS_LARGEST_LOWER_BOUND, &slot, err);
    if (status == SGS_OK && slot >= 0)
        kept = entry_at(index, (uint32_t)slot).offset == offset ? (uint32_t)slot : (uint32_t)slot + 1;
    sgs_abstract_index_leave(&index->base);
    SGS_EXPECT(kept <= entries);
    if (status != SGS_OK) /* a search by value is not checked for order: something was cut off */
        return status;
    sgs_abstract_index_keep(&index->base, kept);
    sgs_time_index_refresh(index);
    SGS_EXPECT(sgs_abstract_index_entries(&index->base) == kept);
    return SGS_OK;
}

sgs_status sgs_time_index_resize(sgs_time_index *index, const sgs_env *env, const char *name, uint32_t size,
                                 bool *changed, sgs_error *err)
{
    const uint32_t entries = sgs_abstract_index_entries(&index->base);
    const sgs_status status = sgs_abstract_index_resize(&index->base, env, name, size, changed, err);
    if (status != SGS_OK || !*changed)
        return status;
    if (entries > 0 && !sgs_abstract_index_is_readable(&index->base, entries - 1))
        return sgs_abstract_index_fail_cut_off(&index->base, entries - 1, err);
    sgs_time_index_refresh(index);
    return SGS_OK;
}

sgs_status sgs_time_index_trim(sgs_time_index *index, const sgs_env *env, const char *name, sgs_error *err)
{
    const uint32_t before = index->base.file.length;
    const sgs_status status = sgs_abstract_index_trim(&index->base, env, name, err);
    if (status == SGS_OK && index->base.file.length != before)
        sgs_time_index_refresh(index);
    return status;
}

sgs_status sgs_time_index_sanity_check(const sgs_time_index *index, sgs_error *err)
{
    const uint32_t length = index->base.file.length;
    const sgs_timestamp_offset last = index->last_entry;
    sgs_timestamp_offset first = last;
    const uint32_t entries = sgs_abstract_index_entries(&index->base);
    if (entries != 0 && sgs_time_index_entry(index, 0, &first, err) != SGS_OK)
        return err->status;
    if (last.timestamp < first.timestamp)
        return sgs_fail_at(err, SGS_CORRUPT_INDEX, -1, "a last timestamp not below the first",
                           "%" PRId64 " below %" PRId64, last.timestamp, first.timestamp);
    if (entries != 0 && last.offset < index->base.base_offset)
        return sgs_fail_at(err, SGS_CORRUPT_INDEX, -1, "a last offset at or above the base offset",
                           "%" PRId64 " below %" PRId64, last.offset, index->base.base_offset);
    if (length % SGS_TIME_INDEX_ENTRY_BYTES != 0)
        return sgs_fail_at(err, SGS_CORRUPT_INDEX, -1, "a length that is a multiple of 12", "%" PRIu32, length);
    return SGS_OK;
}

sgs_status sgs_time_index_entry(const sgs_time_index *index, uint32_t n, sgs_timestamp_offset *out, sgs_error *err)
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
