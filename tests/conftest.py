"""Options, markers and fixtures that every folder of tests shares."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

import tests.kits.forkable  # noqa: F401 - each fork begins with what it does
from tests.kits.golden import golden_root, packed_root
from tests.kits.golden import packed_buckets as unpacked_buckets
from tests.kits.golden_kinds import cases_of, partitions_of
from tests.kits.short_java import DRIVERS
from tests.kits.temporary_files import keep_temporary_files_in_memory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.interop.golden_case import GoldenPartition

IN_CI = os.environ.get("CI", "").lower() in {"1", "true", "yes"}

# The same examples in every run of CI: a change lands or not for what is in it. At home, new ones.
settings.register_profile("home", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", settings.get_profile("home"), derandomize=True, print_blob=True)
settings.load_profile("ci" if IN_CI else "home")


DISK: pytest.StashKey[str] = pytest.StashKey()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add where the material is, and how much is run."""
    group = parser.getgroup("segstore")
    group.addoption(
        "--golden", metavar="DIR", help="golden directories (default: the packed choice)"
    )
    group.addoption(
        "--golden-buckets",
        metavar="DIR",
        help="golden buckets of tiered storage (default: the packed choice)",
    )
    group.addoption(
        "--golden-tiered",
        metavar="DIR",
        help="golden directories with a remote storage (default: the packed choice)",
    )
    group.addoption(
        "--vectors",
        metavar="DIR",
        help="what Kafka's own classes did (default: the packed choice)",
    )
    group.addoption(
        "--connector-answers",
        metavar="DIR",
        help="what Spark's own Kafka connector answered (default: packed)",
    )
    group.addoption(
        "--slow",
        action="store_true",
        help="run all, and in full, as the long run does; CI runs a part of it",
    )
    group.addoption(
        "--sequences",
        type=int,
        metavar="N",
        help="sequences of the log's state machine (default: 40, 100 in CI; the long run: 10000)",
    )
    group.addoption(
        "--crash-scripts",
        type=int,
        metavar="N",
        help="random scripts of tests/crash (default: 120, 300 in CI; the long run: 100000)",
    )
    group.addoption(
        "--kills",
        type=int,
        metavar="N",
        help="SIGKILL cycles over all kinds that run (default: 60, 75 in CI; the long run: 20000)",
    )
    group.addoption(
        "--operations",
        type=int,
        metavar="N",
        help="appends of 16 threads beside 7 processes (default: 500; the long run:"
        " 1000000, what one thread does in an hour with a sync of 3.6 ms for each)",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Choose where temporary files lie and how Spark's Java runs, and describe the markers."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # a shell lets what it starts in the background ignore it, and so would commands of tests
        signal.signal(signal.SIGINT, signal.default_int_handler)
    config.stash[DISK] = keep_temporary_files_in_memory()
    os.environ.update(DRIVERS)
    config.addinivalue_line(
        "markers", "slow: takes more than some seconds; needs --slow or CI=true"
    )
    config.addinivalue_line(
        "markers", "golden_kinds(*kinds): a test of each golden case of them, as golden_data"
    )
    config.addinivalue_line("markers", "long: CI leaves it to the long run; needs --slow")
    config.addinivalue_line(
        "markers",
        "one_in(step): an exploration. Of its cases each so many-th runs, all with --slow;"
        " a step shares no divisor with the numbers of values of stacked parameters",
    )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make a test of each golden case of the kinds that a test names."""
    marker = metafunc.definition.get_closest_marker("golden_kinds")
    if marker is None:
        return
    root = golden_root(metafunc.config)
    data = [pytest.param(one / "data", id=one.name) for one in cases_of(root, marker.args)]
    reason = f"no golden case of the kinds {', '.join(marker.args)} in {root}"
    none = pytest.param(None, marks=pytest.mark.skip(reason=reason), id="none")
    metafunc.parametrize("golden_data", data or [none])


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave slow tests out unless they are asked for, and most cases of explorations."""
    if config.getoption("--slow"):
        return
    cases: Counter[str] = Counter()
    left_out = []
    for item in items:
        marker = item.get_closest_marker("one_in")
        test = item.nodeid.partition("[")[0]
        if "long" in item.keywords or (marker is not None and cases[test] % marker.args[0]):
            left_out.append(item)
        cases[test] += 1
    config.hook.pytest_deselected(items=left_out)
    chosen = set(items).difference(left_out)
    items[:] = [item for item in items if item in chosen]
    if IN_CI:
        return
    skip = pytest.mark.skip(reason="slow: run with --slow")
    for item in items:
        if "slow" in item.keywords:
            item.add_marker(skip)


def pytest_collection_finish() -> None:
    """Keep what was collected out of every later collection of garbage: a fifth of their time."""
    gc.collect()
    gc.freeze()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how many places of the Python classes had failing calls [DUR-111]."""
    properties = [
        one for report in terminalreporter.getreports("passed") for one in report.user_properties
    ]
    parts = [value for name, value in properties if name == "failing_places"]
    if parts:
        from tests.crash.failing_places import told

        terminalreporter.write_line(told(parts))
    for name, value in properties:
        if name == "places":
            terminalreporter.write_line(value)


@pytest.fixture
def disk_path(pytestconfig: pytest.Config) -> Iterator[Path]:
    """A new folder on the disk, for tests that ask what a disk does; it is removed after them."""
    with tempfile.TemporaryDirectory(prefix="segstore-", dir=pytestconfig.stash[DISK]) as folder:
        yield Path(folder)


@pytest.fixture(scope="session")
def golden(pytestconfig: pytest.Config) -> Path:
    """Folder of golden cases, whose names are anyone's; read-only, see ``copy_of``."""
    return golden_root(pytestconfig)


@pytest.fixture(scope="session")
def packed(pytestconfig: pytest.Config) -> Path:
    """The packed choice of golden cases, whatever ``--golden`` says: its names are ours."""
    return packed_root(pytestconfig)


@pytest.fixture(scope="session")
def packed_buckets(pytestconfig: pytest.Config) -> Path:
    """The packed choice of golden buckets, whatever ``--golden-buckets`` says."""
    return unpacked_buckets(pytestconfig)


@pytest.fixture
def golden_of(golden: Path) -> Callable[[str], list[GoldenPartition]]:
    """Give the golden partitions of a kind, at least one; skip where the folder has none."""

    def of(kind: str) -> list[GoldenPartition]:
        found = partitions_of(golden, kind)
        if not found:
            pytest.skip(f"no golden case of the kind '{kind}' in {golden}")
        return found

    return of


@pytest.fixture
def check_compared(golden: Path, pytestconfig: pytest.Config) -> Callable[..., None]:
    """Check how many things of golden cases were compared: the packed choice has *at_least* these.

    Another folder may hold fewer; where it holds none, the test is skipped.
    """

    def check(compared: int, at_least: int = 1) -> None:
        if pytestconfig.getoption("--golden") is None:
            assert compared >= at_least
        elif not compared:
            pytest.skip(f"nothing to compare in {golden}")

    return check


@pytest.fixture
def copy_of(tmp_path: Path) -> Callable[[Path], Path]:
    """Copy a directory to a place where the test may change it, dot files included, writable."""

    def copy(directory: Path) -> Path:
        target = tmp_path / directory.name
        shutil.copytree(directory, target, copy_function=shutil.copyfile)
        for folder in [target, *(path for path in target.rglob("*") if path.is_dir())]:
            folder.chmod(0o755)  # copytree takes over the mode of a read-only folder
        return target

    return copy


@pytest.fixture
def few_or_many(pytestconfig: pytest.Config) -> Callable[[int, int], int]:
    """Choose how often to repeat: ``few_or_many(5, 200)`` is 200 with --slow, 6 in CI, else 5.

    CI does a thirty-second part of the many, and at least the few.
    """
    if pytestconfig.getoption("--slow"):
        return lambda _few, many: many
    return lambda few, many: max(few, many // 32) if IN_CI else few


@pytest.fixture
def one_in(pytestconfig: pytest.Config) -> Callable[[int], int]:
    """Choose a step through an exploration: ``cases[::one_in(8)]`` is an eighth, all with --slow.

    The like for the cases of a parametrized test is the marker ``one_in``.
    """
    return (lambda _step: 1) if pytestconfig.getoption("--slow") else (lambda step: step)
