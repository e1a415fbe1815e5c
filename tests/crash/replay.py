"""Look at one crash image of a whole log again, and tell everything about it.

    python -m tests.crash.replay --random 10953 --crash 57,seed,1234
    python -m tests.crash.replay --script 'append(2) roll append(1)' --settings durability=sync
        --prelude 5 --crash 57,lost

A test of `tests.crash.test_crash_scripts` that fails prints the command [DUR-114]. The exit status
is 1 when something is lost or changed, or the crash lies behind the script's end.
"""

from __future__ import annotations

import argparse
import re
import shlex
import sys

from tests.crash.crash_check import Crash, check_crash, possible_states
from tests.crash.crash_model import Operation
from tests.crash.crash_script import Run, Settings, run_random_script, run_script


def parse_script(text: str) -> list[Operation]:
    """Read ``append(2) roll``; the opposite of ``str`` on operations."""
    operations = []
    for word in text.split():
        found = re.fullmatch(r"([a-z_]+)(?:\((\d+)\))?", word)
        if found is None:
            raise argparse.ArgumentTypeError(f"{word!r} is no operation")
        operations.append(Operation(found[1], int(found[2] or 0)))
    return operations


def parse_settings(text: str) -> Settings:
    """Read ``segment_bytes=400,preallocate=True``; fields that are left out have their default."""
    values: dict[str, str | int | bool] = {}
    for word in filter(None, text.split(",")):
        name, _, value = word.partition("=")
        if name not in Settings._fields:
            raise argparse.ArgumentTypeError(f"{word!r} is no setting")
        if name in {"durability", "index_mode"}:
            values[name] = value
        else:
            values[name] = value == "True" if value in {"True", "False"} else int(value)
    return Settings(**values)  # type: ignore[arg-type]


def parse_crash(text: str) -> Crash:
    """Read ``57,seed,1234``: effects, fate, seed."""
    effects, fate, *seed = text.split(",")
    return Crash(int(effects), fate, int(seed[0]) if seed else 0)


def command(run: Run, crash: Crash, script: int | str, prelude: int = 0) -> str:
    """Return the command that looks at an image again; *script* may be the seed of a random one."""
    if isinstance(script, int):
        which = f"--random {script}"
    else:
        fields = run.settings._asdict().items()
        settings = ",".join(f"{name}={value}" for name, value in fields)
        which = f"--script '{script}' --settings {settings} --prelude {prelude}"
    python = shlex.quote(sys.executable)  # that one has what it takes
    at = f"{crash.effects},{crash.fate},{crash.seed}"
    return f"{python} -m tests.crash.replay {which} --crash {at}"


def tell(run: Run, crash: Crash) -> bool:
    """Print the effects of a run and what is found after the crash; returns whether it is good."""
    if crash.effects > run.disk.effects:
        print(f"no crash to look at: the script has {run.disk.effects} effects")
        return False
    begins: dict[int, list[str]] = {}
    for step in run.steps:
        begins.setdefault(step.begin + 1, []).append(str(step.operation))
    for number in range(1, run.disk.effects + 1):
        for operation in begins.get(number, []):
            print(operation)
        event = run.disk.event(number)
        place = f"{event.position} +{event.bytes_count}"
        print(f"{number:6}  {event.call:14} {event.name} {event.to} {place}")
        if number == crash.effects:
            print("------  crash")
    for state in possible_states(run, crash.effects):
        spans = " ".join(f"{batch.base_offset}-{batch.last_offset}" for batch in state.batches)
        print(f"possible [{state.log_start}, {state.log_end}) durable {state.durable}: {spans}")
    try:
        check_crash(run, crash, thoroughly=True)
    except Exception as error:  # noqa: BLE001 - an open that fails breaks a promise too
        print(f"{type(error).__name__}: {error}")
        return False
    print("nothing was lost or changed")
    return True


def main(arguments: list[str] | None = None) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--random", type=int, metavar="SEED", help="a script by chance")
    which.add_argument("--script", type=parse_script, metavar="TEXT")
    parser.add_argument("--settings", type=parse_settings, default=Settings())
    parser.add_argument("--prelude", type=int, default=0, metavar="BATCHES")
    parser.add_argument("--crash", type=parse_crash, required=True, metavar="EFFECTS,FATE,SEED")
    chosen = parser.parse_args(arguments)
    if chosen.script is None:
        run = run_random_script(chosen.random)
    else:
        run = run_script(chosen.script, chosen.settings, prelude=chosen.prelude)
    return 0 if tell(run, chosen.crash) else 1


if __name__ == "__main__":
    sys.exit(main())
