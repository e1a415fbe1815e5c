"""Log start, recovery point and clean marker of a partition, stored in two places.

Source: [DUR-65].

A broker keeps log start, recovery point and clean marker of all its partitions in the log
directory. A partition that is opened alone keeps its own beside the segments. Either may have
written last.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from segstore._core import Barrier, FileBarrier
from segstore.errors import DiskFullError, LogNotFoundError, SegstoreError
from segstore.log.files.checkpoints import (
    CLEAN_SHUTDOWN_MARKER,
    HIGH_WATERMARK_CHECKPOINT,
    LEADER_EPOCH_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    MAX_CHECKPOINT_BYTES,
    MAX_MARKER_BYTES,
    RECOVERY_POINT_CHECKPOINT,
    UNREADABLE,
    UNREADABLE_TO_READERS,
    format_offset_checkpoint,
    parse_leader_epoch_checkpoint,
    parse_whole_offset_checkpoint,
    read_offset,
    require_unreadable,
    write_offset,
)
from segstore.log.files.clean_shutdown_file_handler import CleanShutdownFileHandler
from segstore.log.files.clean_shutdown_marker import CleanShutdownMarker
from segstore.log.files.copied_log import is_where_it_was_closed
from segstore.log.files.log_directory_checkpoints import LogDirectoryCheckpoints
from segstore.log.files.parsed_file import parse_once
from segstore.log.files.prepared_file import PreparedFile
from segstore.log.files.profile import Profile
from segstore.log.files.stored_state import StoredState
from segstore.log.files.unknown_log_state import remove_log_state

if TYPE_CHECKING:
    from segstore._core import Directory
    from segstore.types import TopicPartition


class CheckpointStore:
    """Reads and writes checkpoints and clean markers of one partition.

    Parameters
    ----------
    directory : Directory
        The partition's.
    parent : Directory or None
        The one above it, where it can be opened.
    topic_partition : TopicPartition
        Whose lines to read.
    parent_was_clean : bool
        The log directory's marker was there when its owner took the directory, and this log was not
        changed since. Another log may have removed the marker.
    home : Directory or None
        Where the partition's own checkpoints and marker are; by default beside the segments. With
        Kafka's profile they are elsewhere or, None, nowhere, and the log directory's are only read,
        or brought down by a truncation [DUR-62].
    profile : Profile
        That of the handle.
    found : StoredState or None
        What `read` answers instead of what the files say.
    above : LogDirectoryCheckpoints or None
        Those of the log directory, where its owner has one object for all logs.
    is_for_writing : bool
        A file that the disk does not give out is an error; for a reader it counts as missing.

    Attributes
    ----------
    highest_log_start : int
        The most that the own checkpoint may say, of what was written here: a write that was
        interrupted may be done. The writer knows what it said before.
    """

    def __init__(  # noqa: PLR0913 - each by its name
        self,
        directory: Directory,
        parent: Directory | None,
        topic_partition: TopicPartition,
        *,
        parent_was_clean: bool = False,
        profile: Profile = Profile.SAFE,
        home: Directory | None = None,
        found: StoredState | None = None,
        above: LogDirectoryCheckpoints | None = None,
        is_for_writing: bool = True,
    ) -> None:
        self.directory = directory
        self._is_safe = profile is Profile.SAFE
        self._home = directory if self._is_safe else home
        self._found = found
        self._unreadable = UNREADABLE if is_for_writing else UNREADABLE_TO_READERS
        self.parent = parent
        if above is None and parent is not None:
            above = LogDirectoryCheckpoints(parent)
        self._above = above
        self.topic_partition = topic_partition
        self.highest_log_start = 0
        self._parent_was_clean = parent_was_clean
        self._has_removed_markers = False

    def read(self) -> StoredState:
        """Read both places; what cannot be read counts as missing, with a warning [DUR-21]."""
        if self._found is not None:
            return self._found
        warnings: list[str] = []
        log_starts = self._in_both_places(LOG_START_OFFSET_CHECKPOINT, warnings)
        recovery_points = self._in_both_places(RECOVERY_POINT_CHECKPOINT, warnings)
        if self._home is self.directory:
            self._read_other_name(log_starts, recovery_points, warnings)
        parent_is_clean = self._parent_was_clean or (
            self.parent is not None and self.parent.exists(CLEAN_SHUTDOWN_MARKER)
        )
        own_marker = self._read_own_marker(warnings)
        is_markers = self._is_safe and self._take_log_start_of(own_marker, log_starts, warnings)
        points = [point for point in recovery_points if point is not None]
        shown = self._shown_points() if parent_is_clean and self._is_safe and not points else []
        points += shown
        return StoredState(
            log_start_offset=max((start for start in log_starts if start is not None), default=0),
            recovery_point=min(points, default=None),
            a_recovery_point=max(points, default=None),
            parent_is_clean=parent_is_clean,
            own_marker=own_marker,
            warnings=warnings,
            log_start_is_markers=is_markers,
            recovery_point_is_shown=bool(shown),
        )

    def _shown_points(self) -> list[int]:
        """Return how far the log reached when it was closed cleanly, where its line was lost.

        A broker names its newest snapshot by the log end, and begins an epoch there at the latest.
        """
        offsets = self.directory.segment_listing().base_offsets("snapshot")
        points = [max(offsets)] if len(offsets) else []
        if self.directory.exists(LEADER_EPOCH_CHECKPOINT):
            with suppress(*self._unreadable):
                data = self.directory.read_file(LEADER_EPOCH_CHECKPOINT, MAX_CHECKPOINT_BYTES)
                points += [entry.start_offset for entry in parse_leader_epoch_checkpoint(data)]
        return [max(points)] if points else []

    def _read_other_name(
        self, log_starts: list[int | None], recovery_points: list[int | None], warnings: list[str]
    ) -> None:
        """Take the lines of another name beside the segments for this log's: it was moved [DUR-5].

        They speak of this very directory. `rename_dir` leaves lines of both names; who moves or
        restores it otherwise leaves the old one, and nothing else says what was deleted.
        """
        for name, found, choose in (
            (LOG_START_OFFSET_CHECKPOINT, log_starts, max),
            (RECOVERY_POINT_CHECKPOINT, recovery_points, min),
        ):
            if found[0] is not None or not self.directory.exists(name):
                continue
            try:
                data = self.directory.read_file(name, MAX_CHECKPOINT_BYTES)
                offsets = parse_whole_offset_checkpoint(data, name)
            except self._unreadable as error:
                require_unreadable(self.directory, name, error)
                continue  # which was told already
            if offsets and min(offsets.values()) >= 0:
                found[0] = choose(offsets.values())
                names = ", ".join(map(str, offsets))
                warnings.append(
                    f"{self.directory.path}/{name} has lines of {names}: the directory was"
                    f" renamed, and {found[0]} counts for {self.topic_partition}"
                )

    def _take_log_start_of(
        self, marker: CleanShutdownMarker | None, log_starts: list[int | None], warnings: list[str]
    ) -> bool:
        """Let the clean marker have the last word of the partition's own log start [DUR-21].

        It is written behind the checkpoint, has a checksum, and goes before the first change:
        a checkpoint that is lost, or says something else, is not what was written. Returns whether
        it has to be written again.
        """
        marked = None if marker is None or not marker.has_crc else marker.log_start_offset
        if marked is None or marked == (log_starts[0] or 0):
            return False
        is_lost = log_starts[0] is None
        if is_lost and marked in log_starts:
            return False  # the log directory has it
        found = self._offset(self.directory, LOG_START_OFFSET_CHECKPOINT, [])
        if found == marked:  # its writer closed the log while we looked
            log_starts[0] = found
            return False
        warnings.append(
            f"{self.directory.path}/{LOG_START_OFFSET_CHECKPOINT} is"
            f" {'lost' if is_lost else f'not what was written: the log start {log_starts[0]}'};"
            f" the log starts at {marked}, by its clean shutdown marker"
        )
        log_starts[0] = marked
        return True

    def _read_own_marker(self, warnings: list[str]) -> CleanShutdownMarker | None:
        """Return what the partition's marker says, None where there is none that can be read.

        Then the log counts as one that was not closed cleanly.
        """
        home = self._home
        if home is None or not home.exists(CLEAN_SHUTDOWN_MARKER):
            return None
        try:
            data = home.read_file(CLEAN_SHUTDOWN_MARKER, MAX_MARKER_BYTES)
        except LogNotFoundError:  # a writer has opened the log this moment
            return None
        except self._unreadable as error:
            warnings.append(f"{home.path}/{CLEAN_SHUTDOWN_MARKER} cannot be read: {error.message}")
            return None
        return parse_once(CleanShutdownMarker.parse, data)

    def _in_both_places(self, name: str, warnings: list[str]) -> list[int | None]:
        """Return what checkpoints say: the own one, where it has a place, and the one above."""
        places = [place for place in (self._home, self.parent) if place is not None]
        return [self._offset(place, name, warnings) for place in places]

    def _offset(self, directory: Directory, name: str, warnings: list[str]) -> int | None:
        """Return the offset of a checkpoint; what cannot be read is a warning.

        The log directory's file has all logs, and is not parsed for each of them.
        """
        try:
            if directory is self.parent and self._above is not None:
                return self._above.offset(name, self.topic_partition)
            return read_offset(directory, name, self.topic_partition)
        except self._unreadable as error:
            require_unreadable(directory, name, error)
            meaning = ""
            if name == LOG_START_OFFSET_CHECKPOINT:
                meaning = "; reads may show records that were deleted"
            warnings.append(f"{directory.path}/{name} cannot be read: {error.message}{meaning}")
            return None

    def remove_clean_markers(self) -> None:
        """Before the first change: the stop is unclean until `mark_clean` [DUR-24]; once.

        The log directory's goes first: only the own one says that a log start above the end is
        true. What a safe handle left beside the segments is not true any more once another profile
        writes: it would make an unclean stop look clean, or a shorter log a damaged one.
        """
        if self._has_removed_markers:
            return
        if self._above is not None:
            self._above.begin_change(self.topic_partition)
        if self._home is not None:
            CleanShutdownFileHandler(self._home).delete()
        if not self._is_safe:
            remove_log_state(self.directory, keeps_checkpoints=self._home is self.directory)
        self._has_removed_markers = True

    @property
    def is_as_found(self) -> bool:
        """Whether the log was not changed, and a clean marker still says so [DUR-24].

        The own one does, where it is of this very place, and that of the log directory, unless
        another log has removed it. Own checkpoints that cannot be read have to be written again.
        """
        unreadable: list[str] = []
        if self._has_removed_markers or self._home is None:
            return False
        for name in (LOG_START_OFFSET_CHECKPOINT, RECOVERY_POINT_CHECKPOINT):
            self._offset(self._home, name, unreadable)
        if unreadable:
            return False
        parent = self.parent
        if parent is not None and parent.exists(CLEAN_SHUTDOWN_MARKER):
            return True
        return self._home.exists(CLEAN_SHUTDOWN_MARKER) and is_where_it_was_closed(self._home)

    def prepare_log_start(self, offset: int) -> PreparedFile | None:
        """Do all of `write_log_start` that a full disk can refuse; the log start stays [DUR-30].

        None in Kafka's profile, where the write does it all.
        """
        name, home = LOG_START_OFFSET_CHECKPOINT, self._home
        if not self._is_safe or home is None:
            return None
        self._lower_log_start_above(home, offset)
        content = format_offset_checkpoint({self.topic_partition: offset})
        return PreparedFile(home, name, content, FileBarrier.LOG_START)

    def write_log_start(self, offset: int, prepared: PreparedFile | None = None) -> None:
        """Bring the log start to stable storage in the partition's own checkpoint [DUR-19].

        Of two places the greater counts: a truncation below the log start lowers both.

        Parameters
        ----------
        prepared : PreparedFile or None
            What `prepare_log_start` gave for this offset.
        """
        before = self.highest_log_start
        self.highest_log_start = max(before, offset)  # Ctrl-C is raised behind the last sync
        try:
            if prepared is not None:
                prepared.publish()
            else:
                self._write_log_start(offset)
        except DiskFullError:  # the old content is there
            self.highest_log_start = before
            raise
        self.highest_log_start = offset

    def _write_log_start(self, offset: int) -> None:
        name = LOG_START_OFFSET_CHECKPOINT
        if not self._is_safe:
            self._lower(name, offset)
        if self._home is None:
            return
        if self._is_safe:
            self._lower_log_start_above(self._home, offset)
        write_offset(self._home, name, self.topic_partition, offset)

    def _lower_log_start_above(self, home: Directory, offset: int) -> None:
        """Lower the checkpoint above to *offset*; until the own one follows the log start stays."""
        name = LOG_START_OFFSET_CHECKPOINT
        if (self._offset_above(name) or 0) <= offset:
            return
        known = self.read().log_start_offset
        if self._offset(home, name, []) != known:  # nobody else knows it after a crash [DUR-5]
            write_offset(home, name, self.topic_partition, known)
        self._lower_above(name, offset)

    def write_recovery_point(self, offset: int) -> None:
        """Bring the recovery point to stable storage in the partition's own checkpoint."""
        if self._home is not None:
            write_offset(self._home, RECOVERY_POINT_CHECKPOINT, self.topic_partition, offset)

    def lower_recovery_point(self, offset: int) -> None:
        """Before a truncation, lower what was written down, but by the flusher [DUR-16, LOC-4].

        A broker's ``LogManager`` writes its checkpoint then. Where the own one is lost, a later
        open would take the records that were cut for lost ones, and what comes in their place for
        synced.
        """
        name, home = RECOVERY_POINT_CHECKPOINT, self._home
        if self._is_safe:
            self._lower_above(name, offset)
            self._lower_above(HIGH_WATERMARK_CHECKPOINT, offset)
            return
        self._lower(name, offset)
        if home is not None and (self._offset(home, name, []) or 0) > offset:
            self.write_recovery_point(offset)

    def _lower(self, name: str, offset: int) -> None:
        """Bring lines down that are there; none is made [DUR-62]."""
        if (self._offset(self.directory, name, []) or 0) > offset:
            write_offset(self.directory, name, self.topic_partition, offset)
        self._lower_above(name, offset)

    def _offset_above(self, name: str) -> int | None:
        return None if self.parent is None else self._offset(self.parent, name, [])

    def _lower_above(self, name: str, offset: int) -> None:
        if self._above is not None and (self._offset_above(name) or 0) > offset:
            self._above.lower(name, self.topic_partition, offset)

    def use_name(self, topic_partition: TopicPartition) -> None:
        """Go on under another name: its lines come beside the old ones, on stable storage [REN-1].

        Whichever name the directory has after a crash, its lines are there.
        """
        home = self._home
        for name in (LOG_START_OFFSET_CHECKPOINT, RECOVERY_POINT_CHECKPOINT):
            if home is not None and home.exists(name):
                offsets = parse_whole_offset_checkpoint(
                    home.read_file(name, MAX_CHECKPOINT_BYTES), name
                )
                if self.topic_partition in offsets:
                    offsets[topic_partition] = offsets[self.topic_partition]
                    home.write_file_atomically(
                        name, format_offset_checkpoint(offsets), FileBarrier.NEW_NAME_CHECKPOINT
                    )
        self.topic_partition = topic_partition

    @property
    def takes_marks(self) -> bool:
        """Whether a clean stop is written down at all: here, or by the owner of the directory."""
        return self._home is not None or (self._above is not None and self._above.is_owned)

    def mark_clean(self, log_start_offset: int, marker: CleanShutdownMarker) -> None:
        """Write the checkpoints, merge them into the log directory's, then the marker, last.

        Source: [DUR-24].

        Everything else is closed and on stable storage.
        """
        home = self._home
        if not self.takes_marks:
            return
        if not self._is_safe:
            # Kafka's last snapshot has no durable name yet [CLO-1]
            self.directory.sync(Barrier.CLOSED_NAMES)
        if home is None:
            return
        if not self._says_so(home, RECOVERY_POINT_CHECKPOINT, marker.log_end_offset):
            self.write_recovery_point(marker.log_end_offset)
        if log_start_offset > 0 or home.exists(LOG_START_OFFSET_CHECKPOINT):
            self.write_log_start(log_start_offset)
        if self._is_safe:
            self.note_close(log_start_offset, marker.log_end_offset)
            with suppress(SegstoreError):  # a stranger's file that cannot be read is no fault here
                fingerprint = home.fingerprint(CLEAN_SHUTDOWN_MARKER)
                marker = replace(marker, files_fingerprint=fingerprint)
        home.create_file(CLEAN_SHUTDOWN_MARKER, marker.format(), FileBarrier.CLEAN_MARKER)

    def note_close(self, log_start_offset: int | None, log_end_offset: int) -> None:
        """Merge the lines of a log that is closed into the log directory's, where they differ.

        A broker that opens the log later reads these lines [DUR-65].
        """
        if self._above is not None:
            self._above.note_close(self.topic_partition, log_start_offset, log_end_offset)

    def note_owned_close(self, log_start_offset: int | None, log_end_offset: int) -> None:
        """As `note_close`, where the log directory has an owner: that of Kafka's profile."""
        if self._above is not None and self._above.is_owned:
            self.note_close(log_start_offset, log_end_offset)

    def note_high_watermark(self, offset: int) -> None:
        """Let the owner of the log directory keep it while the log is not open [MGR-47]."""
        if self._above is not None:
            self._above.note_high_watermark(self.topic_partition, offset)

    def note_offsets(self, log_start_offset: int | None, recovery_point: int) -> None:
        """Let the lines of the log directory say so at its owner's next write [MGR-45, MGR-46]."""
        if self._above is not None:
            self._above.note_offsets(self.topic_partition, log_start_offset, recovery_point)

    def _says_so(self, home: Directory, name: str, offset: int) -> bool:
        """Whether a checkpoint, always written whole and synced, has these very bytes.

        A log that nobody touched is closed with one file made instead of two.
        """
        told = format_offset_checkpoint({self.topic_partition: offset})
        try:
            return home.exists(name) and home.read_file(name, MAX_CHECKPOINT_BYTES) == told
        except SegstoreError:  # what cannot be read is written over
            return False
