"""What an interrupted compaction, split or deletion left behind, as Kafka sorts it out.

The first three passes of Kafka's ``LogLoader`` over a directory, for ``recovery="kafka"``; what
`Leftovers` does for ``safe`` looks into the files first [DUR-20, DUR-55].

Source: [LDR-1..LDR-6, T-10].
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final

from segstore.errors import IllegalArgumentError, SegstoreError
from segstore.log.files.partition_directory import (
    CLEANED_FILE_SUFFIX,
    DELETED_FILE_SUFFIX,
    SWAP_FILE_SUFFIX,
    offset_from_file_name,
)
from segstore.log.local.segment import open_named_segment

if TYPE_CHECKING:
    from collections.abc import Iterable

    from segstore._core import Directory, SegmentContext
    from segstore.log.recovery.recovery_report import RecoveryReport

DELETED_CHECKPOINT_SUFFIX: Final = ".checkpoint.deleted"
"""Of a KRaft snapshot, which another one than the log deletes."""


class SwapFiles:
    """Sorts out temporary files of one directory.

    Parameters
    ----------
    directory : Directory
        The partition's.
    context : SegmentContext
        To look into ``.swap`` segments.
    report : RecoveryReport
        Takes the names of what was removed.
    """

    def __init__(
        self, directory: Directory, context: SegmentContext, report: RecoveryReport
    ) -> None:
        self._directory = directory
        self._context = context
        self._report = report

    def sort_out(self) -> None:
        """Delete what is worthless, and bring complete ``.swap`` sets to their place.

        Raises
        ------
        IllegalArgumentError
            The name of a ``.swap`` or ``.cleaned`` file does not begin with a number [LDR-2].
        """
        swaps = self._valid_swaps()
        first, end = self._range_of(swaps)
        for name in file_names(self._directory):
            if name.endswith(SWAP_FILE_SUFFIX):
                continue
            with contextlib.suppress(IllegalArgumentError):
                if first <= offset_from_file_name(name) < end:
                    self._remove([name])  # producer snapshots too [LDR-5]
        for name in file_names(self._directory):
            if name.endswith(SWAP_FILE_SUFFIX):
                with contextlib.suppress(SegstoreError):
                    self._directory.rename(name, name.removesuffix(SWAP_FILE_SUFFIX))

    def _valid_swaps(self) -> list[str]:
        """Remove temporary files, and return the ``.swap`` files of a complete set [LDR-1, LDR-3].

        Segments get that suffix in descending order: one at or above a ``.cleaned`` file lacks it.
        """
        deleted, cleaned, swaps = [], {}, {}
        for name in file_names(self._directory):
            if name.endswith(DELETED_FILE_SUFFIX) and not name.endswith(DELETED_CHECKPOINT_SUFFIX):
                deleted.append(name)
            elif name.endswith(CLEANED_FILE_SUFFIX):
                cleaned[name] = offset_from_file_name(name)
            elif name.endswith(SWAP_FILE_SUFFIX):
                swaps[name] = offset_from_file_name(name)
        least = min(cleaned.values(), default=None)
        invalid = [name for name, base in swaps.items() if least is not None and base >= least]
        self._remove([*deleted, *invalid, *cleaned])
        return [name for name in swaps if name not in set(invalid)]

    def _range_of(self, swaps: list[str]) -> tuple[int, int]:
        """Return the offsets that ``.swap`` segments take the place of [LDR-4]."""
        bases, ends = [], []
        for name in swaps:
            if not name.endswith(f".log{SWAP_FILE_SUFFIX}"):
                continue
            base = offset_from_file_name(name)
            segment = open_named_segment(self._directory, self._context, base, SWAP_FILE_SUFFIX)
            try:
                next_offset, _ = segment.read_next_offset()
            finally:
                segment.close_quietly()
            bases.append(base)
            ends.append(next_offset)
        return min(bases, default=0), max(ends, default=0)

    def _remove(self, names: Iterable[str]) -> None:
        for name in names:
            self._directory.unlink(name, missing_ok=True)
            self._report.removed.append(name)


def file_names(directory: Directory) -> list[str]:
    """Return the names of the regular files of *directory*, sorted; nothing else counts [LDR-1]."""
    return [name for name in directory.names() if directory.info(name).is_regular]
