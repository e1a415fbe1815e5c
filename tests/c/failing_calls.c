/* failing_calls.c - see failing_calls.h. */
#include "failing_calls.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "failing_errnos.h"
#include "test.h"

enum {
    CALLS_MAX = 4096,      /* of one scenario */
    SITES_MAX = 512,       /* of all */
    VISITS_OF_A_SITE = 12, /* of one scenario: later ones of a loop tell nothing new */
    ALL_FAIL_AT_MOST = 150
};

typedef struct one_call {
    memory_env_call call;
    const void *site;
} one_call;

typedef struct site {
    memory_env_call call;
    const void *address;
    uint32_t failed[2]; /* a bit an errno of failing_errnos: once, for ever */
    int visits;         /* in the present scenario */
} site;

static one_call calls[CALLS_MAX];
static size_t calls_count;
static site sites[SITES_MAX];
static size_t sites_count;
static int64_t runs;

static void note_call(void *context, memory_env_call call, const void *address)
{
    (void)context;
    if (calls_count < CALLS_MAX)
        calls[calls_count++] = (one_call){ .call = call, .site = address };
}

static site *site_of(memory_env_call call, const void *address)
{
    for (size_t i = 0; i < sites_count; ++i)
        if (sites[i].call == call && sites[i].address == address)
            return &sites[i];
    if (sites_count == SITES_MAX) {
        (void)test_note(__FILE__, __LINE__, "more than %d places", (int)SITES_MAX);
        return &sites[0];
    }
    sites[sites_count] = (site){ .call = call, .address = address };
    return &sites[sites_count++];
}

/* ---- one run ---- */

typedef struct failing_plan {
    const failing_scenario *scenario;
    memory_env_call call;
    int64_t nth;
    int os_error;
    bool for_ever;
    bool all_calls; /* from the n-th on, of whatever name */
    /* and this one, of another name, which is only made where the first has failed; 0 = none */
    int64_t second_nth;
    memory_env_call second_call;
    int second_os_error;
    bool second_for_ever;
} failing_plan;

static void begin(failing_run *run, const failing_scenario *scenario)
{
    sgs_error err;
    int directory_fd = -1;
    memset(run, 0, sizeof *run);
    EXPECT_OK(sgs_sim_open(sgs_env_posix(), 7, &run->disk, &err), &err);
    const sgs_env *disk = sgs_sim_env(run->disk);
    EXPECT_OK(disk->open_directory(disk, SGS_CWD, "/", &directory_fd, &err), &err);
    segment_kit_open_on(&run->kit, disk, directory_fd);
    run->kit.memory.writes_half = true;
    run->kit.context.kafka_profile = scenario->kafka_profile;
    run->kit.context.index_interval_bytes = 512;
    run->kit.context.max_index_bytes = 8192;
    run->next_most = -1;
    scenario->set_up(run);
}

/* What may come out of a failed call. The indexes in Kafka's profile are full whatever kept them from growing. */
static bool is_allowed(const failing_plan *plan, sgs_status status)
{
    if (status == SGS_OK)
        return true;
    if (plan->all_calls)
        return status == SGS_READ_IO || status == SGS_WRITE_IO || status == SGS_FSYNC_FAILED ||
               status == SGS_CLOSE_FAILED || status == SGS_SEND_FAILED ||
               (plan->scenario->kafka_profile && status == SGS_DISK_FULL);
    return status == memory_env_status(plan->call, plan->os_error) ||
           (plan->second_nth > 0 && status == memory_env_status(plan->second_call, plan->second_os_error)) ||
           (plan->scenario->kafka_profile && status == SGS_DISK_FULL);
}

static void check_reads(failing_run *run, bool kafka_profile)
{
    const int64_t least = run->acked < run->next_least ? run->acked : run->next_least;
    for (int64_t offset = 0; offset < least; offset += 7)
        EXPECT_EQ_I64(segment_kit_read_offset(&run->kit, offset), offset);
    if (least == 0)
        return;
    EXPECT_EQ_I64(segment_kit_read_offset(&run->kit, least - 1), least - 1);
    sgs_found_timestamp found = { .offset = -1 };
    if (kafka_profile)
        return;
    EXPECT_OK(
        sgs_log_segment_find_offset_by_timestamp(run->kit.segment, 10 * (least - 1), 0, -1, &found, &run->kit.err),
        &run->kit.err);
    EXPECT_EQ_I64(found.offset, least - 1);
}

static bool is_refused(failing_run *run, int64_t offset)
{
    const sgs_status status = segment_kit_append(&run->kit, offset, 1, 0, FAILING_BATCH_BYTES);
    return status == SGS_INVALID_OFFSET || status == SGS_ILLEGAL_STATE;
}

/* Another append works, never twice at the same offset; or it is refused, where a sync or the way back has failed. */
static void check_append(failing_run *run, const failing_plan *plan, int64_t next_offset, sgs_status status)
{
    segment_kit *kit = &run->kit;
    EXPECT_TRUE(next_offset == 0 || is_refused(run, next_offset - 1));
    const sgs_status appended = segment_kit_append(kit, next_offset, 1, 10 * next_offset, FAILING_BATCH_BYTES);
    const bool may_refuse = status == SGS_FSYNC_FAILED || plan->all_calls || plan->second_nth > 0;
    EXPECT_TRUE(appended == SGS_OK || (appended == SGS_ILLEGAL_STATE && may_refuse));
    EXPECT_TRUE(is_refused(run, next_offset) || appended != SGS_OK);
    if (appended == SGS_OK)
        run->acked = run->next_least = next_offset + 1;
}

/* The handle that met the failure goes on. */
static void go_on(failing_run *run, const failing_plan *plan, sgs_status status)
{
    const bool kafka_profile = plan->scenario->kafka_profile;
    int64_t next_offset = 0;
    bool ends_clean = false;
    segment_kit *kit = &run->kit;
    check_reads(run, kafka_profile);
    EXPECT_OK(sgs_log_segment_read_next_offset(kit->segment, &next_offset, &ends_clean, &kit->err), &kit->err);
    EXPECT_TRUE(kafka_profile || next_offset >= (run->acked < run->next_least ? run->acked : run->next_least));
    EXPECT_TRUE(run->next_most < 0 || status != SGS_OK || next_offset <= run->next_most);
    if (!kafka_profile && !run->takes_no_appends)
        check_append(run, plan, next_offset, status);
    const sgs_status closed = sgs_log_segment_close(kit->segment, &kit->err);
    kit->segment = NULL;
    if (!kafka_profile) /* whose indexes may be full, or cut off */
        EXPECT_OK(closed, &kit->err);
}

/* Another handle finds what was acknowledged, and nothing to cut. */
static void open_again(failing_run *run, const failing_plan *plan)
{
    segment_kit *kit = &run->kit;
    const int64_t least = run->acked < run->next_least ? run->acked : run->next_least;
    kit->context.kafka_profile = false;
    kit->context.heap_indexes = false;
    kit->context.writable = true;
    const sgs_status opened = segment_kit_segment(kit, 0, false);
    if (opened != SGS_OK) {
        kit->segment = NULL;
        EXPECT_TRUE(opened == SGS_NOT_FOUND && least == 0);
        return;
    }
    for (int round = 0; round < 2; ++round) {
        sgs_scan_options options;
        sgs_recovery recovery = { .truncated_bytes = 0 };
        sgs_scan_options_default(&options, SGS_SCAN_FILE);
        options.check_order = options.contiguous = true;
        EXPECT_OK(sgs_log_segment_recover(kit->segment, &options, SGS_CUT_ANYWHERE, NULL, &recovery, &kit->err),
                  &kit->err);
        EXPECT_TRUE(recovery.scan.next_offset >= least && recovery.indexes_written);
        EXPECT_TRUE(recovery.truncated_bytes == 0 || round == 0);
        check_reads(run, plan->scenario->kafka_profile);
    }
    EXPECT_OK(sgs_log_segment_close(kit->segment, &kit->err), &kit->err);
    kit->segment = NULL;
}

static void finish(failing_run *run, const failing_plan *plan, sgs_status status)
{
    const sgs_error failed_with = run->kit.err;
    const int failures = test_failures;
    memory_env_heal(&run->kit.memory);
    run->kit.memory.on_call = NULL;
    EXPECT_TRUE(is_allowed(plan, status));
    EXPECT_TRUE(status == SGS_OK || (failed_with.status == status && failed_with.message[0] != '\0'));
    if (plan->scenario->is_repair && status != SGS_OK && status != SGS_FSYNC_FAILED && run->kit.segment != NULL)
        EXPECT_OK(plan->scenario->run(run), &run->kit.err);
    if (run->kit.segment != NULL && !run->is_gone && !(plan->scenario->is_repair && status == SGS_FSYNC_FAILED))
        go_on(run, plan, status);
    else if (run->kit.segment != NULL)
        sgs_log_segment_close_quietly(run->kit.segment);
    run->kit.segment = NULL;
    if (plan->scenario->tear_down != NULL)
        plan->scenario->tear_down(run);
    if (!run->is_gone)
        open_again(run, plan);
    segment_kit_close(&run->kit);
    sgs_sim_close(run->disk);
    if (test_failures > failures)
        (void)test_note(__FILE__, __LINE__, "%s: %s, call %d with %s%s%s%s: %s (%s)", plan->scenario->name,
                        plan->all_calls ? "every call" : memory_env_name(plan->call), (int)plan->nth,
                        failing_errno_name(plan->os_error), plan->for_ever ? " for ever" : "",
                        plan->second_nth > 0 ? ", then " : "",
                        plan->second_nth > 0 ? memory_env_name(plan->second_call) : "", sgs_status_name(status),
                        failed_with.message);
}

static void fail_call(memory_env *memory, memory_env_call call, int64_t nth, int os_error, bool for_ever)
{
    if (for_ever)
        memory_env_fail_always(memory, memory_env_name(call), nth, os_error);
    else
        memory_env_fail(memory, memory_env_name(call), nth, os_error);
}

static void run_with(const failing_plan *plan)
{
    failing_run run;
    ++runs;
    begin(&run, plan->scenario);
    if (plan->all_calls)
        memory_env_fail_all(&run.kit.memory, plan->nth, plan->os_error);
    else
        fail_call(&run.kit.memory, plan->call, plan->nth, plan->os_error, plan->for_ever);
    if (plan->second_nth > 0)
        fail_call(&run.kit.memory, plan->second_call, plan->second_nth, plan->second_os_error, plan->second_for_ever);
    calls_count = 0;
    run.kit.memory.on_call = note_call;
    finish(&run, plan, plan->scenario->run(&run));
}

/* ---- all of them ---- */

static void run_clean(const failing_scenario *scenario)
{
    failing_run run;
    const failing_plan nothing = { .scenario = scenario };
    begin(&run, scenario);
    calls_count = 0;
    run.kit.memory.on_call = note_call;
    const sgs_status status = scenario->run(&run);
    run.kit.memory.on_call = NULL;
    if (!EXPECT_OK(status, &run.kit.err))
        printf("    of %s\n", scenario->name);
    EXPECT_TRUE(calls_count > 0 && calls_count < CALLS_MAX);
    finish(&run, &nothing, status);
}

/* Calls that are made only behind the failure of another one: undoing, noting it. */
static void fail_behind(const failing_plan *first)
{
    static one_call made[CALLS_MAX];
    const size_t count = calls_count;
    int64_t counts[MEMORY_ENV_CALL_COUNT] = { 0 };
    memcpy(made, calls, count * sizeof *made);
    for (size_t at = 0; at < count; ++at) {
        const memory_env_call call = made[at].call;
        const int *errnos = failing_errnos(call);
        site *here = site_of(call, made[at].site);
        ++counts[call];
        if (here->failed[0] != 0)
            continue;
        for (int i = 0; errnos[i] != 0; ++i)
            for (int for_ever = 0; for_ever < 2; ++for_ever) {
                failing_plan both = *first;
                if (call == first->call) { /* one name has one plan: both fail */
                    both.os_error = errnos[i];
                    both.for_ever = true;
                } else {
                    both.second_call = call;
                    both.second_nth = counts[call];
                    both.second_os_error = errnos[i];
                    both.second_for_ever = for_ever == 1;
                }
                here->failed[for_ever] |= 1u << i;
                run_with(&both);
            }
    }
}

static void fail_here(const failing_scenario *scenario, site *here, int64_t nth)
{
    const int *errnos = failing_errnos(here->call);
    const bool is_new = here->visits == 0;
    for (int i = 0; errnos[i] != 0 && (is_new || i == 0); ++i)
        for (int for_ever = 0; for_ever < 2; ++for_ever) {
            const failing_plan plan = {
                .scenario = scenario,
                .call = here->call,
                .nth = nth,
                .os_error = errnos[i],
                .for_ever = for_ever == 1,
            };
            here->failed[for_ever] |= 1u << i;
            run_with(&plan);
            fail_behind(&plan);
        }
    ++here->visits;
}

void failing_calls_explore(const failing_scenario *scenario)
{
    static one_call made[CALLS_MAX];
    int64_t counts[MEMORY_ENV_CALL_COUNT] = { 0 };
    int64_t failable = 0;
    run_clean(scenario);
    const size_t count = calls_count;
    memcpy(made, calls, count * sizeof *made);
    for (size_t i = 0; i < count; ++i) /* first all of them: what none has is made behind a failure only */
        site_of(made[i].call, made[i].site)->visits = 0;
    for (size_t i = 0; i < count; ++i) {
        site *here = site_of(made[i].call, made[i].site);
        ++counts[here->call];
        failable += failing_errnos(here->call)[0] != 0 && here->call != MEMORY_ENV_allocate;
        if (here->visits < VISITS_OF_A_SITE)
            fail_here(scenario, here, counts[here->call]);
    }
    for (int64_t nth = 1; nth <= failable && nth <= ALL_FAIL_AT_MOST; ++nth) {
        const failing_plan plan = {
            .scenario = scenario,
            .nth = nth,
            .os_error = EIO,
            .for_ever = true,
            .all_calls = true,
        };
        run_with(&plan);
    }
}

void failing_calls_explore_memory(const char *name, sgs_status (*run)(sgs_memory memory, sgs_error *err))
{
    for (int for_ever = 0; for_ever < 2; ++for_ever) {
        for (int64_t nth = 1;; ++nth) {
            memory_env memory;
            sgs_error err = { .status = SGS_OK };
            const int failures = test_failures;
            memory_env_init(&memory, sgs_env_posix());
            if (for_ever == 1)
                memory_env_fail_always(&memory, "allocate", nth, ENOMEM);
            else
                memory_env_fail(&memory, "allocate", nth, ENOMEM);
            const sgs_status status = run(sgs_env_memory(&memory.env), &err);
            const bool reached = memory_env_calls(&memory, "allocate") >= nth;
            ++runs;
            EXPECT_TRUE(reached || nth > 1);
            EXPECT_TRUE(status == SGS_OK || (reached && status == SGS_RESOURCE && err.status == status));
            EXPECT_TRUE(memory_env_is_balanced(&memory));
            if (test_failures > failures)
                (void)test_note(__FILE__, __LINE__, "%s: allocation %d: %s (%s)", name, (int)nth,
                                sgs_status_name(status), err.message);
            if (!reached)
                break;
        }
    }
}

bool failing_calls_print(void)
{
    bool is_complete = true;
    for (int call = 0; call < MEMORY_ENV_CALL_COUNT; ++call) {
        const int *errnos = failing_errnos((memory_env_call)call);
        int places = 0;
        for (size_t i = 0; i < sites_count; ++i)
            places += (int)sites[i].call == call;
        if (places == 0 || errnos[0] == 0)
            continue;
        printf("%-15s %3d places failed, once and for ever:", memory_env_name((memory_env_call)call), places);
        for (int i = 0; errnos[i] != 0; ++i) {
            int once = 0;
            int for_ever = 0;
            for (size_t at = 0; at < sites_count; ++at) {
                if ((int)sites[at].call != call)
                    continue;
                once += (sites[at].failed[0] >> i & 1u) != 0;
                for_ever += (sites[at].failed[1] >> i & 1u) != 0;
            }
            printf("  %s %d %d", failing_errno_name(errnos[i]), once, for_ever);
            is_complete = is_complete && once == places && for_ever == places;
        }
        printf("\n");
    }
    printf("%" PRId64 " runs with a failure\n", runs);
    return is_complete;
}
