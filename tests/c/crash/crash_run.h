/* crash_run.h - a script, run to its end on a disk that remembers every effect, and what was promised behind each. */
#ifndef SGS_TEST_CRASH_CRASH_RUN_H
#define SGS_TEST_CRASH_CRASH_RUN_H

#include "crash_model.h"
#include "io/env_sim.h"

enum { CRASH_BATCHES_BYTES = 64 << 10, CRASH_WHY_BYTES = 1024 };

typedef struct crash_step { /* what came before and behind an operation, counted in effects */
    crash_operation operation;
    model_state before;
    int64_t begin, end;
    model_batch appended;
} crash_step;

typedef struct crash_run {
    const crash_script *script;
    sgs_sim_disk *disk;
    small_log log; /* open while the script runs */
    crash_step steps[CRASH_OPERATIONS_MAX];
    size_t steps_count;
    model_state state; /* behind the last step */
    int32_t epoch;
    uint8_t batches[CRASH_BATCHES_BYTES]; /* of all appends */
    size_t batches_size;
    char why[CRASH_WHY_BYTES]; /* what went wrong, when something did */
} crash_run;

/** An empty disk, and nothing appended. @return false, and `why` */
bool crash_run_begin(crash_run *run, const crash_script *script, const sgs_env *base);
/** Do one operation on the log; one that opens it again does so on the disk itself.
 *  @param appended  by an append, also by one that fails */
sgs_status crash_run_do(crash_run *run, const crash_operation *operation, model_batch *appended, sgs_error *err);
/** Run it and leave the log without closing it: what follows is for the crashes.
 *  @return false, and `why`, when the log fails, or does not do what the model says */
bool crash_run_script(crash_run *run, const crash_script *script, const sgs_env *base);
/** Give the disk back. */
void crash_run_end(crash_run *run);
/** What the log may be after a crash behind so many effects.
 *  @return how many states */
size_t crash_run_ways(const crash_run *run, int64_t effects, model_state ways[MODEL_WAYS_MAX]);

/** A batch like no other: its values tell the number of the append.
 *  @return its size, at least `size` where that is more than the smallest one */
size_t crash_batch_make(uint8_t *out, int64_t base_offset, int32_t records, size_t size, int32_t epoch, uint8_t number);

#endif
