/* failing_memory.c - what takes memory and no disk: builders, validators, filters, columns, iterators, tables; and the cleaner, whose
 * segments keep theirs. Each gives back all that it took, whichever allocation has failed. */
#include <string.h>

#include "append_kit.h"
#include "columns_kit.h"
#include "failing_scenarios.h"
#include "record/append_analysis.h"
#include "record/legacy_builder.h"
#include "record/log_validator.h"
#include "record/record_filter.h"
#include "record/record_iterator.h"
#include "record_kit.h"
#include "segment/cleaner.h"
#include "segment_kit.h"
#include "test.h"

enum { RECORDS = 60 };

/* ---- builders ---- */

static sgs_status build_batch(sgs_memory memory, int codec, bool grows, sgs_error *err)
{
    static const uint8_t bytes[3000];
    const sgs_record_header header = { kit_text("h"), kit_text("v") };
    sgs_batch_builder builder;
    sgs_batch_options options;
    sgs_buffer out;
    sgs_batch_header row;
    sgs_batch_options_default(&options);
    options.codec = codec;
    sgs_batch_builder_init(&builder, memory, kit_codecs());
    sgs_buffer_init(&out, memory);
    sgs_status status = sgs_batch_builder_start(&builder, &options, err);
    for (int i = 0; i < RECORDS && status == SGS_OK; ++i) {
        const sgs_bytes value = { bytes, grows ? 50 * i : 5 };
        status = sgs_batch_builder_append(&builder, i, EXAMPLE_T + i, kit_text("k"), value, &header, 1, err);
    }
    if (status == SGS_OK)
        status = sgs_batch_builder_finish(&builder, &out, &row, err);
    if (status == SGS_OK)
        status = sgs_batch_build_end_transaction_marker(RECORDS, EXAMPLE_T, 3, 1, 0, true, 0, &out, err);
    if (status == SGS_OK)
        status = sgs_batch_build_empty(&row, &out, err);
    sgs_buffer_deinit(&out);
    sgs_batch_builder_deinit(&builder);
    return status;
}

sgs_status failing_build(sgs_memory memory, sgs_error *err) { return build_batch(memory, SGS_CODEC_NONE, true, err); }

sgs_status failing_build_snappy(sgs_memory memory, sgs_error *err)
{
    return build_batch(memory, SGS_CODEC_SNAPPY, true, err);
}

sgs_status failing_build_legacy(sgs_memory memory, sgs_error *err)
{
    sgs_status status = SGS_OK;
    for (int codec = SGS_CODEC_NONE; codec <= SGS_CODEC_LZ4 && status == SGS_OK; ++codec) {
        const sgs_legacy_options options = { .codec = codec, .level = INT32_MIN, .magic = (int8_t)(codec % 2) };
        sgs_legacy_builder builder;
        sgs_buffer out;
        sgs_legacy_builder_init(&builder, memory, kit_codecs());
        sgs_buffer_init(&out, memory);
        status = sgs_legacy_builder_start(&builder, &options, err);
        for (int i = 0; i < RECORDS && status == SGS_OK; ++i)
            status = sgs_legacy_builder_append(&builder, i, EXAMPLE_T + i, kit_text("key"), kit_text("v"), err);
        if (status == SGS_OK)
            status = sgs_legacy_builder_finish(&builder, &out, err);
        sgs_buffer_deinit(&out);
        sgs_legacy_builder_deinit(&builder);
    }
    return status;
}

/* ---- what judges and rewrites ---- */

/* Every way through the validator: as it is, stamped, of another magic, of another codec. */
sgs_status failing_validate(sgs_memory memory, sgs_error *err)
{
    sgs_status status = SGS_OK;
    for (int way = 0; way < 36 && status == SGS_OK; ++way) {
        const int source = way % 3; /* of magic 2, 1, 0 */
        const int codec = way / 3 % 3 == 0 ? SGS_CODEC_NONE : way / 3 % 3 == 1 ? SGS_CODEC_LZ4 : SGS_CODEC_SNAPPY;
        append_kit kit;
        sgs_log_validator validator;
        append_kit_init(&kit);
        if (source == 0) {
            sgs_batch_options options;
            sgs_batch_options_default(&options);
            options.codec = codec;
            append_kit_add(&kit, &options, 5, NULL, true);
            options.base_offset = 5;
            append_kit_add(&kit, &options, 5, NULL, false);
        } else {
            append_kit_add_legacy(&kit, (int8_t)(2 - source), codec, 5);
        }
        const size_t count = append_kit_scan(&kit);
        sgs_log_validator_init(&validator, memory, kit_codecs());
        validator.options.now_ms = EXAMPLE_T + 1000;
        validator.options.log_append_time = way >= 18 && way % 2 == 0;
        validator.options.target_codec = way / 9 % 2 == 0 ? SGS_CODEC_OF_SOURCE : SGS_CODEC_GZIP;
        validator.options.target_magic = way >= 27 ? 1 : 2;
        validator.options.kafka_limits = way >= 27;
        status = sgs_validate_and_assign_offsets(&validator, 1000, kit.data.data, kit.data.size, append_kit_rows(&kit),
                                                 count, err);
        if (status != SGS_OK && status != SGS_RESOURCE) /* what no broker does either */
            status = SGS_OK;
        sgs_log_validator_deinit(&validator);
        append_kit_deinit(&kit);
    }
    return status;
}

/* Batches that stay as they are before and after one that is written again: all of them go to the output. */
sgs_status failing_validate_run(sgs_memory memory, sgs_error *err)
{
    append_kit kit;
    sgs_log_validator validator;
    append_kit_init(&kit);
    for (int i = 0; i < 9; ++i)
        if (i == 4)
            append_kit_add_legacy(&kit, 1, SGS_CODEC_NONE, RECORDS); /* plain messages: a batch each */
        else
            append_kit_add(&kit, NULL, RECORDS, NULL, true);
    const size_t count = append_kit_scan(&kit);
    sgs_log_validator_init(&validator, memory, kit_codecs());
    validator.options.now_ms = EXAMPLE_T + 1000;
    const sgs_status status =
        sgs_validate_and_assign_offsets(&validator, 0, kit.data.data, kit.data.size, append_kit_rows(&kit), count, err);
    EXPECT_TRUE(status != SGS_OK || validator.output_rows.size == 9 * sizeof(sgs_batch_header));
    sgs_log_validator_deinit(&validator);
    append_kit_deinit(&kit);
    return status;
}

/* Records of another time than the topic takes: each is noted. */
static sgs_status note(sgs_memory memory, bool convert, sgs_error *err)
{
    append_kit kit;
    sgs_log_validator validator;
    append_kit_init(&kit);
    if (convert)
        append_kit_add_legacy(&kit, 1, SGS_CODEC_NONE, RECORDS);
    else
        append_kit_add(&kit, NULL, RECORDS, NULL, false);
    const size_t count = append_kit_scan(&kit);
    sgs_log_validator_init(&validator, memory, kit_codecs());
    validator.options.now_ms = 2 * EXAMPLE_T;
    validator.options.timestamp_before_max_ms = 1;
    const sgs_status status =
        sgs_validate_and_assign_offsets(&validator, 0, kit.data.data, kit.data.size, append_kit_rows(&kit), count, err);
    sgs_log_validator_deinit(&validator);
    append_kit_deinit(&kit);
    return status == SGS_INVALID_RECORD ? SGS_OK : status;
}

sgs_status failing_note(sgs_memory memory, sgs_error *err) { return note(memory, false, err); }
sgs_status failing_note_in_conversion(sgs_memory memory, sgs_error *err) { return note(memory, true, err); }

static void retain_odd(void *context, const sgs_batch_header *batch, const sgs_record *records, size_t count,
                       bool *retained)
{
    (void)context;
    (void)batch;
    for (size_t i = 0; i < count; ++i)
        retained[i] = records[i].offset % 2 != 0;
}

sgs_status failing_filter(sgs_memory memory, sgs_error *err)
{
    static const uint8_t decisions[] = { SGS_BATCH_DELETE_EMPTY, SGS_BATCH_RETAIN_EMPTY, SGS_BATCH_DELETE,
                                         SGS_BATCH_DELETE_EMPTY, SGS_BATCH_RETAIN_EMPTY };
    append_kit kit;
    sgs_record_filter filter;
    append_kit_init(&kit);
    for (int i = 0; i < 5; ++i) {
        sgs_batch_options options;
        sgs_batch_options_default(&options);
        options.base_offset = 10 * i;
        options.codec = i == 3 ? SGS_CODEC_SNAPPY : SGS_CODEC_NONE;
        append_kit_add(&kit, &options, i == 4 || i == 1 ? 1 : 6, NULL, true);
    }
    const size_t count = append_kit_scan(&kit);
    sgs_record_filter_init(&filter, memory, kit_codecs());
    filter.options.check_crc = true;
    filter.options.destination_capacity = 1 << 20;
    filter.options.should_retain = retain_odd;
    const sgs_status status =
        sgs_record_filter_run(&filter, kit.data.data, kit.data.size, append_kit_rows(&kit), decisions, count, err);
    sgs_record_filter_deinit(&filter);
    append_kit_deinit(&kit);
    return status;
}

/* ---- what reads ---- */

sgs_status failing_iterate(sgs_memory memory, sgs_error *err)
{
    sgs_status status = SGS_OK;
    for (int way = 0; way < 9 && status == SGS_OK; ++way) {
        append_kit kit;
        sgs_buffer scratch;
        sgs_record_iterator iterator;
        sgs_iterated_record record;
        sgs_batch_options options;
        bool found = true;
        append_kit_init(&kit);
        sgs_buffer_init(&scratch, memory);
        sgs_batch_options_default(&options);
        options.codec = SGS_CODEC_LZ4;
        if (way % 3 == 0)
            append_kit_add(&kit, &options, 5, NULL, true);
        else
            append_kit_add_legacy(&kit, (int8_t)(way % 3 - 1), SGS_CODEC_GZIP, 5);
        status = sgs_record_iterator_open(kit.data.data, kit.data.size, (sgs_iteration)(way / 3), kit_codecs(),
                                          &scratch, &iterator, err);
        while (status == SGS_OK && found)
            status = sgs_record_iterator_next(&iterator, &record, &found, err);
        sgs_buffer_deinit(&scratch);
        append_kit_deinit(&kit);
    }
    return status;
}

sgs_status failing_scan(sgs_memory memory, sgs_error *err)
{
    sgs_scan_options options;
    sgs_scan_result result;
    sgs_append_analysis analysis;
    sgs_batch_table table;
    append_kit kit;
    append_kit_init(&kit);
    for (int i = 0; i < 40; ++i)
        append_kit_add(&kit, NULL, 1, NULL, false);
    sgs_scan_options_default(&options, SGS_SCAN_MEMORY);
    sgs_batch_table_init(&table, memory);
    sgs_status status = sgs_batch_scan_buffer(kit.data.data, kit.data.size, &options, &table, &result, err);
    sgs_batch_table_deinit(&table);
    sgs_batch_table_init(&table, memory);
    const sgs_append_rules rules = { .max_message_bytes = 1 << 20 };
    if (status == SGS_OK)
        status = sgs_analyze_append(kit.data.data, kit.data.size, &rules, &table, &analysis, err);
    sgs_batch_table_deinit(&table);
    append_kit_deinit(&kit);
    return status == SGS_RESOURCE ? status : SGS_OK; /* to an append, offsets that go back are an error */
}

/* ---- columns ---- */

static sgs_status decode(sgs_memory memory, bool null_headers, sgs_error *err)
{
    sgs_columns_options options;
    sgs_columns *columns = NULL;
    struct ArrowSchema schema = { .release = NULL };
    struct ArrowArray array = { .release = NULL };
    sgs_columns_options_default(&options);
    options.null_headers_when_empty = null_headers;
    strcpy(options.topic, "orders");
    sgs_status status = sgs_columns_open(memory, &options, kit_codecs(), &columns, err);
    if (status == SGS_OK)
        status = sgs_columns_export_schema(memory, &options, &schema, err);
    for (int i = 0; i < 3 && status == SGS_OK; ++i) {
        sgs_buffer batch = columns_kit_batch(1000 * i, 300, i == 1 ? SGS_CODEC_SNAPPY : SGS_CODEC_NONE);
        if (i == 0)
            sgs_columns_expect(columns, 2 * batch.size);
        status = sgs_columns_append_batch(columns, batch.data, batch.size, err);
        sgs_buffer_deinit(&batch);
    }
    if (status == SGS_OK)
        status = sgs_columns_finish(columns, &array, err);
    EXPECT_TRUE(status != SGS_OK || array.length == 900);
    if (array.release != NULL)
        array.release(&array);
    if (schema.release != NULL)
        schema.release(&schema);
    sgs_columns_close(columns);
    return status;
}

sgs_status failing_decode(sgs_memory memory, sgs_error *err) { return decode(memory, false, err); }
sgs_status failing_decode_for_spark(sgs_memory memory, sgs_error *err) { return decode(memory, true, err); }

/* A table without a row; then rows without headers, and a header key that is no UTF-8 after them. */
sgs_status failing_decode_headers(sgs_memory memory, sgs_error *err)
{
    static uint8_t no_text[1000];
    const sgs_record_header header = { { no_text, sizeof no_text }, kit_text("v") };
    sgs_columns_options options;
    sgs_columns *columns = NULL;
    sgs_batch_builder builder;
    sgs_batch_options batch;
    sgs_buffer bytes;
    memset(no_text, 0xff, sizeof no_text);
    sgs_columns_options_default(&options);
    options.null_headers_when_empty = options.timestamp_in_microseconds = true;
    strcpy(options.topic, "orders");
    sgs_batch_options_default(&batch);
    sgs_batch_builder_init(&builder, kit_memory(), NULL);
    sgs_buffer_init(&bytes, kit_memory());
    sgs_status status = sgs_columns_open(memory, &options, kit_codecs(), &columns, err);
    for (int tables = 0; tables < 3 && status == SGS_OK; ++tables) { /* batches of a table */
        struct ArrowArray array = { .release = NULL };
        for (int i = 0; i < tables && status == SGS_OK; ++i) {
            sgs_buffer_clear(&bytes);
            batch.base_offset = i;
            EXPECT_OK(sgs_batch_builder_start(&builder, &batch, err), err);
            EXPECT_OK(
                sgs_batch_builder_append(&builder, i, EXAMPLE_T, kit_text("k"), kit_text("v"), &header, i == 1, err),
                err);
            EXPECT_OK(sgs_batch_builder_finish(&builder, &bytes, NULL, err), err);
            status = sgs_columns_append_batch(columns, bytes.data, bytes.size, err);
        }
        if (status == SGS_OK)
            status = sgs_columns_finish(columns, &array, err);
        EXPECT_TRUE(status != SGS_OK || array.length == tables);
        if (array.release != NULL)
            array.release(&array);
    }
    sgs_buffer_deinit(&bytes);
    sgs_batch_builder_deinit(&builder);
    sgs_columns_close(columns);
    return status;
}

static sgs_status encode(sgs_memory memory, bool again, sgs_error *err)
{
    columns_kit f = columns_kit_of(
        (const uint8_t[]){ SGS_COLUMN_KEY, SGS_COLUMN_VALUE, SGS_COLUMN_TIMESTAMP, SGS_COLUMN_HEADERS }, 4);
    sgs_buffer batch = columns_kit_batch(0, 300, SGS_CODEC_NONE);
    sgs_columns_source source;
    sgs_batch_builder builder;
    sgs_batch_options options;
    sgs_buffer out, rows;
    sgs_batch_header model;
    int64_t offsets[300];
    for (int i = 0; i < 300; ++i)
        offsets[i] = 2 * i;
    EXPECT_OK(sgs_batch_header_load(batch.data, batch.size, 0, &model, err), err);
    columns_kit_open(&f);
    EXPECT_OK(sgs_columns_append_batch(f.columns, batch.data, batch.size, err), err);
    EXPECT_OK(sgs_columns_finish(f.columns, &f.array, err), err);
    sgs_batch_options_default(&options);
    sgs_batch_builder_init(&builder, memory, kit_codecs());
    sgs_buffer_init(&out, memory);
    sgs_buffer_init(&rows, memory);
    const sgs_record_places places = { 0, 1, 2, 3 };
    sgs_status status = sgs_columns_source_init(&source, &f.schema, &f.array, &places, 0, err);
    for (int codec = SGS_CODEC_NONE; codec <= SGS_CODEC_SNAPPY && status == SGS_OK; ++codec) {
        options.codec = codec;
        if (again) {
            model.attributes = (int16_t)codec;
            status = sgs_columns_rebuild(&source, offsets, &model, 1, &builder, &out, &rows, err);
        } else {
            status = sgs_columns_encode(&source, 0, 300, &options, 5000, 0, &builder, &out, &rows, err);
        }
    }
    sgs_buffer_deinit(&rows);
    sgs_buffer_deinit(&out);
    sgs_batch_builder_deinit(&builder);
    sgs_buffer_deinit(&batch);
    columns_kit_close(&f);
    return status;
}

sgs_status failing_encode(sgs_memory memory, sgs_error *err) { return encode(memory, false, err); }
sgs_status failing_rebuild(sgs_memory memory, sgs_error *err) { return encode(memory, true, err); }

/* ---- what reads a segment ---- */

static void open_segment(segment_kit *kit, append_kit *batches)
{
    const size_t count = append_kit_scan(batches);
    const sgs_slice slice = { batches->data.data, batches->data.size };
    segment_kit_open(kit);
    kit->context.codecs = kit_codecs();
    EXPECT_OK(segment_kit_segment(kit, 0, true), &kit->err);
    EXPECT_OK(
        sgs_log_segment_append(kit->segment, &slice, 1, append_kit_rows(batches), count, &kit->poisoned, &kit->err),
        &kit->err);
}

static void add_marker(append_kit *batches, int64_t offset, int64_t producer_id, bool commit)
{
    EXPECT_OK(sgs_batch_build_end_transaction_marker(offset, EXAMPLE_T, 0, producer_id, 0, commit, 0, &batches->data,
                                                     &batches->err),
              &batches->err);
}

/* Transactions that are aborted and committed, records that later ones replace, and compressed ones. */
static void add_transactions(append_kit *batches)
{
    sgs_batch_options options;
    int64_t offset = 0;
    append_kit_init(batches);
    sgs_batch_options_default(&options);
    for (int i = 0; i < 6; ++i) {
        options.codec = i % 2 == 0 ? SGS_CODEC_SNAPPY : SGS_CODEC_NONE;
        options.base_offset = offset;
        options.producer_id = i / 2 == 0 ? -1 : i;
        options.producer_epoch = i / 2 == 0 ? -1 : 0;
        options.base_sequence = i / 2 == 0 ? -1 : 0;
        options.transactional = i / 2 != 0;
        append_kit_add(batches, &options, 3 + i, NULL, true);
        offset += 3 + i;
    }
    for (int i = 2; i < 6; ++i)
        add_marker(batches, offset++, i, i % 2 == 0);
    options.base_offset = offset;
    append_kit_add(batches, &options, 3, NULL, false); /* of a transaction that goes on */
}

static sgs_status clean(sgs_cleaner *cleaner, segment_kit *kit, sgs_log_segment *destination, sgs_error *err)
{
    const sgs_aborted_txn aborted[] = { { 3, 12, 34, 34 }, { 5, 26, 36, 36 } };
    bool full = false;
    int64_t begins_at = -1;
    SGS_TRY(sgs_cleaned_transaction_metadata_add(&cleaner->transactions, aborted, 2, err));
    sgs_cleaner_begin_source(cleaner, kit->segment, 0, INT64_MAX);
    while (!sgs_cleaner_is_done(cleaner))
        SGS_TRY(sgs_cleaner_map_piece(cleaner, kit->segment, &full, err));
    sgs_cleaned_transaction_metadata_clear(&cleaner->transactions);
    SGS_TRY(sgs_cleaned_transaction_metadata_add(&cleaner->transactions, aborted, 2, err));
    sgs_cleaner_begin_source(cleaner, kit->segment, 0, INT64_MAX);
    while (!sgs_cleaner_is_done(cleaner))
        SGS_TRY(sgs_cleaner_copy_piece(cleaner, kit->segment, destination, &begins_at, err));
    return SGS_OK;
}

sgs_status failing_clean(sgs_memory memory, sgs_error *err)
{
    append_kit batches;
    segment_kit kit;
    sgs_log_segment *destination;
    sgs_offset_map map;
    sgs_cleaner cleaner;
    add_transactions(&batches);
    open_segment(&kit, &batches);
    EXPECT_OK(sgs_log_segment_open(&kit.context, 0, SGS_SUFFIX_CLEANED, true, &destination, &kit.err), &kit.err);
    EXPECT_OK(sgs_offset_map_init(&map, kit_memory(), 24 * 100, &kit.err), &kit.err);
    sgs_cleaner_init(&cleaner, memory, kit_codecs(), &map);
    sgs_cleaner_begin_pass(&cleaner);
    cleaner.options.max_entries = map.slots;
    cleaner.options.read_bytes = 1 << 20;
    cleaner.options.check = true;
    const sgs_status status = clean(&cleaner, &kit, destination, err);
    EXPECT_TRUE(status == SGS_OK || sgs_log_segment_size(destination) == 0);
    sgs_cleaner_deinit(&cleaner);
    sgs_offset_map_deinit(&map);
    EXPECT_OK(sgs_log_segment_close(destination, &kit.err), &kit.err);
    segment_kit_close(&kit);
    append_kit_deinit(&batches);
    return status;
}

/* ---- tables ---- */

sgs_status failing_offset_map(sgs_memory memory, sgs_error *err)
{
    sgs_offset_map map;
    sgs_status status = sgs_offset_map_init(&map, memory, 24 * 100, err);
    for (int i = 0; i < 50 && status == SGS_OK; ++i)
        status = sgs_offset_map_put(&map, (const uint8_t *)&i, sizeof i, i, err);
    sgs_offset_map_deinit(&map);
    return status;
}

sgs_status failing_latest(sgs_memory memory, sgs_error *err)
{
    static const uint8_t secret[SGS_SIPHASH_SECRET_BYTES] = { 7 };
    sgs_buffer batch = columns_kit_batch(0, 300, SGS_CODEC_NONE);
    sgs_columns_options options;
    sgs_offset_map map;
    sgs_columns_options_default(&options);
    options.last_offsets = &map;
    sgs_status status = sgs_offset_map_init_keyed(&map, memory, 24 * 10, secret, err);
    for (int pass = 0; pass < 2 && status == SGS_OK; ++pass) {
        sgs_columns *columns = NULL;
        options.notes_last_offsets = pass == 0;
        status = sgs_columns_open(memory, &options, kit_codecs(), &columns, err);
        if (status == SGS_OK)
            status = sgs_columns_append_batch(columns, batch.data, batch.size, err);
        if (status == SGS_OK)
            EXPECT_EQ_I64(sgs_columns_rows_count(columns), pass == 0 ? 0 : 257); /* one in seven has no key */
        sgs_columns_close(columns);
    }
    sgs_offset_map_deinit(&map);
    sgs_buffer_deinit(&batch);
    return status;
}
