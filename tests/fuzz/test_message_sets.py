"""What a peer sends as a fetch result may be anything: a value or an error of ours [DUR-92].

The oracle reads the framing with a few lines of struct.
"""

from __future__ import annotations

import io
import struct

from hypothesis import given
from hypothesis import strategies as st

from segstore import MemoryRecords, MessageSetReceive, MultiMessageSetReceive
from segstore.errors import CorruptRecordError, LimitExceededError, ReceiveError, SegstoreError
from segstore.records.message_set_send import MessageSetSend, MultiMessageSetSend
from tests.fuzz.mutations import anything_like, outcome
from tests.kits.log_kit import at

LIMIT = 1000

messages = st.sampled_from([b"", at(0), at(5, 3), at(0) + at(1, 2), at(2**40)])
error_codes = st.integers(-(2**15), 2**15 - 1)
sends = st.one_of(
    st.builds(lambda data: MessageSetSend(MemoryRecords(data)), messages),
    st.builds(lambda code: MessageSetSend(error_code=code), error_codes),
)
sets = st.builds(bytes, sends)
multi_sets = st.builds(lambda each: bytes(MultiMessageSetSend(each)), st.lists(sends, max_size=4))


class Dribble(io.BytesIO):
    """Gives what it has in pieces."""

    def __init__(self, data: bytes, piece: int) -> None:
        super().__init__(data)
        self._piece = piece

    def read(self, size: int | None = -1) -> bytes:
        return super().read(self._piece if size is None else min(size, self._piece))


@given(anything_like(sets), st.integers(1, 50))
def test_one_set(data: bytes, piece: int):
    """The same as the oracle, in pieces of any size, and nothing behind the end is touched."""
    receive = MessageSetReceive(LIMIT)
    source = Dribble(data, piece)
    _, error = outcome(
        lambda: receive.read_from(source), ReceiveError, LimitExceededError, CorruptRecordError
    )
    length = struct.unpack_from(">i", data)[0] if len(data) >= 4 else None
    if length is not None and length < 2:
        assert isinstance(error, CorruptRecordError)
    elif length is not None and length > LIMIT:
        assert isinstance(error, LimitExceededError)
    elif length is None or len(data) < 4 + length:
        assert isinstance(error, ReceiveError)
    else:
        assert error is None
        assert source.tell() == 4 + length
        found = receive.message_set()
        assert found.error_code == struct.unpack_from(">h", data, 4)[0]
        assert found.records.records == data[6 : 4 + length]
        outcome(lambda: list(found.messages()), SegstoreError)
    assert receive.complete == (error is None)


def split(content: bytes) -> list[tuple[int, bytes]] | None:
    """The sets of a content, None when their lengths are not those of the content."""
    found = []
    while content:
        if len(content) < 6:
            return None
        length, error_code = struct.unpack_from(">ih", content)
        if not 2 <= length <= len(content) - 4:
            return None
        found.append((error_code, content[6 : 4 + length]))
        content = content[4 + length :]
    return found


@given(anything_like(multi_sets))
def test_several_sets(data: bytes):
    receive = MultiMessageSetReceive()
    outcome(lambda: receive.read_from(io.BytesIO(data)), SegstoreError)
    if not receive.complete:
        return
    content = data[6 : receive.received_bytes]
    expected = split(content)
    found, error = outcome(receive.message_sets, SegstoreError)
    if struct.unpack_from(">h", data, 4)[0] != 0:
        assert error is not None
    elif expected is None:
        assert isinstance(error, CorruptRecordError)
        assert error.position is not None
    else:
        assert [(each.error_code, bytes(each.records.records)) for each in found] == expected
