"""Bytes that recovery takes out of a log are kept beside it [DUR-59]."""

from __future__ import annotations

import pytest

from segstore import _core
from segstore._core import FileBarrier
from segstore.errors import DiskFullError, WriteError
from segstore.log.recovery import quarantine as module
from segstore.log.recovery.quarantine import Quarantine, set_aside
from segstore.log.recovery.quarantined_file import QuarantineNames

LOG = "00000000000000000007.log"
KEPT = "00000000000000000007.quarantine-"


@pytest.fixture
def directory(tmp_path):
    directory = _core.Directory(str(tmp_path))
    yield directory
    directory.close()


def keep(directory, content, position=0):
    directory.create_file(LOG, content, FileBarrier.CLEAN_MARKER)
    return Quarantine(directory).keep_tail(LOG, position, len(content))


@pytest.mark.parametrize("piece_bytes", [1, 3, 7, 1024])
@pytest.mark.parametrize(
    ("content", "kept"),
    [
        (b"head" + b"tail", b"tail"),
        (b"head" + b"tail\0\0\0", b"tail\0\0\0"),
        (b"head" + b"\0\0ta\0\0\0il\0", b"\0\0ta\0\0\0il\0"),
        (b"head" + bytes(50) + b"tail" + bytes(50), bytes(50) + b"tail" + bytes(20)),
        (b"head" + bytes(100), None),
        (b"head", None),
    ],
)
def test_what_is_cut_is_kept_with_some_of_the_zeros_at_its_end(
    directory, monkeypatch, content, kept, piece_bytes
):
    """[DUR-59] However the pieces fall that it is read in; where bytes were is kept too.

    A record without headers ends in a zero: without it the last batch would be no batch.
    """
    monkeypatch.setattr(module, "_KEPT_ZEROS", 20)
    monkeypatch.setattr(module, "_PIECE_BYTES", piece_bytes)

    names, _ = keep(directory, content, position=4)

    assert names == ([] if kept is None else [f"{KEPT}1"])
    if kept is not None:
        assert directory.read_file(f"{KEPT}1") == kept


def test_no_more_is_kept_than_the_cap(directory, monkeypatch):
    """[DUR-59, DUR-102] Over all that one recovery cuts; the report says so."""
    monkeypatch.setattr(module, "MAX_QUARANTINE_BYTES", 10)
    monkeypatch.setattr(module, "_PIECE_BYTES", 4)

    _, warnings = keep(directory, b"x" * 50)

    assert directory.read_file(f"{KEPT}1") == b"x" * 10
    assert "only the first 10 bytes" in warnings[0]
    directory.unlink(LOG)
    keep(directory, bytes(8) + b"x" * 50)
    assert directory.read_file(f"{KEPT}2") == bytes(8) + b"xx"


def test_names_are_never_used_twice(directory):
    """[DUR-59] What an earlier recovery kept stays."""
    for content in (b"one", b"two", b"three"):
        if directory.exists(LOG):
            directory.unlink(LOG)
        directory.create_file(LOG, content, FileBarrier.CLEAN_MARKER)
        Quarantine(directory).keep_tail(LOG, 0, len(content))

    kept = [directory.read_file(f"{KEPT}{number}") for number in (1, 2, 3)]
    assert kept == [b"one", b"two", b"three"]


def test_a_whole_segment_is_renamed_and_its_indexes_go(directory):
    """[DUR-54, DUR-59]"""
    for kind in ("log", "index", "timeindex", "txnindex"):
        directory.create_file(f"00000000000000000007.{kind}", b"content", FileBarrier.CLEAN_MARKER)

    set_aside(directory, 7, f"{KEPT}1")

    assert directory.names() == [f"{KEPT}1"]
    assert directory.read_file(f"{KEPT}1") == b"content"


def test_a_whole_segment_gets_the_highest_number():
    """[DUR-59] The first free one would be older by its name than a cut that was left."""
    there = [LOG, f"{KEPT}2", f"{KEPT}10", "00000000000000000008.quarantine-20"]

    assert QuarantineNames(lambda: there).next_of(7) == f"{KEPT}11"


def test_a_whole_segment_takes_no_name_of_the_same_recovery():
    """[DUR-59] The names are read once."""
    names = QuarantineNames(list)
    assert names.next_of(7) == f"{KEPT}1"
    names.take([f"{KEPT}2"])

    assert names.next_of(7) == f"{KEPT}3"
    assert names.is_there(f"{KEPT}2")


def test_whole_batches_are_all_kept(directory, monkeypatch):
    """[DUR-59] In as many files as it takes, which together are what was cut."""
    monkeypatch.setattr(module, "MAX_QUARANTINE_BYTES", 10)
    monkeypatch.setattr(module, "_PIECE_BYTES", 4)
    content = b"x" * 13 + bytes(25) + b"y" * 9 + bytes(3)
    directory.create_file(LOG, content, FileBarrier.CLEAN_MARKER)

    names, warnings = Quarantine(directory).keep_tail(LOG, 0, len(content), holds_batches=True)

    assert names == [f"{KEPT}{number}" for number in range(1, 6)]
    kept = [directory.read_file(name) for name in names]
    assert b"".join(kept) == content
    assert max(map(len, kept)) == 10
    assert warnings == []


class FullDisk:
    """Has room for so many files."""

    path = "/data/orders-0"

    def __init__(self, room, error=DiskFullError):
        self.room, self.error, self.there = room, error, set()

    def exists(self, name):
        return name in self.there

    def read_range(self, _name, position, size):
        return b"x" * size if position < 100 else b""

    def write_file_atomically(self, name, _content, _barrier):
        self.there.add(name)
        if len(self.there) > self.room:
            raise self.error("it did not work")

    def unlink(self, name, *, missing_ok):
        assert missing_ok
        self.there.remove(name)


@pytest.mark.parametrize("room", [0, 1, 2])
def test_whole_batches_are_not_cut_where_they_cannot_be_kept(monkeypatch, room):
    """[DUR-57, DUR-59] They may have been acknowledged; nothing half-written stays."""
    monkeypatch.setattr(module, "MAX_QUARANTINE_BYTES", 40)
    disk = FullDisk(room)
    with pytest.raises(DiskFullError, match="No record was changed") as refused:
        Quarantine(disk).keep_tail(LOG, 0, 100, holds_batches=True)
    assert refused.value.file == f"/data/orders-0/{LOG}"
    assert disk.there == set()


@pytest.mark.parametrize("error", [WriteError, KeyboardInterrupt])
@pytest.mark.parametrize("holds_batches", [True, False])
def test_nothing_half_written_stays(monkeypatch, error, holds_batches):
    """[DUR-59] Each open tries again, and would leave another half."""
    monkeypatch.setattr(module, "MAX_QUARANTINE_BYTES", 40)
    disk = FullDisk(1 if holds_batches else 0, error)
    with pytest.raises(error):
        Quarantine(disk).keep_tail(LOG, 0, 100, holds_batches=holds_batches)
    assert disk.there == set()


def test_a_full_disk_does_not_keep_a_log_from_being_opened():
    """[DUR-57, DUR-59] Skipped on ENOSPC where nothing good is cut, nothing half-written stays."""
    disk = FullDisk(0)

    names, warnings = Quarantine(disk).keep_tail(LOG, 0, 100)

    assert disk.there == set()
    assert names == []
    assert "no room" in warnings[0]


def test_no_index_is_left_without_its_log(directory):
    """[DUR-7, DUR-59] A kill before the rename: the indexes would have shown lost records."""
    index = LOG.replace(".log", ".index")
    for name in (LOG, index):
        directory.create_file(name, b"content", FileBarrier.CLEAN_MARKER)
    seen = []

    class Watched:
        def rename(self, old, new):
            seen.append([name for name in directory.names() if name.endswith(".index")])
            directory.rename(old, new)

        def unlink(self, name, *, missing_ok):
            directory.unlink(name, missing_ok=missing_ok)

    set_aside(Watched(), 7, f"{KEPT}1")

    assert seen == [[]]
    assert sorted(directory.names()) == [f"{KEPT}1"]
