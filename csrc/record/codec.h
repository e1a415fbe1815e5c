/* codec.h - compression of record sections: a table of function pointers, one row a codec (decision D12).
 *
 * The core imports no compression library: providers are handed down in an sgs_codec_table at open. Framing that is
 * Kafka's own (snappy's xerial stream, xerial_stream.c) is ours; a snappy provider works on raw blocks.
 * A provider may be Python: then it takes the GIL itself and a Python exception stays pending behind SGS_CALLBACK. */
#ifndef SGS_RECORD_CODEC_H
#define SGS_RECORD_CODEC_H

#include "base/buffer.h"
#include "base/status.h"

typedef enum sgs_codec {
    SGS_CODEC_NONE = 0,
    SGS_CODEC_GZIP = 1,
    SGS_CODEC_SNAPPY = 2,
    SGS_CODEC_LZ4 = 3,
    SGS_CODEC_ZSTD = 4,
    SGS_CODEC_COUNT = 5
} sgs_codec;

typedef struct sgs_codec_provider {
    const char *name; /* library and version, for messages; NULL = no provider */
    void *context;
    /* append the compressed form of `data` to `out`; snappy: one raw block */
    sgs_status (*compress)(void *context, int level, const uint8_t *data, size_t size, sgs_buffer *out, sgs_error *err);
    /* append the decompressed form to `out`, streaming; stop with SGS_LIMIT_EXCEEDED *before* `out` grows by more than
     * `limit` bytes [DUR-92]; snappy: one raw block */
    sgs_status (*decompress)(void *context, const uint8_t *data, size_t size, size_t limit, sgs_buffer *out,
                             sgs_error *err);
} sgs_codec_provider;

typedef struct sgs_codec_table {
    sgs_codec_provider providers[SGS_CODEC_COUNT]; /* row NONE is unused */
    size_t max_decompressed_batch_bytes;           /* default 256 MiB [DUR-92] */
    size_t max_record_bytes;                       /* of a record in a compressed batch; default 64 MiB */
} sgs_codec_table;

/** Append the compressed record section to `out`. Level: the codec's own numbering [format.md 8]; codec NONE copies. */
sgs_status sgs_codec_compress(const sgs_codec_table *codecs, int codec, int level, const uint8_t *data, size_t size,
                              sgs_buffer *out, sgs_error *err);
/** Append the decompressed record section to `out`.
 *  @return SGS_UNSUPPORTED_FORMAT for ids 5..7 [DUR-95], SGS_CODEC_MISSING, SGS_CODEC, SGS_LIMIT_EXCEEDED; after a
 *          failure `out` may hold what came out before the break, as far as the provider tells */
sgs_status sgs_codec_decompress(const sgs_codec_table *codecs, int codec, const uint8_t *data, size_t size,
                                sgs_buffer *out, sgs_error *err);
/** "none", "gzip", "snappy", "lz4", "zstd"; "?" for another id */
const char *sgs_codec_name(int codec);

#endif
