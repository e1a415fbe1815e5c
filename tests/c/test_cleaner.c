/* test_cleaner.c - pieces of a cleaner's pass over segments in files [CLN-55..CLN-105]. */
#include "segment/cleaner.h"

#include <errno.h>

#include "record/batch_builder.h"
#include "record/legacy_builder.h"
#include "record/record_section.h"
#include "record_kit.h"
#include "segment_kit.h"
#include "test.h"

enum { NOW = 1000, RETENTION = 50, MAP_BYTES = 24 * 100 };

typedef struct fixture {
    segment_kit kit; /* its segment is the source */
    sgs_log_segment *destination;
    sgs_offset_map map;
    sgs_cleaner cleaner;
    sgs_batch_options batch; /* of what is appended next */
} fixture;

static void begin(fixture *f)
{
    segment_kit_open(&f->kit);
    f->kit.context.codecs = kit_codecs();
    REQUIRE_OK(segment_kit_segment(&f->kit, 0, true), &f->kit.err);
    REQUIRE_OK(sgs_log_segment_open(&f->kit.context, 0, SGS_SUFFIX_CLEANED, true, &f->destination, &f->kit.err),
               &f->kit.err);
    REQUIRE_OK(sgs_offset_map_init(&f->map, kit_memory(), MAP_BYTES, &f->kit.err), &f->kit.err);
    sgs_cleaner_init(&f->cleaner, kit_memory(), kit_codecs(), &f->map);
    sgs_batch_options_default(&f->batch);
    sgs_cleaner_begin_pass(&f->cleaner);
    f->cleaner.options.max_entries = f->map.slots;
    f->cleaner.options.now_ms = NOW;
    f->cleaner.options.delete_retention_ms = RETENTION;
    f->cleaner.options.read_bytes = 64; /* less than a batch */
    f->cleaner.options.check = true;
}

static void end(fixture *f)
{
    sgs_cleaner_deinit(&f->cleaner);
    sgs_offset_map_deinit(&f->map);
    if (f->destination != NULL)
        EXPECT_OK(sgs_log_segment_close(f->destination, &f->kit.err), &f->kit.err);
    segment_kit_close(&f->kit);
}

static void append_bytes(sgs_log_segment *segment, const uint8_t *data, size_t size, sgs_error *err)
{
    sgs_batch_header row;
    bool poisoned;
    const sgs_slice slice = { data, size };
    REQUIRE_OK(sgs_batch_header_load(data, size, 0, &row, err), err);
    REQUIRE_OK(sgs_log_segment_append(segment, &slice, 1, &row, 1, &poisoned, err), err);
}

/* A batch with a record for each letter of `keys` ("-" has none): a capital letter is a tombstone of the small one. */
static void append(fixture *f, int64_t base_offset, const char *keys)
{
    sgs_batch_builder builder;
    sgs_buffer data;
    sgs_error *const err = &f->kit.err;
    sgs_buffer_init(&data, kit_memory());
    sgs_batch_builder_init(&builder, kit_memory(), kit_codecs());
    f->batch.base_offset = base_offset;
    REQUIRE_OK(sgs_batch_builder_start(&builder, &f->batch, err), err);
    for (int64_t i = 0; keys[i] != '\0'; ++i) {
        const char letter[2] = { (char)(keys[i] | 0x20), '\0' };
        const bool is_tombstone = keys[i] >= 'A' && keys[i] <= 'Z';
        REQUIRE_OK(sgs_batch_builder_append(&builder, base_offset + i, 100, kit_text(keys[i] == '-' ? NULL : letter),
                                            kit_text(is_tombstone ? NULL : "value"), NULL, 0, err),
                   err);
    }
    REQUIRE_OK(sgs_batch_builder_finish(&builder, &data, NULL, err), err);
    append_bytes(f->kit.segment, data.data, data.size, err);
    sgs_batch_builder_deinit(&builder);
    sgs_buffer_deinit(&data);
}

static void append_marker(fixture *f, int64_t offset, int64_t producer_id, bool commit)
{
    sgs_buffer data;
    sgs_buffer_init(&data, kit_memory());
    REQUIRE_OK(sgs_batch_build_end_transaction_marker(offset, 0, 0, producer_id, 0, commit, 0, &data, &f->kit.err),
               &f->kit.err);
    append_bytes(f->kit.segment, data.data, data.size, &f->kit.err);
    sgs_buffer_deinit(&data);
}

static sgs_status map_all(fixture *f, bool *full)
{
    sgs_status status = SGS_OK;
    *full = false;
    sgs_cleaner_begin_source(&f->cleaner, f->kit.segment, 0, INT64_MAX);
    while (status == SGS_OK && !*full && !sgs_cleaner_is_done(&f->cleaner))
        status = sgs_cleaner_map_piece(&f->cleaner, f->kit.segment, full, &f->kit.err);
    return status;
}

static sgs_status copy_all(fixture *f)
{
    sgs_status status = SGS_OK;
    int64_t begins_at = -1;
    sgs_cleaned_transaction_metadata_clear(&f->cleaner.transactions);
    sgs_cleaner_begin_source(&f->cleaner, f->kit.segment, 0, INT64_MAX);
    while (status == SGS_OK && begins_at < 0 && !sgs_cleaner_is_done(&f->cleaner))
        status = sgs_cleaner_copy_piece(&f->cleaner, f->kit.segment, f->destination, &begins_at, &f->kit.err);
    EXPECT_EQ_I64(begins_at, -1);
    return status;
}

static void clean(fixture *f)
{
    bool full;
    EXPECT_OK(map_all(f, &full), &f->kit.err);
    EXPECT_TRUE(!full);
    EXPECT_OK(copy_all(f), &f->kit.err);
}

/* What a segment has, as "0-1:ab 2-2: 3-3:C!": offsets, keys as `append` has them, and whether there is a horizon. */
static void expect(fixture *f, sgs_log_segment *segment, const char *expected)
{
    sgs_buffer bytes, scratch;
    sgs_batch_table table;
    sgs_scan_options options;
    sgs_scan_result result;
    char found[256] = "";
    size_t at = 0;
    const size_t size = (size_t)sgs_log_segment_size(segment);
    sgs_error *const err = &f->kit.err;
    sgs_buffer_init(&bytes, kit_memory());
    sgs_buffer_init(&scratch, kit_memory());
    sgs_batch_table_init(&table, kit_memory());
    sgs_scan_options_default(&options, SGS_SCAN_FILE);
    REQUIRE_OK(sgs_log_segment_scan(segment, &options, 0, -1, &table, &result, err), err);
    EXPECT_EQ_I64(result.stop, SGS_SCAN_COMPLETE);
    const sgs_segment_read all = { .max_size = INT32_MAX, .max_position = (int64_t)size };
    sgs_segment_fetch fetch;
    if (size > 0)
        REQUIRE_OK(sgs_log_segment_read(segment, &all, &bytes, &fetch, err), err);
    for (size_t i = 0; i < sgs_batch_table_count(&table); ++i) {
        const sgs_batch_header *const row = &sgs_batch_table_rows(&table)[i];
        sgs_record_reader reader;
        at += (size_t)snprintf(found + at, sizeof found - at, "%s%d-%d:", i > 0 ? " " : "", (int)row->base_offset,
                               (int)row->last_offset);
        REQUIRE_OK(sgs_record_section_open(bytes.data + row->position, (size_t)row->size_bytes, true, kit_codecs(),
                                           &scratch, &reader, err),
                   err);
        for (;;) {
            sgs_record record;
            bool is_there;
            REQUIRE_OK(sgs_record_reader_next(&reader, &record, &is_there, err), err);
            if (!is_there)
                break;
            const char key = record.key.size == 1 ? (char)record.key.data[0] : '-';
            found[at++] = sgs_batch_is_control(row) ? '*' : record.value.size < 0 ? (char)(key & ~0x20) : key;
        }
        if ((row->attributes & SGS_ATTRIBUTE_DELETE_HORIZON) != 0)
            found[at++] = '!';
        found[at] = '\0';
    }
    EXPECT_TEXT(found, expected);
    sgs_batch_table_deinit(&table);
    sgs_buffer_deinit(&scratch);
    sgs_buffer_deinit(&bytes);
}

/* Clean what was cleaned: the destination is the source of another pass. */
static void begin_again(fixture *f, int64_t now_ms)
{
    sgs_error *const err = &f->kit.err;
    const sgs_cleaner_options options = f->cleaner.options;
    REQUIRE_OK(sgs_log_segment_delete_files(f->kit.segment, err), err);
    sgs_log_segment_close_quietly(f->kit.segment);
    f->kit.segment = f->destination;
    REQUIRE_OK(sgs_log_segment_change_suffix(f->kit.segment, SGS_SUFFIX_NONE, err), err);
    f->destination = NULL;
    REQUIRE_OK(sgs_log_segment_open(&f->kit.context, 0, SGS_SUFFIX_CLEANED, true, &f->destination, err), err);
    sgs_cleaner_begin_pass(&f->cleaner);
    f->cleaner.options = options;
    f->cleaner.options.now_ms = now_ms;
}

TEST(the_last_record_of_each_key_stays) /* [CLN-57, CLN-59, CLN-84, CLN-86] */
{
    fixture f;
    begin(&f);
    append(&f, 0, "abc");
    append(&f, 3, "b");
    append(&f, 4, "de");
    clean(&f);
    expect(&f, f.destination, "0-2:ac 3-3:b 4-5:de");
    EXPECT_EQ_I64(f.map.latest_offset, 5);
    EXPECT_EQ_I64(f.cleaner.stats.map_messages_read, 6);
    EXPECT_EQ_I64(f.cleaner.stats.map_bytes_read, sgs_log_segment_size(f.kit.segment));
    EXPECT_EQ_I64(f.cleaner.stats.bytes_read, sgs_log_segment_size(f.kit.segment));
    EXPECT_EQ_I64(f.cleaner.stats.messages_read, 6);
    EXPECT_EQ_I64(f.cleaner.stats.messages_written, 5);
    EXPECT_EQ_I64(f.cleaner.stats.bytes_written, sgs_log_segment_size(f.destination));
    end(&f);
}

TEST(what_stays_as_it_is_is_copied_byte_for_byte) /* [CLN-88] whatever the codec would make of it now */
{
    fixture f;
    begin(&f);
    const kit_bytes batch = kit_hex(EXAMPLE_SNAPPY);
    append_bytes(f.kit.segment, batch.data, batch.size, &f.kit.err);
    clean(&f);
    uint8_t copied[512];
    size_t got;
    int fd;
    const sgs_env *const env = &f.kit.memory.env;
    EXPECT_EQ_I64(sgs_log_segment_size(f.destination), batch.size);
    REQUIRE_OK(env->open_file(env, f.kit.context.directory_fd, "00000000000000000000.log.cleaned", SGS_OPEN_READ, &fd,
                              &f.kit.err),
               &f.kit.err);
    REQUIRE_OK(env->read_at(env, fd, "", copied, batch.size, 0, &got, &f.kit.err), &f.kit.err);
    REQUIRE_OK(env->close(env, fd, "", &f.kit.err), &f.kit.err);
    EXPECT_MEM(copied, batch.data, batch.size);
    end(&f);
}

TEST(records_below_the_first_dirty_offset_are_not_mapped_and_go_for_later_ones) /* [CLN-56, CLN-57] */
{
    fixture f;
    begin(&f);
    append(&f, 0, "ab");
    append(&f, 2, "bc");
    f.cleaner.options.first_dirty_offset = 3;
    clean(&f);
    expect(&f, f.destination, "0-1:ab 2-3:bc"); /* the caller said that below there are no two of a key */
    EXPECT_EQ_I64(f.map.size, 1);
    end(&f);
}

TEST(a_full_map_ends_with_the_last_key_that_was_put) /* [CLN-57, CLN-61] */
{
    fixture f;
    bool full;
    begin(&f);
    append(&f, 0, "ab");
    append(&f, 2, "bac");
    f.cleaner.options.max_entries = 2;
    EXPECT_OK(map_all(&f, &full), &f.kit.err);
    EXPECT_TRUE(full);
    EXPECT_EQ_I64(f.map.latest_offset, 1); /* also keys that are in it are put no more */
    EXPECT_OK(copy_all(&f), &f.kit.err);
    expect(&f, f.destination, "0-1:ab 2-4:bac");
    end(&f);
}

TEST(a_map_that_is_full_in_the_middle_of_a_piece_takes_nothing_of_later_batches) /* [CLN-57, CLN-61] */
{
    fixture f;
    bool full;
    begin(&f);
    append(&f, 0, "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz"); /* more than are asked for at once */
    append(&f, 52, "a");
    f.cleaner.options.read_bytes = 1 << 20;
    f.cleaner.options.max_entries = 3;
    EXPECT_OK(map_all(&f, &full), &f.kit.err);
    EXPECT_TRUE(full);
    EXPECT_EQ_I64(f.map.size, 3);
    EXPECT_EQ_I64(f.map.latest_offset, 2);
    EXPECT_EQ_I64(f.cleaner.stats.map_messages_read, 3);
    EXPECT_OK(copy_all(&f), &f.kit.err);
    expect(&f, f.destination, "0-51:abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz 52-52:a");
    end(&f);
}

TEST(a_record_without_a_key_goes_and_is_counted) /* [CLN-58, CLN-84] */
{
    fixture f;
    begin(&f);
    append(&f, 0, "a-");
    append(&f, 2, "-");
    clean(&f);
    expect(&f, f.destination, "0-1:a");
    EXPECT_EQ_I64(f.cleaner.stats.invalid_messages_read, 2);
    EXPECT_EQ_I64(f.map.latest_offset, 2);
    end(&f);
}

TEST(a_tombstone_gets_a_horizon_and_goes_when_it_has_passed) /* [CLN-84, CLN-87, CLN-90, CLN-96] */
{
    fixture f;
    begin(&f);
    append(&f, 0, "ab");
    append(&f, 2, "Ac");
    clean(&f);
    expect(&f, f.destination, "0-1:b 2-3:Ac!");
    begin_again(&f, NOW + RETENTION - 1);
    clean(&f);
    expect(&f, f.destination, "0-1:b 2-3:Ac!");
    begin_again(&f, NOW + RETENTION);
    clean(&f);
    expect(&f, f.destination, "0-1:b 2-3:c!"); /* the rest keeps the same horizon */
    end(&f);
}

TEST(the_last_batch_of_a_producer_stays_empty) /* [CLN-82, CLN-83, CLN-91] */
{
    fixture f;
    const sgs_last_record records[] = { { 3, 9, 0 }, { 7, 1, 0 }, { 8, -1, 0 } };
    begin(&f);
    f.batch.producer_id = 7;
    f.batch.producer_epoch = 0;
    f.batch.base_sequence = 0;
    append(&f, 0, "ab");
    f.batch.producer_id = 9;
    append(&f, 2, "ab");
    append(&f, 4, "ab");
    f.cleaner.options.last_records = records;
    f.cleaner.options.last_records_count = 3;
    clean(&f);
    expect(&f, f.destination, "0-1: 4-5:ab");
    end(&f);
}

TEST(a_batch_goes_when_it_is_not_the_last_of_its_producer) /* [CLN-83]: another producer, data, another epoch */
{
    fixture f;
    const sgs_last_record records[] = { { 3, 1, 0 }, { 7, -1, 0 }, { 9, 1, 0 } };
    begin(&f);
    f.batch.producer_epoch = 0;
    f.batch.base_sequence = 0;
    f.batch.producer_id = 5; /* between those that are known */
    append(&f, 0, "ab");
    f.batch.producer_id = 7; /* of which a marker is known, and no data */
    append(&f, 2, "ab");
    append_marker(&f, 4, 7, true); /* of the known epoch */
    f.batch.producer_id = 9;       /* its last batch was another one */
    append(&f, 5, "ab");
    append(&f, 7, "ab");
    f.cleaner.options.last_records = records;
    f.cleaner.options.last_records_count = 3;
    clean(&f);
    expect(&f, f.destination, "4-4:*! 7-8:ab");

    const sgs_last_record of_another_epoch[] = { { 7, -1, 1 } };
    begin_again(&f, NOW + RETENTION);
    f.cleaner.options.last_records = of_another_epoch;
    f.cleaner.options.last_records_count = 1;
    clean(&f);
    expect(&f, f.destination, "7-8:ab");
    end(&f);
}

TEST(a_marker_stays_for_its_producer_that_has_no_data) /* [CLN-83] */
{
    fixture f;
    const sgs_last_record records[] = { { 7, -1, 0 } };
    begin(&f);
    append(&f, 0, "a");
    append_marker(&f, 1, 7, true);
    append_marker(&f, 2, 8, true);
    f.cleaner.options.last_records = records;
    f.cleaner.options.last_records_count = 1;
    clean(&f);
    expect(&f, f.destination, "0-0:a 1-1:*! 2-2:*!"); /* nothing of their transactions is left */
    begin_again(&f, NOW + RETENTION - 1);
    clean(&f);
    expect(&f, f.destination, "0-0:a 1-1:*! 2-2:*!"); /* their horizon has not passed */
    begin_again(&f, NOW + RETENTION);
    clean(&f);
    expect(&f, f.destination, "0-0:a 1-1:"); /* emptied, so that the epoch is known */
    end(&f);
}

TEST(the_batch_with_the_kept_last_offset_stays_empty_also_of_magic_1) /* [CLN-82, DUR-126] */
{
    fixture f;
    begin(&f);
    append(&f, 0, "a");
    append(&f, 1, "a");
    f.cleaner.options.kept_last_offset = 0;
    clean(&f);
    expect(&f, f.destination, "0-0: 1-1:a");
    end(&f);

    begin(&f);
    const kit_bytes legacy = kit_hex(EXAMPLE_V1); /* "k" at 42 */
    append_bytes(f.kit.segment, legacy.data, legacy.size, &f.kit.err);
    append(&f, 43, "k");
    f.cleaner.options.kept_last_offset = 42;
    clean(&f);
    expect(&f, f.destination, "42-42: 43-43:k");
    begin_again(&f, NOW);
    clean(&f);
    end(&f);

    begin(&f);
    append_bytes(f.kit.segment, legacy.data, legacy.size, &f.kit.err);
    append(&f, 43, "k");
    f.cleaner.options.kept_last_offset = 42;
    f.cleaner.options.check = false; /* as Kafka, which fails there [CLN-91] */
    bool full;
    EXPECT_OK(map_all(&f, &full), &f.kit.err);
    EXPECT_STATUS(copy_all(&f), SGS_ILLEGAL_STATE);
    EXPECT_EQ_I64(f.kit.err.position, 0);
    end(&f);
}

TEST(messages_of_magic_1_are_written_again_as_magic_2) /* [CLN-74, CLN-87, CLN-94] */
{
    for (int retain = 0; retain < 2; ++retain) {
        fixture f;
        begin(&f);
        const kit_bytes value = kit_hex(EXAMPLE_V1); /* "k" at 42 */
        append_bytes(f.kit.segment, value.data, value.size, &f.kit.err);
        f.cleaner.options.retain_legacy_deletes = retain != 0;
        clean(&f);
        expect(&f, f.destination, "42-42:k");
        EXPECT_TRUE(sgs_log_segment_size(f.destination) > SGS_BATCH_HEADER_BYTES);
        end(&f);
    }
}

TEST(a_tombstone_of_magic_1_stays_while_those_of_its_segment_are_retained) /* [CLN-74] */
{
    for (int retain = 0; retain < 2; ++retain) {
        const sgs_legacy_options options = { .codec = SGS_CODEC_NONE, .level = INT32_MIN, .magic = 1 };
        sgs_legacy_builder builder;
        sgs_buffer message;
        fixture f;
        begin(&f);
        append(&f, 0, "ka");
        sgs_legacy_builder_init(&builder, kit_memory(), kit_codecs());
        sgs_buffer_init(&message, kit_memory());
        EXPECT_OK(sgs_legacy_builder_start(&builder, &options, &f.kit.err), &f.kit.err);
        EXPECT_OK(sgs_legacy_builder_append(&builder, 2, 100, kit_text("k"), kit_text(NULL), &f.kit.err), &f.kit.err);
        EXPECT_OK(sgs_legacy_builder_finish(&builder, &message, &f.kit.err), &f.kit.err);
        append_bytes(f.kit.segment, message.data, message.size, &f.kit.err);
        f.cleaner.options.retain_legacy_deletes = retain != 0;
        clean(&f);
        expect(&f, f.destination, retain != 0 ? "0-1:a 2-2:K!" : "0-1:a");
        sgs_buffer_deinit(&message);
        sgs_legacy_builder_deinit(&builder);
        end(&f);
    }
}

TEST(aborted_records_go_and_are_not_mapped) /* [CLN-57, CLN-80, CLN-81, CLN-95, CLN-96] */
{
    fixture f;
    const sgs_aborted_txn aborted = { 7, 1, 2, 3 };
    begin(&f);
    append(&f, 0, "a");
    f.batch.producer_id = 7;
    f.batch.producer_epoch = 0;
    f.batch.base_sequence = 0;
    f.batch.transactional = true;
    append(&f, 1, "a");
    append_marker(&f, 2, 7, false);
    bool full;
    EXPECT_OK(sgs_cleaned_transaction_metadata_add(&f.cleaner.transactions, &aborted, 1, &f.kit.err), &f.kit.err);
    EXPECT_OK(map_all(&f, &full), &f.kit.err);
    EXPECT_EQ_I64(f.map.size, 1);
    EXPECT_EQ_I64(f.cleaner.stats.map_messages_read, 3); /* the count of the aborted batch, 1 of the marker */
    sgs_cleaned_transaction_metadata_clear(&f.cleaner.transactions);
    EXPECT_OK(sgs_cleaned_transaction_metadata_add(&f.cleaner.transactions, &aborted, 1, &f.kit.err), &f.kit.err);
    sgs_cleaner_begin_source(&f.cleaner, f.kit.segment, 0, INT64_MAX);
    int64_t begins_at;
    while (!sgs_cleaner_is_done(&f.cleaner))
        REQUIRE_OK(sgs_cleaner_copy_piece(&f.cleaner, f.kit.segment, f.destination, &begins_at, &f.kit.err),
                   &f.kit.err);
    expect(&f, f.destination, "0-0:a 2-2:*"); /* a batch was seen: the marker waits for the next pass */
    EXPECT_EQ_U64(f.cleaner.transactions.cleaned.size, sizeof aborted);
    EXPECT_EQ_I64(f.cleaner.stats.messages_read, 2); /* [CLN-85] aborted ones are not looked at */
    begin_again(&f, NOW + 1);
    clean(&f);
    expect(&f, f.destination, "0-0:a 2-2:*!");
    begin_again(&f, NOW + 1 + RETENTION);
    clean(&f);
    expect(&f, f.destination, "0-0:a");
    end(&f);
}

TEST(damage_ends_the_pass_with_its_place_and_nothing_is_written) /* DUR-125 [CLN-99] */
{
    for (int copies = 0; copies < 2; ++copies) {
        fixture f;
        bool full;
        begin(&f);
        append(&f, 0, "ab");
        const int64_t damaged = sgs_log_segment_size(f.kit.segment);
        append(&f, 2, "ab");
        if (copies)
            EXPECT_OK(map_all(&f, &full), &f.kit.err);
        uint8_t byte = 'x';
        int64_t written;
        int fd;
        const sgs_env *const env = &f.kit.memory.env;
        const sgs_slice slice = { &byte, 1 };
        REQUIRE_OK(env->open_file(env, f.kit.context.directory_fd, "00000000000000000000.log", SGS_OPEN_WRITE, &fd,
                                  &f.kit.err),
                   &f.kit.err);
        REQUIRE_OK(env->write_at(env, fd, "", &slice, 1, damaged + SGS_BATCH_HEADER_BYTES + 5, &written, &f.kit.err),
                   &f.kit.err);
        REQUIRE_OK(env->close(env, fd, "", &f.kit.err), &f.kit.err);
        f.cleaner.options.read_bytes = 4096; /* both batches in one piece: the first one waits, too */
        EXPECT_STATUS(copies ? copy_all(&f) : map_all(&f, &full), SGS_CORRUPT_RECORD);
        EXPECT_TEXT(f.kit.err.file, "00000000000000000000.log");
        EXPECT_EQ_I64(f.kit.err.position, damaged);
        EXPECT_EQ_I64(sgs_log_segment_size(f.destination), 0);
        end(&f);
    }
}

TEST(offsets_that_reach_the_next_segment_are_damage) /* DUR-54, DUR-125: no CRC covers them */
{
    fixture f;
    bool full;
    begin(&f);
    append(&f, 0, "ab");
    sgs_cleaner_begin_source(&f.cleaner, f.kit.segment, 0, 1);
    EXPECT_STATUS(sgs_cleaner_map_piece(&f.cleaner, f.kit.segment, &full, &f.kit.err), SGS_INVALID_OFFSET);
    f.cleaner.options.check = false;
    sgs_cleaner_begin_source(&f.cleaner, f.kit.segment, 0, 1);
    EXPECT_OK(sgs_cleaner_map_piece(&f.cleaner, f.kit.segment, &full, &f.kit.err), &f.kit.err);
    end(&f);
}

TEST(what_does_not_fit_a_destination_goes_to_the_next_one) /* [CLN-75] */
{
    fixture f;
    bool full;
    int64_t begins_at;
    sgs_log_segment *second;
    begin(&f);
    append(&f, 0, "a");
    append(&f, 1, "b");
    append(&f, 2, "c");
    const int32_t size = sgs_log_segment_size(f.kit.segment);
    EXPECT_OK(map_all(&f, &full), &f.kit.err);
    f.cleaner.options.read_bytes = 4096;
    f.cleaner.options.destination_bytes = size - 1;
    sgs_cleaner_begin_source(&f.cleaner, f.kit.segment, 0, INT64_MAX);
    EXPECT_OK(sgs_cleaner_copy_piece(&f.cleaner, f.kit.segment, f.destination, &begins_at, &f.kit.err), &f.kit.err);
    EXPECT_EQ_I64(begins_at, 2);
    EXPECT_TRUE(!sgs_cleaner_is_done(&f.cleaner));
    REQUIRE_OK(sgs_log_segment_open(&f.kit.context, 2, SGS_SUFFIX_CLEANED, true, &second, &f.kit.err), &f.kit.err);
    EXPECT_OK(sgs_cleaner_copy_piece(&f.cleaner, f.kit.segment, second, &begins_at, &f.kit.err), &f.kit.err);
    EXPECT_EQ_I64(begins_at, -1);
    EXPECT_TRUE(sgs_cleaner_is_done(&f.cleaner));
    expect(&f, f.destination, "0-0:a 1-1:b");
    expect(&f, second, "2-2:c");
    EXPECT_OK(sgs_log_segment_close(second, &f.kit.err), &f.kit.err);
    end(&f);
}

TEST(an_offset_too_far_from_a_destination_goes_to_another_one) /* [CLN-75] */
{
    fixture f;
    bool full;
    int64_t begins_at;
    sgs_log_segment *far_away;
    begin(&f);
    EXPECT_OK(sgs_log_segment_close(f.destination, &f.kit.err), &f.kit.err);
    f.destination = NULL;
    append(&f, 5, "a");
    EXPECT_OK(map_all(&f, &full), &f.kit.err);
    REQUIRE_OK(sgs_log_segment_open(&f.kit.context, 6, SGS_SUFFIX_CLEANED, true, &far_away, &f.kit.err), &f.kit.err);
    sgs_cleaner_begin_source(&f.cleaner, f.kit.segment, 0, INT64_MAX);
    EXPECT_OK(sgs_cleaner_copy_piece(&f.cleaner, f.kit.segment, far_away, &begins_at, &f.kit.err), &f.kit.err);
    EXPECT_EQ_I64(begins_at, 5); /* nothing of it went in */
    EXPECT_EQ_I64(sgs_log_segment_size(far_away), 0);
    EXPECT_OK(sgs_log_segment_close(far_away, &f.kit.err), &f.kit.err);
    end(&f);
}

TEST(compressed_batches_are_compressed_again) /* [CLN-89] */
{
    fixture f;
    begin(&f);
    f.batch.codec = SGS_CODEC_GZIP;
    append(&f, 0, "ab");
    append(&f, 2, "a");
    clean(&f);
    expect(&f, f.destination, "0-1:b 2-2:a");
    end(&f);
}

TEST(bytes_that_are_no_batch_at_the_end_are_damage) /* DUR-79 */
{
    fixture f;
    bool full;
    begin(&f);
    append(&f, 0, "ab");
    const int32_t size = sgs_log_segment_size(f.kit.segment);
    sgs_cleaner_begin_source(&f.cleaner, f.kit.segment, 0, INT64_MAX);
    f.cleaner.end = size - 1;
    EXPECT_STATUS(sgs_cleaner_map_piece(&f.cleaner, f.kit.segment, &full, &f.kit.err), SGS_CORRUPT_LOG);
    EXPECT_EQ_I64(f.kit.err.position, 0);
    end(&f);
}

TEST(a_record_that_cannot_be_read_tells_its_batch) /* [CLN-105] */
{
    fixture f;
    bool full;
    begin(&f);
    append(&f, 0, "a");
    const int32_t second = sgs_log_segment_size(f.kit.segment);
    const kit_bytes batch = kit_hex(EXAMPLE_TWO_RECORDS); /* at 100 */
    uint8_t copy[512];
    memcpy(copy, batch.data, batch.size);
    copy[SGS_BATCH_HEADER_BYTES] = 0x7f; /* the size of the first record */
    (void)sgs_batch_seal(copy, batch.size);
    append_bytes(f.kit.segment, copy, batch.size, &f.kit.err);
    EXPECT_STATUS(map_all(&f, &full), SGS_INVALID_RECORD);
    EXPECT_EQ_I64(f.kit.err.position, second);
    EXPECT_TEXT(f.kit.err.file, "00000000000000000000.log");
    f.map.latest_offset = 200;
    EXPECT_STATUS(copy_all(&f), SGS_INVALID_RECORD);
    EXPECT_EQ_I64(f.kit.err.position, second);
    end(&f);
}

TEST(every_failing_call_ends_a_piece_and_gives_everything_back) /* DUR-31, DUR-111 */
{
    static const struct {
        const char *call;
        int os_error;
    } failures[] = { { "allocate", ENOMEM }, { "read_at", EIO }, { "write_at", ENOSPC } };
    for (size_t kind = 0; kind < sizeof failures / sizeof failures[0]; ++kind) {
        bool is_done = false;
        for (int64_t nth = 1; !is_done && nth < 100; ++nth) {
            fixture f;
            bool full;
            begin(&f);
            sgs_cleaner_deinit(&f.cleaner);
            const sgs_cleaner_options options = f.cleaner.options;
            sgs_cleaner_init(&f.cleaner, sgs_env_memory(&f.kit.memory.env), kit_codecs(), &f.map);
            f.cleaner.options = options;
            append(&f, 0, "ab");
            append(&f, 2, "bc");
            memory_env_fail(&f.kit.memory, failures[kind].call, nth, failures[kind].os_error);
            sgs_status status = map_all(&f, &full);
            if (status == SGS_OK)
                status = copy_all(&f);
            memory_env_heal(&f.kit.memory);
            is_done = status == SGS_OK;
            end(&f);
        }
        EXPECT_TRUE(is_done);
    }
}

TEST_MAIN()
