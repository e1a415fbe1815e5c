# arrow.pxi - Arrow's C data interface as capsules: taking data in and giving it out (csrc/record/arrow_abi.h)

cdef enum:
    OUT_OF_MEMORY = 12  # errno values, as the stream interface wants them
    IO_ERROR = 5
    INVALID = 22


cdef void free_schema(object capsule) noexcept:
    cdef ArrowSchema *schema = <ArrowSchema *>PyCapsule_GetPointer(capsule, "arrow_schema")
    if schema.release != NULL:
        schema.release(schema)
    PyMem_Free(schema)


cdef void free_array(object capsule) noexcept:
    cdef ArrowArray *array = <ArrowArray *>PyCapsule_GetPointer(capsule, "arrow_array")
    if array.release != NULL:
        array.release(array)
    PyMem_Free(array)


cdef void free_stream(object capsule) noexcept:
    cdef ArrowArrayStream *stream = <ArrowArrayStream *>PyCapsule_GetPointer(capsule, "arrow_array_stream")
    if stream.release != NULL:
        stream.release(stream)
    PyMem_Free(stream)


cdef object schema_capsule(ArrowSchema *source):
    """Move *source* into a capsule."""
    cdef ArrowSchema *schema = <ArrowSchema *>PyMem_Malloc(sizeof(ArrowSchema))
    if schema == NULL:
        source.release(source)
        raise MemoryError
    schema[0] = source[0]
    source.release = NULL
    return PyCapsule_New(schema, "arrow_schema", free_schema)


cdef object array_capsule(ArrowArray *source):
    """Move *source* into a capsule."""
    cdef ArrowArray *array = <ArrowArray *>PyMem_Malloc(sizeof(ArrowArray))
    if array == NULL:
        source.release(source)
        raise MemoryError
    array[0] = source[0]
    source.release = NULL
    return PyCapsule_New(array, "arrow_array", free_array)


cdef void *capsule_content(object capsule, const char *name) except NULL:
    """What a foreign producer gave as the capsule *name*; it may be anything."""
    if not PyCapsule_IsValid(capsule, name):
        expected = f"a capsule named {name.decode('ascii')}"
        raise ArgumentTypeError(
            f"the Arrow data cannot be read: it must give {expected}, not {type(capsule).__name__}",
            found=type(capsule).__name__,
            expected=expected,
        )
    return PyCapsule_GetPointer(capsule, name)


cdef int take_schema(object capsule, ArrowSchema *target) except -1:
    cdef ArrowSchema *source = <ArrowSchema *>capsule_content(capsule, "arrow_schema")
    if source.release == NULL:
        raise IllegalStateError("the Arrow schema was taken before")
    target[0] = source[0]
    source.release = NULL
    return 0


cdef int take_array(object capsule, ArrowArray *target) except -1:
    cdef ArrowArray *source = <ArrowArray *>capsule_content(capsule, "arrow_array")
    if source.release == NULL:
        raise IllegalStateError("the Arrow array was taken before")
    target[0] = source[0]
    source.release = NULL
    return 0


cdef object unreadable(reason):
    parts = getattr(reason, "args", ())  # of pyarrow's errors there may be two
    if not parts or not all(isinstance(part, str) for part in parts):
        parts = (str(reason),)
    return IllegalArgumentError(
        f"the Arrow data cannot be read: {'. '.join(parts)}",
        found=parts[0][:80],
        expected="a stream that can be read",
    )


@cython.final
cdef class _ArrowChunks:
    """What an Arrow producer offers, chunk by chunk: all of a stream, or one array."""

    cdef ArrowSchema schema
    cdef ArrowArray array
    cdef object capsule  # of the stream; None for a single array
    cdef ArrowStream ours  # the stream, when it is one of ours
    cdef bint is_single

    def __cinit__(self, data):
        cdef ArrowArrayStream *stream
        cdef int failed
        self.ours = data if type(data) is ArrowStream else None
        self.schema.release = NULL
        self.array.release = NULL
        if hasattr(data, "__arrow_c_stream__"):
            self.capsule = self.asked(data.__arrow_c_stream__)
            stream = <ArrowArrayStream *>capsule_content(self.capsule, "arrow_array_stream")
            if stream.release == NULL:
                raise IllegalStateError("the Arrow stream was taken before")
            with nogil:
                failed = stream.get_schema(stream, &self.schema)
            if failed:
                self.schema.release = NULL
                self.raise_last_error(stream, failed)
        elif hasattr(data, "__arrow_c_array__"):
            pair = self.asked(data.__arrow_c_array__)
            if not isinstance(pair, tuple) or len(pair) != 2:
                raise ArgumentTypeError(
                    f"the Arrow data cannot be read: it must give two capsules, not {type(pair).__name__}",
                    found=type(pair).__name__,
                    expected="a pair of capsules",
                )
            schema, array = pair
            take_schema(schema, &self.schema)
            take_array(array, &self.array)
            self.is_single = True
        else:
            raise RecordTypeError(
                f"{type(data).__name__} offers no Arrow data",
                found=type(data).__name__,
                expected="an object with __arrow_c_stream__ or __arrow_c_array__",
            )

    cdef object asked(self, offered):
        """What a library gives; its own error says which of its values Arrow has no type for."""
        try:
            return offered()
        except SegstoreError:
            raise
        except (TypeError, ValueError, NotImplementedError) as error:
            raise unreadable(error) from error

    def __dealloc__(self):
        self.drop_array()
        if self.schema.release != NULL:
            self.schema.release(&self.schema)

    cdef void drop_array(self) noexcept:
        if self.array.release != NULL:
            self.array.release(&self.array)
            self.array.release = NULL

    cdef int raise_last_error(self, ArrowArrayStream *stream, int failed) except -1:
        cdef const char *text
        if self.ours is not None and self.ours.state.error is not None:
            raise self.ours.state.error
        text = stream.get_last_error(stream)
        message = text.decode("utf-8", "replace") if text != NULL else os.strerror(failed)
        raise unreadable(message)

    cdef bint advance(self) except -1:
        """Fetch the next chunk into ``array``; False when there is none."""
        cdef ArrowArrayStream *stream
        cdef int failed
        if self.is_single:
            self.is_single = False
            return True
        self.drop_array()
        if self.capsule is None:
            return False
        stream = <ArrowArrayStream *>PyCapsule_GetPointer(self.capsule, "arrow_array_stream")
        with nogil:
            failed = stream.get_next(stream, &self.array)
        if failed:
            self.array.release = NULL
            self.raise_last_error(stream, failed)
        return self.array.release != NULL


cdef class _StreamState:
    """What an exported stream keeps between the consumer's calls."""

    cdef object schema
    cdef object batches
    cdef bytes last_error
    cdef readonly object error

    cdef int failed(self, object error) except -1:
        self.error = error
        self.last_error = f"{type(error).__name__}: {error}".encode("utf-8", "replace").replace(b"\0", b"?")
        if isinstance(error, MemoryError):
            return OUT_OF_MEMORY
        return IO_ERROR if isinstance(error, OSError) else INVALID


cdef int stream_get_schema(ArrowArrayStream *stream, ArrowSchema *out) noexcept with gil:
    cdef _StreamState state = <_StreamState>stream.private_data
    try:
        take_schema(state.schema.__arrow_c_schema__(), out)
        return 0
    except BaseException as error:
        return state.failed(error)


cdef int stream_get_next(ArrowArrayStream *stream, ArrowArray *out) noexcept with gil:
    cdef _StreamState state = <_StreamState>stream.private_data
    try:
        for batch in state.batches:
            if type(batch) is ArrowBatch:
                (<ArrowBatch>batch).move(out)
            else:
                take_array(batch.__arrow_c_array__()[1], out)
            return 0
        out.release = NULL
        return 0
    except BaseException as error:
        return state.failed(error)


cdef const char *stream_get_last_error(ArrowArrayStream *stream) noexcept with gil:
    cdef _StreamState state = <_StreamState>stream.private_data
    return NULL if state.last_error is None else PyBytes_AS_STRING(state.last_error)


cdef void stream_release(ArrowArrayStream *stream) noexcept with gil:
    Py_DECREF(<PyObject *>stream.private_data)
    stream.private_data = NULL
    stream.release = NULL


@cython.final
cdef class ArrowStream:
    """``__arrow_c_stream__`` over an iterator of batches; the consumer pulls, exceptions travel as its errors."""

    cdef _StreamState state
    cdef bint is_taken

    def __cinit__(self, schema, batches):
        self.state = _StreamState()
        self.state.schema = schema
        self.state.batches = iter(batches)

    @property
    def error(self):
        """The exception behind the error that the consumer saw, or None."""
        return self.state.error

    def __arrow_c_schema__(self):
        return self.state.schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema=None):
        """A capsule; once, since the batches come from one iterator. The requested schema is not looked at."""
        cdef ArrowArrayStream *stream
        if self.is_taken:
            raise IllegalStateError("the Arrow stream was taken before")
        stream = <ArrowArrayStream *>PyMem_Malloc(sizeof(ArrowArrayStream))
        if stream == NULL:
            raise MemoryError
        stream.get_schema = &stream_get_schema
        stream.get_next = &stream_get_next
        stream.get_last_error = &stream_get_last_error
        stream.release = &stream_release
        stream.private_data = <void *>self.state
        Py_INCREF(<PyObject *>self.state)
        self.is_taken = True
        return PyCapsule_New(stream, "arrow_array_stream", free_stream)
