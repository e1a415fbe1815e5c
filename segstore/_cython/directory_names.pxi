# directory_names.pxi - which names a directory has, and what they are (csrc/io/env.h, csrc/segment/segment_listing.h)

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


@cython.no_gc_clear  # its environment outlives its descriptor
cdef class _DirectoryNames(_Handle):
    """The part of `Directory` that only looks."""

    cdef readonly Environment environment
    cdef const sgs_env *env  # of environment
    cdef int fd
    cdef readonly str path

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
