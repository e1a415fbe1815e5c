/* arrow_source.c - checking that Arrow columns are of a kind and layout that the cell readers know. */
#include "record/arrow_source.h"

#include <stdio.h>
#include <string.h>

#include "record/arrow_type.h"

#define BINARY_TYPES "binary or string (plain, large_, _view, fixed_size_ or a dictionary of them), or null"
#define TIMES_TYPES "timestamp of any unit, int64 (ms), or null"
#define HEADER_KEY "headers.element.key"
#define HEADER_VALUE "headers.element.value"
#define HEADERS_TYPES "list or large_list of struct<key: string, value: binary>, or null"

static sgs_status refuse(sgs_error *err, const char *name, const struct ArrowSchema *schema, const char *accepted)
{
    char found[SGS_ARROW_TYPE_BYTES];
    sgs_arrow_type_name(schema, found);
    (void)sgs_fail(err, SGS_ILLEGAL_ARGUMENT, "column %s has the Arrow type %s, expected %s: convert it first", name,
                   found, accepted);
    (void)snprintf(err->found, sizeof err->found, "%s", found);
    (void)snprintf(err->expected, sizeof err->expected, "%s", accepted);
    return SGS_ILLEGAL_ARGUMENT;
}

static sgs_status refuse_numbers(sgs_error *err, const char *name, const char *what, int64_t found, int64_t expected)
{
    (void)sgs_fail(err, SGS_ILLEGAL_ARGUMENT, "column %s has %lld %s, expected %lld", name, (long long)found, what,
                   (long long)expected);
    (void)snprintf(err->found, sizeof err->found, "%lld %s", (long long)found, what);
    (void)snprintf(err->expected, sizeof err->expected, "%lld", (long long)expected);
    return SGS_ILLEGAL_ARGUMENT;
}

/* The parts of an array that any type has: `buffers` of them, `children`, and room for the rows. */
static sgs_status check_layout(const char *name, const struct ArrowArray *array, int64_t buffers, int64_t children,
                               int64_t parent_offset, int64_t rows, sgs_error *err)
{
    if (array->release == NULL)
        return sgs_fail(err, SGS_ILLEGAL_ARGUMENT, "column %s is a released Arrow array", name);
    if (array->n_buffers != buffers)
        return refuse_numbers(err, name, "Arrow buffers", array->n_buffers, buffers);
    if (array->n_children != children)
        return refuse_numbers(err, name, "Arrow children", array->n_children, children);
    if (array->length < 0 || array->offset < 0 || parent_offset < 0 || rows < 0 || array->length < parent_offset ||
        array->length - parent_offset < rows || array->offset > INT64_MAX - array->length)
        return sgs_fail(err, SGS_ILLEGAL_ARGUMENT, "column %s has %lld cells for %lld rows", name,
                        (long long)array->length, (long long)rows);
    return SGS_OK;
}

static sgs_status refuse_missing(const char *name, sgs_error *err)
{
    return sgs_fail(err, SGS_ILLEGAL_ARGUMENT, "column %s lacks an Arrow buffer", name);
}

/* null: no buffers; some libraries give the one that there is no bitmap in */
static sgs_status check_null_layout(const char *name, const struct ArrowArray *array, int64_t parent_offset,
                                    int64_t rows, sgs_error *err)
{
    return check_layout(name, array, array->n_buffers == 1 ? 1 : 0, 0, parent_offset, rows, err);
}

/* null_count -1 means unknown: then the bitmap decides */
static const uint8_t *validity_of(const struct ArrowArray *array)
{
    return array->null_count == 0 ? NULL : array->buffers[0];
}

/* ---- binary and string ---- */

typedef enum layout { OTHER, NOTHING, OFFSETS, LARGE_OFFSETS, VIEWS, FIXED } layout;

/* "w:16" is 16. @return -1 when it is none, or larger than a cell can be */
static int64_t fixed_size(const char *format)
{
    int64_t size = 0;
    if (strncmp(format, "w:", 2) != 0 || format[2] == '\0')
        return -1;
    for (const char *digit = format + 2; *digit != '\0'; ++digit) {
        if (*digit < '0' || *digit > '9')
            return -1;
        size = 10 * size + (*digit - '0');
        if (size > INT32_MAX)
            return -1;
    }
    return size;
}

static layout layout_of(const struct ArrowSchema *schema)
{
    if (schema->format == NULL)
        return OTHER;
    if (sgs_arrow_type_is(schema, "n"))
        return NOTHING;
    if (sgs_arrow_type_is(schema, "z") || sgs_arrow_type_is(schema, "u"))
        return OFFSETS;
    if (sgs_arrow_type_is(schema, "Z") || sgs_arrow_type_is(schema, "U"))
        return LARGE_OFFSETS;
    if (sgs_arrow_type_is(schema, "vz") || sgs_arrow_type_is(schema, "vu"))
        return VIEWS;
    return fixed_size(schema->format) >= 0 ? FIXED : OTHER;
}

/* Buffers: validity, views, those that long cells are in, and the sizes of these. */
static sgs_status init_views(sgs_arrow_values *values, const char *name, const struct ArrowArray *array, sgs_error *err)
{
    values->view_buffers_count = array->n_buffers - 3;
    values->view_buffers = array->buffers + 2;
    values->view_buffer_sizes = array->buffers[array->n_buffers - 1];
    if (values->view_buffers_count > 0 && values->view_buffer_sizes == NULL)
        return refuse_missing(name, err);
    values->views = array->buffers[1];
    return SGS_OK;
}

static sgs_status init_offsets(sgs_arrow_values *values, const char *name, const struct ArrowArray *array, int64_t rows,
                               bool is_large, sgs_error *err)
{
    static const uint8_t nothing[1] = { 0 };
    const int64_t end = values->first + rows;
    values->data = array->buffers[2] != NULL ? array->buffers[2] : nothing; /* allowed when all cells are empty */
    if (is_large)
        values->large_offsets = array->buffers[1];
    else
        values->offsets = array->buffers[1];
    values->data_size = is_large ? values->large_offsets[end] : values->offsets[end];
    if (array->buffers[2] == NULL && values->data_size > 0)
        return refuse_missing(name, err);
    return SGS_OK;
}

static sgs_status init_values(sgs_arrow_values *values, const char *name, const struct ArrowSchema *schema,
                              const struct ArrowArray *array, int64_t parent_offset, int64_t rows, sgs_error *err)
{
    const layout layout_ = layout_of(schema);
    int64_t buffers = layout_ == FIXED ? 2 : 3;
    if (layout_ == VIEWS && array->n_buffers > buffers)
        buffers = array->n_buffers;
    const sgs_status status = layout_ == NOTHING ? check_null_layout(name, array, parent_offset, rows, err)
                                                 : check_layout(name, array, buffers, 0, parent_offset, rows, err);
    if (status != SGS_OK)
        return status;
    *values = (sgs_arrow_values){ .first = array->offset + parent_offset };
    if (layout_ == NOTHING || rows == 0)
        return SGS_OK;
    if (array->buffers[1] == NULL)
        return refuse_missing(name, err);
    values->validity = validity_of(array);
    if (layout_ == VIEWS)
        return init_views(values, name, array, err);
    if (layout_ != FIXED)
        return init_offsets(values, name, array, rows, layout_ == LARGE_OFFSETS, err);
    values->fixed_size = (int32_t)fixed_size(schema->format);
    values->fixed = array->buffers[1];
    int64_t size; /* the cells' places must be numbers of 64 bits */
    if (__builtin_mul_overflow(values->first + rows, values->fixed_size, &size))
        return sgs_fail(err, SGS_ILLEGAL_ARGUMENT, "column %s has cells beyond 2^63 bytes", name);
    return SGS_OK;
}

static sgs_status init_dictionary(sgs_arrow_binary *column, const char *name, const struct ArrowSchema *schema,
                                  const struct ArrowArray *array, int64_t parent_offset, int64_t rows, sgs_error *err)
{
    sgs_status status = check_layout(name, array, 2, 0, parent_offset, rows, err);
    if (status != SGS_OK)
        return status;
    if (array->dictionary == NULL)
        return sgs_fail(err, SGS_ILLEGAL_ARGUMENT, "column %s lacks its Arrow dictionary", name);
    status =
        init_values(&column->values, name, schema->dictionary, array->dictionary, 0, array->dictionary->length, err);
    if (status != SGS_OK || rows == 0)
        return status;
    if (array->buffers[1] == NULL)
        return refuse_missing(name, err);
    column->indices = array->buffers[1];
    column->index_format = schema->format[0];
    column->index_validity = validity_of(array);
    column->index_first = array->offset + parent_offset;
    column->dictionary_size = array->dictionary->length;
    return SGS_OK;
}

sgs_status sgs_arrow_binary_check(const char *name, const struct ArrowSchema *schema, sgs_error *err)
{
    const struct ArrowSchema *const type = schema->dictionary != NULL ? schema->dictionary : schema;
    const bool is_index = schema->format != NULL && schema->format[0] != '\0' && schema->format[1] == '\0' &&
                          strchr("cCsSiIlL", schema->format[0]) != NULL;
    if ((schema->dictionary != NULL && (!is_index || type->dictionary != NULL)) || layout_of(type) == OTHER)
        return refuse(err, name, schema, BINARY_TYPES);
    return SGS_OK;
}

sgs_status sgs_arrow_binary_init(sgs_arrow_binary *column, const char *name, const struct ArrowSchema *schema,
                                 const struct ArrowArray *array, int64_t parent_offset, int64_t rows, sgs_error *err)
{
    *column = (sgs_arrow_binary){ .indices = NULL };
    SGS_TRY(sgs_arrow_binary_check(name, schema, err));
    return schema->dictionary != NULL ? init_dictionary(column, name, schema, array, parent_offset, rows, err)
                                      : init_values(&column->values, name, schema, array, parent_offset, rows, err);
}

bool sgs_arrow_view_or_fixed_cell(const sgs_arrow_values *values, int64_t row, sgs_bytes *bytes)
{
    const int64_t index = values->first + row;
    *bytes = (sgs_bytes){ NULL, -1 };
    if (!sgs_arrow_is_valid(values->validity, index))
        return true;
    if (values->views == NULL) {
        if (values->fixed != NULL)
            *bytes = (sgs_bytes){ values->fixed + index * values->fixed_size, values->fixed_size };
        return true;
    }
    const uint8_t *const view = values->views + index * SGS_ARROW_VIEW_BYTES;
    int32_t size, place[2]; /* buffer, and offset in it; they stand behind the first 4 bytes of the cell */
    memcpy(&size, view, sizeof size);
    memcpy(place, view + 8, sizeof place);
    if (size < 0)
        return false;
    if (size <= SGS_ARROW_VIEW_INLINE_BYTES) {
        *bytes = (sgs_bytes){ view + 4, size };
        return true;
    }
    if (place[0] < 0 || place[0] >= values->view_buffers_count || place[1] < 0)
        return false;
    const uint8_t *const data = values->view_buffers[place[0]];
    if (data == NULL || values->view_buffer_sizes[place[0]] < (int64_t)place[1] + size)
        return false;
    *bytes = (sgs_bytes){ data + place[1], size };
    return true;
}

/* @return -1 for what is no place of any dictionary */
static int64_t index_at(const sgs_arrow_binary *column, int64_t index)
{
    switch (column->index_format) {
    case 'c':
        return ((const int8_t *)column->indices)[index];
    case 'C':
        return ((const uint8_t *)column->indices)[index];
    case 's':
        return ((const int16_t *)column->indices)[index];
    case 'S':
        return ((const uint16_t *)column->indices)[index];
    case 'i':
        return ((const int32_t *)column->indices)[index];
    case 'I':
        return ((const uint32_t *)column->indices)[index];
    default: { /* l, and L: from 2^63 on it is negative here, and refused */
        return ((const int64_t *)column->indices)[index];
    }
    }
}

bool sgs_arrow_dictionary_cell(const sgs_arrow_binary *column, int64_t row, sgs_bytes *bytes)
{
    const int64_t index = column->index_first + row;
    *bytes = (sgs_bytes){ NULL, -1 };
    if (!sgs_arrow_is_valid(column->index_validity, index))
        return true;
    const int64_t place = index_at(column, index);
    return place >= 0 && place < column->dictionary_size && sgs_arrow_values_cell(&column->values, place, bytes);
}

/* ---- timestamps ---- */

/* @return units in a millisecond, 0 for seconds, -1 for another type */
static int64_t timestamp_unit(const struct ArrowSchema *schema)
{
    const char *const format = schema->format;
    if (format == NULL || schema->dictionary != NULL)
        return -1;
    if (sgs_arrow_type_is(schema, "l"))
        return 1;
    if (strncmp(format, "ts", 2) != 0 || format[2] == '\0' || format[3] != ':')
        return -1;
    switch (format[2]) {
    case 's':
        return 0;
    case 'm':
        return 1;
    case 'u':
        return 1000;
    case 'n':
        return 1000000;
    default:
        return -1;
    }
}

static bool is_null_column(const struct ArrowSchema *schema)
{
    return sgs_arrow_type_is(schema, "n") && schema->dictionary == NULL;
}

sgs_status sgs_arrow_times_check(const char *name, const struct ArrowSchema *schema, sgs_error *err)
{
    return is_null_column(schema) || timestamp_unit(schema) >= 0 ? SGS_OK : refuse(err, name, schema, TIMES_TYPES);
}

sgs_status sgs_arrow_times_init(sgs_arrow_times *column, const char *name, const struct ArrowSchema *schema,
                                const struct ArrowArray *array, int64_t parent_offset, int64_t rows, sgs_error *err)
{
    SGS_TRY(sgs_arrow_times_check(name, schema, err));
    const bool is_null = is_null_column(schema);
    const sgs_status status = is_null ? check_null_layout(name, array, parent_offset, rows, err)
                                      : check_layout(name, array, 2, 0, parent_offset, rows, err);
    if (status != SGS_OK)
        return status;
    *column =
        (sgs_arrow_times){ .first = array->offset + parent_offset, .per_ms = is_null ? 1 : timestamp_unit(schema) };
    if (is_null || rows == 0)
        return SGS_OK;
    if (array->buffers[1] == NULL)
        return refuse_missing(name, err);
    column->validity = validity_of(array);
    column->values = array->buffers[1];
    return SGS_OK;
}

/* ---- headers ---- */

static int find_child(const struct ArrowSchema *schema, const char *name)
{
    for (int64_t i = 0; i < schema->n_children; ++i)
        if (schema->children[i]->name != NULL && strcmp(schema->children[i]->name, name) == 0)
            return (int)i;
    return -1;
}

/* What empty lists are of, until one holds more. */
static bool has_no_elements(const struct ArrowSchema *schema) { return sgs_arrow_type_is(schema->children[0], "n"); }

/* A struct of key and value; a third field would be lost. */
static sgs_status check_element(const char *name, const struct ArrowSchema *element, sgs_error *err)
{
    const int key = find_child(element, "key"), value = find_child(element, "value");
    if (key < 0 || value < 0)
        return sgs_fail(err, SGS_ILLEGAL_ARGUMENT, "column %s has elements without a key or value, expected %s", name,
                        HEADERS_TYPES);
    for (int i = 0; i < element->n_children; ++i)
        if (i != key && i != value)
            return sgs_fail(
                err, SGS_ILLEGAL_ARGUMENT,
                "column %s has elements with a field %s besides key and value, which would be lost: drop it", name,
                element->children[i]->name != NULL ? element->children[i]->name : "without a name");
    SGS_TRY(sgs_arrow_binary_check(HEADER_KEY, element->children[key], err));
    return sgs_arrow_binary_check(HEADER_VALUE, element->children[value], err);
}

sgs_status sgs_arrow_headers_check(const char *name, const struct ArrowSchema *schema, sgs_error *err)
{
    if (sgs_arrow_type_is(schema, "n"))
        return SGS_OK;
    const bool is_list = sgs_arrow_type_is(schema, "+l") || sgs_arrow_type_is(schema, "+L");
    if (!is_list || schema->n_children != 1 || schema->dictionary != NULL)
        return refuse(err, name, schema, HEADERS_TYPES);
    if (has_no_elements(schema))
        return SGS_OK;
    const struct ArrowSchema *const element = schema->children[0];
    if (!sgs_arrow_type_is(element, "+s") || element->dictionary != NULL)
        return refuse(err, name, schema, HEADERS_TYPES);
    return check_element(name, element, err);
}

sgs_status sgs_arrow_headers_init(sgs_arrow_headers *column, const char *name, const struct ArrowSchema *schema,
                                  const struct ArrowArray *array, int64_t parent_offset, int64_t rows, sgs_error *err)
{
    *column = (sgs_arrow_headers){ .first = 0 };
    SGS_TRY(sgs_arrow_headers_check(name, schema, err));
    if (sgs_arrow_type_is(schema, "n"))
        return check_null_layout(name, array, parent_offset, rows, err);
    const bool is_small = sgs_arrow_type_is(schema, "+l");
    const bool is_nothing = has_no_elements(schema);
    const struct ArrowSchema *const element = schema->children[0];
    sgs_status status = check_layout(name, array, 2, 1, parent_offset, rows, err);
    if (status != SGS_OK)
        return status;
    const struct ArrowArray *const entries = array->children[0];
    column->first = array->offset + parent_offset;
    status = is_nothing ? check_null_layout(name, entries, 0, 0, err)
                        : check_layout(name, entries, 1, element->n_children, 0, 0, err);
    if (status != SGS_OK || rows == 0)
        return status;
    if (array->buffers[1] == NULL)
        return refuse_missing(name, err);
    column->validity = validity_of(array);
    if (is_small)
        column->offsets = array->buffers[1];
    else
        column->large_offsets = array->buffers[1];
    const int64_t last = column->first + rows;
    column->elements_count = is_small ? column->offsets[last] : column->large_offsets[last];
    if (column->elements_count < 0 || column->elements_count > entries->length)
        return sgs_fail(err, SGS_ILLEGAL_ARGUMENT, "column %s has %lld elements where its offsets want %lld", name,
                        (long long)entries->length, (long long)column->elements_count);
    if (is_nothing) /* then each key is null, and refused */
        return SGS_OK;
    column->element_first = entries->offset;
    column->element_validity = validity_of(entries);
    const int key = find_child(element, "key"), value = find_child(element, "value");
    status = sgs_arrow_binary_init(&column->key, HEADER_KEY, element->children[key], entries->children[key],
                                   entries->offset, column->elements_count, err);
    if (status == SGS_OK)
        status = sgs_arrow_binary_init(&column->value, HEADER_VALUE, element->children[value], entries->children[value],
                                       entries->offset, column->elements_count, err);
    return status;
}
