/* kafka_recovery.c - a segment's recovery in Kafka's own steps, for recovery="kafka" [SEG-40..SEG-43, DUR-62].
 *
 * Nothing is computed ahead: both indexes are emptied first, and entries go into them as batches are met. A recovery that
 * fails in the middle leaves what Kafka's leaves: indexes at their full size with the entries so far, the .log as it was.
 * The caller scans the batches, and looks after leader epochs and producers between two calls. */
#include <inttypes.h>

#include "segment/log_segment_internal.h"

sgs_status sgs_log_segment_begin_recovery(sgs_log_segment *segment, sgs_error *err)
{
    const sgs_segment_context *context = segment->context;
    char name[SGS_SEGMENT_NAME_BYTES];
    sgs_status status = sgs_segment_check_writable(segment, err);
    if (status == SGS_OK)
        status = sgs_segment_load_indexes(segment, err);
    if (status != SGS_OK)
        return status;
    sgs_segment_name(segment, SGS_FILE_INDEX, name);
    status = sgs_abstract_index_reset(&segment->offset_index.base, context->env, name, context->max_index_bytes, err);
    sgs_offset_index_refresh(&segment->offset_index);
    if (status != SGS_OK)
        return status;
    sgs_segment_name(segment, SGS_FILE_TIMEINDEX, name);
    status = sgs_abstract_index_reset(&segment->time_index.base, context->env, name, context->max_index_bytes, err);
    sgs_time_index_refresh(&segment->time_index);
    SGS_EXPECT(status != SGS_OK || segment->time_index.last_entry.timestamp == -1);
    SGS_EXPECT(status != SGS_OK || segment->offset_index.last_offset == segment->base_offset);
    sgs_segment_set_max_timestamp(segment, (sgs_timestamp_offset){ .timestamp = -1, .offset = segment->base_offset });
    return status;
}

static sgs_status index_batch(sgs_log_segment *segment, const sgs_batch_header *row, sgs_error *err)
{
    const sgs_env *env = segment->context->env;
    const sgs_timestamp_offset largest = segment->max_timestamp;
    char name[SGS_SEGMENT_NAME_BYTES];
    SGS_EXPECT(row->position >= 0 && row->position < sgs_log_segment_size(segment));
    sgs_segment_name(segment, SGS_FILE_INDEX, name);
    const sgs_status status =
        sgs_offset_index_append(&segment->offset_index, env, name, row->last_offset, (int32_t)row->position, err);
    if (status != SGS_OK)
        return status;
    sgs_segment_name(segment, SGS_FILE_TIMEINDEX, name);
    return sgs_time_index_maybe_append(&segment->time_index, env, name, largest.timestamp, largest.offset, false, err);
}

static sgs_status take_batch(sgs_log_segment *segment, const sgs_batch_header *row, int64_t *last_indexed_position,
                             sgs_error *err)
{
    int32_t relative_offset;
    if (row->last_offset > SGS_MAX_OFFSET) { /* a broker's log end would be -2^63, and its next step to delete all */
        sgs_fail_at(err, SGS_CORRUPT_LOG, row->position, "a last offset below 2^63-1", "%" PRId64, row->last_offset);
        return sgs_segment_fail_in_log(segment, err);
    }
    if (!sgs_relative_offset(segment->base_offset, row->last_offset, &relative_offset)) {
        sgs_fail_at(err, SGS_SEGMENT_OFFSET_OVERFLOW, row->position, "an offset within 2^31 - 1 of the base offset",
                    "%" PRId64 " at base %" PRId64, row->last_offset, segment->base_offset);
        return sgs_segment_fail_in_log(segment, err);
    }
    if (row->max_timestamp > segment->max_timestamp.timestamp)
        sgs_segment_set_max_timestamp(
            segment, (sgs_timestamp_offset){ .timestamp = row->max_timestamp, .offset = row->last_offset });
    SGS_EXPECT(row->position >= *last_indexed_position);
    if (row->position - *last_indexed_position <= (int64_t)segment->context->index_interval_bytes)
        return SGS_OK;
    const sgs_status status = index_batch(segment, row, err);
    if (status == SGS_OK)
        *last_indexed_position = row->position;
    return status;
}

sgs_status sgs_log_segment_recover_batches(sgs_log_segment *segment, const sgs_batch_header *rows, size_t rows_count,
                                           int64_t *last_indexed_position, size_t *taken, sgs_error *err)
{
    sgs_status status = SGS_OK;
    for (*taken = 0; *taken < rows_count; ++*taken) {
        status = take_batch(segment, &rows[*taken], last_indexed_position, err);
        if (status != SGS_OK)
            break;
    }
    return status;
}

sgs_status sgs_log_segment_end_recovery(sgs_log_segment *segment, int32_t valid_bytes, int32_t *truncated_bytes,
                                        sgs_error *err)
{
    const sgs_env *env = segment->context->env;
    const int32_t size = sgs_log_segment_size(segment);
    char name[SGS_SEGMENT_NAME_BYTES];
    sgs_status status = sgs_segment_check_writable(segment, err);
    if (status == SGS_OK && (valid_bytes < 0 || valid_bytes > size)) {
        sgs_fail(err, SGS_ILLEGAL_ARGUMENT, "position %" PRId32 " is not inside %" PRId32 " bytes", valid_bytes, size);
        status = sgs_segment_fail_in_log(segment, err);
    }
    if (status == SGS_OK && valid_bytes < size)
        status = sgs_segment_cut_tail(segment, valid_bytes, err);
    if (status != SGS_OK)
        return status;
    SGS_EXPECT(sgs_log_segment_size(segment) == valid_bytes);
    *truncated_bytes = size - valid_bytes;
    sgs_segment_name(segment, SGS_FILE_INDEX, name);
    status = sgs_abstract_index_trim(&segment->offset_index.base, env, name, err);
    if (status != SGS_OK)
        return status;
    sgs_segment_name(segment, SGS_FILE_TIMEINDEX, name);
    const sgs_timestamp_offset largest = segment->max_timestamp;
    status = sgs_time_index_maybe_append(&segment->time_index, env, name, largest.timestamp, largest.offset, true, err);
    return status == SGS_OK ? sgs_abstract_index_trim(&segment->time_index.base, env, name, err) : status;
}
