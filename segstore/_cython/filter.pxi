# filter.pxi - batches rewritten for compaction (csrc/record/record_filter.h)

class FilterResult(NamedTuple):
    output: object
    messages_read: int
    messages_retained: int
    bytes_read: int
    bytes_retained: int
    batches_read: int
    max_offset: int
    max_timestamp: int
    shallow_offset_of_max_timestamp: int
    output_grew: bool


cdef EncodedBatches filtered_batches(sgs_record_filter *filter):
    """What the filter wrote, without a copy."""
    cdef EncodedBatches batches = EncodedBatches.__new__(EncodedBatches)
    batches.content = filter.output
    sgs_buffer_init(&filter.output, memory)
    batches.rows = array_of_rows(filter.output_rows.data, filter.output_rows.size // sizeof(sgs_batch_header))
    batches.records_count = filter.result.messages_retained
    return batches


def filter_records(data, headers, CodecTable codecs not None, *, decisions, keep_offsets, int64_t now_ms,
                   int64_t delete_retention_ms, int64_t destination_capacity=INT64_MAX, bint check_crc=True):
    """Copy what is to be kept of *data*; stops behind the batch that takes the output above its capacity."""
    cdef size_t rows_count = 0
    cdef const sgs_batch_header *rows = rows_of_array(headers, False, &rows_count)
    cdef const unsigned char[::1] chosen = decisions
    cdef const int64_t[::1] offsets = keep_offsets
    cdef sgs_offsets_to_keep keep
    cdef sgs_record_filter filter
    cdef Py_buffer view
    cdef sgs_error err
    cdef sgs_status status
    if <size_t>chosen.shape[0] != rows_count or destination_capacity < 0:
        raise IllegalArgumentError(
            "every batch needs a decision, and the destination a capacity",
            found=f"{chosen.shape[0]} decisions, {destination_capacity} bytes",
            expected=f"{rows_count} decisions, 0 bytes or more",
        )
    keep.offsets = &offsets[0] if offsets.shape[0] > 0 else NULL
    keep.count = <size_t>offsets.shape[0]
    sgs_record_filter_init(&filter, memory, &codecs.table)
    filter.options.now_ms = now_ms
    filter.options.delete_retention_ms = delete_retention_ms
    filter.options.destination_capacity = <size_t>destination_capacity
    filter.options.check_crc = check_crc
    filter.options.context = &keep
    filter.options.should_retain = &sgs_offsets_to_keep_have
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        with nogil:
            status = sgs_record_filter_run(
                &filter, <const uint8_t *>view.buf, <size_t>view.len, rows,
                &chosen[0] if rows_count > 0 else NULL, rows_count, &err
            )
        check(status, &err)
        return FilterResult(
            filtered_batches(&filter),
            filter.result.messages_read,
            filter.result.messages_retained,
            filter.result.bytes_read,
            filter.result.bytes_retained,
            filter.result.batches_read,
            filter.result.max_offset,
            filter.result.max_timestamp,
            filter.result.shallow_offset_of_max_timestamp,
            filter.result.output_grew,
        )
    finally:
        sgs_record_filter_deinit(&filter)
        PyBuffer_Release(&view)
