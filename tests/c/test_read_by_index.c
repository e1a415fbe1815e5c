/* Reads by the entry behind an offset: when it is believed, and how many calls a read takes. */
#include "base/bytes.h"
#include "segment_kit.h"
#include "test.h"

enum { BASE = 40 };

/* Read, compare with the expected position and size. */
static void reads(segment_kit *kit, int64_t offset, int32_t max_size, int64_t max_position, bool min_one_message,
                  int64_t base, int32_t position, int32_t size)
{
    const sgs_segment_read request = {
        .start_offset = offset,
        .max_size = max_size,
        .max_position = max_position,
        .min_one_message = min_one_message,
    };
    sgs_segment_fetch fetch = { .found = false };
    sgs_buffer bytes;
    sgs_buffer_init(&bytes, sgs_env_memory(&kit->memory.env));
    EXPECT_OK(sgs_log_segment_read(kit->segment, &request, &bytes, &fetch, &kit->err), &kit->err);
    EXPECT_TRUE(fetch.found);
    EXPECT_EQ_I64(fetch.base_offset, base);
    EXPECT_EQ_I64(fetch.position, position);
    EXPECT_EQ_I64(fetch.size, size);
    EXPECT_EQ_I64(bytes.size, size);
    sgs_buffer_deinit(&bytes);
}

static void append_all(segment_kit *kit, int64_t base, int count, int64_t step, size_t size)
{
    for (int i = 0; i < count; ++i)
        EXPECT_OK(segment_kit_append(kit, base + i * step, 1, 10 * i, size), &kit->err);
}

static sgs_status append(segment_kit *kit, sgs_offset_index *index, int64_t offset, int32_t position)
{
    return sgs_offset_index_append(index, &kit->memory.env, "00000000000000000040.index", offset, position, &kit->err);
}

/* [OFX-3] the entry behind is given with the floor, where there is one that can be */
TEST(lookup_between_answers_with_two_entries)
{
    const struct {
        int64_t target, floor, above;
        int32_t floor_position, above_position;
    } cases[] = {
        { BASE, BASE, BASE + 5, 0, 100 },
        { BASE + 5, BASE + 5, BASE + 9, 100, 200 },
        { BASE + 8, BASE + 5, BASE + 9, 100, 200 },
        { BASE + 9, BASE + 9, BASE, 200, -1 }, /* the next one's position does not go up */
        { BASE + 12, BASE + 12, BASE, 200, -1 },
        { BASE + 20, BASE + 20, BASE, 150, -1 },
    };
    segment_kit kit;
    sgs_offset_index *index;
    segment_kit_open(&kit);
    REQUIRE_OK(segment_kit_segment(&kit, BASE, true), &kit.err);
    REQUIRE_OK(sgs_log_segment_offset_index(kit.segment, &index, &kit.err), &kit.err);
    sgs_offset_position floor, above;
    EXPECT_OK(sgs_offset_index_lookup_between(index, BASE + 3, &floor, &above, &kit.err), &kit.err);
    EXPECT_TRUE(floor.offset == BASE && floor.position == 0 && above.position == -1);
    EXPECT_OK(append(&kit, index, BASE + 5, 100), &kit.err);
    EXPECT_OK(append(&kit, index, BASE + 9, 200), &kit.err);
    EXPECT_OK(append(&kit, index, BASE + 12, 200), &kit.err);
    EXPECT_OK(append(&kit, index, BASE + 20, 150), &kit.err);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        EXPECT_OK(sgs_offset_index_lookup_between(index, cases[i].target, &floor, &above, &kit.err), &kit.err);
        EXPECT_TRUE(floor.offset == cases[i].floor && floor.position == cases[i].floor_position);
        EXPECT_TRUE(above.offset == cases[i].above && above.position == cases[i].above_position);
    }
    segment_kit_close(&kit);
}

/* ---- how many calls a read takes ---- */

TEST(a_small_read_is_one_call_and_a_large_one_two)
{
    segment_kit kit;
    segment_kit_open(&kit);
    REQUIRE_OK(segment_kit_segment(&kit, 0, true), &kit.err);
    append_all(&kit, 0, 2000, 1, 250);
    reads(&kit, 0, 1, 500000, true, 0, 0, 250);
    const struct {
        int64_t offset;
        int32_t size;
        int64_t calls;
    } cases[] = { { 1000, 100, 1 }, { 1001, 4096, 1 }, { 1507, 16384, 1 }, { 77, 300000, 2 }, { 0, 400000, 2 } };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        const int64_t before = memory_env_calls(&kit.memory, "read_at");
        reads(&kit, cases[i].offset, cases[i].size, 500000, true, cases[i].offset, (int32_t)cases[i].offset * 250,
              cases[i].size < 250 ? 250 : cases[i].size);
        EXPECT_EQ_I64(memory_env_calls(&kit.memory, "read_at") - before, cases[i].calls);
    }
    segment_kit_close(&kit);
}

/* Batches above the interval: each is indexed, and the entry of one leads to the next. */
TEST(reads_of_large_batches_take_few_calls)
{
    segment_kit kit;
    segment_kit_open(&kit);
    REQUIRE_OK(segment_kit_segment(&kit, 0, true), &kit.err);
    for (int i = 0; i < 40; ++i)
        EXPECT_OK(segment_kit_append(&kit, 10 * i, 10, i, 20000), &kit.err);
    reads(&kit, 0, 1, 800000, true, 0, 0, 20000);
    for (int i = 1; i < 40; ++i) {
        const int64_t before = memory_env_calls(&kit.memory, "read_at");
        reads(&kit, 10 * i + 5, 15000, 800000, true, 10 * i, 20000 * i, 20000);
        EXPECT_EQ_I64(memory_env_calls(&kit.memory, "read_at") - before, 2); /* it is larger than what was asked for */
        reads(&kit, 10 * i + 5, 40000, 800000, true, 10 * i, 20000 * i, i < 39 ? 40000 : 20000);
        EXPECT_EQ_I64(memory_env_calls(&kit.memory, "read_at") - before, 3);
        reads(&kit, 10 * i + 9, 20000, 800000, true, 10 * i, 20000 * i, 20000); /* the offset that the entry names */
        EXPECT_EQ_I64(memory_env_calls(&kit.memory, "read_at") - before, 4);
    }
    reads(&kit, 105, 300000, 800000, true, 100, 200000, 300000);
    segment_kit_close(&kit);
}

/* [DUR-53] The entry behind an offset is a guess: where it leads elsewhere, the way is that from the entry before. */
TEST(the_entry_behind_an_offset_is_believed_when_its_batch_fits)
{
    const struct {
        int32_t relative_offset, position;
    } entries[] = { { 39, 60000 }, { 39, 59999 }, { 39, 80000 }, { 39, 70000000 }, { 35, 60000 }, { 900, 60000 } };
    for (size_t i = 0; i < sizeof entries / sizeof entries[0]; ++i) {
        segment_kit kit;
        uint8_t index[24];
        segment_kit_open(&kit);
        REQUIRE_OK(segment_kit_segment(&kit, 0, true), &kit.err);
        for (int batch = 0; batch < 5; ++batch) /* one offset of each set of ten is in no batch */
            EXPECT_OK(segment_kit_append(&kit, 10 * batch, 9, batch, 20000), &kit.err);
        sgs_log_segment_close_quietly(kit.segment);
        sgs_store_be32(index, 19);
        sgs_store_be32(index + 4, 20000);
        sgs_store_be32(index + 8, (uint32_t)entries[i].relative_offset);
        sgs_store_be32(index + 12, (uint32_t)entries[i].position);
        temporary_write(&kit.directory, "00000000000000000000.index", index, 16);
        REQUIRE_OK(segment_kit_segment(&kit, 0, false), &kit.err);
        for (int32_t offset = 20; offset < 35; ++offset) {
            const int batch = offset % 10 == 9 ? offset / 10 + 1 : offset / 10;
            reads(&kit, offset, 30000, 100000, true, 10 * batch, 20000 * batch, 30000);
        }
        sgs_log_segment_close_quietly(kit.segment);
        kit.segment = NULL;
        segment_kit_close(&kit);
    }
}

TEST_MAIN()
