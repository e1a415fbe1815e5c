"""csrc/segment/transaction_scan.h"""

from libc.stdint cimport int64_t

from segstore._cython.batch_scan cimport sgs_batch_table, sgs_scan_options, sgs_scan_result
from segstore._cython.buffer cimport sgs_buffer, sgs_memory
from segstore._cython.log_segment cimport sgs_log_segment
from segstore._cython.status cimport sgs_error, sgs_status


cdef extern from "segment/transaction_scan.h" nogil:
    ctypedef struct sgs_transaction_rows:
        sgs_batch_table table
        sgs_buffer ends

    void sgs_transaction_rows_init(sgs_transaction_rows *rows, sgs_memory memory)
    void sgs_transaction_rows_deinit(sgs_transaction_rows *rows)
    sgs_status sgs_log_segment_scan_transactions(sgs_log_segment *segment, const sgs_scan_options *options,
                                                 int64_t start_position, int64_t end_position, int64_t data_from,
                                                 sgs_transaction_rows *rows, sgs_scan_result *result, sgs_error *err)
