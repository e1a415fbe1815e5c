/* plain_segment.c - see plain_segment.h. */
#include "fuzz/plain_segment.h"

#include "base/bytes.h"
#include "record/record_section.h"

bool plain_segment_ascends(const plain_segment *plain)
{
    int64_t expected = plain->base_offset;
    for (int64_t i = 0; i < plain->count; ++i) {
        const plain_batch *const batch = &plain->batches[i];
        if (batch->base_offset < expected || batch->last_offset < batch->base_offset || batch->last_offset == INT64_MAX)
            return false;
        expected = batch->last_offset + 1;
    }
    return true;
}

const plain_batch *plain_segment_find(const plain_segment *plain, int64_t offset)
{
    for (int64_t i = 0; i < plain->count; ++i)
        if (plain->batches[i].last_offset >= offset)
            return &plain->batches[i];
    return NULL;
}

int64_t plain_segment_next_offset(const plain_segment *plain)
{
    return plain->count == 0 ? plain->base_offset : plain->batches[plain->count - 1].last_offset + 1;
}

sgs_timestamp_offset plain_segment_max_timestamp(const plain_segment *plain)
{
    sgs_timestamp_offset largest = { .timestamp = -1, .offset = plain->base_offset };
    for (int64_t i = 0; i < plain->count; ++i)
        if (plain->batches[i].max_timestamp > largest.timestamp)
            largest = (sgs_timestamp_offset){ plain->batches[i].max_timestamp, plain->batches[i].last_offset };
    return largest;
}

/* The first record of one batch that fits. */
static sgs_status search(const plain_segment *plain, const sgs_segment_context *context, const plain_batch *batch,
                         int64_t timestamp, int64_t starting_offset, sgs_found_timestamp *out)
{
    sgs_buffer scratch;
    sgs_record_reader reader;
    sgs_error err;
    sgs_buffer_init(&scratch, sgs_env_memory(context->env));
    sgs_status status = sgs_record_section_open(plain->log + batch->position, (size_t)batch->size,
                                                !context->kafka_profile, context->codecs, &scratch, &reader, &err);
    for (bool more = true; status == SGS_OK && more;) {
        sgs_record record;
        status = sgs_record_reader_next(&reader, &record, &more, &err);
        if (status == SGS_OK && more && record.timestamp >= timestamp && record.offset >= starting_offset) {
            *out = (sgs_found_timestamp){ true, record.timestamp, record.offset, (int32_t)batch->epoch };
            break;
        }
    }
    sgs_buffer_deinit(&scratch);
    return status;
}

sgs_status plain_segment_find_timestamp(const plain_segment *plain, const sgs_segment_context *context,
                                        int64_t timestamp, int64_t starting_offset, sgs_found_timestamp *out)
{
    sgs_status status = SGS_OK;
    *out = (sgs_found_timestamp){ .found = false };
    for (int64_t i = 0; i < plain->count && status == SGS_OK && !out->found; ++i) {
        const plain_batch *const batch = &plain->batches[i];
        if (batch->max_timestamp >= timestamp && batch->last_offset >= starting_offset)
            status = search(plain, context, batch, timestamp, starting_offset, out);
    }
    return status;
}

sgs_status plain_segment_find_max_timestamp(const plain_segment *plain, const sgs_segment_context *context,
                                            sgs_found_timestamp *out)
{
    const int64_t largest = plain_segment_max_timestamp(plain).timestamp;
    *out = (sgs_found_timestamp){ .found = false };
    for (int64_t i = 0; i < plain->count; ++i)
        if (plain->batches[i].max_timestamp == largest)
            return plain->batches[i].magic < 1
                       ? SGS_OK
                       : search(plain, context, &plain->batches[i], largest, plain->base_offset, out);
    return SGS_OK;
}

static void add_time_entry(plain_indexes *indexes, sgs_timestamp_offset entry, int64_t base_offset)
{
    uint8_t *const at = indexes->time_entries + indexes->time_bytes;
    sgs_store_be_i64(at, entry.timestamp);
    sgs_store_be_i32(at + 8, (int32_t)(entry.offset - base_offset));
    indexes->time_bytes += SGS_TIME_INDEX_ENTRY_BYTES;
}

sgs_status plain_segment_indexes(const plain_segment *plain, const sgs_segment_context *context, plain_indexes *indexes)
{
    const size_t offsets_max = context->max_index_bytes / SGS_OFFSET_INDEX_ENTRY_BYTES;
    const size_t times_max = context->max_index_bytes / SGS_TIME_INDEX_ENTRY_BYTES;
    sgs_timestamp_offset largest = { .timestamp = -1, .offset = plain->base_offset };
    int64_t indexed_position = 0, indexed_offset = INT64_MIN, indexed_timestamp = -1;
    indexes->offset_bytes = indexes->time_bytes = 0;
    for (int64_t i = 0; i < plain->count; ++i) {
        const plain_batch *const batch = &plain->batches[i];
        if (batch->last_offset < plain->base_offset || batch->last_offset - plain->base_offset > INT32_MAX)
            return SGS_SEGMENT_OFFSET_OVERFLOW;
        if (batch->max_timestamp > largest.timestamp)
            largest = (sgs_timestamp_offset){ batch->max_timestamp, batch->last_offset };
        const bool is_full = indexes->offset_bytes / SGS_OFFSET_INDEX_ENTRY_BYTES >= offsets_max ||
                             indexes->time_bytes / SGS_TIME_INDEX_ENTRY_BYTES + 1 >= times_max;
        if (batch->position - indexed_position <= context->index_interval_bytes || is_full)
            continue;
        if (batch->last_offset <= indexed_offset)
            return SGS_INVALID_OFFSET;
        uint8_t *const at = indexes->offset_entries + indexes->offset_bytes;
        sgs_store_be_i32(at, (int32_t)(batch->last_offset - plain->base_offset));
        sgs_store_be_i32(at + 4, (int32_t)batch->position);
        indexes->offset_bytes += SGS_OFFSET_INDEX_ENTRY_BYTES;
        indexed_position = batch->position;
        indexed_offset = batch->last_offset;
        if (largest.timestamp > indexed_timestamp) {
            add_time_entry(indexes, largest, plain->base_offset);
            indexed_timestamp = largest.timestamp;
        }
    }
    if (largest.timestamp > indexed_timestamp)
        add_time_entry(indexes, largest, plain->base_offset);
    return SGS_OK;
}
