/* cleaned_transaction_metadata.h - the transactions of the batches that a cleaner goes through, in their order
 * [CLN-80, CLN-95, CLN-97], Kafka CleanedTransactionMetadata.
 *
 * Which transactions were aborted is told before their batches come. A marker may go only when no batch of its
 * transaction was seen. Aborted transactions of which a batch was seen make the transaction index of what is cleaned.
 * THREADS  one at a time. */
#ifndef SGS_RECORD_CLEANED_TRANSACTION_METADATA_H
#define SGS_RECORD_CLEANED_TRANSACTION_METADATA_H

#include "record/codec.h"
#include "record/record.h"

typedef struct sgs_aborted_txn { /* Kafka AbortedTxn: one entry of a transaction index */
    int64_t producer_id;
    int64_t first_offset;
    int64_t last_offset; /* of the marker */
    int64_t last_stable_offset;
} sgs_aborted_txn;

typedef struct sgs_cleaned_transaction_metadata {
    sgs_buffer coming;    /* sgs_aborted_txn each, a heap: the least first offset is the first */
    sgs_buffer aborted;   /* those that are open, by producer */
    sgs_buffer committed; /* int64_t each: producers of open transactions that were not aborted, ascending */
    sgs_buffer cleaned;   /* sgs_aborted_txn each: for the transaction index; the caller clears it */
    sgs_buffer scratch;
} sgs_cleaned_transaction_metadata;

void sgs_cleaned_transaction_metadata_init(sgs_cleaned_transaction_metadata *metadata, sgs_memory memory);
void sgs_cleaned_transaction_metadata_deinit(sgs_cleaned_transaction_metadata *metadata);
/** Forget all transactions; the memory stays. */
void sgs_cleaned_transaction_metadata_clear(sgs_cleaned_transaction_metadata *metadata);
/** One that was told before may come again. @return SGS_OK, SGS_RESOURCE */
sgs_status sgs_cleaned_transaction_metadata_add(sgs_cleaned_transaction_metadata *metadata, const sgs_aborted_txn *txns,
                                                size_t count, sgs_error *err);
/** The next batch is one of data.
 *  @param is_aborted  its records are of an aborted transaction */
sgs_status sgs_cleaned_transaction_metadata_on_batch(sgs_cleaned_transaction_metadata *metadata,
                                                     const sgs_batch_header *header, bool *is_aborted, sgs_error *err);
/** The next batch is a control batch; its CRC is not looked at.
 *  @param can_go  nothing of the transaction that it ends was seen; an empty control batch may always go
 *  @return also what sgs_record_section_open and sgs_control_record_type return */
sgs_status sgs_cleaned_transaction_metadata_on_control_batch(sgs_cleaned_transaction_metadata *metadata,
                                                             const uint8_t *batch, const sgs_batch_header *header,
                                                             bool *can_go, sgs_error *err);

#endif
