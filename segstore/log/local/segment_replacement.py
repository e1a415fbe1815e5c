"""New segments in the place of old ones, by renames whose order can be told apart at any time.

A split and the cleaner write ``.cleaned`` segments, all on stable storage, and then replace with
them. The new segments count from the moment when all have the suffix ``.swap``; before that the old
ones do. An open after a crash goes by the same names [LDR-1..LDR-6].

Source: [LOC-26, CLN-110, CLN-114, DUR-20]; Kafka ``LocalLog.replaceSegments``.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING

from segstore._core import Barrier
from segstore.log.files.partition_directory import (
    CLEANED_FILE_SUFFIX,
    DELETED_FILE_SUFFIX,
    INDEX_FILE_SUFFIXES,
    LOG_FILE_SUFFIX,
    SWAP_FILE_SUFFIX,
    file_name,
)
from segstore.log.local.segment import Segment
from segstore.log.local.segments import Segments

if TYPE_CHECKING:
    from collections.abc import Iterable

    from segstore._core import Directory, SegmentContext


def new_cleaned_segment(base_offset: int, directory: Directory, context: SegmentContext) -> Segment:
    """Make an empty ``.cleaned`` segment; one that a crash left there goes first [CLN-70]."""
    for kind in (LOG_FILE_SUFFIX, *INDEX_FILE_SUFFIXES):
        directory.unlink(f"{file_name(base_offset, kind)}{CLEANED_FILE_SUFFIX}", missing_ok=True)
    return Segment(context, base_offset, create=True, suffix=CLEANED_FILE_SUFFIX)


def finish_cleaned_segment(segment: Segment, modified_ms: int, directory: Directory) -> None:
    """Seal and sync it, and give it the time of what it was made of: retention asks for it [RET-7].

    Not the transaction index (Kafka ``LogSegment.setLastModified``) [SEG-57]. Source: [CLN-76].
    """
    segment.on_become_inactive()
    segment.flush(Barrier.REPLACING_RECORDS, indexes=True)
    for kind in (LOG_FILE_SUFFIX, "index", "timeindex"):
        name = f"{file_name(segment.base_offset, kind)}{CLEANED_FILE_SUFFIX}"
        if kind == LOG_FILE_SUFFIX or directory.exists(name):
            directory.set_modified(name, modified_ms)


def delete_cleaned_segments(segments: Iterable[Segment]) -> None:
    """Remove what was written of them; nothing has become of it [CLN-77]."""
    for segment in segments:
        segment.delete_files()
        segment.close_quietly()


class SegmentReplacement:
    """One replacement; each step may be interrupted, and done again.

    Parameters
    ----------
    new : iterable of Segment
        ``.cleaned``, each sealed and synced.
    old : iterable of Segment
        Of the log; those that are gone meanwhile are left out [CLN-112].
    directory : Directory
        The partition's.

    Attributes
    ----------
    new, old : tuple of Segment
        Ascending.
    """

    def __init__(
        self, new: Iterable[Segment], old: Iterable[Segment], directory: Directory
    ) -> None:
        self.new = tuple(sorted(new, key=attrgetter("base_offset")))
        self.old = tuple(sorted(old, key=attrgetter("base_offset")))
        self.is_committed = False
        self._directory = directory

    @property
    def vanished(self) -> tuple[Segment, ...]:
        """The old segments whose base offset no new one has."""
        kept = {segment.base_offset for segment in self.new}
        return tuple(segment for segment in self.old if segment.base_offset not in kept)

    def commit(self) -> None:
        """Let the new segments count: rename them to ``.swap``, in descending order, durably."""
        if self.is_committed:
            return
        self._directory.sync(Barrier.REPLACING_CLEANED)
        for segment in reversed(self.new):
            if segment is self.new[0] and len(self.new) > 1:  # it makes the set complete
                self._directory.sync(Barrier.REPLACING_HIGHER)
            segment.change_suffix(SWAP_FILE_SUFFIX)
        self._directory.sync(Barrier.REPLACING_COMMIT)
        self.is_committed = True

    def abandon(self) -> None:
        """Remove the new segments of a replacement that was not committed; the old ones count.

        What has the suffix ``.swap`` goes first, durably: without a ``.cleaned`` file beside it, it
        would look like a complete set [LDR-3].
        """
        swapped = [segment for segment in self.new if segment.suffix == SWAP_FILE_SUFFIX]
        delete_cleaned_segments(swapped)
        if swapped:
            self._directory.sync(Barrier.LEFTOVERS_INCOMPLETE)
        delete_cleaned_segments(segment for segment in self.new if segment not in swapped)

    def applied_to(self, segments: Segments) -> Segments:
        """Return *segments* with the new ones in the place of the old ones."""
        going = {id(segment) for segment in self.old}
        bases = {segment.base_offset for segment in self.new}
        kept = [one for one in segments if id(one) not in going and one.base_offset not in bases]
        return Segments([*kept, *self.new])

    def finish(self) -> None:
        """Rename the old segments to ``.deleted``, and give the new ones their names, durably."""
        for segment in self.old:
            segment.change_suffix(DELETED_FILE_SUFFIX)
        if self.vanished:  # no new segment takes its name: it would come back beside them
            self._directory.sync(Barrier.LEFTOVERS_REPLACED)
        for segment in self.new:
            segment.change_suffix("")
        self._directory.sync(Barrier.REPLACING_DONE)
