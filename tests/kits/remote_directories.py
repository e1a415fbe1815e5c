"""Log directories put behind URLs, and their logs read both ways: locally, and part by part."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import fsspec
import pyarrow as pa

import segstore
from segstore.errors import SegstoreError
from segstore.log.files.partition_directory import directory_name
from segstore.remote.remote_logs import RemoteLogs, RemoteSettings
from segstore.types import Isolation, SpecialTimestamp

if TYPE_CHECKING:
    from pathlib import Path

    from segstore.types import TopicPartition

ISOLATIONS = (Isolation.READ_UNCOMMITTED, Isolation.READ_COMMITTED, Isolation.DURABLE)


def upload(directory: Path, url: str | None = None) -> str:
    """Put what is in *directory* into memory, in the place of what is at *url*; return the URL."""
    url = url or f"memory://{uuid.uuid4().hex}"
    memory = fsspec.filesystem("memory")
    root = url.removeprefix("memory:/")
    known = set(memory.find(root))
    there = set(known)
    for file in directory.rglob("*"):
        if file.is_file():
            name = f"{root}/{file.relative_to(directory)}"
            there.discard(name)
            data = file.read_bytes()
            if name not in known or memory.cat(name) != data:
                memory.pipe(name, data)
    for name in there:
        memory.rm(name)
    return url


def forget(url: str) -> None:
    """Take away what `upload` has put at *url*: memory is searched from end to end."""
    fsspec.filesystem("memory").rm(url.removeprefix("memory:/"), recursive=True)


def remote_logs(url: str, spool: Path, **settings: Any) -> RemoteLogs:
    """Open a directory of logs at *url*."""
    return RemoteLogs(url, RemoteSettings(settings, str(spool)))


Rows = tuple[list[dict[str, Any]], type[SegstoreError] | None]
"""Records, and the error that ended them."""


def rows_of(log: segstore.UnifiedLog, start: int, end: int, isolation: Isolation) -> Rows:
    found: list[dict[str, Any]] = []
    try:
        for batch in log.scan(start, end, isolation=isolation).arrow_batches():
            found += pa.record_batch(batch).to_pylist()
    except SegstoreError as error:
        return found, type(error)
    return found, None


def remote_rows(
    logs: RemoteLogs, partition: TopicPartition, start: int, end: int, isolation: Isolation
) -> Rows:
    """Read a range as a task does: part by part."""
    found: list[dict[str, Any]] = []
    losses: list[object] = []
    for part, begin in logs.parts(partition, start, end, isolation, losses.append):
        rows, error = rows_of(part.log, begin, part.end_offset, part.isolation)
        found += rows
        if error is not None:
            return found, error
    assert losses == []
    return found, None


def end_of(log: segstore.UnifiedLog, isolation: Isolation) -> int:
    """Where the records that *isolation* shows end."""
    return log.fetch_offset_by_timestamp(SpecialTimestamp.LATEST, isolation).offset


def differences(
    directory: Path, logs: RemoteLogs, partition: TopicPartition, cuts: int = 2
) -> list[str]:
    """Compare a log read at a URL with the same one on the disk: bounds, and rows of ranges.

    How many rows come before an error is a matter of how many are read at once.
    """
    found = []
    with segstore.open(directory / directory_name(partition), read_only=True) as log:
        bases = [segment.base_offset for segment in log.segments()]
        for isolation in ISOLATIONS:
            start, end = log.log_start_offset, end_of(log, isolation)
            bounds = logs.bounds(partition, isolation)
            if (bounds.start_offset, bounds.end_offset) != (start, end):
                found.append(f"{partition} {isolation}: {bounds[:2]}, not {(start, end)}")
                continue
            inside = [base + shift for base in bases for shift in (-1, 0, 1)]
            inside = sorted({offset for offset in inside if start < offset < end})
            chosen = inside[:: max(1, len(inside) // cuts)] if cuts else []
            ranges = [(start, end), *((first, (first + end + 1) // 2) for first in chosen)]
            for first, behind in ranges:
                here = rows_of(log, first, behind, isolation)
                there = remote_rows(logs, partition, first, behind, isolation)
                if here[1] != there[1] or (here[0] != there[0] and here[1] is None):
                    found.append(
                        f"{partition} {isolation} [{first}, {behind}): {len(there[0])} rows "
                        f"and {there[1]}, not {len(here[0])} and {here[1]}"
                    )
    return found
