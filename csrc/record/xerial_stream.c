/* xerial_stream.c - snappy-java's SnappyOutputStream and SnappyInputStream. */
#include "record/xerial_stream.h"

#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

#include "base/bytes.h"

enum {
    MAGIC_BYTES = 8,
    VERSION_AT = MAGIC_BYTES,
    COMPATIBLE_VERSION_AT = VERSION_AT + 4,
    CHUNK_SIZE_BYTES = 4,
    GREATEST_CHUNK_BYTES = 536870912, /* snappy-java's own limit */
    VERSION = 1,
};
_Static_assert(COMPATIBLE_VERSION_AT + 4 == SGS_XERIAL_HEADER_BYTES, "the header");

static const uint8_t magic[MAGIC_BYTES] = { 0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0 };

sgs_status sgs_xerial_compress(const sgs_codec_provider *snappy, const uint8_t *data, size_t size, sgs_buffer *out,
                               sgs_error *err)
{
    uint8_t header[SGS_XERIAL_HEADER_BYTES];
    memcpy(header, magic, sizeof magic);
    sgs_store_be32(header + VERSION_AT, VERSION);
    sgs_store_be32(header + COMPATIBLE_VERSION_AT, VERSION);
    sgs_status status = sgs_buffer_append(out, header, sizeof header, err);
    for (size_t done = 0; status == SGS_OK && done < size;) {
        const size_t block = size - done < SGS_XERIAL_BLOCK_BYTES ? size - done : (size_t)SGS_XERIAL_BLOCK_BYTES;
        const uint8_t unknown_size[CHUNK_SIZE_BYTES] = { 0 };
        status = sgs_buffer_append(out, unknown_size, sizeof unknown_size, err);
        if (status != SGS_OK)
            break;
        const size_t start = out->size;
        status = snappy->compress(snappy->context, 0, data + done, block, out, err);
        if (status != SGS_OK)
            break;
        if (out->size <= start || out->size - start > GREATEST_CHUNK_BYTES)
            return sgs_fail(err, SGS_CODEC, "snappy made %zu bytes of a block of %zu", out->size - start, block);
        sgs_store_be32(out->data + start - CHUNK_SIZE_BYTES, (uint32_t)(out->size - start));
        done += block;
    }
    return status;
}

static sgs_status decompress_block(const sgs_codec_provider *snappy, const uint8_t *block, size_t size, size_t start,
                                   size_t limit, sgs_buffer *out, sgs_error *err)
{
    const size_t used = out->size - start;
    const sgs_status status = snappy->decompress(snappy->context, block, size, limit - used, out, err);
    if (status == SGS_OK && out->size - start > limit)
        return sgs_fail(err, SGS_LIMIT_EXCEEDED, "a snappy stream of more than %zu bytes", limit);
    return status;
}

static bool is_header(const uint8_t *data, size_t size)
{
    return size >= SGS_XERIAL_HEADER_BYTES && memcmp(data, magic, sizeof magic) == 0;
}

sgs_status sgs_xerial_decompress(const sgs_codec_provider *snappy, const uint8_t *data, size_t size, size_t limit,
                                 sgs_buffer *out, sgs_error *err)
{
    const size_t start = out->size;
    if (size == 0)
        return sgs_fail(err, SGS_CODEC, "an empty snappy payload");
    if (!is_header(data, size))
        return decompress_block(snappy, data, size, start, limit, out, err);
    size_t at = SGS_XERIAL_HEADER_BYTES;    /* the first header's versions are not checked, as in snappy-java */
    while (size - at >= CHUNK_SIZE_BYTES) { /* one to three bytes more are ignored */
        if (memcmp(data + at, magic, CHUNK_SIZE_BYTES) == 0) {
            if (!is_header(data + at, size - at) || sgs_load_be_i32(data + at + VERSION_AT) < VERSION)
                return sgs_fail(err, SGS_CODEC, "byte %zu of a snappy stream: a broken header", at);
            at += SGS_XERIAL_HEADER_BYTES;
            continue;
        }
        const int32_t chunk = sgs_load_be_i32(data + at);
        at += CHUNK_SIZE_BYTES;
        if (chunk <= 0 || chunk > GREATEST_CHUNK_BYTES || (size_t)chunk > size - at)
            return sgs_fail(err, SGS_CODEC,
                            "byte %zu of a snappy stream: a chunk of %" PRId32 " bytes where %zu are left",
                            at - CHUNK_SIZE_BYTES, chunk, size - at);
        const sgs_status status = decompress_block(snappy, data + at, (size_t)chunk, start, limit, out, err);
        if (status != SGS_OK)
            return status;
        at += (size_t)chunk;
    }
    return SGS_OK;
}
