"""What a crash, a bad disk or ill will makes of good bytes, as Hypothesis draws it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

if TYPE_CHECKING:
    from collections.abc import Callable

    from hypothesis.strategies import DrawFn, SearchStrategy

EDGES = [
    0,
    1,
    0x7F,
    0x80,
    0xFF,
    0x7FFF,
    0x8000,
    0x7FFFFFFF,
    0x80000000,
    2**63 - 1,
    2**63,
    2**64 - 1,
]


def outcome(call: Callable[[], Any], *errors: type[Exception]) -> tuple[Any, Any]:
    """What a call gives, and None; or None, and which of *errors* it raised. Others are bugs."""
    try:
        return call(), None
    except errors as error:
        return None, error


@st.composite
def _change(draw: DrawFn) -> Callable[[bytes], bytes]:
    """One change, at a place that is found again in data of any size."""
    where = draw(st.integers(0, 2**20))
    kind = draw(
        st.sampled_from(["bit", "byte", "number", "cut", "drop", "insert", "zeros", "repeat"])
    )
    width = draw(st.sampled_from([1, 2, 4, 8]))
    value = draw(st.sampled_from(EDGES)) % 256**width
    some = draw(st.binary(min_size=1, max_size=12))

    def change(data: bytes) -> bytes:
        at = where % (len(data) + 1)
        head, tail = data[:at], data[at:]
        places = {
            "bit": bytes([tail[0] ^ 1 << value % 8]) + tail[1:] if tail else b"",
            "byte": some[:1] + tail[1:],
            "number": value.to_bytes(width) + tail[width:],
            "cut": b"",
            "drop": tail[len(some) :],
            "insert": some + tail,
            "zeros": bytes(len(tail[:64])) + tail[64:],
            "repeat": tail[:40] + tail,
        }
        return head + places[kind]

    return change


def changed(good: SearchStrategy[bytes]) -> SearchStrategy[bytes]:
    """Draw good bytes after one to four changes."""

    def apply(data: bytes, changes: list[Callable[[bytes], bytes]]) -> bytes:
        for change in changes:
            data = change(data)
        return data

    return st.builds(apply, good, st.lists(_change(), min_size=1, max_size=4))


def anything_like(good: SearchStrategy[bytes]) -> SearchStrategy[bytes]:
    """Draw good bytes, changed ones, or any."""
    return st.one_of(good, changed(good), changed(good), st.binary(max_size=200))
