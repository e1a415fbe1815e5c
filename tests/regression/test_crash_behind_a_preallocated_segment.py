"""A sealed segment that was preallocated, whose trim a crash undid, ended the log [DUR-1].

What had been acknowledged in the next segment was set aside, or the log was refused as damaged.
Found by tests/crash: its random script 1112.
"""

from __future__ import annotations

import pytest

from segstore._core import DataFile, Directory
from segstore.errors import CorruptLogError
from tests.crash.crash_check import Crash, check_crash, check_crashes, look
from tests.crash.crash_model import Operation
from tests.crash.crash_script import PATH, Settings, run_script

SETTINGS = Settings("sync", segment_bytes=600, preallocate=True)
FILLING = [Operation("append", 3)] * 4


@pytest.mark.parametrize(
    "behind",
    [
        [Operation("roll"), Operation("append", 1)],
        [Operation("roll"), Operation("flush")],
        [Operation("roll"), Operation("append", 1), Operation("flush"), Operation("append", 1)],
    ],
    ids=["append", "flush", "recovery point"],
)
def test_the_next_segment_goes_on(behind: list[Operation]):
    run = run_script([*FILLING, *behind], SETTINGS)
    begin = run.steps[len(FILLING) - 1].end

    check_crashes(run, begin, run.disk.effects, seeds=20)
    for effects in range(begin, run.disk.effects + 1):
        check_crash(run, Crash(effects, "lost"), thoroughly=True)


def test_bytes_that_are_not_zero_are_damage_all_the_same():
    """[DUR-51] Nothing else is taken for padding."""
    run = run_script([*FILLING, Operation("roll"), Operation("flush")], SETTINGS)
    image = Crash(run.disk.effects, "kept").image(run.disk)
    directory = Directory(PATH, image)
    name = min(name for name in directory.names() if name.endswith(".log"))
    with DataFile(directory, name) as file:
        file.write(file.size, bytes(90) + b"!")

    with pytest.raises(CorruptLogError, match="no batch"):
        look(image, run.settings)
