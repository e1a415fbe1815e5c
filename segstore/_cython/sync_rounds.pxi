# sync_rounds.pxi - group commit: one syncs, the others wait for the round that covers them [DUR-15]
#
# Who waits sleeps on a futex, without the GIL, and is woken when his round has ended: of many threads each sleeps once
# an append. The end of a round wakes one, who wakes the next as soon as he has the GIL: all at once would only sleep
# again, for that. Who is left out, because a thread ended in between, wakes by himself after a moment.

cdef extern from *:
    """
    #include <errno.h>
    #include <linux/futex.h>
    #include <sys/syscall.h>
    #include <unistd.h>

    /* Returns at once when the word is no longer `seen`; false = a signal came, or a moment has passed in which one
       may have come: see append_lock.pxi. */
    static int sgs_futex_wait(uint32_t *word, uint32_t seen)
    {
        const struct timespec moment = { .tv_nsec = SGS_MOMENT_NS };
        return syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, &moment, NULL, 0) == 0 || errno == EAGAIN;
    }
    static void sgs_futex_wake_one(uint32_t *word)
    {
        syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    }
    #define sgs_atomic_load(place) __atomic_load_n(place, __ATOMIC_SEQ_CST)
    #define sgs_atomic_store(place, value) __atomic_store_n(place, value, __ATOMIC_SEQ_CST)
    #define sgs_atomic_add(place, value) __atomic_fetch_add(place, value, __ATOMIC_SEQ_CST)
    #define sgs_atomic_take(place) (__atomic_exchange_n(place, 1, __ATOMIC_SEQ_CST) == 0)
    """
    bint sgs_futex_wait(uint32_t *word, uint32_t seen) noexcept nogil
    void sgs_futex_wake_one(uint32_t *word) noexcept nogil
    uint32_t sgs_atomic_load(uint32_t *place) noexcept nogil
    uint64_t sgs_atomic_load_64 "sgs_atomic_load"(uint64_t *place) noexcept nogil
    void sgs_atomic_store(uint32_t *place, uint32_t value) noexcept nogil
    void sgs_atomic_store_64 "sgs_atomic_store"(uint64_t *place, uint64_t value) noexcept nogil
    uint32_t sgs_atomic_add(uint32_t *place, int value) noexcept nogil
    bint sgs_atomic_take(uint32_t *place) noexcept nogil


cdef enum _Turn:
    IS_DURABLE
    TO_LEAD  # a round, which nobody else does until ``lead`` has returned
    INTERRUPTED  # by a signal, or to see whether one came


@cython.final
@cython.auto_pickle(False)
cdef class SyncRounds:
    """Rounds of syncs, one at a time; each covers what was written before it began."""

    cdef uint32_t is_running
    cdef uint32_t changes  # of the field above and of `done`
    cdef uint32_t sleepers
    cdef uint64_t begun  # rounds that took what they sync
    cdef uint64_t done  # the last one that succeeded
    cdef AppendLock append_lock  # of the log; has the leader too

    def __cinit__(self, AppendLock append_lock not None):
        self.append_lock = append_lock

    cpdef int require_another_leader(self) except -1:
        """Raise when this thread leads a round: a signal's handler that uses the log runs in the midst of it.

        Or in the midst of what a leader waits for.
        """
        cdef unsigned long thread = PyThread_get_thread_ident()
        if self.append_lock.leader == thread:
            raise RuntimeError("this thread leads a round of syncs already: to wait for it is a deadlock")
        return self.append_lock.require_outside(thread)

    def join(self, sync_round not None):
        """Call ``sync_round()`` when no round runs, and return True; else return False when that one has ended."""
        self.require_another_leader()
        if sgs_atomic_take(&self.is_running):
            self.lead(sync_round, None)
            return True
        self.wait_for_the_end()
        return False

    def begin(self):
        """Of the round that runs: what is written from here on is not in it."""
        self.begin_next()

    cdef inline void begin_next(self) noexcept nogil:
        sgs_atomic_store_64(&self.begun, self.begun + 1)  # by the leader alone

    def wait(self):
        """Return when no round runs that began before this call."""
        self.require_another_leader()
        self.wait_for_the_end()

    cdef inline uint64_t next_round(self) noexcept nogil:
        """The first round that covers what was written before this call."""
        return sgs_atomic_load_64(&self.begun) + 1

    cdef inline bint has_ended(self, uint64_t number) noexcept nogil:
        """Whether that round, or a later one, has succeeded."""
        return sgs_atomic_load_64(&self.done) >= number

    cdef _Turn sleep_until(self, uint64_t number) noexcept nogil:
        """Until that round, or a later one, has succeeded, or somebody has to lead it.

        Where it has succeeded, the caller has the next one woken behind that.
        """
        cdef uint32_t seen
        while True:
            seen = sgs_atomic_load(&self.changes)
            if self.has_ended(number):
                return IS_DURABLE
            if sgs_atomic_take(&self.is_running):
                if not self.has_ended(number):
                    return TO_LEAD
                self.let_others()
                return IS_DURABLE
            if not self.sleep_while(seen):
                return INTERRUPTED
            if sgs_atomic_load(&self.changes) != seen and not self.has_ended(number):
                self.wake_next()  # else who sleeps behind this one has seen the last change too

    cdef inline void wake_next(self) noexcept nogil:
        """Of those who sleep the first, in the order in which they came."""
        if sgs_atomic_load(&self.sleepers) > 0:  # who counts himself from here on finds `changes` changed
            sgs_futex_wake_one(&self.changes)

    cdef int lead(self, leader, lane) except -1:
        """The round of who took ``is_running``, for a lane's appends or by a call.

        Whatever is raised, and wherever, the others are let go.
        """
        cdef uint64_t before = self.begun
        self.append_lock.leader = PyThread_get_thread_ident()
        try:
            if lane is None:
                leader()
            else:
                leader.sync_round(lane)
            if self.begun != before:
                sgs_atomic_store_64(&self.done, self.begun)
        finally:
            self.append_lock.leader = 0
            self.let_others()
        return 0

    cdef void let_others(self) noexcept nogil:
        sgs_atomic_store(&self.is_running, 0)
        sgs_atomic_add(&self.changes, 1)
        self.wake_next()

    cdef inline bint sleep_while(self, uint32_t seen) noexcept nogil:
        """Until `changes` is another; False = a signal came, or may have come."""
        cdef bint was_woken
        sgs_atomic_add(&self.sleepers, 1)
        was_woken = sgs_futex_wait(&self.changes, seen)
        sgs_atomic_add(&self.sleepers, -1)
        return was_woken

    cdef int wait_for_the_end(self) except -1:
        cdef uint32_t seen = sgs_atomic_load(&self.changes)
        cdef bint was_woken = True
        while sgs_atomic_load(&self.is_running) and sgs_atomic_load(&self.changes) == seen:
            with nogil:
                was_woken = self.sleep_while(seen)
            if not was_woken:
                check_signals()
            elif sgs_atomic_load(&self.changes) != seen:
                self.wake_next()
        return 0
