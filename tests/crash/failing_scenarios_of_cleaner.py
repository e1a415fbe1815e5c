"""Passes of the cleaner while calls fail: the last value of each key stays [DUR-111, DUR-126]."""

from __future__ import annotations

from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Final
from unittest import mock

from segstore import LogReadOnlyError
from segstore._core import DataFile
from segstore.errors import DiskFullError
from segstore.log.cleaning import cleaner as cleaner_module
from segstore.log.cleaning.cleaner import Cleaner
from segstore.log.files.profile import Profile
from segstore.log.local.segment import Segment
from segstore.log.local.segment_replacement import SegmentReplacement
from segstore.types import AppendOrigin
from tests.crash.barrier_scene import new_disk, open_log
from tests.crash.crash_script import START_MS
from tests.crash.failing_trial import BEHIND_MS, GOES_ON, READ_ONLY, Trial
from tests.kits.cleaner_kit import SmallDestinations
from tests.kits.directory_kit import disk_with, far_record, name_of
from tests.kits.records_kit import build

if TYPE_CHECKING:
    from collections.abc import Callable

    from segstore import SegstoreError, UnifiedLog
    from segstore._core import SimulatedDisk

SETTINGS: Final = {
    "cleanup_policy": "compact",
    "internal_segment_bytes": 300,
    "durability": "sync",
}
FAR: Final = 2**31
REFUSED: Final = DiskFullError("no room for a name")


def live(log: UnifiedLog) -> dict[bytes | None, bytes]:
    values = {record.key: record.value for record in log.scan()}
    return {key: value for key, value in values.items() if value is not None}


def filled(**settings: object) -> UnifiedLog:
    """Return a log of a new disk: some segments, an aborted transaction in the first one."""
    log = open_log(new_disk(), **{**SETTINGS, **settings})
    log.append([(b"0", b"first")])
    options = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0, "transactional": True}
    log.append_as_leader(build([(0, START_MS, b"0", b"aborted")], **options), 0)
    marker = build(
        [(0, START_MS, bytes(4), bytes(6))], control=True, **options | {"base_sequence": -1}
    )
    log.append_as_leader(marker, 0, origin=AppendOrigin.COORDINATOR, transaction_version=0)
    for number in range(12):
        log.append([(b"%d" % (number % 3), bytes(number))])
    log.roll()
    return log


def cleaning(
    log: UnifiedLog, disk: SimulatedDisk, clean: Callable[[UnifiedLog], object], **settings: object
) -> Trial:
    """Return the trial of a pass: whatever fails, no value is lost, for this handle or a later."""
    expected = {key: value for key, value in live(log).items() if value != b"aborted"}

    def found(other: UnifiedLog) -> dict[bytes | None, bytes]:
        return {key: value for key, value in live(other).items() if value != b"aborted"}

    def check(_: SegstoreError | None) -> str:
        assert found(log) == expected
        outcome, more = GOES_ON, {b"behind": b"1"}
        try:
            log.append([(BEHIND_MS, b"behind", b"1")])
        except LogReadOnlyError as error:
            outcome, more = f"{READ_ONLY} by {type(error.__cause__).__name__}", {}
        log.close_quietly()
        for fate in ("killed", "lost"):
            with closing(
                open_log(disk.crash_image(fate=fate), **{**SETTINGS, **settings})
            ) as again:
                assert {key: found(again)[key] for key in expected} == expected
                assert found(again).keys() <= expected.keys() | more.keys()
                again.append([(BEHIND_MS, b"again", b"1")])
        return outcome

    return Trial(disk, lambda: clean(log), check)


def _pass(log: UnifiedLog, *, first: int = 0, profile: Profile = Profile.SAFE) -> None:
    cleaner = Cleaner(offset_map_bytes=2400, profile=profile, io_buffer_bytes=100)
    log.clean(cleaner, first, now_ms=BEHIND_MS)


def whole_pass() -> Trial:
    log = filled()
    return cleaning(log, log._directory.environment, _pass)


def pass_behind_a_leftover() -> Trial:
    """An interrupt has left a file of an earlier pass."""
    log = filled()
    DataFile(log._directory, name_of(1, "log.cleaned"), create=True).close()
    return cleaning(log, log._directory.environment, _pass)


def planned_pass() -> Trial:
    log = filled()
    return cleaning(log, log._directory.environment, lambda log: log.plan_compaction())


def later_pass() -> Trial:
    """The clean part has tombstones and segments that are merged."""
    log = filled()
    _pass(log)
    log.append([(b"0", None), (b"1", b"new")])
    log.roll()
    clean = partial(_pass, first=log.segments()[2].base_offset)
    return cleaning(log, log._directory.environment, clean)


def pass_of_a_user() -> Trial:
    log = filled(min_compaction_lag_ms=1)
    log._directory.environment.wall_clock_ms = BEHIND_MS
    return cleaning(log, log._directory.environment, lambda log: log.compact(memory_bytes=120))


def several_outputs() -> Trial:
    log = filled(internal_segment_bytes=2000)

    def clean(log: UnifiedLog) -> None:
        with mock.patch.object(cleaner_module, "SegmentCleaner", SmallDestinations):
            _pass(log)

    return cleaning(log, log._directory.environment, clean)


def refused_outputs() -> Trial:
    """The last of several renames before the commit is refused: what has been renamed goes."""
    log, change_suffix = filled(internal_segment_bytes=2000), Segment.change_suffix

    def refuse(segment: Segment, suffix: str) -> None:
        if segment.base_offset == 0:
            raise REFUSED
        change_suffix(segment, suffix)

    def clean(log: UnifiedLog) -> None:
        with (
            mock.patch.object(cleaner_module, "SegmentCleaner", SmallDestinations),
            mock.patch.object(Segment, "change_suffix", refuse),
        ):
            try:
                _pass(log)
            except DiskFullError as error:
                if error is not REFUSED:
                    raise

    return cleaning(log, log._directory.environment, clean)


def with_sidecars() -> Trial:
    log = filled()
    log.write_checksum_sidecars()
    return cleaning(log, log._directory.environment, _pass)


def pass_of_kafka() -> Trial:
    log = filled(recovery="kafka")
    log.update_high_watermark(log.log_end_offset)
    clean = partial(_pass, profile=Profile.KAFKA, first=4)
    return cleaning(log, log._directory.environment, clean, recovery="kafka")


# ---- splits, which replace segments by the same renames ------------------------------------------


def half_split_behind_a_gap() -> SimulatedDisk:
    """Return a log with a segment that begins with a gap, and all that a split made of it."""
    first = [5, FAR + 5]
    swaps = {name_of(one, "log.swap"): far_record(one) for one in first}
    return disk_with({name_of(0): b"".join(map(far_record, first)), **swaps})


def opened(disk: SimulatedDisk) -> None:
    open_log(disk).close_quietly()


def refused_split(disk: SimulatedDisk) -> None:
    """Open a log with a segment to split; the split is refused at its commit."""
    with mock.patch.object(SegmentReplacement, "commit", side_effect=REFUSED):
        try:
            opened(disk)
        except DiskFullError as error:
            if error is not REFUSED:
                raise


def splitting(disk: SimulatedDisk, run: Callable[[SimulatedDisk], None]) -> Trial:
    """Return the trial of an open that splits: a later one has the same records."""

    def check(_: SegstoreError | None) -> str:
        with closing(open_log(disk)) as log:
            assert [record.offset for record in log.scan()] == [5, FAR + 5]
        return GOES_ON

    return Trial(disk, lambda: run(disk), check)


def split_refused() -> Trial:
    content = far_record(5) + far_record(FAR + 5)
    return splitting(disk_with({name_of(0): content}), refused_split)


def split_that_was_not() -> Trial:
    return splitting(half_split_behind_a_gap(), opened)


CLEANER_SCENARIOS: Final[dict[str, Callable[[], Trial]]] = {
    "a pass of the cleaner": whole_pass,
    "a pass of the cleaner behind a leftover": pass_behind_a_leftover,
    "a pass of the cleaner, planned": planned_pass,
    "a pass of the cleaner, a later one": later_pass,
    "a pass of the cleaner, until it is done": pass_of_a_user,
    "a pass of the cleaner, several outputs": several_outputs,
    "a pass of the cleaner, refused outputs": refused_outputs,
    "a pass of the cleaner, with sidecars": with_sidecars,
    "a pass of Kafka's cleaner": pass_of_kafka,
    "a split that is refused": split_refused,
    "a split behind a gap that was not finished": split_that_was_not,
}
