"""``segstore scrub``: as verify, from the disk itself; nothing is written [DUR-60]."""

from __future__ import annotations

import json

import pytest

from segstore import cli


def test_a_clean_log(partition, capsys):
    before = {file.name: file.read_bytes() for file in partition.iterdir()}
    assert cli.main(["scrub", str(partition.parent), "-q"]) == 0
    out = capsys.readouterr().out
    assert "orders-0: clean; offsets 0 to 60, 3 segments, 60 batches, 60 records" in out
    assert " a second" in out
    assert {file.name: file.read_bytes() for file in partition.iterdir()} == before


def test_damage_is_named_with_exit_code_1(partition, capsys):
    file = partition / f"{20:020d}.log"
    data = bytearray(file.read_bytes())
    data[70] ^= 1
    file.write_bytes(data)

    assert cli.main(["scrub", str(partition), "--rate", "0", "-q"]) == 1
    out = capsys.readouterr().out
    assert "1 finding" in out
    assert f"{20:020d}" in out
    assert cli.main(["scrub", str(partition), "--json", "-q"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["path"] == str(partition)
    assert not found["ok"]
    assert [segment["base_offset"] for segment in found["segments"]] == [0, 20, 40]
    assert [finding["code"] for finding in found["findings"]] == ["BATCH_CORRUPT"]


@pytest.mark.parametrize("rate", ["-1", "fast", "1.5"])
def test_a_rate_is_a_number_of_mebibytes(partition, capsys, rate):
    assert cli.main(["scrub", str(partition), "--rate", rate]) == 2
    assert "--rate" in capsys.readouterr().err
