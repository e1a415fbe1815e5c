/* plain_segment.h - what a segment must answer, worked out from all of its batches, one after the other, without an index. */
#ifndef SGS_FUZZ_PLAIN_SEGMENT_H
#define SGS_FUZZ_PLAIN_SEGMENT_H

#include "fuzz/plain_scan.h"
#include "segment/log_segment.h"

enum { PLAIN_BATCHES_MAX = 512 };

typedef struct plain_segment {
    const uint8_t *log;
    int64_t size;
    int64_t base_offset;
    plain_batch batches[PLAIN_BATCHES_MAX]; /* they fill the log */
    int64_t count;
} plain_segment;

/** @return whether offsets ascend from the base offset on, so that an index can lead anywhere */
bool plain_segment_ascends(const plain_segment *plain);
/** The first batch that ends at or above `offset`. @return NULL when there is none */
const plain_batch *plain_segment_find(const plain_segment *plain, int64_t offset);
/** Last offset + 1, the base offset when there is no batch. */
int64_t plain_segment_next_offset(const plain_segment *plain);
/** The greatest timestamp, with the last offset of the first batch that has it; (-1, base offset) when none is above. */
sgs_timestamp_offset plain_segment_max_timestamp(const plain_segment *plain);
/** The answers of sgs_log_segment_find_offset_by_timestamp and sgs_log_segment_find_max_timestamp. */
sgs_status plain_segment_find_timestamp(const plain_segment *plain, const sgs_segment_context *context,
                                        int64_t timestamp, int64_t starting_offset, sgs_found_timestamp *out);
sgs_status plain_segment_find_max_timestamp(const plain_segment *plain, const sgs_segment_context *context,
                                            sgs_found_timestamp *out);

/* Both index files as recovery writes them [SEG-40, T-2]. */
typedef struct plain_indexes {
    uint8_t offset_entries[PLAIN_BATCHES_MAX * SGS_OFFSET_INDEX_ENTRY_BYTES];
    uint8_t time_entries[(PLAIN_BATCHES_MAX + 1) * SGS_TIME_INDEX_ENTRY_BYTES];
    size_t offset_bytes, time_bytes;
} plain_indexes;

/** @return why there are none: SGS_SEGMENT_OFFSET_OVERFLOW, SGS_INVALID_OFFSET [SEG-41] */
sgs_status plain_segment_indexes(const plain_segment *plain, const sgs_segment_context *context,
                                 plain_indexes *indexes);

#endif
