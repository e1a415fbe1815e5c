/* crash_run.c - see crash_run.h. */
#include "crash_run.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "record/record.h"
#include "record/record_batch.h"

enum { FIRST_TIMESTAMP = 1000000, VALUE_BYTES_MAX = 4096 };

size_t crash_batch_make(uint8_t *out, int64_t base_offset, int32_t records, size_t size, int32_t epoch, uint8_t number)
{
    uint8_t value[VALUE_BYTES_MAX];
    const sgs_bytes no_key = { .data = NULL, .size = -1 };
    uint8_t *end = out + SGS_BATCH_HEADER_BYTES;
    memset(value, 'a' + number, sizeof value);
    for (int32_t i = 0; i < records; ++i) {
        const size_t used = (size_t)(end - out);
        const bool fills_up = i == records - 1 && size > used && size - used < sizeof value;
        const sgs_bytes bytes = { .data = value, .size = fills_up ? (int32_t)(size - used) : 1 };
        end = sgs_record_write(end, i, i, no_key, bytes, NULL, 0);
    }
    const sgs_batch_header header = {
        .base_offset = base_offset,
        .last_offset = base_offset + records - 1,
        .base_timestamp = FIRST_TIMESTAMP + 8 * base_offset,
        .max_timestamp = FIRST_TIMESTAMP + 8 * base_offset + records - 1,
        .producer_id = SGS_NO_PRODUCER_ID,
        .producer_epoch = SGS_NO_PRODUCER_EPOCH,
        .base_sequence = SGS_NO_SEQUENCE,
        .partition_leader_epoch = epoch,
        .records_count = records,
        .size_bytes = (int32_t)(end - out),
        .magic = 2,
    };
    sgs_batch_header_store(&header, out);
    (void)sgs_batch_seal(out, (size_t)(end - out));
    return (size_t)(end - out);
}

static sgs_status append(crash_run *run, const crash_operation *operation, model_batch *appended, sgs_error *err)
{
    const int64_t base_offset = run->state.log_end;
    uint8_t *const bytes = run->batches + run->batches_size;
    const size_t size = crash_batch_make(bytes, base_offset, operation->argument, (size_t)operation->bytes, run->epoch,
                                         (uint8_t)run->steps_count);
    run->batches_size += size;
    *appended = (model_batch){ base_offset, base_offset + operation->argument - 1, bytes, size };
    return small_log_append(&run->log, bytes, size, err);
}

static sgs_status reopen(crash_run *run, bool cleanly, sgs_error *err)
{
    if (cleanly)
        SGS_TRY(small_log_close(&run->log, err));
    else
        small_log_abandon(&run->log);
    return small_log_open(&run->log, sgs_sim_env(run->disk), &run->script->settings, err);
}

sgs_status crash_run_do(crash_run *run, const crash_operation *operation, model_batch *appended, sgs_error *err)
{
    small_log *const log = &run->log;
    switch (operation->kind) {
    case CRASH_append:
        return append(run, operation, appended, err);
    case CRASH_flush:
        return small_log_flush(log, err);
    case CRASH_roll:
        return small_log_roll(log, err);
    case CRASH_truncate_to:
        return small_log_truncate_to(log, operation->argument, err);
    case CRASH_truncate_fully:
        return small_log_truncate_fully(log, operation->argument, err);
    case CRASH_delete_records:
        return small_log_delete_records(log, operation->argument < log->log_end ? operation->argument : log->log_end,
                                        err);
    case CRASH_background:
        return small_log_background(log, err);
    case CRASH_close:
    case CRASH_kill:
        return reopen(run, operation->kind == CRASH_close, err);
    case CRASH_new_epoch:
        ++run->epoch;
        break;
    case CRASH_KINDS_COUNT:
        break;
    }
    return SGS_OK;
}

/* Compare the log with the model; one that was opened again may have closed a hole at its end. */
static bool agree(crash_run *run, const crash_operation *operation)
{
    const small_log *const log = &run->log;
    model_state *const state = &run->state;
    const bool was_opened = operation->kind == CRASH_close || operation->kind == CRASH_kill;
    if (was_opened && log->log_end < state->log_end && log->log_end >= model_data_end(state))
        state->log_end = state->durable = log->log_end;
    if (log->log_start != state->log_start || log->log_end != state->log_end || log->durable > log->log_end) {
        (void)snprintf(run->why, sizeof run->why,
                       "step %zu: the log is [%" PRId64 ", %" PRId64 ") and durable up to %" PRId64
                       ", the model [%" PRId64 ", %" PRId64 ")",
                       run->steps_count + 1, log->log_start, log->log_end, log->durable, state->log_start,
                       state->log_end);
        return false;
    }
    if (log->durable > state->durable)
        state->durable = log->durable;
    return true;
}

static bool do_step(crash_run *run, const crash_operation *operation)
{
    sgs_error err;
    crash_step *const step = &run->steps[run->steps_count];
    step->operation = *operation;
    step->before = run->state;
    step->begin = sgs_sim_effects(run->disk);
    const sgs_status status = crash_run_do(run, operation, &step->appended, &err);
    step->end = sgs_sim_effects(run->disk);
    if (status != SGS_OK) {
        (void)snprintf(run->why, sizeof run->why, "step %zu: %s: %s (%s)", run->steps_count + 1,
                       sgs_status_name(status), err.message, err.file);
        return false;
    }
    model_apply(&run->state, operation, &step->appended);
    if (!agree(run, operation))
        return false;
    ++run->steps_count;
    return true;
}

bool crash_run_begin(crash_run *run, const crash_script *script, const sgs_env *base)
{
    sgs_error err;
    run->script = script;
    run->disk = NULL;
    run->steps_count = run->batches_size = 0;
    run->epoch = 0;
    run->state = (model_state){ .log_start = 0 };
    if (sgs_sim_open(base, 1, &run->disk, &err) == SGS_OK)
        return true;
    (void)snprintf(run->why, sizeof run->why, "no disk: %s", err.message);
    return false;
}

bool crash_run_script(crash_run *run, const crash_script *script, const sgs_env *base)
{
    sgs_error err;
    if (!crash_run_begin(run, script, base))
        return false;
    if (small_log_open(&run->log, sgs_sim_env(run->disk), &script->settings, &err) != SGS_OK) {
        (void)snprintf(run->why, sizeof run->why, "a new log: %s: %s (%s)", sgs_status_name(err.status), err.message,
                       err.file);
        return false;
    }
    bool is_good = true;
    for (size_t i = 0; is_good && i < script->count; ++i)
        is_good = do_step(run, &script->operations[i]);
    if (run->log.segments_count > 0)
        small_log_abandon(&run->log);
    return is_good;
}

void crash_run_end(crash_run *run)
{
    sgs_sim_close(run->disk);
    run->disk = NULL;
}

size_t crash_run_ways(const crash_run *run, int64_t effects, model_state ways[MODEL_WAYS_MAX])
{
    for (size_t i = 0; i < run->steps_count; ++i) {
        const crash_step *const step = &run->steps[i];
        if (step->end <= effects)
            continue;
        if (step->begin < effects)
            return model_during(&step->before, &step->operation, &step->appended, ways);
        ways[0] = step->before;
        return 1;
    }
    ways[0] = run->state;
    return 1;
}
