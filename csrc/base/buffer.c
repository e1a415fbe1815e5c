/* buffer.c - the growable run of bytes. */
#include "base/buffer.h"

#include <stdbool.h>
#include <string.h>

enum { SMALLEST_CAPACITY = 64 };

void sgs_buffer_init(sgs_buffer *buffer, sgs_memory memory) { *buffer = (sgs_buffer){ .memory = memory }; }

void sgs_buffer_deinit(sgs_buffer *buffer)
{
    if (buffer->data != NULL)
        buffer->memory.release(buffer->memory.context, buffer->data);
    buffer->data = NULL;
    buffer->size = 0;
    buffer->capacity = 0;
}

static bool set_capacity(sgs_buffer *buffer, size_t capacity)
{
    uint8_t *moved = buffer->memory.reallocate(buffer->memory.context, buffer->data, capacity);
    if (moved == NULL)
        return false;
    buffer->data = moved;
    buffer->capacity = capacity;
    return true;
}

sgs_status sgs_buffer_reserve(sgs_buffer *buffer, size_t more, sgs_error *err)
{
    SGS_ASSERT(buffer->size <= buffer->capacity, err);
    if (more <= buffer->capacity - buffer->size)
        return SGS_OK;
    if (more > SIZE_MAX - buffer->size)
        return sgs_fail(err, SGS_RESOURCE, "a buffer of %zu bytes cannot grow by %zu", buffer->size, more);
    const size_t needed = buffer->size + more;
    size_t doubled = buffer->capacity > SIZE_MAX / 2 ? SIZE_MAX : buffer->capacity * 2;
    if (doubled < SMALLEST_CAPACITY)
        doubled = SMALLEST_CAPACITY;
    /* Doubling is for speed; where there is no memory for it, what is needed may still fit. */
    if (doubled > needed && set_capacity(buffer, doubled))
        return SGS_OK;
    if (set_capacity(buffer, needed))
        return SGS_OK;
    return sgs_fail(err, SGS_RESOURCE, "no memory for a buffer of %zu bytes", needed);
}

sgs_status sgs_buffer_append(sgs_buffer *buffer, const void *data, size_t size, sgs_error *err)
{
    if (size == 0)
        return SGS_OK; /* data may be NULL */
    const sgs_status status = sgs_buffer_reserve(buffer, size, err);
    if (status != SGS_OK)
        return status;
    memcpy(buffer->data + buffer->size, data, size);
    buffer->size += size;
    return SGS_OK;
}

uint8_t *sgs_buffer_take(sgs_buffer *buffer)
{
    uint8_t *data = buffer->data;
    buffer->data = NULL;
    buffer->size = 0;
    buffer->capacity = 0;
    return data;
}
