"""What an open for writing would do to a log, found by the loader itself; nothing is written.

`LogLoader`, `LogRecovery`, `Leftovers` and `Quarantine` decide here as they do at an open, so that
a forecast cannot say something else than the open then does. They only get a directory that keeps
changes to itself, and segments that scan where those of a writer would cut and rebuild.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

import numpy as np

import segstore._core as _core
from segstore.config import MAX_LONG
from segstore.errors import LogNotFoundError, NotALogError, SegstoreError
from segstore.log.files.checkpoint_store import CheckpointStore
from segstore.log.files.partition_directory import file_name
from segstore.log.files.partition_path import (
    absolute_path,
    open_parent_directory,
    open_partition_directory,
)
from segstore.log.local.segment import Segment
from segstore.log.recovery.log_loader import LogLoader
from segstore.log.recovery.recovery_report import RecoveryReport
from segstore.records.compression import codec_table

if TYPE_CHECKING:
    import os
    from array import array
    from collections.abc import Callable, Collection

    from segstore.log.files.prepared_file import PreparedFile

_DEFAULT_MAX_BYTES: Final = 67108864


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenForecast:
    """What an open for writing would do.

    Attributes
    ----------
    report : RecoveryReport
        What it would report, as far as it came.
    error : SegstoreError or None
        What it would raise.
    truncations : dict
        Base offset of a segment to the byte at which its ``.log`` would be cut.
    reindexed : frozenset of int
        Base offsets of the segments whose index files would be built anew.
    recovered : frozenset of int
        Base offsets of those that would be read whole, and their transactions with them.
    split : int or None
        Base offset of a segment that would be split; what comes behind that is not foretold.
    """

    report: RecoveryReport
    error: SegstoreError | None = None
    truncations: dict[int, int] = field(default_factory=dict)
    reindexed: frozenset[int] = frozenset()
    recovered: frozenset[int] = frozenset()
    split: int | None = None

    def replaces_transaction_index(self, base_offset: int) -> bool:
        """Whether that of a segment is made anew from the batches [DUR-52]."""
        return base_offset in self.recovered

    def replaces_snapshot(self, offset: int, offsets: Collection[int]) -> bool:
        """Whether the snapshot of *offset*, which cannot be read, is deleted [PSM-56, PSM-60].

        *offsets* are those of all snapshots: the open tries the newest up to where it begins.
        """
        if self.error is not None:
            return False
        begin = min(self.recovered, default=self.report.log_end_offset)
        return offset > begin or offset == max(one for one in offsets if one <= begin)

    def keeps_tail_of(self, base_offset: int) -> bool:
        """Whether a copy of what is cut from that segment is kept: of zeros there is none."""
        prefix = f"{base_offset:020d}."
        return any(name.startswith(prefix) for name in self.report.quarantined)

    def sets_aside(self, base_offset: int) -> bool:
        """Whether the whole segment is taken out of the log."""
        prefix = f"{base_offset:020d}."
        return any(name.startswith(prefix) for name in self.report.set_aside)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        error = None if self.error is None else f"{type(self.error).__name__}: {self.error}"
        return {"error": error, "report": self.report.to_dict()}


def forecast_open(
    path: str | os.PathLike[str],
    progress: Callable[[str, int, int], None] | None = None,
    *,
    environment: _core.Environment | None = None,
) -> OpenForecast:
    """Return what ``segstore.open(path)`` would do; no lock is taken, nothing is made or written.

    Raises
    ------
    LogNotFoundError
        There is nothing at *path*.
    """
    full_path = absolute_path(path)
    report = RecoveryReport()
    try:
        _core.Directory(
            full_path, environment
        ).close()  # where it is missing the open would make it
        directory, topic_partition = open_partition_directory(
            full_path, read_only=False, environment=environment
        )
    except LogNotFoundError:
        raise
    except SegstoreError as refused:
        return OpenForecast(report=report, error=refused)
    parent = None
    overlay: Any = _OverlayDirectory(directory)
    segments: list[_ForecastSegment] = []
    error: SegstoreError | None = None
    recovered: frozenset[int] = frozenset()
    split: int | None = None
    try:
        parent = open_parent_directory(full_path, environment)
        context = _core.SegmentContext(directory, codec_table(), writable=False, heap_indexes=True)
        checkpoint_store = _ReadOnlyCheckpointStore(overlay, parent, topic_partition)
        loader = _ForecastLoader(overlay, checkpoint_store, context, report, progress)
        segments = loader.opened
        loaded = loader.load()
        recovered = loaded.recovered
    except _SplitNeededError as needed:
        split = needed.base_offset
    except SegstoreError as raised:
        error = raised
    finally:
        reindexed = frozenset(segment.base_offset for segment in segments if segment.is_reindexed)
        truncations = {
            segment.base_offset: segment.cut_at for segment in segments if segment.is_cut
        }
        for segment in segments:
            segment.close_quietly()
        directory.close()
        if parent is not None:
            parent.close()
    if error is not None:
        return OpenForecast(report=report, error=error)
    return OpenForecast(
        report=report,
        truncations=truncations,
        reindexed=reindexed,
        recovered=recovered,
        split=split,
    )


class _SplitNeededError(Exception):
    """The forecast ends: what a split makes would have to be made first."""

    def __init__(self, base_offset: int) -> None:
        super().__init__(base_offset)
        self.base_offset = base_offset


class _ReadOnlyCheckpointStore(CheckpointStore):
    """Reads checkpoints and markers, and leaves them."""

    def remove_clean_markers(self) -> None:
        """Leave them."""

    def write_recovery_point(self, offset: int) -> None:
        """Leave it."""

    def write_log_start(self, offset: int, prepared: PreparedFile | None = None) -> None:
        """Leave it."""


class _ForecastLoader(LogLoader):
    """Loads as a writer does, with segments and a directory that change nothing."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.opened: list[_ForecastSegment] = []

    def _open_segments(self, base_offsets: array[int]) -> list[Segment]:
        overlay: Any = self._directory
        for base in base_offsets:
            name = file_name(base, "log")
            suffix = overlay.real_name(name).removeprefix(name)
            self.opened.append(_ForecastSegment(self._context, base, suffix=suffix))
        return [*self.opened]

    def _split(self, overflowed: Segment, segments: list[Segment]) -> None:  # noqa: ARG002
        self._report.warnings.append(
            f"{overflowed.name} holds offsets that do not fit its base offset: it would be split,"
            " and what comes then cannot be told before"
        )
        raise _SplitNeededError(overflowed.base_offset)

    def _make_segment(self, base_offset: int) -> Segment:
        return cast("Segment", _NewSegment(base_offset))


class _NewSegment:
    """The empty segment that an open would make."""

    size_bytes = 0

    def __init__(self, base_offset: int) -> None:
        self.base_offset = base_offset

    def prepare_for_appends(self) -> None:
        """Nothing to prepare."""


class _Place(NamedTuple):
    """Where a batch begins; all that a recovery asks for."""

    position: int


class _ForecastSegment(Segment):
    """A segment opened to read, which takes a writer's calls."""

    cut_at: int
    is_cut = False
    is_reindexed = False

    @property
    def size_bytes(self) -> int:
        """Size after the cut."""
        return self.cut_at if self.is_cut else super().size_bytes

    def recover(self, *, cut_at: int = MAX_LONG, **how: Any) -> Any:
        """Scan as a recovery does."""
        how.setdefault("check_order", True)
        headers, scan = self.scan(**how)
        self.is_reindexed = True
        before = self.size_bytes
        if scan.valid_bytes < before and cut_at in {scan.valid_bytes, MAX_LONG}:
            self.cut_at, self.is_cut = scan.valid_bytes, True
        return headers, _core.Recovery(scan, before - self.size_bytes)

    def translate_offset(
        self, offset: int, max_position: int = 2**63 - 1, *, start_position: int = 0
    ) -> Any:
        """Look no further than the cut: what stands behind it would be gone."""
        if not self.is_cut:
            return super().translate_offset(offset, max_position, start_position=start_position)
        for headers, _ in self.scan_windows(check_crc=False, end_position=self.cut_at):
            at = int(np.searchsorted(headers["last_offset"], offset))
            if at < len(headers):
                return _Place(int(headers["position"][at]))
        return None

    def close_quietly(self) -> None:
        """Close the files; what was cut stays known."""
        if not self.closed:
            super().close_quietly()

    def rewrite(self, position: int) -> None:
        """Leave it."""

    def flush(self, barrier: _core.Barrier, *, indexes: bool = False) -> None:
        """Nothing to flush."""

    def delete_files(self) -> None:
        """Leave them."""

    def prepare_for_appends(self) -> None:
        """Nothing is appended."""


class _OverlayDirectory:
    """A directory whose changes are only noted: names that went, came, or are other files now."""

    def __init__(self, directory: _core.Directory) -> None:
        self._directory = directory
        self._real_names: dict[str, str] = {name: name for name in directory.names()}
        self._written: dict[str, bytes] = {}

    @property
    def path(self) -> str:
        return self._directory.path

    def real_name(self, name: str) -> str:
        """Return under which name the file is on disk."""
        return self._real_names.get(name, name)

    def names(self, *, ordered: bool = True) -> list[str]:  # noqa: ARG002 - always are
        return sorted({*self._real_names, *self._written})

    def segment_listing(self) -> _core.SegmentListing:
        return _core.SegmentListing(self.names())

    def exists(self, name: str) -> bool:
        return name in self._written or name in self._real_names

    def info(self, name: str) -> _core.FileInfo:
        if name in self._written:
            return _core.FileInfo(
                len(self._written[name]), 0, 0, is_directory=False, is_regular=True, inode=0
            )
        return self._directory.info(self._real_names.get(name, name))

    def read_file(self, name: str, max_bytes: int = _DEFAULT_MAX_BYTES) -> bytes:
        if name in self._written:
            return self._written[name]
        return self._directory.read_file(self._real_names.get(name, name), max_bytes)

    def read_range(self, name: str, position: int, size: int) -> bytes:
        return self._directory.read_range(self._real_names.get(name, name), position, size)

    def rename(self, old: str, new: str) -> None:
        self._real_names[new] = self._real_names.pop(old)

    def unlink(self, name: str, *, missing_ok: bool = False) -> None:
        if self.exists(name) and self.info(name).is_directory:
            raise NotALogError(
                "this is a directory",
                file=f"{self.path}/{name}",
                found="a directory",
                expected="a file",
            )
        known = self._real_names.pop(name, None) or self._written.pop(name, None)
        if known is None and not missing_ok:
            raise LogNotFoundError("there is no such file", file=f"{self.path}/{name}")

    def create_file(self, name: str, data: bytes, barrier: _core.FileBarrier) -> None:
        del barrier
        self._written[name] = bytes(data)

    def write_file_atomically(self, name: str, data: bytes, barrier: _core.FileBarrier) -> None:
        del barrier
        self._written[name] = bytes(data)

    def sync(self, barrier: _core.Barrier) -> None:
        """Nothing was written."""
