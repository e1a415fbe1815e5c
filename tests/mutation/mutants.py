"""The small changes: one token of one line each, in C and in Python."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_BOTH: Final = (
    (r"(?<![<>=!+\-*/&|-])<(?![<=>])", "<="),
    (r"<=(?!=)", "<"),
    (r"(?<![->=<])>(?![>=])", ">="),
    (r">=(?!=)", ">"),
    (r"==", "!="),
    (r"!=", "=="),
    (r"(?<=\w) \+ (?=[\w(])", " - "),
    (r"(?<=[\w)]) - (?=[\w(])", " + "),
    (r"\b1\b", "2"),
    (r"\b0\b", "1"),
)
_COMPARED: Final = r"[^&|]*? (?:[=!]=|[<>]=?) "  # a comparison has mutants of its own
_CHANGES: Final = {
    ".c": (
        *_BOTH,
        (r"&&", "||"),
        (r"\|\|", "&&"),
        (r"\btrue\b", "false"),
        (r"\bfalse\b", "true"),
        (rf"(?<=if \()(?=[^!])(?!{_COMPARED})", "!"),
        (r"(?<=if \()!", ""),
        (r"^\s+(?:\(void\))?[a-z_>\-.]+\(.*\);$", ";"),
        (r"^\s+[a-z_>\-.\[\]]+ [+\-|]?= .*;$", ";"),
    ),
    ".py": (
        *_BOTH,
        (r"\band\b", "or"),
        (r"\bor\b", "and"),
        (r"\bTrue\b", "False"),
        (r"\bFalse\b", "True"),
        (r"\bnot in\b", "in"),
        (r"\bif not\b", "if"),
        (r"\bif (?!not|TYPE_CHECKING)(?=.*:$)", "if not "),
        (r"\bis not None\b", "is None"),
        (r"(?<=\S)(?<!is not) is None\b", " is not None"),
        (r"(?<=^)(\s+)(?=[a-z_.]+\(.*\)$)", "pass"),
        (r"\bmin\(", "max("),
        (r"\bmax\(", "min("),
    ),
}
"""By suffix: what is looked for, and what takes its place. A whole line keeps its indentation."""
_SKIPPED: Final = {
    ".c": re.compile(
        r"^\s*(/\*|\*|#|//)|SGS_ASSERT|SGS_EXPECT|^(static|const|struct|typedef|enum)"
    ),
    ".py": re.compile(
        r"^\s*(#|from |import |def |class |@|\"\"\"|raise |_log\.|assert )|\"\"\"|: Final"
    ),
}
_TEXT: Final = re.compile(r"\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'|/\*.*?\*/|  # .*$")


class Mutant(NamedTuple):
    """One line in another form, in a file of the project."""

    name: str
    line_number: int
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.name}:{self.line_number}: {self.before.strip()}  ->  {self.after.strip()}"

    @property
    def is_python(self) -> bool:
        """Whether tests of Python are asked."""
        return self.name.endswith(".py")

    def of(self, text: str) -> str:
        """Return a file's text with it."""
        lines = text.split("\n")
        lines[self.line_number - 1] = self.after
        return "\n".join(lines)


def mutants_of(root: Path, name: str) -> Iterator[Mutant]:
    """Yield every mutant of a file of the project, by lines."""
    path = root / name
    in_text = False
    for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), 1):
        was_in_text = in_text
        if path.suffix == ".py":
            in_text ^= line.count('"""') % 2 == 1
        elif "/*" in line and "*/" not in line:
            in_text = True
        elif "*/" in line:
            in_text = False
        if was_in_text or in_text or _SKIPPED[path.suffix].search(line):
            continue
        for after in _changed(line, path.suffix):
            yield Mutant(name, number, line, after)


def _changed(line: str, suffix: str) -> Iterator[str]:
    texts = [match.span() for match in _TEXT.finditer(line)]
    indentation = line[: len(line) - len(line.lstrip())]
    for pattern, replacement in _CHANGES[suffix]:
        for match in re.finditer(pattern, line):
            if any(begin <= match.start() < end for begin, end in texts):
                continue
            if replacement in {";", "pass"}:
                yield indentation + replacement
            else:
                yield line[: match.start()] + replacement + line[match.end() :]
