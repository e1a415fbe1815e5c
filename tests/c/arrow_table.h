/* arrow_table.h - an Arrow table on the stack, as another library may hand one over; tests bend it. */
#ifndef SGS_TEST_ARROW_TABLE_H
#define SGS_TEST_ARROW_TABLE_H

#include "record/arrow_abi.h"

enum { ARROW_TABLE_COLUMNS = 4 };

typedef struct arrow_table {
    struct ArrowSchema schema, columns[ARROW_TABLE_COLUMNS], element, element_columns[2];
    struct ArrowSchema *column_pointers[ARROW_TABLE_COLUMNS], *element_pointer, *element_column_pointers[2];
    struct ArrowArray array, arrays[ARROW_TABLE_COLUMNS], entries, entry_arrays[2];
    struct ArrowArray *array_pointers[ARROW_TABLE_COLUMNS], *entries_pointer, *entry_array_pointers[2];
    const void *root_buffers[1], *buffers[ARROW_TABLE_COLUMNS][3], *entries_buffers[1], *entry_buffers[2][3];
} arrow_table;

/** Five rows: key "a" null "ccc" "" "ee" (binary), value "v0" to "v4" (string), timestamp 1 to 5 s (microseconds),
 *  headers [] [x=1] null [y=null, z=3] []. `table` must not move. */
void arrow_table_make(arrow_table *table);

/* the same in other words; a header is "key=value", or "key" for a null value */
extern const char *const arrow_table_keys[5];
extern const char *const arrow_table_values[5];
extern const char *const arrow_table_headers[5][3];

#endif
