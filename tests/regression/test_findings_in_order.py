"""``verify`` hid that records were missing behind findings about the index of their segment.

And it said of records above the recovery point that "nothing that was safe is lost", though their
appends may have been acknowledged: the recovery point on disk comes later than that.
"""

from __future__ import annotations

import pytest

from segstore.log.check.partition_check import check_partition
from segstore.log.findings.finding import FindingCode, Records
from tests.kits.damaged_logs import RECORDS_COUNT, append_bytes, batches_of, build, flip_bit


@pytest.fixture(scope="module")
def closed(tmp_path_factory):
    return build(tmp_path_factory.mktemp("closed") / "orders-0", clean=True)


@pytest.fixture
def log_directory(closed, tmp_path):
    return closed.copy(tmp_path / "orders-0")


def test_an_emptied_segment(log_directory):
    """[DUR-51, DUR-54] Its indexes are not wrong: they name the records that are missing."""
    log_directory.file(0).write_bytes(b"")
    following = log_directory.bases[1]

    first, *others = check_partition(str(log_directory.path)).findings

    assert first.file == log_directory.file(following).name
    assert (first.code, first.records) == (FindingCode.RECORDS_MISSING, Records.MISSING)
    assert first.lost == ((0, following - 1),)
    assert others == []


def test_lost_records_come_first(log_directory):
    """Then what an open cuts, then the small files, at last what is made anew from the rest."""
    append_bytes(log_directory.last, b"torn")
    log_directory.file(0, "index").write_bytes(b"\1" * 16)
    (log_directory.path / "partition.metadata").write_bytes(b"what")
    middle = log_directory.file(log_directory.bases[1])
    flip_bit(middle, batches_of(middle)[1].position + 70)

    findings = check_partition(str(log_directory.path)).findings

    assert [finding.file for finding in findings] == [
        middle.name,
        log_directory.last.name,
        "partition.metadata",
        log_directory.file(0, "index").name,
    ]


@pytest.mark.parametrize("tail", [b"torn", bytes(100)])
def test_what_is_known_of_a_tail(log_directory, tail):
    """[DUR-4, DUR-50] It lies above the recovery point, and that is all."""
    append_bytes(log_directory.last, tail)
    log_directory.set_recovery_point(17)
    (log_directory.path / ".kafka_cleanshutdown").unlink()

    (finding,) = check_partition(str(log_directory.path)).findings

    assert finding.code == (
        FindingCode.ZEROS_AT_END if tail[0] == 0 else FindingCode.BATCH_INCOMPLETE
    )
    assert (finding.records, finding.repaired) == (Records.MAYBE_MISSING, True)
    assert finding.lost == ((RECORDS_COUNT, None),)


def test_what_is_known_without_a_recovery_point(log_directory):
    """[DUR-63] Nothing is: good batches behind it may have been synced."""
    flip_bit(log_directory.last, batches_of(log_directory.last)[0].position + 70)
    log_directory.set_recovery_point(None)
    (log_directory.path / ".kafka_cleanshutdown").unlink()

    (finding,) = check_partition(str(log_directory.path)).findings

    first = log_directory.bases[-1]
    assert (finding.records, finding.repaired) == (Records.UNREADABLE, True)
    assert finding.lost == ((first, first),)
    assert finding.salvageable == ((first + 1, RECORDS_COUNT - 1),)
