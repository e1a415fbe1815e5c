"""The short way of an append: the same bytes, answers and state as by the layers [D11]."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from segstore import Record
from segstore._core import PublishedEnd
from segstore.errors import (
    ArgumentTypeError,
    ClosedError,
    FsyncFailedError,
    LogReadOnlyError,
    RecordTypeError,
    SegstoreError,
)
from segstore.log.files.checkpoints import CLEAN_SHUTDOWN_MARKER
from segstore.log.files.clean_shutdown_marker import CleanShutdownMarker
from segstore.log.lane_switch import LaneSwitch
from segstore.types import LogOffsetMetadata
from tests.kits.log_kit import TIME, Clock, at, batch

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
    {"durability": "sync"},
]


def some_records(chooser: random.Random, records: list[Any]) -> Any:
    """What `append` is given, in all forms that it takes, and some that it does not."""
    forms: list[Any] = [
        [record[1:] for record in records],
        [Record(value=value, headers=[("h", key)]) for _, key, value in records],
        [(key, bytearray(value)) for _, key, value in records],
        iter(records),
        records * 40,  # more than one batch, for some of the settings
        *([], [*records, "text"], [(b"k",)], [(-5, b"k", b"v")], "abc"),
        *([records] * 10),
    ]
    return chooser.choice(forms)


def some_batch(chooser: random.Random, log: UnifiedLog) -> tuple[str, Any, Any]:
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
            return "append", some_records(chooser, records), None
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
                    timestamp = chooser.choice((None, TIME, -1, "noon", 2**63))
                    seen.append(settled(log.append(data, timestamp=timestamp)))
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


def files(directory: Path) -> dict[str, object]:
    """What is in them; a clean marker says besides where."""
    found: dict[str, object] = {file.name: file.read_bytes() for file in directory.iterdir()}
    marker = CleanShutdownMarker.parse((directory / CLEAN_SHUTDOWN_MARKER).read_bytes())
    assert marker is not None
    found[CLEAN_SHUTDOWN_MARKER] = replace(
        marker, directory_inode=None, active_changed_ns=None, files_fingerprint=None
    )
    return found


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
    monkeypatch.setattr(LaneSwitch, "arm", lambda _: None)
    by_layers = run(log := new_log(tmp_path / "layers" / "topic-0", **settings), seed)
    log.close()

    lane, layers = str(tmp_path / "lane"), str(tmp_path / "layers")
    assert str(by_lane).replace(lane, layers) == str(by_layers)
    assert files(tmp_path / "lane" / "topic-0") == files(tmp_path / "layers" / "topic-0")


def test_plain_appends_take_the_lane(new_log: Callable[..., UnifiedLog], monkeypatch):
    """Else the test above compares the layers with themselves."""
    log = new_log()
    log.append([(None, b"first")])
    monkeypatch.setattr(type(log._appender), "_append", None)
    monkeypatch.setattr(type(log._appender), "append_with_offsets", None)

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


def test_answers_and_log_ends_stay_as_they_are(new_log: Callable[..., UnifiedLog]):
    """Their memory is used again only when nobody has them any more."""
    log = new_log()
    log.append([(None, b"first")])
    kept = []
    for number in range(1, 40):
        info = log.append([(None, bytes(number))])
        if number % 3:
            kept.append((number, info, log._local_log.log_end))
    for number, info, log_end in kept:
        assert (info.base_offset, info.last_offset, info.records_count) == (number, number, 1)
        assert (log_end.message_offset, log_end.segment_base_offset) == (number + 1, 0)
    positions = [log_end.relative_position_in_segment for _, _, log_end in kept]
    assert positions == sorted(set(positions))


def test_a_list_that_is_refused_leaves_nothing(new_log: Callable[..., UnifiedLog]):
    """Neither in the log nor in the memory that the next one is built in."""
    log = new_log()
    log.append([(None, b"first")])
    for _ in range(2):
        with pytest.raises(RecordTypeError, match="record 1"):
            log.append([(None, b"lost"), (None, "text")])
        assert log.append([(None, b"kept")]).records_count == 1
    assert [record.value for record in log] == [b"first", b"kept", b"kept"]


@pytest.mark.parametrize("codec", ["uncompressed", "gzip", "lz4", "zstd", "snappy"])
def test_a_batch_that_the_lane_has_stamped_goes_into_a_new_segment(
    codec: str, new_log: Callable[..., UnifiedLog]
):
    """A compacted log with a codec refused it: its offset should have been 0."""
    log = new_log(cleanup_policy="compact", compression_type=codec, internal_segment_bytes=600)
    for number in range(40):
        assert log.append([(b"k", b"v" * 50)] * 3).base_offset == 3 * number

    assert len(log.segments()) > 2
    assert [record.offset for record in log.scan()] == [*range(120)]


def test_a_list_that_others_wait_for(new_log: Callable[..., UnifiedLog]):
    """Who finds the append lock taken builds his batch meanwhile, and appends it after [CON-2]."""
    log = new_log()
    log.append([(None, b"first")])
    with ThreadPoolExecutor(1) as elsewhere:
        with log._append_lock:
            waiting = elsewhere.submit(log.append, [(None, b"second")])
            with pytest.raises(TimeoutError):
                waiting.result(0.1)
        assert waiting.result(10).base_offset == 1
    assert log.append([(None, b"third")]).base_offset == 2


def test_a_failed_sync_closes_the_lane(new_log: Callable[..., UnifiedLog]):
    """[DUR-38] Whoever noted it, whenever."""
    log = new_log()
    log.append([(None, b"first")])
    log._failure_mark.poison(FsyncFailedError("the disk is gone"))
    for append in (
        lambda: log.append([(None, b"value")]),
        lambda: log.append_as_leader(batch([(None, b"value")])),
        lambda: log.append_as_follower(at(1), 0),
    ):
        with pytest.raises(LogReadOnlyError):
            append()
    assert log.log_end_offset == 1


def test_a_log_that_was_quietly_closed_takes_nothing(new_log: Callable[..., UnifiedLog]):
    """[DUR-70] The lane is shut with the log."""
    log = new_log()
    log.append([(None, b"value")])
    log.close_quietly()
    assert not log._lane_switch.lane.is_armed
    with pytest.raises(ClosedError):
        log.append([(None, b"value")])


def test_memory_of_a_large_append_is_given_back(new_log: Callable[..., UnifiedLog]):
    """Answers and records of the next one are its own."""
    log = new_log(max_message_bytes=16_000_000, internal_segment_bytes=64_000_000)
    log.append([(None, b"first")])
    assert log.append([(None, bytes(9_000_000))]).base_offset == 1
    info = log.append([(None, b"x"), (None, b"y")])
    assert (info.base_offset, info.last_offset, info.records_count) == (2, 3, 2)
    assert [record.value for record in log.read(2)] == [b"x", b"y"]
    assert log.verify().ok


@pytest.mark.parametrize("place", [None, 7, (1, 0, 0)], ids=["none", "number", "tuple"])
@pytest.mark.parametrize("end", ["log_end", "durable"])
def test_only_a_place_in_the_log_is_published(end: str, place: object):
    """The lane reads both ends without a look at their type [D11]."""
    published = PublishedEnd()
    with pytest.raises(ArgumentTypeError, match="is no place in a log"):
        setattr(published, end, place)
    assert getattr(published, end) == LogOffsetMetadata(0, 0, 0)
