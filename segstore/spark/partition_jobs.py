"""What jobs do with one partition: verify it, recover it, count what is in it.

Each takes the partition's directory, opens the log there, and returns plain values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from segstore.log.log_environment import LogEnvironment
from segstore.log.log_opener import open_partition_to_write
from segstore.log.open_log import open as open_log
from segstore.log.open_options import open_options
from segstore.numpy_on_demand import np
from segstore.types import CODEC_MASK, CONTROL_FLAG, CURRENT_MAGIC, Codec

if TYPE_CHECKING:
    from segstore._core import BatchHeaders
    from segstore.log.unified_log import UnifiedLog


def verify_partition(path: str) -> dict[str, Any]:
    """Read every batch and index entry; writes nothing.

    The check finds what the open has found too, as `segstore verify` does.
    """
    with open_log(path, read_only=True) as log:
        found = log.verify()
        return {
            "ok": found.ok,
            "log_start_offset": log.log_start_offset,
            "log_end_offset": log.log_end_offset,
            "segments": len(found.segments),
            "batches": found.batches,
            "records": found.records,
            "size_bytes": found.size_bytes,
            "problems": found.problems,
            "quarantined": [str(file) for file in found.quarantined],
        }


def recover_partition(path: str) -> dict[str, Any]:
    """Open for writing, which repairs what a crash left, and close cleanly."""
    with open_existing(path) as log:
        report = log.report
        report.rebuilt += log.rebuild_transaction_indexes()
    changed = report.truncated_bytes > 0 or bool(report.set_aside or report.maybe_missing)
    return {"ok": not changed, **report.to_dict()}


def open_existing(path: str, lock_timeout: float | None = None) -> UnifiedLog:
    """Open for writing; no log is made, where its topic was deleted or the executor has no path.

    Raises
    ------
    LogNotFoundError
        There is no such directory.
    LogLockedError
        Another writer has the log, and did not close it within *lock_timeout* seconds.
    """
    options = open_options(lock_timeout=lock_timeout)
    return open_partition_to_write(path, options, LogEnvironment(makes_directory=False))


def stats_of_partition(path: str) -> dict[str, Any]:
    """Say what is in the log, by its batch headers."""
    records = markers = batches = 0
    largest = -1
    codecs: dict[str, int] = {}
    with open_log(path, read_only=True) as log:
        for _, headers in log.scan().headers():
            batches += len(headers)
            is_control = _is_control(headers)
            markers += int(is_control.sum())
            largest = max(largest, int(headers["max_timestamp"].max()))
            for number, count in zip(
                *np.unique(headers["attributes"] & CODEC_MASK, return_counts=True), strict=True
            ):
                name = Codec(number).name.lower() if number in set(Codec) else f"unknown-{number}"
                codecs[name] = codecs.get(name, 0) + int(count)
        records = log.scan().count(by_headers=True)
        segments, damage = log.segments(), log.report.damage
        return {
            "ok": damage is None,
            "problems": [] if damage is None else [damage],
            "log_start_offset": log.log_start_offset,
            "log_end_offset": log.log_end_offset,
            "last_stable_offset": log.last_stable_offset,
            "durable_offset": log.durable_offset,
            "segments": len(segments),
            "size_bytes": sum(segment.size_bytes for segment in segments),
            "batches": batches,
            "records": records,
            "control_batches": markers,
            "first_timestamp": segments[0].first_batch_timestamp(),
            "largest_timestamp": largest,
            "batches_by_codec": codecs,
        }


def _is_control(headers: BatchHeaders) -> np.ndarray:
    is_control: np.ndarray = headers["attributes"] & CONTROL_FLAG != 0
    is_control &= headers["magic"] == CURRENT_MAGIC
    return is_control
