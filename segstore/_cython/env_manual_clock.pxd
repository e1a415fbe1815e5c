"""csrc/io/env_manual_clock.h"""

from libc.stdint cimport int64_t

from segstore._cython.env cimport sgs_env


cdef extern from "io/env_manual_clock.h" nogil:
    ctypedef struct sgs_manual_clock:
        sgs_env env

    void sgs_manual_clock_init(sgs_manual_clock *clock, const sgs_env *base, int64_t wall_clock_ms)
    void sgs_manual_clock_set(sgs_manual_clock *clock, int64_t wall_clock_ms)
