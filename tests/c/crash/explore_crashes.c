/* explore_crashes.c - crash images of small logs over the core, in millions and without Python [DUR-112, DUR-116].
 *
 *   explore_crashes [--images=N] [--jobs=N] [--length=N] [--seeds=N] [--first-seed=N] [--seconds=N]
 *   explore_crashes --settings=TEXT --script=TEXT --crash=EFFECTS,FATE,SEED    one image again, in all detail
 *   --without=BARRIER, --promise-more    faults that must be found
 *
 * Exit status 1 is a finding, 2 a wrong option, 130 an interrupt: what was explored so far has been told then. */
#define _GNU_SOURCE
#include <inttypes.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "crash_explorer.h"

enum { PROGRESS_SECONDS = 5, JOBS_MAX = 256, NANOSECONDS_A_POLL = 50000000, KEPT_BYTES = 1 << 28 };

typedef struct options {
    crash_plan plan;
    double seconds; /* at most */
    const char *settings, *script, *crash;
} options;

static crash_counts *the_counts; /* for the handler */
static volatile sig_atomic_t was_interrupted;

static void interrupt(int signal_number)
{
    (void)signal_number;
    was_interrupted = 1;
    atomic_store(&the_counts->is_over, true);
}

static double now(void)
{
    struct timespec time;
    (void)clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* ---- options ---- */

static const char *value_of(const char *argument, const char *name)
{
    const size_t size = strlen(name);
    return strncmp(argument, name, size) == 0 && argument[size] == '=' ? argument + size + 1 : NULL;
}

static bool parse_option(options *chosen, const char *argument)
{
    crash_plan *const plan = &chosen->plan;
    const char *value;
    if (crash_fault_parse(&plan->fault, argument))
        return true;
    if ((value = value_of(argument, "--settings")) != NULL)
        return (chosen->settings = value) != NULL;
    if ((value = value_of(argument, "--script")) != NULL)
        return (chosen->script = value) != NULL;
    if ((value = value_of(argument, "--crash")) != NULL)
        return (chosen->crash = value) != NULL;
    if ((value = value_of(argument, "--images")) != NULL)
        return (plan->images_wanted = strtoull(value, NULL, 10)) > 0;
    if ((value = value_of(argument, "--jobs")) != NULL)
        return (plan->jobs = (unsigned)strtoul(value, NULL, 10)) > 0 && plan->jobs <= JOBS_MAX;
    if ((value = value_of(argument, "--length")) != NULL)
        return (plan->length = atoi(value)) >= 0 && plan->length <= 4;
    if ((value = value_of(argument, "--seeds")) != NULL)
        return (plan->seeds = atoi(value)) >= 0 && plan->seeds < 1000;
    if ((value = value_of(argument, "--first-seed")) != NULL)
        return (plan->first_seed = strtoull(value, NULL, 10)) < UINT64_MAX;
    if ((value = value_of(argument, "--seconds")) != NULL)
        return (chosen->seconds = strtod(value, NULL)) > 0;
    return false;
}

/* ---- progress ---- */

static void print_counts(const crash_counts *counts, double seconds)
{
    const uint64_t images = atomic_load(&counts->images);
    fprintf(stderr,
            "%" PRIu64 " crash images, %" PRIu64 " distinct, %" PRIu64 " looked at in every way; %" PRIu64
            " scripts, %" PRIu64 " of them by seed; %.1f s, %.0f images/s\n",
            images, atomic_load(&counts->distinct), atomic_load(&counts->thorough), atomic_load(&counts->scripts),
            atomic_load(&counts->seeds), seconds, seconds > 0 ? (double)images / seconds : 0);
}

/* @return how many workers ended well */
static unsigned watch(const options *chosen, crash_counts *counts, unsigned workers)
{
    const double begin = now();
    double told = begin;
    unsigned good = 0;
    while (workers > 0) {
        int status;
        const pid_t ended = waitpid(-1, &status, WNOHANG);
        if (ended > 0) {
            --workers;
            if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
                ++good;
            else
                atomic_store(&counts->is_over, true);
            continue;
        }
        const struct timespec pause = { .tv_nsec = NANOSECONDS_A_POLL };
        (void)nanosleep(&pause, NULL);
        if (now() - begin > chosen->seconds)
            atomic_store(&counts->is_over, true);
        if (now() - told >= PROGRESS_SECONDS) {
            told = now();
            print_counts(counts, told - begin);
        }
    }
    print_counts(counts, now() - begin);
    return good;
}

/* ---- all of it ---- */

static int explore(const options *chosen)
{
    image_set seen;
    crash_counts *const counts = mmap(NULL, sizeof *counts, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    /* the scripts that come first may give more than was asked for */
    if (counts == MAP_FAILED || !image_set_open(&seen, (size_t)chosen->plan.images_wanted + 4000000)) {
        fprintf(stderr, "no memory to remember %" PRIu64 " images\n", chosen->plan.images_wanted);
        return 2;
    }
    the_counts = counts;
    const struct sigaction on_interrupt = { .sa_handler = interrupt };
    (void)sigaction(SIGINT, &on_interrupt, NULL);
    (void)sigaction(SIGTERM, &on_interrupt, NULL);
    /* A disk a script and one an image: memory goes back to the system only in the end, or most time goes there. */
    (void)mallopt(M_TRIM_THRESHOLD, KEPT_BYTES);
    (void)mallopt(M_MMAP_THRESHOLD, KEPT_BYTES);
    unsigned started = 0;
    for (unsigned worker = 0; worker < chosen->plan.jobs; ++worker) {
        const pid_t child = fork();
        if (child == 0)
            _exit(crash_explore(&chosen->plan, worker, counts, &seen) ? 0 : 1);
        started += child > 0;
    }
    const unsigned good = watch(chosen, counts, started);
    const bool is_good = good == chosen->plan.jobs && !atomic_load(&counts->has_failed);
    if (!is_good && !atomic_load(&counts->has_failed))
        fprintf(stderr, "a worker died\n");
    image_set_close(&seen);
    return !is_good ? 1 : was_interrupted ? 130 : 0;
}

static int replay(const options *chosen)
{
    static crash_script script;
    sgs_sim_crash crash = { .effects = -1, .fate = SGS_SIM_ALL_LOST };
    if (chosen->settings == NULL || chosen->script == NULL ||
        !crash_settings_parse(&script.settings, chosen->settings) || !crash_script_parse(&script, chosen->script) ||
        (chosen->crash != NULL && !crash_parse(&crash, chosen->crash))) {
        fprintf(stderr, "--settings, --script and --crash are taken as a failure prints them\n");
        return 2;
    }
    return crash_replay(&chosen->plan, &script, &crash) ? 0 : 1;
}

int main(int count, char **arguments)
{
    options chosen = { .seconds = 1e9,
                       .plan = { .images_wanted = 300000,
                                 .length = 3,
                                 .seeds = 3,
                                 .first_seed = 1,
                                 .jobs = 1,
                                 .program = arguments[0],
                                 .fault.without = SGS_BARRIER_COUNT } };
    for (int i = 1; i < count; ++i) {
        if (!parse_option(&chosen, arguments[i])) {
            fprintf(stderr, "%s: what does %s mean?\n", arguments[0], arguments[i]);
            return 2;
        }
    }
    return chosen.script != NULL || chosen.settings != NULL ? replay(&chosen) : explore(&chosen);
}
