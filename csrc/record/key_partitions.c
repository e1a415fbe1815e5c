/* key_partitions.c - see key_partitions.h. */
#include "record/key_partitions.h"

#include <inttypes.h>

#include "base/murmur2.h"
#include "record/arrow_source.h"

sgs_status sgs_key_partitions(const struct ArrowSchema *schema, const struct ArrowArray *array,
                              int32_t partitions_count, int32_t *out, sgs_error *err)
{
    if (partitions_count < 1)
        return sgs_fail(err, SGS_ILLEGAL_ARGUMENT, "a topic has at least one partition, not %" PRId32,
                        partitions_count);
    if (array->release == NULL || array->length < 0 || array->offset < 0 || array->offset > INT64_MAX - array->length)
        return sgs_fail(err, SGS_ILLEGAL_ARGUMENT, "a released Arrow array, or one of a negative size");
    sgs_arrow_binary keys;
    SGS_TRY(sgs_arrow_binary_init(&keys, "key", schema, array, 0, array->length, err));
    for (int64_t row = 0; row < array->length; ++row) {
        sgs_bytes key;
        if (!sgs_arrow_binary_cell(&keys, row, &key))
            return sgs_fail(err, SGS_ILLEGAL_ARGUMENT, "row %" PRId64 ": broken offsets or indices in column key", row);
        out[row] = key.size < 0 ? -1 : sgs_murmur2_partition(key.data, (size_t)key.size, partitions_count);
    }
    return SGS_OK;
}
