/* segment_read.c - translate an offset, read from it, find the end [SEG-17..SEG-22].
 *
 * Where batches are large, each has an index entry, and the one with the offset begins at the entry behind the floor: what
 * is wanted is read from there on, in one call, and its header says whether it is so. Where they are small, one call reads
 * from the floor on, wide enough for what the index skips and for what was asked; the headers are walked in memory and what
 * lies before the wanted batch is dropped. Above a size the header is read first, unless it is remembered, and then the
 * bytes to where they stay: a second call costs less than moving, or having read in vain, so many. */
#include <inttypes.h>
#include <string.h>

#include "base/bytes.h"
#include "segment/log_segment_internal.h"

enum {
    MARGIN_BYTES = 4096, /* beyond the index interval: the batch that the entry itself names */
    MAX_MARGIN_BYTES = 65536,
    ONE_READ_BYTES = 65536, /* up to here moving bytes in memory is cheaper than a call */
    LENGTH_AT = 8,
};

typedef struct index_place { /* between which index entries an offset lies */
    sgs_offset_position floor, above;
    uint32_t seen_cuts; /* when the index was asked */
} index_place;

/* How much to read first, to find the batch. */
static size_t margin(const sgs_log_segment *segment)
{
    const uint32_t interval = segment->context->index_interval_bytes;
    return interval < MAX_MARGIN_BYTES - MARGIN_BYTES ? interval + MARGIN_BYTES : MAX_MARGIN_BYTES;
}

/* No index is asked for a segment without a byte: that would make the file where it is missing. */
static sgs_status look_up(sgs_log_segment *segment, int64_t offset, index_place *place, sgs_error *err)
{
    sgs_offset_index *index;
    place->seen_cuts = sgs_segment_see_cuts(segment);
    place->floor = (sgs_offset_position){ .offset = segment->base_offset, .position = 0 };
    place->above = (sgs_offset_position){ .offset = segment->base_offset, .position = -1 };
    if (sgs_log_segment_size(segment) == 0 && !sgs_segment_believes_indexes(segment))
        return SGS_OK;
    sgs_status status = sgs_log_segment_offset_index(segment, &index, err);
    if (status == SGS_OK)
        status = sgs_offset_index_lookup_between(index, offset, &place->floor, &place->above, err);
    if (status != SGS_OK && sgs_segment_goes_without_index(segment, place->seen_cuts, status))
        return SGS_OK;
    return status;
}

static bool is_no_batch(sgs_status status) { return status == SGS_CORRUPT_RECORD || status == SGS_LIMIT_EXCEEDED; }

static sgs_status walk_from_floor(sgs_segment_walk *walk, sgs_log_segment *segment, sgs_walk_kind kind,
                                  const index_place *place, sgs_buffer *window, size_t read_bytes,
                                  sgs_batch_header *header, bool *found, sgs_error *err)
{
    const sgs_offset_position floor = place->floor;
    const size_t window_start = window->size;
    const int32_t position = floor.position > 0 ? floor.position : 0; /* Kafka believes an entry, but for that */
    sgs_status status = SGS_OK;
    sgs_segment_walk_start(walk, segment, kind, window, position, read_bytes);
    if (floor.position > 0 && !sgs_segment_believes_indexes(segment)) {
        /* The entry names the last offset of the batch at its position, or of a set that begins there [DUR-53]. */
        *found = false;
        if (floor.position < walk->end)
            status = sgs_segment_walk_next(walk, header, found, err);
        if (status == SGS_OK && *found && header->base_offset <= floor.offset && header->last_offset <= floor.offset)
            return SGS_OK;
        if (status != SGS_OK && !is_no_batch(status))
            return status;
        sgs_segment_suspect_damage(segment, place->seen_cuts);
        window->size = window_start;
        sgs_segment_walk_start(walk, segment, kind, window, 0, read_bytes);
    }
    return sgs_segment_walk_next(walk, header, found, err);
}

sgs_status sgs_segment_walk_from(sgs_segment_walk *walk, sgs_log_segment *segment, sgs_walk_kind kind, int64_t offset,
                                 sgs_buffer *window, size_t read_bytes, sgs_batch_header *header, bool *found,
                                 sgs_error *err)
{
    index_place place;
    SGS_TRY(look_up(segment, offset, &place, err));
    return walk_from_floor(walk, segment, kind, &place, window, read_bytes, header, found, err);
}

/* Try the batch that the entry above names: it is the one when it begins at or below `offset` and reaches it, since offsets
 * ascend [DUR-79]. Between two entries so far apart there is a large batch, and the next entry is that of the batch behind.
 * `*found` false: it is another one; nothing is known then. */
static sgs_status try_entry_above(sgs_segment_walk *walk, sgs_log_segment *segment, sgs_walk_kind kind, int64_t offset,
                                  const index_place *place, size_t wanted, sgs_buffer *window, sgs_batch_header *header,
                                  bool *found, sgs_error *err)
{
    const int64_t apart = (int64_t)place->above.position - place->floor.position;
    const size_t window_start = window->size;
    SGS_EXPECT(place->above.position == -1 || place->above.position > place->floor.position);
    *found = false;
    if (segment->context->kafka_profile || place->floor.offset >= offset ||
        apart < 2 * (int64_t)segment->context->index_interval_bytes)
        return SGS_OK;
    SGS_EXPECT(place->above.position > 0);
    sgs_segment_walk_start(walk, segment, kind, window, place->above.position,
                           wanted <= ONE_READ_BYTES ? wanted : SGS_BATCH_HEADER_BYTES);
    if (place->above.position >= walk->end)
        return SGS_OK;
    const sgs_status status = sgs_segment_walk_next(walk, header, found, err);
    if (status != SGS_OK && !is_no_batch(status))
        return status;
    *found = status == SGS_OK && *found && header->base_offset <= offset && header->last_offset >= offset &&
             header->last_offset <= place->above.offset; /* the entry fits its batch [DUR-53] */
    SGS_EXPECT(!*found || header->position == place->above.position);
    if (!*found)
        window->size = window_start;
    return SGS_OK;
}

/* The base offset behind the batch that the walk is at, INT64_MAX at the end. A size below 14 there fails [SEG-18]; to who
 * only reads it is the end: the writer's preallocated bytes are zeros [DUR-76]. */
static sgs_status following_base_offset(const sgs_segment_walk *walk, int64_t *base_offset, sgs_error *err)
{
    uint8_t prefix[SGS_BATCH_PREFIX_BYTES];
    *base_offset = INT64_MAX;
    SGS_EXPECT(walk->position <= walk->end);
    if (walk->end - walk->position <= SGS_BATCH_PREFIX_BYTES)
        return SGS_OK;
    const sgs_status status = sgs_segment_read_exactly(walk->segment, prefix, sizeof prefix, walk->position, err);
    if (status != SGS_OK)
        return status;
    const int32_t length = sgs_load_be_i32(prefix + LENGTH_AT);
    const bool is_torn = length > walk->end - walk->position - SGS_LOG_OVERHEAD; /* the walk ends before it */
    if (length >= SGS_LEGACY_MESSAGE_MIN_BYTES && !is_torn)
        *base_offset = sgs_load_be_i64(prefix);
    if (length >= SGS_LEGACY_MESSAGE_MIN_BYTES || !walk->segment->context->writable)
        return SGS_OK;
    sgs_fail_at(err, SGS_CORRUPT_RECORD, walk->position, "a length from 14", "%" PRId32, length);
    return sgs_segment_fail_in_log(walk->segment, err);
}

/* Kafka 4.x compares base offsets only: its answer is the last batch that begins at or below the target, when it reaches
 * it, or else the one behind. With offsets that ascend that is the batch found already [SEG-18]. */
static sgs_status look_behind(sgs_segment_walk *walk, sgs_batch_header *header, int64_t offset, bool *found,
                              sgs_error *err)
{
    int64_t following = INT64_MIN;
    sgs_status status = SGS_OK;
    while (status == SGS_OK && *found && header->base_offset < offset) {
        status = following_base_offset(walk, &following, err);
        if (status != SGS_OK || following > offset)
            break;
        status = sgs_segment_walk_next(walk, header, found, err);
    }
    if (status == SGS_OK && *found && header->base_offset < offset && header->last_offset < offset)
        status = sgs_segment_walk_next(walk, header, found, err);
    return status;
}

/* Whether the walk has to go on. To Kafka a batch that begins at the target is the one, wherever it says that it ends. */
static bool lies_before(const sgs_segment_walk *walk, const sgs_batch_header *header, int64_t offset)
{
    return header->last_offset < offset && !(walk->segment->context->kafka_profile && header->base_offset >= offset);
}

/* The first batch that ends at or above `offset` [SEG-18], from `start_position` on where that is known. */
static sgs_status find_batch(sgs_segment_walk *walk, sgs_log_segment *segment, sgs_walk_kind kind, int64_t offset,
                             int32_t start_position, size_t wanted, sgs_buffer *window, sgs_batch_header *header,
                             bool *found, sgs_error *err)
{
    const size_t first_read = margin(segment) + (wanted <= ONE_READ_BYTES ? wanted : 0);
    index_place place = { .floor = { .position = start_position } };
    sgs_status status = SGS_OK;
    *found = false;
    if (start_position > 0) {
        sgs_segment_walk_start(walk, segment, kind, window, start_position, first_read);
        status = sgs_segment_walk_next(walk, header, found, err);
    } else {
        SGS_TRY(look_up(segment, offset, &place, err));
        SGS_TRY(try_entry_above(walk, segment, kind, offset, &place, wanted, window, header, found, err));
        if (*found)
            return SGS_OK;
        status = walk_from_floor(walk, segment, kind, &place, window, first_read, header, found, err);
    }
    if (status == SGS_OK && *found && lies_before(walk, header, offset) &&
        header->size_bytes > (int64_t)segment->context->index_interval_bytes)
        walk->read_bytes = wanted + SGS_BATCH_HEADER_BYTES; /* every batch is indexed: the next one is the one */
    while (status == SGS_OK && *found && lies_before(walk, header, offset))
        status = sgs_segment_walk_next(walk, header, found, err);
    SGS_EXPECT(status != SGS_OK || !*found || !lies_before(walk, header, offset));
    if (status == SGS_OK && *found && segment->context->kafka_profile)
        status = look_behind(walk, header, offset, found, err);
    return status;
}

static void describe(const sgs_segment_walk *walk, const sgs_batch_header *header, bool found, sgs_segment_fetch *fetch)
{
    *fetch = (sgs_segment_fetch){ .found = found, .ends_clean = found || walk->position == walk->end };
    SGS_EXPECT(walk->position >= 0 && walk->position <= INT32_MAX); /* who reads may begin behind the end */
    SGS_EXPECT(!found || (header->position >= 0 && header->position < walk->position));
    fetch->position = (int32_t)(found ? header->position : walk->position);
    if (found) {
        fetch->base_offset = header->base_offset;
        fetch->first_batch_size = header->size_bytes;
        fetch->first_batch_magic = (int8_t)header->magic;
    }
}

static sgs_status fail_bound(const sgs_log_segment *segment, int64_t max_position, int64_t position, sgs_error *err)
{
    sgs_fail(err, SGS_ILLEGAL_ARGUMENT, "the upper bound %" PRId64 " lies before the batch at %" PRId64, max_position,
             position);
    return sgs_segment_fail_in_log(segment, err);
}

/* [SEG-19.4, SEG-19.6] how many bytes go out */
static int64_t visible_bytes(const sgs_segment_read *request, const sgs_batch_header *header, int64_t end)
{
    int64_t adjusted = request->max_size;
    SGS_EXPECT(adjusted >= 0 && request->max_position >= header->position);
    if (request->min_one_message && adjusted < header->size_bytes)
        adjusted = header->size_bytes;
    const int64_t bound = request->max_position < end ? request->max_position : end;
    return bound - header->position < adjusted ? bound - header->position : adjusted;
}

/* `out` is the walk's window too; with `takes_bytes` they are in it afterwards. */
static sgs_status find_slice(sgs_log_segment *segment, const sgs_segment_read *request, bool takes_bytes,
                             sgs_buffer *out, sgs_segment_fetch *fetch, sgs_error *err)
{
    const bool no_bytes = request->max_position < 0 || (request->max_size == 0 && !request->min_one_message);
    sgs_segment_walk walk;
    sgs_batch_header header;
    bool found;
    const bool is_one_read = takes_bytes && request->max_size <= ONE_READ_BYTES;
    sgs_status status = find_batch(&walk, segment, is_one_read ? SGS_WALK_FOR_BYTES : SGS_WALK_FOR_HEADERS,
                                   request->start_offset, request->start_position,
                                   no_bytes || !takes_bytes ? 0 : (size_t)request->max_size, out, &header, &found, err);
    if (status != SGS_OK)
        return status;
    if (!found)
        status = sgs_segment_walk_check_end(&walk, request->max_position, err);
    if (status != SGS_OK)
        return status;
    sgs_segment_fetch described;
    describe(&walk, &header, found, &described);
    if (found && !no_bytes) {
        if (request->max_position < header.position)
            return fail_bound(segment, request->max_position, header.position, err);
        const int64_t size = visible_bytes(request, &header, walk.end);
        SGS_EXPECT(size >= 0 && size <= INT32_MAX && header.position + size <= walk.end);
        if (takes_bytes)
            status = sgs_segment_walk_take(&walk, header.position, (size_t)size, err);
        if (status != SGS_OK)
            return status;
        described.size = (int32_t)size;
        described.first_entry_incomplete = !request->min_one_message && request->max_size < header.size_bytes;
    }
    *fetch = described;
    return SGS_OK;
}

static sgs_status check_max_size(const sgs_log_segment *segment, const sgs_segment_read *request, sgs_error *err)
{
    if (request->max_size >= 0)
        return SGS_OK;
    sgs_fail(err, SGS_ILLEGAL_ARGUMENT, "a maximum size of %" PRId32 " is negative", request->max_size);
    return sgs_segment_fail_in_log(segment, err);
}

sgs_status sgs_log_segment_read(sgs_log_segment *segment, const sgs_segment_read *request, sgs_buffer *out,
                                sgs_segment_fetch *fetch, sgs_error *err)
{
    const size_t before = out->size;
    SGS_TRY(check_max_size(segment, request, err));
    const sgs_status status = find_slice(segment, request, true, out, fetch, err);
    SGS_EXPECT(status != SGS_OK || (fetch->size >= 0 && out->size >= before + (size_t)fetch->size));
    out->size = before + (status == SGS_OK ? (size_t)fetch->size : 0);
    return status;
}

sgs_status sgs_log_segment_slice(sgs_log_segment *segment, const sgs_segment_read *request, sgs_segment_fetch *fetch,
                                 sgs_error *err)
{
    sgs_buffer window;
    SGS_TRY(check_max_size(segment, request, err));
    sgs_buffer_init(&window, sgs_env_memory(segment->context->env));
    const sgs_status status = find_slice(segment, request, false, &window, fetch, err);
    sgs_buffer_deinit(&window);
    return status;
}

sgs_status sgs_log_segment_translate_offset(sgs_log_segment *segment, int64_t offset, int32_t start_position,
                                            int64_t max_position, sgs_segment_fetch *fetch, sgs_error *err)
{
    sgs_buffer window;
    sgs_segment_walk walk;
    sgs_batch_header header;
    bool found;
    sgs_buffer_init(&window, sgs_env_memory(segment->context->env));
    sgs_status status =
        find_batch(&walk, segment, SGS_WALK_FOR_HEADERS, offset, start_position, 0, &window, &header, &found, err);
    if (status == SGS_OK && found && max_position >= 0 && max_position < header.position)
        status = fail_bound(segment, max_position, header.position, err);
    if (status == SGS_OK)
        describe(&walk, &header, found, fetch);
    sgs_buffer_deinit(&window);
    return status;
}

/* Where the last batches begin. Kafka reads from the batch with the greatest offset of the index on: one that claims more
 * than there is finds none, and the segment seems empty [LDR-29]. */
static sgs_status find_last_batches(sgs_segment_walk *walk, sgs_log_segment *segment, sgs_buffer *window,
                                    sgs_batch_header *header, bool *found, sgs_error *err)
{
    /* a look-up of the greatest offset answers the last entry */
    if (!sgs_segment_believes_indexes(segment))
        return sgs_segment_walk_from(walk, segment, SGS_WALK_FOR_HEADERS, INT64_MAX, window, margin(segment), header,
                                     found, err);
    sgs_offset_index *index;
    const sgs_status status = sgs_log_segment_offset_index(segment, &index, err);
    return status == SGS_OK
               ? find_batch(walk, segment, SGS_WALK_FOR_HEADERS, index->last_offset, 0, 0, window, header, found, err)
               : status;
}

sgs_status sgs_log_segment_read_next_offset(sgs_log_segment *segment, int64_t *next_offset, bool *ends_clean,
                                            sgs_error *err)
{
    sgs_buffer window;
    sgs_segment_walk walk;
    sgs_batch_header header;
    bool found;
    int64_t next = segment->base_offset;
    sgs_buffer_init(&window, sgs_env_memory(segment->context->env));
    sgs_status status = find_last_batches(&walk, segment, &window, &header, &found, err);
    while (status == SGS_OK && found) {
        if (header.last_offset > SGS_MAX_OFFSET) { /* the walk refuses it, but not as Kafka */
            sgs_fail_at(err, SGS_CORRUPT_LOG, header.position, "a last offset below 2^63-1", "%" PRId64,
                        header.last_offset);
            status = sgs_segment_fail_in_log(segment, err);
            break;
        }
        next = header.last_offset + 1;
        status = sgs_segment_walk_next(&walk, &header, &found, err);
    }
    sgs_buffer_deinit(&window);
    /* Bytes that are no batch end the walk here as a torn tail does; the caller decides what they are [DUR-51]. */
    const bool is_end = status == SGS_CORRUPT_RECORD && !sgs_segment_believes_indexes(segment);
    if (status != SGS_OK && !is_end)
        return status;
    SGS_EXPECT(next >= segment->base_offset || segment->context->kafka_profile);
    SGS_EXPECT(walk.position <= walk.end || sgs_segment_believes_indexes(segment));
    *next_offset = next;
    *ends_clean = status == SGS_OK && walk.position == walk.end;
    return SGS_OK;
}
