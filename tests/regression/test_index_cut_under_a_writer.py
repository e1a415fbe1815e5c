"""Another process cut the index of a live writer, and SIGBUS ended the writer at its next append.

[DUR-25, DUR-27] The indexes of a writer are in memory and are written to their files, as a reader's
were in memory already. What else of the kind was looked for: both indexes, a cut before appends,
look-ups, a truncation, a roll and a close; files that are removed or overwritten; sealed segments;
Kafka's profile. The records stay, and the files are right after the close.
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

import segstore
from segstore.errors import IllegalArgumentError
from tests.kits.log_kit import TIME

if TYPE_CHECKING:
    from pathlib import Path

FIRST = "0" * 20
KINDS = ("index", "timeindex")
VALUE = b"x" * 3000


def fill(log: segstore.UnifiedLog, begin: int, end: int) -> None:
    for number in range(begin, end):
        log.append([(TIME + number, None, VALUE)])


def check(log: segstore.UnifiedLog, end: int) -> None:
    assert [record.offset for record in log.read(0)] == list(range(end))
    assert [log.offset_for_timestamp(TIME + number) for number in range(end)] == list(range(end))


def cut(file: Path) -> None:
    os.truncate(file, 0)


def overwrite(file: Path) -> None:
    file.write_bytes(b"\xff" * 100)


@pytest.fixture(params=["safe", "kafka"])
def profile(request):
    return request.param


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("harm", [cut, overwrite, os.unlink])
def test_the_writer_goes_on(tmp_path, profile, kind, harm):
    """Appends, look-ups and a truncation behind it; then a close, and an open that reads all."""
    path = tmp_path / "topic-0"
    with segstore.open(path, durability="none", recovery=profile, index_mode="heap") as log:
        fill(log, 0, 200)
        harm(path / f"{FIRST}.{kind}")
        check(log, 200)
        fill(log, 200, 400)
        log.truncate_to(300)
        check(log, 300)
        fill(log, 300, 310)
    with segstore.open(path, durability="none") as log:
        check(log, 310)


@pytest.mark.parametrize("kind", KINDS)
def test_the_files_are_right_after_the_close(tmp_path, kind):
    """[DUR-52] the bytes are those of a log whose files nobody touched."""
    written = []
    for harmed in (False, True):
        path = tmp_path / f"topic-{harmed:d}"
        with segstore.open(path, durability="none") as log:
            fill(log, 0, 200)
            if harmed:
                cut(path / f"{FIRST}.{kind}")
            fill(log, 200, 400)
        written.append((path / f"{FIRST}.{kind}").read_bytes())
    assert written[0] == written[1]
    assert len(written[0]) > 1000


def test_behind_a_roll(tmp_path):
    """The index of a sealed segment is cut before it is synced, and before it is asked."""
    path = tmp_path / "topic-0"
    with segstore.open(path, durability="none", internal_segment_bytes=300_000) as log:
        fill(log, 0, 150)
        for kind in KINDS:
            cut(path / f"{FIRST}.{kind}")
        check(log, 150)
        log.flush()
    with segstore.open(path) as log:
        check(log, 150)


def test_another_process_reads_beside_the_writer(tmp_path):
    """[DUR-53, DUR-76] entries reach the file in pieces; a reader without the last ones scans."""
    path = tmp_path / "topic-0"
    script = (
        "import segstore, sys\n"
        "with segstore.open(sys.argv[1], read_only=True) as log:\n"
        "    print([log.offset_for_timestamp(int(t)) for t in sys.argv[2:]])\n"
    )
    with segstore.open(path, durability="none") as log:
        fill(log, 0, 400)
        assert 0 < (path / f"{FIRST}.index").stat().st_size < 8 * 400
        asked = (0, 199, 399)
        times = [str(TIME + number) for number in asked]
        command = [sys.executable, "-c", script, str(path), *times]
        found = subprocess.run(command, capture_output=True, text=True, check=True)
        assert found.stdout.strip() == str(list(asked))


@pytest.mark.parametrize("mode", ["heap", None])
def test_kafkas_profile_keeps_kafkas_sizes(tmp_path, mode):
    """[IDX-2, DUR-62] preallocated while it is active, trimmed by the close."""
    path = tmp_path / "topic-0"
    settings = {"recovery": "kafka", "index_mode": mode, "segment_index_bytes": 4096}
    with segstore.open(path, durability="none", **settings) as log:
        fill(log, 0, 20)
        sizes = [(path / f"{FIRST}.{kind}").stat().st_size for kind in KINDS]
        assert sizes == [4096, 4092]
    entries = [(path / f"{FIRST}.{kind}").stat().st_size for kind in KINDS]
    assert 0 < entries[0] < 200
    assert entries[0] % 8 == 0


@pytest.mark.parametrize("mode", ["heap", "mmap"])
def test_both_modes_write_the_same_files(tmp_path, mode):
    """[DUR-25] the mode is one of the handle alone."""
    path = tmp_path / "topic-0"
    for other in ("mmap", mode):
        with segstore.open(path, durability="none", index_mode=other) as log:
            begin = log.log_end_offset
            fill(log, begin, begin + 50)
            check(log, begin + 50)
    with segstore.open(tmp_path / "other-0", durability="none") as log:
        fill(log, 0, 50)
    with segstore.open(tmp_path / "other-0", durability="none") as log:
        fill(log, 50, 100)
    for kind in KINDS:
        name = f"{FIRST}.{kind}"
        assert (path / name).read_bytes() == (tmp_path / "other-0" / name).read_bytes()


def test_a_mode_that_does_not_exist(tmp_path):
    """Both names are said."""
    with pytest.raises(IllegalArgumentError, match="'heap' or 'mmap'"):
        segstore.open(tmp_path / "topic-0", index_mode="map")


@pytest.mark.parametrize("to", [0, 1, 7])
@pytest.mark.parametrize("mode", ["heap", "mmap"])
@pytest.mark.parametrize("recovery", ["safe", "kafka"])
def test_what_was_cut_off_is_no_entry(tmp_path, recovery, mode, to):
    """[DUR-53] Kafka's files have room for more entries, and what was cut off lies in it."""
    settings = {"recovery": recovery, "index_mode": mode, "durability": "none"}
    with segstore.open(tmp_path / "topic-0", index_interval_bytes=0, **settings) as log:
        fill(log, 0, 20)
        log.truncate_to(to)
        assert log.verify().problems == []
        fill(log, to, 9)
        assert log.verify().problems == []
