/* A snappy payload may be any bytes. Its framing must be read or refused, never beyond the payload and never beyond the
 * limit, and what came out, framed again, comes out again. [format.md 8.2, DUR-92, DUR-94]
 * INPUT   2 bytes limit, then the payload.   ORACLE  the framing written out plainly over the same raw blocks. */
#include "record/xerial_stream.h"

#include <string.h>

#include "fuzz/fuzz_input.h"
#include "record_kit.h"

enum { LARGE_LIMIT = 1 << 20, MOST_BYTES = 1 << 16 };

static const uint8_t header[8] = { 0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0 };

static const sgs_codec_provider *snappy(void) { return &kit_codecs()->providers[SGS_CODEC_SNAPPY]; }

static int64_t number(const uint8_t *at) /* 4 bytes, big-endian, signed */
{
    const int64_t pattern = (int64_t)at[0] << 24 | at[1] << 16 | at[2] << 8 | at[3];
    return pattern > INT32_MAX ? pattern - (INT64_C(1) << 32) : pattern;
}

static bool begins_stream(const uint8_t *at, size_t left) { return left >= 16 && memcmp(at, header, 8) == 0; }

/* One raw block behind what is there already, without a limit. */
static bool plain_block(const uint8_t *at, size_t size, sgs_buffer *out)
{
    sgs_error err;
    return snappy()->decompress(NULL, at, size, LARGE_LIMIT, out, &err) == SGS_OK;
}

/* @return false when the payload is broken; what came out before is in `out` */
static bool plain_stream(const uint8_t *data, size_t size, sgs_buffer *out)
{
    size_t at = 16;
    if (!begins_stream(data, size))
        return size > 0 && plain_block(data, size, out);
    while (size - at >= 4) {
        if (memcmp(data + at, header, 4) == 0) {
            if (!begins_stream(data + at, size - at) || number(data + at + 8) < 1)
                return false;
            at += 16;
            continue;
        }
        const int64_t chunk = number(data + at);
        at += 4;
        if (chunk < 1 || chunk > (int64_t)(size - at) || !plain_block(data + at, (size_t)chunk, out))
            return false;
        at += (size_t)chunk;
    }
    return true;
}

static void check_framed_again(const sgs_buffer *content)
{
    sgs_buffer stream, again;
    sgs_error err;
    sgs_buffer_init(&stream, kit_memory());
    sgs_buffer_init(&again, kit_memory());
    FUZZ_CHECK(sgs_xerial_compress(snappy(), content->data, content->size, &stream, &err) == SGS_OK);
    FUZZ_CHECK(begins_stream(stream.data, stream.size));
    FUZZ_CHECK(sgs_xerial_decompress(snappy(), stream.data, stream.size, content->size, &again, &err) == SGS_OK);
    FUZZ_CHECK(again.size == content->size);
    FUZZ_CHECK(again.size == 0 || memcmp(again.data, content->data, again.size) == 0);
    sgs_buffer_deinit(&stream);
    sgs_buffer_deinit(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_input input = { data, size };
    const size_t limit = fuzz_take_u16(&input);
    static const uint8_t nothing[1];
    const uint8_t *const payload = input.size > 0 ? input.bytes : nothing;
    sgs_buffer plain, out;
    sgs_error err;
    sgs_buffer_init(&plain, kit_memory());
    sgs_buffer_init(&out, kit_memory());
    const bool is_good = plain_stream(payload, input.size, &plain);
    FUZZ_CHECK(sgs_buffer_append(&out, "before", 6, &err) ==
               SGS_OK); /* what is there already stays, and counts for nothing */
    const sgs_status status = sgs_xerial_decompress(snappy(), payload, input.size, limit, &out, &err);

    FUZZ_CHECK(memcmp(out.data, "before", 6) == 0 && out.size - 6 <= limit);
    FUZZ_CHECK(status == SGS_OK || (err.status == status && err.message[0] != '\0'));
    FUZZ_CHECK((status == SGS_OK) == (is_good && plain.size <= limit));
    FUZZ_CHECK(status == SGS_OK || status == SGS_CODEC || status == SGS_LIMIT_EXCEEDED);
    FUZZ_CHECK(status == SGS_OK || status == SGS_LIMIT_EXCEEDED || !is_good);
    if (status == SGS_OK) {
        FUZZ_CHECK(out.size - 6 == plain.size);
        FUZZ_CHECK(plain.size == 0 || memcmp(out.data + 6, plain.data, plain.size) == 0);
        if (plain.size <= MOST_BYTES)
            check_framed_again(&plain);
    }
    sgs_buffer_deinit(&plain);
    sgs_buffer_deinit(&out);
    return 0;
}
