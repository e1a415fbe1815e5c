"""Each kind of sync is needed: without it some crash takes what was promised [DUR-110].

A sync is taken out of a run after the fact: the disk is asked what a crash leaves if it had done
nothing. Where no crash of these scripts shows the difference, it is untested or not needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.crash.crash_check import Crash, check_crash
from tests.crash.crash_model import Operation
from tests.crash.crash_script import Settings, run_script

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.crash.crash_script import Run


def operations(*kinds: str | tuple[str, int]) -> list[Operation]:
    return [Operation(kind) if isinstance(kind, str) else Operation(*kind) for kind in kinds]


APPEND = ("append", 2)
SYNCED = Settings("sync", segment_bytes=100_000)
LAZY = Settings("none", segment_bytes=100_000)


def syncs_of(run: Run, call: str, suffix: str) -> Iterator[int]:
    """Numbers of the syncs of that kind, from the first open on."""
    for number in range(1, run.disk.effects + 1):
        event = run.disk.event(number)
        if event.call == call and event.name.endswith(suffix):
            yield number


def is_noticed(run: Run, ignored: tuple[int, ...], seeds: int = 12) -> bool:
    """Whether some crash behind the first of these syncs breaks a promise without them."""
    for effects in range(min(ignored), run.disk.effects + 1):
        crashes = [Crash(effects, "lost", 0, ignored)]
        crashes += [Crash(effects, "seed", seed, ignored) for seed in range(seeds)]
        for crash in crashes:
            try:
                check_crash(run, crash)
            except Exception:  # noqa: BLE001 - an open that fails breaks a promise too
                return True
    return False


CASES = {
    "new log: its directory": (SYNCED, operations(APPEND), "sync_directory", "."),
    "append: the bytes": (SYNCED, operations(APPEND), "sync_data", ".log"),
    "flush: the bytes": (LAZY, operations(APPEND, "flush"), "sync_data", ".log"),
    "flush: the name of a new segment": (
        LAZY,
        operations(APPEND, "flush", "roll", APPEND, "flush"),
        "sync_directory",
        ".",
    ),
    "truncate: the shrunk file": (
        LAZY,
        operations(APPEND, APPEND, "flush", ("truncate_to", 2), APPEND),
        "sync_file",
        ".log",
    ),
    "truncate: the names of the segments": (
        SYNCED,
        operations(APPEND, "roll", APPEND, "roll", APPEND, ("truncate_to", 2)),
        "sync_directory",
        ".",
    ),
    "truncate fully: the names of the segments": (
        SYNCED,
        operations(APPEND, "roll", APPEND, ("truncate_fully_and_start_at", 9)),
        "sync_directory",
        ".",
    ),
    "delete records: the log start": (
        SYNCED,
        operations(APPEND, APPEND, ("delete_records", 2)),
        "sync_file",
        "log-start-offset-checkpoint.tmp",
    ),
    "state: from where on no record may be missing": (
        LAZY,
        operations(APPEND, APPEND, "roll", APPEND),
        "sync_file",
        ".segstore.tmp",
    ),
    "close: the bytes": (LAZY, operations(APPEND, "close"), "sync_data", ".log"),
    "recovery: the bytes of a process that was killed": (
        LAZY,
        operations(APPEND, "kill"),
        "sync_data",
        ".log",
    ),
}


@pytest.mark.parametrize(("settings", "script", "call", "suffix"), CASES.values(), ids=CASES)
def test_a_sync_that_does_nothing_is_noticed(
    settings: Settings, script: list[Operation], call: str, suffix: str
):
    run = run_script(script, settings)
    ignored = tuple(syncs_of(run, call, suffix))

    assert ignored, "there is no such sync"
    assert is_noticed(run, ignored)


def test_without_such_a_fault_nothing_is_noticed():
    """[DUR-110] The check itself: the same crashes, all syncs done."""
    for settings, script, _, _ in CASES.values():
        run = run_script(script, settings)
        for effects in range(run.disk.effects + 1):
            check_crash(run, Crash(effects, "lost"))
            check_crash(run, Crash(effects, "seed", effects))
