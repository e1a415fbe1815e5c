"""The damaged log of a salvage: its files in the order of their offsets, and what is in them."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import segstore._core as _core
from segstore.errors import (
    CorruptLogError,
    CorruptRecordError,
    LogNotFoundError,
    NotALogError,
    ReadIOError,
    SegstoreError,
)
from segstore.log.files.checkpoint_store import CheckpointStore
from segstore.log.files.checkpoints import (
    LEADER_EPOCH_CHECKPOINT,
    LOG_STATE,
    MISSING_RECORDS,
    LogState,
)
from segstore.log.files.kept_aside import kept_indexes
from segstore.log.files.leader_epoch_file_cache import LeaderEpochFileCache
from segstore.log.files.missing_records_file import damaged_notes
from segstore.log.files.partition_directory import file_name, segment_files
from segstore.log.files.partition_path import open_parent_directory, open_partition_directory
from segstore.log.files.recovery_advice import WAY_BACK
from segstore.log.findings.finding import FindingCode
from segstore.log.local.batch_chain import choose_batches
from segstore.log.local.batch_search import BatchSearch, NoBatch
from segstore.log.local.missing_records import (
    MissingRecords,
    first_shown_before,
    kept_index_text,
    lone_indexes,
    missing_of,
    named_behind,
)
from segstore.log.local.segment import Segment
from segstore.log.recovery.contradicted_epochs import contradiction_of_epochs
from segstore.log.recovery.leftovers import complete_swaps, end_of_swap
from segstore.log.recovery.log_beginning import first_missing_offset
from segstore.log.recovery.lost_state import begin_without_state, lost_state
from segstore.log.recovery.quarantined_file import quarantine_hint, quarantined_files
from segstore.log.recovery.salvage_report import LostRange, other_epochs
from segstore.log.recovery.survey import read_small_files
from segstore.log.salvage.batch_epochs import BatchEpochs
from segstore.records.compression import codec_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import numpy as np

    from segstore._core import Environment, SegmentContext
    from segstore.log.files.partition_directory import SegmentFile
    from segstore.log.files.stored_state import StoredState
    from segstore.log.local.batch_chain import ChosenBatches
    from segstore.log.recovery.salvage_report import SalvageReport
    from segstore.types import EpochEntry, TopicPartition


class SalvageSource:
    """A partition's directory, of which everything is doubted; nothing in it is changed.

    Parameters
    ----------
    path : str
        Absolute.
    report : SalvageReport
        Takes what is known to be lost before a byte was read, and warnings.
    progress : callable or None
        Called with ``"salvage"``, bytes checked, bytes to check.
    environment : Environment or None
        None = the system's.
    as_ : TopicPartition or None
        What partition the directory is a copy of, whose name says something else.

    Attributes
    ----------
    files : list of SegmentFile
        The ``.log`` files, ascending; those of an interrupted compaction behind the old ones.
    reasons : dict
        By number of the file and position: why bytes are no batch, of those that were gone through.
    log_start_offset : int
        As the checkpoints have it.
    first_offset : int
        Where the first file begins that is gone through, or the records before it that are missing.
    known_end : int
        Offsets below it had been given out, as far as the files show.
    synced_end : int
        Records below it had been synced, where nothing deleted them.
    gapless_from : int or None
        No offset from here on is missing in the log; None where nothing tells.
    missing : list of MissingRecords
        What is proven to be missing between its files.
    """

    def __init__(
        self,
        path: str,
        report: SalvageReport,
        progress: Callable[[str, int, int], None] | None,
        environment: Environment | None,
        as_: TopicPartition | None = None,
    ) -> None:
        self._report = report
        self._progress = progress
        self._done = 0
        self.reasons: dict[tuple[int, int], NoBatch] = {}
        self.directory, topic_partition = open_partition_directory(
            path, read_only=True, environment=environment, as_=as_
        )
        try:
            parent = open_parent_directory(path, environment, topic_partition)
            try:
                found = CheckpointStore(
                    self.directory, parent, topic_partition, is_for_writing=False
                ).read()
            finally:
                if parent is not None:
                    parent.close()
            report.warnings += found.warnings
            self.log_start_offset = found.log_start_offset
            self._context = context = _core.SegmentContext(
                self.directory, codec_table(), writable=False, heap_indexes=True
            )
            self.files = self._log_files(context)
            self._segments = self._open_segments(context)
            state, epochs, doubt = self._read_state()
            self.gapless_from = None if state is None else state.contiguous_from
            self._epochs = None
            if state is not None:
                self._epochs = BatchEpochs(state, () if epochs is None else epochs.entries)
            points = [self.files[-1].offset, found.recovery_point or 0]
            marker, named_end = found.own_marker, 0
            if (
                marker is not None
                and found.recovery_point in {None, marker.log_end_offset}
                and state is not None
                and state.fits(marker.latest_epoch)
            ):
                points.append(marker.log_end_offset)  # as an open believes it
            else:
                named_end = self._named_end()
            self.synced_end = max(point for point in points if point < _far(self))
            names = self.directory.segment_listing().base_offsets("snapshot")
            snapshots = [offset for offset in names if offset < _far(self)]
            # a snapshot has the name of the log end of its time
            self.known_end = max([self.synced_end, *snapshots, named_end])
        except BaseException:
            self.directory.close()
            raise
        segments = [segment for _, segment in self._segments]
        self.missing = self._missing(segments)
        self.first_offset = min(
            (segment.base_offset for segment in segments), default=self.files[0].offset
        )
        told = () if epochs is None else epochs.entries
        missing = first_missing_offset(
            segments, found, told, state, Segment.read_next_offset, self._first_shown_before
        )
        small = read_small_files(self.directory, is_for_writing=False)
        if (lost := lost_state(small, found)) is not None:
            missing = self._begin_in_doubt(f"{LOG_STATE} {lost}", found, told)
        if doubt is not None:
            missing = self._begin_in_doubt(doubt, found, ())
        if missing is not None and self._segments and self._segments[0][0] == 0:
            self.first_offset = missing
        self._size_bytes = sum(segment.size_bytes for _, segment in self._segments)

    def _first_shown_before(self, first_offset: int, first_base_offset: int) -> int | None:
        """As of a `Survey`; the range is among those that are missing then."""
        found = first_shown_before(self.directory, first_offset, first_base_offset)
        if found is not None:
            missing = MissingRecords(found, first_base_offset, file_name(found, "index"))
            self.missing.insert(0, missing)
        return found

    def _missing(self, segments: list[Segment]) -> list[MissingRecords]:
        try:
            missing = missing_of(self.directory, segments)
            names = self.directory.names()
            damaged = damaged_notes(self.directory, names)
        except (NotALogError, ReadIOError) as error:
            self._believe_gaps(f"{MISSING_RECORDS} cannot be read: {error}")
            return []
        for name in damaged:
            self._believe_gaps(f"{name} is damaged")
        kept = kept_indexes(names)
        self._report.warnings += [kept_index_text(self.directory, name) for name in kept]
        return missing

    def _named_end(self) -> int:
        """Return the offset after the last one that only an index names; 0 = none.

        That is the index of the last segment, or one after it that has no ``.log``. The first says
        nothing where the ``.log`` ends in bytes that are no batch: they are reported.
        """
        if not self._segments:
            return 0
        _, last = self._segments[-1]
        base = last.base_offset
        lone = [one for one in lone_indexes(self.directory) if one.base_offset > base]
        if lone:
            return max(one.last_offset for one in lone) + 1
        with suppress(CorruptLogError, CorruptRecordError, LogNotFoundError, ReadIOError):
            end, ends_clean = last.read_next_offset()
            if ends_clean:
                named = named_behind(self.directory, base, max(end, base), last.size_bytes)
                return 0 if named is None else named + 1
        return 0

    def _begin_in_doubt(
        self, doubt: str, found: StoredState, told_epochs: Sequence[EpochEntry]
    ) -> int:
        """Return where the log begins when nothing tells which of its gaps lost records."""
        self._believe_gaps(doubt)
        return min(begin_without_state(found, told_epochs), self.first_offset)

    def _log_files(self, context: SegmentContext) -> list[SegmentFile]:
        """Return the ``.log`` files; a whole ``.swap`` stands for what it replaces [LDR-4]."""
        files = segment_files(self.directory.names())
        plain = [file for file in files if file.kind == "log" and not file.suffix]
        for swap in sorted(file for file in complete_swaps(files) if file.kind == "log"):
            end = end_of_swap(swap.offset, context)
            state = "damaged" if end is None else "whole"
            self._report.warnings.append(
                f"a compaction was interrupted: {swap.name}, which is {state}, is read too"
            )
            if end is not None:
                plain = [file for file in plain if not swap.offset <= file.offset < end]
            plain.append(swap)
        if not plain:
            raise NotALogError(
                "the directory holds no .log file: there is no log to salvage"
                f"{quarantine_hint(self.directory)}",
                file=self.directory.path,
                found="no .log file",
                expected="one .log file at least",
            )
        return sorted(plain)

    def _read_state(self) -> tuple[LogState | None, LeaderEpochFileCache | None, str | None]:
        """Return what ``.segstore`` says, if it is of the writer who wrote last [DUR-64].

        A broker that wrote behind it has raised the leader epoch. Where the checkpoint is lost, the
        batches that are left tell that: none of them is of a later epoch [DUR-21]. Where it may be
        one that was not written, what contradicts it comes third.
        """
        try:
            state = LogState.read(self.directory)
        except SegstoreError:
            return None, None, None
        try:
            epochs = LeaderEpochFileCache.read(self.directory, writable=False, is_strict=True)
        except SegstoreError as error:
            self._report.warnings.append(f"{LEADER_EPOCH_CHECKPOINT} cannot be read: {error}")
            epochs = None
        if state is None:
            return None, epochs, None
        why = doubt = None
        if epochs is None:
            latest = -1 if state.latest_epoch is None else state.latest_epoch.epoch
            found = self._latest_epoch_of_batches()
            why = None if found <= latest else f"a batch has epoch {found}, above its {latest}"
        else:
            segments, start = [one for _, one in self._segments], self.log_start_offset
            if not state.fits(epochs.latest_entry):  # else a batch that differs is the wrong one
                doubt = contradiction_of_epochs(epochs.entries, state, segments, start)
                why = f"{LEADER_EPOCH_CHECKPOINT} is of another program that wrote since"
                why = why if doubt is None else None
        if why is not None:
            self._believe_gaps(f"{LOG_STATE} is ignored: {why}")
        return (state if why is None and doubt is None else None), epochs, doubt

    def _believe_gaps(self, why: str) -> None:
        self._report.warnings.append(
            f"{why}: missing offsets count as deleted, and may be lost records"
        )

    def _latest_epoch_of_batches(self) -> int:
        latest = -1
        for _, segment in self._segments:
            with suppress(SegstoreError):  # damage is told by who copies it
                for headers, _ in segment.scan_windows(check_crc=False):
                    latest = max(latest, int(headers["partition_leader_epoch"].max(initial=-1)))
        return latest

    def _open_segments(self, context: SegmentContext) -> list[tuple[int, Segment]]:
        """Open the segments that hold offsets from the log start on."""
        opened = []
        skipped = 0
        last_base = self.files[-1].offset
        for number, file in enumerate(self.files):
            later = [other.offset for other in self.files[number + 1 :][:1]]
            if later and later[0] <= self.log_start_offset <= last_base:
                skipped += 1
                continue
            try:
                opened.append((number, Segment(context, file.offset, suffix=file.suffix)))
            except LogNotFoundError:
                continue  # its writer deleted it while we looked
            except (NotALogError, ReadIOError, CorruptLogError) as error:
                no_file = isinstance(error, NotALogError)
                code = FindingCode.FILE_IS_NO_FILE if no_file else FindingCode.FILE_UNREADABLE
                why, os_error = error.message, error.os_error
                next_offset = later[0] if later else None
                self._report.lose(
                    LostRange(file.name, 0, 0, file.offset, next_offset, why, code, os_error)
                )
        if skipped:
            self._report.warnings.append(
                f"{skipped} segments lie below the log start {self.log_start_offset}: their records"
                " had been deleted"
            )
        return opened

    def batches(self) -> Iterator[ChosenBatches]:
        """Yield tables of rows that cover every byte, and which of the rows are to be copied."""
        bases, epochs = [file.offset for file in self.files], self._epochs
        for chosen in choose_batches(
            self._tables(), bases, self.gapless_from, end_offset=self.known_end
        ):
            if epochs is None:
                yield chosen
            else:
                yield chosen._replace(kept=epochs.without_older(chosen.rows, chosen.kept))
        if epochs is not None and epochs.first_differing is not None:
            row, expected = epochs.first_differing
            name = self.files[row["segment"]].name
            self._report.warnings.append(other_epochs(name, row, expected, epochs.differing))

    def _tables(self) -> Iterator[np.ndarray]:
        for number, segment in self._segments:
            name = self.files[number].name
            search = BatchSearch(
                self.directory, segment, name, number, self.reasons, self._note_progress
            )
            try:
                yield from search.rows()
            finally:
                segment.close_quietly()

    def first_missing(self, first_offset: int, next_offset: int) -> int | None:
        """Return the first offset of a gap between batches whose record is missing.

        *next_offset* when the gap is known to be none, None when nothing tells.
        """
        proven = next_offset
        for one in self.missing:
            if one.first_offset < next_offset and one.next_offset > first_offset:
                proven = min(proven, max(one.first_offset, first_offset))
        if self.gapless_from is None:
            return None if proven == next_offset else proven
        return min(proven, max(first_offset, self.gapless_from))

    @contextmanager
    def open_file(self, name: str) -> Iterator[Segment]:
        """Open a ``.log`` file again, to read."""
        (file,) = [file for file in self.files if file.name == name]
        segment = Segment(self._context, file.offset, suffix=file.suffix)
        try:
            yield segment
        finally:
            segment.close_quietly()

    def note_quarantined(self) -> None:
        """Report what stands in quarantine files: no part of the log any more, and not copied."""
        bases = [file.offset for file in self.files if not file.suffix]
        files = quarantined_files(self.directory, self._context, bases, self.log_start_offset)
        if any(found.batches for found in files):
            self._report.warnings.append(
                f"records that an open for writing had taken out are not copied; {WAY_BACK}"
            )
        for found in files:
            if not found.batches:
                self._report.quarantined.append(str(found))
                continue
            self._report.lose(
                LostRange(
                    found.name,
                    0,
                    found.size_bytes,
                    found.first_offset,
                    found.next_offset,
                    "an open for writing had taken these records out of the log",
                    FindingCode.RECORDS_MISSING,
                )
            )

    def _note_progress(self, more: int) -> None:
        self._done += more
        if self._progress is not None:
            self._progress("salvage", self._done, self._size_bytes)

    def close(self) -> None:
        """Let go of the files."""
        for _, segment in self._segments:
            segment.close_quietly()
        self.directory.close()


def _far(source: SalvageSource) -> int:
    """Return an end that no log with these files has: a checkpoint has no checksum."""
    return source.files[-1].offset + 2**31
