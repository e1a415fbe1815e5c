"""A writer killed with SIGKILL at any moment: what it acknowledged is there, in order, once.

[DUR-1..DUR-3, DUR-5]. That shows the death of a process, not a power loss: the kernel keeps what
was written. ``--kills 20000`` is the long run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import segstore
from segstore.errors import LogNotFoundError, NotALogError
from segstore.log.findings.finding import FindingCode, Records
from tests.crash.kill_history import APPEND, FULL_BYTES, KillHistory, fresh_logs
from tests.crash.kill_writers import (
    ALL,
    APPENDER,
    DELETER,
    ROLLER,
    SETTINGS,
    TRUNCATER,
    write_on,
)
from tests.crash.killed_process import run_until_killed

if TYPE_CHECKING:
    import random
    from collections.abc import Mapping
    from pathlib import Path

    from segstore.log.findings.finding import Finding

WRITERS = [
    pytest.param("none", APPENDER, id="appender"),
    pytest.param("messages=10", APPENDER, id="appender, messages=10"),
    pytest.param("seconds=0.01", APPENDER, id="appender, seconds=0.01"),
    pytest.param("sync", APPENDER, id="appender, sync"),
    pytest.param("none", ROLLER, id="roller"),
    pytest.param("none", TRUNCATER, id="truncater"),
    pytest.param("none", DELETER, id="deleter"),
    pytest.param("seconds=0.01", ALL, id="all, seconds=0.01"),
]
MOST_MORE = 300
SET_ASIDE = {FindingCode.LOG_START_ABOVE_END, FindingCode.SEGMENT_AFTER_DAMAGE}
"""Found where a cut within a batch left less than the log start that was told afterwards."""


@pytest.mark.parametrize(("durability", "weights"), WRITERS)
def test_a_killed_writer_leaves_what_it_acknowledged(
    durability: str,
    weights: Mapping[bytes, int],
    tmp_path: Path,
    chooser: random.Random,
    kills: int,
):
    """[DUR-1..DUR-3, DUR-5, DUR-56] While it opens, recovers, appends, rolls, cuts, deletes."""
    kill, wrote = 0, False
    logs = fresh_logs(tmp_path)
    path, history = next(logs)
    while kill < kills or not wrote:  # on a slow machine few of them live long enough
        notes = run_until_killed(
            write_on(path, durability, chooser.getrandbits(40), weights), chooser, kill
        )
        kill += 1
        wrote = wrote or any(note.step == APPEND and note.is_done for note in notes)
        history.take(notes)
        size = look_again(path, durability, history, chooser)
        if size > FULL_BYTES:
            path, history = next(logs)
        assert kill < kills + MOST_MORE, "no writer lived long enough to append"


def look_again(path: Path, durability: str, history: KillHistory, chooser: random.Random) -> int:
    """Open the log behind a kill, in one of several ways; returns its size in bytes."""
    if chooser.random() < 0.2:  # the next writer recovers the log
        return 0
    seen = None
    if chooser.random() < 0.3:  # a reader sees the same, and changes nothing
        seen = read_beside(path, history)
    log = segstore.open(path, durability=durability, **SETTINGS)
    history.adopt(log)
    assert seen is None or seen == [row[0] for row in log.scan().tuples()]
    report = log.verify()
    assert report.ok, str(report)
    if chooser.random() < 0.5:  # else the next open recovers once more
        log.close()
    else:
        log.close_quietly()
    return report.size_bytes


def read_beside(path: Path, history: KillHistory) -> list[int]:
    """Return the offsets that a handle without a lock finds [DUR-71]."""
    try:
        with segstore.open(path, read_only=True) as reader:
            report = reader.verify()
            assert history.index_may_be_longer or all(
                is_repaired(one, history) for one in report.findings
            ), str(report)
            return [row[0] for row in reader.scan().tuples()]
    except (LogNotFoundError, NotALogError):  # killed before the first segment had its name
        assert history.may_have_no_file
        return []


def is_repaired(finding: Finding, history: KillHistory) -> bool:
    """Whether the next open for writing repairs it, and no record that counts is lost."""
    if history.may_be_set_aside and finding.code in SET_ASIDE:
        return True
    return finding.repaired and finding.records in {Records.NONE, Records.MAYBE_MISSING}
