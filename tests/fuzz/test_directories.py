"""A partition directory from somebody else may hold any bytes in any of its files.

Opening, reading, looking up and checking it give what is there or an error of ours; a log that was
opened for writing takes appends and is whole afterwards. [DUR-85, DUR-97, DUR-103, DUR-105]
"""

from __future__ import annotations

import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import segstore
from segstore import cli
from segstore.errors import IllegalArgumentError, SegstoreError
from segstore.log.check.partition_check import check_partition
from tests.fuzz.mutations import anything_like, outcome
from tests.kits.damaged_logs import SETTINGS, build

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST_OF_AN_ERROR = 1000
LARGEST_FILE = 6000
EXAMPLES = settings(max_examples=30)

OWN_FILES = [
    "recovery-point-offset-checkpoint",
    "log-start-offset-checkpoint",
    "leader-epoch-checkpoint",
    "partition.metadata",
    ".kafka_cleanshutdown",
    ".segstore",
]
PARTITIONS = ["crashed", "clean", "transactions", "leader epochs", "magic 1"]


@pytest.fixture(scope="module")
def partitions(tmp_path_factory: pytest.TempPathFactory, packed: Path) -> dict[str, Path]:
    """A small partition of each kind, of ours and of a broker.

    What a broker wrote is packed here: an input that was found must be the same in every run.
    """
    place = tmp_path_factory.mktemp("partitions")
    return {
        "crashed": build(place / "crashed-0").path,
        "clean": build(place / "clean-0", clean=True).path,
        "transactions": smallest(packed / "transactions-tv1" / "data"),
        "leader epochs": smallest(packed / "leader-epochs" / "data"),
        "magic 1": smallest(packed / "legacy-v1" / "data"),
    }


def smallest(data: Path) -> Path:
    return min(
        (path for path in data.iterdir() if any(path.glob("*.log"))),
        key=lambda path: sum(file.stat().st_size for file in path.iterdir()),
    )


@contextmanager
def hostile(partition: Path, draw: st.DataObject) -> Iterator[Path]:
    """Yield a copy of which one to three files were changed, or made."""
    with tempfile.TemporaryDirectory() as place:
        copy = Path(place) / "hostile-0"
        shutil.copytree(partition, copy, copy_function=shutil.copyfile)
        copy.chmod(0o755)
        there = sorted(path.name for path in copy.iterdir() if path.stat().st_size <= LARGEST_FILE)
        names = st.sampled_from(sorted({*there, *OWN_FILES}))
        for name in draw.draw(st.lists(names, min_size=1, max_size=3, unique=True)):
            path = copy / name
            good = path.read_bytes() if path.exists() else b"0\n1\nhostile 0 5\n"
            path.write_bytes(draw.draw(anything_like(st.just(good)), label=name))
        yield copy


def use(log: segstore.UnifiedLog) -> None:
    """Read as a user would; each way may refuse."""
    start, end = log.log_start_offset, log.log_end_offset
    assert 0 <= start <= end
    ways = [
        lambda: list(log.scan().tuples()),
        lambda: log.read(start, 1000),
        lambda: log.read((start + end) // 2, 100_000),
        lambda: list(log.scan(isolation="read_committed").tuples()),
        lambda: log.offset_for_timestamp(1_700_000_000_030),
    ]
    for way in ways:
        _, error = outcome(way, SegstoreError)
        assert error is None or 0 < len(str(error)) < MOST_OF_AN_ERROR
        assert not isinstance(error, IllegalArgumentError)  # the files are wrong, not the question
    assert (log.log_start_offset, log.log_end_offset) == (start, end)


@pytest.mark.parametrize("name", PARTITIONS)
@given(draw=st.data())
@EXAMPLES
def test_looking_at_a_hostile_directory_changes_nothing(name: str, draw, partitions):
    """[DUR-51] Read-only, and by ``verify``."""
    with hostile(partitions[name], draw) as path:
        before = {file.name: file.read_bytes() for file in path.iterdir()}
        log, error = outcome(lambda: segstore.open(path, read_only=True), SegstoreError)
        if log is not None:
            with log:
                use(log)
        else:
            assert 0 < len(str(error)) < MOST_OF_AN_ERROR
        check, error = outcome(lambda: check_partition(str(path)), SegstoreError)
        if error is None:
            assert all(len(problem) < MOST_OF_AN_ERROR for problem in check.problems)

        assert {file.name: file.read_bytes() for file in path.iterdir()} == before


@pytest.mark.parametrize("name", PARTITIONS)
@given(draw=st.data())
@EXAMPLES
def test_a_hostile_directory_opened_for_writing_is_a_log_or_an_error(name: str, draw, partitions):
    """[DUR-50, DUR-51] What was appended is read, and the next open finds it."""
    with hostile(partitions[name], draw) as path:
        log, error = outcome(lambda: segstore.open(path, **SETTINGS), SegstoreError)
        if error is not None:
            assert 0 < len(str(error)) < MOST_OF_AN_ERROR
            return
        with log:
            use(log)
            end = log.log_end_offset
            _, error = outcome(lambda: log.append([(None, b"one more")]), SegstoreError)
            if error is not None:
                return
        with segstore.open(path, **SETTINGS) as log:
            assert log.log_end_offset == end + 1
            assert [value for *_, value in log.scan(end).tuples()] == [b"one more"]


@pytest.mark.parametrize("name", PARTITIONS)
@given(draw=st.data())
@EXAMPLES
def test_commands_have_an_exit_code(name: str, draw, partitions):
    """[DUR-105] ``dump`` of every file, ``inspect``, ``verify``, ``cat``: no traceback."""
    with hostile(partitions[name], draw) as path:
        kinds = (".log", ".index", ".timeindex", ".snapshot", ".txnindex")
        files = sorted(str(file) for file in path.iterdir() if file.name.endswith(kinds))
        commands = [
            ["dump", "--files", ",".join(files), "--print-data-log", "--deep-iteration"],
            ["dump", "--files", ",".join(files), "--index-sanity-check"],
            ["dump", "--files", ",".join(files), "--offsets-decoder"],
            ["inspect", str(path)],
            ["verify", "-q", str(path)],
            ["cat", "-q", str(path)],
        ]
        command = draw.draw(st.sampled_from(commands))
        assert cli.main(command) in {0, 1, 2}
