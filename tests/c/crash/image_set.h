/* image_set.h - which images were there before: a set of digests that several processes share [DUR-116]. */
#ifndef SGS_TEST_CRASH_IMAGE_SET_H
#define SGS_TEST_CRASH_IMAGE_SET_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct image_set {
    _Atomic uint64_t *slots; /* 0 = free; forked processes share them */
    size_t slots_count;      /* a power of two */
} image_set;

/** Room for so many. @return false when there is no memory */
bool image_set_open(image_set *set, size_t count);
void image_set_close(image_set *set);
/** @return whether it is new. A full set knows no new ones */
bool image_set_add(image_set *set, uint64_t digest);

#endif
