"""Logs to Parquet and back: what is typed wrong, what is interrupted, what others wrote."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import segstore
from segstore._core import RecordsBuilder, encode_end_transaction_marker
from segstore.cli import main
from segstore.errors import (
    AlreadyExistsError,
    CorruptLogError,
    CorruptRecordError,
    DiskFullError,
    IllegalArgumentError,
    InconsistentTopicIdError,
    LogNotFoundError,
    NotALogError,
    ReadIOError,
    UnsupportedFormatError,
)
from segstore.log import chunk_reader
from segstore.log.files.checkpoints import IMPORT_MARKER
from segstore.records.compression import codec_table
from segstore.tables import parquet_writer, partition_export, partition_import
from segstore.tables.parquet_files import COLUMNS, METADATA_KEY, exported_files, origin_of
from segstore.tables.parquet_reader import ParquetReader
from segstore.tables.unfinished_imports import open_log_to_fill
from segstore.types import Codec, TimestampType
from tests.kits.same_logs import check_same_logs, check_same_records, headers_of, rows_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from segstore import Log, UnifiedLog

FIRST = 1735689600000


def filled(path: Path, records: int = 100, *, start: int = 0) -> Path:
    """Make a log with batches of ten records, of which some have headers."""
    with segstore.open(path, durability="none") as log:
        for first in range(start, start + records, 10):
            log.append(
                [
                    segstore.Record(
                        key=b"k%d" % (n % 7) if n % 5 else None,
                        value=b"v%d" % n if n % 11 else None,
                        timestamp=FIRST + n,
                        headers=[("h", b"%d" % n), ("h", None)] if n % 3 == 0 else [],
                    )
                    for n in range(first, first + 10)
                ]
            )
    return path


def in_transactions(path: Path, rounds: int = 6) -> Path:
    """Make a log with committed and aborted transactions, an open one, and plain records."""
    with segstore.open(path, durability="none") as log:
        for number in range(rounds):
            append_batch(log, [b"%d" % number] * 3, producer_id=7, base_sequence=3 * number)
            append_batch(log, [b"plain"])
            append_marker(log, producer_id=7, commit=number % 2 == 0)
        append_batch(log, [b"open"], producer_id=8, base_sequence=0)
    return path


def append_batch(
    log: UnifiedLog,
    values: list[bytes | None],
    *,
    offsets: list[int] | None = None,
    epoch: int = 0,
    codec: Codec = Codec.NONE,
    **options: Any,
) -> None:
    """Append a batch with the offsets that it has."""
    base = log.log_end_offset
    numbers = [*range(base, base + len(values))] if offsets is None else offsets
    builder = RecordsBuilder(
        codec_table(),
        codec=codec,
        base_offset=numbers[0],
        partition_leader_epoch=epoch,
        transactional="producer_id" in options,
        **({"producer_epoch": 0} if "producer_id" in options else {}),
        **options,
    )
    for offset, value in zip(numbers, values, strict=True):
        builder.append(offset, FIRST + offset, b"k", value, [("h", value)])
    log.append_as_follower(builder.build(), epoch)


def append_marker(log: UnifiedLog, *, producer_id: int, commit: bool) -> None:
    marker = encode_end_transaction_marker(
        log.log_end_offset, FIRST, 0, producer_id, 0, commit=commit, coordinator_epoch=1
    )
    log.append_as_follower(marker, 0)


def restored(file: Path, path: Path, **options: Any) -> Log:
    segstore.import_parquet(file, path, **options)
    return segstore.open(path, read_only=True)


# ---- there and back ------------------------------------------------------------------------------


def test_transactions_come_back_with_their_markers(tmp_path: Path):
    """The committed view is that of the original; so are producers and their sequences."""
    source = in_transactions(tmp_path / "orders-0")
    segstore.export_parquet(source, tmp_path / "out.parquet")

    with (
        segstore.open(source, read_only=True) as log,
        restored(tmp_path / "out.parquet", tmp_path / "back" / "orders-0", verify=True) as back,
    ):
        check_same_logs(log, back)
        assert back.last_stable_offset < back.log_end_offset
        assert [one.producer_id for one in back.open_transactions()] == [8]


def test_a_row_is_a_record_for_other_programs(tmp_path: Path):
    """The columns are those of scans, with headers; markers are no rows."""
    source = in_transactions(tmp_path / "orders-0")
    file = tmp_path / "out.parquet"
    report = segstore.export_parquet(source, file)

    frame = pl.read_parquet(file)
    assert frame.columns == [*COLUMNS]
    with segstore.open(source, read_only=True) as log:
        assert frame.height == len(log) == report.records < log.log_end_offset
        assert frame["headers"].null_count() == 0
        query = f"select count(*), max(\"offset\"), count(distinct headers[1].key) from '{file}'"
        assert duckdb.sql(query).fetchall() == [(len(log), log.log_end_offset - 1, 1)]
    assert origin_of(str(file))["topic"] == "orders"
    assert pq.ParquetFile(file).metadata.row_group(0).column(0).compression == "ZSTD"


@pytest.mark.parametrize("chunk_bytes", [1, 300, 1024 * 1024])
@pytest.mark.parametrize("threads", [0, 2])
def test_several_row_groups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk_bytes: int, threads: int
):
    """The batches of each lie behind it; nothing of them is in the way of a reader."""
    monkeypatch.setattr(chunk_reader, "CHUNK_BYTES", chunk_bytes)
    monkeypatch.setattr(parquet_writer, "threads_count", lambda: threads)
    monkeypatch.setattr(parquet_writer, "ROW_GROUP_BYTES", 1)
    monkeypatch.setattr(parquet_writer, "ROWS_AT_ONCE", 10)
    monkeypatch.setattr(partition_import, "ROWS_OF_AN_APPEND", 25)
    source = in_transactions(tmp_path / "orders-0", 40)
    file = tmp_path / "out.parquet"
    segstore.export_parquet(source, file, verify=True)

    assert pq.read_metadata(file).num_row_groups > 3
    assert len(origin_of(str(file))["batchTables"]) > 3
    assert pl.read_parquet(file).height == duckdb.sql(f"from '{file}'").shape[0] == 161
    with (
        segstore.open(source, read_only=True) as log,
        restored(file, tmp_path / "back-0", verify=True) as back,
    ):
        check_same_logs(log, back)


@pytest.mark.parametrize("codec", ["zstd", "none"])
def test_batches_may_get_another_codec(tmp_path: Path, codec: str):
    source = in_transactions(tmp_path / "orders-0")
    segstore.export_parquet(source, tmp_path / "out.parquet")

    with (
        segstore.open(source, read_only=True) as log,
        restored(
            tmp_path / "out.parquet", tmp_path / "b-0", compression=codec, verify=True
        ) as back,
    ):
        check_same_records(log, back)
        codecs = {
            batch.codec.name.lower() for batch in back.scan().batches() if not batch.is_control
        }
        assert codecs == {codec}


def test_a_log_without_records_comes_back(tmp_path: Path):
    with segstore.open(tmp_path / "empty-0") as log:
        log.truncate_fully_and_start_at(100)
        report = segstore.export_parquet(log, tmp_path / "out.parquet", verify=True)
        assert (report.records, report.from_offset, report.until_offset) == (0, 100, 100)
        with restored(tmp_path / "out.parquet", tmp_path / "back-0", verify=True) as back:
            check_same_logs(log, back)


def test_a_log_that_begins_within_a_batch(tmp_path: Path):
    """Deleted records are not exported; sequences go on where the rest of the batch begins."""
    with segstore.open(filled(tmp_path / "orders-0")) as log:
        append_batch(log, [b"a", b"b", b"c"], producer_id=7, base_sequence=2**31 - 2)
        append_marker(log, producer_id=7, commit=True)
        log.delete_records(101)
        segstore.export_parquet(log, tmp_path / "out.parquet", verify=True)
        with restored(tmp_path / "out.parquet", tmp_path / "back-0", verify=True) as back:
            check_same_logs(log, back)
            assert [record.offset for record in back] == [101, 102]
            assert headers_of(back)[0]["base_sequence"] == 2**31 - 1


def test_records_of_the_broker_s_time_and_of_old_formats(tmp_path: Path):
    with segstore.open(tmp_path / "orders-0") as log:
        for magic in (0, 1):
            for codec in (Codec.NONE, Codec.GZIP):
                kind = TimestampType.NO_TIMESTAMP_TYPE if magic == 0 else TimestampType.CREATE_TIME
                builder = RecordsBuilder(
                    codec_table(),
                    magic=magic,
                    codec=codec,
                    timestamp_type=kind,
                    base_offset=log.log_end_offset,
                )
                for offset in range(log.log_end_offset, log.log_end_offset + 3):
                    builder.append(offset, -1 if magic == 0 else FIRST, b"k", b"v")
                log.append_as_follower(builder.build(), 0)
        append_batch(
            log,
            [b"late"],
            timestamp_type=TimestampType.LOG_APPEND_TIME,
            log_append_time=FIRST + 5,
        )
        segstore.export_parquet(log, tmp_path / "out.parquet", verify=True)
        with restored(tmp_path / "out.parquet", tmp_path / "back-0", verify=True) as back:
            check_same_logs(log, back)
        part = tmp_path / "part.parquet"  # begins and ends within a compressed message set
        segstore.export_parquet(log, part, start_offset=4, end_offset=11, verify=True)
        with restored(part, tmp_path / "part-0", verify=True) as back:
            found = rows_of(back, "log_end").to_pylist()
        expected = [one for one in rows_of(log, "log_end").to_pylist() if 4 <= one["offset"] < 11]
        for one in (*found, *expected):  # what had none may get one
            del one["leaderEpoch"]
        assert found == expected


def test_a_committed_export_has_records_alone(tmp_path: Path):
    """Without markers its transactions would stay open: new batches are made of the records."""
    source = in_transactions(tmp_path / "orders-0")
    file = tmp_path / "out.parquet"
    report = segstore.export_parquet(source, file, isolation="read_committed")

    assert report.batches == 0
    with (
        segstore.open(source, read_only=True) as log,
        restored(file, tmp_path / "back-0", verify=True) as back,
    ):
        committed = rows_of(log, "read_committed")
        assert rows_of(back, "log_end").equals(committed)
        assert back.last_stable_offset == back.log_end_offset == log.last_stable_offset
        assert set(headers_of(back)["producer_id"]) == {-1}


def test_a_committed_export_keeps_the_log_end(tmp_path: Path):
    """It ended after the last record: a consumer's position after a marker was out of range."""
    with segstore.open(tmp_path / "data" / "orders-0") as log:
        append_batch(log, [b"a"], producer_id=7, base_sequence=0)
        append_marker(log, producer_id=7, commit=False)
    for records, end in ((0, 2), (1, 4)):
        with segstore.open_dir(tmp_path / "data", read_only=True) as logs:
            logs.export_parquet("orders", tmp_path / "out", isolation="read_committed", verify=True)
        for written in (records, 0):
            (report,) = segstore.import_parquet(tmp_path / "out", tmp_path / "back", verify=True)
            assert (report.records, report.log_end_offset) == (written, end)
        assert main(["verify", "-q", str(tmp_path / "back" / "orders-0")]) == 0
        with segstore.open(tmp_path / "data" / "orders-0") as log:
            append_batch(log, [b"b"], producer_id=7, base_sequence=end // 2)
            append_marker(log, producer_id=7, commit=True)
    with segstore.open(tmp_path / "back" / "orders-0") as back:
        assert [(one.offset, one.value) for one in back] == [(2, b"b")]
        assert len(back) == 1
        back.append([(None, b"c")])
        assert back.log_end_offset == 5


STEPS = st.lists(
    st.one_of(
        st.tuples(
            st.just("batch"),
            st.lists(st.none() | st.binary(max_size=20), min_size=1, max_size=6),
            st.integers(0, 3),
            st.integers(1, 3),
            st.sampled_from(list(Codec)),
            st.sampled_from([None, 7, 8]),
        ),
        st.tuples(st.just("marker"), st.sampled_from([7, 8]), st.booleans()),
        st.tuples(st.just("epoch"), st.integers(0, 2)),
    ),
    max_size=12,
)


@settings(max_examples=60, deadline=None)
@given(STEPS, st.integers(0, 40), st.integers(0, 40))
def test_any_log_comes_back(
    tmp_path_factory: pytest.TempPathFactory, steps: list[Any], low: int, length: int
):
    """Whole, and in two files of which the second is imported later; a part by its records."""
    folder = tmp_path_factory.mktemp("any")
    with segstore.open(folder / "orders-0", durability="none") as log:
        append_steps(log, steps)
        segstore.export_parquet(log, folder / "whole.parquet", verify=True)
        with restored(folder / "whole.parquet", folder / "whole-0", verify=True) as back:
            check_same_logs(log, back)
        start = min(low, log.log_end_offset)
        end = min(start + length, log.log_end_offset)
        segstore.export_parquet(
            log, folder / "part.parquet", start_offset=start, end_offset=end, verify=True
        )
        with restored(folder / "part.parquet", folder / "part-0", verify=True) as back:
            assert back.log_start_offset == start
            assert rows_of(back, "log_end").equals(
                log.scan(start, end, columns=rows_of(log, "log_end").column_names).to_arrow()
            )


def append_steps(log: UnifiedLog, steps: list[Any]) -> None:
    """Append what `STEPS` has drawn."""
    epoch = 0
    sequences = dict.fromkeys((7, 8), 0)
    in_transaction = set()
    for kind, *values in steps:
        if kind == "epoch":
            epoch += values[0]
        elif kind == "marker":
            if values[0] in in_transaction:
                append_marker_of(log, values[0], commit=values[1], epoch=epoch)
                in_transaction.discard(values[0])
        else:
            payloads, gap, step, codec, producer = values
            base = log.log_end_offset + gap
            offsets = [base + step * n for n in range(len(payloads))]
            options: dict[str, Any] = {}
            if producer is not None:
                options = {"producer_id": producer, "base_sequence": sequences[producer]}
                sequences[producer] += offsets[-1] - offsets[0] + 1
                in_transaction.add(producer)
            append_batch(log, payloads, offsets=offsets, epoch=epoch, codec=codec, **options)


def append_marker_of(log: UnifiedLog, producer_id: int, *, commit: bool, epoch: int) -> None:
    marker = encode_end_transaction_marker(
        log.log_end_offset, FIRST, epoch, producer_id, 0, commit=commit, coordinator_epoch=1
    )
    log.append_as_follower(marker, epoch)


# ---- what is interrupted -------------------------------------------------------------------------


def test_an_interrupted_import_goes_on_where_the_log_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """At every piece: what is there is valid, and the same call completes it."""
    source = in_transactions(tmp_path / "orders-0", 10)
    file, back = tmp_path / "out.parquet", tmp_path / "back-0"
    segstore.export_parquet(source, file)
    monkeypatch.setattr(partition_import, "ROWS_OF_AN_APPEND", 3)

    def interrupt(name: str, _: int, total: int) -> None:
        assert (name, total) == ("orders-0", 51)
        raise KeyboardInterrupt

    interruptions = 0
    while True:
        try:
            segstore.import_parquet(file, back, progress=interrupt)
        except KeyboardInterrupt:
            interruptions += 1
            with open_log_to_fill(str(back)) as log:
                (finding,) = log.verify().findings
                assert finding.file == IMPORT_MARKER
                assert log.log_end_offset > 0
        else:
            break
    assert interruptions > 10
    with (
        segstore.open(source, read_only=True) as log,
        segstore.open(back, read_only=True) as other,
    ):
        check_same_logs(log, other)
    assert segstore.import_parquet(file, back)[0].records == 0


def test_an_interrupted_export_leaves_no_file(tmp_path: Path):
    """The file of an earlier export stays as it was."""
    source = filled(tmp_path / "orders-0")
    file = tmp_path / "out" / "out.parquet"
    file.parent.mkdir()

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    for before in (None, b"another file"):
        if before is not None:
            file.write_bytes(before)
        with pytest.raises(KeyboardInterrupt):
            segstore.export_parquet(source, file, overwrite=True, progress=interrupt)
        assert [one.read_bytes() for one in file.parent.iterdir()] == [before] * bool(before)


def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    source = filled(tmp_path / "orders-0")

    def full(*_: object) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(parquet_writer._RowGroups, "finish", full)
    with pytest.raises(DiskFullError, match=r"out\.parquet.*No space left") as caught:
        segstore.export_parquet(source, tmp_path / "out.parquet")
    assert caught.value.os_error == 28
    assert [one.name for one in tmp_path.iterdir()] == ["orders-0"]


@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError(28, "No space left")])
def test_an_error_within_a_row_group_is_raised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
):
    """What a close says of a half row group does not take its place."""

    def fail(*_: object, **__: object) -> None:
        raise error

    def close(*_: object) -> None:
        raise OSError("Column 8 had 238480 while previous column had 186782")

    monkeypatch.setattr(pq.ParquetWriter, "write_table", fail)
    monkeypatch.setattr(pq.ParquetWriter, "close", close)
    with pytest.raises(
        KeyboardInterrupt if isinstance(error, KeyboardInterrupt) else DiskFullError
    ):
        segstore.export_parquet(filled(tmp_path / "orders-0"), tmp_path / "out.parquet")
    assert [one.name for one in tmp_path.iterdir()] == ["orders-0"]


def test_a_topic_is_completed(tmp_path: Path):
    """A second export writes partitions that are missing, and records that came since."""
    with segstore.open_dir(tmp_path / "data") as logs:
        logs.create_topic("orders", partitions=3)
        logs.append("orders", [(b"%d" % n, b"v") for n in range(100)])
        first = logs.export_parquet("orders", tmp_path / "out", partitions=[0, 2])
        second = logs.export_parquet("orders", tmp_path / "out", verify=True)
        logs.append("orders", [(b"%d" % n, b"w") for n in range(50)])
        third = logs.export_parquet("orders", tmp_path / "out", bytes_of_a_file=1)
        assert logs.export_parquet("orders", tmp_path / "out") == []
        done = segstore.import_parquet(tmp_path / "out", tmp_path / "back", verify=True)

        assert [[one.partition for one in made] for made in (first, second)] == [[0, 2], [1]]
        assert {one.partition for one in third} == {0, 1, 2}
        assert sum(one.records for one in (*first, *second, *third)) == 150
        assert sum(one.records for one in done) == 150
        for number in range(3):
            path = tmp_path / "back" / f"orders-{number}"
            with segstore.open(path, read_only=True) as back:
                check_same_logs(logs.log("orders", number), back)
    assert pl.read_parquet(tmp_path / "out" / "*.parquet").height == 150


def test_an_empty_topic(tmp_path: Path):
    with segstore.open_dir(tmp_path / "data") as logs:
        logs.create_topic("orders", partitions=2)
        reports = logs.export_parquet("orders", tmp_path / "out")
        assert [one.records for one in reports] == [0, 0]
        assert logs.export_parquet("orders", tmp_path / "out") == []
    done = segstore.import_parquet(tmp_path / "out", tmp_path / "back")
    assert [one.log_end_offset for one in done] == [0, 0]


def test_files_that_macos_puts_beside_an_export_are_passed_over(tmp_path: Path):
    """A topic may be named ``._orders`` all the same."""
    with segstore.open_dir(tmp_path / "data") as logs:
        for topic in ("orders", "._orders"):
            logs.create_topic(topic)
            logs.append(topic, [(b"k", b"v")])
            logs.export_parquet(topic, tmp_path / topic)
    (file,) = (tmp_path / "orders").iterdir()
    (of_topic,) = (tmp_path / "._orders").iterdir()
    beside = file.with_name(f"._{file.name}")
    beside.write_bytes(b"\0\5\x16\7\0\2\0\0Mac OS X")
    assert [one.path for one in exported_files(str(tmp_path / "orders"))] == [str(file)]
    done = segstore.import_parquet(tmp_path / "orders", tmp_path / "back", verify=True)
    assert [one.records for one in done] == [1]

    beside.write_bytes(of_topic.read_bytes())
    done = segstore.import_parquet(tmp_path / "orders", tmp_path / "both", verify=True)
    assert [one.records for one in done] == [1, 1]


# ---- bad input -----------------------------------------------------------------------------------


def test_a_file_that_exists_is_kept(tmp_path: Path):
    source, file = filled(tmp_path / "orders-0"), tmp_path / "out.parquet"
    file.write_text("mine")
    with pytest.raises(AlreadyExistsError, match="overwrite"):
        segstore.export_parquet(source, file)
    assert file.read_text() == "mine"
    segstore.export_parquet(source, file, overwrite=True)
    assert pq.read_metadata(file).num_rows == 100


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        (lambda t: t.drop_columns(["offset"]), IllegalArgumentError, "no column 'offset'"),
        (lambda t: t.drop_columns(["headers"]), IllegalArgumentError, "no column 'headers'"),
        (
            lambda t: t.set_column(2, "offset", pa.array(["1"] * len(t))),
            IllegalArgumentError,
            r"'offset' has another type.*string.*int64",
        ),
        (
            lambda t: t.set_column(3, "timestamp", pa.array([1.5] * len(t))),
            IllegalArgumentError,
            r"'timestamp' has another type.*double",
        ),
        (
            lambda t: t.set_column(8, "headers", pa.array([["h"]] * len(t))),
            IllegalArgumentError,
            "'headers' has another type",
        ),
        (
            lambda t: t.set_column(2, "offset", pa.array([None, *range(1, len(t))], pa.int64())),
            IllegalArgumentError,
            "does not say of which partition|'offset' has a null",
        ),
        (
            lambda t: t.set_column(1, "partition", pa.array([0, *[1] * (len(t) - 1)], pa.int32())),
            IllegalArgumentError,
            "other partitions than orders-0",
        ),
        (
            lambda t: pa.concat_tables([t[:50], t[40:]]),
            IllegalArgumentError,
            "sorted by offset.*row 50 has offset 40, after 49",
        ),
        (
            lambda t: pa.concat_tables([t[:50], t[49:]]),
            IllegalArgumentError,
            "two rows with offset 49",
        ),
        (lambda t: t[:0], IllegalArgumentError, "0 rows, and no metadata"),
        (
            lambda t: t.set_column(
                3,
                "timestamp",
                t["timestamp"]
                .cast(pa.timestamp("us", "UTC"))
                .cast(pa.int64())
                .to_pandas()
                .add(1)
                .pipe(lambda s: pa.array(s, pa.timestamp("us", "UTC"))),
            ),
            IllegalArgumentError,
            "'timestamp' is none of a record",
        ),
    ],
)
def test_a_file_of_another_program_is_named(
    tmp_path: Path, change: Callable[[pa.Table], pa.Table], error: type[Exception], words: str
):
    """No log is made."""
    segstore.export_parquet(filled(tmp_path / "orders-0"), tmp_path / "out.parquet")
    table = change(pq.read_table(tmp_path / "out.parquet").replace_schema_metadata(None))
    pq.write_table(table, tmp_path / "other.parquet")
    with pytest.raises(error, match=words) as caught:
        segstore.import_parquet(tmp_path / "other.parquet", tmp_path / "back-0")
    assert caught.value.file == str(tmp_path / "other.parquet")  # type: ignore[attr-defined]


def with_column(name: str, value: object, *others: tuple[str, object]) -> Callable[..., pa.Table]:
    """Return what puts a value into row 3 of a column."""

    def change(table: pa.Table) -> pa.Table:
        for column, cell in ((name, value), *others):
            field = table.schema.field(column)
            plain = pa.int64() if column == "timestamp" else field.type
            cells = table[column].cast(plain).to_pylist()
            cells[3] = cell
            index = table.schema.get_field_index(column)
            table = table.set_column(index, field, pa.array(cells, plain).cast(field.type))
        return table

    return change


@pytest.mark.parametrize(
    ("change", "name"),
    [
        (with_column("timestampType", 2), "timestampType"),
        (with_column("timestampType", -2), "timestampType"),
        (with_column("leaderEpoch", -2), "leaderEpoch"),
        (with_column("timestampType", -1), "timestamp"),
        (with_column("timestampType", -1, ("timestamp", -1)), "headers"),
        (with_column("timestamp", -2), "timestamp"),
        (with_column("headers", [{"key": "a", "value": None}, {"key": None}]), "headers"),
        (with_column("headers", [None]), "headers"),
    ],
)
def test_a_value_that_no_record_has_is_named(
    tmp_path: Path, change: Callable[[pa.Table], pa.Table], name: str
):
    """Such a type was taken for CreateTime; with verify, the disk was blamed."""
    segstore.export_parquet(filled(tmp_path / "orders-0"), tmp_path / "out.parquet")
    table = pq.read_table(tmp_path / "out.parquet").replace_schema_metadata(None)
    pq.write_table(change(table), tmp_path / "other.parquet")
    for verify in (False, True):
        with pytest.raises(IllegalArgumentError, match=f"column '{name}'") as caught:
            segstore.import_parquet(tmp_path / "other.parquet", tmp_path / "back-0", verify=verify)
        assert caught.value.file == str(tmp_path / "other.parquet")
        assert "at offset 3" in str(caught.value.found)
        assert not (tmp_path / "back-0").exists()


def test_a_file_of_negative_offsets_is_named(tmp_path: Path):
    segstore.export_parquet(filled(tmp_path / "orders-0"), tmp_path / "out.parquet")
    table = pq.read_table(tmp_path / "out.parquet").replace_schema_metadata(None)
    offsets = pa.array(range(-50, 50), pa.int64())
    pq.write_table(table.set_column(2, "offset", offsets), tmp_path / "other.parquet")
    with pytest.raises(CorruptLogError, match="cannot be used") as caught:
        segstore.import_parquet(tmp_path / "other.parquet", tmp_path / "back-0")
    assert (caught.value.file, caught.value.found) == (
        str(tmp_path / "other.parquet"),
        "a record has offset -50",
    )


def test_tables_of_batches_are_divided_by_their_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Offsets in a column of bytes have 32 bits: above 2 GiB they wrapped."""
    monkeypatch.setattr(parquet_writer, "TABLE_BYTES", 200)
    source = in_transactions(tmp_path / "orders-0", 20)
    segstore.export_parquet(source, tmp_path / "out.parquet", verify=True)
    tables = [*ParquetReader(str(tmp_path / "out.parquet")).batches()]
    assert len(tables) > 5
    assert {sum(map(len, filter(None, one.raw))) <= 200 for one in tables} == {True}
    with (
        segstore.open(source, read_only=True) as log,
        restored(tmp_path / "out.parquet", tmp_path / "back-0", verify=True) as back,
    ):
        check_same_logs(log, back)


def test_a_file_that_polars_has_filtered_is_imported(tmp_path: Path):
    """Columns may come in another order and have other layouts; gaps are where rows are missing."""
    segstore.export_parquet(filled(tmp_path / "orders-0"), tmp_path / "out.parquet")
    frame = pl.read_parquet(tmp_path / "out.parquet").filter(pl.col("offset") % 3 != 1)
    frame.select(sorted(frame.columns)).write_parquet(tmp_path / "less.parquet")
    with (
        segstore.open(tmp_path / "orders-0", read_only=True) as log,
        restored(tmp_path / "less.parquet", tmp_path / "back-0", verify=True) as back,
    ):
        expected = [one for one in rows_of(log, "log_end").to_pylist() if one["offset"] % 3 != 1]
        assert rows_of(back, "log_end").to_pylist() == expected


@pytest.mark.parametrize(
    "order",
    [range(99, -1, -1), [*range(50, 100), *range(50)], [5, *range(5), *range(6, 100)]],
    ids=["reversed", "halves", "one"],
)
def test_a_file_that_is_not_sorted_by_offset_is_refused(tmp_path: Path, order: Sequence[int]):
    """Where the last row was below the first, an empty log was made, and ``verify`` agreed."""
    segstore.export_parquet(filled(tmp_path / "orders-0"), tmp_path / "out.parquet")
    other = tmp_path / "other.parquet"
    pl.read_parquet(tmp_path / "out.parquet")[[*order]].write_parquet(other)
    for verify in (False, True):
        with pytest.raises(IllegalArgumentError, match="sort it by offset") as caught:
            segstore.import_parquet(other, tmp_path / "back-0", verify=verify)
        assert caught.value.file == str(other)
        assert not (tmp_path / "back-0").exists()


@pytest.mark.parametrize("topic", ["_audit", ".hidden", "__transaction_state", "._x-1"])
def test_topics_whose_names_begin_with_a_dot_or_an_underscore_come_back(tmp_path: Path, topic: str):
    """Readers of Parquet folders pass over such names; an import does not."""
    with segstore.open_dir(tmp_path / "data") as logs:
        for name in ("payments", topic):
            logs.create_topic(name, partitions=2)
            logs.append(name, [(b"%d" % n, b"v") for n in range(20)])
            logs.export_parquet(name, tmp_path / "out")
        assert logs.export_parquet(topic, tmp_path / "out") == []
    reports = segstore.import_parquet(tmp_path / "out", tmp_path / "back", verify=True)
    assert sorted(one.path.rpartition("/")[2] for one in reports) == sorted(
        f"{name}-{number}" for name in ("payments", topic) for number in (0, 1)
    )
    assert sum(one.records for one in reports) == 40


def test_rows_that_are_missing_from_an_export(tmp_path: Path):
    """Metadata that know batches do not fit fewer rows."""
    segstore.export_parquet(filled(tmp_path / "orders-0"), tmp_path / "out.parquet")
    table = pq.read_table(tmp_path / "out.parquet")
    metadata = pq.read_metadata(tmp_path / "out.parquet").metadata
    less = table[:90].replace_schema_metadata({METADATA_KEY: metadata[METADATA_KEY]})
    pq.write_table(less, tmp_path / "less.parquet")
    with pytest.raises(CorruptLogError, match="90 rows, and 100 were written"):
        segstore.import_parquet(tmp_path / "less.parquet", tmp_path / "back-0")
    assert not (tmp_path / "back-0").exists()


def test_a_damaged_file(tmp_path: Path):
    """Cut anywhere, or with another byte anywhere in its pages: an error, and no wrong record."""
    source = in_transactions(tmp_path / "orders-0")
    file, bad = tmp_path / "out.parquet", tmp_path / "bad.parquet"
    segstore.export_parquet(source, file)
    data = file.read_bytes()
    for size in (0, 3, 100, len(data) // 2, len(data) - 1):
        bad.write_bytes(data[:size])
        with pytest.raises(CorruptLogError, match="export the records again"):
            segstore.import_parquet(bad, tmp_path / "back-0")
    with segstore.open(source, read_only=True) as log:
        expected = rows_of(log, "log_end").to_pylist()
    for position in range(4, len(data) - 5000, 97):
        bad.write_bytes(data[:position] + bytes([data[position] ^ 0x41]) + data[position + 1 :])
        path = tmp_path / f"back-{position}"
        try:
            segstore.import_parquet(bad, path)
        except segstore.SegstoreError:
            continue
        with segstore.open(path, read_only=True) as back:
            assert rows_of(back, "log_end").to_pylist() == expected


def test_a_file_of_a_later_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(parquet_writer, "FORMAT", 2)
    segstore.export_parquet(filled(tmp_path / "orders-0"), tmp_path / "out.parquet")
    with pytest.raises(UnsupportedFormatError, match="format 2"):
        segstore.import_parquet(tmp_path / "out.parquet", tmp_path / "back-0")


def test_a_log_with_other_records_is_not_changed(tmp_path: Path):
    segstore.export_parquet(filled(tmp_path / "a-0"), tmp_path / "out.parquet")
    filled(tmp_path / "b-0", 50, start=1)
    with segstore.open(tmp_path / "c-0") as log:
        log.truncate_fully_and_start_at(7)
        log.append([(None, b"x")])
    for name, words in (("b-0", "another record at offset 0"), ("c-0", "begins at offset 7")):
        with segstore.open(tmp_path / name, read_only=True) as log:
            before = rows_of(log, "log_end")
        with pytest.raises(AlreadyExistsError, match=words):
            segstore.import_parquet(tmp_path / "out.parquet", tmp_path / name)
        with segstore.open(tmp_path / name, read_only=True) as log:
            assert rows_of(log, "log_end").equals(before)


def test_a_log_that_goes_on_after_the_export_is_not_changed(tmp_path: Path):
    """The error spoke of another record, as if the log were of something else."""
    file = segstore.export_parquet(filled(tmp_path / "a-0"), tmp_path / "out.parquet").path
    with restored(tmp_path / "out.parquet", tmp_path / "b-0"):
        pass
    with segstore.open(tmp_path / "b-0") as log:
        log.append([(None, b"later")])
    with pytest.raises(AlreadyExistsError, match="all records of the export") as caught:
        segstore.import_parquet(file, tmp_path / "b-0")
    assert caught.value.found == "a record at offset 100"


@pytest.mark.parametrize("data", [b"a,b\n1,2\n", b"", b"PAR1\x15\x00\x01\x00\x00\x00PAR1"])
def test_a_file_that_is_no_parquet_is_named(tmp_path: Path, data: bytes):
    """Words of pyarrow alone do not say what it is."""
    (tmp_path / "x.parquet").write_bytes(data)
    with pytest.raises(CorruptLogError, match="damaged, or is no Parquet file") as caught:
        segstore.import_parquet(tmp_path / "x.parquet", tmp_path / "b-0")
    assert str(caught.value.found).startswith("what pyarrow refuses (")


@pytest.mark.parametrize("number", [errno.EACCES, errno.EIO])
def test_what_the_file_system_refuses_is_no_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
):
    """A read that failed was called damage, with the advice to export again [DUR-33]."""
    file = segstore.export_parquet(filled(tmp_path / "a-0"), tmp_path / "out.parquet").path

    def refuse(*_: object, **__: object) -> None:
        raise OSError(number, "no")

    monkeypatch.setattr(pq, "ParquetFile", refuse)
    with pytest.raises(ReadIOError, match="cannot be read") as caught:
        segstore.import_parquet(file, tmp_path / "b-0")
    assert (caught.value.file, caught.value.os_error) == (file, number)
    assert not (tmp_path / "b-0").exists()


def test_a_foreign_file_among_those_of_an_export_is_named(tmp_path: Path):
    """``b'segstore'`` was all that the error found."""
    source = filled(tmp_path / "data" / "orders-0")
    file = segstore.export_parquet(source, f"{tmp_path}/out/").path
    pl.read_parquet(file).write_parquet(file)
    with (
        segstore.open_dir(tmp_path / "data", read_only=True) as logs,
        pytest.raises(CorruptLogError, match="no export wrote it: move it") as caught,
    ):
        logs.export_parquet("orders", tmp_path / "out")
    assert caught.value.file == file


def test_what_is_not_there(tmp_path: Path):
    (tmp_path / "folder").mkdir()
    with pytest.raises(LogNotFoundError, match="no such file"):
        segstore.import_parquet(tmp_path / "none.parquet", tmp_path / "back-0")
    with pytest.raises(LogNotFoundError, match="no export in this folder"):
        segstore.import_parquet(tmp_path / "folder", tmp_path / "back")
    with pytest.raises(LogNotFoundError):
        segstore.export_parquet(tmp_path / "none-0", tmp_path / "out.parquet")
    with pytest.raises(IllegalArgumentError, match="no compression 'rar'"):
        segstore.export_parquet(filled(tmp_path / "a-0", 10), tmp_path / "out", compression="rar")
    with pytest.raises(IllegalArgumentError, match="no compression 'rar'"):
        segstore.import_parquet(tmp_path / "out", tmp_path / "b-0", compression="rar")
    assert sorted(one.name for one in tmp_path.iterdir()) == ["a-0", "folder"]


@pytest.mark.parametrize("where", ["in a file", "below a file"])
def test_a_file_where_a_directory_is_needed(tmp_path: Path, where: str):
    """The user saw a raw ``FileExistsError``."""
    source = filled(tmp_path / "data" / "orders-0", 10)
    segstore.export_parquet(source, f"{tmp_path}/out/")
    other = tmp_path / "other"
    other.touch()
    target = other if where == "in a file" else other / "x"
    for one in (tmp_path / "out", next((tmp_path / "out").iterdir())):
        with pytest.raises(NotALogError, match=r"a file|not a log directory"):
            segstore.import_parquet(one, target)
    with pytest.raises(NotALogError, match=r"a file|not a log directory"):
        segstore.import_parquet(next((tmp_path / "out").iterdir()), target / "back-0")
    with (
        segstore.open_dir(tmp_path / "data", read_only=True) as logs,
        pytest.raises(IllegalArgumentError, match="needs a folder"),
    ):
        logs.export_parquet("orders", target)
    with pytest.raises(IllegalArgumentError, match="needs a folder"):
        segstore.export_parquet(source, f"{target}/")
    assert other.read_bytes() == b""


def test_no_import_into_a_partition(tmp_path: Path):
    """Partitions were made inside of a log."""
    source = filled(tmp_path / "data" / "orders-0", 10)
    segstore.export_parquet(source, f"{tmp_path}/out/")
    before = sorted(one.name for one in source.iterdir())
    with pytest.raises(NotALogError, match="the log directory is the one above it"):
        segstore.import_parquet(tmp_path / "out", source)
    assert sorted(one.name for one in source.iterdir()) == before
    with pytest.raises(IllegalArgumentError, match="the one above"):
        segstore.import_parquet(tmp_path / "out", tmp_path / "new" / "orders-0")
    assert not (tmp_path / "new").exists()
    assert len(segstore.import_parquet(tmp_path / "out", tmp_path / "backup-2024")) == 1


def test_a_file_of_no_known_partition_comes_back(tmp_path: Path):
    """A verified export failed, and its import: partition -1 was taken for damage."""
    source = filled(tmp_path / "orders-0", 10)
    alone = (source / f"{0:020}.log").rename(tmp_path / "some.log")
    file = tmp_path / "out.parquet"
    report = segstore.export_parquet(alone, file, verify=True)
    assert (report.topic, report.partition, report.records) == ("", -1, 10)
    with restored(file, tmp_path / "back" / "orders-2", verify=True) as back:
        assert len(back) == 10
    with pytest.raises(IllegalArgumentError, match="does not say of which partition"):
        segstore.import_parquet(file, tmp_path / "back")
    with pytest.raises(IllegalArgumentError, match="pass as_"):
        segstore.export_parquet(alone, f"{tmp_path}/out/")
    named = segstore.export_parquet(alone, f"{tmp_path}/out/", as_="orders-2", verify=True)
    assert (named.topic, named.partition) == ("orders", 2)
    assert len(segstore.import_parquet(tmp_path / "out", tmp_path / "back", verify=True)) == 1
    with (
        segstore.open_segment(alone) as log,
        pytest.raises(IllegalArgumentError, match="as_ goes with a path"),
    ):
        segstore.export_parquet(log, tmp_path / "x.parquet", as_="orders-2")


def test_damage_ends_an_export(tmp_path: Path):
    """In the middle, and where the log ends at it: a file would look whole."""
    source = filled(tmp_path / "orders-0", 400)
    log_file = source / f"{0:020}.log"
    data = log_file.read_bytes()
    log_file.write_bytes(data[:2000] + bytes([data[2000] ^ 1]) + data[2001:])
    with pytest.raises((CorruptLogError, CorruptRecordError)):
        segstore.export_parquet(source, tmp_path / "out.parquet")
    assert [one.name for one in tmp_path.iterdir()] == ["orders-0"]
    report = segstore.export_parquet(source, tmp_path / "out.parquet", end_offset=10, verify=True)
    assert report.records == 10


def test_a_topic_that_was_made_again(tmp_path: Path):
    """Its records are not added to those of the topic before it."""
    for _ in range(2):
        with segstore.open_dir(tmp_path / "data", file_delete_delay_ms=0) as logs:
            logs.create_topic("orders")
            logs.append("orders", [(None, b"v")] * 3)
            if (tmp_path / "out").exists():
                with pytest.raises(InconsistentTopicIdError, match="another folder"):
                    logs.export_parquet("orders", tmp_path / "out")
            else:
                logs.export_parquet("orders", tmp_path / "out")
                with pytest.raises(IllegalArgumentError, match=r"name another folder.*log_end"):
                    logs.export_parquet("orders", tmp_path / "out", isolation="read_committed")
            logs.delete_topic("orders")


# ---- the commands --------------------------------------------------------------------------------


def test_the_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    source = str(filled(tmp_path / "data" / "orders-0"))
    file, back = str(tmp_path / "out.parquet"), str(tmp_path / "data2" / "orders-0")
    assert main(["export", source, file, "--verify"]) == 0
    assert "100 records, offsets 0 to 100" in capsys.readouterr().out
    assert main(["export", source, file]) == 1
    assert "overwrite" in capsys.readouterr().err
    assert main(["export", source, str(tmp_path / "absent" / "x.parquet")]) == 1
    assert "its folder does not exist" in capsys.readouterr().err
    assert main(["import", file, back, "--verify"]) == 0
    assert capsys.readouterr().out == f"{back}: 100 records written, log end 100\n"
    assert main(["import", file, str(tmp_path / "data3")]) == 0
    assert f"{tmp_path}/data3/orders-0: 100 records" in capsys.readouterr().out
    assert main(["import", str(tmp_path / "none"), back]) == 2


@pytest.mark.parametrize(
    ("is_of_topic", "kept"), [(True, "writes what is missing"), (False, "no file was written")]
)
def test_an_interrupted_export_says_what_there_is(tmp_path, capsys, monkeypatch, is_of_topic, kept):
    source = str(filled(tmp_path / "data" / "orders-0"))
    place = [str(tmp_path / "data"), "-t", "orders"] if is_of_topic else [source]
    monkeypatch.setattr(partition_export, "write_parquet", _interrupt)

    assert main(["export", *place, str(tmp_path / ("out" if is_of_topic else "x.parquet"))]) == 130
    assert kept in capsys.readouterr().err


def _interrupt(*_arguments, **_options):
    raise KeyboardInterrupt


def test_the_command_for_a_topic(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    data, out = str(tmp_path / "data"), str(tmp_path / "out")
    with segstore.open_dir(data) as logs:
        logs.create_topic("orders", partitions=2)
        logs.append("orders", [(b"%d" % n, b"v") for n in range(20)])
    assert main(["export", data, "-t", "orders", out + "/"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2
    assert main(["export", data, "--topic", "orders", out]) == 0
    assert "holds all records already" in capsys.readouterr().err
    assert main(["export", data, "-t", "orders", "-p", "1", str(tmp_path / "one.parquet")]) == 0
    assert main(["export", data, "-t", "orders", str(tmp_path / "two.parquet")]) == 2
    assert "2 partitions" in capsys.readouterr().err
    assert main(["import", out, str(tmp_path / "back")]) == 0
    assert np.sum([int(line.split()[1]) for line in capsys.readouterr().out.splitlines()]) == 20
