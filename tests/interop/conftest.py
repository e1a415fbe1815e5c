"""The golden runner.

One parameter a partition, and a summary that says how many were equal and names the others.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from tests.interop.golden_case import (
    compacted_partitions,
    dumped_partitions,
    loaded_partitions,
    script_cases,
    served_partitions,
    whole_partitions,
)
from tests.kits.golden import bucket_root, golden_root, tiered_root
from tests.kits.golden_bucket import BucketCase, BucketPlace, bucket_cases
from tests.kits.golden_tiered import tiered_cases
from tests.kits.moto_server import MotoStore, moto_store

if TYPE_CHECKING:
    from collections.abc import Iterator

EQUAL = "golden equal"
OTHER = "golden other"


class GoldenSummary:
    """What one test found.

    It travels in the test's report, so that workers of pytest-xdist can tell it too.
    """

    def __init__(self, node: pytest.Item) -> None:
        self._properties = node.user_properties

    def add(self, what: str, equal: int, compared: int) -> None:
        """Count *equal* of *compared* things of the kind *what*."""
        self._properties.append((EQUAL, [what, equal, compared]))

    def name(self, other: str) -> None:
        """Name something that was not compared for equality, with the reason."""
        self._properties.append((OTHER, other))


@pytest.fixture
def golden_summary(request: pytest.FixtureRequest) -> GoldenSummary:
    """Counters that the runner prints at the end of the session."""
    return GoldenSummary(request.node)


@pytest.fixture(scope="session")
def moto() -> Iterator[MotoStore]:
    """An S3 of somebody else."""
    pytest.importorskip("moto")
    pytest.importorskip("obstore")
    with moto_store() as store:
        yield store


@pytest.fixture(params=["folder", "s3"])
def bucket_place(request: pytest.FixtureRequest, bucket_case: BucketCase) -> BucketPlace:
    """The bucket of a case as a folder, and in a store."""
    folder = bucket_case.directory / "bucket"
    if request.param == "folder":
        return BucketPlace(bucket_case, str(folder), {})
    moto: MotoStore = request.getfixturevalue("moto")
    return BucketPlace(bucket_case, moto.put_once(folder, str(bucket_case)), moto.settings)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One test a covered partition of ``--golden``, one dump a partition of any case."""
    if "golden_partition" in metafunc.fixturenames:
        partitions = whole_partitions(golden_root(metafunc.config))
        metafunc.parametrize("golden_partition", partitions, ids=str)
    if "bucket_case" in metafunc.fixturenames:
        cases = bucket_cases(bucket_root(metafunc.config))
        metafunc.parametrize("bucket_case", cases, ids=str)
    if "tiered_case" in metafunc.fixturenames:
        metafunc.parametrize("tiered_case", tiered_cases(tiered_root(metafunc.config)), ids=str)
    if "loaded_partition" in metafunc.fixturenames:
        partitions = loaded_partitions(golden_root(metafunc.config))
        metafunc.parametrize("loaded_partition", partitions, ids=str)
    if "compacted_partition" in metafunc.fixturenames:
        partitions = compacted_partitions(golden_root(metafunc.config))
        metafunc.parametrize("compacted_partition", partitions, ids=str)
    if "served_partition" in metafunc.fixturenames:
        partitions = served_partitions(golden_root(metafunc.config))
        metafunc.parametrize("served_partition", partitions, ids=str)
    if "script_case" in metafunc.fixturenames:
        cases = script_cases(golden_root(metafunc.config))
        metafunc.parametrize("script_case", cases, ids=lambda case: case.name)
    if "dumped_partition" in metafunc.fixturenames:
        partitions = dumped_partitions(golden_root(metafunc.config))
        metafunc.parametrize("dumped_partition", partitions, ids=str)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print how many were equal, and name the others with the reason."""
    equal: Counter[str] = Counter()
    compared: Counter[str] = Counter()
    others: set[str] = set()
    for reports in terminalreporter.stats.values():
        for report in reports:
            for key, found in getattr(report, "user_properties", ()):
                if getattr(report, "when", None) != "call":
                    continue
                if key == EQUAL:
                    equal[found[0]] += found[1]
                    compared[found[0]] += found[2]
                elif key == OTHER:
                    others.add(found)
    if not compared:
        return
    terminalreporter.section("a real broker's directories")
    for what in sorted(compared):
        terminalreporter.write_line(f"{what}: {equal[what]} of {compared[what]} equal")
    for line in sorted(others):
        terminalreporter.write_line(f"  {line}")
