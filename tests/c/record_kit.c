/* record_kit.c - hexadecimal text and small codecs. */
#include "record_kit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/env.h"

static int digit(char c)
{
    const char *const digits = "0123456789abcdef";
    const char *const at = c == '\0' ? NULL : strchr(digits, c);
    return at == NULL ? -1 : (int)(at - digits);
}

kit_bytes kit_hex(const char *text)
{
    kit_bytes bytes = { .size = 0 };
    while (*text != '\0') {
        if (*text == ' ') {
            ++text;
            continue;
        }
        const int high = digit(text[0]);
        const int low = high < 0 ? -1 : digit(text[1]);
        if (low < 0 || bytes.size == sizeof bytes.data) {
            (void)fprintf(stderr, "kit_hex: not hexadecimal, or too long: %.20s\n", text);
            abort();
        }
        bytes.data[bytes.size++] = (uint8_t)(high * 16 + low);
        text += 2;
    }
    return bytes;
}

sgs_bytes kit_text(const char *text)
{
    return (sgs_bytes){ (const uint8_t *)text, text == NULL ? -1 : (int32_t)strlen(text) };
}

sgs_memory kit_memory(void) { return sgs_env_memory(sgs_env_posix()); }

/* ---- stored: 'S' and the bytes ---- */

static sgs_status store(void *context, int level, const uint8_t *data, size_t size, sgs_buffer *out, sgs_error *err)
{
    (void)context;
    (void)level;
    const uint8_t mark = 'S';
    const sgs_status status = sgs_buffer_append(out, &mark, 1, err);
    return status == SGS_OK ? sgs_buffer_append(out, data, size, err) : status;
}

static sgs_status load(void *context, const uint8_t *data, size_t size, size_t limit, sgs_buffer *out, sgs_error *err)
{
    (void)context;
    if (size == 0 || data[0] != 'S')
        return sgs_fail(err, SGS_CODEC, "not a stored stream");
    if (size - 1 > limit)
        return sgs_fail(err, SGS_LIMIT_EXCEEDED, "a stored stream of %zu bytes", size - 1);
    return sgs_buffer_append(out, data + 1, size - 1, err);
}

/* ---- snappy raw blocks: uvarint length, then elements: literals and copies ---- */

static sgs_status snap(void *context, int level, const uint8_t *data, size_t size, sgs_buffer *out, sgs_error *err)
{
    (void)context;
    (void)level;
    sgs_status status = SGS_OK;
    for (size_t left = size; status == SGS_OK;) {
        const uint8_t byte = (uint8_t)((left & 0x7F) | (left > 0x7F ? 0x80 : 0));
        status = sgs_buffer_append(out, &byte, 1, err);
        left >>= 7;
        if (left == 0)
            break;
    }
    for (size_t done = 0; status == SGS_OK && done < size;) {
        const size_t piece = size - done < 60 ? size - done : 60; /* lengths up to 60 sit in the tag */
        const uint8_t tag = (uint8_t)((piece - 1) << 2);
        status = sgs_buffer_append(out, &tag, 1, err);
        if (status == SGS_OK)
            status = sgs_buffer_append(out, data + done, piece, err);
        done += piece;
    }
    return status;
}

typedef struct input {
    const uint8_t *at, *end;
} input;

static bool take(input *in, size_t count, uint64_t *value) /* little-endian */
{
    if ((size_t)(in->end - in->at) < count)
        return false;
    *value = 0;
    for (size_t i = 0; i < count; ++i)
        *value |= (uint64_t)*in->at++ << (8 * i);
    return true;
}

static bool unsnap_element(input *in, sgs_buffer *out, size_t start, uint64_t total)
{
    uint64_t tag, length, distance;
    if (!take(in, 1, &tag))
        return false;
    if ((tag & 3) == 0) {
        length = (tag >> 2) + 1;
        if (length > 60 && (!take(in, (size_t)length - 60, &length) || ++length == 0))
            return false;
        if (length > (uint64_t)(in->end - in->at) || length > total - (out->size - start))
            return false;
        memcpy(out->data + out->size, in->at, (size_t)length);
        in->at += length;
        out->size += (size_t)length;
        return true;
    }
    if ((tag & 3) == 1) {
        if (!take(in, 1, &distance))
            return false;
        distance |= (tag >> 5) << 8;
        length = ((tag >> 2) & 7) + 4;
    } else {
        if (!take(in, (tag & 3) == 2 ? 2 : 4, &distance))
            return false;
        length = (tag >> 2) + 1;
    }
    if (distance == 0 || distance > out->size - start || length > total - (out->size - start))
        return false;
    for (; length > 0; --length, ++out->size)
        out->data[out->size] = out->data[out->size - distance];
    return true;
}

static sgs_status unsnap(void *context, const uint8_t *data, size_t size, size_t limit, sgs_buffer *out, sgs_error *err)
{
    (void)context;
    input in = { data, data + size };
    uint64_t total = 0, byte = 0x80;
    for (unsigned shift = 0; shift < 35 && byte >= 0x80; shift += 7) {
        if (!take(&in, 1, &byte))
            return sgs_fail(err, SGS_CODEC, "a snappy block without a length");
        total |= (byte & 0x7F) << shift;
    }
    if (total > limit)
        return sgs_fail(err, SGS_LIMIT_EXCEEDED, "a snappy block of %llu bytes", (unsigned long long)total);
    if (total > 64 * size) /* an element of 3 bytes makes at most 64: no memory for a claim that cannot be met */
        return sgs_fail(err, SGS_CODEC, "a snappy block of %zu bytes that claims %llu", size,
                        (unsigned long long)total);
    const sgs_status status = sgs_buffer_reserve(out, (size_t)total + 1, err);
    if (status != SGS_OK)
        return status;
    const size_t start = out->size;
    while (in.at < in.end)
        if (!unsnap_element(&in, out, start, total))
            return sgs_fail(err, SGS_CODEC, "a broken snappy block");
    return out->size - start == total ? SGS_OK : sgs_fail(err, SGS_CODEC, "a short snappy block");
}

const sgs_codec_table *kit_codecs(void)
{
    static const sgs_codec_table table = {
        .providers = {
            [SGS_CODEC_GZIP] = { "stored", NULL, store, load },
            [SGS_CODEC_SNAPPY] = { "literals", NULL, snap, unsnap },
            [SGS_CODEC_LZ4] = { "stored", NULL, store, load },
            [SGS_CODEC_ZSTD] = { "stored", NULL, store, load },
        },
        .max_decompressed_batch_bytes = 256 << 20,
        .max_record_bytes = 64 << 20,
    };
    return &table;
}
