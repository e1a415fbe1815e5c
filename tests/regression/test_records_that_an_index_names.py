"""A sealed ``.log`` was shorter than its index: the index was called damaged, and built again.

Such a file is what a copy of a live partition has, where the ``.log`` was copied before its index.
The index was the only proof that records are missing: after `recover` every command said that the
log was clean, and a salvage said that nothing was lost (operator case 04).
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

import segstore
from segstore import cli
from segstore.errors import CorruptLogError
from segstore.log.files.missing_records_file import read_ranges
from tests.kits.broker_partition import (
    cut_segment,
    leave_as_a_broker,
    segment_file,
    write_segments,
)

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(params=["clean", "unclean", "alone"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A broker's partition: with its marker, without it, and without its log directory's files."""
    path = tmp_path / "data" / "orders-0"
    path.parent.mkdir()
    write_segments(path)
    leave_as_a_broker(path)
    if request.param != "clean":
        (path.parent / ".kafka_cleanshutdown").unlink()
    if request.param == "alone":
        (path.parent / "recovery-point-offset-checkpoint").unlink()
    return path


def lost(path: Path) -> list[tuple[int, int | None]]:
    """What a salvage says is lost; it leaves nothing open."""
    target = path.parent.parent / "salvaged" / path.name
    shutil.rmtree(target, ignore_errors=True)
    report = segstore.salvage(path, target)
    assert report.maybe_lost == []
    return [(one.first_offset, one.next_offset) for one in report.lost]


def open_and_close(path: Path) -> None:
    """As `segstore recover` does first."""
    segstore.open(path).close()


@pytest.mark.parametrize("first", [20, 30])
def test_a_salvage_says_the_same_after_a_recovery(path: Path, first: int):
    """[DUR-7, DUR-54] A recovery without a clean marker rebuilds indexes."""
    cut_segment(path, batches=first - 20)

    assert lost(path) == [(first, 40)]
    for _ in range(2):
        open_and_close(path)
        assert lost(path) == [(first, 40)]


@pytest.mark.parametrize("kind", ["index", "timeindex"])
def test_one_of_the_two_indexes_is_proof_enough(path: Path, kind: str):
    """[DUR-8] The other one is lost, and is rebuilt by the next open for writing."""
    cut_segment(path)
    segment_file(path, 20, kind).unlink()

    assert lost(path) == [(30, 40)]
    open_and_close(path)
    assert segment_file(path, 20, kind).exists()
    assert lost(path) == [(30, 40)]


def test_padding_hides_no_proof(path: Path):
    """[DUR-80] Zeros behind the entries of both, as operator case 01 has them."""
    cut_segment(path)
    for kind in ("index", "timeindex"):
        with segment_file(path, 20, kind).open("ab") as index:
            index.write(bytes(240))

    assert lost(path) == [(30, 40)]


def test_commands_that_look_at_the_log_name_them(path: Path, capsys: pytest.CaptureFixture[str]):
    """[DUR-7] With exit code 1, before and after a recovery; a log that is whole has 0."""
    commands = (
        ["ls"],
        ["inspect", "-q"],
        ["cat", "-q"],
        ["verify", "-q"],
        ["scrub", "-q", "--json"],
        ["recover", "-q", "--dry-run"],
        ["recover", "-q"],
    )
    assert [cli.main([*command, str(path)]) for command in commands[:-2]] == [0] * 5
    capsys.readouterr()
    cut_segment(path)
    for _ in range(2):
        for command in commands:
            assert cli.main([*command, str(path)]) == 1
            captured = capsys.readouterr()
            assert "30 to 39" in captured.out + captured.err, command


def test_a_handle_names_them(path: Path):
    """[DUR-54] Without reading all batches."""
    cut_segment(path)
    for read_only in (True, False):
        with segstore.open(path, read_only=read_only) as log:
            assert [one[:2] for one in log.missing_records()] == [(30, 40)]
    with segstore.open(path) as log:
        log.delete_records(35)
        assert [one[:2] for one in log.missing_records()] == [(35, 40)]
        log.delete_records(45)
        assert log.missing_records() == []


@pytest.mark.parametrize("is_recovered", [False, True])
def test_no_read_goes_on_silently(path: Path, *, is_recovered: bool):
    """[DUR-79] Up to the gap records are given, then an error; behind it they can be asked for."""
    cut_segment(path)
    if is_recovered:
        open_and_close(path)
    with segstore.open(path, read_only=True) as log:
        given = []
        with pytest.raises(CorruptLogError, match="30 to 39"):
            given.extend(record.offset for record in log.scan())
        for offset in (30, 35):
            with pytest.raises(CorruptLogError, match=r"30 to 39|35 to 39"):
                list(log.scan(offset))
            with pytest.raises(CorruptLogError, match="30 to 39"):
                log.read(offset, 1)

        assert given in ([*range(30)], [])
        assert [record.offset for record in log.scan(40)] == [*range(40, 60)]


def test_a_writer_that_met_the_damage_keeps_the_proof(path: Path):
    """[DUR-53] Its close builds indexes again that a look-up found to be wrong."""
    cut_segment(path)
    with segstore.open(path) as log:
        for offset in (29, 30, 35):
            try:
                log.read(offset, 1)
            except CorruptLogError:
                assert offset >= 30

    assert lost(path) == [(30, 40)]


def test_a_truncation_takes_the_note_away(path: Path):
    """[TRU-1] What is appended then fills the offsets again."""
    cut_segment(path)
    open_and_close(path)
    with segstore.open(path) as log:
        with pytest.raises(CorruptLogError):
            log.read(30, 1)
        log.truncate_to(25)
        for _ in range(20):
            log.append([(None, b"again")])
            log.roll()

        assert read_ranges(log._local_log.directory) == []
    assert lost(path) == []


def test_deleted_records_are_not_missing(path: Path):
    """[DUR-18] Where the log start lies behind the gap."""
    cut_segment(path)
    open_and_close(path)
    with segstore.open(path) as log:
        log.delete_records(45)

    assert lost(path) == []


def test_a_gap_of_compaction_is_no_loss(path: Path):
    """[DUR-64] A broker's cleaner makes the indexes of what it keeps."""
    cut_segment(path)
    for kind in ("index", "timeindex"):
        segment_file(path, 20, kind).unlink()
    open_and_close(path)

    with segstore.open(path, read_only=True) as log:
        assert [record.offset for record in log.scan()][29:31] == [29, 40]


def test_a_salvage_warns_of_a_damaged_note(path: Path):
    """[DUR-7] Nothing else says which gap lost records: it said that none was lost."""
    cut_segment(path)
    open_and_close(path)
    (path / ".segstore.missing").write_bytes(b"version 0\ngarbage\n")

    report = segstore.salvage(path, path.parent.parent / "salvaged" / path.name)
    assert any(".segstore.missing is damaged" in warning for warning in report.warnings)
