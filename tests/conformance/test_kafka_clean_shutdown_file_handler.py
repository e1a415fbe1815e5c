"""Kafka's CleanShutdownFileHandlerTest."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from segstore._core import Directory
from segstore.log.files.clean_shutdown_file_handler import CleanShutdownFileHandler

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def handler(tmp_path: Path) -> Iterator[CleanShutdownFileHandler]:
    directory = Directory(str(tmp_path))
    yield CleanShutdownFileHandler(directory)
    directory.close()


def test_clean_shutdown_file_basic(tmp_path: Path, handler: CleanShutdownFileHandler):
    """[CKP-20] CleanShutdownFileHandlerTest.testCleanShutdownFileBasic."""
    handler.write(10)

    assert handler.exists
    assert handler.read() == 10
    assert (tmp_path / ".kafka_cleanshutdown").read_bytes() == b'{"version":0,"brokerEpoch":10}'

    handler.delete()
    assert not handler.exists
    assert list(tmp_path.iterdir()) == []


def test_clean_shutdown_file_non_exist(handler: CleanShutdownFileHandler):
    """[CKP-21] CleanShutdownFileHandlerTest.testCleanShutdownFileNonExist."""
    handler.write(10, version=0)
    assert handler.exists
    assert handler.read() == 10

    handler.delete()

    assert not handler.exists
    assert handler.read() is None
    handler.delete()
