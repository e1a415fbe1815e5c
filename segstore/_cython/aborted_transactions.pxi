# aborted_transactions.pxi - what a reader of committed data leaves out (csrc/record/aborted_transactions.h)

@cython.final
cdef class AbortedTransactions:
    """A table of aborted transactions; immutable."""

    cdef cnp.ndarray rows  # n x 3 numbers: producer id, first offset, last offset
    cdef sgs_aborted_transactions table

    def __cinit__(self, transactions):
        self.rows = np.array(sorted((p, last, first) for p, first, last in transactions), dtype="i8").reshape(-1, 3)
        self.rows = np.ascontiguousarray(self.rows[:, [0, 2, 1]])
        self.table.rows = <const sgs_aborted_transaction *>cnp.PyArray_DATA(self.rows)
        self.table.count = <size_t>cnp.PyArray_DIM(self.rows, 0)
        if not sgs_aborted_transactions_are_sorted(&self.table):
            raise IllegalArgumentError(
                "a producer aborted two transactions at one offset", found="an offset twice", expected="each once"
            )

    def __len__(self):
        return self.table.count

    def between(self, int64_t fetch_offset, int64_t upper_bound_offset):
        """(producer id, first offset) of those that a fetch of that range has to know, by last offset [TXX-4]."""
        found = self.rows[(self.rows[:, 2] >= fetch_offset) & (self.rows[:, 1] < upper_bound_offset)]
        return [(row[0], row[1]) for row in found[found[:, 2].argsort(kind="stable")].tolist()]

    def contain(self, headers):
        """An array of booleans: which of the batches are data of aborted transactions."""
        cdef size_t count, i
        cdef const sgs_batch_header *batches = rows_of_array(headers, False, &count)
        cdef cnp.ndarray found = np.zeros(count, dtype="u1")
        cdef uint8_t *out = <uint8_t *>cnp.PyArray_DATA(found)
        for i in range(count):
            out[i] = sgs_aborted_transactions_contain(&self.table, &batches[i])
        return found.view("?")


cdef inline sgs_aborted_transactions aborted_table(AbortedTransactions aborted) noexcept:
    """The table of *aborted*, which the caller keeps; an empty one for None."""
    cdef sgs_aborted_transactions nothing
    if aborted is not None:
        return aborted.table
    nothing.rows = NULL
    nothing.count = 0
    return nothing
