/* batch_scan.c - Kafka's FileLogInputStream and ByteBufferLogInputStream, with the checks of recovery in the same
 * pass. */
#include "record/batch_scan.h"

#include <inttypes.h>

#include "base/bytes.h"

enum {
    FILE_MIN_BYTES = SGS_BATCH_PREFIX_BYTES + 1, /* Kafka's file scanner ends at 17 bytes and fewer [format.md 9.1] */
    LENGTH_AT = 8,
    MAGIC_AT = 16,
    LAST_OFFSET_DELTA_AT = 23,
    LEAST_LENGTH = SGS_LEGACY_MESSAGE_MIN_BYTES,
    LEAST_LENGTH_V2 = SGS_BATCH_HEADER_BYTES - SGS_LOG_OVERHEAD,
};

void sgs_scan_options_default(sgs_scan_options *options, sgs_scan_rules rules)
{
    *options = (sgs_scan_options){
        .rules = rules,
        .check_crc = true,
        .next_segment_base_offset = INT64_MAX,
        .previous_epoch = SGS_NO_PARTITION_LEADER_EPOCH,
        .max_batch_bytes = INT32_MAX,
        .max_batches = UINT32_MAX,
    };
}

void sgs_batch_table_init(sgs_batch_table *table, sgs_memory memory) { sgs_buffer_init(&table->rows, memory); }
void sgs_batch_table_deinit(sgs_batch_table *table) { sgs_buffer_deinit(&table->rows); }

void sgs_batch_scan_start(sgs_batch_scan *scan, const sgs_scan_options *options, int64_t start_position)
{
    /* Field by field: the texts of an error are 700 bytes, and a decoder starts a scan for each batch. */
    sgs_scan_result *const result = &scan->result;
    scan->options = *options;
    scan->over = false;
    result->stop = SGS_SCAN_COMPLETE;
    result->valid_bytes = start_position;
    result->next_offset = options->expected_offset;
    result->max_timestamp = SGS_NO_TIMESTAMP;
    result->offset_of_max_timestamp = -1;
    result->last_epoch = options->previous_epoch;
    result->batches_count = 0;
    result->why.status = SGS_OK; /* then nothing else of it has a meaning */
}

/* What the bytes at the scan's position are. */
typedef enum verdict { BATCH, NEED_MORE, STOPPED } verdict;

static verdict stop(sgs_batch_scan *scan, sgs_scan_stop why)
{
    scan->result.stop = why;
    scan->over = true;
    return STOPPED;
}

#define CORRUPT_AT(scan, expected, ...)                                                                             \
    ((void)sgs_fail_at(&(scan)->result.why, SGS_CORRUPT_RECORD, (scan)->result.valid_bytes, expected, __VA_ARGS__), \
     stop(scan, SGS_SCAN_CORRUPT))

/* Bounds and magic, in the order of each of Kafka's scanners; `left` > 0 bytes remain in the run, `size` are present.
 * `*batch_size` is the whole batch on BATCH, what must be present on NEED_MORE. */
static verdict judge_bounds(sgs_batch_scan *scan, const uint8_t *data, size_t size, int64_t left, int64_t *batch_size)
{
    const sgs_scan_options *const options = &scan->options;
    const bool file_rules = options->rules == SGS_SCAN_FILE;
    if (left < (file_rules ? FILE_MIN_BYTES : SGS_LOG_OVERHEAD))
        return stop(scan, SGS_SCAN_INCOMPLETE);
    *batch_size = left < SGS_BATCH_HEADER_BYTES ? left : SGS_BATCH_HEADER_BYTES;
    if (size < (size_t)*batch_size)
        return NEED_MORE;

    const int32_t length = sgs_load_be_i32(data + LENGTH_AT);
    if (length < LEAST_LENGTH)
        return CORRUPT_AT(scan, "a batch length from 14", "%" PRId32, length);
    if (length > options->max_batch_bytes)
        return CORRUPT_AT(scan, "a batch length within the limit", "%" PRId32 " above %" PRId32, length,
                          options->max_batch_bytes);
    const bool complete = left >= (int64_t)SGS_LOG_OVERHEAD + length && length <= INT32_MAX - SGS_LOG_OVERHEAD;
    if (file_rules ? !complete : left < SGS_BATCH_PREFIX_BYTES)
        return stop(scan, SGS_SCAN_INCOMPLETE);
    const int8_t magic = (int8_t)data[MAGIC_AT];
    if ((magic < 0 || magic > 2) && !(file_rules && options->kafka_limits))
        return CORRUPT_AT(scan, "magic 0, 1 or 2", "%d", magic);
    if (!complete)
        return stop(scan, SGS_SCAN_INCOMPLETE);
    if (magic >= 2 && length < LEAST_LENGTH_V2 && !options->kafka_limits)
        return CORRUPT_AT(scan, "a batch length from 49", "%" PRId32, length);
    const int64_t whole = (int64_t)SGS_LOG_OVERHEAD + length;
    if (!options->check_crc && whole > SGS_BATCH_HEADER_BYTES) /* the rest is not looked at */
        *batch_size = SGS_BATCH_HEADER_BYTES;
    else
        *batch_size = whole;
    if (size < (size_t)*batch_size)
        return NEED_MORE;
    *batch_size = whole;
    return BATCH;
}

static bool is_short_v2(const uint8_t *batch, int64_t size)
{
    return size < SGS_BATCH_HEADER_BYTES && (int8_t)batch[MAGIC_AT] >= 2;
}

/* kafka_limits without CRC: of a batch that is shorter than its header Kafka knows the offsets, where they are inside. */
static void load_short_v2(const uint8_t *batch, int64_t size, int64_t position, sgs_batch_header *header)
{
    const int64_t base_offset = sgs_load_be_i64(batch);
    const int64_t delta = size < LAST_OFFSET_DELTA_AT + 4 ? 0 : sgs_load_be_i32(batch + LAST_OFFSET_DELTA_AT);
    int64_t last_offset;
    if (__builtin_add_overflow(base_offset, delta, &last_offset)) /* saturates, as in every row */
        last_offset = delta < 0 ? INT64_MIN : INT64_MAX;
    *header = (sgs_batch_header){
        .position = position,
        .base_offset = base_offset,
        .last_offset = last_offset,
        .base_timestamp = SGS_NO_TIMESTAMP,
        .max_timestamp = SGS_NO_TIMESTAMP,
        .producer_id = SGS_NO_PRODUCER_ID,
        .size_bytes = (int32_t)size,
        .partition_leader_epoch = SGS_NO_PARTITION_LEADER_EPOCH,
        .base_sequence = SGS_NO_SEQUENCE,
        .producer_epoch = SGS_NO_PRODUCER_EPOCH,
        .magic = (int8_t)batch[MAGIC_AT],
    };
}

/* CRC and header of a batch within bounds. */
static verdict judge_content(sgs_batch_scan *scan, const uint8_t *batch, int64_t size, sgs_batch_header *header)
{
    const int64_t position = scan->result.valid_bytes;
    if (scan->options.check_crc && sgs_batch_check(batch, (size_t)size, position, &scan->result.why) != SGS_OK)
        return stop(scan, SGS_SCAN_CORRUPT);
    if (is_short_v2(batch, size)) {
        load_short_v2(batch, size, position, header);
    } else if (sgs_batch_header_load(batch, (size_t)size, position, header, &scan->result.why) != SGS_OK) {
        return stop(scan, SGS_SCAN_CORRUPT);
    }
    if (header->base_offset < 0 && !scan->options.kafka_limits)
        return CORRUPT_AT(scan, "a base offset from 0", "%" PRId64, header->base_offset);
    return BATCH;
}

/* [DUR-50] */
static verdict judge_order(sgs_batch_scan *scan, const sgs_batch_header *header)
{
    const sgs_scan_options *const options = &scan->options;
    const sgs_scan_result *const result = &scan->result;
    sgs_status fault = SGS_OK;
    if (options->check_order) {
        const int64_t segment_base = options->segment_base_offset;
        int64_t relative_offset;
        if (header->base_offset < result->next_offset ||
            (options->contiguous && header->base_offset != result->next_offset))
            fault = sgs_fail_at(&scan->result.why, SGS_INVALID_OFFSET, header->position,
                                options->contiguous ? "the next base offset" : "a base offset not below the next",
                                "%" PRId64 " where %" PRId64 " is next", header->base_offset, result->next_offset);
        else if (header->last_offset < header->base_offset)
            fault = sgs_fail_at(&scan->result.why, SGS_INVALID_OFFSET, header->position,
                                "a last offset not below the base offset", "%" PRId64 " below %" PRId64,
                                header->last_offset, header->base_offset);
        else if (header->last_offset > SGS_MAX_OFFSET)
            fault = sgs_fail_at(&scan->result.why, SGS_INVALID_OFFSET, header->position, "a last offset below 2^63-1",
                                "%" PRId64, header->last_offset);
        else if (header->last_offset >= options->next_segment_base_offset)
            fault =
                sgs_fail_at(&scan->result.why, SGS_INVALID_OFFSET, header->position,
                            "a last offset below the next segment", "last offset %" PRId64 ", next segment at %" PRId64,
                            header->last_offset, options->next_segment_base_offset);
        else if (__builtin_sub_overflow(header->last_offset, segment_base, &relative_offset) || relative_offset < 0 ||
                 relative_offset > INT32_MAX)
            fault = sgs_fail_at(&scan->result.why, SGS_SEGMENT_OFFSET_OVERFLOW, header->position,
                                "a last offset within 2^31-1 of the segment's base", "%" PRId64 " at base %" PRId64,
                                header->last_offset, segment_base);
    }
    if (fault == SGS_OK && options->check_epochs && header->partition_leader_epoch >= 0 &&
        header->partition_leader_epoch < result->last_epoch)
        fault = sgs_fail_at(&scan->result.why, SGS_INVALID_RECORD, header->position,
                            "a leader epoch not below the one before", "%" PRId32 " after %" PRId32,
                            header->partition_leader_epoch, result->last_epoch);
    return fault == SGS_OK ? BATCH : stop(scan, SGS_SCAN_ORDER);
}

static void note(sgs_scan_result *result, const sgs_batch_header *header)
{
    result->valid_bytes += header->size_bytes;
    result->next_offset = header->last_offset < INT64_MAX ? header->last_offset + 1 : INT64_MAX;
    if (header->max_timestamp > result->max_timestamp) {
        result->max_timestamp = header->max_timestamp;
        result->offset_of_max_timestamp = header->last_offset;
    }
    if (header->magic < 2) /* has ended all epochs before it [APP-10]: what comes behind may begin anew */
        result->last_epoch = -1;
    else if (header->partition_leader_epoch >= 0)
        result->last_epoch = header->partition_leader_epoch;
    ++result->batches_count;
}

sgs_status sgs_batch_scan_feed(sgs_batch_scan *scan, const uint8_t *data, size_t size, int64_t end_position,
                               sgs_batch_table *table, size_t *needed, sgs_error *err)
{
    sgs_scan_result *const result = &scan->result;
    *needed = 0;
    while (!scan->over) {
        const int64_t left = end_position - result->valid_bytes;
        if (left <= 0) {
            stop(scan, SGS_SCAN_COMPLETE);
            break;
        }
        if (result->batches_count >= scan->options.max_batches) {
            stop(scan, SGS_SCAN_LIMIT);
            break;
        }
        int64_t batch_size;
        verdict seen = judge_bounds(scan, data, size, left, &batch_size);
        if (seen == NEED_MORE) {
            *needed = (size_t)batch_size;
            break;
        }
        sgs_batch_header header;
        if (seen == BATCH)
            seen = judge_content(scan, data, batch_size, &header);
        if (seen == BATCH)
            seen = judge_order(scan, &header);
        if (seen != BATCH)
            break;
        if (table != NULL) {
            const sgs_status status = sgs_buffer_append(&table->rows, &header, sizeof header, err);
            if (status != SGS_OK)
                return status;
        }
        note(result, &header);
        /* by the row, as valid_bytes: the bytes of a caller may have changed since their bounds were judged */
        const size_t seen_bytes = (size_t)header.size_bytes < size ? (size_t)header.size_bytes : size;
        data += seen_bytes;
        size -= seen_bytes;
    }
    return SGS_OK;
}

sgs_status sgs_batch_scan_buffer(const uint8_t *data, size_t size, const sgs_scan_options *options,
                                 sgs_batch_table *table, sgs_scan_result *result, sgs_error *err)
{
    sgs_batch_scan scan;
    size_t needed;
    sgs_batch_scan_start(&scan, options, 0);
    const sgs_status status = sgs_batch_scan_feed(&scan, data, size, (int64_t)size, table, &needed, err);
    SGS_ASSERT(status != SGS_OK || needed == 0, err);
    if (status == SGS_OK)
        *result = scan.result;
    return status;
}
