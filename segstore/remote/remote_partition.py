"""One partition at a URL: which of its files a reader needs, and the log opened on just those.

A part of a log is opened as the log was once: some segments and, where more follow, an empty one
behind them, as right after a roll. So the engine judges bytes, gaps and ends as it always does. Its
recovery point is where the part ends: what lies below is never taken for a torn tail, and damage is
an error. A log that a listing shows to be no plain one is fetched whole.
"""

from __future__ import annotations

from bisect import bisect_right
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple

from segstore._core import FetchedFiles
from segstore.errors import CorruptLogError, LimitExceededError, NotALogError, SegstoreError
from segstore.log.files.checkpoints import LEADER_EPOCH_CHECKPOINT, LOG_STATE, MISSING_RECORDS
from segstore.log.files.partition_directory import (
    DELETED_FILE_SUFFIX,
    LOG_FILE_SUFFIX,
    SWAP_FILE_SUFFIX,
    directory_name,
    file_name,
    has_indexes,
    parse_file_name,
    segment_files,
)
from segstore.log.files.partition_path import OWN_FILES
from segstore.log.files.stored_state import StoredState
from segstore.log.log_environment import STANDALONE, LogEnvironment
from segstore.log.log_opener import open_partition
from segstore.log.open_options import open_options
from segstore.log.producers.producer_snapshot import open_transactions
from segstore.remote.block_reader import BlockReader
from segstore.remote.remote_facts import ABOVE, BESIDE, RemoteFacts, read_facts
from segstore.types import Isolation

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from segstore.log.files.file_origin import FileOrigin
    from segstore.log.unified_log import Log
    from segstore.remote.remote_file import FileReader, Folder, RemoteFile, RemoteStore
    from segstore.remote.spool import Spool
    from segstore.remote.spool_view import SpoolView
    from segstore.types import TopicPartition

_OF_SEGMENT: Final = (LOG_FILE_SUFFIX, "index", "timeindex")
_SNAPSHOT: Final = "snapshot"


class RemotePart(NamedTuple):
    """A log that holds some of the whole one's segments.

    Attributes
    ----------
    log : Log
        Open, for reading only.
    end_offset : int
        Up to there it answers as the whole log does.
    isolation : Isolation
        To read it with.
    """

    log: Log
    end_offset: int
    isolation: Isolation


def _is_of_a_log(name: str) -> bool:
    """Whether a file says something of the log: what is being deleted does not."""
    parsed = parse_file_name(name)
    return name in OWN_FILES if parsed is None else parsed.suffix != DELETED_FILE_SUFFIX


def _is_settled(log: Log, end_offset: int) -> bool:
    """Whether *log* holds the end of each transaction of records below, or damage that hides it."""
    stable = log.last_stable_offset
    if stable >= end_offset:
        return True
    try:
        log.read(stable, 1, Isolation.READ_COMMITTED)
    except SegstoreError:
        return True
    return False


class RemotePartition:
    """A partition as it was listed; what is read is just that, or an error.

    Parameters
    ----------
    store : RemoteStore
        Of the log directory.
    spool : Spool
        Takes what is read.
    topic_partition : TopicPartition
        Which.
    above, folder : Folder
        Listings of the log directory and of the partition's.
    """

    def __init__(
        self,
        store: RemoteStore,
        spool: Spool,
        topic_partition: TopicPartition,
        above: Folder,
        folder: Folder,
    ) -> None:
        self.topic_partition = topic_partition
        self._store = store
        self._shown = folder.shown
        self._lost = folder.lost
        self._reader: FileReader = store if folder.shown is None else folder.shown.reader
        self._spool = spool
        self._above: dict[str, RemoteFile] = {
            name: above.files[name] for name in ABOVE if name in above.files
        }
        self._files = {name: file for name, file in folder.files.items() if _is_of_a_log(name)}
        parsed = segment_files(self._files)
        self._segments = {
            file.offset: self._files[file.name]
            for file in sorted(parsed)
            if file.kind == LOG_FILE_SUFFIX and not file.suffix
        }
        self.base_offsets = list(self._segments)
        self.has_indexes = has_indexes(parsed)
        offsets = (one.offset for one in parsed if one.kind == _SNAPSHOT and not one.suffix)
        self._snapshots = sorted(offsets, reverse=True)
        self._has_swaps = any(file.suffix == SWAP_FILE_SUFFIX for file in parsed)

    @property
    def url(self) -> str:
        """Of the partition, for people."""
        return f"{self._store.url}/{directory_name(self.topic_partition)}"

    @property
    def is_held(self) -> bool:
        """Whether there is a log, or what one has left."""
        return bool(self.base_offsets) or self.has_indexes or self._lost is not None

    def check_not_lost(self) -> None:
        """Raise NotALogError when the log has lost all of its ``.log`` files.

        Or what the store says of a log of which it can show nothing.
        """
        if self._lost is not None:
            raise self._lost
        if not self.base_offsets:
            raise NotALogError(
                "there are indexes, and no segment: the .log files of this partition are lost, or"
                " not there yet",
                file=self.url,
                found="no .log file",
                expected="one at least",
            )

    @property
    def identity(self) -> tuple[object, ...]:
        """Two listings with the same are of the same files."""
        return self._above, self._files

    @cached_property
    def facts(self) -> RemoteFacts:
        """What its small files say; those are fetched."""
        small = [name for name in BESIDE if name in self._files]
        with self._view(small, self._above) as view:
            folder = view.path / directory_name(self.topic_partition)
            return read_facts(folder, self.topic_partition, self._segments)

    def size_of(self, base_offset: int) -> int:
        """Return the bytes of the ``.log`` file of a segment."""
        return self._segments[base_offset].size_bytes

    def index_of(self, offset: int) -> int:
        """Return the place in ``base_offsets`` of the segment that *offset* is in."""
        return max(0, bisect_right(self.base_offsets, offset) - 1)

    @contextmanager
    def open_whole(self) -> Iterator[Log]:
        """Fetch all of the log and open that: everything is as it would be on a local disk."""
        with (
            self._view(self._files, self._above) as view,
            self._opened(view, self._files, STANDALONE) as log,
        ):
            self._require_end(log)
            yield log

    def _require_end(self, log: Log) -> None:
        """Raise where the last segment ends before its copy was said to: its end is damaged."""
        shown = self._shown
        if shown is None or shown.end_offset is None or log.log_end_offset >= shown.end_offset:
            return
        error = CorruptLogError(
            f"the end of the last segment is damaged: no batch of it holds the records from"
            f" {log.log_end_offset} to {shown.end_offset - 1}; {shown.way_on}",
            file=f"{self.url}/{file_name(self.base_offsets[-1], LOG_FILE_SUFFIX)}",
            found=f"a log that ends at {log.log_end_offset}",
            expected=f"{shown.end_offset}, as its manifest says",
        )
        self._rename(error, self.url)
        raise error

    @contextmanager
    def open_end(self, isolation: Isolation) -> Iterator[Log]:
        """Fetch what decides where the log ends, and open that.

        Its log end, recovery point and, for ``read_committed``, last stable offset are those of the
        whole log; its log start may lie above.
        """
        first, snapshot = self._begin_of_end(isolation)
        if first == 0:
            with self.open_whole() as log:
                yield log
            return
        found = self._found_to_end(first, self.facts.recovery_point)
        with self._part(self.base_offsets[first:], snapshot, None, found) as log:
            report = log.report
            if (  # else it takes the whole log to tell
                log.log_start_offset == found.log_start_offset
                and report.damage is None
                and (report.clean or not self.facts.is_clean)
                and (snapshot is None or snapshot <= min(log.durable_offset, log.log_end_offset))
            ):
                yield log
                return
        with self.open_whole() as log:
            yield log

    @contextmanager
    def open_part(
        self, offset: int, until_offset: int, isolation: Isolation
    ) -> Iterator[RemotePart]:
        """Fetch what the records from *offset* on need, and open that.

        Offsets below *until_offset* are known to be visible.
        """
        if not self.facts.is_plain or self._has_swaps:
            with self.open_whole() as log:
                yield RemotePart(log, until_offset, isolation)
            return
        index = self.index_of(offset)
        behind, step = index + 1, 1
        while True:
            is_last = behind >= len(self.base_offsets)
            end = until_offset
            if index + 1 < len(self.base_offsets):
                end = min(until_offset, self.base_offsets[index + 1])
            with self._open_segments(index, behind, end) as log:
                is_committed = isolation is Isolation.READ_COMMITTED
                if is_last or not is_committed or _is_settled(log, end):
                    # what is durable the end has told: no part knows a batch that reaches over it
                    known = isolation is Isolation.DURABLE
                    yield RemotePart(log, end, Isolation.READ_UNCOMMITTED if known else isolation)
                    return
            behind, step = min(behind + step, len(self.base_offsets)), step * 2

    @contextmanager
    def _open_segments(self, index: int, behind: int, end: int) -> Iterator[Log]:
        """Open segments by their numbers; the records below *end* are known to be whole."""
        bases = self.base_offsets[index:behind]
        if behind < len(self.base_offsets):
            following = self.base_offsets[behind]
            log_start = max(self.base_offsets[index], self.facts.found.log_start_offset)
            found = StoredState(log_start, following, parent_is_clean=False, own_marker=None)
            # a store that shows a log has one for each segment: which transactions are open there
            has_snapshot = self._shown is not None and following in self._snapshots
            with self._part(bases, following if has_snapshot else None, following, found) as log:
                yield log
            return
        known_clean = self.facts.is_clean
        found = self._found_to_end(index, self.facts.recovery_point if known_clean else end)
        with self._part(bases, None, None, found) as log:
            yield log

    # ---- which segments --------------------------------------------------------------------------

    def _begin_of_end(self, isolation: Isolation) -> tuple[int, int | None]:
        """Return the number of the first segment that decides the end, and the snapshot for it."""
        facts = self.facts
        if not facts.is_plain or self._has_swaps:
            return 0, None
        first = self.index_of(facts.synced_below)
        if isolation is not Isolation.READ_COMMITTED:
            return first, None
        for offset in self._snapshots:  # that which a local reader takes
            if not self.base_offsets[0] <= offset <= facts.synced_below:
                continue
            transactions = self._read_snapshot(offset)
            if transactions is not None:  # one of those that end above may be the first open one
                begin = min(transactions.values(), default=offset)
                return min(first, self.index_of(min(begin, offset))), offset
        return 0, None

    def _read_snapshot(self, offset: int) -> dict[int, int] | None:
        """Return the transactions open at *offset*, None where the snapshot does not tell."""
        file = self._files[file_name(offset, _SNAPSHOT)]
        with self._spool.new_view() as view:
            place = view.path / file.name
            self._spool.link(self._reader, file, place)
            try:
                return open_transactions(place.read_bytes())
            except LimitExceededError:
                return None

    # ---- opening ---------------------------------------------------------------------------------

    def _found_to_end(self, first: int, recovery_point: int | None) -> StoredState:
        """Return what was found, for a log that begins with the segment number *first*."""
        marker = self.facts.marker
        if marker is not None:
            sizes = [self.size_of(base) for base in self.base_offsets[first:]]
            marker = replace(marker, segments=len(sizes), size_bytes=sum(sizes))
        return StoredState(
            max(self.base_offsets[first], self.facts.found.log_start_offset),
            recovery_point,
            parent_is_clean=self.facts.found.parent_is_clean,
            own_marker=marker,
        )

    @contextmanager
    def _part(
        self,
        bases: Iterable[int],
        snapshot: int | None,
        following: int | None,
        found: StoredState,
    ) -> Iterator[Log]:
        names = [file_name(base, kind) for base in bases for kind in _OF_SEGMENT]
        names += [LEADER_EPOCH_CHECKPOINT, MISSING_RECORDS]
        if snapshot is not None:
            names.append(file_name(snapshot, _SNAPSHOT))
        names = [name for name in names if name in self._files]
        with self._view(names) as view:
            name = directory_name(self.topic_partition)
            if self.facts.state is not None:
                view.write(f"{name}/{LOG_STATE}", self.facts.state.format())
            if following is not None:
                view.write(f"{name}/{file_name(following, LOG_FILE_SUFFIX)}", b"")
            with self._opened(view, names, LogEnvironment(found=found)) as log:
                yield log

    @contextmanager
    def _opened(
        self, view: SpoolView, names: Iterable[str], log_environment: LogEnvironment
    ) -> Iterator[Log]:
        """Open the log on a view with files of these names."""
        path = view.path / directory_name(self.topic_partition)
        blocks: BlockReader | None = None
        with ExitStack() as stack:
            if self._shown is not None:
                files = [file for file in map(self._files.__getitem__, names) if file.block_bytes]
                blocks = BlockReader(self._shown.reader, self._spool, files)
                stack.callback(blocks.close)
                log_environment = log_environment._replace(
                    origins=self._origins(),
                    environment=FetchedFiles(dict(blocks.files)),
                    is_fixed=True,
                    lineage=self._shown.lineage,
                    max_timestamps=self._shown.max_timestamps,
                )
            try:
                log = open_partition(path, open_options(read_only=True), log_environment)
                stack.callback(log.close)
            except SegstoreError as error:
                self._rename(error, str(path))
                raise
            finally:
                if blocks is not None and blocks.gone is not None:  # another listing may help
                    raise blocks.gone from None
            # Errors of all that reads the log name the URL; the view ends with the log.
            log._directory.note_renamed(self.url)  # noqa: SLF001 - no local log is renamed so
            if self._shown is not None:
                log.report.warnings += self._shown.notes
            yield log

    def _origins(self) -> dict[str, FileOrigin]:
        return {name: file.origin for name, file in self._files.items() if file.origin is not None}

    def _rename(self, error: SegstoreError, path: str) -> None:
        """Let an error of the open of a view at *path* name what is there for longer."""
        error.rename(path, self.url)
        origin = self._origins().get((error.file or "").removeprefix(f"{self.url}/"))
        if origin is not None:
            origin.locate(error)

    @contextmanager
    def _view(self, names: Iterable[str], above: Iterable[str] = ()) -> Iterator[SpoolView]:
        """Make a folder with these files of the partition, and of the log directory."""
        with self._spool.new_view() as view:
            folder = view.path / directory_name(self.topic_partition)
            folder.mkdir()
            links: list[tuple[FileReader, RemoteFile, Path]] = [
                (self._store, self._above[name], view.path / name) for name in above
            ]
            for name in names:
                file = self._files[name]
                if file.block_bytes:
                    view.stand_in(f"{folder.name}/{name}", file.size_bytes, file.modified_ns)
                elif self._shown is not None:  # made from the listing, or empty
                    data = self._reader.read_range(file, 0, file.size_bytes)
                    view.write(f"{folder.name}/{name}", data)
                else:
                    links.append((self._reader, file, folder / name))
            if links:
                with ThreadPoolExecutor(self._store.requests_at_once) as pool:
                    for _ in pool.map(lambda one: self._spool.link(*one), links):
                        continue  # the first error ends it
            yield view
