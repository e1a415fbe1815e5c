# open_segments.pxi - which segments hold indexes in memory: those not used for longest give theirs back
#
# A log may have more segments than a process may have mappings, or memory for their indexes. All segments of the
# process that may hold some are in one list, in order of their last use; the list owns nothing. Guarded by the GIL.
# Segments that take appends are not in it: they keep what they hold. Descriptors alone come and go below
# (descriptor_pool.h).
#
# A release unmaps and closes files, without the GIL. Meanwhile the segment counts the release as a caller, so that
# nobody frees it, and whoever wants to use it waits.

from posix.unistd cimport usleep

import resource

cdef enum:
    FILES_OF_A_SEGMENT = 3
    PAUSE_US = 50
    LEAST_OPEN_SEGMENTS = 8
    MOST_OPEN_SEGMENTS = 1024
    RELEASE_ATTEMPTS = 8


cdef int64_t limit_of_open_segments() except -1:
    """As many as would have half of the descriptors that the process may have."""
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if soft == resource.RLIM_INFINITY:
        return MOST_OPEN_SEGMENTS
    return min(max(soft // 2 // FILES_OF_A_SEGMENT, LEAST_OPEN_SEGMENTS), MOST_OPEN_SEGMENTS)


cdef int64_t open_segments_limit = limit_of_open_segments()
cdef int64_t open_segments_count = 0
cdef void *newest_segment = NULL
cdef void *oldest_segment = NULL


cdef void forget_use(LogSegment segment) noexcept:
    """Take a segment out of the list."""
    global newest_segment, oldest_segment, open_segments_count
    if not segment.is_listed:
        return
    if segment.newer != NULL:
        (<LogSegment>segment.newer).older = segment.older
    else:
        newest_segment = segment.older
    if segment.older != NULL:
        (<LogSegment>segment.older).newer = segment.newer
    else:
        oldest_segment = segment.newer
    segment.newer = segment.older = NULL
    segment.is_listed = False
    open_segments_count -= 1


cdef void note_newest(LogSegment segment) noexcept:
    global newest_segment, oldest_segment, open_segments_count
    forget_use(segment)
    segment.older = newest_segment
    if newest_segment != NULL:
        (<LogSegment>newest_segment).newer = <void *>segment
    else:
        oldest_segment = <void *>segment
    newest_segment = <void *>segment
    segment.is_listed = True
    open_segments_count += 1


cdef void release_idle(LogSegment segment) noexcept:
    """Of a segment with nobody inside, without the GIL."""
    cdef sgs_error err
    cdef sgs_status status
    forget_use(segment)
    segment.callers += 1
    segment.is_being_released = True
    with nogil:
        status = sgs_log_segment_release(segment.segment, &err)
    segment.is_being_released = False
    if status == SGS_ILLEGAL_STATE and not segment.is_closed and not segment.takes_appends:
        note_newest(segment)  # it has not been synced yet
    segment.leave()


cdef void wait_for_release(LogSegment segment) noexcept:
    while segment.is_being_released:
        with nogil:
            usleep(PAUSE_US)


cdef void note_use(LogSegment segment) noexcept:
    """A call is inside the segment: others may have to go."""
    cdef LogSegment oldest
    cdef int attempts = 0
    note_newest(segment)
    while open_segments_count > open_segments_limit and attempts < RELEASE_ATTEMPTS:
        attempts += 1
        oldest = <LogSegment>oldest_segment
        if oldest.process != current_process:
            forget_use(oldest)  # of the parent, whose files a forked child leaves alone [DUR-68]
        elif oldest.callers > 0:
            note_newest(oldest)
        else:
            release_idle(oldest)
