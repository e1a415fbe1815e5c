/* record_batch.c - loading, storing, sealing and stamping of batch headers. */
#include "record/record_batch.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "base/crc32.h"
#include "base/crc32c.h"

/* positions of the fields [format.md 4]: each is the one before plus its length */
enum {
    BASE_OFFSET_AT = 0,
    LENGTH_AT = BASE_OFFSET_AT + 8,
    PARTITION_LEADER_EPOCH_AT = LENGTH_AT + 4,
    MAGIC_AT = PARTITION_LEADER_EPOCH_AT + 4,
    CRC_AT = MAGIC_AT + 1,
    ATTRIBUTES_AT = CRC_AT + 4,
    LAST_OFFSET_DELTA_AT = ATTRIBUTES_AT + 2,
    BASE_TIMESTAMP_AT = LAST_OFFSET_DELTA_AT + 4,
    MAX_TIMESTAMP_AT = BASE_TIMESTAMP_AT + 8,
    PRODUCER_ID_AT = MAX_TIMESTAMP_AT + 8,
    PRODUCER_EPOCH_AT = PRODUCER_ID_AT + 8,
    BASE_SEQUENCE_AT = PRODUCER_EPOCH_AT + 2,
    RECORDS_COUNT_AT = BASE_SEQUENCE_AT + 4,
    RECORDS_AT = RECORDS_COUNT_AT + 4,
};
_Static_assert(LENGTH_AT + 4 == (int)SGS_LOG_OVERHEAD, "the length counts what follows it");
_Static_assert(MAGIC_AT + 1 == (int)SGS_BATCH_PREFIX_BYTES, "the prefix ends with the magic");
_Static_assert(ATTRIBUTES_AT == (int)SGS_BATCH_CRC_START, "the CRC covers the attributes and all after them");
_Static_assert(RECORDS_AT == (int)SGS_BATCH_HEADER_BYTES, "Kafka RECORD_BATCH_OVERHEAD");
_Static_assert(sizeof(sgs_batch_header) == 80, "Python reads the rows as a structured array");
_Static_assert(offsetof(sgs_batch_header, padding) + 7 == sizeof(sgs_batch_header), "no holes");

/* positions in a message of magic 0 or 1 [format.md 7.1] */
enum {
    LEGACY_CRC_AT = 12,
    LEGACY_CRC_START = MAGIC_AT,
    LEGACY_ATTRIBUTES_AT = MAGIC_AT + 1,
    LEGACY_TIMESTAMP_AT = LEGACY_ATTRIBUTES_AT + 1, /* magic 1 only */
};
_Static_assert(LEGACY_TIMESTAMP_AT + 8 == SGS_LOG_OVERHEAD + SGS_LEGACY_MESSAGE_MIN_BYTES,
               "the smallest message has it");

static int64_t add_saturating(int64_t value, int64_t delta)
{
    int64_t sum;
    if (__builtin_add_overflow(value, delta, &sum))
        return delta < 0 ? INT64_MIN : INT64_MAX;
    return sum;
}

static void load_legacy(const uint8_t *batch, sgs_batch_header *header)
{
    const uint8_t attributes = batch[LEGACY_ATTRIBUTES_AT];
    header->last_offset = header->base_offset;
    /* magic 0 has no timestamp; negative magics are read as magic 0, as Kafka's file scanner does [format.md 9.1] */
    header->max_timestamp = header->magic == 1 ? sgs_load_be_i64(batch + LEGACY_TIMESTAMP_AT) : SGS_NO_TIMESTAMP;
    header->base_timestamp = header->max_timestamp;
    header->producer_id = SGS_NO_PRODUCER_ID;
    header->partition_leader_epoch = SGS_NO_PARTITION_LEADER_EPOCH;
    header->base_sequence = SGS_NO_SEQUENCE;
    header->records_count = (attributes & SGS_ATTRIBUTE_CODEC_MASK) == 0 ? 1 : -1; /* a wrapper has to be opened */
    header->crc = sgs_load_be32(batch + LEGACY_CRC_AT);
    header->attributes = attributes;
    header->producer_epoch = SGS_NO_PRODUCER_EPOCH;
}

static void load_v2(const uint8_t *batch, sgs_batch_header *header)
{
    header->last_offset = add_saturating(header->base_offset, sgs_load_be_i32(batch + LAST_OFFSET_DELTA_AT));
    header->base_timestamp = sgs_load_be_i64(batch + BASE_TIMESTAMP_AT);
    header->max_timestamp = sgs_load_be_i64(batch + MAX_TIMESTAMP_AT);
    header->producer_id = sgs_load_be_i64(batch + PRODUCER_ID_AT);
    header->partition_leader_epoch = sgs_load_be_i32(batch + PARTITION_LEADER_EPOCH_AT);
    header->base_sequence = sgs_load_be_i32(batch + BASE_SEQUENCE_AT);
    header->records_count = sgs_load_be_i32(batch + RECORDS_COUNT_AT);
    header->crc = sgs_load_be32(batch + CRC_AT);
    header->attributes = sgs_load_be_i16(batch + ATTRIBUTES_AT);
    header->producer_epoch = sgs_load_be_i16(batch + PRODUCER_EPOCH_AT);
}

/* Every field is read once: the bytes may be a caller's, and change meanwhile.
 * is_whole: all bytes of the batch must be there, not those of its header alone */
static inline sgs_status load(const uint8_t *batch, size_t size, int64_t position, bool is_whole,
                              sgs_batch_header *header, sgs_error *err)
{
    if (size < SGS_BATCH_PREFIX_BYTES)
        return sgs_fail_at(err, SGS_CORRUPT_RECORD, position, "a batch header of at least 17 bytes", "%zu bytes", size);
    const int32_t length = sgs_load_be_i32(batch + LENGTH_AT);
    const int8_t magic = (int8_t)batch[MAGIC_AT];
    const bool legacy = magic < 2;
    const int32_t least = legacy ? SGS_LEGACY_MESSAGE_MIN_BYTES : SGS_BATCH_HEADER_BYTES - SGS_LOG_OVERHEAD;
    if (length < least || length > INT32_MAX - SGS_LOG_OVERHEAD)
        return sgs_fail_at(err, SGS_CORRUPT_RECORD, position,
                           legacy ? "a message length from 14" : "a batch length from 49", "%" PRId32, length);
    if (size < (size_t)least + SGS_LOG_OVERHEAD)
        return sgs_fail_at(err, SGS_CORRUPT_RECORD, position,
                           legacy ? "a message header of 26 bytes" : "a batch header of 61 bytes", "%zu bytes", size);
    const int32_t size_bytes = SGS_LOG_OVERHEAD + length;
    if (is_whole && size < (size_t)size_bytes)
        return sgs_fail_at(err, SGS_CORRUPT_RECORD, position, "a complete batch", "%zu of %" PRId32 " bytes", size,
                           size_bytes);
    /* Nothing fails from here on, so the row is written in its place: a copy of one that was just made stalls. */
    header->position = position;
    header->base_offset = sgs_load_be_i64(batch + BASE_OFFSET_AT);
    header->size_bytes = size_bytes;
    header->magic = magic;
    memset(header->padding, 0, sizeof header->padding);
    if (legacy)
        load_legacy(batch, header);
    else
        load_v2(batch, header);
    return SGS_OK;
}

sgs_status sgs_batch_header_peek(const uint8_t *batch, size_t size, int64_t position, sgs_batch_header *header,
                                 sgs_error *err)
{
    return load(batch, size, position, false, header, err);
}

sgs_status sgs_batch_header_load(const uint8_t *batch, size_t size, int64_t position, sgs_batch_header *header,
                                 sgs_error *err)
{
    return load(batch, size, position, true, header, err);
}

sgs_status sgs_batch_first_size(const uint8_t *prefix, int32_t *size, sgs_error *err)
{
    const int32_t length = sgs_load_be_i32(prefix + LENGTH_AT);
    if (length < SGS_LEGACY_MESSAGE_MIN_BYTES || length > INT32_MAX - SGS_LOG_OVERHEAD)
        return sgs_fail_at(err, SGS_CORRUPT_RECORD, 0, "a batch length from 14", "%" PRId32, length);
    const int8_t magic = (int8_t)prefix[MAGIC_AT];
    if (magic < 0 || magic > 2)
        return sgs_fail_at(err, SGS_CORRUPT_RECORD, 0, "magic 0, 1 or 2", "%d", magic);
    *size = SGS_LOG_OVERHEAD + length;
    return SGS_OK;
}

void sgs_batch_header_store(const sgs_batch_header *header, uint8_t *batch)
{
    SGS_EXPECT(header->magic == 2);
    SGS_EXPECT(header->size_bytes >= SGS_BATCH_HEADER_BYTES);
    sgs_store_be_i64(batch + BASE_OFFSET_AT, header->base_offset);
    sgs_store_be_i32(batch + LENGTH_AT, header->size_bytes - SGS_LOG_OVERHEAD);
    sgs_store_be_i32(batch + PARTITION_LEADER_EPOCH_AT, header->partition_leader_epoch);
    batch[MAGIC_AT] = (uint8_t)header->magic;
    sgs_store_be32(batch + CRC_AT, header->crc);
    sgs_store_be_i16(batch + ATTRIBUTES_AT, header->attributes);
    sgs_store_be_i32(batch + LAST_OFFSET_DELTA_AT, (int32_t)(header->last_offset - header->base_offset));
    sgs_store_be_i64(batch + BASE_TIMESTAMP_AT, header->base_timestamp);
    sgs_store_be_i64(batch + MAX_TIMESTAMP_AT, header->max_timestamp);
    sgs_store_be_i64(batch + PRODUCER_ID_AT, header->producer_id);
    sgs_store_be_i16(batch + PRODUCER_EPOCH_AT, header->producer_epoch);
    sgs_store_be_i32(batch + BASE_SEQUENCE_AT, header->base_sequence);
    sgs_store_be_i32(batch + RECORDS_COUNT_AT, header->records_count);
}

uint32_t sgs_batch_compute_crc(const uint8_t *batch, size_t size)
{
    SGS_EXPECT(size >= SGS_BATCH_CRC_START);
    return sgs_crc32c(0, batch + SGS_BATCH_CRC_START, size - SGS_BATCH_CRC_START);
}

uint32_t sgs_batch_seal(uint8_t *batch, size_t size)
{
    const uint32_t crc = sgs_batch_compute_crc(batch, size);
    sgs_store_be32(batch + CRC_AT, crc);
    return crc;
}

sgs_status sgs_batch_check(const uint8_t *batch, size_t size, int64_t position, sgs_error *err)
{
    if (size < SGS_BATCH_PREFIX_BYTES)
        return sgs_fail_at(err, SGS_CORRUPT_RECORD, position, "a batch of at least 17 bytes", "%zu bytes", size);
    uint32_t stored, computed;
    if ((int8_t)batch[MAGIC_AT] >= 2) {
        if (size < SGS_BATCH_HEADER_BYTES)
            return sgs_fail_at(err, SGS_CORRUPT_RECORD, position, "a batch of at least 61 bytes", "%zu bytes", size);
        stored = sgs_load_be32(batch + CRC_AT);
        computed = sgs_batch_compute_crc(batch, size);
    } else {
        if (size < SGS_LOG_OVERHEAD + SGS_LEGACY_MESSAGE_MIN_BYTES)
            return sgs_fail_at(err, SGS_CORRUPT_RECORD, position, "a message of at least 26 bytes", "%zu bytes", size);
        stored = sgs_load_be32(batch + LEGACY_CRC_AT);
        computed = sgs_crc32(0, batch + LEGACY_CRC_START, size - LEGACY_CRC_START);
    }
    if (stored == computed)
        return SGS_OK;
    char expected[SGS_ERROR_VALUE_BYTES];
    (void)snprintf(expected, sizeof expected, "CRC %" PRIu32 " of its bytes", computed);
    return sgs_fail_at(err, SGS_CORRUPT_RECORD, position, expected, "CRC %" PRIu32 " in the header", stored);
}

void sgs_batch_set_last_offset(uint8_t *batch, int64_t last_offset)
{
    const int64_t delta = sgs_load_be_i32(batch + LAST_OFFSET_DELTA_AT);
    /* unsigned: Java's wrap-around, should somebody stamp nonsense into nonsense */
    sgs_store_be64(batch + BASE_OFFSET_AT, (uint64_t)last_offset - (uint64_t)delta);
}

void sgs_batch_set_leader_epoch(uint8_t *batch, int32_t epoch)
{
    sgs_store_be_i32(batch + PARTITION_LEADER_EPOCH_AT, epoch);
}

void sgs_batch_set_max_timestamp_apart(uint8_t *header, const uint8_t *records, size_t records_size,
                                       bool log_append_time, int64_t timestamp)
{
    const uint16_t attributes = sgs_load_be16(header + ATTRIBUTES_AT);
    const bool was_log_append_time = (attributes & SGS_ATTRIBUTE_LOG_APPEND_TIME) != 0;
    if (was_log_append_time == log_append_time && sgs_load_be_i64(header + MAX_TIMESTAMP_AT) == timestamp)
        return; /* not even unknown attribute bits are touched [format.md 4.6] */
    const unsigned kept = attributes & SGS_ATTRIBUTE_KNOWN_MASK & ~(unsigned)SGS_ATTRIBUTE_LOG_APPEND_TIME;
    const unsigned type = log_append_time ? SGS_ATTRIBUTE_LOG_APPEND_TIME : 0;
    sgs_store_be16(header + ATTRIBUTES_AT, (uint16_t)(kept | type));
    sgs_store_be_i64(header + MAX_TIMESTAMP_AT, timestamp);
    const uint32_t crc_of_header = sgs_batch_compute_crc(header, SGS_BATCH_HEADER_BYTES);
    sgs_store_be32(header + CRC_AT, sgs_crc32c(crc_of_header, records, records_size));
}

void sgs_batch_set_max_timestamp(uint8_t *batch, size_t size, bool log_append_time, int64_t timestamp)
{
    SGS_EXPECT(size >= SGS_BATCH_HEADER_BYTES);
    sgs_batch_set_max_timestamp_apart(batch, batch + SGS_BATCH_HEADER_BYTES, size - SGS_BATCH_HEADER_BYTES,
                                      log_append_time, timestamp);
}

void sgs_batch_set_producer_state(uint8_t *batch, size_t size, int64_t producer_id, int16_t producer_epoch,
                                  int32_t base_sequence)
{
    sgs_store_be_i64(batch + PRODUCER_ID_AT, producer_id);
    sgs_store_be_i16(batch + PRODUCER_EPOCH_AT, producer_epoch);
    sgs_store_be_i32(batch + BASE_SEQUENCE_AT, base_sequence);
    sgs_batch_seal(batch, size);
}

bool sgs_batches_are_without_gap(const sgs_batch_header *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (rows[i].magic < 2 || rows[i].last_offset < rows[i].base_offset)
            return false;
        if (i > 0 && (uint64_t)rows[i].base_offset - (uint64_t)rows[i - 1].last_offset != 1)
            return false;
    }
    return true;
}

bool sgs_batches_have_one_epoch(const sgs_batch_header *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (rows[i].magic < 2 || rows[i].partition_leader_epoch != rows[0].partition_leader_epoch)
            return false;
    }
    return count > 0;
}
