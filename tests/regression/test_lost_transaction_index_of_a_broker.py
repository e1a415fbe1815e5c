"""Aborted records of a broker's log were shown as committed when a ``.txnindex`` was not whole.

Nobody had noted what was in it: below the newest producer snapshot a missing index had no entries,
and one that was torn had fewer. Looked for besides: an empty one, zeros, an entry too many (it hid
committed records), a transaction that spans segments, the index of the active segment, readers that
begin in the middle, fetches, slices, counts, a replicated handle, and Kafka's profile, which
believes the file as a broker does.
"""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import pytest

import segstore
from segstore import cli
from segstore.log.local.transaction_index import AbortedTransaction
from tests.kits.transactions_kit import ABORT, COMMIT, Producer, write

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from segstore import UnifiedLog

SETTINGS = {"segment_ms": None, "durability": "none"}
OWN = (".segstore", ".kafka_cleanshutdown")


@pytest.fixture(scope="module")
def _written(tmp_path_factory: pytest.TempPathFactory) -> Path:
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


COMMITTED = [3, 5, 8, 10, 13]


@pytest.fixture
def partition(_written: Path, tmp_path: Path) -> Path:
    """As a broker leaves it: with its marker in the log directory, and nothing of ours."""
    path = shutil.copytree(_written, tmp_path / "orders-0")
    for name in OWN:
        (path / name).unlink()
    point = path / "recovery-point-offset-checkpoint"
    point.rename(path.parent / point.name)
    (path.parent / OWN[1]).write_bytes(b'{"version":0,"brokerEpoch":-1}')
    return path


def lose(index: Path) -> None:
    index.unlink()


def empty(index: Path) -> None:
    index.write_bytes(b"")


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
    partition: Path, damage: Callable[[Path], None], handle: str
):
    """[DUR-7, DUR-8, TXX-1] By every way to read, from every offset."""
    for index in sorted(partition.glob("*.txnindex")):
        damage(index)
    options = {"read_only": True} if handle == "reader" else SETTINGS

    with segstore.open(partition, **options, replicated=handle == "replicated") as log:
        assert log.report.clean
        if handle == "replicated":
            log.update_high_watermark(log.log_end_offset)
        for start in range(14):
            expected = [offset for offset in COMMITTED if offset >= start]
            assert offsets_of(log, start) == [expected] * 3
        part = log.scan(1, 7, isolation="read_committed")
        assert [record.offset for record in part] == [3, 5]


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_verify_says_what_is_true_and_recover_repairs(
    partition: Path, damage: Callable[[Path], None], capsys: pytest.CaptureFixture[str]
):
    """[DUR-58] Reads of committed data do ask the batches."""
    whole = {index.name: index.read_bytes() for index in partition.glob("*.txnindex")}
    index = partition / f"{5:020d}.txnindex"
    damage(index)

    assert cli.main(["verify", "-q", str(partition)]) == 1
    told = capsys.readouterr().out
    assert index.name in told
    assert "reads of committed data ask the batches instead" in told
    cli.main(["cat", str(partition), "--isolation", "read_committed", "--format", "jsonl"])
    assert len(capsys.readouterr().out.splitlines()) == len(COMMITTED)
    assert cli.main(["recover", "-q", str(partition)]) == 0
    assert {each.name: each.read_bytes() for each in partition.glob("*.txnindex")} == whole
    assert cli.main(["verify", "-q", str(partition)]) == 0


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
    partition: Path, replace: Callable[[Path], None]
):
    """[DUR-7, DUR-8] Fetches failed. `recover` leaves it to the user, who moves it away."""
    whole = {index.name: index.read_bytes() for index in partition.glob("*.txnindex")}
    index = partition / f"{5:020d}.txnindex"
    replace(index)
    there = index.lstat()

    with segstore.open(partition, read_only=True) as log:
        assert offsets_of(log, 0) == [COMMITTED] * 3
    assert cli.main(["verify", "-q", str(partition)]) == 1
    assert cli.main(["recover", "-q", str(partition)]) == 1
    assert os.path.samestat(index.lstat(), there)
    index.rename(partition.parent / "moved")
    assert cli.main(["recover", "-q", str(partition)]) == 0
    assert {each.name: each.read_bytes() for each in partition.glob("*.txnindex")} == whole


def test_kafkas_profile_loads_a_version_that_it_does_not_read(partition: Path):
    """[TXX-3, T-25, DUR-62] At a clean start 4.3.1 looks at the first byte; above 0 it fails."""
    index = partition / f"{0:020d}.txnindex"
    whole = index.read_bytes()
    options = {**SETTINGS, "recovery": "kafka", "replicated": True}
    marker = partition.parent / OWN[1]
    for version in (b"\0\1", b"\xff\0"):
        index.write_bytes(version + whole[2:])
        with segstore.open(partition, **options) as log:
            log.update_high_watermark(log.log_end_offset)
            with pytest.raises(segstore.UnsupportedFormatError):
                log.read(0, 2**20, "read_committed")
        marker.write_bytes(b'{"version":0,"brokerEpoch":-1}')
    index.write_bytes(b"\1\0" + whole[2:])
    with pytest.raises(segstore.UnsupportedFormatError):
        segstore.open(partition, **options)
