"""Which batch contradicts the latest epoch of a checkpoint: the one there, or the one before."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from segstore.log.files.checkpoints import LogState
from segstore.log.recovery.contradicted_epochs import contradiction_of_epochs
from segstore.types import EpochEntry
from tests.log_kit import at, message_of_magic_1
from tests.unit.log.damaged_logs import flip_bit

if TYPE_CHECKING:
    from collections.abc import Callable

    from segstore.log.unified_log import UnifiedLog

OWN = EpochEntry(4, 6)
SAID = "by leader-epoch-checkpoint epoch {} begins at {}"


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
    def ask(latest: EpochEntry | None, own: EpochEntry | None = OWN, start: int = 0) -> str | None:
        segments = log._local_log.segments.as_tuple
        return contradiction_of_epochs(latest, LogState(0, 0, own), segments, start)

    return ask


def test_nothing_to_compare(contradiction):
    """What both files say is one; and without epochs, or batches, nothing is."""
    assert contradiction(OWN) is None
    assert contradiction(None) is None
    assert contradiction(EpochEntry(9, 0), None) is None
    assert contradiction_of_epochs(EpochEntry(9, 0), LogState(0, 0, OWN), [], 0) is None


@pytest.mark.parametrize(
    ("epoch", "start", "batch", "found"),
    [
        (9, 0, 0, 1),
        (9, 3, 2, 1),  # within a batch
        (9, 4, 4, 2),
        (3, 7, 6, 2),
        (9, 8, 8, 4),
        (9, 11, 10, 4),
        (0, 2, 2, 1),
        (1, 4, 4, 2),
    ],
)
def test_the_batch_where_it_begins(contradiction, epoch, start, batch, found):
    """[DUR-7, DUR-64] It has another epoch than begins there."""
    said = f"{SAID.format(epoch, start)}, and the batch at {batch} has epoch {found}"
    assert contradiction(EpochEntry(epoch, start)) == said


@pytest.mark.parametrize(
    ("epoch", "start", "batch", "found"),
    [(1, 2, 0, 1), (2, 6, 4, 2), (2, 7, 6, 2), (3, 12, 10, 4), (0, 12, 10, 4), (3, 99, 10, 4)],
)
def test_the_batch_before(contradiction, epoch, start, batch, found):
    """[DUR-7, DUR-64] It has that epoch already, or a higher one."""
    said = f"{SAID.format(epoch, start)}, and the batch at {batch} has epoch {found}"
    assert contradiction(EpochEntry(epoch, start)) == said


@pytest.mark.parametrize(("epoch", "start"), [(2, 4), (1, 0), (5, 12), (9, 12), (5, 99)])
def test_what_batches_agree_with(contradiction, epoch, start):
    """The epoch begins with its batch, behind lower ones, or has none yet."""
    assert contradiction(EpochEntry(epoch, start)) is None


def test_the_own_epoch_begins_elsewhere(contradiction):
    """[EPC-6] Unless that has moved with the log start, or to the first batch that is left."""
    assert contradiction(EpochEntry(4, 9)) == f"{SAID.format(4, 9)}, by .segstore at 6"
    assert contradiction(EpochEntry(4, 9), start=9) is None
    assert contradiction(EpochEntry(4, 0)) == f"{SAID.format(4, 0)}, and the batch at 0 has epoch 1"


def test_batches_below_the_log_start_tell_nothing(contradiction):
    """[EPC-6] They are deleted; the one that the log start lies in is not."""
    assert contradiction(EpochEntry(1, 2), start=2) is None
    assert contradiction(EpochEntry(1, 2), start=1) is not None
    assert contradiction(EpochEntry(3, 12), start=12) is None
    assert contradiction(EpochEntry(3, 12), start=11) is not None


def test_one_of_a_newer_epoch_tells_nothing(contradiction):
    """A broker wrote it, or a bit of its epoch flipped."""
    assert contradiction(EpochEntry(9, 8), EpochEntry(3, 0)) is None
    assert contradiction(EpochEntry(9, 4), EpochEntry(2, 0)) is not None


def test_damage_is_told_by_who_reads_it(contradiction, tmp_path):
    """An error is no reason to refuse, nor a batch with a wrong CRC one to believe."""
    flip_bit(tmp_path / "topic-0" / f"{4:020d}.log", 80)
    assert contradiction(EpochEntry(9, 4)) is None


def test_an_old_batch_has_none(new_log, tmp_path):
    """[format.md 7.1] Magic 1 knows of no epochs."""
    log = new_log()
    log.append_as_follower(at(0, 2, epoch=1), 1)
    log.close()
    with (tmp_path / "topic-0" / f"{0:020d}.log").open("ab") as file:
        file.write(message_of_magic_1(2))
    log = new_log(read_only=True)
    segments = log._local_log.segments.as_tuple
    assert contradiction_of_epochs(EpochEntry(9, 2), LogState(0, 0, OWN), segments, 0) is None
