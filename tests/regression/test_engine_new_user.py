"""What a new user of the engine ran into: one profile behind the other, locks, wrong arguments."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import struct
import uuid

import pytest

import segstore
from segstore import AppendOrigin, MemoryRecords, ProducerStateManagerConfig, VerificationGuard
from segstore.errors import (
    ArgumentTypeError,
    CorruptCheckpointError,
    IllegalArgumentError,
    InvalidOffsetError,
    InvalidTxnStateError,
    LogLockedError,
    LogTruncatedError,
)
from tests.kits.log_kit import batch, offsets

ONE = [(None, b"x")]


def fill(log, count: int, word: bytes = b"%d") -> None:
    for number in range(count):
        log.append([(None, word % number)])


# ---- the safe profile behind Kafka's -------------------------------------------------------------


def test_a_truncation_by_a_kafka_handle_is_no_loss_to_a_safe_one(tmp_path):
    """[DUR-62, LOC-4] The safe recovery point stayed above the log end and locked writers out."""
    path = tmp_path / "b-0"
    with segstore.open(path) as log:
        fill(log, 30)
    with segstore.open(path, recovery="kafka") as log:
        log.truncate_to(5)

    with segstore.open(path) as log:
        assert offsets(log) == [0, 1, 2, 3, 4]


def test_a_kafka_handle_leaves_no_clean_marker_of_a_safe_one(tmp_path):
    """[DUR-24, DUR-62] A kill behind it looked like a clean stop, its torn tail like damage."""
    path = tmp_path / "b-0"
    with segstore.open(path) as log:
        fill(log, 30)
    log = segstore.open(path, recovery="kafka")
    log.truncate_to(5)
    fill(log, 25)
    log.close_quietly()
    with (path / f"{0:020d}.log").open("r+b") as file:
        file.seek(-20, os.SEEK_END)
        file.write(bytes(20))

    with segstore.open(path) as log:
        assert not log.report.clean
        assert offsets(log) == list(range(29))


def test_a_log_start_that_a_kafka_handle_went_below(tmp_path):
    """[DUR-5, DUR-62] Else all that it wrote there would count as deleted."""
    path = tmp_path / "b-0"
    with segstore.open(path) as log:
        fill(log, 40)
        log.delete_records(30)
    with segstore.open(path, recovery="kafka") as log:
        log.truncate_fully_and_start_at(5)
        fill(log, 10)

    with segstore.open(path) as log:
        assert offsets(log) == list(range(5, 15))


def test_the_log_directorys_recovery_point_comes_down_too(tmp_path):
    """As a broker's LogManager writes it behind a truncation."""
    (tmp_path / "meta.properties").write_text("version=1\n")
    (tmp_path / "recovery-point-offset-checkpoint").write_text("0\n2\nb 0 30\nother 0 7\n")
    path = tmp_path / "b-0"
    with segstore.open(path) as log:
        fill(log, 30)
    with segstore.open(path, recovery="kafka") as log:
        log.truncate_to(5)

    text = (tmp_path / "recovery-point-offset-checkpoint").read_text()
    assert sorted(text.split("\n")[2:-1]) == ["b 0 5", "other 0 7"]
    with segstore.open(path) as log:
        assert log.log_end_offset == 5


def _try_as_kafka(path: str, answers) -> None:
    try:
        segstore.open(path, recovery="kafka").close()
        answers.put("opened")
    except LogLockedError:
        answers.put("locked")


def test_a_kafka_handle_respects_the_lock_of_a_safe_one(tmp_path):
    """[DUR-65] In another process both appended at one offset."""
    path = tmp_path / "a-0"
    log = segstore.open(path)
    fill(log, 1)
    context = multiprocessing.get_context("spawn")
    answers = context.Queue()
    process = context.Process(target=_try_as_kafka, args=(str(path), answers))
    process.start()
    assert answers.get(timeout=60) == "locked"
    process.join()
    log.close()
    with segstore.open(path, recovery="kafka") as other:
        assert other.append(ONE).base_offset == 1


def test_each_partition_of_a_log_directory_has_a_state_of_its_own(tmp_path):
    """[DUR-62] The second was refused: "another process has the log open"."""
    state = tmp_path / "state"
    for name in ("k-0", "k-1"):
        (tmp_path / "logs" / name).mkdir(parents=True)
    with segstore.open_dir(tmp_path / "logs", recovery="kafka", state_dir=state) as logs:
        for partition in (0, 1):
            logs.log("k", partition).append(ONE)
    assert sorted(one.name for one in state.iterdir()) == ["k-0", "k-1"]

    first = segstore.open(tmp_path / "x-0", recovery="kafka", state_dir=tmp_path / "sd")
    with pytest.raises(LogLockedError, match="another log with this state_dir"):
        segstore.open(tmp_path / "x-1", recovery="kafka", state_dir=tmp_path / "sd")
    first.close()
    with pytest.raises(IllegalArgumentError, match="state_dir is empty"):
        segstore.open(tmp_path / "x-2", recovery="kafka", state_dir="")
    assert not (tmp_path / "x-2").exists()


# ---- small files ---------------------------------------------------------------------------------


def test_an_emptied_epoch_checkpoint_is_made_anew(tmp_path):
    """[DUR-21] Epochs were gone without a word."""
    path = tmp_path / "e-0"
    with segstore.open(path, durability="none") as log:
        for epoch in range(3):
            for _ in range(4):
                log.append_as_leader(MemoryRecords.with_records(ONE), leader_epoch=epoch)
    (path / "leader-epoch-checkpoint").write_bytes(b"")

    with segstore.open(path) as log:
        assert log.end_offset_for_epoch(0) == (0, 4)
        assert "leader-epoch-checkpoint" in log.report.rebuilt


def test_the_topic_id_of_a_log_that_is_read(tmp_path):
    """It was an AttributeError."""
    topic_id = uuid.uuid4()
    segstore.open(tmp_path / "t-0", topic_id=topic_id).close()

    with segstore.open(tmp_path / "t-0", read_only=True) as log:
        assert log.topic_id == topic_id


def test_no_topic_has_the_id_zero(tmp_path):
    """[UNI-5] It was written, and could not be read."""
    zero = uuid.UUID(int=0)
    with pytest.raises(IllegalArgumentError, match="zero"):
        segstore.open(tmp_path / "t-0", topic_id=zero)
    with segstore.open(tmp_path / "t-0") as log, pytest.raises(IllegalArgumentError, match="zero"):
        log.assign_topic_id(zero)
    (tmp_path / "t-0" / "partition.metadata").write_text("version: 0\ntopic_id: nothing\n")
    with pytest.raises(CorruptCheckpointError) as caught:
        segstore.open(tmp_path / "t-0", topic_id=uuid.uuid4())
    assert caught.value.file == str(tmp_path / "t-0" / "partition.metadata")


# ---- readers of a log that is written ------------------------------------------------------------


def test_a_scan_beside_a_truncation_of_another_handle(tmp_path):
    """[DUR-77] It told of bytes that are no batch: of corruption, in a log without any."""
    writer = segstore.open(tmp_path / "z-0", durability="none", internal_segment_bytes=300)
    fill(writer, 20)
    records = iter(segstore.open(tmp_path / "z-0", read_only=True).scan())
    assert next(records).offset == 0
    writer.truncate_to(5)

    with pytest.raises(LogTruncatedError):
        list(records)
    writer.close()


# ---- arguments -----------------------------------------------------------------------------------


def test_the_last_offset_of_all_is_refused(tmp_path):
    """The log end behind it is no offset: it was an OverflowError, and the log could not go on."""
    data = bytearray(batch([(1, None, b"f"), (1, None, b"g")]))
    struct.pack_into(">q", data, 0, 2**63 - 2)  # no builder makes such a batch
    struct.pack_into(">i", data, 12, 0)
    records = MemoryRecords(bytes(data))
    for profile in ("safe", "kafka"):
        with segstore.open(tmp_path / f"{profile}-0", recovery=profile) as log:
            with pytest.raises(InvalidOffsetError, match="no offset is left"):
                log.append_as_follower(records, 0)
            assert log.append(ONE).base_offset == 0


def test_arguments_of_another_type(new_log, tmp_path):
    """Each is an ArgumentTypeError that says what was expected."""
    log = new_log(replicated=True)
    calls = [
        lambda: log.maybe_increment_high_watermark(5),
        lambda: log.set_high_watermark_listener(5),
        lambda: log.rename_dir(None),
        lambda: log.rename_dir(3),
        lambda: log.append_as_follower(MemoryRecords.with_records(ONE), True),
        lambda: log.append_as_leader(MemoryRecords.with_records(ONE), verification_guard=3),
        lambda: log.append_as_leader(MemoryRecords.with_records(ONE), transaction_version="2"),
        lambda: log.append_as_leader(MemoryRecords.with_records(ONE), origin=1),
        lambda: segstore.MessageSetSend(3),
        lambda: segstore.MessageSetSend(b"abc"),
        lambda: segstore.MessageSetSend.of_error(None),
        lambda: segstore.MultiMessageSetSend([3]),
        lambda: segstore.MultiMessageSetSend(None),
        lambda: segstore.open(tmp_path / "x-0", producer_config={}),
    ]
    for call in calls:
        with pytest.raises(ArgumentTypeError) as caught:
            call()
        assert caught.value.expected
    with pytest.raises(IllegalArgumentError, match="an error has no messages"):
        segstore.MessageSetSend(MemoryRecords.with_records(ONE), 3)


# ---- what could not be reached -------------------------------------------------------------------


def test_a_transaction_by_public_names_alone(tmp_path):
    """[PSM-30, PSM-36, TRN-1] Batches, markers, verification and what producers go by."""
    config = ProducerStateManagerConfig(transaction_verification_enabled=True)
    producer = {"producer_id": 7, "producer_epoch": 0}
    batch = MemoryRecords.with_records(ONE, **producer, base_sequence=0, transactional=True)
    with segstore.open(tmp_path / "t-0", producer_config=config) as log:
        with pytest.raises(InvalidTxnStateError):
            log.append_as_leader(batch)
        guard = log.maybe_start_transaction_verification(7, 0, 0)
        assert isinstance(guard, VerificationGuard)
        log.append_as_leader(batch, verification_guard=guard)
        assert offsets(log.scan(isolation="read_committed")) == []
        marker = MemoryRecords.with_end_transaction_marker(**producer, commit=True)
        log.append_as_leader(marker, origin=AppendOrigin.COORDINATOR, transaction_version=1)
        assert offsets(log.scan(isolation="read_committed")) == [0]
        assert [entry.producer_id for entry in log.active_producers()] == [7]
    shutil.rmtree(tmp_path / "t-0")
