/* lz4_header.c - one byte of history. */
#include "record/lz4_header.h"

#include "base/bytes.h"
#include "base/xxhash32.h"

enum { MAGIC_BYTES = 4, DESCRIPTOR_BYTES = 2, CONTENT_SIZE_BYTES = 8, FLAG_CONTENT_SIZE = 0x08 };
static const uint32_t FRAME_MAGIC = 0x184D2204;

void sgs_lz4_header_stamp(uint8_t *frame, size_t size, bool historic)
{
    if (size < MAGIC_BYTES + DESCRIPTOR_BYTES + 1 || sgs_load_le32(frame) != FRAME_MAGIC)
        return;
    const bool has_content_size = (frame[MAGIC_BYTES] & FLAG_CONTENT_SIZE) != 0;
    const size_t checksum_at = MAGIC_BYTES + DESCRIPTOR_BYTES + (has_content_size ? CONTENT_SIZE_BYTES : 0);
    if (size <= checksum_at)
        return;
    const size_t start = historic ? 0 : MAGIC_BYTES;
    frame[checksum_at] = (uint8_t)(sgs_xxhash32(frame + start, checksum_at - start) >> 8);
}
