/* record_batch.h - the header of one batch, magic 2 (and the common prefix of magic 0 and 1).
 *
 * FILE FORMAT [format.md 3, 4], Kafka DefaultRecordBatch; big-endian, CRC-32C over bytes 21 to the end of the batch:
 *      0 base_offset i64 | 8 length i32 (bytes after this field) | 12 partition_leader_epoch i32 | 16 magic i8
 *     17 crc u32 | 21 attributes i16 | 23 last_offset_delta i32 | 27 base_timestamp i64 | 35 max_timestamp i64
 *     43 producer_id i64 | 51 producer_epoch i16 | 53 base_sequence i32 | 57 records_count i32 | 61 records
 * base_offset, length, partition_leader_epoch and magic are outside the CRC, so a leader stamps them in place. */
#ifndef SGS_RECORD_RECORD_BATCH_H
#define SGS_RECORD_RECORD_BATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* field positions are previous + length; record_batch.c pins them with _Static_assert */
enum {
    SGS_LOG_OVERHEAD = 12,       /* base_offset + length */
    SGS_BATCH_PREFIX_BYTES = 17, /* what every magic shares */
    SGS_BATCH_HEADER_BYTES = 61, /* Kafka RECORD_BATCH_OVERHEAD */
    SGS_BATCH_CRC_START = 21,
    SGS_LEGACY_MESSAGE_MIN_BYTES = 14, /* smallest magic 0 message without the 12 byte prefix */
};

enum { /* attributes */
       SGS_ATTRIBUTE_CODEC_MASK = 0x07,
       SGS_ATTRIBUTE_LOG_APPEND_TIME = 0x08,
       SGS_ATTRIBUTE_TRANSACTIONAL = 0x10,
       SGS_ATTRIBUTE_CONTROL = 0x20,
       SGS_ATTRIBUTE_DELETE_HORIZON = 0x40,
       SGS_ATTRIBUTE_KNOWN_MASK = 0x7f,
};

#define SGS_MAX_OFFSET (INT64_MAX - 1) /* of a record: the log end behind it must be a number too [DUR-89] */
#define SGS_NO_TIMESTAMP INT64_C(-1)
#define SGS_NO_PRODUCER_ID INT64_C(-1)
#define SGS_NO_PRODUCER_EPOCH ((int16_t)-1)
#define SGS_NO_SEQUENCE ((int32_t)-1)
#define SGS_NO_PARTITION_LEADER_EPOCH ((int32_t)-1)

/* One row of the batch-header table: what every later step reads instead of parsing again. Python sees the rows as a
 * NumPy structured array with the same fields and offsets (segstore/_core.pyx, BATCH_HEADER_DTYPE); 80 bytes, no holes.
 * For magic 0 and 1 base_offset == last_offset == the stored offset, the producer fields are -1, both timestamps are
 * the message's (-1 at magic 0), and records_count is 1, or -1 for a compressed wrapper: nobody knows before it is
 * opened. */
typedef struct sgs_batch_header {
    int64_t position; /* byte of the batch's start in the file or buffer that was scanned */
    int64_t base_offset;
    int64_t last_offset;    /* base_offset + last_offset_delta, also after compaction */
    int64_t base_timestamp; /* the delete horizon when SGS_ATTRIBUTE_DELETE_HORIZON is set */
    int64_t max_timestamp;
    int64_t producer_id;
    int32_t size_bytes; /* whole batch, prefix included */
    int32_t partition_leader_epoch;
    int32_t base_sequence;
    int32_t records_count;
    uint32_t crc; /* as stored */
    int16_t attributes;
    int16_t producer_epoch;
    int8_t magic;
    uint8_t padding[7]; /* zero */
} sgs_batch_header;

/** Read the header of a complete magic 2 batch (size >= 61) or the prefix of a legacy one. No CRC, no sums that could
 *  overflow: last_offset saturates at INT64_MAX. `position` is copied into the row.
 *  @return SGS_OK; SGS_CORRUPT_RECORD when `size` bytes cannot hold the header or the declared length */
sgs_status sgs_batch_header_load(const uint8_t *batch, size_t size, int64_t position, sgs_batch_header *header,
                                 sgs_error *err);
/** The same from the header bytes alone (61, or 26 of a legacy message): for a walk that reads nothing but headers.
 *  @return SGS_CORRUPT_RECORD also for a length below 49 (14 in a legacy message) or too large for size_bytes */
sgs_status sgs_batch_header_peek(const uint8_t *batch, size_t size, int64_t position, sgs_batch_header *header,
                                 sgs_error *err);
/** Size of the batch that begins with these SGS_BATCH_PREFIX_BYTES, whether or not the rest is there, Kafka
 *  MemoryRecords.firstBatchSize [format.md 9.1].
 *  @return SGS_CORRUPT_RECORD: a length below 14 or that no batch has, a magic above 2 or below 0 */
sgs_status sgs_batch_first_size(const uint8_t *prefix, int32_t *size, sgs_error *err);
/** Write the 61 header bytes of a magic 2 batch, `crc` included (see sgs_batch_seal). */
void sgs_batch_header_store(const sgs_batch_header *header, uint8_t *batch);
/** Compute and store the CRC of a complete magic 2 batch. @return the CRC */
uint32_t sgs_batch_seal(uint8_t *batch, size_t size);
/** CRC-32C over bytes 21..size (magic 2). Use sgs_batch_check for the comparison. */
uint32_t sgs_batch_compute_crc(const uint8_t *batch, size_t size);
/** "Ensure valid" of format.md 9.2: size >= 61 and the CRC is right; magic 0/1: size and CRC-32.
 *  @return SGS_OK or SGS_CORRUPT_RECORD with position, found and expected */
sgs_status sgs_batch_check(const uint8_t *batch, size_t size, int64_t position, sgs_error *err);

/* in-place edits [format.md 4.6]; none needs a new CRC but set_max_timestamp, which recomputes it when it changes
 * bytes, and set_producer_state */
void sgs_batch_set_last_offset(uint8_t *batch, int64_t last_offset);
void sgs_batch_set_leader_epoch(uint8_t *batch, int32_t epoch);
void sgs_batch_set_max_timestamp(uint8_t *batch, size_t size, bool log_append_time, int64_t timestamp);
/** The same for a header that lies apart from its records. */
void sgs_batch_set_max_timestamp_apart(uint8_t *header, const uint8_t *records, size_t records_size,
                                       bool log_append_time, int64_t timestamp);
/** Who wrote the batch and its first sequence number; recomputes the CRC (magic 2). */
void sgs_batch_set_producer_state(uint8_t *batch, size_t size, int64_t producer_id, int16_t producer_epoch,
                                  int32_t base_sequence);

static inline bool sgs_batch_has_producer(const sgs_batch_header *header) { return header->producer_id >= 0; }
static inline bool sgs_batch_is_control(const sgs_batch_header *header)
{
    return header->magic >= 2 && (header->attributes & SGS_ATTRIBUTE_CONTROL) != 0;
}
/* What the timestamps mean: -1 nothing (magic 0), 0 CreateTime, 1 LogAppendTime. */
static inline int sgs_batch_timestamp_type(const sgs_batch_header *header)
{
    if (header->magic == 0)
        return -1;
    return (header->attributes & SGS_ATTRIBUTE_LOG_APPEND_TIME) != 0;
}
/* Whether a record can have it: one comparison. */
static inline bool sgs_is_offset(int64_t offset) { return (uint64_t)offset <= (uint64_t)SGS_MAX_OFFSET; }
/* The least offset that a record of the batch can have, as far as its row tells: that of a wrapper of magic 0 or 1 is
 * known only after it is opened [format.md 7.2]. */
static inline int64_t sgs_batch_least_offset(const sgs_batch_header *header)
{
    return header->magic < 2 && header->records_count < 0 ? INT64_MIN : header->base_offset;
}
/* Whether its row tells that all its records lie below `offset`. A batch that says that it ends before it begins lies
 * nowhere: a reader opens it and tells of it, and leaves nothing out in silence [DUR-7]. */
static inline bool sgs_batch_lies_below(const sgs_batch_header *header, int64_t offset)
{
    return header->base_offset <= header->last_offset && header->last_offset < offset;
}
/** Whether the rows, one behind the other in a file, have every offset from the first to the last: each begins right
 *  behind the one before it. False for magic 0 and 1, where a row may have only one of the two offsets. */
bool sgs_batches_are_without_gap(const sgs_batch_header *rows, size_t count);
/** Whether there is a row, and all have the same leader epoch. False for magic 0 and 1, which have none. */
bool sgs_batches_have_one_epoch(const sgs_batch_header *rows, size_t count);
/* Sequence numbers wrap to 0 behind INT32_MAX [format.md 4.2], Kafka DefaultRecordBatch.incrementSequence and
 * decrementSequence; a negative `n` is nonsense that wraps as Java's does. */
static inline int32_t sgs_sequence_add(int32_t sequence, int32_t n)
{
    const uint32_t sum = (uint32_t)sequence + (uint32_t)n;
    const bool wraps = sequence > (int32_t)((uint32_t)INT32_MAX - (uint32_t)n);
    return (int32_t)(wraps ? sum - ((uint32_t)INT32_MAX + 1) : sum);
}
static inline int32_t sgs_sequence_subtract(int32_t sequence, int32_t n)
{
    const uint32_t difference = (uint32_t)sequence - (uint32_t)n;
    return (int32_t)(sequence < n ? difference + (uint32_t)INT32_MAX + 1 : difference);
}
static inline int sgs_batch_codec(const sgs_batch_header *header)
{
    return header->attributes & SGS_ATTRIBUTE_CODEC_MASK;
}

#endif
