"""Where the Python classes call what may reach the environment, found by mypy.

It knows of each call which function is called, through whatever name it came there: a place that is
added is seen, whether or not somebody tests it [DUR-111].
"""

from __future__ import annotations

import functools
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from mypy import build, options
from mypy.config_parser import parse_config_file
from mypy.modulefinder import BuildSource
from mypy.nodes import TypeInfo
from mypy.plugin import Plugin

from tests.crash.core_calls import wrappers_that_call

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[2]
CORE = "segstore._core."
FOLDERS = ("log", "manager", "raft", "records")
"""What is looked at: the engine. Commands, Spark's side and remote storage stand above it."""


class CallPlace(NamedTuple):
    """A call in the sources, by where its expression ends."""

    file: str
    line: int
    column: int
    function: str
    """Of the core: ``Directory.sync``."""
    first_line: int


class _Collector(Plugin):
    """Notes every call of the core that mypy sees."""

    def __init__(self, chosen: options.Options) -> None:
        super().__init__(chosen)
        self.places: set[CallPlace] = set()

    def get_method_hook(self, fullname: str) -> Callable | None:
        function = self._function(fullname)
        return self._note(function) if function else None

    get_function_hook = get_method_hook

    def get_attribute_hook(self, fullname: str) -> Callable | None:
        return self.get_method_hook(fullname)

    def _function(self, fullname: str) -> str | None:
        """Return which function of the core that is, if it may call the environment."""
        if fullname.startswith(CORE):
            owner, _, name = fullname.removeprefix(CORE).rpartition(".")
            if not owner and name[:1].isupper():
                owner, name = name, "__cinit__"
            return self._if_it_calls(owner, name)
        made = self.lookup_fully_qualified(fullname) if fullname.startswith("segstore.") else None
        if made is not None and isinstance(made.node, TypeInfo):  # a class is called
            cores = [one.name for one in made.node.mro if one.fullname.startswith(CORE)]
            return self._if_it_calls(cores[0], "__cinit__") if cores else None
        owner, _, name = fullname.rpartition(".")
        found = self.lookup_fully_qualified(owner) if owner.startswith("segstore.") else None
        info = None if found is None else found.node
        for base in info.mro if isinstance(info, TypeInfo) else ():
            if name in base.names:
                is_core = base.fullname.startswith(CORE)
                return self._if_it_calls(base.name, name) if is_core else None
        return None

    @staticmethod
    def _if_it_calls(owner: str, name: str) -> str | None:
        if (owner, name) not in wrappers_that_call():
            return None
        return f"{owner}.{name}" if owner else name

    def _note(self, function: str) -> Callable:
        def hook(context):
            where = context.context
            file = str(Path(context.api.path).resolve().relative_to(ROOT))
            place = CallPlace(file, where.end_line, where.end_column, function, where.line)
            self.places.add(place)
            if hasattr(context, "default_attr_type"):
                return context.default_attr_type
            return context.default_return_type

        return hook


def _module(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@functools.cache
def call_places() -> frozenset[CallPlace]:
    """Return every place; ten seconds' work."""
    chosen = options.Options()
    parse_config_file(chosen, lambda: None, str(ROOT / "pyproject.toml"), sys.stdout, sys.stderr)
    chosen.incremental = False
    chosen.python_executable = sys.executable
    chosen.per_module_options["numpy.*"] = {"follow_imports": "skip"}  # its types are half the work
    collector = _Collector(chosen)
    files = [path for name in FOLDERS for path in (ROOT / "segstore" / name).rglob("*.py")]
    sources = [BuildSource(str(path), _module(path)) for path in files]
    build.build(sources, chosen, extra_plugins=[collector])
    return frozenset(collector.places)
