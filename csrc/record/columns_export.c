/* columns_export.c - handing columns over by the Arrow C data interface.
 *
 * OWNERSHIP  each exported struct has a node of its own, which owns the struct's buffers and holds its children. A
 * consumer may move a child out (copy it and clear its release); what is left then releases the rest, in any order and
 * thread. */
#include <stddef.h>

#include "record/columns_state.h"

enum { BUFFERS_MAX = 3 };

typedef struct array_node {
    sgs_memory memory;
    const void *buffers[BUFFERS_MAX]; /* validity or NULL, then offsets and data or values */
    struct ArrowArray *child_pointers[SGS_COLUMN_COUNT];
    struct ArrowArray children[SGS_COLUMN_COUNT];
} array_node;

static void release_array(struct ArrowArray *array)
{
    array_node *const node = array->private_data;
    const sgs_memory memory = node->memory;
    for (int64_t i = 0; i < array->n_children; ++i)
        if (array->children[i]->release != NULL)
            array->children[i]->release(array->children[i]);
    for (int64_t i = 0; i < array->n_buffers; ++i)
        if (node->buffers[i] != NULL)
            memory.release(memory.context, (void *)(uintptr_t)node->buffers[i]);
    memory.release(memory.context, node);
    array->release = NULL;
}

/* Make an array without buffers and with `children` released children, ready to be filled or released. */
static sgs_status make_array(sgs_memory memory, int64_t length, int64_t buffers, int64_t children,
                             struct ArrowArray *array, sgs_error *err)
{
    /* an array without children needs no room for them */
    const size_t size = children == 0 ? offsetof(array_node, child_pointers) : sizeof(array_node);
    array_node *const node = memory.reallocate(memory.context, NULL, size);
    if (node == NULL)
        return sgs_fail(err, SGS_RESOURCE, "no memory to export a column");
    memset(node, 0, size);
    node->memory = memory;
    for (int64_t i = 0; i < children; ++i)
        node->child_pointers[i] = &node->children[i];
    *array = (struct ArrowArray){
        .length = length,
        .n_buffers = buffers,
        .n_children = children,
        .buffers = node->buffers,
        .children = children == 0 ? NULL : node->child_pointers,
        .release = release_array,
        .private_data = node,
    };
    return SGS_OK;
}

/* Consumers expect every buffer but the validity bitmap to be there, also when it has no bytes. */
static sgs_status make_present(sgs_buffer *buffer, sgs_error *err)
{
    return buffer->data == NULL ? sgs_buffer_reserve(buffer, sizeof(int64_t), err) : SGS_OK;
}

/* An offsets buffer holds a 0 before the first row. */
static sgs_status make_offsets_present(sgs_buffer *offsets, sgs_error *err)
{
    const int32_t zero = 0;
    return offsets->size == 0 ? sgs_buffer_append(offsets, &zero, sizeof zero, err) : SGS_OK;
}

static sgs_status prepare_binary(sgs_binary_column *column, sgs_error *err)
{
    SGS_TRY(make_offsets_present(&column->offsets, err));
    return make_present(&column->data, err);
}

/* Hand over the bitmap when it says something; bits behind the last row become 0 [DUR-106]. */
static void take_validity(sgs_validity *validity, struct ArrowArray *array)
{
    array_node *const node = array->private_data;
    const int64_t rows = array->length;
    if (validity->null_count > 0) {
        if (rows % 8 != 0)
            validity->bits.data[rows / 8] &= (uint8_t)((1U << (rows % 8)) - 1U);
        node->buffers[0] = sgs_buffer_take(&validity->bits);
        array->null_count = validity->null_count;
    } else {
        sgs_buffer_deinit(&validity->bits);
    }
    validity->null_count = 0;
}

static void take_binary(sgs_binary_column *column, struct ArrowArray *array)
{
    array_node *const node = array->private_data;
    take_validity(&column->validity, array);
    node->buffers[1] = sgs_buffer_take(&column->offsets);
    node->buffers[2] = sgs_buffer_take(&column->data);
}

static void take_values(sgs_buffer *values, struct ArrowArray *array)
{
    array_node *const node = array->private_data;
    node->buffers[1] = sgs_buffer_take(values);
}

enum { FIXED_BUFFERS = 2, BINARY_BUFFERS = 3, LIST_BUFFERS = 2, STRUCT_BUFFERS = 1 };

static sgs_status export_binary(sgs_columns *columns, sgs_binary_column *column, int64_t length,
                                struct ArrowArray *array, sgs_error *err)
{
    SGS_TRY(prepare_binary(column, err));
    SGS_TRY(make_array(columns->memory, length, BINARY_BUFFERS, 0, array, err));
    take_binary(column, array);
    return SGS_OK;
}

static sgs_status export_values(sgs_columns *columns, sgs_buffer *values, struct ArrowArray *array, sgs_error *err)
{
    SGS_TRY(make_present(values, err));
    SGS_TRY(make_array(columns->memory, columns->rows_count, FIXED_BUFFERS, 0, array, err));
    take_values(values, array);
    return SGS_OK;
}

/* The topic once a row: doubling what is there already. */
static sgs_status export_topic(sgs_columns *columns, struct ArrowArray *array, sgs_error *err)
{
    const size_t rows = (size_t)columns->rows_count;
    const size_t size = columns->topic_size;
    sgs_binary_column column;
    sgs_binary_column_init(&column, columns->memory);
    sgs_status status = sgs_binary_column_reserve(&column, columns->rows_count, rows * size, err);
    if (status == SGS_OK) {
        int32_t *const offsets = (int32_t *)(void *)column.offsets.data;
        for (size_t i = 0; i <= rows; ++i)
            offsets[i] = (int32_t)(i * size);
        const size_t total = rows * size;
        if (total > 0)
            memcpy(column.data.data, columns->options.topic, size);
        for (size_t done = size; done < total;) {
            const size_t step = done < total - done ? done : total - done;
            memcpy(column.data.data + done, column.data.data, step);
            done += step;
        }
        column.offsets.size = (rows + 1) * sizeof(int32_t);
        column.data.size = total;
        status = export_binary(columns, &column, columns->rows_count, array, err);
    }
    sgs_binary_column_deinit(&column);
    return status;
}

static sgs_status export_partition(sgs_columns *columns, struct ArrowArray *array, sgs_error *err)
{
    const size_t rows = (size_t)columns->rows_count;
    sgs_buffer values;
    sgs_buffer_init(&values, columns->memory);
    sgs_status status = sgs_buffer_reserve(&values, rows * sizeof(int32_t), err);
    if (status == SGS_OK) {
        int32_t *const cells = (int32_t *)(void *)values.data;
        for (size_t i = 0; i < rows; ++i)
            cells[i] = columns->options.partition;
        values.size = rows * sizeof(int32_t);
        status = export_values(columns, &values, array, err);
    }
    sgs_buffer_deinit(&values);
    return status;
}

static sgs_status export_headers(sgs_columns *columns, struct ArrowArray *array, sgs_error *err)
{
    sgs_headers_column *const headers = &columns->headers;
    const int64_t entries = headers->entries_count;
    struct ArrowArray list;
    if (headers->offsets.size == 0)
        SGS_TRY(sgs_headers_make_empty_rows(columns, columns->rows_count, err));
    SGS_TRY(make_array(columns->memory, columns->rows_count, LIST_BUFFERS, 1, &list, err));
    struct ArrowArray *const element = list.children[0];
    sgs_status status = make_array(columns->memory, entries, STRUCT_BUFFERS, 2, element, err);
    if (status == SGS_OK)
        status = export_binary(columns, &headers->key, entries, element->children[0], err);
    if (status == SGS_OK)
        status = export_binary(columns, &headers->value, entries, element->children[1], err);
    if (status != SGS_OK) {
        list.release(&list);
        return status;
    }
    take_validity(&headers->validity, &list);
    take_values(&headers->offsets, &list);
    headers->entries_count = 0;
    *array = list;
    return SGS_OK;
}

static sgs_status export_column(sgs_columns *columns, sgs_column column, struct ArrowArray *array, sgs_error *err)
{
    switch (column) {
    case SGS_COLUMN_KEY:
        return export_binary(columns, &columns->key, columns->rows_count, array, err);
    case SGS_COLUMN_VALUE:
        return export_binary(columns, &columns->value, columns->rows_count, array, err);
    case SGS_COLUMN_TOPIC:
        return export_topic(columns, array, err);
    case SGS_COLUMN_PARTITION:
        return export_partition(columns, array, err);
    case SGS_COLUMN_OFFSET:
        return export_values(columns, &columns->offset, array, err);
    case SGS_COLUMN_TIMESTAMP:
        return export_values(columns, &columns->timestamp, array, err);
    case SGS_COLUMN_TIMESTAMP_TYPE:
        return export_values(columns, &columns->timestamp_type, array, err);
    case SGS_COLUMN_HEADERS:
        return export_headers(columns, array, err);
    case SGS_COLUMN_LEADER_EPOCH:
        return export_values(columns, &columns->leader_epoch, array, err);
    case SGS_COLUMN_COUNT:
        break;
    }
    return sgs_fail(err, SGS_INTERNAL, "column %d", (int)column);
}

static sgs_status export_columns(sgs_columns *columns, struct ArrowArray *array, sgs_error *err)
{
    const sgs_columns_options *const options = &columns->options;
    struct ArrowArray root;
    SGS_TRY(make_array(columns->memory, columns->rows_count, STRUCT_BUFFERS, options->columns_count, &root, err));
    for (unsigned i = 0; i < options->columns_count; ++i) {
        const sgs_status status = export_column(columns, (sgs_column)options->columns[i], root.children[i], err);
        if (status != SGS_OK) {
            root.release(&root);
            return status;
        }
    }
    *array = root;
    return SGS_OK;
}

sgs_status sgs_columns_finish(sgs_columns *columns, struct ArrowArray *array, sgs_error *err)
{
    const size_t key_bytes = columns->key.data.size;
    const size_t value_bytes = columns->value.data.size;
    columns->expected_rows = columns->rows_count;
    columns->expected_key_bytes = key_bytes + key_bytes / 8;
    columns->expected_value_bytes = value_bytes + value_bytes / 8;
    const sgs_status status = export_columns(columns, array, err);
    sgs_columns_clear(columns); /* after a failure too: some columns may be gone, and what is left is no table */
    return status;
}
