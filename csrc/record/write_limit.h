/* write_limit.h - when a batch is full [format.md 10], Kafka MemoryRecordsBuilder.isFull and hasRoomFor.
 *
 * The first record always has room; the next one has while what is there, compressed as far as can be guessed, and the
 * record itself, not compressed, stay within the limit. The builders do not look at it: who appends past the limit may. */
#ifndef SGS_RECORD_WRITE_LIMIT_H
#define SGS_RECORD_WRITE_LIMIT_H

#include "record/batch_builder.h"
#include "record/legacy_builder.h"

typedef struct sgs_write_limit {
    int64_t bytes;
    float estimated_ratio; /* compressed to uncompressed size: 1 until more is known */
} sgs_write_limit;

/** Size of the batch or messages, if they were finished now: exact without a codec, a guess with one. */
int64_t sgs_batch_builder_estimated_size(const sgs_batch_builder *builder, float estimated_ratio);
int64_t sgs_legacy_builder_estimated_size(const sgs_legacy_builder *builder, float estimated_ratio);
/** true when no record has room, also because the builder was finished or aborted */
bool sgs_batch_builder_is_full(const sgs_batch_builder *builder, sgs_write_limit limit);
bool sgs_legacy_builder_is_full(const sgs_legacy_builder *builder, sgs_write_limit limit);
/** Whether the record at the next offset has room. */
bool sgs_batch_builder_has_room_for(const sgs_batch_builder *builder, sgs_write_limit limit, int64_t timestamp,
                                    sgs_bytes key, sgs_bytes value, const sgs_record_header *headers,
                                    int32_t headers_count);
bool sgs_legacy_builder_has_room_for(const sgs_legacy_builder *builder, sgs_write_limit limit, sgs_bytes key,
                                     sgs_bytes value);

#endif
