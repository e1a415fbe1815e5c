"""csrc/base/buffer.h"""

from libc.stdint cimport uint8_t

from segstore._cython.status cimport sgs_error, sgs_status


cdef extern from "base/buffer.h" nogil:
    ctypedef struct sgs_memory:
        void *context

    ctypedef struct sgs_buffer:
        sgs_memory memory
        uint8_t *data
        size_t size
        size_t capacity

    void sgs_buffer_init(sgs_buffer *buffer, sgs_memory memory)
    void sgs_buffer_deinit(sgs_buffer *buffer)
    sgs_status sgs_buffer_reserve(sgs_buffer *buffer, size_t more, sgs_error *err)
    sgs_status sgs_buffer_append(sgs_buffer *buffer, const void *data, size_t size, sgs_error *err)
    void sgs_buffer_clear(sgs_buffer *buffer)
