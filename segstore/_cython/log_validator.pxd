"""csrc/record/log_validator.h"""

from libc.stdint cimport int64_t, uint8_t

from segstore._cython.record_batch cimport sgs_batch_header
from segstore._cython.status cimport sgs_error, sgs_status
from segstore._cython.validation cimport sgs_log_validator


cdef extern from "record/log_validator.h" nogil:
    sgs_status sgs_validate_and_assign_offsets(sgs_log_validator *validator, int64_t next_offset, uint8_t *data,
                                               size_t size, sgs_batch_header *rows, size_t rows_count, sgs_error *err)
