"""What an open for writing does beside recovery: restarts, and reads what small files have lost."""

from __future__ import annotations

import struct

import pytest

from segstore.log.files.partition_directory import file_name
from tests.kits.damaged_logs import (
    RECORDS_COUNT,
    LogDirectory,
    batches_of,
    build,
    cut,
    flip_bit,
    values_of,
)
from tests.kits.log_kit import offsets, singleton
from tests.kits.sidecar_kit import filled, sidecars


def write_checkpoint(folder, name, offset):
    (folder / f"{name}-offset-checkpoint").write_text(f"0\n1\norders 0 {offset}\n")


# ---- begun anew ----------------------------------------------------------------------------------


@pytest.mark.parametrize("is_empty", [False, True])
def test_the_segments_below_a_log_start_above_the_end_are_set_aside_if_they_hold_bytes(
    log_directory, is_empty
):
    """[LDR-25, DUR-18, DUR-59] An empty file is worth nothing."""
    before = list(log_directory.bases)
    last = RECORDS_COUNT + 9 if is_empty else log_directory.bases[-1]
    file = log_directory.file(last)
    if is_empty:
        file.touch()
    content = file.read_bytes()
    write_checkpoint(log_directory.path, "log-start", 1000)

    with log_directory.open() as log:
        assert (log.log_start_offset, log.log_end_offset) == (1000, 1000)
        kept = {file_name(base, "quarantine-1") for base in before}
        assert {*log.report.set_aside} == kept
    assert log_directory.bases == [1000]
    kept = [name for name in log_directory.names() if name.startswith(f"{last:020d}")]
    assert [(log_directory.path / name).read_bytes() for name in kept] == [content] * len(kept)
    assert len(kept) == (not is_empty)


def test_no_checksum_of_what_was_set_aside_stays(new_log, tmp_path):
    """[DUR-60] A sidecar says what a segment is; the new one has none."""
    log = filled(new_log, checksum_sidecar=True)
    assert sidecars(log)
    log.close_quietly()
    (tmp_path / "topic-0" / "log-start-offset-checkpoint").write_text("0\n1\ntopic 0 1000\n")

    again = new_log(checksum_sidecar=True)

    assert again.log_end_offset == 1000
    assert sidecars(again) == []


@pytest.mark.parametrize("number", [1, 2])
def test_a_segment_that_is_cut_has_no_checksum_any_more(new_log, tmp_path, number):
    """[DUR-60] Nor those behind it; the ones before keep theirs."""
    log = filled(new_log, checksum_sidecar=True)
    there = sidecars(log)
    path = tmp_path / "topic-0" / file_name(there[number], "log")
    log.close_quietly()
    (tmp_path / "topic-0" / "recovery-point-offset-checkpoint").write_text("0\n1\ntopic 0 0\n")
    cut(path, path.stat().st_size - 1)

    again = new_log(checksum_sidecar=True)

    assert again.report.truncated_bytes > 0
    assert sidecars(again) == there[:number]
    assert again.verify().ok


# ---- a clean stop --------------------------------------------------------------------------------


def test_after_a_clean_stop_the_recovery_point_is_the_log_end(tmp_path):
    """[DUR-24, DUR-65, LDR-28] Also where a broker's checkpoint is behind its marker."""
    directory = build(tmp_path / "orders-0")
    directory.set_recovery_point(None)
    write_checkpoint(tmp_path, "recovery-point", 7)
    (tmp_path / ".kafka_cleanshutdown").touch()

    with directory.open() as log:
        assert log.report.clean
        assert log.recovery_point == log.durable_offset == RECORDS_COUNT
        assert (log.report.recovery_point, log.report.had_recovery_point) == (RECORDS_COUNT, True)


# ---- epochs that are read from the batches -------------------------------------------------------


def of_epochs(path, *epochs):
    """A log that was not closed, a record and a segment an epoch, all of it synced."""
    with LogDirectory(path).open(durability="none") as log:
        for epoch in epochs:
            log.append_as_leader(singleton(b"x" * 50), leader_epoch=epoch)
            log.roll()
        log.close_quietly()
    directory = LogDirectory(path)
    directory.set_recovery_point(len(epochs))
    (directory.path / "leader-epoch-checkpoint").unlink()
    return directory


def test_epochs_of_records_that_are_damaged_are_known(tmp_path):
    """[DUR-21, EPC-11] Headers tell them; the checksum is for who reads the records."""
    directory = of_epochs(tmp_path / "orders-0", 1, 4, 6)
    flip_bit(directory.file(1), batches_of(directory.file(1))[0].size - 1)

    with directory.open() as log:
        assert list(log._epochs.entries) == [(1, 0), (4, 1), (6, 2)]
        assert "leader-epoch-checkpoint" in log.report.rebuilt


def test_where_no_batch_has_an_epoch_the_checkpoint_says_so(tmp_path):
    """[DUR-21] It is there, and empty; the next open does not look again."""
    directory = of_epochs(tmp_path / "orders-0", 3)
    first = directory.file(0)
    with first.open("r+b") as file:
        file.seek(12)
        file.write(struct.pack(">i", -1))

    for rebuilt in (True, False):
        with directory.open() as log:
            assert offsets(log) == [0]
            assert ("leader-epoch-checkpoint" in log.report.rebuilt) is rebuilt
        assert (directory.path / "leader-epoch-checkpoint").read_text() == "0\n0\n"


@pytest.mark.parametrize(
    "lines", [["1 0"], ["1 0", "4 1", "6 2", "9 3"]], ids=["too few", "one without records"]
)
def test_recovery_brings_the_epochs_in_line_with_the_batches(tmp_path, lines):
    """[DUR-21, EPC-6, SEG-40] A checkpoint of another moment: put back, or ahead of a crash."""
    directory = of_epochs(tmp_path / "orders-0", 1, 4, 6)
    directory.set_recovery_point(0)
    text = "".join(f"{line}\n" for line in ["0", str(len(lines)), *lines])
    (directory.path / "leader-epoch-checkpoint").write_text(text)

    with directory.open() as log:
        assert list(log._epochs.entries) == [(1, 0), (4, 1), (6, 2)]
    found = (directory.path / "leader-epoch-checkpoint").read_text()
    assert found == "0\n3\n1 0\n4 1\n6 2\n"


# ---- what a reader is told of .swap files --------------------------------------------------------


@pytest.mark.parametrize("damage", ["torn", "flipped bit", "out of order"])
def test_a_swap_segment_that_is_not_wholly_good_is_told_and_not_used(log_directory, damage):
    """[DUR-20, DUR-55, DUR-58] By a reader, who changes nothing, and by a writer."""
    base = log_directory.bases[1]
    content = log_directory.file(base).read_bytes()
    first, second = batches_of(log_directory.file(base))[:2]
    swap = log_directory.path / file_name(base, "log.swap")
    swap.write_bytes(
        {
            "torn": content[:-1],
            "flipped bit": content,
            "out of order": content[first.end : second.end] + content[: first.end],
        }[damage]
    )
    if damage == "flipped bit":
        flip_bit(swap, second.end - 1)

    with log_directory.open(read_only=True) as log:
        assert f"a damaged .swap segment at {base} is ignored" in log.report.warnings
        assert len(values_of(log)) == RECORDS_COUNT
    assert swap.exists()
    with log_directory.open() as log:
        assert f"a damaged .swap segment at {base} was quarantined" in log.report.warnings
        assert len(values_of(log)) == RECORDS_COUNT
    assert not swap.exists()
