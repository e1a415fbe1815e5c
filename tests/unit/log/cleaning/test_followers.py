"""A handle that follows a writer goes on across a compaction [DUR-77, DUR-78, CLN-110]."""

from __future__ import annotations

import random
import subprocess
import sys
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

import segstore
from segstore._core import Directory
from segstore.errors import LogTruncatedError
from segstore.log.files.checkpoints import LOG_STATE, LogState
from segstore.log.files.log_state_file import uncut_generation
from segstore.log.local.observed_end import ObservedEnd
from segstore.log.local.segment_replacement import SegmentReplacement
from tests.kits.overflow_kit import BASES, MAX_INT, SPLIT_BASE, write_overflowed_log

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SETTINGS: dict[str, Any] = {
    "durability": "none",
    "cleanup_policy": "compact",
    "internal_segment_bytes": 300,
    "index_interval_bytes": 100,
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "orders-0"


@pytest.fixture
def writer(path: Path) -> Iterator[segstore.UnifiedLog]:
    with segstore.open(path, **SETTINGS) as log:
        yield log


def append(log: segstore.UnifiedLog, count: int, keys: int = 5) -> None:
    for _ in range(count):
        offset = log.log_end_offset
        log.append([(b"k%d" % (offset % keys), b"value %d" % offset + bytes(offset % 7))])


def rows(log: segstore.Log, start: int | None = None) -> list[tuple[int, bytes | None]]:
    return [(offset, value) for offset, _, _, value in log.scan(start).tuples()]


def file_generation(path: Path) -> int:
    state = LogState.parse((path / LOG_STATE).read_bytes())
    assert state is not None
    return state.generation


@pytest.mark.parametrize("is_rolled", [False, True])
@pytest.mark.parametrize("keys", [1, 5, 50])
def test_a_refresh_goes_on_across_a_compaction(path, writer, is_rolled, keys):
    """[DUR-77, CLN-110] The oracle is the writer's own view, also of the records that follow."""
    append(writer, 40, keys)
    if is_rolled:
        writer.roll()
    with segstore.open(path, read_only=True) as reader:
        assert rows(reader) == rows(writer)  # it has files open
        for count in (0, 1, 20, 60):
            append(writer, count, keys)
            if is_rolled:
                writer.roll()
            writer.compact()

            assert reader.refresh() == writer.log_end_offset
            assert rows(reader) == rows(writer)
            assert reader.read(reader.log_start_offset, 1000) is not None
        assert file_generation(path) == 0
        assert reader.verify().ok


@pytest.mark.parametrize("is_open", [False, True])
def test_reads_go_on_without_a_refresh(path, writer, is_open):
    """[DUR-77] What the reader has open it reads on; the rest it finds in the new segments."""
    append(writer, 60)
    with segstore.open(path, read_only=True) as reader:
        end = reader.log_end_offset
        if is_open:
            assert len(rows(reader)) == 60
        writer.roll()
        writer.compact()
        expected = [row for row in rows(writer) if row[0] < end]
        found = rows(reader)

        assert set(expected) <= set(found)
        assert [offset for offset, _ in found] == sorted({offset for offset, _ in found})
        for offset in (0, 17, 41):
            first = next(iter(reader.read(offset, 100)))
            assert (first.offset, first.value) in found
        reader.refresh()
        assert rows(reader) == rows(writer)


def test_a_scan_that_is_under_way_loses_no_record_and_shows_none_twice(path, writer):
    """[DUR-77, DUR-79] Before each record the writer compacts, at a place by chance."""
    random_ = random.Random(5)
    append(writer, 300, 40)
    with segstore.open(path, read_only=True) as reader:
        found: list[int] = []
        for record in reader.scan():
            found.append(record.offset)
            if random_.random() < 0.1:
                append(writer, 10, 40)
                writer.roll()
                writer.compact()
        assert found == sorted(set(found))
        last = {record.key: record.offset for record in writer.scan() if record.offset < 300}
        assert set(last.values()) <= set(found)


def test_a_tail_goes_on_across_compactions(path, writer):
    """[DUR-75, DUR-77] No record is missing but those that a newer one replaced."""
    seen = []
    with segstore.open(path, read_only=True) as reader:
        for _ in range(10):
            append(writer, 30)
            seen += list(reader.tail(seen[-1].offset + 1 if seen else 0, timeout=0))
            writer.roll()
            writer.compact()

    assert [record.offset for record in seen] == list(range(300))


def test_a_compaction_between_two_looks_at_the_end_is_no_truncation(path, writer, monkeypatch):
    """[DUR-77] The file of the end is the one that was read, and a moment later another."""
    append(writer, 3)
    with segstore.open(path, read_only=True) as reader:
        read, compacted = ObservedEnd._read_now, []

        def read_behind_a_compaction(end: ObservedEnd, name: str) -> bytes | None:
            if not compacted:
                append(writer, 40, 1)
                compacted.append(writer.compact())
            return read(end, name)

        monkeypatch.setattr(ObservedEnd, "_read_now", read_behind_a_compaction)
        reader.refresh()  # may see the log as it was between the two
        reader.refresh()

        assert compacted
        assert rows(reader) == rows(writer)


_FOLLOW = """
import sys, segstore
found = []
with segstore.open(sys.argv[1], read_only=True) as log:
    print("ready", flush=True)
    for record in log.tail(0, timeout=20):
        found.append(record.offset)
        if record.value == b"the end":
            break
assert found == sorted(set(found)), found
print(",".join(map(str, found)))
"""


def test_another_process_follows_across_compactions(path, writer):
    """[DUR-77] Without loss, duplicate or error."""
    append(writer, 1)
    with subprocess.Popen(
        [sys.executable, "-c", _FOLLOW, str(path)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        for _ in range(30):
            append(writer, 40, 7)
            writer.compact()
        writer.append([(b"last", b"the end")])
        output, _ = process.communicate(timeout=60)

    found = set(map(int, output.split(",")))
    assert process.returncode == 0
    assert {record.offset for record in writer.scan()} <= found


@pytest.mark.parametrize("compacts", [False, True])
@pytest.mark.parametrize("offset", [0, 20, 55])
def test_a_truncation_is_told_also_beside_a_compaction(path, writer, offset, compacts):
    """[DUR-77] Once; the truncation raises the generation before anything goes."""
    append(writer, 60)
    with segstore.open(path, read_only=True) as reader:
        rows(reader)
        if compacts:
            writer.compact()
        writer.truncate_to(offset)
        append(writer, 80, 3)
        if compacts:
            writer.roll()
            writer.compact()

        with pytest.raises(LogTruncatedError):
            reader.refresh()
        assert rows(reader) == rows(writer)
        assert file_generation(path) == 2
        reader.refresh()  # the generation is known again
        writer.roll()
        writer.compact()
        reader.refresh()
        assert rows(reader) == rows(writer)


def test_a_truncation_that_is_under_way_is_no_compaction(path, writer, monkeypatch):
    """[DUR-77, DUR-30] The generation is odd from before the first change on, until after it."""
    append(writer, 40)
    seen = []
    cut = type(writer._local_log).truncate_to

    def looking(local_log, offset):
        with closing(Directory(str(path))) as directory:
            seen.append((file_generation(path), uncut_generation(directory)))
        return cut(local_log, offset)

    monkeypatch.setattr(type(writer._local_log), "truncate_to", looking)
    writer.truncate_to(10)

    assert seen == [(1, None)]
    assert file_generation(path) == 2


def test_a_refused_truncation_leaves_no_odd_generation(path, writer, monkeypatch):
    """[DUR-30] Readers would take each compaction behind it for a truncation."""
    append(writer, 40)

    def refuse(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(type(writer._local_log), "begin_truncation", refuse)
    with pytest.raises(KeyboardInterrupt):
        writer.truncate_to(10)

    assert file_generation(path) % 2 == 0


def test_a_recovery_that_cuts_is_a_truncation(path):
    """[DUR-77, DUR-56] The next writer says so before it changes anything."""
    with segstore.open(path, **SETTINGS) as log:
        append(log, 40)
        log.flush()
        with segstore.open(path, read_only=True) as reader:
            rows(reader)
            log.close_quietly()
            last = max(path.glob("*.log"))
            data = last.read_bytes()
            last.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
            (path / "recovery-point-offset-checkpoint").unlink(missing_ok=True)
            with segstore.open(path, **SETTINGS) as again:
                append(again, 40, 3)
                again.roll()
                again.compact()
                assert file_generation(path) == 2
                with pytest.raises(LogTruncatedError):
                    reader.refresh()
                assert rows(reader) == rows(again)


def test_an_interrupted_swap_shows_the_log_as_it_was(path, writer, monkeypatch):
    """[CLN-110, DUR-20] While segments have no name yet the reader stays where it was."""
    append(writer, 60)
    with segstore.open(path, read_only=True) as reader:
        before = rows(reader)
        finish = SegmentReplacement.finish

        def looking(replacement):
            for segment in replacement.old:
                segment.change_suffix(".deleted")
            reader.refresh()
            assert rows(reader) == before
            finish(replacement)
            reader.refresh()
            before[:] = rows(reader)

        monkeypatch.setattr(SegmentReplacement, "finish", looking)
        writer.compact()

        assert rows(reader) == rows(writer)


def test_without_a_generation_it_is_as_before(path, writer):
    """[DUR-64] Of a broker's directory nothing tells a compaction from a truncation."""
    append(writer, 60)
    (path / LOG_STATE).rename(path / "kept")
    with segstore.open(path, read_only=True) as reader:
        rows(reader)
        (path / "kept").rename(path / LOG_STATE)
        writer.roll()
        writer.compact()

        with pytest.raises(LogTruncatedError):
            reader.refresh()
        assert rows(reader) == rows(writer)


def test_a_split_is_followed_as_a_compaction_is(tmp_path):
    """[LDR-30, DUR-20, DUR-77] The reader has the file of the segment that is split open."""
    path = tmp_path / "orders-0"
    write_overflowed_log(path)
    end = BASES[-1] + MAX_INT
    (path / LOG_STATE).write_bytes(LogState(end, end, None).format())
    with segstore.open(path, read_only=True) as reader:
        assert [one.base_offset for one in reader.segments()][:2] == BASES[:2]
        reader.read(0, 1000)
        reader.segments()[1].read_next_offset()
        with segstore.open(path, index_interval_bytes=1, segment_ms=None) as log:
            assert SPLIT_BASE in [one.base_offset for one in log.segments()]

            assert reader.refresh() == log.log_end_offset
            assert rows(reader) == rows(log)
            assert len(reader.segments()) == len(log.segments())
