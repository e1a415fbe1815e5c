/* plain_scan.c - see plain_scan.h. */
#include "fuzz/plain_scan.h"

#include "base/crc32.h"
#include "base/crc32c.h"

int64_t plain_number(const uint8_t *at, int width)
{
    uint64_t value = (at[0] & 0x80) != 0 ? UINT64_MAX : 0;
    for (int i = 0; i < width; ++i)
        value = value << 8 | at[i];
    return (int64_t)value;
}

bool plain_crc_is_right(const uint8_t *batch, int64_t size)
{
    if (plain_number(batch + 16, 1) >= 2)
        return size >= 61 &&
               (uint32_t)plain_number(batch + 17, 4) == sgs_crc32c_portable(0, batch + 21, (size_t)size - 21);
    return size >= 26 && (uint32_t)plain_number(batch + 12, 4) == sgs_crc32(0, batch + 16, (size_t)size - 16);
}

/* The last offset, where it fits: the oracle knows no saturation. @return false when it does not */
static bool last_offset_of(const uint8_t *batch, int64_t size, int64_t *last_offset)
{
    *last_offset = plain_number(batch, 8);
    if (plain_number(batch + 16, 1) < 2 || size < 27)
        return true;
    return !__builtin_add_overflow(*last_offset, plain_number(batch + 23, 4), last_offset);
}

/* The stop that the bytes at `at` cause, SGS_SCAN_COMPLETE when they begin a batch within bounds. */
static sgs_scan_stop bounds_of(const sgs_scan_options *options, const uint8_t *at, int64_t left)
{
    const bool file = options->rules == SGS_SCAN_FILE;
    if (left < (file ? 18 : 12))
        return SGS_SCAN_INCOMPLETE;
    const int64_t length = plain_number(at + 8, 4);
    if (length < 14 || length > options->max_batch_bytes)
        return SGS_SCAN_CORRUPT;
    if (left < 17 || (file && left < 12 + length))
        return SGS_SCAN_INCOMPLETE;
    const int64_t magic = plain_number(at + 16, 1);
    const bool any_magic = file && options->kafka_limits;
    if (!any_magic && magic != 0 && magic != 1 && magic != 2)
        return SGS_SCAN_CORRUPT;
    if (left < 12 + length)
        return SGS_SCAN_INCOMPLETE;
    return magic >= 2 && length < 49 && !options->kafka_limits ? SGS_SCAN_CORRUPT : SGS_SCAN_COMPLETE;
}

static bool follows(const sgs_scan_options *options, const plain_scan *scan, const uint8_t *at, int64_t size)
{
    const int64_t base_offset = plain_number(at, 8);
    const int64_t epoch = plain_number(at + 16, 1) >= 2 && size >= 61 ? plain_number(at + 12, 4) : -1;
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

static plain_batch describe(const uint8_t *at, int64_t position, int64_t size)
{
    const int64_t magic = plain_number(at + 16, 1);
    const bool is_v2 = magic >= 2 && size >= 61;
    plain_batch batch = {
        .position = position,
        .size = size,
        .base_offset = plain_number(at, 8),
        .max_timestamp = is_v2        ? plain_number(at + 35, 8)
                         : magic == 1 ? plain_number(at + 18, 8)
                                      : -1,
        .epoch = is_v2 ? plain_number(at + 12, 4) : -1,
        .magic = (int8_t)magic,
    };
    if (!last_offset_of(at, size, &batch.last_offset))
        batch.last_offset = plain_number(at + 23, 4) < 0 ? INT64_MIN : INT64_MAX;
    return batch;
}

plain_scan plain_scan_run(const sgs_scan_options *options, const uint8_t *data, int64_t size, plain_batch *batches,
                          int64_t room)
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
        const plain_batch batch = describe(at, scan.valid_bytes, 12 + plain_number(at + 8, 4));
        scan.stop = SGS_SCAN_CORRUPT;
        if (options->check_crc && !plain_crc_is_right(at, batch.size))
            return scan;
        if (batch.base_offset < 0 && !options->kafka_limits)
            return scan;
        scan.stop = SGS_SCAN_ORDER;
        if (!follows(options, &scan, at, batch.size))
            return scan;
        scan.next_offset = batch.last_offset == INT64_MAX ? INT64_MAX : batch.last_offset + 1;
        if (batch.magic < 2)
            scan.last_epoch = -1;
        else if (batch.epoch >= 0)
            scan.last_epoch = batch.epoch;
        if (batches != NULL && scan.batches_count < room)
            batches[scan.batches_count] = batch;
        scan.valid_bytes += batch.size;
        ++scan.batches_count;
    }
    scan.stop = SGS_SCAN_COMPLETE;
    return scan;
}
