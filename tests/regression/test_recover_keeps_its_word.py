"""``verify`` and ``recover --dry-run`` say what an open then does; ``recover`` says what it cannot.

They had a judgement of their own: "recover cuts these 600 bytes" of a log that the open refuses,
"keeps a copy" of zeros that nobody keeps, "what can be repaired is repaired" of damage that the
open never looks at, while ``recover`` made logs in directories that were none.
"""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import pytest

import segstore
from segstore import cli
from segstore.log.check.partition_check import check_partition
from segstore.log.findings.finding import Action, FindingCode
from segstore.log.recovery.forecast import forecast_open

if TYPE_CHECKING:
    from pathlib import Path

LOG = f"{0:020d}.log"


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    """Ten batches of one record, closed cleanly."""
    path = tmp_path / "orders-0"
    with segstore.open(path, durability="none") as log:
        for number in range(10):
            log.append([(b"key", b"value %d" % number)])
    return path


def files(directory: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }


def change(path: Path, position: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(position)
        file.write(data)


def batch_bytes(partition: Path) -> int:
    return (partition / LOG).stat().st_size // 10


def test_a_refused_open_is_foretold(partition: Path, capsys: pytest.CaptureFixture[str]):
    """[DUR-51] A base offset that was changed, below the recovery point, after an unclean stop."""
    change(partition / LOG, 5 * batch_bytes(partition), b"\x7f")
    (partition / ".kafka_cleanshutdown").unlink(missing_ok=True)
    before = files(partition)

    assert cli.main(["verify", str(partition)]) == 1
    verified = capsys.readouterr().out
    assert cli.main(["recover", "--dry-run", str(partition)]) == 1
    foretold = capsys.readouterr().out
    assert files(partition) == before
    with pytest.raises(segstore.CorruptLogError) as refused:
        segstore.open(partition)
    assert cli.main(["recover", str(partition)]) == 1

    assert "cuts" not in verified + foretold
    assert "cannot be read: record 5" in verified
    assert f"recover would refuse this log: {refused.value}" in foretold
    told = refused.value.text_within(str(partition))
    assert f"cannot be repaired: {told}" in capsys.readouterr().out


def test_damage_that_an_open_does_not_notice_is_told_by_recover(
    partition: Path, capsys: pytest.CaptureFixture[str]
):
    """[DUR-51] The log was closed cleanly: nothing is read again at the open."""
    change(partition / LOG, 3 * batch_bytes(partition) + 65, b"\xff")

    assert cli.main(["recover", "--dry-run", str(partition)]) == 1
    foretold = capsys.readouterr().out
    assert cli.main(["recover", str(partition)]) == 1
    told = capsys.readouterr().out

    assert "could not repair 1 finding" in foretold
    assert "not repaired: 1 finding" in told
    for text in (foretold, told):
        assert "offset 3: " in text
        assert "[BATCH_CORRUPT]" in text
    with segstore.open(partition, read_only=True) as log:  # as the advice says: others work
        assert [record.offset for record in log.scan(0, 3)] == [0, 1, 2]
        assert [record.offset for record in log.scan(4, 10)] == [4, 5, 6, 7, 8, 9]


@pytest.mark.parametrize("tail", [bytes(500), b"\x00" * 7 + b"\x0a" + b"\x00\x00\x01\x00torn"])
def test_a_copy_is_promised_only_when_one_is_kept(
    partition: Path, tail: bytes, capsys: pytest.CaptureFixture[str]
):
    """[DUR-59] Zeros are room that was allocated ahead: nothing was being written, none is kept."""
    with (partition / LOG).open("ab") as file:
        file.write(tail)

    cli.main(["verify", str(partition)])
    text = capsys.readouterr().out
    assert cli.main(["recover", str(partition)]) == 1

    is_kept = any(".quarantine-" in name for name in files(partition))
    assert is_kept == any(tail)
    assert ("keeps a copy" in text) == is_kept
    assert ("[BATCH_INCOMPLETE]" in text) == is_kept
    assert ("[ZEROS_AT_END]" in text) != is_kept
    assert f"{len(tail)} bytes are concerned" in text


def test_a_bad_batch_before_good_ones_is_no_interrupted_write(partition: Path):
    """[DUR-50] Above the recovery point it ends the log, and the good ones behind it are cut."""
    (partition / ".kafka_cleanshutdown").unlink(missing_ok=True)
    (partition / "recovery-point-offset-checkpoint").write_text("0\n1\norders 0 2\n")
    change(partition / LOG, 6 * batch_bytes(partition) + 65, b"\xff")

    (found,) = check_partition(str(partition)).findings

    assert found.repaired
    assert (found.code, found.action) == (FindingCode.BATCH_CORRUPT, Action.RECOVER)
    assert (found.lost, found.salvageable) == (((6, 6),), ((7, 9),))


@pytest.mark.parametrize("is_clean", [True, False])
@pytest.mark.parametrize(
    ("name", "data", "is_repaired"),
    [
        (f"{0:020d}.index", b"\1" * 16, True),
        (f"{5:020d}.index", b"\1" * 16, True),
        (f"{0:020d}.timeindex", b"\1" * 24, True),
        (f"{5:020d}.timeindex", b"\1" * 24, True),
        ("leader-epoch-checkpoint", b"what\n", True),
        ("recovery-point-offset-checkpoint", b"what\n", True),
        ("log-start-offset-checkpoint", b"what\n", True),
        ("partition.metadata", b"what\n", False),
        (f"{5:020d}.snapshot", b"\0\1\0\0\0\0\0\0\0\0", True),
        (f"{10:020d}.snapshot", b"\0\1\0\0\0\0\0\0\0\0", True),
        (f"{0:020d}.txnindex", b"xyz", True),
        (f"{5:020d}.txnindex", b"xyz", True),
    ],
)
def test_small_files(tmp_path: Path, name: str, data: bytes, *, is_repaired: bool, is_clean: bool):
    """[DUR-8, DUR-21, DUR-53] What recover repairs is what the check says that it repairs."""
    path = tmp_path / "orders-0"
    with segstore.open(path, durability="none") as log:
        for number in range(10):
            if number == 5:
                log.roll()
            log.append([(b"key", b"value %d" % number)])
    (path / name).write_bytes(data)
    if not is_clean:
        (path / ".kafka_cleanshutdown").unlink()
    (found,) = check_partition(str(path)).findings
    assert (found.file, found.repaired) == (name, is_repaired)
    code = 0 if is_repaired else 1

    assert cli.main(["recover", "--dry-run", str(path)]) == code
    assert cli.main(["recover", str(path)]) == code

    left = [found.file for found in check_partition(str(path)).findings]
    assert left == ([] if is_repaired else [name])


def test_recover_makes_no_log(tmp_path: Path, partition: Path):
    """[DUR-3] Names that end in a number are common; a ``.log`` file, or ours, makes a log."""
    (tmp_path / "em" / "x-1").mkdir(parents=True)
    (tmp_path / "em" / "llvm-14").mkdir()
    (tmp_path / "em" / "llvm-14" / "lib").write_text("x")
    before = files(tmp_path)

    for command in (["recover"], ["recover", "--dry-run"], ["verify"]):
        assert cli.main([*command, str(tmp_path / "em")]) == 2
        assert cli.main([*command, str(tmp_path / "em" / "x-1")]) == 2
    assert files(tmp_path) == before

    (partition / LOG).unlink()  # it was one: an open for writing refuses it
    assert cli.main(["recover", "--dry-run", str(partition)]) == 1
    assert cli.main(["recover", str(partition)]) == 1
    assert not (partition / LOG).exists()


def test_an_emptied_log_is_not_made_anew(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """Without records an open would begin it again; recover does not."""
    path = tmp_path / "orders-0"
    segstore.open(path, durability="none").close()
    (path / LOG).unlink()

    assert cli.main(["recover", str(path)]) == 1
    assert cli.main(["recover", "--dry-run", str(path)]) == 1
    assert "recover makes none" in capsys.readouterr().out
    assert not (path / LOG).exists()


def test_every_golden_open_is_foretold(golden: Path, tmp_path: Path):
    """[DUR-58] Report or error word for word; what is left is what was said would be left."""
    wrong = []
    for number, source in enumerate(sorted(golden.glob("*/data"))):
        case = json.loads((source.parent / "case.json").read_text())
        if case["stop"] == "clean shutdown" and case["family"] not in {"legacy", "unclean"}:
            continue
        copy = tmp_path / str(number)
        shutil.copytree(source, copy)
        for path in copy.iterdir():
            if path.is_dir() and any(path.glob("*.log*")):
                wrong += [f"{source.parent.name}/{path.name}: {text}" for text in differing(path)]
        shutil.rmtree(copy)

    assert wrong == []


def differing(path: Path) -> list[str]:
    """Forecast, check, open, check again; return what was not as foretold."""
    before = files(path)
    forecast = forecast_open(path)
    left = {found.identity for found in check_partition(str(path)).findings if not found.repaired}
    if files(path) != before:
        return ["the forecast wrote something"]
    try:
        with segstore.open(path) as log:
            report = log.report.to_dict()
    except segstore.SegstoreError as error:
        is_same = type(error) is type(forecast.error) and str(error) == str(forecast.error)
        return [] if is_same else [f"{forecast.error!r} became {error!r}"]
    foretold = forecast.report.to_dict()
    if forecast.split is not None:  # and nothing is said of what comes then
        assert any("it would be split" in warning for warning in foretold["warnings"])
        assert any("it was split into" in warning for warning in report["warnings"])
        report = {}
    problems = [
        f"{name}: {foretold[name]!r} became {value!r}"
        for name, value in report.items()
        if name != "seconds" and foretold[name] != value
    ]
    if forecast.error is not None:
        problems.append(f"{forecast.error!r} did not come")
    cli.main(["recover", "-q", str(path)])
    found = {found.identity for found in check_partition(str(path)).findings}
    return problems + [f"not as foretold: {each}" for each in sorted(left ^ found)]
