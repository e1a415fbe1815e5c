/* mutate.h - seeded changes of a fuzz input. */
#ifndef SGS_FUZZ_MUTATE_H
#define SGS_FUZZ_MUTATE_H

#include <stddef.h>
#include <stdint.h>

typedef struct fuzz_random {
    uint64_t state;
} fuzz_random;

/** @return a number below `limit`, which is not 0 */
size_t fuzz_random_below(fuzz_random *random, size_t limit);
/** Change the input in place, a few times over.
 *  @param other  another input, to splice from; may be empty
 *  @return the new size, at most max_size */
size_t fuzz_mutate(fuzz_random *random, uint8_t *data, size_t size, size_t max_size, const uint8_t *other,
                   size_t other_size);

#endif
