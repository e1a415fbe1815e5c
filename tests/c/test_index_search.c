/* Searches among entries of which the file has been cut, as only Kafka's resize does [IDX-9]. */
#include <pthread.h>
#include <stdatomic.h>
#include <threads.h>

#include "index/time_index.h"
#include "index_kit.h"

/* [IDX-9, OFX-4] what Kafka does then: entries that are cut off cannot be read, and the next one goes to the first slot. A
 * mapping has no end that Java would notice: reading on would be the end of the process. */
TEST(a_resize_below_the_used_bytes_cuts_a_kafka_index)
{
    sgs_offset_position found;
    bool changed, is_found;
    fixture f;
    open_fixture(&f, KAFKA);
    for (int64_t offset = 1; offset <= 10; ++offset)
        EXPECT_OK(append(&f, offset), &f.err);
    EXPECT_STATUS(sgs_abstract_index_resize(&f.index.base, &f.memory.env, NAME, 16, &changed, &f.err),
                  SGS_ILLEGAL_ARGUMENT);
    EXPECT_EQ_I64(entries(&f), 10);
    EXPECT_EQ_I64(file_size(&f), 16);
    EXPECT_STATUS(append(&f, 11), SGS_ILLEGAL_ARGUMENT); /* full */
    EXPECT_OK(sgs_offset_index_lookup(&f.index, 0, &found, &f.err), &f.err);
    EXPECT_STATUS(sgs_offset_index_lookup(&f.index, 9, &found, &f.err), SGS_CORRUPT_INDEX);
    EXPECT_STATUS(sgs_offset_index_entry(&f.index, 2, &found, &f.err), SGS_CORRUPT_INDEX);
    EXPECT_STATUS(sgs_offset_index_truncate_to(&f.index, 9, &f.err), SGS_CORRUPT_INDEX);
    const sgs_offset_position start = { .offset = 0, .position = 40000 };
    EXPECT_STATUS(sgs_offset_index_fetch_upper_bound_offset(&f.index, start, 1, &found, &is_found, &f.err),
                  SGS_CORRUPT_INDEX);
    EXPECT_OK(sgs_abstract_index_flush(&f.index.base, &f.memory.env, NAME, &f.err), &f.err);
    EXPECT_OK(sgs_abstract_index_resize(&f.index.base, &f.memory.env, NAME, 800, &changed, &f.err), &f.err);
    EXPECT_STATUS(append(&f, 11), SGS_ILLEGAL_STATE); /* written to slot 0, and counted */
    EXPECT_TEXT(f.err.message, "11 entries, but 1 lie before the next one");
    EXPECT_EQ_I64(entries(&f), 11);
    EXPECT_OK(sgs_offset_index_entry(&f.index, 0, &found, &f.err), &f.err);
    EXPECT_EQ_I64(found.offset, 11);
    EXPECT_OK(sgs_abstract_index_reset(&f.index.base, &f.memory.env, NAME, 800, &f.err), &f.err);
    sgs_offset_index_refresh(&f.index);
    EXPECT_OK(append(&f, 1), &f.err);
    EXPECT_EQ_I64(entries(&f), 1);
    close_fixture(&f);
}

/* [IDX-9, TMX-2] the last entry is read again, unless it was cut off */
TEST(a_kafka_time_index_reads_its_last_entry_after_a_resize)
{
    sgs_timestamp_offset found;
    sgs_time_index times;
    bool changed;
    fixture f;
    open_fixture(&f, KAFKA);
    const sgs_env *env = &f.memory.env;
    EXPECT_OK(sgs_time_index_open(&times, env, f.directory.fd, "t", 5, &KAFKA, &f.err), &f.err);
    for (int64_t offset = 6; offset <= 15; ++offset)
        EXPECT_OK(sgs_time_index_maybe_append(&times, env, "t", offset * 10, offset, false, &f.err), &f.err);
    EXPECT_STATUS(sgs_time_index_resize(&times, env, "t", 24, &changed, &f.err), SGS_ILLEGAL_ARGUMENT);
    EXPECT_EQ_I64(times.last_entry.offset, 15);
    EXPECT_STATUS(sgs_time_index_lookup(&times, 150, &found, &f.err), SGS_CORRUPT_INDEX);
    EXPECT_STATUS(sgs_time_index_truncate_to(&times, 15, &f.err), SGS_CORRUPT_INDEX);
    EXPECT_STATUS(sgs_time_index_entry(&times, 9, &found, &f.err), SGS_CORRUPT_INDEX);
    EXPECT_OK(sgs_time_index_sanity_check(&times, &f.err), &f.err);
    EXPECT_STATUS(sgs_time_index_maybe_append(&times, env, "t", 200, 20, true, &f.err), SGS_ILLEGAL_STATE);
    EXPECT_TEXT(f.err.message, "11 entries, but 1 lie before the next one");
    EXPECT_STATUS(sgs_time_index_resize(&times, env, "t", 36, &changed, &f.err), SGS_CORRUPT_INDEX);
    EXPECT_EQ_I64(f.err.position, 10 * 12);
    EXPECT_TRUE(changed);
    EXPECT_OK(sgs_time_index_trim(&times, env, "t", &f.err), &f.err);
    EXPECT_EQ_I64(times.last_entry.timestamp, 0); /* zeros where it was */
    EXPECT_STATUS(sgs_time_index_resize(&times, env, "t", 0, &changed, &f.err), SGS_ILLEGAL_ARGUMENT);
    EXPECT_STATUS(sgs_time_index_sanity_check(&times, &f.err), SGS_CORRUPT_INDEX);
    sgs_abstract_index_close_handler(&times.base, env, "t");
    close_fixture(&f);
}

/* [IDX-9, TMX-2] */
TEST(a_time_index_has_the_last_entry_that_its_file_has)
{
    sgs_time_index times;
    bool changed;
    fixture f;
    open_fixture(&f, KAFKA);
    const sgs_env *env = &f.memory.env;
    EXPECT_OK(sgs_time_index_open(&times, env, f.directory.fd, "t", 5, &KAFKA, &f.err), &f.err);
    EXPECT_OK(sgs_time_index_resize(&times, env, "t", 1200, &changed, &f.err), &f.err);
    EXPECT_EQ_I64(times.last_entry.offset, 5);
    for (int64_t offset = 6; offset <= 15; ++offset)
        EXPECT_OK(sgs_time_index_maybe_append(&times, env, "t", offset * 10, offset, false, &f.err), &f.err);
    EXPECT_OK(sgs_time_index_resize(&times, env, "t", 120, &changed, &f.err), &f.err);
    EXPECT_EQ_I64(times.last_entry.timestamp, 150);
    EXPECT_STATUS(sgs_time_index_resize(&times, env, "t", 24, &changed, &f.err), SGS_ILLEGAL_ARGUMENT);
    EXPECT_STATUS(sgs_time_index_resize(&times, env, "t", 108, &changed, &f.err), SGS_CORRUPT_INDEX);
    EXPECT_OK(sgs_time_index_resize(&times, env, "t", 240, &changed, &f.err), &f.err);
    EXPECT_EQ_I64(times.last_entry.timestamp, 0); /* zeros where it was */
    EXPECT_EQ_I64(atomic_load(&times.base.readers), 0);
    sgs_abstract_index_close_handler(&times.base, env, "t");
    close_fixture(&f);
}

typedef struct race {
    fixture *f;
    atomic_bool stop;
    int wrong;
    atomic_int lookups;
} race;

static void *look_up_for_ever(void *argument)
{
    race *self = argument;
    for (uint32_t i = 0; !atomic_load(&self->stop); ++i) {
        sgs_offset_position found;
        sgs_error err;
        const sgs_status status = sgs_offset_index_lookup(&self->f->index, 1 + i % 10000, &found, &err);
        self->wrong += status != SGS_OK && status != SGS_CORRUPT_INDEX;
        const sgs_status entry = sgs_offset_index_entry(&self->f->index, i % 10000, &found, &err);
        self->wrong += entry != SGS_OK && entry != SGS_CORRUPT_INDEX && entry != SGS_ILLEGAL_ARGUMENT;
        atomic_fetch_add(&self->lookups, 1);
    }
    return NULL;
}

/* [IDX-9, IDX-17] a look-up that began before the cut is waited for, one that begins after it does not go beyond */
TEST(look_ups_beside_a_cut_stay_inside_the_file)
{
    enum { ROUNDS = 60 };
    fixture f;
    bool changed;
    open_fixture(&f, KAFKA);
    race self = { .f = &f };
    pthread_t reader;
    for (int64_t offset = 1; offset <= 10000; ++offset)
        EXPECT_OK(append(&f, offset), &f.err);
    REQUIRE_EQ_I64(pthread_create(&reader, NULL, look_up_for_ever, &self), 0);
    while (atomic_load(&self.lookups) == 0) /* a busy machine begins a thread when it likes */
        thrd_yield();
    for (int round = 0; round < ROUNDS; ++round) {
        const uint32_t size = round % 2 == 0 ? 8 : 20000;
        const sgs_status cut = sgs_abstract_index_resize(&f.index.base, &f.memory.env, NAME, size, &changed, &f.err);
        EXPECT_TRUE(cut == (round == 0 ? SGS_ILLEGAL_ARGUMENT : SGS_OK));
        EXPECT_OK(sgs_abstract_index_resize(&f.index.base, &f.memory.env, NAME, 90000, &changed, &f.err), &f.err);
    }
    atomic_store(&self.stop, true);
    pthread_join(reader, NULL);
    EXPECT_EQ_I64(self.wrong, 0);
    EXPECT_EQ_I64(entries(&f), 10000);
    close_fixture(&f);
}

TEST_MAIN()
