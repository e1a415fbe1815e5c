"""A Spark home whose Python processes import PySpark from its package, which has byte code.

In front of their search path Spark puts the archive ``python/lib/pyspark.zip`` of its home, for
machines that have no PySpark. The archive holds sources only, so that every process that Spark
starts, one for each kind of work and one for each streaming source, compiles PySpark anew: about a
second of CPU. A home without the folder ``python`` has them take the installed package.
"""

from __future__ import annotations

import hashlib
import os
import site
import sys
import uuid
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

from segstore.spark.user_cache import in_user_cache

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SPARK_HOME: Final = "SPARK_HOME"


def spark_home_to_link(package: Path, master: str, python: str) -> Path | None:
    """Return the home of Spark in the folder *package* of PySpark, if links may take its place.

    Not with a ``SPARK_HOME`` that somebody has chosen, a *master* elsewhere, or a *python* of the
    workers that is not this one; and only where this one finds the package without our help.
    """
    found_by_python = {*site.getsitepackages(), site.getusersitepackages()}
    found_by_python.update(os.environ.get("PYTHONPATH", "").split(os.pathsep))
    if (
        os.environ.get(SPARK_HOME)
        or not master.startswith("local")
        or python != sys.executable
        or str(package.parent) not in found_by_python
        or not (package / "python" / "lib" / "pyspark.zip").is_file()
        or not (package / "bin" / "spark-submit").is_file()
    ):
        return None
    return package


def link_spark_home(home: Path) -> Path:
    """Make a folder of links to all that is in *home* but ``python``, in the user's cache."""
    names = sorted(path.name for path in home.iterdir() if path.name != "python")
    digest = hashlib.sha256("\0".join([str(home), *names]).encode()).hexdigest()[:16]

    def make(cache: Path) -> Path:
        links = cache / f"spark-home-{digest}"
        links.mkdir(mode=0o700, exist_ok=True)
        for name in names:
            _make_link(links / name, home / name)
        return links

    return in_user_cache(make)


def _make_link(link: Path, target: Path) -> None:
    """Make *link* lead to *target*, also where something has removed or changed it."""
    with suppress(OSError):
        if link.readlink() == target:
            return
    part = link.with_name(f".{uuid.uuid4().hex}")
    part.symlink_to(target)
    try:
        part.replace(link)
    except OSError:
        part.unlink()
        raise


@contextmanager
def spark_home(home: Path | None) -> Iterator[None]:
    """Let Spark be started from *home*; None = from where it finds itself.

    Not for longer: other programs that this process starts may have another PySpark.
    """
    if home is None:
        yield
        return
    os.environ[SPARK_HOME] = str(home)
    try:
        yield
    finally:
        del os.environ[SPARK_HOME]
