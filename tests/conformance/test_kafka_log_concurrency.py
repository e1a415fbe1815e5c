"""Kafka's LogConcurrencyTest: a reader beside a writer that also truncates.

Kafka bounds the reader by the high watermark; an embedded log has no replicas, so the bound is the
durable offset: what is above it may be truncated, what is below never changes.
"""

from __future__ import annotations

import random
import threading

import pytest

from tests.kits.log_kit import at, batch

END = 800


def write(log, stop: threading.Event, seed: int) -> None:
    """Append as leader or follower, or change the role and truncate to what is durable."""
    chance = random.Random(seed)
    is_leader, epoch = True, 0
    while log.durable_offset < END and not stop.is_set():
        what = chance.randrange(10)
        if what == 0:
            is_leader, epoch = not is_leader, epoch + 1
            if not is_leader:
                assert log._background.wait_until_idle()  # nothing becomes durable meanwhile
                log.truncate_to(log.durable_offset)
        elif is_leader:
            log.flush()
            count = chance.randrange(1, 11)
            log.append_as_leader(batch([(None, b"%d" % epoch)] * count), leader_epoch=epoch)
        else:
            start = log.log_end_offset
            log.append_as_follower(at(start, chance.randrange(1, 11), epoch=epoch), epoch)
    log.flush()


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({}, id="LogConcurrencyTest.testUncommittedDataNotConsumed"),
        pytest.param(
            {"internal_segment_bytes": 237},
            id="LogConcurrencyTest.testUncommittedDataNotConsumedFrequentSegmentRolls",
        ),
    ],
)
@pytest.mark.parametrize("seed", [1, 2])
def test_uncommitted_data_is_not_consumed(new_log, settings, seed):
    """[CON-4, CON-5, CON-7, DUR-75] what was consumed is the prefix of the final log."""
    log = new_log(max_message_bytes=237 if settings else 1048588, **settings)
    stop = threading.Event()
    errors: list[BaseException] = []

    def run() -> None:
        try:
            write(log, stop, seed)
        except BaseException as error:  # noqa: BLE001 - told by the main thread
            errors.append(error)

    writer = threading.Thread(target=run)
    writer.start()
    consumed: list[tuple[int, int]] = []
    offset = 0
    try:
        while offset < END and not errors:
            for one in log.read(offset, 1, "durable").batches():
                consumed.append((one.base_offset, one.partition_leader_epoch))
                offset = one.last_offset + 1
    finally:
        stop.set()
        writer.join()
    assert errors == []
    final = [(b.base_offset, b.partition_leader_epoch) for b in log.scan().batches()]
    assert len(consumed) > 100
    assert consumed == final[: len(consumed)]
