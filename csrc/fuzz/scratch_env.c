/* scratch_env.c - see scratch_env.h. Each piece has its size in front; only the last one grows where it is. */
#include "fuzz/scratch_env.h"

#include <stdlib.h>
#include <string.h>

#include "fuzz/fuzz_input.h"

enum { BLOCK_BYTES = 8 << 20, LARGE_BYTES = 32 << 10, ALIGNMENT = 16 };

static _Alignas(ALIGNMENT) uint8_t block[BLOCK_BYTES];
static size_t used;

static bool is_in_block(const void *memory)
{
    return (const uint8_t *)memory >= block && (const uint8_t *)memory < block + BLOCK_BYTES;
}

static size_t rounded(size_t size) { return (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT; }

static void *take(size_t size)
{
    const size_t needed = ALIGNMENT + rounded(size);
    if (size >= LARGE_BYTES || needed > BLOCK_BYTES - used)
        return malloc(size);
    uint8_t *const piece = block + used + ALIGNMENT;
    memcpy(piece - ALIGNMENT, &size, sizeof size);
    used += needed;
    return piece;
}

static void *reallocate(const sgs_env *env, void *memory, size_t size)
{
    (void)env;
    if (memory != NULL && !is_in_block(memory))
        return realloc(memory, size);
    uint8_t *const old = memory;
    size_t old_size = 0;
    if (old != NULL) {
        memcpy(&old_size, old - ALIGNMENT, sizeof old_size);
        if (old + rounded(old_size) == block + used)
            used = (size_t)(old - block) - ALIGNMENT; /* the last one: its place is taken again */
    }
    void *const grown = take(size);
    if (old != NULL && grown != NULL && grown != old)
        memcpy(grown, old, old_size < size ? old_size : size);
    return grown;
}

static void *allocate(const sgs_env *env, size_t size) { return reallocate(env, NULL, size); }

static void release(const sgs_env *env, void *memory)
{
    (void)env;
    if (!is_in_block(memory))
        free(memory);
}

const sgs_env *scratch_env(void)
{
    static sgs_env env;
    env = *sgs_env_posix();
    env.allocate = allocate;
    env.reallocate = reallocate;
    env.release = release;
    used = 0;
    return &env;
}
