"""What users write: `test_types_of_users_code` runs mypy over this file; no test imports it."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

import segstore
from segstore import (
    LogAppendInfo,
    LogConfig,
    LogScan,
    Record,
    RecordBatch,
    Segment,
    TopicScan,
    UnifiedLog,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import polars as pl


def right(path: Path, frame: pl.DataFrame, log: UnifiedLog) -> LogAppendInfo:
    """Not a word from mypy."""
    now = dt.datetime.now(dt.UTC)
    rows: list[tuple[bytes, bytes]] = [(b"k", b"v")]
    pairs: Iterator[tuple[bytes | None, bytes]] = iter([(None, b"v")])
    log.append(rows)
    log.append(pairs)
    log.append([(b"k", b"v"), (b"k", None)])
    log.append([(1, b"k", None), (now, None, bytearray(b"v"))])
    log.append([(b"k", b"v"), (1, b"k", None), Record(value=b"x", headers=[("a", b"1")])])
    log.append((b"k", b"%d" % n) for n in range(3))
    log.append(Record(value=b"x", timestamp=now), timestamp=now)
    log.append(frame)
    log.append(log)
    log.append(log.scan(start_timestamp=now, isolation="durable"))
    log.append(frame.rows())
    segments: tuple[Segment, ...] = log.segments()
    scan: LogScan = log.scan(0, 10, columns=["key", "value"])
    batches: list[RecordBatch] = list(scan.batches())
    segstore.open(path, durability="seconds=0.5", compression_type="zstd", segment_bytes=1 << 20)
    segstore.open(path, recovery="salvage", target=path / "t-0", config=LogConfig())
    with segstore.open_dir(path, durability="none", flush_ms=5) as logs:
        logs.append("t", [(b"k", b"v")])
        whole: TopicScan = logs.scan("t", start_offset={0: 3}, end_timestamp=now, order="timestamp")
        logs.append("copy", whole)
        logs.to_arrow("t", columns=["key"], end_offset=5, partitions=range(3))
        for each in logs.tail("t", {0: 3}, isolation="read_committed"):
            print(each.partition, logs.count("t", isolation="durable"), len(whole))
    value: bytes | None = log[3].value
    part: LogScan = log[1:3]
    print(value, len(log), len(part), part[2].offset, part[1:].to_pandas())
    return log.append([(b"%d" % len(segments), b"%d" % len(batches))])


def wrong(path: Path, log: UnifiedLog) -> None:
    """An error in each line."""
    log.append([("k", "v")])  # expect: list-item
    log.append("text")  # expect: arg-type
    log.append([(1.5, b"k", b"v")])  # expect: list-item
    log.scan(isolation="read_comitted")  # expect: arg-type
    log.tail(0, isolation="commited")  # expect: arg-type
    log.scan(start_timestamp="now")  # expect: arg-type
    segstore.open(path, durabilty="sync")  # expect: call-arg
    segstore.open(path, segment_bites=3)  # expect: call-arg
    segstore.open(path, segment_bytes="3")  # expect: arg-type
    segstore.open(path, recovery="save")  # expect: arg-type
    segstore.open(path, compression_type="zst")  # expect: arg-type
    segstore.open_dir(path, durabilty="sync")  # expect: call-arg
    segstore.open_dir(path, target=path)  # expect: call-arg
    log.scan().arrow_batches(timestamp_unit="s")  # expect: arg-type
    log["3"]  # expect: call-overload
    with segstore.open_dir(path) as logs:
        logs.scan("t", order="offset")  # expect: arg-type
        logs.to_arrow("t", colums=["key"])  # expect: call-arg
        logs.count("t", start_offset=[1])  # expect: arg-type
