# file_lock.pxi - a lock on a file of a directory (csrc/io/env.h)

@cython.final
@cython.no_gc_clear
cdef class FileLock:
    """A lock on a whole file, held by this process until it is released [DUR-65, DUR-66]."""

    cdef Environment environment
    cdef const sgs_env *env  # of environment
    cdef int fd
    cdef int64_t process
    cdef bytes name
    cdef bint is_held

    def __cinit__(self, Environment environment not None):
        self.environment = environment
        self.env = environment.env
        self.fd = -1
        self.process = current_process

    def __dealloc__(self):
        self.drop()

    cdef void drop(self) noexcept:
        """Unlock in the process that locked; a forked child shares the lock and may only close its descriptor."""
        cdef sgs_error err
        cdef int fd = self.fd
        self.fd = -1
        if self.env == NULL or fd < 0:  # NULL where not even the arguments were right
            return
        if self.is_held and self.process == current_process:
            self.env.unlock(self.env, fd, "", &err)
        self.is_held = False
        self.env.close(self.env, fd, "", &err)

    def release(self):
        """Unlock, then close; twice is harmless."""
        if self.process != current_process:
            raise ForkedHandleError(f"the lock belongs to process {self.process}", found=f"process {current_process}")
        self.drop()

    @property
    def held(self):
        return bool(self.is_held) and self.process == current_process
