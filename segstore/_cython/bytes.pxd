"""csrc/base/bytes.h"""

from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t


cdef extern from "base/bytes.h" nogil:
    uint16_t sgs_load_be16(const uint8_t *at)
    uint32_t sgs_load_be32(const uint8_t *at)
    uint64_t sgs_load_be64(const uint8_t *at)
    int16_t sgs_load_be_i16(const uint8_t *at)
    int32_t sgs_load_be_i32(const uint8_t *at)
    int64_t sgs_load_be_i64(const uint8_t *at)
