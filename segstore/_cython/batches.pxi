# batches.pxi - the batch-header table, a NumPy array where asked for, and its scan (record_batch.h, batch_scan.h)

cdef list HEADER_FIELDS = [
    ("position", "i8"),
    ("base_offset", "i8"),
    ("last_offset", "i8"),
    ("base_timestamp", "i8"),
    ("max_timestamp", "i8"),
    ("producer_id", "i8"),
    ("size_bytes", "i4"),
    ("partition_leader_epoch", "i4"),
    ("base_sequence", "i4"),
    ("records_count", "i4"),
    ("crc", "u4"),
    ("attributes", "i2"),
    ("producer_epoch", "i2"),
    ("magic", "i1"),
    ("padding", "u1", (7,)),
]

cdef object header_dtype = None  # of NumPy, which the first array imports


def batch_header_dtype():
    """The NumPy dtype of a row of a batch-header table."""
    global header_dtype
    if header_dtype is None:
        header_dtype = np.dtype(HEADER_FIELDS)
        assert header_dtype.itemsize == sizeof(sgs_batch_header) == 80
    return header_dtype


cdef tuple SCAN_STOPS = ("complete", "incomplete", "corrupt", "order", "limit")


class ScanResult(NamedTuple):
    stop: str
    valid_bytes: int
    next_offset: int
    max_timestamp: int
    offset_of_max_timestamp: int
    last_epoch: int
    batches_count: int
    why: object


class BatchHeader(NamedTuple):
    position: int
    base_offset: int
    last_offset: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    size_bytes: int
    partition_leader_epoch: int
    base_sequence: int
    records_count: int
    crc: int
    attributes: int
    producer_epoch: int
    magic: int


@cython.final
cdef class BatchTable:
    """Batch headers in the order of a file; a NumPy array of them is made when it is asked for."""

    cdef object owner  # of the rows: a bytearray, or an array
    cdef object as_array
    cdef const sgs_batch_header *rows
    cdef size_t count

    def __cinit__(self, array=None):
        if array is not None:
            self.rows = rows_of_array(array, False, &self.count)
            self.owner = self.as_array = array

    def __len__(self):
        return self.count

    def __getitem__(self, size_t number):
        cdef const sgs_batch_header *row = self.row(number)
        return BatchHeader(
            row.position,
            row.base_offset,
            row.last_offset,
            row.base_timestamp,
            row.max_timestamp,
            row.producer_id,
            row.size_bytes,
            row.partition_leader_epoch,
            row.base_sequence,
            row.records_count,
            row.crc,
            row.attributes,
            row.producer_epoch,
            row.magic,
        )

    @property
    def array(self):
        """The rows, of `batch_header_dtype`."""
        if self.as_array is None:
            self.as_array = np.ndarray((self.count,), batch_header_dtype(), self.owner)
        return self.as_array

    @property
    def base_offset(self):
        """That of the first batch."""
        return self.row(0).base_offset

    @property
    def first_last_offset(self):
        """The last offset of the first batch."""
        return self.row(0).last_offset

    @property
    def last_offset(self):
        """That of the last batch."""
        return self.row(self.count - 1).last_offset

    @property
    def is_without_gap(self):
        """Whether each batch begins right behind the one before, in a format that has both offsets."""
        return sgs_batches_are_without_gap(self.rows, self.count)

    @property
    def leader_epoch(self):
        """The leader epoch that all batches have; None where they differ, and with magic 0 or 1."""
        return self.row(0).partition_leader_epoch if sgs_batches_have_one_epoch(self.rows, self.count) else None

    def first_row(self, int64_t offset):
        """The row of the first batch that ends at *offset* or behind it; the number of rows where none does."""
        cdef size_t low = 0
        cdef size_t count = self.count
        cdef size_t middle
        while low < count:
            middle = (low + count) // 2
            if self.rows[middle].last_offset < offset:
                low = middle + 1
            else:
                count = middle
        return low

    def place(self, size_t number):
        """Position, size in bytes and base offset of a batch."""
        cdef const sgs_batch_header *row = self.row(number)
        return row.position, row.size_bytes, row.base_offset

    cdef const sgs_batch_header *row(self, size_t number) except NULL:
        if number >= self.count:
            raise IndexError(f"no row {number} of {self.count}")
        return &self.rows[number]


cdef BatchTable table_of_rows(const void *rows, size_t count):
    """A new table with a copy of *rows*."""
    cdef BatchTable table = BatchTable.__new__(BatchTable)
    cdef bytearray owner = PyByteArray_FromStringAndSize(<const char *>rows, count * sizeof(sgs_batch_header))
    table.owner = owner
    table.rows = <const sgs_batch_header *><void *>PyByteArray_AS_STRING(owner)
    table.count = count
    return table


cdef object array_of_rows(const void *rows, size_t count):
    """A new array with a copy of *rows*."""
    return table_of_rows(rows, count).array


cdef sgs_batch_header *rows_of_array(object headers, bint writable, size_t *count) except? NULL:
    """Borrow the rows of an array, which the caller keeps."""
    cdef Py_buffer view
    if isinstance(headers, np.ndarray) and headers.ndim == 1 and headers.dtype == batch_header_dtype():
        try:
            PyObject_GetBuffer(headers, &view, PyBUF_WRITABLE if writable else PyBUF_SIMPLE)
        except ValueError:  # with holes between the rows, or read-only
            pass
        else:
            PyBuffer_Release(&view)
            if <size_t>view.buf % sizeof(int64_t) == 0:
                count[0] = <size_t>view.len // sizeof(sgs_batch_header)
                return <sgs_batch_header *>view.buf
    raise IllegalArgumentError(
        "headers must be a contiguous array of batch headers",
        found=f"{type(headers).__name__} of {getattr(headers, 'dtype', 'no dtype')}"[:200],
        expected="one dimension of batch_header_dtype()" + (", writable" if writable else ""),
    )


cdef object scan_result_of(sgs_scan_result *result, str directory):
    why = None
    if result.stop == SGS_SCAN_CORRUPT or result.stop == SGS_SCAN_ORDER:
        why = error_of(&result.why, directory)
    return ScanResult(
        SCAN_STOPS[<int>result.stop],
        result.valid_bytes,
        result.next_offset,
        result.max_timestamp,
        result.offset_of_max_timestamp,
        result.last_epoch,
        result.batches_count,
        why,
    )


def scan_batches(data, *, str rules="memory", bint check_crc=True, int32_t max_batch_bytes=INT32_MAX,
                 uint32_t max_batches=0xFFFFFFFF, bint kafka_limits=False):
    """Check a whole buffer of batches in one pass."""
    cdef sgs_scan_options options
    if rules not in ("memory", "file"):
        raise IllegalArgumentError(f"no scan rules {rules!r}", found=repr(rules), expected="'memory' or 'file'")
    sgs_scan_options_default(&options, SGS_SCAN_MEMORY if rules == "memory" else SGS_SCAN_FILE)
    options.check_crc = check_crc
    options.max_batch_bytes = max_batch_bytes
    options.max_batches = max_batches
    options.kafka_limits = kafka_limits
    table, result = scan_buffer(data, &options)
    return table.array, result


def scan_headers(data, *, bint check_crc=False):
    """The headers of a buffer of batches as a table."""
    cdef sgs_scan_options options
    sgs_scan_options_default(&options, SGS_SCAN_MEMORY)
    options.check_crc = check_crc
    return scan_buffer(data, &options)


cdef tuple scan_buffer(object data, const sgs_scan_options *options):
    cdef Py_buffer view
    cdef sgs_scan_result result
    cdef sgs_batch_table table
    cdef sgs_error err
    cdef sgs_status status
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    sgs_batch_table_init(&table, memory)
    try:
        if view.len < 4096:
            status = sgs_batch_scan_buffer(<const uint8_t *>view.buf, <size_t>view.len, options, &table, &result, &err)
        else:
            with nogil:
                status = sgs_batch_scan_buffer(
                    <const uint8_t *>view.buf, <size_t>view.len, options, &table, &result, &err
                )
        check(status, &err)
        rows = table_of_rows(sgs_batch_table_rows(&table), sgs_batch_table_count(&table))
    finally:
        sgs_batch_table_deinit(&table)
        PyBuffer_Release(&view)
    return rows, scan_result_of(&result, None)
