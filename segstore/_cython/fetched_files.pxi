# fetched_files.pxi - files that have a size here, and their bytes elsewhere (csrc/io/env_fetched.h)

cdef sgs_status leave_fetch_error(object error, sgs_error *err) noexcept:
    """Keep the exception for check(), which finds it when the core has come back [SGS_CALLBACK]."""
    PyErr_SetObject(type(error), error)
    return sgs_fail(err, SGS_CALLBACK, "bytes could not be fetched")


cdef sgs_status read_fetched(void *context, const char *name, void *data, size_t size, int64_t position, size_t *got,
                             c_bool *is_fetched, sgs_error *err) noexcept with gil:
    try:
        file = (<FetchedFiles>context).files.get(name)
        is_fetched[0] = file is not None
        if file is None:
            return SGS_OK
        with PyMemoryView_FromMemory(<char *>data, <Py_ssize_t>size, PyBUF_WRITE) as target:  # dies with the call
            got[0] = <size_t>file.read_into(target, position)
        return SGS_OK
    except BaseException as error:
        return leave_fetch_error(error, err)


cdef sgs_status send_fetched(void *context, const char *name, int64_t position, size_t size, int destination,
                             sgs_transfer *transfer, c_bool *is_fetched, sgs_error *err) noexcept with gil:
    try:
        file = (<FetchedFiles>context).files.get(name)
        is_fetched[0] = file is not None
        if file is None:
            return SGS_OK
        transfer.sent = 0
        transfer.would_block = transfer.interrupted = False
        data = bytearray(65536 if size > 65536 else <Py_ssize_t>size)
        with memoryview(data) as target:
            read = file.read_into(target, position)
            try:
                transfer.sent = <size_t>os.write(destination, target[:read])
            except BlockingIOError:
                transfer.would_block = True
            except OSError as error:
                sgs_fail(err, SGS_SEND_FAILED, "the destination takes nothing any more")
                err.os_error = error.errno
                return SGS_SEND_FAILED
        return SGS_OK
    except BaseException as error:
        return leave_fetch_error(error, err)


@cython.final
@cython.no_gc_clear  # the core asks it as long as a file is open
cdef class FetchedFiles(Environment):
    """The system's environment, but for the bytes of *files*."""

    cdef sgs_fetched_files fetched
    cdef dict files

    def __cinit__(self, dict files):
        cdef sgs_fetched_source source
        self.files = {name.encode("utf-8", "surrogateescape"): file for name, file in files.items()}
        source.context = <void *>self
        source.read = &read_fetched
        source.send = &send_fetched
        sgs_fetched_files_init(&self.fetched, environment, source)
        self.env = &self.fetched.env
