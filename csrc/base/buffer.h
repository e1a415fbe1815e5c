/* buffer.h - a growable run of bytes over an allocator that may fail.
 * `data` moves when the buffer grows; sizes are checked for overflow; new bytes are not initialised. */
#ifndef SGS_BASE_BUFFER_H
#define SGS_BASE_BUFFER_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* where memory comes from; an sgs_env's allocator is one (io/env.h makes it with sgs_env_memory) */
typedef struct sgs_memory {
    void *context;
    void *(*reallocate)(void *context, void *memory, size_t size); /* memory NULL = allocate; NULL when there is none */
    void (*release)(void *context, void *memory);
} sgs_memory;

typedef struct sgs_buffer {
    sgs_memory memory;
    uint8_t *data;
    size_t size, capacity;
} sgs_buffer;

void sgs_buffer_init(sgs_buffer *buffer, sgs_memory memory);
void sgs_buffer_deinit(sgs_buffer *buffer);
/** Make room for `more` bytes behind `size` (doubling). @return SGS_OK or SGS_RESOURCE */
sgs_status sgs_buffer_reserve(sgs_buffer *buffer, size_t more, sgs_error *err);
/** Append bytes. @return SGS_OK or SGS_RESOURCE */
sgs_status sgs_buffer_append(sgs_buffer *buffer, const void *data, size_t size, sgs_error *err);
/** Forget the contents, keep the memory. */
static inline void sgs_buffer_clear(sgs_buffer *buffer) { buffer->size = 0; }
/** Give the memory away: the caller releases it with memory.release. The buffer is empty afterwards. */
uint8_t *sgs_buffer_take(sgs_buffer *buffer);

#endif
