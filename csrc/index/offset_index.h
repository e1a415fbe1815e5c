/* offset_index.h - sparse map from record offset to byte position in the .log file.
 *
 * FILE FORMAT [IDX-1..IDX-4, OFX-1], Kafka OffsetIndex: ascending 8-byte big-endian entries, no checksum.
 *     0  relative_offset  int32  offset - base_offset, >= 0
 *     4  position         int32  bytes from the start of the .log file, >= 0 */
#ifndef SGS_INDEX_OFFSET_INDEX_H
#define SGS_INDEX_OFFSET_INDEX_H

#include "index/abstract_index.h"

enum { SGS_OFFSET_INDEX_ENTRY_BYTES = 8 };

typedef struct sgs_offset_position {
    int64_t offset;
    int32_t position;
} sgs_offset_position;

typedef struct sgs_offset_index {
    sgs_abstract_index base;
    int64_t last_offset; /* base_offset when empty [OFX-2] */
} sgs_offset_index;

sgs_status sgs_offset_index_open(sgs_offset_index *index, const sgs_env *env, int directory_fd, const char *name,
                                 int64_t base_offset, const sgs_index_options *options, sgs_error *err);
bool sgs_offset_index_is_full(const sgs_offset_index *index);
/** [OFX-3] greatest entry at or below target, or (base_offset, 0). On an active segment the search covers only the
 *  entries before the first that does not increase [DUR-80]; an impossible entry is SGS_CORRUPT_INDEX [DUR-53]. */
sgs_status sgs_offset_index_lookup(const sgs_offset_index *index, int64_t target, sgs_offset_position *out,
                                   sgs_error *err);
/** As lookup, and the entry behind it: the batch that holds the target lies between the two, or begins at the second.
 *  @param above  (base_offset, -1) when there is none, or none that can be */
sgs_status sgs_offset_index_lookup_between(const sgs_offset_index *index, int64_t target, sgs_offset_position *floor,
                                           sgs_offset_position *above, sgs_error *err);
/** [OFX-4] @return SGS_OK; SGS_ILLEGAL_ARGUMENT full; SGS_INVALID_OFFSET; SGS_INDEX_OFFSET_OVERFLOW; SGS_ILLEGAL_STATE when
 *          the entry was written, but not behind the others, after a resize that failed [IDX-9] */
sgs_status sgs_offset_index_append(sgs_offset_index *index, const sgs_env *env, const char *name, int64_t offset,
                                   int32_t position, sgs_error *err);
/** [OFX-5] @return SGS_CORRUPT_INDEX, and nothing changes, when the search met what was cut off [IDX-9] */
sgs_status sgs_offset_index_truncate_to(sgs_offset_index *index, int64_t offset, sgs_error *err);
/** [OFX-6] `*found` false when every entry is below */
sgs_status sgs_offset_index_fetch_upper_bound_offset(const sgs_offset_index *index, sgs_offset_position fetch_start,
                                                     int32_t fetch_size, sgs_offset_position *out, bool *found,
                                                     sgs_error *err);
sgs_status sgs_offset_index_sanity_check(const sgs_offset_index *index, sgs_error *err); /* [OFX-7] */
/** Entry n. @return SGS_ILLEGAL_ARGUMENT when n >= entries [IDX-5] */
sgs_status sgs_offset_index_entry(const sgs_offset_index *index, uint32_t n, sgs_offset_position *out, sgs_error *err);
/** Re-read last_offset after resize, reset or truncation of the shared part. */
void sgs_offset_index_refresh(sgs_offset_index *index);

#endif
