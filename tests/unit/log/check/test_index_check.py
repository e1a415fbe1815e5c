"""The indexes of a segment against its batches: what is a finding, and what is none."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pytest

from segstore._core import Directory, LogSegment, SegmentContext
from segstore.log.check.gap_check import gap_finding
from segstore.log.check.index_check import index_findings
from segstore.log.files.checkpoints import LogState
from segstore.log.files.missing_records_file import note_ranges
from segstore.log.findings.finding import Records
from segstore.log.local.missing_records import INDEX_ENTRIES
from segstore.records.compression import codec_table
from tests.kits.damaged_logs import batches_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from segstore.log.findings.finding import Finding

BASES = (0, 20, 40)
TIME = 1700000000000
BOTH = ("index", "timeindex")
BYTES = {"index": 8, "timeindex": 12}


def file(partition: Path, base: int, kind: str) -> Path:
    return partition / f"{base:020d}.{kind}"


class Checks(NamedTuple):
    """Checks of one segment of the directory of a fixture."""

    directory: Directory

    def indexes(
        self, base: int, *, is_trimmed: bool | None = None, is_end_known: bool = False
    ) -> list[Finding]:
        following = {0: 20, 20: 40}.get(base)
        segment = LogSegment(SegmentContext(self.directory, codec_table(), writable=False), base)
        try:
            rows, scan = segment.scan(check_order=True, expected_offset=base)
        finally:
            segment.close()
        trimmed = following is not None if is_trimmed is None else is_trimmed
        found = index_findings(
            *(self.directory, base, rows, scan, following),
            scan.next_offset if scan.stop == "complete" else None,
            is_trimmed=trimmed,
            is_end_known=is_end_known,
        )
        return [*found]

    def gap(self, base: int, state: LogState | None = None, log_start: int = 0) -> Finding | None:
        segment = LogSegment(SegmentContext(self.directory, codec_table(), writable=False), base)
        try:
            _, scan = segment.scan(check_order=True, expected_offset=base)
        finally:
            segment.close()
        end = max(base, scan.next_offset)
        return gap_finding(self.directory, base, scan.valid_bytes, end, base + 20, state, log_start)


@pytest.fixture
def check(partition: Path) -> Iterator[Checks]:
    directory = Directory(str(partition))
    yield Checks(directory)
    directory.close()


def codes(findings: list[Finding]) -> list[tuple[str, str, int | None]]:
    return [(one.code.value, one.file, one.position) for one in findings]


def append(path: Path, data: bytes) -> int:
    """Write behind the end; returns where that was."""
    with path.open("ab") as opened:
        opened.write(data)
        return opened.tell() - len(data)


def test_whole_indexes_have_no_finding(check: Checks):
    assert [check.indexes(base) for base in BASES] == [[], [], []]


@pytest.mark.parametrize("kind", BOTH)
def test_zeros_behind_the_entries_of_a_sealed_segment_are_found(partition, check, kind):
    """[DUR-80] Operator case 01: a broker takes the last ones for the segment's age."""
    path = file(partition, 20, kind)
    end = append(path, bytes(20 * BYTES[kind]))
    (found,) = check.indexes(20)

    assert codes([found]) == [("INDEX_PADDED", path.name, end)]
    assert found.size_bytes == 20 * BYTES[kind]
    assert found.records is Records.NONE
    assert found.repaired


@pytest.mark.parametrize("kind", BOTH)
def test_an_index_of_nothing_but_zeros_is_found(partition, check, kind):
    """[DUR-80] Entries were never written to the disk, the size was."""
    path = file(partition, 20, kind)
    path.write_bytes(bytes(len(path.read_bytes())))
    (found,) = check.indexes(20)

    assert (found.file, found.position) == (path.name, 0)
    assert found.repaired


@pytest.mark.parametrize("kind", BOTH)
def test_padding_of_the_active_segment_is_found_behind_a_brokers_clean_stop(partition, check, kind):
    """[DUR-25] It trims them then; after a crash they are room that was allocated ahead."""
    end = append(file(partition, 40, kind), bytes(240))

    assert check.indexes(40) == []
    assert codes(check.indexes(40, is_trimmed=True)) == [
        ("INDEX_PADDED", file(partition, 40, kind).name, end)
    ]


@pytest.mark.parametrize("kind", BOTH)
def test_entries_that_cannot_be_are_found(partition, check, kind):
    """[DUR-53] Behind the real ones, of a sealed segment."""
    path = file(partition, 20, kind)
    end = append(path, struct.pack(">ii" if kind == "index" else ">qi", 7, 3))

    assert codes(check.indexes(20)) == [("INDEX_CORRUPT", path.name, end)]


def test_a_time_index_that_lost_its_last_entry_is_found(partition, check):
    """[SEG-50] Its last entry is the segment's age to a broker."""
    path = file(partition, 20, "timeindex")
    path.write_bytes(path.read_bytes()[:-12])

    assert codes(check.indexes(20)) == [("INDEX_CORRUPT", path.name, len(path.read_bytes()))]


@pytest.mark.parametrize("kind", BOTH)
def test_a_torn_entry_is_found(partition, check, kind):
    path = file(partition, 20, kind)
    end = append(path, b"\0\1\2")

    assert codes(check.indexes(20)) == [("INDEX_CORRUPT", path.name, end)]


@pytest.mark.parametrize("kind", BOTH)
def test_a_missing_index_is_found(partition, check, kind):
    """[DUR-8]"""
    file(partition, 20, kind).unlink()

    assert codes(check.indexes(20)) == [("INDEX_MISSING", file(partition, 20, kind).name, None)]


def cut(partition: Path, batches: int) -> int:
    """Cut the second ``.log`` between two batches; returns its new size."""
    log = file(partition, 20, "log")
    at = batches_of(log)[batches].position
    log.write_bytes(log.read_bytes()[:at])
    return at


def test_entries_in_a_gap_are_proof_and_no_damage(partition, check):
    """[DUR-7] Operator case 04."""
    size = cut(partition, 10)
    found = check.gap(20)

    assert check.indexes(20) == []
    assert codes([found]) == [("RECORDS_MISSING", file(partition, 20, "log").name, size)]
    assert (found.first_offset, found.last_offset, found.lost) == (30, 39, ((30, 39),))
    assert found.records is Records.MISSING
    assert not found.repaired


@pytest.mark.parametrize("offsets", [(15, 9), (17, 15)])
@pytest.mark.parametrize("kind", BOTH)
def test_an_entry_in_a_gap_before_a_lower_one_is_damage(partition, check, kind, offsets):
    """[DUR-7, DUR-53] A bit of it had flipped: no check named it, an open rebuilt it."""
    cut(partition, 10)
    path = file(partition, 20, kind)
    entries = np.fromfile(path, INDEX_ENTRIES[kind])
    entries = entries[entries["relative_offset"] < 10]
    entries["relative_offset"][-2:] = offsets
    path.write_bytes(entries.tobytes())

    (found,) = check.indexes(20)
    assert (found.code.value, found.file, found.records) == (
        "INDEX_CORRUPT",
        path.name,
        Records.NONE,
    )


def without_indexes(partition: Path) -> None:
    for kind in BOTH:
        file(partition, 20, kind).write_bytes(b"")


def own(contiguous_from: int) -> LogState:
    return LogState(contiguous_from, 0, None)


@pytest.mark.parametrize(
    ("known", "noted", "missing"),
    [
        ((None, 0), [], None),
        ((own(0), 0), [], None),
        ((own(30), 0), [], None),
        ((own(40), 0), [], None),
        ((None, 0), [(30, 40)], (30, 39)),
        ((None, 33), [(30, 40)], (33, 39)),
        ((None, 40), [(30, 40)], None),
        ((None, 0), [(0, 30), (40, 60)], None),
    ],
)
def test_a_gap_is_a_finding_where_something_tells(partition, check, known, noted, missing):
    """[DUR-64] Else it may be what compaction left; where none may be, the next segment tells."""
    cut(partition, 10)
    without_indexes(partition)
    note_ranges(check.directory, noted)
    found = check.gap(20, *known)

    assert (None if found is None else (found.first_offset, found.last_offset)) == missing


@pytest.mark.parametrize(
    ("state", "code"),
    [(None, "RECORDS_MAYBE_MISSING"), (own(40), None)],
)
def test_an_emptied_segment_without_proof(partition, check, state, code):
    """[DUR-7] Compaction leaves such a file too: only its writer knows."""
    file(partition, 20, "log").write_bytes(b"")
    without_indexes(partition)
    found = check.gap(20, state)

    assert (None if found is None else found.code.value) == code
    assert found is None or found.lost == ((20, 39),)


@pytest.mark.parametrize("is_end_known", [True, False])
def test_entries_behind_the_last_segment_may_be_of_lost_records(partition, check, is_end_known):
    """[DUR-7] The finding said that no record is lost."""
    path = file(partition, 40, "log")
    end = 60
    append(file(partition, 40, "index"), struct.pack(">ii", end + 5 - 40, path.stat().st_size))

    (wrong,) = check.indexes(40, is_end_known=is_end_known)

    lost = () if is_end_known else ((end, end + 5),)
    assert wrong.records == (Records.NONE if is_end_known else Records.MAYBE_MISSING)
    assert (wrong.code, wrong.lost) == ("INDEX_CORRUPT", lost)


@pytest.mark.parametrize("entry", [(3, 1 << 20), (1 << 20, 0)])
def test_an_entry_of_which_only_one_half_lies_behind_the_end_shows_no_loss(partition, check, entry):
    """[DUR-8] A bit of the index may be wrong."""
    append(file(partition, 40, "index"), struct.pack(">ii", *entry))

    assert {one.records for one in check.indexes(40)} == {Records.NONE}
