/* segment_timestamps.c - what a segment knows about time, and look-ups by timestamp [SEG-3, SEG-14, SEG-23, TS-3]. */
#include <inttypes.h>

#include "record/record_section.h"
#include "segment/log_segment_internal.h"

enum { WALK_READ_BYTES = 32768 };

/* What a look-up holds while it goes through batches. */
typedef struct finder {
    sgs_buffer window, scratch;
    sgs_segment_walk walk;
    sgs_batch_header header;
    bool found;
} finder;

static void finder_init(finder *self, const sgs_log_segment *segment)
{
    const sgs_memory memory = sgs_env_memory(segment->context->env);
    sgs_buffer_init(&self->window, memory);
    sgs_buffer_init(&self->scratch, memory);
    self->found = false;
}

static void finder_deinit(finder *self)
{
    sgs_buffer_deinit(&self->window);
    sgs_buffer_deinit(&self->scratch);
}

static sgs_status finder_start(finder *self, sgs_log_segment *segment, int64_t offset, sgs_error *err)
{
    return sgs_segment_walk_from(&self->walk, segment, offset, &self->window, WALK_READ_BYTES, &self->header,
                                 &self->found, err);
}

static sgs_status finder_next(finder *self, sgs_error *err)
{
    return sgs_segment_walk_next(&self->walk, &self->header, &self->found, err);
}

/* The first record of the present batch with timestamp >= `timestamp` and offset >= `starting_offset`. */
static sgs_status search_batch(finder *self, sgs_log_segment *segment, int64_t timestamp, int64_t starting_offset,
                               sgs_found_timestamp *out, sgs_error *err)
{
    const sgs_segment_context *context = segment->context;
    const int32_t size = self->header.size_bytes;
    sgs_record_reader reader;
    sgs_status status = sgs_segment_walk_take(&self->walk, self->header.position, (size_t)size, err);
    if (status == SGS_OK)
        status = sgs_record_section_open(self->window.data + self->walk.window_start, (size_t)size,
                                         !context->kafka_profile, context->codecs, &self->scratch, &reader, err);
    bool more = status == SGS_OK;
    while (more) {
        sgs_record record;
        status = sgs_record_reader_next(&reader, &record, &more, err);
        if (status != SGS_OK || !more)
            break;
        if (record.timestamp >= timestamp && record.offset >= starting_offset) {
            *out = (sgs_found_timestamp){
                .found = true,
                .timestamp = record.timestamp,
                .offset = record.offset,
                .leader_epoch = self->header.partition_leader_epoch,
            };
            break;
        }
    }
    if (status == SGS_OK)
        return SGS_OK;
    if (err->position < 0)
        err->position = self->header.position;
    return sgs_segment_fail_in_log(segment, err);
}

static sgs_status time_floor(sgs_log_segment *segment, int64_t timestamp, sgs_timestamp_offset *entry, sgs_error *err)
{
    sgs_time_index *index;
    sgs_status status = sgs_log_segment_time_index(segment, &index, err);
    if (status == SGS_OK)
        status = sgs_time_index_lookup(index, timestamp, entry, err);
    if (status == SGS_OK || !sgs_segment_goes_without_index(segment, status))
        return status;
    *entry = (sgs_timestamp_offset){ .timestamp = -1, .offset = segment->base_offset };
    return SGS_OK;
}

sgs_status sgs_log_segment_find_offset_by_timestamp(sgs_log_segment *segment, int64_t timestamp,
                                                    int64_t starting_offset, int64_t max_position,
                                                    sgs_found_timestamp *out, sgs_error *err)
{
    finder self;
    sgs_timestamp_offset entry;
    sgs_found_timestamp answer = { .found = false, .leader_epoch = SGS_NO_PARTITION_LEADER_EPOCH };
    sgs_status status = time_floor(segment, timestamp, &entry, err);
    if (status != SGS_OK)
        return status;
    finder_init(&self, segment);
    status = finder_start(&self, segment, entry.offset > starting_offset ? entry.offset : starting_offset, err);
    while (status == SGS_OK && self.found && !answer.found) {
        if (self.header.max_timestamp >= timestamp && self.header.last_offset >= starting_offset)
            status = search_batch(&self, segment, timestamp, starting_offset, &answer, err);
        if (status == SGS_OK && !answer.found)
            status = finder_next(&self, err);
    }
    if (status == SGS_OK && !answer.found)
        status = sgs_segment_walk_check_end(&self.walk, max_position, err);
    finder_deinit(&self);
    if (status == SGS_OK)
        *out = answer;
    return status;
}

sgs_status sgs_log_segment_find_max_timestamp(sgs_log_segment *segment, sgs_found_timestamp *out, sgs_error *err)
{
    finder self;
    sgs_timestamp_offset max_timestamp;
    sgs_found_timestamp answer = { .found = false, .leader_epoch = SGS_NO_PARTITION_LEADER_EPOCH };
    sgs_status status = sgs_log_segment_max_timestamp(segment, &max_timestamp, err);
    if (status != SGS_OK)
        return status;
    finder_init(&self, segment);
    status = finder_start(&self, segment, max_timestamp.offset, err);
    while (status == SGS_OK && self.found && self.header.max_timestamp != max_timestamp.timestamp)
        status = finder_next(&self, err);
    if (status == SGS_OK && self.found && self.header.magic >= 1) /* a magic 0 batch has no answer [TS-3] */
        status = search_batch(&self, segment, max_timestamp.timestamp, segment->base_offset, &answer, err);
    finder_deinit(&self);
    if (status == SGS_OK)
        *out = answer;
    return status;
}

sgs_status sgs_log_segment_first_batch_timestamp(sgs_log_segment *segment, int64_t *timestamp, sgs_error *err)
{
    const int64_t known = atomic_load_explicit(&segment->first_batch_timestamp, memory_order_relaxed);
    if (known != INT64_MIN) {
        *timestamp = known;
        return SGS_OK;
    }
    finder self;
    finder_init(&self, segment);
    sgs_segment_walk_start(&self.walk, segment, &self.window, 0, SGS_BATCH_HEADER_BYTES);
    const sgs_status status = finder_next(&self, err);
    if (status == SGS_OK) {
        *timestamp = self.found ? self.header.max_timestamp : SGS_NO_TIMESTAMP;
        if (self.found)
            atomic_store_explicit(&segment->first_batch_timestamp, self.header.max_timestamp, memory_order_relaxed);
    }
    finder_deinit(&self);
    return status;
}

sgs_status sgs_segment_last_time_entry(sgs_log_segment *segment, sgs_timestamp_offset *entry, sgs_error *err)
{
    /* A look-up of the greatest timestamp; unlike the cached last entry it may run beside an append. */
    return time_floor(segment, INT64_MAX, entry, err);
}

sgs_status sgs_segment_largest_timestamp_after(sgs_log_segment *segment, sgs_timestamp_offset *max_timestamp,
                                               sgs_error *err)
{
    finder self;
    finder_init(&self, segment);
    sgs_timestamp_offset largest = *max_timestamp;
    sgs_status status = finder_start(&self, segment, largest.offset, err);
    while (status == SGS_OK && self.found) {
        if (self.header.max_timestamp > largest.timestamp)
            largest = (sgs_timestamp_offset){
                .timestamp = self.header.max_timestamp,
                .offset = self.header.last_offset,
            };
        status = finder_next(&self, err);
    }
    if (status == SGS_CORRUPT_RECORD && !segment->context->writable)
        status = SGS_OK; /* the preallocated tail of a log that somebody else writes is the end for now [DUR-76] */
    finder_deinit(&self);
    if (status == SGS_OK)
        *max_timestamp = largest;
    return status;
}

sgs_status sgs_log_segment_max_timestamp(sgs_log_segment *segment, sgs_timestamp_offset *out, sgs_error *err)
{
    if (!atomic_load_explicit(&segment->has_max_timestamp, memory_order_acquire)) {
        sgs_timestamp_offset loaded;
        sgs_status status = sgs_segment_last_time_entry(segment, &loaded, err);
        /* The time index of a log that somebody else writes lags behind, or is missing: the rest comes from headers. */
        if (status == SGS_OK && !segment->context->writable)
            status = sgs_segment_largest_timestamp_after(segment, &loaded, err);
        if (status != SGS_OK)
            return status;
        sgs_segment_lock_guard(segment);
        if (!atomic_load_explicit(&segment->has_max_timestamp, memory_order_relaxed)) {
            segment->max_timestamp = loaded;
            atomic_store_explicit(&segment->has_max_timestamp, true, memory_order_release);
        }
        sgs_segment_unlock_guard(segment);
    }
    sgs_segment_lock_guard(segment);
    *out = segment->max_timestamp;
    sgs_segment_unlock_guard(segment);
    return SGS_OK;
}
