# barriers.pxi - the names of all syncs (csrc/io/barrier.h)

from enum import IntEnum


class BarrierText(NamedTuple):
    name: str
    is_promise: bool
    rules: str
    without: str


cdef list described_barriers():
    cdef sgs_barrier_text text
    texts = []
    for number in range(SGS_BARRIER_COUNT):
        text = sgs_barrier_describe(<sgs_barrier><int>number)
        texts.append(BarrierText(
            text.name.decode("ascii"), text.kind == SGS_BARRIER_IS_PROMISE,
            text.rules.decode("ascii"), text.without.decode("ascii"),
        ))
    return texts


BARRIERS = tuple(described_barriers())
_of_files = {
    number + at for number, text in enumerate(BARRIERS) if text.name.endswith("_CONTENT") for at in (0, 1)
}
Barrier = IntEnum(
    "Barrier",
    {
        text.name: number
        for number, text in enumerate(BARRIERS) if number not in _of_files
    },
    module=__name__,
)
FileBarrier = IntEnum(
    "FileBarrier",
    {
        text.name.removesuffix("_CONTENT"): number
        for number, text in enumerate(BARRIERS) if text.name.endswith("_CONTENT")
    },
    module=__name__,
)


cdef sgs_barrier barrier_of(object barrier) except *:
    """That of one sync."""
    if type(barrier) is not Barrier:
        raise ArgumentTypeError(
            f"a sync is named by a Barrier, not by {barrier!r}", found=repr(barrier), expected="a Barrier"
        )
    return <sgs_barrier><int>barrier


cdef sgs_barrier content_barrier_of(object barrier) except *:
    """That of the content of a small file; that of its name comes next."""
    if type(barrier) is not FileBarrier:
        raise ArgumentTypeError(
            f"the syncs of a file are named by a FileBarrier, not by {barrier!r}", found=repr(barrier),
            expected="a FileBarrier",
        )
    return <sgs_barrier><int>barrier
