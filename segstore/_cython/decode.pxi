# decode.pxi - records out of whole batches, lazily or as lists (csrc/record/record_section.h, record.h)

@cython.final
@cython.no_gc  # the collector would clear the buffer's owner, e.g. a memoryview, while the buffer is still held
cdef class _BatchReader:
    """Walks the batches of a buffer and opens those that have records in range."""

    cdef Py_buffer view
    cdef CodecTable codecs
    cdef AbortedTransactions aborted  # keeps the table below
    cdef sgs_aborted_transactions left_out
    cdef sgs_scan_options scan_options
    cdef sgs_batch_scan scan
    cdef sgs_buffer scratch
    cdef sgs_buffer kept  # a compressed batch of bytes that may change
    cdef sgs_record_reader reader
    cdef int64_t position  # of the next batch
    cdef int64_t opened_position  # of the open batch
    cdef int64_t start_offset
    cdef int64_t end_offset
    cdef int64_t next_offset  # of the open batch: records below it are not shown
    cdef bint check_crc
    cdef bint control
    cdef bint may_change
    cdef bint is_busy

    def __cinit__(self, data, CodecTable codecs not None, int64_t start_offset, int64_t end_offset, bint check_crc,
                  bint control, AbortedTransactions aborted=None):
        sgs_buffer_init(&self.scratch, memory)
        sgs_buffer_init(&self.kept, memory)
        PyObject_GetBuffer(data, &self.view, PyBUF_SIMPLE)
        self.may_change = not never_changes(data)
        self.codecs = codecs
        self.aborted = aborted
        self.left_out = aborted_table(aborted)
        self.start_offset = start_offset
        self.end_offset = end_offset
        self.check_crc = check_crc
        self.control = control
        memset(&self.reader, 0, sizeof(self.reader))
        sgs_scan_options_default(&self.scan_options, SGS_SCAN_MEMORY)
        self.scan_options.check_crc = False  # only batches that are opened are checked
        self.scan_options.max_batches = 1

    def __dealloc__(self):
        PyBuffer_Release(&self.view)
        sgs_buffer_deinit(&self.scratch)
        sgs_buffer_deinit(&self.kept)

    cdef bint open_next(self) except -1:
        """Open the next batch in range; False at the end, or where the rest is no whole batch."""
        cdef c_bool found = False
        cdef sgs_error err
        cdef sgs_status status
        if self.is_busy:
            raise IllegalStateError("the iterator is used by two threads at once")
        self.is_busy = True
        with nogil:
            status = self.find_next(&found, &err)
        self.is_busy = False
        check(status, &err)
        return found

    cdef sgs_status find_next(self, c_bool *found, sgs_error *err) noexcept nogil:
        cdef const uint8_t *start
        cdef sgs_batch_header header
        cdef size_t needed, size
        cdef sgs_status status
        while True:
            start = <const uint8_t *>self.view.buf + self.position
            size = <size_t>(self.view.len - self.position)
            sgs_batch_scan_start(&self.scan, &self.scan_options, self.position)
            status = sgs_batch_scan_feed(&self.scan, start, size, self.view.len, NULL, &needed, err)
            if status != SGS_OK:
                return status
            if self.scan.result.batches_count == 0:
                if self.scan.result.stop != SGS_SCAN_CORRUPT:
                    return SGS_OK
                err[0] = self.scan.result.why
                return err.status
            status = sgs_batch_header_load(start, size, self.position, &header, err)
            if status != SGS_OK:
                return status
            size = <size_t>(self.scan.result.valid_bytes - self.position)
            self.position = self.scan.result.valid_bytes  # also behind a batch that cannot be opened [DUR-92]
            if sgs_batch_lies_below(&header, self.start_offset) or (
                self.end_offset != INT64_MAX and sgs_batch_least_offset(&header) >= self.end_offset  # else no bound
            ):
                continue
            if (not self.control and sgs_batch_is_control(&header)) or sgs_aborted_transactions_contain(
                &self.left_out, &header
            ):
                if self.check_crc and sgs_record_section_check_crc(&header, start, err) != SGS_OK:
                    return failed_at(err, start - <const uint8_t *>self.view.buf)
                continue
            found[0] = True
            self.next_offset = self.start_offset
            self.opened_position = start - <const uint8_t *>self.view.buf
            if self.may_change:
                status = settle(&start, size, &self.kept, err)
                if status != SGS_OK:
                    return failed_at(err, self.opened_position)
            status = sgs_record_section_open(
                start, size, self.check_crc, &self.codecs.table, &self.scratch, &self.reader, err
            )
            return SGS_OK if status == SGS_OK else failed_at(err, self.opened_position)

    cdef inline bint next_raw_record(self, sgs_record *record) except -1:
        """The next record of the open batch, whatever its offset; False when there is none."""
        cdef c_bool found = False
        cdef sgs_error err
        cdef sgs_status status = sgs_record_reader_next(&self.reader, record, &found, &err)
        if status != SGS_OK:
            self.reader.remaining_count = 0  # the batch is over; the next one may be good
            check(failed_at(&err, self.opened_position), &err)
        return found

    cdef inline bint next_record(self, sgs_record *record) except -1:
        """The next record in range of the open batch; False when there is none."""
        while True:
            if not self.next_raw_record(record):
                return False
            # brokers accept uncompressed batches whose offsets do not ascend; consumers leave out what comes too late
            if self.next_offset <= record.offset < self.end_offset:
                self.next_offset = record.offset + 1
                return True


@cython.final
cdef class _RecordIterator:
    cdef _BatchReader batches
    cdef str topic
    cdef int32_t partition

    def __iter__(self):
        return self

    def __next__(self):
        cdef sgs_record record
        if self.batches.is_busy:
            raise IllegalStateError("the iterator is used by two threads at once")
        while not self.batches.next_record(&record):
            if not self.batches.open_next():
                raise StopIteration
        return record_of(&record, &self.batches.reader.batch, self.topic, self.partition)


def iterate_records(data, CodecTable codecs not None, *, int64_t start_offset=0, int64_t end_offset=INT64_MAX,
                    bint check_crc=True, bint control=False, str topic not None="", int32_t partition=-1,
                    AbortedTransactions aborted=None):
    """Records of whole batches, lazily."""
    cdef _RecordIterator iterator = _RecordIterator.__new__(_RecordIterator)
    iterator.batches = _BatchReader(data, codecs, start_offset, end_offset, check_crc, control, aborted)
    iterator.topic = topic
    iterator.partition = partition
    return iterator


cdef PyObject *tuple_of(const sgs_record *record) except NULL:
    """(offset, timestamp, key, value): a new reference."""
    cdef PyObject *row = new_tuple(4)
    cdef PyObject *offset
    cdef PyObject *timestamp
    cdef PyObject *key
    cdef PyObject *value
    if row == NULL:
        raise MemoryError
    offset = new_integer(record.offset)
    timestamp = new_integer(record.timestamp)
    key = new_bytes_or_none(record.key)
    value = new_bytes_or_none(record.value)
    set_tuple_item(row, 0, offset)
    set_tuple_item(row, 1, timestamp)
    set_tuple_item(row, 2, key)
    set_tuple_item(row, 3, value)
    if offset == NULL or timestamp == NULL or key == NULL or value == NULL:
        Py_DECREF(row)
        raise MemoryError
    PyObject_GC_UnTrack(row)  # numbers and bytes form no cycles: millions of rows cost the collector nothing
    return row


def decode_tuples(data, CodecTable codecs not None, *, int64_t start_offset=0, int64_t end_offset=INT64_MAX,
                  bint check_crc=True, AbortedTransactions aborted=None):
    """(offset, timestamp, key, value) of all data records, in one pass."""
    cdef _BatchReader batches = _BatchReader(data, codecs, start_offset, end_offset, check_crc, False, aborted)
    cdef list rows = []
    cdef sgs_record record
    cdef PyObject *row
    while batches.open_next():
        while batches.next_record(&record):
            row = tuple_of(&record)
            try:
                append_to_list(rows, row)
            finally:
                Py_DECREF(row)
    return rows


def decode_values(data, CodecTable codecs not None, *, int64_t start_offset=0, int64_t end_offset=INT64_MAX,
                  bint check_crc=True, AbortedTransactions aborted=None):
    """The values of all data records, in one pass."""
    cdef _BatchReader batches = _BatchReader(data, codecs, start_offset, end_offset, check_crc, False, aborted)
    cdef list values = []
    cdef sgs_record record
    cdef PyObject *value
    while batches.open_next():
        while batches.next_record(&record):
            value = new_bytes_or_none(record.value)
            if value == NULL:
                raise MemoryError
            try:
                append_to_list(values, value)
            finally:
                Py_DECREF(value)
    return values
