# append_lock.pxi - one thread at a time changes a log [CON-1]
#
# The GIL guards the fields, so that nobody has to ask the system for a lock that is free: for a small append that is a
# twentieth. Who finds it held sleeps at the gate, and whoever releases the lock wakes one of them, who looks again.

cdef extern from "pythread.h":
    PyLockStatus PyThread_acquire_lock_timed(PyThread_type_lock, long long microseconds, int interruptible) nogil


@cython.final
cdef class AppendLock:
    """A lock for ``with`` blocks, which the append lane takes without a Python call; a wait can be interrupted."""

    cdef PyThread_type_lock gate  # open as long as one is woken and has not come yet
    cdef int32_t waiting
    cdef bint is_woken
    cdef bint is_held
    cdef bint is_barred

    def __cinit__(self):
        self.gate = PyThread_allocate_lock()
        if self.gate == NULL:
            raise MemoryError
        PyThread_acquire_lock(self.gate, NOWAIT_LOCK)

    def __dealloc__(self):
        if self.gate == NULL:
            return
        if not self.is_woken:
            PyThread_release_lock(self.gate)
        PyThread_free_lock(self.gate)

    cdef inline bint try_acquire(self) noexcept:
        if self.is_held:
            return False
        self.is_held = True
        return True

    cdef inline void release(self) noexcept:
        self.is_held = False
        if self.waiting > 0 and not self.is_woken:
            self.is_woken = True
            PyThread_release_lock(self.gate)

    def __enter__(self):
        cdef PyLockStatus status
        while not self.try_acquire():
            self.waiting += 1
            with nogil:
                status = PyThread_acquire_lock_timed(self.gate, -1, 1)
            self.waiting -= 1
            if status == PY_LOCK_ACQUIRED:
                self.is_woken = False  # nothing may be raised before it has looked: nobody else is woken
            else:
                PyErr_CheckSignals()

    def __exit__(self, *_):
        if not self.is_held:
            raise RuntimeError("the lock is not held")
        self.release()

    def bar(self):
        """The log takes no changes any more: nobody gets in who does not look why."""
        self.is_barred = True

    def locked(self):
        """Whether somebody holds it."""
        return self.is_held
