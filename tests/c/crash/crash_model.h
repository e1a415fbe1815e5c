/* crash_model.h - what a log may be after a crash: plain arrays that call nothing of the engine [DUR-115].
 *
 * A state says what was promised when an operation returned. A crash in the midst of one may leave the log as it was before,
 * as it is after, or on the way; of each any prefix that holds what is durable [DUR-1, DUR-2, DUR-5]. */
#ifndef SGS_TEST_CRASH_CRASH_MODEL_H
#define SGS_TEST_CRASH_CRASH_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "crash_script.h"

enum { MODEL_BATCHES_MAX = CRASH_OPERATIONS_MAX, MODEL_WAYS_MAX = 3 };

typedef struct model_batch { /* as it was written */
    int64_t base_offset, last_offset;
    const uint8_t *bytes;
    size_t size;
} model_batch;

typedef struct model_state {
    int64_t log_start, log_end;
    int64_t durable; /* batches that end below it are safe */
    size_t count;
    model_batch batches[MODEL_BATCHES_MAX]; /* of those that end below the log start none can be read */
} model_state;

typedef struct model_found { /* a log as it was found after a crash */
    int64_t log_start, log_end;
    const uint8_t *bytes; /* of all batches that can be read */
    size_t size;
} model_found;

/** The state when the operation has returned.
 *  @param appended  by an append */
void model_apply(model_state *state, const crash_operation *operation, const model_batch *appended);
/** What the log may be while the operation is under way.
 *  @return how many states */
size_t model_during(const model_state *before, const crash_operation *operation, const model_batch *appended,
                    model_state ways[MODEL_WAYS_MAX]);
/** Where a log that is opened again goes on at the earliest. */
int64_t model_data_end(const model_state *state);
bool model_is_possible(const model_found *found, const model_state *state);
/** Of a state that is possible, leave what was found. */
void model_narrow(model_state *state, const model_found *found);

#endif
