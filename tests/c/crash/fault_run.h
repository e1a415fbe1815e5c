/* fault_run.h - a script of operations among faults, run on a small log and compared with the model on the way.
 *
 * What must hold: only a fault makes an operation fail, and never as damage [DUR-6, DUR-33]; an append that fails while the
 * log can go on changed nothing [DUR-30..DUR-32]; what another operation that failed has left is as if the process had died
 * in it; a log that was killed has all that was acknowledged [DUR-3], after a power cut all that was durable [DUR-1], and
 * nothing else [DUR-2, DUR-5]; without a fault it can be opened [DUR-56]; memory and descriptors are given back.
 * A handle whose operation failed in any other way than an append that was taken back takes no more changes [DUR-38]. */
#ifndef SGS_TEST_CRASH_FAULT_RUN_H
#define SGS_TEST_CRASH_FAULT_RUN_H

#include "crash_check.h"
#include "crash_fault.h"
#include "fault_memory.h"
#include "fault_script.h"

typedef struct fault_run {
    const fault_script *script;
    crash_run run; /* the log, its disk, and what the model says of it */
    fault_memory memory;
    crash_checker checker;
    const fault_step *power_cut; /* that is to come; NULL = none */
    crash_operation doubtful;    /* failed; CRASH_KINDS_COUNT = none */
    model_batch appended;        /* by the last append */
    bool is_open;
    bool is_over;        /* takes no more changes */
    bool has_failed;     /* since the power was cut last: a later sync may bring nothing to the disk */
    sgs_buffer ignored;  /* int64_t each: syncs of this disk that the planted fault takes out */
    crash_fault planted; /* set before the run */
    crash_expectation expected;
    char why[CRASH_WHY_BYTES];
} fault_run;

/** @return false, and `why` */
bool fault_run_script(fault_run *self, const fault_script *script, const sgs_env *base);

#endif
