/* columns_schema.c - the schema of a projection, by the Arrow C data interface. Ownership is as in columns_export.c:
 * each struct has a node of its own, and a child may be moved out of its parent. */
#include <stddef.h>
#include <string.h>

#include "record/columns.h"

typedef struct schema_node {
    sgs_memory memory;
    struct ArrowSchema *child_pointers[SGS_COLUMN_COUNT];
    struct ArrowSchema children[SGS_COLUMN_COUNT];
} schema_node;

static void release_schema(struct ArrowSchema *schema)
{
    schema_node *const node = schema->private_data;
    const sgs_memory memory = node->memory;
    for (int64_t i = 0; i < schema->n_children; ++i)
        if (schema->children[i]->release != NULL)
            schema->children[i]->release(schema->children[i]);
    memory.release(memory.context, node);
    schema->release = NULL;
}

/* Formats and names are string constants: they live as long as the program. */
static sgs_status make_schema(sgs_memory memory, const char *format, const char *name, int64_t children,
                              struct ArrowSchema *schema, sgs_error *err)
{
    const size_t size = children == 0 ? offsetof(schema_node, child_pointers) : sizeof(schema_node);
    schema_node *const node = memory.reallocate(memory.context, NULL, size);
    if (node == NULL)
        return sgs_fail(err, SGS_RESOURCE, "no memory to export a schema");
    memset(node, 0, size);
    node->memory = memory;
    for (int64_t i = 0; i < children; ++i)
        node->child_pointers[i] = &node->children[i];
    *schema = (struct ArrowSchema){
        .format = format,
        .name = name,
        .flags = ARROW_FLAG_NULLABLE,
        .n_children = children,
        .children = children == 0 ? NULL : node->child_pointers,
        .release = release_schema,
        .private_data = node,
    };
    return SGS_OK;
}

static sgs_status make_headers_schema(sgs_memory memory, struct ArrowSchema *schema, sgs_error *err)
{
    struct ArrowSchema list;
    SGS_TRY(make_schema(memory, "+l", sgs_column_name(SGS_COLUMN_HEADERS), 1, &list, err));
    struct ArrowSchema *const element = list.children[0];
    sgs_status status = make_schema(memory, "+s", "element", 2, element, err);
    if (status == SGS_OK)
        status = make_schema(memory, "u", "key", 0, element->children[0], err);
    if (status == SGS_OK)
        status = make_schema(memory, "z", "value", 0, element->children[1], err);
    if (status != SGS_OK) {
        list.release(&list);
        return status;
    }
    *schema = list;
    return SGS_OK;
}

static const char *column_format(const sgs_columns_options *options, sgs_column column)
{
    switch (column) {
    case SGS_COLUMN_KEY:
    case SGS_COLUMN_VALUE:
        return "z";
    case SGS_COLUMN_TOPIC:
        return "u";
    case SGS_COLUMN_OFFSET:
        return "l";
    case SGS_COLUMN_TIMESTAMP:
        return options->timestamp_in_microseconds ? "tsu:UTC" : "tsm:UTC";
    default:
        return "i";
    }
}

sgs_status sgs_columns_export_schema(sgs_memory memory, const sgs_columns_options *options, struct ArrowSchema *schema,
                                     sgs_error *err)
{
    for (unsigned i = 0; i < options->columns_count; ++i)
        if (options->columns_count > SGS_COLUMN_COUNT || options->columns[i] >= SGS_COLUMN_COUNT)
            return sgs_fail(err, SGS_ILLEGAL_ARGUMENT, "an unknown column in the projection");
    struct ArrowSchema root;
    SGS_TRY(make_schema(memory, "+s", "", options->columns_count, &root, err));
    root.flags = 0; /* the rows of a record batch are not null */
    for (unsigned i = 0; i < options->columns_count; ++i) {
        const sgs_column column = (sgs_column)options->columns[i];
        const sgs_status status = column == SGS_COLUMN_HEADERS
                                      ? make_headers_schema(memory, root.children[i], err)
                                      : make_schema(memory, column_format(options, column),
                                                    sgs_column_name((int)column), 0, root.children[i], err);
        if (status != SGS_OK) {
            root.release(&root);
            return status;
        }
    }
    *schema = root;
    return SGS_OK;
}
