/* corpus.c - the inputs in memory, and libFuzzer's LLVMFuzzerMutate over them. */
#include "fuzz/corpus.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz/fuzz_input.h"
#include "fuzz/mutate.h"

enum { CORPUS_LIMIT = 20000 };

static fuzz_sample *corpus;
static size_t corpus_count, corpus_room;
static fuzz_random chance;

_Noreturn void fuzz_give_up(const char *what)
{
    perror(what);
    exit(2);
}

void *fuzz_grown(void *memory, size_t size)
{
    void *moved = realloc(memory, size > 0 ? size : 1);
    if (moved == NULL)
        fuzz_give_up("memory");
    return moved;
}

void fuzz_corpus_start(uint64_t seed) { chance.state = seed; }

bool fuzz_corpus_keep(const uint8_t *data, size_t size)
{
    if (corpus_count == CORPUS_LIMIT)
        return false;
    if (corpus_count == corpus_room) {
        corpus_room = corpus_room > 0 ? 2 * corpus_room : 64;
        corpus = fuzz_grown(corpus, corpus_room * sizeof *corpus);
    }
    corpus[corpus_count++] = (fuzz_sample){ memcpy(fuzz_grown(NULL, size), data, size), size };
    return true;
}

size_t fuzz_corpus_count(void) { return corpus_count; }

size_t fuzz_corpus_longest(void)
{
    size_t longest = 0;
    for (size_t i = 0; i < corpus_count; ++i)
        longest = corpus[i].size > longest ? corpus[i].size : longest;
    return longest;
}

const fuzz_sample *fuzz_corpus_pick(void) { return &corpus[fuzz_random_below(&chance, corpus_count)]; }

unsigned fuzz_corpus_seed(void) { return (unsigned)fuzz_random_below(&chance, UINT32_MAX); }

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size)
{
    const fuzz_sample *const other = fuzz_corpus_pick();
    return fuzz_mutate(&chance, data, size, max_size, other->data, other->size);
}

void fuzz_corpus_free(void)
{
    for (size_t i = 0; i < corpus_count; ++i)
        free(corpus[i].data);
    free(corpus);
}
