/* Appends, rolls, truncations, deletions, syncs and closes, in any order, while calls fail once or for ever, memory is not
 * given, the disk is full or the power goes: what was acknowledged is there, nothing else is, and a fault is never taken for
 * damage. [DUR-1..DUR-6, DUR-30..DUR-38, DUR-53, DUR-56, DUR-111, DUR-112]
 * INPUT   tests/c/crash/fault_script.h.   ORACLE  crash_model.c, by fault_run.c, over the same small log as crash images. */
#include <string.h>

#include "crash/fault_run.h"
#include "fuzz/fuzz_input.h"
#include "fuzz/mutate.h"
#include "fuzz/scratch_env.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static fault_script script; /* both too large for the stack */
    static fault_run run;
    fault_script_decode(&script, data, size);
    const char *const planted = getenv("FUZZ_PLANTED"); /* a fault that must be found: tests/c/check_planted.sh */
    run.planted = (crash_fault){ .without = SGS_BARRIER_COUNT };
    FUZZ_CHECK(planted == NULL || crash_fault_parse(&run.planted, planted));
    if (!fault_run_script(&run, &script, scratch_env())) {
        fault_script_print(&script, stderr);
        (void)fprintf(stderr, "%s\n", run.why);
        abort();
    }
    return 0;
}

/* ---- steps in, out, twice and elsewhere ---- */

static size_t step_count(size_t size)
{
    const size_t count = size < FAULT_HEAD_BYTES ? 0 : (size - FAULT_HEAD_BYTES) / FAULT_STEP_BYTES;
    return count < FAULT_STEPS_MAX ? count : FAULT_STEPS_MAX;
}

static uint8_t *step_at(uint8_t *data, size_t number) { return data + FAULT_HEAD_BYTES + number * FAULT_STEP_BYTES; }

static void draw_step(fuzz_random *random, uint8_t step[FAULT_STEP_BYTES])
{
    for (int i = 0; i < FAULT_STEP_BYTES; ++i)
        step[i] = (uint8_t)fuzz_random_below(random, 256);
    if (fuzz_random_below(random, 2) == 0) /* soon, and near the beginning */
        step[2] %= 8;
    if (fuzz_random_below(random, 2) == 0)
        step[1] %= 16;
}

static size_t insert_step(uint8_t *data, size_t count, size_t at, const uint8_t step[FAULT_STEP_BYTES])
{
    if (count == FAULT_STEPS_MAX)
        return count;
    memmove(step_at(data, at + 1), step_at(data, at), (count - at) * FAULT_STEP_BYTES);
    memcpy(step_at(data, at), step, FAULT_STEP_BYTES);
    return count + 1;
}

static size_t remove_step(uint8_t *data, size_t count, size_t at)
{
    memmove(step_at(data, at), step_at(data, at + 1), (count - at - 1) * FAULT_STEP_BYTES);
    return count - 1;
}

static size_t change_steps(fuzz_random *random, uint8_t *data, size_t count)
{
    uint8_t step[FAULT_STEP_BYTES];
    const size_t at = fuzz_random_below(random, count + 1), other = fuzz_random_below(random, count + 1);
    draw_step(random, step);
    switch (fuzz_random_below(random, 8)) {
    case 0:
        data[fuzz_random_below(random, FAULT_HEAD_BYTES)] = step[0];
        return count;
    case 1:
    case 2:
        return insert_step(data, count, at, step);
    case 3:
        return at < count ? remove_step(data, count, at) : count;
    case 4: /* twice */
        if (other == count)
            return count;
        memcpy(step, step_at(data, other), FAULT_STEP_BYTES);
        return insert_step(data, count, at, step);
    case 5: /* elsewhere */
        if (at == count || other == count)
            return count;
        memcpy(step, step_at(data, at), FAULT_STEP_BYTES);
        memcpy(step_at(data, at), step_at(data, other), FAULT_STEP_BYTES);
        memcpy(step_at(data, other), step, FAULT_STEP_BYTES);
        return count;
    default: /* another argument */
        if (at < count) {
            const size_t which = fuzz_random_below(random, FAULT_STEP_BYTES);
            uint8_t *const byte = step_at(data, at) + which;
            *byte =
                fuzz_random_below(random, 2) == 0 ? step[which] : (uint8_t)(*byte + fuzz_random_below(random, 5) - 2);
        }
        return count;
    }
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    fuzz_random random = { seed };
    if (max_size < FAULT_HEAD_BYTES + FAULT_STEPS_MAX * FAULT_STEP_BYTES || fuzz_random_below(&random, 8) == 0)
        return LLVMFuzzerMutate(data, size, max_size); /* pieces of other inputs, too */
    if (size < FAULT_HEAD_BYTES) {
        memset(data + size, 0, FAULT_HEAD_BYTES - size);
        size = FAULT_HEAD_BYTES;
    }
    size_t count = step_count(size);
    for (size_t left = (size_t)1 << fuzz_random_below(&random, 4); left > 0; --left)
        count = change_steps(&random, data, count);
    return FAULT_HEAD_BYTES + count * FAULT_STEP_BYTES;
}
