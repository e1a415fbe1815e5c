# append_lane.pxi - the short way of an append for which nothing has to be decided (csrc/segment/append_lane.h)

@cython.final
cdef class AppendLane:
    """Where a log stands, as far as its next plain append needs it; see the header.

    The methods return None when the layers have to decide, else what they answer with: first and last offset, largest
    timestamp, records. Used, with both validators, under the append lock.
    """

    cdef sgs_append_lane lane
    cdef LogSegment segment
    cdef LogValidator validator_of_sent
    cdef LogValidator validator_of_own

    def __cinit__(self, LogValidator validator_of_sent not None, LogValidator validator_of_own not None, *,
                  int32_t max_segment_bytes, int32_t max_batch_bytes):
        sgs_append_lane_init(&self.lane, memory)
        self.validator_of_sent = validator_of_sent
        self.validator_of_own = validator_of_own
        self.lane.max_segment_bytes = max_segment_bytes
        self.lane.max_batch_bytes = max_batch_bytes

    def __dealloc__(self):
        sgs_append_lane_deinit(&self.lane)

    def arm(self, LogSegment segment not None, int64_t next_offset, int32_t position, int32_t leader_epoch,
            int64_t max_segment_ms):
        """The log ends there, in that epoch, and nothing is left undone."""
        self.lane.next_offset = next_offset
        self.lane.position = position
        self.lane.leader_epoch = leader_epoch
        self.lane.max_segment_ms = max_segment_ms
        self.segment = segment

    def disarm(self):
        """The log is about to change in another way."""
        self.segment = None

    @property
    def is_armed(self):
        return self.segment is not None

    @property
    def next_offset(self):
        return self.lane.next_offset

    @property
    def position(self):
        return self.lane.position

    def append_as_leader(self, bytes data not None, int32_t leader_epoch, int64_t now_ms):
        """One batch as a producer sends it, for that epoch; -1 = the log's latest."""
        cdef LogSegment segment = self.segment
        cdef const uint8_t *start = <const uint8_t *>PyBytes_AS_STRING(data)
        cdef size_t size = <size_t>PyBytes_GET_SIZE(data)
        cdef sgs_lane_append answer
        cdef sgs_error err
        cdef sgs_status status
        if segment is None or (leader_epoch >= 0 and leader_epoch != self.lane.leader_epoch):
            return None
        segment.enter()
        try:
            with nogil:
                status = sgs_append_lane_leader(
                    &self.lane, segment.segment, &self.validator_of_sent.validator, start, size, now_ms, &answer, &err
                )
            return self.finish(segment, status, &answer, &err)
        finally:
            segment.leave()

    def append_own(self, EncodedBatches batches not None, int64_t now_ms):
        """A batch that was built here."""
        cdef LogSegment segment = self.segment
        cdef sgs_lane_append answer
        cdef sgs_error err
        cdef sgs_status status
        if segment is None or batches.row_bytes.size != sizeof(sgs_batch_header):
            return None
        segment.enter()
        try:
            with nogil:
                status = sgs_append_lane_own(
                    &self.lane, segment.segment, &self.validator_of_own.validator, batches.content.data,
                    batches.content.size, <sgs_batch_header *>batches.row_bytes.data, now_ms, &answer, &err
                )
            return self.finish(segment, status, &answer, &err)
        finally:
            segment.leave()

    def append_as_follower(self, bytes data not None, int32_t leader_epoch, int64_t now_ms):
        """Batches of another log."""
        cdef LogSegment segment = self.segment
        cdef const uint8_t *start = <const uint8_t *>PyBytes_AS_STRING(data)
        cdef size_t size = <size_t>PyBytes_GET_SIZE(data)
        cdef sgs_lane_append answer
        cdef sgs_error err
        cdef sgs_status status
        if segment is None:
            return None
        segment.enter()
        try:
            with nogil:
                status = sgs_append_lane_follower(
                    &self.lane, segment.segment, start, size, leader_epoch, now_ms, &answer, &err
                )
            return self.finish(segment, status, &answer, &err)
        finally:
            segment.leave()

    cdef object finish(self, LogSegment segment, sgs_status status, const sgs_lane_append *answer, sgs_error *err):
        if status != SGS_OK:
            self.segment = None
            segment.is_poisoned = segment.is_poisoned or answer.poisoned
            segment.check(status, err)
        if not answer.taken:
            return None
        return answer.first_offset, answer.last_offset, answer.max_timestamp, answer.records_count
