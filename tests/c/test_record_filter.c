/* test_record_filter.c - batches rewritten for compaction [format.md 11], Kafka MemoryRecordsTest where named. */
#include "record/record_filter.h"

#include <errno.h>

#include "append_kit.h"
#include "base/bytes.h"
#include "memory_env.h"
#include "record/record_section.h"
#include "record_kit.h"
#include "test.h"

enum { COUNT = 4, NOW = 1000, RETENTION = 50 };

typedef struct fixture {
    append_kit kit;
    sgs_record_filter filter;
    int64_t keep[8];
    sgs_offsets_to_keep offsets;
} fixture;

static void fixture_init(fixture *f)
{
    append_kit_init(&f->kit);
    sgs_record_filter_init(&f->filter, kit_memory(), kit_codecs());
    f->offsets = (sgs_offsets_to_keep){ f->keep, 0 };
    f->filter.options.now_ms = NOW;
    f->filter.options.delete_retention_ms = RETENTION;
    f->filter.options.check_crc = true;
    f->filter.options.context = &f->offsets;
    f->filter.options.should_retain = sgs_offsets_to_keep_have;
}

static void fixture_deinit(fixture *f)
{
    sgs_record_filter_deinit(&f->filter);
    append_kit_deinit(&f->kit);
}

static void keep(fixture *f, size_t count, const int64_t *offsets)
{
    memcpy(f->keep, offsets, count * sizeof *offsets);
    f->offsets.count = count;
}

static sgs_status run(fixture *f, const uint8_t *decisions)
{
    const size_t count = append_kit_scan(&f->kit);
    return sgs_record_filter_run(&f->filter, f->kit.data.data, f->kit.data.size, append_kit_rows(&f->kit), decisions,
                                 count, &f->kit.err);
}

static const sgs_batch_header *output_rows(const fixture *f)
{
    return (const sgs_batch_header *)(const void *)f->filter.output_rows.data;
}

static size_t output_count(const fixture *f) { return f->filter.output_rows.size / sizeof(sgs_batch_header); }

static sgs_batch_options batch_at(int64_t base_offset)
{
    sgs_batch_options options;
    sgs_batch_options_default(&options);
    options.base_offset = base_offset;
    return options;
}

TEST(a_batch_that_keeps_all_is_copied_byte_for_byte)
{
    fixture f;
    fixture_init(&f);
    append_kit_add(&f.kit, NULL, COUNT, NULL, true);
    keep(&f, 4, (int64_t[]){ 0, 1, 2, 3 });

    REQUIRE_OK(run(&f, (uint8_t[]){ SGS_BATCH_DELETE_EMPTY }), &f.kit.err);

    REQUIRE_EQ_I64(f.filter.output.size, f.kit.data.size);
    EXPECT_MEM(f.filter.output.data, f.kit.data.data, f.kit.data.size);
    EXPECT_EQ_I64(f.filter.result.messages_retained, COUNT);
    EXPECT_EQ_I64(f.filter.result.bytes_retained, f.kit.data.size);
    EXPECT_EQ_I64(f.filter.result.max_offset, 3);
    EXPECT_EQ_I64(f.filter.result.max_timestamp, EXAMPLE_T + 3);
    EXPECT_EQ_I64(f.filter.result.shallow_offset_of_max_timestamp, 3);
    fixture_deinit(&f);
}

TEST(
    the_range_and_the_producer_of_a_batch_survive_its_records) /* MemoryRecordsTest.testFilterToPreservesProducerInfo */
{
    for (int codec = 0; codec < SGS_CODEC_COUNT; ++codec) {
        fixture f;
        fixture_init(&f);
        sgs_batch_options options = batch_at(10);
        options.codec = codec;
        options.partition_leader_epoch = 67;
        options.producer_id = 23;
        options.producer_epoch = 5;
        options.base_sequence = 10;
        options.transactional = true;
        append_kit_add(&f.kit, &options, COUNT, NULL, true);
        keep(&f, 1, (int64_t[]){ 12 });

        REQUIRE_OK(run(&f, (uint8_t[]){ SGS_BATCH_RETAIN_EMPTY }), &f.kit.err);

        REQUIRE_EQ_I64(output_count(&f), 1);
        const sgs_batch_header *const row = output_rows(&f);
        EXPECT_EQ_I64(row->base_offset, 10);
        EXPECT_EQ_I64(row->last_offset, 13);
        EXPECT_EQ_I64(row->records_count, 1);
        EXPECT_EQ_I64(row->base_timestamp, EXAMPLE_T + 2);
        EXPECT_EQ_I64(row->max_timestamp, EXAMPLE_T + 2);
        EXPECT_EQ_I64(row->partition_leader_epoch, 67);
        EXPECT_EQ_I64(row->producer_id, 23);
        EXPECT_EQ_I64(row->base_sequence, 10);
        EXPECT_EQ_I64(row->attributes, codec | SGS_ATTRIBUTE_TRANSACTIONAL);
        EXPECT_EQ_I64(f.filter.result.max_offset, 12);
        EXPECT_EQ_I64(f.filter.result.shallow_offset_of_max_timestamp, 13);
        sgs_buffer scratch;
        sgs_record_reader reader;
        sgs_record record;
        bool found;
        sgs_buffer_init(&scratch, kit_memory());
        REQUIRE_OK(sgs_record_section_open(f.filter.output.data, f.filter.output.size, true, kit_codecs(), &scratch,
                                           &reader, &f.kit.err),
                   &f.kit.err);
        REQUIRE_OK(sgs_record_reader_next(&reader, &record, &found, &f.kit.err), &f.kit.err);
        EXPECT_EQ_I64(record.offset, 12);
        EXPECT_EQ_I64(record.sequence, 12);
        EXPECT_EQ_I64(record.headers_count, 1);
        sgs_buffer_deinit(&scratch);
        fixture_deinit(&f);
    }
}

/* The key's bytes are no UTF-8: Kafka, whose header keys are Strings, writes a replacement. */
TEST(header_keys_are_utf_8_when_a_batch_is_written_again)
{
    fixture f;
    fixture_init(&f);
    append_kit_add(&f.kit, NULL, 2, NULL, true);
    uint8_t *const key = f.kit.data.data + f.kit.data.size - 2;
    REQUIRE_EQ_I64(*key, 'h');
    *key = 0xFF;
    sgs_batch_seal(f.kit.data.data, f.kit.data.size);
    keep(&f, 1, (int64_t[]){ 1 });

    REQUIRE_OK(run(&f, (uint8_t[]){ SGS_BATCH_DELETE_EMPTY }), &f.kit.err);

    REQUIRE_EQ_I64(output_count(&f), 1);
    EXPECT_MEM(f.filter.output.data + f.filter.output.size - 5, "\x06\xef\xbf\xbd\x01", 5);
    fixture_deinit(&f);
}

TEST(an_empty_batch_stays_where_it_must) /* MemoryRecordsTest.testFilterToEmptyBatchRetention, testEmptyBatchDeletion */
{
    fixture f;
    fixture_init(&f);
    const sgs_batch_options options = batch_at(3);
    append_kit_add(&f.kit, &options, 2, NULL, false);
    const size_t size = f.kit.data.size;

    REQUIRE_OK(run(&f, (uint8_t[]){ SGS_BATCH_RETAIN_EMPTY }), &f.kit.err);
    EXPECT_EQ_I64(f.filter.result.messages_read, 2);
    EXPECT_EQ_I64(f.filter.result.bytes_read, size);
    EXPECT_EQ_I64(f.filter.result.bytes_retained, SGS_BATCH_HEADER_BYTES);
    EXPECT_EQ_I64(f.filter.result.max_offset, 4);
    EXPECT_EQ_I64(f.filter.result.max_timestamp, EXAMPLE_T + 1);
    EXPECT_EQ_I64(output_rows(&f)->records_count, 0);
    EXPECT_EQ_I64(output_rows(&f)->base_offset, 3);
    EXPECT_EQ_I64(output_rows(&f)->last_offset, 4);

    sgs_buffer_clear(&f.kit.data); /* and the empty one again: MemoryRecordsTest.testEmptyBatchRetention */
    EXPECT_OK(sgs_buffer_append(&f.kit.data, f.filter.output.data, f.filter.output.size, &f.kit.err), &f.kit.err);
    REQUIRE_OK(run(&f, (uint8_t[]){ SGS_BATCH_RETAIN_EMPTY }), &f.kit.err);
    EXPECT_EQ_I64(f.filter.result.bytes_retained, SGS_BATCH_HEADER_BYTES);
    for (uint8_t decision = SGS_BATCH_DELETE; decision <= SGS_BATCH_DELETE_EMPTY; decision += 2) {
        REQUIRE_OK(run(&f, &decision), &f.kit.err);
        EXPECT_EQ_I64(f.filter.output.size, 0);
        EXPECT_EQ_I64(f.filter.result.max_offset, -1);
        EXPECT_EQ_I64(f.filter.result.batches_read, 1);
    }
    fixture_deinit(&f);
}

TEST(tombstones_and_markers_get_a_horizon_once) /* MemoryRecordsTest.testBaseTimestampToDeleteHorizonConversion */
{
    fixture f;
    fixture_init(&f);
    EXPECT_OK(sgs_batch_build_end_transaction_marker(7, EXAMPLE_T, 0, 23, 5, true, 1, &f.kit.data, &f.kit.err),
              &f.kit.err);
    keep(&f, 1, (int64_t[]){ 7 });
    REQUIRE_OK(run(&f, (uint8_t[]){ SGS_BATCH_RETAIN_EMPTY }), &f.kit.err);
    EXPECT_EQ_I64(output_rows(&f)->attributes & SGS_ATTRIBUTE_DELETE_HORIZON, 0);

    const uint8_t marker = SGS_BATCH_RETAIN_EMPTY | SGS_BATCH_ENDS_EMPTY_TRANSACTION;
    REQUIRE_OK(run(&f, &marker), &f.kit.err);
    EXPECT_EQ_I64(output_rows(&f)->base_timestamp, NOW + RETENTION);
    EXPECT_EQ_I64(output_rows(&f)->max_timestamp, EXAMPLE_T);
    EXPECT_EQ_I64(output_rows(&f)->attributes,
                  SGS_ATTRIBUTE_DELETE_HORIZON | SGS_ATTRIBUTE_CONTROL | SGS_ATTRIBUTE_TRANSACTIONAL);

    sgs_buffer_clear(&f.kit.data);
    EXPECT_OK(sgs_buffer_append(&f.kit.data, f.filter.output.data, f.filter.output.size, &f.kit.err), &f.kit.err);
    f.filter.options.now_ms += 1000;
    REQUIRE_OK(run(&f, &marker), &f.kit.err);
    EXPECT_EQ_I64(output_rows(&f)->base_timestamp, NOW + RETENTION); /* the first one counts */
    EXPECT_MEM(f.filter.output.data, f.kit.data.data, f.kit.data.size);
    fixture_deinit(&f);
}

TEST(messages_of_older_magic_are_written_as_magic_2) /* [format.md 11], step 2; [DIFF-30] */
{
    for (int8_t magic = 0; magic < 2; ++magic)
        for (int codec = 0; codec < SGS_CODEC_ZSTD; ++codec) {
            const int64_t none[COUNT] = { -1, -1, -1, -1 };
            fixture f;
            fixture_init(&f);
            append_kit_add_legacy(&f.kit, magic, codec, COUNT);
            keep(&f, 4, (int64_t[]){ 0, 1, 2, 3 });
            const uint8_t decisions[COUNT] = { 2, 2, 2, 2 };
            REQUIRE_OK(run(&f, decisions), &f.kit.err);
            EXPECT_EQ_I64(output_count(&f), codec == 0 ? COUNT : 1);
            EXPECT_EQ_I64(output_rows(&f)->magic, 2);
            EXPECT_EQ_I64(output_rows(&f)->attributes, codec);
            append_kit_expect(f.filter.output.data, f.filter.output.size, 0, COUNT, COUNT, magic == 0 ? none : NULL);
            f.offsets.count = 0;
            const uint8_t retain[COUNT] = { 1, 1, 1, 1 };
            EXPECT_STATUS(run(&f, retain), SGS_ILLEGAL_STATE);
            fixture_deinit(&f);
        }
}

TEST(filtering_stops_behind_the_batch_that_is_too_much) /* MemoryRecordsTest.testFilterToWithUndersizedBuffer */
{
    fixture f;
    fixture_init(&f);
    for (int64_t base = 0; base < 3; ++base) {
        const sgs_batch_options options = batch_at(base);
        append_kit_add(&f.kit, &options, 1, NULL, false);
    }
    const size_t each = f.kit.data.size / 3;
    keep(&f, 3, (int64_t[]){ 0, 1, 2 });
    const uint8_t decisions[3] = { 2, 2, 2 };
    for (size_t capacity = 0; capacity <= 3 * each; ++capacity) {
        f.filter.options.destination_capacity = capacity;
        REQUIRE_OK(run(&f, decisions), &f.kit.err);
        const size_t expected = capacity / each + 1 < 3 ? capacity / each + 1 : 3;
        EXPECT_EQ_I64(f.filter.result.batches_read, expected);
        EXPECT_EQ_I64(f.filter.result.bytes_read, expected * each);
        EXPECT_EQ_I64(f.filter.result.output_grew, capacity < 3 * each);
    }
    fixture_deinit(&f);
}

/* how many records it was asked for in all, and at most at once */
typedef struct asked {
    size_t all, most;
} asked;

static void keep_last_of_the_asked(void *context, const sgs_batch_header *batch, const sgs_record *records,
                                   size_t count, bool *retained)
{
    asked *const made = context;
    for (size_t i = 0; i < count; ++i) {
        EXPECT_EQ_I64(records[i].offset, made->all + i);
        retained[i] = records[i].offset == batch->last_offset;
    }
    made->all += count;
    made->most = count > made->most ? count : made->most;
}

TEST(every_record_is_asked_for_once_and_no_more_at_once_than_fit)
{
    for (int count = 1; count <= 3 * SGS_FILTER_ASKS_FOR; ++count) {
        asked made = { 0 };
        fixture f;
        fixture_init(&f);
        f.filter.options.context = &made;
        f.filter.options.should_retain = keep_last_of_the_asked;
        append_kit_add(&f.kit, NULL, count, NULL, false);

        REQUIRE_OK(run(&f, (uint8_t[]){ SGS_BATCH_DELETE_EMPTY }), &f.kit.err);

        EXPECT_EQ_I64(made.all, count);
        EXPECT_TRUE(made.most <= SGS_FILTER_ASKS_FOR);
        EXPECT_EQ_I64(f.filter.result.messages_read, count);
        EXPECT_EQ_I64(f.filter.result.messages_retained, 1);
        EXPECT_EQ_I64(f.filter.result.max_offset, count - 1);
        fixture_deinit(&f);
    }
}

TEST(bad_input_is_refused_before_anything_is_kept_of_it)
{
    fixture f;
    fixture_init(&f);
    append_kit_add(&f.kit, NULL, 2, NULL, false);
    EXPECT_STATUS(run(&f, (uint8_t[]){ 3 }), SGS_ILLEGAL_ARGUMENT);
    keep(&f, 1, (int64_t[]){ 0 });
    f.kit.data.data[SGS_BATCH_HEADER_BYTES + 5] ^= 1;
    EXPECT_STATUS(run(&f, (uint8_t[]){ 2 }), SGS_CORRUPT_RECORD);
    EXPECT_OK(run(&f, (uint8_t[]){ SGS_BATCH_DELETE }), &f.kit.err); /* unseen */
    append_kit_rows(&f.kit)[0].position = 1;
    EXPECT_TRUE(sgs_record_filter_run(&f.filter, f.kit.data.data, f.kit.data.size, append_kit_rows(&f.kit),
                                      (uint8_t[]){ 0 }, 1, &f.kit.err) != SGS_OK);
    append_kit_rows(&f.kit)[0].position = -1;
    EXPECT_STATUS(sgs_record_filter_run(&f.filter, f.kit.data.data, f.kit.data.size, append_kit_rows(&f.kit),
                                        (uint8_t[]){ 0 }, 1, &f.kit.err),
                  SGS_ILLEGAL_ARGUMENT);
    fixture_deinit(&f);
}

TEST(every_failing_allocation_is_told_and_nothing_is_lost) /* DUR-31 */
{
    int64_t failures = 0;
    for (bool is_done = false; !is_done; ++failures) {
        memory_env memory;
        fixture f;
        memory_env_init(&memory, sgs_env_posix());
        fixture_init(&f);
        const sgs_filter_options options = f.filter.options;
        sgs_record_filter_init(&f.filter, sgs_env_memory(&memory.env), kit_codecs());
        f.filter.options = options;
        append_kit_add_legacy(&f.kit, 1, SGS_CODEC_GZIP, COUNT);
        append_kit_add(&f.kit, NULL, COUNT, NULL, true);
        keep(&f, 2, (int64_t[]){ 1, 3 });
        memory_env_fail_always(&memory, "allocate", failures + 1, ENOMEM);
        const sgs_status status = run(&f, (uint8_t[]){ 2, 2 });
        is_done = status == SGS_OK;
        if (!is_done)
            EXPECT_STATUS(status, SGS_RESOURCE);
        fixture_deinit(&f);
        EXPECT_TRUE(memory_env_is_balanced(&memory));
    }
    EXPECT_TRUE(failures > 5);
}

TEST_MAIN()
