"""The small files of a partition, snapshots, its parent's checkpoints, checked [DUR-65]."""

from __future__ import annotations

import base64
import os
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

from segstore.cli.check_result import OPEN_REBUILDS, Finding, PartitionCheck
from segstore.cli.dump_state import TRANSACTION_ENTRY, producer_lines
from segstore.cli.log_start_check import check_log_start, read_log_start
from segstore.cli.restart_check import lies_beside, lost_files, standing_marker
from segstore.errors import (
    CorruptCheckpointError,
    CorruptSnapshotError,
    LimitExceededError,
    SegstoreError,
)
from segstore.log.check.transaction_index_verifier import wrong_transaction_indexes_of
from segstore.log.files import checkpoints
from segstore.log.files.partition_directory import (
    file_name,
    parse_directory_name,
    segment_files,
)
from segstore.log.files.recovery_advice import missing_records
from segstore.log.recovery.restart_marker import RestartMarker

if TYPE_CHECKING:
    from collections.abc import Iterable

    from segstore._core import Directory
    from segstore.types import EpochEntry, TopicPartition

MAX_SNAPSHOT_BYTES = 64 * 1024 * 1024

LEFT_TO_A_BROKER = (
    "restore this file from a copy, or delete it and let a broker make it anew: `segstore recover` "
    "and opens leave it as it is"
)
RECOVER_REBUILDS = (
    "`segstore recover` on the directory builds it anew; so does a writer that has read committed "
    "data there, when it is closed"
)
HIDDEN_BY_DAMAGE = (
    "salvage the log: damaged or missing batches hide how transactions end, and so what the index "
    "should hold"
)


@dataclass(slots=True)
class PartitionState:
    """What the files beside the log say about it; None or empty where they say nothing."""

    topic_partition: TopicPartition | None = None
    log_start_offset: int | None = None
    """As an open reads it."""
    reported_log_start_offset: int | None = None
    """The greatest that a checkpoint says."""
    recovery_point: int | None = None
    epochs: list[EpochEntry] = field(default_factory=list)
    topic_id: str | None = None
    clean_markers: list[str] = field(default_factory=list)
    log_state: checkpoints.LogState | None = None
    contiguous_from: int | None = None
    epochs_ordered_from: int | None = None


def read_state(
    directory: Directory, path: str, findings: list[Finding], opened_at: int | None = None
) -> PartitionState:
    """Read what stands beside the log; what cannot be read is a finding and counts as not there.

    The recovery point is the smaller of the partition's own and its parent's [DUR-65]. *opened_at*
    is the log start that an open for writing would come to, where that is known.
    """
    import segstore._core as _core

    state = PartitionState()
    parent_path, name = os.path.split(os.path.abspath(path))  # noqa: PTH100
    with suppress(SegstoreError):  # a copy under another name has no line in any checkpoint
        state.topic_partition = parse_directory_name(name)
    parent = _core.Directory(parent_path)
    try:
        for place, prefix in ((directory, ""), (parent, "../")):
            if place.exists(checkpoints.CLEAN_SHUTDOWN_MARKER):
                state.clean_markers.append(prefix + checkpoints.CLEAN_SHUTDOWN_MARKER)
            _read_recovery_point(place, prefix, state, findings)
        if state.topic_partition is not None:
            state.log_start_offset, state.reported_log_start_offset = read_log_start(
                directory, parent, state.topic_partition, findings, opened_at
            )
    finally:
        parent.close()
    with _Reading(checkpoints.LEADER_EPOCH_CHECKPOINT, findings):
        if directory.exists(checkpoints.LEADER_EPOCH_CHECKPOINT):
            state.epochs = checkpoints.parse_leader_epoch_checkpoint(
                directory.read_file(checkpoints.LEADER_EPOCH_CHECKPOINT)
            )
    with _Reading(checkpoints.PARTITION_METADATA, findings):
        topic_id = checkpoints.read_topic_id(directory)
        state.topic_id = None if topic_id is None else _kafka_uuid(topic_id.bytes)
    _read_log_state(directory, state)
    return state


def _kafka_uuid(data: bytes) -> str:
    """Return 16 bytes as Kafka writes a uuid: 22 characters."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


class _Reading:
    """Turn an unreadable small file into a finding."""

    def __init__(self, name: str, findings: list[Finding]) -> None:
        self._name = name
        self._findings = findings

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: object, traceback: object) -> bool:
        if not isinstance(error, (CorruptCheckpointError, LimitExceededError)):
            return False
        is_rebuilt = self._name != checkpoints.PARTITION_METADATA
        self._findings.append(
            Finding(
                file=self._name,
                what=f"cannot be read: {error.message}",
                meaning="its values count as missing: everything is checked again at the next open",
                advice=OPEN_REBUILDS if is_rebuilt else LEFT_TO_A_BROKER,
                repaired=is_rebuilt,
            )
        )
        return True


def _read_recovery_point(
    place: Directory, prefix: str, state: PartitionState, findings: list[Finding]
) -> None:
    if state.topic_partition is None:
        return
    with _Reading(prefix + checkpoints.RECOVERY_POINT_CHECKPOINT, findings):
        point = checkpoints.read_offset(
            place, checkpoints.RECOVERY_POINT_CHECKPOINT, state.topic_partition
        )
        if point is not None:
            known = point if state.recovery_point is None else state.recovery_point
            state.recovery_point = min(point, known)


def _read_log_state(directory: Directory, state: PartitionState) -> None:
    """What recovery may count on holds only while no broker wrote here in between [DUR-64]."""
    log_state = checkpoints.LogState.read(directory)
    latest = state.epochs[-1] if state.epochs else None
    if log_state is not None and log_state.fits(latest):
        state.log_state = log_state
        state.contiguous_from = log_state.contiguous_from
        state.epochs_ordered_from = log_state.epochs_ordered_from


def check_state_files(
    directory: Directory,
    names: list[str],
    state: PartitionState,
    check: PartitionCheck,
) -> None:
    """Compare the checkpoints with the log's end; check snapshots and transaction indexes."""
    findings, forecast = check.findings, check.forecast
    mark = RestartMarker(directory)
    if mark.missing:
        findings.append(lost_files(mark))
    if mark.stands and forecast.error is None:
        findings.append(standing_marker(mark))
    if forecast.split is None and not lies_beside(mark, check.log_end_offset):
        # else it is not known before where it will end
        _check_offsets(state, check)
    _check_epochs(state.epochs, findings)
    files = [file for file in segment_files(names) if not file.suffix]
    snapshots = [file.offset for file in files if file.kind == "snapshot"]
    for file in files:
        if file.kind == "snapshot":
            is_repaired = forecast.replaces_snapshot(file.offset, snapshots)
            _check_snapshot(directory, file.name, findings, is_repaired=is_repaired)
    there = sorted({file.offset for file in files if file.kind == "txnindex"})
    _check_transactions(directory, there, check)


def _check_offsets(state: PartitionState, check: PartitionCheck) -> None:
    log_end_offset, findings = check.log_end_offset, check.findings
    if state.recovery_point is not None and state.recovery_point > log_end_offset:
        damaged = [  # which ends the log there
            finding.file
            for finding in findings
            if finding.file.endswith(".log") and finding.offset == log_end_offset
        ]
        missing = missing_records(log_end_offset, state.recovery_point)
        findings.append(
            Finding(
                file=checkpoints.RECOVERY_POINT_CHECKPOINT,
                offset=log_end_offset,
                what=f"says that records below {state.recovery_point} were safe on disk, "
                f"the log ends at {log_end_offset}",
                meaning=f"those that the finding in {damaged[-1]} names" if damaged else missing,
                advice="restore the directory from a copy, or go on without these records",
            )
        )
    check_log_start(state.reported_log_start_offset, check)


def _check_epochs(epochs: list[EpochEntry], findings: list[Finding]) -> None:
    for before, after in pairwise(epochs):
        if after.epoch <= before.epoch or after.start_offset < before.start_offset:
            findings.append(
                Finding(
                    file=checkpoints.LEADER_EPOCH_CHECKPOINT,
                    offset=after.start_offset,
                    what=f"epoch {after.epoch} from offset {after.start_offset} follows epoch "
                    f"{before.epoch} from offset {before.start_offset}: both must increase",
                    meaning="the history of leaders is wrong; records are not concerned",
                    advice=OPEN_REBUILDS,
                )
            )
            return


def _check_transactions(directory: Directory, bases: Iterable[int], check: PartitionCheck) -> None:
    """Compare the transaction indexes with all batches [DUR-7]."""
    unknown: set[int] = set()
    damaged: dict[int, str] = {}
    try:
        for wrong in wrong_transaction_indexes_of(directory.path):
            damaged[wrong.base_offset] = wrong.problem
            if wrong.content is None:
                unknown.add(wrong.base_offset)
    except SegstoreError as error:
        check.notes.append(f"the transaction indexes were not compared with the log: {error}")
    for base in bases:
        name = file_name(base, "txnindex")
        size = directory.info(name).size if directory.exists(name) else 0
        if base not in damaged and size % TRANSACTION_ENTRY.size:
            damaged[base] = f"{size} bytes are no multiple of {TRANSACTION_ENTRY.size}"
    for base, problem in sorted(damaged.items()):
        is_repaired = check.forecast.replaces_transaction_index(base)
        is_known = is_repaired or base not in unknown
        check.findings.append(
            Finding(
                file=file_name(base, "txnindex"),
                what=problem,
                meaning="the list of aborted transactions of this segment is damaged: reads of "
                "committed data ask the batches instead",
                advice=OPEN_REBUILDS
                if is_repaired
                else RECOVER_REBUILDS
                if is_known
                else HIDDEN_BY_DAMAGE,
                repaired=check.forecast.error is None and is_known,
            )
        )


def _check_snapshot(
    directory: Directory, name: str, findings: list[Finding], *, is_repaired: bool
) -> None:
    try:
        producer_lines(directory.read_file(name, MAX_SNAPSHOT_BYTES))
    except (CorruptSnapshotError, LimitExceededError) as error:
        findings.append(
            Finding(
                file=name,
                what=error.message,
                meaning="what it says about producers is not used; no record is concerned",
                advice=OPEN_REBUILDS if is_repaired else LEFT_TO_A_BROKER,
                repaired=is_repaired,
            )
        )
