/* The rows that tell of transactions: markers, and the first batch of each producer between them [TXX-1, DUR-7]. */
#include "segment/transaction_scan.h"

#include "record/batch_builder.h"
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
