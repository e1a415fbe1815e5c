"""A log start above the end of a broker's clean log whose recovery point lies above it, too.

The open was refused, "no record was changed", and had written a log start of 0 already: what had
been deleted came back with the file that was missing.
"""

from __future__ import annotations

import json

import pytest

import segstore
from segstore.errors import CorruptLogError
from tests.kits.log_kit import at, offsets

LOG_START = "log-start-offset-checkpoint"


def broker_directory(folder, recovery_point):
    """Return a partition whose file ends at 10, in a log directory that a broker closed."""
    partition = folder / "orders-0"
    partition.mkdir()
    (partition / f"{0:020d}.log").write_bytes(at(0, 10))
    (partition / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
    (folder / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":3}')
    (folder / "meta.properties").write_text("")
    (folder / LOG_START).write_text("0\n1\norders 0 12\n")
    (folder / "recovery-point-offset-checkpoint").write_text(f"0\n1\norders 0 {recovery_point}\n")
    return partition


def test_what_was_deleted_stays_deleted_when_the_file_comes_back(tmp_path):
    """[DUR-5, DUR-51, DUR-57] A refused open leaves both checkpoints as they were."""
    partition = broker_directory(tmp_path, 20)
    before = (tmp_path / LOG_START).read_bytes()
    for _ in range(2):
        with pytest.raises(CorruptLogError, match="No record was changed"):
            segstore.open(partition)
        assert (tmp_path / LOG_START).read_bytes() == before
        assert not (partition / LOG_START).exists()

    (partition / f"{10:020d}.log").write_bytes(b"".join(at(offset) for offset in range(10, 20)))
    with segstore.open(partition) as log:
        assert log.log_start_offset == 12
        assert offsets(log) == list(range(12, 20))


def test_a_broker_that_truncated_into_a_batch(tmp_path):
    """[LDR-25, DUR-21] Log start and recovery point are the same, and the file ends below them."""
    partition = broker_directory(tmp_path, 12)
    with segstore.open(partition) as log:
        assert (log.log_start_offset, log.log_end_offset) == (12, 12)
        assert offsets(log) == []
        assert log.append([(None, b"x")]).base_offset == 12


def test_segments_below_it_stay_when_the_open_is_refused(tmp_path):
    """[DUR-51, DUR-57] A partition of a backup below checkpoints that went on."""
    partition = broker_directory(tmp_path, 2000)
    (tmp_path / LOG_START).write_text("0\n1\norders 0 1000\n")
    for base in (10, 20):
        (partition / f"{base:020d}.log").write_bytes(at(base, 10))
    for _ in range(2):
        with pytest.raises(CorruptLogError, match="No record was changed"):
            segstore.open(partition)
        assert len(list(partition.glob("*.log"))) == 3


def test_the_own_log_start_stays_where_the_one_above_is_not_believed(tmp_path):
    """[DUR-5, DUR-21] What was deleted does not come back with the warning."""
    partition = tmp_path / "orders-0"
    with segstore.open(partition) as log:
        log.append([(None, b"x")] * 6)
        log.delete_records(3)
    (tmp_path / LOG_START).write_text("0\n1\norders 0 1000\n")
    for _ in range(2):
        with segstore.open(partition) as log:
            assert (log.log_start_offset, offsets(log)) == (3, [3, 4, 5])


def test_a_marker_of_an_older_version_confirms_its_log_start(tmp_path):
    """[DUR-5, TRU-4] It has no checksum: a log start above the end is believed all the same."""
    partition = tmp_path / "orders-0"
    with segstore.open(partition) as log:
        log.append_as_follower(at(0, 10) + at(10, 10), 0)
        log.delete_records(15)
        log.truncate_to(17)
    marker = partition / ".kafka_cleanshutdown"
    fields = json.loads(marker.read_bytes())
    del fields["crc"]
    marker.write_text(json.dumps(fields))
    with segstore.open(partition) as log:
        assert (log.log_start_offset, offsets(log)) == (15, [])
