/* After a crash the end of a .log may hold any bytes at all, and so may what a client sends. A scan must stop at the
 * first thing that is not a good batch, say how far it got, and never read outside the bytes. [format.md 9.1, 9.2;
 * DUR-50, DUR-86]
 * INPUT   flags, limits, the sizes of pieces, then the run of batches.
 * ORACLE  the scanners written out plainly in plain_scan.c; and the same scan fed in pieces. */
#include "record/batch_scan.h"

#include "fuzz/fuzz_batch.h"
#include "fuzz/fuzz_input.h"
#include "fuzz/plain_scan.h"
#include "record_kit.h"

enum { FLAGS_BYTES = 2, PARAMETERS_BYTES = FLAGS_BYTES + 1 + 4 + 1 + 1 + 4 };

static sgs_scan_options take_options(fuzz_input *input)
{
    sgs_scan_options options;
    const uint16_t flags = fuzz_take_u16(input);
    sgs_scan_options_default(&options, (flags & 1) != 0 ? SGS_SCAN_MEMORY : SGS_SCAN_FILE);
    options.check_crc = (flags & 2) == 0;
    options.check_order = (flags & 4) != 0;
    options.contiguous = (flags & 8) != 0;
    options.check_epochs = (flags & 16) != 0;
    options.kafka_limits = (flags & 32) != 0;
    if ((flags & 64) != 0)
        options.max_batches = flags >> 14;
    options.expected_offset = fuzz_take_u8(input);
    const uint32_t next_segment = fuzz_take_u32(input);
    if (next_segment != 0)
        options.next_segment_base_offset = next_segment;
    options.segment_base_offset = fuzz_take_u8(input);
    options.previous_epoch = (int8_t)fuzz_take_u8(input);
    const uint32_t max_batch_bytes = fuzz_take_u32(input);
    if (max_batch_bytes != 0 && max_batch_bytes <= INT32_MAX)
        options.max_batch_bytes = (int32_t)max_batch_bytes;
    return options;
}

/* Each feed gets what is asked for in memory of exactly that size, so that a byte beyond it is caught. */
static void check_pieces(const sgs_scan_options *options, const uint8_t *data, size_t size,
                         const sgs_scan_result *whole)
{
    sgs_batch_scan scan;
    sgs_error err;
    size_t needed = 0;
    sgs_batch_scan_start(&scan, options, 0);
    do {
        uint8_t *const piece = malloc(needed + 1);
        FUZZ_CHECK(piece != NULL && needed <= size - (size_t)scan.result.valid_bytes);
        memcpy(piece + 1, data + scan.result.valid_bytes, needed);
        FUZZ_CHECK(sgs_batch_scan_feed(&scan, piece + 1, needed, (int64_t)size, NULL, &needed, &err) == SGS_OK);
        free(piece);
    } while (needed > 0);
    FUZZ_CHECK(scan.over && scan.result.stop == whole->stop && scan.result.valid_bytes == whole->valid_bytes);
    FUZZ_CHECK(scan.result.batches_count == whole->batches_count && scan.result.next_offset == whole->next_offset);
    FUZZ_CHECK(scan.result.max_timestamp == whole->max_timestamp);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_input input = { data, size };
    const sgs_scan_options options = take_options(&input);
    static const uint8_t nothing[1];
    const uint8_t *const run = input.size > 0 ? input.bytes : nothing;
    sgs_batch_table table;
    sgs_scan_result result;
    sgs_error err;
    sgs_batch_table_init(&table, kit_memory());
    FUZZ_CHECK(sgs_batch_scan_buffer(run, input.size, &options, &table, &result, &err) == SGS_OK);

    const plain_scan plain = plain_scan_run(&options, run, (int64_t)input.size, NULL, 0);
    FUZZ_CHECK(result.stop == plain.stop);
    FUZZ_CHECK(result.valid_bytes == plain.valid_bytes);
    FUZZ_CHECK(result.batches_count == plain.batches_count);
    FUZZ_CHECK(result.next_offset == plain.next_offset);
    FUZZ_CHECK(result.last_epoch == plain.last_epoch);
    FUZZ_CHECK(sgs_batch_table_count(&table) == result.batches_count);
    const sgs_batch_header *const rows = sgs_batch_table_rows(&table);
    int64_t position = 0, max_timestamp = -1, offset_of_max_timestamp = -1;
    for (size_t i = 0; i < result.batches_count; ++i) {
        const uint8_t *const batch = run + position;
        FUZZ_CHECK(rows[i].position == position && rows[i].size_bytes == 12 + plain_number(batch + 8, 4));
        FUZZ_CHECK(rows[i].base_offset == plain_number(batch, 8) && rows[i].magic == plain_number(batch + 16, 1));
        if (rows[i].magic >= 2 && rows[i].size_bytes >= 61) {
            FUZZ_CHECK(rows[i].max_timestamp == plain_number(batch + 35, 8) &&
                       rows[i].producer_id == plain_number(batch + 43, 8));
            FUZZ_CHECK(rows[i].attributes == plain_number(batch + 21, 2) &&
                       rows[i].records_count == plain_number(batch + 57, 4));
        }
        if (rows[i].max_timestamp > max_timestamp) {
            max_timestamp = rows[i].max_timestamp;
            offset_of_max_timestamp = rows[i].last_offset;
        }
        position += rows[i].size_bytes;
    }
    FUZZ_CHECK(result.max_timestamp == max_timestamp && result.offset_of_max_timestamp == offset_of_max_timestamp);
    check_pieces(&options, run, input.size, &result);
    sgs_batch_table_deinit(&table);
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    return fuzz_mutate_run(data, size, max_size, seed, PARAMETERS_BYTES);
}
