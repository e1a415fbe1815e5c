"""What a crash leaves of producers whose records were deleted: nothing, or the truth [PSM-60].

A recovery begins at the log start, as a broker's: records below it are no records any more, and
snapshots are only a starting point [PSM-74, DUR-8]. Who has a record that is left is known.
"""

from __future__ import annotations

from contextlib import closing

import pytest

from tests.crash.crash_check import Crash
from tests.crash.crash_model import Operation
from tests.crash.crash_script import Run, Settings, run_script

LARGE = Settings(segment_bytes=100_000)
GONE, LEFT = Operation("idempotent", 3), Operation("idempotent", 5)
ROLL, APPEND = Operation("roll"), Operation("append", 2)
CUT = Operation("truncate_to", 3)
LAST_SEQUENCE = 1  # of two records
LAST_OF_LEFT = {"one segment": 5, "behind a roll": 3, "behind a sync": 5}
SCRIPTS = {
    "one segment": [GONE, APPEND, LEFT],
    "behind a roll": [GONE, ROLL, LEFT, APPEND],
    "behind a sync": [GONE, APPEND, ROLL, Operation("background"), LEFT, Operation("flush")],
}


def producers_behind(run: Run, effects: int) -> list[tuple[dict[int, int], int, int]]:
    """Last sequences by producer, and the ends of the log, behind crashes there."""
    found = []
    for seed in range(5):
        fate = "lost" if seed == 0 else "seed"
        with closing(LARGE.open(Crash(effects, fate, seed).image(run.disk))) as log:
            known = {one.producer_id: one.last_sequence for one in log.active_producers()}
            found.append((known, log.log_start_offset, log.log_end_offset))
    return found


@pytest.mark.parametrize("ending", [CUT, Operation("append", 1), None])
@pytest.mark.parametrize("name", SCRIPTS)
def test_they_are_forgotten_or_known_as_they_were(name: str, ending: Operation | None):
    """[PSM-60, PSM-72, DUR-8] The log start lies behind, or within, what a producer wrote.

    A snapshot above the log start that was synced, with the records below it, keeps him known, as
    long as no truncation goes below it.
    """
    has_snapshot = name == "behind a sync" and ending != CUT
    for log_start in (1, 2):
        operations = [*SCRIPTS[name], Operation("delete_records", log_start)]
        run = run_script([*operations, *([ending] if ending else [])], LARGE)
        forgotten = 0
        for effects in range(run.steps[len(operations) - 1].begin, run.disk.effects + 1):
            for known, start, end in producers_behind(run, effects):
                assert set(known.values()) <= {LAST_SEQUENCE}
                if end > start == 1:  # one of its two records is left
                    assert 3 in known
                if end > LAST_OF_LEFT[name]:
                    assert 5 in known
                forgotten += 3 not in known and end > 1
        assert (forgotten > 0) == (log_start == 2 and not has_snapshot)
