"""Files by blocks: each is fetched once, the next ones ahead, and none that nobody comes near."""

from __future__ import annotations

import os
import threading
import time
import weakref
from concurrent.futures import Future
from contextlib import closing, suppress

import numpy as np
import pytest

from segstore.errors import ClosedError, LogNotFoundError, ReadIOError
from segstore.remote import block_reader
from segstore.remote.block_memory import BlockMemory
from segstore.remote.block_reader import BlockReader
from segstore.remote.remote_file import RemoteFile
from segstore.remote.spool import Spool

BLOCK = 1000


class Store:
    """Bytes that say where they lie; notes what was asked."""

    url = key = "test://store"
    requests_at_once = 4

    def __init__(self) -> None:
        self.asked: list[tuple[str, int, int]] = []
        self.fails_at: int | None = None
        self.error: Exception = ReadIOError("the store is down", file="test://store/a.log")
        self.may_answer = threading.Event()
        self.may_answer.set()

    def read_range(self, file, start, end):
        self.asked.append((file.name, start, end))
        assert self.may_answer.wait(60)
        if self.fails_at is not None and start <= self.fails_at < end:
            raise self.error
        return content(file)[start:end]

    def read_into(self, *_):
        return False

    @property
    def bytes_asked(self) -> int:
        return sum(end - start for _, start, end in self.asked)


def content(file) -> bytes:
    seed = file.name.encode() + b"-%d " % file.size_bytes
    return (seed * (file.size_bytes // len(seed) + 1))[: file.size_bytes]


def file_of(name="a.log", size=100 * BLOCK - 1, phase=0, identity="1"):
    return RemoteFile(name, size, identity, None, BLOCK, phase)


@pytest.fixture
def store():
    return Store()


@pytest.fixture
def spool(tmp_path):
    return Spool(str(tmp_path / "spool"), 1_000_000)


def read(file, position, size):
    target = bytearray(size)
    with memoryview(target) as view:
        return bytes(target[: file.read_into(view, position)])


@pytest.fixture
def opened(store, spool):
    """Makes readers that are closed at the end."""
    made = []

    def open_files(*files):
        made.append(BlockReader(store, spool, files))
        return made[-1]

    yield open_files
    store.may_answer.set()
    for reader in made:
        reader.close()
        reader.close()
    assert not [one for one in threading.enumerate() if one.name.startswith("segstore-fetch")]


@pytest.mark.parametrize("phase", [0, 1, 999])
@pytest.mark.parametrize("size", [1, 999, 1000, 1001, 3456])
def test_any_range_has_the_bytes_of_the_file(opened, phase, size):
    """[RDB-1] Also beyond the end, where there are none."""
    file = file_of(size=size, phase=phase)
    reader = opened(file)
    for start in range(0, size + 2, 97):
        for length in (0, 1, 500, 1000, 2500):
            expected = content(file)[start : start + length]
            assert read(reader.files["a.log"], start, length) == expected


def test_a_look_fetches_its_blocks_by_one_request_and_once(opened, store):
    reader = opened(file_of())
    file = reader.files["a.log"]
    for _ in range(3):
        read(file, 50_500, 2000)

    assert store.asked == [("a.log", 50_000, 53_000)]


def test_what_another_reader_fetched_is_in_the_spool(opened, store):
    """[RDB-3] By identity: another file of that name is fetched."""
    for _ in range(2):
        read(opened(file_of()).files["a.log"], 0, 5000)
    assert store.bytes_asked == 5000
    read(opened(file_of(identity="2")).files["a.log"], 0, 5000)
    assert store.bytes_asked == 10_000
    for _ in range(2):
        read(opened(file_of(identity=None)).files["a.log"], 0, 5000)
    assert store.bytes_asked == 20_000


def read_on(reader, file):
    """Read all of it as a scan does."""
    whole = content(file)
    for start in range(0, file.size_bytes, 500):
        assert read(reader.files[file.name], start, 500) == whole[start : start + 500]


@pytest.mark.parametrize("is_one_reader", [False, True])
def test_what_was_fetched_ahead_twice_is_in_the_spool(
    opened, store, spool, monkeypatch, is_one_reader
):
    """[RDB-3] One scan fills no spool; the second one is what the third reads again."""
    monkeypatch.setattr(block_reader, "AHEAD_BYTES", 4 * BLOCK)
    monkeypatch.setattr(block_reader, "REQUEST_BYTES", BLOCK)
    monkeypatch.setattr(block_reader, "MEMORY", BlockMemory(5 * BLOCK))
    file = file_of()
    reader = opened(file)
    read_on(reader, file)
    held = sum(one.stat().st_size for one in (spool.directory / "objects").iterdir())
    assert store.bytes_asked == file.size_bytes
    assert held < file.size_bytes // 5
    for _ in range(2):
        read_on(reader if is_one_reader else opened(file), file)

    assert store.bytes_asked <= 2 * file.size_bytes


def test_several_that_read_on_together_fetch_each_block_once(opened, store, monkeypatch):
    """They share what is fetched ahead: so none of it has to go before it was read."""
    monkeypatch.setattr(block_reader, "AHEAD_BYTES", 12 * BLOCK)
    monkeypatch.setattr(block_reader, "REQUEST_BYTES", BLOCK)
    monkeypatch.setattr(block_reader, "MEMORY", BlockMemory(18 * BLOCK))
    files = [file_of(f"{name}.log", 60 * BLOCK) for name in "abc"]
    reader = opened(*files)
    for start in range(0, 60 * BLOCK, 500):
        for file in files:
            assert read(reader.files[file.name], start, 500) == content(file)[start : start + 500]

    assert store.bytes_asked == 180 * BLOCK


def test_logs_share_memory_and_threads(opened, store, monkeypatch):
    """Of a topic with many partitions all logs are open; the process has one limit for them."""
    memory = BlockMemory(18 * BLOCK)
    monkeypatch.setattr(block_reader, "MEMORY", memory)
    monkeypatch.setattr(block_reader, "AHEAD_BYTES", 12 * BLOCK)
    monkeypatch.setattr(block_reader, "REQUEST_BYTES", BLOCK)
    files = [file_of(f"{name}.log", 60 * BLOCK) for name in "abcdef"]
    readers = [opened(file) for file in files]
    for start in range(0, 60 * BLOCK, 500):
        for reader, file in zip(readers, files, strict=True):
            assert read(reader.files[file.name], start, 500) == content(file)[start : start + 500]
        assert memory._kept_bytes <= 18 * BLOCK
        named = [one for one in threading.enumerate() if one.name.startswith("segstore-fetch")]
        assert len(named) <= 4

    assert store.bytes_asked == 360 * BLOCK
    for reader in readers:
        reader.close()
    assert (memory._kept_bytes, len(memory._kept), len(memory._going)) == (0, 0, 0)


def test_a_fork_has_neither_locks_nor_threads_of_its_parent(opened, store):
    """What it reads, it fetches itself, or with threads of its own."""
    reader = opened(file_of())
    read_on(reader, file_of())
    with block_reader.MEMORY._lock, block_reader.THREADS._lock:
        child = os.fork()
    if not child:
        try:
            other = BlockReader(store, Spool(str(reader._spool.directory)), [file_of()])
            read_on(other, file_of())
            other.close()
            os._exit(0)
        finally:
            os._exit(1)

    assert within_time(lambda: os.waitpid(child, 0)[1] == 0)


def test_a_store_for_one_thread_gets_one(opened, store, monkeypatch):
    monkeypatch.setattr(store, "requests_at_once", 1)
    monkeypatch.setattr(block_reader, "REQUEST_BYTES", BLOCK)
    reader = opened(file_of())
    for start in range(0, 60 * BLOCK, 500):
        read(reader.files["a.log"], start, 500)
        named = [one for one in threading.enumerate() if one.name.startswith("segstore-fetch")]
        assert len(named) <= 1


def test_notes_that_cannot_be_kept_keep_no_block(store, spool):
    """As without a folder; and an object without identity may be another one the next time."""
    assert not spool.note_fetched(store, file_of(identity=None), 0, 5)
    assert not spool.note_fetched(store, file_of(), 0, 5)
    assert not spool.note_fetched(store, file_of(), 6, 9)
    assert spool.note_fetched(store, file_of(), 5, 7)
    assert not spool.note_fetched(store, file_of(identity="2"), 5, 7)
    for one in (spool.directory / "objects").iterdir():
        one.unlink()
    (spool.directory / "objects").rmdir()

    assert not spool.note_fetched(store, file_of(), 5, 7)


def test_a_file_of_this_machine_is_read_in_place_whatever_the_others_are(opened, store, spool):
    """As of a bucket at a URL and a broker's directory: no block, no thread, no copy."""

    def in_place(file, start, target):
        target[:] = content(file)[start : start + len(target)]
        return True

    store.read_into = in_place
    file = file_of()
    read_on(opened(file), file)

    assert store.asked == []
    assert list((spool.directory / "objects").iterdir()) == []


def test_a_block_that_a_crash_cut_is_fetched_again(opened, store, spool):
    """Its CRC says so."""
    read(opened(file_of()).files["a.log"], 0, 3000)
    cut, zeros, _ = (spool.directory / "objects").iterdir()
    for place, data in ((cut, cut.read_bytes()[:-1]), (zeros, bytes(BLOCK + 4))):
        place.unlink()
        place.write_bytes(data)
    store.asked.clear()
    file = file_of()

    assert read(opened(file).files["a.log"], 0, 3000) == content(file)[:3000]
    assert store.bytes_asked == 2000


def test_blocks_leave_room_in_the_spool(store, tmp_path):
    """Those not used for longest go; a block larger than the spool is not kept."""
    spool = Spool(str(tmp_path / "small"), 20 * BLOCK)
    reader = BlockReader(store, spool, [file_of()])
    for start in range(0, 90 * BLOCK, 3 * BLOCK):  # no two reads are neighbours
        read(reader.files["a.log"], start, 10)
        held = sum(one.stat().st_size for one in (spool.directory / "objects").iterdir())
        assert held <= 20 * BLOCK
    reader.close()
    assert held > 10 * BLOCK
    tiny = BlockReader(store, Spool(str(tmp_path / "tiny"), BLOCK), [file_of()])
    assert read(tiny.files["a.log"], 5, 10) == content(file_of())[5:15]
    tiny.close()
    assert list((tmp_path / "tiny" / "objects").iterdir()) == []


def test_kept_blocks_hold_no_more_memory_than_the_limit(opened, store, monkeypatch):
    """A block that is a part of an answer keeps all of it in memory, and counts as that."""
    monkeypatch.setattr(block_reader, "MEMORY", BlockMemory(20 * BLOCK))
    monkeypatch.setattr(block_reader, "AHEAD_BYTES", 0)
    answers: list[weakref.ref] = []
    read_range = store.read_range

    def noted(file, start, end):
        data = np.frombuffer(read_range(file, start, end), np.uint8)
        answers.append(weakref.ref(data))
        return memoryview(data)

    monkeypatch.setattr(store, "read_range", noted)
    file = file_of()
    reader = opened(file).files["a.log"]
    for start in range(0, 90 * BLOCK, 10 * BLOCK):
        assert read(reader, start, 10 * BLOCK) == content(file)[start : start + 10 * BLOCK]
        for hot in range(0, start + 1, 10 * BLOCK):  # one block of each answer stays in use
            assert read(reader, hot, 10) == content(file)[hot : hot + 10]
        held = sum(one.nbytes for ref in answers if (one := ref()) is not None)
        assert held <= 20 * BLOCK


def test_who_reads_on_gets_the_next_blocks_ahead_in_order(opened, store):
    """Half as many as were read so far; over the end of a file; each byte once."""
    files = [file_of(f"{name}.log", 20 * BLOCK) for name in "abc"]
    reader = opened(*files)
    read_bytes = 0
    for file in files:
        for start in range(0, file.size_bytes, 500):
            assert read(reader.files[file.name], start, 500) == content(file)[start : start + 500]
            read_bytes += 500
            assert store.bytes_asked <= 1.5 * read_bytes + BLOCK

    assert store.bytes_asked == 60 * BLOCK
    assert len(store.asked) < 30  # of 60 blocks


def test_an_error_ahead_is_raised_where_the_reader_gets_there(opened, store):
    """[DUR-144] And the next try asks again."""
    store.fails_at = 9500
    reader = opened(file_of())
    file = reader.files["a.log"]
    for start in range(0, 9000, 500):
        assert read(file, start, 500) == content(file_of())[start : start + 500]
    with pytest.raises(ReadIOError, match="the store is down"):
        read(file, 9000, 500)
    store.fails_at = None

    assert read(file, 9000, 500) == content(file_of())[9000:9500]


def test_an_object_that_is_gone_is_told_and_noted(opened, store):
    """[SEL-14] [RDB-5] No local log lacks a file: so it is not taken for one."""
    store.fails_at, store.error = 500, LogNotFoundError("gone", file="test://store/a.log")
    reader = opened(file_of())
    with pytest.raises(ReadIOError, match=r"test://store/a.log: .*open the log again"):
        read(reader.files["a.log"], 0, 10)

    assert reader.gone is store.error


def test_closing_gives_up_what_is_to_come(opened, store, monkeypatch):
    """What waits for a block is told that the log is closed."""
    monkeypatch.setattr(block_reader, "REQUEST_BYTES", 2 * BLOCK)
    reader = opened(file_of())
    file = reader.files["a.log"]
    for start in range(0, 40 * BLOCK, BLOCK):
        read(file, start, BLOCK)
    while not reader._memory.holds(reader._owner, 40):  # it was fetched ahead
        time.sleep(0.001)
    store.may_answer.clear()
    store.asked.clear()
    read(file, 40 * BLOCK, BLOCK)
    closing = threading.Thread(target=reader.close)
    closing.start()
    while not reader._is_closed:
        pass
    store.may_answer.set()
    closing.join(60)

    assert len(store.asked) <= store.requests_at_once
    with pytest.raises(ClosedError):
        read(file, 0, 10)


def test_threads_that_want_one_block_fetch_it_once(opened, store):
    reader = opened(file_of())
    store.may_answer.clear()
    found = []
    threads = [
        threading.Thread(target=lambda: found.append(read(reader.files["a.log"], 7000, 100)))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    store.may_answer.set()
    for thread in threads:
        thread.join(60)

    assert found == [content(file_of())[7000:7100]] * 4
    assert store.asked == [("a.log", 7000, 8000)]


def within_time(call):
    """What *call* returns on another thread; it has a minute, so that no test waits for ever."""
    found = []
    thread = threading.Thread(target=lambda: found.append(call()), daemon=True)
    thread.start()
    thread.join(60)
    assert found, "it waits for ever"
    return found[0]


@pytest.mark.parametrize("error", [RuntimeError("no new thread"), KeyboardInterrupt()])
def test_a_thread_that_cannot_be_started_keeps_nobody_waiting(opened, store, monkeypatch, error):
    """As at the end of the process, and when Ctrl-C comes just then."""
    reader = opened(file_of())
    file = reader.files["a.log"]

    def refuse(*_arguments):
        raise error

    monkeypatch.setattr("concurrent.futures.ThreadPoolExecutor.submit", refuse)
    whole = content(file.file)

    def read_all():
        for start in range(0, 40 * BLOCK, BLOCK):
            found = b""
            while not found:
                with suppress(KeyboardInterrupt):
                    found = read(file, start, BLOCK)
            assert found == whole[start : start + BLOCK]
        return True

    assert within_time(read_all)
    assert store.bytes_asked < 60 * BLOCK


def test_a_control_c_between_noting_a_block_and_fetching_it_keeps_nobody_waiting(
    opened, monkeypatch
):
    """Nor does one while what was fetched is noted."""
    reader = opened(file_of())
    file = reader.files["a.log"]
    whole = content(file.file)

    def stop(*_arguments):
        raise KeyboardInterrupt

    for number, name in enumerate(["_fetch", "_blocks_of", "_end"]):
        with monkeypatch.context() as patched:
            patched.setattr(reader, name, stop)
            with pytest.raises(KeyboardInterrupt):
                read(file, 10_000 * number, 3000)
        at = 10_000 * number + 1000
        assert within_time(lambda at=at: read(file, at, 3000)) == whole[at : at + 3000]


@pytest.mark.parametrize("is_begun", [False, True])
def test_a_control_c_while_a_fetch_begins_keeps_nobody_waiting(opened, monkeypatch, is_begun):
    """Just before or after it is noted as begun."""
    reader = opened(file_of())
    file = reader.files["a.log"]
    begin = Future.set_running_or_notify_cancel

    def stop(coming):
        if is_begun:
            begin(coming)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Future, "set_running_or_notify_cancel", stop)
        with pytest.raises(KeyboardInterrupt):
            read(file, 0, 3000)
    assert within_time(lambda: read(file, 1000, 3000)) == content(file.file)[1000:4000]


def test_who_needs_a_block_does_not_wait_for_a_thread_that_has_not_begun(opened, store):
    """All threads are with other blocks, and this one is next to come."""
    reader = opened(file_of())
    file = reader.files["a.log"]
    run = reader._begin(file, 50, 52, is_ahead=True)

    assert within_time(lambda: read(file, 51_000, 10)) == content(file.file)[51_000:51_010]
    assert store.asked == [("a.log", 50_000, 53_000)]
    reader._fetch_ahead(run)
    assert store.asked == [("a.log", 50_000, 53_000)]


class Near(Store):
    """A folder of this machine."""

    url = key = "/a/folder"

    def __init__(self, *, has_files: bool) -> None:
        super().__init__()
        self.has_files = has_files
        self.gone = False

    def read_into(self, file, start, target):
        if self.gone:
            raise LogNotFoundError("gone", file=file.name)
        if self.has_files:
            target[:] = content(file)[start : start + len(target)]
        return self.has_files


def test_files_of_this_machine_are_read_in_place(spool):
    store = Near(has_files=True)
    with closing(BlockReader(store, spool, [file_of()])) as reader:
        file = reader.files["a.log"]
        assert read(file, 99 * BLOCK - 7, 5000) == content(file.file)[99 * BLOCK - 7 :]
        assert read(file, 17, 20_000) == content(file.file)[17:20_017]
        assert store.asked == []
        store.gone = True
        with pytest.raises(ReadIOError, match="not there any more"):
            read(file, 0, 1)
        assert isinstance(reader.gone, LogNotFoundError)
    with pytest.raises(ClosedError):
        read(file, 0, 1)


def test_blocks_of_a_folder_that_are_to_be_undone_come_by_read_range(spool):
    store = Near(has_files=False)
    with closing(BlockReader(store, spool, [file_of()])) as reader:
        file = reader.files["a.log"]
        assert read(file, 17, 20) == content(file.file)[17:37]
        assert store.asked == [("a.log", 0, BLOCK)]
