# directory.pxi - a directory held open, and its files by name (csrc/io/env.h)

@cython.final
@cython.no_gc_clear  # its environment outlives its descriptor
cdef class Directory(_DirectoryWrites):
    """A directory, opened once and known again by device and inode [DUR-10, DUR-99]."""

    cdef readonly bint created

    def __cinit__(self, path, Environment environment=None, *, bint create=False):
        cdef bytes encoded = os.fsencode(path)
        cdef bytes absolute = encoded
        cdef bytes parent = os.path.dirname(encoded.rstrip(b"/")) or (b"/" if encoded.startswith(b"/") else b".")
        cdef const char *name
        cdef const char *parent_name = parent
        cdef sgs_error err
        cdef sgs_status status
        self.environment = system_environment if environment is None else environment
        self.env = self.environment.env
        self.fd = -1
        self.path = os.fsdecode(path)
        if not encoded or b"\0" in encoded:
            raise IllegalArgumentError(
                f"{self.path!r} is not a path", found=repr(self.path), expected="a path without NUL"
            )
        if is_pooled(self.env) and not encoded.startswith(b"/"):  # it is opened again by its path
            absolute = os.path.join(os.getcwdb(), encoded)
        name = absolute
        with nogil:
            status = self.env.open_directory(self.env, SGS_CWD, name, &self.fd, &err)
            if status == SGS_NOT_FOUND and create:
                status = self.make(name, parent_name, &err)
        check(status, &err, self.path)
        self.is_closed = False

    def note_renamed(self, path):
        """It is the same directory, and its name is *path* from now on."""
        self.path = os.fsdecode(path)

    def __dealloc__(self):
        self.release()

    cdef sgs_status make(self, const char *name, const char *parent_name, sgs_error *err) noexcept nogil:
        """Make the last component and sync its parent, so that a crash does not lose it [DUR-11]."""
        cdef int parent_fd = -1
        cdef sgs_error second
        cdef sgs_status status = self.env.make_directory(self.env, SGS_CWD, name, err)
        if status == SGS_OK:
            self.created = True
            status = self.env.open_directory(self.env, SGS_CWD, parent_name, &parent_fd, err)
            if status == SGS_OK:
                status = self.env.sync_directory(self.env, parent_fd, SGS_BARRIER_NEW_DIRECTORY, err)
                self.env.close(self.env, parent_fd, parent_name, &second)
                if status != SGS_OK:  # no later sync brings the name to the disk: it has to be made again [DUR-35]
                    self.env.remove_directory(self.env, SGS_CWD, name, &second)
        elif status == SGS_ALREADY_EXISTS:  # another process made it in between
            status = SGS_OK
        if status == SGS_OK:
            status = self.env.open_directory(self.env, SGS_CWD, name, &self.fd, err)
        return status

    cdef void release(self) noexcept:
        cdef sgs_error err
        cdef int fd = self.fd
        if self.env != NULL and fd >= 0:  # NULL where not even the arguments were right
            self.fd = -1
            with nogil:  # it may wait for a sync
                self.env.close(self.env, fd, ".", &err)

    @property
    def closed(self):
        return bool(self.is_closed)

    @property
    def identity(self):
        cdef sgs_file_info info
        cdef sgs_error err
        cdef sgs_status status
        self.enter()
        try:
            with nogil:
                status = self.env.file_info(self.env, self.fd, ".", &info, &err)
            check(status, &err, self.path)
        finally:
            self.leave()
        return (info.device, info.inode)

    def wall_clock_ms(self):
        """Milliseconds since 1970, by the clock of the environment."""
        return self.env.wall_clock_ms(self.env)

    def monotonic_ns(self):
        """Nanoseconds of a clock of the environment that never goes back."""
        return self.env.monotonic_ns(self.env)

    def is_network_file_system(self):
        """Whether the directory is on NFS, CIFS, FUSE or the like [DUR-72]."""
        cdef c_bool is_network = False
        cdef sgs_error err
        cdef sgs_status status
        self.enter()
        try:
            with nogil:
                status = self.env.is_network_file_system(self.env, self.fd, &is_network, &err)
            check(status, &err, self.path)
        finally:
            self.leave()
        return bool(is_network)

    def read_file(self, str name, int64_t max_bytes=67108864):
        """A small regular file whole."""
        cdef bytes encoded = encoded_name(name)
        cdef const char *text = encoded
        cdef int fd = -1
        cdef size_t got = 0
        cdef sgs_file_info info
        cdef sgs_error err, second
        cdef sgs_status status
        cdef char *target
        self.enter()
        try:
            with nogil:
                status = self.env.open_file(self.env, self.fd, text, SGS_OPEN_READ, &fd, &err)
                if status == SGS_OK:
                    status = self.env.file_info(self.env, fd, text, &info, &err)
            check(status, &err, self.path)
            if info.size > max_bytes:
                raise LimitExceededError(
                    "the file is too large to be read whole",
                    file=os.path.join(self.path, name),
                    found=f"{info.size} bytes",
                    expected=f"at most {max_bytes} bytes",
                )
            content = PyBytes_FromStringAndSize(NULL, <Py_ssize_t>info.size)
            target = PyBytes_AS_STRING(content)
            with nogil:
                status = self.env.read_at(self.env, fd, text, target, <size_t>info.size, 0, &got, &err)
            check(status, &err, self.path)
        finally:
            if fd >= 0:
                with nogil:
                    self.env.close(self.env, fd, text, &second)
            self.leave()
        return content if got == <size_t>info.size else content[:got]

    def read_range(self, str name, int64_t position, int64_t size):
        """Up to *size* bytes of a regular file from *position* on; fewer only at its end."""
        cdef bytes encoded = encoded_name(name)
        cdef const char *text = encoded
        cdef int fd = -1
        cdef size_t got = 0
        cdef sgs_error err, second
        cdef sgs_status status
        cdef char *target
        if position < 0 or size < 0:
            raise IllegalArgumentError(
                f"no range: {size} bytes from {position}",
                found=f"{size} bytes from {position}",
                expected="0 or more of each",
            )
        self.enter()
        try:
            with nogil:
                status = self.env.open_file(self.env, self.fd, text, SGS_OPEN_READ, &fd, &err)
            check(status, &err, self.path)
            content = PyBytes_FromStringAndSize(NULL, <Py_ssize_t>size)
            target = PyBytes_AS_STRING(content)
            with nogil:
                status = self.env.read_at(self.env, fd, text, target, <size_t>size, position, &got, &err)
            check(status, &err, self.path)
        finally:
            if fd >= 0:
                with nogil:
                    self.env.close(self.env, fd, text, &second)
            self.leave()
        return content if got == <size_t>size else content[:got]

    def set_modified(self, str name, int64_t modified_ms):
        """Set the time of the last modification; a link itself is not followed."""
        cdef bytes encoded = encoded_name(name)
        cdef const char *text = encoded
        cdef sgs_error err
        cdef sgs_status status
        self.enter()
        try:
            with nogil:
                status = self.env.set_modified_at(self.env, self.fd, text, modified_ms, &err)
            check(status, &err, self.path)
        finally:
            self.leave()

    def rename(self, str old, str new):
        """Rename inside the directory, without a sync."""
        cdef bytes encoded_old = encoded_name(old)
        cdef bytes encoded_new = encoded_name(new)
        cdef const char *old_text = encoded_old
        cdef const char *new_text = encoded_new
        cdef sgs_error err
        cdef sgs_status status
        self.enter()
        try:
            with nogil:
                status = self.env.rename(self.env, self.fd, old_text, new_text, &err)
            check(status, &err, self.path)
        finally:
            self.leave()

    def unlink(self, str name, *, bint missing_ok=False):
        """Remove a file, without a sync."""
        cdef bytes encoded = encoded_name(name)
        cdef const char *text = encoded
        cdef sgs_error err
        cdef sgs_status status
        self.enter()
        try:
            with nogil:
                status = self.env.unlink(self.env, self.fd, text, &err)
            if not (missing_ok and status == SGS_NOT_FOUND):
                check(status, &err, self.path)
        finally:
            self.leave()

    def make_directory(self, str name):
        """Make a directory below this one, without a sync."""
        cdef bytes encoded = encoded_name(name)
        cdef const char *text = encoded
        cdef sgs_error err
        cdef sgs_status status
        self.enter()
        try:
            with nogil:
                status = self.env.make_directory(self.env, self.fd, text, &err)
            check(status, &err, self.path)
        finally:
            self.leave()

    def remove_directory(self, str name):
        """Remove an empty directory below this one, without a sync."""
        cdef bytes encoded = encoded_name(name)
        cdef const char *text = encoded
        cdef sgs_error err
        cdef sgs_status status
        self.enter()
        try:
            with nogil:
                status = self.env.remove_directory(self.env, self.fd, text, &err)
            check(status, &err, self.path)
        finally:
            self.leave()

    def lock(self, str name, *, bint exclusive):
        """Lock the file, at once or not at all [DUR-65]."""
        cdef FileLock lock = FileLock.__new__(FileLock, self.environment)
        cdef sgs_open_mode mode = SGS_OPEN_WRITE_OR_CREATE if exclusive else SGS_OPEN_READ
        cdef sgs_lock_kind kind = SGS_LOCK_EXCLUSIVE if exclusive else SGS_LOCK_SHARED
        cdef sgs_error err
        cdef sgs_status status
        cdef bytes encoded = encoded_name(name)
        cdef const char *text = encoded
        self.enter()
        try:
            with nogil:
                status = lock.take(self.fd, text, mode, kind, &err)
            check(status, &err, self.path)
        finally:
            self.leave()
        return lock

    def close(self):
        """Let go of the descriptor; calls that are inside, and segments that are open, keep it until they are done."""
        if self.process != current_process:
            self.require_open()
        if not self.is_closed:
            self.mark_closed()
