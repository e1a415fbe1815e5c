# validate.pxi - the leader's check of incoming batches, which stamps them in place (csrc/record/log_validator.h)

class Validation(NamedTuple):
    next_offset: int
    max_timestamp: int
    records_count: int


def validate_and_assign_offsets(data, headers, CodecTable codecs not None, *, int64_t next_offset, int64_t now_ms,
                                int32_t leader_epoch, bint log_append_time, bint keys_required,
                                bint records_are_trusted, int64_t timestamp_before_max_ms,
                                int64_t timestamp_after_max_ms):
    """Check batches and stamp offsets, epoch and timestamps into *data* and *headers*."""
    cdef size_t rows_count = 0
    cdef sgs_batch_header *rows = rows_of_array(headers, True, &rows_count)
    cdef Py_buffer view
    cdef sgs_validation validation
    cdef sgs_buffer scratch
    cdef sgs_error err
    cdef sgs_status status
    memset(&validation, 0, sizeof(validation))
    validation.next_offset = next_offset
    validation.now_ms = now_ms
    validation.partition_leader_epoch = leader_epoch
    validation.log_append_time = log_append_time
    validation.keys_required = keys_required
    validation.records_are_trusted = records_are_trusted
    validation.timestamp_before_max_ms = timestamp_before_max_ms
    validation.timestamp_after_max_ms = timestamp_after_max_ms
    PyObject_GetBuffer(data, &view, PyBUF_WRITABLE)
    sgs_buffer_init(&scratch, memory)
    try:
        if view.len < SMALL_BATCH_BYTES:
            status = sgs_validate_and_assign_offsets(
                <uint8_t *>view.buf, <size_t>view.len, rows, rows_count, &codecs.table, &scratch, &validation, &err
            )
        else:
            with nogil:
                status = sgs_validate_and_assign_offsets(
                    <uint8_t *>view.buf, <size_t>view.len, rows, rows_count, &codecs.table, &scratch, &validation, &err
                )
        if status == SGS_INVALID_RECORD and validation.invalid_timestamps_count > 0:
            raise error_of(&err, None, InvalidTimestampError)  # the core has one status for both
        check(status, &err)
    finally:
        sgs_buffer_deinit(&scratch)
        PyBuffer_Release(&view)
    return Validation(validation.next_offset, validation.max_timestamp, validation.records_count)
