"""A directory held by the core, and a segment in it."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import segstore
from segstore._core import Directory
from tests.kits.segment_inputs import Segment, context_of

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture
def directory(tmp_path):
    opened = Directory(str(tmp_path))
    yield opened
    opened.close()


@pytest.fixture
def segment(directory):
    opened = Segment(context_of(directory), 0, create=True)
    yield opened
    opened.close()


@pytest.fixture
def partition(tmp_path):
    """Two sealed segments of 20 batches and an active one."""
    path = tmp_path / "orders-0"
    with segstore.open(path, durability="none", index_interval_bytes=200) as log:
        for number in range(60):
            if number in {20, 40}:
                log.roll()
            log.append([(1700000000000 + number, b"key", b"value %d" % number)])
    return path


@pytest.fixture
def descriptors_below(tmp_path) -> Callable[[], int]:
    """Count this process's descriptors below the test's own folder.

    All of the process would count what a collector closes of another test, at any moment.
    """

    def count() -> int:
        found = 0
        for descriptor in Path("/proc/self/fd").iterdir():
            with suppress(FileNotFoundError):  # the one that listed them
                found += tmp_path in descriptor.readlink().parents
        return found

    return count
