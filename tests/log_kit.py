"""Logs for tests, in a folder of their own and closed at the end; batches to put into them."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import pytest

import segstore
from segstore import _core
from segstore._core import BatchOptions, encode_records
from segstore.records.compression import codec_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from segstore import UnifiedLog

TIME = 1_700_000_000_000


@pytest.fixture
def new_log(tmp_path: Path) -> Iterator[Callable[..., UnifiedLog]]:
    """Open ``<tmp_path>/topic-0``, or another path; what is open is closed at the end."""
    opened: list[UnifiedLog] = []

    def open_log(path: Path | None = None, **settings: object) -> UnifiedLog:
        chosen = {"durability": "none", "segment_ms": None, **settings}
        opened.append(segstore.open(path or tmp_path / "topic-0", **chosen))
        return opened[-1]

    yield open_log
    for log in opened:
        with contextlib.suppress(segstore.SegstoreError):
            log.close()


class Clock:
    """The wall clock of appends, in ms; the files keep the real one."""

    def __init__(self) -> None:
        self.now = _core.wall_clock_ms()

    def sleep(self, milliseconds: int) -> None:
        self.now += milliseconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """A clock that moves when the test says so."""
    mock = Clock()
    monkeypatch.setattr(_core, "wall_clock_ms", lambda: mock.now)
    return mock


def batch(
    records: list[object], *, epoch: int = -1, timestamp: int = TIME, **options: int
) -> bytes:
    """One batch of `(key, value)` or `(timestamp, key, value)`; options as in `BatchOptions`."""
    chosen = BatchOptions(partition_leader_epoch=epoch, **options)
    return bytes(encode_records(records, chosen, codec_table(), timestamp, 2**30))


def singleton(value: bytes = b"value", key: bytes | None = None, **options: int) -> bytes:
    """A batch of one record."""
    return batch([(key, value)], **options)


def at(base_offset: int, count: int = 1, *, epoch: int = 0, value: bytes = b"value") -> bytes:
    """A batch as a follower gets it: with its offsets and its leader epoch."""
    return batch([(None, value)] * count, base_offset=base_offset, epoch=epoch)


def offsets(records: object) -> list[int]:
    """Offsets of a fetch, a scan or a log."""
    return [record.offset for record in records]


def values(records: object) -> list[bytes | None]:
    """Values of a fetch, a scan or a log."""
    return [record.value for record in records]


def bases(log: UnifiedLog) -> list[int]:
    """Base offsets of the segments."""
    return [segment.base_offset for segment in log.segments()]
