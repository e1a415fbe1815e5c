"""csrc/segment/file_records.h"""

from libc.stdint cimport int64_t, uint8_t

from segstore._cython.env cimport sgs_transfer
from segstore._cython.log_segment cimport sgs_log_segment
from segstore._cython.status cimport sgs_error, sgs_status


cdef extern from "segment/file_records.h" nogil:
    sgs_status sgs_file_records_write_to(sgs_log_segment *segment, int64_t position, size_t size, int destination,
                                         sgs_transfer *transfer, sgs_error *err)
    sgs_status sgs_file_records_read_into(sgs_log_segment *segment, int64_t position, uint8_t *data, size_t size,
                                          sgs_error *err)
