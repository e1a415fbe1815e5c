"""A log against its oracle (log_oracle.py) through any sequence of what a broker does to one.

Appends of every kind, transactions, truncations, rolls, stops, retention, high watermarks. 100
sequences in CI, 40 at home; the long profile is ``pytest --sequences 10000`` on this file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from tests.kits.log_machine_checks import LogMachine
from tests.kits.log_machine_kafka import KafkaLogMachine

if TYPE_CHECKING:
    from collections.abc import Callable

STEPS = 30
ENOUGH = 100
"""From so many sequences on, each of the following is reached."""
STEPS_TO_REACH = {
    "abort: of an open transaction",
    "append as follower: newer epoch",
    "append as follower: same epoch",
    "append as leader: newer epoch",
    "aborted transactions in a fetch",
    "commit: of an open transaction",
    "delete records",
    "leave the transaction",
    "look up a timestamp",
    "reopen",
    "reopen after a kill: behind retention",
    "reopen after a torn write: behind retention",
    "retention: by log start",
    "retention: by size",
    "retention: by time",
    "send again",
    "skip sequences",
    "truncate fully",
    "truncate: between batches",
    "truncate: inside a batch",
}


@pytest.fixture
def sequences(pytestconfig: pytest.Config, few_or_many: Callable[[int, int], int]) -> int:
    return pytestconfig.getoption("--sequences") or few_or_many(40, 8 * ENOUGH)


def run_sequences(machine: type[LogMachine], sequences: int):
    machine.reached.clear()
    run_state_machine_as_test(
        machine, settings=settings(max_examples=sequences, stateful_step_count=STEPS)
    )
    missed = STEPS_TO_REACH - machine.reached.keys()
    assert not missed or sequences < ENOUGH


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_any_sequence_in_the_safe_profile(sequences: int):
    """[UNI-1..UNI-8, PSM-11..PSM-20, LSO-1..LSO-3, TRU-1..TRU-5, RET-5..RET-7]."""
    run_sequences(LogMachine, sequences)


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_any_sequence_in_kafkas_profile(sequences: int):
    """[DUR-62, LDR-20..LDR-27, SEG-40..SEG-43, TRU-1..TRU-6, HW-6, FLU-5, RET-5..RET-7, LST-5]."""
    run_sequences(KafkaLogMachine, sequences)
