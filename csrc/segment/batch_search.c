/* batch_search.c - the first record of one batch from a time on [SEG-23, TS-3].
 *
 * The first look into a batch reads all of it, checks its CRC and opens it [DUR-79, DUR-85]. While the log is known not to
 * have changed since (header_cache.h) that need not be done again, and of a batch that is not compressed the bytes behind
 * the record are of no use: as many are read as the batch's times and offsets let expect. What is not among them, and
 * whatever seems wrong there, is looked for in the whole batch. */
#include "record/record_section.h"
#include "segment/log_segment_internal.h"

enum {
    EXTRA_BYTES = 512, /* records are not of one size, nor of one pace */
    EXTRA_SHARE = 32,
    LEAST_WHOLE_BYTES = 4096, /* the page cache has no smaller pieces */
};

static double share_of(int64_t from, int64_t to, int64_t target)
{
    const double length = (double)to - (double)from;
    const double part = (double)target - (double)from;
    if (length <= 0 || part <= 0)
        return 0;
    return part < length ? part / length : 1;
}

/* How many of the first bytes are likely to hold the record. */
static size_t likely_bytes(const sgs_batch_header *header, int64_t timestamp, int64_t starting_offset)
{
    const size_t size = (size_t)header->size_bytes;
    const double by_time = share_of(header->base_timestamp, header->max_timestamp, timestamp);
    const double by_offset = share_of(header->base_offset, header->last_offset, starting_offset);
    const double share = by_time > by_offset ? by_time : by_offset;
    const size_t likely = (size_t)(share * (double)size) + size / EXTRA_SHARE + EXTRA_BYTES;
    SGS_EXPECT(share >= 0 && share <= 1);
    return likely < size ? likely : size;
}

/* The first such record that the reader comes to. */
static sgs_status search(sgs_record_reader *reader, int64_t timestamp, int64_t starting_offset,
                         sgs_found_timestamp *out, sgs_error *err)
{
    for (;;) {
        sgs_record record;
        bool more;
        const sgs_status status = sgs_record_reader_next(reader, &record, &more, err);
        if (status != SGS_OK || !more)
            return status;
        if (record.timestamp < timestamp || record.offset < starting_offset)
            continue;
        *out = (sgs_found_timestamp){
            .found = true,
            .timestamp = record.timestamp,
            .offset = record.offset,
            .leader_epoch = reader->batch.partition_leader_epoch,
        };
        return SGS_OK;
    }
}

/* Whether this very batch was opened before, whole and right, and lies in the file as its records are. */
static bool may_be_read_in_part(const sgs_segment_walk *walk, const sgs_batch_header *header)
{
    const sgs_log_segment *const segment = walk->segment;
    return header->magic == 2 && sgs_batch_codec(header) == SGS_CODEC_NONE && header->records_count > 0 &&
           header->size_bytes > LEAST_WHOLE_BYTES && walk->version != 0 &&
           sgs_header_view_is_checked(segment->context->headers, walk->version, segment->base_offset, header->position);
}

static sgs_status search_part(sgs_segment_walk *walk, const sgs_batch_header *header, int64_t timestamp,
                              int64_t starting_offset, sgs_found_timestamp *out, sgs_error *err)
{
    const size_t size = likely_bytes(header, timestamp, starting_offset);
    sgs_record_reader reader;
    const sgs_status status = sgs_segment_walk_take(walk, header->position, size, err);
    if (status != SGS_OK)
        return status;
    SGS_EXPECT(size > SGS_BATCH_HEADER_BYTES && walk->window->size - walk->window_start >= size);
    sgs_record_reader_init(&reader, header, walk->window->data + walk->window_start + SGS_BATCH_HEADER_BYTES,
                           size - SGS_BATCH_HEADER_BYTES);
    if (search(&reader, timestamp, starting_offset, out, err) != SGS_OK)
        out->found = false; /* the bytes ended, as a rule */
    return SGS_OK;
}

static sgs_status search_whole(sgs_segment_walk *walk, const sgs_batch_header *header, int64_t timestamp,
                               int64_t starting_offset, sgs_buffer *scratch, sgs_found_timestamp *out, sgs_error *err)
{
    const sgs_log_segment *const segment = walk->segment;
    const sgs_segment_context *const context = segment->context;
    const size_t size = (size_t)header->size_bytes;
    sgs_record_reader reader;
    sgs_status status = sgs_segment_walk_take(walk, header->position, size, err);
    if (status == SGS_OK)
        status = sgs_record_section_open(walk->window->data + walk->window_start, size, !context->kafka_profile,
                                         context->codecs, scratch, &reader, err);
    if (status != SGS_OK)
        return status;
    SGS_EXPECT(walk->window_position == header->position && walk->window->size - walk->window_start >= size);
    if (walk->version != 0)
        sgs_header_view_note_checked(context->headers, walk->version, segment->base_offset, header->position);
    return search(&reader, timestamp, starting_offset, out, err);
}

sgs_status sgs_segment_search_batch(sgs_segment_walk *walk, const sgs_batch_header *header, int64_t timestamp,
                                    int64_t starting_offset, sgs_buffer *scratch, sgs_found_timestamp *out,
                                    sgs_error *err)
{
    sgs_found_timestamp answer = { .found = false };
    sgs_status status = SGS_OK;
    SGS_EXPECT(header->size_bytes > 0 && header->position + header->size_bytes <= walk->position);
    if (may_be_read_in_part(walk, header))
        status = search_part(walk, header, timestamp, starting_offset, &answer, err);
    if (status == SGS_OK && !answer.found)
        status = search_whole(walk, header, timestamp, starting_offset, scratch, &answer, err);
    if (status == SGS_OK) {
        if (answer.found)
            *out = answer;
        return SGS_OK;
    }
    if (err->position < 0)
        err->position = header->position;
    return sgs_segment_fail_in_log(walk->segment, err);
}
