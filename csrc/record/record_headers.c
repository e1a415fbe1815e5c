/* record_headers.c - header keys as Kafka's RecordHeader gives them back. */
#include "record/record_headers.h"

#include <inttypes.h>

#include "record/utf8_java.h"

/* Room for the keys that cannot stay. */
static size_t replaced_bytes(const sgs_record *record)
{
    size_t bytes = 0;
    sgs_bytes encoded = record->headers;
    for (int32_t i = 0; i < record->headers_count; ++i) {
        sgs_record_header header;
        sgs_record_next_header(&encoded, &header);
        if (!sgs_utf8_is_valid(header.key.data, (size_t)header.key.size))
            bytes += SGS_UTF8_REPLACEMENT_BYTES * (size_t)header.key.size;
    }
    return bytes;
}

sgs_status sgs_record_headers_load(const sgs_record *record, sgs_buffer *scratch, const sgs_record_header **headers,
                                   sgs_error *err)
{
    const size_t count = (size_t)record->headers_count;
    const size_t key_bytes = replaced_bytes(record);
    sgs_buffer_clear(scratch);
    const sgs_status status = sgs_buffer_reserve(scratch, (count + 1) * sizeof(sgs_record_header) + key_bytes, err);
    if (status != SGS_OK)
        return status;
    sgs_record_header *const loaded = (sgs_record_header *)(void *)scratch->data;
    uint8_t *text = scratch->data + count * sizeof *loaded;
    sgs_bytes encoded = record->headers;
    for (size_t i = 0; i < count; ++i) {
        sgs_record_next_header(&encoded, &loaded[i]);
        sgs_bytes *const key = &loaded[i].key;
        if (key_bytes == 0 || sgs_utf8_is_valid(key->data, (size_t)key->size))
            continue;
        const uint8_t *const end = sgs_utf8_java_replace(text, key->data, (size_t)key->size);
        if (end - text > INT32_MAX)
            return sgs_fail(err, SGS_ILLEGAL_ARGUMENT,
                            "a header key of %" PRId32 " bytes at offset %" PRId64 " is too large as UTF-8", key->size,
                            record->offset);
        *key = (sgs_bytes){ text, (int32_t)(end - text) };
        text += key->size;
    }
    *headers = loaded;
    return SGS_OK;
}
