"""Topics with a part in remote storage, from ``open_dir(remote=…)`` to a reader of the bucket."""

from __future__ import annotations

import ast
import os
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from typing import NamedTuple

import pytest

import segstore
from segstore import cli
from segstore.errors import (
    ClosedError,
    IllegalArgumentError,
    IllegalStateError,
    InvalidConfigurationError,
    OffsetOutOfRangeError,
    RemoteResourceNotFoundError,
    RemoteStorageError,
)
from segstore.log.settings_above import id_of_partition
from segstore.manager import topic_settings
from segstore.manager.directory_metadata_topic import DirectoryMetadataTopic
from segstore.manager.metadata_writing import write_metadata_log
from segstore.manager.tiered_topics import TieredTopics
from segstore.manager.topic_changes import TopicChanges
from segstore.manager.topic_description import SettingSource
from segstore.remote.log_manager.remote_log_task import RemoteLogParts
from segstore.remote.metadata.remote_log_metadata_serde import parse_event
from segstore.remote.metadata.segment_metadata import (
    RemoteLogSegmentMetadata,
    RemotePartitionDeleteMetadata,
    RemotePartitionDeleteState,
)
from segstore.remote.storage.tiered_storage import TieredStorage
from tests.kits.moto_server import moto_store

METADATA = "__remote_log_metadata"
TIERED = {"remote.storage.enable": "true", "local.retention.bytes": "0"}
KEPT_HERE = {"remote.storage.enable": "true", "local.retention.bytes": "10000000"}
MINUTE_MS = 60_000


class Remote(NamedTuple):
    """A remote storage, as the arguments of `open_dir` and `open_bucket` name it."""

    url: str
    settings: dict[str, str]

    def open(self, directory: Path, **options):
        settings = self.settings or None
        return segstore.open_dir(directory, remote=self.url, remote_settings=settings, **options)

    def bucket(self):
        return segstore.open_bucket(self.url, **self.settings)


@pytest.fixture
def folder(tmp_path: Path) -> Remote:
    return Remote(str(tmp_path / "tier"), {})


@pytest.fixture(params=["folder", "s3"])
def remote(request, tmp_path: Path):
    """A folder, or an object store of somebody else."""
    if request.param == "folder":
        yield Remote(str(tmp_path / "tier"), {})
        return
    with moto_store() as store:
        (tmp_path / "nothing").mkdir()
        url = store.put_once(tmp_path / "nothing", "tier")
        yield Remote(f"{url}/logs", store.settings)


def fill(logs, topic: str = "orders", count: int = 4, partition: int = 0) -> None:
    """Append *count* records, each to a segment of its own; the last segment is empty."""
    log = logs.log(topic, partition)
    for _ in range(count):
        offset = log.log_end_offset
        logs.append(topic, [(b"k%d" % offset, b"v%d" % offset)], partition=partition)
        log.roll()


def values(records) -> list[bytes]:
    return [record.value for record in records]


def files_in(remote: Remote) -> list[str]:
    return sorted(path.name for path in Path(remote.url).rglob("*") if path.is_file())


def events(directory: Path) -> list[object]:
    """What the directory has noted of its remote storage."""
    with segstore.open_dir(directory, read_only=True) as logs:
        return [parse_event(record.value) for record in logs.log(METADATA, 0)]


def now_ms() -> int:
    return time.time_ns() // 1_000_000


# ---- five minutes --------------------------------------------------------------------------------


def test_a_tiered_topic_is_copied_and_read_as_one(tmp_path: Path, remote: Remote):
    """[TIER-1, TIER-2, TIER-31, TIER-60, DUR-140] All that a user types."""
    directory = tmp_path / "data"
    expected = [b"v%d" % n for n in range(5)]
    with remote.open(directory) as logs:
        logs.create_topic("orders", 2, config=TIERED)
        fill(logs)
        report = logs.maintain()
        assert report.failed == ()
        assert [(str(one.topic_partition), one.end_offset) for one in report.copied] == [
            ("orders-0", 4)
        ]
        assert len(report.deleted) == 4, "retention deletes here what is copied, in the same pass"
        logs.append("orders", [(b"k4", b"v4")], partition=0)
        log = logs.log("orders", 0)
        assert (log.log_start_offset, log.local_log_start_offset) == (0, 4)
        assert sorted(values(logs.scan("orders"))) == expected
        assert values(log.scan(0)) == expected, "each record once"
        assert logs.topics() == {"orders": [0, 1]}
        assert [str(one) for one in logs.partitions()] == ["orders-0", "orders-1"]
    with remote.open(directory) as logs:
        assert values(logs.log("orders", 0).scan(0)) == expected
    with remote.bucket() as bucket:
        assert bucket.topics() == ["orders"]
        assert values(bucket.scan("orders")) == expected[:4]


def test_reads_remember_the_topic_id_while_names_stay(tmp_path: Path, folder: Remote, monkeypatch):
    """[TIER-65] Its file is not opened by each read; a topic made again is another one."""
    directory = tmp_path / "data"
    opened = []
    with folder.open(directory) as logs:
        logs.create_topic("orders", 1, config=TIERED)
        fill(logs)
        logs.maintain()
        os.utime(directory, (1, 1))  # longer ago than a step of the clock
        monkeypatch.setattr(
            topic_settings,
            "id_of_partition",
            lambda one: opened.append(one) or id_of_partition(one),
        )
        log = logs.log("orders", 0)
        for offset in (0, 1, 2, 3):
            assert next(iter(log.read(offset, 1000))).offset == offset
        assert len(opened) == 1

        logs.delete_topic("orders")
        logs.create_topic("orders", 1, config=TIERED)
        logs.append("orders", [(None, b"other")], partition=0)
        logs.log("orders", 0).roll()
        logs.maintain()
        assert values(logs.log("orders", 0).read(0, 1000)) == [b"other"]


def test_commands_know_the_folder_that_was_given(tmp_path: Path, folder: Remote, capsysbinary):
    """[TIER-95] The plug-in's own folder is below it."""
    with folder.open(tmp_path / "data") as logs:
        logs.create_topic("orders", config=TIERED)
        fill(logs)
        logs.maintain()
    assert cli.main(["cat", f"{folder.url}/orders-0"]) == 0
    assert capsysbinary.readouterr().out == b"v0\nv1\nv2\nv3\n"


def test_who_reads_without_remote_storage_is_told(tmp_path: Path, folder: Remote, capsysbinary):
    """[DUR-144] A part of a log was shown as all of it."""
    data = tmp_path / "data"
    with folder.open(data) as logs:
        logs.create_topic("orders", config=TIERED)
        fill(logs)
        logs.maintain()
    with (
        segstore.open_dir(data, read_only=True) as logs,
        pytest.raises(IllegalStateError, match="remote="),
    ):
        logs.count("orders")
    with segstore.open(data / "orders-0", read_only=True) as log:
        assert "offsets 0 to 4 are in remote storage" in str(log.report.warnings)
    target = tmp_path / "orders.parquet"
    assert cli.main(["export", str(data / "orders-0"), str(target)]) == 0
    assert b"offsets 0 to 4 are in remote storage" in capsysbinary.readouterr().err


def test_one_bound_for_all_partitions_reaches_into_remote_storage(tmp_path, folder: Remote):
    """[TIER-2] A scan, a tail and an export begin there, not at the local log start."""
    with folder.open(tmp_path / "data") as logs:
        logs.create_topic("orders", 2, config=TIERED)
        fill(logs)
        fill(logs, partition=1, count=2)
        logs.maintain()
        assert values(logs.scan("orders", start_offset=2)) == [b"v2", b"v3"]
        assert values(logs.tail("orders", offset=3, timeout=0)) == [b"v3"]
        reports = logs.export_parquet("orders", tmp_path / "out")
        assert sum(one.records for one in reports) == 6


def test_the_background_copies_too(tmp_path: Path, folder: Remote):
    """[TIER-31] The first run is at once, in a thread; a close waits for it."""
    config = {"log.initial.task.delay.ms": 0, "remote.log.manager.task.interval.ms": 50}
    with folder.open(tmp_path / "data", background=True, config=config) as logs:
        logs.create_topic("orders", config=TIERED)
        fill(logs)
        until = time.monotonic() + 60
        while logs.log("orders", 0).highest_offset_in_remote_storage < 3:
            assert time.monotonic() < until
            time.sleep(0.02)
        assert values(logs.log("orders", 0).scan(0)) == [b"v0", b"v1", b"v2", b"v3"]


def test_a_reader_beside_the_writer_reads_both_parts(tmp_path: Path, folder: Remote):
    """[TIER-65] It sees what was copied, and deleted here, since its open."""
    directory = tmp_path / "data"
    with folder.open(directory) as logs:
        logs.create_topic("orders", config=TIERED)
        fill(logs)
        logs.maintain()
        with folder.open(directory, read_only=True) as reader:
            assert values(reader.scan("orders")) == [b"v%d" % n for n in range(4)]
            fill(logs)
            logs.maintain(now_ms() + MINUTE_MS)
            assert values(reader.scan("orders")) == [b"v%d" % n for n in range(8)]
    assert not [*(directory / "remote-log-index-cache").glob("*.tmp")]


def test_a_reader_is_told_what_expired_beside_it(tmp_path: Path, folder: Remote):
    """[DUR-78, DUR-144] No object is missing: the log begins later now."""
    directory = tmp_path / "data"
    with folder.open(directory) as logs:
        logs.create_topic("orders", config=TIERED)
        fill(logs)
        logs.maintain()
        with folder.open(directory, read_only=True) as reader:
            log = reader.log("orders", 0)
            records = iter(log.scan(0))
            assert next(records).value == b"v0"
            logs.log("orders", 0).delete_records(3)
            assert logs.maintain(now_ms() + MINUTE_MS).failed == ()
            assert len([name for name in files_in(folder) if name.endswith(".log")]) == 1
            with pytest.raises(OffsetOutOfRangeError, match="3 to 4"):
                next(records)
            assert values(reader.scan("orders")) == [b"v3"]


def test_what_expired_beside_a_committed_reader_is_out_of_range(tmp_path: Path, folder: Remote):
    """[DUR-78, DUR-144, TIER-69] Also for the transactions, which it asks for first."""
    directory = tmp_path / "data"
    with folder.open(directory) as logs:
        logs.create_topic("orders", config=TIERED)
        fill(logs)
        logs.maintain()
        with folder.open(directory, read_only=True) as reader:
            log = reader.log("orders", 0)
            logs.log("orders", 0).delete_records(3)
            assert logs.maintain(now_ms() + MINUTE_MS).failed == ()
            with pytest.raises(OffsetOutOfRangeError, match="3 to 4"):
                values(log.scan(0, isolation="read_committed"))


def test_a_pass_reports_how_far_it_is(tmp_path: Path, folder: Remote):
    """Bytes of what was due, once for each step of a copy."""
    seen = []
    with folder.open(tmp_path / "data") as logs:
        logs.create_topic("orders", config=TIERED)
        fill(logs)
        logs.maintain(progress=lambda one, done, total: seen.append((str(one), done, total)))
    size = seen[-1][2]
    assert seen[0] == ("orders-0", 0, size)
    assert seen[-1][1] < size, "the last step says that the last segment is whole"
    assert len(seen) == 8


def test_numbers_say_how_much_is_remote_and_how_much_lags(tmp_path: Path, folder: Remote):
    """[TIER-4, TIER-43] As Kafka's gauges."""
    where = {"topic": "orders", "partition": "0"}
    with folder.open(tmp_path / "data") as logs:
        logs.create_topic("orders", config=TIERED | {"remote.log.copy.disable": "false"})
        fill(logs)
        logs.maintain()
        stats = logs.stats()
        names = "kafka.server:type=BrokerTopicMetrics,name="
        assert stats.value(f"{names}RemoteLogSizeBytes", **where) > 0
        assert stats.value(f"{names}RemoteCopyLagBytes", **where) == 0
        assert stats.value(f"{names}RemoteCopyLagSegments", **where) == 0
        assert "kafka_server_brokertopicmetrics_remotelogsizebytes" in stats.prometheus_text()


# ---- what does not go with it --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ({"shared": True}, "shared=True"),
        ({"remote": None, "remote_settings": {"region": "x"}}, "no remote="),
    ],
)
def test_what_does_not_go_with_remote_storage_is_refused(tmp_path: Path, options, found):
    """Before anything is made."""
    with pytest.raises(IllegalArgumentError) as raised:
        segstore.open_dir(tmp_path / "data", **{"remote": str(tmp_path / "tier"), **options})
    assert found in str(raised.value.found)
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize(
    "options",
    [
        {"remote": 5},
        {"remote": True},
        {"remote": ["tier"]},
        {"remote": ""},
        {"remote": "tier", "remote_settings": "endpoint"},
    ],
    ids=str,
)
def test_what_is_no_place_is_refused(tmp_path: Path, options):
    """[TIER-15] An empty text is a variable that was not set, and no folder."""
    with pytest.raises(IllegalArgumentError, match="remote"):
        segstore.open_dir(tmp_path / "data", **options)
    assert not (tmp_path / "data").exists()


def test_several_log_directories_have_no_remote_part(tmp_path: Path):
    """What is remote is noted in one of them."""
    with pytest.raises(IllegalArgumentError, match="one log directory"):
        segstore.open_dir([tmp_path / "a", tmp_path / "b"], remote=str(tmp_path / "tier"))


def test_a_compacted_topic_is_not_tiered(tmp_path: Path, folder: Remote):
    """[TIER-1, CFG-43] Neither when it is made nor later."""
    with folder.open(tmp_path / "data") as logs:
        with pytest.raises(IllegalArgumentError, match=r"cleanup\.policy"):
            logs.create_topic("t", config=TIERED | {"cleanup.policy": "compact"})
        logs.create_topic("t", config=TIERED)
        with pytest.raises(IllegalArgumentError, match=r"cleanup\.policy"):
            logs.alter_topic("t", {"cleanup.policy": "compact"})
        with pytest.raises(InvalidConfigurationError, match=r"remote\.log\.delete"):
            logs.alter_topic("t", {"remote.storage.enable": "false"})


def test_without_remote_storage_nothing_is_forgotten(tmp_path: Path, folder: Remote):
    """[TIER-3, TIER-5, DUR-143] Appends go on; what would lose records says what is missing."""
    directory = tmp_path / "data"
    with folder.open(directory) as logs:
        logs.create_topic("orders", config=TIERED)
        fill(logs)
        logs.maintain()
    with segstore.open_dir(directory) as logs:
        log = logs.log("orders", 0)
        assert (log.log_start_offset, log.local_log_start_offset) == (0, 4)
        fill(logs, count=2)
        assert logs.maintain().deleted == ()
        with pytest.raises(IllegalStateError) as raised:
            values(log.scan(0))
        assert "remote=" in str(raised.value)
        with pytest.raises(IllegalStateError, match="remote="):
            logs.delete_topic("orders")
        assert values(log.scan(4)) == [b"v4", b"v5"]
    with folder.open(directory) as logs:
        assert values(logs.log("orders", 0).scan(0)) == [b"v%d" % n for n in range(6)]


def test_nothing_is_copied_that_the_cluster_would_not_know_of(tmp_path: Path, folder: Remote):
    """[TIER-21, DUR-143] To its broker our topic of what is remote would be stray."""
    directory = tmp_path / "data"
    with folder.open(directory) as logs:
        logs.create_topic("orders", config=TIERED)
        fill(logs)
    write_metadata_log(directory)
    with folder.open(directory) as logs:
        report = logs.maintain()
        assert (report.copied, report.deleted) == ((), ())
        (failed,) = report.failed
        assert isinstance(failed.error, IllegalStateError)
        assert "remote.log.storage.system.enable=true" in str(failed.error)
        assert logs.stray_partitions() == {}
        assert values(logs.scan("orders")) == [b"v%d" % n for n in range(4)]
    assert files_in(folder) == []


def test_topics_that_are_not_tiered_in_their_cluster_are_not_here(tmp_path, folder: Remote):
    """[TIER-1, DUR-143] The option is for others: the broker would forget what is remote alone."""
    directory = tmp_path / "data"
    options = {"remote_storage_enable": True, "local_retention_bytes": 0}
    with segstore.open_dir(directory) as logs:
        logs.create_topic("orders")
        fill(logs)
    write_metadata_log(directory)
    with folder.open(directory, **options) as logs:
        report = logs.maintain()
        assert (report.copied, report.deleted, report.failed) == ((), (), ())
        (one,) = (
            setting
            for setting in logs.describe_topic("orders").settings
            if setting.name == "remote.storage.enable"
        )
        assert (one.value, one.source) == (False, SettingSource.DEFAULT)
    (directory / "__cluster_metadata-0").rename(tmp_path / "away")
    with folder.open(directory, **options) as logs:
        assert len(logs.maintain().deleted) == 4
        assert values(logs.scan("orders")) == [b"v%d" % n for n in range(4)]


# ---- the end of a topic --------------------------------------------------------------------------


def test_a_deleted_topic_is_deleted_there_too(tmp_path: Path, folder: Remote):
    """[TIER-24, TIER-90, TIER-91] The events say so; the other topics stay."""
    directory = tmp_path / "data"
    with folder.open(directory) as logs:
        for topic in ("orders", "others"):
            logs.create_topic(topic, config=TIERED)
            fill(logs, topic)
        logs.maintain()
        before = files_in(folder)
        logs.delete_topic("orders")
        assert len(files_in(folder)) * 2 == len(before)
        assert values(logs.log("others", 0).scan(0)) == [b"v%d" % n for n in range(4)]
        logs.create_topic("orders", config=TIERED)
        assert values(logs.scan("orders")) == []
    states = [
        one.state for one in events(directory) if isinstance(one, RemotePartitionDeleteMetadata)
    ]
    assert states == [*RemotePartitionDeleteState]
    with folder.bucket() as bucket:
        assert bucket.topics() == ["others"], "an empty folder of the other one would be listed"
        assert len(values(bucket.scan("others"))) == 4


def test_the_deletion_of_many_partitions_reads_the_events_no_more(tmp_path, folder, monkeypatch):
    """[TIER-24, TIER-91] The end of one leaves what is known of the others."""
    with folder.open(tmp_path / "data") as logs:
        logs.create_topic("orders", 5, config=TIERED)
        for number in range(5):
            fill(logs, count=2, partition=number)
        logs.maintain()
        values_of, read = DirectoryMetadataTopic.values, []

        def counted(self, number):
            read.append(number)
            return values_of(self, number)

        monkeypatch.setattr(DirectoryMetadataTopic, "values", counted)
        logs.delete_topic("orders")
        assert read == []
    assert files_in(folder) == []


class Killed(BaseException):
    """The process is killed here."""


@contextmanager
def killed_in(monkeypatch, name: str, after: int, owner: type = TieredStorage):
    """Let one call of that method, of the storage if not told, be the last thing that happens."""
    method, calls = getattr(owner, name), []

    def call(self, *arguments):
        calls.append(arguments)
        if len(calls) > after:
            raise Killed
        return method(self, *arguments)

    with monkeypatch.context() as patched:
        patched.setattr(owner, name, call)
        with pytest.raises(Killed):
            yield


@pytest.mark.parametrize("after", [0, 2])
def test_a_deletion_goes_on_after_a_crash(tmp_path: Path, folder: Remote, monkeypatch, after):
    """[TIER-24, TIER-90] The next pass finishes what was begun."""
    directory = tmp_path / "data"
    with folder.open(directory) as logs:
        logs.create_topic("orders", config=TIERED)
        fill(logs)
        logs.maintain()
    with killed_in(monkeypatch, "delete_log_segment_data", after), folder.open(directory) as logs:
        logs.delete_topic("orders")
    assert files_in(folder)
    with folder.open(directory) as logs:
        assert logs.topics() == {}
        report = logs.maintain()
        assert (report.failed, len(report.expired)) == ((), 1)
    assert files_in(folder) == []


def test_a_mark_alone_deletes_nothing(tmp_path: Path, folder: Remote, monkeypatch):
    """[TIER-24] A crash before topics.json says that the topic is deleted leaves all of it."""
    directory = tmp_path / "data"
    with folder.open(directory) as logs:
        logs.create_topic("orders", config=TIERED)
        fill(logs)
        logs.maintain()
        monkeypatch.setattr(type(logs), "_change_topics", lambda *_: (_ for _ in ()).throw(Killed))
        with pytest.raises(Killed):
            logs.delete_topic("orders")
        monkeypatch.undo()
    before = files_in(folder)
    with folder.open(directory) as logs:
        assert logs.maintain().failed == ()
        assert values(logs.scan("orders")) == [b"v%d" % n for n in range(4)]
    assert files_in(folder) == before


def test_a_store_that_is_away_is_an_error_and_is_tried_again(tmp_path, folder, monkeypatch):
    """[DUR-144, TIER-90] The topic is deleted here; a note says what follows."""
    directory = tmp_path / "data"

    def away(*_):
        raise RemoteStorageError("the store is away", file="tier")

    with folder.open(directory) as logs:
        logs.create_topic("orders", config=TIERED)
        fill(logs)
        logs.maintain()
        with monkeypatch.context() as patched:
            patched.setattr(TieredStorage, "delete_log_segment_data", away)
            with pytest.raises(RemoteStorageError) as raised:
                logs.delete_topic("orders")
            assert "maintain" in raised.value.__notes__[0]
            assert logs.topics() == {}
            assert [one.task for one in logs.maintain(now_ms() + MINUTE_MS).failed] == [
                "deletion in remote storage"
            ]
        assert logs.maintain(now_ms() + 2 * MINUTE_MS).failed == ()
    assert files_in(folder) == []


def test_a_partition_that_is_made_again_has_no_copies_of_before(
    tmp_path: Path, folder: Remote, monkeypatch
):
    """[TIER-90, DUR-140] It has the same topic id; a crash came before its copies were deleted."""
    directory = tmp_path / "data"
    with folder.open(directory) as logs:
        logs.create_topic("orders", 2, config=TIERED)
        fill(logs, partition=1)
        logs.maintain()
        with monkeypatch.context() as patch:
            patch.setattr(TieredTopics, "finish_deletions", lambda *_: None)
            logs.delete_partition("orders", 1)
    with folder.open(directory) as logs:
        logs.alter_topic("orders", partitions=2)
        log = logs.log("orders", 1)
        for number in range(6):
            logs.append("orders", [(None, b"new%d" % number)], partition=1)
            if number % 2:
                log.roll()
        report = logs.maintain()
        assert (report.failed, report.copied[0].end_offset) == ((), 6)
        assert log.local_log_start_offset == 6
        assert values(log.scan(0)) == [b"new%d" % number for number in range(6)]
    assert len([name for name in files_in(folder) if name.endswith(".log")]) == 3


def test_an_empty_partition_does_not_take_the_place_of_a_lost_one(tmp_path: Path, folder: Remote):
    """[DUR-140] Its copies are the only ones of acknowledged records: they were deleted."""
    directory = tmp_path / "data"
    with folder.open(directory) as logs:
        logs.create_topic("orders", 2, config=TIERED)
        fill(logs)
        fill(logs, partition=1, count=6)
        assert logs.maintain().failed == ()
    shutil.rmtree(directory / "orders-1")
    before = files_in(folder)
    with (
        segstore.open_dir(directory) as logs,
        pytest.raises(IllegalArgumentError, match="there is no remote storage"),  # [CFG-42]
    ):
        logs.alter_topic("orders", partitions=2)
    with folder.open(directory) as logs:
        with pytest.raises(IllegalStateError, match="segstore restore-bucket") as raised:
            logs.alter_topic("orders", partitions=3)
        assert raised.value.file == str(directory / "orders-1")
        assert raised.value.found.endswith("copies of the records from 0 to 5")
        logs.alter_topic("orders", partitions=1)
        assert logs.topics() == {"orders": [0]}
        assert logs.maintain(now_ms() + MINUTE_MS).failed == ()
    assert files_in(folder) == before
    (report,) = segstore.restore_bucket(folder.url, directory, topics="orders", partitions=1)
    assert report.error is None
    with folder.open(directory) as logs:
        logs.alter_topic("orders", partitions=3)
        fill(logs, partition=1, count=2)
        assert logs.maintain().failed == ()
        log = logs.log("orders", 1)
        assert (log.log_start_offset, log.local_log_start_offset) == (0, 8)
        assert values(log.scan(0)) == [b"v%d" % n for n in range(8)]
    assert set(before) < set(files_in(folder))


@pytest.mark.parametrize("count", [1, 5, 6, 8])
@pytest.mark.parametrize("records_of_a_segment", [1, 2, 6])
def test_copies_of_other_records_stay_until_their_user_says_so(
    tmp_path: Path, folder: Remote, count: int, records_of_a_segment: int
):
    """[DUR-140] A directory without records took the place of a lost one, by another program."""
    directory, retention = tmp_path / "data", {"retention.ms": str(24 * 3_600_000)}
    with folder.open(directory) as logs:
        logs.create_topic("orders", config=TIERED | retention)
        fill(logs, count=6)
        assert logs.maintain().failed == ()
    metadata = (directory / "orders-0" / "partition.metadata").read_bytes()
    shutil.rmtree(directory / "orders-0")
    (directory / "orders-0").mkdir()
    (directory / "orders-0" / "partition.metadata").write_bytes(metadata)
    (directory / "log-start-offset-checkpoint").unlink()
    before, new = files_in(folder), [b"new%d" % number for number in range(count)]
    with folder.open(directory) as logs:
        log = logs.log("orders", 0)
        for number, value in enumerate(new, 1):
            logs.append("orders", [(None, value)], partition=0)
            if number % records_of_a_segment == 0:
                log.roll()
        for minutes in range(3):
            report = logs.maintain(now_ms() + minutes * 1440 * MINUTE_MS)
            (failed,) = report.failed
            assert isinstance(failed.error, IllegalStateError)
            assert "restore_bucket" in str(failed.error)
            assert (report.copied, report.deleted, report.expired) == ((), (), ())
        assert values(log.scan(0)) == new
        assert files_in(folder) == before
        logs.alter_topic("orders", DISABLED)
        assert files_in(folder) == []
        logs.alter_topic("orders", dict.fromkeys(DISABLED) | TIERED)
        log.roll()
        assert logs.maintain(now_ms() + MINUTE_MS).failed == ()
        assert log.local_log_start_offset == count
        assert values(log.scan(0)) == new


@pytest.mark.parametrize("is_killed", [False, True])
def test_a_topic_is_deleted_with_the_copies_of_a_lost_partition(
    tmp_path: Path, folder: Remote, monkeypatch, *, is_killed: bool
):
    """[TIER-90] Once it is deleted, not before: nothing of the partition says that it stays."""
    directory = tmp_path / "data"
    with folder.open(directory) as logs:
        logs.create_topic("orders", 2, config=TIERED)
        fill(logs, partition=0)
        fill(logs, partition=1)
        assert logs.maintain().failed == ()
    shutil.rmtree(directory / "orders-1")
    before = files_in(folder)
    if is_killed:
        with folder.open(directory) as logs, monkeypatch.context() as patch:
            patch.setattr(TopicChanges, "delete", lambda *_: (_ for _ in ()).throw(Killed))
            with pytest.raises(Killed):
                logs.delete_topic("orders")
        with folder.open(directory) as logs:
            assert logs.maintain().failed == ()
        assert files_in(folder) == before
    with folder.open(directory) as logs:
        logs.delete_topic("orders")
    assert files_in(folder) == []


# ---- another storage -----------------------------------------------------------------------------


def test_a_missing_mount_lets_nothing_go(tmp_path: Path, folder: Remote):
    """[DUR-140, TIER-52] The only copy is not in the storage that is in use: all stays as it is."""
    directory, place = tmp_path / "data", Path(folder.url)
    kept = {"remote.storage.enable": "true", "local.retention.bytes": "10000000"}
    with folder.open(directory) as logs:
        logs.create_topic("orders", config=kept)
        fill(logs, count=6)
        assert logs.maintain().failed == ()
    place.rename(tmp_path / "nfs")
    place.mkdir()
    with folder.open(directory) as logs:
        fill(logs, count=2)
        logs.alter_topic("orders", {"local.retention.bytes": "0", "retention.bytes": "430"})
        report = logs.maintain()
        assert (report.copied, report.deleted, report.expired) == ((), (), ())
        (failed,) = report.failed
        assert isinstance(failed.error, RemoteResourceNotFoundError)
        assert "another storage, or a missing mount" in str(failed.error)
        assert failed.error.file.startswith(str(place))
        assert failed.error.expected.endswith("with the records from 5 to 5")
        log = logs.log("orders", 0)
        assert (log.log_start_offset, log.local_log_start_offset) == (0, 0)
        assert values(log.scan()) == [b"v%d" % n for n in range(8)]
        with pytest.raises(RemoteResourceNotFoundError, match="missing mount"):
            logs.delete_topic("orders")
        assert logs.topics() == {"orders": [0]}, "a deletion that would leave the copies is refused"
        assert not any(place.rglob("*.log"))
    place.rmdir()
    (tmp_path / "nfs").rename(place)
    assert not any(isinstance(one, RemotePartitionDeleteMetadata) for one in events(directory))
    with folder.open(directory) as logs:
        report = logs.maintain()
        assert report.failed == ()
        assert report.copied[0].end_offset == 8
        logs.delete_topic("orders")
    assert files_in(folder) == []


def test_a_deletion_is_not_finished_in_another_storage(tmp_path, folder: Remote, monkeypatch):
    """[TIER-90, DUR-142] After a crash the directory is opened with another place."""
    directory = tmp_path / "data"
    with folder.open(directory) as logs:
        logs.create_topic("orders", config=TIERED)
        fill(logs)
        logs.maintain()
        with monkeypatch.context() as patch:
            patch.setattr(TieredTopics, "finish_deletions", lambda *_: None)
            logs.delete_topic("orders")
    before = files_in(folder)
    with segstore.open_dir(directory, remote=tmp_path / "other") as logs:
        (failed,) = logs.maintain().failed
        assert isinstance(failed.error, RemoteResourceNotFoundError)
    assert files_in(folder) == before
    with folder.open(directory) as logs:
        assert logs.maintain().failed == ()
    assert files_in(folder) == []


@pytest.mark.parametrize("end", ["delete_topic", "disable"])
@pytest.mark.parametrize(
    "last_step",
    [
        ("delete_log_segment_data", 0),
        ("delete_log_segment_data", 2),
        ("publish", 6, RemoteLogParts),  # the deletions of four begin, and two have ended
    ],
)
def test_a_deletion_that_has_begun_does_not_end_in_another_storage(
    tmp_path: Path, folder: Remote, monkeypatch: pytest.MonkeyPatch, end: str, last_step: tuple
):
    """[TIER-90, DUR-142] All copies are noted as going, and more than one is left."""
    directory = tmp_path / "data"
    with folder.open(directory) as logs:
        logs.create_topic("orders", config=KEPT_HERE)
        fill(logs)
        assert logs.maintain().failed == ()
    with killed_in(monkeypatch, *last_step), folder.open(directory) as logs:
        if end == "delete_topic":
            logs.delete_topic("orders")
        else:
            logs.alter_topic("orders", DISABLED)
    before = files_in(folder)
    assert before
    for _ in range(2):
        with segstore.open_dir(directory, remote=tmp_path / "other") as logs:
            (failed,) = logs.maintain().failed
            assert isinstance(failed.error, RemoteResourceNotFoundError)
            assert failed.error.expected.endswith("the records from 3 to 3")
    assert files_in(folder) == before
    with folder.open(directory) as logs:
        report = logs.maintain()
        assert (report.failed, len(report.expired)) == ((), 1)
    assert files_in(folder) == []


@pytest.mark.parametrize("count", [1, 4])
def test_another_storage_can_leave_the_newest_copy_of_a_deletion_alone(
    tmp_path: Path, folder: Remote, monkeypatch: pytest.MonkeyPatch, count: int
):
    """[TIER-90] Its objects may be gone where its end is not noted: it is not asked for."""
    directory = tmp_path / "data"
    with folder.open(directory) as logs:
        logs.create_topic("orders", config=TIERED)
        fill(logs, count=count)
        assert logs.maintain().failed == ()
    last = count - 1
    with killed_in(monkeypatch, "delete_log_segment_data", last), folder.open(directory) as logs:
        logs.delete_topic("orders")
    with segstore.open_dir(directory, remote=tmp_path / "other") as logs:
        report = logs.maintain()
        assert (report.failed, len(report.expired)) == ((), 1)
    assert {name.partition("-")[0] for name in files_in(folder)} == {f"{last:020d}"}


def test_copies_that_never_were_whole_prove_no_storage(
    tmp_path: Path, folder: Remote, monkeypatch: pytest.MonkeyPatch
):
    """[TIER-41, TIER-90] The store was away while they were made and deleted: nothing is lost."""
    directory = tmp_path / "data"

    def away(*_: object) -> None:
        raise RemoteStorageError("the store is away", file="tier")

    with folder.open(directory) as logs:
        logs.create_topic("orders", config=TIERED)
        fill(logs)
        with monkeypatch.context() as patch:
            for name in ("copy_log_segment_data", "delete_log_segment_data"):
                patch.setattr(TieredStorage, name, away)
            assert len(logs.maintain().failed) == 2
        logs.delete_topic("orders")
        assert logs.maintain(now_ms() + MINUTE_MS).failed == ()
    assert isinstance(events(directory)[-1], RemotePartitionDeleteMetadata)


DISABLED = {"remote.storage.enable": "false", "remote.log.delete.on.disable": "true"}


def lose(remote: Remote, *offsets: int, only: str = "*") -> None:
    """Delete the objects of copies that begin there, as another program would."""
    for offset in offsets:
        paths = [*Path(remote.url).rglob(f"{offset:020d}-{only}")]
        assert paths
        for path in paths:
            path.unlink()


def test_remote_storage_is_not_disabled_in_another_storage(tmp_path: Path, folder: Remote):
    """[CFG-46, DUR-142] The copies stay noted, and are deleted where they are."""
    directory = tmp_path / "data"
    with folder.open(directory) as logs:
        logs.create_topic("orders", config=KEPT_HERE)
        fill(logs)
        assert logs.maintain().failed == ()
    before = files_in(folder)
    with segstore.open_dir(directory, remote=tmp_path / "other") as logs:
        with pytest.raises(RemoteResourceNotFoundError, match="missing mount") as raised:
            logs.alter_topic("orders", DISABLED)
        assert "has the settings; the next maintain" in raised.value.__notes__[0]
        (failed,) = logs.maintain().failed
        assert isinstance(failed.error, RemoteResourceNotFoundError)
    assert files_in(folder) == before
    with folder.open(directory) as logs:
        assert logs.maintain().failed == ()
        assert values(logs.scan("orders")) == [b"v%d" % n for n in range(4)]
    assert files_in(folder) == []


@pytest.mark.parametrize("end", ["delete_topic", "disable"])
def test_where_the_newest_copy_is_lost_the_others_can_be_deleted(
    tmp_path: Path, folder: Remote, end: str
):
    """[DUR-144, TIER-90] The oldest one says that this is the storage."""
    with folder.open(tmp_path / "data") as logs:
        logs.create_topic("orders", config=KEPT_HERE)
        fill(logs)
        assert logs.maintain().failed == ()
        lose(folder, 3)
        if end == "delete_topic":
            logs.delete_topic("orders")
        else:
            logs.alter_topic("orders", DISABLED)
            assert values(logs.scan("orders")) == [b"v%d" % n for n in range(4)]
    assert files_in(folder) == []


@pytest.mark.parametrize("lost", [[3], [0, 1, 2, 3], None])
@pytest.mark.parametrize("reopened", [False, True])
def test_a_lost_copy_is_made_again_once_its_user_says_so(
    tmp_path: Path, folder: Remote, lost: list[int] | None, *, reopened: bool
):
    """[DUR-140, DUR-144] An empty object of the name that the error says is enough."""
    directory = tmp_path / "data"
    logs = folder.open(directory)
    logs.create_topic("orders", config=KEPT_HERE)
    fill(logs)
    assert logs.maintain().failed == ()
    if lost is None:
        shutil.rmtree(folder.url)
    else:
        lose(folder, *lost)
    if reopened:
        logs.close()
        logs = folder.open(directory)
    fill(logs, count=1)
    (failed,) = logs.maintain(now_ms() + MINUTE_MS).failed
    assert isinstance(failed.error, RemoteResourceNotFoundError)
    assert "put an empty object of that name there" in str(failed.error)
    empty = Path(failed.error.file)
    assert empty.name.startswith("0" * 19 + "3")
    empty.parent.mkdir(parents=True, exist_ok=True)
    empty.touch(exist_ok=False)
    (failed,) = logs.maintain(now_ms() + 2 * MINUTE_MS).failed
    assert "is made again" in str(failed.error)
    logs.alter_topic("orders", {"local.retention.bytes": "0"})
    assert logs.maintain(now_ms() + 3 * MINUTE_MS).failed == ()
    log = logs.log("orders", 0)
    assert (log.log_start_offset, log.local_log_start_offset) == (0, 5)
    assert values(log.scan(0)) == [b"v%d" % n for n in range(5)]
    logs.delete_topic("orders")
    logs.close()
    assert files_in(folder) == []


def test_a_lost_copy_whose_records_are_nowhere_holds_nothing_up(tmp_path: Path, folder: Remote):
    """[DUR-144] A read there says what is missing; the rest is copied, read and deleted."""
    with folder.open(tmp_path / "data") as logs:
        logs.create_topic("orders", config=TIERED)
        fill(logs)
        assert logs.maintain().failed == ()
        lose(folder, *range(4))
        (failed,) = logs.maintain(now_ms() + MINUTE_MS).failed
        with pytest.raises(RemoteResourceNotFoundError, match="put an empty object"):
            logs.delete_topic("orders")
        Path(failed.error.file).touch(exist_ok=False)
        fill(logs, count=2)
        logs.alter_topic("orders", {"local.retention.bytes": "0"})
        report = logs.maintain(now_ms() + 2 * MINUTE_MS)
        assert (report.failed, report.copied[0].end_offset) == ((), 6)
        log = logs.log("orders", 0)
        assert log.local_log_start_offset == 6
        assert values(log.scan(4)) == [b"v4", b"v5"]
        with pytest.raises(RemoteResourceNotFoundError):
            values(log.scan(0))
        log.delete_records(4)
        assert logs.maintain(now_ms() + 3 * MINUTE_MS).failed == ()
        assert values(log.scan()) == [b"v4", b"v5"]
        assert not any(name.startswith("0" * 19 + "3") for name in files_in(folder))


def test_a_lost_copy_is_found_by_the_next_process(tmp_path: Path, folder: Remote):
    """[DUR-140, DUR-144] It is made again while its records are here."""
    directory = tmp_path / "data"
    with folder.open(directory) as logs:
        logs.create_topic("orders", config=KEPT_HERE)
        fill(logs)
        assert logs.maintain().failed == ()
    lose(folder, 1, only="*.log")
    with folder.open(directory) as logs:
        logs.alter_topic("orders", {"local.retention.bytes": "0"})
        (failed,) = logs.maintain().failed
        assert failed.error.file.endswith(".log")
        assert "is made again" in str(failed.error)
        assert logs.maintain(now_ms() + MINUTE_MS).failed == ()
        assert logs.log("orders", 0).local_log_start_offset == 4
        assert values(logs.scan("orders")) == [b"v%d" % n for n in range(4)]


def test_a_topic_that_is_tiered_no_more_may_be_again(tmp_path: Path, folder: Remote):
    """[CFG-46, TIER-90] What was remote is deleted; the log goes on with what is here."""
    directory = tmp_path / "data"
    off = {"remote.storage.enable": "false", "remote.log.delete.on.disable": "true"}
    with folder.open(directory) as logs:
        logs.create_topic("orders", config=TIERED)
        fill(logs)
        logs.maintain()
        fill(logs, count=2)
        logs.alter_topic("orders", off)
        log = logs.log("orders", 0)
        assert (log.log_start_offset, log.remote_log_enabled) == (4, False)
        assert files_in(folder) == []
        assert values(log.scan()) == [b"v4", b"v5"]
        logs.alter_topic("orders", dict.fromkeys(off) | {"remote.storage.enable": "true"})
        report = logs.maintain(now_ms() + MINUTE_MS)
        assert (report.failed, report.copied[0].end_offset) == ((), 6)
        assert values(log.scan(4)) == [b"v4", b"v5"]
        assert log.local_log_start_offset == 6
    copies = [one for one in events(directory) if isinstance(one, RemoteLogSegmentMetadata)]
    assert [one.start_offset for one in copies] == [*range(6)]


def test_the_settings_of_the_directory_enable_it_again_without_old_copies(
    tmp_path: Path, folder: Remote, monkeypatch: pytest.MonkeyPatch
):
    """[CFG-46, TIER-90] As `alter_topic`: what they have ended goes before, or nothing changes."""

    def away(*_: object) -> None:
        raise RemoteStorageError("the store is away", file="tier")

    with folder.open(tmp_path / "data", remote_storage_enable=True) as logs:
        logs.create_topic("orders")
        fill(logs)
        assert logs.maintain().failed == ()
        logs.reconfigure_default_log_config(remote_log_delete_on_disable=True)
        assert not logs.log("orders", 0).remote_log_enabled
        assert files_in(folder)
        with monkeypatch.context() as patched:
            patched.setattr(TieredStorage, "delete_log_segment_data", away)
            with pytest.raises(RemoteStorageError) as raised:
                logs.reconfigure_default_log_config(remote_storage_enable=True)
            assert "nothing changed" in raised.value.__notes__[0]
            assert not logs.log("orders", 0).remote_log_enabled
        logs.reconfigure_default_log_config(remote_storage_enable=True)
        assert files_in(folder) == []
        assert logs.log("orders", 0).remote_log_enabled
        assert logs.maintain(now_ms() + MINUTE_MS).failed == ()
        assert files_in(folder)


def test_what_a_crash_left_of_a_disabled_topic_is_deleted(tmp_path, folder, monkeypatch):
    """[CFG-46, TIER-90] The setting says that it is to go."""
    directory = tmp_path / "data"
    off = {"remote.storage.enable": "false", "remote.log.delete.on.disable": "true"}
    with folder.open(directory) as logs:
        logs.create_topic("orders", config=TIERED)
        fill(logs)
        logs.maintain()
    with killed_in(monkeypatch, "delete_log_segment_data", 1), folder.open(directory) as logs:
        logs.alter_topic("orders", off)
    assert files_in(folder)
    with folder.open(directory) as logs:
        assert logs.maintain().failed == ()
        assert logs.log("orders", 0).log_start_offset == 4
    assert files_in(folder) == []


def test_uploads_end_and_what_is_remote_stays(tmp_path: Path, folder: Remote):
    """[TIER-31] remote.log.copy.disable."""
    with folder.open(tmp_path / "data") as logs:
        logs.create_topic("orders", config={"remote.storage.enable": "true"})
        fill(logs)
        logs.maintain()
        logs.alter_topic("orders", {"remote.log.copy.disable": "true"})
        fill(logs)
        assert logs.maintain(now_ms() + MINUTE_MS).copied == ()
        assert logs.log("orders", 0).highest_offset_in_remote_storage == 3
        assert values(logs.scan("orders")) == [b"v%d" % n for n in range(8)]


@contextmanager
def passing_in_a_copy(logs, monkeypatch):
    """A pass that is in the midst of its first copy, and goes on at the end of the block."""
    begun, go_on, copied = Event(), Event(), []
    method = TieredStorage.copy_log_segment_data

    def copy(self, metadata, data):
        copied.append(metadata.topic_id_partition.topic_partition)
        begun.set()
        assert go_on.wait(60)
        return method(self, metadata, data)

    with monkeypatch.context() as patched, ThreadPoolExecutor(2) as pool:
        patched.setattr(TieredStorage, "copy_log_segment_data", copy)
        one_pass = pool.submit(logs.maintain, now_ms() + MINUTE_MS)
        try:
            assert begun.wait(60)
            yield copied, go_on, one_pass
        finally:
            go_on.set()
        assert one_pass.result().failed == ()


def test_changes_of_other_topics_wait_for_no_copy(tmp_path, folder: Remote, monkeypatch):
    """[TIER-45, TIER-90, TIER-91] Of topics that are tiered, and of others."""
    with folder.open(tmp_path / "data") as logs:
        logs.create_topic("plain")
        logs.create_topic("others", config=TIERED)
        fill(logs, "others")
        logs.maintain()
        logs.create_topic("a", config=TIERED)
        fill(logs, "a")
        with passing_in_a_copy(logs, monkeypatch) as (_, go_on, one_pass):
            logs.delete_topic("plain")
            logs.alter_topic("others", {"retention.ms": "-1"})
            logs.delete_topic("others")
            assert not go_on.is_set()
            assert not one_pass.done()
        assert [*logs.topics()] == ["a"]
        assert logs.log("a", 0).local_log_start_offset == 4


def test_a_deletion_waits_for_the_segment_that_is_copied_and_no_more(tmp_path, folder, monkeypatch):
    """[TIER-45, TIER-91] The topic's tasks end; the pass goes on with the others."""
    with folder.open(tmp_path / "data") as logs:
        for topic in ("a", "b"):
            logs.create_topic(topic, config=TIERED)
            fill(logs, topic)
        with (
            ThreadPoolExecutor(1) as pool,
            passing_in_a_copy(logs, monkeypatch) as (copied, go_on, _),
        ):
            deletion = pool.submit(logs.delete_topic, "a")
            with pytest.raises(TimeoutError):
                deletion.result(0.2)
            go_on.set()
            deletion.result(60)
        assert [one.topic for one in copied] == ["a", "b", "b", "b", "b"]
        assert [*logs.topics()] == ["b"]
        logs.create_topic("a", config=TIERED)
        fill(logs, "a")
        assert [one.end_offset for one in logs.maintain(now_ms() + 3 * MINUTE_MS).copied] == [4]


def test_a_wait_for_the_quota_ends_with_the_topic(tmp_path: Path, folder: Remote):
    """[TIER-34, TIER-45] At once: the wait looks each second, and would last for hours."""
    quota = {
        "remote.log.manager.copy.max.bytes.per.second": 1,
        "remote.log.manager.copy.quota.window.num": 2,
        "remote.log.manager.copy.quota.window.size.seconds": 60,
    }
    with folder.open(tmp_path / "data", config=quota) as logs, ThreadPoolExecutor(1) as pool:
        logs.create_topic("orders", config=TIERED)
        fill(logs)
        one_pass = pool.submit(logs.maintain)
        while not (tmp_path / "tier").exists() or len(files_in(folder)) < 5:
            time.sleep(0.01)
        with pytest.raises(TimeoutError):
            one_pass.result(0.2)
        logs.delete_topic("orders")
        assert one_pass.result(30).failed == ()
    assert files_in(folder) == []


def test_uploads_end_as_the_guide_says(tmp_path: Path, folder: Remote):
    """[TIER-31, CFG-45] With the settings of its example."""
    with folder.open(tmp_path / "data") as logs:
        logs.create_topic("orders", config=TIERED)
        fill(logs)
        logs.maintain()
        guide = Path(segstore.__file__).parents[1] / "docs/guide.md"
        row = next(
            one for one in guide.read_text().splitlines() if one.startswith("| stop copying")
        )
        _, told, _ = row.split("`", 2)
        name, settings = ast.literal_eval(told.removeprefix("alter_topic"))
        logs.alter_topic(name, settings)
        fill(logs)
        assert logs.maintain(now_ms() + MINUTE_MS).copied == ()
        assert values(logs.scan("orders")) == [b"v%d" % n for n in range(8)]


# ---- what the directory notes --------------------------------------------------------------------


def test_a_metadata_topic_that_is_there_is_used_as_it_is(tmp_path: Path, folder: Remote):
    """[TIER-21] A broker's has 50 partitions; its events are in the one that Kafka chooses."""
    directory = tmp_path / "data"
    with folder.open(directory) as logs:
        logs.create_topic(METADATA, 5)
        logs.create_topic("orders", config=TIERED)
        fill(logs)
        logs.maintain()
        ends = logs.log_end_offsets(METADATA)
        assert sorted(ends.values()) == [0, 0, 0, 0, 8]
    with folder.open(directory) as logs:
        assert values(logs.scan("orders")) == [b"v%d" % n for n in range(4)]


def test_no_limit_of_the_directory_deletes_what_it_notes(tmp_path: Path, folder: Remote):
    """[RLM] The topic has Kafka's settings, whatever others go by."""
    with folder.open(tmp_path / "data", retention_bytes=0, retention_ms=0) as logs:
        logs.create_topic("orders", config=TIERED)
        fill(logs)
        logs.maintain()
        log = logs.log(METADATA, 0)
        assert (log.config.retention_ms, log.config.retention_bytes) in {(None, -1), (-1, -1)}
        assert log.config.cleanup_policy == "delete"
        log.roll()
        assert all(one.topic_partition.topic == "orders" for one in logs.maintain().deleted)
        assert log.log_start_offset == 0


def test_the_node_of_the_directory_says_what_is_copied(tmp_path: Path, folder: Remote):
    """[TIER-15, TIER-25] The id in meta.properties; 0 where no broker had the directory."""
    for node_id in (None, 7):
        directory = tmp_path / f"data-{node_id}"
        directory.mkdir()
        if node_id is not None:
            text = f"version=1\ncluster.id=c\nnode.id={node_id}\n"
            (directory / "meta.properties").write_text(text)
        with folder.open(directory) as logs:
            logs.create_topic("orders", config=TIERED)
            fill(logs, count=1)
            logs.maintain()
        assert {one.broker_id for one in events(directory)} == {node_id or 0}


def test_reads_keep_within_the_fetch_quota(tmp_path: Path, folder: Remote):
    """[TIER-70] A read is charged, and the next one waits: until the directory is closed here."""
    settings = {"remote.log.manager.fetch.max.bytes.per.second": "1"}
    with folder.open(tmp_path / "data", config=settings) as logs:
        logs.create_topic("orders", config=TIERED)
        fill(logs)
        logs.maintain()
        log = logs.log("orders", 0)
        assert log.segments()[0].base_offset == 4
        manager = logs._tiered._built().manager
        assert manager.fetch_quota.throttle_ms() == 0
        size = len(log.read(0, 1000, isolation="log_end").records)
        assert manager.counters.fetch_requests == 1
        assert manager.counters.fetch_bytes >= size > 10
        assert manager.fetch_quota.throttle_ms() > 0
        manager.close()
        with pytest.raises(ClosedError):
            log.read(1, 1000, isolation="log_end")
        assert manager.counters.fetch_requests == 1


def test_a_close_ends_everything(tmp_path: Path, folder: Remote):
    """[TIER-92] Twice is harmless; a reader leaves no files behind, and the next open goes on."""
    directory = tmp_path / "data"
    with folder.open(directory) as logs:
        logs.create_topic("orders", config=TIERED)
        fill(logs)
        logs.maintain()
    reader = folder.open(directory, read_only=True)
    assert len(values(reader.scan("orders"))) == 4
    reader.log("orders", 0).fetch_offset_by_timestamp(0)
    own_folder = reader._tiered._own_folder
    assert any(Path(own_folder).rglob("*.index"))
    log = reader.log("orders", 0)
    reader.close()
    reader.close()
    assert not Path(own_folder).exists()
    with pytest.raises(ClosedError):
        values(log.scan(0))
    with folder.open(directory) as logs:
        assert values(logs.scan("orders")) == [b"v%d" % n for n in range(4)]


def test_a_close_in_the_midst_of_a_pass_is_no_failure(tmp_path, folder: Remote, monkeypatch):
    """[TIER-45, TIER-92] No task begins behind it, and the next open copies the rest."""
    directory = tmp_path / "data"
    with folder.open(directory) as logs:
        logs.create_topic("orders", 2, config=TIERED)
        for number in range(2):
            fill(logs, partition=number)
        with ThreadPoolExecutor(1) as pool:
            with passing_in_a_copy(logs, monkeypatch) as (copied, go_on, _):
                closing = pool.submit(logs.close)
                with pytest.raises(TimeoutError):
                    closing.result(0.2)
                go_on.set()
                closing.result(60)
            assert len(copied) == 1
    with folder.open(directory) as logs:
        assert logs.maintain(now_ms() + MINUTE_MS).failed == ()
        assert len(values(logs.scan("orders"))) == 8
        assert [logs.log("orders", one).local_log_start_offset for one in range(2)] == [4, 4]
