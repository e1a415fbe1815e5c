# append_lane.pxi - the short way of an append for which nothing has to be decided (csrc/segment/append_lane.h)
#
# Half of what a small append costs is the kernel's; the other half is allocations, attributes and calls, each of them a
# few hundredths. So there are few: 4,500 instructions for 100 bytes, as `valgrind --tool=callgrind` counts them.


cdef enum _Way:
    AS_LEADER  # one batch as a producer sends it
    BUILT_HERE
    AS_FOLLOWER  # batches of another log


@cython.final
cdef class AppendLane(_LaneEnd):
    """A plain append from end to end.

    No bytecode runs between a write and its publication, so that no signal handler comes between them: bytes that were
    written are published when the thread that wrote them goes on [CON-4].
    """

    @cython.binding(False)  # a plain method, which bytecode calls by the shortest way
    def append(self, records, timestamp):
        """A list of records; what was built of it comes back when the layers have to append it."""
        cdef _BatchWriter writer
        cdef LogSegment segment = self.segment
        cdef EncodedBatches batches
        cdef int64_t now_ms, default_timestamp
        cdef int overflow = 0
        if segment is None or type(records) is not list:
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
                    if status == SGS_OK:
                        append_lock.release()
                    if answer.taken:
                        number = rounds.next_round()
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
