/* test_validate_records.c - the walk over the records of an append [format.md 5, 12.4]; what is wrong with single records
 * is in test_log_validator.c. */
#include "append_kit.h"
#include "base/bytes.h"
#include "record/log_validator.h"
#include "record_kit.h"
#include "test.h"

TEST(kafka_does_not_look_at_record_sizes_of_a_compressed_batch) /* format.md 5, "partial" decoding */
{
    sgs_batch_options options;
    sgs_batch_options_default(&options);
    options.codec = SGS_CODEC_GZIP;
    append_kit kit;
    append_kit_init(&kit);
    append_kit_add(&kit, &options, 2, NULL, true);
    uint8_t *const size = kit.data.data + SGS_BATCH_HEADER_BYTES + 1; /* behind the mark of the test codec */
    const uint8_t wrong_sizes[] = { (uint8_t)(*size + 2), 1 };        /* one more; -1 */
    for (int i = 0; i < 4; ++i) {
        const int kafka_limits = i % 2;
        *size = wrong_sizes[i / 2];
        sgs_log_validator validator;
        sgs_log_validator_init(&validator, kit_memory(), kit_codecs());
        validator.options.kafka_limits = kafka_limits != 0;
        append_kit_scan(&kit);
        EXPECT_STATUS(sgs_validate_and_assign_offsets(&validator, 0, kit.data.data, kit.data.size,
                                                      append_kit_rows(&kit), 1, &kit.err),
                      kafka_limits != 0 ? SGS_OK : SGS_INVALID_RECORD);
        sgs_log_validator_deinit(&validator);
    }
    append_kit_deinit(&kit);
}

/* For Kafka any size below 0 is null: -2 became a record of a wrong size when it was written again, which nobody could
 * read. Found by vectors of another seed. */
TEST(a_null_that_is_not_minus_one_is_written_as_minus_one) /* format.md 5 */
{
    const uint8_t read[] = { 24, 0, 0, 0, 0xFF, 0x7F, 2, 'v', 2, 2, 'h', 0xFF, 0x7F }; /* twice -8192, in two bytes */
    const uint8_t written[] = { 20, 0, 0, 0, 1, 2, 'v', 2, 2, 'h', 1 };
    uint8_t batch[SGS_BATCH_HEADER_BYTES + sizeof read];
    const sgs_batch_header header = {
        .size_bytes = sizeof batch, .producer_id = -1, .producer_epoch = -1, .records_count = 1, .magic = 2
    };
    sgs_batch_header_store(&header, batch);
    memcpy(batch + SGS_BATCH_HEADER_BYTES, read, sizeof read);
    append_kit kit;
    sgs_log_validator validator;
    append_kit_init(&kit);
    REQUIRE_OK(sgs_buffer_append(&kit.data, batch, sizeof batch, &kit.err), &kit.err);
    append_kit_scan(&kit);
    sgs_log_validator_init(&validator, kit_memory(), kit_codecs());
    validator.options.kafka_limits = true;
    validator.options.target_codec = SGS_CODEC_GZIP;

    REQUIRE_OK(sgs_validate_and_assign_offsets(&validator, 0, kit.data.data, kit.data.size, append_kit_rows(&kit), 1,
                                               &kit.err),
               &kit.err);

    const size_t section_at = SGS_BATCH_HEADER_BYTES + 1; /* the mark of the test codec */
    REQUIRE_EQ_I64(validator.output.size, section_at + sizeof written);
    EXPECT_MEM(validator.output.data + section_at, written, sizeof written);
    validator.options.kafka_limits = false;
    EXPECT_STATUS(sgs_validate_and_assign_offsets(&validator, 0, kit.data.data, kit.data.size, append_kit_rows(&kit), 1,
                                                  &kit.err),
                  SGS_INVALID_RECORD); /* [DUR-91] */
    sgs_log_validator_deinit(&validator);
    append_kit_deinit(&kit);
}

TEST(all_wrong_records_are_counted_and_the_first_thousand_kept) /* APP-33 */
{
    enum { WRONG = SGS_RECORD_ERRORS_MAX + 5 };
    append_kit kit;
    sgs_log_validator validator;
    sgs_error described;
    append_kit_init(&kit);
    sgs_log_validator_init(&validator, kit_memory(), kit_codecs());
    append_kit_add(&kit, NULL, WRONG, NULL, false);
    append_kit_scan(&kit);
    validator.options.timestamp_after_max_ms = 0;
    EXPECT_STATUS(sgs_validate_and_assign_offsets(&validator, 0, kit.data.data, kit.data.size, append_kit_rows(&kit), 1,
                                                  &kit.err),
                  SGS_INVALID_RECORD);
    EXPECT_EQ_I64(validator.result.record_errors_count, WRONG);
    REQUIRE_EQ_I64(sgs_log_validator_errors_count(&validator), SGS_RECORD_ERRORS_MAX);
    sgs_record_error_describe(&validator, &sgs_log_validator_errors(&validator)[7], &described);
    EXPECT_TEXT(described.message, "batch 0, record 7: timestamp 1700000000007 is more than"
                                   " message.timestamp.after.max.ms = 0 ms ahead of the clock, 0");
    sgs_log_validator_deinit(&validator);
    append_kit_deinit(&kit);
}

/* [DUR-90] With its append time bit cleared the batch could not be read: fuzzing found it. */
TEST(a_timestamp_that_wraps_is_refused_behind_an_append_time_too)
{
    for (int append_time = 0; append_time < 2; ++append_time) {
        append_kit kit;
        sgs_log_validator validator;
        append_kit_init(&kit);
        sgs_log_validator_init(&validator, kit_memory(), kit_codecs());
        append_kit_add(&kit, NULL, 2, (int64_t[]){ 5, 6 }, false);
        sgs_store_be_i64(kit.data.data + 27, INT64_MAX); /* the base timestamp */
        sgs_batch_set_max_timestamp(kit.data.data, kit.data.size, append_time != 0, 7);
        append_kit_scan(&kit);
        EXPECT_STATUS(sgs_validate_and_assign_offsets(&validator, 0, kit.data.data, kit.data.size,
                                                      append_kit_rows(&kit), 1, &kit.err),
                      SGS_INVALID_RECORD);
        sgs_log_validator_deinit(&validator);
        append_kit_deinit(&kit);
    }
}

/* The walk has a short way for what nearly all records are. It must agree with the parser on every record, of any shape
 * and with any one byte changed. */
TEST(the_short_way_takes_what_the_parser_takes)
{
    const struct {
        int key_bytes, value_bytes;
        int64_t timestamp;
        bool header;
    } shapes[] = { { 0, 0, 0, false },         { -1, -1, 5, false },       { 63, 64, 63, false },
                   { 64, 8191, 64, false },    { 5, 8192, 8191, false },   { 1, 100, 1048576, false },
                   { 8, 3, INT64_MAX, false }, { 7, 200, 134217728, true } };
    static uint8_t bytes[8192];
    append_kit kit;
    append_kit_init(&kit);
    sgs_batch_builder builder;
    sgs_batch_options options;
    const sgs_record_header header = { kit_text("h"), kit_text("") };
    sgs_batch_options_default(&options);
    sgs_batch_builder_init(&builder, kit_memory(), NULL);
    EXPECT_OK(sgs_batch_builder_start(&builder, &options, &kit.err), &kit.err);
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; ++i)
        EXPECT_OK(sgs_batch_builder_append(
                      &builder, (int64_t)i, shapes[i].timestamp, (sgs_bytes){ bytes, shapes[i].key_bytes },
                      (sgs_bytes){ bytes, shapes[i].value_bytes }, &header, shapes[i].header ? 1 : 0, &kit.err),
                  &kit.err);
    EXPECT_OK(sgs_batch_builder_finish(&builder, &kit.data, NULL, &kit.err), &kit.err);
    sgs_batch_builder_deinit(&builder);
    append_kit_scan(&kit);
    const sgs_batch_header row = append_kit_rows(&kit)[0];
    for (size_t at = SGS_BATCH_HEADER_BYTES; at < kit.data.size; at += at % 64 < 24 ? 1 : 13)
        for (unsigned bit = 0; bit < 8; ++bit) {
            sgs_log_validator validator;
            sgs_record_reader reader;
            sgs_record record;
            bool found = true, is_good = true;
            kit.data.data[at] ^= (uint8_t)(1U << bit);
            sgs_record_reader_init(&reader, &row, kit.data.data + SGS_BATCH_HEADER_BYTES,
                                   kit.data.size - SGS_BATCH_HEADER_BYTES);
            for (int64_t index = 0; is_good && found; ++index) {
                is_good = sgs_record_reader_next(&reader, &record, &found, &kit.err) == SGS_OK &&
                          (!found || record.offset == index);
            }
            sgs_log_validator_init(&validator, kit_memory(), NULL);
            append_kit_rows(&kit)[0] = row;
            const sgs_status status = sgs_validate_and_assign_offsets(&validator, 0, kit.data.data, kit.data.size,
                                                                      append_kit_rows(&kit), 1, &kit.err);
            if (!EXPECT_EQ_I64(status == SGS_OK, is_good))
                (void)printf("byte %zu, bit %u\n", at, bit);
            sgs_log_validator_deinit(&validator);
            kit.data.data[at] ^= (uint8_t)(1U << bit);
        }
    append_kit_deinit(&kit);
}

TEST_MAIN()
