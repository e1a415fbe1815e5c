# varints.pxi - numbers of variable length and sequence numbers (csrc/base/varint.h, record/record_batch.h)

cdef enum:
    UVARINT = 0
    VARINT = 1
    VARLONG = 2


cdef tuple read_number(object data, int kind):
    """(value, bytes read) of the number that *data* begins with."""
    cdef Py_buffer view
    cdef const uint8_t *at
    cdef const uint8_t *end
    cdef uint32_t pattern = 0
    cdef int32_t short_value = 0
    cdef int64_t value = 0
    cdef c_bool good
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    at = <const uint8_t *>view.buf
    end = at + view.len
    if kind == UVARINT:
        good = sgs_uvarint_read(&at, end, &pattern)
        value = pattern
    elif kind == VARINT:
        good = sgs_varint_read(&at, end, &short_value)
        value = short_value
    else:
        good = sgs_varlong_read(&at, end, &value)
    cdef Py_ssize_t consumed = at - <const uint8_t *>view.buf
    cdef Py_ssize_t size = view.len
    cdef Py_ssize_t longest = SGS_VARLONG_MAX_BYTES if kind == VARLONG else SGS_VARINT_MAX_BYTES
    PyBuffer_Release(&view)
    if good:
        return value, consumed
    if size < longest:
        raise InvalidRecordError("the data ends inside a number", found=f"{size} bytes", expected="its last byte")
    raise IllegalArgumentError("a number is too long", found="more bytes", expected=f"at most {longest} bytes")


def read_uvarint(data):
    """(value, bytes read) of an unsigned 32-bit number."""
    return read_number(data, UVARINT)


def read_varint(data):
    """(value, bytes read) of a 32-bit number in zig-zag order."""
    return read_number(data, VARINT)


def read_varlong(data):
    """(value, bytes read) of a 64-bit number in zig-zag order."""
    return read_number(data, VARLONG)


def write_uvarint(uint32_t value):
    """The shortest form of an unsigned 32-bit number."""
    cdef uint8_t out[5]
    return PyBytes_FromStringAndSize(<const char *>out, sgs_uvarint_write(out, value) - out)


def write_varint(int32_t value):
    """The shortest form of a 32-bit number in zig-zag order."""
    cdef uint8_t out[5]
    return PyBytes_FromStringAndSize(<const char *>out, sgs_varint_write(out, value) - out)


def write_varlong(int64_t value):
    """The shortest form of a 64-bit number in zig-zag order."""
    cdef uint8_t out[10]
    return PyBytes_FromStringAndSize(<const char *>out, sgs_varlong_write(out, value) - out)


def increment_sequence(int32_t sequence, int32_t increment):
    """The sequence number so many records later; 0 follows 2^31-1."""
    return sgs_sequence_add(sequence, increment)


def decrement_sequence(int32_t sequence, int32_t decrement):
    """The sequence number so many records before; 2^31-1 precedes 0."""
    return sgs_sequence_subtract(sequence, decrement)
