/* What is done to a segment while another thread waits for the disk with one of its files [SEG-58, CON-4].
 *
 * An append takes part in no turn, and who waits for one sleeps. Looked for as well: reads, look-ups by time, the greatest
 * timestamp and a flush beside a call that takes long, each behind the first use of the files. */
#define _POSIX_C_SOURCE 200809L

#include <pthread.h>
#include <time.h>

#include "segment_kit.h"
#include "test.h"

enum { LONG_MS = 200, MOST_MS = 5000, ENTRIES = 20, TRIES = 3 };

/* An environment whose `file_info` does not return before it may. */
typedef struct slow_env {
    sgs_env env;
    const sgs_env *real;
    _Atomic bool holds, is_inside;
} slow_env;

static slow_env slow; /* the environment's functions have no room for another pointer */

static void sleep_ms(int64_t ms)
{
    const struct timespec moment = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000 };
    (void)nanosleep(&moment, NULL);
}

static void wait_inside(void)
{
    for (int ms = 0; ms < MOST_MS && atomic_load(&slow.holds); ++ms) {
        atomic_store(&slow.is_inside, true);
        sleep_ms(1);
    }
    atomic_store(&slow.is_inside, false);
}

static sgs_status slow_file_info(const sgs_env *env, int fd, const char *name, sgs_file_info *info, sgs_error *err)
{
    (void)env;
    wait_inside();
    return slow.real->file_info(slow.real, fd, name, info, err);
}

static void open_slow(segment_kit *kit)
{
    segment_kit_open(kit);
    kit->context.index_interval_bytes = 1;
    segment_kit_fill(kit, ENTRIES, 0);
    EXPECT_OK(sgs_log_segment_close(kit->segment, &kit->err), &kit->err);
    slow = (slow_env){ .env = *kit->context.env, .real = kit->context.env };
    slow.env.file_info = slow_file_info;
    kit->context.env = &slow.env;
    REQUIRE_OK(segment_kit_segment(kit, 0, false), &kit->err);
}

static void *ask_for_the_age(void *segment)
{
    int64_t modified_ms;
    sgs_error err;
    EXPECT_OK(sgs_log_segment_modified_ms(segment, &modified_ms, &err), &err);
    return NULL;
}

/* What the processor spent on this thread. */
static int64_t spent_ns(void)
{
    struct timespec spent;
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &spent);
    return (int64_t)spent.tv_sec * 1000000000 + spent.tv_nsec;
}

typedef struct loader {
    sgs_log_segment *segment;
    int64_t spent_ns;
} loader;

static void *load_the_index(void *context)
{
    loader *const self = context;
    sgs_offset_index *index;
    sgs_error err;
    const int64_t before = spent_ns();
    EXPECT_OK(sgs_log_segment_offset_index(self->segment, &index, &err), &err);
    self->spent_ns = spent_ns() - before;
    return NULL;
}

TEST(appends_and_reads_go_on_while_a_file_is_asked)
{
    segment_kit kit;
    pthread_t other;
    open_slow(&kit);
    EXPECT_OK(sgs_log_segment_prepare_for_appends(kit.segment, &kit.err), &kit.err);
    EXPECT_OK(segment_kit_append(&kit, ENTRIES, 1, 10 * ENTRIES, 0), &kit.err);
    atomic_store(&slow.holds, true);
    REQUIRE_EQ_I64(pthread_create(&other, NULL, ask_for_the_age, kit.segment), 0);
    while (!atomic_load(&slow.is_inside))
        sleep_ms(1);

    for (int i = ENTRIES + 1; i < 2 * ENTRIES; ++i)
        EXPECT_OK(segment_kit_append(&kit, i, 1, 10 * i, 0), &kit.err);
    EXPECT_EQ_I64(segment_kit_read_offset(&kit, ENTRIES + 5), ENTRIES + 5);
    EXPECT_EQ_I64(segment_kit_max_timestamp(&kit), 10 * (2 * ENTRIES - 1));
    EXPECT_OK(segment_kit_flush(&kit, true), &kit.err);

    EXPECT_TRUE(atomic_load(&slow.is_inside));
    atomic_store(&slow.holds, false);
    REQUIRE_EQ_I64(pthread_join(other, NULL), 0);
    segment_kit_close(&kit);
}

/* Lower *least_ns* to what the processor spends on a thread that waits LONG_MS for a file that another one opens. */
static void wait_for_another(int64_t *least_ns)
{
    segment_kit kit;
    pthread_t threads[2];
    open_slow(&kit);
    loader loaders[2] = { { kit.segment, 0 }, { kit.segment, 0 } };
    atomic_store(&slow.holds, true);
    REQUIRE_EQ_I64(pthread_create(&threads[0], NULL, load_the_index, &loaders[0]), 0);
    while (!atomic_load(&slow.is_inside))
        sleep_ms(1);
    REQUIRE_EQ_I64(pthread_create(&threads[1], NULL, load_the_index, &loaders[1]), 0);
    sleep_ms(LONG_MS);
    atomic_store(&slow.holds, false);
    REQUIRE_EQ_I64(pthread_join(threads[0], NULL), 0);
    REQUIRE_EQ_I64(pthread_join(threads[1], NULL), 0);

    segment_kit_close(&kit);
    if (loaders[1].spent_ns < *least_ns)
        *least_ns = loaders[1].spent_ns;
}

TEST(who_waits_for_a_file_that_another_thread_opens_sleeps)
{
    int64_t least_ns = INT64_MAX; /* a virtual machine that stands still now and then counts that too */
    for (int i = 0; i < TRIES; ++i)
        wait_for_another(&least_ns);
    EXPECT_TRUE(least_ns < INT64_C(1000000) * LONG_MS / 4); /* who spins spends nearly all of it */
}

TEST_MAIN()
