/* fault_memory.h - a simulated disk's environment whose memory is counted, and may fail. */
#ifndef SGS_TEST_CRASH_FAULT_MEMORY_H
#define SGS_TEST_CRASH_FAULT_MEMORY_H

#include "io/env_sim.h"

typedef struct fault_memory {
    sgs_env env; /* what the log gets */
    int64_t calls, failed_calls;
    int64_t fail_at; /* fails when calls reaches it; 0 = never */
    bool for_ever;
    int64_t live;   /* pieces that were not given back */
    size_t largest; /* piece that was asked for */
} fault_memory;

/** From now on the environment is that of another disk; nothing of the one before is left, and nothing fails. */
void fault_memory_init(fault_memory *memory, const sgs_sim_disk *disk);
/** The n-th piece from now on is not there (1 = the next), nor those behind it when that is for ever. */
void fault_memory_fail(fault_memory *memory, int64_t nth, bool for_ever);

#endif
