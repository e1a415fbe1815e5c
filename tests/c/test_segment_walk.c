/* A walk over the headers of a segment: where it ends, and what it refuses. */
#include "segment_kit.h"
#include "test.h"

static void read_to_a_bound(segment_kit *kit, int64_t offset, int64_t max_position, sgs_status expected)
{
    const sgs_segment_read request = { .start_offset = offset, .max_size = 1000, .max_position = max_position };
    sgs_found_timestamp by_time;
    sgs_segment_fetch fetch;
    sgs_buffer out;
    sgs_buffer_init(&out, sgs_env_memory(&kit->memory.env));
    EXPECT_STATUS(sgs_log_segment_read(kit->segment, &request, &out, &fetch, &kit->err), expected);
    EXPECT_TRUE(expected != SGS_OK || !fetch.found);
    sgs_buffer_deinit(&out);
    EXPECT_STATUS(
        sgs_log_segment_find_offset_by_timestamp(kit->segment, INT64_MAX, 0, max_position, &by_time, &kit->err),
        expected);
    EXPECT_TRUE(expected != SGS_OK || !by_time.found);
}

TEST(bytes_that_are_no_batch_end_the_log_or_are_an_error)
{
    segment_kit kit;
    sgs_segment_fetch fetch;
    int64_t next;
    bool ends_clean;
    static uint8_t file[400 + 200];
    segment_kit_open(&kit);
    segment_kit_fill(&kit, 4, 100);
    sgs_log_segment_close_quietly(kit.segment);
    EXPECT_EQ_I64(temporary_read(&kit.directory, "00000000000000000000.log", file, sizeof file), 400);
    const struct {
        size_t size;
        uint8_t filler;
        sgs_status at_end;
    } cases[] = {
        { 417, 0, SGS_OK },             /* up to 17 bytes of anything are a silent end [format.md 9.1] */
        { 418, 0, SGS_CORRUPT_RECORD }, /* a declared size of 0 */
        { 600, 0xff, SGS_CORRUPT_RECORD },
        { 600, 0x11, SGS_OK }, /* a size beyond the end: an incomplete batch */
        { 399, 0, SGS_OK },    /* the last batch is torn */
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        const int64_t whole = cases[i].size < 400 ? 3 : 4;
        memset(file + 400, cases[i].filler, sizeof file - 400);
        temporary_write(&kit.directory, "00000000000000000000.log", file, cases[i].size);
        REQUIRE_OK(segment_kit_segment(&kit, 0, false), &kit.err);
        EXPECT_OK(sgs_log_segment_read_next_offset(kit.segment, &next, &ends_clean, &kit.err), &kit.err);
        EXPECT_EQ_I64(next, whole);
        EXPECT_TRUE(!ends_clean);
        EXPECT_STATUS(sgs_log_segment_translate_offset(kit.segment, 4, 0, -1, &fetch, &kit.err), cases[i].at_end);
        if (cases[i].at_end == SGS_OK)
            EXPECT_TRUE(!fetch.found && !fetch.ends_clean && fetch.position == 100 * whole);
        else
            EXPECT_EQ_I64(kit.err.position, 400);
        if (cases[i].at_end == SGS_OK) { /* below a bound are batches, above it may be anything [DUR-79] */
            read_to_a_bound(&kit, 4, 100 * whole, SGS_OK);
            read_to_a_bound(&kit, 4, 100 * whole + 1, SGS_CORRUPT_LOG);
            EXPECT_EQ_I64(kit.err.position, 100 * whole);
            EXPECT_TEXT(kit.err.file, "00000000000000000000.log");
        }
        EXPECT_EQ_I64(segment_kit_read_offset(&kit, 2), 2);
        sgs_log_segment_close_quietly(kit.segment);
    }
    kit.segment = NULL;
    segment_kit_close(&kit);
}

/* [SEG-18] only the conformance profile fails for a bad header behind the batch that it answers with */
TEST(kafka_looks_at_the_header_behind_the_batch)
{
    static uint8_t file[500];
    for (int kafka = 0; kafka < 2; ++kafka) {
        segment_kit kit;
        sgs_segment_fetch fetch;
        segment_kit_open(&kit);
        segment_kit_batch(file, sizeof file, 0, 5, 0, 200);
        memset(file + 200, 0, 300);
        temporary_write(&kit.directory, "00000000000000000000.log", file, sizeof file);
        kit.context.kafka_profile = kafka == 1;
        REQUIRE_OK(segment_kit_segment(&kit, 0, false), &kit.err);
        EXPECT_OK(sgs_log_segment_translate_offset(kit.segment, 0, 0, -1, &fetch, &kit.err), &kit.err);
        EXPECT_STATUS(sgs_log_segment_translate_offset(kit.segment, 3, 0, -1, &fetch, &kit.err),
                      kafka == 1 ? SGS_CORRUPT_RECORD : SGS_OK);
        sgs_log_segment_close_quietly(kit.segment);
        kit.segment = NULL;
        segment_kit_close(&kit);
    }
}

/* [SEG-18, LDR-29] bytes behind the last batch that claim more than there is are no batch, whatever offset they begin with */
TEST(kafka_does_not_look_at_a_torn_batch_behind_the_last_one)
{
    static uint8_t file[250];
    segment_kit kit;
    sgs_segment_fetch fetch;
    int64_t next_offset = -1;
    bool ends_clean = true;
    segment_kit_open(&kit);
    segment_kit_batch(file, sizeof file, 0, 5, 0, 200);
    memset(file + 200, 0x8e, 50); /* an offset far below zero, and a length that is a large number */
    file[208] = 0x20;
    temporary_write(&kit.directory, "00000000000000000000.log", file, sizeof file);
    kit.context.kafka_profile = true;
    REQUIRE_OK(segment_kit_segment(&kit, 0, false), &kit.err);
    REQUIRE_OK(sgs_log_segment_translate_offset(kit.segment, 3, 0, -1, &fetch, &kit.err), &kit.err);
    EXPECT_TRUE(fetch.found);
    EXPECT_EQ_I64(fetch.base_offset, 0);
    REQUIRE_OK(sgs_log_segment_read_next_offset(kit.segment, &next_offset, &ends_clean, &kit.err), &kit.err);
    EXPECT_EQ_I64(next_offset, 5);
    EXPECT_TRUE(!ends_clean);
    sgs_log_segment_close_quietly(kit.segment);
    kit.segment = NULL;
    segment_kit_close(&kit);
}

/* [DUR-79, DUR-86] continuity is checked where headers are walked, and the size limit with it */
TEST(offsets_that_go_back_and_batches_above_the_limit_are_refused)
{
    static uint8_t file[300];
    segment_kit kit;
    sgs_segment_fetch fetch;
    segment_kit_open(&kit);
    segment_kit_batch(file, 100, 10, 1, 0, 100);
    segment_kit_batch(file + 100, 100, 9, 1, 0, 100);
    segment_kit_batch(file + 200, 100, 12, 1, 0, 100);
    temporary_write(&kit.directory, "00000000000000000000.log", file, sizeof file);
    REQUIRE_OK(segment_kit_segment(&kit, 0, false), &kit.err);
    EXPECT_STATUS(sgs_log_segment_translate_offset(kit.segment, 12, 0, -1, &fetch, &kit.err), SGS_CORRUPT_RECORD);
    EXPECT_EQ_I64(kit.err.position, 100);
    EXPECT_TEXT(kit.err.file, "00000000000000000000.log");
    kit.context.max_batch_bytes = 50;
    EXPECT_STATUS(sgs_log_segment_translate_offset(kit.segment, 10, 0, -1, &fetch, &kit.err), SGS_LIMIT_EXCEEDED);
    kit.context.kafka_profile = true; /* Kafka looks at neither */
    EXPECT_OK(sgs_log_segment_translate_offset(kit.segment, 12, 0, -1, &fetch, &kit.err), &kit.err);
    EXPECT_EQ_I64(fetch.base_offset, 12);
    sgs_log_segment_close_quietly(kit.segment);
    kit.segment = NULL;
    segment_kit_close(&kit);
}

TEST_MAIN()
