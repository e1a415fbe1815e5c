# validate.pxi - incoming batches: the checks of any append (csrc/record/append_analysis.h), and the leader's, which
# stamps or rebuilds them (csrc/record/log_validator.h, validation.h)

class Validation(NamedTuple):
    next_offset: int
    max_timestamp: int
    records_count: int
    converted_count: int
    sizes_may_have_changed: bool
    rebuilt: object


class AppendAnalysis(NamedTuple):
    valid_bytes: int
    first_offset: int
    last_offset: int
    max_timestamp: int
    last_leader_epoch: int
    source_codec: int


def analyze_append(data, *, int origin=2, int32_t leader_epoch=-1, int32_t max_message_bytes=INT32_MAX):
    """The header table of the batches that count, and what is known of them."""
    cdef Py_buffer view
    cdef sgs_append_rules rules
    cdef sgs_append_analysis analysis
    cdef sgs_batch_table table
    cdef sgs_error err
    cdef sgs_status status
    rules.origin = <sgs_append_origin>origin_of(origin)
    rules.leader_epoch = leader_epoch
    rules.max_message_bytes = max_message_bytes
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    sgs_batch_table_init(&table, memory)
    try:
        if view.len < SMALL_BATCH_BYTES:
            status = sgs_analyze_append(<const uint8_t *>view.buf, <size_t>view.len, &rules, &table, &analysis, &err)
        else:
            with nogil:
                status = sgs_analyze_append(
                    <const uint8_t *>view.buf, <size_t>view.len, &rules, &table, &analysis, &err
                )
        if status != SGS_OK and analysis.refusal == SGS_APPEND_TOO_LARGE:
            raise error_of(&err, None, RecordTooLargeError)
        if status != SGS_OK and analysis.refusal == SGS_APPEND_OUT_OF_ORDER:
            raise error_of(&err, None, OffsetsOutOfOrderError)
        check(status, &err)
        rows = array_of_rows(sgs_batch_table_rows(&table), sgs_batch_table_count(&table))
    finally:
        sgs_batch_table_deinit(&table)
        PyBuffer_Release(&view)
    return rows, AppendAnalysis(
        analysis.valid_bytes,
        analysis.first_offset,
        analysis.last_offset,
        analysis.max_timestamp,
        analysis.last_leader_epoch,
        analysis.source_codec,
    )


cdef int origin_of(int origin) except -1:
    if not SGS_ORIGIN_REPLICATION <= origin <= SGS_ORIGIN_RAFT_LEADER:
        raise IllegalArgumentError(f"no append origin has the number {origin}", found=str(origin), expected="0 to 3")
    return origin


cdef object make_named = tuple.__new__


class ValidatorMetrics:
    __slots__ = ("invalid_checksums", "invalid_magic", "invalid_offset", "invalid_sequence", "no_key_compacted_topic")

    def __init__(self):
        for name in self.__slots__:
            setattr(self, name, 0)

    def __repr__(self):
        return f"ValidatorMetrics({', '.join(f'{name}={getattr(self, name)}' for name in self.__slots__)})"


cdef int count_refusals(object metrics, const sgs_validator_metrics *counted) except -1:
    metrics.invalid_checksums += counted.invalid_checksums
    metrics.invalid_magic += counted.invalid_magic
    metrics.invalid_offset += counted.invalid_offset
    metrics.invalid_sequence += counted.invalid_sequence
    metrics.no_key_compacted_topic += counted.no_key_compacted_topic
    return 0


cdef object refusal_of(const sgs_log_validator *validator, sgs_error *err):
    """The exception for batches that were refused; the core has one status for both classes."""
    cdef sgs_error described
    cdef size_t i
    error = error_of(err, None, InvalidTimestampError if validator.result.has_invalid_timestamp else None)
    errors = []
    for i in range(sgs_log_validator_errors_count(validator)):
        sgs_record_error_describe(validator, &sgs_log_validator_errors(validator)[i], &described)
        errors.append((sgs_log_validator_errors(validator)[i].record_index, described.message.decode("utf-8")))
    if errors:
        error.record_errors = errors
        error.batch_index = validator.result.failed_batch
    return error


cdef EncodedBatches rebuilt_batches(sgs_log_validator *validator):
    """What the validator wrote, without a copy."""
    cdef EncodedBatches batches = EncodedBatches.__new__(EncodedBatches)
    batches.content = validator.output
    sgs_buffer_init(&validator.output, memory)
    batches.rows = array_of_rows(validator.output_rows.data, validator.output_rows.size // sizeof(sgs_batch_header))
    batches.records_count = validator.result.records_count
    return batches


cdef enum:
    KEPT_BYTES = 4194304  # per buffer of a validator between calls; what a rare large batch needed is given back


@cython.final
cdef class LogValidator:
    """The rules of a topic, and memory that is used again and again."""

    cdef sgs_log_validator validator
    cdef CodecTable codecs
    cdef bint is_busy  # guarded by the GIL

    def __cinit__(self, CodecTable codecs not None, *, bint log_append_time=False, bint keys_required=False,
                  int64_t timestamp_before_max_ms=INT64_MAX, int64_t timestamp_after_max_ms=INT64_MAX,
                  bint records_are_trusted=False, bint records_are_checked=False, int origin=2, int target_codec=-1,
                  int level=-2147483648, int target_magic=2, bint one_request=False, bint kafka_limits=False):
        cdef sgs_validation_options *options = &self.validator.options
        sgs_log_validator_init(&self.validator, memory, &codecs.table)
        if not -1 <= target_codec < SGS_CODEC_COUNT or not 0 <= target_magic <= 2:
            raise IllegalArgumentError(
                "no such target",
                found=f"codec {target_codec}, magic {target_magic}",
                expected="codec -1 to 4, magic 0 to 2",
            )
        self.codecs = codecs
        options.log_append_time = log_append_time
        options.keys_required = keys_required
        options.timestamp_before_max_ms = timestamp_before_max_ms
        options.timestamp_after_max_ms = timestamp_after_max_ms
        options.records_are_trusted = records_are_trusted
        options.records_are_checked = records_are_checked
        options.origin = <sgs_append_origin>origin_of(origin)
        options.target_codec = target_codec
        options.level = level
        options.target_magic = <int8_t>target_magic
        options.one_request = one_request
        options.kafka_limits = kafka_limits

    def __dealloc__(self):
        sgs_log_validator_deinit(&self.validator)

    cdef LogValidator twin(self):
        """For a second thread."""
        cdef LogValidator other = LogValidator.__new__(LogValidator, self.codecs)
        other.validator.options = self.validator.options
        return other

    def validate_and_assign_offsets(self, data, headers, int64_t next_offset, int64_t now_ms, int32_t leader_epoch,
                                    metrics=None):
        """Check batches and stamp offsets, epoch and timestamps into *data* and *headers*, or build them again."""
        if self.is_busy:
            return self.twin().validate_and_assign_offsets(data, headers, next_offset, now_ms, leader_epoch, metrics)
        self.is_busy = True
        try:
            return self.run(data, headers, next_offset, now_ms, leader_epoch, metrics)
        finally:
            sgs_log_validator_trim(&self.validator, KEPT_BYTES)
            self.is_busy = False

    cdef object run(self, object data, object headers, int64_t next_offset, int64_t now_ms, int32_t leader_epoch,
                    object metrics):
        cdef size_t rows_count = 0
        cdef sgs_batch_header *rows = rows_of_array(headers, True, &rows_count)
        cdef sgs_log_validator *validator = &self.validator
        cdef Py_buffer view
        cdef sgs_error err
        cdef sgs_status status
        validator.options.now_ms = now_ms
        validator.options.partition_leader_epoch = leader_epoch
        PyObject_GetBuffer(data, &view, PyBUF_WRITABLE)
        try:
            if view.len < SMALL_BATCH_BYTES:
                status = sgs_validate_and_assign_offsets(
                    validator, next_offset, <uint8_t *>view.buf, <size_t>view.len, rows, rows_count, &err
                )
            else:
                with nogil:
                    status = sgs_validate_and_assign_offsets(
                        validator, next_offset, <uint8_t *>view.buf, <size_t>view.len, rows, rows_count, &err
                    )
        finally:
            PyBuffer_Release(&view)
        if metrics is not None:
            count_refusals(metrics, &validator.result.metrics)
        if status == SGS_INVALID_RECORD and validator.result.record_errors_count > 0:
            raise refusal_of(validator, &err)
        check(status, &err)
        return make_named(Validation, (  # what Validation() does, without its Python function
            validator.result.next_offset,
            validator.result.max_timestamp,
            validator.result.records_count,
            validator.result.converted_count,
            validator.result.sizes_may_have_changed,
            rebuilt_batches(validator) if validator.result.is_rebuilt else None,
        ))


def validate_and_assign_offsets(data, headers, CodecTable codecs not None, *, int64_t next_offset, int64_t now_ms,
                                int32_t leader_epoch, metrics=None, **options):
    """The same for one call."""
    return LogValidator(codecs, **options).run(data, headers, next_offset, now_ms, leader_epoch, metrics)
