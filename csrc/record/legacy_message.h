/* legacy_message.h - one message of magic 0 or 1 [format.md 7.1], Kafka LegacyRecord; big-endian.
 *
 *      0 offset i64 | 8 size i32 (bytes after this field) | 12 crc u32 (CRC-32 over bytes 16 to the end) | 16 magic i8
 *     17 attributes i8: codec, and timestamp type at magic 1 | 18 timestamp i64, magic 1 only
 *        | key size i32 and key | value size i32 and value
 * A size below 0 is null. What follows the value is ignored, as Kafka does. Nothing is copied: key and value point into
 * the bytes they were read from. Input is hostile [DUR-85]. */
#ifndef SGS_RECORD_LEGACY_MESSAGE_H
#define SGS_RECORD_LEGACY_MESSAGE_H

#include "record/record.h"

enum { SGS_LEGACY_V0_OVERHEAD = 26, SGS_LEGACY_V1_OVERHEAD = 34 }; /* key and value empty, prefix included */

typedef enum sgs_timestamp_type {
    SGS_NO_TIMESTAMP_TYPE = -1,
    SGS_CREATE_TIME = 0,
    SGS_LOG_APPEND_TIME = 1,
} sgs_timestamp_type;

typedef struct sgs_legacy_message {
    int64_t offset;    /* as stored by sgs_legacy_message_parse, absolute by sgs_legacy_reader_next */
    int64_t timestamp; /* -1 at magic 0 */
    sgs_bytes key, value;
    const uint8_t *start; /* the message's first byte */
    uint32_t crc;         /* as stored */
    int32_t size_bytes;   /* whole message, prefix included */
    int8_t magic;         /* anything but 0 is laid out as 1, as in Kafka */
    int8_t timestamp_type;
    uint8_t attributes;
} sgs_legacy_message;

/** Parse the message at the start of `data`. The CRC is not looked at.
 *  @return SGS_CORRUPT_RECORD: a size below 14 or beyond `size`; SGS_INVALID_RECORD: a key or value that reaches beyond
 *          the message */
sgs_status sgs_legacy_message_parse(const uint8_t *data, size_t size, sgs_legacy_message *message, sgs_error *err);
/** Whether the stored CRC is that of the bytes. */
bool sgs_legacy_message_is_valid(const sgs_legacy_message *message);

/** Bytes of a message, prefix included. `magic` is 0 or 1. */
int64_t sgs_legacy_message_size(int8_t magic, sgs_bytes key, sgs_bytes value);
/** Write a message at `out`, which has room for sgs_legacy_message_size bytes. `attributes` as stored: codec, and
 *  SGS_ATTRIBUTE_LOG_APPEND_TIME at magic 1. @return the byte behind it */
uint8_t *sgs_legacy_message_write(uint8_t *out, int8_t magic, int64_t offset, int64_t timestamp, unsigned attributes,
                                  sgs_bytes key, sgs_bytes value);
/** Give a message, or a wrapper with all that is in it at magic 1, another offset; the CRC does not cover it. */
void sgs_legacy_message_set_offset(uint8_t *message, int64_t offset);
/** Give a complete message another timestamp and type, as Kafka's setMaxTimestamp does: attributes and CRC follow,
 *  unless type and timestamp are what they were [format.md 7.2].
 *  @return SGS_ILLEGAL_ARGUMENT at magic 0, which has no timestamp */
sgs_status sgs_legacy_message_set_timestamp(uint8_t *message, size_t size, bool log_append_time, int64_t timestamp,
                                            sgs_error *err);

#endif
