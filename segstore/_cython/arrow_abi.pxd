"""csrc/record/arrow_abi.h"""

from libc.stdint cimport int64_t


cdef extern from "record/arrow_abi.h" nogil:
    cdef struct ArrowSchema:
        const char *name
        int64_t n_children
        ArrowSchema **children
        void (*release)(ArrowSchema *) noexcept nogil

    cdef struct ArrowArray:
        int64_t length
        void (*release)(ArrowArray *) noexcept nogil

    cdef struct ArrowArrayStream:
        int (*get_schema)(ArrowArrayStream *, ArrowSchema *out) noexcept nogil
        int (*get_next)(ArrowArrayStream *, ArrowArray *out) noexcept nogil
        const char *(*get_last_error)(ArrowArrayStream *) noexcept nogil
        void (*release)(ArrowArrayStream *) noexcept nogil
        void *private_data
