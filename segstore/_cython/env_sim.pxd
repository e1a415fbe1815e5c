"""csrc/io/env_sim.h"""

from libc.stdint cimport int64_t, uint64_t

from segstore._cython.env cimport sgs_barrier, sgs_env
from segstore._cython.status cimport c_bool, sgs_error, sgs_status


cdef extern from "io/env_sim.h" nogil:
    ctypedef struct sgs_sim_disk:
        pass

    ctypedef enum sgs_sim_call:
        SGS_SIM_ANY_CALL

    ctypedef enum sgs_sim_fate:
        SGS_SIM_ALL_LOST
        SGS_SIM_ALL_KEPT
        SGS_SIM_BY_SEED
        SGS_SIM_KILLED

    ctypedef struct sgs_sim_crash:
        int64_t effects
        sgs_sim_fate fate
        uint64_t seed
        const int64_t *ignored
        size_t ignored_count

    ctypedef struct sgs_sim_event:
        sgs_sim_call call
        const char *name
        const char *to
        int64_t position
        int64_t bytes_count
        sgs_barrier barrier

    ctypedef void (*sgs_sim_watcher)(void *context, sgs_sim_call call, const char *name) noexcept nogil

    sgs_status sgs_sim_open(const sgs_env *base, uint64_t device, sgs_sim_disk **disk, sgs_error *err)
    void sgs_sim_close(sgs_sim_disk *disk)
    const sgs_env *sgs_sim_env(const sgs_sim_disk *disk)
    int64_t sgs_sim_effects(const sgs_sim_disk *disk)
    int64_t sgs_sim_calls(const sgs_sim_disk *disk, sgs_sim_call call)
    sgs_sim_event sgs_sim_event_of(const sgs_sim_disk *disk, int64_t number)
    const char *sgs_sim_call_name(sgs_sim_call call)
    void sgs_sim_cut_power_after(sgs_sim_disk *disk, int64_t effects)
    c_bool sgs_sim_is_off(const sgs_sim_disk *disk)
    void sgs_sim_fail(sgs_sim_disk *disk, sgs_sim_call call, int64_t nth, int os_error, c_bool for_ever)
    void sgs_sim_watch(sgs_sim_disk *disk, sgs_sim_watcher watch, void *context)
    void sgs_sim_set_room(sgs_sim_disk *disk, int64_t bytes_count)
    void sgs_sim_set_wall_clock(sgs_sim_disk *disk, int64_t wall_clock_ms)
    sgs_status sgs_sim_crash_image(sgs_sim_disk *disk, const sgs_sim_crash *crash, uint64_t device,
                                   sgs_sim_disk **image, sgs_error *err)
