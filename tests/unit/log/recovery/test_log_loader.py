"""Opening for writing: markers, derived files and leftovers, and what is made good [LDR-*]."""

from __future__ import annotations

import os

import pytest

import segstore
from segstore import _core
from segstore.records.compression import codec_table
from tests.kits.damaged_logs import (
    RECORDS_COUNT,
    TIME,
    build,
    expected_values,
    flip_bit,
    values_of,
)

MARKER = ".kafka_cleanshutdown"
EPOCHS = "leader-epoch-checkpoint"


@pytest.fixture(scope="module")
def closed(tmp_path_factory):
    """A log that was closed cleanly; to be copied."""
    return build(tmp_path_factory.mktemp("closed") / "orders-0", clean=True)


@pytest.fixture
def log_directory(closed, tmp_path):
    return closed.copy(tmp_path / "orders-0")


def check_content(log):
    """Records, a lookup by offset in each segment, and by time: what indexes are for."""
    assert values_of(log) == expected_values(0, RECORDS_COUNT)
    for offset in range(RECORDS_COUNT):
        (first, *_) = log.scan(offset).tuples()
        assert first[0] == offset
        assert log.offset_for_timestamp(TIME + offset) == offset
        assert next(iter(log.read(offset, 1))).offset == offset


# ---- the clean marker ----------------------------------------------------------------------------


def test_a_clean_log_is_opened_without_reading_records(log_directory):
    """[DUR-24, DUR-51, LDR-27, LDR-28] Its recovery point is the log end."""
    with log_directory.open() as log:
        report = log.report
        assert (report.clean, report.scanned_bytes, report.rewritten_bytes) == (True, 0, 0)
        assert report.recovery_point == log.recovery_point == RECORDS_COUNT
        check_content(log)


def test_a_clean_close_changes_no_byte_of_a_log_that_was_only_opened(log_directory):
    """[DUR-56]"""
    log_directory.open().close()  # it is a copy until then: its marker has another inode
    before = log_directory.snapshot()

    log_directory.open().close()

    assert log_directory.snapshot() == before


def test_the_marker_is_gone_while_the_log_is_not_as_it_was_closed(log_directory):
    """[DUR-24] From the first change on, until everything else of the close has succeeded."""
    with log_directory.open() as log:
        assert MARKER in log_directory.names()
        log.append([(None, b"a change")])
        assert MARKER not in log_directory.names()

    assert MARKER in log_directory.names()


def test_without_the_marker_everything_above_the_recovery_point_is_checked(log_directory):
    """[DUR-51] The recovery point of a clean close is the log end: one segment is read."""
    (log_directory.path / MARKER).unlink()

    with log_directory.open() as log:
        assert not log.report.clean
        assert log.report.reason == "no clean shutdown marker"
        assert log.report.scanned_bytes == log_directory.last.stat().st_size
        check_content(log)


@pytest.mark.parametrize(
    "content", [b"", b"{}", b'{"version":0,"brokerEpoch":7}', b"\xff" * 100, b"x" * 65536]
)
def test_a_marker_that_is_not_ours_does_not_count(log_directory, content):
    """[DUR-24] A marker is advice."""
    (log_directory.path / MARKER).write_bytes(content)

    with log_directory.open() as log:
        assert not log.report.clean
        check_content(log)


def test_a_log_that_another_program_went_on_writing_is_not_clean(log_directory):
    """[DUR-65] A broker leaves our marker where it is; the log no longer fits it."""
    marker = (log_directory.path / MARKER).read_bytes()
    with log_directory.open() as log:
        log.append([(None, b"more")])
    (log_directory.path / MARKER).write_bytes(marker)

    with log_directory.open() as log:
        assert not log.report.clean
        assert "another program wrote" in log.report.reason
        assert log.log_end_offset == RECORDS_COUNT + 1


# ---- derived files -------------------------------------------------------------------------------

INDEX_DAMAGE = {
    "lost": lambda path: path.unlink(),
    "empty": lambda path: os.truncate(path, 0),
    "zeros": lambda path: path.write_bytes(bytes(path.stat().st_size)),
    "padded": lambda path: path.write_bytes(path.read_bytes() + bytes(4096)),
    "garbage": lambda path: path.write_bytes(b"\x7e\x81\xa5" * 400),
    "two blanks": lambda path: path.write_bytes(b"  "),
}


OFFSET_INDEX_DAMAGE = {
    "one entry short": lambda path: os.truncate(path, max(path.stat().st_size - 8, 0)),
    "torn entry": lambda path: os.truncate(path, max(path.stat().st_size - 3, 0)),
    "of another segment": lambda path: path.write_bytes(
        min(path.parent.glob("*.index")).read_bytes()
    ),
}


@pytest.mark.parametrize("marked_clean", [False, True])
@pytest.mark.parametrize("kind", ["index", "timeindex"])
@pytest.mark.parametrize("damage", INDEX_DAMAGE)
def test_a_damaged_index_costs_no_record_and_no_answer(log_directory, damage, kind, marked_clean):
    """[DUR-8, DUR-52, DUR-53, LDR-15] Each index in turn, for writers and readers."""
    if not marked_clean:
        (log_directory.path / MARKER).unlink()
    for base in log_directory.bases:
        INDEX_DAMAGE[damage](log_directory.file(base, kind))

    for read_only in (True, False, False):
        with log_directory.open(read_only=read_only) as log:
            check_content(log)


@pytest.mark.parametrize("marked_clean", [False, True])
@pytest.mark.parametrize("damage", OFFSET_INDEX_DAMAGE)
def test_an_offset_index_that_points_elsewhere_is_noticed(log_directory, damage, marked_clean):
    """[DUR-53] There must be a batch header at the position, at or below the offset."""
    if not marked_clean:
        (log_directory.path / MARKER).unlink()
    for base in log_directory.bases:
        OFFSET_INDEX_DAMAGE[damage](log_directory.file(base, "index"))

    for read_only in (True, False, False):
        with log_directory.open(read_only=read_only) as log:
            check_content(log)


@pytest.mark.parametrize("marked_clean", [False, True])
@pytest.mark.parametrize("kind", ["index", "timeindex"])
def test_an_index_of_no_whole_number_of_entries_is_rebuilt(log_directory, kind, marked_clean):
    """[DUR-8, DUR-97] In every segment; the last entry of a time index is the largest time.

    Behind a clean close the names are enough for the open [DUR-51]: who meets such an index goes
    around it, and the close makes it anew [DUR-53].
    """
    if not marked_clean:
        (log_directory.path / MARKER).unlink()
    torn = [
        path
        for base in log_directory.bases
        if (path := log_directory.file(base, kind)).stat().st_size
    ]
    for path in torn:
        os.truncate(path, path.stat().st_size - 3)

    with log_directory.open() as log:
        assert marked_clean or set(log.report.rebuilt) >= {path.name for path in torn}
        check_content(log)
    with log_directory.open() as log:
        check_content(log)
        assert log.verify().ok


def test_a_lost_index_is_written_again_as_it_was(log_directory):
    """[DUR-52] At a clean open too; Kafka does so for the offset index only [LDR-15]."""
    before = log_directory.snapshot()
    lost = [log_directory.file(base, kind) for base in (0, 17) for kind in ("index", "timeindex")]
    for path in lost:
        path.unlink()

    with log_directory.open() as log:
        assert log.report.clean
        assert sorted(log.report.rebuilt) == sorted(path.name for path in lost)

    after = log_directory.snapshot()
    for path in lost:
        if path.suffix == ".index":
            assert after[path.name] == before[path.name]


@pytest.mark.parametrize("content", [None, b"", b"garbage", b"0\n1\n-4 0\n", b"0\n9\n0 0\n"])
def test_a_lost_epoch_checkpoint_is_made_from_the_batches(tmp_path, content):
    """[DUR-21, SEG-40, EPC-11] Unreadable, or gone."""
    settings = {"durability": "none", "segment_ms": None}
    with segstore.open(tmp_path / "orders-0", **settings) as log:
        for epoch in (0, 0, 3, 3, 7):
            encoded = _core.encode_records(
                [(None, b"v")], _core.BatchOptions(), codec_table(), 0, 1000
            )
            log.append_as_leader(encoded, epoch)
            log.roll()
    checkpoint = tmp_path / "orders-0" / EPOCHS
    before = checkpoint.read_bytes()
    if content is None:
        checkpoint.unlink()
    else:
        checkpoint.write_bytes(content)
    (tmp_path / "orders-0" / MARKER).unlink()

    with segstore.open(tmp_path / "orders-0", **settings) as log:
        unreadable = content not in {None, b""}
        assert any(EPOCHS in text for text in log.report.warnings) == unreadable

    if content != b"":  # no epochs at all is what an empty file says [format.md 15.1]
        assert checkpoint.read_bytes() == before


@pytest.mark.parametrize("content", [None, b"", b"garbage", b"version 9\n", b"\xff" * 99])
def test_a_lost_state_file_makes_less_known_and_loses_nothing(log_directory, content):
    """[DUR-64]"""
    state = log_directory.path / ".segstore"
    if content is None:
        state.unlink()
    else:
        state.write_bytes(content)

    with log_directory.open() as log:
        check_content(log)
    assert f"contiguous_from {RECORDS_COUNT}".encode() in state.read_bytes()


def test_damage_behind_a_clean_marker_is_noticed(log_directory):
    """[DUR-51] The last batch must end where the file ends. Kafka fails, or misses it [LDR-34]."""
    for count in (1, 17, 18, 4096):
        with log_directory.last.open("ab") as file:
            file.write(bytes(count))

        with log_directory.open() as log:
            assert not log.report.clean
            assert log.report.truncated_bytes == count
            check_content(log)


# ---- leftovers -----------------------------------------------------------------------------------


def test_what_interrupted_operations_left_is_removed(log_directory):
    """[DUR-55, LDR-1, LDR-11] Kafka: LogLoaderTest.testBogusIndexSegmentsAreRemoved."""
    ours = [
        "00000000000000000005.log.deleted",
        "00000000000000000005.index.deleted",
        "00000000000000000009.log.cleaned",
        "00000000000000000009.timeindex.cleaned",
        "00000000000000000009.log.swap",  # not below every .cleaned: its set is incomplete [LDR-3]
        "leader-epoch-checkpoint.tmp",
        "recovery-point-offset-checkpoint.tmp",
        "00000000000000000005.index",
        "00000000000000000005.timeindex",
    ]
    foreign = ["notes.txt", "00000000000000000005.log.bak", "5.log", "x.deleted", "x.swap"]
    for name in ours + foreign:
        (log_directory.path / name).write_bytes(b"x" * 10)
    (log_directory.path / "00000000000000000006.log.deleted").mkdir()

    with log_directory.open() as log:
        assert sorted(log.report.removed) == sorted(ours)
        assert log.report.clean
        check_content(log)
    assert not log_directory.names() & set(ours)
    assert log_directory.names() >= {*foreign, "00000000000000000006.log.deleted"}


def test_a_complete_swap_replaces_what_it_was_made_of(log_directory):
    """[DUR-20, LDR-4..LDR-6] And a reader sees the log as it will be."""
    replaced = log_directory.bases[1:3]
    merged = b"".join(log_directory.file(base).read_bytes() for base in replaced)
    swap = log_directory.path / f"{replaced[0]:020d}.log.swap"
    swap.write_bytes(merged)

    with log_directory.open(read_only=True) as log:
        assert values_of(log) == expected_values(0, RECORDS_COUNT)
    with log_directory.open() as log:
        check_content(log)
    assert not swap.exists()
    assert log_directory.file(replaced[0]).read_bytes() == merged
    assert replaced[1] not in log_directory.bases


@pytest.mark.parametrize("what", ["empty", "garbage", "flipped bit", "torn"])
def test_a_swap_that_is_no_good_leaves_the_old_segments(log_directory, what):
    """[DUR-6, DUR-20] What was compacted may be compacted again; what is gone is gone."""
    base = log_directory.bases[-1]
    swap = log_directory.path / f"{base:020d}.log.swap"
    good = log_directory.file(base).read_bytes()
    content = {"empty": b"", "garbage": b"x" * 100, "flipped bit": good, "torn": good[:-1]}[what]
    swap.write_bytes(content)
    if what == "flipped bit":
        flip_bit(swap, 500)

    for read_only in (True, False):
        with log_directory.open(read_only=read_only) as log:
            check_content(log)
    assert not swap.exists()


# ---- log start -----------------------------------------------------------------------------------


def set_log_start(directory, offset):
    text = f"0\n1\norders 0 {offset}\n"
    (directory.path / "log-start-offset-checkpoint").write_text(text)


def test_segments_below_the_log_start_are_removed(log_directory):
    """[DUR-5, DUR-18, LDR-9] They were deleted and acked, then the writer died."""
    bases = log_directory.bases
    set_log_start(log_directory, bases[2] + 1)
    (log_directory.path / MARKER).unlink()

    with log_directory.open() as log:
        assert log.log_start_offset == bases[2] + 1
        assert values_of(log) == expected_values(bases[2] + 1, RECORDS_COUNT)
    assert log_directory.bases == bases[2:]


def test_a_log_start_above_the_log_end_restarts_and_keeps_what_was_there(log_directory):
    """[LDR-25, LDR-26, DUR-18, DUR-59] After a crash; one empty segment there, no epochs."""
    set_log_start(log_directory, 1000)
    (log_directory.path / ".kafka_cleanshutdown").unlink()

    with log_directory.open() as log:
        assert any("log start 1000 lies above" in text for text in log.report.warnings)
        assert (log.log_start_offset, log.log_end_offset) == (1000, 1000)
        log.append([(None, b"first")])
        assert values_of(log) == [(1000, b"first")]
    assert log_directory.bases == [1000]


def test_an_unreadable_log_start_is_the_first_segments_base(log_directory):
    """[DUR-21]"""
    (log_directory.path / "log-start-offset-checkpoint").write_bytes(b"garbage")

    with log_directory.open() as log:
        assert log.log_start_offset == 0
        assert any("log-start" in text for text in log.report.warnings)
        check_content(log)


def test_a_new_log_is_empty_durable_and_says_that_it_is_new(tmp_path):
    """[DUR-11, DUR-58, LDR-26]"""
    with segstore.open(tmp_path / "a" / "b" / "orders-0") as log:
        assert (log.report.created, log.report.clean) == (True, True)
        assert (log.log_start_offset, log.log_end_offset, log.durable_offset) == (0, 0, 0)
    with segstore.open(tmp_path / "a" / "b" / "orders-0") as log:
        assert not log.report.created


def test_a_partition_made_again_does_not_inherit_a_recovery_point(tmp_path):
    """[DUR-51, DUR-65] The log directory still has a line of the one that was removed."""
    (tmp_path / "meta.properties").write_text("version=1\n")
    (tmp_path / "recovery-point-offset-checkpoint").write_text("0\n1\norders 0 5000\n")

    log = segstore.open(tmp_path / "orders-0", durability="none")
    assert log.report.created
    log.append([(None, b"v")] * 3)
    log.close_quietly()

    with segstore.open(tmp_path / "orders-0") as log:
        assert log.log_end_offset == 3
