/* One appender, one flusher and four readers on one segment [SEG-58, CON-4, DUR-15, DUR-75]; `make check SANITIZE=thread`.
 *
 * Record `o` has timestamp TIME + o, so that every answer can be told from its offset. Behind each append the end that readers may
 * go to is published, as LocalLog does. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "base/bytes.h"
#include "io/env_sim.h"
#include "segment_kit.h"
#include "test.h"

enum { READERS = 4, BATCHES = 3000, SIM_BATCHES = 400, MOST_RECORDS = 5, TIME = 1000, READ_BYTES = 3000 };

typedef struct log_end {
    int64_t offset;
    int32_t position;
} log_end;

typedef struct stage {
    sgs_log_segment *segment;
    const sgs_env *env;
    _Atomic uint64_t end; /* published: offset and position in one word */
    _Atomic int64_t synced;
    _Atomic bool stop;
} stage;

/* One thread's own part; the main thread reads it when the thread has ended. */
typedef struct worker {
    stage *common;
    uint32_t random;
    int64_t done, wrong;
    sgs_error first; /* of the first wrong answer that was an error */
    sgs_buffer out;
    int64_t next_offset; /* of who reads on where it was */
} worker;

static void publish(stage *self, log_end end)
{
    atomic_store_explicit(&self->end, (uint64_t)end.offset << 32 | (uint32_t)end.position, memory_order_release);
}

static log_end published(const stage *self)
{
    const uint64_t end = atomic_load_explicit(&self->end, memory_order_acquire);
    return (log_end){ .offset = (int64_t)(end >> 32), .position = (int32_t)(uint32_t)end };
}

static uint32_t random_below(worker *self, int64_t limit)
{
    self->random = self->random * 1103515245u + 12345u;
    return (uint32_t)((self->random >> 8) % (uint64_t)limit);
}

/* Whole batches in order from the one that has `offset`, none at or beyond the end; a cut one may follow.
 * @return the offset behind the last whole one, -1 when something is wrong */
static int64_t check_batches(const sgs_buffer *bytes, int64_t offset, log_end end, sgs_error *err)
{
    int64_t expected = -1;
    size_t at = 0;
    while (bytes->size - at >= SGS_BATCH_HEADER_BYTES) {
        sgs_batch_header row;
        const size_t size = (size_t)sgs_load_be_i32(bytes->data + at + 8) + 12;
        if (bytes->size - at < size)
            break; /* cut by the size that was asked for */
        if (sgs_batch_header_load(bytes->data + at, size, 0, &row, err) != SGS_OK)
            return -1;
        if (sgs_batch_check(bytes->data + at, (size_t)row.size_bytes, 0, err) != SGS_OK)
            return -1;
        const bool follows = expected < 0 ? row.base_offset <= offset : row.base_offset == expected;
        if (!follows || row.last_offset < offset || row.last_offset >= end.offset ||
            row.base_timestamp != TIME + row.base_offset)
            return -1;
        expected = row.last_offset + 1;
        at += (size_t)row.size_bytes;
    }
    return expected;
}

/* Read from `offset` up to the published end. @return where the next read begins, -1 when something is wrong */
static int64_t read_from(worker *self, int64_t offset, log_end end, int32_t max_size)
{
    const sgs_segment_read request = {
        .start_offset = offset, .max_size = max_size, .max_position = end.position, .min_one_message = true
    };
    sgs_segment_fetch fetch;
    sgs_buffer_clear(&self->out);
    if (sgs_log_segment_read(self->common->segment, &request, &self->out, &fetch, &self->first) != SGS_OK)
        return -1;
    if (!fetch.found || fetch.base_offset > offset || fetch.position + fetch.size > end.position)
        return -1;
    return check_batches(&self->out, offset, end, &self->first);
}

/* ---- what the readers do, each with a published end behind at least one batch ---- */

static bool read_on(worker *self, log_end end)
{
    if (self->next_offset >= end.offset)
        return true;
    const int64_t next = read_from(self, self->next_offset, end, READ_BYTES);
    if (next <= self->next_offset)
        return false;
    self->next_offset = next;
    return true;
}

static bool read_anywhere(worker *self, log_end end)
{
    return read_from(self, random_below(self, end.offset), end, (int32_t)random_below(self, READ_BYTES) + 1) > 0;
}

static bool look_for_a_timestamp(worker *self, log_end end)
{
    const int64_t offset = random_below(self, end.offset);
    sgs_found_timestamp found;
    sgs_timestamp_offset largest;
    bool is_partial = false;
    sgs_log_segment *segment = self->common->segment;
    return sgs_log_segment_find_offset_by_timestamp(segment, TIME + offset, 0, end.position, &found, &self->first) ==
               SGS_OK &&
           found.found && found.offset == offset && found.timestamp == TIME + offset &&
           sgs_log_segment_max_timestamp(segment, &largest, &is_partial, &self->first) == SGS_OK &&
           largest.timestamp == TIME + largest.offset && largest.offset >= end.offset - 1 - MOST_RECORDS;
}

static bool scan_and_slice(worker *self, log_end end)
{
    sgs_log_segment *segment = self->common->segment;
    const int64_t offset = random_below(self, end.offset);
    const sgs_segment_read request = {
        .start_offset = offset, .max_size = READ_BYTES, .max_position = end.position, .min_one_message = true
    };
    sgs_segment_fetch slice, batch;
    sgs_scan_options options;
    sgs_scan_result result;
    int64_t first_timestamp;
    if (sgs_log_segment_slice(segment, &request, &slice, &self->first) != SGS_OK || !slice.found ||
        sgs_log_segment_translate_offset(segment, offset, 0, end.position, &batch, &self->first) != SGS_OK ||
        !batch.found || batch.position != slice.position ||
        sgs_log_segment_first_batch_timestamp(segment, &first_timestamp, &self->first) != SGS_OK ||
        first_timestamp != TIME + MOST_RECORDS - 1)
        return false;
    sgs_scan_options_default(&options, SGS_SCAN_FILE);
    options.expected_offset = batch.base_offset;
    return sgs_log_segment_scan(segment, &options, batch.position, end.position, NULL, &result, &self->first) ==
               SGS_OK &&
           result.stop == SGS_SCAN_COMPLETE && result.valid_bytes == end.position && result.next_offset == end.offset;
}

typedef bool (*look)(worker *self, log_end end);
static const look looks[READERS] = { read_on, read_anywhere, look_for_a_timestamp, scan_and_slice };

typedef struct reader {
    worker worker;
    look look;
} reader;

static void *read_until_stopped(void *argument)
{
    reader *self = argument;
    worker *own = &self->worker;
    while (!atomic_load(&own->common->stop) || own->done == 0) {
        const log_end end = published(own->common);
        if (end.position == 0) {
            sched_yield();
            continue;
        }
        own->wrong += !self->look(own, end);
        ++own->done;
    }
    return NULL;
}

/* What was published before a sync began is behind it [DUR-15]. */
static void *flush_until_stopped(void *argument)
{
    worker *self = argument;
    stage *common = self->common;
    while (!atomic_load(&common->stop) || self->done == 0) {
        const log_end end = published(common);
        if (sgs_log_segment_flush(common->segment, self->done % 4 == 3, SGS_BARRIER(APPENDED_RECORDS), &self->first) ==
            SGS_OK)
            atomic_store(&common->synced, end.offset);
        else
            ++self->wrong;
        ++self->done;
    }
    return NULL;
}

static void worker_init(worker *self, stage *common, uint32_t seed)
{
    *self = (worker){ .common = common, .random = seed };
    sgs_buffer_init(&self->out, sgs_env_memory(common->env));
}

static void expect_right(const worker *self)
{
    EXPECT_TRUE(self->done > 0);
    if (!EXPECT_EQ_I64(self->wrong, 0))
        printf("%s\n", self->first.message);
}

static int64_t append_all(segment_kit *kit, stage *common, int batches)
{
    int64_t offset = 0;
    for (int i = 0; i < batches; ++i) {
        const int32_t records = i == 0 ? MOST_RECORDS : i % MOST_RECORDS + 1;
        const size_t size = (size_t)(i * 37 % 400);
        if (!EXPECT_OK(segment_kit_append(kit, offset, records, TIME + offset, size), &kit->err))
            break;
        offset += records;
        publish(common, (log_end){ offset, sgs_log_segment_size(kit->segment) });
    }
    return offset;
}

/* @param env  of the segment: the kit's own counts, and is for one thread */
static void run_together(segment_kit *kit, const sgs_env *env, int batches)
{
    stage common = { .env = env };
    worker flusher;
    reader readers[READERS];
    pthread_t flushing, reading[READERS];
    kit->context.env = env;
    sgs_header_cache_init(&kit->cache, sgs_env_memory(env));
    sgs_header_view_init(&kit->headers, &kit->cache);
    kit->context.index_interval_bytes = 256;
    REQUIRE_OK(segment_kit_segment(kit, 0, true), &kit->err);
    common.segment = kit->segment;

    worker_init(&flusher, &common, 0);
    REQUIRE_EQ_I64(pthread_create(&flushing, NULL, flush_until_stopped, &flusher), 0);
    for (uint32_t i = 0; i < READERS; ++i) {
        worker_init(&readers[i].worker, &common, i);
        readers[i].look = looks[i];
        REQUIRE_EQ_I64(pthread_create(&reading[i], NULL, read_until_stopped, &readers[i]), 0);
    }
    const int64_t end = append_all(kit, &common, batches);
    atomic_store(&common.stop, true);
    pthread_join(flushing, NULL);
    for (int i = 0; i < READERS; ++i)
        pthread_join(reading[i], NULL);

    expect_right(&flusher);
    EXPECT_TRUE(atomic_load(&common.synced) <= end);
    for (int i = 0; i < READERS; ++i) {
        expect_right(&readers[i].worker);
        sgs_buffer_deinit(&readers[i].worker.out);
    }
    sgs_buffer_deinit(&flusher.out);
}

TEST(an_appender_a_flusher_and_four_readers)
{
    segment_kit kit;
    segment_kit_open(&kit);
    run_together(&kit, sgs_env_posix(), BATCHES);
    segment_kit_close(&kit);
}

TEST(with_indexes_in_memory)
{
    segment_kit kit;
    segment_kit_open(&kit);
    kit.context.heap_indexes = true;
    run_together(&kit, sgs_env_posix(), BATCHES);
    segment_kit_close(&kit);
}

TEST(on_the_simulated_disk)
{
    segment_kit kit;
    sgs_sim_disk *disk;
    sgs_error err;
    int fd;
    REQUIRE_OK(sgs_sim_open(sgs_env_posix(), 1, &disk, &err), &err);
    const sgs_env *env = sgs_sim_env(disk);
    REQUIRE_OK(env->open_directory(env, SGS_CWD, "/", &fd, &err), &err);
    segment_kit_open_on(&kit, sgs_env_posix(), fd);
    kit.context.heap_indexes = true; /* that disk looks for stores into mappings while others make them */
    run_together(&kit, env, SIM_BATCHES);
    segment_kit_close(&kit);
    EXPECT_OK(env->close(env, fd, "/", &err), &err);
    sgs_sim_close(disk);
}

TEST_MAIN()
