# cleaner.pxi - the pieces of a cleaner's pass (csrc/segment/cleaner.h)

class CleanerCounts(NamedTuple):
    map_bytes_read: int
    map_messages_read: int
    bytes_read: int
    messages_read: int
    invalid_messages_read: int
    bytes_written: int
    messages_written: int


@cython.final
cdef class SegmentCleaner:
    """Maps and filters the batches of segments, a piece a call."""

    cdef sgs_cleaner cleaner
    cdef OffsetMap map
    cdef CodecTable codecs
    cdef sgs_buffer last_records

    def __cinit__(self, OffsetMap offset_map not None, CodecTable codecs not None):
        self.map = offset_map
        self.codecs = codecs
        sgs_cleaner_init(&self.cleaner, memory, &codecs.table, &offset_map.map)
        sgs_buffer_init(&self.last_records, memory)

    def __dealloc__(self):
        sgs_buffer_deinit(&self.last_records)
        sgs_cleaner_deinit(&self.cleaner)

    def begin_pass(self, *, int64_t first_dirty_offset, int32_t max_entries, int64_t now_ms,
                   int64_t delete_retention_ms, uint32_t read_bytes, bint check,
                   int64_t destination_bytes=INT32_MAX):
        """Clear the map and forget the last pass."""
        if not 0 <= max_entries <= self.map.map.slots or read_bytes == 0:
            raise IllegalArgumentError(
                "a pass needs a map and a buffer", found=f"{max_entries} entries, {read_bytes} bytes",
                expected=f"at most {self.map.map.slots} entries, a byte or more",
            )
        with nogil:  # zeroing a large map takes a while
            sgs_cleaner_begin_pass(&self.cleaner)
        self.cleaner.options.first_dirty_offset = first_dirty_offset
        self.cleaner.options.max_entries = max_entries
        self.cleaner.options.now_ms = now_ms
        self.cleaner.options.delete_retention_ms = delete_retention_ms
        self.cleaner.options.read_bytes = read_bytes
        self.cleaner.options.check = check
        self.cleaner.options.destination_bytes = destination_bytes

    def begin_copy(self):
        """The map is built: the transactions are gone through again."""
        sgs_cleaned_transaction_metadata_clear(&self.cleaner.transactions)

    def add_aborted(self, transactions):
        """Aborted transactions of what comes, as in a transaction index."""
        cdef sgs_aborted_txn txn
        cdef sgs_error err
        for txn.producer_id, txn.first_offset, txn.last_offset, txn.last_stable_offset in transactions:
            check(sgs_cleaned_transaction_metadata_add(&self.cleaner.transactions, &txn, 1, &err), &err)

    def begin_group(self, last_records, int64_t kept_last_offset):
        """(producer id, last data offset or -1, epoch) of the active producers, and which batch stays if empty."""
        cdef sgs_last_record record
        cdef sgs_error err
        self.last_records.size = 0
        memset(&record, 0, sizeof(record))
        for record.producer_id, record.last_data_offset, record.producer_epoch in sorted(last_records):
            check(sgs_buffer_append(&self.last_records, &record, sizeof(record), &err), &err)
        self.cleaner.options.last_records = <const sgs_last_record *>self.last_records.data
        self.cleaner.options.last_records_count = self.last_records.size // sizeof(record)
        self.cleaner.options.kept_last_offset = kept_last_offset

    def begin_source(self, LogSegment segment not None, *, int64_t position=0, int64_t next_base_offset=INT64_MAX,
                     bint retain_legacy_deletes=False):
        """Go on with another segment, from a batch of it on."""
        segment.enter()
        try:
            if not 0 <= position <= segment.size_now() or next_base_offset < segment.base_offset:
                raise IllegalArgumentError(
                    "a source begins at a batch of it", found=f"position {position}, next {next_base_offset}",
                    expected=f"0 to {segment.size_now()}, {segment.base_offset} or more",
                )
            self.cleaner.options.retain_legacy_deletes = retain_legacy_deletes
            sgs_cleaner_begin_source(&self.cleaner, segment.segment, position, next_base_offset)
        finally:
            segment.leave()

    @property
    def is_done(self):
        """Whether all of the source was dealt with."""
        return bool(sgs_cleaner_is_done(&self.cleaner))

    def map_piece(self, LogSegment source not None):
        """Put the keys of the next piece into the map; returns whether it is full."""
        cdef c_bool full = False
        cdef sgs_error err
        cdef sgs_status status
        source.enter()
        try:
            with nogil:
                status = sgs_cleaner_map_piece(&self.cleaner, source.segment, &full, &err)
            source.check(status, &err)
        finally:
            source.leave()
        return bool(full)

    def copy_piece(self, LogSegment source not None, LogSegment destination not None):
        """Append what is kept of the next piece; returns where another destination has to begin, or None."""
        cdef int64_t begins_at = -1
        cdef sgs_error err
        cdef sgs_status status
        source.enter()
        try:
            destination.enter()
            try:
                with nogil:
                    status = sgs_cleaner_copy_piece(
                        &self.cleaner, source.segment, destination.segment, &begins_at, &err
                    )
                source.check(status, &err)
            finally:
                destination.leave()
        finally:
            source.leave()
        return begins_at if begins_at >= 0 else None

    def take_aborted(self):
        """The aborted transactions of which a batch was seen since the last call: for the transaction index."""
        cdef const sgs_aborted_txn *rows = <const sgs_aborted_txn *>self.cleaner.transactions.cleaned.data
        cdef size_t i
        found = [
            (rows[i].producer_id, rows[i].first_offset, rows[i].last_offset, rows[i].last_stable_offset)
            for i in range(self.cleaner.transactions.cleaned.size // sizeof(sgs_aborted_txn))
        ]
        self.cleaner.transactions.cleaned.size = 0
        return found

    @property
    def counts(self):
        """What the pass has read and written so far."""
        cdef const sgs_cleaner_stats *stats = &self.cleaner.stats
        return CleanerCounts(
            stats.map_bytes_read, stats.map_messages_read, stats.bytes_read, stats.messages_read,
            stats.invalid_messages_read, stats.bytes_written, stats.messages_written,
        )
