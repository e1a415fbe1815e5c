"""A whole batch behind the records of a sealed segment was cut, without a word, as if it were none.

It repeats offsets that the segment has: nobody put it there on purpose, and nobody said so.
"""

from __future__ import annotations

from contextlib import closing

import pytest

import segstore
from segstore.errors import CorruptLogError
from tests.kits.cli_process import run_segstore
from tests.kits.log_kit import values

RECORDS = [b"%d" % number for number in range(4)]


@pytest.fixture
def path(tmp_path):
    """Two segments; behind the first one its last batch stands a second time."""
    path = tmp_path / "orders-0"
    with segstore.open(path) as log:
        for number, value in enumerate(RECORDS):
            log.append([(None, value)])
            if number == 1:
                log.roll()
    file = path / f"{0:020d}.log"
    content = file.read_bytes()
    file.write_bytes(content + content[len(content) // 2 :])
    return path


def test_an_open_refuses_it_and_changes_nothing(path):
    """[DUR-51, DUR-54, DUR-58]"""
    before = (path / f"{0:020d}.log").read_bytes()
    for _ in range(2):
        with pytest.raises(CorruptLogError, match="end"):
            segstore.open(path)
        assert (path / f"{0:020d}.log").read_bytes() == before
    with closing(segstore.open(path, read_only=True)) as reader:
        assert values(reader.read(0, 1)) == RECORDS[:1]


def test_verify_calls_it_no_zeros(path):
    """[DUR-58]"""
    done = run_segstore("verify", path)

    assert done.returncode == 1
    assert "nothing but zeros" not in done.stdout.decode()
    assert "0000.log" in done.stdout.decode()


def test_a_salvage_keeps_every_record(path, tmp_path):
    """[DUR-59]"""
    segstore.salvage(path, tmp_path / "copy-0")

    with segstore.open(tmp_path / "copy-0") as log:
        assert values(log) == RECORDS
