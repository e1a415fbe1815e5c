"""Checksum sidecars on the command line: made by ``recover``, compared by ``verify`` [DUR-60]."""

from __future__ import annotations

import json

import pytest

from segstore import cli
from tests.kits.damaged_logs import batches_of, flip_bit

EPOCH_AT = 12


def names(partition, ending=".segsum"):
    return sorted(file.name for file in partition.iterdir() if file.name.endswith(ending))


def run(capsys, *arguments):
    code = cli.main([*map(str, arguments), "-q"])
    return code, capsys.readouterr().out


@pytest.fixture
def with_sidecars(partition, capsys):
    code, out = run(capsys, "recover", partition, "--checksum-sidecars")
    assert code == 0
    assert "checksum sidecars: 2 written, 0 were there and fit, 0 refused" in out
    return partition


def test_recover_writes_those_that_are_missing(with_sidecars, capsys):
    assert names(with_sidecars) == [f"{0:020d}.segsum", f"{20:020d}.segsum"]
    code, out = run(capsys, "recover", with_sidecars, "--checksum-sidecars", "--json")
    assert code == 0
    told = json.loads(out)["checksum_sidecars"]
    assert told == {"written": 0, "fitting": 2, "problems": []}


def test_verify_scrub_and_inspect_tell_of_them(with_sidecars, capsys):
    before = {file.name: file.read_bytes() for file in with_sidecars.iterdir()}
    for command in ("verify", "scrub"):
        code, out = run(capsys, command, with_sidecars)
        assert code == 0
        assert "2 segments compared with checksum sidecars" in out
        assert json.loads(run(capsys, command, with_sidecars, "--json")[1])["sidecars"] == 2
    facts = json.loads(run(capsys, "inspect", with_sidecars, "--json")[1])
    assert facts["checksum_sidecars"] == names(with_sidecars)
    assert not [name for name in facts["other_files"] if "segsum" in name]
    assert {file.name: file.read_bytes() for file in with_sidecars.iterdir()} == before


def test_a_change_that_no_batch_tells_of_is_explained(with_sidecars, capsys):
    """The leader epoch of the first segment's last batch: order and checksums stay right."""
    file = with_sidecars / f"{20:020d}.log"
    batch = batches_of(file)[0]
    flip_bit(file, batch.position + EPOCH_AT, 7)  # below zero: none was told, which may be

    code, out = run(capsys, "verify", with_sidecars)
    size = file.stat().st_size
    assert code == 1
    assert f"{20:020d}.log, byte 0, offset 20: " in out
    assert f"bytes 0 to {size - 1} (offsets 20 to 39)" in out
    assert "[SIDECAR_DIFFERS]" in out
    assert f"remove {20:020d}.segsum" in out
    code, out = run(capsys, "scrub", with_sidecars)
    assert code == 1
    assert "1 finding" in out

    code, out = run(capsys, "recover", with_sidecars, "--checksum-sidecars")
    assert code == 1
    assert "0 written, 1 were there and fit, 1 refused" in out
    assert "its sidecar is kept" in out
    flip_bit(file, batch.position + EPOCH_AT, 7)
    assert run(capsys, "verify", with_sidecars)[0] == 0


def test_a_damaged_sidecar_is_no_damage_of_the_log(with_sidecars, capsys):
    flip_bit(with_sidecars / f"{20:020d}.segsum", 37)
    code, out = run(capsys, "verify", with_sidecars)
    assert code == 1
    assert "[SIDECAR_CORRUPT]" in out
    assert "no record is lost" in out
    code, out = run(capsys, "recover", with_sidecars, "--checksum-sidecars")
    assert code == 0
    assert "1 written, 1 were there and fit, 0 refused" in out
    assert run(capsys, "verify", with_sidecars)[0] == 0


def test_what_a_broker_may_have_written_is_a_note(with_sidecars, capsys):
    """[DUR-64] A broker that led the log since has begun an epoch at its end."""
    flip_bit(with_sidecars / f"{20:020d}.log", EPOCH_AT, 7)
    (with_sidecars / "leader-epoch-checkpoint").write_text("0\n2\n0 0\n4 60\n")
    code, out = run(capsys, "verify", with_sidecars)
    assert code == 0
    assert "note: " in out
    assert f"the next open for writing removes {20:020d}.segsum" in out
    assert run(capsys, "scrub", with_sidecars)[0] == 0


def test_a_dry_run_writes_none(partition, capsys):
    assert cli.main(["recover", str(partition), "--dry-run", "--checksum-sidecars"]) == 2
    assert "--dry-run writes nothing" in capsys.readouterr().err
    assert names(partition) == []


def test_a_forecast_tells_which_would_be_removed(with_sidecars, capsys):
    """[DUR-58] As the open does it."""
    (with_sidecars / "leader-epoch-checkpoint").write_text("0\n1\n4 0\n")
    out = run(capsys, "recover", with_sidecars, "--dry-run")[1]
    assert f"{20:020d}.segsum" in out
    assert len(names(with_sidecars)) == 2
    run(capsys, "recover", with_sidecars)
    assert names(with_sidecars) == []
