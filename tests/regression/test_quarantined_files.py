"""What an open sets aside instead of deleting it: named, kept once, and found again."""

from __future__ import annotations

import errno
import json
import shutil
import struct
from contextlib import closing, suppress
from unittest import mock

import pytest

import segstore
from segstore import cli
from segstore._core import DataFile, Directory, FileBarrier, SimulatedDisk
from segstore.cli import main
from segstore.errors import (
    CorruptLogError,
    DiskFullError,
    ReadIOError,
    ResourceError,
    SegstoreError,
)
from segstore.log.files.checkpoints import (
    CLEAN_SHUTDOWN_MARKER,
    LOG_START_OFFSET_CHECKPOINT,
    MAX_CHECKPOINT_BYTES,
    RECOVERY_POINT_CHECKPOINT,
    RESTART_MARKER,
)
from segstore.log.files.partition_directory import file_name
from segstore.log.local import file_bytes
from segstore.log.recovery import quarantine
from segstore.log.recovery.quarantine import Quarantine
from segstore.log.recovery.repair import Repair
from segstore.log.recovery.restart_marker import RestartMarkerContent
from tests.crash.barrier_scene import LAZY, open_log
from tests.crash.crash_check import Crash, look
from tests.crash.crash_script import PATH
from tests.kits.cli_process import run_segstore
from tests.kits.damaged_logs import (
    RECORDS_COUNT,
    append_bytes,
    batches_of,
    build,
    expected_values,
    flip_bit,
    values_of,
)
from tests.kits.directory_kit import disk_with, name_of, records
from tests.kits.log_kit import at, in_a_child, offsets, two_segments, values
from tests.kits.set_aside_kit import (
    BASES,
    END,
    ENDS,
    NAMES,
    SET_ASIDE,
    before_the_mark_goes,
    before_the_new_segment,
    begin_and_end,
    follow,
    make_log,
    midway,
    put_log_start,
    refusal,
    verified,
    with_the_new_segment,
)

# ---- base offset that jumped ---------------------------------------------------------------------
# One flipped bit in a base offset made recovery cut good, synced batches behind it.


def test_synced_batches_behind_a_jump_are_not_cut(tmp_path):
    """[DUR-50, DUR-51] The batch that jumped ahead is the bad one: the CRC does not cover it."""
    folder = tmp_path / "orders-0"
    with segstore.open(folder) as log:
        log.append([(b"k", b"0")])
        log.append([(b"k", b"1")])
        log.append([(b"k", b"2")])
    (folder / CLEAN_SHUTDOWN_MARKER).unlink()
    (folder / ".segstore").unlink()  # as in a directory of a broker
    file = next(folder.glob("*.log"))
    data = bytearray(file.read_bytes())
    second = len(data) // 3
    data[second + 6] ^= 1  # 1 becomes 257
    file.write_bytes(data)

    with pytest.raises(CorruptLogError, match="had been synced"):
        segstore.open(folder)

    assert file.read_bytes() == data


# ---- batch behind a sealed segment ---------------------------------------------------------------
# A whole batch behind the records of a sealed segment was cut, without a word, as if it were none.
#
# It repeats offsets that the segment has: nobody put it there on purpose, and nobody said so.


RECORDS = [b"%d" % number for number in range(4)]


@pytest.fixture
def repeated_batch(tmp_path):
    """Two segments; behind the first one its last batch stands a second time."""
    path = tmp_path / "orders-0"
    with segstore.open(path) as log:
        for number, value in enumerate(RECORDS):
            log.append([(None, value)])
            if number == 1:
                log.roll()
    file = path / f"{0:020d}.log"
    content = file.read_bytes()
    file.write_bytes(content + content[len(content) // 2 :])
    return path


def test_an_open_refuses_it_and_changes_nothing(repeated_batch):
    """[DUR-51, DUR-54, DUR-58]"""
    before = (repeated_batch / f"{0:020d}.log").read_bytes()
    for _ in range(2):
        with pytest.raises(CorruptLogError, match="end"):
            segstore.open(repeated_batch)
        assert (repeated_batch / f"{0:020d}.log").read_bytes() == before
    with closing(segstore.open(repeated_batch, read_only=True)) as reader:
        assert values(reader.read(0, 1)) == RECORDS[:1]


def test_verify_calls_it_no_zeros(repeated_batch):
    """[DUR-58]"""
    done = run_segstore("verify", repeated_batch)

    assert done.returncode == 1
    assert "nothing but zeros" not in done.stdout.decode()
    assert "0000.log" in done.stdout.decode()


def test_a_salvage_keeps_every_record(repeated_batch, tmp_path):
    """[DUR-59]"""
    segstore.salvage(repeated_batch, tmp_path / "copy-0")

    with segstore.open(tmp_path / "copy-0") as log:
        assert values(log) == RECORDS


# ---- batches behind decoys -----------------------------------------------------------------------
# Whole batches were cut without being kept, behind much that looked like a batch.
#
# The search for them gives up when too many places look like one; that counted as "there is none",
# of which 64 MiB are kept.


LIMIT_OF_DECOYS_BYTES = 50_000
DECOYS_BYTES = 200_000
DECOY = struct.pack(">qiiB", 100, DECOYS_BYTES // 2, 0, 2)  # offset, length, epoch, magic
BATCHES = records(11, 31)
TAIL_WITH_DECOYS = DECOY * (DECOYS_BYTES // len(DECOY)) + BATCHES


@pytest.fixture
def disk(monkeypatch):
    monkeypatch.setattr(quarantine, "MAX_QUARANTINE_BYTES", LIMIT_OF_DECOYS_BYTES)
    return disk_with({name_of(0): records(0, 10) + TAIL_WITH_DECOYS})


def test_all_is_kept_where_nobody_knows_whether_batches_are_in_it(disk):
    """[DUR-59] They may have been acknowledged."""
    with closing(open_log(disk)) as log:
        assert log.log_end_offset == 10
        names = log.report.quarantined
        assert log.report.warnings == []

    directory = Directory(PATH, disk)
    kept = [directory.read_file(name) for name in names]
    assert b"".join(kept) == TAIL_WITH_DECOYS
    assert max(map(len, kept)) == LIMIT_OF_DECOYS_BYTES


def test_nothing_is_cut_where_there_is_no_room_for_it(disk):
    """[DUR-57, DUR-59] The open is refused, and the next one with room finds all of it."""
    disk.set_room(LIMIT_OF_DECOYS_BYTES)
    with pytest.raises(DiskFullError, match="may be whole batches among them"):
        open_log(disk)

    directory = Directory(PATH, disk)
    assert directory.read_file(name_of(0)) == records(0, 10) + TAIL_WITH_DECOYS
    assert not any("quarantine" in name for name in directory.names())
    disk.set_room(None)
    with closing(open_log(disk)) as log:
        assert len(log.report.quarantined) == 5


# ---- padding hides damage ------------------------------------------------------------------------
# Zeros behind a segment below the recovery point, and a damaged batch in the middle of it.
#
# The look that told padding from damage left the checksums out; the cut behind it did not, and went
# to the damaged batch: synced records were gone without a word.


SIZE = len(at(0))
PADDING = bytes(4096)


@pytest.fixture
def file(new_log, tmp_path):
    """The first of two segments, sealed and synced, of a log that was not closed."""
    log = two_segments(new_log)
    log.flush()
    log.close_quietly()
    return tmp_path / "topic-0" / f"{0:020d}.log"


@pytest.mark.parametrize("number", range(6))
@pytest.mark.parametrize("padding", [PADDING, b""])
def test_nothing_is_cut_and_the_log_is_refused(new_log, file, number, padding):
    """[DUR-51, DUR-59] As often as it is opened; also to make an index anew."""
    content = bytearray(file.read_bytes() + padding)
    content[number * SIZE + SIZE - 2] ^= 1
    file.write_bytes(content)
    if not padding:
        file.with_suffix(".timeindex").write_bytes(b"\1" * 12)
    for _ in range(2):
        with pytest.raises(CorruptLogError, match="No record was changed"):
            new_log()
        assert file.read_bytes() == content


def test_padding_alone_is_trimmed(new_log, file):
    """[DUR-17, DUR-53] A crash undid the trim of the roll: no record is behind it."""
    content = file.read_bytes()
    file.write_bytes(content + PADDING)
    assert [record.offset for record in new_log()] == list(range(8))
    assert file.read_bytes() == content


def test_a_second_reading_that_differs_cuts_nothing(new_log, file, monkeypatch):
    """[DUR-51, DUR-57] What a disk gives out wrong once is no reason to cut there."""
    file.write_bytes(file.read_bytes() + PADDING)
    from segstore.log.local.segment import Segment

    recover, content = Segment.recover, bytearray(file.read_bytes())

    def recover_damaged(segment, **how):
        content[3 * SIZE - 2] ^= 1
        file.write_bytes(content)
        return recover(segment, **how)

    monkeypatch.setattr(Segment, "recover", recover_damaged)
    with pytest.raises(CorruptLogError, match="read twice, with two results"):
        new_log()
    assert file.read_bytes() == content


# ---- quarantine files are named ------------------------------------------------------------------
# Nobody mentioned what an open for writing had set aside: "clean", "nothing was lost".
#
# [DUR-58, DUR-59] Without a recovery point an open cuts at the first damage, and good segments
# behind it go into quarantine files. The last zero of the last batch was not kept: it could not
# come back.


@pytest.fixture(scope="module")
def crashed(tmp_path_factory):
    return build(tmp_path_factory.mktemp("crashed") / "orders-0")


@pytest.fixture
def log_directory(crashed, tmp_path):
    """A log without a recovery point."""
    directory = crashed.copy(tmp_path / "orders-0")
    directory.set_recovery_point(None)
    return directory


@pytest.fixture
def shortened(log_directory):
    """Its second segment was damaged, and the log was opened for writing."""
    damaged = log_directory.file(log_directory.bases[1])
    batch = batches_of(damaged)[1]
    flip_bit(damaged, batch.position + 70)
    log_directory.end = batch.base_offset
    log_directory.taken_out = log_directory.bases[1:]
    log_directory.open().close()
    return log_directory


def run(capsys, *arguments):
    code = cli.main([*map(str, arguments)])
    return code, capsys.readouterr().out


OF_DAMAGED = "; {} bytes of incomplete batches may hold acknowledged records"


def lines_expected(directory):
    """What is said of each file: offsets and bytes; the first begins with the damaged batch."""
    ends = [*directory.taken_out[1:], RECORDS_COUNT]
    firsts = [directory.end + 1, *directory.taken_out[1:]]
    lines = []
    for base, first, end in zip(directory.taken_out, firsts, ends, strict=True):
        name = f"{base:020d}.quarantine-1"
        size = (directory.path / name).stat().st_size
        lines.append(
            f"{name}, {size} bytes that an open for writing took out of the log: {end - first}"
            f" batches with offsets {first} to {end - 1}, which the log does not have"
        )
    with (directory.path / f"{directory.taken_out[0]:020d}.quarantine-1").open("rb") as file:
        damaged = 12 + int.from_bytes(file.read(12)[8:])
    lines[0] += OF_DAMAGED.format(damaged)
    return lines


def test_verify_and_inspect(shortened, capsys):
    """The log that is left is in order; that is not all there was."""
    expected = lines_expected(shortened)

    code, out = run(capsys, "verify", "-q", shortened.path)
    summary, *lines = out.splitlines()
    assert code == 0
    assert "clean" not in summary
    assert "records were taken out of it" in summary
    assert lines == [f"  quarantine: {line}" for line in expected]
    code, out = run(capsys, "inspect", "-q", shortened.path)
    assert [line for line in out.splitlines() if "quarantine" in line] == lines
    code, out = run(capsys, "inspect", "-q", "--json", shortened.path)
    facts = json.loads(out)
    assert [file["name"] for file in facts["quarantined"]] == [
        line.partition(",")[0] for line in expected
    ]
    assert not any("quarantine" in name for name in facts["other_files"])
    code, out = run(capsys, "verify", "-q", "--json", shortened.path)
    assert json.loads(out)["quarantined"] == facts["quarantined"]
    with shortened.open(read_only=True) as log:
        report = log.verify()
    assert report.ok
    assert str(report).splitlines()[1:] == [f"quarantine: {line}" for line in expected]


def test_salvage(shortened, capsys, tmp_path):
    """The new log lacks these records too: they are lost, with file and offsets."""
    code, out = run(capsys, "salvage", "-q", shortened.path, tmp_path / "saved" / "orders-0")

    assert code == 1
    assert "nothing" not in out
    lost = [line for line in out.splitlines() if "quarantine" in line]
    assert len(lost) == len(shortened.taken_out)
    assert f"offsets {shortened.end + 1} to {shortened.taken_out[1] - 1}: an open" in lost[0]


def test_bytes_without_a_batch(log_directory, capsys, tmp_path):
    """[DUR-59] What a write left that was not finished is named, and no record is missed."""
    append_bytes(log_directory.last, b"half a batch")
    log_directory.open().close()

    code, out = run(capsys, "verify", "-q", log_directory.path)
    assert (code, out.splitlines()[0].split(": ")[1].split(";")[0]) == (0, "clean")
    told = "12 bytes that an open for writing took out of the log: they hold no whole batch"
    assert f"{told} that the log lacks{OF_DAMAGED.format(12)}" in out
    code, out = run(capsys, "salvage", "-q", log_directory.path, tmp_path / "saved" / "orders-0")
    assert code == 0
    assert "nothing was lost" not in out
    assert "nothing of the .log files was lost" in out
    assert f"not copied: {log_directory.last.stem}.quarantine-1, 12 bytes" in out


def test_what_the_log_has_is_not_missed(shortened):
    """[DUR-55] A copy of a segment, or records that were deleted since."""
    base, *later = shortened.taken_out
    first = shortened.bases[0]
    shutil.copy(shortened.file(first), shortened.path / f"{first:020d}.quarantine-1")
    with shortened.open() as log:
        first_file, *others = log.verify().quarantined
        assert (first_file.name, first_file.batches) == (f"{first:020d}.quarantine-1", 0)
        assert all(file.batches for file in others)
        log.truncate_fully_and_start_at(later[0])
        found = log.verify().quarantined

    missed = {int(file.name[:20]): file.batches > 0 for file in found}
    assert missed == {first: False, base: False, **dict.fromkeys(later, True)}


def test_files_of_any_size_are_read_in_pieces(shortened, monkeypatch):
    """A segment that was set aside has up to 2 GiB, and so may a batch."""
    with shortened.open(read_only=True) as log:
        expected = log.verify().quarantined
        for piece_bytes in (17, 61, 100, 400):
            monkeypatch.setattr(file_bytes, "_PIECE_BYTES", piece_bytes)
            assert log.verify().quarantined == expected


def test_the_way_back_of_the_guide(shortened, tmp_path):
    """In a copy: tails go to the end of their files, whole segments get their names back."""
    rescue = tmp_path / "rescue" / "orders-0"
    shutil.copytree(shortened.path, rescue)
    for file in sorted(rescue.glob("*.quarantine-1")):
        log_file = file.with_suffix(".log")
        if log_file.exists():
            append_bytes(log_file, file.read_bytes())
        else:
            file.rename(log_file)

    report = segstore.salvage(rescue, tmp_path / "saved" / "orders-0")

    assert [(lost.first_offset, lost.next_offset) for lost in report.lost if lost.size_bytes] == [
        (shortened.end, shortened.end + 1)
    ]
    with segstore.open(tmp_path / "saved" / "orders-0") as log:
        there = values_of(log)
    assert there == [
        value for value in expected_values(0, RECORDS_COUNT) if value[0] != shortened.end
    ]


def test_records_that_were_brought_back_behind_a_torn_batch(new_log, tmp_path):
    """The guide's recipe: what is cut begins with bytes that are no batch, and so it goes back."""
    log = new_log()
    log.append_as_follower(at(0, 10), 0)
    log.flush()
    log.close_quietly()
    directory = tmp_path / "topic-0"
    file = directory / file_name(0, "log")
    file.write_bytes(file.read_bytes() + b"torn" + b"".join(at(n) for n in range(11, 100)))
    segstore.open(directory).close()
    (cut,) = directory.glob("*.quarantine-*")
    file.write_bytes(file.read_bytes() + cut.read_bytes())

    report = segstore.salvage(directory, tmp_path / "saved" / "topic-0")

    assert report.batches == 90
    assert "they hold no whole batch that the log lacks" in str(report)


# ---- quarantine of opens that failed -------------------------------------------------------------
# Each open that failed, or died, behind the quarantine left another full copy of the tail there.
#
# Three failures left four files with the same bytes, and who brought them back counted them as
# lost.


LIMIT_OF_COPIES_BYTES = 1000
LOG = name_of(0)
TORN_TAIL = b"torn" + records(11, 45)
KEPT = f"{0:020d}.quarantine-"


@pytest.fixture
def small_files(monkeypatch):
    monkeypatch.setattr(quarantine, "MAX_QUARANTINE_BYTES", LIMIT_OF_COPIES_BYTES)
    monkeypatch.setattr(quarantine, "_PIECE_BYTES", 300)


def kept_on(disk) -> dict[str, bytes]:
    directory = Directory(PATH, disk)
    names = [name for name in directory.names() if name.startswith(KEPT)]
    return {name: directory.read_file(name) for name in names if not name.endswith(".tmp")}


def expected() -> dict[str, bytes]:
    starts = range(0, len(TORN_TAIL), LIMIT_OF_COPIES_BYTES)
    return {
        f"{KEPT}{number}": TORN_TAIL[start : start + LIMIT_OF_COPIES_BYTES]
        for number, start in enumerate(starts, 1)
    }


@pytest.mark.usefixtures("small_files")
@pytest.mark.parametrize("error", [KeyboardInterrupt, ResourceError, ReadIOError])
def test_failures_behind_it_leave_one_copy(monkeypatch, error):
    """[DUR-56, DUR-59] The second time changes nothing; the report names what is there."""
    disk = disk_with({LOG: records(0, 10) + TORN_TAIL})

    def fail(*_: object, **__: object) -> None:
        raise error("not now")

    with monkeypatch.context() as patched:
        patched.setattr(Repair, "_rebuild", fail)
        for _ in range(3):
            with pytest.raises(error):
                open_log(disk)
            assert kept_on(disk) == expected()
    with closing(open_log(disk)) as log:
        assert log.report.quarantined == list(expected())
    assert kept_on(disk) == expected()
    assert len(expected()) > 1


def refuse_a_second_copy(disk: SimulatedDisk) -> None:
    """There is room for what an open writes besides."""

    def watch(call: str, name: str) -> None:
        if call == "write_at" and name.startswith(KEPT):
            disk.fail("write_at", 1, errno.ENOSPC)

    disk.watch(watch)


@pytest.mark.usefixtures("small_files")
def test_what_is_kept_needs_no_room_again(monkeypatch):
    """[DUR-57, DUR-59] A full disk has room for one copy, and it is there and on the disk."""
    disk = disk_with({LOG: records(0, 10) + TORN_TAIL})
    with monkeypatch.context() as patched:
        patched.setattr(Repair, "_rebuild", mock.Mock(side_effect=KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            open_log(disk)
    refuse_a_second_copy(disk)
    with closing(open_log(disk)) as log:
        assert log.report.quarantined == list(expected())
    assert kept_on(disk.crash_image(fate="lost")) == expected()


@pytest.mark.usefixtures("small_files")
def test_a_copy_that_nobody_synced_is_synced_where_there_is_no_room_for_another():
    """[DUR-57, DUR-59] Neither the file nor its name need be on the disk: both are before a cut."""
    disk = disk_with({LOG: records(0, 10) + TORN_TAIL})
    for name, content in expected().items():
        with DataFile(Directory(PATH, disk), name, create=True) as file:
            file.write(0, content)
    assert not kept_on(disk.crash_image(fate="lost"))
    begun = disk.effects
    refuse_a_second_copy(disk)
    look(disk, LAZY)

    for effects in range(begun, disk.effects + 1):
        image = Crash(effects, "lost").image(disk)
        is_cut = Directory(PATH, image).info(LOG).size < len(records(0, 10) + TORN_TAIL)
        assert not is_cut or kept_on(image) == expected()
    assert is_cut


@pytest.mark.usefixtures("small_files")
def test_processes_that_died_anywhere_leave_one_copy():
    """[DUR-56, DUR-59] No half of a file either: behind every effect of an open, twice."""
    disk = disk_with({LOG: records(0, 10) + TORN_TAIL})
    begun = disk.effects
    look(disk, LAZY)
    seen = set()
    for effects in range(begun, disk.effects + 1):
        died = Crash(effects, "kept").image(disk)
        seen.add(len(kept_on(died)))
        again = died.effects + effects - begun
        died.cut_power_after(again)
        with suppress(SegstoreError):
            look(died, LAZY)
        died.cut_power_after(None)
        died = Crash(min(again, died.effects), "kept").image(died)
        look(died, LAZY)
        assert kept_on(died) == expected()
        assert not any(name.endswith(".tmp") for name in Directory(PATH, died).names())
    assert seen == set(range(len(expected()) + 1))


@pytest.mark.usefixtures("small_files")
def test_a_file_that_was_not_finished_goes():
    """[DUR-55] Its bytes are in the log, or were lost with its end; other names are left alone."""
    others = [f"{KEPT}1.tmp.tmp", f"{KEPT}x.tmp", f"{KEPT}0.tmp", f"x{KEPT}1.tmp"]
    names = [f"{KEPT}1.tmp", f"{KEPT}12.tmp", *others]
    disk = disk_with({LOG: records(0, 10), **dict.fromkeys(names, b"torn")})
    with closing(open_log(disk)) as log:
        assert not log.report.quarantined

    there = Directory(PATH, disk).names()
    assert [name for name in there if ".quarantine" in name] == sorted(others)


@pytest.mark.usefixtures("small_files")
@pytest.mark.parametrize("fate", ["lost", "seed"])
def test_what_an_earlier_open_kept_is_there_at_any_time(fate):
    """[DUR-59] Also where the log has the same bytes again, of which nobody knows: not synced."""
    disk = disk_with({LOG: records(0, 10), **expected()})
    with DataFile(Directory(PATH, disk), LOG) as file:
        file.write(len(records(0, 10)), TORN_TAIL)
    begun = disk.effects
    look(disk, LAZY)

    for effects in range(begun, disk.effects + 1):
        for seed in range(10):
            assert kept_on(Crash(effects, fate, seed).image(disk)) == expected()


@pytest.fixture
def directory():
    disk = SimulatedDisk()
    Directory("/", disk).make_directory("t-0")
    return Directory("/t-0", disk)


def keep(directory, content: bytes) -> list[str]:
    directory.create_file(LOG, content, FileBarrier.CLEAN_MARKER)
    quarantine = Quarantine(directory)
    foretold = quarantine.names_of_tail(LOG, 0, len(content), holds_batches=True)
    kept = quarantine.keep_tail(LOG, 0, len(content), holds_batches=True)
    assert kept == foretold
    return [name.removeprefix(KEPT) for name in kept[0]]


@pytest.mark.usefixtures("small_files")
def test_the_files_of_one_tail_stand_in_its_order(directory):
    """[DUR-59] Put together in the order of their names they are what was cut."""
    first, second = b"a" * LIMIT_OF_COPIES_BYTES, b"b" * LIMIT_OF_COPIES_BYTES
    assert keep(directory, second) == ["1"]
    assert keep(directory, first + second) == ["2", "3"]
    assert keep(directory, second + first + b"c") == ["1", "2", "4"]
    assert keep(directory, first + first) == ["2", "5"]
    assert keep(directory, first + first) == ["2", "5"]


@pytest.mark.usefixtures("small_files")
def test_what_has_other_bytes_stays(directory):
    """[DUR-59] Of the same size, longer, shorter, no file, or one that cannot be read."""
    for number, content in enumerate((b"another", b"content and more", b"cont"), 1):
        directory.create_file(f"{KEPT}{number}", content, FileBarrier.QUARANTINE)
    directory.make_directory(f"{KEPT}4")

    assert keep(directory, b"content") == ["5"]
    assert keep(directory, b"content") == ["5"]
    disk = directory.environment
    is_read = []

    def fail_the_second(call: str, name: str) -> None:
        if call == "read_at" and name == f"{KEPT}5":
            is_read.append(name)
            disk.fail("read_at", 1, errno.EIO)

    disk.watch(fail_the_second)
    assert keep(directory, b"content") == ["6"]
    disk.watch(None)
    assert is_read
    assert [directory.read_file(f"{KEPT}{n}") for n in (1, 2, 3, 5, 6)] == [
        b"another",
        b"content and more",
        b"cont",
        b"content",
        b"content",
    ]


# ---- log set aside in two opens ------------------------------------------------------------------
# An open that set a whole log aside and was not done left a mark, which the next one only obeyed.
#
# It told nobody of what had been set aside; and where somebody had put the wrong log start right in
# between, as a warning advised, it made a new log in the place of synced records, without a word.
# Where what it had set aside was taken away, the next open said "new log", and ``verify`` "clean";
# of a log without a record ``verify`` said that records are missing.


@pytest.fixture
def log_to_set_aside(tmp_path):
    return make_log(tmp_path)


@pytest.mark.parametrize("end", ENDS)
def test_the_next_open_tells_of_all_that_is_set_aside(log_to_set_aside, end, monkeypatch):
    """[DUR-7, DUR-58]"""
    begin_and_end(log_to_set_aside, end, monkeypatch)

    with segstore.open(log_to_set_aside) as log:
        assert (log.log_start_offset, log.log_end_offset) == (1000, 1000)
        assert not log.report.created
        assert not log.report.clean
        (warning,) = [text for text in log.report.warnings if "are in quarantine: " in text]
        assert sorted(log.report.set_aside) == [*NAMES]
    assert f"are in quarantine: {NAMES[0]}, {NAMES[1]} and {NAMES[2]};" in warning
    assert not (log_to_set_aside / RESTART_MARKER).exists()
    with segstore.open(log_to_set_aside) as log:
        assert log.report.clean
        assert not log.report.warnings


@pytest.mark.parametrize("has_point", [True, False])
@pytest.mark.parametrize("end", ENDS)
def test_another_log_start_does_not_count_what_was_set_aside_as_gone(
    log_to_set_aside, end, has_point, monkeypatch
):
    """[DUR-1, DUR-54] The open is refused, and what the refusal advises brings all of it back."""
    begin_and_end(log_to_set_aside, end, monkeypatch)
    put_log_start(log_to_set_aside, 0)
    if not has_point:
        (log_to_set_aside / RECOVERY_POINT_CHECKPOINT).unlink()
    before = {file.name: file.read_bytes() for file in log_to_set_aside.iterdir() if file.is_file()}

    for _ in range(2):
        with pytest.raises(CorruptLogError, match="whole log for the log start 1000") as refused:
            segstore.open(log_to_set_aside)
    after = {file.name: file.read_bytes() for file in log_to_set_aside.iterdir() if file.is_file()}
    assert before == after

    renamed = follow(log_to_set_aside, refused.value.message)
    assert renamed == [*SET_ASIDE.get(end, NAMES)]
    with segstore.open(log_to_set_aside) as log:
        assert offsets(log) == [*range(END)]


def test_deleting_more_behind_a_broker_keeps_the_leave(log_to_set_aside, monkeypatch):
    """[DUR-54] What was set aside lies below any later log start too."""
    begin_and_end(log_to_set_aside, before_the_new_segment, monkeypatch)
    put_log_start(log_to_set_aside, 1005)

    with segstore.open(log_to_set_aside) as log:
        assert log.log_end_offset == 1005


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("log_start", [0, 1000])
def test_verify_tells_of_the_mark(log_to_set_aside, end, log_start, monkeypatch, capsys):
    """[DUR-7, DUR-58] And does not send for a copy: nothing is lost."""
    begin_and_end(log_to_set_aside, end, monkeypatch)
    put_log_start(log_to_set_aside, log_start)

    out = verified(log_to_set_aside, capsys)
    assert f"remove {RESTART_MARKER}" in out
    assert "restore the directory" not in out


@pytest.mark.parametrize("has_point", [True, False])
@pytest.mark.parametrize("log_start", [0, 1000])
def test_what_was_set_aside_and_taken_away_is_lost(
    log_to_set_aside, log_start, has_point, monkeypatch, capsys
):
    """[DUR-7, DUR-58] Nobody says that it is there, or that there was no log."""
    begin_and_end(log_to_set_aside, before_the_new_segment, monkeypatch)
    put_log_start(log_to_set_aside, log_start)
    for file in log_to_set_aside.glob("*.quarantine-*"):
        file.unlink()
    if not has_point:
        (log_to_set_aside / RECOVERY_POINT_CHECKPOINT).unlink()

    out = verified(log_to_set_aside, capsys)
    assert out.count("records 0 to 8 are missing") == 1
    assert "restore the directory from a copy" in out
    assert main(["recover", "--dry-run", "-q", str(log_to_set_aside)]) == 1
    assert "records 0 to 8 are missing" in " ".join(capsys.readouterr().out.split())
    if log_start == 0:
        assert "All its quarantine files are gone" in refusal(log_to_set_aside)
        return
    with segstore.open(log_to_set_aside) as log:
        report = log.report
    assert not report.created
    assert not report.clean
    assert report.reason
    (warning,) = [text for text in report.warnings if "gone" in text]
    assert all(name in warning for name in NAMES)
    assert "records 0 to 8 are missing" in warning
    assert "are in quarantine" not in warning


@pytest.mark.parametrize("end", ENDS[1:])
@pytest.mark.parametrize("log_start", [0, 1000])
def test_one_of_those_is_lost(log_to_set_aside, log_start, end, monkeypatch, capsys):
    """[DUR-7, DUR-58] What of it is missing is told, and what is here."""
    begin_and_end(log_to_set_aside, end, monkeypatch)
    put_log_start(log_to_set_aside, log_start)
    (log_to_set_aside / NAMES[-1]).unlink()

    out = verified(log_to_set_aside, capsys)
    assert out.count("records 6 to 8 are missing") == 1
    assert NAMES[1] in out
    if log_start == 0:
        advice = refusal(log_to_set_aside)
        assert f"{NAMES[-1]} is gone" in advice
        assert follow(log_to_set_aside, advice) == [*SET_ASIDE.get(end, NAMES)][:-1]
        with pytest.raises(CorruptLogError, match="9"):
            segstore.open(log_to_set_aside)
        return
    with segstore.open(log_to_set_aside) as log:
        (warning,) = [text for text in log.report.warnings if "are in quarantine: " in text]
    assert f"are in quarantine: {NAMES[0]} and {NAMES[1]};" in warning
    assert f"{NAMES[-1]} is gone" in warning
    assert "records 6 to 8 are missing" in warning


def write_empty(path) -> bool:
    log = segstore.open(path)
    log.append([(None, b"x")] * 5)
    log.flush()
    log.truncate_fully_and_start_at(500)
    return True


def write_emptied(path) -> bool:
    """Behind what retention deletes its epoch is left."""
    log = segstore.open(path)
    log.append([(None, b"x")] * 500)
    log.roll()
    log.flush()
    log.delete_records(500)
    return True


@pytest.fixture(params=[write_empty, write_emptied])
def empty_path(request, tmp_path):
    path = tmp_path / "topic-0"
    assert in_a_child(lambda: request.param(path)) == 0
    put_log_start(path, 1000)
    return path


@pytest.mark.parametrize("end", ENDS[2:])
@pytest.mark.parametrize("log_start", [0, 500, 1000])
def test_of_a_log_without_a_record_none_is_lost(empty_path, log_start, end, monkeypatch, capsys):
    """[DUR-7, DUR-58] Nothing was set aside, and nobody sends for a copy."""
    path = empty_path
    begin_and_end(path, end, monkeypatch)
    put_log_start(path, log_start)

    out = verified(path, capsys)
    assert "missing" not in out
    assert "restore the directory" not in out
    if log_start == 0:
        advice = refusal(path)
        assert "missing" not in advice
        assert f"write a log start from 500 on into {LOG_START_OFFSET_CHECKPOINT}" in advice
        put_log_start(path, log_start := 500)
    with segstore.open(path) as log:
        begin = 1000 if end in {with_the_new_segment, before_the_mark_goes} else log_start
        assert (log.log_start_offset, log.log_end_offset) == (begin, begin)
        assert not log.report.created
        assert not log.report.clean
    assert not (path / RESTART_MARKER).exists()


# ---- log set aside names -------------------------------------------------------------------------
# The mark of a log that is set aside had the log start alone, and no name of a file.
#
# What it advised to rename were all quarantine files without a ``.log``, those of other incidents
# too: their records came into the log. With a gap in the numbers the newest of a base offset was
# not the whole segment.


def test_an_older_cut_is_not_renamed(log_to_set_aside, monkeypatch):
    """[DUR-59] Quarantine files of the same base offsets, garbage, have other numbers."""
    for base, number in ((BASES[0], 2), (BASES[1], 9), (BASES[1], 10), (BASES[-1], 1)):
        (log_to_set_aside / f"{base:020d}.quarantine-{number}").write_bytes(b"garbage")
    begin_and_end(log_to_set_aside, before_the_new_segment, monkeypatch)
    put_log_start(log_to_set_aside, 0)

    numbers = zip(BASES, (3, 11, 2), strict=True)
    expected = [f"{base:020d}.quarantine-{number}" for base, number in numbers]
    assert follow(log_to_set_aside, refusal(log_to_set_aside)) == expected
    with segstore.open(log_to_set_aside) as log:
        assert offsets(log) == [*range(END)]


@pytest.mark.parametrize("end", ENDS)
def test_what_stood_aside_before_does_not_come_into_the_log(
    log_to_set_aside, end, monkeypatch, tmp_path
):
    """[DUR-1, DUR-59] Records of an earlier incident behind the end, and a cut of no segment."""
    assert in_a_child(lambda: write_behind(tmp_path / "other-0")) == 0
    stale = log_to_set_aside / f"{END:020d}.quarantine-1"
    (tmp_path / "other-0" / f"{END:020d}.log").rename(stale)
    (log_to_set_aside / f"{1:020d}.quarantine-1").write_bytes(b"garbage")
    begin_and_end(log_to_set_aside, end, monkeypatch)
    put_log_start(log_to_set_aside, 0)

    assert follow(log_to_set_aside, refusal(log_to_set_aside)) == [*SET_ASIDE.get(end, NAMES)]
    with segstore.open(log_to_set_aside) as log:
        assert offsets(log) == [*range(END)]
    assert stale.exists()


def write_behind(path) -> bool:
    log = segstore.open(path)
    log.truncate_fully_and_start_at(END)
    log.append([(None, b"stale")] * 3)
    log.flush()
    return True


@pytest.mark.parametrize("end", [before_the_new_segment, before_the_mark_goes])
def test_the_names_are_those_of_the_first_open(log_to_set_aside, end, monkeypatch):
    """[DUR-56, DUR-59] The second sets the rest aside, and is killed too."""
    begin_and_end(log_to_set_aside, midway, monkeypatch)
    before = (log_to_set_aside / RESTART_MARKER).read_bytes()
    (log_to_set_aside / f"{BASES[0]:020d}.quarantine-7").write_bytes(b"garbage")
    begin_and_end(log_to_set_aside, end, monkeypatch)
    assert (log_to_set_aside / RESTART_MARKER).read_bytes() == before
    put_log_start(log_to_set_aside, 0)

    assert follow(log_to_set_aside, refusal(log_to_set_aside)) == [*NAMES]
    with segstore.open(log_to_set_aside) as log:
        assert offsets(log) == [*range(END)]


def test_a_name_that_was_given_away_is_not_used(log_to_set_aside, monkeypatch):
    """[DUR-56, DUR-59] What is there now is not overwritten, and the mark names what is."""
    begin_and_end(log_to_set_aside, midway, monkeypatch)
    (log_to_set_aside / NAMES[0]).write_bytes(b"garbage")
    begin_and_end(log_to_set_aside, before_the_new_segment, monkeypatch)
    put_log_start(log_to_set_aside, 0)

    second = NAMES[0].replace("-1", "-2")
    assert (log_to_set_aside / NAMES[0]).read_bytes() == b"garbage"
    assert follow(log_to_set_aside, refusal(log_to_set_aside)) == [second, *NAMES[1:]]
    with segstore.open(log_to_set_aside) as log:
        assert offsets(log) == [*range(END)]


def test_what_comes_in_between_is_named_too(log_to_set_aside, monkeypatch, tmp_path):
    """[DUR-56, DUR-59] Somebody put a segment there: the list is that of both opens."""
    assert in_a_child(lambda: write_behind(tmp_path / "other-0")) == 0
    begin_and_end(log_to_set_aside, before_the_new_segment, monkeypatch)
    (tmp_path / "other-0" / f"{END:020d}.log").rename(log_to_set_aside / f"{END:020d}.log")
    begin_and_end(log_to_set_aside, before_the_new_segment, monkeypatch)
    put_log_start(log_to_set_aside, 0)

    said = RestartMarkerContent.parse((log_to_set_aside / RESTART_MARKER).read_bytes())
    assert said == (1000, END + 3, (*NAMES, f"{END:020d}.quarantine-1"))
    follow(log_to_set_aside, refusal(log_to_set_aside))
    with segstore.open(log_to_set_aside) as log:
        assert offsets(log) == [*range(END + 3)]


def test_many_files_are_those_that_the_mark_names(tmp_path, monkeypatch):
    """[DUR-59] The advice does not name each of them."""
    path = tmp_path / "topic-0"
    assert in_a_child(lambda: write_many(path)) == 0
    put_log_start(path, 1000)
    (path / f"{8:020d}.quarantine-1").write_bytes(b"garbage")
    begin_and_end(path, before_the_new_segment, monkeypatch)
    put_log_start(path, 0)

    assert len(follow(path, refusal(path))) == 8
    with segstore.open(path) as log:
        assert offsets(log) == [*range(8)]


def write_many(path) -> bool:
    log = segstore.open(path)
    for offset in range(8):
        if offset:
            log.roll()
        log.append([(None, b"v%d" % offset)])
    log.flush()
    return True


@pytest.mark.parametrize("content", [b"", b"x\n", b"9" * 30, b"-1\n", b"1000\n"])
def test_a_mark_that_cannot_be_read_is_no_leave(log_to_set_aside, content, monkeypatch):
    """[DUR-7, DUR-97] The last is that of a version before."""
    begin_and_end(log_to_set_aside, midway, monkeypatch)
    (log_to_set_aside / RESTART_MARKER).write_bytes(content)

    advice = refusal(log_to_set_aside)
    assert "which files it lists is unknown" in advice
    assert NAMES[1] in advice


def test_a_torn_or_flipped_mark_is_not_believed(log_to_set_aside, monkeypatch, capsys):
    """[DUR-7, DUR-97] Whatever is missing at its end, or changed in it."""
    begin_and_end(log_to_set_aside, midway, monkeypatch)
    mark = log_to_set_aside / RESTART_MARKER
    whole = mark.read_bytes()
    assert RestartMarkerContent.parse(whole) == (1000, END, NAMES)
    for position in range(len(whole)):
        assert RestartMarkerContent.parse(whole[:position]) is None
        assert (
            RestartMarkerContent.parse(
                whole[:position] + bytes([whole[position] ^ 1]) + whole[position + 1 :]
            )
            is None
        )
    assert RestartMarkerContent.parse(whole + b"\n") is None
    mark.write_bytes(whole.replace(b"quarantine-1", b"quarantine-2", 1))

    assert "which files it lists is unknown" in refusal(log_to_set_aside)
    assert "which files it lists is unknown" in verified(log_to_set_aside, capsys)


def test_a_mark_may_name_as_many_files_as_there_can_be(log_to_set_aside, monkeypatch):
    """[DUR-97, DUR-98] Longer than other markers; what is too long is not read."""
    names = tuple(f"{base:020d}.quarantine-1" for base in range(3000))
    long = RestartMarkerContent(1000, END, names).format()
    assert len(long) > 65536
    assert RestartMarkerContent.parse(long) == (1000, END, names)
    begin_and_end(log_to_set_aside, before_the_new_segment, monkeypatch)
    (log_to_set_aside / RESTART_MARKER).write_bytes(long)
    with segstore.open(log_to_set_aside) as log:
        assert log.log_end_offset == 1000
    assert 1_000_000 * (len(f"{0:020d}.quarantine-\n") + 18) < MAX_CHECKPOINT_BYTES

    with (log_to_set_aside / RESTART_MARKER).open("wb") as mark:
        mark.truncate(MAX_CHECKPOINT_BYTES + 1)
    assert "which files it lists is unknown" in refusal(log_to_set_aside)
