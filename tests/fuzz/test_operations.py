"""Whole logs under operations, failing calls, full disks and power cuts in any order.

The C core alone goes through millions of such sequences (``csrc/fuzz/fuzz_operations.c``); here are
producers, transactions, epochs and checkpoints with it. A failure prints the steps, shrunk.
"""

from __future__ import annotations

import errno

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from segstore.errors import SegstoreError
from tests.crash.crash_script import Settings
from tests.fuzz.fault_runner import (
    CALLS,
    ERRORS,
    OPERATIONS,
    Do,
    Fail,
    FaultRunner,
    Heal,
    PowerCut,
    Room,
    Step,
)

FAILED_SYNC = Fail("sync_data", 1, errno.EIO, for_ever=False)
EXAMPLES = settings(max_examples=60)

operations = st.builds(Do, st.sampled_from(OPERATIONS), st.integers(0, 40))
appends = st.builds(Do, st.sampled_from(("append", "transactional")), st.integers(0, 3))
power_cuts = st.builds(
    PowerCut, st.integers(0, 30), st.sampled_from(("lost", "kept", "seed")), st.integers(0, 255)
)
faults = st.builds(
    Fail, st.sampled_from(CALLS), st.integers(1, 60), st.sampled_from(ERRORS), st.booleans()
)
steps = st.one_of(
    operations,
    appends,
    operations,
    faults,
    power_cuts,
    st.builds(Room, st.integers(0, 1500)),
    st.builds(Heal),
)
log_settings = st.builds(
    Settings,
    durability=st.sampled_from(("none", "sync", "messages=3")),
    segment_bytes=st.sampled_from((400, 800, 100_000)),
    index_bytes=st.sampled_from((24, 4096)),
    interval_bytes=st.sampled_from((1, 150, 400)),
    preallocate=st.booleans(),
    in_log_directory=st.booleans(),
    index_mode=st.sampled_from(("heap", "mmap")),
)


def run(chosen: Settings, taken: list[Step], end: PowerCut, without: str | None = None) -> None:
    runner = FaultRunner(chosen, without)
    for step in taken:
        runner.take(step)
    runner.end(end)


@EXAMPLES
@given(log_settings, st.lists(steps, min_size=4, max_size=16), power_cuts)
def test_nothing_is_lost_or_invented_whatever_fails_on_the_way(
    chosen: Settings, taken: list[Step], end: PowerCut
):
    """[DUR-1..DUR-6, DUR-30..DUR-38, DUR-56, DUR-111, DUR-112]"""
    run(chosen, taken, end)


FLUSHED = [Do("append", 1), Do("flush", 0)]
CUT = PowerCut(0, "lost", 0)


@pytest.mark.parametrize(
    ("without", "taken"),
    [
        ("APPENDED_RECORDS", FLUSHED),
        ("RECOVERY_RECORDS", [Do("append", 1), Do("kill", 0)]),
        ("TRUNCATION_CUT", [*FLUSHED, *FLUSHED, Do("truncate_to", 1)]),
        ("LOG_START_CONTENT", [*FLUSHED, *FLUSHED, Do("delete_records", 1)]),
        ("RECOVERY_RECORDS", [Do("append", 1), FAILED_SYNC, Do("flush", 0), Do("kill", 0)]),
    ],
)
def test_without_a_sync_it_is_lost(without: str, taken: list[Step]):
    """[DUR-110] The mutants of the test above, in a few steps each."""
    run(Settings(), taken, CUT)

    with pytest.raises((AssertionError, SegstoreError)):
        run(Settings(), taken, CUT, without)
