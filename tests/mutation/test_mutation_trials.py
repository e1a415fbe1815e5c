"""How a mutant of Python code is tried: other code for live functions, in a fork that may crash."""

from __future__ import annotations

import importlib.util
import os
from typing import TYPE_CHECKING

import pytest

from tests.mutation.live_functions import replace_functions
from tests.mutation.told_by_fork import told_by_fork

if TYPE_CHECKING:
    from pathlib import Path
    from types import ModuleType

TEXT = """
from contextlib import contextmanager

def plain(a=1, *, b=2):
    return a + b

def outer():
    return [inner() for inner in (lambda: 1,)]

@contextmanager
def managed():
    yield 1

class Base:
    def __init__(self):
        self.is_begun = True

class Thing(Base):
    def __init__(self):
        super().__init__()

    def method(self):
        return 1

    @property
    def field(self):
        return 1

    @property
    def is_begun_by_super(self):
        return super() is not None

    @staticmethod
    def static():
        return 1

    @classmethod
    def of_class(cls):
        return 1
"""


@pytest.fixture
def module(tmp_path: Path) -> ModuleType:
    path = tmp_path / "mutated_module.py"
    path.write_text(TEXT)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def answers(module: ModuleType, plain: object, thing: object) -> list[object]:
    with module.managed() as managed:
        return [
            *(plain(), module.outer(), managed),
            *(thing.method(), thing.field, thing.static(), thing.of_class()),
        ]


def test_functions_have_other_code_wherever_they_are_referred_to(module):
    """Objects that were made before, and names that were imported from the module, too."""
    plain, thing = module.plain, module.Thing()
    assert answers(module, plain, thing) == [3, [1], 1, 1, 1, 1, 1]

    changed = TEXT.replace("a=1", "a=10").replace("b=2", "b=20")
    for words in ("return", "yield", "lambda:"):
        changed = changed.replace(f"{words} 1", f"{words} 5")
    replace_functions(module, compile(changed, module.__file__, "exec"))

    assert answers(module, plain, thing) == [30, [5], 5, 5, 5, 5, 5]


def test_a_method_does_not_call_super_any_more(module):
    """Its code has no closure then, and that of a live function cannot be taken from it."""
    assert module.Thing().is_begun
    changed = TEXT.replace("super().__init__()", "pass")
    replace_functions(module, compile(changed, module.__file__, "exec"))
    assert not hasattr(module.Thing(), "is_begun")


def test_a_property_that_does_not_call_super_any_more_stays_one(module):
    """Else a mutant that changes nothing would be killed by a function that is always true."""
    changed = TEXT.replace("super() is not None", "False")
    replace_functions(module, compile(changed, module.__file__, "exec"))
    assert module.Thing().is_begun_by_super is False


def test_code_that_cannot_be_imported_says_so(module):
    """And changes nothing."""
    with pytest.raises(ImportError, match="ZeroDivisionError"):
        replace_functions(module, compile("1 / 0", module.__file__, "exec"))
    assert module.plain() == 3


def test_a_fork_tells_what_a_function_returns():
    """And what it raises; nothing happens in this process."""
    seen = []

    def tell() -> str:
        seen.append(1)
        return f"from {os.getpid()}"

    told = told_by_fork(tell, 10)
    assert told is not None
    assert told.startswith("from ")
    assert told != f"from {os.getpid()}"
    assert told_by_fork(lambda: "", 10) == ""
    assert seen == []
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        told_by_fork(lambda: str(1 / 0), 10)


def test_a_fork_that_crashes_or_never_ends_tells_nothing():
    """The limit is one of CPU time: a busy machine ends nobody."""

    def spin() -> str:
        while True:
            pass

    assert told_by_fork(lambda: os._exit(7), 10) is None
    assert told_by_fork(spin, 1) is None
