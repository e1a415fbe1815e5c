/* fault_script.h - operations on a small log among calls that fail, power cuts and reads, as bytes.
 *
 *     settings, end, seed of the end; then four bytes a step: kind, a, b, c
 *
 * Every input is a script, and most changes of a byte make it another one. Offsets are taken modulo the end of the log when
 * their step comes. */
#ifndef SGS_TEST_CRASH_FAULT_SCRIPT_H
#define SGS_TEST_CRASH_FAULT_SCRIPT_H

#include <stdio.h>

#include "crash_script.h"
#include "io/env_sim.h"

enum { FAULT_STEPS_MAX = 16, FAULT_HEAD_BYTES = 3, FAULT_STEP_BYTES = 4 };

typedef enum fault_kind {
    FAULT_OPERATION,
    FAULT_READ,       /* all of it, and compare */
    FAULT_CALL,       /* the n-th call of a kind fails from now on */
    FAULT_ALLOCATION, /* the n-th piece of memory is not given */
    FAULT_ROOM,       /* the disk takes so many more bytes */
    FAULT_HEAL,       /* nothing fails any more */
    FAULT_POWER_CUT   /* behind so many effects, be they there or to come */
} fault_kind;

typedef struct fault_step {
    fault_kind kind;
    crash_operation operation;
    sgs_sim_call call;
    int64_t number; /* which call, how many bytes, or behind how many effects */
    int os_error;
    bool for_ever;
    sgs_sim_fate fate; /* of a power cut */
    uint64_t seed;
} fault_step;

typedef struct fault_script {
    crash_script operations; /* its settings only */
    fault_step steps[FAULT_STEPS_MAX];
    size_t count;
    sgs_sim_fate fate; /* in the end */
    uint64_t seed;
    bool thoroughly; /* look at what is left in every way */
} fault_script;

/** Every byte is one of the settings. */
small_log_settings fault_script_settings(uint8_t byte);
/** Bytes that are missing count as zero, those too many for FAULT_STEPS_MAX are left out. */
void fault_script_decode(fault_script *script, const uint8_t *bytes, size_t size);
void fault_script_print(const fault_script *script, FILE *out);

#endif
