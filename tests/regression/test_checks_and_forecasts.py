"""`verify`, `scrub` and `recover --dry-run`: what they find is there, and what they say happens."""

from __future__ import annotations

import errno
import json
import os
import re
import shlex
import shutil
import socket
import struct
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import segstore
from segstore import cli
from segstore._core import Directory, SimulatedDisk
from segstore.errors import (
    CorruptRecordError,
    DiskFullError,
    LogNotFoundError,
    LogPermissionError,
    LogTruncatedError,
    ReadIOError,
    ResourceError,
)
from segstore.log.check import partition_check
from segstore.log.check.partition_check import check_directory, check_partition
from segstore.log.check.stable_read import CHANGED, read_while_stable
from segstore.log.files.checkpoints import LOG_STATE
from segstore.log.findings.finding import Action, FindingCode, Records
from segstore.log.findings.finding_text import advice, meaning, ranges_text
from segstore.log.recovery.forecast import forecast_open
from segstore.manager.owned_log_directory import OwnedLogDirectory
from tests.crash.crash_check import Crash
from tests.crash.crash_script import PATH
from tests.crash.failing_scenarios_of_opens import (
    SEGMENTS,
    TRANSACTIONS,
    WITH_SIDECARS,
    closed,
    left_by,
)
from tests.kits.broker_partition import cut_segment, leave_as_a_broker, segment_file, write_segments
from tests.kits.damaged_logs import (
    RECORDS_COUNT,
    LogDirectory,
    append_bytes,
    batches_of,
    build,
    flip_bit,
)
from tests.kits.log_kit import values
from tests.kits.preloaded_library import compiled, environment_with
from tests.kits.warm_commands import warm_commands
from tests.tidy.project_files import ROOT

# ---- doors that disagreed ------------------------------------------------------------------------
# Two doors said different things of a directory, or `recover` broke what it had promised.
#
# Found by tests/fuzz/test_doors_agree.py.


def data_of(case: Path, tmp_path: Path) -> Path:
    """Return a copy, that can be written, of the log directory of a golden case."""
    copy = tmp_path / "data"
    shutil.copytree(case / "data", copy, copy_function=shutil.copyfile)
    for path in [copy, *copy.rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)
    return copy


@pytest.fixture
def data_of_one_partition(packed: Path, tmp_path: Path) -> Path:
    """A broker's log directory with one partition, closed cleanly."""
    copy = data_of(packed / "plain-many-segments", tmp_path)
    for path in sorted(copy.glob("*-*/"))[1:]:
        shutil.rmtree(path)
    return copy


def said(capsys: pytest.CaptureFixture[str], *command: str) -> tuple[int, Any]:
    code = cli.main([*command, "--json"])
    out = capsys.readouterr().out
    return code, json.loads(out) if out else None


def test_recover_keeps_the_index_of_a_segment_that_it_cannot_build_again(data_of_one_partition):
    """[DUR-8, DUR-51] It removed the index, and from then on every open refused the log."""
    path = next(data_of_one_partition.glob("*-*/"))
    log, index = sorted(path.glob("*.log"))[1], sorted(path.glob("*.index"))[1]
    flip_bit(log, batches_of(log)[1].position + 80)
    index.write_bytes(index.read_bytes() + b"\xff")

    codes = {one.code: one.repaired for one in check_partition(str(path)).findings}
    assert codes == {"BATCH_CORRUPT": False, "INDEX_CORRUPT": False}
    assert cli.main(["recover", "-q", str(path)]) == 1
    assert index.exists()
    with segstore.open(path):
        pass


@pytest.mark.parametrize("name", ["recovery-point", "log-start"])
def test_recover_writes_a_broken_checkpoint_of_the_log_directory_again(data_of_one_partition, name):
    """[DUR-21, DUR-65] The dry run said so; it was left as it was, and the next check found it."""
    cut = b"0\n1\norders 0 7\0\0"
    (data_of_one_partition / f"{name}-offset-checkpoint").write_bytes(cut)

    found = check_partition(str(next(data_of_one_partition.glob("*-*/")))).findings
    assert [(one.file, one.repaired) for one in found] == [(f"../{name}-offset-checkpoint", True)]
    assert cli.main(["recover", "-q", str(data_of_one_partition)]) == 0
    assert cli.main(["verify", "-q", str(data_of_one_partition)]) == 0
    kept = data_of_one_partition / f"{name}-offset-checkpoint.quarantine-1"
    assert kept.read_bytes() == cut  # it alone may say what was deleted


def test_a_log_whose_first_record_cannot_be_read_is_listed(tmp_path, capsys):
    """[DUR-51] `ls` left it out, and `inspect` said nothing."""
    directory = build(tmp_path / "a-0", clean=True)
    directory.file(0).write_bytes(b"?" * 70)

    code, line = said(capsys, "ls", str(directory.path))
    assert (code, line["log_end_offset"], bool(line["damage"])) == (1, 60, True)
    code, facts = said(capsys, "inspect", "-q", str(directory.path))
    assert (code, bool(facts["damage"])) == (1, True)


def test_a_socket_in_the_place_of_a_snapshot_costs_no_read(tmp_path, capsys):
    """[DUR-8] The last stable offset could not be asked for."""
    path = build(tmp_path / "a-0", clean=True).path
    snapshot = max(path.glob("*.snapshot"))
    snapshot.unlink()
    folder = os.open(path, os.O_RDONLY)  # the path of a socket is short
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"/proc/self/fd/{folder}/{snapshot.name}")
    os.close(folder)

    with segstore.open(path, read_only=True) as log:
        assert log.last_stable_offset == 60
    code, line = said(capsys, "ls", str(path))
    assert (code, line["last_stable_offset"]) == (0, 60)


def test_scrub_and_verify_find_the_same_in_a_time_index(tmp_path, capsys):
    """[DUR-60] A scrub knew the latest time of its last window of bytes only."""
    path = tmp_path / "a-0"
    with segstore.open(path, durability="none") as log:
        log.append([(1_750_000_000_000, None, b"latest")])
        for number in range(2000):
            log.append([(1_700_000_000_000 + number, None, b"v")])
        log.roll()
        log.append([(None, b"last")])
    os.truncate(path / f"{0:020d}.timeindex", 0)

    _, verified = said(capsys, "verify", "-q", str(path))
    _, scrubbed = said(capsys, "scrub", "-q", "--rate", "0", str(path))
    assert verified["findings"]
    assert scrubbed["findings"] == verified["findings"]


def test_what_stands_in_the_place_of_a_log_file_has_lost_its_offsets(tmp_path):
    """[DUR-51, DUR-99] `lost` was empty, and a salvage lost all records to the end."""
    directory = build(tmp_path / "a-0", clean=True)
    first, following = directory.bases[1:3]
    directory.file(first).unlink()
    directory.file(first).mkdir()

    (found,) = [
        one for one in check_partition(str(directory.path)).findings if one.file.endswith(".log")
    ]
    assert found.lost == ((first, following - 1),)
    lost = segstore.salvage(directory.path, tmp_path / "new" / "a-0").lost
    assert {(one.first_offset, one.next_offset) for one in lost} == {(first, following)}


def test_the_file_of_another_segment_under_a_name_is_no_harmless_overlap(tmp_path):
    """[DUR-54] "No record is lost" was said of a segment of which every record is lost."""
    path = tmp_path / "a-0"
    with segstore.open(path, internal_segment_bytes=2000) as log:
        for _ in range(60):
            log.append([(b"k", b"v" * 50)])
    first, second, third = sorted(path.glob("*.log"))[:3]
    shutil.copyfile(third, first)

    found = check_partition(str(path)).findings
    assert [one.lost for one in found if one.code == "SEGMENTS_OVERLAP"] == [
        ((0, int(second.stem) - 1),)
    ]


@pytest.mark.parametrize("copied", [0, 1, -1])
@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.parametrize("is_own", [True, False])
def test_recover_keeps_what_stands_in_its_place(tmp_path, capsys, is_own, place, copied):
    """[DUR-54, DUR-58] It kept the wrong file, and quarantined the segments after it.

    What had been missing counted as present then. Nothing of the log had been synced.
    """
    directory = build(tmp_path / "a-0", clean=False)
    directory.set_recovery_point(0)
    if not is_own:
        (directory.path / LOG_STATE).unlink()
    bases = directory.bases
    source, first, following = bases[place + 1 :][copied], bases[place], bases[place + 1]
    shutil.copyfile(directory.file(source), directory.file(first))
    before = directory.logs()
    missing = [first, following - 1]

    with segstore.open(directory.path, read_only=True) as log:
        assert log.log_end_offset == first
        assert [one.offset for one in log.scan()] == list(range(first))
    _, found = said(capsys, "verify", "-q", str(directory.path))
    done, answer = said(capsys, "recover", "-q", str(directory.path))
    _, left = said(capsys, "verify", "-q", str(directory.path))

    assert done == 1
    assert "No record was changed" in answer["error"]
    assert directory.logs() == before
    for one in (found, left):
        assert missing in [each for finding in one["findings"] for each in finding["lost"]]


def test_a_directory_in_the_place_of_the_log_directory_s_marker_is_a_finding(data_of_one_partition):
    """[DUR-99] The dry run promised a repair, and `recover` ended with exit code 2."""
    marker = data_of_one_partition / ".kafka_cleanshutdown"
    marker.unlink()
    marker.mkdir()
    path = str(next(data_of_one_partition.glob("*-*/")))

    (found,) = check_partition(path).findings
    assert (found.code, found.file) == ("FILE_IS_NO_FILE", "../.kafka_cleanshutdown")
    assert cli.main(["recover", "-q", "--dry-run", path]) == 1
    assert cli.main(["recover", "-q", path]) == 1


def test_records_that_may_be_missing_are_ranges(tmp_path):
    """[DUR-7, DUR-21] Only the sentence named them."""
    directory = build(tmp_path / "a-0")
    directory.file(0).unlink()
    checkpoint = directory.path / "leader-epoch-checkpoint"
    checkpoint.write_bytes(checkpoint.read_bytes() + bytes(12))

    found = check_partition(str(directory.path)).findings

    (lost,) = [one.lost for one in found if one.code == "RECORDS_MAYBE_MISSING"]
    assert lost == ((0, directory.bases[0] - 1),)


def test_an_end_that_had_not_been_synced_may_be_lost(tmp_path):
    """[DUR-54, DUR-59] A salvage called it lost; verify, and a salvage after `recover`, did not."""
    directory = build(tmp_path / "a-0")
    base = directory.bases[-1]
    last = batches_of(directory.file(base))[-1].position
    for name in ("recovery-point-offset-checkpoint", ".kafka_cleanshutdown"):
        (directory.path / name).unlink(missing_ok=True)
    os.truncate(directory.file(base), last)
    (directory.path / f"{60:020d}.snapshot").write_bytes(b"")

    report = segstore.salvage(directory.path, tmp_path / "new" / "a-0")

    assert (report.complete, report.lost, report.log_end_offset) == (True, [], 60)
    assert report.maybe_lost == [(59, 60)]
    assert cli.main(["salvage", "-q", str(directory.path), str(tmp_path / "b" / "a-0")]) == 1


def test_what_is_repaired_is_said_when_the_end_of_it_fails(
    data_of_one_partition, capsys, monkeypatch
):
    """[DUR-58] A full disk at the last checkpoint: what had been cut was named nowhere."""
    path = next(data_of_one_partition.glob("*-*/"))
    min(path.glob("*.index")).unlink()

    def fail(_: OwnedLogDirectory) -> None:
        raise DiskFullError

    monkeypatch.setattr(OwnedLogDirectory, "write_checkpoints", fail)
    assert cli.main(["recover", "-q", str(data_of_one_partition)]) == 1
    assert "rebuilt: 00000000000000000000.index" in capsys.readouterr().out


def test_a_recovery_point_where_records_are_missing_is_no_obstacle(tmp_path):
    """[DUR-7] The open for writing was refused halfway: it read where the recovery point stands."""
    directory = build(tmp_path / "a-0")
    base, following = directory.bases[1:3]
    (directory.path / ".segstore").unlink()  # as a broker leaves it
    directory.file(base).write_bytes(b"")
    directory.set_recovery_point(base)

    with segstore.open(directory.path) as log:
        assert [(one.first_offset, one.next_offset) for one in log.missing_records()] == [
            (base, following)
        ]
        log.append([(None, b"next")])
    assert cli.main(["recover", "-q", str(directory.path)]) == 1


def test_damage_in_a_segment_that_was_deleted_is_no_finding(tmp_path):
    """[DUR-18] `verify` asked for a copy of records below the log start; `recover` deletes them."""
    directory = build(tmp_path / "a-0", clean=True)
    with segstore.open(directory.path) as log:
        start = directory.bases[2]
        log.delete_records(start)
    kept = {file.name: file.read_bytes() for file in directory.path.iterdir()}
    copy = build(tmp_path / "b" / "a-0", clean=True)
    for name in {file.name for file in copy.path.iterdir()} - kept.keys():
        (directory.path / name).write_bytes((copy.path / name).read_bytes())
    damaged = directory.file(directory.bases[0])
    os.truncate(damaged, damaged.stat().st_size - 1)

    assert check_partition(str(directory.path)).findings == []
    assert cli.main(["recover", "-q", "--dry-run", str(directory.path)]) == 0
    assert cli.main(["ls", str(directory.path)]) == 0
    assert cli.main(["inspect", str(directory.path)]) == 0


def test_recover_keeps_what_an_index_says_of_missing_records(data_of_one_partition):
    """[DUR-7] It made the index again that alone named them, and then found nothing missing."""
    path = next(data_of_one_partition.glob("*-*/"))
    (data_of_one_partition / ".kafka_cleanshutdown").unlink()
    first, gone = sorted(path.glob("*.log"))[:2]
    entry = struct.pack(">ii", int(gone.stem) - int(first.stem) + 1, 1)
    first.with_suffix(".index").write_bytes(entry)
    for name in path.glob(f"{gone.stem}.*"):
        name.unlink()
    missing = [one.lost for one in check_partition(str(path)).findings if one.lost]
    assert missing
    assert cli.main(["recover", "-q", str(path)]) == 1
    assert [one.lost for one in check_partition(str(path)).findings if one.lost] == missing


def test_an_index_that_a_damaged_log_cannot_replace_stays_as_it_is(tmp_path, capsys):
    """[DUR-7, DUR-53] The open cut it at the wrong entry, and then no check found fault with it."""
    directory = build(tmp_path / "topic-0", clean=True)
    base = directory.bases[0]
    flip_bit(directory.file(base), batches_of(directory.file(base))[4].position + 80)
    flip_bit(directory.file(base, "index"), 1)  # the first entry names an offset far away
    append_bytes(directory.file(base, "timeindex"), b"torn")
    indexes = [directory.file(base, kind).read_bytes() for kind in ("index", "timeindex")]
    _, found = said(capsys, "verify", "--json", str(directory.path))
    assert [one["repaired"] for one in found["findings"]] == [False, False, False]

    with segstore.open(directory.path) as log:
        assert log.read(2, 100).records  # by the index
    _, done = said(capsys, "recover", "--json", str(directory.path))

    assert [directory.file(base, kind).read_bytes() for kind in ("index", "timeindex")] == indexes
    assert len(done["not_repaired"]) == 3


def test_an_index_with_a_wrong_entry_proves_what_is_missing_until_that_is_noted(tmp_path):
    """[DUR-7, DUR-53] The first look at the index cut off the entries that prove it."""
    path, base = tmp_path / "topic-0", 20
    write_segments(path)
    leave_as_a_broker(path)
    cut_segment(path, base)
    for kind in ("index", "timeindex"):  # the first entry names an offset, or a time, far away
        index = segment_file(path, base, kind)
        index.write_bytes(bytes([0x40]) + index.read_bytes()[1:])
    missing = {one.lost for one in check_partition(path).findings if one.lost}
    assert missing

    for _ in range(2):
        with segstore.open(path) as opened:
            assert opened.read(base + 5, 1000).records
            assert opened.offset_for_timestamp(TIME + base + 5) == base + 5
            assert opened.missing_records()
        found = check_partition(path).findings
        assert {one.lost for one in found if one.lost} == missing


def test_a_batch_that_jumped_to_the_next_segment_hides_none(tmp_path):
    """[DUR-50, DUR-51] The last batch behind two bad ones: every door but salvage left it out."""
    directory = build(tmp_path / "topic-0")
    directory.set_recovery_point(RECORDS_COUNT)
    (directory.path / ".segstore").unlink()
    log = directory.file(directory.bases[1])
    *_, damaged, jumped, last = batches_of(log)
    flip_bit(log, damaged.position + 80)
    flip_bit(log, jumped.position + 4)  # of the base offset
    good = [*range(damaged.base_offset), *range(last.base_offset, RECORDS_COUNT)]

    lost = {range_ for one in check_partition(directory.path).findings for range_ in one.lost}

    assert lost == {(damaged.base_offset, jumped.base_offset)}
    with segstore.open(directory.path, read_only=True) as opened:
        assert [one.offset for one in opened.scan(on_damage="skip")] == good
    target = tmp_path / "salvaged" / "topic-0"
    assert cli.main(["salvage", "-q", str(directory.path), str(target)]) == 1
    with segstore.open(target, read_only=True) as copy:
        assert [one.offset for one in copy.scan()] == good


def test_a_file_below_the_log_start_that_is_none_costs_no_record(tmp_path, capsys):
    """[DUR-51] Its records had been deleted; `salvage` said that nothing was lost."""
    directory = build(tmp_path / "topic-0", clean=True)
    first, second = directory.bases[:2]
    (tmp_path / "log-start-offset-checkpoint").write_text(f"0\n1\ntopic 0 {second}\n")
    directory.file(first).unlink()
    os.mkfifo(directory.file(first))

    code, found = said(capsys, "verify", str(directory.path))

    (finding,) = found["findings"]
    assert (code, finding["code"]) == (1, "FILE_IS_NO_FILE")
    assert (finding["records"], finding["lost"]) == ("NONE", [])
    target = str(tmp_path / "salvaged" / "topic-0")
    assert said(capsys, "salvage", "-q", str(directory.path), target)[0] == 0


def test_a_wrong_index_before_a_lost_segment_is_not_what_is_to_be_restored(tmp_path, capsys):
    """[DUR-7, DUR-51] The advice was to restore a ``.log`` that is whole, and not the lost one."""
    path = tmp_path / "topic-0"
    write_segments(path)
    leave_as_a_broker(path)
    segment_file(path, 20, "log").unlink()
    wrong = struct.pack(">4i", 2, 7, 25, 400)  # as that of a longer segment has
    segment_file(path, 0, "index").write_bytes(wrong)

    _, found = said(capsys, "verify", str(path))

    missing = [one for one in found["findings"] if one["records"] == "MISSING"]
    assert [(one["file"], one["lost"]) for one in missing] == [(f"{20:020d}.log", [[20, 39]])]
    assert f"restore {20:020d}.log from a copy" in missing[0]["advice"]
    assert said(capsys, "recover", "-q", str(path))[0] == 1
    _, left = said(capsys, "verify", str(path))
    assert [one["lost"] for one in left["findings"] if one["lost"]] == [[[20, 39]]]


def test_zeros_behind_a_sealed_log_go_beside_zeros_of_its_index(tmp_path, capsys):
    """[DUR-8, DUR-51] `recover` took the index away first, and then refused to build it again."""
    directory = build(tmp_path / "topic-0")
    base = directory.bases[0]
    directory.set_recovery_point(RECORDS_COUNT)
    append_bytes(directory.file(base), bytes(1))
    append_bytes(directory.file(base, "index"), bytes(16))
    _, found = said(capsys, "verify", "--json", str(directory.path))
    assert {one["code"] for one in found["findings"]} == {"ZEROS_AT_END", "INDEX_PADDED"}
    assert all(one["repaired"] for one in found["findings"])

    _, done = said(capsys, "recover", "--json", str(directory.path))

    assert done["not_repaired"] == []
    assert said(capsys, "verify", "--json", str(directory.path))[1]["findings"] == []


def test_a_last_batch_that_says_it_ends_in_the_next_segment_cannot_be_read(tmp_path):
    """[DUR-51] Readers leave it out; the finding said that it may be read wrong, of no offset."""
    directory = build(tmp_path / "topic-0")
    following = directory.bases[1]
    directory.set_recovery_point(RECORDS_COUNT)
    (directory.path / ".segstore").unlink()
    last = batches_of(directory.file(directory.bases[0]))[-1]
    flip_bit(directory.file(directory.bases[0]), last.position + 5)  # of the base offset

    found = {one.code: one for one in check_partition(directory.path).findings}

    finding = found[FindingCode.BATCH_OUT_OF_ORDER]
    assert finding.records is Records.UNREADABLE
    assert finding.lost == ((last.base_offset, following - 1),)
    with segstore.open(directory.path, read_only=True) as log:
        offsets = {record.offset for record in log.scan(on_damage="skip")}
        assert offsets == {*range(log.log_end_offset)} - {*range(last.base_offset, following)}


# ---- checks beside a writer ----------------------------------------------------------------------
# verify and scrub called a healthy log damaged while its writer cut it, or deleted segments.
#
# A file that went between two steps of a check was missing or cut; or the check ended with an
# error.


ONE = [(None, b"x" * 100)]


@pytest.fixture
def directory(tmp_path):
    (tmp_path / "0.log").write_bytes(b"0")
    with closing(Directory(str(tmp_path))) as directory:
        yield directory


class Writer:
    """Gives one answer after the other; in the first looks the log changes."""

    def __init__(self, folder, changes, *answers):
        self.folder, self.changes, self.answers, self.looks = folder, changes, answers, 0

    def look(self):
        self.looks += 1
        if self.looks <= self.changes:
            with (self.folder / "0.log").open("ab") as file:
                file.write(b"0")
        answer = self.answers[min(self.looks, len(self.answers)) - 1]
        if isinstance(answer, Exception):
            raise answer
        return answer


def is_good(answer):
    return answer == "good"


def test_what_is_found_in_a_log_that_stands_still_counts(directory, tmp_path):
    """[DUR-58]"""
    still = Writer(tmp_path, 0, "bad", "good")
    assert read_while_stable(directory, still.look, is_good) == ("bad", True)
    raising = Writer(tmp_path, 0, CorruptRecordError("bad"), "good")
    with pytest.raises(CorruptRecordError):
        read_while_stable(directory, raising.look, is_good)


@pytest.mark.parametrize("bad", ["bad", LogNotFoundError("gone"), CorruptRecordError("cut")])
def test_what_is_found_in_a_log_that_changes_is_looked_at_again(directory, tmp_path, bad):
    """[DUR-71, DUR-77]"""
    writer = Writer(tmp_path, 1, bad, "good")
    assert read_while_stable(directory, writer.look, is_good) == ("good", True)
    assert writer.looks == 2


def test_the_first_look_may_be_at_an_older_view(directory, tmp_path):
    """[DUR-77] That of a handle which has not been refreshed."""
    writer = Writer(tmp_path, 0, "bad", "good")
    assert read_while_stable(directory, writer.look, is_good, min_attempts=2) == ("good", True)


def test_a_log_that_never_stands_still(directory, tmp_path):
    """[DUR-103] The looks have an end, and what was found is told as what it is."""
    writer = Writer(tmp_path, 100, "bad")
    assert read_while_stable(directory, writer.look, is_good) == ("bad", False)
    assert writer.looks < 10
    writer = Writer(tmp_path, 100, LogNotFoundError("gone"))
    with pytest.raises(LogNotFoundError):
        read_while_stable(directory, writer.look, is_good)


@pytest.fixture
def log(tmp_path):
    """No timed sync: it would write a checkpoint while a check looks."""
    settings = {"durability": "none", "file_delete_delay_ms": 0}
    with segstore.open(tmp_path / "orders-0", **settings) as log:
        for number in range(6):
            log.append(ONE)
            if number % 2:
                log.roll()
        yield log


def once_within(monkeypatch, module, name, act):
    """Let *act* happen in the midst of the first call of a function of *module*."""
    real, calls = getattr(module, name), []

    def function(*arguments, **options):
        calls.append(1)
        if len(calls) == 1:
            act()
        return real(*arguments, **options)

    monkeypatch.setattr(module, name, function)
    return calls


@pytest.mark.parametrize("check", ["verify", "scrub"])
def test_a_log_that_is_cut_during_a_check(log, monkeypatch, check):
    """[DUR-77] The check looks again; that the log was cut is told by the next read, as always."""
    with closing(segstore.open(log.path, read_only=True)) as reader:

        def cut():
            log.truncate_to(3)
            log.append([(None, b"y" * 40)])

        calls = once_within(monkeypatch, partition_check, "read_state", cut)
        report = getattr(reader, check)()
        assert (report.ok, report.notes) == (True, []), report
        assert calls
        with pytest.raises(LogTruncatedError):
            reader.refresh()
        assert values(reader)[-1] == b"y" * 40


def test_a_partition_is_checked_while_records_are_deleted(log, monkeypatch):
    """[DUR-71, DUR-77]"""
    calls = once_within(monkeypatch, partition_check, "read_state", lambda: log.delete_records(4))
    check = partition_check.check_partition(log.path)

    assert check.findings == []
    assert CHANGED not in check.notes
    assert check.log_start_offset == 4
    assert len(calls) == 2


@pytest.mark.parametrize("check", ["verify", "scrub"])
def test_damage_of_a_sealed_segment_beside_an_appender(log, monkeypatch, check):
    """[DUR-60, DUR-71] One look tells it, and no doubt: an append makes no damage there."""
    log.flush()  # else the damage lies above the recovery point, and the log ends there
    flip_bit(Path(log.segments()[0].path), 100)
    calls = once_within(monkeypatch, partition_check, "read_state", lambda: log.append(ONE))
    with closing(segstore.open(log.path, read_only=True)) as reader:
        report = getattr(reader, check)()

    assert [finding.code for finding in report.findings] == [FindingCode.BATCH_CORRUPT]
    assert (report.notes, len(calls)) == ([], 1), report


def test_entries_of_batches_that_came_during_the_check(tmp_path, monkeypatch):
    """[DUR-53, DUR-71] They are in the indexes, and behind the bytes that were read."""
    with segstore.open(tmp_path / "orders-0", index_interval_bytes=0) as log:
        log.append(ONE)

        def append(*arguments, **how):
            for _ in range(3):
                log.append(ONE)
            return real(*arguments, **how)

        real = partition_check.index_findings
        monkeypatch.setattr(partition_check, "index_findings", append)
        with closing(segstore.open(log.path, read_only=True)) as reader:
            report = reader.verify()
        assert (report.problems, report.notes) == ([], [])
        assert len(log.segments()[0].offset_index_entries()) > 1


def test_an_entry_behind_the_end_of_a_log_that_stands_still(tmp_path):
    """[DUR-53] Nobody has written its batch."""
    with segstore.open(tmp_path / "orders-0", index_interval_bytes=0) as log:
        for _ in range(3):
            log.append(ONE)
    index = tmp_path / "orders-0" / f"{0:020d}.index"
    index.write_bytes(index.read_bytes() + (9).to_bytes(4) + (999).to_bytes(4))
    with closing(segstore.open(tmp_path / "orders-0", read_only=True)) as reader:
        (found,) = reader.verify().findings
    assert (found.code, found.file) == (FindingCode.INDEX_CORRUPT, index.name)


# ---- failing calls of a check --------------------------------------------------------------------
# A check took a failed call for a fact: a file that could not be looked at had 0 bytes.
#
# [DUR-6, DUR-33] So one EIO made records missing, and want of memory a transaction index wrong.


UNREADABLE = {FindingCode.FILE_UNREADABLE, FindingCode.DIRECTORY_UNREADABLE}
KINDS_OF_CHANGES = (*TRANSACTIONS, "roll", *SEGMENTS, "flush", ("background", 0))


@pytest.fixture(scope="module", params=[left_by, closed])
def disk(request: pytest.FixtureRequest) -> SimulatedDisk:
    """A log with all that a check reads: segments, transactions, snapshots, sidecars."""
    return request.param(*KINDS_OF_CHANGES, settings=WITH_SIDECARS)


def checked(disk: SimulatedDisk) -> set[FindingCode]:
    directory = Directory(PATH, environment=disk)
    try:
        return {finding.code for finding in check_directory(directory).findings}
    finally:
        directory.close()


@pytest.mark.parametrize("os_error", [errno.EIO, errno.ENOMEM, errno.EACCES])
def test_a_call_that_fails_in_a_check_is_no_fact_about_the_log(
    disk: SimulatedDisk, os_error: int, one_in
):
    """[DUR-6, DUR-33] Each call once: the file cannot be read, or the check raises."""
    found, wrong = 0, []
    for nth in range(1, 2000, one_in(20)):
        image = Crash(disk.effects, "killed").image(disk)
        if nth == 1:
            assert checked(image) == set()
        before = image.calls()
        image.fail(None, nth, os_error)
        try:
            codes = checked(image)
        except (LogPermissionError, ReadIOError, ResourceError):
            codes = set()
        wrong += [(nth, code) for code in codes - UNREADABLE]
        found += bool(codes)
        if image.calls() - before < nth:
            break
    assert wrong == []
    assert found > 20 // one_in(20) or os_error == errno.ENOMEM


# ---- findings in order ---------------------------------------------------------------------------
# ``verify`` hid that records were missing behind findings about the index of their segment.
#
# And it said of records above the recovery point that "nothing that was safe is lost", though their
# appends may have been acknowledged: the recovery point on disk comes later than that.


@pytest.fixture(scope="module")
def closed_original(tmp_path_factory):
    return build(tmp_path_factory.mktemp("closed") / "orders-0", clean=True)


@pytest.fixture
def log_directory(closed_original, tmp_path):
    return closed_original.copy(tmp_path / "orders-0")


def test_an_emptied_segment(log_directory):
    """[DUR-51, DUR-54] Its indexes are not wrong: they name the records that are missing."""
    log_directory.file(0).write_bytes(b"")
    following = log_directory.bases[1]

    first, *others = check_partition(str(log_directory.path)).findings

    assert first.file == log_directory.file(following).name
    assert (first.code, first.records) == (FindingCode.RECORDS_MISSING, Records.MISSING)
    assert first.lost == ((0, following - 1),)
    assert others == []


def test_lost_records_come_first(log_directory):
    """Then what an open cuts, then the small files, at last what is made anew from the rest."""
    append_bytes(log_directory.last, b"torn")
    log_directory.file(0, "index").write_bytes(b"\1" * 16)
    (log_directory.path / "partition.metadata").write_bytes(b"what")
    middle = log_directory.file(log_directory.bases[1])
    flip_bit(middle, batches_of(middle)[1].position + 70)

    findings = check_partition(str(log_directory.path)).findings

    assert [finding.file for finding in findings] == [
        middle.name,
        log_directory.last.name,
        "partition.metadata",
        log_directory.file(0, "index").name,
    ]


@pytest.mark.parametrize("tail", [b"torn", bytes(100)])
def test_what_is_known_of_a_tail(log_directory, tail):
    """[DUR-4, DUR-50] It lies above the recovery point, and that is all."""
    append_bytes(log_directory.last, tail)
    log_directory.set_recovery_point(17)
    (log_directory.path / ".kafka_cleanshutdown").unlink()

    (finding,) = check_partition(str(log_directory.path)).findings

    assert finding.code == (
        FindingCode.ZEROS_AT_END if tail[0] == 0 else FindingCode.BATCH_INCOMPLETE
    )
    assert (finding.records, finding.repaired) == (Records.MAYBE_MISSING, True)
    assert finding.lost == ((RECORDS_COUNT, None),)


def test_what_is_known_without_a_recovery_point(log_directory):
    """[DUR-63] Nothing is: good batches behind it may have been synced."""
    flip_bit(log_directory.last, batches_of(log_directory.last)[0].position + 70)
    log_directory.set_recovery_point(None)
    (log_directory.path / ".kafka_cleanshutdown").unlink()

    (finding,) = check_partition(str(log_directory.path)).findings

    first = log_directory.bases[-1]
    assert (finding.records, finding.repaired) == (Records.UNREADABLE, True)
    assert finding.lost == ((first, first),)
    assert finding.salvageable == ((first + 1, RECORDS_COUNT - 1),)


def test_what_a_repair_takes_out_of_the_log_is_salvaged_first(log_directory, tmp_path):
    """[DUR-50, DUR-63] "to do" named `recover` alone: whole batches after the damage left the log.

    The commands are run as the sentence names them.
    """
    first, path = log_directory.bases[-1], log_directory.path
    flip_bit(log_directory.last, batches_of(log_directory.last)[0].position + 70)
    log_directory.set_recovery_point(None)
    (path / ".kafka_cleanshutdown").unlink()
    (finding,) = check_partition(str(path)).findings

    said = advice(finding, str(path))
    assert f"records {first + 1} to {RECORDS_COUNT - 1} too" in said
    salvage, recover = (shlex.split(one) for one in re.findall(r"`segstore ([^`]+)`", said))
    target = tmp_path / "new" / path.name
    assert cli.main([target.as_posix() if one == "TARGET" else one for one in salvage]) == 1
    with segstore.open(target, read_only=True) as log:
        assert log.log_end_offset == RECORDS_COUNT
    assert cli.main(recover) == 1
    with segstore.open(path, read_only=True) as log:
        assert log.log_end_offset == first


def test_an_intact_segment_after_damage_is_said_to_be_intact(log_directory):
    """[DUR-59] "cannot be read: records; after the damage records 6 to 11 can be salvaged"."""
    flip_bit(log_directory.file(0), batches_of(log_directory.file(0))[0].position + 70)
    log_directory.set_recovery_point(None)
    (log_directory.path / ".kafka_cleanshutdown").unlink()
    found = check_partition(str(log_directory.path)).findings

    texts = [meaning(one) for one in found if one.code is FindingCode.SEGMENT_AFTER_DAMAGE]
    assert len(texts) == len(log_directory.bases) - 1
    base, following = log_directory.bases[1:3]
    assert texts[0].endswith(
        f"; records {base} to {following - 1} can be salvaged, and are not read"
    )


def test_verify_notes_what_the_open_warns_of(tmp_path):
    """[DUR-21, DUR-65] `ls` and the dry run warned of the lost log start; verify said "clean"."""
    path = tmp_path / "topic-0"
    with segstore.open(path) as log:
        log.append([(None, b"%d" % number) for number in range(3)])
        log.delete_records(2)
    (path / "log-start-offset-checkpoint").unlink()

    report = check_partition(str(path))
    said = "log-start-offset-checkpoint is lost; the log starts at 2, by its clean shutdown marker"
    assert (report.ok, report.notes) == (True, [said])
    with segstore.open(path) as log:
        assert log.report.warnings == [f"{path}/{said}"]
        assert log.verify().notes == []
    assert check_partition(str(path)).notes == []


# ---- verify names what is lost -------------------------------------------------------------------
# A damaged segment: more records were called lost than were, up to the next segment all of them.
#
# Behind the damage batches are whole, wherever they begin, and a salvage keeps them.


SEALED_FILE, ACTIVE = f"{0:020d}.log", f"{12:020d}.log"


class Batch(NamedTuple):
    file: str
    begin: int
    end: int
    first: int
    last: int


@pytest.fixture(params=["close", "close_quietly"])
def stopped(request, new_log) -> tuple[Path, list[Batch]]:
    """Two segments of four batches of three records: the third of each is large."""
    log, batches = new_log(), []
    for number in range(8):
        if number == 4:
            log.roll()
        size = 6000 if number % 4 == 2 else 10
        begin = log.segments()[-1].size_bytes
        info = log.append([(None, bytes([number]) * size)] * 3)
        file = f"{log.segments()[-1].base_offset:020d}.log"
        end = log.segments()[-1].size_bytes
        batches.append(Batch(file, begin, end, info.base_offset, info.last_offset))
    log.flush()
    getattr(log, request.param)()
    return Path(log.path), batches


def damage(path: Path, batch: Batch, how: str) -> None:
    """Hurt one batch, and no other."""
    data = bytearray((path / batch.file).read_bytes())
    if how == "flip":
        data[batch.end - 3] ^= 1
    elif how == "length":
        data[batch.begin + 9] ^= 1
    elif how == "take out of its middle":
        del data[batch.begin + 40 : batch.begin + 80]
    elif how == "take out":
        del data[batch.begin : batch.end]
    (path / batch.file).write_bytes(data)


def said_lost(path: Path) -> set[int]:
    """Return the offsets that the findings of one file call lost."""
    return {
        offset
        for finding in check_partition(str(path)).findings
        for first, last in finding.lost
        for offset in range(first, last + 1)
    }


@pytest.mark.parametrize("number", range(8))
@pytest.mark.parametrize("how", ["flip", "length", "take out of its middle", "take out"])
def test_exactly_what_is_lost_is_named(stopped, how, number):
    """[DUR-51, DUR-105] of a batch that is hurt its three records, and no other."""
    path, batches = stopped
    hurt = batches[number]
    damage(path, hurt, how)
    assert said_lost(path) == {*range(hurt.first, hurt.last + 1)}


@pytest.mark.parametrize("number", [1, 2, 5, 6])
def test_two_runs(stopped, number):
    """[DUR-51] between them lies what is whole; that is said too."""
    path, batches = stopped
    damage(path, batches[number], "flip")
    damage(path, batches[number // 4 * 4 + 3], "length")
    lost = {
        offset
        for batch in (batches[number], batches[number // 4 * 4 + 3])
        for offset in range(batch.first, batch.last + 1)
    }
    assert said_lost(path) == lost


def test_a_tail_that_is_gone_beside_damage_elsewhere(stopped):
    """[DUR-51] what the recovery point knows of is named, too."""
    path, batches = stopped
    damage(path, batches[1], "flip")
    damage(path, batches[7], "take out")
    assert said_lost(path) == {3, 4, 5, 21, 22, 23}


def test_a_reader_does_not_call_what_it_has_not_looked_at_missing(stopped):
    """[DUR-71] bytes that are no batch end what it knows of a segment, which is its headers."""
    path, batches = stopped
    damage(path, batches[1], "take out of its middle")
    with segstore.open(path, read_only=True) as log:
        told = " ".join(log.report.warnings)
        assert told == f"{SEALED_FILE} ends in bytes that are no batch, after offset 5"
        assert log.report.damage == told


def test_room_behind_a_sealed_segment_is_no_damage(stopped):
    """[DUR-80] a crash undid the trim of the roll; the next segment goes on."""
    path, _ = stopped
    with (path / SEALED_FILE).open("ab") as file:
        file.write(bytes(5000))
    with segstore.open(path, read_only=True) as log:
        assert log.report.warnings == []
        assert log.report.damage is None


@pytest.fixture
def path_of_a_broker(tmp_path: Path) -> Path:
    """A broker's partition of 60 records in three segments, closed cleanly."""
    path = tmp_path / "data" / "orders-0"
    path.parent.mkdir()
    write_segments(path)
    leave_as_a_broker(path)
    return path


@pytest.mark.parametrize("recovery_point", [60, 50, 45, 0, None])
@pytest.mark.parametrize("damaged", [[43], [59], [43, 49], [43, 59]])
def test_the_log_ends_where_it_does_for_a_reader(path_of_a_broker, recovery_point, damaged):
    """[DUR-51] It ended at the first damage where an open for writing is refused.

    Nor did verify name the records of a damaged last batch after the recovery point.
    """
    path = path_of_a_broker
    for name in (".kafka_cleanshutdown", "recovery-point-offset-checkpoint"):
        (path.parent / name).unlink()
    LogDirectory(path).set_recovery_point(recovery_point)
    log = segment_file(path, 40, "log")
    for offset in damaged:
        flip_bit(log, batches_of(log)[offset - 40].end - 1)

    report = check_partition(str(path))
    with segstore.open(path, read_only=True) as reader:
        assert report.log_end_offset == reader.log_end_offset
    named = [first for one in report.findings for first, _ in one.lost]
    assert named == damaged


def test_zeros_before_a_segment_that_goes_on_do_not_end_the_log(path_of_a_broker: Path):
    """[DUR-1, DUR-51] A reader ended there, where verify and an open for writing went on."""
    path = path_of_a_broker
    for name in (".kafka_cleanshutdown", "recovery-point-offset-checkpoint"):
        (path.parent / name).unlink()
    log = segment_file(path, 20, "log")
    os.truncate(log, log.stat().st_size + 12)

    with segstore.open(path, read_only=True) as reader:
        assert (reader.log_end_offset, reader.report.damage) == (60, None)
        assert [record.offset for record in reader.scan(on_damage="skip")] == [*range(60)]
    assert check_partition(str(path)).log_end_offset == 60


def test_bytes_between_good_batches_cost_no_record(path_of_a_broker: Path):
    """[DUR-51] Bytes that were put in cost no record; verify called all records after them lost."""
    log = segment_file(path_of_a_broker, 40, "log")
    content, position = log.read_bytes(), batches_of(log)[11].position
    log.write_bytes(content[:position] + bytes(50) + content[position:])
    for kind in ("index", "timeindex"):
        segment_file(path_of_a_broker, 40, kind).unlink()
    found = [one for one in check_partition(str(path_of_a_broker)).findings if one.position]
    assert [(one.position, one.lost, one.records) for one in found] == [
        (position, (), Records.NONE)
    ]


def test_synced_records_behind_a_jumped_offset_are_named(path_of_a_broker: Path):
    """[DUR-7, DUR-50] The log ends for a reader at the jump: that hid the records after the cut."""
    log = segment_file(path_of_a_broker, 40, "log")
    jumped, cut = batches_of(log)[3], batches_of(log)[10]
    content = bytearray(log.read_bytes()[: cut.position])
    content[jumped.position : jumped.position + 8] = (47).to_bytes(8, "big")
    log.write_bytes(content)
    found = {one.code: one.lost for one in check_partition(str(path_of_a_broker)).findings}
    assert found[FindingCode.BATCH_OUT_OF_ORDER] == ((43, 43),)
    assert found[FindingCode.RECOVERY_POINT_ABOVE_END] == ((50, 59),)


def test_a_last_batch_that_jumped_into_the_next_segment_after_damage_is_named(
    path_of_a_broker: Path,
):
    """[DUR-50, DUR-51] verify called it salvageable, and salvage leaves it out, as readers do."""
    log = segment_file(path_of_a_broker, 20, "log")
    flip_bit(log, batches_of(log)[3].end - 1)
    jumped = batches_of(log)[-1]
    content = bytearray(log.read_bytes())
    content[jumped.position : jumped.position + 8] = (99).to_bytes(8, "big")
    log.write_bytes(content)

    found = {one.position: one for one in check_partition(str(path_of_a_broker)).findings}
    last = found.pop(jumped.position)
    assert (last.code, last.lost) == (FindingCode.BATCH_OUT_OF_ORDER, ((39, 39),))
    assert [(one.lost, one.salvageable) for one in found.values()] == [(((23, 23),), ((24, 38),))]


def test_damage_hides_no_offset_that_the_last_index_names(path_of_a_broker: Path):
    """[DUR-7] The index was compared with the log end only where all batches are good."""
    (path_of_a_broker.parent / ".kafka_cleanshutdown").unlink()
    (path_of_a_broker.parent / "recovery-point-offset-checkpoint").unlink()
    log = segment_file(path_of_a_broker, 40, "log")
    flip_bit(log, batches_of(log)[3].end - 1)
    cut_segment(path_of_a_broker, 40, batches=10)
    found = {one.file: one.lost for one in check_partition(str(path_of_a_broker)).findings}
    assert found[log.name] == ((43, 43),)
    assert found[f"{40:020d}.index"] == ((50, 58),)


def test_the_words():
    assert ranges_text([(2, 2)]) == "record 2"
    assert ranges_text([(2, 3)]) == "records 2 to 3"
    assert ranges_text([(2, 3), (5, 5), (7, None)]) == "records 2 to 3, 5 and from 7 on"
    many = [(10 * number, 10 * number + 1) for number in range(9)]
    assert ranges_text(many) == (
        "records 0 to 1, 10 to 11, 20 to 21, 30 to 31, 40 to 41 and 4 more ranges"
    )


# ---- what cannot be read hides nothing -----------------------------------------------------------
# One page, file or partition that could not be read ended a check: nothing else was reported.
#
# Operator's situations 10, 13, 17, 18, 31 and 32.


SEALED_STEM = f"{311:020d}"


@pytest.fixture
def data_with_a_broken_partition(packed: Path, tmp_path: Path) -> Path:
    """A broker's log directory: orders-0 is good, orders-1 has a broken batch."""
    copy = tmp_path / "data"
    shutil.copytree(packed / "plain-many-segments" / "data", copy, copy_function=shutil.copyfile)
    for path in [copy, *copy.rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)
    log = copy / "orders-1" / f"{0:020d}.log"
    content = bytearray(log.read_bytes())
    content[batches_of(log)[1].position + 80] = 0xFF
    log.write_bytes(content)
    return copy


def bind(path: Path) -> None:
    here = os.getcwd()  # noqa: PTH109 - the path of a socket is short
    os.chdir(path.parent)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path.name)
    os.chdir(here)


KINDS_OF_FILES: dict[str, Any] = {
    "a pipe": os.mkfifo,
    "a directory": os.mkdir,
    "a symbolic link": lambda path: path.symlink_to("/dev/null"),
    "a socket": bind,
}
FILES = [
    f"{SEALED_STEM}.log",
    f"{SEALED_STEM}.index",
    f"{SEALED_STEM}.timeindex",
    "00000000000000000615.snapshot",
    "leader-epoch-checkpoint",
    "partition.metadata",
]


@pytest.mark.parametrize("kind", KINDS_OF_FILES)
@pytest.mark.parametrize("name", FILES)
def test_something_else_in_the_place_of_a_file(data_with_a_broken_partition, capsys, kind, name):
    """[DUR-99] It is never opened; the rest, and the other partition, are checked."""
    path = data_with_a_broken_partition / "orders-0" / name
    path.unlink()
    KINDS_OF_FILES[kind](path)
    for command in (["verify"], ["scrub", "--rate", "0"], ["recover", "--dry-run"]):
        assert cli.main([*command, "-q", "--json", str(data_with_a_broken_partition)]) == 1
        first, other = map(json.loads, capsys.readouterr().out.splitlines())
        (found,) = [one for one in first["findings"] if one["code"] == "FILE_IS_NO_FILE"]
        assert (found["file"], found["found"], found["action"]) == (name, kind, "MOVE_AWAY")
        assert "BATCH_CORRUPT" in [one["code"] for one in other["findings"]]


@pytest.mark.parametrize("kind", KINDS_OF_FILES)
@pytest.mark.parametrize("suffix", ["index", "timeindex"])
def test_reads_go_without_an_index_that_is_none(data_with_a_broken_partition, kind, suffix):
    """[DUR-8, DUR-53] A derived file costs no record."""
    path = data_with_a_broken_partition / "orders-0" / f"{SEALED_STEM}.{suffix}"
    path.unlink()
    KINDS_OF_FILES[kind](path)

    with segstore.open(data_with_a_broken_partition / "orders-0", read_only=True) as log:
        assert [record.offset for record in log] == list(range(700))
        assert next(iter(log.scan(500))).offset == 500
        assert log.offset_for_timestamp(0) == 0


def run(library: Path, data: Path, *command: str, **settings: str) -> tuple[int, list[Any]]:
    """Run a command on a disk with a bad sector; return its exit code, and what it prints."""
    done = warm_commands(library).run(*command, "-q", "--json", data, **settings)
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    source = ROOT / "tests" / "regression" / "unreadable_pages.c"
    return compiled(source, tmp_path_factory.mktemp("library"))


@pytest.mark.parametrize(
    "command", [("verify",), ("scrub", "--rate", "0"), ("recover", "--dry-run")]
)
def test_a_page_that_cannot_be_read(data_with_a_broken_partition, library, command):
    """[DUR-33] Named by file, byte and errno; what is lost is that of its batches."""
    code, (first, other) = run(
        library,
        data_with_a_broken_partition,
        *command,
        EIO_FILE=f"{SEALED_STEM}.log",
        EIO_FROM="20480",
        EIO_TO="24576",
    )

    assert code == 1
    (found,) = first["findings"]
    assert (found["code"], found["position"], found["os_error"]) == ("FILE_UNREADABLE", 20480, 5)
    assert found["lost"] == [[408, 436]]
    assert found["salvageable"] == [[437, 614]]
    assert (first["segments"][2]["batches"], len(first["segments"])) == (8, 3)
    assert "BATCH_CORRUPT" in [one["code"] for one in other["findings"]]


def test_an_index_that_cannot_be_read_costs_no_record(data_with_a_broken_partition, library):
    """[DUR-8, DUR-53] A finding that `recover` makes good."""
    bad = {"EIO_FILE": f"{SEALED_STEM}.index"}
    code, (first, _) = run(library, data_with_a_broken_partition, "verify", **bad)
    (found,) = first["findings"]
    assert (code, found["code"], found["records"]) == (1, "FILE_UNREADABLE", "NONE")
    assert (found["action"], found["repaired"]) == ("RECOVER", True)
    program = (
        "import sys, segstore\n"
        "with segstore.open(sys.argv[1], read_only=True) as log:\n"
        "    print(next(iter(log.scan(500))).offset, len(list(log)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, data_with_a_broken_partition / "orders-0"],
        env=environment_with(library, **bad),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stdout.split() == ["500", "700"], done.stderr


@pytest.mark.parametrize("kind", ["index", "timeindex"])
def test_recover_keeps_an_index_that_cannot_be_read(
    data_with_a_broken_partition, library, tmp_path, kind
):
    """[DUR-7, DUR-59] It was removed, and may be the only proof that records are missing."""
    path = data_with_a_broken_partition / "orders-0"
    index = path / f"{SEALED_STEM}.{kind}"
    content, kept = index.read_bytes(), index.with_name(f"{index.name}.quarantine-1")
    bad = {"EIO_FILE": index.name, "EIO_INODE": str(index.stat().st_ino)}
    _, (first, _) = run(library, data_with_a_broken_partition, "recover", **bad)

    assert kept.name in first["quarantined"]
    assert (index.name in first["rebuilt"], kept.read_bytes()) == (True, content)
    found = check_partition(str(path))
    assert found.findings == []
    assert any(note.startswith(kept.name) for note in found.notes)
    report = segstore.salvage(path, tmp_path / "salvaged" / "orders-0")
    assert any(kept.name in warning for warning in report.warnings)


def test_a_partition_that_cannot_be_listed(data_with_a_broken_partition, library):
    """[DUR-33] It is named, and the other one is checked."""
    code, (first, other) = run(
        library, data_with_a_broken_partition, "verify", EIO_FILE="/orders-0", EIO_LIST="1"
    )

    (found,) = first["findings"]
    assert (code, found["code"], found["os_error"]) == (1, "DIRECTORY_UNREADABLE", 5)
    assert "BATCH_CORRUPT" in [one["code"] for one in other["findings"]]


@pytest.mark.parametrize("damage", [bytes, lambda _: b"", lambda size: b"\0\1" + bytes(size // 2)])
def test_broken_snapshots(packed, tmp_path, damage):
    """[DUR-8, PSM-60] Dry run, recover and a second verify agree: all of them are deleted."""
    path = tmp_path / "exactly-0"
    shutil.copytree(packed / "idempotent" / "data" / "exactly-0", path)
    snapshots = sorted(path.glob("*.snapshot"))
    for file in snapshots:
        file.chmod(0o644)
        file.write_bytes(damage(file.stat().st_size))

    found = check_partition(str(path)).findings
    assert [(one.file, one.code, one.repaired) for one in found] == [
        (file.name, FindingCode.SNAPSHOT_CORRUPT, True) for file in snapshots
    ]
    assert cli.main(["recover", "-q", "--dry-run", str(path)]) == 0
    assert cli.main(["recover", "-q", str(path)]) == 0
    assert check_partition(str(path)).ok


def test_zeros_behind_a_sealed_segment_with_a_sidecar(tmp_path, capsys):
    """[DUR-60, DUR-80] The cut is reported, and the sidecar is written again."""
    path = tmp_path / "sums-0"
    with segstore.open(path, checksum_sidecar=True, internal_segment_bytes=2000) as log:
        for _ in range(60):
            log.append([(b"k", b"v" * 50)])
        log.write_checksum_sidecars()
    file = path / f"{16:020d}.log"
    size = file.stat().st_size
    os.truncate(file, size + 4096)

    (found,) = check_partition(str(path)).findings
    assert (found.code, found.position, found.size_bytes) == (FindingCode.ZEROS_AT_END, size, 4096)
    assert (found.records, found.repaired) == (Records.NONE, True)
    dry = cli.main(["recover", "-q", "--dry-run", str(path)])
    capsys.readouterr()
    assert cli.main(["recover", "-q", str(path)]) == dry == 1
    assert "[ZEROS_AT_END]" in capsys.readouterr().out
    assert file.stat().st_size == size
    assert check_partition(str(path)).ok
    assert (path / f"{16:020d}.segsum").exists()


def test_files_of_another_replica(data_with_a_broken_partition):
    """[DUR-54] Two files hold the same offsets: that is what is said, and nothing is lost."""
    path = data_with_a_broken_partition / "orders-0"
    batches = [
        (one.base_offset, file.read_bytes()[one.position : one.end])
        for file in sorted(path.glob("*.log"))
        for one in batches_of(file)
    ]
    files: dict[int, bytes] = {}
    for base, content in batches:
        border = max(start for start in (0, 150, 400, 580) if start <= base)
        name = next((known for known in files if known >= border), base)
        files[name] = files.get(name, b"") + content
    for base, content in files.items():
        (path / f"{base:020d}.log").write_bytes(content)

    report = check_partition(str(path))

    overlaps = [one for one in report.findings if one.code == FindingCode.SEGMENTS_OVERLAP]
    assert overlaps
    assert {one.records for one in overlaps} == {Records.NONE}
    assert {one.action for one in overlaps} == {Action.SALVAGE}
    assert not [one for one in report.findings if one.lost]


@pytest.mark.parametrize("content", [b"", bytes(40), b"version: 0\ntopic_id:"])
def test_nobody_advises_to_delete_the_topic_id(data_with_a_broken_partition, content):
    """[DUR-21] A broker takes a log without it for a stray one."""
    (data_with_a_broken_partition / "orders-0" / "partition.metadata").write_bytes(content)

    (found,) = check_partition(str(data_with_a_broken_partition / "orders-0")).findings

    assert found.code == FindingCode.TOPIC_ID_MISSING
    assert "delete" not in json.dumps(found.to_dict())


# ---- padded indexes ------------------------------------------------------------------------------
# Zeros behind the entries of a sealed segment's index were no finding, and `recover` left them.
#
# A broker takes the last entry of a ``.timeindex`` for the age of the segment: with time 0 its
# first retention pass deleted the segment (operator case 01).


TIME = 1_700_000_000_000
BYTES = {"index": 8, "timeindex": 12}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Three segments of 20 records, closed by a broker: its marker lies in the log directory."""
    path = tmp_path / "orders-0"
    with segstore.open(path, durability="none", index_interval_bytes=200) as log:
        for number in range(60):
            if number in {20, 40}:
                log.roll()
            log.append([(TIME + number, b"key", b"value %d" % number)])
    for name in (".segstore", ".kafka_cleanshutdown", "recovery-point-offset-checkpoint"):
        (path / name).unlink()
    (tmp_path / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":1}')
    (tmp_path / "recovery-point-offset-checkpoint").write_text("0\n1\norders 0 60\n")
    return path


def pad(path: Path, base: int, kind: str) -> tuple[Path, bytes]:
    """Add 20 entries of zeros; returns the file, and what it held before."""
    file = path / f"{base:020d}.{kind}"
    before = file.read_bytes()
    file.write_bytes(before + bytes(20 * BYTES[kind]))
    return file, before


@pytest.mark.parametrize("kind", ["index", "timeindex"])
@pytest.mark.parametrize("base", [0, 20, 40])
def test_recover_trims_what_verify_names(path: Path, base: int, kind: str, capsys):
    """[DUR-80] The active segment's too, behind a clean stop: a broker trims it then."""
    file, before = pad(path, base, kind)

    assert cli.main(["verify", "-q", str(path)]) == 1
    out = capsys.readouterr().out
    assert f"{file.name}, byte {len(before)}" in out
    assert "INDEX_PADDED" in out
    assert cli.main(["recover", "-q", "--dry-run", str(path)]) == 0
    assert cli.main(["recover", "-q", str(path)]) == 0
    assert file.read_bytes()[-BYTES[kind] :].strip(b"\0") or not file.read_bytes()
    assert cli.main(["verify", "-q", str(path)]) == 0


@pytest.mark.parametrize("kind", ["index", "timeindex"])
def test_an_open_that_looks_into_the_index_trims_it(path: Path, kind: str):
    """[DUR-25] As a look-up by time does."""
    file, before = pad(path, 20, kind)
    with segstore.open(path) as log:
        assert log.offset_for_timestamp(TIME + 25) == 25
        log.read(25, 1)

    assert file.read_bytes() == before


@pytest.mark.parametrize("kind", ["index", "timeindex"])
def test_padding_after_a_crash_is_none_of_the_active_segment(path: Path, kind: str):
    """[DUR-80] Room that was allocated ahead; a sealed segment has none."""
    (path.parent / ".kafka_cleanshutdown").unlink()
    pad(path, 40, kind)
    assert cli.main(["verify", "-q", str(path)]) == 0

    pad(path, 20, kind)
    assert cli.main(["verify", "-q", str(path)]) == 1
    assert cli.main(["scrub", "-q", str(path)]) == 1


def test_a_time_index_without_its_last_entry_is_built_again(path: Path):
    """[SEG-50] A broker would take the segment for older than it is."""
    file = path / f"{20:020d}.timeindex"
    before = file.read_bytes()
    file.write_bytes(before[:-12])

    assert cli.main(["verify", "-q", str(path)]) == 1
    assert cli.main(["recover", "-q", str(path)]) == 0
    assert file.read_bytes()[-12:] == before[-12:]


# ---- recover keeps its word ----------------------------------------------------------------------
# ``verify`` and ``recover --dry-run`` say what an open then does; ``recover`` says what it cannot.
#
# They had a judgement of their own: "recover cuts these 600 bytes" of a log that the open refuses,
# "keeps a copy" of zeros that nobody keeps, "what can be repaired is repaired" of damage that the
# open never looks at, while ``recover`` made logs in directories that were none.


LOG = f"{0:020d}.log"


@pytest.fixture
def ten_batches(tmp_path: Path) -> Path:
    """Ten batches of one record, closed cleanly."""
    path = tmp_path / "orders-0"
    with segstore.open(path, durability="none") as log:
        for number in range(10):
            log.append([(b"key", b"value %d" % number)])
    return path


def files(directory: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }


def change(path: Path, position: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(position)
        file.write(data)


def batch_bytes(partition: Path) -> int:
    return (partition / LOG).stat().st_size // 10


def test_a_refused_open_is_foretold(ten_batches: Path, capsys: pytest.CaptureFixture[str]):
    """[DUR-51] A base offset that was changed, below the recovery point, after an unclean stop."""
    change(ten_batches / LOG, 5 * batch_bytes(ten_batches), b"\x7f")
    (ten_batches / ".kafka_cleanshutdown").unlink(missing_ok=True)
    before = files(ten_batches)

    assert cli.main(["verify", str(ten_batches)]) == 1
    verified = capsys.readouterr().out
    assert cli.main(["recover", "--dry-run", str(ten_batches)]) == 1
    foretold = capsys.readouterr().out
    assert files(ten_batches) == before
    with pytest.raises(segstore.CorruptLogError) as refused:
        segstore.open(ten_batches)
    assert cli.main(["recover", str(ten_batches)]) == 1

    assert "cuts" not in verified + foretold
    assert "cannot be read: record 5" in verified
    assert f"recover would refuse this log: {refused.value}" in foretold
    told = refused.value.text_within(str(ten_batches))
    assert f"cannot be repaired: {told}" in capsys.readouterr().out


def test_damage_that_an_open_does_not_notice_is_told_by_recover(
    ten_batches: Path, capsys: pytest.CaptureFixture[str]
):
    """[DUR-51] The log was closed cleanly: nothing is read again at the open."""
    change(ten_batches / LOG, 3 * batch_bytes(ten_batches) + 65, b"\xff")

    assert cli.main(["recover", "--dry-run", str(ten_batches)]) == 1
    foretold = capsys.readouterr().out
    assert cli.main(["recover", str(ten_batches)]) == 1
    told = capsys.readouterr().out

    assert "could not repair 1 finding" in foretold
    assert "not repaired: 1 finding" in told
    for text in (foretold, told):
        assert "offset 3: " in text
        assert "[BATCH_CORRUPT]" in text
    with segstore.open(ten_batches, read_only=True) as log:  # as the advice says: others work
        assert [record.offset for record in log.scan(0, 3)] == [0, 1, 2]
        assert [record.offset for record in log.scan(4, 10)] == [4, 5, 6, 7, 8, 9]


@pytest.mark.parametrize("tail", [bytes(500), b"\x00" * 7 + b"\x0a" + b"\x00\x00\x01\x00torn"])
def test_a_copy_is_promised_only_when_one_is_kept(
    ten_batches: Path, tail: bytes, capsys: pytest.CaptureFixture[str]
):
    """[DUR-59] Zeros are room that was allocated ahead: nothing was being written, none is kept."""
    with (ten_batches / LOG).open("ab") as file:
        file.write(tail)

    cli.main(["verify", str(ten_batches)])
    text = capsys.readouterr().out
    assert cli.main(["recover", str(ten_batches)]) == 1

    is_kept = any(".quarantine-" in name for name in files(ten_batches))
    assert is_kept == any(tail)
    assert ("keeps a copy" in text) == is_kept
    assert ("[BATCH_INCOMPLETE]" in text) == is_kept
    assert ("[ZEROS_AT_END]" in text) != is_kept
    assert f"{len(tail)} bytes are concerned" in text


def test_a_bad_batch_before_good_ones_is_no_interrupted_write(ten_batches: Path):
    """[DUR-50] Above the recovery point it ends the log, and the good ones behind it are cut."""
    (ten_batches / ".kafka_cleanshutdown").unlink(missing_ok=True)
    (ten_batches / "recovery-point-offset-checkpoint").write_text("0\n1\norders 0 2\n")
    change(ten_batches / LOG, 6 * batch_bytes(ten_batches) + 65, b"\xff")

    (found,) = check_partition(str(ten_batches)).findings

    assert found.repaired
    assert (found.code, found.action) == (FindingCode.BATCH_CORRUPT, Action.RECOVER)
    assert (found.lost, found.salvageable) == (((6, 6),), ((7, 9),))


@pytest.mark.parametrize("is_clean", [True, False])
@pytest.mark.parametrize(
    ("name", "data", "is_repaired"),
    [
        (f"{0:020d}.index", b"\1" * 16, True),
        (f"{5:020d}.index", b"\1" * 16, True),
        (f"{0:020d}.timeindex", b"\1" * 24, True),
        (f"{5:020d}.timeindex", b"\1" * 24, True),
        ("leader-epoch-checkpoint", b"what\n", True),
        ("recovery-point-offset-checkpoint", b"what\n", True),
        ("log-start-offset-checkpoint", b"what\n", True),
        ("partition.metadata", b"what\n", False),
        (f"{5:020d}.snapshot", b"\0\1\0\0\0\0\0\0\0\0", True),
        (f"{10:020d}.snapshot", b"\0\1\0\0\0\0\0\0\0\0", True),
        (f"{0:020d}.txnindex", b"xyz", True),
        (f"{5:020d}.txnindex", b"xyz", True),
    ],
)
def test_small_files(tmp_path: Path, name: str, data: bytes, *, is_repaired: bool, is_clean: bool):
    """[DUR-8, DUR-21, DUR-53] What recover repairs is what the check says that it repairs."""
    path = tmp_path / "orders-0"
    with segstore.open(path, durability="none") as log:
        for number in range(10):
            if number == 5:
                log.roll()
            log.append([(b"key", b"value %d" % number)])
    (path / name).write_bytes(data)
    if not is_clean:
        (path / ".kafka_cleanshutdown").unlink()
    (found,) = check_partition(str(path)).findings
    assert (found.file, found.repaired) == (name, is_repaired)
    code = 0 if is_repaired else 1

    assert cli.main(["recover", "--dry-run", str(path)]) == code
    assert cli.main(["recover", str(path)]) == code

    left = [found.file for found in check_partition(str(path)).findings]
    assert left == ([] if is_repaired else [name])


def test_recover_makes_no_log(tmp_path: Path, ten_batches: Path):
    """[DUR-3] Names that end in a number are common; a ``.log`` file, or ours, makes a log."""
    (tmp_path / "em" / "x-1").mkdir(parents=True)
    (tmp_path / "em" / "llvm-14").mkdir()
    (tmp_path / "em" / "llvm-14" / "lib").write_text("x")
    before = files(tmp_path)

    for command in (["recover"], ["recover", "--dry-run"], ["verify"]):
        assert cli.main([*command, str(tmp_path / "em")]) == 2
        assert cli.main([*command, str(tmp_path / "em" / "x-1")]) == 2
    assert files(tmp_path) == before

    (ten_batches / LOG).unlink()  # it was one: an open for writing refuses it
    assert cli.main(["recover", "--dry-run", str(ten_batches)]) == 1
    assert cli.main(["recover", str(ten_batches)]) == 1
    assert not (ten_batches / LOG).exists()


def test_an_emptied_log_is_not_made_anew(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """Without records an open would begin it again; recover does not."""
    path = tmp_path / "orders-0"
    segstore.open(path, durability="none").close()
    (path / LOG).unlink()

    assert cli.main(["recover", str(path)]) == 1
    assert cli.main(["recover", "--dry-run", str(path)]) == 1
    assert "recover makes none" in capsys.readouterr().out
    assert not (path / LOG).exists()


def test_every_golden_open_is_foretold(golden: Path, tmp_path: Path):
    """[DUR-58] Report or error word for word; what is left is what was said would be left."""
    wrong = []
    for number, source in enumerate(sorted(golden.glob("*/data"))):
        case = json.loads((source.parent / "case.json").read_text())
        if case["stop"] == "clean shutdown" and case["family"] not in {"legacy", "unclean"}:
            continue
        copy = tmp_path / str(number)
        shutil.copytree(source, copy)
        for path in copy.iterdir():
            if path.is_dir() and any(path.glob("*.log*")):
                wrong += [f"{source.parent.name}/{path.name}: {text}" for text in differing(path)]
        shutil.rmtree(copy)

    assert wrong == []


def differing(path: Path) -> list[str]:
    """Forecast, check, open, check again; return what was not as foretold."""
    before = files(path)
    forecast = forecast_open(path)
    left = {found.identity for found in check_partition(str(path)).findings if not found.repaired}
    if files(path) != before:
        return ["the forecast wrote something"]
    try:
        with segstore.open(path) as log:
            report = log.report.to_dict()
    except segstore.SegstoreError as error:
        is_same = type(error) is type(forecast.error) and str(error) == str(forecast.error)
        return [] if is_same else [f"{forecast.error!r} became {error!r}"]
    foretold = forecast.report.to_dict()
    if forecast.split is not None:  # and nothing is said of what comes then
        assert any("would split it" in warning for warning in foretold["warnings"])
        assert any("it was split into" in warning for warning in report["warnings"])
        report = {}
    problems = [
        f"{name}: {foretold[name]!r} became {value!r}"
        for name, value in report.items()
        if name != "seconds" and foretold[name] != value
    ]
    if forecast.error is not None:
        problems.append(f"{forecast.error!r} did not come")
    cli.main(["recover", "-q", str(path)])
    found = {found.identity for found in check_partition(str(path)).findings}
    return problems + [f"not as foretold: {each}" for each in sorted(left ^ found)]


# ---- dry run beside a writer ---------------------------------------------------------------------
# ``recover --dry-run`` foretold what it would cut of a log that a writer had open.
#
# [DUR-65, DUR-71] The run itself is refused; so is its forecast, which takes no lock to find out.


WRITER = """
import sys, segstore
log = segstore.open_dir(sys.argv[1]) if sys.argv[2] == "all" else segstore.open(sys.argv[1])
print("open", flush=True)
sys.stdin.read()
log.close()
"""


@pytest.fixture
def one_record(tmp_path):
    with segstore.open(tmp_path / "orders-0") as log:
        log.append([(None, b"x")])
    return tmp_path / "orders-0"


@pytest.fixture
def writer():
    """Begin a writer in another process; returns it."""
    running = []

    def begin(path, what="one"):
        process = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path), what],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        running.append(process)
        assert process.stdout.readline() == b"open\n"

    yield begin
    for process in running:
        process.communicate()


def refusals(partition, capsys):
    """What the forecast and the run say, both with exit code 1; nothing is changed."""
    before = LogDirectory(partition.parent).snapshot()
    said = []
    for more in (["--dry-run"], []):
        assert cli.main(["recover", *more, str(partition)]) == 1
        out, err = capsys.readouterr()
        assert out == ""
        said.append(err)
    assert LogDirectory(partition.parent).snapshot() == before
    return said


def test_a_writer_of_the_partition(one_record, writer, capsys):
    """Word for word."""
    writer(one_record)

    forecast, run = refusals(one_record, capsys)

    assert forecast == run
    assert "another process has the log open for writing" in forecast


def test_a_writer_of_the_log_directory(one_record, writer, capsys):
    """A broker holds the same lock."""
    writer(one_record.parent, "all")

    forecast, run = refusals(one_record, capsys)

    assert forecast == run
    assert "a broker or a LogManager has the log open for writing" in forecast


def test_a_writer_in_this_process(one_record, capsys):
    """As tests and notebooks have it; the run words it in its own way."""
    with segstore.open(one_record):
        forecast, _ = refusals(one_record, capsys)

    assert "has the log open for writing" in forecast


def test_without_a_writer(one_record, tmp_path, capsys):
    """Lock files stay where they are; a sibling's lock is none of ours, nor a reader."""
    (tmp_path / ".lock").touch()
    with segstore.open(tmp_path / "other-0"), segstore.open(one_record, read_only=True):
        assert cli.main(["recover", "--dry-run", str(one_record)]) == 0
    assert capsys.readouterr().out.endswith("there is nothing to repair\n")
    (one_record / ".lock").unlink()
    assert cli.main(["recover", "--dry-run", str(one_record)]) == 0
    assert not (one_record / ".lock").exists()


# ---- dry run of deleted segments -----------------------------------------------------------------
# ``recover --dry-run``: "there is nothing to repair" of a log of which the open removes segments.
#
# The log directory's checkpoint says a log start that the partition's own has not; the log was
# closed cleanly, and the open took out what lies below.


LOG_START = 8


@pytest.fixture
def three_segments(tmp_path):
    """Three segments of four records, closed cleanly."""
    path = tmp_path / "orders-0"
    with segstore.open(path) as log:
        for number in range(12):
            if number and number % 4 == 0:
                log.roll()
            log.append([(None, b"value %d" % number)])
    return path


def test_segments_that_an_open_removes_are_named(three_segments, capsys):
    """[DUR-18, DUR-65] The forecast's list, as the open's own report has it then."""
    (three_segments.parent / "log-start-offset-checkpoint").write_text(
        f"0\n1\norders 0 {LOG_START}\n"
    )
    names = sorted(path.name for path in three_segments.glob("*.log"))

    assert cli.main(["recover", "--dry-run", "-q", str(three_segments)]) == 0
    out = capsys.readouterr().out
    assert cli.main(["recover", "--dry-run", "-q", "--json", str(three_segments)]) == 0
    foretold = json.loads(capsys.readouterr().out)["forecast"]["report"]["removed"]

    assert sorted(path.name for path in three_segments.glob("*.log")) == names
    with segstore.open(three_segments) as log:
        assert log.log_start_offset == LOG_START
        assert foretold == log.report.removed == names[:2]
    assert "nothing to repair" not in out
    assert f"removed: {' and '.join(names[:2])}" in out


def test_a_log_that_stays_as_it_is(three_segments, capsys):
    """[DUR-65] Nothing is said where nothing is done."""
    assert cli.main(["recover", "--dry-run", "-q", str(three_segments)]) == 0
    assert capsys.readouterr().out.endswith("there is nothing to repair\n")


# ---- files that a repair changes -----------------------------------------------------------------
# `recover` rewrote files that neither its report nor the dry run named (operator cases 01, 04, 31).
#
# Where one index is taken out, the open builds both again. An index that shows what is missing was
# built again at the close. The index of a segment that reaches into the next one was built by the
# open, and the dry run said that it would not.


def repaired(path: Path, capsys: pytest.CaptureFixture[str]) -> tuple[dict[str, Any], set[str]]:
    """Run the dry run and the repair; return the report, and which indexes have changed."""
    before = files(path)
    _, foretold = said(capsys, "recover", "-q", "--dry-run", str(path))
    assert files(path) == before
    _, done = said(capsys, "recover", "-q", str(path))
    after = files(path)
    changed = {name for name in after if after[name] != before.get(name)}
    promised = [one for one in foretold["findings"] if one["repaired"]]

    assert sorted(foretold["repair"]["rebuilt"]) == sorted(done["rebuilt"])
    assert [one["what"] for one in promised] == [one["what"] for one in done["repaired"]]
    return done, {name for name in changed if name.endswith("index")}


def index_names_of(*bases: int) -> set[str]:
    return {f"{base:020d}.{kind}" for base in bases for kind in ("index", "timeindex")}


def test_both_indexes_of_a_padded_one_are_named(data_of_one_partition: Path, capsys):
    """[DUR-8, DUR-58, DUR-80] Also the one that was in order, which the open builds again."""
    path = data_of_one_partition / "orders-0"
    padded = path / f"{311:020d}.timeindex"
    os.truncate(padded, padded.stat().st_size + 240)

    done, changed = repaired(path, capsys)

    assert {*done["rebuilt"]} == changed == index_names_of(311)


def test_an_index_that_shows_missing_records_is_named(data_of_one_partition: Path, capsys):
    """[DUR-7, DUR-58] It is noted first what the index shows."""
    path = data_of_one_partition / "orders-0"
    log = path / f"{311:020d}.log"
    os.truncate(log, batches_of(log)[15].position)

    done, changed = repaired(path, capsys)

    assert {*done["rebuilt"]} == changed == index_names_of(311)
    (left,) = done["not_repaired"]
    assert left["code"] == "RECORDS_MISSING"


def test_the_index_of_a_segment_that_overlaps_is_built_again(data_of_one_partition: Path, capsys):
    """[DUR-8, DUR-58] Nothing keeps the open from it, and the advice does not say so."""
    path = data_of_one_partition / "orders-0"
    with (path / f"{0:020d}.log").open("ab") as file:
        file.write((path / f"{311:020d}.log").read_bytes())
    for name in index_names_of(0):
        (path / name).unlink()
    _, found = said(capsys, "verify", "-q", str(path))

    done, changed = repaired(path, capsys)

    assert not [one for one in found["findings"] if "once what keeps it" in one["advice"]]
    assert {*done["rebuilt"]} == changed == index_names_of(0)
    assert [one["code"] for one in done["not_repaired"]] == ["SEGMENTS_OVERLAP"]


def test_a_page_of_a_log_that_cannot_be_read_keeps_no_repair(
    data_with_a_broken_partition: Path, library: Path
):
    """[DUR-33, DUR-58] The dry run said "clean", and `recover` that it cannot be repaired."""
    name = "00000000000000000311.log"
    settings = {"EIO_FILE": f"orders-0/{name}", "EIO_FROM": "20480", "EIO_TO": "24576"}
    path = data_with_a_broken_partition

    _, foretold = run(library, path, "recover", "--dry-run", **settings)
    code, done = run(library, path, "recover", **settings)

    assert code == 1
    assert not [one for one in foretold if one["forecast"]["error"] is not None]
    assert not [one for one in done if "error" in one]
    assert name in [one["file"] for each in done for one in each["not_repaired"]]


# ---- repairs that never ended --------------------------------------------------------------------
# `recover` named a command that repairs a finding, and each run of it left the finding.
#
# A checkpoint of the log directory has lines of all logs, and a repair of one log does not write it
# again. A sealed segment without a record got no `.timeindex`, and "rebuilt" was said of it.


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("recovery-point-offset-checkpoint", "CHECKPOINT_CORRUPT"),
        ("log-start-offset-checkpoint", "LOG_START_UNKNOWN"),
    ],
)
def test_a_checkpoint_of_the_log_directory_is_repaired_by_a_run_on_that(
    packed: Path, tmp_path: Path, capsys, name: str, code: str
):
    """[DUR-21, DUR-58] The advice names it, and the dry run of one partition promises nothing."""
    data = data_of(packed / "retention-and-delete-records", tmp_path)
    lines = (data / name).read_text()
    (data / name).write_text(lines.rstrip("\n"))
    one = str(data / "clicks-0")

    assert cli.main(["recover", "-q", "--dry-run", one]) == 1
    foretold = capsys.readouterr().out
    assert foretold.endswith("\nand could not repair 1 finding\n")
    assert "and repair" not in foretold
    assert said(capsys, "recover", "-q", one)[0] == 1
    _, found = said(capsys, "verify", "-q", one)
    (finding,) = found["findings"]
    assert (finding["code"], finding["file"]) == (code, f"../{name}")
    assert f"`segstore recover {data}` " in finding["advice"]

    assert cli.main(["recover", "-q", "--dry-run", str(data)]) == 0
    assert capsys.readouterr().out.count("and repair 1 finding") == 3
    assert cli.main(["recover", "-q", str(data)]) == 0
    capsys.readouterr()
    assert said(capsys, "verify", "-q", one)[0] == 0


def test_a_lone_partition_is_the_whole_log_directory(data_of_one_partition: Path, capsys):
    """[DUR-58] Its repair writes the checkpoint again, and the dry run says so."""
    checkpoint = data_of_one_partition / "recovery-point-offset-checkpoint"
    checkpoint.write_text(checkpoint.read_text().rstrip("\n"))
    path = str(data_of_one_partition / "orders-0")

    assert said(capsys, "recover", "-q", "--dry-run", path)[0] == 0
    assert said(capsys, "recover", "-q", path)[0] == 0
    assert said(capsys, "verify", "-q", path)[0] == 0


@pytest.mark.parametrize("bytes_more", [b"", b"abc"])
def test_an_emptied_segment_is_found_once(packed: Path, tmp_path: Path, capsys, bytes_more: bytes):
    """[DUR-8, DUR-58] Nothing is to be listed, and "rebuilt" is said of what is there then."""
    path = data_of(packed / "lz4", tmp_path) / "metrics-1"
    log, index, times = (path / f"{242:020d}.{kind}" for kind in ("log", "index", "timeindex"))
    log.write_bytes(b"")
    times.write_bytes(times.read_bytes() + bytes_more)

    done, _ = repaired(path, capsys)

    assert done["rebuilt"] == []
    assert done["removed"] == [index.name, times.name]
    assert not times.exists()
    assert [one["code"] for one in done["not_repaired"]] == ["RECORDS_MISSING"]
    again, changed = repaired(path, capsys)
    assert (again["rebuilt"], again["removed"], changed) == ([], [], set())
    assert [one["code"] for one in again["not_repaired"]] == ["RECORDS_MISSING"]


def test_a_missing_index_of_an_empty_sealed_segment_is_no_damage(
    packed: Path, tmp_path: Path, capsys
):
    """[DUR-8] No open makes it, and no look-up misses it."""
    path = data_of(packed / "lz4", tmp_path) / "metrics-1"
    for kind in ("log", "index", "timeindex"):
        (path / f"{242:020d}.{kind}").unlink()
    (path / f"{242:020d}.log").touch()

    found = said(capsys, "verify", "-q", str(path))[1]["findings"]

    assert "INDEX_MISSING" not in [one["code"] for one in found]


def test_no_read_makes_the_index_of_an_empty_sealed_segment(packed: Path, tmp_path: Path):
    """[DUR-8, DUR-58] `recover` did, where it looked for transactions, and did not name it."""
    path = data_of(packed / "lz4", tmp_path) / "metrics-1"
    for kind in ("log", "index", "timeindex"):
        (path / f"{242:020d}.{kind}").unlink()
    (path / f"{242:020d}.log").touch()

    with segstore.open(path) as log:
        assert log.scan(241).count() > 1
        assert log.offset_for_timestamp(0) is not None
        assert not [*log.rebuild_transaction_indexes()]

    assert not {*path.glob(f"{242:020d}.*index")}


def test_a_log_that_this_handle_created_ends_where_the_handle_says(tmp_path: Path):
    """[DUR-50] Truncated to the middle of its first batch, it has an end that no file shows."""
    with segstore.open(tmp_path / "topic-0") as log:
        log.append([(b"k", b"0"), (b"k", b"1")])
        log.truncate_to(1)
        log.delete_records(1)

        assert not log.verify().findings
