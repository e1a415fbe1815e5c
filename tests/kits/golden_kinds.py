"""Kinds of golden partitions, by what their ``case.json`` and records say.

A runner asks for a kind, so that it runs over any folder of golden directories.
"""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING, Any

from tests.interop.golden_case import LEGACY, loaded_partitions, whole_partitions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.interop.golden_case import GoldenPartition

NO_TIMESTAMP = -1
ONLY_KILLED = "nothing, only killed"


def _records(partition: GoldenPartition) -> Iterator[dict[str, Any]]:
    """What a consumer of the broker saw."""
    if partition.records_file.exists():
        yield from map(json.loads, partition.records_file.read_bytes().splitlines())


def _has_producers(partition: GoldenPartition) -> bool:
    snapshots = partition.expected.get("producer_snapshots", [])
    return any(snapshot["producers"] for snapshot in snapshots)


def _has_known_producers(partition: GoldenPartition) -> bool:
    """Whether the broker still knew producers: it had not let them expire."""
    return bool((partition.broker or {}).get("active_producers"))


def _is_compacted(partition: GoldenPartition) -> bool:
    return "compact" in partition.topic_configs.get("cleanup.policy", "")


def _is_plain(partition: GoldenPartition) -> bool:
    """Several segments, and nothing in them that needs a rule of its own."""
    return (
        partition.expected["segments_count"] > 2
        and set(partition.expected["batches_by_codec"]) == {"none"}
        and partition.description["family"] != LEGACY
        and not (_is_compacted(partition) or _has_producers(partition))
    )


def _has_open_transaction(partition: GoldenPartition) -> bool:
    producers = (partition.broker or {}).get("active_producers", [])
    return any(one["current_transaction_start_offset"] is not None for one in producers)


def _is_killed_in_transactions(partition: GoldenPartition) -> bool:
    return (
        partition.description["damage"] == ONLY_KILLED
        and partition.expected.get("control_batches", 0) > 0
        and not _is_compacted(partition)
    )


WHOLE: dict[str, Callable[[GoldenPartition], bool]] = {
    "plain": _is_plain,
    "zstd": lambda one: "zstd" in one.expected["batches_by_codec"],
    "compacted": _is_compacted,
    "idempotent producers": lambda one: (
        _has_known_producers(one) and not one.expected["control_batches"]
    ),
    "transactions": lambda one: (
        bool(one.expected.get("aborted_transactions")) and not _is_compacted(one)
    ),
    "an open transaction": _has_open_transaction,
    "several epochs": lambda one: len(one.leader_epoch_starts) > 1,
    "a log start that moved": lambda one: (one.broker or {}).get("log_start_offset", 0) > 0,
    "times of the broker": lambda one: (
        one.topic_configs.get("message.timestamp.type") == "LogAppendTime"
    ),
    "no timestamps": lambda one: (
        one.description["family"] != LEGACY
        and any(record["timestamp"] == NO_TIMESTAMP for record in _records(one))
    ),
    "nulls": lambda one: any(
        record["key"] is None and record["value"] is None for record in _records(one)
    ),
    "message sets": lambda one: one.description["family"] == LEGACY,
}
"""Of partitions that must be read exactly."""

KILLED: dict[str, Callable[[GoldenPartition], bool]] = {
    "killed in transactions": _is_killed_in_transactions,
}
"""Of partitions that a killed broker left, and nobody damaged."""

KINDS = sorted({*WHOLE, *KILLED})


@cache
def partitions_of(root: Path, kind: str) -> list[GoldenPartition]:
    """Return the partitions of *kind* under *root*, of users' topics, as the broker left them.

    A case with hidden records has none: what is counted by headers is another number there.
    """
    is_of_kind = WHOLE.get(kind) or KILLED[kind]
    partitions = [
        one
        for one in (whole_partitions(root) if kind in WHOLE else loaded_partitions(root))
        if not one.suffix and not one.topic.startswith("__")
    ]
    found = [one for one in partitions if is_of_kind(one)]
    cases = {one.case for one in found}
    hiding = {one.case for one in partitions if one.case in cases and one.hidden_offsets}
    return [one for one in found if one.case not in hiding]


def cases_of(root: Path, kinds: tuple[str, ...]) -> list[Path]:
    """Return the cases under *root* that have a partition of one of *kinds*."""
    return sorted({one.case_directory for kind in kinds for one in partitions_of(root, kind)})
