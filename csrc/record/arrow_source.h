/* arrow_source.h - reading cells of an Arrow column that somebody else made: binary and string in each of Arrow's
 * layouts, null columns, timestamps of any unit, and the lists of headers. Slices are honoured at every level.
 *
 * What a producer says is not trusted: view lengths, buffer numbers and offsets, and dictionary indices are compared
 * with the sizes it states before a byte is read. The interface states no size of an offsets or values buffer. */
#ifndef SGS_RECORD_ARROW_SOURCE_H
#define SGS_RECORD_ARROW_SOURCE_H

#include "record/arrow_abi.h"
#include "record/record.h"

enum { SGS_ARROW_VIEW_BYTES = 16, SGS_ARROW_VIEW_INLINE_BYTES = 12 };

/* Cells of binary or string in one of four layouts, of which the pointer is set; none: every cell is null */
typedef struct sgs_arrow_values {
    const uint8_t *validity; /* NULL = no nulls */
    const uint8_t *data;     /* behind the offsets, or the cells of a fixed size */
    const int32_t *offsets;
    const int64_t *large_offsets;
    const uint8_t *views;
    const uint8_t *fixed;
    int64_t first;     /* index of cell 0 */
    int64_t data_size; /* the offset behind the last cell */
    const void *const *view_buffers;
    const int64_t *view_buffer_sizes;
    int64_t view_buffers_count;
    int32_t fixed_size;
} sgs_arrow_values;

typedef struct sgs_arrow_binary {
    sgs_arrow_values values; /* of the column, or of its dictionary */
    const void *indices;     /* NULL = no dictionary */
    const uint8_t *index_validity;
    int64_t index_first, dictionary_size;
    char index_format; /* c C s S i I l L */
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
    int64_t first, element_first, elements_count;
    sgs_arrow_binary key, value;
} sgs_arrow_headers;

/** Check the type alone, where there may be no rows.
 *  @param name  of the column, for messages
 *  @return SGS_OK; SGS_ILLEGAL_ARGUMENT naming the column, its type and what is accepted, or the field of a header that
 *  would be lost */
sgs_status sgs_arrow_binary_check(const char *name, const struct ArrowSchema *schema, sgs_error *err);
sgs_status sgs_arrow_times_check(const char *name, const struct ArrowSchema *schema, sgs_error *err);
sgs_status sgs_arrow_headers_check(const char *name, const struct ArrowSchema *schema, sgs_error *err);

/** Check type and layout, and begin to read.
 *  @param name  of the column, for messages
 *  @param parent_offset  offset of the struct that `array` is a child of
 *  @return SGS_OK; SGS_ILLEGAL_ARGUMENT naming the column, its type and what is accepted, or what its layout lacks */
sgs_status sgs_arrow_binary_init(sgs_arrow_binary *column, const char *name, const struct ArrowSchema *schema,
                                 const struct ArrowArray *array, int64_t parent_offset, int64_t rows, sgs_error *err);
sgs_status sgs_arrow_times_init(sgs_arrow_times *column, const char *name, const struct ArrowSchema *schema,
                                const struct ArrowArray *array, int64_t parent_offset, int64_t rows, sgs_error *err);
sgs_status sgs_arrow_headers_init(sgs_arrow_headers *column, const char *name, const struct ArrowSchema *schema,
                                  const struct ArrowArray *array, int64_t parent_offset, int64_t rows, sgs_error *err);

/* The layouts that are less common, and dictionaries; as sgs_arrow_binary_cell. */
bool sgs_arrow_view_or_fixed_cell(const sgs_arrow_values *values, int64_t row, sgs_bytes *bytes);
bool sgs_arrow_dictionary_cell(const sgs_arrow_binary *column, int64_t row, sgs_bytes *bytes);

static inline bool sgs_arrow_is_valid(const uint8_t *validity, int64_t index)
{
    return validity == NULL || ((validity[index / 8] >> (index % 8)) & 1) != 0;
}

static inline bool sgs_arrow_values_cell(const sgs_arrow_values *values, int64_t row, sgs_bytes *bytes)
{
    const int64_t index = values->first + row;
    *bytes = (sgs_bytes){ NULL, -1 };
    if (!sgs_arrow_is_valid(values->validity, index))
        return true;
    int64_t start, end;
    if (values->offsets != NULL) {
        start = values->offsets[index];
        end = values->offsets[index + 1];
    } else if (values->large_offsets != NULL) {
        start = values->large_offsets[index];
        end = values->large_offsets[index + 1];
    } else {
        return sgs_arrow_view_or_fixed_cell(values, row, bytes);
    }
    if (start < 0 || end < start || end > values->data_size || end - start > INT32_MAX)
        return false;
    *bytes = (sgs_bytes){ values->data + start, (int32_t)(end - start) };
    return true;
}

/** The bytes of cell `row`. @return false when its offsets, view or dictionary index point outside of what there is, or
 *  it has more than 2^31-1 bytes */
static inline bool sgs_arrow_binary_cell(const sgs_arrow_binary *column, int64_t row, sgs_bytes *bytes)
{
    return column->indices == NULL ? sgs_arrow_values_cell(&column->values, row, bytes)
                                   : sgs_arrow_dictionary_cell(column, row, bytes);
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

/** Which header entries cell `row` has: [*start, *end). None for a null. @return false when its offsets descend or there
 *  are not as many entries */
static inline bool sgs_arrow_headers_cell(const sgs_arrow_headers *column, int64_t row, int64_t *start, int64_t *end)
{
    const int64_t index = column->first + row;
    *start = *end = 0;
    if (!sgs_arrow_is_valid(column->validity, index) || (column->offsets == NULL && column->large_offsets == NULL))
        return true;
    *start = column->offsets != NULL ? column->offsets[index] : column->large_offsets[index];
    *end = column->offsets != NULL ? column->offsets[index + 1] : column->large_offsets[index + 1];
    return *start >= 0 && *end >= *start && *end <= column->elements_count && *end - *start <= INT32_MAX;
}

/** Entry `entry` (an index of sgs_arrow_headers_cell); of a null entry both key and value are null, which no record
 *  has. @return false: descending offsets, or an index outside its dictionary */
static inline bool sgs_arrow_header(const sgs_arrow_headers *column, int64_t entry, sgs_record_header *header)
{
    if (!sgs_arrow_is_valid(column->element_validity, column->element_first + entry)) {
        header->key = header->value = (sgs_bytes){ .data = NULL, .size = -1 };
        return true;
    }
    return sgs_arrow_binary_cell(&column->key, entry, &header->key) &&
           sgs_arrow_binary_cell(&column->value, entry, &header->value);
}

#endif
