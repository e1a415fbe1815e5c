/* After a crash the end of a .log may hold any bytes at all, and so may what a client sends. A scan must stop at the
 * first thing that is not a good batch, say how far it got, and never read outside the bytes. [format.md 9.1, 9.2;
 * DUR-50, DUR-86]
 * INPUT   flags, limits, the sizes of pieces, then the run of batches.
 * ORACLE  the scanners written out plainly below, a byte at a time; and the same scan fed in pieces. */
#include "record/batch_scan.h"

#include "base/crc32.h"
#include "base/crc32c.h"
#include "fuzz/fuzz_batch.h"
#include "fuzz/fuzz_input.h"
#include "record_kit.h"

enum { FLAGS_BYTES = 2, PARAMETERS_BYTES = FLAGS_BYTES + 1 + 4 + 1 + 1 + 4 };

static int64_t number(const uint8_t *at, int width) /* big-endian, signed */
{
    uint64_t value = (at[0] & 0x80) != 0 ? UINT64_MAX : 0;
    for (int i = 0; i < width; ++i)
        value = value << 8 | at[i];
    return (int64_t)value;
}

static bool crc_is_right(const uint8_t *batch, int64_t size)
{
    if (number(batch + 16, 1) >= 2)
        return size >= 61 && (uint32_t)number(batch + 17, 4) == sgs_crc32c_portable(0, batch + 21, (size_t)size - 21);
    return size >= 26 && (uint32_t)number(batch + 12, 4) == sgs_crc32(0, batch + 16, (size_t)size - 16);
}

/* The last offset, where it fits: the oracle knows no saturation. @return false when it does not */
static bool last_offset_of(const uint8_t *batch, int64_t size, int64_t *last_offset)
{
    *last_offset = number(batch, 8);
    if (number(batch + 16, 1) < 2 || size < 27)
        return true;
    return !__builtin_add_overflow(*last_offset, number(batch + 23, 4), last_offset);
}

typedef struct plain_scan {
    sgs_scan_stop stop;
    int64_t valid_bytes, next_offset, batches_count, last_epoch;
} plain_scan;

/* The stop that the bytes at `at` cause, SGS_SCAN_COMPLETE when they begin a batch within bounds. */
static sgs_scan_stop bounds_of(const sgs_scan_options *options, const uint8_t *at, int64_t left)
{
    const bool file = options->rules == SGS_SCAN_FILE;
    if (left < (file ? 18 : 12))
        return SGS_SCAN_INCOMPLETE;
    const int64_t length = number(at + 8, 4);
    if (length < 14 || length > options->max_batch_bytes)
        return SGS_SCAN_CORRUPT;
    if (left < 17 || (file && left < 12 + length))
        return SGS_SCAN_INCOMPLETE;
    const int64_t magic = number(at + 16, 1);
    const bool any_magic = file && options->kafka_limits;
    if (!any_magic && magic != 0 && magic != 1 && magic != 2)
        return SGS_SCAN_CORRUPT;
    if (left < 12 + length)
        return SGS_SCAN_INCOMPLETE;
    return magic >= 2 && length < 49 && !options->kafka_limits ? SGS_SCAN_CORRUPT : SGS_SCAN_COMPLETE;
}

static bool follows(const sgs_scan_options *options, const plain_scan *scan, const uint8_t *at, int64_t size)
{
    const int64_t base_offset = number(at, 8);
    const int64_t epoch = number(at + 16, 1) >= 2 && size >= 61 ? number(at + 12, 4) : -1;
    int64_t last_offset, relative_offset;
    const bool fits = last_offset_of(at, size, &last_offset);
    if (options->check_order &&
        (!fits || base_offset < scan->next_offset || (options->contiguous && base_offset != scan->next_offset) ||
         last_offset < base_offset || last_offset >= options->next_segment_base_offset ||
         __builtin_sub_overflow(last_offset, options->segment_base_offset, &relative_offset) || relative_offset < 0 ||
         relative_offset > INT32_MAX))
        return false;
    return !options->check_epochs || epoch < 0 || epoch >= scan->last_epoch;
}

static plain_scan scan_plainly(const sgs_scan_options *options, const uint8_t *data, int64_t size)
{
    plain_scan scan = { .next_offset = options->expected_offset, .last_epoch = options->previous_epoch };
    while (scan.valid_bytes < size) {
        const uint8_t *const at = data + scan.valid_bytes;
        if (scan.batches_count == options->max_batches) {
            scan.stop = SGS_SCAN_LIMIT;
            return scan;
        }
        scan.stop = bounds_of(options, at, size - scan.valid_bytes);
        if (scan.stop != SGS_SCAN_COMPLETE)
            return scan;
        const int64_t batch_size = 12 + number(at + 8, 4);
        scan.stop = SGS_SCAN_CORRUPT;
        if (options->check_crc && !crc_is_right(at, batch_size))
            return scan;
        if (number(at, 8) < 0 && !options->kafka_limits)
            return scan;
        scan.stop = SGS_SCAN_ORDER;
        if (!follows(options, &scan, at, batch_size))
            return scan;
        int64_t last_offset;
        if (!last_offset_of(at, batch_size, &last_offset)) /* saturated */
            scan.next_offset = number(at + 23, 4) < 0 ? INT64_MIN + 1 : INT64_MAX;
        else
            scan.next_offset = last_offset == INT64_MAX ? INT64_MAX : last_offset + 1;
        if (number(at + 16, 1) >= 2 && batch_size >= 61 && number(at + 12, 4) >= 0)
            scan.last_epoch = number(at + 12, 4);
        scan.valid_bytes += batch_size;
        ++scan.batches_count;
    }
    scan.stop = SGS_SCAN_COMPLETE;
    return scan;
}

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

    const plain_scan plain = scan_plainly(&options, run, (int64_t)input.size);
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
        FUZZ_CHECK(rows[i].position == position && rows[i].size_bytes == 12 + number(batch + 8, 4));
        FUZZ_CHECK(rows[i].base_offset == number(batch, 8) && rows[i].magic == number(batch + 16, 1));
        if (rows[i].magic >= 2 && rows[i].size_bytes >= 61) {
            FUZZ_CHECK(rows[i].max_timestamp == number(batch + 35, 8) && rows[i].producer_id == number(batch + 43, 8));
            FUZZ_CHECK(rows[i].attributes == number(batch + 21, 2) && rows[i].records_count == number(batch + 57, 4));
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
    size = LLVMFuzzerMutate(data, size, max_size);
    if (seed % 4 != 0 && size > PARAMETERS_BYTES)
        fuzz_mend_run(data + PARAMETERS_BYTES, size - PARAMETERS_BYTES);
    return size;
}
