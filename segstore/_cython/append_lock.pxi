# append_lock.pxi - one thread at a time changes a log [CON-1]
#
# A semaphore of the system, as Python's own locks are. Those look at the clock whenever they are taken, also without a
# wait: for a small append that is a fiftieth.
#
# A signal does not end a wait where a library has installed its handler with SA_RESTART, as polars does for SIGINT when
# it is imported. So no wait is longer than a moment, after which signals are looked at and the next one begins.

cdef extern from *:
    """
    #include <semaphore.h>
    #include <time.h>

    enum { SGS_MOMENT_NS = 100000000 }; /* what a Control-C may wait */

    /* Takes it, waiting a moment at most; false = it did not come by then, or a signal did. */
    static bool sgs_semaphore_take(sem_t *semaphore)
    {
        struct timespec until;
        if (sem_trywait(semaphore) == 0)
            return true;
        clock_gettime(CLOCK_REALTIME, &until); /* set back, it delays Control-C: who posts still wakes */
        until.tv_nsec += SGS_MOMENT_NS;
        if (until.tv_nsec >= 1000000000) {
            until.tv_nsec -= 1000000000;
            ++until.tv_sec;
        }
        return sem_timedwait(semaphore, &until) == 0;
    }
    """
    bint sgs_semaphore_take(sem_t *semaphore) noexcept nogil

cdef extern from "semaphore.h" nogil:
    ctypedef struct sem_t:
        pass

    int sem_init(sem_t *semaphore, int between_processes, unsigned int value)
    int sem_destroy(sem_t *semaphore)
    int sem_trywait(sem_t *semaphore)
    int sem_post(sem_t *semaphore)

cdef extern from "pythread.h":
    unsigned long PyThread_get_thread_ident()

cdef extern from *:
    """
    #if PY_VERSION_HEX < 0x030D0000
    #define Py_IsFinalizing _Py_IsFinalizing
    #endif
    """
    bint Py_IsFinalizing() noexcept


cdef int check_signals() except -1:
    """Between two moments of a wait: handlers run, and nobody waits for a thread that the interpreter's end stopped."""
    PyErr_CheckSignals()
    if Py_IsFinalizing():
        raise RuntimeError("the interpreter is shutting down: the call of another thread on the log cannot finish")
    return 0


@cython.final
cdef class AppendLock:
    """A lock for ``with`` blocks, whose wait can be interrupted; the append lane takes it without a Python call."""

    cdef sem_t semaphore  # 1 = nobody has it
    cdef bint is_held
    cdef bint is_barred  # set once, under the GIL; who misses it without the GIL finds the failure before he syncs
    cdef unsigned long owner  # the thread that has it and may run Python meanwhile, so come here again; 0 for none
    cdef unsigned long leader  # the thread that leads a round of syncs behind it, or 0; guarded by the GIL
    cdef tuple inner  # locks that are taken behind this one: who has one of them never comes here
    cdef bint syncs_may_follow  # an append through the lane, by its thread
    cdef object told  # returns who hears of a broken invariant, or None

    def __cinit__(self):
        self.inner = ()
        sem_init(&self.semaphore, 0, 1)  # fails for larger values only

    def __dealloc__(self):
        sem_destroy(&self.semaphore)

    cdef inline bint try_acquire(self) noexcept:
        """For the lane; not for who would wait for himself behind what he writes: the layers tell him before."""
        cdef unsigned long thread
        if self.syncs_may_follow:
            thread = PyThread_get_thread_ident()
            if self.leader == thread or self.is_within(thread):
                return False
        return self.take()

    cdef inline bint take(self) noexcept:
        if sem_trywait(&self.semaphore) != 0:
            return False
        self.is_held = True
        return True

    cdef inline bint wait_for(self) noexcept nogil:
        """Take it within a moment; False = it is to be tried again, behind a look at signals."""
        if not sgs_semaphore_take(&self.semaphore):
            return False
        self.is_held = True
        return True

    cdef inline void release(self) noexcept nogil:
        self.is_held = False
        sem_post(&self.semaphore)

    def __enter__(self):
        self.acquire()

    cdef int acquire(self) except -1:
        """By a thread that may run Python while it has the lock."""
        cdef unsigned long thread = PyThread_get_thread_ident()
        cdef bint taken
        self.require_outside(thread)
        while not self.take():
            if self.owner == thread:
                raise RuntimeError("this thread holds the lock already: to wait for it is a deadlock")
            with nogil:
                taken = self.wait_for()
            if taken:
                break
            check_signals()
        self.owner = thread
        return 0

    def unless(self, has_to_go not None):
        """For a ``with`` block too, which is told whether it has the lock: not once has_to_go() is true."""
        return AppendLockAttempt(self, has_to_go)

    cdef bint acquire_unless(self, has_to_go) except *:
        """As `acquire`, and True; False once has_to_go() says that the wait would not end."""
        cdef unsigned long thread = PyThread_get_thread_ident()
        cdef bint taken
        self.require_outside(thread)
        while not self.take():
            if self.owner == thread or has_to_go():
                return False
            with nogil:
                taken = self.wait_for()
            if taken:
                break
            check_signals()
        self.owner = thread
        return True

    cdef inline void give_back(self) noexcept:
        """What was taken by `acquire`."""
        self.owner = 0
        self.release()

    def __exit__(self, kind=None, error=None, traceback=None):
        if not self.is_held:
            raise RuntimeError("the lock is not held")
        try:
            if kind is not None and isinstance(error, InternalError):  # before the next one gets in
                self.tell(error)
        finally:
            self.give_back()

    cdef bint is_within(self, unsigned long thread) noexcept:
        """Whether *thread* has an inner lock: it runs the handler of a signal that came meanwhile."""
        for lock in self.inner:
            if (<AppendLock>lock).owner == thread:
                return True
        return False

    def require_another_owner(self):
        """Raise RuntimeError where this thread has it already: whoever waits for the lock waits for this call."""
        if self.owner == PyThread_get_thread_ident():
            raise RuntimeError("this thread holds the lock already: to wait for it is a deadlock")

    cdef int require_outside(self, unsigned long thread) except -1:
        """Raise before anything changes: further on, such a handler would wait for itself, perhaps halfway."""
        if self.is_within(thread):
            raise RuntimeError("this thread is writing a file of the log already: to wait for that is a deadlock")
        return 0

    def comes_before(self, AppendLock inner not None):
        """Who holds *inner* never takes this lock: a signal's handler that does is told here, before it waits there."""
        self.inner += (inner,)

    def expect_syncs(self, bint may_follow):
        """Behind an append through the lane its thread may have to sync, for which it waits for nobody but others."""
        self.syncs_may_follow = may_follow

    cdef int tell(self, error) except -1:
        mark = None if self.told is None else self.told()
        if mark is not None:
            mark.poison(error)
        return 0

    def tell_of_broken_invariants(self, mark):
        """Let *mark* end writing when an invariant of segstore does not hold in a change [DUR-44]."""
        self.told = weakref.ref(mark)

    def bar(self):
        """The log takes no changes any more: nobody gets in who does not look why."""
        self.is_barred = True

    def locked(self):
        """Whether somebody holds it."""
        return self.is_held


@cython.final
@cython.auto_pickle(False)
cdef class AppendLockAttempt:
    """One ``with`` block, with the lock or without."""

    cdef AppendLock append_lock
    cdef object has_to_go
    cdef bint is_within

    def __cinit__(self, AppendLock append_lock not None, has_to_go not None):
        self.append_lock = append_lock
        self.has_to_go = has_to_go

    def __enter__(self):
        self.is_within = self.append_lock.acquire_unless(self.has_to_go)
        return self.is_within

    def __exit__(self, kind=None, error=None, traceback=None):
        if self.is_within:
            self.is_within = False
            self.append_lock.give_back()


@cython.final
@cython.auto_pickle(False)
cdef class ChangeLock:
    """The lock for ``with`` blocks that change a log: the log is asked before the wait, and again with the lock.

    Before, because a forked child may wait for ever; again, because the log may have been closed meanwhile.
    A context manager in Python would keep the lock when a signal comes between its entry and the block.
    """

    cdef AppendLock append_lock
    cdef object require_writable

    def __cinit__(self, AppendLock append_lock not None, require_writable not None):
        self.append_lock = append_lock
        self.require_writable = require_writable

    def __enter__(self):
        self.require_writable()
        self.append_lock.acquire()
        try:
            self.require_writable()
        except BaseException:
            self.append_lock.give_back()
            raise

    def __exit__(self, kind=None, error=None, traceback=None):
        self.append_lock.__exit__(kind, error, traceback)
