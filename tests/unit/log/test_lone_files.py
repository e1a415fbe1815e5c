"""Several ``.log`` files, a pattern or an archive as one partition; case 22-tiered-segment-file."""

from __future__ import annotations

import gzip
import io
import os
import random
import shutil
import subprocess
import sys
import tarfile
from typing import TYPE_CHECKING

import pytest
import zstandard
from pyarrow import compute

import segstore
from segstore.errors import (
    ClosedError,
    CorruptLogError,
    CorruptRecordError,
    DiskFullError,
    IllegalArgumentError,
    LimitExceededError,
    LogNotFoundError,
    NotALogError,
    SegstoreError,
)
from segstore.log import segment_archive
from segstore.log.files.partition_directory import is_partition_directory_name
from segstore.log.local.file_bytes import FileBytes
from segstore.log.lone_segment import open_to_read
from segstore.log.producers.producer_snapshot import format_snapshot
from segstore.log.producers.producer_state_entry import ProducerStateEntry
from segstore.types import TopicPartition
from tests.kits.log_kit import at, offsets
from tests.kits.open_files import unlinked_files
from tests.unit.log.test_committed_view import data, marker

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

COMMITTED = "read_committed"


def files_in(folder: Path, **contents: bytes) -> Path:
    """Write files, ``a="…"`` as ``a.log`` and ``_100=…`` as the segment of that base offset."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in contents.items():
        full_name = f"{int(name[1:]):020}" if name[0] == "_" else name
        (folder / f"{full_name}.log").write_bytes(content)
    return folder


def archive_of(path: Path, *folders: Path, **settings: object) -> Path:
    """Pack folders, each under its own name."""
    with tarfile.open(path, **{"mode": "w", **settings}) as archive:
        for folder in folders:
            archive.add(folder, folder.name)
    return path


@pytest.fixture
def orders(tmp_path: Path) -> Path:
    """Three segments of 100 records, closed; a fourth one is empty."""
    with segstore.open(tmp_path / "orders-0", durability="none") as log:
        for _ in range(3):
            log.append([(b"k", b"%d" % n) for n in range(100)])
            log.roll()
    return tmp_path / "orders-0"


@pytest.mark.golden_kinds("plain", "compacted", "transactions", "message sets")
def test_files_alone_are_read_as_their_partition_is(golden_data: Path, tmp_path: Path):
    """Every golden partition: a pattern, an archive, and segments under names that say nothing."""
    compared = 0
    for partition in sorted(golden_data.iterdir()):
        if not is_partition_directory_name(partition.name) or not [*partition.glob("*.log")]:
            continue
        with segstore.open(partition, read_only=True) as log:
            start = log.log_start_offset
            wanted = {
                isolation: list(log.scan(isolation=isolation))
                for isolation in ("read_uncommitted", COMMITTED)
            }
            topic_partition = str(log.topic_partition)
        archive = archive_of(tmp_path / f"{partition.name}.tar.gz", partition, mode="w:gz")
        renamed = tmp_path / f"of {partition.name}"
        renamed.mkdir()
        for number, path in enumerate(sorted(partition.glob("*.log"), reverse=True)):
            shutil.copy(path, renamed / f"segment {number}.log")
        for given in (partition / "*.log", archive, renamed / "*"):
            with segstore.open_segment(given, as_=topic_partition) as segment:
                assert list(segment.scan(start)) == wanted["read_uncommitted"]
                if given.parent != renamed or not segment.holes:
                    assert list(segment.scan(start, isolation=COMMITTED)) == wanted[COMMITTED]
                compared += 1
    assert compared > 0


def test_files_are_put_in_order(orders: Path, tmp_path: Path):
    """By what they begin with: as a shell gives them, and an object store names them."""
    for number, name in ((0, "c"), (100, "a"), (200, "b")):
        shutil.copy(orders / f"{number:020}.log", tmp_path / f"rsm-{name}")
    with segstore.open_segment([tmp_path / "rsm-a", tmp_path / "rsm-b", tmp_path / "rsm-c"]) as log:
        assert offsets(log) == list(range(300))
        assert (log.log_start_offset, log.log_end_offset) == (0, 300)
        assert [path[-5:] for path in log.files] == ["rsm-c", "rsm-a", "rsm-b"]
        assert log.topic_partition == TopicPartition("", -1)
        assert log.path == str(tmp_path)
        assert log[150].value == b"50"
        assert offsets(log[95:105]) == list(range(95, 105))
        assert len(log) == 300
        assert log.offset_for_timestamp(0) == 0
        assert log.holes == ()
    with open_to_read(orders) as whole, open_to_read(f"{orders}/*.log") as files:
        assert isinstance(whole, segstore.Log)
        assert offsets(whole) == offsets(files)


def test_a_pattern(orders: Path, tmp_path: Path):
    """A file whose name has such characters is that file."""
    with segstore.open_segment(orders / "*[12]00.log") as log:
        assert offsets(log) == list(range(100, 300))
        assert log.topic_partition == TopicPartition("orders", 0)
    shutil.copy(orders / f"{200:020}.log", tmp_path / "a[1].log")
    with segstore.open_segment(tmp_path / "a[1].log") as log:
        assert offsets(log) == list(range(200, 300))
    with pytest.raises(LogNotFoundError, match="no file matches"):
        segstore.open_segment(orders / "*.tar")
    with pytest.raises(NotALogError, match="has no records"):
        segstore.open_segment(orders / "*")
    with pytest.raises(IllegalArgumentError, match="no path"):
        segstore.open_segment([])


def test_a_hole_is_told_and_is_no_error(orders: Path):
    """Whether a file is missing, or compaction took the records, the files do not say."""
    (orders / f"{100:020}.log").unlink()
    with segstore.open_segment(orders / "*.log") as log:
        assert offsets(log) == [*range(100), *range(200, 300)]
        assert log.holes == ((100, 200),)
        assert log.scan().skipped == ()
    with segstore.open_segment(orders / f"{200:020}.log") as log:
        assert log.holes == ()


def test_the_name_of_a_segment_shows_that_no_file_is_missing(tmp_path: Path):
    """Compaction has removed what it began with."""
    files_in(tmp_path, _0=at(0, 3), _3=at(5, 2))
    with segstore.open_segment(tmp_path / "*.log") as log:
        assert log.holes == ()
    (tmp_path / f"{3:020}.log").rename(tmp_path / "any")
    with segstore.open_segment([tmp_path / f"{0:020}.log", tmp_path / "any"]) as log:
        assert log.holes == ((3, 5),)


def test_files_that_overlap(tmp_path: Path):
    """The same segment twice, or one that reaches into the next: no record comes twice."""
    files_in(tmp_path, a=at(0, 3) + at(3, 2), b=at(0, 3), c=at(3, 4))
    with pytest.raises(CorruptLogError, match="two files begin at offset 0"):
        segstore.open_segment([tmp_path / "a.log", tmp_path / "b.log"])
    with segstore.open_segment([tmp_path / "a.log", tmp_path / "c.log"]) as log:
        with pytest.raises(CorruptRecordError, match="a later segment begins") as caught:
            list(log)
        assert caught.value.file == str(tmp_path / "a.log")
        scan = log.scan(on_damage="skip")
        assert offsets(scan) == list(range(7))
        assert [(one.file, one.first_offset) for one in scan.skipped] == [("a.log", 3)]


def test_damage_names_the_file_that_has_it(tmp_path: Path):
    """Of several; a file in the middle that ends inside a batch is damage."""
    files_in(tmp_path, a=at(0, 3), b=(at(3, 2) + at(5, 2))[:-3], c=at(7, 4))
    with segstore.open_segment(tmp_path / "*.log") as log:
        with pytest.raises(CorruptRecordError) as caught:
            list(log)
        assert caught.value.file == str(tmp_path / "b.log")
        assert caught.value.next_readable_offset == 7
        assert offsets(log.scan(on_damage="skip")) == [0, 1, 2, 3, 4, 7, 8, 9, 10]
        assert log.holes == ()  # `skipped` has it


def test_files_of_several_partitions_are_no_log(tmp_path: Path):
    files_in(tmp_path / "orders-0", _0=at(0, 3))
    files_in(tmp_path / "orders-1", _3=at(3, 3))
    with pytest.raises(IllegalArgumentError, match="orders-0, orders-1"):
        segstore.open_segment(tmp_path / "*" / "*.log")
    with segstore.open_segment(tmp_path / "*" / "*.log", as_="orders-7") as log:
        assert {one.partition for one in log} == {7}


@pytest.mark.parametrize(
    "other", ["payments-3.bak", "orders-0.0123456789abcdef0123456789abcdef-delete", "x"]
)
def test_files_of_several_folders_are_of_several_partitions(tmp_path: Path, other: str):
    """One that no partition has the name of too: a copy of another one, or a deleted topic's."""
    for name in ("orders-0", "backup"):
        first, second = tmp_path / name, tmp_path / other
        files_in(first, _0=at(0, 3))
        files_in(second, _3=at(3, 3))
        packed = archive_of(tmp_path / "both.tar", first, second)
        for given in (packed, [first / "*.log", second / f"{3:020}.log"]):
            with pytest.raises(IllegalArgumentError, match="of 2 folders") as caught:
                segstore.open_segment(given)
            assert f"{name}, {other}" in caught.value.message
            with segstore.open_segment(given, as_="orders-0") as log:
                assert {(one.topic, one.partition) for one in log} == {("orders", 0)}


def test_copies_of_one_folder_in_several_places_are_one_partition(tmp_path: Path):
    """A day each, say; of lazy frames, `as_` says it where their folders have other names."""
    for number, day in enumerate(("monday", "tuesday")):
        files_in(tmp_path / day / "orders-0", **{f"_{3 * number}": at(3 * number, 3)})
        files_in(tmp_path / f"of {day}", **{f"_{3 * number}": at(3 * number, 3)})
    with segstore.open_segment(tmp_path / "*day" / "orders-0" / "*.log") as log:
        assert offsets(log) == list(range(6))
        assert log.topic_partition == TopicPartition("orders", 0)
    pl = pytest.importorskip("polars")
    from segstore.polars import scan_log

    frame = scan_log(tmp_path / "of *" / "*.log", as_="orders-3")
    assert frame.select("partition").collect()["partition"].to_list() == [3] * 6
    frame = scan_log(tmp_path / "of *" / "*.log")
    with pytest.raises((IllegalArgumentError, pl.exceptions.PolarsError), match="of 2 folders"):
        frame.collect()


# ---- committed data ------------------------------------------------------------------------------


def snapshot_of(folder: Path, offset: int, first_offset: int | None) -> None:
    """Say what producer 11 was doing where the segment *offset* begins."""
    entry = ProducerStateEntry(11, 0, current_txn_first_offset=first_offset)
    (folder / f"{offset:020}.snapshot").write_bytes(format_snapshot([entry]))


def committed(folder: Path) -> tuple[list[int], list[tuple[int, int | None]]]:
    with segstore.open_segment(folder / "*.log") as log:
        scan = log.scan(isolation=COMMITTED)
        return offsets(scan), [(one.first_offset, one.next_offset) for one in scan.skipped]


def test_a_transaction_over_two_files_is_decided_by_its_marker(tmp_path: Path):
    begin, end = data(11, 0, 3), data(11, 3, 2)
    folder = files_in(tmp_path / "t-0", _0=begin, _3=end + marker(11, 5, "abort"))
    assert committed(folder) == ([], [])
    folder = files_in(folder, _3=end + marker(11, 5, "commit"))
    assert committed(folder) == ([0, 1, 2, 3, 4], [])


def test_a_marker_that_may_be_in_a_hole_decides_nothing(tmp_path: Path):
    """The next marker of the producer may be that of its next transaction, unless a snapshot
    shows that the first one was still open."""
    later = data(11, 9, 1) + marker(11, 10, "commit")
    folder = files_in(tmp_path / "t-0", _0=data(11, 0, 3), _9=later)
    assert committed(folder) == ([9], [(0, 3)])

    snapshot_of(folder, 9, 0)
    assert committed(folder) == ([0, 1, 2, 9], [])
    snapshot_of(folder, 9, 7)  # another transaction of it
    assert committed(folder) == ([9], [(0, 3)])
    snapshot_of(folder, 9, None)
    assert committed(folder) == ([9], [(0, 3)])
    (folder / f"{9:020}.snapshot").write_bytes(b"damaged")
    assert committed(folder) == ([9], [(0, 3)])

    snapshot_of(folder, 9, 0)
    packed = archive_of(tmp_path / "t-0.tar", folder)
    with segstore.open_segment(packed) as log:
        assert offsets(log.scan(isolation=COMMITTED)) == [0, 1, 2, 9]


def test_files_do_not_say_what_was_synced(orders: Path):
    with (
        segstore.open_segment(orders / "*.log") as log,
        pytest.raises(IllegalArgumentError, match="what was synced"),
    ):
        log.scan(isolation="durable")


def test_committed_data_ends_where_no_file_has_the_marker(tmp_path: Path):
    folder = files_in(tmp_path / "t-0", _0=data(11, 0, 3), _3=data(0, 3, 1))
    assert committed(folder) == ([], [])
    with segstore.open_segment(folder / "*.log") as log:
        assert (log.last_stable_offset, log.log_end_offset) == (0, 4)


def test_a_lazy_frame_warns_of_what_it_leaves_out(tmp_path: Path):
    pl = pytest.importorskip("polars")
    from segstore.polars import scan_log

    damaged = bytearray(at(3, 2))
    damaged[-1] ^= 1
    files_in(tmp_path, a=at(0, 3) + damaged + at(5, 2))
    frame = scan_log(tmp_path / "a.log", on_damage="skip").filter(pl.col("offset") != 1)
    with pytest.warns(UserWarning, match="leaves out 1 range of offsets: a.log, .* offsets 3 to 4"):
        assert frame.collect()["offset"].to_list() == [0, 2, 5, 6]


def random_transactions(chosen: random.Random, folder: Path) -> None:
    """Write segments, each with a snapshot of what is open where it begins, as a broker does."""
    folder.mkdir(exist_ok=True)
    offset, under_way, content, base = 0, dict[int, int](), b"", 0
    for _ in range(60):
        producer = chosen.choice((0, 11, 12, 13))
        if producer in under_way and chosen.random() < 0.3:
            content += marker(producer, offset, chosen.choice(("commit", "abort")))
            del under_way[producer]
            offset += 1
        else:
            content += data(producer, offset, count := chosen.choice((1, 2, 9)))
            if producer:
                under_way.setdefault(producer, offset)
            offset += count
        if chosen.random() < 0.15:
            (folder / f"{base:020}.log").write_bytes(content)
            content, base = b"", offset
            entries = [
                ProducerStateEntry(one, 0, current_txn_first_offset=first)
                for one, first in under_way.items()
            ]
            (folder / f"{base:020}.snapshot").write_bytes(format_snapshot(entries))
    (folder / f"{base:020}.log").write_bytes(content or data(0, offset, 1))


def test_a_committed_range_is_what_the_whole_has_of_it(
    tmp_path: Path, few_or_many: Callable[[int, int], int]
):
    """With the snapshots, without some, and without any; also where a transaction stays open."""
    chosen = random.Random(5)
    for number in range(few_or_many(10, 30)):
        folder = tmp_path / f"t-{number}"
        random_transactions(chosen, folder)
        with segstore.open_segment(folder / "*.log") as log:
            stable, end = log.last_stable_offset, log.log_end_offset
            whole = offsets(log.scan(isolation=COMMITTED))
            for _ in range(3):
                for _ in range(6):
                    first, behind = sorted((chosen.randrange(end + 1), chosen.randrange(end + 3)))
                    scan = log.scan(first, behind, isolation=COMMITTED)
                    assert offsets(scan) == [one for one in whole if first <= one < behind]
                    assert scan.end_offset <= stable or behind <= stable
                for snapshot in folder.glob("*.snapshot"):
                    if chosen.random() < 0.5:
                        snapshot.unlink()


@pytest.fixture
def read_bytes(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """How many bytes were read of each file, by its name."""
    found: dict[str, int] = {}
    read = FileBytes.read

    def noted(file, position, size):
        found[file.name] = found.get(file.name, 0) + size
        return read(file, position, size)

    monkeypatch.setattr(FileBytes, "read", noted)
    return found


def test_a_committed_range_reads_the_files_that_it_must(tmp_path: Path, read_bytes):
    """From the beginning of the file that its snapshot allows, until its transactions are over."""
    folder = tmp_path / "t-0"
    contents = {}
    for base in range(0, 900, 100):
        open_at_end = [data(12, base + 90, 9)] if base == 400 else [data(0, base + 90, 9)]
        ends = [marker(12, base + 99, "commit")] if base == 500 else [data(0, base + 99, 1)]
        body = [data(11, base, 89), marker(11, base + 89, "commit"), *open_at_end, *ends]
        contents[f"_{base}"] = b"".join(body)
    files_in(folder, **contents)
    for base in range(100, 900, 100):
        entries = [ProducerStateEntry(12, 0, current_txn_first_offset=490)] if base == 500 else []
        (folder / f"{base:020}.snapshot").write_bytes(format_snapshot(entries))
    with segstore.open_segment(folder / "*.log") as log:

        def files_of(first: int, behind: int) -> list[int]:
            read_bytes.clear()
            scan = log.scan(first, behind, isolation=COMMITTED)
            found = [one for one in range(first, behind) if one % 100 != 89 and one != 599]
            assert offsets(scan) == found
            files = sorted(int(name[:20]) for name in read_bytes)
            read_bytes.clear()
            table = log.dataset(isolation=COMMITTED).to_table(
                filter=(compute.field("offset") >= first) & (compute.field("offset") < behind)
            )
            assert table["offset"].to_pylist() == found
            assert sorted(int(name[:20]) for name in read_bytes) == files
            return files

        assert files_of(710, 720) == [700]
        assert files_of(290, 310) == [200, 300]
        assert files_of(480, 495) == [400, 500]
        assert files_of(510, 512) == [500]
        (folder / f"{700:020}.snapshot").unlink()
        assert files_of(710, 720) == [600, 700]


def test_the_bounds_of_a_dataset_and_those_of_a_filter_hold_together(tmp_path: Path):
    """Also where they exclude each other, and where a filter is about other columns."""
    folder = files_in(tmp_path / "t-0", _0=data(0, 0, 20), _20=data(11, 20, 5))
    field = compute.field("offset")
    with segstore.open_segment(folder / "*.log") as log:
        for isolation, end in ((COMMITTED, 20), ("read_uncommitted", 25)):
            dataset = log.dataset(start_offset=5, isolation=isolation)
            for where, low, high in (
                (field < 9, 5, 9),
                (field < 3, 0, 0),
                (field > 17, 18, end),
                (field > 2**62, 0, 0),
                (field.is_null(), 0, 0),
                (compute.field("partition") == 0, 5, end),
                ((field > 7) | (compute.field("partition") == 1), 8, end),
            ):
                found = dataset.to_table(filter=where)["offset"].to_pylist()
                assert found == [*range(low, high)]


def segments_with_indexes(folder: Path) -> list[Path]:
    """Two segments of 400 batches of a kilobyte, with an index entry for each few."""
    with segstore.open(folder, durability="none", index_interval_bytes=4096) as log:
        for _ in range(2):
            for _ in range(400):
                log.append([(b"k", b"x" * 300)] * 3)
            log.roll()
    return sorted(folder.glob("*.log"))[:2]


def test_a_range_begins_where_the_index_beside_the_file_says(tmp_path: Path, read_bytes):
    """Also in an archive; without an index, it begins with the file."""
    folder = tmp_path / "orders-0"
    _, second = segments_with_indexes(folder)
    packed = archive_of(tmp_path / "a.tar.gz", folder, mode="w:gz")
    for given, name in ((folder / "*.log", second.name), (packed, f"orders-0/{second.name}")):
        with segstore.open_segment(given) as log:
            read_bytes.clear()
            assert offsets(log.scan(2300, 2303)) == [2300, 2301, 2302]
            assert list(read_bytes) == [name]
            assert read_bytes[name] < second.stat().st_size / 3
            assert log.dataset().count_rows(filter=compute.field("offset") > 2396) == 3


def test_an_index_that_is_not_of_the_file_changes_nothing(tmp_path: Path):
    """Damaged, of another segment, of zeros, cut: what is read is the same."""
    chosen = random.Random(3)
    folder = tmp_path / "orders-0"
    first, second = segments_with_indexes(folder)
    index = second.with_suffix(".index")
    right = index.read_bytes()
    others = [
        b"",
        right[:13],
        first.with_suffix(".index").read_bytes()[::-1],
        bytes(4096),
        right + bytes(800),
        bytes.fromhex("7fffffff7fffffff") * 9,
        bytes.fromhex("00000000ffffffff") + right,
    ]
    for _ in range(60):
        damaged = bytearray(right)
        for _ in range(chosen.choice((1, 4, 40))):
            damaged[chosen.randrange(len(damaged))] = chosen.randrange(256)
        others.append(bytes(damaged))
    with segstore.open_segment(folder / "*.log") as log:
        for content in others:
            index.write_bytes(content)
            start = chosen.randrange(1100, 2390)
            assert offsets(log.scan(start, start + 7)) == [*range(start, start + 7)]


# ---- archives ------------------------------------------------------------------------------------


def packed_in_every_way(folder: Path, target: Path) -> list[Path]:
    plain = archive_of(target / "copy.tar", folder)
    named = [target / "copy.tar.gz", target / "copy.tgz", target / "copy.tar.zst", target / "z.tar"]
    content = plain.read_bytes()
    for path in named[:2]:
        path.write_bytes(gzip.compress(content))
    for path in named[2:]:  # whatever its name says
        path.write_bytes(zstandard.compress(content))
    return [plain, *named]


def test_an_archive_of_a_partition(orders: Path, tmp_path: Path):
    (tmp_path / "packed").mkdir()
    before = {one.name for one in (tmp_path / "packed").iterdir()}
    for path in packed_in_every_way(orders, tmp_path / "packed"):
        before.add(path.name)
        with segstore.open_segment(path) as log:
            assert offsets(log) == list(range(300))
            assert log.topic_partition == TopicPartition("orders", 0)
            assert log.files[0] == f"{path}/orders-0/{0:020}.log"
            assert log.to_arrow(["offset"]).num_rows == 300
    assert before == {one.name for one in (tmp_path / "packed").iterdir()}


def test_an_archive_without_folders_has_the_name_of_the_partition(orders: Path, tmp_path: Path):
    path = tmp_path / "orders-3.tar"
    with tarfile.open(path, "w") as archive:
        for one in orders.glob("*.log"):
            archive.add(one, f"./{one.name}")
    with segstore.open_segment(path) as log:
        assert log.topic_partition == TopicPartition("orders", 3)
        assert len(log) == 300


@pytest.mark.parametrize(
    ("name", "partition"),
    [
        ("shop-1.totals-0.tar", "shop-1.totals-0"),
        ("my.topic-0.tar.gz", "my.topic-0"),
        ("my.tar-0.tgz", "my.tar-0"),
        ("orders-0.TAR", "orders-0"),
        ("orders-0.2026.tar", "--1"),
    ],
)
def test_a_name_of_an_archive_is_without_its_suffix(
    orders: Path, tmp_path: Path, name: str, partition: str
):
    """A topic may have points in its name."""
    path = tmp_path / name
    with tarfile.open(path, "w") as archive:
        archive.add(orders / f"{0:020}.log", f"{0:020}.log")
    with segstore.open_segment(path) as log:
        assert str(log.topic_partition) == partition


def test_archives_and_files_together(orders: Path, tmp_path: Path):
    """A day each, say."""
    first = tmp_path / "first"
    first.mkdir()
    (orders / f"{0:020}.log").rename(first / "segment.log")
    packed = archive_of(tmp_path / "first.tar", first)
    with segstore.open_segment([orders / "*.log", packed], as_="orders-0") as log:
        assert offsets(log) == list(range(300))
        assert log.topic_partition == TopicPartition("orders", 0)


def test_an_archive_that_was_cut(orders: Path, tmp_path: Path):
    """Anywhere, plain and compressed: the error names member and byte, none is silent."""
    (tmp_path / "packed").mkdir()
    for path in packed_in_every_way(orders, tmp_path / "packed"):
        content = path.read_bytes()
        if path.name == "copy.tar":  # behind the first block of the end mark nothing matters
            with tarfile.open(path) as archive:
                archive.getmembers()
                content = content[: archive.offset + 512]
        for size in range(1, len(content), 100 if path.name == "copy.tar" else 10):
            path.write_bytes(content[:size])
            with pytest.raises(SegstoreError) as caught:
                segstore.open_segment(path).close()
            assert isinstance(caught.value, CorruptLogError | NotALogError), size
            assert caught.value.file == str(path)
            if path.name == "copy.tar" and size > 4096:
                assert "the member orders-0" in caught.value.message, size
    cut = tmp_path / "cut.tar"
    archive_of(cut, orders)
    with tarfile.open(cut) as archive:
        member = archive.getmember(f"orders-0/{100:020}.log")
    os.truncate(cut, member.offset_data + 70)
    with pytest.raises(CorruptLogError, match=rf"inside the member {member.name}, at byte 70"):
        segstore.open_segment(cut)

    target = tmp_path / "packed"
    subprocess.run(["tar", "-xf", cut, "-C", target], check=False, capture_output=True)
    command = [sys.executable, "-m", "segstore", "cat", target / "orders-0", "-f", "%o "]
    way_out = subprocess.run(command, check=False, capture_output=True)
    assert way_out.stdout.split()[-1] == b"99"


def test_a_damaged_archive_is_an_error_of_ours(
    orders: Path, tmp_path: Path, few_or_many: Callable[[int, int], int]
):
    """Bits anywhere, lengths of any size: never a loop, a path, or another exception."""
    shutil.copy(orders / f"{100:020}.log", orders / f"{'a' * 200}.txt")  # has a header of its own
    (tmp_path / "packed").mkdir()
    chosen = random.Random(7)
    for path in packed_in_every_way(orders, tmp_path / "packed"):
        content = path.read_bytes()
        for _ in range(few_or_many(80, 300)):
            damaged = bytearray(content)
            where = chosen.randrange(len(content))
            for at_byte in range(where, min(where + chosen.choice((1, 8, 600)), len(content))):
                damaged[at_byte] = chosen.choice((0, 0x80, 0xFF, chosen.randrange(256)))
            path.write_bytes(damaged)
            try:
                with segstore.open_segment(path) as log:
                    list(log.scan(on_damage="skip"))
                    assert all(name.startswith(f"{path}/") for name in log.files)
            except SegstoreError:
                pass


def header(name: str, size: bytes, kind: bytes = b"0") -> bytes:
    """A header whose checksum is right, whatever its size says."""
    info = tarfile.TarInfo(name)
    info.type = kind
    block = bytearray(info.tobuf(tarfile.USTAR_FORMAT))
    block[124:136] = size
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block)


@pytest.mark.parametrize(
    "content",
    [
        header("a.log", b"\xff" * 12),  # -1
        header("a.log", b"\xff" * 10 + b"\xfc\x00") * 3,  # -1024: back to itself
        header("a.log", b"\x80" + b"\x7f" * 11),
        header("x", b"77777777777\0", b"x") + bytes(2048),  # a header of 8 GiB
        header("x", b"\xff" * 12, b"L") + bytes(2048),
        header("x", b"00000000100\0", b"x") + b"99 size=-5\n" + bytes(1000),
        bytes(511) + b"x",
    ],
)
def test_lengths_that_cannot_be(tmp_path: Path, content: bytes):
    path = tmp_path / "a.tar"
    path.write_bytes(header("b.log", b"00000000000\0") + content)
    with pytest.raises(CorruptLogError):
        segstore.open_segment(path)
    path.write_bytes(content)
    with pytest.raises((CorruptLogError, NotALogError)):
        segstore.open_segment(path)


@pytest.mark.parametrize(
    ("kind", "content"),
    [(b"L", b"name\0".ljust(512, b"\0")), (b"x", b"12 path=abc\n".ljust(512, b"\0"))],
)
def test_headers_of_headers_without_end(tmp_path: Path, kind: bytes, content: bytes):
    """Each one says that the next one belongs to it."""
    path = tmp_path / "a.tar"
    path.write_bytes((header("x", b"00000000014\0", kind) + content) * 3000 + bytes(1024))
    with pytest.raises(NotALogError, match="no tar archive: too many"):
        segstore.open_segment(path)
    path.write_bytes(header("b.log", b"00000000000\0") + path.read_bytes())
    with pytest.raises(CorruptLogError, match="damaged after the member b"):
        segstore.open_segment(path)


def test_a_closed_archive_is_an_error_as_a_closed_file_is(orders: Path, tmp_path: Path):
    """Of a scan from before, too; a second close does nothing."""
    for given in (orders / "*.log", archive_of(tmp_path / "a.tar", orders)):
        log = segstore.open_segment(given)
        scan = log.scan()
        log.close()
        log.close()
        for reading in (scan, log, log.scan()):
            with pytest.raises(ClosedError, match="closed"):
                list(reading)
        with pytest.raises(ClosedError, match="closed"):
            list(log.scan(isolation=COMMITTED))


def packed_members(path: Path, *members: tuple[str, bytes, bytes | str]) -> Path:
    """Write an archive of members ``(name, type, content)``; the content of a link is its target.

    `tarfile` cannot be asked for a link to what is not there, by `archive.add`.
    """
    with tarfile.open(path, "w") as archive:
        for name, kind, content in members:
            info = tarfile.TarInfo(name)
            info.type = kind
            if isinstance(content, str):
                info.linkname = content
                archive.addfile(info)
            else:
                info.size = len(content)
                archive.addfile(info, io.BytesIO(content))
    return path


def test_no_member_becomes_a_path(tmp_path: Path):
    """Names are for messages; a hard link to a file of the archive is that file."""
    regular, link = tarfile.REGTYPE, tarfile.LNKTYPE
    path = packed_members(tmp_path / "up.tar", ("../../orders-0/a.log", regular, at(0, 3)))
    with segstore.open_segment(path) as log:
        assert offsets(log) == [0, 1, 2]
        assert log.files == (f"{path}/../../orders-0/a.log",)
    linked = packed_members(
        tmp_path / "hard.tar", ("x/first", regular, at(4, 2)), ("x/second.log", link, "x/first")
    )
    with segstore.open_segment(linked) as log:
        assert offsets(log) == [4, 5]


@pytest.mark.parametrize(
    ("kind", "found"),
    [
        (tarfile.SYMTYPE, "a symbolic link to ../secret.log"),
        (tarfile.LNKTYPE, "a hard link to ../secret.log, which is not before it in the archive"),
        (tarfile.FIFOTYPE, "a member of type 6"),
        (b"M", "a member of type M"),
    ],
)
def test_a_segment_that_is_a_link_is_refused(tmp_path: Path, kind: bytes, found: str):
    """No link out of the archive is followed; its records would be missing without an error."""
    (tmp_path / "secret.log").write_bytes(at(3))
    path = packed_members(
        tmp_path / "orders-0.tar",
        ("orders-0/a.log", tarfile.REGTYPE, at(0, 3)),
        ("orders-0/b.log", kind, "../secret.log"),
    )
    with pytest.raises(
        NotALogError, match=r"no records of the member orders-0/b\.log: `tar --deref"
    ) as caught:
        segstore.open_segment(path)
    assert caught.value.found == found
    others = packed_members(
        tmp_path / "orders-1.tar",
        ("orders-0/old.log", tarfile.DIRTYPE, b""),
        ("orders-0/latest", kind, "../secret.log"),
        ("orders-0/a.log", tarfile.REGTYPE, at(0, 3)),
    )
    with segstore.open_segment(others) as log:
        assert offsets(log) == [0, 1, 2]


def test_a_sparse_segment_in_an_archive_is_refused(tmp_path: Path):
    """What `tar --sparse` makes of a segment that was allocated ahead; `tar` itself unpacks it."""
    folder = files_in(tmp_path / "orders-0", _0=at(0, 3))
    os.truncate(folder / f"{0:020}.log", 1 << 20)
    path = tmp_path / "a.tar"
    subprocess.run(["tar", "--sparse", "-cf", path, "-C", tmp_path, "orders-0"], check=True)
    with pytest.raises(NotALogError, match="`tar -xf` unpacks") as caught:
        segstore.open_segment(path)
    assert caught.value.found == "a sparse file"


def test_a_link_is_stored_as_a_file_by_the_command_that_the_error_names(tmp_path: Path):
    folder = files_in(tmp_path / "orders-0", elsewhere=at(0, 3))
    (folder / "a.log").symlink_to(folder / "elsewhere.log")
    path = tmp_path / "a.tar"
    pack = ["tar", "-cf", path, "-C", tmp_path, "orders-0/a.log"]
    subprocess.run(pack, check=True)
    with pytest.raises(NotALogError) as caught:
        segstore.open_segment(path)
    options = caught.value.message.split("`")[1].split()[1:-1]
    subprocess.run([pack[0], *options, *pack[1:]], check=True)
    with segstore.open_segment(path) as log:
        assert offsets(log) == [0, 1, 2]


def test_what_is_no_archive_of_a_log(orders: Path, tmp_path: Path):
    (tmp_path / "x.tar").write_bytes((orders / f"{0:020}.log").read_bytes())
    with pytest.raises(NotALogError, match="no tar archive"):
        segstore.open_segment(tmp_path / "x.tar")
    (tmp_path / "empty").mkdir()
    with pytest.raises(NotALogError, match=r"no \.log file"):
        segstore.open_segment(archive_of(tmp_path / "y.tar", tmp_path / "empty"))
    with pytest.raises(NotALogError, match="compressed by xz"):
        segstore.open_segment(archive_of(tmp_path / "z.tar.xz", orders, mode="w:xz"))
    with pytest.raises(LogNotFoundError):
        segstore.open_segment(tmp_path / "none.tar.gz")
    shutil.copytree(orders, tmp_path / "orders-1")
    both = archive_of(tmp_path / "two.tar", orders, tmp_path / "orders-1")
    with pytest.raises(IllegalArgumentError, match="orders-0, orders-1"):
        segstore.open_segment(both)
    (tmp_path / "folder.tar").mkdir()
    with pytest.raises(NotALogError, match=r"segstore\.open"):
        segstore.open_segment(tmp_path / "folder.tar")


def test_no_room_for_what_is_decompressed(
    orders: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The error names the folder, and what moves it."""
    path = archive_of(tmp_path / "a.tar.gz", orders, mode="w:gz")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "none"))
    with pytest.raises(SegstoreError, match="TMPDIR") as caught:
        segstore.open_segment(path)
    assert caught.value.file == str(tmp_path / "none")


@pytest.fixture
def stored(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Sizes of what was stored of compressed archives; 10 MiB are free for it, of 100."""
    found: list[int] = []
    write = segment_archive._write

    def noted(file, piece, position):
        found.append(len(piece))
        write(file, piece, position)

    disk = list(os.statvfs("/"))
    disk[0:5] = 4096, 4096, 100 * 256, 15 * 256, 15 * 256
    monkeypatch.setattr("os.fstatvfs", lambda _: os.statvfs_result(disk))
    monkeypatch.setattr(segment_archive, "_write", noted)
    return found


PACKED = pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress], ids=["gzip", "zstd"])


@PACKED
def test_an_archive_that_is_too_large_for_the_disk_is_refused_before_it_fills_it(
    tmp_path: Path, stored: list[int], pack
):
    """A small one may be decompressed to more than any disk has; its headers say how much."""
    path = tmp_path / "orders-0.tar.gz"
    content = header("first.log", b"00000000000\0") + header("a.log", b"00100000000\0")
    path.write_bytes(pack(content + bytes(16 << 20)))
    with pytest.raises(DiskFullError, match=r"the member a\.log of .*TMPDIR") as caught:
        segstore.open_segment(path)
    rest = (15 << 20) + 1024  # behind the first piece
    assert caught.value.expected == f"{rest} bytes, and {5 << 20} that stay free for others"
    assert caught.value.found == f"{15 << 20} bytes that are free"
    assert sum(stored) <= 1 << 20
    path.write_bytes(pack(header("a.log", b"77777777777\0")))  # 8 GiB, of which nothing is there
    with pytest.raises(DiskFullError, match="nothing of the archive was kept"):
        segstore.open_segment(path)


@PACKED
def test_what_comes_after_the_end_of_an_archive_is_not_stored(
    tmp_path: Path, stored: list[int], pack
):
    """It is decompressed all the same: damage in it may be in the bytes before too."""
    folder = files_in(tmp_path / "orders-0", _0=at(0, 3))
    content = archive_of(tmp_path / "a.tar", folder).read_bytes() + bytes(64 << 20)
    path = tmp_path / "a.tar.gz"
    path.write_bytes(pack(content))
    with segstore.open_segment(path) as log:
        assert offsets(log) == [0, 1, 2]
    assert sum(stored) <= 1 << 20
    path.write_bytes(pack(content)[:-9])
    if pack is gzip.compress:
        with pytest.raises(CorruptLogError, match="damaged after the member"):
            segstore.open_segment(path)


def test_an_archive_of_headers_without_end_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """A small one may have millions of empty members, each of which is held in memory."""
    monkeypatch.setattr(segment_archive, "_MOST_MEMBERS", 100)
    path = tmp_path / "a.tar.gz"
    many = header("a.log", b"00000000000\0") * 100
    path.write_bytes(gzip.compress(many + bytes(1024)))
    segstore.open_segment(path).close()
    path.write_bytes(gzip.compress(many * 1000 + bytes(1024)))
    with pytest.raises(LimitExceededError, match="too many members") as caught:
        segstore.open_segment(path)
    assert caught.value.position == 100 * 512


def test_ctrl_c_while_an_archive_is_decompressed_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Neither a name in the folder for temporary files, nor an open file."""
    folder = files_in(tmp_path / "orders-0", _0=at(0, 3))
    (folder / "rest.log").write_bytes(bytes(4 << 20))
    path = archive_of(tmp_path / "a.tar.gz", folder, mode="w:gz")
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    write = segment_archive._write

    def interrupted(file, piece, position):
        write(file, piece, position)
        if position:
            raise KeyboardInterrupt

    monkeypatch.setattr(segment_archive, "_write", interrupted)
    with pytest.raises(KeyboardInterrupt):
        segstore.open_segment(path)
    assert unlinked_files(tmp_path) == []
    assert [*(tmp_path / "temporary").iterdir()] == []


# ---- doors ---------------------------------------------------------------------------------------


def test_an_archive_is_exported(orders: Path, tmp_path: Path):
    """Up to where its bytes end."""
    given = archive_of(tmp_path / "a.tar.gz", orders, mode="w:gz")
    report = segstore.export_parquet(given, tmp_path / "a.parquet", verify=True)
    assert (report.records, report.from_offset, report.until_offset) == (300, 0, 300)


def test_files_alone_are_a_lazy_frame_and_a_dataset(orders: Path, tmp_path: Path):
    """A filter on offsets, and another one, as over the partition."""
    pl = pytest.importorskip("polars")
    import segstore.polars

    packed = archive_of(tmp_path / "a.tar", orders)
    for given in (orders, packed, orders / "*.log", sorted(orders.glob("*.log"))):
        frame = segstore.polars.scan_log(given)
        found = frame.filter(pl.col("offset").is_between(95, 105), pl.col("value") < b"50")
        assert found.select("offset").collect()["offset"].to_list() == [*range(100, 105), 105]
        assert frame.head(3).collect()["offset"].to_list() == [0, 1, 2]
        assert segstore.polars.scan_log(given, start_offset=290).collect().height == 10
    with segstore.open_segment(packed) as log:
        assert log.dataset(columns=["offset"]).to_table().num_rows == 300
        assert log.dataset(start_offset=7, end_offset=9).count_rows() == 2
        with pytest.raises(IllegalArgumentError):
            log.dataset(columns=["nothing"])
