# batches.pxi - the batch-header table as a NumPy array, and the scan that makes it (record_batch.h, batch_scan.h)

BATCH_HEADER_DTYPE = np.dtype([
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
])
assert BATCH_HEADER_DTYPE.itemsize == sizeof(sgs_batch_header) == 80

cdef object header_dtype = BATCH_HEADER_DTYPE

cdef extern from "numpy/arrayobject.h":
    ctypedef struct PyArray_Descr:
        pass
    # takes a reference to the dtype over
    object new_array "PyArray_Empty"(int dimensions, cnp.npy_intp *lengths, PyArray_Descr *dtype, int fortran_order)

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


cdef cnp.ndarray array_of_rows(const void *rows, size_t count):
    """A new array with a copy of *rows*."""
    cdef cnp.npy_intp length = <cnp.npy_intp>count
    cdef cnp.ndarray array
    Py_INCREF(<PyObject *>header_dtype)  # the array takes it over
    array = new_array(1, &length, <PyArray_Descr *><PyObject *>header_dtype, 0)
    if count > 0:
        memcpy(cnp.PyArray_DATA(array), rows, count * sizeof(sgs_batch_header))
    return array


cdef sgs_batch_header *rows_of_array(object headers, bint writable, size_t *count) except? NULL:
    """Borrow the rows of an array, which the caller keeps."""
    cdef cnp.ndarray array
    if (
        not isinstance(headers, cnp.ndarray)
        or (headers.dtype is not header_dtype and headers.dtype != header_dtype)
        or headers.ndim != 1
        or not cnp.PyArray_ISCARRAY_RO(headers)
        or (writable and not cnp.PyArray_ISWRITEABLE(headers))
    ):
        raise IllegalArgumentError(
            "headers must be a contiguous array of batch headers",
            found=f"{type(headers).__name__} of {getattr(headers, 'dtype', 'no dtype')}"[:200],
            expected="one dimension of BATCH_HEADER_DTYPE" + (", writable" if writable else ""),
        )
    array = headers
    count[0] = <size_t>cnp.PyArray_DIM(array, 0)
    return <sgs_batch_header *>cnp.PyArray_DATA(array)


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
    cdef Py_buffer view
    cdef sgs_scan_options options
    cdef sgs_scan_result result
    cdef sgs_batch_table table
    cdef sgs_error err
    cdef sgs_status status
    if rules not in ("memory", "file"):
        raise IllegalArgumentError(f"no scan rules {rules!r}", found=repr(rules), expected="'memory' or 'file'")
    sgs_scan_options_default(&options, SGS_SCAN_MEMORY if rules == "memory" else SGS_SCAN_FILE)
    options.check_crc = check_crc
    options.max_batch_bytes = max_batch_bytes
    options.max_batches = max_batches
    options.kafka_limits = kafka_limits
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    sgs_batch_table_init(&table, memory)
    try:
        if view.len < 4096:
            status = sgs_batch_scan_buffer(<const uint8_t *>view.buf, <size_t>view.len, &options, &table, &result, &err)
        else:
            with nogil:
                status = sgs_batch_scan_buffer(
                    <const uint8_t *>view.buf, <size_t>view.len, &options, &table, &result, &err
                )
        check(status, &err)
        rows = array_of_rows(sgs_batch_table_rows(&table), sgs_batch_table_count(&table))
    finally:
        sgs_batch_table_deinit(&table)
        PyBuffer_Release(&view)
    return rows, scan_result_of(&result, None)
