/* aborted_transactions.h - which batches a reader of committed data leaves out.
 *
 * A batch is judged by its header alone: transactional data of a producer whose transaction was aborted, between the
 * transaction's first offset and its ABORT marker [format.md 13.6, TXX-*]. Kafka's consumer keeps a queue of aborted
 * transactions and a set of producers while it walks (CompletedFetch); a sorted table answers the same for any batch,
 * in any order, so the decoders of rows and of columns share it.
 * THREADS  read-only: any number. */
#ifndef SGS_RECORD_ABORTED_TRANSACTIONS_H
#define SGS_RECORD_ABORTED_TRANSACTIONS_H

#include "record/record_batch.h"

typedef struct sgs_aborted_transaction {
    int64_t producer_id;
    int64_t first_offset; /* of its first batch */
    int64_t last_offset;  /* of its ABORT marker */
} sgs_aborted_transaction;

/* Rows ascend by producer id, then by last offset; those of one producer do not overlap. */
typedef struct sgs_aborted_transactions {
    const sgs_aborted_transaction *rows; /* borrowed */
    size_t count;                        /* 0: nothing is left out */
} sgs_aborted_transactions;

/** Whether the rows are in order, as the look-up needs them. */
bool sgs_aborted_transactions_are_sorted(const sgs_aborted_transactions *aborted);
/** Whether `batch` is data of an aborted transaction. Source: Kafka CompletedFetch.isBatchAborted */
bool sgs_aborted_transactions_contain(const sgs_aborted_transactions *aborted, const sgs_batch_header *batch);

#endif
