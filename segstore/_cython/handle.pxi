# handle.pxi - what is opened: callers inside are counted, and a forked child stays out [DUR-68]

cdef extern from "pthread.h" nogil:
    int pthread_atfork(void (*prepare)() noexcept nogil, void (*parent)() noexcept nogil,
                       void (*child)() noexcept nogil)

cdef int64_t current_process = environment.process_id(environment)


cdef void note_fork() noexcept nogil:
    global current_process
    current_process = environment.process_id(environment)


pthread_atfork(NULL, NULL, &note_fork)  # asking the system at every call would double the cost of a small one


cdef class _Handle:
    """Base of what holds descriptors. All fields are guarded by the GIL.

    A call enters before it lets the GIL go and leaves when it has it back; ``release`` runs when the handle is closed
    and nobody is inside, so no descriptor is closed, and no memory freed, under a call that uses it.
    """

    cdef int64_t process
    cdef int32_t callers
    cdef bint is_closed

    def __cinit__(self):
        self.process = current_process
        self.is_closed = True  # until the subclass has opened what it holds

    cdef str kind(self):
        """What error texts call it."""
        return type(self).__name__

    cdef int require_open(self) except -1:
        if self.process != current_process:
            raise ForkedHandleError(
                f"this {self.kind()} was opened by process {self.process}: open it in process "
                f"{current_process} instead",
                found=f"process {current_process}",
                expected=f"process {self.process}",
            )
        if self.is_closed:
            raise ClosedError(f"this {self.kind()} is closed")
        return 0

    cdef int enter(self) except -1:
        self.require_open()
        self.callers += 1
        return 0

    cdef void leave(self) noexcept:
        self.callers -= 1
        if self.is_closed and self.callers == 0:
            self.release()

    cdef void mark_closed(self) noexcept:
        self.is_closed = True
        if self.callers == 0:
            self.release()

    cdef void release(self) noexcept:
        """Give back descriptors and memory, quietly; twice is harmless."""
