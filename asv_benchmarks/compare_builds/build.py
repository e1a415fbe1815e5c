"""A build of the project: this tree, or a commit of it in a folder of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
from dataclasses import dataclass
from pathlib import Path

BENCHMARKS = Path(__file__).parents[1]
ROOT = BENCHMARKS.parent
PROFILE = "price"


@dataclass(frozen=True)
class Round:
    """What a round came to."""

    seconds: float
    calls: int


class LackingError(Exception):
    """The build has not what a benchmark uses."""


@dataclass(frozen=True)
class Build:
    """A tree with its extension module, to which rounds are given: each in a process of its own."""

    tree: Path
    scratch: Path
    """Where benchmarks put their files."""

    def round(self, number: int, calls: int) -> Round:
        """Have that path walked by this build's package, but this tree's benchmarks.

        Raises
        ------
        LackingError
            The build has not what the benchmark uses.
        """
        environment = {
            **os.environ,
            "PYTHONPATH": str(self.tree),
            "SEGSTORE_BENCHMARK_PROFILE": PROFILE,
            "TMPDIR": str(self.scratch),
        }
        command = [sys.executable, "-m", "compare_builds.one_round", str(number), str(calls)]
        done = subprocess.run(
            command, cwd=BENCHMARKS, env=environment, check=True, stdout=subprocess.PIPE, text=True
        )
        answer = json.loads(done.stdout.splitlines()[-1])
        if Path(answer["package"]) != self.tree:
            raise RuntimeError(f"{answer['package']} was measured, not {self.tree}")
        if "lacks" in answer:
            raise LackingError(answer["lacks"])
        return Round(answer["seconds"], answer["calls"])


def build_commit(commit: str, folder: Path) -> Path:
    """Unpack *commit* in *folder* and compile it there; returns the folder."""
    archive = subprocess.Popen(
        ["git", "-C", str(ROOT), "archive", "--format=tar", commit], stdout=subprocess.PIPE
    )
    with tarfile.open(fileobj=archive.stdout, mode="r|") as packed:
        # Python 3.11.2 has no filters; the archive is of this repository
        packed.extraction_filter = getattr(tarfile, "data_filter", None)
        packed.extractall(folder)
    if archive.wait() != 0:
        sys.exit(f"git has no tree for {commit}")
    command = [sys.executable, "setup.py", "--quiet", "build_ext", "--inplace"]
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    subprocess.run(command, cwd=folder, env=environment, check=True)
    return folder
