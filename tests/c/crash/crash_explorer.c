/* crash_explorer.c - see crash_explorer.h.
 *
 * Scripts of up to three operations come first, all of them: each with every crash within its last operation, since what comes
 * before is a shorter script's. Then scripts by chance, each with crashes by chance. An image that is the same as one before
 * it in the same run, with the same promises, is not looked at again. */
#include "crash_explorer.h"

#include <stdio.h>
#include <string.h>

enum { CRASHES_A_SEED = 48, RUN_SET_SLOTS = 2048, THOROUGH_ONE_IN = 32 };

typedef struct explorer {
    const crash_plan *plan;
    crash_counts *counts;
    image_set *seen;
    crash_checker checker;
    crash_run run;
    crash_script script;
    crash_expectation expected;
    sgs_buffer ignored; /* int64_t each: what the fault takes out of the run */
    uint64_t run_set[RUN_SET_SLOTS];
    size_t run_set_count;
} explorer;

static bool is_over(const explorer *self) { return atomic_load_explicit(&self->counts->is_over, memory_order_relaxed); }

static void count(_Atomic uint64_t *counter) { atomic_fetch_add_explicit(counter, 1, memory_order_relaxed); }

static void note_failure(explorer *self, const sgs_sim_crash *crash, const char *why)
{
    const crash_failure failure = { &self->script, crash, why };
    if (!atomic_exchange(&self->counts->has_failed, true)) /* one is enough */
        crash_print_failure(self->plan, &failure);
    atomic_store(&self->counts->is_over, true);
}

/* ---- images ---- */

/* Which promises hold at a crash: the step that it falls into, and whether that has begun. */
static uint64_t promises_at(const crash_run *run, int64_t effects)
{
    size_t i = 0;
    while (i < run->steps_count && run->steps[i].end <= effects)
        ++i;
    return 2 * i + (i < run->steps_count && run->steps[i].begin < effects);
}

static bool is_new_in_run(explorer *self, uint64_t key)
{
    if (self->run_set_count > RUN_SET_SLOTS / 2)
        return true; /* looked at once more: that costs time only */
    size_t at = (size_t)(key % RUN_SET_SLOTS);
    while (self->run_set[at] != 0 && self->run_set[at] != key)
        at = (at + 1) % RUN_SET_SLOTS;
    if (self->run_set[at] == key)
        return false;
    self->run_set[at] = key;
    ++self->run_set_count;
    return true;
}

static bool look_at(explorer *self, int64_t effects, sgs_sim_fate fate, uint64_t seed)
{
    const sgs_sim_crash crash = { .effects = effects,
                                  .fate = fate,
                                  .seed = seed,
                                  .ignored = (const int64_t *)(const void *)self->ignored.data,
                                  .ignored_count = self->ignored.size / sizeof(int64_t) };
    sgs_sim_disk *const image = crash_image_of(&self->checker, &self->run, &crash);
    if (image == NULL) {
        note_failure(self, &crash, self->checker.why);
        return false;
    }
    const uint64_t digest = sgs_sim_digest(image);
    count(&self->counts->images);
    if (image_set_add(self->seen, digest))
        count(&self->counts->distinct);
    uint64_t key = digest ^ promises_at(&self->run, effects);
    if (fate == SGS_SIM_KILLED) /* the same to a reader, but much of it is not on the disk */
        key ^= ~(uint64_t)effects << 32;
    bool is_good = true;
    if (is_new_in_run(self, crash_draw(&key))) {
        const bool thoroughly = (key + self->plan->first_seed) % THOROUGH_ONE_IN == 0; /* others with each first seed */
        if (thoroughly)
            count(&self->counts->thorough);
        crash_expect(&self->expected, &self->run, &crash);
        is_good = crash_check_image(&self->checker, &self->expected, image, thoroughly);
    }
    sgs_sim_close(image);
    if (!is_good)
        note_failure(self, &crash, self->checker.why);
    return is_good;
}

/* ---- runs ---- */

static bool begin_run(explorer *self)
{
    sgs_error err;
    memset(self->run_set, 0, sizeof self->run_set);
    self->run_set_count = 0;
    sgs_buffer_clear(&self->ignored);
    bool is_good = crash_run_script(&self->run, &self->script, self->checker.base);
    if (!is_good)
        note_failure(self, NULL, self->run.why);
    else
        crash_fault_promise(&self->plan->fault, &self->run);
    if (is_good && crash_fault_numbers(&self->plan->fault, self->run.disk, &self->ignored, &err) != SGS_OK) {
        note_failure(self, NULL, err.message);
        is_good = false;
    }
    count(&self->counts->scripts);
    return is_good;
}

/* Every crash within the last operation. */
static void explore_last_step(explorer *self, uint64_t number)
{
    if (begin_run(self)) {
        const crash_step *const last = &self->run.steps[self->run.steps_count - 1];
        bool is_good = true;
        for (int64_t effects = last->begin + 1; is_good && !is_over(self) && effects <= last->end; ++effects) {
            is_good = look_at(self, effects, SGS_SIM_ALL_LOST, 0) && look_at(self, effects, SGS_SIM_ALL_KEPT, 0) &&
                      look_at(self, effects, SGS_SIM_KILLED, 0);
            for (int seed = 0; is_good && seed < self->plan->seeds; ++seed)
                is_good = look_at(self, effects, SGS_SIM_BY_SEED, number * 1000 + (uint64_t)seed);
        }
    }
    crash_run_end(&self->run);
}

static void explore_seed(explorer *self, uint64_t seed)
{
    uint64_t random = ~seed;
    crash_script_of_seed(&self->script, seed);
    if (begin_run(self)) {
        const uint64_t points = (uint64_t)sgs_sim_effects(self->run.disk) + 1;
        bool is_good = true;
        for (int i = 0; is_good && !is_over(self) && i < CRASHES_A_SEED; ++i) {
            static const sgs_sim_fate fates[] = { SGS_SIM_ALL_LOST, SGS_SIM_KILLED,  SGS_SIM_BY_SEED, SGS_SIM_BY_SEED,
                                                  SGS_SIM_BY_SEED,  SGS_SIM_BY_SEED, SGS_SIM_BY_SEED, SGS_SIM_BY_SEED };
            const int64_t effects = (int64_t)(crash_draw(&random) % points);
            const sgs_sim_fate fate = fates[crash_draw(&random) % (sizeof fates / sizeof fates[0])];
            is_good = look_at(self, effects, fate, crash_draw(&random));
        }
    }
    crash_run_end(&self->run);
}

static bool has_enough(const explorer *self)
{
    return atomic_load_explicit(&self->counts->distinct, memory_order_relaxed) >= self->plan->images_wanted;
}

static void explore_all_short_scripts(explorer *self, unsigned worker)
{
    size_t scripts = 1;
    uint64_t number = 0;
    for (int length = 1; length <= self->plan->length; ++length) {
        scripts *= crash_alphabet_count();
        for (size_t i = 0; i < scripts * crash_settings_count() && !is_over(self); ++i, ++number) {
            if (number % self->plan->jobs != worker)
                continue;
            crash_script_of_number(&self->script, i / scripts, length, i % scripts);
            explore_last_step(self, number);
        }
    }
}

bool crash_explore(const crash_plan *plan, unsigned worker, crash_counts *counts, image_set *seen)
{
    static explorer the; /* too large for the stack */
    the = (explorer){ .plan = plan, .counts = counts, .seen = seen };
    const sgs_env *const base = sgs_env_posix();
    crash_checker_init(&the.checker, base);
    sgs_buffer_init(&the.ignored, sgs_env_memory(base));
    explore_all_short_scripts(&the, worker);
    for (uint64_t seed = plan->first_seed + worker; !is_over(&the) && !has_enough(&the); seed += plan->jobs) {
        explore_seed(&the, seed);
        count(&counts->seeds);
    }
    sgs_buffer_deinit(&the.ignored);
    crash_checker_deinit(&the.checker);
    return !atomic_load(&counts->has_failed);
}
