/* segment_answers.c - see segment_answers.h. Where an answer is not known beforehand, it must be an error that says what
 * is wrong, or stand in the .log. */
#include "fuzz/segment_answers.h"

#include <string.h>

#include "fuzz/fuzz_input.h"
#include "record_kit.h"
#include "segment/file_records.h"

static void check_refusal(const segment_question *question, sgs_status status, const sgs_error *err)
{
    FUZZ_CHECK(status == SGS_CORRUPT_RECORD || status == SGS_CORRUPT_LOG || status == SGS_LIMIT_EXCEEDED ||
               status == SGS_INVALID_RECORD || status == SGS_UNSUPPORTED_FORMAT || status == SGS_CODEC ||
               (status == SGS_CORRUPT_INDEX && question->context->kafka_profile));
    FUZZ_CHECK(err->status == status && err->message[0] != '\0' && err->file[0] != '\0');
}

/* ---- reads ---- */

/* What was returned stands in the .log, and reaches the offset; Kafka compares base offsets [SEG-18]. */
static void check_fetch(const segment_question *question, const sgs_segment_fetch *fetch, const sgs_buffer *out,
                        int64_t offset)
{
    if (!fetch->found)
        return;
    FUZZ_CHECK(fetch->position >= 0 && fetch->size >= 0 && fetch->position + fetch->size <= question->plain->size);
    FUZZ_CHECK(out->size == (size_t)fetch->size);
    FUZZ_CHECK(fetch->size == 0 || memcmp(out->data, question->plain->log + fetch->position, out->size) == 0);
    sgs_batch_header header;
    sgs_error err;
    const size_t left = (size_t)(question->plain->size - fetch->position);
    FUZZ_CHECK(sgs_batch_header_load(question->plain->log + fetch->position, left, 0, &header, &err) == SGS_OK);
    FUZZ_CHECK(header.last_offset >= offset || (question->context->kafka_profile && header.base_offset >= offset));
    FUZZ_CHECK(header.base_offset == fetch->base_offset);
    FUZZ_CHECK(header.size_bytes == fetch->first_batch_size);
}

static void check_exactly(const segment_question *question, const sgs_segment_fetch *fetch,
                          const sgs_segment_read *request)
{
    const plain_batch *const batch = plain_segment_find(question->plain, request->start_offset);
    FUZZ_CHECK(fetch->found == (batch != NULL));
    if (batch == NULL) {
        FUZZ_CHECK(fetch->position == question->plain->size && fetch->ends_clean && fetch->size == 0);
        return;
    }
    int64_t size = request->max_size;
    if (request->min_one_message && size < batch->size)
        size = batch->size;
    if (size > question->plain->size - batch->position)
        size = question->plain->size - batch->position;
    FUZZ_CHECK(fetch->position == batch->position && fetch->size == size);
    FUZZ_CHECK(fetch->first_entry_incomplete ==
               (!request->min_one_message && request->max_size > 0 && request->max_size < batch->size));
}

/* A slice answers as the read did, and what it left in the file is what the read returned. */
static void check_slice(const segment_question *question, const sgs_segment_read *request, sgs_status expected,
                        const sgs_segment_fetch *read, const sgs_buffer *out)
{
    sgs_segment_fetch slice;
    sgs_error err;
    sgs_buffer bytes;
    const sgs_status status = sgs_log_segment_slice(question->segment, request, &slice, &err);
    FUZZ_CHECK(status == expected);
    if (status != SGS_OK)
        return;
    FUZZ_CHECK(slice.found == read->found && slice.position == read->position && slice.size == read->size);
    FUZZ_CHECK(slice.base_offset == read->base_offset && slice.first_entry_incomplete == read->first_entry_incomplete);
    if (slice.size == 0)
        return;
    sgs_buffer_init(&bytes, kit_memory());
    FUZZ_CHECK(sgs_buffer_reserve(&bytes, out->size, &err) == SGS_OK);
    FUZZ_CHECK(sgs_file_records_read_into(question->segment, slice.position, bytes.data, out->size, &err) == SGS_OK);
    FUZZ_CHECK(memcmp(bytes.data, out->data, out->size) == 0);
    sgs_buffer_deinit(&bytes);
}

void segment_answers_check_read(const segment_question *question, int64_t offset)
{
    const sgs_segment_read request = {
        .start_offset = offset,
        .max_size = question->read_size,
        .max_position = question->plain->size,
        .min_one_message = offset % 2 == 0,
    };
    sgs_buffer out;
    sgs_segment_fetch fetch;
    sgs_error err;
    sgs_buffer_init(&out, kit_memory());
    const sgs_status status = sgs_log_segment_read(question->segment, &request, &out, &fetch, &err);
    FUZZ_CHECK(status == SGS_OK || !question->exactly);
    if (status != SGS_OK)
        check_refusal(question, status, &err);
    else
        check_fetch(question, &fetch, &out, offset);
    if (question->exactly)
        check_exactly(question, &fetch, &request);
    check_slice(question, &request, status, &fetch, &out);
    sgs_buffer_deinit(&out);
}

/* ---- look-ups by time ---- */

static void check_timestamp(const segment_question *question, int64_t timestamp, int64_t starting_offset)
{
    sgs_found_timestamp found, plain;
    sgs_error err;
    const sgs_status status =
        sgs_log_segment_find_offset_by_timestamp(question->segment, timestamp, starting_offset,
                                                 question->times_exactly ? question->plain->size : -1, &found, &err);
    if (status != SGS_OK)
        check_refusal(question, status, &err);
    else if (found.found)
        FUZZ_CHECK(found.timestamp >= timestamp && found.offset >= starting_offset);
    if (!question->times_exactly)
        return;
    FUZZ_CHECK(plain_segment_find_timestamp(question->plain, question->context, timestamp, starting_offset, &plain) ==
               status);
    FUZZ_CHECK(status != SGS_OK || plain.found == found.found);
    if (status == SGS_OK && found.found)
        FUZZ_CHECK(found.timestamp == plain.timestamp && found.offset == plain.offset &&
                   found.leader_epoch == plain.leader_epoch);
}

void segment_answers_check_max_timestamp(const segment_question *question)
{
    sgs_timestamp_offset largest = { 0 };
    bool is_partial = false;
    sgs_found_timestamp found, plain;
    sgs_error err;
    sgs_status status = sgs_log_segment_max_timestamp(question->segment, &largest, &is_partial, &err);
    const sgs_timestamp_offset expected = plain_segment_max_timestamp(question->plain);
    FUZZ_CHECK(!question->times_exactly || (status == SGS_OK && largest.timestamp == expected.timestamp));
    FUZZ_CHECK(!question->times_exactly || largest.offset == expected.offset);
    if (status == SGS_OK)
        status = sgs_log_segment_find_max_timestamp(question->segment, &found, &err);
    if (status != SGS_OK)
        check_refusal(question, status, &err);
    if (!question->times_exactly)
        return;
    FUZZ_CHECK(plain_segment_find_max_timestamp(question->plain, question->context, &plain) == status);
    if (status == SGS_OK)
        FUZZ_CHECK(found.found == plain.found && (!found.found || found.offset == plain.offset));
}

static void check_around(const segment_question *question, const plain_batch *batch)
{
    segment_answers_check_read(question, batch->last_offset);
    if (batch->last_offset < INT64_MAX)
        segment_answers_check_read(question, batch->last_offset + 1);
    check_timestamp(question, batch->max_timestamp, question->plain->base_offset);
}

/* Around one batch and the last one, and where the input says: the place of a batch is part of the input. */
void segment_answers_check(const segment_question *question)
{
    segment_answers_check_read(question, question->offset);
    check_timestamp(question, EXAMPLE_T + question->offset, question->offset);
    if (question->plain->count > 0) {
        check_around(question, &question->plain->batches[question->read_size % question->plain->count]);
        segment_answers_check_read(question, question->plain->batches[question->plain->count - 1].last_offset);
    }
    segment_answers_check_max_timestamp(question);
    sgs_error err;
    int64_t next_offset;
    bool ends_clean;
    const sgs_status status = sgs_log_segment_read_next_offset(question->segment, &next_offset, &ends_clean, &err);
    if (question->exactly)
        FUZZ_CHECK(status == SGS_OK && next_offset == plain_segment_next_offset(question->plain) && ends_clean);
    else if (status != SGS_OK)
        check_refusal(question, status, &err);
}
