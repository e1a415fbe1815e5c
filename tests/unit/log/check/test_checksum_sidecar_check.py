"""What the checksum sidecars of sealed segments find, and what they do not blame [DUR-60]."""

from __future__ import annotations

import os

import pytest

from segstore.log.files.checksum_sidecar import (
    BLOCK_BYTES,
    MAX_SIDECAR_BYTES,
    sidecar_name,
)
from segstore.log.findings.finding import FindingCode
from tests.kits.damaged_logs import batches_of, flip_bit
from tests.kits.log_kit import bases
from tests.kits.sidecar_kit import EPOCH_AT, filled, log, path_of, read_only, sidecars

__all__ = ["log"]


def test_every_sealed_segment_gets_one_behind_its_roll(log):
    assert sidecars(log) == bases(log)[:-1]
    report = log.scrub()
    assert report.ok
    assert report.sidecars == report.to_dict()["sidecars"] == 3
    assert log.verify().sidecars == 3


def test_without_the_option_there_is_none(new_log):
    log = filled(new_log)
    assert sidecars(log) == []
    assert log.scrub().sidecars == 0


@pytest.mark.parametrize("reads_only", [True, False])
def test_a_changed_leader_epoch_is_found_and_its_bytes_and_offsets_named(
    log, new_log, tmp_path, reads_only
):
    """No checksum of a batch covers it, and its order does not tell which one changed."""
    base, following = bases(log)[1:3]
    file = path_of(tmp_path, log, 1)
    batch = batches_of(file)[3]
    log.close()
    flip_bit(file, batch.position + EPOCH_AT)

    report = new_log(read_only=reads_only).scrub()

    begin = batch.position // BLOCK_BYTES * BLOCK_BYTES
    assert report.sidecars == 2
    told = (
        f"bytes {begin} to {begin + BLOCK_BYTES - 1}"
        f" (offsets {base + begin // (batch.size)} to"
        f" {min(following - 1, base + (begin + BLOCK_BYTES - 1) // batch.size)})"
        " of the .log changed after it was sealed"
    )
    order, changed = report.findings
    assert order.code == FindingCode.BATCH_OUT_OF_ORDER
    assert (changed.code, changed.found) == (FindingCode.SIDECAR_DIFFERS, told)


def test_another_valid_segment_in_its_place_is_found(log, new_log, tmp_path):
    """With the same size, offsets and checksums that are right."""
    other = filled(new_log, segments=2, path=tmp_path / "other-0")
    theirs = (tmp_path / "other-0" / f"{0:020d}.log").read_bytes()
    file = path_of(tmp_path, log, 0)
    assert len(theirs) == file.stat().st_size
    other.close()
    log.close()
    file.write_bytes(theirs)

    report = read_only(new_log).scrub()

    assert len(report.problems) == 1
    assert f"bytes 0 to {len(theirs) - 1} (offsets 0 to 7)" in report.problems[0]


def test_batches_that_are_missing_at_the_end_are_found_where_offsets_may_have_gaps(
    log, new_log, tmp_path
):
    """As in a compacted log: nothing else would tell."""
    file = path_of(tmp_path, log, 1)
    last = batches_of(file)[-1]
    size = last.end
    log.close()
    os.truncate(file, last.position)

    report = read_only(new_log).scrub()

    told = [one.found for one in report.findings if one.code == FindingCode.SIDECAR_DIFFERS]
    expected = (
        f"the .log has {last.position} bytes, and had {size} when it was sealed:"
        f" records from offset {last.base_offset} to 15 are missing at its end"
    )
    assert told == [expected]


def test_bytes_behind_the_end_are_found(log, new_log, tmp_path):
    file = path_of(tmp_path, log, 1)
    size = file.stat().st_size
    log.close()
    with file.open("ab") as opened:
        opened.write(b"torn batch")

    findings = read_only(new_log).scrub().findings

    assert [one.position for one in findings] == [size, size]
    assert {one.code for one in findings} > {FindingCode.SIDECAR_DIFFERS}


def test_many_changes_are_told_in_ranges(log, new_log, tmp_path):
    file = path_of(tmp_path, log, 0)
    log.close()
    data = bytearray(file.read_bytes())
    for block in (0, 1, 3):
        data[block * BLOCK_BYTES + 20_000] ^= 1
    file.write_bytes(data)

    report = read_only(new_log).scrub()
    (told,) = [one.found for one in report.findings if one.code == FindingCode.SIDECAR_DIFFERS]

    assert f"bytes 0 to {2 * BLOCK_BYTES - 1} (" in told
    assert f"bytes {3 * BLOCK_BYTES} to {len(data) - 1} (" in told


@pytest.mark.parametrize(
    ("damage", "what"),
    [
        (lambda data: data[:-1], "bytes"),
        (lambda _: b"", "0 bytes"),
        (lambda data: data[:40] + bytes([data[40] ^ 1]) + data[41:], "checksum"),
        (lambda data: b"x" + data[1:], "magic"),
        (lambda data: data + bytes(MAX_SIDECAR_BYTES), "0 bytes"),
    ],
)
def test_a_damaged_sidecar_is_told_as_such(log, new_log, tmp_path, damage, what):
    file = path_of(tmp_path, log, 0, "segsum")
    log.close()
    file.write_bytes(damage(file.read_bytes()))

    report = read_only(new_log).scrub()

    (finding,) = report.findings
    assert finding.code == FindingCode.SIDECAR_CORRUPT
    assert what in finding.found
    assert report.sidecars == 2


def test_what_a_broker_may_have_written_is_no_damage(log, new_log, tmp_path):
    """[DUR-64] It raises the leader epoch before it writes; the next open removes all of them."""
    file = path_of(tmp_path, log, 1)
    log.close()
    flip_bit(file, batches_of(file)[3].position + EPOCH_AT)
    (tmp_path / "topic-0" / "leader-epoch-checkpoint").write_text("0\n2\n0 0\n5 20\n")

    report = read_only(new_log).scrub()
    (doubt,) = report.findings
    assert doubt.code is FindingCode.EPOCHS_WRONG
    (note,) = report.notes
    assert "another program, as a broker, may have written" in note
    assert "note: " in str(report)

    log = new_log()
    assert sidecars(log) == []
    assert [name for name in log.report.removed if name.endswith(".segsum")] == [
        sidecar_name(base) for base in bases(log)[:3]
    ]
