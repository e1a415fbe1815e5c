"""csrc/record/record.h"""

from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t

from segstore._cython.record_batch cimport sgs_batch_header
from segstore._cython.status cimport c_bool, sgs_error, sgs_status


cdef extern from "record/record.h" nogil:
    ctypedef struct sgs_bytes:
        const uint8_t *data
        int32_t size

    ctypedef struct sgs_record_header:
        sgs_bytes key
        sgs_bytes value

    ctypedef struct sgs_record:
        int64_t offset
        int64_t timestamp
        int32_t sequence
        int32_t size_bytes
        sgs_bytes key
        sgs_bytes value
        int32_t headers_count
        sgs_bytes headers
        int8_t attributes

    ctypedef struct sgs_record_reader:
        sgs_batch_header batch
        int32_t remaining_count

    sgs_status sgs_record_reader_next(sgs_record_reader *reader, sgs_record *record, c_bool *found, sgs_error *err)
    c_bool sgs_record_next_header(sgs_bytes *headers, sgs_record_header *header)
    sgs_status sgs_record_fail_changed(sgs_error *err)
    int64_t sgs_record_size(int64_t timestamp_delta, int32_t offset_delta, sgs_bytes key, sgs_bytes value,
                            const sgs_record_header *headers, int32_t headers_count)
    uint8_t *sgs_record_write(uint8_t *out, int64_t timestamp_delta, int32_t offset_delta, sgs_bytes key,
                              sgs_bytes value, const sgs_record_header *headers, int32_t headers_count)
