/* arrow_reader.h - reading exported Arrow arrays cell by cell in tests: slow, and checking what the C data interface
 * asks. */
#ifndef SGS_TEST_ARROW_READER_H
#define SGS_TEST_ARROW_READER_H

#include "record/columns.h"

/** Whether an array has the buffers, lengths, offsets and null counts that its schema asks for, its children too. */
bool arrow_is_sound(const struct ArrowSchema *schema, const struct ArrowArray *array);
bool arrow_is_null(const struct ArrowArray *array, int64_t row);
/** A cell of a binary or string column; size -1 for a null. */
sgs_bytes arrow_bytes(const struct ArrowArray *array, int64_t row);
int64_t arrow_int64(const struct ArrowArray *array, int64_t row);
int32_t arrow_int32(const struct ArrowArray *array, int64_t row);
/** The entries of a list cell: [*start, *end). */
void arrow_list(const struct ArrowArray *array, int64_t row, int64_t *start, int64_t *end);
/** The child of that name; NULL when there is none. */
const struct ArrowArray *arrow_child(const struct ArrowSchema *schema, const struct ArrowArray *array,
                                     const char *name);

#endif
