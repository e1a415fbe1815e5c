/* One message of magic 0 or 1, cut out of anything. It is read or refused within its bytes; written again it is the same
 * bytes, and another timestamp changes nothing but timestamp, type and CRC. [format.md 7.1, 7.2; DUR-85, DUR-91]
 * INPUT   1 byte of flags, 8 bytes timestamp, then the message.   ORACLE  the format written out plainly. */
#include "record/legacy_message.h"

#include <string.h>

#include "base/bytes.h"
#include "base/crc32.h"
#include "fuzz/fuzz_input.h"

enum { AS_IT_IS = 1, LOG_APPEND_TIME = 2, MAGIC_0 = 4 };

static void mend(uint8_t *message, size_t size, bool magic_0)
{
    if (size < SGS_LEGACY_V0_OVERHEAD)
        return;
    sgs_store_be32(message + 8, (uint32_t)(size - 12));
    message[16] = magic_0 ? 0 : 1;
    sgs_store_be32(message + 12, sgs_crc32(0, message + 16, size - 16));
}

/* A size and as many bytes at `at`. @return where they end, -1 when that is beyond `end` */
static int64_t plain_bytes(const uint8_t *data, int64_t at, int64_t end, sgs_bytes *bytes)
{
    if (at > end - 4)
        return -1;
    const int32_t size = sgs_load_be_i32(data + at);
    *bytes = (sgs_bytes){ size < 0 ? NULL : data + at + 4, size < 0 ? -1 : size };
    if (size < 0)
        return at + 4;
    return size > end - at - 4 ? -1 : at + 4 + size;
}

/* @return where the value ends, 0 for a size that cannot be, -1 for key or value beyond the message */
static int64_t plain_parse(const uint8_t *data, size_t size, sgs_bytes *key, sgs_bytes *value)
{
    if (size < SGS_LEGACY_V0_OVERHEAD)
        return 0;
    const int64_t length = sgs_load_be_i32(data + 8);
    if (length < 14 || length > (int64_t)size - 12)
        return 0;
    const int64_t at = plain_bytes(data, data[16] == 0 ? 18 : 26, 12 + length, key);
    return at < 0 ? -1 : plain_bytes(data, at, 12 + length, value);
}

static bool same(sgs_bytes a, sgs_bytes b) { return a.size == b.size && a.data == b.data; }

static void check_written(const sgs_legacy_message *message, int64_t end)
{
    const int64_t size = sgs_legacy_message_size(message->magic, message->key, message->value);
    FUZZ_CHECK(size == end);
    uint8_t *const again = malloc((size_t)size);
    FUZZ_CHECK(again != NULL);
    const uint8_t *const behind = sgs_legacy_message_write(again, message->magic, message->offset, message->timestamp,
                                                           message->attributes, message->key, message->value);
    FUZZ_CHECK(behind == again + size);
    sgs_legacy_message reread;
    sgs_error err;
    FUZZ_CHECK(sgs_legacy_message_parse(again, (size_t)size, &reread, &err) == SGS_OK);
    FUZZ_CHECK(sgs_legacy_message_is_valid(&reread));
    FUZZ_CHECK(reread.key.size == message->key.size && reread.value.size == message->value.size);
    /* sizes below -1 become -1; without them and without bytes behind the value, nothing changes */
    const size_t key_at = message->magic == 0 ? 18 : 26;
    const bool is_canonical =
        message->size_bytes == size && sgs_load_be_i32(message->start + key_at) >= -1 &&
        sgs_load_be_i32(again + size - 4 - (message->value.size > 0 ? message->value.size : 0)) ==
            sgs_load_be_i32(message->start + size - 4 - (message->value.size > 0 ? message->value.size : 0));
    if (is_canonical && sgs_legacy_message_is_valid(message))
        FUZZ_CHECK(memcmp(again, message->start, (size_t)size) == 0);
    free(again);
}

static void check_stamping(uint8_t *message, size_t size, bool log_append_time, int64_t timestamp)
{
    uint8_t *const before = malloc(size);
    sgs_error err;
    FUZZ_CHECK(before != NULL);
    memcpy(before, message, size);
    const sgs_status status = sgs_legacy_message_set_timestamp(message, size, log_append_time, timestamp, &err);
    FUZZ_CHECK(status == (before[16] == 0                 ? SGS_ILLEGAL_ARGUMENT
                          : size < SGS_LEGACY_V1_OVERHEAD ? SGS_CORRUPT_RECORD
                                                          : SGS_OK));
    const bool was_log_append_time = (before[17] & 8) != 0;
    if (status != SGS_OK || (was_log_append_time == log_append_time && sgs_load_be_i64(before + 18) == timestamp)) {
        FUZZ_CHECK(memcmp(message, before, size) == 0);
    } else {
        FUZZ_CHECK(memcmp(message, before, 12) == 0 && message[16] == before[16]);
        FUZZ_CHECK(message[17] == ((before[17] & 7) | (log_append_time ? 8 : 0)));
        FUZZ_CHECK(sgs_load_be_i64(message + 18) == timestamp);
        FUZZ_CHECK(memcmp(message + 26, before + 26, size - 26) == 0);
        FUZZ_CHECK(sgs_load_be32(message + 12) == sgs_crc32(0, message + 16, size - 16));
    }
    free(before);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_input input = { data, size };
    const uint8_t flags = fuzz_take_u8(&input);
    const int64_t timestamp = (int64_t)fuzz_take_u64(&input);
    uint8_t *const bytes = malloc(input.size + 1);
    FUZZ_CHECK(bytes != NULL);
    if (input.size > 0)
        memcpy(bytes + 1, input.bytes, input.size);
    if ((flags & AS_IT_IS) == 0)
        mend(bytes + 1, input.size, (flags & MAGIC_0) != 0);
    sgs_legacy_message message;
    sgs_bytes key, value;
    sgs_error err;
    const int64_t end = plain_parse(bytes + 1, input.size, &key, &value);
    const sgs_status status = sgs_legacy_message_parse(bytes + 1, input.size, &message, &err);
    FUZZ_CHECK(status == (end > 0 ? SGS_OK : end < 0 ? SGS_INVALID_RECORD : SGS_CORRUPT_RECORD));
    FUZZ_CHECK(status == SGS_OK || (err.status == status && err.message[0] != '\0'));
    if (status == SGS_OK) {
        FUZZ_CHECK(same(message.key, key) && same(message.value, value));
        FUZZ_CHECK(message.size_bytes == 12 + sgs_load_be_i32(bytes + 1 + 8) && message.magic == (int8_t)bytes[1 + 16]);
        FUZZ_CHECK(message.timestamp == (message.magic == 0 ? -1 : sgs_load_be_i64(bytes + 1 + 18)));
        if (message.magic == 0 || message.magic == 1)
            check_written(&message, end);
        check_stamping(bytes + 1, (size_t)message.size_bytes, (flags & LOG_APPEND_TIME) != 0, timestamp);
    }
    free(bytes);
    return 0;
}
