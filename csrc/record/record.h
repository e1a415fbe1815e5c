/* record.h - one record of magic 2: reading and writing of a batch's record section [format.md 5], Kafka DefaultRecord.
 *
 *     size varint | attributes i8 | timestamp_delta varlong | offset_delta varint | key varint+bytes
 *     | value varint+bytes | header count varint | per header: key varint+bytes, value varint+bytes
 * A size of -1 is null; header keys are never null.
 * Input is hostile: each length is compared with what remains before it is used [DUR-85..DUR-91]. Nothing is copied: a
 * record points into the bytes it was read from and lives as long as they do. */
#ifndef SGS_RECORD_RECORD_H
#define SGS_RECORD_RECORD_H

#include "record/record_batch.h"

typedef struct sgs_bytes { /* borrowed; size -1 is null (then data is NULL) */
    const uint8_t *data;
    int32_t size;
} sgs_bytes;

typedef struct sgs_record_header {
    sgs_bytes key, value;
} sgs_record_header;

typedef struct sgs_record {
    int64_t offset;     /* absolute */
    int64_t timestamp;  /* by the batch's timestamp type: max_timestamp for LogAppendTime */
    int32_t sequence;   /* -1 when the batch has none */
    int32_t size_bytes; /* size varint included */
    sgs_bytes key, value;
    int32_t headers_count;
    sgs_bytes headers; /* the encoded headers, checked; walk them with sgs_record_next_header */
    int8_t attributes;
} sgs_record;

typedef struct sgs_record_reader {
    sgs_batch_header batch;
    const uint8_t *next, *end;
    int64_t max_record_bytes; /* the limit on what was compressed [DUR-92] */
    int32_t remaining_count;
} sgs_record_reader;

/** Start reading `section`: the record section of `batch`, decompressed when the batch has a codec. Borrowed. */
void sgs_record_reader_init(sgs_record_reader *reader, const sgs_batch_header *batch, const uint8_t *section,
                            size_t size);
/** Neither the order of offsets nor the batch's last offset is checked: brokers accept such batches, and what is in a
 *  Kafka file can be read [format.md 5, 12.5]. Who hands records out leaves out those whose offset is not above that of
 *  a record before in the batch, as Kafka's consumer does; the validator of appends refuses them [DUR-89].
 *  @param found  false after the last record
 *  @return SGS_OK; SGS_INVALID_RECORD naming the batch's offset: a record that does not end at its declared size, a
 *          negative header key size, bytes left behind the last record, too few records [format.md 5, Reader rules];
 *          SGS_LIMIT_EXCEEDED naming its offset: a record above max_record_bytes */
sgs_status sgs_record_reader_next(sgs_record_reader *reader, sgs_record *record, bool *found, sgs_error *err);
/** The next records, as many as there are and fit. @param count  written on SGS_OK; below `capacity` after the last */
sgs_status sgs_record_reader_next_some(sgs_record_reader *reader, sgs_record *records, size_t capacity, size_t *count,
                                       sgs_error *err);
/** Take the next header off `headers` (which shrinks). The reader has checked them, but they may lie in memory of a caller
 *  who changes them: bounds are looked at again. @return false when there is no header any more */
bool sgs_record_next_header(sgs_bytes *headers, sgs_record_header *header);
/** Fill `err` for headers that were good, and are not now. @return SGS_INVALID_RECORD */
sgs_status sgs_record_fail_changed(sgs_error *err);

/** Bytes that the record takes, size varint included. `headers` may be NULL when the count is 0. */
int64_t sgs_record_size(int64_t timestamp_delta, int32_t offset_delta, sgs_bytes key, sgs_bytes value,
                        const sgs_record_header *headers, int32_t headers_count);
/** Write the record at `out`, which has room for sgs_record_size bytes. @return the byte behind it */
uint8_t *sgs_record_write(uint8_t *out, int64_t timestamp_delta, int32_t offset_delta, sgs_bytes key, sgs_bytes value,
                          const sgs_record_header *headers, int32_t headers_count);
/** Write all of a record but its headers, which the caller puts behind: `headers_bytes` when encoded. The key and
 *  value may lie in the same buffer, at or behind where they go. @return the byte behind the header count */
uint8_t *sgs_record_write_fields(uint8_t *out, int64_t timestamp_delta, int32_t offset_delta, sgs_bytes key,
                                 sgs_bytes value, int32_t headers_count, int64_t headers_bytes);
/** Write a size and as many bytes. @return the byte behind them */
uint8_t *sgs_record_write_bytes(uint8_t *out, sgs_bytes bytes);

#endif
