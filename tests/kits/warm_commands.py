"""``python -m segstore`` many times, without its start: a process that has imported all forks each.

Which modules a command imports, and how an interpreter begins and ends, is tested with processes
of their own (tests/unit/cli/test_exit_codes.py): `run_segstore` starts one.
"""

from __future__ import annotations

import atexit
import functools
import importlib
import io
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from segstore import cli
from tests.kits.cli_process import environment

STREAMS = ("stdin", "stdout", "stderr")


class WarmCommands:
    """A process that forks for each command, with *variables* in its environment from the start."""

    def __init__(self, **variables: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__],
            env=environment() | variables,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        atexit.register(self._process.kill)

    def run(
        self, *arguments: str | Path, stdin: bytes = b"", cwd: Path | None = None, **variables: str
    ) -> subprocess.CompletedProcess[bytes]:
        """Run a command; ``-c`` is a program in Python."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with tempfile.TemporaryDirectory() as folder:
            files = [Path(folder) / name for name in STREAMS]
            files[0].write_bytes(stdin)
            command = [*map(str, arguments)]
            request = [command, [*map(str, files)], str(cwd or Path.cwd()), variables]
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
            code = int(self._process.stdout.readline())
            return subprocess.CompletedProcess(
                command, code, files[1].read_bytes(), files[2].read_bytes()
            )


@functools.cache
def warm_commands(library: Path | None = None) -> WarmCommands:
    """Return those of this test process; a *library* of C stands in front of the system's."""
    return WarmCommands(**{} if library is None else {"LD_PRELOAD": str(library)})


def run_warm(*arguments: str | Path, **more: Any) -> subprocess.CompletedProcess[bytes]:
    """Run a command as `run_segstore` does."""
    return warm_commands().run(*arguments, **more)


def _serve() -> None:
    for name in cli.COMMANDS:
        importlib.import_module(f"segstore.cli.{cli.module_of(name)}")
    requests, answers = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
    while line := requests.readline():
        child = os.fork()
        if child == 0:
            _become(*json.loads(line))
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), file=answers, flush=True)


def _become(arguments: list[str], files: list[str], cwd: str, variables: dict[str, str]) -> None:
    """Run a command in this process, to its end."""
    for descriptor, file in enumerate(files):
        os.dup2(
            os.open(file, os.O_CREAT | (os.O_WRONLY if descriptor else os.O_RDONLY)), descriptor
        )
    sys.stdin, sys.stdout = open(0, encoding="utf-8"), open(1, "w", encoding="utf-8")  # noqa: SIM115 - to the end
    sys.stderr = io.TextIOWrapper(open(2, "wb", 0), errors="backslashreplace", write_through=True)  # noqa: SIM115
    os.chdir(cwd)
    os.environ.update(variables)
    code = 1
    try:
        if arguments[0] == "-c":
            sys.argv = ["-c", *arguments[2:]]
            exec(compile(arguments[1], "<string>", "exec"), {"__name__": "__main__"})
            code = 0
        else:
            sys.argv = ["segstore", *arguments]
            code = cli.main()
    except SystemExit as leaving:
        code = leaving.code if isinstance(leaving.code, int) else 1
    except BaseException:  # noqa: BLE001 - as an interpreter ends
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stdout.flush()
        os._exit(code)


if __name__ == "__main__":
    _serve()
