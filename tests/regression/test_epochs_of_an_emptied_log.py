"""A log whose records were all deleted had another epoch checkpoint after each open [DUR-56].

Found by tests/crash: its random script 11.
"""

from __future__ import annotations

from tests.crash.crash_check import Crash, check_crash
from tests.crash.crash_model import Operation
from tests.crash.crash_script import Settings, run_script


def test_the_second_open_changes_nothing():
    operations = [Operation("append", 1), Operation("delete_records", 1), Operation("kill")]
    run = run_script(operations, Settings())

    for effects in range(run.disk.effects + 1):
        for fate in ("lost", "kept", "killed"):
            check_crash(run, Crash(effects, fate), thoroughly=True)
