/* record_headers.c - header keys as Kafka's RecordHeader gives them back. */
#include "record/record_headers.h"

#include <string.h>

#include "base/varint.h"
#include "record/utf8_java.h"

enum { ENCODED_NULL = 0x01 }; /* the size -1 */

/* A size that a replaced key cannot have in a batch must still count as too large. */
static int64_t key_size_when_written(sgs_bytes key, bool *is_valid)
{
    *is_valid = sgs_utf8_is_valid(key.data, (size_t)key.size);
    const size_t size = *is_valid ? (size_t)key.size : sgs_utf8_java_replaced_size(key.data, (size_t)key.size);
    const int32_t length = size > INT32_MAX ? INT32_MAX : (int32_t)size;
    return (int64_t)size + sgs_varint_size(length);
}

bool sgs_record_headers_prepare(sgs_bytes headers, int32_t count, sgs_headers_rewrite *out)
{
    sgs_headers_rewrite rewrite = { .source = headers, .count = count, .is_copy = true };
    sgs_bytes left = headers;
    for (int32_t i = 0; i < count; ++i) {
        sgs_record_header header;
        bool is_valid;
        if (!sgs_record_next_header(&left, &header))
            return false;
        rewrite.size_bytes += key_size_when_written(header.key, &is_valid) + sgs_varint_size(header.value.size) +
                              (header.value.size < 0 ? 0 : (int64_t)header.value.size);
        /* a null value is -1 when it is written, and may be any size below 0 when Kafka's rules are asked for */
        if (!is_valid || (header.value.size < 0 && left.data[-1] != ENCODED_NULL))
            rewrite.is_copy = false;
    }
    if (rewrite.size_bytes != rewrite.source.size) /* a number takes more bytes than it needs [DUR-88] */
        rewrite.is_copy = false;
    *out = rewrite;
    return true;
}

uint8_t *sgs_record_headers_write(uint8_t *out, const sgs_headers_rewrite *rewrite)
{
    if (rewrite->count == 0)
        return out;
    if (rewrite->is_copy) {
        memcpy(out, rewrite->source.data, (size_t)rewrite->source.size);
        return out + rewrite->source.size;
    }
    sgs_bytes left = rewrite->source;
    for (int32_t i = 0; i < rewrite->count; ++i) {
        sgs_record_header header;
        const bool is_there = sgs_record_next_header(&left, &header);
        SGS_EXPECT(is_there); /* prepared, and not changed since */
        (void)is_there;
        const size_t size = sgs_utf8_java_replaced_size(header.key.data, (size_t)header.key.size);
        out = sgs_varint_write(out, (int32_t)size);
        out = sgs_utf8_java_replace(out, header.key.data, (size_t)header.key.size);
        out = sgs_record_write_bytes(out, header.value);
    }
    return out;
}
