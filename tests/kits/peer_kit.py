"""Another process that does what a test says, statement by statement, until it is killed."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

_LOOP = """
import ast, sys
import segstore
known = {"segstore": segstore}
for line in sys.stdin:
    kind, _, code = ast.literal_eval(line).partition(":")
    try:
        answer = ("is", eval(code, known) if kind == "eval" else exec(code, known))
    except Exception as error:
        answer = (type(error).__name__, str(error))
    print(repr(answer), flush=True)
"""


class PeerError(Exception):
    """What went wrong in the other process: the name of the class, and the text."""


class Peer:
    """A process of Python with segstore; what it has open is open until it is told otherwise."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", _LOOP],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )

    def do(self, code: str, **values: object) -> None:
        """Run statements, with ``{name}`` for the text of a value."""
        self.begin(f"exec:{code}", **values)
        self.finish()

    def ask(self, code: str, **values: object) -> Any:
        """Return the value of an expression, a literal."""
        self.begin(f"eval:{code}", **values)
        return self.finish()

    def begin(self, code: str, **values: object) -> None:
        """Send what is to be run, and do not wait for it."""
        text = code.format(**{name: repr(str(value)) for name, value in values.items()})
        assert self._process.stdin is not None
        self._process.stdin.write(f"{text!r}\n")
        self._process.stdin.flush()

    def finish(self) -> Any:
        """Wait for the end of what was begun; return its value, or raise what it raised."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the other process has ended"
        name, value = ast.literal_eval(line)
        if name != "is":
            raise PeerError(f"{name}: {value}")
        return value

    def kill(self) -> None:
        """Send SIGKILL, and wait for its end."""
        self._process.kill()
        self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with self._process:
            self._process.kill()
