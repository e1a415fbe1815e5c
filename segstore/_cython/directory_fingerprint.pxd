"""csrc/io/directory_fingerprint.h"""

from libc.stdint cimport int64_t

from segstore._cython.env cimport sgs_env
from segstore._cython.status cimport sgs_error, sgs_status


cdef extern from "io/directory_fingerprint.h" nogil:
    sgs_status sgs_directory_fingerprint(const sgs_env *env, int directory_fd, const char *name_left_out, int64_t *out,
                                         sgs_error *err)
