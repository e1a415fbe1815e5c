/* validation.c - defaults, memory, and sentences about wrong records. */
#include "record/validation.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>

void sgs_validation_options_default(sgs_validation_options *options)
{
    *options = (sgs_validation_options){
        .timestamp_before_max_ms = INT64_MAX,
        .timestamp_after_max_ms = INT64_MAX,
        .partition_leader_epoch = SGS_NO_PARTITION_LEADER_EPOCH,
        .origin = SGS_ORIGIN_CLIENT,
        .target_codec = SGS_CODEC_OF_SOURCE,
        .level = INT_MIN,
        .target_magic = 2,
    };
}

void sgs_log_validator_init(sgs_log_validator *validator, sgs_memory memory, const sgs_codec_table *codecs)
{
    *validator = (sgs_log_validator){ .codecs = codecs };
    sgs_validation_options_default(&validator->options);
    sgs_buffer_init(&validator->output, memory);
    sgs_buffer_init(&validator->output_rows, memory);
    sgs_buffer_init(&validator->record_errors, memory);
    sgs_buffer_init(&validator->scratch, memory);
}

void sgs_log_validator_deinit(sgs_log_validator *validator)
{
    sgs_buffer_deinit(&validator->output);
    sgs_buffer_deinit(&validator->output_rows);
    sgs_buffer_deinit(&validator->record_errors);
    sgs_buffer_deinit(&validator->scratch);
}

void sgs_log_validator_trim(sgs_log_validator *validator, size_t kept_bytes)
{
    sgs_buffer *const buffers[] = { &validator->output, &validator->output_rows, &validator->record_errors,
                                    &validator->scratch };
    for (size_t i = 0; i < sizeof buffers / sizeof buffers[0]; ++i)
        if (buffers[i]->capacity > kept_bytes)
            sgs_buffer_deinit(buffers[i]); /* empty, and good for use again */
}

static sgs_status describe_timestamp(const sgs_validation_options *options, size_t batch,
                                     const sgs_record_error *record_error, sgs_error *err)
{
    const int64_t timestamp = record_error->value;
    const bool is_ahead = timestamp > options->now_ms;
    const int64_t limit = is_ahead ? options->timestamp_after_max_ms : options->timestamp_before_max_ms;
    const char *const side = is_ahead ? "ahead of" : "behind";
    char expected[SGS_ERROR_VALUE_BYTES];
    (void)snprintf(expected, sizeof expected, "at most %" PRId64 " ms %s %" PRId64, limit, side, options->now_ms);
    (void)sgs_fail_at(err, SGS_INVALID_RECORD, -1, expected, "%" PRId64, timestamp);
    return sgs_say(
        err,
        "batch %zu, record %" PRId32 ": timestamp %" PRId64 " is more than %s = %" PRId64 " ms %s the clock, %" PRId64,
        batch, record_error->record_index, timestamp,
        is_ahead ? "message.timestamp.after.max.ms" : "message.timestamp.before.max.ms", limit, side, options->now_ms);
}

sgs_status sgs_record_error_describe(const sgs_log_validator *validator, const sgs_record_error *record_error,
                                     sgs_error *err)
{
    const size_t batch = validator->result.failed_batch;
    const int32_t index = record_error->record_index;
    const int64_t value = record_error->value;
    switch (record_error->kind) {
    case SGS_RECORD_HAS_OTHER_MAGIC:
        return sgs_fail(err, SGS_INVALID_RECORD, "batch %zu, record %" PRId32 ": its magic is %" PRId64, batch, index,
                        value);
    case SGS_RECORD_HAS_NO_KEY:
        return sgs_fail(err, SGS_INVALID_RECORD, "batch %zu, record %" PRId32 ": no key, in a compacted topic", batch,
                        index);
    case SGS_RECORD_TIMESTAMP_OUT_OF_RANGE:
        return describe_timestamp(&validator->options, batch, record_error, err);
    case SGS_RECORD_TIMESTAMP_TYPE:
        return sgs_fail(err, SGS_INVALID_RECORD,
                        "batch %zu, record %" PRId32 ": append time %" PRId64 " was stamped by a client", batch, index,
                        value);
    case SGS_RECORD_OFFSET:
        break;
    }
    return sgs_fail(err, SGS_INVALID_RECORD, "batch %zu, record %" PRId32 ": its offset is %" PRId64, batch, index,
                    value);
}
