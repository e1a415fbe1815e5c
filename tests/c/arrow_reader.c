/* arrow_reader.c - cells of exported Arrow arrays. */
#include "arrow_reader.h"

#include <string.h>

bool arrow_is_null(const struct ArrowArray *array, int64_t row)
{
    const uint8_t *const bits = array->buffers[0];
    const int64_t index = array->offset + row;
    return bits != NULL && ((bits[index / 8] >> (index % 8)) & 1) == 0;
}

static const int32_t *offsets_of(const struct ArrowArray *array) { return (const int32_t *)array->buffers[1]; }

sgs_bytes arrow_bytes(const struct ArrowArray *array, int64_t row)
{
    if (arrow_is_null(array, row))
        return (sgs_bytes){ NULL, -1 };
    const int32_t *const offsets = offsets_of(array) + array->offset + row;
    return (sgs_bytes){ (const uint8_t *)array->buffers[2] + offsets[0], offsets[1] - offsets[0] };
}

int64_t arrow_int64(const struct ArrowArray *array, int64_t row)
{
    return ((const int64_t *)array->buffers[1])[array->offset + row];
}

int32_t arrow_int32(const struct ArrowArray *array, int64_t row)
{
    return ((const int32_t *)array->buffers[1])[array->offset + row];
}

void arrow_list(const struct ArrowArray *array, int64_t row, int64_t *start, int64_t *end)
{
    *start = offsets_of(array)[array->offset + row];
    *end = offsets_of(array)[array->offset + row + 1];
}

const struct ArrowArray *arrow_child(const struct ArrowSchema *schema, const struct ArrowArray *array, const char *name)
{
    for (int64_t i = 0; i < schema->n_children; ++i)
        if (strcmp(schema->children[i]->name, name) == 0)
            return array->children[i];
    return NULL;
}

static int64_t buffers_of(const char *format)
{
    if (strcmp(format, "+s") == 0)
        return 1;
    return strcmp(format, "z") == 0 || strcmp(format, "u") == 0 ? 3 : 2;
}

static bool nulls_are_counted(const struct ArrowArray *array)
{
    int64_t nulls = 0;
    for (int64_t row = 0; row < array->length; ++row)
        nulls += arrow_is_null(array, row);
    return nulls == array->null_count;
}

static bool offsets_are_sound(const struct ArrowArray *array)
{
    const int32_t *const offsets = offsets_of(array);
    if (offsets[0] != 0)
        return false;
    for (int64_t row = 0; row < array->length; ++row)
        if (offsets[row + 1] < offsets[row])
            return false;
    return true;
}

/* One level; the levels are few and fixed, so the caller walks them. */
static bool level_is_sound(const struct ArrowSchema *schema, const struct ArrowArray *array)
{
    if (schema->release == NULL || array->release == NULL || schema->n_children != array->n_children ||
        array->n_buffers != buffers_of(schema->format) || array->offset != 0 || array->dictionary != NULL ||
        schema->dictionary != NULL || !nulls_are_counted(array))
        return false;
    for (int64_t i = 1; i < array->n_buffers; ++i)
        if (array->buffers[i] == NULL)
            return false;
    const bool has_offsets = array->n_buffers == 3 || strcmp(schema->format, "+l") == 0;
    return !has_offsets || offsets_are_sound(array);
}

bool arrow_is_sound(const struct ArrowSchema *schema, const struct ArrowArray *array)
{
    if (!level_is_sound(schema, array) || strcmp(schema->format, "+s") != 0)
        return false;
    for (int64_t i = 0; i < array->n_children; ++i) {
        const struct ArrowSchema *const type = schema->children[i];
        const struct ArrowArray *const column = array->children[i];
        if (!level_is_sound(type, column) || column->length != array->length)
            return false;
        if (strcmp(type->format, "+l") != 0)
            continue;
        const struct ArrowArray *const element = column->children[0];
        if (!level_is_sound(type->children[0], element) || element->length != offsets_of(column)[column->length])
            return false;
        for (int64_t j = 0; j < element->n_children; ++j)
            if (!level_is_sound(type->children[0]->children[j], element->children[j]) ||
                element->children[j]->length != element->length)
                return false;
    }
    return true;
}
