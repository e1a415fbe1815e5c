/* env_manual_clock.c - env_posix but for one entry of the table. */
#include "io/env_manual_clock.h"

static int64_t manual_wall_clock_ms(const sgs_env *env)
{
    sgs_manual_clock *clock = (sgs_manual_clock *)(uintptr_t)env; /* its first member; the context is the base's */
    return atomic_load_explicit(&clock->wall_clock_ms, memory_order_relaxed);
}

void sgs_manual_clock_init(sgs_manual_clock *clock, const sgs_env *base, int64_t wall_clock_ms)
{
    clock->env = *base;
    clock->env.wall_clock_ms = manual_wall_clock_ms;
    atomic_init(&clock->wall_clock_ms, wall_clock_ms);
}

void sgs_manual_clock_set(sgs_manual_clock *clock, int64_t wall_clock_ms)
{
    atomic_store_explicit(&clock->wall_clock_ms, wall_clock_ms, memory_order_relaxed);
}
