"""TruncationHistory: what a reader is told of truncations, however many there were."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from segstore.errors import LogTruncatedError
from segstore.log.local.truncation_history import UNKNOWN_PLACE, TruncationHistory
from segstore.types import LogOffsetMetadata

if TYPE_CHECKING:
    from collections.abc import Callable

KEPT = 64


def is_reported(check: Callable[..., None], *arguments: int) -> bool:
    try:
        check(*arguments)
    except LogTruncatedError:
        return True
    return False


@pytest.mark.parametrize("seed", range(8))
def test_few_numbers_answer_as_the_list_of_all(seed: int):
    """[DUR-77] To who asks for a cut of long ago they may say more, and never less."""
    numbers = random.Random(seed)
    truncations, noted = TruncationHistory(), []
    for _ in range(300):
        noted.append(LogOffsetMetadata(*(numbers.randrange(50) for _ in range(3))))
        truncations.begin(noted[-1])
        truncations.finish()
        done, end = numbers.randint(0, len(noted)), numbers.randrange(60)
        place = numbers.randrange(60), numbers.randrange(60)
        is_cut = any(one.message_offset < end for one in noted[done:])
        is_place_cut = any(one[1:] < place for one in noted[done:])
        told = is_reported(truncations.check_not_truncated, done, end)
        told_of_place = is_reported(truncations.check_place_not_truncated, done, *place)

        assert told >= is_cut
        assert told_of_place >= is_place_cut
        if done > len(noted) - KEPT:
            assert (told, told_of_place) == (is_cut, is_place_cut)


def test_what_is_kept_does_not_grow():
    """6,000 truncations of a log that grows were 6,000 entries."""
    truncations = TruncationHistory()
    for number in range(6000):
        truncations.begin(LogOffsetMetadata(number, 0, number))
        truncations.finish()

    assert truncations.done == 6000
    assert len(truncations._since) == KEPT
    assert not is_reported(truncations.check_not_truncated, 5999, 5999)
    assert is_reported(truncations.check_not_truncated, 5999, 6000)
    assert is_reported(truncations.check_not_truncated, 0, 1)


def test_a_cut_that_has_begun_counts():
    """[DUR-77] Who looks while it is under way may have seen a part of it."""
    truncations = TruncationHistory()
    before = truncations.done
    truncations.begin(LogOffsetMetadata(7, 0, 70))
    during = truncations.done

    assert before == during
    with pytest.raises(LogTruncatedError, match="truncated to 7 while it was read up to 8"):
        truncations.check_not_truncated(during, 8)
    truncations.check_not_truncated(during, 7)
    truncations.finish()
    truncations.check_not_truncated(truncations.done, 8)


def test_of_a_cut_of_another_handle_it_is_not_known_how_far_it_went():
    """[DUR-77]"""
    truncations = TruncationHistory()
    truncations.begin(UNKNOWN_PLACE)

    with pytest.raises(LogTruncatedError, match="writer truncated it"):
        truncations.check_not_truncated(0, 0)
    with pytest.raises(LogTruncatedError, match="writer truncated it"):
        truncations.check_place_not_truncated(0, 0, 0)


def test_how_far_down_all_have_reached():
    """Also those that are not told apart any more."""
    truncations = TruncationHistory()
    assert not truncations.reach(10)
    for number in range(2 * KEPT):
        truncations.begin(LogOffsetMetadata(100 - number % 90, 0, 0))
    truncations.finish()
    assert truncations.reach(12)
    assert not truncations.reach(11)
