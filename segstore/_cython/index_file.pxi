# index_file.pxi - what both kinds of index files have in common (csrc/index/abstract_index.h)

from threading import RLock


@cython.final
@cython.no_gc_clear
cdef class _IndexMapping(_Handle):
    """The mapped file of an index: it is unmapped when the index is closed and no call uses it."""

    cdef sgs_abstract_index *base  # inside the index, which owns this
    cdef Environment environment
    cdef const sgs_env *env  # of environment
    cdef bytes file_name
    cdef str index_kind

    cdef str kind(self):
        return self.index_kind

    cdef void release(self) noexcept:
        cdef const char *text = self.file_name
        with nogil:  # it may wait for a sync
            sgs_abstract_index_close_handler(self.base, self.env, text)

    cdef void note_open(self) noexcept:
        self.is_closed = False

    cdef void note_renamed(self, bytes file_name) noexcept:
        self.file_name = file_name


cdef _IndexMapping mapping_of(sgs_abstract_index *base, Directory directory, bytes file_name, str index_kind):
    """The mapping of an index that is not open yet."""
    cdef _IndexMapping mapping = _IndexMapping()
    mapping.base = base
    mapping.environment = directory.environment
    mapping.env = directory.env
    mapping.file_name = file_name
    mapping.index_kind = index_kind
    return mapping


@cython.no_gc_clear
cdef class _Index:
    """An index file by itself (Kafka ``AbstractIndex``); a segment has its own. Changes take turns [IDX-17]."""

    cdef sgs_abstract_index *base  # of the subclass
    cdef _IndexMapping mapping
    cdef const sgs_env *env  # of the environment of mapping
    cdef Directory directory
    cdef uint32_t max_size_bytes
    cdef object mutex

    cdef int open(self, Directory directory, str name, int64_t base_offset, object max_size_bytes,
                  bint kafka_profile) except -1:
        cdef sgs_index_options options
        cdef sgs_file_info info
        cdef sgs_error err
        cdef sgs_status status = SGS_OK
        cdef const char *text
        memset(&options, 0, sizeof(options))
        options.grow_in_steps = not kafka_profile
        if max_size_bytes is not None:
            options.writable = True
            options.max_size_bytes = self.max_size_bytes = max_size_bytes
        self.mutex = RLock()
        self.directory = directory
        self.env = directory.env
        self.mapping = mapping_of(self.base, directory, encoded_name(name), type(self).__name__)
        text = self.mapping.file_name
        directory.enter()
        try:
            with nogil:
                if not options.writable:  # it must be there
                    status = self.env.file_info_at(self.env, directory.fd, text, &info, &err)
                if status == SGS_OK:
                    status = self.open_at(directory.fd, text, base_offset, &options, &err)
            check(status, &err, directory.path)
            self.mapping.note_open()
        finally:
            directory.leave()
        return 0

    cdef sgs_status open_at(self, int fd, const char *name, int64_t base_offset, const sgs_index_options *options,
                            sgs_error *err) noexcept nogil:
        return sgs_fail(err, SGS_ILLEGAL_STATE, "neither an offset nor a time index")

    cdef sgs_status trim(self, const char *name, sgs_error *err) noexcept nogil:
        return sgs_abstract_index_trim(self.base, self.env, name, err)

    cdef void refresh(self) noexcept nogil:
        """Read the last entry again."""

    def __dealloc__(self):
        if self.mapping is not None:
            self.mapping.release()

    cdef int check(self, sgs_status status, sgs_error *err) except -1:
        return check(status, err, self.directory.path)

    def __len__(self):
        self.mapping.require_open()
        return sgs_abstract_index_entries(self.base)

    @property
    def name(self):
        return self.mapping.file_name.decode()

    @property
    def path(self):
        return f"{self.directory.path}/{self.name}"

    @property
    def closed(self):
        return bool(self.mapping.is_closed)

    @property
    def max_entries(self):
        """Of the present or configured size [IDX-2]."""
        self.mapping.require_open()
        return self.base.max_entries

    @property
    def length(self):
        """Of the file."""
        self.mapping.require_open()
        return self.base.file.length

    @property
    def size_in_bytes(self):
        """Of the entries."""
        self.mapping.require_open()
        return sgs_abstract_index_entries(self.base) * self.base.entry_size

    def can_append_offset(self, int64_t offset):
        """Whether *offset* fits beside the base offset [IDX-12]."""
        cdef int32_t relative
        self.mapping.require_open()
        return bool(sgs_relative_offset(self.base.base_offset, offset, &relative))

    def truncate(self):
        """Keep no entry; the bytes stay [OFX-5]."""
        with self.mutex:
            self.mapping.enter()
            try:
                with nogil:
                    sgs_abstract_index_keep(self.base, 0)
                    self.refresh()
            finally:
                self.mapping.leave()

    def trim_to_valid_size(self):
        """Cut the file behind the last entry; nothing once it is closed [IDX-10]."""
        cdef sgs_error err
        cdef sgs_status status
        cdef const char *text
        with self.mutex:
            if self.mapping.is_closed:
                return
            text = self.mapping.file_name
            self.mapping.enter()
            try:
                with nogil:
                    status = self.trim(text, &err)
                self.check(status, &err)
            finally:
                self.mapping.leave()

    def reset(self):
        """No entry, at the configured size again [IDX-11]."""
        cdef sgs_error err
        cdef sgs_status status
        cdef const char *text
        with self.mutex:
            text = self.mapping.file_name
            self.mapping.enter()
            try:
                with nogil:
                    status = sgs_abstract_index_reset(self.base, self.env, text, self.max_size_bytes, &err)
                    self.refresh()
                self.check(status, &err)
            finally:
                self.mapping.leave()

    def flush(self):
        """Entries and length to stable storage; nothing once it is closed [IDX-13]."""
        cdef sgs_error err
        cdef sgs_status status
        cdef const char *text
        with self.mutex:
            if self.mapping.is_closed:
                return
            text = self.mapping.file_name
            self.mapping.enter()
            try:
                with nogil:
                    status = sgs_abstract_index_flush(self.base, self.env, text, &err)
                self.check(status, &err)
            finally:
                self.mapping.leave()

    def rename_to(self, str name not None):
        """Give the file another name, which counts even where the renaming fails [IDX-16]."""
        cdef bytes encoded = encoded_name(name)
        with self.mutex:
            try:
                self.directory.rename(self.name, name)
            finally:
                self.mapping.note_renamed(encoded)

    def update_parent_directory(self, Directory directory not None):
        """Name the file in *directory* from now on; nothing is moved [IDX-16]."""
        with self.mutex:
            self.directory = directory

    def close(self):
        """Trim, unmap and close [IDX-14]; twice is harmless. Whoever is still reading keeps the mapping until then."""
        cdef sgs_error err
        cdef sgs_status status
        cdef const char *text
        if self.mapping.process != current_process:
            self.mapping.require_open()
        with self.mutex:
            if self.mapping.is_closed:
                return
            text = self.mapping.file_name
            self.mapping.enter()
            try:
                with nogil:
                    status = self.trim(text, &err)
            finally:
                self.mapping.mark_closed()
                self.mapping.leave()
            self.check(status, &err)

    def close_handler(self):
        """Unmap and close, write nothing; twice is harmless [IDX-14]."""
        with self.mutex:
            if not self.mapping.is_closed:
                self.mapping.mark_closed()

    def delete_if_exists(self):
        """Close without a trim and remove the file; returns whether there was one [IDX-15]."""
        with self.mutex:
            self.close_handler()
            existed = self.directory.exists(self.name)
            self.directory.unlink(self.name, missing_ok=True)
            return existed
