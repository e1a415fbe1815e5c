"""What the files beside a log say about it: checkpoints, markers, the topic id [DUR-65]."""

from __future__ import annotations

import os
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from segstore.errors import (
    CorruptCheckpointError,
    InconsistentTopicIdError,
    LimitExceededError,
    LogNotFoundError,
    SegstoreError,
)
from segstore.log.check.unreadable_file import (
    UNREADABLE_ERRORS,
    files_that_are_none,
    unreadable_file,
)
from segstore.log.files import checkpoints
from segstore.log.files.checkpoint_store import CheckpointStore
from segstore.log.files.leader_epoch_file_cache import require_whole
from segstore.log.files.partition_directory import parse_directory_name
from segstore.log.files.partition_metadata_file import topic_id_text
from segstore.log.files.partition_path import absolute_path, open_parent_directory
from segstore.log.files.sibling_topic_ids import topic_id_in_topics_file, topic_id_of_siblings
from segstore.log.files.topic_names import CLUSTER_METADATA_TOPIC
from segstore.log.findings.finding import Action, Finding, FindingCode, facts_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from segstore._core import Directory
    from segstore.log.recovery.forecast import OpenForecast
    from segstore.types import EpochEntry, TopicPartition

_ABOVE = "../"
_NOT_PARSED = (CorruptCheckpointError, LimitExceededError)


@dataclass(slots=True)
class PartitionState:
    """What the files beside the log say about it; None or empty where they say nothing."""

    topic_partition: TopicPartition | None = None
    log_start_offset: int | None = None
    """As an open reads it."""
    reported_log_start_offset: int | None = None
    """The greatest that a checkpoint says."""
    recovery_point: int | None = None
    """The smaller of the partition's own and that of the log directory."""
    epochs: list[EpochEntry] = field(default_factory=list)
    topic_id: str | None = None
    clean_markers: list[str] = field(default_factory=list)
    log_state: checkpoints.LogState | None = None
    """None also where another program wrote to the log since [DUR-64]."""
    findings: list[Finding] = field(default_factory=list)
    """About files that cannot be used: what they say counts as missing."""


def opened_log_start(forecast: OpenForecast | None) -> int | None:
    """Return where the log starts once it is opened for writing; None where nothing tells it."""
    if forecast is None or forecast.error is not None or forecast.split is not None:
        return None
    return forecast.report.log_start_offset


def read_state(
    directory: Directory,
    forecast: OpenForecast | None = None,
    *,
    as_: TopicPartition | None = None,
) -> PartitionState:
    """Read what stands beside the log of *directory*.

    Parameters
    ----------
    forecast : OpenForecast or None
        What an open for writing would do, where that is known.
    as_ : TopicPartition or None
        Whose directory it is; None = its name says it.
    """
    state, parent = PartitionState(), None
    path = absolute_path(directory.path)
    with suppress(SegstoreError):  # a copy under another name has no line in any checkpoint
        state.topic_partition = as_ or parse_directory_name(os.path.basename(path))  # noqa: PTH119
    with suppress(LogNotFoundError, *UNREADABLE_ERRORS):
        parent = open_parent_directory(path, directory.environment, as_)
    try:
        _StateReading(directory, parent, state, forecast).read()
    finally:
        if parent is not None:
            parent.close()
    return state


class _StateReading:
    """Reads one file after the other; what is wrong with one hides no other."""

    def __init__(
        self,
        directory: Directory,
        parent: Directory | None,
        state: PartitionState,
        forecast: OpenForecast | None,
    ) -> None:
        self._directory = directory
        self._places = [(directory, "")] if parent is None else [(directory, ""), (parent, _ABOVE)]
        self._parent = parent
        self._state = state
        self._forecast = forecast

    def read(self) -> None:
        state, directory = self._state, self._directory
        for place, prefix in self._places:
            if place.exists(checkpoints.CLEAN_SHUTDOWN_MARKER):
                state.clean_markers.append(prefix + checkpoints.CLEAN_SHUTDOWN_MARKER)
            state.findings += [
                replace(found, file=prefix + found.file)
                for found in files_that_are_none(place, [checkpoints.CLEAN_SHUTDOWN_MARKER])
            ]
        if state.topic_partition is not None:
            self._read_recovery_point(state.topic_partition)
            self._read_log_start(state.topic_partition)
        with self._reading(directory, checkpoints.LEADER_EPOCH_CHECKPOINT):
            data = directory.read_file(checkpoints.LEADER_EPOCH_CHECKPOINT)
            state.epochs = checkpoints.parse_leader_epoch_checkpoint(data)
            if data:
                require_whole(data, ())  # entries in another order have a finding of their own
        with self._reading(directory, checkpoints.PARTITION_METADATA):
            self._read_topic_id()
        with (
            self._reading(directory, checkpoints.LOG_STATE),
            suppress(*_NOT_PARSED),  # reported as what it means for the records
        ):
            self._read_log_state()

    def _read_log_state(self) -> None:
        """Read ``.segstore``; it is believed where an open for writing believes it."""
        state, found = self._state, checkpoints.LogState.read(self._directory)
        is_own = None if self._forecast is None else self._forecast.is_own
        if is_own is None and found is not None:
            is_own = found.fits(state.epochs[-1] if state.epochs else None)
        state.log_state = found if is_own else None

    @contextmanager
    def _reading(self, place: Directory, name: str, prefix: str = "") -> Iterator[None]:
        """Turn a file that cannot be used into a finding."""
        try:
            yield
        except LogNotFoundError:
            pass
        except _NOT_PARSED as error:
            self._state.findings.append(
                Finding(
                    code=FindingCode.CHECKPOINT_CORRUPT,
                    file=prefix + name,
                    action=Action.RECOVER,
                    repaired=True,
                    **facts_of(error),
                )
            )
        except UNREADABLE_ERRORS as error:
            self._state.findings.append(unreadable_file(place, name, error, prefix + name))

    def _read_topic_id(self) -> None:
        """Read the topic id; where it is lost, `segstore recover` takes it from the siblings."""
        state, lost = self._state, None
        try:
            topic_id = checkpoints.read_topic_id(self._directory)
            if topic_id is not None:
                state.topic_id = topic_id_text(topic_id)
                return
        except _NOT_PARSED as error:
            lost = error
        known, unsure, contradiction = None, None, None
        if self._parent is not None and state.topic_partition is not None:
            try:
                known = topic_id_of_siblings(self._parent, state.topic_partition)
                unsure = topic_id_in_topics_file(self._parent, state.topic_partition)
            except InconsistentTopicIdError as error:
                contradiction = error
        cause = lost or contradiction
        is_of_broker = self._is_of_broker()
        if cause is None and known is None and unsure is None and not is_of_broker:
            return  # a log without a topic id: the others have none either
        facts = {"found": "no such file"} if cause is None else facts_of(cause)
        if is_of_broker and cause is None:
            facts["expected"] = f"a topic id: {checkpoints.META_PROPERTIES} shows a broker's disk"
        if known is not None:
            facts["expected"] = f"topic id {topic_id_text(known)}"
        elif unsure is not None:
            facts["expected"] = (
                f"a topic id; topics.json alone has {topic_id_text(unsure)}, which may be that of"
                " an older topic of this name"
            )
        state.findings.append(
            Finding(
                code=FindingCode.TOPIC_ID_MISSING,
                file=checkpoints.PARTITION_METADATA,
                action=Action.WRITE_TOPIC_ID if known is None else Action.RECOVER,
                repaired=known is not None,
                **facts,
            )
        )

    def _is_of_broker(self) -> bool:
        """Whether a broker is to serve the partition: each that it serves has a topic id."""
        parent, own = self._parent, self._state.topic_partition
        if parent is None or own is None or own.topic == CLUSTER_METADATA_TOPIC:
            return False
        return parent.exists(checkpoints.META_PROPERTIES)

    def _read_recovery_point(self, topic_partition: TopicPartition) -> None:
        name, state = checkpoints.RECOVERY_POINT_CHECKPOINT, self._state
        for place, prefix in self._places:
            with self._reading(place, name, prefix):
                point = checkpoints.read_offset(place, name, topic_partition)
                known = [value for value in (point, state.recovery_point) if value is not None]
                state.recovery_point = min(known, default=None)

    def _read_log_start(self, topic_partition: TopicPartition) -> None:
        """Read the log start: of the batches nothing tells it [DUR-21].

        It stands in the partition's own checkpoint, in that of the log directory and in the clean
        marker of the partition.
        """
        name, state = checkpoints.LOG_START_OFFSET_CHECKPOINT, self._state
        told: dict[str, int] = {}
        corrupt: dict[str, SegstoreError] = {}
        for place, prefix in self._places:
            with self._reading(place, name, prefix):
                try:
                    start = checkpoints.read_offset(place, name, topic_partition)
                except _NOT_PARSED as error:
                    corrupt[prefix + name] = error
                else:
                    if start is not None:
                        told[prefix + name] = start
        state.reported_log_start_offset = max(told.values(), default=0)
        state.log_start_offset = state.reported_log_start_offset
        with suppress(*_NOT_PARSED, *UNREADABLE_ERRORS):
            store = CheckpointStore(
                self._directory, self._parent, topic_partition, is_for_writing=False
            )
            found = store.read()
            state.log_start_offset, marker = found.log_start_offset, found.own_marker
            if marker is not None and marker.has_crc and marker.log_start_offset is not None:
                told = {checkpoints.CLEAN_SHUTDOWN_MARKER: marker.log_start_offset, **told}
        state.findings += [
            self._unknown_log_start(file, error, told) for file, error in corrupt.items()
        ]

    def _unknown_log_start(self, file: str, error: SegstoreError, told: dict[str, int]) -> Finding:
        """Return the finding of a log start that cannot be read.

        The marker is written after the own checkpoint; a line of the log directory's is written
        by a broker or at a clean stop only, and may be older.
        """
        start = self._state.log_start_offset
        where = next((name for name in told if told[name] == start), None)
        is_known = where is not None and not (
            where.startswith(_ABOVE) and checkpoints.CLEAN_SHUTDOWN_MARKER not in told
        )
        opened = opened_log_start(self._forecast)
        facts = facts_of(error)
        if where is not None:
            facts["expected"] = (
                f"the log start {start if opened is None else opened}, as in {where}"
            )
        return Finding(
            code=FindingCode.CHECKPOINT_CORRUPT if is_known else FindingCode.LOG_START_UNKNOWN,
            file=file,
            action=Action.RECOVER if is_known else Action.RESTORE_FIRST,
            repaired=True,
            **facts,
        )
