"""What export and import to Parquet compare: a log, its batches, and what the files say of them."""

from __future__ import annotations

import json
import struct
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import segstore
from segstore._core import RecordsBuilder, crc32c
from segstore.cli import main
from segstore.errors import (
    AlreadyExistsError,
    CorruptLogError,
    IllegalArgumentError,
    OffsetOutOfRangeError,
)
from segstore.records.compression import codec_table
from segstore.tables import batch_table, dictionary_rows, parquet_reader, partition_import
from segstore.tables.parquet_files import METADATA_KEY, PLAN_KEY
from segstore.tables.parquet_reader import ParquetReader
from segstore.tables.parquet_writer import rows_schema
from segstore.tables.row_queue import RowQueue
from tests.unit.log.test_committed_view import PLAIN, data, marker
from tests.unit.tables.test_parquet_transfer import (
    STEPS,
    append_batch,
    append_marker,
    append_steps,
    filled,
    in_transactions,
)


def with_metadata(folder: Path, **more: object) -> Path:
    """Return a file of an export of which the metadata say something else."""
    source = filled(folder / "orders-0")
    file = Path(segstore.export_parquet(source, f"{folder}/out/").path)
    table, metadata = pq.read_table(file), pq.read_metadata(file).metadata
    origin = json.loads(metadata[METADATA_KEY])
    del origin["batchTables"], origin["format"]
    told = {**metadata, METADATA_KEY: json.dumps({**origin, **more}).encode()}
    pq.write_table(table.replace_schema_metadata(told), file)
    return file


# ---- batches -------------------------------------------------------------------------------------


def two_transactions(path: Path, *, commit: bool = True, producer_id: int | None = 7) -> Path:
    """Make a log with the records 0 to 4 of a producer, and the end of its transaction."""
    with segstore.open(path, durability="none") as log:
        if producer_id is None:
            append_batch(log, [b"v"] * 5)
        else:
            append_batch(log, [b"v"] * 5, producer_id=producer_id, base_sequence=0)
            append_marker(log, producer_id=producer_id, commit=commit)
    return path


@pytest.mark.parametrize("verify", [False, True])
@pytest.mark.parametrize(
    ("options", "offset"),
    [({"commit": False}, 5), ({"producer_id": None}, 0), ({"producer_id": 9}, 0)],
)
def test_a_log_with_the_same_records_and_other_batches_is_not_changed(
    tmp_path: Path, options: dict[str, Any], offset: int, *, verify: bool
):
    """ABORT where the export has COMMIT: a reader of committed records would see other ones."""
    with segstore.open(two_transactions(tmp_path / "a-0")) as log:
        append_batch(log, [b"w"] * 3, producer_id=7, base_sequence=5)
        segstore.export_parquet(log, tmp_path / "a.parquet", verify=True)
    path = two_transactions(tmp_path / "b-0", **options)
    with segstore.open(path, read_only=True) as log:
        end = log.log_end_offset
    with pytest.raises(AlreadyExistsError, match=f"another batch at offset {offset}"):
        segstore.import_parquet(tmp_path / "a.parquet", path, verify=verify)
    with segstore.open(path, read_only=True) as log:
        assert log.log_end_offset == end


@pytest.mark.parametrize("damage", ["rows", "order", "crc", "raw", "bytes", "last", "producer"])
def test_a_verified_export_compares_its_tables_of_batches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: str
):
    """An import could not use what differs: row counts, an order, bytes, or a header."""
    source = in_transactions(tmp_path / "orders-0")
    take = batch_table.BatchNotes.take

    def other(notes: batch_table.BatchNotes) -> batch_table.NotedBatches:
        headers, raw = take(notes)
        if damage == "rows":
            headers["records_count"][[0, 1]] += np.array([-1, 1], np.int32)
        elif damage == "order":
            headers = np.concatenate([headers[:1], headers])
            raw = [raw[0], *raw]
            headers["records_count"][0] = 0
        elif damage == "crc":
            headers["crc"][0] ^= 1
        elif damage == "raw":
            first, second = [n for n, one in enumerate(raw) if one is not None][:2]
            raw[first], raw[second] = raw[second], raw[first]
        elif damage == "bytes":  # COMMIT or ABORT, behind a header that is right
            first = next(n for n, one in enumerate(raw) if one is not None)
            raw[first] = raw[first][:69] + bytes([raw[first][69] ^ 1]) + raw[first][70:]
        elif damage == "last":
            headers["last_offset"][0] += 1
        else:
            headers["producer_id"][0] += 1
        return batch_table.NotedBatches(headers, raw)

    monkeypatch.setattr(batch_table.BatchNotes, "take", other)
    with pytest.raises(CorruptLogError, match=r"not what the log holds.*another batch at offset"):
        segstore.export_parquet(source, tmp_path / "out.parquet", verify=True)
    assert not (tmp_path / "out.parquet").exists()


@pytest.mark.parametrize(("start", "end"), [(0, 17), (3, 30), (15, 18), (12, 13), (29, 30)])
def test_a_part_is_verified(tmp_path: Path, start: int, end: int):
    """Of batches across its bounds the file has a part; the log has them whole."""
    source = filled(tmp_path / "orders-0")
    file = tmp_path / "part.parquet"
    segstore.export_parquet(source, file, start_offset=start, end_offset=end, verify=True)
    done = segstore.import_parquet(file, tmp_path / "back-0", verify=True)
    assert done[0].records == end - start
    assert segstore.import_parquet(file, tmp_path / "back-0", verify=True)[0].records == 0


# ---- an export that is not whole -----------------------------------------------------------------


def topic(path: Path, partitions: int = 4) -> Path:
    with segstore.open_dir(path) as logs:
        logs.create_topic("orders", partitions=partitions)
        for number in range(partitions):
            for _ in range(2):
                logs.append("orders", [(b"k", b"%d" % n) for n in range(5)], partition=number)
    return path


def interrupted_export(data: Path, folder: Path, where: str, **options: Any) -> None:
    def interrupt(name: str, done: int, _: int) -> None:
        if f"{name} {done}" == where:
            raise KeyboardInterrupt

    with (
        segstore.open_dir(data, read_only=True) as logs,
        pytest.raises(KeyboardInterrupt),
    ):
        logs.export_parquet("orders", folder, progress=interrupt, **options)


def test_an_export_that_was_interrupted_is_not_imported(tmp_path: Path):
    """Two of four partitions: keys would be spread over two."""
    data, out = topic(tmp_path / "data"), tmp_path / "out"
    interrupted_export(data, out, "orders-2 10")
    assert len([*out.iterdir()]) == 2
    with pytest.raises(CorruptLogError, match=r"not whole.*orders-2, orders-3.*all that"):
        segstore.import_parquet(out, tmp_path / "back", verify=True)
    assert not (tmp_path / "back").exists()
    done = segstore.import_parquet(out, tmp_path / "some", allow_gaps=True)
    assert len(done) == 2

    with segstore.open_dir(data, read_only=True) as logs:
        logs.export_parquet("orders", out)
    assert len(segstore.import_parquet(out, tmp_path / "back", verify=True)) == 4


@pytest.mark.parametrize(
    ("where", "words"),
    [
        ("orders-1 5", "orders-1, orders-2"),
        ("orders-1 10", r"orders-1 from offset 5 to 9, orders-2"),
    ],
)
def test_an_export_in_parts_that_was_interrupted(tmp_path: Path, where: str, words: str):
    data, out = topic(tmp_path / "data", 3), tmp_path / "out"
    interrupted_export(data, out, where, bytes_of_a_file=1)
    with pytest.raises(CorruptLogError, match=f"no file of {words}, expected"):
        segstore.import_parquet(out, tmp_path / "back")


@pytest.mark.parametrize("number", range(4))
def test_a_lost_file_of_an_export_is_missed(tmp_path: Path, number: int):
    """The first one of a partition, and the last one, too."""
    with segstore.open_dir(topic(tmp_path / "data", 2), read_only=True) as logs:
        logs.export_parquet("orders", tmp_path / "out", bytes_of_a_file=1)
    lost = sorted((tmp_path / "out").iterdir())[number]
    lost.unlink()
    first = 5 * (number % 2)
    words = f"orders-{number // 2} from offset {first} to {first + 4}"
    with pytest.raises(CorruptLogError, match=f"no file of {words}"):
        segstore.import_parquet(tmp_path / "out", tmp_path / "back")


def test_a_second_export_that_was_interrupted(tmp_path: Path):
    """The folder has a whole older export, and of one partition a newer one."""
    data, out = topic(tmp_path / "data", 2), tmp_path / "out"
    with segstore.open_dir(data) as logs:
        logs.export_parquet("orders", out)
        for number in range(2):
            logs.append("orders", [(b"k", b"new")] * 5, partition=number)
    interrupted_export(data, out, "orders-1 15")
    with pytest.raises(CorruptLogError, match="no file of orders-1 from offset 10 to 14"):
        segstore.import_parquet(out, tmp_path / "back")


@pytest.mark.parametrize("is_reversed", [False, True])
def test_a_partition_that_was_empty_is_completed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_reversed: bool
):
    """Its first file has no offsets, and begins where the next one does; folders have no order."""
    with segstore.open_dir(tmp_path / "data") as logs:
        logs.create_topic("orders")
        logs.export_parquet("orders", tmp_path / "out")
        logs.append("orders", [(b"k", b"v")] * 5)
        logs.export_parquet("orders", tmp_path / "out")
    glob = Path.glob

    def ordered(path: Path, pattern: str) -> list[Path]:
        return sorted(glob(path, pattern), reverse=is_reversed)

    monkeypatch.setattr(Path, "glob", ordered)
    done = segstore.import_parquet(tmp_path / "out", tmp_path / "back", verify=True)
    assert [one.records for one in done] == [5]


def test_chosen_partitions_and_later_starts_are_whole(tmp_path: Path):
    """What was deleted between two exports is not missed; nor what was not asked for."""
    out = tmp_path / "out"
    with segstore.open_dir(topic(tmp_path / "data")) as logs:
        logs.export_parquet("orders", out, partitions=[1, 3])
        assert len(segstore.import_parquet(out, tmp_path / "back")) == 2
        log = logs.log("orders", 1)
        log.append([(None, b"v")] * 3)
        log.delete_records(7)
        logs.export_parquet("orders", tmp_path / "new", partitions=[1])
        segstore.import_parquet(tmp_path / "new", tmp_path / "new-back")
        logs.export_parquet("orders", out)
    assert len(segstore.import_parquet(out, tmp_path / "all")) == 4


@pytest.mark.parametrize(
    "plan", [b"[]", b'{"0":"x"}', b"garbage", b"null", b'{"a":1}', b'{"0":1e400}', b"\xff"]
)
def test_a_damaged_plan_is_named(tmp_path: Path, plan: bytes):
    """What the other files of the export were to hold cannot be told then."""
    data, out = topic(tmp_path / "data", 1), tmp_path / "out"
    with segstore.open_dir(data, read_only=True) as logs:
        logs.export_parquet("orders", out, isolation="read_committed")  # records alone
    (file,) = out.iterdir()
    rows, metadata = pq.read_table(file), pq.read_metadata(file).metadata
    changed = {METADATA_KEY: metadata[METADATA_KEY], PLAN_KEY: plan}
    pq.write_table(rows.replace_schema_metadata(changed), file)
    with pytest.raises(CorruptLogError, match=r"other files of its export is damaged") as caught:
        segstore.import_parquet(out, tmp_path / "back")
    assert caught.value.file == str(file)
    assert segstore.import_parquet(out, tmp_path / "back", allow_gaps=True)[0].records == 10


# ---- files alone ---------------------------------------------------------------------------------


def segments(path: Path) -> list[Path]:
    """Make a log of several segments, and return their files."""
    with segstore.open(path, internal_segment_bytes=2000) as log:
        for _ in range(30):
            log.append([(1000, b"k", b"v" * 100)] * 5)
    return sorted(path.glob("*.log"))


def test_files_alone_with_a_torn_end_are_not_exported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    """The file would look whole; a bound below the end, or allow_gaps, says that it is meant."""
    source = filled(tmp_path / "orders-0") / f"{0:020}.log"
    torn, out = tmp_path / "torn.log", tmp_path / "out.parquet"
    torn.write_bytes(source.read_bytes()[:-30])
    with segstore.open_segment(torn, as_="orders-0") as files:
        for options in ({}, {"end_offset": 95}, {"isolation": "read_committed"}):
            with pytest.raises(CorruptLogError, match=r"ends inside a batch.*allow_gaps"):
                segstore.export_parquet(files, out, **options)
            assert not out.exists()
        for options in ({"end_offset": 90}, {"end_offset": 7}, {"allow_gaps": True}):
            report = segstore.export_parquet(files, out, verify=True, overwrite=True, **options)
            assert report.records == report.until_offset == options.get("end_offset", 90)
    arguments = ["export", str(torn), str(tmp_path / "b.parquet"), "--as", "orders-0", "-q"]
    assert main(arguments) == 1
    assert "ends inside a batch" in capsys.readouterr().err
    assert main([*arguments, "--allow-gaps"]) == 0


def test_files_alone_with_a_hole_are_not_exported(tmp_path: Path):
    files = segments(tmp_path / "orders-0")
    lost, out = files.pop(2), tmp_path / "out.parquet"
    first, behind = int(lost.stem), int(files[2].stem)
    with segstore.open_segment(files) as opened:
        assert opened.holes == ((first, behind),)
        with pytest.raises(CorruptLogError, match=f"offsets {first} to {behind - 1}.*allow_gaps"):
            segstore.export_parquet(opened, out)
        for options in ({"end_offset": first}, {"start_offset": behind}, {"allow_gaps": True}):
            report = segstore.export_parquet(opened, out, verify=True, overwrite=True, **options)
            gap = behind - first if "allow_gaps" in options else 0
            assert report.records == report.until_offset - report.from_offset - gap


@pytest.mark.parametrize("is_torn", [False, True])
def test_undecided_transactions_of_files_alone_are_not_left_out(tmp_path: Path, *, is_torn: bool):
    """Where their marker may be missing, records may be committed that the file would not have."""
    content = data(PLAIN, 0, 2) + data(11, 2, 3) + data(PLAIN, 5, 2)
    torn = marker(11, 7, "commit")[:-4] if is_torn else b""
    (tmp_path / "orders-0").mkdir()
    (tmp_path / "orders-0" / f"{0:020}.log").write_bytes(content + torn)
    if not is_torn:
        (tmp_path / "orders-0" / f"{9:020}.log").write_bytes(data(PLAIN, 9, 1))
    source, out = f"{tmp_path}/orders-0/*.log", tmp_path / "out.parquet"
    query: dict[str, Any] = {"isolation": "read_committed", "verify": True}
    for options in ({"end_offset": 7}, {"end_offset": 3}, {"start_offset": 4, "end_offset": 7}):
        with pytest.raises(CorruptLogError, match=r"end marker of their transaction.*allow_gaps"):
            segstore.export_parquet(source, out, **query, **options)
        assert not out.exists()
    assert segstore.export_parquet(source, out, end_offset=7).records == 7
    for options, records in (
        ({"end_offset": 2}, 2),
        ({"start_offset": 5, "end_offset": 7}, 2),
        ({"end_offset": 7, "allow_gaps": True}, 4),
    ):
        report = segstore.export_parquet(source, out, overwrite=True, **query, **options)
        assert report.records == records


def test_bounds_are_in_the_files(tmp_path: Path):
    """A file that claimed offsets 0 to 99 would be imported as a log that has compacted them."""
    file, out = tmp_path / f"{100:020}.log", tmp_path / "out.parquet"
    file.write_bytes(data(PLAIN, 100, 5))
    with segstore.open_segment(file, as_="orders-0") as files:
        for options in (
            {"start_offset": 0},
            {"start_offset": 106},
            {"end_offset": 106},
            {"start_offset": 200, "allow_gaps": True},
            {"start_offset": 103, "end_offset": 1000, "allow_gaps": True},
        ):
            with pytest.raises(OffsetOutOfRangeError, match="offsets 100 to 105"):
                segstore.export_parquet(files, out, **options)
            assert not out.exists()
        for options, records in (
            ({"start_offset": 100, "end_offset": 105}, 5),
            ({"start_offset": 0, "allow_gaps": True}, 5),
            ({"start_offset": 105}, 0),
        ):
            report = segstore.export_parquet(files, out, overwrite=True, verify=True, **options)
            assert (report.records, report.until_offset) == (records, 105)


# ---- a start above the last stable offset --------------------------------------------------------


def test_a_committed_export_does_not_begin_above_the_last_stable_offset(tmp_path: Path):
    """The file would say that it ends before it begins."""
    source = in_transactions(tmp_path / "orders-0")
    with segstore.open(source) as log:
        append_batch(log, [b"more"] * 5)
        stable = log.last_stable_offset
    out = tmp_path / "out"
    out.mkdir()
    for start, end in ((stable + 1, None), (stable + 2, stable + 4)):
        with pytest.raises(OffsetOutOfRangeError, match="last stable offset") as raised:
            segstore.export_parquet(
                source, out, start_offset=start, end_offset=end, isolation="read_committed"
            )
        assert "orders-0" in str(raised.value)
        assert (raised.value.found, raised.value.expected) == (str(start), f"at most {stable}")
    assert [*out.iterdir()] == []
    options: dict[str, Any] = {"isolation": "read_committed", "verify": True}
    report = segstore.export_parquet(source, out, start_offset=stable, **options)
    assert (report.from_offset, report.until_offset, report.records) == (stable, stable, 0)


@pytest.mark.parametrize("source", ["the file", "its folder"])
@pytest.mark.parametrize(
    "damage",
    [
        {"fromOffset": 9, "untilOffset": 3},
        *({"fromOffset": damage} for damage in (-1, True, "0", 0.0, None, 2**63)),
        *({"startOffset": damage} for damage in (-1, True, "0", 0.0, None, 2**63, 1)),
        {"partition": 0.0},
        {"records": "100"},
        {"isolation": 3},
        {"topicId": []},
    ],
    ids=str,
)
def test_a_file_with_damaged_metadata_is_not_imported(
    tmp_path: Path, damage: dict[str, object], source: str
):
    """A damaged ``startOffset`` was passed over: so was a first part that was missing."""
    file = with_metadata(tmp_path, **damage)
    with pytest.raises(CorruptLogError, match="cannot be used") as raised:
        segstore.import_parquet(file if source == "the file" else file.parent, tmp_path / "back-0")
    assert raised.value.file == str(file)
    assert "its metadata are damaged" in str(raised.value.found)
    assert not (tmp_path / "back-0").exists()


# ---- what cannot be built from rows --------------------------------------------------------------


def test_timestamps_before_1970_come_back(tmp_path: Path):
    """Kafka's records have had them; no batch is built with one, so the stored batch is kept."""
    with segstore.open(tmp_path / "old-0") as log:
        for first, timestamps in ((0, (5, -7, 9)), (3, (1, 2, -1)), (6, (-2, -3, 4))):
            log.append_as_follower(with_timestamps(first, timestamps), 0)
        expected = log.scan(columns=("offset", "timestamp", "value")).to_arrow()
        segstore.export_parquet(log, tmp_path / "out.parquet", verify=True)
        with pytest.raises(IllegalArgumentError, match="an end within the batch at offset 6"):
            segstore.export_parquet(log, tmp_path / "part.parquet", end_offset=8)
        assert not (tmp_path / "part.parquet").exists()
    segstore.import_parquet(tmp_path / "out.parquet", tmp_path / "back-0", verify=True)
    with segstore.open(tmp_path / "back-0", read_only=True) as back:
        assert back.scan(columns=expected.column_names).to_arrow().equals(expected)
    (table,) = ParquetReader(str(tmp_path / "out.parquet")).batches()
    assert [one is not None for one in table.raw] == [True, False, True]


@pytest.mark.parametrize(
    "changes",
    [
        {21: struct.pack(">h", 0x80)},  # attributes: a bit without a meaning
        {43: struct.pack(">qhi", 5, 0, -1)},  # a producer without a sequence
        {21: struct.pack(">h", 0x10), 43: struct.pack(">qhi", 5, 0, -1)},  # in a transaction
        {21: struct.pack(">h", 0x40), 27: struct.pack(">q", -1)},  # a delete horizon of none
    ],
)
def test_a_batch_that_is_not_built_from_rows_is_exported_whole(
    tmp_path: Path, changes: dict[int, bytes]
):
    """A part of it had been exported, and verified; its import then refused the header."""
    batch = bytearray(with_timestamps(0, (5, 6, 7, 8)))
    for position, content in changes.items():
        batch[position : position + len(content)] = content
    batch[17:21] = struct.pack(">I", crc32c(bytes(batch[21:])))
    with segstore.open(tmp_path / "odd-0") as log:
        log.append_as_follower(bytes(batch) + with_timestamps(4, (1, 2)), 0)
        expected = log.scan(columns=("offset", "timestamp", "value")).to_arrow()
        for options in ({"end_offset": 2}, {"start_offset": 2}):
            with pytest.raises(IllegalArgumentError, match="within the batch at offset 0"):
                segstore.export_parquet(log, tmp_path / "part.parquet", **options)
            assert not (tmp_path / "part.parquet").exists()
        segstore.export_parquet(log, tmp_path / "out.parquet", verify=True)
        start = min(4, log.last_stable_offset)
        committed = {"isolation": "read_committed", "start_offset": start, "end_offset": 6}
        segstore.export_parquet(log, tmp_path / "part.parquet", **committed)
    segstore.import_parquet(tmp_path / "out.parquet", tmp_path / "back-0", verify=True)
    with segstore.open(tmp_path / "back-0", read_only=True) as back:
        assert back.scan(columns=expected.column_names).to_arrow().equals(expected)


def test_batches_without_a_leader_epoch_get_one(tmp_path: Path):
    """Built from rows or raw: an append refuses them, and no checksum covers the epoch."""
    none = struct.pack(">i", -1)
    old = [with_timestamps(0, (5, 6)), with_timestamps(2, (-5, 6)), marker(11, 4, "commit")]
    new = [bytearray(with_timestamps(first, (7, 8))) for first in (5, 7)]
    new[0][12:16] = struct.pack(">i", 3)
    new[1][12:16] = none
    stored = b"".join([*(one[:12] + none + one[16:] for one in old), *map(bytes, new)])
    file = tmp_path / f"{0:020}.log"
    file.write_bytes(stored)
    with segstore.open_segment(file, as_="old-0") as files:
        expected = files.scan(columns=("offset", "timestamp", "value")).to_arrow()
        segstore.export_parquet(files, tmp_path / "out.parquet", verify=True)
    for _ in range(2):
        segstore.import_parquet(tmp_path / "out.parquet", tmp_path / "back-0", verify=True)
        with segstore.open(tmp_path / "back-0") as back:
            assert back.scan(columns=expected.column_names).to_arrow().equals(expected)
            epochs = [one.partition_leader_epoch for one in back.scan().batches()]
            assert epochs == [0, 0, 0, 3, 3]
            back.truncate_to(2)
    segstore.import_parquet(tmp_path / "out.parquet", tmp_path / "back-0", verify=True)


def with_timestamps(first: int, timestamps: tuple[int, ...]) -> bytes:
    """Return a batch of records with these timestamps, in single digits."""
    builder = RecordsBuilder(codec_table(), base_offset=first, partition_leader_epoch=0)
    for offset in range(first, first + len(timestamps)):
        builder.append(offset, 10, b"k", b"v")
    data = bytearray(builder.build())
    position = 61
    for timestamp in timestamps:  # behind the size and the attributes
        data[position + 2] = zigzag(timestamp - timestamps[0])
        position += 1 + data[position] // 2
    data[27:43] = struct.pack(">qq", timestamps[0], max(timestamps))
    data[17:21] = struct.pack(">I", crc32c(bytes(data[21:])))
    return bytes(data)


def zigzag(value: int) -> int:
    return 2 * value if value >= 0 else -2 * value - 1


@pytest.mark.parametrize("large", [False, True])
def test_empty_lists_of_headers_are_no_headers(tmp_path: Path, *, large: bool):
    """Other programs write them; what the log gave back was another record than the file's."""
    rows = [
        {
            "topic": "t",
            "partition": 0,
            "offset": offset,
            "timestamp": datetime(2020, 1, 1, tzinfo=UTC),
            "timestampType": 0,
            "leaderEpoch": 0,
            "key": None,
            "value": b"v",
            "headers": headers,
        }
        for offset, headers in enumerate(([], None, [{"key": "h", "value": b"1"}], []))
    ]
    table = pa.Table.from_pylist(rows, schema=rows_schema())
    if large:
        kind = pa.large_list(table.schema.field("headers").type.value_type)
        table = table.set_column(8, "headers", table["headers"].cast(kind))
    pq.write_table(table, tmp_path / "out.parquet")
    for records in (4, 0):
        done = segstore.import_parquet(tmp_path / "out.parquet", tmp_path / "t-0", verify=True)
        assert done[0].records == records


@pytest.mark.parametrize("is_of_topic", [False, True])
def test_a_committed_export_of_timestamps_before_1970_is_refused(
    tmp_path: Path, *, is_of_topic: bool
):
    """It has no stored batches, so no import could make a log of it; and verify passed."""
    out = tmp_path / "out"
    out.mkdir()
    with segstore.open(tmp_path / "data" / "old-0") as log:
        log.append_as_follower(with_timestamps(0, (1, 2, -1)), 0)
        log.append_as_follower(with_timestamps(3, (5, -7, 9)), 0)
    options: dict[str, Any] = {"isolation": "read_committed"}
    with segstore.open_dir(tmp_path / "data", read_only=True) as logs:
        export = logs.export_parquet if is_of_topic else segstore.export_parquet
        what: Any = "old" if is_of_topic else logs.log("old", 0)
        with pytest.raises(IllegalArgumentError, match="timestamp before 1970") as raised:
            export(what, out, **options)
    assert raised.value.found == "timestamp -7 ms at offset 4 of old-0"
    assert [*out.iterdir()] == []
    source = tmp_path / "data" / "old-0"
    segstore.export_parquet(source, out, end_offset=3, verify=True, **options)
    assert segstore.import_parquet(out, tmp_path / "back", verify=True)[0].records == 3


def test_a_log_that_begins_within_a_batch_that_is_not_built_from_rows(tmp_path: Path):
    """What can be exported is said; after that the rest comes back."""
    with segstore.open(tmp_path / "data" / "old-0") as log:
        log.append_as_follower(with_timestamps(0, (5, -7, 9)), 0)
        log.append_as_follower(with_timestamps(3, (1, 2)), 0)
        log.delete_records(1)
    with segstore.open_dir(tmp_path / "data") as logs:
        with pytest.raises(IllegalArgumentError, match="can only be exported whole") as raised:
            logs.export_parquet("old", tmp_path / "out")
        assert raised.value.found == "a start within the batch at offset 0"
        assert str(raised.value.expected).startswith("a start at offset 3 or later")
        assert "delete_records(3)" in str(raised.value)
        logs.log_to_write("old", 0).delete_records(3)
        logs.export_parquet("old", tmp_path / "out")
    assert segstore.import_parquet(tmp_path / "out", tmp_path / "back")[0].records == 2


# ---- memory --------------------------------------------------------------------------------------


@pytest.mark.parametrize("isolation", ["log_end", "read_committed"])
def test_rows_are_read_and_appended_by_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, isolation: Any
):
    """20,000 rows of 40 kB had been in memory at once, also where zstd makes 2 MB of them."""
    with segstore.open(tmp_path / "big-0", compression_type="zstd") as log:
        for _ in range(40):
            log.append([(1000, b"k", b"v" * 4000) for _ in range(10)])
        segstore.export_parquet(
            log, tmp_path / "out.parquet", isolation=isolation, compression="none"
        )
    monkeypatch.setattr(parquet_reader, "BYTES_AT_ONCE", 100_000)
    monkeypatch.setattr(partition_import, "BYTES_OF_AN_APPEND", 100_000)
    taken: list[int] = []
    take = RowQueue.take

    def noting(queue: RowQueue, count: int) -> Any:
        rows = take(queue, count)
        taken.append(rows.nbytes)
        return rows

    monkeypatch.setattr(RowQueue, "take", noting)
    segstore.import_parquet(tmp_path / "out.parquet", tmp_path / "back-0", verify=True)
    assert 30_000 < max(taken) < 250_000
    with segstore.open(tmp_path / "back-0", read_only=True) as back:
        assert len(back) == 400
    read = [one.nbytes for one in ParquetReader(str(tmp_path / "out.parquet")).rows()]
    assert 30_000 < max(read) < 150_000


def rows_of_a_file(count: int, **columns: list[Any]) -> pa.Table:
    """Return a table like that of another program, with these columns."""
    usual: dict[str, list[Any]] = {
        "topic": ["t"] * count,
        "partition": [0] * count,
        "offset": [*range(count)],
        "timestamp": [datetime(2025, 1, 1, tzinfo=UTC)] * count,
        "timestampType": [0] * count,
        "leaderEpoch": [0] * count,
        "key": [None] * count,
        "value": [None] * count,
        "headers": [None] * count,
    }
    return pa.Table.from_pydict({**usual, **columns}, schema=rows_schema())


@pytest.mark.parametrize("column", ["key", "value", "headers"])
def test_values_that_come_again_are_not_all_in_memory(tmp_path: Path, column: str):
    """Parquet has a value once. 20,000 rows of the same 20 kB took 400 MB, in a file of 22 kB."""
    file, large = tmp_path / "other.parquet", bytes(range(200)) * 100
    cells: list[Any] = [large if n % 7 else None for n in range(20_000)]
    if column == "headers":
        cells = [[{"key": "h", "value": one}] for one in cells]
    pq.write_table(rows_of_a_file(20_000, **{column: cells}), file, row_group_size=20_000)
    assert file.stat().st_size < 300_000

    rows, before = 0, pa.total_allocated_bytes()
    for batch in ParquetReader(str(file)).rows():
        assert pa.total_allocated_bytes() - before < 4 * parquet_reader.BYTES_AT_ONCE
        offsets = batch.column("offset").to_pylist()
        assert batch.column(column).to_pylist() == cells[offsets[0] : offsets[-1] + 1]
        rows += len(offsets)
    assert rows == len(cells)


CELLS = st.none() | st.sampled_from([b"", b"a", b"b" * 30, b"c" * 100])
HEADERS = st.lists(
    st.fixed_dictionaries({"key": st.sampled_from(["", "h", "i" * 40]), "value": CELLS}),
    min_size=1,
    max_size=3,
)


@settings(max_examples=80, deadline=None)
@given(
    st.lists(st.tuples(CELLS, CELLS, st.none() | HEADERS), min_size=1, max_size=40),
    st.booleans(),
    st.integers(1, 400),
)
def test_rows_are_the_same_with_and_without_dictionaries(
    tmp_path_factory: pytest.TempPathFactory,
    cells: list[tuple[Any, ...]],
    is_large: bool,  # noqa: FBT001 - given by hypothesis
    max_bytes: int,
):
    file = tmp_path_factory.getbasetemp() / "with-dictionaries.parquet"
    keys, values, headers = map(list, zip(*cells, strict=True))
    table = rows_of_a_file(len(cells), key=keys, value=values, headers=headers)
    written = table
    if is_large:
        pair = pa.struct([("key", pa.large_string()), ("value", pa.large_binary())])
        for name, kind in (("value", pa.large_binary()), ("headers", pa.large_list(pair))):
            index = table.schema.get_field_index(name)
            written = written.set_column(index, name, table[name].cast(kind))
    pq.write_table(written, file, use_dictionary=True, row_group_size=15, data_page_size=64)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parquet_reader, "BYTES_AT_ONCE", max_bytes)
        read = [*ParquetReader(str(file)).rows()]
    assert pa.Table.from_batches(read).equals(table)


@pytest.mark.parametrize(("words", "index"), [(["a"], 1), (["a"], -1), ([], 0)])
def test_a_value_that_is_not_in_its_dictionary(words: list[str], index: int):
    """Arrow reads memory of others there."""
    indices, dictionary = pa.array([index], pa.int32()), pa.array(words, pa.string())
    column = pa.DictionaryArray.from_arrays(indices, dictionary, safe=False)
    batch = pa.RecordBatch.from_arrays([column], names=["key"])
    with pytest.raises(pa.ArrowInvalid, match="not in its dictionary"):
        next(dictionary_rows.with_values(batch, 100))


@pytest.mark.parametrize("codec", [None, "zstd"])
@pytest.mark.parametrize("kind", ["CreateTime", "LogAppendTime"])
def test_records_without_batches_get_batches_that_go_on(
    tmp_path: Path, kind: str, codec: str | None
):
    """3 MB of consecutive records are several new batches: each begins where one has ended."""
    with segstore.open(tmp_path / "big-0", message_timestamp_type=kind) as log:
        log.append([(1000, b"k", b"%d" % n + b"v" * 100_000) for n in range(30)])
        expected = log.scan(columns=("offset", "timestamp", "value")).to_arrow()
        segstore.export_parquet(log, tmp_path / "out.parquet", isolation="read_committed")
    options: dict[str, Any] = {"verify": True, "compression": codec}
    segstore.import_parquet(tmp_path / "out.parquet", tmp_path / "back-0", **options)
    with segstore.open(tmp_path / "back-0", read_only=True) as back:
        assert back.scan(columns=expected.column_names).to_arrow().equals(expected)
        assert len([*back.scan().batches()]) == 3


@settings(max_examples=60, deadline=None)
@given(STEPS, st.lists(st.integers(0, 40), min_size=3, max_size=3), st.integers(0, 40))
def test_any_parts_are_verified_and_completed(
    tmp_path_factory: pytest.TempPathFactory, steps: list[Any], bounds: list[int], cut: int
):
    """Two files that meet anywhere, also within a batch; what was cut off is imported again."""
    folder = tmp_path_factory.mktemp("parts")
    with segstore.open(folder / "orders-0", durability="none") as log:
        append_steps(log, steps)
        first, middle, last = sorted(min(one, log.log_end_offset) for one in bounds)
        for start, end in ((first, middle), (middle, last)):
            if start < end:
                segstore.export_parquet(
                    log, f"{folder}/out/", start_offset=start, end_offset=end, verify=True
                )
        expected = log.scan(first, last).to_arrow()
    if first == last:
        return
    for _ in range(2):
        segstore.import_parquet(folder / "out", folder / "back", verify=True)
        with segstore.open(folder / "back" / "orders-0", durability="none") as back:
            assert back.scan().to_arrow().equals(expected)
            if cut > first:
                back.truncate_to(min(cut, back.log_end_offset))
