/* append_writer.c - records of a checked batch into a new one. */
#include "record/append_writer.h"

#include <limits.h>

void sgs_append_writer_init(sgs_append_writer *writer, const sgs_append_request *request)
{
    sgs_log_validator *const validator = request->validator;
    *writer = (sgs_append_writer){ .request = request, .is_legacy = validator->options.target_magic < 2 };
    sgs_batch_builder_init(&writer->current, validator->output.memory, validator->codecs);
    sgs_legacy_builder_init(&writer->legacy, validator->output.memory, validator->codecs);
}

void sgs_append_writer_deinit(sgs_append_writer *writer)
{
    sgs_batch_builder_deinit(&writer->current);
    sgs_legacy_builder_deinit(&writer->legacy);
}

/* The level is the topic's; a codec that the producer chose is used at its default [format.md 12.1]. */
static int level_of(const sgs_validation_options *options)
{
    return options->target_codec == SGS_CODEC_OF_SOURCE ? INT_MIN : options->level;
}

static sgs_status start_current(sgs_append_writer *writer, const sgs_batch_header *first, sgs_error *err)
{
    const sgs_validation_options *const options = &writer->request->validator->options;
    sgs_batch_options built;
    sgs_batch_options_default(&built);
    built.base_offset = writer->next_offset;
    built.partition_leader_epoch = options->partition_leader_epoch;
    built.codec = writer->request->target_codec;
    built.level = level_of(options);
    built.log_append_time = options->log_append_time;
    built.log_append_timestamp = options->log_append_time ? options->now_ms : SGS_NO_TIMESTAMP;
    built.producer_id = first->producer_id;
    built.producer_epoch = first->producer_epoch;
    built.base_sequence = first->base_sequence;
    built.transactional = first->magic >= 2 && (first->attributes & SGS_ATTRIBUTE_TRANSACTIONAL) != 0;
    return sgs_batch_builder_start(&writer->current, &built, err);
}

sgs_status sgs_append_writer_start(sgs_append_writer *writer, const sgs_batch_header *first, sgs_error *err)
{
    const sgs_validation_options *const options = &writer->request->validator->options;
    writer->next_offset = writer->request->validator->result.next_offset;
    if (!writer->is_legacy)
        return start_current(writer, first, err);
    const bool log_append_time = options->log_append_time && options->target_magic > 0;
    const sgs_legacy_options built = {
        .base_offset = writer->next_offset,
        .log_append_timestamp = log_append_time ? options->now_ms : SGS_NO_TIMESTAMP,
        .codec = writer->request->target_codec,
        .level = level_of(options),
        .log_append_time = log_append_time,
        .magic = options->target_magic,
    };
    return sgs_legacy_builder_start(&writer->legacy, &built, err);
}

static sgs_status add_record(sgs_append_writer *writer, const sgs_record *record, sgs_error *err)
{
    if (writer->is_legacy) {
        if (record->headers_count > 0)
            return sgs_fail(err, SGS_ILLEGAL_ARGUMENT, "magic %d does not support record headers",
                            writer->legacy.options.magic);
        return sgs_legacy_builder_append(&writer->legacy, writer->next_offset, record->timestamp, record->key,
                                         record->value, err);
    }
    return sgs_batch_builder_append_again(&writer->current, writer->next_offset, record, err);
}

sgs_status sgs_append_writer_add(sgs_append_writer *writer, const sgs_append_batch *batch, sgs_append_section section,
                                 int64_t limit, sgs_error *err)
{
    for (; limit > 0; --limit) {
        sgs_record record;
        bool found;
        SGS_TRY(sgs_append_section_next(&section, batch, &record, &found, err));
        if (!found)
            return SGS_OK;
        SGS_TRY(add_record(writer, &record, err));
        ++writer->next_offset;
    }
    return SGS_OK;
}

/* Rows of everything in the output from `start` on. */
static sgs_status add_rows(sgs_log_validator *validator, size_t start, sgs_error *err)
{
    while (start < validator->output.size) {
        sgs_batch_header row;
        SGS_TRY(sgs_batch_header_load(validator->output.data + start, validator->output.size - start, (int64_t)start,
                                      &row, err));
        SGS_TRY(sgs_buffer_append(&validator->output_rows, &row, sizeof row, err));
        if (row.max_timestamp > validator->result.max_timestamp)
            validator->result.max_timestamp = row.max_timestamp;
        start += (size_t)row.size_bytes;
    }
    return SGS_OK;
}

sgs_status sgs_append_writer_finish(sgs_append_writer *writer, sgs_error *err)
{
    sgs_log_validator *const validator = writer->request->validator;
    sgs_validation *const result = &validator->result;
    const size_t start = validator->output.size;
    SGS_TRY(writer->is_legacy ? sgs_legacy_builder_finish(&writer->legacy, &validator->output, err)
                              : sgs_batch_builder_finish(&writer->current, &validator->output, NULL, err));
    SGS_TRY(add_rows(validator, start, err));
    const int64_t records_count = writer->next_offset - result->next_offset;
    result->converted_count += records_count;
    result->records_count += records_count;
    result->next_offset = writer->next_offset;
    result->sizes_may_have_changed = true;
    if (validator->options.log_append_time) /* also where magic 0 has no place for it, as in Kafka */
        result->max_timestamp = validator->options.now_ms;
    return SGS_OK;
}
