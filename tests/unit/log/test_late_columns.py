"""Which columns of which records are decoded for a filter that few rows match."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyarrow import compute

import segstore
from segstore.log.local.file_bytes import FileBytes
from segstore.log.scan import LogScan
from tests.kits.transactions_kit import NOW

if TYPE_CHECKING:
    from collections.abc import Iterator

    from segstore import UnifiedLog

KEY, OFFSET = compute.field("key"), compute.field("offset")
COUNT, OF_BATCH = 5000, 50
Pass = tuple[tuple[str, ...], int, int]


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[UnifiedLog]:
    """Each key is in one record, but ``often``, which is in every batch."""
    monkeypatch.setattr("segstore.log.record_dataset.MAX_BATCH_ROWS", 2 * OF_BATCH)
    with segstore.open(tmp_path / "orders-0", durability="none") as found:
        for first in range(0, COUNT, OF_BATCH):
            keys = [b"often", *(b"%d" % n for n in range(first + 1, first + OF_BATCH))]
            found.append([(NOW, key, b"value of " + key) for key in keys])
        yield found


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> list[Pass]:
    """The columns and the range of each pass over stored batches."""
    found: list[Pass] = []
    read = LogScan._arrow_batches

    def noted(scan, columns, *arguments, **options):
        found.append((tuple(columns), scan.start_offset, scan.end_offset))
        return read(scan, columns, *arguments, **options)

    monkeypatch.setattr(LogScan, "_arrow_batches", noted)
    return found


def test_values_are_decoded_where_the_key_was_found(log, passes):
    table = log.dataset().to_table(columns=["value"], filter=KEY == b"1234")
    assert table["value"].to_pylist() == [b"value of 1234"]
    assert passes == [(("key", "offset"), 0, COUNT), (("key", "value"), 1234, 1235)]
    passes.clear()
    table = log.dataset().to_table(columns=["value"], filter=KEY.isin([b"11", b"88", b"4999"]))
    assert table["value"].to_pylist() == [b"value of 11", b"value of 88", b"value of 4999"]
    assert [one[1:] for one in passes] == [(0, COUNT), (11, 89), (4999, COUNT)]
    passes.clear()
    assert log.dataset().to_table(columns=["value"], filter=KEY == b"nobody").num_rows == 0
    assert len(passes) == 1


def test_what_is_found_often_is_read_in_one_pass(log, passes):
    table = log.dataset().to_table(columns=["offset", "value"], filter=KEY == b"often")
    assert table["offset"].to_pylist() == [*range(0, COUNT, OF_BATCH)]
    assert set(table["value"].to_pylist()) == {b"value of often"}
    assert passes[0] == (("key", "offset"), 0, COUNT)
    assert passes[-1] == (("key", "value", "offset"), 4 * OF_BATCH, COUNT)
    assert len(passes) == 4


@pytest.mark.parametrize(
    ("columns", "where"),
    [
        (["key", "offset"], KEY == b"1234"),  # no other columns
        (["value"], (KEY == b"1234") & (OFFSET > 1200) & (OFFSET < 1250)),  # a small range
        (["value"], OFFSET > 1000),  # nothing left to filter
    ],
)
def test_otherwise_there_is_one_pass(log, passes, columns, where):
    assert log.dataset().to_table(columns=columns, filter=where).num_rows > 0
    assert len(passes) == 1


def test_threads_share_what_they_have_learned(tmp_path, monkeypatch, log, passes):
    """The parts of a topic are read in one pass too, once a key was found often."""
    del log
    monkeypatch.setattr("segstore.tables.topic_scan.threads_count", lambda: 2)
    monkeypatch.setattr("segstore.tables.topic_scan.PART_BYTES", 10_000)
    with segstore.open_dir(tmp_path, read_only=True) as logs:
        dataset = logs.dataset("orders", columns=["key", "offset", "value"])
        table = dataset.to_table(columns=["offset", "value"], filter=KEY == b"often")
        assert table["offset"].to_pylist() == [*range(0, COUNT, OF_BATCH)]
        keys_first = [one for one in passes if one[0] == ("key", "offset")]
        assert 0 < len(keys_first) < 5
        assert passes[-1][0] == ("key", "offset", "value")
        assert passes[-1][2] == COUNT
        assert sum(one[2] - one[1] for one in keys_first) < COUNT


@pytest.fixture
def read_bytes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How much each read of a file without an index asked for."""
    found: list[int] = []
    read = FileBytes.read

    def noted(file, position, size):
        found.append(size)
        return read(file, position, size)

    monkeypatch.setattr(FileBytes, "read", noted)
    return found


@pytest.mark.parametrize(
    "where",
    [
        KEY.isin([b"%d" % n for n in range(60, COUNT, 500)]),
        OFFSET.isin([*range(60, COUNT, 500)]),
        ((OFFSET < 10) | (OFFSET > COUNT - 10)) & (KEY != b"often"),
    ],
    ids=["keys", "offsets", "ranges"],
)
def test_files_without_an_index_are_read_in_one_pass(log, passes, read_bytes, where):
    """Each part would be looked for from the beginning of the file."""
    wanted = log.dataset().to_table(filter=where)
    path = Path(log.path) / log.segments()[0].name
    passes.clear()
    with segstore.open_segment(path) as files:
        read_bytes.clear()
        found = files.dataset().to_table(filter=where)
    assert found == wanted
    assert len(passes) == 1
    assert sum(read_bytes) < 2.1 * path.stat().st_size  # to find whole batches, and to decode them
