/* columns_kit.h - decoding batches into columns in tests: a builder with its schema and the table it made. */
#ifndef SGS_TEST_COLUMNS_KIT_H
#define SGS_TEST_COLUMNS_KIT_H

#include "record/columns.h"

typedef struct columns_kit {
    sgs_columns_options options;
    sgs_columns *columns;
    struct ArrowSchema schema;
    struct ArrowArray array; /* release is NULL before finish */
    sgs_error err;
} columns_kit;

/** Options for topic "orders", partition 3; `columns` NULL: all of them. Nothing is open yet. */
columns_kit columns_kit_of(const uint8_t *columns, uint8_t count);
/** Open the builder with kit->options, and export its schema. Ends the program when that fails. */
void columns_kit_open(columns_kit *kit);
/** Open, decode the batches that the hexadecimal texts spell, and finish. Ends the program when that fails. */
void columns_kit_decode(columns_kit *kit, const char *const *batches, int count);
void columns_kit_close(columns_kit *kit);

const struct ArrowArray *columns_kit_column(const columns_kit *kit, const char *name);
/** Whether a binary or string cell is `expected`; NULL is null. */
bool columns_kit_cell_is(const columns_kit *kit, const char *name, int64_t row, const char *expected);

/** A batch of `count` records: offset base + 2 i, timestamp 1000 + i, key "k<i>" or null, value of i % 400 bytes, and a
 *  header in every fifth. */
sgs_buffer columns_kit_batch(int64_t base_offset, int count, int codec);

#endif
