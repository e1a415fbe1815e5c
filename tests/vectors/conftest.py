"""The vectors' runner: loads files, counts what is equal, and names what is not yet covered."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.vectors.vector_files import (
    Cases,
    file_stems,
    read_folder,
    read_pack,
    stem_of_module,
    vectors_folder,
)

if TYPE_CHECKING:
    from collections.abc import Callable

TALLY = "vectors"
LATER = "Kafka 4.4.0"
SAFE = "safe differs"


@pytest.fixture
def vectors(request: pytest.FixtureRequest) -> Callable[..., Cases]:
    """Return the cases of a file, by its name without ending; skip where it is not there."""

    def load(stem: str, label: str | None = None) -> Cases:
        folder = vectors_folder(request.config)
        read = read_pack(stem) if folder is None else read_folder(folder, stem)
        if not read:
            pytest.skip(f"there is no {stem}.jsonl")
        cases = Cases(label or stem, read)
        request.node.user_properties.append((TALLY, cases.tally))
        request.node.user_properties.append((LATER, (stem, cases.later)))
        request.node.user_properties.append((SAFE, (label or stem, cases.differing)))
        return cases

    return load


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Print ``file: n of n``, what follows a later release, and the files that no module covers."""
    properties = [
        (key, found)
        for reports in terminalreporter.stats.values()
        for report in reports
        if getattr(report, "when", None) == "call"
        for key, found in getattr(report, "user_properties", ())
    ]
    tallies = [found for key, found in properties if key == TALLY]
    if not tallies:
        return
    terminalreporter.section("what Kafka's own classes did")
    for stem, equal, compared in sorted(tallies):
        terminalreporter.write_line(f"{stem}: {equal} of {compared}")
    for stem, later in (found for key, found in properties if key == LATER):
        for row, ids in later.items():
            terminalreporter.write_line(f"{stem}: as 4.4.0 ({row}): {', '.join(ids)}")
    for label, differing in (found for key, found in properties if key == SAFE):
        for rule, ids in sorted(differing.items()):
            terminalreporter.write_line(f"{label}: {len(ids)} by {rule}: {', '.join(ids)}")
    modules = {stem_of_module(path) for path in Path(__file__).parent.glob("test_*.py")}
    for stem in file_stems(vectors_folder(config)):
        if stem not in modules:
            terminalreporter.write_line(f"not yet covered: {stem}")
