# directory_writes.pxi - small files written whole, and the names of all files, on stable storage (csrc/io/barrier.h)

cdef inline sgs_barrier name_barrier(sgs_barrier content) noexcept nogil:
    return <sgs_barrier>(<int>content + 1)


cdef sgs_status write_whole_file(const sgs_env *env, int directory_fd, const char *name, const Py_buffer *data,
                                 sgs_barrier barrier, sgs_error *err) noexcept nogil:
    """Make *name* hold exactly *data*, on stable storage."""
    cdef sgs_slice piece
    cdef sgs_error second
    cdef int64_t written = 0
    cdef int fd = -1
    cdef sgs_status closed
    cdef sgs_status status = env.open_file(env, directory_fd, name, SGS_OPEN_WRITE_OR_CREATE, &fd, err)
    if status != SGS_OK:
        return status
    piece.data = <const uint8_t *>data.buf
    piece.size = <size_t>data.len
    status = env.truncate(env, fd, name, 0, err)
    if status == SGS_OK and piece.size > 0:
        status = env.write_at(env, fd, name, &piece, 1, 0, &written, err)
    if status == SGS_OK:
        status = env.sync_file(env, fd, name, barrier, err)
    closed = env.close(env, fd, name, &second)
    if status == SGS_OK and closed != SGS_OK:
        err[0] = second
        status = closed
    return status


cdef class _DirectoryWrites(_DirectoryNames):
    """The part of `Directory` that syncs."""

    cdef readonly c_bool sync_failed  # for good

    def write_file_atomically(self, str name, data, barrier):
        """Write beside, sync, rename, sync the directory: old content or new, never half [DUR-21]."""
        self.write_beside(name, data, barrier)
        self.put_in_place(name, barrier)

    def write_beside(self, str name, data, barrier):
        """Write the next content of a file, as *name*.tmp, and sync it."""
        cdef sgs_barrier promise = content_barrier_of(barrier)
        cdef bytes encoded = encoded_name(name) + b".tmp"
        cdef const char *text = encoded
        cdef Py_buffer view
        cdef sgs_error err, second
        cdef sgs_status status
        PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
        try:
            self.enter()
            try:
                with nogil:
                    status = write_whole_file(self.env, self.fd, text, &view, promise, &err)
                    if status != SGS_OK:
                        self.env.unlink(self.env, self.fd, text, &second)
                check(status, &err, self.path)
            finally:
                self.leave()
        finally:
            PyBuffer_Release(&view)

    def put_in_place(self, str name, barrier):
        """Give what was written beside its name, and sync the directory."""
        cdef sgs_barrier promise = content_barrier_of(barrier)
        cdef bytes encoded = encoded_name(name)
        cdef bytes encoded_beside = encoded + b".tmp"
        cdef const char *text = encoded
        cdef const char *beside = encoded_beside
        cdef sgs_error err, second
        cdef sgs_status status
        self.enter()
        try:
            with nogil:
                status = self.env.rename(self.env, self.fd, beside, text, &err)
                if status == SGS_OK:
                    status = self.sync_names(name_barrier(promise), &err)
                else:
                    self.env.unlink(self.env, self.fd, beside, &second)
            check(status, &err, self.path)
        finally:
            self.leave()

    def create_file(self, str name, data, barrier):
        """Create or rewrite in place, then sync file and directory [DUR-24]."""
        cdef sgs_barrier promise = content_barrier_of(barrier)
        cdef bytes encoded = encoded_name(name)
        cdef const char *text = encoded
        cdef Py_buffer view
        cdef sgs_error err
        cdef sgs_status status
        PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
        try:
            self.enter()
            try:
                with nogil:
                    status = write_whole_file(self.env, self.fd, text, &view, promise, &err)
                    if status == SGS_OK:
                        status = self.sync_names(name_barrier(promise), &err)
                check(status, &err, self.path)
            finally:
                self.leave()
        finally:
            PyBuffer_Release(&view)

    def make_file(self, str name):
        """Make an empty file where there is none, without a sync."""
        cdef bytes encoded = encoded_name(name)
        cdef const char *text = encoded
        cdef int fd = -1
        cdef sgs_error err
        cdef sgs_status status
        self.enter()
        try:
            with nogil:
                status = self.env.open_file(self.env, self.fd, text, SGS_OPEN_WRITE_OR_CREATE, &fd, &err)
                if status == SGS_OK:
                    status = self.env.close(self.env, fd, text, &err)
            check(status, &err, self.path)
        finally:
            self.leave()

    cdef sgs_status sync_names(self, sgs_barrier barrier, sgs_error *err) noexcept nogil:
        """Sync, unless that failed before: an error is told once, and the next sync proves nothing [DUR-35]."""
        cdef sgs_status status
        if not self.sync_failed:
            status = self.env.sync_directory(self.env, self.fd, barrier, err)
            if status == SGS_FSYNC_FAILED:
                self.sync_failed = True
            if status != SGS_OK or not self.sync_failed:  # another thread's, meanwhile
                return status
        return sgs_fail(err, SGS_FSYNC_FAILED, "a sync of the directory failed before and is not tried again")

    def sync(self, barrier):
        """Names to stable storage."""
        cdef sgs_barrier promise = barrier_of(barrier)
        cdef sgs_error err
        cdef sgs_status status
        self.enter()
        try:
            with nogil:
                status = self.sync_names(promise, &err)
            check(status, &err, self.path)
        finally:
            self.leave()
