"""At the interpreter's end a finalizer waited for threads that were no more, for ever.

They stop where they are, in the midst of a sync or with a lock. Nothing of a thread may keep the
object alive that has the finalizer: the functions of the threads have a namespace of their own.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

import segstore
from tests.kits.log_kit import PATIENCE_SECONDS

BEGIN = """
import os, sys, threading
import segstore

class Store:
    def __init__(self, closes):
        self.closes = closes

    def __del__(self, write=os.write):
        try:
            self.closes.close()
        except RuntimeError as error:
            assert "the interpreter ends" in str(error)
            write(1, b"refused")
        else:
            write(1, b"closed")

manager = segstore.open_dir(sys.argv[1], durability=sys.argv[2])
if "t" not in manager.topics():
    manager.create_topic("t")
manager.append("t", [(b"key", b"value")])
names = {"manager": manager, "log": manager.log("t", 0), "is_inside": threading.Event()}
exec(sys.argv[4], names)
threading.Thread(target=names["run"], daemon=True).start()
assert names["is_inside"].wait(10)
store = Store(names[sys.argv[3]])
del manager, names
"""
WAITS = """
import time

def wait(*_):
    is_inside.set()
    time.sleep(60)

def run():
"""
ANY, REFUSED = {b"closed", b"refused"}, {b"refused"}
THREADS = {
    "that appends": (
        """
def run():
    while True:
        log.append([(b"key", b"value")])
        is_inside.set()
""",
        ANY,
    ),
    "that flushes": (
        """
def run():
    while True:
        log.append([(b"key", b"value")])
        log.flush()
        is_inside.set()
""",
        ANY,
    ),
    "of its own, which waits": (
        "def run():\n    log._background.submit(is_inside.set)",
        {b"closed"},
    ),
    "of its own, in a task": (WAITS + "    log._background.submit(wait)", REFUSED),
    "in an append": (WAITS + "    with log._append_lock: wait()", REFUSED),
    "in a round of syncs": (WAITS + "    log._flusher.rounds.join(wait)", REFUSED),
    "with the checkpoint": (WAITS + "    with log._flusher._directory_sync.lock: wait()", REFUSED),
    "that closes it": (WAITS + "    log._close_cleanly = wait; log.close()", REFUSED),
    "that opens a log": (WAITS + "    with manager._mutex: wait()", REFUSED),
}


@pytest.mark.parametrize("durability", ["none", "sync"])
@pytest.mark.parametrize("thread", THREADS)
def test_a_finalizer_waits_for_no_thread_that_is_no_more(tmp_path, thread, durability):
    """[DUR-70, DUR-103] It says that it could not close the log, and the log is whole."""
    run, answers = THREADS[thread]
    closes = "manager" if "manager" in run else "log"
    command = [sys.executable, "-c", BEGIN, str(tmp_path), durability, closes, run]
    done = subprocess.run(command, check=True, timeout=PATIENCE_SECONDS, capture_output=True)
    assert done.stdout in answers
    with segstore.open_dir(tmp_path) as manager:
        log = manager.log("t", 0)
        assert log.log_end_offset >= 1
        assert log.report.clean or done.stdout == b"refused"
        assert sum(1 for _ in log) == log.log_end_offset


OUTLIVES = """
import json, sys  # what was imported first is cleared last

import segstore

json.kept = segstore.open(sys.argv[1], durability=sys.argv[2])
json.kept.append([(b"key", b"value")])
sys.kept = json, sys.modules["segstore.log.unified_log"]
"""


@pytest.mark.parametrize("durability", ["none", "sync", "seconds=1"])
def test_a_log_that_outlives_its_modules_complains_of_nothing(tmp_path, durability):
    """[DUR-70] It was not closed: the process lets go of it, and the next open recovers it."""
    command = [sys.executable, "-c", OUTLIVES, str(tmp_path / "t-0"), durability]
    done = subprocess.run(command, check=True, timeout=PATIENCE_SECONDS, capture_output=True)
    assert done.stderr == b""
    with segstore.open(tmp_path / "t-0") as log:
        assert log.log_end_offset == 1
