/* env_manual_clock.h - the real environment with a wall clock that stands still until it is set (Kafka's MockTime).
 *
 * Files, mappings and locks are those of another environment over the system; so are the times at which a file was modified.
 * THREADS  as every env; the clock may be set while others read it. */
#ifndef SGS_IO_ENV_MANUAL_CLOCK_H
#define SGS_IO_ENV_MANUAL_CLOCK_H

#include <stdatomic.h>

#include "io/env.h"

typedef struct sgs_manual_clock { /* must not move or go away while its env is in use */
    sgs_env env;                  /* first */
    _Atomic int64_t wall_clock_ms;
} sgs_manual_clock;

/** As `base`, which lives as long, but for the wall clock. */
void sgs_manual_clock_init(sgs_manual_clock *clock, const sgs_env *base, int64_t wall_clock_ms);
void sgs_manual_clock_set(sgs_manual_clock *clock, int64_t wall_clock_ms);

#endif
