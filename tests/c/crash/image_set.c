/* image_set.c - see image_set.h. Open addressing, three quarters full at most. */
#define _GNU_SOURCE
#include "image_set.h"

#include <sys/mman.h>

bool image_set_open(image_set *set, size_t count)
{
    set->slots_count = 1024;
    while (set->slots_count / 4 * 3 < count)
        set->slots_count *= 2;
    void *const slots =
        mmap(NULL, set->slots_count * sizeof(uint64_t), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    set->slots = slots == MAP_FAILED ? NULL : slots;
    return set->slots != NULL;
}

void image_set_close(image_set *set) { (void)munmap((void *)set->slots, set->slots_count * sizeof(uint64_t)); }

bool image_set_add(image_set *set, uint64_t digest)
{
    const uint64_t wanted = digest == 0 ? 1 : digest;
    size_t at = (size_t)(wanted & (set->slots_count - 1));
    for (size_t tried = 0; tried < set->slots_count; ++tried) {
        uint64_t present = 0;
        if (atomic_compare_exchange_strong_explicit(&set->slots[at], &present, wanted, memory_order_relaxed,
                                                    memory_order_relaxed))
            return true;
        if (present == wanted)
            return false;
        at = (at + 1) & (set->slots_count - 1);
    }
    return false;
}
