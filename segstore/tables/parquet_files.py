"""Files of an export: which offsets of which partition each holds, by name and footer.

``<topic>-<partition>-<from offset>-<until offset>.parquet``; offsets are 20 digits. A file is there
whole or not at all. Its key-value metadata repeats where it is from, and with which isolation. It
also says where the tables of the stored batches lie, between the row groups (`batch_table`).
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from segstore.errors import CorruptLogError
from segstore.log.files.partition_metadata_file import topic_id_text
from segstore.tables.offset_ranges import OffsetRange
from segstore.types import Isolation

if TYPE_CHECKING:
    from collections.abc import Iterable

    from segstore.types import TopicPartition

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
SUFFIX: Final = ".parquet"

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

    Raises
    ------
    CorruptLogError
        Two files hold the same offsets.
    """
    found = []
    for path in Path(folder).glob(f"*{SUFFIX}"):
        match = _NAME.fullmatch(path.name.removesuffix(SUFFIX))
        if match is not None and not path.name.startswith((".", "_")):
            numbers = int(match["partition"]), int(match["from"]), int(match["until"])
            found.append(ExportedFile(str(path), OffsetRange(match["topic"], *numbers)))
    found.sort(key=lambda one: (one.partition, one.offsets.from_offset))
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


def origin_metadata(offsets: OffsetRange, isolation: str, **more: Any) -> dict[bytes, bytes]:
    """Return the metadata of a file; *more* is what else it says."""
    origin = {
        "topic": offsets.topic,
        "partition": offsets.partition,
        "fromOffset": offsets.from_offset,
        "untilOffset": offsets.until_offset,
        "isolation": isolation,
        "topicId": None if offsets.topic_id is None else topic_id_text(offsets.topic_id),
        **more,
    }
    return {METADATA_KEY: json.dumps(origin).encode()}


def origin_of(path: str) -> dict[str, Any]:
    """Return what the metadata of a file says.

    Raises
    ------
    CorruptLogError
        It is no file of an export.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        metadata = pq.read_metadata(path).metadata or {}
        origin: dict[str, Any] = json.loads(metadata[METADATA_KEY])
    except (pa.ArrowException, OSError, KeyError, ValueError) as error:
        raise CorruptLogError(
            f"this is no file of an export: {error}",
            file=path,
            found="another file",
            expected="Parquet with the metadata of an export",
        ) from error
    return origin
