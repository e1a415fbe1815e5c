# segment.pxi - one segment: .log, its indexes and its counters (csrc/segment/log_segment.h)

cdef tuple SUFFIXES = ("", ".deleted", ".cleaned", ".swap")  # in the order of sgs_segment_suffix


cdef sgs_segment_suffix suffix_of(str suffix) except *:
    if suffix not in SUFFIXES:
        raise IllegalArgumentError(f"no suffix {suffix!r}", found=repr(suffix), expected=", ".join(map(repr, SUFFIXES)))
    return <sgs_segment_suffix>(<int>SUFFIXES.index(suffix))


@cython.no_gc
cdef class LogSegment(_SegmentRecovery):
    """One segment of a partition; the log floor has a subclass of it."""

    cdef c_bool is_poisoned
    cdef c_bool takes_appends  # keeps its files open
    cdef c_bool is_listed  # the list of open_segments.pxi
    cdef c_bool is_being_released  # the same: whoever comes waits
    cdef c_bool holds_directory  # one that is closed meanwhile keeps its descriptor until this segment is closed too
    cdef uint8_t suffix_number
    cdef void *newer
    cdef void *older

    def __cinit__(self, SegmentContext context not None, int64_t base_offset, int32_t listed_size=-1, *,
                  bint create=False, str suffix not None=""):
        cdef sgs_segment_suffix kind
        cdef sgs_error err
        cdef sgs_status status
        self.context = context
        self.base_offset = base_offset
        context.directory.enter()
        self.holds_directory = True
        if listed_size >= 0:
            self.listed_size = listed_size
            self.listed_ms = context.context.env.wall_clock_ms(context.context.env)
            self.is_closed = False
            return
        kind = suffix_of(suffix)
        self.suffix_number = <uint8_t>kind
        with nogil:
            status = sgs_log_segment_open(&context.context, base_offset, kind, create, &self.segment, &err)
        check(status, &err, context.directory.path)
        self.takes_appends = create
        self.is_closed = False

    def __dealloc__(self):
        self.release()

    cdef void release(self) noexcept:
        cdef sgs_log_segment *segment = self.segment
        self.segment = NULL
        forget_use(self)
        if segment != NULL:
            with nogil:  # a close may wait for a sync
                sgs_log_segment_close_quietly(segment)
        self.leave_directory()

    cdef void leave_directory(self) noexcept:
        if self.holds_directory:
            self.holds_directory = False
            self.context.directory.leave()

    cdef int enter(self) except -1:
        self.require_open()
        if newest_segment == <void *>self or self.takes_appends:
            self.callers += 1
            return 0
        if self.is_being_released:
            wait_for_release(self)
            self.require_open()  # it may have been closed meanwhile
        self.callers += 1  # before others have to go, for which the GIL is let go of
        note_use(self)
        return 0

    cdef int enter_to_append(self) except -1:
        wait_for_release(self)
        self.takes_appends = True
        forget_use(self)
        return self.enter()

    def append(self, batches, headers):
        """Write whole batches with one call and move both indexes [SEG-5]."""
        cdef size_t rows_count = 0
        cdef const sgs_batch_header *rows = rows_of_array(headers, False, &rows_count)
        cdef c_bool poisoned = False
        cdef Py_buffer view
        cdef sgs_slice piece
        cdef sgs_error err
        cdef sgs_status status
        PyObject_GetBuffer(batches, &view, PyBUF_SIMPLE)
        try:
            piece.data = <const uint8_t *>view.buf
            piece.size = <size_t>view.len
            self.enter()
            try:
                with nogil:
                    status = sgs_log_segment_append(self.segment, &piece, 1, rows, rows_count, &poisoned, &err)
                if status != SGS_OK:
                    self.is_poisoned = self.is_poisoned or poisoned
                    self.check(status, &err)
            finally:
                self.leave()
        finally:
            PyBuffer_Release(&view)

    @property
    def poisoned(self):
        return bool(self.is_poisoned)

    def read(self, int64_t start_offset, int32_t max_size, int64_t max_position, bint min_one_message, *,
             int32_t start_position=0):
        """Bytes from the batch that holds *start_offset* on, or None; 0 = look the position up [SEG-19]."""
        cdef FetchedBytes result = FetchedBytes.__new__(FetchedBytes)
        cdef sgs_segment_read request
        cdef sgs_error err
        cdef sgs_status status
        request.start_offset = start_offset
        request.max_size = max_size
        request.max_position = max_position
        request.min_one_message = min_one_message
        request.start_position = start_position
        self.enter()
        try:
            with nogil:
                status = sgs_log_segment_read(self.segment, &request, &result.content, &result.fetch, &err)
            self.check(status, &err)
        finally:
            self.leave()
        return result if result.fetch.found else None

    def translate_offset(self, int64_t offset, int64_t max_position=INT64_MAX, *, int32_t start_position=0):
        """Where the batch with *offset* is, without its bytes; 0 = look the position up [SEG-18]."""
        cdef FetchedBytes result = FetchedBytes.__new__(FetchedBytes)
        cdef sgs_error err
        cdef sgs_status status
        self.enter()
        try:
            with nogil:
                status = sgs_log_segment_translate_offset(
                    self.segment, offset, start_position, max_position, &result.fetch, &err
                )
            self.check(status, &err)
        finally:
            self.leave()
        return result if result.fetch.found else None

    def read_next_offset(self):
        """(last offset + 1, whether the file ends with a whole batch) [SEG-22]."""
        cdef int64_t next_offset = 0
        cdef c_bool ends_clean = False
        cdef sgs_error err
        cdef sgs_status status
        self.enter()
        try:
            with nogil:
                status = sgs_log_segment_read_next_offset(self.segment, &next_offset, &ends_clean, &err)
            self.check(status, &err)
        finally:
            self.leave()
        return next_offset, bool(ends_clean)

    def find_offset_by_timestamp(self, int64_t timestamp, int64_t starting_offset, int64_t max_position=-1):
        """The first record at or after both [SEG-23]; batches that end below *max_position* are damage [DUR-79]."""
        cdef sgs_found_timestamp found
        cdef sgs_error err
        cdef sgs_status status
        self.enter()
        try:
            with nogil:
                status = sgs_log_segment_find_offset_by_timestamp(
                    self.segment, timestamp, starting_offset, max_position, &found, &err
                )
            self.check(status, &err)
        finally:
            self.leave()
        return timestamp_and_offset(&found)

    def find_max_timestamp(self):
        """The first record with the largest timestamp [TS-3]."""
        cdef sgs_found_timestamp found
        cdef sgs_error err
        cdef sgs_status status
        self.enter()
        try:
            with nogil:
                status = sgs_log_segment_find_max_timestamp(self.segment, &found, &err)
            self.check(status, &err)
        finally:
            self.leave()
        return timestamp_and_offset(&found)

    def truncate_to(self, int64_t offset):
        """Drop the batch that holds *offset* and all behind it; returns the bytes cut [SEG-24]."""
        cdef int32_t bytes_cut = 0
        cdef sgs_error err
        cdef sgs_status status
        self.enter_to_append()
        try:
            with nogil:
                status = sgs_log_segment_truncate_to(self.segment, offset, &bytes_cut, &err)
            self.check(status, &err)
        finally:
            self.leave()
        return bytes_cut

    def on_become_inactive(self):
        """Seal: last time-index entry, trimmed files [SEG-50]."""
        cdef sgs_error err
        cdef sgs_status status
        self.enter()
        try:
            with nogil:
                status = sgs_log_segment_on_become_inactive(self.segment, &err)
            self.check(status, &err)
            self.takes_appends = False
            note_use(self)
        finally:
            self.leave()

    def prepare_for_appends(self):
        """Indexes back to their full size, after an open [LDR-8]."""
        cdef sgs_error err
        cdef sgs_status status
        self.enter_to_append()
        try:
            with nogil:
                status = sgs_log_segment_prepare_for_appends(self.segment, &err)
            self.check(status, &err)
        finally:
            self.leave()

    def flush(self, barrier, *, bint indexes=False):
        """The .log, and the indexes when asked, to stable storage [SEG-53]."""
        cdef sgs_barrier promise = barrier_of(barrier)
        cdef sgs_error err
        cdef sgs_status status
        self.enter()
        try:
            with nogil:
                status = sgs_log_segment_flush(self.segment, indexes, promise, &err)
                self.note_sync(status)
            self.check(status, &err)
        finally:
            self.leave()

    cdef inline void note_sync(self, sgs_status status) noexcept nogil:
        """Mark the directory when a sync failed, before a signal or want of memory keeps that from being told.

        But for a file that no log has yet. Source: [DUR-35].
        """
        if status == SGS_FSYNC_FAILED and self.suffix_number != SGS_SUFFIX_CLEANED:
            self.context.directory.sync_failed = True

    def close(self):
        """Seal what is open for writing, sync and close; twice is harmless [SEG-51]."""
        self.close_now()

    cdef int close_now(self) except -1:
        """Whoever is still reading keeps the descriptors until the last one leaves.

        What is written is written here, under the lock of the caller.
        """
        cdef sgs_log_segment *segment
        cdef sgs_error err
        cdef sgs_error second
        cdef sgs_status status = SGS_OK
        cdef sgs_status flushed
        if self.process != current_process:
            self.require_open()
        wait_for_release(self)
        if self.is_closed:
            return 0
        self.is_closed = True
        forget_use(self)
        if self.segment == NULL:  # it was never used
            self.leave_directory()
            return 0
        if self.callers == 0:
            segment = self.segment
            self.segment = NULL
            with nogil:
                status = sgs_log_segment_close(segment, &err)
            self.leave_directory()
            self.check(status, &err)
            return 0
        self.callers += 1
        try:
            if self.context.context.writable:
                with nogil:
                    status = sgs_log_segment_on_become_inactive(self.segment, &err)
                    flushed = sgs_log_segment_flush(self.segment, True, SGS_BARRIER_CLOSED_RECORDS, &second)
                    if status == SGS_OK and flushed != SGS_OK:
                        status = flushed
                        err = second
                self.check(status, &err)
        finally:
            self.leave()

    def close_quietly(self):
        """Close, write nothing."""
        if not self.is_closed:
            self.mark_closed()

    def give_up_indexes(self):
        """Unlink both indexes, for the room that they take; False while somebody needs them."""
        cdef sgs_error err
        cdef sgs_status status
        self.enter()
        try:
            if self.callers > 1 or self.takes_appends:
                return False
            forget_use(self)
            self.is_being_released = True
            with nogil:
                status = sgs_log_segment_give_up_indexes(self.segment, &err)
            self.is_being_released = False
        finally:
            self.leave()
        return status == SGS_OK

    @property
    def suffix(self):
        return SUFFIXES[self.suffix_number]

    def change_suffix(self, str suffix not None):
        """Rename the files [SEG-54]."""
        cdef sgs_segment_suffix kind = suffix_of(suffix)
        cdef sgs_error err
        cdef sgs_status status
        self.enter()
        try:
            with nogil:
                status = sgs_log_segment_change_suffix(self.segment, kind, &err)
            self.check(status, &err)
            self.suffix_number = <uint8_t>kind
        finally:
            self.leave()

    def delete_files(self):
        """Unlink the files; readers that are inside go on [SEG-56]."""
        cdef sgs_error err
        cdef sgs_status status
        self.enter()
        try:
            with nogil:
                status = sgs_log_segment_delete_files(self.segment, &err)
            self.check(status, &err)
        finally:
            self.leave()
