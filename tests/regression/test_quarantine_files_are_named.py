"""Nobody mentioned what an open for writing had set aside: "clean", "nothing was lost".

[DUR-58, DUR-59] Without a recovery point an open cuts at the first damage, and good segments behind
it go into quarantine files. The last zero of the last batch was not kept: it could not come back.
"""

from __future__ import annotations

import json
import shutil

import pytest

import segstore
from segstore import cli
from segstore.log.files.partition_directory import file_name
from segstore.log.local import file_bytes
from tests.kits.damaged_logs import (
    RECORDS_COUNT,
    append_bytes,
    batches_of,
    build,
    expected_values,
    flip_bit,
    values_of,
)
from tests.kits.log_kit import at


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


OF_DAMAGED = "; {} of them are no whole batch: records that had been acknowledged may be in these"


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
    assert f"offsets {shortened.end} to {shortened.taken_out[1] - 1}: an open" in lost[0]


def test_bytes_without_a_batch(log_directory, capsys, tmp_path):
    """[DUR-59] What a write left that was not finished is named, and no record is missed."""
    append_bytes(log_directory.last, b"half a batch")
    log_directory.open().close()

    code, out = run(capsys, "verify", "-q", log_directory.path)
    assert (code, out.splitlines()[0].split(": ")[1].split(";")[0]) == (0, "clean")
    told = "12 bytes that an open for writing took out of the log: there is no whole batch in them"
    assert f"{told} that the log does not have{OF_DAMAGED.format(12)}" in out
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
    assert "there is no whole batch in them that the log does not have" in str(report)
