# data_file.pxi - a file of a directory, open for reading and changing (csrc/io/env.h)

cdef enum:
    COPIED_BYTES = 262144  # at once: larger pieces are slower
    BYTES_WITHOUT_GIL = 16777216  # then signals are looked at


cdef struct FileCopy:
    const sgs_env *from_env
    const sgs_env *to_env
    int from_fd
    int to_fd
    const char *from_name
    const char *to_name
    char *buffer  # COPIED_BYTES
    int64_t done
    c_bool is_writing  # what was done last
    c_bool is_at_end


cdef sgs_status copy_on(FileCopy *copy, sgs_error *err) noexcept nogil:
    """Copy so much that Python waits for a moment only."""
    cdef sgs_slice piece
    cdef size_t got = 0
    cdef int64_t end = copy.done + BYTES_WITHOUT_GIL
    cdef int64_t written = 0
    cdef sgs_status status
    while copy.done < end:
        copy.is_writing = False
        status = copy.from_env.read_at(copy.from_env, copy.from_fd, copy.from_name, copy.buffer, COPIED_BYTES,
                                       copy.done, &got, err)
        copy.is_at_end = got == 0
        if status != SGS_OK or got == 0:
            return status
        copy.is_writing = True
        piece.data = <const uint8_t *>copy.buffer
        piece.size = got
        status = copy.to_env.write_at(copy.to_env, copy.to_fd, copy.to_name, &piece, 1, copy.done, &written, err)
        if status != SGS_OK:
            return status
        copy.done += <int64_t>got
    return SGS_OK


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

    def copy_from(self, Directory source not None, str name):
        """Write all of the file *name* of *source* from its begin; returns how many bytes. An error leaves a part."""
        cdef bytes encoded = encoded_name(name)
        cdef bytes buffer = PyBytes_FromStringAndSize(NULL, COPIED_BYTES)
        cdef FileCopy copy
        cdef sgs_error err, second
        cdef sgs_status status
        memset(&copy, 0, sizeof(copy))
        copy.from_fd = -1
        copy.from_name = encoded
        copy.to_name = self.name
        copy.buffer = PyBytes_AS_STRING(buffer)
        self.enter()
        source.enter()
        try:
            copy.from_env, copy.to_env, copy.to_fd = source.env, self.env, self.fd
            with nogil:
                status = copy.from_env.open_file(
                    copy.from_env, source.fd, copy.from_name, SGS_OPEN_READ, &copy.from_fd, &err
                )
            check(status, &err, source.path)
            while not copy.is_at_end:
                with nogil:
                    status = copy_on(&copy, &err)
                check(status, &err, self.path if copy.is_writing else source.path)
                PyErr_CheckSignals()
        finally:
            if copy.from_fd >= 0:
                with nogil:
                    copy.from_env.close(copy.from_env, copy.from_fd, copy.from_name, &second)
            source.leave()
            self.leave()
        return copy.done

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
