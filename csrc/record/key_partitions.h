/* key_partitions.h - to which partitions a column of keys goes, as Kafka's clients choose them. */
#ifndef SGS_RECORD_KEY_PARTITIONS_H
#define SGS_RECORD_KEY_PARTITIONS_H

#include "record/arrow_abi.h"

#include "base/status.h"

/** Partition of each key, Kafka BuiltInPartitioner.partitionForKey; -1 for a null key.
 *  @param schema, array  binary or string in any of Arrow's layouts; not trusted, not released
 *  @param partitions_count  at least 1
 *  @param out  room for `array->length` numbers
 *  @return SGS_OK; SGS_ILLEGAL_ARGUMENT: another type, or a cell that points outside of what there is */
sgs_status sgs_key_partitions(const struct ArrowSchema *schema, const struct ArrowArray *array,
                              int32_t partitions_count, int32_t *out, sgs_error *err);

#endif
