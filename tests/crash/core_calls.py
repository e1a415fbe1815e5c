"""Which functions of `segstore._core` may call the environment: read off their sources.

A function of csrc may when its text calls a member of `sgs_env` that can fail, or a function that
may; one of the wrappers when it does either, or calls a wrapper that may of what it holds. Too many
are no harm: what never comes to a call is found out when it is run.
"""

from __future__ import annotations

import functools
import re
from pathlib import Path

from tests.crash.errno_table import applicable_errnos

ROOT = Path(__file__).parents[2]
C_FUNCTION = re.compile(
    r"^(?:static )?[a-z][^\n;{}#=]*?\b(\w+)\([^;{}]*?\)\s*\{(?:([^\n]*)\}$|(.*?)^\})",
    re.MULTILINE | re.DOTALL,
)
CLASS = re.compile(r"^cdef class (\w+)(?:\((\w+)\))?:")
FUNCTION = re.compile(r"^( *)(?:async )?(?:def|cdef|cpdef) [^\n=]*?\b(\w+)\(.*[:(,]$")
FIELD = re.compile(r"^ +cdef (?:readonly |public )?(\w+) \w+")
MEMBER = re.compile(r"\benv(?:->|\.)(\w+)\(")


def _calls_a_member(text: str) -> bool:
    """Whether a text does; a handle that is closed gives back what it holds."""
    return "mark_closed()" in text or any(
        name in applicable_errnos() for name in MEMBER.findall(text)
    )


def _closed(texts: dict[tuple[str, str], str]) -> set[tuple[str, str]]:
    """Return which of these may, by (file, name): a name is the file's own, or begins with sgs_."""
    words = {key: set(re.findall(r"\b(\w+)\b", text)) for key, text in texts.items()}
    may = {key for key, text in texts.items() if _calls_a_member(text)}
    while True:
        shared = {name for _, name in may if name.startswith("sgs_")}
        more = {
            key
            for key, found in words.items()
            if key not in may and (found & shared or any((key[0], one) in may for one in found))
        }
        if not more:
            return may
        may |= more


@functools.cache
def functions_of_csrc() -> frozenset[str]:
    """Return the functions of the C core that may call the environment, those that are shared."""
    texts: dict[tuple[str, str], str] = {}
    for path in sorted((ROOT / "csrc").rglob("*.[ch]")):
        if path.parent.name != "fuzz" and not path.name.startswith("env_"):
            for found in C_FUNCTION.finditer(path.read_text()):
                key = (path.name, found[1])
                texts[key] = texts.get(key, "") + (found[2] or found[3])
    return frozenset(name for _, name in _closed(texts) if name.startswith("sgs_"))


class _Wrappers:
    """Functions of the .pxi files by (class, name), what they hold, and what their classes are."""

    def __init__(self) -> None:
        self.texts: dict[tuple[str, str], str] = {}
        self.bases: dict[str, str] = {}
        self.fields: dict[str, set[str]] = {}
        for path in sorted((ROOT / "segstore" / "_cython").glob("*.pxi")):
            if path.name != "simulated_disk.pxi":
                self._read(path.read_text())

    def _read(self, text: str) -> None:
        inside, key, indent = "", ("", ""), 0
        for line in text.splitlines():
            if found := CLASS.match(line):
                inside, key = found[1], ("", "")
                self.bases[inside] = (found[2] or "").replace("_Handle", "")
                self.fields[inside] = set()
            elif found := FUNCTION.match(line):
                inside, indent = inside if found[1] else "", len(found[1])
                key = (inside, found[2])
                self.texts.setdefault(key, "")
            elif line.strip() and not line.startswith((" " * (indent + 1), f"{' ' * indent})")):
                key = ("", "")
            elif key[1]:
                self.texts[key] += line + "\n"
            elif inside and (found := FIELD.match(line)):
                self.fields[inside].add(found[1])

    def family(self, name: str) -> set[str]:
        """Return a class, those above it and those below it."""
        family, above = {name}, self.bases.get(name, "")
        while above:
            family.add(above)
            above = self.bases.get(above, "")
        grown = 0
        while grown != len(family):
            grown = len(family)
            family |= {below for below, base in self.bases.items() if base and base in family}
        return family


@functools.cache
def wrappers_that_call() -> frozenset[tuple[str, str]]:
    """Return the functions and methods of `_core` that may, by (class or "", name).

    What a class has from another one, or another from it, is under either's name.
    """
    wrappers, shared = _Wrappers(), functions_of_csrc()
    may = {
        key
        for key, text in wrappers.texts.items()
        if _calls_a_member(text) or shared & set(re.findall(r"\bsgs_\w+", text))
    }
    while True:
        more = {
            (inside, name)
            for (inside, name), text in wrappers.texts.items()
            if (inside, name) not in may and _calls_any(wrappers, inside, text, may)
        }
        if not more:
            break
        may |= more
    names = {(each, name) for inside, name in may for each in wrappers.family(inside) or {""}}
    return frozenset(names | {key for key in may if not key[0]})


def _calls_any(wrappers: _Wrappers, inside: str, text: str, may: set[tuple[str, str]]) -> bool:
    for owner, name in may:
        if not owner and re.search(rf"(?<![.\w]){name}\(", text):
            return True
        held = wrappers.fields.get(inside, set()) | set(re.findall(r"cdef (\w+) \w+", text))
        if inside:
            held |= wrappers.family(inside)
        if owner in held and re.search(rf"\.{name}\(", text):
            return True
        if name == "__cinit__" and re.search(rf"\b{owner}\(", text):
            return True
    return False
