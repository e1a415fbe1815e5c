/* record_filter.c - batches in, what is kept of them out. */
#include "record/record_filter.h"

#include <inttypes.h>
#include <string.h>

#include "record/record_section.h"

/* What a walk over a batch's records found; which are kept stands in filter->kept, a bit a record. */
typedef struct survivors {
    int64_t count, records_read;
    int64_t first_offset, max_offset;
    bool has_tombstone;
} survivors;

void sgs_record_filter_init(sgs_record_filter *filter, sgs_memory memory, const sgs_codec_table *codecs)
{
    *filter = (sgs_record_filter){ .codecs = codecs };
    filter->options.destination_capacity = SIZE_MAX;
    sgs_buffer_init(&filter->output, memory);
    sgs_buffer_init(&filter->output_rows, memory);
    sgs_buffer_init(&filter->scratch, memory);
    sgs_buffer_init(&filter->kept, memory);
    sgs_batch_builder_init(&filter->builder, memory, codecs);
}

void sgs_record_filter_deinit(sgs_record_filter *filter)
{
    sgs_batch_builder_deinit(&filter->builder);
    sgs_buffer_deinit(&filter->kept);
    sgs_buffer_deinit(&filter->scratch);
    sgs_buffer_deinit(&filter->output_rows);
    sgs_buffer_deinit(&filter->output);
}

static bool has_offset(const sgs_offsets_to_keep *keep, int64_t offset)
{
    size_t low = 0, high = keep->count;
    while (low < high) { /* the first offset at or above the record's lies in [low, high] */
        const size_t middle = low + (high - low) / 2;
        if (keep->offsets[middle] < offset)
            low = middle + 1;
        else
            high = middle;
    }
    return low < keep->count && keep->offsets[low] == offset;
}

void sgs_offsets_to_keep_have(void *context, const sgs_batch_header *batch, const sgs_record *records, size_t count,
                              bool *retained)
{
    (void)batch;
    for (size_t i = 0; i < count; ++i)
        retained[i] = has_offset(context, records[i].offset);
}

static void set_bit(sgs_buffer *bits, int64_t index) { bits->data[index / 8] |= (uint8_t)(1U << (index % 8)); }

static bool has_bit(const sgs_buffer *bits, int64_t index) { return (bits->data[index / 8] >> (index % 8) & 1) != 0; }

static void note_survivor(survivors *result, const sgs_record *record)
{
    if (result->count++ == 0)
        result->first_offset = record->offset;
    if (record->offset > result->max_offset)
        result->max_offset = record->offset;
    result->has_tombstone = result->has_tombstone || record->value.size < 0;
}

/* Ask for every record. Kafka filterBatch. */
static sgs_status choose_survivors(sgs_record_filter *filter, sgs_record_reader reader, survivors *found_out,
                                   sgs_error *err)
{
    const sgs_filter_options *const options = &filter->options;
    survivors result = { .max_offset = -1 };
    size_t count = SGS_FILTER_ASKS_FOR;
    sgs_buffer_clear(&filter->kept);
    while (count == SGS_FILTER_ASKS_FOR) {
        sgs_record records[SGS_FILTER_ASKS_FOR];
        bool retained[SGS_FILTER_ASKS_FOR];
        SGS_TRY(sgs_record_reader_next_some(&reader, records, SGS_FILTER_ASKS_FOR, &count, err));
        SGS_TRY(sgs_buffer_append(&filter->kept, (const uint8_t[SGS_FILTER_ASKS_FOR / 8]){ 0 }, SGS_FILTER_ASKS_FOR / 8,
                                  err));
        options->should_retain(options->context, &reader.batch, records, count, retained);
        for (size_t i = 0; i < count; ++i, ++result.records_read) {
            if (!retained[i])
                continue;
            set_bit(&filter->kept, result.records_read);
            note_survivor(&result, &records[i]);
        }
    }
    *found_out = result;
    return SGS_OK;
}

static void choose_options(const sgs_batch_header *batch, const survivors *kept, int64_t delete_horizon_ms,
                           sgs_batch_options *built)
{
    sgs_batch_options_default(built);
    built->base_offset = batch->magic >= 2 ? batch->base_offset : kept->first_offset;
    built->partition_leader_epoch = batch->partition_leader_epoch;
    built->codec = sgs_batch_codec(batch);
    built->log_append_time = batch->magic > 0 && (batch->attributes & SGS_ATTRIBUTE_LOG_APPEND_TIME) != 0;
    built->log_append_timestamp = built->log_append_time ? batch->max_timestamp : SGS_NO_TIMESTAMP;
    built->transactional = batch->magic >= 2 && (batch->attributes & SGS_ATTRIBUTE_TRANSACTIONAL) != 0;
    built->control = sgs_batch_is_control(batch);
    built->producer_id = batch->producer_id;
    built->producer_epoch = batch->producer_epoch;
    built->base_sequence = batch->base_sequence;
    built->delete_horizon_ms = delete_horizon_ms;
}

/* Kafka buildRetainedRecordsInto. */
static sgs_status rebuild(sgs_record_filter *filter, const sgs_batch_header *batch, sgs_record_reader reader,
                          const survivors *kept, int64_t delete_horizon_ms, sgs_batch_header *row, sgs_error *err)
{
    sgs_batch_options built;
    choose_options(batch, kept, delete_horizon_ms, &built);
    SGS_TRY(sgs_batch_builder_start(&filter->builder, &built, err));
    for (int64_t index = 0; index < kept->records_read; ++index) {
        sgs_record record;
        bool found;
        SGS_TRY(sgs_record_reader_next(&reader, &record, &found, err));
        if (has_bit(&filter->kept, index))
            SGS_TRY(sgs_batch_builder_append_again(&filter->builder, record.offset, &record, err));
    }
    /* a producer's last sequence is counted from the batch's last offset, which must survive [format.md 4.3] */
    if (reader.batch.magic >= 2) {
        if (reader.batch.last_offset < filter->builder.last_offset)
            return sgs_fail(err, SGS_INVALID_RECORD, "batch at offset %" PRId64 ": a record beyond its last offset",
                            reader.batch.base_offset);
        filter->builder.last_offset = reader.batch.last_offset;
    }
    return sgs_batch_builder_finish(&filter->builder, &filter->output, row, err);
}

/* Kafka updateRetainedBatchMetadata: `row` is what was written. */
static sgs_status count_batch(sgs_record_filter *filter, const sgs_batch_header *row, int64_t messages,
                              int64_t max_offset, sgs_error *err)
{
    sgs_filter_result *const result = &filter->result;
    SGS_TRY(sgs_buffer_append(&filter->output_rows, row, sizeof *row, err));
    if (max_offset > result->max_offset)
        result->max_offset = max_offset;
    if (row->max_timestamp > result->max_timestamp) {
        result->max_timestamp = row->max_timestamp;
        result->shallow_offset_of_max_timestamp = row->last_offset;
    }
    result->messages_retained += messages;
    result->bytes_retained += row->size_bytes;
    return SGS_OK;
}

/* As it is, or its bare header. */
static sgs_status copy(sgs_record_filter *filter, const uint8_t *batch, const sgs_batch_header *header,
                       const survivors *kept, sgs_error *err)
{
    sgs_batch_header row = *header;
    const size_t position = filter->output.size;
    if (kept->count > 0)
        SGS_TRY(sgs_buffer_append(&filter->output, batch, (size_t)header->size_bytes, err));
    else
        SGS_TRY(sgs_batch_build_empty(header, &filter->output, err));
    SGS_TRY(sgs_batch_header_load(filter->output.data + position, filter->output.size - position, (int64_t)position,
                                  &row, err));
    return count_batch(filter, &row, kept->count, row.last_offset, err);
}

/* The horizon of a batch that is written again; -1 = none. `needed`: it holds what may go when the time has come. */
static int64_t choose_delete_horizon(const sgs_filter_options *options, const sgs_batch_header *header, bool needed)
{
    int64_t horizon;
    if (!needed)
        return (header->attributes & SGS_ATTRIBUTE_DELETE_HORIZON) != 0 && header->magic >= 2 &&
                       header->base_timestamp >= 0
                   ? header->base_timestamp
                   : SGS_NO_TIMESTAMP;
    return __builtin_add_overflow(options->now_ms, options->delete_retention_ms, &horizon) ? INT64_MAX : horizon;
}

static sgs_status filter_batch(sgs_record_filter *filter, const uint8_t *batch, const sgs_batch_header *header,
                               uint8_t decision, sgs_error *err)
{
    sgs_record_reader reader;
    survivors kept;
    SGS_TRY(sgs_record_section_open(batch, (size_t)header->size_bytes, filter->options.check_crc, filter->codecs,
                                    &filter->scratch, &reader, err));
    SGS_TRY(choose_survivors(filter, reader, &kept, err));
    filter->result.messages_read += kept.records_read;
    if (kept.count == 0) {
        if ((decision & SGS_BATCH_RETENTION_MASK) != SGS_BATCH_RETAIN_EMPTY)
            return SGS_OK;
        if (header->magic < 2 && !filter->options.converts_empty)
            return sgs_fail(err, SGS_ILLEGAL_STATE, "batch at offset %" PRId64 ": magic %d has no empty batches",
                            header->base_offset, header->magic);
        return copy(filter, batch, header, &kept, err);
    }
    const bool has_horizon = header->magic >= 2 && (header->attributes & SGS_ATTRIBUTE_DELETE_HORIZON) != 0;
    const bool needs_horizon =
        !has_horizon && (kept.has_tombstone || (decision & SGS_BATCH_ENDS_EMPTY_TRANSACTION) != 0);
    if (header->magic >= 2 && kept.count == kept.records_read && !needs_horizon)
        return copy(filter, batch, header, &kept, err);
    sgs_batch_header row;
    SGS_TRY(rebuild(filter, header, reader, &kept, choose_delete_horizon(&filter->options, header, needs_horizon), &row,
                    err));
    return count_batch(filter, &row, kept.count, kept.max_offset, err);
}

sgs_status sgs_record_filter_run(sgs_record_filter *filter, const uint8_t *data, size_t size,
                                 const sgs_batch_header *rows, const uint8_t *decisions, size_t rows_count,
                                 sgs_error *err)
{
    sgs_filter_result *const result = &filter->result;
    *result = (sgs_filter_result){ .max_offset = -1,
                                   .max_timestamp = SGS_NO_TIMESTAMP,
                                   .shallow_offset_of_max_timestamp = -1 };
    sgs_buffer_clear(&filter->output);
    sgs_buffer_clear(&filter->output_rows);
    while (result->batches_read < rows_count && !result->output_grew) {
        const size_t index = result->batches_read;
        const int64_t position = rows[index].position;
        uint8_t decision = decisions == NULL ? SGS_BATCH_DELETE_EMPTY : decisions[index];
        if (position < 0 || (uint64_t)position > size || (decision & SGS_BATCH_RETENTION_MASK) > SGS_BATCH_DELETE_EMPTY)
            return sgs_fail(err, SGS_ILLEGAL_ARGUMENT, "batch %zu: decision %d, position %" PRId64 " in %zu bytes",
                            index, decision, position, size);
        sgs_batch_header header; /* from the bytes: what the caller's rows say is not relied on */
        SGS_TRY(sgs_batch_header_load(data + position, size - (size_t)position, position, &header, err));
        if (decisions == NULL)
            SGS_TRY(filter->options.check_batch(filter->options.context, data + position, &header, &decision, err));
        if ((decision & SGS_BATCH_RETENTION_MASK) != SGS_BATCH_DELETE)
            SGS_TRY(filter_batch(filter, data + position, &header, decision, err));
        result->bytes_read += header.size_bytes;
        ++result->batches_read;
        result->output_grew = filter->output.size > filter->options.destination_capacity;
    }
    return SGS_OK;
}
