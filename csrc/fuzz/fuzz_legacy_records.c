/* A log of old holds messages and wrappers of magic 0 and 1, and after a crash anything at all. Opening an entry and
 * reading its messages must work or say why, agree with the format written out plainly, and never read outside the
 * entry; the same messages read as records of magic 2 are the same; and what was read, built again, reads the same.
 * [format.md 7; DUR-85..DUR-94]
 * INPUT   one byte of flags, then the entry.   ORACLE  the parser below; the builder; the record reader. */
#include "base/bytes.h"
#include "base/crc32.h"
#include "fuzz/fuzz_input.h"
#include "record/legacy_builder.h"
#include "record/legacy_records.h"
#include "record/record_section.h"
#include "record_kit.h"

#include <limits.h>
#include <string.h>

enum { AS_IT_IS = 1, MAGIC_0 = 2, MESSAGES_MAX = 256, ENTRY_MIN_BYTES = 26, TOO_MANY = -2 };

typedef struct plain_message {
    int64_t offset, timestamp;
    sgs_bytes key, value;
} plain_message;

/* Give the entry a length, magic 0 or 1, and a CRC. */
static void mend(uint8_t *entry, size_t size, bool magic_0)
{
    if (size < ENTRY_MIN_BYTES)
        return;
    sgs_store_be32(entry + 8, (uint32_t)(size - 12));
    entry[16] = magic_0 ? 0 : 1;
    sgs_store_be32(entry + 12, sgs_crc32(0, entry + 16, size - 16));
}

static bool plain_bytes(const uint8_t **at, const uint8_t *end, sgs_bytes *bytes)
{
    if (end - *at < 4)
        return false;
    const int64_t size = (int32_t)sgs_load_be32(*at);
    *at += 4;
    if (size > end - *at)
        return false;
    *bytes = (sgs_bytes){ size < 0 ? NULL : *at, size < 0 ? -1 : (int32_t)size };
    *at += size < 0 ? 0 : size;
    return true;
}

/* One message of `size` bytes. */
static bool plain_parse(const uint8_t *data, int64_t size, plain_message *message)
{
    const bool magic_0 = data[16] == 0;
    const uint8_t *at = data + (magic_0 ? 18 : 26);
    if (!magic_0 && size < 34)
        return false;
    message->offset = (int64_t)sgs_load_be64(data);
    message->timestamp = magic_0 ? -1 : (int64_t)sgs_load_be64(data + 18);
    return plain_bytes(&at, data + size, &message->key) && plain_bytes(&at, data + size, &message->value);
}

/* All messages of an entry. @return how many, -1 when it is none, TOO_MANY for this oracle; whatever is wrong, all of it is wrong */
static int64_t plain_read(const uint8_t *entry, int64_t size, sgs_buffer *content, plain_message *messages)
{
    sgs_error err;
    plain_message outer;
    const int codec = entry[17] & 7;
    const uint8_t magic = entry[16];
    if (codec == 0) {
        return plain_parse(entry, size, messages) ? 1 : -1;
    }
    if (magic > 1 || codec > 3 || !plain_parse(entry, size, &outer) || outer.value.size < 0)
        return -1;
    if (sgs_codec_decompress(kit_codecs(), codec, outer.value.data, (size_t)outer.value.size, content, &err) != SGS_OK)
        return -1;
    int64_t count = 0, last_offset = 0;
    for (size_t at = 0; content->size - at >= 12;) {
        const int64_t length = (int32_t)sgs_load_be32(content->data + at + 8);
        if (length < 14)
            return -1;
        if (length > (int64_t)(content->size - at) - 12)
            break;
        const uint8_t *const start = content->data + at;
        if (count == MESSAGES_MAX)
            return TOO_MANY;
        if ((start[17] & 7) != 0 || !plain_parse(start, 12 + length, &messages[count]))
            return -1;
        last_offset = messages[count].offset;
        if (magic == 1 && start[16] == 1 && (entry[17] & 8) != 0)
            messages[count].timestamp = outer.timestamp;
        ++count;
        at += 12 + (size_t)length;
    }
    if (count == 0 || (magic == 1 && outer.offset != 0 && outer.offset < last_offset))
        return -1;
    const uint64_t shift = magic == 1 && outer.offset != 0 ? (uint64_t)outer.offset - (uint64_t)last_offset : 0;
    for (int64_t i = 0; i < count; ++i)
        messages[i].offset = (int64_t)((uint64_t)messages[i].offset + shift);
    return count;
}

static bool same_bytes(sgs_bytes a, sgs_bytes b)
{
    return a.size == b.size && (a.data == NULL) == (b.data == NULL) &&
           (a.size <= 0 || memcmp(a.data, b.data, (size_t)a.size) == 0);
}

/* Read with the reader and compare. @return whether all of it could be read */
static bool check_reader(const uint8_t *entry, size_t size, const plain_message *messages, int64_t count)
{
    sgs_buffer scratch;
    sgs_legacy_reader reader;
    sgs_error err;
    sgs_buffer_init(&scratch, kit_memory());
    sgs_status status = sgs_legacy_reader_open(entry, size, kit_codecs(), &scratch, &reader, &err);
    for (int64_t i = 0; status == SGS_OK; ++i) {
        sgs_legacy_message message;
        bool found;
        status = sgs_legacy_reader_next(&reader, &message, &found, &err);
        FUZZ_CHECK(status != SGS_OK || count < 0 || found == (i < count));
        if (status != SGS_OK || !found)
            break;
        if (count >= 0) {
            FUZZ_CHECK(message.offset == messages[i].offset && message.timestamp == messages[i].timestamp);
            FUZZ_CHECK(same_bytes(message.key, messages[i].key) && same_bytes(message.value, messages[i].value));
            FUZZ_CHECK(i > 0 || reader.batch.base_offset == message.offset);
        }
        FUZZ_CHECK(message.start + message.size_bytes <= (reader.is_wrapper ? reader.end : entry + size));
        (void)sgs_legacy_message_is_valid(&message);
    }
    FUZZ_CHECK((status == SGS_OK) == (count >= 0));
    FUZZ_CHECK(status == SGS_OK || err.message[0] != '\0');
    sgs_buffer_deinit(&scratch);
    return status == SGS_OK;
}

/* The record reader sees the same messages, or refuses offsets that are none. */
static void check_section(const uint8_t *entry, size_t size, const plain_message *messages, int64_t count)
{
    sgs_buffer scratch;
    sgs_record_reader reader;
    sgs_error err;
    sgs_buffer_init(&scratch, kit_memory());
    const sgs_status status = sgs_record_section_open(entry, size, false, kit_codecs(), &scratch, &reader, &err);
    FUZZ_CHECK(status == SGS_OK || status == SGS_INVALID_RECORD || status == SGS_UNSUPPORTED_FORMAT);
    for (int64_t i = 0; status == SGS_OK && i <= count; ++i) {
        sgs_record record;
        bool found;
        FUZZ_CHECK(sgs_record_reader_next(&reader, &record, &found, &err) == SGS_OK);
        FUZZ_CHECK(found == (i < count));
        if (!found)
            break;
        FUZZ_CHECK(record.offset == messages[i].offset);
        FUZZ_CHECK(record.timestamp == messages[i].timestamp);
        FUZZ_CHECK(same_bytes(record.key, messages[i].key) && same_bytes(record.value, messages[i].value));
    }
    sgs_buffer_deinit(&scratch);
}

/* Build the messages again with each codec of their time; what Kafka would not write ends the attempt. */
static void check_rebuilt(int8_t magic, int codec, const plain_message *messages, int64_t count)
{
    sgs_legacy_builder builder;
    sgs_buffer out;
    sgs_error err;
    sgs_legacy_builder_init(&builder, kit_memory(), kit_codecs());
    sgs_buffer_init(&out, kit_memory());
    const sgs_legacy_options options = {
        .base_offset = messages[0].offset < 0 ? 0 : messages[0].offset,
        .codec = codec,
        .level = INT_MIN,
        .magic = magic,
    };
    sgs_status status = sgs_legacy_builder_start(&builder, &options, &err);
    for (int64_t i = 0; status == SGS_OK && i < count; ++i)
        status = sgs_legacy_builder_append(&builder, messages[i].offset, messages[i].timestamp, messages[i].key,
                                           messages[i].value, &err);
    if (status == SGS_OK) {
        FUZZ_CHECK(sgs_legacy_builder_finish(&builder, &out, &err) == SGS_OK);
        FUZZ_CHECK(sgs_batch_check(out.data, 12 + sgs_load_be32(out.data + 8), 0, &err) == SGS_OK);
        if (codec != SGS_CODEC_NONE && magic == 1)
            FUZZ_CHECK(check_reader(out.data, out.size, messages, count));
    } else {
        FUZZ_CHECK(status == SGS_ILLEGAL_ARGUMENT);
    }
    sgs_buffer_deinit(&out);
    sgs_legacy_builder_deinit(&builder);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_input input = { data, size };
    const uint8_t flags = fuzz_take_u8(&input);
    if (input.size < ENTRY_MIN_BYTES)
        return 0;
    uint8_t *const entry = malloc(input.size);
    plain_message *const messages = malloc(MESSAGES_MAX * sizeof *messages);
    FUZZ_CHECK(entry != NULL && messages != NULL);
    memcpy(entry, input.bytes, input.size);
    if ((flags & AS_IT_IS) == 0)
        mend(entry, input.size, (flags & MAGIC_0) != 0);
    const int64_t length = (int32_t)sgs_load_be32(entry + 8);
    if (length >= 14 && length <= (int64_t)input.size - 12 && (int8_t)entry[16] < 2) {
        sgs_buffer content;
        sgs_buffer_init(&content, kit_memory());
        const int64_t count = plain_read(entry, 12 + length, &content, messages);
        if (count != TOO_MANY && check_reader(entry, input.size, messages, count)) {
            check_section(entry, input.size, messages, count);
            check_rebuilt((int8_t)(flags >> 2 & 1), flags >> 3 & 3, messages, count);
        }
        sgs_buffer_deinit(&content);
    }
    free(messages);
    free(entry);
    return 0;
}
