/* scratch_env.h - an environment whose memory is taken from one block and thrown away at once: for the simulated disk below
 * what is looked at, whose own memory is nobody's question. Large pieces, files that are mapped, are still the system's, with a
 * sanitizer's eye on what lies behind them. One thread. */
#ifndef SGS_FUZZ_SCRATCH_ENV_H
#define SGS_FUZZ_SCRATCH_ENV_H

#include "io/env.h"

/** The environment, empty. Memory of the time before is gone. */
const sgs_env *scratch_env(void);

#endif
