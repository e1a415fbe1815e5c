/* log_validator.c - which batches make a request, and which way it goes [format.md 12.2]. */
#include "record/log_validator.h"

#include <inttypes.h>
#include <string.h>

#include "record/validate_rules.h"

/* the codec of the last batch that has one, Kafka LogAppendInfo.sourceCompression */
static int source_codec(const sgs_batch_header *rows, size_t count)
{
    for (; count > 0; --count)
        if (sgs_batch_codec(&rows[count - 1]) != SGS_CODEC_NONE)
            return sgs_batch_codec(&rows[count - 1]);
    return SGS_CODEC_NONE;
}

static bool is_plain_message(const sgs_batch_header *row)
{
    return row->magic < 2 && sgs_batch_codec(row) == SGS_CODEC_NONE;
}

/* How many rows from `first` on are one request: all, or the plain messages of one magic, or a batch. */
static size_t count_of_request(const sgs_validation_options *options, const sgs_batch_header *rows, size_t first,
                               size_t rows_count)
{
    if (options->one_request)
        return rows_count;
    size_t count = 1;
    while (is_plain_message(&rows[first]) && first + count < rows_count && is_plain_message(&rows[first + count]) &&
           rows[first + count].magic == rows[first].magic)
        ++count;
    return count;
}

static sgs_status refuse_many(size_t count, sgs_error *err)
{
    (void)sgs_fail_at(err, SGS_INVALID_RECORD, -1, "one batch", "%zu batches", count);
    return sgs_say(err, "%zu batches in one request, expected one", count);
}

static sgs_status dispatch(sgs_append_request *request, bool *is_rebuilt, sgs_error *err)
{
    const sgs_batch_header *const rows = request->rows + request->first;
    const int8_t target_magic = request->validator->options.target_magic;
    if ((request->magic >= 2 || request->source_codec != SGS_CODEC_NONE) && request->count > 1)
        return refuse_many(request->count, err);
    if (request->source_codec != SGS_CODEC_NONE || request->target_codec != SGS_CODEC_NONE)
        return sgs_append_compressed(request, is_rebuilt, err);
    for (size_t i = 0; i < request->count; ++i)
        *is_rebuilt = *is_rebuilt || rows[i].magic != target_magic;
    return *is_rebuilt ? sgs_append_convert(request, err) : sgs_append_in_place(request, err);
}

/* Bring the rows of batches that were edited up to date. */
static sgs_status reload_rows(const sgs_append_request *request, sgs_error *err)
{
    for (size_t index = request->first; index < request->first + request->count; ++index) {
        sgs_batch_header row;
        SGS_TRY(sgs_append_header_load(request, index, &row, err));
        request->rows[index] = row;
    }
    return SGS_OK;
}

static sgs_status run(sgs_append_request *request, size_t rows_count, sgs_error *err)
{
    const sgs_validation_options *const options = &request->validator->options;
    for (; request->first < rows_count; request->first += request->count) {
        const sgs_batch_header *const rows = request->rows + request->first;
        request->count = count_of_request(options, request->rows, request->first, rows_count);
        request->magic = rows->magic;
        request->source_codec = source_codec(rows, request->count);
        request->target_codec =
            options->target_codec == SGS_CODEC_OF_SOURCE ? request->source_codec : options->target_codec;
        bool is_rebuilt = false;
        SGS_TRY(dispatch(request, &is_rebuilt, err));
        if (is_rebuilt)
            continue;
        SGS_TRY(reload_rows(request, err));
        if (request->validator->result.is_rebuilt)
            SGS_TRY(sgs_append_copy_to_output(request, request->first, request->count, err));
    }
    return SGS_OK;
}

static sgs_status begin(sgs_log_validator *validator, int64_t next_offset, sgs_error *err)
{
    validator->result = (sgs_validation){ .next_offset = next_offset, .max_timestamp = SGS_NO_TIMESTAMP };
    sgs_buffer_clear(&validator->output);
    sgs_buffer_clear(&validator->output_rows);
    sgs_buffer_clear(&validator->record_errors);
    return next_offset < 0 ? sgs_fail(err, SGS_ILLEGAL_ARGUMENT, "a next offset of %" PRId64, next_offset) : SGS_OK;
}

sgs_status sgs_validate_and_assign_offsets(sgs_log_validator *validator, int64_t next_offset, uint8_t *data,
                                           size_t size, sgs_batch_header *rows, size_t rows_count, sgs_error *err)
{
    SGS_TRY(begin(validator, next_offset, err));
    if (rows_count == 0)
        return sgs_fail(err, SGS_INVALID_RECORD, "an append without a batch"); /* [APP-31] */
    sgs_append_request request = { .validator = validator, .data = data, .size = size, .rows = rows };
    return run(&request, rows_count, err);
}

sgs_status sgs_validate_and_stamp_header(sgs_log_validator *validator, int64_t next_offset, const uint8_t *data,
                                         size_t size, uint8_t header[SGS_BATCH_HEADER_BYTES], sgs_batch_header *row,
                                         sgs_error *err)
{
    SGS_ASSERT(row->magic == 2 && row->position == 0 && size >= SGS_BATCH_HEADER_BYTES, err);
    SGS_TRY(begin(validator, next_offset, err));
    memcpy(header, data, SGS_BATCH_HEADER_BYTES);
    sgs_append_request request = {
        .validator = validator,
        .data = (uint8_t *)(uintptr_t)data, /* nothing is written there: `header` is */
        .size = size,
        .rows = row,
        .header = header,
    };
    return run(&request, 1, err);
}
