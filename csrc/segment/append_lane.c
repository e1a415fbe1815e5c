/* append_lane.c - see append_lane.h. Every `return SGS_OK` before write_batches means: not taken. */
#include <string.h>

#include "segment/append_lane.h"
#include "segment/log_segment_internal.h"

enum {
    CURRENT_MAGIC = 2,
    DECIDED_ABOVE = SGS_ATTRIBUTE_TRANSACTIONAL | SGS_ATTRIBUTE_CONTROL,
};

void sgs_append_lane_init(sgs_append_lane *lane, sgs_memory memory)
{
    *lane = (sgs_append_lane){ .leader_epoch = -1 };
    sgs_batch_table_init(&lane->table, memory);
}

void sgs_append_lane_deinit(sgs_append_lane *lane) { sgs_batch_table_deinit(&lane->table); }

/* Whether the active segment ends where the log does and takes these bytes [SEG-13, IDX-12]. */
static bool has_room(const sgs_append_lane *lane, sgs_log_segment *segment, size_t size, int64_t last_offset,
                     int64_t max_timestamp, int64_t now_ms)
{
    const int32_t position = sgs_log_segment_size(segment);
    int64_t first_timestamp;
    int32_t relative_offset;
    bool full;
    sgs_error ignored;
    if (position != lane->position || (int64_t)size > (int64_t)lane->max_segment_bytes - position)
        return false;
    if (!sgs_relative_offset(sgs_log_segment_base_offset(segment), last_offset, &relative_offset))
        return false;
    if (sgs_log_segment_indexes_full(segment, &full, &ignored) != SGS_OK || full)
        return false;
    if (position == 0)
        return true;
    if (sgs_log_segment_first_batch_timestamp(segment, &first_timestamp, &ignored) != SGS_OK)
        return false;
    const int64_t waited =
        first_timestamp >= 0 ? max_timestamp - first_timestamp : now_ms - sgs_log_segment_created_ms(segment);
    SGS_EXPECT(position + (int64_t)size <= INT32_MAX);
    return waited <= lane->max_segment_ms;
}

static sgs_status write_batches(sgs_append_lane *lane, sgs_log_segment *segment, const sgs_slice *pieces,
                                size_t pieces_count, size_t size, const sgs_batch_header *rows, size_t rows_count,
                                sgs_lane_append *answer, sgs_error *err)
{
    SGS_EXPECT(rows_count > 0 && rows[0].base_offset == lane->next_offset);
    SGS_EXPECT(lane->position == sgs_log_segment_size(segment));
    answer->first_offset = rows[0].base_offset;
    answer->last_offset = rows[rows_count - 1].last_offset;
    const sgs_status status =
        sgs_log_segment_append(segment, pieces, pieces_count, rows, rows_count, &answer->poisoned, err);
    if (status != SGS_OK)
        return status;
    lane->next_offset = answer->last_offset + 1;
    lane->position += (int32_t)size;
    SGS_EXPECT(lane->position == sgs_log_segment_size(segment));
    SGS_EXPECT(answer->first_offset <= answer->last_offset && lane->next_offset > answer->last_offset);
    answer->taken = true;
    return SGS_OK;
}

static void start(const sgs_append_lane *lane, sgs_log_validator *validator, int64_t now_ms)
{
    validator->options.now_ms = now_ms;
    validator->options.partition_leader_epoch = lane->leader_epoch;
}

/* What the validator has done with the only batch; false when that needs the layers, which meet an error again, with its place
 * and number. */
static bool is_stamped(const sgs_log_validator *validator, sgs_status status, sgs_lane_append *answer)
{
    if (status != SGS_OK || validator->result.is_rebuilt)
        return false;
    answer->max_timestamp = validator->result.max_timestamp;
    answer->records_count = validator->result.records_count;
    return true;
}

static bool is_plain(const sgs_append_lane *lane, size_t size)
{
    return lane->leader_epoch >= 0 && size > 0 && size <= (size_t)lane->max_batch_bytes &&
           size <= (size_t)lane->max_segment_bytes;
}

sgs_status sgs_append_lane_leader(sgs_append_lane *lane, sgs_log_segment *segment, sgs_log_validator *validator,
                                  const uint8_t *data, size_t size, int64_t now_ms, sgs_lane_append *answer,
                                  sgs_error *err)
{
    const sgs_append_rules rules = { .origin = SGS_ORIGIN_CLIENT, .max_message_bytes = lane->max_batch_bytes };
    sgs_append_analysis analysis;
    sgs_error ignored;
    *answer = (sgs_lane_append){ .taken = false };
    if (!is_plain(lane, size) || sgs_analyze_append(data, size, &rules, &lane->table, &analysis, &ignored) != SGS_OK ||
        analysis.batches_count != 1 || analysis.valid_bytes != (int64_t)size)
        return SGS_OK;
    sgs_batch_header row = sgs_batch_table_rows(&lane->table)[0];
    if (row.magic != CURRENT_MAGIC || row.attributes != 0 || row.producer_id >= 0)
        return SGS_OK;
    uint8_t header[SGS_BATCH_HEADER_BYTES];
    start(lane, validator, now_ms);
    const sgs_status checked =
        sgs_validate_and_stamp_header(validator, lane->next_offset, data, size, header, &row, &ignored);
    if (!is_stamped(validator, checked, answer) ||
        !has_room(lane, segment, size, row.last_offset, answer->max_timestamp, now_ms))
        return SGS_OK;
    const sgs_slice pieces[] = { { header, sizeof header }, { data + sizeof header, size - sizeof header } };
    return write_batches(lane, segment, pieces, 2, size, &row, 1, answer, err);
}

sgs_status sgs_append_lane_own(sgs_append_lane *lane, sgs_log_segment *segment, sgs_log_validator *validator,
                               uint8_t *data, size_t size, sgs_batch_header *row, int64_t now_ms,
                               sgs_lane_append *answer, sgs_error *err)
{
    sgs_batch_header stamped = *row; /* the layers get the row and the offsets as they were */
    const sgs_slice piece = { .data = data, .size = size };
    sgs_error ignored;
    *answer = (sgs_lane_append){ .taken = false };
    if (!is_plain(lane, size) || validator->options.log_append_time) /* which is not stamped twice */
        return SGS_OK;
    start(lane, validator, now_ms);
    if (sgs_assign_offsets_by_header(validator, lane->next_offset, data, &stamped)) {
        answer->max_timestamp = stamped.max_timestamp;
        answer->records_count = stamped.records_count;
    } else if (!is_stamped(
                   validator,
                   sgs_validate_and_assign_offsets(validator, lane->next_offset, data, size, &stamped, 1, &ignored),
                   answer)) {
        return SGS_OK;
    }
    if (!has_room(lane, segment, size, stamped.last_offset, answer->max_timestamp, now_ms)) {
        sgs_batch_set_last_offset(data, row->last_offset); /* a codec's records have to count from 0 */
        return SGS_OK;
    }
    return write_batches(lane, segment, &piece, 1, size, &stamped, 1, answer, err);
}

sgs_status sgs_append_lane_follower(sgs_append_lane *lane, sgs_log_segment *segment, const uint8_t *data, size_t size,
                                    int32_t leader_epoch, int64_t now_ms, sgs_lane_append *answer, sgs_error *err)
{
    const sgs_append_rules rules = {
        .origin = SGS_ORIGIN_REPLICATION,
        .leader_epoch = leader_epoch,
        .max_message_bytes = INT32_MAX,
    };
    sgs_append_analysis analysis;
    sgs_error ignored;
    *answer = (sgs_lane_append){ .taken = false };
    if (lane->leader_epoch < 0 || size == 0 || size > (size_t)lane->max_segment_bytes ||
        sgs_analyze_append(data, size, &rules, &lane->table, &analysis, &ignored) != SGS_OK ||
        analysis.batches_count == 0 || analysis.valid_bytes != (int64_t)size)
        return SGS_OK;
    const sgs_batch_header *rows = sgs_batch_table_rows(&lane->table);
    int64_t next_offset = lane->next_offset;
    for (size_t i = 0; i < analysis.batches_count; ++i) {
        const sgs_batch_header *row = &rows[i];
        if (row->magic != CURRENT_MAGIC || (row->attributes & DECIDED_ABOVE) != 0 || row->producer_id >= 0 ||
            row->partition_leader_epoch != lane->leader_epoch || row->base_offset != next_offset ||
            row->last_offset < row->base_offset || row->last_offset > SGS_MAX_OFFSET)
            return SGS_OK;
        next_offset = row->last_offset + 1;
        answer->records_count += row->records_count > 0 ? row->records_count : 0;
    }
    answer->max_timestamp = analysis.max_timestamp;
    if (!has_room(lane, segment, size, next_offset - 1, analysis.max_timestamp, now_ms))
        return SGS_OK;
    const sgs_slice piece = { .data = data, .size = size };
    return write_batches(lane, segment, &piece, 1, size, rows, analysis.batches_count, answer, err);
}
