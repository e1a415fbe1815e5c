"""Classes of the package: composition, not chains; no class exists only to be another's base."""

from __future__ import annotations

import ast
import builtins
import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from tests.tidy.project_files import name_of, project_files

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

LONGEST_CHAIN = 2
_CORE_CLASS = re.compile(r"^cdef class (\w+)(?:\((\w+)\))?:", re.MULTILINE)
_CALL = re.compile(r"\b(\w+)(?:\.__new__)?\(")
_NEW = re.compile(r"\.tp_new\(<type>(\w+)")
_ERRORS = {
    name
    for name, value in vars(builtins).items()
    if isinstance(value, type) and issubclass(value, BaseException)
}
_RECORDS = {"NamedTuple", "TypedDict", "Enum", "IntEnum", "StrEnum", "Flag", "IntFlag"}


@dataclass(frozen=True)
class Class:
    """A class of the package, with the names of its bases."""

    place: str
    name: str
    bases: tuple[str, ...]


def faults_of(sources: Mapping[str, str]) -> list[str]:
    """Return what breaks the rules in *sources*, whose names end in .py, .pyx or .pxi.

    Python and the core are looked at apart: a class of Python that has one of the core as its base
    begins a chain of its own.
    """
    trees = {name: ast.parse(text) for name, text in sources.items() if name.endswith(".py")}
    core = {name: text for name, text in sources.items() if not name.endswith(".py")}
    used = {name for tree in trees.values() for name in _used_names(tree)}
    public = {name for tree in trees.values() for name in _public_names(tree)}
    faults = [f for name, tree in trees.items() for f in _empty_methods(name, tree)]
    ours = [one for name, tree in trees.items() for one in _python_classes(name, tree)]
    faults += _faults_of_classes(ours, used | public)
    # A class of the core is found by its name in the text: Cython has no parser for us.
    used_in_core = {
        name
        for text in core.values()
        for find in (_CALL, _NEW)
        for name in find.findall(_code(text))
    }
    ours = [one for name, text in core.items() for one in _core_classes(name, text)]
    faults += _faults_of_classes(ours, used_in_core | used | public)
    return sorted(faults)


def _faults_of_classes(classes: list[Class], made: set[str]) -> Iterator[str]:
    bases: dict[str, set[str]] = {}
    for one in classes:
        bases.setdefault(one.name, set()).update(one.bases)
    children = Counter(base for one in classes for base in set(one.bases))
    apart = {
        one.name
        for one in classes
        if "Protocol" in one.bases or _ancestors(one.name, bases) & (_RECORDS | _ERRORS)
    }
    for one in classes:
        if one.name in apart:
            continue
        chain = _longest_chain(one.name, bases, apart)
        if len(chain) > LONGEST_CHAIN:
            yield f"{one.place}: the chain {' <- '.join(chain)} is longer than {LONGEST_CHAIN}"
        if children[one.name] == 1 and one.name not in made:
            yield f"{one.place}: {one.name} is never made and has one subclass"


def _ancestors(name: str, bases: Mapping[str, set[str]]) -> set[str]:
    """Return *name* and all names above it, those of other libraries too."""
    found, left = set(), [name]
    while left:
        if (one := left.pop()) not in found:
            found.add(one)
            left += bases.get(one, ())
    return found


def _longest_chain(
    name: str, bases: Mapping[str, set[str]], apart: set[str], below: tuple[str, ...] = ()
) -> list[str]:
    ours = [one for one in bases[name] if one in bases and one not in {name, *below, *apart}]
    above = [_longest_chain(one, bases, apart, (name, *below)) for one in sorted(ours)]
    return [name, *max(above, key=len, default=[])]


def _python_classes(name: str, tree: ast.Module) -> Iterator[Class]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            bases = tuple(found for base in node.bases if (found := _last_name(base)))
            yield Class(f"{name}:{node.lineno}", node.name, bases)


def _core_classes(name: str, text: str) -> Iterator[Class]:
    for found in _CORE_CLASS.finditer(text):
        line = text.count("\n", 0, found.start()) + 1
        yield Class(f"{name}:{line}", found[1], (found[2],) if found[2] else ())


def _code(text: str) -> str:
    """Return Cython without the lines that begin a class and without comments."""
    return re.sub(r"#.*", "", _CORE_CLASS.sub("", text))


def _last_name(node: ast.expr) -> str:
    if isinstance(node, ast.Subscript):
        node = node.value
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _used_names(tree: ast.Module) -> Iterator[str]:
    """Yield the names of classes that are made, and other names: a call, a call of a classmethod.

    A class that is passed as an argument counts too: the function may make it.
    """
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        called = _last_name(node.func)
        yield called
        if isinstance(node.func, ast.Attribute) and (called == "__new__" or called[:2] != "__"):
            yield _last_name(node.func.value)  # Name.of(...)
        if called not in {"isinstance", "issubclass", "cast"}:
            for value in (*node.args, *(keyword.value for keyword in node.keywords)):
                yield _last_name(value)


def _public_names(tree: ast.Module) -> Iterator[str]:
    """Yield the names in ``__all__``: users make these."""
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if any(isinstance(one, ast.Name) and one.id == "__all__" for one in targets):
            yield from (one.value for one in ast.walk(node) if isinstance(one, ast.Constant))


def _empty_methods(name: str, tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise) and node.exc is not None:
            error = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
            if _last_name(error) == "NotImplementedError":
                yield f"{name}:{node.lineno}: a method raises NotImplementedError"


def test_no_class_exists_only_to_be_another_s_base():
    """The longest chain of our own classes is two; no method is left to a subclass.

    Exceptions, protocols, named tuples, typed dictionaries and enumerations are apart.
    """
    files = [
        path
        for path in project_files(".py", ".pyx", ".pxi")
        if name_of(path).startswith("segstore/")
    ]

    assert faults_of({name_of(path): path.read_text("utf-8") for path in files}) == []


LONG = """
class A: ...
class B(A): ...
class C(B): ...
A(), B(), C()
"""
BASE_ONLY = """
class A: ...
class B(A): ...
B()
"""
FILLED = """
class A:
    def step(self):
        raise NotImplementedError
A()
"""
CORE_LONG = """
cdef class A:
cdef class B(A):
cdef class C(B):
    def run(self):
        return A(), B(), C()
"""
CORE_BASE_ONLY = """
cdef class _A:
cdef class B(_A):  # not _A() but B()
    def run(self):
        return B()
"""


@pytest.mark.parametrize(
    ("sources", "fault"),
    [
        ({"a.py": LONG}, "a.py:4: the chain C <- B <- A is longer than 2"),
        ({"a.py": BASE_ONLY}, "a.py:2: A is never made and has one subclass"),
        ({"a.py": FILLED}, "a.py:4: a method raises NotImplementedError"),
        ({"a.pxi": CORE_LONG}, "a.pxi:4: the chain C <- B <- A is longer than 2"),
        ({"a.pxi": CORE_BASE_ONLY}, "a.pxi:2: _A is never made and has one subclass"),
        (
            {"a.py": "class A: ...\nA.__init__(0)", "b.py": "import a\nclass B(a.A[int]): ..."},
            "a.py:1: A is never made and has one subclass",
        ),
    ],
)
def test_a_chain_and_a_base_are_found(sources: dict[str, str], fault: str):
    """In one file or in several, and in the core."""
    assert faults_of(sources) == [fault]


@pytest.mark.parametrize(
    "text",
    [
        "class A: ...\nclass B(A): ...\nclass C(A): ...",
        "class A: ...\nclass B(A): ...\nmake(A)",
        "class A: ...\nclass B(A): ...\nA.of()",
        "__all__ = ['A']\nclass A: ...\nclass B(A): ...",
        "class A(ValueError): ...\nclass B(A): ...\nclass C(B): ...",
        "class A(Protocol): ...\nclass B(A): ...\nclass C(B): ...\nB()",
        "class A(TypedDict): ...\nclass B(A): ...\nclass C(B): ...",
        "class A(Library): ...\nclass B(A): ...\nA()",
    ],
    ids=[
        "two subclasses",
        "passed",
        "classmethod",
        "public",
        "errors",
        "protocol",
        "typed",
        "library",
    ],
)
def test_what_the_rules_allow(text: str):
    """Two real classes over one base, and what is apart."""
    assert faults_of({"a.py": text}) == []
