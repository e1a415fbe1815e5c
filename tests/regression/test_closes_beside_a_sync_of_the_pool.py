"""A close that waited for a sync of the descriptor pool held the GIL: all threads stood still.

Looked for of this kind: every call of the environment under the GIL. They were the closes of a
segment that is dropped, of a directory, of a small file that was read and of a data file; the close
of an index file was another one. And a close waited for the sync of its directory, which it needs
for nothing: see tests/c/test_descriptor_pool.c.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kits.preloaded_library import compiled, environment_with

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="replaces a call of Linux")

HERE = Path(__file__).parent
SYNC_MS = 1000
CODE = """
import ctypes, gc, json, sys, threading, time, segstore
from segstore import _core

path, library, what, delay = sys.argv[1:]
slow_syncs = ctypes.CDLL(library).slow_syncs
log = segstore.open(path, durability="none")
log.append([(b"k", b"v")])
log.flush()
directory = _core.Directory(path)
open(path + "/a", "w").close()
file = _core.DataFile(directory, "a")
if what == "a directory":
    directory.make_file("x")
elif what == "a data file":
    file.write(0, b"x")
elif what == "a log":
    log.append([(b"k", b"v")])

slow_syncs(int(delay))
syncing = threading.Thread(target=_core.limit_descriptors, args=(1,))
syncing.start()
time.sleep(0.2)  # it is in its sync
ticks, done = [], threading.Event()

def tick():
    while not done.is_set():
        ticks.append(time.monotonic())
        time.sleep(0.001)

ticking = threading.Thread(target=tick)
ticking.start()
time.sleep(0.05)
began = time.monotonic()
if what == "a directory":
    directory.close()
    del file, directory
elif what == "a data file":
    file.close()
else:
    del log
    gc.collect()
ended = time.monotonic()
done.set()
ticking.join()
slow_syncs(0)
syncing.join()
print(json.dumps({"took": ended - began, "ticks": sum(began < at < ended for at in ticks)}))
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``slow_sync.c``, compiled."""
    return compiled(HERE / "slow_sync.c", tmp_path_factory.mktemp("slow"))


@pytest.mark.parametrize("what", ["a directory", "a data file", "a log"])
def test_other_threads_go_on_while_a_close_waits(library, tmp_path, what):
    """The close waits for the sync, for most of a second, and another thread works meanwhile."""
    done = subprocess.run(
        [sys.executable, "-c", CODE, str(tmp_path / "t-0"), str(library), what, str(SYNC_MS)],
        capture_output=True, text=True, check=False, timeout=300,
        env=environment_with(library),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["took"] > SYNC_MS / 4000  # it did wait
    assert answer["ticks"] > 10
