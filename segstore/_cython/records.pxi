# records.pxi - one record as a Python object, and small conversions between records and objects (csrc/record/record.h)

cdef extern from "Python.h":
    # borrowed references and unchecked access, for the two hot paths: encoding from tuples and decoding to them
    PyObject *borrowed_tuple_item "PyTuple_GET_ITEM"(object, Py_ssize_t)
    PyObject *borrowed_list_item "PyList_GET_ITEM"(object, Py_ssize_t)
    Py_ssize_t tuple_size "PyTuple_GET_SIZE"(object)
    Py_ssize_t list_size "PyList_GET_SIZE"(object)
    bint is_tuple "PyTuple_Check"(object)
    bint is_bytes "PyBytes_Check"(PyObject *)
    bint is_index "PyIndex_Check"(object)
    char *bytes_start "PyBytes_AS_STRING"(PyObject *)
    Py_ssize_t bytes_size "PyBytes_GET_SIZE"(PyObject *)
    PyObject *Py_None
    void Py_INCREF(PyObject *)
    void Py_DECREF(PyObject *)
    void Py_XDECREF(PyObject *)
    PyObject *new_bytes "PyBytes_FromStringAndSize"(const char *, Py_ssize_t)
    PyObject *new_integer "PyLong_FromLongLong"(long long)
    PyObject *new_tuple "PyTuple_New"(Py_ssize_t)
    void set_tuple_item "PyTuple_SET_ITEM"(PyObject *, Py_ssize_t, PyObject *)
    object new_instance "PyType_GenericAlloc"(PyTypeObject *, Py_ssize_t)
    int append_to_list "PyList_Append"(object, PyObject *) except -1
    void PyObject_GC_UnTrack(void *)
    str new_text "PyUnicode_DecodeUTF8"(const char *, Py_ssize_t, const char *)
    const char *text_bytes "PyUnicode_AsUTF8AndSize"(object, Py_ssize_t *) except NULL


cdef inline PyObject *new_bytes_or_none(sgs_bytes data) noexcept:
    """A new reference; NULL when there is no memory."""
    if data.size < 0:
        Py_INCREF(Py_None)
        return Py_None
    return new_bytes(<const char *>data.data, data.size)


cdef inline bytes bytes_or_none(sgs_bytes data):
    if data.size < 0:
        return None
    return PyBytes_FromStringAndSize(<const char *>data.data, data.size)


cdef uint8_t nothing = 0  # where an empty buffer begins
cdef char *format_of_bytes = b"B"


cdef int describe_bytes(sgs_buffer *content, bint readonly, Py_buffer *buffer, int flags) except -1:
    """Fill in all but the owner. (PyBuffer_FillInfo would lose the reference that Cython puts there.)"""
    if readonly and flags & PyBUF_WRITABLE:
        raise BufferError("the bytes are read-only")
    buffer.buf = content.data if content.data != NULL else &nothing
    buffer.len = <Py_ssize_t>content.size
    buffer.readonly = readonly or content.data == NULL
    buffer.itemsize = 1
    buffer.format = format_of_bytes if flags & PyBUF_FORMAT else NULL
    buffer.ndim = 1
    buffer.shape = &buffer.len if flags & PyBUF_ND else NULL
    buffer.strides = &buffer.itemsize if flags & PyBUF_STRIDES == PyBUF_STRIDES else NULL
    buffer.suboffsets = NULL
    buffer.internal = NULL
    return 0


cdef bint never_changes(object data) noexcept:
    """Whether a buffer stays as it is while it is read: it is bytes, of a fetch or a file, or a view of these."""
    cdef object owner = (<object>data).obj if type(data) is memoryview else data
    return type(owner) is bytes or type(owner) is FetchedBytes or type(owner) is RangeBytes


cdef sgs_status settle(const uint8_t **batch, size_t size, sgs_buffer *kept, sgs_error *err) noexcept nogil:
    """Take a copy of a compressed batch that a caller may change: its library gets bytes that stay as they are.

    The core reads plain records within their bounds, whatever becomes of them.
    """
    cdef const uint8_t *start = batch[0]
    cdef sgs_batch_header header
    cdef sgs_status status = sgs_batch_header_load(start, size, 0, &header, err)
    if status != SGS_OK or sgs_batch_codec(&header) == SGS_CODEC_NONE:
        return status
    sgs_buffer_clear(kept)
    status = sgs_buffer_append(kept, start, size, err)
    if status == SGS_OK:
        batch[0] = kept.data
    return status


cdef str text_of(sgs_bytes text):
    """Bytes as text; what is no UTF-8 is replaced as Java does, so that both clients show the same."""
    cdef bytes replaced, kept
    cdef uint8_t *start
    cdef uint8_t *end
    try:
        return new_text(<const char *>text.data, text.size, NULL)
    except UnicodeDecodeError:
        kept = PyBytes_FromStringAndSize(<const char *>text.data, text.size)  # the bytes may be a caller's, and change
        replaced = PyBytes_FromStringAndSize(NULL, 3 * <Py_ssize_t>text.size)
        start = <uint8_t *>PyBytes_AS_STRING(replaced)
        end = sgs_utf8_java_replace(start, <const uint8_t *>PyBytes_AS_STRING(kept), <size_t>text.size)
        return new_text(<const char *>start, end - start, NULL)


cdef tuple headers_of(sgs_bytes encoded, int32_t count, bint raw_keys=False):
    """Headers that the record reader has checked."""
    cdef sgs_record_header header
    cdef list headers = []
    cdef sgs_error err
    cdef int32_t i
    for i in range(count):
        if not sgs_record_next_header(&encoded, &header):
            check(sgs_record_fail_changed(&err), &err)
        key = bytes_or_none(header.key) if raw_keys else text_of(header.key)
        headers.append((key, bytes_or_none(header.value)))
    return tuple(headers)


cdef bint is_word(object source):
    """Whether it is text or a number of NumPy, which have a buffer of machine words: refused as str and int are."""
    if isinstance(source, str):
        return True
    if type(source) is bytearray or type(source) is memoryview or getattr(source, "ndim", 1) != 0:
        return False
    return getattr(getattr(source, "dtype", None), "kind", "V") not in "SV"


cdef bytes checked_bytes(object value, str what):
    """Bytes of anything bytes-like, or None; text is refused, since only its owner knows its encoding."""
    if value is None or type(value) is bytes:
        return value
    if isinstance(value, str):
        raise RecordTypeError(f"{what} is str: encode it to bytes first", found="str", expected="bytes or None")
    try:
        if is_word(value):
            raise TypeError
        return bytes(memoryview(value))
    except TypeError:
        raise RecordTypeError(
            f"{what} is {type(value).__name__}", found=type(value).__name__, expected="bytes or None"
        ) from None


cdef tuple checked_headers(object headers):
    cdef list checked = []
    if headers is None:
        return ()
    try:
        pairs = iter(headers)
    except TypeError:
        raise RecordTypeError(
            f"the headers are {type(headers).__name__}",
            found=type(headers).__name__,
            expected="(str, bytes or None) pairs",
        ) from None
    for header in pairs:
        if not isinstance(header, (tuple, list)) or len(header) != 2 or not isinstance(header[0], str):
            raise RecordTypeError(
                "a header is no (str, bytes) pair", found=type(header).__name__, expected="(str, bytes or None)"
            )
        checked.append((str(header[0]), checked_bytes(header[1], "the value of a header")))
    return tuple(checked)


cdef int64_t checked_integer(object value, str name, int64_t low, int64_t high) except? -2:
    """An int, or what stands for one exactly, from *low* to *high*."""
    cdef int64_t number
    if not is_index(value) or value is True or value is False:
        raise ArgumentTypeError(
            f"{name} must be an integer, not {type(value).__name__}",
            found=type(value).__name__,
            expected="an integer",
        )
    try:
        number = value
        if low <= number <= high:
            return number
        found = str(number)
    except OverflowError:
        found = "a number of more than 64 bits"
    raise IllegalArgumentError(
        f"{name} must be from {low} to {high}, not {found}", found=found, expected=f"{low} to {high}"
    )


cdef enum:
    SHOWN_SIZE = 64  # bytes of a value, or characters of a text, that a repr shows
    SHOWN_HEADERS = 8


cdef str shown(object part):
    """Bytes, text or None as ``repr`` shows them; of a long one the beginning and the size."""
    if part is None or len(part) <= SHOWN_SIZE:
        return repr(part)
    return f"{part[:SHOWN_SIZE // 2]!r}... ({len(part)} {'characters' if isinstance(part, str) else 'bytes'})"


cdef str shown_headers(tuple headers):
    cdef list pairs = [f"({shown(key)}, {shown(value)})" for key, value in headers[:SHOWN_HEADERS]]
    if len(headers) > SHOWN_HEADERS:
        return f"({', '.join(pairs)}, ... ({len(headers)} headers))"
    return f"({pairs[0]},)" if len(headers) == 1 else f"({', '.join(pairs)})"


@cython.final
@cython.no_gc
@cython.freelist(256)
cdef class Record:
    """One record; attribute names as in kafka-python's ``ConsumerRecord``."""

    cdef readonly int64_t offset
    cdef int64_t timestamp_ms
    cdef readonly int32_t leader_epoch
    cdef readonly int32_t partition
    cdef readonly int8_t timestamp_type
    cdef bint has_timestamp
    cdef bint is_complete
    cdef readonly bytes key
    cdef readonly bytes value
    cdef readonly str topic
    cdef tuple decoded_headers
    cdef bytes encoded_headers  # until somebody asks for them
    cdef int32_t headers_count

    # __init__, not __cinit__: the decoder makes records by the thousand and fills the fields itself (record_of)
    # keywords only: Record(key, value) and Record(value, key) look the same, and one of them is wrong
    def __init__(self, *, key=None, value=None, headers=(), timestamp=None, offset=-1, timestamp_type=0,
                 leader_epoch=-1, topic="", partition=-1):
        if self.is_complete:
            raise IllegalStateError("a record cannot be changed")
        self.value = checked_bytes(value, "the value")
        self.key = checked_bytes(key, "the key")
        self.decoded_headers = checked_headers(headers)
        if timestamp is not None:
            timestamp = record_timestamp(timestamp, None)
        if timestamp is not None:
            self.timestamp_ms = checked_integer(timestamp, "timestamp", INT64_MIN, INT64_MAX)
            self.has_timestamp = True
        if not isinstance(topic, str):
            raise ArgumentTypeError(
                f"topic must be text, not {type(topic).__name__}", found=type(topic).__name__, expected="text"
            )
        self.offset = checked_integer(offset, "offset", INT64_MIN, INT64_MAX)
        self.timestamp_type = <int8_t>checked_integer(timestamp_type, "timestamp_type", INT8_MIN, INT8_MAX)
        self.leader_epoch = <int32_t>checked_integer(leader_epoch, "leader_epoch", INT32_MIN, INT32_MAX)
        self.topic = str(topic)
        self.partition = <int32_t>checked_integer(partition, "partition", INT32_MIN, INT32_MAX)
        self.is_complete = True

    @property
    def timestamp(self):
        return self.timestamp_ms if self.has_timestamp else None

    @property
    def headers(self):
        cdef sgs_bytes encoded
        if self.decoded_headers is None:
            if self.encoded_headers is None:
                self.decoded_headers = ()
            else:
                encoded.data = <const uint8_t *>PyBytes_AS_STRING(self.encoded_headers)
                encoded.size = <int32_t>len(self.encoded_headers)
                self.decoded_headers = headers_of(encoded, self.headers_count)
        return self.decoded_headers

    cdef tuple content(self):
        return (self.value, self.key, self.headers, self.timestamp, self.offset, self.timestamp_type,
                self.leader_epoch, self.topic, self.partition)

    def __eq__(self, other):
        if type(other) is not Record:
            return NotImplemented
        return self.content() == (<Record>other).content()

    def __hash__(self):
        return hash(self.content())

    def __repr__(self):
        return (
            f"Record(offset={self.offset}, timestamp={self.timestamp}, key={shown(self.key)}, "
            f"value={shown(self.value)}, headers={shown_headers(self.headers)}, "
            f"timestamp_type={self.timestamp_type}, leader_epoch={self.leader_epoch}, "
            f"topic={self.topic!r}, partition={self.partition})"
        )

    def __reduce__(self):
        return (_record_from_content, self.content())


def _record_from_content(value, key, headers, timestamp, offset, timestamp_type, leader_epoch, topic, partition):
    return Record(value=value, key=key, headers=headers, timestamp=timestamp, offset=offset,
                  timestamp_type=timestamp_type, leader_epoch=leader_epoch, topic=topic, partition=partition)


cdef Record record_of(const sgs_record *source, const sgs_batch_header *batch, str topic, int32_t partition):
    """The object of a record that the reader has checked."""
    cdef Record record = Record.__new__(Record)
    record.offset = source.offset
    record.timestamp_ms = source.timestamp
    record.has_timestamp = True
    record.timestamp_type = <int8_t>sgs_batch_timestamp_type(batch)
    record.leader_epoch = batch.partition_leader_epoch
    record.key = bytes_or_none(source.key)
    record.value = bytes_or_none(source.value)
    if source.headers_count > 0:
        record.encoded_headers = PyBytes_FromStringAndSize(<const char *>source.headers.data, source.headers.size)
        record.headers_count = source.headers_count
    record.topic = topic
    record.partition = partition
    record.is_complete = True
    return record
