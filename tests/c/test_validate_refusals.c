/* test_validate_refusals.c - batches that say of themselves what cannot be, one field at a time; and those of our own builder that
 * are taken by their header [format.md 12; DUR-87, DUR-92, DUR-95]. */
#include "append_kit.h"
#include "base/bytes.h"
#include "record/log_validator.h"
#include "record_kit.h"
#include "test.h"

enum { COUNT = 5, ATTRIBUTES_AT = 21, LAST_OFFSET_DELTA_AT = 23, RECORDS_COUNT_AT = 57 };

typedef struct fixture {
    append_kit kit;
    sgs_log_validator validator;
    sgs_codec_table codecs;
} fixture;

static void begin(fixture *f, int codec)
{
    sgs_batch_options options;
    append_kit_init(&f->kit);
    f->codecs = *kit_codecs();
    sgs_log_validator_init(&f->validator, kit_memory(), &f->codecs);
    f->validator.options.now_ms = EXAMPLE_T + 1000;
    sgs_batch_options_default(&options);
    options.codec = codec;
    append_kit_add(&f->kit, &options, COUNT, NULL, true);
}

static sgs_status end(fixture *f)
{
    const size_t count = append_kit_scan(&f->kit);
    const sgs_status status = sgs_validate_and_assign_offsets(&f->validator, 1000, f->kit.data.data, f->kit.data.size,
                                                              append_kit_rows(&f->kit), count, &f->kit.err);
    sgs_log_validator_deinit(&f->validator);
    append_kit_deinit(&f->kit);
    return status;
}

static void seal(fixture *f) { (void)sgs_batch_seal(f->kit.data.data, f->kit.data.size); }

TEST(counts_that_cannot_be_are_refused)
{
    static const int32_t counts[] = { -1, INT32_MAX, 6 };
    for (int codec = SGS_CODEC_NONE; codec <= SGS_CODEC_GZIP; ++codec)
        for (int i = 0; i < 3; ++i)
            for (int way = 0; way < 4; ++way) {
                fixture f;
                begin(&f, codec);
                f.validator.options.kafka_limits = way % 2 == 1;
                f.validator.options.records_are_trusted = way >= 2; /* a header that can be is believed */
                sgs_store_be32(f.kit.data.data + RECORDS_COUNT_AT, (uint32_t)counts[i]);
                sgs_store_be32(f.kit.data.data + LAST_OFFSET_DELTA_AT, (uint32_t)counts[i] - 1);
                seal(&f);
                EXPECT_TRUE(end(&f) != SGS_OK || (way >= 2 && counts[i] > 0));
            }
}

TEST(compressed_control_records_are_refused)
{
    fixture f;
    begin(&f, SGS_CODEC_GZIP);
    f.kit.data.data[ATTRIBUTES_AT + 1] |= SGS_ATTRIBUTE_CONTROL;
    f.validator.options.origin = SGS_ORIGIN_COORDINATOR;
    seal(&f);
    EXPECT_TRUE(end(&f) != SGS_OK);
}

TEST(a_record_in_a_compressed_batch_has_a_size_of_its_own)
{
    for (int kafka = 0; kafka < 2; ++kafka) /* [CFG-82m] in both profiles */
        for (int magic = 0; magic <= 2; ++magic)
            for (size_t limit = 5; limit < 200; limit += 190) {
                fixture f;
                begin(&f, SGS_CODEC_GZIP);
                if (magic < 2) {
                    sgs_buffer_clear(&f.kit.data);
                    append_kit_add_legacy(&f.kit, (int8_t)magic, SGS_CODEC_GZIP, COUNT);
                }
                f.codecs.max_record_bytes = limit;
                f.validator.options.kafka_limits = kafka == 1;
                EXPECT_STATUS(end(&f), limit == 5 ? SGS_LIMIT_EXCEEDED : SGS_OK);
            }
}

/* What was built here needs no second look; a stranger's batch does. */
TEST(a_trusted_compressed_batch_is_stamped_by_its_header)
{
    for (int trusted = 0; trusted < 2; ++trusted)
        for (int stamp = 0; stamp < 2; ++stamp) {
            fixture f;
            begin(&f, SGS_CODEC_GZIP);
            f.validator.options.records_are_trusted = trusted == 1;
            f.validator.options.log_append_time = stamp == 1;
            f.validator.options.target_codec = SGS_CODEC_GZIP;
            EXPECT_STATUS(end(&f), SGS_OK);
        }
}

/* Of magic 1 the header says too little: its messages are looked at. */
TEST(a_trusted_wrapper_of_magic_1_is_checked)
{
    for (int wrong = 0; wrong < 2; ++wrong) {
        fixture f;
        begin(&f, SGS_CODEC_NONE);
        sgs_buffer_clear(&f.kit.data);
        append_kit_add_legacy(&f.kit, 1, SGS_CODEC_GZIP, COUNT);
        f.validator.options.records_are_trusted = true;
        f.validator.options.target_magic = 1;
        f.codecs.max_record_bytes = wrong == 1 ? 5 : 200;
        EXPECT_STATUS(end(&f), wrong == 1 ? SGS_LIMIT_EXCEEDED : SGS_OK);
    }
}

/* The bytes are a caller's: they may be others than those that were scanned [DUR-85]. */
TEST(a_batch_that_was_changed_since_the_scan_is_refused)
{
    for (int codec = SGS_CODEC_NONE; codec <= SGS_CODEC_GZIP; ++codec)
        for (size_t changed = 0; changed < (codec == SGS_CODEC_NONE ? 3u : 1u); ++changed)
            for (int shorter = 0; shorter < 2; ++shorter) {
                enum { LENGTH_AT = 8, MAGIC_AT = 16 };
                fixture f;
                begin(&f, SGS_CODEC_NONE);
                sgs_buffer_clear(&f.kit.data);
                append_kit_add_legacy(&f.kit, 1, codec, COUNT);
                const size_t count = append_kit_scan(&f.kit);
                EXPECT_EQ_U64(count, codec == SGS_CODEC_NONE ? COUNT : 1);
                uint8_t *const batch = f.kit.data.data + append_kit_rows(&f.kit)[changed].position;
                if (shorter == 1)
                    sgs_store_be32(batch + LENGTH_AT, 3);
                else
                    batch[MAGIC_AT] = 9;
                const sgs_status status = sgs_validate_and_assign_offsets(
                    &f.validator, 1000, f.kit.data.data, f.kit.data.size, append_kit_rows(&f.kit), count, &f.kit.err);
                EXPECT_TRUE(status == SGS_CORRUPT_RECORD || status == SGS_UNSUPPORTED_FORMAT);
                EXPECT_EQ_U64(f.validator.result.failed_batch, changed);
                sgs_log_validator_deinit(&f.validator);
                append_kit_deinit(&f.kit);
            }
}

TEST(a_header_with_a_time_out_of_range_is_not_enough)
{
    for (int i = 0; i < 4; ++i) {
        fixture f;
        begin(&f, SGS_CODEC_NONE);
        f.validator.options.records_are_trusted = true;
        f.validator.options.timestamp_after_max_ms = i == 0 ? 10 : INT64_MAX;
        f.validator.options.now_ms = i == 0 ? EXAMPLE_T - 1000 : EXAMPLE_T;
        f.validator.options.log_append_time = i == 1;
        f.validator.options.timestamp_before_max_ms = i == 2 ? -1 : INT64_MAX;
        f.validator.options.keys_required = i == 3;
        EXPECT_TRUE(end(&f) == SGS_OK || i == 0 || i == 2);
    }
}

/* Kafka's own reading of records: each byte of a batch is made another one, and the section one shorter. */
TEST(any_byte_may_be_wrong)
{
    for (int kafka = 0; kafka < 2; ++kafka)
        for (int codec = SGS_CODEC_NONE; codec <= SGS_CODEC_GZIP; ++codec)
            for (int target = SGS_CODEC_OF_SOURCE; target <= SGS_CODEC_LZ4; target += 4)
                for (size_t at = RECORDS_COUNT_AT; at < 200; ++at)
                    for (int change = 0; change < 4; ++change) {
                        static const uint8_t masks[] = { 0x01, 0x80, 0xFF, 0x7E };
                        fixture f;
                        begin(&f, codec);
                        if (at < f.kit.data.size)
                            f.kit.data.data[at] ^= masks[change];
                        f.validator.options.kafka_limits = kafka == 1;
                        f.validator.options.target_codec = target;
                        seal(&f);
                        const sgs_status status = end(&f);
                        EXPECT_TRUE(status == SGS_OK || status == SGS_INVALID_RECORD || status == SGS_CODEC ||
                                    status == SGS_LIMIT_EXCEEDED || status == SGS_ILLEGAL_ARGUMENT ||
                                    status == SGS_CORRUPT_RECORD || status == SGS_UNSUPPORTED_FORMAT);
                    }
}

/* The same of messages of magic 0 and 1, alone and in a wrapper. */
TEST(any_byte_of_a_message_may_be_wrong)
{
    for (int way = 0; way < 8; ++way)
        for (size_t at = 17; at < 150; ++at)
            for (int change = 0; change < 4; ++change) {
                static const uint8_t masks[] = { 0x01, 0x80, 0xFF, 0x7E };
                fixture f;
                begin(&f, SGS_CODEC_NONE);
                sgs_buffer_clear(&f.kit.data);
                append_kit_add_legacy(&f.kit, (int8_t)(way % 2), way / 2 % 2 == 0 ? SGS_CODEC_NONE : SGS_CODEC_GZIP, 3);
                if (at < f.kit.data.size)
                    f.kit.data.data[at] ^= masks[change];
                f.validator.options.kafka_limits = way >= 4;
                f.validator.options.target_magic = (int8_t)(way >= 4 ? way % 2 : 2);
                sgs_scan_options options;
                sgs_scan_result result;
                sgs_scan_options_default(&options, SGS_SCAN_MEMORY);
                options.check_crc = false;
                EXPECT_OK(sgs_batch_scan_buffer(f.kit.data.data, f.kit.data.size, &options, &f.kit.table, &result,
                                                &f.kit.err),
                          &f.kit.err);
                if (result.stop == SGS_SCAN_COMPLETE) {
                    const sgs_status status = end(&f);
                    EXPECT_TRUE(status != SGS_INTERNAL && status != SGS_RESOURCE);
                } else {
                    sgs_log_validator_deinit(&f.validator);
                    append_kit_deinit(&f.kit);
                }
            }
}

TEST_MAIN()
