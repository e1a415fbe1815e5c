"""What is tried while a call of the environment fails, and what must hold behind it [DUR-111].

A trial is a disk that was made ready, something that is done on it, and a look at what is left when
all works again: the same handle, what another process finds, and what a power cut leaves.
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, NamedTuple

import pytest

from segstore.errors import LogReadOnlyError, OffsetOutOfRangeError, SegstoreError
from tests.crash.crash_check import Crash, _read_batches, check_found, look
from tests.crash.crash_model import APPENDING, Found, State, during
from tests.crash.crash_script import START_MS, ScriptRunner, Settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from segstore import UnifiedLog
    from segstore._core import SimulatedDisk
    from tests.crash.crash_model import Batch, Operation

GOES_ON, READ_ONLY, CLOSED = "goes on", "is read-only", "is opened again"
"""What a failure makes of the handle that met it."""
POWER_CUTS = (("lost", 0), ("seed", 1))
BEHIND_MS = START_MS + 1_000_000
"""Later than any record of a script: what is looked up by time is found in order."""


class Trial(NamedTuple):
    """One time through a scenario.

    Attributes
    ----------
    disk : SimulatedDisk
        What fails is planned here, before `run`.
    run : callable
        Does it; raises what comes out of segstore.
    check : callable
        Called with the error, or None, when all works again; says what became of the handle.
    """

    disk: SimulatedDisk
    run: Callable[[], None]
    check: Callable[[SegstoreError | None], str]


# ---- the handle that met the failure -------------------------------------------------------------


def shown_by(log: UnifiedLog) -> Found:
    return Found(log.log_start_offset, log.log_end_offset, tuple(_read_batches(log)))


def go_on(log: UnifiedLog) -> tuple[str, Batch | None]:
    """Use a handle behind a failure: what it shows can be read, and it takes an append or says why.

    [DUR-30, DUR-31] A full disk and the like reject one operation; [DUR-35, DUR-38] only what may
    have lost bytes makes a log read-only, and then each change raises the first cause.
    """
    if log.closed:
        return CLOSED, None
    try:
        shown = shown_by(log).batches
    except OffsetOutOfRangeError:  # emptied halfway: what is in memory is not what is on the disk
        shown = ()
        with pytest.raises(LogReadOnlyError):
            log.append([(BEHIND_MS, None, b"x")])
    refusal: LogReadOnlyError | None = None
    try:
        info = log.append([(BEHIND_MS, None, b"behind the failure")])
    except LogReadOnlyError as error:
        refusal = error
    if refusal is not None:
        cause = refusal.__cause__
        assert isinstance(cause, SegstoreError), f"the cause is not told [DUR-38]: {refusal!r}"
        assert cause.os_error is not None, f"nothing had failed: {refusal!r}"
        return f"{READ_ONLY} by {type(cause).__name__}", None
    behind = shown_by(log).batches
    assert behind[: len(shown)] == shown
    (appended,) = behind[len(shown) :]
    assert appended.base_offset == info.base_offset
    return GOES_ON, appended


def with_appended(states: Iterable[State], appended: Batch | None) -> list[State]:
    """Return the states with one batch more."""
    if appended is None:
        return list(states)
    end = appended.last_offset + 1
    return [
        state._replace(log_end=end, batches=(*state.batches, appended))
        for state in states
        if state.log_end == appended.base_offset
    ]


# ---- what is left --------------------------------------------------------------------------------


def check_left(
    disk: SimulatedDisk,
    settings: Settings,
    killed: Callable[[Found], list[State]],
    cut: Callable[[Found], list[State]],
) -> None:
    """Look at what the next process finds, with and without a power cut, and append to it.

    *killed* and *cut* say what may be there; they are asked with what was found.
    """
    image = Crash(disk.effects, "killed").image(disk)
    found = look(image, settings).found
    check_found(found, killed(found))
    for fate, seed in POWER_CUTS:
        left = look(disk.crash_image(fate=fate, seed=seed), settings).found
        check_found(left, cut(left))
    check_takes_appends(image, settings, found)


def check_takes_appends(disk: SimulatedDisk, settings: Settings, found: Found) -> None:
    """[DUR-6, DUR-30] Another process opens the log, appends, and finds that again."""
    log = settings.open(disk)
    info = log.append([(BEHIND_MS + 1, None, b"when all works again")])
    assert info.base_offset == found.log_end
    log.close()
    again = look(disk.crash_image(fate="lost"), settings)
    assert again.is_clean
    assert again.found.batches[:-1] == found.batches
    assert again.found.log_end == found.log_end + 1


# ---- scripts -------------------------------------------------------------------------------------


class _Script:
    """Operations on a log of which each may fail; the model says what may be left."""

    def __init__(
        self, settings: Settings, prelude: Iterable[Operation], operations: Iterable[Operation]
    ) -> None:
        self.runner = ScriptRunner(settings)
        for operation in prelude:
            self.runner.do(operation)
        self.operations = list(operations)
        self.under_way: tuple[Operation, State] | None = None

    def run(self) -> None:
        for operation in self.operations:
            self.under_way = (operation, self.runner.state)
            self.runner.do(operation)
        self.under_way = None

    def states(self, found: Found, appended: Batch | None, *, power_cut: bool) -> list[State]:
        state = self.runner.state
        if not power_cut:
            state = state.promise(state.log_end)
        states = [state]
        if self.under_way is not None:
            operation, before = self.under_way
            if operation.kind not in APPENDING:
                states += during(state, operation)
            else:
                written = [each for each in found.batches if each.base_offset == before.log_end]
                states += [each for one in written for each in during(state, operation, one)]
        if appended is None:
            return states
        # the batch of a power cut may be gone, with what the operation had done
        return [*with_appended(states, appended), *(states if power_cut else ())]

    def check(self, _: SegstoreError | None) -> str:
        runner = self.runner
        log = runner._log
        outcome, appended = go_on(log)
        runner.abandon()
        check_left(
            runner.disk,
            runner.run.settings,
            lambda found: self.states(found, appended, power_cut=False),
            lambda found: self.states(found, appended, power_cut=True),
        )
        return outcome


def script(
    settings: Settings, prelude: Iterable[Operation], operations: Iterable[Operation]
) -> Trial:
    """Return the trial of a script: *prelude* works, of *operations* each call may fail."""
    made = _Script(settings, prelude, operations)
    return Trial(made.runner.disk, made.run, made.check)


# ---- opening, and asking -------------------------------------------------------------------------


def expecting(disk: SimulatedDisk, settings: Settings) -> Found:
    """Return what an open finds on a disk, which stays as it is."""
    return look(disk.crash_image(fate="killed"), settings).found


def states_of(found: Found) -> list[State]:
    return [State(found.log_start, found.log_end, found.log_end, found.batches)]


def opening(disk: SimulatedDisk, settings: Settings, found: Found) -> Trial:
    """Return the trial of an open of what is all on *disk*: *found*, whatever fails meanwhile."""
    image = disk.crash_image(fate="lost")
    logs: list[UnifiedLog] = []

    def check(_: SegstoreError | None) -> str:
        outcome, appended, states = CLOSED, None, states_of(found)
        for log in logs:
            check_found(shown_by(log), states)
            outcome, appended = go_on(log)
            log.close_quietly()
        more = with_appended(states, appended)
        check_left(image, settings, lambda _: more, lambda _: [*more, *states])
        return outcome

    return Trial(image, lambda: logs.append(settings.open(image)), check)


def looking(
    disk: SimulatedDisk, open_log: Callable[[SimulatedDisk], UnifiedLog], *others: Found
) -> Trial:
    """Return the trial of an open that changes nothing, or no record: it shows what it did before.

    What it shows is that of an open when nothing fails; one behind it may show one of *others*. A
    reader goes on without what the disk does not give out, and its report says so [DUR-33].
    """
    image = disk.crash_image(fate="lost")
    logs: list[UnifiedLog] = []
    with closing(open_log(disk.crash_image(fate="lost"))) as undisturbed:
        expected = shown_by(undisturbed)

    def check(error: SegstoreError | None) -> str:
        for log in logs:
            shown = shown_by(log)
            if shown != expected:
                assert log.read_only
                assert "the disk cannot read" in str(log.report.damage)
                assert {*shown.batches} <= {*expected.batches}
            log.close_quietly()
        with closing(open_log(image.crash_image(fate="killed"))) as again:
            assert shown_by(again) in {expected, *others}
            if not again.read_only:
                log_end = again.log_end_offset
                assert again.append([(BEHIND_MS, None, b"x")]).base_offset == log_end
        assert logs or error is not None
        return GOES_ON if logs else CLOSED

    return Trial(image, lambda: logs.append(open_log(image)), check)


def asking(
    disk: SimulatedDisk,
    settings: Settings,
    ask: Callable[[UnifiedLog], object],
    open_log: Callable[[SimulatedDisk], UnifiedLog] | None = None,
    tells_of: Callable[[object], bool] = lambda _: False,
) -> Trial:
    """Return the trial of a question to a log: no wrong answer, and the right one behind it.

    *tells_of* says of an answer that it has the failure in it.
    """
    image = disk.crash_image(fate="killed")
    open_it = settings.open if open_log is None else open_log
    other = open_it(disk.crash_image(fate="killed"))
    expected = ask(other)
    other.close_quietly()
    log = open_it(image)
    answers: list[object] = []

    def run() -> None:
        answers.append(ask(log))

    def check(_: SegstoreError | None) -> str:
        assert all(answer == expected or tells_of(answer) for answer in answers), answers
        assert ask(log) == expected
        outcome = GOES_ON
        if not log.read_only:
            found = shown_by(log)
            outcome, appended = go_on(log)
            log.close_quietly()
            more = with_appended(states_of(found), appended)
            check_left(image, settings, lambda _: more, lambda _: [*more, *states_of(found)])
        log.close_quietly()
        return outcome

    return Trial(image, run, check)


def changing(
    disk: SimulatedDisk,
    settings: Settings,
    change: Callable[[UnifiedLog], object],
    *others: Found,
    open_log: Callable[[SimulatedDisk], UnifiedLog] | None = None,
) -> Trial:
    """Return the trial of something that changes no record, or leads to one of *others*."""
    image = disk.crash_image(fate="lost")
    log = (settings.open if open_log is None else open_log)(image)
    before = shown_by(log)
    states = [state for found in (before, *others) for state in states_of(found)]

    def check(_: SegstoreError | None) -> str:
        outcome, appended = go_on(log)
        log.close_quietly()
        more = with_appended(states, appended)
        check_left(image, settings, lambda _: more, lambda _: [*more, *states])
        return outcome

    return Trial(image, lambda: change(log), check)
