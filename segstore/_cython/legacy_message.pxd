"""csrc/record/legacy_message.h"""

from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t, uint32_t

from segstore._cython.record cimport sgs_bytes
from segstore._cython.status cimport c_bool, sgs_error, sgs_status


cdef extern from "record/legacy_message.h" nogil:
    ctypedef struct sgs_legacy_message:
        int64_t offset
        int64_t timestamp
        sgs_bytes key
        sgs_bytes value
        const uint8_t *start
        uint32_t crc
        int32_t size_bytes
        int8_t magic
        int8_t timestamp_type
        uint8_t attributes

    void sgs_legacy_message_set_offset(uint8_t *message, int64_t offset)
    bint sgs_legacy_message_is_valid(const sgs_legacy_message *message)
    sgs_status sgs_legacy_message_set_timestamp(uint8_t *message, size_t size, c_bool log_append_time,
                                                int64_t timestamp, sgs_error *err)
