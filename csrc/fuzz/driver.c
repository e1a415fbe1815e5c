/* driver.c - main() of a fuzz target, for any compiler: replays inputs, then mutates them.
 *
 *     fuzz_varint [options] file-or-directory...
 *         -runs=N -seed=S             N mutated inputs after the replay, the same ones for the same seed and corpus
 *         -time=SECONDS               stop after so long (alone: mutate until then)
 *         -max_len=L                  longest input, default 4096 or the longest of the corpus
 *         -timeout=SECONDS            one execution may take so long, default 10
 *         -artifact_prefix=P          where crash-<target> is written, default the working directory
 *         -save=DIRECTORY             keep there each mutated input that reached new code
 *         -keep=DIRECTORY             keep there each given input that reached a place which none before it did: a
 *                                     smaller corpus. Files are taken in the order in which they are named
 *
 * The input that kills the target is written to crash-<target> when it dies: by an abort, a sanitizer, a signal, or by
 * taking too long. With -fsanitize-coverage=trace-pc (gcc and clang) an input that reaches new code joins the corpus in
 * memory; without it only the given corpus is mutated. */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "fuzz/corpus.h"
#include "fuzz/fuzz_input.h"

typedef struct options {
    uint64_t runs, seed;
    size_t max_len;
    double seconds;
    int timeout;
    const char *artifact_prefix, *save, *keep;
} options;

enum { COVERAGE_SLOTS = 1 << 16, FILE_LIMIT = 16 << 20, DEFAULT_LONGEST = 4096 };

static const char *target = "fuzz";
static options chosen = { .seed = 1, .timeout = 10, .artifact_prefix = "" };

static const fuzz_sample *volatile running; /* what the target is given right now */
static volatile uint64_t executions;

__attribute__((weak)) size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed);
__attribute__((weak)) void __sanitizer_set_death_callback(void (*callback)(void));
void __sanitizer_cov_trace_pc(void);
const char *__ubsan_default_options(void);
const char *__asan_default_options(void);

/* ---- coverage: pairs of instrumented places that followed each other, and how often in powers of two ---- */

static uint8_t hits[COVERAGE_SLOTS], classes_seen[COVERAGE_SLOTS];
static uint16_t touched[COVERAGE_SLOTS];
static size_t touched_count, covered_count;
static uintptr_t previous_place;

/* Called at every branch of the target: watched itself, it took a third of the time. */
#if defined(__GNUC__)
#define UNWATCHED __attribute__((no_sanitize("address"), no_sanitize("undefined")))
#else
#define UNWATCHED
#endif

UNWATCHED void __sanitizer_cov_trace_pc(void)
{
    /* relative to this program, which is loaded elsewhere each time */
    const uintptr_t place = (uintptr_t)__builtin_return_address(0) - (uintptr_t)&__sanitizer_cov_trace_pc;
    const uintptr_t hash = place * 0x9E3779B1U >> 5;
    const uint16_t slot = (uint16_t)(hash ^ previous_place);
    previous_place = hash >> 1;
    if (hits[slot] == 0)
        touched[touched_count++] = slot;
    if (hits[slot] < UINT8_MAX)
        ++hits[slot];
}

UNWATCHED static bool reached_something_new(void)
{
    bool is_new = false;
    for (size_t i = 0; i < touched_count; ++i) {
        const uint16_t slot = touched[i];
        unsigned class = 0;
        while (hits[slot] >> class > 1)
            ++class;
        const uint8_t bit = (uint8_t)(1U << class);
        covered_count += classes_seen[slot] == 0;
        is_new = is_new || (classes_seen[slot] & bit) == 0;
        classes_seen[slot] |= bit;
        hits[slot] = 0;
    }
    touched_count = 0;
    previous_place = 0;
    return is_new;
}

/* ---- the input that kills ---- */

static void write_file(const char *path, const fuzz_sample *input)
{
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    size_t done = 0;
    while (fd >= 0 && done < input->size) {
        const ssize_t written = write(fd, input->data + done, input->size - done);
        if (written <= 0)
            break;
        done += (size_t)written;
    }
    if (fd < 0 || done < input->size || close(fd) != 0)
        perror(path);
}

static void note_death(void)
{
    const fuzz_sample *input = running;
    running = NULL; /* an abort() within a sanitizer's death comes here twice */
    if (input == NULL)
        return;
    char path[1024];
    (void)snprintf(path, sizeof path, "%scrash-%s", chosen.artifact_prefix, target);
    write_file(path, input);
    (void)fprintf(stderr, "%s: died in execution %" PRIu64 " (seed %" PRIu64 "); input of %zu bytes written to %s\n",
                  target, executions, chosen.seed, input->size, path);
}

static void on_signal(int number)
{
    note_death();
    (void)signal(number, SIG_DFL);
    (void)raise(number);
}

static void on_tick(int number)
{
    static uint64_t last;
    static int ticks;
    (void)number;
    ticks = last == executions && running != NULL ? ticks + 1 : 0;
    last = executions;
    if (ticks >= chosen.timeout) {
        (void)fprintf(stderr, "%s: no end after %d seconds\n", target, chosen.timeout);
        abort();
    }
    (void)alarm(1);
}

/* UBSan has no callback beside ASan's: let it abort, which is caught. */
const char *__ubsan_default_options(void) { return "abort_on_error=1:print_stacktrace=1"; }

/* What is freed is kept for a while, to catch who uses it: 256 MiB of it would be fresh pages in each execution. */
const char *__asan_default_options(void) { return "quarantine_size_mb=8:malloc_context_size=6"; }

static void catch_deaths(void)
{
    static const int always[] = { SIGABRT };
    static const int without_sanitizer[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL };
    for (size_t i = 0; i < sizeof always / sizeof always[0]; ++i)
        (void)signal(always[i], on_signal);
    if (__sanitizer_set_death_callback != NULL)
        __sanitizer_set_death_callback(note_death); /* its own handlers say more than ours */
    else
        for (size_t i = 0; i < sizeof without_sanitizer / sizeof without_sanitizer[0]; ++i)
            (void)signal(without_sanitizer[i], on_signal);
    (void)signal(SIGALRM, on_tick);
    (void)alarm(1);
}

/* ---- running ---- */

/* @return whether it reached code that no input before reached */
static bool execute(const uint8_t *data, size_t size)
{
    const fuzz_sample exact = { fuzz_grown(NULL, size),
                                size }; /* a block of exactly this size: the byte behind it is watched */
    memcpy(exact.data, data, size);
    ++executions;
    running = &exact;
    (void)LLVMFuzzerTestOneInput(exact.data, exact.size);
    running = NULL;
    free(exact.data);
    return reached_something_new();
}

static void save(const char *directory, const uint8_t *data, size_t size)
{
    uint64_t hash = 0xCBF29CE484222325U;
    for (size_t i = 0; i < size; ++i)
        hash = (hash ^ data[i]) * 0x100000001B3U;
    char path[1024];
    (void)snprintf(path, sizeof path, "%s/%016" PRIx64, directory, hash);
    const fuzz_sample input = { (uint8_t *)(uintptr_t)data, size };
    write_file(path, &input);
}

static void replay_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        fuzz_give_up(path);
    uint8_t *data = fuzz_grown(NULL, FILE_LIMIT);
    const size_t size = fread(data, 1, FILE_LIMIT, file);
    if (ferror(file) != 0)
        fuzz_give_up(path);
    (void)fclose(file);
    (void)fuzz_corpus_keep(data, size);
    const size_t covered_before = covered_count;
    (void)execute(data, size);
    if (chosen.keep != NULL && covered_count > covered_before)
        save(chosen.keep, data, size);
    free(data);
}

static void replay(const char *path)
{
    struct stat found;
    if (stat(path, &found) != 0)
        fuzz_give_up(path);
    if (!S_ISDIR(found.st_mode)) {
        replay_file(path);
        return;
    }
    struct dirent **names;
    const int count = scandir(path, &names, NULL, alphasort); /* sorted: a seed means the same everywhere */
    if (count < 0)
        fuzz_give_up(path);
    for (int i = 0; i < count; ++i) {
        char name[1024];
        (void)snprintf(name, sizeof name, "%s/%s", path, names[i]->d_name);
        if (stat(name, &found) == 0 && S_ISREG(found.st_mode))
            replay_file(name);
        free(names[i]);
    }
    free(names);
}

static double seconds_now(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void mutate_and_run(double start)
{
    size_t longest = chosen.max_len;
    if (chosen.max_len == 0)
        longest = fuzz_corpus_longest() > DEFAULT_LONGEST ? fuzz_corpus_longest() : DEFAULT_LONGEST;
    if (fuzz_corpus_count() == 0)
        (void)fuzz_corpus_keep((const uint8_t *)"", 0);
    uint8_t *data = fuzz_grown(NULL, longest);
    fuzz_corpus_start(chosen.seed);
    for (uint64_t run = 0; chosen.runs == 0 || run < chosen.runs; ++run) {
        if (chosen.seconds > 0 && run % 64 == 0 && seconds_now() - start >= chosen.seconds)
            break;
        const fuzz_sample *parent = fuzz_corpus_pick();
        size_t size = parent->size < longest ? parent->size : longest;
        memcpy(data, parent->data, size);
        if (LLVMFuzzerCustomMutator != NULL)
            size = LLVMFuzzerCustomMutator(data, size, longest, fuzz_corpus_seed());
        else
            size = LLVMFuzzerMutate(data, size, longest);
        if (execute(data, size) && fuzz_corpus_keep(data, size) && chosen.save != NULL)
            save(chosen.save, data, size);
    }
    free(data);
}

static bool is_option(const char *word, const char *name, const char **value)
{
    const size_t size = strlen(name);
    if (strncmp(word, name, size) != 0)
        return false;
    *value = word + size;
    return true;
}

static void take_option(const char *word)
{
    const char *value;
    if (is_option(word, "-runs=", &value))
        chosen.runs = strtoull(value, NULL, 10);
    else if (is_option(word, "-seed=", &value))
        chosen.seed = strtoull(value, NULL, 10);
    else if (is_option(word, "-max_len=", &value))
        chosen.max_len = (size_t)strtoull(value, NULL, 10);
    else if (is_option(word, "-time=", &value))
        chosen.seconds = strtod(value, NULL);
    else if (is_option(word, "-timeout=", &value))
        chosen.timeout = (int)strtol(value, NULL, 10);
    else if (is_option(word, "-artifact_prefix=", &value))
        chosen.artifact_prefix = value;
    else if (is_option(word, "-save=", &value))
        chosen.save = value;
    else if (is_option(word, "-keep=", &value))
        chosen.keep = value;
    else {
        (void)fprintf(stderr, "%s: unknown option %s; see csrc/fuzz/driver.c\n", target, word);
        exit(2);
    }
}

int main(int count, char **words)
{
    const double start = seconds_now();
    const char *slash = strrchr(words[0], '/');
    target = slash != NULL ? slash + 1 : words[0];
    target = strncmp(target, "fuzz_", 5) == 0 ? target + 5 : target;
    for (int i = 1; i < count; ++i)
        if (words[i][0] == '-')
            take_option(words[i]);
    catch_deaths();
    for (int i = 1; i < count; ++i)
        if (words[i][0] != '-')
            replay(words[i]);
    const size_t given = fuzz_corpus_count();
    if (chosen.runs > 0 || chosen.seconds > 0)
        mutate_and_run(start);
    (void)printf("%-20s %" PRIu64 " executions, %zu inputs given, %zu found, coverage %zu, seed %" PRIu64 ", %.1f s\n",
                 target, executions, given, fuzz_corpus_count() - given, covered_count, chosen.seed,
                 seconds_now() - start);
    fuzz_corpus_free();
    return 0;
}
