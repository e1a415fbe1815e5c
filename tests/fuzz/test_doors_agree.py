"""Every door gives the same findings for the same directory [D15].

Random damages of directories that a broker and this library wrote: bytes, sizes, files gone, old
copies, zeros, other kinds of file, unreadable pages. ``SEGSTORE_DAMAGES`` is how many with --slow,
``SEGSTORE_SEED`` the first seed; what does not fit together is named with its seed.
"""

from __future__ import annotations

import os
import pickle
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.kits.damages import originals_in
from tests.kits.doors import disagreements
from tests.kits.preloaded_library import compiled, environment_with
from tests.tidy.project_files import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

DAMAGES = int(os.environ.get("SEGSTORE_DAMAGES", "2000"))
FIRST_SEED = int(os.environ.get("SEGSTORE_SEED", "0"))
IN_A_TEST = 50
BEGINS = range(FIRST_SEED, FIRST_SEED + DAMAGES, IN_A_TEST)


@pytest.fixture(scope="module")
def folder(golden: Path) -> Iterator[Path]:
    """A folder with the partitions before they are damaged."""
    made = Path(tempfile.mkdtemp(prefix="segstore-doors-"))
    (made / "originals").write_bytes(pickle.dumps(originals_in(golden, made)))
    yield made
    shutil.rmtree(made)


def seeds_from(first: int) -> range:
    return range(first, min(first + IN_A_TEST, FIRST_SEED + DAMAGES))


@pytest.mark.one_in(33)
@pytest.mark.parametrize("first", BEGINS)
def test_every_door_gives_the_same_findings(folder, first):
    """[DUR-51, DUR-58] Codes, places and exit codes; what recover promises, it does."""
    said = [text for seed in seeds_from(first) for text in disagreements(folder, seed)]

    assert not said


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    source = ROOT / "tests" / "regression" / "unreadable_pages.c"
    return compiled(source, tmp_path_factory.mktemp("library"))


@pytest.mark.one_in(17)
@pytest.mark.parametrize("first", BEGINS[::10])
def test_every_door_names_a_page_that_cannot_be_read(folder, library, first):
    """[DUR-33, DUR-51] A process for many damages: the library stands in front of the system's."""
    seeds = seeds_from(first)
    program = [sys.executable, "-m", "tests.kits.doors", folder, str(seeds.start), str(seeds.stop)]
    done = subprocess.run(
        program,
        cwd=ROOT,
        env=environment_with(library),
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
