"""One Spark for all tests, and a line for everything recorded that is not compared."""

from __future__ import annotations

import os
from collections import Counter
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

_compared: Counter[str] = Counter()
_left_out: set[str] = set()


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


@pytest.fixture
def compared() -> Counter[str]:
    """Counts what was compared with the connector, for the summary."""
    return _compared


@pytest.fixture
def left_out() -> set[str]:
    """Names what was not compared, for the summary."""
    return _left_out


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print how many answers were equal, and name the others with the reason."""
    if not _compared:
        return
    terminalreporter.section("Spark's own Kafka connector")
    for what, count in sorted(_compared.items()):
        terminalreporter.write_line(f"{what}: {count} equal")
    for line in sorted(_left_out):
        terminalreporter.write_line(f"  {line}")
