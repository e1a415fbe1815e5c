/* record_headers.h - the headers of a record that is written again, by the validator or a compaction.
 *
 * Kafka holds a header key as a String: what it writes again is well-formed UTF-8, whatever was read. Batches that stay
 * as they are keep the bytes of their keys [format.md 5, 18.2]. */
#ifndef SGS_RECORD_RECORD_HEADERS_H
#define SGS_RECORD_RECORD_HEADERS_H

#include "base/buffer.h"
#include "record/record.h"

/** The headers of a checked record, malformed sequences in their keys replaced as Java does. They point into the record
 *  and into `scratch`, and are good until either changes.
 *  @param headers  record->headers_count of them
 *  @return SGS_ILLEGAL_ARGUMENT: a key is larger than 2^31-1 bytes then; SGS_RESOURCE */
sgs_status sgs_record_headers_load(const sgs_record *record, sgs_buffer *scratch, const sgs_record_header **headers,
                                   sgs_error *err);

#endif
