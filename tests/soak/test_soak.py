"""The soak notices what it is there for: faults that are planted in what its writer has left.

``make soak`` runs it for an hour, and CI for two minutes.
"""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING

import pytest

import segstore
from segstore.errors import OffsetOutOfRangeError
from tests.soak.soak import MIB, Sample, SoakError, require_flat
from tests.soak.soak_oracle import Oracle
from tests.soak.soak_topics import KEYS, Content, kind_of
from tests.soak.soak_writer import Writer

if TYPE_CHECKING:
    from pathlib import Path

    from segstore import LogManager

TOPICS = ("compact", "retried", "sold", "time")
APPENDS = 60


@pytest.fixture
def notes(monkeypatch: pytest.MonkeyPatch) -> list[list[object]]:
    """What a writer in this process notes."""
    found: list[list[object]] = []
    monkeypatch.setattr(
        "tests.soak.soak_writer.tell", lambda *note: found.append(json.loads(json.dumps(note)))
    )
    return found


@pytest.fixture
def oracle(tmp_path: Path, notes: list[list[object]]) -> Oracle:
    """One that has heard of some topics with records, which a writer has closed."""
    with segstore.open_dir(tmp_path / "logs", durability="none") as manager:
        writer, chooser = Writer(manager, {}), random.Random(1)
        for topic in TOPICS:
            writer.create(topic, 1)
        for _ in range(APPENDS * len(TOPICS)):
            writer.append(0, chooser)
    oracle = Oracle(tmp_path / "logs")
    for note in notes:
        oracle.take(note)
    return oracle


def opened(oracle: Oracle) -> LogManager:
    return segstore.open_dir(oracle.directory, durability="none")


def test_what_is_as_it_was_written_is_good(oracle):
    oracle.check(is_closed=True)
    with opened(oracle) as manager:
        assert manager.log("compact", 0).compact()
    oracle.check(is_closed=True)
    assert oracle.appended > APPENDS


def test_a_lost_end(oracle):
    with opened(oracle) as manager:
        log = manager.log("compact", 0)
        log.truncate_to(log.log_end_offset - 1)
    with pytest.raises(AssertionError, match="acknowledged"):
        oracle.check(is_closed=True)


@pytest.mark.parametrize(("topic", "why"), [("time", "too young"), ("sold", "bytes are left")])
def test_a_deletion_that_no_limit_asked_for(oracle, topic, why):
    with opened(oracle) as manager:
        log = manager.log(topic, 0)
        log.delete_records(log.log_end_offset)
    with pytest.raises(AssertionError, match=why):
        oracle.check(is_closed=True)


def test_a_last_value_that_is_gone(oracle):
    """As where a cleaner takes the key of a record for that of another one."""
    with opened(oracle) as manager:
        log = manager.log("compact", 0)
        content = Content("compact", log.topic_id, 0)
        last = content.last_offsets(0, log.log_end_offset)
        assert len(last) == KEYS
        gone = min(one for one in last.values() if content.value_at(one) is not None)
        kept = [one for one in log.scan() if one.offset != gone]
        log.truncate_fully_and_start_at(0)
        refill(log, kept)
    with pytest.raises(AssertionError, match=r"is gone|the last one"):
        oracle.check(is_closed=True)


def test_a_deleted_key_that_comes_back(oracle):
    """Of the tombstone, and of what the next pass would take, only the older value is left."""
    with opened(oracle) as manager:
        log = manager.log("compact", 0)
        content = Content("compact", log.topic_id, 0)
        last = content.last_offsets(0, log.log_end_offset)
        gone = min(one for one in last.values() if content.value_at(one) is None)
        kept = [one for one in log.scan() if one.offset != gone]
        log.truncate_fully_and_start_at(0)
        refill(log, kept)
    with pytest.raises(AssertionError, match="the last one"):
        oracle.check(is_closed=True)


def refill(log: segstore.UnifiedLog, records: list[segstore.Record]) -> None:
    """Append records at their offsets, as a follower does."""
    from tests.kits.records_kit import build

    for one in records:
        row = (one.offset, one.timestamp, one.key, one.value)
        log.append_as_follower(build([row], base_offset=one.offset, partition_leader_epoch=0), 0)


def test_a_transaction_that_is_not_what_it_was(oracle, monkeypatch):
    """Those that are committed were to be aborted, and the other way round."""
    is_aborted = Content.is_aborted
    monkeypatch.setattr(
        Content,
        "is_aborted",
        lambda self, offset: self.kind.is_transactional and not is_aborted(self, offset),
    )
    with pytest.raises(AssertionError, match=r"^sold-0.* comes where .* was due"):
        oracle.check(is_closed=True)


def test_a_topic_that_is_changed_in_part(oracle):
    with opened(oracle) as manager:
        manager.alter_topic("time", {"retention.ms": 5})
    oracle.take(["begin", "alter", "time", "retention.ms", 7])
    oracle.take(["done", "alter", "time"])
    with pytest.raises(AssertionError, match=r"retention\.ms"):
        oracle.check(is_closed=True)


@pytest.mark.parametrize("is_made", [False, True])
def test_a_change_that_a_kill_interrupted_is_there_or_not(oracle, is_made):
    if is_made:
        with opened(oracle) as manager:
            manager.delete_topic("time")
    oracle.take(["begin", "delete", "time"])
    oracle.check(is_closed=True)
    oracle.check(is_closed=True)


def test_an_append_may_be_told_after_the_deletion_of_its_topic(oracle, notes):
    topic_id = next(one[3] for one in notes if one[:3] == ["done", "create", "time"])
    with opened(oracle) as manager:
        manager.delete_topic("time")
    oracle.take(["begin", "delete", "time"])
    oracle.take(["done", "delete", "time"])
    oracle.take(["appended", topic_id, 0, 1_000, 1, 0])
    oracle.check(is_closed=True)


def test_files_that_are_left(oracle):
    (oracle.directory / "time-0" / "00000000000000000000.log.cleaned").touch()
    with pytest.raises(AssertionError, match="cleaned"):
        oracle.check(is_closed=True)


def test_retention_may_overtake_a_read_of_last_values(tmp_path, monkeypatch):
    """Of any partition of the topic [DUR-78]; where no limit asked for a deletion it is a fault."""

    def overtaken(*_: object, **__: object) -> None:
        raise OffsetOutOfRangeError("offset 4 is not in the log")

    with segstore.open_dir(tmp_path / "logs", durability="none") as manager:
        writer = Writer(manager, {})
        monkeypatch.setattr(type(manager), "latest", overtaken)
        writer._read_latest("both")
        assert writer.counts.copy() == {"reads of latest values overtaken": 1}
        with pytest.raises(AssertionError, match="compact: a last value is out of range"):
            writer._read_latest("compact")


@pytest.mark.parametrize("what", Sample._fields)
def test_what_grows_is_noticed(what):
    before = Sample(50 * MIB, 100, 5, 16, 300)
    after = before._replace(**{what: getattr(before, what) * 2 + 300})
    require_flat("writer", [before] * 40)
    with pytest.raises(SoakError, match=what):
        require_flat("writer", [before] * 20 + [after] * 20)


def test_deleted_files_that_are_open_all_the_time_are_noticed():
    """As many as the memory of committed reads once kept open; a reader's go and come."""
    few, many = (Sample(100 * MIB, 300, count, 16, 368) for count in (4, 63))
    require_flat("reader", [few, many] * 80)
    with pytest.raises(SoakError, match="deleted_files of the writer have grown from 4 to 63"):
        require_flat("writer", [few] * 80 + [many] * 80)


def test_kinds_are_found_by_the_name_of_the_topic():
    assert kind_of("brief-17") is kind_of("brief")
