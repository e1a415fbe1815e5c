"""The small text files beside a log, their names and formats: checkpoints, ``.segstore``, marks.

Source: [format.md 15, DUR-21].

Reading is strict and bounded [DUR-97]; what cannot be read raises `CorruptCheckpointError`, and the
caller decides what a missing value means. Writing is always name, ``.tmp``, fsync, rename, fsync.
"""

from __future__ import annotations

import base64
import re
import uuid
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from segstore._core import FileBarrier, crc32c
from segstore.errors import (
    CorruptCheckpointError,
    LimitExceededError,
    NotALogError,
    ReadIOError,
    SegstoreError,
)
from segstore.log.files.parsed_file import parse_once, read_parsed
from segstore.number_limits import MAX_INT, MAX_LONG
from segstore.types import EpochEntry, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from segstore._core import Directory

LEADER_EPOCH_CHECKPOINT: Final = "leader-epoch-checkpoint"
RECOVERY_POINT_CHECKPOINT: Final = "recovery-point-offset-checkpoint"
LOG_START_OFFSET_CHECKPOINT: Final = "log-start-offset-checkpoint"
HIGH_WATERMARK_CHECKPOINT: Final = "replication-offset-checkpoint"
CLEANER_OFFSET_CHECKPOINT: Final = "cleaner-offset-checkpoint"
PARTITION_METADATA: Final = "partition.metadata"
CLEAN_SHUTDOWN_MARKER: Final = ".kafka_cleanshutdown"
LOG_STATE: Final = ".segstore"
MISSING_RECORDS: Final = ".segstore.missing"
"""Ranges of offsets whose records are known to be missing: `missing_records_file`."""
SYNC_FAILED_MARK: Final = ".segstore.sync-failed"
"""Left by the core when a sync of a ``.log`` failed: the page cache may be ahead of the disk."""
IMPORT_MARKER: Final = ".segstore.importing"
"""An import of the log is not finished: it may lack records, or other logs of its topic may."""
RESTART_MARKER: Final = ".segstore.begins-anew"
"""The log start lies above the end: an open was interrupted while it quarantined the whole log.

It has the log start, and names the files: `segstore.log.recovery.restart_marker`.
"""
UNREADABLE: Final = (CorruptCheckpointError, NotALogError, LimitExceededError)
"""What may be said of a checkpoint; other errors are of the disk, and say nothing of it."""
UNREADABLE_TO_READERS: Final = (*UNREADABLE, ReadIOError)
"""What a reader takes for a missing file: it replaces none, and shows what it can [DUR-33]."""
LOCK: Final = ".lock"
META_PROPERTIES: Final = "meta.properties"

TEMPORARY_FILES: Final = frozenset(
    f"{name}.tmp"
    for name in (
        LEADER_EPOCH_CHECKPOINT,
        RECOVERY_POINT_CHECKPOINT,
        LOG_START_OFFSET_CHECKPOINT,
        PARTITION_METADATA,
        CLEAN_SHUTDOWN_MARKER,
        LOG_STATE,
        MISSING_RECORDS,
        RESTART_MARKER,
    )
)
"""What a crash between write and rename leaves behind."""

MAX_CHECKPOINT_BYTES: Final = 64 * 1024 * 1024
MAX_LINE_LENGTH: Final = 282  # topic 249, partition 10, offset 20 characters, and what parts them
MAX_MARKER_BYTES: Final = 65536

_INTEGER = re.compile(r"[+-]?[0-9]{1,20}", re.ASCII)
_LINE_END = re.compile(r"\r\n|\r|\n")
_BLANKS = re.compile(r"[ \t\x0b\f]+")
_TOPIC_ID_CHARACTERS: Final = 22
_TOPIC_ID: Final = re.compile(rf"[A-Za-z0-9_-]{{{_TOPIC_ID_CHARACTERS}}}(?:==)?")
_METADATA_LINE = re.compile(r"(.*?):\s+(.*)")


# ---- checkpoints: version, count, one entry a line -----------------------------------------------


def parse_checkpoint(data: bytes, fields: int, name: str) -> list[list[str]]:
    """Return the entries of a checkpoint file, each split into *fields* words.

    Raises
    ------
    CorruptCheckpointError
        Where Kafka's reader refuses the content, and for lines longer than any it writes.
    """
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise CorruptCheckpointError(
            "is not UTF-8",
            file=name,
            position=error.start,
            found=f"byte 0x{data[error.start]:02x}",
            expected="text",
        ) from None
    lines = enumerate(_lines_of(text), start=1)
    number, line = next(lines, (0, "0"))
    if _integer(line, name, number, MAX_INT) != 0:
        raise _malformed(name, number, line, "version 0")
    number, line = next(lines, (0, "0"))
    count = _integer(line, name, number, MAX_INT)
    entries: list[list[str]] = []
    for number, entry in lines:
        if len(entries) == count:
            raise _malformed(name, number, entry, f"the end, after {count} entries")
        words = _BLANKS.split(entry[: MAX_LINE_LENGTH + 1])
        while words and words[-1] == "":
            words.pop()
        if len(entry) > MAX_LINE_LENGTH or len(words) != fields:
            raise _malformed(name, number, entry, f"{fields} words")
        entries.append(words)
    if len(entries) != count:
        raise _malformed(name, 2, line, f"{len(entries)}, the number of entries that follow")
    return entries


def _lines_of(text: str) -> Iterator[str]:
    """Yield the lines one by one: a file of line ends alone would be a list of millions."""
    start = 0
    for end in _LINE_END.finditer(text):
        yield text[start : end.start()]
        start = end.end()
    if start < len(text):
        yield text[start:]


def _integer(word: str, name: str, line: int, largest: int) -> int:
    if not _INTEGER.fullmatch(word) or not -largest - 1 <= (value := int(word)) <= largest:
        raise _malformed(name, line, word, f"an integer up to {largest}")
    return value


def _malformed(name: str, line: int, found: str, expected: str) -> CorruptCheckpointError:
    return CorruptCheckpointError(
        f"line {line} is {found[:80]!r}, not {expected}",
        file=name,
        found=repr(found[:80]),
        expected=expected,
    )


def parse_offset_checkpoint(
    data: bytes, name: str = RECOVERY_POINT_CHECKPOINT
) -> dict[TopicPartition, int]:
    """Return the offsets of a checkpoint with lines ``topic partition offset``; the last wins."""
    offsets = {}
    for number, (topic, partition, offset) in enumerate(parse_checkpoint(data, 3, name), start=3):
        topic_partition = TopicPartition(topic, _integer(partition, name, number, MAX_INT))
        offsets[topic_partition] = _integer(offset, name, number, MAX_LONG)
    return offsets


def parse_whole_offset_checkpoint(data: bytes, name: str) -> dict[TopicPartition, int]:
    """Do as `parse_offset_checkpoint`, and refuse what was cut in its last line [DUR-21].

    Kafka ends each line with a newline; its reader takes what is left of a number for all of it.

    Raises
    ------
    CorruptCheckpointError
        It cannot be read as a checkpoint, or the last line has no newline.
    """
    if data and not data.endswith(b"\n"):
        raise CorruptCheckpointError(
            "is cut short",
            file=name,
            position=len(data),
            found=repr(data[-20:]),
            expected="a newline at the end of each line",
        )
    return parse_offset_checkpoint(data, name)


def format_offset_checkpoint(offsets: Mapping[TopicPartition, int]) -> bytes:
    """Return the text of a checkpoint with lines ``topic partition offset``."""
    lines = [f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items()]
    return "".join(f"{line}\n" for line in ["0", str(len(lines)), *lines]).encode()


def parse_leader_epoch_checkpoint(data: bytes) -> list[EpochEntry]:
    """Return the entries of ``leader-epoch-checkpoint`` in file order [EPC-11]."""
    name = LEADER_EPOCH_CHECKPOINT
    return [
        EpochEntry(_integer(epoch, name, number, MAX_INT), _integer(start, name, number, MAX_LONG))
        for number, (epoch, start) in enumerate(parse_checkpoint(data, 2, name), start=3)
    ]


def format_leader_epoch_checkpoint(entries: Iterable[EpochEntry]) -> bytes:
    """Return the text of ``leader-epoch-checkpoint``."""
    lines = [f"{epoch} {start}" for epoch, start in entries]
    return "".join(f"{line}\n" for line in ["0", str(len(lines)), *lines]).encode()


def read_offset_checkpoint(directory: Directory, name: str) -> Mapping[TopicPartition, int] | None:
    """Return the lines of checkpoint *name*, None where there is none; never change them.

    A large one, of a log directory with many logs, is parsed again only after a change.

    Raises
    ------
    CorruptCheckpointError
        The file cannot be read as a checkpoint.
    """
    return read_parsed(
        directory, name, partial(parse_whole_offset_checkpoint, name=name), MAX_CHECKPOINT_BYTES
    )


def require_unreadable(directory: Directory, name: str, error: SegstoreError) -> None:
    """Raise *error* where it says of a file that it is none: another open may read it."""
    if isinstance(error, NotALogError) and directory.info(name).is_regular:
        raise error


def read_offset(directory: Directory, name: str, topic_partition: TopicPartition) -> int | None:
    """Return the offset that checkpoint *name* of *directory* has for a partition.

    None without one.

    Raises
    ------
    CorruptCheckpointError
        The file cannot be read as a checkpoint, or the offset is negative.
    """
    return checked_offset(read_offset_checkpoint(directory, name), name, topic_partition)


def checked_offset(
    offsets: Mapping[TopicPartition, int] | None, name: str, topic_partition: TopicPartition
) -> int | None:
    """Return the offset that the lines of checkpoint *name* have for a partition, None without one.

    Raises
    ------
    CorruptCheckpointError
        It is negative.
    """
    offset = None if offsets is None else offsets.get(topic_partition)
    if offset is not None and offset < 0:
        raise CorruptCheckpointError(
            f"has the offset {offset} for {topic_partition}",
            file=name,
            found=str(offset),
            expected="0 or more",
        )
    return offset


def write_offset(
    directory: Directory, name: str, topic_partition: TopicPartition, offset: int
) -> None:
    """Write checkpoint *name* with one partition's offset [DUR-21]."""
    is_log_start = name == LOG_START_OFFSET_CHECKPOINT
    barrier = FileBarrier.LOG_START if is_log_start else FileBarrier.RECOVERY_POINT
    content = format_offset_checkpoint({topic_partition: offset})
    directory.write_file_atomically(name, content, barrier)


# ---- partition.metadata --------------------------------------------------------------------------


def parse_partition_metadata(data: bytes) -> uuid.UUID:
    """Return the topic id of ``partition.metadata`` [UNI-5].

    Raises
    ------
    CorruptCheckpointError
        Fewer than two lines, a negative version, or no id.
    """
    lines = _LINE_END.split(data.decode("utf-8", errors="replace"))
    pairs = [_METADATA_LINE.fullmatch(line) for line in lines[:2]]
    if len(pairs) < 2 or pairs[0] is None or pairs[1] is None:  # noqa: PLR2004 - version, topic_id
        raise _malformed(PARTITION_METADATA, 1, lines[0], "version and topic_id")
    if _integer(pairs[0][2], PARTITION_METADATA, 1, MAX_INT) < 0:
        raise _malformed(PARTITION_METADATA, 1, lines[0], "a version from 0 on")
    word = pairs[1][2]
    if _TOPIC_ID.fullmatch(word) is None:  # Python's decoder skips what is no base64
        raise _malformed(PARTITION_METADATA, 2, lines[1], "a uuid in base64")
    topic_id = uuid.UUID(bytes=base64.urlsafe_b64decode(f"{word[:_TOPIC_ID_CHARACTERS]}=="))
    if topic_id.int == 0:
        raise _malformed(PARTITION_METADATA, 2, lines[1], "a topic id other than zero")
    return topic_id


def read_topic_id(directory: Directory) -> uuid.UUID | None:
    """Return the topic id of a partition directory, None without ``partition.metadata``.

    Raises
    ------
    CorruptCheckpointError
        The file is too large for one, or cannot be read as one.
    """
    if not directory.exists(PARTITION_METADATA):
        return None
    try:
        data = directory.read_file(PARTITION_METADATA, MAX_MARKER_BYTES)
        return parse_once(parse_partition_metadata, data)
    except CorruptCheckpointError as error:
        error.file = f"{directory.path}/{PARTITION_METADATA}"
        raise
    except LimitExceededError as error:
        raise CorruptCheckpointError(
            error.message, file=error.file, found=error.found, expected=error.expected
        ) from None


# ---- .segstore: what recovery may count on [DUR-64] ----------------------------------------------


_LOG_STATE_WORDS: Final = {
    *("version", "contiguous_from", "epochs_ordered_from", "latest_epoch", "epoch_before"),
    *("local_log_start_offset", "being_emptied", "cleaned", "generation"),
    "transaction_index",  # what earlier versions noted of such files: they are asked no more
}


def _may_be_left(
    entries: Sequence[EpochEntry],
    latest: EpochEntry | None,
    log_start_offset: int,
    log_end_offset: int,
) -> bool:
    """Whether batches of these epochs may be what is left of a log that ended in *latest*."""
    if latest is None or not entries:
        return not entries and (latest is None or log_end_offset <= latest.start_offset)
    *earlier, last = entries
    if any(one.epoch >= latest.epoch or one.start_offset >= latest.start_offset for one in earlier):
        return False
    if last.epoch == latest.epoch:
        return latest.start_offset <= max(log_start_offset, last.start_offset)
    return last.epoch < latest.epoch and log_end_offset <= latest.start_offset


class CleanedPart(NamedTuple):
    """Up to where the cleaner has cleaned a log [CLN-120].

    Attributes
    ----------
    offset : int
        Below it each key has one record at most.
    fingerprint : int
        Of the topic id and the segments below: others make it void [DUR-126].
    """

    offset: int
    fingerprint: int


@dataclass(frozen=True, slots=True)
class LogState:
    """From which offsets on the log is contiguous and its epochs ascend, as this library wrote it.

    ``latest_epoch`` ties the file to the log: a broker that wrote here in between has raised the
    leader epoch, and then nothing of this holds any more. The file is written before the
    leader-epoch checkpoint: ``epochs_before`` are what that may still say after a crash between.
    """

    contiguous_from: int
    epochs_ordered_from: int
    latest_epoch: EpochEntry | None
    epochs_before: tuple[EpochEntry | None, ...] = ()
    local_log_start_offset: int = 0
    """What lies below it went while remote storage has it: its segments may be there in part."""
    is_being_emptied: bool = False
    """A full truncation takes every ``.log`` away before it makes the new one [DUR-18]."""
    cleaned: CleanedPart | None = None
    """None = nothing of the log is known to be clean."""
    generation: int = 0
    """Another one after each truncation, and odd while one is under way [DUR-77]."""

    @property
    def generation_at_rest(self) -> int:
        """What it is when no truncation is under way any more."""
        return self.generation + self.generation % 2

    def fits(self, latest: EpochEntry | None) -> bool:
        """Whether a leader-epoch checkpoint that ends so is that of who wrote this."""
        return latest == self.latest_epoch or latest in self.epochs_before

    def may_have_left(
        self, entries: Sequence[EpochEntry], log_start_offset: int, log_end_offset: int
    ) -> bool:
        """Whether batches of these epochs may be what is left of a log whose writer wrote this.

        A crash takes batches away. A broker that wrote here in between has raised the leader epoch,
        or, as a follower, has put other batches where the latest epoch had begun. Where that begins
        with the log, a deletion has moved it [EPC-6]: its first batch may lie below. Between the
        latest epoch and the one before there is none of this writer.
        """
        latest = self.latest_epoch
        for before in self.epochs_before:
            if before is None or latest is None:
                continue
            if any(before.epoch < one.epoch < latest.epoch for one in entries):
                return False
        known = (latest, *self.epochs_before)
        ends = (log_start_offset, log_end_offset)
        return any(_may_be_left(entries, entry, *ends) for entry in known)

    def format(self) -> bytes:
        """Return the file's text, a word and its numbers a line."""
        lines = [
            "version 0",
            f"contiguous_from {self.contiguous_from}",
            f"epochs_ordered_from {self.epochs_ordered_from}",
        ]
        if self.latest_epoch is not None:
            lines.append(f"latest_epoch {self.latest_epoch.epoch} {self.latest_epoch.start_offset}")
        lines += [
            "epoch_before" if entry is None else f"epoch_before {entry.epoch} {entry.start_offset}"
            for entry in self.epochs_before
        ]
        if self.local_log_start_offset:
            lines.append(f"local_log_start_offset {self.local_log_start_offset}")
        if self.is_being_emptied:
            lines.append("being_emptied")
        if self.cleaned is not None:
            lines.append(f"cleaned {self.cleaned.offset} {self.cleaned.fingerprint}")
        if self.generation:
            lines.append(f"generation {self.generation}")
        text = "".join(f"{line}\n" for line in lines).encode()
        return b"%scrc %d\n" % (text, crc32c(text))

    @classmethod
    def read(cls, directory: Directory, *, is_for_writing: bool = True) -> LogState | None:
        """Read the file of a partition directory, None where there is none that can be used.

        Raises
        ------
        NotALogError, ReadIOError
            *is_for_writing*, and the disk does not give out the file, or it is none.
        """
        if not directory.exists(LOG_STATE):
            return None
        unusable = (LimitExceededError,) if is_for_writing else UNREADABLE_TO_READERS
        try:
            data = directory.read_file(LOG_STATE, MAX_CHECKPOINT_BYTES)
        except unusable:
            return None
        return parse_once(cls.parse, data)

    @classmethod
    def parse(cls, data: bytes) -> LogState | None:
        """Read the file, None when it is not what was written: a flipped bit would hide a loss.

        The last line has the CRC-32C of those before; without it the file is of an older version.
        """
        text, found, crc = data.rpartition(b"crc ")
        if not data.endswith(b"\n") or (found and crc != b"%d\n" % crc32c(text)):
            return None
        words: dict[str, list[int]] = {}
        for line in (text or data).decode("ascii", errors="replace").splitlines():
            key, *numbers = line.split(" ")
            if key not in _LOG_STATE_WORDS or not all(map(_INTEGER.fullmatch, numbers)):
                return None
            words[key] = [int(number) for number in numbers]
        latest = words.get("latest_epoch")
        try:
            if words["version"] != [0]:
                return None
            (contiguous_from,) = words["contiguous_from"]
            (epochs_ordered_from,) = words["epochs_ordered_from"]
            latest_epoch = None if latest is None else EpochEntry(latest[0], latest[1])
            (local_log_start_offset,) = words.get("local_log_start_offset", [0])
            (generation,) = words.get("generation", [0])
            before = words.get("epoch_before")
            epochs_before = () if before is None else (EpochEntry(*before) if before else None,)
            cleaned = CleanedPart(*words["cleaned"]) if "cleaned" in words else None
        except (KeyError, ValueError, IndexError, TypeError):
            return None
        return cls(
            contiguous_from,
            epochs_ordered_from,
            latest_epoch,
            epochs_before,
            local_log_start_offset,
            "being_emptied" in words,
            cleaned,
            generation,
        )
