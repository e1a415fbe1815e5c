"""Fixtures for directories at URLs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

pytest.importorskip("obstore")
pytest.importorskip("fsspec")
pytest.importorskip("pyarrow")

import segstore
from tests.kits.s3_server import Store, served

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def s3() -> Iterator[Store]:
    """A store on this machine that can fail."""
    with served() as store:
        yield store


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A log directory: ``orders-0``, 2000 records in 20 segments."""
    directory = tmp_path / "data"
    directory.mkdir()
    with segstore.open(directory / "orders-0", durability="none") as log:
        for number in range(20):
            if number:
                log.roll()
            log.append([(b"key", b"%03d" % index * 10) for index in range(100)])
    return directory
