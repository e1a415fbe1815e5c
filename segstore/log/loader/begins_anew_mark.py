"""The mark of an open that sets a whole log aside, since the log start lies above its end.

Source: [DUR-54, DUR-59]. It has the log start, in decimal: with another one nothing of that holds.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from segstore._core import FileBarrier
from segstore.errors import CorruptLogError
from segstore.log.directory.checkpoints import BEGINS_ANEW_MARK, MAX_MARKER_BYTES
from segstore.log.loader.quarantined_file import set_aside_hint, set_aside_names

if TYPE_CHECKING:
    from segstore._core import Directory

_CONTENT: Final = re.compile(rb"([0-9]{1,19})\n", re.ASCII)


class BeginsAnewMark:
    """That of one directory, as an open finds it.

    Parameters
    ----------
    directory : Directory
        The partition's.
    log_start_offset : int
        Of the log.

    Attributes
    ----------
    stands : bool
        Whether an open was not done.
    set_aside : tuple of str
        What it has set aside.

    Raises
    ------
    CorruptLogError
        The log start was above this one then: what was set aside for it is missing now.
    """

    def __init__(self, directory: Directory, log_start_offset: int) -> None:
        self._directory = directory
        self._log_start_offset = log_start_offset
        self.stands = directory.exists(BEGINS_ANEW_MARK)
        self.set_aside: tuple[str, ...] = ()
        if self.stands:
            names = directory.names()
            self.set_aside = tuple(set_aside_names(names))
            self._require_same_log(names)

    def set(self) -> None:
        """Leave the mark, on the disk at once."""
        content = b"%d\n" % self._log_start_offset
        self._directory.write_file_atomically(BEGINS_ANEW_MARK, content, FileBarrier.LOG_START)
        self.stands = True

    def remove(self) -> None:
        """Take it away; whoever does syncs the directory."""
        self._directory.unlink(BEGINS_ANEW_MARK)
        self.stands = False

    def _require_same_log(self, names: list[str]) -> None:
        content = self._directory.read_file(BEGINS_ANEW_MARK, MAX_MARKER_BYTES)
        number = _CONTENT.fullmatch(content)
        if number is not None and int(number[1]) <= self._log_start_offset:
            return
        then = "a log start that cannot be read"
        if number is not None:
            then = f"the log start {int(number[1])}"
        hint = set_aside_hint(names, BEGINS_ANEW_MARK)
        raise CorruptLogError(
            f"an open was setting the whole log aside for {then}, and now it is"
            f" {self._log_start_offset}. No record was changed. {hint}",
            file=f"{self._directory.path}/{BEGINS_ANEW_MARK}",
            found=repr(content[:20]),
            expected=f"a log start up to {self._log_start_offset}",
        )
