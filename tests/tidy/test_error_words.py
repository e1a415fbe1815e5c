"""An error says where it was, what was found and what was expected; ``str`` leaves nothing out."""

from __future__ import annotations

import ast
import re

import pytest

from segstore import errors
from tests.tidy.project_files import name_of, project_files

ERRORS = [getattr(errors, name) for name in errors.__all__]
ABOUT_BYTES_OR_ARGUMENTS = {
    each.__name__
    for each in ERRORS
    if issubclass(each, ValueError | TypeError | OverflowError | errors.NotALogError)
    and each is not errors.ClosedError
}
"""What was found and what was expected is known to who raises one."""
OWN_WORDS = ("segstore/cli/", "segstore/spark/")
"""Doors: Kafka's words of a decoder, a usage line, what Spark's Kafka source says."""
EXAMPLE = {"file": "a-0/x.log", "position": 61, "found": "crc 1", "expected": "crc 2"}


@pytest.mark.parametrize("error", ERRORS, ids=lambda each: each.__name__)
def test_what_is_known_is_said(error):
    """File, byte, found and expected stand in the text, behind the sentence."""
    said = str(error("the batch is damaged", **EXAMPLE))

    assert said == ("a-0/x.log, position 61: the batch is damaged (found crc 1, expected crc 2)")


@pytest.mark.parametrize("error", ERRORS, ids=lambda each: each.__name__)
def test_what_the_sentence_says_is_not_said_again(error):
    """As a word of its own: 1 is not in 12."""
    assert str(error("offset 12 is not 7", found="12", expected="7")) == "offset 12 is not 7"
    assert str(error("offset 12", found="1", expected="12")) == "offset 12 (found 1)"


def raised_without_words(text: str) -> list[int]:
    """Lines that make an error about bytes or arguments, without what was found or expected."""
    return [
        node.lineno
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in ABOUT_BYTES_OR_ARGUMENTS
        and not {"found", "expected"} <= {keyword.arg for keyword in node.keywords}
        and not any(isinstance(each, ast.Starred) for each in node.args)  # another error's words
    ]


def raised_without_words_in_cython(text: str) -> list[int]:
    """The same in Cython, which Python cannot parse: up to the bracket that closes the call."""
    found = []
    for match in re.finditer(r"\b(\w+Error)\(", text):
        depth, end = 1, match.end()
        while depth:
            depth += {"(": 1, ")": -1}.get(text[end], 0)
            end += 1
        words = text[match.end() : end]
        is_reported = words == ")" or ("found=" in words and "expected=" in words)
        if match.group(1) in ABOUT_BYTES_OR_ARGUMENTS and not is_reported:
            found.append(text.count("\n", 0, match.start()) + 1)
    return found


@pytest.mark.parametrize("suffix", [".py", ".pxi", ".pyx"])
def test_no_error_about_bytes_or_arguments_leaves_a_reader_guessing(suffix: str):
    """One that takes another's words over passes them on by name."""
    look = raised_without_words if suffix == ".py" else raised_without_words_in_cython
    silent = [
        f"{name_of(path)}:{line}"
        for path in project_files(suffix)
        if name_of(path).startswith("segstore/") and not name_of(path).startswith(OWN_WORDS)
        for line in look(path.read_text(encoding="utf-8"))
    ]

    assert silent == []
