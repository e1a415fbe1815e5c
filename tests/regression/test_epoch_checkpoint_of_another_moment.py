"""A leader-epoch checkpoint that was cut short, or an old copy, was believed (situation 06).

An append got leader epoch 0 behind batches of epoch 10, and every later check called that damage.
Kafka ends each line with a newline, and writes the entries in ascending order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import segstore
from segstore.cli import main
from segstore.log.files.checkpoints import LEADER_EPOCH_CHECKPOINT
from tests.kits.log_kit import batch

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

TRUE = [(2, 0), (6, 4), (8, 8), (10, 12)]
RECORDS = 14
TEXT = "0\n4\n2 0\n6 4\n8 8\n10 12\n"


def file_of(*entries: tuple[int, int]) -> str:
    lines = [f"{epoch} {start}\n" for epoch, start in entries]
    return f"0\n{len(lines)}\n{''.join(lines)}"


MOMENTS = {
    **{f"cut at byte {size}": TEXT[:size] for size in range(len(TEXT))},
    **{f"as it was with {count} lines": file_of(*TRUE[:count]) for count in range(4)},
    "two lines swapped": file_of(TRUE[1], TRUE[0], *TRUE[2:]),
    "the last lines swapped": file_of(*TRUE[:2], TRUE[3], TRUE[2]),
    "zeros": "\0" * len(TEXT),
    "zeros behind a line": TEXT[:8] + "\0" * (len(TEXT) - 8),
    "a line without its newline, and the count of it": TEXT.replace("4\n", "3\n", 1)[:-7],
    "another epoch": TEXT.replace("10 12", "11 12"),
    "another start": TEXT.replace("10 12", "10 13"),
    "lost": None,
}


@pytest.fixture
def path(tmp_path) -> Path:
    """Four epochs, a segment and a half each."""
    path = tmp_path / "o-0"
    with segstore.open(path) as log:
        for offset in range(RECORDS):
            epoch = [epoch for epoch, start in TRUE if start <= offset][-1]
            if offset and offset % 3 == 0:
                log.roll()
            log.append_as_leader(batch([(None, b"value")]), epoch)
    assert (path / LEADER_EPOCH_CHECKPOINT).read_text() == TEXT
    return path


def closed(path: Path) -> None:
    """By its writer."""


def killed(path: Path) -> None:
    (path / ".kafka_cleanshutdown").unlink()


def of_a_broker(path: Path) -> None:
    """Closed cleanly; nothing of this library is there."""
    for name in (".kafka_cleanshutdown", ".segstore", "recovery-point-offset-checkpoint"):
        (path / name).unlink()
    (path.parent / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":7}')


def of_a_killed_broker(path: Path) -> None:
    of_a_broker(path)
    (path.parent / ".kafka_cleanshutdown").unlink()


@pytest.mark.parametrize("stop", [closed, killed, of_a_broker, of_a_killed_broker])
@pytest.mark.parametrize("moment", MOMENTS)
def test_the_epochs_are_those_of_the_batches(path: Path, moment: str, stop: Callable[[Path], None]):
    """[DUR-21, DUR-64] An append never writes an epoch below one that the log holds."""
    stop(path)
    text = MOMENTS[moment]
    if text is None:
        (path / LEADER_EPOCH_CHECKPOINT).unlink()
    else:
        (path / LEADER_EPOCH_CHECKPOINT).write_text(text)

    if text and (not text.endswith("\n") or text.count("\n") < 2):
        assert main(["verify", str(path)]) == 1
    with segstore.open(path, read_only=True) as log:
        assert [*log.leader_epochs] == TRUE
        assert log.report.damage is None
    with segstore.open(path) as log:
        assert [*log.leader_epochs] == TRUE
        assert log.report.maybe_missing is None
        assert LEADER_EPOCH_CHECKPOINT in log.report.rebuilt
        assert log.append([(None, b"more")]).base_offset == RECORDS
        assert log.verify().ok
        headers, _ = log.segments()[-1].scan()
        assert headers["partition_leader_epoch"][-1] == TRUE[-1][0]
    assert (path / LEADER_EPOCH_CHECKPOINT).read_text() == TEXT
    assert main(["verify", str(path)]) == 0
    with segstore.open(path) as log:
        assert log.report.clean
        assert log.report.rebuilt == []
