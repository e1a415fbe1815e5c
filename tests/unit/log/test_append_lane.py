"""The short way of an append: the same bytes, answers and state as by the layers [D11]."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest

from segstore.errors import ClosedError, SegstoreError
from segstore.log.lane_appender import LaneAppender
from tests.log_kit import TIME, Clock, at, batch

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from segstore import UnifiedLog
    from segstore.types import LogAppendInfo

SETTINGS: list[dict[str, Any]] = [
    {},
    {"internal_segment_bytes": 1500, "index_interval_bytes": 0},
    {"segment_index_bytes": 64, "index_interval_bytes": 1},
    {"segment_ms": 3000},
    {"message_timestamp_type": "LogAppendTime"},
    {"compression_type": "lz4"},
    {"cleanup_policy": "compact"},
    {"message_timestamp_before_max_ms": 5000, "max_message_bytes": 300},
    {"durability": "messages=7"},
]


def some_batch(chooser: random.Random, log: UnifiedLog) -> tuple[str, bytes, Any]:
    """What one call appends: mostly plain, at times something about which has to be decided."""
    end, latest = log.log_end_offset, log.stats()["latest_leader_epoch"]
    records: list[object] = [
        (
            TIME + chooser.choice((0, 1, 5000, -6000)),
            chooser.choice((None, b"k", b"key")),
            chooser.randbytes(chooser.choice((0, 1, 40, 200))),
        )
        for _ in range(chooser.randint(1, 5))
    ]
    codec = chooser.choice((0, 0, 0, 3))
    epoch = chooser.choice((None, latest, latest, latest + 1, latest - 1, -1))
    match chooser.randrange(6):
        case 0 | 1:
            producer = chooser.choice(({}, {}, {}, {"producer_id": 7, "producer_epoch": 0}))
            sent = batch(records, codec=codec, **producer, base_sequence=0 if producer else -1)
            if chooser.random() < 0.1:
                sent = chooser.choice((sent[:-1], sent + b"x", sent + sent, b"", bytes(80)))
            return "append_as_leader", sent, epoch
        case 2 | 3:
            first = max(0, end + chooser.choice((0, 0, 0, 0, 2, -1)))
            number = max(0, latest if epoch is None else epoch)
            sent = batch(records, codec=codec, base_offset=first, epoch=number)
            if chooser.random() < 0.3:
                following = first + len(records) + chooser.choice((0, 0, 3))
                sent += batch(records, base_offset=following, epoch=number)
            return "append_as_follower", sent, max(0, latest)
        case 4:
            return "append", records, None
        case _:
            return chooser.choice(("roll", "truncate_to", "flush")), b"", max(0, end - 3)


def run(log: UnifiedLog, seed: int) -> list[object]:
    """Do seeded things with a log; returns what came of each."""
    chooser = random.Random(seed)
    seen: list[object] = []
    for _ in range(60):
        name, data, argument = some_batch(chooser, log)
        try:
            match name:
                case "roll" | "flush":
                    getattr(log, name)()
                case "truncate_to":
                    log.truncate_to(argument)
                case "append":
                    seen.append(settled(log.append(data)))
                case _:
                    seen.append(settled(getattr(log, name)(data, argument)))
        except SegstoreError as error:
            seen.append((type(error), str(error)))
        local_log, producers = log._local_log, log._producers
        seen.append((local_log.log_end, producers.map_end_offset, log.log_start_offset))
    return seen


def settled(info: LogAppendInfo) -> LogAppendInfo:
    """How far a sealed segment has been synced meanwhile is up to another thread."""
    return info._replace(durable_offset=-1)


def files(directory: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in directory.iterdir()}


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("seed", range(6))
def test_the_lane_does_what_the_layers_do(  # noqa: PLR0913 - fixtures
    tmp_path: Path,
    new_log: Callable[..., UnifiedLog],
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
    settings: dict[str, Any],
    seed: int,
):
    """Run both on the same calls: answers, errors, log ends and files are equal."""
    clock.sleep(TIME + 10_000 - clock.now)
    by_lane = run(log := new_log(tmp_path / "lane" / "topic-0", **settings), seed)
    log.close()
    monkeypatch.setattr(LaneAppender, "_arm_lane", lambda _: None)
    by_layers = run(log := new_log(tmp_path / "layers" / "topic-0", **settings), seed)
    log.close()

    lane, layers = str(tmp_path / "lane"), str(tmp_path / "layers")
    assert str(by_lane).replace(lane, layers) == str(by_layers)
    assert files(tmp_path / "lane" / "topic-0") == files(tmp_path / "layers" / "topic-0")


def test_plain_appends_take_the_lane(new_log: Callable[..., UnifiedLog], monkeypatch):
    """Else the test above compares the layers with themselves."""
    log = new_log()
    log.append([(None, b"first")])
    monkeypatch.setattr(type(log), "_append", None)
    monkeypatch.setattr(type(log), "_append_with_offsets", None)

    log.append([(None, b"second")])
    log.append_as_leader(batch([(None, b"third")]))
    log.append_as_leader(batch([(None, b"fourth")]), 0)
    log.append_as_follower(at(4) + at(5), 0)

    assert [record.value for record in log] == [
        b"first",
        b"second",
        b"third",
        b"fourth",
        b"value",
        b"value",
    ]


def test_a_log_that_was_closed_takes_nothing(new_log: Callable[..., UnifiedLog]):
    """The lane knows nothing of it."""
    log = new_log()
    log.append([(None, b"value")])
    log.close()

    for append in (
        lambda: log.append([(None, b"value")]),
        lambda: log.append_as_leader(batch([(None, b"value")])),
        lambda: log.append_as_follower(at(1), 0),
    ):
        with pytest.raises(ClosedError):
            append()
