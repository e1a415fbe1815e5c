# segment_lists.pxi - what is done with all segments of a log at once, without a call for each

from operator import attrgetter


def open_segments(segment_class, SegmentContext context not None, array.array base_offsets not None):
    """Segments of these base offsets, whose files are not opened before they are used; without those that went."""
    cdef size_t count = <size_t>len(base_offsets)
    cdef array.array sizes = array.clone(array.array("i"), <Py_ssize_t>count, zero=False)
    cdef const int64_t *offsets = <const int64_t *>base_offsets.data.as_voidptr
    cdef int32_t *looked_up = <int32_t *>sizes.data.as_voidptr
    cdef sgs_error err
    cdef sgs_status status
    cdef size_t i
    if base_offsets.typecode != "q":
        raise ArgumentTypeError("base offsets are signed 64-bit numbers", found=base_offsets.typecode, expected="q")
    context.directory.enter()
    try:
        with nogil:
            status = sgs_segment_log_sizes(
                context.context.env, context.context.directory_fd, offsets, count, looked_up, &err
            )
        check(status, &err, context.directory.path)
    finally:
        context.directory.leave()
    return [segment_class(context, offsets[i], looked_up[i]) for i in range(count) if looked_up[i] >= 0]


def in_order(segments):
    """The segments by base offset, and those offsets."""
    cdef tuple ordered = tuple(segments)
    cdef Py_ssize_t count = len(ordered)
    cdef array.array offsets = array.clone(array.array("q"), count, zero=False)
    if not fill_base_offsets(ordered, <int64_t *>offsets.data.as_voidptr):
        ordered = tuple(sorted(ordered, key=attrgetter("base_offset")))
        fill_base_offsets(ordered, <int64_t *>offsets.data.as_voidptr)
    return ordered, offsets


cdef bint fill_base_offsets(tuple segments, int64_t *offsets) except -1:
    """Whether they ascend."""
    cdef bint ascends = True
    cdef Py_ssize_t i
    for i in range(len(segments)):
        segment = segments[i]
        offsets[i] = (<LogSegment>segment).base_offset if isinstance(segment, LogSegment) else segment.base_offset
        ascends = ascends and (i == 0 or offsets[i] > offsets[i - 1])
    return ascends


def size_of_segments(segments):
    """The sum of the sizes of the .log files in bytes."""
    cdef int64_t size_bytes = 0
    for segment in segments:
        size_bytes += (<LogSegment>segment).size_now() if isinstance(segment, LogSegment) else segment.size_bytes
    return size_bytes


def is_any_replaced(segments):
    """Whether one of them has a .log open that is not the file of its name any more [DUR-77]; that is no use of it."""
    cdef LogSegment segment
    cdef c_bool replaced = False
    cdef sgs_error err
    cdef sgs_status status
    for segment in segments:
        if segment.segment == NULL or segment.is_closed:
            continue  # it has nothing open
        segment.callers += 1  # nobody takes its descriptor meanwhile
        try:
            with nogil:
                status = sgs_log_segment_is_replaced(segment.segment, &replaced, &err)
            if status != SGS_NOT_FOUND:
                segment.check(status, &err)
        finally:
            segment.leave()
        if status == SGS_OK and replaced:
            return True
    return False


def is_any_index_damaged(segments):
    """Whether a look-up has met an index entry that cannot be right, in a segment that is open [DUR-53]."""
    cdef LogSegment segment
    for segment in segments:
        if segment.segment != NULL and not segment.is_closed and sgs_log_segment_index_damaged(segment.segment):
            return True
    return False


def close_segments(segments):
    """Close them all; the first error is raised at the end."""
    first_error = None
    for segment in segments:
        try:
            if isinstance(segment, LogSegment) and (<LogSegment>segment).segment == NULL:
                (<LogSegment>segment).close_now()  # most were never used
            else:
                segment.close()
        except SegstoreError as error:
            first_error = first_error or error
    if first_error is not None:
        raise first_error


def close_segments_quietly(segments):
    """Close them all, write nothing."""
    cdef LogSegment segment
    for segment in segments:
        if not segment.is_closed:
            segment.mark_closed()
