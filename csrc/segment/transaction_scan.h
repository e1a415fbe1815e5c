/* transaction_scan.h - which batches of a segment belong to transactions, and how the markers among them end these
 * [TXX-1, DUR-7]. It is all that a reader of committed data has to know of batches that he does not read. */
#ifndef SGS_SEGMENT_TRANSACTION_SCAN_H
#define SGS_SEGMENT_TRANSACTION_SCAN_H

#include "segment/log_segment.h"

typedef enum sgs_transaction_end {
    SGS_TRANSACTION_DATA = -1, /* no marker: records of a transaction */
    SGS_TRANSACTION_ABORTED = 0,
    SGS_TRANSACTION_COMMITTED = 1,
} sgs_transaction_end;

typedef struct sgs_transaction_rows { /* as many ends as rows */
    sgs_batch_table table;
    sgs_buffer ends; /* int8_t each, an sgs_transaction_end */
} sgs_transaction_rows;

void sgs_transaction_rows_init(sgs_transaction_rows *rows, sgs_memory memory);
void sgs_transaction_rows_deinit(sgs_transaction_rows *rows);

/** Scan the batches of [start_position, end_position) by their headers, and keep the rows of COMMIT and ABORT markers and of
 *  transactional data. Of several batches of one producer without another row between them the first one is kept.
 *  The checksums of control batches are compared, and of batches that one changed bit would make of them; no others are.
 *  @param options    check_crc is taken as false
 *  @param data_from  data whose last offset lies below is left out
 *  @param result     SGS_SCAN_CORRUPT also at a marker that cannot be read, or whose checksum is wrong */
sgs_status sgs_log_segment_scan_transactions(sgs_log_segment *segment, const sgs_scan_options *options,
                                             int64_t start_position, int64_t end_position, int64_t data_from,
                                             sgs_transaction_rows *rows, sgs_scan_result *result, sgs_error *err);

#endif
