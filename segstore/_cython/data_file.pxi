# data_file.pxi - a file of a directory, open for reading and changing (csrc/io/env.h)

@cython.final
@cython.no_gc_clear
cdef class DataFile(_Handle):
    """A regular file, opened by its name in a directory; changes are on stable storage after `sync`."""

    cdef Directory directory
    cdef Environment environment
    cdef const sgs_env *env  # of environment
    cdef int fd
    cdef bytes name
    cdef str path

    def __cinit__(self, Directory directory not None, str name, *, bint create=False):
        cdef sgs_open_mode mode = SGS_OPEN_WRITE_OR_CREATE if create else SGS_OPEN_WRITE
        cdef sgs_error err
        cdef sgs_status status
        cdef const char *text
        self.directory = directory
        self.environment = directory.environment
        self.env = directory.env
        self.fd = -1
        self.name = encoded_name(name)
        self.path = directory.path
        text = self.name
        directory.enter()
        try:
            with nogil:
                status = self.env.open_file(self.env, directory.fd, text, mode, &self.fd, &err)
            check(status, &err, self.path)
        finally:
            directory.leave()
        self.is_closed = False

    def __dealloc__(self):
        self.release()

    cdef void release(self) noexcept:
        cdef sgs_error err
        cdef int fd = self.fd
        if self.env != NULL and fd >= 0:  # NULL where not even the arguments were right
            self.fd = -1
            with nogil:  # it may wait for a sync
                self.env.close(self.env, fd, "", &err)

    def __enter__(self):
        self.require_open()
        return self

    def __exit__(self, kind, error, traceback):
        self.close()

    @property
    def size(self):
        cdef sgs_file_info info
        cdef sgs_error err
        cdef sgs_status status
        cdef const char *text = self.name
        self.enter()
        try:
            with nogil:
                status = self.env.file_info(self.env, self.fd, text, &info, &err)
            check(status, &err, self.path)
        finally:
            self.leave()
        return info.size

    def write(self, int64_t position, data):
        """Write all of *data* at *position*; what a failure left behind the former end is cut off again [DUR-32]."""
        cdef const char *text = self.name
        cdef sgs_file_info info
        cdef sgs_slice piece
        cdef Py_buffer view
        cdef int64_t written = 0
        cdef sgs_error err, second
        cdef sgs_status status
        if position < 0:
            raise IllegalArgumentError(f"no position: {position}", found=str(position), expected="0 or more")
        PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
        try:
            self.enter()
            try:
                piece.data = <const uint8_t *>view.buf
                piece.size = <size_t>view.len
                with nogil:
                    status = self.env.file_info(self.env, self.fd, text, &info, &err)
                    if status == SGS_OK and piece.size > 0:
                        status = self.env.write_at(self.env, self.fd, text, &piece, 1, position, &written, &err)
                        if status != SGS_OK and position + written > info.size:
                            self.env.truncate(self.env, self.fd, text, info.size, &second)
                check(status, &err, self.path)
            finally:
                self.leave()
        finally:
            PyBuffer_Release(&view)

    def truncate(self, int64_t size):
        """Cut the file to *size* bytes; returns how many went. Of the same size, it is not touched [SEG-26]."""
        cdef const char *text = self.name
        cdef sgs_file_info info
        cdef sgs_error err
        cdef sgs_status status
        self.enter()
        try:
            with nogil:
                status = self.env.file_info(self.env, self.fd, text, &info, &err)
                if status == SGS_OK and 0 <= size < info.size:
                    status = self.env.truncate(self.env, self.fd, text, size, &err)
            check(status, &err, self.path)
        finally:
            self.leave()
        if not 0 <= size <= info.size:
            raise IllegalArgumentError(
                f"a file of {info.size} bytes cannot be cut to {size}", file=f"{self.path}/{self.name.decode()}",
                found=str(size), expected=f"0 to {info.size}",
            )
        return info.size - size

    def sync(self, barrier, *, bint ends_writing=False):
        """Data and size to stable storage; *ends_writing*: a failure marks the directory, told or not [DUR-35]."""
        self.sync_as(barrier_of(barrier), ends_writing)

    cdef int sync_as(self, sgs_barrier promise, bint ends_writing) except -1:
        cdef const char *text = self.name
        cdef sgs_error err
        cdef sgs_status status
        self.enter()
        try:
            with nogil:
                status = self.env.sync_file(self.env, self.fd, text, promise, &err)
                if ends_writing and status == SGS_FSYNC_FAILED:
                    self.directory.sync_failed = True
            check(status, &err, self.path)
        finally:
            self.leave()
        return 0

    def close(self):
        """Let go of the descriptor; twice is harmless."""
        if self.process != current_process:
            self.require_open()
        if not self.is_closed:
            self.mark_closed()
