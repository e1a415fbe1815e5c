/* segment_kit.h - a segment in a temporary directory on an environment that can fail, and batches to put into it. */
#ifndef SGS_TEST_SEGMENT_KIT_H
#define SGS_TEST_SEGMENT_KIT_H

#include "memory_env.h"
#include "segment/log_segment.h"
#include "temporary.h"

enum { KIT_LEAST_BATCH_BYTES = 68 }; /* one record without key, its value empty */

typedef struct segment_kit {
    temporary directory;
    memory_env memory;
    sgs_segment_context context; /* change it before the segment is opened */
    sgs_codec_table codecs;
    sgs_header_cache cache;
    sgs_header_view headers;
    sgs_log_segment *segment;
    sgs_error err;
    bool poisoned;
} segment_kit;

/** Defaults: writable, index interval 4096, indexes of 10 MiB at most, nothing preallocated, no codec. */
void segment_kit_open(segment_kit *kit);
/** The same in a directory of another environment, which has no segment_kit_file_size. */
void segment_kit_open_on(segment_kit *kit, const sgs_env *base, int directory_fd);
/** Close the segment if there is one, check that everything was given back, remove the directory. */
void segment_kit_close(segment_kit *kit);
/** Open or create kit->segment, which must not be there. */
sgs_status segment_kit_segment(segment_kit *kit, int64_t base_offset, bool create);
/** Close kit->segment as a crash would, and open it again. */
sgs_status segment_kit_crash(segment_kit *kit);

/** Write a batch of `records` records with timestamps `timestamp`, `timestamp` + 1, ... and `size` bytes in all (0 = as few
 *  as can be; where varints leave no such size, one byte less). @return its size */
size_t segment_kit_batch(uint8_t *out, size_t room, int64_t base_offset, int32_t records, int64_t timestamp,
                         size_t size);
/** Append one such batch. */
sgs_status segment_kit_append(segment_kit *kit, int64_t base_offset, int32_t records, int64_t timestamp, size_t size);
/** Create segment 0 with batches of one record at offsets 0, 1, 2, ... and times 0, 10, 20, ... */
void segment_kit_fill(segment_kit *kit, int count, size_t size);
/** Sync kit->segment as behind an append. */
sgs_status segment_kit_flush(segment_kit *kit, bool indexes);
/** Bytes of one of the files, -1 when it is not there. */
int64_t segment_kit_file_size(const segment_kit *kit, sgs_segment_file kind);
/** The offset of the first batch that a read from `offset` answers, -1 when there is none, -2 on an error. */
int64_t segment_kit_read_offset(segment_kit *kit, int64_t offset);

/* ---- what a segment says; an answer that fails is a failure of the test ---- */

/** Entries of the offset index, and of the time index. */
uint32_t segment_kit_offset_entries(segment_kit *kit);
uint32_t segment_kit_time_entries(segment_kit *kit);
/** Expect these fields in the n-th entry. */
void segment_kit_entry_is(segment_kit *kit, uint32_t n, int64_t offset, int32_t position);
void segment_kit_time_entry_is(segment_kit *kit, uint32_t n, int64_t timestamp, int64_t offset);
/** The offset behind the last batch, in a segment that ends clean. */
int64_t segment_kit_next_offset(segment_kit *kit);
int64_t segment_kit_max_timestamp(segment_kit *kit);
/** @return the bytes that were cut */
int32_t segment_kit_truncate_to(segment_kit *kit, int64_t offset);
/** Every check of a file, and the order of its offsets. */
sgs_scan_options segment_kit_strict_scan(void);
sgs_recovery segment_kit_recover(segment_kit *kit, int64_t cut_at);

#endif
