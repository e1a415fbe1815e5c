# segment_context.pxi - what segments share, and the bytes that they hand out (csrc/segment/log_segment.h)

cdef sgs_header_cache header_cache  # of all logs of the process
sgs_header_cache_init(&header_cache, memory)


@cython.final
@cython.no_gc_clear
cdef class SegmentContext:
    """What the segments of one partition share; each of them keeps the directory open, until it is closed."""

    cdef sgs_segment_context context
    cdef sgs_header_view headers
    cdef Directory directory
    cdef CodecTable codecs

    def __cinit__(self, Directory directory not None, CodecTable codecs not None, *, bint writable,
                  bint kafka_profile=False, bint heap_indexes=False, bint preallocate=False,
                  uint32_t index_interval_bytes=4096, uint32_t max_index_bytes=10485760,
                  int32_t segment_bytes=1073741824, int32_t max_batch_bytes=INT32_MAX):
        directory.require_open()
        self.directory = directory
        self.codecs = codecs
        memset(&self.context, 0, sizeof(self.context))
        self.context.env = directory.env
        self.context.directory_fd = directory.fd
        self.context.writable = writable
        self.context.kafka_profile = kafka_profile
        self.context.heap_indexes = heap_indexes
        self.context.preallocate = preallocate
        self.context.index_interval_bytes = index_interval_bytes
        self.context.max_index_bytes = max_index_bytes
        self.context.segment_bytes = segment_bytes
        self.context.max_batch_bytes = max_batch_bytes
        self.context.codecs = &codecs.table
        self.context.writing_ended = &directory.sync_failed
        if writable:
            sgs_header_view_init(&self.headers, &header_cache)
            self.context.headers = &self.headers

    @property
    def kafka_profile(self):
        return self.context.kafka_profile

    @property
    def heap_indexes(self):
        """Whether indexes are in memory, and written to their files [DUR-25]."""
        return self.context.heap_indexes

    @property
    def most_index_bytes(self):
        """A larger file is no index [DUR-97, DUR-102]."""
        return max(self.context.max_index_bytes, SGS_INDEX_LIMIT_BYTES)

    @property
    def writable(self):
        """Whether the segments may be changed."""
        return self.context.writable


@cython.final
cdef class FetchedBytes:
    """Bytes of a fetch, owned; read-only buffer."""

    cdef sgs_buffer content
    cdef sgs_segment_fetch fetch

    def __cinit__(self):
        sgs_buffer_init(&self.content, memory)

    def __dealloc__(self):
        sgs_buffer_deinit(&self.content)

    def __getbuffer__(self, Py_buffer *buffer, int flags):
        describe_bytes(&self.content, True, buffer, flags)
        buffer.obj = self

    @property
    def base_offset(self):
        return self.fetch.base_offset

    @property
    def position(self):
        return self.fetch.position

    @property
    def size_bytes(self):
        return self.content.size

    @property
    def first_batch_size(self):
        return self.fetch.first_batch_size

    @property
    def first_batch_magic(self):
        return self.fetch.first_batch_magic

    @property
    def first_entry_incomplete(self):
        return bool(self.fetch.first_entry_incomplete)
