# records_builder.pxi - one batch with everything that it can hold (csrc/record/batch_builder.h, legacy_builder.h,
# write_limit.h)

cdef inline sgs_bytes borrowed_bytes(bytes data) noexcept:
    """Null for None; the caller keeps *data*."""
    cdef sgs_bytes borrowed
    borrowed.data = NULL
    borrowed.size = -1
    if data is not None:
        borrowed.data = <const uint8_t *>PyBytes_AS_STRING(data)
        borrowed.size = <int32_t>len(data)
    return borrowed


@cython.final
@cython.no_gc
cdef class _HeaderRows:
    """Headers as the core takes them; the bytes that they point into are kept beside them."""

    cdef sgs_record_header *rows
    cdef int32_t count
    cdef list kept

    def __cinit__(self, headers):
        cdef int32_t i
        self.kept = [(name.encode("utf-8"), content) for name, content in checked_headers(headers)]
        self.count = <int32_t>len(self.kept)
        self.rows = <sgs_record_header *>PyMem_Malloc((self.count + 1) * sizeof(sgs_record_header))
        if self.rows == NULL:
            raise MemoryError
        for i in range(self.count):
            self.rows[i].key = borrowed_bytes(self.kept[i][0])
            self.rows[i].value = borrowed_bytes(self.kept[i][1])

    def __dealloc__(self):
        PyMem_Free(self.rows)


@cython.final
cdef class RecordsBuilder:
    """Builds one batch, or a message set of magic 0 or 1 (Kafka ``MemoryRecordsBuilder``)."""

    cdef sgs_batch_builder builder
    cdef sgs_legacy_builder legacy
    cdef CodecTable codecs
    cdef sgs_write_limit limit
    cdef readonly int magic
    cdef bint is_busy  # a thread builds, without the interpreter lock: nothing else may touch the builders

    def __cinit__(self, CodecTable codecs not None, *, int magic=2, int codec=0, int level=-2147483648,
                  int timestamp_type=0, int64_t base_offset=0, int64_t log_append_time=-1, int64_t producer_id=-1,
                  int16_t producer_epoch=-1, int32_t base_sequence=-1, bint transactional=False,
                  bint control=False, int32_t partition_leader_epoch=-1, int64_t delete_horizon_ms=-1,
                  int64_t write_limit=INT32_MAX, float estimated_compression_ratio=1.0):
        cdef sgs_batch_options options
        cdef sgs_legacy_options legacy
        cdef sgs_error err
        self.codecs = codecs
        self.magic = magic
        self.limit.bytes = write_limit
        self.limit.estimated_ratio = estimated_compression_ratio
        sgs_batch_builder_init(&self.builder, memory, &codecs.table)
        sgs_legacy_builder_init(&self.legacy, memory, &codecs.table)
        if not 0 <= magic <= 2 or not -1 <= timestamp_type <= 1 or (magic > 0) == (timestamp_type == -1):
            raise IllegalArgumentError(
                f"magic {magic} with timestamp type {timestamp_type}",
                found=f"magic {magic}, timestamp type {timestamp_type}",
                expected="magic 0 without a timestamp type, or magic 1 or 2 with one",
            )
        if magic == 2:
            sgs_batch_options_default(&options)
            options.base_offset = base_offset
            options.partition_leader_epoch = partition_leader_epoch
            options.codec = codec
            options.level = level
            options.log_append_time = timestamp_type == 1
            options.log_append_timestamp = log_append_time
            options.transactional = transactional
            options.control = control
            options.producer_id = producer_id
            options.producer_epoch = producer_epoch
            options.base_sequence = base_sequence
            options.delete_horizon_ms = delete_horizon_ms
            check(sgs_batch_builder_start(&self.builder, &options, &err), &err)
            return
        if transactional or control or producer_id != -1 or delete_horizon_ms != -1:
            raise IllegalArgumentError(
                f"magic {magic} has no transactions, control records, producer ids and delete horizons",
                found=f"magic {magic}",
                expected="magic 2",
            )
        legacy.base_offset = base_offset
        legacy.log_append_timestamp = log_append_time
        legacy.codec = codec
        legacy.level = level
        legacy.log_append_time = timestamp_type == 1
        legacy.magic = <int8_t>magic
        check(sgs_legacy_builder_start(&self.legacy, &legacy, &err), &err)

    def __dealloc__(self):
        sgs_batch_builder_deinit(&self.builder)
        sgs_legacy_builder_deinit(&self.legacy)

    cdef int require_idle(self) except -1:
        if self.is_busy:
            raise IllegalStateError("the builder is used by two threads at once")
        return 0

    def append(self, int64_t offset, int64_t timestamp, key, value, headers=()):
        """Append a record; offsets must increase."""
        cdef sgs_error err
        cdef bytes key_bytes = checked_bytes(key, "the key")
        cdef bytes value_bytes = checked_bytes(value, "the value")
        cdef _HeaderRows rows = _HeaderRows(headers)
        self.require_idle()  # behind all that runs code of others
        if self.magic >= 2:
            check(sgs_batch_builder_append(
                &self.builder, offset, timestamp, borrowed_bytes(key_bytes), borrowed_bytes(value_bytes), rows.rows,
                rows.count, &err
            ), &err)
            return
        if rows.count > 0:
            raise IllegalArgumentError(
                f"magic {self.magic} has no record headers", found=f"magic {self.magic}", expected="magic 2"
            )
        check(sgs_legacy_builder_append(
            &self.legacy, offset, timestamp, borrowed_bytes(key_bytes), borrowed_bytes(value_bytes), &err
        ), &err)

    def has_room_for(self, int64_t timestamp, key, value, headers=()):
        """Whether a record at the next offset stays within the write limit; the first one always does."""
        cdef bytes key_bytes = checked_bytes(key, "the key")
        cdef bytes value_bytes = checked_bytes(value, "the value")
        cdef _HeaderRows rows = _HeaderRows(headers)
        self.require_idle()
        if self.magic < 2:
            return sgs_legacy_builder_has_room_for(
                &self.legacy, self.limit, borrowed_bytes(key_bytes), borrowed_bytes(value_bytes)
            )
        return sgs_batch_builder_has_room_for(
            &self.builder, self.limit, timestamp, borrowed_bytes(key_bytes), borrowed_bytes(value_bytes), rows.rows,
            rows.count
        )

    @property
    def is_full(self):
        self.require_idle()
        if self.magic < 2:
            return sgs_legacy_builder_is_full(&self.legacy, self.limit)
        return sgs_batch_builder_is_full(&self.builder, self.limit)

    @property
    def estimated_size(self):
        self.require_idle()
        if self.magic < 2:
            return sgs_legacy_builder_estimated_size(&self.legacy, self.limit.estimated_ratio)
        return sgs_batch_builder_estimated_size(&self.builder, self.limit.estimated_ratio)

    @property
    def info(self):
        cdef int64_t max_timestamp, offset
        self.require_idle()
        if self.magic < 2:
            sgs_legacy_builder_info(&self.legacy, &max_timestamp, &offset)
        else:
            sgs_batch_builder_info(&self.builder, &max_timestamp, &offset)
        return TimestampOffset(max_timestamp, offset)

    def abort(self):
        """Forget what was appended: nothing can be appended or built any more."""
        self.require_idle()
        sgs_batch_builder_abort(&self.builder)
        sgs_legacy_builder_abort(&self.legacy)

    def build(self):
        """The finished bytes; none when nothing was appended."""
        cdef sgs_buffer out
        cdef sgs_error err
        cdef sgs_status status
        self.require_idle()
        self.is_busy = True
        sgs_buffer_init(&out, memory)
        try:
            with nogil:
                if self.magic < 2:
                    status = sgs_legacy_builder_finish(&self.legacy, &out, &err)
                else:
                    status = sgs_batch_builder_finish(&self.builder, &out, NULL, &err)
            self.is_busy = False
            check(status, &err)
            return PyBytes_FromStringAndSize(<const char *>out.data, <Py_ssize_t>out.size)
        finally:
            sgs_buffer_deinit(&out)
