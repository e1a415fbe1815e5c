/* segment_append.c - write whole batches at the end [SEG-5, DUR-12].
 *
 * ORDER  refuse what cannot be; write all bytes with one pwritev; publish the size; then the index entries [CON-4]. An index
 *        that is full or cannot grow takes no more entries and fails nothing (SEG-27 port, DUR-25). For Kafka it fails the
 *        append, with the bytes in the file, and so does an entry that does not increase [SEG-10, DUR-62]; a broken
 *        invariant does so always [DUR-44]. */
#include <inttypes.h>

#include "segment/log_segment_internal.h"

static sgs_status sum_sizes(const sgs_slice *slices, size_t slices_count, const sgs_batch_header *rows,
                            size_t rows_count, int64_t *bytes, sgs_error *err)
{
    uint64_t in_slices = 0; /* a sum of memory sizes: 64 bits hold it */
    uint64_t in_rows = 0;
    for (size_t i = 0; i < slices_count; ++i)
        in_slices += slices[i].size;
    for (size_t i = 0; i < rows_count; ++i) {
        if (rows[i].size_bytes <= 0)
            return sgs_fail(err, SGS_ILLEGAL_ARGUMENT, "a batch of %" PRId32 " bytes", rows[i].size_bytes);
        in_rows += (uint32_t)rows[i].size_bytes;
    }
    if (in_slices != in_rows)
        return sgs_fail(err, SGS_ILLEGAL_ARGUMENT, "%" PRIu64 " bytes to write, but the batches have %" PRIu64,
                        in_slices, in_rows);
    if (in_rows > INT32_MAX)
        return sgs_fail(err, SGS_ILLEGAL_ARGUMENT, "%" PRIu64 " bytes do not fit a segment", in_rows);
    *bytes = (int64_t)in_rows;
    return SGS_OK;
}

/* The first append to a segment with batches looks where they end; later ones know. Bytes that are no batch at the end would
 * hide from every reader what is written behind them [DUR-79]. */
static sgs_status know_next_offset(sgs_log_segment *segment, sgs_error *err)
{
    int64_t next_offset;
    bool ends_clean;
    if (segment->next_offset >= 0 || segment->context->kafka_profile)
        return SGS_OK;
    const sgs_status status = sgs_log_segment_read_next_offset(segment, &next_offset, &ends_clean, err);
    if (status != SGS_OK)
        return status;
    if (!ends_clean)
        return sgs_fail(err, SGS_CORRUPT_LOG, "bytes that are no batch follow offset %" PRId64, next_offset - 1);
    SGS_EXPECT(next_offset >= segment->base_offset);
    segment->next_offset = next_offset;
    return SGS_OK;
}

/* Offsets go up, from the last one of the segment on: two batches of the same ones would be two truths, and a recovery would
 * cut the second with all behind it. What the indexes would refuse after the bytes are in the file [SEG-10] comes with it. */
static sgs_status check_offsets(const sgs_log_segment *segment, const sgs_batch_header *rows, size_t rows_count,
                                sgs_error *err)
{
    const bool kafka_profile = segment->context->kafka_profile; /* looks at the last batch, for its offset to fit */
    SGS_EXPECT(kafka_profile || segment->next_offset >= segment->base_offset);
    int64_t previous = segment->next_offset - 1;
    for (size_t i = kafka_profile && rows_count > 0 ? rows_count - 1 : 0; i < rows_count; ++i) {
        int32_t relative_offset;
        const int64_t base_offset = rows[i].base_offset;
        const int64_t last_offset = rows[i].last_offset;
        if (last_offset > SGS_MAX_OFFSET) /* whoever assigned it; not even Kafka's log goes on behind it [DUR-89] */
            return sgs_fail(err, SGS_INVALID_OFFSET, "no offset is left after %" PRId64, last_offset);
        if (!sgs_relative_offset(segment->base_offset, last_offset, &relative_offset))
            return sgs_fail(err, SGS_SEGMENT_OFFSET_OVERFLOW,
                            "offset %" PRId64 " does not fit a segment with base offset %" PRId64, last_offset,
                            segment->base_offset);
        if (!kafka_profile && (last_offset <= previous || base_offset <= previous))
            return sgs_fail(err, SGS_INVALID_OFFSET, "offsets %" PRId64 " to %" PRId64 " come after %" PRId64,
                            base_offset, last_offset, previous);
        previous = last_offset;
    }
    return SGS_OK;
}

static sgs_status check_append(sgs_log_segment *segment, const sgs_slice *slices, size_t slices_count,
                               const sgs_batch_header *rows, size_t rows_count, int64_t *bytes, sgs_error *err)
{
    sgs_status status = sgs_segment_check_writable(segment, err);
    if (status != SGS_OK)
        return status;
    if (segment->sealed)
        status = sgs_fail(err, SGS_ILLEGAL_STATE, "the segment is no longer active");
    if (status == SGS_OK)
        status = sum_sizes(slices, slices_count, rows, rows_count, bytes, err);
    const int64_t size = sgs_log_segment_size(segment);
    if (status == SGS_OK && size + *bytes > INT32_MAX)
        status = sgs_fail(err, SGS_ILLEGAL_ARGUMENT, "%" PRId64 " bytes do not fit after %" PRId64, *bytes, size);
    /* Loaded before anything is written: a failure here rejects the append and changes nothing [DUR-30, DUR-31]. */
    if (status == SGS_OK)
        status = sgs_segment_load_indexes(segment, err);
    if (status == SGS_CORRUPT_INDEX || status == SGS_LIMIT_EXCEEDED) {
        sgs_segment_note_damage(segment); /* the append does without [DUR-25] */
        status = SGS_OK;
    }
    if (status == SGS_OK)
        status = know_next_offset(segment, err);
    if (status == SGS_OK)
        status = check_offsets(segment, rows, rows_count, err);
    SGS_EXPECT(status != SGS_OK || size + *bytes <= INT32_MAX);
    return status == SGS_OK ? SGS_OK : sgs_segment_fail_in_log(segment, err);
}

/* [DUR-32] back to the old end; the shrink reaches the disk before anything else is written there [DUR-17] */
static void cut_back(sgs_log_segment *segment, int fd, const char *name, int32_t size)
{
    const sgs_env *env = segment->context->env;
    sgs_error ignored; /* the caller reports the failure of the write */
    SGS_EXPECT(sgs_log_segment_size(segment) == size);
    if (env->truncate(env, fd, name, size, &ignored) != SGS_OK ||
        sgs_segment_sync_cut(segment, fd, name, SGS_BARRIER(REFUSED_RECORDS), &ignored) != SGS_OK)
        sgs_segment_poison(segment);
}

static bool takes_entries(const sgs_log_segment *segment)
{
    return segment->offset_index.base.is_open && segment->time_index.base.is_open &&
           !segment->offset_index.base.is_stale && !segment->time_index.base.is_stale &&
           !sgs_offset_index_is_full(&segment->offset_index) && !sgs_time_index_is_full(&segment->time_index);
}

/* The largest timestamp before an append. Where damage hides it, this append and later ones make no time-index entry: an
 * entry promises that no record before it has a later time [DUR-79]. */
static sgs_status know_max_timestamp(sgs_log_segment *segment, sgs_timestamp_offset *max_timestamp, sgs_error *err)
{
    bool is_partial;
    if (segment->max_is_hidden)
        return SGS_OK;
    SGS_TRY(sgs_log_segment_max_timestamp(segment, max_timestamp, &is_partial, err));
    if (is_partial)
        sgs_segment_hide_max_timestamp(segment);
    return SGS_OK;
}

static sgs_status add_entries(sgs_log_segment *segment, int64_t last_offset, int32_t position,
                              sgs_timestamp_offset max_timestamp, sgs_error *err)
{
    const sgs_env *env = segment->context->env;
    char name[SGS_SEGMENT_NAME_BYTES];
    SGS_EXPECT(position >= 0 && position < sgs_log_segment_size(segment)); /* bytes before entries [CON-4] */
    sgs_segment_name(segment, SGS_FILE_INDEX, name);
    const sgs_status status = sgs_offset_index_append(&segment->offset_index, env, name, last_offset, position, err);
    if (status != SGS_OK)
        return status;
    if (segment->max_is_hidden)
        return SGS_OK;
    sgs_segment_name(segment, SGS_FILE_TIMEINDEX, name);
    return sgs_time_index_maybe_append(&segment->time_index, env, name, max_timestamp.timestamp, max_timestamp.offset,
                                       false, err);
}

/* [SEG-5.5] one decision a batch: the entry is made before the batch's own bytes are counted */
static sgs_status index_batches(sgs_log_segment *segment, const sgs_batch_header *rows, size_t rows_count,
                                int32_t position, sgs_timestamp_offset max_timestamp, sgs_error *err)
{
    const bool kafka_profile = segment->context->kafka_profile;
    const uint32_t interval = segment->context->index_interval_bytes;
    sgs_timestamp_offset running = max_timestamp;
    sgs_status status = SGS_OK;
    for (size_t i = 0; i < rows_count; ++i) {
        if (rows[i].max_timestamp > running.timestamp)
            running = (sgs_timestamp_offset){ .timestamp = rows[i].max_timestamp, .offset = rows[i].last_offset };
        if (segment->bytes_since_last_index_entry > interval && (kafka_profile || takes_entries(segment))) {
            status = add_entries(segment, rows[i].last_offset, position, running, err);
            if (status == SGS_INTERNAL || (status != SGS_OK && kafka_profile)) /* [DUR-44] */
                break;
            if (status != SGS_OK) /* one that cannot grow is stale; anything else means that it is not what it was */
                sgs_segment_note_damage(segment);
            status = SGS_OK;
            segment->bytes_since_last_index_entry = 0;
        }
        position += rows[i].size_bytes;
        segment->bytes_since_last_index_entry += (uint32_t)rows[i].size_bytes;
    }
    SGS_EXPECT(status != SGS_OK || position == sgs_log_segment_size(segment));
    SGS_EXPECT(running.timestamp >= max_timestamp.timestamp);
    if (!segment->max_is_hidden && running.timestamp > max_timestamp.timestamp)
        sgs_segment_set_max_timestamp(segment, running);
    return status;
}

static int64_t count_records(const sgs_batch_header *rows, size_t rows_count)
{
    int64_t count = 0; /* by offsets, as Kafka's flush.messages counts */
    for (size_t i = 0; i < rows_count; ++i) {
        int32_t delta;
        count += sgs_relative_offset(rows[i].base_offset, rows[i].last_offset, &delta) ? (int64_t)delta + 1 : 1;
    }
    return count;
}

sgs_status sgs_log_segment_append(sgs_log_segment *segment, const sgs_slice *slices, size_t slices_count,
                                  const sgs_batch_header *rows, size_t rows_count, bool *poisoned, sgs_error *err)
{
    const sgs_env *env = segment->context->env;
    *poisoned = atomic_load_explicit(&segment->poisoned, memory_order_relaxed);
    int64_t bytes = 0;
    int fd = -1;
    sgs_timestamp_offset max_timestamp = { .timestamp = -1, .offset = segment->base_offset };
    sgs_status status = check_append(segment, slices, slices_count, rows, rows_count, &bytes, err);
    if (status == SGS_OK && bytes == 0)
        return SGS_OK;
    if (status == SGS_OK)
        status = sgs_segment_descriptor(segment, &fd, err);
    if (status == SGS_OK)
        status = know_max_timestamp(segment, &max_timestamp, err);
    if (status != SGS_OK)
        return status;

    char name[SGS_SEGMENT_NAME_BYTES];
    const int32_t position = sgs_log_segment_size(segment);
    int64_t written;
    SGS_EXPECT(rows_count > 0 && bytes > 0 && fd >= 0 && !segment->sealed);
    SGS_EXPECT(sgs_segment_see_cuts(segment) % 2 == 0); /* a cut has the same lock */
    sgs_segment_name(segment, SGS_FILE_LOG, name);
    status = env->write_at(env, fd, name, slices, slices_count, position, &written, err);
    atomic_store_explicit(&segment->needs_sync, true, memory_order_relaxed);
    if (status != SGS_OK) {
        if (status != SGS_RESOURCE || written > 0) /* else there was no descriptor, and nothing was tried [DUR-31] */
            cut_back(segment, fd, name, position);
        *poisoned = atomic_load_explicit(&segment->poisoned, memory_order_relaxed);
        return status;
    }
    SGS_EXPECT(written == bytes);
    SGS_EXPECT(sgs_log_segment_size(segment) == position); /* nobody else appends */
    segment->next_offset = rows[rows_count - 1].last_offset + 1;
    SGS_EXPECT(segment->next_offset > segment->base_offset || segment->context->kafka_profile);
    atomic_store_explicit(&segment->size, position + (int32_t)bytes, memory_order_release);
    atomic_fetch_add_explicit(&segment->unflushed_records, count_records(rows, rows_count), memory_order_relaxed);
    return index_batches(segment, rows, rows_count, position, max_timestamp, err);
}
