"""csrc/base/murmur2.h"""

from libc.stdint cimport int32_t, uint8_t


cdef extern from "base/murmur2.h" nogil:
    int32_t sgs_murmur2(const uint8_t *data, size_t size)
