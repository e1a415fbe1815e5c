"""What is looked at after a crash: the records, the indexes, look-ups, and a second open."""

from __future__ import annotations

import struct
from contextlib import closing, suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from segstore._core import Directory, SimulatedDisk
from segstore.errors import LogNotFoundError
from segstore.log.files.checkpoints import LOG_STATE, LogState
from segstore.log.files.checksum_sidecar import sidecar_base_offset
from segstore.log.findings.finding import FindingCode
from tests.crash.crash_model import Batch, Found, State, during, is_possible
from tests.crash.crash_script import PATH, batches_in, header_of, is_abort, producer_of
from tests.crash.seen_images import contents

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from segstore import UnifiedLog
    from tests.crash.crash_script import Run, Settings
    from tests.crash.seen_images import SeenImage

SETTLED_FILES = (".log", ".index", ".timeindex", ".segstore", "leader-epoch-checkpoint")
"""What another open leaves as it is; the recovery point may rise."""


class Crash(NamedTuple):
    """A point of a run, and what became of what was not synced."""

    effects: int
    fate: str = "seed"
    seed: int = 0
    ignored: tuple[int, ...] = ()

    def image(self, disk: SimulatedDisk) -> SimulatedDisk:
        return disk.crash_image(self.effects, fate=self.fate, seed=self.seed, ignored=self.ignored)


def distinct(crashes: Iterable[Crash], disk: SimulatedDisk) -> Iterator[Crash]:
    """Leave out those that leave the same bytes behind the same effects as an earlier one."""
    seen: set[int] = set()
    for crash in crashes:
        image = hash((crash.effects, *contents(crash.image(disk), "/")))
        if image not in seen:
            seen.add(image)
            yield crash


class Looked(NamedTuple):
    """A log after an open."""

    found: Found
    effects: int
    """Of the disk when the open returned."""
    is_clean: bool
    """Nothing had to be recovered."""


def look(disk: SimulatedDisk, settings: Settings) -> Looked:
    """Open the log, read all of it in every way, and leave it without closing."""
    log = settings.open(disk)
    effects = disk.effects
    try:
        assert log.report.maybe_missing is None, log.report
        found = Found(log.log_start_offset, log.log_end_offset, tuple(_read_batches(log)))
        _check_look_ups(log, found)
        for segment in log.segments():
            _check_indexes(log, disk, segment.base_offset)
        _check_epochs(disk, found)
        _check_producers(log, found)
        _check_sidecars(log)
    finally:
        log.close_quietly()
    return Looked(found, effects, log.report.clean)


def _read_batches(log: UnifiedLog) -> Iterator[Batch]:
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        fetch = log.read(offset, 2**20)
        timestamps = {record.offset: record.timestamp for record in fetch}
        content = bytes(fetch.records)
        if not content:
            break
        for _, batch in batches_in(content):
            base, last, epoch = header_of(batch)
            (first,) = struct.unpack_from(">q", batch, 27)  # of a marker, which readers do not see
            times = [timestamps.get(each, first) for each in range(max(base, offset), last + 1)]
            yield Batch(base, last, tuple(times), epoch, batch)
            offset = last + 1


def _check_look_ups(log: UnifiedLog, found: Found) -> None:
    """[DUR-53] Every offset and every timestamp leads to its record."""
    by_time: dict[int, int] = {}
    for batch in found.batches:
        first = max(batch.base_offset, found.log_start)
        for offset, timestamp in zip(
            range(first, batch.last_offset + 1), batch.timestamps, strict=True
        ):
            by_time.setdefault(timestamp, offset)
        for offset in {first, batch.last_offset}:
            content = bytes(log.read(offset, 1).records)
            assert header_of(content)[:2] == (batch.base_offset, batch.last_offset), offset
    for timestamp, offset in by_time.items():
        assert log.offset_for_timestamp(timestamp) == offset, timestamp


def _check_indexes(log: UnifiedLog, disk: SimulatedDisk, base_offset: int) -> None:
    """[DUR-52] Entries ascend, and each leads to a batch that is there."""
    directory = Directory(PATH, disk)
    name = f"{base_offset:020d}"
    size = next(each.size_bytes for each in log.segments() if each.base_offset == base_offset)
    content = directory.read_file(f"{name}.log")[:size]
    batches = {position: header_of(batch) for position, batch in batches_in(content)}
    offsets = [last for _, last, _ in batches.values()]
    previous = (-1, -1)
    for relative, position in _entries(directory, f"{name}.index", ">ii"):
        assert (relative, position) > previous, f"{name}.index"
        assert batches[position][0] <= base_offset + relative, f"{name}.index"
        assert base_offset + relative in offsets, f"{name}.index"
        previous = (relative, position)
    previous = (-1, -1)
    for timestamp, relative in _entries(directory, f"{name}.timeindex", ">qi"):
        assert timestamp > previous[0], f"{name}.timeindex"
        assert relative > previous[1], f"{name}.timeindex"
        assert base_offset + relative <= offsets[-1], f"{name}.timeindex"
        previous = (timestamp, relative)


def _check_sidecars(log: UnifiedLog) -> None:
    """[DUR-60] Each that is there says what its segment is, and there is none of another."""
    names = Directory(PATH, log._directory.environment).names()
    there = {base for name in names if (base := sidecar_base_offset(name)) is not None}
    if there:
        report = log.verify()
        # a broker's directory, without topic ids; an index that a power cut kept without its `.log`
        expected = {FindingCode.TOPIC_ID_MISSING, FindingCode.RECORDS_MAYBE_MISSING}
        assert {one.code for one in report.findings} <= expected, report.problems
        fitting = {check.base_offset for check in report.segments if check.fits_sidecar}
        assert there == fitting, (there, fitting)


def _entries(directory: Directory, name: str, form: str) -> list[tuple[int, int]]:
    """Entries of an index file up to the padding of one that is in use [DUR-80]."""
    if not directory.exists(name):
        return []
    data = directory.read_file(name)
    size = struct.calcsize(form)
    entries = [struct.unpack_from(form, data, at) for at in range(0, len(data) - size + 1, size)]
    while entries and entries[-1] == (0, 0):
        entries.pop()
    return entries


def _check_epochs(disk: SimulatedDisk, found: Found) -> None:
    """[DUR-21] The leader-epoch checkpoint says of each batch what the batch says."""
    directory = Directory(PATH, disk)
    name = "leader-epoch-checkpoint"
    text = directory.read_file(name).decode() if directory.exists(name) else ""
    lines = text.split("\n")[2:-1]
    starts = [(int(start), int(epoch)) for epoch, start in (line.split() for line in lines)]
    for batch in found.batches:
        offset = max(batch.base_offset, found.log_start)
        epochs = [epoch for start, epoch in starts if start <= offset]
        assert epochs, f"no epoch for {offset}"
        assert epochs[-1] == batch.epoch, f"epoch of {offset}: {starts}"
    assert all(start <= found.log_end for start, _ in starts), starts


def _check_producers(log: UnifiedLog, found: Found) -> None:
    """[PSM-*, DUR-8] Producers and open transactions are those of the records that are there."""
    expected: dict[int, tuple[int, int]] = {}
    open_from: dict[int, int] = {}
    for batch in found.batches:
        fields = producer_of(batch.content)
        if fields.id < 0:
            continue
        if fields.is_control:
            open_from.pop(fields.id, None)
            epoch, last_sequence = expected.get(fields.id, (-1, -1))
            expected[fields.id] = (fields.epoch, last_sequence if epoch == fields.epoch else -1)
            continue
        expected[fields.id] = (fields.epoch, fields.last_sequence)
        if fields.is_transactional:
            open_from.setdefault(fields.id, batch.base_offset)
    if found.log_start > 0:  # snapshots may know more: of records that were deleted
        return
    known = {
        each.producer_id: (each.producer_epoch, each.last_sequence)
        for each in log.active_producers()
    }
    assert known == expected, f"producers {known}, expected {expected}"
    stable = min(open_from.values(), default=found.log_end)
    assert log.last_stable_offset == stable, f"stable up to {log.last_stable_offset}, not {stable}"
    if any(producer_of(batch.content).is_transactional for batch in found.batches):
        committed = [record.offset for record in log.scan(isolation="read_committed")]
        assert committed == _committed(found, stable), f"committed are {committed}"


def _committed(found: Found, stable: int) -> list[int]:
    """[TXX-1, DUR-7] Offsets of the records below *stable* that no abort concerns."""
    under_way: dict[int, list[int]] = {}
    left: set[int] = set()
    for batch in found.batches:
        fields = producer_of(batch.content)
        offsets = list(range(batch.base_offset, batch.last_offset + 1))
        if fields.is_control:
            if not is_abort(batch.content):
                left.update(under_way.get(fields.id, ()))
            under_way.pop(fields.id, None)
        elif fields.is_transactional:
            under_way.setdefault(fields.id, []).extend(offsets)
        else:
            left.update(offsets)
    return sorted(offset for offset in left if offset < stable)


def possible_states(run: Run, effects: int) -> list[State]:
    """Return what the log may be after a crash of the run there."""
    state, step = run.step_at(effects)
    if step is None:
        return [state]
    return during(state, step.operation, step.appended)


def check_found(found: Found, states: list[State]) -> None:
    """[DUR-1, DUR-2, DUR-5] What was found is a prefix of what may be there, long enough."""
    shown = found._replace(
        batches=tuple(
            batch._replace(timestamps=_all_timestamps(batch, states)) for batch in found.batches
        )
    )
    if not any(is_possible(shown, state) for state in states):
        msg = f"found {_short(found)}, possible {[_short(state) for state in states]}"
        raise AssertionError(msg)


def _all_timestamps(batch: Batch, states: list[State]) -> tuple[int, ...]:
    """Complete the timestamps of a batch of which some records were deleted."""
    for state in states:
        for written in state.batches:
            if written.content == batch.content and batch.timestamps:
                assert written.timestamps[-len(batch.timestamps) :] == batch.timestamps
                return written.timestamps
    return batch.timestamps


def _short(log: Found | State) -> str:
    spans = " ".join(f"{batch.base_offset}-{batch.last_offset}" for batch in log.batches)
    durable = f" durable {log.durable}" if isinstance(log, State) else ""
    return f"[{log.log_start}, {log.log_end}){durable}: {spans}"


def content_of(disk: SimulatedDisk) -> dict[str, bytes]:
    """Every file that says what the log is, without the zeros that files in use end in.

    What ``.segstore`` has of the epochs before is gone behind an open that had nothing to write.
    """
    directory = Directory(PATH, disk)
    content = {
        name: directory.read_file(name).rstrip(b"\0")
        for name in directory.names()
        if name.endswith(SETTLED_FILES)
    }
    content.setdefault("leader-epoch-checkpoint", b"0\n0\n")  # a log without epochs may have none
    state = LogState.parse(content[LOG_STATE])
    assert state is not None, "an open leaves a .segstore that can be read"
    return content | {LOG_STATE: replace(state, epochs_before=()).format()}


def check_crash(run: Run, crash: Crash, *, thoroughly: bool = False) -> None:
    """Look at the log after a crash; thoroughly: open it again, and crash the recovery too."""
    states = possible_states(run, crash.effects)
    unsynced = crash.effects if crash.fate == "killed" else None
    image = run.seen.image(crash.image(run.disk), run.settings, look, unsynced)
    check_found(image.looked.found, states)
    if not thoroughly:
        return
    run.seen.settle(image, partial(_check_recovered, run, crash))
    # a crash within recovery
    span = image.looked.effects - image.begun
    if span > 0:
        second = Crash(image.begun + crash.seed % (span + 1), crash.fate, crash.seed)
        check_found(_found(run, second.image(image.disk)), states)


def _found(run: Run, disk: SimulatedDisk) -> Found:
    """What a log shows on a disk on which nothing else will be looked at."""
    return run.seen.image(disk, run.settings, look).looked.found


def _check_recovered(run: Run, crash: Crash, image: SeenImage) -> None:
    found = image.looked.found
    # [DUR-56] what recovery left is on the disk; another open finds the same and changes nothing
    again = image.disk.crash_image(fate="lost")
    assert _found(run, again) == found, "not all was on stable storage"
    content = content_of(image.disk)
    assert look(image.disk, run.settings).found == found
    assert image.looked.is_clean or content_of(image.disk) == content
    # [DUR-8] whoever loses the leader epochs besides sees the same
    loses_epochs = crash.image(run.disk)
    with suppress(LogNotFoundError):  # the crash came before the directory
        Directory(PATH, loses_epochs).unlink("leader-epoch-checkpoint", missing_ok=True)
    assert _found(run, loses_epochs) == found, "not all, without the epochs"


def logs_behind_crashes(
    settings: Settings, disk: SimulatedDisk, begin: int, seeds: int
) -> Iterator[tuple[Crash, UnifiedLog]]:
    """Yield the crashes behind *begin* effects and any later, each with the log opened again."""
    crashes = [
        Crash(effects, "seed", seed)
        for effects in range(begin, disk.effects + 1)
        for seed in range(seeds)
    ]
    for crash in distinct(crashes, disk):
        with closing(settings.open(crash.image(disk))) as log:
            yield crash, log


def check_crashes(run: Run, begin: int, end: int, seeds: int) -> None:
    """Look at the log after a crash behind each of these effects, with each of so many seeds."""
    for effects in range(begin, end + 1):
        for seed in range(seeds):
            check_crash(run, Crash(effects, "seed", seed))
