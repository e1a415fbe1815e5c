"""Files of an export: which offsets of which partition each holds, by name and footer.

``<topic>-<partition>-<from offset>-<until offset>.parquet``; offsets are 20 digits. A file is there
whole or not at all. Its key-value metadata repeats where it is from, and with which isolation. It
also says where the tables of the stored batches lie, between the row groups (`batch_table`), and
what the other files of the export hold.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from segstore.errors import CorruptLogError, ReadIOError
from segstore.log.files.partition_metadata_file import topic_id_text
from segstore.number_limits import MAX_LONG
from segstore.tables.offset_ranges import OffsetRange
from segstore.types import Isolation, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

COLUMNS: Final = (
    "topic",
    "partition",
    "offset",
    "timestamp",
    "timestampType",
    "leaderEpoch",
    "key",
    "value",
    "headers",
)
METADATA_KEY: Final = b"segstore"
PLAN_KEY: Final = b"segstore.export"
"""Of what else the export was to write: a JSON object, end offsets by partition of the topic."""
SUFFIX: Final = ".parquet"
MOST_SHOWN: Final = 100
"""So many bytes of what is damaged are in a message."""
MOST_NAMED: Final = 5
"""So many missing parts are named in a message."""

_MAGIC: Final = b"PAR1"
"""A Parquet file begins with it."""
_OFFSETS: Final = ("startOffset", "fromOffset", "untilOffset")
_NUMBERS: Final = frozenset({*_OFFSETS, "partition", "records"})
_TEXTS: Final = frozenset({"isolation", "topicId"})
_NAME: Final = re.compile(r"(?P<topic>.+)-(?P<partition>\d+)-(?P<from>\d{20})-(?P<until>\d{20})")


class ExportedFile(NamedTuple):
    """One file of an export."""

    path: str
    offsets: OffsetRange

    @property
    def partition(self) -> TopicPartition:
        """Whose records it holds."""
        return self.offsets.topic_partition


def require_pyarrow() -> None:
    """Raise ImportError, with what to install, where pyarrow is not there."""
    try:
        import pyarrow.parquet  # noqa: F401 - before anything is written
    except ImportError as error:
        message = "Parquet needs pyarrow: pip install 'segstore[arrow]'"
        raise ImportError(message) from error


def file_name_of(offsets: OffsetRange) -> str:
    """Return the name of the file that holds *offsets*."""
    partition = f"{offsets.topic}-{offsets.partition}"
    return f"{partition}-{offsets.from_offset:020d}-{offsets.until_offset:020d}{SUFFIX}"


def exported_files(folder: str) -> list[ExportedFile]:
    """Return the files of an export, by partition and offset; other files are passed over.

    A topic's name may begin with ``_`` or ``.``, so files with such names are data here. Spark and
    others pass over them in a folder. What macOS keeps as ``._NAME`` beside a file ``NAME`` is
    passed over.

    Raises
    ------
    CorruptLogError
        Two files hold the same offsets.
    ReadIOError
        A file cannot be read.
    """
    found = []
    for path in Path(folder).glob(f"*{SUFFIX}"):
        match = _NAME.fullmatch(path.name.removesuffix(SUFFIX))
        if match is not None and not _is_of_macos(path):
            numbers = int(match["partition"]), int(match["from"]), int(match["until"])
            found.append(ExportedFile(str(path), OffsetRange(match["topic"], *numbers)))
    found.sort(key=lambda one: (one.partition, one.offsets.from_offset, one.offsets.until_offset))
    for before, one in pairwise(found):
        overlap = one.offsets.from_offset < before.offsets.until_offset
        if before.partition == one.partition and overlap:
            raise CorruptLogError(
                f"offsets {one.offsets.from_offset} on are in {Path(before.path).name} too",
                file=one.path,
                found=f"a file from offset {one.offsets.from_offset} on",
                expected=f"one from {before.offsets.until_offset} on",
            )
    return found


def _is_of_macos(path: Path) -> bool:
    """Whether it has the attributes of the file beside it (AppleDouble), and no rows."""
    if not path.name.startswith("._") or not path.with_name(path.name[2:]).exists():
        return False
    try:
        with path.open("rb") as file:
            return file.read(len(_MAGIC)) != _MAGIC
    except OSError as error:
        raise unreadable_file(str(path), error) from error


def check_no_gaps(files: Iterable[ExportedFile]) -> None:
    """Refuse files of one partition, ascending, between which offsets are in none.

    Compaction leaves gaps inside of files only: a name says which offsets the file stands for.

    Raises
    ------
    CorruptLogError
        Behind one file the next does not go on: the export is not finished, or a file is lost.
    """
    for before, one in pairwise(files):
        end, start = before.offsets.until_offset, one.offsets.from_offset
        if end != start:
            raise CorruptLogError(
                f"offsets {end} to {start - 1} are in no file after {Path(before.path).name}: "
                "finish the export, or allow gaps",
                file=one.path,
                found=f"a file from offset {start} on",
                expected=f"one from {end} on",
            )


def what_is_missing(wanted: OffsetRange, there: Iterable[OffsetRange]) -> list[OffsetRange]:
    """Return the parts of *wanted* that none of *there*, ascending, holds."""
    missing, start = [], wanted.from_offset
    for one in there:
        end = min(one.from_offset, wanted.until_offset)
        if start < end:
            missing.append(replace(wanted, from_offset=start, until_offset=end))
        start = max(start, one.until_offset)
    if start < wanted.until_offset:
        missing.append(replace(wanted, from_offset=start))
    return missing


def isolation_in_files(isolation: Isolation) -> str:
    """Return the word of a file for *isolation*: Spark has no other for the log end."""
    return str(Isolation.READ_UNCOMMITTED if isolation is Isolation.LOG_END else isolation)


def origin_metadata(
    offsets: OffsetRange, isolation: str, planned: Sequence[OffsetRange], **more: Any
) -> dict[bytes, bytes]:
    """Return the metadata of a file.

    Parameters
    ----------
    offsets : OffsetRange
        What it holds.
    isolation : str
        Of the export.
    planned : sequence of OffsetRange
        What the export is to hold when it is finished, of each partition of the topic. An import
        misses a part by that.
    **more
        What else the file says.
    """
    begins = {one.partition: one.from_offset for one in planned}
    origin = {
        "topic": offsets.topic,
        "partition": offsets.partition,
        "fromOffset": offsets.from_offset,
        "untilOffset": offsets.until_offset,
        "startOffset": begins.get(offsets.partition, offsets.from_offset),
        "isolation": isolation,
        "topicId": None if offsets.topic_id is None else topic_id_text(offsets.topic_id),
        **more,
    }
    ends = {one.partition: one.until_offset for one in planned}
    return {METADATA_KEY: json.dumps(origin).encode(), PLAN_KEY: json.dumps(ends).encode()}


def check_is_whole(folder: str, files: Sequence[ExportedFile]) -> None:
    """Refuse files that lack a part of what their export was to hold.

    Files of other programs, or of versions that did not say it, are taken as they are. One that
    cannot be read is an error of its import.

    Parameters
    ----------
    files : sequence of ExportedFile
        All of *folder*, ascending.

    Raises
    ------
    CorruptLogError
        A partition, or the beginning or end of one, is in no file: the export was interrupted, or a
        file is lost. Or what a file says of that is damaged.
    """
    starts: dict[TopicPartition, int] = {}
    plans: dict[tuple[str, bytes], str] = {}
    for one in files:
        metadata = _metadata_of(one.path)
        origin = parsed_origin(one.path, metadata.get(METADATA_KEY, b"{}"))
        if "startOffset" in origin and PLAN_KEY in metadata:
            starts[one.partition] = max(origin["startOffset"], starts.get(one.partition, 0))
            plans.setdefault((one.offsets.topic, metadata[PLAN_KEY]), one.path)
    ends: dict[TopicPartition, int] = {}
    for (topic, plan), path in plans.items():
        for number, end in _plan_of(path, plan).items():
            partition = TopicPartition(topic, number)
            ends[partition] = max(end, ends.get(partition, 0))
    there: dict[TopicPartition, list[OffsetRange]] = {}
    for one in files:
        there.setdefault(one.partition, []).append(one.offsets)
    missing = []
    for partition, end in sorted(ends.items()):
        own = there.get(partition)
        if own is None:
            missing.append(f"{partition}")
            continue
        start = starts.get(partition, own[0].from_offset)
        outside = OffsetRange(*partition, min(start, end), end)
        missing += [
            f"{partition} from offset {lack.from_offset} to {lack.until_offset - 1}"
            for lack in what_is_missing(outside, own)
        ]
    if missing:
        more = f" and {len(missing) - MOST_NAMED} more" if len(missing) > MOST_NAMED else ""
        raise CorruptLogError(
            "the export is not whole: run it again into this folder, or allow gaps to import what "
            "is there",
            file=folder,
            found=f"no file of {', '.join(missing[:MOST_NAMED])}{more}",
            expected="all that the export was to hold",
        )


def _plan_of(path: str, text: bytes) -> dict[int, int]:
    """Return the end offsets, by partition, of the export that *path* is of."""
    try:
        plan = {int(number): end for number, end in json.loads(text).items()}
        if not all(map(_is_whole_number, plan.values())):
            raise ValueError("an end offset is no whole number")  # noqa: TRY301 - as the others
    except (ValueError, AttributeError, RecursionError) as error:
        raise CorruptLogError(
            f"what the file says of the other files of its export is damaged: {error}. Export the "
            "records again, or allow gaps",
            file=path,
            found=repr(text[:MOST_SHOWN]),
            expected="a JSON object of end offsets by partition",
        ) from error
    return plan


def _metadata_of(path: str) -> dict[bytes, bytes]:
    """Return the key-value metadata of a file; empty where it is none of Parquet."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return pq.read_metadata(path).metadata or {}
    except (pa.ArrowException, OSError):
        return {}


def origin_of(path: str) -> dict[str, Any]:
    """Return what the metadata of a file say; raises CorruptLogError where it is of no export."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        metadata = pq.read_metadata(path).metadata or {}
    except (pa.ArrowException, OSError) as error:
        raise unreadable_file(path, error) from error
    if METADATA_KEY not in metadata:
        raise CorruptLogError(
            "the file has the name of an export's, and no export wrote it: move it elsewhere",
            file=path,
            found=f"no metadata {METADATA_KEY.decode()!r}",
            expected="Parquet with the metadata of an export",
        )
    return parsed_origin(path, metadata[METADATA_KEY])


def parsed_origin(path: str, text: bytes) -> dict[str, Any]:
    """Return what the metadata of a file say, of which each number is a whole one.

    Raises
    ------
    CorruptLogError
        They are damaged.
    """
    try:
        origin = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise damaged_file(path, f"its metadata are damaged: {error}") from error
    if not isinstance(origin, dict):
        raise damaged_file(path, "its metadata are damaged: they are no JSON object")
    for name in _NUMBERS & origin.keys():
        # a file alone may be of no known partition, -1
        if not _is_whole_number(origin[name]) and (name, origin[name]) != ("partition", -1):
            raise damaged_file(
                path, f"its metadata are damaged: {name} {origin[name]!r}", "a whole number"
            )
    for name in _TEXTS & origin.keys():
        if not isinstance(origin[name], str | None):
            raise damaged_file(path, f"its metadata are damaged: {name} {origin[name]!r}", "a text")
    first, end = origin.get("fromOffset", 0), origin.get("untilOffset", MAX_LONG)
    if not origin.get("startOffset", first) <= first <= end:
        raise damaged_file(
            path,
            "its metadata are damaged: "
            + ", ".join(f"{name} {origin[name]}" for name in _OFFSETS if name in origin),
            "offsets that ascend",
        )
    return origin


def _is_whole_number(value: Any) -> bool:
    return type(value) is int and 0 <= value <= MAX_LONG


def unreadable_file(path: str, error: Exception) -> CorruptLogError | ReadIOError:
    """Return the error of a file that pyarrow cannot read.

    What the file system refuses is no damage [DUR-33]; pyarrow gives a number then.
    """
    said = str(error).partition("\n")[0].rstrip(". ")
    if isinstance(error, OSError) and error.errno is not None:
        message = f"the Parquet file cannot be read: {said}"
        return ReadIOError(message, file=path, os_error=error.errno)
    return CorruptLogError(
        "the file is damaged, or is no Parquet file: export the records again",
        file=path,
        found=f"what pyarrow refuses ({said})",
        expected="a whole Parquet file",
    )


def damaged_file(
    path: str, found: str, expected: str = "a whole file of an export"
) -> CorruptLogError:
    """Return the error of a file that cannot be used."""
    return CorruptLogError(
        "the Parquet file cannot be used: export the records again",
        file=path,
        found=found,
        expected=expected,
    )
