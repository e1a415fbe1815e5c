# aborted_transactions.pxi - what a reader of committed data leaves out (csrc/record/aborted_transactions.h)

def _by_producer_and_end(transaction):
    producer_id, first_offset, last_offset = transaction
    return producer_id, last_offset, first_offset


def _first(row):
    return row[0]


@cython.final
cdef class AbortedTransactions:
    """A table of aborted transactions; immutable."""

    cdef object rows  # array.array of 3 numbers each: producer id, first offset, last offset
    cdef sgs_aborted_transactions table

    def __cinit__(self, transactions):
        cdef array.array rows = array.array("q")
        for producer_id, first_offset, last_offset in sorted(transactions, key=_by_producer_and_end):
            rows.extend((producer_id, first_offset, last_offset))
        self.rows = rows
        self.table.rows = <const sgs_aborted_transaction *>rows.data.as_voidptr
        self.table.count = <size_t>len(rows) // 3
        if not sgs_aborted_transactions_are_sorted(&self.table):
            raise IllegalArgumentError(
                "a producer aborted two transactions at one offset", found="an offset twice", expected="each once"
            )

    def __len__(self):
        return self.table.count

    def between(self, int64_t fetch_offset, int64_t upper_bound_offset):
        """(producer id, first offset) of those that a fetch of that range has to know, by last offset [TXX-4]."""
        cdef const sgs_aborted_transaction *row
        cdef size_t i
        found = []
        for i in range(self.table.count):
            row = &self.table.rows[i]
            if row.last_offset >= fetch_offset and row.first_offset < upper_bound_offset:
                found.append((row.last_offset, row.producer_id, row.first_offset))
        found.sort(key=_first)  # those with the same end stay as they are
        return [(producer_id, first_offset) for _, producer_id, first_offset in found]

    def contain(self, headers):
        """An array of booleans: which of the batches are data of aborted transactions."""
        cdef size_t count, i
        cdef const sgs_batch_header *batches = rows_of_array(headers, False, &count)
        cdef bytearray found = bytearray(count)
        cdef uint8_t *out = <uint8_t *>PyByteArray_AS_STRING(found)
        for i in range(count):
            out[i] = sgs_aborted_transactions_contain(&self.table, &batches[i])
        return np.frombuffer(found, "?")


cdef inline sgs_aborted_transactions aborted_table(AbortedTransactions aborted) noexcept:
    """The table of *aborted*, which the caller keeps; an empty one for None."""
    cdef sgs_aborted_transactions nothing
    if aborted is not None:
        return aborted.table
    nothing.rows = NULL
    nothing.count = 0
    return nothing
