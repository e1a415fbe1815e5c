# indexes.pxi - index files by themselves (csrc/index/)

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


@cython.final
@cython.no_gc_clear
cdef class OffsetIndex(_Index):
    """An offset index file: read-only, or writable with a maximum size."""

    cdef sgs_offset_index index

    def __cinit__(self, Directory directory not None, str name not None, int64_t base_offset, *, max_size_bytes=None,
                  bint kafka_profile=False):
        self.base = &self.index.base
        self.open(directory, name, base_offset, max_size_bytes, kafka_profile)

    cdef sgs_status open_at(self, int fd, const char *name, int64_t base_offset, const sgs_index_options *options,
                            sgs_error *err) noexcept nogil:
        return sgs_offset_index_open(&self.index, self.env, fd, name, base_offset, options, err)

    cdef void refresh(self) noexcept nogil:
        sgs_offset_index_refresh(&self.index)

    @property
    def is_full(self):
        """Whether there is no slot for another entry [IDX-4]."""
        self.mapping.require_open()
        return bool(sgs_offset_index_is_full(&self.index))

    @property
    def last_offset(self):
        """Offset of the last entry, the base offset without one [OFX-2]."""
        self.mapping.require_open()
        return self.index.last_offset

    def entry(self, uint32_t n):
        """Entry number *n* [IDX-5]."""
        cdef sgs_offset_position found
        cdef sgs_error err
        cdef sgs_status status
        self.mapping.enter()
        try:
            with nogil:
                status = sgs_offset_index_entry(&self.index, n, &found, &err)
            self.check(status, &err)
        finally:
            self.mapping.leave()
        return OffsetPosition(found.offset, found.position)

    def entries(self):
        """All entries."""
        self.mapping.enter()
        try:
            return offset_index_entries(&self.index, self.directory.path)
        finally:
            self.mapping.leave()

    def lookup(self, int64_t target):
        """The last entry at or below *target* [OFX-3]."""
        cdef sgs_offset_position found
        cdef sgs_error err
        cdef sgs_status status
        self.mapping.enter()
        try:
            with nogil:
                status = sgs_offset_index_lookup(&self.index, target, &found, &err)
            self.check(status, &err)
        finally:
            self.mapping.leave()
        return OffsetPosition(found.offset, found.position)

    def fetch_upper_bound_offset(self, int32_t position, int32_t fetch_size):
        """An entry that lies behind a fetch of so many bytes from there, or None [OFX-6]."""
        cdef sgs_offset_position start
        cdef sgs_offset_position entry
        cdef c_bool found = False
        cdef sgs_error err
        cdef sgs_status status
        start.offset = self.base.base_offset
        start.position = position
        self.mapping.enter()
        try:
            with nogil:
                status = sgs_offset_index_fetch_upper_bound_offset(
                    &self.index, start, fetch_size, &entry, &found, &err
                )
            self.check(status, &err)
        finally:
            self.mapping.leave()
        return OffsetPosition(entry.offset, entry.position) if found else None

    def sanity_check(self):
        """Raise CorruptIndexError when the file cannot be an index [OFX-7]."""
        cdef sgs_error err
        cdef sgs_status status
        with self.mutex:
            self.mapping.enter()
            try:
                with nogil:
                    status = sgs_offset_index_sanity_check(&self.index, &err)
                self.check(status, &err)
            finally:
                self.mapping.leave()

    def append(self, int64_t offset, int32_t position):
        """Append an entry whose offset is above the last one [OFX-4]."""
        cdef sgs_error err
        cdef sgs_status status
        cdef const char *text
        with self.mutex:
            text = self.mapping.file_name
            self.mapping.enter()
            try:
                with nogil:
                    status = sgs_offset_index_append(
                        &self.index, self.env, text, offset, position, &err
                    )
                self.check(status, &err)
            finally:
                self.mapping.leave()

    def truncate_to(self, int64_t offset):
        """Drop the entries at or above *offset* [OFX-5]."""
        cdef sgs_error err
        cdef sgs_status status
        with self.mutex:
            self.mapping.enter()
            try:
                with nogil:
                    status = sgs_offset_index_truncate_to(&self.index, offset, &err)
                self.check(status, &err)
            finally:
                self.mapping.leave()

    def resize(self, uint32_t size):
        """Change the file's length; returns whether it was another [IDX-9]."""
        cdef c_bool changed = False
        cdef sgs_error err
        cdef sgs_status status
        cdef const char *text
        with self.mutex:
            text = self.mapping.file_name
            self.mapping.enter()
            try:
                with nogil:
                    status = sgs_abstract_index_resize(self.base, self.env, text, size, &changed, &err)
                self.check(status, &err)
            finally:
                self.mapping.leave()
        return bool(changed)


@cython.final
@cython.no_gc_clear
cdef class TimeIndex(_Index):
    """A time index file: read-only, or writable with a maximum size."""

    cdef sgs_time_index index

    def __cinit__(self, Directory directory not None, str name not None, int64_t base_offset, *, max_size_bytes=None,
                  bint kafka_profile=False):
        self.base = &self.index.base
        self.open(directory, name, base_offset, max_size_bytes, kafka_profile)

    cdef sgs_status open_at(self, int fd, const char *name, int64_t base_offset, const sgs_index_options *options,
                            sgs_error *err) noexcept nogil:
        return sgs_time_index_open(&self.index, self.env, fd, name, base_offset, options, err)

    cdef sgs_status trim(self, const char *name, sgs_error *err) noexcept nogil:
        return sgs_time_index_trim(&self.index, self.env, name, err)

    cdef void refresh(self) noexcept nogil:
        sgs_time_index_refresh(&self.index)

    @property
    def is_full(self):
        """Whether there is no slot for another entry [TMX-4]."""
        self.mapping.require_open()
        return bool(sgs_time_index_is_full(&self.index))

    @property
    def last_entry(self):
        """The last entry, (-1, base offset) without one [TMX-2]."""
        self.mapping.require_open()
        return TimestampOffset(self.index.last_entry.timestamp, self.index.last_entry.offset)

    def entry(self, uint32_t n):
        """Entry number *n* [IDX-5]."""
        cdef sgs_timestamp_offset found
        cdef sgs_error err
        cdef sgs_status status
        self.mapping.enter()
        try:
            with nogil:
                status = sgs_time_index_entry(&self.index, n, &found, &err)
            self.check(status, &err)
        finally:
            self.mapping.leave()
        return TimestampOffset(found.timestamp, found.offset)

    def entries(self):
        """All entries."""
        self.mapping.enter()
        try:
            return time_index_entries(&self.index, self.directory.path)
        finally:
            self.mapping.leave()

    def lookup(self, int64_t timestamp):
        """The last entry at or below *timestamp* [TMX-3]."""
        cdef sgs_timestamp_offset found
        cdef sgs_error err
        cdef sgs_status status
        self.mapping.enter()
        try:
            with nogil:
                status = sgs_time_index_lookup(&self.index, timestamp, &found, &err)
            self.check(status, &err)
        finally:
            self.mapping.leave()
        return TimestampOffset(found.timestamp, found.offset)

    def sanity_check(self):
        """Raise CorruptIndexError when the file cannot be an index [TMX-8]."""
        cdef sgs_error err
        cdef sgs_status status
        with self.mutex:
            self.mapping.enter()
            try:
                with nogil:
                    status = sgs_time_index_sanity_check(&self.index, &err)
                self.check(status, &err)
            finally:
                self.mapping.leave()

    def maybe_append(self, int64_t timestamp, int64_t offset, *, bint skip_full_check=False):
        """Append an entry if its timestamp is above the last one [TMX-5]."""
        cdef sgs_error err
        cdef sgs_status status
        cdef const char *text
        with self.mutex:
            text = self.mapping.file_name
            self.mapping.enter()
            try:
                with nogil:
                    status = sgs_time_index_maybe_append(
                        &self.index, self.env, text, timestamp, offset, skip_full_check, &err
                    )
                self.check(status, &err)
            finally:
                self.mapping.leave()

    def truncate_to(self, int64_t offset):
        """Drop the entries at or above *offset* [TMX-7]."""
        cdef sgs_error err
        cdef sgs_status status
        with self.mutex:
            self.mapping.enter()
            try:
                with nogil:
                    status = sgs_time_index_truncate_to(&self.index, offset, &err)
                self.check(status, &err)
            finally:
                self.mapping.leave()

    def resize(self, uint32_t size):
        """Change the file's length; returns whether it was another [IDX-9]."""
        cdef c_bool changed = False
        cdef sgs_error err
        cdef sgs_status status
        cdef const char *text
        with self.mutex:
            text = self.mapping.file_name
            self.mapping.enter()
            try:
                with nogil:
                    status = sgs_time_index_resize(&self.index, self.env, text, size, &changed, &err)
                self.check(status, &err)
            finally:
                self.mapping.leave()
        return bool(changed)
