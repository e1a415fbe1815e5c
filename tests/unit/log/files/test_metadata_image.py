"""What a metadata log says: the files of it, also damaged ones.

[RAFT-20…RAFT-23, RAFT-47, RAFT-48, format.md 6.4, 16.3]; tests/interop compares with Kafka's image.
"""

from __future__ import annotations

import os
from dataclasses import FrozenInstanceError, replace
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

import segstore
import segstore._core as segstore_core
from segstore._core import MessageError
from segstore.errors import ArgumentTypeError, CorruptLogError, LogNotFoundError, SegstoreError
from segstore.log.files import metadata_log_files
from segstore.log.files.metadata_image import ConfigResource, ConfigResourceType
from segstore.log.files.metadata_image_reader import read_metadata_image
from segstore.log.files.metadata_log_files import MetadataFile, is_whole_snapshot
from segstore.records.kraft_record import KRaftVersion, LeaderChange
from tests.fuzz.mutations import outcome
from tests.kits.metadata_kit import (
    EPOCH,
    SCHEMAS,
    TIMESTAMP,
    TOPIC_ID,
    control_batch,
    metadata_batch,
    metadata_record,
    snapshot_bytes,
    topic_records,
    write_metadata_log,
    write_snapshot,
)

if TYPE_CHECKING:
    from pathlib import Path

FIRST = metadata_batch(0, topic_records("orders", retention="1"))
CLICKS = topic_records("clicks", UUID(int=8 << 64))
SECOND = metadata_batch(3, CLICKS)
THIRD = metadata_batch(5, [metadata_record("NoOpRecord")])
LOG = FIRST + SECOND + THIRD
ENDS = [0, len(FIRST), len(FIRST + SECOND), len(LOG)]
OFFSETS = [0, 3, 5, 6]
"""How many records end where a batch ends."""


THIRD_AT_4 = metadata_batch(4, [metadata_record("NoOpRecord")])


def changed(data: bytes, at: int) -> bytes:
    """Return *data* with another byte at a position."""
    return data[:at] + bytes([data[at] ^ 0x11]) + data[at + 1 :]


def says_what_it_found(error: SegstoreError) -> bool:
    return bool(error.found and error.expected)


def with_right_crc(batch: bytes) -> bytes:
    """Return a batch that was changed, with the checksum of what it has now."""
    return batch[:17] + segstore_core.crc32c(batch[21:]).to_bytes(4) + batch[21:]


def record_of(key: int, version: int = 0, content: bytes = b"\0") -> bytes:
    return bytes([1, key, version]) + content


# ---- whole logs ----------------------------------------------------------------------------------


def test_an_image_is_found_in_a_log_directory_or_named(tmp_path: Path):
    """The directory of ``metadata.log.dir``, or the partition itself."""
    directory = write_metadata_log(tmp_path, {0: LOG})

    image = segstore.read_metadata_image(tmp_path)

    assert image == segstore.read_metadata_image(directory)
    assert image.path == str(directory)
    assert (image.end_offset, image.last_epoch, image.last_timestamp) == (6, EPOCH, TIMESTAMP)
    assert [*image.topics] == ["clicks", "orders"]
    assert image.topics_by_id[TOPIC_ID] is image.topics["orders"]
    assert image.topics["orders"].partitions[0].directory_of(1) == UUID(int=9)
    assert image.topics["orders"].partitions[0].directory_of(2) is None
    assert image.topic_config("orders") == {"retention": "1"}
    assert image.topic_config("others") == {}


def test_an_image_does_not_change(tmp_path: Path):
    """Its parts are read-only too."""
    write_metadata_log(tmp_path, {0: LOG})
    image: Any = read_metadata_image(tmp_path)

    with pytest.raises(FrozenInstanceError):
        image.end_offset = 7
    for part in (image.topics, image.configs, image.topic_config("orders"), image.brokers):
        with pytest.raises(TypeError):
            part["orders"] = 1


def test_settings_of_a_broker_are_those_of_all_and_its_own(tmp_path: Path):
    """The name of the default of all brokers is empty."""
    settings = [("", "a", "1"), ("", "b", "1"), ("3", "b", "2"), ("4", "b", "3")]
    records = [
        metadata_record("ConfigRecord", resourceType=4, resourceName=owner, name=key, value=value)
        for owner, key, value in settings
    ]
    write_metadata_log(tmp_path, {0: metadata_batch(0, records)})

    image = read_metadata_image(tmp_path)

    assert image.broker_config(3) == {"a": "1", "b": "2"}
    assert image.broker_config(9) == {"a": "1", "b": "1"}
    assert image.configs[ConfigResource(ConfigResourceType.BROKER, "4")] == {"b": "3"}


def test_what_is_no_metadata_log_is_said_to_be_none(tmp_path: Path):
    with pytest.raises(LogNotFoundError, match="there is no metadata log of a KRaft cluster"):
        read_metadata_image(tmp_path)
    with pytest.raises(LogNotFoundError):
        read_metadata_image(tmp_path / "missing")


def test_what_is_no_path_is_an_error_of_the_argument(tmp_path: Path):
    wrong: Any = 5
    with pytest.raises(ArgumentTypeError, match="path must be a path"):
        read_metadata_image(wrong)
    with pytest.raises(LogNotFoundError, match="no metadata log"):
        segstore.read_metadata_image(os.fsencode(tmp_path))


def test_an_empty_log_says_nothing(tmp_path: Path):
    """A broker that has just been formatted."""
    write_metadata_log(tmp_path, {0: b""})

    image = read_metadata_image(tmp_path)

    assert (image.end_offset, image.last_epoch, image.topics) == (0, -1, {})


def test_unknown_types_are_counted_and_passed_over(tmp_path: Path):
    """Of records, and of control records [format.md 6.1]."""
    unknown = control_batch(3, LeaderChange(1)).replace(b"\0\0\0\2", b"\0\0\0\x63", 1)
    known = metadata_batch(0, [record_of(99), record_of(13), record_of(99)])
    write_metadata_log(tmp_path, {0: known + with_right_crc(unknown) + THIRD_AT_4})

    image = read_metadata_image(tmp_path)

    assert image.unknown_records == {"99": 2, "13": 1, "control 99": 1}
    assert image.end_offset == 5


def test_control_records_of_the_log(tmp_path: Path):
    """A leader change changes nothing; the version of KRaft is kept."""
    log = control_batch(0, LeaderChange(1)) + control_batch(1, KRaftVersion(1))
    write_metadata_log(tmp_path, {0: log + metadata_batch(2, topic_records())})

    image = read_metadata_image(tmp_path)

    assert (image.kraft_version, image.end_offset, [*image.topics]) == (1, 4, ["orders"])


def test_a_transaction_without_an_end_is_left_out(tmp_path: Path):
    """KIP-866: its records count from its end on, and an aborted one never does."""
    begin, end, abort = (
        metadata_record(f"{kind}TransactionRecord") for kind in ("Begin", "End", "Abort")
    )
    first, second, third = (
        topic_records(name, UUID(int=number << 64))
        for number, name in enumerate(("first", "second", "third"), 1)
    )
    values = [begin, *first, end, begin, *second, abort, begin, *third]
    write_metadata_log(tmp_path, {0: metadata_batch(0, values)})

    image = read_metadata_image(tmp_path)

    assert [*image.topics] == ["first"]
    assert (image.open_transaction_offset, image.end_offset) == (8, 11)


def test_a_removed_topic_leaves_no_settings(tmp_path: Path):
    """Also when both are in one batch, where Kafka's image keeps them."""
    records = [*topic_records(a="1"), metadata_record("RemoveTopicRecord", topicId=TOPIC_ID)]
    write_metadata_log(tmp_path, {0: metadata_batch(0, records)})

    image = read_metadata_image(tmp_path)

    assert (image.topics, image.configs) == ({}, {})


def test_a_removed_credential_takes_no_other_one(tmp_path: Path):
    """In one batch; Kafka's image may lose the one that was added."""
    credential = {"mechanism": 1}
    records = [
        metadata_record("UserScramCredentialRecord", name="a", iterations=1, **credential),
        metadata_record("RemoveUserScramCredentialRecord", name="a", **credential),
        metadata_record("UserScramCredentialRecord", name="b", iterations=2, **credential),
    ]
    write_metadata_log(tmp_path, {0: metadata_batch(0, records)})

    assert read_metadata_image(tmp_path).scram_iterations == {("b", 1): 2}


def test_batches_may_be_larger_than_what_is_read_at_once(tmp_path: Path):
    """The reader takes a file in pieces of 1 MiB."""
    long = [
        metadata_record("ConfigRecord", resourceType=2, resourceName="t", name=f"{n}", value=text)
        for n, text in enumerate(["x" * 30_000] * 200)
    ]
    log = b"".join(metadata_batch(at, long[at : at + 50]) for at in range(0, 200, 50))
    write_metadata_log(tmp_path, {0: log, 200: metadata_batch(200, topic_records())})

    image = read_metadata_image(tmp_path)

    assert len(image.topic_config("t")) == 200
    assert image.end_offset == 202


# ---- snapshots -----------------------------------------------------------------------------------


def test_records_before_the_end_of_a_snapshot_are_not_read_again(tmp_path: Path):
    """An older Kafka takes snapshots that end inside a batch."""
    directory = write_metadata_log(tmp_path, {0: FIRST + SECOND})
    write_snapshot(directory, 4, snapshot_bytes([topic_records(a="9")]))

    with pytest.raises(CorruptLogError, match="a topic that does not exist"):
        read_metadata_image(tmp_path)  # the topic of offset 3 is not in the snapshot
    write_snapshot(
        directory,
        4,
        snapshot_bytes([topic_records(a="9"), topic_records("clicks", UUID(int=8 << 64))[:1]]),
    )
    image = read_metadata_image(tmp_path)

    assert image.topic_config("orders") == {"a": "9"}
    assert image.topics["clicks"].partitions.keys() == {0}
    assert image.end_offset == 5


@pytest.mark.parametrize(("offset", "epoch"), [(3, EPOCH + 1), (9, EPOCH), (9, EPOCH - 1)])
def test_a_snapshot_may_replace_the_log(tmp_path: Path, offset: int, epoch: int):
    """[RAFT-23] One of a later epoch, and one that ends after the log."""
    directory = write_metadata_log(tmp_path, {0: LOG})
    write_snapshot(directory, offset, snapshot_bytes([topic_records(a="9")], epoch), epoch)

    image = read_metadata_image(tmp_path)

    assert (image.end_offset, image.last_epoch) == (offset, epoch)
    assert [*image.topics] == ["orders"]


def test_other_names_are_no_snapshots(tmp_path: Path):
    """[RAFT-21, RAFT-22] Those that are written or deleted, and any other."""
    directory = write_metadata_log(tmp_path, {0: LOG})
    stem = f"{9:020}-{9:010}"
    for name in (f"{stem}-1.checkpoint.part", f"{stem}.checkpoint.deleted", "9-9.checkpoint"):
        (directory / name).write_bytes(b"no snapshot")

    assert read_metadata_image(tmp_path).snapshot is None


def test_a_snapshot_that_is_cut_anywhere_is_passed_over(tmp_path: Path):
    """With the whole log its cut changes nothing."""
    directory = write_metadata_log(tmp_path, {0: LOG})
    whole = snapshot_bytes([topic_records(), topic_records("x", UUID(int=3))])
    expected = read_metadata_image(tmp_path)

    for size in range(len(whole)):
        file = write_snapshot(directory, 3, whole[:size])
        image = read_metadata_image(tmp_path)
        assert image == replace(expected, incomplete_snapshots=(file.name,)), size


def test_a_cut_snapshot_that_is_needed_is_an_error(tmp_path: Path):
    """The log begins where the snapshot ends: what came before is nowhere else."""
    directory = write_metadata_log(tmp_path, {3: SECOND + THIRD})
    whole = snapshot_bytes([topic_records()])

    for size in range(len(whole)):
        write_snapshot(directory, 3, whole[:size])
        with pytest.raises(CorruptLogError, match="lacks the records 0 to 2") as caught:
            read_metadata_image(tmp_path)
        assert caught.value.missing == (0, 3)
        assert caught.value.file == str(directory)
        assert says_what_it_found(caught.value)


def test_a_changed_byte_of_a_snapshot_is_an_error_or_changes_nothing(tmp_path: Path):
    """Length and offsets are checked by what follows them; the epoch of a batch says nothing."""
    directory = write_metadata_log(tmp_path, {3: SECOND + THIRD})
    whole = snapshot_bytes([topic_records()])
    write_snapshot(directory, 3, whole)
    expected = read_metadata_image(tmp_path)

    for at in range(len(whole)):
        file = write_snapshot(directory, 3, changed(whole, at))
        image, error = outcome(lambda: read_metadata_image(tmp_path), CorruptLogError)
        if error is None:
            assert image == expected, at
        else:
            assert str(file) in str(error) or "incomplete" in str(error)
            assert says_what_it_found(error)


def test_files_that_a_broker_deletes_meanwhile_are_looked_for_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """It took a newer snapshot: the older one and the segments before it go."""
    directory = write_metadata_log(tmp_path, {0: FIRST + SECOND, 5: THIRD})
    old = write_snapshot(directory, 3, snapshot_bytes([topic_records()]))
    expected = read_metadata_image(tmp_path)
    taken = snapshot_bytes([topic_records(), CLICKS])

    def broker(file: MetadataFile) -> bool:
        if old.exists():
            write_snapshot(directory, 5, taken)
            old.unlink()
            (directory / f"{0:020}.log").unlink()
        return is_whole_snapshot(file)

    monkeypatch.setattr(metadata_log_files, "is_whole_snapshot", broker)
    image = read_metadata_image(tmp_path)

    assert expected.snapshot == old.name
    assert image == replace(expected, snapshot=f"{5:020}-{EPOCH:010}.checkpoint")


def test_the_third_attempt_to_find_the_files_is_the_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Names without files are an error in the end."""
    write_snapshot(write_metadata_log(tmp_path, {0: LOG}), 3, snapshot_bytes([topic_records()]))
    attempts = []

    def gone(file: MetadataFile) -> bool:
        attempts.append(file.name)
        raise LogNotFoundError("there is no such file", file=file.path)

    monkeypatch.setattr(metadata_log_files, "is_whole_snapshot", gone)

    with pytest.raises(LogNotFoundError):
        read_metadata_image(tmp_path)
    assert len(attempts) == 3


# ---- damaged logs --------------------------------------------------------------------------------


def test_a_log_that_is_cut_anywhere_is_read_up_to_the_cut(tmp_path: Path):
    """An interrupted write leaves the begin of a batch; a broker cuts it off."""
    directory = write_metadata_log(tmp_path, {})
    images = {}
    for end in ENDS:
        write_metadata_log(tmp_path, {0: LOG[:end]})
        images[end] = read_metadata_image(tmp_path)

    for size in range(len(LOG)):
        write_metadata_log(tmp_path, {0: LOG[:size]})
        end = max(one for one in ENDS if one <= size)
        image = read_metadata_image(directory)
        assert image == replace(images[end], torn_bytes=size - end), size
    assert [images[end].end_offset for end in ENDS] == OFFSETS


def test_zeros_after_the_last_batch_are_an_interrupted_write(tmp_path: Path):
    """A file system may have the new size of a file and not its data."""
    write_metadata_log(tmp_path, {0: LOG + bytes(3_000_000)})

    image = read_metadata_image(tmp_path)

    assert (image.end_offset, image.torn_bytes) == (6, 3_000_000)


def test_a_segment_that_is_cut_before_another_is_an_error(tmp_path: Path):
    """Only the last one can be an interrupted write."""
    directory = write_metadata_log(tmp_path, {5: THIRD})

    for size in range(ENDS[2]):
        write_metadata_log(tmp_path, {0: LOG[:size]})
        with pytest.raises(CorruptLogError) as caught:
            read_metadata_image(tmp_path)
        reached = OFFSETS[sum(end <= size for end in ENDS) - 1]
        assert caught.value.missing == (reached, 5), size
        assert str(directory) in str(caught.value.file)


def test_a_changed_byte_of_a_log_is_an_error_or_changes_nothing(tmp_path: Path):
    """A wrong length of the last batch looks like an interrupted write; its epoch has no check."""
    directory = write_metadata_log(tmp_path, {0: LOG})
    expected = read_metadata_image(tmp_path)
    before = replace(expected, end_offset=5, torn_bytes=len(THIRD))

    for at in range(len(LOG)):
        write_metadata_log(tmp_path, {0: changed(LOG, at)})
        image, error = outcome(lambda: read_metadata_image(tmp_path), CorruptLogError)
        if error is None:
            possible = [expected, before] if at >= ENDS[2] else [expected]
            assert replace(image, last_epoch=EPOCH) in possible, at
        else:
            assert error.file == str(directory / f"{0:020}.log"), at
            assert error.position is not None
            assert says_what_it_found(error)


@pytest.mark.parametrize(
    ("segments", "message"),
    [
        ({3: SECOND}, "lacks the records 0 to 2"),
        ({0: FIRST, 5: THIRD}, "lacks the records 3 to 4"),
        ({0: FIRST + THIRD}, "does not follow the one before it"),
        ({0: FIRST + FIRST}, "does not follow the one before it"),
        ({0: FIRST + b"x" * 200}, "is damaged"),
        ({0: SECOND}, "does not follow the one before it"),
    ],
)
def test_a_log_that_lacks_records_is_an_error(
    tmp_path: Path, segments: dict[int, bytes], message: str
):
    write_metadata_log(tmp_path, segments)

    with pytest.raises(CorruptLogError, match=message) as caught:
        read_metadata_image(tmp_path)
    assert caught.value.file
    assert says_what_it_found(caught.value)


def test_a_snapshot_begins_with_its_header(tmp_path: Path):
    """[RAFT-48] Any other whole file of batches is none."""
    directory = write_metadata_log(tmp_path, {0: LOG})
    write_snapshot(directory, 3, LOG)

    with pytest.raises(CorruptLogError, match="does not begin with a snapshot header"):
        read_metadata_image(tmp_path)


CHANGE = {"topicId": TOPIC_ID, "partitionId": 0}
BROKER = metadata_record("RegisterBrokerRecord", brokerId=1, brokerEpoch=2)


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (b"", "cannot be read"),
        (b"\x01\x02\x00", "cannot be read"),
        (b"\x02\x02\x00", "frame version 2"),
        (metadata_record("TopicRecord") + b"x", "1 byte.* of garbage"),
        (record_of(2, 1), "a later Kafka wrote it"),
        (metadata_record("RemoveTopicRecord", topicId=UUID(int=1)), "a topic that does not exist"),
        (metadata_record("PartitionRecord", topicId=UUID(int=1)), "a topic that does not exist"),
        (metadata_record("PartitionChangeRecord", topicId=TOPIC_ID, partitionId=4), "a partition"),
        (metadata_record("PartitionChangeRecord", **CHANGE, directories=[TOPIC_ID] * 2), "another"),
        (metadata_record("PartitionChangeRecord", **CHANGE, leaderRecoveryState=2), "recovery"),
        (metadata_record("ClearElrRecord", topicName="x"), "a topic that does not exist"),
        (metadata_record("FenceBrokerRecord", id=2), "a broker that does not exist"),
        (metadata_record("UnfenceBrokerRecord", id=1, epoch=3), "in another epoch"),
        (
            metadata_record("BrokerRegistrationChangeRecord", brokerId=1, brokerEpoch=2, fenced=5),
            "a change of a broker that does not exist",
        ),
        (metadata_record("RemoveAccessControlEntryRecord"), "an access control entry"),
        (metadata_record("EndTransactionRecord"), "do not follow each other"),
    ],
)
def test_a_record_that_cannot_be_is_an_error(tmp_path: Path, record: bytes, message: str):
    """Records before it are missing, or its bytes are none of Kafka's."""
    directory = write_metadata_log(
        tmp_path, {0: metadata_batch(0, [*topic_records(), BROKER]) + metadata_batch(3, [record])}
    )

    with pytest.raises(CorruptLogError, match=message) as caught:
        read_metadata_image(tmp_path)

    assert caught.value.file == str(directory / f"{0:020}.log")
    assert caught.value.position == len(metadata_batch(0, [*topic_records(), BROKER]))
    assert "the record with offset 3" in str(caught.value)
    assert says_what_it_found(caught.value)


@given(st.binary(max_size=300))
def test_any_bytes_are_an_image_or_an_error(tmp_path_factory: pytest.TempPathFactory, data: bytes):
    """With a right checksum, and without."""
    folder = tmp_path_factory.mktemp("log")
    for content in (data, metadata_batch(0, [data]), metadata_batch(0, [b"\x01" + data])):
        write_metadata_log(folder, {0: content})
        image, error = outcome(lambda: read_metadata_image(folder), CorruptLogError)
        assert image is not None or says_what_it_found(error)


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_record_that_is_cut_is_an_error(tmp_path: Path, name: str):
    """Of every type, at every byte."""
    whole = metadata_record(name)
    for size in range(len(whole)):
        write_metadata_log(tmp_path, {0: metadata_batch(0, [whole[:size]])})
        with pytest.raises(CorruptLogError, match="cannot be read") as caught:
            read_metadata_image(tmp_path)
        assert isinstance(caught.value.__cause__.__cause__, MessageError)
