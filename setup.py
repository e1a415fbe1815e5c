"""Build of the one extension module; everything else about the project is in pyproject.toml.

The C core (csrc/) and the Cython wrapper (segstore/_core.pyx with its .pxi and .pxd files) become
``segstore._core``. Objects are compiled in parallel and only when their source, a header they
include or the flags changed: the compiler itself writes the list of headers (``-MMD``).

Environment: ``SEGSTORE_WARNINGS=error`` makes every warning in csrc/ an error (CI does);
``CFLAGS=-O0`` or another level is used in place of ``-O3``.
"""

from __future__ import annotations

import os
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import PlatformError

if sys.platform in {"win32", "cygwin", "darwin"}:
    sys.exit("segstore runs on Linux only: use a Linux machine, a container, or WSL on Windows")

CORE_FOLDERS = ("base", "io", "record", "index", "segment")  # csrc/fuzz: tests/c/Makefile
OPTIMIZATION = [] if "-O" in os.environ.get("CFLAGS", "") else ["-O3"]  # a level in CFLAGS wins
CORE_FLAGS = ["-std=c11", *OPTIMIZATION, "-fvisibility=hidden"]
CORE_WARNINGS = [
    "-Wall",
    "-Wextra",
    "-Wpedantic",
    "-Wconversion",
    "-Wshadow",
    "-Wmissing-prototypes",
    "-Wstrict-prototypes",
]
# Warnings in Cython's C are not ours. Debug information would be a third of the compiler's time.
WRAPPER_FLAGS = [*OPTIMIZATION, "-g0", "-fvisibility=hidden"]
CYTHON_OUTPUT = Path("build", "cython")

HOW_TO_INSTALL = "`apt-get install gcc python3-dev` or `dnf install gcc python3-devel`"


def core_sources() -> list[str]:
    """Every .c file of the core, in a fixed order."""
    return sorted(str(path) for name in CORE_FOLDERS for path in Path("csrc", name).glob("*.c"))


def core_flags() -> list[str]:
    """Flags for the files of csrc/."""
    strict = ["-Werror"] if os.environ.get("SEGSTORE_WARNINGS") == "error" else []
    return CORE_FLAGS + CORE_WARNINGS + strict


def is_current(target: Path, sources: list[Path]) -> bool:
    """Whether *target* exists and is newer than all *sources*, which must all exist."""
    try:
        written = target.stat().st_mtime_ns
        return all(source.stat().st_mtime_ns < written for source in sources)
    except FileNotFoundError:
        return False


def included_files(dependency_file: Path) -> list[Path]:
    """Read the make rule that ``-MMD`` wrote: ``object: source header header ...``."""
    rule = dependency_file.read_text(encoding="utf-8").replace("\\\n", " ")
    return [Path(name) for name in rule.partition(": ")[2].split()]


def compile_changed(compiler, compile_all, sources, output_dir=None, **options) -> list[str]:
    """Stand in for ``compiler.compile``: per file, in parallel, skipping what is up to date."""
    objects = compiler.object_filenames(sources, output_dir=output_dir or "")

    def compile_one(source: str, object_name: str) -> None:
        flags = core_flags() if Path(source).parts[0] == "csrc" else WRAPPER_FLAGS
        target = Path(object_name)
        dependencies, note = target.with_suffix(".d"), target.with_suffix(".flags")
        command = repr((compiler.compiler_so, flags, options))
        if (
            not compiler.force
            and dependencies.exists()
            and is_current(target, included_files(dependencies))
            and note.exists()
            and note.read_text(encoding="utf-8") == command
        ):
            return
        arguments = {**options, "extra_postargs": [*flags, "-MMD"]}
        compile_all([source], output_dir=output_dir, **arguments)
        note.write_text(command, encoding="utf-8")

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(compile_one, sources, objects))  # list() passes on the first error
    return objects


class BuildCore(build_ext):
    """Check the tools, translate the wrapper, compile what changed, link."""

    def run(self) -> None:
        """Refuse early, in one sentence, on a machine that cannot compile."""
        if not any(Path(folder, "Python.h").is_file() for folder in self.include_dirs):
            raise PlatformError(f"segstore needs Python.h: install it, e.g. {HOW_TO_INSTALL}")
        if self.editable_mode:  # `pip install -e` would compile into a folder that it throws away
            self.build_temp = f"build/temp.{self.plat_name}-{sys.implementation.cache_tag}"
        super().run()

    def build_extensions(self) -> None:
        """Check for the C compiler, which is known only here, and make its builds incremental."""
        command = self.compiler.compiler_so[0]
        if shutil.which(command) is None:
            problem = f"segstore needs a C compiler ({command!r} was not found)"
            raise PlatformError(f"{problem}: install one, e.g. {HOW_TO_INSTALL}")
        self.compiler.compile = partial(compile_changed, self.compiler, self.compiler.compile)
        self.force = True  # compile_changed() decides, not the age of the finished module
        super().build_extensions()

    def build_extension(self, ext: Extension) -> None:
        """Translate _core.pyx into C below build/, then let setuptools compile and link."""
        from Cython.Build import cythonize

        wrapper = Extension(ext.name, [name for name in ext.sources if name.endswith(".pyx")])
        (translated,) = cythonize(
            [wrapper],
            build_dir=str(CYTHON_OUTPUT),
            include_path=["."],
            compiler_directives={"language_level": 3},
            quiet=True,
        )
        core = [name for name in ext.sources if name.endswith(".c")]
        ext.sources = translated.sources + core
        ext.include_dirs = ["csrc"]
        super().build_extension(ext)


setup(
    cmdclass={"build_ext": BuildCore},
    ext_modules=[
        Extension(
            "segstore._core",
            sources=["segstore/_core.pyx", *core_sources()],
        )
    ],
)
