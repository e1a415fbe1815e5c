"""An open that was refused for its arguments removed the clean marker: the next one was unclean.

[DUR-24] The marker goes before the first write; who is refused before that changes nothing.
"""

from __future__ import annotations

import subprocess
import sys
import uuid

import pytest

import segstore
from segstore.errors import (
    CodecMissingError,
    CorruptCheckpointError,
    IllegalArgumentError,
    InconsistentTopicIdError,
    LogLockedError,
    SegstoreError,
)
from tests.kits.damaged_logs import LogDirectory

TOPIC_ID = uuid.UUID(int=1)
OTHER_ID = uuid.UUID(int=2)
MARKER = ".kafka_cleanshutdown"
METADATA = "partition.metadata"

WRITER = """
import sys, segstore
log = segstore.open(sys.argv[1])
print("open", flush=True)
sys.stdin.read()
log.close_quietly()
"""


@pytest.fixture(params=["alone", "in a log directory of a broker"])
def partition(request, tmp_path):
    """A log that was closed cleanly, with the marker of its place."""
    with segstore.open(tmp_path / "orders-0", topic_id=TOPIC_ID) as log:
        log.append([(None, b"value %d" % number) for number in range(100)])
    if request.param != "alone":
        (tmp_path / "meta.properties").write_text("version=1\n")
        (tmp_path / ".lock").touch()
        (tmp_path / MARKER).write_text('{"version":0,"brokerEpoch":3}')
    return LogDirectory(tmp_path / "orders-0")


def refused(partition, kind, **arguments):
    """The open fails, every file of both directories is as it was, and the next one is clean."""
    both = LogDirectory(partition.path.parent)
    before = both.snapshot()
    with pytest.raises(kind) as caught:
        segstore.open(partition.path, **arguments)
    assert isinstance(caught.value, SegstoreError)
    assert both.snapshot() == before
    with segstore.open(partition.path) as log:
        assert (log.report.clean, log.log_end_offset) == (True, 100)


def test_the_id_of_another_topic(partition):
    """[UNI-5] It is another log, and stays as it was closed; a broker compares behind its load."""
    refused(partition, InconsistentTopicIdError, topic_id=OTHER_ID)


@pytest.mark.parametrize(
    "content", ["no metadata", "version: -1\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ"]
)
def test_a_topic_id_that_cannot_be_read(partition, content):
    """[UNI-5, CKP-25] Nobody knows whether it is the one that was asked for."""
    (partition.path / METADATA).write_text(content)

    refused(partition, CorruptCheckpointError, topic_id=TOPIC_ID)


@pytest.mark.parametrize(
    "arguments",
    [
        {"segment_bytes": 1},
        {"compression_type": "brotli"},
        {"no_such_setting": 1},
        {"durability": "twice"},
        {"recovery": "hope"},
        {"topic_id": uuid.UUID(int=0)},
        {"topic_id": "AAAAAAAAAAAAAAAAAAAAAQ"},
        {"producer_config": 5},
        {"preallocate": 3},
        {"replicated": "yes"},
        {"progress": 1},
        {"state_dir": "elsewhere"},
        {"config": {"segment_bytes": 1 << 20}},
        {"target": "elsewhere-0"},
    ],
    ids=str,
)
def test_arguments(partition, arguments):
    """[DUR-40] Checked before anything is touched."""
    refused(partition, (IllegalArgumentError, TypeError), **arguments)


def test_a_file_in_the_way_of_the_state_directory(partition):
    """[DUR-62] Lock and checkpoints of a handle with Kafka's profile have no place."""
    (partition.path.parent / "file").touch()

    refused(partition, SegstoreError, recovery="kafka", state_dir=partition.path.parent / "file")


def test_a_writer_in_this_process(partition):
    """[DUR-67] The second handle is refused; the first one closes cleanly."""
    with segstore.open(partition.path):
        before = partition.snapshot()
        with pytest.raises(LogLockedError):
            segstore.open(partition.path)
        assert partition.snapshot() == before
    with segstore.open(partition.path) as log:
        assert log.report.clean


def test_a_lock_that_another_process_holds(partition):
    """[DUR-65] Whatever is there, of the other's marker too, is the other's."""
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, str(partition.path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as writer:
        assert writer.stdout.readline() == b"open\n"
        (partition.path / MARKER).write_text("its own")
        before = partition.snapshot()
        with pytest.raises(LogLockedError):
            segstore.open(partition.path)
        assert partition.snapshot() == before
        writer.stdin.close()


def test_a_missing_codec(partition, monkeypatch):
    """[DUR-40] The library of ``compression_type`` is not installed."""
    import segstore.log.log_opener as log_opener

    def missing(codec):
        raise CodecMissingError("no library", found=str(codec), expected="a library")

    with monkeypatch.context() as patch:
        patch.setattr(log_opener, "require_codec", missing)
        both = LogDirectory(partition.path.parent)
        before = both.snapshot()
        with pytest.raises(CodecMissingError):
            segstore.open(partition.path)
        assert both.snapshot() == before
    with segstore.open(partition.path) as log:
        assert log.report.clean


def test_what_was_refused_to_a_manager(tmp_path):
    """[DUR-24, DUR-65] A broker's clean stop is still one of the logs that nobody could open."""
    with segstore.open_dir(tmp_path) as logs:
        logs.create_topic("orders")
        logs.append("orders", [(None, b"x")])
    (tmp_path / "orders-0" / MARKER).unlink()  # a broker leaves its own alone, above
    with (
        segstore.open_dir(tmp_path, topic_id=OTHER_ID) as logs,
        pytest.raises(InconsistentTopicIdError),
    ):
        logs.log("orders", 0)
    assert (tmp_path / MARKER).exists()
    with segstore.open_dir(tmp_path) as logs:
        assert logs.log("orders", 0).report.clean
