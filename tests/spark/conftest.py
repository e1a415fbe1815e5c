"""One Spark for all tests, and a line for everything recorded that is not compared."""

from __future__ import annotations

import os
from collections import Counter
from importlib.util import find_spec
from typing import TYPE_CHECKING

import pytest

from tests.spark.connector_answers import directory_of_case
from tests.spark.connector_batch import cases
from tests.spark.connector_sink import sink_entries
from tests.spark.connector_streaming import streams

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession


EQUAL = "connector equal"
LEFT_OUT = "connector left out"


class Summary:
    """What a test compared with the connector, and what it did not, by name.

    It travels in the test's report, so that workers of pytest-xdist can tell it too.
    """

    def __init__(self, node: pytest.Item) -> None:
        self._properties = node.user_properties

    def add(self, what: str, equal: int = 1) -> None:
        """Count *equal* answers of the kind *what*."""
        self._properties.append((EQUAL, [what, int(equal)]))

    def leave_out(self, line: str) -> None:
        """Name something that was not compared, with the reason."""
        self._properties.append((LEFT_OUT, line))


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A local Spark, as ``segstore.spark.session`` starts it; UTC, as what was recorded."""
    import segstore.spark

    before = dict(os.environ)
    settings = {"spark.sql.session.timeZone": "UTC", "spark.sql.shuffle.partitions": 1}
    session = segstore.spark.session("tests", **settings)
    yield session
    session.stop()
    os.environ.clear()
    os.environ.update(before)


SOCKETS_OF_SPARK = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning:socket")
"""Before 4.2 PySpark closes the file of each socket to Java, and leaves the socket to Python."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Overlook the sockets of an older Spark in tests that have one."""
    if find_spec("pyspark") is None:
        return
    from segstore.spark.schema import spark_version

    if spark_version() >= (4, 2):
        return
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(SOCKETS_OF_SPARK)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make a test of each recorded stream, and of each golden case that was asked about."""
    folder = metafunc.config.getoption("--connector-answers")
    if "recorded_stream" in metafunc.fixturenames:
        metafunc.parametrize("recorded_stream", streams(folder), ids=lambda stream: stream.id)
    if "sink_entry" in metafunc.fixturenames:
        entries = [entry for entry in sink_entries(folder) if entry.input_schema]
        metafunc.parametrize("sink_entry", entries, ids=lambda entry: entry.name)
    if "connector_case" in metafunc.fixturenames:
        metafunc.parametrize("connector_case", cases(folder))


@pytest.fixture
def answers_folder(pytestconfig: pytest.Config) -> str | None:
    """Where the connector's answers are; None = the packed ones."""
    folder: str | None = pytestconfig.getoption("--connector-answers")
    return folder


@pytest.fixture
def case_directory(answers_folder: str | None, golden: Path) -> Callable[[str], Path]:
    """Give the golden directory that answers are about; skip where the folder does not hold it."""

    def directory(case: str) -> Path:
        found = directory_of_case(answers_folder, golden, case)
        if found is None:
            pytest.skip(f"the directory that was asked about as {case} is not in {golden}")
        return found

    return directory


@pytest.fixture
def summary(request: pytest.FixtureRequest) -> Summary:
    """What the end of the run says."""
    return Summary(request.node)


@pytest.fixture
def every_query(pytestconfig) -> bool:
    """Whether to ask Spark every recorded query, as with --slow; else each sort once."""
    return bool(pytestconfig.getoption("--slow"))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print how many answers were equal, and name the others with the reason."""
    equal: Counter[str] = Counter()
    left_out: set[str] = set()
    for reports in terminalreporter.stats.values():
        for report in reports:
            if getattr(report, "when", None) != "call":
                continue
            for key, found in report.user_properties:
                if key == EQUAL:
                    equal[found[0]] += found[1]
                elif key == LEFT_OUT:
                    left_out.add(found)
    if not equal:
        return
    terminalreporter.section("Spark's own Kafka connector")
    for what, count in sorted(equal.items()):
        terminalreporter.write_line(f"{what}: {count} equal")
    for line in sorted(left_out):
        terminalreporter.write_line(f"  {line}")
