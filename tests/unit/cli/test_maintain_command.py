"""``segstore maintain``: a directory that no program has open; a line for each deletion."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

import segstore
from segstore import cli
from segstore.cli import maintain
from segstore.log.files.topics_file import TOPICS_FILE

if TYPE_CHECKING:
    from pathlib import Path

DAY = 86_400_000
OLD_MS = 1_700_000_000_000
OLD = "2023-11-14 22:13:20.000Z"


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A topic that is kept for a day, of which two segments are older."""
    path = tmp_path / "logs"
    now = time.time_ns() // 1_000_000
    with segstore.open_dir(path, durability="none", internal_segment_bytes=300) as logs:
        logs.create_topic("old", config={"retention.ms": DAY})
        logs.create_topic("kept")
        for topic in ("old", "kept"):
            for _ in range(6):
                logs.log(topic, 0).append([(OLD_MS, None, b"x" * 30)])
            logs.log(topic, 0).append([(now, None, b"x" * 30)])
    return path


def test_one_pass_says_what_it_deletes(directory: Path, capsys):
    """[RTN-12] Which limit, size, offsets and latest record."""
    assert cli.main(["maintain", str(directory), "--once"]) == 0
    printed = capsys.readouterr()
    assert printed.out.splitlines() == [
        f"old-0: deleted offsets 0 to 2, 294 B, by retention.ms; latest record {OLD}",
        f"old-0: deleted offsets 3 to 5, 294 B, by retention.ms; latest record {OLD}",
        "2 segments deleted, 588 B",
    ]
    assert printed.err == ""
    assert not [*(directory / "old-0").glob("*.deleted")]
    with segstore.open_dir(directory, read_only=True) as logs:
        assert logs.log("old", 0).log_start_offset == 6
        assert logs.log("kept", 0).log_start_offset == 0


def test_where_no_topic_has_a_limit_it_says_so(tmp_path: Path, capsys):
    """[RTN-2]"""
    with segstore.open_dir(tmp_path) as logs:
        logs.create_topic("a")
    assert cli.main(["maintain", str(tmp_path), "--once"]) == 0
    printed = capsys.readouterr()
    assert printed.out == "0 segments deleted, 0 B\n"
    assert "no topic here has retention.ms or retention.bytes" in printed.err


def test_compacted_partitions_are_counted(tmp_path: Path, capsys):
    """[RTN-2, CLN-122] And nothing says that no record goes."""
    with segstore.open_dir(tmp_path) as logs:
        logs.create_topic("users", config={"cleanup.policy": "compact"})
        log = logs.log("users", 0)
        for number in range(4):
            log.append([(b"k", b"%d" % number)])
        size = log.segments()[0].size_bytes
        log.roll()
    assert cli.main(["maintain", str(tmp_path), "--once"]) == 0
    printed = capsys.readouterr()
    saved = f"1 partition compacted, {size * 3 // 4} B less"
    assert printed.out.splitlines()[1:] == [f"0 segments deleted, 0 B; {saved}"]
    assert printed.err == ""


def test_what_fails_is_told_and_exits_with_1(directory: Path, capsys, monkeypatch):
    """[DUR-131]"""
    from segstore.log.unified_log import UnifiedLog

    monkeypatch.setattr(UnifiedLog, "_run_retention", lambda *_: 1 / 0)
    assert cli.main(["maintain", str(directory), "--once"]) == 1
    assert "retention of old-0 failed, and is tried again" in capsys.readouterr().err


def test_damaged_settings_keep_the_command_from_nothing_else(directory: Path, capsys, monkeypatch):
    """[DUR-128, DUR-131] No limit deletes anything, and deleted topics go."""
    with segstore.open_dir(directory) as logs:
        logs.delete_topic("kept")
        logs._directories[0].deleted._own.clear()  # as left by a process that was killed
    (waiting,) = directory.glob("kept-0.*-delete")
    monkeypatch.setattr(segstore, "open_dir", partial(segstore.open_dir, file_delete_delay_ms=0))
    file = directory / TOPICS_FILE
    file.write_bytes(file.read_bytes()[:-9])

    assert cli.main(["maintain", str(directory), "--once"]) == 1

    printed = capsys.readouterr()
    assert printed.out == "0 segments deleted, 0 B\n"
    assert "segstore: retention failed, and is tried again" in printed.err
    assert "topics.json" in printed.err
    assert "no topic here has" not in printed.err
    assert not waiting.exists()


def test_a_missing_directory_is_not_made(tmp_path: Path, capsys):
    assert cli.main(["maintain", str(tmp_path / "none"), "--once"]) == 2
    assert not (tmp_path / "none").exists()
    assert "no such file or directory" in capsys.readouterr().err


def test_a_directory_that_is_open_elsewhere_is_refused(directory: Path, capsys):
    with segstore.open_dir(directory):
        assert cli.main(["maintain", str(directory), "--once"]) == 1
    assert "open for writing" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("setting", "code", "text"),
    [("retntion.bytes=1", 2, "no such setting of a log directory: retntion.bytes"),
     ("log.dirs=/data", 2, "no such setting of a log directory: log.dirs"),
     ("log.cleaner.backoff.ms=-1", 2, "log.cleaner.backoff.ms"),
     ("log.retention.check.interval.ms=1000", 0, "no topic here has"),
     ("leader.replication.throttled.replicas=*", 0, "no topic here has")],
)  # fmt: skip
def test_a_setting_is_known_or_refused(tmp_path: Path, capsys, setting: str, code: int, text: str):
    """[CFG-37] One that no log goes by is taken."""
    assert cli.main(["maintain", str(tmp_path), "--once", "--config", setting]) == code
    assert text in capsys.readouterr().err


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_it_goes_on_until_ctrl_c_and_leaves_a_clean_directory(directory: Path, sent):
    """[DUR-24] Or until it is told to end, as services are."""
    with subprocess.Popen(
        [sys.executable, "-m", "segstore", "maintain", str(directory)],
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(2)]
        time.sleep(0.2)
        process.send_signal(sent)
        assert process.wait(60) == 130
    assert all(line.startswith(b"old-0: deleted offsets ") for line in lines)
    assert (directory / ".kafka_cleanshutdown").exists()
    with segstore.open_dir(directory) as logs:
        assert logs.log("old", 0).report.clean


@pytest.mark.parametrize("hours", [0, 1, -1])
def test_it_sleeps_until_something_is_due(directory: Path, monkeypatch, hours: int):
    """[MGR-30] Also after the wall clock was set: it neither spins nor misses what is due."""
    slept: list[float] = []
    real = time.time
    monkeypatch.setattr(maintain.time, "time", lambda: real() + hours * 3600)

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 2:
            raise KeyboardInterrupt

    own = SimpleNamespace(time=time.time, sleep=sleep)  # the clock of no other thread
    monkeypatch.setattr(maintain, "time", own)
    assert cli.main(["maintain", str(directory)]) == 130
    assert len(slept) == 2
    assert all(1 < seconds <= 60 for seconds in slept)
