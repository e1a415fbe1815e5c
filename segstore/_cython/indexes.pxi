# indexes.pxi - index files by themselves, for tools and benchmarks (csrc/index/)

cdef list offset_index_entries(const sgs_offset_index *index, str directory):
    """All entries; copied without the GIL, since the mapping may have to be read from disk."""
    cdef sgs_buffer copied
    cdef sgs_offset_position entry
    cdef sgs_error err
    cdef sgs_status status = SGS_OK
    cdef uint32_t n = 0
    sgs_buffer_init(&copied, memory)
    try:
        with nogil:
            while status == SGS_OK and n < sgs_abstract_index_entries(&index.base):
                status = sgs_offset_index_entry(index, n, &entry, &err)
                if status == SGS_OK:
                    status = sgs_buffer_append(&copied, &entry, sizeof(entry), &err)
                n += 1
        check(status, &err, directory)
        rows = <sgs_offset_position *>copied.data
        return [OffsetPosition(rows[i].offset, rows[i].position) for i in range(copied.size // sizeof(entry))]
    finally:
        sgs_buffer_deinit(&copied)


cdef list time_index_entries(const sgs_time_index *index, str directory):
    cdef sgs_buffer copied
    cdef sgs_timestamp_offset entry
    cdef sgs_error err
    cdef sgs_status status = SGS_OK
    cdef uint32_t n = 0
    sgs_buffer_init(&copied, memory)
    try:
        with nogil:
            while status == SGS_OK and n < sgs_abstract_index_entries(&index.base):
                status = sgs_time_index_entry(index, n, &entry, &err)
                if status == SGS_OK:
                    status = sgs_buffer_append(&copied, &entry, sizeof(entry), &err)
                n += 1
        check(status, &err, directory)
        rows = <sgs_timestamp_offset *>copied.data
        return [TimestampOffset(rows[i].timestamp, rows[i].offset) for i in range(copied.size // sizeof(entry))]
    finally:
        sgs_buffer_deinit(&copied)


cdef sgs_index_options read_only_options() noexcept:
    cdef sgs_index_options options
    memset(&options, 0, sizeof(options))
    options.grow_in_steps = True
    return options


@cython.final
@cython.no_gc_clear
cdef class OffsetIndex(_Handle):
    """An offset index file, read-only."""

    cdef sgs_offset_index index
    cdef Directory directory
    cdef bytes name
    cdef bint is_open

    def __cinit__(self, Directory directory not None, str name, int64_t base_offset):
        cdef sgs_index_options options = read_only_options()
        cdef sgs_file_info info
        cdef sgs_error err
        cdef sgs_status status
        cdef const char *text
        self.name = encoded_name(name)
        text = self.name
        self.directory = directory
        directory.enter()
        try:
            with nogil:
                status = environment.file_info_at(environment, directory.fd, text, &info, &err)  # must be there
                if status == SGS_OK:
                    status = sgs_offset_index_open(
                        &self.index, environment, directory.fd, text, base_offset, &options, &err
                    )
            check(status, &err, directory.path)
            self.is_open = True
            self.is_closed = False
        finally:
            directory.leave()

    def __dealloc__(self):
        self.release()

    cdef void release(self) noexcept:
        cdef sgs_error err
        if self.is_open:
            self.is_open = False
            sgs_abstract_index_close(&self.index.base, environment, PyBytes_AS_STRING(self.name), &err)

    def __len__(self):
        self.require_open()
        return sgs_abstract_index_entries(&self.index.base)

    def entry(self, uint32_t n):
        """Entry number *n* [IDX-5]."""
        cdef sgs_offset_position found
        cdef sgs_error err
        cdef sgs_status status
        self.enter()
        try:
            with nogil:
                status = sgs_offset_index_entry(&self.index, n, &found, &err)
            check(status, &err, self.directory.path)
        finally:
            self.leave()
        return OffsetPosition(found.offset, found.position)

    def entries(self):
        """All entries."""
        self.enter()
        try:
            return offset_index_entries(&self.index, self.directory.path)
        finally:
            self.leave()

    def lookup(self, int64_t target):
        """The last entry at or below *target* [OFX-3]."""
        cdef sgs_offset_position found
        cdef sgs_error err
        cdef sgs_status status
        self.enter()
        try:
            with nogil:
                status = sgs_offset_index_lookup(&self.index, target, &found, &err)
            check(status, &err, self.directory.path)
        finally:
            self.leave()
        return OffsetPosition(found.offset, found.position)

    def sanity_check(self):
        """Raise CorruptIndexError when the file cannot be an index [OFX-7]."""
        cdef sgs_error err
        cdef sgs_status status
        self.enter()
        try:
            with nogil:
                status = sgs_offset_index_sanity_check(&self.index, &err)
            check(status, &err, self.directory.path)
        finally:
            self.leave()

    def close(self):
        """Unmap and close; twice is harmless."""
        if not self.is_closed:
            self.mark_closed()


@cython.final
@cython.no_gc_clear
cdef class TimeIndex(_Handle):
    """A time index file, read-only."""

    cdef sgs_time_index index
    cdef Directory directory
    cdef bytes name
    cdef bint is_open

    def __cinit__(self, Directory directory not None, str name, int64_t base_offset):
        cdef sgs_index_options options = read_only_options()
        cdef sgs_file_info info
        cdef sgs_error err
        cdef sgs_status status
        cdef const char *text
        self.name = encoded_name(name)
        text = self.name
        self.directory = directory
        directory.enter()
        try:
            with nogil:
                status = environment.file_info_at(environment, directory.fd, text, &info, &err)  # must be there
                if status == SGS_OK:
                    status = sgs_time_index_open(
                        &self.index, environment, directory.fd, text, base_offset, &options, &err
                    )
            check(status, &err, directory.path)
            self.is_open = True
            self.is_closed = False
        finally:
            directory.leave()

    def __dealloc__(self):
        self.release()

    cdef void release(self) noexcept:
        cdef sgs_error err
        if self.is_open:
            self.is_open = False
            sgs_abstract_index_close(&self.index.base, environment, PyBytes_AS_STRING(self.name), &err)

    def __len__(self):
        self.require_open()
        return sgs_abstract_index_entries(&self.index.base)

    def entry(self, uint32_t n):
        """Entry number *n* [IDX-5]."""
        cdef sgs_timestamp_offset found
        cdef sgs_error err
        cdef sgs_status status
        self.enter()
        try:
            with nogil:
                status = sgs_time_index_entry(&self.index, n, &found, &err)
            check(status, &err, self.directory.path)
        finally:
            self.leave()
        return TimestampOffset(found.timestamp, found.offset)

    def entries(self):
        """All entries."""
        self.enter()
        try:
            return time_index_entries(&self.index, self.directory.path)
        finally:
            self.leave()

    def lookup(self, int64_t timestamp):
        """The last entry at or below *timestamp* [TMX-3]."""
        cdef sgs_timestamp_offset found
        cdef sgs_error err
        cdef sgs_status status
        self.enter()
        try:
            with nogil:
                status = sgs_time_index_lookup(&self.index, timestamp, &found, &err)
            check(status, &err, self.directory.path)
        finally:
            self.leave()
        return TimestampOffset(found.timestamp, found.offset)

    def sanity_check(self):
        """Raise CorruptIndexError when the file cannot be an index [TMX-8]."""
        cdef sgs_error err
        cdef sgs_status status
        self.enter()
        try:
            with nogil:
                status = sgs_time_index_sanity_check(&self.index, &err)
            check(status, &err, self.directory.path)
        finally:
            self.leave()

    def close(self):
        """Unmap and close; twice is harmless."""
        if not self.is_closed:
            self.mark_closed()
