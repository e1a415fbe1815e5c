"""``topics`` and ``retain``: settings on the command line, and what retention deletes by them."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

import segstore
from segstore import cli
from segstore.cli import retain
from segstore.log.files.topics_file import WAY_OUT
from segstore.log.retention_plan import HoldingReason
from segstore.number_limits import MAX_LONG

if TYPE_CHECKING:
    from pathlib import Path

HOUR_MS = 3600 * 1000


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]):
    """Run a command; return its stdout where it succeeds, else its stderr."""

    def command(*arguments: object, code: int = 0) -> str:
        assert cli.main([*map(str, arguments)]) == code
        shown = capsys.readouterr()
        return shown.err if code else shown.out

    return command


def fill(path: Path, *ages: float) -> None:
    """Append a segment for each age, in hours; a negative one is in the future."""
    now_ms = int(time.time() * 1000)
    with segstore.open_dir(path) as logs:
        if "t" not in logs.topics():
            logs.create_topic("t")
        log = logs.log("t", 0)
        for age in ages:
            log.append([(now_ms - int(age * HOUR_MS), None, bytes(1000))])
            log.roll()


# ---- topics --------------------------------------------------------------------------------------


def test_a_topic_from_its_making_to_its_end(tmp_path: Path, run):
    """[CFG-50, MGR-63]"""
    path = tmp_path / "data"
    made = run("topics", "create", path, "t", "--partitions", 2, "--config", "retention.ms=3600000")
    assert made == "t: created, with 2 partitions\n"
    run("topics", "create", path, "u")
    assert [line.split() for line in run("topics", "list", path).splitlines()] == [
        ["TOPIC", "PARTITIONS", "POLICY"],
        ["t", "2", "delete", "1h"],
        ["u", "1", "keep"],
    ]
    assert [json.loads(line) for line in run("topics", "list", path, "--json").splitlines()][1] == {
        "topic": "u", "partitions": 1, "policy": "keep", "stray": {},
    }  # fmt: skip
    altered = run(
        "topics", "alter", path, "t", "--partitions", 3, "--config", "retention.bytes=1024",
        "--config", "cleanup.policy=compact,delete", "--delete-config", "retention.ms",
    )  # fmt: skip
    assert altered.startswith("t: 3 partitions, topic id ")
    assert "retention.ms     -               not set" in altered
    described = json.loads(run("topics", "describe", path, "t", "--json"))
    assert described["partitions"] == [0, 1, 2]
    assert {one["name"]: one["value"] for one in described["settings"]} == {
        "cleanup.policy": ["compact", "delete"], "retention.bytes": 1024, "retention.ms": None,
    }  # fmt: skip
    assert "preallocate" not in run("topics", "describe", path)
    assert "preallocate" in run("topics", "describe", path, "--all")
    assert "compact delete 1.0 KiB" in run("ls", path)
    assert run("topics", "delete", path, "t") == "t: deleted\n"
    assert [one.name for one in path.iterdir() if one.is_dir()] == ["u-0"]


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (("create", "data", "t"), 1, "topic 't' exists"),
        (("create", "data", "u", "--config", "retention.ms"), 2, "--config takes KEY=VALUE"),
        (("create", "data", "u", "--config", "retention=5"), 2, "no such setting of a topic"),
        (("create", "data", "u", "--config", "retention_ms=5"), 2, "expected retention.ms, "),
        (
            ("create", "data", "u", "--config", "retention.ms=7d"),
            2,
            f"retention.ms cannot be '7d': it must be a whole number from -1 to {MAX_LONG}",
        ),
        (
            ("create", "data", "u", "--config", "compression.lz4.level=x"),
            2,
            "it must be a whole number from 1 to 17",
        ),
        (("create", "data", "u", "--partitions", "0"), 2, "cannot have 0 partitions"),
        (
            ("alter", "data", "u"),
            2,
            "no topic 'u' here: create_topic, or `segstore topics create`, makes it",
        ),
        (("alter", "nothing", "t"), 2, "does not exist"),
        (("alter", "data", "t", "--config", "no=1"), 2, "no such setting of a topic: no"),
        (("alter", "data", "t", "--delete-config", "no"), 2, "no such setting of a topic: no"),
        (
            ("alter", "data", "t", "--config", "retention.ms=5", "--delete-config", "retention.ms"),
            2,
            "--config and --delete-config both name retention.ms",
        ),
        (("delete", "data", "u"), 2, "no topic 'u' here (found"),
        (("delete", "nothing", "t"), 2, "does not exist"),
        (("describe", "data", "u"), 2, "no topic 'u' here"),
        (("list", "nothing"), 2, "does not exist"),
    ],
)
def test_what_cannot_be_done(tmp_path: Path, run, arguments, code, text):
    """And nothing is made where no directory is."""
    fill(tmp_path / "data", 1)
    action, path, *rest = arguments
    assert text in run("topics", action, tmp_path / path, *rest, code=code)
    assert not (tmp_path / "nothing").exists()


def test_settings_that_cannot_be_read_have_no_words(tmp_path: Path, run):
    """[DUR-128] Nobody says what they are."""
    fill(tmp_path, 1)
    (tmp_path / "topics.json").write_bytes(b"?")
    assert run("topics", "list", tmp_path).split()[-1] == "?"
    assert run("ls", tmp_path).split()[-1] == "?"


# ---- retain --------------------------------------------------------------------------------------


def test_a_dry_run_says_what_goes_and_why(tmp_path: Path, run):
    """[RTN-5, RTN-12] Beside the writer; then the command deletes just that."""
    fill(tmp_path, 30, 20, 10)
    run("topics", "alter", tmp_path, "t", "--config", f"retention.ms={15 * HOUR_MS}")
    with segstore.open_dir(tmp_path) as logs:
        logs.append("t", [(None, b"v")])
        shown = run("retain", tmp_path, "--dry-run").splitlines()
    assert shown[0] == f"{tmp_path}/t-0: 2 segments, 2.1 KiB, would be deleted; policy delete 15h"
    assert shown[1].startswith("  offsets 0 to 0, 1.0 KiB, by retention.ms; latest record 20")
    assert shown[3].startswith("  the rest stays: segment 2, 1.0 KiB, latest record 20")
    assert shown[3].endswith(": it is within the limits")
    deleted = run("retain", tmp_path).splitlines()
    assert deleted[0] == f"{tmp_path}/t-0: 2 segments, 2.1 KiB, deleted; policy delete 15h"
    assert deleted[1:] == shown[1:]
    assert len([*(tmp_path / "t-0").glob("*.log*")]) == 2
    assert run("retain", tmp_path).startswith(f"{tmp_path}/t-0: nothing goes; policy delete 15h")


def test_a_time_in_the_future_keeps_all_after_it(tmp_path: Path, run):
    """[RTN-14] It is named."""
    fill(tmp_path, 30, -1, 20)
    run("topics", "alter", tmp_path, "t", "--config", "retention.ms=60000")
    assert "segment 1, 1.0 KiB, latest record" in (shown := run("retain", tmp_path, "-t", "t"))
    assert "that time is in the future, and keeps this segment and all after it" in shown


def test_a_topic_without_a_limit_loses_nothing(tmp_path: Path, run):
    """[DUR-128] Unless it is given one for this run, which it does not keep."""
    fill(tmp_path, 3000, 2000)
    assert run("retain", tmp_path) == f"{tmp_path}/t-0: nothing goes; no limit is set\n"
    given = ("-t", "t", "-p", 0, "--config", "retention.bytes=1050")
    (row,) = run("retain", tmp_path, *given, "--json", "--dry-run").splitlines()
    assert [one["limit"] for one in json.loads(row)["deleted"]] == ["retention_bytes"]
    assert json.loads(row)["holding"]["reason"] == "within_limits"
    assert "1 segment, 1.0 KiB, deleted" in run("retain", tmp_path, *given)
    with segstore.open_dir(tmp_path) as logs:
        assert logs.log("t", 0).log_start_offset == 1
        assert logs.log("t", 0).config.retention_bytes == -1


def test_settings_that_cannot_be_read_delete_nothing(tmp_path: Path, capsys):
    """[DUR-128] A limit of this run neither: the topic may be compacted, and not deleted."""
    fill(tmp_path, 30, 20)
    (tmp_path / "topics.json").write_bytes(b"?")
    for arguments in ([], ["--dry-run"], ["-t", "t", "--config", "retention.ms=1"]):
        assert cli.main(["retain", str(tmp_path), *arguments]) == 1
        printed = capsys.readouterr()
        assert printed.out == ""
        assert f"{tmp_path}/t-0: nothing goes, the topic's settings are unknown:" in printed.err
        assert "topics.json" in printed.err
    assert len([*(tmp_path / "t-0").glob("*.log")]) == 3


@pytest.mark.parametrize(
    "command", [["ls"], ["retain"], ["compact"], ["maintain", "--once"], ["topics", "list"]]
)
def test_what_to_do_about_a_damaged_topics_file_is_said_once(tmp_path: Path, command: list[str]):
    """[DUR-124] Each partition and job says that it fails, the library's log among them."""
    fill(tmp_path, 30, 20)
    with segstore.open_dir(tmp_path) as logs:
        logs.create_topic("u", 2)
    (tmp_path / "topics.json").write_bytes(b"?")
    done = subprocess.run(
        [sys.executable, "-m", "segstore", *command, tmp_path],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.stderr.count(WAY_OUT) == 1
    assert done.stderr.count("see above") == done.stderr.count("topics.json") - 1


def test_a_policy_that_does_not_delete_is_named(tmp_path: Path, run):
    """[RTN-2]"""
    fill(tmp_path, 30, -1)
    run("topics", "alter", tmp_path, "t", "--config", "cleanup.policy=compact")
    shown = run("retain", tmp_path, "-t", "t", "--config", "retention.ms=1").splitlines()
    assert shown[0].endswith("nothing goes; policy compact")
    assert shown[1].endswith(": cleanup.policy=compact deletes no segment")


def test_all_that_was_deleted_leaves_an_empty_segment(tmp_path: Path, run):
    """[RTN-27]"""
    fill(tmp_path, 30)
    shown = run("retain", tmp_path, "-t", "t", "--config", "retention.ms=1000").splitlines()
    assert shown[-1] == "  the rest stays: segment 1, which has no record"


def test_one_log_that_cannot_be_opened_keeps_no_other(tmp_path: Path, run):
    """[DUR-124]"""
    with segstore.open_dir(tmp_path, retention_ms=1) as logs:
        logs.create_topic("t", 2, config={"retention.ms": 1000})
    (tmp_path / "t-0" / f"{0:020}.log").unlink()
    (tmp_path / "t-0" / f"{0:020}.log").mkdir()
    cli.main(["retain", str(tmp_path)])
    shown = run("retain", tmp_path, code=1)
    assert shown.startswith(f"segstore: {tmp_path}/t-0: NotALogError")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("data", "--config", "retention.ms=1"), "--config goes with -t"),
        (("data", "-p", "0"), "-p goes with -t"),
        (("data", "-t", "t", "--config", "no=1", "--dry-run"), "no such setting of a topic: no"),
        (("data/t-0",), "the directory of one partition"),
        (("data", "-t", "u"), "no topic 'u' here"),
        (("data", "-t", "t", "-p", "7"), "no partition 7 of topic 't' here"),
        (("nothing",), "no such file or directory"),
    ],
)
def test_what_does_not_fit_is_wrong_usage(tmp_path: Path, run, monkeypatch, arguments, text):
    fill(tmp_path / "data", 1)
    monkeypatch.chdir(tmp_path)
    assert text in run("retain", *arguments, code=2)


def test_retain_removes_its_segments_and_no_directory_that_waits(tmp_path: Path, run):
    """[MGR-66] What others have deleted stays for its delay; no handle is left of the segments."""
    fill(tmp_path, 3, 0)
    waiting = tmp_path / f"u-0.{'0' * 32}-delete"
    waiting.mkdir()
    (waiting / f"{0:020}.log").write_bytes(b"")
    run("retain", tmp_path, "-t", "t", "--config", "retention.ms=3600000")
    assert waiting.is_dir()
    left = sorted(one.name for one in (tmp_path / "t-0").iterdir() if "0.log" in one.name)
    assert [name for name in left if name.endswith(".deleted")] == []
    assert f"{0:020}.log" not in left


@pytest.mark.parametrize("flags", [[], ["--json"]])
def test_damage_that_keeps_a_segment_is_exit_code_1(tmp_path: Path, monkeypatch, flags):
    """[DUR-131] As the help promises; the plan alone says that a segment is damaged."""
    fill(tmp_path, 3, 2, 1)
    plan_of = retain._retain

    def damaged(*given, **named):
        plan = plan_of(*given, **named)
        return plan._replace(holding=plan.holding._replace(reason=HoldingReason.DAMAGED))

    command = ["retain", str(tmp_path), "--dry-run", *flags]
    assert cli.main(command) == 0
    monkeypatch.setattr(retain, "_retain", damaged)
    assert cli.main(command) == 1


@pytest.mark.parametrize("flags", [[], ["--json"]])
def test_verify_reports_a_damaged_topics_file(tmp_path: Path, capsys, flags):
    """[DUR-97] With the exit code for damage; the partitions are checked all the same."""
    with segstore.open_dir(tmp_path) as logs:
        logs.create_topic("orders")
    file = tmp_path / "topics.json"
    assert cli.main(["verify", "-q", *flags, str(tmp_path)]) == 0
    file.write_bytes(file.read_bytes()[:-3])
    capsys.readouterr()
    assert cli.main(["verify", "-q", *flags, str(tmp_path)]) == 1
    printed = capsys.readouterr().out.splitlines()
    assert str(file) in printed[0]
    assert "move the file away" in printed[0]
    assert f"{tmp_path}/orders-0" in printed[1]
    assert cli.main(["verify", "-q", *flags, str(tmp_path / "orders-0")]) == 0
