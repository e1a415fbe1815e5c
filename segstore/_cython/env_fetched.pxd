"""csrc/io/env_fetched.h"""

from libc.stdint cimport int64_t

from segstore._cython.env cimport sgs_env, sgs_transfer
from segstore._cython.status cimport c_bool, sgs_error, sgs_status


cdef extern from "io/env_fetched.h" nogil:
    ctypedef struct sgs_fetched_source:
        void *context
        sgs_status (*read)(void *context, const char *name, void *data, size_t size, int64_t position, size_t *got,
                           c_bool *is_fetched, sgs_error *err) noexcept nogil
        sgs_status (*send)(void *context, const char *name, int64_t position, size_t size, int destination,
                           sgs_transfer *transfer, c_bool *is_fetched, sgs_error *err) noexcept nogil

    ctypedef struct sgs_fetched_files:
        sgs_env env

    void sgs_fetched_files_init(sgs_fetched_files *files, const sgs_env *base, sgs_fetched_source source)
