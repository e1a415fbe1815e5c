/* append_analysis.c - the rules of format.md 12.1, one batch after the other. */
#include "record/append_analysis.h"

#include <inttypes.h>

static bool keeps_offsets(const sgs_append_rules *rules)
{
    return rules->origin == SGS_ORIGIN_REPLICATION || rules->origin == SGS_ORIGIN_RAFT_LEADER;
}

static sgs_status refuse(sgs_append_analysis *analysis, sgs_append_refusal refusal, sgs_status status)
{
    analysis->refusal = refusal;
    return status;
}

static sgs_status fail_for_size(const sgs_append_rules *rules, size_t index, int32_t size_bytes, sgs_error *err)
{
    (void)sgs_fail_too_large(err, SGS_LIMIT_EXCEEDED, (uint64_t)size_bytes, (uint64_t)rules->max_message_bytes);
    return sgs_say(err, "batch %zu: %" PRId32 " bytes are more than max.message.bytes, %" PRId32, index, size_bytes,
                   rules->max_message_bytes);
}

static sgs_status check_row(const uint8_t *data, const sgs_batch_header *row, const sgs_append_rules *rules,
                            sgs_append_analysis *analysis, sgs_error *err)
{
    const size_t index = analysis->batches_count;
    if (rules->origin == SGS_ORIGIN_RAFT_LEADER && row->partition_leader_epoch != rules->leader_epoch)
        return refuse(analysis, SGS_APPEND_OTHER_EPOCH,
                      sgs_fail(err, SGS_INVALID_RECORD, "batch %zu: leader epoch %" PRId32 ", expected %" PRId32, index,
                               row->partition_leader_epoch, rules->leader_epoch));
    if (rules->origin == SGS_ORIGIN_CLIENT && row->magic >= 2 && row->base_offset != 0)
        return refuse(analysis, SGS_APPEND_BASE_OFFSET,
                      sgs_fail(err, SGS_INVALID_RECORD,
                               "batch %zu: a producer's batch begins at offset 0, not %" PRId64, index,
                               row->base_offset));
    if (rules->origin != SGS_ORIGIN_REPLICATION && row->size_bytes > rules->max_message_bytes)
        return refuse(analysis, SGS_APPEND_TOO_LARGE, fail_for_size(rules, index, row->size_bytes, err));
    const sgs_status status = sgs_batch_check(data + row->position, (size_t)row->size_bytes, row->position, err);
    if (status != SGS_OK)
        return refuse(analysis, SGS_APPEND_DAMAGED, status);
    if (keeps_offsets(rules) && row->last_offset <= analysis->last_offset)
        return refuse(analysis, SGS_APPEND_OUT_OF_ORDER,
                      sgs_fail(err, SGS_INVALID_RECORD,
                               "batch %zu: its last offset, %" PRId64 ", does not ascend from %" PRId64, index,
                               row->last_offset, analysis->last_offset));
    if (sgs_batch_codec(row) > SGS_CODEC_ZSTD)
        return refuse(
            analysis, SGS_APPEND_UNKNOWN_CODEC,
            sgs_fail(err, SGS_UNSUPPORTED_FORMAT, "batch %zu: codec id %d is unknown", index, sgs_batch_codec(row)));
    return SGS_OK;
}

static void count_row(const sgs_batch_header *row, sgs_append_analysis *analysis)
{
    if (analysis->batches_count++ == 0)
        analysis->first_offset = row->magic >= 2 ? row->base_offset : row->last_offset;
    analysis->last_offset = row->last_offset;
    analysis->last_leader_epoch = row->partition_leader_epoch;
    if (row->max_timestamp > analysis->max_timestamp)
        analysis->max_timestamp = row->max_timestamp;
    if (sgs_batch_codec(row) != SGS_CODEC_NONE)
        analysis->source_codec = sgs_batch_codec(row);
    analysis->valid_bytes = row->position + row->size_bytes;
}

sgs_status sgs_analyze_append(const uint8_t *data, size_t size, const sgs_append_rules *rules, sgs_batch_table *table,
                              sgs_append_analysis *analysis, sgs_error *err)
{
    sgs_scan_options options;
    sgs_scan_result found;
    *analysis = (sgs_append_analysis){ .first_offset = -1,
                                       .last_offset = -1,
                                       .max_timestamp = SGS_NO_TIMESTAMP,
                                       .last_leader_epoch = SGS_NO_PARTITION_LEADER_EPOCH };
    sgs_buffer_clear(&table->rows);
    sgs_scan_options_default(&options, SGS_SCAN_MEMORY);
    options.check_crc = false; /* its turn comes: a batch that is too large is that first */
    sgs_status status = sgs_batch_scan_buffer(data, size, &options, table, &found, err);
    if (status != SGS_OK)
        return status;
    const sgs_batch_header *const rows = sgs_batch_table_rows(table);
    bool is_cut = false;
    for (size_t i = 0; i < sgs_batch_table_count(table) && !is_cut; ++i) {
        is_cut = rules->origin == SGS_ORIGIN_REPLICATION &&
                 rows[i].partition_leader_epoch != SGS_NO_PARTITION_LEADER_EPOCH &&
                 rows[i].partition_leader_epoch > rules->leader_epoch;
        if (is_cut)
            break;
        status = check_row(data, &rows[i], rules, analysis, err);
        if (status != SGS_OK)
            return status;
        count_row(&rows[i], analysis);
    }
    table->rows.size = analysis->batches_count * sizeof(sgs_batch_header);
    if (found.stop != SGS_SCAN_CORRUPT)
        return SGS_OK;
    *err = found.why;
    return refuse(analysis, SGS_APPEND_DAMAGED, found.why.status);
}
