"""Giving the functions of an imported module other code, wherever they are referred to."""

from __future__ import annotations

import inspect
from types import CodeType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator


def replace_functions(module: ModuleType, code: CodeType) -> None:
    """Let the functions of *module* be those of *code*: another version of it, line by line.

    What is no function stays.

    Raises
    ------
    ImportError
        *code* cannot be run.
    """
    other = ModuleType(module.__name__)
    other.__dict__.update(__file__=module.__file__, __package__=module.__package__)
    try:
        exec(code, other.__dict__)
    except Exception as error:
        raise ImportError(f"{type(error).__name__}: {error}") from error
    twins = dict(_functions(vars(other), code.co_filename))
    for place, function in _functions(vars(module), code.co_filename):
        twin = twins[place]
        if twin.__code__.co_freevars != function.__code__.co_freevars:
            _put(module, place[0], function, _within_closure(function, twin))
            continue
        function.__code__ = twin.__code__
        function.__defaults__ = twin.__defaults__
        function.__kwdefaults__ = twin.__kwdefaults__


def _within_closure(function: FunctionType, twin: FunctionType) -> FunctionType:
    """Return *function* with the code of *twin*, which uses fewer names from around it."""
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    made = FunctionType(
        twin.__code__,
        function.__globals__,
        function.__name__,
        twin.__defaults__,
        tuple(cells[name] for name in twin.__code__.co_freevars),
    )
    made.__kwdefaults__ = twin.__kwdefaults__
    return made


def _put(module: ModuleType, place: str, function: FunctionType, made: FunctionType) -> None:
    """Let *made* stand where *function* does, wrapped as that is."""
    owner: Any = module
    *classes, name = place.split(".")
    for part in classes:
        owner = getattr(owner, part)
    member = vars(owner)[name]
    if isinstance(member, staticmethod | classmethod):
        setattr(owner, name, type(member)(made))
    elif isinstance(member, property):
        parts = [made if part is function else part for part in (member.fget, member.fset)]
        setattr(owner, name, property(*parts, doc=member.__doc__))
    elif member is function:
        setattr(owner, name, made)
    else:
        raise RuntimeError(f"{place} is wrapped: it cannot be given code without its closure")


def _functions(
    members: dict[str, Any], file: str, prefix: str = ""
) -> Iterator[tuple[tuple[str, int], FunctionType]]:
    """Yield the functions written in *file*, also those of classes, by name and first line."""
    for name, member in list(members.items()):
        if inspect.isclass(member):
            if member.__module__ == members.get("__name__", member.__module__):
                yield from _functions(dict(vars(member)), file, f"{prefix}{name}.")
            continue
        parts = [member, *(getattr(member, part, None) for part in ("fget", "fset", "__func__"))]
        for part in parts:
            found = inspect.unwrap(part) if callable(part) else None
            if isinstance(found, FunctionType) and found.__code__.co_filename == file:
                yield (f"{prefix}{name}", found.__code__.co_firstlineno), found
