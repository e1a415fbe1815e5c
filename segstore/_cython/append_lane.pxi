# append_lane.pxi - the short way of an append for which nothing has to be decided (csrc/segment/append_lane.h)
#
# Half of what a small append costs is the kernel's; the other half is allocations, attributes and calls, each of them a
# few hundredths. So there are few: 4,500 instructions for 100 bytes, as `valgrind --tool=callgrind` counts them.
#
# The layers lead a round of syncs behind every other change. From there on, until the lane is armed again, its records
# are all that is written: such a round is one sync of the active segment, led without looking for more.


cdef enum _Way:
    AS_LEADER  # one batch as a producer sends it
    BUILT_HERE
    AS_FOLLOWER  # batches of another log


@cython.final
cdef class AppendLane:
    """A plain append from end to end.

    No bytecode runs between a write and its publication, so that no signal handler comes between them: bytes that were
    written are published when the thread that wrote them goes on [CON-4].
    """

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
    cdef uint64_t times_armed_when_reconciled
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

    def note_reconciled(self, uint64_t times_armed):
        """A round of the layers has ended that began when the lane had been armed so many times.

        Until the next time records of the lane are all that a round has to sync: for any other change it is disarmed.
        """
        self.times_armed_when_reconciled = times_armed

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
                segment is None or self.rounds is None or self.times_armed != self.times_armed_when_reconciled
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

    @cython.binding(False)  # a plain method, which bytecode calls by the shortest way
    def append(self, records, timestamp, key=None, value=None, headers=None):
        """A list of records; what was built of it comes back when the layers have to append it.

        The names of columns belong to a frame: that is asked here, where it takes least.
        """
        cdef _BatchWriter writer
        cdef LogSegment segment = self.segment
        cdef EncodedBatches batches
        cdef int64_t now_ms, default_timestamp
        cdef int overflow = 0
        if segment is None or type(records) is not list:
            return None
        if key is not None or value is not None or headers is not None:
            return None
        default_timestamp = now_ms = wall_clock_ms_of(segment)
        if timestamp is not None:
            if type(timestamp) is not int:
                return None
            default_timestamp = PyLong_AsLongLongAndOverflow(timestamp, &overflow)
            if overflow != 0:
                return None
        writer = self.take_writer()
        try:
            batches = writer.write(<list>records, default_timestamp)
            if batches.row_bytes.size == sizeof(sgs_batch_header):
                info = self.run(BUILT_HERE, batches.content.data, batches.content.size,
                                <sgs_batch_header *>batches.row_bytes.data, -1, now_ms)
                if info is not None:
                    return info
            return writer.give_away()
        finally:
            writer.forget()
            writer.next_free = self.free_writer
            self.free_writer = writer

    cdef inline _BatchWriter take_writer(self):
        """Of this append alone: other code may run in between, and append.

        Writers are chained: a list that has one now and then gets its memory anew each time, a thirtieth of an append.
        """
        cdef _BatchWriter writer = self.free_writer
        if writer is None:
            return _BatchWriter(*self.options_of_writers)
        self.free_writer = writer.next_free
        writer.next_free = None
        return writer

    @cython.binding(False)
    def append_as_leader(self, data, leader_epoch):
        """One batch as a producer sends it, for that epoch; None = the log's latest."""
        cdef LogSegment segment = self.segment
        if segment is None or type(data) is not bytes or not (leader_epoch is None or is_epoch(leader_epoch)):
            return None
        return self.run(AS_LEADER, <uint8_t *>PyBytes_AS_STRING(data), <size_t>PyBytes_GET_SIZE(data), NULL,
                        -1 if leader_epoch is None else <int32_t>leader_epoch, wall_clock_ms_of(segment))

    @cython.binding(False)
    def append_as_follower(self, data, leader_epoch):
        """Batches of another log."""
        cdef LogSegment segment = self.segment
        if segment is None or type(data) is not bytes or not is_epoch(leader_epoch):
            return None
        return self.run(AS_FOLLOWER, <uint8_t *>PyBytes_AS_STRING(data), <size_t>PyBytes_GET_SIZE(data), NULL,
                        <int32_t>leader_epoch, wall_clock_ms_of(segment))

    cdef object run(self, _Way way, uint8_t *data, size_t size, sgs_batch_header *row, int32_t leader_epoch,
                    int64_t now_ms):
        """Append, publish, sync as the layers do; None when they have to, and nothing was changed."""
        cdef LogSegment segment = self.segment
        cdef sgs_lane_append answer
        cdef int64_t append_time = -1
        if segment is None or segment.process != current_process or self.has_ended():
            return None
        answer.taken = False
        if self.rounds is None:
            self.append_here(way, segment, data, size, row, leader_epoch, now_ms, &answer)
        elif self.append_lock.owner != PyThread_get_thread_ident():
            self.append_durably(way, segment, data, size, row, leader_epoch, now_ms, &answer)
        if not answer.taken:
            return None
        if way == AS_LEADER and self.validator_of_sent.validator.options.log_append_time:
            append_time = now_ms
        return self.append_info(&answer, append_time, size)

    cdef int append_here(self, _Way way, LogSegment segment, uint8_t *data, size_t size, sgs_batch_header *row,
                         int32_t leader_epoch, int64_t now_ms, sgs_lane_append *answer) except -1:
        """Append, publish, and sync when it is due."""
        cdef sgs_error err
        cdef sgs_status status
        if not self.append_lock.try_acquire():
            return 0  # who has to wait looks at his batches meanwhile [CON-2]
        try:
            segment = self.segment
            if segment is None or not self.fits(way, leader_epoch):
                return 0
            segment.enter()
            with nogil:
                status = self.write(way, segment, data, size, row, leader_epoch, now_ms, answer, &err)
            segment.leave()
            # what is told of may run anything, and so may a finalizer when something is allocated
            self.append_lock.owner = PyThread_get_thread_ident()
            if status != SGS_OK:
                self.fail(segment, status, answer, &err)
            if not answer.taken:
                return 0
            self.publish(segment)
            generation = self.local_log.generation if self.syncs_on_append else None
        finally:
            self.append_lock.owner = 0
            self.append_lock.release()
        if self.syncs_on_append:
            self.flusher.sync_if_due(answer.last_offset + 1, generation)
        return 0

    cdef int append_durably(self, _Way way, LogSegment segment, uint8_t *data, size_t size, sgs_batch_header *row,
                            int32_t leader_epoch, int64_t now_ms, sgs_lane_append *answer) except -1:
        """Append, and sleep until a sync that began behind the write has ended [DUR-15].

        The GIL is let go of once for both. What was written is published by who leads the round, or by its writer
        before anything else.
        """
        cdef SyncRounds rounds = self.rounds
        cdef AppendLock append_lock = self.append_lock
        cdef sgs_error err
        cdef sgs_status status = SGS_OK
        cdef int64_t generation = 0
        cdef uint64_t number = 0
        cdef _Turn turn = IS_DURABLE
        rounds.require_another_leader()
        segment.enter()
        try:
            with nogil:
                if append_lock.wait_for():
                    if (
                        self.armed != NULL and self.armed == segment.segment and not self.has_ended()
                        and self.fits(way, leader_epoch)
                    ):
                        status = self.write(way, segment, data, size, row, leader_epoch, now_ms, answer, &err)
                    generation = self.generation
                    if answer.taken:
                        number = rounds.next_round()  # under the lock: the round of a close behind it counts
                    if status == SGS_OK:
                        append_lock.release()
                    if answer.taken:
                        turn = rounds.sleep_until(number)
            if answer.taken and turn == IS_DURABLE:
                rounds.wake_next()
            if status != SGS_OK:
                append_lock.owner = PyThread_get_thread_ident()
                try:
                    self.fail(segment, status, answer, &err)
                finally:
                    append_lock.owner = 0
                    append_lock.release()
            while turn != IS_DURABLE:
                try:
                    self.publish_now()
                except BaseException:
                    if turn == TO_LEAD:
                        rounds.let_others()
                    raise
                if turn == TO_LEAD:
                    rounds.lead(self.flusher, self)
                else:
                    check_signals()
                if rounds.has_ended(number):
                    break
                with nogil:
                    turn = rounds.sleep_until(number)
                if turn == IS_DURABLE:
                    rounds.wake_next()
        finally:
            segment.leave()
        if answer.taken and self.published.durable_at() <= answer.last_offset:
            self.publish_now()
            self.flusher.wait_until_durable(answer.last_offset + 1, generation)
        return 0

    cdef inline bint has_ended(self) noexcept nogil:
        """Whether the log takes no changes any more, or a sync has failed of which nobody was told yet [DUR-35]."""
        return self.append_lock.is_barred or self.directory.sync_failed

    cdef inline bint fits(self, _Way way, int32_t leader_epoch) noexcept nogil:
        return way != AS_LEADER or leader_epoch < 0 or leader_epoch == self.lane.leader_epoch

    cdef inline sgs_status write(self, _Way way, LogSegment segment, uint8_t *data, size_t size,
                                 sgs_batch_header *row, int32_t leader_epoch, int64_t now_ms,
                                 sgs_lane_append *answer, sgs_error *err) noexcept nogil:
        if way == BUILT_HERE:
            return sgs_append_lane_own(&self.lane, segment.segment, &self.validator_of_own.validator, data, size, row,
                                       now_ms, answer, err)
        if way == AS_LEADER:
            return sgs_append_lane_leader(&self.lane, segment.segment, &self.validator_of_sent.validator, data, size,
                                          now_ms, answer, err)
        return sgs_append_lane_follower(&self.lane, segment.segment, data, size, leader_epoch, now_ms, answer, err)

    cdef inline object offset_at(self, int64_t offset):
        """An int; for where the log had ended before this append, the one that was published then."""
        cdef object last = self.last_log_end
        if last is not None and <int64_t><object>borrowed_tuple_item(last, 0) == offset:
            return <object>borrowed_tuple_item(last, 0)
        return offset

    cdef object append_info(self, const sgs_lane_append *answer, int64_t append_time, size_t size):
        cdef object first_offset = self.offset_at(answer.first_offset)
        cdef object last_offset = answer.last_offset if answer.last_offset != answer.first_offset else first_offset
        cdef object max_timestamp = answer.max_timestamp
        cdef object log_append_time = append_time
        cdef object records_count = answer.records_count
        cdef object size_bytes = size
        cdef object durable = self.published._durable
        cdef object info
        if not is_ours_alone(<PyObject *>self.answer):
            self.answer = new_instance(<PyTypeObject *>LogAppendInfo, 9)
        info = self.answer
        forget_hash(<PyObject *>info)
        put(info, 0, first_offset)
        put(info, 1, last_offset)
        put(info, 2, max_timestamp)
        put(info, 3, log_append_time)
        put(info, 4, self.log_start_offset)
        put(info, 5, records_count)
        put(info, 6, size_bytes)
        put(info, 7, <object>borrowed_tuple_item(durable, 0))
        put(info, 8, False)
        return info

cdef inline int64_t wall_clock_ms_of(LogSegment segment) noexcept:
    cdef const sgs_env *env = segment.context.context.env
    return env.wall_clock_ms(env)


cdef inline bint is_epoch(object leader_epoch) noexcept:
    cdef int overflow = 0
    return type(leader_epoch) is int and 0 <= PyLong_AsLongLongAndOverflow(leader_epoch, &overflow) <= INT32_MAX
