# fetched_records.pxi - what a fetch and a slice hold: their Python classes add what is done with it
#
# One object a fetch, filled by the read lane or by Python; what only some users ask for is made when it is asked for.

cdef object place_of(int64_t offset, int64_t segment_base_offset, int64_t position):
    return named(LogOffsetMetadata, (offset, segment_base_offset, position))


@cython.auto_pickle(False)
cdef class FetchedRecords:
    """The bytes of one fetch and their position; base of ``FetchDataInfo``."""

    cdef object data  # a FetchedBytes, or a read-only view of what somebody else owns
    cdef object place  # LogOffsetMetadata; None: the fields of data and the next one
    cdef int64_t segment_base_offset
    cdef object source  # the Directory of the .log, its path, or None
    cdef readonly int64_t start_offset
    cdef readonly int64_t end_offset
    cdef readonly int64_t _aborted_below
    cdef readonly object _aborted
    cdef readonly CodecTable _codecs
    cdef object topic_partition
    cdef readonly bint first_entry_incomplete
    cdef readonly bint _check_crcs
    cdef readonly object _check_order  # called with this before records are shown; None: nobody knows what was written
    cdef public object _headers

    def __init__(self, records, fetch_offset_metadata not None, *, int64_t start_offset, bint first_entry_incomplete,
                 int64_t end_offset, aborted, int64_t aborted_below, CodecTable codecs not None,
                 topic_partition not None, bint check_crcs, str file, check_order=None):
        self.data = memoryview(records).toreadonly()
        self.place = fetch_offset_metadata
        self.source = file
        self.start_offset = start_offset
        self.end_offset = end_offset
        self._aborted = aborted
        self._aborted_below = aborted_below
        self._codecs = codecs
        self.topic_partition = topic_partition
        self.first_entry_incomplete = first_entry_incomplete
        self._check_crcs = check_crcs
        self._check_order = check_order

    @property
    def _topic(self):
        return self.topic_partition[0]

    @property
    def _partition(self):
        return self.topic_partition[1]

    @property
    def records(self):
        """The bytes: read-only, shape ``(size_bytes,)``, format ``B``."""
        return PyMemoryView_FromObject(self.data)

    @property
    def size_bytes(self):
        """Number of bytes, with those of a cut batch at the end."""
        return (<FetchedBytes>self.data).content.size if type(self.data) is FetchedBytes else self.data.nbytes

    @property
    def fetch_offset_metadata(self):
        """Base offset and position of the first batch [RD-6]."""
        cdef FetchedBytes fetched
        if self.place is None:
            fetched = self.data
            self.place = place_of(fetched.fetch.base_offset, self.segment_base_offset, fetched.fetch.position)
        return self.place

    @property
    def file(self):
        """Path of the ``.log``; None: errors have positions in the bytes."""
        cdef char name[SGS_SEGMENT_NAME_BYTES]
        if not isinstance(self.source, Directory):
            return self.source
        sgs_segment_file_name(self.segment_base_offset, SGS_FILE_LOG, SGS_SUFFIX_NONE, name)
        return f"{(<Directory>self.source).path}/{name.decode('ascii')}"


@cython.auto_pickle(False)
cdef class SlicedRecords:
    """Bytes of a segment that are still in the file; base of ``FileRecords``."""

    cdef object place  # LogOffsetMetadata; None: the next field, and those of the segment
    cdef int64_t base_offset
    cdef readonly LogSegment _segment
    cdef readonly object _log
    cdef readonly object _aborted
    cdef readonly int64_t position
    cdef readonly int64_t size_bytes
    cdef readonly int64_t _truncations_done
    cdef readonly int64_t _start_offset
    cdef readonly int64_t _end_offset
    cdef readonly bint first_entry_incomplete

    def __init__(self, LogSegment segment, int64_t position, int64_t size_bytes, *, log, int64_t truncations_done,
                 int64_t start_offset, int64_t end_offset, aborted, fetch_offset_metadata not None,
                 bint first_entry_incomplete):
        self._segment = segment
        self.position = position
        self.size_bytes = size_bytes
        self._log = log
        self._truncations_done = truncations_done
        self._start_offset = start_offset
        self._end_offset = end_offset
        self._aborted = aborted
        self.place = fetch_offset_metadata
        self.first_entry_incomplete = first_entry_incomplete

    @property
    def fetch_offset_metadata(self):
        """Base offset and position of the first batch [RD-6]."""
        if self.place is None:
            self.place = place_of(self.base_offset, self._segment.base_offset, self.position)
        return self.place
