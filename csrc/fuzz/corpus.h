/* corpus.h - the inputs that are mutated: those given and those that reached new code. One corpus a process. */
#ifndef SGS_FUZZ_CORPUS_H
#define SGS_FUZZ_CORPUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct fuzz_sample {
    uint8_t *data;
    size_t size;
} fuzz_sample;

/** End the process with status 2, as no finding: the fuzzer itself cannot go on. */
_Noreturn void fuzz_give_up(const char *what);
/** realloc() that gives up. */
void *fuzz_grown(void *memory, size_t size);

/** Choices from here on follow from the seed. */
void fuzz_corpus_start(uint64_t seed);
/** Keep a copy. @return false when there are too many already */
bool fuzz_corpus_keep(const uint8_t *data, size_t size);
size_t fuzz_corpus_count(void);
size_t fuzz_corpus_longest(void);
/** @return any input; there is one */
const fuzz_sample *fuzz_corpus_pick(void);
/** @return a seed for a target's own mutator */
unsigned fuzz_corpus_seed(void);
void fuzz_corpus_free(void);

#endif
