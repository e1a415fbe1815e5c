/* log_validator.h - judges the batches of a leader append and gives them offsets, epoch and timestamps [format.md
 * 12.2-12.7; APP-30..APP-34], Kafka LogValidator. No allocation per record.
 *
 * WAYS  Batches that can stay as they are are edited in place. Others (another magic, another codec, offsets inside a
 * wrapper of magic 1 that do not count 0, 1, 2 ...) are decompressed once, checked, and written again into `output`.
 * Kafka takes one batch of magic 2, one compressed wrapper, or several plain messages of magic 0 or 1 at a time; here an
 * append may be a run of such requests, unless `one_request` is set.
 *
 * STRICTNESS  An uncompressed batch whose offset deltas do not ascend or go beyond lastOffsetDelta is refused [DUR-89],
 * so are a batch that does not fill its range of offsets, timestamps that wrap [DUR-90], and records that do not end at
 * their size in a compressed batch [DUR-91]. Kafka takes those; with `kafka_limits` they are taken here. */
#ifndef SGS_RECORD_LOG_VALIDATOR_H
#define SGS_RECORD_LOG_VALIDATOR_H

#include "record/validation.h"

/** Check batches whose headers were scanned and whose CRCs were checked before, and assign offsets from `next_offset`.
 *  The result, also of a failure, is in the validator.
 *  @param rows  positions count from `data`; offsets, epoch, max_timestamp, attributes and crc are brought up to date
 *  @return SGS_OK; SGS_INVALID_RECORD naming batch and record; SGS_CORRUPT_RECORD for a message inside a wrapper;
 *          SGS_UNSUPPORTED_FORMAT; SGS_ILLEGAL_ARGUMENT for what the builder refuses; codec statuses.
 *          On failure some batches may be stamped: the caller throws the buffer away. */
sgs_status sgs_validate_and_assign_offsets(sgs_log_validator *validator, int64_t next_offset, uint8_t *data,
                                           size_t size, sgs_batch_header *rows, size_t rows_count, sgs_error *err);

/** The same for one batch of magic 2 whose bytes stay as they are: what is stamped is `header`, a copy of its header that is
 *  made here. Header and the bytes behind the one in `data` are the batch to be written, unless it was rebuilt. Nobody may
 *  change the bytes from the check of their CRC to the end of their writing. */
sgs_status sgs_validate_and_stamp_header(sgs_log_validator *validator, int64_t next_offset, const uint8_t *data,
                                         size_t size, uint8_t header[SGS_BATCH_HEADER_BYTES], sgs_batch_header *row,
                                         sgs_error *err);

/** The same for a batch that our own builder made, `row` and all, when nothing of it has to be looked at again: it is
 *  stamped, and nothing is counted. @return false: sgs_validate_and_assign_offsets has to do it */
bool sgs_assign_offsets_by_header(const sgs_log_validator *validator, int64_t next_offset, uint8_t *data,
                                  sgs_batch_header *row);

#endif
