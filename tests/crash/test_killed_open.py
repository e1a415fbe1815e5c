"""An open that dies anywhere, then opens again: nothing is lost that was not lost before [DUR-56].

The process ends at a given line of the modules that open a log, as SIGKILL would end it there.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import pytest

from segstore.errors import CorruptLogError
from tests.kits.damaged_logs import (
    RECORDS_COUNT,
    append_bytes,
    batches_of,
    build,
    cut,
    expected_values,
    flip_bit,
    values_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.kits.damaged_logs import LogDirectory

OPENING = (
    "opening",
    "survey",
    "leftovers",
    "judge",
    "judge_tail",
    "plan",
    "repair",
    "quarantine",
    "checkpoints",
    "leader_epoch_file_cache",
    "partition_lock",
    "partition_path",
    "log_opener",
    "log_manager",
)
DIED = 86


def torn_tail(directory: LogDirectory) -> int:
    cut(directory.last, batches_of(directory.last)[-1].end - 5)
    return RECORDS_COUNT - 1


def flipped_bit_in_the_middle(directory: LogDirectory) -> int:
    batch = batches_of(directory.file(directory.bases[1]))[2]
    flip_bit(directory.file(directory.bases[1]), batch.position + 70)
    return batch.base_offset


def missing_segment(directory: LogDirectory) -> int:
    gone = directory.bases[1]
    directory.file(gone).unlink()
    return gone


def overlap(directory: LogDirectory) -> int:
    base, following = directory.bases[1:3]
    first = batches_of(directory.file(following))[0]
    append_bytes(directory.file(base), directory.file(following).read_bytes()[: first.size])
    return following + 1


def complete_swap(directory: LogDirectory) -> int:
    replaced = directory.bases[1:3]
    merged = b"".join(directory.file(base).read_bytes() for base in replaced)
    (directory.path / f"{replaced[0]:020d}.log.swap").write_bytes(merged)
    (directory.path / f"{replaced[0]:020d}.index.deleted").write_bytes(b"x")
    return RECORDS_COUNT


def lost_checkpoints(directory: LogDirectory) -> int:
    for name in ("leader-epoch-checkpoint", ".segstore", "recovery-point-offset-checkpoint"):
        (directory.path / name).unlink()
    return RECORDS_COUNT


def log_start_above_the_end(directory: LogDirectory) -> int:
    (directory.path / "log-start-offset-checkpoint").write_text("0\n1\norders 0 90\n")
    return 90


def die_at_line(path: Path, fatal: int, act: Callable[[], object]) -> int:
    """Run *act* in a child that ends at its line number *fatal*; return the lines run, or -1."""
    told, child_end = os.pipe()
    process = os.fork()
    if process == 0:
        lines = 0

        def count(frame, event, _argument):
            nonlocal lines
            if os.path.basename(frame.f_code.co_filename)[:-3] not in OPENING:  # noqa: PTH119
                return None
            if event == "line":
                lines += 1
                if lines == fatal:
                    os._exit(DIED)
            return count

        status = 1
        try:
            sys.settrace(count)
            act()
            sys.settrace(None)
            os.write(child_end, str(lines).encode())
            status = 0
        finally:
            os._exit(status)
    os.close(child_end)
    lines = os.read(told, 20)
    os.close(told)
    _, status = os.waitpid(process, 0)
    code = os.waitstatus_to_exitcode(status)
    assert code in {0, DIED}, f"the child ended with {code} at {path}"
    return int(lines) if code == 0 else -1


@pytest.mark.parametrize(
    "damage",
    [
        torn_tail,
        flipped_bit_in_the_middle,
        missing_segment,
        overlap,
        complete_swap,
        lost_checkpoints,
        log_start_above_the_end,
    ],
)
def test_an_open_that_died_anywhere_is_made_good_by_the_next(
    damage: Callable[[LogDirectory], int],
    tmp_path: Path,
    few_or_many: Callable[[int, int], int],
):
    """[DUR-56, DUR-57] The same log as if nothing had happened, and it can be appended to."""
    damaged = build(tmp_path / "damaged" / "orders-0")
    end = damage(damaged)
    whole = damaged.copy(tmp_path / "whole" / "orders-0")
    lines = die_at_line(whole.path, -1, whole.open)
    assert lines > 100
    step = max(1, lines // few_or_many(12, 50))

    for fatal in range(1, lines + 1, step):
        directory = damaged.copy(tmp_path / str(fatal) / "orders-0")
        came_to = die_at_line(directory.path, fatal, directory.open)
        assert came_to < fatal, (
            "it came to the line, and did not die"
        )  # -1, or fewer lines this time
        if fatal % 2:  # and again, early in the second open
            die_at_line(directory.path, fatal // 2 + 1, directory.open)

        with directory.open() as log:
            start = log.log_start_offset
            assert log.log_end_offset == end
            assert values_of(log) == expected_values(start, end)
            assert start == (90 if damage is log_start_above_the_end else 0)
            log.append([(None, b"goes on")])
        with directory.open() as log:
            assert log.report.clean
            assert values_of(log)[-1] == (end, b"goes on")


def test_an_open_that_is_refused_may_die_anywhere_too(tmp_path: Path):
    """[DUR-51, DUR-56] Damage below the recovery point stays damage, and no ``.log`` is touched."""
    damaged = build(tmp_path / "damaged" / "orders-0")
    damaged.set_recovery_point(RECORDS_COUNT)
    flip_bit(damaged.last, 300)
    logs = damaged.logs()

    for fatal in range(20, 400, 40):
        directory = damaged.copy(tmp_path / str(fatal) / "orders-0")

        def refuse(directory: LogDirectory = directory) -> None:
            with pytest.raises(CorruptLogError):
                directory.open()

        die_at_line(directory.path, fatal, refuse)
        refuse()
        assert directory.logs() == logs
