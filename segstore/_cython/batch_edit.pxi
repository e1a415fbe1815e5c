# batch_edit.pxi - one batch in memory: its size, whether it is valid, edits in place (csrc/record/record_batch.h)

def first_batch_size(data):
    """Size of the batch that *data* begins with; None when fewer than 17 bytes are there."""
    cdef Py_buffer view
    cdef int32_t size = 0
    cdef sgs_error err
    cdef sgs_status status = SGS_OK
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    cdef bint has_prefix = view.len >= SGS_BATCH_PREFIX_BYTES
    if has_prefix:
        status = sgs_batch_first_size(<const uint8_t *>view.buf, &size, &err)
    PyBuffer_Release(&view)
    check(status, &err)
    return size if has_prefix else None


def check_batch(batch):
    """Raise CorruptRecordError unless size and CRC of a batch are right."""
    cdef Py_buffer view
    cdef sgs_error err
    cdef sgs_status status
    PyObject_GetBuffer(batch, &view, PyBUF_SIMPLE)
    with nogil:
        status = sgs_batch_check(<const uint8_t *>view.buf, <size_t>view.len, 0, &err)
    PyBuffer_Release(&view)
    check(status, &err)


cdef int edit_batch(object batch, int edit, int64_t number, bint log_append_time) except -1:
    """Edit the batch that a writable buffer begins with: 0 last offset, 1 leader epoch, 2 timestamp."""
    cdef Py_buffer view
    cdef sgs_batch_header header
    cdef sgs_error err
    cdef sgs_status status
    PyObject_GetBuffer(batch, &view, PyBUF_WRITABLE)
    cdef uint8_t *start = <uint8_t *>view.buf
    status = sgs_batch_header_load(start, <size_t>view.len, 0, &header, &err)
    if status == SGS_OK and header.magic < 2:
        if edit == 0:
            sgs_legacy_message_set_offset(start, number)
        elif edit == 1:
            status = sgs_fail(&err, SGS_ILLEGAL_ARGUMENT, "magic %d has no leader epoch", <int>header.magic)
        else:
            status = sgs_legacy_message_set_timestamp(
                start, <size_t>header.size_bytes, log_append_time, number, &err
            )
    elif status == SGS_OK:
        if edit == 0:
            sgs_batch_set_last_offset(start, number)
        elif edit == 1:
            sgs_batch_set_leader_epoch(start, <int32_t>number)
        else:
            sgs_batch_set_max_timestamp(start, <size_t>header.size_bytes, log_append_time, number)
    PyBuffer_Release(&view)
    check(status, &err)
    return 0


def set_last_offset(batch, int64_t last_offset):
    """Move a batch in place so that its last offset is *last_offset*."""
    edit_batch(batch, 0, last_offset, False)


def set_partition_leader_epoch(batch, int32_t epoch):
    """Stamp the leader epoch into a batch of magic 2."""
    edit_batch(batch, 1, epoch, False)


def set_max_timestamp(batch, int timestamp_type, int64_t timestamp):
    """Set timestamp type and max timestamp of a batch, and its CRC when they differ."""
    if timestamp_type != 0 and timestamp_type != 1:
        raise IllegalArgumentError(
            "a timestamp type must be given", found=str(timestamp_type), expected="0 CreateTime or 1 LogAppendTime"
        )
    edit_batch(batch, 2, timestamp, timestamp_type == 1)


def set_producer_state(batch, int64_t producer_id, int16_t producer_epoch, int32_t base_sequence):
    """Stamp who wrote a batch and its first sequence number into it, and its CRC."""
    cdef Py_buffer view
    cdef sgs_batch_header header
    cdef sgs_error err
    cdef sgs_status status
    PyObject_GetBuffer(batch, &view, PyBUF_WRITABLE)
    cdef uint8_t *start = <uint8_t *>view.buf
    with nogil:
        status = sgs_batch_header_load(start, <size_t>view.len, 0, &header, &err)
        if status == SGS_OK and header.magic < 2:
            status = sgs_fail(&err, SGS_ILLEGAL_ARGUMENT, "magic %d knows no producers", <int>header.magic)
        elif status == SGS_OK:
            sgs_batch_set_producer_state(
                start, <size_t>header.size_bytes, producer_id, producer_epoch, base_sequence
            )
    PyBuffer_Release(&view)
    check(status, &err)
