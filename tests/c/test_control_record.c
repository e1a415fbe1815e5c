/* test_control_record.c - [format.md 6], Kafka ControlRecordTypeTest, EndTransactionMarkerTest. */
#include "record/control_record.h"

#include "record/record_section.h"
#include "record_kit.h"
#include "test.h"

static sgs_error err;

static sgs_record control_record(const kit_bytes *key, const kit_bytes *value)
{
    return (sgs_record){
        .offset = 7,
        .key = { key == NULL ? NULL : key->data, key == NULL ? -1 : (int32_t)key->size },
        .value = { value == NULL ? NULL : value->data, value == NULL ? -1 : (int32_t)value->size },
    };
}

/* ControlRecordTypeTest.testRoundTrip */
TEST(every_type_reads_back)
{
    const char *const names[] = { "ABORT",           "COMMIT",        "LEADER_CHANGE", "SNAPSHOT_HEADER",
                                  "SNAPSHOT_FOOTER", "KRAFT_VERSION", "KRAFT_VOTERS" };
    for (int i = SGS_CONTROL_ABORT; i <= SGS_CONTROL_KRAFT_VOTERS; ++i) {
        kit_bytes key = { .size = SGS_CONTROL_KEY_BYTES };
        sgs_control_record_store_key((sgs_control_type)i, key.data);
        const sgs_record record = control_record(&key, NULL);
        sgs_control_type type;
        int16_t id;
        REQUIRE_OK(sgs_control_record_type(&record, &type, &id, &err), &err);
        EXPECT_EQ_I64(type, i);
        EXPECT_EQ_I64(id, i);
        EXPECT_TEXT(sgs_control_type_name(type), names[i]);
    }
}

/* ControlRecordTypeTest.testParseUnknownType; newer versions and longer keys are read as version 0 [format.md 6.1] */
TEST(unknown_types_and_newer_keys_are_no_error)
{
    const char *const keys[] = { "00000151", "0000ffff", "00000007", "00057fff00" };
    const int ids[] = { 337, -1, 7, 32767 };
    for (size_t i = 0; i < 4; ++i) {
        const kit_bytes key = kit_hex(keys[i]);
        const sgs_record record = control_record(&key, NULL);
        sgs_control_type type;
        int16_t id;
        REQUIRE_OK(sgs_control_record_type(&record, &type, &id, &err), &err);
        EXPECT_EQ_I64(type, SGS_CONTROL_UNKNOWN);
        EXPECT_EQ_I64(id, ids[i]);
        EXPECT_TEXT(sgs_control_type_name(type), "UNKNOWN");
    }
}

TEST(short_and_negative_keys_are_invalid)
{
    const char *const keys[] = { "", "000000", "ffff0001" };
    sgs_control_type type;
    for (size_t i = 0; i < 3; ++i) {
        const kit_bytes key = kit_hex(keys[i]);
        const sgs_record record = control_record(&key, NULL);
        EXPECT_STATUS(sgs_control_record_type(&record, &type, NULL, &err), SGS_INVALID_RECORD);
    }
    const sgs_record no_key = control_record(NULL, NULL);
    EXPECT_STATUS(sgs_control_record_type(&no_key, &type, NULL, &err), SGS_INVALID_RECORD);
}

/* EndTransactionMarkerTest.testSerde, testDeserializeNewerVersion, testIllegalNegativeVersion,
 * testCannotDeserializeUnknownControlType */
TEST(transaction_markers_are_read_as_kafka_reads_them)
{
    kit_bytes key = { .size = SGS_CONTROL_KEY_BYTES }, value = { .size = SGS_END_TRANSACTION_VALUE_BYTES };
    sgs_end_transaction_marker marker;
    sgs_control_record_store_key(SGS_CONTROL_COMMIT, key.data);
    sgs_control_record_store_marker(79, value.data);
    sgs_record record = control_record(&key, &value);
    REQUIRE_OK(sgs_control_record_end_transaction(&record, &marker, &err), &err);
    EXPECT_EQ_I64(marker.type, SGS_CONTROL_COMMIT);
    EXPECT_EQ_I64(marker.coordinator_epoch, 79);

    const kit_bytes newer = kit_hex("0005 0000004f 0000");
    record = control_record(&key, &newer);
    REQUIRE_OK(sgs_control_record_end_transaction(&record, &marker, &err), &err);
    EXPECT_EQ_I64(marker.coordinator_epoch, 79);

    const char *const broken[] = { "ffff", "ffff0000004f", "", "0000000000" };
    for (size_t i = 0; i < 4; ++i) {
        const kit_bytes bytes = kit_hex(broken[i]);
        record = control_record(&key, &bytes);
        EXPECT_STATUS(sgs_control_record_end_transaction(&record, &marker, &err), SGS_INVALID_RECORD);
    }
    record = control_record(&key, NULL);
    EXPECT_STATUS(sgs_control_record_end_transaction(&record, &marker, &err), SGS_INVALID_RECORD);
    const kit_bytes unknown = kit_hex("0000ffff");
    record = control_record(&unknown, NULL);
    EXPECT_STATUS(sgs_control_record_end_transaction(&record, &marker, &err), SGS_ILLEGAL_ARGUMENT);
}

/* [format.md 19.2, 19.7] */
TEST(the_worked_examples_say_what_they_are)
{
    const struct {
        const char *batch;
        sgs_control_type type;
        int32_t coordinator_epoch;
    } cases[] = { { EXAMPLE_COMMIT, SGS_CONTROL_COMMIT, 7 },
                  { EXAMPLE_ABORT, SGS_CONTROL_ABORT, 8 },
                  { EXAMPLE_LEADER_CHANGE, SGS_CONTROL_LEADER_CHANGE, 0 } };
    sgs_buffer scratch;
    sgs_buffer_init(&scratch, kit_memory());
    for (size_t i = 0; i < 3; ++i) {
        const kit_bytes batch = kit_hex(cases[i].batch);
        sgs_record_reader reader;
        sgs_record record;
        bool found;
        sgs_control_type type;
        REQUIRE_OK(sgs_record_section_open(batch.data, batch.size, true, NULL, &scratch, &reader, &err), &err);
        REQUIRE_OK(sgs_record_reader_next(&reader, &record, &found, &err), &err);
        REQUIRE_TRUE(found && sgs_batch_is_control(&reader.batch));
        REQUIRE_OK(sgs_control_record_type(&record, &type, NULL, &err), &err);
        EXPECT_EQ_I64(type, cases[i].type);
        sgs_end_transaction_marker marker;
        if (type == SGS_CONTROL_LEADER_CHANGE) {
            EXPECT_STATUS(sgs_control_record_end_transaction(&record, &marker, &err), SGS_ILLEGAL_ARGUMENT);
            continue;
        }
        REQUIRE_OK(sgs_control_record_end_transaction(&record, &marker, &err), &err);
        EXPECT_EQ_I64(marker.coordinator_epoch, cases[i].coordinator_epoch);
    }
    sgs_buffer_deinit(&scratch);
}

TEST_MAIN()
