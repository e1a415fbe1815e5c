"""Documents in plain English: short sentences, and one word for one thing [docs/glossary.md]."""

from __future__ import annotations

import re

import pytest

from tests.tidy.project_files import ROOT

LONGEST_SENTENCE = 25
PLAIN = (
    "architecture.md",
    "glossary.md",
    "formats.md",
    "guarantees.md",
    "guide.md",
    "values.md",
    "operations.md",
    "spark.md",
)
"""Documents that keep the rules; one is added when it was rewritten."""
LONGEST_PARAGRAPH_LINES = 6
SHORT_PARAGRAPHS = ("guide.md", "values.md", "operations.md", "spark.md")
DECISIONS = sorted(f"decisions/{path.name}" for path in (ROOT / "docs" / "decisions").glob("*.md"))
ONE_WORD = (*PLAIN, "../README.md", *DECISIONS)

BANNED = re.compile(
    r"\b(?:anew|nobody|somebody|tells|midst|comes to|clean marker|clean stop|closed segments?)\b"
)
FENCE = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
INDENTED = re.compile(r"^ {4}.*$", re.MULTILINE)
CODE_SPAN = re.compile(r"`[^`\n]+`")
LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")
END = re.compile(r"(?<=[.!?:])\*{0,2}\s+|\s+·\s+")


def sentences(text: str) -> list[str]:
    """Return the sentences of a document; a cell of a table and an item of a list end one."""
    text = LINK.sub(r"\1", CODE_SPAN.sub("CODE", INDENTED.sub("", FENCE.sub("", text))))
    pieces = re.split(r"\n\s*\n|^#.*$|^\s*(?:\d+\.|[*-]) |^\||\|$|\s\|\s", text, flags=re.MULTILINE)
    return [each for piece in pieces for each in END.split(" ".join(piece.split())) if each]


@pytest.mark.parametrize("name", [*PLAIN, *DECISIONS])
def test_sentences_are_short(name):
    """A code span, and a link, counts as one word."""
    found = sentences((ROOT / "docs" / name).read_text(encoding="utf-8"))

    assert [each for each in found if len(each.split()) > LONGEST_SENTENCE] == []


@pytest.mark.parametrize("name", SHORT_PARAGRAPHS)
def test_paragraphs_are_short(name):
    """Six lines; tables and code do not count, and an item of a list is a paragraph."""
    text = FENCE.sub("", (ROOT / "docs" / name).read_text(encoding="utf-8"))
    paragraphs = [each.strip().splitlines() for each in re.split(r"\n\s*\n|\n(?=\* )", text)]

    assert [
        lines[0]
        for lines in paragraphs
        if len(lines) > LONGEST_PARAGRAPH_LINES and not lines[-1].startswith("|")
    ] == []


@pytest.mark.parametrize("name", ONE_WORD)
def test_one_word_for_one_thing(name):
    """What the last table of the glossary lists is in no sentence."""
    text = (ROOT / "docs" / name).read_text(encoding="utf-8").partition("## Words that we do")[0]

    assert [each for each in sentences(text) if BANNED.search(each)] == []


def test_the_glossary_has_each_term_once_in_order():
    """Two sentences at most for each, one of them in two with a colon."""
    text = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    entries = re.findall(r"^\*\*([^*]+)\.\*\* (.*?)\n\n", text, re.DOTALL | re.MULTILINE)
    terms = [term.lower() for term, _ in entries]

    assert len(terms) > 50
    assert terms == sorted(set(terms))
    assert [term for term, meaning in entries if len(sentences(meaning)) > 3] == []
