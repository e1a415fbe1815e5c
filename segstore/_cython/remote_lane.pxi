# remote_lane.pxi - the short way of a read of remote storage whose segments are files of this machine [D11]
#
# The layers above know which segment of remote storage has an offset, and in which leader epoch. They teach that to
# the lane. It holds as long as neither the epochs of the log nor what is known of its remote segments has changed. A
# read goes down in one call: index, bytes, headers. All batches that it gives are of the epoch that the log has there
# [DUR-141]. Whatever else there is - another segment, the end of an epoch, any error - is not taken, and the layers
# do it: their errors are the only ones.

cdef enum:
    MOST_SKIPPED_BYTES = 65536  # before the batch that a read wants, where the index says no better
    LEAST_READ_BYTES = 16384
    MOST_KNOWN_SEGMENTS = 256
    MOST_OPEN_FILES = 16

MOST_SKIPPED_REMOTE_BYTES = MOST_SKIPPED_BYTES  # the layers read so, too
LEAST_REMOTE_READ_BYTES = LEAST_READ_BYTES


@cython.final
@cython.auto_pickle(False)
cdef class ChangeCounter:
    """How often something has changed that lanes go by: a change is the end of those that were made before."""

    cdef readonly int64_t count
    cdef bint is_ended
    cdef list lanes

    def __cinit__(self):
        self.lanes = []

    def add(self):
        """Note a change."""
        self.count += 1
        end_all(self.lanes)

    def end(self):
        """Note that changes are counted here no more: a lane that is made from now on takes no read."""
        self.is_ended = True
        self.add()


cdef void end_all(list lanes):
    cdef RemoteReadLane lane
    for lane in lanes.copy():
        lane.end()


@cython.final
@cython.auto_pickle(False)
cdef class _KnownSegment:
    """A finished segment, and the offsets for which it is the one to be read."""

    cdef int64_t first_offset
    cdef int64_t last_offset
    cdef int64_t lowest_offset  # of its batches that are of the epoch: they lie in between
    cdef int64_t highest_offset
    cdef int64_t base_offset  # of the segment
    cdef int64_t end_offset
    cdef int64_t size_bytes
    cdef int32_t epoch
    cdef bytes file_name
    cdef str object_name
    cdef OffsetIndex index  # None: it was not at hand
    cdef bint has_aborted  # whether a transaction that reaches into it was aborted
    cdef int64_t aborted_after  # so many truncations that is known: another one may cut a marker; -1: it is not known
    cdef int64_t next_offset  # behind what the layers have read: the batch there begins at the position
    cdef int64_t next_position


@cython.final
@cython.auto_pickle(False)
@cython.no_gc_clear
cdef class _SegmentFile(_Handle):
    """An open file that a lane reads from, and where the next read of it begins."""

    cdef Environment environment
    cdef const sgs_env *env  # of environment
    cdef _KnownSegment segment
    cdef int fd
    cdef uint64_t inode
    cdef int64_t used_at  # the lane counts its reads
    cdef bint is_gone  # the name is gone, or is that of another file
    cdef int64_t next_offset  # behind the last read, of the layers at first: the batch there begins at the position
    cdef int64_t next_position

    def __cinit__(self):
        self.fd = -1

    cdef void release(self) noexcept:
        cdef sgs_error err
        cdef int fd = self.fd
        cdef const char *text
        self.fd = -1
        if fd >= 0:
            text = self.segment.file_name
            with nogil:
                self.env.close(self.env, fd, text, &err)

    def __dealloc__(self):
        self.release()


cdef _SegmentFile opened_in(Directory directory, _KnownSegment segment):
    """The file of a segment; None: it cannot be opened."""
    cdef _SegmentFile file = _SegmentFile()  # which may run other threads
    cdef const char *text = segment.file_name
    cdef sgs_file_info info
    cdef sgs_error err
    cdef sgs_status status
    file.environment = directory.environment
    file.env = directory.env
    file.segment = segment
    file.next_offset = segment.next_offset
    file.next_position = segment.next_position
    if directory.is_closed:
        return None
    directory.callers += 1
    with nogil:
        status = file.env.open_file(file.env, directory.fd, text, SGS_OPEN_READ, &file.fd, &err)
        if status == SGS_OK:
            status = file.env.file_info(file.env, file.fd, text, &info, &err)
    directory.leave()
    if status != SGS_OK:
        return None
    file.inode = info.inode
    file.is_closed = False
    return file


@cython.final
@cython.auto_pickle(False)
cdef class RemoteReadLane:
    """Reads what one log has in remote storage, as it is known now; None when the layers have to decide."""

    cdef tuple leader_epochs
    cdef ChangeCounter changes
    cdef int64_t changes_count
    cdef bint is_ended
    cdef Directory directory
    cdef object fetch_class
    cdef CodecTable codecs
    cdef object topic_partition
    cdef list known  # by first offset, without an overlap
    cdef list files  # of the segments that were read last, at most one of each
    cdef int64_t reads_count
    cdef public object charge

    def __cinit__(self, tuple leader_epochs not None, ChangeCounter changes not None, int64_t changes_count,
                  Directory directory not None, CodecTable codecs not None, *, fetch_class, topic_partition not None):
        if not issubclass(fetch_class, FetchedRecords):
            raise IllegalArgumentError(
                "a lane fills objects of its own class", found=fetch_class.__name__, expected="FetchedRecords"
            )
        self.leader_epochs = leader_epochs
        self.changes = changes
        self.changes_count = changes_count
        self.directory = directory
        self.codecs = codecs
        self.fetch_class = fetch_class
        self.topic_partition = topic_partition
        self.known = []
        self.files = []
        self.is_ended = changes.is_ended or changes.count != changes_count
        if not self.is_ended:
            end_all(changes.lanes)  # it takes their place
            changes.lanes.append(self)

    def end(self):
        """Take no more reads, and close the files: they may be deleted. Twice is harmless."""
        cdef _SegmentFile file
        self.is_ended = True
        self.known = []
        if self in self.changes.lanes:
            self.changes.lanes.remove(self)
        for file in self.files.copy():
            self.let_go(file)

    cdef inline bint is_valid(self, object leader_epochs) noexcept:
        return (
            leader_epochs is self.leader_epochs
            and not self.is_ended
            and self.changes.count == self.changes_count
            and not self.directory.is_closed
            and self.directory.process == current_process
        )

    cdef Py_ssize_t place_behind(self, int64_t offset) noexcept:
        """How many of the known segments begin at *offset* or before it."""
        cdef Py_ssize_t low = 0
        cdef Py_ssize_t count = PyList_GET_SIZE(self.known)
        cdef Py_ssize_t middle
        while low < count:
            middle = (low + count) // 2
            if (<_KnownSegment>PyList_GET_ITEM(self.known, middle)).first_offset <= offset:
                low = middle + 1
            else:
                count = middle
        return low

    cdef _KnownSegment segment_of(self, int64_t offset):
        cdef Py_ssize_t place = self.place_behind(offset)
        cdef _KnownSegment found
        if place == 0:
            return None
        found = <_KnownSegment>PyList_GET_ITEM(self.known, place - 1)
        return found if offset <= found.last_offset else None

    cdef _SegmentFile file_of(self, _KnownSegment segment):
        """Its open file; None: there is none."""
        cdef _SegmentFile file
        for file in self.files:
            if file.segment is segment:
                return file
        return None

    cdef void let_go(self, _SegmentFile file):
        """Close a file, which other threads may read to the end; they run meanwhile."""
        if file in self.files:
            self.files.remove(file)
        file.mark_closed()

    def has_come_to(self, int64_t offset):
        """Whether a read of a file that is still open has ended there."""
        cdef _SegmentFile file
        for file in self.files:
            if file.next_offset == offset:
                return True
        return False

    def holds(self, tuple leader_epochs not None, int64_t changes_count):
        """Whether it still goes by what is known now, which is what was known then, and its folder is open."""
        return self.is_valid(leader_epochs) and changes_count == self.changes_count

    def knows(self, tuple leader_epochs not None, int64_t offset):
        """Whether a read at *offset* may be taken, wherever it lies in its segment."""
        cdef _KnownSegment segment = self.segment_of(offset)
        return (
            self.is_valid(leader_epochs)
            and segment is not None
            and segment.index is not None
            and not segment.index.mapping.is_closed
        )

    def learn(self, int64_t first_offset, int64_t last_offset, *, int32_t epoch, int64_t epoch_start_offset,
              int64_t epoch_end_offset, int64_t base_offset, int64_t end_offset, int64_t size_bytes,
              str file_name not None, str object_name not None, OffsetIndex index, int64_t next_offset,
              int64_t next_position):
        """Take over which segment has these offsets; what was known of any of them is forgotten."""
        cdef _KnownSegment segment = _KnownSegment()
        cdef list taught = [segment]
        cdef Py_ssize_t behind, first
        cdef _SegmentFile file
        segment.first_offset = first_offset
        segment.aborted_after = -1
        segment.last_offset = last_offset
        segment.epoch = epoch
        segment.lowest_offset = max(epoch_start_offset, base_offset)
        segment.highest_offset = min(epoch_end_offset - 1, end_offset)
        segment.base_offset = base_offset
        segment.end_offset = end_offset
        segment.size_bytes = size_bytes
        segment.file_name = encoded_name(file_name)
        segment.object_name = object_name
        segment.index = index
        segment.next_offset = next_offset
        segment.next_position = next_position
        if self.is_ended:
            return
        if len(self.known) >= MOST_KNOWN_SEGMENTS:
            self.known.clear()
        behind = self.place_behind(last_offset)
        first = self.place_behind(first_offset)
        if first and (<_KnownSegment>self.known[first - 1]).last_offset >= first_offset:
            first -= 1
        self.known[first:behind] = taught
        for file in self.files.copy():
            if self.segment_of(file.segment.first_offset) is not file.segment:
                self.let_go(file)

    def lacks_aborted(self, int64_t base_offset, int64_t end_offset, int64_t truncations_done):
        """Whether a segment is known that has these offsets, and not whether a transaction there was aborted."""
        cdef _KnownSegment segment
        for segment in self.known:
            if segment.base_offset == base_offset and segment.end_offset == end_offset:
                return segment.aborted_after != truncations_done
        return False

    def note_aborted(self, int64_t base_offset, int64_t end_offset, *, bint has_aborted, int64_t truncations_done):
        """Take over whether a transaction that reaches into a segment was aborted; all of them are decided."""
        cdef _KnownSegment segment
        for segment in self.known:
            if segment.base_offset == base_offset and segment.end_offset == end_offset:
                segment.has_aborted = has_aborted
                segment.aborted_after = truncations_done

    cdef bint find_place(self, _SegmentFile file, int64_t offset, int64_t *position, int64_t *skipped) noexcept:
        """Where the bytes of a read begin, and how many of them may be before its batch; False: that is not known."""
        cdef _KnownSegment segment = file.segment
        cdef sgs_offset_position found
        cdef sgs_offset_position above
        cdef c_bool has_above = False
        cdef const sgs_offset_index *index
        cdef sgs_error err
        cdef sgs_status status
        if offset == file.next_offset:
            position[0] = file.next_position
            skipped[0] = 0
            return True
        if offset == segment.base_offset:  # without an index, too
            position[0] = skipped[0] = 0
            return True
        if segment.index is None:
            return False
        if segment.index.mapping.is_closed or segment.index.mapping.process != current_process:
            return False
        segment.index.mapping.callers += 1  # from here on it stays mapped
        index = &segment.index.index
        with nogil:
            status = sgs_offset_index_lookup(index, offset, &found, &err)
            if status == SGS_OK:
                status = sgs_offset_index_fetch_upper_bound_offset(index, found, 1, &above, &has_above, &err)
        segment.index.mapping.leave()
        if status != SGS_OK:
            return False
        position[0] = found.position
        skipped[0] = MOST_SKIPPED_BYTES
        if has_above:
            skipped[0] = min(skipped[0], max(above.position - position[0], 0))
        return True

    cdef _SegmentFile entered(self, _KnownSegment segment):
        """Its file, kept open, and entered; None: it cannot be opened, or the lane was ended meanwhile.

        Other threads run while a file is opened or closed. So what belongs to a file is in one object, which a read
        holds on to.
        """
        cdef _SegmentFile file = self.file_of(segment)
        cdef _SegmentFile opened = None
        if file is None:
            opened = opened_in(self.directory, segment)
            if opened is None:
                self.forget_folder()
                return None
            if self.is_ended:
                return None
            file = self.file_of(segment)  # that of another thread, which was faster
        if file is None:
            file = opened
            self.files.append(file)
        self.reads_count += 1
        file.used_at = self.reads_count
        file.callers += 1  # from here on it stays open for this read
        while PyList_GET_SIZE(self.files) > MOST_OPEN_FILES:
            self.let_go(self.longest_unused())
        return file

    cdef _SegmentFile longest_unused(self):
        cdef _SegmentFile file
        cdef _SegmentFile found = None
        for file in self.files:
            if found is None or file.used_at < found.used_at:
                found = file
        return found

    def read(self, offset, max_bytes, min_one_message, int64_t log_start_offset, int64_t local_start_offset,
             PublishedEnd published not None, leader_epochs, visible_end=None,
             AbortedTransactions nothing_aborted=None, int64_t truncations_done=0):
        """One fetch up to the log end, or to where what is visible ends, as a `fetch_class`."""
        cdef int64_t start_offset = 0
        cdef int64_t max_size = 0
        cdef int64_t position = 0
        cdef int64_t size = 0
        cdef int64_t end_offset = offset_in(published._log_end, 0)
        cdef fetch_cut cut
        cdef sgs_error err
        cdef bint is_read = False
        cdef RangeBytes found
        cdef FetchedRecords answer
        cdef _KnownSegment segment
        cdef _SegmentFile file
        if not is_whole_number(offset, &start_offset) or not is_whole_number(max_bytes, &max_size):
            return None
        if max_size < 0 or (min_one_message is not True and min_one_message is not False):
            return None
        if not log_start_offset <= start_offset < local_start_offset or not self.is_valid(leader_epochs):
            return None
        if visible_end is not None:
            end_offset = visible_end
        segment = self.segment_of(start_offset)
        if segment is None or segment.end_offset >= end_offset:
            return None
        if nothing_aborted is not None and (segment.has_aborted or segment.aborted_after != truncations_done):
            return None
        max_size = min(max_size, <int64_t>INT32_MAX)
        found = RangeBytes.__new__(RangeBytes)
        file = self.entered(segment)
        if file is None:
            return None
        if self.directory.is_closed:  # by another thread, while the file was opened
            file.leave()
            return None
        self.directory.callers += 1
        if self.find_place(file, start_offset, &position, &size):
            size = min(max(size + max_size, <int64_t>LEAST_READ_BYTES), segment.size_bytes - position)
            is_read = size > 0 and read_of_file(file, self.directory, position, size, found, &err) == SGS_OK
        self.directory.leave()
        file.leave()
        if file.is_gone:
            self.forget_folder()
            return None
        if not is_read or self.is_ended:
            return None
        cut.start_offset = start_offset
        cut.max_size = max_size
        cut.min_one_message = min_one_message is True
        cut.next_offset = cut.next_position = INT64_MIN
        if not cut_to_fetch(found, segment, position, &cut):
            return None
        if self.charge is not None and not self.charge(found.content.size):
            self.end()  # the layers wait before they read
            return None
        file.next_offset = cut.next_offset
        file.next_position = position + cut.next_position
        answer = <FetchedRecords>new_of(self.fetch_class)
        answer.data = PyMemoryView_FromObject(found)
        answer.place = place_of(cut.first.base_offset, segment.base_offset, position + cut.first.position)
        answer.segment_base_offset = segment.base_offset
        answer.source = segment.object_name
        answer.start_offset = start_offset
        answer.end_offset = end_offset
        answer._aborted = nothing_aborted
        answer._aborted_below = INT64_MAX
        answer._codecs = self.codecs
        answer.topic_partition = self.topic_partition
        answer._check_crcs = True
        return answer

    cdef void forget_folder(self):
        """The folder has not the file that was known: it may be another folder by now.

        A lane that was ended leaves the folder to the next one: the file was deleted, as it was told.
        """
        if not self.is_ended:
            self.end()
            self.directory.close()


cdef sgs_status read_of_file(_SegmentFile file, Directory directory, int64_t position, int64_t size, RangeBytes found,
                             sgs_error *err) noexcept:
    """Read so many bytes of a file; found is new, and has fewer where the file is shorter.

    A file that has its name no more is gone: it was deleted, or a repaired one was put in its place.
    """
    cdef size_t got = 0
    cdef sgs_file_info info
    cdef const char *text = file.segment.file_name
    cdef sgs_status status
    with nogil:
        status = file.env.file_info_at(file.env, directory.fd, text, &info, err)
    if status != SGS_OK or info.inode != file.inode:
        file.is_gone = True
        return SGS_OK
    size = min(size, max(info.size - position, 0))  # no memory is taken for what is not there
    status = found.make_room(<size_t>size, position, err)
    if status == SGS_OK:
        with nogil:
            status = file.env.read_at(
                file.env, file.fd, text, <char *>found.content.data, <size_t>size, position, &got, err
            )
    if status == SGS_OK:
        found.content.size = got
    else:
        file.is_gone = True  # it is opened again
    return status


cdef struct fetch_cut:
    int64_t start_offset  # what is asked for, and how much of it
    int64_t max_size
    bint min_one_message
    sgs_batch_header first  # of what is given
    int64_t next_offset  # behind the last whole batch, and where that one begins
    int64_t next_position


cdef bint cut_to_fetch(RangeBytes found, _KnownSegment segment, int64_t position, fetch_cut *cut) noexcept:
    """Leave of bytes from *position* on what a fetch returns, and describe it; False: the layers decide."""
    cdef sgs_scan_options options
    cdef sgs_scan_result result
    cdef sgs_batch_table table
    cdef const sgs_batch_header *rows
    cdef size_t count
    cdef size_t row = 0
    cdef int64_t end = 0
    cdef int64_t there = <int64_t>found.content.size
    cdef bint is_taken = False
    cdef sgs_error err
    sgs_scan_options_default(&options, SGS_SCAN_MEMORY)
    options.check_crc = False
    sgs_batch_table_init(&table, memory)
    with nogil:
        if sgs_batch_scan_buffer(<const uint8_t *>found.content.data, found.content.size, &options, &table, &result,
                                 &err) == SGS_OK and result.stop <= SGS_SCAN_INCOMPLETE:
            rows = sgs_batch_table_rows(&table)
            count = sgs_batch_table_count(&table)
            while row < count and rows[row].last_offset < cut.start_offset:
                row += 1
            if row < count and (cut.min_one_message or rows[row].size_bytes <= cut.max_size):
                cut.first = rows[row]
                end = cut.first.position + max(cut.max_size, <int64_t>cut.first.size_bytes)
                is_taken = cut.first.base_offset >= segment.lowest_offset
                is_taken = is_taken and (end <= there or position + there == segment.size_bytes)
                while is_taken and row < count and rows[row].position < end:
                    is_taken = (
                        rows[row].magic >= MAGIC_WITH_BASE_OFFSET
                        and rows[row].partition_leader_epoch == segment.epoch
                        and rows[row].last_offset <= segment.highest_offset
                    )
                    if rows[row].position + rows[row].size_bytes <= end:
                        cut.next_offset = rows[row].last_offset + 1
                        cut.next_position = rows[row].position + rows[row].size_bytes
                    row += 1
        sgs_batch_table_deinit(&table)
    if is_taken:
        found.content.data += cut.first.position
        found.content.size = <size_t>(min(end, there) - cut.first.position)
    return is_taken
