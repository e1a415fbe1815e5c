/* Headers that were read lately: whose they are, when they are forgotten, what a look-up among them costs. */
#include <errno.h>
#include <pthread.h>

#include "memory_env.h"
#include "segment/header_cache.h"
#include "segment_kit.h"
#include "test.h"

typedef struct cache_kit {
    memory_env memory;
    sgs_header_cache cache;
    sgs_header_view view;
} cache_kit;

static void open_kit(cache_kit *kit)
{
    memory_env_init(&kit->memory, sgs_env_posix());
    sgs_header_cache_init(&kit->cache, sgs_env_memory(&kit->memory.env));
    sgs_header_view_init(&kit->view, &kit->cache);
}

static void close_kit(cache_kit *kit)
{
    sgs_header_cache_deinit(&kit->cache);
    EXPECT_TRUE(memory_env_is_balanced(&kit->memory));
}

static void put(sgs_header_view *view, uint64_t version, int64_t base_offset, int64_t position)
{
    const sgs_batch_header header = { .position = position, .base_offset = base_offset + position, .size_bytes = 5000 };
    sgs_header_view_put(view, version, base_offset, &header);
}

static bool has(sgs_header_view *view, uint64_t version, int64_t base_offset, int64_t position)
{
    sgs_batch_header header = { .position = -1 };
    const bool found = sgs_header_view_find(view, version, base_offset, position, &header);
    EXPECT_TRUE(!found || (header.position == position && header.base_offset == base_offset + position));
    return found;
}

TEST(a_header_is_found_by_log_segment_position_and_version)
{
    cache_kit kit;
    sgs_header_view other;
    open_kit(&kit);
    sgs_header_view_init(&other, &kit.cache);
    const uint64_t version = sgs_header_view_version(&kit.view);
    EXPECT_TRUE(!has(&kit.view, version, 40, 0));
    put(&kit.view, version, 40, 0);
    put(&kit.view, version, 40, 5000);
    put(&kit.view, version, 40, 5000); /* twice is harmless */
    EXPECT_TRUE(has(&kit.view, version, 40, 0) && has(&kit.view, version, 40, 5000));
    EXPECT_TRUE(!has(&kit.view, version, 40, 4999) && !has(&kit.view, version, 41, 0));
    EXPECT_TRUE(!has(&other, sgs_header_view_version(&other), 40, 0));
    sgs_header_view_renew(&kit.view);
    EXPECT_TRUE(!has(&kit.view, sgs_header_view_version(&kit.view), 40, 0));
    put(&kit.view, version, 40, 0); /* by a walk that began before */
    EXPECT_TRUE(!has(&kit.view, sgs_header_view_version(&kit.view), 40, 0));
    close_kit(&kit);
}

/* [DUR-79] whether a batch was checked is known as long as its header */
TEST(that_a_batch_was_checked_is_remembered_with_its_header)
{
    cache_kit kit;
    open_kit(&kit);
    const uint64_t version = sgs_header_view_version(&kit.view);
    sgs_header_view_note_checked(&kit.view, version, 40, 0); /* no table yet */
    EXPECT_TRUE(!sgs_header_view_is_checked(&kit.view, version, 40, 0));
    put(&kit.view, version, 40, 0);
    put(&kit.view, version, 40, 5000);
    sgs_header_view_note_checked(&kit.view, version, 40, 5000);
    sgs_header_view_note_checked(&kit.view, version, 40, 10000); /* whose header is not there */
    EXPECT_TRUE(sgs_header_view_is_checked(&kit.view, version, 40, 5000));
    EXPECT_TRUE(!sgs_header_view_is_checked(&kit.view, version, 40, 0));
    EXPECT_TRUE(!sgs_header_view_is_checked(&kit.view, version, 40, 10000));
    put(&kit.view, version, 40, 5000); /* by a walk that knows less */
    EXPECT_TRUE(sgs_header_view_is_checked(&kit.view, version, 40, 5000));
    sgs_header_view_renew(&kit.view);
    EXPECT_TRUE(!sgs_header_view_is_checked(&kit.view, sgs_header_view_version(&kit.view), 40, 5000));
    put(&kit.view, sgs_header_view_version(&kit.view), 40, 5000);
    EXPECT_TRUE(!sgs_header_view_is_checked(&kit.view, sgs_header_view_version(&kit.view), 40, 5000));
    for (int64_t i = 2; i < 4 * SGS_HEADER_CACHE_ENTRIES; ++i) /* others take all places */
        put(&kit.view, version, 40, 5000 * i);
    put(&kit.view, version, 40, 5000);
    EXPECT_TRUE(!sgs_header_view_is_checked(&kit.view, version, 40, 5000));
    close_kit(&kit);
}

TEST(a_full_table_forgets_old_headers_and_keeps_its_size)
{
    cache_kit kit;
    open_kit(&kit);
    const uint64_t version = sgs_header_view_version(&kit.view);
    const int64_t count = SGS_HEADER_CACHE_ENTRIES;
    int64_t there = 0;
    for (int64_t i = 0; i < 2 * count; ++i) {
        put(&kit.view, version, 0, 5000 * i);
        EXPECT_TRUE(has(&kit.view, version, 0, 5000 * i)); /* the newest is always there */
    }
    for (int64_t i = 0; i < 2 * count; ++i)
        there += has(&kit.view, version, 0, 5000 * i);
    EXPECT_TRUE(there <= count && there > count / 2);
    close_kit(&kit);
}

TEST(most_of_half_a_table_is_found)
{
    cache_kit kit;
    open_kit(&kit);
    const uint64_t version = sgs_header_view_version(&kit.view);
    int64_t there = 0;
    for (int64_t i = 0; i < SGS_HEADER_CACHE_ENTRIES / 2; ++i)
        put(&kit.view, version, i / 4 * 560, i % 4 * 16000);
    for (int64_t i = 0; i < SGS_HEADER_CACHE_ENTRIES / 2; ++i)
        there += has(&kit.view, version, i / 4 * 560, i % 4 * 16000);
    EXPECT_TRUE(there > SGS_HEADER_CACHE_ENTRIES / 2 * 9 / 10);
    close_kit(&kit);
}

TEST(without_memory_nothing_is_remembered)
{
    cache_kit kit;
    open_kit(&kit);
    memory_env_fail_always(&kit.memory, "allocate", 1, ENOMEM);
    const uint64_t version = sgs_header_view_version(&kit.view);
    put(&kit.view, version, 0, 0);
    EXPECT_TRUE(!has(&kit.view, version, 0, 0));
    close_kit(&kit);
}

/* ---- what a segment does with them ---- */

static int64_t slice_position(segment_kit *kit, int64_t offset)
{
    const sgs_segment_read request = { .start_offset = offset, .max_size = 1, .max_position = INT64_MAX };
    sgs_segment_fetch fetch;
    const sgs_status status = sgs_log_segment_slice(kit->segment, &request, &fetch, &kit->err);
    EXPECT_OK(status, &kit->err);
    return status == SGS_OK && fetch.found ? fetch.position : -1;
}

static void append_large(segment_kit *kit, int64_t first, int64_t last, size_t size)
{
    for (int64_t offset = first; offset < last; offset += 2)
        EXPECT_OK(segment_kit_append(kit, offset, 2, offset, size), &kit->err);
}

/* [SEG-19] the second look at a large batch reads nothing; a small one is read each time, with its neighbours */
TEST(the_second_slice_of_a_large_batch_needs_no_call)
{
    segment_kit kit;
    segment_kit_open(&kit);
    REQUIRE_OK(segment_kit_segment(&kit, 0, true), &kit.err);
    append_large(&kit, 0, 20, 10000);
    for (int round = 0; round < 2; ++round) {
        const int64_t before = memory_env_calls(&kit.memory, "read_at");
        for (int64_t offset = 0; offset < 20; ++offset)
            EXPECT_EQ_I64(slice_position(&kit, offset), offset / 2 * 10000);
        const int64_t calls = memory_env_calls(&kit.memory, "read_at") - before;
        EXPECT_TRUE(round == 0 ? calls <= 12 : calls == 0);
    }
    segment_kit_close(&kit);
}

/* [SEG-19] of what was found once, all bytes come with one call */
TEST(the_second_large_read_of_a_place_needs_one_call)
{
    segment_kit kit;
    segment_kit_open(&kit);
    REQUIRE_OK(segment_kit_segment(&kit, 0, true), &kit.err);
    append_large(&kit, 0, 40, 10000);
    for (int round = 0; round < 2; ++round)
        for (int64_t offset = 0; offset < 20; ++offset) {
            const sgs_segment_read request = { .start_offset = offset, .max_size = 150000, .max_position = INT64_MAX };
            sgs_segment_fetch fetch;
            sgs_buffer out;
            sgs_batch_header first;
            sgs_buffer_init(&out, sgs_env_memory(&kit.memory.env));
            const int64_t before = memory_env_calls(&kit.memory, "read_at");
            EXPECT_OK(sgs_log_segment_read(kit.segment, &request, &out, &fetch, &kit.err), &kit.err);
            EXPECT_TRUE(round == 0 || memory_env_calls(&kit.memory, "read_at") == before + 1);
            EXPECT_EQ_I64(fetch.position, offset / 2 * 10000);
            EXPECT_EQ_I64(out.size, (offset / 2 * 10000 + 150000 > 200000 ? 200000 - offset / 2 * 10000 : 150000));
            EXPECT_OK(sgs_batch_header_load(out.data, out.size, 0, &first, &kit.err), &kit.err);
            EXPECT_EQ_I64(first.base_offset, offset / 2 * 2);
            sgs_buffer_deinit(&out);
        }
    segment_kit_close(&kit);
}

/* [DUR-77, SEG-24] what was cut is forgotten, what takes its place is seen */
TEST(after_a_truncation_the_new_headers_are_found)
{
    segment_kit kit;
    int32_t cut;
    segment_kit_open(&kit);
    REQUIRE_OK(segment_kit_segment(&kit, 0, true), &kit.err);
    append_large(&kit, 0, 20, 10000);
    for (int64_t offset = 0; offset < 20; ++offset)
        (void)slice_position(&kit, offset);
    EXPECT_OK(sgs_log_segment_truncate_to(kit.segment, 10, &cut, &kit.err), &kit.err);
    EXPECT_OK(segment_kit_append(&kit, 10, 6, 10, 9000), &kit.err); /* at a place where another one was */
    EXPECT_OK(segment_kit_append(&kit, 16, 2, 16, 9000), &kit.err);
    EXPECT_EQ_I64(slice_position(&kit, 9), 40000);
    EXPECT_EQ_I64(slice_position(&kit, 15), 50000);
    EXPECT_EQ_I64(slice_position(&kit, 16), 59000);
    EXPECT_EQ_I64(slice_position(&kit, 18), -1);
    segment_kit_close(&kit);
}

/* [SEG-54, LOC-15] the name of one that went is given to another */
TEST(a_segment_of_the_same_name_begins_with_nothing)
{
    segment_kit kit;
    segment_kit_open(&kit);
    REQUIRE_OK(segment_kit_segment(&kit, 0, true), &kit.err);
    append_large(&kit, 0, 20, 10000);
    EXPECT_EQ_I64(slice_position(&kit, 13), 60000);
    sgs_log_segment *const old = kit.segment;
    EXPECT_OK(sgs_log_segment_change_suffix(old, SGS_SUFFIX_DELETED, &kit.err), &kit.err);
    EXPECT_EQ_I64(slice_position(&kit, 13), 60000); /* by a reader who had it */
    REQUIRE_OK(segment_kit_segment(&kit, 0, true), &kit.err);
    append_large(&kit, 0, 10, 10000);
    EXPECT_OK(segment_kit_append(&kit, 10, 4, 10, 10000), &kit.err);
    EXPECT_OK(segment_kit_append(&kit, 14, 2, 14, 10000), &kit.err);
    EXPECT_EQ_I64(slice_position(&kit, 13), 50000);
    EXPECT_EQ_I64(slice_position(&kit, 14), 60000);
    EXPECT_OK(sgs_log_segment_close(old, &kit.err), &kit.err);
    segment_kit_close(&kit);
}

/* ---- beside one another ---- */

typedef struct user {
    sgs_header_view *view;
    pthread_t thread;
    int64_t wrong;
} user;

static void *use(void *argument)
{
    user *self = argument;
    for (int64_t i = 0; i < 20000; ++i) {
        const int64_t position = i % 50 * 8192;
        const uint64_t version = sgs_header_view_version(self->view);
        sgs_batch_header header = { .position = position, .base_offset = (int64_t)version, .size_bytes = 9000 };
        if (sgs_header_view_find(self->view, version, 7, position, &header))
            self->wrong += header.position != position || header.base_offset != (int64_t)version;
        else
            sgs_header_view_put(self->view, version, 7, &header);
        if (i % 1000 == 999)
            sgs_header_view_renew(self->view);
    }
    return NULL;
}

TEST(threads_find_what_was_put_whole)
{
    sgs_header_cache cache;
    sgs_header_view view;
    user users[3];
    sgs_header_cache_init(&cache, sgs_env_memory(sgs_env_posix())); /* a memory_env is for one thread */
    sgs_header_view_init(&view, &cache);
    for (int i = 0; i < 3; ++i) {
        users[i] = (user){ .view = &view };
        pthread_create(&users[i].thread, NULL, use, &users[i]);
    }
    for (int i = 0; i < 3; ++i) {
        pthread_join(users[i].thread, NULL);
        EXPECT_EQ_I64(users[i].wrong, 0);
    }
    sgs_header_cache_deinit(&cache);
}

TEST_MAIN()
