"""Writers in other processes, which hold their locks until they are killed."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_OPEN_AND_WAIT = """
import sys, segstore
log = segstore.open(sys.argv[1])
print("open", flush=True)
sys.stdin.read()
"""


@contextmanager
def writer_elsewhere(path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Let another process have a log open for writing, until it is killed or the block ends."""
    with subprocess.Popen(
        [sys.executable, "-c", _OPEN_AND_WAIT, path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"open\n"
        try:
            yield other
        finally:
            other.kill()
