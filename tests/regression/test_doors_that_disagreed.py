"""Two doors said different things of a directory, or `recover` broke what it had promised.

Found by tests/fuzz/test_doors_agree.py.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import struct
from typing import TYPE_CHECKING, Any

import pytest

import segstore
from segstore import cli
from segstore.log.check.partition_check import check_partition
from tests.kits.damaged_logs import batches_of, build, flip_bit

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def data(packed: Path, tmp_path: Path) -> Path:
    """A broker's log directory with one partition, closed cleanly."""
    copy = tmp_path / "data"
    source = packed / "plain-many-segments" / "data"
    shutil.copytree(source, copy, copy_function=shutil.copyfile)
    for path in [copy, *copy.rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)
    for path in sorted(copy.glob("*-*/"))[1:]:
        shutil.rmtree(path)
    return copy


def said(capsys: pytest.CaptureFixture[str], *command: str) -> tuple[int, Any]:
    code = cli.main([*command, "--json"])
    out = capsys.readouterr().out
    return code, json.loads(out) if out else None


def test_recover_keeps_the_index_of_a_segment_that_it_cannot_build_again(data):
    """[DUR-8, DUR-51] It removed the index, and from then on every open refused the log."""
    path = next(data.glob("*-*/"))
    log, index = sorted(path.glob("*.log"))[1], sorted(path.glob("*.index"))[1]
    flip_bit(log, batches_of(log)[1].position + 80)
    index.write_bytes(index.read_bytes() + b"\xff")

    codes = {one.code: one.repaired for one in check_partition(str(path)).findings}
    assert codes == {"BATCH_CORRUPT": False, "INDEX_CORRUPT": False}
    assert cli.main(["recover", "-q", str(path)]) == 1
    assert index.exists()
    with segstore.open(path):
        pass


@pytest.mark.parametrize("name", ["recovery-point", "log-start"])
def test_recover_writes_a_broken_checkpoint_of_the_log_directory_again(data, name):
    """[DUR-21, DUR-65] The dry run said so; it was left as it was, and the next check found it."""
    (data / f"{name}-offset-checkpoint").write_bytes(b"0\n1\norders 0 7\0\0")

    found = check_partition(str(next(data.glob("*-*/")))).findings
    assert [(one.file, one.repaired) for one in found] == [(f"../{name}-offset-checkpoint", True)]
    assert cli.main(["recover", "-q", str(data)]) == 0
    assert cli.main(["verify", "-q", str(data)]) == 0


def test_a_log_whose_first_record_cannot_be_read_is_listed(tmp_path, capsys):
    """[DUR-51] `ls` left it out, and `inspect` said nothing."""
    directory = build(tmp_path / "a-0", clean=True)
    directory.file(0).write_bytes(b"?" * 70)

    code, line = said(capsys, "ls", str(directory.path))
    assert (code, line["log_end_offset"], bool(line["damage"])) == (1, 60, True)
    code, facts = said(capsys, "inspect", "-q", str(directory.path))
    assert (code, bool(facts["damage"])) == (1, True)


def test_a_socket_in_the_place_of_a_snapshot_costs_no_read(tmp_path, capsys):
    """[DUR-8] The last stable offset could not be asked for."""
    path = build(tmp_path / "a-0", clean=True).path
    snapshot = max(path.glob("*.snapshot"))
    snapshot.unlink()
    folder = os.open(path, os.O_RDONLY)  # the path of a socket is short
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"/proc/self/fd/{folder}/{snapshot.name}")
    os.close(folder)

    with segstore.open(path, read_only=True) as log:
        assert log.last_stable_offset == 60
    code, line = said(capsys, "ls", str(path))
    assert (code, line["last_stable_offset"]) == (0, 60)


def test_scrub_and_verify_find_the_same_in_a_time_index(tmp_path, capsys):
    """[DUR-60] A scrub knew the latest time of its last window of bytes only."""
    path = tmp_path / "a-0"
    with segstore.open(path, durability="none") as log:
        log.append([(1_750_000_000_000, None, b"latest")])
        for number in range(2000):
            log.append([(1_700_000_000_000 + number, None, b"v")])
        log.roll()
        log.append([(None, b"last")])
    os.truncate(path / f"{0:020d}.timeindex", 0)

    _, verified = said(capsys, "verify", "-q", str(path))
    _, scrubbed = said(capsys, "scrub", "-q", "--rate", "0", str(path))
    assert verified["findings"]
    assert scrubbed["findings"] == verified["findings"]


def test_a_salvage_after_recover_names_the_records_that_the_cut_began_with(tmp_path):
    """[DUR-59, DUR-62] Only the whole batches in quarantine were reported as lost."""
    directory = build(tmp_path / "a-0")
    base = directory.bases[1]
    flip_bit(directory.file(base), batches_of(directory.file(base))[2].position + 70)
    (before,) = segstore.salvage(directory.path, tmp_path / "before" / "a-0").lost
    assert (before.first_offset, before.next_offset) == (base + 2, base + 3)

    directory.open().close()
    after = segstore.salvage(directory.path, tmp_path / "after" / "a-0").lost

    assert min(one.first_offset for one in after) == base + 2
    assert max(one.next_offset or 0 for one in after) == 60


def test_what_stands_in_the_place_of_a_log_file_has_lost_its_offsets(tmp_path):
    """[DUR-51, DUR-99] `lost` was empty, and a salvage lost all records to the end."""
    directory = build(tmp_path / "a-0", clean=True)
    first, following = directory.bases[1:3]
    directory.file(first).unlink()
    directory.file(first).mkdir()

    (found,) = [
        one for one in check_partition(str(directory.path)).findings if one.file.endswith(".log")
    ]
    assert found.lost == ((first, following - 1),)
    lost = segstore.salvage(directory.path, tmp_path / "new" / "a-0").lost
    assert {(one.first_offset, one.next_offset) for one in lost} == {(first, following)}


def test_the_file_of_another_segment_under_a_name_is_no_harmless_overlap(tmp_path):
    """[DUR-54] "No record is lost" was said of a segment of which every record is lost."""
    path = tmp_path / "a-0"
    with segstore.open(path, internal_segment_bytes=2000) as log:
        for _ in range(60):
            log.append([(b"k", b"v" * 50)])
    first, second, third = sorted(path.glob("*.log"))[:3]
    shutil.copyfile(third, first)

    found = check_partition(str(path)).findings
    assert [one.lost for one in found if one.code == "SEGMENTS_OVERLAP"] == [
        ((0, int(second.stem) - 1),)
    ]


def test_a_directory_in_the_place_of_the_log_directory_s_marker_is_a_finding(data):
    """[DUR-99] The dry run promised a repair, and `recover` ended with exit code 2."""
    marker = data / ".kafka_cleanshutdown"
    marker.unlink()
    marker.mkdir()
    path = str(next(data.glob("*-*/")))

    (found,) = check_partition(path).findings
    assert (found.code, found.file) == ("FILE_IS_NO_FILE", "../.kafka_cleanshutdown")
    assert cli.main(["recover", "-q", "--dry-run", path]) == 1
    assert cli.main(["recover", "-q", path]) == 1


def test_records_that_may_be_missing_are_ranges(tmp_path):
    """[DUR-7, DUR-21] Only the sentence named them."""
    directory = build(tmp_path / "a-0")
    directory.file(0).unlink()
    checkpoint = directory.path / "leader-epoch-checkpoint"
    checkpoint.write_bytes(checkpoint.read_bytes() + bytes(12))

    found = check_partition(str(directory.path)).findings

    (lost,) = [one.lost for one in found if one.code == "RECORDS_MAYBE_MISSING"]
    assert lost == ((0, directory.bases[0] - 1),)


def test_an_end_that_had_not_been_synced_may_be_lost(tmp_path):
    """[DUR-54, DUR-59] A salvage called it lost; verify, and a salvage after `recover`, did not."""
    directory = build(tmp_path / "a-0")
    base = directory.bases[-1]
    last = batches_of(directory.file(base))[-1].position
    for name in ("recovery-point-offset-checkpoint", ".kafka_cleanshutdown"):
        (directory.path / name).unlink(missing_ok=True)
    os.truncate(directory.file(base), last)
    (directory.path / f"{60:020d}.snapshot").write_bytes(b"")

    report = segstore.salvage(directory.path, tmp_path / "new" / "a-0")

    assert (report.complete, report.lost, report.log_end_offset) == (True, [], 60)
    assert report.maybe_lost == [(59, 60)]


def test_a_recovery_point_where_records_are_missing_is_no_obstacle(tmp_path):
    """[DUR-7] The open for writing was refused halfway: it read where the recovery point stands."""
    directory = build(tmp_path / "a-0")
    base, following = directory.bases[1:3]
    (directory.path / ".segstore").unlink()  # as a broker leaves it
    directory.file(base).write_bytes(b"")
    directory.set_recovery_point(base)

    with segstore.open(directory.path) as log:
        assert [(one.first_offset, one.next_offset) for one in log.missing_records()] == [
            (base, following)
        ]
        log.append([(None, b"next")])
    assert cli.main(["recover", "-q", str(directory.path)]) == 1


def test_damage_in_a_segment_that_was_deleted_is_no_finding(tmp_path):
    """[DUR-18] `verify` asked for a copy of records below the log start; `recover` deletes them."""
    directory = build(tmp_path / "a-0", clean=True)
    with segstore.open(directory.path) as log:
        start = directory.bases[2]
        log.delete_records(start)
    kept = {file.name: file.read_bytes() for file in directory.path.iterdir()}
    copy = build(tmp_path / "b" / "a-0", clean=True)
    for name in {file.name for file in copy.path.iterdir()} - kept.keys():
        (directory.path / name).write_bytes((copy.path / name).read_bytes())
    damaged = directory.file(directory.bases[0])
    os.truncate(damaged, damaged.stat().st_size - 1)

    assert check_partition(str(directory.path)).findings == []
    assert cli.main(["recover", "-q", "--dry-run", str(directory.path)]) == 0


def test_a_refusal_because_of_the_producers_is_foretold(tmp_path, capsys):
    """[DUR-8] The dry run called the log clean; `recover` was refused, and had repaired nothing."""
    directory = build(tmp_path / "a-0", clean=True)
    base = directory.bases[-1]
    flip_bit(directory.file(base), batches_of(directory.file(base))[1].position + 70)
    for snapshot in directory.path.glob("*.snapshot"):
        snapshot.unlink()

    code, foretold = said(capsys, "recover", "-q", "--dry-run", str(directory.path))
    assert (code, {one["repaired"] for one in foretold["findings"]}) == (1, {False})
    code, done = said(capsys, "recover", "-q", str(directory.path))
    assert (code, "CorruptLogError" in done["error"]) == (1, True)


def test_recover_keeps_what_an_index_says_of_missing_records(data):
    """[DUR-7] It made the index again that alone named them, and then found nothing missing."""
    path = next(data.glob("*-*/"))
    (data / ".kafka_cleanshutdown").unlink()
    first, gone = sorted(path.glob("*.log"))[:2]
    entry = struct.pack(">ii", int(gone.stem) - int(first.stem) + 1, 1)
    first.with_suffix(".index").write_bytes(entry)
    for name in path.glob(f"{gone.stem}.*"):
        name.unlink()
    missing = [one.lost for one in check_partition(str(path)).findings if one.lost]
    assert missing
    assert cli.main(["recover", "-q", str(path)]) == 1
    assert [one.lost for one in check_partition(str(path)).findings if one.lost] == missing
