# columns.pxi - batches to Arrow columns (csrc/record/columns.h)

COLUMN_NAMES = tuple([sgs_column_name(column).decode("ascii") for column in range(SGS_COLUMN_COUNT)])

cdef sgs_columns_options columns_options(object columns, str topic, int32_t partition) except *:
    """Options for a projection by names."""
    cdef sgs_columns_options options
    cdef bytes name = topic.encode("utf-8")
    cdef int i
    sgs_columns_options_default(&options)
    if columns is not None:
        if isinstance(columns, str):
            raise IllegalArgumentError(
                f"columns is the text {columns!r}: name them in a list, as [{columns!r}]",
                found=repr(columns),
                expected="a sequence of names",
            )
        try:
            names = list(columns)
        except TypeError:
            raise ArgumentTypeError(
                f"columns must be a sequence of names, not {type(columns).__name__}",
                found=type(columns).__name__,
                expected="a sequence of names",
            ) from None
        for i, column in enumerate(names):
            if column not in COLUMN_NAMES:
                raise IllegalArgumentError(
                    f"no column {column!r}: there are {', '.join(COLUMN_NAMES)}",
                    found=repr(column),
                    expected=", ".join(COLUMN_NAMES),
                )
            if column in names[:i]:
                raise IllegalArgumentError(
                    f"column {column!r} is named twice", found=repr(column), expected="each column once"
                )
            options.columns[i] = <uint8_t>COLUMN_NAMES.index(column)
        options.columns_count = <uint8_t>len(names)
    if len(name) > SGS_TOPIC_MAX_BYTES or b"\0" in name:
        raise IllegalArgumentError("the topic is no legal name", found=repr(topic)[:80], expected="at most 249 bytes")
    memcpy(options.topic, PyBytes_AS_STRING(name), <size_t>len(name) + 1)
    options.partition = partition
    return options


@cython.final
cdef class ArrowBatch:
    """A record batch in Arrow's layout; its buffers are moved out by the first who takes them."""

    cdef ArrowArray array
    cdef sgs_columns_options options
    cdef readonly int64_t rows_count

    def __cinit__(self):
        self.array.release = NULL

    def __dealloc__(self):
        if self.array.release != NULL:
            self.array.release(&self.array)

    cdef int move(self, ArrowArray *target) except -1:
        if self.array.release == NULL:
            raise IllegalStateError("the Arrow batch was taken before")
        target[0] = self.array
        self.array.release = NULL
        return 0

    def __arrow_c_schema__(self):
        return exported_schema(&self.options)

    def __arrow_c_array__(self, requested_schema=None):
        """Capsules of schema and array; once. The requested schema is not looked at."""
        cdef ArrowArray array
        schema = exported_schema(&self.options)
        self.move(&array)
        return schema, array_capsule(&array)


cdef object exported_schema(const sgs_columns_options *options):
    cdef ArrowSchema schema
    cdef sgs_error err
    check(sgs_columns_export_schema(memory, options, &schema, &err), &err)
    return schema_capsule(&schema)


@cython.final
cdef class ColumnDecoder:
    """Batches in, Arrow batches out."""

    cdef sgs_columns *columns
    cdef sgs_columns_options options
    cdef sgs_scan_options scan_options
    cdef sgs_batch_scan scan
    cdef CodecTable codecs
    cdef AbortedTransactions aborted  # keeps the table that the options borrow
    cdef OffsetMap last_offsets  # borrowed by the options too
    cdef sgs_buffer kept  # a compressed batch of bytes that may change
    cdef bint may_change
    cdef bint is_busy

    def __cinit__(self, CodecTable codecs not None, columns=None, *, bint microseconds=False,
                  bint null_headers_when_empty=True, bint check_crc=True, int64_t start_offset=0,
                  int64_t end_offset=INT64_MAX, int64_t start_timestamp=INT64_MIN, int64_t end_timestamp=INT64_MAX,
                  str topic not None="", int32_t partition=-1, AbortedTransactions aborted=None,
                  OffsetMap last_offsets=None, bint notes_last_offsets=False):
        cdef sgs_error err
        sgs_buffer_init(&self.kept, memory)
        self.codecs = codecs
        self.aborted = aborted
        self.options = columns_options(columns, topic, partition)
        self.options.timestamp_in_microseconds = microseconds
        self.options.null_headers_when_empty = null_headers_when_empty
        self.options.check_crc = check_crc
        self.options.start_offset = start_offset
        self.options.end_offset = end_offset
        self.options.start_timestamp = start_timestamp
        self.options.end_timestamp = end_timestamp
        self.options.aborted = aborted_table(aborted)
        if last_offsets is not None:
            if not last_offsets.map.is_keyed:
                raise IllegalArgumentError("a map that grows needs a secret", found="none", expected="16 bytes")
            self.last_offsets = last_offsets
            self.options.last_offsets = &last_offsets.map
            self.options.notes_last_offsets = notes_last_offsets
        sgs_scan_options_default(&self.scan_options, SGS_SCAN_MEMORY)
        self.scan_options.check_crc = False  # done where the batch is opened
        self.scan_options.max_batches = 1
        check(sgs_columns_open(memory, &self.options, &codecs.table, &self.columns, &err), &err)

    def __dealloc__(self):
        sgs_columns_close(self.columns)
        sgs_buffer_deinit(&self.kept)

    cdef int start_work(self) except -1:
        if self.is_busy:
            raise IllegalStateError("the decoder is used by two threads at once")
        self.is_busy = True
        return 0

    def append(self, data, int64_t max_rows=-1, int64_t max_bytes=-1):
        """Decode whole batches until rows or bytes reach a bound; returns the bytes consumed."""
        cdef Py_buffer view
        cdef int64_t consumed = 0
        cdef sgs_error err
        cdef sgs_status status
        PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
        try:
            self.start_work()
            self.may_change = not never_changes(data)
            try:
                with nogil:
                    status = self.decode(
                        <const uint8_t *>view.buf, view.len, max_rows if max_rows >= 0 else INT64_MAX,
                        max_bytes if max_bytes >= 0 else INT64_MAX, &consumed, &err
                    )
                check(status, &err)
            finally:
                self.is_busy = False
        finally:
            PyBuffer_Release(&view)
        return consumed

    cdef sgs_status decode(self, const uint8_t *data, int64_t size, int64_t max_rows, int64_t max_bytes,
                           int64_t *consumed, sgs_error *err) noexcept nogil:
        cdef const uint8_t *batch
        cdef sgs_status status
        cdef size_t needed
        cdef int64_t end
        sgs_columns_expect(self.columns, <size_t>size)
        while sgs_columns_rows_count(self.columns) < max_rows and sgs_columns_bytes_count(self.columns) < max_bytes:
            sgs_batch_scan_start(&self.scan, &self.scan_options, consumed[0])
            status = sgs_batch_scan_feed(
                &self.scan, data + consumed[0], <size_t>(size - consumed[0]), size, NULL, &needed, err
            )
            if status != SGS_OK:
                return status
            if self.scan.result.batches_count == 0:
                if self.scan.result.stop != SGS_SCAN_CORRUPT:
                    return SGS_OK
                err[0] = self.scan.result.why
                return err.status
            end = self.scan.result.valid_bytes
            batch = data + consumed[0]
            if self.may_change:
                status = settle(&batch, <size_t>(end - consumed[0]), &self.kept, err)
                if status != SGS_OK:
                    return failed_at(err, consumed[0])
            status = sgs_columns_append_batch(self.columns, batch, <size_t>(end - consumed[0]), err)
            if status == SGS_LIMIT_EXCEEDED and sgs_columns_rows_count(self.columns) > 0:
                return SGS_OK  # full: the caller finishes, and the batch gets an empty builder
            if status != SGS_OK:
                return failed_at(err, consumed[0])
            consumed[0] = end
        return SGS_OK

    @property
    def rows_count(self):
        return sgs_columns_rows_count(self.columns)

    @property
    def bytes_count(self):
        return sgs_columns_bytes_count(self.columns)

    def finish(self):
        """What was gathered, as one Arrow batch; then anew."""
        cdef ArrowBatch batch = ArrowBatch.__new__(ArrowBatch)
        cdef sgs_error err
        self.start_work()
        try:
            check(sgs_columns_finish(self.columns, &batch.array, &err), &err)
        finally:
            self.is_busy = False
        batch.options = self.options
        batch.rows_count = batch.array.length
        return batch

    def __arrow_c_schema__(self):
        return exported_schema(&self.options)
