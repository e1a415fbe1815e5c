"""Cuts: what a reader is told of truncations, however many there were."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from segstore.errors import LogTruncatedError
from segstore.log.local.cuts import SOMEWHERE, Cuts
from segstore.types import LogOffsetMetadata

if TYPE_CHECKING:
    from collections.abc import Callable

KEPT = 64


def is_told(check: Callable[..., None], *arguments: int) -> bool:
    try:
        check(*arguments)
    except LogTruncatedError:
        return True
    return False


@pytest.mark.parametrize("seed", range(8))
def test_few_numbers_answer_as_the_list_of_all(seed: int):
    """[DUR-77] To who asks for a cut of long ago they may say more, and never less."""
    numbers = random.Random(seed)
    cuts, noted = Cuts(), []
    for _ in range(300):
        noted.append(LogOffsetMetadata(*(numbers.randrange(50) for _ in range(3))))
        cuts.note(noted[-1])
        cuts.finish()
        done, end = numbers.randint(0, len(noted)), numbers.randrange(60)
        place = numbers.randrange(60), numbers.randrange(60)
        is_cut = any(one.message_offset < end for one in noted[done:])
        is_place_cut = any(one[1:] < place for one in noted[done:])
        told = is_told(cuts.check_not_cut, done, end)
        told_of_place = is_told(cuts.check_place_not_cut, done, *place)

        assert told >= is_cut
        assert told_of_place >= is_place_cut
        if done > len(noted) - KEPT:
            assert (told, told_of_place) == (is_cut, is_place_cut)


def test_what_is_kept_does_not_grow():
    """6,000 truncations of a log that grows were 6,000 entries."""
    cuts = Cuts()
    for number in range(6000):
        cuts.note(LogOffsetMetadata(number, 0, number))
        cuts.finish()

    assert cuts.done == 6000
    assert len(cuts._since) == KEPT
    assert not is_told(cuts.check_not_cut, 5999, 5999)
    assert is_told(cuts.check_not_cut, 5999, 6000)
    assert is_told(cuts.check_not_cut, 0, 1)


def test_a_cut_that_has_begun_counts():
    """[DUR-77] Who looks while it is under way may have seen a part of it."""
    cuts = Cuts()
    before = cuts.done
    cuts.note(LogOffsetMetadata(7, 0, 70))
    during = cuts.done

    assert before == during
    with pytest.raises(LogTruncatedError, match="truncated to 7 while it was read up to 8"):
        cuts.check_not_cut(during, 8)
    cuts.check_not_cut(during, 7)
    cuts.finish()
    cuts.check_not_cut(cuts.done, 8)


def test_of_a_cut_of_another_handle_it_is_not_known_how_far_it_went():
    """[DUR-77]"""
    cuts = Cuts()
    cuts.note(SOMEWHERE)

    with pytest.raises(LogTruncatedError, match="cut by its writer"):
        cuts.check_not_cut(0, 0)
    with pytest.raises(LogTruncatedError, match="cut by its writer"):
        cuts.check_place_not_cut(0, 0, 0)


def test_how_far_down_all_have_reached():
    """Also those that are not told apart any more."""
    cuts = Cuts()
    assert not cuts.reach(10)
    for number in range(2 * KEPT):
        cuts.note(LogOffsetMetadata(100 - number % 90, 0, 0))
    cuts.finish()
    assert cuts.reach(12)
    assert not cuts.reach(11)
