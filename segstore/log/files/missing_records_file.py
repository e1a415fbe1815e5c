"""``.segstore.missing``: ranges of offsets whose records are known to be missing [DUR-7, DUR-64].

An index that names records which its ``.log`` does not have proves that they are missing. The
ranges are written here before such an index is built again, so that every later check still
reports them. A range counts only where the log has a gap; see `segstore.log.local.missing_records`.

The file is text in ASCII, one item a line. docs/formats.md describes it::

    version 0
    missing 479 615 3
    crc 1476316798

The records from offset 479 to 614 are missing, and the batch before them has the leader epoch 3.
Where that batch has a later epoch now, another leader has written it again, and what lies behind
it too: the range does not count any more. The last line has the CRC-32C of all bytes before
it. A broker, and earlier versions of this library, do not look at the file.

A damaged file is kept under another name when the next ranges are noted (`kept_aside`): which
ranges it had is lost, and every later open, check and salvage reports that.
"""

from __future__ import annotations

import re
from functools import reduce
from typing import TYPE_CHECKING, Final

from segstore._core import Barrier, FileBarrier, crc32c
from segstore.errors import (
    LimitExceededError,
    LogPermissionError,
    NotALogError,
    ReadIOError,
)
from segstore.log.files.checkpoints import MISSING_RECORDS
from segstore.log.files.kept_aside import keep_aside, kept_aside
from segstore.log.files.prepared_file import PreparedFile
from segstore.number_limits import MAX_LONG

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from segstore._core import Directory

    Range = tuple[int, ...]
    """First offset, the one behind the last and, where known, the leader epoch before them."""

MAX_RANGES: Final = 1000
"""Of more the last ones become one range; gaps of the log decide what of it is missing."""
_MAX_BYTES: Final = 65536
_LINE: Final = re.compile(rb"missing ([0-9]{1,19}) ([0-9]{1,19})(?: (-1|[0-9]{1,10}))?", re.ASCII)
_FIRST_LINE: Final = b"version 0"


def format_ranges(ranges: Iterable[Range]) -> bytes:
    """Return the file's bytes."""
    lines = [_FIRST_LINE, *(b"missing %b" % _text(one) for one in ranges), b""]
    text = b"\n".join(lines)
    return b"%scrc %d\n" % (text, crc32c(text))


def parse_ranges(data: bytes) -> list[Range] | None:
    """Return the ranges, ascending; None when the file is not what was written."""
    text, found, crc = data.rpartition(b"crc ")
    if not found or crc != b"%d\n" % crc32c(text):
        return None
    lines = text.splitlines()
    matches = [_LINE.fullmatch(line) for line in lines[1:]]
    if lines[:1] != [_FIRST_LINE] or len(matches) > MAX_RANGES:
        return None
    groups = [match.groups() for match in matches if match is not None]
    ranges = [tuple(int(number) for number in found if number is not None) for found in groups]
    if len(ranges) != len(matches) or not all(one[0] < one[1] <= MAX_LONG for one in ranges):
        return None
    return ranges


def read_ranges(directory: Directory) -> list[Range] | None:
    """Return what is noted for a partition; None when the file is not what was written.

    What the disk does not give out is an error: then nothing shows whether a gap lost records.
    """
    if not directory.exists(MISSING_RECORDS):
        return []
    try:
        return parse_ranges(directory.read_file(MISSING_RECORDS, _MAX_BYTES))
    except LimitExceededError:
        return None


def damaged_notes(directory: Directory, names: Iterable[str]) -> list[str]:
    """Return the names of damaged notes among *names*: the one that counts, and those kept aside.

    Raises
    ------
    SegstoreError
        As `read_ranges`.
    """
    damaged = [name for name in kept_aside(names) if name.startswith(MISSING_RECORDS)]
    return damaged if read_ranges(directory) is not None else [MISSING_RECORDS, *damaged]


def note_warnings(directory: Directory, names: Collection[str]) -> list[str]:
    """Return what an open says of notes that cannot be used; *names* are those in *directory*."""
    notes = [name for name in names if name.startswith(MISSING_RECORDS)]
    if not notes:
        return []
    try:
        damaged = damaged_notes(directory, notes)
    except (NotALogError, ReadIOError, LogPermissionError) as error:
        return [f"{MISSING_RECORDS} cannot be read: {error}"]
    ways_out = {MISSING_RECORDS: "restore it from a copy"}
    return [
        f"{name} is damaged: which records it listed as missing is unknown, and a gap may be one"
        f" of these; {ways_out.get(name, 'compare the log with another replica, then remove it')}"
        for name in damaged
    ]


def note_ranges(directory: Directory, ranges: Iterable[Range]) -> None:
    """Add *ranges* to what is noted, durably; nothing is written when they are all there.

    A damaged file keeps its bytes under another name.
    """
    before = read_ranges(directory)
    noted = _united([*(before or []), *ranges])
    if noted == before or not noted:
        return
    if before is None:
        keep_aside(directory, MISSING_RECORDS)
        directory.sync(Barrier.RECOVERY_SET_ASIDE)
    _write(directory, noted)


def prepare_forgetting(directory: Directory, offset: int) -> PreparedFile | None:
    """Write the file as `forget_ranges_from` will leave it, beside the one that counts.

    None where no content is to be written: nothing changes, or the file will be removed.
    """
    before, left = _cut(directory, offset)
    if not left or left == before:
        return None
    return PreparedFile(directory, MISSING_RECORDS, format_ranges(left), FileBarrier.LOG_STATE)


def forget_ranges_from(
    directory: Directory, offset: int, prepared: PreparedFile | None = None
) -> None:
    """Take out all from *offset* on, durably, after the records around it were removed.

    *prepared* is what `prepare_forgetting` returned: a full disk cannot refuse it any more.
    """
    if prepared is not None:
        prepared.publish()
        return
    before, left = _cut(directory, offset)
    if left != before:
        _write(directory, left)


def _cut(directory: Directory, offset: int) -> tuple[list[Range], list[Range]]:
    """Return what is noted, and what of it lies below *offset*."""
    before = read_ranges(directory) or []
    left = [(one[0], min(one[1], offset), *one[2:]) for one in before if one[0] < offset]
    return before, left


def _write(directory: Directory, ranges: list[Range]) -> None:
    if ranges:
        directory.write_file_atomically(
            MISSING_RECORDS, format_ranges(ranges), FileBarrier.LOG_STATE
        )
    else:
        directory.unlink(MISSING_RECORDS, missing_ok=True)
        directory.sync(Barrier.LEFTOVERS_GONE)


def _united(ranges: list[Range]) -> list[Range]:
    """Return *ranges* ascending; those that touch are one, and no more than `MAX_RANGES`."""
    united: list[Range] = []
    for one in sorted(map(tuple, ranges)):
        if united and one[0] <= united[-1][1]:
            united[-1] = _joined(united[-1], one)
        else:
            united.append(one)
    kept, rest = united[: MAX_RANGES - 1], united[MAX_RANGES - 1 :]
    return [*kept, reduce(_joined, rest)] if rest else kept


def _joined(one: Range, other: Range) -> Range:
    """Return one range for two, with the later epoch: it counts as long as one of them does."""
    epoch = max(one[2:], other[2:]) if one[2:] and other[2:] else ()
    return (one[0], max(one[1], other[1]), *epoch)


def _text(numbers: Range) -> bytes:
    return b" ".join(b"%d" % number for number in numbers)
