/* failing_writers.c - scenarios that write: create, append, cut, seal, flush, close. */
#include <stdlib.h>

#include "failing_scenarios.h"
#include "segment/append_lane.h"
#include "test.h"

enum { BATCHES = 40 };

static void nothing(failing_run *run) { (void)run; }
static void written(failing_run *run) { failing_write(run, BATCHES); }

static void written_and_closed(failing_run *run)
{
    failing_write(run, BATCHES);
    failing_reopen(run);
}

/* ---- creation and appends ---- */

static sgs_status create_and_append(failing_run *run)
{
    const sgs_status status = segment_kit_segment(&run->kit, 0, true);
    if (status != SGS_OK) {
        run->kit.segment = NULL;
        return status;
    }
    return failing_append(run, 12);
}

static void preallocating(failing_run *run)
{
    run->kit.context.preallocate = true;
    run->kit.context.segment_bytes = 1 << 16;
}

static void preallocated(failing_run *run)
{
    preallocating(run);
    written(run);
}

static void on_the_heap(failing_run *run)
{
    run->kit.context.heap_indexes = true;
    written_and_closed(run);
}

static void heap_written(failing_run *run)
{
    run->kit.context.heap_indexes = true;
    written(run);
}

static sgs_status append_some(failing_run *run) { return failing_append(run, BATCHES + 8); }

/* An index entry a batch, 80 batches a write: both indexes grow, more than once. */
static void every_batch_indexed(failing_run *run)
{
    run->kit.context.index_interval_bytes = 0;
    run->kit.context.max_index_bytes = 1 << 16;
    failing_write(run, 1);
}

static sgs_status append_many(failing_run *run)
{
    enum { AT_ONCE = 80, BYTES = KIT_LEAST_BATCH_BYTES + 8 };
    static uint8_t bytes[AT_ONCE * BYTES];
    static sgs_batch_header rows[AT_ONCE];
    segment_kit *kit = &run->kit;
    for (int i = 0; i < 10; ++i) {
        size_t size = 0;
        for (int at = 0; at < AT_ONCE; ++at) {
            const size_t batch =
                segment_kit_batch(bytes + size, sizeof bytes - size, run->acked + at, 1, 10 * (run->acked + at), 0);
            SGS_TRY(sgs_batch_header_load(bytes + size, batch, 0, &rows[at], &kit->err));
            size += batch;
        }
        const sgs_slice slices[] = { { bytes, size / 2 }, { bytes + size / 2, size - size / 2 } };
        SGS_TRY(sgs_log_segment_append(kit->segment, slices, 2, rows, AT_ONCE, &kit->poisoned, &kit->err));
        run->next_least = run->acked += AT_ONCE;
    }
    return SGS_OK;
}

static sgs_status append_by_lane(failing_run *run)
{
    segment_kit *kit = &run->kit;
    const sgs_memory memory = sgs_env_memory(kit->context.env);
    sgs_log_validator validator;
    sgs_append_lane lane;
    sgs_lane_append answer;
    uint8_t batch[512];
    sgs_status status = SGS_OK;
    sgs_log_validator_init(&validator, memory, &kit->codecs);
    sgs_append_lane_init(&lane, memory);
    lane.next_offset = run->acked;
    lane.position = sgs_log_segment_size(kit->segment);
    lane.max_segment_bytes = 1 << 20;
    lane.max_batch_bytes = 1 << 20;
    lane.max_segment_ms = 1 << 20;
    lane.leader_epoch = 3;
    for (int i = 0; i < 9 && status == SGS_OK; ++i) {
        sgs_batch_header row;
        const int64_t time = 10 * run->acked;
        const size_t size =
            segment_kit_batch(batch, sizeof batch, i % 3 == 2 ? run->acked : 0, 1, time, FAILING_BATCH_BYTES);
        if (i % 3 == 0)
            status = sgs_append_lane_leader(&lane, kit->segment, &validator, batch, size, time, &answer, &kit->err);
        else if (i % 3 == 1) {
            status = sgs_batch_header_load(batch, size, 0, &row, &kit->err);
            if (status == SGS_OK)
                status =
                    sgs_append_lane_own(&lane, kit->segment, &validator, batch, size, &row, time, &answer, &kit->err);
        } else
            status = sgs_append_lane_follower(&lane, kit->segment, batch, size, 3, time, &answer, &kit->err);
        if (status == SGS_OK && !answer.taken) /* the layers do it, and have the error */
            status = segment_kit_append(kit, run->acked, 1, time, FAILING_BATCH_BYTES);
        lane.next_offset = run->acked + 1;
        lane.position = sgs_log_segment_size(kit->segment);
        if (status == SGS_OK)
            run->next_least = ++run->acked;
    }
    sgs_append_lane_deinit(&lane);
    sgs_log_validator_deinit(&validator);
    return status;
}

/* ---- cuts, seals, flushes, closes ---- */

static sgs_status cut_to(failing_run *run, int64_t offset)
{
    int32_t bytes_cut;
    run->next_least = offset;
    run->next_most = offset;
    SGS_TRY(sgs_log_segment_truncate_to(run->kit.segment, offset, &bytes_cut, &run->kit.err));
    run->acked = offset;
    return failing_append(run, offset + 2) == SGS_OK && (run->next_most = offset + 2) > 0 ? SGS_OK
                                                                                          : run->kit.err.status;
}

static sgs_status cut_in_the_middle(failing_run *run) { return cut_to(run, 21); }
static sgs_status cut_all(failing_run *run) { return cut_to(run, 0); }

static void known_to_the_end(failing_run *run)
{
    sgs_timestamp_offset largest;
    bool is_partial = false;
    failing_write(run, BATCHES);
    EXPECT_OK(sgs_log_segment_max_timestamp(run->kit.segment, &largest, &is_partial, &run->kit.err), &run->kit.err);
}

static sgs_status seal(failing_run *run)
{
    SGS_TRY(sgs_log_segment_on_become_inactive(run->kit.segment, &run->kit.err));
    run->takes_no_appends = true;
    return SGS_OK;
}

static sgs_status flush_all(failing_run *run) { return segment_kit_flush(&run->kit, true); }

static sgs_status prepare(failing_run *run)
{
    return sgs_log_segment_prepare_for_appends(run->kit.segment, &run->kit.err);
}

static sgs_status close_it(failing_run *run)
{
    sgs_log_segment *segment = run->kit.segment;
    run->kit.segment = NULL;
    return sgs_log_segment_close(segment, &run->kit.err);
}

static sgs_status close_quietly(failing_run *run)
{
    sgs_log_segment_close_quietly(run->kit.segment);
    run->kit.segment = NULL;
    return SGS_OK;
}

static sgs_status rewrite_all(failing_run *run)
{
    return sgs_log_segment_rewrite(run->kit.segment, 5 * FAILING_BATCH_BYTES, &run->kit.err);
}

const failing_scenario failing_writers[] = {
    { "create and append", false, nothing, create_and_append, NULL, false },
    { "create a preallocated segment", false, preallocating, create_and_append, NULL, false },
    { "append in Kafka's profile", true, nothing, create_and_append, NULL, false },
    { "append to a segment that is there", false, written_and_closed, append_some, NULL, false },
    { "append with indexes on the heap", false, on_the_heap, append_some, NULL, false },
    { "append until the indexes grow", false, every_batch_indexed, append_many, NULL, false },
    { "append by the lane", false, written_and_closed, append_by_lane, NULL, false },
    { "truncate", false, written, cut_in_the_middle, NULL, false },
    { "truncate a segment that is there", false, written_and_closed, cut_in_the_middle, NULL, false },
    { "truncate with known timestamps", false, known_to_the_end, cut_in_the_middle, NULL, false },
    { "truncate in Kafka's profile", true, written, cut_in_the_middle, NULL, false },
    { "truncate with indexes on the heap", false, on_the_heap, cut_in_the_middle, NULL, false },
    { "truncate all", false, written, cut_all, NULL, false },
    { "seal", false, written, seal, NULL, false },
    { "seal a preallocated segment", false, preallocated, seal, NULL, false },
    { "seal a segment that is there", false, written_and_closed, seal, NULL, false },
    { "flush", false, written, flush_all, NULL, false },
    { "flush in Kafka's profile", true, written, flush_all, NULL, false },
    { "flush with indexes on the heap", false, heap_written, flush_all, NULL, false },
    { "prepare for appends", false, written_and_closed, prepare, NULL, false },
    { "close", false, written, close_it, NULL, false },
    { "close a preallocated segment", false, preallocated, close_it, NULL, false },
    { "close in Kafka's profile", true, written, close_it, NULL, false },
    { "close with indexes on the heap", false, heap_written, close_it, NULL, false },
    { "close and write nothing", false, written, close_quietly, NULL, false },
    { "rewrite", false, written_and_closed, rewrite_all, NULL, false },
    { .name = NULL },
};
