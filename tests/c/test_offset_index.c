/* The offset index, as Kafka's OffsetIndexTest uses it, and against a linear search. */
#include "index/offset_index.h"

#include "base/bytes.h"
#include "memory_env.h"
#include "temporary.h"
#include "test.h"

enum { BASE = 45, SLOTS = 30 };
static const char NAME[] = "00000000000000000045.index";

typedef struct fixture {
    temporary directory;
    memory_env memory;
    sgs_offset_index index;
    sgs_error err;
} fixture;

static sgs_index_options options_of(uint32_t max_size, bool kafka)
{
    return (sgs_index_options){ .max_size_bytes = max_size, .writable = true, .grow_in_steps = !kafka };
}

static sgs_status reopen(fixture *f, int64_t base_offset, sgs_index_options options)
{
    return sgs_offset_index_open(&f->index, &f->memory.env, f->directory.fd, NAME, base_offset, &options, &f->err);
}

static void open_fixture(fixture *f, int64_t base_offset, uint32_t max_size, bool kafka)
{
    f->directory = temporary_open();
    memory_env_init(&f->memory, sgs_env_posix());
    EXPECT_OK(reopen(f, base_offset, options_of(max_size, kafka)), &f->err);
}

static void close_fixture(fixture *f)
{
    EXPECT_EQ_I64(atomic_load(&f->index.base.readers), 0); /* every look-up has left */
    sgs_abstract_index_close_handler(&f->index.base, &f->memory.env, NAME);
    EXPECT_TRUE(memory_env_is_balanced(&f->memory));
    temporary_close(&f->directory);
}

static sgs_status append(fixture *f, int64_t offset, int32_t position)
{
    return sgs_offset_index_append(&f->index, &f->memory.env, NAME, offset, position, &f->err);
}

static bool looks_up(fixture *f, int64_t target, int64_t offset, int32_t position)
{
    sgs_offset_position found = { -7, -7 };
    const bool ok = EXPECT_OK(sgs_offset_index_lookup(&f->index, target, &found, &f->err), &f->err);
    return EXPECT_EQ_I64(found.offset, offset) && EXPECT_EQ_I64(found.position, position) && ok;
}

static uint32_t next_random(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(*state >> 33);
}

/* OffsetIndexTest.lookupExtremeCases [OFX-3] */
TEST(lookup_answers_the_ends_of_an_index)
{
    fixture f;
    open_fixture(&f, BASE, SLOTS * 8, true);
    looks_up(&f, BASE, BASE, 0);
    for (int i = 0; i < SLOTS; ++i)
        EXPECT_OK(append(&f, BASE + i + 1, i), &f.err);
    looks_up(&f, BASE, BASE, 0);
    looks_up(&f, BASE + SLOTS, BASE + SLOTS, SLOTS - 1);
    looks_up(&f, INT64_MIN, BASE, 0);
    looks_up(&f, INT64_MAX, BASE + SLOTS, SLOTS - 1);
    close_fixture(&f);
}

/* OffsetIndexTest.randomLookupTest */
TEST(lookup_agrees_with_a_linear_search)
{
    uint64_t state = 7;
    for (int round = 0; round < 20; ++round) {
        fixture f;
        int64_t offsets[SLOTS];
        open_fixture(&f, BASE, SLOTS * 8, round % 2 == 0);
        looks_up(&f, 92, BASE, 0);
        int64_t offset = BASE;
        for (int i = 0; i < SLOTS; ++i) {
            offset += 1 + next_random(&state) % 15;
            offsets[i] = offset;
            EXPECT_OK(append(&f, offset, i * 10), &f.err);
        }
        for (int64_t target = BASE - 3; target < offset + 5; ++target) {
            int slot = -1;
            while (slot + 1 < SLOTS && offsets[slot + 1] <= target)
                ++slot;
            looks_up(&f, target, slot < 0 ? BASE : offsets[slot], slot < 0 ? 0 : slot * 10);
        }
        close_fixture(&f);
    }
}

/* OffsetIndexTest.testEntry, OffsetIndexTest.testEntryOverflow [IDX-5] */
TEST(entries_are_read_by_number)
{
    fixture f;
    sgs_offset_position entry;
    open_fixture(&f, BASE, SLOTS * 8, false);
    EXPECT_STATUS(sgs_offset_index_entry(&f.index, 0, &entry, &f.err), SGS_ILLEGAL_ARGUMENT);
    for (int i = 0; i < SLOTS; ++i)
        EXPECT_OK(append(&f, BASE + i, i), &f.err);
    for (int i = 0; i < SLOTS; ++i) {
        EXPECT_OK(sgs_offset_index_entry(&f.index, (uint32_t)i, &entry, &f.err), &f.err);
        EXPECT_EQ_I64(entry.offset, BASE + i);
        EXPECT_EQ_I64(entry.position, i);
    }
    EXPECT_STATUS(sgs_offset_index_entry(&f.index, SLOTS, &entry, &f.err), SGS_ILLEGAL_ARGUMENT);
    close_fixture(&f);
}

/* OffsetIndexTest.appendTooMany, OffsetIndexTest.appendOutOfOrder [OFX-4] */
TEST(append_refuses_what_does_not_fit_and_changes_nothing)
{
    fixture f;
    open_fixture(&f, BASE, SLOTS * 8, false);
    EXPECT_OK(append(&f, 51, 0), &f.err);
    EXPECT_STATUS(append(&f, 50, 1), SGS_INVALID_OFFSET);
    EXPECT_TEXT(f.err.file, NAME);
    EXPECT_STATUS(append(&f, 51, 1), SGS_INVALID_OFFSET);
    EXPECT_STATUS(append(&f, BASE + INT64_C(2147483648), 1), SGS_INDEX_OFFSET_OVERFLOW);
    EXPECT_EQ_I64(f.index.last_offset, 51);
    for (int i = 1; i < SLOTS; ++i)
        EXPECT_OK(append(&f, 51 + i, i), &f.err);
    EXPECT_TRUE(sgs_offset_index_is_full(&f.index));
    EXPECT_STATUS(append(&f, 1000, 1), SGS_ILLEGAL_ARGUMENT);
    EXPECT_EQ_I64(sgs_abstract_index_entries(&f.index.base), SLOTS);
    close_fixture(&f);
}

/* The first entry may carry the base offset itself, but nothing below [IDX-12, T-7]. */
TEST(a_first_entry_below_the_base_overflows)
{
    fixture f;
    open_fixture(&f, BASE, SLOTS * 8, false);
    EXPECT_STATUS(append(&f, BASE - 1, 0), SGS_INDEX_OFFSET_OVERFLOW);
    EXPECT_STATUS(append(&f, INT64_MIN, 0), SGS_INDEX_OFFSET_OVERFLOW);
    EXPECT_OK(append(&f, BASE, 0), &f.err);
    EXPECT_OK(append(&f, BASE + INT64_C(2147483647), 0), &f.err);
    looks_up(&f, INT64_MAX, BASE + INT64_C(2147483647), 0);
    close_fixture(&f);
}

static void upper_bound_is(fixture *f, int64_t offset, int32_t position, int32_t size, int64_t expected)
{
    sgs_offset_position out = { -1, -1 };
    bool found = false;
    const sgs_offset_position start = { offset, position };
    EXPECT_OK(sgs_offset_index_fetch_upper_bound_offset(&f->index, start, size, &out, &found, &f->err), &f->err);
    EXPECT_EQ_I64(found ? out.offset : -1, expected);
}

/* OffsetIndexTest.testFetchUpperBoundOffset [OFX-6] */
TEST(the_upper_bound_of_a_fetch_lies_behind_its_bytes)
{
    fixture f;
    open_fixture(&f, BASE, SLOTS * 8, false);
    upper_bound_is(&f, 45, 0, 5, -1);
    EXPECT_OK(append(&f, 45, 0), &f.err);
    EXPECT_OK(append(&f, 46, 10), &f.err);
    EXPECT_OK(append(&f, 47, 23), &f.err);
    EXPECT_OK(append(&f, 48, 37), &f.err);
    upper_bound_is(&f, 45, 0, 5, 46);
    upper_bound_is(&f, 45, 0, 10, 46);
    upper_bound_is(&f, 45, 0, 22, 47);
    upper_bound_is(&f, 45, 0, 23, 47);
    upper_bound_is(&f, 46, 10, 24, 48);
    upper_bound_is(&f, 48, 37, 1, -1);
    upper_bound_is(&f, 45, 0, 200, -1);
    upper_bound_is(&f, 46, 10, 200, -1);
    upper_bound_is(&f, 46, INT32_MAX, INT32_MAX, -1); /* a sum of 64 bits does not wrap */
    close_fixture(&f);
}

/* [IDX-8, T-4] the quirk: a target equal to the first position answers the entry behind it */
TEST(the_upper_bound_of_the_first_position_is_the_second_entry)
{
    fixture f;
    open_fixture(&f, 50, SLOTS * 8, false);
    EXPECT_OK(append(&f, 53, 100), &f.err);
    EXPECT_OK(append(&f, 57, 300), &f.err);
    EXPECT_OK(append(&f, 60, 700), &f.err);
    upper_bound_is(&f, 0, 300, 0, 57);
    upper_bound_is(&f, 0, 100, 0, 57);
    upper_bound_is(&f, 0, 99, 0, 53);
    upper_bound_is(&f, 0, 701, 0, -1);
    looks_up(&f, 52, 50, 0);
    looks_up(&f, 53, 53, 100);
    looks_up(&f, 56, 53, 100);
    looks_up(&f, 60, 60, 700);
    looks_up(&f, 1000000000, 60, 700);
    EXPECT_OK(sgs_offset_index_truncate_to(&f.index, 58, &f.err), &f.err);
    EXPECT_EQ_I64(sgs_abstract_index_entries(&f.index.base), 2);
    EXPECT_OK(sgs_offset_index_truncate_to(&f.index, 57, &f.err), &f.err);
    EXPECT_EQ_I64(sgs_abstract_index_entries(&f.index.base), 1);
    EXPECT_OK(sgs_offset_index_truncate_to(&f.index, 54, &f.err), &f.err);
    EXPECT_EQ_I64(sgs_abstract_index_entries(&f.index.base), 1);
    EXPECT_OK(sgs_offset_index_truncate_to(&f.index, 50, &f.err), &f.err);
    EXPECT_EQ_I64(sgs_abstract_index_entries(&f.index.base), 0);
    close_fixture(&f);
}

/* OffsetIndexTest.testReopen [IDX-2, IDX-14] */
TEST(a_closed_index_is_trimmed_and_opens_full)
{
    for (int kafka = 0; kafka < 2; ++kafka) {
        fixture f;
        open_fixture(&f, BASE, SLOTS * 8, kafka == 1);
        EXPECT_OK(append(&f, 51, 0), &f.err);
        EXPECT_OK(append(&f, 52, 1), &f.err);
        EXPECT_OK(sgs_abstract_index_close(&f.index.base, &f.memory.env, NAME, &f.err), &f.err);
        const uint8_t expected[16] = { 0, 0, 0, 6, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 1 };
        uint8_t bytes[64];
        EXPECT_EQ_I64(temporary_read(&f.directory, NAME, bytes, sizeof bytes), 16);
        EXPECT_MEM(bytes, expected, 16);

        REQUIRE_OK(reopen(&f, BASE, options_of(SLOTS * 8, kafka == 1)), &f.err);
        looks_up(&f, 51, 51, 0);
        looks_up(&f, 52, 52, 1);
        EXPECT_EQ_I64(f.index.last_offset, 52);
        EXPECT_EQ_I64(sgs_abstract_index_entries(&f.index.base), 2);
        EXPECT_STATUS(append(&f, 53, 2), SGS_ILLEGAL_ARGUMENT);
        close_fixture(&f);
    }
}

/* OffsetIndexTest.truncate [OFX-5] */
TEST(truncation_drops_entries_from_the_offset_on)
{
    fixture f;
    open_fixture(&f, 0, 10 * 8, false);
    for (int i = 1; i < 10; ++i)
        EXPECT_OK(append(&f, i, i), &f.err);
    EXPECT_OK(sgs_offset_index_truncate_to(&f.index, 12, &f.err), &f.err);
    looks_up(&f, 10, 9, 9);
    EXPECT_EQ_I64(f.index.last_offset, 9);
    EXPECT_OK(append(&f, 10, 10), &f.err);
    EXPECT_OK(sgs_offset_index_truncate_to(&f.index, 10, &f.err), &f.err);
    EXPECT_EQ_I64(f.index.last_offset, 9);
    EXPECT_OK(append(&f, 10, 10), &f.err);
    EXPECT_OK(sgs_offset_index_truncate_to(&f.index, 9, &f.err), &f.err);
    EXPECT_EQ_I64(f.index.last_offset, 8);
    EXPECT_OK(append(&f, 9, 9), &f.err);
    EXPECT_OK(sgs_offset_index_truncate_to(&f.index, 5, &f.err), &f.err);
    EXPECT_EQ_I64(f.index.last_offset, 4);
    EXPECT_OK(append(&f, 5, 5), &f.err);
    sgs_abstract_index_keep(&f.index.base, 0);
    sgs_offset_index_refresh(&f.index);
    EXPECT_EQ_I64(sgs_abstract_index_entries(&f.index.base), 0);
    EXPECT_EQ_I64(f.index.last_offset, 0);
    EXPECT_OK(append(&f, 0, 1), &f.err);
    close_fixture(&f);
}

/* T-3: around the border of the warm section every target is found. */
TEST(the_warm_section_changes_no_answer)
{
    enum { ENTRIES = 2000 };
    fixture f;
    open_fixture(&f, 0, ENTRIES * 8, false);
    for (int i = 0; i < ENTRIES; ++i)
        EXPECT_OK(append(&f, 10 + 2 * i, i), &f.err);
    for (int i = 0; i < ENTRIES; ++i)
        if (!looks_up(&f, 10 + 2 * i, 10 + 2 * i, i) || !looks_up(&f, 11 + 2 * i, 10 + 2 * i, i))
            break;
    close_fixture(&f);
}

/* T-3: 2000 entries have their first warm one at slot 975. Kafka's search cannot see behind a wild key there, and finds the
 * entry when the wild key is one slot away. */
TEST(the_warm_section_begins_where_kafka_has_it)
{
    enum { ENTRIES = 2000, TARGET = 1500 };
    static uint8_t file[ENTRIES * 8];
    for (int wild = 974; wild <= 976; ++wild) {
        for (uint32_t i = 0; i < ENTRIES; ++i) {
            sgs_store_be32(file + 8 * i, (int)i == wild ? INT32_MAX : i);
            sgs_store_be32(file + 8 * i + 4, i);
        }
        fixture f = { .directory = temporary_open() };
        memory_env_init(&f.memory, sgs_env_posix());
        temporary_write(&f.directory, NAME, file, sizeof file);
        REQUIRE_OK(reopen(&f, 0, options_of(sizeof file, true)), &f.err);
        const int32_t answer = wild == 975 ? 974 : TARGET;
        looks_up(&f, TARGET, answer, answer);
        close_fixture(&f);
    }
}

/* [DUR-80] the tail that a crash leaves; Kafka counts it as entries [IDX-2]. */
TEST(zero_padding_is_no_entry_unless_kafka_says_so)
{
    uint8_t file[80] = { 0 };
    sgs_store_be32(file, 5);
    sgs_store_be32(file + 4, 4100);
    sgs_store_be32(file + 8, 9);
    sgs_store_be32(file + 12, 8200);
    for (int kafka = 0; kafka < 2; ++kafka) {
        for (int writable = 0; writable < 2; ++writable) {
            fixture f = { .directory = temporary_open() };
            memory_env_init(&f.memory, sgs_env_posix());
            temporary_write(&f.directory, NAME, file, sizeof file);
            sgs_index_options options = options_of(800, kafka == 1);
            options.writable = writable == 1;
            REQUIRE_OK(reopen(&f, BASE, options), &f.err);
            if (kafka == 1) {
                EXPECT_EQ_I64(sgs_abstract_index_entries(&f.index.base), 10);
                EXPECT_EQ_I64(f.index.last_offset, BASE);
            } else {
                EXPECT_EQ_I64(sgs_abstract_index_entries(&f.index.base), 2);
                EXPECT_EQ_I64(f.index.last_offset, BASE + 9);
                looks_up(&f, BASE + 7, BASE + 5, 4100);
                looks_up(&f, BASE + 100, BASE + 9, 8200);
                /* a writable index has dropped the tail, which may be holes; a read-only one leaves the file alone */
                EXPECT_EQ_I64(temporary_read(&f.directory, NAME, NULL, 0), writable == 1 ? 16 : 80);
            }
            close_fixture(&f);
        }
    }
}

TEST(a_file_of_zeros_has_no_entries)
{
    const uint8_t file[4096] = { 0 };
    fixture f = { .directory = temporary_open() };
    memory_env_init(&f.memory, sgs_env_posix());
    temporary_write(&f.directory, NAME, file, sizeof file);
    REQUIRE_OK(reopen(&f, BASE, options_of(8000, false)), &f.err);
    EXPECT_EQ_I64(sgs_abstract_index_entries(&f.index.base), 0);
    looks_up(&f, BASE + 100, BASE, 0);
    close_fixture(&f);
}

/* [DUR-53] an entry that cannot be, and keys out of order on the way to an answer */
TEST(impossible_entries_are_corrupt)
{
    uint8_t file[24] = { 0 };
    sgs_offset_position found;
    sgs_store_be32(file, 3);
    sgs_store_be_i32(file + 4, -1); /* a negative position */
    sgs_store_be32(file + 8, 5);
    sgs_store_be32(file + 16, 9);
    fixture f = { .directory = temporary_open() };
    memory_env_init(&f.memory, sgs_env_posix());
    temporary_write(&f.directory, NAME, file, sizeof file);
    REQUIRE_OK(reopen(&f, BASE, options_of(800, false)), &f.err);
    EXPECT_STATUS(sgs_offset_index_lookup(&f.index, BASE + 4, &found, &f.err), SGS_CORRUPT_INDEX);
    EXPECT_EQ_I64(f.err.position, 0);
    close_fixture(&f);

    uint8_t wild[5 * 8] = { 0 };
    const uint32_t keys[5] = { 1, 50, 20, 30, 90 }; /* last above first: believed until a search meets it */
    for (int i = 0; i < 5; ++i)
        sgs_store_be32(wild + 8 * i, keys[i]);
    f.directory = temporary_open();
    temporary_write(&f.directory, NAME, wild, sizeof wild);
    REQUIRE_OK(reopen(&f, 0, options_of(800, false)), &f.err);
    EXPECT_EQ_I64(sgs_abstract_index_entries(&f.index.base), 5);
    EXPECT_STATUS(sgs_offset_index_lookup(&f.index, 10, &found, &f.err), SGS_CORRUPT_INDEX);
    EXPECT_OK(sgs_offset_index_truncate_to(&f.index, 10, &f.err), &f.err);
    EXPECT_EQ_I64(sgs_abstract_index_entries(&f.index.base), 0); /* an entry too few only makes a scan longer */
    close_fixture(&f);
}

/* [OFX-7] */
TEST(the_sanity_check_sees_a_torn_length_and_a_negative_entry)
{
    uint8_t file[17] = { 0 };
    sgs_store_be_i32(file + 8, -1);
    fixture f = { .directory = temporary_open() };
    memory_env_init(&f.memory, sgs_env_posix());
    temporary_write(&f.directory, NAME, file, 16);
    REQUIRE_OK(reopen(&f, BASE, options_of(800, true)), &f.err);
    EXPECT_STATUS(sgs_offset_index_sanity_check(&f.index, &f.err), SGS_CORRUPT_INDEX);
    close_fixture(&f);

    f.directory = temporary_open();
    sgs_store_be_i32(file + 8, 1);
    temporary_write(&f.directory, NAME, file, 17);
    REQUIRE_OK(reopen(&f, BASE, options_of(800, true)), &f.err);
    EXPECT_STATUS(sgs_offset_index_sanity_check(&f.index, &f.err), SGS_CORRUPT_INDEX);
    EXPECT_EQ_I64(f.err.position, -1);
    close_fixture(&f);
}

TEST_MAIN()
