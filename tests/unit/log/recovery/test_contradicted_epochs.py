"""Which batches contradict a leader-epoch checkpoint: the last, or one where an epoch begins."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from segstore.log.files.checkpoints import LogState
from segstore.log.recovery.contradicted_epochs import contradiction_of_epochs
from segstore.types import EpochEntry
from tests.kits.damaged_logs import flip_bit
from tests.kits.log_kit import at, message_of_magic_1

if TYPE_CHECKING:
    from collections.abc import Callable

    from segstore.log.unified_log import UnifiedLog

TRUE = ((1, 0), (2, 4), (4, 8))
NO_EPOCH = "has no epoch for offset"


@pytest.fixture
def log(new_log) -> UnifiedLog:
    """Two batches a segment, of two records each: epochs 1, 1 | 2, 2 | 4, 4 | none yet."""
    log = new_log()
    for number, epoch in enumerate((1, 1, 2, 2, 4, 4)):
        if number and number % 2 == 0:
            log.roll()
        log.append_as_follower(at(2 * number, 2, epoch=epoch), epoch)
    log.roll()
    return log


@pytest.fixture
def contradiction(log) -> Callable[..., str | None]:
    def ask(
        *entries: tuple[int, int], own: tuple[int, int] | None = None, start: int = 0
    ) -> str | None:
        state = None if own is None else LogState(0, 0, EpochEntry(*own))
        segments = log._local_log.segments.as_tuple
        return contradiction_of_epochs(
            [EpochEntry(*one) for one in entries], state, segments, start
        )

    return ask


@pytest.mark.parametrize("own", [None, (4, 8), (2, 4)])
def test_what_the_batches_say_is_not_contradicted(contradiction, own):
    """[DUR-21] Nor is an epoch without records yet, or one behind the end."""
    assert contradiction(*TRUE, own=own) is None
    assert contradiction(*TRUE, (9, 12), own=own) is None
    assert contradiction(*TRUE, (9, 99), own=own) is None


@pytest.mark.parametrize("own", [None, (2, 4), (4, 8)])
@pytest.mark.parametrize("lines", [0, 1, 2])
def test_a_copy_that_is_older_than_the_last_batch(contradiction, lines, own):
    """[DUR-21] Situation 06: cut behind a line, or put back: an append would get an old epoch."""
    said = contradiction(*TRUE[:lines], own=own)

    assert said is not None
    assert said.endswith("and the batch at 10 has epoch 4")
    assert (NO_EPOCH in said) == (lines == 0)


@pytest.mark.parametrize(
    ("entries", "batch"),
    [
        (((1, 0), (2, 4), (9, 8)), 10),
        (((3, 0), (4, 8)), 0),
        (((1, 0), (2, 6), (4, 8)), 4),
        (((1, 0), (2, 2), (4, 8)), 2),
        (((1, 0), (2, 4), (4, 10)), 8),
        (((1, 0), (2, 4), (4, 7)), 6),
        (((1, 0), (2, 5), (4, 8)), 4),  # within a batch
        (((1, 0), (2, 4), (4, 99)), 10),
        (((1, 0), (4, 8)), 6),
    ],
)
def test_a_digit_that_was_not_written(contradiction, entries, batch):
    """[DUR-7, DUR-21] The epoch of a batch where one begins, or of the batch before, is another."""
    said = contradiction(*entries)

    assert said is not None
    assert f"the batch at {batch} has epoch" in said


def test_where_the_log_state_has_the_same_epoch_the_last_batch_is_asked_alone(contradiction):
    """[DUR-64] ``.segstore`` has a checksum."""
    assert contradiction((1, 0), (2, 6), (4, 8), own=(4, 8)) is None
    assert contradiction((1, 0), (2, 6), own=(2, 6)) is not None


def test_nothing_to_compare(new_log):
    """A log without segments, or without batches."""
    assert contradiction_of_epochs([EpochEntry(9, 0)], None, [], 0) is None
    segments = new_log()._local_log.segments.as_tuple
    assert contradiction_of_epochs([EpochEntry(9, 0)], None, segments, 0) is None


def test_batches_below_the_log_start_tell_nothing(contradiction):
    """[EPC-6] They are deleted: the first epoch begins at the log start, wherever it did."""
    assert contradiction((2, 5), (4, 8), start=5) is None
    assert contradiction((2, 5), (4, 8), start=4) is None
    assert contradiction((9, 12), start=12) is None


def test_damage_is_told_by_who_reads_it(contradiction, tmp_path):
    """An error is no contradiction, nor is a batch with a wrong CRC one to believe."""
    flip_bit(tmp_path / "topic-0" / f"{8:020d}.log", 80)
    flip_bit(tmp_path / "topic-0" / f"{8:020d}.log", 80 + 70)
    assert contradiction((1, 0), (2, 4)) is None


def test_an_old_batch_has_none(new_log, tmp_path):
    """[format.md 7.1] Magic 1 knows of no epochs."""
    log = new_log()
    log.append_as_follower(at(0, 2, epoch=1), 1)
    log.close()
    with (tmp_path / "topic-0" / f"{0:020d}.log").open("ab") as file:
        file.write(message_of_magic_1(2))
    log = new_log(read_only=True)
    segments = log._local_log.segments.as_tuple
    assert contradiction_of_epochs([], None, segments, 0) is None
