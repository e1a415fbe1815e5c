/* crash_explorer.h - scripts and crashes one after the other, until enough images were looked at. */
#ifndef SGS_TEST_CRASH_CRASH_EXPLORER_H
#define SGS_TEST_CRASH_CRASH_EXPLORER_H

#include "crash_check.h"
#include "crash_fault.h"
#include "image_set.h"

typedef struct crash_counts {  /* of all workers; in memory that they share */
    _Atomic uint64_t images;   /* asked for */
    _Atomic uint64_t distinct; /* no two hold the same */
    _Atomic uint64_t thorough; /* looked at in every way */
    _Atomic uint64_t scripts, seeds;
    _Atomic bool is_over; /* enough, interrupted, or failed */
    _Atomic bool has_failed;
} crash_counts;

typedef struct crash_plan {
    uint64_t images_wanted; /* distinct ones */
    int length;             /* of the exhaustive scripts, at most; 0 = none of them */
    int seeds;              /* crashes by seed at each point of an exhaustive script */
    uint64_t first_seed;    /* of the scripts by chance */
    unsigned jobs;          /* workers; each takes every jobs-th script */
    const char *program;    /* for the command that repeats a failure */
    crash_fault fault;
} crash_plan;

typedef struct crash_failure { /* what has to be told of one */
    const crash_script *script;
    const sgs_sim_crash *crash; /* NULL: the script itself failed */
    const char *why;
} crash_failure;

/** Explore as one of the workers, until the counts say that it is over.
 *  @return false when something was found; it has been printed */
bool crash_explore(const crash_plan *plan, unsigned worker, crash_counts *counts, image_set *seen);

/** Run one script and look at one image of it thoroughly, telling everything.
 *  @return false when something was found */
bool crash_replay(const crash_plan *plan, const crash_script *script, const sgs_sim_crash *crash);
/** "12,seed,345": effects, fate, seed. @return false when the text is none */
bool crash_parse(sgs_sim_crash *crash, const char *text);
void crash_print_failure(const crash_plan *plan, const crash_failure *failure);

#endif
