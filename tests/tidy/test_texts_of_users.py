"""All texts that a user can see, in one file to be read: tests/tidy/messages.txt.

``python -m tests.tidy.test_texts_of_users`` writes it again.
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

import pytest

from tests.tidy.project_files import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LISTED = ROOT / "tests" / "tidy" / "messages.txt"
BETTER = {
    r"anew": "again, rebuilt",
    r"aside": "quarantined",
    r"behind": "after",
    r"clean stop|clean-shutdown": "clean close, clean shutdown marker",
    r"comes? to": "reaches, is",
    r"for ever": "a deadlock, or the time limit",
    r"in its midst": "in the middle of",
    r"look-ups?": "lookup",
    r"nobody|somebody|whoever": "the writer, recovery, another process",
    r"safe on disk|on stable storage": "durable",
    r"tells?": "reports, says, shows",
    r"to be had": "can be fetched, exists",
    r"(?:by|for|of) who": "a named subject",
}
"""Words that no text of a user has, and those that it has instead [docs/glossary.md]."""
FEWEST_WORDS = 3
WORD = re.compile(r"[A-Za-z]{2,}")
DOCSTRING = re.compile(r'""".*?"""', re.DOTALL)
COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
CYTHON_TEXT = re.compile(r'f?"((?:[^"\\\n]|\\.)*)"')
C_TEXT = re.compile(r'"((?:[^"\\\n]|\\.)*)"')


def is_sentence(text: str) -> bool:
    """Whether *text* is English: names, paths and formats have fewer words."""
    return " " in text.strip() and len(WORD.findall(re.sub(r"\{[^}]*\}", "", text))) >= FEWEST_WORDS


def template(node: ast.Constant | ast.JoinedStr) -> str:
    """Return a text with the names of what is put into it in braces."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    pieces = (
        str(piece.value) if isinstance(piece, ast.Constant) else f"{{{name_in(piece)}}}"
        for piece in node.values
    )
    return "".join(pieces)


def name_in(piece: ast.expr) -> str:
    """Return the name that is put into a text, nothing for what is computed."""
    value = piece.value if isinstance(piece, ast.FormattedValue) else piece
    if isinstance(value, ast.Attribute):
        return value.attr
    return value.id if isinstance(value, ast.Name) else ""


def docstrings(tree: ast.AST) -> set[int]:
    """Return the ids of strings that stand alone: docstrings, also those of attributes."""
    return {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }


def texts_of_python(source: str) -> Iterator[str]:
    tree = ast.parse(source)
    left_out = docstrings(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            left_out |= {id(each) for each in ast.walk(node) if isinstance(each, ast.Constant)}
    texts = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.JoinedStr)
        or (isinstance(node, ast.Constant) and isinstance(node.value, str))
    ]
    for node in sorted(texts, key=lambda each: (each.lineno, each.col_offset)):
        if id(node) not in left_out:
            yield template(node)


def texts_of_cython(source: str) -> Iterator[str]:
    """Yield the literals, those that stand next to each other as one; docstrings are left out."""
    source = DOCSTRING.sub("", source)
    joined, end = "", 0
    for match in CYTHON_TEXT.finditer(source):
        if joined and source[end : match.start()].strip():
            yield joined
            joined = ""
        joined, end = joined + match[1], match.end()
    yield joined


def texts_of_c(source: str) -> Iterator[str]:
    yield from (match[1] for match in C_TEXT.finditer(COMMENT.sub("", source)))


READERS = {
    ".py": texts_of_python,
    ".pyx": texts_of_cython,
    ".pxi": texts_of_cython,
    ".c": texts_of_c,
    ".h": texts_of_c,
}


def sources() -> list[Path]:
    files = [*(ROOT / "segstore").rglob("*"), *(ROOT / "csrc").rglob("*")]
    return sorted(path for path in files if path.suffix in READERS and "fuzz" not in path.parts)


def listing() -> str:
    """Return the texts of each file, in its order, each once."""
    lines: list[str] = []
    for path in sources():
        texts = READERS[path.suffix](path.read_text(encoding="utf-8"))
        found = dict.fromkeys(" ".join(text.split()) for text in texts if is_sentence(text))
        if found:
            lines += [path.relative_to(ROOT).as_posix(), *(f"    {text}" for text in found), ""]
    return "\n".join(lines)


def test_the_texts_that_users_see_are_listed():
    """A change of words is a change of this file, where a reviewer reads it."""
    assert LISTED.read_text(encoding="utf-8") == listing()


@pytest.mark.parametrize("word", BETTER)
def test_texts_of_users_are_plain_english(word):
    """Write what `BETTER` has for it; the sentence says where the text is."""
    banned = re.compile(rf"\b(?:{word})\b(?!-)")
    lines = LISTED.read_text(encoding="utf-8").splitlines()

    assert [(line, BETTER[word]) for line in lines if banned.search(line.strip())] == []


if __name__ == "__main__":
    LISTED.write_text(listing(), encoding="utf-8")
