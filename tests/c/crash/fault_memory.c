/* fault_memory.c - see fault_memory.h. The environment comes first in the struct: who has one has the other. */
#include "fault_memory.h"

#include <stdlib.h>

static fault_memory *of(const sgs_env *env) { return (fault_memory *)(uintptr_t)env; }

static void *reallocate(const sgs_env *env, void *memory, size_t size)
{
    fault_memory *const self = of(env);
    const int64_t count = ++self->calls;
    self->largest = size > self->largest ? size : self->largest;
    if (self->fail_at > 0 && (self->for_ever ? count >= self->fail_at : count == self->fail_at)) {
        ++self->failed_calls;
        return NULL;
    }
    void *const grown = realloc(memory, size);
    self->live += memory == NULL && grown != NULL;
    return grown;
}

static void *allocate(const sgs_env *env, size_t size) { return reallocate(env, NULL, size); }

static void release(const sgs_env *env, void *memory)
{
    of(env)->live -= memory != NULL;
    free(memory);
}

void fault_memory_init(fault_memory *memory, const sgs_sim_disk *disk)
{
    *memory = (fault_memory){ .env = *sgs_sim_env(disk) };
    memory->env.allocate = allocate;
    memory->env.reallocate = reallocate;
    memory->env.release = release;
}

void fault_memory_fail(fault_memory *memory, int64_t nth, bool for_ever)
{
    memory->fail_at = memory->calls + nth;
    memory->for_ever = for_ever;
}
