"""Operations on a log on a simulated disk among calls that fail, full disks and power cuts.

Only a fault makes an operation fail, and never as damage [DUR-6, DUR-33]. A log that is not
read-only after a failure is as it was before [DUR-30..DUR-32]; one that is, or that was left half
changed, is opened again, and is then what a process that died in the operation would have left.
"""

from __future__ import annotations

import errno
from dataclasses import dataclass
from typing import TYPE_CHECKING

from segstore.errors import CorruptLogError, SegstoreError
from tests.crash.crash_check import Crash, check_found, look
from tests.crash.crash_model import (
    APPENDING,
    Batch,
    Found,
    Operation,
    State,
    during,
    is_possible,
)
from tests.crash.crash_script import CHOICES, KINDS, ManualScheduler, ScriptRunner

if TYPE_CHECKING:
    from segstore._core import SimulatedDisk
    from tests.crash.crash_script import Settings

CALLS = (
    None,
    "write_at",
    "sync_data",
    "sync_file",
    "sync_directory",
    "rename",
    "unlink",
    "open_file",
    "read_at",
    "truncate",
    "allocate_space",
    "map",
    "file_info",
    "close",
)
ERRORS = (errno.EIO, errno.ENOSPC, errno.EMFILE, errno.EACCES)
OPERATIONS = tuple(dict.fromkeys(KINDS))


@dataclass(frozen=True)
class Do:
    """An operation; what the number means depends on its kind, and on how long the log is."""

    kind: str
    number: int

    def operation(self, state: State) -> Operation:
        if self.kind in CHOICES:
            choices = CHOICES[self.kind]
            return Operation(self.kind, choices[self.number % len(choices)])
        if self.kind == "truncate_fully_and_start_at":
            return Operation(self.kind, self.number % (state.log_end + 6))
        if self.kind in {"truncate_to", "delete_records"}:
            return Operation(self.kind, self.number % (state.log_end + 1))
        return Operation(self.kind)


@dataclass(frozen=True)
class Fail:
    """The *nth* call of a kind, or of any, fails from now on."""

    call: str | None
    nth: int
    os_error: int
    for_ever: bool


@dataclass(frozen=True)
class Room:
    """The disk takes so many more bytes."""

    bytes_count: int


@dataclass(frozen=True)
class Heal:
    """Nothing fails any more."""


@dataclass(frozen=True)
class PowerCut:
    """The power goes behind so many effects, which the next operations may have."""

    effects: int
    fate: str
    seed: int


Step = Do | Fail | Room | Heal | PowerCut


def _without_timestamps(batches: tuple[Batch, ...]) -> tuple[Batch, ...]:
    """Those of records that were deleted are not found."""
    return tuple(batch._replace(timestamps=()) for batch in batches)


class FaultRunner(ScriptRunner):
    """Runs steps on one log, over several lives of it, and keeps the books."""

    def __init__(self, settings: Settings, without: str | None = None) -> None:
        """Take out the syncs of a barrier: the check of the check [DUR-110]."""
        super().__init__(settings)
        self._without = without
        self._is_open = True
        self._is_faulty = False
        self._has_failed = False  # since the last power cut: later syncs may bring nothing there
        self._doubtful: tuple[State, Operation] | None = None
        self._cut: PowerCut | None = None

    def take(self, step: Step) -> None:
        """Do one step; what breaks a promise is an AssertionError."""
        match step:
            case Do():
                self._operate(step.operation(self._state))
            case Fail(call, nth, os_error, for_ever):
                self.disk.fail(call, nth, os_error, for_ever=for_ever)
                self._is_faulty = True
            case Room(bytes_count):
                self.disk.set_room(bytes_count)
                self._is_faulty = True
            case Heal():
                self._heal()
            case PowerCut(effects):
                self._cut = step
                self.disk.cut_power_after(self.disk.effects + effects)
                if effects == 0:
                    self._cut_power(step)
        if self.disk.is_off and self._cut is not None:
            self._cut_power(self._cut)

    def end(self, cut: PowerCut) -> None:
        """Cut the power a last time."""
        self._cut_power(cut)
        self.abandon()

    # ---- operations ------------------------------------------------------------------------------

    def _operate(self, operation: Operation) -> None:
        if operation.kind in {"close", "kill"} or not self._is_open:
            self._reopen(cleanly=operation.kind == "close")
        elif self._doubtful is None:
            self._change(operation)

    def _change(self, operation: Operation) -> None:
        before, producers, epoch = self._state, dict(self._producers), self._epoch
        try:
            self.do(operation)
        except SegstoreError as error:
            self._require_excuse(error)
            log = self._log
            is_as_before = (log.log_start_offset, log.log_end_offset) == before[:2]
            if log._failure_mark.failure is not None or not is_as_before:
                self._doubtful = (before, operation)
            else:
                self._producers, self._epoch = producers, epoch

    def _require_excuse(self, error: SegstoreError) -> None:
        is_excused = self._is_faulty or self.disk.is_off or self._cut is not None
        assert is_excused, f"nothing was made to fail: {error!r}"
        assert not isinstance(error, CorruptLogError), f"taken for damage: {error!r}"
        self._has_failed = True

    def _reopen(self, *, cleanly: bool) -> None:
        """Close or kill the log, and open it again; both may fail."""
        if self._is_open and cleanly and self._doubtful is None:
            try:
                self._log.close()
            except SegstoreError as error:
                self._require_excuse(error)
        if self._is_open:
            self.abandon()
        self._is_open = False
        if self.disk.is_off:
            return
        killed = Crash(self.disk.effects, "killed").image(self.disk)
        looked = look(killed, self.run.settings)
        self._settle_for(looked.found, is_killed=True)
        self._open(self.disk)

    # ---- what is there now -----------------------------------------------------------------------

    def _ways(self, found: Found, *, is_killed: bool) -> list[State]:
        """Return what the log may be; nothing is lost without a power cut [DUR-3]."""
        before, operation = self._doubtful or (self._state, None)
        whole = before.promise(before.log_end) if is_killed else before
        if operation is None:
            return [whole]
        if operation.kind not in APPENDING:
            return during(whole, operation)
        written = [batch for batch in found.batches if batch.base_offset == before.log_end]
        return [whole, *(during(whole, operation, written[0]) if written else [])]

    def _settle_for(self, found: Found, *, is_killed: bool) -> None:
        """Take what was found for what there is; what more is durable is known when it opens."""
        ways = self._ways(found, is_killed=is_killed)
        check_found(found, ways)
        really = self._ways(found, is_killed=False)  # the same, with what is durable of each
        bare = found._replace(batches=_without_timestamps(found.batches))
        for way, real in zip(ways, really, strict=True):
            if is_possible(bare, way._replace(batches=_without_timestamps(way.batches))):
                hidden = [batch for batch in way.batches if batch.last_offset < found.log_start]
                written = {batch.content: batch for batch in way.batches}
                shown = [written[batch.content] for batch in found.batches]
                safe = min(real.durable, found.log_end)
                self._state = State(found.log_start, found.log_end, safe, (*hidden, *shown))
                break
        self._doubtful = None

    def _open(self, disk: SimulatedDisk) -> None:
        self._scheduler = ManualScheduler()
        # what they would send next is not what follows, or they are forgotten
        self._producers = {id_: (epoch + 1, 0) for id_, (epoch, _) in self._producers.items()}
        try:
            self._log = self.run.settings.open(disk, self._scheduler)
        except SegstoreError as error:
            self._require_excuse(error)
            return
        self._is_open = True
        log, state = self._log, self._state
        found = (log.log_start_offset, log.log_end_offset)
        assert found == (state.log_start, state.log_end), (found, state)
        durable = log.durable_offset if self._has_failed else log.log_end_offset
        self._state = state.promise(min(durable, state.log_end))

    # ---- faults ----------------------------------------------------------------------------------

    def _heal(self) -> None:
        for call in CALLS:
            self.disk.fail(call, 0, 0)
        self.disk.set_room(None)
        self._is_faulty = False

    def _ignored(self) -> tuple[int, ...]:
        numbers = range(1, self.disk.effects + 1) if self._without is not None else ()
        return tuple(n for n in numbers if self.disk.event(n).barrier == self._without)

    def _cut_power(self, cut: PowerCut) -> None:
        if self._is_open:
            self.abandon()
        self._is_open = False
        image = Crash(self.disk.effects, cut.fate, cut.seed, self._ignored()).image(self.disk)
        looked = look(image, self.run.settings)
        self._settle_for(looked.found, is_killed=False)
        self.disk = self.run.disk = image
        self._cut, self._is_faulty, self._has_failed = None, False, False
        self._open(image)
