"""``segstore verify`` and ``recover --dry-run``: what is found, and how it is explained."""

from __future__ import annotations

import json
import os
import struct
from typing import TYPE_CHECKING

import pytest

import segstore
from segstore import _core, cli
from segstore.log.check.partition_check import check_partition
from segstore.log.findings.finding import Action, FindingCode, Records

if TYPE_CHECKING:
    from pathlib import Path

BASES = [0, 20, 40]


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    """Three segments of 20 records in batches of one, closed cleanly."""
    path = tmp_path / "orders-0"
    with segstore.open(path, durability="none", index_interval_bytes=200) as log:
        for number in range(60):
            if number in BASES[1:]:
                log.roll()
            log.append([(1700000000000 + number, b"key", b"value %d" % number)])
    return path


def name(base: int, suffix: str) -> str:
    return f"{base:020d}.{suffix}"


def change(path: Path, position: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(position, os.SEEK_END if position < 0 else os.SEEK_SET)
        file.write(data)


def snapshot(directory: Path) -> dict[str, tuple[int, bytes]]:
    return {file.name: (file.stat().st_mtime_ns, file.read_bytes()) for file in directory.iterdir()}


def findings(path: Path) -> list[tuple[str, int | None, int | None]]:
    return [
        (found.file, found.position, found.first_offset)
        for found in check_partition(str(path)).findings
    ]


def test_a_clean_log_has_no_findings(partition: Path, capsys: pytest.CaptureFixture[str]):
    """[DUR-71] Exit code 0, and not a byte, name or time is changed."""
    before = snapshot(partition)

    assert cli.main(["verify", str(partition)]) == 0

    assert "clean; offsets 0 to 60, 3 segments, 60 batches, 60 records" in capsys.readouterr().out
    assert snapshot(partition) == before


def test_golden_logs_of_a_clean_stop_have_no_findings(golden: Path, check_compared):
    """[DUR-50, DUR-53] Every partition that a broker closed; the damaged case is another test."""
    wrong = {}
    checked = 0
    for case_file in golden.glob("*/case.json"):
        case = json.loads(case_file.read_text())
        if case["stop"] != "clean shutdown" or case["family"] in {"legacy", "unclean"}:
            continue
        for path in (case_file.parent / "data").iterdir():
            if path.is_dir():
                check = check_partition(str(path))
                checked += 1
                if check.findings:
                    wrong[str(path.relative_to(golden))] = check.problems

    assert wrong == {}
    check_compared(checked)


def test_a_flipped_bit_in_what_was_safe_is_damage(
    partition: Path, capsys: pytest.CaptureFixture[str]
):
    """[DUR-51] Named by file, byte and offset; the later segments are still checked."""
    log = partition / name(20, "log")
    position = log.stat().st_size // 2
    change(log, position + 70, b"\xff")

    assert cli.main(["verify", str(partition)]) == 1

    out = capsys.readouterr().out
    check = check_partition(str(partition))
    (found,) = check.findings
    assert found.file == name(20, "log")
    assert found.position is not None
    assert 20 < (found.first_offset or 0) < 40
    assert (found.code, found.records, found.action) == (
        FindingCode.BATCH_CORRUPT,
        Records.UNREADABLE,
        Action.RESTORE,
    )
    assert found.lost == ((found.first_offset, found.last_offset),)
    assert "CRC" in (found.expected or "")
    assert f"{found.file}, byte {found.position}, offset {found.first_offset}" in out
    assert len(check.segments) == 3
    assert check.log_end_offset == 60


def test_a_torn_tail_is_no_loss(partition: Path):
    """[DUR-50] Behind the recovery point: what had been synced is all there."""
    log = partition / name(40, "log")
    size = log.stat().st_size
    with log.open("ab") as file:
        file.write(b"\x00" * 7 + b"\x3c" + b"\x00\x00\x00\x60" + b"torn")

    check = check_partition(str(partition))

    (found,) = check.findings
    assert (found.file, found.position, found.first_offset) == (log.name, size, 60)
    assert (found.code, found.records) == (FindingCode.BATCH_INCOMPLETE, Records.MAYBE_MISSING)
    assert (found.lost, found.repaired) == (((60, None),), True)


def test_a_missing_end_shows_in_the_checkpoint(partition: Path):
    """[DUR-51] The log is good as far as it goes, but it was longer."""
    end = check_partition(partition).log_end_offset
    log = partition / name(40, "log")
    os.truncate(log, log.stat().st_size - 5)

    lost = {one.file: one.lost for one in check_partition(partition).findings}

    assert lost == {name(40, "log"): ((end - 1, end - 1),)}


@pytest.mark.parametrize("suffix", ["index", "timeindex"])
def test_a_missing_index_is_found(partition: Path, suffix: str):
    """[DUR-8] A derived file."""
    (partition / name(20, suffix)).unlink()

    assert findings(partition) == [(name(20, suffix), None, None)]


@pytest.mark.parametrize(
    ("suffix", "entry_bytes"), [("index", 8), ("timeindex", 12)], ids=["index", "timeindex"]
)
def test_an_index_entry_that_falls_is_found(partition: Path, suffix: str, entry_bytes: int):
    """[DUR-53] Entries must increase; the finding names the entry's byte."""
    index = partition / name(20, suffix)
    data = index.read_bytes()
    entries = [data[i : i + entry_bytes] for i in range(0, len(data), entry_bytes)]
    assert len(entries) > 2
    entries[1], entries[2] = entries[2], entries[1]
    index.write_bytes(b"".join(entries))

    ((file, position, _),) = findings(partition)
    assert (file, position) == (index.name, 2 * entry_bytes)


def test_an_entry_that_points_between_batches_is_found(partition: Path):
    """[DUR-53] One byte off."""
    index = partition / name(0, "index")
    position = int.from_bytes(index.read_bytes()[4:8])
    change(index, 4, (position + 1).to_bytes(4))

    assert findings(partition)[0][:2] == (index.name, 0)


@pytest.mark.parametrize("shift", [-1000, 1000])
def test_a_time_that_no_batch_has_is_found(partition: Path, shift: int):
    """[format.md 13.3] Everything up to the entry's offset is at most as late as it says."""
    index = partition / name(40, "timeindex")
    last = int.from_bytes(index.read_bytes()[-12:-4])
    change(index, -12, (last + shift).to_bytes(8))

    assert [file for file, _, _ in findings(partition)] == [index.name]


def test_an_emptied_time_index_of_a_sealed_segment_is_found(partition: Path):
    """[format.md 13.4] Its last entry was written when the segment was rolled."""
    (partition / name(0, "timeindex")).write_bytes(b"")
    (partition / name(40, "index")).write_bytes(b"")

    assert [file for file, _, _ in findings(partition)] == [name(0, "timeindex")]


def test_a_preallocated_index_is_no_finding(partition: Path):
    """[DUR-25, DUR-80] A crash leaves zeros behind the last entry of the active segment."""
    with (partition / name(40, "index")).open("ab") as file:
        file.write(bytes(800))
    with (partition / name(40, "timeindex")).open("ab") as file:
        file.write(bytes(1200))

    assert findings(partition) == []


@pytest.mark.parametrize(
    "file",
    ["leader-epoch-checkpoint", "recovery-point-offset-checkpoint", "partition.metadata"],
)
def test_an_unreadable_small_file_is_found(partition: Path, file: str):
    """[DUR-21] What it said counts as missing."""
    (partition / file).write_text("what is this\n")

    assert file in [found for found, _, _ in findings(partition)]


def test_a_snapshot_with_a_wrong_crc_is_found(partition: Path):
    """[format.md 14] Derived, so no record is concerned."""
    (partition / name(60, "snapshot")).write_bytes(bytes.fromhex("00010000000000000000"))

    assert findings(partition) == [(name(60, "snapshot"), 2, None)]


def test_leftovers_are_notes(partition: Path):
    """[DUR-55] A clean check can have notes."""
    (partition / f"{name(0, 'log')}.deleted").write_bytes(b"x")

    check = check_partition(str(partition))

    assert check.findings == []
    assert check.notes == [f"{name(0, 'log')}.deleted: left by an interrupted operation"]
    for number in range(1, 60):
        (partition / f"{name(number, 'log')}.deleted").write_bytes(b"x")

    check = check_partition(str(partition))

    left = f"{name(0, 'log')}.deleted and 59 more"
    assert check.notes == [f"{left}: left by an interrupted operation"]
    assert f"removed: {left}" in str(check.repair).splitlines()


def test_json_has_everything(partition: Path, capsys: pytest.CaptureFixture[str]):
    """One object a partition; a log directory is all its partitions."""
    (partition / name(0, "index")).unlink()

    assert cli.main(["verify", str(partition.parent), "--json"]) == 1

    (line,) = capsys.readouterr().out.splitlines()
    facts = json.loads(line)
    assert facts["path"].endswith("orders-0")
    assert facts["records"] == 60
    assert facts["findings"][0]["file"] == name(0, "index")


def test_dry_run_says_what_recover_would_meet(partition: Path, capsys: pytest.CaptureFixture[str]):
    """Nothing is written; 1 when there is something to repair."""
    assert cli.main(["recover", "--dry-run", str(partition)]) == 0
    assert "nothing to repair" in capsys.readouterr().out
    with (partition / name(40, "log")).open("ab") as file:
        file.write(b"torn")
    before = snapshot(partition)

    assert cli.main(["recover", "--dry-run", str(partition)]) == 1

    assert "[BATCH_INCOMPLETE]" in capsys.readouterr().out
    assert snapshot(partition) == before


def test_recover_repairs_and_tells(partition: Path, capsys: pytest.CaptureFixture[str]):
    """[DUR-58] 1 when bytes were cut; afterwards everything is clean."""
    with (partition / name(40, "log")).open("ab") as file:
        file.write(b"torn")
    (partition / name(0, "index")).unlink()

    assert cli.main(["recover", str(partition)]) == 1

    assert "cut 4 bytes from offset 60 on" in capsys.readouterr().out
    assert findings(partition) == []
    assert cli.main(["recover", str(partition)]) == 0
    with segstore.open(partition, read_only=True) as log:
        assert [record.value for record in log] == [b"value %d" % number for number in range(60)]


def test_recover_json_is_the_report(partition: Path, capsys: pytest.CaptureFixture[str]):
    """The fields of ``RecoveryReport``."""
    assert cli.main(["recover", "--json", str(partition)]) == 0

    report = json.loads(capsys.readouterr().out)
    assert report["path"] == str(partition)
    assert report["clean"] is True
    assert report["log_end_offset"] == 60


def test_recover_makes_no_log_where_none_is(tmp_path: Path):
    """Opening for writing would create it."""
    assert cli.main(["recover", str(tmp_path / "orders-0")]) == 2
    assert cli.main(["recover", str(tmp_path)]) == 2
    assert list(tmp_path.iterdir()) == []


def test_records_of_old_logs_are_counted(golden_of, capsys):
    """[format.md 7] A compressed message set of magic 0 or 1 is opened for it."""
    path = golden_of("message sets")[0].directory
    with segstore.open(path, read_only=True) as log:
        records, batches = len(list(log)), len(list(log.scan().batches()))

    cli.main(["verify", "-q", str(path)])
    assert f"{batches} batches, {records} records" in capsys.readouterr().out
    assert cli.main(["inspect", "-q", str(path), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)

    assert (facts["records"], facts["batches"], facts["uncounted_batches"]) == (records, batches, 0)
    assert sum(codec["records"] for codec in facts["codecs"].values()) == records
    assert sum(segment["records"] for segment in facts["segments"]) == records


def test_a_count_that_no_batch_holds_is_a_finding(tmp_path, capsys):
    """[DUR-87] 64 bytes whose header claims 2^31 - 1 records in no bytes."""
    claim = 2**31 - 1
    body = struct.pack(">hiqqqhii", 0, claim - 1, 0, 0, -1, -1, -1, claim) + b"abc"
    head = struct.pack(">qiibI", 0, len(body) + 9, 0, 2, _core.crc32c(body))
    (tmp_path / "a-0").mkdir()
    (tmp_path / "a-0" / f"{0:020d}.log").write_bytes(head + body)

    assert cli.main(["verify", "-q", str(tmp_path / "a-0")]) == 1
    said = capsys.readouterr().out
    assert "1 batch, 0 records" in said
    assert "byte 0, offset 0: " in said
    assert "cannot be read" in said
    assert cli.main(["inspect", "-q", str(tmp_path / "a-0")]) == 1  # its only batch cannot be read
    said = capsys.readouterr().out
    assert "records: 0 in 1 batch" in said
    assert "not counted: 1 batch, cannot be decoded" in said
