"""A reader beside a writer called sound transaction indexes damaged.

It compared entries behind its own end with batches that it had not seen, remembered what it had
found for ever, and believed what had been noted of an index before its open. And who looked when a
marker was there, and its entry not yet, missed the entry: verify, also that of the writer itself.
"""

from __future__ import annotations

import threading
from contextlib import nullcontext, suppress
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

import segstore
from segstore import AppendOrigin, MemoryRecords
from segstore.log.check.partition_check import check_partition
from segstore.log.local import transaction_index_check
from segstore.log.local.local_log import LocalLog
from tests.kits.transactions_kit import ABORT, Producer, write

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from segstore import UnifiedLog
    from segstore.log.local.transaction_index import AbortedTransaction

SETTINGS = {"segment_ms": None, "durability": "none"}
INDEX = f"{0:020d}.txnindex"


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    return tmp_path / "orders-0"


@pytest.fixture
def writer(partition: Path) -> Iterator[UnifiedLog]:
    """One aborted transaction, at 0 to 2, and a record."""
    with segstore.open(partition, **SETTINGS) as log:
        abort(log, 1, 2)
        write(log)
        yield log


def abort(log: UnifiedLog, producer_id: int, count: int = 1) -> None:
    producer = Producer(log, producer_id)
    producer.write(count)
    producer.end(ABORT)


def seal(log: UnifiedLog) -> None:
    """Roll, and wait until what was sealed is synced."""
    log.roll()
    write(log)
    log._background.wait_until_idle()


def committed(log: UnifiedLog) -> list[int]:
    return [record.offset for record in log.scan(isolation="read_committed")]


def test_an_entry_behind_the_end_of_a_reader(partition: Path, writer: UnifiedLog):
    """[DUR-71, DUR-7] What it names is not there yet for that reader."""
    with segstore.open(partition, read_only=True) as reader:
        abort(writer, 2)
        assert reader.verify().ok
        assert committed(reader) == [3]
        reader.refresh()
        assert reader.verify().ok
        write(writer)
        reader.refresh()
        assert committed(reader) == [3, 6]


def test_a_reader_looks_at_an_index_each_time(partition: Path, writer: UnifiedLog):
    """[DUR-71, DUR-77] What was damaged need not be, in another log than the reader has seen."""
    whole = (partition / INDEX).read_bytes()
    with segstore.open(partition, read_only=True) as reader:
        (partition / INDEX).write_bytes(whole[:9] + b"\x07" + whole[10:])  # another producer
        with pytest.raises(segstore.CorruptIndexError):
            reader.collect_aborted_transactions(0, 4)
        (partition / INDEX).write_bytes(whole)
        assert len(reader.collect_aborted_transactions(0, 4)) == 1
    assert writer.verify().ok


@pytest.mark.parametrize("is_used_before", [False, True])
@pytest.mark.parametrize("is_refreshed_between", [False, True])
def test_what_an_open_has_seen_is_not_for_ever(
    partition: Path, writer: UnifiedLog, *, is_used_before: bool, is_refreshed_between: bool
):
    """[DUR-71, TRU-1] The writer cut into that segment, and sealed it anew."""
    abort(writer, 2, 2)
    seal(writer)
    with segstore.open(partition, read_only=True) as reader:
        if is_used_before:
            assert reader.verify().ok
        writer.truncate_to(4)
        if is_refreshed_between:
            with pytest.raises(segstore.LogTruncatedError):
                reader.refresh()
            assert reader.verify().ok
        for producer_id in (3, 4, 5):
            abort(writer, producer_id)
        seal(writer)
        write(writer)
        with nullcontext() if is_refreshed_between else pytest.raises(segstore.LogTruncatedError):
            reader.refresh()
        assert reader.verify().ok
        assert committed(reader) == committed(writer) == [3, 10, 11]


def test_a_lost_index_shows_in_a_reader_that_follows(partition: Path, writer: UnifiedLog):
    """[DUR-7, DUR-71] Also one that was sealed after the reader was opened."""
    with segstore.open(partition, read_only=True) as reader:
        assert committed(reader) == [3]
        seal(writer)
        (partition / INDEX).unlink()
        reader.refresh()
        assert INDEX in " ".join(reader.verify().problems)
        assert committed(reader) == [3, 4]


def test_a_reader_between_a_roll_and_the_sync_behind_it(partition: Path, writer: UnifiedLog):
    """[DUR-8, DUR-16, DUR-71] Behind a truncation."""
    seal(writer)
    go_on = threading.Event()
    writer.truncate_to(3)
    abort(writer, 3)
    writer._background.submit(go_on.wait)  # a slow disk
    writer.roll()
    write(writer)
    try:
        with segstore.open(partition, read_only=True) as reader:
            assert reader.verify().ok
            assert committed(reader) == [5]
    finally:
        go_on.set()


@pytest.mark.parametrize("is_full", [False, True])
def test_the_indexes_of_segments_that_a_truncation_took_go(
    partition: Path, writer: UnifiedLog, *, is_full: bool
):
    """[DUR-16, TRU-4] Others begin where they did."""
    writer.roll()
    abort(writer, 2)
    seal(writer)
    if is_full:
        writer.truncate_fully_and_start_at(4)
    else:
        writer.truncate_to(4)
    writer.roll()
    write(writer)
    with segstore.open(partition, read_only=True) as reader:
        assert reader.verify().ok


@pytest.mark.parametrize("is_opened_before", [False, True])
@pytest.mark.parametrize("is_used_before", [False, True])
def test_aborts_behind_a_clean_stop(
    partition: Path, *, is_opened_before: bool, is_used_before: bool
):
    """[DUR-8, DUR-24] In the segment that was the active one."""
    with segstore.open(partition, **SETTINGS) as log:
        abort(log, 1)
    early = segstore.open(partition, read_only=True)
    if is_used_before:
        assert early.verify().ok
    with segstore.open(partition, **SETTINGS) as log:
        late = segstore.open(partition, read_only=True)
        reader = early if is_opened_before else late
        abort(log, 2)
        assert reader.verify().ok
        assert committed(reader) == []
        with suppress(segstore.LogTruncatedError):
            reader.refresh()
        assert reader.verify().ok
        log.close_quietly()
    for reader in (early, late):
        reader.close()
    with segstore.open(partition, **SETTINGS) as log:
        assert log.verify().ok


@pytest.mark.parametrize("who", ["writer", "reader", "command line"])
def test_a_look_between_a_marker_and_its_entry(
    partition: Path, writer: UnifiedLog, monkeypatch: pytest.MonkeyPatch, who: str
):
    """[DUR-7, DUR-71] Readers see the marker first; the index is no damaged one then."""
    looked, may_look_again, told = threading.Event(), threading.Event(), []
    reader = segstore.open(partition, read_only=True)

    def look() -> None:
        if who == "command line":
            told.append(check_partition(str(partition)).problems)
        else:
            one = writer if who == "writer" else reader
            with suppress(segstore.LogTruncatedError):
                one.refresh()
            told.append(one.verify().problems)
            one.collect_aborted_transactions(0, one.log_end_offset)

    def wait(_seconds: float) -> None:
        looked.set()
        assert may_look_again.wait(20)

    real = LocalLog.append_aborted

    def append_aborted(self: LocalLog, aborted: AbortedTransaction) -> None:
        looking.start()
        assert looked.wait(20)
        real(self, aborted)
        may_look_again.set()

    looking = threading.Thread(target=look)
    with monkeypatch.context() as patched:
        patched.setattr(transaction_index_check, "time", SimpleNamespace(sleep=wait))
        patched.setattr(LocalLog, "append_aborted", append_aborted)
        abort(writer, 2)
        looking.join()
    assert told == [[]]
    reader.close()


def test_a_lost_index_of_the_active_segment_shows_behind_a_clean_stop(partition: Path):
    """[DUR-7, DUR-8] To verify; a writer makes it anew when it is asked to."""
    with segstore.open(partition, **SETTINGS) as log:
        abort(log, 1, 2)
        write(log)
    (partition / INDEX).unlink()
    with segstore.open(partition, read_only=True) as reader:
        assert INDEX in " ".join(reader.verify().problems)
        assert committed(reader) == [3]
    with segstore.open(partition, **SETTINGS) as log:
        assert committed(log) == [3]
        assert log.rebuild_transaction_indexes() == [INDEX]
    with segstore.open(partition, read_only=True) as reader:
        assert reader.verify().ok


@pytest.mark.parametrize("ending", ["", "/"])
def test_verify_takes_a_path_as_it_was_typed(tmp_path, monkeypatch, ending):
    """[DUR-7] Relative, or as a shell completes it: the indexes were left out, and all was well."""
    from segstore import cli

    with segstore.open(tmp_path / "t-0", durability="none") as log:
        batch = MemoryRecords.with_records(
            [(None, b"x")], producer_id=7, producer_epoch=0, base_sequence=0, transactional=True
        )
        log.append_as_leader(batch.data)
        marker = MemoryRecords.with_end_transaction_marker(7, 0, commit=False)
        coordinator = AppendOrigin.COORDINATOR
        log.append_as_leader(marker.data, origin=coordinator, transaction_version=1)
        log.roll()
    (tmp_path / "t-0" / f"{0:020d}.txnindex").unlink()
    monkeypatch.chdir(tmp_path)

    assert cli.main(["verify", f"t-0{ending}"]) == 1
