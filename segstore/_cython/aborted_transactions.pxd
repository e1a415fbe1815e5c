"""csrc/record/aborted_transactions.h"""

from libc.stdint cimport int64_t

from segstore._cython.record_batch cimport sgs_batch_header


cdef extern from "record/aborted_transactions.h" nogil:
    ctypedef struct sgs_aborted_transaction:
        int64_t producer_id
        int64_t first_offset
        int64_t last_offset

    ctypedef struct sgs_aborted_transactions:
        const sgs_aborted_transaction *rows
        size_t count

    bint sgs_aborted_transactions_are_sorted(const sgs_aborted_transactions *aborted)
    bint sgs_aborted_transactions_contain(const sgs_aborted_transactions *aborted, const sgs_batch_header *batch)
