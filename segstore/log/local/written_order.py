"""The order in which batches were written, compared with what a read found.

No CRC covers the base offset of a batch, so a flipped bit in it shows records at other offsets,
or hides some. Where the writer left no gap, batches follow one another without one [DUR-7, DUR-79].
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from segstore._core import scan_headers
from segstore.errors import CorruptLogError
from segstore.log.files.checkpoints import LogState
from segstore.log.files.recovery_advice import salvage_hint
from segstore.log.local.batch_lineage import Lineage
from segstore.numpy_on_demand import np
from segstore.types import CURRENT_MAGIC

if TYPE_CHECKING:
    from collections.abc import Sequence

    from segstore._core import BatchHeaders, BatchTable, Directory
    from segstore.records.fetch_data_info import FetchDataInfo
    from segstore.types import EpochEntry


class WrittenOrder:
    """What a log says of its gaps; as a callable it looks at a fetch before its records are shown.

    Parameters
    ----------
    directory : Directory
        Of the partition.
    has_gaps : bool
        Offsets may be missing anywhere, as behind compaction.
    looks_away : bool
        A broker's own handle, which hands out what it finds.
    lineage : sequence of EpochEntry
        The leader epochs that the batches must have, ascending; empty: any.
    """

    __slots__ = ("_directory", "_epochs", "_lineage", "_looks_away", "_starts", "has_gaps")

    def __init__(
        self,
        directory: Directory,
        *,
        has_gaps: bool,
        looks_away: bool,
        lineage: Sequence[EpochEntry] = (),
    ) -> None:
        self._directory = directory
        self.has_gaps = has_gaps
        self._looks_away = looks_away
        self._lineage = Lineage(lineage)
        self._epochs = [entry.epoch for entry in lineage]
        self._starts = [entry.start_offset for entry in lineage]

    @property
    def gaps_hide_markers(self) -> bool:
        """Whether the ends of transactions may be missing where offsets are, as in a bucket.

        Compaction keeps them [SEL-8].
        """
        return bool(self._epochs)

    @property
    def state(self) -> LogState | None:
        """What the writer says on disk; None where it says nothing, or another wrote since."""
        if self.has_gaps or self._directory.closed:
            return None
        return LogState.read(self._directory)

    @property
    def contiguous_from(self) -> int | None:
        """From where on every offset was written, as the writer says on disk; None: unknown."""
        state = self.state
        return None if state is None else state.contiguous_from

    def is_contiguous_from(self, offset: int) -> bool:
        """Whether every offset from *offset* on was written, by what the writer says on disk."""
        begin = self.contiguous_from
        return begin is not None and begin <= offset

    def first_gap(self, headers: BatchHeaders, expected_offset: int) -> tuple[int, int] | None:
        """Return the first row of *headers* before which offsets are missing that were written.

        And the first of these. Source: [DUR-50, DUR-79].

        Parameters
        ----------
        headers : array of rows
            That follow one another in a file.
        expected_offset : int
            The first offset that is looked for, or the one behind the batch before.
        """
        ends = np.concatenate(([expected_offset], headers["last_offset"][:-1] + 1))
        gaps = headers["base_offset"] > ends
        if self._looks_away or not gaps.any() or int(headers["magic"].min()) < CURRENT_MAGIC:
            return None
        state = self.state
        if state is None:
            return None
        rows = np.flatnonzero(gaps & (ends >= state.contiguous_from))
        return (int(rows[0]), int(ends[rows[0]])) if len(rows) else None

    def has_all(self, table: BatchTable) -> bool:
        """Whether all batches of *table* are of one epoch of the lineage; asked without NumPy."""
        return not self._epochs or self._lineage.has_all(table)

    def first_of_other_epoch(
        self, headers: BatchHeaders, file: str | None, position: int
    ) -> tuple[int, CorruptLogError] | None:
        """Return the first row whose batch is not of the lineage, and what is told of it.

        Such a batch is one of a lost branch [SEL-4, DUR-141]. One that begins below the first
        epoch, where the log start lies inside it, is to have that epoch. Older formats tell none.

        Parameters
        ----------
        file, position : str or None, int
            Where the rows' positions count from, for the error.
        """
        if not self._epochs:
            return None
        entries = np.searchsorted(self._starts, headers["base_offset"], "right") - 1
        expected = np.take(self._epochs, np.maximum(entries, 0))
        found = headers["partition_leader_epoch"]
        rows = np.flatnonzero((found != expected) & (headers["magic"] >= CURRENT_MAGIC))
        if not len(rows):
            return None
        row = int(rows[0])
        return row, CorruptLogError(
            f"the batch at offset {int(headers['base_offset'][row])} is of a leader epoch that the"
            " newest leader's history does not have there",
            file=file,
            position=position + int(headers["position"][row]),
            found=f"leader epoch {int(found[row])}",
            expected=f"leader epoch {int(expected[row])}",
        )

    def check_first(self, file: str, position: int, asked: int, found: int) -> None:
        """Never answer a read of *asked* in silence with a batch that begins at *found*, above it.

        Raises
        ------
        CorruptLogError
            The log has no gap there.
        """
        if not self._looks_away and self.is_contiguous_from(asked):
            raise self.other_than_written(file, position, found, asked)

    def __call__(self, fetched: FetchDataInfo) -> tuple[int, CorruptLogError] | None:
        """Return how many bytes of a fetch are where they were written, and what is wrong behind.

        None: all of them. A batch begins inside the one before it, or behind offsets that were all
        written; what comes before that is shown, as always [DUR-79]. Which of the two is at another
        offset is known of the second, where the first follows a third one or is the one that was
        asked for; else none of them is shown.
        """
        place = fetched.fetch_offset_metadata.relative_position_in_segment
        if self._epochs:
            table, _ = scan_headers(fetched.records)
            other = None
            if not self.has_all(table):
                other = self.first_of_other_epoch(table.array, fetched.file, place)
            if other is not None:
                return int(table.array["position"][other[0]]), other[1]
        headers = None if self._looks_away else _headers_with_a_gap(fetched)
        if headers is None:
            return None
        begins, expected = headers["base_offset"][1:], headers["last_offset"][:-1] + 1
        differing = np.flatnonzero(begins != expected)
        if len(differing) == 0:
            return None
        row = int(differing[0])
        found, right = int(begins[row]), int(expected[row])
        if found >= fetched.end_offset:
            return None  # nothing of it is shown, and the read that comes there is refused
        if found > right and not self.is_contiguous_from(right):
            return None
        start = fetched.start_offset
        is_first_right = found > right and int(headers["base_offset"][0]) == start
        is_known = row > 0 or (is_first_right and self.is_contiguous_from(start))
        position = int(headers["position"][row + 1])
        return position if is_known else 0, self.other_than_written(
            fetched.file, place + position, found, right
        )

    def other_than_written(
        self, file: str | None, position: int, found: int, expected: int
    ) -> CorruptLogError:
        """Return what is told of a batch at another offset than the one it was written at."""
        return CorruptLogError(
            "the base offset of a batch is not what was written, or records before it are missing;"
            f" {salvage_hint(self._directory.path)}",
            file=file,
            position=position,
            found=f"base offset {found}",
            expected=f"base offset {expected}",
        )


def _headers_with_a_gap(fetched: FetchDataInfo) -> BatchHeaders | None:
    """Return the headers of a fetch; None where each batch begins right behind the one before."""
    # an incomplete or damaged end is no error here: the reader raises one when it comes there
    table, _ = scan_headers(fetched.records)
    if table.is_without_gap or int(table.array["magic"].min()) < CURRENT_MAGIC:
        return None
    return table.array
