/* binary_column.h - one variable-size Arrow column while it grows: int32 offsets, bytes, and a validity bitmap that
 * exists only from the first null on. Key, value, header key and header value are such columns. */
#ifndef SGS_RECORD_BINARY_COLUMN_H
#define SGS_RECORD_BINARY_COLUMN_H

#include <string.h>

#include "base/buffer.h"

enum {
    SGS_COPY_STEP_BYTES = 32,      /* what one step of sgs_copy_wide moves */
    SGS_COPY_WIDE_MAX_BYTES = 512, /* beyond this memcpy is faster */
};

typedef struct sgs_validity { /* Arrow's bitmap, least significant bit first, 1 = not null */
    sgs_buffer bits;          /* empty until the first null */
    int64_t null_count;
} sgs_validity;

typedef struct sgs_binary_column {
    sgs_buffer offsets; /* int32: one more than rows, the first is 0; empty before the first row */
    sgs_buffer data;
    sgs_validity validity;
} sgs_binary_column;

/* a point to go back to */
typedef struct sgs_binary_mark {
    size_t offsets_bytes, data_bytes;
    int64_t null_count;
} sgs_binary_mark;

void sgs_validity_init(sgs_validity *validity, sgs_memory memory);
/** Say for rows [row, row + count) which are null: those whose size is negative; `nulls` of them are. */
sgs_status sgs_validity_append(sgs_validity *validity, int64_t row, const int32_t *sizes, int64_t count, int64_t nulls,
                               sgs_error *err);

void sgs_binary_column_init(sgs_binary_column *column, sgs_memory memory);
void sgs_binary_column_deinit(sgs_binary_column *column);
/** Make room for `rows` more rows and `bytes` more bytes (and the overhang of sgs_copy_wide).
 *  @return SGS_LIMIT_EXCEEDED when the offsets would pass 2^31-1; SGS_RESOURCE */
sgs_status sgs_binary_column_reserve(sgs_binary_column *column, int64_t rows, size_t bytes, sgs_error *err);
/** Append `count` (at least 1) values, `total` bytes in all, `nulls` of them null: their size is negative. Sources may
 *  be read up to `readable_end`. */
sgs_status sgs_binary_column_append(sgs_binary_column *column, int64_t row, const uint8_t *const *values,
                                    const int32_t *sizes, int64_t count, size_t total, int64_t nulls,
                                    const uint8_t *readable_end, sgs_error *err);
sgs_binary_mark sgs_binary_column_mark(const sgs_binary_column *column);
void sgs_binary_column_rewind(sgs_binary_column *column, sgs_binary_mark mark);

/* Copy `size` bytes in steps of 32 without a tail loop: reads and writes up to 31 bytes too many, so `out` has that
 * room, and a source near `readable_end` takes the exact way. */
static inline void sgs_copy_wide(uint8_t *out, const uint8_t *from, size_t size, const uint8_t *readable_end)
{
    if (size > SGS_COPY_WIDE_MAX_BYTES || (size_t)(readable_end - from) < size + SGS_COPY_STEP_BYTES) {
        memcpy(out, from, size);
        return;
    }
    for (size_t at = 0; at < size; at += SGS_COPY_STEP_BYTES)
        memcpy(out + at, from + at, SGS_COPY_STEP_BYTES);
}

#endif
