/* legacy_records.h - the messages of one entry of magic 0 or 1: itself, or those inside a compressed wrapper [format.md
 * 7.2], Kafka AbstractLegacyRecordBatch and its DeepRecordsIterator.
 *
 * A wrapper is opened whole before its first message is known: offsets inside a wrapper of magic 1 are relative to the
 * last. sgs_legacy_section_open goes one step further and writes the messages again as a record section of magic 2, so
 * that everything above the record reader - columns, tuples, look-ups by time - reads one format. */
#ifndef SGS_RECORD_LEGACY_RECORDS_H
#define SGS_RECORD_LEGACY_RECORDS_H

#include "record/codec.h"
#include "record/legacy_message.h"

typedef struct sgs_legacy_reader {
    sgs_batch_header batch;    /* of the entry; base_offset and records_count are those of the messages inside */
    sgs_legacy_message outer;  /* the entry itself */
    const uint8_t *next, *end; /* of the messages inside a wrapper */
    int64_t offset_shift;      /* added to the offsets inside a wrapper of magic 1 */
    int32_t remaining_count;
    bool is_wrapper;
} sgs_legacy_reader;

/** Start on a complete entry; its CRC is not looked at. A wrapper is decompressed into `scratch` (cleared first), which
 *  must outlive the reader, as must `batch`.
 *  @return SGS_INVALID_RECORD: null value, codec zstd, no message inside, an offset below that of the last message
 *          inside, a magic that is neither 0 nor 1 around compressed messages; SGS_CORRUPT_RECORD: a message size below
 *          14 inside; SGS_UNSUPPORTED_FORMAT: codec ids 5 to 7; codec statuses */
sgs_status sgs_legacy_reader_open(const uint8_t *batch, size_t size, const sgs_codec_table *codecs, sgs_buffer *scratch,
                                  sgs_legacy_reader *reader, sgs_error *err);
/** @param message  offset absolute, timestamp and its type by the rules of wrappers
 *  @param found    false behind the last message
 *  @return SGS_INVALID_RECORD: a compressed message in a wrapper, a key or value beyond its message */
sgs_status sgs_legacy_reader_next(sgs_legacy_reader *reader, sgs_legacy_message *message, bool *found, sgs_error *err);
/** Offset of the first message, Kafka AbstractLegacyRecordBatch.baseOffset. Before the first call of next.
 *  @return SGS_INVALID_RECORD, SGS_UNSUPPORTED_FORMAT: the first message inside is compressed */
sgs_status sgs_legacy_reader_base_offset(const sgs_legacy_reader *reader, int64_t *offset, sgs_error *err);
/** Start a record reader on the messages of an entry, written again as a section of magic 2 in `scratch`, over the
 *  messages of a wrapper. reader->batch is the row of the entry with the base offset and the count of its messages; it
 *  keeps its magic, and the append time only when all its messages have it: one of magic 0 has none.
 *  @return as above; SGS_INVALID_RECORD also for offsets below 0 or more than 2^31-1 apart [DUR-89];
 *          SGS_LIMIT_EXCEEDED for a message in a wrapper that is larger than max_record_bytes [DUR-92] */
sgs_status sgs_legacy_section_open(const uint8_t *batch, size_t size, const sgs_codec_table *codecs,
                                   sgs_buffer *scratch, sgs_record_reader *reader, sgs_error *err);

#endif
