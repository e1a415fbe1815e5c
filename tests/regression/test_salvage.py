"""`salvage`: what it copies, what it leaves out, and what it says of both."""

from __future__ import annotations

import errno
import itertools
import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import segstore
from segstore.cli import main
from segstore.errors import ReadIOError
from segstore.log.check.partition_check import check_partition
from segstore.log.files.partition_directory import file_name
from segstore.log.findings.finding import Records
from segstore.log.log_environment import LogEnvironment
from segstore.log.log_salvage import salvage_and_open
from segstore.log.open_options import open_options
from segstore.log.recovery.salvage_report import UncertainTransaction
from tests.crash.crash_script import PATH, ManualScheduler
from tests.kits.damaged_logs import batches_of, flip_bit
from tests.kits.directory_kit import disk_with, fail_reads_of, name_of, records
from tests.kits.log_kit import batch, remove_segment
from tests.kits.preloaded_library import compiled, environment_with
from tests.kits.transactions_kit import ABORT, COMMIT, Producer, write

# ---- salvage behind a gap ------------------------------------------------------------------------
# Salvage dropped a good batch behind the gap that a truncation within another had left.
#
# The first mend took the batch before the gap, its base offset flipped to just that offset, for the
# one behind it, and dropped the true one. A later one dropped one of two batches of a log with two
# gaps.


RECORDS_BESIDE_THE_GAP = 4
CLOSES = pytest.mark.parametrize("is_closed", [True, False], ids=["closed", "killed"])


def four(number: int) -> bytes:
    return batch([(None, b"%02d" % number)] * RECORDS_BESIDE_THE_GAP)


def salvaged_batches(path: Path) -> tuple[bool, list[tuple[int, bytes | None]]]:
    """Whether all was copied, and the first record of each batch."""
    target = path.parent / "s-0"
    report = segstore.salvage(path, target)
    with segstore.open(target, read_only=True) as log:
        found = {record.value: record.offset for record in reversed(list(log))}
    return report.complete, sorted((offset, value) for value, offset in found.items())


def write_with_a_gap(path: Path, count: int, truncate: int, more: int, *, is_closed: bool) -> None:
    log = segstore.open(path, durability="sync")
    for number in range(count):
        log.append_as_leader(four(number), 0)
    log.truncate_to(truncate)
    for number in range(more):
        log.append_as_leader(four(50 + number), 0)
    (log.close if is_closed else log.close_quietly)()


def follow(path: Path, offsets: list[int], *, rolls: bool = False, **settings: int) -> None:
    """Append batches as a compacted leader gives them."""
    with segstore.open(path, durability="sync", **settings) as log:
        if rolls:
            log.roll()
        for number, offset in enumerate(offsets):
            data = four(number)
            log.append_as_follower(offset.to_bytes(8, "big") + data[8:12] + bytes(4) + data[16:], 0)


def move(path: Path, number: int, offset: int) -> None:
    """Change the base offset of a batch, which no CRC covers."""
    file, at = path / f"{0:020d}.log", number * len(four(0))
    data = file.read_bytes()
    file.write_bytes(data[:at] + offset.to_bytes(8, "big") + data[at + 8 :])


@CLOSES
@pytest.mark.parametrize("more", [1, 2])
def test_the_gap_of_a_truncation_is_one_of_the_log(tmp_path, is_closed, more):
    """[DUR-2, DUR-62] What continues it was acknowledged, and is copied."""
    path = tmp_path / "o-0"
    write_with_a_gap(path, 2, 7, more, is_closed=is_closed)
    behind = [(7, b"50"), (11, b"51")][:more]
    assert salvaged_batches(path) == (True, [(0, b"00"), *behind])


@CLOSES
@pytest.mark.parametrize(
    ("count", "moved", "kept"), [(2, 0, []), (3, 0, [(4, b"01")]), (3, 1, [(0, b"00")])]
)
def test_a_batch_that_jumps_behind_the_gap(tmp_path, is_closed, count, moved, kept):
    """[DUR-7, DUR-50] It is left out and told, and the true one is copied."""
    path, cut = tmp_path / "o-0", RECORDS_BESIDE_THE_GAP * count - 1
    write_with_a_gap(path, count, cut, 2, is_closed=is_closed)
    move(path, moved, cut)
    assert salvaged_batches(path) == (
        False,
        [*kept, (cut, b"50"), (cut + RECORDS_BESIDE_THE_GAP, b"51")],
    )


@pytest.mark.parametrize("more", [1, 2])
def test_a_batch_that_jumps_to_where_a_log_was_taken_over(tmp_path, more):
    """[DUR-7, DUR-50] Below that nothing tells of gaps; one bit makes 12 of 8."""
    path = tmp_path / "o-0"
    write_with_a_gap(path, 3, 12, 0, is_closed=True)
    (path / ".segstore").unlink()
    with segstore.open(path) as log:
        for number in range(more):
            log.append_as_leader(four(50 + number), 0)
    move(path, 2, 12)
    behind = [(12, b"50"), (16, b"51")][:more]
    assert salvaged_batches(path) == (False, [(0, b"00"), (4, b"01"), *behind])


def read(path: Path) -> list[tuple[int, bytes | None]]:
    with segstore.open(path, read_only=True) as log:
        return [(record.offset, record.value) for record in log]


def assert_all_is_copied(path: Path) -> None:
    """Gaps are no loss of such a log."""
    target = path.parent / "s-0"
    report = segstore.salvage(path, target)
    assert read(target) == read(path)
    assert report.complete


@pytest.mark.parametrize(
    "offsets", [[0, 6, 12], [0, 6, 12, 16], [0, 5, 10, 15], [0, 4, 10, 16, 20]]
)
def test_a_followers_gaps(tmp_path, offsets):
    """[DUR-2, DUR-64] As a compacted leader gives its batches: none of them is dropped."""
    path = tmp_path / "o-0"
    follow(path, offsets)
    assert_all_is_copied(path)


@CLOSES
@pytest.mark.parametrize("more", [1, 2, 3])
@pytest.mark.parametrize("cut", [3, 7])
def test_two_truncations_each_within_a_batch(tmp_path, is_closed, more, cut):
    """[DUR-2, DUR-64] The first of them may be within the first batch of a file."""
    path = tmp_path / "o-0"
    write_with_a_gap(path, 2, cut, 2, is_closed=True)
    log = segstore.open(path, durability="sync")
    end = log.log_end_offset
    log.truncate_to(end - 2)
    for number in range(more):
        log.append_as_leader(four(60 + number), 0)
    (log.close if is_closed else log.close_quietly)()
    assert_all_is_copied(path)


@pytest.mark.parametrize(
    ("segment_bytes", "offsets", "behind"),
    [(1000, [0], [6, 10, 16]), (1000, [0, 6], [12]), (120, [0, 6], [12])],
    ids=["goes on", "another file", "begins its file"],
)
def test_gaps_that_leave_no_doubt(tmp_path, segment_bytes, offsets, behind):
    """[DUR-2, DUR-64] What is in front has a place, by others or by its file."""
    path = tmp_path / "o-0"
    follow(path, offsets, internal_segment_bytes=segment_bytes)
    follow(path, behind, rolls=segment_bytes == 1000 and len(offsets) > 1)
    report = segstore.salvage(path, tmp_path / "s-0")
    assert read(tmp_path / "s-0") == read(path)
    assert report.complete


# ---- salvage of a disk that hesitates ------------------------------------------------------------
# What a disk does not give: a salvage met a block that could be read the third time: KeyError.
#
# The block was lost, and was not: two rows said what stands at one position, of which the first
# took the reason of both.


def salvage_with(first: int) -> tuple[list[int], bool] | None:
    """Return what is kept, and whether that is all, when two reads fail; None = it was refused."""
    disk = disk_with({name_of(0): records(0, 3) + b"?" * 70, name_of(5): records(5, 6)})
    reads = itertools.count(1)

    def fail_two(call: str, name: str) -> None:
        if call == "read_at" and name == name_of(0) and next(reads) in {first, first + 1}:
            disk.fail(call, 1, errno.EIO)

    disk.watch(fail_two)
    log_environment = LogEnvironment(environment=disk, background=lambda *_: ManualScheduler())
    options = open_options(segment_index_bytes=4096)
    try:
        log, report = salvage_and_open(PATH, "/data/new-0", options, log_environment)
    except ReadIOError:  # what had been read before cannot be copied
        return None
    disk.watch(None)
    kept = [record.offset for record in log.scan()]
    log.close_quietly()
    return kept, report.complete


def test_a_salvage_ends_whichever_reads_fail():
    """[DUR-33, DUR-62, DUR-103] Records of other segments are there, and a loss is told."""
    results = [salvage_with(first) for first in range(1, 40)]

    assert ([5], False) in results
    assert all(each in (None, ([5], False), ([0, 1, 2, 5], False)) for each in results)


def test_a_file_that_cannot_be_read_is_told_with_its_errno():
    """[DUR-33, DUR-62] It was called "a batch whose length is wrong". Case 17."""
    bad = records(0, 3)
    disk = disk_with({name_of(0): bad, name_of(3): records(3, 6)})

    fail_reads_of(disk, name_of(0))
    log_environment = LogEnvironment(environment=disk, background=lambda *_: ManualScheduler())
    options = open_options(segment_index_bytes=4096)
    log, report = salvage_and_open(PATH, "/data/new-0", options, log_environment)
    disk.watch(None)
    assert [record.offset for record in log.scan()] == [3, 4, 5]
    log.close_quietly()

    (lost,) = report.lost
    assert (lost.code, lost.os_error, lost.size_bytes) == ("FILE_UNREADABLE", errno.EIO, len(bad))
    assert (lost.first_offset, lost.next_offset) == (0, 3)
    assert "EIO" in str(report)


SMALL_FILES = [
    ".segstore", ".kafka_cleanshutdown", "leader-epoch-checkpoint", "partition.metadata",
    "recovery-point-offset-checkpoint", "log-start-offset-checkpoint",
]  # fmt: skip


@pytest.mark.parametrize("kind", ["directory", "pipe", "link"])
@pytest.mark.parametrize("name", [*SMALL_FILES, f"{1:020d}.log"])
def test_what_is_no_file_costs_no_record_of_other_files(tmp_path, name, kind):
    """[DUR-62] A salvage refused the log, or might have waited for a pipe. Case 17."""
    path = tmp_path / "a-0"
    with segstore.open(path) as log:
        for number in range(3):
            log.append([(None, b"%d" % number)])
            log.roll()
    (path / name).unlink(missing_ok=True)
    if kind == "link":
        (path / name).symlink_to("nowhere")
    else:
        {"directory": Path.mkdir, "pipe": os.mkfifo}[kind](path / name)

    report = segstore.salvage(path, tmp_path / "s" / "a-0")

    assert report.batches == (3 if name in SMALL_FILES else 2)
    lost = [(one.code, one.file) for one in report.lost if one.file]
    assert lost == ([] if name in SMALL_FILES else [("FILE_IS_NO_FILE", name)])


def test_one_bad_sector_costs_the_batches_in_it(tmp_path):
    """[DUR-33, DUR-62] The report has its errno, though bytes beside it were read. Case 17."""
    path = tmp_path / "bad" / "a-0"
    with segstore.open(path) as log:
        for number in range(60):
            log.append([(None, b"%0500d" % number)])
        log.roll()
        log.append([(None, b"last")])
    library = compiled(Path(__file__).parent / "failing_read.c", tmp_path)
    bad = {"FAILING_READ": f"bad/a-0/{0:020d}.log", "FAILING_FROM": "8192", "FAILING_TO": "12288"}
    command = [sys.executable, "-m", "segstore", "salvage", "-q", "--json"]
    done = subprocess.run(
        [*command, path, tmp_path / "s" / "a-0"],
        env=environment_with(library, **bad),
        capture_output=True,
        check=False,
    )

    assert (done.returncode, done.stderr) == (1, b"")
    report = json.loads(done.stdout)
    (lost,) = report["lost"]
    assert (lost["code"], lost["os_error"]) == ("FILE_UNREADABLE", errno.EIO)
    assert lost["position"] <= 8192
    assert lost["position"] + lost["size_bytes"] >= 12288
    assert report["batches"] == 61 - (lost["next_offset"] - lost["first_offset"])
    assert lost["next_offset"] - lost["first_offset"] <= 9


# ---- salvage of a lost segment -------------------------------------------------------------------
# A salvage said that nothing was lost where a segment and the epoch checkpoint were lost.
#
# An open makes the epochs anew before it asks whether ``.segstore`` is of who wrote last; the
# salvage took the log for one that compaction may have been in.


EPOCHS = "leader-epoch-checkpoint"


def one(number):
    return segstore.MemoryRecords.with_records([(None, b"%d" % number)])


@pytest.fixture(params=["closed", "unclean"])
def without_a_segment(request, tmp_path):
    """Records 0 to 9 in segments 0, 3, 6, 9, in two leader epochs."""
    path = tmp_path / "a-0"
    with segstore.open(path) as log:
        for number in range(10):
            log.append_as_leader(one(number), leader_epoch=number // 5)
            if number % 3 == 2:
                log.roll()
    if request.param == "unclean":
        (path / ".kafka_cleanshutdown").unlink()
    return path


def salvaged_offsets(path):
    target = path.parent / "out" / "a-0"
    report = segstore.salvage(path, target)
    return report, [(lost.first_offset, lost.next_offset) for lost in report.lost]


@pytest.mark.parametrize("content", [None, b"", b"0\n2\n0 0\n", b"\xff"], ids=repr)
@pytest.mark.parametrize("base", [3, 6, 9])
def test_a_lost_segment_is_told_without_the_epoch_checkpoint(without_a_segment, content, base):
    """[DUR-62, DUR-64]"""
    (without_a_segment / f"{base:020d}.log").unlink()
    if content is None:
        (without_a_segment / EPOCHS).unlink()
    else:
        (without_a_segment / EPOCHS).write_bytes(content)
    report, lost = salvaged_offsets(without_a_segment)
    assert lost == [(base, min(base + 3, 10))]
    assert [text for text in report.warnings if EPOCHS in text] == report.warnings
    assert bool(report.warnings) == bool(content)


def test_the_command_says_so(without_a_segment, capsys):
    """[DUR-62] By its exit code too."""
    (without_a_segment / f"{3:020d}.log").unlink()
    (without_a_segment / EPOCHS).write_bytes(b"\xff")
    assert (
        main(
            ["salvage", "-q", str(without_a_segment), str(without_a_segment.parent / "out" / "a-0")]
        )
        == 1
    )
    assert "nothing was lost" not in capsys.readouterr().out


def test_a_lost_beginning(without_a_segment):
    """[DUR-62] The epochs that are left begin later; that is no sign of deleted records."""
    (without_a_segment / f"{0:020d}.log").unlink()
    (without_a_segment / EPOCHS).unlink()
    assert salvaged_offsets(without_a_segment)[1] == [(0, 3)]


def test_deleted_records_are_not_lost(without_a_segment):
    """[DUR-19, DUR-62]"""
    with segstore.open(without_a_segment) as log:
        log.delete_records(4)
    (without_a_segment / EPOCHS).unlink()
    report, lost = salvaged_offsets(without_a_segment)
    assert lost == []
    assert report.log_start_offset == 4


def test_whose_batches_are_of_a_later_epoch_may_have_gaps(without_a_segment):
    """[DUR-64] A broker has written behind the file, and may have compacted: only a hint."""
    state = without_a_segment / ".segstore"
    before = state.read_bytes()
    with segstore.open(without_a_segment) as log:
        log.append_as_leader(one(10), leader_epoch=7)
    state.write_bytes(before)
    (without_a_segment / EPOCHS).unlink()
    remove_segment(without_a_segment, 3)
    report, lost = salvaged_offsets(without_a_segment)
    assert lost == []
    assert [text for text in report.warnings if "no file holds the offsets 3 to 5:" in text]


def test_a_gap_that_nobody_can_judge_is_a_hint(without_a_segment):
    """[DUR-64] Without ``.segstore``; several of them are one warning."""
    (without_a_segment / ".segstore").unlink()
    remove_segment(without_a_segment, 3)
    (without_a_segment / f"{9:020d}.log").write_bytes(b"")
    report, lost = salvaged_offsets(without_a_segment)
    assert lost == ([(9, 10)] if report.log_end_offset == 10 else [])
    hints = [text for text in report.warnings if "no file holds" in text]
    assert len(hints) == 1
    assert "the offsets 3 to 5:" in hints[0]


@pytest.mark.parametrize("has_snapshot", [True, False])
def test_an_older_recovery_point_beside_a_lost_end(tmp_path, has_snapshot):
    """[DUR-7, DUR-63] An open believes the point, not the marker: salvage said lost, verify maybe.

    After `recover` salvage said that nothing was lost.
    """
    path = tmp_path / "o-0"
    point = path / "recovery-point-offset-checkpoint"
    with segstore.open(path) as log:
        log.append([(None, b"value")] * 4)
    older = point.read_bytes()
    with segstore.open(path, index_interval_bytes=100) as log:
        log.roll()
        for _ in range(8):
            log.append([(None, b"value")])
    point.write_bytes(older)
    os.truncate(path / name_of(4), 0)

    if not has_snapshot:
        (path / name_of(12, "snapshot")).unlink()

    (found, _) = check_partition(str(path)).findings
    assert (found.records, found.lost) == (Records.MAYBE_MISSING, ((4, 10),))
    before = segstore.salvage(path, tmp_path / "before" / "o-0")
    assert (before.lost, before.maybe_lost) == ([], [(4, 12 if has_snapshot else 11)])
    assert main(["recover", "-q", str(path)]) == 1
    assert segstore.salvage(path, tmp_path / "after" / "o-0").lost == []


# ---- salvage of a wrong epoch --------------------------------------------------------------------
# Salvage left a good batch out whose leader epoch had flipped: "which do not fit those around it".
#
# No CRC covers the epoch. Salvage mended it by what small files say; now it copies such a batch as
# it stands, and reports it. What may be an older batch, which a truncation took away, is left out.


RECORDS_OF_TWO_EPOCHS, RECORDS_OF_A_BATCH, EPOCH_AT = 28, 4, 12
SIZE = len(batch([(None, b"value")] * RECORDS_OF_A_BATCH))


@pytest.fixture
def seven_batches(tmp_path: Path) -> Path:
    """Seven batches of four records each; the last four of epoch 3."""
    path = tmp_path / "o-0"
    with segstore.open(path) as log:
        for number in range(RECORDS_OF_TWO_EPOCHS // RECORDS_OF_A_BATCH):
            data = batch([(None, b"value")] * RECORDS_OF_A_BATCH)
            log.append_as_leader(data, 3 if number >= 3 else 0)
    return path


def with_epoch(path: Path, number: int, epoch: int) -> bytes:
    """Change the epoch of a batch; returns what was written."""
    file = path / f"{0:020d}.log"
    written = file.read_bytes()
    at = number * SIZE + EPOCH_AT
    file.write_bytes(written[:at] + epoch.to_bytes(4, "big", signed=epoch < 0) + written[at + 4 :])
    return written


def epochs_of(path: Path) -> list[int]:
    data = (path / f"{0:020d}.log").read_bytes()
    return [int.from_bytes(data[at : at + 4], "big") for at in range(EPOCH_AT, len(data), SIZE)]


WRITTEN = [0, 0, 0, 3, 3, 3, 3]


@pytest.mark.parametrize("bit", [2, 9, 20, 30, 31])
@pytest.mark.parametrize("number", range(7))
def test_an_epoch_that_never_was_is_copied_as_it_stands(seven_batches: Path, number: int, bit: int):
    """[DUR-62, DUR-64] No byte of a batch is changed; the copy can be used, and it is told."""
    flip_bit(seven_batches / f"{0:020d}.log", number * SIZE + EPOCH_AT + 3 - bit // 8, bit % 8)
    found = (seven_batches / f"{0:020d}.log").read_bytes()
    target = seven_batches.parent / "s-0"

    report = segstore.salvage(seven_batches, target)

    assert report.complete
    assert (target / f"{0:020d}.log").read_bytes() == found
    (told,) = report.warnings
    assert (
        f"position {number * SIZE}: the batch of offsets {number * RECORDS_OF_A_BATCH} to" in told
    )
    with segstore.open(target) as log:
        assert log.verify().ok
        assert log.append([(None, b"goes on")]).base_offset == RECORDS_OF_TWO_EPOCHS


@pytest.mark.parametrize("bit", range(32))
@pytest.mark.parametrize("number", range(7))
def test_no_bit_of_an_epoch_is_copied_in_silence(seven_batches: Path, number: int, bit: int):
    """[DUR-7, DUR-62] The epochs of the copy are those that were written, or it is told."""
    flip_bit(seven_batches / f"{0:020d}.log", number * SIZE + EPOCH_AT + 3 - bit // 8, bit % 8)

    report = segstore.salvage(seven_batches, seven_batches.parent / "s-0")

    if report.complete:
        assert report.warnings
    else:  # it may be that of an older batch
        assert 1 << bit < 4
        assert WRITTEN[number] == 3
        assert epochs_of(seven_batches.parent / "s-0") == WRITTEN[:number] + WRITTEN[number + 1 :]


def test_below_the_first_epoch_nothing_is_told(tmp_path: Path):
    """[EPC-6] A deletion of records moves the first epoch, and leaves the batches of others."""
    path = tmp_path / "o-0"
    with segstore.open(path) as log:
        for epoch in (3, 3, 5, 5, 7, 7):
            log.append_as_leader(batch([(None, b"value")] * RECORDS_OF_A_BATCH), epoch)
        log.delete_records(14)
    report = segstore.salvage(path, tmp_path / "s-0")
    assert (report.complete, report.warnings) == (True, [])
    assert epochs_of(tmp_path / "s-0") == [3, 3, 5, 5, 7, 7]


@pytest.mark.parametrize("content", [None, b"", b"0\n0\n", b"-1 0"])
def test_epochs_that_are_lost_and_one_that_never_was(seven_batches: Path, content: bytes | None):
    """[DUR-7, DUR-64] The batches say that somebody wrote here since: that is told."""
    if content is None:
        (seven_batches / "leader-epoch-checkpoint").unlink()
    else:
        (seven_batches / "leader-epoch-checkpoint").write_bytes(content)
    with_epoch(seven_batches, 4, 1 << 20)
    report = segstore.salvage(seven_batches, seven_batches.parent / "s-0")
    assert report.warnings


@pytest.mark.parametrize("number", [4, 5])
def test_without_the_checkpoint(seven_batches: Path, number: int):
    """[DUR-62, DUR-64] Where the latest epoch begins ``.segstore`` tells."""
    (seven_batches / "leader-epoch-checkpoint").unlink()
    with_epoch(seven_batches, number, 2)

    report = segstore.salvage(seven_batches, seven_batches.parent / "s-0")

    assert [(lost.code, lost.position) for lost in report.lost] == [
        ("BATCH_OUT_OF_ORDER", number * SIZE)
    ]
    assert epochs_of(seven_batches.parent / "s-0") == WRITTEN[:number] + WRITTEN[number + 1 :]


def test_what_a_truncation_took_away_does_not_come_back(tmp_path: Path):
    """[DUR-5, DUR-62] A disk that lost the shrink has old batches behind those of a newer epoch."""
    path = tmp_path / "o-0"
    file = path / f"{0:020d}.log"
    with segstore.open(path) as log:
        for _ in range(7):
            log.append_as_leader(batch([(None, b"old__")] * RECORDS_OF_A_BATCH), 3)
    old = file.read_bytes()
    with segstore.open(path) as log:
        log.truncate_to(4)
        for _ in range(2):
            log.append_as_leader(batch([(None, b"value")] * RECORDS_OF_A_BATCH), 5)
    new = file.read_bytes()
    file.write_bytes(new + old[len(new) :])

    report = segstore.salvage(path, tmp_path / "s-0")

    assert not report.complete
    assert (tmp_path / "s-0" / file.name).read_bytes() == new


def test_an_epoch_below_the_one_before_may_be_an_old_batch(seven_batches: Path, capsys):
    """[DUR-62, DUR-64] It is told, and left out."""
    with_epoch(seven_batches, 5, 2)
    assert main(["salvage", str(seven_batches), str(seven_batches.parent / "s-0")]) == 1
    assert "the leader epoch 2: these do not fit the batches" in " ".join(
        capsys.readouterr().out.split()
    )
    with segstore.open(seven_batches.parent / "s-0", read_only=True) as log:
        assert [record.offset for record in log] == [*range(20), *range(24, RECORDS_OF_TWO_EPOCHS)]


def test_verify_names_it_once(tmp_path: Path, capsys):
    """[DUR-64] Files behind it, which are good, were findings too, each to be restored."""
    path = tmp_path / "o-0"
    with segstore.open(path) as log:
        for _ in range(3):
            for _ in range(3):
                log.append_as_leader(batch([(None, b"value")] * RECORDS_OF_A_BATCH), 0)
            log.roll()
    with_epoch(path, 1, 1 << 18)

    assert main(["verify", "-q", "--json", str(path)]) == 1
    (found,) = json.loads(capsys.readouterr().out)["findings"]
    assert (found["code"], found["position"]) == ("BATCH_OUT_OF_ORDER", 2 * SIZE)
    assert (found["first_offset"], found["records"]) == (8, "NONE")


def test_verify_names_one_behind_other_damage(tmp_path: Path, capsys):
    """[DUR-7, DUR-64] What stopped the look at the file before was no epoch: that still counts."""
    path = tmp_path / "o-0"
    with segstore.open(path) as log:
        for epoch in (1, 2):
            for _ in range(3):
                log.append_as_leader(batch([(None, b"value")] * RECORDS_OF_A_BATCH), epoch)
            log.roll()
    flip_bit(path / f"{0:020d}.log", 3 * SIZE - 1)
    flip_bit(path / f"{12:020d}.log", EPOCH_AT + 3, bit=1)  # 2 is 0

    assert main(["verify", "-q", "--json", str(path)]) == 1
    _, found = json.loads(capsys.readouterr().out)["findings"]
    assert (found["code"], found["first_offset"]) == ("BATCH_OUT_OF_ORDER", 12)


# ---- salvage of duplicates -----------------------------------------------------------------------
# Files of another replica were copied over a log: salvage called what is there twice lost.
#
# The records of the two replicas are the same, and the borders of their segments are not. Case 31.


RECORDS_OF_A_REPLICA, RECORDS_OF_A_REPLICAS_BATCH = 96, 3


def write_replica(
    path: Path, segment_bytes: int, *, start: int = 0, value: bytes = b"value"
) -> None:
    """Write batches of three records each, from *start* on."""
    with segstore.open(path, internal_segment_bytes=segment_bytes) as log:
        if start:
            log.truncate_fully_and_start_at(start)
        for number in range(
            start // RECORDS_OF_A_REPLICAS_BATCH,
            RECORDS_OF_A_REPLICA // RECORDS_OF_A_REPLICAS_BATCH,
        ):
            log.append_as_leader(
                batch([(None, value + b" %d" % number)] * RECORDS_OF_A_REPLICAS_BATCH), 0
            )


def logs_of(path: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in path.glob("*.log")}


@pytest.fixture
def other(tmp_path: Path) -> Path:
    path = tmp_path / "other" / "o-0"
    write_replica(path, 1700)
    return path


@pytest.fixture
def two_replicas(tmp_path: Path) -> Path:
    path = tmp_path / "data" / "o-0"
    write_replica(path, 1000)
    return path


def salvaged_replica(path: Path) -> segstore.SalvageReport:
    report = segstore.salvage(path, path.parent / "saved" / "o-0")
    with segstore.open(path.parent / "saved" / "o-0") as log:
        assert [record.offset for record in log] == list(range(RECORDS_OF_A_REPLICA))
        assert log.verify().ok
    return report


def copy_over(other: Path, path: Path, *, has_state: bool) -> int:
    """Copy the segments that the log does not have; return their size."""
    own = logs_of(path)
    for file in other.glob("*.log"):
        shutil.copy(file, path)
    if not has_state:  # as in a broker's directory
        for name in (".segstore", ".kafka_cleanshutdown", "recovery-point-offset-checkpoint"):
            (path / name).unlink()
    left = sum(map(len, logs_of(path).values()))
    return left - sum(len(own[name]) for name in own if name not in logs_of(other))


@pytest.mark.parametrize("has_state", [True, False])
def test_what_is_there_twice_is_not_lost(two_replicas, other, capsys, has_state):
    """[DUR-62, DUR-63] Every record is copied once, and the exit code is 0."""
    written = sum(map(len, logs_of(two_replicas).values()))
    copy_over(other, two_replicas, has_state=has_state)
    there = sum(map(len, logs_of(two_replicas).values()))

    report = salvaged_replica(two_replicas)

    assert (report.complete, report.lost, report.lost_bytes) == (True, [], 0)
    assert report.kept_bytes == written
    assert report.duplicate_bytes == there - written > 0
    assert (
        report.duplicate_batches
        == report.duplicate_bytes * RECORDS_OF_A_REPLICA // RECORDS_OF_A_REPLICAS_BATCH // written
    )
    assert (
        main(["salvage", "-q", str(two_replicas), str(two_replicas.parent / "again" / "o-0")]) == 0
    )
    assert "are in the source twice" in capsys.readouterr().out


@pytest.mark.parametrize("base", ["first", "last"])
def test_of_two_equal_batches_the_whole_one_is_copied(two_replicas, other, base):
    """[DUR-62] Damage in one of the two files costs nothing, and is told all the same."""
    copy_over(other, two_replicas, has_state=True)
    names = sorted(logs_of(two_replicas))
    file = two_replicas / (names[1] if base == "first" else names[-1])
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    size = len(batch([(None, b"value 10")] * RECORDS_OF_A_REPLICAS_BATCH))

    report = segstore.salvage(two_replicas, two_replicas.parent / "saved" / "o-0")

    with segstore.open(two_replicas.parent / "saved" / "o-0", read_only=True) as log:
        kept = {record.offset for record in log}
    (lost,) = report.lost
    assert (lost.code, lost.file) == ("BATCH_CORRUPT", file.name)
    assert lost.size_bytes <= size
    missing = set(range(RECORDS_OF_A_REPLICA)) - kept
    assert missing <= set(range(lost.first_offset, lost.next_offset or RECORDS_OF_A_REPLICA))
    assert base == "last" or not missing


def test_other_records_at_the_same_offsets_are_lost(two_replicas, tmp_path):
    """[DUR-7] A replica that took another way: one of the two is copied, the other one told."""
    other = tmp_path / "other" / "o-0"
    write_replica(other, 1700, value=b"other")
    copy_over(other, two_replicas, has_state=True)

    report = salvaged_replica(two_replicas)

    assert not report.complete
    assert {lost.code for lost in report.lost} == {"SEGMENTS_OVERLAP"}
    assert report.duplicate_batches == 0


def test_a_segment_that_is_there_again_at_the_end_of_another(two_replicas):
    """[DUR-63] A copy of earlier batches is no record of its own; nothing is lost."""
    names = sorted(logs_of(two_replicas))
    first, last = two_replicas / names[0], two_replicas / names[-1]
    last.write_bytes(last.read_bytes() + first.read_bytes())

    report = salvaged_replica(two_replicas)

    assert report.complete
    assert report.duplicate_bytes == len(first.read_bytes())


# ---- salvage of lost markers ---------------------------------------------------------------------
# A salvage of a log whose ABORT marker was damaged showed aborted records as committed.
#
# Salvage makes no marker again. The report names each transaction whose end may be among what was
# lost, and what the source's transaction index says of it.


STATE = (".segstore", ".kafka_cleanshutdown")
RECOVERY_POINT = "recovery-point-offset-checkpoint"


def committed(path):
    with segstore.open(path, read_only=True) as log:
        assert log.verify().ok
        return [record.offset for record in log.scan(isolation="read_committed")]


def lose(path, offset, base_offset=0):
    """Flip a bit of the batch at *offset*."""
    file = path / file_name(base_offset, "log")
    (batch,) = [one for one in batches_of(file) if one.base_offset == offset]
    flip_bit(file, batch.position + batch.size - 1)


@pytest.fixture(params=["closed", "killed", "a broker's"])
def write_log(request, tmp_path):
    """Return a function that calls one with a new log, and leaves the log in one of three ways."""

    def write_it(act):
        path = tmp_path / "source" / "a-0"
        log = segstore.open(path)
        act(log)
        shown = [record.offset for record in log.scan(isolation="read_committed")]
        if request.param == "killed":
            log.flush()
            log.close_quietly()
        else:
            log.close()
        if request.param == "a broker's":  # it keeps that for all of its logs
            (path / RECOVERY_POINT).rename(path.parent / RECOVERY_POINT)
        for name in STATE if request.param == "a broker's" else ():
            (path / name).unlink()
        return path, shown

    return write_it


def abort_then_commit(log):
    """Offsets 0 (aborted), 1 the ABORT, 2 plain, 3 (committed), 4 the COMMIT."""
    producer = Producer(log, 5)
    producer.write(1)
    producer.end(ABORT)
    write(log)
    producer.write(1)
    producer.end(COMMIT)


def abort_then_commit_in_another_segment(log):
    producer = Producer(log, 5)
    producer.write(1)
    producer.end(ABORT)
    write(log)
    log.roll()
    producer.write(1)
    producer.end(COMMIT)


def abort_at_the_begin_of_a_segment(log):
    producer = Producer(log, 5)
    producer.write(1)
    log.roll()
    producer.end(ABORT)
    write(log)
    producer.write(1)
    producer.end(COMMIT)


WAYS = {
    abort_then_commit: 0,
    abort_then_commit_in_another_segment: 0,
    abort_at_the_begin_of_a_segment: 1,
}


@pytest.mark.parametrize("act", WAYS)
def test_a_lost_abort_is_told_with_what_the_index_says(write_log, tmp_path, act):
    """[DUR-7, DUR-62] Another marker decides about the records; the index names the lost one."""
    path, shown = write_log(act)
    lose(path, 1, WAYS[act])
    end = shown[-1] + 1

    report = segstore.salvage(path, tmp_path / "b-0")

    assert [lost.first_offset for lost in report.lost] == [1]
    assert report.uncertain_transactions == [UncertainTransaction(5, 0, 1, end, aborted_at=1)]
    assert any("it was aborted at offset 1" in warning for warning in report.warnings)
    assert committed(tmp_path / "b-0") == [0, *shown]
    values = report.to_dict()["uncertain_transactions"]
    assert [one["marker_offset"] for one in values] == [end]


def test_of_an_open_transaction_of_an_intact_log_no_marker_is_lost(write_log, tmp_path):
    """[DUR-62] "its end marker may be lost" stood beside "nothing was lost"."""
    path, _ = write_log(lambda log: Producer(log, 5).write(1))

    report = segstore.salvage(path, tmp_path / "b-0")
    (warning,) = (one for one in report.warnings if "a transaction is open" in one)
    assert report.complete
    assert "lost" not in warning
    assert "segstore abort-transaction" in warning


def test_a_lost_abort_at_the_end_leaves_the_transaction_open(write_log, tmp_path):
    """[DUR-7] No record of it is shown; the report says where committed data ends."""

    def act(log):
        producer = Producer(log, 5)
        write(log)
        producer.write(1)
        producer.end(ABORT)

    path, shown = write_log(act)
    lose(path, 2)

    report = segstore.salvage(path, tmp_path / "b-0")

    assert report.uncertain_transactions == []
    assert committed(tmp_path / "b-0") == shown == [0]
    (warning,) = report.warnings
    command = shlex.split(warning.split("`")[1])
    assert main(command[1:]) == 0
    with segstore.open(tmp_path / "b-0") as log:
        assert log.last_stable_offset == log.log_end_offset
    assert committed(tmp_path / "b-0") == [0]


@pytest.mark.parametrize("loss", ["removed", "emptied", "another producer's", "torn"])
def test_without_an_index_the_report_says_that_it_may_be(write_log, tmp_path, loss):
    """[DUR-7] The next end of the producer is not that of the lost transaction, perhaps."""
    path, _ = write_log(abort_then_commit)
    lose(path, 1)
    index = path / file_name(0, "txnindex")
    data = bytearray(index.read_bytes())
    data[9] ^= 1
    if loss == "removed":
        index.unlink()
    else:
        index.write_bytes({"emptied": b"", "another producer's": data, "torn": data[:9]}[loss])

    report = segstore.salvage(path, tmp_path / "b-0")

    assert committed(tmp_path / "b-0") == [0, 2, 3]
    assert report.uncertain_transactions == [UncertainTransaction(5, 0, 1, 4)]


def test_a_lost_commit_before_an_abort(write_log, tmp_path):
    """[DUR-7] Committed records may count as aborted just as well."""

    def act(log):
        producer = Producer(log, 5)
        for kind in (COMMIT, ABORT):
            producer.write(1)
            producer.end(kind)

    path, shown = write_log(act)
    lose(path, 1)

    report = segstore.salvage(path, tmp_path / "b-0")

    assert (shown, committed(tmp_path / "b-0")) == ([0], [])
    assert report.uncertain_transactions == [UncertainTransaction(5, 0, 1, 3)]


def test_only_what_was_open_at_a_loss_is_uncertain(write_log, tmp_path):
    """[DUR-7] Of two producers the one whose transaction had ended before is not."""

    def act(log):
        first, second = Producer(log, 5), Producer(log, 6)
        first.write(1)
        second.write(1)
        second.end(ABORT)
        write(log)  # offset 3
        first.write(1)
        first.end(COMMIT)

    path, shown = write_log(act)
    lose(path, 3)

    report = segstore.salvage(path, tmp_path / "b-0")

    assert report.uncertain_transactions == [UncertainTransaction(5, 0, 3, 5)]
    assert committed(tmp_path / "b-0") == [one for one in shown if one != 3] == [0, 4]


def test_a_transaction_that_is_lost_as_a_whole_is_not_uncertain(write_log, tmp_path):
    """All of an aborted transaction is gone: nothing of it can be shown."""

    def act(log):
        write(log)
        producer = Producer(log, 5)
        producer.write(1)
        producer.end(ABORT)
        write(log)

    path, shown = write_log(act)
    lose(path, 2)
    lose(path, 1)

    report = segstore.salvage(path, tmp_path / "b-0")

    assert report.warnings == []
    assert committed(tmp_path / "b-0") == shown == [0, 3]


# ---- salvage of vanished batches -----------------------------------------------------------------
# Whole batches that had vanished from the midst of a file took a good neighbour along.
#
# In a log without gaps, of two batches that do not follow one another one was taken for wrong.
# Where each of them has another that shows its offsets to be right, what lay between them is gone
# [DUR-50].


COUNT = 12


@pytest.fixture(params=["closed", "unclean"])
def twelve_batches(request, tmp_path):
    """Records 0 to 11, a batch each, in segments of four."""
    path = tmp_path / "a-0"
    with segstore.open(path) as log:
        for number in range(COUNT):
            log.append([(b"k", b"%02d" % number)])
            if number % 4 == 3 and number < COUNT - 1:
                log.roll()
    if request.param == "unclean":
        (path / ".kafka_cleanshutdown").unlink()
    return path


def _take_out(path, gone) -> None:
    for base in {number - number % 4 for number in gone}:
        file = path / f"{base:020d}.log"
        content = file.read_bytes()
        size = len(content) // 4
        kept = [number for number in range(base, base + 4) if number not in gone]
        file.write_bytes(b"".join(content[(n - base) * size : (n - base + 1) * size] for n in kept))


def _ranges(offsets):
    """Return runs of consecutive numbers as (first, behind the last)."""
    found = []
    for _, run in itertools.groupby(enumerate(sorted(offsets)), lambda pair: pair[1] - pair[0]):
        numbers = [number for _, number in run]
        found.append((numbers[0], numbers[-1] + 1))
    return found


CASES = [
    {1},
    {1, 2},
    {2},
    {0},
    {0, 1},
    {3},
    {5, 6},
    {4, 5, 6},
    {9},
    {9, 10},
    {8, 9},
    {11},
    {1, 5, 9},
    {2, 3, 4, 5},
    {0, 1, 2, 3},
]


@pytest.mark.parametrize("gone", CASES, ids=str)
def test_what_is_intact_is_kept_and_the_loss_named(twelve_batches, tmp_path, gone):
    """[DUR-62]"""
    _take_out(twelve_batches, gone)
    report = segstore.salvage(twelve_batches, tmp_path / "out" / "a-0")
    assert [(lost.first_offset, lost.next_offset) for lost in report.lost] == _ranges(gone)
    assert report.batches == COUNT - len(gone)
    assert report.lost_bytes == 0
    assert not [text for text in report.warnings if "kept with the offsets" in text]
    with segstore.open(tmp_path / "out" / "a-0") as log:
        assert [record.offset for record in log] == sorted(set(range(COUNT)) - gone)
        assert log.log_end_offset == COUNT


@pytest.mark.parametrize("number", range(COUNT))
def test_one_whose_base_offset_changed_is_still_told(twelve_batches, tmp_path, number):
    """[DUR-50] Its neighbours go on without it: it is the wrong one."""
    base = number - number % 4
    file = twelve_batches / f"{base:020d}.log"
    content = bytearray(file.read_bytes())
    content[(number - base) * len(content) // 4 + 6] ^= 1
    file.write_bytes(content)
    report = segstore.salvage(twelve_batches, tmp_path / "out" / "a-0")
    assert [(lost.first_offset, lost.next_offset) for lost in report.lost] == [(number, number + 1)]
    with segstore.open(tmp_path / "out" / "a-0") as log:
        assert [record.offset for record in log] == sorted(set(range(COUNT)) - {number})
