"""Deletions, elections and truncations before a crash: they move where an epoch begins [DUR-8].

Each image is opened without the leader-epoch checkpoint too (`check_crash`): what is left of the
epochs in the batches has to tell as much.
"""

from __future__ import annotations

import random

import pytest

from tests.crash.crash_check import Crash, check_crash
from tests.crash.crash_model import Operation
from tests.crash.crash_script import Settings, run_script

SMALL_SEGMENTS = Settings("none", segment_bytes=400)
BEGIN = [Operation("append", 2), Operation("append", 1), Operation("append", 2), Operation("flush")]
END = [
    *(Operation("append", 2), Operation("append", 1), Operation("roll")),
    *(Operation("append", 1), Operation("roll"), Operation("append", 2), Operation("append", 1)),
]
LAST_EFFECTS, CRASHES = 40, 10

MOVED = {
    "two deletions": [Operation("delete_records", 1), Operation("delete_records", 2)],
    "two elections": [Operation("delete_records", 5), *2 * [Operation("new_epoch")]],
    "cut behind": [
        *(Operation("truncate_to", 6), Operation("flush")),
        *(Operation("delete_records", 4), Operation("delete_records", 5)),
    ],
    "cut back": [
        *(Operation("delete_records", 2), Operation("new_epoch"), Operation("append", 2)),
        *(Operation("append", 1), Operation("truncate_to", 5)),
    ],
}


@pytest.mark.parametrize("name", MOVED)
def test_what_moved_the_epochs_is_no_other_writer(name):
    """[DUR-2, DUR-8, DUR-64] Behind a hole nothing is used, with the checkpoint or without."""
    run = run_script([*BEGIN, *MOVED[name], Operation("flush"), *END], SMALL_SEGMENTS)
    for effects in range(run.disk.effects - LAST_EFFECTS, run.disk.effects + 1):
        for seed in range(CRASHES):
            check_crash(run, Crash(effects, "seed", seed), thoroughly=True)


@pytest.mark.parametrize("number", range(50))
def test_any_of_them_in_any_order(number):
    """[DUR-2, DUR-8, DUR-64]"""
    chance = random.Random(number)
    between = []
    for _ in range(chance.randint(2, 5)):
        choices = [
            *(Operation("delete_records", chance.randint(1, 5)), Operation("new_epoch")),
            *(Operation("truncate_to", chance.randint(2, 6)), Operation("append", 1)),
            *(Operation("flush"), Operation("kill")),
        ]
        between.append(chance.choice(choices))
    run = run_script([*BEGIN, *between, *END], SMALL_SEGMENTS)
    for seed in range(CRASHES):
        effects = run.disk.effects - chance.randint(0, LAST_EFFECTS)
        check_crash(run, Crash(effects, "seed", seed), thoroughly=True)
