"""Transaction indexes: lost, damaged, of a live log; the batches decide."""

from __future__ import annotations

import json
import os
import shutil
import struct
import subprocess
import sys
import threading
from contextlib import nullcontext, suppress
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

import segstore
from segstore import AppendOrigin, MemoryRecords, _core, cli
from segstore._core import crc32c
from segstore.errors import (
    CorruptLogError,
    DiskFullError,
    FsyncFailedError,
    ResourceError,
    SegstoreError,
    UnsupportedFormatError,
    WriteError,
)
from segstore.log.check.partition_check import check_partition
from segstore.log.files.checkpoints import LogState
from segstore.log.files.clean_shutdown_marker import CleanShutdownMarker
from segstore.log.findings.finding import FindingCode
from segstore.log.local import transaction_index_check
from segstore.log.local.local_log import LocalLog
from segstore.log.local.transaction_index import TRANSACTION_INDEX_ENTRY_BYTES, AbortedTransaction
from tests.kits.log_kit import batch, offsets
from tests.kits.transactions_kit import ABORT, COMMIT, Producer, write

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from segstore import UnifiedLog


# ---- lost transaction index ----------------------------------------------------------------------
# Records of aborted transactions counted as committed when their index was lost or changed.
#
# Below the newest producer snapshot readers of committed data believed the ``.txnindex`` files as
# they were: a missing one had no entries, a short one fewer, and any bit could be another one.
# After a clean stop nobody looked; after an unclean one nobody looked below the recovery point.
# Later the sizes and checksums of the files were noted in ``.segstore`` and in the clean marker;
# now the batches are compared, and nothing is noted. Looked for besides: the index of the active
# segment, a handle that is killed, notes that older versions left, segments that were cut and
# written anew.


SETTINGS = {"segment_ms": None, "durability": "none"}
ENTRY = struct.Struct(">hqqqq")
MARKER = ".kafka_cleanshutdown"


def write_log(path: Path) -> None:
    """Three sealed segments; the first two have two aborted transactions each, one inside other."""
    with segstore.open(path, **SETTINGS) as log:
        for first_id in (1, 11):
            outer, inner = Producer(log, first_id), Producer(log, first_id + 1)
            outer.write(2)
            inner.write()
            write(log)
            inner.end(ABORT)
            committing = Producer(log, first_id + 2)
            committing.write()
            committing.end(COMMIT)
            outer.end(ABORT)
            log.roll()
        write(log, 3)
        log.roll()
        write(log)


@pytest.fixture(scope="module")
def written_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("logs") / "orders-0"
    write_log(path)
    return path


@pytest.fixture
def copied_partition(written_once: Path, tmp_path: Path) -> Path:
    return shutil.copytree(written_once, tmp_path / "orders-0")


def indexes(partition: Path) -> list[Path]:
    return sorted(partition.glob("*.txnindex"))


def committed(log: UnifiedLog) -> list[int]:
    return [record.offset for record in log.scan(isolation="read_committed")]


def fetched(log: UnifiedLog) -> list[int]:
    """The same, by fetches."""
    offset, offsets = 0, []
    while offset < log.log_end_offset:
        found = log.read(offset, 10_000, "read_committed")
        offsets += [record.offset for record in found]
        offset = max([offset, *(record.offset for record in log.read(offset, 10_000))]) + 1
    return offsets


COMMITTED_OFFSETS = [3, 5, 11, 13, 16, 17, 18, 19]


def lose(index: Path) -> None:
    index.unlink()


def empty(index: Path) -> None:
    index.write_bytes(b"")


def cut_entry(index: Path) -> None:
    index.write_bytes(index.read_bytes()[: ENTRY.size])


def cut_in_entry(index: Path) -> None:
    index.write_bytes(index.read_bytes()[:-1])


def change(field: int, to: int) -> Callable[[Path], None]:
    """Give a field of the last entry another value."""

    def change_field(index: Path) -> None:
        data = index.read_bytes()
        fields = list(ENTRY.unpack(data[-ENTRY.size :]))
        fields[field] += to
        index.write_bytes(data[: -ENTRY.size] + ENTRY.pack(*fields))

    return change_field


def swap_entries(index: Path) -> None:
    data = index.read_bytes()
    index.write_bytes(data[ENTRY.size :] + data[: ENTRY.size])


SIZES = {"lost": lose, "emptied": empty, "an entry gone": cut_entry, "torn": cut_in_entry}
CONTENTS = {
    "version": change(0, 1),
    "producer": change(1, 8),
    "first offset": change(2, 1),
    "last offset": change(3, 64),
    "last offset below": change(3, -1),
    "last stable offset": change(4, -1),
    "last stable offset above": change(4, 2**40),
    "order": swap_entries,
}
DAMAGE = SIZES | CONTENTS
HARMLESS = {"last stable offset"}
"""A lower one makes a broker look at more entries, and at none less: it is left as it is."""


def test_what_is_committed_in_a_whole_log(copied_partition: Path):
    with segstore.open(copied_partition, **SETTINGS) as log:
        assert committed(log) == fetched(log) == COMMITTED_OFFSETS
    assert [len(index.read_bytes()) for index in indexes(copied_partition)] == [2 * ENTRY.size] * 2


@pytest.mark.parametrize("replicated", [False, True])
@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("stop", ["clean", "unclean"])
def test_a_damaged_index_is_not_believed(
    copied_partition: Path, damage: str, number: int, stop: str, *, replicated: bool
):
    """[DUR-7, DUR-8, DUR-52] Readers ask the batches, verify names it, a rebuild mends it."""
    whole = {index.name: index.read_bytes() for index in indexes(copied_partition)}
    index = indexes(copied_partition)[number]
    DAMAGE[damage](index)
    if stop == "unclean":
        (copied_partition / MARKER).unlink()

    with segstore.open(copied_partition, read_only=True) as log:
        assert committed(log) == fetched(log) == COMMITTED_OFFSETS
    with segstore.open(copied_partition, **SETTINGS, replicated=replicated) as log:
        assert log.report.clean == (stop == "clean")
        if replicated:
            log.update_high_watermark(log.log_end_offset)
        assert committed(log) == fetched(log) == COMMITTED_OFFSETS
        log.append([(None, b"not read by anybody")])
        told = log.verify().problems
        assert [index.name in problem for problem in told] == [True] * (damage not in HARMLESS)
        assert log.rebuild_transaction_indexes() == [index.name] * (damage not in HARMLESS)
    if damage not in HARMLESS:
        assert {index.name: index.read_bytes() for index in indexes(copied_partition)} == whole
    with segstore.open(copied_partition, **SETTINGS) as log:
        assert log.report.rebuilt == []
        assert log.verify().ok


@pytest.mark.parametrize("damage", sorted(set(DAMAGE) - HARMLESS))
def test_damage_is_named_and_repaired(
    copied_partition: Path, damage: str, capsys: pytest.CaptureFixture[str]
):
    """[DUR-58] ``verify`` finds it, ``recover`` keeps its word."""
    whole = {index.name: index.read_bytes() for index in indexes(copied_partition)}
    index = indexes(copied_partition)[0]
    DAMAGE[damage](index)

    with segstore.open(copied_partition, read_only=True) as log:
        assert any(index.name in problem for problem in log.verify().problems)
    found = check_partition(str(copied_partition)).findings
    assert [(each.file, each.repaired) for each in found] == [(index.name, True)]
    assert cli.main(["verify", str(copied_partition)]) == 1
    assert index.name in capsys.readouterr().out
    assert cli.main(["recover", "--dry-run", "-q", str(copied_partition)]) == 0
    assert index.name in capsys.readouterr().out
    assert cli.main(["recover", "-q", str(copied_partition)]) == 0
    assert {index.name: index.read_bytes() for index in indexes(copied_partition)} == whole
    assert cli.main(["verify", str(copied_partition)]) == 0


def test_an_index_of_a_handle_that_is_killed(tmp_path: Path):
    """[DUR-8, DUR-29] It is synced before the recovery point passes it: a loss comes from outside.

    The open believes the names that it finds; who reads is told by the batches all the same.
    """
    path = tmp_path / "orders-0"
    log = segstore.open(path, **SETTINGS)
    aborting = Producer(log, 1)
    aborting.write()
    aborting.end(ABORT)
    log.roll()
    write(log)
    log._background.wait_until_idle()
    assert log.recovery_point == 2
    log.close_quietly()
    (index,) = indexes(path)
    whole = index.read_bytes()
    lose(index)

    for is_closed in (False, True):
        log = segstore.open(path, **SETTINGS)
        assert committed(log) == [2]
        log.close() if is_closed else log.close_quietly()
        assert not index.exists()
    with segstore.open(path, **SETTINGS) as log:
        log.rebuild_transaction_indexes()
    assert index.read_bytes() == whole


def test_a_truncated_index_is_right(copied_partition: Path):
    """[TRU-1, DUR-16] Also one whose last entry went."""
    with segstore.open(copied_partition, **SETTINGS) as log:
        log.truncate_to(15)
        assert committed(log) == [3, 5]  # the outer one is open again
    with segstore.open(copied_partition, **SETTINGS) as log:
        assert (log.verify().problems, committed(log)) == ([], [3, 5])
        log.truncate_to(9)
        assert log.verify().ok
        assert log.rebuild_transaction_indexes() == []


@pytest.mark.parametrize("damage", [lose, CONTENTS["producer"]], ids=["lost", "changed"])
def test_an_index_is_made_anew_on_demand(copied_partition: Path, damage: Callable[[Path], None]):
    """[DUR-8, DUR-52] Of sealed segments and of the active one, which goes on being written."""
    with segstore.open(copied_partition, **SETTINGS) as log:
        last = Producer(log, 21)
        last.write()
        last.end(ABORT)
        whole = {index.name: index.read_bytes() for index in indexes(copied_partition)}
        assert len(whole) == 3
        for index in indexes(copied_partition):
            damage(index)
        assert log.rebuild_transaction_indexes() == sorted(whole)
        assert {index.name: index.read_bytes() for index in indexes(copied_partition)} == whole
        assert log.rebuild_transaction_indexes() == []
        last.write()
        last.end(ABORT)
        assert log.verify().ok
        assert len(log.collect_aborted_transactions(0, log.log_end_offset)) == 6


@pytest.mark.parametrize("damage", sorted(set(DAMAGE) - HARMLESS))
def test_the_list_of_a_fetch_is_no_damaged_one(copied_partition: Path, damage: str):
    """[DUR-7, LOC-10] Who asks for the entries of the files is told that they are wrong."""
    DAMAGE[damage](indexes(copied_partition)[0])

    for options in ({"read_only": True}, SETTINGS):
        with segstore.open(copied_partition, **options) as log:
            with pytest.raises((segstore.CorruptIndexError, segstore.UnsupportedFormatError)):
                log.collect_aborted_transactions(0, log.log_end_offset)
            assert len(log.collect_aborted_transactions(8, log.log_end_offset)) == 2


def test_what_older_versions_noted_is_read_and_not_asked(copied_partition: Path):
    """[DUR-64] In ``.segstore`` and in the clean marker; one of them is untrue here."""
    state = copied_partition / ".segstore"
    known = LogState.parse(state.read_bytes())
    text = state.read_bytes().rpartition(b"crc ")[0]
    text += b"transaction_index 0 34\ntransaction_index 8 68 7\ntransaction_index 16 -1\n"
    state.write_bytes(text + b"crc %d\n" % crc32c(text))
    marker = copied_partition / MARKER
    fields = json.loads(marker.read_bytes())
    del fields["crc"]
    fields["transactionIndex"] = [102, 7]
    crc = crc32c(json.dumps(fields).encode())
    marker.write_bytes(json.dumps({**fields, "crc": crc}).encode())
    assert CleanShutdownMarker.parse(marker.read_bytes()) is not None

    assert known is not None
    assert LogState.parse(state.read_bytes()) == known
    with segstore.open(copied_partition, read_only=True) as log:
        assert (log.verify().problems, committed(log)) == ([], COMMITTED_OFFSETS)
    with segstore.open(copied_partition, **SETTINGS) as log:
        assert log.report.clean
        assert (log.report.rebuilt, committed(log)) == ([], COMMITTED_OFFSETS)


def test_an_index_is_lost_with_the_batches_that_would_tell(
    copied_partition: Path, capsys: pytest.CaptureFixture[str]
):
    """[DUR-51, DUR-58] Committed data ends there; the index stays lost, and that is said."""
    index = indexes(copied_partition)[0]
    index.unlink()
    with (copied_partition / f"{0:020d}.log").open("r+b") as file:
        file.seek(90)
        file.write(b"\xff")

    with segstore.open(copied_partition, **SETTINGS) as log:
        with pytest.raises(segstore.CorruptLogError):
            committed(log)
        assert log.rebuild_transaction_indexes() == []
    assert not index.exists()
    assert cli.main(["recover", "-q", str(copied_partition)]) == 1
    assert f"{0:020d}.log" in capsys.readouterr().out


def test_kafkas_profile_believes_what_is_there(copied_partition: Path):
    """[DUR-62, DUR-117, LDR-15] A lost index is an empty one to Kafka."""
    indexes(copied_partition)[0].unlink()
    (copied_partition.parent / MARKER).write_bytes(b'{"version":0,"brokerEpoch":-1}')

    with segstore.open(copied_partition, **SETTINGS, recovery="kafka") as log:
        log.update_high_watermark(log.log_end_offset)
        assert set(committed(log)) > set(COMMITTED_OFFSETS)


def test_an_index_of_a_log_directory(tmp_path: Path):
    """[DUR-8, DUR-65] Its partitions have no clean markers of their own."""
    with segstore.open_dir(tmp_path, **SETTINGS) as manager:
        manager.create_topic("a")
        log = manager.log("a", 0)
        aborting = Producer(log, 1)
        aborting.write()
        aborting.end(ABORT)
        log.roll()
        write(log)
    lose(tmp_path / "a-0" / f"{0:020d}.txnindex")

    with segstore.open_dir(tmp_path, **SETTINGS) as manager:
        log = manager.log("a", 0)
        assert log.report.clean
        assert committed(log) == [2]
        log.rebuild_transaction_indexes()
    assert len(indexes(tmp_path / "a-0")[0].read_bytes()) == ENTRY.size


def test_a_segment_that_begins_where_one_was_cut_has_its_own_index(copied_partition: Path):
    """[DUR-16] The old one had aborted transactions, the new one has none."""
    with segstore.open(copied_partition, **SETTINGS) as log:
        log.truncate_to(8)
        log.truncate_to(7)
        write(log)
        log.roll()
        write(log)
        log.roll()
        log._background.wait_until_idle()
        assert log.recovery_point == 9
        log.close_quietly()

    with segstore.open(copied_partition, **SETTINGS) as log:
        assert log.verify().ok
        assert log.rebuild_transaction_indexes() == []


# ---- lost transaction index of a broker ----------------------------------------------------------
# Aborted records of a broker's log were shown as committed when a ``.txnindex`` was not whole.
#
# Nobody had noted what was in it: below the newest producer snapshot a missing index had no
# entries, and one that was torn had fewer. Looked for besides: an empty one, zeros, an entry too
# many (it hid committed records), a transaction that spans segments, the index of the active
# segment, readers that begin in the middle, fetches, slices, counts, a replicated handle, and
# Kafka's profile, which believes the file as a broker does.


OWN = (".segstore", ".kafka_cleanshutdown")


@pytest.fixture(scope="module")
def written_by_a_broker_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four segments; a transaction spans two of them, and producers abort in each but the third."""
    path = tmp_path_factory.mktemp("logs") / "orders-0"
    with segstore.open(path, **SETTINGS) as log:
        first, second = Producer(log, 1), Producer(log, 2)
        first.write(2)  # 0, 1
        second.write()  # 2
        write(log)  # 3
        first.end(ABORT)  # 4
        log.roll()
        write(log)  # 5
        second.write()  # 6
        second.end(ABORT)  # 7: also what lies in the segment before
        first.write()  # 8
        first.end(COMMIT)  # 9
        log.roll()
        write(log)  # 10
        log.roll()
        first.write()  # 11
        first.end(ABORT)  # 12
        write(log)  # 13
    return path


COMMITTED_OFFSETS_OF_A_BROKER = [3, 5, 8, 10, 13]


@pytest.fixture
def partition_of_a_broker(written_by_a_broker_once: Path, tmp_path: Path) -> Path:
    """As a broker leaves it: with its marker in the log directory, and nothing of ours."""
    path = shutil.copytree(written_by_a_broker_once, tmp_path / "orders-0")
    for name in OWN:
        (path / name).unlink()
    point = path / "recovery-point-offset-checkpoint"
    point.rename(path.parent / point.name)
    (path.parent / OWN[1]).write_bytes(b'{"version":0,"brokerEpoch":-1}')
    return path


def tear(index: Path) -> None:
    index.write_bytes(index.read_bytes()[:-10])


def zero(index: Path) -> None:
    index.write_bytes(bytes(len(index.read_bytes())))


def add_entry(index: Path) -> None:
    """One that would hide the record of the COMMIT at 9."""
    index.write_bytes(index.read_bytes() + AbortedTransaction(1, 8, 9, 10).format())


DAMAGES = {"lost": lose, "empty": empty, "torn": tear, "zeros": zero, "one more": add_entry}


def offsets_of(log: UnifiedLog, start: int) -> list[list[int]]:
    scan = log.scan(start, isolation="read_committed")
    fetched, offset = [], start
    while offset < log.log_end_offset:
        found = log.read(offset, 1, "read_committed")
        assert log.slice(offset, 1, "read_committed").read().aborted_transactions == (
            found.aborted_transactions
        )
        fetched += [record.offset for record in found]
        offset = int(found.headers["last_offset"][-1]) + 1 if len(found.headers) else offset + 1
    assert scan.count() == scan.count(by_headers=True)
    return [[row[0] for row in scan.tuples()], [record.offset for record in scan], fetched]


@pytest.mark.parametrize("handle", ["reader", "writer", "replicated"])
@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_the_batches_tell_what_was_aborted(
    partition_of_a_broker: Path, damage: Callable[[Path], None], handle: str
):
    """[DUR-7, DUR-8, TXX-1] By every way to read, from every offset."""
    for index in sorted(partition_of_a_broker.glob("*.txnindex")):
        damage(index)
    options = {"read_only": True} if handle == "reader" else SETTINGS

    with segstore.open(partition_of_a_broker, **options, replicated=handle == "replicated") as log:
        assert log.report.clean
        if handle == "replicated":
            log.update_high_watermark(log.log_end_offset)
        for start in range(14):
            expected = [offset for offset in COMMITTED_OFFSETS_OF_A_BROKER if offset >= start]
            assert offsets_of(log, start) == [expected] * 3
        part = log.scan(1, 7, isolation="read_committed")
        assert [record.offset for record in part] == [3, 5]


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_verify_says_what_is_true_and_recover_repairs(
    partition_of_a_broker: Path, damage: Callable[[Path], None], capsys: pytest.CaptureFixture[str]
):
    """[DUR-58] Reads of committed data do ask the batches."""
    whole = {index.name: index.read_bytes() for index in partition_of_a_broker.glob("*.txnindex")}
    index = partition_of_a_broker / f"{5:020d}.txnindex"
    damage(index)

    assert cli.main(["verify", "-q", str(partition_of_a_broker)]) == 1
    told = capsys.readouterr().out
    assert index.name in told
    assert "committed reads use the batches instead" in told
    cli.main(
        ["cat", str(partition_of_a_broker), "--isolation", "read_committed", "--format", "jsonl"]
    )
    assert len(capsys.readouterr().out.splitlines()) == len(COMMITTED_OFFSETS_OF_A_BROKER)
    assert cli.main(["recover", "-q", str(partition_of_a_broker)]) == 0
    assert {
        each.name: each.read_bytes() for each in partition_of_a_broker.glob("*.txnindex")
    } == whole
    assert cli.main(["verify", "-q", str(partition_of_a_broker)]) == 0


def check_not_promised(partition: Path, torn_index: Path) -> None:
    findings = check_partition(str(partition)).findings
    (finding,) = (one for one in findings if one.file == torn_index.name)
    assert (finding.code, finding.repaired) == (FindingCode.TRANSACTION_INDEX_CORRUPT, False)
    assert cli.main(["recover", "-q", str(partition)]) == 1
    assert torn_index.read_bytes() == bytes(12)


def test_a_torn_index_beside_a_damaged_batch_is_not_promised(partition_of_a_broker: Path):
    """[DUR-58] The batches that would tell what it should hold cannot be read."""
    log = max(partition_of_a_broker.glob("*.log"))
    index = log.with_suffix(".txnindex")
    index.write_bytes(bytes(12))
    data = bytearray(log.read_bytes())
    data[65] ^= 1
    log.write_bytes(data)

    check_not_promised(partition_of_a_broker, index)


def test_a_torn_index_behind_damage_of_another_segment_is_not_promised(tmp_path: Path):
    """[DUR-58] `recover` promised the last one, of which only its size was looked at."""
    path = tmp_path / "orders-0"
    with segstore.open(path, **SETTINGS) as log:
        producer = Producer(log, 1)
        producer.write()
        log.roll()
        producer.end(ABORT)
    index = path / f"{1:020d}.txnindex"
    index.write_bytes(bytes(12))
    first = path / f"{0:020d}.log"
    data = bytearray(first.read_bytes())
    data[65] ^= 1
    first.write_bytes(data)

    check_not_promised(path, index)


@pytest.mark.parametrize("is_clean", [True, False])
def test_zeros_behind_a_sealed_segment_hide_no_transaction(
    tmp_path: Path, capsys, *, is_clean: bool
):
    """[DUR-8, DUR-58] One began before them: recover wrote an index that no check had named."""
    path = tmp_path / "orders-0"
    with segstore.open(path, **SETTINGS) as log:
        producer = Producer(log, 1)
        producer.write()
        log.roll()
        producer.end(ABORT)
        log.roll()
        write(log)
    for name in (*OWN, "recovery-point-offset-checkpoint"):
        (path / name).unlink()
    if is_clean:
        (tmp_path / OWN[1]).write_bytes(b'{"version":0,"brokerEpoch":-1}')
    index = path / f"{1:020d}.txnindex"
    whole = index.read_bytes()
    assert len(whole) == TRANSACTION_INDEX_ENTRY_BYTES
    index.unlink()
    segment = path / f"{0:020d}.log"
    os.truncate(segment, segment.stat().st_size + 12)

    findings = check_partition(str(path)).findings
    (finding,) = (one for one in findings if one.file == index.name)
    assert (finding.code, finding.repaired) == (FindingCode.TRANSACTION_INDEX_CORRUPT, True)
    cli.main(["recover", "-q", "--json", str(path)])
    assert index.name in json.loads(capsys.readouterr().out)["rebuilt"]
    assert index.read_bytes() == whole
    assert index.name not in [one.file for one in check_partition(str(path)).findings]


def make_directory(index: Path) -> None:
    index.unlink()
    index.mkdir()


def make_link(index: Path) -> None:
    index.unlink()
    index.symlink_to("/nonexistent")


def make_pipe(index: Path) -> None:
    index.unlink()
    os.mkfifo(index)


@pytest.mark.parametrize("replace", [make_directory, make_link, make_pipe])
def test_something_else_in_place_of_an_index_costs_no_record(
    partition_of_a_broker: Path, replace: Callable[[Path], None]
):
    """[DUR-7, DUR-8] Fetches failed. `recover` leaves it to the user, who moves it away."""
    whole = {index.name: index.read_bytes() for index in partition_of_a_broker.glob("*.txnindex")}
    index = partition_of_a_broker / f"{5:020d}.txnindex"
    replace(index)
    there = index.lstat()

    with segstore.open(partition_of_a_broker, read_only=True) as log:
        assert offsets_of(log, 0) == [COMMITTED_OFFSETS_OF_A_BROKER] * 3
    assert cli.main(["verify", "-q", str(partition_of_a_broker)]) == 1
    assert cli.main(["recover", "-q", str(partition_of_a_broker)]) == 1
    assert os.path.samestat(index.lstat(), there)
    index.rename(partition_of_a_broker.parent / "moved")
    assert cli.main(["recover", "-q", str(partition_of_a_broker)]) == 0
    assert {
        each.name: each.read_bytes() for each in partition_of_a_broker.glob("*.txnindex")
    } == whole


def test_kafkas_profile_loads_a_version_that_it_does_not_read(partition_of_a_broker: Path):
    """[TXX-3, T-25, DUR-62] At a clean start 4.3.1 looks at the first byte; above 0 it fails."""
    index = partition_of_a_broker / f"{0:020d}.txnindex"
    whole = index.read_bytes()
    options = {**SETTINGS, "recovery": "kafka", "replicated": True}
    marker = partition_of_a_broker.parent / OWN[1]
    for version in (b"\0\1", b"\xff\0"):
        index.write_bytes(version + whole[2:])
        with segstore.open(partition_of_a_broker, **options) as log:
            log.update_high_watermark(log.log_end_offset)
            with pytest.raises(segstore.UnsupportedFormatError):
                log.read(0, 2**20, "read_committed")
        marker.write_bytes(b'{"version":0,"brokerEpoch":-1}')
    index.write_bytes(b"\1\0" + whole[2:])
    with pytest.raises(segstore.UnsupportedFormatError):
        segstore.open(partition_of_a_broker, **options)


# ---- transaction index of a live log -------------------------------------------------------------
# A reader beside a writer called sound transaction indexes damaged.
#
# It compared entries behind its own end with batches that it had not seen, remembered what it had
# found for ever, and believed what had been noted of an index before its open. And who looked when
# a marker was there, and its entry not yet, missed the entry: verify, also that of the writer
# itself.


INDEX = f"{0:020d}.txnindex"


@pytest.fixture
def live_partition(tmp_path: Path) -> Path:
    return tmp_path / "orders-0"


@pytest.fixture
def writer(live_partition: Path) -> Iterator[UnifiedLog]:
    """One aborted transaction, at 0 to 2, and a record."""
    with segstore.open(live_partition, **SETTINGS) as log:
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


def test_an_entry_behind_the_end_of_a_reader(live_partition: Path, writer: UnifiedLog):
    """[DUR-71, DUR-7] What it names is not there yet for that reader."""
    with segstore.open(live_partition, read_only=True) as reader:
        abort(writer, 2)
        assert reader.verify().ok
        assert committed(reader) == [3]
        reader.refresh()
        assert reader.verify().ok
        write(writer)
        reader.refresh()
        assert committed(reader) == [3, 6]


def test_a_reader_looks_at_an_index_each_time(live_partition: Path, writer: UnifiedLog):
    """[DUR-71, DUR-77] What was damaged need not be, in another log than the reader has seen."""
    whole = (live_partition / INDEX).read_bytes()
    with segstore.open(live_partition, read_only=True) as reader:
        (live_partition / INDEX).write_bytes(whole[:9] + b"\x07" + whole[10:])  # another producer
        with pytest.raises(segstore.CorruptIndexError):
            reader.collect_aborted_transactions(0, 4)
        (live_partition / INDEX).write_bytes(whole)
        assert len(reader.collect_aborted_transactions(0, 4)) == 1
    assert writer.verify().ok


@pytest.mark.parametrize("is_used_before", [False, True])
@pytest.mark.parametrize("is_refreshed_between", [False, True])
def test_what_an_open_has_seen_is_not_for_ever(
    live_partition: Path, writer: UnifiedLog, *, is_used_before: bool, is_refreshed_between: bool
):
    """[DUR-71, TRU-1] The writer cut into that segment, and sealed it anew."""
    abort(writer, 2, 2)
    seal(writer)
    with segstore.open(live_partition, read_only=True) as reader:
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


def test_a_lost_index_shows_in_a_reader_that_follows(live_partition: Path, writer: UnifiedLog):
    """[DUR-7, DUR-71] Also one that was sealed after the reader was opened."""
    with segstore.open(live_partition, read_only=True) as reader:
        assert committed(reader) == [3]
        seal(writer)
        (live_partition / INDEX).unlink()
        reader.refresh()
        assert INDEX in " ".join(reader.verify().problems)
        assert committed(reader) == [3, 4]


def test_a_reader_between_a_roll_and_the_sync_behind_it(live_partition: Path, writer: UnifiedLog):
    """[DUR-8, DUR-16, DUR-71] Behind a truncation."""
    seal(writer)
    go_on = threading.Event()
    writer.truncate_to(3)
    abort(writer, 3)
    writer._background.submit(go_on.wait)  # a slow disk
    writer.roll()
    write(writer)
    try:
        with segstore.open(live_partition, read_only=True) as reader:
            assert reader.verify().ok
            assert committed(reader) == [5]
    finally:
        go_on.set()


@pytest.mark.parametrize("is_full", [False, True])
def test_the_indexes_of_segments_that_a_truncation_took_go(
    live_partition: Path, writer: UnifiedLog, *, is_full: bool
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
    with segstore.open(live_partition, read_only=True) as reader:
        assert reader.verify().ok


@pytest.mark.parametrize("is_opened_before", [False, True])
@pytest.mark.parametrize("is_used_before", [False, True])
def test_aborts_behind_a_clean_stop(
    live_partition: Path, *, is_opened_before: bool, is_used_before: bool
):
    """[DUR-8, DUR-24] In the segment that was the active one."""
    with segstore.open(live_partition, **SETTINGS) as log:
        abort(log, 1)
    early = segstore.open(live_partition, read_only=True)
    if is_used_before:
        assert early.verify().ok
    with segstore.open(live_partition, **SETTINGS) as log:
        late = segstore.open(live_partition, read_only=True)
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
    with segstore.open(live_partition, **SETTINGS) as log:
        assert log.verify().ok


@pytest.mark.parametrize("who", ["writer", "reader", "command line"])
def test_a_look_between_a_marker_and_its_entry(
    live_partition: Path, writer: UnifiedLog, monkeypatch: pytest.MonkeyPatch, who: str
):
    """[DUR-7, DUR-71] Readers see the marker first; the index is no damaged one then."""
    looked, may_look_again, told = threading.Event(), threading.Event(), []
    reader = segstore.open(live_partition, read_only=True)

    def look() -> None:
        if who == "command line":
            told.append(check_partition(str(live_partition)).problems)
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


def test_a_lost_index_of_the_active_segment_shows_behind_a_clean_stop(live_partition: Path):
    """[DUR-7, DUR-8] To verify; a writer makes it anew when it is asked to."""
    with segstore.open(live_partition, **SETTINGS) as log:
        abort(log, 1, 2)
        write(log)
    (live_partition / INDEX).unlink()
    with segstore.open(live_partition, read_only=True) as reader:
        assert INDEX in " ".join(reader.verify().problems)
        assert committed(reader) == [3]
    with segstore.open(live_partition, **SETTINGS) as log:
        assert committed(log) == [3]
        assert log.rebuild_transaction_indexes() == [INDEX]
    with segstore.open(live_partition, read_only=True) as reader:
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


# ---- transaction index of another version --------------------------------------------------------
# A ``.txnindex`` that cannot be believed: a replicated handle refused to read, the other did.


def log_with_an_aborted_transaction(path):
    """Offsets 0 and 2 are committed, 1 is aborted, 3 is the marker."""
    with segstore.open(path, durability="none") as log:
        log.append([(None, b"before")])
        log.append_as_leader(
            batch(
                [(None, b"aborted")],
                producer_id=7,
                producer_epoch=0,
                base_sequence=0,
                transactional=True,
                timestamp=_core.wall_clock_ms(),
            )
        )
        log.append([(None, b"between")])
        marker = _core.encode_end_transaction_marker(
            0, _core.wall_clock_ms(), 0, 7, 0, commit=False, coordinator_epoch=0
        )
        log.append_as_leader(marker, origin=AppendOrigin.COORDINATOR, transaction_version=1)


@pytest.mark.parametrize("replicated", [False, True])
@pytest.mark.parametrize("position", [1, 18])
def test_a_safe_handle_reads_the_batches_instead(tmp_path, replicated, position):
    """[DUR-8, DUR-97, TXX-8] another version, or a marker that cannot be there."""
    path = tmp_path / "t-0"
    log_with_an_aborted_transaction(path)
    (index,) = path.glob("*.txnindex")
    content = bytearray(index.read_bytes())
    content[position] = 0x80 | (position == 1)
    index.write_bytes(content)
    with segstore.open(path, replicated=replicated) as log:
        if replicated:
            log.update_high_watermark(log.log_end_offset)
        assert offsets(log.scan(isolation="read_committed")) == [0, 2]
        found = log.read(0, 2**20, "read_committed")
        assert offsets(found) == [0, 2]


def test_kafkas_profile_refuses(tmp_path):
    """[TXX-3, DUR-62] as the broker does."""
    path = tmp_path / "t-0"
    log_with_an_aborted_transaction(path)
    with segstore.open(path, recovery="kafka", replicated=True) as log:
        log.update_high_watermark(log.log_end_offset)
        (index,) = path.glob("*.txnindex")
        content = bytearray(index.read_bytes())
        content[1] = 1
        index.write_bytes(content)
        with pytest.raises(UnsupportedFormatError):
            log.read(0, 2**20, "read_committed")


# ---- transaction index review --------------------------------------------------------------------
# Transaction indexes that hung the first change, or kept a log from opening.
#
# The first change of a log behind an unclean stop writes the recovery point under the append lock,
# and waited for that lock when a reader had used a damaged index. And an index that was lost and
# could not be made anew, for want of space or for a marker that no reader understands, stopped the
# open. Now it is made anew when that is asked for, and nothing waits for it.


def abort_one(log: UnifiedLog, producer_id: int = 1) -> None:
    """Append two records of a transaction and its marker."""
    aborting = Producer(log, producer_id)
    aborting.write(2)
    aborting.end(ABORT)


# ---- the first change behind an unclean stop -----------------------------------------------------

CHANGES = {
    "append": "log.append([(None, b'x')])",
    "flush": "log.flush()",
    "roll": "log.roll()",
    "close": "log.close()",
}
FIRST_CHANGE = """
import sys, segstore
log = segstore.open(sys.argv[1], segment_ms=None, durability="none")
assert log.durable_offset < log.log_end_offset  # a tail that the first change writes again
assert [record.offset for record in log.read(0, 10_000, "read_committed")] == []
exec(sys.argv[2])
print("changed")
log.close()
"""


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("index_is", ["damaged", "of an unknown log"])
def test_the_first_change_waits_for_nobody(tmp_path: Path, index_is: str, change: str):
    """[DUR-8, DUR-36] What a reader found out keeps nobody waiting."""
    path = tmp_path / "orders-0"
    log = segstore.open(path, **SETTINGS)
    abort_one(log)
    log.roll()
    write(log, 2)
    log.roll()
    write(log, 1)
    log.flush()
    write(log, 3)
    log.close_quietly()
    index = path / INDEX
    whole = index.read_bytes()
    if index_is == "damaged":
        index.write_bytes(whole[:-9] + bytes([whole[-9] ^ 1]) + whole[-8:])
    else:
        (path / ".segstore").unlink()

    command = [sys.executable, "-c", FIRST_CHANGE, str(path), CHANGES[change]]
    ended = subprocess.run(command, timeout=30, capture_output=True, text=True, check=False)
    assert (ended.stdout, ended.returncode) == ("changed\n", 0), ended.stderr
    with segstore.open(path, **SETTINGS) as log:
        assert committed(log)[:6] == [3, 4, 5, 6, 7, 8]
        log.rebuild_transaction_indexes()
    assert index.read_bytes() == whole


# ---- an index that cannot be made anew -----------------------------------------------------------


@pytest.mark.parametrize("error", [DiskFullError, ResourceError, WriteError])
def test_a_lost_index_and_a_full_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[SegstoreError]
):
    """[DUR-7, DUR-22, DUR-31] The log stays in use, is closed cleanly, and can be asked again."""
    path = tmp_path / "orders-0"
    with segstore.open(path, **SETTINGS) as log:
        abort_one(log)
        log.roll()
        write(log, 2)
    index = path / INDEX
    whole = index.read_bytes()
    index.unlink()

    def refuse(*_arguments: object) -> None:
        raise error("no space left")

    with segstore.open(path, **SETTINGS) as log:
        with monkeypatch.context() as patched:
            patched.setattr(transaction_index_check, "write_index", refuse)
            with pytest.raises(error):
                log.rebuild_transaction_indexes()
        assert not index.exists()
        write(log)
        assert committed(log) == [3, 4, 5]
    with segstore.open(path, **SETTINGS) as log:
        assert log.report.clean
        assert log.rebuild_transaction_indexes() == [INDEX]
    assert index.read_bytes() == whole


def test_a_sync_of_a_new_index_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """[DUR-35] It ends writing, as any other; the records are those of the clean stop."""
    path = tmp_path / "orders-0"
    with segstore.open(path, **SETTINGS) as log:
        abort_one(log)
        log.roll()
    (path / INDEX).unlink()

    def fail(*_arguments: object) -> None:
        raise FsyncFailedError("cannot sync")

    log = segstore.open(path, **SETTINGS)
    with monkeypatch.context() as patched:
        patched.setattr(transaction_index_check, "write_index", fail)
        with pytest.raises(FsyncFailedError):
            log.rebuild_transaction_indexes()
    with pytest.raises(segstore.LogReadOnlyError):
        write(log)
    log.close_quietly()
    with segstore.open(path, **SETTINGS) as log:
        assert log.report.clean
        assert log.rebuild_transaction_indexes() == [INDEX]


def test_a_lost_index_and_a_marker_that_nobody_can_read(tmp_path: Path):
    """[DUR-7, DUR-51, DUR-52] Its checksum is right, the version of its key is not."""
    path = tmp_path / "orders-0"
    with segstore.open(path, **SETTINGS) as log:
        abort_one(log, 1)
        abort_one(log, 2)
        log.roll()
        write(log, 2)
    spoil_last_marker(path / f"{0:020d}.log")
    (path / INDEX).unlink()

    with segstore.open(path, **SETTINGS) as log:
        with pytest.raises(CorruptLogError):
            committed(log)
        assert log.rebuild_transaction_indexes() == []
        write(log)
    assert not (path / INDEX).exists()
    with segstore.open(path, **SETTINGS) as log:
        assert log.log_end_offset == 9


def spoil_last_marker(file: Path) -> None:
    """Give the key of the last control record the version -1."""
    data, markers, position = bytearray(file.read_bytes()), [], 0
    while position < len(data):
        (length,) = struct.unpack_from(">i", data, position + 8)
        (attributes,) = struct.unpack_from(">h", data, position + 21)
        if attributes & 0x20:
            markers.append((position, position + 12 + length))
        position += 12 + length
    start, end = markers[-1]
    data[start + 66 : start + 68] = b"\xff\xff"
    struct.pack_into(">I", data, start + 17, crc32c(bytes(data[start + 21 : end])))
    file.write_bytes(data)
