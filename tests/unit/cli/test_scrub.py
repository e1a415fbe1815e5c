"""``segstore scrub``: the sealed segments, from the disk; nothing is written [DUR-60]."""

from __future__ import annotations

import json

import pytest

from segstore import cli


def test_a_clean_log(partition, capsys):
    before = {file.name: file.read_bytes() for file in partition.iterdir()}
    assert cli.main(["scrub", str(partition.parent), "-q"]) == 0
    assert "orders-0: clean; 2 sealed segments, 40 batches, 40 records" in capsys.readouterr().out
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
    assert "segstore verify" in out
    assert cli.main(["scrub", str(partition), "--json", "-q"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["path"] == str(partition)
    assert not found["ok"]
    assert [segment["base_offset"] for segment in found["segments"]] == [0, 20]
    assert len(found["problems"]) == 1


@pytest.mark.parametrize("rate", ["-1", "fast", "1.5"])
def test_a_rate_is_a_number_of_mebibytes(partition, capsys, rate):
    assert cli.main(["scrub", str(partition), "--rate", rate]) == 2
    assert "--rate" in capsys.readouterr().err
