# lane_end.pxi - where a log stands that grows by the short way, what its readers see of it, and what is durable
#
# The layers lead a round of syncs behind every other change. From there on, until the lane is armed again, its records
# are all that is written: such a round is one sync of the active segment, led without looking for more.


cdef class _LaneEnd:
    """The part of `AppendLane` that knows the log, publishes and syncs."""

    cdef sgs_append_lane lane
    cdef LogSegment segment
    cdef LogValidator validator_of_sent
    cdef LogValidator validator_of_own
    cdef _BatchWriter free_writer  # the first of those that nobody builds with
    cdef tuple options_of_writers
    cdef AppendLock append_lock
    cdef object local_log
    cdef object log_start_offset
    cdef object offsets
    cdef object flusher
    cdef PublishedEnd published
    cdef object failure_mark
    cdef object answer  # the last one
    cdef object log_end  # that was published
    cdef object last_log_end  # before that one
    cdef bint is_replicated
    cdef bint syncs_on_append
    cdef SyncRounds rounds  # for who waits for each sync, else None
    cdef Directory directory
    cdef bytes lock_file
    cdef readonly uint64_t times_armed
    cdef uint64_t times_armed_when_settled
    cdef sgs_log_segment *armed  # that of `segment`; guarded by the append lock
    cdef int64_t generation

    def __cinit__(self, LogValidator validator_of_sent not None, LogValidator validator_of_own not None,
                  options, CodecTable codecs not None, AppendLock append_lock not None,
                  PublishedEnd published not None, *, local_log, offsets, flusher, failure_mark,
                  SyncRounds rounds, str lock_file not None, bint syncs_on_append, int32_t max_segment_bytes,
                  int32_t max_message_bytes, int64_t max_batch_bytes):
        sgs_append_lane_init(&self.lane, memory)
        self.validator_of_sent = validator_of_sent
        self.validator_of_own = validator_of_own
        self.options_of_writers = (options, codecs, 0, max_batch_bytes)
        self.append_lock = append_lock
        self.published = published
        self.local_log = local_log
        self.offsets = offsets
        self.is_replicated = offsets.replicated
        self.flusher = flusher
        self.failure_mark = failure_mark
        self.rounds = rounds
        self.directory = local_log.directory
        self.lock_file = encoded_name(lock_file)
        self.syncs_on_append = syncs_on_append
        self.lane.max_segment_bytes = max_segment_bytes
        self.lane.max_batch_bytes = max_message_bytes

    def __dealloc__(self):
        sgs_append_lane_deinit(&self.lane)

    def arm(self, LogSegment segment not None, int64_t next_offset, int32_t position, int32_t leader_epoch,
            int64_t max_segment_ms, log_start_offset, int64_t generation):
        """The log ends there, in that epoch, and nothing is left undone."""
        self.lane.next_offset = next_offset
        self.lane.position = position
        self.lane.leader_epoch = leader_epoch
        self.lane.max_segment_ms = max_segment_ms
        self.log_start_offset = log_start_offset  # which nobody moves before the lane is disarmed
        self.generation = generation
        self.times_armed += 1
        self.segment = segment
        self.armed = segment.segment

    def disarm(self):
        """The log is about to change in another way."""
        self.armed = NULL
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

    @cython.final
    cdef int publish_now(self) except -1:
        """As `publish_written`; where a signal's handler raises, whoever has the lock does it, or the next one."""
        cdef AppendLock append_lock = self.append_lock
        cdef bint taken = append_lock.take()
        while not taken:
            with nogil:
                taken = append_lock.wait_for()
            if not taken:
                check_signals()
        append_lock.owner = PyThread_get_thread_ident()
        try:
            self.publish_written()
        finally:
            append_lock.give_back()
        return 0

    cpdef int publish_written(self) except -1:
        """Under the append lock: show readers what was written, as its writer would when he wakes."""
        if self.segment is not None and self.lane.next_offset > self.published.log_end_at():
            self.publish(self.segment)
        return 0

    def note_settled(self, uint64_t times_armed):
        """A round of the layers has ended that began when the lane had been armed so many times.

        Until the next time records of the lane are all that a round has to sync: for any other change it is disarmed.
        """
        self.times_armed_when_settled = times_armed

    def sync_records(self):
        """Lead a round as the layers do; False when there is more to sync than the lane's records."""
        cdef AppendLock append_lock = self.append_lock
        cdef Directory directory = self.directory
        cdef const char *lock_file = self.lock_file
        cdef LogSegment segment
        cdef object log_end
        cdef int64_t generation
        cdef sgs_file_info info
        cdef sgs_error err
        cdef sgs_error ignored
        cdef sgs_status status
        cdef sgs_status found = SGS_OK
        append_lock.acquire()
        try:
            segment = self.segment
            if (
                segment is None or self.rounds is None or self.times_armed != self.times_armed_when_settled
                or directory.sync_failed or self.failure_mark.failure is not None
            ):
                return False
            self.publish_written()
            log_end = self.published._log_end
            generation = self.generation
            segment.enter()
            self.rounds.begin_next()
        finally:
            append_lock.give_back()
        try:
            with nogil:
                status = sgs_log_segment_flush(segment.segment, False, SGS_BARRIER_APPENDED_RECORDS, &err)
                segment.note_sync(status)
                if status == SGS_OK:
                    found = directory.env.file_info_at(directory.env, directory.fd, lock_file, &info, &ignored)
            segment.check(status, &err)
        finally:
            segment.leave()
        if found != SGS_OK:
            self.failure_mark.require_untouched()
        self.note_durable(log_end, generation)
        return True

    @cython.final
    cdef int note_durable(self, object log_end, int64_t generation) except -1:
        """All below was synced, unless a sync beside it has failed or the log was truncated since."""
        cdef AppendLock append_lock = self.append_lock
        append_lock.acquire()
        try:
            if self.directory.sync_failed or self.failure_mark.failure is not None:
                self.failure_mark.require_untouched()
            if (
                self.local_log.generation == generation
                and <int64_t><object>borrowed_tuple_item(log_end, 0) > self.published.durable_at()
            ):
                self.published._durable = log_end
        finally:
            append_lock.give_back()
        return 0

    @cython.final
    cdef int publish(self, LogSegment segment) except -1:
        """Under the append lock: from here on readers see what was written."""
        cdef object next_offset = self.lane.next_offset
        cdef object base_offset = segment.base_offset
        cdef object position = self.lane.position
        cdef object log_end
        if not is_ours_alone(<PyObject *>self.last_log_end):
            self.last_log_end = new_instance(<PyTypeObject *>LogOffsetMetadata, 3)
        log_end = self.last_log_end
        forget_hash(<PyObject *>log_end)
        put(log_end, 0, next_offset)
        put(log_end, 1, base_offset)
        put(log_end, 2, position)
        self.last_log_end = self.log_end
        self.log_end = log_end
        self.published._log_end = log_end
        self.published.map_end_offset = next_offset
        if self.is_replicated:
            self.offsets.follow_log_end()
            self.offsets.update_first_unstable_offset()
        return 0

    @cython.final
    cdef int fail(self, LogSegment segment, sgs_status status, const sgs_lane_append *answer,
                  sgs_error *err) except -1:
        """The write failed; a log whose bytes could not be taken back takes no more [DUR-32, DUR-44]."""
        segment.is_poisoned = segment.is_poisoned or answer.poisoned
        try:
            segment.check(status, err)
        except SegstoreError as error:
            if segment.is_poisoned or isinstance(error, InternalError):
                self.failure_mark.poison(error)
            raise
        return 0
