# codecs.pxi - compression libraries that live in Python, as the core's table of providers (csrc/record/codec.h, D12)

cdef sgs_status leave_pending(object error, sgs_error *err) noexcept:
    """Keep the exception for check(), which finds it when the core has come back [SGS_CALLBACK]."""
    PyErr_SetObject(type(error), error)
    return sgs_fail(err, SGS_CALLBACK, "a compression library raised an exception")


cdef sgs_status take_result(object result, size_t limit, sgs_buffer *out, sgs_error *err) except *:
    cdef Py_buffer view
    cdef sgs_status status
    PyObject_GetBuffer(result, &view, PyBUF_SIMPLE)
    if <size_t>view.len > limit:
        status = sgs_fail(err, SGS_LIMIT_EXCEEDED, "%zu decompressed bytes, the limit is %zu", <size_t>view.len, limit)
    else:
        status = sgs_buffer_append(out, view.buf, <size_t>view.len, err)
    PyBuffer_Release(&view)
    return status


cdef sgs_status compress_in_python(void *context, int level, const uint8_t *data, size_t size, sgs_buffer *out,
                                   sgs_error *err) noexcept with gil:
    try:
        compress = (<tuple>context)[1]
        return take_result(compress(PyBytes_FromStringAndSize(<const char *>data, <Py_ssize_t>size), level),
                           SIZE_LIMIT, out, err)
    except BaseException as error:
        return leave_pending(error, err)


cdef sgs_status decompress_in_python(void *context, const uint8_t *data, size_t size, size_t limit, sgs_buffer *out,
                                     sgs_error *err) noexcept with gil:
    try:
        decompress = (<tuple>context)[2]
        with PyMemoryView_FromMemory(<char *>data, <Py_ssize_t>size, PyBUF_READ) as view:  # dies with the call
            return take_result(decompress(view, limit), limit, out, err)
    except CodecError as error:
        if error.decoded:
            take_result(error.decoded, limit, out, err)
            error.decoded = b""
        return leave_pending(error, err)
    except BaseException as error:
        return leave_pending(error, err)


cdef size_t SIZE_LIMIT = <size_t>INT64_MAX


@cython.final
cdef class CodecTable:
    """The providers of the four codecs; immutable."""

    cdef sgs_codec_table table
    cdef dict providers  # codec id -> (name, compress, decompress): keeps alive what the table points to

    def __cinit__(self, dict providers, int64_t max_decompressed_batch_bytes=268435456,
                  int64_t max_record_bytes=67108864):
        cdef sgs_codec_provider *row
        cdef tuple kept
        cdef bytes name
        memset(&self.table, 0, sizeof(self.table))
        for name_of_limit, limit in (
            ("max_decompressed_batch_bytes", max_decompressed_batch_bytes),
            ("max_record_bytes", max_record_bytes),
        ):
            if limit < 1:
                raise IllegalArgumentError(
                    f"{name_of_limit} must be at least 1", found=str(limit), expected="at least 1"
                )
        self.table.max_decompressed_batch_bytes = <size_t>max_decompressed_batch_bytes
        self.table.max_record_bytes = <size_t>max_record_bytes
        self.providers = {}
        for codec, (text, compress, decompress) in providers.items():
            if not SGS_CODEC_NONE < codec < SGS_CODEC_COUNT:
                raise IllegalArgumentError(f"no codec has the id {codec}", found=str(codec), expected="1 to 4")
            name = text.encode("utf-8")
            kept = (name, compress, decompress)
            self.providers[codec] = kept
            row = &self.table.providers[<int>codec]
            row.name = PyBytes_AS_STRING(name)
            row.context = <void *>kept
            row.compress = &compress_in_python
            row.decompress = &decompress_in_python

    @property
    def names(self):
        return {codec: provider[0].decode("utf-8") for codec, provider in self.providers.items()}
