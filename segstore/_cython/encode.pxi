# encode.pxi - batches from Python objects and from Arrow columns (csrc/record/batch_builder.h, columns.h)

def encode_records(records, options, CodecTable codecs not None, int64_t default_timestamp, int64_t max_batch_bytes):
    """Build batches from tuples and records in one pass."""
    cdef _BatchWriter writer = _BatchWriter(options, codecs, default_timestamp, max_batch_bytes)
    cdef Py_ssize_t index = 0
    cdef bint are_counted = True  # by their timestamps, so far
    if type(records) is list:
        return writer.write(<list>records, default_timestamp)
    for item in records:
        writer.add_object(item, index)
        if are_counted:
            are_counted = counts_rows(item, index)
        index += 1
    if are_counted and index > 1:
        raise counted_rows(index)
    return writer.close()


def encode_columns(data, options, CodecTable codecs not None, int64_t default_timestamp, int64_t max_batch_bytes,
                   columns=None):
    """Build batches from Arrow data, chunk by chunk."""
    cdef _BatchWriter writer = _BatchWriter(options, codecs, default_timestamp, max_batch_bytes)
    cdef _ArrowChunks chunks = _ArrowChunks(data)
    cdef sgs_record_places places
    cdef sgs_columns_source source
    cdef sgs_batch_header *row
    cdef sgs_error err
    cdef sgs_status status
    cdef size_t done = 0
    cdef int64_t first_row = 0
    places = places_of(&chunks.schema, BY_THEIR_NAMES if columns is None else columns)  # also when no chunk comes
    while chunks.advance():
        with nogil:
            status = sgs_columns_source_init(&source, &chunks.schema, &chunks.array, &places, first_row, &err)
            if status == SGS_OK:
                status = sgs_columns_encode(
                    &source, 0, chunks.array.length, &writer.options, max_batch_bytes, default_timestamp,
                    &writer.builder, &writer.result.content, &writer.result.row_bytes, &err
                )
        check(status, &err)
        first_row += chunks.array.length
        while done < writer.result.row_bytes.size // sizeof(sgs_batch_header):
            row = &(<sgs_batch_header *>writer.result.row_bytes.data)[done]
            writer.result.records_count += row.records_count
            writer.options.base_sequence = sequence_after(writer.options.base_sequence, row.records_count)
            done += 1
    return writer.close()


def rebuild_batches(data, const int64_t[::1] offsets not None, headers, CodecTable codecs not None):
    """Build batches again, as their headers were, from one Arrow record batch and the offsets of its rows."""
    cdef _BatchWriter writer = _BatchWriter(BatchOptions(), codecs, -1, INT32_MAX)
    cdef _ArrowChunks chunks = _ArrowChunks(data)
    cdef sgs_record_places places = places_of(&chunks.schema, BY_THEIR_NAMES)
    cdef sgs_columns_source source
    cdef size_t count = 0
    cdef const sgs_batch_header *models = rows_of_array(headers, False, &count)
    cdef const int64_t *first = &offsets[0] if offsets.shape[0] > 0 else NULL
    cdef sgs_error err
    cdef sgs_status status
    if not chunks.advance() or chunks.array.length != offsets.shape[0]:
        raise IllegalArgumentError(
            "offsets and rows must be as many", found=f"{offsets.shape[0]} offsets", expected="one for each row"
        )
    with nogil:
        status = sgs_columns_source_init(&source, &chunks.schema, &chunks.array, &places, 0, &err)
        if status == SGS_OK:
            status = sgs_columns_rebuild(
                &source, first, models, count, &writer.builder, &writer.result.content, &writer.result.row_bytes, &err
            )
    check(status, &err)
    writer.result.records_count = offsets.shape[0]
    return writer.close()


cdef sgs_record_places places_of(const ArrowSchema *schema, columns) except *:
    """Where the parts of a record are, as *columns* finds them among the names; their types are checked."""
    cdef sgs_record_places places
    cdef sgs_error err
    cdef const char *name
    cdef int64_t i
    check(sgs_columns_source_check(schema, &err), &err)
    names = []
    for i in range(schema.n_children):
        name = schema.children[i].name
        names.append("" if name == NULL else name.decode("utf-8", "replace"))
    found = columns.find(names)
    places.key, places.value, places.timestamp, places.headers = found[:4]
    check(sgs_columns_source_check_types(schema, &places, &err), &err)
    return places


def partitions_for_keys(keys, int32_t partitions_count):
    """Partition of each key of an Arrow column, -1 for null."""
    cdef _ArrowChunks chunks = _ArrowChunks(keys)
    cdef array.array numbers = array.array("i")
    cdef Py_ssize_t count = 0
    cdef sgs_error err
    cdef sgs_status status
    cdef int32_t *out
    while chunks.advance():
        array.resize_smart(numbers, count + max(0, chunks.array.length))
        out = <int32_t *>numbers.data.as_voidptr + count
        count = len(numbers)
        with nogil:
            status = sgs_key_partitions(&chunks.schema, &chunks.array, partitions_count, out, &err)
        check(status, &err)
    return np.frombuffer(numbers, np.int32)


def encode_end_transaction_marker(int64_t offset, int64_t timestamp, int32_t leader_epoch, int64_t producer_id,
                                  int16_t producer_epoch, *, bint commit, int32_t coordinator_epoch):
    """The 78 bytes of a COMMIT or ABORT marker [format.md 6.2]."""
    cdef sgs_buffer out
    cdef sgs_error err
    sgs_buffer_init(&out, memory)
    try:
        check(
            sgs_batch_build_end_transaction_marker(
                offset, timestamp, leader_epoch, producer_id, producer_epoch, commit, coordinator_epoch, &out, &err
            ),
            &err,
        )
        return PyBytes_FromStringAndSize(<const char *>out.data, <Py_ssize_t>out.size)
    finally:
        sgs_buffer_deinit(&out)


def encode_empty_batch(header):
    """The 61 bytes that compaction leaves of a batch without records [format.md 4.5]."""
    cdef sgs_batch_header row
    cdef sgs_buffer out
    cdef sgs_error err
    cdef bytes content
    if not isinstance(header, np.void) or header.dtype != batch_header_dtype():
        raise IllegalArgumentError("no row of a batch-header table", found=type(header).__name__, expected="a row")
    content = header.tobytes()
    memcpy(&row, PyBytes_AS_STRING(content), sizeof(row))
    sgs_buffer_init(&out, memory)
    try:
        check(sgs_batch_build_empty(&row, &out, &err), &err)
        return PyBytes_FromStringAndSize(<const char *>out.data, <Py_ssize_t>out.size)
    finally:
        sgs_buffer_deinit(&out)
