/* The aborted transactions of a log come from a file without a check for order, and the batches are whatever they are.
 * The look-up for readers of committed data must answer what a look at every row answers, and what the queue of Kafka's
 * consumer answers for a batch. [format.md 13.6, DUR-85]
 * INPUT   1 byte count, 3 bytes a row (producer, first and last offset), then batches of 4 bytes (attributes, producer,
 *         base offset, delta).   ORACLE  every row; the consumer's queue. */
#include "record/aborted_transactions.h"

#include <string.h>

#include "fuzz/fuzz_input.h"

enum { ROWS_MAX = 32, BATCHES_MAX = 64 };

static bool is_ascending(const sgs_aborted_transaction *rows, size_t count)
{
    for (size_t i = 0; i < count; ++i)
        for (size_t j = i + 1; j < count; ++j) {
            if (rows[j].producer_id < rows[i].producer_id)
                return false;
            if (rows[j].producer_id == rows[i].producer_id && rows[j].last_offset <= rows[i].last_offset)
                return false;
        }
    return true;
}

static bool overlap(const sgs_aborted_transaction *rows, size_t count)
{
    for (size_t i = 0; i < count; ++i)
        for (size_t j = 0; j < count; ++j)
            if (i != j && rows[i].producer_id == rows[j].producer_id && rows[i].first_offset <= rows[j].last_offset &&
                rows[j].first_offset <= rows[i].last_offset)
                return true;
    return false;
}

/* Some row of the producer reaches into the batch. */
static bool by_every_row(const sgs_aborted_transactions *aborted, const sgs_batch_header *batch)
{
    if ((batch->attributes >> 4 & 3) != 1) /* transactional, no control batch */
        return false;
    for (size_t i = 0; i < aborted->count; ++i)
        if (aborted->rows[i].producer_id == batch->producer_id && aborted->rows[i].first_offset <= batch->last_offset &&
            aborted->rows[i].last_offset >= batch->base_offset)
            return true;
    return false;
}

/* Kafka's consumer walks the log and knows which producers are aborted at each batch: for a batch that begins inside a
 * transaction, that is the state after all transactions that began at or before it and have not ended. */
static bool by_the_queue(const sgs_aborted_transactions *aborted, const sgs_batch_header *batch)
{
    bool is_aborted[UINT8_MAX + 1] = { false };
    for (int64_t offset = 0; offset <= batch->last_offset; ++offset)
        for (size_t i = 0; i < aborted->count; ++i) {
            const sgs_aborted_transaction *const row = &aborted->rows[i];
            if (row->first_offset == offset)
                is_aborted[row->producer_id] = true;
            if (row->last_offset == offset && offset < batch->base_offset) /* the marker was walked over */
                is_aborted[row->producer_id] = false;
        }
    return (batch->attributes >> 4 & 3) == 1 && is_aborted[batch->producer_id];
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_input input = { data, size };
    const size_t count = fuzz_take_u8(&input) % (ROWS_MAX + 1);
    sgs_aborted_transaction *const rows = malloc(count * sizeof *rows + 1);
    FUZZ_CHECK(rows != NULL);
    for (size_t i = 0; i < count; ++i) {
        rows[i].producer_id = fuzz_take_u8(&input);
        rows[i].first_offset = fuzz_take_u8(&input);
        rows[i].last_offset = fuzz_take_u8(&input);
    }
    const sgs_aborted_transactions aborted = { rows, count };
    const bool ascends = is_ascending(rows, count);
    FUZZ_CHECK(sgs_aborted_transactions_are_sorted(&aborted) == ascends);
    bool each_is_sound = !overlap(rows, count);
    for (size_t i = 0; i < count; ++i)
        each_is_sound = each_is_sound && rows[i].first_offset < rows[i].last_offset;
    for (unsigned i = 0; i < BATCHES_MAX && input.size > 0; ++i) {
        sgs_batch_header batch = { .magic = 2 };
        batch.attributes = fuzz_take_u8(&input);
        batch.producer_id = fuzz_take_u8(&input);
        batch.base_offset = fuzz_take_u8(&input);
        batch.last_offset = batch.base_offset + fuzz_take_u8(&input) % 8;
        const bool found = sgs_aborted_transactions_contain(&aborted, &batch);
        if (ascends && each_is_sound) {
            FUZZ_CHECK(found == by_every_row(&aborted, &batch));
            FUZZ_CHECK(found == by_the_queue(&aborted, &batch));
        } else if (found) {
            FUZZ_CHECK(by_every_row(&aborted, &batch));
        }
    }
    free(rows);
    return 0;
}
