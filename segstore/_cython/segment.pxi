# segment.pxi - one segment: .log, its indexes and its counters (csrc/segment/)

cdef tuple SUFFIXES = ("", ".deleted", ".cleaned", ".swap")  # in the order of sgs_segment_suffix


cdef sgs_segment_suffix suffix_of(str suffix) except *:
    if suffix not in SUFFIXES:
        raise IllegalArgumentError(f"no suffix {suffix!r}", found=repr(suffix), expected=", ".join(map(repr, SUFFIXES)))
    return <sgs_segment_suffix>(<int>SUFFIXES.index(suffix))


cdef inline object named(object kind, tuple values):
    """A named tuple without its Python constructor."""
    cdef tuple arguments = (values,)
    return (<PyTypeObject *>tuple).tp_new(<type>kind, <PyObject *>arguments, NULL)


cdef object timestamp_and_offset(const sgs_found_timestamp *found):
    if not found.found:
        return None
    leader_epoch = found.leader_epoch if found.leader_epoch >= 0 else None
    return named(FileTimestampAndOffset, (found.timestamp, found.offset, leader_epoch))


class SegmentSlice(NamedTuple):
    segment: object
    base_offset: int
    position: int
    size_bytes: int
    first_entry_incomplete: bool
    first_batch_size: int
    first_batch_magic: int


class Recovery(NamedTuple):
    scan: ScanResult
    truncated_bytes: int


class RecoveredBatches(NamedTuple):
    taken: int
    last_indexed_position: int
    error: object


cdef uint32_t segments_made = 0  # by this process; guarded by the GIL


@cython.no_gc  # it holds a context and nothing that could lead back to it; there may be very many
cdef class LogSegment(_Handle):
    """One segment of a partition; base of ``Segment``.

    The core opens a segment at its first use: most segments of a large log are never used.
    """

    cdef sgs_log_segment *segment  # NULL before that
    cdef SegmentContext context
    cdef readonly int64_t base_offset
    cdef int64_t listed_ms  # when its size was looked up
    cdef int32_t listed_size
    cdef public uint32_t serial_number  # for memories that must not keep the segment; in what was padding
    cdef c_bool is_poisoned
    cdef public c_bool is_cleaned  # made in the place of others, and sealed since
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
        global segments_made
        self.serial_number = segments_made
        segments_made += 1
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
        self.is_cleaned = kind == SGS_SUFFIX_CLEANED
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
        self.is_cleaned = False
        self.takes_appends = True
        forget_use(self)
        return self.enter()

    def append(self, batches, headers):
        """Write whole batches with one call and update both indexes [SEG-5]."""
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
        """Bytes from the batch with *start_offset* on, or None; *start_position* 0 = look it up [SEG-19]."""
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
        """The position of the batch with *offset*, or None; *start_position* 0 = look it up [SEG-18]."""
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
        """One more than the last offset, and whether the file ends with a whole batch [SEG-22]."""
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
        """Remove the batch with *offset* and all after it; returns the bytes cut [SEG-24]."""
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
        """Seal the segment: write the last time-index entry, trim the files [SEG-50]."""
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
        """Extend the indexes to their full size, after an open [LDR-8]."""
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
        """Make the .log durable, and the indexes on request [SEG-53]."""
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
        """Seal, sync and close; a second call does nothing [SEG-51]."""
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
        """Close and write nothing."""
        if not self.is_closed:
            self.mark_closed()

    def give_up_indexes(self):
        """Unlink both indexes to free space; False while they are in use."""
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
        """Unlink the files; readers that use them go on [SEG-56]."""
        cdef sgs_error err
        cdef sgs_status status
        self.enter()
        try:
            with nogil:
                status = sgs_log_segment_delete_files(self.segment, &err)
            self.check(status, &err)
        finally:
            self.leave()

    cdef int require_open(self) except -1:
        cdef sgs_error err
        _Handle.require_open(self)
        if self.segment == NULL:
            self.check(
                sgs_log_segment_open_sized(
                    &self.context.context, self.base_offset, self.listed_size, self.listed_ms, &self.segment, &err
                ),
                &err,
            )
        return 0

    cdef int32_t size_now(self) except -1:
        _Handle.require_open(self)
        return self.listed_size if self.segment == NULL else sgs_log_segment_size(self.segment)

    cdef int check(self, sgs_status status, sgs_error *err) except -1:
        return check(status, err, self.context.directory.path)

    @property
    def closed(self):
        return bool(self.is_closed)

    @property
    def directory_path(self):
        return self.context.directory.path

    @property
    def size_bytes(self):
        return self.size_now()

    @property
    def unflushed_records(self):
        self.require_open()
        return sgs_log_segment_unflushed_records(self.segment)

    @property
    def created_ms(self):
        self.require_open()
        return sgs_log_segment_created_ms(self.segment)

    @property
    def index_damaged(self):
        """Whether a lookup met, and bypassed, a damaged index entry [DUR-53]."""
        self.require_open()
        return bool(sgs_log_segment_index_damaged(self.segment))

    def indexes_full(self):
        """Whether an index has no room for another entry."""
        cdef c_bool full = False
        cdef sgs_error err
        cdef sgs_status status
        self.enter()
        try:
            with nogil:
                status = sgs_log_segment_indexes_full(self.segment, &full, &err)
            self.check(status, &err)
        finally:
            self.leave()
        return bool(full)

    def first_batch_timestamp(self):
        """Largest timestamp of the first batch, -1 when there is none."""
        cdef int64_t timestamp = 0
        cdef sgs_error err
        cdef sgs_status status
        self.enter()
        try:
            with nogil:
                status = sgs_log_segment_first_batch_timestamp(self.segment, &timestamp, &err)
            self.check(status, &err)
        finally:
            self.leave()
        return timestamp

    def max_timestamp(self):
        """Largest timestamp so far, its offset, and whether damage may hide a later one [SEG-3, DUR-79]."""
        cdef sgs_timestamp_offset found
        cdef c_bool is_partial = False
        cdef sgs_error err
        cdef sgs_status status
        self.enter()
        try:
            with nogil:
                status = sgs_log_segment_max_timestamp(self.segment, &found, &is_partial, &err)
            self.check(status, &err)
        finally:
            self.leave()
        return LargestTimestamp(found.timestamp, found.offset, bool(is_partial))

    def modified_ms(self):
        """Time of the .log's last modification."""
        cdef int64_t modified_ms = 0
        cdef sgs_error err
        cdef sgs_status status
        self.enter()
        try:
            with nogil:
                status = sgs_log_segment_modified_ms(self.segment, &modified_ms, &err)
            self.check(status, &err)
        finally:
            self.leave()
        return modified_ms

    def offset_index_entries(self):
        """All entries of the offset index, for inspection."""
        cdef sgs_offset_index *index
        cdef sgs_error err
        cdef sgs_status status
        self.enter()
        try:
            with nogil:
                status = sgs_log_segment_offset_index(self.segment, &index, &err)
            self.check(status, &err)
            return offset_index_entries(index, self.context.directory.path)
        finally:
            self.leave()

    def time_index_entries(self):
        """All entries of the time index, for inspection."""
        cdef sgs_time_index *index
        cdef sgs_error err
        cdef sgs_status status
        self.enter()
        try:
            with nogil:
                status = sgs_log_segment_time_index(self.segment, &index, &err)
            self.check(status, &err)
            return time_index_entries(index, self.context.directory.path)
        finally:
            self.leave()

    def index_bytes(self):
        """Bytes of the entries of the offset index and of the time index; 0 where one cannot be loaded [CLN-68]."""
        cdef sgs_offset_index *offsets = NULL
        cdef sgs_time_index *times = NULL
        cdef uint32_t offset_entries = 0
        cdef uint32_t time_entries = 0
        cdef sgs_error err
        cdef sgs_status status
        self.enter()
        try:
            with nogil:
                status = sgs_log_segment_offset_index(self.segment, &offsets, &err)
                if status == SGS_OK:
                    offset_entries = sgs_abstract_index_entries(&offsets.base)
            let_pending_go_on(status)
            with nogil:
                status = sgs_log_segment_time_index(self.segment, &times, &err)
                if status == SGS_OK:
                    time_entries = sgs_abstract_index_entries(&times.base)
            let_pending_go_on(status)
        finally:
            self.leave()
        return (
            offset_entries * (offsets.base.entry_size if offsets != NULL else 0),
            time_entries * (times.base.entry_size if times != NULL else 0),
        )

    def offset_index_lookup(self, int64_t target):
        """The last entry at or below *target* [OFX-3]."""
        cdef sgs_offset_index *index
        cdef sgs_offset_position found
        cdef sgs_error err
        cdef sgs_status status
        self.enter()
        try:
            with nogil:
                status = sgs_log_segment_offset_index(self.segment, &index, &err)
                if status == SGS_OK:
                    status = sgs_offset_index_lookup(index, target, &found, &err)
            self.check(status, &err)
        finally:
            self.leave()
        return OffsetPosition(found.offset, found.position)

    def fetch_upper_bound_offset(self, int32_t position, int32_t fetch_size):
        """The offset of the first index entry after a fetch of that size, or None [OFX-6, LOC-9]."""
        cdef sgs_offset_index *index
        cdef sgs_offset_position start
        cdef sgs_offset_position entry
        cdef c_bool found = False
        cdef sgs_error err
        cdef sgs_status status
        start.offset = self.base_offset
        start.position = position
        self.enter()
        try:
            with nogil:
                status = sgs_log_segment_offset_index(self.segment, &index, &err)
                if status == SGS_OK:
                    status = sgs_offset_index_fetch_upper_bound_offset(index, start, fetch_size, &entry, &found, &err)
            self.check(status, &err)
        finally:
            self.leave()
        return entry.offset if found else None

    def time_index_lookup(self, int64_t timestamp):
        """The last entry at or below *timestamp* [TMX-3]."""
        cdef sgs_time_index *index
        cdef sgs_timestamp_offset found
        cdef sgs_error err
        cdef sgs_status status
        self.enter()
        try:
            with nogil:
                status = sgs_log_segment_time_index(self.segment, &index, &err)
                if status == SGS_OK:
                    status = sgs_time_index_lookup(index, timestamp, &found, &err)
            self.check(status, &err)
        finally:
            self.leave()
        return TimestampOffset(found.timestamp, found.offset)

    def search_for_timestamp(self, int64_t timestamp, int32_t start_position, int64_t starting_offset):
        """As `find_offset_by_timestamp`, from the batch at *start_position* on, without a lookup [SEG-23]."""
        cdef sgs_found_timestamp found
        cdef sgs_error err
        cdef sgs_status status
        self.enter()
        try:
            with nogil:
                status = sgs_log_segment_search_for_timestamp(
                    self.segment, timestamp, start_position, starting_offset, &found, &err
                )
            self.check(status, &err)
        finally:
            self.leave()
        return timestamp_and_offset(&found)

    def largest_timestamp_after(self, int32_t start_position):
        """The largest timestamp from the batch at *start_position* on, or (-1, -1) [SEG-24]."""
        cdef sgs_found_timestamp found
        cdef sgs_error err
        cdef sgs_status status
        self.enter()
        try:
            with nogil:
                status = sgs_log_segment_largest_timestamp_after(self.segment, start_position, &found, &err)
            self.check(status, &err)
        finally:
            self.leave()
        return timestamp_and_offset(&found)

    def slice(self, int64_t start_offset, int32_t max_size, int64_t max_position, bint min_one_message, *,
              int32_t start_position=0):
        """As `read`, with the bytes left in the file, or None [SEG-19]."""
        cdef sgs_segment_read request
        cdef sgs_segment_fetch fetch
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
                status = sgs_log_segment_slice(self.segment, &request, &fetch, &err)
            self.check(status, &err)
        finally:
            self.leave()
        if not fetch.found:
            return None
        return SegmentSlice(
            self,
            fetch.base_offset,
            fetch.position,
            fetch.size,
            bool(fetch.first_entry_incomplete),
            fetch.first_batch_size,
            fetch.first_batch_magic,
        )

    def write_to(self, int destination, int64_t position, int64_t size):
        """Send bytes to a descriptor in one step: the bytes taken, and whether it is full for now."""
        cdef sgs_transfer transfer
        cdef sgs_error err
        cdef sgs_status status
        if size <= 0:
            return 0, False
        self.enter()
        try:
            with nogil:
                status = sgs_file_records_write_to(
                    self.segment, position, <size_t>size, destination, &transfer, &err
                )
            self.check(status, &err)
        finally:
            self.leave()
        return transfer.sent, bool(transfer.would_block)

    def read_into(self, unsigned char[::1] buffer not None, int64_t position):
        """Fill *buffer* with the bytes from *position* on."""
        cdef uint8_t *start = &buffer[0] if buffer.shape[0] > 0 else NULL
        cdef size_t size = <size_t>buffer.shape[0]
        cdef sgs_error err
        cdef sgs_status status
        self.enter()
        try:
            with nogil:
                status = sgs_file_records_read_into(self.segment, position, start, size, &err)
            self.check(status, &err)
        finally:
            self.leave()

    cdef void start_options(self, sgs_scan_options *options, bint check_order, bint contiguous, bint check_epochs,
                            int64_t expected_offset, int64_t next_base_offset, int32_t previous_epoch) noexcept:
        """What a scan of this segment has in common with every other, and what is checked of the order."""
        sgs_scan_options_default(options, SGS_SCAN_FILE)
        options.kafka_limits = self.context.context.kafka_profile
        options.max_batch_bytes = self.context.context.max_batch_bytes
        options.segment_base_offset = self.base_offset
        options.check_order = check_order
        options.contiguous = contiguous
        options.check_epochs = check_epochs
        options.expected_offset = expected_offset
        options.next_segment_base_offset = next_base_offset
        options.previous_epoch = previous_epoch

    def scan_table(self, *, int64_t start_position=0, int64_t end_position=-1, bint check_crc=True,
                   bint check_order=False, bint contiguous=False, bint check_epochs=False, int64_t expected_offset=0,
                   int64_t next_segment_base_offset=INT64_MAX, int32_t previous_epoch=-1, bint table=True,
                   uint32_t max_batches=0xFFFFFFFF):
        """Check batches, with bounded memory; changes nothing. Without *table* the table is empty."""
        cdef sgs_scan_options options
        self.start_options(&options, check_order, contiguous, check_epochs, expected_offset, next_segment_base_offset,
                           previous_epoch)
        options.check_crc = check_crc
        options.max_batches = max_batches
        return self.scan_to_table(&options, start_position, end_position, table)

    def scan(self, **how):
        """The same; an array of the headers."""
        rows, result = self.scan_table(**how)
        return rows.array, result

    def scan_result(self, **how):
        """The same, without the headers."""
        return self.scan_table(table=False, **how)[1]

    def header_at(self, int64_t position):
        """The header of the batch at a position, whose CRC is right; None without one."""
        cdef sgs_scan_options options
        self.start_options(&options, False, False, False, 0, INT64_MAX, -1)
        options.check_crc = True
        options.max_batches = 1
        rows, _ = self.scan_to_table(&options, position, -1, True)
        return rows[0] if len(rows) else None

    cdef tuple scan_to_table(self, const sgs_scan_options *options, int64_t start_position, int64_t end_position,
                             bint table):
        cdef sgs_batch_table rows
        cdef sgs_scan_result result
        cdef sgs_error err
        cdef sgs_status status
        sgs_batch_table_init(&rows, memory)
        try:
            self.enter()
            try:
                with nogil:
                    status = sgs_log_segment_scan(
                        self.segment, options, start_position, end_position, &rows if table else NULL, &result, &err
                    )
                self.check(status, &err)
            finally:
                self.leave()
            headers = table_of_rows(sgs_batch_table_rows(&rows), sgs_batch_table_count(&rows))
        finally:
            sgs_batch_table_deinit(&rows)
        return headers, scan_result_of(&result, self.context.directory.path)

    def scan_transactions(self, *, int64_t start_position=0, int64_t end_position=-1, int64_t expected_offset=0,
                          int64_t data_from=0, uint32_t max_batches=0xFFFFFFFF):
        """The header rows of markers and transactional data, and what the markers end [TXX-1, DUR-7]."""
        cdef sgs_scan_options options
        cdef sgs_transaction_rows rows
        cdef sgs_scan_result result
        cdef sgs_error err
        cdef sgs_status status
        self.start_options(&options, True, False, False, expected_offset, INT64_MAX, -1)
        options.max_batches = max_batches
        sgs_transaction_rows_init(&rows, memory)
        try:
            self.enter()
            try:
                with nogil:
                    status = sgs_log_segment_scan_transactions(
                        self.segment, &options, start_position, end_position, data_from, &rows, &result, &err
                    )
                self.check(status, &err)
            finally:
                self.leave()
            headers = array_of_rows(sgs_batch_table_rows(&rows.table), sgs_batch_table_count(&rows.table))
            ends = bytes(rows.ends.data[:rows.ends.size]) if rows.ends.size > 0 else b""
        finally:
            sgs_transaction_rows_deinit(&rows)
        return headers, ends, scan_result_of(&result, self.context.directory.path)

    def drop_cache(self):
        """Drop the .log from the page cache: the next scan reads the disk [DUR-60]."""
        cdef sgs_error err
        cdef sgs_status status
        self.enter()
        try:
            with nogil:
                status = sgs_log_segment_drop_cache(self.segment, &err)
            self.check(status, &err)
        finally:
            self.leave()

    def recover(self, *, int64_t cut_at=SGS_CUT_ANYWHERE, bint check_crc=True, bint check_order=True,
                bint contiguous=False, bint check_epochs=False, int64_t expected_offset=0,
                int64_t next_segment_base_offset=INT64_MAX, int32_t previous_epoch=-1, bint table=True):
        """Check every batch, rebuild both indexes, cut the rest [SEG-40]; rows only with *table*.

        *cut_at* is where the batches must end for the rest to be cut, -1 for nowhere.
        """
        cdef sgs_scan_options options
        cdef sgs_batch_table rows
        cdef sgs_batch_table *wanted = &rows if table else NULL
        cdef sgs_recovery recovery
        cdef sgs_error err
        cdef sgs_status status
        self.start_options(&options, check_order, contiguous, check_epochs, expected_offset, next_segment_base_offset,
                           previous_epoch)
        options.check_crc = check_crc
        sgs_batch_table_init(&rows, memory)
        try:
            self.enter()
            try:
                with nogil:
                    status = sgs_log_segment_recover(self.segment, &options, cut_at, wanted, &recovery, &err)
                self.check(status, &err)
            finally:
                self.leave()
            headers = array_of_rows(sgs_batch_table_rows(&rows), sgs_batch_table_count(&rows))
        finally:
            sgs_batch_table_deinit(&rows)
        scan = scan_result_of(&recovery.scan, self.context.directory.path)
        return headers, Recovery(scan, recovery.truncated_bytes)

    def begin_recovery(self):
        """Empty both indexes, at their full size: Kafka's recovery begins [SEG-40]."""
        cdef sgs_error err
        cdef sgs_status status
        self.enter()
        try:
            with nogil:
                status = sgs_log_segment_begin_recovery(self.segment, &err)
            self.check(status, &err)
        finally:
            self.leave()

    def recover_batches(self, headers, int64_t last_indexed_position):
        """Add the next good batches to the indexes; the error says where they end [SEG-40, SEG-41]."""
        cdef size_t rows_count = 0
        cdef const sgs_batch_header *rows = rows_of_array(headers, False, &rows_count)
        cdef size_t taken = 0
        cdef sgs_error err
        cdef sgs_status status
        error = None
        self.enter()
        try:
            with nogil:
                status = sgs_log_segment_recover_batches(
                    self.segment, rows, rows_count, &last_indexed_position, &taken, &err
                )
            try:
                self.check(status, &err)
            except SegstoreError as raised:
                error = raised
        finally:
            self.leave()
        return RecoveredBatches(taken, last_indexed_position, error)

    def end_recovery(self, int32_t valid_bytes):
        """Cut the .log after the last good batch, finish both indexes; returns the bytes cut [SEG-40]."""
        cdef int32_t truncated_bytes = 0
        cdef sgs_error err
        cdef sgs_status status
        self.enter()
        try:
            with nogil:
                status = sgs_log_segment_end_recovery(self.segment, valid_bytes, &truncated_bytes, &err)
            self.check(status, &err)
        finally:
            self.leave()
        return truncated_bytes

    def rewrite(self, int64_t position):
        """Write the bytes from *position* on again in place, and sync [DUR-36]."""
        cdef sgs_error err
        cdef sgs_status status
        self.enter()
        try:
            with nogil:
                status = sgs_log_segment_rewrite(self.segment, position, &err)
            self.check(status, &err)
        finally:
            self.leave()
