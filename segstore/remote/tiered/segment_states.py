"""The states of all copies, from the log directories of ``__remote_log_metadata`` [RLM, SEL-13]."""

from __future__ import annotations

import os
import re
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from segstore.errors import (
    CorruptLogError,
    IllegalArgumentError,
    LogNotFoundError,
    SegstoreError,
)
from segstore.log.files.topic_names import REMOTE_LOG_METADATA_TOPIC
from segstore.log.open_log import open as open_log
from segstore.remote.metadata.remote_log_metadata_serde import parse_event
from segstore.remote.metadata.segment_metadata import (
    RemoteLogSegmentMetadata,
    RemoteLogSegmentState,
    RemotePartitionDeleteMetadata,
)
from segstore.remote.tiered.custom_metadata import parse_custom_metadata
from segstore.remote.urls import is_url, shown_url

if TYPE_CHECKING:
    from collections.abc import Container, Sequence
    from uuid import UUID

    from segstore.log.unified_log import Log
    from segstore.remote.metadata.segment_metadata import RemoteLogMetadata
    from segstore.remote.tiered.object_key import ObjectKey

    Directories = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]

_NAME = re.compile(rf"{REMOTE_LOG_METADATA_TOPIC}-(?:0|[1-9][0-9]*)", re.ASCII)

_COPY_STARTED: Final = RemoteLogSegmentState.COPY_SEGMENT_STARTED
_COPY_FINISHED: Final = RemoteLogSegmentState.COPY_SEGMENT_FINISHED


class SegmentStates:
    """The last state of every copy, by the events in their order [RLM-1, RLM-4].

    As a broker does, it drops an update of a copy that is not known, and one that the state before
    does not allow [TIER-23, TIER-30]. It remembers what is deleted, which a broker forgets.
    """

    def __init__(self) -> None:
        self._copies: dict[UUID, RemoteLogSegmentMetadata] = {}
        self._of_partition: dict[tuple[UUID, int], set[UUID]] = {}
        self._deletions: dict[tuple[UUID, int], RemotePartitionDeleteMetadata] = {}

    def apply(self, event: RemoteLogMetadata) -> None:
        """Take the next event."""
        partition = event.topic_id_partition
        key = partition.topic_id, partition.topic_partition.partition
        if isinstance(event, RemotePartitionDeleteMetadata):
            self._deletions[key] = event
            return
        copy_id = event.segment_id.id
        before = self._copies.get(copy_id)
        if isinstance(event, RemoteLogSegmentMetadata):
            if event.state == _COPY_STARTED:
                self._copies[copy_id] = event
                self._of_partition.setdefault(key, set()).add(copy_id)
        elif before is not None and RemoteLogSegmentState.is_valid_transition(
            before.state, event.state
        ):
            self._copies[copy_id] = before.with_update(event)

    def copies(self, topic_id: UUID, partition: int) -> list[RemoteLogSegmentMetadata]:
        """Return the copies of a partition as they are now, in any state."""
        return [self._copies[one] for one in self._of_partition.get((topic_id, partition), ())]

    def why_not_read(self, key: ObjectKey, where: str) -> SegstoreError | None:
        """Return why a copy does not count, None for one that Kafka finished [RLM-4, SEL-13]."""
        place = key.folder.topic_id, key.partition
        copy, deletion = self._copies.get(key.segment_id), self._deletions.get(place)
        if deletion is not None:
            found = f"{deletion.state.name} for the whole partition"
        elif copy is not None:
            if copy.state == _COPY_FINISHED:
                return None
            found = copy.state.name
        elif place in self._of_partition:
            found = "no event of this segment"
        else:
            return IllegalArgumentError(
                f"{REMOTE_LOG_METADATA_TOPIC} as it was given has no event of this partition:"
                " another broker's log directory may hold them",
                file=where,
                found="no event",
                expected=_COPY_FINISHED.name,
            )
        return LogNotFoundError(
            f"{REMOTE_LOG_METADATA_TOPIC} does not say that the segment is finished: its records"
            " are not read",
            file=where,
            found=found,
            expected=_COPY_FINISHED.name,
        )

    def not_listed(
        self, topic_id: UUID, partition: int, listed: Container[UUID]
    ) -> list[tuple[RemoteLogSegmentMetadata, SegstoreError]]:
        """Return the finished copies that are not *listed*, each with the error."""
        if (topic_id, partition) in self._deletions:
            return []
        lost = (
            copy
            for copy in self.copies(topic_id, partition)
            if copy.state == _COPY_FINISHED and copy.segment_id.id not in listed
        )
        return [(copy, _not_there(copy)) for copy in lost]


def read_segment_states(directories: Directories) -> SegmentStates:
    """Replay the events of the topic.

    Parameters
    ----------
    directories : path, or sequence of paths
        Log directories of brokers, which hold ``__remote_log_metadata-<n>``, or such directories.
        All partitions of the topic are needed that have events of the partitions to be read. Of
        two copies of one partition the longer one is read. A broker may run.

    Raises
    ------
    LogNotFoundError
        A directory holds no partition of the topic.
    IllegalArgumentError
        It is a URL.
    CorruptLogError, UnsupportedFormatError
        A record is no event that is known; the error names directory and offset.
    """
    states = SegmentStates()
    with ExitStack() as stack:
        longest: dict[int, Log] = {}
        for path in _partition_directories(directories):
            log = stack.enter_context(open_log(path, read_only=True))
            number = log.topic_partition.partition
            if number not in longest or log.log_end_offset > longest[number].log_end_offset:
                longest[number] = log
        for number in sorted(longest):
            _replay(longest[number], states)
    return states


def _replay(log: Log, states: SegmentStates) -> None:
    for record in log.scan():
        try:
            states.apply(parse_event(record.value))
        except SegstoreError as error:
            error.message += f", in the record with offset {record.offset}"
            raise error.locate(log.path) from error.__cause__


def _partition_directories(directories: Directories) -> list[str]:
    given = [directories] if isinstance(directories, str | os.PathLike) else directories
    found: list[str] = []
    for each in given:
        path = os.fspath(each)
        if is_url(path):
            raise IllegalArgumentError(
                f"{REMOTE_LOG_METADATA_TOPIC} is read from directories of this machine: copy them",
                found=shown_url(path),
                expected="a broker's log directory",
            )
        directory = Path(path)
        parts = [directory] if _NAME.fullmatch(directory.resolve().name) else []
        if directory.is_dir() and not parts:
            parts = [one for one in directory.iterdir() if _NAME.fullmatch(one.name)]
        if not parts:
            raise LogNotFoundError(
                f"there is no partition of {REMOTE_LOG_METADATA_TOPIC}",
                file=path,
                found="no such directory",
                expected=f"{REMOTE_LOG_METADATA_TOPIC}-<n>, or a log directory that holds it",
            )
        found += map(str, parts)
    return found


def _not_there(copy: RemoteLogSegmentMetadata) -> SegstoreError:
    noted = ""
    if copy.custom_metadata is not None:
        with suppress(CorruptLogError):  # of another plug-in
            said = parse_custom_metadata(copy.custom_metadata)
            if said.main_key is not None:
                noted = f" with the key {said.key_prefix or ''}{said.main_key}"
    return CorruptLogError(
        f"{REMOTE_LOG_METADATA_TOPIC} says that the segment is finished, and the bucket does not"
        " hold it",
        found="no object",
        expected=f"three objects{noted}",
    ).lacks(copy.start_offset, copy.end_offset + 1)
