"""A log start above the end of a log that was not closed: what the tools say of it.

``verify`` and ``recover --dry-run`` failed with an AttributeError of their own. Of the files that
the open then made they said that there was "no batch in them that the log does not have", and the
guide's way to have the records back brought none.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

import segstore
from segstore import cli
from segstore.log.check.partition_check import check_partition
from segstore.log.files.checkpoint_store import CheckpointStore
from segstore.log.findings.finding import FindingCode, Records
from tests.kits.log_kit import note_being_emptied

if TYPE_CHECKING:
    from pathlib import Path

RECORDS = 12
LOG_START = 1000
CHECKPOINT = "log-start-offset-checkpoint"
WAY_BACK = (
    "to have them back copy these files, as <base offset>.log, into an empty directory of the"
    " partition's name elsewhere, several of one base offset behind each other in the order of the"
    " offsets that `segstore verify` names, and salvage that"
)


@pytest.fixture
def contradicted(new_log, tmp_path) -> Path:
    """Three segments of twelve records, not closed, and a log start of another log."""
    log = new_log()
    for number in range(RECORDS):
        if number and number % 4 == 0:
            log.roll()
        log.append([(None, b"value %d" % number)])
    log.flush()
    log.close_quietly()
    (tmp_path / "topic-0" / CHECKPOINT).write_text(f"0\n1\ntopic 0 {LOG_START}\n")
    return tmp_path / "topic-0"


def files(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def test_what_an_open_does_is_foretold(contradicted, capsys):
    """[DUR-54, DUR-65] All segments are set aside; the forecast of that changes nothing."""
    before = files(contradicted)
    names = sorted(path.name for path in contradicted.glob("*.log"))
    expected = [name.replace(".log", ".quarantine-1") for name in names]

    report = check_partition(str(contradicted)).forecast.report

    assert sorted(report.set_aside) == expected
    assert cli.main(["recover", "--dry-run", "-q", str(contradicted)]) == 1
    out = capsys.readouterr().out
    assert all(name in out for name in expected)
    assert files(contradicted) == before


def test_it_is_a_finding(contradicted, capsys):
    """[DUR-65] ``verify`` said "clean", and the next open took every record out of the log."""
    assert cli.main(["verify", "-q", str(contradicted)]) == 1
    out = capsys.readouterr().out

    assert f"{CHECKPOINT}, offset {RECORDS}: " in out
    assert f"found the log start {LOG_START}" in out
    assert "[LOG_START_ABOVE_END]" in out
    assert "[SEGMENT_AFTER_DAMAGE]" in out  # the next open for writing sets all of it aside
    assert f"offsets {LOG_START} to {RECORDS}" in out


def test_what_was_being_emptied_is_none(new_log, tmp_path, monkeypatch):
    """[DUR-18, TRU-4] The log says itself that its records were to go."""
    log = new_log()
    log.append([(None, b"x")] * RECORDS)
    log.flush()
    saved = tmp_path / "saved" / "topic-0"
    write = CheckpointStore.write_log_start

    def copy_behind(self: CheckpointStore, *arguments: object) -> None:
        write(self, *arguments)
        if not saved.exists():
            shutil.copytree(tmp_path / "topic-0", saved)

    monkeypatch.setattr(CheckpointStore, "write_log_start", copy_behind)
    log.truncate_fully_and_start_at(LOG_START)

    check = check_partition(str(saved))

    assert check.batches == 1
    assert check.findings == []


@pytest.mark.parametrize("place", [".", ".."])
def test_one_that_is_not_believed(new_log, tmp_path, place):
    """[DUR-21] Closed cleanly: it was said that no record can be read, all of them can."""
    log = new_log()
    log.append([(None, b"x")] * RECORDS)
    log.close()
    path = tmp_path / "topic-0"
    (path / place / CHECKPOINT).write_text(f"0\n1\ntopic 0 {LOG_START}\n")

    check = check_partition(str(path))

    (finding,) = check.findings
    assert (finding.code, finding.records) == (FindingCode.LOG_START_ABOVE_END, Records.NONE)
    assert finding.repaired
    assert check.log_start_offset == 0
    with segstore.open(path) as log:
        assert log.log_start_offset == 0
    assert check_partition(str(path)).findings == []


def test_what_was_set_aside_is_told(contradicted, capsys, tmp_path):
    """[DUR-59] Each file with its offsets: no finding, but what could be had back is said."""
    with segstore.open(contradicted) as log:
        assert f"if this is not the right number, {WAY_BACK}" in str(log.report)
        checked = str(log.verify())
    code = cli.main(["verify", "-q", str(contradicted)])
    outputs = [checked, capsys.readouterr().out]
    assert code == 0
    assert cli.main(["inspect", "-q", str(contradicted)]) == 0
    outputs.append(capsys.readouterr().out)
    outputs.append(str(segstore.salvage(contradicted, tmp_path / "saved-0")))

    for text in outputs:
        assert "there is no whole batch in them" not in text
        for first in range(0, RECORDS, 4):
            assert (
                f"4 batches with offsets {first} to {first + 3}, below the log start {LOG_START}:"
                " deleted, or set aside for a log start that was not what was written"
            ) in text


def brought_back(path: Path, tmp_path: Path) -> list[bytes]:
    """Do what is said: the files alone, as ``<base offset>.log``, are salvaged."""
    rescue = tmp_path / "rescue" / "topic-0"
    rescue.mkdir(parents=True)
    for file in path.glob("*.quarantine-1"):
        shutil.copy(file, rescue / f"{file.stem}.log")
    segstore.salvage(rescue, tmp_path / "saved" / "topic-0")
    with segstore.open(tmp_path / "saved" / "topic-0") as log:
        return [record.value for record in log]


@pytest.mark.parametrize("appended", [0, 1])
def test_whole_segments_come_back(contradicted, tmp_path, capsys, appended):
    """[DUR-59] What was set aside, whatever was written behind the wrong log start since."""
    with segstore.open(contradicted) as log:
        for _ in range(appended):
            log.append([(None, b"behind")])

    assert cli.main(["verify", "-q", str(contradicted)]) == 0
    assert capsys.readouterr().out.count(WAY_BACK) == RECORDS // 4
    assert brought_back(contradicted, tmp_path) == [b"value %d" % n for n in range(RECORDS)]


def test_a_cut_tail_comes_back(new_log, tmp_path, capsys):
    """[DUR-59] It begins with the bytes that were no batch, and has no name of its own."""
    log = new_log()
    for number in range(RECORDS):
        log.append([(None, b"value %d" % number)])
    log.flush()
    log.close_quietly()
    path = tmp_path / "topic-0"
    (path / "recovery-point-offset-checkpoint").unlink(missing_ok=True)
    file = path / "00000000000000000000.log"
    data = bytearray(file.read_bytes())
    data[4 * len(data) // RECORDS + 70] ^= 1
    file.write_bytes(data)
    with segstore.open(path) as log:
        (cut,) = log.report.quarantined
        log.truncate_fully_and_start_at(LOG_START)

    assert cli.main(["verify", "-q", str(path)]) == 0
    assert f"{cut}, " in (out := capsys.readouterr().out)
    assert WAY_BACK in out
    there = brought_back(path, tmp_path)
    assert there[-7:] == [b"value %d" % n for n in range(5, RECORDS)]


@pytest.mark.parametrize("appended", [0, 1])
def test_what_salvage_does_not_copy(contradicted, tmp_path, capsys, appended):
    """[DUR-59] With the log start put right they are lost to a salvage; the way back is said."""
    with segstore.open(contradicted) as log:
        for _ in range(appended):
            log.append([(None, b"behind")])
    (contradicted / ".kafka_cleanshutdown").unlink()
    (contradicted / CHECKPOINT).write_text("0\n1\ntopic 0 0\n")

    assert cli.main(["salvage", "-q", str(contradicted), str(tmp_path / "target-0")]) == 1
    captured = capsys.readouterr()
    assert (captured.out + captured.err).count(WAY_BACK) == 1


@pytest.mark.parametrize("command", [["verify"], ["recover", "--dry-run"]])
def test_a_directory_without_a_segment(contradicted, capsys, command):
    """[DUR-59] They failed with a ValueError: all that the files hold is not in the log."""
    segstore.open(contradicted).close()
    for file in contradicted.glob("*.log"):
        file.unlink()
    (contradicted / ".kafka_cleanshutdown").unlink()
    (contradicted / CHECKPOINT).unlink()

    cli.main([*command, "-q", str(contradicted)])

    out = capsys.readouterr().out
    for first in range(0, RECORDS, 4):
        assert f"4 batches with offsets {first} to {first + 3}, which the log does not have" in out


@pytest.mark.parametrize("command", ["ls", "cat", "tail"])
def test_a_reader_is_told_that_nothing_is_shown(contradicted, command, capsys):
    """[DUR-7] It had shown no record, and said no word of the twelve that lie there."""
    with segstore.open(contradicted, read_only=True) as log:
        told = [text for text in log.report.warnings if "lies above the end 12 of what" in text]
        assert (len(told), list(log)) == (1, [])
    assert cli.main([command, str(contradicted)]) == 0

    printed = capsys.readouterr()
    assert told[0] in printed.err
    assert "value" not in printed.out


def test_a_reader_of_a_log_that_was_deleted_is_told_nothing(tmp_path):
    """[DUR-19, TRU-4] All of it was deleted, and is gone; or a crash came before it was gone."""
    path = tmp_path / "topic-0"
    with segstore.open(path) as log:
        log.append([(None, b"value")] * 4)
        shutil.copytree(path, tmp_path / "before" / "topic-0")
        log.truncate_fully_and_start_at(LOG_START)
        with segstore.open(path, read_only=True) as reader:
            assert (reader.log_start_offset, reader.report.warnings) == (LOG_START, [])
    killed = tmp_path / "before" / "topic-0"
    (killed / CHECKPOINT).write_text(f"0\n1\ntopic 0 {LOG_START}\n")
    note_being_emptied(killed)
    with segstore.open(killed, read_only=True) as reader:
        assert (reader.log_end_offset, list(reader)) == (LOG_START, [])
        assert not any("lies above the end" in text for text in reader.report.warnings)
