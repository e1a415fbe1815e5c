"""Logs at URLs that are not as they were written: the rows, bounds and errors of a local read."""

from __future__ import annotations

import shutil

import pytest

import segstore
from segstore.errors import CorruptLogError, CorruptRecordError, SegstoreError
from segstore.types import Isolation, TopicPartition
from tests.kits.remote_directories import differences, remote_logs, remote_rows, upload

ORDERS = TopicPartition("orders", 0)
ANY = Isolation.READ_UNCOMMITTED
CHECKPOINTS = ("recovery-point-offset-checkpoint", ".kafka_cleanshutdown")


def segment(base_offset: int, kind: str = "log") -> str:
    return f"{base_offset:020d}.{kind}"


def copy_without(directory, target, *names):
    """Copy a log directory, some files of ``orders-0`` left out."""
    shutil.copytree(directory, target)
    for name in names:
        (target / "orders-0" / name).unlink()
    return target


@pytest.mark.parametrize(
    "lost",
    [
        CHECKPOINTS,
        (".kafka_cleanshutdown",),
        ("leader-epoch-checkpoint",),
        (".segstore",),
        (".segstore", *CHECKPOINTS),
        (segment(0), segment(0, "index"), segment(0, "timeindex")),
        (segment(900),),
        (segment(1900),),
        (segment(900, "index"), segment(900, "timeindex")),
        tuple(segment(base, "snapshot") for base in range(100, 2000, 100)),
    ],
    ids=lambda lost: lost[0],
)
def test_lost_files_are_found_as_on_a_local_disk(directory, tmp_path, lost):
    """What a part cannot tell is told by the whole log: the same rows, or the same error."""
    other = copy_without(directory, tmp_path / "other", *lost)
    logs = remote_logs(upload(other), tmp_path / "spool")

    assert differences(other, logs, ORDERS, cuts=4) == []


def test_a_lost_segment_is_an_error_where_only_its_neighbour_is_read(directory, tmp_path):
    """[DUR-79] The part in front of it knows where the next one begins."""
    other = copy_without(directory, tmp_path / "other", segment(900))
    logs = remote_logs(upload(other), tmp_path / "spool")

    assert remote_rows(logs, ORDERS, 850, 900, ANY)[1] is None
    assert remote_rows(logs, ORDERS, 850, 1000, ANY)[1] is CorruptLogError


@pytest.mark.parametrize("position", [8, 30, 2000])
@pytest.mark.parametrize("base_offset", [0, 900, 1900])
def test_damage_is_told_as_on_a_local_disk(directory, tmp_path, base_offset, position):
    """A changed length, CRC or record, in the first, a middle and the last segment."""
    file = directory / "orders-0" / segment(base_offset)
    damaged = bytearray(file.read_bytes())
    damaged[position] ^= 0x55
    file.write_bytes(damaged)
    logs = remote_logs(upload(directory), tmp_path / "spool")

    assert differences(directory, logs, ORDERS, cuts=4) == []
    if base_offset == 900:
        error = remote_rows(logs, ORDERS, 900, 1000, ANY)[1]
        assert error in {CorruptRecordError, CorruptLogError}


def test_a_segment_that_was_cut_short_is_an_error(directory, tmp_path):
    """Its end is missing, below the recovery point: no torn tail."""
    file = directory / "orders-0" / segment(900)
    file.write_bytes(file.read_bytes()[:-100])
    logs = remote_logs(upload(directory), tmp_path / "spool")

    assert differences(directory, logs, ORDERS, cuts=4) == []
    assert remote_rows(logs, ORDERS, 900, 1000, ANY)[1] is CorruptLogError


def test_deleted_records_stay_deleted(directory, tmp_path):
    with segstore.open(directory / "orders-0") as log:
        log.delete_records(550)
    logs = remote_logs(upload(directory), tmp_path / "spool")

    assert logs.bounds(ORDERS, ANY)[:2] == (550, 2000)
    assert differences(directory, logs, ORDERS, cuts=4) == []


def test_a_brokers_checkpoint_above_counts(directory, tmp_path):
    """The recovery point of the log directory spares the segments below it."""
    log = directory / "orders-0"
    for name in (".segstore", *CHECKPOINTS):
        (log / name).unlink()
    (directory / CHECKPOINTS[0]).write_text("0\n1\norders 0 1500\n")
    logs = remote_logs(upload(directory), tmp_path / "spool")

    assert logs.bounds(ORDERS, ANY)[:2] == (0, 2000)
    assert logs.bounds(ORDERS, Isolation.DURABLE)[:2] == (0, 1500)
    assert differences(directory, logs, ORDERS, cuts=4) == []


@pytest.mark.parametrize("isolation", list(Isolation))
def test_a_log_that_lost_all_its_log_files_is_not_passed_over(directory, tmp_path, isolation):
    """Its indexes are there: a query over all partitions must not go without its records."""
    for file in (directory / "orders-0").glob("*.log"):
        file.unlink()
    with pytest.raises(SegstoreError) as local:
        segstore.open(directory / "orders-0", read_only=True)
    logs = remote_logs(upload(directory), tmp_path / "spool")

    assert ORDERS in logs.partitions()
    with pytest.raises(type(local.value), match=r"memory://.*orders-0: there are indexes"):
        logs.bounds(ORDERS, isolation)
    with pytest.raises(type(local.value), match="orders-0"):
        list(logs.parts(ORDERS, 0, 10, isolation, pytest.fail))
