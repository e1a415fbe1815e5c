/* validate_rules.c - the rules of batches and timestamps, and the list of wrong records. */
#include "record/validate_rules.h"

#include <inttypes.h>

#include "base/bytes.h"

enum { LAST_OFFSET_DELTA_AT = 23 };

sgs_status sgs_append_header_load(const sgs_append_request *request, size_t index, sgs_batch_header *header,
                                  sgs_error *err)
{
    /* what was compared must be what is used: no second read */
    const int64_t position = *(const volatile int64_t *)&request->rows[index].position;
    if (position < 0 || (uint64_t)position > request->size)
        return sgs_fail(err, SGS_ILLEGAL_ARGUMENT, "batch %zu: position %" PRId64 " in %zu bytes", index, position,
                        request->size);
    const size_t size = request->size - (size_t)position;
    if (request->header == NULL)
        return sgs_batch_header_load(request->data + position, size, position, header, err);
    SGS_TRY(sgs_batch_header_peek(request->header, SGS_BATCH_HEADER_BYTES, position, header, err));
    SGS_ASSERT(header->size_bytes >= SGS_BATCH_HEADER_BYTES && (size_t)header->size_bytes <= size, err);
    return SGS_OK;
}

sgs_status sgs_append_batch_load(const sgs_append_request *request, size_t index, sgs_append_batch *batch,
                                 sgs_error *err)
{
    *batch = (sgs_append_batch){ .validator = request->validator, .index = index };
    request->validator->result.failed_batch = index; /* should it be */
    SGS_TRY(sgs_append_header_load(request, index, &batch->header, err));
    batch->data = request->data + batch->header.position;
    batch->stamped = request->header != NULL ? request->header : request->data + batch->header.position;
    if (batch->header.magic < 0 || batch->header.magic > 2)
        return sgs_fail(err, SGS_UNSUPPORTED_FORMAT, "batch %zu: magic %d, expected 0 to 2", index,
                        batch->header.magic);
    /* from the bytes: the row's last offset saturates */
    if (batch->header.magic == 2)
        batch->last_offset_delta = sgs_load_be_i32(batch->data + LAST_OFFSET_DELTA_AT);
    return SGS_OK;
}

/* what must fill its range of offsets: a client's batch, and any that is to be read back here */
static sgs_status check_offsets(const sgs_append_batch *batch, sgs_error *err)
{
    const sgs_batch_header *const header = &batch->header;
    sgs_status status = SGS_OK;
    if (batch->last_offset_delta < 0)
        status = sgs_fail(err, SGS_INVALID_RECORD, "batch %zu: a last offset delta of %" PRId32, batch->index,
                          batch->last_offset_delta);
    else if (header->records_count <= 0)
        status = sgs_fail(err, SGS_INVALID_RECORD, "batch %zu: a records count of %" PRId32, batch->index,
                          header->records_count);
    else if (batch->last_offset_delta != header->records_count - 1)
        status =
            sgs_fail(err, SGS_INVALID_RECORD, "batch %zu: %" PRId32 " records, but a last offset delta of %" PRId32,
                     batch->index, header->records_count, batch->last_offset_delta);
    if (status != SGS_OK)
        ++batch->validator->result.metrics.invalid_offset;
    return status;
}

static sgs_status check_client(const sgs_append_batch *batch, sgs_error *err)
{
    const sgs_batch_header *const header = &batch->header;
    sgs_validator_metrics *const metrics = &batch->validator->result.metrics;
    if (sgs_batch_is_control(header)) {
        ++metrics->invalid_offset;
        return sgs_fail(err, SGS_INVALID_RECORD, "batch %zu: clients write no control records", batch->index);
    }
    if (sgs_batch_has_producer(header) && header->base_sequence < 0) {
        ++metrics->invalid_sequence;
        return sgs_fail(err, SGS_INVALID_RECORD, "batch %zu: producer id %" PRId64 " with a base sequence of %" PRId32,
                        batch->index, header->producer_id, header->base_sequence);
    }
    return SGS_OK;
}

sgs_status sgs_append_batch_check(const sgs_append_batch *batch, int8_t first_magic, sgs_error *err)
{
    const sgs_validation_options *const options = &batch->validator->options;
    const sgs_batch_header *const header = &batch->header;
    const bool is_client = options->origin == SGS_ORIGIN_CLIENT;
    if (header->magic != first_magic) {
        ++batch->validator->result.metrics.invalid_magic;
        return sgs_fail(err, SGS_INVALID_RECORD, "batch %zu: magic %d, that of the first batch is %d", batch->index,
                        header->magic, first_magic);
    }
    sgs_status status = SGS_OK;
    if (header->magic >= 2 && (is_client || !options->kafka_limits))
        status = check_offsets(batch, err);
    if (status == SGS_OK && is_client)
        status = check_client(batch, err);
    if (status != SGS_OK || options->target_magic >= 2 || header->magic < 2)
        return status;
    if ((header->attributes & SGS_ATTRIBUTE_TRANSACTIONAL) != 0)
        return sgs_fail(err, SGS_UNSUPPORTED_FORMAT, "batch %zu: transactional records have no form in magic %d",
                        batch->index, options->target_magic);
    if (sgs_batch_has_producer(header))
        return sgs_fail(err, SGS_UNSUPPORTED_FORMAT, "batch %zu: idempotent records have no form in magic %d",
                        batch->index, options->target_magic);
    return SGS_OK;
}

bool sgs_append_timestamp_is_in_range(const sgs_validation_options *options, int64_t timestamp)
{
    const int64_t age = (int64_t)((uint64_t)options->now_ms - (uint64_t)timestamp);
    const int64_t lead = (int64_t)((uint64_t)timestamp - (uint64_t)options->now_ms);
    return age <= options->timestamp_before_max_ms && lead <= options->timestamp_after_max_ms;
}

bool sgs_append_header_suffices(const sgs_validation_options *options, const sgs_batch_header *header)
{
    const int64_t timestamp = header->max_timestamp;
    if (options->records_are_checked)
        return true;
    if (!options->records_are_trusted || options->keys_required)
        return false;
    if (options->log_append_time || timestamp == SGS_NO_TIMESTAMP)
        return (header->attributes & SGS_ATTRIBUTE_LOG_APPEND_TIME) == 0;
    return options->timestamp_before_max_ms == INT64_MAX && sgs_append_timestamp_is_in_range(options, timestamp);
}

sgs_status sgs_append_note(const sgs_append_batch *batch, int64_t index, sgs_record_fault_kind kind, int64_t value,
                           sgs_error *err)
{
    sgs_log_validator *const validator = batch->validator;
    if (kind == SGS_RECORD_TIMESTAMP_OUT_OF_RANGE || kind == SGS_RECORD_TIMESTAMP_TYPE)
        validator->result.has_invalid_timestamp = true;
    else if (kind == SGS_RECORD_HAS_OTHER_MAGIC)
        ++validator->result.metrics.invalid_magic;
    else if (kind == SGS_RECORD_HAS_NO_KEY)
        ++validator->result.metrics.no_key_compacted_topic;
    if (validator->result.record_errors_count++ >= SGS_RECORD_ERRORS_MAX)
        return SGS_OK;
    const sgs_record_error record_error = { .record_index = (int32_t)index, .kind = kind, .value = value };
    return sgs_buffer_append(&validator->record_errors, &record_error, sizeof record_error, err);
}

sgs_status sgs_append_judge(const sgs_append_batch *batch, sgs_error *err)
{
    const sgs_log_validator *const validator = batch->validator;
    if (validator->result.record_errors_count == 0)
        return SGS_OK;
    return sgs_record_error_describe(validator, sgs_log_validator_errors(validator), err);
}
