/* test_offset_map.c - the cleaner's map of keys [CLN-45..CLN-52], Kafka OffsetMapTest where named. */
#include "record/offset_map.h"

#include <errno.h>

#include "memory_env.h"
#include "record_kit.h"
#include "test.h"

enum { KEY_BYTES = 16, MEMORY_BYTES = 4096, SLOTS = 170 };

typedef struct fixture {
    sgs_offset_map map;
    sgs_error err;
    char key[KEY_BYTES];
} fixture;

static void begin(fixture *f, int64_t memory_bytes)
{
    EXPECT_OK(sgs_offset_map_init(&f->map, kit_memory(), memory_bytes, &f->err), &f->err);
}

static const uint8_t *key_of(fixture *f, int64_t number)
{
    (void)snprintf(f->key, sizeof f->key, "%" PRId64, number);
    return (const uint8_t *)f->key;
}

static sgs_status put(fixture *f, int64_t number, int64_t offset)
{
    const uint8_t *const key = key_of(f, number);
    return sgs_offset_map_put(&f->map, key, strlen(f->key), offset, &f->err);
}

static int64_t get(fixture *f, int64_t number)
{
    const uint8_t *const key = key_of(f, number);
    return sgs_offset_map_get(&f->map, key, strlen(f->key));
}

TEST(what_was_put_is_found_also_when_every_slot_is_taken) /* OffsetMapTest.testBasicValidation, testGetWhenFull */
{
    fixture f;
    begin(&f, MEMORY_BYTES);
    EXPECT_EQ_I64(f.map.slots, SLOTS);
    EXPECT_EQ_I64(get(&f, 37), -1);
    for (int64_t i = 0; i < SLOTS; ++i) {
        EXPECT_OK(put(&f, 37 + i, 1000 + i), &f.err);
        EXPECT_EQ_I64(f.map.size, i + 1);
        EXPECT_EQ_I64(f.map.latest_offset, 1000 + i);
    }
    for (int64_t i = 0; i < SLOTS; ++i)
        EXPECT_EQ_I64(get(&f, 37 + i), 1000 + i);
    EXPECT_EQ_I64(get(&f, 36), -1); /* and it ends */
    EXPECT_STATUS(put(&f, 36, 1), SGS_ILLEGAL_ARGUMENT);
    EXPECT_STATUS(put(&f, 37, 1), SGS_ILLEGAL_ARGUMENT); /* [CLN-48] also for a key that is there */
    sgs_offset_map_deinit(&f.map);
}

TEST(a_later_put_counts_whatever_its_offset) /* [CLN-48, CLN-52] */
{
    fixture f;
    begin(&f, MEMORY_BYTES);
    EXPECT_OK(put(&f, 1, 50), &f.err);
    EXPECT_OK(put(&f, 1, 20), &f.err);
    EXPECT_EQ_I64(get(&f, 1), 20);
    EXPECT_EQ_I64(f.map.size, 1);
    EXPECT_EQ_I64(f.map.latest_offset, 20);
    sgs_offset_map_update_latest_offset(&f.map, 60);
    EXPECT_EQ_I64(f.map.latest_offset, 60);
    EXPECT_EQ_I64(get(&f, 1), 20);
    sgs_offset_map_deinit(&f.map);
}

TEST(a_cleared_map_is_a_new_one) /* OffsetMapTest.testClear [CLN-50] */
{
    fixture f;
    begin(&f, MEMORY_BYTES);
    for (int64_t i = 0; i < 10; ++i)
        EXPECT_OK(put(&f, i, i), &f.err);
    sgs_offset_map_clear(&f.map);
    for (int64_t i = 0; i < 10; ++i)
        EXPECT_EQ_I64(get(&f, i), -1);
    EXPECT_EQ_I64(f.map.size, 0);
    EXPECT_EQ_I64(f.map.latest_offset, -1);
    sgs_offset_map_deinit(&f.map);
}

TEST(an_empty_key_is_a_key) /* [CLN-51] */
{
    fixture f;
    begin(&f, 24);
    EXPECT_EQ_I64(f.map.slots, 1);
    EXPECT_EQ_I64(sgs_offset_map_get(&f.map, NULL, 0), -1);
    EXPECT_OK(sgs_offset_map_put(&f.map, NULL, 0, 9, &f.err), &f.err);
    EXPECT_EQ_I64(sgs_offset_map_get(&f.map, (const uint8_t *)"", 0), 9);
    EXPECT_EQ_I64(get(&f, 9), -1);
    sgs_offset_map_deinit(&f.map);
}

TEST(an_entry_is_the_hash_and_the_offset_where_the_first_word_says) /* [CLN-45, CLN-46] */
{
    fixture f;
    begin(&f, MEMORY_BYTES + 7); /* part of a slot is none */
    EXPECT_OK(sgs_offset_map_put(&f.map, (const uint8_t *)"a", 1, 0x0102030405060708, &f.err), &f.err);
    const kit_bytes expected = kit_hex("0cc175b9c0f1b6a831c399e269772661 0102030405060708");
    EXPECT_MEM(f.map.entries + 0x0CC175B9 % SLOTS * SGS_OFFSET_MAP_ENTRY_BYTES, expected.data, expected.size);
    sgs_offset_map_clear(&f.map);
    /* the first word of nothing's hash is negative as Java's int */
    EXPECT_OK(sgs_offset_map_put(&f.map, NULL, 0, 5, &f.err), &f.err);
    const kit_bytes of_nothing = kit_hex("d41d8cd98f00b204e9800998ecf8427e 0000000000000005");
    EXPECT_MEM(f.map.entries + (0x100000000 - 0xD41D8CD9) % SLOTS * SGS_OFFSET_MAP_ENTRY_BYTES, of_nothing.data,
               of_nothing.size);
    sgs_offset_map_deinit(&f.map);
}

TEST(with_a_secret_what_was_put_is_found_also_when_every_slot_is_taken) /* DUR-126 */
{
    fixture f;
    const uint8_t secret[SGS_SIPHASH_SECRET_BYTES] = { 1, 2, 3 };
    REQUIRE_OK(sgs_offset_map_init_keyed(&f.map, kit_memory(), MEMORY_BYTES, secret, &f.err), &f.err);
    EXPECT_EQ_I64(f.map.slots, SLOTS);
    for (int64_t i = 0; i < SLOTS; ++i)
        EXPECT_OK(put(&f, i, 1000 + i), &f.err);
    EXPECT_STATUS(put(&f, SLOTS, 1), SGS_ILLEGAL_ARGUMENT);
    for (int64_t i = 0; i < SLOTS; ++i)
        EXPECT_EQ_I64(get(&f, i), 1000 + i);
    EXPECT_EQ_I64(get(&f, SLOTS), -1); /* and it ends */
    sgs_offset_map_clear(&f.map);
    EXPECT_OK(put(&f, 5, 7), &f.err);
    EXPECT_OK(put(&f, 5, 8), &f.err);
    EXPECT_EQ_I64(get(&f, 5), 8);
    EXPECT_EQ_I64(f.map.size, 1);
    sgs_offset_map_deinit(&f.map);
}

/* Each step asks for another number of keys more; each size is looked at, and how full it is. */
TEST(a_map_with_a_secret_grows_and_keeps_what_was_put) /* DUR-126 */
{
    enum { KEYS = 20000 };
    for (uint8_t seed = 0; seed < 3; ++seed) {
        fixture f;
        const uint8_t secret[SGS_SIPHASH_SECRET_BYTES] = { seed, 9 };
        REQUIRE_OK(sgs_offset_map_init_keyed(&f.map, kit_memory(), 24, secret, &f.err), &f.err);
        int32_t growths = 0;
        for (int64_t i = 0, more; i < KEYS; i += more) {
            const int32_t slots = f.map.slots;
            more = 1 + i % 128;
            REQUIRE_OK(sgs_offset_map_reserve(&f.map, (int32_t)more, &f.err), &f.err);
            EXPECT_TRUE(5 * (i + more) <= 4 * (int64_t)f.map.slots + 5);
            if (f.map.slots != slots) {
                ++growths;
                for (int64_t k = 0; k < i; k += 1 + i / 50)
                    EXPECT_EQ_I64(get(&f, k), 3 * k);
                EXPECT_EQ_I64(get(&f, i), -1);
                EXPECT_EQ_I64(f.map.size, i);
                if (i > 1000)
                    EXPECT_TRUE(f.map.slots * INT64_C(24) <= 38 * (i + more));
            }
            for (int64_t k = i; k < i + more; ++k)
                REQUIRE_OK(put(&f, k, 3 * k), &f.err);
        }
        EXPECT_TRUE(growths > 20);
        for (int64_t k = 0; k < KEYS; ++k)
            EXPECT_EQ_I64(get(&f, k), 3 * k);
        EXPECT_EQ_I64(get(&f, KEYS + 128), -1);
        EXPECT_EQ_I64(f.map.latest_offset / 3 + 1, f.map.size);
        sgs_offset_map_deinit(&f.map);
    }
}

/* All keys belong to the first slot, or to the last one: what does not fit there lies in the slots behind, or at the front. */
TEST(a_crowd_at_one_slot_is_found_after_growth)
{
    enum { CROWD = 12 };
    const uint8_t secret[SGS_SIPHASH_SECRET_BYTES] = { 1 };
    for (uint8_t first = 0; first < 3; ++first) {
        fixture f;
        sgs_key_hash hashes[CROWD] = { { { 0 } } };
        REQUIRE_OK(sgs_offset_map_init_keyed(&f.map, kit_memory(), 24 * 16, secret, &f.err), &f.err);
        for (uint8_t i = 0; i < CROWD; ++i) {
            const bool at_the_end = first == 1 || (first == 2 && i % 2 == 0);
            memset(hashes[i].bytes, at_the_end ? 0xFF : 0, 4);
            hashes[i].bytes[15] = i;
            REQUIRE_OK(sgs_offset_map_put_hashed(&f.map, &hashes[i], 100 + i, &f.err), &f.err);
        }
        for (int32_t more = 1; more < 200; more += 13) {
            REQUIRE_OK(sgs_offset_map_reserve(&f.map, more, &f.err), &f.err);
            for (uint8_t i = 0; i < CROWD; ++i)
                EXPECT_EQ_I64(sgs_offset_map_get_hashed(&f.map, &hashes[i]), 100 + i);
            EXPECT_EQ_I64(f.map.size, CROWD);
        }
        EXPECT_TRUE(f.map.slots > 200);
        sgs_offset_map_deinit(&f.map);
    }
}

TEST(a_map_that_cannot_grow_is_as_it_was) /* DUR-31 */
{
    fixture f;
    memory_env memory;
    const uint8_t secret[SGS_SIPHASH_SECRET_BYTES] = { 1 };
    memory_env_init(&memory, sgs_env_posix());
    const sgs_memory allocator = sgs_env_memory(&memory.env);
    REQUIRE_OK(sgs_offset_map_init_keyed(&f.map, allocator, 24 * 10, secret, &f.err), &f.err);
    for (int64_t i = 0; i < 8; ++i)
        REQUIRE_OK(put(&f, i, i), &f.err);
    memory_env_fail_always(&memory, "allocate", 1, ENOMEM);
    EXPECT_STATUS(sgs_offset_map_reserve(&f.map, 1, &f.err), SGS_RESOURCE);
    EXPECT_STATUS(sgs_offset_map_reserve(&f.map, INT32_MAX, &f.err), SGS_LIMIT_EXCEEDED);
    EXPECT_OK(sgs_offset_map_reserve(&f.map, 0, &f.err), &f.err); /* there is room for none more */
    EXPECT_EQ_I64(f.map.slots, 10);
    for (int64_t i = 0; i < 8; ++i)
        EXPECT_EQ_I64(get(&f, i), i);
    sgs_offset_map_deinit(&f.map);
    EXPECT_TRUE(memory_env_is_balanced(&memory));
}

TEST(where_a_key_lies_depends_on_the_secret)
{
    fixture f;
    int64_t same = 0;
    uint8_t first[MEMORY_BYTES];
    for (uint8_t i = 0; i < 8; ++i) {
        const uint8_t secret[SGS_SIPHASH_SECRET_BYTES] = { i };
        REQUIRE_OK(sgs_offset_map_init_keyed(&f.map, kit_memory(), MEMORY_BYTES, secret, &f.err), &f.err);
        EXPECT_OK(put(&f, 5, 7), &f.err);
        if (i == 0)
            memcpy(first, f.map.entries, SLOTS * SGS_OFFSET_MAP_ENTRY_BYTES);
        same += memcmp(first, f.map.entries, SLOTS * SGS_OFFSET_MAP_ENTRY_BYTES) == 0;
        sgs_offset_map_deinit(&f.map);
    }
    EXPECT_EQ_I64(same, 1);
}

TEST(no_slot_and_no_memory_are_refused) /* DUR-31 */
{
    fixture f;
    memory_env memory;
    EXPECT_STATUS(sgs_offset_map_init(&f.map, kit_memory(), 23, &f.err), SGS_ILLEGAL_ARGUMENT);
    EXPECT_STATUS(sgs_offset_map_init_keyed(&f.map, kit_memory(), 23, (const uint8_t *)"0123456789abcdef", &f.err),
                  SGS_ILLEGAL_ARGUMENT);
    EXPECT_STATUS(sgs_offset_map_init(&f.map, kit_memory(), (int64_t)INT32_MAX + 1, &f.err), SGS_ILLEGAL_ARGUMENT);
    memory_env_init(&memory, sgs_env_posix());
    memory_env_fail_always(&memory, "allocate", 1, ENOMEM);
    EXPECT_STATUS(sgs_offset_map_init(&f.map, sgs_env_memory(&memory.env), MEMORY_BYTES, &f.err), SGS_RESOURCE);
    EXPECT_STATUS(put(&f, 1, 1), SGS_ILLEGAL_ARGUMENT); /* it has no slot */
    EXPECT_EQ_I64(get(&f, 1), -1);
    sgs_offset_map_deinit(&f.map);
}

TEST_MAIN()
