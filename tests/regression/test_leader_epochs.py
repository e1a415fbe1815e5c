"""Leader epochs: lost, stale, of deleted records, or wrong in a batch."""

from __future__ import annotations

import errno
import os
import shutil
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

import segstore
from segstore import MemoryRecords
from segstore._core import DataFile, Directory, FileBarrier
from segstore.cli import main
from segstore.errors import (
    CorruptLogError,
    InvalidEpochError,
    NotALogError,
    ReadIOError,
    SegstoreError,
)
from segstore.log.files.checkpoints import (
    LEADER_EPOCH_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    LOG_STATE,
    LogState,
)
from segstore.log.local.segment import Segment
from segstore.types import EpochEntry
from tests.crash.barrier_scene import new_disk, open_log, operations
from tests.crash.crash_check import Crash, check_crash
from tests.crash.crash_model import Operation
from tests.crash.crash_script import PATH, START_MS, Settings, batches_in, run_script
from tests.crash.manual_scheduler import ManualScheduler
from tests.kits.damaged_logs import flip_bit
from tests.kits.directory_kit import RECOVERY_POINT, disk_with, name_of, records, recovery_point
from tests.kits.log_kit import (
    at,
    batch,
    message_of_magic_1,
    offsets,
    remove_segment,
    singleton,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


# ---- epoch behind old messages -------------------------------------------------------------------
# A follower's epoch 5, messages without an epoch, then epoch 2 in the next segment.
#
# The messages have ended epoch 5; recovery remembered it all the same, and cut what was behind as
# if somebody else had written it: acknowledged and synced records.


@pytest.mark.parametrize("has_checkpoint", [True, False])
@pytest.mark.parametrize("rolls", [True, False])
@pytest.mark.parametrize("durability", ["sync", "none"])
def test_nothing_is_cut(durability, rolls, has_checkpoint):
    """[DUR-1, DUR-50, APP-10] And the log goes on in its own epoch."""
    disk = new_disk()
    log = open_log(disk, durability=durability)
    log.append_as_follower(at(0, epoch=5), 5)
    log.append_as_follower(message_of_magic_1(1), 5)
    if rolls:
        log.roll()
    log.append_as_follower(at(2, epoch=2) + at(3, epoch=2), 2)
    assert log.verify().ok
    log.close_quietly()
    if not has_checkpoint:
        Directory(PATH, disk).unlink(LEADER_EPOCH_CHECKPOINT)

    with closing(open_log(disk, read_only=True)) as reader:
        assert [record.offset for record in reader] == [0, 1, 2, 3]
    with closing(open_log(disk)) as log:
        assert [record.offset for record in log] == [0, 1, 2, 3]
        assert (log.latest_epoch, log.report.truncated_from_offset) == (2, None)
        log.append_as_follower(at(4, epoch=2), 2)
        assert log.verify().ok


def test_a_lower_epoch_without_such_a_message_is_damage():
    """[DUR-7, DUR-50] As before."""
    disk = new_disk()
    with closing(open_log(disk)) as log:
        log.append_as_follower(at(0, epoch=5), 5)
        log.append_as_follower(at(1, epoch=5), 5)
        directory = Directory(PATH, disk)
        name = f"{0:020d}.log"
        content = bytearray(directory.read_file(name))
        start = len(content) // 2
        content[start + 12 : start + 16] = (2).to_bytes(4)
        directory.write_file_atomically(name, bytes(content), FileBarrier.LOG_STATE)

    with closing(open_log(disk)) as log:
        assert not log.verify().ok


# ---- epoch checkpoint of another moment ----------------------------------------------------------
# A leader-epoch checkpoint that was cut short, or an old copy, was believed (situation 06).
#
# An append got leader epoch 0 behind batches of epoch 10, and every later check called that damage.
# Kafka ends each line with a newline, and writes the entries in ascending order.


TRUE = [(2, 0), (6, 4), (8, 8), (10, 12)]
RECORDS_OF_FOUR_EPOCHS = 14
TEXT = "0\n4\n2 0\n6 4\n8 8\n10 12\n"


def file_of(*entries: tuple[int, int]) -> str:
    lines = [f"{epoch} {start}\n" for epoch, start in entries]
    return f"0\n{len(lines)}\n{''.join(lines)}"


MOMENTS = {
    **{f"cut at byte {size}": TEXT[:size] for size in range(len(TEXT))},
    **{f"as it was with {count} lines": file_of(*TRUE[:count]) for count in range(4)},
    "two lines swapped": file_of(TRUE[1], TRUE[0], *TRUE[2:]),
    "the last lines swapped": file_of(*TRUE[:2], TRUE[3], TRUE[2]),
    "zeros": "\0" * len(TEXT),
    "zeros behind a line": TEXT[:8] + "\0" * (len(TEXT) - 8),
    "a line without its newline, and the count of it": TEXT.replace("4\n", "3\n", 1)[:-7],
    "another epoch": TEXT.replace("10 12", "11 12"),
    "another start": TEXT.replace("10 12", "10 13"),
    "lost": None,
}


@pytest.fixture
def log_of_four_epochs(tmp_path) -> Path:
    """Four epochs, a segment and a half each."""
    path = tmp_path / "o-0"
    with segstore.open(path) as log:
        for offset in range(RECORDS_OF_FOUR_EPOCHS):
            epoch = [epoch for epoch, start in TRUE if start <= offset][-1]
            if offset and offset % 3 == 0:
                log.roll()
            log.append_as_leader(batch([(None, b"value")]), epoch)
    assert (path / LEADER_EPOCH_CHECKPOINT).read_text() == TEXT
    return path


def closed(path: Path) -> None:
    """By its writer."""


def killed(path: Path) -> None:
    (path / ".kafka_cleanshutdown").unlink()


def of_a_broker(path: Path) -> None:
    """Closed cleanly; nothing of this library is there."""
    for name in (".kafka_cleanshutdown", ".segstore", "recovery-point-offset-checkpoint"):
        (path / name).unlink()
    (path.parent / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":7}')


def of_a_killed_broker(path: Path) -> None:
    of_a_broker(path)
    (path.parent / ".kafka_cleanshutdown").unlink()


@pytest.mark.parametrize("stop", [closed, killed, of_a_broker, of_a_killed_broker])
@pytest.mark.parametrize("moment", MOMENTS)
def test_the_epochs_are_those_of_the_batches(
    log_of_four_epochs: Path, moment: str, stop: Callable[[Path], None]
):
    """[DUR-21, DUR-64] An append never writes an epoch below one that the log holds."""
    stop(log_of_four_epochs)
    text = MOMENTS[moment]
    if text is None:
        (log_of_four_epochs / LEADER_EPOCH_CHECKPOINT).unlink()
    else:
        (log_of_four_epochs / LEADER_EPOCH_CHECKPOINT).write_text(text)

    if text and (not text.endswith("\n") or text.count("\n") < 2):
        assert main(["verify", str(log_of_four_epochs)]) == 1
    with segstore.open(log_of_four_epochs, read_only=True) as log:
        assert [*log.leader_epochs] == TRUE
        assert log.report.damage is None
    with segstore.open(log_of_four_epochs) as log:
        assert [*log.leader_epochs] == TRUE
        assert log.report.maybe_missing is None
        assert LEADER_EPOCH_CHECKPOINT in log.report.rebuilt
        assert log.append([(None, b"more")]).base_offset == RECORDS_OF_FOUR_EPOCHS
        assert log.verify().ok
        headers, _ = log.segments()[-1].scan()
        assert headers["partition_leader_epoch"][-1] == TRUE[-1][0]
    assert (log_of_four_epochs / LEADER_EPOCH_CHECKPOINT).read_text() == TEXT
    assert main(["verify", str(log_of_four_epochs)]) == 0
    with segstore.open(log_of_four_epochs) as log:
        assert log.report.clean
        assert log.report.rebuilt == []


@pytest.mark.parametrize("is_there", [True, False])
def test_an_offset_beyond_the_next_segment_speaks_of_no_epoch(
    log_of_four_epochs: Path, is_there, capsys
):
    """[DUR-7, DUR-21] A flipped bit in the offset of a batch: its epochs replaced those on disk."""
    of_a_broker(log_of_four_epochs)
    if not is_there:
        (log_of_four_epochs / LEADER_EPOCH_CHECKPOINT).unlink()
    file = log_of_four_epochs / name_of(6)
    flip_bit(file, file.stat().st_size // 3 * 2 + 6, 7)
    expected = TRUE if is_there else [*TRUE[:2], (8, 9), TRUE[3]]
    assert main(["verify", str(log_of_four_epochs)]) == 1
    assert "EPOCHS_WRONG" not in printed(capsys)
    for read_only in (True, False):
        with segstore.open(log_of_four_epochs, read_only=read_only) as log:
            assert [*log.leader_epochs] == expected
            assert log.report.doubtful_epochs is None


@pytest.mark.parametrize("start", [0, 3])
@pytest.mark.parametrize("stop", [of_a_broker, of_a_killed_broker])
def test_epochs_that_are_rebuilt_are_not_contradicted_by_the_same_batches(
    tmp_path, stop: Callable[[Path], None], start: int, capsys
):
    """[DUR-7, DUR-21] A bit of the epoch of a batch had flipped: `recover` left a finding.

    The batches contradict each other, not the checkpoint: the next rebuild gives the same epochs.
    """
    path = tmp_path / "o-0"
    with segstore.open(path) as log:
        for _ in range(3):
            log.append_as_leader(batch([(None, b"1"), (None, b"2")]), 2)
    stop(path)
    (path / LEADER_EPOCH_CHECKPOINT).unlink()
    (tmp_path / LOG_START_OFFSET_CHECKPOINT).write_text(f"0\n1\no 0 {start}\n")
    file = path / name_of(0)
    flip_bit(file, file.stat().st_size // 3 + 14)  # in the second batch
    expected = [(2, 0), (258, 2)] if start == 0 else [(258, start)]

    assert main(["recover", str(path)]) == 0
    assert "not repaired" not in printed(capsys)
    assert (path / LEADER_EPOCH_CHECKPOINT).read_text() == file_of(*expected)
    assert main(["verify", str(path)]) == 0
    with segstore.open(path) as log:
        assert (log.report.rebuilt, log.report.doubtful_epochs) == ([], None)
        assert [*log.leader_epochs] == expected


# ---- epochs of a log that is not read ------------------------------------------------------------
# Neither the checkpoint of epochs nor a ``.log`` could be read: an open lost the epochs for good.
#
# It took what was no file any more for damage, which others report, and wrote the epochs down that
# it had found until then: none.


CHECKPOINT = "leader-epoch-checkpoint"


def test_epochs_are_kept_where_the_records_cannot_be_read():
    """[DUR-6, DUR-21]"""
    disk = run_script(operations(("append", 2), "close"), Settings()).disk
    Settings().open(disk).close()
    epochs = Directory(PATH, disk).read_file(CHECKPOINT)

    def fail_from_there_on(call: str, name: str) -> None:
        if call == "read_at" and name == CHECKPOINT:
            disk.fail(call, 1, errno.EISDIR, for_ever=True)

    disk.watch(fail_from_there_on)
    with pytest.raises(NotALogError):
        Settings().open(disk)
    disk.watch(None)
    disk.fail("read_at", 0, 0)

    assert Directory(PATH, disk).read_file(CHECKPOINT) == epochs


# ---- epochs of a log that was deleted ------------------------------------------------------------
# All records deleted, killed, opened: the next epoch was 0, and the open after that cut it off.


def test_what_is_appended_behind_deleted_records_of_newer_epochs_stays(tmp_path):
    """[DUR-3, DUR-64] Found by the state machine: without an epoch the next one may be older."""
    path = tmp_path / "t-0"
    log = segstore.open(path, durability="none")
    log.append_as_leader(singleton(), 1)
    log.append_as_follower(at(1, epoch=2), 2)
    log.delete_records(2)
    log.close_quietly()
    log = segstore.open(path, durability="none")
    log.append_as_leader(singleton(b"acknowledged"), 0)
    log.append_as_follower(at(3, epoch=1), 1)
    log.close_quietly()
    with segstore.open(path) as log:
        assert offsets(log.scan()) == [2, 3]


# ---- epochs of an emptied log --------------------------------------------------------------------
# A log whose records were all deleted had another epoch checkpoint after each open [DUR-56].
#
# Found by tests/crash: its random script 11.


def test_the_second_open_changes_nothing():
    operations = [Operation("append", 1), Operation("delete_records", 1), Operation("kill")]
    run = run_script(operations, Settings())

    for effects in range(run.disk.effects + 1):
        for fate in ("lost", "kept", "killed"):
            check_crash(run, Crash(effects, fate), thoroughly=True)


# ---- epochs of deleted records -------------------------------------------------------------------
# A deleted record that was still in the file gave its epoch to the records behind it.


ONE = [(None, b"x")]


def test_deleted_records_have_no_say_in_epochs(tmp_path):
    """[SEG-40, EPC-4] All were deleted, so that a lower epoch could begin; then a kill."""
    with segstore.open(tmp_path / "t-0", durability="none") as log:
        log.append_as_leader(MemoryRecords.with_records(ONE).data, 1)
        log.maybe_increment_log_start_offset(1)
    log = segstore.open(tmp_path / "t-0", durability="none")
    assert log.latest_epoch is None
    log.append_as_leader(MemoryRecords.with_records(ONE).data, 0)
    log.close_quietly()

    with segstore.open(tmp_path / "t-0") as log:
        assert (log.log_start_offset, log.log_end_offset) == (1, 2)
        assert log.latest_epoch == 0
        assert log.end_offset_for_epoch(0) == (0, 2)


# ---- epochs that were not written ----------------------------------------------------------------
# A bit of ``leader-epoch-checkpoint`` flipped, and a segment that was lost too was no finding.
#
# Its format has no checksum, and the log counted as one that a broker has written to since; but the
# batches contradict it. Found by a new user: 8 of its 64 bits.


RECORDS_OF_FOUR_SEGMENTS = 16
CLOSES = pytest.mark.parametrize("is_closed", [True, False], ids=["closed", "killed"])


@pytest.fixture
def log_of_four_segments(tmp_path, is_closed, epochs) -> Path:
    """Four segments of four records each, the last of them of the last epoch."""
    path = tmp_path / "o-0"
    log = segstore.open(path)
    for offset in range(RECORDS_OF_FOUR_SEGMENTS):
        if offset and offset % 4 == 0:
            log.roll()
        epoch = 0 if offset < RECORDS_OF_FOUR_SEGMENTS - 4 else epochs - 1
        log.append_as_leader(batch([(None, b"value")]), epoch)
    log.flush()
    (log.close if is_closed else log.close_quietly)()
    return path


def is_reported(path: Path) -> bool:
    """Whether a reader, and a verification, say that records are missing."""
    try:
        with segstore.open(path, read_only=True) as log:
            told = log.report.maybe_missing or log.report.damage
    except SegstoreError:
        told = "refused"
    return bool(told) and main(["verify", str(path)]) == 1


@CLOSES
@pytest.mark.parametrize("epochs", [1, 2])
@pytest.mark.parametrize("lost", [0, 4, 8])
def test_a_lost_segment_is_missed_whichever_bit_has_flipped(
    log_of_four_segments: Path, lost: int, one_in
):
    """[DUR-7, DUR-21] Whatever the latest epoch reads like, its batches are there.

    Where the first of two begins is where a broker has deleted up to: that is believed.
    """
    (log_of_four_segments / f"{lost:020d}.log").unlink()
    written = (log_of_four_segments / LEADER_EPOCH_CHECKPOINT).read_bytes()
    latest = written[:-1].rindex(b"\n")
    bits = [*range(32), *range(8 * latest, 8 * len(written))]
    silent = []
    for bit in bits[:: one_in(20)]:
        if lost == 0 and bit == 8 * (len(written) - 2) + 2 and len(written) == 8:
            continue  # "0 4": as the first epoch of what a broker has deleted up to there
        copy = log_of_four_segments.parent / "c-0"
        shutil.copytree(log_of_four_segments, copy)
        flip_bit(copy / LEADER_EPOCH_CHECKPOINT, *divmod(bit, 8))
        if not is_reported(copy):
            silent.append(bit)
        shutil.rmtree(copy)

    assert silent == []


@CLOSES
@pytest.mark.parametrize("epochs", [1])
def test_the_flip_alone_is_no_loss(log_of_four_segments: Path, capsys: pytest.CaptureFixture[str]):
    """[DUR-7, DUR-21, DUR-64] No record is missing; the epochs are those of the batches again.

    What `recover` writes again is a finding: `verify` had only a note, and said "clean".
    """
    (log_of_four_segments / LEADER_EPOCH_CHECKPOINT).write_text("0\n1\n1 0\n")
    said = f"{LEADER_EPOCH_CHECKPOINT} has epoch 1 for offset 15, and the batch at 15 has epoch 0"
    for command in (["verify"], ["scrub"], ["recover", "--dry-run"]):
        code = main([*command, str(log_of_four_segments)])
        assert code == (0 if command[0] == "recover" else 1)
        out = " ".join(capsys.readouterr().out.split())
        assert f"{LEADER_EPOCH_CHECKPOINT}: the leader epochs are not those" in out
        assert f"{said} [EPOCHS_WRONG]" in out
        assert "repairs this" in out
    for read_only in (True, False):
        with segstore.open(log_of_four_segments, read_only=read_only) as log:
            assert log.report.maybe_missing is None
            assert [text for text in log.report.warnings if text.startswith(said)]
            found = log.verify()
            assert log.report.doubtful_epochs == said
            assert [one.code for one in found.findings] == ["EPOCHS_WRONG"] * read_only
            assert [note.startswith(said) for note in found.notes] == [True] * (not read_only)
            assert len(list(log)) == RECORDS_OF_FOUR_SEGMENTS
    with segstore.open(log_of_four_segments) as log:
        assert log.report.doubtful_epochs is None
        assert (
            log.append_as_leader(batch([(None, b"value")]), 0).base_offset
            == RECORDS_OF_FOUR_SEGMENTS
        )


@CLOSES
@pytest.mark.parametrize("epochs", [1])
def test_verify_of_a_handle_behind_a_cut(log_of_four_segments: Path):
    """[DUR-7] Records that are missing still are, unless they would have been cut, or deleted."""
    (log_of_four_segments / LEADER_EPOCH_CHECKPOINT).write_text("0\n1\n1 0\n")
    remove_segment(log_of_four_segments, 4)
    with segstore.open(log_of_four_segments) as log:
        for truncated in (15, 12, 8):
            log.truncate_to(truncated)
            (found,) = log.verify().findings
            assert found.found == log.report.maybe_missing
        log.truncate_to(4)
        assert log.verify().ok
        log.append([(None, b"value")] * 8)
        assert log.verify().ok


@CLOSES
@pytest.mark.parametrize("epochs", [1])
def test_what_is_told(log_of_four_segments: Path, capsys: pytest.CaptureFixture[str]):
    """[DUR-7] What contradicts what; the log goes on, for a broker's looks the same."""
    (log_of_four_segments / LEADER_EPOCH_CHECKPOINT).write_text("0\n1\n1 0\n")
    remove_segment(log_of_four_segments, 4)
    said = f"{LEADER_EPOCH_CHECKPOINT} has epoch 1 for offset 15, and the batch at 15 has epoch 0"
    with segstore.open(log_of_four_segments, read_only=True) as log:
        assert log.report.maybe_missing == (
            "records 4 to 7 are missing, unless deleted, or compacted away by a broker"
        )
        assert [text for text in log.report.warnings if text.startswith(said)]
        assert [text for text in log.report.warnings if log.report.maybe_missing in text]
    assert main(["verify", str(log_of_four_segments)]) == 1
    found = " ".join(capsys.readouterr().out.split())
    assert "[RECORDS_MAYBE_MISSING]" in found
    assert "records 4 to 7 are missing" in found
    assert (
        main(["salvage", str(log_of_four_segments), str(log_of_four_segments.parent / "s-0")]) == 0
    )
    assert said in " ".join(capsys.readouterr().out.split())
    with segstore.open(log_of_four_segments) as log:
        assert len(list(log)) == RECORDS_OF_FOUR_SEGMENTS - 4


HISTORIES = {
    "a leader of another cluster, whose epoch is lower": (
        [5] * 4, {0: [(0, 5), (1, 5), (2, 5), (3, 5), (4, 3), (5, 3)]}, [(3, 4)]
    ),
    "a follower that truncated into our epoch": (
        [4] * 4 + [5] * 4,
        {0: [*((o, 4) for o in range(6)), (6, 5), (7, 5), (8, 5)], 12: [(12, 5), (13, 5)]},
        [(4, 0), (5, 6)],
    ),
    "a follower in our epoch, whose first segment was deleted": (
        [0] * 8, {8: [(8, 0), (9, 0)], 14: [(14, 0)]}, [(0, 8)]
    ),
    "records deleted by a call, and a gap inside a file": (
        [0] * 8, {0: [*((o, 0) for o in range(9)), (12, 0), (13, 0)]}, [(0, 3)]
    ),
    "records deleted by a call, and a gap between files": (
        [0] * 8, {0: [(o, 0) for o in range(9)], 12: [(12, 0), (13, 0)]}, [(0, 3)]
    ),
    "a leader without a batch, that followed then": (
        [5] * 4, {0: [(0, 5), (1, 5), (2, 5), (3, 5), (4, 5), (9, 5), (10, 5)]}, [(5, 0), (6, 4)]
    ),
}  # fmt: skip


@CLOSES
@pytest.mark.parametrize("point", [None, "end"], ids=["no point", "synced"])
@pytest.mark.parametrize("history", HISTORIES.values(), ids=HISTORIES)
def test_nothing_of_a_broker_is_cut(tmp_path, is_closed, point, history):
    """[DUR-2, DUR-64] It wrote behind us, and what contradicts its epochs is what it may write."""
    ours, files, epochs = history
    path = tmp_path / "o-0"
    log = segstore.open(path)
    for epoch in ours:
        log.append_as_leader(batch([(None, b"ours")]), epoch)
    log.flush()
    (log.close if is_closed else log.close_quietly)()
    for file in path.glob("*.*"):
        if file.name[:20].isdigit():
            file.unlink()
    for base_offset, batches in files.items():
        data = b"".join(batch([(None, b"v")], base_offset=o, epoch=e) for o, e in batches)
        (path / f"{base_offset:020d}.log").write_bytes(data)
    offsets = [offset for batches in files.values() for offset, _ in batches]
    lines = "".join(f"{epoch} {start}\n" for epoch, start in epochs)
    (path / LEADER_EPOCH_CHECKPOINT).write_text(f"0\n{len(epochs)}\n{lines}")
    if point is not None:
        (tmp_path / "meta.properties").write_text("version=1\n")
        line = f"0\n1\no 0 {offsets[-1] + 1}\n"
        (tmp_path / "recovery-point-offset-checkpoint").write_text(line)
        (path / "recovery-point-offset-checkpoint").unlink(missing_ok=True)

    with segstore.open(path, read_only=True) as log:
        assert log.report.damage is None
        kept = [record.offset for record in log]
    assert kept == [offset for offset in offsets if offset >= log.log_start_offset]
    assert main(["salvage", str(path), str(tmp_path / "s-0")]) == 0
    with segstore.open(tmp_path / "s-0", read_only=True) as log:
        assert [record.offset for record in log] == kept
    with segstore.open(path) as log:
        assert (log.report.truncated_bytes, log.report.set_aside) == (0, [])
        assert [record.offset for record in log] == kept


# ---- negative epoch ------------------------------------------------------------------------------
# The sign bit of a batch's leader epoch flipped, which no CRC covers: the epochs were forgotten.
#
# It counted as a message of an old format, which ends them. The checkpoint was written anew without
# them, older epochs were accepted behind that, and nothing was told.


EPOCH_SIGN = 12


@pytest.mark.parametrize("number", [4, 7, 9])
def test_the_epochs_stay(number):
    """[APP-10, SEG-40, DUR-64] Of ten batches of the epochs 0, 3 and 5."""
    disk = new_disk()
    log = open_log(disk)
    records = MemoryRecords.with_records([(START_MS, None, b"v")])
    for epoch in (0, 0, 0, 3, 3, 5, 5, 5, 5, 5):
        log.append_as_leader(records, epoch)
    log.close_quietly()
    directory, name = Directory(PATH, disk), f"{0:020d}.log"
    checkpoint = directory.read_file(LEADER_EPOCH_CHECKPOINT)
    batches = [batch for _, batch in batches_in(directory.read_file(name))]
    position = sum(map(len, batches[:number])) + EPOCH_SIGN
    with DataFile(directory, name) as file:
        file.write(position, b"\x80")

    with closing(open_log(disk, read_only=True)) as reader:
        assert reader.latest_epoch == 5
    with closing(open_log(disk)) as log:
        assert (log.latest_epoch, log.end_offset_for_epoch(3)) == (5, (3, 5))
        with pytest.raises(InvalidEpochError):
            log.append_as_leader(records, 2)
    assert directory.read_file(LEADER_EPOCH_CHECKPOINT) == checkpoint


# ---- first segment and epochs lost ---------------------------------------------------------------
# A segment was lost, and the leader epochs with it: every tool said that all was well.
#
# Epochs that were made anew of the batches that were left said that the log began there, or did not
# fit ``.segstore`` any more, and then nothing of that counted: a hole that a crash had made was
# part of the log. A broker that deletes or compacts, and appends nothing, leaves the same files:
# such a log is told of, and can be read and written.


def write(path, *, is_closed: bool, epoch: int = 0) -> list[str]:
    """Return the names of its segments."""
    log = segstore.open(path, internal_segment_bytes=450)
    for number in range(RECORDS_OF_FOUR_EPOCHS):
        records = MemoryRecords.with_records([(None, b"record-%d" % number * 5)])
        log.append_as_leader(records, leader_epoch=epoch if number >= 9 else 0)
    assert log._background.wait_until_idle()  # the recovery point is where the last segment begins
    (log.close if is_closed else log.close_quietly)()
    names = sorted(file.name for file in path.glob("*.log"))
    assert [int(name[:20]) for name in names] == [0, 4, 8, 12]
    return names


def printed(capsys) -> str:
    return " ".join(capsys.readouterr().out.split())


LOSSES = [
    ((0,), 0, "records 0 to 3 are missing"),
    ((0,), 3, "records 0 to 3 are missing"),
    ((2,), 3, "records 8 to 11 are missing"),
    ((0, 2), 0, "records 0 to 3, 8 to 11 are missing"),
    ((0, 2), 3, "records 0 to 3, 8 to 11 are missing"),
]


@pytest.mark.parametrize("is_closed", [False, True])
@pytest.mark.parametrize("how", [os.remove, lambda file: os.truncate(file, 0)], ids=["rm", "empty"])
@pytest.mark.parametrize(("numbers", "epoch", "missing"), LOSSES)
def test_the_records_are_missed(tmp_path, numbers, epoch, missing, how, is_closed, capsys):  # noqa: PLR0913
    """[DUR-7, DUR-21, DUR-58] By verify, by readers, by what is salvaged, by the next open."""
    path = tmp_path / "o-0"
    names = write(path, is_closed=is_closed, epoch=epoch)
    for number in numbers:
        how(path / names[number])
        if how is os.remove:
            remove_segment(path, int(names[number].partition(".")[0]))
    (path / LEADER_EPOCH_CHECKPOINT).unlink()
    lost = {offset for number in numbers for offset in range(number * 4, number * 4 + 4)}
    kept = [offset for offset in range(RECORDS_OF_FOUR_EPOCHS) if offset not in lost]

    assert main(["verify", str(path)]) == 1
    verified = printed(capsys)
    assert all(f"{number * 4} to {number * 4 + 3}" in verified for number in numbers)
    if how is not os.remove and (numbers, epoch) == ((0,), 3):  # which no broker does
        with pytest.raises(CorruptLogError, match=missing):
            segstore.open(path)
        return
    assert main(["recover", "--dry-run", str(path)]) == 1
    assert missing in printed(capsys)
    with segstore.open(path, read_only=True) as log:
        assert missing in str(log.report.maybe_missing)
        assert missing in " ".join(log.report.warnings)
        assert log.report.rebuilt == [LEADER_EPOCH_CHECKPOINT]
        check_read(log, kept, is_proven=how is not os.remove)
    assert main(["salvage", str(path), str(tmp_path / "saved" / "o-0")]) == 1
    salvaged = printed(capsys)
    assert all(f"offsets {number * 4} to {number * 4 + 3}" in salvaged for number in numbers)
    assert main(["recover", str(path)]) == 1
    assert missing in printed(capsys)
    with segstore.open(path) as log:
        check_read(log, kept, is_proven=how is not os.remove)


def check_read(log, kept, *, is_proven):
    """An index names records that its empty ``.log`` has lost: a read does not pass them over."""
    if is_proven:
        with pytest.raises(CorruptLogError, match="missing"):
            list(log)
    else:
        assert [record.offset for record in log] == kept


def test_an_open_that_ends_early_tells_it(tmp_path):
    """[DUR-7] No later one does: what it may leave are epochs that fit."""
    path = tmp_path / "o-0"
    (path / write(path, is_closed=False)[0]).unlink()
    (path / LEADER_EPOCH_CHECKPOINT).unlink()

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as raised:
        segstore.open(path, progress=interrupted)
    assert "records 0 to 3 are missing" in " ".join(raised.value.__notes__)


@pytest.mark.parametrize("point", [None, 2], ids=["nothing synced", "synced to 2"])
def test_a_hole_of_a_crash_ends_the_log(point):
    """[DUR-2, DUR-8] Above the recovery point it is none of a broker's, with the epochs or not."""
    files = {
        LOG_STATE: LogState(0, 0, EpochEntry(3, 3), (EpochEntry(0, 0),)).format(),
        name_of(0): records(0, 2),
        name_of(2): b"",
        name_of(5): at(5, epoch=3) + at(6, epoch=3),
    }
    if point is not None:
        files[RECOVERY_POINT] = recovery_point(point)
    for epochs in ({LEADER_EPOCH_CHECKPOINT: b"0\n2\n0 0\n3 3\n"}, {}):
        with closing(open_log(disk_with(files | epochs))) as log:
            assert [record.offset for record in log] == [0, 1]
            assert log.log_end_offset == 2
            assert log.report.set_aside == [f"{5:020d}.quarantine-1"]
            assert log.report.maybe_missing is None


@pytest.mark.parametrize("point", [None, 2], ids=["no recovery point", "of 2"])
@pytest.mark.parametrize("is_in_one", [True, False], ids=["one segment", "two segments"])
@pytest.mark.parametrize(
    ("start", "truncated_to", "before"), [(2, 3, (EpochEntry(2, 4),)), (4, 6, ())]
)
def test_what_a_following_broker_fetched_stays(start, truncated_to, before, is_in_one, point):
    """[DUR-8, DUR-64] Of a compacted leader, instead of the latest epoch: it may have gaps."""
    kept = b"".join(at(offset, epoch=2 * (offset >= start)) for offset in range(truncated_to))
    gap_end = truncated_to + 2
    fetched = at(gap_end, epoch=2) + at(gap_end + 1, epoch=2)
    files = {LOG_STATE: LogState(0, 0, EpochEntry(3, 6), before).format()}
    files |= {name_of(0): kept + fetched} if is_in_one else {}
    files |= {} if is_in_one else {name_of(0): kept, name_of(gap_end): fetched}
    files |= {} if point is None else {RECOVERY_POINT: recovery_point(point)}
    for epochs in ({LEADER_EPOCH_CHECKPOINT: f"0\n2\n0 0\n2 {start}\n".encode()}, {}):
        with closing(open_log(disk_with(files | epochs))) as log:
            offsets = [record.offset for record in log]
            assert offsets == [*range(truncated_to), gap_end, gap_end + 1]
            assert log.report.set_aside == []


def written_by_two() -> dict[str, bytes]:
    """The files of a log of epochs 0 and 5 that was killed, and a broker followed epoch 3 in."""
    disk, scheduler = new_disk(), ManualScheduler()
    log = open_log(disk, scheduler=scheduler, checksum_sidecar=True)
    for offset in range(12):
        if offset == 6:
            log.roll()
            scheduler.run(3600)
        records = MemoryRecords.with_records([(START_MS, None, b"v" * 50)])
        log.append_as_leader(records, 5 * (offset >= 10))
    log.close_quietly()
    directory = Directory(PATH, disk)
    names = [name for name in directory.names() if name.endswith((".log", ".segsum", LOG_STATE))]
    files = {name: directory.read_file(name) for name in (*names, RECOVERY_POINT)}
    assert files[RECOVERY_POINT] == recovery_point(6)
    assert (LogState.parse(files[LOG_STATE]) or LogState(0, 0, None)).latest_epoch == (5, 10)
    return files


@pytest.mark.parametrize("is_in_one", [True, False], ids=["one segment", "two segments"])
@pytest.mark.parametrize("read_only", [True, False])
def test_what_a_broker_fetched_below_the_latest_epoch_stays(is_in_one, read_only):
    """[DUR-8, DUR-64] It ends at or below where the latest epoch began, as after a crash."""
    files = written_by_two()
    (_, kept), *_ = batches_in(files[name_of(6)])
    first = kept + at(7, epoch=3)
    files |= {name_of(6): first + at(9, epoch=3)} if is_in_one else {}
    files |= {} if is_in_one else {name_of(6): first, name_of(9): at(9, epoch=3)}
    for epochs in ({LEADER_EPOCH_CHECKPOINT: b"0\n2\n0 0\n3 7\n"}, {}):
        with closing(open_log(disk_with(files | epochs), read_only=read_only)) as log:
            assert [record.offset for record in log] == [*range(8), 9]
            assert (log.report.set_aside, log.report.quarantined) == ([], [])
            assert (log.report.damage, log.report.maybe_missing) == (None, None)


def test_a_gap_within_a_file_is_no_crash():
    """[DUR-8] Also where nothing tells which epoch came before the latest."""
    files = {
        LOG_STATE: LogState(0, 0, EpochEntry(3, 10)).format(),
        name_of(0): at(0) + at(1) + at(4) + at(5),
        RECOVERY_POINT: recovery_point(1),
    }
    for read_only in (True, False):
        with closing(open_log(disk_with(files), read_only=read_only)) as log:
            assert [record.offset for record in log] == [0, 1, 4, 5]
            assert (log.report.quarantined, log.report.damage) == ([], None)
            assert str(log.report.maybe_missing).startswith("records 2 to 3 are missing, unless")


@pytest.mark.parametrize("is_closed", [True, False])
def test_a_base_offset_that_jumped_is_told_of(tmp_path, is_closed, capsys):
    """[DUR-7] Of the only batch of the latest epoch: it looks like a compacted leader's."""
    path = tmp_path / "o-0"
    log = segstore.open(path)
    for offset in range(6):
        log.append_as_leader(MemoryRecords.with_records([(None, b"v")]), offset // 5)
    log.flush()
    (log.close if is_closed else log.close_quietly)()
    (path / LEADER_EPOCH_CHECKPOINT).unlink()
    data = bytearray((path / name_of(0)).read_bytes())
    data[len(data) // 6 * 5 + 7] ^= 8
    (path / name_of(0)).write_bytes(data)
    with segstore.open(path, read_only=True) as log:
        assert "records 5 to 12 are missing" in f"{log.report.maybe_missing} {log.report.damage}"
    assert main(["verify", str(path)]) == 1
    assert "records 5 to 12 are missing" in printed(capsys)


def test_a_sidecar_of_other_bytes_goes():
    """[DUR-60, DUR-64] Where the epochs were lost nobody knows whether others were here."""
    files = written_by_two()
    assert name_of(0, "segsum") in files
    (_, first), *_ = batches_in(files[name_of(0)])
    files[name_of(0)] = first + b"".join(at(offset, epoch=3) for offset in range(1, 6))
    files[name_of(6)] = at(6, epoch=3) + at(7, epoch=3)
    for epochs in ({LEADER_EPOCH_CHECKPOINT: b"0\n2\n0 0\n3 1\n"}, {}):
        with closing(open_log(disk_with(files | epochs))) as log:
            assert [record.offset for record in log] == [*range(8)]
            assert log.report.removed == [name_of(0, "segsum")]
            assert log.verify().ok


def test_a_reader_that_meets_a_bad_sector_goes_on(tmp_path, monkeypatch):
    """[DUR-33, DUR-51] What is missing cannot be told; a writer would never know, and stops."""
    path = tmp_path / "o-0"
    write(path, is_closed=True)
    (path / LEADER_EPOCH_CHECKPOINT).unlink()
    read_next_offset = Segment.read_next_offset

    def read(segment):
        if segment.base_offset == 4:
            raise ReadIOError("it cannot be read", file=segment.path)
        return read_next_offset(segment)

    monkeypatch.setattr(Segment, "read_next_offset", read)
    with segstore.open(path, read_only=True) as log:
        assert (log.log_start_offset, log.log_end_offset) == (0, RECORDS_OF_FOUR_EPOCHS)
        assert [text for text in log.report.warnings if "it cannot be read" in text]
    with pytest.raises(ReadIOError):
        segstore.open(path)


def test_epochs_of_deleted_batches_are_none(tmp_path):
    """[DUR-8, EPC-4] What was deleted had epoch 3; behind it the log goes on in epoch 0."""
    path = tmp_path / "o-0"
    with segstore.open(path) as log:
        for _ in range(2):
            log.append_as_leader(MemoryRecords.with_records([(None, b"v")]), 3)
        log.delete_records(2)
    with segstore.open(path) as log:
        assert log.latest_epoch is None
        log.append_as_leader(MemoryRecords.with_records([(None, b"v")]), 0)
        log.close_quietly()
    (path / LEADER_EPOCH_CHECKPOINT).unlink()
    with segstore.open(path) as log:
        log.append_as_leader(MemoryRecords.with_records([(None, b"v")]), 1)
        assert ([record.offset for record in log], log.latest_epoch) == ([2, 3], 1)
    assert (path / LEADER_EPOCH_CHECKPOINT).read_text() == "0\n2\n0 2\n1 3\n"


def test_a_segment_behind_two_deletions_is_missed(tmp_path):
    """[DUR-7, EPC-6] They have moved where the epoch begins, into the first segment."""
    path = tmp_path / "o-0"
    names = write(path, is_closed=True)
    with segstore.open(path, internal_segment_bytes=450) as log:
        log.delete_records(1)
        log.delete_records(2)
    (path / names[2]).unlink()
    (path / LEADER_EPOCH_CHECKPOINT).unlink()
    with segstore.open(path, read_only=True) as log:
        assert "records 8 to 11 are missing" in str(log.report.damage)
    with pytest.raises(CorruptLogError, match="records 8 to 11 are missing"):
        segstore.open(path)


@pytest.mark.parametrize("epoch", [2, 5])
def test_a_hole_behind_messages_without_an_epoch_ends_the_log(epoch):
    """[DUR-2, DUR-8] Which have ended the epochs before them: the next one begins behind them."""
    begin = at(0, epoch=5) + message_of_magic_1(1) + at(2, epoch=epoch)
    files = {
        LOG_STATE: LogState(2, 2, EpochEntry(epoch, 2)).format(),
        name_of(0): begin,
        name_of(3): b"",
        name_of(4): at(4, epoch=epoch),
    }
    for epochs in ({LEADER_EPOCH_CHECKPOINT: f"0\n1\n{epoch} 2\n".encode()}, {}):
        with closing(open_log(disk_with(files | epochs))) as log:
            assert [record.offset for record in log] == [0, 1, 2]
            assert log.report.set_aside == [f"{4:020d}.quarantine-1"]


def test_messages_without_an_epoch_are_not_missed(tmp_path):
    """[DUR-8] The first epoch begins behind them, and elections brought later ones."""
    path = tmp_path / "o-0"
    with segstore.open(path) as log:
        log.append_as_follower(message_of_magic_1(0) + message_of_magic_1(1), 0)
        log.append_as_leader(MemoryRecords.with_records([(None, b"with an epoch")]), 0)
        log.assign_epoch_start_offset(1, 3)
        log.assign_epoch_start_offset(2, 3)
    (path / LEADER_EPOCH_CHECKPOINT).unlink()
    with segstore.open(path) as log:
        assert log.report.maybe_missing is None
        assert [record.offset for record in log] == [0, 1, 2]


@pytest.mark.parametrize(
    "lost", [[LEADER_EPOCH_CHECKPOINT], [LEADER_EPOCH_CHECKPOINT, LOG_START_OFFSET_CHECKPOINT]]
)
@pytest.mark.parametrize("is_closed", [False, True])
def test_deleted_records_are_not_missed(tmp_path, lost, is_closed):
    """[DUR-8, DUR-19] As long as one file says so: a checkpoint, or the clean marker."""
    path = tmp_path / "o-0"
    first, *_ = write(path, is_closed=True)
    log = segstore.open(path, internal_segment_bytes=450)
    log.delete_records(4)
    assert not (path / first).exists()
    (log.close if is_closed else log.close_quietly)()
    for name in lost:
        (path / name).unlink(missing_ok=True)
    with segstore.open(path) as log:
        is_noted = is_closed or lost == [LEADER_EPOCH_CHECKPOINT]
        assert (log.report.maybe_missing is None) == is_noted
        assert log.log_end_offset == RECORDS_OF_FOUR_EPOCHS
        assert [record.offset for record in log][-10:] == [*range(4, RECORDS_OF_FOUR_EPOCHS)]


def test_a_later_epoch_is_a_brokers(tmp_path):
    """[DUR-64] Then nothing of .segstore holds."""
    path = tmp_path / "o-0"
    first, *_ = write(path, is_closed=False)
    state = (path / ".segstore").read_bytes()
    with segstore.open(path) as log:
        records = MemoryRecords.with_records([(None, b"a broker's")])
        log.append_as_leader(records, leader_epoch=1)
    (path / ".segstore").write_bytes(state)
    (path / first).unlink()
    (path / LEADER_EPOCH_CHECKPOINT).unlink()
    with segstore.open(path) as log:
        assert log.report.maybe_missing is None
        assert log.log_end_offset == RECORDS_OF_FOUR_EPOCHS + 1
