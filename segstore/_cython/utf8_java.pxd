"""csrc/record/utf8_java.h"""

from libc.stdint cimport uint8_t


cdef extern from "record/utf8_java.h" nogil:
    uint8_t *sgs_utf8_java_replace(uint8_t *out, const uint8_t *data, size_t size)
