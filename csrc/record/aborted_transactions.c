/* aborted_transactions.c - a bisection over the aborted transactions of a log */
#include "record/aborted_transactions.h"

static bool is_before(const sgs_aborted_transaction *row, int64_t producer_id, int64_t offset)
{
    return row->producer_id < producer_id || (row->producer_id == producer_id && row->last_offset < offset);
}

bool sgs_aborted_transactions_are_sorted(const sgs_aborted_transactions *aborted)
{
    for (size_t i = 1; i < aborted->count; ++i) {
        if (!is_before(&aborted->rows[i - 1], aborted->rows[i].producer_id, aborted->rows[i].last_offset))
            return false;
    }
    return true;
}

bool sgs_aborted_transactions_contain(const sgs_aborted_transactions *aborted, const sgs_batch_header *batch)
{
    if (aborted->count == 0 || (batch->attributes & SGS_ATTRIBUTE_TRANSACTIONAL) == 0 || sgs_batch_is_control(batch))
        return false;
    size_t low = 0;
    size_t high = aborted->count;
    while (low < high) { /* the first transaction that ends at or behind the batch lies in [low, high] */
        const size_t middle = low + (high - low) / 2;
        if (is_before(&aborted->rows[middle], batch->producer_id, batch->base_offset))
            low = middle + 1;
        else
            high = middle;
    }
    /* The first offset may be inside the batch: the log may begin there, or DeleteRecords cut the transaction. */
    return low < aborted->count && aborted->rows[low].producer_id == batch->producer_id &&
           aborted->rows[low].first_offset <= batch->last_offset;
}
