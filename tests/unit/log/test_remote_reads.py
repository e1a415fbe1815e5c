"""Reads of a log whose older records are in remote storage: as if all of it were here.

Source: [TIER-2, TIER-65..TIER-73, DUR-141, DUR-144].
"""

from __future__ import annotations

import shutil
import tempfile
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import segstore
from segstore import Isolation, SpecialTimestamp
from segstore.errors import (
    CorruptRecordError,
    IllegalStateError,
    LogTruncatedError,
    OffsetOutOfRangeError,
    RemoteStorageError,
)
from tests.kits.log_kit import TIME, batch, offsets
from tests.kits.remote_kit import TIERED, RemoteSegments
from tests.kits.unified_log_kit import Producer, write_plain, write_scripted_transactions

ISOLATIONS = [Isolation.LOG_END, Isolation.READ_UNCOMMITTED, Isolation.READ_COMMITTED]


@pytest.fixture(params=["safe", "kafka"])
def profile(request) -> str:
    return request.param


@pytest.fixture
def remote() -> RemoteSegments:
    return RemoteSegments()


@pytest.fixture
def tiered(new_log, remote, profile):
    """Open a tiered log of small segments."""

    def open_tiered(path=None, **options: object):
        return new_log(
            path,
            **{
                "recovery": profile,
                "replicated": False,
                "retention_ms": None,
                "internal_segment_bytes": 500,
                "file_delete_delay_ms": 0,
                "remote_log_reader": remote,
                **TIERED,
                **options,
            },
        )

    return open_tiered


def upload(log, remote):
    """Copy all sealed segments."""
    active = log.segments()[-1].base_offset
    remote.copy(log.path, active)
    log.update_highest_offset_in_remote_storage(active - 1)


def leave_only(log, start):
    """Delete the uploaded segments below *start* here."""
    log.maybe_increment_local_log_start_offset(start)
    log.delete_old_segments()


@pytest.fixture
def log(tiered, remote):
    """Offsets 0 to 89 with transactions, of which the first half is in remote storage alone."""
    log = tiered()
    write_scripted_transactions(log)
    log.roll()
    upload(log, remote)
    return log


def seen(scan):
    """What each way of reading a scan gives."""
    return {
        "records": [(one.offset, one.timestamp, one.value) for one in scan],
        "tuples": scan.tuples(),
        "arrow": scan.to_arrow().column("offset").to_pylist(),
        "count": scan.count(),
        "by headers": scan.count(by_headers=True),
        "headers": [
            (segment.base_offset, *row)
            for segment, headers in scan.headers()
            for row in headers[["base_offset", "last_offset", "position"]].tolist()
        ],
        "batches": [(one.base_offset, one.last_offset) for one in scan.batches()],
    }


@pytest.mark.parametrize("isolation", ISOLATIONS)
def test_a_scan_reads_both_tiers(log, isolation):
    """[TIER-2, TIER-65] each record once and in order; aborted ones that span both are left out."""
    whole = seen(log.scan(isolation=isolation))
    some = seen(log.scan(7, 71, isolation=isolation))
    log_start = log.log_start_offset
    for start in [segment.base_offset for segment in log.segments()]:
        leave_only(log, start)
        assert log.segments()[0].base_offset == start
        assert log.log_start_offset == log_start
        assert seen(log.scan(isolation=isolation)) == whole
        assert seen(log.scan(7, 71, isolation=isolation)) == some


def test_whole_logs_read_both_tiers(log):
    """[TIER-2] iteration, one record, slices, Arrow, and what is counted."""
    records, table = list(log), log.to_arrow()
    leave_only(log, 60)
    first_here = log.segments()[0].base_offset
    assert 0 < first_here <= 60
    assert list(log) == records
    assert log.to_arrow().equals(table)
    assert log[3] == records[3]
    assert log[first_here].offset == first_here
    assert offsets(log[first_here - 3 : first_here + 3]) == [
        one.offset for one in records if first_here - 3 <= one.offset < first_here + 3
    ]
    assert log.dataset().to_table().equals(table)
    pc = pytest.importorskip("pyarrow.compute")
    few = log.dataset().to_table(filter=pc.field("offset") < 9)
    assert few.column("offset").to_pylist() == [one.offset for one in records if one.offset < 9]


@pytest.mark.parametrize("isolation", ISOLATIONS)
def test_reads_one_after_another(log, isolation):
    """[TIER-66..TIER-69] fetches give all batches, and name the transactions that were aborted."""

    def fetches():
        found, offset = [], 0
        while offset < log.log_end_offset:
            fetched = log.read(offset, 150, isolation=isolation, min_one_message=True)
            if not len(fetched.records):
                break
            found += [(one.offset, one.value) for one in fetched]
            offset = int(fetched.headers["last_offset"][-1]) + 1
        return found

    whole = fetches()
    leave_only(log, 60)
    assert fetches() == whole


def test_one_remote_read(log, remote):
    """[TIER-67, TIER-68] place and limits are those of the remote segment."""
    leave_only(log, 60)
    fetched = log.read(6, 1, isolation="log_end", min_one_message=True)
    assert fetched.fetch_offset_metadata == (5, 0, fetched.fetch_offset_metadata[2])
    assert offsets(fetched) == [6, 7]
    assert len(log.read(6, 1, isolation="log_end", min_one_message=False).records) == 0
    assert remote.reads == [6, 6]
    committed = log.read(0, 10**6, isolation="read_committed")
    assert (1, 0) in committed.aborted_transactions
    with pytest.raises(OffsetOutOfRangeError):
        log.read(-1, 100, isolation="log_end")


def test_local_records_cost_no_request(log, remote):
    """[TIER-2] what is here is read here, though it is in remote storage too."""
    leave_only(log, 60)
    start = log.segments()[0].base_offset
    log.read(start, 100)
    assert offsets(log.scan(start))
    assert remote.reads == []


def test_times(log, remote):
    """[TIER-71..TIER-73] a look-up by time asks there first, and a scan begins where it says."""
    leave_only(log, 60)
    assert log.offset_for_timestamp(TIME) == 0
    earliest = log.fetch_offset_by_timestamp(SpecialTimestamp.EARLIEST)
    local = log.fetch_offset_by_timestamp(SpecialTimestamp.EARLIEST_LOCAL)
    tiered = log.fetch_offset_by_timestamp(SpecialTimestamp.LATEST_TIERED)
    assert (earliest.offset, local.offset) == (0, log.local_log_start_offset)
    assert tiered.offset == log.highest_offset_in_remote_storage
    late = log.append_as_leader(batch([(TIME + 10**6, None, b"late")]), 0)
    remote.reads.clear()
    assert offsets(log.scan(start_timestamp=TIME + 10**6)) == [late.base_offset]


def test_follows_from_below_the_local_start(log):
    """[TIER-2, DUR-75] a follower that begins in remote storage goes on here, and waits."""
    expected = [record.offset for record in log]
    leave_only(log, 60)
    records = log.tail(0, timeout=0.2, poll_interval=0.01)
    found = [next(records).offset for _ in expected]
    new = write_plain(log)
    assert found == expected
    assert next(records).offset == new.base_offset
    assert list(records) == []


def test_the_local_start_moves_up_during_a_scan(log):
    """[TIER-2] what was here when the scan began has gone to remote storage: it is read there."""
    expected = [record.offset for record in log]
    scan = log.scan()
    slices = [log.scan(first, first + 30) for first in (0, 30, 60)]
    records = iter(scan)
    found = [next(records).offset]
    leave_only(log, 80)
    found += [record.offset for record in records]
    assert found == expected
    assert [one.offset for part in slices for one in part] == expected


def test_the_local_start_moves_up_during_each_remote_read(log, remote):
    expected = [record.offset for record in log]
    starts = iter([segment.base_offset for segment in log.segments()][2:])
    leave_only(log, 20)
    remote.before_read = lambda _: leave_only(log, next(starts, 0))
    assert offsets(log) == expected
    assert len(remote.reads) > 3


def test_a_marker_that_goes_to_remote_storage_during_a_committed_read(tiered, remote, monkeypatch):
    """[TIER-69] remote indexes are searched before local ones; what moved between is not missed."""
    log = tiered()
    write_scripted_transactions(log)
    log.roll()
    whole = log.read(0, 150, isolation="read_committed").aborted_transactions
    marker_of = {one[:2]: one.last_offset for one in log.collect_aborted_transactions(0, 150)}
    here = min(one.base_offset for one in log.segments() if one.base_offset > 0)
    assert any(marker_of[one] >= here for one in whole)
    remote.copy(log.path, here)
    log.update_highest_offset_in_remote_storage(here - 1)
    leave_only(log, here)
    search, tries = remote.read, []

    def copied_meanwhile(*what: object, local_aborted_transactions, **how: object):
        there = search(*what, local_aborted_transactions=lambda *_: (), **how)
        tries.append(log.segments()[0].base_offset)
        if len(tries) == 1:
            upload(log, remote)
            leave_only(log, 90)
        aborted = [*there.aborted_transactions, *local_aborted_transactions(0, here)]
        return there._replace(aborted_transactions=aborted)

    monkeypatch.setattr(remote, "read", copied_meanwhile)
    found = log.read(0, 150, isolation="read_committed").aborted_transactions
    assert sorted(found) == sorted(whole)
    assert len(tries) == 2


def test_a_local_segment_that_goes_while_a_broker_would_list_aborts(log, monkeypatch):
    """[TIER-69, LOC-9] the list is not empty because its first segment went meanwhile."""
    reader = log._reader
    whole = reader._aborted_as_a_broker(0, 90).between(0, 90)
    assert whole
    is_remote = reader._remote_reads.hold

    def hold(offset: int) -> bool:
        answer = is_remote(offset)
        leave_only(log, 60)
        return answer

    monkeypatch.setattr(reader._remote_reads, "hold", hold)
    found = reader._aborted_as_a_broker(0, 90).between(0, 90)
    assert log.segments()[0].base_offset > 0
    assert sorted(found) == sorted(whole)
    assert sorted(reader._aborted_as_a_broker(0, 90).between(0, 90)) == sorted(whole)


def test_a_log_start_that_passes_a_reader(log):
    """[DUR-143] the error of a local log: its records are deleted."""
    leave_only(log, 60)
    records = iter(log.scan(0, 90)._part(0, 90, chunk_bytes=1))
    assert next(records).offset == 0
    log.update_log_start_offset_from_remote_tier(50)
    with pytest.raises(OffsetOutOfRangeError) as caught:
        list(records)
    assert caught.value.expected is not None
    assert caught.value.expected.startswith("50 to ")
    assert offsets(log)[0] >= 50
    with pytest.raises(OffsetOutOfRangeError):
        log.read(10, 100)
    with pytest.raises(OffsetOutOfRangeError):
        log.scan(10)


def test_a_truncation_below_a_reader(log):
    """[DUR-77] a scan of a log that was cut below it does not go on with what comes then."""
    leave_only(log, 60)
    scan = log.scan()
    records = iter(scan._part(0, 90, chunk_bytes=1))
    next(records)
    log.truncate_to(5)
    with pytest.raises(LogTruncatedError):
        list(records)


def test_errors_of_the_storage_are_those_of_that_read(log, remote):
    """[DUR-144] local records stay readable, and the next read tries again."""
    expected = offsets(log)
    leave_only(log, 60)
    start = log.segments()[0].base_offset

    def fail(_):
        raise RemoteStorageError("the store does not answer", file="remote/0.log")

    remote.before_read = fail
    for read in (lambda: log.read(0, 100), lambda: list(log), log.to_arrow):
        with pytest.raises(RemoteStorageError, match=r"remote/0\.log"):
            read()
    assert offsets(log.scan(start)) == [one for one in expected if one >= start]
    assert len(log.read(start, 100).records) > 0
    remote.before_read = None
    assert offsets(log) == expected


def test_damage_names_the_object(log, remote):
    """[DUR-144] and the position in it."""
    leave_only(log, 60)
    headers = [(segment, row) for segment, rows in log.scan().headers() for row in rows]
    segment, row = headers[1]
    remote.damage(segment.base_offset, int(row["position"]) + int(row["size_bytes"]) - 1)
    for read in (lambda: list(log), log.to_arrow, lambda: list(log.read(0, 10**5))):
        with pytest.raises(CorruptRecordError) as caught:
            read()
        assert caught.value.file == "remote/00000000000000000000.log"
        assert caught.value.position == int(row["position"])


@pytest.fixture
def reading(log, remote):
    """Another handle of the same log, with the same storage; as of before anything is deleted."""
    with segstore.open(log.path, read_only=True, remote_log_reader=remote, **TIERED) as reading:
        yield reading


@pytest.mark.parametrize("isolation", ISOLATIONS)
def test_a_reading_handle_reads_both_tiers(log, remote, isolation):
    """[TIER-2, TIER-5, DUR-71] the log begins where its writer says, not where its files do."""
    whole = seen(log.scan(isolation=isolation))
    leave_only(log, 60)
    with segstore.open(log.path, read_only=True, remote_log_reader=remote, **TIERED) as reading:
        assert reading.log_start_offset == 0
        assert reading.local_log_start_offset == log.segments()[0].base_offset
        assert reading.remote_log_enabled
        assert seen(reading.scan(isolation=isolation)) == whole
        assert offsets(reading.read(0, 10**6, isolation=isolation))


def test_a_reading_handle_beside_its_writer(log, reading, profile):
    """[TIER-2, DUR-75] what goes to remote storage meanwhile is read there."""
    expected = offsets(log)
    scan = reading.scan()
    for start in (20, 40, 60, 80):
        leave_only(log, start)
        assert offsets(scan) == expected
        assert offsets(reading) == expected
        assert offsets(reading.read(0, 100, min_one_message=True))[0] == 0
    reading.refresh()
    assert reading.local_log_start_offset == log.segments()[0].base_offset
    assert offsets(reading) == expected
    if profile == "kafka":
        return  # it writes the log start down later
    log.update_log_start_offset_from_remote_tier(10)
    reading.refresh()
    assert reading.log_start_offset == 10
    assert offsets(reading) == [one for one in expected if one >= 10]
    with pytest.raises(OffsetOutOfRangeError):
        reading.read(9, 100)


def test_a_reading_handle_follows(log, reading):
    """[TIER-2, DUR-75] from an offset that goes to remote storage under it."""
    expected = offsets(log)
    records = reading.tail(0, timeout=0.2, poll_interval=0.01)
    found = [next(records).offset]
    leave_only(log, 80)
    new = write_plain(log)
    found += [record.offset for record in records]
    assert found == [*expected, new.base_offset]


def test_without_a_reader(log, tiered, profile):
    """[DUR-26] the records are named, and who can read them."""
    if profile == "kafka":
        pytest.skip("a broker without remote storage begins where its files do")
    leave_only(log, 60)
    path = log.path
    log.close()
    again = tiered(path, remote_log_reader=None)
    with pytest.raises(OffsetOutOfRangeError, match="in remote storage alone"):
        again.read(0, 100)
    with pytest.raises(OffsetOutOfRangeError, match="in remote storage alone"):
        again.scan(0)


def test_a_reader_of_nonsense(log, remote):
    leave_only(log, 60)
    remote.read = lambda *_, **__: b"bytes"
    with pytest.raises(IllegalStateError, match="gave bytes"):
        log.read(0, 100)


def test_another_thread_raises_the_local_start(tiered, remote):
    """[TIER-2] scans see every record once, while segments go to remote storage under them."""
    log = tiered()
    for _ in range(300):
        write_plain(log, 2)
    log.roll()
    upload(log, remote)
    expected = list(range(600))
    errors = []

    def shrink():
        try:
            for segment in log.segments():
                leave_only(log, segment.base_offset)
        except BaseException as error:  # noqa: BLE001 - shown by the test
            errors.append(error)

    thread = threading.Thread(target=shrink)
    thread.start()
    try:
        while thread.is_alive():
            assert offsets(log) == expected
            assert [row[0] for row in log.scan(isolation="read_committed").tuples()] == expected
            assert len(log.read(0, 100).records) > 0
    finally:
        thread.join()
    assert not errors
    assert offsets(log) == expected


ACTIONS = st.lists(
    st.tuples(
        st.sampled_from(["plain", "data", "data", "commit", "abort", "roll"]),
        st.integers(1, 3),
        st.integers(1, 4),
    ),
    min_size=3,
    max_size=40,
)


@settings(max_examples=60, deadline=None)
@given(
    actions=ACTIONS,
    start=st.integers(0, 100),
    first=st.integers(0, 100),
    end=st.integers(0, 100),
    isolation=st.sampled_from(ISOLATIONS),
    codec=st.sampled_from(["producer", "gzip", "zstd"]),
    profile=st.sampled_from(["safe", "kafka"]),
)
def test_any_log_reads_as_if_it_were_here(  # noqa: PLR0913 - what is drawn
    actions, start, first, end, isolation, codec, profile
):
    """[TIER-65, TIER-69] wherever the local part begins."""
    folder, remote = Path(tempfile.mkdtemp(prefix="segstore-property-")), RemoteSegments()
    try:
        with segstore.open(
            folder / "topic-0",
            durability="none",
            recovery=profile,
            replicated=False,
            internal_segment_bytes=600,
            retention_ms=None,
            file_delete_delay_ms=0,
            compression_type=codec,
            remote_log_reader=remote,
            **TIERED,
        ) as log:
            producers = {pid: Producer(log, pid) for pid in range(1, 4)}
            under_way = set()
            for action, pid, count in actions:
                match action:
                    case "plain":
                        write_plain(log, count)
                    case "data":
                        producers[pid].write_in_transaction(count)
                        under_way.add(pid)
                    case "roll":
                        log.roll()
                    case _ if pid in under_way:
                        producers[pid].end(commit=action == "commit")
                        under_way.remove(pid)
            length = log.log_end_offset
            low, high = sorted((length * first // 100, length * end // 100))
            expected = [seen(log.scan(*part, isolation=isolation)) for part in ((), (low, high))]
            upload(log, remote)
            leave_only(log, length * start // 100)
            found = [seen(log.scan(*part, isolation=isolation)) for part in ((), (low, high))]
            assert found == expected
    finally:
        shutil.rmtree(folder)
