"""csrc/base/status.h"""

from libc.stdint cimport int32_t, int64_t


cdef extern from "stdbool.h":
    ctypedef bint c_bool "bool"  # a bint is an int: never pass its address for a bool


cdef extern from "base/status.h" nogil:
    ctypedef enum sgs_status:
        SGS_OK
        SGS_INVALID_RECORD
        SGS_LIMIT_EXCEEDED
        SGS_CODEC
        SGS_FSYNC_FAILED
        SGS_SEND_FAILED
        SGS_NOT_FOUND
        SGS_ALREADY_EXISTS
        SGS_ILLEGAL_STATE
        SGS_CALLBACK
        SGS_ILLEGAL_ARGUMENT
        SGS_STATUS_COUNT

    ctypedef struct sgs_error:
        sgs_status status
        int32_t os_error
        int64_t position
        char file[256]
        char message[256]
        char found[96]
        char expected[96]

    sgs_status sgs_fail(sgs_error *err, sgs_status status, const char *format, ...)
    sgs_status sgs_fail_in_file(sgs_error *err, const char *file)
    const char *sgs_status_name(sgs_status status)
    const char *sgs_status_text(sgs_status status)
