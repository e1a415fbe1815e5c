"""What a fresh process takes until segstore is imported, and until it has the first record.

Times are in ms above those of a bare interpreter, the least of some runs; ``import numpy`` in the
same run is the anchor. The bars, on an idle machine: 30 for the import, 150 for a first record::

    asv run --python=same --quick --bench start
"""

from __future__ import annotations

import subprocess
import sys
import time

import segstore

from .common import PROFILE, ScratchDirectory

RUNS = 1 if PROFILE.rounds == 1 else 15
PROGRAMS = {
    "import numpy": "import numpy",
    "import segstore": "import segstore",
    "first record of a log": (
        "import segstore\n"
        "with segstore.open('{path}/orders-0', read_only=True) as log:\n"
        "    next(iter(log))"
    ),
    "first record of a topic": (
        "import segstore\n"
        "with segstore.open_dir('{path}', read_only=True) as logs:\n"
        "    next(iter(logs.scan('orders')))"
    ),
}


class Start(ScratchDirectory):
    """Wall time of a process that does one thing, less that of one that does nothing."""

    params = ([*PROGRAMS],)
    param_names = ("program",)
    unit = "ms"

    def setup(self, program: str) -> None:
        """Write a directory with a topic of three partitions (called by asv)."""
        self.make_scratch()
        with segstore.open_dir(self.path, durability="none") as logs:
            logs.create_topic("orders", 3)
            logs.append("orders", [(b"%d" % n, b"value") for n in range(1000)])
        self.code = PROGRAMS[program].format(path=self.path)
        seconds_of(self.code)  # writes the byte code, where that is written

    def track_ms(self, program: str) -> float:
        """Return the least time above the least one of a bare interpreter."""
        pairs = [(seconds_of("pass"), seconds_of(self.code)) for _ in range(RUNS)]
        bare, taken = map(min, zip(*pairs, strict=True))
        return 1000 * (taken - bare)


def seconds_of(code: str) -> float:
    """Run it in a process of its own."""
    begin = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True)
    return time.perf_counter() - begin
