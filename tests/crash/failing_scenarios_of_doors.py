"""Questions to logs, and what else is done with them, while calls fail [DUR-111]."""

from __future__ import annotations

import functools
import uuid
from typing import TYPE_CHECKING, Final

from segstore import LogConfig, SpecialTimestamp
from tests.crash.barrier_scene import open_log
from tests.crash.crash_script import START_MS, Settings
from tests.crash.failing_scenarios_of_opens import SEGMENTS, TRANSACTIONS, closed
from tests.crash.failing_trial import asking, changing

if TYPE_CHECKING:
    from collections.abc import Callable

    from segstore import UnifiedLog
    from segstore._core import SimulatedDisk
    from tests.crash.failing_trial import Trial

SETTINGS: Final = Settings("none")
WITH_SIDECARS: Final = SETTINGS._replace(checksum_sidecar=True)


def read_all(log: UnifiedLog) -> object:
    return [(record.offset, record.value) for record in log.read(0, 2**20)]


def read_each(log: UnifiedLog) -> object:
    return [bytes(log.read(offset, 1).records) for offset in range(log.log_end_offset)]


def committed(log: UnifiedLog) -> object:
    fetch = log.read(0, 2**20, isolation="read_committed")
    return [record.offset for record in fetch], log.collect_aborted_transactions(0, 100)


def scan(log: UnifiedLog) -> object:
    return [(record.offset, record.value) for record in log.scan()]


def by_time(log: UnifiedLog) -> object:
    special = [log.fetch_offset_by_timestamp(each) for each in SpecialTimestamp][:3]
    ordinary = [log.offset_for_timestamp(START_MS + each) for each in range(0, 40, 5)]
    return special, ordinary


def tail(log: UnifiedLog) -> object:
    return [record.offset for record in log.tail(0, timeout=0, poll_interval=0.001)]


def in_columns(log: UnifiedLog) -> object:
    return log.to_arrow().to_pydict()


def count(log: UnifiedLog) -> object:
    query = log.select("offset")
    return query.count(), query.count(by_headers=True), query.cuts(100), query.tuples()


def slices(log: UnifiedLog) -> object:
    return [
        bytes(log.slice(offset, 2**20, check_crcs=check_crcs).read().records)
        for offset in range(log.log_end_offset)
        for check_crcs in (False, True)
    ]


def verify(log: UnifiedLog) -> object:
    report = log.verify()
    return report.ok, report.problems, report.records


def scrub(log: UnifiedLog) -> object:
    report = log.scrub(bytes_per_second=None)
    return report.ok, report.problems, report.records


def refresh(log: UnifiedLog) -> object:
    return log.refresh(), log.durable_offset


def producers(log: UnifiedLog) -> object:
    return [each._replace(last_timestamp=0) for each in log.active_producers()]


ASKED: dict[str, Callable[[UnifiedLog], object]] = {
    "read all": read_all,
    "read each": read_each,
    "read committed": committed,
    "scan": scan,
    "by time": by_time,
    "tail": tail,
    "in columns": in_columns,
    "count": count,
    "slices": slices,
    "verify": verify,
    "scrub": scrub,
    "refresh": refresh,
    "producers": producers,
}


@functools.cache
def quiet(name: str) -> SimulatedDisk:
    """Return a disk of which the logs are read: all is on stable storage."""
    if name == "sidecars":
        return closed(*SEGMENTS, ("background", 0), settings=WITH_SIDECARS)
    return closed(*(SEGMENTS if name == "segments" else TRANSACTIONS))


def read_only(disk: SimulatedDisk) -> UnifiedLog:
    return open_log(disk, read_only=True)


def tells_of_problems(answer: object) -> bool:
    """Whether a report of `verify` or `scrub` says what could not be looked at."""
    match answer:
        case (False, [str(), *_], _):
            return True
    return False


def ask(name: str, what: str) -> Trial:
    return asking(quiet(what), SETTINGS, ASKED[name], tells_of=tells_of_problems)


def ask_reader(name: str, what: str) -> Trial:
    return asking(quiet(what), SETTINGS, ASKED[name], read_only, tells_of_problems)


CHANGES: dict[str, Callable[[UnifiedLog], object]] = {
    "take a snapshot": lambda log: log.take_producer_snapshot(),
    "assign an epoch": lambda log: log.assign_epoch_start_offset(3, log.log_end_offset),
    "assign a topic id": lambda log: (
        log.assign_topic_id(uuid.UUID(int=5)),
        log.append([(None, b"x")]),
        log.close(),
    ),
    "update the settings": lambda log: log.update_config(LogConfig(retention_ms=None)),
    "write sidecars": lambda log: log.write_checksum_sidecars(),
    "flush forced": lambda log: log.flush(force_active_segment=True),
}


def change(name: str, what: str) -> Trial:
    return changing(quiet(what), SETTINGS, CHANGES[name])


DOOR_SCENARIOS: dict[str, Callable[[], Trial]] = {
    **{
        f"{name}, {what}": functools.partial(ask, name, what)
        for name in ASKED
        for what in ("segments", "transactions")
    },
    **{
        f"{name}, {what}, as a reader": functools.partial(ask_reader, name, what)
        for name in ASKED
        for what in ("segments", "transactions")
        if name != "producers"
    },
    **{
        f"{name}, {what}": functools.partial(change, name, what)
        for name in CHANGES
        for what in ("segments", "transactions")
        if name != "assign a topic id"
    },
}
