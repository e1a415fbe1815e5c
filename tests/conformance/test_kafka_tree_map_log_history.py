"""Kafka's TreeMapLogHistoryTest."""

from __future__ import annotations

import pytest

from segstore.errors import IllegalArgumentError
from segstore.raft.log_history import LogHistory


def history(*offsets: int) -> LogHistory[str]:
    """Each offset has its number as its value."""
    made: LogHistory[str] = LogHistory()
    for offset in offsets:
        made.add_at(offset, str(offset))
    return made


def test_empty():
    """[RAFT-45] TreeMapLogHistoryTest.testEmpty."""
    assert history().value_at_or_before(100) is None
    assert history().last_entry() is None


def test_add_at():
    """[RAFT-45, RAFT-46] TreeMapLogHistoryTest.testAddAt."""
    made = history()
    with pytest.raises(IllegalArgumentError):
        made.add_at(-2, "")
    made.add_at(-1, "-1")
    assert [made.value_at_or_before(offset) for offset in (-1, 0)] == ["-1", "-1"]
    made.add_at(100, "100")
    for offset in (99, 100):
        with pytest.raises(IllegalArgumentError):
            made.add_at(offset, "")
    made.add_at(200, "200")

    found = [made.value_at_or_before(offset) for offset in (-2, -1, 100, 101, 199, 200, 201)]
    assert found == [None, "-1", "100", "100", "100", "200", "200"]
    assert made.last_entry() == (200, "200")


@pytest.mark.parametrize(("end", "last"), [(201, 200), (200, 100), (101, 100), (100, None)])
def test_truncate_to(end: int, last: int | None):
    """[RAFT-45] TreeMapLogHistoryTest.testTruncateTo."""
    made = history(100, 200)
    made.truncate_new_entries(end)

    assert made.last_entry() == (None if last is None else (last, str(last)))


@pytest.mark.parametrize(("start", "first"), [(99, 100), (100, 100), (101, 100), (200, 200)])
def test_trim_prefix_to(start: int, first: int):
    """[RAFT-45] TreeMapLogHistoryTest.testTrimPrefixTo."""
    made = history(100, 200)
    made.truncate_old_entries(start)

    assert made.value_at_or_before(first - 1) is None
    assert made.value_at_or_before(first) == str(first)


def test_clear():
    """[RAFT-45] TreeMapLogHistoryTest.testClear."""
    made = history(100)
    made.clear()

    assert made.last_entry() is None
