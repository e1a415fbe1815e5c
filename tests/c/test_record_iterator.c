/* test_record_iterator.c - Kafka's three iterators over one batch [format.md 5, 7.2]. */
#include "record/record_iterator.h"

#include <limits.h>

#include "base/bytes.h"
#include "record/batch_builder.h"
#include "record_kit.h"
#include "test.h"

static sgs_error err;

enum { RECORDS = 3 };

static sgs_buffer build(int codec)
{
    sgs_batch_builder builder;
    sgs_batch_options options;
    sgs_buffer out;
    sgs_batch_builder_init(&builder, kit_memory(), kit_codecs());
    sgs_buffer_init(&out, kit_memory());
    sgs_batch_options_default(&options);
    options.base_offset = 50;
    options.codec = codec;
    options.producer_id = 1;
    options.producer_epoch = 0;
    options.base_sequence = INT32_MAX;
    bool is_good = EXPECT_OK(sgs_batch_builder_start(&builder, &options, &err), &err);
    const sgs_record_header header = { kit_text("h"), kit_text(NULL) };
    for (int64_t i = 0; is_good && i < RECORDS; ++i)
        is_good = EXPECT_OK(sgs_batch_builder_append(&builder, 50 + 2 * i, EXAMPLE_T + i, kit_text("k"),
                                                     kit_text("value"), &header, 1, &err),
                            &err);
    if (is_good)
        EXPECT_OK(sgs_batch_builder_finish(&builder, &out, NULL, &err), &err);
    sgs_batch_builder_deinit(&builder);
    return out;
}

/* What an iteration gave: how many records, and how it ended. */
typedef struct outcome {
    int count;
    sgs_status status;
} outcome;

static outcome iterate(const sgs_buffer *batch, sgs_iteration kind, sgs_iterated_record *last)
{
    sgs_buffer scratch;
    sgs_record_iterator iterator;
    sgs_buffer_init(&scratch, kit_memory());
    outcome seen = { .count = 0 };
    seen.status = sgs_record_iterator_open(batch->data, batch->size, kind, kit_codecs(), &scratch, &iterator, &err);
    for (bool found = true; seen.status == SGS_OK && found;) {
        seen.status = sgs_record_iterator_next(&iterator, last, &found, &err);
        seen.count += seen.status == SGS_OK && found;
    }
    sgs_buffer_deinit(&scratch);
    return seen;
}

static const sgs_iteration all_kinds[] = { SGS_ITERATE_STREAMING, SGS_ITERATE_WHOLE, SGS_ITERATE_SKIP_KEY_VALUE };

/* DefaultRecordBatchTest.testStreamingIteratorConsistency, testSkipKeyValueIteratorCorrectness */
TEST(all_iterators_give_the_records_of_a_good_batch)
{
    for (int codec = SGS_CODEC_NONE; codec < SGS_CODEC_COUNT; ++codec) {
        sgs_buffer batch = build(codec);
        for (size_t i = 0; i < 3; ++i) {
            sgs_iterated_record last;
            const outcome seen = iterate(&batch, all_kinds[i], &last);
            EXPECT_OK(seen.status, &err);
            REQUIRE_EQ_I64(seen.count, RECORDS);
            EXPECT_EQ_I64(last.record.offset, 54);
            EXPECT_EQ_I64(last.record.timestamp, EXAMPLE_T + 2);
            EXPECT_EQ_I64(last.record.sequence, 3); /* the sequence after INT32_MAX is 0 */
            const bool skipped = codec != SGS_CODEC_NONE && all_kinds[i] == SGS_ITERATE_SKIP_KEY_VALUE;
            EXPECT_EQ_I64(last.record.value.size, skipped ? -1 : 5);
            EXPECT_EQ_I64(last.record.headers_count, skipped ? 0 : 1);
        }
        sgs_buffer_deinit(&batch);
    }
}

/* DefaultRecordBatchTest.testInvalidRecordCountTooManyNonCompressedV2 and its three siblings */
TEST(a_wrong_count_gives_the_records_before)
{
    static const struct {
        int32_t count;
        int streaming; /* records handed out */
    } cases[] = { { -1, 0 }, { RECORDS - 1, RECORDS - 2 }, { RECORDS + 1, RECORDS }, { INT32_MAX, RECORDS } };
    for (int codec = SGS_CODEC_NONE; codec <= SGS_CODEC_GZIP; ++codec)
        for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
            sgs_buffer batch = build(codec);
            sgs_iterated_record last;
            sgs_store_be_i32(batch.data + 57, cases[i].count);
            outcome seen = iterate(&batch, SGS_ITERATE_STREAMING, &last);
            EXPECT_STATUS(seen.status, SGS_INVALID_RECORD);
            EXPECT_EQ_I64(seen.count, cases[i].streaming);
            seen = iterate(&batch, SGS_ITERATE_SKIP_KEY_VALUE, &last);
            EXPECT_STATUS(seen.status, SGS_INVALID_RECORD);
            EXPECT_EQ_I64(seen.count, cases[i].streaming);
            seen = iterate(&batch, SGS_ITERATE_WHOLE, &last);
            EXPECT_STATUS(seen.status, SGS_INVALID_RECORD);
            EXPECT_EQ_I64(seen.count, codec == SGS_CODEC_NONE ? cases[i].streaming : 0);
            sgs_buffer_deinit(&batch);
        }
}

/* [format.md 5] Any negative size is null for Kafka, and -1 alone for everybody else [DUR-91]. */
TEST(negative_sizes_are_null)
{
    kit_bytes batch = kit_hex(EXAMPLE_TWO_RECORDS);
    sgs_buffer view = { .data = batch.data, .size = batch.size };
    batch.data[81] = 0x0d; /* the null key of the second record: -7 */
    sgs_batch_seal(batch.data, batch.size);
    sgs_iterated_record last;
    const outcome seen = iterate(&view, SGS_ITERATE_STREAMING, &last);
    EXPECT_OK(seen.status, &err);
    EXPECT_EQ_I64(seen.count, 2);
    EXPECT_EQ_I64(last.record.key.size, -1);
}

/* A wrong size is seen by who takes it for what it says, and not by who skips [format.md 5, "Partial" decoding]. */
TEST(a_skipped_record_may_have_any_size)
{
    sgs_buffer batch = build(SGS_CODEC_GZIP);
    sgs_iterated_record last;
    batch.data[62] += 2; /* behind the header and 'S': a size one larger */
    EXPECT_STATUS(iterate(&batch, SGS_ITERATE_STREAMING, &last).status, SGS_INVALID_RECORD);
    outcome seen = iterate(&batch, SGS_ITERATE_SKIP_KEY_VALUE, &last);
    EXPECT_OK(seen.status, &err);
    EXPECT_EQ_I64(seen.count, RECORDS);
    batch.data[62] = 0x01; /* -1: refused since 4.4.0 */
    EXPECT_STATUS(iterate(&batch, SGS_ITERATE_SKIP_KEY_VALUE, &last).status, SGS_INVALID_RECORD);
    sgs_buffer_deinit(&batch);
}

/* A provider whose stream breaks behind as many bytes as its context says. */
static sgs_status break_off(void *context, const uint8_t *data, size_t size, size_t limit, sgs_buffer *out,
                            sgs_error *error)
{
    const size_t whole = *(const size_t *)context;
    (void)limit;
    const sgs_status status = sgs_buffer_append(out, data + 1, whole < size - 1 ? whole : size - 1, error);
    return status == SGS_OK ? sgs_fail(error, SGS_CODEC, "broken off") : status;
}

static outcome iterate_broken(const sgs_buffer *batch, size_t whole, sgs_iteration kind)
{
    sgs_codec_table codecs = *kit_codecs();
    codecs.providers[SGS_CODEC_GZIP].context = &whole;
    codecs.providers[SGS_CODEC_GZIP].decompress = break_off;
    sgs_buffer scratch;
    sgs_record_iterator iterator;
    sgs_iterated_record record;
    sgs_buffer_init(&scratch, kit_memory());
    outcome seen = { .count = 0 };
    seen.status = sgs_record_iterator_open(batch->data, batch->size, kind, &codecs, &scratch, &iterator, &err);
    for (bool found = true; seen.status == SGS_OK && found;) {
        seen.status = sgs_record_iterator_next(&iterator, &record, &found, &err);
        seen.count += seen.status == SGS_OK && found;
    }
    sgs_buffer_deinit(&scratch);
    return seen;
}

TEST(a_stream_that_breaks_gives_the_records_before_the_break)
{
    sgs_buffer batch = build(SGS_CODEC_GZIP);
    const size_t section = batch.size - 61 - 1;
    for (size_t whole = 0; whole <= section; ++whole) {
        const outcome streamed = iterate_broken(&batch, whole, SGS_ITERATE_STREAMING);
        EXPECT_STATUS(streamed.status, SGS_CODEC);
        EXPECT_TRUE(streamed.count <= RECORDS - 1); /* whether anything follows the last cannot be known */
        EXPECT_EQ_I64(iterate_broken(&batch, whole, SGS_ITERATE_SKIP_KEY_VALUE).count, streamed.count);
        const outcome whole_seen = iterate_broken(&batch, whole, SGS_ITERATE_WHOLE);
        EXPECT_STATUS(whole_seen.status, SGS_CODEC);
        EXPECT_EQ_I64(whole_seen.count, 0);
    }
    EXPECT_EQ_I64(iterate_broken(&batch, section, SGS_ITERATE_STREAMING).count, RECORDS - 1);
    sgs_buffer_deinit(&batch);
}

/* [format.md 4.5] */
TEST(an_empty_batch_gives_nothing_whatever_follows_the_header)
{
    kit_bytes batch = kit_hex(EXAMPLE_EMPTY);
    sgs_buffer view = { .data = batch.data, .size = batch.size };
    sgs_iterated_record last;
    for (size_t i = 0; i < 3; ++i) {
        const outcome seen = iterate(&view, all_kinds[i], &last);
        EXPECT_OK(seen.status, &err);
        EXPECT_EQ_I64(seen.count, 0);
    }
    batch.data[22] = SGS_CODEC_GZIP; /* Kafka's streaming iterator opens the stream, which is not there */
    EXPECT_STATUS(iterate(&view, SGS_ITERATE_STREAMING, &last).status, SGS_CODEC);
    EXPECT_OK(iterate(&view, SGS_ITERATE_WHOLE, &last).status, &err);
}

TEST(messages_of_magic_1_are_records_with_a_crc)
{
    kit_bytes v1 = kit_hex(EXAMPLE_V1);
    const sgs_buffer view = { .data = v1.data, .size = v1.size };
    sgs_iterated_record last;
    const outcome seen = iterate(&view, SGS_ITERATE_STREAMING, &last);
    EXPECT_OK(seen.status, &err);
    EXPECT_EQ_I64(seen.count, 1);
    EXPECT_EQ_I64(last.record.size_bytes, 36);
    EXPECT_EQ_U64(last.message.crc, 958827571);
}

TEST(the_base_offset_is_that_of_the_first_record)
{
    for (int magic = 1; magic <= 2; ++magic) {
        const kit_bytes message = kit_hex(EXAMPLE_V1);
        sgs_buffer batch = build(SGS_CODEC_NONE);
        sgs_buffer scratch;
        sgs_record_iterator iterator;
        int64_t offset = -1;
        sgs_buffer_init(&scratch, kit_memory());
        EXPECT_OK(sgs_record_iterator_open(magic == 1 ? message.data : batch.data,
                                           magic == 1 ? message.size : batch.size, SGS_ITERATE_WHOLE, kit_codecs(),
                                           &scratch, &iterator, &err),
                  &err);
        EXPECT_OK(sgs_record_iterator_base_offset(&iterator, &offset, &err), &err);
        EXPECT_EQ_I64(offset, magic == 1 ? 42 : 50);
        sgs_buffer_deinit(&scratch);
        sgs_buffer_deinit(&batch);
    }
}

/* No iterator gives more records than there are, whichever byte is wrong; what it says then is one of few things. */
TEST(any_byte_of_a_section_may_be_wrong)
{
    static const uint8_t masks[] = { 0x01, 0x02, 0x80, 0xFF, 0x7E };
    for (int codec = SGS_CODEC_NONE; codec <= SGS_CODEC_GZIP; ++codec)
        for (size_t kind = 0; kind < 3; ++kind)
            for (size_t at = SGS_BATCH_HEADER_BYTES; at < 120; ++at)
                for (size_t i = 0; i < sizeof masks; ++i)
                    for (size_t run = 1; run <= 11; run += 5) { /* a number that does not end */
                        sgs_buffer batch = build(codec);
                        sgs_iterated_record last;
                        for (size_t byte = at; byte < at + run && byte < batch.size; ++byte)
                            batch.data[byte] = run == 1 ? batch.data[byte] ^ masks[i] : (uint8_t)(0x7F | masks[i]);
                        const outcome seen = iterate(&batch, all_kinds[kind], &last);
                        EXPECT_TRUE(seen.count <= RECORDS);
                        EXPECT_TRUE(seen.status == SGS_OK || seen.status == SGS_INVALID_RECORD ||
                                    seen.status == SGS_CODEC || seen.status == SGS_CORRUPT_RECORD);
                        sgs_buffer_deinit(&batch);
                    }
}

TEST_MAIN()
