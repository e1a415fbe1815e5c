"""A call of the system that fails takes nothing from the log: what was acknowledged stays [DUR-6].

One call somewhere in a random script fails, once or for ever. The operation that meets it may have
happened or not; what came before it is there when the log is opened again, without a power cut.
"""

from __future__ import annotations

import errno
import random
from typing import TYPE_CHECKING

import pytest

from segstore.errors import SegstoreError
from tests.crash.crash_check import Crash, check_found, look
from tests.crash.crash_model import APPENDING, Operation, during
from tests.crash.crash_script import ScriptRunner, random_operation, random_settings

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.crash.crash_model import Found, State

ERRORS = (errno.EIO, errno.ENOSPC, errno.EMFILE, errno.EACCES)
PARTS = 10


def states_behind(before: State, operation: Operation, found: Found) -> list[State]:
    """Return what a failed operation may leave: nothing is lost without a power cut."""
    whole = before.promise(before.log_end)
    if operation.kind not in APPENDING:
        return during(whole, operation)
    written = [batch for batch in found.batches if batch.base_offset == before.log_end]
    return [whole, *during(whole, operation, written[0])] if written else [whole]


def run_until_it_fails(seed: int) -> None:
    choice = random.Random(seed)
    runner = ScriptRunner(random_settings(choice), seed)
    runner.disk.fail(
        None, choice.randint(1, 150), choice.choice(ERRORS), for_ever=choice.random() < 0.3
    )
    for _ in range(8):
        operation, before = random_operation(choice, runner.state), runner.state
        try:
            runner.do(operation)
        except SegstoreError:
            break
    else:
        runner.abandon()
        return
    runner.disk.fail(None, 0, 0)
    runner.abandon()
    looked = look(Crash(runner.disk.effects, "killed").image(runner.disk), runner.run.settings)
    check_found(looked.found, states_behind(before, operation, looked.found))


@pytest.mark.parametrize("part", range(PARTS))
def test_nothing_is_lost_but_what_failed(part: int, few_or_many: Callable[[int, int], int]):
    """[DUR-6, DUR-30..DUR-35, DUR-111]"""
    scripts = few_or_many(40, 1000)
    for seed in range(part * scripts, (part + 1) * scripts):
        try:
            run_until_it_fails(seed)
        except Exception as error:
            msg = f"script {seed}: {error!r}"
            raise AssertionError(msg) from error
