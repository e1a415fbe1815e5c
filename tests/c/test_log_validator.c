/* test_log_validator.c - [format.md 12.3-12.5, 12.7; APP-30..APP-34], Kafka LogValidatorTest where named. */
#include <string.h>

#include "base/bytes.h"
#include "io/env.h"
#include "record/batch_builder.h"
#include "record/log_validator.h"
#include "test.h"

enum { CREATED = 1700000000, NOW = CREATED + 1000 };

static sgs_bytes text(const char *characters)
{
    return (sgs_bytes){ (const uint8_t *)characters, characters == NULL ? -1 : (int32_t)strlen(characters) };
}

typedef struct fixture {
    sgs_buffer data;
    sgs_batch_builder builder;
    sgs_batch_header rows[4];
    size_t rows_count;
    int64_t next_offset;
    sgs_log_validator validator;
    sgs_error err;
} fixture;

static void fixture_init(fixture *f)
{
    const sgs_memory memory = sgs_env_memory(sgs_env_posix());
    memset(f, 0, sizeof *f);
    sgs_buffer_init(&f->data, memory);
    sgs_batch_builder_init(&f->builder, memory, NULL);
    sgs_log_validator_init(&f->validator, memory, NULL);
    f->next_offset = 100;
    f->validator.options.now_ms = NOW;
    f->validator.options.partition_leader_epoch = 7;
    f->validator.options.timestamp_after_max_ms = 3600000;
}

static void fixture_deinit(fixture *f)
{
    sgs_log_validator_deinit(&f->validator);
    sgs_batch_builder_deinit(&f->builder);
    sgs_buffer_deinit(&f->data);
}

/* A batch of records without keys, one per timestamp. */
static void add_batch(fixture *f, size_t count, const int64_t *timestamps)
{
    sgs_batch_options options;
    sgs_batch_options_default(&options);
    EXPECT_OK(sgs_batch_builder_start(&f->builder, &options, &f->err), &f->err);
    for (size_t i = 0; i < count; ++i)
        EXPECT_OK(sgs_batch_builder_append(&f->builder, (int64_t)i, timestamps[i], text(NULL), text("value"), NULL, 0,
                                           &f->err),
                  &f->err);
    EXPECT_OK(sgs_batch_builder_finish(&f->builder, &f->data, &f->rows[f->rows_count++], &f->err), &f->err);
}

static sgs_status validate(fixture *f)
{
    return sgs_validate_and_assign_offsets(&f->validator, f->next_offset, f->data.data, f->data.size, f->rows,
                                           f->rows_count, &f->err);
}

static uint8_t *batch(fixture *f, size_t index) { return f->data.data + f->rows[index].position; }

/* Change a field of the header and make the CRC right again, so that only the field is wrong. */
static void reseal(fixture *f, size_t index) { sgs_batch_seal(batch(f, index), (size_t)f->rows[index].size_bytes); }

TEST(offsets_epoch_and_largest_timestamp_are_stamped_in_place)
{
    fixture f;
    fixture_init(&f);
    add_batch(&f, 3, (int64_t[]){ CREATED, CREATED + 9, CREATED + 4 });
    add_batch(&f, 2, (int64_t[]){ CREATED + 1, CREATED + 2 });
    const uint32_t crc = f.rows[0].crc;

    REQUIRE_OK(validate(&f), &f.err);

    EXPECT_EQ_I64(f.validator.result.next_offset, 105);
    EXPECT_EQ_I64(f.validator.result.records_count, 5);
    EXPECT_EQ_I64(f.validator.result.max_timestamp, CREATED + 9);
    EXPECT_EQ_I64(f.rows[0].base_offset, 100);
    EXPECT_EQ_I64(f.rows[0].last_offset, 102);
    EXPECT_EQ_I64(f.rows[1].base_offset, 103);
    EXPECT_EQ_I64(f.rows[1].last_offset, 104);
    EXPECT_EQ_I64(sgs_load_be_i64(batch(&f, 1)), 103);
    EXPECT_EQ_I64(f.rows[1].partition_leader_epoch, 7);
    EXPECT_EQ_U64(f.rows[0].crc, crc); /* offset and epoch lie outside the CRC */
    EXPECT_OK(sgs_batch_check(batch(&f, 0), (size_t)f.rows[0].size_bytes, 0, &f.err), &f.err);
    fixture_deinit(&f);
}

TEST(log_append_time_is_stamped_with_a_new_crc) /* LogValidatorTest.testLogAppendTimeNonCompressedV2 */
{
    fixture f;
    fixture_init(&f);
    add_batch(&f, 2, (int64_t[]){ CREATED, 1 });
    f.validator.options.log_append_time = true;

    REQUIRE_OK(validate(&f), &f.err);

    EXPECT_EQ_I64(f.validator.result.max_timestamp, NOW);
    EXPECT_EQ_I64(f.rows[0].max_timestamp, NOW);
    EXPECT_EQ_I64(f.rows[0].attributes, SGS_ATTRIBUTE_LOG_APPEND_TIME);
    EXPECT_OK(sgs_batch_check(batch(&f, 0), (size_t)f.rows[0].size_bytes, 0, &f.err), &f.err);
    fixture_deinit(&f);
}

TEST(a_wrong_largest_timestamp_of_the_client_is_put_right)
{
    fixture f;
    fixture_init(&f);
    add_batch(&f, 2, (int64_t[]){ CREATED, CREATED + 5 });
    sgs_batch_set_max_timestamp(batch(&f, 0), (size_t)f.rows[0].size_bytes, false, CREATED + 777);

    REQUIRE_OK(validate(&f), &f.err);

    EXPECT_EQ_I64(f.rows[0].max_timestamp, CREATED + 5);
    EXPECT_OK(sgs_batch_check(batch(&f, 0), (size_t)f.rows[0].size_bytes, 0, &f.err), &f.err);
    fixture_deinit(&f);
}

TEST(a_timestamp_beyond_the_limit_is_refused_and_counted) /* LogValidatorTest.testInvalidCreateTimeNonCompressedV2 */
{
    fixture f;
    fixture_init(&f);
    add_batch(&f, 3, (int64_t[]){ CREATED, NOW + 3600001, NOW + 3600002 });

    EXPECT_STATUS(validate(&f), SGS_INVALID_RECORD);

    EXPECT_EQ_I64(f.validator.result.record_errors_count, 2);
    EXPECT_TRUE(f.validator.result.has_invalid_timestamp);
    EXPECT_TRUE(strstr(f.err.message, "record 1") != NULL);
    fixture_deinit(&f);
}

TEST(the_limits_themselves_and_no_timestamp_are_accepted)
{
    fixture f;
    fixture_init(&f);
    f.validator.options.timestamp_before_max_ms = 10;
    add_batch(&f, 3, (int64_t[]){ NOW + 3600000, NOW - 10, SGS_NO_TIMESTAMP });
    EXPECT_OK(validate(&f), &f.err);
    EXPECT_EQ_I64(f.validator.result.max_timestamp, NOW + 3600000);

    add_batch(&f, 1, (int64_t[]){ NOW - 11 });
    EXPECT_STATUS(validate(&f), SGS_INVALID_RECORD);
    fixture_deinit(&f);
}

TEST(a_batch_of_our_own_is_taken_by_its_header_unless_a_limit_needs_its_records)
{
    fixture f;
    fixture_init(&f);
    add_batch(&f, 2, (int64_t[]){ 5, CREATED });
    f.validator.options.records_are_trusted = true;
    batch(&f, 0)[SGS_BATCH_HEADER_BYTES] ^= 0x01; /* would fail a walk */
    EXPECT_OK(validate(&f), &f.err);
    EXPECT_EQ_I64(f.validator.result.max_timestamp, CREATED);

    f.validator.options.keys_required = true;
    EXPECT_STATUS(validate(&f), SGS_INVALID_RECORD);
    batch(&f, 0)[SGS_BATCH_HEADER_BYTES] ^= 0x01;
    f.validator.options.keys_required = false;
    f.validator.options.timestamp_before_max_ms = 1000;
    EXPECT_STATUS(validate(&f), SGS_INVALID_RECORD);
    EXPECT_EQ_I64(f.validator.result.record_errors_count, 1);
    EXPECT_TRUE(f.validator.result.has_invalid_timestamp); /* the 5, which no header shows */
    fixture_deinit(&f);
}

TEST(
    a_compacted_topic_wants_keys) /* LogValidatorTest.testCompressedBatchWithoutRecordsNotAllowed's neighbours, APP-33 */
{
    fixture f;
    fixture_init(&f);
    add_batch(&f, 1, (int64_t[]){ CREATED });
    f.validator.options.keys_required = true;

    EXPECT_STATUS(validate(&f), SGS_INVALID_RECORD);

    EXPECT_EQ_I64(f.validator.result.record_errors_count, 1);
    EXPECT_EQ_I64(f.validator.result.metrics.no_key_compacted_topic, 1);
    EXPECT_TRUE(!f.validator.result.has_invalid_timestamp);
    fixture_deinit(&f);
}

TEST(counts_and_offsets_of_a_client_must_agree) /* LogValidatorTest.testInvalidOffsetRangeAndRecordCount */
{
    const struct {
        int32_t last_offset_delta, records_count;
    } wrong[] = { { 2, 2 }, { 0, 2 }, { -1, 0 }, { 1, 0 }, { 1, -1 }, { -2147483647, 2 }, { INT32_MAX, INT32_MIN } };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; ++i) {
        fixture f;
        fixture_init(&f);
        add_batch(&f, 2, (int64_t[]){ CREATED, CREATED });
        sgs_store_be_i32(batch(&f, 0) + 23, wrong[i].last_offset_delta);
        sgs_store_be_i32(batch(&f, 0) + 57, wrong[i].records_count);
        reseal(&f, 0);
        EXPECT_STATUS(validate(&f), SGS_INVALID_RECORD);
        fixture_deinit(&f);
    }
}

TEST(fewer_or_more_records_than_declared_are_refused)
{
    for (int32_t count = 1; count <= 3; count += 2) {
        fixture f;
        fixture_init(&f);
        add_batch(&f, 2, (int64_t[]){ CREATED, CREATED });
        sgs_store_be_i32(batch(&f, 0) + 23, count - 1);
        sgs_store_be_i32(batch(&f, 0) + 57, count);
        reseal(&f, 0);
        EXPECT_STATUS(validate(&f), SGS_INVALID_RECORD);
        fixture_deinit(&f);
    }
}

/* [DUR-89] stricter than Kafka, which takes any offsets inside an uncompressed batch [format.md 12.5] */
TEST(offsets_that_do_not_increase_inside_a_batch_are_refused)
{
    enum { DELTA_OF_FIRST = 61 + 3, RECORD_BYTES = 12 }; /* behind size, attributes and timestamp delta */
    const struct {
        uint8_t first, second; /* zigzag */
        sgs_status expected;
    } cases[] = { { 0, 2, SGS_OK },
                  { 0, 0, SGS_INVALID_RECORD },
                  { 2, 0, SGS_INVALID_RECORD },
                  { 1, 2, SGS_INVALID_RECORD },   /* -1, 1 */
                  { 0, 4, SGS_INVALID_RECORD } }; /* 2 of 1 */
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        fixture f;
        fixture_init(&f);
        add_batch(&f, 2, (int64_t[]){ CREATED, CREATED });
        uint8_t *const first = batch(&f, 0) + DELTA_OF_FIRST;
        REQUIRE_EQ_I64(first[RECORD_BYTES], 2);
        first[0] = cases[i].first;
        first[RECORD_BYTES] = cases[i].second;
        reseal(&f, 0);
        EXPECT_STATUS(validate(&f), cases[i].expected);
        fixture_deinit(&f);
    }
}

/* ... and one in its place behind one out of it is no better */
TEST(an_offset_that_goes_back_to_its_place_is_refused)
{
    enum { DELTA_OF_FIRST = 61 + 3, RECORD_BYTES = 12 };
    fixture f;
    fixture_init(&f);
    add_batch(&f, 3, (int64_t[]){ CREATED, CREATED, CREATED });
    batch(&f, 0)[DELTA_OF_FIRST] = 4; /* 2, 1, 2 */
    EXPECT_STATUS(validate(&f), SGS_INVALID_RECORD);
    EXPECT_EQ_I64(sgs_log_validator_errors(&f.validator)->record_index, 0);
    fixture_deinit(&f);
}

TEST(kafka_takes_any_offsets_in_a_plain_batch) /* format.md 12.5 */
{
    enum { DELTA_OF_SECOND = 61 + 12 + 3 };
    fixture f;
    fixture_init(&f);
    add_batch(&f, 2, (int64_t[]){ CREATED, CREATED });
    batch(&f, 0)[DELTA_OF_SECOND] = 4; /* 2 of 0, 1 */
    f.validator.options.kafka_limits = true;
    EXPECT_OK(validate(&f), &f.err);
    EXPECT_EQ_I64(f.validator.result.next_offset, 102);
    EXPECT_EQ_I64(f.rows[0].base_offset, 100);
    fixture_deinit(&f);
}

TEST(kafka_takes_a_batch_with_fewer_records_than_offsets_from_a_coordinator) /* format.md 12.3 */
{
    fixture f;
    fixture_init(&f);
    add_batch(&f, 2, (int64_t[]){ CREATED, CREATED });
    sgs_store_be_i32(batch(&f, 0) + 23, 7);
    f.validator.options.origin = SGS_ORIGIN_COORDINATOR;
    EXPECT_STATUS(validate(&f), SGS_INVALID_RECORD); /* it would begin below the next offset */
    EXPECT_EQ_I64(f.validator.result.metrics.invalid_offset, 1);
    f.validator.options.kafka_limits = true;
    EXPECT_OK(validate(&f), &f.err);
    EXPECT_EQ_I64(f.rows[0].last_offset, 101);
    f.validator.options.origin = SGS_ORIGIN_CLIENT;
    EXPECT_STATUS(validate(&f), SGS_INVALID_RECORD);
    fixture_deinit(&f);
}

TEST(what_was_checked_before_is_only_stamped)
{
    fixture f;
    fixture_init(&f);
    add_batch(&f, 2, (int64_t[]){ CREATED, NOW + 3600001 });
    f.validator.options.records_are_checked = true;
    EXPECT_OK(validate(&f), &f.err);
    EXPECT_EQ_I64(f.rows[0].base_offset, 100);
    EXPECT_EQ_I64(f.validator.result.records_count, 2);
    fixture_deinit(&f);
}

TEST(clients_write_no_control_batches_and_producers_need_a_sequence) /* APP-32 */
{
    fixture f;
    fixture_init(&f);
    add_batch(&f, 1, (int64_t[]){ CREATED });
    sgs_store_be_i16(batch(&f, 0) + 21, SGS_ATTRIBUTE_CONTROL);
    EXPECT_STATUS(validate(&f), SGS_INVALID_RECORD);
    sgs_store_be_i16(batch(&f, 0) + 21, 0);
    sgs_store_be_i64(batch(&f, 0) + 43, 5);
    EXPECT_STATUS(validate(&f), SGS_INVALID_RECORD);
    sgs_store_be_i32(batch(&f, 0) + 53, 0);
    EXPECT_OK(validate(&f), &f.err);
    fixture_deinit(&f);
}

TEST(
    a_client_does_not_claim_log_append_time) /* LogValidatorTest.testRejectNonZeroDefaultTimestamp's rule, format.md 12.4 */
{
    fixture f;
    fixture_init(&f);
    add_batch(&f, 1, (int64_t[]){ CREATED });
    sgs_batch_set_max_timestamp(batch(&f, 0), (size_t)f.rows[0].size_bytes, true, NOW);
    EXPECT_OK(validate(&f), &f.err); /* CreateTime topic, timestamp in range: the bit is cleared */
    EXPECT_EQ_I64(f.rows[0].attributes, 0);

    sgs_batch_set_max_timestamp(batch(&f, 0), (size_t)f.rows[0].size_bytes, true, NOW);
    f.validator.options.log_append_time = true;
    EXPECT_STATUS(validate(&f), SGS_INVALID_RECORD);
    EXPECT_EQ_I64(f.validator.result.record_errors_count, 1);
    EXPECT_TRUE(f.validator.result.has_invalid_timestamp);
    fixture_deinit(&f);
}

TEST(rows_that_do_not_fit_the_data_are_refused)
{
    fixture f;
    fixture_init(&f);
    add_batch(&f, 1, (int64_t[]){ CREATED });
    const int64_t positions[] = { -1, INT64_MIN, 1, INT64_MAX, (int64_t)f.data.size, (int64_t)f.data.size + 1 };
    for (size_t i = 0; i < sizeof positions / sizeof positions[0]; ++i) {
        f.rows[0].position = positions[i];
        EXPECT_TRUE(validate(&f) != SGS_OK);
    }
    f.rows_count = 0;
    EXPECT_STATUS(validate(&f), SGS_INVALID_RECORD); /* APP-31: no batch */
    fixture_deinit(&f);
}

TEST(unknown_magics_and_exhausted_offsets_are_refused)
{
    fixture f;
    fixture_init(&f);
    add_batch(&f, 2, (int64_t[]){ CREATED, CREATED });
    f.next_offset = INT64_MAX - 1;
    EXPECT_STATUS(validate(&f), SGS_ILLEGAL_ARGUMENT);
    f.next_offset = -1;
    EXPECT_STATUS(validate(&f), SGS_ILLEGAL_ARGUMENT);
    f.next_offset = 0;
    batch(&f, 0)[16] = 3;
    EXPECT_STATUS(validate(&f), SGS_UNSUPPORTED_FORMAT);
    fixture_deinit(&f);
}

TEST(codecs_without_a_provider_and_unknown_codecs_are_refused)
{
    fixture f;
    fixture_init(&f);
    add_batch(&f, 1, (int64_t[]){ CREATED });
    sgs_store_be_i16(batch(&f, 0) + 21, SGS_CODEC_ZSTD);
    EXPECT_STATUS(validate(&f), SGS_CODEC_MISSING);
    sgs_store_be_i16(batch(&f, 0) + 21, 6);
    EXPECT_STATUS(validate(&f), SGS_UNSUPPORTED_FORMAT);
    fixture_deinit(&f);
}

TEST_MAIN()
