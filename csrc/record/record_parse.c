/* record_parse.c - the headers of a record, and what to say of bytes that are no record. */
#include "record/record_parse.h"

#include <inttypes.h>
#include <stdio.h>

sgs_record_fault sgs_record_check_headers(const uint8_t *at, const uint8_t *end, int32_t count, sgs_null_sizes nulls)
{
    const int32_t least_size = nulls == SGS_NULL_IS_NEGATIVE ? INT32_MIN : -1;
    if (count < 0)
        return "a record has a negative header count";
    if (count > end - at)
        return "a record counts more headers than it has bytes";
    for (int32_t i = 0; i < count; ++i) {
        int32_t key_size, value_size;
        if (!sgs_parse_varint(&at, end, &key_size))
            return "a header key size is not a number";
        if (key_size < 0)
            return "a header key is null";
        if (key_size > end - at)
            return "a header key reaches beyond its record";
        at += key_size;
        if (!sgs_parse_varint(&at, end, &value_size))
            return "a header value size is not a number";
        if (value_size < least_size || value_size > end - at)
            return "a header value reaches beyond its record";
        at += value_size < 0 ? 0 : value_size;
    }
    return at == end ? NULL : "a record does not end at its declared size";
}

sgs_status sgs_record_fail(const sgs_batch_header *batch, int32_t index, sgs_record_fault fault, sgs_error *err)
{
    return sgs_fail(err, SGS_INVALID_RECORD, "batch at offset %" PRId64 ", record %" PRId32 ": %s", batch->base_offset,
                    index, fault);
}

sgs_status sgs_record_fail_size(int64_t size_bytes, int64_t limit, sgs_error *err)
{
    char expected[SGS_ERROR_VALUE_BYTES];
    (void)snprintf(expected, sizeof expected,
                   "at most %" PRId64 " bytes (max_record_bytes, max.decompressed.message.bytes)", limit);
    return sgs_fail_at(err, SGS_LIMIT_EXCEEDED, -1, expected, "%" PRId64 " bytes", size_bytes);
}
