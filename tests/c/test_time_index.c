/* The time index, as Kafka's TimeIndexTest uses it. */
#include "index/time_index.h"

#include "base/bytes.h"
#include "memory_env.h"
#include "temporary.h"
#include "test.h"

enum { BASE = 45, SLOTS = 30 };
static const char NAME[] = "00000000000000000045.timeindex";

typedef struct fixture {
    temporary directory;
    memory_env memory;
    sgs_time_index index;
    sgs_error err;
} fixture;

static sgs_status reopen(fixture *f, uint32_t max_size, bool kafka)
{
    const sgs_index_options options = { .max_size_bytes = max_size, .writable = true, .grow_in_steps = !kafka };
    return sgs_time_index_open(&f->index, &f->memory.env, f->directory.fd, NAME, BASE, &options, &f->err);
}

static void open_fixture(fixture *f, bool kafka)
{
    f->directory = temporary_open();
    memory_env_init(&f->memory, sgs_env_posix());
    EXPECT_OK(reopen(f, SLOTS * 12, kafka), &f->err);
}

static void close_fixture(fixture *f)
{
    EXPECT_EQ_I64(atomic_load(&f->index.base.readers), 0); /* every look-up has left */
    sgs_abstract_index_close_handler(&f->index.base, &f->memory.env, NAME);
    EXPECT_TRUE(memory_env_is_balanced(&f->memory));
    temporary_close(&f->directory);
}

static sgs_status append(fixture *f, int64_t timestamp, int64_t offset, bool skip_full_check)
{
    return sgs_time_index_maybe_append(&f->index, &f->memory.env, NAME, timestamp, offset, skip_full_check, &f->err);
}

/* (10, 55), (20, 65), ... (290, 335) */
static void fill(fixture *f)
{
    for (int i = 1; i < SLOTS; ++i)
        EXPECT_OK(append(f, i * 10, i * 10 + BASE, false), &f->err);
}

static void looks_up(fixture *f, int64_t target, int64_t timestamp, int64_t offset)
{
    sgs_timestamp_offset found = { -7, -7 };
    EXPECT_OK(sgs_time_index_lookup(&f->index, target, &found, &f->err), &f->err);
    EXPECT_EQ_I64(found.timestamp, timestamp);
    EXPECT_EQ_I64(found.offset, offset);
}

static uint32_t entries(const fixture *f) { return sgs_abstract_index_entries(&f->index.base); }

/* TimeIndexTest.testLookUp, TimeIndexTest.testEntrySize [TMX-3] */
TEST(lookup_answers_the_greatest_entry_not_above)
{
    fixture f;
    open_fixture(&f, false);
    EXPECT_EQ_I64(f.index.base.entry_size, 12);
    looks_up(&f, 100, -1, BASE);
    fill(&f);
    looks_up(&f, 9, -1, BASE);
    looks_up(&f, 25, 20, 65);
    looks_up(&f, 30, 30, 75);
    looks_up(&f, INT64_MAX, 290, 335);
    looks_up(&f, INT64_MIN, -1, BASE);
    close_fixture(&f);
}

/* TimeIndexTest.testEntryOverflow, TimeIndexTest.testLastEntry [IDX-5, TMX-2] */
TEST(an_empty_index_has_no_entry_and_a_default_last_one)
{
    fixture f;
    sgs_timestamp_offset entry;
    open_fixture(&f, false);
    EXPECT_STATUS(sgs_time_index_entry(&f.index, 0, &entry, &f.err), SGS_ILLEGAL_ARGUMENT);
    EXPECT_EQ_I64(f.index.last_entry.timestamp, -1);
    EXPECT_EQ_I64(f.index.last_entry.offset, BASE);
    EXPECT_OK(append(&f, 1, 46, false), &f.err);
    EXPECT_EQ_I64(f.index.base.file.length, SLOTS * 12);
    EXPECT_EQ_I64(f.index.last_entry.timestamp, 1);
    EXPECT_EQ_I64(f.index.last_entry.offset, 46);
    EXPECT_OK(sgs_time_index_entry(&f.index, 0, &entry, &f.err), &f.err);
    EXPECT_EQ_I64(entry.offset, 46);
    close_fixture(&f);
}

/* TimeIndexTest.testTruncate [TMX-7] */
TEST(truncation_is_by_offset)
{
    fixture f;
    open_fixture(&f, false);
    fill(&f);
    sgs_abstract_index_keep(&f.index.base, 0);
    sgs_time_index_refresh(&f.index);
    EXPECT_EQ_I64(entries(&f), 0);
    fill(&f);
    EXPECT_OK(sgs_time_index_truncate_to(&f.index, 66, &f.err), &f.err);
    EXPECT_EQ_I64(entries(&f), 2);
    EXPECT_EQ_I64(f.index.last_entry.timestamp, 20);
    EXPECT_OK(sgs_time_index_truncate_to(&f.index, 56, &f.err), &f.err);
    EXPECT_EQ_I64(entries(&f), 1);
    EXPECT_OK(sgs_time_index_truncate_to(&f.index, 55, &f.err), &f.err);
    EXPECT_EQ_I64(entries(&f), 0);
    EXPECT_EQ_I64(f.index.last_entry.timestamp, -1);
    close_fixture(&f);
}

/* [IDX-7] among equal offsets the bisection answers the slot that it meets first: of five entries the middle one */
TEST(equal_offsets_are_cut_where_the_bisection_meets_them)
{
    fixture f;
    open_fixture(&f, false);
    for (int i = 0; i < 5; ++i)
        EXPECT_OK(append(&f, i, BASE + (i == 0 ? 1 : 5), false), &f.err);
    EXPECT_OK(sgs_time_index_truncate_to(&f.index, BASE + 5, &f.err), &f.err);
    EXPECT_EQ_I64(entries(&f), 2);
    close_fixture(&f);
}

/* TimeIndexTest.testIsFull [TMX-4] */
TEST(the_last_slot_is_kept_for_the_seal)
{
    fixture f;
    open_fixture(&f, true);
    EXPECT_TRUE(!sgs_time_index_is_full(&f.index));
    fill(&f); /* 29 of 30 */
    EXPECT_TRUE(sgs_time_index_is_full(&f.index));
    EXPECT_STATUS(append(&f, 1000, 1000, false), SGS_ILLEGAL_ARGUMENT);
    EXPECT_STATUS(append(&f, 0, 1000, false), SGS_ILLEGAL_ARGUMENT); /* even what would be ignored [TMX-5.1] */
    EXPECT_OK(append(&f, 1000, 1000, true), &f.err);
    EXPECT_STATUS(append(&f, 1001, 1001, true), SGS_ILLEGAL_ARGUMENT); /* Kafka: BufferOverflowException */
    EXPECT_TEXT(f.err.message, "the time index has no slot left (30 entries)");
    EXPECT_OK(append(&f, 1000, 1001, true), &f.err); /* ignored: needs no slot */
    EXPECT_EQ_I64(entries(&f), SLOTS);
    close_fixture(&f);
}

/* [TMX-5] */
TEST(maybe_append_keeps_both_fields_ascending)
{
    fixture f;
    open_fixture(&f, false);
    EXPECT_OK(append(&f, -1, 50, false), &f.err); /* data without timestamps leaves the index empty */
    EXPECT_EQ_I64(entries(&f), 0);
    EXPECT_OK(append(&f, 0, 50, false), &f.err);
    EXPECT_OK(append(&f, 10, 50, false), &f.err); /* equal offsets with a larger timestamp are legal */
    EXPECT_EQ_I64(entries(&f), 2);
    EXPECT_STATUS(append(&f, 20, 49, false), SGS_INVALID_OFFSET);
    EXPECT_STATUS(append(&f, 9, 60, false), SGS_ILLEGAL_STATE);
    EXPECT_OK(append(&f, 10, 60, false), &f.err);
    EXPECT_EQ_I64(entries(&f), 2);
    EXPECT_EQ_I64(f.index.last_entry.offset, 50);
    close_fixture(&f);
}

/* [TMX-6] Kafka has written the timestamp by then; here nothing has changed. */
TEST(an_offset_that_does_not_fit_leaves_the_index_as_it_was)
{
    fixture f;
    open_fixture(&f, false);
    EXPECT_OK(append(&f, 10, 50, false), &f.err);
    EXPECT_STATUS(append(&f, 20, BASE + INT64_C(2147483648), false), SGS_INDEX_OFFSET_OVERFLOW);
    EXPECT_EQ_I64(entries(&f), 1);
    EXPECT_OK(append(&f, 20, 51, false), &f.err);
    looks_up(&f, 20, 20, 51);
    close_fixture(&f);
}

/* TimeIndexTest.testSanityCheck [TMX-8], with damaged bytes where Kafka fakes the damage */
TEST(the_sanity_check_sees_damage)
{
    uint8_t file[61] = { 0 };
    for (int i = 0; i < 5; ++i) {
        sgs_store_be_i64(file + 12 * i, (i + 1) * 10);
        sgs_store_be_i32(file + 12 * i + 8, (i + 1) * 10);
    }
    fixture f;
    open_fixture(&f, true);
    EXPECT_OK(sgs_time_index_sanity_check(&f.index, &f.err), &f.err);
    const struct {
        int64_t last_timestamp;
        int32_t last_relative_offset;
        size_t size;
        bool sane;
    } cases[] = { { 50, 50, 60, true }, { 15, 50, 60, true },  { 50, -1, 60, false },
                  { 9, 50, 60, false }, { 50, 50, 61, false }, { 50, 50, 12, true } };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        sgs_abstract_index_close_handler(&f.index.base, &f.memory.env, NAME);
        sgs_store_be_i64(file + 48, cases[i].last_timestamp);
        sgs_store_be_i32(file + 56, cases[i].last_relative_offset);
        temporary_write(&f.directory, NAME, file, cases[i].size);
        REQUIRE_OK(reopen(&f, SLOTS * 12, true), &f.err);
        EXPECT_STATUS(sgs_time_index_sanity_check(&f.index, &f.err), cases[i].sane ? SGS_OK : SGS_CORRUPT_INDEX);
        if (!cases[i].sane)
            EXPECT_EQ_I64(f.err.position, -1); /* it is about the whole file */
    }
    close_fixture(&f);
}

/* TimeIndexTest.testResize [IDX-9], in both modes */
TEST(resize_says_whether_anything_changed)
{
    for (int kafka = 0; kafka < 2; ++kafka) {
        fixture f;
        bool changed = true;
        open_fixture(&f, kafka == 1);
        EXPECT_OK(sgs_abstract_index_resize(&f.index.base, &f.memory.env, NAME, 360, &changed, &f.err), &f.err);
        EXPECT_TRUE(!changed);
        EXPECT_OK(sgs_abstract_index_resize(&f.index.base, &f.memory.env, NAME, 180, &changed, &f.err), &f.err);
        EXPECT_TRUE(changed);
        EXPECT_EQ_I64(f.index.base.max_entries, 15);
        EXPECT_OK(sgs_abstract_index_resize(&f.index.base, &f.memory.env, NAME, 720, &changed, &f.err), &f.err);
        EXPECT_TRUE(changed);
        EXPECT_EQ_I64(f.index.base.max_entries, 60);
        EXPECT_EQ_I64(temporary_read(&f.directory, NAME, NULL, 0), kafka == 1 ? 720 : 0);
        for (int i = 0; i < 59; ++i) /* beyond what was reserved at first */
            EXPECT_OK(append(&f, i, BASE + i, false), &f.err);
        looks_up(&f, 100, 58, BASE + 58);
        close_fixture(&f);
    }
}

/* [DUR-80] a legal first entry of zeros: one record at the base offset with timestamp 0 */
TEST(an_entry_of_zeros_counts_alone_and_before_others_but_not_before_padding)
{
    uint8_t file[36] = { 0 };
    const struct {
        size_t size;
        uint32_t entries;
    } cases[] = { { 12, 1 }, { 24, 0 }, { 36, 0 } };
    for (size_t i = 0; i < 3; ++i) {
        fixture f = { .directory = temporary_open() };
        memory_env_init(&f.memory, sgs_env_posix());
        temporary_write(&f.directory, NAME, file, cases[i].size);
        REQUIRE_OK(reopen(&f, SLOTS * 12, false), &f.err);
        EXPECT_EQ_I64(entries(&f), cases[i].entries);
        close_fixture(&f);
    }
    sgs_store_be_i64(file + 12, 7);
    fixture f = { .directory = temporary_open() };
    memory_env_init(&f.memory, sgs_env_posix());
    temporary_write(&f.directory, NAME, file, sizeof file);
    REQUIRE_OK(reopen(&f, SLOTS * 12, false), &f.err);
    EXPECT_EQ_I64(entries(&f), 2);
    looks_up(&f, 6, 0, BASE);
    looks_up(&f, 100, 7, BASE);
    close_fixture(&f);
}

TEST(an_offset_below_the_base_is_corrupt)
{
    uint8_t file[12] = { 0 };
    sgs_timestamp_offset found;
    sgs_store_be_i64(file, 5);
    sgs_store_be_i32(file + 8, -3);
    fixture f = { .directory = temporary_open() };
    memory_env_init(&f.memory, sgs_env_posix());
    temporary_write(&f.directory, NAME, file, sizeof file);
    REQUIRE_OK(reopen(&f, SLOTS * 12, false), &f.err);
    EXPECT_STATUS(sgs_time_index_lookup(&f.index, 5, &found, &f.err), SGS_CORRUPT_INDEX);
    close_fixture(&f);
}

/* [DUR-53] both fields of the entry behind the answer are looked at; Kafka looks at none */
TEST(an_answer_above_the_next_entry_is_damage)
{
    for (int kafka = 0; kafka < 2; ++kafka) {
        fixture f;
        sgs_timestamp_offset found;
        open_fixture(&f, kafka == 1);
        EXPECT_OK(append(&f, 10, 50, false), &f.err);
        EXPECT_OK(append(&f, 20, 60, false), &f.err);
        EXPECT_OK(append(&f, 30, 60, false), &f.err); /* an equal offset is none [TMX-5] */
        looks_up(&f, 15, 10, 50);
        looks_up(&f, 25, 20, 60);
        sgs_abstract_index_store(&f.index.base, 0, 10, 16);
        if (kafka == 1)
            looks_up(&f, 15, 10, 61);
        else
            EXPECT_STATUS(sgs_time_index_lookup(&f.index, 15, &found, &f.err), SGS_CORRUPT_INDEX);
        looks_up(&f, 25, 20, 60);
        EXPECT_OK(sgs_time_index_truncate_to(&f.index, 0, &f.err), &f.err);
        looks_up(&f, 15, -1, BASE);
        close_fixture(&f);
    }
}

/* [TMX-5] what precedes an entry is looked at where there is something */
TEST(a_first_entry_follows_nothing_and_a_second_one_the_first)
{
    fixture f;
    open_fixture(&f, false);
    EXPECT_OK(append(&f, -5, 50, false), &f.err); /* no time at all */
    EXPECT_EQ_I64(entries(&f), 0);
    EXPECT_STATUS(append(&f, 10, BASE - 1, false), SGS_INDEX_OFFSET_OVERFLOW);
    EXPECT_OK(append(&f, 10, 50, false), &f.err);
    EXPECT_STATUS(append(&f, 20, 49, false), SGS_INVALID_OFFSET);
    EXPECT_STATUS(append(&f, 9, 60, false), SGS_ILLEGAL_STATE);
    EXPECT_EQ_I64(f.err.position, 12);
    EXPECT_TEXT(f.err.file, NAME);
    EXPECT_EQ_I64(entries(&f), 1);
    EXPECT_OK(sgs_abstract_index_close(&f.index.base, &f.memory.env, NAME, &f.err), &f.err);
    EXPECT_STATUS(append(&f, 20, 60, false), SGS_CLOSED);
    close_fixture(&f);
}

/* [DUR-53] the last entry counts as a next one, and a time that is repeated does not increase */
TEST(an_answer_that_the_next_entry_contradicts_names_that_entry)
{
    const struct {
        int64_t timestamps[3];
        int32_t relative_offsets[3];
        int count;
        int64_t target, position;
    } cases[] = {
        { { 10, 20 }, { 16, 15 }, 2, 15, 12 },
        { { 10, 20, 20 }, { 1, 2, 3 }, 3, 20, 24 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        uint8_t file[36];
        sgs_timestamp_offset found;
        fixture f = { .directory = temporary_open() };
        memory_env_init(&f.memory, sgs_env_posix());
        for (int slot = 0; slot < cases[i].count; ++slot) {
            sgs_store_be_i64(file + 12 * slot, cases[i].timestamps[slot]);
            sgs_store_be_i32(file + 12 * slot + 8, cases[i].relative_offsets[slot]);
        }
        temporary_write(&f.directory, NAME, file, 12 * (size_t)cases[i].count);
        REQUIRE_OK(reopen(&f, SLOTS * 12, false), &f.err);
        EXPECT_STATUS(sgs_time_index_lookup(&f.index, cases[i].target, &found, &f.err), SGS_CORRUPT_INDEX);
        EXPECT_EQ_I64(f.err.position, cases[i].position);
        close_fixture(&f);
    }
}

/* [IDX-17] behind a file that ends with a page a read would be a SIGBUS */
TEST(nothing_is_read_behind_the_last_entry)
{
    enum { ENTRIES = 1024 }; /* three pages */
    fixture f = { .directory = temporary_open() };
    memory_env_init(&f.memory, sgs_env_posix());
    REQUIRE_OK(reopen(&f, 2 * ENTRIES * 12, false), &f.err);
    for (int i = 0; i < ENTRIES; ++i) {
        EXPECT_OK(append(&f, i, BASE + i, false), &f.err);
        EXPECT_EQ_I64(f.index.base.file.length % 12, 0);
    }
    EXPECT_OK(sgs_time_index_trim(&f.index, &f.memory.env, NAME, &f.err), &f.err);
    looks_up(&f, ENTRIES, ENTRIES - 1, BASE + ENTRIES - 1);
    close_fixture(&f);
}

TEST_MAIN()
