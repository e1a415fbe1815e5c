"""What ``help()`` of a public name shows is plain English, as the documents are."""

from __future__ import annotations

import inspect
import re
from typing import TYPE_CHECKING

import pytest

import segstore
import segstore.spark
from segstore.spark import jobs
from tests.tidy.test_plain_words import LONGEST_SENTENCE, sentences
from tests.tidy.test_texts_of_users import BETTER

if TYPE_CHECKING:
    from collections.abc import Iterator

PUBLIC = {
    **{name: getattr(segstore, name) for name in segstore.__all__},
    **{f"spark.{name}": getattr(segstore.spark, name) for name in segstore.spark.__all__},
    **{f"jobs.{name}": getattr(jobs, name) for name in jobs.__all__},
}
BANNED = re.compile(rf"\b(?:{'|'.join(BETTER)})\b", re.IGNORECASE)
CODE = re.compile(r"``[^`]*``|`[^`]*`")
HEADS = re.compile(r"^-+$|^[\w, *]+ : .*$", re.MULTILINE)


def docstrings(public: object) -> Iterator[str]:
    """Return those of a function, or of a class and what it has, inherited too."""
    yield inspect.getdoc(public) or ""
    for kind in public.__mro__ if isinstance(public, type) else ():
        if kind.__module__.startswith("segstore"):
            for name, member in vars(kind).items():
                if not name.startswith("_") and not isinstance(member, int | bytes | str | tuple):
                    yield inspect.cleandoc(getattr(member, "__doc__", None) or "")


def sentences_of(public: object) -> list[str]:
    """A parameter's line ends a sentence; its indented text begins one."""
    texts = (CODE.sub("CODE", HEADS.sub("\n", text)) for text in docstrings(public))
    return [each for text in texts for each in sentences(re.sub(r"(?m)^ {4}", "", text))]


@pytest.mark.parametrize("name", PUBLIC)
def test_docstrings_are_plain(name: str):
    """[style 5b] Short sentences, and none of the words that no text of a user has."""
    found = sentences_of(PUBLIC[name])

    assert [each for each in found if len(each.split()) > LONGEST_SENTENCE] == []
    assert [each for each in found if BANNED.search(each)] == []


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_has_a_docstring(name: str):
    assert inspect.getdoc(PUBLIC[name])
