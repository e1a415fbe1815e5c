"""Group commit: rounds of syncs that threads lead or wait for, one at a time [DUR-13, DUR-15]."""

from __future__ import annotations

import random
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from segstore._core import AppendLock, SyncRounds
from segstore.errors import ClosedError, FsyncFailedError, LogReadOnlyError
from segstore.log.flusher import Flusher
from segstore.log.local.segment import Segment
from tests.kits.log_kit import PATIENCE_SECONDS, lead_rounds_by_layers, wait_for

ONE = [(None, b"x")]


class HeldRound:
    """A round that has begun, and ends when it is let."""

    def __init__(self, rounds: SyncRounds) -> None:
        self.has_begun, self.may_end = threading.Event(), threading.Event()
        self.error: BaseException | None = None
        self._rounds = rounds
        self.thread = threading.Thread(target=self._lead)
        self.thread.start()
        assert self.has_begun.wait(PATIENCE_SECONDS)

    def _lead(self) -> None:
        try:
            self._rounds.join(self._round)
        except BaseException as error:  # noqa: BLE001 - looked at by the test
            self.error = error

    def _round(self) -> None:
        self.has_begun.set()
        assert self.may_end.wait(PATIENCE_SECONDS)

    def end(self) -> None:
        self.may_end.set()
        self.thread.join()


@pytest.fixture
def held_log(new_log, monkeypatch):
    """A log of one record whose next syncs set ``begun`` and wait for ``may_end``."""
    begun, may_end, real = threading.Event(), threading.Event(), Flusher._sync_segment

    def sync(self, segment, *, indexes):
        begun.set()
        assert may_end.wait(PATIENCE_SECONDS)
        real(self, segment, indexes=indexes)

    may_end.set()
    monkeypatch.setattr(Flusher, "_sync_segment", sync)
    lead_rounds_by_layers(monkeypatch)
    log = new_log(durability="sync")
    log.append(ONE)
    begun.clear()
    may_end.clear()
    yield log, begun, may_end
    may_end.set()


# ---- rounds --------------------------------------------------------------------------------------


def test_who_comes_first_leads_and_the_others_wait():
    rounds, led = SyncRounds(AppendLock()), []
    held = HeldRound(rounds)
    with ThreadPoolExecutor(4) as pool:
        joined = [pool.submit(rounds.join, lambda: led.append(1)) for _ in range(4)]
        time.sleep(0.05)
        assert not any(future.done() for future in joined)
        held.end()
        assert [future.result() for future in joined] == [False] * 4
    assert led == []
    assert rounds.join(lambda: led.append(1))
    assert led == [1]


def test_a_round_that_fails_lets_the_others_go():
    rounds = SyncRounds(AppendLock())

    def fail():
        raise OSError("no")

    for _ in range(3):
        with pytest.raises(OSError, match="no"):
            rounds.join(fail)
    assert rounds.join(rounds.begin)


def test_waiting_for_the_end_of_a_round():
    rounds = SyncRounds(AppendLock())
    rounds.wait()  # none runs
    held = HeldRound(rounds)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(rounds.wait)
        time.sleep(0.05)
        assert not waiting.done()
        held.end()
        assert waiting.result() is None


def control_c_later(seconds: float, when=lambda: True) -> None:
    """Send what the terminal sends, so long after *when*; the main thread gets it."""
    main = threading.main_thread().ident

    def send() -> None:
        wait_for(when)
        time.sleep(seconds)
        signal.pthread_kill(main, signal.SIGINT)

    threading.Thread(target=send).start()


@pytest.mark.parametrize(
    "wait", [SyncRounds.wait, lambda rounds: rounds.join(rounds.begin)], ids=["wait", "join"]
)
def test_a_signal_comes_through_to_who_waits(wait):
    """Control-C while another thread syncs: at once, not when the disk has answered."""
    rounds = SyncRounds(AppendLock())
    held = HeldRound(rounds)
    control_c_later(0.5)
    with pytest.raises(KeyboardInterrupt):
        wait(rounds)
    assert held.thread.is_alive()
    held.end()
    assert held.error is None


# ---- appends that wait ---------------------------------------------------------------------------


def test_an_append_is_not_released_by_a_sync_that_began_before_its_write(held_log):
    """[DUR-15] Its bytes may be missing from that one."""
    log, begun, may_end = held_log
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(log.append, ONE)
        assert begun.wait(PATIENCE_SECONDS)
        second = pool.submit(log.append, ONE)
        wait_for(lambda: log._lane_switch.lane.next_offset == 3)
        begun.clear()
        may_end.set()
        may_end.clear()
        if not begun.wait(0.5):  # the first sync may have seen nothing of so short a moment
            may_end.set()
        assert first.result().durable_offset >= 2
        assert begun.wait(PATIENCE_SECONDS)
        may_end.set()
        assert second.result().durable_offset == 3


def test_what_waits_for_its_sync_can_be_read_when_its_round_has_begun(held_log):
    log, begun, may_end = held_log
    with ThreadPoolExecutor(1) as pool:
        appended = pool.submit(log.append, ONE)
        assert begun.wait(PATIENCE_SECONDS)
        assert (log.log_end_offset, log.durable_offset) == (2, 1)
        assert len(list(log)) == 2
        may_end.set()
        assert appended.result().durable_offset == 2


def test_a_truncation_takes_away_what_waits_for_its_sync(held_log):
    """[DUR-15, TRU-1] It was written behind the log end that the truncation is told of."""
    log, begun, may_end = held_log
    with ThreadPoolExecutor(3) as pool:
        first = pool.submit(log.append, ONE)
        assert begun.wait(PATIENCE_SECONDS)
        second = pool.submit(log.append, ONE)
        wait_for(lambda: log._lane_switch.lane.next_offset == 3)
        assert log.log_end_offset == 2
        truncated = pool.submit(log.truncate_to, 2)
        may_end.set()
        assert truncated.result()
        assert {first.result().base_offset, second.result().base_offset} == {1, 2}
    assert log.log_end_offset == 2
    assert log.append(ONE).base_offset == 2


def test_control_c_while_a_sync_runs_that_another_thread_leads(held_log):
    """[DUR-15] The record was written, and is not acknowledged: it is there, and nothing hangs."""
    log, begun, may_end = held_log
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(log.append, [(None, b"first")])
        assert begun.wait(PATIENCE_SECONDS)
        control_c_later(0.2, lambda: log._lane_switch.lane.next_offset == 3)
        with pytest.raises(KeyboardInterrupt):
            log.append([(None, b"interrupted")])
        assert log.log_end_offset == 3
        may_end.set()
        assert first.result().durable_offset >= 2
    assert log.append(ONE).durable_offset == 4
    assert [record.value for record in log] == [b"x", b"first", b"interrupted", b"x"]


def test_who_waits_for_the_lock_of_a_log_that_fails_writes_nothing(new_log):
    """[DUR-35, DUR-38]"""
    log = new_log(durability="sync")
    log.append(ONE)
    log.append(ONE)
    with ThreadPoolExecutor(1) as pool:
        with log._append_lock:
            waiting = pool.submit(log.append, ONE)
            time.sleep(0.1)
            log._failure_mark.poison(FsyncFailedError("the disk is gone"))
        with pytest.raises(LogReadOnlyError):
            waiting.result(PATIENCE_SECONDS)
    assert log._lane_switch.lane.next_offset == 2
    assert len(list(log)) == 2


def test_who_waits_for_the_lock_of_a_log_that_rolls_goes_on_there(new_log):
    log = new_log(durability="sync")
    log.append(ONE)
    with ThreadPoolExecutor(1) as pool:
        with log._append_lock:
            waiting = pool.submit(log.append, ONE)
            time.sleep(0.1)
            log._writer.begin_change()
            log._writer.roll(None)
        assert waiting.result(PATIENCE_SECONDS).durable_offset == 2
    assert [segment.base_offset for segment in log.segments()] == [0, 1]


@pytest.mark.parametrize("threads", [4, 16])
def test_many_threads_share_their_syncs(new_log, monkeypatch, threads):
    """[DUR-3, DUR-15] Each record is durable when its append returns; in order for each thread."""
    rounds, real = [], Flusher.sync_round
    monkeypatch.setattr(
        Flusher,
        "sync_round",
        lambda *which: (rounds.append(1), real(*which)),  # a sync each
    )
    log = new_log(durability="sync", internal_segment_bytes=20_000)
    each = 60

    def write(thread: int) -> None:
        for number in range(each):
            info = log.append([(b"%d" % thread, b"%d" % number)] * (1 + number % 3))
            assert info.durable_offset > info.last_offset
            assert log.durable_offset > info.last_offset

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(write, range(threads)))
    found: dict[bytes, list[int]] = {}
    for record in log:
        found.setdefault(record.key, []).append(int(record.value))
    wanted = [number for number in range(each) for _ in range(1 + number % 3)]
    assert found == {b"%d" % thread: wanted for thread in range(threads)}
    assert 0 < len(rounds) < threads * each
    assert log.verify().ok


def test_appends_beside_truncations_rolls_and_flushes(new_log):
    """[DUR-13, DUR-15] Nobody waits for ever; what was not cut off is there, and verifies."""
    log = new_log(durability="sync", internal_segment_bytes=4000, file_delete_delay_ms=0)
    is_over = threading.Event()

    def write(thread: int) -> int:
        count = 0
        while not is_over.is_set():
            log.append([(b"%d" % thread, b"%d" % count)])
            count += 1
        return count

    def change() -> None:
        chooser = random.Random(7)
        try:
            for _ in range(60):
                end = log.log_end_offset
                change = chooser.randrange(4)
                if change == 0:
                    log.truncate_to(max(log.log_start_offset, end - chooser.randint(0, 30)))
                elif change == 1:
                    log.truncate_fully_and_start_at(end + 3)
                else:
                    (log.roll if change == 2 else log.flush)()
                durable_offset = log.durable_offset
                assert durable_offset <= log.log_end_offset  # no round brings back what was cut
                time.sleep(0.001)
        finally:
            is_over.set()

    with ThreadPoolExecutor(5) as pool:
        writers = [pool.submit(write, thread) for thread in range(4)]
        pool.submit(change).result()
        counts = [writer.result(PATIENCE_SECONDS) for writer in writers]
    assert sum(counts) > 0
    assert log.flush() == log.log_end_offset
    assert log.verify().ok


@pytest.mark.parametrize("recovery", ["safe", "kafka"])
def test_a_sync_waits_for_the_truncation_that_deletes_its_segment(new_log, monkeypatch, recovery):
    """[DUR-15] Files go before the log is without them: in between a sync finds them deleted."""
    log = new_log(recovery=recovery)
    log.append(ONE)
    local_log, syncs = log._local_log, []
    (segment,) = log.segments()
    real = local_log._create_segment

    with ThreadPoolExecutor(1) as pool:

        def create(offset: int):
            arguments = (segment, log._flusher._append_lock)
            syncs.append(pool.submit(local_log.sync_segment, *arguments, indexes=True))
            time.sleep(0.05)
            return real(offset)

        monkeypatch.setattr(local_log, "_create_segment", create)
        log.truncate_fully_and_start_at(7)
        (sync,) = syncs
        assert sync.result(PATIENCE_SECONDS) is None


def test_a_forced_flush_is_a_round(new_log, monkeypatch):
    """[DUR-35, FLU-3] Of two syncs of one descriptor only one would hear of an error."""
    log, synced = new_log(durability="sync"), []
    log.append(ONE)
    monkeypatch.setattr(Segment, "flush", lambda *_, **__: synced.append(1))
    held = HeldRound(log._flusher.rounds)
    with ThreadPoolExecutor(1) as pool:
        flushed = pool.submit(log._flusher.sync_active_segment)
        time.sleep(0.05)
        assert not synced
        held.end()
        flushed.result()
    assert synced


def test_who_waits_is_told_when_the_log_is_closed(held_log):
    """[DUR-70] Closing syncs what was written: the append is durable, or says it is closed."""
    log, begun, may_end = held_log
    with ThreadPoolExecutor(6) as pool:
        first = pool.submit(log.append, ONE)
        assert begun.wait(PATIENCE_SECONDS)
        others = [pool.submit(log.append, ONE) for _ in range(4)]
        wait_for(lambda: log._lane_switch.lane.next_offset == 6)
        closing = pool.submit(log.close)
        time.sleep(0.05)
        may_end.set()
        closing.result(PATIENCE_SECONDS)
        for waiting in (first, *others):
            error = waiting.exception(PATIENCE_SECONDS)
            assert error is None or isinstance(error, ClosedError)
