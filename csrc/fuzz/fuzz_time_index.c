/* After a crash a .timeindex file may hold any bytes at all. Opening and searching it must either work or say
 * SGS_CORRUPT_INDEX, and never read outside the file; what a truncation and appends leave must be what the next open finds.
 * [IDX-2, IDX-5..IDX-8, TMX-3..TMX-8, DUR-53, DUR-80]
 * INPUT  1 byte how to open, 8 bytes base offset, 8 bytes target timestamp, 4 bytes relative offset, then the file.
 * ORACLE  a linear scan, when timestamps ascend. */
#include "base/bytes.h"
#include "fuzz/fuzz_index.h"
#include "index/time_index.h"

static const char NAME[] = "x.timeindex";
static fuzz_file file;
static int64_t keys[FUZZ_FILE_ROOM / SGS_TIME_INDEX_ENTRY_BYTES];
static int64_t offsets[FUZZ_FILE_ROOM / SGS_TIME_INDEX_ENTRY_BYTES];

/* What stands in the file, read without the code under test. */
static uint32_t load_entries(int64_t base_offset)
{
    const uint32_t whole = (uint32_t)(file.size / SGS_TIME_INDEX_ENTRY_BYTES);
    for (uint32_t i = 0; i < whole; ++i) {
        keys[i] = sgs_load_be_i64(file.bytes + 12 * (size_t)i);
        offsets[i] = base_offset + sgs_load_be_i32(file.bytes + 12 * (size_t)i + 8);
    }
    return whole;
}

static sgs_status open_index(sgs_time_index *index, int64_t base_offset, unsigned mode, sgs_error *err)
{
    const sgs_index_options options = {
        .max_size_bytes = FUZZ_INDEX_MAX_BYTES,
        .writable = (mode & FUZZ_WRITABLE) != 0,
        .heap = true,
        .grow_in_steps = (mode & FUZZ_KAFKA) == 0,
    };
    return sgs_time_index_open(index, &file.env, 0, NAME, base_offset, &options, err);
}

/* Both fields ascend from the entry that is found to the next one; Kafka's profile does not look [DUR-53]. */
static bool is_believed(const sgs_time_index *index, uint32_t entries, int64_t slot)
{
    if (slot < 0)
        return true;
    const int64_t next = slot + 1;
    const bool ascends = next >= entries || (keys[next] > keys[slot] && offsets[next] >= offsets[slot]);
    return !index->base.grow_in_steps || (offsets[slot] >= index->base.base_offset && ascends); /* IDX-2 */
}

static void check_lookup(const sgs_time_index *index, uint32_t entries, int64_t target)
{
    sgs_timestamp_offset found = { 0 };
    sgs_error err;
    const sgs_status status = sgs_time_index_lookup(index, target, &found, &err);
    FUZZ_CHECK(status == SGS_OK || status == SGS_CORRUPT_INDEX);
    if (!fuzz_ascends(keys, entries))
        return;
    const int64_t slot = fuzz_linear_floor(keys, entries, target);
    const int64_t base_offset = index->base.base_offset;
    FUZZ_CHECK((status == SGS_OK) == is_believed(index, entries, slot));
    if (status == SGS_OK)
        FUZZ_CHECK(found.timestamp == (slot < 0 ? -1 : keys[slot]) &&
                   found.offset == (slot < 0 ? base_offset : offsets[slot]));
}

/* [TMX-8], and each entry by its number [IDX-5] */
static void check_entries(const sgs_time_index *index, uint32_t entries)
{
    sgs_timestamp_offset entry;
    sgs_error err;
    const bool is_sane =
        (entries == 0 || (keys[entries - 1] >= keys[0] && offsets[entries - 1] >= index->base.base_offset)) &&
        file.size % SGS_TIME_INDEX_ENTRY_BYTES == 0;
    FUZZ_CHECK(sgs_time_index_sanity_check(index, &err) == (is_sane ? SGS_OK : SGS_CORRUPT_INDEX));
    for (uint32_t i = 0; i < entries; i += 1 + entries / 4) {
        FUZZ_CHECK(sgs_time_index_entry(index, i, &entry, &err) == SGS_OK);
        FUZZ_CHECK(entry.timestamp == keys[i] && entry.offset == offsets[i]);
    }
    FUZZ_CHECK(sgs_time_index_entry(index, entries, &entry, &err) == SGS_ILLEGAL_ARGUMENT);
}

/* Truncate by offset, append, close as a clean stop does, and open again. */
static void check_writing(sgs_time_index *index, uint32_t entries, int64_t base_offset, int64_t offset,
                          int64_t timestamp, unsigned mode)
{
    sgs_error err;
    bool changed;
    bool exact = fuzz_ascends(keys, entries);
    const bool ascends = exact;
    for (uint32_t i = 1; i < entries; ++i)
        exact = exact && offsets[i] > offsets[i - 1];
    const int64_t floor = fuzz_linear_floor(offsets, entries, offset);
    FUZZ_CHECK(sgs_time_index_truncate_to(index, offset, &err) == SGS_OK);
    const uint32_t kept = sgs_abstract_index_entries(&index->base);
    if (exact)
        FUZZ_CHECK(kept == (uint32_t)(floor >= 0 && offsets[floor] == offset ? floor : floor + 1));
    (void)sgs_abstract_index_resize(&index->base, &file.env, NAME, FUZZ_INDEX_MAX_BYTES, &changed, &err);
    const sgs_status status = sgs_time_index_maybe_append(index, &file.env, NAME, timestamp, offset, true, &err);
    const uint32_t written = sgs_abstract_index_entries(&index->base);
    FUZZ_CHECK(written == kept || (status == SGS_OK && written == kept + 1));
    const sgs_timestamp_offset last = index->last_entry;
    FUZZ_CHECK(sgs_abstract_index_close(&index->base, &file.env, NAME, &err) == SGS_OK);
    FUZZ_CHECK(file.size == (int64_t)written * SGS_TIME_INDEX_ENTRY_BYTES);

    FUZZ_CHECK(open_index(index, base_offset, mode, &err) == SGS_OK);
    if (ascends) {
        FUZZ_CHECK(sgs_abstract_index_entries(&index->base) == written);
        FUZZ_CHECK(index->last_entry.timestamp == last.timestamp && index->last_entry.offset == last.offset);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_input input = { data, size };
    const unsigned mode = fuzz_take_u8(&input);
    const int64_t base_offset = (int64_t)(fuzz_take_u64(&input) >> 2);
    const int64_t target = (int64_t)fuzz_take_u64(&input);
    const int64_t offset = base_offset + (int64_t)(fuzz_take_u32(&input) & INT32_MAX);
    sgs_time_index index;
    sgs_error err;

    fuzz_file_init(&file, &input);
    const uint32_t whole = load_entries(base_offset);
    bool first_is_zero = whole > 0;
    for (size_t i = 0; first_is_zero && i < SGS_TIME_INDEX_ENTRY_BYTES; ++i)
        first_is_zero = file.bytes[i] == 0;
    const uint32_t entries = fuzz_expected_entries(keys, whole, mode, first_is_zero);
    FUZZ_CHECK(open_index(&index, base_offset, mode, &err) == SGS_OK);
    FUZZ_CHECK(sgs_abstract_index_entries(&index.base) == entries);
    FUZZ_CHECK(index.last_entry.timestamp == (entries == 0 ? -1 : keys[entries - 1]));
    check_entries(&index, entries);
    check_lookup(&index, entries, target);
    check_lookup(&index, entries, INT64_MAX);
    for (uint32_t i = 0; i < entries && i < 4; ++i)
        check_lookup(&index, entries, keys[i * (entries / 4)]);
    if ((mode & FUZZ_WRITABLE) != 0)
        check_writing(&index, entries, base_offset, offset, target, mode);
    sgs_abstract_index_close_handler(&index.base, &file.env, NAME);
    return 0;
}
