"""An import that is killed or refused half-way: a topic is whole, or nobody can open it.

It left a topic with fewer partitions than it has, or with an empty one, and nothing said so.
"""

from __future__ import annotations

import shutil
from itertools import count
from typing import TYPE_CHECKING

import pytest

import segstore
from segstore.cli import main
from segstore.errors import (
    AlreadyExistsError,
    CorruptLogError,
    IllegalStateError,
    LogLockedError,
    UnknownTopicOrPartitionError,
)
from segstore.log.files.checkpoints import IMPORT_MARKER
from segstore.tables import partition_import, unfinished_imports
from tests.kits.same_logs import check_same_logs
from tests.unit.tables.test_parquet_transfer import filled, in_transactions

if TYPE_CHECKING:
    from pathlib import Path

PARTITIONS = 3
WORDS = r"the import of this log is not finished.*run the same import again"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A log directory with the topic ``orders``: transactions, plain records, and none."""
    with segstore.open_dir(tmp_path / "data", durability="none") as logs:
        logs.create_topic("orders", partitions=PARTITIONS)
    in_transactions(tmp_path / "data" / "orders-0")
    filled(tmp_path / "data" / "orders-1", 40)
    return tmp_path / "data"


@pytest.fixture
def out(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An export of the topic; an import of it appends in many steps."""
    with segstore.open_dir(data, read_only=True) as logs:
        logs.export_parquet("orders", tmp_path / "out")
    monkeypatch.setattr(partition_import, "ROWS_OF_AN_APPEND", 5)
    return tmp_path / "out"


def check_whole(data: Path, back: Path) -> None:
    for number in range(PARTITIONS):
        with (
            segstore.open(data / f"orders-{number}", read_only=True) as log,
            segstore.open(back / f"orders-{number}", read_only=True) as other,
        ):
            check_same_logs(log, other)


def check_nothing_or_refused_or_whole(data: Path, back: Path) -> str:
    """Return which it is, for who reads and for who writes."""
    if not back.exists():
        return "nothing"
    with segstore.open_dir(back, read_only=True) as logs:
        numbers = logs.topics().get("orders", [])
        if not numbers:
            return "nothing"
    opened = 0
    for number in numbers:
        try:
            segstore.open(back / f"orders-{number}", read_only=True).close()
            opened += 1
        except IllegalStateError:
            with pytest.raises(IllegalStateError, match=WORDS):
                segstore.open(back / f"orders-{number}")
    if opened:  # markers come before the first record, and go when all logs are whole
        copy = back.with_name(f"{back.name}-copy")
        shutil.copytree(back, copy)
        for marker in copy.glob(f"*/{IMPORT_MARKER}"):
            marker.unlink()
        with segstore.open_dir(copy, read_only=True) as logs:
            is_as_before = logs.count("orders") == 0
        if not is_as_before:
            check_whole(data, copy)
        shutil.rmtree(copy)
        if opened < len(numbers):
            return "refused in part"
        return "as before" if is_as_before else "whole"
    return "refused"


class KilledError(BaseException):
    """What no code handles, in the place of a kill."""


def kill_at(monkeypatch: pytest.MonkeyPatch, nth: int) -> None:
    """End the process, as far as an import sees it, before its *nth* durable step."""
    steps = count()

    def counted(module, name):
        inner = getattr(module, name)

        def step(*arguments, **options):
            if next(steps) >= nth:
                raise KilledError
            return inner(*arguments, **options)

        monkeypatch.setattr(module, name, step)

    counted(unfinished_imports, "sync_path")
    counted(unfinished_imports, "open_partition_to_write")
    counted(partition_import, "with_leader_epochs")
    monkeypatch.setattr(unfinished_imports.MarkedLogs, "_undo", lambda _: None)


@pytest.mark.parametrize("made_before", [0, 1, PARTITIONS])
def test_a_killed_import_leaves_nothing_or_what_cannot_be_opened(
    data: Path, out: Path, tmp_path: Path, made_before: int
):
    """At every step; the next import gives the same logs."""
    seen = set()
    for nth in count():
        back = tmp_path / f"back{nth}"
        if made_before:
            with segstore.open_dir(back) as logs:
                logs.create_topic("orders", partitions=made_before, config={"retention.ms": "7"})
        with pytest.MonkeyPatch.context() as patch:
            kill_at(patch, nth)
            try:
                segstore.import_parquet(out, back)
            except KilledError:
                pass
            else:
                break
        seen.add(check_nothing_or_refused_or_whole(data, back))
        segstore.import_parquet(out, back, verify=True)
        check_whole(data, back)
        assert not [*back.rglob(IMPORT_MARKER)]
        with segstore.open_dir(back, read_only=True) as logs:
            settings = {one.name: one.value for one in logs.describe_topic("orders").settings}
        assert settings["retention.ms"] == (7 if made_before else None)
        shutil.rmtree(back)
    assert {"refused", "refused in part"} <= seen
    before = "as before" if made_before else "nothing"
    assert seen <= {before, "refused in part", "refused", "whole"}
    assert nth > 20


def test_a_refused_import_cannot_be_opened_before_it_is_finished(
    data: Path, out: Path, tmp_path: Path
):
    """One file is damaged; with another export the same call goes on."""
    back = tmp_path / "back"
    (file,) = out.glob("orders-1-*")
    good = file.read_bytes()
    middle = len(good) // 3
    file.write_bytes(good[:middle] + bytes(64) + good[middle + 64 :])
    with pytest.raises(CorruptLogError) as raised:
        segstore.import_parquet(out, back)
    assert raised.value.file == str(file)
    (note,) = raised.value.__notes__
    assert "refused again" in note
    assert note.endswith(f"{back}/orders-0, {back}/orders-1, {back}/orders-2"), note
    assert check_nothing_or_refused_or_whole(data, back) == "refused"
    with (
        segstore.open_dir(back) as logs,
        pytest.raises(IllegalStateError, match=WORDS),
    ):
        logs.count("orders")

    file.write_bytes(good)
    segstore.import_parquet(out, back)
    check_whole(data, back)


def test_a_topic_that_is_whole_can_be_read_though_another_is_refused(
    data: Path, out: Path, tmp_path: Path
):
    with segstore.open_dir(data) as logs:
        logs.create_topic("users")
        logs.append("users", [(b"k", b"v")] * 300)
        logs.export_parquet("users", out)
    (file,) = out.glob("users-*")
    content = file.read_bytes()
    file.write_bytes(content[:40] + bytes(64) + content[104:])
    with pytest.raises(CorruptLogError):
        segstore.import_parquet(out, tmp_path / "back")
    check_whole(data, tmp_path / "back")


def test_an_import_that_is_refused_at_once_leaves_nothing(data: Path, out: Path, tmp_path: Path):
    """A file that is none, or the first record of all: nothing is made, also no directory."""
    back = tmp_path / "back"
    with segstore.open_dir(back) as logs:
        logs.create_topic("orders", partitions=1)
    files = sorted(out.iterdir())
    good = [file.read_bytes() for file in files]
    files[2].write_bytes(good[2][:100])
    with pytest.raises(CorruptLogError):
        segstore.import_parquet(out, back)
    files[2].write_bytes(good[2])
    files[0].write_bytes(good[0][:40] + bytes(64) + good[0][104:])
    with pytest.raises(CorruptLogError):
        segstore.import_parquet(out, back)

    with segstore.open_dir(back, read_only=True) as logs:
        assert logs.topics() == {"orders": [0]}
        assert logs.count("orders") == 0
    assert not [*back.glob(".segstore-part-*")]
    files[0].write_bytes(good[0])
    segstore.import_parquet(out, back)
    check_whole(data, back)


def test_a_log_with_other_records_is_refused_before_anything_is_made(out: Path, tmp_path: Path):
    back = tmp_path / "back"
    filled(back / "orders-1", 20, start=1)
    with pytest.raises(AlreadyExistsError, match="another record"):
        segstore.import_parquet(out, back)
    assert [path.name for path in back.glob("orders-*")] == ["orders-1"]
    with segstore.open(back / "orders-1") as log:
        assert len(log) == 20


def test_a_log_that_begins_elsewhere_can_be_opened_after_the_refusal(out: Path, tmp_path: Path):
    """It has no records, and was marked for a moment."""
    back = tmp_path / "back"
    with segstore.open(back / "orders-2") as log:
        log.truncate_fully_and_start_at(7)
    with pytest.raises(AlreadyExistsError, match="begins at offset 7"):
        segstore.import_parquet(out, back)
    assert [path.name for path in back.glob("orders-*")] == ["orders-2"]
    with segstore.open(back / "orders-2") as log:
        assert log.log_start_offset == 7


def test_an_import_beside_a_manager_is_refused_and_makes_nothing(out: Path, tmp_path: Path):
    back = tmp_path / "back"
    with segstore.open_dir(back), pytest.raises(LogLockedError):
        segstore.import_parquet(out, back)
    with segstore.open_dir(back) as logs:
        assert logs.topics() == {}


def test_a_log_that_is_completed_can_be_read_meanwhile(data: Path, out: Path, tmp_path: Path):
    """It is whole up to some batch: new records of its source are missing, as before."""
    back = tmp_path / "back"
    segstore.import_parquet(out, back)
    with segstore.open(data / "orders-1") as log:
        log.append([(b"k", b"new")] * 3)
    with segstore.open_dir(data, read_only=True) as logs:
        logs.export_parquet("orders", out)

    def look(name: str, done: int, total: int) -> None:
        with segstore.open(back / name, read_only=True) as log:
            assert log.log_end_offset == done == total

    segstore.import_parquet(out, back, progress=look)
    check_whole(data, back)


def unfinished(out: Path, back: Path) -> Path:
    """Return a log directory with the topic ``orders``, whose import was interrupted."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with segstore.open_dir(back) as logs:
        logs.create_topic("others")
        logs.append("others", [(b"k", b"v")])
    with pytest.raises(KeyboardInterrupt):
        segstore.import_parquet(out, back, progress=interrupt)
    return back


def test_other_topics_are_used_and_an_unfinished_one_may_be_deleted(out: Path, tmp_path: Path):
    with segstore.open_dir(unfinished(out, tmp_path / "back")) as logs:
        assert logs.count("others") == 1
        logs.append("others", [(b"k", b"v")])
        logs.maintain()
        assert logs.topics() == {"orders": [0, 1, 2], "others": [0]}
        with pytest.raises(IllegalStateError, match=WORDS):
            logs.append("orders", [(b"k", b"v")])
        logs.delete_topic("orders")
        assert logs.topics() == {"others": [0]}
        with pytest.raises(UnknownTopicOrPartitionError):
            logs.log("orders", 0)
    assert [report.records for report in segstore.import_parquet(out, tmp_path / "back")]


def test_the_commands_say_that_an_import_is_not_finished(
    out: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    back = unfinished(out, tmp_path / "back")
    for command in (["cat"], ["verify", "-q"], ["recover", "-q"], ["ls"]):
        code = main([*command, str(back / "orders-0")])
        told = capsys.readouterr()
        assert "the import of this log is not finished" in told.out + told.err, command
        assert code == 1, command
        if command[0] == "verify":
            assert "means: the log is not whole before its import is finished" in told.out
            assert "no file shows" not in told.out

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(partition_import, "_assign_epochs", interrupted)
        assert main(["import", str(out), str(back), "-q"]) == 130
    assert "the same command goes on where the logs end" in capsys.readouterr().err
    assert main(["import", str(out), str(back), "-q"]) == 0
    assert main(["verify", "-q", str(back / "orders-0")]) == 0
