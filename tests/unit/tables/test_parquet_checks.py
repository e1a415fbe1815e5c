"""What export and import to Parquet compare: a log, its batches, and what the files say of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import segstore
from segstore.errors import AlreadyExistsError, CorruptLogError
from segstore.tables import batch_table
from tests.unit.tables.test_parquet_transfer import (
    append_batch,
    append_marker,
    filled,
    in_transactions,
)

if TYPE_CHECKING:
    from pathlib import Path


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


@pytest.mark.parametrize("damage", ["rows", "order", "crc", "raw", "last", "producer"])
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
