# primitives.pxi - checksums, hashes, clocks

def crc32c(data, uint32_t value=0, /):
    """CRC-32C of *data*; *value* is the checksum of what came before."""
    cdef Py_buffer view
    cdef uint32_t crc
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    if view.len < 4096:
        crc = sgs_crc32c(value, view.buf, <size_t>view.len)
    else:
        with nogil:
            crc = sgs_crc32c(value, view.buf, <size_t>view.len)
    PyBuffer_Release(&view)
    return crc


def crc32c_implementation():
    """The route that the checksum takes on this machine."""
    return sgs_crc32c_implementation().decode("ascii")


def murmur2(data, /):
    """Kafka's 32-bit hash of a key, signed."""
    cdef Py_buffer view
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    cdef int32_t value = sgs_murmur2(<const uint8_t *>view.buf, <size_t>view.len)
    PyBuffer_Release(&view)
    return value


def process_id():
    """Id of this process, as the environment says."""
    return environment.process_id(environment)


def wall_clock_ms():
    """Milliseconds since 1970."""
    return environment.wall_clock_ms(environment)


def monotonic_ns():
    """Nanoseconds of a clock that never goes back."""
    return environment.monotonic_ns(environment)
