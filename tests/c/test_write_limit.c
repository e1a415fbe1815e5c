/* test_write_limit.c - when a batch is full, what goes in all the same, and what an aborted one leaves [format.md 10],
 * Kafka MemoryRecordsBuilderTest where named. */
#include "record/write_limit.h"

#include <limits.h>

#include "record_kit.h"
#include "test.h"

enum { LIMIT_BYTES = 64, PREFIX_BYTES = 15 };

static const sgs_write_limit limit = { .bytes = LIMIT_BYTES, .estimated_ratio = 0.5F };

static sgs_batch_builder batch_of(int codec, int records, sgs_error *err)
{
    sgs_batch_builder builder;
    sgs_batch_options options;
    sgs_batch_options_default(&options);
    options.codec = codec;
    sgs_batch_builder_init(&builder, kit_memory(), kit_codecs());
    EXPECT_OK(sgs_batch_builder_start(&builder, &options, err), err);
    for (int i = 0; i < records; ++i)
        EXPECT_OK(sgs_batch_builder_append(&builder, i, i, kit_text("a"), kit_text("1"), NULL, 0, err), err);
    return builder;
}

static sgs_legacy_builder messages_of(int8_t magic, int codec, int records, sgs_error *err)
{
    sgs_legacy_builder builder;
    const sgs_legacy_options options = { .codec = codec, .level = INT_MIN, .magic = magic };
    sgs_legacy_builder_init(&builder, kit_memory(), kit_codecs());
    EXPECT_OK(sgs_legacy_builder_start(&builder, &options, err), err);
    for (int i = 0; i < records; ++i)
        EXPECT_OK(sgs_legacy_builder_append(&builder, i, i, kit_text("a"), kit_text("1"), err), err);
    return builder;
}

static bool has_room(const sgs_batch_builder *builder, sgs_write_limit of)
{
    return sgs_batch_builder_has_room_for(builder, of, 2, kit_text("c"), kit_text("3"), NULL, 0);
}

TEST(the_first_record_always_has_room) /* MemoryRecordsBuilderTest.testSmallWriteLimit */
{
    const sgs_write_limit nothing = { .bytes = 0, .estimated_ratio = 1 };
    sgs_error err;
    sgs_batch_builder batch = batch_of(SGS_CODEC_NONE, 0, &err);
    EXPECT_TRUE(!sgs_batch_builder_is_full(&batch, nothing) && has_room(&batch, nothing));
    EXPECT_OK(sgs_batch_builder_append(&batch, 0, 0, kit_text("a"), kit_text("1"), NULL, 0, &err), &err);
    EXPECT_TRUE(sgs_batch_builder_is_full(&batch, nothing) && !has_room(&batch, nothing));
    sgs_batch_builder_deinit(&batch);
    sgs_legacy_builder messages = messages_of(1, SGS_CODEC_NONE, 0, &err);
    EXPECT_TRUE(sgs_legacy_builder_has_room_for(&messages, nothing, kit_text("a"), kit_text("1")));
    sgs_legacy_builder_deinit(&messages);
}

TEST(room_is_what_is_left_for_the_record_uncompressed)
{
    sgs_error err;
    sgs_batch_builder batch = batch_of(SGS_CODEC_NONE, 2, &err);
    const int64_t size = 61 + 2 * 9;
    EXPECT_EQ_I64(sgs_batch_builder_estimated_size(&batch, 1), size);
    EXPECT_TRUE(has_room(&batch, (sgs_write_limit){ .bytes = size + 9 }));
    EXPECT_TRUE(!has_room(&batch, (sgs_write_limit){ .bytes = size + 8 }));
    EXPECT_TRUE(!sgs_batch_builder_is_full(&batch, (sgs_write_limit){ .bytes = size + 1 }));
    EXPECT_TRUE(sgs_batch_builder_is_full(&batch, (sgs_write_limit){ .bytes = size }));
    const sgs_record_header header = { kit_text("h"), kit_text("x") };
    EXPECT_TRUE(!sgs_batch_builder_has_room_for(&batch, (sgs_write_limit){ .bytes = size + 9 }, 2, kit_text("c"),
                                                kit_text("3"), &header, 1)); /* headers count */
    sgs_batch_builder_deinit(&batch);

    batch = batch_of(SGS_CODEC_GZIP, 2, &err);
    EXPECT_EQ_I64(sgs_batch_builder_estimated_size(&batch, 0.5F), 61 + 9); /* 18 * 0.5 * 1.05 */
    EXPECT_EQ_I64(sgs_batch_builder_estimated_size(&batch, 1e30F), INT32_MAX);
    sgs_batch_builder_deinit(&batch);

    sgs_legacy_builder messages = messages_of(0, SGS_CODEC_NONE, 2, &err);
    EXPECT_EQ_I64(sgs_legacy_builder_estimated_size(&messages, 1), 2 * 28);
    const sgs_write_limit of_three = { .bytes = 3 * 28 }, less = { .bytes = 3 * 28 - 1 };
    EXPECT_TRUE(sgs_legacy_builder_has_room_for(&messages, of_three, kit_text("c"), kit_text("3")));
    EXPECT_TRUE(!sgs_legacy_builder_has_room_for(&messages, less, kit_text("c"), kit_text("3")));
    sgs_legacy_builder_deinit(&messages);
    messages = messages_of(1, SGS_CODEC_GZIP, 2, &err);
    EXPECT_EQ_I64(sgs_legacy_builder_estimated_size(&messages, 0.5F), 34 + 37); /* 72 * 0.5 * 1.05 */
    sgs_legacy_builder_deinit(&messages);
}

TEST(a_record_past_the_limit_goes_in) /* MemoryRecordsBuilderTest.writePastLimit */
{
    sgs_error err;
    int64_t timestamp, offset;
    for (int codec = 0; codec < SGS_CODEC_COUNT; ++codec) {
        sgs_batch_builder batch = batch_of(codec, 2, &err);
        EXPECT_TRUE(!has_room(&batch, limit));
        EXPECT_OK(sgs_batch_builder_append(&batch, 2, 2, kit_text("c"), kit_text("3"), NULL, 0, &err), &err);
        sgs_batch_builder_info(&batch, &timestamp, &offset);
        EXPECT_EQ_I64(timestamp, 2);
        EXPECT_EQ_I64(offset, 2);
        sgs_batch_builder_deinit(&batch);
    }
    for (int8_t magic = 0; magic < 2; ++magic)
        for (int codec = 0; codec < SGS_CODEC_ZSTD; ++codec) {
            sgs_legacy_builder messages = messages_of(magic, codec, 2, &err);
            EXPECT_TRUE(!sgs_legacy_builder_has_room_for(&messages, limit, kit_text("c"), kit_text("3")));
            EXPECT_OK(sgs_legacy_builder_append(&messages, 2, 2, kit_text("c"), kit_text("3"), &err), &err);
            sgs_legacy_builder_info(&messages, &timestamp, &offset);
            EXPECT_EQ_I64(timestamp, magic == 0 ? -1 : 2);
            EXPECT_EQ_I64(offset, magic == 0 ? -1 : 2);
            sgs_legacy_builder_deinit(&messages);
        }
}

TEST(the_time_index_is_told_where_readers_look) /* format.md 10, result info */
{
    const int64_t timestamps[] = { 3, 7, 7, 5 }, offsets[] = { 11, 13, 10, 13 };
    for (int kind = 0; kind < 4; ++kind) { /* plain and wrapped, by the client's time and by append time */
        sgs_error err;
        sgs_legacy_builder messages;
        int64_t timestamp, offset;
        const sgs_legacy_options options = { .base_offset = 10,
                                             .codec = kind % 2 == 0 ? SGS_CODEC_NONE : SGS_CODEC_GZIP,
                                             .level = INT_MIN,
                                             .log_append_time = kind >= 2,
                                             .log_append_timestamp = 99,
                                             .magic = 1 };
        sgs_legacy_builder_init(&messages, kit_memory(), kit_codecs());
        EXPECT_OK(sgs_legacy_builder_start(&messages, &options, &err), &err);
        sgs_legacy_builder_info(&messages, &timestamp, &offset);
        EXPECT_TRUE(timestamp == -1 && offset == -1);
        for (int i = 0; i < 4; ++i)
            EXPECT_OK(sgs_legacy_builder_append(&messages, 10 + i, timestamps[i], kit_text("a"), kit_text("1"), &err),
                      &err);
        sgs_legacy_builder_info(&messages, &timestamp, &offset);
        EXPECT_EQ_I64(timestamp, kind < 2 ? 7 : 99);
        EXPECT_EQ_I64(offset, offsets[kind]);
        sgs_legacy_builder_deinit(&messages);
    }
}

/* MemoryRecordsBuilderTest.shouldThrowIllegalStateExceptionOnBuildWhenAborted, shouldResetBufferToInitialPositionOnAbort,
 * shouldThrowIllegalStateExceptionOnAppendWhenAborted */
TEST(an_aborted_builder_writes_nothing_until_it_is_started_again)
{
    for (size_t start = 0; start <= PREFIX_BYTES; start += PREFIX_BYTES) {
        sgs_error err;
        sgs_buffer out;
        sgs_buffer_init(&out, kit_memory());
        EXPECT_OK(sgs_buffer_append(&out, "before the batch", start, &err), &err);
        for (int codec = 0; codec < SGS_CODEC_COUNT; ++codec) {
            sgs_batch_builder batch = batch_of(codec, 1, &err);
            sgs_batch_builder_abort(&batch);
            EXPECT_TRUE(sgs_batch_builder_is_full(&batch, limit) && !has_room(&batch, limit));
            EXPECT_STATUS(sgs_batch_builder_finish(&batch, &out, NULL, &err), SGS_ILLEGAL_STATE);
            EXPECT_STATUS(sgs_batch_builder_append(&batch, 1, 1, kit_text("a"), kit_text("1"), NULL, 0, &err),
                          SGS_ILLEGAL_STATE);
            EXPECT_EQ_I64(batch.section.size, 0);
            const sgs_batch_options options = batch.options;
            EXPECT_OK(sgs_batch_builder_start(&batch, &options, &err), &err);
            EXPECT_OK(sgs_batch_builder_finish(&batch, &out, NULL, &err), &err);
            sgs_batch_builder_deinit(&batch);
        }
        for (int8_t magic = 0; magic < 2; ++magic) {
            sgs_legacy_builder messages = messages_of(magic, SGS_CODEC_GZIP, 1, &err);
            sgs_legacy_builder_abort(&messages);
            EXPECT_TRUE(sgs_legacy_builder_is_full(&messages, limit));
            EXPECT_TRUE(!sgs_legacy_builder_has_room_for(&messages, limit, kit_text("a"), kit_text("1")));
            EXPECT_STATUS(sgs_legacy_builder_finish(&messages, &out, &err), SGS_ILLEGAL_STATE);
            EXPECT_STATUS(sgs_legacy_builder_append(&messages, 1, 1, kit_text("a"), kit_text("1"), &err),
                          SGS_ILLEGAL_STATE);
            sgs_legacy_builder_deinit(&messages);
        }
        EXPECT_EQ_I64(out.size, start);
        sgs_buffer_deinit(&out);
    }
}

TEST_MAIN()
