/* A sync of a .log that fails tells the next open, the handle, and who syncs beside it [DUR-35, DUR-36]. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <time.h>

#include "segment_kit.h"
#include "test.h"

/* [DUR-36] whichever sync of the .log it was; not in the conformance profile [DUR-62] */
TEST(a_sync_that_failed_leaves_a_mark)
{
    for (int i = 0; i < 4; ++i) {
        segment_kit kit;
        int32_t bytes_cut;
        segment_kit_open(&kit);
        kit.context.kafka_profile = i == 3;
        REQUIRE_OK(segment_kit_segment(&kit, 0, true), &kit.err);
        EXPECT_OK(segment_kit_append(&kit, 0, 3, 7, 0), &kit.err);
        EXPECT_TRUE(!temporary_has(&kit.directory, SGS_SYNC_FAILED_MARK));
        memory_env_fail(&kit.memory, i == 1 ? "sync_file" : "sync_data", 1, EIO);
        if (i == 1)
            EXPECT_STATUS(sgs_log_segment_truncate_to(kit.segment, 0, &bytes_cut, &kit.err), SGS_FSYNC_FAILED);
        else if (i == 2)
            EXPECT_STATUS(sgs_log_segment_rewrite(kit.segment, 0, &kit.err), SGS_FSYNC_FAILED);
        else
            EXPECT_STATUS(segment_kit_flush(&kit, false), SGS_FSYNC_FAILED);
        EXPECT_TRUE(temporary_has(&kit.directory, SGS_SYNC_FAILED_MARK) == (i != 3));
        segment_kit_close(&kit);
    }
}

/* [DUR-35, DUR-38] before the call returns; what compaction writes is no log's yet */
TEST(a_sync_or_a_roll_back_that_failed_ends_writing)
{
    for (int i = 0; i < 5; ++i) {
        segment_kit kit;
        bool writing_ended = false;
        int32_t bytes_cut;
        segment_kit_open(&kit);
        kit.context.writing_ended = &writing_ended;
        REQUIRE_OK(segment_kit_segment(&kit, 0, true), &kit.err);
        EXPECT_OK(segment_kit_append(&kit, 0, 3, 7, 0), &kit.err);
        if (i == 4)
            EXPECT_OK(sgs_log_segment_change_suffix(kit.segment, SGS_SUFFIX_CLEANED, &kit.err), &kit.err);
        if (i == 0) {
            memory_env_fail(&kit.memory, "sync_file", 1, EIO);
            EXPECT_STATUS(sgs_log_segment_truncate_to(kit.segment, 0, &bytes_cut, &kit.err), SGS_FSYNC_FAILED);
        } else if (i == 1 || i == 2) {
            memory_env_fail(&kit.memory, "write_at", 1, EIO);
            memory_env_fail(&kit.memory, i == 1 ? "sync_file" : "truncate", 1, EIO);
            EXPECT_STATUS(segment_kit_append(&kit, 3, 1, 7, 0), SGS_WRITE_IO);
            EXPECT_TRUE(kit.poisoned);
        } else {
            memory_env_fail(&kit.memory, "sync_data", 1, EIO);
            EXPECT_STATUS(segment_kit_flush(&kit, false), SGS_FSYNC_FAILED);
        }
        EXPECT_TRUE(writing_ended == (i != 4));
        segment_kit_close(&kit);
    }
}

/* ---- two syncs of one descriptor, of which the first takes long ---- */

enum { LATE_NS = 50000000 };

static _Atomic int syncs; /* which the disk has seen */
static bool first_fails;

static sgs_status sync_late(const sgs_env *env, int fd, const char *name, sgs_barrier barrier, sgs_error *err)
{
    const struct timespec late = { .tv_nsec = LATE_NS };
    (void)env, (void)fd, (void)name, (void)barrier;
    if (atomic_fetch_add(&syncs, 1) > 0)
        return SGS_OK; /* the error is told once */
    nanosleep(&late, NULL);
    return first_fails ? sgs_fail(err, SGS_FSYNC_FAILED, "the disk is gone") : SGS_OK;
}

typedef struct flush {
    sgs_log_segment *segment;
    sgs_status status;
    sgs_error err;
} flush;

static void *flush_once(void *self)
{
    flush *one = self;
    one->status = sgs_log_segment_flush(one->segment, false, SGS_BARRIER(APPENDED_RECORDS), &one->err);
    return NULL;
}

static void flush_twice(segment_kit *kit, bool fails, flush *first, flush *second)
{
    pthread_t thread;
    segment_kit_open(kit);
    REQUIRE_OK(segment_kit_segment(kit, 0, true), &kit->err);
    EXPECT_OK(segment_kit_append(kit, 0, 3, 7, 0), &kit->err);
    kit->memory.env.sync_data = sync_late;
    first_fails = fails;
    atomic_store(&syncs, 0);
    first->segment = second->segment = kit->segment;
    REQUIRE_EQ_I64(pthread_create(&thread, NULL, flush_once, first), 0);
    while (atomic_load(&syncs) == 0)
        sched_yield();
    flush_once(second);
    pthread_join(thread, NULL);
}

/* [DUR-15, DUR-35] the one that comes while the first is under way does not hear that all is well */
TEST(a_sync_beside_one_that_fails)
{
    segment_kit kit;
    flush first = { 0 }, second = { 0 };
    flush_twice(&kit, true, &first, &second);
    EXPECT_STATUS(first.status, SGS_FSYNC_FAILED);
    EXPECT_STATUS(second.status, SGS_FSYNC_FAILED);
    EXPECT_EQ_I64(atomic_load(&syncs), 1);
    segment_kit_close(&kit);
}

/* [DUR-15] a record that both of them cover is taken off the count once: the next one is not missed */
TEST(records_under_two_syncs_are_counted_once)
{
    segment_kit kit;
    flush first = { 0 }, second = { 0 };
    flush_twice(&kit, false, &first, &second);
    EXPECT_OK(first.status, &first.err);
    EXPECT_OK(second.status, &second.err);
    EXPECT_EQ_I64(atomic_load(&syncs), 2);
    EXPECT_EQ_I64(sgs_log_segment_unflushed_records(kit.segment), 0);
    EXPECT_OK(segment_kit_append(&kit, 3, 3, 7, 0), &kit.err);
    EXPECT_EQ_I64(sgs_log_segment_unflushed_records(kit.segment), 3);
    segment_kit_close(&kit);
}

TEST_MAIN()
