# append_lock.pxi - one thread at a time changes a log [CON-1]

cdef extern from "pythread.h":
    PyLockStatus PyThread_acquire_lock_timed(PyThread_type_lock, long long microseconds, int interruptible) nogil


@cython.final
cdef class AppendLock:
    """A lock for ``with`` blocks, which the append lane takes without a Python call; a wait can be interrupted."""

    cdef PyThread_type_lock lock
    cdef bint is_held  # guarded by the GIL

    def __cinit__(self):
        self.lock = PyThread_allocate_lock()
        if self.lock == NULL:
            raise MemoryError

    def __dealloc__(self):
        if self.is_held:
            PyThread_release_lock(self.lock)
        if self.lock != NULL:
            PyThread_free_lock(self.lock)

    cdef inline bint try_acquire(self) noexcept:
        if not PyThread_acquire_lock(self.lock, NOWAIT_LOCK):
            return False
        self.is_held = True
        return True

    cdef inline void release(self) noexcept:
        self.is_held = False
        PyThread_release_lock(self.lock)

    def __enter__(self):
        cdef PyLockStatus status
        while not self.try_acquire():
            with nogil:
                status = PyThread_acquire_lock_timed(self.lock, -1, 1)
            if status == PY_LOCK_ACQUIRED:
                self.is_held = True
                return
            PyErr_CheckSignals()

    def __exit__(self, *_):
        if not self.is_held:
            raise RuntimeError("the lock is not held")
        self.release()

    def locked(self):
        """Whether somebody holds it."""
        return self.is_held
