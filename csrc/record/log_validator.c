/* log_validator.c - one pass over the batches of a leader append: check, then stamp what was checked. */
#include "record/log_validator.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/bytes.h"
#include "record/record_section.h"

/* Messages speak of batches by their place in the append: their offsets are not assigned yet. */
typedef struct append_batch {
    sgs_validation *validation;
    size_t index;
    sgs_batch_header batch;
} append_batch;

/* the batches of a client [format.md 12.3], in Kafka's order */
static sgs_status check_batch(const append_batch *subject, int32_t last_offset_delta, sgs_error *err)
{
    const sgs_batch_header *const batch = &subject->batch;
    if (last_offset_delta < 0)
        return sgs_fail(err, SGS_INVALID_RECORD, "batch %zu: a last offset delta of %" PRId32, subject->index,
                        last_offset_delta);
    if (batch->records_count <= 0)
        return sgs_fail(err, SGS_INVALID_RECORD, "batch %zu: a records count of %" PRId32, subject->index,
                        batch->records_count);
    if (last_offset_delta != batch->records_count - 1)
        return sgs_fail(err, SGS_INVALID_RECORD, "batch %zu: %" PRId32 " records, but a last offset delta of %" PRId32,
                        subject->index, batch->records_count, last_offset_delta);
    if (sgs_batch_is_control(batch))
        return sgs_fail(err, SGS_INVALID_RECORD, "batch %zu: clients write no control records", subject->index);
    if (sgs_batch_has_producer(batch) && batch->base_sequence < 0)
        return sgs_fail(err, SGS_INVALID_RECORD, "batch %zu: producer id %" PRId64 " with a base sequence of %" PRId32,
                        subject->index, batch->producer_id, batch->base_sequence);
    return SGS_OK;
}

/* Kafka LogValidator.validateTimestamp [format.md 12.4]; the differences wrap as Java's do. */
static bool is_timestamp_acceptable(const append_batch *subject, int64_t timestamp)
{
    const sgs_validation *const validation = subject->validation;
    if (validation->log_append_time || timestamp == SGS_NO_TIMESTAMP)
        return (subject->batch.attributes & SGS_ATTRIBUTE_LOG_APPEND_TIME) == 0; /* only the broker stamps that */
    const int64_t age = (int64_t)((uint64_t)validation->now_ms - (uint64_t)timestamp);
    const int64_t lead = (int64_t)((uint64_t)timestamp - (uint64_t)validation->now_ms);
    return age <= validation->timestamp_before_max_ms && lead <= validation->timestamp_after_max_ms;
}

static sgs_status fail_for_timestamp(sgs_error *err, const append_batch *subject, int64_t index, int64_t timestamp)
{
    const sgs_validation *const validation = subject->validation;
    const bool is_late = timestamp > validation->now_ms;
    const int64_t limit = is_late ? validation->timestamp_after_max_ms : validation->timestamp_before_max_ms;
    (void)sgs_fail(err, SGS_INVALID_RECORD,
                   "batch %zu, record %" PRId64 ": timestamp %" PRId64 " is more than %s = %" PRId64
                   " ms %s the clock, %" PRId64,
                   subject->index, index, timestamp,
                   is_late ? "message.timestamp.after.max.ms" : "message.timestamp.before.max.ms", limit,
                   is_late ? "ahead of" : "behind", validation->now_ms);
    (void)snprintf(err->found, sizeof err->found, "%" PRId64, timestamp);
    (void)snprintf(err->expected, sizeof err->expected, "at most %" PRId64 " ms %s %" PRId64, limit,
                   is_late ? "ahead of" : "behind", validation->now_ms);
    return err->status;
}

/* Walk the records of a batch. All are looked at, so that a bad timestamp is known whatever else is wrong; the message
 * names the first. */
static sgs_status check_records(const append_batch *subject, const uint8_t *data, const sgs_codec_table *codecs,
                                sgs_buffer *scratch, int64_t *max_timestamp, sgs_error *err)
{
    sgs_validation *const validation = subject->validation;
    const bool compressed = sgs_batch_codec(&subject->batch) != SGS_CODEC_NONE;
    sgs_record_reader reader;
    sgs_status status =
        sgs_record_section_open(data, (size_t)subject->batch.size_bytes, false, codecs, scratch, &reader, err);
    if (status != SGS_OK)
        return status;

    sgs_status first_failure = SGS_OK;
    sgs_error ignored;
    int64_t previous_delta = -1;
    *max_timestamp = SGS_NO_TIMESTAMP;
    for (int64_t index = 0;; ++index) {
        sgs_record record;
        bool found;
        status = sgs_record_reader_next(&reader, &record, &found, first_failure == SGS_OK ? err : &ignored);
        if (status != SGS_OK)
            return first_failure == SGS_OK ? status : first_failure;
        if (!found)
            return first_failure;
        sgs_error *const reason = first_failure == SGS_OK ? err : &ignored;
        /* compressed: 0, 1, 2 ... [format.md 12.7]; not compressed: gaps are fine, and Kafka takes any order, but a
         * reader could not tell such records apart [DUR-89] */
        const int64_t delta = record.offset - subject->batch.base_offset;
        if (compressed ? record.offset != index : delta <= previous_delta || record.offset > subject->batch.last_offset)
            status = sgs_fail(reason, SGS_INVALID_RECORD, "batch %zu, record %" PRId64 ": its offset is %" PRId64,
                              subject->index, index, record.offset);
        else if (validation->keys_required && record.key.size < 0)
            status = sgs_fail(reason, SGS_INVALID_RECORD, "batch %zu, record %" PRId64 ": no key, in a compacted topic",
                              subject->index, index);
        else if (!is_timestamp_acceptable(subject, record.timestamp)) {
            ++validation->invalid_timestamps_count;
            status = fail_for_timestamp(reason, subject, index, record.timestamp);
        }
        if (first_failure == SGS_OK)
            first_failure = status;
        previous_delta = delta;
        if (record.timestamp > *max_timestamp)
            *max_timestamp = record.timestamp;
    }
}

/* Whether a batch of our own builder can be taken by its header: nothing asks for its keys or its smallest timestamp, and
 * its largest is in range. */
static bool header_suffices(const append_batch *subject)
{
    const sgs_validation *const validation = subject->validation;
    if (!validation->records_are_trusted || validation->keys_required)
        return false;
    if (!validation->log_append_time && validation->timestamp_before_max_ms != INT64_MAX)
        return false;
    return is_timestamp_acceptable(subject, subject->batch.max_timestamp);
}

/* Assign in place [format.md 12.5, APP-34]: base offset and epoch lie outside the CRC. */
static void stamp(const sgs_validation *validation, uint8_t *data, size_t size, int64_t last_offset,
                  int64_t max_timestamp)
{
    sgs_batch_set_last_offset(data, last_offset);
    sgs_batch_set_leader_epoch(data, validation->partition_leader_epoch);
    sgs_batch_set_max_timestamp(data, size, validation->log_append_time, max_timestamp);
}

static sgs_status validate_batch(append_batch *subject, uint8_t *data, const sgs_codec_table *codecs,
                                 sgs_buffer *scratch, sgs_error *err)
{
    sgs_validation *const validation = subject->validation;
    const sgs_batch_header *const batch = &subject->batch;
    if (batch->magic != 2)
        return sgs_fail(err, SGS_UNSUPPORTED_FORMAT, "batch %zu: magic %d, expected 2", subject->index, batch->magic);
    /* from the bytes: the row's last offset saturates */
    const int32_t last_offset_delta = sgs_load_be_i32(data + SGS_BATCH_CRC_START + 2);
    sgs_status status = check_batch(subject, last_offset_delta, err);
    if (status != SGS_OK)
        return status;
    int64_t max_timestamp = batch->max_timestamp;
    if (!header_suffices(subject)) {
        status = check_records(subject, data, codecs, scratch, &max_timestamp, err);
        if (status != SGS_OK)
            return status;
    }

    int64_t next_offset;
    if (__builtin_add_overflow(validation->next_offset, batch->records_count, &next_offset))
        return sgs_fail(err, SGS_ILLEGAL_ARGUMENT, "batch %zu: no offsets are left behind %" PRId64, subject->index,
                        validation->next_offset);
    if (validation->log_append_time)
        max_timestamp = validation->now_ms;
    stamp(validation, data, (size_t)batch->size_bytes, next_offset - 1, max_timestamp);
    validation->next_offset = next_offset;
    validation->records_count += batch->records_count;
    if (max_timestamp > validation->max_timestamp)
        validation->max_timestamp = max_timestamp;
    return SGS_OK;
}

sgs_status sgs_validate_and_assign_offsets(uint8_t *data, size_t size, sgs_batch_header *rows, size_t rows_count,
                                           const sgs_codec_table *codecs, sgs_buffer *scratch,
                                           sgs_validation *validation, sgs_error *err)
{
    validation->max_timestamp = SGS_NO_TIMESTAMP;
    validation->records_count = 0;
    validation->invalid_timestamps_count = 0;
    if (validation->next_offset < 0)
        return sgs_fail(err, SGS_ILLEGAL_ARGUMENT, "a next offset of %" PRId64, validation->next_offset);
    if (rows_count == 0)
        return sgs_fail(err, SGS_INVALID_RECORD, "an append without a batch"); /* [APP-31] */
    for (size_t index = 0; index < rows_count; ++index) {
        append_batch subject = { .validation = validation, .index = index };
        const int64_t position = rows[index].position;
        if (position < 0 || (uint64_t)position > size)
            return sgs_fail(err, SGS_ILLEGAL_ARGUMENT, "batch %zu: position %" PRId64 " in %zu bytes", index, position,
                            size);
        uint8_t *const batch = data + position;
        /* the rows come from the caller: what counts is in the bytes */
        sgs_status status = sgs_batch_header_load(batch, size - (size_t)position, position, &subject.batch, err);
        if (status == SGS_OK)
            status = validate_batch(&subject, batch, codecs, scratch, err);
        if (status == SGS_OK)
            status = sgs_batch_header_load(batch, size - (size_t)position, position, &rows[index], err);
        if (status != SGS_OK)
            return status;
    }
    return SGS_OK;
}
