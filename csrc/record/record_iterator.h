/* record_iterator.h - the records of one batch by the rules of Kafka's own iterators [format.md 5, 7.2], for tools that
 * look into files as they are: what Kafka reads they read, what it refuses they refuse, at the same record.
 *
 * The reader of everybody else (record.h) is stricter [DUR-85..DUR-95]: here a batch may have any offsets, a size below
 * -1 is null, sums wrap as Java's do, a broken stream gives the records before the break, and nothing is asked of the
 * header but a records count that is not negative. */
#ifndef SGS_RECORD_RECORD_ITERATOR_H
#define SGS_RECORD_RECORD_ITERATOR_H

#include "record/legacy_records.h"

typedef enum sgs_iteration {
    SGS_ITERATE_STREAMING,      /* Kafka streamingIterator: records until something is wrong */
    SGS_ITERATE_WHOLE,          /* Kafka iterator: no record of a compressed batch in which something is wrong */
    SGS_ITERATE_SKIP_KEY_VALUE, /* Kafka skipKeyValueIterator: of a compressed batch no keys, values and headers */
} sgs_iteration;

typedef struct sgs_record_iterator {
    sgs_batch_header batch;
    sgs_legacy_reader legacy;  /* magic 0 and 1 */
    const uint8_t *next, *end; /* of the section */
    int32_t remaining_count;
    bool is_compressed;
    bool skips;       /* keys, values and headers are not looked at */
    sgs_error break_; /* what ended the section early; status OK when nothing did */
} sgs_record_iterator;

typedef struct sgs_iterated_record {
    sgs_record record;          /* size_bytes: as Kafka counts it, prefix included at magic 0 and 1 */
    sgs_legacy_message message; /* what a record of magic 0 or 1 has beyond that; zero otherwise */
} sgs_iterated_record;

/** Start on a complete batch; its CRC is not looked at. `scratch` and `batch` must outlive the iterator.
 *  @return SGS_INVALID_RECORD, SGS_CORRUPT_RECORD, SGS_UNSUPPORTED_FORMAT (a codec id from 5 to 7), or a codec status.
 *          Where a stream breaks in its middle and the kind of iteration allows it, SGS_OK: iterator->break_ is what
 *          the call behind the last whole record will return. */
sgs_status sgs_record_iterator_open(const uint8_t *batch, size_t size, sgs_iteration kind,
                                    const sgs_codec_table *codecs, sgs_buffer *scratch, sgs_record_iterator *iterator,
                                    sgs_error *err);
/** First offset of the batch; before the first call of next. @return as sgs_legacy_reader_base_offset */
sgs_status sgs_record_iterator_base_offset(const sgs_record_iterator *iterator, int64_t *offset, sgs_error *err);
/** @param found  false behind the last record
 *  @return SGS_INVALID_RECORD, or what broke the stream; the iteration is over then */
sgs_status sgs_record_iterator_next(sgs_record_iterator *iterator, sgs_iterated_record *record, bool *found,
                                    sgs_error *err);

#endif
