"""A power cut after any effect of any script: what was promised is there, in order, and no more.

The log and its model run through a script on a simulated disk that remembers every effect; each
crash point is then a disk of its own, opened and compared with what the model allows there.
"""

from __future__ import annotations

import random
import shlex
from typing import TYPE_CHECKING

import pytest

from tests.crash.crash_check import Crash, check_crash, check_found, look, possible_states
from tests.crash.crash_model import Operation
from tests.crash.crash_script import KINDS_OF_SCRIPTS, Settings, run_random_script, run_script
from tests.crash.replay import command, main, parse_crash, parse_script, parse_settings
from tests.crash.seen_images import SeenImages

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.crash.crash_script import Run

PRELUDE = 5  # batches 0 1-2 3-5 6 7-8: some segments, all durable
ALPHABET = (
    Operation("append", 1),
    Operation("append", 3),
    Operation("flush"),
    Operation("roll"),
    Operation("truncate_to", 8),
    Operation("truncate_to", 4),
    Operation("truncate_fully_and_start_at", 2),
    Operation("truncate_fully_and_start_at", 20),
    Operation("delete_records", 4),
    Operation("delete_records", 9),
    Operation("close"),
    Operation("kill"),
    Operation("as_brokers"),
    Operation("background"),
    Operation("new_epoch"),
    Operation("idempotent", 3),
    Operation("transactional", 1),
    Operation("commit", 1),
    Operation("abort", 1),
)
FATES = ("lost", "kept", "seed", "seed", "seed", "killed")
SCRIPTS = 1_200
PARTS = 40


def crashes_behind(run: Run, begin: int, seeds: int) -> Iterator[Crash]:
    """Every crash point from *begin* on, each with the extremes and some seeds."""
    for effects in range(begin, run.disk.effects + 1):
        yield Crash(effects, "lost")
        yield Crash(effects, "kept")
        for seed in range(seeds):
            yield Crash(effects, "seed", effects * 1000 + seed)


def check(run: Run, crash: Crash, *, thoroughly: bool, script: int | str, prelude: int = 0) -> None:
    """Say which script and crash it was that failed, and how to see it again [DUR-114]."""
    try:
        check_crash(run, crash, thoroughly=thoroughly)
    except Exception as error:
        operations = " ".join(str(step.operation) for step in run.steps)
        again = command(run, crash, script, prelude)
        msg = f"script {script}: {operations}\n{run.settings}\n{crash}: {error!r}\nagain: {again}"
        raise AssertionError(msg) from error


def test_a_new_log_survives_a_crash_at_any_point():
    """[DUR-11] From the first effect of the first open on."""
    run = run_script([Operation("append", 2), Operation("close")], Settings())
    for crash in crashes_behind(run, 0, 10):
        check(run, crash, thoroughly=True, script="append(2) close(0)")


@pytest.mark.parametrize("durability", ["none", "sync"])
@pytest.mark.parametrize("first", ALPHABET, ids=str)
def test_every_script_of_two_operations(
    first: Operation,
    durability: str,
    few_or_many: Callable[[int, int], int],
    one_in: Callable[[int], int],
):
    """[DUR-1, DUR-2, DUR-5, DUR-112] Every crash point of every script."""
    settings = Settings(durability)
    prelude, seen = run_script([], settings, prelude=PRELUDE).disk.effects, SeenImages()
    seconds = ALPHABET[ALPHABET.index(first) % one_in(10) :: one_in(10)]
    for number, second in enumerate(seconds):
        run = run_script([first, second], settings, prelude=PRELUDE, seen=seen)
        for crash in crashes_behind(run, prelude, few_or_many(1, 3)):
            thoroughly = (crash.effects + number) % few_or_many(7, 3) == 0
            check(run, crash, thoroughly=thoroughly, script=f"{first} {second}", prelude=PRELUDE)


@pytest.mark.parametrize(
    "last",
    [
        Operation("truncate_to", 4),
        Operation("truncate_fully_and_start_at", 2),
        Operation("truncate_fully_and_start_at", 20),
        Operation("delete_records", 9),
    ],
    ids=str,
)
def test_many_segments_of_a_log_that_may_have_holes(
    last: Operation, few_or_many: Callable[[int, int], int]
):
    """[DUR-2, DUR-16, DUR-18, DUR-112] No recovery would see that one in the midst is missing."""
    settings, prelude = Settings(segment_bytes=250), 2 * PRELUDE
    begin = run_script([], settings, prelude=prelude).disk.effects
    run = run_script([Operation("as_brokers"), last], settings, prelude=prelude)
    for crash in crashes_behind(run, begin, few_or_many(2, 8)):
        check(run, crash, thoroughly=False, script=f"as_brokers {last}", prelude=prelude)


def check_random_script(seed: int, crashes: int) -> None:
    run = run_random_script(seed)
    choice = random.Random(seed)
    for number in range(crashes):
        crash = Crash(
            choice.randint(0, run.disk.effects), choice.choice(FATES), choice.getrandbits(32)
        )
        check(run, crash, thoroughly=number == 0, script=seed)


@pytest.fixture
def scripts(pytestconfig: pytest.Config, few_or_many: Callable[[int, int], int]) -> int:
    return pytestconfig.getoption("--crash-scripts") or few_or_many(SCRIPTS // 10, SCRIPTS)


@pytest.mark.parametrize("part", range(PARTS))
def test_random_scripts(part: int, scripts: int):
    """[DUR-1, DUR-2, DUR-5, DUR-56] 300 scripts in CI, 120 at home."""
    scripts //= PARTS
    for seed in range(part * scripts, (part + 1) * scripts):
        check_random_script(seed, crashes=3)


def test_a_model_that_promises_less_or_more_would_be_noticed():
    """The check itself: a log with a batch too few, one too many, or another one, is refused."""
    run = run_script([Operation("append", 1), Operation("flush")], Settings(), prelude=PRELUDE)
    end = run.disk.effects
    states = possible_states(run, end)
    found = look(Crash(end, "kept").image(run.disk), run.settings).found
    check_found(found, states)
    *others, last = found.batches
    wrong = [
        found._replace(batches=tuple(others), log_end=last.base_offset),
        found._replace(batches=(*found.batches, last)),
        found._replace(batches=(*others, last._replace(content=last.content[:-1] + b"!"))),
        found._replace(batches=(*others[1:], last)),
        found._replace(log_start=1),
        found._replace(log_end=found.log_end + 1),
    ]
    for each in wrong:
        with pytest.raises(AssertionError, match="possible"):
            check_found(each, states)


@pytest.mark.parametrize("script", [17, "append(2) roll(0) append(1)"], ids=str)
def test_one_command_shows_an_image_again(script: int | str, capsys: pytest.CaptureFixture[str]):
    """[DUR-114] What a failure prints leads to the same script and the same crash."""
    settings = Settings("sync", preallocate=True)
    if isinstance(script, int):
        run = run_random_script(script)
    else:
        run = run_script(parse_script(script), settings, prelude=2)
    crash = Crash(run.disk.effects // 2, "seed", 5)

    words = shlex.split(command(run, crash, script, prelude=2))
    assert main(words[3:]) == 0
    told = capsys.readouterr().out.splitlines()

    effects = [run.disk.event(number + 1) for number in range(run.disk.effects)]
    listed = [line.split()[1] for line in told if line[:6].strip().isdigit()]
    assert listed == [event.call for event in effects]
    assert "nothing was lost or changed" in told[-1]
    assert parse_crash(words[-1]) == crash
    if isinstance(script, str):
        assert parse_settings(words[words.index("--settings") + 1]) == settings


def test_a_replay_tells_of_what_is_lost(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    """The check itself: exit status 1, and what was found."""

    def fail(*_: object, **__: object) -> None:
        raise AssertionError("found other records")

    monkeypatch.setattr("tests.crash.replay.check_crash", fail)
    assert main(["--script", "append(1)", "--crash", "20,lost"]) == 1
    assert "found other records" in capsys.readouterr().out


def test_a_crash_behind_the_end_is_none(capsys: pytest.CaptureFixture[str]):
    """It was said that nothing is lost by it."""
    assert main(["--script", "append(1)", "--crash", "9999,lost"]) == 1
    assert "no crash to look at: the script has" in capsys.readouterr().out


def test_the_alphabet_has_every_operation():
    """[DUR-112] And the random scripts draw no other."""
    assert {operation.kind for operation in ALPHABET} == set(KINDS_OF_SCRIPTS)
