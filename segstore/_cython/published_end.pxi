# published_end.pxi - where one log ends: what its writers publish and its readers see
#
# The append lane stores here without a call, so each field costs one assignment.


@cython.final
@cython.auto_pickle(False)
cdef class PublishedEnd:
    """One for each log. Whoever holds the append lock stores; any thread reads, without a lock [CON-3]."""

    cdef object _log_end
    cdef object _durable
    cdef public object map_end_offset

    def __cinit__(self):
        self._log_end = self._durable = LogOffsetMetadata(0, 0, 0)
        self.map_end_offset = 0

    @property
    def log_end(self):
        return self._log_end

    @log_end.setter
    def log_end(self, log_end):
        require_metadata(log_end)
        self._log_end = log_end

    @property
    def durable(self):
        return self._durable

    @durable.setter
    def durable(self, durable):
        require_metadata(durable)
        self._durable = durable

    @property
    def log_end_offset(self):
        return <object>borrowed_tuple_item(self._log_end, 0)

    @property
    def durable_offset(self):
        return <object>borrowed_tuple_item(self._durable, 0)

    cdef inline int64_t log_end_at(self) except? -1:
        return <object>borrowed_tuple_item(self._log_end, 0)

    cdef inline int64_t durable_at(self) except? -1:
        return <object>borrowed_tuple_item(self._durable, 0)


cdef inline int require_metadata(object value) except -1:
    """The lane reads the fields of both ends without a look at their type."""
    if type(value) is not LogOffsetMetadata:
        raise ArgumentTypeError(
            f"{value!r:.80} is no place in a log", found=type(value).__name__, expected="LogOffsetMetadata"
        )
    return 0
