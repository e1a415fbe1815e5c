"""Salvage: what can be proven of a damaged log, in a new one; what cannot, in the report."""

from __future__ import annotations

import errno
import uuid

import pytest

import segstore
from segstore._core import SimulatedDisk
from segstore.log.log_environment import LogEnvironment
from segstore.log.log_opener import open_partition
from segstore.log.log_salvage import salvage_and_open
from segstore.log.open_options import open_options
from tests.kits.damaged_logs import (
    RECORDS_COUNT,
    SETTINGS,
    append_bytes,
    batches_of,
    build,
    cut,
    expected_values,
    flip_bit,
    values_of,
)
from tests.kits.log_kit import at, singleton
from tests.kits.salvage_kit import PAYLOAD, salvaged, without

# ---- what comes back -----------------------------------------------------------------------------


def test_an_undamaged_log_comes_back_whole(log_directory, target):
    """[DUR-62] byte for byte, in segments of the same bases; only the source's derived files go."""
    report, values = salvaged(log_directory, target)

    assert report.complete
    assert values == expected_values(0, RECORDS_COUNT)
    assert {path.name: path.read_bytes() for path in target.glob("*.log")} == log_directory.logs()
    assert "nothing was lost" in str(report)


def test_what_stands_behind_damage_is_kept(log_directory, target):
    """[DUR-50, DUR-51, DUR-62] an open ends the log there, or refuses it."""
    base = log_directory.bases[1]
    batch = batches_of(log_directory.file(base))[3]
    flip_bit(log_directory.file(base), batch.position + PAYLOAD)

    report, values = salvaged(log_directory, target)

    assert values == without(batch.base_offset)
    (lost,) = report.lost
    assert lost.file == log_directory.file(base).name
    assert (lost.position, lost.size_bytes) == (batch.position, batch.size)
    assert (lost.first_offset, lost.next_offset) == (batch.base_offset, batch.base_offset + 1)
    assert "CRC" in lost.reason
    assert report.log_end_offset == RECORDS_COUNT


def test_damage_in_every_segment(log_directory, target):
    """Each loss is told with its place, in the order of the log [DUR-7]."""
    gone = []
    for base in log_directory.bases:
        batch = batches_of(log_directory.file(base))[1]
        flip_bit(log_directory.file(base), batch.position + PAYLOAD)
        gone.append(batch.base_offset)

    report, values = salvaged(log_directory, target)

    assert values == without(*gone)
    assert [lost.first_offset for lost in report.lost] == gone
    assert report.lost_bytes == sum(lost.size_bytes for lost in report.lost)


@pytest.mark.parametrize("bit", [0, 2, 6])
@pytest.mark.parametrize("byte", [8, 9, 10, 11])
def test_a_wrong_length_takes_one_batch(log_directory, target, byte, bit):
    """Where a length leads nowhere, or to another batch, the next one is found byte by byte."""
    file = log_directory.file(log_directory.bases[0])
    batch = batches_of(file)[4]
    flip_bit(file, batch.position + byte, bit)

    report, values = salvaged(log_directory, target)

    assert values == without(batch.base_offset)
    assert report.lost_ranges == 1


@pytest.mark.parametrize("number", [0, 4, -1])
@pytest.mark.parametrize("bit", range(8))
@pytest.mark.parametrize("byte", [0, 4, 7])
def test_a_wrong_base_offset_takes_one_batch(log_directory, target, number, byte, bit):
    """[DUR-50, DUR-64] no CRC covers it: its neighbours tell, and where the log has no gap."""
    file = log_directory.last
    batch = batches_of(file)[number]
    flip_bit(file, batch.position + byte, bit)

    report, values = salvaged(log_directory, target)

    assert values == without(batch.base_offset)
    assert report.lost_ranges == 1


def test_a_wrong_base_offset_does_not_hide_the_next_segment(log_directory, target):
    """[DUR-50] The name of a file shows the offset of its first batch, however few there are."""
    last, before = log_directory.last, log_directory.file(log_directory.bases[-2])
    cut(last, batches_of(last)[0].end)
    *_, hurt, moved = batches_of(before)
    flip_bit(before, hurt.position + PAYLOAD)
    flip_bit(before, moved.position + 6)

    _, values = salvaged(log_directory, target)

    end = log_directory.bases[-1] + 1
    assert values == without(hurt.base_offset, moved.base_offset, end=end)


@pytest.mark.parametrize("bit", [None, 0, 5])
def test_an_offset_that_nothing_shows_to_be_right_is_told(log_directory, target, bit):
    """[DUR-50, DUR-62] The last batch, behind a damaged one: it is kept, and its offset doubted."""
    *_, hurt, last = batches_of(log_directory.last)
    flip_bit(log_directory.last, hurt.position + PAYLOAD)
    offset = last.base_offset
    if bit is not None:
        flip_bit(log_directory.last, last.position + 6, bit)
        offset ^= 1 << (8 + bit)

    report, values = salvaged(log_directory, target)

    kept = expected_values(last.base_offset, RECORDS_COUNT)[0][1]
    assert values == [*expected_values(0, hurt.base_offset), (offset, kept)]
    assert report.unproven == [(offset, offset)]
    (warning,) = report.warnings
    assert f"the offsets {offset} to {offset}," in warning


@pytest.mark.parametrize("number", [0, -2])
def test_an_offset_that_a_neighbour_shows_to_be_right_is_not_doubted(log_directory, target, number):
    """[DUR-50] The next one goes on behind it, in the same segment or in the one that follows."""
    file = log_directory.file(log_directory.bases[1])
    hurt = batches_of(file)[number]
    flip_bit(file, hurt.position + PAYLOAD)

    report, values = salvaged(log_directory, target)

    assert values == without(hurt.base_offset)
    assert not report.warnings


def test_a_clean_stop_shows_the_last_offset_to_be_right(tmp_path, target):
    """[DUR-24, DUR-50] The log was closed behind that batch."""
    directory = build(tmp_path / "closed" / "orders-0", clean=True)
    hurt = batches_of(directory.last)[-2]
    flip_bit(directory.last, hurt.position + PAYLOAD)

    report, values = salvaged(directory, target)

    assert values == without(hurt.base_offset)
    assert not report.warnings


def test_a_wrong_leader_epoch_takes_no_batch(log_directory, target):
    """[DUR-50, DUR-64] in a log that is known to have ascending ones it is mended."""
    file = log_directory.file(log_directory.bases[1])
    batch = batches_of(file)[2]
    flip_bit(file, batch.position + 14)

    report, values = salvaged(log_directory, target)

    assert values == without()
    assert f"position {batch.position}" in report.warnings[0]


def test_several_batches_in_a_row(log_directory, target):
    """Zeros over three of them, as of sectors that never reached the disk."""
    base = log_directory.bases[1]
    batches = batches_of(log_directory.file(base))
    with log_directory.file(base).open("r+b") as file:
        file.seek(batches[2].position + 5)
        file.write(bytes(batches[4].end - batches[2].position - 5))

    report, values = salvaged(log_directory, target)

    assert values == without(*(batch.base_offset for batch in batches[2:5]))
    assert [(lost.first_offset, lost.next_offset) for lost in report.lost] == [
        (batches[2].base_offset, batches[5].base_offset)
    ]


def test_a_missing_segment_is_told(log_directory, target):
    """[DUR-54, DUR-64] in a log without gaps: nobody has these records."""
    bases = log_directory.bases
    log_directory.file(bases[1]).unlink()

    report, values = salvaged(log_directory, target)

    assert values == without(*range(bases[1], bases[2]))
    (lost,) = report.lost
    assert (lost.file, lost.first_offset, lost.next_offset) == ("", bases[1], bases[2])


def test_a_torn_tail(log_directory, target):
    """[DUR-58] what is behind the last whole batch had no offset that anybody knows."""
    append_bytes(log_directory.last, b"half a batch")

    report, values = salvaged(log_directory, target)

    assert values == expected_values(0, RECORDS_COUNT)
    (lost,) = report.lost
    assert (lost.first_offset, lost.next_offset, lost.size_bytes) == (RECORDS_COUNT, None, 12)


def test_zeros_at_the_end_are_no_loss(log_directory, target):
    """Room that was allocated ahead."""
    append_bytes(log_directory.last, bytes(5000))

    report, values = salvaged(log_directory, target)

    assert report.complete
    assert values == expected_values(0, RECORDS_COUNT)


def test_offsets_that_were_lost_are_not_given_out_again(log_directory, target):
    """[DUR-5] the recovery point says that they had been synced."""
    batch = batches_of(log_directory.last)[-2]
    log_directory.set_recovery_point(RECORDS_COUNT)
    cut(log_directory.last, batch.position)

    report, values = salvaged(log_directory, target)

    assert values == expected_values(0, batch.base_offset)
    assert report.log_end_offset == RECORDS_COUNT
    (lost,) = report.lost
    assert (lost.first_offset, lost.next_offset) == (batch.base_offset, RECORDS_COUNT)
    with segstore.open(target) as log:
        assert log.append([(None, b"new")]).base_offset == RECORDS_COUNT


def test_deleted_records_stay_deleted(tmp_path, target):
    """[DUR-5, DUR-19] the log start comes along; so does the topic id [DUR-23]."""
    directory = build(tmp_path / "orders-0", clean=True)
    topic_id = uuid.uuid4()
    start = directory.bases[1] + 3
    with directory.open(topic_id=topic_id) as log:
        log.delete_records(start)

    _, values = salvaged(directory, target)

    assert values == expected_values(start, RECORDS_COUNT)
    with segstore.open(target) as log:
        assert (log.log_start_offset, log.topic_id) == (start, topic_id)


def test_a_log_start_that_cannot_be(log_directory, target):
    """[DUR-21] a checkpoint has no checksum: nothing is dropped for what it says."""
    (log_directory.path / "log-start-offset-checkpoint").write_text("0\n1\norders 0 99999\n")

    report, values = salvaged(log_directory, target)

    assert values == expected_values(0, RECORDS_COUNT)
    assert any("it is ignored" in text for text in report.warnings)


def test_a_batch_inside_a_record_is_no_batch_of_the_log(tmp_path, target):
    """A record may hold what a batch looks like, and its offset may even fit."""
    inner = at(1, value=b"inner")
    with segstore.open(tmp_path / "orders-0", **SETTINGS) as log:
        for value in (b"zero", inner + b"more", b"two"):
            log.append([(None, value)])
    file = next((tmp_path / "orders-0").glob("*.log"))
    damaged = batches_of(file)[1]
    flip_bit(file, damaged.position + 20)

    segstore.salvage(tmp_path / "orders-0", target)

    with segstore.open(target) as log:
        assert values_of(log) == [(0, b"zero"), (2, b"two")]


def test_a_copy_of_an_earlier_batch_is_left_out(log_directory, target):
    """[DUR-63] It is no record of its own, and no loss."""
    file = log_directory.last
    batch = batches_of(file)[0]
    append_bytes(file, file.read_bytes()[batch.position : batch.end])

    report, values = salvaged(log_directory, target)

    assert values == expected_values(0, RECORDS_COUNT)
    assert report.complete
    assert (report.duplicate_batches, report.duplicate_bytes) == (1, batch.size)


def test_a_transaction_whose_end_is_lost_is_told(tmp_path, target):
    """Committed readers stop where it began: the report says so."""
    path = tmp_path / "orders-0"
    with segstore.open(path, **SETTINGS) as log:
        log.append_as_leader(singleton(producer_id=7, producer_epoch=0, base_sequence=0))
        log.append_as_leader(
            singleton(producer_id=7, producer_epoch=0, base_sequence=1, transactional=True)
        )

    report = segstore.salvage(path, target)

    assert report.complete
    assert any("transaction is open from offset 1" in text for text in report.warnings)


def test_what_the_disk_cannot_read_once():
    """[DUR-33] is no damage: it is tried again while searching, an error while copying."""
    disk = SimulatedDisk()
    log_environment = LogEnvironment(environment=disk)
    options = open_options(durability="none", segment_ms=None)
    with open_partition("/orders-0", options, log_environment) as log:
        for offset in range(300):
            log.append([(offset, None, b"x" * 100)])
    outcomes = set()
    for nth in range(1, 40):
        disk.fail("read_at", nth, errno.EIO)
        name = f"/copy{nth}-0"
        try:
            log, report = salvage_and_open("/orders-0", name, options, log_environment)
        except OSError:  # a small file, or what had been written
            disk.fail("read_at", 0, 0)
            outcomes.add("refused")
            continue
        disk.fail("read_at", 0, 0)
        with log:
            assert [record.offset for record in log.scan()] == list(range(300))
        assert report.complete
        outcomes.add("complete")
    assert outcomes == {"refused", "complete"}
