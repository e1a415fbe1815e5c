"""A bucket and the directory of a broker that appends, copies and deletes while both are read."""

from __future__ import annotations

import shutil
import threading
import time
import uuid
from itertools import pairwise

import pytest

import segstore
from segstore.log.files.partition_metadata_file import format_partition_metadata, topic_id_text
from tests.kits.remote_kit import RemoteRecords

READS = 12
LONGEST_SECONDS = 60


class Broker:
    """Writes ``orders-0``, and copies its segments as ``LocalTieredStorage`` does.

    Attributes
    ----------
    end : int
        Offset up to which it had appended at the end of its last round.
    error : Exception or None
        What ended it.
    """

    def __init__(self, folder):
        topic_id = uuid.uuid4()
        self.logs, self.storage = folder / "logs", folder / "kafka-tiered-storage"
        self._copies = self.storage / f"orders-0-{topic_id_text(topic_id)}"
        self._log = self.logs / "orders-0"
        self.end, self.error, self._stopped = 0, None, threading.Event()
        for one in (self._copies, self._log):
            one.mkdir(parents=True)
        (self._log / "partition.metadata").write_bytes(format_partition_metadata(topic_id))
        self._thread = threading.Thread(target=self._run)

    def __enter__(self):
        self._thread.start()
        while not self.end and self.error is None:
            time.sleep(0.01)
        return self

    def __exit__(self, *_):
        self._stopped.set()
        self._thread.join()

    def _run(self):
        try:
            with segstore.open(
                self._log,
                durability="none",
                remote_storage_enable=True,
                remote_log_reader=RemoteRecords(),
                local_retention_bytes=0,
            ) as log:
                log.assign_epoch_start_offset(0, 0)
                while not self._stopped.is_set():
                    for _ in range(3):
                        log.append([(None, b"%d" % log.log_end_offset)] * 4)
                    log.roll()
                    self._copy(log)
                    log.delete_old_segments()
                    self.end = log.log_end_offset
        except Exception as error:  # noqa: BLE001 - for the test
            self.error = error

    def _copy(self, log):
        """Copy the segments of which there is no copy yet; file by file, with the log first."""
        segments = log.segments()
        for segment, following in pairwise(segments):
            base, end = segment.base_offset, following.base_offset
            if base <= log.highest_offset_in_remote_storage:
                continue
            stem = self._copies / f"{base:020}-{topic_id_text(uuid.uuid4())}"
            for suffix in ("log", "index", "timeindex"):
                shutil.copy(self._log / f"{base:020}.{suffix}", f"{stem}.{suffix}")
                time.sleep(0.001)
            shutil.copy(self._log / f"{end:020}.snapshot", f"{stem}.snapshot")
            epochs = self._log / "leader-epoch-checkpoint"
            shutil.copy(epochs, f"{stem}.leader_epoch_checkpoint")
            log.update_highest_offset_in_remote_storage(end - 1)


@pytest.mark.filterwarnings("error")
def test_each_read_has_every_record_once(tmp_path):
    """[TIER-2] [TIER-60] [SEL-10] [SEL-14] From offset 0 to what was appended when it began."""
    give_up = time.monotonic() + LONGEST_SECONDS
    ends = []
    with Broker(tmp_path) as broker:
        while len(ends) < READS and broker.error is None and time.monotonic() < give_up:
            appended = broker.end
            with (
                segstore.open_bucket(
                    broker.storage, local=broker.logs, spool_directory=str(tmp_path / "spool")
                ) as bucket,
                bucket.open("orders", 0) as log,
            ):
                found = [record.offset for record in log.scan()]
                assert found == [*range(log.log_end_offset)]
                assert log.report.damage is None
                assert len(found) >= appended
            ends.append(len(found))

    assert broker.error is None
    assert len(ends) == READS
    assert ends == sorted(ends)
    assert ends[-1] > ends[0]
    assert len(list((broker.logs / "orders-0").glob("*.log"))) < ends[-1] // 12
