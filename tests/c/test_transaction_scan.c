/* The rows that tell of transactions: markers, and the first batch of each producer between them [TXX-1, DUR-7]. */
#include "segment/transaction_scan.h"

#include "record/batch_builder.h"
#include "record_kit.h"
#include "segment/log_segment_internal.h"
#include "segment_kit.h"
#include "test.h"

enum { ATTRIBUTES_AT = 22, PRODUCER_AT = 50, BATCH_BYTES = 200 }; /* low bytes of the fields */

static void append(segment_kit *kit, uint8_t *batch, size_t size)
{
    sgs_batch_header row;
    const sgs_slice slice = { batch, size };
    REQUIRE_OK(sgs_batch_header_load(batch, size, sgs_log_segment_size(kit->segment), &row, &kit->err), &kit->err);
    EXPECT_OK(sgs_log_segment_append(kit->segment, &slice, 1, &row, 1, &kit->poisoned, &kit->err), &kit->err);
}

/* One record of `size` bytes in all; producer 0: of no transaction. */
static void write_data(segment_kit *kit, int64_t offset, uint8_t producer_id, size_t size)
{
    uint8_t batch[2 * BATCH_BYTES];
    const size_t written = segment_kit_batch(batch, sizeof batch, offset, 1, offset * 10, size);
    for (int i = 0; i < 8; ++i)
        batch[PRODUCER_AT - 7 + i] = i == 7 ? producer_id : 0;
    if (producer_id != 0)
        batch[ATTRIBUTES_AT] |= SGS_ATTRIBUTE_TRANSACTIONAL;
    (void)sgs_batch_seal(batch, written);
    append(kit, batch, written);
}

static void write_marker(segment_kit *kit, int64_t offset, int64_t producer_id, bool commit)
{
    sgs_buffer marker;
    sgs_buffer_init(&marker, sgs_env_memory(&kit->memory.env));
    REQUIRE_OK(sgs_batch_build_end_transaction_marker(offset, 0, 0, producer_id, 0, commit, 0, &marker, &kit->err),
               &kit->err);
    append(kit, marker.data, marker.size);
    sgs_buffer_deinit(&marker);
}

static void open_kit(segment_kit *kit)
{
    segment_kit_open(kit);
    kit->context.codecs = kit_codecs();
    REQUIRE_OK(segment_kit_segment(kit, 0, true), &kit->err);
}

/* Scan, and expect producer ids and ends, as "7:d 7:a", and the offset behind what was taken. */
static sgs_scan_stop scan(segment_kit *kit, int64_t data_from, const char *expected, int64_t next_offset)
{
    sgs_scan_options options;
    sgs_transaction_rows rows;
    sgs_scan_result result = { .stop = SGS_SCAN_LIMIT };
    char found[256] = "";
    size_t at = 0;
    sgs_scan_options_default(&options, SGS_SCAN_FILE);
    options.check_order = true;
    sgs_transaction_rows_init(&rows, sgs_env_memory(&kit->memory.env));
    EXPECT_OK(sgs_log_segment_scan_transactions(kit->segment, &options, 0, -1, data_from, &rows, &result, &kit->err),
              &kit->err);
    EXPECT_EQ_U64(rows.ends.size, sgs_batch_table_count(&rows.table));
    for (size_t i = 0; i < rows.ends.size && at < sizeof found - 8; ++i) {
        const int8_t end = (int8_t)rows.ends.data[i];
        found[at++] = (char)('0' + sgs_batch_table_rows(&rows.table)[i].producer_id);
        found[at++] = end == SGS_TRANSACTION_DATA ? 'd' : end == SGS_TRANSACTION_ABORTED ? 'a' : 'c';
        found[at++] = ' ';
    }
    found[at > 0 ? at - 1 : 0] = '\0';
    EXPECT_TEXT(found, expected);
    EXPECT_EQ_I64(result.next_offset, next_offset);
    sgs_transaction_rows_deinit(&rows);
    return result.stop;
}

static void flip(segment_kit *kit, int64_t position, uint8_t bits)
{
    uint8_t byte;
    size_t got;
    int64_t written;
    int fd;
    const sgs_env *env = &kit->memory.env;
    REQUIRE_OK(
        env->open_file(env, kit->context.directory_fd, "00000000000000000000.log", SGS_OPEN_WRITE, &fd, &kit->err),
        &kit->err);
    REQUIRE_OK(env->read_at(env, fd, "", &byte, 1, position, &got, &kit->err), &kit->err);
    byte ^= bits;
    const sgs_slice slice = { &byte, 1 };
    REQUIRE_OK(env->write_at(env, fd, "", &slice, 1, position, &written, &kit->err), &kit->err);
    REQUIRE_OK(env->close(env, fd, "", &kit->err), &kit->err);
}

TEST(the_first_batch_of_a_producer_stands_for_those_that_follow_it)
{
    segment_kit kit;
    open_kit(&kit);
    write_data(&kit, 0, 0, BATCH_BYTES);
    write_data(&kit, 1, 7, BATCH_BYTES);
    write_data(&kit, 2, 7, BATCH_BYTES);
    write_data(&kit, 3, 8, BATCH_BYTES);
    write_data(&kit, 4, 0, BATCH_BYTES);
    write_data(&kit, 5, 8, 0);
    write_marker(&kit, 6, 7, false);
    write_data(&kit, 7, 8, BATCH_BYTES);
    write_marker(&kit, 8, 8, true);
    EXPECT_EQ_I64(scan(&kit, 0, "7d 8d 7a 8d 8c", 9), SGS_SCAN_COMPLETE);
    EXPECT_EQ_I64(scan(&kit, 3, "8d 7a 8d 8c", 9), SGS_SCAN_COMPLETE); /* data below is left out */
    segment_kit_close(&kit);
}

TEST(a_marker_that_is_damaged_ends_the_scan)
{
    for (int at = ATTRIBUTES_AT; at < 78; ++at) {
        segment_kit kit;
        open_kit(&kit);
        write_data(&kit, 0, 7, BATCH_BYTES);
        const int64_t marker = sgs_log_segment_size(kit.segment);
        write_marker(&kit, 1, 7, true);
        write_data(&kit, 2, 7, BATCH_BYTES);
        write_marker(&kit, 3, 7, false);
        const uint8_t bits = at == ATTRIBUTES_AT ? SGS_ATTRIBUTE_CONTROL : 1; /* as if it were data */
        flip(&kit, marker + at, bits);
        const bool is_order = at >= 23 && at < 27; /* its last offset: the scan of headers notices */
        const sgs_scan_stop stop = scan(&kit, 0, "7d", 1);
        EXPECT_TRUE(stop == SGS_SCAN_CORRUPT || (is_order && stop == SGS_SCAN_ORDER));
        segment_kit_close(&kit);
    }
}

/* One control batch of a record with that key; a codec that Kafka never gives one, but the format allows. */
static void write_control(segment_kit *kit, int64_t offset, bool is_transactional, int codec, const char *key)
{
    const sgs_bytes name = { (const uint8_t *)key, 4 };
    sgs_batch_builder builder;
    sgs_batch_options options;
    sgs_buffer out;
    sgs_batch_options_default(&options);
    options.base_offset = offset;
    options.control = codec == SGS_CODEC_NONE; /* the builder compresses none */
    options.transactional = is_transactional;
    options.producer_id = is_transactional ? 7 : -1;
    options.producer_epoch = is_transactional ? 0 : -1;
    options.base_sequence = codec == SGS_CODEC_NONE ? -1 : 0;
    options.codec = codec;
    sgs_batch_builder_init(&builder, kit_memory(), kit_codecs());
    sgs_buffer_init(&out, kit_memory());
    REQUIRE_OK(sgs_batch_builder_start(&builder, &options, &kit->err), &kit->err);
    REQUIRE_OK(sgs_batch_builder_append(&builder, offset, 0, name, kit_text("123456"), NULL, 0, &kit->err), &kit->err);
    REQUIRE_OK(sgs_batch_builder_finish(&builder, &out, NULL, &kit->err), &kit->err);
    out.data[ATTRIBUTES_AT] |= SGS_ATTRIBUTE_CONTROL;
    (void)sgs_batch_seal(out.data, out.size);
    append(kit, out.data, out.size);
    sgs_buffer_deinit(&out);
    sgs_batch_builder_deinit(&builder);
}

TEST(what_ends_no_transaction_is_no_row)
{
    segment_kit kit;
    const kit_bytes message = kit_hex(EXAMPLE_V1);
    sgs_batch_header header;
    sgs_buffer empty;
    open_kit(&kit);
    write_data(&kit, 0, 7, BATCH_BYTES);
    write_control(&kit, 1, false, SGS_CODEC_NONE, "\0\0\0\2"); /* the leader has changed */
    write_control(&kit, 2, true, SGS_CODEC_NONE, "\0\0\0\x9"); /* of a type that is not known yet */
    write_marker(&kit, 3, 7, false);
    const int64_t at = sgs_log_segment_size(kit.segment);
    write_marker(&kit, 4, 7, true);
    write_data(&kit, 5, 7, BATCH_BYTES);
    EXPECT_EQ_I64(scan(&kit, 0, "7d 7a 7c 7d", 6), SGS_SCAN_COMPLETE);

    /* the marker of another producer as compaction leaves it [format.md 4.5]: nothing is known of that transaction's end */
    uint8_t marker[78];
    REQUIRE_OK(sgs_segment_read_exactly(kit.segment, marker, sizeof marker, at, &kit.err), &kit.err);
    REQUIRE_OK(sgs_batch_header_load(marker, sizeof marker, at, &header, &kit.err), &kit.err);
    header.base_offset = header.last_offset = 6;
    sgs_buffer_init(&empty, kit_memory());
    REQUIRE_OK(sgs_batch_build_empty(&header, &empty, &kit.err), &kit.err);
    append(&kit, empty.data, empty.size);
    sgs_buffer_deinit(&empty);
    append(&kit, (uint8_t *)(uintptr_t)message.data, message.size); /* magic 1 knows no transactions */
    EXPECT_EQ_I64(scan(&kit, 0, "7d 7a 7c 7d", 43), SGS_SCAN_COMPLETE);
    segment_kit_close(&kit);
}

TEST(a_small_batch_of_many_records_was_no_marker)
{
    uint8_t batch[2 * BATCH_BYTES];
    segment_kit kit;
    open_kit(&kit);
    const size_t written = segment_kit_batch(batch, sizeof batch, 0, 3, 0, 0);
    REQUIRE_TRUE(written <= 128);
    memset(batch + PRODUCER_AT - 7, 0, 8);
    batch[PRODUCER_AT] = 7;
    batch[ATTRIBUTES_AT] |= SGS_ATTRIBUTE_TRANSACTIONAL;
    (void)sgs_batch_seal(batch, written);
    append(&kit, batch, written);
    flip(&kit, (int64_t)written - 1, 1); /* its reader notices */
    EXPECT_EQ_I64(scan(&kit, 0, "7d", 3), SGS_SCAN_COMPLETE);
    segment_kit_close(&kit);
}

TEST(a_control_batch_that_cannot_be_read_ends_the_scan)
{
    enum { LENGTH_AT = 61, VERSION_AT = 66 };
    for (int way = 0; way < 3; ++way) { /* a key of no version, a record that is cut, bytes that no codec made */
        uint8_t marker[128];
        segment_kit kit;
        open_kit(&kit);
        write_data(&kit, 0, 7, BATCH_BYTES);
        const int64_t at = sgs_log_segment_size(kit.segment);
        write_control(&kit, 1, true, SGS_CODEC_NONE, "\0\0\0\1");
        const size_t size = (size_t)(sgs_log_segment_size(kit.segment) - at);
        REQUIRE_OK(sgs_segment_read_exactly(kit.segment, marker, size, at, &kit.err), &kit.err);
        if (way == 0)
            marker[VERSION_AT] = 0x80;
        else if (way == 1)
            marker[LENGTH_AT] = 0x7e;
        else
            marker[ATTRIBUTES_AT] |= SGS_CODEC_GZIP;
        (void)sgs_batch_seal(marker, size);
        REQUIRE_OK(sgs_log_segment_truncate_to(kit.segment, 1, &(int32_t){ 0 }, &kit.err), &kit.err);
        append(&kit, marker, size);
        EXPECT_EQ_I64(scan(&kit, 0, "7d", 1), SGS_SCAN_CORRUPT);
        segment_kit_close(&kit);
    }
}

TEST(memory_that_fails_is_told_and_hides_no_marker)
{
    segment_kit kit;
    sgs_scan_options options;
    sgs_scan_result result;
    sgs_status status = SGS_RESOURCE;
    open_kit(&kit);
    write_data(&kit, 0, 7, BATCH_BYTES);
    write_control(&kit, 1, true, SGS_CODEC_GZIP, "\0\0\0\0");
    EXPECT_EQ_I64(scan(&kit, 0, "7d 7a", 2), SGS_SCAN_COMPLETE);
    sgs_scan_options_default(&options, SGS_SCAN_FILE);
    int64_t nth = 1;
    for (; status != SGS_OK && nth < 20; ++nth) {
        sgs_transaction_rows rows;
        sgs_transaction_rows_init(&rows, sgs_env_memory(&kit.memory.env));
        memory_env_fail(&kit.memory, "allocate", nth, 12);
        status = sgs_log_segment_scan_transactions(kit.segment, &options, 0, -1, 0, &rows, &result, &kit.err);
        EXPECT_TRUE(status == SGS_RESOURCE ||
                    (status == SGS_OK && result.stop == SGS_SCAN_COMPLETE && rows.ends.size == 2));
        sgs_transaction_rows_deinit(&rows);
    }
    memory_env_heal(&kit.memory);
    EXPECT_TRUE(nth > 4); /* rows, their ends, the batch, what the codec makes of it */
    segment_kit_close(&kit);
}

TEST(damage_of_data_hides_no_marker)
{
    segment_kit kit;
    open_kit(&kit);
    write_data(&kit, 0, 7, BATCH_BYTES);
    write_data(&kit, 1, 8, BATCH_BYTES);
    write_marker(&kit, 2, 7, false);
    flip(&kit, BATCH_BYTES + 150, 1);
    EXPECT_EQ_I64(scan(&kit, 0, "7d 8d 7a", 3), SGS_SCAN_COMPLETE);
    segment_kit_close(&kit);
}

TEST(a_failing_read_is_told)
{
    segment_kit kit;
    sgs_scan_options options;
    sgs_transaction_rows rows;
    sgs_scan_result result;
    open_kit(&kit);
    write_marker(&kit, 0, 7, false);
    sgs_scan_options_default(&options, SGS_SCAN_FILE);
    sgs_transaction_rows_init(&rows, sgs_env_memory(&kit.memory.env));
    for (int nth = 1; nth <= 2; ++nth) {
        memory_env_fail(&kit.memory, "read_at", nth, 5);
        EXPECT_STATUS(sgs_log_segment_scan_transactions(kit.segment, &options, 0, -1, 0, &rows, &result, &kit.err),
                      SGS_READ_IO);
    }
    sgs_transaction_rows_deinit(&rows);
    segment_kit_close(&kit);
}

TEST_MAIN()
