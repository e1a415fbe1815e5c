# directory.pxi - a directory held open, and its files by name (csrc/io/, csrc/segment/segment_listing.h)

class FileInfo(NamedTuple):
    size: int
    modified_ms: int
    changed_ns: int
    is_directory: bool
    is_regular: bool
    inode: int


cdef enum:
    MAX_NAMES = 1000000  # [DUR-98]


cdef bytes encoded_name(str name):
    """The bytes of a name inside a directory; what is no single name is refused [DUR-101]."""
    cdef bytes encoded = name.encode("utf-8", "surrogateescape")
    if not encoded or b"/" in encoded or b"\0" in encoded or encoded in (b".", b".."):
        raise IllegalArgumentError(
            f"{name!r} is not the name of a file", found=repr(name), expected="a name without / and NUL"
        )
    return encoded


cdef int require_range(int64_t position, int64_t size) except -1:
    if position < 0 or size < 0:
        raise IllegalArgumentError(
            f"no range: {size} bytes from {position}",
            found=f"{size} bytes from {position}",
            expected="0 or more of each",
        )
    return 0


cdef list names_of_text(const sgs_buffer *text):
    """Names, each with its NUL, as they are to Python."""
    found = PyBytes_FromStringAndSize(<const char *>text.data, <Py_ssize_t>text.size)
    names = found.decode("utf-8", "surrogateescape").split("\0")
    names.pop()
    return names


cdef struct NameList:
    sgs_buffer text  # names, each with its NUL
    int64_t count


cdef sgs_status collect_name(void *context, const char *name, sgs_error *err) noexcept nogil:
    cdef NameList *names = <NameList *>context
    names.count += 1
    if names.count > MAX_NAMES:
        return sgs_fail(err, SGS_LIMIT_EXCEEDED, "more than %d names in the directory", <int>MAX_NAMES)
    return sgs_buffer_append(&names.text, name, strlen(name) + 1, err)


cdef object file_info_of(const sgs_file_info *info):
    return FileInfo(
        info.size, info.modified_ms, info.changed_ns, bool(info.is_directory), bool(info.is_regular), info.inode
    )


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


cdef class DataFile(_Handle)


@cython.final
@cython.no_gc_clear  # its environment outlives its descriptor
cdef class Directory(_Handle):
    """A directory, opened once and known again by device and inode [DUR-10, DUR-99]."""

    cdef readonly Environment environment
    cdef const sgs_env *env  # of environment
    cdef int fd
    cdef readonly str path
    cdef readonly c_bool sync_failed  # for good
    cdef readonly bint created
    cdef bint postpones_syncs
    cdef dict postponed  # what was written beside, by name: the file and what its sync is for

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
        require_range(position, size)
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

    def read_view(self, str name, int64_t position, int64_t size):
        """What a regular file has of *size* bytes from *position* on, in memory that is used again."""
        cdef bytes encoded = encoded_name(name)
        cdef const char *text = encoded
        cdef int fd = -1
        cdef size_t got = 0
        cdef sgs_file_info info
        cdef sgs_error err, second
        cdef sgs_status status
        cdef RangeBytes found = RangeBytes.__new__(RangeBytes)
        require_range(position, size)
        self.enter()
        try:
            with nogil:
                status = self.env.open_file(self.env, self.fd, text, SGS_OPEN_READ, &fd, &err)
                if status == SGS_OK:
                    status = self.env.file_info(self.env, fd, text, &info, &err)
            check(status, &err, self.path)
            size = min(size, max(info.size - position, 0))
            check(found.make_room(<size_t>size, position, &err), &err, self.path)
            with nogil:
                status = self.env.read_at(
                    self.env, fd, text, <char *>found.content.data, <size_t>size, position, &got, &err
                )
            check(status, &err, self.path)
        finally:
            if fd >= 0:
                with nogil:
                    self.env.close(self.env, fd, text, &second)
            self.leave()
        found.content.size = got
        return PyMemoryView_FromObject(found)

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

    def make_read_only(self, str name):
        """Take the permission to write a file from everybody; a link is not followed, nothing is synced."""
        cdef bytes encoded = encoded_name(name)
        cdef const char *text = encoded
        cdef sgs_error err
        cdef sgs_status status
        self.enter()
        try:
            with nogil:
                status = self.env.make_read_only_at(self.env, self.fd, text, &err)
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
        self.postponed = None
        if not self.is_closed:
            self.mark_closed()

    def names(self, *, bint ordered=True):
        """All names, sorted unless that is not wanted."""
        cdef NameList names
        cdef sgs_error err
        cdef sgs_status status
        self.enter()
        sgs_buffer_init(&names.text, memory)
        names.count = 0
        try:
            with nogil:
                status = self.env.list_directory(self.env, self.fd, &collect_name, &names, &err)
            check(status, &err, self.path)
            found = names_of_text(&names.text)
        finally:
            sgs_buffer_deinit(&names.text)
            self.leave()
        if ordered:
            found.sort()
        return found

    def segment_listing(self):
        """All names again, sorted into segments."""
        cdef SegmentListing found = SegmentListing()
        cdef sgs_error err
        cdef sgs_status status
        self.enter()
        try:
            with nogil:
                status = sgs_segment_listing_read(&found.listing, self.env, self.fd, &err)
            check(status, &err, self.path)
        finally:
            self.leave()
        return found

    def has_segments(self):
        """Whether there is the .log of a segment; looks no further than to the first one."""
        cdef c_bool found = False
        cdef sgs_error err
        cdef sgs_status status
        self.enter()
        try:
            with nogil:
                status = sgs_segment_listing_has_log(self.env, self.fd, &found, &err)
            check(status, &err, self.path)
        finally:
            self.leave()
        return bool(found)

    def info(self, str name):
        """Size, time and kind of a name; links are not followed."""
        cdef bytes encoded = encoded_name(name)
        cdef const char *text = encoded
        cdef sgs_file_info info
        cdef sgs_error err
        cdef sgs_status status
        self.enter()
        try:
            with nogil:
                status = self.env.file_info_at(self.env, self.fd, text, &info, &err)
            check(status, &err, self.path)
        finally:
            self.leave()
        return file_info_of(&info)

    def own_info(self):
        """The same of the directory itself: it changes with every name in it."""
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
        return file_info_of(&info)

    def fingerprint(self, str name_left_out):
        """One number for all names but that one, their sizes, times and small contents."""
        cdef bytes encoded = encoded_name(name_left_out)
        cdef const char *text = encoded
        cdef int64_t found = 0
        cdef sgs_error err
        cdef sgs_status status
        self.enter()
        try:
            with nogil:
                status = sgs_directory_fingerprint(self.env, self.fd, text, &found, &err)
            check(status, &err, self.path)
        finally:
            self.leave()
        return found

    def exists(self, str name):
        """Whether there is anything of that name."""
        cdef bytes encoded = encoded_name(name)
        cdef const char *text = encoded
        cdef sgs_file_info info
        cdef sgs_error err
        cdef sgs_status status
        self.enter()
        try:
            with nogil:
                status = self.env.file_info_at(self.env, self.fd, text, &info, &err)
            if status == SGS_NOT_FOUND:
                return False
            check(status, &err, self.path)
        finally:
            self.leave()
        return True

    def write_file_atomically(self, str name, data, barrier):
        """Write beside, sync, rename, sync the directory: old content or new, never half [DUR-21]."""
        self.write_beside(name, data, barrier)
        self.put_in_place(name, barrier)

    def postpone_syncs(self):
        """Sync nothing, and give no small file its name, until `sync_postponed` and `put_postponed_in_place`.

        For a new directory that counts for nothing before its maker has synced it: many such are written first, and
        synced then. Each file stays open, so that its sync reports whatever error the disk has had with it [DUR-35].
        """
        self.postpones_syncs = True
        self.postponed = {}

    def sync_postponed(self):
        """Sync the content of all small files that were written since `postpone_syncs`."""
        cdef DataFile file
        for file, promise in self.postponed.values():
            file.sync_as(<sgs_barrier><int>promise, False)

    def put_postponed_in_place(self):
        """Give them their names; the next sync of the directory is done, as all that follow."""
        cdef DataFile file
        postponed, self.postponed = self.postponed, None
        self.postpones_syncs = False
        for name, (file, _) in postponed.items():
            file.close()
            self.rename(f"{name}.tmp", name)

    cdef int postpone(self, str name, data, sgs_barrier promise) except -1:
        """Write *name*.tmp, to be synced later."""
        cdef DataFile file = DataFile(self, f"{name}.tmp", create=True)
        try:
            file.truncate(0)
            file.write(0, data)
        except BaseException:
            file.close()
            raise
        self.postponed[name] = file, <int>promise
        return 0

    def write_beside(self, str name, data, barrier):
        """Write the next content of a file, as *name*.tmp, and sync it."""
        cdef sgs_barrier promise = content_barrier_of(barrier)
        cdef bytes encoded = encoded_name(name) + b".tmp"
        cdef const char *text = encoded
        cdef Py_buffer view
        cdef sgs_error err, second
        cdef sgs_status status
        if self.postpones_syncs:
            self.postpone(name, data, promise)
            return
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
        if self.postpones_syncs:
            return
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
        if self.postpones_syncs:
            return SGS_OK
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
