/* xerial_stream.h - the block stream that snappy-java wraps around raw snappy blocks, which Kafka stores [format.md
 * 8.2].
 *
 *     82 53 4e 41 50 50 59 00 | i32 version | i32 compatible version      16 bytes, big-endian
 *     { i32 size | one raw snappy block } ...                             blocks of up to 32768 plain bytes
 * Streams may be concatenated: a header in the place of a chunk size begins the next. A payload without the header is
 * one raw block, as some clients write. */
#ifndef SGS_RECORD_XERIAL_STREAM_H
#define SGS_RECORD_XERIAL_STREAM_H

#include "record/codec.h"

enum { SGS_XERIAL_HEADER_BYTES = 16, SGS_XERIAL_BLOCK_BYTES = 32768 };

/** Append the stream of `data` to `out`; no data gives the header alone. `snappy` compresses raw blocks. */
sgs_status sgs_xerial_compress(const sgs_codec_provider *snappy, const uint8_t *data, size_t size, sgs_buffer *out,
                               sgs_error *err);
/** Append what the stream holds to `out`, at most `limit` bytes [DUR-92, DUR-94].
 *  @return SGS_OK, SGS_CODEC for a broken stream, SGS_LIMIT_EXCEEDED, or what the provider returns */
sgs_status sgs_xerial_decompress(const sgs_codec_provider *snappy, const uint8_t *data, size_t size, size_t limit,
                                 sgs_buffer *out, sgs_error *err);

#endif
