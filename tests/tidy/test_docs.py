"""What the documents name must exist."""

from __future__ import annotations

import re

import pytest

from tests.tidy.project_files import ROOT, name_of, project_files

DOCUMENTS = project_files(".md")
CODE_SPAN = re.compile(r"`([\w./-]+)`")
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")
FOLDERS = ("csrc/", "segstore/", "tests/", "docs/", "asv_benchmarks/", ".ci/")


@pytest.mark.parametrize("document", DOCUMENTS, ids=name_of)
def test_paths_in_documents_exist(document):
    """A path that begins with a folder of the project, and every relative link."""
    text = document.read_text(encoding="utf-8")

    paths = {span for span in CODE_SPAN.findall(text) if span.startswith(FOLDERS)}
    assert {path for path in paths if not (ROOT / path).exists()} == set()
    links = {link for link in LINK.findall(text) if not link.startswith("/")}
    assert {link for link in links if not (document.parent / link).exists()} == set()


def test_targets_of_make_in_documents_exist():
    """`make demo` must not be only a promise."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^(\w+):", makefile, re.MULTILINE))

    named = {
        name
        for document in DOCUMENTS
        for name in re.findall(
            r"(?:^|`)make (\w+)", document.read_text(encoding="utf-8"), re.MULTILINE
        )
    }
    assert {"demo", "test"} <= named
    assert named - targets == set()


def test_the_architecture_is_short():
    """Whoever changes the code reads all of it; reasons are in docs/decisions."""
    words = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8").split()

    assert len(words) <= 1500
