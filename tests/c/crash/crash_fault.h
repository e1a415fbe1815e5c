/* crash_fault.h - the check of the check: a barrier whose syncs are taken out after the fact, or a model that promises too
 * much. Whoever looks at crashes must find it [DUR-110]. */
#ifndef SGS_TEST_CRASH_CRASH_FAULT_H
#define SGS_TEST_CRASH_CRASH_FAULT_H

#include "crash_run.h"

typedef struct crash_fault {
    bool promises_more;  /* every append is said to be durable */
    sgs_barrier without; /* SGS_BARRIER_COUNT = none */
} crash_fault;

/** "--promise-more", "--without=BARRIER". @return false when the text is none */
bool crash_fault_parse(crash_fault *fault, const char *text);
/** Numbers of the syncs of a disk that the fault takes out, behind those that are there already.
 *  @param numbers  int64_t each */
sgs_status crash_fault_numbers(const crash_fault *fault, const sgs_sim_disk *disk, sgs_buffer *numbers, sgs_error *err);
/** Let the steps of a run promise what the fault says. */
void crash_fault_promise(const crash_fault *fault, crash_run *run);

#endif
