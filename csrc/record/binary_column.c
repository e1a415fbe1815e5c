/* binary_column.c - growing a variable-size Arrow column. */
#include "record/binary_column.h"

#include <stdbool.h>

void sgs_validity_init(sgs_validity *validity, sgs_memory memory)
{
    *validity = (sgs_validity){ .null_count = 0 };
    sgs_buffer_init(&validity->bits, memory);
}

static size_t bitmap_bytes(int64_t rows) { return (size_t)((rows + 7) / 8); }

static void write_bit(uint8_t *bits, int64_t row, bool set)
{
    const unsigned mask = 1U << (row % 8);
    bits[row / 8] = (uint8_t)((bits[row / 8] & ~mask) | (set ? mask : 0U));
}

/* Write the same bit for rows [row, end). What lies behind `end` in the last byte becomes the same; later rows
 * overwrite it. */
static void fill_bits(uint8_t *bits, int64_t row, int64_t end, bool set)
{
    for (; row < end && row % 8 != 0; ++row)
        write_bit(bits, row, set);
    if (row < end)
        memset(bits + row / 8, set ? 0xFF : 0, bitmap_bytes(end) - (size_t)(row / 8));
}

sgs_status sgs_validity_append(sgs_validity *validity, int64_t row, const int32_t *sizes, int64_t count, int64_t nulls,
                               sgs_error *err)
{
    const bool is_new = validity->bits.data == NULL;
    if (nulls == 0 && is_new)
        return SGS_OK;
    const size_t bytes = bitmap_bytes(row + count);
    if (bytes > validity->bits.size) {
        SGS_TRY(sgs_buffer_reserve(&validity->bits, bytes - validity->bits.size, err));
        validity->bits.size = bytes;
    }
    uint8_t *const bits = validity->bits.data;
    if (is_new)
        fill_bits(bits, 0, row, true);
    if (nulls == 0 || nulls == count) {
        fill_bits(bits, row, row + count, nulls == 0);
    } else {
        for (int64_t i = 0; i < count; ++i)
            write_bit(bits, row + i, sizes[i] >= 0);
    }
    validity->null_count += nulls;
    return SGS_OK;
}

void sgs_binary_column_init(sgs_binary_column *column, sgs_memory memory)
{
    sgs_buffer_init(&column->offsets, memory);
    sgs_buffer_init(&column->data, memory);
    sgs_validity_init(&column->validity, memory);
}

void sgs_binary_column_deinit(sgs_binary_column *column)
{
    sgs_buffer_deinit(&column->offsets);
    sgs_buffer_deinit(&column->data);
    sgs_buffer_deinit(&column->validity.bits);
}

sgs_status sgs_binary_column_reserve(sgs_binary_column *column, int64_t rows, size_t bytes, sgs_error *err)
{
    if (bytes > INT32_MAX || column->data.size > INT32_MAX - bytes)
        return sgs_fail(err, SGS_LIMIT_EXCEEDED, "a binary column of more than 2^31-1 bytes");
    const size_t first = column->offsets.size == 0;
    SGS_TRY(sgs_buffer_reserve(&column->offsets, ((size_t)rows + first) * sizeof(int32_t), err));
    if (first) {
        memset(column->offsets.data, 0, sizeof(int32_t));
        column->offsets.size = sizeof(int32_t);
    }
    return sgs_buffer_reserve(&column->data, bytes + SGS_COPY_STEP_BYTES, err);
}

sgs_status sgs_binary_column_append(sgs_binary_column *column, int64_t row, const uint8_t *const *values,
                                    const int32_t *sizes, int64_t count, size_t total, int64_t nulls,
                                    const uint8_t *readable_end, sgs_error *err)
{
    SGS_TRY(sgs_binary_column_reserve(column, count, total, err));
    SGS_TRY(sgs_validity_append(&column->validity, row, sizes, count, nulls, err));
    int32_t *const offsets = (int32_t *)(void *)(column->offsets.data + column->offsets.size);
    uint8_t *const data = column->data.data;
    size_t end = column->data.size;
    for (int64_t i = 0; i < count; ++i) {
        if (sizes[i] > 0) {
            sgs_copy_wide(data + end, values[i], (size_t)sizes[i], readable_end);
            end += (size_t)sizes[i];
        }
        offsets[i] = (int32_t)end;
    }
    SGS_ASSERT(end - column->data.size == total, err);
    column->data.size = end;
    column->offsets.size += (size_t)count * sizeof(int32_t);
    return SGS_OK;
}

sgs_binary_mark sgs_binary_column_mark(const sgs_binary_column *column)
{
    return (sgs_binary_mark){ column->offsets.size, column->data.size, column->validity.null_count };
}

void sgs_binary_column_rewind(sgs_binary_column *column, sgs_binary_mark mark)
{
    column->offsets.size = mark.offsets_bytes;
    column->data.size = mark.data_bytes;
    column->validity.null_count = mark.null_count; /* bits behind the rows are rewritten by the rows that come */
}
