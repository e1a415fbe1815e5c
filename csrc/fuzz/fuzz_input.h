/* fuzz_input.h - what a fuzz target needs: numbers off the front of the input, and checks that are never compiled out.
 *
 * A target is one file fuzz_<stem>.c with LLVMFuzzerTestOneInput; driver.c or libFuzzer calls it. It says at its top what
 * may be thrown at the code and what the answer is compared with. Its corpus is tests/corpus/<stem>/. */
#ifndef SGS_FUZZ_INPUT_H
#define SGS_FUZZ_INPUT_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/** The target. The bytes have exactly `size` bytes of memory: one byte beyond is caught. @return 0 */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
/** Optional, as in libFuzzer: change the input in place, to mend a checksum for example. @return the new size */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed);
/** The driver's own mutations, for use in a custom mutator. */
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);

#define FUZZ_CHECK(fact) ((fact) ? (void)0 : fuzz_failed(#fact, __FILE__, __LINE__))

_Noreturn static inline void fuzz_failed(const char *fact, const char *file, int line)
{
    (void)fprintf(stderr, "%s:%d: not true: %s\n", file, line, fact);
    abort();
}

typedef struct fuzz_input { /* what is left */
    const uint8_t *bytes;
    size_t size;
} fuzz_input;

/* Big-endian; bytes that are missing count as zero. */
static inline uint64_t fuzz_take(fuzz_input *input, size_t width)
{
    uint64_t value = 0;
    for (size_t i = 0; i < width; ++i) {
        value <<= 8;
        if (input->size > 0) {
            value |= *input->bytes;
            ++input->bytes;
            --input->size;
        }
    }
    return value;
}

static inline uint8_t fuzz_take_u8(fuzz_input *input) { return (uint8_t)fuzz_take(input, 1); }
static inline uint16_t fuzz_take_u16(fuzz_input *input) { return (uint16_t)fuzz_take(input, 2); }
static inline uint32_t fuzz_take_u32(fuzz_input *input) { return (uint32_t)fuzz_take(input, 4); }
static inline uint64_t fuzz_take_u64(fuzz_input *input) { return fuzz_take(input, 8); }

#endif
