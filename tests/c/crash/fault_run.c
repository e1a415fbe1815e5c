/* fault_run.c - see fault_run.h. */
#include "fault_run.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

__attribute__((format(printf, 2, 3))) static bool fail(fault_run *self, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const int used = snprintf(self->why, sizeof self->why, "step %zu: ", self->run.steps_count + 1);
    (void)vsnprintf(self->why + used, sizeof self->why - (size_t)used, format, arguments);
    va_end(arguments);
    return false;
}

static int64_t failures(const fault_run *self)
{
    return sgs_sim_failed_calls(self->run.disk) + self->memory.failed_calls;
}

/* Whether what failed may fail so: because of a fault, and not as damage. */
static bool is_excused(fault_run *self, int64_t failures_before, const sgs_error *err)
{
    const bool was_made_to = failures(self) > failures_before;
    self->has_failed = self->has_failed || was_made_to;
    switch (err->status) {
    case SGS_DISK_FULL:
    case SGS_RESOURCE:
    case SGS_PERMISSION:
    case SGS_READ_IO:
    case SGS_WRITE_IO:
    case SGS_FSYNC_FAILED:
    case SGS_CLOSE_FAILED:
        if (was_made_to)
            return true;
        break;
    default:
        break;
    }
    return fail(self, "%s: %s (%s)%s", sgs_status_name(err->status), err->message, err->file,
                was_made_to ? "" : ", and nothing was made to fail");
}

/* ---- ends and beginnings ---- */

static bool let_go(fault_run *self)
{
    if (self->is_open)
        small_log_abandon(&self->run.log);
    self->is_open = false;
    if (self->memory.live != 0 || (!sgs_sim_is_off(self->run.disk) && sgs_sim_open_descriptors(self->run.disk) != 0))
        return fail(self, "%" PRId64 " pieces of memory and %" PRId64 " descriptors were not given back",
                    self->memory.live, sgs_sim_open_descriptors(self->run.disk));
    return true;
}

/* What the next process may find. After a power cut: of what is not durable any prefix. */
static void expect(fault_run *self, bool is_power_cut)
{
    model_state before = self->run.state;
    if (!is_power_cut)
        before.durable = before.log_end; /* a kill takes nothing [DUR-3] */
    self->expected.ways[0] = before;
    self->expected.ways_count = 1;
    if (self->doubtful.kind != CRASH_KINDS_COUNT)
        self->expected.ways_count = model_during(&before, &self->doubtful, &self->appended, self->expected.ways);
}

/* Take the log as it was found for what it is. */
static bool settle_for(fault_run *self, bool is_power_cut)
{
    const small_log *const log = &self->run.log;
    const crash_expectation *const expected = &self->expected;
    const model_found found = { log->log_start, log->log_end, self->checker.found.data, self->checker.found.size };
    expect(self, is_power_cut);
    const size_t way = crash_way_of(&self->checker, &found, expected->ways, expected->ways_count, "opened again");
    if (way == expected->ways_count)
        return fail(self, "%s", self->checker.why);
    expect(self, true); /* the same ways, with what is durable of them */
    self->run.state = expected->ways[way];
    model_narrow(&self->run.state, &found);
    model_state *const state = &self->run.state;
    if (!self->has_failed)
        state->durable = state->log_end; /* recovery has synced it all */
    else if (log->durable > state->durable)
        state->durable = log->durable;
    self->doubtful.kind = CRASH_KINDS_COUNT;
    self->is_over = false;
    return true;
}

static bool open_log(fault_run *self, bool is_power_cut)
{
    sgs_error err;
    small_log *const log = &self->run.log;
    const int64_t before = failures(self);
    if (small_log_open(log, &self->memory.env, &self->script->operations.settings, &err) != SGS_OK)
        return is_excused(self, before, &err) && let_go(self);
    self->is_open = true;
    const sgs_status status = crash_read_all(&self->checker, log, &err);
    self->has_failed = self->has_failed || failures(self) > before;
    if (status == SGS_OK)
        return settle_for(self, is_power_cut);
    return is_excused(self, before, &err) && let_go(self);
}

/* The disk that a crash leaves, of now. */
static sgs_sim_disk *image_of(fault_run *self, sgs_sim_fate fate, uint64_t seed)
{
    sgs_error err;
    sgs_sim_crash crash = { .effects = -1, .fate = fate, .seed = seed };
    sgs_buffer_clear(&self->ignored);
    if (crash_fault_numbers(&self->planted, self->run.disk, &self->ignored, &err) != SGS_OK) {
        (void)fail(self, "%s", err.message);
        return NULL;
    }
    crash.ignored = (const int64_t *)(const void *)self->ignored.data;
    crash.ignored_count = self->ignored.size / sizeof *crash.ignored;
    sgs_sim_disk *const image = crash_image_of(&self->checker, &self->run, &crash);
    if (image == NULL)
        (void)fail(self, "%s", self->checker.why);
    return image;
}

static bool cut_power(fault_run *self, const fault_step *cut)
{
    if (!let_go(self))
        return false;
    sgs_sim_disk *const image = image_of(self, cut->fate, cut->seed);
    if (image == NULL)
        return false;
    sgs_sim_close(self->run.disk);
    self->run.disk = image;
    self->power_cut = NULL;
    self->has_failed = false;
    fault_memory_init(&self->memory, image);
    return open_log(self, true);
}

static void heal(fault_run *self)
{
    for (int call = 0; call <= SGS_SIM_ANY_CALL; ++call)
        sgs_sim_fail(self->run.disk, (sgs_sim_call)call, 0, 0, false);
    sgs_sim_set_room(self->run.disk, -1);
    self->memory.fail_at = 0;
}

/* ---- steps ---- */

static bool agree(fault_run *self)
{
    const small_log *const log = &self->run.log;
    model_state *const state = &self->run.state;
    if (log->log_start != state->log_start || log->log_end != state->log_end || log->durable > log->log_end)
        return fail(self,
                    "the log is [%" PRId64 ", %" PRId64 ") and durable up to %" PRId64 ", the model [%" PRId64
                    ", %" PRId64 ")",
                    log->log_start, log->log_end, log->durable, state->log_start, state->log_end);
    if (log->durable > state->durable)
        state->durable = log->durable;
    if (self->planted.promises_more)
        state->durable = state->log_end;
    return true;
}

/* Offsets are those that the log has, or a few more. */
static crash_operation aimed(const fault_run *self, crash_operation operation)
{
    const int64_t end = self->run.state.log_end;
    if (operation.kind == CRASH_truncate_fully)
        operation.argument = (int32_t)(operation.argument % (end + 6));
    else if (operation.kind == CRASH_truncate_to || operation.kind == CRASH_delete_records)
        operation.argument = (int32_t)(operation.argument % (end + 1));
    return operation;
}

static bool change(fault_run *self, const crash_operation *operation)
{
    sgs_error err;
    const int64_t before = failures(self);
    const sgs_status status = crash_run_do(&self->run, operation, &self->appended, &err);
    if (status == SGS_OK) {
        self->has_failed = self->has_failed || failures(self) > before;
        model_apply(&self->run.state, operation, &self->appended);
        return agree(self);
    }
    if (!is_excused(self, before, &err))
        return false;
    const bool goes_on = operation->kind == CRASH_append && status != SGS_FSYNC_FAILED && !self->run.log.is_poisoned &&
                         self->run.log.log_end == self->run.state.log_end;
    if (!goes_on) {
        self->is_over = true;
        self->doubtful = *operation;
    }
    return true;
}

static bool reopen(fault_run *self, bool cleanly)
{
    sgs_error err;
    const int64_t before = failures(self);
    if (self->is_open && cleanly && !self->is_over) {
        self->is_open = false;
        if (small_log_close(&self->run.log, &err) != SGS_OK && !is_excused(self, before, &err))
            return false;
        self->has_failed = self->has_failed || failures(self) > before;
    }
    return let_go(self) && (sgs_sim_is_off(self->run.disk) || open_log(self, false));
}

static bool operate(fault_run *self, const crash_operation *asked)
{
    const crash_operation operation = aimed(self, *asked);
    if (operation.kind == CRASH_close || operation.kind == CRASH_kill)
        return reopen(self, operation.kind == CRASH_close);
    if (!self->is_open && !open_log(self, false))
        return false;
    return !self->is_open || self->is_over || change(self, &operation);
}

/* Without a fault every record is there, and every index leads to it. */
static bool read(fault_run *self)
{
    sgs_error err;
    const small_log *const log = &self->run.log;
    const int64_t before = failures(self);
    if (!self->is_open || self->is_over)
        return true;
    if (crash_read_all(&self->checker, log, &err) != SGS_OK)
        return is_excused(self, before, &err);
    const model_found found = { log->log_start, log->log_end, self->checker.found.data, self->checker.found.size };
    model_state whole = self->run.state, readable = whole;
    whole.durable = whole.log_end;
    if (crash_way_of(&self->checker, &found, &whole, 1, "a read") != 0)
        return fail(self, "%s", self->checker.why);
    readable.count = 0;
    for (size_t i = 0; i < whole.count; ++i)
        if (whole.batches[i].last_offset >= whole.log_start)
            readable.batches[readable.count++] = whole.batches[i];
    return crash_check_look_ups(&self->checker, log, &readable) || failures(self) > before ||
           fail(self, "%s", self->checker.why);
}

static bool do_step(fault_run *self, const fault_step *step)
{
    switch (step->kind) {
    case FAULT_OPERATION:
        return operate(self, &step->operation);
    case FAULT_READ:
        return read(self);
    case FAULT_CALL:
        sgs_sim_fail(self->run.disk, step->call, step->number, step->os_error, step->for_ever);
        return true;
    case FAULT_ALLOCATION:
        fault_memory_fail(&self->memory, step->number, step->for_ever);
        return true;
    case FAULT_ROOM:
        sgs_sim_set_room(self->run.disk, step->number);
        return true;
    case FAULT_HEAL:
        heal(self);
        return true;
    case FAULT_POWER_CUT:
        self->power_cut = step;
        sgs_sim_cut_power_after(self->run.disk, sgs_sim_effects(self->run.disk) + step->number);
        return step->number > 0 || cut_power(self, step);
    }
    return true;
}

/* ---- all of it ---- */

static bool do_steps(fault_run *self)
{
    if (!open_log(self, false))
        return false;
    for (size_t i = 0; i < self->script->count; ++i) {
        if (!do_step(self, &self->script->steps[i]) ||
            (sgs_sim_is_off(self->run.disk) && !cut_power(self, self->power_cut)))
            return false;
        ++self->run.steps_count;
    }
    return let_go(self);
}

static bool look_in_the_end(fault_run *self)
{
    const bool is_killed = self->script->fate == SGS_SIM_KILLED;
    /* What a failed sync was to bring is there until the power goes, and not on the disk. */
    const bool thoroughly = self->script->thoroughly && !(is_killed && self->has_failed);
    expect(self, !is_killed || thoroughly); /* thoroughly: the power goes in the recovery */
    self->expected.settings = &self->script->operations.settings;
    self->expected.epoch = self->run.epoch;
    self->expected.seed = self->script->seed;
    sgs_sim_disk *const image = image_of(self, self->script->fate, self->script->seed);
    if (image == NULL)
        return false;
    const bool is_good = crash_check_image(&self->checker, &self->expected, image, thoroughly);
    sgs_sim_close(image);
    return is_good || fail(self, "in the end: %s", self->checker.why);
}

bool fault_run_script(fault_run *self, const fault_script *script, const sgs_env *base)
{
    self->script = script;
    self->power_cut = NULL;
    self->doubtful.kind = CRASH_KINDS_COUNT;
    self->is_open = self->is_over = self->has_failed = false;
    if (!crash_run_begin(&self->run, &script->operations, base))
        return fail(self, "%s", self->run.why);
    crash_checker_init(&self->checker, base);
    sgs_buffer_init(&self->ignored, sgs_env_memory(base));
    fault_memory_init(&self->memory, self->run.disk);
    const bool is_good = do_steps(self) && look_in_the_end(self);
    sgs_buffer_deinit(&self->ignored);
    crash_checker_deinit(&self->checker);
    crash_run_end(&self->run);
    return is_good;
}
