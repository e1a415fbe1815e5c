"""Zeros behind the entries of a sealed segment's index were no finding, and `recover` left them.

A broker takes the last entry of a ``.timeindex`` for the age of the segment: with time 0 its first
retention pass deleted the segment (operator case 01).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import segstore
from segstore import cli

if TYPE_CHECKING:
    from pathlib import Path

TIME = 1_700_000_000_000
BYTES = {"index": 8, "timeindex": 12}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Three segments of 20 records, closed by a broker: its marker lies in the log directory."""
    path = tmp_path / "orders-0"
    with segstore.open(path, durability="none", index_interval_bytes=200) as log:
        for number in range(60):
            if number in {20, 40}:
                log.roll()
            log.append([(TIME + number, b"key", b"value %d" % number)])
    for name in (".segstore", ".kafka_cleanshutdown", "recovery-point-offset-checkpoint"):
        (path / name).unlink()
    (tmp_path / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":1}')
    (tmp_path / "recovery-point-offset-checkpoint").write_text("0\n1\norders 0 60\n")
    return path


def pad(path: Path, base: int, kind: str) -> tuple[Path, bytes]:
    """Add 20 entries of zeros; returns the file, and what it held before."""
    file = path / f"{base:020d}.{kind}"
    before = file.read_bytes()
    file.write_bytes(before + bytes(20 * BYTES[kind]))
    return file, before


@pytest.mark.parametrize("kind", ["index", "timeindex"])
@pytest.mark.parametrize("base", [0, 20, 40])
def test_recover_trims_what_verify_names(path: Path, base: int, kind: str, capsys):
    """[DUR-80] The active segment's too, behind a clean stop: a broker trims it then."""
    file, before = pad(path, base, kind)

    assert cli.main(["verify", "-q", str(path)]) == 1
    out = capsys.readouterr().out
    assert f"{file.name}, byte {len(before)}" in out
    assert "INDEX_PADDED" in out
    assert cli.main(["recover", "-q", "--dry-run", str(path)]) == 0
    assert cli.main(["recover", "-q", str(path)]) == 0
    assert file.read_bytes()[-BYTES[kind] :].strip(b"\0") or not file.read_bytes()
    assert cli.main(["verify", "-q", str(path)]) == 0


@pytest.mark.parametrize("kind", ["index", "timeindex"])
def test_an_open_that_looks_into_the_index_trims_it(path: Path, kind: str):
    """[DUR-25] As a look-up by time does."""
    file, before = pad(path, 20, kind)
    with segstore.open(path) as log:
        assert log.offset_for_timestamp(TIME + 25) == 25
        log.read(25, 1)

    assert file.read_bytes() == before


@pytest.mark.parametrize("kind", ["index", "timeindex"])
def test_padding_after_a_crash_is_none_of_the_active_segment(path: Path, kind: str):
    """[DUR-80] Room that was allocated ahead; a sealed segment has none."""
    (path.parent / ".kafka_cleanshutdown").unlink()
    pad(path, 40, kind)
    assert cli.main(["verify", "-q", str(path)]) == 0

    pad(path, 20, kind)
    assert cli.main(["verify", "-q", str(path)]) == 1
    assert cli.main(["scrub", "-q", str(path)]) == 1


def test_a_time_index_without_its_last_entry_is_built_again(path: Path):
    """[SEG-50] A broker would take the segment for older than it is."""
    file = path / f"{20:020d}.timeindex"
    before = file.read_bytes()
    file.write_bytes(before[:-12])

    assert cli.main(["verify", "-q", str(path)]) == 1
    assert cli.main(["recover", "-q", str(path)]) == 0
    assert file.read_bytes()[-12:] == before[-12:]
