"""Reading on behind damage: an error named no way on, and whole batches behind zeros were refused.

Case 36: a page of zeros in a sealed segment, behind a clean stop.
"""

from __future__ import annotations

import random
import struct
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import segstore
from segstore._core import crc32c
from segstore.errors import (
    CorruptLogError,
    CorruptRecordError,
    IllegalArgumentError,
    OffsetOutOfRangeError,
    SegstoreError,
)
from segstore.log.files.checkpoints import CLEAN_SHUTDOWN_MARKER
from tests.kits.damaged_logs import (
    RECORDS_COUNT,
    SETTINGS,
    TIME,
    LogDirectory,
    batches_of,
    build,
    expected_values,
    values_of,
)
from tests.kits.log_kit import at, batch
from tests.unit.log.test_committed_view import PLAIN, data, forget_producers, marker

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

ABORTED = 11
COMMITTED = 12


@pytest.fixture
def directory(tmp_path: Path) -> LogDirectory:
    """Sixty batches of a record each in some segments; closed."""
    return build(tmp_path / "topic-0", clean=True)


def zero_batches(directory: LogDirectory, base: int, first: int, count: int) -> list[int]:
    """Overwrite so many batches of a segment with zeros; returns their offsets."""
    path = directory.file(base)
    gone = batches_of(path)[first : first + count]
    with path.open("r+b") as file:
        file.seek(gone[0].position)
        file.write(b"\0" * (gone[-1].end - gone[0].position))
    return [one.base_offset for one in gone]


def without(gone: list[int]) -> list[tuple[int, bytes]]:
    return [one for one in expected_values(0, RECORDS_COUNT) if one[0] not in gone]


@pytest.mark.parametrize(
    "read",
    [
        list,
        lambda log: log.scan().tuples(),
        lambda log: log.scan().count(),
        lambda log: log.scan().count(by_headers=True),
        lambda log: list(log.scan().batches()),
        lambda log: log.to_arrow(),
        lambda log: (
            list(log.read(0, 100_000)) + list(log.read(log.segments()[1].base_offset, 9999))
        ),
        lambda log: list(log.tail(0, timeout=0)),
    ],
)
def test_an_error_names_the_next_readable_offset(
    directory: LogDirectory, read: Callable[[segstore.UnifiedLog], object]
):
    """Case 36: as a value, and in the text with the calls and the command that go on there."""
    base = directory.bases[1]
    gone = zero_batches(directory, base, 1, 3)
    with directory.open(read_only=True) as log:
        with pytest.raises((CorruptLogError, CorruptRecordError)) as caught:
            read(log)
        assert caught.value.next_readable_offset == gone[-1] + 1
        for words in (f"-o {gone[-1] + 1} ", "--skip-damaged", "on_damage='skip'"):
            assert words in str(caught.value)


def test_a_whole_batch_behind_zeros_is_read_by_its_offset(directory: LogDirectory):
    """Case 36: the walk from the last index entry runs into the zeros."""
    base = directory.bases[1]
    gone = zero_batches(directory, base, 1, 3)
    behind = gone[-1] + 1
    for index in directory.path.glob("*.index"):
        index.unlink()
    with directory.open(read_only=True) as log:
        assert [one.offset for one in log.read(behind, 1)] == [behind]
        assert values_of_scan(log.scan(behind)) == expected_values(behind, RECORDS_COUNT)
        assert log.scan(behind).count(by_headers=True) == RECORDS_COUNT - behind
        assert bytes(log.slice(behind, 1).read().records) == bytes(log.read(behind, 1).records)
        for offset in gone:
            with pytest.raises(CorruptRecordError) as caught:
                log.read(offset, 1)
            assert caught.value.next_readable_offset == behind
            with pytest.raises(CorruptRecordError) as caught:
                log.scan(offset).tuples()
            assert caught.value.next_readable_offset == behind


def values_of_scan(scan: segstore.LogScan) -> list[tuple[int, bytes | None]]:
    return [(offset, value) for offset, _, _, value in scan.tuples()]


def ranges(scan: segstore.LogScan) -> list[tuple[int, int | None]]:
    return [(one.first_offset, one.next_offset) for one in scan.skipped]


def test_a_scan_that_skips_says_what_it_has_left_out(directory: LogDirectory):
    """Case 36: ``skipped`` has file, bytes and offsets; parts of the range, and Arrow, agree."""
    base = directory.bases[1]
    gone = zero_batches(directory, base, 1, 3)
    first, behind = gone[0], gone[-1] + 1
    with directory.open(read_only=True) as log:
        scan = log.scan(on_damage="skip")
        assert scan.skipped == ()
        assert values_of_scan(scan) == without(gone)
        (lost,) = scan.skipped
        assert (lost.file, lost.first_offset, lost.next_offset) == (
            f"{base:020}.log",
            first,
            behind,
        )
        assert scan.to_arrow().num_rows == scan.count() == scan.count(by_headers=True)
        assert scan.count() == RECORDS_COUNT - 3
        assert len(list(scan.batches())) == RECORDS_COUNT - 3
        assert scan.cuts(1)[:2] == [1, 2]

        part = log.scan(first + 1, behind + 1, on_damage="skip")
        assert [one.offset for one in part] == [behind]
        assert [(one.first_offset, one.next_offset) for one in part.skipped] == [
            (first + 1, behind)
        ]
        part = log.scan(behind, on_damage="skip")
        assert values_of_scan(part) == expected_values(behind, RECORDS_COUNT)
        assert part.skipped == ()


def test_times_are_looked_up_around_damage(directory: LogDirectory):
    """Case 36: a look-up that comes to zeros names the way on, a scan from that time on goes it."""
    gone = zero_batches(directory, directory.bases[1], 1, 3)
    behind = gone[-1] + 1
    for index in (*directory.path.glob("*.index"), *directory.path.glob("*.timeindex")):
        index.unlink()
    with directory.open(read_only=True) as log:
        with pytest.raises((CorruptLogError, CorruptRecordError)) as caught:
            log.offset_for_timestamp(TIME + behind)
        assert caught.value.next_readable_offset == behind
        with pytest.raises((CorruptLogError, CorruptRecordError)) as caught:
            log.scan(start_timestamp=TIME + gone[0] - 1).tuples()
        assert caught.value.next_readable_offset == behind
        scan = log.scan(start_timestamp=TIME + gone[0], on_damage="skip")
        assert values_of_scan(scan) == expected_values(behind, RECORDS_COUNT)


@pytest.mark.parametrize("marker_is_there", [True, False])
@pytest.mark.parametrize(
    ("segment", "first", "count"),
    [(0, 0, 1), (1, 0, 100), (-1, 0, 100), (-1, -1, 1), (0, -1, 1)],
    ids=["first batch", "whole segment", "whole last segment", "last batch", "end of a segment"],
)
def test_skipping_where_damage_may_be(
    tmp_path: Path,
    segment: int,
    first: int,
    count: int,
    marker_is_there: bool,  # noqa: FBT001 - a parameter of the test
):
    """Case 36, other places: also where the log ends at the damage for who reads it."""
    directory = build(tmp_path / "topic-0", clean=True)
    if not marker_is_there:
        (directory.path / CLEAN_SHUTDOWN_MARKER).unlink()
    base = directory.bases[segment]
    in_file = len(batches_of(directory.file(base)))
    first %= in_file
    gone = zero_batches(directory, base, first, min(count, in_file - first))
    with directory.open(read_only=True) as log:
        scan = log.scan(on_damage="skip")
        assert values_of_scan(scan) == without(gone)
        assert ranges(scan) == [(gone[0], gone[-1] + 1)]


def test_skipping_goes_on_behind_where_the_log_ends_for_a_reader(tmp_path: Path):
    """Case 36, a copy of the ``.log`` files alone: it ends at the first damage without an error."""
    directory = build(tmp_path / "source" / "topic-0", clean=True)
    gone = zero_batches(directory, directory.bases[1], 1, 2)
    alone = tmp_path / "topic-0"
    alone.mkdir()
    for path in directory.path.glob("*.log"):
        (alone / path.name).write_bytes(path.read_bytes())
    with segstore.open(alone, read_only=True) as log:
        assert log.report.damage is not None
        assert log.log_end_offset == gone[0]
        scan = log.scan(on_damage="skip")
        assert values_of_scan(scan) == without(gone)
        assert ranges(scan) == [(gone[0], gone[-1] + 1)]
        behind = log.scan(gone[-1] + 1, on_damage="skip")
        assert values_of_scan(behind) == expected_values(gone[-1] + 1, RECORDS_COUNT)
        with pytest.raises(OffsetOutOfRangeError):
            log.scan(-1, on_damage="skip")


def test_a_batch_that_no_reader_can_decode_is_left_out(tmp_path: Path):
    """Its checksum is right: what was compressed was not what the codec says."""
    broken = bytearray(batch([(None, b"value" * 50)], base_offset=1, epoch=0, codec=1))
    broken[70:90] = b"\xff" * 20
    broken[17:21] = struct.pack(">I", crc32c(broken[21:]))
    path = tmp_path / "topic-0"
    path.mkdir()
    (path / f"{0:020}.log").write_bytes(at(0) + broken + at(2))
    with segstore.open(path, read_only=True) as log:
        scan = log.scan(on_damage="skip")
        assert [one.offset for one in scan] == [0, 2]
        assert ranges(scan) == [(1, 2)]
        with pytest.raises(SegstoreError) as caught:
            list(log)
        assert caught.value.next_readable_offset == 2


def test_committed_data_is_read_past_damage(tmp_path: Path):
    """Case 36: a transaction whose marker may be lost is left out and named, no other is."""
    pieces = [
        data(COMMITTED, 0, 1),
        marker(COMMITTED, 1, "commit"),
        data(ABORTED, 2, 1),  # open where the log is damaged
        data(PLAIN, 3, 1),
        data(PLAIN, 4, 1),  # damaged
        data(COMMITTED, 5, 1),
        data(ABORTED, 6, 1),
        marker(COMMITTED, 7, "commit"),
        marker(ABORTED, 8, "abort"),
        data(PLAIN, 9, 1),
        data(COMMITTED, 10, 1),  # open at the end
        data(PLAIN, 11, 1),
    ]
    position = sum(map(len, pieces[:4]))
    path = tmp_path / "t-0"
    path.mkdir()
    file = path / f"{0:020}.log"
    file.write_bytes(b"".join(pieces[:9]))
    (path / f"{9:020}.log").write_bytes(b"".join(pieces[9:]))
    with segstore.open(path):
        pass
    forget_producers(path)
    LogDirectory(path).set_recovery_point(9)
    with file.open("r+b") as opened:
        opened.seek(position)
        opened.write(b"\0" * 30)
    with segstore.open(path, read_only=True) as log:
        scan = log.scan(isolation="read_committed", on_damage="skip")
        assert [one.offset for one in scan] == [0, 3, 5, 9]
        assert scan.end_offset == 10
        assert sorted(ranges(scan)) == [(2, 3), (4, 5)]
        with pytest.raises(CorruptLogError) as caught:
            log.scan(isolation="read_committed").tuples()
        assert caught.value.next_readable_offset == 5
        assert "--skip-damaged" in str(caught.value)
        assert "scan(5)" not in str(caught.value)  # nobody knows there what is committed


def test_what_goes_with_on_damage(directory: LogDirectory):
    """Damage is found by checksums; another word than the two is refused."""
    with directory.open(read_only=True) as log:
        with pytest.raises(IllegalArgumentError):
            log.scan(on_damage="skip", check_crcs=False)
        with pytest.raises(IllegalArgumentError):
            log.scan(on_damage="ignore")  # type: ignore[arg-type]


def damaged(data: bytearray, rng: random.Random) -> bytes:
    """Flip, overwrite, insert, cut or remove some bytes."""
    at_byte = rng.randrange(len(data))
    size = rng.choice([1, 12, 61, 500, 3000])
    match rng.choice(["flip", "zeros", "junk", "insert", "remove", "cut"]):
        case "flip":
            data[at_byte] ^= 1 << rng.randrange(8)
        case "zeros":
            data[at_byte : at_byte + size] = b"\0" * len(data[at_byte : at_byte + size])
        case "junk":
            data[at_byte : at_byte + size] = rng.randbytes(len(data[at_byte : at_byte + size]))
        case "insert":
            data[at_byte:at_byte] = rng.randbytes(size)
        case "remove":
            del data[at_byte : at_byte + size]
        case "cut":
            del data[at_byte:]
    return bytes(data)


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.integers(0, 2**32))
def test_skipping_shows_what_salvage_keeps_and_names_the_rest(
    tmp_path_factory: pytest.TempPathFactory, seed: int
):
    """[DUR-62, D15] And who follows the errors, one after the other, comes to the end."""
    rng = random.Random(seed)
    path = tmp_path_factory.mktemp("damage")
    directory = build(path / "topic-0", clean=rng.random() < 0.7)
    for _ in range(rng.choice([1, 1, 2, 5])):
        file = directory.file(rng.choice(directory.bases))
        if file.stat().st_size:
            file.write_bytes(damaged(bytearray(file.read_bytes()), rng))
    with directory.open(read_only=True) as log:
        scan = log.scan(on_damage="skip")
        shown = values_of_scan(scan)
        gone = {one[0] for one in expected_values(0, log.log_end_offset)} - {
            offset for offset, _ in shown
        }
        told = {
            offset
            for one in scan.skipped
            for offset in range(one.first_offset, one.next_offset or RECORDS_COUNT)
        }
        walked, offset = [], 0
        while offset is not None:
            assert offset not in {one[0] for one in walked}
            try:
                walked.extend((one.offset, one.value) for one in log.scan(offset))
                offset = None
            except SegstoreError as error:
                offset = error.next_readable_offset
        end = log.log_end_offset
    try:
        segstore.salvage(directory.path, path / "saved" / "topic-0", **SETTINGS)
        with segstore.open(path / "saved" / "topic-0", read_only=True) as log:
            kept = values_of(log)
    except CorruptLogError:  # no batch at all
        kept = []

    assert shown == kept
    assert gone <= told
    assert not told & {offset for offset, _ in shown}
    assert [one for one in shown if one in walked] == walked  # where two contradict, neither
    assert not shown or walked or shown[0][0] >= end
