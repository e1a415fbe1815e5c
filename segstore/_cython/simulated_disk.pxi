# simulated_disk.pxi - a disk in memory whose power can be cut, for tests (csrc/io/env_sim.h)

from itertools import count

DISK_CALLS = tuple([sgs_sim_call_name(<sgs_sim_call>call).decode("ascii") for call in range(SGS_SIM_ANY_CALL)])

cdef object device_numbers = count(2**63)  # each disk has its own, and none is one of the system's


class DiskEvent(NamedTuple):
    call: str
    name: str
    to: str
    position: int
    bytes_count: int
    barrier: str


cdef sgs_sim_call disk_call(str name) except *:
    if name is None:
        return SGS_SIM_ANY_CALL
    if name not in DISK_CALLS:
        raise IllegalArgumentError(f"no call {name!r}", found=repr(name), expected=", ".join(DISK_CALLS))
    return <sgs_sim_call><int>DISK_CALLS.index(name)


cdef sgs_sim_fate disk_fate(str name) except *:
    if name == "lost":
        return SGS_SIM_ALL_LOST
    if name == "kept":
        return SGS_SIM_ALL_KEPT
    if name == "seed":
        return SGS_SIM_BY_SEED
    if name == "killed":
        return SGS_SIM_KILLED
    raise IllegalArgumentError(f"no fate {name!r}", found=repr(name), expected="'lost', 'kept', 'seed' or 'killed'")


cdef void tell_watcher(void *context, sgs_sim_call call, const char *name) noexcept with gil:
    (<SimulatedDisk>context).watcher(DISK_CALLS[<int>call], name.decode("utf-8", "surrogateescape"))


@cython.final
cdef class SimulatedDisk(Environment):
    """A disk in memory that remembers every effect; empty at first."""

    cdef sgs_sim_disk *disk
    cdef object watcher

    def __cinit__(self):
        cdef sgs_error err
        check(sgs_sim_open(environment, next(device_numbers), &self.disk, &err), &err)
        self.env = sgs_sim_env(self.disk)

    def __dealloc__(self):
        sgs_sim_close(self.disk)

    cdef int set_wall_clock(self, int64_t value) except -1:
        sgs_sim_set_wall_clock(self.disk, value)
        return 0

    @property
    def effects(self):
        """How many calls have changed or synced something."""
        return sgs_sim_effects(self.disk)

    @property
    def is_off(self):
        return bool(sgs_sim_is_off(self.disk))

    def calls(self, str call=None):
        """How many calls of one kind, or of any, there were."""
        return sgs_sim_calls(self.disk, disk_call(call))

    def event(self, int64_t number):
        """What effect *number* was."""
        cdef sgs_sim_event found
        if not 1 <= number <= sgs_sim_effects(self.disk):
            raise IllegalArgumentError(f"no effect {number}", found=str(number), expected=f"1 to {self.effects}")
        found = sgs_sim_event_of(self.disk, number)
        return DiskEvent(
            DISK_CALLS[<int>found.call], found.name.decode("utf-8", "surrogateescape"),
            found.to.decode("utf-8", "surrogateescape"), found.position, found.bytes_count,
            "" if found.barrier == SGS_BARRIER_COUNT else BARRIERS[<int>found.barrier].name,
        )

    def cut_power_after(self, effects):
        """Let every effect beyond so many, and from then on every call, fail; None = never."""
        sgs_sim_cut_power_after(self.disk, -1 if effects is None else effects)

    def fail(self, str call, int64_t nth, int os_error, *, bint for_ever=False):
        """Let the *nth* call from now on fail; None = a call of any kind."""
        sgs_sim_fail(self.disk, disk_call(call), nth, os_error, for_ever)

    def watch(self, watcher):
        """Call *watcher* before every call that can fail, which it may plan; None = nobody."""
        self.watcher = watcher
        sgs_sim_watch(self.disk, NULL if watcher is None else &tell_watcher, <void *>self)

    def set_room(self, bytes_count):
        """Let writes add so many bytes to files, then fail for want of space; None = no limit."""
        sgs_sim_set_room(self.disk, -1 if bytes_count is None else bytes_count)

    def crash_image(self, effects=None, *, str fate="seed", uint64_t seed=0, ignored=()):
        """The disk that the next process finds after a crash behind so many effects."""
        cdef SimulatedDisk image
        cdef sgs_sim_disk *made = NULL
        cdef sgs_sim_crash crash
        cdef sgs_error err
        cdef array.array numbers = array.array("q", ignored)
        crash.effects = -1 if effects is None else effects
        crash.fate = disk_fate(fate)
        crash.seed = seed
        crash.ignored_count = len(numbers)
        crash.ignored = <const int64_t *>numbers.data.as_voidptr if len(numbers) > 0 else NULL
        check(sgs_sim_crash_image(self.disk, &crash, next(device_numbers), &made, &err), &err)
        image = SimulatedDisk.__new__(SimulatedDisk)
        sgs_sim_close(image.disk)
        image.disk = made
        image.env = sgs_sim_env(made)
        return image
