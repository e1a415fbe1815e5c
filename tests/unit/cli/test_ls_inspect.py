"""``ls`` and ``inspect``: what is there, read from a broker's directories and ours."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import pytest

import segstore
from segstore import cli
from segstore.cli.ls import COLUMNS

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]):
    """Run a command that must succeed; return its stdout."""

    def command(*arguments: object) -> str:
        assert cli.main([*map(str, arguments)]) == 0
        return capsys.readouterr().out

    return command


def test_ls_agrees_with_the_broker(golden: Path, check_compared, run):
    """[DUR-65] Offsets as the running broker gave them, for every partition of the clean cases."""
    compared = 0
    for case_file in golden.glob("*/case.json"):
        case = json.loads(case_file.read_text())
        if case["stop"] != "clean shutdown" or case["family"] in {"legacy", "unclean"}:
            continue
        for line in run("ls", case_file.parent / "data", "--json").splitlines():
            found = json.loads(line)
            broker = case["broker"].get(f"{found['topic']}-{found['partition']}")
            if broker is None or "log_start_offset" not in broker:
                continue
            compared += 1
            assert found["log_start_offset"] == broker["log_start_offset"], found["path"]
            assert found["log_end_offset"] == broker["high_watermark"], found["path"]
            if broker.get("max_timestamp", -1) >= 0:
                assert found["last_timestamp"] == broker["max_timestamp"], found["path"]

    check_compared(compared)


def test_ls_is_a_table(tmp_path: Path, run):
    """A line a partition, in order of topic and number."""
    for name in ("b-10", "b-9", "a-0"):
        with segstore.open(tmp_path / name, durability="none") as log:
            log.append([(1700000000000, None, b"v"), (1700000001000, None, b"v")])

    lines = [line.split() for line in run("ls", tmp_path).splitlines()]

    assert tuple(lines[0]) == COLUMNS
    assert [line[:5] for line in lines[1:]] == [
        ["a", "0", "0", "2", "2"],
        ["b", "9", "0", "2", "2"],
        ["b", "10", "0", "2", "2"],
    ]
    assert lines[1][5:9] == ["2023-11-14", "22:13:20.000Z", "2023-11-14", "22:13:21.000Z"]
    assert len(run("ls", tmp_path, "-t", "a").splitlines()) == 2


def test_ls_of_an_empty_log(tmp_path: Path, run):
    """No record, no time."""
    segstore.open(tmp_path / "a-0", durability="none").close()

    assert " ".join(run("ls", tmp_path).splitlines()[1].split()) == "a 0 0 0 0 - - 0 B 1 0 - keep"


def test_ls_writes_nothing(packed: Path, tmp_path: Path, run):
    """[DUR-71] Works on a copy without write permission, and leaves it as it was."""
    source = next(packed.glob("*/data/*-0"))
    copy = tmp_path / "data" / source.name
    shutil.copytree(source, copy)
    before = {file.name: file.stat().st_mtime_ns for file in copy.iterdir()}
    copy.chmod(0o555)
    copy.parent.chmod(0o555)
    try:
        run("ls", copy.parent)
        run("inspect", copy)
        run("verify", copy)
    finally:
        copy.parent.chmod(0o755)
        copy.chmod(0o755)

    assert {file.name: file.stat().st_mtime_ns for file in copy.iterdir()} == before


def test_ls_names_what_it_cannot_open(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """Exit code 1; the others are listed."""
    for name in ("a-0", "b-0"):
        with segstore.open(tmp_path / name, durability="none") as log:
            log.append([(None, b"v")])
    log_file = tmp_path / "a-0" / f"{0:020d}.log"
    log_file.unlink()
    log_file.symlink_to("/dev/null")

    code = cli.main(["ls", str(tmp_path)])

    out, err = capsys.readouterr()
    assert code == 1
    assert "a-0" in err
    assert out.splitlines()[1].startswith("b ")


def test_inspect_has_everything(tmp_path: Path, run):
    """Segments, indexes, codecs, checkpoints, epochs, markers."""
    path = tmp_path / "orders-0"
    with segstore.open(path, durability="none", compression_type="gzip") as log:
        log.append([(1700000000000 + n, b"k", b"v" * 100) for n in range(50)])
        log.roll()
        log.append([(1700000001000, b"k", b"v")])
    (path / f"{7:020d}.log.deleted").write_bytes(b"")

    facts = json.loads(run("inspect", path, "--json"))

    assert (facts["topic"], facts["partition"]) == ("orders", 0)
    assert (facts["log_start_offset"], facts["log_end_offset"]) == (0, 51)
    assert facts["recovery_point"] == 51
    assert facts["clean_shutdown_markers"] == [".kafka_cleanshutdown"]
    assert facts["codecs"] == {
        "gzip": {"batches": 2, "records": 51, "size_bytes": facts["size_bytes"]}
    }
    assert facts["leftovers"] == [f"{7:020d}.log.deleted"]
    assert [(s["base_offset"], s["last_offset"], s["records"]) for s in facts["segments"]] == [
        (0, 49, 50),
        (50, 50, 1),
    ]
    assert facts["segments"][0]["timeindex"] == {"size_bytes": 12, "entries": 1}
    assert facts["segments"][0]["max_timestamp"] == 1700000000049
    assert facts["size_bytes"] == sum(file.stat().st_size for file in path.glob("*.log"))


def test_inspect_agrees_with_kafkas_classes(golden: Path, check_compared, run):
    """case.json lists what Kafka's own classes found in the files."""
    compared = 0
    for case_file in golden.glob("*/case.json"):
        case = json.loads(case_file.read_text())
        if case["stop"] != "clean shutdown" or case["family"] in {"legacy", "unclean"}:
            continue
        for name, expected in case["expected_data"]["partitions"].items():
            path = case_file.parent / "data" / name
            if not path.is_dir() or name.endswith("-delete"):
                continue
            facts = json.loads(run("inspect", path, "--json"))
            compared += 1
            assert facts["log_end_offset"] == expected["log_end_offset"], path
            assert facts["leader_epochs"] == expected["leader_epochs"], path
            assert len(facts["segments"]) == len(expected["segments"]), path

    check_compared(compared)


def test_inspect_for_people(packed: Path, run):
    """The same as text: one block and a table of segments."""
    path = packed / "plain-many-segments" / "data" / "orders-0"

    text = run("inspect", path)

    assert "offsets 0 to 700" in text
    assert "batches by codec: none" in text
    assert "leader epochs: 0 from 0" in text
    assert text.splitlines()[-1].split()[0] == "615"
