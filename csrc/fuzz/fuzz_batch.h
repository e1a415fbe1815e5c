/* fuzz_batch.h - making a batch out of arbitrary bytes, so that what lies behind the checks is reached at all. */
#ifndef SGS_FUZZ_BATCH_H
#define SGS_FUZZ_BATCH_H

#include <string.h>

#include "base/bytes.h"
#include "fuzz/fuzz_input.h"
#include "record/record_batch.h"

/* Give `data` the length, magic and CRC of one batch. A negative length is what a size below 61 makes: nothing is
 * done. */
static inline void fuzz_mend_batch(uint8_t *data, size_t size)
{
    if (size < SGS_BATCH_HEADER_BYTES)
        return;
    sgs_store_be32(data + 8, (uint32_t)(size - SGS_LOG_OVERHEAD));
    data[16] = 2;
    sgs_batch_seal(data, size);
}

/* Give each batch of magic 2 in a run its CRC, as far as lengths lead; messages of older magic stay as they are. */
static inline void fuzz_mend_run(uint8_t *data, size_t size)
{
    while (size >= SGS_LOG_OVERHEAD + SGS_LEGACY_MESSAGE_MIN_BYTES) {
        const uint32_t length = sgs_load_be32(data + 8);
        const bool is_legacy = data[16] < 2;
        const uint32_t least =
            is_legacy ? SGS_LEGACY_MESSAGE_MIN_BYTES : (uint32_t)(SGS_BATCH_HEADER_BYTES - SGS_LOG_OVERHEAD);
        if (length < least || length > size - SGS_LOG_OVERHEAD)
            return;
        if (data[16] > 1) {
            data[16] = 2;
            sgs_batch_seal(data, SGS_LOG_OVERHEAD + (size_t)length);
        }
        data += SGS_LOG_OVERHEAD + length;
        size -= SGS_LOG_OVERHEAD + length;
    }
}

/* A mutation of parameters and, behind them, a run of batches whose lengths and checksums are mostly right. */
static inline size_t fuzz_mutate_run(uint8_t *data, size_t size, size_t max_size, unsigned seed,
                                     size_t parameters_bytes)
{
    size = LLVMFuzzerMutate(data, size, max_size);
    if (seed % 4 != 0 && size > parameters_bytes)
        fuzz_mend_run(data + parameters_bytes, size - parameters_bytes);
    return size;
}

#endif
