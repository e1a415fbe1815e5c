# status.pxi - the one place where a status of csrc/base/status.h becomes an exception of segstore/status_errors.py
#
# Here the full path joins the error: what a message says about the place belongs here.

STATUS_NAMES = tuple([sgs_status_name(<sgs_status>status).decode("ascii") for status in range(SGS_STATUS_COUNT)])


cdef object error_of(sgs_error *err, str directory, object error_class=None):
    """The exception that *err* describes; its file is a full path where *directory* is known."""
    cdef str file = err.file.decode("utf-8", "backslashreplace")
    if directory is not None:
        file = os.path.join(directory, file) if file not in ("", ".") else directory
    if error_class is None:
        error_class = STATUS_ERRORS.get(sgs_status_name(err.status).decode("ascii"), InternalError)
    return error_class(
        err.message.decode("utf-8", "backslashreplace"),
        file=file or None,
        position=err.position if err.position >= 0 else None,
        found=err.found.decode("utf-8", "backslashreplace") or None,
        expected=err.expected.decode("utf-8", "backslashreplace") or None,
        os_error=err.os_error or None,
    )


cdef inline sgs_status failed_at(sgs_error *err, int64_t position) noexcept nogil:
    """Note where the batch begins that an error is about, when the error names no byte itself."""
    if err.position < 0:
        err.position = position
    return err.status


cdef int check(sgs_status status, sgs_error *err, str directory=None) except -1:
    """Raise what a failed call says; an exception that a callback left pending goes on as it is."""
    if status == SGS_OK:
        return 0
    if status == SGS_CALLBACK and PyErr_Occurred():
        return raise_pending(err, directory)
    raise error_of(err, directory)


cdef int pending_exception() except -1:
    """What a callback left behind, as a call that failed."""
    return -1


cdef inline int let_pending_go_on(sgs_status status) except -1:
    """For who does not raise what a failed call says: an exception that a callback left goes on."""
    return pending_exception() if status == SGS_CALLBACK and PyErr_Occurred() else 0


cdef int raise_pending(sgs_error *err, str directory) except -1:
    """A callback knows neither file nor position: the core, which called it, does."""
    try:
        pending_exception()
    except SegstoreError as error:
        where = error_of(err, directory)
        if error.file is None:
            error.file = where.file
            error.position = where.position
        raise
