/* cleaner.c - pieces of a segment: checked, then mapped or filtered. */
#include "segment/cleaner.h"

#include <inttypes.h>
#include <string.h>

#include "record/record_section.h"
#include "segment/log_segment_internal.h"

static sgs_status check_batch_retention(void *context, const uint8_t *batch, const sgs_batch_header *header,
                                        uint8_t *decision, sgs_error *err);
static void should_retain_records(void *context, const sgs_batch_header *batch, const sgs_record *records, size_t count,
                                  bool *retained);

void sgs_cleaner_init(sgs_cleaner *cleaner, sgs_memory memory, const sgs_codec_table *codecs, sgs_offset_map *map)
{
    *cleaner = (sgs_cleaner){ .map = map };
    sgs_cleaned_transaction_metadata_init(&cleaner->transactions, memory);
    sgs_record_filter_init(&cleaner->filter, memory, codecs);
    sgs_buffer_init(&cleaner->window, memory);
    sgs_buffer_init(&cleaner->scratch, memory);
    sgs_batch_table_init(&cleaner->table, memory);
    cleaner->filter.options.context = cleaner;
    cleaner->filter.options.check_batch = check_batch_retention;
    cleaner->filter.options.should_retain = should_retain_records;
}

void sgs_cleaner_begin_pass(sgs_cleaner *cleaner)
{
    sgs_offset_map_clear(cleaner->map);
    sgs_cleaned_transaction_metadata_clear(&cleaner->transactions);
    sgs_buffer_clear(&cleaner->filter.output_rows);
    cleaner->pending_row = 0;
    cleaner->position = cleaner->end = 0;
    cleaner->options = (sgs_cleaner_options){ .kept_last_offset = -1, .destination_bytes = INT32_MAX };
    cleaner->stats = (sgs_cleaner_stats){ 0 };
}

void sgs_cleaner_deinit(sgs_cleaner *cleaner)
{
    sgs_batch_table_deinit(&cleaner->table);
    sgs_buffer_deinit(&cleaner->scratch);
    sgs_buffer_deinit(&cleaner->window);
    sgs_record_filter_deinit(&cleaner->filter);
    sgs_cleaned_transaction_metadata_deinit(&cleaner->transactions);
}

void sgs_cleaner_begin_source(sgs_cleaner *cleaner, const sgs_log_segment *source, int64_t position,
                              int64_t next_base_offset)
{
    cleaner->position = position;
    cleaner->end = sgs_log_segment_size(source);
    cleaner->expected_offset = source->base_offset;
    cleaner->next_base_offset = next_base_offset;
    SGS_EXPECT(position >= 0 && position <= cleaner->end);
    SGS_EXPECT(source->base_offset <= next_base_offset);
    SGS_EXPECT(cleaner->pending_row * sizeof(sgs_batch_header) == cleaner->filter.output_rows.size);
}

bool sgs_cleaner_is_done(const sgs_cleaner *cleaner)
{
    return cleaner->position == cleaner->end &&
           cleaner->pending_row * sizeof(sgs_batch_header) == cleaner->filter.output_rows.size;
}

/* ---- a piece of the source ---- */

static sgs_status fill_window(sgs_cleaner *cleaner, sgs_log_segment *source, size_t wanted, sgs_error *err)
{
    const int64_t left = cleaner->end - cleaner->position;
    const size_t size = (uint64_t)left < wanted ? (size_t)left : wanted;
    sgs_buffer *const window = &cleaner->window;
    SGS_EXPECT(left >= 0 && window->size <= (uint64_t)left);
    if (size <= window->size)
        return SGS_OK;
    SGS_TRY(sgs_buffer_reserve(window, size - window->size, err));
    SGS_TRY(sgs_segment_read_exactly(source, window->data + window->size, size - window->size,
                                     cleaner->position + (int64_t)window->size, err));
    window->size = size;
    return SGS_OK;
}

static sgs_status fail_in_source(const sgs_log_segment *source, const sgs_scan_result *result, sgs_error *err)
{
    if (result->stop == SGS_SCAN_CORRUPT || result->stop == SGS_SCAN_ORDER)
        *err = result->why;
    else
        (void)sgs_fail_at(err, SGS_CORRUPT_LOG, result->valid_bytes, "a whole batch", "the end of the file");
    return sgs_segment_fail_in_log(source, err);
}

/* Read whole batches, as many as fit the window, at least one [CLN-100, CLN-102, CLN-103]; all of them are good. */
static sgs_status read_piece(sgs_cleaner *cleaner, sgs_log_segment *source, sgs_error *err)
{
    const sgs_segment_context *const context = source->context;
    sgs_scan_options options;
    sgs_batch_scan scan;
    size_t wanted = cleaner->options.read_bytes;
    sgs_scan_options_default(&options, SGS_SCAN_FILE);
    options.check_crc = cleaner->options.check;
    options.check_order = cleaner->options.check;
    options.kafka_limits = context->kafka_profile;
    options.max_batch_bytes = context->max_batch_bytes;
    options.segment_base_offset = source->base_offset;
    options.next_segment_base_offset = cleaner->next_base_offset;
    options.expected_offset = cleaner->expected_offset;
    sgs_buffer_clear(&cleaner->window);
    sgs_buffer_clear(&cleaner->table.rows);
    cleaner->window_position = cleaner->position;
    sgs_batch_scan_start(&scan, &options, cleaner->position);
    for (size_t needed = 0; sgs_batch_table_count(&cleaner->table) == 0; wanted = needed) {
        SGS_TRY(fill_window(cleaner, source, wanted, err));
        SGS_TRY(sgs_batch_scan_feed(&scan, cleaner->window.data, cleaner->window.size, cleaner->end, &cleaner->table,
                                    &needed, err));
        if (needed == 0)
            break;
        SGS_EXPECT(needed > cleaner->window.size || sgs_batch_table_count(&cleaner->table) > 0);
    }
    /* without the CRC a scan judges by the header alone, and may be ahead of the window */
    if (scan.result.valid_bytes > cleaner->position)
        SGS_TRY(fill_window(cleaner, source, (size_t)(scan.result.valid_bytes - cleaner->position), err));
    if (scan.over && (scan.result.stop != SGS_SCAN_COMPLETE || scan.result.valid_bytes != cleaner->end))
        return fail_in_source(source, &scan.result, err);
    SGS_EXPECT(scan.result.valid_bytes > cleaner->position);
    cleaner->window.size = (size_t)(scan.result.valid_bytes - cleaner->position);
    cleaner->position = scan.result.valid_bytes;
    cleaner->expected_offset = scan.result.next_offset;
    return SGS_OK;
}

/* Positions of the rows count from the window. */
static void move_rows(sgs_cleaner *cleaner)
{
    sgs_batch_header *const rows = (sgs_batch_header *)(void *)cleaner->table.rows.data;
    for (size_t i = 0; i < sgs_batch_table_count(&cleaner->table); ++i) {
        rows[i].position -= cleaner->window_position;
        SGS_EXPECT(rows[i].position >= 0 && (size_t)rows[i].position < cleaner->window.size);
    }
}

/* What a batch says of itself: where it lies in the source. */
static sgs_status fail_at_batch(const sgs_cleaner *cleaner, const sgs_log_segment *source, const sgs_batch_header *row,
                                sgs_error *err)
{
    err->position = cleaner->window_position + row->position;
    return sgs_segment_fail_in_log(source, err);
}

/* ---- the map ---- */

static void hash_keys(const sgs_cleaner *cleaner, const sgs_record *records, size_t count, sgs_key_hash *hashes)
{
    for (size_t i = 0; i < count; ++i)
        if (records[i].key.size >= 0)
            sgs_offset_map_hash(cleaner->map, records[i].key.data, (size_t)records[i].key.size, &hashes[i]);
}

static sgs_status put_keys(sgs_cleaner *cleaner, const sgs_record *records, size_t count, const sgs_key_hash *hashes,
                           bool *full, sgs_error *err)
{
    for (size_t i = 0; i < count; ++i, ++cleaner->stats.map_messages_read) {
        if (records[i].key.size < 0 || records[i].offset < cleaner->options.first_dirty_offset)
            continue;
        *full = cleaner->map->size >= cleaner->options.max_entries;
        if (*full) /* also for a key that is in it [CLN-57] */
            return SGS_OK;
        SGS_TRY(sgs_offset_map_put_hashed(cleaner->map, &hashes[i], records[i].offset, err));
    }
    return SGS_OK;
}

static sgs_status map_records(sgs_cleaner *cleaner, const uint8_t *batch, const sgs_batch_header *row, bool *full,
                              sgs_error *err)
{
    sgs_record_reader reader;
    size_t count = SGS_FILTER_ASKS_FOR;
    SGS_TRY(sgs_record_section_open(batch, (size_t)row->size_bytes, false, cleaner->filter.codecs, &cleaner->scratch,
                                    &reader, err));
    while (count == SGS_FILTER_ASKS_FOR && !*full) {
        sgs_record records[SGS_FILTER_ASKS_FOR];
        sgs_key_hash hashes[SGS_FILTER_ASKS_FOR];
        SGS_TRY(sgs_record_reader_next_some(&reader, records, SGS_FILTER_ASKS_FOR, &count, err));
        hash_keys(cleaner, records, count, hashes);
        SGS_TRY(put_keys(cleaner, records, count, hashes, full, err));
    }
    return SGS_OK;
}

static sgs_status map_batch(sgs_cleaner *cleaner, const uint8_t *batch, const sgs_batch_header *row, bool *full,
                            sgs_error *err)
{
    bool is_aborted, can_go;
    if (sgs_batch_is_control(row)) {
        SGS_TRY(sgs_cleaned_transaction_metadata_on_control_batch(&cleaner->transactions, batch, row, &can_go, err));
        ++cleaner->stats.map_messages_read;
    } else {
        SGS_TRY(sgs_cleaned_transaction_metadata_on_batch(&cleaner->transactions, row, &is_aborted, err));
        if (is_aborted)
            cleaner->stats.map_messages_read += row->records_count;
        else
            SGS_TRY(map_records(cleaner, batch, row, full, err));
    }
    if (!*full && row->last_offset >= cleaner->options.first_dirty_offset)
        sgs_offset_map_update_latest_offset(cleaner->map, row->last_offset); /* [CLN-59] */
    return SGS_OK;
}

sgs_status sgs_cleaner_map_piece(sgs_cleaner *cleaner, sgs_log_segment *source, bool *full, sgs_error *err)
{
    SGS_ASSERT(cleaner->options.max_entries <= cleaner->map->slots, err);
    *full = false;
    SGS_TRY(read_piece(cleaner, source, err));
    move_rows(cleaner);
    const sgs_batch_header *const rows = sgs_batch_table_rows(&cleaner->table);
    for (size_t i = 0; i < sgs_batch_table_count(&cleaner->table) && !*full; ++i)
        if (map_batch(cleaner, cleaner->window.data + rows[i].position, &rows[i], full, err) != SGS_OK)
            return fail_at_batch(cleaner, source, &rows[i], err);
    cleaner->stats.map_bytes_read += (int64_t)cleaner->window.size;
    return SGS_OK;
}

/* ---- the copy: what is kept ---- */

static int64_t delete_horizon_of(const sgs_batch_header *batch)
{
    const bool has_one = batch->magic >= 2 && (batch->attributes & SGS_ATTRIBUTE_DELETE_HORIZON) != 0;
    return has_one ? batch->base_timestamp : SGS_NO_TIMESTAMP;
}

/* [CLN-83] Kafka isBatchLastRecordOfProducer. */
static bool is_last_of_producer(const sgs_cleaner *cleaner, const sgs_batch_header *batch)
{
    const sgs_last_record *const records = cleaner->options.last_records;
    size_t low = 0, high = cleaner->options.last_records_count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (records[middle].producer_id < batch->producer_id)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == cleaner->options.last_records_count || records[low].producer_id != batch->producer_id)
        return false;
    if (records[low].last_data_offset >= 0)
        return batch->last_offset == records[low].last_data_offset;
    return sgs_batch_is_control(batch) && batch->producer_epoch == records[low].producer_epoch;
}

/* [CLN-80..CLN-82] Kafka checkBatchRetention. */
static sgs_status check_batch_retention(void *context, const uint8_t *batch, const sgs_batch_header *header,
                                        uint8_t *decision, sgs_error *err)
{
    sgs_cleaner *const cleaner = context;
    const bool is_control = sgs_batch_is_control(header);
    bool can_go;
    if (is_control)
        SGS_TRY(sgs_cleaned_transaction_metadata_on_control_batch(&cleaner->transactions, batch, header, &can_go, err));
    else
        SGS_TRY(sgs_cleaned_transaction_metadata_on_batch(&cleaner->transactions, header, &can_go, err));
    const int64_t horizon = delete_horizon_of(header);
    const bool has_horizon = header->magic >= 2 && (header->attributes & SGS_ATTRIBUTE_DELETE_HORIZON) != 0;
    cleaner->discard_records = can_go && (!is_control || (has_horizon && horizon <= cleaner->options.now_ms));
    if ((sgs_batch_has_producer(header) && is_last_of_producer(cleaner, header)) ||
        header->last_offset == cleaner->options.kept_last_offset)
        *decision = SGS_BATCH_RETAIN_EMPTY;
    else
        *decision = cleaner->discard_records ? SGS_BATCH_DELETE : SGS_BATCH_DELETE_EMPTY;
    if (is_control && can_go)
        *decision |= SGS_BATCH_ENDS_EMPTY_TRANSACTION;
    return SGS_OK;
}

/* [CLN-84] Kafka shouldRetainRecord. */
static bool should_retain_record(sgs_cleaner *cleaner, const sgs_batch_header *batch, const sgs_record *record,
                                 const sgs_key_hash *hash)
{
    if (cleaner->discard_records)
        return false;
    if (sgs_batch_is_control(batch) || record->offset > cleaner->map->latest_offset)
        return true;
    if (record->key.size < 0) {
        ++cleaner->stats.invalid_messages_read;
        return false;
    }
    if (record->offset < sgs_offset_map_get_hashed(cleaner->map, hash))
        return false;
    if (record->value.size >= 0)
        return true;
    if (batch->magic < 2)
        return cleaner->options.retain_legacy_deletes;
    return (batch->attributes & SGS_ATTRIBUTE_DELETE_HORIZON) == 0 ||
           cleaner->options.now_ms < delete_horizon_of(batch);
}

static void should_retain_records(void *context, const sgs_batch_header *batch, const sgs_record *records, size_t count,
                                  bool *retained)
{
    sgs_cleaner *const cleaner = context;
    sgs_key_hash hashes[SGS_FILTER_ASKS_FOR];
    SGS_EXPECT(count <= SGS_FILTER_ASKS_FOR);
    hash_keys(cleaner, records, count, hashes);
    for (size_t i = 0; i < count; ++i)
        retained[i] = should_retain_record(cleaner, batch, &records[i], &hashes[i]);
}

static sgs_status filter_piece(sgs_cleaner *cleaner, const sgs_log_segment *source, sgs_error *err)
{
    sgs_record_filter *const filter = &cleaner->filter;
    const size_t count = sgs_batch_table_count(&cleaner->table);
    filter->options.now_ms = cleaner->options.now_ms;
    filter->options.delete_retention_ms = cleaner->options.delete_retention_ms;
    filter->options.destination_capacity = SIZE_MAX; /* the output is a buffer that grows [CLN-101] */
    filter->options.check_crc = false;               /* of all batches it was compared before */
    filter->options.converts_empty = cleaner->options.check;
    move_rows(cleaner);
    cleaner->pending_row = 0;
    const sgs_status status = sgs_record_filter_run(filter, cleaner->window.data, cleaner->window.size,
                                                    sgs_batch_table_rows(&cleaner->table), NULL, count, err);
    if (status != SGS_OK) {
        const size_t failed = filter->result.batches_read < count ? filter->result.batches_read : count - 1;
        sgs_buffer_clear(&filter->output_rows); /* nothing of it is written */
        return fail_at_batch(cleaner, source, &sgs_batch_table_rows(&cleaner->table)[failed], err);
    }
    SGS_EXPECT(filter->result.batches_read == count);
    cleaner->stats.messages_read += filter->result.messages_read;
    cleaner->stats.bytes_read += filter->result.bytes_read;
    cleaner->stats.messages_written += filter->result.messages_retained;
    cleaner->stats.bytes_written += filter->result.bytes_retained;
    return SGS_OK;
}

/* Append the batches of the output that fit; at least one, or all offsets of the first are too far away. */
static sgs_status append_output(sgs_cleaner *cleaner, sgs_log_segment *destination, int64_t *begins_at, sgs_error *err)
{
    const sgs_buffer *const output = &cleaner->filter.output;
    const sgs_batch_header *const rows = (const sgs_batch_header *)(const void *)cleaner->filter.output_rows.data;
    const size_t count = cleaner->filter.output_rows.size / sizeof *rows;
    const size_t first = cleaner->pending_row;
    int64_t size = sgs_log_segment_size(destination);
    size_t next = first;
    for (; next < count; ++next) {
        int32_t relative_offset;
        if (!sgs_relative_offset(destination->base_offset, rows[next].last_offset, &relative_offset) ||
            (size > 0 && size + rows[next].size_bytes > cleaner->options.destination_bytes))
            break;
        size += rows[next].size_bytes;
    }
    *begins_at = next < count ? rows[next].base_offset : -1;
    if (next == first)
        return SGS_OK;
    const size_t begin = (size_t)rows[first].position;
    const size_t end = next < count ? (size_t)rows[next].position : output->size;
    const sgs_slice slice = { .data = output->data + begin, .size = end - begin };
    bool poisoned;
    SGS_EXPECT(begin < end && end <= output->size);
    SGS_TRY(sgs_log_segment_append(destination, &slice, 1, rows + first, next - first, &poisoned, err));
    cleaner->pending_row = next;
    return SGS_OK;
}

sgs_status sgs_cleaner_copy_piece(sgs_cleaner *cleaner, sgs_log_segment *source, sgs_log_segment *destination,
                                  int64_t *begins_at, sgs_error *err)
{
    SGS_ASSERT(source != destination, err);
    if (cleaner->pending_row * sizeof(sgs_batch_header) == cleaner->filter.output_rows.size) {
        SGS_TRY(read_piece(cleaner, source, err));
        SGS_TRY(filter_piece(cleaner, source, err));
    }
    return append_output(cleaner, destination, begins_at, err);
}
