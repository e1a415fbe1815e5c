"""Salvage: the new log is valid or absent, whatever happens; bad input; the ways in."""

from __future__ import annotations

import json
import os
import struct

import pytest

import segstore
from segstore import cli
from segstore._core import SimulatedDisk
from segstore.errors import (
    AlreadyExistsError,
    CorruptLogError,
    DiskFullError,
    IllegalArgumentError,
    NotALogError,
)
from segstore.log.log_environment import LogEnvironment
from segstore.log.log_opener import open_partition
from segstore.log.log_salvage import salvage_and_open
from segstore.log.open_options import open_options
from segstore.log.recovery import salvage_report
from tests.kits.damaged_logs import (
    RECORDS_COUNT,
    SETTINGS,
    batches_of,
    build,
    expected_values,
    flip_bit,
    values_of,
)
from tests.kits.salvage_kit import PAYLOAD, names_above, salvaged, without

# ---- the target is valid, or absent --------------------------------------------------------------


def test_an_interrupt_leaves_nothing(log_directory, target):
    """[DUR-56] what the callback raises ends the salvage."""

    def interrupt(phase, done, total):
        assert (phase, done <= total) == ("salvage", True)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        segstore.salvage(log_directory.path, target, progress=interrupt)
    assert names_above(target) == []


def test_an_interrupt_of_the_recovery_leaves_a_log(log_directory, target):
    """The segments are there; the next open makes the indexes."""

    def interrupt(phase, done, total):  # noqa: ARG001
        if phase == "recover":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        segstore.salvage(log_directory.path, target, progress=interrupt)
    with segstore.open(target) as log:
        assert values_of(log) == expected_values(0, RECORDS_COUNT)


def test_progress_reaches_its_end(log_directory, target):
    seen = []
    segstore.salvage(log_directory.path, target, progress=lambda *now: seen.append(now))
    total = sum(len(content) for content in log_directory.logs().values())
    assert [now for now in seen if now[0] == "salvage"][-1] == ("salvage", total, total)
    assert seen[-1] == ("recover", total, total)


def test_a_crash_at_any_effect():
    """[DUR-56] the target is there with every record, or it is not there."""
    disk = SimulatedDisk()
    log_environment = LogEnvironment(environment=disk)
    options = open_options(durability="none", segment_ms=None, internal_segment_bytes=400)
    with open_partition("/orders-0", options, log_environment) as log:
        for offset in range(20):
            log.append([(offset, None, b"value %d" % offset)])
    begin = disk.effects
    salvage_and_open("/orders-0", "/new/orders-0", options, log_environment)[0].close()
    there = 0
    for effects in range(begin, disk.effects + 1):
        for fate in ("lost", "kept", "seed"):
            image = disk.crash_image(effects, fate=fate, seed=effects)
            found = LogEnvironment(environment=image)
            try:
                log = open_partition("/new/orders-0", open_options(read_only=True), found)
            except FileNotFoundError:
                continue
            there += 1
            with log:
                assert [record.offset for record in log.scan()] == list(range(20))
            with open_partition("/new/orders-0", options, found) as log:
                assert log.log_end_offset == 20
    assert there > 10


def test_a_full_disk_leaves_nothing(small_disk, log_directory):
    """[DUR-30]"""
    small_disk.fill(leave=4096)
    target = small_disk.path / "orders-0"
    with pytest.raises(DiskFullError):
        segstore.salvage(log_directory.path, target)
    assert [path.name for path in small_disk.path.iterdir()] == ["ballast"]


def test_what_is_there_is_not_touched(log_directory, target):
    target.mkdir(parents=True)
    with pytest.raises(AlreadyExistsError, match="salvaged/orders-0"):
        segstore.salvage(log_directory.path, target)
    assert list(target.iterdir()) == []


@pytest.mark.parametrize("place", [".", "inside-0", "../orders-0/inside-0"])
def test_the_target_is_elsewhere(log_directory, place):
    """[DUR-62]"""
    before = log_directory.snapshot()
    with pytest.raises((IllegalArgumentError, AlreadyExistsError)):
        segstore.salvage(log_directory.path, log_directory.path / place)
    assert log_directory.snapshot() == before


@pytest.mark.parametrize("name", ["orders", "orders-0.0123-delete", "orders-x"])
def test_a_target_of_no_partition(log_directory, tmp_path, name):
    with pytest.raises(NotALogError):
        segstore.salvage(log_directory.path, tmp_path / name)
    assert not (tmp_path / name).exists()


# ---- bad input -----------------------------------------------------------------------------------


def test_a_log_of_which_nothing_is_left(log_directory, target):
    for base in log_directory.bases:
        log_directory.file(base).write_bytes(os.urandom(3000))
    with pytest.raises(CorruptLogError, match="no batch"):
        segstore.salvage(log_directory.path, target)
    assert names_above(target) == []


def test_an_empty_log(tmp_path, target):
    segstore.open(tmp_path / "orders-0").close()
    report = segstore.salvage(tmp_path / "orders-0", target)
    assert report.complete
    assert (report.log_start_offset, report.log_end_offset, report.batches) == (0, 0, 0)


def test_a_segment_that_is_a_directory(log_directory, target):
    base = log_directory.bases[1]
    log_directory.file(base).unlink()
    log_directory.file(base).mkdir()
    report, values = salvaged(log_directory, target)
    assert values == without(*range(base, log_directory.bases[2]))
    assert [lost.file for lost in report.lost] == [log_directory.file(base).name, ""]


def test_places_that_only_look_like_a_batch_cost_no_quadratic_time(log_directory, target):
    """[DUR-103] lengths that claim the rest of the file, at every place."""
    base = log_directory.bases[1]
    file = log_directory.file(base)
    good = file.read_bytes()
    count = 40_000
    size = len(good) + 17 * count
    claims = b"".join(
        struct.pack(">qiib", base, size - 17 * number - 12 - 17, 0, 2) for number in range(count)
    )
    file.write_bytes(claims + good)

    report = segstore.salvage(log_directory.path, target, **SETTINGS)

    assert report.seconds < 60
    assert report.lost_bytes >= len(claims)
    assert any("can be tried" in lost.reason for lost in report.lost)


def test_more_losses_than_are_kept_one_by_one(log_directory, target, monkeypatch):
    """[DUR-102]"""
    monkeypatch.setattr(salvage_report, "MAX_RANGES", 3)
    for base in log_directory.bases:
        for batch in batches_of(log_directory.file(base))[1::2]:
            flip_bit(log_directory.file(base), batch.position + PAYLOAD)
    report, _ = salvaged(log_directory, target)
    assert len(report.lost) == 3
    assert report.lost_ranges > 20
    assert report.lost_bytes > report.lost_ranges * 100


# ---- the ways in ---------------------------------------------------------------------------------


def test_open_with_recovery_salvage(log_directory, target):
    """[DUR-62] the handle is that of the new log, and a safe one."""
    base = log_directory.bases[0]
    batch = batches_of(log_directory.file(base))[3]
    flip_bit(log_directory.file(base), batch.position + PAYLOAD)
    with segstore.open(
        log_directory.path, recovery="salvage", target=target, durability="none", **SETTINGS
    ) as log:
        assert values_of(log) == without(batch.base_offset)
        assert log.report.salvage.lost_ranges == 1
        assert log.report.to_dict()["salvage"]["lost"][0]["first_offset"] == batch.base_offset
        assert log.profile == "safe"
        assert log.append([(None, b"goes on")]).base_offset == RECORDS_COUNT


@pytest.mark.parametrize(
    "arguments",
    [
        {"recovery": "salvage"},
        {"target": "other-0"},
        {"recovery": "kafka", "target": "other-0"},
        {"recovery": "salvage", "target": "other-0", "read_only": True},
    ],
)
def test_open_needs_both(log_directory, arguments):
    """[DUR-62] salvage writes to another directory only."""
    before = log_directory.snapshot()
    with pytest.raises(IllegalArgumentError, match="target"):
        segstore.open(log_directory.path, **arguments)
    assert log_directory.snapshot() == before


def test_the_command(log_directory, target, capsys):
    """0 when nothing was lost, 1 when something was, the report on stdout."""
    assert cli.main(["salvage", str(log_directory.path), str(target)]) == 0
    assert "nothing was lost" in capsys.readouterr().out
    flip_bit(log_directory.last, PAYLOAD)
    other = target.parent / "other-0"
    assert cli.main(["salvage", "--json", str(log_directory.path), str(other)]) == 1
    printed = json.loads(capsys.readouterr().out)
    assert printed["lost"][0]["file"] == log_directory.last.name
    assert cli.main(["salvage", str(log_directory.path), str(other)]) == 1
    assert "AlreadyExistsError" in capsys.readouterr().err


def test_the_command_for_a_log_directory(tmp_path, capsys):
    """Each partition by itself; one of which nothing is left does not stop the others."""
    for number in range(3):
        build(tmp_path / "data" / f"orders-{number}", 20)
    for file in (tmp_path / "data" / "orders-1").glob("*.log"):
        file.write_bytes(b"rubbish")
    new = tmp_path / "new"

    assert cli.main(["salvage", str(tmp_path / "data"), str(new)]) == 1

    assert "no batch" in capsys.readouterr().err
    assert sorted(path.name for path in new.iterdir()) == ["orders-0", "orders-2"]
    with segstore.open(new / "orders-2") as log:
        assert values_of(log) == expected_values(0, 20)
