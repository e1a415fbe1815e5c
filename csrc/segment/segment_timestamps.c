/* segment_timestamps.c - what a segment knows about time, and look-ups by timestamp [SEG-3, SEG-14, SEG-23, TS-3]. */
#include <inttypes.h>

#include "segment/log_segment_internal.h"

enum {
    WALK_READ_BYTES = 32768,
    ENTRIES_TRIED = 4, /* of a damaged time index, before all batches of the segment are looked at */
};

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
    self->header = (sgs_batch_header){ .position = 0 };
    self->found = false;
}

static void finder_deinit(finder *self)
{
    sgs_buffer_deinit(&self->window);
    sgs_buffer_deinit(&self->scratch);
}

static int64_t larger(int64_t one, int64_t other) { return one > other ? one : other; }

static sgs_timestamp_offset no_entry(const sgs_log_segment *segment) /* [TMX-2] */
{
    return (sgs_timestamp_offset){ .timestamp = -1, .offset = segment->base_offset };
}

static sgs_status finder_start(finder *self, sgs_log_segment *segment, int64_t offset, sgs_error *err)
{
    self->window.size = 0;
    return sgs_segment_walk_from(&self->walk, segment, SGS_WALK_FOR_HEADERS, offset, &self->window, WALK_READ_BYTES,
                                 &self->header, &self->found, err);
}

static sgs_status finder_next(finder *self, sgs_error *err)
{
    return sgs_segment_walk_next(&self->walk, &self->header, &self->found, err);
}

/* The first record of the present batch with timestamp >= `timestamp` and offset >= `starting_offset`. */
static sgs_status search_batch(finder *self, int64_t timestamp, int64_t starting_offset, sgs_found_timestamp *out,
                               sgs_error *err)
{
    return sgs_segment_search_batch(&self->walk, &self->header, timestamp, starting_offset, &self->scratch, out, err);
}

static sgs_status time_floor(sgs_log_segment *segment, int64_t timestamp, sgs_timestamp_offset *entry, sgs_error *err)
{
    sgs_time_index *index;
    const uint32_t seen_cuts = sgs_segment_see_cuts(segment);
    sgs_status status = sgs_log_segment_time_index(segment, &index, err);
    if (status == SGS_OK)
        status = sgs_time_index_lookup(index, timestamp, entry, err);
    if (status == SGS_OK || !sgs_segment_goes_without_index(segment, seen_cuts, status))
        return status;
    *entry = no_entry(segment);
    return SGS_OK;
}

static bool is_damage(sgs_status status) { return status == SGS_CORRUPT_RECORD || status == SGS_LIMIT_EXCEEDED; }

/* Whether the batch with the entry's offset has its timestamp; the finder stands where a walk to that batch begins. */
static sgs_status start_at_entry(finder *self, sgs_log_segment *segment, const sgs_timestamp_offset *entry, bool *fits,
                                 sgs_error *err)
{
    sgs_status status = finder_start(self, segment, entry->offset, err);
    const sgs_batch_header first = self->header;
    const bool found = status == SGS_OK && self->found;
    while (status == SGS_OK && self->found && self->header.last_offset < entry->offset)
        status = finder_next(self, err);
    if (status != SGS_OK && !is_damage(status))
        return status;
    *fits = status == SGS_OK && self->found && self->header.base_offset <= entry->offset &&
            self->header.max_timestamp == entry->timestamp;
    SGS_EXPECT(!*fits || self->header.position >= first.position);
    if (*fits && found && self->header.position != first.position) {
        sgs_segment_walk_go_back(&self->walk, &first);
        self->header = first;
    }
    return SGS_OK;
}

/* Start where no batch before has a timestamp above that of an entry of the time index: the last one at or below
 * `timestamp`, which is given back, or (-1, base offset) for none. Records below `starting_offset` do not count.
 *
 * The index has no checksum, so that an entry (T, O) is compared with the log [DUR-53]: the batch with O has to have T as its
 * greatest timestamp, and the entry behind a greater offset (sgs_time_index_lookup looks). That finds every wrong T. A
 * wrong O that both fit lies before the next entry's, and the walk begins at an offset index entry: up to there nothing was
 * above T, or it would have got an entry in both indexes [SEG-5.5]. What may lie there is another batch with just T; so
 * whoever looks for T asks for the entries below it. */
static sgs_status start_by_time(finder *self, sgs_log_segment *segment, int64_t timestamp, int64_t starting_offset,
                                sgs_timestamp_offset *entry, sgs_error *err)
{
    int64_t target = timestamp;
    for (int attempt = 0; attempt < ENTRIES_TRIED; ++attempt) {
        bool fits;
        const uint32_t seen_cuts = sgs_segment_see_cuts(segment);
        sgs_status status = time_floor(segment, target, entry, err);
        if (status != SGS_OK)
            return status;
        if (entry->timestamp < 0)
            break;
        if (sgs_segment_believes_indexes(segment) || entry->offset <= starting_offset)
            return finder_start(self, segment, larger(entry->offset, starting_offset), err);
        status = start_at_entry(self, segment, entry, &fits, err);
        if (status != SGS_OK || fits)
            return status;
        sgs_segment_suspect_damage(segment, seen_cuts);
        SGS_EXPECT(entry->timestamp <= target); /* each attempt looks below the last one */
        target = entry->timestamp - 1;
    }
    *entry = no_entry(segment);
    return finder_start(self, segment, larger(segment->base_offset, starting_offset), err);
}

/* Start where no batch before has `timestamp` or a later one. */
static sgs_status start_below_time(finder *self, sgs_log_segment *segment, int64_t timestamp, int64_t starting_offset,
                                   sgs_error *err)
{
    sgs_timestamp_offset entry;
    const bool as_kafka = sgs_segment_believes_indexes(segment) || timestamp == INT64_MIN;
    return start_by_time(self, segment, as_kafka ? timestamp : timestamp - 1, starting_offset, &entry, err);
}

/* From the present batch on. */
static sgs_status search_on(finder *self, int64_t timestamp, int64_t starting_offset, sgs_found_timestamp *answer,
                            sgs_error *err)
{
    sgs_status status = SGS_OK;
    while (status == SGS_OK && self->found && !answer->found) {
        if (self->header.max_timestamp >= timestamp && self->header.last_offset >= starting_offset)
            status = search_batch(self, timestamp, starting_offset, answer, err);
        SGS_EXPECT(!answer->found || (answer->timestamp >= timestamp && answer->offset >= starting_offset));
        if (status == SGS_OK && !answer->found)
            status = finder_next(self, err);
    }
    return status;
}

sgs_status sgs_log_segment_find_offset_by_timestamp(sgs_log_segment *segment, int64_t timestamp,
                                                    int64_t starting_offset, int64_t max_position,
                                                    sgs_found_timestamp *out, sgs_error *err)
{
    finder self;
    sgs_found_timestamp answer = { .found = false, .leader_epoch = SGS_NO_PARTITION_LEADER_EPOCH };
    finder_init(&self, segment);
    sgs_status status = start_below_time(&self, segment, timestamp, starting_offset, err);
    if (status == SGS_OK)
        status = search_on(&self, timestamp, starting_offset, &answer, err);
    if (is_damage(status) && max_position >= 0 && err->position >= max_position)
        status = SGS_OK; /* behind all that is visible: the preallocated bytes of who writes this log [DUR-76] */
    if (status == SGS_OK && !answer.found)
        status = sgs_segment_walk_check_end(&self.walk, max_position, err);
    finder_deinit(&self);
    if (status == SGS_OK)
        *out = answer;
    return status;
}

static sgs_status finder_start_at(finder *self, sgs_log_segment *segment, int32_t position, sgs_error *err)
{
    if (position < 0) {
        sgs_fail(err, SGS_ILLEGAL_ARGUMENT, "position %" PRId32 " is negative", position);
        return sgs_segment_fail_in_log(segment, err);
    }
    SGS_EXPECT(self->window.size == 0);
    sgs_segment_walk_start(&self->walk, segment, SGS_WALK_FOR_HEADERS, &self->window, position, WALK_READ_BYTES);
    return finder_next(self, err);
}

sgs_status sgs_log_segment_search_for_timestamp(sgs_log_segment *segment, int64_t timestamp, int32_t start_position,
                                                int64_t starting_offset, sgs_found_timestamp *out, sgs_error *err)
{
    finder self;
    sgs_found_timestamp answer = { .found = false, .leader_epoch = SGS_NO_PARTITION_LEADER_EPOCH };
    finder_init(&self, segment);
    sgs_status status = finder_start_at(&self, segment, start_position, err);
    if (status == SGS_OK)
        status = search_on(&self, timestamp, starting_offset, &answer, err);
    finder_deinit(&self);
    if (status == SGS_OK)
        *out = answer;
    return status;
}

sgs_status sgs_log_segment_largest_timestamp_after(sgs_log_segment *segment, int32_t start_position,
                                                   sgs_found_timestamp *out, sgs_error *err)
{
    finder self;
    sgs_found_timestamp largest = {
        .found = true,
        .timestamp = SGS_NO_TIMESTAMP,
        .offset = -1,
        .leader_epoch = SGS_NO_PARTITION_LEADER_EPOCH,
    };
    finder_init(&self, segment);
    sgs_status status = finder_start_at(&self, segment, start_position, err);
    while (status == SGS_OK && self.found) {
        if (self.header.max_timestamp > largest.timestamp) {
            largest.timestamp = self.header.max_timestamp;
            largest.offset = self.header.last_offset;
            largest.leader_epoch = self.header.partition_leader_epoch;
        }
        status = finder_next(&self, err);
    }
    finder_deinit(&self);
    if (status == SGS_OK)
        *out = largest;
    return status;
}

sgs_status sgs_log_segment_find_max_timestamp(sgs_log_segment *segment, sgs_found_timestamp *out, sgs_error *err)
{
    finder self;
    sgs_timestamp_offset max_timestamp;
    bool is_partial; /* then the answer is the record with the largest time that is known */
    sgs_found_timestamp answer = { .found = false, .leader_epoch = SGS_NO_PARTITION_LEADER_EPOCH };
    sgs_status status = sgs_log_segment_max_timestamp(segment, &max_timestamp, &is_partial, err);
    if (status != SGS_OK)
        return status;
    finder_init(&self, segment);
    status = start_below_time(&self, segment, max_timestamp.timestamp, segment->base_offset, err);
    while (status == SGS_OK && self.found && self.header.max_timestamp != max_timestamp.timestamp)
        status = finder_next(&self, err);
    if (is_damage(status) && max_timestamp.timestamp < 0 && !sgs_segment_believes_indexes(segment)) {
        self.found = false; /* nothing up to there has a time, and no entry tells of one behind it */
        status = SGS_OK;
    }
    if (status == SGS_OK && self.found && self.header.magic >= 1) /* a magic 0 batch has no answer [TS-3] */
        status = search_batch(&self, max_timestamp.timestamp, segment->base_offset, &answer, err);
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
    const uint32_t seen_cuts = sgs_segment_see_cuts(segment);
    finder_init(&self, segment);
    sgs_segment_walk_start(&self.walk, segment, SGS_WALK_FOR_HEADERS, &self.window, 0, SGS_BATCH_HEADER_BYTES);
    const sgs_status status = finder_next(&self, err);
    if (status == SGS_OK) {
        SGS_EXPECT(!self.found || self.header.position == 0);
        *timestamp = self.found ? self.header.max_timestamp : SGS_NO_TIMESTAMP;
        if (self.found)
            sgs_segment_remember_first_timestamp(segment, seen_cuts, self.header.max_timestamp);
    }
    finder_deinit(&self);
    return status;
}

sgs_status sgs_segment_find_largest_timestamp(sgs_log_segment *segment, sgs_timestamp_offset *max_timestamp,
                                              bool *is_partial, sgs_error *err)
{
    finder self;
    sgs_timestamp_offset last_entry; /* a look-up; unlike the cached last entry it may run beside an append */
    sgs_timestamp_offset largest;
    int64_t read_up_to = segment->base_offset - 1;
    sgs_status status = time_floor(segment, INT64_MAX, &last_entry, err);
    if (status != SGS_OK)
        return status;
    finder_init(&self, segment);
    status = start_by_time(&self, segment, INT64_MAX, INT64_MIN, &largest, err);
    while (status == SGS_OK && self.found) {
        if (self.header.max_timestamp > largest.timestamp)
            largest = (sgs_timestamp_offset){
                .timestamp = self.header.max_timestamp,
                .offset = self.header.last_offset,
            };
        SGS_EXPECT(self.header.last_offset > read_up_to || segment->context->kafka_profile);
        SGS_EXPECT(largest.timestamp >= self.header.max_timestamp);
        read_up_to = self.header.last_offset;
        status = finder_next(&self, err);
    }
    /* Bytes that are no batch: the preallocated tail of a log that another process writes [DUR-76], or damage. The index says
     * what it knows of them; a later time may stand there, or behind [DUR-79]. */
    if (is_damage(status) && !sgs_segment_believes_indexes(segment))
        status = SGS_OK;
    const bool ends_clean = self.walk.position == self.walk.end;
    finder_deinit(&self);
    if (status != SGS_OK)
        return status;
    const bool is_unread = !ends_clean && last_entry.offset > read_up_to;
    *max_timestamp = is_unread && last_entry.timestamp > largest.timestamp ? last_entry : largest;
    *is_partial = !ends_clean && !sgs_segment_believes_indexes(segment);
    return SGS_OK;
}

/* Kafka believes the last entry. But an index that is not there, and cannot be made on a full disk, says nothing about the
 * segment: then its headers are read [DUR-30]. */
static sgs_status load_max_timestamp(sgs_log_segment *segment, uint32_t seen_cuts, sgs_timestamp_offset *loaded,
                                     bool *is_partial, sgs_error *err)
{
    sgs_time_index *index;
    if (!sgs_segment_believes_indexes(segment))
        return sgs_segment_find_largest_timestamp(segment, loaded, is_partial, err);
    const sgs_status status = sgs_log_segment_time_index(segment, &index, err);
    if (status == SGS_OK)
        return time_floor(segment, INT64_MAX, loaded, err);
    return sgs_segment_goes_without_index(segment, seen_cuts, status)
               ? sgs_segment_find_largest_timestamp(segment, loaded, is_partial, err)
               : status;
}

sgs_status sgs_log_segment_max_timestamp(sgs_log_segment *segment, sgs_timestamp_offset *out, bool *is_partial,
                                         sgs_error *err)
{
    sgs_timestamp_offset loaded;
    bool loaded_partly = false;
    *is_partial = false;
    if (sgs_segment_recall_max_timestamp(segment, out))
        return SGS_OK;
    /* An entry may have been lost, or be behind the log that somebody else writes: entries that are missing cost no answer
     * [DUR-8], so that the headers behind the last one are read. */
    const uint32_t seen_cuts = sgs_segment_see_cuts(segment);
    SGS_TRY(load_max_timestamp(segment, seen_cuts, &loaded, &loaded_partly, err));
    if (!loaded_partly)
        sgs_segment_remember_max_timestamp(segment, seen_cuts, &loaded);
    *is_partial = loaded_partly;
    *out = loaded;
    return SGS_OK;
}
