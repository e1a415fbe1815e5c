"""verify and scrub called a healthy log damaged while its writer cut it, or deleted segments.

A file that went between two steps of a check was missing or cut; or the check ended with an error.
"""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

import segstore
from segstore._core import Directory
from segstore.errors import CorruptRecordError, LogNotFoundError, LogTruncatedError
from segstore.log.check import partition_check
from segstore.log.check.stable_read import CHANGED, read_while_stable
from segstore.log.findings.finding import FindingCode
from tests.kits.damaged_logs import flip_bit
from tests.kits.log_kit import values

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
    with segstore.open(tmp_path / "orders-0", file_delete_delay_ms=0) as log:
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
