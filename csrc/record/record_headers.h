/* record_headers.h - the headers of a record that is written again, by the validator or a compaction.
 *
 * Kafka holds a header key as a String: what it writes again is well-formed UTF-8, whatever was read. Batches that stay
 * as they are keep the bytes of their keys [format.md 5, 18.2]. The headers go from the record's bytes to those of the
 * new batch; nothing is kept of a single one, which takes two bytes and may be one of millions [DUR-85, DUR-102]. */
#ifndef SGS_RECORD_RECORD_HEADERS_H
#define SGS_RECORD_RECORD_HEADERS_H

#include "record/record.h"

/* What the headers of a record become. */
typedef struct sgs_headers_rewrite {
    sgs_bytes source;   /* encoded */
    int64_t size_bytes; /* when written */
    int32_t count;
    bool is_copy; /* they are what Kafka would write */
} sgs_headers_rewrite;

/** Look at encoded headers. Nobody may change them from here on to the writing: its room is what is counted here.
 *  @return false when they are no `count` headers */
bool sgs_record_headers_prepare(sgs_bytes headers, int32_t count, sgs_headers_rewrite *rewrite);
/** Write them at `out`, which has room for rewrite->size_bytes, malformed sequences in keys replaced as Java does.
 *  @return the byte behind them */
uint8_t *sgs_record_headers_write(uint8_t *out, const sgs_headers_rewrite *rewrite);

#endif
