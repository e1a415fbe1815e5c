"""Many logs in one directory: names, keys, locks, and what a broker finds after a clean close."""

from __future__ import annotations

import json
import re
from collections import Counter

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import segstore
from segstore.errors import (
    AlreadyExistsError,
    ClosedError,
    ForkedHandleError,
    IllegalArgumentError,
    IllegalStateError,
    InvalidTopicError,
    LogLockedError,
    LogNotFoundError,
    LogReadOnlyError,
    NotALogError,
    RecordTypeError,
    UnknownTopicOrPartitionError,
)
from segstore.log.files.checkpoints import parse_offset_checkpoint, read_topic_id
from segstore.manager.partition_records import StickyPartitioner, split_batch, split_records
from segstore.records.partitioner import partition_for_key
from tests.kits.log_kit import in_a_child

KEYS = [None, b"", b"a", b"kafka", b"\x00\xff" * 9, b"carrier-AA"]


@pytest.fixture
def manager(tmp_path):
    """A new log directory with the topic ``orders`` of four partitions."""
    with segstore.open_dir(tmp_path / "logs", durability="none") as manager:
        manager.create_topic("orders", 4)
        yield manager


def values_of(manager, topic="orders"):
    """(partition, value) of every record."""
    return [
        (partition, record.value)
        for partition in manager.topics()[topic]
        for record in manager.log(topic, partition).read(0)
    ]


# ---- topics ------------------------------------------------------------------------------------


def test_only_live_partition_directories_are_listed(tmp_path):
    """[LOC-24, DUR-98] Deleted, moved and stray directories, files and other names are ignored."""
    for name in ("b-0", "a.b_c-d-10", "a.b_c-d-2", "__consumer_offsets-49"):
        (tmp_path / name).mkdir()
    for name in (
        "b-1." + "0" * 32 + "-delete",
        "b-2." + "0" * 32 + "-future",
        "b-3." + "0" * 32 + "-stray",
        "b-01",
        "b",
        "-0",
        "b-2147483648",
        "b c-0",
    ):
        (tmp_path / name).mkdir()
    (tmp_path / "file-0").write_bytes(b"")

    with segstore.open_dir(tmp_path, read_only=True) as manager:
        assert manager.topics() == {"__consumer_offsets": [49], "a.b_c-d": [2, 10], "b": [0]}


def test_a_new_topic_has_directories_with_one_id(manager, tmp_path):
    """[DUR-23] partition.metadata names the same topic everywhere."""
    ids = {
        re.sub(r".*topic_id: ", "", (tmp_path / "logs" / name / "partition.metadata").read_text())
        for name in ("orders-0", "orders-3")
    }

    assert manager.topics() == {"orders": [0, 1, 2, 3]}
    assert len(ids) == 1
    directory = segstore._core.Directory(str(tmp_path / "logs" / "orders-0"))
    assert read_topic_id(directory) is not None
    directory.close()


@pytest.mark.parametrize(
    ("name", "partitions", "error"),
    [
        ("orders", 1, AlreadyExistsError),
        ("a/b", 1, InvalidTopicError),
        ("..", 1, InvalidTopicError),
        ("", 1, InvalidTopicError),
        ("x" * 250, 1, InvalidTopicError),
        ("new", 0, IllegalArgumentError),
        ("new", 10**9, IllegalArgumentError),
    ],
)
def test_a_topic_that_cannot_be_made_leaves_nothing(manager, name, partitions, error):
    with pytest.raises(error):
        manager.create_topic(name, partitions)

    assert manager.topics() == {"orders": [0, 1, 2, 3]}


# ---- append ------------------------------------------------------------------------------------


def test_records_go_to_the_partition_that_kafkas_clients_choose(manager):
    """murmur2(key) & 0x7fffffff modulo the partitions; order is kept within one."""
    records = [(f"key-{n % 17}".encode(), str(n).encode()) for n in range(500)]

    infos = manager.append("orders", records)

    assert sum(info.records_count for info in infos.values()) == 500
    expected = [
        (partition, value)
        for partition in range(4)
        for key, value in records
        if partition_for_key(key, 4) == partition
    ]
    assert values_of(manager) == expected


def test_arrow_columns_go_the_same_way_as_tuples(tmp_path):
    records = [(f"key-{n % 17}".encode(), str(n).encode()) for n in range(500)]
    table = pa.table({"key": [k for k, _ in records], "value": [v for _, v in records]})
    found = []
    for name, data in (("tuples", records), ("table", table)):
        with segstore.open_dir(tmp_path / name, durability="none") as manager:
            manager.create_topic("orders", 4)
            manager.append("orders", data)
            found.append(values_of(manager))

    assert found[0] == found[1]


@given(
    st.lists(st.none() | st.binary(max_size=12) | st.sampled_from(KEYS), max_size=60),
    st.integers(1, 7),
)
def test_columns_and_rows_are_split_alike(keys, partitions_count):
    """Keys decide; the oracle is the split of tuples. Rows without a key only have to arrive."""
    batch = pa.record_batch(
        {"key": pa.array(keys, pa.binary()), "value": pa.array([b"v"] * len(keys), pa.binary())}
    )
    rows = split_records([(k, b"v") for k in keys], StickyPartitioner(partitions_count))
    columns = split_batch(batch, StickyPartitioner(partitions_count))

    def keyed(parts):
        return {n: [k for k in part if k is not None] for n, part in parts.items()}

    ours = keyed({n: part.column("key").to_pylist() for n, part in columns.items()})
    theirs = keyed({n: [k for k, _ in part] for n, part in rows.items()})
    assert {n: k for n, k in ours.items() if k} == {n: k for n, k in theirs.items() if k}
    assert sum(part.num_rows for part in columns.values()) == len(keys)


@pytest.mark.parametrize(
    "keys",
    [
        pa.array(["é", "b", None]),
        pa.array(["é", "b", None], pa.large_string()),
        pa.array(["é", "b", None]).dictionary_encode(),
        pa.array([b"x1", b"x2", None], pa.binary(2)),
        pa.nulls(3),
    ],
    ids=lambda keys: str(keys.type),
)
def test_keys_of_every_arrow_type_are_hashed_as_their_bytes(keys):
    batch = pa.record_batch({"key": keys})
    parts = split_batch(batch, StickyPartitioner(5))

    for partition, part in parts.items():
        for key in part.column("key").to_pylist():
            data = key.encode() if isinstance(key, str) else key
            assert data is None or partition_for_key(data, 5) == partition


def test_records_without_a_key_are_spread_and_stay_together_for_a_while(manager):
    for n in range(8):
        manager.append("orders", [(None, str(n).encode())])
    one_call = Counter(p for p, _ in values_of(manager))

    assert one_call == {0: 2, 1: 2, 2: 2, 3: 2}
    infos = manager.append("orders", [(None, b"x" * 1000)] * 100)
    assert set(infos) == {0, 1, 2, 3}
    assert max(info.records_count for info in infos.values()) >= 17


def test_a_partition_may_be_named(manager):
    infos = manager.append("orders", [(b"a", b"1"), (b"b", b"2")], partition=3)

    assert list(infos) == [3]
    assert (infos[3].base_offset, infos[3].last_offset) == (0, 1)


def test_an_iterator_may_be_long_and_the_answer_counts_all_of_it(manager):
    infos = manager.append("orders", ((b"one key", b"") for _ in range(70_000)))

    (info,) = infos.values()
    assert (info.base_offset, info.last_offset, info.records_count) == (0, 69_999, 70_000)


@pytest.mark.parametrize(
    "bad",
    [("a", b"v"), ("0", b"k", b"v"), (b"k", "v"), (b"k",), b"kv", None, 7, {"key": b"k"}],
    ids=repr,
)
def test_a_list_with_one_wrong_record_appends_nothing(manager, bad):
    good = [(str(n).encode(), b"v") for n in range(20)]
    with pytest.raises(RecordTypeError):
        manager.append("orders", [*good, bad])

    assert values_of(manager) == []


def test_a_key_needs_all_partitions_to_be_here(tmp_path):
    """With one disk of several, the number of partitions is not known: do not guess."""
    for name in ("orders-0", "orders-2"):
        (tmp_path / name).mkdir()
    with segstore.open_dir(tmp_path, durability="none") as manager:
        with pytest.raises(IllegalStateError, match=r"\[0, 2\]"):
            manager.append("orders", [(b"k", b"v")])
        manager.append("orders", [(b"k", b"v")], partition=2)
        with pytest.raises(UnknownTopicOrPartitionError):
            manager.append("orders", [(b"k", b"v")], partition=1)
        with pytest.raises(UnknownTopicOrPartitionError, match="create_topic"):
            manager.append("other", [(b"k", b"v")])


# ---- locks ------------------------------------------------------------------------------------


def test_one_manager_writes_a_directory_and_others_read_it(manager, tmp_path):
    """[DUR-65, DUR-67, DUR-71] In this process as from another."""
    manager.append("orders", [(b"k", b"v")])

    with pytest.raises(LogLockedError, match="read_only=True"):
        segstore.open_dir(tmp_path / "logs")
    with pytest.raises(LogLockedError):
        segstore.open(tmp_path / "logs" / "orders-0")
    with segstore.open_dir(tmp_path / "logs", read_only=True) as reader:
        assert len(values_of(reader)) == 1
        with pytest.raises(LogReadOnlyError):
            reader.append("orders", [(b"k", b"v")])
        with pytest.raises(LogReadOnlyError):
            reader.create_topic("new")


def test_a_partition_opened_alone_keeps_a_manager_out(tmp_path):
    """[DUR-65] It holds a read lock on the ``.lock`` of the log directory above it."""
    with segstore.open_dir(tmp_path, durability="none") as manager:
        manager.create_topic("orders")
    with segstore.open(tmp_path / "orders-0", durability="none"), pytest.raises(LogLockedError):
        segstore.open_dir(tmp_path)
    segstore.open_dir(tmp_path).close()


def test_reading_changes_nothing(manager, tmp_path):
    """[DUR-71]"""
    manager.append("orders", [(b"k", b"v")])
    manager.close()
    before = {p: p.stat().st_mtime_ns for p in (tmp_path / "logs").rglob("*")}

    with segstore.open_dir(tmp_path / "logs", read_only=True) as reader:
        assert len(values_of(reader)) == 1

    assert {p: p.stat().st_mtime_ns for p in (tmp_path / "logs").rglob("*")} == before


def test_a_forked_child_must_open_again(manager):
    """[DUR-68]"""

    def ask_there():
        with pytest.raises(ForkedHandleError):
            manager.topics()

    assert in_a_child(ask_there) == 0
    manager.append("orders", [(b"k", b"v")])


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda p: p.write_bytes(b""), NotALogError),
        (lambda p: (p.mkdir(), (p / f"{0:020d}.log").write_bytes(b"")), NotALogError),
    ],
    ids=["a file", "a partition"],
)
def test_what_is_no_log_directory_is_refused(tmp_path, make, error):
    path = tmp_path / "orders-0"
    make(path)

    with pytest.raises(error, match="orders-0"):
        segstore.open_dir(path)
    assert not (path / ".lock").exists()


def test_reading_a_directory_that_is_missing_does_not_make_it(tmp_path):
    with pytest.raises(LogNotFoundError, match="missing"):
        segstore.open_dir(tmp_path / "missing", read_only=True)

    assert not (tmp_path / "missing").exists()


@pytest.mark.parametrize("names", [["notes.txt"], ["2024/", ".git/"], ["lost+found/", "a"]])
def test_reading_a_directory_of_other_files_is_refused(tmp_path, names):
    """Else a wrong path looks like a log directory without topics."""
    for name in names:
        path = tmp_path / name
        path.mkdir() if name.endswith("/") else path.write_bytes(b"")

    with pytest.raises(NotALogError, match="no log directory") as raised:
        segstore.open_dir(tmp_path, read_only=True)
    assert raised.value.file == str(tmp_path)
    assert raised.value.found.startswith(names[-1].rstrip("/"))


@pytest.mark.parametrize(
    "names",
    [
        [],
        ["lost+found"],
        ["notes.txt", "topics.json"],
        ["notes.txt", "meta.properties"],
        ["notes.txt", "recovery-point-offset-checkpoint"],
        ["notes.txt", f"orders-0.{'a' * 32}-delete"],
        ["notes.txt", ".segstore.topics.lock"],
    ],
)
def test_reading_a_log_directory_without_partitions(tmp_path, names):
    for name in names:
        (tmp_path / name).write_bytes(segstore.log.files.topics_file.format_topics({}))
    with segstore.open_dir(tmp_path, read_only=True) as logs:
        assert logs.topics() == {}


# ---- close ------------------------------------------------------------------------------------


def test_a_clean_close_leaves_what_a_broker_looks_for(manager, tmp_path):
    """[DUR-24, DUR-65] Recovery points and log starts of all logs, and the marker, last."""
    manager.append("orders", [(str(n).encode(), b"v") for n in range(100)])
    ends = {p: manager.log("orders", p).log_end_offset for p in range(4)}
    manager.log("orders", 1).delete_records(3)
    assert not (tmp_path / "logs" / ".kafka_cleanshutdown").exists()

    manager.close()

    directory = tmp_path / "logs"
    points = parse_offset_checkpoint((directory / "recovery-point-offset-checkpoint").read_bytes())
    starts = parse_offset_checkpoint((directory / "log-start-offset-checkpoint").read_bytes())
    assert points == {("orders", partition): end for partition, end in ends.items()}
    assert starts == {("orders", 1): 3}
    assert json.loads((directory / ".kafka_cleanshutdown").read_text())["version"] == 0


def test_the_marker_tells_the_next_one_who_closed(manager, tmp_path):
    """[CKP-20, CKP-21] The broker epoch of a close is known until logs have changed."""
    assert manager.last_broker_epoch is None
    manager.close(broker_epoch=3)
    path = tmp_path / "logs"
    assert json.loads((path / ".kafka_cleanshutdown").read_text())["brokerEpoch"] == 3

    for _ in range(2):
        with segstore.open_dir(path) as again:
            assert again.last_broker_epoch == 3
    with segstore.open_dir(path) as again:
        again.append("orders", [(b"k", b"v")])
    with segstore.open_dir(path) as again:
        assert again.last_broker_epoch == -1


def test_partitions_that_were_not_opened_keep_their_state(manager, tmp_path):
    """The marker speaks for all partitions: it stays while those not opened are as they were."""
    manager.append("orders", [(str(n).encode(), b"v") for n in range(100)])
    manager.close()
    marker = tmp_path / "logs" / ".kafka_cleanshutdown"
    with segstore.open_dir(tmp_path / "logs", durability="none") as again:
        again.append("orders", [(b"k", b"v")], partition=2)
        assert not marker.exists()

    assert marker.exists()
    marker.unlink()
    with segstore.open_dir(tmp_path / "logs", durability="none") as again:
        again.append("orders", [(b"k", b"v")], partition=2)
    assert not marker.exists()


def test_a_closed_manager_says_so(manager):
    log = manager.log("orders", 0)
    manager.close()
    manager.close()

    assert manager.closed
    assert log.closed
    for call in (manager.topics, lambda: manager.log("orders", 0)):
        with pytest.raises(ClosedError):
            call()


def test_what_was_appended_is_there_after_opening_again(manager, tmp_path):
    records = [(str(n).encode(), str(n).encode()) for n in range(300)]
    manager.append("orders", records)
    before = values_of(manager)
    manager.close()

    with segstore.open_dir(tmp_path / "logs") as again:
        assert values_of(again) == before
        assert all(again.log("orders", p).report.clean for p in range(4))


@given(
    st.integers(1, 5),
    st.lists(st.tuples(st.integers(1, 40), st.integers(0, 9000)), min_size=1, max_size=8),
)
def test_many_records_without_a_key_go_where_one_after_the_other_would(count, appends):
    """Columns and rows are spread alike."""
    one, many = StickyPartitioner(count), StickyPartitioner(count)
    for records, size in appends:
        assert many.without_keys(records, size) == [one.without_key(size) for _ in range(records)]
