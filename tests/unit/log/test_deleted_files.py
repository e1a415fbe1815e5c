"""Files of deleted segments: they go, and nothing holds them for longer [LOC-20].

Some that cannot be removed are garbage, and no reason to fail [DUR-42].
"""

from __future__ import annotations

import errno
import logging
from typing import TYPE_CHECKING

import pytest

import segstore
from segstore._core import Directory, SimulatedDisk
from segstore.log.log_environment import LogEnvironment
from segstore.log.log_opener import open_partition
from segstore.log.open_options import open_options
from tests.kits.open_files import unlinked_files
from tests.kits.transactions_kit import ABORT, COMMIT, NOW, Producer

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from segstore import UnifiedLog


def test_they_stay_and_the_next_open_removes_them(caplog):
    """The log goes on meanwhile; the reason is in the program's log."""
    disk = SimulatedDisk()
    Directory("/", disk).make_directory("logs")
    options = open_options(
        durability="none", segment_ms=None, internal_segment_bytes=100, file_delete_delay_ms=0
    )
    log_environment = LogEnvironment(environment=disk)
    log = open_partition("/logs/topic-0", options, log_environment)
    for number in range(4):
        log.append([(None, b"%d" % number * 30)])
    log.flush()
    disk.fail("unlink", 1, errno.EIO, for_ever=True)
    with caplog.at_level(logging.WARNING):
        log.delete_records(3)
        log._background.wait_until_idle()
        disk.fail("unlink", 0, errno.EIO)
        assert log.append([(None, b"goes on")]).base_offset == 4
        log.close_quietly()
    assert "could not be removed" in caplog.text
    left = [name for name in Directory("/logs/topic-0", disk).names() if ".deleted" in name]
    assert left
    again = open_partition("/logs/topic-0", options, log_environment)
    assert not [name for name in Directory("/logs/topic-0", disk).names() if ".deleted" in name]
    assert [record.offset for record in again] == [3, 4]
    again.close()


CHANGES: dict[str, Callable[[UnifiedLog], object]] = {
    "deletion": lambda log: log.delete_records(log.log_end_offset - 1),
    "compaction": lambda log: log.compact(),
}
READS: dict[str, Callable[[UnifiedLog], object]] = {
    "last stable offset": lambda log: log.last_stable_offset,
    "fetch": lambda log: [*log.read(log.log_start_offset, 4000, "read_committed")],
    "scan": lambda log: [*log.scan(isolation="read_committed")],
    "all records": lambda log: [[*log.read(log.log_start_offset)], [*log.scan()]],
    "by time": lambda log: [log.offset_for_timestamp(one) for one in (0, NOW + 10**9)],
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("way", READS)
@pytest.mark.parametrize("whose", ["the writer's", "beside it"])
def test_what_is_remembered_of_a_read_keeps_no_deleted_file_open(
    tmp_path: Path, change: str, way: str, whose: str
):
    """[LOC-20, TXX-1] The disk would have its bytes for as long.

    The soak found it: a process that read committed records had a descriptor for most segments
    that were deleted, up to half of those that it may have.
    """
    path = tmp_path / "orders-0"
    with segstore.open(
        path,
        durability="none",
        cleanup_policy="compact,delete",
        internal_segment_bytes=500,
        segment_ms=None,
        file_delete_delay_ms=0,
    ) as writer:
        writer.append([(b"first", b"v")])
        is_beside = whose == "beside it"
        reader = segstore.open(path, read_only=True) if is_beside else writer
        with reader:
            for number in range(4):
                for producer_id in range(4):
                    producer = Producer(writer, producer_id, epoch=number)
                    producer.write(5)
                    producer.end(ABORT if producer_id % 2 else COMMIT)
                reader.refresh()
                READS[way](reader)
                CHANGES[change](writer)
                assert writer._background.wait_until_idle()
                reader.refresh()
                assert unlinked_files(tmp_path) == []
