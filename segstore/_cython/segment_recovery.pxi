# segment_recovery.pxi - batches of a segment checked, indexes made anew (csrc/segment/recovery.c, kafka_recovery.c)

class Recovery(NamedTuple):
    scan: ScanResult
    truncated_bytes: int


class RecoveredBatches(NamedTuple):
    taken: int
    last_indexed_position: int
    error: object


@cython.no_gc
cdef class _SegmentRecovery(_SegmentAnswers):
    """The part of `LogSegment` that goes through all of a file."""

    cdef void start_options(self, sgs_scan_options *options, bint check_order, bint contiguous, bint check_epochs,
                            int64_t expected_offset, int64_t next_base_offset, int32_t previous_epoch) noexcept:
        """What a scan of this segment has in common with every other, and what is checked of the order."""
        sgs_scan_options_default(options, SGS_SCAN_FILE)
        options.kafka_limits = self.context.context.kafka_profile
        options.max_batch_bytes = self.context.context.max_batch_bytes
        options.segment_base_offset = self.base_offset
        options.check_order = check_order
        options.contiguous = contiguous
        options.check_epochs = check_epochs
        options.expected_offset = expected_offset
        options.next_segment_base_offset = next_base_offset
        options.previous_epoch = previous_epoch

    def scan(self, *, int64_t start_position=0, int64_t end_position=-1, bint check_crc=True, bint check_order=False,
             bint contiguous=False, bint check_epochs=False, int64_t expected_offset=0,
             int64_t next_segment_base_offset=INT64_MAX, int32_t previous_epoch=-1, bint table=True,
             uint32_t max_batches=0xFFFFFFFF):
        """Check batches through a bounded window; changes nothing."""
        cdef sgs_scan_options options
        cdef sgs_batch_table rows
        cdef sgs_scan_result result
        cdef sgs_error err
        cdef sgs_status status
        self.start_options(&options, check_order, contiguous, check_epochs, expected_offset, next_segment_base_offset,
                           previous_epoch)
        options.check_crc = check_crc
        options.max_batches = max_batches
        sgs_batch_table_init(&rows, memory)
        try:
            self.enter()
            try:
                with nogil:
                    status = sgs_log_segment_scan(
                        self.segment, &options, start_position, end_position, &rows if table else NULL, &result, &err
                    )
                self.check(status, &err)
            finally:
                self.leave()
            headers = array_of_rows(sgs_batch_table_rows(&rows), sgs_batch_table_count(&rows))
        finally:
            sgs_batch_table_deinit(&rows)
        return headers, scan_result_of(&result, self.context.directory.path)

    def scan_transactions(self, *, int64_t start_position=0, int64_t end_position=-1, int64_t expected_offset=0,
                          int64_t data_from=0, uint32_t max_batches=0xFFFFFFFF):
        """The rows of markers and of transactional data, and what the markers end [TXX-1, DUR-7]."""
        cdef sgs_scan_options options
        cdef sgs_transaction_rows rows
        cdef sgs_scan_result result
        cdef sgs_error err
        cdef sgs_status status
        self.start_options(&options, True, False, False, expected_offset, INT64_MAX, -1)
        options.max_batches = max_batches
        sgs_transaction_rows_init(&rows, memory)
        try:
            self.enter()
            try:
                with nogil:
                    status = sgs_log_segment_scan_transactions(
                        self.segment, &options, start_position, end_position, data_from, &rows, &result, &err
                    )
                self.check(status, &err)
            finally:
                self.leave()
            headers = array_of_rows(sgs_batch_table_rows(&rows.table), sgs_batch_table_count(&rows.table))
            ends = bytes(rows.ends.data[:rows.ends.size]) if rows.ends.size > 0 else b""
        finally:
            sgs_transaction_rows_deinit(&rows)
        return headers, ends, scan_result_of(&result, self.context.directory.path)

    def drop_cache(self):
        """Ask the system to forget what it has read of the .log: the next scan reads the disk [DUR-60]."""
        cdef sgs_error err
        cdef sgs_status status
        self.enter()
        try:
            with nogil:
                status = sgs_log_segment_drop_cache(self.segment, &err)
            self.check(status, &err)
        finally:
            self.leave()

    def recover(self, *, int64_t cut_at=SGS_CUT_ANYWHERE, bint check_crc=True, bint check_order=True,
                bint contiguous=False, bint check_epochs=False, int64_t expected_offset=0,
                int64_t next_segment_base_offset=INT64_MAX, int32_t previous_epoch=-1, bint table=True):
        """Check every batch, rebuild both indexes, cut what is no batch [SEG-40]; rows only with *table*.

        *cut_at* is where the batches must end for the rest to be cut, -1 for nowhere.
        """
        cdef sgs_scan_options options
        cdef sgs_batch_table rows
        cdef sgs_batch_table *wanted = &rows if table else NULL
        cdef sgs_recovery recovery
        cdef sgs_error err
        cdef sgs_status status
        self.start_options(&options, check_order, contiguous, check_epochs, expected_offset, next_segment_base_offset,
                           previous_epoch)
        options.check_crc = check_crc
        sgs_batch_table_init(&rows, memory)
        try:
            self.enter()
            try:
                with nogil:
                    status = sgs_log_segment_recover(self.segment, &options, cut_at, wanted, &recovery, &err)
                self.check(status, &err)
            finally:
                self.leave()
            headers = array_of_rows(sgs_batch_table_rows(&rows), sgs_batch_table_count(&rows))
        finally:
            sgs_batch_table_deinit(&rows)
        scan = scan_result_of(&recovery.scan, self.context.directory.path)
        return headers, Recovery(scan, recovery.truncated_bytes)

    def begin_recovery(self):
        """Empty both indexes, at their full size: Kafka's recovery begins [SEG-40]."""
        cdef sgs_error err
        cdef sgs_status status
        self.enter()
        try:
            with nogil:
                status = sgs_log_segment_begin_recovery(self.segment, &err)
            self.check(status, &err)
        finally:
            self.leave()

    def recover_batches(self, headers, int64_t last_indexed_position):
        """Take the next good batches into the indexes; an error says why not all of them [SEG-40, SEG-41]."""
        cdef size_t rows_count = 0
        cdef const sgs_batch_header *rows = rows_of_array(headers, False, &rows_count)
        cdef size_t taken = 0
        cdef sgs_error err
        cdef sgs_status status
        error = None
        self.enter()
        try:
            with nogil:
                status = sgs_log_segment_recover_batches(
                    self.segment, rows, rows_count, &last_indexed_position, &taken, &err
                )
            try:
                self.check(status, &err)
            except SegstoreError as raised:
                error = raised
        finally:
            self.leave()
        return RecoveredBatches(taken, last_indexed_position, error)

    def end_recovery(self, int32_t valid_bytes):
        """Cut the .log behind the last batch that was taken, finish both indexes; returns the bytes cut [SEG-40]."""
        cdef int32_t truncated_bytes = 0
        cdef sgs_error err
        cdef sgs_status status
        self.enter()
        try:
            with nogil:
                status = sgs_log_segment_end_recovery(self.segment, valid_bytes, &truncated_bytes, &err)
            self.check(status, &err)
        finally:
            self.leave()
        return truncated_bytes

    def rewrite(self, int64_t position):
        """Write the bytes from *position* on again in place, and sync [DUR-36]."""
        cdef sgs_error err
        cdef sgs_status status
        self.enter()
        try:
            with nogil:
                status = sgs_log_segment_rewrite(self.segment, position, &err)
            self.check(status, &err)
        finally:
            self.leave()
