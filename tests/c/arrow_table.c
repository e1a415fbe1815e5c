/* arrow_table.c - a table of five rows in the Arrow C data interface. */
#include "arrow_table.h"

#include <string.h>

static void release_nothing_schema(struct ArrowSchema *schema) { schema->release = NULL; }
static void release_nothing(struct ArrowArray *array) { array->release = NULL; }

static struct ArrowSchema type_of(const char *format, const char *name)
{
    return (struct ArrowSchema){
        .format = format, .name = name, .flags = ARROW_FLAG_NULLABLE, .release = release_nothing_schema
    };
}

static struct ArrowArray array_of(int64_t length, const void **buffers, int64_t buffers_count)
{
    return (struct ArrowArray){
        .length = length, .null_count = -1, .n_buffers = buffers_count, .buffers = buffers, .release = release_nothing
    };
}

void arrow_table_make(arrow_table *t)
{
    static const uint8_t key_bits[] = { 0x1D }, header_bits[] = { 0x1B }, value_bits[] = { 0x05 };
    static const int32_t key_offsets[] = { 0, 1, 1, 4, 4, 6 }, value_offsets[] = { 0, 2, 4, 6, 8, 10 };
    static const int32_t list_offsets[] = { 0, 0, 1, 1, 3, 3 }, entry_offsets[] = { 0, 1, 2, 3 };
    static const int32_t entry_value_offsets[] = { 0, 1, 1, 2 };
    static const int64_t timestamps[] = { 1000000, 2000000, 3000000, 4000000, 5000000 };
    memset(t, 0, sizeof *t);
    t->schema = type_of("+s", "");
    t->columns[0] = type_of("z", "key");
    t->columns[1] = type_of("u", "value");
    t->columns[2] = type_of("tsu:UTC", "timestamp");
    t->columns[3] = type_of("+l", "headers");
    t->element = type_of("+s", "element");
    t->element_columns[0] = type_of("u", "key");
    t->element_columns[1] = type_of("z", "value");
    t->array = array_of(5, t->root_buffers, 1);
    for (int i = 0; i < ARROW_TABLE_COLUMNS; ++i) {
        t->column_pointers[i] = &t->columns[i];
        t->array_pointers[i] = &t->arrays[i];
        t->arrays[i] = array_of(5, t->buffers[i], i < 2 ? 3 : 2);
    }
    for (int i = 0; i < 2; ++i) {
        t->element_column_pointers[i] = &t->element_columns[i];
        t->entry_array_pointers[i] = &t->entry_arrays[i];
        t->entry_arrays[i] = array_of(3, t->entry_buffers[i], 3);
    }
    t->schema.n_children = t->array.n_children = ARROW_TABLE_COLUMNS;
    t->schema.children = t->column_pointers;
    t->array.children = t->array_pointers;
    t->element_pointer = &t->element;
    t->columns[3].n_children = t->arrays[3].n_children = 1;
    t->columns[3].children = &t->element_pointer;
    t->entries_pointer = &t->entries;
    t->arrays[3].children = &t->entries_pointer;
    t->element.n_children = 2;
    t->element.children = t->element_column_pointers;
    t->entries = array_of(3, t->entries_buffers, 1);
    t->entries.n_children = 2;
    t->entries.children = t->entry_array_pointers;
    t->buffers[0][0] = key_bits;
    t->buffers[0][1] = key_offsets;
    t->buffers[0][2] = "acccee";
    t->buffers[1][1] = value_offsets;
    t->buffers[1][2] = "v0v1v2v3v4";
    t->buffers[2][1] = timestamps;
    t->buffers[3][0] = header_bits;
    t->buffers[3][1] = list_offsets;
    t->entry_buffers[0][1] = entry_offsets;
    t->entry_buffers[0][2] = "xyz";
    t->entry_buffers[1][0] = value_bits;
    t->entry_buffers[1][1] = entry_value_offsets;
    t->entry_buffers[1][2] = "13";
}

const char *const arrow_table_keys[5] = { "a", NULL, "ccc", "", "ee" };
const char *const arrow_table_values[5] = { "v0", "v1", "v2", "v3", "v4" };
const char *const arrow_table_headers[5][3] = { { "" }, { "x=1" }, { "" }, { "y", "z=3" }, { "" } };
