/* crash_check.c - see crash_check.h. */
#include "crash_check.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"

enum { LENGTH_AT = 8, LAST_OFFSET_DELTA_AT = 23, BEFORE_LENGTH = 12, NEXT_BATCH_BYTES = 4096 };

typedef struct look { /* a log on an image, opened */
    small_log log;
    model_found found;
    int64_t opened_at; /* effects of the disk then */
} look;

void crash_checker_init(crash_checker *checker, const sgs_env *base)
{
    checker->base = base;
    sgs_buffer_init(&checker->found, sgs_env_memory(base));
    checker->why[0] = '\0';
}

void crash_checker_deinit(crash_checker *checker) { sgs_buffer_deinit(&checker->found); }

__attribute__((format(printf, 2, 3))) static bool fail(crash_checker *checker, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(checker->why, sizeof checker->why, format, arguments);
    va_end(arguments);
    return false;
}

static bool fail_with(crash_checker *checker, const char *when, const sgs_error *err)
{
    return fail(checker, "%s: %s: %s (%s at %" PRId64 ")", when, sgs_status_name(err->status), err->message, err->file,
                err->position);
}

/* ---- what is found, in words ---- */

static void print_spans(char *out, size_t room, const uint8_t *bytes, size_t size)
{
    size_t used = 0;
    out[0] = '\0';
    for (size_t at = 0; at + LAST_OFFSET_DELTA_AT + 4 <= size && used + 1 < room;) {
        const int64_t base = sgs_load_be_i64(bytes + at);
        used += (size_t)snprintf(out + used, room - used, " %" PRId64 "-%" PRId64, base,
                                 base + sgs_load_be_i32(bytes + at + LAST_OFFSET_DELTA_AT));
        at += BEFORE_LENGTH + (size_t)sgs_load_be_i32(bytes + at + LENGTH_AT);
    }
}

static bool fail_impossible(crash_checker *checker, const char *when, const model_found *found, const model_state *ways,
                            size_t count)
{
    char spans[CRASH_WHY_BYTES / 4];
    print_spans(spans, sizeof spans, found->bytes, found->size);
    int used = snprintf(checker->why, sizeof checker->why, "%s: found [%" PRId64 ", %" PRId64 "):%s; possible", when,
                        found->log_start, found->log_end, spans);
    for (size_t i = 0; i < count; ++i) {
        const model_state *const way = &ways[i];
        used +=
            snprintf(checker->why + used, sizeof checker->why - (size_t)used,
                     " [%" PRId64 ", %" PRId64 ") durable %" PRId64 ":", way->log_start, way->log_end, way->durable);
        for (size_t j = 0; j < way->count && (size_t)used + 64 < sizeof checker->why; ++j)
            used += snprintf(checker->why + used, sizeof checker->why - (size_t)used, " %" PRId64 "-%" PRId64,
                             way->batches[j].base_offset, way->batches[j].last_offset);
    }
    return false;
}

/* ---- one look ---- */

sgs_status crash_read_all(crash_checker *checker, const small_log *log, sgs_error *err)
{
    sgs_buffer_clear(&checker->found);
    for (size_t i = 0; i < log->segments_count; ++i) {
        sgs_log_segment *segment = log->segments[i];
        const int64_t base = sgs_log_segment_base_offset(segment);
        const sgs_segment_read request = {
            .start_offset = log->log_start > base ? log->log_start : base,
            .max_size = INT32_MAX,
            .max_position = sgs_log_segment_size(segment),
            .min_one_message = true,
        };
        sgs_segment_fetch fetch;
        if (request.max_position > 0)
            SGS_TRY(sgs_log_segment_read(segment, &request, &checker->found, &fetch, err));
    }
    return SGS_OK;
}

static bool open_and_read(crash_checker *checker, const crash_expectation *expected, sgs_sim_disk *disk,
                          const char *when, look *found)
{
    sgs_error err;
    if (small_log_open(&found->log, sgs_sim_env(disk), expected->settings, &err) != SGS_OK)
        return fail_with(checker, when, &err);
    found->opened_at = sgs_sim_effects(disk);
    if (crash_read_all(checker, &found->log, &err) != SGS_OK) {
        small_log_abandon(&found->log);
        return fail_with(checker, when, &err);
    }
    found->found = (model_found){ found->log.log_start, found->log.log_end, checker->found.data, checker->found.size };
    return true;
}

size_t crash_way_of(crash_checker *checker, const model_found *found, const model_state *ways, size_t count,
                    const char *when)
{
    for (size_t i = 0; i < count; ++i)
        if (model_is_possible(found, &ways[i]))
            return i;
    (void)fail_impossible(checker, when, found, ways, count);
    return count;
}

static bool is_possible(crash_checker *checker, const look *found, const model_state *ways, size_t count,
                        const char *when)
{
    return crash_way_of(checker, &found->found, ways, count, when) < count;
}

/* ---- thoroughly ---- */

/* What a log holds, as the only thing it may hold from here on. */
static model_state state_of(const model_found *found, uint8_t *copy)
{
    model_state state = { .log_start = found->log_start, .log_end = found->log_end, .durable = found->log_end };
    if (found->size > 0)
        memcpy(copy, found->bytes, found->size);
    for (size_t at = 0; at < found->size; ++state.count) {
        model_batch *const batch = &state.batches[state.count];
        batch->base_offset = sgs_load_be_i64(copy + at);
        batch->last_offset = batch->base_offset + sgs_load_be_i32(copy + at + LAST_OFFSET_DELTA_AT);
        batch->bytes = copy + at;
        batch->size = BEFORE_LENGTH + (size_t)sgs_load_be_i32(copy + at + LENGTH_AT);
        at += batch->size;
    }
    return state;
}

bool crash_check_look_ups(crash_checker *checker, const small_log *log, const model_state *state)
{
    for (size_t i = 0; i < state->count; ++i) {
        const model_batch *const batch = &state->batches[i];
        const int64_t offset = batch->last_offset, timestamp = sgs_load_be_i64(batch->bytes + 35);
        sgs_log_segment *const segment = log->segments[small_log_floor(log, batch->base_offset)];
        sgs_segment_fetch fetch;
        sgs_found_timestamp there;
        sgs_error err;
        if (sgs_log_segment_translate_offset(segment, offset, 0, -1, &fetch, &err) != SGS_OK ||
            sgs_log_segment_find_offset_by_timestamp(segment, timestamp, 0, -1, &there, &err) != SGS_OK)
            return fail_with(checker, "a look-up", &err);
        if (!fetch.found || fetch.base_offset != batch->base_offset || !there.found || there.offset != offset)
            return fail(checker, "look-ups of offset %" PRId64 " and its timestamp lead to %" PRId64 " and %" PRId64,
                        offset, fetch.found ? fetch.base_offset : -1, there.found ? there.offset : -1);
    }
    return true;
}

/* The log on a disk is this one exactly; nothing is left open. */
static bool holds_this(crash_checker *checker, const crash_expectation *expected, sgs_sim_disk *disk,
                       const model_state *state, const char *when)
{
    look again;
    if (!open_and_read(checker, expected, disk, when, &again))
        return false;
    small_log_abandon(&again.log);
    return is_possible(checker, &again, state, 1, when);
}

static bool holds_this_after(crash_checker *checker, const crash_expectation *expected, sgs_sim_disk *disk,
                             const model_state *state, const char *when)
{
    sgs_sim_disk *image;
    sgs_error err;
    const sgs_sim_crash crash = { .effects = -1, .fate = SGS_SIM_ALL_LOST };
    if (sgs_sim_crash_image(disk, &crash, 3, &image, &err) != SGS_OK)
        return fail_with(checker, when, &err);
    const bool is_good = holds_this(checker, expected, image, state, when);
    sgs_sim_close(image);
    return is_good;
}

/* A power cut within the recovery: behind `begin`, at most where it was done. */
static bool survives_another(crash_checker *checker, const crash_expectation *expected, sgs_sim_disk *image,
                             int64_t begin, int64_t end)
{
    sgs_sim_disk *second;
    sgs_error err;
    look found;
    uint64_t random = expected->seed;
    const sgs_sim_crash within = { .effects = begin + (int64_t)(crash_draw(&random) % (uint64_t)(end - begin + 1)),
                                   .fate = (sgs_sim_fate)(crash_draw(&random) % 4),
                                   .seed = crash_draw(&random) };
    if (sgs_sim_crash_image(image, &within, 3, &second, &err) != SGS_OK)
        return fail_with(checker, "a crash of the recovery", &err);
    bool is_good = open_and_read(checker, expected, second, "after a crash of the recovery", &found);
    if (is_good) {
        small_log_abandon(&found.log);
        is_good = is_possible(checker, &found, expected->ways, expected->ways_count, "after a crash of the recovery");
    }
    sgs_sim_close(second);
    return is_good;
}

/* An append behind what was found, synced: both are there after a power cut. */
static bool goes_on(crash_checker *checker, const crash_expectation *expected, sgs_sim_disk *image, model_state *state)
{
    static uint8_t bytes[NEXT_BATCH_BYTES]; /* one thread a process */
    look again;
    sgs_error err;
    if (!open_and_read(checker, expected, image, "another open", &again))
        return false;
    const size_t size = crash_batch_make(bytes, again.log.log_end, 2, 100, expected->epoch, CRASH_OPERATIONS_MAX);
    sgs_status status = small_log_append(&again.log, bytes, size, &err);
    if (status == SGS_OK)
        status = small_log_flush(&again.log, &err);
    if (status != SGS_OK) {
        small_log_abandon(&again.log);
        return fail_with(checker, "an append after the recovery", &err);
    }
    if (state->count < MODEL_BATCHES_MAX)
        state->batches[state->count++] = (model_batch){ again.log.log_end - 2, again.log.log_end - 1, bytes, size };
    state->log_end = state->durable = again.log.log_end;
    small_log_abandon(&again.log);
    return holds_this_after(checker, expected, image, state, "after an append behind the recovery");
}

static bool check_thoroughly(crash_checker *checker, const crash_expectation *expected, sgs_sim_disk *image,
                             int64_t begin, look *first)
{
    static uint8_t copy[CRASH_BATCHES_BYTES]; /* one thread a process */
    model_state state = state_of(&first->found, copy);
    const int64_t end = first->opened_at;
    const bool was_clean = first->log.was_clean;
    const bool is_good = crash_check_look_ups(checker, &first->log, &state);
    small_log_abandon(&first->log);
    if (!is_good || !survives_another(checker, expected, image, begin, end) ||
        !holds_this_after(checker, expected, image, &state, "not all that was found is on the disk"))
        return false;
    /* Room that was given to a new segment is not kept by the next open: it changes as much, once. */
    if (expected->settings->preallocate && !holds_this(checker, expected, image, &state, "another open"))
        return false;
    const uint64_t before = sgs_sim_digest(image);
    if (!holds_this(checker, expected, image, &state, "another open"))
        return false;
    if (!was_clean && sgs_sim_digest(image) != before)
        return fail(checker, "a second recovery changed a file");
    return goes_on(checker, expected, image, &state);
}

/* ---- one image ---- */

sgs_sim_disk *crash_image_of(crash_checker *checker, const crash_run *run, const sgs_sim_crash *crash)
{
    sgs_sim_disk *image;
    sgs_error err;
    if (sgs_sim_crash_image(run->disk, crash, 2, &image, &err) == SGS_OK)
        return image;
    (void)fail_with(checker, "no image of the crash", &err);
    return NULL;
}

void crash_expect(crash_expectation *expected, const crash_run *run, const sgs_sim_crash *crash)
{
    expected->settings = &run->script->settings;
    expected->epoch = run->epoch;
    expected->seed = crash->seed;
    expected->ways_count = crash_run_ways(run, crash->effects, expected->ways);
}

bool crash_check_image(crash_checker *checker, const crash_expectation *expected, sgs_sim_disk *image, bool thoroughly)
{
    const int64_t begin = sgs_sim_effects(image);
    look found;
    if (!open_and_read(checker, expected, image, "the open after the crash", &found))
        return false;
    if (!is_possible(checker, &found, expected->ways, expected->ways_count, "the open after the crash")) {
        small_log_abandon(&found.log);
        return false;
    }
    if (thoroughly)
        return check_thoroughly(checker, expected, image, begin, &found);
    small_log_abandon(&found.log);
    return true;
}
