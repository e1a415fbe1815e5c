"""csrc/base/varint.h"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

from segstore._cython.status cimport c_bool


cdef extern from "base/varint.h" nogil:
    enum:
        SGS_VARINT_MAX_BYTES
        SGS_VARLONG_MAX_BYTES

    c_bool sgs_uvarint_read(const uint8_t **next, const uint8_t *end, uint32_t *value)
    c_bool sgs_varint_read(const uint8_t **next, const uint8_t *end, int32_t *value)
    c_bool sgs_varlong_read(const uint8_t **next, const uint8_t *end, int64_t *value)
    uint8_t *sgs_uvarint_write(uint8_t *out, uint32_t value)
    uint8_t *sgs_varint_write(uint8_t *out, int32_t value)
    uint8_t *sgs_varlong_write(uint8_t *out, int64_t value)
