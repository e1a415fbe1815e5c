"""A truncation inside a batch leaves a hole; a second one below it takes the hole away again.

``.segstore`` went on to say that offsets may be missing there: a crash that lost a whole segment in
that place, and kept the next one, was taken for the hole, and a log opened without its first
records. Found by random crash scripts.
"""

from __future__ import annotations

import pytest

from segstore._core import Directory
from segstore.log.files.checkpoints import LogState
from tests.crash.crash_check import check_crashes
from tests.crash.crash_model import Operation
from tests.crash.crash_script import PATH, Settings, run_script

LARGE = Settings(segment_bytes=100_000)
BEGIN = (Operation("append", 2), Operation("append", 3))
END = (Operation("append", 1), Operation("roll"), Operation("append", 1))


@pytest.mark.parametrize(("first", "second"), [(1, 0), (3, 2), (4, 0), (3, 1)])
def test_what_is_missing_there_is_missed(first: int, second: int):
    """[DUR-1, DUR-2, DUR-54, TRU-5]"""
    cuts = (Operation("truncate_to", first), Operation("truncate_to", second))
    run = run_script([*BEGIN, *cuts, *END], LARGE)

    check_crashes(run, run.steps[-2].begin, run.disk.effects, seeds=30)


def test_the_log_is_contiguous_from_its_end_on_again():
    """[DUR-64] As after an open; the second truncation keeps another hole where it makes one."""
    for first, second, expected in ((1, 0, 0), (3, 2, 2), (4, 3, 3), (3, 3, 3)):
        run = run_script(
            [*BEGIN, Operation("truncate_to", first), Operation("truncate_to", second)], LARGE
        )
        state = LogState.read(Directory(PATH, run.disk))
        assert state is not None
        assert state.contiguous_from == expected
