"""The marker file of an open that quarantines a whole log: its log start is above its end.

Source: [DUR-54, DUR-59]. It has the log start: with a lower one nothing of that holds. And it names
the quarantine files, before the first rename: those of other incidents may be beside them.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

from segstore._core import Barrier, FileBarrier, crc32c
from segstore.errors import CorruptLogError, LimitExceededError
from segstore.log.files.checkpoints import (
    LOG_START_OFFSET_CHECKPOINT,
    MAX_CHECKPOINT_BYTES,
    RESTART_MARKER,
)
from segstore.log.files.partition_directory import LOG_FILE_SUFFIX, file_name
from segstore.log.files.recovery_advice import MOST_NAMES, listed, missing_records
from segstore.log.recovery.quarantined_file import base_offset_of, quarantine_names

if TYPE_CHECKING:
    from collections.abc import Iterable

    from segstore._core import Directory

_CONTENT: Final = re.compile(
    rb"log_start ([0-9]{1,19})\nlog_end ([0-9]{1,19})\n(.*)crc [0-9]{1,10}\n", re.ASCII | re.DOTALL
)


class RestartMarkerContent(NamedTuple):
    """What the mark says."""

    log_start_offset: int
    log_end_offset: int
    """Of the log that is quarantined."""
    names: tuple[str, ...]
    """Under which its segments are quarantined, ascending; empty ones are not."""

    def format(self) -> bytes:
        """Return the file's text, and a CRC-32C of it at the end."""
        lines = [f"log_start {self.log_start_offset}", f"log_end {self.log_end_offset}"]
        return _with_crc("".join(f"{line}\n" for line in [*lines, *self.names]).encode())

    @classmethod
    def parse(cls, data: bytes) -> RestartMarkerContent | None:
        """Read it, None when *data* is not what was written."""
        found = _CONTENT.fullmatch(data)
        if found is None or _with_crc(data[: found.end(3)]) != data:
            return None
        names = found[3].decode("ascii", errors="replace").splitlines()
        bases = [base_offset_of(name) for name in quarantine_names(names)]
        if len(bases) != len(names) or any(base >= after for base, after in pairwise(bases)):
            return None
        return cls(int(found[1]), int(found[2]), tuple(names))


def _with_crc(text: bytes) -> bytes:
    return b"%bcrc %d\n" % (text, crc32c(text))


class RestartMarker:
    """The marker of one directory, as it is found.

    Parameters
    ----------
    directory : Directory
        The partition's.

    Attributes
    ----------
    stands : bool
        Whether an open was not done.
    content : RestartMarkerContent or None
        What the mark says, None where it is not there or cannot be read.
    beside : tuple of str
        Of what it names, the files that are in quarantine.
    missing : tuple of str
        And what is neither there nor in the log.
    """

    def __init__(self, directory: Directory) -> None:
        self._directory = directory
        self.stands = directory.exists(RESTART_MARKER)
        self.content: RestartMarkerContent | None = None
        self.beside: tuple[str, ...] = ()
        self.missing: tuple[str, ...] = ()
        self._unnamed: list[str] = []
        self._content = b""
        if self.stands:
            self._read()

    def _read(self) -> None:
        try:
            self._content = self._directory.read_file(RESTART_MARKER, MAX_CHECKPOINT_BYTES)
        except LimitExceededError:
            self._content = b"more than any mark has"
        self.content = RestartMarkerContent.parse(self._content)
        there = {*self._directory.names()}
        if self.content is None:
            self._unnamed = [name for name in quarantine_names(there) if _log_of(name) not in there]
            return
        out = [name for name in self.content.names if _log_of(name) not in there]
        self.beside = tuple(name for name in out if name in there)
        self.missing = tuple(name for name in out if name not in there)

    @property
    def has_names(self) -> bool:
        """Whether anything was to be quarantined; with a damaged marker, whether it may be."""
        return bool(self._unnamed if self.content is None else self.content.names)

    def set(self, content: RestartMarkerContent) -> None:
        """Write the marker; it is durable at return."""
        self._directory.write_file_atomically(
            RESTART_MARKER, content.format(), FileBarrier.LOG_START
        )
        self.stands, self.content = True, content

    def remove(self) -> None:
        """Take it away: the last step of the open, which reports it [DUR-7]."""
        self._directory.unlink(RESTART_MARKER)
        self._directory.sync(Barrier.LEFTOVERS_GONE)
        self.stands, self.content = False, None

    def require_same_log(self, log_start_offset: int) -> None:
        """Refuse an open that finds a log start below that of the mark.

        Without a record in the log nothing was quarantined: it begins at any log start from its
        end on.

        Raises
        ------
        CorruptLogError
            What was quarantined for the marker's log start is missing now.
        """
        content = self.content
        if content is not None:
            needed = content.log_start_offset if content.names else content.log_end_offset
            if log_start_offset >= min(needed, content.log_start_offset):
                return
        elif not self.stands:
            return
        then = (
            f"the log start {content.log_start_offset}"
            if content
            else "a log start that cannot be read"
        )
        raise CorruptLogError(
            f"an open began to quarantine the whole log for {then}, and now the log start is"
            f" {log_start_offset}. No record was changed. {self.hint()}",
            file=f"{self._directory.path}/{RESTART_MARKER}",
            found=repr(self._content[:20]),
            expected=f"a log start up to {log_start_offset}",
        )

    def hint(self) -> str:
        """Say how what was quarantined becomes part of the log again, a sentence or more."""
        mark = RESTART_MARKER
        restore = f"restore the directory from a copy without {mark}"
        if self.content is None:
            return self._hint_for_unnamed()
        if not self.content.names:
            return (
                f"Nothing was quarantined: write a log start from {self.content.log_end_offset} on"
                f" into {LOG_START_OFFSET_CHECKPOINT}"
            )
        if len(self.missing) == len(self.content.names):
            return f"All its quarantine files are gone: {restore}"
        if not self.beside:
            way = f"No segment is in quarantine: remove {mark}"
        elif len(self.beside) > MOST_NAMES:
            way = (
                f"Rename each file that {mark} lists, and that is here, to <its first 20"
                f" digits>.log, unless that .log is here, and then remove {mark}"
            )
        else:
            pairs = [f"{name} to {_log_of(name)}" for name in self.beside]
            way = f"Rename {listed(pairs)}, and then remove {mark}"
        if not self.missing:
            return way
        return f"{missing_files_text(self.missing)}: {restore}. Else {way[0].lower()}{way[1:]}"

    def _hint_for_unnamed(self) -> str:
        mark = RESTART_MARKER
        said = f"{mark} is damaged: which files it lists is unknown"
        if not self._unnamed:
            return f"{said}; no segment is in quarantine: remove {mark}"
        return (
            f"{said}. {listed(self._unnamed)} may be among them, or older. `segstore verify` lists"
            " the offsets in these files. Rename only those that belong to the log, to <base"
            f" offset>.log, and then remove {mark}"
        )

    def missing_records(self) -> str:
        """Say which records are missing with the files of `missing`."""
        if self.content is None or not self.missing:
            return ""
        bases = [*map(base_offset_of, self.content.names), self.content.log_end_offset]
        end_of = dict(pairwise(bases))
        ranges: list[tuple[int, int]] = []
        for first in map(base_offset_of, self.missing):
            if ranges and ranges[-1][1] == first:
                ranges[-1] = (ranges[-1][0], end_of[first])
            else:
                ranges.append((first, end_of[first]))
        return listed([missing_records(first, end) for first, end in ranges])


def missing_files_text(names: Iterable[str]) -> str:
    """Say that quarantine files are lost."""
    lost = [*names]
    return f"{listed(lost)} {'is' if len(lost) == 1 else 'are'} gone"


def _log_of(name: str) -> str:
    return file_name(base_offset_of(name), LOG_FILE_SUFFIX)
