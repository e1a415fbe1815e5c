"""``segstore.spark.pack()``: an archive of segstore and its dependencies, for executors.

Spark copies the archive to every executor and unpacks it in the working folder; a relative entry of
``PYTHONPATH`` makes it importable. Executors need the same Python and kind of machine as this
process, and PySpark, which Spark provides. Nothing has to be installed there.
"""

from __future__ import annotations

import gzip
import sys
import tarfile
import uuid
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from segstore.errors import LogNotFoundError

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Sequence

FOLDER: Final = "segstore_packed"
"""Under which executors find it."""
DEPENDENCIES: Final = (
    "numpy",
    "crc32c",
    "lz4",
    "cramjam",
    *(() if sys.version_info >= (3, 14) else ("zstandard",)),
    "pyarrow",
)
_LEFT_OUT: Final = frozenset({"__pycache__", "tests", "include", "_cython", "demo_data", ".."})
_SUFFIXES_LEFT_OUT: Final = (".pyc", ".pyi", ".pxd", ".pyx", ".pxi", ".h", ".a")
_MODULE: Final = "pyspark_segstore.py"


class Packed(NamedTuple):
    """An archive, and the settings with which Spark uses it.

    Attributes
    ----------
    path : Path
        Absolute path of the archive.
    conf : dict of str to str
        Settings for `session`, or for ``spark-submit --conf``.
    """

    path: Path
    conf: dict[str, str]


def pack(
    path: str | os.PathLike[str] = "segstore.tar.gz",
    dependencies: Sequence[str] = DEPENDENCIES,
) -> Packed:
    """Write an archive of segstore and its dependencies as installed here.

    Use it as ``session(master="spark://host:7077", **pack().conf)``, or pass both settings of
    ``conf`` to ``spark-submit`` with ``--conf``.

    Parameters
    ----------
    path : path
        Path of the archive, which is replaced. It ends in ``.tar.gz`` or ``.tgz``, as Spark needs.
    dependencies : sequence of str
        Distributions to include. Leave out those that the executors have; add ``pandas`` if
        needed.

    Raises
    ------
    LogNotFoundError
        A distribution is not installed here.
    """
    target = Path(path).absolute()
    files = dict(_own_files())
    for name in dependencies:
        files.update(_files_of(name))
    temporary = target.with_name(f".{target.name}.{uuid.uuid4().hex}")
    try:
        # without times in it, the same files are the same archive
        with (
            temporary.open("wb") as opened,
            gzip.GzipFile("", "wb", 1, opened, mtime=0) as compressed,
            tarfile.open(fileobj=compressed, mode="w") as archive,
        ):
            for name in sorted(files):
                archive.add(files[name], name, recursive=False, filter=_plain)
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)
    conf = {
        "spark.archives": f"{target}#{FOLDER}",
        "spark.executorEnv.PYTHONPATH": f"./{FOLDER}",
    }
    return Packed(target, conf)


def _own_files() -> Iterator[tuple[str, Path]]:
    package = Path(__file__).resolve().parents[1]
    for file in package.rglob("*"):
        name = Path(package.name, file.relative_to(package))
        if file.is_file() and _is_wanted(name):
            yield str(name), file
    yield _MODULE, package.parent / _MODULE


def _files_of(name: str) -> Iterator[tuple[str, Path]]:
    try:
        files = distribution(name).files
    except PackageNotFoundError:
        files = None
    if files is None:
        raise LogNotFoundError(
            f"the package {name} is not installed here, so it cannot be packed",
            found="not installed",
            expected=f"pip install {name}",
        )
    for file in files:
        place = Path(str(file.locate()))
        if _is_wanted(Path(file)) and place.is_file():
            yield str(Path(file)), place


def _is_wanted(name: Path) -> bool:
    return not _LEFT_OUT & {*name.parts} and not name.name.endswith(_SUFFIXES_LEFT_OUT)


def _plain(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.mtime = entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry
