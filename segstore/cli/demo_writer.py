"""The process that writes in the demo, made to be killed: it tells after each append how far it is.

``python -m segstore.cli.demo_writer DIR SOURCE PATH [LIMIT]`` appends the events of a source to the
log directory DIR, from where the last writer stopped. Whoever runs it again finishes the work:
where to go on is read from the log itself, not from notes about it. When all events are there, it
leaves the log open until its standard input ends, so that a kill always interrupts it.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import segstore
from segstore.cli.demo_source import DemoData, broker_records, flights
from segstore.errors import IllegalStateError

if TYPE_CHECKING:
    from collections.abc import Callable

    from segstore.cli.demo_source import Event
    from segstore.manager.log_manager import LogManager

PARTITIONS = 4
SETTINGS: dict[str, Any] = {
    "segment_bytes": 4 * 1024 * 1024,
    "segment_ms": None,
    "retention_ms": None,
    "retention_bytes": -1,
}
MAX_APPEND_RECORDS = 4000
APPENDS_AT_LEAST = 100


@dataclass(frozen=True, slots=True)
class Appended:
    """What one run of the writer did."""

    records: int
    size_bytes: int
    seconds: float


def load(source: str, path: Path, limit: int | None = None) -> DemoData:
    """Read the events of a source by its name, ``flights`` or ``broker``."""
    return (flights if source == "flights" else broker_records)(path, limit)


def open_manager(directory: Path) -> LogManager:
    """Open the demo's log directory for writing: an append returns when its records are safe."""
    return segstore.open_dir(directory, durability="sync", **SETTINGS)


def partition_of(keys: set[bytes]) -> dict[bytes, int]:
    """Return the partition of each key, as Kafka's clients choose it."""
    return {key: segstore.partition_for_key(key, PARTITIONS) for key in keys}


def events_by_partition(data: DemoData) -> list[list[Event]]:
    """Return what each partition must hold in the end."""
    partitions: list[list[Event]] = [[] for _ in range(PARTITIONS)]
    chosen = partition_of({key for _, key, _ in data.events})
    for event in data.events:
        partitions[chosen[event[1]]].append(event)
    return partitions


def append_events(
    manager: LogManager, data: DemoData, acknowledged: Callable[[int], None]
) -> Appended:
    """Append the events that the log does not hold yet, in order.

    Parameters
    ----------
    manager : LogManager
        Open for writing.
    data : DemoData
        All events.
    acknowledged : callable
        Called after each append with the number of events that are in the log now.

    Raises
    ------
    IllegalStateError
        The log holds something else than a beginning of *data*.
    """
    if data.topic not in manager.topics():
        manager.create_topic(data.topic, PARTITIONS)
    there = [_records_there(manager, data, number) for number in range(PARTITIONS)]
    chosen = partition_of({key for _, key, _ in data.events})
    append_records = max(1, min(MAX_APPEND_RECORDS, len(data.events) // APPENDS_AT_LEAST))
    passed = [0] * PARTITIONS
    missing: list[Event] = []
    for event in data.events:
        number = chosen[event[1]]
        passed[number] += 1
        if passed[number] > there[number]:
            missing.append(event)
    done, size_bytes = sum(there), 0
    started = perf_counter()
    for start in range(0, len(missing), append_records):
        chunk = missing[start : start + append_records]
        infos = manager.append(data.topic, chunk)
        size_bytes += sum(info.size_bytes for info in infos.values())
        done += len(chunk)
        acknowledged(done)
    return Appended(len(missing), size_bytes, perf_counter() - started)


def _records_there(manager: LogManager, data: DemoData, partition: int) -> int:
    """Count the events that a partition holds; its last one must be the right one.

    Nothing is ever deleted or compacted here, so the log end offset is the count.
    """
    log = manager.log(data.topic, partition)
    count = log.log_end_offset
    if count == 0:
        return 0
    expected = events_by_partition(data)[partition]
    last = next(iter(log.scan(count - 1, count)))
    if count > len(expected) or (last.timestamp, last.key, last.value) != expected[count - 1]:
        raise IllegalStateError(f"{data.topic}-{partition} holds other records than this demo's")
    return count


def main(directory: str, source: str, path: str, limit: str | None = None) -> None:
    """Append; print how many events are acknowledged, a number a line."""
    data = load(source, Path(path), None if limit is None else int(limit))
    with open_manager(Path(directory)) as manager:
        append_events(manager, data, lambda done: print(done, flush=True))
        sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
