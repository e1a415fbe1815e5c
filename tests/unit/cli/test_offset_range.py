"""kcat's ``-o``."""

from __future__ import annotations

import argparse
from types import SimpleNamespace

import pytest

from segstore.cli.offset_range import OffsetRange, combined, parse_offset


def log(start: int, end: int, by_time: dict[int, int] | None = None) -> SimpleNamespace:
    return SimpleNamespace(
        log_start_offset=start,
        log_end_offset=end,
        offset_for_timestamp=(by_time or {}).get,
        scan=lambda start, **_: [SimpleNamespace(offset=start)],
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("beginning", (10, 100)),
        ("end", (100, 100)),
        ("42", (42, 100)),
        ("0", (10, 100)),
        ("1000", (100, 100)),
        ("-5", (95, 100)),
        ("-500", (10, 100)),
        ("-0", (100, 100)),
        ("s@7", (70, 100)),
        ("s@8", (100, 100)),
        ("e@7", (10, 70)),
        ("e@8", (10, 100)),
    ],
)
def test_an_offset_becomes_a_range_of_the_log(text: str, expected: tuple[int, int]):
    """What lies outside the log moves to its nearest end; no record at a time means its end."""
    assert parse_offset(text).resolve(log(10, 100, {7: 70})) == expected


def test_both_ends_of_a_time_span_are_given_by_two_options():
    """``-o s@5 -o e@7``."""
    span = combined([parse_offset("s@5"), parse_offset("e@7")])

    assert span == OffsetRange(start_timestamp=5, end_timestamp=7)
    assert span.resolve(log(0, 100, {5: 50, 7: 70})) == (50, 70)
    assert span.resolve(log(0, 100, {5: 50, 7: 20})) == (50, 50)


def test_a_later_start_replaces_an_earlier_one():
    """As kcat's options do."""
    assert combined([parse_offset("s@5"), parse_offset("3")]) == OffsetRange(start=3)


@pytest.mark.parametrize("text", ["", "start", "1.5", "s@", "s@x", "e@1.0", "stored"])
def test_anything_else_is_refused(text: str):
    """The message lists what there is."""
    with pytest.raises(argparse.ArgumentTypeError, match="beginning, end"):
        parse_offset(text)
