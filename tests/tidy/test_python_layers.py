"""The house in Python: a package imports only what stands below it; nothing goes in a circle."""

from __future__ import annotations

import re
from graphlib import CycleError, TopologicalSorter

import pytest

from tests.tidy.project_files import ROOT, imported_modules, module_name, name_of, project_files

FLOORS = [
    (
        "errors",
        "status_errors",
        "types",
        "number_limits",
        "numpy_on_demand",
        "record_rows",
        "record_columns",
        "notebook",
    ),
    ("_core", "config", "arguments"),
    ("records",),
    ("log",),
    ("tables",),
    ("manager", "remote", "raft"),
    ("spark", "cli", "polars"),
]
FLOOR_OF = {name: floor for floor, names in enumerate(FLOORS, 1) for name in names}
ROOMS = ["findings", "files", "local", "producers", "cleaning", "recovery", "salvage", "check"]
"""Of the log, from the ground up; its own files and kafka_profile stand above them."""
PACKAGE = [path for path in project_files(".py") if name_of(path).startswith("segstore/")]
FACES = {"segstore", "segstore.__main__"}  # hand names on; not a floor of their own


def floor_of(module: str) -> int:
    """Floor of a module of segstore; the face of the package stands above all."""
    return len(FLOORS) + 1 if module in FACES else FLOOR_OF[module.split(".")[1]]


def test_every_module_has_a_floor():
    """A new package needs a place in the house before it needs code."""
    modules = {module_name(path) for path in PACKAGE} - FACES

    assert {name for name in modules if name.split(".")[1] not in FLOOR_OF} == set()


@pytest.mark.parametrize("path", PACKAGE, ids=name_of)
def test_no_import_goes_up(path):
    """Imports inside functions and for type checking count too: an arrow is an arrow.

    The doors (the top floor) use ``import segstore`` as any user does.
    """
    own = floor_of(module_name(path))
    doors = len(FLOORS)

    up = [
        name
        for name, _ in imported_modules(path)
        if floor_of(name) > own and not (own == doors and name == "segstore")
    ]
    assert up == []


def room_of(module: str) -> int:
    """Height of a module of segstore.log in it."""
    room = module.split(".")[2] if module.count(".") > 1 else ""
    return ROOMS.index(room) if room in ROOMS else len(ROOMS)


@pytest.mark.parametrize("path", [path for path in PACKAGE if "log" in path.parts], ids=name_of)
def test_no_import_goes_up_between_the_rooms_of_the_log(path):
    """The log is the largest floor: it has an order of its own."""
    own = room_of(module_name(path))

    up = [
        name
        for name, _ in imported_modules(path)
        if name.startswith("segstore.log") and room_of(name) > own
    ]
    assert up == []


def test_packages_import_each_other_in_no_circle():
    """Floors allow neighbours: here neighbours are ordered too."""
    graph: dict[str, set[str]] = {}
    for path in PACKAGE:
        module = module_name(path)
        if module in FACES:
            continue
        own = module.split(".")[1]
        used = {name.split(".")[1] for name, _ in imported_modules(path) if name not in FACES}
        graph.setdefault(own, set()).update(used - {own})

    assert_no_circle(graph)


def test_modules_import_each_other_in_no_circle():
    """Imports for type checking are left out: the machine never follows them."""
    graph = {
        module_name(path): {name for name, for_types in imported_modules(path) if not for_types}
        - {module_name(path)}
        for path in PACKAGE
        if module_name(path) not in FACES and path.name != "__init__.py"
    }

    assert_no_circle(graph)


def test_the_wrapper_of_the_core_uses_only_the_ground_floor():
    """segstore._core knows errors, types and rows; what it is given, it is given as an argument."""
    sources = project_files(".pyx", ".pxi", ".pxd")
    imports = re.compile(
        r"^\s*(?:from|import)\s+(segstore[\w.]*)(?:\s+import\s+(\w+))?", re.MULTILINE
    )
    allowed = {f"segstore.{name}" for name in FLOORS[0]}

    found = {
        (name_of(path), f"{base}.{name}" if base == "segstore" else base)
        for path in sources
        for base, name in imports.findall(path.read_text(encoding="utf-8"))
    }
    assert sources
    assert {
        (path, name)
        for path, name in found
        if name not in allowed and not name.startswith("segstore._cython.")
    } == set()


def assert_no_circle(graph: dict[str, set[str]]) -> None:
    """Fail with the circle itself."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail("circle: " + " -> ".join(error.args[1]))


def test_the_package_is_where_these_tests_look():
    """A moved package must not leave these tests with nothing to check."""
    assert (ROOT / "segstore" / "errors.py") in PACKAGE
