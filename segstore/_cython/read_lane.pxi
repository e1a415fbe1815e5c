# read_lane.pxi - the short way of a read for which nothing has to be decided [D11]
#
# The layers above know where a log begins, and which segments it has: immutable objects, which come in with each call.
# The end is taken as it is published, after those. A read whose segment holds what was asked for, below the end of the
# log, goes down in one call and comes back as one object. Whatever else there is - another isolation, a gap, the end of
# a segment, an old format, an argument of another type, any error - is not taken, and the layers do it: their errors
# are the only ones, beside those of a fetch, which they would ask for once more.

cdef enum:
    MAGIC_WITH_BASE_OFFSET = 2

cdef tuple no_arguments = ()


cdef bint is_whole_number(object value, int64_t *number) noexcept:
    """An int of 64 bits; what merely stands for one is left to the layers."""
    cdef int overflow = 0
    if not PyLong_CheckExact(value):
        return False
    number[0] = PyLong_AsLongLongAndOverflow(value, &overflow)
    return overflow == 0


cdef inline int64_t offset_in(object metadata, Py_ssize_t field) except? -2:
    """A field of a LogOffsetMetadata, as `PublishedEnd` has them."""
    return <int64_t><object>PyTuple_GET_ITEM(metadata, field)


cdef inline object new_of(object kind):
    """An object of a Python class over one of the classes here, its ``__init__`` left out."""
    return (<PyTypeObject *>kind).tp_new(<type>kind, <PyObject *>no_arguments, NULL)


@cython.final
cdef class ReadLane:
    """Reads one snapshot of a log's segments; the methods return None when the layers have to decide."""

    cdef tuple segments
    cdef int64_t *base_offsets
    cdef int64_t *maxima  # largest timestamp up to the end of each segment, of the first ones
    cdef Py_ssize_t maxima_count
    cdef char *follows  # 1: the layers saw that nothing is missing before this segment [DUR-79]
    cdef CodecTable codecs
    cdef Directory directory
    cdef object fetch_class
    cdef object slice_class
    cdef bint is_kafkas

    def __cinit__(self, tuple segments not None, CodecTable codecs not None, Directory directory not None, *,
                  fetch_class, slice_class, bint is_kafkas):
        cdef Py_ssize_t i
        cdef LogSegment segment
        if not issubclass(fetch_class, FetchedRecords) or not issubclass(slice_class, SlicedRecords):
            raise IllegalArgumentError(
                "a read lane fills objects of its own classes",
                found=f"{fetch_class.__name__}, {slice_class.__name__}",
                expected="FetchedRecords, SlicedRecords",
            )
        self.segments = segments
        self.codecs = codecs
        self.directory = directory
        self.fetch_class = fetch_class
        self.slice_class = slice_class
        self.is_kafkas = is_kafkas
        self.base_offsets = <int64_t *>PyMem_Malloc(max(len(segments), 1) * sizeof(int64_t))
        self.maxima = <int64_t *>PyMem_Malloc(max(len(segments), 1) * sizeof(int64_t))
        self.follows = <char *>PyMem_Calloc(max(len(segments), 1), 1)
        if self.base_offsets == NULL or self.maxima == NULL or self.follows == NULL:
            raise MemoryError
        for i in range(len(segments)):
            segment = segments[i]
            self.base_offsets[i] = segment.base_offset

    def __dealloc__(self):
        PyMem_Free(self.base_offsets)
        PyMem_Free(self.maxima)
        PyMem_Free(self.follows)

    cdef Py_ssize_t first_above(self, const int64_t *numbers, Py_ssize_t count, int64_t target) noexcept:
        """How many of the ascending *numbers* are at or below *target*."""
        cdef Py_ssize_t low = 0
        cdef Py_ssize_t middle
        while low < count:
            middle = (low + count) // 2
            if numbers[middle] <= target:
                low = middle + 1
            else:
                count = middle
        return low

    cdef inline int64_t end_of(self, Py_ssize_t index, object log_end) except? -2:
        """Where the next segment begins: what reaches there has another base offset than was written [DUR-54]."""
        cdef int64_t end_segment = offset_in(log_end, 1)
        cdef int64_t following
        if self.is_kafkas or self.base_offsets[index] >= end_segment or index + 1 >= PyTuple_GET_SIZE(self.segments):
            return INT64_MAX
        following = self.base_offsets[index + 1]
        if following == end_segment and offset_in(log_end, 2) == 0:
            return max(offset_in(log_end, 0), following)
        return following

    cdef LogSegment usable(self, Py_ssize_t index, object log_end, int64_t *max_position):
        """A segment that can be asked, and up to where; None for one that is closed, empty or behind the end."""
        cdef LogSegment segment = <LogSegment>self.segments[index]
        cdef int64_t end_segment = offset_in(log_end, 1)
        if segment.is_closed or segment.process != current_process or segment.base_offset > end_segment:
            return None
        max_position[0] = offset_in(log_end, 2) if segment.base_offset == end_segment else INT32_MAX
        return segment if max_position[0] > 0 else None

    cdef LogSegment prepare(self, object offset, object max_bytes, object min_one_message, int64_t log_start_offset,
                            object log_end, sgs_segment_read *request, int64_t *end_offset):
        """The segment of a read, entered, and what it is asked; None when the layers have to see it."""
        cdef int64_t start_offset = 0
        cdef int64_t max_size = 0
        cdef Py_ssize_t index
        cdef LogSegment segment
        end_offset[0] = offset_in(log_end, 0)
        if not is_whole_number(offset, &start_offset) or not is_whole_number(max_bytes, &max_size):
            return None
        if max_size < 0 or (min_one_message is not True and min_one_message is not False):
            return None
        if not log_start_offset <= start_offset < end_offset[0]:
            return None
        index = self.first_above(self.base_offsets, len(self.segments), start_offset)
        if index == 0:
            return None
        end_offset[0] = min(end_offset[0], self.end_of(index - 1, log_end))
        segment = self.usable(index - 1, log_end, &request.max_position)
        if segment is None:
            return None
        request.start_offset = start_offset
        request.max_size = <int32_t>min(max_size, <int64_t>INT32_MAX)
        request.min_one_message = min_one_message is True
        request.start_position = 0
        segment.enter()
        return segment

    def read(self, offset, max_bytes, min_one_message, int64_t log_start_offset, PublishedEnd published not None,
             topic_partition not None, check_order):
        """One fetch up to the log end, as a `fetch_class`."""
        cdef sgs_segment_read request
        cdef sgs_error err
        cdef sgs_status status
        cdef FetchedBytes fetched
        cdef FetchedRecords answer
        cdef int64_t end_offset = 0
        cdef LogSegment segment = self.prepare(
            offset, max_bytes, min_one_message, log_start_offset, published._log_end, &request, &end_offset
        )
        if segment is None:
            return None
        try:
            fetched = FetchedBytes.__new__(FetchedBytes)
            with nogil:
                status = sgs_log_segment_read(segment.segment, &request, &fetched.content, &fetched.fetch, &err)
        finally:
            segment.leave()
        let_pending_go_on(status)
        if status != SGS_OK or not fetched.fetch.found or fetched.fetch.first_batch_magic < MAGIC_WITH_BASE_OFFSET:
            return None
        if fetched.fetch.base_offset >= end_offset or fetched.fetch.base_offset > request.start_offset:
            return None
        answer = <FetchedRecords>new_of(self.fetch_class)
        answer.data = fetched
        answer.segment_base_offset = segment.base_offset
        answer.source = self.directory
        answer.start_offset = request.start_offset
        answer.end_offset = end_offset
        answer._codecs = self.codecs
        answer.topic_partition = topic_partition
        answer.first_entry_incomplete = fetched.fetch.first_entry_incomplete
        answer._check_crcs = True
        answer._check_order = check_order
        return answer

    def slice(self, log, offset, max_bytes, min_one_message, int64_t log_start_offset,
              PublishedEnd published not None, int64_t truncations_done):
        """The same with the bytes left where they are, as a `slice_class`."""
        cdef sgs_segment_read request
        cdef sgs_segment_fetch fetch
        cdef sgs_error err
        cdef sgs_status status
        cdef SlicedRecords answer
        cdef int64_t end_offset = 0
        cdef LogSegment segment = self.prepare(
            offset, max_bytes, min_one_message, log_start_offset, published._log_end, &request, &end_offset
        )
        if segment is None:
            return None
        try:
            with nogil:
                status = sgs_log_segment_slice(segment.segment, &request, &fetch, &err)
        finally:
            segment.leave()
        let_pending_go_on(status)
        if status != SGS_OK or not fetch.found or fetch.first_batch_magic < MAGIC_WITH_BASE_OFFSET:
            return None
        if fetch.base_offset >= end_offset or fetch.base_offset > request.start_offset:
            return None
        answer = <SlicedRecords>new_of(self.slice_class)
        answer._segment = segment
        answer.base_offset = fetch.base_offset
        answer.position = fetch.position
        answer.size_bytes = fetch.size
        answer._log = log
        answer._truncations_done = truncations_done
        answer._start_offset = request.start_offset
        answer._end_offset = end_offset
        answer.first_entry_incomplete = fetch.first_entry_incomplete
        return answer

    def learn(self, tuple running_maxima not None):
        """Take over what is known of the segments' largest timestamps [TS-2]: they ascend."""
        cdef Py_ssize_t count = min(len(running_maxima), len(self.segments))
        cdef Py_ssize_t i
        for i in range(self.maxima_count, count):
            self.maxima[i] = running_maxima[i]
        self.maxima_count = max(self.maxima_count, count)

    def learn_order(self, int64_t base_offset):
        """Take over that nothing is missing before the segment of *base_offset* [DUR-79]."""
        cdef Py_ssize_t index = self.first_above(self.base_offsets, len(self.segments), base_offset) - 1
        if index >= 0 and self.base_offsets[index] == base_offset:
            self.follows[index] = 1

    def find_offset_by_timestamp(self, timestamp, int64_t log_start_offset, PublishedEnd published not None):
        """The first record at or behind both, of the first segment that reaches the timestamp [TS-2]."""
        cdef int64_t target = 0
        cdef int64_t max_position = 0
        cdef object log_end = published._log_end
        cdef sgs_found_timestamp found
        cdef sgs_error err
        cdef sgs_status status
        cdef Py_ssize_t index
        cdef LogSegment segment
        if not is_whole_number(timestamp, &target) or target < 0:  # negative ones have a meaning of their own [TS-1]
            return None
        index = self.first_above(self.maxima, self.maxima_count, target - 1)
        if index == self.maxima_count and index != len(self.segments) - 1:  # known of all but the active segment
            return None
        segment = self.usable(index, log_end, &max_position)
        if segment is None:
            return None
        segment.enter()
        try:
            with nogil:
                status = sgs_log_segment_find_offset_by_timestamp(
                    segment.segment, target, log_start_offset, max_position, &found, &err
                )
        finally:
            segment.leave()
        let_pending_go_on(status)
        if status != SGS_OK or not found.found:
            return None
        if found.offset >= offset_in(log_end, 0) or found.offset >= self.end_of(index, log_end):
            return None
        if index > 0 and found.offset == segment.base_offset and not self.is_kafkas and not self.follows[index]:
            return None  # is the one before whole? [DUR-79]
        return timestamp_and_offset(&found)
