/* After a crash a .index file may hold any bytes at all. Opening and searching it must either work or say
 * SGS_CORRUPT_INDEX, and never read outside the file; what a truncation and appends leave must be what the next open finds.
 * [IDX-2, IDX-5..IDX-8, OFX-3..OFX-7, DUR-53, DUR-80]
 * INPUT  1 byte how to open, 8 bytes base offset, 8 bytes target offset, then the file.
 * ORACLE  a linear scan, when entries ascend. */
#include "base/bytes.h"
#include "fuzz/fuzz_index.h"
#include "index/offset_index.h"

static const char NAME[] = "x.index";
static fuzz_file file;
static int64_t keys[FUZZ_FILE_ROOM / SGS_OFFSET_INDEX_ENTRY_BYTES];

/* What stands in the file, read without the code under test. */
static uint32_t load_keys(int64_t base_offset)
{
    const uint32_t whole = (uint32_t)(file.size / SGS_OFFSET_INDEX_ENTRY_BYTES);
    for (uint32_t i = 0; i < whole; ++i)
        keys[i] = base_offset + sgs_load_be_i32(file.bytes + 8 * (size_t)i);
    return whole;
}

static sgs_status open_index(sgs_offset_index *index, int64_t base_offset, unsigned mode, sgs_error *err)
{
    const sgs_index_options options = {
        .max_size_bytes = FUZZ_INDEX_MAX_BYTES,
        .writable = (mode & FUZZ_WRITABLE) != 0,
        .heap = true,
        .grow_in_steps = (mode & FUZZ_KAFKA) == 0,
    };
    return sgs_offset_index_open(index, &file.env, 0, NAME, base_offset, &options, err);
}

/* An entry that cannot be is damage [DUR-53]; Kafka believes each as it is [IDX-2]. */
static bool is_believed(const sgs_offset_index *index, int64_t offset, int32_t position)
{
    return !index->base.grow_in_steps || (offset >= index->base.base_offset && position >= 0);
}

static void check_lookup(const sgs_offset_index *index, uint32_t entries, int64_t target)
{
    sgs_offset_position found = { 0 };
    sgs_error err;
    const sgs_status status = sgs_offset_index_lookup(index, target, &found, &err);
    FUZZ_CHECK(status == SGS_OK || status == SGS_CORRUPT_INDEX);
    if (!fuzz_ascends(keys, entries))
        return;
    const int64_t slot = fuzz_linear_floor(keys, entries, target);
    const int32_t position = slot < 0 ? 0 : sgs_load_be_i32(file.bytes + 8 * slot + 4);
    const int64_t offset = slot < 0 ? index->base.base_offset : keys[slot];
    const bool possible = is_believed(index, offset, position);
    FUZZ_CHECK((status == SGS_OK) == possible);
    FUZZ_CHECK(status != SGS_OK || (found.offset == offset && found.position == position));
}

static int32_t position_of(uint32_t slot) { return sgs_load_be_i32(file.bytes + 8 * (size_t)slot + 4); }

/* The first position at or above the target where positions ascend; that of entry 0 is passed by [IDX-8]. */
static uint32_t expected_upper_bound(uint32_t entries, int64_t target)
{
    uint32_t slot = 0;
    while (slot < entries && position_of(slot) < target)
        ++slot;
    return slot == 0 && entries > 0 && position_of(0) == target ? 1 : slot;
}

static void check_upper_bound(const sgs_offset_index *index, uint32_t entries, int32_t position, int32_t size)
{
    sgs_offset_position found = { 0 };
    bool is_found = false, ascends = true;
    sgs_error err;
    const sgs_offset_position start = { .offset = 0, .position = position };
    const sgs_status status = sgs_offset_index_fetch_upper_bound_offset(index, start, size, &found, &is_found, &err);
    for (uint32_t i = 1; i < entries; ++i)
        ascends = ascends && position_of(i) > position_of(i - 1);
    FUZZ_CHECK(status == SGS_OK || (status == SGS_CORRUPT_INDEX && err.message[0] != '\0'));
    const uint32_t slot = expected_upper_bound(entries, (int64_t)position + size);
    if (ascends && slot == entries) { /* positions may do anything [OFX-4] */
        FUZZ_CHECK(status == SGS_OK && !is_found);
    } else if (ascends) {
        const bool possible = is_believed(index, keys[slot], position_of(slot));
        FUZZ_CHECK((status == SGS_OK) == possible);
        FUZZ_CHECK(!possible || (is_found && found.offset == keys[slot] && found.position == position_of(slot)));
    } else if (status == SGS_OK && is_found) {
        bool present = false;
        for (uint32_t i = 0; i < entries && !present; ++i)
            present = keys[i] == found.offset && position_of(i) == found.position;
        FUZZ_CHECK(present);
    }
}

/* [OFX-7], and each entry by its number [IDX-5] */
static void check_entries(const sgs_offset_index *index, uint32_t entries)
{
    sgs_offset_position entry;
    sgs_error err;
    const bool is_sane = (entries == 0 || keys[entries - 1] >= index->base.base_offset) && file.size % 8 == 0;
    FUZZ_CHECK(sgs_offset_index_sanity_check(index, &err) == (is_sane ? SGS_OK : SGS_CORRUPT_INDEX));
    for (uint32_t i = 0; i < entries; i += 1 + entries / 4) {
        FUZZ_CHECK(sgs_offset_index_entry(index, i, &entry, &err) == SGS_OK);
        FUZZ_CHECK(entry.offset == keys[i] && entry.position == position_of(i));
    }
    FUZZ_CHECK(sgs_offset_index_entry(index, entries, &entry, &err) == SGS_ILLEGAL_ARGUMENT);
}

/* Truncate, append, close as a clean stop does, and open again. */
static void check_writing(sgs_offset_index *index, uint32_t entries, int64_t base_offset, int64_t target, unsigned mode)
{
    sgs_error err;
    bool changed;
    const bool ascends = fuzz_ascends(keys, entries);
    const int64_t floor = fuzz_linear_floor(keys, entries, target);
    FUZZ_CHECK(sgs_offset_index_truncate_to(index, target, &err) == SGS_OK);
    const uint32_t kept = sgs_abstract_index_entries(&index->base);
    if (ascends)
        FUZZ_CHECK(kept == (uint32_t)(floor >= 0 && keys[floor] == target ? floor : floor + 1));
    (void)sgs_abstract_index_resize(&index->base, &file.env, NAME, FUZZ_INDEX_MAX_BYTES, &changed, &err);
    const sgs_status appended = sgs_offset_index_append(index, &file.env, NAME, target, 7, &err);
    sgs_offset_position found;
    if (appended == SGS_OK && ascends)
        FUZZ_CHECK(sgs_offset_index_lookup(index, INT64_MAX, &found, &err) == SGS_OK && found.offset == target &&
                   found.position == 7);
    const uint32_t written = sgs_abstract_index_entries(&index->base);
    FUZZ_CHECK(written == kept + (appended == SGS_OK ? 1 : 0));
    const int64_t last_offset = index->last_offset;
    FUZZ_CHECK(sgs_abstract_index_close(&index->base, &file.env, NAME, &err) == SGS_OK);
    FUZZ_CHECK(file.size == (int64_t)written * SGS_OFFSET_INDEX_ENTRY_BYTES);

    FUZZ_CHECK(open_index(index, base_offset, mode, &err) == SGS_OK);
    if (ascends && (written > 1 || (mode & FUZZ_KAFKA) != 0)) {
        FUZZ_CHECK(sgs_abstract_index_entries(&index->base) == written);
        FUZZ_CHECK(index->last_offset == last_offset);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_input input = { data, size };
    const unsigned mode = fuzz_take_u8(&input);
    const int64_t base_offset = (int64_t)(fuzz_take_u64(&input) >> 2); /* sums stay inside 64 bits, here and there */
    const int64_t target = (int64_t)fuzz_take_u64(&input);
    sgs_offset_index index;
    sgs_error err;

    fuzz_file_init(&file, &input);
    const uint32_t whole = load_keys(base_offset);
    const bool first_is_zero = whole > 0 && sgs_load_be64(file.bytes) == 0;
    const uint32_t entries = fuzz_expected_entries(keys, whole, mode, first_is_zero);
    FUZZ_CHECK(open_index(&index, base_offset, mode, &err) == SGS_OK);
    FUZZ_CHECK(sgs_abstract_index_entries(&index.base) == entries);
    FUZZ_CHECK(index.last_offset == (entries == 0 ? base_offset : keys[entries - 1]));
    check_entries(&index, entries);
    check_lookup(&index, entries, target);
    check_lookup(&index, entries, base_offset + (target & INT32_MAX));
    for (uint32_t i = 0; i < entries && i < 4; ++i)
        check_lookup(&index, entries, keys[i * (entries / 4)]);
    check_upper_bound(&index, entries, (int32_t)((uint64_t)target >> 33), (int32_t)(target & INT32_MAX));
    if ((mode & FUZZ_WRITABLE) != 0)
        check_writing(&index, entries, base_offset, base_offset + (target & INT32_MAX), mode);
    sgs_abstract_index_close_handler(&index.base, &file.env, NAME);
    return 0;
}
