"""Decompressing many gzip members, or finding where bad data breaks, copied the rest each time.

A batch of a megabyte took seconds [DUR-103].
"""

from __future__ import annotations

import gzip

import pytest

from segstore.errors import CodecError, LimitExceededError
from segstore.records import gzip_codec

EMPTY = gzip.compress(b"", 9, mtime=0)


class CountingView:
    """An inflater's input, counted: whatever it is given more than once is a copy."""

    given = 0

    def __init__(self, module):
        self.module = module
        self.error = module.error

    def decompressobj(self, window_bits):
        member = self.module.decompressobj(window_bits)
        return _CountingMember(member)


class _CountingMember:
    def __init__(self, member):
        self.member = member

    def __getattr__(self, name):
        return getattr(self.member, name)

    def decompress(self, data, most):
        CountingView.given += len(data)
        return self.member.decompress(data, most)


@pytest.mark.parametrize("content", [b"", b"x" * 5000])
def test_members_are_given_about_once(monkeypatch, content):
    counting = CountingView(gzip_codec._inflater())
    monkeypatch.setattr(gzip_codec, "_inflater", lambda: counting)
    one = gzip.compress(content, 9, mtime=0)
    data = one * 3000
    CountingView.given = 0
    assert gzip_codec.decompress(memoryview(data), 1 << 28) == content * 3000
    assert CountingView.given <= len(data) + 3000 * (gzip_codec.FIRST_STEP_BYTES + 2 * len(one))


def test_members_of_any_size_come_back():
    parts = [bytes([n % 251]) * (n * 97) for n in range(200)]
    data = b"".join(gzip.compress(part, 1, mtime=0) for part in parts)
    assert gzip_codec.decompress(memoryview(data), 1 << 28) == b"".join(parts)
    size = sum(map(len, parts))
    assert len(gzip_codec.decompress(memoryview(data), size)) == size
    with pytest.raises(LimitExceededError):
        gzip_codec.decompress(memoryview(data), size - 1)


def test_what_comes_before_a_break_is_told():
    good = [b"first" * 3000, b"second" * 3000]
    data = b"".join(gzip.compress(part, 1, mtime=0) for part in good)
    broken = bytearray(gzip.compress(b"third" * 3000, 1, mtime=0))
    broken[-5] ^= 1
    with pytest.raises(CodecError) as caught:
        gzip_codec.decompress(memoryview(data + bytes(broken)), 1 << 28)
    assert caught.value.decoded == b"".join(good) + b"third" * 3000
