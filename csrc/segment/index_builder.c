/* index_builder.c - both indexes of a segment from its batches alone, with the cadence of recovery [SEG-40, T-2].
 *
 * The entries are computed in memory while the batches are scanned; the files change only when the scan is over [DUR-57].
 * An index that is full takes no more entries, and neither does the other one (SEG-41 and SEG-27 port). */
#include <inttypes.h>

#include "segment/log_segment_internal.h"

void sgs_index_builder_init(sgs_index_builder *builder, const sgs_log_segment *segment)
{
    const sgs_segment_context *context = segment->context;
    const sgs_memory memory = sgs_env_memory(context->env);
    *builder = (sgs_index_builder){
        .base_offset = segment->base_offset,
        .max_timestamp = { .timestamp = -1, .offset = segment->base_offset },
        .interval_bytes = context->index_interval_bytes,
        .max_offset_entries = context->max_index_bytes / SGS_OFFSET_INDEX_ENTRY_BYTES,
        .max_time_entries = context->max_index_bytes / SGS_TIME_INDEX_ENTRY_BYTES,
    };
    sgs_buffer_init(&builder->offset_entries, memory);
    sgs_buffer_init(&builder->time_entries, memory);
}

void sgs_index_builder_deinit(sgs_index_builder *builder)
{
    sgs_buffer_deinit(&builder->offset_entries);
    sgs_buffer_deinit(&builder->time_entries);
}

static const sgs_offset_position *offset_entries(const sgs_index_builder *builder, size_t *count)
{
    *count = builder->offset_entries.size / sizeof(sgs_offset_position);
    return (const sgs_offset_position *)(const void *)builder->offset_entries.data;
}

static const sgs_timestamp_offset *time_entries(const sgs_index_builder *builder, size_t *count)
{
    *count = builder->time_entries.size / sizeof(sgs_timestamp_offset);
    return (const sgs_timestamp_offset *)(const void *)builder->time_entries.data;
}

static sgs_status add_entries(sgs_index_builder *builder, const sgs_batch_header *row, sgs_error *err)
{
    size_t offsets_count;
    size_t times_count;
    const sgs_offset_position *offsets = offset_entries(builder, &offsets_count);
    const sgs_timestamp_offset *times = time_entries(builder, &times_count);
    if (offsets_count >= builder->max_offset_entries || (int64_t)times_count >= (int64_t)builder->max_time_entries - 1)
        return SGS_OK;
    SGS_EXPECT(row->position <= INT32_MAX && times_count <= offsets_count);
    SGS_EXPECT(offsets_count == 0 || row->position > offsets[offsets_count - 1].position);
    SGS_EXPECT(times_count == 0 || builder->max_timestamp.timestamp >= times[times_count - 1].timestamp);
    /* Kafka notices offsets that go back only here, at indexed batches [SEG-41] */
    if (offsets_count > 0 && row->last_offset <= offsets[offsets_count - 1].offset)
        return sgs_fail_at(err, SGS_INVALID_OFFSET, row->position, "an offset above the last one indexed",
                           "%" PRId64 " after %" PRId64, row->last_offset, offsets[offsets_count - 1].offset);

    const sgs_offset_position entry = { .offset = row->last_offset, .position = (int32_t)row->position };
    sgs_status status = sgs_buffer_append(&builder->offset_entries, &entry, sizeof entry, err);
    const int64_t last_timestamp = times_count == 0 ? -1 : times[times_count - 1].timestamp;
    if (status == SGS_OK && builder->max_timestamp.timestamp > last_timestamp)
        status = sgs_buffer_append(&builder->time_entries, &builder->max_timestamp, sizeof builder->max_timestamp, err);
    builder->last_indexed_position = row->position;
    return status;
}

sgs_status sgs_index_builder_add(sgs_index_builder *builder, const sgs_batch_header *row, sgs_error *err)
{
    int32_t relative_offset;
    if (!sgs_relative_offset(builder->base_offset, row->last_offset, &relative_offset))
        return sgs_fail_at(err, SGS_SEGMENT_OFFSET_OVERFLOW, row->position,
                           "an offset within 2^31 - 1 of the base offset", "%" PRId64 " at base %" PRId64,
                           row->last_offset, builder->base_offset);
    SGS_EXPECT(row->position >= builder->last_indexed_position && row->size_bytes > 0);
    if (row->max_timestamp > builder->max_timestamp.timestamp)
        builder->max_timestamp = (sgs_timestamp_offset){ .timestamp = row->max_timestamp, .offset = row->last_offset };
    if (row->position - builder->last_indexed_position > (int64_t)builder->interval_bytes)
        return add_entries(builder, row, err);
    return SGS_OK;
}

static sgs_status write_offset_index(const sgs_index_builder *builder, sgs_log_segment *segment, sgs_error *err)
{
    const sgs_env *env = segment->context->env;
    sgs_offset_index *index = &segment->offset_index;
    char name[SGS_SEGMENT_NAME_BYTES];
    size_t count;
    const sgs_offset_position *entries = offset_entries(builder, &count);
    sgs_segment_name(segment, SGS_FILE_INDEX, name);
    sgs_status status = sgs_abstract_index_reset(&index->base, env, name, segment->context->max_index_bytes, err);
    SGS_EXPECT(status != SGS_OK || (sgs_abstract_index_entries(&index->base) == 0 && count <= index->base.max_entries));
    sgs_offset_index_refresh(index);
    for (size_t i = 0; status == SGS_OK && i < count; ++i)
        status = sgs_offset_index_append(index, env, name, entries[i].offset, entries[i].position, err);
    SGS_EXPECT(status != SGS_OK || sgs_abstract_index_entries(&index->base) == count);
    return status == SGS_OK ? sgs_abstract_index_trim(&index->base, env, name, err) : status;
}

static sgs_status write_time_index(const sgs_index_builder *builder, sgs_log_segment *segment, sgs_error *err)
{
    const sgs_env *env = segment->context->env;
    sgs_time_index *index = &segment->time_index;
    char name[SGS_SEGMENT_NAME_BYTES];
    size_t count;
    const sgs_timestamp_offset *entries = time_entries(builder, &count);
    const sgs_timestamp_offset last = builder->max_timestamp;
    sgs_segment_name(segment, SGS_FILE_TIMEINDEX, name);
    sgs_status status = sgs_abstract_index_reset(&index->base, env, name, segment->context->max_index_bytes, err);
    SGS_EXPECT(status != SGS_OK || (sgs_abstract_index_entries(&index->base) == 0 && count <= index->base.max_entries));
    sgs_time_index_refresh(index);
    for (size_t i = 0; status == SGS_OK && i < count; ++i)
        status = sgs_time_index_maybe_append(index, env, name, entries[i].timestamp, entries[i].offset, false, err);
    if (status == SGS_OK)
        status = sgs_time_index_maybe_append(index, env, name, last.timestamp, last.offset, true, err);
    SGS_EXPECT(status != SGS_OK || index->last_entry.timestamp == last.timestamp);
    return status == SGS_OK ? sgs_abstract_index_trim(&index->base, env, name, err) : status;
}

sgs_status sgs_index_builder_write(const sgs_index_builder *builder, sgs_log_segment *segment, sgs_error *err)
{
    SGS_EXPECT(builder->base_offset == segment->base_offset);
    sgs_segment_begin_cut(segment); /* entries go: what a look-up has seen of them is no damage of the new ones */
    sgs_status status = sgs_segment_load_indexes(segment, err);
    if (status == SGS_OK)
        status = write_offset_index(builder, segment, err);
    if (status == SGS_OK)
        status = write_time_index(builder, segment, err);
    SGS_EXPECT(status != SGS_OK || (segment->offset_index.base.is_open && segment->time_index.base.is_open));
    if (status == SGS_OK)
        atomic_store_explicit(&segment->index_damaged, false, memory_order_relaxed);
    else
        sgs_segment_note_damage(segment);
    sgs_segment_end_cut(segment);
    return status;
}

static sgs_status add_rows(void *context, const sgs_batch_header *rows, size_t count, sgs_error *err)
{
    sgs_index_builder *builder = context;
    sgs_status status = SGS_OK;
    for (size_t i = 0; status == SGS_OK && i < count; ++i)
        status = sgs_index_builder_add(builder, &rows[i], err);
    return status;
}

sgs_status sgs_index_builder_scan(sgs_index_builder *builder, sgs_log_segment *segment, const sgs_scan_options *options,
                                  sgs_batch_table *table, sgs_scan_result *result, sgs_error *err)
{
    const sgs_status status = sgs_segment_scan_rows(segment, options, 0, -1, table, add_rows, builder, result, err);
    return status == SGS_OK ? SGS_OK : sgs_segment_fail_in_log(segment, err);
}

/* Entries that name batches behind damage of the .log are the way to these batches, and show that they were there: indexes
 * without them do not take their place [DUR-7, DUR-8]. Look-ups check each entry that they follow. Where the disk does not
 * give out the .log, nothing is known of what its indexes lack. */
static bool lead_behind_damage(const sgs_log_segment *segment, const sgs_index_builder *builder, sgs_status status,
                               const sgs_scan_result *result)
{
    const sgs_abstract_index *offsets = &segment->offset_index.base;
    const sgs_abstract_index *times = &segment->time_index.base;
    size_t offsets_count;
    size_t times_count;
    (void)offset_entries(builder, &offsets_count);
    (void)time_entries(builder, &times_count);
    if (segment->context->kafka_profile || !offsets->is_open || !times->is_open || offsets->is_stale || times->is_stale)
        return false;
    if (status != SGS_OK)
        return status == SGS_READ_IO;
    if (result->stop == SGS_SCAN_COMPLETE)
        return false;
    return offsets->has_rest || times->has_rest ||
           (sgs_abstract_index_entries(offsets) > offsets_count && sgs_abstract_index_entries(times) >= times_count);
}

sgs_status sgs_segment_rebuild_indexes(sgs_log_segment *segment, sgs_error *err)
{
    sgs_index_builder builder;
    sgs_scan_options options;
    sgs_scan_result result;
    sgs_index_builder_init(&builder, segment);
    sgs_scan_options_default(&options, SGS_SCAN_FILE);
    options.kafka_limits = segment->context->kafka_profile;
    options.check_order = !segment->context->kafka_profile; /* a wrong offset is damage: entries ascend */
    options.expected_offset = segment->base_offset;
    sgs_status status = sgs_segment_load_indexes(segment, err);
    if (status == SGS_OK)
        status = sgs_index_builder_scan(&builder, segment, &options, NULL, &result, err);
    if (lead_behind_damage(segment, &builder, status, &result)) {
        atomic_store_explicit(&segment->index_damaged, false, memory_order_relaxed);
        status = SGS_OK;
    } else if (status == SGS_OK) {
        status = sgs_index_builder_write(&builder, segment, err);
    }
    sgs_index_builder_deinit(&builder);
    return status;
}
