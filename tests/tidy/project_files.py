"""The project's own files, for tests of its rules; works without git, as in a source archive."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
CORE_FOLDERS = ("base", "io", "record", "index", "segment")

_FOLDERS = ("csrc", "segstore", "tests", "asv_benchmarks", "docs", ".ci")
_NOT_OURS = {".git", "__pycache__", ".asv", "target", "results", "html", ".hypothesis"}


def project_files(*suffixes: str) -> list[Path]:
    """Every file of the project that ends in one of *suffixes*; without any, every file."""
    # In a work tree of git, .git is a file.
    found = [path for path in ROOT.iterdir() if path.is_file()]
    for folder in _FOLDERS:
        found += [path for path in (ROOT / folder).rglob("*") if path.is_file()]
    return sorted(
        path
        for path in found
        if _NOT_OURS.isdisjoint(path.relative_to(ROOT).parts)
        and (not suffixes or path.suffix in suffixes)
    )


def core_files(*suffixes: str) -> list[Path]:
    """Files of the C core; its fuzz targets are left out."""
    folders = (ROOT / "csrc" / name for name in CORE_FOLDERS)
    return sorted(
        path for folder in folders for path in folder.glob("*") if path.suffix in suffixes
    )


def name_of(path: Path) -> str:
    """Path from the top of the tree, for messages."""
    return path.relative_to(ROOT).as_posix()


def module_name(path: Path) -> str:
    """Return ``segstore.log.local.segment`` for its file, ``segstore.log`` for its __init__.py."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def imported_modules(path: Path) -> tuple[tuple[str, bool], ...]:
    """Each segstore module that a Python file imports, and whether only for type checking."""
    return tuple(_imported_modules(path))


@cache
def _known_modules() -> frozenset[str]:
    return frozenset(module_name(file) for file in project_files(".py")) | {"segstore._core"}


def _imported_modules(path: Path) -> Iterator[tuple[str, bool]]:
    known = _known_modules()
    package = (
        module_name(path) if path.name == "__init__.py" else module_name(path).rpartition(".")[0]
    )
    tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
    for node, for_types in _walk(tree, for_types=False):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1]
            base = ".".join(
                [*(above if node.level else []), *([node.module] if node.module else [])]
            )
            whole = [f"{base}.{alias.name}" for alias in node.names]
            names = [name if name in known else base for name in whole]
        else:
            continue
        for name in names:
            if name.partition(".")[0] == "segstore":
                yield name, for_types


def _walk(node: ast.AST, *, for_types: bool) -> Iterator[tuple[ast.AST, bool]]:
    for child in ast.iter_child_nodes(node):
        yield child, for_types
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            for statement in child.body:
                yield statement, True
                yield from _walk(statement, for_types=True)
            for statement in child.orelse:
                yield statement, for_types
                yield from _walk(statement, for_types=for_types)
        else:
            yield from _walk(child, for_types=for_types)
