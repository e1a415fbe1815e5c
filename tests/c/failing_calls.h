/* failing_calls.h - the errno matrix: each call that a scenario makes fails with each errno that it can have, once and for
 * ever; each allocation fails; the device is gone from each call on [DUR-111].
 *
 * A scenario is a segment on a simulated disk, and what is done with it. After each failure everything works again, and
 * then must hold: the status is one that the errno has [DUR-30..DUR-42]; what was acknowledged can be read, found by its
 * time, and is still there after a close, an open and a recovery that cuts nothing [DUR-1, DUR-6]; another append works, or
 * is refused where a sync failed [DUR-35]; and all memory, descriptors and mappings were given back.
 * A call's place in the code is known by its return address, so that each place is gone through with all of its errnos. */
#ifndef SGS_TEST_FAILING_CALLS_H
#define SGS_TEST_FAILING_CALLS_H

#include "io/env_sim.h"
#include "segment_kit.h"

typedef struct failing_run {
    segment_kit kit; /* on `disk`; kit.err is what `run` fails with */
    sgs_sim_disk *disk;
    int64_t acked;      /* batches of one record each, offset i with time 10 * i, were acknowledged below it */
    int64_t next_least; /* ... or this, when less: what a truncation that failed may have left */
    int64_t next_most;  /* -1 = any: an acknowledged truncation keeps nothing at or above */
    bool is_gone;       /* the files were deleted */
    bool takes_no_appends;
} failing_run;

typedef struct failing_scenario {
    const char *name;
    bool kafka_profile; /* whose indexes may be believed wrongly: they are not looked at */
    void (*set_up)(failing_run *run);
    sgs_status (*run)(failing_run *run);
    void (*tear_down)(failing_run *run); /* NULL = nothing to do */
    bool is_repair;                      /* one that failed is made once more, before the segment is used */
} failing_scenario;

void failing_calls_explore(const failing_scenario *scenario);
/** For everything that only takes memory: `run` is called with each allocation failing, once and for ever. It gives back
 *  all that it took. @param run  SGS_OK, or SGS_RESOURCE when memory failed, and both leave nothing behind */
void failing_calls_explore_memory(const char *name, sgs_status (*run)(sgs_memory memory, sgs_error *err));
/** Print which calls were failed at how many places, with which errnos.
 *  @return whether each place was failed with all of its errnos, once and for ever */
bool failing_calls_print(void);

/* ---- what scenarios are made of ---- */

enum { FAILING_BATCH_BYTES = 300 };
/** Append batches of one record up to offset `end`; what is acknowledged is counted. */
sgs_status failing_append(failing_run *run, int64_t end);
/** A new segment, with batches up to `end`; the context is as it was set before. */
void failing_write(failing_run *run, int64_t end);
/** Close it and open it again, without any file at first. */
void failing_reopen(failing_run *run);
/** Write bytes into one of the segment's files, behind its back. */
void failing_spoil(failing_run *run, sgs_segment_file kind, int64_t position, const void *bytes, size_t size);

#endif
