# environment.pxi - the seam to the outside, as an object that is handed in (csrc/io/env.h)

cdef class Environment:
    """Files, locks and clocks; what is made from it keeps it alive."""

    cdef const sgs_env *env

    def __cinit__(self):
        self.env = environment

    @staticmethod
    def with_wall_clock(int64_t wall_clock_ms):
        """The real environment, but for its wall clock, which moves when it is set."""
        cdef _ManualClock clock = _ManualClock.__new__(_ManualClock)
        sgs_manual_clock_set(&clock.clock, wall_clock_ms)
        return clock

    @property
    def wall_clock_ms(self):
        """Milliseconds since 1970."""
        return self.env.wall_clock_ms(self.env)

    @wall_clock_ms.setter
    def wall_clock_ms(self, int64_t value):
        self.set_wall_clock(value)

    cdef int set_wall_clock(self, int64_t value) except -1:
        raise IllegalStateError(
            "the system's clock cannot be set: Environment.with_wall_clock gives one that can"
        )

    def monotonic_ns(self):
        """Nanoseconds of a clock that never goes back."""
        return self.env.monotonic_ns(self.env)


@cython.final
cdef class _ManualClock(Environment):

    cdef sgs_manual_clock clock

    def __cinit__(self):
        sgs_manual_clock_init(&self.clock, environment, 0)
        self.env = &self.clock.env

    cdef int set_wall_clock(self, int64_t value) except -1:
        sgs_manual_clock_set(&self.clock, value)
        return 0


cdef Environment system_environment = Environment()
