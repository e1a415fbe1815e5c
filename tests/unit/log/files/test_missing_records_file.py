"""``.segstore.missing``: what is known to be missing, bounded, with a checksum."""

from __future__ import annotations

import pytest

from segstore._core import crc32c
from segstore.errors import NotALogError
from segstore.log.files.missing_records_file import (
    MAX_RANGES,
    forget_ranges_from,
    format_ranges,
    note_ranges,
    parse_ranges,
    read_ranges,
)

NAME = ".segstore.missing"


def test_the_file_is_as_documented(directory, tmp_path):
    """docs/formats.md has these bytes."""
    note_ranges(directory, [(479, 615, 3)])

    text = b"version 0\nmissing 479 615 3\n"
    assert (tmp_path / NAME).read_bytes() == text + b"crc %d\n" % crc32c(text)
    assert read_ranges(directory) == [(479, 615, 3)]


def test_ranges_that_touch_become_one(directory):
    note_ranges(directory, [(50, 60), (10, 20)])
    note_ranges(directory, [(20, 30), (55, 70)])

    assert read_ranges(directory) == [(10, 30), (50, 70)]


@pytest.mark.parametrize(
    ("noted", "united"),
    [
        ([(10, 20, 3), (20, 30, 5)], [(10, 30, 5)]),
        ([(10, 20, 5), (15, 30, 3)], [(10, 30, 5)]),
        ([(10, 20, 3), (15, 30)], [(10, 30)]),
        ([(10, 20, -1), (50, 60)], [(10, 20, -1), (50, 60)]),
    ],
)
def test_ranges_that_become_one_have_the_later_epoch(directory, noted, united):
    """[DUR-7] A stale range does not take the proof of a new one away."""
    note_ranges(directory, noted)

    assert read_ranges(directory) == united


def test_what_is_noted_already_is_not_written_again(directory, tmp_path):
    note_ranges(directory, [(10, 20)])
    before = (tmp_path / NAME).stat().st_mtime_ns
    note_ranges(directory, [(12, 15)])

    assert (tmp_path / NAME).stat().st_mtime_ns == before


def test_the_file_is_bounded(directory):
    """[DUR-102] Of very many ranges the last ones become one: no loss is forgotten."""
    ranges = [(number * 10, number * 10 + 5) for number in range(MAX_RANGES + 100)]
    note_ranges(directory, ranges)

    found = read_ranges(directory)
    assert found is not None
    assert found[:-1] == ranges[: MAX_RANGES - 1]
    assert found[-1] == (ranges[MAX_RANGES - 1][0], ranges[-1][1])


@pytest.mark.parametrize(
    ("offset", "left"),
    [(0, []), (10, []), (15, [(10, 15)]), (30, [(10, 20)]), (60, [(10, 20), (50, 60)])],
)
def test_a_truncation_takes_ranges_away(directory, tmp_path, offset, left):
    note_ranges(directory, [(10, 20), (50, 60)])
    forget_ranges_from(directory, offset)

    assert read_ranges(directory) == left
    assert (tmp_path / NAME).exists() == bool(left)


def test_without_a_file_nothing_is_known(directory, tmp_path):
    forget_ranges_from(directory, 0)

    assert read_ranges(directory) == []
    assert not (tmp_path / NAME).exists()


def sealed(text: bytes) -> bytes:
    return text + b"crc %d\n" % crc32c(text)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"crc 0\n",
        b"version 0\nmissing 1 2\n",
        format_ranges([(1, 2)])[:-2],
        format_ranges([(1, 2)]).replace(b"1 2", b"1 3"),
        sealed(b"version 1\nmissing 1 2\n"),
        sealed(b"version 0\nmissing 2 2\n"),
        sealed(b"version 0\nmissing -1 2\n"),
        sealed(b"version 0\nmissing 1\n"),
        sealed(b"version 0\nmissing 1 2 -2\n"),
        sealed(b"version 0\nmissing 1 2 3 4\n"),
        sealed(b"version 0\nlost 1 2\n"),
        sealed(b"version 0\nmissing 1 99999999999999999999\n"),
        sealed(b"version 0\n" + b"missing 1 2\n" * (MAX_RANGES + 1)),
    ],
)
def test_what_was_not_written_says_nothing(data):
    """[DUR-97]"""
    assert parse_ranges(data) is None


def test_a_directory_of_that_name_is_an_error(directory, tmp_path):
    """[DUR-7] Then nothing shows whether a gap lost records."""
    (tmp_path / NAME).mkdir()

    with pytest.raises(NotALogError):
        read_ranges(directory)
