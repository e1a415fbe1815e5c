/* file_records.h - bytes of a segment's .log that go out as they are (Kafka FileRecords: writeTo, readInto).
 *
 * What was found by sgs_log_segment_slice stays in the file until it is asked for. Meanwhile the log may be truncated: both
 * functions refuse what lies behind the logical size, and notice when another process made the file shorter [DUR-77].
 * THREADS  as reads: beside an append, with nobody closing. */
#ifndef SGS_SEGMENT_FILE_RECORDS_H
#define SGS_SEGMENT_FILE_RECORDS_H

#include "segment/log_segment.h"

/** One step of sending bytes [position, position + size) to a descriptor, without a copy; see send_file of io/env.h.
 *  @param size  above 0
 *  @return SGS_LOG_TRUNCATED when the bytes are not there any more, SGS_SEND_FAILED, SGS_READ_IO */
sgs_status sgs_file_records_write_to(sgs_log_segment *segment, int64_t position, size_t size, int destination,
                                     sgs_transfer *transfer, sgs_error *err);
/** Read bytes [position, position + size) into `data`.
 *  @return SGS_LOG_TRUNCATED when they are not there any more, SGS_READ_IO */
sgs_status sgs_file_records_read_into(sgs_log_segment *segment, int64_t position, uint8_t *data, size_t size,
                                      sgs_error *err);

#endif
