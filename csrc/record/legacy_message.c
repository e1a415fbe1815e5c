/* legacy_message.c - Kafka LegacyRecord: parsing, checking, writing. */
#include "record/legacy_message.h"

#include <inttypes.h>
#include <string.h>

#include "base/bytes.h"
#include "base/crc32.h"

/* positions of the fields [format.md 7.1] */
enum {
    SIZE_AT = 8,
    CRC_AT = SGS_LOG_OVERHEAD,
    MAGIC_AT = CRC_AT + 4,
    ATTRIBUTES_AT = MAGIC_AT + 1,
    TIMESTAMP_AT = ATTRIBUTES_AT + 1, /* magic 1; the key size of magic 0 */
    V0_KEY_SIZE_AT = TIMESTAMP_AT,
    V1_KEY_SIZE_AT = TIMESTAMP_AT + 8,
};
_Static_assert(MAGIC_AT + 1 == (int)SGS_BATCH_PREFIX_BYTES, "the prefix ends with the magic");
_Static_assert(V0_KEY_SIZE_AT + 8 == (int)SGS_LEGACY_V0_OVERHEAD, "two sizes after the attributes");
_Static_assert(V1_KEY_SIZE_AT + 8 == (int)SGS_LEGACY_V1_OVERHEAD, "two sizes after the timestamp");

/* A size and as many bytes, all before `end`. */
static bool take_bytes(const uint8_t **at, const uint8_t *end, sgs_bytes *bytes)
{
    if (end - *at < 4)
        return false;
    const int32_t size = sgs_load_be_i32(*at);
    *at += 4;
    if (size > end - *at)
        return false;
    *bytes = size < 0 ? (sgs_bytes){ NULL, -1 } : (sgs_bytes){ *at, size };
    *at += size < 0 ? 0 : size;
    return true;
}

sgs_status sgs_legacy_message_parse(const uint8_t *data, size_t size, sgs_legacy_message *message, sgs_error *err)
{
    const int32_t length = size < SGS_LEGACY_V0_OVERHEAD ? -1 : sgs_load_be_i32(data + SIZE_AT);
    if (length < SGS_LEGACY_MESSAGE_MIN_BYTES || (size_t)length > size - SGS_LOG_OVERHEAD)
        return sgs_fail(err, SGS_CORRUPT_RECORD, "a message of %" PRId32 " bytes in %zu", length, size);
    const int64_t offset = sgs_load_be_i64(data);
    const int8_t magic = (int8_t)data[MAGIC_AT];
    const uint8_t *const end = data + SGS_LOG_OVERHEAD + length;
    if (magic != 0 && end - data < SGS_LEGACY_V1_OVERHEAD)
        return sgs_fail(err, SGS_INVALID_RECORD, "message at offset %" PRId64 ": %td bytes, magic 1 has 34 at least",
                        offset, end - data);
    const uint8_t *at = data + (magic == 0 ? V0_KEY_SIZE_AT : V1_KEY_SIZE_AT);
    sgs_bytes key, value;
    if (!take_bytes(&at, end, &key))
        return sgs_fail(err, SGS_INVALID_RECORD, "message at offset %" PRId64 ": its key reaches beyond it", offset);
    if (!take_bytes(&at, end, &value))
        return sgs_fail(err, SGS_INVALID_RECORD, "message at offset %" PRId64 ": its value reaches beyond it", offset);
    const uint8_t attributes = data[ATTRIBUTES_AT];
    const bool log_append_time = (attributes & SGS_ATTRIBUTE_LOG_APPEND_TIME) != 0;
    *message = (sgs_legacy_message){
        .offset = offset,
        .timestamp = magic == 0 ? SGS_NO_TIMESTAMP : sgs_load_be_i64(data + TIMESTAMP_AT),
        .key = key,
        .value = value,
        .start = data,
        .crc = sgs_load_be32(data + CRC_AT),
        .size_bytes = SGS_LOG_OVERHEAD + length,
        .magic = magic,
        .timestamp_type = magic == 0        ? SGS_NO_TIMESTAMP_TYPE
                          : log_append_time ? SGS_LOG_APPEND_TIME
                                            : SGS_CREATE_TIME,
        .attributes = attributes,
    };
    return SGS_OK;
}

static uint32_t compute_crc(const uint8_t *message, size_t size)
{
    return sgs_crc32(0, message + MAGIC_AT, size - MAGIC_AT);
}

bool sgs_legacy_message_is_valid(const sgs_legacy_message *message)
{
    return message->crc == compute_crc(message->start, (size_t)message->size_bytes);
}

static int64_t bytes_size(sgs_bytes bytes) { return bytes.size < 0 ? 0 : bytes.size; }

int64_t sgs_legacy_message_size(int8_t magic, sgs_bytes key, sgs_bytes value)
{
    return (magic == 0 ? SGS_LEGACY_V0_OVERHEAD : SGS_LEGACY_V1_OVERHEAD) + bytes_size(key) + bytes_size(value);
}

static uint8_t *write_bytes(uint8_t *out, sgs_bytes bytes)
{
    sgs_store_be_i32(out, bytes.size < 0 ? -1 : bytes.size);
    out += 4;
    if (bytes.size <= 0)
        return out;
    memmove(out, bytes.data, (size_t)bytes.size); /* the value of a wrapper is where it belongs already */
    return out + bytes.size;
}

uint8_t *sgs_legacy_message_write(uint8_t *out, int8_t magic, int64_t offset, int64_t timestamp, unsigned attributes,
                                  sgs_bytes key, sgs_bytes value)
{
    const int64_t size = sgs_legacy_message_size(magic, key, value);
    SGS_EXPECT(magic == 0 || magic == 1);
    SGS_EXPECT(size <= INT32_MAX);
    sgs_store_be_i64(out, offset);
    sgs_store_be_i32(out + SIZE_AT, (int32_t)(size - SGS_LOG_OVERHEAD));
    out[MAGIC_AT] = (uint8_t)magic;
    out[ATTRIBUTES_AT] = (uint8_t)attributes;
    if (magic == 1)
        sgs_store_be_i64(out + TIMESTAMP_AT, timestamp);
    uint8_t *const end = write_bytes(write_bytes(out + (magic == 0 ? V0_KEY_SIZE_AT : V1_KEY_SIZE_AT), key), value);
    SGS_EXPECT(end - out == size);
    sgs_store_be32(out + CRC_AT, compute_crc(out, (size_t)size));
    return end;
}

void sgs_legacy_message_set_offset(uint8_t *message, int64_t offset) { sgs_store_be_i64(message, offset); }

sgs_status sgs_legacy_message_set_timestamp(uint8_t *message, size_t size, bool log_append_time, int64_t timestamp,
                                            sgs_error *err)
{
    if (message[MAGIC_AT] == 0)
        return sgs_fail(err, SGS_ILLEGAL_ARGUMENT, "a message of magic 0 has no timestamp to set");
    if (size < SGS_LEGACY_V1_OVERHEAD)
        return sgs_fail(err, SGS_CORRUPT_RECORD, "a message of %zu bytes, magic 1 has 34 at least", size);
    const unsigned attributes = message[ATTRIBUTES_AT];
    const bool was_log_append_time = (attributes & SGS_ATTRIBUTE_LOG_APPEND_TIME) != 0;
    if (was_log_append_time == log_append_time && sgs_load_be_i64(message + TIMESTAMP_AT) == timestamp)
        return SGS_OK;
    const unsigned type = log_append_time ? SGS_ATTRIBUTE_LOG_APPEND_TIME : 0;
    message[ATTRIBUTES_AT] = (uint8_t)((attributes & SGS_ATTRIBUTE_CODEC_MASK) | type);
    sgs_store_be_i64(message + TIMESTAMP_AT, timestamp);
    sgs_store_be32(message + CRC_AT, compute_crc(message, size));
    return SGS_OK;
}
