/* env.c - what every environment shares. */
#include "io/env.h"

static void *reallocate(void *context, void *memory, size_t size)
{
    const sgs_env *env = context;
    return env->reallocate(env, memory, size);
}

static void release(void *context, void *memory)
{
    const sgs_env *env = context;
    env->release(env, memory);
}

sgs_memory sgs_env_memory(const sgs_env *env)
{
    /* The context is a plain pointer for the sake of other allocators; this one is only read through. */
    return (sgs_memory){ .context = (void *)(uintptr_t)env, .reallocate = reallocate, .release = release };
}
