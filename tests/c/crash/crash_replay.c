/* crash_replay.c - a failure in words, the command that repeats it, and the repetition; see crash_explorer.h. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "crash_explorer.h"

static const char *const fates[] = { "lost", "kept", "seed", "killed" };

bool crash_parse(sgs_sim_crash *crash, const char *text)
{
    char fate[16];
    long long effects;
    unsigned long long seed = 0;
    if (sscanf(text, "%lld,%15[a-z],%llu", &effects, fate, &seed) < 2)
        return false;
    *crash = (sgs_sim_crash){ .effects = effects, .seed = seed };
    for (int i = 0; i < 4; ++i) {
        if (strcmp(fate, fates[i]) == 0) {
            crash->fate = (sgs_sim_fate)i;
            return true;
        }
    }
    return false;
}

static void print_fault(const crash_fault *fault)
{
    if (fault->promises_more)
        fprintf(stderr, " --promise-more");
    if (fault->without != SGS_BARRIER_COUNT)
        fprintf(stderr, " --without=%s", sgs_barrier_describe(fault->without).name);
}

/* ---- a failure ---- */

void crash_print_failure(const crash_plan *plan, const crash_failure *failure)
{
    char script[CRASH_TEXT_BYTES], settings[CRASH_TEXT_BYTES];
    fprintf(stderr, "\nFAILED  %s\nscript   %s\nsettings %s\n", failure->why,
            crash_script_text(failure->script, script), crash_settings_text(&failure->script->settings, settings));
    fprintf(stderr, "again    %s --settings=%s --script='%s'", plan->program, settings, script);
    if (failure->crash != NULL)
        fprintf(stderr, " --crash=%" PRId64 ",%s,%" PRIu64, failure->crash->effects, fates[failure->crash->fate],
                failure->crash->seed);
    print_fault(&plan->fault);
    fprintf(stderr, "\n");
}

/* ---- once more, in all detail ---- */

static void print_effects(const crash_run *run, int64_t crash_at, const sgs_buffer *ignored)
{
    const int64_t *const numbers = (const int64_t *)(const void *)ignored->data;
    size_t step = 0, next_ignored = 0;
    for (int64_t number = 1; number <= sgs_sim_effects(run->disk); ++number) {
        const sgs_sim_event event = sgs_sim_event_of(run->disk, number);
        for (; step < run->steps_count && run->steps[step].begin < number; ++step) {
            const crash_script one = { .operations = { run->steps[step].operation }, .count = 1 };
            char text[CRASH_TEXT_BYTES];
            printf("%s\n", crash_script_text(&one, text));
        }
        const bool is_ignored =
            next_ignored < ignored->size / sizeof *numbers && numbers[next_ignored] == number && ++next_ignored > 0;
        printf("%6" PRId64 "  %-14s %s%s%s  %" PRId64 " +%" PRId64 "  %s%s\n", number, sgs_sim_call_name(event.call),
               event.name, event.to[0] != '\0' ? " -> " : "", event.to, event.position, event.bytes_count,
               event.barrier == SGS_BARRIER_COUNT ? "" : sgs_barrier_describe(event.barrier).name,
               is_ignored ? " (did nothing)" : "");
        if (number == crash_at)
            printf("------  crash\n");
    }
}

typedef struct file_list {
    const sgs_env *env;
    int fd;
} file_list;

static sgs_status print_file(void *context, const char *name, sgs_error *err)
{
    const file_list *const files = context;
    sgs_file_info info;
    SGS_TRY(files->env->file_info_at(files->env, files->fd, name, &info, err));
    printf("        %s  %" PRId64 "\n", name, info.size);
    return SGS_OK;
}

static void print_files(const sgs_sim_disk *image)
{
    file_list files = { sgs_sim_env(image), 0 };
    sgs_error err;
    printf("what the next process finds:\n");
    if (files.env->open_directory(files.env, SGS_CWD, "log", &files.fd, &err) != SGS_OK)
        return;
    (void)files.env->list_directory(files.env, files.fd, print_file, &files, &err);
    (void)files.env->close(files.env, files.fd, "log", &err);
}

static bool replay_image(crash_checker *checker, const crash_run *run, const sgs_sim_crash *crash)
{
    sgs_sim_disk *const image = crash_image_of(checker, run, crash);
    if (image == NULL)
        return false;
    print_files(image);
    static crash_expectation expected; /* too large for the stack */
    crash_expect(&expected, run, crash);
    const bool is_good = crash_check_image(checker, &expected, image, true);
    sgs_sim_close(image);
    return is_good;
}

bool crash_replay(const crash_plan *plan, const crash_script *script, const sgs_sim_crash *crash)
{
    static crash_run run; /* too large for the stack */
    crash_checker checker;
    sgs_buffer ignored;
    sgs_error err;
    const sgs_env *const base = sgs_env_posix();
    crash_checker_init(&checker, base);
    sgs_buffer_init(&ignored, sgs_env_memory(base));
    bool is_good = crash_run_script(&run, script, base);
    const char *why = run.why;
    crash_fault_promise(&plan->fault, &run);
    if (is_good && crash_fault_numbers(&plan->fault, run.disk, &ignored, &err) == SGS_OK) {
        sgs_sim_crash wanted = *crash;
        wanted.ignored = (const int64_t *)(const void *)ignored.data;
        wanted.ignored_count = ignored.size / sizeof *wanted.ignored;
        print_effects(&run, wanted.effects, &ignored);
        is_good = replay_image(&checker, &run, &wanted);
        why = checker.why;
    } else {
        print_effects(&run, -1, &ignored);
    }
    printf("%s\n", is_good ? "nothing was lost or changed" : why);
    crash_run_end(&run);
    sgs_buffer_deinit(&ignored);
    crash_checker_deinit(&checker);
    return is_good;
}
