/* segment_walk.c - batch headers one after the other, read through a window in a caller's buffer [SEG-17, format.md 9.1].
 *
 * A walk looks at headers only: where batches are small, one read brings many of them; where they are large, a read brings
 * little more than the next header. */
#include <inttypes.h>
#include <string.h>

#include "base/bytes.h"
#include "segment/log_segment_internal.h"

enum {
    LENGTH_AT = 8, /* format.md 3: base offset, then length */
    MIN_LENGTH = SGS_LEGACY_MESSAGE_MIN_BYTES,
    LARGE_BATCH_BYTES = 8192,
    NEXT_READ_BYTES = 32768, /* behind a small batch; costs about as much as ten reads of one header */
    HEADER_READ_BYTES = 512, /* behind a large one */
};

sgs_status sgs_segment_read_exactly(sgs_log_segment *segment, void *data, size_t size, int64_t position, sgs_error *err)
{
    const sgs_env *env = segment->context->env;
    char name[SGS_SEGMENT_NAME_BYTES];
    int fd;
    size_t got;
    sgs_status status = sgs_segment_descriptor(segment, &fd, err);
    if (status != SGS_OK)
        return status;
    sgs_segment_name(segment, SGS_FILE_LOG, name);
    status = env->read_at(env, fd, name, data, size, position, &got, err);
    SGS_EXPECT(status != SGS_OK || got <= size);
    if (status != SGS_OK || got == size)
        return status;
    /* Kafka: "unexpected EOF" is a CorruptRecordException [SEG-17] */
    sgs_fail_at(err, SGS_CORRUPT_RECORD, position + (int64_t)got, "bytes up to the segment's size",
                "the end of the file");
    return sgs_fail_in_file(err, name);
}

/* Which headers may be taken from memory. Under another name a segment may stand beside one of the same base offset; who
 * gives it that name begins a new version behind it, so the name is looked at last. */
static uint64_t version_of(sgs_log_segment *segment, sgs_walk_kind kind)
{
    sgs_header_view *const headers = segment->context->headers;
    if (kind != SGS_WALK_FOR_HEADERS || headers == NULL)
        return 0;
    const uint64_t version = sgs_header_view_version(headers);
    return atomic_load_explicit(&segment->suffix, memory_order_relaxed) == SGS_SUFFIX_NONE ? version : 0;
}

void sgs_segment_walk_start(sgs_segment_walk *walk, sgs_log_segment *segment, sgs_walk_kind kind, sgs_buffer *window,
                            int64_t position, size_t read_bytes)
{
    const uint64_t version = version_of(segment, kind); /* before the size: a cut lowers that first */
    SGS_EXPECT(position >= 0);
    *walk = (sgs_segment_walk){
        .segment = segment,
        .window = window,
        .window_start = window->size,
        .window_position = position,
        .position = position,
        .end = sgs_log_segment_size(segment),
        .expected_offset = segment->context->kafka_profile ? INT64_MIN : segment->base_offset,
        .version = version,
        .read_bytes = read_bytes,
    };
}

static size_t window_bytes(const sgs_segment_walk *walk)
{
    SGS_EXPECT(walk->window->size >= walk->window_start);
    return walk->window->size - walk->window_start;
}

/* Put [position, position + size) at the window's start. */
static sgs_status fill(sgs_segment_walk *walk, int64_t position, size_t size, sgs_error *err)
{
    SGS_EXPECT(position >= 0 && position + (int64_t)size <= walk->end); /* no byte that is not published */
    walk->window->size = walk->window_start;
    sgs_status status = sgs_buffer_reserve(walk->window, size, err);
    if (status == SGS_OK)
        status = sgs_segment_read_exactly(walk->segment, walk->window->data + walk->window_start, size, position, err);
    if (status != SGS_OK)
        return status;
    walk->window->size += size;
    walk->window_position = position;
    return SGS_OK;
}

static size_t smaller(size_t wanted, int64_t available)
{
    return (uint64_t)available < wanted ? (size_t)available : wanted;
}

/* The bytes of the header at walk->position: 61, or fewer at the end. */
static sgs_status header_bytes(sgs_segment_walk *walk, const uint8_t **bytes, size_t *size, sgs_error *err)
{
    const int64_t left = walk->end - walk->position;
    const size_t wanted = smaller(SGS_BATCH_HEADER_BYTES, left);
    const int64_t window_end = walk->window_position + (int64_t)window_bytes(walk);
    if (walk->position < walk->window_position || walk->position + (int64_t)wanted > window_end) {
        const size_t read_bytes = walk->read_bytes > SGS_BATCH_HEADER_BYTES ? walk->read_bytes : SGS_BATCH_HEADER_BYTES;
        sgs_status status = fill(walk, walk->position, smaller(read_bytes, left), err);
        /* a page after the header may not be needed: the header alone [DUR-33] */
        if (status == SGS_READ_IO && walk->version == 0 && read_bytes > wanted)
            status = fill(walk, walk->position, wanted, err);
        if (status != SGS_OK)
            return status;
    }
    const size_t skipped = (size_t)(walk->position - walk->window_position);
    SGS_EXPECT(walk->position >= walk->window_position && skipped + wanted <= window_bytes(walk));
    *bytes = walk->window->data + walk->window_start + skipped;
    *size = window_bytes(walk) - skipped;
    return SGS_OK;
}

/* Continuity is checked wherever headers are walked [DUR-79]; Kafka does not look. */
static sgs_status check_order(sgs_segment_walk *walk, const sgs_batch_header *header, sgs_error *err)
{
    if (walk->expected_offset == INT64_MIN)
        return SGS_OK;
    if (header->base_offset < walk->expected_offset)
        return sgs_fail_at(err, SGS_CORRUPT_RECORD, header->position, "a base offset above the batch before",
                           "%" PRId64 ", below %" PRId64, header->base_offset, walk->expected_offset);
    if (header->last_offset < header->base_offset || header->last_offset > SGS_MAX_OFFSET)
        return sgs_fail_at(err, SGS_CORRUPT_RECORD, header->position, "a last offset at or above the base offset",
                           "base %" PRId64 ", last %" PRId64, header->base_offset, header->last_offset);
    SGS_EXPECT(header->last_offset >= walk->expected_offset); /* offsets ascend */
    walk->expected_offset = header->last_offset + 1;
    return SGS_OK;
}

/* The header at walk->position, from the file; `left` bytes are there, at least those of a prefix. */
static sgs_status read_header(sgs_segment_walk *walk, int64_t left, sgs_batch_header *header, bool *found,
                              sgs_error *err)
{
    const uint8_t *bytes;
    size_t size;
    sgs_status status = header_bytes(walk, &bytes, &size, err);
    if (status != SGS_OK)
        return status;
    const int32_t length = sgs_load_be_i32(bytes + LENGTH_AT);
    if (length < MIN_LENGTH) {
        sgs_fail_at(err, SGS_CORRUPT_RECORD, walk->position, "a length from 14", "%" PRId32, length);
        return sgs_segment_fail_in_log(walk->segment, err);
    }
    if (length > left - SGS_LOG_OVERHEAD)
        return SGS_OK;
    const sgs_segment_context *context = walk->segment->context;
    if (!context->kafka_profile && length > context->max_batch_bytes) {
        sgs_fail_at(err, SGS_LIMIT_EXCEEDED, walk->position, "a batch within the limit",
                    "%" PRId32 " bytes, limit %" PRId32, length, context->max_batch_bytes);
        return sgs_segment_fail_in_log(walk->segment, err);
    }
    status = sgs_batch_header_peek(bytes, size, walk->position, header, err);
    if (status != SGS_OK)
        return sgs_segment_fail_in_log(walk->segment, err);
    if (walk->version != 0 &&
        header->size_bytes > (int64_t)context->index_interval_bytes) /* others come many at a read */
        sgs_header_view_put(context->headers, walk->version, walk->segment->base_offset, header);
    *found = true;
    return SGS_OK;
}

static bool remembers(const sgs_segment_walk *walk, int64_t left, sgs_batch_header *header)
{
    const sgs_log_segment *const segment = walk->segment;
    return walk->version != 0 &&
           sgs_header_view_find(segment->context->headers, walk->version, segment->base_offset, walk->position,
                                header) &&
           header->size_bytes <= left;
}

sgs_status sgs_segment_walk_next(sgs_segment_walk *walk, sgs_batch_header *header, bool *found, sgs_error *err)
{
    const int64_t left = walk->end - walk->position;
    sgs_batch_header loaded;
    sgs_status status = SGS_OK;
    bool is_there = false;
    if (left > SGS_BATCH_PREFIX_BYTES) { /* Kafka wants 18 bytes, one more than it reads */
        is_there = remembers(walk, left, &loaded);
        if (!is_there)
            status = read_header(walk, left, &loaded, &is_there, err);
    }
    if (status != SGS_OK || !is_there) {
        *found = false;
        return status;
    }
    if (check_order(walk, &loaded, err) != SGS_OK)
        return sgs_segment_fail_in_log(walk->segment, err);
    SGS_EXPECT(loaded.position == walk->position && loaded.size_bytes > 0 && loaded.size_bytes <= left);
    walk->position += loaded.size_bytes;
    walk->read_bytes = loaded.size_bytes >= LARGE_BATCH_BYTES ? HEADER_READ_BYTES : NEXT_READ_BYTES;
    *header = loaded;
    *found = true;
    return SGS_OK;
}

void sgs_segment_walk_go_back(sgs_segment_walk *walk, const sgs_batch_header *header)
{
    SGS_EXPECT(header->position + header->size_bytes <= walk->position);
    walk->position = header->position + header->size_bytes;
    if (walk->expected_offset != INT64_MIN)
        walk->expected_offset = header->last_offset + 1;
}

sgs_status sgs_segment_walk_check_end(const sgs_segment_walk *walk, int64_t max_position, sgs_error *err)
{
    if (walk->position == walk->end || walk->position >= max_position || walk->segment->context->kafka_profile)
        return SGS_OK;
    sgs_fail_at(err, SGS_CORRUPT_LOG, walk->position, "a batch", "%" PRId64 " bytes that are no batch",
                walk->end - walk->position);
    return sgs_segment_fail_in_log(walk->segment, err);
}

sgs_status sgs_segment_walk_take(sgs_segment_walk *walk, int64_t position, size_t size, sgs_error *err)
{
    SGS_ASSERT(position >= 0 && position + (int64_t)size <= walk->end, err);
    const int64_t window_end = walk->window_position + (int64_t)window_bytes(walk);
    if (position < walk->window_position || position > window_end)
        return fill(walk, position, size, err);

    const size_t skipped = (size_t)(position - walk->window_position);
    const size_t have = smaller(size, (int64_t)(window_bytes(walk) - skipped));
    if (have < size && have <= HEADER_READ_BYTES) /* cheaper to read again than to go on at an odd address */
        return fill(walk, position, size, err);
    sgs_status status = SGS_OK;
    if (walk->window_start + size > walk->window->size) /* may move the bytes */
        status = sgs_buffer_reserve(walk->window, walk->window_start + size - walk->window->size, err);
    if (status != SGS_OK)
        return status;
    SGS_EXPECT(walk->window->capacity >= walk->window_start + size);
    uint8_t *start = walk->window->data + walk->window_start;
    if (skipped > 0)
        memmove(start, start + skipped, have);
    walk->window->size = walk->window_start + have;
    walk->window_position = position;
    if (have < size)
        status = sgs_segment_read_exactly(walk->segment, start + have, size - have, position + (int64_t)have, err);
    if (status == SGS_OK)
        walk->window->size = walk->window_start + size;
    return status;
}
