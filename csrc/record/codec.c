/* codec.c - which provider, which level, which limit. */
#include "record/codec.h"

#include <limits.h>
#include <stdbool.h>

#include "record/xerial_stream.h"

/* Kafka's names and level ranges [format.md 8] */
static const struct {
    const char *name;
    int least_level, greatest_level, default_level;
} codec_facts[SGS_CODEC_COUNT] = {
    [SGS_CODEC_NONE] = { "none", 0, 0, 0 },        [SGS_CODEC_GZIP] = { "gzip", 1, 9, -1 },
    [SGS_CODEC_SNAPPY] = { "snappy", 0, 0, 0 },    [SGS_CODEC_LZ4] = { "lz4", 1, 17, 9 },
    [SGS_CODEC_ZSTD] = { "zstd", -131072, 22, 3 },
};

const char *sgs_codec_name(int codec) { return codec >= 0 && codec < SGS_CODEC_COUNT ? codec_facts[codec].name : "?"; }

/* codec is one of gzip, snappy, lz4, zstd. @return NULL and `err` when there is none */
static const sgs_codec_provider *find_provider(const sgs_codec_table *codecs, int codec, sgs_error *err)
{
    if (codecs != NULL && codecs->providers[codec].name != NULL)
        return &codecs->providers[codec];
    sgs_fail(err, SGS_CODEC_MISSING, "there is no provider for codec %s", sgs_codec_name(codec));
    return NULL;
}

/* What is written must be readable again, with the same settings [DUR-92]. */
static sgs_status check_limit(const sgs_codec_table *codecs, size_t size, sgs_error *err)
{
    if (size <= codecs->max_decompressed_batch_bytes)
        return SGS_OK;
    (void)sgs_fail_too_large(err, SGS_LIMIT_EXCEEDED, size, codecs->max_decompressed_batch_bytes);
    return sgs_say(err, "a batch to be compressed has %zu bytes, more than max_decompressed_batch_bytes = %zu", size,
                   codecs->max_decompressed_batch_bytes);
}

sgs_status sgs_codec_compress(const sgs_codec_table *codecs, int codec, int level, const uint8_t *data, size_t size,
                              sgs_buffer *out, sgs_error *err)
{
    if (codec < 0 || codec >= SGS_CODEC_COUNT)
        return sgs_fail(err, SGS_ILLEGAL_ARGUMENT, "codec id %d, expected 0 to 4", codec);
    if (codec == SGS_CODEC_NONE)
        return sgs_buffer_append(out, data, size, err);
    if (level == INT_MIN || codec == SGS_CODEC_SNAPPY) /* snappy has no levels */
        level = codec_facts[codec].default_level;
    if (level != codec_facts[codec].default_level &&
        (level < codec_facts[codec].least_level || level > codec_facts[codec].greatest_level))
        return sgs_fail(err, SGS_ILLEGAL_ARGUMENT, "%s level %d, expected %d to %d", sgs_codec_name(codec), level,
                        codec_facts[codec].least_level, codec_facts[codec].greatest_level);
    const sgs_codec_provider *const provider = find_provider(codecs, codec, err);
    if (provider == NULL)
        return err->status;
    const sgs_status status = check_limit(codecs, size, err);
    if (status != SGS_OK)
        return status;
    if (codec == SGS_CODEC_SNAPPY)
        return sgs_xerial_compress(provider, data, size, out, err);
    return provider->compress(provider->context, level, data, size, out, err);
}

sgs_status sgs_codec_decompress(const sgs_codec_table *codecs, int codec, const uint8_t *data, size_t size,
                                sgs_buffer *out, sgs_error *err)
{
    if (codec < 0 || codec >= SGS_CODEC_COUNT)
        return sgs_fail(err, SGS_UNSUPPORTED_FORMAT, "codec id %d is unknown", codec);
    if (codec == SGS_CODEC_NONE)
        return sgs_buffer_append(out, data, size, err);
    const sgs_codec_provider *const provider = find_provider(codecs, codec, err);
    if (provider == NULL)
        return err->status;
    sgs_status status;
    const size_t before = out->size;
    const size_t limit = codecs->max_decompressed_batch_bytes;
    if (codec == SGS_CODEC_SNAPPY)
        status = sgs_xerial_decompress(provider, data, size, limit, out, err);
    else
        status = provider->decompress(provider->context, data, size, limit, out, err);
    /* a provider that overshoots is our mistake or a plug-in's, but the caller's limit holds all the same */
    if (status == SGS_OK && out->size - before > limit)
        status = sgs_fail(err, SGS_LIMIT_EXCEEDED, "a %s batch of more than %zu bytes", sgs_codec_name(codec), limit);
    return status;
}
