/* validate_in_place.c - offsets, epoch and timestamps into batches that stay as they are [format.md 4.6, 12.5]. */
#include <inttypes.h>

#include "base/bytes.h"
#include "record/log_validator.h"
#include "record/validate_rules.h"

/* Base offset and epoch lie outside the CRC [APP-34]; the largest timestamp does not. */
static sgs_status edit(const sgs_append_batch *batch, int64_t last_offset, int64_t max_timestamp, sgs_error *err)
{
    const sgs_validation_options *const options = &batch->validator->options;
    const size_t size = (size_t)batch->header.size_bytes;
    if (batch->header.magic >= 2) {
        sgs_batch_set_last_offset(batch->stamped, last_offset);
        sgs_batch_set_leader_epoch(batch->stamped, options->partition_leader_epoch);
        sgs_batch_set_max_timestamp_apart(batch->stamped, batch->data + SGS_BATCH_HEADER_BYTES,
                                          size - SGS_BATCH_HEADER_BYTES, options->log_append_time, max_timestamp);
        return SGS_OK;
    }
    sgs_store_be_i64(batch->stamped, last_offset);
    if (batch->header.magic == 0)
        return SGS_OK; /* has no timestamp */
    return sgs_legacy_message_set_timestamp(batch->stamped, size, options->log_append_time, max_timestamp, err);
}

sgs_status sgs_append_stamp(const sgs_append_batch *batch, int64_t records_count, int64_t max_timestamp, sgs_error *err)
{
    sgs_validation *const result = &batch->validator->result;
    int64_t next_offset;
    if (__builtin_add_overflow(result->next_offset, records_count, &next_offset))
        return sgs_fail(err, SGS_ILLEGAL_ARGUMENT, "batch %zu: no offsets are left after %" PRId64, batch->index,
                        result->next_offset);
    if (batch->header.magic == 0)
        max_timestamp = SGS_NO_TIMESTAMP;
    else if (batch->validator->options.log_append_time)
        max_timestamp = batch->validator->options.now_ms;
    const sgs_status status = edit(batch, next_offset - 1, max_timestamp, err);
    if (status != SGS_OK)
        return status;
    result->next_offset = next_offset;
    result->records_count += records_count;
    if (max_timestamp > result->max_timestamp)
        result->max_timestamp = max_timestamp;
    return SGS_OK;
}

static sgs_status assign(const sgs_append_batch *batch, sgs_error *err)
{
    if (sgs_append_header_suffices(&batch->validator->options, &batch->header))
        return sgs_append_stamp(batch, batch->header.records_count, batch->header.max_timestamp, err);
    const bool asks_for_order = batch->header.magic >= 2 && !batch->validator->options.kafka_limits;
    sgs_append_walk walk = { .offset_rule = asks_for_order ? SGS_OFFSETS_FILL_BATCH : SGS_OFFSETS_AS_THEY_ARE };
    sgs_append_section section;
    sgs_status status = sgs_append_section_open(batch, &section, err);
    if (status == SGS_OK)
        status = sgs_append_batch_walk(batch, section, &walk, err);
    if (status == SGS_OK && walk.bad_offset_index >= 0) {
        /* Kafka takes any order, but a reader could not tell such records apart [DUR-89] */
        status = sgs_append_note(batch, walk.bad_offset_index, SGS_RECORD_OFFSET, walk.bad_offset, err);
        if (status == SGS_OK)
            status = sgs_append_judge(batch, err);
    }
    return status == SGS_OK ? sgs_append_stamp(batch, walk.records_count, walk.max_timestamp, err) : status;
}

bool sgs_assign_offsets_by_header(const sgs_log_validator *validator, int64_t next_offset, uint8_t *data,
                                  sgs_batch_header *row)
{
    const sgs_validation_options *const options = &validator->options;
    int64_t end;
    if (row->magic != 2 || options->target_magic != 2 || sgs_batch_codec(row) != SGS_CODEC_NONE ||
        options->target_codec > SGS_CODEC_NONE || options->log_append_time ||
        !sgs_append_header_suffices(options, row) || __builtin_add_overflow(next_offset, row->records_count, &end))
        return false;
    row->base_offset = next_offset;
    row->last_offset = end - 1;
    row->partition_leader_epoch = options->partition_leader_epoch;
    sgs_batch_set_last_offset(data, row->last_offset);
    sgs_batch_set_leader_epoch(data, row->partition_leader_epoch);
    return true;
}

sgs_status sgs_append_in_place(const sgs_append_request *request, sgs_error *err)
{
    for (size_t index = request->first; index < request->first + request->count; ++index) {
        sgs_append_batch batch;
        sgs_status status = sgs_append_batch_load(request, index, &batch, err);
        if (status == SGS_OK)
            status = sgs_append_batch_check(&batch, request->magic, err);
        if (status == SGS_OK)
            status = assign(&batch, err);
        if (status != SGS_OK)
            return status;
    }
    return SGS_OK;
}
