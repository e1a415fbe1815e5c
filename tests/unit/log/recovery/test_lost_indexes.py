"""Index files that are missing when a log is opened, made anew or not [DUR-8, DUR-52, LDR-15]."""

from __future__ import annotations

import pytest

from segstore._core import Barrier, Directory
from segstore.log.files.partition_directory import file_name
from tests.crash.crash_model import Operation
from tests.crash.crash_script import PATH, ScriptRunner, Settings
from tests.kits.damaged_logs import (
    RECORDS_COUNT,
    batches_of,
    build,
    cut,
    expected_values,
    flip_bit,
    refused,
    values_of,
)

KINDS = ("index", "timeindex")
SETTINGS = Settings(segment_bytes=100_000, interval_bytes=1)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("damage", ["flipped bit", "out of order"])
def test_an_index_that_cannot_be_made_refuses_before_anything_changes(log_directory, kind, damage):
    """[DUR-7, DUR-57] The torn tail above the recovery point is not cut either."""
    log_directory.set_recovery_point(log_directory.bases[-1])
    cut(log_directory.last, log_directory.last.stat().st_size - 1)
    base = log_directory.bases[1]
    log_directory.file(base, kind).unlink()
    batch = batches_of(log_directory.file(base))[1]
    position = 65 if damage == "flipped bit" else 1  # a base offset that no checksum covers
    flip_bit(log_directory.file(base), batch.position + position)

    refused(log_directory, "cannot be indexed")


def test_a_segment_without_records_lacks_no_index(tmp_path):
    """[DUR-8, DUR-58] The report names what was made of something."""
    directory = build(tmp_path / "orders-0")
    with directory.open() as log:
        log.roll()
    for kind in KINDS:
        directory.file(RECORDS_COUNT, kind).unlink(missing_ok=True)

    with directory.open() as log:
        assert log.report.clean
        assert log.report.rebuilt == []
        assert values_of(log) == expected_values(0, RECORDS_COUNT)


def test_an_index_that_was_made_anew_is_whole_where_a_crash_leaves_it():
    """[DUR-8, DUR-52] Of a sealed segment: its name may be lost, and it is made once more."""
    runner = ScriptRunner(SETTINGS)
    for kind, argument in (("append", 3), ("append", 3), ("roll", 0), ("append", 2)):
        runner.do(Operation(kind, argument))
    runner.do(Operation("close"))
    disk = runner.disk
    runner.abandon()
    SETTINGS.open(disk).close()
    directory = Directory(PATH, disk)
    names = [file_name(0, kind) for kind in KINDS]
    before = [directory.read_file(name) for name in names]
    for name in names:
        directory.unlink(name)
    directory.sync(Barrier.LEFTOVERS_GONE)

    log = SETTINGS.open(disk)
    assert log.report.clean
    assert [name for name in names if name in log.report.rebuilt] == names
    log.close_quietly()

    found = []
    for seed in range(30):
        after = Directory(PATH, disk.crash_image(fate="seed", seed=seed))
        found += [after.read_file(name) for name in names if after.exists(name)]
    assert {*found} == {*before}
    assert all(before)
