# raw_records.pxi - the records of one batch as Kafka's own iterators give them (csrc/record/record_iterator.h)

class RawRecord(NamedTuple):
    offset: int
    timestamp: int
    sequence: int
    key: bytes
    value: bytes
    headers: tuple
    size: int
    crc: int = None
    is_valid: bool = None


cdef dict ITERATIONS = {
    "streaming": SGS_ITERATE_STREAMING,
    "whole": SGS_ITERATE_WHOLE,
    "skip_key_value": SGS_ITERATE_SKIP_KEY_VALUE,
}


@cython.final
@cython.no_gc  # the collector would clear the buffer's owner, e.g. a memoryview, while the buffer is still held
cdef class _HeldBuffer:
    """Bytes of another object, which stay where they are until this goes."""

    cdef Py_buffer view

    def __cinit__(self, data):
        PyObject_GetBuffer(data, &self.view, PyBUF_SIMPLE)

    def __dealloc__(self):
        PyBuffer_Release(&self.view)


@cython.final
@cython.no_gc_clear
cdef class _RawRecordIterator:
    cdef _HeldBuffer source
    cdef CodecTable codecs
    cdef sgs_buffer scratch
    cdef sgs_buffer kept  # a compressed batch of bytes that may change
    cdef sgs_record_iterator iterator
    cdef object broken  # the exception that ends the iteration early, when the stream broke in its middle

    def __cinit__(self, data, CodecTable codecs not None, sgs_iteration kind, bint check_crc):
        cdef const uint8_t *start
        cdef size_t size
        cdef sgs_error err
        cdef sgs_status status
        cdef bint may_change = not never_changes(data)
        sgs_buffer_init(&self.scratch, memory)
        sgs_buffer_init(&self.kept, memory)
        self.source = _HeldBuffer(data)
        self.codecs = codecs
        start = <const uint8_t *>self.source.view.buf
        size = <size_t>self.source.view.len
        with nogil:
            status = settle(&start, size, &self.kept, &err) if may_change else SGS_OK
            if status == SGS_OK and check_crc:
                status = sgs_batch_check(start, size, 0, &err)
            if status == SGS_OK:
                status = sgs_record_iterator_open(
                    start, size, kind, &codecs.table, &self.scratch, &self.iterator, &err
                )
        if self.iterator.break_.status != SGS_OK:
            try:  # first of all: it may be an exception that is pending
                check(self.iterator.break_.status, &self.iterator.break_)
            except Exception as error:
                self.broken = error
        if status == SGS_CALLBACK and self.broken is not None:
            raise self.broken
        check(status, &err)

    def __dealloc__(self):
        sgs_buffer_deinit(&self.scratch)
        sgs_buffer_deinit(&self.kept)

    def __iter__(self):
        return self

    def __next__(self):
        cdef sgs_iterated_record found
        cdef c_bool has_found = False
        cdef sgs_error err
        cdef sgs_status status = sgs_record_iterator_next(&self.iterator, &found, &has_found, &err)
        if status == SGS_CALLBACK:
            raise self.broken
        check(status, &err)
        if not has_found:
            raise StopIteration
        cdef bint is_legacy = self.iterator.batch.magic < 2
        cdef object record = new_instance(<PyTypeObject *>RawRecord, 9)
        put(record, 0, found.record.offset)
        put(record, 1, found.record.timestamp)
        put(record, 2, found.record.sequence)
        put(record, 3, bytes_or_none(found.record.key))
        put(record, 4, bytes_or_none(found.record.value))
        put(record, 5, headers_of(found.record.headers, found.record.headers_count, True))
        put(record, 6, found.record.size_bytes)
        put(record, 7, found.message.crc if is_legacy else None)
        put(record, 8, sgs_legacy_message_is_valid(&found.message) if is_legacy else None)
        return record


def base_offset_of(batch, CodecTable codecs not None):
    """First offset of a batch; that of a compressed message set is known only after it is opened."""
    cdef _RawRecordIterator opened = _RawRecordIterator(batch, codecs, SGS_ITERATE_STREAMING, False)
    cdef int64_t offset = 0
    cdef sgs_error err
    check(sgs_record_iterator_base_offset(&opened.iterator, &offset, &err), &err)
    return offset


def iterate_raw_records(batch, CodecTable codecs not None, *, bint check_crc=False, iteration="streaming"):
    """Records of one batch as Kafka's iterators give them, control records included."""
    names = ", ".join(ITERATIONS)
    if not isinstance(iteration, str):
        kind = type(iteration).__name__
        raise ArgumentTypeError(f"iteration must be one of {names}, not {kind}", found=kind, expected=names)
    if iteration not in ITERATIONS:
        raise IllegalArgumentError(
            f"iteration must be one of {names}, not {iteration[:80]!r}", found=repr(iteration[:80]), expected=names
        )
    return _RawRecordIterator(batch, codecs, ITERATIONS[iteration], check_crc)
