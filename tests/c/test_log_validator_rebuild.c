/* test_log_validator_rebuild.c - appends that cannot stay as they are: another magic, another codec, odd offsets in a
 * wrapper [format.md 12.2, 12.6, 12.7], Kafka LogValidatorTest where named. */
#include <errno.h>

#include "append_kit.h"
#include "base/bytes.h"
#include "memory_env.h"
#include "record/legacy_message.h"
#include "record/log_validator.h"
#include "record_kit.h"
#include "test.h"

enum { COUNT = 5, NEXT_OFFSET = 1234567 };

typedef struct fixture {
    append_kit kit;
    sgs_log_validator validator;
} fixture;

static void fixture_init(fixture *f)
{
    append_kit_init(&f->kit);
    sgs_log_validator_init(&f->validator, kit_memory(), kit_codecs());
    f->validator.options.now_ms = EXAMPLE_T + 1000;
    f->validator.options.partition_leader_epoch = 7;
}

static void fixture_deinit(fixture *f)
{
    sgs_log_validator_deinit(&f->validator);
    append_kit_deinit(&f->kit);
}

static sgs_status validate(fixture *f)
{
    const size_t count = append_kit_scan(&f->kit);
    return sgs_validate_and_assign_offsets(&f->validator, NEXT_OFFSET, f->kit.data.data, f->kit.data.size,
                                           append_kit_rows(&f->kit), count, &f->kit.err);
}

static const sgs_batch_header *output_rows(const fixture *f)
{
    return (const sgs_batch_header *)(const void *)f->validator.output_rows.data;
}

/* LogValidatorTest.testOffsetAssignmentAfterUpConversionV1ToV2NonCompressed, testCreateTimeUpConversionV1ToV2 */
TEST(messages_of_magic_1_become_one_batch_of_magic_2)
{
    for (int codec = 0; codec < SGS_CODEC_ZSTD; ++codec) {
        fixture f;
        fixture_init(&f);
        append_kit_add_legacy(&f.kit, 1, codec, COUNT);

        REQUIRE_OK(validate(&f), &f.kit.err);

        const sgs_validation *const result = &f.validator.result;
        EXPECT_TRUE(result->is_rebuilt && result->sizes_may_have_changed);
        EXPECT_EQ_I64(result->converted_count, COUNT);
        EXPECT_EQ_I64(result->records_count, COUNT);
        EXPECT_EQ_I64(result->next_offset, NEXT_OFFSET + COUNT);
        EXPECT_EQ_I64(result->max_timestamp, EXAMPLE_T + COUNT - 1);
        EXPECT_EQ_I64(f.validator.output_rows.size, sizeof(sgs_batch_header));
        EXPECT_EQ_I64(output_rows(&f)->magic, 2);
        EXPECT_EQ_I64(output_rows(&f)->attributes, codec);
        EXPECT_EQ_I64(output_rows(&f)->partition_leader_epoch, 7);
        append_kit_expect(f.validator.output.data, f.validator.output.size, NEXT_OFFSET, COUNT, COUNT, NULL);
        fixture_deinit(&f);
    }
}

TEST(magic_0_has_no_timestamps_to_keep) /* LogValidatorTest.testOffsetAssignmentAfterUpConversionV0ToV2Compressed */
{
    const int64_t none[COUNT] = { -1, -1, -1, -1, -1 };
    fixture f;
    fixture_init(&f);
    append_kit_add_legacy(&f.kit, 0, SGS_CODEC_GZIP, COUNT);
    REQUIRE_OK(validate(&f), &f.kit.err);
    EXPECT_EQ_I64(f.validator.result.max_timestamp, -1);
    append_kit_expect(f.validator.output.data, f.validator.output.size, NEXT_OFFSET, COUNT, COUNT, none);

    f.validator.options.log_append_time = true;
    REQUIRE_OK(validate(&f), &f.kit.err);
    EXPECT_EQ_I64(f.validator.result.max_timestamp, EXAMPLE_T + 1000);
    EXPECT_EQ_I64(output_rows(&f)->attributes, SGS_CODEC_GZIP | SGS_ATTRIBUTE_LOG_APPEND_TIME);
    EXPECT_EQ_I64(output_rows(&f)->base_timestamp, -1);
    fixture_deinit(&f);
}

TEST(another_codec_of_the_topic_is_applied_and_the_producer_kept) /* LogValidatorTest.checkRecompression */
{
    for (int source = 0; source < SGS_CODEC_COUNT; ++source)
        for (int target = 0; target < SGS_CODEC_COUNT; ++target) {
            fixture f;
            sgs_batch_options options;
            fixture_init(&f);
            sgs_batch_options_default(&options);
            options.codec = source;
            options.producer_id = 1324;
            options.producer_epoch = 10;
            options.base_sequence = 984;
            options.transactional = true;
            append_kit_add(&f.kit, &options, COUNT, NULL, true);
            f.validator.options.target_codec = target;

            REQUIRE_OK(validate(&f), &f.kit.err);

            const bool rebuilt = f.validator.result.is_rebuilt;
            EXPECT_EQ_I64(rebuilt, source != target);
            EXPECT_EQ_I64(f.validator.result.converted_count, rebuilt ? COUNT : 0);
            const sgs_buffer *const written = rebuilt ? &f.validator.output : &f.kit.data;
            const sgs_batch_header *const row = rebuilt ? output_rows(&f) : append_kit_rows(&f.kit);
            EXPECT_EQ_I64(row->attributes, target | SGS_ATTRIBUTE_TRANSACTIONAL);
            EXPECT_EQ_I64(row->producer_id, 1324);
            EXPECT_EQ_I64(row->producer_epoch, 10);
            EXPECT_EQ_I64(row->base_sequence, 984);
            EXPECT_EQ_I64(row->partition_leader_epoch, 7);
            append_kit_expect(written->data, written->size, NEXT_OFFSET, COUNT, COUNT, NULL);
            fixture_deinit(&f);
        }
}

TEST(a_run_of_requests_is_built_again_from_the_first_that_must_be)
{
    fixture f;
    fixture_init(&f);
    append_kit_add(&f.kit, NULL, COUNT, NULL, false);
    append_kit_add_legacy(&f.kit, 1, SGS_CODEC_NONE, COUNT); /* plain messages: one request, one batch */
    append_kit_add(&f.kit, NULL, COUNT, NULL, false);
    append_kit_add_legacy(&f.kit, 0, SGS_CODEC_GZIP, 1);

    REQUIRE_OK(validate(&f), &f.kit.err);

    EXPECT_EQ_I64(f.validator.result.next_offset, NEXT_OFFSET + 3 * COUNT + 1);
    EXPECT_EQ_I64(f.validator.result.converted_count, COUNT + 1);
    REQUIRE_EQ_I64(f.validator.output_rows.size, 4 * sizeof(sgs_batch_header));
    int64_t position = 0;
    for (int i = 0; i < 4; ++i) {
        const sgs_batch_header *const row = &output_rows(&f)[i];
        EXPECT_EQ_I64(row->position, position);
        EXPECT_EQ_I64(row->base_offset, NEXT_OFFSET + i * COUNT);
        EXPECT_OK(sgs_batch_check(f.validator.output.data + position, (size_t)row->size_bytes, position, &f.kit.err),
                  &f.kit.err);
        position += row->size_bytes;
    }
    append_kit_expect(f.validator.output.data, (size_t)output_rows(&f)[3].position, NEXT_OFFSET, 3 * COUNT, COUNT,
                      NULL);
    fixture_deinit(&f);
}

TEST(one_request_is_what_kafka_takes_at_once) /* APP-31; LogValidatorTest.checkAllowMultiBatch */
{
    fixture f;
    fixture_init(&f);
    f.validator.options.one_request = true;
    append_kit_add_legacy(&f.kit, 1, SGS_CODEC_NONE, 2);
    append_kit_add_legacy(&f.kit, 1, SGS_CODEC_NONE, 1);
    EXPECT_OK(validate(&f), &f.kit.err);
    append_kit_add_legacy(&f.kit, 0, SGS_CODEC_NONE, 1);
    EXPECT_STATUS(validate(&f), SGS_INVALID_RECORD);
    EXPECT_EQ_I64(f.validator.result.metrics.invalid_magic, 1);

    sgs_buffer_clear(&f.kit.data);
    append_kit_add(&f.kit, NULL, 1, NULL, false);
    append_kit_add(&f.kit, NULL, 1, NULL, false);
    EXPECT_STATUS(validate(&f), SGS_INVALID_RECORD);

    sgs_buffer_clear(&f.kit.data);
    append_kit_add_legacy(&f.kit, 1, SGS_CODEC_GZIP, 2);
    append_kit_add_legacy(&f.kit, 1, SGS_CODEC_GZIP, 2);
    EXPECT_STATUS(validate(&f), SGS_INVALID_RECORD);
    fixture_deinit(&f);
}

TEST(older_targets_are_written_too) /* LogValidatorTest.testOffsetAssignmentAfterDownConversionV2ToV1Compressed */
{
    for (int8_t magic = 0; magic < 2; ++magic)
        for (int codec = 0; codec < SGS_CODEC_ZSTD; ++codec) {
            const int64_t none[COUNT] = { -1, -1, -1, -1, -1 };
            fixture f;
            sgs_batch_options options;
            fixture_init(&f);
            sgs_batch_options_default(&options);
            options.codec = codec;
            append_kit_add(&f.kit, &options, COUNT, NULL, false);
            f.validator.options.target_magic = magic;

            REQUIRE_OK(validate(&f), &f.kit.err);

            EXPECT_EQ_I64(f.validator.output_rows.size / sizeof(sgs_batch_header), codec == 0 ? COUNT : 1);
            EXPECT_EQ_I64(output_rows(&f)->magic, magic);
            append_kit_expect(f.validator.output.data, f.validator.output.size, NEXT_OFFSET, COUNT, COUNT,
                              magic == 0 ? none : NULL);
            fixture_deinit(&f);
        }
}

TEST(what_an_older_target_cannot_hold_is_refused) /* format.md 12.3, 12.6 */
{
    fixture f;
    sgs_batch_options options;
    fixture_init(&f);
    f.validator.options.target_magic = 1;
    append_kit_add(&f.kit, NULL, 1, NULL, true);
    EXPECT_STATUS(validate(&f), SGS_ILLEGAL_ARGUMENT); /* headers */

    sgs_batch_options_default(&options);
    options.producer_id = 1;
    options.producer_epoch = 0;
    options.base_sequence = 0;
    for (int transactional = 0; transactional < 2; ++transactional)
        for (int codec = 0; codec < 2; ++codec) {
            options.transactional = transactional != 0;
            options.codec = codec;
            sgs_buffer_clear(&f.kit.data);
            append_kit_add(&f.kit, &options, 1, NULL, false);
            EXPECT_STATUS(validate(&f),
                          transactional != 0 && codec == 0 ? SGS_ILLEGAL_ARGUMENT : SGS_UNSUPPORTED_FORMAT);
        }
    options.transactional = false;
    f.validator.options.target_codec = SGS_CODEC_ZSTD;
    sgs_buffer_clear(&f.kit.data);
    append_kit_add_legacy(&f.kit, 1, SGS_CODEC_NONE, 1);
    EXPECT_STATUS(validate(&f), SGS_ILLEGAL_ARGUMENT);
    fixture_deinit(&f);
}

/* Kafka builds while it checks: record 0 has headers, record 1 no key. Found by vectors of another seed. */
TEST(what_the_builder_refuses_before_the_first_wrong_record_comes_first) /* format.md 12.6 */
{
    const int64_t timestamps[] = { EXAMPLE_T, EXAMPLE_T + 1000000 };
    for (int header = 0; header < 2; ++header) {
        fixture f;
        fixture_init(&f);
        f.validator.options.target_magic = 1;
        f.validator.options.timestamp_after_max_ms = 5000;
        append_kit_add(&f.kit, NULL, 2, timestamps, header != 0);

        EXPECT_STATUS(validate(&f), header != 0 ? SGS_ILLEGAL_ARGUMENT : SGS_INVALID_RECORD);

        EXPECT_EQ_I64(f.validator.result.has_invalid_timestamp, header == 0);
        EXPECT_EQ_I64(sgs_log_validator_errors_count(&f.validator), header != 0 ? 0 : 1);
        f.validator.options.keys_required = true; /* now the first record is the first wrong one */
        f.validator.options.now_ms = 0;
        EXPECT_STATUS(validate(&f), SGS_INVALID_RECORD);
        EXPECT_EQ_I64(sgs_log_validator_errors_count(&f.validator), 2);

        f.validator.options.now_ms = EXAMPLE_T;
        sgs_store_be_i32(f.kit.data.data + 57, 1); /* the count: a rule per batch comes before its records */
        EXPECT_STATUS(validate(&f), SGS_INVALID_RECORD);
        EXPECT_EQ_I64(f.validator.result.metrics.invalid_offset, 1);
        fixture_deinit(&f);
    }
}

/* Kafka's header keys are Strings: bytes that are no UTF-8 are so no longer when they were written again. */
TEST(header_keys_that_are_no_utf_8_are_replaced_when_a_batch_is_written_again)
{
    for (int codec = 0; codec < 2; ++codec) {
        fixture f;
        fixture_init(&f);
        append_kit_add(&f.kit, NULL, 1, NULL, true);
        uint8_t *const key = f.kit.data.data + f.kit.data.size - 2; /* before the size of a null value */
        REQUIRE_EQ_I64(*key, 'h');
        *key = 0xFF;
        f.validator.options.target_codec = codec;

        REQUIRE_OK(validate(&f), &f.kit.err);

        EXPECT_EQ_I64(f.validator.result.is_rebuilt, codec != 0);
        if (codec == 0)
            EXPECT_EQ_I64(*key, 0xFF); /* what stays as it is stays */
        else
            EXPECT_MEM(f.validator.output.data + f.validator.output.size - 5, "\x06\xef\xbf\xbd\x01", 5);
        fixture_deinit(&f);
    }
}

/* The wrapper's messages claim offsets 0, 0 ...: old clients did, and their wrappers are written again. In a batch of
 * magic 2 the same is refused. LogValidatorTest.testValidationOfBatchesWithNonSequentialInnerOffsets */
TEST(odd_offsets_inside_are_put_right_in_a_wrapper_and_refused_in_a_batch)
{
    enum { WRAPPER_HEAD_BYTES = 34 + 1, MESSAGE_BYTES = 34 + 3 }; /* 1: the mark of the test codec */
    fixture f;
    fixture_init(&f);
    f.validator.options.target_magic = 1;
    append_kit_add_legacy(&f.kit, 1, SGS_CODEC_GZIP, 3);
    sgs_store_be_i64(f.kit.data.data + WRAPPER_HEAD_BYTES + MESSAGE_BYTES, 0); /* the second message */
    REQUIRE_OK(validate(&f), &f.kit.err);
    EXPECT_TRUE(f.validator.result.is_rebuilt);
    append_kit_expect(f.validator.output.data, f.validator.output.size, NEXT_OFFSET, 3, 3, NULL);

    sgs_batch_options options;
    sgs_batch_options_default(&options);
    options.codec = SGS_CODEC_GZIP;
    f.validator.options.target_magic = 2;
    sgs_buffer_clear(&f.kit.data);
    append_kit_add(&f.kit, &options, 2, NULL, false);
    f.kit.data.data[SGS_BATCH_HEADER_BYTES + 1 + 3] = 4; /* delta 2 */
    EXPECT_STATUS(validate(&f), SGS_INVALID_RECORD);
    EXPECT_EQ_I64(sgs_log_validator_errors(&f.validator)->kind, SGS_RECORD_OFFSET);
    fixture_deinit(&f);
}

TEST(a_message_inside_a_wrapper_is_judged_by_its_crc) /* format.md 12.4 */
{
    enum { WRAPPER_HEAD_BYTES = 34 + 1, ATTRIBUTES_AT = 17, KEY_SIZE_AT = 26 };
    fixture f;
    fixture_init(&f);
    append_kit_add_legacy(&f.kit, 1, SGS_CODEC_GZIP, 3);
    f.kit.data.data[f.kit.data.size - 1] ^= 1;
    EXPECT_STATUS(validate(&f), SGS_CORRUPT_RECORD);
    EXPECT_EQ_I64(f.validator.result.metrics.invalid_checksums, 1);

    f.kit.data.data[WRAPPER_HEAD_BYTES + KEY_SIZE_AT] = 0x7F; /* unreadable, but damaged in the first place */
    EXPECT_STATUS(validate(&f), SGS_CORRUPT_RECORD);
    f.kit.data.data[WRAPPER_HEAD_BYTES + ATTRIBUTES_AT] = SGS_CODEC_GZIP; /* that is looked at before the CRC */
    EXPECT_STATUS(validate(&f), SGS_INVALID_RECORD);
    EXPECT_EQ_I64(f.validator.result.metrics.invalid_checksums, 0);
    fixture_deinit(&f);
}

/* A wrapper of magic 1 around messages of magic 0, as Kafka wrote some [KAFKA-4298]. LogValidatorTest.checkMismatchMagic,
 * testInvalidRecordExceptionHasBatchIndex */
TEST(messages_of_another_magic_are_listed_each)
{
    uint8_t inner[1 + 3 * 28] = { 'S' };
    uint8_t *next = inner + 1;
    for (int i = 0; i < 3; ++i)
        next = sgs_legacy_message_write(next, 0, i, -1, 0, kit_text("k"), kit_text("v"));
    REQUIRE_EQ_I64(next - inner, sizeof inner);
    fixture f;
    fixture_init(&f);
    REQUIRE_OK(sgs_buffer_reserve(&f.kit.data, 256, &f.kit.err), &f.kit.err);
    next = sgs_legacy_message_write(f.kit.data.data, 1, 2, EXAMPLE_T, SGS_CODEC_GZIP, kit_text(NULL),
                                    (sgs_bytes){ inner, sizeof inner });
    f.kit.data.size = (size_t)(next - f.kit.data.data);

    EXPECT_STATUS(validate(&f), SGS_INVALID_RECORD);

    EXPECT_EQ_I64(f.validator.result.metrics.invalid_magic, 3);
    REQUIRE_EQ_I64(sgs_log_validator_errors_count(&f.validator), 3);
    EXPECT_EQ_I64(sgs_log_validator_errors(&f.validator)[2].record_index, 2);
    EXPECT_EQ_I64(sgs_log_validator_errors(&f.validator)[2].kind, SGS_RECORD_HAS_OTHER_MAGIC);
    fixture_deinit(&f);
}

TEST(every_failing_allocation_is_told_and_nothing_is_lost) /* DUR-31 */
{
    int64_t failures = 0;
    for (bool is_done = false; !is_done; ++failures) {
        memory_env memory;
        fixture f;
        memory_env_init(&memory, sgs_env_posix());
        append_kit_init(&f.kit);
        sgs_log_validator_init(&f.validator, sgs_env_memory(&memory.env), kit_codecs());
        append_kit_add_legacy(&f.kit, 1, SGS_CODEC_GZIP, COUNT);
        append_kit_add(&f.kit, NULL, COUNT, NULL, true);
        f.validator.options.target_codec = SGS_CODEC_LZ4;
        memory_env_fail_always(&memory, "allocate", failures + 1, ENOMEM);
        const sgs_status status = validate(&f);
        is_done = status == SGS_OK;
        if (!is_done)
            EXPECT_STATUS(status, SGS_RESOURCE);
        fixture_deinit(&f);
        EXPECT_TRUE(memory_env_is_balanced(&memory));
    }
    EXPECT_TRUE(failures > 5);
}

TEST_MAIN()
