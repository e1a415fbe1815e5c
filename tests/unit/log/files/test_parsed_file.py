"""Small files of the same bytes are parsed once [DUR-102]."""

from __future__ import annotations

import pytest

from segstore.errors import CorruptCheckpointError
from segstore.log.files.parsed_file import MIN_KEPT_BYTES, parse_once


@pytest.fixture
def seen():
    return []


@pytest.fixture
def parse(seen):
    def parse(data: bytes) -> tuple[bytes]:
        seen.append(data)
        if data == b"bad":
            raise CorruptCheckpointError("bad")
        return (data,)

    return parse


def test_the_same_small_bytes_are_parsed_once_and_others_again(parse, seen):
    """[DUR-102] Only a few small ones are kept."""
    first = parse_once(parse, b"a")
    assert parse_once(parse, bytes(bytearray(b"a"))) is first
    assert parse_once(parse, b"b") == (b"b",)
    assert seen == [b"a", b"b"]

    for number in range(100):
        parse_once(parse, b"%d" % number)
    assert parse_once(parse, b"a") == first
    assert seen.count(b"a") == 2


def test_large_bytes_are_not_kept(parse, seen):
    """[DUR-102] A checkpoint may have 64 MiB."""
    for _ in range(2):
        parse_once(parse, bytes(MIN_KEPT_BYTES))
    assert len(seen) == 2


def test_an_error_is_raised_each_time(parse, seen):
    """[DUR-7] Each has a traceback and notes of its own."""
    errors = []
    for _ in range(2):
        with pytest.raises(CorruptCheckpointError) as caught:
            parse_once(parse, b"bad")
        errors.append(caught.value)
    assert errors[0] is not errors[1]
    assert seen == [b"bad", b"bad"]
