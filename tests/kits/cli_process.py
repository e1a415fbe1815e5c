"""The command as a user runs it: a process of its own, output as bytes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def run_segstore(
    *arguments: str | Path, cwd: Path | None = None, stdin: bytes = b""
) -> subprocess.CompletedProcess[bytes]:
    """Run ``python -m segstore`` with *arguments* and wait for its end."""
    return subprocess.run(
        [sys.executable, "-m", "segstore", *map(str, arguments)],
        cwd=cwd,
        input=stdin,
        capture_output=True,
        check=False,
        env=environment(),
        timeout=300,
    )


def environment() -> dict[str, str]:
    """The tree's own package first, as pytest sees it."""
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
