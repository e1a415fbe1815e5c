/* arrow_source.h - reading cells of an Arrow column that somebody else made: binary and string in both offset widths,
 * null columns, timestamps of any unit, and the lists of headers. Slices are honoured at every level. */
#ifndef SGS_RECORD_ARROW_SOURCE_H
#define SGS_RECORD_ARROW_SOURCE_H

#include "record/arrow_abi.h"
#include "record/record.h"

/* binary, string (int32 offsets), their large forms (int64 offsets), or null */
typedef struct sgs_arrow_binary {
    const uint8_t *validity; /* NULL = no nulls */
    const uint8_t *data;
    const int32_t *offsets; /* one of the two, or neither: then every cell is null */
    const int64_t *large_offsets;
    int64_t first; /* index of cell 0 */
} sgs_arrow_binary;

typedef struct sgs_arrow_times {
    const uint8_t *validity;
    const int64_t *values; /* NULL = every cell is null */
    int64_t first;
    int64_t per_ms; /* units in a millisecond; 0: the unit is the second */
} sgs_arrow_times;

typedef struct sgs_arrow_headers {
    const uint8_t *validity, *element_validity;
    const int32_t *offsets;
    const int64_t *large_offsets;
    int64_t first, element_first;
    sgs_arrow_binary key, value;
} sgs_arrow_headers;

/** @param name  of the column, for messages
 *  @param parent_offset  offset of the struct that `array` is a child of
 *  @return SGS_OK; SGS_ILLEGAL_ARGUMENT naming the column, its type and what is accepted, or what its layout lacks */
sgs_status sgs_arrow_binary_init(sgs_arrow_binary *column, const char *name, const struct ArrowSchema *schema,
                                 const struct ArrowArray *array, int64_t parent_offset, int64_t rows, sgs_error *err);
sgs_status sgs_arrow_times_init(sgs_arrow_times *column, const char *name, const struct ArrowSchema *schema,
                                const struct ArrowArray *array, int64_t parent_offset, int64_t rows, sgs_error *err);
sgs_status sgs_arrow_headers_init(sgs_arrow_headers *column, const char *name, const struct ArrowSchema *schema,
                                  const struct ArrowArray *array, int64_t parent_offset, int64_t rows, sgs_error *err);

static inline bool sgs_arrow_is_valid(const uint8_t *validity, int64_t index)
{
    return validity == NULL || ((validity[index / 8] >> (index % 8)) & 1) != 0;
}

/** The bytes of cell `row`. @return false when its offsets descend or it has more than 2^31-1 bytes */
static inline bool sgs_arrow_binary_cell(const sgs_arrow_binary *column, int64_t row, sgs_bytes *bytes)
{
    const int64_t index = column->first + row;
    *bytes = (sgs_bytes){ NULL, -1 };
    if (column->offsets != NULL) {
        if (!sgs_arrow_is_valid(column->validity, index))
            return true;
        const int32_t start = column->offsets[index];
        const int32_t end = column->offsets[index + 1];
        *bytes = (sgs_bytes){ column->data + start, end - start };
        return start >= 0 && end >= start;
    }
    if (column->large_offsets == NULL || !sgs_arrow_is_valid(column->validity, index))
        return true;
    const int64_t start = column->large_offsets[index];
    const int64_t end = column->large_offsets[index + 1];
    if (start < 0 || end < start || end - start > INT32_MAX)
        return false;
    *bytes = (sgs_bytes){ column->data + start, (int32_t)(end - start) };
    return true;
}

/** Milliseconds of cell `row`, rounded down; `*is_null` for a null. @return false when they do not fit 64 bits */
static inline bool sgs_arrow_times_cell(const sgs_arrow_times *column, int64_t row, int64_t *ms, bool *is_null)
{
    const int64_t index = column->first + row;
    *is_null = column->values == NULL || !sgs_arrow_is_valid(column->validity, index);
    if (*is_null)
        return true;
    const int64_t value = column->values[index];
    if (column->per_ms == 0)
        return !__builtin_mul_overflow(value, 1000, ms);
    *ms = value / column->per_ms - (value % column->per_ms < 0);
    return true;
}

/** Which header entries cell `row` has: [*start, *end). None for a null. @return false when its offsets descend */
static inline bool sgs_arrow_headers_cell(const sgs_arrow_headers *column, int64_t row, int64_t *start, int64_t *end)
{
    const int64_t index = column->first + row;
    *start = *end = 0;
    if (!sgs_arrow_is_valid(column->validity, index) || (column->offsets == NULL && column->large_offsets == NULL))
        return true;
    *start = column->offsets != NULL ? column->offsets[index] : column->large_offsets[index];
    *end = column->offsets != NULL ? column->offsets[index + 1] : column->large_offsets[index + 1];
    return *start >= 0 && *end >= *start && *end - *start <= INT32_MAX;
}

/** Entry `entry` (an index of sgs_arrow_headers_cell). @return false: a null key or entry, or descending offsets */
static inline bool sgs_arrow_header(const sgs_arrow_headers *column, int64_t entry, sgs_record_header *header)
{
    if (!sgs_arrow_is_valid(column->element_validity, column->element_first + entry))
        return false;
    return sgs_arrow_binary_cell(&column->key, entry, &header->key) && header->key.size >= 0 &&
           sgs_arrow_binary_cell(&column->value, entry, &header->value);
}

#endif
