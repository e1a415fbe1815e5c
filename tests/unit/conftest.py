"""A directory held by the core, and a segment in it."""

from __future__ import annotations

import pytest

from segstore._core import Directory

from .segment_inputs import Segment, context_of


@pytest.fixture
def directory(tmp_path):
    opened = Directory(str(tmp_path))
    yield opened
    opened.close()


@pytest.fixture
def segment(directory):
    opened = Segment(context_of(directory), 0, create=True)
    yield opened
    opened.close()
