"""What Kafka's loader turns each interrupted operation into: the table of crash outcomes [T-10].

With Kafka's profile throughout. What a log was closed with does not matter for most of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from segstore.errors import CorruptRecordError, IllegalArgumentError
from segstore.log.files.partition_directory import file_name
from segstore.log.producers.producer_snapshot import format_snapshot
from tests.kits.kafka_loading import Settings, close_quietly, load_as_kafka
from tests.kits.records_kit import build

if TYPE_CHECKING:
    from pathlib import Path

INDEX_BYTES = 96
SETTINGS = Settings(index_interval_bytes=0, segment_index_bytes=INDEX_BYTES, segment_bytes=4096)
BOTH = pytest.mark.parametrize("clean", [True, False])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "orders-0"
    folder.mkdir()
    return folder


def batches(*offsets: int) -> bytes:
    """One batch an offset."""
    return b"".join(build([(offset, 1000 + offset, b"k", b"v")]) for offset in offsets)


def write(folder: Path, base: int, data: bytes, suffix: str = "") -> None:
    """A segment with empty index files."""
    (folder / f"{file_name(base, 'log')}{suffix}").write_bytes(data)
    for kind in ("index", "timeindex"):
        (folder / f"{file_name(base, kind)}{suffix}").touch()


def sizes(folder: Path) -> dict[str, int]:
    """Sizes of segment files, names without zeros in front; no snapshots."""
    return {
        path.name.lstrip("0") if not path.name.startswith("0" * 20) else path.name[19:]: (
            path.stat().st_size
        )
        for path in folder.iterdir()
        if path.name[0].isdigit() and "snapshot" not in path.name
    }


def load(folder: Path, *, clean: bool, start: int = 0, recovery_point: int = 0) -> tuple[int, int]:
    """Log start and end."""
    loaded = load_as_kafka(
        folder,
        clean=clean,
        log_start_offset=start,
        recovery_point=recovery_point,
        settings=SETTINGS,
    )
    close_quietly(loaded)
    return loaded.log_start_offset, loaded.log_end.message_offset


ACTIVE = {"index": INDEX_BYTES, "timeindex": INDEX_BYTES}


def segment(base: int, data: bytes, *, active: bool = True, **of_index: int) -> dict[str, int]:
    """The files of a segment and their sizes."""
    indexes = ACTIVE if active else of_index
    return {f"{base}.log": len(data)} | {f"{base}.{kind}": size for kind, size in indexes.items()}


@BOTH
def test_deleted_files_go(folder: Path, clean):
    """[LDR-1, LDR-40] But a snapshot of the metadata log's is deleted by that log."""
    write(folder, 0, batches(0))
    write(folder, 5, batches(5), ".deleted")
    checkpoint = folder / "00000000000000000003-0000000001.checkpoint.deleted"
    checkpoint.touch()

    assert load(folder, clean=clean) == (0, 1)

    checkpoint.unlink()
    assert sizes(folder) == segment(0, batches(0))


@BOTH
def test_cleaned_files_go_and_with_them_swap_files_at_or_above(folder: Path, clean):
    """[LDR-3] A set of .swap files is complete when no .cleaned file is there below them."""
    write(folder, 0, batches(0))
    write(folder, 0, batches(0, 7), ".cleaned")
    write(folder, 10, batches(10), ".swap")

    assert load(folder, clean=clean) == (0, 1)

    assert sizes(folder) == segment(0, batches(0))


@BOTH
def test_swap_files_take_the_place_of_what_they_cover(folder: Path, clean):
    """[LDR-4..LDR-6] With the producer snapshots of the segments that go."""
    write(folder, 0, batches(0, 1))
    write(folder, 5, batches(5, 9))
    write(folder, 10, batches(10))
    write(folder, 0, batches(1, 9), ".swap")
    for offset in (5, 10):
        (folder / file_name(offset, "snapshot")).write_bytes(format_snapshot([]))

    assert load(folder, clean=clean, recovery_point=10) == (0, 11)

    assert sizes(folder) == (
        segment(0, batches(1, 9), active=False, index=0, timeindex=0) | segment(10, batches(10))
    )
    assert not (folder / file_name(5, "snapshot")).exists()
    assert (folder / file_name(10, "snapshot")).exists()


@BOTH
def test_several_swap_files_are_renamed_together(folder: Path, clean):
    """[LDR-5, LDR-6] Everything from the first base to the greatest next offset goes."""
    write(folder, 0, batches(0))
    write(folder, 4, batches(4))
    write(folder, 0, batches(0), ".swap")
    write(folder, 10, batches(10, 11), ".swap")
    write(folder, 12, batches(12))

    assert load(folder, clean=clean, recovery_point=12) == (0, 13)

    assert {name for name in sizes(folder) if name.endswith(".log")} == {
        *("0.log", "10.log", "12.log")
    }


@pytest.mark.parametrize("suffix", [".swap", ".cleaned"])
def test_a_temporary_file_without_a_number_fails_the_load(folder: Path, suffix: str):
    """[LDR-2, LDR-11] Kafka: NumberFormatException; a file of another kind is left alone."""
    write(folder, 0, batches(0))
    (folder / "notes.txt").touch()
    load(folder, clean=True)
    (folder / f"notes.log{suffix}").touch()

    with pytest.raises(IllegalArgumentError):
        load(folder, clean=True)
    (folder / f"notes.log{suffix}").rename(folder / "notes.log")
    with pytest.raises(IllegalArgumentError):
        load(folder, clean=True)


@BOTH
def test_an_index_without_its_log_goes(folder: Path, clean):
    """[LDR-11] Whatever it holds."""
    write(folder, 0, batches(0))
    for kind in ("index", "timeindex", "txnindex"):
        (folder / file_name(7, kind)).write_bytes(bytes(8))

    load(folder, clean=clean)

    assert sizes(folder) == segment(0, batches(0))


@BOTH
def test_a_log_without_its_index_is_recovered(folder: Path, clean):
    """[LDR-13, LDR-14] Also after a clean stop, and below the recovery point."""
    data = batches(0, 1, 2)
    write(folder, 0, data + b"torn")
    write(folder, 3, batches(3))
    (folder / file_name(0, "index")).unlink()

    assert load(folder, clean=clean, recovery_point=4) == (0, 4)

    assert sizes(folder) == (
        segment(0, data, active=False, index=2 * 8, timeindex=3 * 12 - 12) | segment(3, batches(3))
    )


def test_a_log_without_its_time_index_gets_an_empty_one(folder: Path):
    """[LDR-15] After a clean stop; ours is made anew."""
    write(folder, 0, batches(0, 1))
    (folder / file_name(0, "timeindex")).unlink()
    write(folder, 2, batches(2))

    load(folder, clean=True)

    assert sizes(folder)["0.timeindex"] == 0


def test_garbage_ends_the_log_where_recovery_looks(folder: Path):
    """[LDR-20..LDR-22] Later segments go; below the recovery point nobody looks [LDR-28]."""
    for base in (0, 2, 4):
        write(folder, base, batches(base, base + 1) + b"garbage that is no batch")

    assert load(folder, clean=False, recovery_point=2) == (0, 4)

    after = sizes(folder)
    assert after["0.log"] > len(batches(0, 1))
    assert after["2.log"] == len(batches(2, 3))
    assert {"4.log.deleted", "4.index.deleted", "4.timeindex.deleted"} < set(after)


def test_an_index_of_zeros_is_rebuilt_where_recovery_looks(folder: Path):
    """[IDX-2, LDR-8] And counts as full below, or after a false clean marker."""
    for base in (0, 3):
        write(folder, base, batches(base, base + 1, base + 2))
        (folder / file_name(base, "index")).write_bytes(bytes(INDEX_BYTES))

    assert load(folder, clean=False, recovery_point=3) == (0, 6)

    assert (folder / file_name(0, "index")).read_bytes() == bytes(INDEX_BYTES)
    assert any((folder / file_name(3, "index")).read_bytes())


def test_an_index_of_zeros_after_a_clean_stop_still_finds_the_end(folder: Path):
    """[IDX-2, SEG-22] Its last offset is the base: the end is read from the segment's start."""
    write(folder, 3, batches(3, 4, 5))
    (folder / file_name(3, "index")).write_bytes(bytes(INDEX_BYTES))

    assert load(folder, clean=True) == (3, 6)


def test_a_swap_file_without_its_index_gets_one_of_zeros(folder: Path):
    """[LDR-4] Which counts as full; ours would be rebuilt [LDR-13]."""
    write(folder, 0, batches(0, 1))
    (folder / f"{file_name(0, 'log')}.swap").write_bytes(batches(0, 1))
    write(folder, 2, batches(2))

    assert load(folder, clean=False, recovery_point=2) == (0, 3)

    assert (folder / file_name(0, "index")).read_bytes() == bytes(INDEX_BYTES)


def test_zeros_behind_the_last_batch_are_cut_only_by_a_recovery(folder: Path):
    """[LDR-34, SEG-17] After a clean stop 18 of them fail the load, 17 are not noticed."""
    data = batches(0, 1)
    write(folder, 0, data + bytes(17))
    assert load(folder, clean=True) == (0, 2)
    assert sizes(folder)["0.log"] == len(data) + 17

    write(folder, 0, data + bytes(18))
    with pytest.raises(CorruptRecordError):
        load(folder, clean=True)
    assert load(folder, clean=False) == (0, 2)
    assert sizes(folder)["0.log"] == len(data)


@BOTH
def test_a_log_start_above_the_end_begins_the_log_anew(folder: Path, clean):
    """[LDR-25, LDR-26] The checkpoint is at 4, the data ends at 1."""
    write(folder, 0, batches(0))

    assert load(folder, clean=clean, start=4) == (4, 4)

    assert sizes(folder) == segment(4, b"") | {
        f"0.{kind}.deleted": size
        for kind, size in {"log": len(batches(0)), **_indexes(clean=clean)}.items()
    }


def _indexes(*, clean: bool) -> dict[str, int]:
    """Of one batch: a recovery has written the last time entry."""
    return {"index": 0, "timeindex": 0 if clean else 12}


@pytest.mark.parametrize("with_segment", [False, True])
def test_a_directory_marked_for_deletion_is_not_recovered(tmp_path: Path, with_segment):
    """[LDR-8] UnifiedLogTest.testLoadPartitionDirWithNoSegmentsShouldNotThrow.

    Its log end is 0 in any case.
    """
    folder = tmp_path / "orders-0.0123456789abcdef0123456789abcdef-delete"
    folder.mkdir()
    if with_segment:
        write(folder, 3, batches(3) + b"garbage")

    assert load(folder, clean=False) == (3 if with_segment else 0, 0)

    expected = segment(3, batches(3) + b"garbage", active=False, index=0, timeindex=0)
    assert sizes(folder) == (expected if with_segment else {"0.log": 0})


@pytest.mark.parametrize("change", ["back", "same"])
def test_offsets_that_go_back_empty_the_segment(folder: Path, change: str):
    """[SEG-41, LDR-24] At a batch that gets an index entry; the log ends there."""
    last = {"back": 0, "same": 1}[change]
    write(folder, 0, batches(0, 1, last))
    write(folder, 9, batches(9))

    assert load(folder, clean=False) == (0, 0)

    after = sizes(folder)
    assert after["0.log"] == 0
    assert "9.log.deleted" in after


def test_an_index_without_room_fails_the_load(folder: Path):
    """[SEG-41, LDR-24] Kafka: IllegalArgumentException; ours stops indexing."""
    write(folder, 0, batches(*range(20)))

    with pytest.raises(IllegalArgumentError):
        load(folder, clean=False)
