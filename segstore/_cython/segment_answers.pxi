# segment_answers.pxi - what a segment says of itself, its indexes, and the file (csrc/segment/log_segment.h)

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


@cython.no_gc  # it holds a context and nothing that could lead back to it; there may be very many
cdef class _SegmentAnswers(_Handle):
    """The part of `LogSegment` that asks and changes nothing.

    Of most segments of a large log nobody asks anything: what the core keeps of one is made at its first use.
    """

    cdef sgs_log_segment *segment  # NULL before that
    cdef SegmentContext context
    cdef readonly int64_t base_offset
    cdef int64_t listed_ms  # when its size was looked up
    cdef int32_t listed_size

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
        """Whether a look-up met, and bypassed, an index entry that cannot be right [DUR-53]."""
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
        """Largest timestamp so far and its offset [SEG-3]."""
        cdef sgs_timestamp_offset found
        cdef sgs_error err
        cdef sgs_status status
        self.enter()
        try:
            with nogil:
                status = sgs_log_segment_max_timestamp(self.segment, &found, &err)
            self.check(status, &err)
        finally:
            self.leave()
        return TimestampOffset(found.timestamp, found.offset)

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
        """The offset of an entry that lies behind a fetch of so many bytes from there, or None [OFX-6, LOC-9]."""
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
        """As `find_offset_by_timestamp`, from the batch at *start_position* on, without a look-up [SEG-23]."""
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
        """The largest timestamp from the batch at *start_position* on, (-1, -1) without one [SEG-24]."""
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

    def slice(self, int64_t start_offset, int32_t max_size, int64_t max_position, bint min_one_message):
        """As `read`, with the bytes left in the file; None [SEG-19]."""
        cdef sgs_segment_read request
        cdef sgs_segment_fetch fetch
        cdef sgs_error err
        cdef sgs_status status
        request.start_offset = start_offset
        request.max_size = max_size
        request.max_position = max_position
        request.min_one_message = min_one_message
        request.start_position = 0
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
        """One step of sending bytes to a descriptor: (how many it took, whether it takes no more for now)."""
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
