/* test_index_answers.c - what look-ups answer where searches begin and end, and which entries they refuse to believe. */
#include "base/bytes.h"
#include "index/time_index.h"
#include "index_kit.h"

static const sgs_index_options IN_STEPS = { .max_size_bytes = 10485760, .writable = true, .grow_in_steps = true };

enum { MOST_ENTRIES = 2000 };

/* An offset index over a file of `count` entries (key i, position i), but for one wild key. */
static void open_wild(fixture *f, sgs_index_options options, uint32_t count, int wild, int32_t wild_key)
{
    static uint8_t file[MOST_ENTRIES * 8];
    for (uint32_t i = 0; i < count; ++i) {
        sgs_store_be_i32(file + 8 * i, (int)i == wild ? wild_key : (int32_t)i);
        sgs_store_be32(file + 8 * i + 4, i);
    }
    *f = (fixture){ .directory = temporary_open() };
    memory_env_init(&f->memory, sgs_env_posix());
    temporary_write(&f->directory, NAME, file, 8 * count);
    EXPECT_OK(reopen(f, options), &f->err);
}

/* [IDX-6] Kafka's search cannot see behind a wild key that it probes: what it answers shows where it looked. 1024 entries are
 * warm behind the first of them. */
TEST(a_search_looks_where_kafka_looks)
{
    const struct {
        uint32_t count;
        int wild, target, answer;
    } cases[] = {
        { 2000, 975, 1500, 974 },   /* the first warm entry is above: the cold ones are searched */
        { 2000, 1000, 1500, 1500 }, /* the middle of all, which nobody asks */
        { 2000, 488, 1500, 1500 },  /* the middle of the cold ones, which nobody asks */
        { 2000, 488, 975, 487 },    /* the first warm entry itself is looked for among the cold */
        { 2000, 488, 976, 976 },    /* the one behind it is not */
        { 1026, 1, 900, 0 },        /* one cold entry */
        { 1025, 1, 900, 900 },      /* none */
        { 1024, 1, 900, 900 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        fixture f;
        sgs_offset_position found = { -7, -7 };
        open_wild(&f, KAFKA, cases[i].count, cases[i].wild, INT32_MAX);
        EXPECT_OK(sgs_offset_index_lookup(&f.index, cases[i].target, &found, &f.err), &f.err);
        EXPECT_EQ_I64(found.offset, cases[i].answer);
        close_fixture(&f);
    }
}

/* [DUR-53] keys strictly increase: one that is met twice is as wrong as one that falls */
TEST(keys_that_do_not_increase_are_noticed_on_the_way)
{
    const struct {
        int32_t keys[5];
        int64_t target;
        int64_t position; /* of the entry where the search ended; -1 = nothing was met */
    } cases[] = {
        { { 1, 50, 50, 60, 90 }, 10, 0 },  { { 1, 50, 40, 60, 90 }, 10, 0 }, { { 1, 20, 50, 50, 90 }, 60, 24 },
        { { 1, 20, 50, 40, 90 }, 60, 24 }, { { 1, 2, 50, 40, 90 }, 10, -1 }, { { 1, 20, 50, 60, 90 }, 60, -1 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        uint8_t file[5 * 8] = { 0 };
        fixture f = { .directory = temporary_open() };
        sgs_offset_position found;
        memory_env_init(&f.memory, sgs_env_posix());
        for (int slot = 0; slot < 5; ++slot)
            sgs_store_be_i32(file + 8 * slot, cases[i].keys[slot]);
        temporary_write(&f.directory, NAME, file, sizeof file);
        REQUIRE_OK(reopen(&f, IN_STEPS), &f.err);
        const sgs_status status = sgs_offset_index_lookup(&f.index, cases[i].target, &found, &f.err);
        EXPECT_STATUS(status, cases[i].position < 0 ? SGS_OK : SGS_CORRUPT_INDEX);
        if (status != SGS_OK)
            EXPECT_EQ_I64(f.err.position, cases[i].position);
        close_fixture(&f);
    }
}

/* [DUR-90] */
TEST(any_timestamp_is_a_key)
{
    const int64_t keys[] = { INT64_MIN, -5, 0, 7, INT64_MAX };
    uint8_t file[5 * 12];
    fixture f = { .directory = temporary_open() };
    sgs_time_index times;
    memory_env_init(&f.memory, sgs_env_posix());
    for (int i = 0; i < 5; ++i) {
        sgs_store_be_i64(file + 12 * i, keys[i]);
        sgs_store_be_i32(file + 12 * i + 8, i);
    }
    for (size_t count = 1; count <= 5; ++count) {
        temporary_write(&f.directory, "t", file, 12 * count);
        REQUIRE_OK(sgs_time_index_open(&times, &f.memory.env, f.directory.fd, "t", 0, &IN_STEPS, &f.err), &f.err);
        for (size_t i = 0; i < count; ++i) {
            sgs_timestamp_offset found = { -7, -7 };
            EXPECT_OK(sgs_time_index_lookup(&times, keys[i], &found, &f.err), &f.err);
            EXPECT_EQ_I64(found.timestamp, keys[i]);
            EXPECT_EQ_I64(found.offset, i);
        }
        sgs_abstract_index_close_handler(&times.base, &f.memory.env, "t");
    }
    EXPECT_OK(reopen(&f, IN_STEPS), &f.err);
    close_fixture(&f);
}

/* What lies behind the floor is above it in both fields: an entry of the base offset is not behind the beginning. */
TEST(no_entry_is_above_one_with_its_offset)
{
    fixture f;
    sgs_offset_position floor = { -7, -7 };
    sgs_offset_position above = { -7, -7 };
    open_fixture(&f, IN_STEPS);
    EXPECT_OK(sgs_offset_index_append(&f.index, &f.memory.env, NAME, 0, 100, &f.err), &f.err);
    EXPECT_OK(sgs_offset_index_lookup_between(&f.index, -1, &floor, &above, &f.err), &f.err);
    EXPECT_EQ_I64(floor.position, 0);
    EXPECT_EQ_I64(above.position, -1);
    close_fixture(&f);
}

/* [DUR-53] the least that an entry may be, and less */
TEST(an_entry_that_cannot_be_is_not_believed)
{
    const struct {
        int32_t relative_offset, position;
        bool possible;
    } cases[] = { { 0, 0, true }, { 0, 5, true }, { -1, 5, false }, { 5, -1, false } };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i)
        for (int kafka = 0; kafka < 2; ++kafka) { /* who believes every one [IDX-2] */
            uint8_t file[8];
            fixture f = { .directory = temporary_open() };
            sgs_offset_position found = { -7, -7 };
            sgs_offset_position bound = { -7, -7 };
            const sgs_offset_position start = { .offset = 0, .position = -2 };
            bool is_found = false;
            memory_env_init(&f.memory, sgs_env_posix());
            sgs_store_be_i32(file, cases[i].relative_offset);
            sgs_store_be_i32(file + 4, cases[i].position);
            temporary_write(&f.directory, NAME, file, sizeof file);
            REQUIRE_OK(reopen(&f, kafka == 1 ? KAFKA : IN_STEPS), &f.err);
            const sgs_status wanted = kafka == 1 || cases[i].possible ? SGS_OK : SGS_CORRUPT_INDEX;
            EXPECT_STATUS(sgs_offset_index_lookup(&f.index, 5, &found, &f.err), wanted);
            EXPECT_EQ_I64(found.position, wanted == SGS_OK ? cases[i].position : -7);
            if (wanted != SGS_OK)
                EXPECT_EQ_I64(f.err.position, 0);
            EXPECT_STATUS(sgs_offset_index_fetch_upper_bound_offset(&f.index, start, 0, &bound, &is_found, &f.err),
                          wanted);
            EXPECT_EQ_I64(bound.position, wanted == SGS_OK ? cases[i].position : -7);
            EXPECT_TRUE(is_found == (wanted == SGS_OK));
            close_fixture(&f);
        }
}

/* [OFX-7, TMX-8, IDX-5] in a file that ends with it */
TEST(one_entry_may_be_that_of_the_base_offset)
{
    for (int32_t relative_offset = -1; relative_offset <= 1; ++relative_offset) {
        const sgs_status wanted = relative_offset < 0 ? SGS_CORRUPT_INDEX : SGS_OK;
        uint8_t file[12] = { 0 };
        fixture f = { .directory = temporary_open() };
        sgs_time_index times;
        sgs_offset_position position;
        sgs_timestamp_offset timestamp;
        memory_env_init(&f.memory, sgs_env_posix());
        sgs_store_be_i32(file, relative_offset);
        temporary_write(&f.directory, NAME, file, 8);
        REQUIRE_OK(reopen(&f, KAFKA), &f.err);
        EXPECT_STATUS(sgs_offset_index_sanity_check(&f.index, &f.err), wanted);
        if (wanted != SGS_OK)
            EXPECT_EQ_I64(f.err.position, -1); /* it is about the whole file */
        EXPECT_STATUS(sgs_offset_index_entry(&f.index, 1, &position, &f.err), SGS_ILLEGAL_ARGUMENT);

        sgs_store_be_i32(file, 0);
        sgs_store_be_i32(file + 8, relative_offset);
        temporary_write(&f.directory, "t", file, 12);
        EXPECT_OK(sgs_time_index_open(&times, &f.memory.env, f.directory.fd, "t", 0, &KAFKA, &f.err), &f.err);
        EXPECT_STATUS(sgs_time_index_sanity_check(&times, &f.err), wanted);
        if (wanted != SGS_OK)
            EXPECT_EQ_I64(f.err.position, -1);
        EXPECT_STATUS(sgs_time_index_entry(&times, 1, &timestamp, &f.err), SGS_ILLEGAL_ARGUMENT);
        sgs_abstract_index_close_handler(&times.base, &f.memory.env, "t");
        close_fixture(&f);
    }
}

TEST_MAIN()
