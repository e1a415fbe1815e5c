"""What Kafka makes of the files of an interrupted compaction, split or deletion [LDR-1..LDR-6]."""

from __future__ import annotations

import pytest

from segstore._core import Directory, SegmentContext
from segstore.errors import IllegalArgumentError
from segstore.log.files.partition_directory import file_name
from segstore.log.kafka_profile.swap_files import SwapFiles
from segstore.log.recovery.recovery_report import RecoveryReport
from segstore.records.compression import codec_table
from tests.kits.log_kit import at


@pytest.fixture
def sort_out(tmp_path):
    """Make files with these names, sort them out; what is there then, and what was removed."""

    def sort(*names: str, **logs: bytes) -> tuple[set[str], list[str]]:
        for name in names:
            (tmp_path / name).write_bytes(logs.get(name, b""))
        directory, report = Directory(str(tmp_path)), RecoveryReport()
        context = SegmentContext(directory, codec_table(), writable=True, kafka_profile=True)
        SwapFiles(directory, context, report).sort_out()
        return {path.name for path in tmp_path.iterdir()}, sorted(report.removed)

    return sort


def swap(first: int, end: int) -> dict[str, bytes]:
    """The ``.log`` of a new segment."""
    return {f"{file_name(first, 'log')}.swap": b"".join(map(at, range(first, end)))}


def log(*bases: int) -> list[str]:
    return [file_name(base, "log") for base in bases]


def made_index(base: int) -> str:
    """Of a segment that lacks one: a look at its end makes it, as in Kafka."""
    return file_name(base, "index")


def test_what_was_deleted_goes(sort_out):
    """[LDR-1] But a snapshot of a metadata log, which is named so too, and what is no file."""
    other = "00000000000000000007-0000000001.checkpoint.deleted"
    gone = [f"{name}.deleted" for name in log(0, 3)]

    left, removed = sort_out(*log(0), *gone, other)

    assert left == {*log(0), other}
    assert removed == gone


@pytest.mark.parametrize("cleaned", [[5], [9, 5]])
def test_a_set_is_complete_below_what_is_being_cleaned(sort_out, cleaned):
    """[LDR-3] Segments become ``.swap`` from the highest on: one at ``.cleaned`` lacks it."""
    swaps = swap(2, 4) | swap(5, 6) | swap(7, 9)
    leftover = [f"{name}.cleaned" for name in log(*cleaned)]

    left, removed = sort_out(*log(0), *swaps, *leftover, **swaps)

    assert left == {*log(0, 2), made_index(2)}
    assert removed == sorted([*leftover, *(f"{name}.swap" for name in log(5, 7))])


def test_a_complete_set_takes_the_place_of_what_it_was_made_of(sort_out):
    """[LDR-4, LDR-5, LDR-6] From its first offset to below its end, snapshots too."""
    swaps = swap(2, 4) | swap(6, 9)
    index = file_name(6, "index")
    old = [*log(2, 3, 8), file_name(3, "index"), file_name(8, "snapshot")]
    kept = [*log(1, 9), file_name(9, "timeindex"), "leader-epoch-checkpoint"]

    left, removed = sort_out(*swaps, f"{index}.swap", *old, *kept, **swaps)

    assert left == {*log(2, 6), index, made_index(2), *kept}
    assert removed == sorted(old)


def test_without_a_set_nothing_is_replaced(sort_out):
    """[LDR-4] Index files alone are no segment; they get their names."""
    index = file_name(0, "index")

    left, removed = sort_out(*log(0, 1), f"{index}.swap")

    assert left == {*log(0, 1), index}
    assert removed == []


@pytest.mark.parametrize("suffix", ["swap", "cleaned"])
def test_a_name_without_a_number_is_refused(sort_out, suffix):
    """[LDR-2] As Kafka does."""
    with pytest.raises(IllegalArgumentError):
        sort_out(f"strange.log.{suffix}")


def test_a_directory_of_such_a_name_is_none_of_ours(sort_out, tmp_path):
    """[LDR-1] Only regular files count."""
    names = [f"{file_name(0, 'log')}.{suffix}" for suffix in ("deleted", "swap", "cleaned")]
    for name in names:
        (tmp_path / name).mkdir()

    assert sort_out(*log(0)) == ({*log(0), *names}, [])
