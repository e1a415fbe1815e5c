/* time_index.h - sparse map from timestamp to offset: (T, O) says that no record up to O has a timestamp above T.
 *
 * FILE FORMAT [TMX-1], Kafka TimeIndex: 12-byte big-endian entries, both fields ascending, no checksum.
 *     0  timestamp        int64  ms
 *     8  relative_offset  int32  offset - base_offset, >= 0
 * The last slot is kept for the entry written when the segment is sealed or closed [TMX-4]. */
#ifndef SGS_INDEX_TIME_INDEX_H
#define SGS_INDEX_TIME_INDEX_H

#include "index/abstract_index.h"

enum { SGS_TIME_INDEX_ENTRY_BYTES = 12 };

typedef struct sgs_timestamp_offset {
    int64_t timestamp;
    int64_t offset;
} sgs_timestamp_offset;

typedef struct sgs_time_index {
    sgs_abstract_index base;
    sgs_timestamp_offset last_entry; /* (-1, base_offset) when empty [TMX-2] */
} sgs_time_index;

sgs_status sgs_time_index_open(sgs_time_index *index, const sgs_env *env, int directory_fd, const char *name,
                               int64_t base_offset, const sgs_index_options *options, sgs_error *err);
bool sgs_time_index_is_full(const sgs_time_index *index); /* [TMX-4] */
sgs_status sgs_time_index_lookup(const sgs_time_index *index, int64_t timestamp, sgs_timestamp_offset *out,
                                 sgs_error *err); /* [TMX-3] */
/** [TMX-5] @return also SGS_ILLEGAL_STATE when the entry was written, but not behind the others [IDX-9] */
sgs_status sgs_time_index_maybe_append(sgs_time_index *index, const sgs_env *env, const char *name, int64_t timestamp,
                                       int64_t offset, bool skip_full_check, sgs_error *err);
/** [TMX-7] @return SGS_CORRUPT_INDEX, and nothing changes, when the search met what was cut off [IDX-9] */
sgs_status sgs_time_index_truncate_to(sgs_time_index *index, int64_t offset, sgs_error *err);
/** [IDX-9, TMX-2] The last entry is read again when the length changed.
 *  @return also SGS_CORRUPT_INDEX when it was cut off by an earlier resize, with the length changed */
sgs_status sgs_time_index_resize(sgs_time_index *index, const sgs_env *env, const char *name, uint32_t size,
                                 bool *changed, sgs_error *err);
/** [IDX-10, TMX-2] Trim, and read the last entry again when a resize that failed had left it wrong. */
sgs_status sgs_time_index_trim(sgs_time_index *index, const sgs_env *env, const char *name, sgs_error *err);
sgs_status sgs_time_index_sanity_check(const sgs_time_index *index, sgs_error *err); /* [TMX-8] */
sgs_status sgs_time_index_entry(const sgs_time_index *index, uint32_t n, sgs_timestamp_offset *out, sgs_error *err);
void sgs_time_index_refresh(sgs_time_index *index);

#endif
