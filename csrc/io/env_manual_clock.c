/* env_manual_clock.c - env_posix but for one entry of the table. */
#include "io/env_manual_clock.h"

static int64_t manual_wall_clock_ms(const sgs_env *env)
{
    sgs_manual_clock *clock = env->context;
    return atomic_load_explicit(&clock->wall_clock_ms, memory_order_relaxed);
}

void sgs_manual_clock_init(sgs_manual_clock *clock, int64_t wall_clock_ms)
{
    clock->env = *sgs_env_posix(); /* whose functions look at no context */
    clock->env.context = clock;
    clock->env.wall_clock_ms = manual_wall_clock_ms;
    atomic_init(&clock->wall_clock_ms, wall_clock_ms);
}

void sgs_manual_clock_set(sgs_manual_clock *clock, int64_t wall_clock_ms)
{
    atomic_store_explicit(&clock->wall_clock_ms, wall_clock_ms, memory_order_relaxed);
}
