"""Handles and their arguments: what a new user and a strict reader ran into."""

from __future__ import annotations

import copy
import multiprocessing
import os
import pickle
import random
import shutil
import signal
import struct
import subprocess
import sys
import time
import uuid
from contextlib import contextmanager
from pathlib import Path

import pytest

import segstore
from segstore import (
    AppendOrigin,
    Isolation,
    LogConfig,
    MemoryRecords,
    MessageSetReader,
    ProducerStateManagerConfig,
    VerificationGuard,
    _core,
)
from segstore.errors import (
    ArgumentTypeError,
    ClosedError,
    CorruptCheckpointError,
    FsyncFailedError,
    IllegalArgumentError,
    IllegalStateError,
    InvalidOffsetError,
    InvalidProducerEpochError,
    InvalidTxnStateError,
    LogLockedError,
    LogReadOnlyError,
    LogTruncatedError,
    OutOfOrderSequenceError,
    ReadIOError,
    RecordTypeError,
    TransferTimeoutError,
)
from segstore.log import log_opener
from segstore.log.local.local_log import LocalLog
from segstore.log.local.transaction_index import TransactionIndex
from segstore.log.salvage import salvage_target
from segstore.log.unified_log import Log
from tests.kits.log_kit import batch, offsets
from tests.tidy.project_files import ROOT

# ---- arguments of a new user ---------------------------------------------------------------------
# Wrong arguments that were taken, or refused by an error that was not the library's own.


@pytest.fixture
def log(tmp_path):
    with segstore.open(tmp_path / "a-0") as opened:
        yield opened


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda _: MemoryRecords.with_records(None), RecordTypeError),
        (lambda _: LogConfig.from_properties(None), ArgumentTypeError),
        (lambda _: MessageSetReader(None), ArgumentTypeError),
        (lambda log: log.message_set_reader(isolation="best"), IllegalArgumentError),
        (lambda log: log.flush(force_active_segment="no"), ArgumentTypeError),
    ],
)
def test_a_wrong_argument_is_refused_at_the_call(log, call, error):
    """Bad input is an error that names what was found and what was expected."""
    with pytest.raises(error) as caught:
        call(log)
    assert caught.value.found
    assert caught.value.expected


def test_a_file_that_is_open_to_read_takes_nothing(log, tmp_path):
    """Before a byte is sent."""
    log.append([(None, b"v")])
    (tmp_path / "out").write_bytes(b"")
    with (tmp_path / "out").open("rb") as file:
        for source in (log.slice(0, 100), log.read(0, 100)):
            with pytest.raises(ArgumentTypeError, match="not opened for writing"):
                source.write_to(file)


def test_any_pause_is_one(log):
    """A pause that the clock has no number for is a very long one."""
    assert list(log.tail(0, timeout=0.01, poll_interval=2**63)) == []


@pytest.mark.parametrize("name", ["segment.bytes", "segmentbytes", "segment_byte", "SegmentBytes"])
def test_a_setting_that_is_spelt_otherwise_is_told_by_its_name(name):
    """One name, not all that there are."""
    with pytest.raises(IllegalArgumentError, match=r"expected segment_bytes\)"):
        LogConfig().with_changes(**{name: 1})


def test_a_setting_that_is_like_none_gets_the_list():
    with pytest.raises(IllegalArgumentError, match="segment_bytes"):
        LogConfig().with_changes(compressionnn_of_all=1)


def test_errors_of_producers_name_the_log(log):
    """[APP-13] And a marker of an old epoch ends a transaction: it does not begin one."""

    def send(sequence, epoch=3):
        batch = MemoryRecords.with_records(
            [(b"k", b"v")],
            producer_id=4,
            producer_epoch=epoch,
            base_sequence=sequence,
            transactional=True,
        )
        log.append_as_leader(batch)

    send(0)
    with pytest.raises(OutOfOrderSequenceError) as caught:
        send(7)
    assert caught.value.file == log.path
    old = MemoryRecords.with_end_transaction_marker(producer_id=4, producer_epoch=2, commit=True)
    with pytest.raises(InvalidProducerEpochError, match="older than its last one, 3") as caught:
        log.append_as_leader(old, origin=AppendOrigin.COORDINATOR, transaction_version=1)
    assert caught.value.file == log.path


# ---- engine new user -----------------------------------------------------------------------------
# What a new user of the engine ran into: one profile behind the other, locks, wrong arguments.


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


# ---- engine review -------------------------------------------------------------------------------
# What a strict reader of the engine's wiring found: each lost, hid or brought back something.


def begin(log, producer_id: int, sequence: int = 0) -> None:
    """Append one record of a transaction."""
    log.append_as_leader(
        batch(
            [(None, b"t")],
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=sequence,
            transactional=True,
            timestamp=_core.wall_clock_ms(),
        )
    )


def end(log, producer_id: int, *, commit: bool) -> None:
    marker = _core.encode_end_transaction_marker(
        0, _core.wall_clock_ms(), 0, producer_id, 0, commit=commit, coordinator_epoch=0
    )
    log.append_as_leader(marker, origin=AppendOrigin.COORDINATOR, transaction_version=1)


def committed(log) -> list[int]:
    return offsets(log.scan(isolation="read_committed"))


def test_an_open_that_dies_before_the_transaction_indexes_are_made(tmp_path, monkeypatch):
    """[DUR-52, DUR-56] The recovery point moved first, and the aborted records came back."""
    path = tmp_path / "t-0"
    log = segstore.open(path, durability="none")
    begin(log, 1)
    end(log, 1, commit=False)
    log.roll()
    log.append(ONE)
    assert log._background.wait_until_idle()
    log.close_quietly()
    (path / "recovery-point-offset-checkpoint").unlink(missing_ok=True)

    def dies(*_arguments):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(log_opener, "recover_producers", dies)
        with pytest.raises(KeyboardInterrupt):
            segstore.open(path)
    for index in path.glob("*.txnindex"):
        index.unlink()
    with segstore.open(path) as log:
        assert committed(log) == [2]


def test_a_renamed_log_keeps_its_log_start(tmp_path):
    """[DUR-5, REN-1] The checkpoints said it of the old name only."""
    log = segstore.open(tmp_path / "orders-0")
    for number in range(10):
        log.append([(None, b"%d" % number)])
    log.maybe_increment_log_start_offset(7)
    log.rename_dir("other-0")
    assert str(log.topic_partition) == "other-0"
    log.append(ONE)
    log.close_quietly()

    with segstore.open(tmp_path / "other-0") as log:
        assert offsets(log) == [7, 8, 9, 10]


def test_delete_leaves_another_log_of_the_same_name(tmp_path):
    """[DEL-1] It went by the path, and took what somebody else had put there."""
    path = tmp_path / "orders-0"
    moved = segstore.open(path)
    moved.append(ONE)
    path.rename(tmp_path / "saved-0")
    with segstore.open(path) as other:
        other.append(ONE * 2)
        with pytest.raises(IllegalStateError, match="moved"):
            moved.delete()
        assert offsets(other) == [0, 1]
    assert (tmp_path / "saved-0" / f"{0:020d}.log").exists()


def test_delete_takes_the_whole_directory(tmp_path):
    """[DEL-1] Under another name first."""
    log = segstore.open(tmp_path / "orders-0")
    log.append(ONE)
    log.delete()
    assert os.listdir(tmp_path) == []  # noqa: PTH208 - names


def test_the_lane_is_closed_by_a_rename_for_deletion(tmp_path):
    """[REN-1, D11] A record was acknowledged that went with the directory."""
    log = segstore.open(tmp_path / "t-0", durability="none")
    log.append(ONE)
    log.append(ONE)
    log.rename_dir(f"t-0.{'0' * 32}-delete", reinitialize=False)
    with pytest.raises(IllegalStateError, match="was deleted"):
        log.append(ONE)
    log.close_quietly()


def test_the_lane_stamps_an_epoch_that_was_assigned(tmp_path):
    """[EPC-2, D11]"""
    with segstore.open(tmp_path / "t-0", durability="none") as log:
        log.append(ONE)
        log.append(ONE)
        log.assign_epoch_start_offset(5, 2)
        log.append(ONE)
        assert log.read(2, 1000).headers["partition_leader_epoch"].tolist() == [5]


def test_ctrl_c_behind_an_abort_marker_ends_writing(tmp_path, monkeypatch):
    """[APP-16, DUR-38] The marker was there, its line in the index was not: aborted data showed."""
    path = tmp_path / "t-0"
    log = segstore.open(path)
    begin(log, 1)

    def dies(*_arguments):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(LocalLog, "append_aborted", dies)
        with pytest.raises(KeyboardInterrupt):
            end(log, 1, commit=False)
    with pytest.raises(LogReadOnlyError):
        log.append(ONE)
    with pytest.raises(LogReadOnlyError):
        log.close()
    with segstore.open(path) as log:
        assert committed(log) == []
        log.append(ONE)
        assert committed(log) == [2]


def test_a_line_of_the_index_beside_a_sync_is_synced_by_the_next(tmp_path, monkeypatch):
    """[DUR-13] It was noted before it was written, and a running sync took the note away."""
    with segstore.open(tmp_path / "t-0", durability="none") as log:
        begin(log, 1)
        end(log, 1, commit=False)
        begin(log, 2)
        indexes = log._local_log.transaction_indexes
        flush = TransactionIndex.flush

        def flush_with_another_line(index) -> None:
            flush(index)
            monkeypatch.undo()
            end(log, 2, commit=False)

        monkeypatch.setattr(TransactionIndex, "flush", flush_with_another_line)
        indexes.sync(0)
        assert 0 in indexes.unsynced
        indexes.sync(0)
        assert 0 not in indexes.unsynced


def test_new_flush_settings_have_a_timer(tmp_path):
    """[DUR-14, UNI-7] They were told, and nobody kept them."""
    with segstore.open(tmp_path / "t-0", durability="none") as log:
        log.update_config(log.config.with_changes(flush_ms=20))
        log.append(ONE)
        deadline = _core.monotonic_ns() + 10_000_000_000
        while log.durable_offset < 1 and _core.monotonic_ns() < deadline:
            log._background.wait_until_idle(0.1)
        assert log.durable_offset == 1


def test_a_failed_sync_of_a_forced_flush_ends_writing(tmp_path, monkeypatch):
    """[DUR-35]"""
    log = segstore.open(tmp_path / "t-0", durability="none")
    log.append(ONE)
    log.flush()

    def fails(*_arguments, **_how):
        raise FsyncFailedError("cannot sync", file="0.log")

    with monkeypatch.context() as patch:
        patch.setattr(type(log.segments()[0]), "flush", fails, raising=False)
        with pytest.raises(FsyncFailedError):
            log.flush(force_active_segment=True)
    with pytest.raises(LogReadOnlyError):
        log.append(ONE)
    log.close_quietly()


def test_a_fetch_of_committed_data_across_a_truncation_says_so(tmp_path, monkeypatch):
    """[DUR-77] The bytes were of before, the aborted list of after."""
    with segstore.open(tmp_path / "t-0", durability="none", replicated=True) as log:
        begin(log, 1)
        end(log, 1, commit=False)
        log.append(ONE)
        log.update_high_watermark(3)
        fetch = LocalLog.fetch

        def cut_behind(local_log, *arguments, **how):
            found = fetch(local_log, *arguments, **how)
            monkeypatch.undo()
            log.truncate_to(1)
            return found

        monkeypatch.setattr(LocalLog, "fetch", cut_behind)
        with pytest.raises(LogTruncatedError):
            log.read(0, 1000, "read_committed")


def test_verifications_without_a_batch_are_forgotten(tmp_path):
    """[PSM-45] The task that does so began with the first producer."""
    with segstore.open(tmp_path / "t-0", durability="none") as log:
        log.maybe_start_transaction_verification(1, 0, 0)
        assert log._expiration.is_running


# ---- handles of a new user -----------------------------------------------------------------------
# What a handle says of itself: pickled, printed, listed, on another system.


@pytest.mark.parametrize("way", [pickle.dumps, copy.copy, copy.deepcopy])
def test_a_handle_that_is_pickled_says_what_to_do_instead(tmp_path, way):
    """[data/36] It was Cython's ``no default __reduce__``.

    Looked for beside logs: scans, managers, fetches, slices. Records, answers, reports, settings
    and errors are values, and can be pickled.
    """
    with (
        segstore.open(tmp_path / "handles-0") as log,
        segstore.open_dir(tmp_path, read_only=True) as manager,
    ):
        log.append([(b"k", b"v")])
        for handle, advice in (
            (log, "segstore.open(path"),
            (log.scan(), "path of the log"),
            (log.read(0, 100), "bytes(fetch.records)"),
            (log.slice(0, 100), "slice.read()"),
            (log.segments()[0], "base offset"),
            (manager, "segstore.open_dir(path"),
        ):
            with pytest.raises(TypeError, match="cannot be pickled") as caught:
                way(handle)
            assert isinstance(caught.value, segstore.SegstoreError)
            assert advice in str(caught.value)
        for value in (next(iter(log)), log.append([(None, b"1")]), segstore.LogConfig()):
            assert pickle.loads(pickle.dumps(value)) == copy.deepcopy(value) == value
        (batch,) = log.read(0, 100).batches()
        for copied in (pickle.loads(pickle.dumps(batch)), copy.copy(batch), copy.deepcopy(batch)):
            assert list(copied) == list(batch)
            assert repr(copied) == repr(batch)


def test_a_record_with_a_large_value_is_printed_short():
    """[data/14] Looked for beside it: keys, texts and values of headers, many headers."""
    large = segstore.Record(
        key=b"k" * 500_000,
        value=b"v" * 500_000,
        headers=[("h" * 5000, b"x" * 5000)] * 5000,
    )
    small = segstore.Record(key=b"k", value=None, headers=[("h", b"1")])

    assert len(repr(large)) < 2000
    assert "b'" + "v" * 32 + "'... (500000 bytes)" in repr(large)
    assert "(5000 headers)" in repr(large)
    assert "key=b'k', value=None, headers=(('h', b'1'),)" in repr(small)
    assert "headers=()" in repr(segstore.Record(value=b"v" * 64))
    assert "headers=(('a', None), ('b', b''))" in repr(
        segstore.Record(headers=[("a", None), ("b", b"")])
    )


def test_the_names_of_the_package_are_those_that_are_public():
    assert dir(segstore) == sorted(segstore.__all__)
    assert {
        "EpochEntry",
        "LogAppendInfo",
        "LogOffsetSnapshot",
        "LogScan",
        "RecordBatch",
        "Segment",
        "VerifyReport",
    } <= {*segstore.__all__}


@pytest.mark.parametrize("system", ["win32", "darwin"])
@pytest.mark.parametrize("script", ["import segstore", "import runpy; runpy.run_path('setup.py')"])
def test_another_system_gets_one_sentence(system, script):
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            f"import setuptools.command.build_ext, sys; sys.platform = {system!r}; {script}",
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 1
    assert "segstore runs on Linux only" in done.stderr.splitlines()[-1]


# ---- lanes review --------------------------------------------------------------------------------
# What a strict reader of the lanes, of lazily opened segments and of salvage found.


def test_a_segment_that_nobody_opened_yet_is_asked_for_a_bound(new_log):
    """[LOC-9] It was asked for its base offset before it was there: the process died."""
    log = new_log(internal_segment_bytes=200)
    for _ in range(9):
        log.append(ONE)
    log.close()
    log = new_log(internal_segment_bytes=200)
    segment = log.segments()[1]
    assert segment.fetch_upper_bound_offset(0, 1_000_000) is None
    log.close()
    with pytest.raises(ClosedError):
        segment.fetch_upper_bound_offset(0, 100)


def test_answers_hash_as_the_tuples_that_they_are(new_log):
    """From CPython 3.14 on a tuple remembers its hash, and answers reuse memory."""
    log = new_log()
    for _ in range(3):
        info = log.append(ONE)
        assert hash(info) == hash(tuple(info))
        end = log._local_log.log_end
        assert hash(end) == hash(tuple(end))
        del info, end


def descriptors_below(folder: Path) -> list[str]:
    found = []
    for one in Path("/proc/self/fd").iterdir():
        try:
            target = str(one.readlink())
        except FileNotFoundError:  # of the listing itself
            continue
        if target.startswith(f"{folder}/") and target.endswith(" (deleted)"):
            found.append(target)
    return found


def test_a_read_keeps_no_file_of_a_deleted_segment(new_log, tmp_path):
    """[DUR-19] Retention freed nothing of what one read had seen."""
    log = new_log(internal_segment_bytes=200, file_delete_delay_ms=0)
    for _ in range(30):
        log.append(ONE)
    assert len(offsets(log.read(0, 100))) == 1
    log.delete_records(25)
    assert log._background.wait_until_idle()
    assert descriptors_below(tmp_path) == []
    assert offsets(log.read(25, 60)) == [25]


def test_a_state_directory_that_is_the_partitions_own(tmp_path):
    """[DUR-62] The second open took its own lock for somebody else's."""
    path = tmp_path / "t-0"
    for offset in range(3):
        with segstore.open(path, recovery="kafka", state_dir=path) as log:
            assert log.append(ONE).base_offset == offset


def test_arguments_are_looked_at_before_the_lane(new_log):
    """Whether a wrong one was refused went by the state of the lane."""
    log = new_log()
    sent = bytes(MemoryRecords.with_records(ONE).data)
    log.append_as_leader(sent)
    for wrong in ({"verification_guard": "nonsense"}, {"transaction_version": "2"}):
        with pytest.raises(ArgumentTypeError):
            log.append_as_leader(sent, **wrong)
    assert log.log_end_offset == 1


def test_bytes_that_the_disk_does_not_give_are_no_zeros():
    """They were read once more to see whether they are zeros: one small file ended a salvage."""

    class Source:
        class directory:  # noqa: N801 - an attribute
            @staticmethod
            def read_range(*_: object) -> bytes:
                raise ReadIOError("no")

    target = object.__new__(salvage_target.SalvageTarget)
    target._source = Source
    assert target._is_zero("00000000000000000000.log", 0, 70) is False


# ---- log over collaborators ----------------------------------------------------------------------
# What a handle promised as one class holds over its collaborators, too.
#
# Also looked for: other context managers in Python that hold the append lock (none is left), other
# answers that a reader's handle gives although it takes no changes, and numbers that a collaborator
# was given once and that move afterwards (the log start of a check).


TIMES = 2_000
SLOWEST_SECONDS = 20


@contextmanager
def interrupts():
    """Let a timer raise KeyboardInterrupt, once for each time that it is set."""

    def interrupt(*_):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_an_interrupted_change_keeps_no_lock(tmp_path):
    """[DUR-70] A context manager in Python kept it, one time in ten, while its traceback lived."""
    kept, end = 0, time.monotonic() + SLOWEST_SECONDS
    choice = random.Random(7)
    with segstore.open(tmp_path / "t-0", durability="none") as log, interrupts():
        log.append([(b"k", b"v")])
        for _ in range(TIMES):
            try:
                signal.setitimer(signal.ITIMER_REAL, choice.uniform(1e-6, 4e-5))
                while True:
                    log.maybe_increment_log_start_offset(0)
            except KeyboardInterrupt:
                kept += log._append_lock.locked()
            if time.monotonic() > end:
                break

        assert kept == 0
        assert log.append([(b"k", b"w")]).base_offset == 1


def test_what_a_log_to_be_read_answers(tmp_path):
    """It has all of `UnifiedLog`: what only looks answers, the rest is refused."""
    with segstore.open(tmp_path / "t-0") as log:
        log.append([(b"k", b"v")])
    with segstore.open(tmp_path / "t-0", read_only=True) as log:
        assert type(log) is Log
        assert log.collect_aborted_transactions(0, 1) == []
        assert log.retention_size_in_percent == 0
        log.set_high_watermark_listener(None)
        for name in ("append", "truncate_to", "flush", "delete", "update_config"):
            with pytest.raises(LogReadOnlyError):
                getattr(log, name)()
        with pytest.raises(LogReadOnlyError):
            _ = log.producer_id_count
        with pytest.raises(AttributeError):
            _ = log.no_such_thing


def test_a_readers_lane_looks_at_the_segment_before_in_each_profile(tmp_path):
    """[DUR-54, DUR-79] Kafka's profile believes the files of a log that it writes, not others."""
    with segstore.open(tmp_path / "t-0") as log:
        for value in (b"a", b"moved", b"b", b"c"):
            if value in {b"b", b"c"}:
                log.roll()
            log.append([(1000, b"k", value)])
        with segstore.open(tmp_path / "t-0", read_only=True, recovery="kafka") as reader:
            with (tmp_path / "t-0" / f"{0:020}.log").open("r+b") as file:
                (length,) = struct.unpack(">i", file.read(12)[8:])
                file.seek(12 + length)
                file.write(struct.pack(">q", 2))  # the offset of another segment's record
            by_lane = reader.read(0, 10_000)
            by_layers = reader._reader.fetch(0, 10_000, Isolation.LOG_END, min_one_message=True)

            assert [one.value for one in by_lane] == [one.value for one in by_layers] == [b"a"]
            assert by_lane.end_offset == by_layers.end_offset == 2


def test_a_check_looks_at_the_log_as_it_is_now(tmp_path):
    """[DUR-71] What was deleted since a reader was opened is not missing."""
    with segstore.open(tmp_path / "t-0", file_delete_delay_ms=0) as log:
        for _ in range(6):
            log.append([(b"k", b"v")])
            log.roll()
        with segstore.open(tmp_path / "t-0", read_only=True) as reader:
            log.delete_records(4)
            report = reader.verify()

    assert report.ok
    assert (report.log_start_offset, report.segments[0].base_offset) == (4, 4)


def test_a_slice_keeps_its_log(tmp_path):
    """[DUR-77] As long as it is there nobody else writes what it is about to send."""
    with segstore.open(tmp_path / "t-0") as log:
        log.append([(b"k", b"old")])
    slice_of_it = segstore.open(tmp_path / "t-0").slice(0, 1000)

    with pytest.raises(LogLockedError):
        segstore.open(tmp_path / "t-0")
    assert [one.value for one in slice_of_it] == [b"old"]
    slice_of_it._log.close()


def test_a_scan_has_numbers_of_its_own(tmp_path):
    """An object that is a number by ``__index__`` is one."""

    class Two:
        def __index__(self) -> int:
            return 2

    with segstore.open(tmp_path / "t-0") as log:
        log.append([(b"k", b"v")] * 4)
        scan = log.scan(Two(), 4)

        assert type(scan.start_offset) is int
        assert [one.offset for one in scan] == [2, 3]


# ---- timeout of a writer -------------------------------------------------------------------------
# An exception of the caller's own came back as another one when it was a ``TimeoutError``.


class OwnTimeoutError(TimeoutError):
    """What a program's own destination raises, and catches."""


class Destination:
    def __init__(self, error: Exception) -> None:
        self.error = error

    def write(self, _data: memoryview) -> int:
        raise self.error


@pytest.fixture
def records(tmp_path):
    with segstore.open(tmp_path / "orders-0") as log:
        log.append([(None, b"x")])
        yield log.slice(0, 1000)


def test_an_own_class_goes_through(records):
    """Whoever wrote ``except OwnTimeoutError`` did not get it."""
    error = OwnTimeoutError("mine")

    with pytest.raises(OwnTimeoutError) as caught:
        records.write_to(Destination(error))

    assert caught.value is error


def test_the_plain_one_is_that_of_a_transfer(records):
    """As a socket under TLS raises it."""
    error = TimeoutError("timed out")

    with pytest.raises(TransferTimeoutError, match="no room in time") as caught:
        records.write_to(Destination(error))

    assert caught.value.__cause__ is error
