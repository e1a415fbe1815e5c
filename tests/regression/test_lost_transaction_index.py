"""Records of aborted transactions counted as committed when their index was lost or changed.

Below the newest producer snapshot readers of committed data believed the ``.txnindex`` files as
they were: a missing one had no entries, a short one fewer, and any bit could be another one. After
a clean stop nobody looked; after an unclean one nobody looked below the recovery point. Later the
sizes and checksums of the files were noted in ``.segstore`` and in the clean marker; now the
batches are compared, and nothing is noted. Looked for besides: the index of the active segment, a
handle that is killed, notes that older versions left, segments that were cut and written anew.
"""

from __future__ import annotations

import json
import shutil
import struct
from typing import TYPE_CHECKING

import pytest

import segstore
from segstore import cli
from segstore._core import crc32c
from segstore.log.check.partition_check import check_partition
from segstore.log.files.checkpoints import LogState
from segstore.log.files.clean_shutdown_marker import CleanShutdownMarker
from tests.kits.transactions_kit import ABORT, COMMIT, Producer, write

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from segstore import UnifiedLog

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
def _written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("logs") / "orders-0"
    write_log(path)
    return path


@pytest.fixture
def partition(_written: Path, tmp_path: Path) -> Path:
    return shutil.copytree(_written, tmp_path / "orders-0")


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


COMMITTED = [3, 5, 11, 13, 16, 17, 18, 19]


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


def test_what_is_committed_in_a_whole_log(partition: Path):
    with segstore.open(partition, **SETTINGS) as log:
        assert committed(log) == fetched(log) == COMMITTED
    assert [len(index.read_bytes()) for index in indexes(partition)] == [2 * ENTRY.size] * 2


@pytest.mark.parametrize("replicated", [False, True])
@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("stop", ["clean", "unclean"])
def test_a_damaged_index_is_not_believed(
    partition: Path, damage: str, number: int, stop: str, *, replicated: bool
):
    """[DUR-7, DUR-8, DUR-52] Readers ask the batches, verify names it, a rebuild mends it."""
    whole = {index.name: index.read_bytes() for index in indexes(partition)}
    index = indexes(partition)[number]
    DAMAGE[damage](index)
    if stop == "unclean":
        (partition / MARKER).unlink()

    with segstore.open(partition, read_only=True) as log:
        assert committed(log) == fetched(log) == COMMITTED
    with segstore.open(partition, **SETTINGS, replicated=replicated) as log:
        assert log.report.clean == (stop == "clean")
        if replicated:
            log.update_high_watermark(log.log_end_offset)
        assert committed(log) == fetched(log) == COMMITTED
        log.append([(None, b"not read by anybody")])
        told = log.verify().problems
        assert [index.name in problem for problem in told] == [True] * (damage not in HARMLESS)
        assert log.rebuild_transaction_indexes() == [index.name] * (damage not in HARMLESS)
    if damage not in HARMLESS:
        assert {index.name: index.read_bytes() for index in indexes(partition)} == whole
    with segstore.open(partition, **SETTINGS) as log:
        assert log.report.rebuilt == []
        assert log.verify().ok


@pytest.mark.parametrize("damage", sorted(set(DAMAGE) - HARMLESS))
def test_damage_is_named_and_repaired(
    partition: Path, damage: str, capsys: pytest.CaptureFixture[str]
):
    """[DUR-58] ``verify`` finds it, ``recover`` keeps its word."""
    whole = {index.name: index.read_bytes() for index in indexes(partition)}
    index = indexes(partition)[0]
    DAMAGE[damage](index)

    with segstore.open(partition, read_only=True) as log:
        assert any(index.name in problem for problem in log.verify().problems)
    found = check_partition(str(partition)).findings
    assert [(each.file, each.repaired) for each in found] == [(index.name, True)]
    assert cli.main(["verify", str(partition)]) == 1
    assert index.name in capsys.readouterr().out
    assert cli.main(["recover", "--dry-run", "-q", str(partition)]) == 0
    assert index.name in capsys.readouterr().out
    assert cli.main(["recover", "-q", str(partition)]) == 0
    assert {index.name: index.read_bytes() for index in indexes(partition)} == whole
    assert cli.main(["verify", str(partition)]) == 0


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


def test_a_truncated_index_is_right(partition: Path):
    """[TRU-1, DUR-16] Also one whose last entry went."""
    with segstore.open(partition, **SETTINGS) as log:
        log.truncate_to(15)
        assert committed(log) == [3, 5]  # the outer one is open again
    with segstore.open(partition, **SETTINGS) as log:
        assert (log.verify().problems, committed(log)) == ([], [3, 5])
        log.truncate_to(9)
        assert log.verify().ok
        assert log.rebuild_transaction_indexes() == []


@pytest.mark.parametrize("damage", [lose, CONTENTS["producer"]], ids=["lost", "changed"])
def test_an_index_is_made_anew_on_demand(partition: Path, damage: Callable[[Path], None]):
    """[DUR-8, DUR-52] Of sealed segments and of the active one, which goes on being written."""
    with segstore.open(partition, **SETTINGS) as log:
        last = Producer(log, 21)
        last.write()
        last.end(ABORT)
        whole = {index.name: index.read_bytes() for index in indexes(partition)}
        assert len(whole) == 3
        for index in indexes(partition):
            damage(index)
        assert log.rebuild_transaction_indexes() == sorted(whole)
        assert {index.name: index.read_bytes() for index in indexes(partition)} == whole
        assert log.rebuild_transaction_indexes() == []
        last.write()
        last.end(ABORT)
        assert log.verify().ok
        assert len(log.collect_aborted_transactions(0, log.log_end_offset)) == 6


@pytest.mark.parametrize("damage", sorted(set(DAMAGE) - HARMLESS))
def test_the_list_of_a_fetch_is_no_damaged_one(partition: Path, damage: str):
    """[DUR-7, LOC-10] Who asks for the entries of the files is told that they are wrong."""
    DAMAGE[damage](indexes(partition)[0])

    for options in ({"read_only": True}, SETTINGS):
        with segstore.open(partition, **options) as log:
            with pytest.raises((segstore.CorruptIndexError, segstore.UnsupportedFormatError)):
                log.collect_aborted_transactions(0, log.log_end_offset)
            assert len(log.collect_aborted_transactions(8, log.log_end_offset)) == 2


def test_what_older_versions_noted_is_read_and_not_asked(partition: Path):
    """[DUR-64] In ``.segstore`` and in the clean marker; one of them is untrue here."""
    state = partition / ".segstore"
    known = LogState.parse(state.read_bytes())
    text = state.read_bytes().rpartition(b"crc ")[0]
    text += b"transaction_index 0 34\ntransaction_index 8 68 7\ntransaction_index 16 -1\n"
    state.write_bytes(text + b"crc %d\n" % crc32c(text))
    marker = partition / MARKER
    fields = json.loads(marker.read_bytes())
    del fields["crc"]
    fields["transactionIndex"] = [102, 7]
    crc = crc32c(json.dumps(fields).encode())
    marker.write_bytes(json.dumps({**fields, "crc": crc}).encode())
    assert CleanShutdownMarker.parse(marker.read_bytes()) is not None

    assert known is not None
    assert LogState.parse(state.read_bytes()) == known
    with segstore.open(partition, read_only=True) as log:
        assert (log.verify().problems, committed(log)) == ([], COMMITTED)
    with segstore.open(partition, **SETTINGS) as log:
        assert log.report.clean
        assert (log.report.rebuilt, committed(log)) == ([], COMMITTED)


def test_an_index_is_lost_with_the_batches_that_would_tell(
    partition: Path, capsys: pytest.CaptureFixture[str]
):
    """[DUR-51, DUR-58] Committed data ends there; the index stays lost, and that is said."""
    index = indexes(partition)[0]
    index.unlink()
    with (partition / f"{0:020d}.log").open("r+b") as file:
        file.seek(90)
        file.write(b"\xff")

    with segstore.open(partition, **SETTINGS) as log:
        with pytest.raises(segstore.CorruptLogError):
            committed(log)
        assert log.rebuild_transaction_indexes() == []
    assert not index.exists()
    assert cli.main(["recover", "-q", str(partition)]) == 1
    assert f"{0:020d}.log" in capsys.readouterr().out


def test_kafkas_profile_believes_what_is_there(partition: Path):
    """[DUR-62, DUR-117, LDR-15] A lost index is an empty one to Kafka."""
    indexes(partition)[0].unlink()
    (partition.parent / MARKER).write_bytes(b'{"version":0,"brokerEpoch":-1}')

    with segstore.open(partition, **SETTINGS, recovery="kafka") as log:
        log.update_high_watermark(log.log_end_offset)
        assert set(committed(log)) > set(COMMITTED)


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


def test_a_segment_that_begins_where_one_was_cut_has_its_own_index(partition: Path):
    """[DUR-16] The old one had aborted transactions, the new one has none."""
    with segstore.open(partition, **SETTINGS) as log:
        log.truncate_to(8)
        log.truncate_to(7)
        write(log)
        log.roll()
        write(log)
        log.roll()
        log._background.wait_until_idle()
        assert log.recovery_point == 9
        log.close_quietly()

    with segstore.open(partition, **SETTINGS) as log:
        assert log.verify().ok
        assert log.rebuild_transaction_indexes() == []
