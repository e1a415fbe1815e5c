"""Every door gives the same findings for the same directory [D15].

Random damages of directories that a broker and this library wrote: bytes, sizes, files gone, old
copies, zeros, other kinds of file. ``SEGSTORE_DAMAGES`` is how many, ``SEGSTORE_SEED`` the first
seed; a failure prints its seed.
"""

from __future__ import annotations

import json
import os
import random
import shutil
from typing import TYPE_CHECKING, Any

import pytest

import segstore
from segstore import cli
from segstore.log.check.partition_check import check_partition
from tests.kits.damaged_logs import build

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from segstore.log.findings.finding import Finding

DAMAGES = int(os.environ.get("SEGSTORE_DAMAGES", "120"))
FIRST_SEED = int(os.environ.get("SEGSTORE_SEED", "0"))
MOST_BYTES = 300_000


@pytest.fixture(scope="module")
def originals(packed: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Partitions of every kind, closed cleanly and killed."""
    place = tmp_path_factory.mktemp("originals")
    found = [build(place / "clean-0", clean=True).path, build(place / "killed-0").path]
    with segstore.open(place / "sums-0", checksum_sidecar=True, internal_segment_bytes=2000) as log:
        for _ in range(60):
            log.append([(b"k", b"v" * 50)])
    found.append(place / "sums-0")
    cases = (
        packed / "plain-many-segments",
        packed / "transactions-tv1",
        packed / "leader-epochs",
        packed / "idempotent",
        packed / "compacted",
    )
    for case in cases:
        found += [
            path
            for path in sorted((case / "data").glob("*-*"))
            if path.is_dir() and sum(file.stat().st_size for file in path.iterdir()) < MOST_BYTES
        ][:2]
    return found


def flip(path: Path, draw: random.Random) -> None:
    data = bytearray(path.read_bytes())
    for _ in range(draw.choice((1, 1, 1, 8)) if data else 0):
        data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
    path.write_bytes(data)


def cut(path: Path, draw: random.Random) -> None:
    os.truncate(path, draw.randrange(path.stat().st_size + 1))


def zeros(path: Path, draw: random.Random) -> None:
    data = bytearray(path.read_bytes())
    first = draw.randrange(len(data) + 1)
    last = min(len(data), first + draw.choice((1, 100, 4096)))
    data[first:last] = bytes(last - first)
    path.write_bytes(data)


def pad(path: Path, draw: random.Random) -> None:
    os.truncate(path, path.stat().st_size + draw.choice((1, 12, 96, 4096)))


def put_a_directory(path: Path, _: random.Random) -> None:
    path.unlink()
    path.mkdir()


def put_a_pipe(path: Path, _: random.Random) -> None:
    path.unlink()
    os.mkfifo(path)


HOW: list[Callable[[Path, random.Random], object]] = [
    flip, flip, cut, zeros, pad, lambda path, _: path.unlink(), put_a_directory, put_a_pipe,
]  # fmt: skip


def damaged(originals: list[Path], place: Path, draw: random.Random) -> Path:
    """Return a copy of one of *originals* in which one to three files are not what they were."""
    original = draw.choice(originals)
    copy = place / original.name
    shutil.copytree(original, copy, copy_function=shutil.copyfile)
    copy.chmod(0o755)
    names = sorted(path.name for path in copy.iterdir() if path.name != ".lock")
    for name in draw.sample(names, draw.choice((1, 1, 2, 3))):
        draw.choice(HOW)(copy / name, draw)
    return copy


def said(capsys: pytest.CaptureFixture[str], *command: str) -> tuple[int, dict[str, Any]]:
    code = cli.main([*command, "-q", "--json"])
    out = capsys.readouterr().out.splitlines()
    return code, json.loads(out[-1]) if out else {}


def identities(findings: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [(f["code"], f["file"], f["position"], f["first_offset"]) for f in findings]


def lost_offsets(findings: list[Finding]) -> set[int]:
    """Offsets of records that are known to be missing."""
    return {
        offset
        for finding in findings
        if finding.records == "MISSING"
        for first, last in finding.lost
        if last is not None
        for offset in range(first, last + 1)
    }


@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + DAMAGES))
def test_every_door_gives_the_same_findings(originals, tmp_path, capsys, seed):
    """[DUR-51, DUR-58] Codes, places and exit codes; what recover promises, it does."""
    path = damaged(originals, tmp_path, random.Random(seed))
    before = check_partition(str(path))
    expected = [finding.identity for finding in before.findings]

    code, verified = said(capsys, "verify", str(path))
    assert (code, identities(verified["findings"])) == (1 if expected else 0, expected)
    code, scrubbed = said(capsys, "scrub", str(path), "--rate", "0")
    assert (code, identities(scrubbed["findings"])) == (1 if expected else 0, expected)
    dry_code, foretold = said(capsys, "recover", "--dry-run", str(path))
    assert identities(foretold["findings"]) == expected
    try:
        with segstore.open(path, read_only=True) as log:
            assert [finding.identity for finding in log.verify().findings] == expected
    except segstore.SegstoreError:  # what a reader refuses, every door has named
        assert expected or before.notes
    code, _ = said(capsys, "recover", str(path))
    assert code == dry_code or (code, dry_code) == (2, 1)  # no .log: recover makes none
    if code != 2:
        after = check_partition(str(path))
        promised = {one.identity for one in before.findings if one.repaired}
        left = {one.identity for one in after.findings}
        assert promised & left == set()
        assert lost_offsets(before.findings) <= lost_offsets(after.findings) or dry_code == 1
