"""What a strict reader of the lanes, of lazily opened segments and of salvage found."""

from __future__ import annotations

from pathlib import Path

import pytest

import segstore
from segstore import MemoryRecords
from segstore.errors import ArgumentTypeError, ClosedError, ReadIOError
from segstore.log.salvage import salvage_target
from tests.kits.log_kit import offsets

ONE = [(None, b"x")]


def test_a_segment_that_nobody_opened_yet_is_asked_for_a_bound(new_log):
    """[LOC-9] It was asked for its base offset before it was there: the process died."""
    log = new_log(internal_segment_bytes=200)
    for _ in range(9):
        log.append(ONE)
    log.close()
    log = new_log(internal_segment_bytes=200)
    segment = log.segments()[1]
    assert segment.fetch_upper_bound_offset(0, 1_000_000) is None
    log.close()
    with pytest.raises(ClosedError):
        segment.fetch_upper_bound_offset(0, 100)


def test_answers_hash_as_the_tuples_that_they_are(new_log):
    """From CPython 3.14 on a tuple remembers its hash, and answers reuse memory."""
    log = new_log()
    for _ in range(3):
        info = log.append(ONE)
        assert hash(info) == hash(tuple(info))
        end = log._local_log.log_end
        assert hash(end) == hash(tuple(end))
        del info, end


def descriptors_below(folder: Path) -> list[str]:
    found = []
    for one in Path("/proc/self/fd").iterdir():
        try:
            target = str(one.readlink())
        except FileNotFoundError:  # of the listing itself
            continue
        if target.startswith(f"{folder}/") and target.endswith(" (deleted)"):
            found.append(target)
    return found


def test_a_read_keeps_no_file_of_a_deleted_segment(new_log, tmp_path):
    """[DUR-19] Retention freed nothing of what one read had seen."""
    log = new_log(internal_segment_bytes=200, file_delete_delay_ms=0)
    for _ in range(30):
        log.append(ONE)
    assert len(offsets(log.read(0, 100))) == 1
    log.delete_records(25)
    assert log._background.wait_until_idle()
    assert descriptors_below(tmp_path) == []
    assert offsets(log.read(25, 60)) == [25]


def test_a_state_directory_that_is_the_partitions_own(tmp_path):
    """[DUR-62] The second open took its own lock for somebody else's."""
    path = tmp_path / "t-0"
    for offset in range(3):
        with segstore.open(path, recovery="kafka", state_dir=path) as log:
            assert log.append(ONE).base_offset == offset


def test_arguments_are_looked_at_before_the_lane(new_log):
    """Whether a wrong one was refused went by the state of the lane."""
    log = new_log()
    sent = bytes(MemoryRecords.with_records(ONE).data)
    log.append_as_leader(sent)
    for wrong in ({"verification_guard": "nonsense"}, {"transaction_version": "2"}):
        with pytest.raises(ArgumentTypeError):
            log.append_as_leader(sent, **wrong)
    assert log.log_end_offset == 1


def test_bytes_that_the_disk_does_not_give_are_no_zeros():
    """They were read once more to see whether they are zeros: one small file ended a salvage."""

    class Source:
        class directory:  # noqa: N801 - an attribute
            @staticmethod
            def read_range(*_: object) -> bytes:
                raise ReadIOError("no")

    target = object.__new__(salvage_target.SalvageTarget)
    target._source = Source
    assert target._is_zero("00000000000000000000.log", 0, 70) is False
