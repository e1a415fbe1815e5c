/* validate_rebuild.c - batches that cannot stay as they are: checked first, then written again with sequential offsets
 * [format.md 12.6, 12.7]. A batch is decompressed once; nothing is kept of a record but its bytes. */
#include "record/append_writer.h"

/* A request that was checked; the scratch buffer still holds the records of its first batch when that is its only one. */
typedef struct rebuild_state {
    sgs_append_batch first;
    sgs_append_section section; /* of the first batch */
    sgs_append_walk walk;
    size_t checking; /* the batch that is looked at */
    bool is_walking; /* its records are: the rules per batch hold */
} rebuild_state;

static bool is_kept(const sgs_append_request *request, const sgs_batch_header *first)
{
    if (request->source_codec == SGS_CODEC_NONE && sgs_batch_is_control(first))
        return true; /* control records are never compressed */
    const int8_t target_magic = request->validator->options.target_magic;
    return request->source_codec == request->target_codec && first->magic == target_magic && target_magic != 0;
}

/* Check every batch of the request; the largest timestamp is that of all.
 * keep: whether the payload may stay as it is */
static sgs_status check_all(const sgs_append_request *request, bool keep, rebuild_state *state, sgs_error *err)
{
    int64_t max_timestamp = SGS_NO_TIMESTAMP;
    for (size_t index = request->first; index < request->first + request->count; ++index) {
        state->checking = index;
        state->is_walking = false;
        sgs_append_batch batch;
        SGS_TRY(sgs_append_batch_load(request, index, &batch, err));
        SGS_TRY(sgs_append_batch_check(&batch, request->magic, err));
        sgs_append_section section;
        SGS_TRY(sgs_append_section_open(&batch, &section, err));
        state->is_walking = true;
        section.partly = keep && sgs_batch_codec(&batch.header) != SGS_CODEC_NONE;
        SGS_TRY(sgs_append_batch_walk(&batch, section, &state->walk, err));
        if (state->walk.max_timestamp > max_timestamp)
            max_timestamp = state->walk.max_timestamp;
        if (index == request->first)
            state->section = section;
    }
    state->walk.max_timestamp = max_timestamp;
    return SGS_OK;
}

static sgs_status append_all(const sgs_append_request *request, const rebuild_state *state, sgs_append_writer *writer,
                             sgs_error *err)
{
    if (request->count == 1) /* the only one that may be compressed: its section is still there */
        return sgs_append_writer_add(writer, &state->first, state->section, INT64_MAX, err);
    for (size_t index = request->first; index < request->first + request->count; ++index) {
        sgs_append_batch batch;
        sgs_append_section section;
        SGS_TRY(sgs_append_batch_load(request, index, &batch, err));
        SGS_TRY(sgs_append_section_open(&batch, &section, err));
        SGS_TRY(sgs_append_writer_add(writer, &batch, section, INT64_MAX, err));
    }
    return SGS_OK;
}

sgs_status sgs_append_copy_to_output(const sgs_append_request *request, size_t first, size_t count, sgs_error *err)
{
    sgs_log_validator *const validator = request->validator;
    for (size_t index = first; index < first + count; ++index) {
        sgs_batch_header row;
        SGS_TRY(sgs_append_header_load(request, index, &row, err));
        const uint8_t *const batch = request->data + row.position;
        row.position = (int64_t)validator->output.size;
        SGS_TRY(sgs_buffer_append(&validator->output, batch, (size_t)row.size_bytes, err));
        SGS_TRY(sgs_buffer_append(&validator->output_rows, &row, sizeof row, err));
    }
    return SGS_OK;
}

static sgs_status rebuild(const sgs_append_request *request, const rebuild_state *state, sgs_error *err)
{
    if (!request->validator->result.is_rebuilt) { /* from now on the output is what counts */
        request->validator->result.is_rebuilt = true;
        SGS_TRY(sgs_append_copy_to_output(request, 0, request->first, err));
    }
    sgs_append_writer writer;
    sgs_append_writer_init(&writer, request);
    sgs_status status = sgs_append_writer_start(&writer, &state->first.header, err);
    if (status == SGS_OK)
        status = append_all(request, state, &writer, err);
    if (status == SGS_OK)
        status = sgs_append_writer_finish(&writer, err);
    sgs_append_writer_deinit(&writer);
    return status;
}

/* Write what Kafka had written when the check failed: the batches before, and the records before the first wrong one. */
static sgs_status append_until_wrong(const sgs_append_request *request, const rebuild_state *state,
                                     sgs_append_writer *writer, sgs_error *err)
{
    const sgs_log_validator *const validator = request->validator;
    for (size_t index = request->first; index < state->checking + (state->is_walking ? 1 : 0); ++index) {
        sgs_append_batch batch;
        sgs_append_section section;
        SGS_TRY(sgs_append_batch_load(request, index, &batch, err));
        SGS_TRY(sgs_append_section_open(&batch, &section, err));
        int64_t limit = INT64_MAX;
        if (index == state->checking && validator->result.record_errors_count > 0)
            limit = sgs_log_validator_errors(validator)->record_index;
        SGS_TRY(sgs_append_writer_add(writer, &batch, section, limit, err));
    }
    return SGS_OK;
}

/* Kafka builds while it checks: what its builder refuses before the first wrong record is what the append fails with,
 * and nothing behind it was counted. */
static sgs_status refuse(const sgs_append_request *request, const rebuild_state *state,
                         const sgs_validator_metrics *before, sgs_status status, sgs_error *err)
{
    sgs_validation *const result = &request->validator->result;
    sgs_append_writer writer;
    sgs_error refusal;
    sgs_append_writer_init(&writer, request);
    sgs_status built = sgs_append_writer_start(&writer, &state->first.header, &refusal);
    if (built == SGS_OK)
        built = append_until_wrong(request, state, &writer, &refusal);
    sgs_append_writer_deinit(&writer);
    if (built != SGS_ILLEGAL_ARGUMENT) {
        result->failed_batch = state->checking; /* not the last that was written */
        return status;
    }
    result->metrics = *before;
    result->record_errors_count = 0;
    result->has_invalid_timestamp = false;
    sgs_buffer_clear(&request->validator->record_errors);
    *err = refusal;
    return built;
}

sgs_status sgs_append_convert(const sgs_append_request *request, sgs_error *err)
{
    rebuild_state state = { .walk = { .offset_rule = SGS_OFFSETS_AS_THEY_ARE } };
    SGS_TRY(sgs_append_batch_load(request, request->first, &state.first, err));
    const sgs_batch_header *const first = &state.first.header;
    const int8_t target_magic = request->validator->options.target_magic;
    if (target_magic < 2 && first->magic >= 2 && (first->attributes & SGS_ATTRIBUTE_TRANSACTIONAL) != 0)
        return sgs_fail(err, SGS_ILLEGAL_ARGUMENT, "transactional records are not supported for magic %d",
                        target_magic); /* the builder's word, before the rules have theirs */
    const sgs_validator_metrics before = request->validator->result.metrics;
    const sgs_status status = check_all(request, false, &state, err);
    if (status == SGS_RESOURCE)
        return status;
    return status == SGS_OK ? rebuild(request, &state, err) : refuse(request, &state, &before, status, err);
}

sgs_status sgs_append_compressed(const sgs_append_request *request, bool *is_rebuilt, sgs_error *err)
{
    rebuild_state state;
    SGS_TRY(sgs_append_batch_load(request, request->first, &state.first, err));
    const sgs_append_batch *const first = &state.first;
    const bool keep = is_kept(request, &first->header);
    if (keep && sgs_append_header_suffices(&first->validator->options, &first->header) && first->header.magic >= 2) {
        SGS_TRY(sgs_append_batch_check(first, request->magic, err));
        return sgs_append_stamp(first, first->header.records_count, first->header.max_timestamp, err);
    }
    state.walk = (sgs_append_walk){ .offset_rule = SGS_OFFSETS_COUNT_FROM_ZERO };
    SGS_TRY(check_all(request, keep, &state, err));
    if (state.walk.bad_offset_index >= 0 && keep && first->header.magic >= 2) {
        SGS_TRY(sgs_append_note(first, state.walk.bad_offset_index, SGS_RECORD_OFFSET, state.walk.bad_offset, err));
        return sgs_append_judge(first, err);
    }
    if (keep && state.walk.bad_offset_index < 0) /* old clients count wrongly: their wrappers are written again */
        return sgs_append_stamp(first, state.walk.records_count, state.walk.max_timestamp, err);
    *is_rebuilt = true;
    return rebuild(request, &state, err);
}
