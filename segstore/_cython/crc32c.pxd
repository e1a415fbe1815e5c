"""csrc/base/crc32c.h"""

from libc.stdint cimport uint32_t


cdef extern from "base/crc32c.h" nogil:
    uint32_t sgs_crc32c(uint32_t crc, const void *data, size_t size)
    const char *sgs_crc32c_implementation()
