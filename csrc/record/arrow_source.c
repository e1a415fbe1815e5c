/* arrow_source.c - checking that Arrow columns are of a kind and layout that the cell readers know. */
#include "record/arrow_source.h"

#include <string.h>

#define BINARY_TYPES "binary, string, large_binary, large_string or null"
#define HEADERS_TYPES "list or large_list of struct<key: string, value: binary>, or null"

static bool is_format(const struct ArrowSchema *schema, const char *format)
{
    return strcmp(schema->format, format) == 0;
}

static sgs_status refuse(sgs_error *err, const char *name, const struct ArrowSchema *schema, const char *accepted)
{
    return sgs_fail(err, SGS_ILLEGAL_ARGUMENT, "column %s has Arrow type '%.40s'%s, expected %s", name, schema->format,
                    schema->dictionary != NULL ? " (dictionary)" : "", accepted);
}

/* The parts of an array that any type has: `buffers` of them, `children`, and room for the rows. */
static sgs_status check_layout(const char *name, const struct ArrowArray *array, int64_t buffers, int64_t children,
                               int64_t parent_offset, int64_t rows, sgs_error *err)
{
    if (array->release == NULL)
        return sgs_fail(err, SGS_ILLEGAL_ARGUMENT, "column %s is a released Arrow array", name);
    if (array->n_buffers != buffers || array->n_children != children)
        return sgs_fail(
            err, SGS_ILLEGAL_ARGUMENT, "column %s has %lld Arrow buffers and %lld children, expected %lld and %lld",
            name, (long long)array->n_buffers, (long long)array->n_children, (long long)buffers, (long long)children);
    if (array->length < 0 || array->offset < 0 || parent_offset < 0 || rows < 0 || array->length < parent_offset ||
        array->length - parent_offset < rows)
        return sgs_fail(err, SGS_ILLEGAL_ARGUMENT, "column %s has %lld cells for %lld rows", name,
                        (long long)array->length, (long long)rows);
    return SGS_OK;
}

static sgs_status refuse_missing(const char *name, sgs_error *err)
{
    return sgs_fail(err, SGS_ILLEGAL_ARGUMENT, "column %s lacks an Arrow buffer", name);
}

/* null_count -1 means unknown: then the bitmap decides */
static const uint8_t *validity_of(const struct ArrowArray *array)
{
    return array->null_count == 0 ? NULL : array->buffers[0];
}

sgs_status sgs_arrow_binary_init(sgs_arrow_binary *column, const char *name, const struct ArrowSchema *schema,
                                 const struct ArrowArray *array, int64_t parent_offset, int64_t rows, sgs_error *err)
{
    const bool is_null = is_format(schema, "n");
    const bool is_small = is_format(schema, "z") || is_format(schema, "u");
    const bool is_large = is_format(schema, "Z") || is_format(schema, "U");
    if ((!is_null && !is_small && !is_large) || schema->dictionary != NULL)
        return refuse(err, name, schema, BINARY_TYPES);
    const sgs_status status = check_layout(name, array, is_null ? 0 : 3, 0, parent_offset, rows, err);
    if (status != SGS_OK)
        return status;
    *column = (sgs_arrow_binary){ .first = array->offset + parent_offset };
    if (is_null || rows == 0)
        return SGS_OK;
    if (array->buffers[1] == NULL)
        return refuse_missing(name, err);
    static const uint8_t nothing[1] = { 0 };
    column->validity = validity_of(array);
    column->data = array->buffers[2] != NULL ? array->buffers[2] : nothing; /* allowed when all cells are empty */
    if (is_small)
        column->offsets = array->buffers[1];
    else
        column->large_offsets = array->buffers[1];
    const int64_t end = column->first + rows;
    if (array->buffers[2] == NULL && (is_small ? column->offsets[end] > 0 : column->large_offsets[end] > 0))
        return refuse_missing(name, err);
    return SGS_OK;
}

/* @return units in a millisecond, 0 for seconds, -1 for another type */
static int64_t timestamp_unit(const struct ArrowSchema *schema)
{
    const char *const format = schema->format;
    if (schema->dictionary != NULL)
        return -1;
    if (is_format(schema, "l"))
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

sgs_status sgs_arrow_times_init(sgs_arrow_times *column, const char *name, const struct ArrowSchema *schema,
                                const struct ArrowArray *array, int64_t parent_offset, int64_t rows, sgs_error *err)
{
    const bool is_null = is_format(schema, "n") && schema->dictionary == NULL;
    const int64_t unit = timestamp_unit(schema);
    if (!is_null && unit < 0)
        return refuse(err, name, schema, "a timestamp of any unit, int64 (ms) or null");
    const sgs_status status = check_layout(name, array, is_null ? 0 : 2, 0, parent_offset, rows, err);
    if (status != SGS_OK)
        return status;
    *column = (sgs_arrow_times){ .first = array->offset + parent_offset, .per_ms = is_null ? 1 : unit };
    if (is_null || rows == 0)
        return SGS_OK;
    if (array->buffers[1] == NULL)
        return refuse_missing(name, err);
    column->validity = validity_of(array);
    column->values = array->buffers[1];
    return SGS_OK;
}

static int find_child(const struct ArrowSchema *schema, const char *name)
{
    for (int64_t i = 0; i < schema->n_children; ++i)
        if (schema->children[i]->name != NULL && strcmp(schema->children[i]->name, name) == 0)
            return (int)i;
    return -1;
}

sgs_status sgs_arrow_headers_init(sgs_arrow_headers *column, const char *name, const struct ArrowSchema *schema,
                                  const struct ArrowArray *array, int64_t parent_offset, int64_t rows, sgs_error *err)
{
    *column = (sgs_arrow_headers){ .first = 0 };
    if (is_format(schema, "n"))
        return check_layout(name, array, 0, 0, parent_offset, rows, err);
    const bool is_small = is_format(schema, "+l");
    if ((!is_small && !is_format(schema, "+L")) || schema->n_children != 1 || !is_format(schema->children[0], "+s"))
        return refuse(err, name, schema, HEADERS_TYPES);
    const struct ArrowSchema *const element = schema->children[0];
    const int key = find_child(element, "key");
    const int value = find_child(element, "value");
    if (key < 0 || value < 0)
        return sgs_fail(err, SGS_ILLEGAL_ARGUMENT, "column %s has elements without a key or value, expected %s", name,
                        HEADERS_TYPES);
    sgs_status status = check_layout(name, array, 2, 1, parent_offset, rows, err);
    if (status != SGS_OK)
        return status;
    const struct ArrowArray *const entries = array->children[0];
    column->first = array->offset + parent_offset;
    status = check_layout(name, entries, 1, element->n_children, 0, 0, err);
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
    const int64_t entries_count = is_small ? column->offsets[last] : column->large_offsets[last];
    if (entries_count < 0 || entries_count > entries->length)
        return sgs_fail(err, SGS_ILLEGAL_ARGUMENT, "column %s has %lld elements where its offsets want %lld", name,
                        (long long)entries->length, (long long)entries_count);
    column->element_first = entries->offset;
    column->element_validity = validity_of(entries);
    status = sgs_arrow_binary_init(&column->key, "headers.element.key", element->children[key], entries->children[key],
                                   entries->offset, entries_count, err);
    if (status == SGS_OK)
        status = sgs_arrow_binary_init(&column->value, "headers.element.value", element->children[value],
                                       entries->children[value], entries->offset, entries_count, err);
    return status;
}
