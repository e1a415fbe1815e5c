# batch_writer.pxi - Python objects into finished batches, one record after the other (csrc/record/batch_builder.h)

class BatchOptions(NamedTuple):
    base_offset: int = 0
    partition_leader_epoch: int = -1
    codec: int = 0
    level: int = -2147483648
    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1
    transactional: bool = False
    delete_horizon_ms: int = -1


cdef enum:
    RECORD_MAX_OVERHEAD_BYTES = 21 + 3 * 5  # the numbers of a record at their largest [format.md 5]
    HEADER_MAX_OVERHEAD_BYTES = 2 * 5
    # below this, copying and a checksum take less than handing the GIL over and back
    SMALL_BATCH_BYTES = 16384
    FIRST_ROOM_BYTES = 65536

cdef object ZERO = 0  # the only one: CPython keeps an object for each small int


@cython.final
cdef class EncodedBatches:
    """Batches built by the core: bytes that it owns and their header table."""

    cdef sgs_buffer content
    cdef sgs_buffer row_bytes
    cdef object rows  # an array of row_bytes, made when somebody asks
    cdef readonly int64_t records_count

    def __cinit__(self):
        sgs_buffer_init(&self.content, memory)
        sgs_buffer_init(&self.row_bytes, memory)

    def __dealloc__(self):
        sgs_buffer_deinit(&self.row_bytes)
        sgs_buffer_deinit(&self.content)

    def __getbuffer__(self, Py_buffer *buffer, int flags):
        describe_bytes(&self.content, False, buffer, flags)
        buffer.obj = self

    @property
    def headers(self):
        if self.rows is None:
            self.rows = array_of_rows(self.row_bytes.data, self.row_bytes.size // sizeof(sgs_batch_header))
            sgs_buffer_deinit(&self.row_bytes)
        return self.rows

    @property
    def size_bytes(self):
        return self.content.size


cdef int32_t sequence_after(int32_t sequence, int32_t count) noexcept:
    """The base sequence of the next batch: sequences wrap to 0 [format.md 4.2]."""
    return -1 if sequence < 0 else <int32_t>((<int64_t>sequence + count) & INT32_MAX)


@cython.final
@cython.no_gc
cdef class _BatchWriter:
    """Records in, batches out; splits where the next record would take a batch above its size.

    Without a codec records are written right to where the batch will be; with one, to the builder's section.
    """

    cdef sgs_batch_builder builder
    cdef sgs_batch_options options
    cdef sgs_buffer headers  # those of the record at hand
    cdef sgs_buffer *target
    cdef size_t start  # of the batch at hand; its header's bytes are counted in both targets
    cdef CodecTable codecs
    cdef EncodedBatches result
    cdef int64_t max_batch_bytes
    cdef int64_t default_timestamp
    cdef Py_ssize_t expected_count  # of records, where it is known
    cdef bint is_started
    cdef object row_type  # of named tuples: one that was looked at
    cdef _BatchWriter next_free  # of a lane's writers

    def __cinit__(self, options, CodecTable codecs not None, int64_t default_timestamp, int64_t max_batch_bytes):
        sgs_buffer_init(&self.headers, memory)
        sgs_batch_builder_init(&self.builder, memory, &codecs.table)
        self.codecs = codecs
        self.result = EncodedBatches.__new__(EncodedBatches)
        self.default_timestamp = default_timestamp
        self.max_batch_bytes = min(max_batch_bytes, INT32_MAX)
        sgs_batch_options_default(&self.options)
        (
            self.options.base_offset,
            self.options.partition_leader_epoch,
            self.options.codec,
            self.options.level,
            self.options.producer_id,
            self.options.producer_epoch,
            self.options.base_sequence,
            self.options.transactional,
            self.options.delete_horizon_ms,
        ) = options
        self.choose_target()

    cdef void choose_target(self) noexcept:
        self.target = &self.result.content if self.options.codec == SGS_CODEC_NONE else &self.builder.section

    def __dealloc__(self):
        sgs_batch_builder_deinit(&self.builder)
        sgs_buffer_deinit(&self.headers)

    cdef int begin(self) except -1:
        cdef sgs_error err
        check(sgs_batch_builder_start(&self.builder, &self.options, &err), &err)
        self.start = 0
        if self.options.codec == SGS_CODEC_NONE:
            self.start = self.target.size
            check(sgs_buffer_reserve(self.target, SGS_BATCH_HEADER_BYTES, &err), &err)
            self.target.size += SGS_BATCH_HEADER_BYTES
        self.is_started = True
        return 0

    cdef int end(self) except -1:
        """Finish the batch at hand, if there is one."""
        cdef sgs_batch_header row
        cdef sgs_error err
        cdef sgs_status status
        if not self.is_started:
            return 0
        if not self.options.base_offset <= self.builder.last_offset < INT64_MAX:  # the sum may have wrapped [DUR-89]
            raise IllegalArgumentError(
                "no offsets are left for the batch",
                found=f"base offset {self.options.base_offset}",
                expected=f"offsets up to {INT64_MAX - 1}",
            )
        if self.options.codec != SGS_CODEC_NONE:
            with nogil:
                status = sgs_batch_builder_finish(&self.builder, &self.result.content, &row, &err)
        elif self.target.size - self.start < SMALL_BATCH_BYTES:
            status = sgs_batch_builder_seal(&self.builder, self.target, self.start, &row, &err)
        else:
            with nogil:
                status = sgs_batch_builder_seal(&self.builder, self.target, self.start, &row, &err)
        check(status, &err)
        check(sgs_buffer_append(&self.result.row_bytes, &row, sizeof(row), &err), &err)
        self.result.records_count += row.records_count
        self.options.base_sequence = sequence_after(self.options.base_sequence, row.records_count)
        self.is_started = False
        return 0

    cdef EncodedBatches close(self):
        self.end()
        return self.result

    cdef EncodedBatches write(self, list records, int64_t default_timestamp):
        """Batches of a list."""
        cdef Py_ssize_t index = 0
        self.default_timestamp = default_timestamp
        self.expected_count = list_size(records)
        while index < list_size(records):  # asked each time: other code may run in between and change the list
            item = <object>borrowed_list_item(records, index)
            self.add_object(item, index)
            index += 1
        if index > 1 and list_size(records) == index and begins_with_zero(<object>borrowed_list_item(records, 0)):
            refuse_counted_rows(records)
        return self.close()

    cdef void forget(self) noexcept:
        """Begin again, in the same memory; what a rare large batch needed is given back."""
        if self.result.content.capacity > KEPT_BYTES:
            sgs_buffer_deinit(&self.result.content)
        if self.builder.section.capacity > KEPT_BYTES:
            sgs_buffer_deinit(&self.builder.section)
        sgs_buffer_clear(&self.result.content)
        sgs_buffer_clear(&self.result.row_bytes)
        self.result.records_count = 0
        self.is_started = False

    cdef EncodedBatches give_away(self):
        """What was written, to somebody who keeps it."""
        cdef EncodedBatches given = self.result
        self.result = EncodedBatches.__new__(EncodedBatches)
        self.choose_target()
        return given

    cdef int make_room(self, int64_t bound) except -1:
        """Room for a record of at most *bound* bytes, and, for the first of a list, for others like it."""
        cdef sgs_error err
        cdef int64_t room = bound
        if self.builder.records_count == 0 and self.expected_count > 1 and bound <= FIRST_ROOM_BYTES:
            room = min(bound * min(self.expected_count, <Py_ssize_t>FIRST_ROOM_BYTES), FIRST_ROOM_BYTES)
        check(sgs_buffer_reserve(self.target, <size_t>room, &err), &err)
        return 0

    cdef inline int64_t batch_bytes(self) noexcept:
        """Size of the batch at hand without compression."""
        cdef int64_t size = <int64_t>(self.target.size - self.start)
        return size if self.options.codec == SGS_CODEC_NONE else size + SGS_BATCH_HEADER_BYTES

    cdef inline int add(self, int64_t timestamp, sgs_bytes key, sgs_bytes value, const sgs_record_header *headers,
                        int32_t headers_count) except -1:
        """One record into the batch at hand, or into a new one when that would grow too large."""
        cdef sgs_batch_builder *builder = &self.builder
        cdef sgs_error err
        cdef int64_t bound = RECORD_MAX_OVERHEAD_BYTES + <int64_t>max(key.size, 0) + max(value.size, 0)
        cdef uint8_t *start
        cdef int32_t i
        if timestamp < -1:
            raise IllegalArgumentError("a timestamp is below -1", found=str(timestamp), expected="-1 (none) or more")
        for i in range(headers_count):
            bound += HEADER_MAX_OVERHEAD_BYTES + <int64_t>headers[i].key.size + max(headers[i].value.size, 0)
        if self.is_started and self.batch_bytes() + bound > self.max_batch_bytes:
            if self.batch_bytes() + sgs_record_size(
                timestamp - builder.base_timestamp, builder.records_count, key, value, headers, headers_count
            ) > self.max_batch_bytes:
                self.end()
        if not self.is_started:
            self.begin()
        if self.batch_bytes() + bound > INT32_MAX:
            raise IllegalArgumentError(
                "a record is too large for a batch", found=f"about {bound} bytes", expected=f"below {INT32_MAX} bytes"
            )
        if self.target.capacity - self.target.size < <size_t>bound:
            self.make_room(bound)
        if builder.records_count == 0 and self.options.delete_horizon_ms == -1:
            builder.base_timestamp = timestamp
        start = self.target.data + self.target.size
        self.target.size += <size_t>(
            sgs_record_write(
                start, timestamp - builder.base_timestamp, builder.records_count, key, value, headers, headers_count
            ) - start
        )
        if timestamp > builder.max_timestamp:
            builder.max_timestamp = timestamp
        builder.last_offset += 1
        builder.records_count += 1
        return 0

    cdef int add_object(self, object item, Py_ssize_t index) except -1:
        """A tuple or a Record; the caller keeps *item* alive."""
        cdef int64_t timestamp = self.default_timestamp
        cdef PyObject *key_object
        cdef PyObject *value_object
        cdef sgs_bytes key, value
        cdef Py_ssize_t first, size
        if is_tuple(item):
            if not PyTuple_CheckExact(item) and type(item) is not self.row_type:
                check_row_type(type(item), index)
                self.row_type = type(item)
            size = tuple_size(item)
            if size == 2:
                first = 0
            elif size == 3:
                first = 1
                if borrowed_tuple_item(item, 0) != Py_None:
                    timestamp = timestamp_of(<object>borrowed_tuple_item(item, 0), timestamp, index)
            else:
                raise no_record(item, index)
            key_object = borrowed_tuple_item(item, first)
            value_object = borrowed_tuple_item(item, first + 1)
            if borrow_bytes(key_object, &key) and borrow_bytes(value_object, &value):
                return self.add(timestamp, key, value, NULL, 0)
            return self.add_buffers(timestamp, <object>key_object, <object>value_object, index)
        if type(item) is Record:
            return self.add_record(<Record>item, index)
        raise no_record(item, index)

    cdef int add_buffers(self, int64_t timestamp, object key_object, object value_object, Py_ssize_t index) except -1:
        """Key and value of other types than bytes."""
        cdef Py_buffer key_view, value_view
        cdef sgs_bytes key, value
        get_buffer(key_object, &key_view, &key, index, "key")
        try:
            get_buffer(value_object, &value_view, &value, index, "value")
            try:
                self.add(timestamp, key, value, NULL, 0)
            finally:
                PyBuffer_Release(&value_view)
        finally:
            PyBuffer_Release(&key_view)
        return 0

    cdef int add_record(self, Record record, Py_ssize_t index) except -1:
        cdef sgs_bytes key, value
        cdef tuple headers = record.headers
        cdef int32_t count = <int32_t>len(headers)
        cdef sgs_error err
        cdef sgs_record_header *header
        cdef Py_ssize_t size
        cdef int32_t i
        cdef int64_t timestamp = record.timestamp_ms if record.has_timestamp else self.default_timestamp
        if not (borrow_bytes(<PyObject *>record.key, &key) and borrow_bytes(<PyObject *>record.value, &value)):
            return self.add_buffers(timestamp, record.key, record.value, index)  # says what is too large
        if count == 0:
            return self.add(timestamp, key, value, NULL, 0)
        sgs_buffer_clear(&self.headers)
        check(sgs_buffer_reserve(&self.headers, <size_t>count * sizeof(sgs_record_header), &err), &err)
        header = <sgs_record_header *>self.headers.data
        for i in range(count):  # the record keeps its headers, they keep their bytes
            name, content = headers[i]
            try:
                header[i].key.data = <const uint8_t *>text_bytes(name, &size)
            except UnicodeEncodeError:
                raise RecordTypeError(
                    f"record {index}: the key of header {i} has no UTF-8 form", found=ascii(name), expected="text"
                ) from None
            header[i].key.size = <int32_t>size
            if size > INT32_MAX or not borrow_bytes(<PyObject *>content, &header[i].value):
                raise IllegalArgumentError(
                    f"record {index}: header {i} is too large", found="more", expected=f"at most {INT32_MAX} bytes"
                )
        return self.add(timestamp, key, value, header, count)


cdef inline bint borrow_bytes(PyObject *source, sgs_bytes *out) noexcept:
    """Point to the content of bytes or None; False for everything else, and for what no record can hold."""
    cdef Py_ssize_t size
    if source == Py_None:
        out.data = NULL
        out.size = -1
        return True
    if not is_bytes(source):
        return False
    size = bytes_size(source)
    if size > INT32_MAX:
        return False
    out.data = <const uint8_t *>bytes_start(source)
    out.size = <int32_t>size
    return True


cdef int get_buffer(object source, Py_buffer *view, sgs_bytes *out, Py_ssize_t index, str what) except -1:
    """As borrow_bytes, for anything with a buffer; *view* must be released, whatever *source* was."""
    if source is None:
        memset(view, 0, sizeof(view[0]))  # releasing it does nothing
        out.data = NULL
        out.size = -1
        return 0
    try:
        if is_word(source):
            raise TypeError
        PyObject_GetBuffer(source, view, PyBUF_SIMPLE)
    except (TypeError, BufferError) as error:
        hint = ": encode it to bytes first" if isinstance(source, str) else ""
        raise RecordTypeError(
            f"record {index}: the {what} is {type(source).__name__}{hint}",
            found=type(source).__name__,
            expected="a bytes-like object or None",
        ) from error
    if view.len > INT32_MAX:
        size = view.len
        PyBuffer_Release(view)
        raise IllegalArgumentError(
            f"record {index}: the {what} is too large", found=f"{size} bytes", expected=f"at most {INT32_MAX} bytes"
        )
    out.data = <const uint8_t *>view.buf
    out.size = <int32_t>view.len
    return 0


cdef inline bint begins_with_zero(object row) noexcept:
    """Whether the rows may be counted by their timestamps; for the price of a look at the first one."""
    return is_tuple(row) and tuple_size(row) == 3 and borrowed_tuple_item(row, 0) == <PyObject *>ZERO


cdef inline int64_t timestamp_of(object value, int64_t default_timestamp, Py_ssize_t index) except? -2:
    if not PyLong_CheckExact(value):
        value = record_timestamp(value, default_timestamp, f"record {index}: ")
    try:
        return value
    except OverflowError:
        raise IllegalArgumentError(
            f"record {index}: the timestamp does not fit 64 bits", found=str(value)[:40], expected="an int64"
        ) from None
