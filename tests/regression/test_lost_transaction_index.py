"""Records of aborted transactions counted as committed when their index was lost or changed.

Below the newest producer snapshot readers of committed data believed the ``.txnindex`` files as
they were: a missing one had no entries, a short one fewer, and any bit could be another one. After
a clean stop nobody looked; after an unclean one nobody looked below the recovery point.
"""

from __future__ import annotations

import shutil
import struct
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

import segstore
from segstore import cli
from segstore.cli.partition_check import check_partition
from segstore.log.directory.checkpoints import DAMAGED_TRANSACTION_INDEX, LogState
from tests.conformance.transactions_kit import ABORT, COMMIT, Producer, write

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
    """[DUR-7, DUR-8, DUR-52] It is made anew at this open, or at the next after its first use."""
    whole = {index.name: index.read_bytes() for index in indexes(partition)}
    index = indexes(partition)[number]
    DAMAGE[damage](index)
    if stop == "unclean":
        (partition / MARKER).unlink()

    with segstore.open(partition, read_only=True) as log:
        assert committed(log) == fetched(log) == COMMITTED
    with segstore.open(partition, **SETTINGS, replicated=replicated) as log:
        assert log.report.clean == (stop == "clean")
        assert (index.name in log.report.rebuilt) == (damage in SIZES)
        if replicated:
            log.update_high_watermark(log.log_end_offset)
        assert committed(log) == fetched(log) == COMMITTED
    with segstore.open(partition, **SETTINGS) as log:
        assert (index.name in log.report.rebuilt) == (damage in CONTENTS)
    assert {index.name: index.read_bytes() for index in indexes(partition)} == whole
    with segstore.open(partition, **SETTINGS) as log:
        assert log.report.rebuilt == []


@pytest.mark.parametrize("damage", DAMAGE)
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


def forget_checksums(partition: Path, *, sizes_too: bool = False) -> None:
    """As if a broker had written the indexes: nobody knows what was in them."""
    state = LogState.parse((partition / ".segstore").read_bytes())
    assert state is not None
    notes = {} if sizes_too else state.transaction_indexes
    noted = {base: note._replace(crc=None) for base, note in notes.items()}
    (partition / ".segstore").write_bytes(replace(state, transaction_indexes=noted).format())


NOT_SEEN = {"last stable offset", "version"}
"""No marker tells the one, and the other keeps Kafka from reading at all."""


@pytest.mark.parametrize("sizes_too", [False, True])
@pytest.mark.parametrize("damage", sorted(set(CONTENTS) - NOT_SEEN))
def test_entries_that_nobody_noted_are_compared_with_their_markers(
    partition: Path, damage: str, *, sizes_too: bool
):
    """[DUR-7, DUR-53, TXX-1] At the first use; one that is right is noted from then on."""
    whole = {index.name: index.read_bytes() for index in indexes(partition)}
    index = indexes(partition)[0]
    CONTENTS[damage](index)
    forget_checksums(partition, sizes_too=sizes_too)

    with segstore.open(partition, read_only=True) as log:
        assert committed(log) == fetched(log) == COMMITTED
    with segstore.open(partition, **SETTINGS) as log:
        assert committed(log) == COMMITTED
    with segstore.open(partition, **SETTINGS) as log:
        assert log.report.rebuilt == [index.name]
        assert committed(log) == COMMITTED
    assert {index.name: index.read_bytes() for index in indexes(partition)} == whole
    state = LogState.parse((partition / ".segstore").read_bytes())
    assert state is not None
    assert all(note.crc is not None for note in state.transaction_indexes.values())


def test_the_notes_are_written_behind_a_roll(tmp_path: Path):
    """[DUR-8, DUR-29] Before the recovery point passes the segment: else a crash forgets them."""
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
    lose(path / f"{0:020d}.txnindex")

    with segstore.open(path, **SETTINGS) as log:
        assert log.report.rebuilt[-1] == f"{0:020d}.txnindex"
        assert committed(log) == [2]


def test_a_truncated_index_is_noted_as_it_is(partition: Path):
    """[TRU-1, DUR-16] And one whose last entry went is noted no longer."""
    with segstore.open(partition, **SETTINGS) as log:
        log.truncate_to(15)
        assert committed(log) == [3, 5]  # the outer one is open again
    with segstore.open(partition, **SETTINGS) as log:
        assert (log.report.rebuilt, committed(log)) == ([], [3, 5])
        log.truncate_to(9)
    with segstore.open(partition, **SETTINGS) as log:
        assert log.report.rebuilt == []
    state = LogState.parse((partition / ".segstore").read_bytes())
    assert state is not None
    assert set(state.transaction_indexes) == {0}


def test_an_index_is_lost_with_the_batches_that_would_tell(partition: Path):
    """[DUR-51] The log is opened as it would be with its index; committed data ends there."""
    index = indexes(partition)[0]
    index.unlink()
    with (partition / f"{0:020d}.log").open("r+b") as file:
        file.seek(90)
        file.write(b"\xff")

    with segstore.open(partition, **SETTINGS) as log:
        assert any(index.name in warning for warning in log.report.warnings)
        with pytest.raises(segstore.CorruptLogError):
            committed(log)
    state = LogState.parse((partition / ".segstore").read_bytes())
    assert state is not None
    assert state.transaction_indexes[0] == DAMAGED_TRANSACTION_INDEX


def test_kafkas_profile_believes_what_is_there(partition: Path):
    """[DUR-62, DUR-117, LDR-15] A lost index is an empty one to Kafka."""
    indexes(partition)[0].unlink()
    (partition.parent / MARKER).write_bytes(b'{"version":0,"brokerEpoch":-1}')

    with segstore.open(partition, **SETTINGS, recovery="kafka") as log:
        log.update_high_watermark(log.log_end_offset)
        assert set(committed(log)) > set(COMMITTED)


def test_an_index_of_a_log_directory(tmp_path: Path):
    """[DUR-8, DUR-65] The mark of the log directory leaves the notes of its partitions true."""
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
        assert log.report.rebuilt == [f"{0:020d}.txnindex"]
        assert committed(log) == [2]


def test_a_segment_that_begins_where_one_was_cut_has_no_note(partition: Path):
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
        assert not [name for name in log.report.rebuilt if name.endswith(".txnindex")]
