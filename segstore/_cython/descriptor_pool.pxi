# descriptor_pool.pxi - how many descriptors the process has open (csrc/io/descriptor_pool.h)

cdef bint is_pooled(const sgs_env *env) noexcept nogil:
    """Whether it is the system's, and not a simulated disk."""
    return env.close == environment.close


class OpenDescriptors(NamedTuple):
    open_count: int
    evictions: int


def limit_descriptors(int64_t limit):
    """At most so many that may be closed; 0 = half of RLIMIT_NOFILE, as it is at that time."""
    with nogil:
        sgs_descriptor_pool_limit(&descriptor_pool, limit)


def open_descriptors():
    """How many are open that may be closed, and how often one was closed above the limit."""
    cdef uint32_t count = 0
    cdef uint64_t evictions = 0
    with nogil:
        sgs_descriptor_pool_count(&descriptor_pool, &count, &evictions)
    return OpenDescriptors(count, evictions)
