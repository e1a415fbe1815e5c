# records_builder.pxi - one batch with everything that it can hold (csrc/record/batch_builder.h, legacy_builder.h)

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
cdef class RecordsBuilder:
    """Builds one batch, or a message set of magic 0 or 1 (Kafka ``MemoryRecordsBuilder``)."""

    cdef sgs_batch_builder builder
    cdef sgs_legacy_builder legacy
    cdef CodecTable codecs
    cdef readonly int magic

    def __cinit__(self, CodecTable codecs not None, *, int magic=2, int codec=0, int level=-2147483648,
                  int timestamp_type=0, int64_t base_offset=0, int64_t log_append_time=-1, int64_t producer_id=-1,
                  int16_t producer_epoch=-1, int32_t base_sequence=-1, bint transactional=False,
                  bint control=False, int32_t partition_leader_epoch=-1, int64_t delete_horizon_ms=-1):
        cdef sgs_batch_options options
        cdef sgs_legacy_options legacy
        cdef sgs_error err
        self.codecs = codecs
        self.magic = magic
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

    def append(self, int64_t offset, int64_t timestamp, key, value, headers=()):
        """Append a record; offsets must increase."""
        cdef sgs_error err
        cdef bytes key_bytes = checked_bytes(key, "the key")
        cdef bytes value_bytes = checked_bytes(value, "the value")
        cdef list kept = []  # the bytes that the C headers point into
        cdef sgs_record_header *rows = NULL
        cdef Py_ssize_t i, count
        for name, content in checked_headers(headers):
            kept.append((name.encode("utf-8"), content))
        count = len(kept)
        if self.magic < 2:
            if count > 0:
                raise IllegalArgumentError(f"magic {self.magic} has no record headers", expected="magic 2")
            check(sgs_legacy_builder_append(
                &self.legacy, offset, timestamp, borrowed_bytes(key_bytes), borrowed_bytes(value_bytes), &err
            ), &err)
            return
        rows = <sgs_record_header *>PyMem_Malloc((count + 1) * sizeof(sgs_record_header))
        if rows == NULL:
            raise MemoryError
        try:
            for i in range(count):
                rows[i].key = borrowed_bytes(kept[i][0])
                rows[i].value = borrowed_bytes(kept[i][1])
            check(sgs_batch_builder_append(
                &self.builder, offset, timestamp, borrowed_bytes(key_bytes), borrowed_bytes(value_bytes), rows,
                <int32_t>count, &err
            ), &err)
        finally:
            PyMem_Free(rows)

    def build(self):
        """The finished bytes; none when nothing was appended."""
        cdef sgs_buffer out
        cdef sgs_error err
        cdef sgs_status status
        sgs_buffer_init(&out, memory)
        try:
            with nogil:
                if self.magic < 2:
                    status = sgs_legacy_builder_finish(&self.legacy, &out, &err)
                else:
                    status = sgs_batch_builder_finish(&self.builder, &out, NULL, &err)
            check(status, &err)
            return PyBytes_FromStringAndSize(<const char *>out.data, <Py_ssize_t>out.size)
        finally:
            sgs_buffer_deinit(&out)
